"""Zero-concentrated differential privacy: (xi, rho) add up, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fastdp.accounting import _zcdp
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._facts import require_rho
from fastdp.accounting._numeric import log_down, shortened_up
from fastdp.accounting.events import Event, ZCDPEvent
from fastdp.exceptions import UnsupportedEventError

__all__ = ["ZCDPAccountant"]


@dataclass(frozen=True)
class _Line:
    """The divergence of every order a > 1 is at most xi + rho a."""

    rho: Fraction = Fraction(0)
    xi: Fraction = Fraction(0)


class ZCDPAccountant(Accountant[_Line]):
    """Adds up rho (and offsets xi); converts at the best order.

    If all mechanisms are Gaussian, use a Gaussian accountant for better bounds: a rho
    does not show that a mechanism is Gaussian.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    References
    ----------
    Bun, Steinke, "Concentrated Differential Privacy" (2016); Canonne, Kamath, Steinke,
    "The Discrete Gaussian for Differential Privacy" (2020), Corollary 13.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent, ZCDPAccountant
    >>> accountant = ZCDPAccountant().compose(
    ...     GaussianEvent(sensitivity=1, sigma=10), count=100
    ... )
    >>> accountant.rho
    Fraction(1, 2)
    >>> round(accountant.epsilon(1e-5), 3)
    4.728
    """

    @property
    def rho(self) -> Fraction:
        """The sum of rho: exact if all parts are, otherwise rounded up."""
        return self._snapshot()[0].rho

    @property
    def xi(self) -> Fraction:
        """The exact sum of offsets."""
        return self._snapshot()[0].xi

    def _start(self) -> _Line:
        return _Line()

    def _charge(self, state: _Line, event: Event, count: int) -> _Line:
        rho, xi = Fraction(0), Fraction(0)
        if isinstance(event, ZCDPEvent):
            rho, xi = event.rho, event.xi
        else:
            rho = require_rho(event)
        return _Line(
            shortened_up(state.rho + count * rho), shortened_up(state.xi + count * xi)
        )

    def _epsilon_at(self, state: _Line, delta: Fraction) -> float:
        if delta == 0:
            raise UnsupportedEventError(
                "delta must be > 0: zero-concentrated privacy gives no pure epsilon"
            )
        return _zcdp.epsilon_from(log_down(delta), state.rho, state.xi)

    def _log_delta_at(self, state: _Line, epsilon: Fraction) -> float:
        return _zcdp.log_delta_from(epsilon, state.rho, state.xi)
