"""Piecewise linear trade-off functions, and pairs of laws on a grid of losses.

A trade-off function f = T(P, Q) is convex and decreasing; x is the false-positive rate
and f(x) the least false-negative rate. Every operation here errs downward: what is
returned lies on or below the true function, so it claims less privacy. The proofs are
in docs/proofs/fdp.md, sections 3 and 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fastdp.accounting._series import Floats

Knots: TypeAlias = "tuple[Floats, Floats]"

#: Rounding that is charged to every knot that is computed from differences.
SLACK = 4e-16
#: Mass that may be given away beyond either end of a grid.
_TAIL = 1e-14
#: Points of a grid that a composition aims at, and the most it may have.
_AIM, _MOST = 8000, 24_000
#: A finer grid would lose the digits of the masses.
_LEAST_STEP = 2e-7
#: With at most this many losses the grid is fitted to the smallest.
_FEW = 64
#: Losses beyond this size are as good as certain.
_LARGEST_LOSS = 600.0


def hull(x: Floats, f: Floats) -> Knots:
    """Return the knots of the lower convex hull of points."""
    order = np.lexsort((f, x))
    kept: list[tuple[float, float]] = []
    for a, b in zip(x[order].tolist(), f[order].tolist(), strict=True):
        if kept and kept[-1][0] == a:
            continue
        while len(kept) > 1:
            (x0, f0), (x1, f1) = kept[-2:]
            if (f1 - f0) * (a - x0) < (b - f0) * (x1 - x0):
                break
            kept.pop()
        kept.append((a, b))
    xs, fs = zip(*kept, strict=True)
    return np.array(xs), np.array(fs)


def lowered(x: Floats, f: Floats, slack: float) -> Knots:
    """Return the hull of knots whose values are lowered by `slack`, not below 0."""
    values = np.maximum(f - slack, 0.0)
    values[x >= 1] = 0.0
    return hull(x, values)


def from_lines(log_slopes: Floats, heights: Floats) -> Knots:
    """Return the upper envelope of the lines height - exp(log_slope) x, and 0.

    The slopes fall from line to line, and each line touches one convex function.
    """
    steep = np.exp(log_slopes)
    cross = np.diff(-heights) / np.diff(-steep)
    cross = np.clip(np.maximum.accumulate(cross), 0.0, 1.0)
    first = np.maximum(heights[:-1] - steep[:-1] * cross, 0.0)
    second = np.maximum(heights[1:] - steep[1:] * cross, 0.0)
    # On both lines; where rounding tells them apart the lower value is the safe one.
    value = np.minimum(first, second)
    last = min(1.0, max(heights[-1] / steep[-1], 0.0))
    x = np.concatenate([[0.0], cross, [last, 1.0]])
    f = np.concatenate([[min(1.0, max(heights[0], 0.0))], value, [0.0, 0.0]])
    return lowered(x, f, SLACK)


def inverse(x: Floats, f: Floats) -> Knots:
    """Return the knots of the inverse function: the two rates change places."""
    place, first = np.unique(f[::-1], return_index=True)
    values: Floats = np.minimum.reduceat(x[::-1], first)
    if place[-1] < 1:
        place, values = np.append(place, 1.0), np.append(values, 0.0)
    return place, values


@dataclass(frozen=True)
class GridPair:
    """Two laws whose log-likelihood ratio ln(Q/P) lies on the grid step * integer.

    Parameters
    ----------
    step : float
        Distance of neighboring losses.
    first : int
        Index of the first loss.
    root : ndarray of float64
        sqrt(P Q) at each loss: it is multiplied by neither convolution nor tilt.
    only_p, only_q : float
        Mass that one law has where the other has none.
    error : float
        Bound on the relative rounding of every mass.
    """

    step: float
    first: int
    root: Floats
    only_p: float
    only_q: float
    error: float

    def losses(self) -> Floats:
        """Return the grid of ln(Q/P)."""
        return np.asarray(self.step * (self.first + np.arange(self.root.size)))

    def masses(self) -> tuple[Floats, Floats]:
        """Return P and Q at each loss."""
        half = self.losses() / 2
        return self.root * np.exp(-half), self.root * np.exp(half)

    def times(self, other: GridPair) -> GridPair:
        """Return the pair of products: the composition of the two."""
        root = np.convolve(self.root, other.root)
        size = min(self.root.size, other.root.size)
        only_p = self.only_p + other.only_p * (1 - self.only_p)
        only_q = self.only_q + other.only_q * (1 - self.only_q)
        return GridPair(
            self.step,
            self.first + other.first,
            root,
            min(1.0, only_p * (1 + 4e-16)),
            min(1.0, only_q * (1 + 4e-16)),
            self.error + other.error + 2.3e-16 * (size + 8),
        ).truncated()

    def power(self, count: int) -> GridPair:
        """Return the composition of `count` such pairs."""
        result = self
        for bit in bin(count)[3:]:
            result = result.times(result)
            if bit == "1":
                result = result.times(self)
        return result

    def truncated(self) -> GridPair:
        """Return a pair that gives away the losses beyond both tails."""
        p, q = self.masses()
        low = int(np.searchsorted(np.cumsum(p), _TAIL))
        high = max(low, q.size - int(np.searchsorted(np.cumsum(q[::-1]), _TAIL)))
        if high - low > _MOST:
            low = max(low, (low + high - _MOST) // 2)
            high = low + _MOST
        if low == 0 and high == q.size:
            return self
        gone_p = float(p[:low].sum() + p[high:].sum())
        gone_q = float(q[:low].sum() + q[high:].sum())
        return GridPair(
            self.step,
            self.first + low,
            self.root[low:high] if low < high else np.zeros(1),
            min(1.0, self.only_p + gone_p * (1 + 1e-12)),
            min(1.0, self.only_q + gone_q * (1 + 1e-12)),
            self.error,
        )

    def knots(self) -> Knots:
        """Return the trade-off function of the pair, shrunk by the rounding.

        Masses of relative error e give rates of relative error e.
        """
        p, q = self.masses()
        largest = self.step * max(abs(self.first), abs(self.first + p.size))
        error = self.error + 2.3e-16 * (p.size + largest + 8)
        # From the largest ratio Q/P on; sums of positive numbers from either end.
        x = np.cumsum(p[::-1]) * (1 - error)
        f = np.cumsum(q)[::-1] * (1 - error)
        ends = [0.0, 0.0]
        xs = np.concatenate([[0.0], np.minimum(x, 1 - self.only_p), [1.0]])
        fs = np.concatenate([np.minimum(f, 1 - self.only_q), ends])
        return hull(xs, fs)


def on_grid(x: Floats, f: Floats, step: float) -> GridPair:
    """Return a pair on the grid whose trade-off function is at most these knots'.

    Each linear piece is an atom of P and Q; it is divided between its two neighbors
    on the grid so that both masses stay: the pair becomes easier to tell apart.
    """
    p, q = np.diff(x), -np.diff(f)
    only_q = 1 - float(f[0])
    loss = np.full(p.shape, -np.inf)
    both = (p > 0) & (q > 0)
    loss[both] = np.log(q[both] / p[both])
    apart = ~both | (np.abs(loss) > _LARGEST_LOSS)
    only_p = float(p[apart].sum())
    only_q += float(q[apart].sum())
    p, q, loss = p[~apart], q[~apart], loss[~apart]
    if loss.size == 0:
        return GridPair(step, 0, np.zeros(1), only_p, only_q, SLACK)
    # b errs by some units of p/step, which is some units of q: as masses that differ
    # relatively by `error` would be divided exactly.
    error = 3e-16 * (8 + float(np.abs(loss).max()))
    cell = np.floor(loss / step).astype(np.int64)
    low = cell * step
    # p = a + b and q = e^low (a + e^step b)
    b = (q * np.exp(-low) - p) / math.expm1(step)
    b = np.clip(b, 0.0, p)
    a = p - b
    first = int(cell.min())
    size = int(cell.max()) - first + 2
    mass = np.zeros(size)
    np.add.at(mass, cell - first, a)
    np.add.at(mass, cell - first + 1, b)
    losses = step * (first + np.arange(size))
    root = mass * np.exp(losses / 2)
    return GridPair(step, first, root, only_p, only_q, error)


def _range(p: Floats, q: Floats, loss: Floats) -> float:
    """Return how far losses reach between the tails that may be given away."""
    order = np.argsort(loss)
    low = int(np.searchsorted(np.cumsum(p[order]), _TAIL))
    high = loss.size - 1 - int(np.searchsorted(np.cumsum(q[order][::-1]), _TAIL))
    return float(loss[order[high]] - loss[order[low]]) if low < high else 0.0


def compose(parts: list[tuple[Knots, int]]) -> Knots:
    """Return knots on or below the tensor product of the parts with their counts."""
    mean_p = mean_q = variance = widest = 0.0
    lattice = math.inf
    for (x, f), count in parts:
        p, q = np.diff(x), -np.diff(f)
        both = (p > 0) & (q > 0)
        p, q = p[both], q[both]
        loss = np.log(q / p)
        near = np.abs(loss) < _LARGEST_LOSS
        p, q, loss = p[near], q[near], loss[near]
        mean_p += count * float(np.sum(p * loss))
        mean_q += count * float(np.sum(q * loss))
        variance += count * float(np.sum((p + q) / 2 * loss * loss))
        widest = max(widest, _range(p, q, loss))
        apart = np.abs(loss[np.abs(loss) > _LEAST_STEP])
        if 0 < apart.size <= _FEW:
            lattice = min(lattice, float(apart.min()))
    # A rare large loss, as of sampled noise, must fit as well as the bulk.
    width = max(mean_q - mean_p + 16 * math.sqrt(variance), widest)
    step = max(width / _AIM, _LEAST_STEP)
    if step < lattice < math.inf:  # so that its multiples lie on the grid
        step = lattice / math.ceil(lattice / step)
    total: GridPair | None = None
    for (x, f), count in parts:
        pair = on_grid(x, f, step).truncated().power(count)
        total = pair if total is None else total.times(pair)
    assert total is not None
    return total.knots()
