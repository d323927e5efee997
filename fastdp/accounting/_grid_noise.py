"""Noise on a fine grid, between two continuous laws: docs/proofs/grid_accounting.md.

The library's real-valued mechanisms add discrete noise of 2^39 steps or more. A list of
the losses would be too long, and is not needed: the privacy of two continuous laws of
nearly the same scale bounds it from both sides.
"""

from __future__ import annotations

import math
from fractions import Fraction

from fastdp.accounting._numeric import sqrt_up

#: From this sigma on, in steps, discrete noise counts as Gaussian: both bounds of mu
#: agree to a relative 1e-6.
FINE = 2000

#: Least sigma at which the lemma is of use.
_COARSEST = Fraction(2)

#: Relative allowance for the doubles within.
_WIDE = 1 + 1e-9


def gaussian_mus(
    norm: int, sigma: Fraction, moved: int
) -> tuple[Fraction, Fraction] | None:
    """Return mu of Gaussian laws below and above discrete Gaussian noise.

    Parameters
    ----------
    norm : int
        Largest squared L2 norm of an integer shift.
    sigma : Fraction
        Sigma of the discrete law, in steps.
    moved : int
        Maximum number of coordinates that a shift changes.

    Returns
    -------
    (lower, upper) or None
        None if sigma is too small for a bound.

    Notes
    -----
    With e = 2 exp(-2 pi^2 tau^2) (1 + tiny) for each of the `moved` coordinates,
    N(x, sigma^2 - tau^2) can be processed to within a factor of (1 +- e)^moved of the
    discrete law, and the discrete law to within this factor of N(x, sigma^4/(sigma^2 -
    tau^2)). The factor changes mu by less than 3 moved e. Any tau gives valid bounds;
    the chosen tau makes both parts small.
    """
    if sigma < _COARSEST:
        return None
    size = float(min(sigma, Fraction(10**30)))
    room = math.log(1e3 * moved) + 2 * math.log(size)
    tau = math.sqrt(max(room, 1.0) / (2 * math.pi**2))
    while True:
        # mu/sigma is about 1; what the factor adds should be below tau^2/sigma^2.
        slack = 3 * moved * 2.0001 * math.exp(-2 * math.pi**2 * tau * tau)
        if slack <= 1e-3 * (tau / size) ** 2 or tau > 12:
            break
        tau *= 1.05
    if slack > 1e-2 or tau * tau > 0.5 * size * size:
        return None
    square, charge = Fraction(tau) ** 2, Fraction(slack * _WIDE)
    variance, whole = sigma * sigma, math.isqrt(norm)
    above = sqrt_up(norm / (variance - square)) + charge
    # Square roots here are above by a factor below 1 + 2^-80.
    root = sqrt_up(whole * whole * (variance - square) / (variance * variance))
    below = root * (1 - Fraction(1, 1 << 79)) - charge
    return max(below, Fraction(0)), above


def slack_of_two(square: Fraction) -> float:
    """Return the distance of a sum of two discrete Gaussians from a discrete Gaussian.

    `square` is v w/(v + w) of their variances. The sum over x of e^(-(x - c)^2/2v) is
    sqrt(2 pi v) (1 +- 2.001 e^(-2 pi^2 v)), which bounds ln of the masses' quotient,
    and of the quotient of two such quotients.
    """
    if square < Fraction(1, 2):
        return math.inf
    return 4.1 * math.exp(-19.739 * float(square)) + 1e-300


def gaussian_sum_slack(variance: Fraction, count: int) -> float:
    """Return the slack for `count` variables of one variance, added one by one."""
    few = min(count - 1, 64)
    total = math.fsum(
        slack_of_two(variance * Fraction(j, j + 1)) for j in range(1, few + 1)
    )
    if count - 1 > few:
        total += (count - 1 - few) * slack_of_two(variance * Fraction(few, few + 1))
    return total * _WIDE


def laplace_epsilon(shift: int, rate: Fraction) -> Fraction:
    """Return the epsilon of Laplace noise above discrete Laplace noise.

    rate shift + 2 ln cosh(rate/2), the second term rounded up. Laplace noise with
    rate shift is below it.
    """
    return rate * shift + rate * rate / 4


__all__ = [
    "FINE",
    "gaussian_mus",
    "gaussian_sum_slack",
    "laplace_epsilon",
    "slack_of_two",
]
