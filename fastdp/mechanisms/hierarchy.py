"""Counts of cells at every level of a tree: ranges, a distribution function, quantiles.

Every level of a tree over the cells gets noise once. Least squares then makes the
levels agree, which costs no privacy and halves the variance of a range.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp import _arrays, _core, _validate, calibration
from fastdp._doorway import enter, is_data
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    NeighboringRelation,
    Relation,
    as_relation,
    l2_sensitivity,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import ADD, Mechanism
from fastdp.mechanisms.integer import DiscreteGaussian, DiscreteLaplace

Floats: TypeAlias = npt.NDArray[np.float64]

_REPLACE = NeighboringRelation.REPLACE_ONE

#: Most leaves: a tree of them fits in the memory of a large machine.
_MOST_LEAVES = 2**30

#: Branchings that `branching=None` chooses from.
_BRANCHINGS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64)

#: Mean variances within this factor of the least are as good.
_NEARLY = 1.02

#: Ranges that stand for all of them in that choice.
_SAMPLED = 256


@dataclass(frozen=True)
class _Tree:
    """Shape of a tree over `leaves` cells: every node but the last of a level is full.

    `nodes[0]` is 1, the root's, and `nodes[-1]` the number of leaves.
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
        """Return children of a node and of the last one, for each level but leaves."""
        nodes = self.nodes
        return [
            (self.branching, below - self.branching * (here - 1))
            for here, below in pairwise(nodes)
        ]


