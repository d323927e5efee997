"""Facts of additive noise."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from fastdp._validate import float_up
from fastdp.accounting import _grid_noise, _laplace, _skellam, conversions
from fastdp.accounting._facts.base import ZERO, Facts, Reader, entry
from fastdp.accounting._laplace import whole
from fastdp.accounting._numeric import sqrt_up
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteGaussianSumEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    GDPEvent,
    LaplaceEvent,
    PermuteAndFlipEvent,
    SkellamEvent,
    TruncatedDiscreteLaplaceEvent,
)

if TYPE_CHECKING:
    from fastdp.accounting._pld.families import Family, Step
    from fastdp.accounting._renyi.curves import Curve
    from fastdp.accounting._trade_off_functions import TradeOffFunction

#: In trade-off functions, handle discrete Laplace shifts up to this atom by atom.
_MOST_ATOMS = 2000

#: The same limit, inside a sample in which a record is replaced.
_MOST_REPLACED = 512

#: Do not bound one law by another if ln of their quotient may exceed this.
_MOST_SLACK = 0.5


@entry(LaplaceEvent, PermuteAndFlipEvent)
class LaplaceFacts(Facts[LaplaceEvent | PermuteAndFlipEvent]):
    """Continuous Laplace noise, and noisy choices that have it as their worst case.

    For a vector, the worst case changes one coordinate by the whole sensitivity.
    """

    def pure(self) -> Fraction:
        """Return sensitivity/scale."""
        if isinstance(self.event, PermuteAndFlipEvent):
            return self.event.epsilon
        return self.event.sensitivity / self.event.scale

    def rho(self) -> Fraction:
        """Return the KL divergence, which is the largest slope."""
        e = self.pure()
        return conversions.least_rho(conversions.laplace_rho(sensitivity=e, scale=1), e)

    def grouped(self, size: int) -> LaplaceEvent | PermuteAndFlipEvent:
        """Return the same noise under `size` times the sensitivity."""
        if isinstance(self.event, PermuteAndFlipEvent):
            return replace(self.event, epsilon=size * self.event.epsilon)
        return replace(self.event, sensitivity=size * self.event.sensitivity)

    def epsilon(self, delta: Fraction, reader: Reader) -> float:
        """Invert the closed profile."""
        e = self.pure()
        return conversions.invert(
            lambda x: _laplace.continuous_log_delta(x, e), delta, float_up(e)
        )

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float:
        """Return the closed profile."""
        return _laplace.continuous_log_delta(epsilon, self.pure())

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the exact curve."""
        from fastdp.accounting._renyi.curves import LaplaceCurve

        return LaplaceCurve(self.pure()), ZERO

    def family(self) -> Family:
        """Return the exact pair; for a choice, a pair of two candidates is below."""
        from fastdp.accounting._pld import pairs

        choice = isinstance(self.event, PermuteAndFlipEvent)
        make = pairs.noisy_choice if choice else pairs.laplace
        return make(self.pure(), self.rho())

    def replaced(self, rate: Fraction) -> Step:
        """Return the law of noise that is shifted in either direction."""
        from fastdp.accounting._pld import listed_samples
        from fastdp.accounting._pld.families import NOTHING, between

        e = self.pure()
        step = listed_samples.replaced_laplace(e, e, rate) or super().replaced(rate)
        choice = isinstance(self.event, PermuteAndFlipEvent)
        return between(step, NOTHING) if choice else step

    def trade_off(self) -> TradeOffFunction:
        """Return the exact function."""
        from fastdp.accounting._trade_off_laws import LaplaceTradeOff

        return LaplaceTradeOff(self.pure())


