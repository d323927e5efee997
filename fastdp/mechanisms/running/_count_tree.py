"""A tree of counts: sums of nodes, least squares over the nodes, and variances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp import _validate

Floats: TypeAlias = npt.NDArray[np.float64]

#: Maximum number of leaves: the tree fits in the memory of a large machine.
_MOST_LEAVES = 2**30

#: Branchings that `branching=None` chooses from.
_BRANCHINGS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64)

#: Treat mean variances within this factor of the least as equally good.
_NEARLY = 1.02

#: Number of sampled ranges that represent all ranges in that choice.
_SAMPLED = 256


@dataclass(frozen=True)
class Tree:
    """Shape of a tree over `leaves` cells; only the last node of a level may be short.

    `nodes` are the numbers of nodes by level, from 1 (the root) to the leaves.
    """

    leaves: int
    branching: int

    @property
    def nodes(self) -> list[int]:
        found = [self.leaves]
        while found[0] > 1 or len(found) == 1:
            found.insert(0, -(-found[0] // self.branching))
        return found

    def widths(self) -> list[tuple[int, int]]:
        """Return the children of a full and of the last node, of each inner level."""
        nodes = self.nodes
        return [
            (self.branching, below - self.branching * (here - 1))
            for here, below in pairwise(nodes)
        ]


def tree_of(leaves: object, branching: object, *, gaussian: bool) -> Tree:
    """Return the tree with this branching, or with the least mean variance."""
    cells = _validate.integer("leaves", leaves, 2, _MOST_LEAVES)
    if branching is not None:
        return Tree(cells, _validate.integer("branching", branching, 2))
    starts, stops = _sample_of_ranges(cells)

    def mean_variance(b: int) -> float:
        tree = Tree(cells, b)
        cost = len(tree.nodes) - 1
        spread = range_variance(tree, False, starts, stops).mean()
        return float(spread) * cost ** (1 if gaussian else 2)

    tried = {b: mean_variance(b) for b in sorted({min(b, cells) for b in _BRANCHINGS})}
    least = min(tried.values())
    # Among nearly equal branchings, take the largest: its tree has the fewest nodes.
    return Tree(cells, max(b for b, v in tried.items() if v <= _NEARLY * least))


def _sample_of_ranges(leaves: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the ends of ranges that are spread evenly over all ranges."""
    i = np.arange(1, _SAMPLED + 1)
    # Additive recurrence with powers of the plastic number, of low discrepancy.
    x = np.floor((i * 0.7548776662466927 % 1) * (leaves + 1)).astype(np.int64)
    y = np.floor((i * 0.5698402909980532 % 1) * (leaves + 1)).astype(np.int64)
    return np.minimum(x, y), np.maximum(x, y)


# ---- counts of nodes ----------------------------------------------------------------


def sum_up(tree: Tree, x: npt.NDArray[Any], sums: npt.NDArray[np.int64]) -> None:
    """Write the counts of all nodes, the root first, into `sums`."""
    nodes = tree.nodes
    at = len(sums) - nodes[-1]
    below = sums[at:]
    most = 2**62 // tree.leaves
    np.clip(x, -most, most, out=below, casting="unsafe")
    for n in nodes[-2::-1]:
        here = sums[at - n : at]
        here[:] = by_parent(below, tree.branching)
        at, below = at - n, here


def exact_sum(x: npt.NDArray[Any]) -> float:
    """Return the sum of at most 2**30 integers, rounded once.

    Sum the cells before clamping: clamped cells of neighbors may have different sums.
    """
    whole = x.astype(np.int64, copy=False)
    high, low = int((whole >> 32).sum()), int((whole & 0xFFFFFFFF).sum())
    return float((high << 32) + low)


