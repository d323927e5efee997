"""A locked list of events with an immutable state, for accountants and filters.

The state is a value; the next state is computed from the present state and then stored,
so a refused event has no effect and threads never lose an event.
"""

from __future__ import annotations

import abc
import json
import os
import threading
from dataclasses import dataclass
from typing import Generic, NoReturn, Self, TypeVar

from fastdp import _validate
from fastdp.accounting._facts import leaves
from fastdp.accounting.events._base import (
    Event,
    HasEvent,
    NeighboringRelation,
    Relation,
    as_event,
    as_json,
    as_relation,
    event_of,
    relation_of,
    unwrapped,
    wrapped,
)
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
    """An accountant's composed events: immutable, comparable and publishable.

    Parameters
    ----------
    accountant : str
        Name of the class of the accountant or filter.
    events : tuple of (Event, int)
        The events in order, each with its count.
    """

    accountant: str
    events: tuple[tuple[Event, int], ...]

    def to_json(self) -> str:
        """Return the statement as JSON text; `from_json` returns an equal statement."""
        listed = [{"event": as_json(e), "count": n} for e, n in self.events]
        content = {"accountant": self.accountant, "events": listed}
        return json.dumps(wrapped(_FORMAT, "statement", content))

    @classmethod
    def from_json(cls, text: str) -> Statement:
        """Return the statement that `to_json` wrote.

        Raises
        ------
        ParameterError
            The text is not such JSON, or has another version.
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


class Record(abc.ABC, Generic[State]):
    """Events in order, one neighboring relation, one group size, and a state.

    Threads may share it. It is not copied, pickled or written to by a forked child,
    because a copy would count only a part of the spending. A subclass defines the first
    state, the state after an event, and which states must not be reached.
    """

    def __init__(self, neighboring_relation: Relation | None = None) -> None:
        if neighboring_relation is not None:
            neighboring_relation = as_relation(neighboring_relation)
        self._relation = neighboring_relation
        self._group_size: int | None = None
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._events: list[tuple[Event, int]] = []
        self._state = self._begin()

    @abc.abstractmethod
    def _begin(self) -> State:
        """Return the state before the first event."""

    @abc.abstractmethod
    def _step(self, state: State, event: Event, count: int) -> State:
        """Return the state after `count` times `event`, or refuse the event."""

    def _admit(self, state: State) -> None:
        """Raise an error if a state must not be reached."""

    def _add(self, event: Event | HasEvent, count: float) -> Self:
        times = _validate.whole("count", count, 0, _LARGEST_COUNT)
        event = as_event("event", event)
        self._check_process()
        with self._lock:
            state = self._after(event, max(times, 1))
            if times:
                self._admit(state)
                self._commit(event, times, state)
        return self

    def _after(self, event: Event, count: int) -> State:
        """Return the state with the event, without storing it."""
        if self._relation not in (None, relation_of(event)):
            before = self._events[-1][0] if self._events else self
            raise UnsupportedEventError(
                "neighboring_relation must be the same for all events: "
                f"the {type(before).__name__} before has "
                f"{self._relation!r}, the {type(event).__name__} has "
                f"{relation_of(event)!r}"
            )
        if self._group_size not in (None, event.group_size):
            raise UnsupportedEventError(
                "group_size must be the same for all events: the earlier "
                f"ones have {self._group_size}, got {event.group_size}"
            )
        state = self._state
        for part, times in leaves(event, count):
            state = self._step(state, part, times)
        return state

    def _commit(self, event: Event, count: int, state: State) -> None:
        """Adopt the state that `_after` returned; nothing here can fail halfway."""
        last = self._events[-1] if self._events else None
        if last is not None and last[0] == event:
            self._events[-1] = (event, last[1] + count)
        else:
            self._events.append((event, count))
        self._state = state
        self._relation, self._group_size = relation_of(event), event.group_size

    def _snapshot(self) -> State:
        with self._lock:
            return self._state

    @property
    def neighboring_relation(self) -> NeighboringRelation | None:
        """The relation of all events; None before the first event if none was given."""
        return self._relation

    @property
    def group_size(self) -> int:
        """The number of individuals that the guarantee covers."""
        return self._group_size or 1

    # ---- statements instead of copies ---------------------------------------------

    def statement(self) -> Statement:
        """Return the composed events so far as an immutable record."""
        with self._lock:
            return Statement(type(self).__name__, tuple(self._events))

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise BudgetExceededError(
                f"a {type(self).__name__} must be used in the process that made it: "
                "a forked child has only a copy"
            )

    def _refuse_copy(self) -> NoReturn:
        raise DTypeError(
            f"a {type(self).__name__} must not be copied or pickled: export its "
            "statement()"
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
