"""What all accountants share: a locked state, one relation, statements.

A notion of privacy is a subclass of `Accountant[State]` with four hooks. The state is
immutable, and the hooks are functions of it without side effects:

* `_start()` gives the state of an accountant that has seen nothing;
* `_charge(state, event, count)` gives the state after `count` times `event`, which is
  no `ComposedEvent` or `SelfComposedEvent` (the base takes them apart), and a
  `GroupEvent` only around what `groups.grouped` has no rule for; or raises
  `UnsupportedEventError`;
* `_epsilon_at(state, delta)` for an exact delta in [0, 1), rounded up, or infinity or
  `UnsupportedEventError` where the notion gives no finite one;
* `_log_delta_at(state, epsilon)` for an exact epsilon >= 0: ln(delta) rounded up.

The base adds what holds for every notion: where all events are pure, the sum of their
epsilons bounds the composition, and is returned where it is the smaller bound.
"""

from __future__ import annotations

import abc
import json
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, NoReturn, Self, TypeVar

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting import conversions
from fastdp.accounting._numeric import exp_up, shortened_up
from fastdp.accounting._response import pure_epsilon_at, pure_log_delta
from fastdp.accounting.events._base import (
    Event,
    NeighboringRelation,
    as_json,
    check_event,
    event_of,
    relation_of,
    unwrapped,
    wrapped,
)
from fastdp.accounting.events._composite import (
    ComposedEvent,
    GroupEvent,
    SelfComposedEvent,
)
from fastdp.accounting.groups import grouped
from fastdp.accounting.guarantees import exact_epsilon
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    ParameterError,
    UnsupportedEventError,
)

State = TypeVar("State")

_FORMAT = "fastdp statement"
_LARGEST_COUNT = 10**18


@dataclass(frozen=True)
class Statement:
    """What an accountant has composed: immutable, comparable, fit to be published.

    Parameters
    ----------
    accountant : str
        Name of the accountant's class.
    events : tuple of (Event, int)
        The events in order, each with its count.
    """

    accountant: str
    events: tuple[tuple[Event, int], ...]

    def to_json(self) -> str:
        """Return the statement as JSON text; `from_json` gives an equal one back."""
        listed = [{"event": as_json(e), "count": n} for e, n in self.events]
        content = {"accountant": self.accountant, "events": listed}
        return json.dumps(wrapped(_FORMAT, "statement", content))

    @classmethod
    def from_json(cls, text: str) -> Statement:
        """Return the statement that `to_json` wrote.

        Raises
        ------
        DTypeError, ParameterError
            The text is not such JSON, or of another version.
        """
        content = unwrapped(text, _FORMAT, "statement")
        if not isinstance(content, dict) or set(content) != {"accountant", "events"}:
            raise ParameterError("statement must have accountant and events")
        name, listed = content["accountant"], content["events"]
        if not isinstance(name, str) or not isinstance(listed, list):
            raise ParameterError("accountant must be a string and events a list")
        return cls(name, tuple(_counted(entry) for entry in listed))


def _counted(entry: object) -> tuple[Event, int]:
    if not isinstance(entry, dict) or set(entry) != {"event", "count"}:
        raise ParameterError("each of events must have event and count")
    return event_of(entry["event"]), _validate.integer("count", entry["count"], 1)


