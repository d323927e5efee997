"""Truncated concentrated differential privacy: rho adds up, the least omega holds."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

from fastdp import _validate
from fastdp._validate import Real, float_up
from fastdp.accounting import _zcdp
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._facts import facts_of, require_rho
from fastdp.accounting._numeric import log_down, shortened_up
from fastdp.accounting.events import Event, Relation, TCDPEvent
from fastdp.exceptions import ParameterError, UnsupportedEventError

__all__ = ["TCDPAccountant"]

#: Ratio of neighboring orders at which divergences are taken, and the largest omega.
_RATIO, _LARGEST = 1.001, 1e6


@dataclass(frozen=True)
class _Segment:
    """The divergence of order a is at most rho a for 1 < a < omega."""

    rho: Fraction = Fraction(0)
    omega: Fraction | None = None


class TCDPAccountant(Accountant[_Segment]):
    """Adds up rho and keeps the least omega; converts at the best order below omega.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.
    omega : int, float, Fraction or Decimal, optional
        > 1 and <= 1e6. Events without a finite rho, such as samples of Gaussian noise,
        are charged the largest ratio of divergence to order, up to omega. None refuses
        such events.

    References
    ----------
    Bun, Dwork, Rothblum, Steinke, "Composable and Versatile Privacy via Truncated CDP"
    (2018). The conversion is that of zero-concentrated privacy (Canonne, Kamath and
    Steinke 2020), over the orders up to omega. The charge for samples is read from
    their Renyi curves. Divergences do not fall with the order, so between two orders
    divergence/order is at most the divergence of the larger order over the smaller
    order.

    Examples
    --------
    >>> from fastdp.accounting import TCDPAccountant, TCDPEvent
    >>> round(TCDPAccountant().compose(TCDPEvent(rho=0.5, omega=5)).epsilon(1e-5), 3)
    4.753
    """

    def __init__(
        self,
        neighboring_relation: Relation | None = None,
        *,
        omega: Real | None = None,
    ) -> None:
        self._most: Fraction | None = None
        if omega is not None:
            self._most = _validate.exact("omega", omega)
            if not 1 < self._most <= _LARGEST:
                raise ParameterError(
                    f"omega must be > 1 and <= {_LARGEST:g}, got "
                    f"{_validate.shown(omega)}"
                )
        super().__init__(neighboring_relation)

    @property
    def rho(self) -> Fraction:
        """The sum of rho: exact if all parts are exact, otherwise rounded up."""
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
        elif self._most is None or facts_of(event).rho() is not None:
            rho = require_rho(event)
        else:
            rho = _rho_up_to(event, self._most)
            omega = self._most if omega is None else min(self._most, omega)
        return _Segment(shortened_up(state.rho + count * rho), omega)

    def _epsilon_at(self, state: _Segment, delta: Fraction) -> float:
        if delta == 0:
            raise UnsupportedEventError(
                "delta must be > 0: truncated concentrated privacy gives no pure one"
            )
        return _zcdp.epsilon_from(log_down(delta), state.rho, Fraction(0), state.omega)

    def _log_delta_at(self, state: _Segment, epsilon: Fraction) -> float:
        return _zcdp.log_delta_from(epsilon, state.rho, Fraction(0), state.omega)


@functools.lru_cache(maxsize=64)
def _rho_up_to(event: Event, omega: Fraction) -> Fraction:
    """Return a bound on divergence/order for the orders from 1 to omega."""
    # Imported here, so that importing this accountant loads no other.
    import numpy as np

    from fastdp.accounting.rdp import renyi_divergence

    last = math.log(float_up(omega)) * (1 + 1e-15)
    orders = np.exp(np.linspace(0, last, math.ceil(last / math.log(_RATIO)) + 1))
    orders[0], orders[-1] = 1.0, max(orders[-1], float_up(omega))
    found = renyi_divergence(event, orders[1:]) / orders[:-1]
    rho = float(found.max()) * (1 + 1e-15)
    if not math.isfinite(rho):
        raise UnsupportedEventError(
            "omega must be smaller: some Renyi divergences up to it are not known to "
            f"be finite for {event!r}"
        )
    return Fraction(rho)
