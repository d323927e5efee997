"""Public statements about a privacy bound that depends on teachers' votes.

With h(x) = erfc(x/(2 sigma))/2 and m labels, the votes of a query enter by one number:
the gap g with (m - 1) h(g) = sum of h(n_max - n_i), a bound on the probability that
another label wins. One changed vote changes g by at most 2. Take a lattice of gaps with
a step that divides 2. The least bound up to each gap is then a nonincreasing table, and
local sensitivities at any distance are read from the table
(docs/proofs/amplification.md, section 3).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp._validate import Real, float_down, float_up
from fastdp.accounting.calculators._pate import gaussian_bound, votes_of
from fastdp.exceptions import ParameterError

__all__ = [
    "DataDependentPATE",
    "data_dependent_pate_smooth_sensitivity",
    "smooth_sensitivity_divergence",
]

_Floats: TypeAlias = npt.NDArray[np.float64]

#: Steps of the lattice of gaps that make 2, and one step: a little more, so that the
#: rounding of a gap does not matter.
_STEPS = 16
_STEP = (2 + 1e-6) / _STEPS
#: Relative rounding error of sums, which sensitivities are raised by.
_SLOP = 1e-9
#: Where a table ends: relative to its first value, and in places.
_NOTHING, _MOST_PLACES = 1e-15, 1 << 18


@dataclass(frozen=True, kw_only=True)
class DataDependentPATE:
    """A divergence that depends on votes, and its sensitivity; both are PRIVATE.

    Parameters
    ----------
    divergence : float
        Sum over the queries of a bound on the Renyi divergence, in both directions,
        between their votes and the votes after one teacher changes its vote.
    smooth_sensitivity : float
        A bound, smooth in the votes, on the change of `divergence` by one teacher.
    smoothness : float
        Between neighbors, `smooth_sensitivity` differs by at most a factor of
        e^smoothness.
    """

    divergence: float
    smooth_sensitivity: float
    smoothness: float


def data_dependent_pate_smooth_sensitivity(
    votes: npt.ArrayLike, *, sigma: Real, order: Real, smoothness: Real
) -> DataDependentPATE:
    """Return a divergence of noisy majorities and its smooth sensitivity: PRIVATE BOTH.

    Neither may be released. The divergence may be released with Gaussian noise scaled
    by the smooth sensitivity: use `fastdp.mechanisms.pate.PATEDivergence`.

    Parameters
    ----------
    votes : array_like of int, shape (queries, labels)
        Number of teachers for each label of each query, two labels or more; one row
        for a single query.
    sigma : int, float, Fraction or Decimal
        Standard deviation of the Gaussian noise on each count, > 0.
    order : int, float, Fraction or Decimal
        Order of the divergence, > 1.
    smoothness : int, float, Fraction or Decimal
        beta > 0.

    Returns
    -------
    DataDependentPATE

    Privacy
    -------
    None: the numbers themselves are not private. Neighbors differ in one teacher, whose
    votes may differ in every query.

    Notes
    -----
    The bound of Papernot et al. (2018), Theorem 6, holds for every upper bound on the
    probability that another label wins, so the least bound over larger probabilities is
    valid, too. The table holds these least bounds; none exceeds order/sigma^2.

    References
    ----------
    Papernot et al., "Scalable Private Learning with PATE" (2018), appendix B; Nissim,
    Raskhodnikova, Smith, "Smooth Sensitivity and Sampling" (2007).

    Examples
    --------
    >>> votes = [[200, 20, 30], [90, 80, 80]]
    >>> found = data_dependent_pate_smooth_sensitivity(
    ...     votes, sigma=40, order=8, smoothness=0.05
    ... )
    >>> found.divergence < 2 * 8 / 40**2, found.smooth_sensitivity < 8 / 40**2
    (True, True)
    """
    counts = votes_of(votes, 2)
    width = float_down(_validate.positive("sigma", sigma))
    at = _validate.exact("order", order)
    if at <= 1:
        raise ParameterError(f"order must be > 1, got {_validate.shown(order)}")
    beta = float_down(_validate.positive("smoothness", smoothness))
    table = _table(counts.shape[1], width, float(at))
    places = np.minimum(_places(counts, width), table.size - 1)
    change = _changes(table)
    distinct, how_often = np.unique(places, return_counts=True)
    largest = float(change.max()) * places.size
    best, distance = 0.0, 0
    while math.exp(-beta * distance) * largest > best:  # else it grows no more
        local = float(_around(change, distance * _STEPS)[distinct] @ how_often)
        best = max(best, math.exp(-beta * distance) * local)
        distance += 1
    value = math.fsum(table[places].tolist())
    return DataDependentPATE(
        divergence=value, smooth_sensitivity=best * (1 + _SLOP), smoothness=beta
    )


def smooth_sensitivity_divergence(
    *, order: Real, sigma: Real, smoothness: Real
) -> float:
    """Return the Renyi divergence of Gaussian noise scaled by a smooth sensitivity.

    The release is f + sigma S Z with normal Z, where S is at least the local
    sensitivity of f and differs by at most a factor e^smoothness between neighbors.

    Parameters
    ----------
    order : int, float, Fraction or Decimal
        > 1.
    sigma : int, float, Fraction or Decimal
        > 0.
    smoothness : int, float, Fraction or Decimal
        beta > 0; order (1 - e^(-2 beta)) must be < 1.

    Returns
    -------
    float
        Rounded up; the largest value over all ratios of the two scales.

    Raises
    ------
    ParameterError
        `smoothness` is too large for the order.

    References
    ----------
    Papernot et al. (2018), appendix B, bounds this from above more simply.

    Examples
    --------
    >>> round(smooth_sensitivity_divergence(order=8, sigma=20, smoothness=0.001), 6)
    0.01015
    """
    at = float_up(_validate.exact("order", order))
    if at <= 1:
        raise ParameterError(f"order must be > 1, got {_validate.shown(order)}")
    width = float_down(_validate.positive("sigma", sigma))
    beta = float_up(_validate.positive("smoothness", smoothness)) + 2 * _SLOP
    narrow = 1 + at * math.expm1(-2 * beta)  # the ratio's variance, mixed
    if narrow <= 1e-6:
        raise ParameterError(
            "smoothness must be < -ln(1 - 1/order)/2 = "
            f"{-math.log1p(-1 / at) / 2:.6g}, got {_validate.shown(smoothness)}"
        )

    def scales(log_ratio: float) -> float:
        # of two normal laws with one mean; ln(ratio) of their variances
        mixed = math.log1p(at * math.expm1(log_ratio))
        return log_ratio / 2 + (log_ratio - mixed) / (2 * (at - 1))

    shift = at / (2 * width * width)
    smaller = scales(-2 * beta) + shift * math.exp(-2 * beta) / narrow
    larger = scales(2 * beta) + shift
    error = 1e-13 * (1 + 1 / (at - 1)) * (1 + beta) / narrow
    return max(smaller, larger) * (1 + 1e-12) + error


def _places(counts: npt.NDArray[np.int64], sigma: float) -> npt.NDArray[np.int64]:
    """Return the lattice place at or below each query's gap."""
    from scipy.special import log_ndtr, ndtri_exp

    top = counts.max(axis=1, keepdims=True)
    gaps = np.sort(top - counts, axis=1)[:, 1:].astype(np.float64)
    logs = np.logaddexp.reduce(log_ndtr(-gaps / (sigma * math.sqrt(2))), axis=1)
    logs = np.minimum(logs - math.log(gaps.shape[1]), math.log(0.5))
    gap = -ndtri_exp(logs) * (sigma * math.sqrt(2))
    # a gap is between the least and the largest of its query's
    gap = np.clip(gap, gaps[:, 0], gaps[:, -1])
    return np.asarray(np.floor(gap / _STEP), dtype=np.int64)


