"""Discrete Laplace, P(X = x) proportional to exp(-|x|/t), from given words."""

from fractions import Fraction
from functools import lru_cache

from tests.reference.interval import (
    More,
    exp_minus,
    less,
    precision,
    read,
    side,
    step_of,
)


@lru_cache(maxsize=64)
def theta(t: Fraction, bits: int) -> tuple[int, int]:
    """Enclose P(X < 0) = q / (1 + q) with q = exp(-1/t)."""
    lo, hi = exp_minus(1 / t, bits)
    one = 1 << bits
    return (lo << bits) // (one + lo), -(-(hi << bits) // (one + hi))


@lru_cache(maxsize=1 << 16)
def edge(t: Fraction, k: int, negative: bool, bits: int) -> tuple[int, int]:
    """Enclose the upper end of the uniforms that give ~k (negative) or k.

    Below theta they are theta * q**k, above it theta + (1 - theta) * q**k.
    """
    low, high = theta(t, bits)
    lo, hi = exp_minus(k / t, bits)
    if negative:
        return low * lo >> bits, (high * hi >> bits) + 1
    one = 1 << bits
    return low + ((one - low) * lo >> bits), high + ((one - high) * hi >> bits) + 1


def sample(t: Fraction, word: int, nbits: int, more: More) -> int:
    """Return the value of one uniform with the first bits `word` (t <= 4096)."""

    def decide(a: int, n: int) -> int | None:
        bits = precision(n)
        where = side(a, n, *theta(t, bits), bits)
        if where == 0:
            return None
        k = step_of(a, n, lambda k, bits: edge(t, k, where == -1, bits))
        return k if k is None or where == 1 else ~k

    return read(word, nbits, more, decide)


def sample_wide(t: Fraction, word1: int, word2: int, more: More) -> int | None:
    """Return the value of words of 32 and 64 bits, or None if rejected (t > 4096).

    word1 begins a uniform U with H = floor(-t' ln U), t' = t / 2**j in
    [2048, 4096), which goes on in blocks 2**20 and on. word2 is [V | L | s]
    with j bits of L and one of s; V goes on in blocks 0 and on.
    """
    j = 1
    while t >= 4096 * 2**j:
        j += 1
    sign, low, v = word2 % 2, word2 // 2 % 2**j, word2 >> (j + 1)

    def acceptance(bits: int) -> tuple[int, int]:
        # Accepted if V >= 1 - exp(-(L + s)/t).
        lo, hi = exp_minus((low + sign) / t, bits)
        return (1 << bits) - hi, (1 << bits) - lo

    if low + sign > 0 and less(v, 63 - j, more, acceptance):
        return None

    def decide(a: int, n: int) -> int | None:
        return step_of(a, n, lambda k, bits: exp_minus(k * 2**j / t, bits))

    g: int = 2**j * read(word1, 32, more, decide, first=2**20) + low
    return -1 - g if sign else g