@entry(DiscreteLaplaceEvent)
class DiscreteLaplaceFacts(Facts[DiscreteLaplaceEvent]):
    """Discrete Laplace noise: integers move by integers."""

    def pure(self) -> Fraction:
        """Return sensitivity/scale."""
        return self.event.sensitivity / self.event.scale

    def rho(self) -> Fraction:
        """Return the KL divergence, which is the largest slope."""
        rho = conversions.discrete_laplace_rho(
            sensitivity=self.event.sensitivity, scale=self.event.scale
        )
        return conversions.least_rho(rho, self.pure())

    def grouped(self, size: int) -> DiscreteLaplaceEvent:
        """Return the same noise under `size` times the shift of an integer."""
        return replace(self.event, sensitivity=Fraction(size * self._shift()))

    def epsilon(self, delta: Fraction, reader: Reader) -> float:
        """Invert the closed profile."""
        return conversions.discrete_laplace_epsilon(
            delta=delta, sensitivity=self.event.sensitivity, scale=self.event.scale
        )

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float:
        """Return the closed profile."""
        return _laplace.log_delta(epsilon, self.event.sensitivity, self.event.scale)

    def _shift(self) -> int:
        return whole(self.event.sensitivity)

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the exact curve."""
        from fastdp.accounting._renyi.curves import DiscreteLaplaceCurve

        return DiscreteLaplaceCurve(self._shift(), 1 / self.event.scale), ZERO

    def family(self) -> Family:
        """Return the exact pair, or on a fine grid continuous pairs around it."""
        from fastdp.accounting._pld import pairs

        return pairs.discrete_laplace(self._shift(), 1 / self.event.scale, self.rho())

    def replaced(self, rate: Fraction) -> Step:
        """Return the law of noise that is shifted in either direction."""
        from fastdp.accounting._pld import listed_samples

        shift, each = self._shift(), 1 / self.event.scale
        if shift > _MOST_REPLACED:
            above = _grid_noise.laplace_epsilon(shift, each)
            found = listed_samples.replaced_laplace(above, self.pure(), rate)
        else:
            found = listed_samples.replaced_discrete_laplace(shift, each, rate)
        return found or super().replaced(rate)

    def trade_off(self) -> TradeOffFunction:
        """Return the exact function, or on a fine grid the continuous one below it."""
        from fastdp.accounting import _trade_off_functions as functions
        from fastdp.accounting._trade_off_laws import LaplaceTradeOff

        shift, rate = self._shift(), 1 / self.event.scale
        if shift <= _MOST_ATOMS:
            return functions.discrete_laplace(shift, float_up(rate))
        return LaplaceTradeOff(_grid_noise.laplace_epsilon(shift, rate))


@entry(TruncatedDiscreteLaplaceEvent)
class TruncatedDiscreteLaplaceFacts(Facts[TruncatedDiscreteLaplaceEvent]):
    """Discrete Laplace noise redrawn within a bound."""

    def pure(self) -> Fraction | None:
        """Return 0 if the event reveals nothing, else None."""
        return ZERO if self.event.sensitivity == 0 else None

    def stated(self) -> tuple[Fraction, Fraction]:
        """Return the epsilon inside, and the delta of the ends."""
        shift, scale = whole(self.event.sensitivity), self.event.scale
        lost = _laplace.truncated_tail(shift, scale, self.event.bound)
        return shift / scale, Fraction(lost)

    def grouped(self, size: int) -> TruncatedDiscreteLaplaceEvent | None:
        """Return the same noise, unless the group's shift exceeds the bound."""
        wide = Fraction(size * whole(self.event.sensitivity))
        return (
            replace(self.event, sensitivity=wide) if self.event.bound >= wide else None
        )

    def epsilon(self, delta: Fraction, reader: Reader) -> float:
        """Return the epsilon inside, if delta covers the ends."""
        e = self.stated()[0]
        if self.delta(e) <= delta:
            return float_up(e)
        raise self.refusal(
            f"delta {float_up(delta)!r} is smaller than the delta, at every epsilon, of"
        )

    def delta(self, epsilon: Fraction) -> float:
        """Return the exact sum."""
        return conversions.truncated_laplace_delta(
            epsilon=epsilon,
            sensitivity=self.event.sensitivity,
            scale=self.event.scale,
            bound=self.event.bound,
        )

    def family(self) -> Family:
        """Return the exact pair, or the stated guarantee's pair if it is too long."""
        from fastdp.accounting._pld import pairs

        shift, rate = whole(self.event.sensitivity), 1 / self.event.scale
        e, lost = self.stated()
        found = pairs.truncated(
            shift, rate, self.event.bound, lost, conversions.rho_of_pure(e)
        )
        return super().family() if found is None else found


