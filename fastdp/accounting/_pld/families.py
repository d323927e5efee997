"""Families of dominating pairs, and what sampling makes of them.

Each pair dominates its mechanisms at every epsilon, also below 0, in both directions;
the proofs are in docs/proofs/numerical_accounting.md, section 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fastdp.accounting._numeric import sqrt_up
from fastdp.accounting._pld.atoms import Atoms
from fastdp.accounting._pld.closed import GaussianProfile, IntervalProfile
from fastdp.accounting._pld.discrete_gaussian import DiscreteGaussianLoss
from fastdp.accounting._pld.discrete_gaussian_profile import DiscreteGaussianProfile
from fastdp.accounting._pld.interval_loss import IntervalLoss, View, scattered
from fastdp.accounting._pld.losses import GaussianLoss, Loss
from fastdp.accounting._pld.sampled_loss import SampledGaussianLoss
from fastdp.accounting._pld.simple_losses import LaplaceLoss
from fastdp.accounting._pld.steps import (
    NOTHING,
    Sided,
    Step,
    between,
    bounded,
    symmetric,
)
from fastdp.accounting._pld.subset_loss import SubsetGaussianLoss
from fastdp.exceptions import UnsupportedEventError

#: Noise beyond these is left to the bound by rho.
_NOISE = (Fraction(1, 1000), Fraction(10**7))

#: Least mass of all finite losses together.
_LEAST_FINITE = 1e-300

#: ln of the mass of the noise that is given up where a sample is taken.
_LOG_TAIL = -700.0


class Family(ABC):
    """A pair of laws, or two for both directions, of one step."""

    @abstractmethod
    def step(self) -> Step:
        """Return what the mechanism itself adds."""

    @abstractmethod
    def sampled(self, rate: Fraction) -> Step:
        """Return what it adds on a Poisson sample of rate < 1."""

    @abstractmethod
    def subset(self, rate: Fraction) -> Step:
        """Return what it adds on a subset of fixed size, one record replaced."""


@dataclass(frozen=True)
class GaussianFamily(Family):
    """Gaussian noise, or what lies between two such laws.

    Parameters
    ----------
    square : Fraction
        The squared ratio of sensitivity and standard deviation.
    least : Fraction, optional
        That of a law for lower bounds, where `square` is only for upper ones.
    """

    square: Fraction
    least: Fraction | None = None

    def step(self) -> Step:
        """Return the Gaussian loss."""
        if self.square == 0:
            return symmetric(None, Fraction(0))
        loss, closed = GaussianLoss(float(self.square)), GaussianProfile(self.square)
        found = symmetric(loss, self.square / 2, closed)
        return self._between(found, lambda family: family.step())

    def sampled(self, rate: Fraction) -> Step:
        """Return both directions of a sample."""
        rho, noise = self.square / 2, self._noise(rate)
        if noise is None:
            return bounded(rho)
        exact = (rate, noise) if noise**2 * self.square == 1 else None
        removal, addition = (
            Sided(SampledGaussianLoss(float(rate), float(noise), removal, exact))
            for removal in (True, False)
        )
        found = Step(removal, addition, rho, GaussianProfile(self.square, rate))
        return self._between(found, lambda family: family.sampled(rate))

    def subset(self, rate: Fraction) -> Step:
        """Return the law for both directions."""
        rho, noise = self.square / 2, self._noise(rate)
        if noise is None:
            return bounded(rho)
        found = symmetric(SubsetGaussianLoss(float(rate), float(noise)), rho)
        return self._between(found, lambda family: family.subset(rate))

    def _between(self, step: Step, make: Callable[[GaussianFamily], Step]) -> Step:
        """Return the step with the laws of the lower bounds, if doubles tell them."""
        least = self.least
        if least is None or float(least) == float(self.square):
            return step
        return between(step, make(GaussianFamily(least)))

    def _noise(self, rate: Fraction) -> Fraction | None:
        if self.square == 0:
            return None
        noise = sqrt_up(1 / self.square)  # exact for a rational ratio
        if not _NOISE[0] <= noise <= _NOISE[1]:
            return None
        return noise


@dataclass(frozen=True)
class AtomFamily(Family):
    """Losses of finitely many values.

    Parameters
    ----------
    removal, addition : Atoms
        The laws of both directions; one object if they are the same.
    rho : Fraction, optional
        Bound of zero-concentrated privacy of what is not lost.
    loss : Loss, optional
        A form of the finite losses that is better than their list.
    unit : Fraction, optional
        What all losses are multiples of.
    """

    removal: Atoms
    addition: Atoms
    rho: Fraction | None = None
    loss: Loss | None = None
    unit: Fraction | None = None

    def step(self) -> Step:
        """Return the losses themselves."""
        lows = self.removal.lowered(), self.addition.lowered()
        return self._of((self.removal, self.addition), lows)

    def sampled(self, rate: Fraction) -> Step:
        """Return both directions, each from the inner law of that direction."""
        laws = self.removal.sampled(rate, True), self.addition.sampled(rate, False)
        low, other = self.removal.lowered(), self.addition.lowered()
        lows = (
            laws[0] if low is self.removal else low.sampled(rate, True),
            laws[1] if other is self.addition else other.sampled(rate, False),
        )
        return AtomFamily(*laws, self._rho())._of(laws, lows)

    def subset(self, rate: Fraction) -> Step:
        """Return the law for both directions, which the inner law must hold for."""
        if self.removal is not self.addition:
            raise UnsupportedEventError(
                "a mechanism on a subset of fixed size must have one law of the "
                "privacy loss for both orders of the datasets"
            )
        law = self.removal.subset(rate)
        return AtomFamily(law, law, self._rho()).step()

    def _rho(self) -> Fraction | None:
        """Return the bound that also holds of a sample: if nothing is lost."""
        return self.rho if self.removal.lost == self.addition.lost == 0 else None

    def _of(
        self,
        laws: tuple[Atoms, Atoms],
        lows: tuple[Atoms, Atoms],
    ) -> Step:
        """Return the step of laws for upper and of laws for lower bounds."""
        sides = [self._sided(law, low) for law, low in zip(laws, lows, strict=True)]
        return Step(sides[0], sides[0] if laws[0] is laws[1] else sides[1], self.rho)

    def _sided(self, law: Atoms, low: Atoms) -> Sided:
        if law.losses.size == 0 or float(1 - law.lost) < _LEAST_FINITE:
            raise UnsupportedEventError(
                "the probability of a finite loss must be more than rounding"
            )
        if self.loss is not None:
            return Sided(self.loss, law.lost, low.lost)
        loss = scattered(law, self.unit) if law.losses.any() else None
        sure = law.lost if law.sure is None else law.sure
        if law.doubtful:
            return Sided(loss, law.lost, exact=False)
        if low is law or np.array_equal(low.masses, law.masses):
            return Sided(loss, law.lost, sure)
        least = scattered(low, self.unit) if low.losses.any() else None
        return Sided(loss, law.lost, sure, exact=False, least=least)


@dataclass(frozen=True)
class IntervalFamily(Family):
    """A density e^(l/2) on (-epsilon, epsilon), with atoms (Laplace noise) or without.

    Without them it dominates what is of bounded range epsilon, whatever the interval,
    but no single mechanism attains it: randomized response with epsilon/2 is of bounded
    range, and serves lower bounds.

    Parameters
    ----------
    epsilon : Fraction
        Largest loss.
    rho : Fraction
        Bound of zero-concentrated privacy of the mechanism.
    ends : bool
        Whether there are atoms.
    least : Family, optional
        What serves lower bounds; None for the loss itself.
    """

    epsilon: Fraction
    rho: Fraction
    ends: bool = True
    least: Family | None = None

    def step(self) -> Step:
        """Return the losses themselves."""
        loss = LaplaceLoss(self.epsilon, ends=self.ends)
        least = None if self.least is None else self.least.step()
        closed = IntervalProfile(self.epsilon, ends=self.ends)
        exact = least is None or not self.ends  # of one step the profile is attained
        return replace(self._step(loss, loss, least), closed=closed if exact else None)

    def sampled(self, rate: Fraction) -> Step:
        """Return both directions of a sample."""
        least = None if self.least is None else self.least.sampled(rate)
        views = self._seen(rate, View.REMOVAL), self._seen(rate, View.ADDITION)
        return self._step(*views, least)

    def subset(self, rate: Fraction) -> Step:
        """Return the law for both directions."""
        loss = self._seen(rate, View.SUBSET)
        least = None if self.least is None else self.least.subset(rate)
        return self._step(loss, loss, least)

    def _seen(self, rate: Fraction, view: View) -> Loss:
        return IntervalLoss(self.epsilon, self.ends, rate, view)

    def _step(self, removal: Loss, addition: Loss, least: Step | None) -> Step:
        found = Step(Sided(removal), Sided(addition), self.rho)
        return found if least is None else between(found, least)


@dataclass(frozen=True)
class DiscreteGaussianFamily(Family):
    """Discrete Gaussian noise on one coordinate.

    Parameters
    ----------
    loss : DiscreteGaussianLoss
        The exact law.
    rho : Fraction
        Bound of zero-concentrated privacy.
    around : GaussianFamily, optional
        What samples of it lie between, where the list of its losses is too long.
    """

    loss: DiscreteGaussianLoss
    rho: Fraction
    around: GaussianFamily | None = None

    def step(self) -> Step:
        """Return the losses themselves."""
        closed = DiscreteGaussianProfile(self.loss.shift, self.loss.variance)
        return symmetric(self.loss, self.rho, closed)

    def sampled(self, rate: Fraction) -> Step:
        """Return both directions of a sample, from a law without far tails."""
        if self.around is not None:
            return self.around.sampled(rate)
        return self._with_atoms(lambda family: family.sampled(rate))

    def subset(self, rate: Fraction) -> Step:
        """Return the law for both directions, from a law without far tails."""
        if self.around is not None:
            return self.around.subset(rate)
        return self._with_atoms(lambda family: family.subset(rate))

    def _with_atoms(self, sample: Callable[[AtomFamily], Step]) -> Step:
        try:
            law = self.loss.atoms(_LOG_TAIL)
        except OverflowError:
            return bounded(self.rho)
        step = sample(AtomFamily(law, law))
        return Step(step.removal, step.addition, self.rho)


@dataclass(frozen=True)
class LooseFamily(Family):
    """A pair that dominates, and what serves lower bounds in its place.

    Parameters
    ----------
    pair : Family
        What dominates the mechanism.
    least : Family, optional
        What a mechanism attains; None where nothing is known.
    """

    pair: Family
    least: Family | None = None

    def step(self) -> Step:
        """Return what lies between the two."""
        return self._between(lambda family: family.step())

    def sampled(self, rate: Fraction) -> Step:
        """Return both directions of a sample, each between the two."""
        return self._between(lambda family: family.sampled(rate))

    def subset(self, rate: Fraction) -> Step:
        """Return the law for both directions, between the two."""
        return self._between(lambda family: family.subset(rate))

    def _between(self, make: Callable[[Family], Step]) -> Step:
        least = NOTHING if self.least is None else make(self.least)
        return between(make(self.pair), least)


@dataclass(frozen=True)
class BoundedFamily(Family):
    """A mechanism of which rho is all that is used; sampling only lowers it."""

    rho: Fraction

    def step(self) -> Step:
        """Return the bound."""
        return bounded(self.rho)

    def sampled(self, rate: Fraction) -> Step:
        """Return the same bound."""
        return bounded(self.rho)

    def subset(self, rate: Fraction) -> Step:
        """Return the same bound."""
        return bounded(self.rho)