def by_parent(x: npt.NDArray[Any], b: int) -> npt.NDArray[Any]:
    """Return the sums of groups of `b` neighbors; the last group may be shorter."""
    full = len(x) // b
    found = np.empty(-(-len(x) // b), x.dtype)
    families = x[: full * b].reshape(full, b)
    found[:full] = families[:, 0]
    for child in range(1, b):  # eight times as fast as a sum over short rows
        found[:full] += families[:, child]
    if full < len(found):
        found[full] = x[full * b :].sum()
    return found


def _spreads(tree: Tree) -> list[tuple[float, float]]:
    """Return, by level, the variance of a full and of the last node's estimate.

    The estimate uses only the node's subtree, and the unit is the variance of one
    node's noise. A leaf has variance 1; an inner node averages its own noisy count and
    its children's sum by precision. The root has no noisy count of its own.
    """
    found = [(1.0, 1.0)]
    for depth, (children, last) in reversed(list(enumerate(tree.widths()))):
        s, s_last = found[0]
        full, end = children * s, (last - 1) * s + s_last
        if depth:
            full, end = full / (1 + full), end / (1 + end)
        found.insert(0, (full, end))
    return found


def least_squares(tree: Tree, noisy: Floats, total: float | None) -> Floats:
    """Return the leaves of the least-squares solution; `noisy` has no root.

    Going up, average a node's noisy count and its children's sum by their precision.
    Going down, distribute the difference to the parent's count in proportion to the
    children's variances.
    """
    b, spreads = tree.branching, _spreads(tree)
    levels = list(np.split(noisy, np.cumsum(tree.nodes[1:-1])))
    sums = []
    for depth in range(len(levels) - 1, -1, -1):
        children = by_parent(levels[depth], b)
        sums.append(children)
        if depth:
            own = levels[depth - 1]
            # The variance of a node's average is also the weight of its own count.
            s, s_last = (1 - spread for spread in spreads[depth])
            last = own[-1] * (1 - s_last) + children[-1] * s_last
            own *= 1 - s
            own += s * children
            own[-1] = last
    above = sums[-1] if total is None else np.array([total])
    for depth, (s, s_last) in enumerate(spreads[1:]):
        own, missing = levels[depth], above - sums.pop()
        at = (len(own) - 1) // b * b  # first child of the last parent
        own[:at].reshape(-1, b)[:] += (missing[:-1] / b)[:, None]
        weights = np.full(len(own) - at, s)
        weights[-1] = s_last
        own[at:] += missing[-1] * weights / weights.sum()
        above = own
    return levels[-1]


def range_variance(
    tree: Tree, total_known: bool, start: npt.NDArray[Any], stop: npt.NDArray[Any]
) -> Floats:
    """Return the variance of ranges of the solution, in units of one node's noise.

    Given a node's count, the deviations of its children from their shares of the count
    are independent of everything else. So, from the leaves up, a range is a sum of
    coefficients times nodes (1 between the range's ends) plus a remainder with its own
    variance. For children with variances s, sum S and coefficients c, the parent's
    coefficient is sum c s/S, and the remainder's variance grows by sum c^2 s - (sum c
    s)^2/S.
    """
    nodes, b, spreads = tree.nodes, tree.branching, _spreads(tree)
    left, right = start.astype(np.int64), stop.astype(np.int64)
    together = left == right  # both ends in one node, whose coefficient is c_left
    c_left, c_right = np.where(together, 0.0, 1.0), np.zeros(left.shape)
    rest = np.zeros(left.shape)
    for depth in range(len(nodes) - 1, 0, -1):
        before = partial(_before, nodes[depth], *spreads[depth])
        last = nodes[depth - 1] - 1
        up_left, up_right = np.minimum(left // b, last), np.minimum(right // b, last)
        s_left, s_right = (before(i + 1) - before(i) for i in (left, right))
        all_left, all_right = (
            before((i + 1) * b) - before(i * b) for i in (up_left, up_right)
        )
        joined = up_left == up_right
        inner = np.where(joined, before(right), before((up_left + 1) * b))
        inner = inner - before(left + 1)
        inner = np.where(together, 0, inner)
        one = c_left * s_left + inner
        two = c_left**2 * s_left + inner
        ended = joined & ~together
        one = one + np.where(ended, c_right * s_right, 0)
        two = two + np.where(ended, c_right**2 * s_right, 0)
        rest = rest + two - one**2 / all_left
        c_left = one / all_left
        inner = before(right) - before(up_right * b)
        one = c_right * s_right + inner
        two = c_right**2 * s_right + inner
        rest = rest + np.where(joined, 0, two - one**2 / all_right)
        c_right = one / all_right
        left, right, together = up_left, up_right, joined
    if not total_known:
        rest = rest + c_left**2 * spreads[0][1]
    return np.maximum(rest, 0.0)


def _before(n: int, s: float, s_last: float, i: npt.NDArray[Any]) -> Floats:
    """Return the sum of the variances of the first `i` of `n` nodes."""
    return np.where(i >= n, (n - 1) * s + s_last, i * s)


def whole_counts(tree: Tree, leaves: Floats) -> Floats:
    """Return integers >= 0 near the leaves that are consistent over all nodes."""
    b = tree.branching
    levels = [leaves]
    for _ in tree.nodes[1:]:
        levels.insert(0, by_parent(levels[0], b))
    above = np.maximum(np.rint(levels[0]), 0).astype(np.int64)
    for own in levels[1:]:
        above = share_out(above, own, b)
    return above.astype(np.float64)


def share_out(
    totals: npt.NDArray[np.int64], values: Floats, b: int
) -> npt.NDArray[np.int64]:
    """Share each total among `b` children by largest remainders."""
    real = np.arange(len(totals) * b).reshape(-1, b) < len(values)
    weights = np.zeros(real.shape)
    weights[real] = np.maximum(values, 0)
    weights[weights.sum(axis=1) == 0] = 1
    weights *= real
    part = totals[:, None] * (weights / weights.sum(axis=1, keepdims=True))
    whole = np.floor(part).astype(np.int64)
    left = totals - whole.sum(axis=1)
    order = np.argsort(whole - part, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(b)[None, :], axis=1)
    whole += rank < left[:, None]
    # Above 2**53 the floors in doubles leave a remainder too large to share out.
    most = (np.arange(len(totals)), weights.argmax(axis=1))
    whole[most] += totals - whole.sum(axis=1)
    shared: npt.NDArray[np.int64] = whole[real]
    return shared
