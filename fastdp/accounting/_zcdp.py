"""Zero-concentrated privacy to (epsilon, delta) and back, at the optimal order.

rho-zCDP gives, for every order alpha > 1, (Canonne, Kamath and Steinke 2020, Cor 13)
delta = exp((alpha-1)(alpha rho - epsilon)) / (alpha-1) * (1 - 1/alpha)^alpha.
Any order is valid; the best one is found to double precision.
"""

from __future__ import annotations

import math
from fractions import Fraction

from fastdp.accounting._numeric import float_down, float_up, inflate
from fastdp.accounting._response import pure_log_delta

#: Above this range of rho nothing is claimed; below it, the limit is claimed.
_LARGEST_RHO = Fraction(10**100)
_LEAST_RHO = Fraction(1, 10**100)
_NOTHING = Fraction(0)


def log_delta(epsilon: Fraction, rho: Fraction, largest: float = 1e300) -> float:
    """Return ln(delta) rounded up; `rho` > 0 and `epsilon` are exact.

    Orders up to 1 + `largest` may be used.
    """
    if rho > _LARGEST_RHO:
        return 0.0
    # A larger rho is a weaker statement, so a tiny one may be raised.
    rho = max(rho, _LEAST_RHO)
    excess = min(largest, _best_excess(float(epsilon), float(rho)))
    return inflate(_log_delta_at(Fraction(excess), epsilon, rho))


def log_delta_from(
    epsilon: Fraction, rho: Fraction, xi: Fraction, omega: Fraction | None = None
) -> float:
    """Return ln(delta) if the divergence of order a is <= xi + rho a, a <= omega."""
    if rho == 0 and omega is None:
        return pure_log_delta(xi, epsilon)
    if rho == xi == 0:
        return -math.inf
    return log_delta(epsilon - xi, rho, _largest(omega))


def epsilon_from(
    log_target: float, rho: Fraction, xi: Fraction, omega: Fraction | None = None
) -> float:
    """Return epsilon if the divergence of order a is <= xi + rho a, a <= omega."""
    if rho == xi == 0 or log_target >= 0:
        return 0.0
    return epsilon(log_target, rho, xi, _largest(omega))


def _largest(omega: Fraction | None) -> float:
    return 1e300 if omega is None else float_down(omega - 1)


def _log_delta_at(excess: Fraction, epsilon: Fraction, rho: Fraction) -> float:
    """Return ln(delta) at the order 1 + excess; the exponent is exact."""
    exponent = excess * ((1 + excess) * rho - epsilon)
    gap = float(excess)
    rest = -math.log(gap) + (1 + gap) * _log_one_minus_inverse(gap)
    # The parts may cancel: their own rounding is charged here.
    slop = 4e-16 * (abs(float(exponent)) + abs(math.log(gap)) + abs(rest))
    return float(exponent) + rest + slop


def _log_one_minus_inverse(gap: float) -> float:
    """Return ln(1 - 1/alpha) for alpha = 1 + gap."""
    return -math.log1p(1 / gap)


def _best_excess(epsilon: float, rho: float) -> float:
    """Return alpha - 1 where (2 alpha - 1) rho - epsilon + ln(1 - 1/alpha) = 0."""
    low, high = math.log(1e-300), math.log(1e300)
    for _ in range(64):
        middle = (low + high) / 2
        gap = math.exp(middle)
        if (2 * gap + 1) * rho - epsilon + _log_one_minus_inverse(gap) < 0:
            low = middle
        else:
            high = middle
    return min(max(math.exp((low + high) / 2), 1e-300), 1e300)


def epsilon(
    log_target: float,
    rho: Fraction,
    xi: Fraction = _NOTHING,
    largest: float = 1e300,
) -> float:
    """Return the least certified epsilon >= 0 with ln(delta) <= `log_target`.

    For each order, epsilon = alpha rho + ln(1 - 1/alpha)
    - (ln delta + ln alpha)/(alpha - 1), and the optimum has
    epsilon = (2 alpha - 1) rho + ln(1 - 1/alpha).
    """
    if rho > _LARGEST_RHO:  # order 2 (or the largest), generously
        order = Fraction(min(1.0, largest))
        return float_up(xi + 2 * rho - Fraction(log_target) / order)
    rho = max(rho, _LEAST_RHO)
    approximate = float(rho)
    low, high = -300 * math.log(10), 300 * math.log(10)
    for _ in range(64):
        middle = (low + high) / 2
        gap = math.exp(middle)
        stationary = (2 * gap + 1) * approximate + _log_one_minus_inverse(gap)
        if _epsilon_at(gap, log_target, approximate) > stationary:
            low = middle
        else:
            high = middle
    gap = min(largest, math.exp((low + high) / 2))
    exact_part = (1 + Fraction(gap)) * rho + xi
    rest = _log_one_minus_inverse(gap) - (log_target + math.log1p(gap)) / gap
    slop = 1e-15 * (
        abs(_log_one_minus_inverse(gap))
        + (abs(log_target) + math.log1p(gap)) / gap
        + float(exact_part)
    )
    return max(0.0, float_up(exact_part + Fraction(rest) + Fraction(slop)))


def _epsilon_at(gap: float, log_target: float, rho: float) -> float:
    return (
        (1 + gap) * rho
        + _log_one_minus_inverse(gap)
        - (log_target + math.log1p(gap)) / gap
    )