@entry(GaussianEvent, GDPEvent)
class GaussianFacts(Facts[GaussianEvent | GDPEvent]):
    """Continuous Gaussian noise, and mechanisms with Gaussian privacy."""

    def mu(self) -> Fraction:
        """Return sensitivity/sigma."""
        if isinstance(self.event, GDPEvent):
            return self.event.mu
        return self.event.sensitivity / self.event.sigma

    def pure(self) -> Fraction | None:
        """Return 0 if the event reveals nothing, else None."""
        return ZERO if self.mu() == 0 else None

    def rho(self) -> Fraction:
        """Return mu^2/2, which is exact."""
        return self.mu() ** 2 / 2

    def grouped(self, size: int) -> GaussianEvent | GDPEvent:
        """Return the same noise under `size` times the sensitivity."""
        if isinstance(self.event, GDPEvent):
            return replace(self.event, mu=size * self.event.mu)
        return replace(self.event, sensitivity=size * self.event.sensitivity)

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Invert the closed profile."""
        if delta == 0:
            return None
        mu = self.mu()
        return conversions.gaussian_epsilon(delta=delta, sensitivity=mu, sigma=1)

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float:
        """Return the closed profile."""
        mu = self.mu()
        return conversions.gaussian_log_delta(epsilon=epsilon, sensitivity=mu, sigma=1)

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the exact line."""
        from fastdp.accounting._renyi.curves import ConcentratedCurve

        return ConcentratedCurve(self.rho(), symmetric=True), ZERO

    def family(self) -> Family:
        """Return the exact pair."""
        from fastdp.accounting._pld.families import GaussianFamily

        return GaussianFamily(self.mu() ** 2)

    def replaced(self, rate: Fraction) -> Step:
        """Return the law of noise that is shifted in either direction."""
        from fastdp.accounting._pld import listed_samples

        square = self.mu() ** 2
        found = listed_samples.replaced_gaussian(square, square, rate)
        return found or super().replaced(rate)

    def trade_off(self) -> TradeOffFunction:
        """Return the exact function."""
        from fastdp.accounting._trade_off_laws import GaussianTradeOff

        return GaussianTradeOff(self.mu())


Integers = TypeVar(
    "Integers", bound=DiscreteGaussianEvent | DiscreteGaussianSumEvent | SkellamEvent
)


class _IntegerFacts(Facts[Integers]):
    """Noise on integers, by the norm and the number of changed coordinates."""

    def pure(self) -> Fraction | None:
        """Return 0 if the event reveals nothing, else None."""
        return ZERO if self.event.sensitivity == 0 else None

    def grouped(self, size: int) -> Integers:
        """Return the same noise under `size` times the sensitivity."""
        n, norm = self.event.coordinates, self._norm()
        wide = None if n is None else size * n
        root = Fraction(math.isqrt(norm))
        if self._moved() > 1 and root * root < norm:
            root = sqrt_up(Fraction(norm))
        s = size * root
        return replace(self.event, sensitivity=s, coordinates=wide)

    def _norm(self) -> int:
        """Return the largest squared norm of an integer shift."""
        return max(1, int(self.event.sensitivity * self.event.sensitivity))

    def _moved(self) -> int:
        """Return the largest number of coordinates that move."""
        n = self.event.coordinates
        return self._norm() if n is None else min(n, self._norm())


@entry(DiscreteGaussianEvent)
class DiscreteGaussianFacts(_IntegerFacts[DiscreteGaussianEvent]):
    """Discrete Gaussian noise: exact on one coordinate, or by continuous laws."""

    def mu(self) -> Fraction | None:
        """Return a mu that is proved on fine grids; coarser noise is not Gaussian."""
        if self.event.sigma < _grid_noise.FINE:
            return None
        found = _grid_noise.gaussian_mus(self._norm(), self.event.sigma, self._moved())
        return None if found is None else found[1]

    def rho(self) -> Fraction:
        """Return sensitivity^2/(2 sigma^2), which is proved for the discrete law."""
        return conversions.gaussian_rho(
            sensitivity=self.event.sensitivity, sigma=self.event.sigma
        )

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Invert the profile."""
        if delta == 0:
            return None
        return conversions.discrete_gaussian_epsilon(
            delta=delta,
            sensitivity=self.event.sensitivity,
            sigma=self.event.sigma,
            coordinates=self.event.coordinates,
        )

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float:
        """Return the profile."""
        return conversions.discrete_gaussian_log_delta(
            epsilon=epsilon,
            sensitivity=self.event.sensitivity,
            sigma=self.event.sigma,
            coordinates=self.event.coordinates,
        )

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the exact curve of one coordinate, or the line of rho."""
        from fastdp.accounting._renyi.curves import (
            ConcentratedCurve,
            DiscreteGaussianCurve,
        )

        norm, sigma = self._norm(), self.event.sigma
        if self._moved() == 1:
            return DiscreteGaussianCurve(math.isqrt(norm), sigma), ZERO
        return ConcentratedCurve(norm / (2 * sigma * sigma), symmetric=True), ZERO

    def family(self) -> Family:
        """Return the exact pair of one coordinate, or enclosing continuous pairs."""
        from fastdp.accounting._pld import pairs

        norm, sigma, moved = self._norm(), self.event.sigma, self._moved()
        mus = _grid_noise.gaussian_mus(norm, sigma, moved)
        return pairs.discrete_gaussian(norm, sigma * sigma, moved, mus)

    def replaced(self, rate: Fraction) -> Step:
        """Return the law of noise on one coordinate, or enclosing Gaussian laws."""
        from fastdp.accounting._pld import listed_samples

        norm, sigma, moved = self._norm(), self.event.sigma, self._moved()
        found = None
        if moved == 1 and sigma < _grid_noise.FINE:
            found = listed_samples.replaced_discrete_gaussian(
                math.isqrt(norm), float(sigma), rate
            )
        else:
            mus = _grid_noise.gaussian_mus(norm, sigma, moved)
            if mus is not None:
                found = listed_samples.replaced_gaussian(mus[1] ** 2, mus[0] ** 2, rate)
        return found or super().replaced(rate)

    def trade_off(self) -> TradeOffFunction:
        """Return the Gaussian function that is proved on fine grids."""
        from fastdp.accounting._trade_off_laws import GaussianTradeOff

        mu = self.mu()
        return super().trade_off() if mu is None else GaussianTradeOff(mu)


