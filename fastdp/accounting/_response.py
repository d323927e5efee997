"""Randomizers whose privacy loss is ln(p/q), 0 or -ln(p/q): exact guarantees.

The proofs are in docs/proofs/accounting.md, section 2.
"""

from __future__ import annotations

import decimal
import math
from fractions import Fraction

from fastdp.accounting._numeric import decimal_up, float_up, precise, to_decimal

#: Relative error that is charged to the 60-digit evaluations below.
_ERROR = Fraction(1, 10**40)


def log_ratio(p: Fraction, q: Fraction) -> float:
    """Return ln(p/q) rounded up, for p >= q > 0."""
    if p == q:
        return 0.0
    # ln(1 + x) of a small x loses the digits that 1 + x spends on the 1.
    lost = max(0, _digits(q / (p - q)))
    context = precise(60 + lost)
    return decimal_up(to_decimal(p / q, context).ln(context), _ERROR)


def epsilon(p: Fraction, q: Fraction, delta: Fraction) -> float:
    """Return the least epsilon at `delta`, ln((p - delta)/q), rounded up."""
    return 0.0 if p - delta <= q else log_ratio(p - delta, q)


def delta(p: Fraction, q: Fraction, epsilon: Fraction) -> float:
    """Return max(0, p - exp(epsilon) q), rounded up."""
    if p == q:
        return 0.0
    lost = max(0, _digits(p / (p - q)))
    context = precise(80 + lost)
    with decimal.localcontext(context):
        gap = 1 - to_decimal(q / p, context) * to_decimal(epsilon, context).exp()
    # Where the difference matters, its parts are at most 1.
    upper = gap + decimal.Decimal(1).scaleb(-60 - lost)
    return 0.0 if upper <= 0 else float_up(p * Fraction(upper))


def rho(p: Fraction, q: Fraction) -> float:
    """Return rho under zero-concentrated privacy, rounded up."""
    if p == q:
        return 0.0
    # t = (p - q)/(p + q) is tanh of half the loss.
    return float_up(Fraction(log_ratio(p, q)) * (p - q) / (p + q))


def _digits(value: Fraction) -> int:
    """Return about log10(value), rounded up."""
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    return math.ceil((bits + 1) * 0.30103)
