"""The discrete noise laws as immutable objects with scipy.stats names.

All three laws are symmetric about 0 and live on the integers. Functions take
integers as scalars or arrays (int64, uint64, or floats that hold integers) and
return float64 of the same shape. Relative accuracy of `pmf`, `cdf` and `sf` is about
1e-14 down to the smallest normal double, in both tails and for the whole parameter
range; the log forms are accurate even where the values themselves underflow. At a
non-integer, `pmf` is 0 and `cdf` has its value at the integer below.

These objects compute probabilities; they draw nothing.
"""

from __future__ import annotations

import decimal
import functools
import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp._special import (
    Floats,
    Pair,
    absolute,
    floored,
    integral,
    log_normalizer,
    negated,
    pair_of,
    plus,
    points,
    reflected,
    shaped,
    step_up,
    tail_ratio,
    times,
)

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "TruncatedDiscreteLaplace"]

MAX_BOUND = 2**62


class _SymmetricLaw(ABC):
    """A law on the integers with P(x) = P(-x); subclasses compute it for x >= 0."""

    __slots__ = ()

    @abstractmethod
    def _log_mass(self, m: Pair) -> Pair:
        """Return ln P(X = m) for integers m >= 0, as a pair."""

    @abstractmethod
    def _log_tail(self, m: Pair) -> Pair:
        """Return ln P(X >= m) for integers m >= 1, as a pair."""

    @abstractmethod
    def var(self) -> float:
        """Return the variance."""

    def _tail(self, m: Pair) -> Floats:
        high, low = self._log_tail(m)
        return np.asarray(np.exp(high) * (1 + low))

    def pmf(self, x: npt.ArrayLike) -> Any:
        """Return P(X = x); 0 where x is not an integer."""
        at, shape = points(x)
        with np.errstate(all="ignore"):
            high, low = self._log_mass(absolute(at))
            result = np.exp(high) * (1 + low)
        return shaped(np.where(integral(at), result, 0.0), shape)

    def logpmf(self, x: npt.ArrayLike) -> Any:
        """Return ln P(X = x); -inf where x is not an integer."""
        at, shape = points(x)
        with np.errstate(all="ignore"):
            high, low = self._log_mass(absolute(at))
        return shaped(np.where(integral(at), high + low, -np.inf), shape)

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Return P(X <= x); NaN for NaN."""
        at, shape = points(x)
        return shaped(self._at_least(negated(floored(at))), shape)

    def sf(self, x: npt.ArrayLike) -> Any:
        """Return P(X > x) = 1 - cdf(x), without cancellation; NaN for NaN."""
        at, shape = points(x)
        return shaped(self._at_least(step_up(floored(at))), shape)

    def logcdf(self, x: npt.ArrayLike) -> Any:
        """Return ln P(X <= x), accurate even where `cdf` underflows; NaN for NaN."""
        at, shape = points(x)
        return shaped(self._log_at_least(negated(floored(at))), shape)

    def logsf(self, x: npt.ArrayLike) -> Any:
        """Return ln P(X > x), accurate even where `sf` underflows; NaN for NaN."""
        at, shape = points(x)
        return shaped(self._log_at_least(step_up(floored(at))), shape)

    def _at_least(self, k: Pair) -> Floats:
        """Return P(X >= k): the tail, or one minus the opposite tail."""
        m, direct = reflected(k)
        with np.errstate(all="ignore"):
            tail = np.where(np.isinf(m[0]), 0.0, self._tail(m))
        return np.where(np.isnan(k[0]), np.nan, np.where(direct, tail, 1 - tail))

    def _log_at_least(self, k: Pair) -> Floats:
        m, direct = reflected(k)
        with np.errstate(all="ignore"):
            high, low = self._log_tail(m)
            log_tail = np.where(np.isinf(m[0]), -np.inf, high + low)
            result = np.where(direct, log_tail, np.log1p(-np.exp(log_tail)))
        return np.where(np.isnan(k[0]), np.nan, result)

    def ppf(self, q: npt.ArrayLike) -> Any:
        """Return the least integer k with cdf(k) >= q, as float64.

        NaN outside [0, 1]. At 0 and 1 a law without ends gives -inf and +inf; a
        truncated law gives the integer below its support and the upper end of its
        support. A result above 2^53 is the least double that satisfies the inequality.
        """
        p = np.asarray(q, dtype=np.float64)
        # 1 - p is exact for p >= 1/2; for p < 1/2 use the mirror image.
        flat = p.ravel()
        result = np.full(flat.shape, np.nan)
        for i, value in enumerate(flat.tolist()):
            if 0.5 < value <= 1:
                result[i] = self._quantile(1 - value, strict=False)
            elif 0 <= value <= 0.5:
                result[i] = 0.0 - self._quantile(value, strict=True)
        return shaped(result, p.shape)

    def isf(self, q: npt.ArrayLike) -> Any:
        """Return the least integer k with sf(k) <= q, as float64 (see `ppf`)."""
        p = np.asarray(q, dtype=np.float64)
        flat = p.ravel()
        result = np.full(flat.shape, np.nan)
        for i, value in enumerate(flat.tolist()):
            if 0 <= value < 0.5:
                result[i] = self._quantile(value, strict=False)
            elif 0.5 <= value <= 1:
                result[i] = 0.0 - self._quantile(1 - value, strict=True)
        return shaped(result, p.shape)

    def interval(self, level: float) -> tuple[float, float]:
        """Return (-k, k) with the least integer k such that P(|X| <= k) >= level.

        Raises
        ------
        DTypeError, ParameterError
            `level` is not a real number > 0 and < 1.
        """
        outside = (1 - _validate.open_unit("level", level)) / 2
        end = max(0.0, self._quantile(_validate.float_down(outside), strict=False))
        return (0.0 - end, end)

    def mean(self) -> float:
        """Return the mean, 0."""
        return 0.0

    def std(self) -> float:
        """Return the standard deviation."""
        return math.sqrt(self.var())

    def _end(self) -> float:
        """Return the largest value of the support."""
        return math.inf

    def _quantile(self, p: float, *, strict: bool) -> float:
        """Return the least integer k >= -1 with sf(k) <= p, or < p if `strict`.

        By symmetry this gives the other half, too: cdf(k) = sf(-k - 1), so the least k
        with cdf(k) >= p is minus the least j with sf(j) < p.
        """

        def met(k: float) -> bool:
            tail = float(self.sf(k))
            return tail < p if strict else tail <= p

        if p <= 0:
            return self._end() + strict
        if met(-1.0):
            return -1.0
        low, high = -1.0, max(1.0, math.ceil(self.std()))
        while not met(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = math.floor(low + (high - low) / 2)
            if middle in (low, high):
                break
            low, high = (low, middle) if met(middle) else (middle, high)
        return float(high)


class DiscreteLaplace(_SymmetricLaw):
    """The law P(x) proportional to exp(-|x|/scale) on all integers.

    Parameters
    ----------
    scale : int, float, Fraction or Decimal
        In [1e-6, 2^55], taken at its exact value.

    Raises
    ------
    DTypeError, ParameterError
        `scale` is not a real number in the range.

    Examples
    --------
    >>> from fastdp.distributions import DiscreteLaplace
    >>> law = DiscreteLaplace(10)
    >>> bool(abs(law.sf(0) + law.pmf(0) / 2 - 0.5) < 1e-15)
    True
    """

    __slots__ = ("_rate", "_scale")

    def __init__(self, scale: _validate.Real) -> None:
        self._scale = _validate.between("scale", scale, *_validate.SCALE_RANGE)
        self._rate = pair_of(1 / self._scale)

    @property
    def scale(self) -> Fraction:
        """The exact scale."""
        return self._scale

    def __repr__(self) -> str:
        return f"DiscreteLaplace(scale={_shown(self._scale)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DiscreteLaplace) and self._scale == other._scale

    def __hash__(self) -> int:
        return hash((DiscreteLaplace, self._scale))

    def _log_mass(self, m: Pair) -> Pair:
        _, _, log_tanh = _laplace_constants(self._scale)
        return plus(times(m, self._rate, -1.0), log_tanh)

    def _log_tail(self, m: Pair) -> Pair:
        _, log1p_q, _ = _laplace_constants(self._scale)
        return plus(times(m, self._rate, -1.0), -log1p_q)

    def var(self) -> float:
        """Return the variance 2 q/(1-q)^2 = 1/(2 sinh(1/(2 scale))^2)."""
        half = float(1 / (2 * self._scale))
        return 0.5 / math.sinh(half) ** 2 if half < 300 else 2 * math.exp(-2 * half)


class TruncatedDiscreteLaplace(_SymmetricLaw):
    """The discrete Laplace law conditioned on {-bound, ..., bound}.

    Parameters
    ----------
    scale : int, float, Fraction or Decimal
        Scale before truncation, in [1e-6, 2^55], taken at its exact value.
    bound : int
        Largest absolute value, in [0, 2^62].
    """

    __slots__ = ("_bound", "_rate", "_scale")

    def __init__(self, scale: _validate.Real, *, bound: int) -> None:
        self._scale = _validate.between("scale", scale, *_validate.SCALE_RANGE)
        self._bound = _validate.integer("bound", bound, 0, MAX_BOUND)
        self._rate = pair_of(1 / self._scale)

    @property
    def scale(self) -> Fraction:
        """The exact scale before truncation."""
        return self._scale

    @property
    def bound(self) -> int:
        """The largest absolute value."""
        return self._bound

    def __repr__(self) -> str:
        scale = _shown(self._scale)
        return f"TruncatedDiscreteLaplace(scale={scale}, bound={self._bound})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TruncatedDiscreteLaplace)
            and self._scale == other._scale
            and self._bound == other._bound
        )

    def __hash__(self) -> int:
        return hash((TruncatedDiscreteLaplace, self._scale, self._bound))

    def _log_mass(self, m: Pair) -> Pair:
        log_first, _ = _truncated_constants(self._scale, self._bound)
        high, low = plus(times(m, self._rate, -1.0), log_first)
        return np.where(self._room(m) > 0, high, -np.inf), low

    def _log_tail(self, m: Pair) -> Pair:
        _, log_norm = _truncated_constants(self._scale, self._bound)
        room = self._room(m)
        share = np.log(-np.expm1(-self._rate[0] * np.maximum(room, 0.0)))
        high, low = plus(times(m, self._rate, -1.0), share - log_norm)
        return np.where(room > 0, high, -np.inf), low

    def _room(self, m: Pair) -> Floats:
        """Return bound - m + 1, the number of outcomes >= m."""
        limit = pair_of(Fraction(self._bound))
        return np.asarray((limit[0] - m[0]) + (limit[1] - m[1]) + 1)

    def _end(self) -> float:
        return float(self._bound)

    def var(self) -> float:
        """Return the variance."""
        return _truncated_variance(self._scale, self._bound)


class DiscreteGaussian(_SymmetricLaw):
    """The law P(x) proportional to exp(-x^2/(2 sigma^2)) on all integers.

    For small `sigma` the standard deviation is below `sigma`; from sigma = 2 on the two
    are equal in double precision.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        In [1e-3, 2^55], taken at its exact value.

    Raises
    ------
    DTypeError, ParameterError
        `sigma` is not a real number in the range.

    Notes
    -----
    Tails are pmf(m) times the sum over i >= 0 of exp(-(2 m i + i^2)/(2 sigma^2)).
    A short sum (sigma <= 32 or m > sigma^2) is computed term by term. Otherwise the
    Euler-Maclaurin formula with ten correction terms is used; its relative remainder is
    below (2 pi)^-20, about 1e-16.
    """

    __slots__ = ("_rate", "_sigma")

    def __init__(self, sigma: _validate.Real) -> None:
        self._sigma = _validate.between("sigma", sigma, *_validate.SIGMA_RANGE)
        self._rate = pair_of(1 / (2 * self._sigma * self._sigma))

    @property
    def sigma(self) -> Fraction:
        """The exact parameter."""
        return self._sigma

    def __repr__(self) -> str:
        return f"DiscreteGaussian(sigma={_shown(self._sigma)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DiscreteGaussian) and self._sigma == other._sigma

    def __hash__(self) -> int:
        return hash((DiscreteGaussian, self._sigma))

    def _log_mass(self, m: Pair) -> Pair:
        square = times(m, m, 1.0)
        return plus(times(square, self._rate, -1.0), -log_normalizer(self._sigma))

    def _log_tail(self, m: Pair) -> Pair:
        high, low = self._log_mass(m)
        return plus((high, low), np.log(tail_ratio(m[0], float(self._sigma))))

    def var(self) -> float:
        """Return the variance, below sigma^2 for small sigma."""
        width = float(self._sigma)
        if width >= 2:  # the relative difference from sigma^2 is below 4e-32
            return float(self._sigma * self._sigma)
        k = np.arange(1, 80, dtype=np.float64)
        weights = np.exp(-k * k / (2 * width * width))
        return float(2 * np.sum(k * k * weights) / (1 + 2 * np.sum(weights)))


@functools.lru_cache(maxsize=256)
def _laplace_constants(scale: Fraction) -> tuple[float, float, float]:
    """Return q = exp(-1/scale), ln(1+q), ln tanh(1/(2 scale)) = ln((1-q)/(1+q))."""
    with decimal.localcontext(_context(80)):
        q = _decimal(-1 / scale).exp()
        log1p_q = (1 + q).ln() if q > decimal.Decimal("1e-60") else q
        log1m_q = (1 - q).ln() if q > decimal.Decimal("1e-60") else -q
        return float(q), float(log1p_q), float(log1m_q - log1p_q)


@functools.lru_cache(maxsize=256)
def _truncated_constants(scale: Fraction, bound: int) -> tuple[float, float]:
    """Return ln P(X = 0) and ln(1 + q - 2 q^(bound+1))."""
    with decimal.localcontext(_context(120)):
        q = _decimal(-1 / scale).exp()
        norm = 1 + q - 2 * _decimal(-(bound + 1) / scale).exp()
        if q < decimal.Decimal("1e-100"):
            correction = -2 * q if bound else decimal.Decimal(0)
            return float(correction), float((norm - 1) or q)
        return float(((1 - q) / norm).ln()), float(norm.ln())


@functools.lru_cache(maxsize=256)
def _truncated_variance(scale: Fraction, bound: int) -> float:
    """Return the variance from the closed form of sum k^2 q^k, at 200 digits."""
    if bound == 0:
        return 0.0
    with decimal.localcontext(_context(200)):
        q = _decimal(-1 / scale).exp()
        last = _decimal(-bound / scale).exp()
        n = decimal.Decimal(bound)
        inner = (n + 1) ** 2 - (2 * n * n + 2 * n - 1) * q + n * n * q * q
        squares = q * (1 + q - last * inner) / (1 - q) ** 3
        mass = (1 + q - 2 * q * last) / (1 - q)
        return float(2 * squares / mass)


def _context(digits: int) -> decimal.Context:
    return decimal.Context(
        prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[]
    )


def _decimal(value: Fraction) -> decimal.Decimal:
    return decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator)


def _shown(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else repr(value)
