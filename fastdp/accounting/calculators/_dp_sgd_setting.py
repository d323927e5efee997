"""A checked schedule of private training: its events, and what meets a target."""

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
from fastdp.accounting.events._base import relation_of
from fastdp.accounting.rdp import RDPAccountant
from fastdp.exceptions import (
    CalibrationError,
    FastDPError,
)

SIGMAS = (Fraction(1, 20), Fraction(10**6))


MOST_STEPS = 10**12


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
            steps_of_epoch(self.records, Fraction(self.batch), self.sampling)
        )


def steps_of_epoch(records: int, batch: Fraction, sampling: str) -> Fraction:
    """Return the mean number of steps for one pass over the records.

    Shuffled batches are disjoint and of one size, so a permutation has records //
    batch.
    """
    return Fraction(records // batch) if sampling == "shuffled" else records / batch


@dataclass(frozen=True)
class Setting:
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
        return math.ceil(steps / steps_of_epoch(self.records, batch, "shuffled"))

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

    def excess(self, target: Target, batch: Fraction, steps: int, sigma: Real) -> float:
        """Return how far ln(delta) is above its target."""
        composed = self.composed(self.parts(batch, steps, sigma))
        return max(composed.log_delta(target.epsilon), -1e300) - target.limit

    def least_sigma(self, target: Target, batch: Fraction, steps: int) -> Fraction:
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
        least = float_up(SIGMAS[0])
        guess, slope = better or (guess, slope)

        def excess(sigma: float) -> float:
            return self.excess(target, batch, steps, sigma)

        near = _NEAR_BOUNDS if self.sampling == "allocated" else NEAR
        found = root_below(excess, guess, slope, near) if guess > least else None
        if found is None:
            found = search("sigma", excess, guess, SIGMAS, 1e-2, 1e-9)
        if found <= least:
            raise CalibrationError(
                f"sigma must be > {least:.6g}, and every such sigma meets "
                "the target: give a smaller epsilon or delta, or give "
                "sigma instead of epsilon"
            )
        return Fraction(found)

    def renyi_estimate(
        self, target: Target, batch: Fraction, steps: int, guess: float
    ) -> tuple[float, float] | None:
        """Return a sigma just above the least one, and the slope of ln(delta) there.

        It uses Renyi divergences, which are fast; None if they give no bound.
        """
        renyi = replace(self, maker=RDPAccountant)

        def excess(sigma: float) -> float:
            return renyi.excess(target, batch, steps, sigma)

        try:
            found = search("sigma", excess, guess, SIGMAS, 1e-1, 1e-2)
            slope = (excess(1.01 * found) - excess(found)) / math.log(1.01)
        except FastDPError:
            return None
        return (found, slope) if math.isfinite(slope) and slope < 0 else None

    def estimate(
        self,
        target: Target,
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

    def most_steps(self, target: Target, batch: Fraction, sigma: Fraction) -> int:
        """Return the largest number of steps that meets the target."""
        if self.charges_epochs:  # in whole epochs
            epochs = largest_count(
                "steps",
                lambda k: self.excess(target, Fraction(self.records), k, sigma),
                target.mu**2 * float(sigma) ** 2 / 4,
                MOST_STEPS,
                target.slope() / 2,
            )
            return math.floor(epochs * steps_of_epoch(self.records, batch, "shuffled"))
        rate, width = float(batch / self.records), float(sigma)
        guess = (target.mu / rate) ** 2 / math.expm1(min(width**-2, 700.0))
        slope = target.slope() / 2
        better = self.estimate(target, lambda k: (rate, width, k), guess, slope)
        guess, slope = better or (guess, slope)
        return largest_count(
            "steps",
            lambda k: self.excess(target, batch, k, sigma),
            guess,
            MOST_STEPS,
            slope,
        )

    def largest_batch(self, target: Target, steps: int, sigma: Fraction) -> Fraction:
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
class Target:
    """An (epsilon, delta) to meet; `mu` is its approximate Gaussian parameter."""

    epsilon: Fraction
    limit: float
    mu: float

    def slope(self) -> float:
        """Return about d ln(delta)/d ln(mu): mu phi(epsilon/mu - mu/2)/delta."""
        a = float(self.epsilon) / self.mu - self.mu / 2
        return self.mu * math.exp(min(-a * a / 2 - self.limit, 50.0)) / 2.51


def target_of(epsilon: Real, delta: Real) -> Target:
    e, d = _validate.positive("epsilon", epsilon), _validate.open_unit("delta", delta)
    guess = Target(
        e, log_down(d), math.sqrt(2 * conversions.zcdp_to_rho(epsilon=e, delta=d))
    )
    if not guess.mu > 0:
        return Target(e, guess.limit, 1e-150)
    for _ in range(3):
        missing = guess.limit - conversions.gaussian_log_delta(
            epsilon=e, sensitivity=guess.mu, sigma=1
        )
        factor = math.exp(max(-0.5, min(0.5, missing / max(guess.slope(), 1e-3))))
        guess = Target(e, guess.limit, guess.mu * factor)
    return guess