class HierarchicalHistogram(Mechanism):
    """Noisy counts of cells at every level of a tree, made to agree by least squares.

    For questions about ranges of cells, a distribution function or quantiles: a range
    of r cells is a sum of some (branching - 1) log(r) noisy nodes instead of r noisy
    cells, whose errors add up.

    Parameters
    ----------
    leaves : int
        Number of cells, in order, in [2, 2**30]; public.
    sigma : int, float, Fraction or Decimal, optional
        Parameter of discrete Gaussian noise on every node.
    scale : int, float, Fraction or Decimal, optional
        Scale of discrete Laplace noise instead. Exactly one of the two.
    branching : int, optional
        Children of a node, >= 2; None takes the number with the least mean variance
        of a range at equal cost.
    rows_per_unit : int
        Number of records that one individual has at most.
    neighboring_relation : NeighboringRelation
        Under `REPLACE_ONE` with one record each the number of records is public, and
        the total exact.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of a wrong type or out of its range.

    Privacy
    -------
    That of `event()`, under its neighboring relation: a record added or removed moves
    one node of each of the h = `levels` noisy levels by 1, L1 sensitivity h and L2
    sensitivity sqrt(h); a record replaced moves two, 2 h and sqrt(2 h). Exact; least
    squares is post-processing. Timing class T0.

    References
    ----------
    Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private
    histograms through consistency", VLDB 2010. Qardaji, Yang, Li, "Understanding
    hierarchical methods for differentially private histograms", VLDB 2013 (the
    branching). docs/proofs/hierarchy.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.HierarchicalHistogram.from_rho(0.1, leaves=1024)
    >>> m.branching, m.levels
    (2, 10)
    >>> r = m.release(np.full(1024, 100))
    >>> r.leaves.shape
    (1024,)
    >>> bool(abs(r.range(0, 512) - 51200) < 9 * r.standard_error(0, 512))
    True
    """

    __slots__ = ("_noise", "_parameter", "_relation", "_rows", "_tree")

    _noise: DiscreteGaussian | DiscreteLaplace
    _parameter: Fraction
    _relation: NeighboringRelation
    _rows: int
    _tree: _Tree

    def __init__(
        self,
        *,
        leaves: int,
        sigma: Real | None = None,
        scale: Real | None = None,
        branching: int | None = None,
        rows_per_unit: int = 1,
        neighboring_relation: Relation = ADD,
    ) -> None:
        name, given = _validate.one_of(sigma=sigma, scale=scale)
        parameter = _validate.positive(name, given)
        tree = _tree_of(leaves, branching, gaussian=scale is None)
        rows = _validate.integer("rows_per_unit", rows_per_unit, 1, 2**31)
        relation = as_relation(neighboring_relation)
        kind = DiscreteGaussian if name == "sigma" else DiscreteLaplace
        self._freeze(
            _arguments=self._not_default(
                leaves=tree.leaves,
                **{name: _validate.plain(parameter)},
                branching=tree.branching,
                rows_per_unit=rows,
                neighboring_relation=relation,
            ),
            _noise=kind(parameter),
            _parameter=parameter,
            _relation=relation,
            _rows=rows,
            _tree=tree,
        )

    @classmethod
    def from_epsilon(
        cls, epsilon: Real, *, leaves: int, **options: Any
    ) -> HierarchicalHistogram:
        """Return the mechanism with the least Laplace noise for pure `epsilon`.

        `options` are branching, rows_per_unit and neighboring_relation of the
        constructor.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the scale that it needs, is out of range.
        """
        moved, options = _plan(leaves, gaussian=False, **options)
        scale = calibration.laplace_scale(epsilon=epsilon, sensitivity=moved)
        return cls(scale=scale, leaves=leaves, **options)

    @classmethod
    def from_rho(
        cls, rho: Real, *, leaves: int, **options: Any
    ) -> HierarchicalHistogram:
        """Return the mechanism with the least Gaussian noise for rho-zCDP, rounded up.

        Options and errors are those of `from_epsilon`.
        """
        moved, options = _plan(leaves, gaussian=True, **options)
        sigma = calibration.gaussian_sigma_from_rho(rho=rho, sensitivity=moved)
        return cls(sigma=sigma, leaves=leaves, **options)

    @classmethod
    def from_epsilon_delta(
        cls, *, epsilon: Real, delta: Real, leaves: int, **options: Any
    ) -> HierarchicalHistogram:
        """Return the mechanism with the least Gaussian noise for (epsilon, delta).

        From a proved bound on the discrete law's own profile. Options and errors are
        those of `from_epsilon`.
        """
        moved, options = _plan(leaves, gaussian=True, **options)
        sigma = calibration.discrete_gaussian_sigma(
            epsilon=epsilon, delta=delta, sensitivity=moved
        )
        return cls(sigma=sigma, leaves=leaves, **options)

    # ---- what is public --------------------------------------------------------------

    @property
    def branching(self) -> int:
        """Children of a node."""
        return self._tree.branching

    @property
    def levels(self) -> int:
        """Number of noisy levels: all but the root's."""
        return len(self._tree.nodes) - 1

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation under which the sensitivity was counted."""
        return self._relation

    @property
    def std(self) -> float:
        """Standard deviation of the noise on one node, before least squares."""
        return self._noise.std

    def event(self) -> DiscreteGaussianEvent | DiscreteLaplaceEvent:
        """Return the event of one release."""
        moved = _sensitivity(
            self.levels,
            self._rows,
            self._relation,
            gaussian=isinstance(self._noise, DiscreteGaussian),
        )
        if isinstance(self._noise, DiscreteLaplace):
            return DiscreteLaplaceEvent(
                sensitivity=moved,
                scale=self._parameter,
                neighboring_relation=self._relation,
            )
        replaced = 2 if self._relation is _REPLACE else 1
        return DiscreteGaussianEvent(
            sensitivity=moved,
            sigma=self._parameter,
            coordinates=self.levels * self._rows * replaced,
            neighboring_relation=self._relation,
        )

    def standard_error(self, start: Any, stop: Any) -> Any:
        """Return the standard error of the released count of cells [start, stop).

        Parameters
        ----------
        start, stop : int or array_like of int
            0 <= start <= stop <= leaves; broadcast.

        Returns
        -------
        float or ndarray of float64
            That of the least-squares estimate, exact up to floating point.
        """
        starts, stops = _ends(start, stop, self._tree.leaves)
        found = self.std * np.sqrt(
            _range_variance(self._tree, self._total_known, starts, stops)
        )
        return found if found.ndim else float(found)

    @property
    def _total_known(self) -> bool:
        """Whether neighbors have the same number of records."""
        return self._relation is _REPLACE and self._rows == 1

    # ---- data ------------------------------------------------------------------------

    def release(
        self,
        counts: Any,
        *,
        nonnegative: bool = False,
        stream: Stream | None = None,
        workers: int = 1,
    ) -> HierarchyRelease:
        """Return noisy counts of the cells, consistent over all ranges.

        Parameters
        ----------
        counts : ndarray of integers (not uint64) of shape (leaves,), or a column
            Records in each cell, each clamped to 2**62 over the number of leaves.
        nonnegative : bool
            Also make the counts of all nodes integers >= 0, from the root down, that
            add up. Small counts become more even, and are biased.
        stream : Stream, optional
            None draws a fresh key from the operating system; for repeatable tests
            `fastdp.testing.FixedStream`.
        workers : int
            Threads for the noise.

        Returns
        -------
        HierarchyRelease

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or shape. Never for a value of the data.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        That of `event()`. Timing class T0.
        """
        check_stream(stream)
        if is_data(counts):
            counts, _ = enter("counts", counts)
        x = _arrays.data("counts", counts, real=False)
        if x.shape != (self._tree.leaves,):
            raise ParameterError(
                f"counts must have shape ({self._tree.leaves},), got {x.shape}"
            )
        if not isinstance(nonnegative, bool):
            raise DTypeError("nonnegative must be a bool")
        workers = _validate.integer("workers", workers, 1)
        nodes = self._tree.nodes
        sums = np.zeros(sum(nodes), np.int64)
        try:
            _sum_up(self._tree, x, sums)
            noisy = sums[1:]
            self._noise.release(noisy, out=noisy, stream=stream, workers=workers)
            total = _exact_sum(x) if self._total_known else None
            leaves = _least_squares(self._tree, noisy.astype(np.float64), total)
        finally:
            _core.zero(sums)
        if nonnegative:
            leaves = _whole(self._tree, leaves)
        return HierarchyRelease(self, leaves)


class HierarchyRelease:
    """What a `HierarchicalHistogram` released; all of it is public."""

    __slots__ = ("_mechanism", "_sums", "leaves")

    leaves: Floats

    def __init__(self, mechanism: HierarchicalHistogram, leaves: Floats) -> None:
        self._mechanism = mechanism
        self.leaves = leaves
        self._sums = np.concatenate(([0.0], np.cumsum(leaves)))

    def __repr__(self) -> str:
        return f"HierarchyRelease(total={self.total!r}, mechanism={self._mechanism!r})"

    @property
    def mechanism(self) -> HierarchicalHistogram:
        """The mechanism that released it."""
        return self._mechanism

    @property
    def event(self) -> DiscreteGaussianEvent | DiscreteLaplaceEvent:
        """The event that an accountant or a filter takes."""
        return self._mechanism.event()

    @property
    def total(self) -> float:
        """Estimated number of records."""
        return float(self._sums[-1])

    def range(self, start: Any, stop: Any) -> Any:
        """Return the estimated count of cells [start, stop); broadcast."""
        starts, stops = _ends(start, stop, len(self.leaves))
        found = self._sums[stops] - self._sums[starts]
        return found if found.ndim else float(found)

    def standard_error(self, start: Any, stop: Any) -> Any:
        """Return the standard error of `range`; see the mechanism's method."""
        return self._mechanism.standard_error(start, stop)

    def cdf(self) -> Floats:
        """Return the share of records up to and with each cell, in [0, 1].

        Made monotone: halfway between the running maximum from the left and the
        running minimum from the right.
        """
        total = max(self.total, 1.0)
        share = np.clip(self._sums[1:] / total, 0.0, 1.0)
        share[-1] = 1.0
        up = np.maximum.accumulate(share)
        down = np.minimum.accumulate(share[::-1])[::-1]
        found: Floats = (up + down) / 2
        return found

    def quantile(self, p: Any) -> Any:
        """Return the first cell up to which at least a share `p` of records lies.

        Parameters
        ----------
        p : float or array_like of float
            In [0, 1].
        """
        levels = np.asarray(p, np.float64)
        if not np.all((levels >= 0) & (levels <= 1)):
            raise ParameterError("p must be in [0, 1]")
        found = np.searchsorted(self.cdf(), levels, side="left")
        return found if found.ndim else int(found)


