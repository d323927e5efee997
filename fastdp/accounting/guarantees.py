"""The guarantee of one event, read from its facts.

An unknown event is refused, never free. To compose several events, use an accountant:
these functions use the sum of pure epsilons or the sum of rhos, whichever gives the
smaller bound.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from fastdp._validate import Real, float_up
from fastdp.accounting import conversions
from fastdp.accounting._facts import Reader, facts_of, require_rho
from fastdp.accounting._numeric import answered, exp_up, log_up, required
from fastdp.accounting.events import Event
from fastdp.exceptions import UnsupportedEventError

if TYPE_CHECKING:
    from fastdp.accounting._accountant import Accountant

__all__ = ["event_delta", "event_epsilon", "event_rho"]


def event_epsilon(event: Event, delta: Real = 0) -> float:
    """Return an epsilon that `event` meets at `delta`, rounded up.

    Parameters
    ----------
    event : Event
        One of the events of `fastdp.accounting.events`.
    delta : int, float, Fraction or Decimal
        >= 0 and <= 1; 0 means pure privacy, and at 1 epsilon is 0.

    Raises
    ------
    UnsupportedEventError
        The event is not known, or no finite epsilon is proved at this delta.
    """
    d = conversions.up_to_one(delta)
    return 0.0 if d == 1 and facts_of(event) else _READER.epsilon(event, d)


def event_delta(event: Event, epsilon: Real) -> float:
    """Return a delta that `event` meets at `epsilon`, rounded up.

    Raises
    ------
    UnsupportedEventError
        The event is not known, or no bound is proved at this epsilon.
    """
    e = conversions.capped_epsilon(epsilon)
    known = answered(lambda: facts_of(event).delta(e), None)
    return exp_up(event_log_delta(event, epsilon)) if known is None else known


def event_log_delta(event: Event, epsilon: Real) -> float:
    """Return ln of `event_delta`, also far below the smallest double."""
    return _READER.log_delta(event, conversions.capped_epsilon(epsilon))


def event_rho(event: Event) -> float:
    """Return rho of `event` under zero-concentrated privacy, rounded up.

    Raises
    ------
    UnsupportedEventError
        The event has no finite rho (truncated noise, an offset xi) or is unknown.
    """
    return float_up(required(event, lambda: require_rho(event)))


class _Profile(Reader):
    """Read the facts of an event, or the accountants if the facts require it."""

    def epsilon(self, event: Event, delta: Fraction) -> float:
        facts = facts_of(event)
        pure = facts.pure() if delta == 0 else None
        if pure is not None:
            return float_up(pure)
        try:
            found = answered(lambda: facts.epsilon(delta, self), None)
        except UnsupportedEventError:
            if not facts.left_to_accountants:
                raise
            found = None
        if found is not None:
            return found
        if facts.left_to_accountants:
            return _of_accountants(event, lambda accountant: accountant.epsilon(delta))
        way_out = "" if delta else ": give a delta, such as 1e-6"
        raise UnsupportedEventError(
            f"no finite epsilon is known for {event!r} at delta {float_up(delta)!r}"
            f"{way_out}"
        )

    def log_delta(self, event: Event, epsilon: Fraction) -> float:
        facts = facts_of(event)
        known = answered(lambda: facts.delta(epsilon), None)
        if known is not None:
            return log_up(known)
        try:
            nothing = None if facts.left_to_accountants else 0.0
            found = answered(lambda: facts.log_delta(epsilon, self), nothing)
        except UnsupportedEventError:
            if not facts.left_to_accountants:
                raise
            found = None
        if found is not None:
            return found
        if facts.left_to_accountants:
            return _of_accountants(
                event, lambda accountant: accountant.log_delta(epsilon)
            )
        raise UnsupportedEventError(f"no delta is known for {event!r}")


_READER = _Profile()


def _of_accountants(event: Event, reading: Callable[[Accountant[Any]], float]) -> float:
    """Return the least bound from the accountants that know more than single events.

    If none of them has a bound, for example if the events' own deltas use up delta,
    return the bound from the (epsilon, delta) pairs.
    """
    from fastdp.accounting.approx import ApproximateAccountant
    from fastdp.accounting.fdp import FDPAccountant
    from fastdp.accounting.pld import PLDAccountant
    from fastdp.accounting.rdp import RDPAccountant

    found = []
    for kind in (RDPAccountant, FDPAccountant, PLDAccountant):
        try:
            found.append(reading(kind().compose(event)))
        except UnsupportedEventError as error:
            refused = error
    if found:
        return min(found)
    try:
        return reading(ApproximateAccountant().compose(event))
    except UnsupportedEventError:
        raise refused from None
