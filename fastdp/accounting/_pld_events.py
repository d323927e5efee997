"""Which privacy losses belong to an event: its dominating pair in both directions.

For events that are known by a guarantee only, the pair is the one that every mechanism
with that guarantee is dominated by (docs/proofs/numerical_accounting.md, section 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from fastdp._validate import float_up
from fastdp.accounting import _laplace, _response
from fastdp.accounting._losses import GaussianLoss, Loss
from fastdp.accounting._numeric import sqrt_up
from fastdp.accounting._sampled_loss import SampledGaussianLoss
from fastdp.accounting._simple_losses import AtomLoss, LaplaceLoss
from fastdp.accounting.events import (
    ApproximateDPEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    LaplaceEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    relation_of,
)
from fastdp.accounting.guarantees import exact_rho
from fastdp.exceptions import UnsupportedEventError

#: Noise and rates beyond these are left to the bound by rho.
_NOISE = (Fraction(1, 1000), Fraction(10**7))
_LEAST_RATE = Fraction(1, 10**12)

#: Pure epsilons beyond these likewise.
_PURE = (Fraction(1, 10**9), Fraction(500))

#: Most atoms of a discrete Laplace law.
_MOST_ATOMS = 4000


@dataclass(frozen=True)
class Step:
    """What one event adds.

    Parameters
    ----------
    rho : Fraction
        Bound of zero-concentrated privacy of what is not lost.
    removal, addition : Loss, optional
        Losses for the removal and for the addition of a record; None where the
        parameters are too extreme, or where there is no loss at all (rho is 0).
    lost : Fraction
        Mass at infinity.
    gaussian : Gaussian, optional
        Set for Gaussian noise, which may have a closed form.
    """

    rho: Fraction
    removal: Loss | None = None
    addition: Loss | None = None
    lost: Fraction = Fraction(0)
    gaussian: Gaussian | None = None


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise: the squared ratio of sensitivity and noise, and the rate."""

    square: Fraction
    rate: Fraction = Fraction(1)

    def step(self) -> Step:
        """Return what it adds; sampling only makes rho smaller."""
        rho = self.square / 2
        if self.rate == 1:
            loss = GaussianLoss(float(self.square))
            return Step(rho, loss, loss, gaussian=self)
        noise = sqrt_up(1 / self.square)  # exact for a rational ratio
        if not _NOISE[0] <= noise <= _NOISE[1] or self.rate < _LEAST_RATE:
            return Step(rho, gaussian=self)
        rate, width = float(self.rate), float(noise)
        exact = (self.rate, noise) if noise**2 * self.square == 1 else None
        removal = SampledGaussianLoss(rate, width, removal=True, exact=exact)
        addition = SampledGaussianLoss(rate, width, removal=False, exact=exact)
        return Step(rho, removal, addition, gaussian=self)


def step_of(event: Event) -> Step:
    """Return what one event adds to a composition.

    Raises
    ------
    UnsupportedEventError
        No pair of laws is known that dominates the event.
    """
    match event:
        case GaussianEvent() | GDPEvent() | PoissonSampledEvent():
            found = _gaussian_of(event)
            return Step(Fraction(0)) if found.square == 0 else found.step()
        case LaplaceEvent(sensitivity=s, scale=b):
            loss = LaplaceLoss(s / b) if _PURE[0] <= s / b <= _PURE[1] else None
            return Step(exact_rho(event), loss, loss)
        case DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return _discrete_laplace(event, _laplace.whole(s), 1 / b)
        case RandomizedResponseEvent(p=p, q=q):
            return _three_points(event, p, q)
        case (
            PureDPEvent(epsilon=e)
            | ExponentialMechanismEvent(epsilon=e)
            | PermuteAndFlipEvent(epsilon=e)
        ):
            return _two_points(e)
        case ApproximateDPEvent(epsilon=e, delta=lost):
            pure = _two_points(e)
            return Step(pure.rho, pure.removal, pure.addition, lost)
    raise UnsupportedEventError(f"no pair of laws is known that dominates {event!r}")


def _gaussian_of(event: Event) -> Gaussian:
    match event:
        case GaussianEvent(sensitivity=s, sigma=width):
            return Gaussian((s / width) ** 2)
        case GDPEvent(mu=mu):
            return Gaussian(mu * mu)
        case PoissonSampledEvent(sampling_probability=rate, event=inner):
            relation = relation_of(event)
            if relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
                raise UnsupportedEventError(
                    "Poisson sampling needs the neighboring_relation "
                    f"ADD_OR_REMOVE_ONE here, got {relation!r}"
                )
            found = _gaussian_of(inner)
            return Gaussian(found.square, found.rate * rate)
    raise UnsupportedEventError(f"no pair of laws is known that dominates {event!r}")


def _two_points(epsilon: Fraction) -> Step:
    """Randomized response dominates all that is epsilon-private."""
    rho = exact_rho(PureDPEvent(epsilon))
    if epsilon == 0 or not _PURE[0] <= epsilon <= _PURE[1]:
        return Step(rho)
    e = float(epsilon)
    low = math.exp(-e) / (1 + math.exp(-e))
    loss = AtomLoss(epsilon, (-1, 1), (low, 1 / (1 + math.exp(-e))))
    return Step(rho, loss, loss)


def _three_points(event: Event, p: Fraction, q: Fraction) -> Step:
    rho = exact_rho(event)
    if p == q:
        return Step(Fraction(0))
    unit = Fraction(_response.log_ratio(p, q))  # a double, rounded up
    if not _PURE[0] <= unit <= _PURE[1]:
        return Step(rho)
    rest = 1 - p - q
    masses = {-1: q, 0: rest, 1: p} if rest > 0 else {-1: q, 1: p}
    values = tuple(float(mass) for mass in masses.values())
    loss = AtomLoss(unit, tuple(masses), values)
    return Step(rho, loss, loss)


def _discrete_laplace(event: Event, shift: int, rate: Fraction) -> Step:
    """Losses rate (shift - 2x) for x in 0..shift, all noise beyond at the ends."""
    rho = exact_rho(event)
    if shift > _MOST_ATOMS or not _PURE[0] <= rate * shift <= _PURE[1]:
        return Step(rho)
    a = float(rate)
    total = 1 + math.exp(-a)
    # P(X <= 0) = 1/(1 + e^-a), P(X = x) = (1 - e^-a)/(1 + e^-a) e^(-a x).
    inner = [-math.expm1(-a) * math.exp(-a * x) / total for x in range(1, shift)]
    ends = 1 / total, math.exp(-a * shift) / total
    masses = [ends[1], *inner[::-1], ends[0]]
    indices = tuple(range(-shift, shift + 1, 2))
    loss = AtomLoss(rate, indices, tuple(masses))
    return Step(Fraction(float_up(rho)), loss, loss)
