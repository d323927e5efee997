"""Quantiles of a column from a released tree of counts, with proved intervals.

The bounds are cut into equal cells; the tree holds the noisy numbers of records in runs
of cells. ``docs/proofs/intervals.md`` has the proofs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from fastdp.frames._recipe import cells_in_half
from fastdp.mechanisms import DiscreteGaussian
from fastdp.mechanisms.running import _count_tree
from fastdp.mechanisms.running._count_tree import Tree

_Array = np.ndarray[Any, Any]

#: A search for an end uses steps that shrink by this factor.
_FINER = 16

#: Share of the error probability for the last, shortest steps of a search.
_LAST = 0.75

#: `tail` adds smoothing normal noise: its standard deviation, relative to that of the
#: noise, and the shift of the threshold, in its own standard deviations.
_SMOOTH, _BESIDE = 1 / 64, 2.5

#: Do not compute the exact tail below this multiple of the normal quantile.
_NEAR = 0.7

#: Bound on the rounding and truncation errors of a probability computed in doubles.
_ROUNDED = 1e-12


@functools.lru_cache(maxsize=64)
def tree_of(cells: int, *, gaussian: bool) -> Tree:
    """Return the tree over `cells` cells."""
    return _count_tree.tree_of(cells, None, gaussian=gaussian)


# ---- cells -------------------------------------------------------------------------


def cells_of(values: _Array, bounds: tuple[float, float], cells: int) -> _Array:
    """Return the cell of each number, clamped to the bounds; -1 if it is missing.

    It uses doubles and the same operations as the SQL: all engines agree.
    """
    low, high = bounds
    there = ~np.isnan(values)
    held = np.clip(np.where(there, values, low), low, high)
    place = np.floor((held / 2 - low / 2) * cells_in_half(bounds, cells))
    return np.where(there, np.minimum(place, cells - 1), -1).astype(np.int64)


def edges_of(bounds: tuple[float, float], cells: int) -> tuple[_Array, _Array]:
    """Return the edges of cells, once for use as lower ends and once as upper ends.

    No number of a cell is below the cell's lower end or above its upper end, despite
    the rounding in `cells_of`: edges that rounding may affect are moved outward.
    """
    (low, high), places = bounds, np.arange(cells + 1)
    half = high / 2 - low / 2
    large = 2.0**40 if half > 1 else 1.0
    part = half / large * places / cells * large
    with np.errstate(over="ignore"):  # the bounds may span nearly all doubles
        edges = np.where(part < 2.0**1020, low + 2 * part, low + part + part)
        edges = np.clip(edges, low, high)
        far = max(-low, high) * 2.0**-48
        first = cells_of(np.nextafter(edges, -math.inf), bounds, cells) < places
        last = cells_of(np.nextafter(edges, math.inf), bounds, cells) >= places
        lower = np.clip(np.where(first, edges, edges - far), low, high)
        upper = np.clip(np.where(last, edges, edges + far), low, high)
    lower[0], upper[-1] = low, high
    return lower, upper


def nodes_of(tree: Tree, counts: _Array) -> _Array:
    """Return the counts of all non-root nodes, from counts of shape (g, cells)."""
    found = np.zeros((len(counts), sum(tree.nodes)), np.int64)
    for row, cells in zip(found, counts, strict=True):
        _count_tree.sum_up(tree, cells, row)
    return found[:, 1:]


# ---- the noise of a rank -----------------------------------------------------------


class Rank:
    """Noise of D(e) = (1 - q) F - q G, with the counts F below and G above edge e.

    D(e) is negative if less than a fraction q of the records is below e.

    Parameters
    ----------
    tree : Tree
    law : DiscreteLaplace or DiscreteGaussian
        Noise of each node.
    q : Fraction
        The quantile, in (0, 1).
    """

    def __init__(self, tree: Tree, law: Any, q: Fraction) -> None:
        self._tree, self._q = tree, float(q)
        self._gaussian = isinstance(law, DiscreteGaussian)
        self._parameter = float(law.sigma if self._gaussian else law.scale)
        at, cells = np.arange(tree.leaves + 1), np.full(tree.leaves + 1, tree.leaves)
        variance = functools.partial(_count_tree.range_variance, tree, False)
        below, above = variance(0 * at, at), variance(at, cells)
        both = variance(0 * at, cells) - below - above
        p = self._q
        #: Variance of the noise at each edge, as a multiple of that of one node.
        self.variances: _Array = (
            (1 - p) ** 2 * below + p**2 * above - p * (1 - p) * both
        )
        self.std = law.std * np.sqrt(self.variances)
        self._far: dict[tuple[float, bool], _Array] = {}
        # By edge and probability: the largest size known to be too small, and the
        # smallest known to suffice. Many groups ask for the same edges.
        self._known: dict[tuple[int, float], tuple[float, float]] = {}

    def far(self, outside: float, *, smooth: bool = False) -> _Array:
        """Return for each edge a size that the noise exceeds with P <= outside.

        It uses Chernoff's bound; `smooth` includes the smoothing noise of `tail`.
        """
        if (outside, smooth) in self._far:
            return self._far[outside, smooth]
        lengths = np.geomspace(1e-3, 0.999, 128) / self._parameter
        if self._gaussian:
            lengths = lengths * 2 * math.sqrt(-2 * math.log(outside))
            logs = np.square(self._parameter * lengths) / 2
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                logs = -np.log1p(-np.square(np.sinh(lengths / 2) / self._bend))
        added = np.square(self.std * _SMOOTH) / 2 if smooth else 0 * self.std
        least = np.full(len(self.std), math.inf)
        with np.errstate(invalid="ignore"):
            for length, log in zip(lengths, logs, strict=True):
                grown = self.variances * log + added * length**2 - math.log(outside)
                np.fmin(least, grown / length, out=least)
        self._far[outside, smooth] = least
        return least

    @property
    def _bend(self) -> float:
        with np.errstate(over="ignore"):
            return float(np.sinh(1 / (2 * self._parameter)))

    def exceeds(self, sizes: _Array, outside: float, edge: int) -> bool:
        """Return whether noise at an edge reaches sizes[edge] with P <= outside."""
        x, place = float(sizes[edge]), (edge, outside)
        if place not in self._known:
            near = _NEAR * NormalDist().inv_cdf(1 - outside) * float(self.std[edge])
            self._known[place] = near, float(self.far(outside)[edge])
        small, large = self._known[place]
        if x >= large:
            return True
        if x <= small:
            return False  # False is always safe
        sure = self.tail(edge, x, outside) <= outside
        self._known[place] = (small, x) if sure else (x, large)
        return sure

    def tail(self, edge: int, x: float, outside: float) -> float:
        """Return an upper bound on the probability of noise of x or more at an edge.

        It is only a little above an exact probability near `outside`.
        """
        smooth = float(self.std[edge]) * _SMOOTH
        y = x - _BESIDE * smooth
        half = y + float(self.far(outside / 1000, smooth=True)[edge])
        if half > 1e4 * smooth:  # hardly any noise: the sum would be too long
            return 1.0
        step = math.pi / half
        odd = 2 * np.arange(math.ceil(4 / (smooth * step)) + 1) + 1
        logs = -np.square(smooth * step * odd) / 2
        weights, many = self._weights(edge)
        for part in (slice(1), slice(1, 4), slice(4, None)):
            u = step * weights[part, None] * odd
            logs += many[part] @ self._log_characteristic(u)
            some = logs > -40  # the dropped terms sum to less than `_ROUNDED`
            odd, logs = odd[some], logs[some]
        waves = np.sin(step * y * odd) * np.exp(logs) / odd
        most = 0.5 - 2 / math.pi * float(np.sum(waves)) + outside / 1000 + _ROUNDED
        return most / NormalDist().cdf(_BESIDE)

    def _weights(self, edge: int) -> tuple[_Array, _Array]:
        """Return the distinct magnitudes of the nodes' weights in D, and their numbers.

        Magnitudes with the most variance come first.
        """
        rows = weights_of(self._tree, edge, self._q)
        sizes = np.round(np.abs(np.concatenate(rows)), 12)
        found, many = np.unique(sizes, return_counts=True)
        order = np.argsort(-many * found**2)
        return found[order], many[order]

    def _log_characteristic(self, u: _Array) -> _Array:
        """Return the logarithm of the law's characteristic function."""
        if not self._gaussian:
            bent: _Array = np.square(np.sin(u / 2) / self._bend)
            return -np.log1p(bent)
        sigma = self._parameter
        if sigma < 2:
            shares = np.exp(-np.square(np.arange(1, 20) / sigma) / 2)
            waves = [2 * part * np.cos(k * u) for k, part in enumerate(shares, 1)]
            logs: _Array = np.log((1 + sum(waves)) / (1 + 2 * shares.sum()))
            return logs
        u = np.remainder(u + math.pi, 2 * math.pi) - math.pi
        # By Poisson summation: normal densities around the multiples of 2 pi.
        near = 2 * (math.pi * sigma) ** 2
        beside = np.exp(2 * math.pi * sigma**2 * (np.abs(u) - math.pi))
        logs = np.log1p(beside) - math.log1p(2 * math.exp(-near))
        return logs - np.square(sigma * u) / 2


