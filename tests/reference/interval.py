"""Uniform reals as bit strings and exponentials as intervals, for the samplers here.

Nothing is shared with the package: this is what its arithmetic is tested
against. Intervals are pairs of integers in units of 2**-bits; lower ends are
computed with floors only and upper ends with ceilings only.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

#: ``more(k)``: extension block k of a trial, 16 bytes.
More = Callable[[int], bytes]


@lru_cache(maxsize=1 << 16)
def exp_minus(r: Fraction, bits: int) -> tuple[int, int]:
    """Enclose 2**bits * exp(-r), r >= 0, as 1 / exp(r / 2**k)**(2**k)."""
    if r > bits:
        return 0, 1
    halvings = int(r).bit_length() + 4
    point = bits + halvings + 20
    x_lo = int(r * 2 ** (point - halvings))
    x_hi = x_lo + 1
    lo = hi = term_lo = term_hi = 1 << point
    n = 0
    while term_hi > 1:
        n += 1
        term_lo = term_lo * x_lo // (n << point)
        term_hi = -(-term_hi * x_hi // (n << point))
        lo, hi = lo + term_lo, hi + term_hi
    hi += term_hi  # the rest of the series: every term is below half the last
    for _ in range(halvings):
        lo, hi = lo * lo >> point, -(-hi * hi >> point)
    one = 1 << (point + bits)
    return one // hi, -(-one // lo)


def precision(nbits: int) -> int:
    """Bits of a threshold for a uniform with `nbits` known bits."""
    return max(256, nbits + 64)


def side(prefix: int, nbits: int, lo: int, hi: int, bits: int) -> int:
    """Return -1 or +1 if the uniform is below or above the threshold, else 0."""
    if (prefix + 1) << (bits - nbits) <= lo:
        return -1
    return 1 if prefix << (bits - nbits) >= hi else 0


def step_of(
    prefix: int, nbits: int, threshold: Callable[[int, int], tuple[int, int]]
) -> int | None:
    """Return the k >= 0 with threshold k + 1 < uniform < threshold k, by bisection.

    Thresholds decrease in k; the uniform is known to be below threshold 0.
    None if the known bits do not decide.
    """
    bits = precision(nbits)
    below, above = 0, 1
    while (where := side(prefix, nbits, *threshold(above, bits), bits)) == -1:
        below, above = above, 2 * above
    if where == 0:
        return None
    while above - below > 1:
        middle = (below + above) // 2
        where = side(prefix, nbits, *threshold(middle, bits), bits)
        if where == 0:
            return None
        below, above = (middle, above) if where == -1 else (below, middle)
    return below


def read(
    prefix: int,
    nbits: int,
    more: More,
    decide: Callable[[int, int], int | None],
    first: int = 0,
) -> int:
    """Append extension blocks from number `first` on until `decide` has an answer."""
    k = first
    while (answer := decide(prefix, nbits)) is None:
        block = more(k)
        for half in (block[:8], block[8:]):
            prefix = prefix << 64 | int.from_bytes(half, "little")
        nbits, k = nbits + 128, k + 1
    return answer


def less(
    prefix: int, nbits: int, more: More, bound: Callable[[int], tuple[int, int]]
) -> bool:
    """Tell whether the uniform is below the bound (at equality it is not)."""

    def decide(a: int, n: int) -> int | None:
        bits = precision(n)
        return side(a, n, *bound(bits), bits) or None

    return read(prefix, nbits, more, decide) == -1
