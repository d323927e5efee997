"""A better law on a grid where many cells are empty.

All mass of some cells is moved to the two points of the grid around their common
barycentre, with the same masses under P and Q (theorem 13 of
docs/proofs/numerical_accounting.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fastdp.accounting._pld.grid import MASS_ERROR, Cells, GridLaw, better_law, totals
from fastdp.accounting._pld.losses import Floats

#: How many cells are merged: what does not fit at first is tried again with more.
_SIZES = (3, 9, 27, 81, 243)

#: How many cells at an end are merged into one group: the first that fits.
_LEADS = (3, 4, 5, 6, 8, 10, 14, 20, 30)

#: Cells further apart than this are not merged: differences would lose digits.
_FARTHEST = 3000

Indices = npt.NDArray[np.int64]


def merged_law(cells: Cells, theta: float) -> GridLaw:
    """Return a law that is better than that of the cells.

    Of what can be done with some cells, merging and rounding down, that is done which
    leaves the larger moment of the order theta.
    """
    place = np.flatnonzero(cells.mass)
    index, masses = [np.empty(0, np.int64)], [np.empty(0)]
    if cells.rise.any():
        for size in _SIZES:
            count = place.size // size * size
            if count == 0:
                break
            groups = place[:count].reshape(-1, size)
            low, lower, upper, fits = _merged(cells, groups, theta)
            index += [low[fits], low[fits] + 1]
            masses += [lower[fits], upper[fits]]
            place = np.concatenate([groups[~fits].ravel(), place[count:]])
    index.append(place)  # rounded down, each for itself
    masses.append(cells.mass[place])
    points = np.concatenate(index)
    first, last = int(points.min()), int(points.max())
    law = totals(points - first, np.concatenate(masses), last - first + 1)
    return GridLaw(cells.step, cells.first + first, law, 0.0, cells.blur)


def merged_ends(cells: Cells, theta: float) -> GridLaw:
    """Return a better law of cells that all have mass, much of it in cells at an end.

    Three cells are merged at a time, but at the ends as many as it takes to fit.
    """
    size = cells.mass.size
    if size <= 2 * _LEADS[-1] or not cells.rise.any():
        return better_law(cells)
    left = _end(cells, [np.arange(n) for n in _LEADS], theta)
    right = _end(cells, [np.arange(size - n, size) for n in _LEADS], theta)
    index, masses = [], []
    for found, _ in (left, right):
        if found is not None:
            low, lower, upper, _ = found
            index += [low, low + 1]
            masses += [lower, upper]
    start, stop = left[1], size - right[1]
    inner = replace(
        cells,
        first=cells.first + start,
        mass=cells.mass[start:stop],
        rise=cells.rise[start:stop],
    )
    law = better_law(inner)
    index.append(start + np.arange(law.mass.size))
    masses.append(law.mass)
    total = totals(np.concatenate(index), np.concatenate(masses), size + 3)
    return GridLaw(cells.step, cells.first, total, 0.0, cells.blur)


def _end(
    cells: Cells, groups: list[Indices], theta: float
) -> tuple[tuple[Indices, Floats, Floats, npt.NDArray[np.bool_]] | None, int]:
    """Return the first group that can be merged, and how many cells it has."""
    for group in groups:
        if (cells.mass[group] > 0).all():
            found = _merged(cells, group[None, :], theta)
            if found[3][0]:
                return found, group.size
    return None, 0


def _merged(
    cells: Cells, groups: Indices, theta: float
) -> tuple[Indices, Floats, Floats, npt.NDArray[np.bool_]]:
    """Return the lower point of each, masses for it and the next, and where it fits."""
    h = cells.step
    p, rise = cells.mass[groups], cells.rise[groups] * (1 - MASS_ERROR)
    within = -np.log1p(-np.minimum(rise / p, 1 - 1e-9))  # of barycentres in cells
    apart = (groups - groups[:, :1]) * h + within
    total = p.sum(axis=1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mean = -np.log((p * np.exp(-apart)).sum(axis=1) / total)
        low = np.floor(mean / h)
        t = apart - (low * h)[:, None]
        gain = (p * -np.expm1(-t)).sum(axis=1)  # P less Q, in units of e^low
        high = gain / -np.expm1(-h)
        # At the barycentre between the points, if there is one: call and chord.
        inside = (t > 0) & (t < h)
        kink = np.where(inside, t, 0.0).sum(axis=1)
        call = (p * -np.expm1(np.minimum(kink[:, None] - t, 0.0))).sum(axis=1)
        chord = high * -np.expm1(np.minimum(kink - h, 0.0))
        fits = (t[:, 0] <= 0) & (t[:, -1] >= h) & (high >= 0) & (high <= total)
        fits &= ~inside.any(axis=1) | (call >= chord * (1 + 1e-9))
        alone = (p * np.exp(theta * (t - within))).sum(axis=1)
        fits &= total + high * np.expm1(theta * h) >= alone
    fits &= groups[:, -1] - groups[:, 0] < _FARTHEST
    high = np.where(fits, high * (1 - 10 * MASS_ERROR), 0.0)
    low = groups[:, 0] + np.where(fits, low, 0.0).astype(np.int64)
    return low, total - high, high, fits
