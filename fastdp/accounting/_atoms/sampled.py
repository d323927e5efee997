"""The loss of Gaussian noise on a sample, in cells of any width.

Masses are integrals of an analytic function over pieces much shorter than the scale of
its changes: the relative error of 10 nodes is below 1e-12 (section 8 of the proofs).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from fastdp.accounting._atoms.law import Floats, Law, U, law_of_cells, totals
from fastdp.accounting._atoms.plan import Cost, spread
from fastdp.accounting._series import gauss_legendre

#: Gauss-Legendre nodes on each piece, the bound of their relative error, most pieces.
_NODES, _ERROR, _MOST_PIECES = 10, 1e-12, 1 << 20

#: Width of cells and of pieces, in units of the length on which the loss bends.
_CELL = 0.3

#: Points at which the cost of cells is evaluated.
_POINTS = 4001


class Noise(Protocol):
    """Gaussian noise on a sample: x under Q is normal, with the loss log_ratio(x)."""

    @property
    def noise(self) -> float:
        """The standard deviation of x."""

    @property
    def removal(self) -> bool:
        """True if P is the mixture, False if Q is."""

    def log_ratio(self, x: Floats) -> Floats:
        """Return ln of the mixture's density over that of the noise."""

    def ratio_error(self, x: Floats, ratio: Floats) -> Floats:
        """Return a bound on the absolute error of `log_ratio`."""

    def log_density(self, x: Floats) -> Floats:
        """Return the log density of the noise."""


def sampled_law(
    loss: Noise,
    cost: Cost | None,
    cells: int,
    upper: bool,
    log_tail: float,
    least: float = -math.inf,
) -> Law:
    """Return the law of the x >= `least` in about `cells` cells.

    Raises
    ------
    OverflowError
        The law needs too many cells.
    """
    s = loss.noise
    reach = s * math.sqrt(2 * max(-log_tail, 5.0))
    low, high = max(-reach, least), reach + (1.0 if loss.removal else 0.0)
    if low >= high:
        raise OverflowError("no mass that counts is above the least x")
    x = _edges(loss, cost, cells, low, high)
    ratio = loss.log_ratio(x)
    error = loss.ratio_error(x, ratio) + 4 * U * np.abs(ratio)
    value = ratio if loss.removal else -ratio
    edge = value + error if upper else value - error
    if not loss.removal:
        edge, x = edge[::-1], x[::-1]
    rising = np.concatenate([[True], np.diff(np.maximum.accumulate(edge)) > 0])
    last, top = x[-1], float(edge.max())
    edge, x = edge[rising], x[rising]
    # The losses pile up below ln(1/(1 - q)): all that are equal there to doubles, up to
    # the last x, are in the last cell, whose right end is not below any of them.
    x[-1] = last
    right = _beyond((high - (1.0 if loss.removal else 0.0)) / s)
    left = _beyond(-low / s) if least == -math.inf else 0.0
    if edge.size < 2:  # all losses are the same to doubles
        kept = 1.0 if upper else max(0.0, 1 - left - right)
        lost = (right if loss.removal else left) if upper else 0.0
        return Law(np.array([top if upper else edge[0]]), np.array([kept]), lost)
    p, d = _integrals(loss, x, edge, upper)
    losses, masses = law_of_cells(edge, p, d, upper, 2 * _ERROR)
    lost = 0.0
    if upper:
        lost, below = (right, left) if loss.removal else (left, right)
        if losses[0] > edge[0]:
            losses = np.concatenate([edge[:1], losses])
            masses = np.concatenate([[0.0], masses])
        masses[0] += below * (1 + 4 * U)
    return Law(losses, masses, lost, 2 * _ERROR)


def _edges(
    loss: Noise, cost: Cost | None, cells: int, low: float, high: float
) -> Floats:
    """Return the ascending ends of cells in x."""
    s = loss.noise
    fewest = int((high - low) / (_CELL * min(s, s * s))) + 1
    if fewest > _MOST_PIECES >> 6:
        raise OverflowError("too many cells")
    if cost is None:
        return np.linspace(low, high, max(cells, fewest))
    fine = np.linspace(low, high, _POINTS)
    ratio = loss.log_ratio(fine)
    level = loss.log_density(fine) + (ratio if loss.removal else 0.0)
    mass = np.exp(level) * (fine[1] - fine[0])
    value = ratio
    if not loss.removal:
        value, mass, fine = -ratio[::-1], mass[::-1], fine[::-1]
    planned = np.interp(spread(value, mass, cost(value), cells), value, fine)
    return np.union1d(np.clip(planned, low, high), np.linspace(low, high, fewest))


def _integrals(
    loss: Noise, x: Floats, edge: Floats, upper: bool
) -> tuple[Floats, Floats]:
    """Return P-masses of the cells, and P-integrals of expm1(left end - loss)."""
    s = loss.noise
    start, end = np.minimum(x[1:], x[:-1]), np.maximum(x[1:], x[:-1])
    size = np.maximum(np.abs(start), np.abs(end))
    longest = _CELL * min(s, s * s) / (1 + size / (4 * s))
    cuts = np.maximum(1, np.ceil((end - start) / longest)).astype(np.int64)
    if cuts.sum() > _MOST_PIECES:
        raise OverflowError("too many pieces")
    cell = np.repeat(np.arange(cuts.size), cuts)
    number = np.arange(cell.size) - np.repeat(np.cumsum(cuts) - cuts, cuts)
    width = ((end - start) / cuts)[cell]
    nodes, weights = gauss_legendre(_NODES)
    place = (start[cell] + number * width)[:, None] + np.outer(width, nodes)
    ratio = loss.log_ratio(place)
    level = loss.log_density(place)
    if loss.removal:
        level = level + ratio
    part = np.exp(level) * np.outer(width, weights)
    error = loss.ratio_error(place, ratio) + 4 * U * np.abs(ratio)
    value = (ratio if loss.removal else -ratio) + (error if upper else -error)
    fall = np.expm1(np.minimum(edge[cell][:, None] - value, 0.0))
    count = cuts.size
    p = totals(cell, part.sum(axis=1), count)
    return p, totals(cell, (part * fall).sum(axis=1), count)


def _beyond(deviations: float) -> float:
    """Return a bound on the normal law's mass beyond this number of deviations."""
    if deviations <= 0:
        return 1.0
    return min(1.0, math.exp(-deviations * deviations / 2) * (1 + 1e-9))
