"""The step of one event: families of dominating pairs, and their samples.

Each pair dominates its mechanisms at every epsilon, also below 0, in both directions;
the proofs are in docs/proofs/numerical_accounting.md, section 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fastdp._validate import float_up
from fastdp.accounting import conversions
from fastdp.accounting._numeric import sqrt_up
from fastdp.accounting._pld.closed import ClosedForm, GaussianProfile, IntervalProfile
from fastdp.accounting._pld.discrete_gaussian import (
    DiscreteGaussianLoss,
    DiscreteGaussianProfile,
)
from fastdp.accounting._pld.interval_loss import IntervalLoss, LaplaceLoss, View
from fastdp.accounting._pld.listed_loss import Atoms, pure_loss
from fastdp.accounting._pld.losses import Floats, GaussianLoss, Loss, U
from fastdp.accounting._pld.sampled_loss import SampledGaussianLoss
from fastdp.accounting._pld.subset_loss import SubsetGaussianLoss
from fastdp.exceptions import UnsupportedEventError

#: Use only the bound by rho if the largest loss is outside this range.
PURE = (Fraction(1, 10**9), Fraction(500))

#: Use only the bound by rho if the noise, for sensitivity 1, is outside this range.
_NOISE = (Fraction(1, 1000), Fraction(10**7))

#: Count all losses as infinite if the finite ones have less mass than this.
_LEAST_FINITE = 1e-300

#: ln of the tail mass of the noise that counts as lost on a sample.
_LOG_TAIL = -700.0


# ---- steps ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ConcentratedLoss(Loss):
    """A loss with nothing known except K(t) <= rho t (1 + t).

    It has no contour and no grid, so only Chernoff bounds apply.
    """

    rho: Fraction

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        value = float_up(self.rho) * t * (1 + t)
        return value, 8 * U * value


@dataclass(frozen=True)
class Sided:
    """One direction of a step.

    `loss` is the loss, given that it is finite (None if it is 0). If `exact`, it is the
    loss itself; otherwise it dominates the loss, and `least` is for lower bounds (None
    for no loss).
    """

    loss: Loss | None = None
    lost: Fraction = Fraction(0)  # upper bound of the mass at infinity
    sure: Fraction = Fraction(0)  # lower bound of the mass at infinity
    exact: bool = True
    least: Loss | None = None


@dataclass(frozen=True)
class Step:
    """The step of one event: losses for the removal and the addition of a record.

    `rho` bounds the zero-concentrated privacy of the finite losses, if it is known; if
    losses are exact, it must hold for them. `closed` is the profile of the step alone,
    if it has a closed form.
    """

    removal: Sided
    addition: Sided
    rho: Fraction | None = None
    closed: ClosedForm | None = None


#: A step that loses nothing: the lower bound of an unknown step.
NOTHING = Step(Sided(), Sided(), Fraction(0))


def loosened(sided: Sided) -> Sided:
    """Return a direction that is only an upper bound on the loss."""
    return Sided(sided.loss, sided.lost, exact=False)


def between(step: Step, least: Step) -> Step:
    """Return `step` for upper bounds, with the losses of `least` for lower bounds."""
    removal, addition = (
        Sided(
            above.loss,
            above.lost,
            below.sure,
            exact=False,
            least=below.loss if below.exact else below.least,
        )
        for above, below in (
            (step.removal, least.removal),
            (step.addition, least.addition),
        )
    )
    same = step.removal is step.addition and least.removal is least.addition
    return Step(removal, removal if same else addition, step.rho)


def either_order(step: Step, least: Step) -> Step:
    """Return a step between two steps, if either dataset may be the first.

    The removal's losses of `least` give lower bounds in both directions.
    """
    return between(step, Step(least.removal, least.removal, least.rho))


def symmetric(
    loss: Loss | None, rho: Fraction | None, closed: ClosedForm | None = None
) -> Step:
    """Return a step with one loss for both directions, and nothing lost."""
    one = Sided(loss)
    return Step(one, one, rho, closed)


def bounded(rho: Fraction, least: Loss | None = None) -> Step:
    """Return a step with only a known rho, and possibly a loss below it."""
    if rho == 0:
        return symmetric(None, rho)
    one = Sided(ConcentratedLoss(rho), exact=False, least=least)
    return Step(one, one, rho)


# ---- families ------------------------------------------------------------------------


class Family(ABC):
    """The dominating pair of one step, or one pair for each direction."""

    @abstractmethod
    def step(self) -> Step:
        """Return the mechanism's own step."""

    @abstractmethod
    def sampled(self, rate: Fraction, fixed: bool = False) -> Step:
        """Return the step of a Poisson sample with rate < 1.

        If `fixed`, the step of a subset of fixed size in which one record is replaced.
        """


