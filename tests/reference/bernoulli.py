"""Bernoulli bits from given words: U < p, with as many bits of U as that takes.

A chunk has groups of 8192 lanes. A group's words are a byte for each lane, the
first 8 bits of its U; a spare word of 64 bits for each 64 lanes; and a word of
fair bits for each 64 lanes. Element e is lane e ^ 7.
"""

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tests.reference.interval import More, less

LANES = 8192
GROUP_BYTES = LANES + 2 * LANES // 8


def scaled(theta: Fraction) -> Callable[[int], tuple[int, int]]:
    """Enclose 2**bits * theta: the two are equal if that is an integer."""
    return lambda bits: (
        (theta.numerator << bits) // theta.denominator,
        -(-(theta.numerator << bits) // theta.denominator),
    )


def _parts(raw: bytes) -> list[np.ndarray]:
    groups = np.frombuffer(raw, np.uint8).reshape(-1, GROUP_BYTES)
    ends = (0, LANES, LANES + LANES // 8, GROUP_BYTES)
    return [
        np.ascontiguousarray(groups[:, a:b]).reshape(-1)
        for a, b in itertools.pairwise(ends)
    ]


def lanes(p: Fraction, raw: bytes, more: Callable[[int], More]) -> np.ndarray:
    """Return [U < min(p, 1 - p)] for the lanes of whole groups.

    A lane whose byte does not decide is a tie. The first four ties of 64 lanes
    take the next 16 bits from their spare word, lowest first; then all read on.
    """
    lesser = min(p, 1 - p)
    first = int(256 * lesser)
    byte, spare = _parts(raw)[:2]
    spares = spare.view("<u8").tolist()
    hit = byte < first
    ties = np.flatnonzero(byte == first).tolist() if 256 * lesser > first else []
    block, rank = -1, 0
    for lane in ties:
        rank = rank + 1 if lane // 64 == block else 0
        block = lane // 64
        prefix, nbits = first, 8
        if rank < 4:
            prefix = first << 16 | spares[block] >> (16 * rank) & 0xFFFF
            nbits = 24
        hit[lane] = less(prefix, nbits, more(lane), scaled(lesser))
    return hit


def elements(lane: np.ndarray) -> np.ndarray:
    """Put lanes in the order of the elements."""
    return lane.reshape(-1, 8)[:, ::-1].reshape(-1)


def flips(p: Fraction, raw: bytes, more: Callable[[int], More]) -> np.ndarray:
    """Return the bits of the elements of whole groups: 1 with probability p."""
    return elements(lanes(p, raw, more)) ^ (p > Fraction(1, 2))


def fair(raw: bytes) -> np.ndarray:
    """Return the fair bits of the elements of whole groups."""
    return elements(np.unpackbits(_parts(raw)[2], bitorder="little")).astype(bool)


def answers(
    x: np.ndarray, flip: np.ndarray, coin: np.ndarray, other: int
) -> np.ndarray:
    """Return the reports of 0/1 values. A value that is neither counts as `other`,
    or is answered by a fair coin if that is -1.
    """
    inside = (x == 0) | (x == 1)
    outside = coin if other == -1 else flip ^ bool(other)
    return np.where(inside, (x == 1) ^ flip, outside)
