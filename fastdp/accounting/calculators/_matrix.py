"""Prefix sums under continual release: noise shaped by a factorization.

The answers A x, where A is the lower triangle of ones, are released as B (C x + noise)
with A = B C. This is Gaussian noise on C x: the cost depends on the sensitivity of C,
and the error on the norms of B's rows (docs/proofs/amplification.md, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fastdp import _factors, _validate
from fastdp._factors import Floats
from fastdp._validate import Real
from fastdp.accounting.events import (
    GaussianEvent,
    NeighboringRelation,
    Relation,
    as_relation,
)
from fastdp.exceptions import DTypeError, ParameterError

__all__ = [
    "MatrixPlan",
    "matrix_mechanism",
    "optimized_bands",
    "participation_sensitivity",
]


#: Relative rounding error that sensitivities are raised by.
_SLOP = 1e-11


@dataclass(frozen=True, kw_only=True)
class MatrixPlan:
    """A factorization for prefix sums, with its cost and its error.

    Parameters
    ----------
    strategy : str
        Name of the factorization.
    steps : int
        Number of prefix sums.
    participations, separation : int
        Maximum number of steps with one record, and the least distance between these
        steps.
    sensitivity : float
        L2 sensitivity of C x to one record of norm 1 in all its steps, rounded up.
    largest_row, mean_row : float
        Largest and root-mean-square row norm of B.
    """

    strategy: str
    steps: int
    participations: int
    separation: int
    sensitivity: float
    largest_row: float
    mean_row: float

    @property
    def largest_error(self) -> float:
        """Standard error of the worst prefix sum at mu = 1 (sigma = sensitivity)."""
        return self.sensitivity * self.largest_row

    @property
    def mean_error(self) -> float:
        """Root-mean-square standard error of all prefix sums at mu = 1."""
        return self.sensitivity * self.mean_row

    def event(
        self,
        sigma: Real,
        *,
        neighboring_relation: Relation = NeighboringRelation.REPLACE_SPECIAL,
    ) -> GaussianEvent:
        """Return the event of all prefix sums with noise of `sigma` on C x.

        Parameters
        ----------
        sigma : int, float, Fraction or Decimal
            Standard deviation, > 0, in units of one record's largest norm.
        neighboring_relation : NeighboringRelation
            By default one record's contributions are replaced by zeros; under
            REPLACE_ONE the sensitivity is doubled.

        Raises
        ------
        ParameterError
            The relation is ADD_OR_REMOVE_ONE: removing a record would shift all later
            steps.
        """
        neighboring_relation = as_relation(neighboring_relation)
        if neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
            raise ParameterError(
                "neighboring_relation must be REPLACE_SPECIAL or "
                "REPLACE_ONE: only under these do the other records keep "
                "their steps"
            )
        twice = neighboring_relation is NeighboringRelation.REPLACE_ONE
        size = Fraction(self.sensitivity) * (2 if twice else 1)
        return GaussianEvent(
            sensitivity=size,
            sigma=_validate.positive("sigma", sigma),
            neighboring_relation=neighboring_relation,
        )


def matrix_mechanism(
    strategy: str,
    steps: int,
    *,
    participations: int,
    separation: int | None = None,
    bands: int | Sequence[float] | None = None,
    buffers: int | None = None,
) -> MatrixPlan:
    """Return cost and error of a factorization for private prefix sums.

    Parameters
    ----------
    strategy : str
        "independent" (noise on every step's sum, added up: C = 1); "tree" (binary tree
        of partial sums, each prefix from the fewest sums); "square_root" (C = B = the
        square root of A); "banded" (few coefficients, B = A/C: the first `bands`
        coefficients of the square root, or given ones); "blt" (coefficients from
        decaying `buffers`, with the least largest error for these participations).
    steps : int
        Number of prefix sums, 1 ... 2**22.
    participations : int
        Maximum number of steps that one record takes part in, >= 1.
    separation : int, optional
        Minimum distance in steps between two participations, >= 1; required if there
        are several. For a record that is used once per epoch in a fixed order: the
        number of steps per epoch.
    bands : int or sequence of float, optional
        Only for "banded": number of the root's coefficients, 1 ... steps; or up to 2048
        coefficients, such as those of `optimized_bands`: the first is 1, and the others
        are >= 0 and never increase. They are rounded to multiples of 2**-20.
    buffers : int, optional
        Only for "blt": number of buffers, 1 ... 8.

    Returns
    -------
    MatrixPlan

    References
    ----------
    Dwork, Naor, Pitassi, Rothblum (2010) and Chan, Shi, Song (2011) for trees;
    Fichtenberger, Henzinger, Upadhyay, "Constant Matters" (2023) for the root;
    Kalinin, Lampert, "Banded Square Root Matrix Factorization" (2024), Theorem 2, for
    several participations; Dvijotham et al. (2024) for buffers.

    Examples
    --------
    >>> for strategy in ("independent", "tree", "square_root"):
    ...     plan = matrix_mechanism(strategy, 1024, participations=1)
    ...     print(strategy, round(plan.sensitivity, 3), round(plan.largest_error, 2))
    independent 1.0 32.0
    tree 3.317 10.49
    square_root 1.809 3.27
    """
    if strategy not in _factors.STRATEGIES:
        known = ", ".join(_factors.STRATEGIES)
        raise ParameterError(f"strategy must be one of {known}, got {strategy!r}")
    n = _validate.integer("steps", steps, 1, _factors.MOST_STEPS)
    k, gap = _pattern(n, participations, separation)
    own = _factors.checked_bands(strategy, bands, n)
    if (buffers is None) == (strategy == "blt"):
        raise ParameterError(
            "buffers must be given with strategy 'blt', and left out with others"
        )
    if strategy == "tree":
        sensitivity, rows = _tree(n, k, gap)
    elif buffers is not None:
        count = _validate.integer("buffers", buffers, 1, 8)
        found = _factors.buffers_for(n, count, k, gap)
        column, answer = _factors.buffer_columns(found, n)
        sensitivity, rows = _toeplitz(column, k, gap)[0], np.cumsum(answer**2)
    else:
        sensitivity, rows = _toeplitz(_factors.column_of(own, n), k, gap)
    return MatrixPlan(
        strategy=strategy,
        steps=n,
        participations=k,
        separation=gap,
        sensitivity=sensitivity,
        largest_row=float(np.sqrt(rows.max())),
        mean_row=float(np.sqrt(rows.mean())),
    )


def optimized_bands(
    steps: int,
    *,
    bands: int,
    participations: int,
    separation: int | None = None,
    effort: int = 1,
) -> tuple[float, ...]:
    """Return coefficients for "banded" with the least largest error over the steps.

    The square root's coefficients are best if all of them are used; with few
    coefficients for many steps, other coefficients have a much smaller largest error.
    The search takes milliseconds for tens of bands and about a second for 2048.

    Parameters
    ----------
    steps : int
        Number of prefix sums, 1 ... 2**22.
    bands : int
        Number of coefficients, 1 ... the smaller of `steps` and 2048.
    participations : int
        Maximum number of steps that one record takes part in, >= 1.
    separation : int, optional
        Minimum distance in steps between two participations, >= 1; required if there
        are several. It matters if it is below `bands`.
    effort : int
        Approximate time of the search in seconds, >= 1. With hundreds of bands for
        2**18 steps, more time gives a slightly smaller error.

    Returns
    -------
    tuple of float
        Multiples of 2**-20 that start with 1, do not grow and are >= 0, to use as
        `bands` of `matrix_mechanism`, `fastdp.PrefixSums` and `fastdp.Counter`.

    Notes
    -----
    **Privacy.** The sensitivity is computed from the numbers that the search returns,
    so it does not depend on the search. They are a function of public parameters, and
    may differ in the last places between machines and versions of scipy: to rebuild a
    mechanism elsewhere, such as a counter in a ledger, store the numbers.

    References
    ----------
    Kalinin, Lampert, "Banded Square Root Matrix Factorization" (2024). McKenna,
    "Scaling up the banded matrix factorization mechanism for differentially private ML"
    (2024), for the optimum over a Toeplitz matrix's coefficients.

    Examples
    --------
    >>> for bands in (32, optimized_bands(1024, bands=32, participations=1)):
    ...     plan = matrix_mechanism("banded", 1024, bands=bands, participations=1)
    ...     print(round(plan.largest_error, 3))
    7.622
    6.547
    """
    n = _validate.integer("steps", steps, 1, _factors.MOST_STEPS)
    width = _validate.integer("bands", bands, 1, min(n, _factors.MOST_BANDS))
    pattern = _pattern(n, participations, separation)
    work = _validate.integer("effort", effort, 1)
    return _factors.best_bands(n, width, *pattern, work)


def _pattern(n: int, participations: int, separation: int | None) -> tuple[int, int]:
    """Return a record's number of participations in n steps, and their distance."""
    k = _validate.integer("participations", participations, 1)
    if k > 1 and separation is None:
        raise ParameterError("separation must be given if participations > 1")
    gap = n if separation is None else _validate.integer("separation", separation, 1)
    return min(k, -(-n // gap)), gap


def participation_sensitivity(
    matrix: npt.ArrayLike, *, participations: int, separation: int
) -> float:
    """Return an upper bound on the sensitivity of any C to a record's steps.

    The sensitivity is at most the root of the largest sum of |C^T C| over pairs of a
    record's steps. The largest sum is bounded in turn: first by the best partners of
    every step, then by the best steps. The bound is exact if columns at least
    `separation` apart are orthogonal (at most `separation` bands).

    Parameters
    ----------
    matrix : array_like of float, shape (rows, steps)
        C; column t is the change by a unit contribution in step t.
    participations : int
        Maximum number of steps that one record takes part in, >= 1.
    separation : int
        Minimum distance in steps between two participations, >= 1.

    Returns
    -------
    float
        Rounded up.

    Examples
    --------
    >>> round(
    ...     participation_sensitivity([[1, 0], [1, 1]], participations=1, separation=1)
    ...     ** 2,
    ...     6,
    ... )
    2.0
    """
    c = np.asarray(matrix)
    if c.dtype.kind not in "iuf" or c.ndim != 2 or c.size == 0:
        raise DTypeError("matrix must be real numbers in two dimensions")
    c = c.astype(np.float64)
    if not np.all(np.isfinite(c)):
        raise ParameterError("matrix must be finite")
    k = _validate.integer("participations", participations, 1)
    gap = _validate.integer("separation", separation, 1)
    gram = np.abs(c.T @ c)
    steps = np.arange(c.shape[1])
    partners = np.empty(len(steps))
    for t in steps:
        others = np.where(np.abs(steps - t) >= gap, gram[t], 0.0)
        partners[t] = gram[t, t] + _best_pattern(others, k - 1, gap)
    best = _best_pattern(partners, k, gap)
    size = float(np.abs(c).sum(axis=0).max())
    error = 1e-15 * c.shape[0] * k * k * size * size
    return math.sqrt(best + error) * (1 + _SLOP)


def _best_pattern(weights: Floats, count: int, gap: int) -> float:
    """Return the largest sum of at most `count` weights >= 0, `gap` steps apart."""
    n = len(weights)
    best = np.zeros(n + 1)  # of the first t steps, with one participation more
    for _ in range(min(count, -(-n // gap))):
        before = np.concatenate((np.zeros(gap), best))[: n + 1]
        taken = np.concatenate(([0.0], weights + before[1:]))
        best = np.maximum.accumulate(taken)
    return float(best[n])


def _toeplitz(column: Floats, count: int, gap: int) -> tuple[float, Floats]:
    """Return the sensitivity of a Toeplitz C and the squared row norms of A/C."""
    total = _factors.repeated(column, count, gap)
    sensitivity = math.sqrt(float(np.sum(total * total))) * (1 + _SLOP)
    return sensitivity, np.cumsum(_factors.quotient(column) ** 2)


def _tree(n: int, count: int, gap: int) -> tuple[float, Floats]:
    """Return a binary tree's sensitivity, and the nodes used for each prefix."""
    counts = np.zeros(1, dtype=np.int64)
    while len(counts) <= n:
        counts = np.concatenate((counts, counts + 1))
    used = counts[1 : n + 1].astype(np.float64)
    square = _factors.tree_square((n - 1).bit_length() + 1, count, gap)
    return math.sqrt(square) * (1 + _SLOP), used