# ---- parameters --------------------------------------------------------------------


def _tree_of(leaves: object, branching: object, *, gaussian: bool) -> _Tree:
    cells = _validate.integer("leaves", leaves, 2, _MOST_LEAVES)
    if branching is not None:
        return _Tree(cells, _validate.integer("branching", branching, 2))
    starts, stops = _sample_of_ranges(cells)

    def mean_variance(b: int) -> float:
        tree = _Tree(cells, b)
        cost = len(tree.nodes) - 1
        spread = _range_variance(tree, False, starts, stops).mean()
        return float(spread) * cost ** (1 if gaussian else 2)

    tried = {b: mean_variance(b) for b in sorted({min(b, cells) for b in _BRANCHINGS})}
    least = min(tried.values())
    # Of nearly equal ones the widest: it has the fewest nodes.
    return _Tree(cells, max(b for b, v in tried.items() if v <= _NEARLY * least))


def _sample_of_ranges(leaves: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return ends of ranges spread evenly over all ranges."""
    i = np.arange(1, _SAMPLED + 1)
    # The additive recurrence with the plastic number's powers: low discrepancy.
    x = np.floor((i * 0.7548776662466927 % 1) * (leaves + 1)).astype(np.int64)
    y = np.floor((i * 0.5698402909980532 % 1) * (leaves + 1)).astype(np.int64)
    return np.minimum(x, y), np.maximum(x, y)


def _plan(
    leaves: int,
    *,
    gaussian: bool,
    branching: int | None = None,
    rows_per_unit: int = 1,
    neighboring_relation: Relation = ADD,
) -> tuple[Fraction, dict[str, Any]]:
    """Return sensitivity and options of the constructor, the tree chosen once."""
    tree = _tree_of(leaves, branching, gaussian=gaussian)
    rows = _validate.integer("rows_per_unit", rows_per_unit, 1, 2**31)
    relation = as_relation(neighboring_relation)
    moved = _sensitivity(len(tree.nodes) - 1, rows, relation, gaussian=gaussian)
    return moved, {
        "branching": tree.branching,
        "rows_per_unit": rows,
        "neighboring_relation": relation,
    }


def _sensitivity(
    levels: int, rows: int, relation: NeighboringRelation, *, gaussian: bool
) -> Fraction:
    """Return how far one individual moves all nodes: L2 for Gaussian noise, else L1."""
    replaced = 2 if relation is _REPLACE else 1
    if gaussian:
        return l2_sensitivity(rows**2 * levels * replaced)
    return Fraction(rows * levels * replaced)


# ---- the tree ----------------------------------------------------------------------


def _sum_up(tree: _Tree, x: npt.NDArray[Any], sums: npt.NDArray[np.int64]) -> None:
    """Write the counts of all nodes, the root first, into `sums`."""
    nodes = tree.nodes
    at = len(sums) - nodes[-1]
    below = sums[at:]
    most = 2**62 // tree.leaves
    np.clip(x, -most, most, out=below, casting="unsafe")
    for n in nodes[-2::-1]:
        here = sums[at - n : at]
        here[:] = _by_parent(below, tree.branching)
        at, below = at - n, here


def _exact_sum(x: npt.NDArray[Any]) -> float:
    """Return the sum of at most 2**30 integers, rounded once.

    Of cells as they are given: clamped ones have not the same sum for neighbors.
    """
    whole = x.astype(np.int64, copy=False)
    high, low = int((whole >> 32).sum()), int((whole & 0xFFFFFFFF).sum())
    return float((high << 32) + low)


def _by_parent(x: npt.NDArray[Any], b: int) -> npt.NDArray[Any]:
    """Return the sums of each `b` neighbors, the last of what is left."""
    full = len(x) // b
    found = np.empty(-(-len(x) // b), x.dtype)
    families = x[: full * b].reshape(full, b)
    found[:full] = families[:, 0]
    for child in range(1, b):  # eight times as fast as a sum over short rows
        found[:full] += families[:, child]
    if full < len(found):
        found[full] = x[full * b :].sum()
    return found


def _spreads(tree: _Tree) -> list[tuple[float, float]]:
    """Return the variance of what each level's subtrees tell, of a node and the last.

    In units of one node's noise: 1 for a leaf; a node's own noise and its children's
    sum are averaged by their precision. The root has no noise of its own.
    """
    found = [(1.0, 1.0)]
    for depth, (children, last) in reversed(list(enumerate(tree.widths()))):
        s, s_last = found[0]
        full, end = children * s, (last - 1) * s + s_last
        if depth:
            full, end = full / (1 + full), end / (1 + end)
        found.insert(0, (full, end))
    return found


def _least_squares(tree: _Tree, noisy: Floats, total: float | None) -> Floats:
    """Return the leaves of the least-squares solution; `noisy` has no root.

    Up: a node's own noisy count and its children's sum, by their precision. Down: what
    is missing to the parent's count, by the children's variance.
    """
    b, spreads = tree.branching, _spreads(tree)
    levels = list(np.split(noisy, np.cumsum(tree.nodes[1:-1])))
    sums = []
    for depth in range(len(levels) - 1, -1, -1):
        children = _by_parent(levels[depth], b)
        sums.append(children)
        if depth:
            own = levels[depth - 1]
            # A node's variance s after the average is the weight of the children's sum.
            s, s_last = (1 - spread for spread in spreads[depth])
            last = own[-1] * (1 - s_last) + children[-1] * s_last
            own *= 1 - s
            own += s * children
            own[-1] = last
    above = sums[-1] if total is None else np.array([total])
    for depth, (s, s_last) in enumerate(spreads[1:]):
        own, missing = levels[depth], above - sums.pop()
        at = (len(own) - 1) // b * b  # of the last family
        own[:at].reshape(-1, b)[:] += (missing[:-1] / b)[:, None]
        weights = np.full(len(own) - at, s)
        weights[-1] = s_last
        own[at:] += missing[-1] * weights / weights.sum()
        above = own
    return levels[-1]


def _range_variance(
    tree: _Tree, total_known: bool, start: npt.NDArray[Any], stop: npt.NDArray[Any]
) -> Floats:
    """Return the variance of ranges of the solution, in units of one node's noise.

    Given a node's count, its children's departures from their shares of it are
    independent of everything else. So from the leaves up a range is a coefficient of
    each node, 1 between its two ends, and a rest of its own variance. With variances
    s of the children, S their sum, coefficients c: the parent's coefficient is
    sum c s/S, and the rest grows by sum c^2 s - (sum c s)^2/S.
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


def _whole(tree: _Tree, leaves: Floats) -> Floats:
    """Return integers >= 0 near the leaves whose sums over all nodes agree."""
    b = tree.branching
    levels = [leaves]
    for _ in tree.nodes[1:]:
        levels.insert(0, _by_parent(levels[0], b))
    above = np.maximum(np.rint(levels[0]), 0).astype(np.int64)
    for own in levels[1:]:
        above = _shared(above, own, b)
    return above.astype(np.float64)


def _shared(
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
    # Beyond 2**53 a floor in doubles is off by more than the children can take.
    most = (np.arange(len(totals)), weights.argmax(axis=1))
    whole[most] += totals - whole.sum(axis=1)
    shared: npt.NDArray[np.int64] = whole[real]
    return shared


def _ends(
    start: Any, stop: Any, leaves: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    ends = []
    for name, value in (("start", start), ("stop", stop)):
        given = np.asarray(value)
        if given.dtype.kind not in "iu":
            raise DTypeError(f"{name} must be an integer or an array of integers")
        ends.append(given.astype(np.int64))
    first, last = np.broadcast_arrays(*ends)
    if not np.all((first >= 0) & (first <= last) & (last <= leaves)):
        raise ParameterError(f"0 <= start <= stop <= {leaves} must hold")
    return first, last
