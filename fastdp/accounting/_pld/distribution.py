"""Privacy loss distributions on a grid, as other tools keep them, and their JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _validate
from fastdp.accounting._pld.losses import Floats
from fastdp.accounting.events import (
    NeighboringRelation,
    PrivacyLossEvent,
    as_relation,
    privacy_loss_from_pmf,
)
from fastdp.accounting.events._base import ADD_ONE, VERSION, RelationField
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError

_FORMAT = "fastdp privacy loss distribution"
_CONTENT = ("interval", "pessimistic", "neighboring_relation", "removal", "addition")
_LAW = ("lower_index", "probabilities", "infinity_mass")

#: Most losses of one direction, and the longest text that is read.
MOST_LOSSES = 1_000_000
_LONGEST = 1 << 26

_FARTHEST_INDEX = 1 << 62


@dataclass(frozen=True, eq=False, kw_only=True)
class GridLosses:
    """Probabilities of the losses interval * (lower_index + i), of one direction.

    Parameters
    ----------
    lower_index : int
        Index of the first loss.
    probabilities : ndarray of float64, shape (n,)
        Of each loss, >= 0.
    infinity_mass : float
        Probability of an infinite loss.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type or out of its domain.
    """

    lower_index: int
    probabilities: Floats
    infinity_mass: float

    def __post_init__(self) -> None:
        far = _FARTHEST_INDEX
        _validate.integer("lower_index", self.lower_index, -far, far)
        values = np.array(self.probabilities, dtype=np.float64)
        if values.ndim != 1 or not 1 <= values.size <= MOST_LOSSES:
            raise ParameterError(
                f"probabilities must have the shape (n,), 1 <= n <= {MOST_LOSSES}"
            )
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise ParameterError("probabilities must be finite and >= 0")
        if not 0 <= self.infinity_mass < 1:
            raise ParameterError("infinity_mass must be >= 0 and < 1")
        if abs(math.fsum([*values.tolist(), self.infinity_mass]) - 1) > 1e-9:
            raise ParameterError("probabilities and infinity_mass must add up to 1")
        values.setflags(write=False)
        object.__setattr__(self, "probabilities", values)

    def __repr__(self) -> str:
        return f"<GridLosses: {self.probabilities.size} from {self.lower_index}>"


@dataclass(frozen=True, eq=False)
class PrivacyLossDistribution:
    """A privacy loss distribution on a grid, for exchange with other tools.

    What `PLDAccountant.distribution` exports, or what was read from JSON.

    Parameters
    ----------
    interval : float
        Distance of neighboring losses, > 0.
    removal : GridLosses
        For the removal of a record; where the relation knows none, of one order of
        the two datasets.
    addition : GridLosses, optional
        For the addition of one; None: the same.
    pessimistic : bool
        True for a law that is nowhere more private than what it stands for: fit to be
        composed. False for one that is nowhere less private, which bounds the former
        from below and proves nothing.
    neighboring_relation : NeighboringRelation
        The relation for which it holds.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type or out of its domain.

    Notes
    -----
    **JSON.** `to_json` writes ``{"format": "fastdp privacy loss distribution",
    "version": 1, "privacy_loss_distribution": {...}}`` with the fields above by their
    names; a law is ``{"lower_index", "probabilities", "infinity_mass"}``. Reading it
    makes numbers and nothing else.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent, PLDAccountant
    >>> accountant = PLDAccountant().compose(GaussianEvent(sensitivity=1, sigma=1))
    >>> law = accountant.distribution(interval=0.01)
    >>> again = PrivacyLossDistribution.from_json(law.to_json())
    >>> other = PLDAccountant().compose(again.event())
    >>> bool(0 <= other.epsilon(1e-5) - accountant.epsilon(1e-5) < 0.001)
    True
    """

    interval: float
    removal: GridLosses
    addition: GridLosses | None = None
    pessimistic: bool = True
    neighboring_relation: RelationField = ADD_ONE

    def __post_init__(self) -> None:
        interval = float(_validate.positive("interval", self.interval))
        if not 0 < interval < math.inf:
            raise ParameterError(f"interval must be > 0, got {self.interval!r}")
        object.__setattr__(self, "interval", interval)
        if not isinstance(self.removal, GridLosses):
            raise DTypeError("removal must be GridLosses")
        if not isinstance(self.addition, GridLosses | None):
            raise DTypeError("addition must be GridLosses or None")
        if not isinstance(self.pessimistic, bool):
            raise DTypeError("pessimistic must be a bool")
        relation = as_relation(self.neighboring_relation)
        object.__setattr__(self, "neighboring_relation", relation)

    def __repr__(self) -> str:
        kind = "pessimistic" if self.pessimistic else "optimistic"
        return (
            f"<PrivacyLossDistribution: {kind}, {self.removal.probabilities.size} "
            f"losses, interval {self.interval:.6g}>"
        )

    def event(self) -> PrivacyLossEvent:
        """Return the event of any mechanism that this law dominates.

        Raises
        ------
        UnsupportedEventError
            The law is optimistic, and so bounds nothing.
        """
        if not self.pessimistic:
            raise UnsupportedEventError(
                "pessimistic must be True: an optimistic law is no bound"
            )
        relation = self.neighboring_relation
        other = self.removal if self.addition is None else self.addition
        return self._event(
            self.removal, addition=self._event(other), neighboring_relation=relation
        )

    def _event(self, law: GridLosses, **more: Any) -> PrivacyLossEvent:
        return privacy_loss_from_pmf(
            law.probabilities,
            interval=Fraction(self.interval),
            lower_index=law.lower_index,
            infinity_mass=law.infinity_mass,
            **more,
        )

    # ---- JSON ------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the distribution as JSON text."""
        content = {
            "interval": self.interval,
            "pessimistic": self.pessimistic,
            "neighboring_relation": self.neighboring_relation.name,
            "removal": _written(self.removal),
            "addition": None if self.addition is None else _written(self.addition),
        }
        whole = {
            "format": _FORMAT,
            "version": VERSION,
            "privacy_loss_distribution": content,
        }
        return json.dumps(whole, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> PrivacyLossDistribution:
        """Return the distribution that `to_json` wrote.

        Raises
        ------
        DTypeError, ParameterError
            The text is not such JSON; the message names the field that is missing,
            not known, or out of its domain.
        """
        if not isinstance(text, str):
            raise DTypeError(f"text must be a str, got {type(text).__name__}")
        if len(text) > _LONGEST:
            raise ParameterError(f"text must have at most {_LONGEST} characters")
        try:
            found = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError(f"text must be JSON: {type(error).__name__}") from None
        names = ("format", "version", "privacy_loss_distribution")
        form, version, content = _fields("text", found, names)
        if form != _FORMAT or version != VERSION or isinstance(version, bool):
            raise ParameterError(
                f"format must be {_FORMAT!r} and version {VERSION}, "
                f"got {form!r:.60} and {version!r:.20}"
            )
        values = _fields("privacy_loss_distribution", content, _CONTENT)
        interval, pessimistic, relation, removal, addition = values
        if not isinstance(pessimistic, bool):
            raise ParameterError("pessimistic must be true or false")
        members = NeighboringRelation.__members__
        if not isinstance(relation, str) or relation not in members:
            raise ParameterError(
                f"neighboring_relation must be one of {', '.join(members)}"
            )
        return cls(
            float(_validate.positive("interval", _number("interval", interval))),
            _read("removal", removal),
            None if addition is None else _read("addition", addition),
            pessimistic,
            members[relation],
        )


def _written(law: GridLosses) -> dict[str, object]:
    return {
        "lower_index": law.lower_index,
        "probabilities": law.probabilities.tolist(),
        "infinity_mass": law.infinity_mass,
    }


def _read(name: str, content: object) -> GridLosses:
    index, values, infinite = _fields(name, content, _LAW)
    if not isinstance(index, int) or isinstance(index, bool):
        raise ParameterError(f"{name}.lower_index must be an int")
    if not isinstance(values, list) or len(values) > MOST_LOSSES:
        raise ParameterError(
            f"{name}.probabilities must be a list of at most {MOST_LOSSES} numbers"
        )
    masses = [_number(f"{name}.probabilities", value) for value in values]
    mass = _number(f"{name}.infinity_mass", infinite)
    try:
        return GridLosses(
            lower_index=index, probabilities=np.array(masses), infinity_mass=mass
        )
    except ParameterError as error:
        raise ParameterError(f"{name}: {error}") from None


def _fields(name: str, content: object, names: tuple[str, ...]) -> list[Any]:
    """Return the values of an object that must have just these fields."""
    if not isinstance(content, dict):
        raise ParameterError(f"{name} must be a JSON object")
    for field in names:
        if field not in content:
            raise ParameterError(f"{name} must have the field {field!r}")
    for field in content:
        if field not in names:
            raise ParameterError(f"{name} must not have the field {field!r:.60}")
    return [content[field] for field in names]


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ParameterError(f"{name} must be a number, or made of numbers")
    try:
        return float(value)
    except OverflowError:
        raise ParameterError(f"{name} must be within doubles") from None


def _no_constant(name: str) -> float:
    raise ParameterError(f"numbers must be finite, got {name}")
