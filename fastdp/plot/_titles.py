"""Titles of pictures: mechanism, guarantee and neighboring relation in one line."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

#: Maximum length of the description of events in a title, in letters.
_LETTERS = 70


def title_of(subject: Any, delta: float | None = None) -> str:
    """Return the title for an accountant or a trade-off function.

    The title has the composed events, then epsilon at `delta` if given, then the
    relation.
    """
    from fastdp.exceptions import UnsupportedEventError

    statement = getattr(subject, "statement", None)
    if statement is None:
        return _shortened(plain(subject))
    parts = [events_title(statement().events, subject.neighboring_relation)]
    if delta is not None:
        with contextlib.suppress(UnsupportedEventError):
            parts.append(guarantee(subject.epsilon(delta), delta))
    return "\n".join(parts)


def reports_title(estimate: Any) -> str:
    """Return the number of reports of an estimate and, if known, the mechanism."""
    users = f"{estimate.users:,} reports"
    mechanism = getattr(estimate, "mechanism", None)
    if mechanism is None:
        return users
    relation = words_of(mechanism.event().neighboring_relation)
    cost = f"{_pure(mechanism.epsilon())} each"
    return f"{users} by {type(mechanism).__name__}: {cost}, {relation}"


def events_title(events: Any, relation: Any) -> str:
    """Return counted events and their relation, as a line."""
    events = [part for event, count in events for part in _parts(event, count)]
    if len(events) == 1:
        ((event, count),) = events
        what = plain(event) if count == 1 else f"{count:,} x {plain(event)}"
    else:
        total = sum(count for _, count in events)
        what = f"{total:,} events: {_kinds(events)}"
    what = _shortened(what) if events else "no events"
    return what if relation is None else f"{what}, {words_of(relation)}"


def kinds_of(event: Any) -> str:
    """Return the kinds of an event's parts, without their numbers."""
    return _kinds(_parts(event, 1))


def _kinds(events: Iterable[tuple[Any, int]]) -> str:
    kinds = dict.fromkeys(type(event).__name__ for event, _ in events)
    return ", ".join(_short_name(kind) for kind in kinds)


def _parts(event: Any, count: int) -> Iterator[tuple[Any, int]]:
    """Yield the events of a composition, each with its count."""
    if hasattr(event, "events"):
        for part in event.events:
            yield from _parts(part, count)
    elif hasattr(event, "event") and hasattr(event, "count"):
        yield from _parts(event.event, count * event.count)
    else:
        yield event, count


def words_of(relation: Any) -> str:
    """Return a neighboring relation in words."""
    return str(relation.name).lower().replace("_", " ")


def guarantee(epsilon: float, delta: float) -> str:
    """Return a proved epsilon, rounded up to four digits, and its delta."""
    return f"{_pure(epsilon)} at delta {float(delta):.6g}"


def _pure(epsilon: float) -> str:
    shown = Context(prec=4, rounding=ROUND_CEILING).create_decimal(Decimal(epsilon))
    return f"epsilon {float(shown):.6g}"


def plain(thing: Any) -> str:
    """Return an event, or a function, with its numbers as decimals."""
    if isinstance(thing, Fraction):
        return f"{float(thing):.6g}"
    if not dataclasses.is_dataclass(thing):
        return repr(thing)
    fields = [
        (field.name, getattr(thing, field.name))
        for field in dataclasses.fields(thing)
        if getattr(thing, field.name) != field.default
        and field.name != "neighboring_relation"
    ]
    shown = ", ".join(
        plain(value) if dataclasses.is_dataclass(value) else f"{name}={plain(value)}"
        for name, value in fields
    )
    return f"{_short_name(type(thing).__name__)}({shown})"


def _short_name(kind: str) -> str:
    return kind.removesuffix("Event")


def _shortened(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "\u2026"
