"""Privacy loss distributions on a grid, as other tools store them, and their JSON.

The profile of a law with losses on a grid is linear in a = e^epsilon between the grid's
points. So the lower hull of upper bounds at these points is the profile of such a law,
and nowhere below the true profile (connecting the dots, Doroshenko et al. 2022;
docs/proofs/numerical_accounting.md, section 11). The hull of lower bounds, with all
losses lowered by one step, is nowhere above the true profile.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting import _trade_off
from fastdp.accounting._pld.losses import Floats, U
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

#: Most losses of one direction; longest JSON text to read, in characters.
MOST_LOSSES = 1_000_000
_LONGEST = 1 << 26

_FARTHEST_INDEX = 1 << 62


@dataclass(frozen=True, eq=False, kw_only=True)
class GridLosses:
    """Probabilities of the losses interval * (lower_index + i) in one direction.

    Parameters
    ----------
    lower_index : int
        Index of the first loss.
    probabilities : ndarray of float64, shape (n,)
        Probability of each loss, >= 0.
    infinity_mass : float
        Probability of an infinite loss.
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

    `PLDAccountant.distribution` exports one, and `from_json` reads one.

    Parameters
    ----------
    interval : float
        Distance of neighboring losses, > 0.
    removal : GridLosses
        The losses for the removal of a record; if the relation has no removals, for
        one order of the two datasets.
    addition : GridLosses, optional
        The losses for the addition of a record; None if they are the same.
    pessimistic : bool
        True if the law is nowhere more private than the mechanism, so that it can be
        composed. False if it is nowhere less private: it is then only a lower bound and
        no guarantee.
    neighboring_relation : NeighboringRelation
        The relation for which the law holds.

    Notes
    -----
    **JSON.** `to_json` writes ``{"format": "fastdp privacy loss distribution",
    "version": 1, "privacy_loss_distribution": {...}}`` with the fields above by their
    names; a law is ``{"lower_index", "probabilities", "infinity_mass"}``. Reading it
    creates only numbers.

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
            raise ParameterError(
                f"interval must be > 0, got {_validate.shown(self.interval)}"
            )
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
            The law is optimistic, so it gives no bound.
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
        ParameterError
            The text is not such JSON; the message names the field that is missing,
            unknown, or out of its domain.
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
        raise ParameterError(f"{name} must be a number or a list of numbers")
    try:
        return float(value)
    except OverflowError:
        raise ParameterError(
            f"{name} must be a number that a double can hold"
        ) from None


def _no_constant(name: str) -> float:
    raise ParameterError(f"numbers must be finite, got {name}")


# ---- from profiles to laws -----------------------------------------------------------

#: About how many losses above 0 a grid has by default.
_LOSSES = 2000

#: By rounding, probabilities may exceed a total of 1 by this much.
_NEAR_ONE = 1e-9

#: Bound of the relative error of a law's recomputed deltas, per point.
_ROUNDING = 32 * U


def grid_step(interval: Real | None, end: float) -> float:
    """Return the distance of losses up to `end`, as a double."""
    if interval is None:
        return math.exp2(math.ceil(math.log2(end / _LOSSES)))
    step = float(_validate.positive("interval", interval))
    if not 0 < step <= end:
        raise ParameterError(
            f"interval must be at most the largest loss, {end:.6g}, got "
            f"{_validate.shown(interval)}"
        )
    return step


