"""Statistics computed from released numbers alone: they cost no budget."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp import _validate
from fastdp.mechanisms.records._moments_release import MomentsRelease
from fastdp.mechanisms.records.moments import Moments

_Array = np.ndarray[Any, Any]


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


def suppressed(
    shown: dict[str, Any], keys: Any, numbers: _Array, least: object
) -> dict[str, Any]:
    """Return the columns without the values of groups whose noisy number is small."""
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
