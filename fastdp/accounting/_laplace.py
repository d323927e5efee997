"""Discrete Laplace noise: exact profile, exact rho, exact truncation.

Proofs are in docs/proofs/calibration.md, section 5: for an L1 sensitivity over any
number of coordinates, the worst case changes one coordinate by the whole sensitivity,
and rho is the Kullback-Leibler divergence of that pair.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

from fastdp.accounting._numeric import (
    decimal_up,
    float_up,
    inflate,
    log_fraction,
    near_floor,
    precise,
    to_decimal,
)


def whole(sensitivity: Fraction) -> int:
    """Return the largest L1 distance of integer answers; at least 1."""
    return max(1, near_floor(sensitivity))


def log_delta(epsilon: Fraction, sensitivity: Fraction, scale: Fraction) -> float:
    """Return ln(delta(epsilon)) rounded up; -inf from the pure epsilon on.

    With q = exp(-1/scale), r = (shift - epsilon scale)/2 > 0, r = j + f, j integer,
    0 < f <= 1: delta = (1 - q^j) + q^j (1 - q^(2f))/(1 + q).
    """
    half = (whole(sensitivity) - epsilon * scale) / 2
    if half <= 0:
        return -math.inf
    j = math.ceil(half) - 1
    rate = 1 / scale
    most = Fraction(800)  # exp(-800) is below the least double
    whole_part = float(min(rate * j, most))
    last_part = float(min(2 * rate * (half - j), most))
    q = math.exp(-min(float(rate), 800.0)) if rate < 10**6 else 0.0
    last = math.exp(-whole_part) * -math.expm1(-last_part) / (1 + q)
    delta = -math.expm1(-whole_part) + last
    return inflate(math.log(min(1.0, delta)))


def rho(sensitivity: Fraction, scale: Fraction) -> float:
    """Return a (shift - 2 q (1 - q^shift)/(1 - q^2)) rounded up, a = 1/scale."""
    shift, rate = whole(sensitivity), 1 / scale
    # The difference cancels to about (a shift)/2 of its parts, (a shift^2)/2 ...
    lost = 2 * max(0, _digits(scale)) + _digits(Fraction(shift))
    context = precise(40 + lost)
    with decimal.localcontext(context):
        a = to_decimal(rate, context)
        q = (-a).exp()
        q_shift = (-a * shift).exp()
        value = a * (shift - 2 * q * (1 - q_shift) / (1 - q * q))
    # The divergence is never above the pure epsilon, which is exact.
    return min(decimal_up(value, Fraction(1, 10**25)), float_up(rate * shift))


def _digits(value: Fraction) -> int:
    """Return about log10(value), rounded up."""
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    return math.ceil((bits + 1) * 0.30103)


def continuous_log_delta(epsilon: Fraction, pure_epsilon: Fraction) -> float:
    """Return ln(1 - exp((epsilon - pure_epsilon)/2)) rounded up."""
    gap = (pure_epsilon - epsilon) / 2
    if gap <= 0:
        return -math.inf
    if gap < Fraction(1, 10**300):  # 1 - exp(-x) <= x
        return inflate(log_fraction(gap))
    return inflate(math.log(-math.expm1(-float(min(gap, Fraction(800))))))


def continuous_rho(pure_epsilon: Fraction) -> float:
    """Return e + exp(-e) - 1 for e = `pure_epsilon`, rounded up."""
    lost = 2 * max(0, _digits(1 / pure_epsilon))
    context = precise(40 + lost)
    with decimal.localcontext(context):
        e = to_decimal(pure_epsilon, context)
        value = e + (-e).exp() - 1
    return decimal_up(value, Fraction(1, 10**25))


def truncated_tail(shift: int, scale: Fraction, bound: int) -> float:
    """Return P(X > bound - shift), rounded up, for 1 <= shift <= bound."""
    lost = 2 * max(0, _digits(scale)) + _digits(Fraction(bound))
    context = precise(40 + lost)
    with decimal.localcontext(context):
        q = to_decimal(-1 / scale, context).exp()
        first = to_decimal(-(bound - shift + 1) / scale, context).exp()
        last = to_decimal(-(bound + 1) / scale, context).exp()
        value = (first - last) / (1 + q - 2 * last)
    return decimal_up(value, Fraction(1, 10**25))


def truncation_bound(shift: int, scale: Fraction, delta: Fraction) -> int:
    """Return the least bound >= shift whose exact tail sum of `shift` is <= delta.

    The tail is at most delta if and only if bound + 1 is at least
    scale ln((q^-shift - 1 + 2 delta)/(delta (1 + q))), which is never an integer
    (q is transcendental), so enough digits always decide.
    """
    digits = 60 + _digits(max(scale, Fraction(1)))
    while True:
        context = precise(digits + _digits(shift / scale + 1))
        with decimal.localcontext(context):
            q = to_decimal(-1 / scale, context).exp()
            growth = to_decimal(shift / scale, context).exp()
            d = to_decimal(delta, context)
            ratio = (growth - 1 + 2 * d) / (d * (1 + q))
            place = to_decimal(scale, context) * ratio.ln()
            # All operations err by at most one unit in the last digit; the
            # logarithm's argument and the product lose a few of them.
            error = (abs(place) + to_decimal(scale, context)) * Decimal(10) ** (
                20 - digits
            )
            low, high = math.ceil(place - error), math.ceil(place + error)
        if low == high:
            return max(shift, low - 1)
        digits *= 2
