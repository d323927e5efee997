"""A better law on a grid where many cells are empty.

Of three cells in a row that have mass, all is moved to the two points of the grid
around their common barycentre, with the same masses under P and Q (theorem 13 of
docs/proofs/numerical_accounting.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastdp.accounting._grid import MASS_ERROR, Cells, GridLaw, totals
from fastdp.accounting._losses import Floats

#: Cells further apart than this are not merged: differences would lose digits.
_FARTHEST = 3000


def merged_law(cells: Cells) -> GridLaw:
    """Return a law that is better than that of the cells."""
    place = np.flatnonzero(cells.mass)
    index, mass = place.copy(), cells.mass[place].copy()  # rounded down to begin with
    count = place.size // 3 * 3
    if count and cells.rise.any():
        low, moved, fits = _triples(cells, place[:count].reshape(-1, 3))
        index[:count].reshape(-1, 3)[fits] = low[fits, None] + np.array([0, 1, 0])
        mass[:count].reshape(-1, 3)[fits] = moved[fits]
    first, last = int(index.min()), int(index.max())
    law = totals(index - first, mass, last - first + 1)
    return GridLaw(cells.step, cells.first + first, law, 0.0, cells.blur)


def _triples(
    cells: Cells, place: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], Floats, npt.NDArray[np.bool_]]:
    """Return the lower point, masses for it and the next, and where that is better."""
    h = cells.step
    p, rise = cells.mass[place], cells.rise[place] * (1 - MASS_ERROR)
    within = -np.log1p(-np.minimum(rise / p, 1 - 1e-9))  # of barycentres in cells
    apart = (place - place[:, :1]) * h + within
    total = p.sum(axis=1)
    mean = -np.log((p * np.exp(-apart)).sum(axis=1) / total)
    low = np.floor(mean / h).astype(np.int64)
    t = apart - (low * h)[:, None]
    gain = (p * -np.expm1(-t)).sum(axis=1)  # P less Q, in units of e^low
    high = gain / -np.expm1(-h)
    # At the middle barycentre, if it is between the points: call and chord.
    call = p[:, 2] * np.expm1(t[:, 2] - t[:, 1]) * np.exp(t[:, 1] - t[:, 2])
    chord = high * -np.expm1(np.minimum(t[:, 1] - h, 0.0))
    inside = (t[:, 1] > 0) & (t[:, 1] < h)
    fits = (t[:, 0] <= 0) & (t[:, 2] >= h) & (high >= 0) & (high <= total)
    fits &= ~inside | (call >= chord * (1 + 1e-9))
    fits &= place[:, 2] - place[:, 0] < _FARTHEST
    high = high * (1 - 10 * MASS_ERROR)
    moved = np.stack([total - high, high, np.zeros_like(high)], axis=1)
    return place[:, 0] + low, moved, fits
