"""Private training by noisy clipped gradients: the cost of a schedule of batches."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

from fastdp import _validate
from fastdp._validate import Real, float_up
from fastdp.accounting import conversions
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._numeric import log_down, search
from fastdp.accounting.calculators._estimate import (
    NEAR,
    estimated_log_delta,
    largest_count,
    root_below,
    root_near,
)
from fastdp.accounting.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    RandomAllocationEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
)
from fastdp.accounting.events._base import check_event, relation_of
from fastdp.accounting.pld import PLDAccountant
from fastdp.accounting.rdp import RDPAccountant
from fastdp.exceptions import (
    CalibrationError,
    DTypeError,
    FastDPError,
    ParameterError,
)

__all__ = ["DPSGDPlan", "dp_sgd"]

_SIGMAS = (Fraction(1, 20), Fraction(10**6))
_MOST_STEPS = 10**12

#: ln(delta) may end this far below its target if only bounds of it are known.
_NEAR_BOUNDS = 2e-3

#: A function that returns an empty accountant.
Maker = Callable[[], Accountant[Any]]

_Parts: TypeAlias = tuple[tuple[Event, int], ...]


@dataclass(frozen=True, kw_only=True)
class DPSGDPlan:
    """A schedule of noisy clipped gradients with its guarantee, from `dp_sgd`.

    Parameters
    ----------
    records, steps : int
        Number of records and of steps.
    batch : int or float
        Exact batch size, or the mean batch size (Poisson, allocated), which need not be
        whole.
    sampling : str
        "poisson", "allocated", "fixed" or "shuffled".
    sigma : float
        Noise multiplier: standard deviation of the noise on the sum of clipped
        gradients, over the clipping norm.
    epsilon, delta : float
        The guarantee of all steps, including those of `before`.
    event : Event
        The event of the schedule, for composition.
    accountant : str
        The notion that the guarantee was read from.
    certified : bool
        False if the figures assume Poisson sampling and do not hold.
    """

    records: int
    batch: float
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
        """One record added or removed (Poisson, allocated), or else one replaced."""
        return relation_of(self.event)

    @property
    def sampling_rate(self) -> float:
        """The share of the records in a batch."""
        return self.batch / self.records

    @property
    def epochs(self) -> float:
        """Average number of passes over the records."""
        return self.steps / float(
            _epoch(self.records, Fraction(self.batch), self.sampling)
        )


def dp_sgd(
    records: int,
    *,
    batch: int | None = None,
    sampling_rate: Real | None = None,
    steps: int | None = None,
    epochs: Real | None = None,
    sigma: Real | None = None,
    epsilon: Real | None = None,
    delta: Real,
    sampling: str,
    before: Event | None = None,
    accountant: Maker | None = None,
    assume_poisson: bool = False,
    largest_batch: int | None = None,
) -> DPSGDPlan:
    """Return a schedule of private training, solving for the missing parameter.

    Leave out exactly one of `batch`, `steps`, `sigma` and `epsilon`; `sampling_rate`
    may replace `batch`, and `epochs` may replace `steps`.

    Parameters
    ----------
    records : int
        Number of records, >= 1; public.
    batch : int, optional
        Batch size, 1 ... records: exact, or the mean for Poisson batches. For allocated
        batches an epoch has records/batch steps, rounded up, and the mean batch is
        records over this number. If left out: the largest batch that meets the target.
    sampling_rate : int, float, Fraction or Decimal, optional
        In place of `batch`: batch/records, > 0 and <= 1. For Poisson batches it is the
        exact probability of each record; for fixed and shuffled batches it must give a
        whole batch.
    steps : int, optional
        Number of steps, >= 1. If left out: the largest number that meets the target.
    epochs : int, float, Fraction or Decimal, optional
        In place of `steps`: passes over the records, > 0; epochs * records/batch steps,
        rounded up. The batch must be known. A shuffled epoch has records // batch steps
        and leaves out the records that do not fill a batch.
    sigma : int, float, Fraction or Decimal, optional
        Noise multiplier, > 0. If left out: the least multiplier that meets the target.
    epsilon : int, float, Fraction or Decimal, optional
        Target, > 0. If left out: the schedule's guarantee.
    delta : int, float, Fraction or Decimal
        > 0 and < 1.
    sampling : str
        How the training code draws batches: "poisson" (each record by its own coin in
        every step), "allocated" (each record joins one step of every epoch, uniformly
        and independently: `fastdp.random.allocate`), "fixed" (a uniform subset of
        `batch` records, drawn again in every step) or "shuffled" (disjoint batches of a
        permutation, as in most data loaders; changing one line to "allocated" costs far
        less).
    before : Event, optional
        Earlier phases of the same training (the `event` of their plan), for the same
        neighboring relation; the guarantee includes them.
    accountant : callable, optional
        Callable that makes an empty accountant. None: `PLDAccountant`, or for "fixed"
        `RDPAccountant`, which is far faster for "fixed" and a few percent less tight.
    assume_poisson : bool
        Only with "shuffled". True gives the figures for Poisson batches, which do not
        hold for shuffled batches (the true epsilon may be ten times as large); the plan
        says so. False charges every record in full once per epoch of records // batch
        steps, which holds.
    largest_batch : int, optional
        Only with "poisson": a larger batch is cut to this number of records (a uniform
        subset, or the first in a public order), so that all arrays have one shape.

    Returns
    -------
    DPSGDPlan

    Raises
    ------
    CalibrationError
        No value of the missing parameter meets the target.
    UnsupportedEventError
        The accountant has no bound for these events, or `before` is for another
        neighboring relation.

    Privacy
    -------
    The guarantee is for all iterates together. Poisson and allocated batches: one
    record added or removed (sensitivity 1 in clipping norms); sums must be divided by a
    public number, not by the batch size, and nothing may reveal the members or the size
    of a batch. Fixed and shuffled batches: one record replaced (sensitivity 2). Cut
    Poisson batches cost more than uncut ones, because one record may push out another
    (docs/proofs/amplification.md, section 6). Allocated batches: an epoch that is cut
    short is a sample of a shorter one. In one shuffled epoch each record is in at most
    one batch, so that an epoch is one Gaussian release; a partial epoch counts as a
    whole one, and a smaller last batch counts as the first of a new epoch.

    References
    ----------
    Abadi et al., "Deep Learning with Differential Privacy" (2016); Chua et al., "How
    Private are DP-SGD Implementations?" (2024), for shuffled batches; Feldman and
    Shenfeld, "Privacy Amplification by Random Allocation" (2025).

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
    wanted = {
        "batch": _one_of("batch", batch, "sampling_rate", sampling_rate),
        "steps": _one_of("steps", steps, "epochs", epochs),
        "sigma": sigma,
        "epsilon": epsilon,
    }
    left_out = [name for name, value in wanted.items() if value is None]
    if len(left_out) != 1:
        raise ParameterError(
            "exactly one of batch (or sampling_rate), steps (or epochs), sigma and "
            f"epsilon must be left out, got {len(left_out)} left out"
        )
    _check_sampling(sampling, assume_poisson)
    if largest_batch is not None:
        largest_batch = _validate.integer("largest_batch", largest_batch, 1)
        if sampling != "poisson":
            raise ParameterError(
                "largest_batch must be None unless batches are Poisson "
                "samples: it is proved only for these, got "
                f"sampling={sampling!r}"
            )
    setting = _Setting(
        n,
        sampling,
        largest_batch,
        assume_poisson,
        None if before is None else check_event("before", before),
        accountant or (RDPAccountant if sampling == "fixed" else PLDAccountant),
        float_up(_validate.open_unit("delta", delta)),
    )
    m = None if batch is None else Fraction(_validate.integer("batch", batch, 1, n))
    if sampling_rate is not None:
        m = _batch_of(sampling_rate, n, whole=not setting.by_coins)
    m = m and setting.batch(m)
    count = None if steps is None else _validate.integer("steps", steps, 1)
    if epochs is not None:
        count = _steps_of(epochs, n, m, sampling)
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


