"""Mechanisms as JSON: the exact arguments of the constructor.

`{"type": "DiscreteLaplace", "scale": "1/10", ...}`: an argument declared as `Real` is a
rational in a string, so that nothing is rounded. Counts are integers, relations are
written by name, tuples as lists, and a mechanism inside another as a nested object.
A mechanism needs no code for this: the declared types of its constructor determine how
each argument is read.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from fastdp import _validate
from fastdp.accounting.events._base import NeighboringRelation, rational
from fastdp.exceptions import ParameterError

Kind = TypeVar("Kind")

#: Name of the format; its version is that of events.
FORMAT = "fastdp mechanism"


def content_of(mechanism: Any) -> dict[str, Any]:
    """Return the type and the arguments of a mechanism as JSON types."""
    declared = _declared(mechanism.__class__)
    content: dict[str, Any] = {"type": type(mechanism).__name__}
    for name, value in mechanism._arguments:
        content[name] = (
            content_of(value)
            if "Additive" in declared[name].annotation and value is not None
            else _written(value, "Real" in declared[name].annotation)
        )
    return content


def mechanism_of(content: object, base: type[Kind], inner: type[Any]) -> Kind:
    """Return the mechanism that `content_of` wrote: one of `base` or its subclasses.

    A nested mechanism must be one of `inner`, without another nested mechanism.

    Raises
    ------
    DTypeError, ParameterError
        The kind is wrong, or an argument is missing, unknown or out of its domain.
    """
    if not isinstance(content, dict) or not isinstance(content.get("type"), str):
        raise ParameterError("a mechanism must be a JSON object with a 'type'")
    given = dict(content)
    name = given.pop("type")
    kinds = _kinds(base)
    if name not in kinds:
        shown = ", ".join(sorted(kinds))
        raise ParameterError(f"type must be one of {shown}; got {name[:40]!r}")
    declared = _declared(kinds[name])
    needed = {n for n, p in declared.items() if p.default is p.empty}
    if not needed <= set(given) <= set(declared):
        raise ParameterError(
            f"{name} must have the arguments {', '.join(sorted(needed))}, and may have "
            f"{', '.join(sorted(set(declared) - needed)) or 'no other'}"
        )
    arguments = {
        n: mechanism_of(value, inner, inner)
        if "Additive" in declared[n].annotation and value is not None
        else _read(n, value, "Real" in declared[n].annotation)
        for n, value in given.items()
    }
    made: Kind = kinds[name](**arguments)
    return made


def _kinds(base: type[Any]) -> dict[str, Callable[..., Any]]:
    """Return the mechanisms that a JSON text can describe, by name."""
    found: dict[str, Callable[..., Any]] = (
        {} if inspect.isabstract(base) or not base._stated else {base.__name__: base}
    )
    for kind in base.__subclasses__():
        found |= _kinds(kind)
    return found


@functools.cache
def _declared(kind: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a constructor by name, with annotations as text."""
    return {
        name: parameter
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }


@functools.cache
def defaults_of(kind: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of a constructor's parameters, by name."""
    return {
        name: parameter.default
        for name, parameter in _declared(kind).items()
        if parameter.default is not parameter.empty
    }


def same(default: object, value: object) -> bool:
    """Return whether an argument equals a default and has its type."""
    return type(default) is type(value) and default == value


def _written(value: Any, real: bool) -> Any:
    if isinstance(value, tuple):
        return [_written(part, real) for part in value]
    if isinstance(value, NeighboringRelation):
        return value.name
    if real and value is not None:
        return str(_validate.exact("a parameter", value))
    return value


def _read(name: str, value: Any, real: bool) -> Any:
    """Return an argument from JSON; refuse floats, which may be rounded."""
    if isinstance(value, list):
        return tuple(_read(name, part, real) for part in value)
    if real and value is not None:
        return rational(value)
    if isinstance(value, (float, dict)):
        raise ParameterError(
            f"{name} must be an integer, a string or a list of them, got "
            f"{type(value).__name__}"
        )
    return value
