"""Powers of polynomials, by columns, and moments of a mean.

All important sums have terms of one sign, or bounds by such sums.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from scipy.special import gammaln

from fastdp.accounting._pld.losses import Complexes, Floats, U

Numbers = TypeVar("Numbers", Floats, Complexes)

#: Leave out a moment whose logarithm is larger, so that all fit doubles.
_LARGEST = 600.0


def whole_moments(
    log_moment: Floats, steps: int, share: float = 1.0
) -> tuple[Floats, Floats]:
    """Return E S^n, n = 0, 1, .., from ln E R^n, and bounds of relative errors.

    E S^n = n! t^-n [x^n] (sum of E R^k x^k/k!)^t, with only positive terms. Moments of
    R of an order k > 0 have the factor `share`.
    """
    count = int(np.searchsorted(log_moment > _LARGEST, True))
    k, log_moment = np.arange(float(count)), log_moment[:count]
    base = np.exp(log_moment - gammaln(k + 1) - k * math.log(steps))
    base[1:] *= share
    power, left = np.eye(1, count)[0], steps
    while left:
        if left & 1:
            power = np.convolve(power, base)[:count]
        base, left = np.convolve(base, base)[:count], left >> 1
    # A term of order n is a product of at most n coefficients other than 1, and errors
    # add up: n times the error of one coefficient and of all levels.
    size = log_moment + gammaln(k + 1) + k * math.log(steps)
    slip = k * (16 * size + 8 * steps.bit_length() + 128) * U
    return power * np.exp(gammaln(k + 1)), slip


def powers_of(base: Numbers, steps: int, log_first: Numbers) -> Numbers:
    """Return the coefficients of (sum of base[k] x^k)^steps; log_first is ln base[0].

    Many steps use a recursion with only positive factors; few steps use squaring.
    """
    rows: int = base.shape[0]
    found = np.zeros_like(base)
    found[0] = 1
    if steps >= 2 * rows:
        ratio = base[1:] / base[0]
        for k in range(1, rows):
            for i in range(1, k + 1):
                found[k] += (i * (steps + 1) - k) / k * ratio[i - 1] * found[k - i]
        found *= np.exp(steps * log_first)
        return found
    while steps:
        if steps & 1:
            found = _times(found, base)
        base, steps = _times(base, base), steps >> 1
    return found


def _times(one: Numbers, other: Numbers) -> Numbers:
    both = np.zeros_like(other)
    for k in range(both.shape[0]):
        both[k] = (one[: k + 1] * other[k::-1]).sum(axis=0)
    return both