@entry(DiscreteGaussianSumEvent)
class DiscreteGaussianSumFacts(_IntegerFacts[DiscreteGaussianSumEvent]):
    """Sums of discrete Gaussians, within e^(+-slack) of one discrete Gaussian."""

    left_to_accountants = True

    def rho(self) -> Fraction | None:
        """Return the rho of the variance plus the slack of the moved coordinates."""
        slack = self._slack()
        return None if slack is None else self._line() + slack

    def curve(self) -> tuple[Curve, Fraction]:
        """Return a line: the slack is an offset."""
        from fastdp.accounting._renyi.curves import ConcentratedCurve

        slack = self._slack()
        if slack is None:
            return super().curve()
        return ConcentratedCurve(self._line(), slack, symmetric=True), ZERO

    def family(self) -> Family:
        """Return the discrete Gaussian pair; it fails with the slack's probability."""
        from fastdp.accounting._pld import pairs
        from fastdp.accounting._pld.families import FailingFamily

        slack = self._slack()
        if slack is None:
            return super().family()
        norm, variance, moved = self._norm(), self._variance(), self._moved()
        below = sqrt_up(variance) * (1 - Fraction(1, 1 << 79))
        mus = _grid_noise.gaussian_mus(norm, below, moved)
        return FailingFamily(pairs.discrete_gaussian(norm, variance, moved, mus), slack)

    def _variance(self) -> Fraction:
        return self.event.shares * self.event.sigma**2

    def _line(self) -> Fraction:
        return self._norm() / (2 * self._variance())

    def _slack(self) -> Fraction | None:
        """Return a bound on ln of the laws' quotient, over changed coordinates."""
        one = _grid_noise.gaussian_sum_slack(self.event.sigma**2, self.event.shares)
        slack = one * self._moved() * (1 + 1e-9)
        return Fraction(slack) if slack <= _MOST_SLACK else None


@entry(SkellamEvent)
class SkellamFacts(_IntegerFacts[SkellamEvent]):
    """Skellam noise: exact on one coordinate, otherwise by a line."""

    left_to_accountants = True

    def rho(self) -> Fraction | None:
        """Return a line above all Renyi divergences; None for narrow noise."""
        norm, moved = self._norm(), self._moved()
        if moved == 1:
            norm = math.isqrt(norm) ** 2
        return _skellam.rho(self.event.variance, norm, moved)

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the line, or for narrow noise on one coordinate the losses' curve."""
        from fastdp.accounting._renyi.curves import ConcentratedCurve

        rho = self.rho()
        if rho is None:
            return self.curve_of_step()
        return ConcentratedCurve(rho, symmetric=True), ZERO

    def family(self) -> Family:
        """Return the exact pair of one coordinate, or the line's pair."""
        from fastdp.accounting._pld import pairs
        from fastdp.accounting._pld.families import BoundedFamily

        rho, found = self.rho(), None
        if self._moved() == 1:
            shift = math.isqrt(self._norm())
            found = pairs.skellam(self.event.variance, shift, rho)
        if found is None and rho is not None:
            return BoundedFamily(rho)
        return super().family() if found is None else found
