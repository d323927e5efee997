"""The median with noise for its smooth sensitivity."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _doorway, _validate
from fastdp._doorway import enter, is_data
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import NeighboringRelation
from fastdp.exceptions import ParameterError
from fastdp.mechanisms.choices._column_grid import (
    check_bounds,
    on_grid,
    points_within,
    step_of,
)
from fastdp.mechanisms.choices.smooth_sensitivity import SmoothSensitivity

_Array: TypeAlias = "np.ndarray[Any, Any]"
_REPLACE = NeighboringRelation.REPLACE_ONE

#: Minimum smooth sensitivity of a median, in steps, and the maximum number of records
#: on either side of the median that it may depend on.
_LEAST = 2.0**-20
_MOST_DISTANCE = 2**15


def smooth_median(
    values: Any,
    *,
    bounds: tuple[Real, Real],
    epsilon: Real,
    smoothness: Real | None = None,
    granularity: Real | None = None,
    stream: Stream | None = None,
) -> Any:
    """Return the median with noise for its smooth sensitivity.

    `Quantiles` has the smaller error on most data (docs/selection.md).

    Parameters
    ----------
    values : ndarray of float64, float32 or integers (not uint64), or column
        One entry for each record, one or more; their number is public. NaN and nulls
        count as the lower bound, infinities as the bounds; floats count as the nearest
        point of the grid.
    bounds : tuple of two real numbers
        The range of the column, (low, high), low < high, in the values' unit; public.
        Values are clamped to it.
    epsilon : int, float, Fraction or Decimal
        Pure epsilon, > 0.
    smoothness : int, float, Fraction or Decimal, optional
        As in `SmoothSensitivity.from_epsilon`.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid of float values, a power of two; None takes about 2**-40 of the
        range. The step of integers is 1.
    stream : Stream, optional
        None draws fresh keys from the operating system; use
        `fastdp.testing.FixedStream` for repeatable tests.

    Returns
    -------
    numpy.float64 or numpy.int64
        A point of the grid within the bounds; an integer for integers.

    Raises
    ------
    DTypeError, ParameterError
        A wrong dtype, no record, no point of the grid within the bounds, or a
        smoothness so small that the smooth sensitivity would depend on more than 2**15
        records on either side. Never raised for a value of the data.
    EntropyError
        The operating system gave no randomness.

    Privacy
    -------
    Pure epsilon. The neighboring relation is REPLACE_ONE: the number of records is
    public. Exact. The event is the event of `SmoothSensitivity.from_epsilon(epsilon,
    largest=high - low, smoothness=smoothness, neighboring_relation="replace_one")`.
    Timing class T0: the values are sorted.

    References
    ----------
    Nissim, Raskhodnikova, Smith, STOC 2007; docs/proofs/stability.md, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> hours = np.array([40, 38, 45, 40, 20, 60, 40] * 200)
    >>> int(fastdp.smooth_median(hours, bounds=(0, 100), epsilon=5))
    40
    """
    check_stream(stream)
    low, high = check_bounds(bounds)
    step = step_of(low, high, granularity)
    if isinstance(values, (list, tuple)):
        values = _doorway.records("values", values)  # always floats
    elif is_data(values):
        values, _ = enter("values", values, real=None, null=float(low))
    real = getattr(getattr(values, "dtype", None), "kind", "") == "f"
    values = _core.flat(_arrays.data("values", values, real=real))
    first, last = points_within((low, high), step if real else None)
    if not (len(values) and first < last):
        raise ParameterError(
            "values must have at least one record, and bounds must "
            f"contain two points of the grid, got {len(values)} records "
            f"and bounds={bounds!r}"
        )
    m = SmoothSensitivity.from_epsilon(
        epsilon,
        largest=last - first,
        smoothness=smoothness,
        granularity=1,
        neighboring_relation=_REPLACE,
    )
    reach = _farthest(len(values), last - first, m._smoothness)
    records = on_grid(values, first, last, float(step) if real else None)
    try:
        near = _around_median(records, last - first, reach)
        size = _smooth(near, m._smoothness)
        noise = m._draw(Fraction(size), stream)  # no rounding to charge: on the grid
        found = first + min(max(int(near[reach + 1]) + noise, 0), last - first)
    finally:
        _core.zero(records)
    return np.float64(float(found * step)) if real else np.int64(found)


def _farthest(n: int, points: int, smoothness: Fraction) -> int:
    """Return the distance beyond which local sensitivities do not matter.

    At distance n the local sensitivity is the whole range. At the distance `needed`
    even the whole range, times e^(-smoothness distance), is below `_LEAST` steps.
    """
    needed = math.log(points / _LEAST) / max(float(smoothness), 1e-300)
    if min(n, needed) > _MOST_DISTANCE:
        raise ParameterError(
            f"smoothness must be >= {math.log(points / _LEAST) / _MOST_DISTANCE:.3g} "
            f"for so many points of the grid and more than {_MOST_DISTANCE} records, "
            f"got {float(smoothness):.3g}"
        )
    return min(n, math.ceil(needed))


def _around_median(records: _Array, points: int, reach: int) -> _Array:
    """Return the median and reach + 1 sorted records on either side of it.

    The ends of the range, 0 and `points`, stand for missing records.
    """
    records.sort()
    n, middle = len(records), (len(records) - 1) // 2
    place = np.arange(middle - reach - 1, middle + reach + 2)
    near: _Array = records[place.clip(0, n - 1)]
    near[place < 0] = 0
    near[place >= n] = points
    return near


def _smooth(near: _Array, smoothness: Fraction) -> float:
    """Return the smooth sensitivity of the median, in steps, from its neighborhood.

    It is the maximum of `_LEAST` and all A(k) e^(-smoothness k). A(k) is the largest
    change by one record after k others changed: the widest span of k + 1 consecutive
    gaps around the median. The result is rounded up, by less than a relative 2**-41.
    """
    middle = len(near) // 2
    k = np.arange(middle)
    shrunk = np.exp(-_validate.float_down(smoothness) * k)
    # The span of all 2 k + 2 gaps around the median is between A(k) and 2 A(k).
    wide = shrunk * (near[middle + 1 :] - near[middle - 1 :: -1])
    best = _LEAST
    for i in np.argsort(-wide).tolist():
        if wide[i] <= best:
            break
        gaps = near[middle : middle + i + 2] - near[middle - i - 1 : middle + 1]
        best = max(best, float(shrunk[i] * gaps.max()))
    return best * (1 + 2.0**-42)
