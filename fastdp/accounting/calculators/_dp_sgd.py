"""Private training by noisy clipped gradients: what a schedule of batches costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fastdp import _validate
from fastdp._validate import Real, float_up
from fastdp.accounting import conversions
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._numeric import log_down, search
from fastdp.accounting.calculators._estimate import estimated_log_delta, root_near
from fastdp.accounting.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
)
from fastdp.accounting.events._base import check_event, relation_of
from fastdp.accounting.pld import PLDAccountant
from fastdp.accounting.rdp import RDPAccountant
from fastdp.exceptions import CalibrationError, DTypeError, ParameterError

__all__ = ["DPSGDPlan", "dp_sgd"]

_SIGMAS = (Fraction(1, 20), Fraction(10**6))
_LEAST, _LARGEST = math.log(0.05), math.log(1e6)
_MOST_STEPS = 10**12
#: How far below its target ln(delta) may end.
_NEAR = 1e-5

#: Makes an empty accountant.
Maker = Callable[[], Accountant[Any]]


@dataclass(frozen=True, kw_only=True)
class DPSGDPlan:
    """A schedule of noisy clipped gradients and its guarantee; made by `dp_sgd`.

    Parameters
    ----------
    records, batch, steps : int
        Number of records; expected (Poisson) or exact batch size; number of steps.
    sampling : str
        "poisson", "fixed" or "shuffled".
    sigma : float
        Noise multiplier: standard deviation of the noise on the sum of clipped
        gradients, over the clipping norm.
    epsilon, delta : float
        The guarantee of all steps, and of what was given as `before`.
    event : Event
        What is to be composed for it.
    accountant : str
        The notion that the guarantee was read from.
    certified : bool
        False where Poisson's figures were asked for and do not hold.
    """

    records: int
    batch: int
    steps: int
    sampling: str
    sigma: float
    epsilon: float
    delta: float
    event: Event
    accountant: str
    certified: bool

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """Poisson: one record more or less; else one record replaced."""
        return relation_of(self.event)


def dp_sgd(
    records: int,
    *,
    batch: int | None = None,
    steps: int | None = None,
    sigma: Real | None = None,
    epsilon: Real | None = None,
    delta: Real,
    sampling: str,
    before: Event | None = None,
    accountant: Maker | None = None,
    assume_poisson: bool = False,
) -> DPSGDPlan:
    """Return a schedule of private training with what was left out solved for.

    Exactly one of `batch`, `steps`, `sigma` and `epsilon` is left out.

    Parameters
    ----------
    records : int
        Number of records, >= 1; public.
    batch : int, optional
        Batch size, 1 ... records: exact, or its mean for Poisson batches. If left out:
        the largest that meets the target.
    steps : int, optional
        Number of steps, >= 1. If left out: the most that meet the target.
    sigma : int, float, Fraction or Decimal, optional
        Noise multiplier, > 0. If left out: the least that meets the target.
    epsilon : int, float, Fraction or Decimal, optional
        Target, > 0. If left out: what the schedule guarantees.
    delta : int, float, Fraction or Decimal
        > 0 and < 1.
    sampling : str
        How batches are drawn, by the code that trains: "poisson" (each record by a coin
        of its own in every step), "fixed" (a uniform subset of `batch` records, drawn
        anew in every step) or "shuffled" (disjoint batches of a permutation, as most
        data loaders do).
    before : Event, optional
        Earlier phases of the same training, for the same neighboring relation (the
        `event` of their plan); they are in the guarantee.
    accountant : callable, optional
        Makes an empty accountant; None: `PLDAccountant`, or for "fixed"
        `RDPAccountant`, which is far faster there and asks for a few per cent more.
    assume_poisson : bool
        Only with "shuffled": True gives Poisson's figures, which do not hold for
        shuffled batches (the truth may be ten times as large); the plan says so. False
        charges every record in full once an epoch, which holds.

    Returns
    -------
    DPSGDPlan

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type or out of its domain; not exactly one is left
        out; `sampling` is not known or `assume_poisson` does not belong to it.
    CalibrationError
        No value of what was left out meets the target.
    UnsupportedEventError
        The accountant has no bound for such events, or `before` is for another
        neighboring relation.

    Privacy
    -------
    Of all iterates together. Poisson batches: one record more or less (sensitivity 1 in
    clipping norms). Fixed and shuffled ones: one record replaced (sensitivity 2).
    Shuffled batches in one epoch touch a record once, so that an epoch is one Gaussian
    release; partial epochs count as whole ones.

    References
    ----------
    Abadi et al., "Deep Learning with Differential Privacy" (2016); Chua et al., "How
    Private are DP-SGD Implementations?" (2024), for shuffled batches.

    Examples
    --------
    >>> plan = dp_sgd(60_000, batch=256, steps=3510, sigma=1.1, delta=1e-5,
    ...               sampling="poisson")
    >>> round(plan.epsilon, 3), plan.certified
    (1.133, True)
    >>> plan = dp_sgd(60_000, batch=256, steps=3510, epsilon=1, delta=1e-5,
    ...               sampling="poisson")
    >>> plan.epsilon <= 1, round(plan.sigma, 3)
    (True, 1.184)
    """
    n = _validate.integer("records", records, 1)
    wanted = {"batch": batch, "steps": steps, "sigma": sigma, "epsilon": epsilon}
    left_out = [name for name, value in wanted.items() if value is None]
    if len(left_out) != 1:
        raise ParameterError(
            "exactly one of batch, steps, sigma and epsilon must be left out, got "
            f"{len(left_out)} left out"
        )
    _check_sampling(sampling, assume_poisson)
    setting = _Setting(
        n,
        sampling,
        assume_poisson,
        None if before is None else check_event("before", before),
        accountant or (RDPAccountant if sampling == "fixed" else PLDAccountant),
        float(_validate.open_unit("delta", delta)),
    )
    m = None if batch is None else _validate.integer("batch", batch, 1, n)
    count = None if steps is None else _validate.integer("steps", steps, 1)
    width = None if sigma is None else _validate.between("sigma", sigma, *_SIGMAS)
    met: Real | None = None
    if epsilon is not None:
        target = _target(epsilon, delta)
        if m is None and count is not None and width is not None:
            m = setting.largest_batch(target, count, width)
        elif count is None and m is not None and width is not None:
            count = setting.most_steps(target, m, width)
        elif width is None and m is not None and count is not None:
            width, met = setting.least_sigma(target, m, count), epsilon
    assert m is not None
    assert count is not None
    assert width is not None
    return setting.plan(m, count, width, delta, met)


def _check_sampling(sampling: str, assume_poisson: bool) -> None:
    if sampling not in ("poisson", "fixed", "shuffled"):
        raise ParameterError(
            "sampling must be 'poisson', 'fixed' or 'shuffled': what the training code "
            f"does, got {sampling!r}"
        )
    if not isinstance(assume_poisson, bool):
        raise DTypeError(
            f"assume_poisson must be a bool, got {type(assume_poisson).__name__}"
        )
    if assume_poisson and sampling != "shuffled":
        raise ParameterError("assume_poisson must be False but for shuffled batches")


@dataclass(frozen=True)
class _Setting:
    """What does not change while a parameter is solved for."""

    records: int
    sampling: str
    assume_poisson: bool
    before: Event | None
    maker: Maker
    delta: float

    def parts(self, batch: int, steps: int, sigma: Real) -> tuple[Event, int]:
        """Return the event of one step (or epoch), and how often it occurs."""
        width = _validate.exact("sigma", sigma)
        replace = NeighboringRelation.REPLACE_ONE
        n = self.records
        if self.is_poisson:
            rate = Fraction(batch, n)
            one: Event = GaussianEvent(sensitivity=Fraction(1), sigma=width)
            return (PoissonSampledEvent(rate, one) if rate < 1 else one), steps
        one = GaussianEvent(
            sensitivity=Fraction(2), sigma=width, neighboring_relation=replace
        )
        if self.sampling == "shuffled":
            return one, -(-steps * batch // n)
        if batch == n:
            return one, steps
        return SampledWithoutReplacementEvent(
            source_dataset_size=n, sample_size=batch, event=one
        ), steps

    def composed(self, event: Event, count: int) -> Accountant[Any]:
        accountant = self.maker()
        if self.before is not None:
            accountant.compose(self.before)
        return accountant.compose(event, count)

    def plan(
        self, batch: int, steps: int, sigma: Real, delta: Real, epsilon: Real | None
    ) -> DPSGDPlan:
        """Return the plan; an epsilon that is known to be met is not looked for."""
        event, count = self.parts(batch, steps, sigma)
        whole: Event = SelfComposedEvent(event, count)
        if self.before is not None:
            whole = ComposedEvent((self.before, whole))
        if epsilon is None:
            epsilon = self.composed(event, count).epsilon(delta)
        return DPSGDPlan(
            records=self.records,
            batch=batch,
            steps=steps,
            sampling=self.sampling,
            sigma=float(sigma),
            epsilon=float_up(_validate.exact("epsilon", epsilon)),
            delta=self.delta,
            event=whole,
            accountant=type(self.maker()).__name__,
            certified=not self.assume_poisson,
        )

    def excess(self, target: _Target, batch: int, steps: int, sigma: Real) -> float:
        """Return how far ln(delta) is above its target."""
        composed = self.composed(*self.parts(batch, steps, sigma))
        return max(composed.log_delta(target.epsilon), -1e300) - target.limit

    def least_sigma(self, target: _Target, batch: int, steps: int) -> Fraction:
        """Return a sigma that meets the target, next to the least."""
        times, rate = steps, batch / self.records
        if self.charges_epochs:
            times, rate = -(-steps * batch // self.records), 1.0
        wide = 1.0 if self.is_poisson else 2.0  # the sensitivity
        guess = wide / math.sqrt(math.log1p((target.mu / rate) ** 2 / times))
        guess = min(max(guess, 0.05), 1e6)
        # d ln(mu)/d ln(sigma) = -(1/sigma^2)/(1 - exp(-1/sigma^2)) at the guess
        inverse = (wide / guess) ** 2
        slope = target.slope() * inverse / math.expm1(-min(inverse, 700.0))
        better = self.estimate(
            target, lambda sigma: (rate, sigma / wide, times), guess, slope
        )
        guess, slope = better or (guess, slope)

        def excess(sigma: float) -> float:
            return self.excess(target, batch, steps, sigma)

        found = _secant(excess, guess, slope)
        if found is None:
            found = search("sigma", excess, guess, _SIGMAS, 1e-2, 1e-9)
        return Fraction(found)

    def estimate(
        self,
        target: _Target,
        setting: Callable[[float], tuple[float, float, float]],
        guess: float,
        slope: float,
    ) -> tuple[float, float] | None:
        """Return about where the target is met, and the slope of ln(delta) there.

        `setting` gives rate, noise and steps for the parameter that is looked for;
        None where there is no estimate for them.
        """
        if self.before is not None or setting(guess)[0] >= 1:
            return None
        epsilon = float(target.epsilon)

        def excess(x: float) -> float:
            rate, sigma, steps = setting(x)
            found = estimated_log_delta(min(rate, 1.0), sigma, steps, epsilon)
            return found - target.limit + _NEAR / 2

        return root_near(excess, guess, slope)

    def most_steps(self, target: _Target, batch: int, sigma: Fraction) -> int:
        """Return the largest number of steps that meets the target."""
        if self.charges_epochs:  # in whole epochs
            epochs = _largest(
                "steps",
                lambda k: self.excess(target, self.records, k, sigma),
                target.mu**2 * float(sigma) ** 2 / 4,
                _MOST_STEPS,
            )
            return epochs * self.records // batch
        rate, width = batch / self.records, float(sigma)
        guess = (target.mu / rate) ** 2 / math.expm1(min(width**-2, 700.0))
        better = self.estimate(
            target, lambda k: (rate, width, k), guess, target.slope() / 2
        )
        return _largest(
            "steps",
            lambda k: self.excess(target, batch, k, sigma),
            better[0] if better else guess,
            _MOST_STEPS,
            sure=better is not None,
        )

    def largest_batch(self, target: _Target, steps: int, sigma: Fraction) -> int:
        """Return the largest batch that meets the target."""
        n, width = self.records, float(sigma)
        guess = target.mu / math.sqrt(steps * math.expm1(min(width**-2, 700.0))) * n
        better = self.estimate(
            target, lambda m: (m / n, width, steps), guess, target.slope()
        )
        return _largest(
            "batch",
            lambda m: self.excess(target, m, steps, sigma),
            better[0] if better else guess,
            n,
            sure=better is not None,
        )

    @property
    def is_poisson(self) -> bool:
        """Whether batches are drawn, or taken for drawn, by coins."""
        return self.sampling == "poisson" or self.assume_poisson

    @property
    def charges_epochs(self) -> bool:
        """Whether every record is charged in full once an epoch."""
        return self.sampling == "shuffled" and not self.assume_poisson


@dataclass(frozen=True)
class _Target:
    """An (epsilon, delta) to be met; `mu` is about that of its Gaussian privacy."""

    epsilon: Fraction
    limit: float
    mu: float

    def slope(self) -> float:
        """Return about d ln(delta)/d ln(mu): mu phi(epsilon/mu - mu/2)/delta."""
        a = float(self.epsilon) / self.mu - self.mu / 2
        return self.mu * math.exp(min(-a * a / 2 - self.limit, 50.0)) / 2.51


def _target(epsilon: Real, delta: Real) -> _Target:
    e, d = _validate.positive("epsilon", epsilon), _validate.open_unit("delta", delta)
    guess = _Target(
        e, log_down(d), math.sqrt(2 * conversions.zcdp_to_rho(epsilon=e, delta=d))
    )
    if not guess.mu > 0:
        return _Target(e, guess.limit, 1e-150)
    for _ in range(3):
        missing = guess.limit - conversions.gaussian_log_delta(
            epsilon=e, sensitivity=guess.mu, sigma=1
        )
        factor = math.exp(max(-0.5, min(0.5, missing / max(guess.slope(), 1e-3))))
        guess = _Target(e, guess.limit, guess.mu * factor)
    return guess


def _secant(
    excess: Callable[[float], float], guess: float, slope: float
) -> float | None:
    """Return a point where `excess` was found just below 0, in logarithms of it.

    A step by the given slope, a secant, then inverse interpolation in three points.
    """
    x = math.log(guess)
    seen: list[tuple[float, float]] = []  # (excess + _NEAR/2, logarithm)
    for _ in range(12):
        value = excess(math.exp(x))
        if -_NEAR <= value <= 0:
            return math.exp(x)
        seen = [*seen[-2:], (value + _NEAR / 2, x)]
        if not math.isfinite(value) or len({f for f, _ in seen}) < len(seen):
            return None
        if len(seen) == 1:
            goal = x - seen[0][0] / slope
        else:
            goal = sum(
                place * math.prod(-g / (f - g) for g, _ in seen if g != f)
                for f, place in seen
            )
        x += max(-0.5, min(0.5, goal - x))
        if not _LEAST <= x <= _LARGEST:
            return None
    return None


def _largest(
    name: str,
    excess: Callable[[int], float],
    guess: float,
    most: int,
    *,
    sure: bool = False,
) -> int:
    """Return the largest k in 1 ... most with excess(k) <= 0; excess grows with k.

    From a guess outwards by doubling steps, small ones where it is sure, then by
    bisection.
    """
    k = int(min(max(guess, 1.0), float(most)))
    step = max(1, k // (10**7 if sure else 50))
    if excess(k) <= 0:
        low, high = k, min(k + step, most)
        while excess(high) <= 0:
            if high == most:
                return most
            low, step = high, 2 * step
            high = min(high + step, most)
    else:
        high, low = k, max(k - step, 1)
        while excess(low) > 0:
            if low == 1:
                raise CalibrationError(f"{name} must be >= 1, but 1 exceeds the target")
            high, step = low, 2 * step
            low = max(low - step, 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return low
