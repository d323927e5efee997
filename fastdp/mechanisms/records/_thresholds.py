"""Thresholds on noisy counts that hide keys of one user except with P <= delta."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fastdp import _exact
from fastdp.exceptions import CalibrationError
from fastdp.mechanisms.noise.integer import DiscreteGaussian, DiscreteLaplace


def least_threshold(
    noise: DiscreteLaplace | DiscreteGaussian, delta: Fraction, r: int, one: int = 1
) -> int:
    """Return the least t > r with P(r one + N > t one) <= delta.

    Raises
    ------
    CalibrationError
        The threshold would exceed 2**62/one.
    """
    low, high = r, r + 1
    while tail(noise, (high - r) * one) > delta:
        low, high = high, r + 2 * (high - r)
        if high * one > 2**62:
            raise CalibrationError(
                f"threshold must be <= {2**62 // one}, but more is needed"
            )
    while high - low > 1:
        middle = (low + high) // 2
        if tail(noise, (middle - r) * one) > delta:
            low = middle
        else:
            high = middle
    return high


def tail(noise: DiscreteLaplace | DiscreteGaussian, m: int) -> Fraction:
    """Return an upper bound on P(N > m), m >= 0."""
    if isinstance(noise, DiscreteLaplace):
        return _laplace_tail(Fraction(noise.scale), m)
    return _gaussian_tail(Fraction(noise.sigma), m)


def _laplace_tail(scale: Fraction, m: int) -> Fraction:
    """Return a**(m + 1)/(1 + a), a = exp(-1/scale), rounded up."""
    far = min((m + 1) / scale, Fraction(2**14))  # the bound is tiny already there
    _, above = _exact.exp_neg(far.numerator, far.denominator, 64 + 2 * int(far))
    below, _ = _exact.exp_neg(scale.denominator, scale.numerator, 64)
    return Fraction(above, 2 ** (64 + 2 * int(far))) / (1 + Fraction(below, 2**64))


def _gaussian_tail(sigma: Fraction, m: int) -> Fraction:
    """Return a bound on P(N > m), N discrete Gaussian, m >= 1.

    The normalizing sum is at least max(1, sigma sqrt(2 pi)) (Poisson summation). Terms
    up to 40 sigma, but at most 2**16, are summed; an integral bounds the rest.
    """
    s = float(sigma)
    x = np.arange(m + 1, m + 2 + min(int(40 * s) + 2, 2**16), dtype=np.float64)
    head = math.fsum(np.exp(-((x / s) ** 2) / 2))
    rest = s * math.sqrt(math.pi / 2) * math.erfc(float(x[-1]) / s / math.sqrt(2))
    bound = (head + rest) / max(1.0, s * math.sqrt(2 * math.pi))
    # Terms that matter have exponents below 2**10: roundings add less than 2**-38.
    return Fraction(bound) * (1 + Fraction(1, 2**38)) + Fraction(1, 2**1050)