def _one_of(name: str, value: object, other: str, instead: object) -> object:
    """Return the given one of two equivalent parameters."""
    if value is not None and instead is not None:
        raise ParameterError(
            f"{name} and {other} state the same number: give only one of them"
        )
    return instead if value is None else value


def _batch_of(sampling_rate: Real, records: int, *, whole: bool) -> Fraction:
    """Return the batch of a rate; if it must be whole, round a nearly whole one."""
    rate = _validate.positive("sampling_rate", sampling_rate)
    if rate > 1:
        raise ParameterError(
            f"sampling_rate must be <= 1, got {_validate.shown(sampling_rate)}"
        )
    batch = rate * records
    if not whole:
        return batch
    nearest = round(batch)
    if nearest < 1 or abs(batch - nearest) > batch / 10**9:
        raise ParameterError(
            "sampling_rate times records must be a whole number if "
            "batches have a fixed size, got "
            f"{_validate.shown(sampling_rate)} times {records}: give "
            "batch instead"
        )
    return Fraction(nearest)


def _epoch(records: int, batch: Fraction, sampling: str) -> Fraction:
    """Return the mean number of steps for one pass over the records.

    Shuffled batches are disjoint and of one size, so a permutation has records //
    batch.
    """
    return Fraction(records // batch) if sampling == "shuffled" else records / batch


def _steps_of(epochs: Real, records: int, batch: Fraction | None, sampling: str) -> int:
    """Return the number of steps for `epochs` passes over the records, rounded up."""
    passes = _validate.positive("epochs", epochs)
    if batch is None:
        raise ParameterError(
            "epochs must come with batch or sampling_rate: give steps instead"
        )
    found = passes * _epoch(records, batch, sampling) * (1 - Fraction(1, 10**12))
    return _validate.integer("steps", math.ceil(found), 1, _MOST_STEPS)


def _check_sampling(sampling: str, assume_poisson: bool) -> None:
    if sampling not in ("poisson", "allocated", "fixed", "shuffled"):
        raise ParameterError(
            "sampling must be 'poisson', 'allocated', 'fixed' or 'shuffled': what the "
            f"training code does, got {sampling!r}"
        )
    if not isinstance(assume_poisson, bool):
        raise DTypeError(
            f"assume_poisson must be a bool, got {type(assume_poisson).__name__}"
        )
    if assume_poisson and sampling != "shuffled":
        raise ParameterError(
            "assume_poisson must be False unless sampling is 'shuffled'"
        )


@dataclass(frozen=True)
class _Setting:
    """The values that stay fixed while a parameter is solved for."""

    records: int
    sampling: str
    cap: int | None
    assume_poisson: bool
    before: Event | None
    maker: Maker
    delta: float

    def parts(self, batch: Fraction, steps: int, sigma: Real) -> _Parts:
        """Return the events of steps or epochs, and how often each occurs."""
        width = _validate.exact("sigma", sigma)
        replace = NeighboringRelation.REPLACE_ONE
        n, rate = self.records, batch / self.records
        if self.by_coins:
            one: Event = GaussianEvent(sensitivity=Fraction(1), sigma=width)
            if self.cap is not None:
                sample = PoissonSampledEvent(
                    rate, one, largest_batch=self.cap, records=n
                )
                return ((sample, steps),)
            if rate == 1:
                return ((one, steps),)
            if self.sampling != "allocated":
                return ((PoissonSampledEvent(rate, one), steps),)
            epochs, cut = divmod(steps, int(1 / rate))
            whole = RandomAllocationEvent(steps=int(1 / rate), event=one, selected=1)
            # A record's step is one of the first `cut` with probability cut * rate.
            some = (
                one
                if cut <= 1
                else RandomAllocationEvent(steps=cut, event=one, selected=1)
            )
            parts = (whole, epochs), (PoissonSampledEvent(cut * rate, some), cut and 1)
            return tuple(part for part in parts if part[1])
        one = GaussianEvent(
            sensitivity=Fraction(2), sigma=width, neighboring_relation=replace
        )
        if self.sampling == "shuffled":
            return ((one, self.participations(batch, steps)),)
        if batch == n:
            return ((one, steps),)
        subset = SampledWithoutReplacementEvent(
            source_dataset_size=n, sample_size=int(batch), event=one
        )
        return ((subset, steps),)

    def participations(self, batch: Fraction, steps: int) -> int:
        """Return how many shuffled batches a record may be in."""
        return math.ceil(steps / _epoch(self.records, batch, "shuffled"))

    def composed(self, parts: _Parts) -> Accountant[Any]:
        accountant = self.maker()
        if self.before is not None:
            accountant.compose(self.before)
        for event, count in parts:
            accountant.compose(event, count)
        return accountant

    def plan(
        self,
        batch: Fraction,
        steps: int,
        sigma: Real,
        delta: Real,
        epsilon: Real | None,
    ) -> DPSGDPlan:
        """Return the plan; skip the search for an epsilon that is already known."""
        parts = self.parts(batch, steps, sigma)
        events: list[Event] = [SelfComposedEvent(*part) for part in parts]
        if self.before is not None:
            events.insert(0, self.before)
        if epsilon is None:
            epsilon = self.composed(parts).epsilon(delta)
        return DPSGDPlan(
            records=self.records,
            batch=int(batch) if batch.denominator == 1 else float(batch),
            steps=steps,
            sampling=self.sampling,
            sigma=float(sigma),
            epsilon=float_up(_validate.exact("epsilon", epsilon)),
            delta=self.delta,
            event=events[0] if len(events) == 1 else ComposedEvent(tuple(events)),
            accountant=type(self.maker()).__name__,
            certified=not self.assume_poisson,
        )

    def excess(
        self, target: _Target, batch: Fraction, steps: int, sigma: Real
    ) -> float:
        """Return how far ln(delta) is above its target."""
        composed = self.composed(self.parts(batch, steps, sigma))
        return max(composed.log_delta(target.epsilon), -1e300) - target.limit

    def least_sigma(self, target: _Target, batch: Fraction, steps: int) -> Fraction:
        """Return a sigma that meets the target, just above the least one."""
        times, rate = steps, float(batch / self.records)
        if self.charges_epochs:
            times, rate = self.participations(batch, steps), 1.0
        wide = 1.0 if self.by_coins else 2.0  # the sensitivity
        guess = wide / math.sqrt(math.log1p((target.mu / rate) ** 2 / times))
        guess = min(max(guess, 0.05), 1e6)
        # d ln(mu)/d ln(sigma) = -(1/sigma^2)/(1 - exp(-1/sigma^2)) at the guess
        inverse = (wide / guess) ** 2
        slope = target.slope() * inverse / math.expm1(-min(inverse, 700.0))
        better = self.estimate(
            target, lambda sigma: (rate, sigma / wide, times), guess, slope
        )
        if better is None and self.maker is not RDPAccountant:
            better = self.renyi_estimate(target, batch, steps, guess)
        least = float_up(_SIGMAS[0])
        guess, slope = better or (guess, slope)

        def excess(sigma: float) -> float:
            return self.excess(target, batch, steps, sigma)

        near = _NEAR_BOUNDS if self.sampling == "allocated" else NEAR
        found = root_below(excess, guess, slope, near) if guess > least else None
        if found is None:
            found = search("sigma", excess, guess, _SIGMAS, 1e-2, 1e-9)
        if found <= least:
            raise CalibrationError(
                f"sigma must be > {least:.6g}, and every such sigma meets "
                "the target: give a smaller epsilon or delta, or give "
                "sigma instead of epsilon"
            )
        return Fraction(found)

    def renyi_estimate(
        self, target: _Target, batch: Fraction, steps: int, guess: float
    ) -> tuple[float, float] | None:
        """Return a sigma just above the least one, and the slope of ln(delta) there.

        It uses Renyi divergences, which are fast; None if they give no bound.
        """
        renyi = replace(self, maker=RDPAccountant)

        def excess(sigma: float) -> float:
            return renyi.excess(target, batch, steps, sigma)

        try:
            found = search("sigma", excess, guess, _SIGMAS, 1e-1, 1e-2)
            slope = (excess(1.01 * found) - excess(found)) / math.log(1.01)
        except FastDPError:
            return None
        return (found, slope) if math.isfinite(slope) and slope < 0 else None

    def estimate(
        self,
        target: _Target,
        setting: Callable[[float], tuple[float, float, float]],
        guess: float,
        slope: float,
    ) -> tuple[float, float] | None:
        """Return a rough solution for the target, and the slope of ln(delta) there.

        `setting` maps the parameter to solve for to rate, noise and steps. Return None
        if there is no estimate.
        """
        if self.before is not None or setting(guess)[0] >= 1:
            return None
        epsilon = float(target.epsilon)

        def excess(x: float) -> float:
            rate, sigma, steps = setting(x)
            found = estimated_log_delta(min(rate, 1.0), sigma, steps, epsilon)
            return found - target.limit + NEAR / 2

        return root_near(excess, guess, slope)

    def most_steps(self, target: _Target, batch: Fraction, sigma: Fraction) -> int:
        """Return the largest number of steps that meets the target."""
        if self.charges_epochs:  # in whole epochs
            epochs = largest_count(
                "steps",
                lambda k: self.excess(target, Fraction(self.records), k, sigma),
                target.mu**2 * float(sigma) ** 2 / 4,
                _MOST_STEPS,
                target.slope() / 2,
            )
            return math.floor(epochs * _epoch(self.records, batch, "shuffled"))
        rate, width = float(batch / self.records), float(sigma)
        guess = (target.mu / rate) ** 2 / math.expm1(min(width**-2, 700.0))
        slope = target.slope() / 2
        better = self.estimate(target, lambda k: (rate, width, k), guess, slope)
        guess, slope = better or (guess, slope)
        return largest_count(
            "steps",
            lambda k: self.excess(target, batch, k, sigma),
            guess,
            _MOST_STEPS,
            slope,
        )

    def largest_batch(self, target: _Target, steps: int, sigma: Fraction) -> Fraction:
        """Return the largest batch that meets the target."""
        n, width = self.records, float(sigma)
        guess = target.mu / math.sqrt(steps * math.expm1(min(width**-2, 700.0))) * n
        slope = target.slope()
        better = self.estimate(target, lambda m: (m / n, width, steps), guess, slope)
        guess, slope = better or (guess, slope)

        @functools.cache
        def excess(batch: Fraction) -> float:
            return self.excess(target, batch, steps, sigma)

        found = largest_count("batch", lambda m: excess(self.batch(m)), guess, n, slope)
        return self.batch(found)

    def batch(self, size: Fraction | int) -> Fraction:
        """Return the batch, or the mean allocated batch if epochs are whole."""
        if self.sampling != "allocated":
            return Fraction(size)
        return Fraction(self.records, math.ceil(self.records / Fraction(size)))

    @property
    def by_coins(self) -> bool:
        """Whether each record joins steps independently, or is treated as if it did."""
        return self.sampling in ("poisson", "allocated") or self.assume_poisson

    @property
    def charges_epochs(self) -> bool:
        """Whether every record is charged in full once per epoch."""
        return self.sampling == "shuffled" and not self.assume_poisson


@dataclass(frozen=True)
class _Target:
    """An (epsilon, delta) to meet; `mu` is its approximate Gaussian parameter."""

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
