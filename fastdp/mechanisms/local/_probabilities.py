"""Probabilities of randomized responses: multiples of 2**-64, with private rounding.

e**epsilon is never computed as a float: integer enclosures decide every digit.
"""

from __future__ import annotations

from fractions import Fraction

from fastdp import _validate
from fastdp._exact import exp_neg
from fastdp._validate import Real
from fastdp.exceptions import CalibrationError, ParameterError

#: Probabilities are multiples of 1/UNIT.
UNIT = 2**64


def floor_unit(p: Fraction) -> Fraction:
    """Return the greatest multiple of 2**-64 that is at most `p`."""
    return Fraction(p.numerator * UNIT // p.denominator, UNIT)


def ceil_unit(p: Fraction) -> Fraction:
    """Return the least multiple of 2**-64 that is at least `p`."""
    return -floor_unit(-p)


def ratio_of(epsilon: Fraction, most: Fraction) -> Fraction:
    """Return e**epsilon, rounded down to a multiple of 2**-64; at most `most`."""
    bits = 128
    while True:
        low_exp, high_exp = exp_neg(epsilon.numerator, epsilon.denominator, bits)
        if low_exp * most <= 1 << bits:
            return most
        low, high = (UNIT << bits) // high_exp, (UNIT << bits) // low_exp
        if low == high:
            return Fraction(low, UNIT)
        bits *= 2  # ends: exp of a rational other than 0 is irrational


def truth_of(epsilon: Real, categories: int | Fraction, shares: int = 1) -> Fraction:
    """Return the probability of the truth among `categories` for epsilon/`shares`.

    It is e**x/(e**x + categories - 1), x = epsilon/shares, rounded down to a multiple
    of 2**-64; all other categories are equally likely. For subsets of size k of d
    categories, `categories` is d/k.

    Raises
    ------
    DTypeError, ParameterError
        epsilon is not a finite real > 0.
    CalibrationError
        No probability above the useless 1/categories meets epsilon.
    """
    exact = _validate.positive("epsilon", _validate.least_reading(epsilon)) / shares
    others, bits = categories - 1, 128
    while True:
        low_exp, high_exp = exp_neg(exact.numerator, exact.denominator, bits)
        low = (UNIT << bits) // ((1 << bits) + others * high_exp)
        high = (UNIT << bits) // ((1 << bits) + others * low_exp)
        if low == min(high, UNIT - 1):  # the probability stays below 1
            break
        bits *= 2  # ends: exp of a rational other than 0 is irrational
    if low * categories <= UNIT:
        raise CalibrationError(
            "epsilon must leave a multiple of 2**-64 above "
            f"{1 / Fraction(categories)} for the probability of the truth, "
            f"got {epsilon!r}"
        )
    return Fraction(low, UNIT)


def checked_truth(p: Real, categories: int | Fraction) -> Fraction:
    """Return the probability `p` of the truth, rounded down to a multiple of 2**-64.

    Raises
    ------
    DTypeError, ParameterError
        `p` is not a real number below 1, or not above 1/categories when rounded.
    """
    exact = floor_unit(_validate.open_unit("p", p))
    if exact * categories <= 1:
        raise ParameterError(
            f"p must be above {1 / Fraction(categories)} after rounding down to a "
            f"multiple of 2**-64, got {p!r}"
        )
    return exact
