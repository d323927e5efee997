"""Bounds of one direction's profile at many epsilons, as arrays.

What contours settle needs no object for each epsilon; only what they leave wide is
read one by one.
"""

from __future__ import annotations

import numpy as np

from fastdp.accounting._bounds import Bracket
from fastdp.accounting._pld.contour import TooCostlyError
from fastdp.accounting._pld.direction import Direction
from fastdp.accounting._pld.losses import Floats

#: Widths of ln delta that contours alone are left with.
_WIDE = 1e-7

#: How far in epsilon (relatively) a contour is given up that was too costly: from
#: failure to failure twice as far, up to the last.
_SKIPPED, _FARTHEST = 1e-2, 0.2

#: Of so few points each may be read with more digits.
_FEW = 8


def profile_bounds(direction: Direction, epsilons: Floats) -> Floats:
    """Return lower and upper bounds of ln delta at ascending epsilons, as two rows."""
    result = np.empty((2, epsilons.size))
    at, skip = 0, _SKIPPED
    while at < epsilons.size:
        first = float(epsilons[at])
        try:
            contour, planned = direction._planned(first)
        except TooCostlyError:
            end = first + skip * (1 + first)
            stop = int(np.searchsorted(epsilons, end, side="right"))
            result[:, at:stop] = np.array([[-np.inf], [0.0]])
            at, skip = stop, min(2 * skip, _FARTHEST)
            continue
        stop = max(at + 1, int(np.searchsorted(epsilons, planned, side="right")))
        part = epsilons[at:stop]
        lower, _, upper = contour.bounds(part)
        result[0, at:stop] = lower
        result[1, at:stop] = np.minimum(upper, _raised(contour.chernoff(part)))
        at, skip = stop, _SKIPPED
    wide = np.flatnonzero(result[1] - result[0] > _WIDE)
    if wide.size:
        result[:, wide] = _narrowed(direction, epsilons[wide], result[:, wide])
    return result


def _raised(bound: Floats) -> Floats:
    """Return Chernoff bounds with what rounding may take off them, at most 0."""
    return np.asarray(np.minimum(0.0, bound + 1e-12 + 1e-15 * np.abs(bound)))


def _narrowed(direction: Direction, epsilons: Floats, known: Floats) -> Floats:
    """Return bounds from more digits, where there are few points, or from grids."""
    if epsilons.size < _FEW:
        found = direction.log_deltas(epsilons)
    else:
        best = [direction._chernoff.best_delta(e)[1] for e in epsilons.tolist()]
        upper = np.minimum(known[1], _raised(np.array(best)))
        pairs = zip(known[0].tolist(), upper.tolist(), strict=True)
        start = [Bracket(low, high, high, "chernoff") for low, high in pairs]
        found = direction._narrowed(epsilons, start)
    lower, upper = np.array([[b.lower, b.upper] for b in found]).T
    return np.array([np.maximum(known[0], lower), np.minimum(known[1], upper)])
