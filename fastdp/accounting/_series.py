"""Elementary functions without cancellation, for arrays of doubles.

The Renyi curves are differences that vanish to second order; each is written with these
functions, which are positive and accurate to a few units in the last place.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

#: exp does not overflow up to here.
LARGE = 700.0
#: Up to here exp(x) - 1 - x is a series.
NEAR = 0.5
_GAUSS_NODES = 8


@functools.cache
def bernoulli_coefficients() -> tuple[float, ...]:
    """Return B_2k/(2k)! for k = 1..20."""
    numbers = [Fraction(1)]
    for n in range(1, 41):
        terms = (math.comb(n + 1, j) * b for j, b in enumerate(numbers))
        numbers.append(-sum(terms, Fraction(0)) / (n + 1))
    return tuple(float(numbers[n] / math.factorial(n)) for n in range(2, 41, 2))


#: x coth(x/2) - 2 in powers of x^2; seven terms suffice up to 1/2.
COTH = tuple(2 * c for c in bernoulli_coefficients()[:7])


def exp_remainder(x: Floats) -> Floats:
    """Return exp(x) - 1 - x >= 0 for x <= 700; relative error below 3e-15."""
    near = np.clip(x, -NEAR, NEAR)
    far = near != x
    series = near_exp_remainder(near)
    if far.any():
        series[far] = np.expm1(np.minimum(x[far], LARGE)) - x[far]
    return series


def near_exp_remainder(x: Floats) -> Floats:
    """Return exp(x) - 1 - x for |x| <= 1/2.

    It is x (x - s)/(2 + s - x) with s = x coth(x/2) - 2 = x^2/6 - x^4/360 ...
    """
    square = x * x
    s = square * COTH[-1]
    for coefficient in COTH[-2::-1]:
        s += coefficient
        s *= square
    rest = np.subtract(x, s, out=s)
    series = x * rest
    series /= np.subtract(2, rest, out=rest)
    return series


def scalar_exp_remainder(x: float) -> float:
    """Return exp(x) - 1 - x as `exp_remainder` does, for one float."""
    if not -NEAR < x < NEAR:
        return math.expm1(x) - x
    square, s = x * x, 0.0
    for coefficient in reversed(COTH):
        s = (s + coefficient) * square
    rest = x - s
    return x * rest / (2 - rest)


def log_expm1(x: Floats) -> Floats:
    """Return ln(exp(x) - 1) for x >= 0, -inf at 0."""
    with np.errstate(divide="ignore"):
        small = np.log(np.expm1(np.minimum(x, 1.0)))
        large = x + np.log1p(-np.exp(-np.maximum(x, 1.0)))
    return np.where(x < 1, small, large)


def softplus(x: Floats) -> Floats:
    """Return ln(1 + exp(x))."""
    small = np.log1p(np.exp(np.minimum(x, 0.0)))
    return np.where(x < 0, small, np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def sinh_ratio_step(low: Floats, gap: Floats) -> Floats:
    """Return psi(low + gap) - psi(low), psi(x) = ln(sinh(x/2)/(x/2)).

    For low, gap >= 0; relative error below 2e-14. psi increases and is convex.
    """
    low, gap = np.broadcast_arrays(
        np.asarray(low, dtype=np.float64), np.asarray(gap, dtype=np.float64)
    )
    if np.all(low >= 40):
        return _far_step(low, gap)
    high = low + gap
    if low.min() >= 4 and gap.min() >= 1e-3:  # nothing cancels here either
        rest = np.log1p(-np.exp(-high)) - np.log1p(-np.exp(-low))
        return np.asarray(_far_step(low, gap) + rest)
    tiny = np.maximum(low, 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        shrink = np.expm1(-high) / np.expm1(-tiny)
        wide = gap / 2 + np.log(shrink * (tiny / np.maximum(high, 1e-300)))
    result = np.where(low >= 40, _far_step(tiny, gap), wide)
    close = (gap <= 1) & (low < 40)
    if np.any(close):
        result[close] = _integrated_step(low[close], gap[close])
    return result


def _far_step(low: Floats, gap: Floats) -> Floats:
    # ln(1 - exp(-x)) is left out: it adds less than exp(-40) of the result.
    return gap / 2 - np.log1p(gap / low)


def _integrated_step(low: Floats, gap: Floats) -> Floats:
    """Integrate psi', which has its nearest pole at 2 pi i."""
    nodes, weights = gauss_legendre(_GAUSS_NODES)
    return np.asarray(gap * (weights @ sinh_ratio_slope(low + gap * nodes[:, None])))


def sinh_ratio_slope(u: Floats) -> Floats:
    """Return psi'(u) = coth(u/2)/2 - 1/u for u >= 0; relative error below 3e-15."""
    near = np.minimum(u, 2.0)
    square = near * near
    series = np.zeros_like(near)
    for coefficient in reversed(bernoulli_coefficients()):
        series *= square
        series += coefficient
    far = np.maximum(u, 2.0)
    return np.where(u < 2, series * near, 0.5 / np.tanh(far / 2) - 1 / far)


@functools.cache
def gauss_legendre(count: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


def sinhc_step(low: Floats, gap: float) -> Floats:
    """Return exp(-high) (s(high) - s(low)), s(z) = sinh(z)/z, high = low + gap.

    For low >= 0 and gap > 0; relative error below 1e-14.
    """
    high = low + gap
    if gap >= 1:
        first = -np.expm1(-2 * high) / (2 * high)
        safe = np.maximum(low, 1e-300)
        second = -np.expm1(-2 * safe) / (2 * safe)
        return np.asarray(first - np.exp(-gap) * second)
    nodes, weights = gauss_legendre(_GAUSS_NODES)
    z = low + gap * nodes[:, None]
    near = np.minimum(z, 1.0)
    square = near * near
    series = np.zeros_like(near)
    for k in range(10, 0, -1):  # (2k)/(2k+1)! z^(2k-1)
        series *= square
        series += 2 * k / math.factorial(2 * k + 1)
    far = np.maximum(z, 1.0)
    decay = np.exp(-2 * far)
    slope = (far * (1 + decay) - (1 - decay)) / (2 * far * far)
    # exp(z - high), from the distance and not from the two places
    scaled = np.where(z < 1, series * near * np.exp(-z), slope)
    scaled *= np.exp(-gap * (1 - nodes[:, None]))
    return np.asarray(gap * (weights @ scaled))
