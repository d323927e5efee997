"""The Gaussian mechanism's exact profile, stable at any epsilon and delta.

delta(epsilon) = phi(a) (m(a) - m(b)) with a = epsilon/mu - mu/2, b = a + mu,
mu = sensitivity/sigma and m the Mills ratio Phi(-x)/phi(x). (Balle and Wang 2018,
Theorem 8, in a form without cancellation or underflow.)
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from fastdp._special import FRACTION_FROM, LOG_SQRT_2PI, mills, mills_remainder
from fastdp.accounting._numeric import inflate

#: Beyond this many standard deviations, return only the bound delta <= exp(-a^2/2).
_FAR = Fraction(10**9)


def log_delta(epsilon: Fraction, mu: Fraction) -> float:
    """Return ln(delta(epsilon)) rounded up; `mu` is sensitivity/sigma > 0."""
    a = epsilon / mu - mu / 2
    if a > _FAR:
        return -float(_FAR * _FAR / 2)
    if a < -38:  # 1 - delta is below the least double
        return 0.0
    low, high, gap = float(a), float(a + mu), float(mu)
    log_phi = -float(a * a / 2) - LOG_SQRT_2PI
    if low < -1:
        outside = math.exp(log_phi) * (mills(-low) + mills(high))
        return inflate(math.log1p(-outside)) if outside < 1 else 0.0
    return inflate(log_phi + math.log(_mills_difference(low, high, gap)))


def about_log_delta(epsilon: float, mu: float) -> float:
    """Return ln(delta(epsilon)) to about six digits of delta, to start searches."""
    low = epsilon / mu - mu / 2
    if low < -38:
        return 0.0
    if low > _FAR:
        return -low * low / 2
    high, log_phi = low + mu, -low * low / 2 - LOG_SQRT_2PI
    if low < -1:
        outside = math.exp(log_phi) * (mills(-low) + mills(high))
        return math.log1p(-outside) if outside < 1 else 0.0
    if mu * 1000 > max(1.0, low):
        return log_phi + math.log(mills(low) - mills(high))
    return log_phi + math.log(mu * _slope(low + mu / 2))


def _slope(x: float) -> float:
    """Return -m'(x) = 1 - x m(x) > 0."""
    if x < FRACTION_FROM:
        return 1 - x * mills(x)
    remainder: float = mills_remainder(x)
    return remainder / (x + remainder)


def _mills_difference(low: float, high: float, gap: float) -> float:
    """Return m(low) - m(high), high = low + gap, without cancellation."""
    if gap > max(1.0, low):
        return mills(low) - mills(high)
    # A smooth positive integrand over a short interval: 16 Gauss nodes suffice.
    nodes, weights = _gauss_legendre()
    total = sum(w * _slope(low + gap * x) for x, w in zip(nodes, weights, strict=True))
    return gap * total


@functools.cache
def _gauss_legendre() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the nodes and weights of 16-point Gauss-Legendre on (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    return (
        tuple(float(x) for x in (nodes + 1) / 2),
        tuple(float(w) for w in weights / 2),
    )
