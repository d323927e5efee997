"""Bernoulli bits from given words, eight at a time, by an alias table with exact cuts.

A chunk has blocks of 64 patterns. A block's words are 64 columns and then 64 bytes,
the first ones of each pattern's U; behind all blocks of a chunk lies a byte of fair
bits for each pattern, and behind these the further bits of ties, a unit for 64 ranks.
A pattern is a byte of packed bits, the first element on top.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tests.reference.interval import More, less

PATTERNS = 4096
BLOCK = 64
FAIR = 2 * PATTERNS
TIES = 3 * PATTERNS
UNIT = 1024


def scaled(theta: Fraction) -> Callable[[int], tuple[int, int]]:
    """Enclose 2**bits * theta: the two are equal if that is an integer."""
    return lambda bits: (
        (theta.numerator << bits) // theta.denominator,
        -(-(theta.numerator << bits) // theta.denominator),
    )


class Table(NamedTuple):
    """Column c yields alias[c] if U < cut[c], else c."""

    cut: list[Fraction]
    alias: list[int]


def probability(p: Fraction, pattern: int) -> Fraction:
    """Return the probability of eight independent bits."""
    ones = pattern.bit_count()
    return p**ones * (1 - p) ** (8 - ones)


def table(p: Fraction) -> Table:
    """Give each column of width 1 its own pattern and what another has too much.

    The last of the columns that lack something takes from the last that has more.
    """
    mass = [256 * probability(p, c) for c in range(256)]
    lacking = [c for c in range(256) if mass[c] < 1]
    giving = [c for c in range(256) if mass[c] > 1]
    cut, alias = [Fraction(0)] * 256, list(range(256))
    while lacking:
        c, giver = lacking.pop(), giving[-1]
        cut[c], alias[c] = 1 - mass[c], giver
        mass[giver] -= cut[c]
        if mass[giver] <= 1:
            giving.pop()
        if mass[giver] < 1:
            lacking.append(giver)
    return Table(cut, alias)


def law(of: Table) -> list[Fraction]:
    """Return the probability of each pattern, a uniform column and a uniform real U."""
    total = [Fraction(0)] * 256
    for c in range(256):
        total[c] += (1 - of.cut[c]) / 256
        total[of.alias[c]] += of.cut[c] / 256
    return total


def places(raw: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns and the first bytes of U of whole blocks."""
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, 2, BLOCK)
    return blocks[:, 0].reshape(-1), blocks[:, 1].reshape(-1)


def rank_bits(unit: bytes, rank: int) -> int:
    """Return the 56 further bits of a tie: seven planes of 64 bytes in its unit."""
    return int.from_bytes(unit[rank % 64 : 448 : 64], "big")


def patterns(
    of: Table, raw: bytes, unit: Callable[[int], bytes], more: Callable[[int], More]
) -> np.ndarray:
    """Return the patterns of whole blocks.

    Where the first byte of U is that of the cut, the pattern is a tie. Ties are counted
    through the chunk; that of rank r has 56 bits of unit r // 64, and then those of the
    extension blocks of its place.
    """
    column, u = places(raw)
    first = np.array([min(int(256 * cut), 255) for cut in of.cut])
    out = np.where(u < first[column], np.array(of.alias)[column], column)
    for rank, i in enumerate(np.flatnonzero(u == first[column]).tolist()):
        c = int(column[i])
        prefix = int(u[i]) << 56 | rank_bits(unit(rank // 64), rank)
        if less(prefix, 64, more(i), scaled(of.cut[c])):
            out[i] = of.alias[c]
        else:
            out[i] = c
    return out.astype(np.uint8)


def flips(
    p: Fraction, raw: bytes, unit: Callable[[int], bytes], more: Callable[[int], More]
) -> np.ndarray:
    """Return the bits of the elements of whole blocks: 1 with probability p."""
    return np.unpackbits(patterns(table(p), raw, unit, more)).astype(bool)


def answers(
    x: np.ndarray, flip: np.ndarray, coin: np.ndarray, other: int
) -> np.ndarray:
    """Return the reports of 0/1 values. A value that is neither counts as `other`,
    or is answered by a fair coin if that is -1.
    """
    inside = (x == 0) | (x == 1)
    outside = coin if other == -1 else flip ^ bool(other)
    return np.where(inside, (x == 1) ^ flip, outside)
