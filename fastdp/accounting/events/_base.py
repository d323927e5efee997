"""Common parts of all events: exact fields, the neighboring relation, JSON.

The JSON form is `{"format": "fastdp event", "version": 1, "event": {...}}`; rationals
are strings such as "1/10", so that nothing is rounded.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeAlias,
    cast,
    overload,
)

from fastdp import _validate
from fastdp.exceptions import DTypeError, ParameterError

#: Name and version of the JSON form; a reader refuses what it does not know.
FORMAT = "fastdp event"
VERSION = 1

#: What a rational is in JSON; every parameter fits.
_RATIONAL = r"-?[0-9]{1,2200}(/[0-9]{1,2200})?"

#: All kinds of events by name; filled as they are defined.
_KINDS: dict[str, type[Event]] = {}


class NeighboringRelation(enum.Enum):
    """The kind of difference between two datasets that a guarantee compares."""

    #: One dataset is the other plus one record.
    ADD_OR_REMOVE_ONE = 1
    #: Equal sizes; one record is replaced by another.
    REPLACE_ONE = 2
    #: One record is replaced by a fixed special (for example, zero) record.
    REPLACE_SPECIAL = 3

    def __repr__(self) -> str:
        return f"NeighboringRelation.{self.name}"


#: A relation, or its name: what public functions take.
Relation: TypeAlias = (
    NeighboringRelation
    | Literal[
        "add_or_remove_one",
        "replace_one",
        "replace_special",
        "ADD_OR_REMOVE_ONE",
        "REPLACE_ONE",
        "REPLACE_SPECIAL",
    ]
)

if TYPE_CHECKING:

    class RelationField:
        """Type of a field that accepts a relation's name and returns the relation."""

        @overload
        def __get__(self, event: None, kind: type) -> RelationField: ...
        @overload
        def __get__(self, event: object, kind: type) -> NeighboringRelation: ...
        def __get__(self, event: Any, kind: Any) -> Any: ...
        def __set__(self, event: object, value: Relation) -> None: ...

else:
    RelationField = NeighboringRelation


#: Defaults of such fields.
ADD_ONE = cast("RelationField", NeighboringRelation.ADD_OR_REMOVE_ONE)
REPLACE_ONE = cast("RelationField", NeighboringRelation.REPLACE_ONE)
OF_THE_EVENT = cast("RelationField", None)

#: Types of fields; `_CHECKS` has what each asks of a value.
Positive: TypeAlias = Fraction
NonNegative: TypeAlias = Fraction
Unit: TypeAlias = Fraction
Rationals: TypeAlias = tuple[Fraction, ...]
Count: TypeAlias = int

#: Those that are one real number.
NUMBERS = "Positive", "NonNegative", "Unit"


