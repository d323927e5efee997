"""Factorizations A = B C of the lower triangle of ones: columns, norms, patterns.

Prefix sums A x are released as B (C x + noise). This module computes the numbers of
the factorizations; accounting and mechanisms both use them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp.exceptions import ParameterError

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

STRATEGIES = ("independent", "tree", "square_root", "banded", "blt")

N = TypeVar("N", np.float64, np.int64)

#: Maximum number of steps of a factorization.
MOST_STEPS = 2**22

#: Maximum number of coefficients that are optimized, or given one by one.
MOST_BANDS = 2**11

#: `bands` of "banded": how many coefficients of the square root, or own coefficients.
Bands: TypeAlias = int | Sequence[float] | None


def root(n: int) -> Floats:
    """Return C(2 j, j)/4^j for j < n: the square root of the lower triangle of ones."""
    j = np.arange(1, n)
    return np.concatenate(([1.0], np.cumprod((2 * j - 1) / (2 * j))))


def repeated(column: npt.NDArray[N], count: int, gap: int) -> npt.NDArray[N]:
    """Return the sum of a Toeplitz matrix's columns at 0, gap, 2 gap ...

    If the coefficients are >= 0 and do not grow, the sensitivity is largest when
    participations are as early and as close as allowed (Kalinin, Lampert 2024,
    Theorem 2).
    """
    n = len(column)
    total = np.zeros_like(column)
    for i in range(count):
        total[i * gap :] += column[: n - i * gap]
    return total


def quotient(column: Floats) -> Floats:
    """Return the first column of A/C: 1/((1 - x) c(x)) as a power series."""
    n = len(column)
    if np.abs(column - root(n)).max() <= 2.0**-BITS:  # C^2 = A, so A/C = C
        return column
    width = int(np.flatnonzero(column)[-1]) + 1
    if width > 256:
        return np.cumsum(_inverse(column[:width], n))
    from scipy.signal import lfilter

    return np.asarray(lfilter([1.0], column[:width], np.ones(n)), dtype=np.float64)


def tree_square(levels: int, count: int, gap: int) -> int:
    """Return the squared sensitivity of the nodes of a binary tree's lowest levels.

    A node of 2^l steps contains at most as many participations of a record as fit in
    it; for each level the worst case spreads them as unevenly as that allows.
    """
    square = 0
    for level in range(levels):
        most = min(count, -(-(2**level) // gap))
        whole, rest = divmod(count, most)
        square += whole * most * most + rest * rest
    return square


# ---- bands -------------------------------------------------------------------------


def checked_bands(strategy: str, bands: Any, steps: int) -> int | tuple[float, ...]:
    """Return the number of coefficients of the square root, or the given coefficients.

    Given coefficients are rounded to multiples of 2**-BITS. Rounding is monotone, so
    they still do not grow, as `repeated` requires.

    Raises
    ------
    DTypeError, ParameterError
        `bands` has a wrong type, is out of its domain, or the strategy takes none.
    """
    if (bands is None) == (strategy == "banded"):
        raise ParameterError(
            "bands must be given with strategy 'banded', and left out with others"
        )
    if bands is None:
        return 1 if strategy == "independent" else steps
    if not isinstance(bands, (tuple, list, np.ndarray)) or np.ndim(bands) == 0:
        return _validate.integer("bands", bands, 1, steps)
    if not 1 <= len(bands) <= min(steps, MOST_BANDS):
        raise ParameterError(
            f"bands must be at most {min(steps, MOST_BANDS)} coefficients, and one at "
            f"least, got {len(bands)}"
        )
    own = [float(_validate.exact("bands", c)) for c in bands]
    if own[0] != 1 or own != sorted(own, reverse=True) or own[-1] < 0:
        raise ParameterError(
            "bands must start with 1, must not increase, and must be >= 0"
        )
    return tuple((np.rint(np.array(own) * 2**BITS) / 2**BITS).tolist())


def column_of(bands: int | tuple[float, ...], n: int) -> Floats:
    """Return the first column of the Toeplitz matrix with these checked bands."""
    if isinstance(bands, int):
        column = root(n)
        column[bands:] = 0
        return column
    return np.concatenate((bands, np.zeros(n - len(bands))))


@functools.lru_cache(maxsize=64)
def best_bands(n: int, width: int) -> tuple[float, ...]:
    """Return `width` coefficients that minimize the largest error over n steps.

    The largest error is that of the last sum: |c| |1/((1 - x) c(x))|. The gradient of
    its logarithm is known. After `most` steps the coefficients of the quotient hardly
    change, so the last ones before stand for all later ones.
    """
    from scipy.optimize import minimize

    most = min(n, max(64 * width, 2**12), max(2**17, 2 * width))
    times = np.ones(most)
    times[most - width :] += (n - most) / width
    # Long enough that no product of two series wraps around.
    size = 2 * most

    def error(parameters: Floats) -> tuple[float, Floats]:
        c = np.concatenate(([1.0], parameters))
        inverse = _inverse(c, most)
        answer = np.cumsum(inverse)
        both = np.fft.irfft(
            np.fft.rfft(answer, size) * np.fft.rfft(inverse, size), size
        )[:most]
        square = float(times @ answer**2)
        # The derivative of the answer by coefficient i is -x^i times `both`.
        moved = np.fft.irfft(
            np.fft.rfft(times * answer, size) * np.fft.rfft(both, size).conj(), size
        )[:width]
        length = float(c @ c)
        slope = 2 * c / length - 2 * moved / square
        return math.log(length) + math.log(square), slope[1:]

    start = root(width)[1:]
    if width == 1:
        return (1.0,)
    found = minimize(
        error, start, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * (width - 1)
    )
    best = np.minimum.accumulate(np.concatenate(([1.0], found.x)))
    return tuple((np.rint(best * 2**BITS) / 2**BITS).tolist())


def _inverse(c: Floats, n: int) -> Floats:
    """Return the first n coefficients of 1/c(x); each round doubles their number."""
    found = np.array([1 / c[0]])
    while len(found) < n:
        m = 2 * len(found)
        seen = np.fft.rfft(found, 2 * m)
        found = np.fft.irfft(seen * (2 - np.fft.rfft(c[:m], 2 * m) * seen), 2 * m)[:m]
    return found[:n]


# ---- buffers -----------------------------------------------------------------------


@dataclass(frozen=True)
class Buffers:
    """Coefficients c_0 = 1, c_j = sum w a^(j - 1), as integers over 2**BITS."""

    weights: tuple[int, ...]
    rates: tuple[int, ...]


#: Weights and rates of buffers, and coefficients of columns, are multiples of 2**-BITS.
BITS = 20


@functools.lru_cache(maxsize=64)
def buffers_for(n: int, count: int) -> Buffers:
    """Return `count` buffers whose column approximates the square root over n steps.

    c_j is the integral of a^(j - 1) over a measure on (0, 1). Start from the
    trapezoidal rule in log(1/a - 1), minimize the largest error, round to integers.
    """
    from scipy.optimize import minimize

    times, spans = _places(n)

    def error(parameters: Floats) -> float:
        w, a = _unpacked(parameters)
        column, answer = _columns(w, a, times)
        return float(
            np.log(1 + np.sum(column**2 * spans))
            + np.log(1 + np.sum(answer**2 * spans))
        )

    ends = np.linspace(-math.log(2.0 * n), 1.5, count)
    width = ends[1] - ends[0] if count > 1 else math.log(2.0 * n)
    a = 1 / (1 + np.exp(ends))
    w = width / math.pi * a**1.5 * np.sqrt(1 - a)
    start = np.concatenate((np.log(w), ends))
    found = minimize(error, start, method="L-BFGS-B", options={"maxiter": 60})
    best = found.x if found.fun < error(start) else start
    w, a = _unpacked(best)
    one = 2**BITS
    rates = np.clip(np.floor(a * one), 1, one - 1).astype(np.int64)
    weights = np.clip(np.floor(w * one), 1, one).astype(np.int64)
    if weights.sum() > one:  # the coefficients must not grow: keep c_1 <= c_0 = 1
        weights = np.maximum(weights * one // weights.sum(), 1)
    return Buffers(tuple(map(int, weights)), tuple(map(int, rates)))


def buffer_columns(b: Buffers, n: int) -> tuple[Floats, Floats]:
    """Return the first columns of C and of A/C."""
    one = 2**BITS
    w, a = (np.array(part, np.float64) / one for part in (b.weights, b.rates))
    column, answer = _columns(w, a, np.arange(1.0, n))
    return np.concatenate(([1.0], column)), np.concatenate(([1.0], answer))


def _unpacked(parameters: Floats) -> tuple[Floats, Floats]:
    w, v = np.split(parameters, 2)
    a = 1 / (1 + np.exp(np.clip(v, -40, 40)))
    w = np.exp(np.clip(w, -60, 0))
    return w / max(1.0, float(w.sum())), a


def _columns(w: Floats, a: Floats, j: Floats) -> tuple[Floats, Floats]:
    """Return c_j, and the coefficients of 1/((1 - x) c(x)), at j >= 1.

    1/c = 1 - sum w' x/(1 - a' x), where a' are the eigenvalues of diag(a) - w 1^T, made
    symmetric, and w' the squares of their vectors' products with sqrt(w).
    """
    side = np.sqrt(w)
    rates, vectors = np.linalg.eigh(np.diag(a) - np.outer(side, side))
    inner = (side @ vectors) ** 2
    with np.errstate(under="ignore"):
        column = (w[:, None] * a[:, None] ** (j - 1)).sum(axis=0)
        sign = np.where((rates[:, None] < 0) & (j % 2 == 1), -1.0, 1.0)
        power = sign * np.abs(rates[:, None]) ** j
        answer = 1 - (inner[:, None] * (1 - power) / (1 - rates[:, None])).sum(axis=0)
    return column, answer


def _places(n: int) -> tuple[Floats, Floats]:
    """Return a sample of the steps 1 ... n - 1, and how many steps each represents."""
    j = np.unique(np.round(np.geomspace(1, max(n - 1, 1), 400)))
    edges = np.concatenate(([0.5], (j[1:] + j[:-1]) / 2, [max(n - 1, 1) + 0.5]))
    return j, np.diff(edges)