def leaves(event: Event, count: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield the events that `count` times `event` composes, with their counts.

    Groups go inward: what holds of a composition for a group is the composition of
    what holds of its parts for that group. Nested groups become one.
    """
    match event:
        case ComposedEvent(events=events):
            for part in events:
                yield from leaves(part, count)
        case SelfComposedEvent(event=inner, count=times):
            yield from leaves(inner, count * times)
        case GroupEvent(event=inner, size=size):
            for part, times in leaves(inner, count):
                yield (_grouped(part, size), times)
        case _:
            yield event, count


def _grouped(event: Event, size: int) -> Event:
    """Return the group's event, as one about single individuals where a rule says."""
    inner = event
    if isinstance(event, GroupEvent):
        inner, size = event.event, size * event.size
    return grouped(inner, size) or GroupEvent(inner, size)


class Accountant(abc.ABC, Generic[State]):
    """Base of all accountants: composes events and says what they guarantee.

    An accountant may be shared by threads. It is not copied, pickled or written to
    by a forked child, because a copy would count only a part of what was spent;
    `statement` exports what was composed.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation that all events must have; None takes that of the first.

    Raises
    ------
    DTypeError
        `neighboring_relation` is of another type.
    """

    def __init__(self, neighboring_relation: NeighboringRelation | None = None) -> None:
        if neighboring_relation is not None and not isinstance(
            neighboring_relation, NeighboringRelation
        ):
            raise DTypeError(
                "neighboring_relation must be a NeighboringRelation or None, "
                f"got {type(neighboring_relation).__name__}"
            )
        self._relation = neighboring_relation
        self._group_size: int | None = None
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._events: list[tuple[Event, int]] = []
        self._pure: Fraction | None = Fraction(0)
        self._state = self._start()

    # ---- for subclasses -----------------------------------------------------------

    @abc.abstractmethod
    def _start(self) -> State:
        """Return the state of an accountant that has seen nothing."""

    @abc.abstractmethod
    def _charge(self, state: State, event: Event, count: int) -> State:
        """Return the state after `count` times `event`, or refuse the event."""

    @abc.abstractmethod
    def _epsilon_at(self, state: State, delta: Fraction) -> float:
        """Return epsilon at `delta`, rounded up."""

    @abc.abstractmethod
    def _log_delta_at(self, state: State, epsilon: Fraction) -> float:
        """Return ln(delta) at `epsilon`, rounded up."""

    # ---- composing ----------------------------------------------------------------

    def compose(self, event: Event, count: int = 1) -> Self:
        """Add `count` times `event`; on an error nothing has been added.

        Each event may have been chosen with the answers to all before it in view.

        Parameters
        ----------
        event : Event
            What was done.
        count : int
            How often, >= 1.

        Returns
        -------
        Accountant
            This accountant.

        Raises
        ------
        DTypeError, ParameterError
            A parameter is of the wrong type or out of its domain.
        UnsupportedEventError
            This notion has no bound for the event, or its neighbouring relation or
            group size differs from that of the events before.
        BudgetExceededError
            The accountant belongs to another process.
        """
        times = _validate.integer("count", count, 1, _LARGEST_COUNT)
        check_event("event", event)
        self._check_process()
        with self._lock:
            self._commit(event, times, *self._after(event, times))
        return self

    def supports(self, event: Event) -> bool:
        """Return whether `compose` would take the event.

        Raises
        ------
        DTypeError
            `event` is not an event.
        """
        check_event("event", event)
        with self._lock:
            try:
                self._after(event, 1)
            except UnsupportedEventError:
                return False
        return True

    def _after(self, event: Event, count: int) -> tuple[State, Fraction | None]:
        """Return state and sum of pure epsilons with the event, and keep neither."""
        if self._relation not in (None, relation_of(event)):
            raise UnsupportedEventError(
                f"neighboring_relation must be {self._relation!r} for all events of "
                f"one accountant, got {relation_of(event)!r}"
            )
        if self._group_size not in (None, event.group_size):
            raise UnsupportedEventError(
                f"group_size must be {self._group_size} for all events of one "
                f"accountant, got {event.group_size}"
            )
        state, pure = self._state, self._pure
        for part, times in leaves(event, count):
            state = self._charge(state, part, times)
            if pure is not None:
                one = exact_epsilon(part)
                pure = None if one is None else shortened_up(pure + times * one)
        return state, pure

    def _commit(
        self, event: Event, count: int, state: State, pure: Fraction | None
    ) -> None:
        """Take over what `_after` returned; nothing here can fail halfway."""
        last = self._events[-1] if self._events else None
        if last is not None and last[0] == event:
            self._events[-1] = (event, last[1] + count)
        else:
            self._events.append((event, count))
        self._state, self._pure = state, pure
        self._relation, self._group_size = relation_of(event), event.group_size

    def _snapshot(self) -> tuple[State, Fraction | None]:
        with self._lock:
            return self._state, self._pure

    # ---- reading ------------------------------------------------------------------

    @property
    def neighboring_relation(self) -> NeighboringRelation | None:
        """The relation of all events; None before the first when none was given."""
        return self._relation

    @property
    def group_size(self) -> int:
        """Number of individuals that the guarantee is about."""
        return self._group_size or 1

    def epsilon(self, delta: Real) -> float:
        """Return an epsilon that everything composed meets at `delta`, rounded up.

        Parameters
        ----------
        delta : int, float, Fraction or Decimal
            >= 0 and < 1; 0 asks for pure privacy.

        Raises
        ------
        DTypeError, ParameterError
            delta is out of its domain.
        UnsupportedEventError
            No finite epsilon is proved at this delta.
        """
        d = conversions.below_one(delta)
        state, pure = self._snapshot()
        if pure == 0:
            return 0.0
        best = math.inf if pure is None else pure_epsilon_at(pure, d)
        try:
            best = min(best, self._epsilon_at(state, d))
        except UnsupportedEventError:
            if best == math.inf:
                raise
        if best == math.inf:
            raise UnsupportedEventError(f"no finite epsilon is proved at {delta!r}")
        return best

    def log_delta(self, epsilon: Real) -> float:
        """Return ln of `delta(epsilon)`, which reaches far below the least double.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            >= 0.

        Raises
        ------
        DTypeError, ParameterError
            epsilon is negative or not finite.
        UnsupportedEventError
            No delta below 1 is proved at any epsilon.
        """
        e = conversions.capped_epsilon(epsilon)
        state, pure = self._snapshot()
        if pure is not None and e >= pure:
            return -math.inf
        simple = 0.0 if pure is None else pure_log_delta(pure, e)
        return min(simple, self._log_delta_at(state, e))

    def delta(self, epsilon: Real) -> float:
        """Return a delta that everything composed meets at `epsilon`, rounded up.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            >= 0.

        Raises
        ------
        DTypeError, ParameterError
            epsilon is negative or not finite.
        UnsupportedEventError
            No delta below 1 is proved at any epsilon.
        """
        return exp_up(self.log_delta(epsilon))

    # ---- statements instead of copies ---------------------------------------------

    def statement(self) -> Statement:
        """Return what has been composed so far, as an immutable record."""
        with self._lock:
            return Statement(type(self).__name__, tuple(self._events))

    @classmethod
    def from_statement(cls, statement: Statement) -> Self:
        """Return a new accountant that has composed the statement's events.

        Raises
        ------
        DTypeError
            `statement` is not a `Statement`.
        UnsupportedEventError
            This notion has no bound for one of the events.
        """
        if not isinstance(statement, Statement):
            raise DTypeError(
                f"statement must be a Statement, got {type(statement).__name__}"
            )
        accountant = cls()
        for event, count in statement.events:
            accountant.compose(event, count)
        return accountant

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise BudgetExceededError(
                "an accountant must be used in the process that made it; a forked "
                "child has only a copy"
            )

    def _refuse_copy(self) -> NoReturn:
        raise DTypeError(
            "an accountant must not be copied or pickled; export its statement()"
        )

    def __copy__(self) -> NoReturn:
        self._refuse_copy()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self._refuse_copy()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse_copy()

    def __repr__(self) -> str:
        count = sum(times for _, times in self.statement().events)
        return f"<{type(self).__name__}: {count} events composed>"