@functools.lru_cache(maxsize=16)
def _table(labels: int, sigma: float, order: float) -> _Floats:
    """Return nonincreasing bounds for both directions at the places of the lattice.

    The table ends where the bounds are negligible; beyond its end the last value is
    used.
    """
    from scipy.special import log_ndtr

    table = np.full(1, order / (sigma * sigma))
    while table[-1] > _NOTHING * table[0] and table.size < _MOST_PLACES:
        start = 0 if table.size == 1 else table.size
        gaps = np.arange(start, max(2 * table.size, 64)) * _STEP - 1e-6
        log_q = log_ndtr(-np.maximum(gaps, 0.0) / (sigma * math.sqrt(2)))
        more = [
            gaussian_bound(q + math.log(labels - 1), sigma, order)
            for q in log_q.tolist()
        ]
        table = np.append(table[:start], np.array(more) * (1 + 1e-12))
    # The bound is of the divergence from the votes to a neighbor's. A neighbor's gap
    # is at most 2 smaller: the bound there is one of the other direction as well.
    return np.append(np.full(_STEPS, table[0]), np.minimum.accumulate(table))


def _changes(table: _Floats) -> _Floats:
    """Return the largest change of the table within 2 of each place."""
    first, last = np.full(_STEPS, table[0]), np.full(_STEPS, table[-1])
    before = np.concatenate([first, table[:-_STEPS]])
    after = np.concatenate([table[_STEPS:], last])
    return np.asarray(np.maximum(before - table, table - after))


def _around(values: _Floats, reach: int) -> _Floats:
    """Return the largest value within `reach` places of each place."""
    if reach == 0:
        return values
    from scipy.ndimage import maximum_filter1d

    return np.asarray(maximum_filter1d(values, 2 * reach + 1, mode="nearest"))
