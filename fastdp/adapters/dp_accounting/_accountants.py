"""Accountants with dp_accounting's interface over ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fastdp import accounting
from fastdp._validate import Real
from fastdp.accounting.events import Event, NeighboringRelation, Relation
from fastdp.adapters import _library
from fastdp.adapters.dp_accounting import _base
from fastdp.adapters.dp_accounting._base import dp
from fastdp.adapters.dp_accounting._ours import from_dp_event
from fastdp.exceptions import ParameterError, UnsupportedEventError

_Base: Any = object if dp is None else dp.PrivacyAccountant

#: Least order at which a Renyi curve is read; it also stands for order 1.
_LEAST_ORDER = 1 + 2.0**-20

#: Read an infinite epsilon at this one.
_FAR = 2.0**50


@lru_cache(maxsize=1024)
def _kept(event: Any, relation: NeighboringRelation) -> Event:
    return from_dp_event(event, neighboring_relation=relation)


def _read(event: Any, relation: NeighboringRelation) -> Event:
    """Return our event; training loops compose one event again and again."""
    try:
        hash(event)
    except TypeError:  # it holds a list
        return from_dp_event(event, neighboring_relation=relation)
    return _kept(event, relation)


class _Accountant(_Base):  # type: ignore[misc]
    """Base class: composes dp_accounting's events in one of our accountants."""

    def __init__(self, make: Callable[..., Any], relation: Relation) -> None:
        _library.require(dp, "dp_accounting")
        own = _base.relation(relation)
        super().__init__(dp.NeighboringRelation[own.name])
        self._own, self._accountant, self._private = own, make(own), True

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        """Compose an event, or return an impossible part with the reason."""
        match event:
            case dp.NoOpDpEvent():
                return None
            case dp.NonPrivateDpEvent():
                self._private = self._private and not do_compose
                return None
            case dp.SelfComposedDpEvent():
                return self._maybe_compose(event.event, event.count * count, do_compose)
            case dp.ComposedDpEvent():
                found = (
                    self._maybe_compose(e, count, do_compose) for e in event.events
                )
                return next((error for error in found if error is not None), None)
        try:
            ours = _read(event, self._own)
            if do_compose:
                self._accountant.compose(ours, count)
            elif not self._accountant.supports(ours):
                raise UnsupportedEventError(f"no bound is known for {ours!r}")
        except UnsupportedEventError as error:
            return self.CompositionErrorDetails(event, str(error))
        return None

    def get_epsilon(self, target_delta: Real) -> float:
        """Return an epsilon at `target_delta`, rounded up; infinity if none exists."""
        if not self._private:
            return math.inf
        try:
            return float(self._accountant.epsilon(target_delta))
        except UnsupportedEventError:
            return math.inf

    def get_delta(self, target_epsilon: Real) -> float:
        """Return a delta at `target_epsilon`, which may be infinite, rounded up."""
        if not self._private:
            return 1.0
        finite = min(target_epsilon, _FAR)
        return float(self._accountant.delta(finite))


class PLDAccountant(_Accountant):
    """`dp_accounting.pld.PLDAccountant` with our proved bounds.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation
        fastdp's relation, its name, or dp_accounting's relation.
    value_discretization_interval : float
        No effect: nothing is rounded to a grid. The parameter is for callers that pass
        it.

    Raises
    ------
    DTypeError
        `neighboring_relation` has a wrong type.
    FastDPError
        dp_accounting is not installed.
    """

    def __init__(
        self,
        neighboring_relation: Relation = "add_or_remove_one",
        value_discretization_interval: float = 1e-4,
    ) -> None:
        super().__init__(accounting.PLDAccountant, neighboring_relation)


class RdpAccountant(_Accountant):
    """`dp_accounting.rdp.RdpAccountant`, at the best real order.

    Parameters
    ----------
    orders : sequence of float, optional
        Orders at which `rdp` reads the divergence, each >= 1; by default
        dp_accounting's. Epsilon and delta use the best of all real orders, listed or
        not.
    neighboring_relation : NeighboringRelation
        fastdp's relation, its name, or dp_accounting's relation.

    Raises
    ------
    DTypeError, ParameterError
        `neighboring_relation` is of another type, or an order is below 1.
    FastDPError
        dp_accounting is not installed.
    """

    def __init__(
        self,
        orders: Sequence[float] | None = None,
        neighboring_relation: Relation = "add_or_remove_one",
    ) -> None:
        super().__init__(accounting.RDPAccountant, neighboring_relation)
        if orders is None:
            orders = dp.rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS
        self._orders = np.array(orders, dtype=np.float64)
        if not (self._orders >= 1).all():
            raise ParameterError("orders must be >= 1")

    @property
    def orders(self) -> npt.NDArray[np.float64]:
        """The orders at which `rdp` is read."""
        return self._orders.copy()

    @property
    def rdp(self) -> npt.NDArray[np.float64]:
        """The divergence at each order, rounded up; infinite if a delta remains."""
        if not self._private or self._accountant._snapshot()[0].lost:
            return np.full(self._orders.size, math.inf)
        return np.asarray(
            self._accountant.divergence(np.maximum(self._orders, _LEAST_ORDER))
        )

    def get_epsilon_and_optimal_order(self, target_delta: Real) -> tuple[float, float]:
        """Return `get_epsilon`, and the best of `orders` for it."""
        one = accounting.rdp_to_epsilon
        return self.get_epsilon(target_delta), self._best(one, delta=target_delta)

    def get_delta_and_optimal_order(self, target_epsilon: Real) -> tuple[float, float]:
        """Return `get_delta`, and the best of `orders` for it."""
        one = accounting.rdp_to_delta
        return self.get_delta(target_epsilon), self._best(one, epsilon=target_epsilon)

    def _best(self, read: Callable[..., float], **target: Real) -> float:
        """Return the order with the best single-order bound."""
        rows = zip(np.maximum(self._orders, _LEAST_ORDER), self.rdp, strict=True)
        found = [
            read(order=order, divergence=value, **target)
            if math.isfinite(value)
            else math.inf
            for order, value in rows
        ]
        return float(self._orders[int(np.argmin(found))])
