"""Which privacy losses belong to an event: its dominating pair in both directions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fastdp.accounting._losses import GaussianLoss, Loss
from fastdp.accounting._numeric import sqrt_up
from fastdp.accounting._sampled_loss import SampledGaussianLoss
from fastdp.accounting.events import (
    Event,
    GaussianEvent,
    GDPEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    relation_of,
)
from fastdp.exceptions import UnsupportedEventError

#: Noise and rates beyond these are left to the bound by rho.
_NOISE = (Fraction(1, 1000), Fraction(10**7))
_LEAST_RATE = Fraction(1, 10**12)


@dataclass(frozen=True)
class Pair:
    """The losses of one step, for the removal and for the addition of a record."""

    removal: Loss
    addition: Loss


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise: the squared ratio of sensitivity and noise, and the rate."""

    square: Fraction
    rate: Fraction = Fraction(1)

    @property
    def rho(self) -> Fraction:
        """Return rho of zero-concentrated privacy; sampling only makes it smaller."""
        return self.square / 2

    def pair(self) -> Pair | None:
        """Return the losses, None where the parameters are too extreme."""
        if self.rate == 1:
            loss = GaussianLoss(float(self.square))
            return Pair(loss, loss)
        noise = sqrt_up(1 / self.square)  # exact for a rational ratio
        if not _NOISE[0] <= noise <= _NOISE[1] or self.rate < _LEAST_RATE:
            return None
        rate, width = float(self.rate), float(noise)
        return Pair(
            SampledGaussianLoss(rate, width, removal=True),
            SampledGaussianLoss(rate, width, removal=False),
        )


def gaussian_of(event: Event) -> Gaussian:
    """Return the Gaussian mechanism that dominates the event, perhaps sampled.

    Raises
    ------
    UnsupportedEventError
        No dominating pair is known, or none of Gaussian laws.
    """
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
            found = gaussian_of(inner)
            return Gaussian(found.square, found.rate * rate)
    raise UnsupportedEventError(f"no pair of laws is known that dominates {event!r}")
