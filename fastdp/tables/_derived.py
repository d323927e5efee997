"""Statistics computed only from released numbers, at no privacy cost."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fastdp import _validate
from fastdp.exceptions import ParameterError
from fastdp.mechanisms.records._moments_release import MomentsRelease
from fastdp.mechanisms.records.moments import Moments

_Array = np.ndarray[Any, Any]

#: Into how many blocks a noise is cut for the law of a difference.
_BLOCKS = 8192


class Draws(NamedTuple):
    """A column that is a row of noisy sums, with its noise.

    Attributes
    ----------
    law : mechanism
        The noise, in steps.
    step : float
        A power of two.
    values : array of float64
        The noisy sums.
    scale : float
        Factor of the sums in the table.
    whole : bool
        Whether the exact sums are integers.
    """

    law: Any
    step: float
    values: _Array
    scale: float
    whole: bool


def ratio(
    moments: Moments, above: _Array, below: _Array, level: float
) -> tuple[_Array, _Array, _Array]:
    """Return the ratio of two sums of each group, and the ends of its interval.

    Both sums have the noise of a row of `moments`.
    """
    # Negating both sums does not change the set of r with |above - r below| <= reach.
    sign = np.where(below < 0, -1.0, 1.0)
    rows = np.array([below * sign, above * sign])
    low, high = MomentsRelease(moments, rows)._ratio(rows[1], np.inf, level)
    with np.errstate(all="ignore"):
        return np.where(below == 0, np.nan, above / below), low, high


def reach_of_difference(first: Draws, second: Draws, level: float) -> float:
    """Return a bound on the difference of two noises that holds at `level`.

    It works for any two laws on lattices, up to a 2000th of the wider noise's range
    (docs/proofs/intervals.md).
    """
    wide, other = sorted((first, second), key=lambda d: -d.law.std * d.step)
    outside, unit = 1 - level, min(wide.step, other.step)
    (a, law), (b, rest) = ((round(d.step / unit), d.law._law) for d in (wide, other))
    most = int(law.isf(outside / 4096))
    block = -(-(2 * most + 1) // _BLOCKS)
    lows = np.arange(-most, most + 1, block, dtype=np.float64)
    highs = lows + (block - 1)
    mass = np.where(
        lows > 0,
        law.sf(lows - 1) - law.sf(highs),
        law.cdf(highs) - law.cdf(lows - 1),
    )

    def exceeds(size: int) -> float:
        below = rest.cdf(np.ceil((a * highs - size) / b) - 1)
        return float(2 * (mass @ below) * (1 + 2.0**-32) + outside / 1024)

    # One of the noises would have to be beyond its own end.
    least, size = -1, sum(int(x.isf(outside / 4)) * c for x, c in ((law, a), (rest, b)))
    while size - least > 1:
        middle = (least + size) // 2
        least, size = (least, middle) if exceeds(middle) <= outside else (middle, size)
    return size * unit


def require_alike(new: Any, old: Any, column: str) -> None:
    """Refuse two plans with columns of this name that count different things.

    Raises
    ------
    ParameterError
        Their units, limits, bounds or edges differ, or `old` has no such column.
    """
    if column not in old.columns:
        raise ParameterError(
            f"column must be in both releases, got {column!r}: the other one has "
            f"{', '.join(old.columns)}"
        )

    def facts(plan: Any) -> dict[str, Any]:
        name, _ = plan._targets.get(column, (column.rpartition("_")[0], None))
        histogram, _ = plan._bins.get(column, ("", 0))
        return {
            "units": plan.unit.name,
            "limits (groups and records of a unit)": plan._kept,
            "bounds": None if column in plan._counts else plan._bounds.get(name),
            "edges": list(plan._edges.values())[int(histogram[1:])]
            if histogram
            else None,
        }

    other = facts(old)
    for what, said in facts(new).items():
        if said != other[what]:
            raise ParameterError(
                f"the {what} of both releases must be equal, got {said} and "
                f"{other[what]}: a difference of {column} would also be theirs"
            )


def difference(
    new: tuple[_Array, _Array, _Array],
    old: tuple[_Array, _Array, _Array],
    draws: tuple[Draws | None, Draws | None],
    level: float,
) -> tuple[_Array, _Array, _Array, _Array]:
    """Return differences, their noise's standard deviations, and ends of intervals.

    `new` and `old` are values and interval ends, each interval at half of the error
    probability. With `draws`, the interval comes from their known noise.
    """
    first, second = draws
    with np.errstate(invalid="ignore", over="ignore"):
        if first is None or second is None:
            value, low, high = new[0] - old[0], new[1] - old[2], new[2] - old[1]
            return value, np.full(len(value), np.nan), low, high
        value = first.values - second.values
        reach = reach_of_difference(first, second, level)
        low, high = value - reach, value + reach
    if first.whole:
        value = np.rint(first.values) - np.rint(second.values)
        low, high = np.ceil(low), np.floor(high)
    std = math.hypot(first.law.std * first.step, second.law.std * second.step)
    stds = np.where(np.isnan(value), np.nan, std)
    with np.errstate(over="ignore"):
        return (
            value * first.scale,
            stds * first.scale,
            low * first.scale,
            high * first.scale,
        )


def suppressed(
    shown: dict[str, Any], keys: Any, numbers: _Array, least: object
) -> dict[str, Any]:
    """Return the columns without the values of groups with a small noisy number."""
    at_least = _validate.whole("suppress_below", least, 0)
    small = numbers < at_least
    found = {
        name: column if name in keys else np.ma.array(column, mask=small)
        for name, column in shown.items()
        if name != "note"
    }
    notes = zip(small, shown.get("note", [""] * len(small)), strict=True)
    found["note"] = [f"below {at_least}" if few else note for few, note in notes]
    return found
