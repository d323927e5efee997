"""Decoding of noisy counts into candidates by LASSO and then least squares.

This is post-processing of public counts, in floats. A candidate is a list of the cells
to which it adds its count, times the cell's weight.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Maximum number of sweeps of coordinate descent, and the relative change that ends it.
_SWEEPS = 100
_SETTLED = 1e-4

#: Pass at most this many candidates to least squares, the largest by LASSO.
_MOST = 1000


def decoded(
    places: list[_Array], counts: _Array, errors: _Array, weights: _Array, level: float
) -> tuple[_Array, _Array, _Array]:
    """Return candidates whose counts are significant, the counts and standard errors.

    Parameters
    ----------
    places : list of ndarray
        Cells of each candidate.
    counts, errors, weights : ndarray of float64, shape (cells,)
        Noisy counts, their standard errors, and the share of a candidate's count that
        each of its cells gets.
    level : float
        Probability that any candidate with a true count of 0 is returned, split evenly
        among the candidates (Bonferroni).
    """
    columns = [weights[place] / errors[place] for place in places]
    target = counts / errors
    shares = _lasso(places, columns, target)
    chosen = np.flatnonzero(shares > 0)
    chosen = chosen[np.argsort(-shares[chosen], kind="stable")[:_MOST]]
    nothing = np.zeros(0)
    if not chosen.size:
        return chosen, nothing, nothing
    from scipy.optimize import nnls

    matrix = np.zeros((len(target), len(chosen)))
    for k, candidate in enumerate(chosen):
        matrix[places[candidate], k] = columns[candidate]
    positive = nnls(matrix, target)[0] > 0
    chosen, matrix = chosen[positive], matrix[:, positive]
    if not chosen.size:
        return chosen, nothing, nothing
    inverse = np.linalg.pinv(matrix.T @ matrix)
    found = inverse @ (matrix.T @ target)
    spread = np.sqrt(np.diag(inverse))
    quantile = NormalDist().inv_cdf(1 - level / len(places))
    sure = np.flatnonzero(found > quantile * spread)
    sure = sure[np.argsort(-found[sure], kind="stable")]
    return chosen[sure], found[sure], spread[sure]


def _lasso(places: list[_Array], columns: list[_Array], target: _Array) -> _Array:
    """Return non-negative coefficients; small ones are shrunk to 0.

    It uses coordinate descent (Friedman, Hastie, Tibshirani 2010). The penalty of a
    candidate is one standard deviation of its product with the noise: one in six of the
    candidates with a true count of 0 remains, and candidates with large counts remain.
    """
    residual = target.copy()
    found = np.zeros(len(places))
    squares = np.array([float(column @ column) for column in columns])
    for _ in range(_SWEEPS):
        moved = 0.0
        for k, (place, column) in enumerate(zip(places, columns, strict=True)):
            if squares[k] == 0:
                continue
            pull = float(column @ residual[place]) + squares[k] * found[k]
            new = max(0.0, (pull - squares[k] ** 0.5) / squares[k])
            if new != found[k]:
                residual[place] -= (new - found[k]) * column
                moved = max(moved, abs(new - found[k]))
                found[k] = new
        if moved <= _SETTLED * max(1.0, float(found.max(initial=0))):
            break
    return found
