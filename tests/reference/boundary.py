"""Words that agree with a threshold to their last known bit, and just beyond."""

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

import mpmath


def blocks(seed: int) -> Callable[[int], bytes]:
    """Random extension blocks, a function of their number."""
    return lambda k: random.Random(seed * 0x9E3779B97F4A7C15 + k).randbytes(16)


def spelled(
    full: int, nbits: int, prefix: int, first: int = 0
) -> tuple[int, Callable[[int], bytes]]:
    """Split `nbits` bits into a prefix and blocks from `first` on; then random ones."""
    rest = nbits - prefix
    assert rest % 128 == 0
    known = {}
    for i in range(rest // 128):
        part = full >> (rest - 128 * (i + 1)) & (1 << 128) - 1
        high, low = divmod(part, 1 << 64)
        known[first + i] = high.to_bytes(8, "little") + low.to_bytes(8, "little")
    other = blocks(full & 0xFFFF)
    return full >> rest, lambda k: known.get(k) or other(k)


def real(r: Fraction) -> mpmath.mpf:
    """A rational at mpmath's present precision."""
    return mpmath.mpf(r.numerator) / r.denominator


class Case(NamedTuple):
    """A word made at a threshold: `offset` units of bit `known` away from it."""

    offset: int
    word: int
    nbits: int
    block: Callable[[int], bytes]
    known: int


def near(
    edge: Callable[[], mpmath.mpf], prefixes: tuple[int, ...], blocks_more: int = 0
) -> Iterator[Case]:
    """Words that leave `edge` undecided until their last bit, on either side."""
    for nbits in prefixes:
        for extra in sorted({0, 1, blocks_more + 1}):
            known = nbits + 128 * extra
            with mpmath.workprec(known + 600):
                full = int(mpmath.floor(mpmath.ldexp(edge(), known)))
            for offset in (-1, 0, 1):
                if 0 <= full + offset < 1 << known:
                    word, block = spelled(full + offset, known, nbits)
                    yield Case(offset, word, nbits, block, known)
