"""Arithmetic on arrays of integers in units of 2^-bits, for sums that cancel.

Every number is an integer n that stands for n 2^-bits; arrays have dtype object and
complex numbers are pairs of arrays. A product is rounded down once, so that it errs by
less than two units for each part; the elementary functions say what they err by. (Sums
that fall 10^40 below their terms ask for as many digits and for nothing else.)
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

#: Integers of any size, by elements.
Integers = npt.NDArray[Any]
Pair = tuple[Integers, Integers]


def integers(values: list[int]) -> Integers:
    """Return an array of integers of any size."""
    result = np.empty(len(values), object)
    result[:] = values
    return result


def scaled(value: Fraction, bits: int) -> int:
    """Return value 2^bits, rounded down."""
    return (value.numerator << bits) // value.denominator


def times(a: Pair, b: Pair, bits: int) -> Pair:
    """Return the product of complex numbers, each part less than 1 unit too small."""
    real = (a[0] * b[0] - a[1] * b[1]) >> bits
    return real, (a[0] * b[1] + a[1] * b[0]) >> bits


def conjugate(a: Pair) -> Pair:
    """Return the complex conjugates."""
    return a[0], -a[1]


def power(base: Pair, exponent: int, bits: int) -> Pair:
    """Return base^exponent for numbers of modulus at most 1.

    Errors of the base count `exponent` times, and so do four units.
    """
    result = None
    while True:
        if exponent & 1:
            result = base if result is None else times(result, base, bits)
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        base = times(base, base, bits)


def powers(base: Pair, count: int, bits: int) -> Pair:
    """Return base^0, .. base^(count - 1) as rows, for numbers of modulus at most 1.

    Errors of the base and two units count as often as the exponent says.
    """
    row: Pair = (0 * base[0] + (1 << bits), 0 * base[0])
    rows = [row]
    for _ in range(count - 1):
        row = times(row, base, bits)
        rows.append(row)
    return np.stack([r for r, _ in rows]), np.stack([i for _, i in rows])


def falling(start: int, ratio: int, count: int, bits: int) -> Integers:
    """Return start ratio^j for j below `count`, 0 < ratio < 1: each 1 unit more off."""
    values = []
    for _ in range(count):
        values.append(start)
        start = (start * ratio) >> bits
    return integers(values)


def real_exp(x: int, bits: int) -> int:
    """Return exp(x), as `exp` does."""
    return int(exp((integers([x]), integers([0])), bits)[0][0])


def product(a: Pair, b: Pair, bits: int) -> Pair:
    """Return the matrix product, each element less than one unit too small."""
    one, other = np.dot(a[0], b[0]), np.dot(a[1], b[1])
    both = np.dot(a[0] + a[1], b[0] + b[1])
    return (one - other) >> bits, (both - one - other) >> bits


# ---- constants and functions -----------------------------------------------------


def _inverse_arc(kind: int, x: int, one: int) -> int:
    """Return atanh(1/x) (kind 1) or atan(1/x) (kind -1), below one unit per term."""
    term, total, n = one // x, one // x, 1
    while term:
        term = term // (x * x) * kind
        n += 2
        total += term // n
    return total


@functools.lru_cache(maxsize=64)
def log_of_2(bits: int) -> int:
    """Return ln 2, within one unit."""
    one = 1 << (bits + 32)
    parts = ((18, 26), (-2, 4801), (8, 8749))
    return sum(n * _inverse_arc(1, x, one) for n, x in parts) >> 32


@functools.lru_cache(maxsize=64)
def pi(bits: int) -> int:
    """Return pi, within one unit."""
    one = 1 << (bits + 32)
    parts = ((16, 5), (-4, 239))
    return sum(n * _inverse_arc(-1, x, one) for n, x in parts) >> 32


def exp(z: Pair, bits: int) -> Pair:
    """Return the exponential: errs by 2 units times 1 + its modulus.

    The argument is brought near 0 and halved, its Taylor series summed and squared
    back, with as many more bits as the squarings cost.
    """
    halvings = math.isqrt(bits) // 2 + 4
    work = bits + 2 * halvings + 24
    extra = work - bits
    log2, turn = log_of_2(work + 64), 2 * pi(work + 64)
    real, imag = z[0] << (extra + 64), z[1] << (extra + 64)
    exponent = (real + (log2 >> 1)) // log2
    real = (real - exponent * log2) >> (64 + halvings)
    imag = (imag - ((imag + (turn >> 1)) // turn) * turn) >> (64 + halvings)
    small: Pair = (real, imag)
    one = 1 << work
    terms = 2
    while math.lgamma(terms + 1) + terms * (halvings - 2) * math.log(2) < (
        work * math.log(2)
    ):
        terms += 1
    total: Pair = (0 * real + one, 0 * real)
    for n in range(terms, 0, -1):
        total = times(total, small, work)
        total = (total[0] // n + one, total[1] // n)
    for _ in range(halvings):
        total = times(total, total, work)
    return _shifted(total[0], exponent - extra), _shifted(total[1], exponent - extra)


def _shifted(value: Integers, left: Integers) -> Integers:
    up = np.maximum(left, 0)
    return np.asarray((value << up) >> (up - left))


def log(z: Pair, bits: int) -> Pair:
    """Return the principal logarithm of numbers of modulus 2^-60 to 2.

    It errs by 8 units times 1 + 1/modulus: from a guess in doubles, corrected by the
    series of ln(1 + d), d = z e^-guess - 1 being about 1e-15.
    """
    unit = 1 << bits
    guess = np.log(
        np.array([complex(a / unit, b / unit) for a, b in zip(*z, strict=True)])
    )
    start: Pair = (_fixed(guess.real, bits), _fixed(guess.imag, bits))
    work = bits + 64
    wide: Pair = (z[0] << 64, z[1] << 64)
    rest = times(wide, exp((-start[0] << 64, -start[1] << 64), work), work)
    rest = (rest[0] - (1 << work), rest[1])
    total, term = rest, rest
    for n in range(2, bits // 40 + 3):
        term = times(term, rest, work)
        sign = 1 if n % 2 else -1
        total = (total[0] + sign * term[0] // n, total[1] + sign * term[1] // n)
    return start[0] + (total[0] >> 64), start[1] + (total[1] >> 64)


def _fixed(values: npt.NDArray[np.float64], bits: int) -> Integers:
    """Return doubles, cut to 50 bits after the point, exactly that."""
    return integers([int(v) << (bits - 50) for v in np.rint(values * 2.0**50).tolist()])


def log_fraction(value: Fraction, bits: int) -> int:
    """Return ln of a positive rational, within 64 units and one per octave from 1."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    mantissa = value / Fraction(2) ** exponent  # 1/2 to 2
    z = integers([scaled(mantissa / 2, bits)]), integers([0])
    return int(log(z, bits)[0][0]) + (exponent + 1) * log_of_2(bits)