@dataclass(frozen=True, repr=False)
class Event:
    """Base of all events; instances are immutable, hashable and comparable.

    An event states public facts only: it holds no data and no noise, so it may be
    stored, compared and published. All parameters are exact rationals.
    """

    #: Fields that follow from others where they are not given: JSON leaves them out.
    _MAY_FOLLOW: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        if not cls.__name__.startswith("_"):
            _KINDS[cls.__name__] = cls

    def __post_init__(self) -> None:
        """Check each field by the type that it declares, and make it exact."""
        kind: Any = type(self)
        for name, check in _checks_of(kind):
            self._set(name, check(name, getattr(self, name)))

    @property
    def group_size(self) -> int:
        """The number of individuals that the event's guarantee covers."""
        return 1

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default or self._follows(field.name):
                continue
            shown.append(f"{field.name}={_shown(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def to_json(self) -> str:
        """Return the event as JSON text; `from_json` returns an equal event."""
        return json.dumps(wrapped(FORMAT, "event", as_json(self)))

    @staticmethod
    def from_json(text: str) -> Event:
        """Return the event that `to_json` wrote.

        Raises
        ------
        ParameterError
            The text is not such JSON or has another version, or a field is unknown,
            missing, or out of its domain.
        """
        return event_of(unwrapped(text, FORMAT, "event"))

    def _follows(self, name: str) -> bool:
        """Whether the field has its default value."""
        return False

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def relation_of(event: Event) -> NeighboringRelation:
    """Return the neighboring relation for which the event's parameters hold."""
    relation = event.neighboring_relation  # type: ignore[attr-defined]
    assert isinstance(relation, NeighboringRelation)
    return relation


def as_relation(value: object) -> NeighboringRelation:
    """Return a neighboring relation, which may be given by its name in any case."""
    if isinstance(value, NeighboringRelation):
        return value
    if isinstance(value, str) and value.upper() in NeighboringRelation.__members__:
        return NeighboringRelation[value.upper()]
    names = ", ".join(NeighboringRelation.__members__).lower()
    given = repr(value[:40]) if isinstance(value, str) else type(value).__name__
    raise DTypeError(
        f"neighboring_relation must be a NeighboringRelation or one of {names}; got "
        f"{given}"
    )


class HasEvent(Protocol):
    """An object with a cost, such as a mechanism."""

    def event(self) -> Event:
        """Return the public facts of one call."""


def as_event(name: str, value: object) -> Event:
    """Return `value`, an event, or the event of one call of a mechanism.

    A mechanism is an object with a method `event`, which returns the event for the
    mechanism's own sensitivity and relation, or raises.
    """
    if isinstance(value, Event):
        return value
    event = None if isinstance(value, type) else getattr(value, "event", None)
    if not callable(event):
        raise DTypeError(
            f"{name} must be an Event or a mechanism, got {type(value).__name__}"
        )
    return check_event(name, event())


def check_event(name: str, value: object) -> Event:
    """Return `value`, which must be an event."""
    if not isinstance(value, Event):
        raise DTypeError(f"{name} must be an Event, got {type(value).__name__}")
    return value


def _rationals(name: str, values: object) -> Rationals:
    """Return a sequence of numbers as a tuple of exact rationals."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise DTypeError(
            f"{name} must be a tuple of numbers, got {type(values).__name__}"
        )
    return tuple(_validate.exact(name, value) for value in values)


#: From the type that a field declares to its check, of a name and a value.
_CHECKS: dict[object, Callable[[str, Any], object]] = {
    "Positive": _validate.positive,
    "NonNegative": _validate.nonnegative,
    "Unit": lambda name, x: _validate.between(name, x, Fraction(0), Fraction(1)),
    "Count": lambda name, x: _validate.integer(name, x, 1),
    "Rationals": _rationals,
    "RelationField": lambda name, x: as_relation(x),
    "Event": check_event,
}


@cache
def _checks_of(
    kind: type[Event],
) -> tuple[tuple[str, Callable[[str, Any], object]], ...]:
    """Return the checked fields of a kind of event, each with its check."""
    return tuple((f.name, _CHECKS[f.type]) for f in fields(kind) if f.type in _CHECKS)


def _shown(value: object) -> str:
    """Return the text of a field's value; whole rationals as ints."""
    if isinstance(value, tuple):
        parts = ", ".join(_shown(part) for part in value)
        return f"({parts},)" if len(value) == 1 else f"({parts})"
    return repr(value) if isinstance(value, Event) else _validate.shown(value)


# ---- JSON --------------------------------------------------------------------------


def wrapped(form: str, name: str, content: object) -> dict[str, object]:
    """Return `content` in an envelope that names the format and its version."""
    return {"format": form, "version": VERSION, name: content}


def unwrapped(text: str, form: str, name: str) -> Any:
    """Return the content of an envelope; check its format and version."""
    if not isinstance(text, str):
        raise DTypeError(f"text must be a str, got {type(text).__name__}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"text must be JSON: {type(error).__name__}") from None
    if not isinstance(found, dict) or set(found) != {"format", "version", name}:
        raise ParameterError(f"text must be a JSON object of the form {form!r}")
    if found["format"] != form or found["version"] != VERSION:
        raise ParameterError(
            f"text must have the form {form!r} and version {VERSION}, "
            f"got {found['format']!r} and {found['version']!r}"
        )
    return found[name]


def as_json(value: object) -> Any:
    """Return an event or a field of an event as JSON types."""
    match value:
        case Event():
            parts = {
                f.name: as_json(getattr(value, f.name))
                for f in fields(value)
                if not value._follows(f.name)
            }
            return {"type": type(value).__name__, **parts}
        case tuple():
            return [as_json(part) for part in value]
        case Fraction():
            return str(value)
        case NeighboringRelation():
            return value.name
    return value


def event_of(content: object) -> Event:
    """Return the event that `as_json` wrote; refuse anything else."""
    if not isinstance(content, dict) or not isinstance(content.get("type"), str):
        raise ParameterError("an event must be a JSON object with a 'type'")
    kind = _KINDS.get(content["type"])
    if kind is None:
        raise ParameterError(f"type must be a known event, got {content['type']!r}")
    names = {field.name: field.type for field in fields(kind)}
    needed = {"type", *names} - kind._MAY_FOLLOW
    if not needed <= set(content) <= {"type", *names}:
        raise ParameterError(
            f"{kind.__name__} must have the fields {', '.join(names)} and no other"
        )
    try:
        return kind(**{n: _field(content[n], names[n]) for n in names if n in content})
    except RecursionError:
        raise ParameterError("events must not be nested so deeply") from None


def _field(value: object, kind: object) -> object:
    """Return a field's value from JSON, by the type that the field declares."""
    match kind:
        case "Event":
            return event_of(value)
        case "tuple[Event, ...]":
            return tuple(event_of(part) for part in _list(value))
        case "Rationals":
            return tuple(rational(part) for part in _list(value))
        case _ if kind in NUMBERS:
            return rational(value)
        case "RelationField":
            if str(value) not in NeighboringRelation.__members__:
                raise ParameterError(
                    "neighboring_relation must be one of "
                    f"{', '.join(NeighboringRelation.__members__)}"
                )
            return NeighboringRelation[str(value)]
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ParameterError(f"expected a list, got {type(value).__name__}")
    return value


def rational(text: object) -> Fraction:
    """Return the rational that a string such as "-3/4" states."""
    # Digits alone: Fraction("1e999999999") would take forever.
    if isinstance(text, str) and re.fullmatch(_RATIONAL, text) is not None:
        try:
            return Fraction(text)
        except ZeroDivisionError:
            pass
    raise ParameterError('a number must be a string such as "1/10"')
