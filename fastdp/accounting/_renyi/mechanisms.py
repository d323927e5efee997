"""Renyi curves of samples and groups, from the curves of the inner events."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from fastdp._validate import float_up
from fastdp.accounting._renyi.curves import (
    EXCESS,
    ConcentratedCurve,
    Curve,
    DiscreteLaplaceCurve,
    GroupCurve,
    PureCurve,
    ResponseCurve,
)
from fastdp.accounting._renyi.sampled import (
    PoissonAtomsCurve,
    PoissonBoundCurve,
    SubsetCurve,
    laplace_atoms,
    response_atoms,
)
from fastdp.accounting._renyi.subsampled_gaussian import SubsampledGaussianCurve
from fastdp.accounting._renyi.subset_gaussian import SubsetGaussianCurve
from fastdp.accounting._series import Floats

if TYPE_CHECKING:
    from fastdp.accounting._pld.losses import Loss

#: Sample discrete Laplace shifts up to this atom by atom.
_MOST_ATOMS = 400

ZERO = ConcentratedCurve(Fraction(0))


@dataclass(frozen=True)
class LeastCurve(Curve):
    """The smaller of two bounds at each order."""

    first: Curve
    second: Curve

    def log_moment(self, gap: Floats) -> Floats:
        """Return the smaller bound."""
        return np.minimum(self.first.log_moment(gap), self.second.log_moment(gap))

    @property
    def largest_gap(self) -> float:
        """The larger of both gaps."""
        return max(self.first.largest_gap, self.second.largest_gap)

    @property
    def is_moment(self) -> bool:
        """False: a minimum is not smooth."""
        return False


@dataclass(frozen=True)
class MixedCurve(Curve):
    """The curve of an event that occurs, publicly, with probability `rate`.

    The log moment is ln(1 - rate + rate e^K).
    """

    inner: Curve
    rate: Fraction

    def log_moment(self, gap: Floats) -> Floats:
        """Return the mixture's moment."""
        q = float_up(self.rate)
        moment = self.inner.log_moment(gap)
        small = np.log1p(q * np.expm1(np.minimum(moment, 30.0)))
        large = moment + np.log(q + np.exp(-np.maximum(moment, 30.0)))
        return np.asarray(np.where(moment < 30, small, large) * (1 + EXCESS))

    @property
    def largest_gap(self) -> float:
        """The largest gap of the inner curve."""
        return self.inner.largest_gap

    @property
    def is_moment(self) -> bool:
        """False: rounding errors are not analyzed."""
        return False


@dataclass(frozen=True)
class LossCurve(Curve):
    """The larger of the log moments of privacy losses, given that they are finite.

    Parameters
    ----------
    losses : tuple of Loss
        The losses of both directions, or one loss for both.
    lost : float
        Bound on the probability of an infinite loss in either direction.
    """

    losses: tuple[Loss, ...]
    lost: float

    def log_moment(self, gap: Floats) -> Floats:
        """Return the larger moment, raised by its error."""
        found = np.zeros_like(gap)
        for loss in self.losses:
            value, error = loss.cumulants(gap)
            found = np.maximum(found, value + error)
        # The law of finite losses has ratios larger by a factor 1/(1 - lost).
        return np.asarray(found - gap * np.log1p(-self.lost) * (1 + EXCESS))

    @property
    def is_moment(self) -> bool:
        """False: rounding errors are not analyzed."""
        return False


def mixed_curve(rate: Fraction, curve: Curve) -> Curve:
    """Return the curve of a sample whose members may be known."""
    return curve if rate == 1 or curve == ZERO else MixedCurve(curve, rate)


def poisson_curve(rate: Fraction, curve: Curve, mu: Fraction | None) -> Curve:
    """Return the curve of a Poisson sample, with `mu` of a Gaussian inner event."""
    if rate == 1 or curve == ZERO:
        return curve
    if mu is not None:
        return SubsampledGaussianCurve(mu, rate)
    match curve:
        case PureCurve(epsilon=e):
            loss = float_up(e)
            atoms = response_atoms(loss, -loss - math.log1p(math.exp(-loss)))
            return PoissonAtomsCurve(*atoms, rate)
        case ResponseCurve(loss=exact, q=q):
            atoms = response_atoms(float_up(exact), math.log(float_up(q)))
            return PoissonAtomsCurve(*atoms, rate)
        case DiscreteLaplaceCurve(shift=shift, rate=a) if shift <= _MOST_ATOMS:
            atoms = laplace_atoms(shift, float_up(a))
            return PoissonAtomsCurve(*atoms, rate)
    return PoissonBoundCurve(curve, rate)


def subset_curve(
    rate: Fraction, curve: Curve, mu: Fraction | None, pure: Fraction | None
) -> Curve:
    """Return the curve of a fixed-size subset, with `mu` of a Gaussian inner event."""
    if rate == 1 or curve == ZERO:
        return curve
    if mu is not None:
        return SubsetGaussianCurve(mu, rate)
    return SubsetCurve(curve, rate, pure)


def group_curve(curve: Curve, size: int, pure: Fraction | None) -> Curve:
    """Return the curve of a group; `pure` is the group's pure epsilon."""
    spread = GroupCurve(curve, size)
    return spread if pure is None else LeastCurve(spread, PureCurve(pure))
