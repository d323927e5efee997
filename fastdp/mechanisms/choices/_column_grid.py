"""A column on a public grid: each record is a point within the bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _validate, calibration
from fastdp._validate import Real
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms.noise._grid import power_of_two

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Maximum number of points of a grid.
MOST_POINTS = 2**60

#: The step times an integer up to this is a double.
_MOST_MULTIPLE = 2**53

_INT64 = np.iinfo(np.int64)


def check_bounds(bounds: object) -> tuple[Fraction, Fraction]:
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise DTypeError("bounds must be a pair (low, high)")
    reach = Fraction(2**900)
    low, high = (_validate.between("bounds", end, -reach, reach) for end in bounds)
    if low >= high:
        raise ParameterError(f"bounds must have low < high, got {bounds!r}")
    return low, high


def step_of(low: Fraction, high: Fraction, granularity: Real | None) -> Fraction:
    """Return the step of the grid of floats; its points must be doubles."""
    size = max(abs(low), abs(high))
    if granularity is None:
        of_size = calibration.grid_granularity(size) / 2**13
        of_range = calibration.grid_granularity(high - low)
        step = max(of_range, of_size, Fraction(1, 2**1000))
    else:
        step = power_of_two(granularity)
    if size > step * _MOST_MULTIPLE:
        raise ParameterError(
            "granularity must be at least 2**-53 of the larger bound, got "
            f"{_validate.plain(step)!r}"
        )
    if math.ceil(low / step) > math.floor(high / step):
        raise ParameterError(
            "granularity must have a multiple within bounds, got "
            f"{_validate.plain(step)!r}"
        )
    return step


def points_within(
    bounds: tuple[Fraction, Fraction], step: Fraction | None
) -> tuple[int, int]:
    """Return the first and last point of the grid, in steps; None for integers."""
    low, high = (end / step if step else end for end in bounds)
    first, last = math.ceil(low), math.floor(high)
    if step is None:
        first, last = max(first, _INT64.min), min(last, _INT64.max)
    if not 0 <= last - first < MOST_POINTS:
        shown = tuple(_validate.plain(end) for end in bounds)
        raise ParameterError(
            "bounds must hold at least 1 and at most 2**60 integers for integer "
            f"values, got {shown!r}"
        )
    return first, last


def on_grid(values: _Array, first: int, last: int, step: float | None) -> _Array:
    """Return the number of each record's point; the first point has number 0."""
    if step is None:
        return np.clip(values.astype(np.int64), first, last) - first
    # Exact: the division is by a power of two, or the quotient is so small that rint
    # gives 0. The caller may have set numpy to raise on overflow or NaN.
    with np.errstate(all="ignore"):
        points = np.rint(values.astype(np.float64) / step)
        points[np.isnan(points)] = first
        np.clip(points, first, last, out=points)
        return points.astype(np.int64) - first
