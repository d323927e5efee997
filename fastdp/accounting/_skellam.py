"""Skellam noise: its zero-concentrated privacy, and its losses on one coordinate.

P(x) = exp(-v) I_x(v) for the variance v: the difference of two Poisson variables of
mean v/2. Proofs: docs/proofs/shares.md, sections 6 to 8.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fastdp._validate import float_up
from fastdp.accounting._numeric import sqrt_up

#: Least variance at which the bound of the curvature is of use.
_LEAST = 8

#: -ln of the noise's mass that is cut off on either side.
_TAIL = 700

#: Largest variance whose law is listed.
_LISTED = 1 << 22

_Floats = npt.NDArray[np.float64]

_DOWN = 1 - Fraction(1, 1 << 60)


def curvature(variance: Fraction) -> Fraction | None:
    """Return a bound on all second differences of -ln P; None for narrow noise."""
    if variance < _LEAST:
        return None
    square = variance**2 * (variance - 3) / (variance - 2)
    mean = 1 / (sqrt_up(1 / square) / _DOWN)
    x = 1 / (mean - 2)
    return min(x, x - x**2 / 2 + x**3 / 3)


def rho(variance: Fraction, norm: int, moved: int) -> Fraction | None:
    """Return rho for integer shifts of squared L2 norm `norm`, None for narrow noise.

    At most `moved` coordinates differ, so the L1 norm is at most sqrt(moved norm).
    """
    bend = curvature(variance)
    if bend is None:
        return None
    absolute = min(Fraction(norm), sqrt_up(Fraction(moved * norm)))
    k = float_up(bend)
    low, high = 0.0, 3 * k ** (2 / 3)  # y**1.5/6 + y**2/12 passes k/2 between
    for _ in range(60):
        middle = (low + high) / 2
        below = middle**1.5 / 6 + middle**2 / 12 <= k / 2 * (1 - 1e-12)
        low, high = (middle, high) if below else (low, middle)
    share = Fraction(min(1.0, k / low * (1 + 1e-12)))
    return bend / 2 * (norm + share * absolute)


def losses(variance: Fraction, shift: int) -> tuple[_Floats, _Floats, float] | None:
    """Return losses ln(P(x)/P(x + shift)), masses P(x), and the mass that is cut off.

    None if there are too many. Masses and their quotients are rounded once.
    """
    if variance > _LISTED:
        return None
    v = float(variance)
    reach = math.ceil(_TAIL / 3 + math.sqrt(_TAIL**2 / 9 + 2 * _TAIL * v)) + 1
    if shift > reach:
        return None
    side = _weights(variance, reach + shift)
    total = side[0] + 2 * sum(side[1:])
    noise = range(-reach - shift, reach + 1)
    masses = np.array([side[abs(x)] / total for x in noise])
    ratios = np.array([side[abs(x)] / side[abs(x + shift)] for x in noise])
    return np.log(ratios), np.maximum(masses, 5e-324), 2.1 * math.exp(-_TAIL)


def _weights(variance: Fraction, last: int) -> list[int]:
    """Return integers in proportion to I_0, ..., I_last within a relative 2^-60.

    It uses the recurrence I_(x-1) = I_(x+1) + (2x/v) I_x from large x down, where it is
    stable.
    """
    start = last + math.ceil(math.sqrt(variance)) + 64
    num, den = variance.numerator, variance.denominator
    weights = [0, 1 << 128]
    for x in range(start, 0, -1):
        weights.append(weights[-2] + 2 * x * den * weights[-1] // num)
    return weights[::-1][: last + 1]
