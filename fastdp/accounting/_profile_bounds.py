"""Bounds of one direction's profile at many epsilons, as arrays.

What contours settle needs no object for each epsilon; only what they leave wide is
read one by one.
"""

from __future__ import annotations

import numpy as np

from fastdp.accounting._contour import TooCostlyError
from fastdp.accounting._direction import Direction
from fastdp.accounting._losses import Floats

#: Widths of ln delta that contours alone are left with.
_WIDE = 1e-7

#: How far a contour is given up that was too costly, in epsilon and relatively.
_SKIPPED = 1e-2


def profile_bounds(direction: Direction, epsilons: Floats) -> Floats:
    """Return lower and upper bounds of ln delta at ascending epsilons, as two rows."""
    result = np.empty((2, epsilons.size))
    at = 0
    while at < epsilons.size:
        first = float(epsilons[at])
        try:
            contour, planned = direction._planned(first)
        except TooCostlyError:
            end = first + _SKIPPED * (1 + first)
            stop = int(np.searchsorted(epsilons, end, side="right"))
            result[:, at:stop] = np.array([[-np.inf], [0.0]])
            at = stop
            continue
        stop = max(at + 1, int(np.searchsorted(epsilons, planned, side="right")))
        part = epsilons[at:stop]
        bound = contour.chernoff(part)
        bound = bound + 1e-12 + 1e-15 * np.abs(bound)
        lower, _, upper = contour.bounds(part)
        result[0, at:stop] = lower
        result[1, at:stop] = np.minimum(np.minimum(upper, bound), 0.0)
        at = stop
    wide = np.flatnonzero(result[1] - result[0] > _WIDE)
    if wide.size:
        found = direction.log_deltas(epsilons[wide])
        result[0, wide] = np.maximum(result[0, wide], [b.lower for b in found])
        result[1, wide] = np.minimum(result[1, wide], [b.upper for b in found])
    return result