def weights_of(tree: Tree, edge: int, q: float) -> list[_Array]:
    """Return the nodes' weights in D at an edge, after least squares, by level."""
    b, spreads, nodes = tree.branching, _count_tree._spreads(tree), tree.nodes

    def spread(depth: int) -> _Array:
        found = np.full(nodes[depth], spreads[depth][0])
        found[-1] = spreads[depth][1]
        return found

    shares = [np.where(np.arange(nodes[-1]) < edge, 1 - q, -q)]
    for depth in range(len(nodes) - 1, 1, -1):
        s = spread(depth)
        weighed = _count_tree.by_parent(shares[0] * s, b)
        shares.insert(0, weighed / _count_tree.by_parent(s, b))
    told, found = shares[0], []
    for depth, share in enumerate(shares, 1):
        if depth > 1:
            passed = told * (1 - spread(depth - 1)) - shares[depth - 2]
            told = share + np.repeat(passed, b)[: nodes[depth]]
        found.append(told * spread(depth))
    return found


# ---- reading -----------------------------------------------------------------------


class Trees:
    """The released trees of a column, one for each group.

    `whole` means that all values are integers; with integer bounds the quantiles are,
    too.
    """

    def __init__(
        self,
        tree: Tree,
        law: Any,
        bounds: tuple[float, float],
        asked: Sequence[Fraction],
        noisy: _Array,
        *,
        whole: bool = False,
    ) -> None:
        self._tree, self._law = tree, law
        exact = all(end == round(end) and abs(end) < 2**53 for end in bounds)
        self._whole = whole and exact
        self._bounds, self._asked = bounds, asked
        self._edges = edges_of(bounds, tree.leaves)
        leaves = [
            _count_tree.least_squares(tree, row.astype(np.float64), None)
            for row in noisy
        ]
        self._sums = np.zeros((len(noisy), tree.leaves + 1))
        np.cumsum(np.reshape(leaves, (-1, tree.leaves)), axis=1, out=self._sums[:, 1:])
        self._ranks: dict[Fraction, Rank] = {}

    def values(self, q: Fraction) -> _Array:
        """Return a quantile of each group, not below lower quantiles; NaN if empty.

        It is the point where D crosses 0, found in steps that shrink, with linear
        interpolation within a cell.
        """
        found, empty = self._points(q), np.rint(self._sums[:, -1]) < 1
        if self._whole and not empty.any():
            return found.astype(np.int64)
        return np.where(empty, math.nan, found)

    def _points(self, q: Fraction) -> _Array:
        lower = [self._crossings(p) for p in self._asked if p <= q]
        found: _Array = np.maximum.reduce(lower)
        return np.rint(found) if self._whole else found

    def _crossings(self, q: Fraction) -> _Array:
        found = []
        edges = self._edges[0] / 2 + self._edges[1] / 2
        for noisy in self._noisy(q):
            low, high = 0, self._tree.leaves
            for size in sizes_of(self._tree.leaves):
                low, high = _moved(low, high, size, noisy < 0, noisy >= 0)
            past, ahead = max(-noisy[low], 0.0), max(noisy[high], 0.0)
            share = past / (past + ahead) if past + ahead else 0.5
            found.append(edges[low] * (1 - share) + edges[high] * share)
        return np.array(found, np.float64)

    def interval(self, q: Fraction, level: float) -> tuple[_Array, _Array]:
        """Return the ends of the interval for a quantile of each group."""
        rank = self._ranks.setdefault(q, Rank(self._tree, self._law, q))
        ends = np.array(
            [self._sure_ends(rank, noisy, (1 - level) / 2) for noisy in self._noisy(q)],
            np.int64,
        ).reshape(-1, 2)
        low, high = self._edges[0][ends[:, 0]], self._edges[1][ends[:, 1]]
        if not self._whole:
            return low, high
        # No integer that can be the quantile is left out; the value stays inside.
        value = self._points(q)
        low, high = np.minimum(np.ceil(low), value), np.maximum(np.floor(high), value)
        return low.astype(np.int64), high.astype(np.int64)

    def known(self, _: Fraction) -> float:
        """Return the width of the interval that was known before the release."""
        return self._bounds[1] - self._bounds[0]

    def _noisy(self, q: Fraction) -> _Array:
        """Return the noisy D of each group at each edge."""
        found: _Array = self._sums - float(q) * self._sums[:, -1:]
        return found

    def _sure_ends(self, rank: Rank, noisy: _Array, outside: float) -> tuple[int, int]:
        """Return edges that enclose the quantile with the proved probability."""
        low, high = 0, self._tree.leaves
        # Subtract more than the rounding errors of the sums.
        sizes = np.abs(noisy) - (1 + np.abs(noisy).max()) * 2.0**-40
        for size, part in parts_of(self._tree.leaves, outside):
            sure = functools.partial(rank.exceeds, sizes, part)
            low, high = _moved(low, high, size, noisy < 0, noisy > 0, sure)
        return low, high


def _moved(
    low: int,
    high: int,
    size: int,
    below: _Array,
    above: _Array,
    sure: Callable[[int], bool] = lambda _: True,
) -> tuple[int, int]:
    """Move two edges inward in steps of `size` while the next edge passes `sure`.

    The edges stay on multiples of `size`, except the last edge.
    """
    cells = len(below) - 1
    while (edge := low + size) < cells and below[edge] and sure(edge):
        low = edge
    while (edge := (high - 1) // size * size) > 0 and above[edge] and sure(edge):
        high = edge
    return low, high


def sizes_of(cells: int) -> list[int]:
    """Return the lengths of steps in cells, the longest first."""
    found = [1]
    while found[0] * _FINER < cells:
        found.insert(0, found[0] * _FINER)
    return found


def parts_of(cells: int, outside: float) -> Iterator[tuple[int, float]]:
    """Return the lengths of steps, each with its share of the error probability."""
    *longer, last = sizes_of(cells)
    rest = (1 - _LAST) / max(len(longer), 1)
    yield from ((size, outside * rest) for size in longer)
    yield last, outside * (_LAST if longer else 1)
