"""Counts of cells at every level of a tree: ranges, a distribution function, quantiles.

Every level of a tree over the cells gets noise once. Least squares then makes the
levels agree, which costs no privacy and halves the variance of a range.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

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
from fastdp.mechanisms.noise.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.running import _count_tree
from fastdp.mechanisms.running._count_tree import Floats

_REPLACE = NeighboringRelation.REPLACE_ONE


class HierarchicalHistogram(Mechanism):
    """Noisy counts of cells at every level of a tree, made to agree by least squares.

    Use it for counts of ranges of cells, a distribution function or quantiles: a range
    of r cells is a sum of about (branching - 1) log(r) noisy nodes instead of r noisy
    cells.

    Parameters
    ----------
    leaves : int
        Number of cells, in order, in [2, 2**30]; public.
    sigma : int, float, Fraction or Decimal, optional
        Parameter of discrete Gaussian noise on every node.
    scale : int, float, Fraction or Decimal, optional
        Scale of discrete Laplace noise. Give exactly one of `sigma` and `scale`.
    branching : int, optional
        Number of children of a node, >= 2; None takes the number with the least mean
        variance of a range at equal cost.
    rows_per_unit : int
        Maximum number of records per individual.
    neighboring_relation : NeighboringRelation
        Under `REPLACE_ONE` with one record per individual, the number of records is
        public and the total is exact.

    Privacy
    -------
    The guarantee is `event()`, under its neighboring relation: an added or removed
    record changes one node in each of the h = `levels` noisy levels by 1, with L1
    sensitivity h and L2 sensitivity sqrt(h); a replaced record changes two nodes per
    level, with sensitivities 2 h and sqrt(2 h). Exact; least squares is
    post-processing. Timing class T0.

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

    _returns_array = False

    _noise: DiscreteGaussian | DiscreteLaplace
    _parameter: Fraction
    _relation: NeighboringRelation
    _rows: int
    _tree: _count_tree.Tree

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
        tree = _count_tree.tree_of(leaves, branching, gaussian=scale is None)
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

        Options and errors are as in `from_epsilon`.
        """
        moved, options = _plan(leaves, gaussian=True, **options)
        sigma = calibration.gaussian_sigma_from_rho(rho=rho, sensitivity=moved)
        return cls(sigma=sigma, leaves=leaves, **options)

    @classmethod
    def from_epsilon_delta(
        cls, *, epsilon: Real, delta: Real, leaves: int, **options: Any
    ) -> HierarchicalHistogram:
        """Return the mechanism with the least Gaussian noise for (epsilon, delta).

        It uses a proved bound on the discrete law's own profile. Options and errors are
        as in `from_epsilon`.
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
        """The number of noisy levels: all levels except the root."""
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
            Standard error of the least-squares estimate, exact up to rounding.
        """
        starts, stops = _ends(start, stop, self._tree.leaves)
        found = self.std * np.sqrt(
            _count_tree.range_variance(self._tree, self._total_known, starts, stops)
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
            Also make the counts of all nodes consistent integers >= 0, from the root
            down. Small counts become more even and are biased.
        stream : Stream, optional
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads for the noise.

        Returns
        -------
        HierarchyRelease

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or shape. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event()`. Timing class T0.
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
            _count_tree.sum_up(self._tree, x, sums)
            noisy = sums[1:]
            self._noise.release(noisy, out=noisy, stream=stream, workers=workers)
            total = _count_tree.exact_sum(x) if self._total_known else None
            leaves = _count_tree.least_squares(
                self._tree, noisy.astype(np.float64), total
            )
        finally:
            _core.zero(sums)
        if nonnegative:
            leaves = _count_tree.whole_counts(self._tree, leaves)
        return HierarchyRelease(self, leaves)


class HierarchyRelease:
    """The result of a `HierarchicalHistogram`; all of it is public."""

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
        """The mechanism of the release."""
        return self._mechanism

    @property
    def event(self) -> DiscreteGaussianEvent | DiscreteLaplaceEvent:
        """Return the event of the release, for accountants and filters."""
        return self._mechanism.event()

    @property
    def total(self) -> float:
        """The estimated number of records."""
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
        """Return the fraction of records up to and including each cell, in [0, 1].

        It is made monotone: the mean of the running maximum from the left and the
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
        """Return the first cell whose cumulative fraction of records is at least `p`.

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


def _plan(
    leaves: int,
    *,
    gaussian: bool,
    branching: int | None = None,
    rows_per_unit: int = 1,
    neighboring_relation: Relation = ADD,
) -> tuple[Fraction, dict[str, Any]]:
    """Return the sensitivity and the constructor's options, with the chosen tree."""
    tree = _count_tree.tree_of(leaves, branching, gaussian=gaussian)
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
    """Return the sensitivity of all nodes: L2 for Gaussian noise, else L1."""
    replaced = 2 if relation is _REPLACE else 1
    if gaussian:
        return l2_sensitivity(rows**2 * levels * replaced)
    return Fraction(rows * levels * replaced)


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
