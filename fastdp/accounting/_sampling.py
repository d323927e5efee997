"""Amplification by sampling: delta'(ln(1 + rate (e^x - 1))) = rate delta(x).

Tight for Poisson sampling when a record is added or removed and for subsets of fixed
size when one is replaced (Balle, Barthe and Gaboardi 2018, Theorems 8 and 9).
"""

from __future__ import annotations

import math
from fractions import Fraction

from fastdp._validate import float_down, float_up
from fastdp.accounting._numeric import log_fraction

#: From here on e^epsilon - 1 is taken for e^epsilon (upward).
_LARGE = 40


def amplified_epsilon(rate: Fraction, epsilon: Fraction) -> float:
    """Return ln(1 + rate (exp(epsilon) - 1)), rounded up."""
    whole = float_up(epsilon)
    if rate == 1 or epsilon == 0:
        return whole
    if epsilon <= _LARGE:
        value = math.log1p(float_up(rate) * math.expm1(whole))
    else:  # softplus of ln(rate) + epsilon
        head = float_up(Fraction(log_fraction(rate)) + epsilon)
        value = max(head, 0.0) + math.log1p(math.exp(-abs(head)))
        value += 1e-15 * -log_fraction(rate)
    return min(whole, math.nextafter(value * (1 + 4e-15), math.inf))


def inner_epsilon(rate: Fraction, epsilon: Fraction) -> Fraction:
    """Return ln(1 + (exp(epsilon) - 1)/rate), rounded down: `amplified` backwards."""
    if rate == 1 or epsilon == 0:
        return epsilon
    if epsilon > 700:  # what is left out is below e^-700
        gain = -log_fraction(rate) * (1 - 1e-15) - 1e-300
        return epsilon + max(Fraction(0), Fraction(gain))
    grown = math.expm1(float_down(epsilon))
    log_grown = math.log(grown) - log_fraction(rate) if grown > 0 else -math.inf
    if log_grown > _LARGE:  # ln(1 + x) > ln(x)
        return Fraction(log_grown * (1 - 1e-13))
    return Fraction(max(0.0, math.log1p(math.exp(log_grown)) * (1 - 1e-13)))


def times_rate(log_delta: float, rate: Fraction) -> float:
    """Return ln(rate) + log_delta, rounded up."""
    log_rate = log_fraction(rate)
    return min(0.0, log_rate + log_delta + 1e-15 * (abs(log_rate) + 1))
