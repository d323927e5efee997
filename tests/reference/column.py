"""Integers of a column, as docs/proofs/sums.md states them."""

import math
from fractions import Fraction


def row(x, bounds, bits):
    """The integers (1, u, u^2 - 1/2) of one record, by the statement."""
    low, high = bounds
    if math.isnan(x):
        return (0, 0, 0)
    half = high / 2 - low / 2
    unit = (min(max(x, low), high) - (low + half)) * (1 / half)
    u = math.floor(Fraction(unit) * 2**bits + Fraction(1, 2))
    u = min(max(u, -(2**bits)), 2**bits)
    return (1, u, math.floor(Fraction(u * u, 2**bits) + Fraction(1, 2)) - 2**bits // 2)
