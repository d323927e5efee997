"""opacus training with our noise, batches and accounting; see docs/howto/opacus.md."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from fastdp import _public, _validate, accounting, random
from fastdp.accounting.events import DiscreteGaussianEvent, Event
from fastdp.adapters import _library
from fastdp.exceptions import ParameterError, UnsupportedEventError
from fastdp.training import GradientAccumulator, GradientSum

opacus: Any = _library.load("opacus", package="opacus", tested=("1.6", "1.7"))
_Accountant: Any = opacus.accountants.IAccountant if opacus else object
_Optimizer: Any = opacus.optimizers.DPOptimizer if opacus else object
_Engine: Any = opacus.PrivacyEngine if opacus else object

__all__ = ["Accountant", "DPOptimizer", "PrivacyEngine"]

_SEED = "whoever knows a seed knows the noise"

#: Options of opacus: the accepted values, and why no others are.
_TAKEN: dict[str, tuple[tuple[Any, ...], str]] = {
    "generator": ((None,), _SEED),
    "noise_generator": ((None,), _SEED),
    "poisson_sampling": ((True,), "the accounting is that of Poisson batches"),
    "rand_on_empty": (
        (False,),
        "a record added to an empty batch would replace an invented one: two bounds",
    ),
    "clipping": (("flat", "per_layer"), "adaptive bounds are read from private norms"),
    "grad_sample_mode": (
        ("hooks", "functorch", "ew"),
        "ghost clipping forms no gradient of an example, and sums in floats",
    ),
    "distributed": (
        (False,),
        "machines' sums meet in floats; merge accumulators of training.GradientSum",
    ),
    "accumulated_iterations": (
        (1,),
        "an example may be in several batches; split one by BatchMemoryManager",
    ),
}


class Accountant(_Accountant):  # type: ignore[misc]
    """An opacus accountant over `accounting.PLDAccountant`, with the name "fastdp".

    ``history`` holds tuples (noise, sample rate, steps). The noise is the JSON text of
    `DPOptimizer.event`, or the multiplier of exact Gaussian noise; opacus's own noise,
    drawn in floats, is only close to exact.

    Privacy
    -------
    Epsilon is a proved upper bound for `ADD_OR_REMOVE_ONE` and Poisson batches.
    """

    def __init__(self) -> None:
        _library.require(opacus, "opacus")
        self.history: list[tuple[Any, float, int]] = []

    def step(self, *, noise_multiplier: float | str, sample_rate: float) -> None:
        """Count one step; `noise_multiplier` may be an event's JSON text."""
        _sampled(noise_multiplier, sample_rate)
        same, steps = (noise_multiplier, sample_rate), 1
        if self.history and tuple(self.history[-1][:2]) == same:
            steps += self.history.pop()[2]
        self.history.append((*same, steps))

    def get_epsilon(self, delta: float, **_: Any) -> float:
        """Return epsilon at `delta`, rounded up; infinity if a step has no noise.

        Options of opacus's accountants for grids and orders have no effect.
        """
        total = accounting.PLDAccountant()
        for noise, rate, steps in self.history:
            if noise == 0:
                return math.inf
            total.compose(_sampled(noise, rate), steps)
        return float(total.epsilon(delta))

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """Return a function that counts a step of our or opacus's optimizer."""

        def hook(optimizer: Any) -> None:
            _check(accumulated_iterations=optimizer.accumulated_iterations)
            noise = optimizer.noise_multiplier
            if isinstance(optimizer, DPOptimizer):
                noise = optimizer.event().to_json()
            self.step(noise_multiplier=noise, sample_rate=sample_rate)

        return hook

    def __len__(self) -> int:
        return sum(steps for *_, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """Return the name in opacus's registry."""
        return "fastdp"


class DPOptimizer(_Optimizer):  # type: ignore[misc]
    """opacus's optimizer with sums and noise of `training.GradientSum`.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Optimizer that steps along the noisy gradients.
    generator : None
        Must be None: a seed is refused.
    workers : int
        Number of threads that clip, sum and draw.
    **options
        As in opacus; `max_grad_norm` may be a list with a bound for each parameter.

    Privacy
    -------
    A step has the guarantee of `event()` if its batch is public; for Poisson batches
    the event is sampled (`Accountant`). Exact if an example's gradient does not depend
    on the rest of its batch. This holds for physical batches of one example. In larger
    batches torch may round differently when the batch size changes, and it does so if
    the loss is a mean: this is not charged. Timing class T0 for sums and noise.
    """

    def __init__(
        self,
        optimizer: Any,
        *,
        generator: None = None,
        workers: int = 1,
        **options: Any,
    ) -> None:
        _library.require(opacus, "opacus")
        _check(generator=generator)
        self._total: GradientAccumulator | None = None
        self._event: DiscreteGaussianEvent | None = None
        self._workers = _validate.integer("workers", workers, 1)
        super().__init__(optimizer, **options)
        self.event()  # refuse bad options

    @property
    def mechanism(self) -> GradientSum:
        """The mechanism for the current noise multiplier and clipping bounds."""
        bound = self.max_grad_norm
        bounds = tuple(bound) if isinstance(bound, (list, tuple)) else bound
        shapes = tuple(tuple(p.shape) for p in self.params)
        return _mechanism(self.noise_multiplier, bounds, shapes)

    def event(self) -> DiscreteGaussianEvent:
        """Return the event of the last step, or of the first one before any step."""
        return self._event or self.mechanism.event()

    def clip_and_accumulate(self) -> None:
        """Add the clipped gradients of a batch, or of a part of it, exactly."""
        _check(accumulated_iterations=self.accumulated_iterations)
        if any(hasattr(p.grad_sample, "_processed") for p in self.params):
            raise ParameterError("zero_grad() must be called after each step")
        self._total = self._total or self.mechanism.accumulator()
        self._total.add([_host(g) for g in self.grad_samples], workers=self._workers)
        for p in self.params:
            p.grad_sample._processed = True

    def add_noise(self) -> None:
        """Write the noisy sums into the parameters' gradients."""
        if self._total is None:
            raise ParameterError("backward() must be called before each step")
        total, self._total = self._total, None
        self._event = total._mechanism.event()
        sums = [_host(p).new_zeros(p.shape) for p in self.params]
        total.release(out=[s.numpy() for s in sums], workers=self._workers)
        for p, noisy in zip(self.params, sums, strict=True):
            p.grad = noisy.to(p)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Clear gradients; keep the sum of a batch that has further parts."""
        if not self._is_last_step_skipped:
            self._total = None
        super().zero_grad(set_to_none)


class PrivacyEngine(_Engine):  # type: ignore[misc]
    """opacus's engine with `Accountant`, `DPOptimizer`, and batches of exact bits.

    Parameters
    ----------
    accountant : str
        Name of an accountant in opacus's registry.
    secure_mode : bool
        No effect: noise and batches always come from fresh keys.
    """

    def __init__(self, *, accountant: str = "fastdp", secure_mode: bool = True) -> None:
        _library.require(opacus, "opacus")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Secure RNG turned off")
            super().__init__(accountant=accountant, secure_mode=False)

    def make_private(self, **options: Any) -> Any:
        """Return module, optimizer and loader; `options` are as in opacus.

        Raises
        ------
        UnsupportedEventError
            No exact sensitivity is known for an option; the message has the reason.
        """
        _check(**options)
        return super().make_private(**options)

    def _prepare_optimizer(self, *, optimizer: Any, **options: Any) -> DPOptimizer:
        _check(**options)
        inner = getattr(optimizer, "original_optimizer", optimizer)
        taken = {k: v for k, v in options.items() if k not in _TAKEN}
        return DPOptimizer(inner, **taken)

    def _prepare_data_loader(self, data_loader: Any, **options: Any) -> Any:
        loader = super()._prepare_data_loader(data_loader, **options)
        batches = _Batches(len(loader.dataset), loader.sample_rate, len(data_loader))
        # torch refuses a plain assignment, and opacus supports only its own samplers.
        object.__setattr__(loader, "batch_sampler", batches)
        return loader


class _Batches:
    """Poisson batches: each record joins each batch by an independent exact bit."""

    def __init__(self, records: int, rate: float, steps: int) -> None:
        self._records, self._rate, self._steps = records, rate, steps

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self._steps):
            joins = random.bernoulli(self._rate, size=self._records)
            yield np.flatnonzero(joins).tolist()


def _check(**options: Any) -> None:
    for name, (taken, reason) in _TAKEN.items():
        value = options.get(name, taken[0])
        if value not in taken:
            rule = " or ".join(map(repr, taken))
            raise UnsupportedEventError(
                f"{name} must be {rule}, got {value!r}: {reason}"
            )


@lru_cache(maxsize=16)
def _mechanism(multiplier: float, bound: Any, shapes: Any) -> GradientSum:
    bounds = bound if isinstance(bound, tuple) else (bound,)
    lengths = [float(_validate.positive("max_grad_norm", b)) for b in bounds]
    sigma = float(_validate.positive("noise_multiplier", multiplier))
    return GradientSum(sigma=sigma * math.hypot(*lengths), radius=bound, shapes=shapes)


def _sampled(noise: Any, rate: Any) -> Event:
    """Return the event of a step on a Poisson batch; noise 0 allows any sigma."""
    if isinstance(noise, str):
        return accounting.PoissonSampledEvent(rate, Event.from_json(noise))
    law = accounting.GaussianEvent(sensitivity=Fraction(1), sigma=noise or Fraction(1))
    return accounting.PoissonSampledEvent(rate, law)


def _host(x: Any) -> Any:
    """Return a tensor as float32 or float64 in the host's memory."""
    host = x.detach().cpu()
    return host.double() if str(x.dtype) == "torch.float64" else host.float()


if opacus:
    opacus.accountants.register_accountant("fastdp", Accountant, force=True)
_public.show(globals())
