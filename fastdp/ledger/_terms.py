"""The public facts of a transaction: label, terms, mechanism, form of the answer.

Terms are a versioned dictionary with one canonical text. They hold exact rationals,
names and a digest of public keys, but never a repr, data or a digest of data: a retry
with an upgraded package makes the same terms.
"""

from __future__ import annotations

import decimal
import enum
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _validate
from fastdp.accounting.events import Event
from fastdp.accounting.events._base import as_json, check_event, event_of
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from fastdp.mechanisms._base import Mechanism

VERSION = 1

#: Maximum body of one answer, in bytes; larger answers are written to files.
BODY_LIMIT = 64 << 20

#: Maximum length of a label or of a budget's name.
_LONGEST_NAME = 200

#: Bounds on the probability that the draw of one entry takes a step that is visible in
#: its time (docs/proofs/ledger.md, section 3; lemma `rare_steps`).
_RARE_LAPLACE = Fraction(1, 2**45)
_RARE_GAUSSIAN = Fraction(1, 2**37)


# ---- canonical text ----------------------------------------------------------------


def canonical(value: object) -> str:
    """Return the canonical JSON text of a value of dicts, lists, strings and ints."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def frame(*parts: bytes) -> bytes:
    """Join byte strings injectively: put its length before each string."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def digest(*parts: bytes) -> bytes:
    """Return the 32-byte BLAKE2b digest of a frame."""
    return hashlib.blake2b(frame(*parts), digest_size=32).digest()


def check_name(name: str, value: object) -> str:
    """Return a label or the name of a budget: 1 to 200 printable ASCII characters."""
    if not isinstance(value, str):
        raise DTypeError(f"{name} must be a str, got {type(value).__name__}")
    printable = value.isascii() and value.isprintable() and value == value.strip()
    if not printable or not 1 <= len(value) <= _LONGEST_NAME:
        raise ParameterError(
            f"{name} must be 1 to {_LONGEST_NAME} printable ASCII characters without "
            f"space at either end, got {ascii(value)[: _LONGEST_NAME + 2]}"
        )
    return value


def check_names(name: str, value: object) -> tuple[str, ...]:
    """Return the sorted names of budgets without repetition; a string is one name."""
    if isinstance(value, str):
        return (check_name(name, value),)
    if not isinstance(value, Iterable):
        raise DTypeError(f"{name} must be a str or strings, got {type(value).__name__}")
    names = [check_name(name, entry) for entry in value]
    if not names or len(set(names)) != len(names):
        raise ParameterError(f"{name} must name one or more budgets, each once")
    return tuple(sorted(names))


# ---- terms -------------------------------------------------------------------------


@dataclass(frozen=True)
class Terms:
    """All public facts of one transaction; equal facts have an equal digest."""

    label: str
    kind: str
    budgets: tuple[str, ...]
    event: Event
    count: int
    text: str
    digest: bytes
    #: Total variation distance that a free second attempt adds; None if it must pay.
    distance: Fraction | None = None
    #: Privacy unit of the cost; None if the caller gives none. It is not in the text.
    unit: str | None = None

    def per(self, unit: object) -> Terms:
        """Return the same transaction with this privacy unit."""
        return self if unit is None else replace(self, unit=check_name("unit", unit))


def terms(
    label: object,
    kind: str,
    budgets: object,
    event: Event,
    facts: Mapping[str, object],
    *,
    count: int = 1,
    source: str | None = None,
) -> Terms:
    """Check the arguments and return the terms of a transaction."""
    own = check_name("label", label)
    names = check_names("budgets", budgets)
    check_event("event", event)
    times = _validate.integer("count", count, 1, 10**18)
    if source is not None:
        check_name("source", source)
    text = canonical(
        {
            "version": VERSION,
            "kind": kind,
            "budgets": list(names),
            "event": event_json(event),
            "count": times,
            "source": source,
            **facts,
        }
    )
    return Terms(own, kind, names, event, times, text, digest(text.encode()))


@functools.lru_cache(maxsize=256)
def _terms_of_call(
    kind: str,
    budgets: tuple[str, ...],
    event: Event,
    mechanism: Mechanism,
    data: tuple[str, tuple[int, ...]],
    options: tuple[tuple[str, object], ...],
    source: str | None,
) -> Terms:
    shape = {"dtype": data[0], "shape": list(data[1])}
    facts = {"law": law_of(mechanism), "data": shape, **dict(options)}
    return terms("label", kind, budgets, event, facts, source=source)


def terms_of_call(
    label: object,
    kind: str,
    budgets: object,
    event: Event,
    mechanism: Mechanism,
    data: Any,
    source: str | None,
    **options: object,
) -> Terms:
    """Return the terms of one call of a mechanism with one array."""
    own = check_name("label", label)
    names = check_names("budgets", budgets)
    shape = (type(data).__name__, ())
    if isinstance(data, (np.ndarray, np.generic)):
        shape = (data.dtype.str, data.shape)
    found = _terms_of_call(
        kind, names, event, mechanism, shape, tuple(options.items()), source
    )
    return replace(found, label=own)


@functools.lru_cache(maxsize=256)
def event_json(event: Event) -> Any:
    """Return an event as JSON types."""
    return as_json(event)


@functools.lru_cache(maxsize=1024)
def event_from(text: str) -> tuple[Event, int, tuple[str, ...]]:
    """Return event, count and budgets from terms as text."""
    found = json.loads(text)
    return event_of(found["event"]), found["count"], tuple(found["budgets"])