@dataclass(frozen=True)
class GaussianFamily(Family):
    """Gaussian noise, or a mechanism between two Gaussian laws."""

    square: Fraction  # (sensitivity/standard deviation)^2
    least: Fraction | None = None  # for lower bounds, if `square` is for upper ones

    def step(self) -> Step:
        if self.square == 0:
            return symmetric(None, Fraction(0))
        loss, closed = GaussianLoss(float(self.square)), GaussianProfile(self.square)
        found = symmetric(loss, self.square / 2, closed)
        return self._between(found, lambda family: family.step())

    def sampled(self, rate: Fraction, fixed: bool = False) -> Step:
        rho, noise = self.square / 2, self._noise()
        if noise is None:
            return bounded(rho)
        found = self._subset(rate, noise) if fixed else self._poisson(rate, noise)
        return self._between(found, lambda family: family.sampled(rate, fixed))

    def _poisson(self, rate: Fraction, noise: Fraction) -> Step:
        removal, addition = (
            Sided(SampledGaussianLoss(float(rate), float(noise), removal))
            for removal in (True, False)
        )
        closed = GaussianProfile(self.square, rate)
        return Step(removal, addition, self.square / 2, closed)

    def _subset(self, rate: Fraction, noise: Fraction) -> Step:
        removal, addition = (
            SampledGaussianLoss(float(rate), float(noise), removal)
            for removal in (True, False)
        )
        return symmetric(SubsetGaussianLoss(removal, addition), self.square / 2)

    def _between(self, step: Step, make: Callable[[GaussianFamily], Step]) -> Step:
        """Add the laws for lower bounds to `step`, if they differ in doubles."""
        least = self.least
        if least is None or float(least) == float(self.square):
            return step
        return between(step, make(GaussianFamily(least)))

    def _noise(self) -> Fraction | None:
        if self.square == 0:
            return None
        noise = sqrt_up(1 / self.square)  # exact for a rational ratio
        if not _NOISE[0] <= noise <= _NOISE[1]:
            return None
        return noise


@dataclass(frozen=True)
class AtomFamily(Family):
    """Losses with finitely many values; one object if both directions are equal."""

    removal: Atoms
    addition: Atoms
    rho: Fraction | None = None  # bounds the finite losses
    loss: Loss | None = None  # the finite losses, in a better form than a list
    unit: Fraction | None = None  # all losses are multiples of it

    def step(self) -> Step:
        lows = self.removal.lowered(), self.addition.lowered()
        return self._of((self.removal, self.addition), lows)

    def sampled(self, rate: Fraction, fixed: bool = False) -> Step:
        """Return both directions, each from the inner law of that direction."""
        if fixed:
            return self._subset(rate)
        laws = self.removal.sampled(rate, True), self.addition.sampled(rate, False)
        low, other = self.removal.lowered(), self.addition.lowered()
        lows = (
            laws[0] if low is self.removal else low.sampled(rate, True),
            laws[1] if other is self.addition else other.sampled(rate, False),
        )
        return AtomFamily(*laws, self._rho())._of(laws, lows)

    def _subset(self, rate: Fraction) -> Step:
        """Return the law for both directions; the inner law must hold for both."""
        if self.removal is not self.addition:
            raise UnsupportedEventError(
                "a mechanism on a subset of fixed size must have one law of the "
                "privacy loss for both orders of the datasets"
            )
        law = self.removal.subset(rate)
        return AtomFamily(law, law, self._rho()).step()

    def _rho(self) -> Fraction | None:
        """Return the rho that also bounds a sample; None if some mass is lost."""
        return self.rho if self.removal.lost == self.addition.lost == 0 else None

    def _of(
        self,
        laws: tuple[Atoms, Atoms],
        lows: tuple[Atoms, Atoms],
    ) -> Step:
        """Return the step with `laws` for upper bounds and `lows` for lower bounds."""
        sides = [self._sided(law, low) for law, low in zip(laws, lows, strict=True)]
        return Step(sides[0], sides[0] if laws[0] is laws[1] else sides[1], self.rho)

    def _all_lost(self, low: Atoms) -> Sided:
        """Return a direction with an upper bound in which every loss is infinite.

        The lower bound counts only the mass `low.lost` as an infinite loss. The other
        losses may be negative: if they are unknown, the lower bound is trivial.
        """
        left = low.losses.size > 0 and float(1 - low.lost) >= _LEAST_FINITE
        if low.doubtful or not (left or low.lost == 1):
            return Sided(None, Fraction(1), exact=False)
        least = low.finite(self.unit) if left and low.losses.any() else None
        return Sided(None, Fraction(1), low.lost, exact=False, least=least)

    def _sided(self, law: Atoms, low: Atoms) -> Sided:
        if law.losses.size == 0 or float(1 - law.lost) < _LEAST_FINITE:
            return self._all_lost(low)
        sure = law.lost if law.sure is None else law.sure
        if self.loss is not None:
            return Sided(self.loss, law.lost, low.lost)
        loss = law.finite(self.unit) if law.losses.any() else None
        if law.doubtful:
            return Sided(loss, law.lost, exact=False)
        if low is law or np.array_equal(low.masses, law.masses):
            return Sided(loss, law.lost, sure)
        least = low.finite(self.unit) if low.losses.any() else None
        return Sided(loss, law.lost, sure, exact=False, least=least)


