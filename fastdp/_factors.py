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
    total, block = np.zeros_like(column), column.copy()
    done, size = 0, 1
    while True:  # `block` is the sum of `size` columns
        if count & size:
            total += _later(block, done * gap)
            done += size
        if 2 * size > count:
            return total
        block += _later(block, size * gap)
        size *= 2


def _later(column: npt.NDArray[N], steps: int) -> npt.NDArray[N]:
    """Return a column shifted down by some steps."""
    moved = np.zeros_like(column)
    moved[steps:] = column[: max(len(column) - steps, 0)]
    return moved


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

    A node of 2^l steps can contain a limited number of a record's participations; for
    each level the worst case spreads the participations as unevenly as this limit
    allows.
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
        `bands` has a wrong type or is out of its domain, or the strategy has no bands.
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
    own = [_validate.double("bands", c) for c in bands]
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
def best_bands(
    n: int, width: int, count: int, gap: int, effort: int
) -> tuple[float, ...]:
    """Return `width` coefficients that minimize the largest error over n steps.

    The largest error is that of the last sum: |C u| |1/((1 - x) c(x))|, where u marks
    the `count` steps 0, gap, 2 gap .. of a record. The gradient of its logarithm is
    known. After `most` steps the coefficients of the quotient hardly change, so the
    last of these coefficients replace all later ones. The parameters are the decreases
    from each coefficient to the next. `effort` limits both `most` and the number of
    evaluations.
    """
    from scipy.optimize import minimize

    if width == 1:
        return (1.0,)
    most = min(n, max(64 * width, 2**12), max(2**15 * effort, 2 * width))
    times = np.ones(most)
    times[most - width :] += (n - most) / width
    # Long enough that no product of two series wraps around.
    size = 2 * most
    if width <= gap:  # no two columns of a record overlap
        count, gap = 1, width
    rows = -(-width // gap)
    reach = min(n, (count - 1) * gap + width)

    def error(falls: Floats) -> tuple[float, Floats]:
        c = np.cumsum(falls[::-1])[::-1]
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
        # Sums over the starts are differences of running sums, in rows of `gap`.
        ends = np.zeros((rows, gap))
        ends.reshape(-1)[:width] = c
        ends = np.cumsum(ends, axis=0)
        total = np.repeat(ends[-1:], rows + count - 1, axis=0)
        total[:rows] = ends
        total[count:] -= ends[:-1]
        total.reshape(-1)[reach:] = 0
        length = float(np.square(total).sum())
        sums = np.concatenate((np.zeros((1, gap)), np.cumsum(total, axis=0)))
        summed = (sums[count : count + rows] - sums[:rows]).reshape(-1)[:width]
        slope = 2 * summed / length - 2 * moved / square
        return math.log(length) + math.log(square), np.cumsum(slope)

    first = root(width)
    found = minimize(
        error,
        first - np.append(first[1:], 0),
        jac=True,
        method="L-BFGS-B",
        bounds=[(1e-9, None)] + [(0, None)] * (width - 1),
        options={
            "maxiter": 1000,
            "maxfun": max(2, effort * 2**21 // (most + reach // 4)),
            "maxcor": 30,
        },
    )
    best = np.cumsum(found.x[::-1])[::-1]
    return tuple((np.rint(best / best[0] * 2**BITS) / 2**BITS).tolist())


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
def buffers_for(n: int, count: int, times: int, gap: int) -> Buffers:
    """Return `count` buffers with the least largest error over n steps.

    A record takes part `times` times, gap steps apart. c_j is the integral of a^(j - 1)
    over a measure on (0, 1). The search starts from the trapezoidal rule in log(1/a -
    1) for the square root, minimizes, and rounds to integers.
    """
    from scipy.optimize import minimize

    def error(parameters: Floats) -> float:
        w, a = _unpacked(parameters)
        return math.log(_patterned(w, a, n, times, gap) * _last_square(w, a, n))

    ends = np.linspace(-math.log(2.0 * n), 1.5, count)
    width = ends[1] - ends[0] if count > 1 else math.log(2.0 * n)
    a = 1 / (1 + np.exp(ends))
    w = width / math.pi * a**1.5 * np.sqrt(1 - a)
    start = np.concatenate((np.log(w), ends))
    with np.errstate(all="ignore"):  # an eigenvalue may round to 1 on the way
        found = minimize(error, start, method="L-BFGS-B", options={"maxiter": 100}).x
    w, a = _unpacked(found if np.isfinite(found).all() else start)
    one = 2**BITS
    rates = np.clip(np.floor(a * one), 1, one - 1).astype(np.int64)
    weights = np.clip(np.floor(w * one), 1, one).astype(np.int64)
    # The coefficients must not grow: keep c_1 <= c_0 = 1.
    weights[np.argmax(weights)] -= max(0, int(weights.sum()) - one)
    return Buffers(tuple(map(int, weights)), tuple(map(int, rates)))


def _geometric(x: Floats, m: Floats | float) -> Floats:
    """Return 1 + x + .. + x^(m - 1), for x < 1."""
    near = np.log(np.maximum(x, 0.5)) * m
    return np.where(x > 0.5, -np.expm1(near), 1 - np.sign(x) ** m * np.abs(x) ** m) / (
        1 - x
    )


def _patterned(w: Floats, a: Floats, n: int, times: int, gap: int) -> float:
    """Return the squared sensitivity to the first `times` steps, gap apart."""
    j, share = _counted(times)
    one, two = np.triu_indices(len(w))  # both orders of a pair
    both, pair = np.where(one == two, 1, 2) * w[one] * w[two], a[one] * a[two]
    # Columns j and j - r overlap from step j gap on; sum over r = 1 .. j.
    power = np.log(a) * gap
    later = np.exp(power) * np.expm1(np.outer(j, power)) / np.expm1(power)
    first = 1 + 2 * (later / a) @ w
    rest = -np.expm1(np.outer(n - 1 - gap * j, np.log(pair))) * (both / (1 - pair))
    return float(share @ (first + (rest * (1 + later[:, one] + later[:, two])).sum(1)))


@functools.cache
def _rule() -> tuple[Floats, Floats]:
    nodes, share = np.polynomial.legendre.leggauss(64)
    return nodes, share


def _counted(times: int) -> tuple[Floats, Floats]:
    """Return numbers and weights for sums over 0 .. times - 1 of smooth functions.

    These are all numbers, or the first and the last 64 and a Gauss rule for the numbers
    between.
    """
    if times <= 256:
        return np.arange(float(times)), np.ones(times)
    nodes, share = _rule()
    half = (times - 128) / 2
    ends = np.arange(64.0)
    return (
        np.concatenate((ends, 63.5 + half * (1 + nodes), times - 64 + ends)),
        np.concatenate((np.ones(64), half * share, np.ones(64))),
    )


def _last_square(w: Floats, a: Floats, n: int) -> float:
    """Return the squared norm of the last row of A/C."""
    rates, inner = _inverted(w, a)
    end, part = 1 / (1 + float((w / (1 - a)).sum())), inner / (1 - rates)
    cross = np.outer(part, part) * _geometric(np.outer(rates, rates), float(n))
    return float(n * end * end + 2 * end * part @ _geometric(rates, n) + cross.sum())


def buffer_columns(b: Buffers, n: int) -> tuple[Floats, Floats]:
    """Return the first columns of C and of A/C."""
    one = 2**BITS
    w, a = (np.array(part, np.float64) / one for part in (b.weights, b.rates))
    rates, inner = _inverted(w, a)
    with np.errstate(under="ignore"):
        column, answer = _powers(w, a, n), _powers(inner / (1 - rates), rates, n)
    column[1:] = column[:-1]  # a^(j - 1)
    column[0] = 1
    # 1/((1 - x) c(x)) has the coefficients 1 - sum w' (1 - a'^j)/(1 - a').
    return column, answer + (1 - float((inner / (1 - rates)).sum()))


def _powers(weights: Floats, rates: Floats, n: int) -> Floats:
    """Return sums of weights * rates**j for j < n, by products of short tables."""
    low = np.arange(min(n, 2**11))
    high = len(low) * np.arange(-(-n // len(low)))
    found = np.zeros((len(high), len(low)))
    for w, a in zip(weights, rates, strict=True):
        found += w * np.multiply.outer(a**high, a**low)
    return found.reshape(-1)[:n]


def _unpacked(parameters: Floats) -> tuple[Floats, Floats]:
    w, v = np.split(parameters, 2)
    a = 1 / (1 + np.exp(np.clip(v, -40, 40)))
    w = np.exp(np.clip(w, -60, 0))
    return w / max(1.0, float(w.sum())), a


def _inverted(w: Floats, a: Floats) -> tuple[Floats, Floats]:
    """Return a' and w' with 1/c = 1 - sum w' x/(1 - a' x).

    a' are the eigenvalues of diag(a) - w 1^T, made symmetric, and w' the squares of
    their vectors' products with sqrt(w).
    """
    side = np.sqrt(w)
    rates, vectors = np.linalg.eigh(np.diag(a) - np.outer(side, side))
    return rates, (side @ vectors) ** 2
