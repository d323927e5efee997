"""Arguments and data of the mechanisms that privatize numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _doorway, _validate
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms.local._windows import Member

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Maximum numbers of one user; maximum codes of one member.
MOST_NUMBERS = 2**24
_MOST_CODES = 128

#: Range of the width of bounds: doubles neither overflow nor underflow.
_WIDTHS = Fraction(1, 2**900), Fraction(2**900)


def checked_members(members: Any) -> tuple[Member, ...]:
    if not isinstance(members, (tuple, list)) or len(members) not in (1, 2):
        raise DTypeError("members must be one or two pairs (codes, window)")
    listed = []
    for pair in members:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise DTypeError("members must be one or two pairs (codes, window)")
        m = _validate.integer("codes of a member", pair[0], 2, _MOST_CODES)
        w = _validate.integer("window of a member", pair[1], 1, m - 1)
        listed.append((m, w))
    return tuple(listed)


def checked_bounds(
    bounds: Any, dimension: int | None
) -> list[tuple[Fraction, Fraction]]:
    """Return the pairs of bounds: one pair, or a pair for each number of a user."""
    if not isinstance(bounds, (tuple, list)) or len(bounds) == 0:
        raise DTypeError("bounds must be a pair (low, high), or one for each number")
    pairs = list(bounds)
    if not isinstance(pairs[0], (tuple, list)):
        pairs = [bounds]
    elif len(pairs) != (dimension or 0):
        raise ParameterError("bounds must be one pair, or `dimension` of them")
    found = []
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise DTypeError("bounds must be pairs (low, high)")
        low, high = (_validate.exact("bounds", bound) for bound in pair)
        if not _WIDTHS[0] <= high - low <= _WIDTHS[1] or abs(low) > _WIDTHS[1]:
            raise ParameterError(
                "bounds must have low < high, apart by 2**-900 to 2**900 and within "
                f"2**900 of 0, got {pair!r}"
            )
        found.append((low, high))
    return found


def numbers_of(values: Any, dimension: int | None) -> _Array:
    """Return numbers as an array that the kernels read, copied if necessary."""
    if dimension is not None:
        if _doorway.is_data(values) or not isinstance(values, np.ndarray):
            values = np.array(_doorway.rows("values", values))  # copy
        if values.ndim == 0 or values.shape[-1] != dimension:
            raise ParameterError(
                f"values must have rows of {dimension}, got shape {values.shape}"
            )
    if isinstance(values, np.ndarray):
        real = values.dtype.kind == "f"
        x = _arrays.data("values", values, real=real)
        if x.dtype in (np.float64, np.float32, np.int64):
            return x
        return x.astype(np.float64)
    if isinstance(values, (bool, np.bool_, np.timedelta64)) or not isinstance(
        values, (int, float, np.integer, np.floating)
    ):
        raise DTypeError(
            f"values must be numbers: an int, a float, an array or a column, got "
            f"{type(values).__name__}"
        )
    if isinstance(values, int):
        values = min(max(values, -(2**1000)), 2**1000)
    return np.float64(values).__array__()


def drawn_places(
    public: _core.Call, n: int, dimension: int, asked: int, first: int
) -> _Array:
    """Return a uniform set of places for each user, ascending (Floyd's algorithm)."""
    if asked == dimension:
        return np.tile(np.arange(asked), (n, 1))
    taken = np.zeros((n, dimension), bool)  # at most 1/8 of the size of the doubles
    users, drawn = np.arange(n), np.zeros(n, np.int64)
    for i in range(asked):
        last = dimension - asked + i
        _core.fill_integers(public, 0, last + 1, drawn, first + i)
        taken[users, np.where(taken[users, drawn], last, drawn)] = True
    return np.nonzero(taken)[1].reshape(n, asked)
