"""Events in files that follow from a theorem: shuffled reports and noisy iterations.

The events are written like other events, with the parameters of the functions of
`fastdp.accounting.amplification`, which check the conditions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from fastdp.accounting import amplification
from fastdp.accounting.events import (
    Event,
    NeighboringRelation,
)
from fastdp.exceptions import DTypeError, ParameterError

#: Functions that make the events, by the names of the kinds in files.
MAKERS: dict[str, Callable[..., Event]] = {
    "Shuffled": amplification.shuffled_event,
    "ContractiveIteration": amplification.contractive_iteration,
    "NoisyGradientDescent": amplification.noisy_gradient_descent,
    "NoisySGD": amplification.noisy_sgd,
}

#: Function from the name and value of a field to an exact number.
Number = Callable[[str, object], object]


def made(
    source: dict[str, Any], relation: NeighboringRelation | None, number: Number
) -> Event:
    """Return the event of an entry whose type is one of `MAKERS`.

    Parameters
    ----------
    source : dict
        The entry without its count.
    relation : NeighboringRelation, optional
        The file's relation, for events that state none.
    number : callable
        Reads a number of the file.

    Raises
    ------
    ParameterError, DTypeError
        A field is missing, unknown or out of its domain, or a condition of the theorem
        is not met.
    """
    kind = str(source["type"])
    parameters = inspect.signature(MAKERS[kind]).parameters
    for name in source:
        if name not in parameters and name != "type":
            raise ParameterError(
                f"{name!r} is not a field of {kind}, which has "
                f"{', '.join(parameters)} and count"
            )
    values: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if name in source:
            values[name] = _value(name, source[name], parameter.annotation, number)
        elif name == "neighboring_relation" and relation is not None:
            values[name] = relation
    missing = [
        name
        for name, parameter in parameters.items()
        if name not in values and parameter.default is parameter.empty
    ]
    if missing:
        raise ParameterError(f"{kind} must have {', '.join(missing)}")
    event = MAKERS[kind](**values)
    own: NeighboringRelation = event.neighboring_relation  # type: ignore[attr-defined]
    if relation not in (None, own):
        raise ParameterError(f"neighboring_relation must be {own.name} for {kind}")
    return event


def numbers_of(kind: str) -> Iterator[str]:
    """Yield the fields of a kind that are real numbers."""
    for name, parameter in inspect.signature(MAKERS[kind]).parameters.items():
        if str(parameter.annotation) in ("Real", "Real | None"):
            yield name


def _value(name: str, value: object, annotation: object, number: Number) -> object:
    """Return a field's value, converted to the type that the function declares."""
    declared = str(annotation).removesuffix(" | None")
    if declared == "Real":
        return number(name, value)
    if declared == "Sequence[Real]":
        if not isinstance(value, list):
            raise DTypeError(f"{name} must be a list, got {type(value).__name__}")
        return tuple(number(name, one) for one in value)
    if declared == "Relation":
        members = NeighboringRelation.__members__
        if not isinstance(value, str) or value.upper() not in members:
            raise ParameterError(f"{name} must be one of {', '.join(members)}")
        return members[value.upper()]
    return value
