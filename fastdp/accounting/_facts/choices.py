"""Facts of randomized answers and private choices."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from fastdp._validate import float_down, float_up
from fastdp.accounting import _response, conversions
from fastdp.accounting._facts.base import ZERO, Facts, Reader, entry
from fastdp.accounting.events import (
    ExponentialMechanismEvent,
    PureDPEvent,
    RandomizedResponseEvent,
)

if TYPE_CHECKING:
    from fastdp.accounting._pld.families import Family
    from fastdp.accounting._renyi.curves import Curve
    from fastdp.accounting._trade_off_functions import TradeOffFunction


@entry(RandomizedResponseEvent)
class RandomizedResponseFacts(Facts[RandomizedResponseEvent]):
    """A report whose loss takes three values."""

    def pure(self) -> Fraction:
        """Return ln(p/q), rounded up."""
        return Fraction(_response.log_ratio(self.event.p, self.event.q))

    def rho(self) -> Fraction:
        """Return the best rho that is proved."""
        return Fraction(_response.rho(self.event.p, self.event.q))

    def epsilon(self, delta: Fraction, reader: Reader) -> float:
        """Return ln((p - delta)/q)."""
        return _response.epsilon(self.event.p, self.event.q, delta)

    def delta(self, epsilon: Fraction) -> float:
        """Return p - e^epsilon q."""
        return _response.delta(self.event.p, self.event.q, epsilon)

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the exact curve."""
        from fastdp.accounting._renyi.curves import ConcentratedCurve, ResponseCurve

        if self.event.p == self.event.q:
            return ConcentratedCurve(ZERO), ZERO
        return ResponseCurve(self.pure(), self.event.q), ZERO

    def family(self) -> Family:
        """Return the exact pair."""
        from fastdp.accounting._pld import pairs

        return pairs.three_points(self.event.p, self.event.q, self.pure(), self.rho())

    def trade_off(self) -> TradeOffFunction:
        """Return the exact function with its knots rounded down."""
        from fastdp.accounting import _trade_off_functions as functions

        first, last = float_down(self.event.q), float_up(self.event.p)
        x, f = [0.0, first, 1 - last, 1.0], [1.0, 1 - last, first, 0.0]
        return functions.from_points(x, f)


@entry(ExponentialMechanismEvent)
class ExponentialMechanismFacts(Facts[ExponentialMechanismEvent]):
    """A choice of bounded range."""

    def pure(self) -> Fraction:
        """Return the length of the range."""
        return self.event.epsilon

    def rho(self) -> Fraction:
        """Return epsilon^2/8 (Cesar and Rogers 2021), or the rho of pure privacy."""
        e = self.event.epsilon
        return min(e * e / 8, conversions.rho_of_pure(e))

    def grouped(self, size: int) -> ExponentialMechanismEvent:
        """Return an event with `size` times the length of the range."""
        return replace(self.event, epsilon=size * self.event.epsilon)

    def epsilon(self, delta: Fraction, reader: Reader) -> float:
        """Invert the worst profile of a range."""
        return _response.bounded_range_epsilon(self.event.epsilon, delta)

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float:
        """Return the worst profile of a range."""
        return _response.bounded_range_log_delta(self.event.epsilon, epsilon)

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the worst curve of a range."""
        from fastdp.accounting._renyi.curves import BoundedRangeCurve

        return BoundedRangeCurve(self.event.epsilon), ZERO

    def family(self) -> Family:
        """Return a pair that dominates every range, and an attained pair below."""
        from fastdp.accounting._pld import pairs

        return pairs.bounded_range(self.event.epsilon, self.rho())


@entry(PureDPEvent)
class PureFacts(Facts[PureDPEvent]):
    """Pure privacy; its worst case is randomized response."""

    states_guarantee = True

    def pure(self) -> Fraction:
        """Return epsilon."""
        return self.event.epsilon

    def mu(self) -> Fraction | None:
        """Return 0 if the event reveals nothing, else None."""
        return ZERO if self.event.epsilon == 0 else None

    def grouped(self, size: int) -> PureDPEvent:
        """Return `size` times epsilon."""
        return replace(self.event, epsilon=size * self.event.epsilon)

    def epsilon(self, delta: Fraction, reader: Reader) -> float:
        """Return randomized response's epsilon."""
        return _response.pure_epsilon_at(self.event.epsilon, delta)

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float:
        """Return randomized response's epsilon."""
        return _response.pure_log_delta(self.event.epsilon, epsilon)