def law_of(steep: Floats, flat: Floats, step: float, pessimistic: bool) -> GridLosses:
    """Return the law on the grid that bounds two profiles.

    `steep` and `flat` bound delta at 0, step, ..., n step, in this direction and in the
    other. If `pessimistic` they are upper bounds and the losses are -n, ..., n steps;
    otherwise they are lower bounds and all losses are one step less.
    """
    pick = max if pessimistic else min
    start, sign = pick(steep[0], flat[0]), 1 if pessimistic else -1
    right, infinite = _side(np.append(start, steep[1:]), step, sign)
    left, missing = _side(np.append(start, flat[1:]), step, sign)
    losses = step * np.arange(1, right.size + 1)
    mass = np.concatenate([(left * np.exp(-losses))[::-1], [0.0], right])
    rest = 1 - math.fsum([*mass.tolist(), infinite])
    if not pessimistic and rest < -_NEAR_ONE:  # the hulls are not one convex curve
        raise UnsupportedEventError(
            "the lower hulls of the two profiles do not fit together at "
            "epsilon 0: try a smaller interval"
        )
    mass[right.size] = max(rest, 0.0)
    if pessimistic:
        _take_off(mass, -rest)
        _raise_losses(mass, step, 1 - missing)
        _complete(mass, infinite)
    else:
        _take_off(mass[::-1], -rest)
    kept = np.flatnonzero(mass)
    if kept.size == 0:  # all losses are infinite: keep one of mass 0
        kept = np.array([mass.size // 2])
    first = -(steep.size - 1) - (0 if pessimistic else 1) + int(kept[0])
    return GridLosses(
        lower_index=first,
        probabilities=mass[kept[0] : kept[-1] + 1],
        infinity_mass=infinite,
    )


def _side(delta: Floats, step: float, sign: int) -> tuple[Floats, float]:
    """Return masses at step .. n step, and at infinity, that have this profile.

    Rounding puts the profile of the returned law above the given profile for sign 1,
    and below it otherwise.
    """
    edges = np.exp(step * np.arange(delta.size))
    if sign > 0:  # delta does not grow
        delta = np.minimum.accumulate(delta)
    else:
        delta = np.maximum.accumulate(delta[::-1])[::-1]
    delta = np.interp(edges, *_trade_off.hull(edges, delta))
    fall = np.append(delta[:-1] - delta[1:], 0.0)
    mass = fall[:-1] / -math.expm1(-step) - fall[1:] / math.expm1(step)
    mass, infinite = np.maximum(mass, 0.0), float(delta[-1])
    found = _profile(mass, infinite, step)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(delta > 0, delta / found, 1.0)
    ratio = ratio[np.isfinite(ratio)]
    off = _ROUNDING * (delta.size + 8)
    if sign > 0:
        scale = max(1.0, float(ratio.max(initial=1.0))) * (1 + off)
    else:
        scale = min(1.0, float(ratio.min(initial=1.0))) * (1 - off)
    return mass * scale, infinite * scale


def _profile(mass: Floats, infinite: float, step: float) -> Floats:
    """Return delta at 0, step .. n step of masses at step .. n step, by additions."""
    near, far = -math.expm1(-step), math.exp(-step)
    beyond = gain = 0.0
    result = [infinite]
    for value in mass[::-1].tolist():
        beyond += value
        gain = near * beyond + far * gain
        result.append(gain + infinite)
    return np.array(result[::-1])


def _take_off(mass: Floats, excess: float) -> None:
    """Subtract `excess`, the part of the total above 1, from the first masses."""
    for i in range(mass.size):
        if excess <= 0:
            return
        part = min(excess, float(mass[i]))
        mass[i] -= part
        excess -= part


def _raise_losses(mass: Floats, step: float, most: float) -> None:
    """Move mass up by one step, so that the mass under Q is at most `most`."""
    middle = mass.size // 2
    other = np.exp(-step * (np.arange(mass.size) - middle))
    over = math.fsum((mass * other).tolist()) * (1 + 4 * U) + 64 * U - most
    if over <= 0:
        return
    i = int(np.argmax(mass[:-1]))
    part = min(float(mass[i]), over / (float(other[i]) * -math.expm1(-step)))
    mass[i] -= part
    mass[i + 1] += part


def _complete(mass: Floats, infinite: float) -> None:
    """Make the probabilities add up to 1 or slightly more, never to less.

    The excess is below the last digit of the largest mass; readers subtract it from the
    lowest losses.
    """
    i = int(np.argmax(mass))
    for _ in range(4):
        rest = 1 - math.fsum([*mass.tolist(), infinite])
        if rest <= 0:
            return
        mass[i] = math.nextafter(mass[i] + rest, math.inf)
