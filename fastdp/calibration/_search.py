"""Searches for a noise parameter, shared by integer and real answers."""

from __future__ import annotations

import math
from fractions import Fraction

from fastdp import _validate
from fastdp.accounting import _gaussian
from fastdp.accounting._numeric import search
from fastdp.accounting.conversions import discrete_laplace_rho
from fastdp.exceptions import CalibrationError

#: Parameters of noise on a power-of-two grid, in the data's unit.
GRID_RANGE = (Fraction(2) ** -900, Fraction(2) ** 900)
#: Ratios beyond 2^950 are not searched.
_TINY = Fraction(2) ** -950


def within(name: str, value: Fraction, limits: tuple[Fraction, Fraction]) -> Fraction:
    """Return the value that a target needs; refuse a value outside the limits."""
    low, high = limits
    if not low <= value <= high:
        raise CalibrationError(
            f"{name} must be in [{float(low):.6g}, {float(high):.6g}], but "
            f"{_shown(value)} is needed"
        )
    return value


def _shown(value: Fraction) -> str:
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        return "a number beyond the range of doubles"


def pure_guess(rho: Fraction) -> float:
    """Return a pure epsilon whose Laplace noise has at least this KL divergence.

    With v^2 = 2 rho the guess is v + v^2/2, and v - 1 + e^-(v + v^2/2) >= 0. A smaller
    epsilon would start on a grid that is too coarse and needs more noise.
    """
    r = float(rho)
    if r == 0.0:
        raise CalibrationError(
            "no scale in the supported range meets so small a target"
        )
    return r + math.sqrt(2 * r)


def least_laplace_scale(rho: Fraction, sensitivity: Fraction, g: Fraction) -> Fraction:
    """Return the least double scale whose exact rho on the grid g is <= rho."""
    limit = _validate.float_down(rho)

    def excess(scale: float) -> float:
        return (
            discrete_laplace_rho(sensitivity=sensitivity / g, scale=Fraction(scale) / g)
            - limit
        )

    guess = float(min(sensitivity / Fraction(pure_guess(rho)), GRID_RANGE[1]))
    return Fraction(search("scale", excess, guess, GRID_RANGE))


def analytic_sigma(
    epsilon: Fraction,
    target: float,
    sensitivity: Fraction,
    limits: tuple[Fraction, Fraction],
) -> float:
    """Return about the continuous Gaussian's sigma, as a start for searches.

    If no sigma within `limits` meets the target, or every one does, return the limit.
    """

    def excess(mu_inverse: float) -> float:
        return _gaussian.about_log_delta(e, 1 / mu_inverse) - target

    e = float(min(epsilon, Fraction(10**15)))
    low, high = (min(max(x / sensitivity, _TINY), 1 / _TINY) for x in limits)
    if excess(float(high)) > 0:
        return _validate.float_down(limits[1])
    if excess(float(low)) <= 0:
        return _validate.float_up(limits[0])
    root = math.sqrt(e - target) + math.sqrt(-target)
    tilted = root / max(math.sqrt(2) * e, 1e-280)
    guess = min(tilted, math.exp(min(-target, 600.0)) / 2)
    inverse = search("sigma", excess, guess, (low, high), step=0.25, relative=1e-6)
    return float(Fraction(inverse) * sensitivity)
