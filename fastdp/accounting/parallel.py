"""Parallel composition: several events on disjoint parts of the data."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from fastdp.accounting._facts import facts_of
from fastdp.accounting.events import (
    Event,
    GaussianEvent,
    GDPEvent,
    LaplaceEvent,
    NeighboringRelation,
    PureDPEvent,
    ZCDPEvent,
)
from fastdp.accounting.events._base import HasEvent, as_event, relation_of
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError

__all__ = ["parallel_event"]


def parallel_event(events: Iterable[Event | HasEvent], *, assignment: str) -> Event:
    """Return the event of several events on disjoint parts of the data.

    A record is in one part, so all events together cost as much as the largest event.
    Any accountant, filter or ledger accepts the result. If the events protect an
    individual with several rows, the rows together are the record: all of them must be
    in one part. Visits by country are not, if one person may visit two countries.

    Parameters
    ----------
    events : iterable of Event or mechanism
        At least one, for one neighboring relation and single records. Each may be
        chosen after the answers to earlier events.
    assignment : str
        The only thing that decides a record's part: "record" (the record itself, such
        as its country or a hash of its user) or "place" (its public place in the
        dataset). The parts are fixed before the first of these answers. Parts that
        depend on other records, such as clusters or blocks of equal size of sorted
        data, are neither.

    Returns
    -------
    Event
        The event that covers all others: an equal event, or Gaussian noise with
        the largest sensitivity/sigma, or Laplace noise with the largest
        sensitivity/scale, or a stated guarantee (`PureDPEvent`, `GDPEvent`,
        `ZCDPEvent`) that each of the others has.

    Raises
    ------
    UnsupportedEventError
        The assignment does not suit the relation, or no event covers all others.

    References
    ----------
    McSherry, "Privacy integrated queries", SIGMOD 2009, Theorem 4.
    docs/proofs/accounting.md, section 8.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent, PLDAccountant, parallel_event
    >>> countries = [GaussianEvent(sensitivity=1, sigma=s) for s in (2, 3, 5)]
    >>> event = parallel_event(countries, assignment="record")
    >>> event == countries[0]
    True
    >>> round(PLDAccountant().compose(event).epsilon(1e-6), 4)
    2.2541
    """
    if not isinstance(events, Iterable):
        raise DTypeError(f"events must be iterable, got {type(events).__name__}")
    given = [as_event("events", event) for event in events]
    if not given:
        raise ParameterError("events must be at least one")
    if assignment not in ("record", "place"):
        raise ParameterError(
            f"assignment must be 'record' or 'place', got {assignment!r}"
        )
    kinds = {(relation_of(event), event.group_size) for event in given}
    if len(kinds) > 1 or given[0].group_size > 1:
        raise UnsupportedEventError(
            "events must be for one neighboring relation and for single records: put "
            "the result inside a GroupEvent instead"
        )
    _check(assignment, relation_of(given[0]))
    for event in given:
        if all(_covers(event, other) for other in given):
            return event
    raise UnsupportedEventError(
        "events must have one that covers all others, got "
        f"{', '.join(sorted({type(event).__name__ for event in given}))}: state what "
        "all have in common, such as a PureDPEvent of the largest epsilon, for each"
    )


def _check(assignment: str, relation: NeighboringRelation) -> None:
    """Refuse an assignment under which one neighbor's step changes two parts."""
    add = relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    if add and assignment == "place":
        raise UnsupportedEventError(
            "assignment must be 'record' for ADD_OR_REMOVE_ONE: a record removed moves "
            "the places of others, and so changes their parts"
        )
    if not add and assignment == "record":
        raise UnsupportedEventError(
            f"assignment must be 'place' for {relation.name}: another record may "
            "belong to another part, and then two parts change. State the events for "
            "ADD_OR_REMOVE_ONE, and put the result inside a GroupEvent of two"
        )


def _covers(event: Event, other: Event) -> bool:
    """Return whether all that is charged for `event` also holds for `other`."""
    if event == other:
        return True
    facts = facts_of(other)
    found: Fraction | None = None
    match event:
        case GaussianEvent() | GDPEvent():
            most, found = facts_of(event).mu(), facts.mu()
        case LaplaceEvent() if isinstance(other, LaplaceEvent):
            most = event.sensitivity / event.scale
            found = other.sensitivity / other.scale
        case PureDPEvent():
            most, found = event.epsilon, facts.pure()
        case ZCDPEvent():
            most, found = event.rho, facts.rho()
        case _:
            return False
    return found is not None and most is not None and found <= most
