"""Files of events for ``fastdp account``: TOML, JSON, and exported statements.

A file is read as numbers and names and never executed. Decimals are taken exactly as
written: 0.1 is 1/10. docs/account_file.md describes the format.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from fastdp import _validate
from fastdp.accounting import (
    NeighboringRelation,
    PrivacyLossDistribution,
    Statement,
    events,
)
from fastdp.accounting.events._base import NUMBERS
from fastdp.cli import _account_amplified, _files
from fastdp.exceptions import DTypeError, FastDPError, ParameterError

#: Maximum size of a file, in bytes.
_LONGEST = 1 << 20

#: Maximum length of a number in quotes, in characters.
_LONGEST_NUMBER = 1000

#: Range of nonzero numbers: squares and ratios of two are then within the doubles.
#: Probabilities of failure (delta) may be smaller.
_LEAST, _LARGEST = Fraction(1, 10**60), Fraction(10**60)
_LEAST_DELTA = Fraction(1, 10**300)

# Refuse a key with more parts than any valid file has: the parser's time grows with the
# square of their number.
_PART = r"""(?:(?<![\w-])[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_DEEP_KEY = re.compile(rf"(?:{_PART}){{8}}")

_TOP = ("events", "delta", "epsilon", "neighboring_relation")

#: Kinds of events by their names in files, with and without "Event".
_KINDS: dict[str, type[events.Event]] = {
    short: getattr(events, name)
    for name in events.__all__
    if name.endswith("Event") and name != "Event"
    for short in (name, name.removesuffix("Event"))
}

#: Place of a parameter in an entry: the keys that lead to it.
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Entry:
    """One event of a file with its count, and the entry from which it was read."""

    event: events.Event
    count: int
    source: dict[str, Any]


@dataclass(frozen=True)
class Account:
    """The content of a file."""

    entries: tuple[Entry, ...]
    epsilon: Fraction | None
    delta: Fraction | None
    relation: NeighboringRelation | None


@dataclass(frozen=True)
class Unknown:
    """A parameter to solve for: its entry, and its place in the entry."""

    entry: int
    place: Place

    @property
    def name(self) -> str:
        """The name of the field."""
        return str(self.place[-1])


def read(path: Path, solve: str | None = None) -> tuple[Account, Unknown | None]:
    """Return the file's content, and the place of the parameter to solve for.

    Parameters
    ----------
    path : Path
        A TOML or JSON file.
    solve : str, optional
        Name of a field that one event has, or "N.name" for the N-th event of the
        file. The file may leave the field out; its value in the file is ignored.

    Raises
    ------
    ParameterError, DTypeError
        The file does not have this format, or a value is out of its domain.
    FastDPError
        The file cannot be read.
    """
    sources, content = _sources(path)
    relation = _relation(content)
    unknown = None if solve is None else _unknown(solve, sources)
    entries = []
    for number, source in enumerate(sources):
        here = source
        if unknown is not None and unknown.entry == number:
            here = replaced(source, unknown.place, 1)
        event, count = build(here, number, relation)
        entries.append(Entry(event, count, source))
    epsilon, delta = (
        None if content.get(name) is None else number_of(name, content[name])
        for name in ("epsilon", "delta")
    )
    return Account(tuple(entries), epsilon, delta, relation), unknown


def build(
    source: dict[str, Any], number: int, relation: NeighboringRelation | None
) -> tuple[events.Event, int]:
    """Return the event that an entry of a file describes, and its count.

    Raises
    ------
    ParameterError, DTypeError
        A field is missing, unknown or out of its domain; the message names the
        entry, counted from 1.
    """
    try:
        rest, count = dict(source), 1
        # Only this kind has a field `count` of its own, with the same meaning.
        if _KINDS.get(str(source.get("type"))) is not events.SelfComposedEvent:
            count = _validate.integer("count", rest.pop("count", 1), 1)
        if set(rest) == {"event"}:  # the form of exported statements
            rest = _table("event", rest["event"])
        return _event(rest, relation), count
    except FastDPError as error:
        raise type(error)(f"event {number + 1}: {error}") from None
    except RecursionError:
        raise ParameterError(f"event {number + 1} is nested too deeply") from None


def replaced(source: dict[str, Any], place: Place, value: object) -> dict[str, Any]:
    """Return a copy of an entry with `value` at `place`."""
    copy: dict[str, Any] = dict(source)
    inner: Any = copy
    for key in place[:-1]:
        inner[key] = type(inner[key])(inner[key])
        inner = inner[key]
    inner[place[-1]] = value
    return copy


def number_of(name: str, value: object) -> Fraction:
    """Return a number of a file or an option exactly; fractions are in quotes.

    Raises
    ------
    ParameterError, DTypeError
        `value` is not a finite number, or is out of the supported range.
    """
    number = _exact(name, value)
    least = _LEAST_DELTA if name in ("delta", "--delta", "--to") else _LEAST
    if number and not least <= abs(number) <= _LARGEST:
        raise ParameterError(f"{name} must be 0 or in [{float(least)}, 1e+60]")
    return number


def _exact(name: str, value: object) -> Fraction:
    if isinstance(value, str):
        if len(value) <= _LONGEST_NUMBER:
            try:
                if "/" in value:
                    return _validate.exact(name, Fraction(value))
                return _validate.exact(name, Decimal(value))
            except (ValueError, ArithmeticError):
                pass
        raise ParameterError(f'{name} must be a number such as 0.1 or "1/10"')
    return _validate.exact(name, value)


# ---- the text --------------------------------------------------------------------


def _sources(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the unconverted entries of a file, and its other keys."""
    kind = path.suffix.lower()
    if kind not in (".toml", ".json"):
        raise ParameterError(f"FILE must end in .toml or .json, got {path.name}")
    text = _files.read_text("FILE", path, _LONGEST)
    content = _toml(text) if kind == ".toml" else _json(text)
    if "format" in content:
        return _exported(content, text)
    for name in content:
        if name not in _TOP:
            raise ParameterError(
                f"{name!r} is not a field of FILE, which has {', '.join(_TOP)}"
            )
    listed = content.get("events")
    if not isinstance(listed, list) or not listed:
        raise ParameterError("events must be a list of at least one event")
    return [_table(f"event {i}", entry) for i, entry in enumerate(listed, 1)], content


def _exported(
    content: dict[str, Any], text: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the entries of the export of an accountant or an event."""
    if content["format"] == "fastdp privacy loss distribution":
        event = PrivacyLossDistribution.from_json(text).event()
        return [{"event": json.loads(event.to_json())["event"]}], {}
    if content["format"] == "fastdp event":
        events.Event.from_json(text)
        return [{"event": content["event"]}], {}
    Statement.from_json(text)
    return [dict(entry) for entry in content["statement"]["events"]], {}


def _toml(text: str) -> dict[str, Any]:
    if _DEEP_KEY.search(text):
        raise ParameterError("FILE must have keys of at most 8 parts")
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except RecursionError:
        raise ParameterError("FILE is nested too deeply") from None
    except (ValueError, ArithmeticError) as error:
        # Show only the place: FILE may be a wrong file, whose text must not be shown.
        place = re.search(r"at line \d+, column \d+|at end of document", str(error))
        where = f" ({place[0]})" if place else ""
        raise ParameterError(f"FILE must be valid TOML{where}") from None


def _json(text: str) -> dict[str, Any]:
    try:
        content = json.loads(
            text,
            parse_float=Decimal,
            parse_constant=_no_constant,
            object_pairs_hook=_once,
        )
    except RecursionError:
        raise ParameterError("FILE is nested too deeply") from None
    except json.JSONDecodeError as error:
        where = f"at line {error.lineno}, column {error.colno}"
        raise ParameterError(f"FILE must be valid JSON ({where})") from None
    except (ValueError, ArithmeticError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError("FILE must be valid JSON: a number is too long") from None
    return _table("FILE", content)


def _no_constant(name: str) -> NoReturn:
    raise ParameterError(f"numbers must be finite, got {name}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise ParameterError(f"{name!r} must be given only once")
        table[name] = value
    return table


# ---- events ----------------------------------------------------------------------


def _event(source: dict[str, Any], relation: NeighboringRelation | None) -> Any:
    if source.get("type") in list(_account_amplified.MAKERS):
        return _account_amplified.made(source, relation, number_of)
    kind = _kind(source)
    known = {field.name: field for field in fields(kind)}
    for name in source:
        if name not in known and name != "type":
            raise ParameterError(
                f"{name!r} is not a field of {kind.__name__}, which has "
                f"{', '.join(known)} and count"
            )
    values = {}
    for name, field in known.items():
        if name in source:
            values[name] = _value(name, source[name], field.type, relation)
        elif name == "neighboring_relation" and relation is not None:
            values[name] = relation
    missing = [
        name
        for name in known
        if name not in values and not hasattr(kind, name)  # defaults are on the class
    ]
    if missing:
        raise ParameterError(f"{kind.__name__} must have {', '.join(missing)}")
    return kind(**values)


def _kind(source: dict[str, Any]) -> type[events.Event]:
    name = source.get("type")
    if not isinstance(name, str) or name not in _KINDS:
        short = [k for k in _KINDS if not k.endswith("Event")]
        kinds = ", ".join(sorted([*short, *_account_amplified.MAKERS]))
        shown = repr(name) if isinstance(name, str) else "none"
        raise ParameterError(f"type must be one of {kinds}; got {shown}")
    return _KINDS[name]


def _value(
    name: str, value: object, kind: object, relation: NeighboringRelation | None
) -> object:
    """Return a field's value, converted to the type that the event declares."""
    match kind:
        case "Event":
            return _event(_table(name, value), relation)
        case "tuple[Event, ...]":
            return tuple(_event(_table(name, v), relation) for v in _list(name, value))
        case "Rationals":
            return tuple(number_of(name, v) for v in _list(name, value))
        case _ if kind in NUMBERS:
            return number_of(name, value)
        case "RelationField":
            return _relation({"neighboring_relation": value})
    return value


def _relation(content: dict[str, Any]) -> NeighboringRelation | None:
    name = content.get("neighboring_relation")
    if name is None:
        return None
    members = NeighboringRelation.__members__
    if not isinstance(name, str) or name.upper() not in members:
        raise ParameterError(
            f"neighboring_relation must be one of {', '.join(members)}"
        )
    return members[name.upper()]


def _table(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DTypeError(f"{name} must be a table, got {type(value).__name__}")
    return value


def _list(name: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise DTypeError(f"{name} must be a list, got {type(value).__name__}")
    return value


# ---- what to solve for -----------------------------------------------------------


def _unknown(solve: str, sources: list[dict[str, Any]]) -> Unknown:
    """Return the place of the only field with this name."""
    number, dot, name = solve.rpartition(".")
    entries = range(len(sources))
    if dot:
        if not number.isascii() or not number.isdigit():
            raise ParameterError(f"--solve must be NAME or N.NAME, got {solve!r}")
        if not 1 <= int(number) <= len(sources):
            raise ParameterError(
                f"--solve must name one of the {len(sources)} events of FILE, "
                f"got {solve!r}"
            )
        entries = range(int(number) - 1, int(number))
    found = [Unknown(i, place) for i in entries for place in _places(sources[i], name)]
    if len(found) != 1:
        rule = "a field of an event" if not found else "of one event only (try N.NAME)"
        raise ParameterError(f"--solve must be {rule} in FILE, got {solve!r}")
    return found[0]


def _places(source: dict[str, Any], name: str) -> Iterator[Place]:
    """Yield the places where an entry has, or could have, a field of that name."""
    if name == "count":
        yield ("count",)
        return
    yield from _within(source, name, ())


def _within(value: object, name: str, place: Place) -> Iterator[Place]:
    if isinstance(value, list):
        for i, part in enumerate(value):
            yield from _within(part, name, (*place, i))
    elif isinstance(value, dict):
        if name in _numbers(value.get("type")):
            yield (*place, name)
        for key, part in value.items():
            yield from _within(part, name, (*place, key))


def _numbers(kind: object) -> list[str]:
    """Return the names of the fields of a kind of event that are real numbers."""
    if not isinstance(kind, str):
        return []
    if kind in _account_amplified.MAKERS:
        return list(_account_amplified.numbers_of(kind))
    known = _KINDS.get(kind)
    return [f.name for f in fields(known) if f.type in NUMBERS] if known else []
