"""Which Renyi curve belongs to which event, and what delta is set aside for it.

An (epsilon, delta) event has no Renyi curve of its own: with probability 1 - delta it
is a pure epsilon one (Kairouz, Oh and Viswanath 2015), so delta is set aside and the
rest has the curve of the pure event. Such deltas add up under composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp._validate import float_up
from fastdp.accounting import _laplace, _response
from fastdp.accounting._renyi.curves import (
    BoundedRangeCurve,
    ConcentratedCurve,
    Curve,
    DiscreteGaussianCurve,
    DiscreteLaplaceCurve,
    GroupCurve,
    LaplaceCurve,
    PureCurve,
    ResponseCurve,
    TabulatedCurve,
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
from fastdp.accounting.events import (
    ApproximateDPEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    PermuteAndFlipEvent,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPEvent,
    SampledWithoutReplacementEvent,
    TCDPEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPEvent,
)
from fastdp.accounting.groups import grouped
from fastdp.accounting.guarantees import exact_epsilon, exact_pair, sampling_rate
from fastdp.exceptions import UnsupportedEventError

#: Discrete Laplace shifts up to this are sampled atom by atom.
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
        """Where both have ended."""
        return max(self.first.largest_gap, self.second.largest_gap)

    @property
    def is_moment(self) -> bool:
        """A minimum is not smooth."""
        return False


def curve_of(event: Event) -> tuple[Curve, Fraction]:
    """Return a curve that bounds the event, and the delta that is set aside.

    Raises
    ------
    UnsupportedEventError
        No finite Renyi divergence is proved for the event.
    """
    match event:
        case GaussianEvent(sensitivity=s, sigma=width):
            return _gaussian(s / width), Fraction(0)
        case GDPEvent(mu=mu):
            return _gaussian(mu), Fraction(0)
        case DiscreteGaussianEvent():
            return _discrete_gaussian(event), Fraction(0)
        case LaplaceEvent(sensitivity=s, scale=b):
            return LaplaceCurve(s / b), Fraction(0)
        case DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return DiscreteLaplaceCurve(_laplace.whole(s), 1 / b), Fraction(0)
        case TruncatedDiscreteLaplaceEvent(sensitivity=s, scale=b, bound=bound):
            shift = _laplace.whole(s)
            lost = _laplace.truncated_tail(shift, b, bound)
            return PureCurve(shift / b), Fraction(lost)
        case RandomizedResponseEvent(p=p, q=q):
            if p == q:
                return ZERO, Fraction(0)
            return ResponseCurve(Fraction(_response.log_ratio(p, q)), q), Fraction(0)
        case ExponentialMechanismEvent(epsilon=e):
            return BoundedRangeCurve(e), Fraction(0)
        case PureDPEvent(epsilon=e) | PermuteAndFlipEvent(epsilon=e):
            return PureCurve(e), Fraction(0)
        case ApproximateDPEvent(epsilon=e, delta=d):
            return PureCurve(e), d
        case ZCDPEvent(rho=rho, xi=xi):
            return ConcentratedCurve(rho, xi), Fraction(0)
        case TCDPEvent(rho=rho, omega=omega):
            return ConcentratedCurve(rho, omega=omega), Fraction(0)
        case RDPEvent(orders=orders, epsilons=epsilons):
            return TabulatedCurve(orders, epsilons), Fraction(0)
        case PoissonSampledEvent():
            return _poisson(event)
        case SampledWithoutReplacementEvent():
            return _subset(event)
        case GroupEvent():
            return _group(event)
    pair = exact_pair(event)  # the best of what is left
    if pair is None:
        raise UnsupportedEventError(f"no Renyi divergence is known for {event!r}")
    return PureCurve(pair[0]), pair[1]


def _gaussian(mu: Fraction) -> Curve:
    return ConcentratedCurve(mu * mu / 2, symmetric=True)


def _discrete_gaussian(event: DiscreteGaussianEvent) -> Curve:
    norm = max(1, int(event.sensitivity * event.sensitivity))
    if event.coordinates == 1 or norm == 1:
        return DiscreteGaussianCurve(math.isqrt(norm), event.sigma)
    rho = norm / (2 * event.sigma * event.sigma)
    return ConcentratedCurve(rho, symmetric=True)


def _poisson(event: PoissonSampledEvent) -> tuple[Curve, Fraction]:
    rate, inner = sampling_rate(event), event.event
    if rate is None:
        raise UnsupportedEventError(
            "Poisson sampling is accounted for ADD_OR_REMOVE_ONE and single "
            f"individuals, got {event!r}"
        )
    curve, lost = curve_of(inner)
    if rate == 1 or curve == ZERO:
        return curve, lost
    match inner:
        case GaussianEvent(sensitivity=s, sigma=width):
            return SubsampledGaussianCurve(s / width, rate), lost
        case GDPEvent(mu=mu):
            return SubsampledGaussianCurve(mu, rate), lost
    match curve:
        case PureCurve(epsilon=e):
            loss = float_up(e)
            atoms = response_atoms(loss, -loss - math.log1p(math.exp(-loss)))
            return PoissonAtomsCurve(*atoms, rate), lost
        case ResponseCurve(loss=exact, q=q):
            atoms = response_atoms(float_up(exact), math.log(float_up(q)))
            return PoissonAtomsCurve(*atoms, rate), lost
        case DiscreteLaplaceCurve(shift=shift, rate=a) if shift <= _MOST_ATOMS:
            atoms = laplace_atoms(shift, float_up(a))
            return PoissonAtomsCurve(*atoms, rate), lost
    return PoissonBoundCurve(curve, rate), lost


def _subset(event: SampledWithoutReplacementEvent) -> tuple[Curve, Fraction]:
    rate, inner = sampling_rate(event), event.event
    if rate is None:
        raise UnsupportedEventError(
            "sampling without replacement is accounted for REPLACE_ONE and single "
            f"individuals, got {event!r}"
        )
    curve, lost = curve_of(inner)
    if rate == 1 or curve == ZERO:
        return curve, lost
    if lost:
        raise UnsupportedEventError(
            f"the event inside must have a Renyi curve of its own, got {inner!r}"
        )
    match inner:
        case GaussianEvent(sensitivity=s, sigma=width):
            return SubsetGaussianCurve(s / width, rate), lost
        case GDPEvent(mu=mu):
            return SubsetGaussianCurve(mu, rate), lost
    return SubsetCurve(curve, rate, exact_epsilon(inner)), lost


def _group(event: GroupEvent) -> tuple[Curve, Fraction]:
    same = grouped(event.event, event.size)
    if same is not None:
        return curve_of(same)
    curve, lost = curve_of(event.event)
    if lost:
        raise UnsupportedEventError(
            f"no Renyi curve is known for a group under {event.event!r}"
        )
    spread: Curve = GroupCurve(curve, event.size)
    pure = exact_epsilon(event.event)
    if pure is None:
        return spread, lost
    return LeastCurve(spread, PureCurve(event.size * pure)), lost
