"""Facts of mechanisms with a stated guarantee and nothing else."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from fastdp.accounting import _zcdp, conversions, groups
from fastdp.accounting._facts.base import ZERO, Facts, Reader, entry
from fastdp.accounting._numeric import log_down
from fastdp.accounting._response import Stated
from fastdp.accounting.events import (
    ApproximateDPEvent,
    NeighboringRelation,
    PrivacyLossEvent,
    RDPEvent,
    TCDPEvent,
    TradeOffEvent,
    ZCDPEvent,
)
from fastdp.accounting.events._base import relation_of

if TYPE_CHECKING:
    from fastdp.accounting._pld.families import Family
    from fastdp.accounting._renyi.curves import Curve
    from fastdp.accounting._trade_off_functions import TradeOffFunction


@entry(ApproximateDPEvent)
class ApproximateFacts(Facts[ApproximateDPEvent]):
    """(epsilon, delta): with probability 1 - delta a pure mechanism."""

    states_guarantee = True

    def pure(self) -> Fraction | None:
        """Return epsilon if delta is 0."""
        return self.event.epsilon if self.event.delta == 0 else None

    def stated(self) -> tuple[Fraction, Fraction]:
        """Return both numbers."""
        return self.event.epsilon, self.event.delta

    def grouped(self, size: int) -> ApproximateDPEvent | None:
        """Return `size` times epsilon, and the delta that grows with it."""
        e = self.event.epsilon
        delta = Fraction(
            groups.group_delta(epsilon=e, delta=self.event.delta, size=size)
        )
        return replace(self.event, epsilon=size * e, delta=delta) if delta < 1 else None

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Return the epsilon of a randomized response that fails with P = delta."""
        found = Stated(*self.stated()).epsilon_at(delta)
        return None if found == math.inf else found

    def delta(self, epsilon: Fraction) -> float:
        """Return the epsilon of a randomized response that fails with P = delta."""
        return Stated(*self.stated()).delta_at(epsilon)


@entry(ZCDPEvent, TCDPEvent)
class ConcentratedFacts(Facts[ZCDPEvent | TCDPEvent]):
    """A line above the Renyi divergences, possibly only up to an order omega."""

    def _line(self) -> tuple[Fraction, Fraction, Fraction | None]:
        """Return rho, xi and omega."""
        if isinstance(self.event, ZCDPEvent):
            return self.event.rho, self.event.xi, None
        return self.event.rho, ZERO, self.event.omega

    @property
    def states_guarantee(self) -> bool:
        """Whether the stated guarantee is a pure epsilon."""
        return self.pure() is not None

    def pure(self) -> Fraction | None:
        """Return xi if rho is 0, because the bound holds in the limit of orders."""
        rho, xi, _ = self._line()
        return xi if rho == 0 else None

    def rho(self) -> Fraction | None:
        """Return rho if nothing else is stated."""
        rho, xi, omega = self._line()
        if omega is None and xi == 0:
            return rho
        pure = self.pure()
        return None if pure is None else conversions.rho_of_pure(pure)

    def grouped(self, size: int) -> ZCDPEvent | TCDPEvent | None:
        """Return size^2 rho (Bun and Steinke 2016; Bun et al. 2018)."""
        rho = size * size * self.event.rho
        if isinstance(self.event, ZCDPEvent):
            xi = size * groups.harmonic_up(size) * self.event.xi
            return replace(self.event, rho=rho, xi=xi)
        if self.event.omega <= size:
            return None
        return replace(self.event, rho=rho, omega=self.event.omega / size)

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Convert at the best order."""
        rho, xi, omega = self._line()
        if delta == 0:
            return None
        return _zcdp.epsilon_from(log_down(delta), rho, xi, omega)

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float:
        """Convert at the best order."""
        rho, xi, omega = self._line()
        return _zcdp.log_delta_from(epsilon, rho, xi, omega)

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the line."""
        from fastdp.accounting._renyi.curves import ConcentratedCurve

        rho, xi, omega = self._line()
        return ConcentratedCurve(rho, xi, omega=omega), ZERO


@entry(RDPEvent)
class RDPFacts(Facts[RDPEvent]):
    """Renyi divergences at some orders."""

    left_to_accountants = True

    def pure(self) -> Fraction | None:
        """Return 0 if the event reveals nothing, else None."""
        return ZERO if min(self.event.epsilons) == 0 else None

    def grouped(self, size: int) -> RDPEvent | None:
        """Return the curve of a group of up to 2^c: (order/2^c, 3^c epsilon).

        Mironov 2017, Proposition 2; it requires orders of at least 2^(c+1).
        """
        c = (size - 1).bit_length()
        pairs = zip(self.event.orders, self.event.epsilons, strict=True)
        kept = [(a / 2**c, 3**c * e) for a, e in pairs if a >= 2 ** (c + 1)]
        if not kept:
            return None
        orders, epsilons = zip(*kept, strict=True)
        return replace(self.event, orders=orders, epsilons=epsilons)

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the table, with interpolation between its orders."""
        from fastdp.accounting._renyi.curves import TabulatedCurve

        return TabulatedCurve(self.event.orders, self.event.epsilons), ZERO


@entry(TradeOffEvent)
class TradeOffFacts(Facts[TradeOffEvent]):
    """A piecewise linear trade-off function, for either order of the datasets."""

    left_to_accountants = listed = True

    def pure(self) -> Fraction | None:
        """Return 0 if no test is better than chance."""
        x, f = self.event.false_positive_rates, self.event.false_negative_rates
        return ZERO if all(a + b == 1 for a, b in zip(x, f, strict=True)) else None

    def grouped(self, size: int) -> TradeOffEvent:
        """Return the exact function of a group."""
        x, f = self.event.false_positive_rates, self.event.false_negative_rates
        rates, values = groups.group_trade_off(x, f, size)
        return replace(
            self.event, false_positive_rates=rates, false_negative_rates=values
        )

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the curve of the exact pair of max(f, f^-1)."""
        return self.curve_of_step()

    def family(self) -> Family:
        """Return the exact pair of max(f, f^-1)."""
        from fastdp.accounting._pld import pairs

        x, f = self.event.false_positive_rates, self.event.false_negative_rates
        return pairs.trade_off(x, f)

    def trade_off(self) -> TradeOffFunction:
        """Return max(f, f^-1) with its knots rounded down."""
        from fastdp.accounting import _trade_off_functions as functions

        x = [float(v) for v in self.event.false_positive_rates]
        f = [float(v) for v in self.event.false_negative_rates]
        return functions.from_points(x, f).symmetrized()


@entry(PrivacyLossEvent)
class PrivacyLossFacts(Facts[PrivacyLossEvent]):
    """A discrete law of the privacy loss."""

    left_to_accountants = listed = True

    def pure(self) -> Fraction | None:
        """Return 0 if the event reveals nothing, else None."""
        law = self.event.losses, self.event.probabilities
        return ZERO if law == ((ZERO,), (Fraction(1),)) else None

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the larger curve of the two directions."""
        return self.curve_of_step()

    def family(self) -> Family:
        """Return the law, of both directions."""
        from fastdp.accounting._pld import pairs

        one = self.event.losses, self.event.probabilities
        other = self.event.addition_losses, self.event.addition_probabilities
        oriented = relation_of(self.event) is not NeighboringRelation.REPLACE_ONE
        return pairs.given(one, other if other[0] else None, oriented)
