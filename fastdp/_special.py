"""Numerics behind the discrete laws: pairs of doubles, Mills ratio, lattice sums.

A pair is an unevaluated sum of two doubles. It holds an exact integer, or a product
with a relative error of about 2^-100, so that exp of a few hundred loses no digits.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp.exceptions import DTypeError

Floats: TypeAlias = npt.NDArray[np.float64]
Pair: TypeAlias = "tuple[Floats, Floats]"

LOG_SQRT_2PI = 0.9189385332046727417803297
SQRT_HALF_PI = 1.2533141373155002512078826
#: Compute the Mills ratio by a continued fraction from here on; 80 terms converge.
FRACTION_FROM = 3.0
FRACTION_TERMS = 80
_SPLIT = 134217729.0  # 2^27 + 1
_HUGE = 2.0**400  # do not split larger products: only their size matters


def mills(x: float) -> float:
    """Return the Mills ratio Phi(-x)/phi(x) for x > -30; relative error 1e-14."""
    if x < FRACTION_FROM:
        return SQRT_HALF_PI * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    remainder: float = mills_remainder(x)
    return 1 / (x + remainder)


def mills_remainder(x: Any) -> Any:
    """Return r = 1/(x + 2/(x + 3/(x + ...))), so that mills(x) = 1/(x + r)."""
    terms = FRACTION_TERMS
    if isinstance(x, float) and x >= 4:  # they leave out at most 2e-15 of r
        terms = 40 if x < 5 else 24
    value = 0.0 * x
    for k in range(terms, 0, -1):
        value = k / (x + value)
    return value


def mills_ratio(x: Floats) -> Floats:
    """Return `mills` of each element of an array of numbers >= 0."""
    far = np.maximum(x, FRACTION_FROM)
    result = 1 / (far + mills_remainder(far))
    near = x < FRACTION_FROM
    result[near] = [mills(value) for value in x[near].tolist()]
    return np.asarray(result)


@functools.lru_cache(maxsize=256)
def log_normalizer(sigma: Fraction) -> float:
    """Return ln of the sum over integers x of exp(-x^2/(2 sigma^2))."""
    width = float(sigma)
    if width < 1:
        terms = [math.exp(-k * k / (2 * width * width)) for k in range(9, 0, -1)]
        return math.log1p(2 * math.fsum(terms))
    dual = math.exp(-2 * math.pi**2 * width * width)  # Poisson summation
    return math.log(width) + LOG_SQRT_2PI + math.log1p(2 * dual)


def tail_ratio(m: Floats, width: float) -> Floats:
    """Return sum over i >= 0 of exp(-(2 m i + i^2)/(2 width^2)) for m >= 1."""
    slope = m / (width * width)
    if width <= 32:
        return _direct_ratio(slope, width, math.ceil(9 * width) + 1)
    smooth = _smooth_ratio(m / width, np.minimum(slope, 1.0), width)
    return np.where(slope > 1, _direct_ratio(slope, width, 40), smooth)


def _direct_ratio(slope: Floats, width: float, terms: int) -> Floats:
    total = np.zeros_like(slope)
    for i in range(terms, 0, -1):
        total += np.exp(-(slope * i + i * i / (2 * width * width)))
    return total + 1


def _smooth_ratio(y: Floats, slope: Floats, width: float) -> Floats:
    """Sum by Euler-Maclaurin: the integral, half of the first term, and derivatives.

    The n-th derivative of f = exp(-x^2/(2 width^2)) is (-1)^n He_n(y)/width^n f.
    """
    total = width * mills_ratio(y) + 0.5
    before, current = np.ones_like(slope), slope
    for k, coefficient in enumerate(_bernoulli_over_factorial(), start=1):
        total = total + coefficient * current
        for n in (2 * k - 1, 2 * k):
            step = slope * current - (n / (width * width)) * before
            before, current = current, step
    return np.asarray(total)


@functools.cache
def _bernoulli_over_factorial() -> tuple[float, ...]:
    """Return B_2k/(2k)! for k = 1..10."""
    numbers = [Fraction(1)]
    for n in range(1, 21):
        terms = (math.comb(n + 1, j) * b for j, b in enumerate(numbers))
        numbers.append(-sum(terms, Fraction(0)) / (n + 1))
    return tuple(float(numbers[n] / math.factorial(n)) for n in range(2, 21, 2))


def pair_of(value: Fraction) -> Pair:
    high = float(value)
    return np.float64(high), np.float64(float(value - Fraction(high)))  # type: ignore[return-value]


def points(x: npt.ArrayLike) -> tuple[Pair, tuple[int, ...]]:
    """Return points as exact pairs of doubles, and their shape."""
    array = np.asarray(x)
    if array.dtype.kind not in "iuf":
        raise DTypeError(
            f"x must be integers or floats of at most 64 bits, got {array.dtype}"
        )
    flat = array.ravel()
    high = flat.astype(np.float64)
    low = np.zeros_like(high)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        # Split at 2^32 so that both parts are exact doubles.
        upper = (flat >> np.asarray(32, dtype=flat.dtype)).astype(np.float64) * 2.0**32
        lower = (flat & np.asarray(0xFFFFFFFF, dtype=flat.dtype)).astype(np.float64)
        high = upper + lower
        low = lower - (high - upper)
    return (high, low), array.shape


def shaped(values: Floats, shape: tuple[int, ...]) -> Any:
    return values.reshape(shape)[()]


def absolute(points: Pair) -> Pair:
    sign = np.where(points[0] < 0, -1.0, 1.0)
    return points[0] * sign, points[1] * sign


def integral(points: Pair) -> npt.NDArray[np.bool_]:
    return np.asarray(np.isfinite(points[0]) & (np.floor(points[0]) == points[0]))


def floored(points: Pair) -> Pair:
    return np.floor(points[0]), points[1]


def negated(k: Pair) -> Pair:
    return -k[0], -k[1]


def step_up(k: Pair) -> Pair:
    """Return k + 1, exactly."""
    small = np.abs(k[0]) < 2.0**52
    return np.where(small, k[0] + 1, k[0]), np.where(small, k[1], k[1] + 1)


def reflected(k: Pair) -> tuple[Pair, npt.NDArray[np.bool_]]:
    """Return m >= 1, and whether P(X >= k) is P(X >= m) or 1 - P(X >= m)."""
    direct = (k[0] > 0) | ((k[0] == 0) & (k[1] > 0))
    mirrored = step_up(negated(k))
    high = np.where(direct, k[0], mirrored[0])
    return (high, np.where(direct, k[1], mirrored[1])), direct


def times(a: Pair, b: Pair, sign: float) -> Pair:
    """Return sign * a * b as a pair: relative error below 2^-100 unless huge."""
    product = a[0] * b[0]
    a_high, a_low = _halves(a[0])
    b_high, b_low = _halves(b[0])
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + (
        a_low * b_low
    )
    error = error + (a[0] * b[1] + a[1] * b[0])
    error = np.where(np.abs(product) < _HUGE, error, 0.0)
    return sign * product, sign * error


def _halves(x: Floats) -> Pair:
    wide = _SPLIT * x
    high = wide - (wide - x)
    return high, x - high


def plus(a: Pair, b: Floats | float) -> Pair:
    """Return a + b as a pair (exact sum of the leading parts)."""
    total = a[0] + b
    part = total - a[0]
    error = (a[0] - (total - part)) + (b - part)
    return total, np.where(np.isfinite(total), error + a[1], 0.0)