@functools.lru_cache(maxsize=256)
def law_of(mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism's public parameters by name, without those at their default.

    So a parameter that a later version adds changes no terms.
    """
    stated = mechanism._not_default(**dict(mechanism._arguments))
    return {
        "type": type(mechanism).__name__,
        **{name: as_term(value) for name, value in stated},
    }


def as_term(value: object) -> Any:
    """Return a public parameter as JSON types, with numbers as exact rationals."""
    match value:
        case None | bool() | str():
            return value
        case enum.Enum():
            return value.name
        case int() | float() | Fraction() | decimal.Decimal() | np.number():
            return str(_validate.exact("a parameter", value))
        case Event():
            return event_json(value)
        case Mechanism():
            return law_of(value)
        case tuple() | list():
            return [as_term(part) for part in value]
    raise DTypeError(
        "a parameter of a mechanism must be a number, a string or a tuple of them to "
        f"be written down, got {type(value).__name__}: spend its event, then release"
    )


def event_of_cost(cost: object) -> Event:
    """Return the event of a mechanism, or the event itself."""
    if isinstance(cost, Mechanism):
        return cost.event()
    if isinstance(cost, Event):
        return cost
    raise DTypeError(
        f"event must be an Event or a mechanism, got {type(cost).__name__}"
    )


def check_mechanism(value: object, verb: str) -> Any:
    """Return a mechanism that has the method `verb`."""
    if not isinstance(value, Mechanism):
        raise DTypeError(
            f"mechanism must be a mechanism of fastdp, got {type(value).__name__}"
        )
    if not hasattr(value, verb):
        raise DTypeError(
            f"mechanism must have the method {verb}, but a "
            f"{type(value).__name__} has not; charge it by spend(event, "
            "label=...) before it is used"
        )
    if verb == "release" and not value._returns_array:
        raise DTypeError(
            "mechanism must return one array or number from release to "
            f"be stored, but a {type(value).__name__} does not: charge it "
            "by spend(event, label=...), then call its release and keep "
            "the result"
        )
    return value


# ---- what a draw takes and gives ---------------------------------------------------


def rare_step(mechanism: Mechanism) -> Fraction | None:
    """Bound the probability of a visibly slower draw of one entry; None: no bound.

    Only laws whose draws otherwise have a fixed cost are listed. For all other laws a
    second attempt is charged again. This includes frequency oracles: their flips have
    timing differences that are not fully explained (timing.md, "What it still sees").
    """
    kind = type(mechanism)
    if kind is DiscreteLaplace or kind is Laplace:
        return _RARE_LAPLACE
    if kind is DiscreteGaussian or kind is Gaussian:
        return _RARE_GAUSSIAN
    return None


def check_data(name: str, value: object) -> Any:
    """Return data of a type whose dtype and shape are public; read nothing else."""
    if isinstance(value, (np.ndarray, np.generic)) or type(value) in (int, float, bool):
        return value
    raise DTypeError(
        f"{name} must be a numpy array or scalar, or a number, got "
        f"{type(value).__name__}"
    )


def rehearsed(call: Callable[[Any], Any], value: Any) -> np.ndarray[Any, Any]:
    """Return the result of `call` for zeros of the same dtype, shape and layout.

    It raises the errors of the call before anything is charged, and reveals the size of
    the answer. Both depend only on public facts.
    """
    zeros = np.zeros_like(value) if isinstance(value, np.ndarray) else type(value)(0)
    return np.asarray(call(zeros))


def require_size(size: int) -> None:
    """Refuse an answer that is too large for a row."""
    if size > BODY_LIMIT:
        raise ParameterError(
            f"an answer must have at most {BODY_LIMIT} bytes in the ledger, got "
            f"{size}: write it to a file by `write`"
        )


def packed(value: Any) -> bytes:
    """Return an array or scalar as bytes: dtype, shape and order, then the values."""
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise DTypeError(f"an answer must have no objects, got dtype {array.dtype}")
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    head = canonical([_named(array.dtype), list(array.shape), order])
    return frame(head.encode(), array.tobytes("A"))


def _named(dtype: np.dtype[Any]) -> str | list[list[str]]:
    """Return a dtype as JSON types; for several fields, their names and dtypes."""
    if dtype.names is None:
        return dtype.str
    return [[name, dtype[name].str] for name in dtype.names]


def unpacked(body: bytes) -> Any:
    """Invert `packed`; return a scalar as a numpy scalar."""
    start = 8 + int.from_bytes(body[:8], "big")
    dtype, shape, order = json.loads(body[8:start])
    kind = dtype if isinstance(dtype, str) else [(name, own) for name, own in dtype]
    flat = np.frombuffer(body, kind, offset=start + 8).copy()
    return flat.reshape(shape, order=order)[()]


def packed_table(columns: Mapping[str, Any]) -> bytes:
    """Return named columns as bytes: a frame of names and arrays."""
    return frame(
        *(
            part
            for name, column in columns.items()
            for part in (name.encode(), packed(column))
        )
    )


def unpacked_table(body: bytes) -> dict[str, Any]:
    """Invert `packed_table`."""
    parts, at = [], 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 8], "big")
        parts.append(body[at + 8 : at + 8 + size])
        at += 8 + size
    return {
        name.decode(): unpacked(column)
        for name, column in zip(parts[::2], parts[1::2], strict=True)
    }
