"""Discrete Gaussian, P(X = x) proportional to exp(-x**2 / (2 sigma**2)).

The step hat is data: any heights n and unit c give the same law as long as
n[h] * c is nowhere below the weight (which has a test of its own).
"""

from fractions import Fraction
from typing import Protocol

from tests.reference.interval import More, exp_minus, less, read, step_of


class Hat(Protocol):
    """The public table: block heights n * c and their alias columns."""

    n: tuple[int, ...]
    c: float
    ap: bytes
    alias: bytes


def shift(sigma: Fraction) -> int:
    """Return the least j >= 0 with sigma / 2**j < 4."""
    j = 0
    while sigma >= 4 * 2**j:
        j += 1
    return j


def words(sigma: Fraction, word1: int, word2: int) -> tuple[int, int, int, int]:
    """Return L, s, V and the number of bits of V.

    j <= 8: word1 is [V | L | s] of 32 bits; beyond: word1 is [V | s] of 32
    bits, and L is the top j bits of the 64 of word2.
    """
    j = shift(sigma)
    if j > 8:
        return word2 >> (64 - j), word1 % 2, word1 // 2, 31
    return word1 // 2 % 2**j, word1 % 2, word1 >> (j + 1), 31 - j


def sample(
    sigma: Fraction, hat: Hat, selector: int, word1: int, word2: int, more: More
) -> int | None:
    """Return the value of the words of one trial, or None if it is rejected."""
    column, u = selector // 256 % 32, selector % 256
    h = hat.alias[column] if u < hat.ap[column] else column
    j = shift(sigma)
    low, sign, v, vbits = words(sigma, word1, word2)
    height = hat.n[h] * Fraction(hat.c)
    m: int = h * 2**j + low
    if h == 31:
        # 31 * 2**j + G, where G is geometric with ratio r = exp(-M/sigma**2).
        m = 31 * 2**j
        rate = m / sigma**2
        height *= 2**j

        def decide(a: int, n: int) -> int | None:
            return step_of(a, n, lambda k, bits: exp_minus(k * rate, bits))

        g = read(0, 0, more, decide, first=2**20)
        exponent = (m * m + g * g) / (2 * sigma**2)
        m += g
    else:
        exponent = m * m / (2 * sigma**2)

    def acceptance(bits: int) -> tuple[int, int]:
        """Enclose the weight over the height; f(0) is halved."""
        lo, hi = exp_minus(exponent, bits)
        low_height = high_height = 2 * height if m == 0 else height
        if h == 31:
            one = 1 << (bits + j)
            r_lo, r_hi = exp_minus(rate, bits + j)
            low_height = height * Fraction(one - r_hi, one)
            high_height = height * Fraction(one - r_lo, one)
        return int(lo / high_height), -int(-hi // low_height)

    if not less(v, vbits, more, acceptance):
        return None
    return -m if sign else m