@dataclass(frozen=True)
class IntervalFamily(Family):
    """A density e^(l/2) on (-epsilon, epsilon), with atoms (Laplace noise) or without.

    With atoms it dominates choices by noise, without atoms every mechanism of bounded
    range epsilon. For one choice, different mechanisms attain each point of the
    profile; for several choices, one mechanism's profile gives lower bounds.
    """

    epsilon: Fraction  # the largest loss
    rho: Fraction
    ends: bool = True
    least: Family | None = None  # for lower bounds; None for the loss itself
    alone: bool = True  # whether the profile of one step is attained

    def step(self) -> Step:
        loss = LaplaceLoss(self.epsilon, ends=self.ends)
        least = None if self.least is None else self.least.step()
        closed = IntervalProfile(self.epsilon, self.ends) if self.alone else None
        return replace(self._step(loss, loss, least), closed=closed)

    def sampled(self, rate: Fraction, fixed: bool = False) -> Step:
        views = (View.SUBSET,) * 2 if fixed else (View.REMOVAL, View.ADDITION)
        removal, addition = (
            IntervalLoss(self.epsilon, self.ends, rate, view) for view in views
        )
        least = None if self.least is None else self.least.sampled(rate, fixed)
        return self._step(removal, addition, least)

    def _step(self, removal: Loss, addition: Loss, least: Step | None) -> Step:
        found = Step(Sided(removal), Sided(addition), self.rho)
        return found if least is None else between(found, least)


@dataclass(frozen=True)
class DiscreteGaussianFamily(Family):
    """Discrete Gaussian noise on one coordinate."""

    loss: DiscreteGaussianLoss
    rho: Fraction
    #: Gaussian laws that bound its samples, if the list of its losses is too long.
    around: GaussianFamily | None = None

    def step(self) -> Step:
        closed = DiscreteGaussianProfile(self.loss.shift, self.loss.variance)
        return symmetric(self.loss, self.rho, closed)

    def sampled(self, rate: Fraction, fixed: bool = False) -> Step:
        """Return both directions of a sample, from a law without far tails."""
        if self.around is not None:
            return self.around.sampled(rate, fixed)
        try:
            law = self.loss.atoms(_LOG_TAIL)
        except OverflowError:
            return bounded(self.rho)
        step = AtomFamily(law, law).sampled(rate, fixed)
        return Step(step.removal, step.addition, self.rho)


@dataclass(frozen=True)
class LooseFamily(Family):
    """A dominating pair, and a pair that some mechanism attains, if known."""

    pair: Family
    least: Family | None = None

    def step(self) -> Step:
        return self._between(lambda family: family.step())

    def sampled(self, rate: Fraction, fixed: bool = False) -> Step:
        return self._between(lambda family: family.sampled(rate, fixed))

    def _between(self, make: Callable[[Family], Step]) -> Step:
        least = NOTHING if self.least is None else make(self.least)
        return between(make(self.pair), least)


@dataclass(frozen=True)
class FailingFamily(Family):
    """A mechanism that equals `inner` except with a probability of at most `lost`.

    The failure is independent of the data. There is no lower bound.
    """

    inner: Family
    lost: Fraction

    def step(self) -> Step:
        return self._failing(self.inner.step())

    def sampled(self, rate: Fraction, fixed: bool = False) -> Step:
        return self._failing(self.inner.sampled(rate, fixed))

    def _failing(self, step: Step) -> Step:
        removal, addition = (
            replace(side, lost=min(side.lost + self.lost, Fraction(1)))
            for side in (step.removal, step.addition)
        )
        same = step.removal is step.addition
        failing = Step(removal, removal if same else addition, step.rho)
        return between(failing, NOTHING)


@dataclass(frozen=True)
class BoundedFamily(Family):
    """A mechanism with only a known rho; sampling can only lower rho."""

    rho: Fraction

    def step(self) -> Step:
        return bounded(self.rho)

    def sampled(self, rate: Fraction, fixed: bool = False) -> Step:
        return bounded(self.rho)


def two_points(epsilon: Fraction, lost: Fraction = Fraction(0)) -> Family:
    """Return randomized response, which dominates (epsilon, `lost`)-privacy."""
    rho = conversions.rho_of_pure(epsilon)
    if epsilon > 0 and not PURE[0] <= epsilon <= PURE[1] and lost == 0:
        return BoundedFamily(rho)
    e = float(epsilon)
    loss = pure_loss(epsilon)
    values = np.array(loss.masses) * float(1 - lost)
    law = Atoms(np.array([-e, e]), values, lost, float(lost), U * e)
    return AtomFamily(law, law, rho, loss if epsilon > 0 else None)
