"""Truncated concentrated differential privacy: rho adds up, the least omega holds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fastdp.accounting import _zcdp
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._facts import require_rho
from fastdp.accounting._numeric import log_down, shortened_up
from fastdp.accounting.events import Event, TCDPEvent
from fastdp.exceptions import UnsupportedEventError

__all__ = ["TCDPAccountant"]


@dataclass(frozen=True)
class _Segment:
    """The divergence of order a is at most rho a for 1 < a < omega."""

    rho: Fraction = Fraction(0)
    omega: Fraction | None = None


class TCDPAccountant(Accountant[_Segment]):
    """Adds up rho and keeps the least omega; converts at the best order below it.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation that all events must have; None takes that of the first.

    References
    ----------
    Bun, Dwork, Rothblum, Steinke, "Composable and Versatile Privacy via Truncated CDP"
    (2018). The conversion is that of zero-concentrated privacy (Canonne, Kamath and
    Steinke 2020), over the orders up to omega.

    Examples
    --------
    >>> from fastdp.accounting import TCDPAccountant, TCDPEvent
    >>> round(TCDPAccountant().compose(TCDPEvent(rho=0.5, omega=5)).epsilon(1e-5), 3)
    4.753
    """

    @property
    def rho(self) -> Fraction:
        """The sum of rho: exact where all parts are, else rounded up."""
        return self._snapshot()[0].rho

    @property
    def omega(self) -> Fraction | None:
        """The least omega; None while it is infinite."""
        return self._snapshot()[0].omega

    def _start(self) -> _Segment:
        return _Segment()

    def _charge(self, state: _Segment, event: Event, count: int) -> _Segment:
        rho, omega = Fraction(0), state.omega
        if isinstance(event, TCDPEvent) and event.rho > 0:
            rho = event.rho
            omega = event.omega if omega is None else min(event.omega, omega)
        else:
            rho = require_rho(event)
        return _Segment(shortened_up(state.rho + count * rho), omega)

    def _epsilon_at(self, state: _Segment, delta: Fraction) -> float:
        if delta == 0:
            raise UnsupportedEventError(
                "delta must be > 0: truncated concentrated privacy gives no pure one"
            )
        return _zcdp.epsilon_from(log_down(delta), state.rho, Fraction(0), state.omega)

    def _log_delta_at(self, state: _Segment, epsilon: Fraction) -> float:
        return _zcdp.log_delta_from(epsilon, state.rho, Fraction(0), state.omega)
