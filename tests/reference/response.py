"""k-ary response from given words: one uniform real U for each label.

With c = (k - 1)/(1 - P), the step is E = min(floor(U c), k - 1) and the report the
label 1 + E places on, modulo k: P(E = k - 1) = P, and each other step has 1/c. A label
that is to get a uniform report starts from 0 and has c = k.

A chunk has a word for each lane, whole blocks of 64 lanes. Those whose words leave
them open, by the rule of `opened`, are counted through the chunk: that of rank r has
the r-th share of 64 further bits, and goes on in the extension blocks of its own place.

A relabeling (P = 1) draws uniform labels from words without a remainder: one that says
nothing is replaced by words of 64 bits, in order, whatever the label of its lane.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tests.reference.interval import More, read

#: Ranks whose further bits lie together, 10 bytes each, and bytes between passes.
GROUP = 16
UNIT = 2048


def word_bits(k: int, truth: Fraction = Fraction(1, 2)) -> int:
    """Return the bits of a lane's word."""
    if truth == 1:
        return 16 if k <= 2**15 and 2**16 % k <= 2**11 else 32
    return 16 if k <= 64 else 32 if k <= 2**16 else 64


def chunk(k: int, truth: Fraction = Fraction(1, 2)) -> int:
    """Return the labels of a chunk."""
    return 8192 if word_bits(k, truth) == 16 else 4096


def slots(k: int, lanes: int) -> int:
    """Return the open lanes of a pass."""
    if lanes <= 64 or k > 64:
        return 16
    return 48 if k <= 16 else 112


def rank_offset(k: int, lanes: int, rank: int) -> int:
    """Return where in the chunk the 8 bytes of a rank lie."""
    passes, r = divmod(rank, slots(k, lanes))
    start = chunk(k) * word_bits(k) // 8 + UNIT * passes
    return start + 10 * GROUP * (r // GROUP) + 8 * (r % GROUP)


def rate(truth: Fraction, k: int) -> Fraction:
    """Return the number c of steps in the unit interval."""
    return (k - 1) / (1 - truth)


def opened(c: Fraction, k: int, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return E by the words alone, and the lanes that they leave open.

    Integers of b bits stand for c, in units of 2**-s, as large as they can be; s is at
    least 2.
    """
    b = word_bits(k)
    s = b - int(c).bit_length()
    if s >= 2:
        unit, least = int(c * 2**s), 2**s - 2
    else:
        s, unit, least = 2, 2**b - 1, 0
    if b == 64:
        words = words.astype(object)
    h = words * (unit if b == 64 else np.uint64(unit)) >> b
    step = np.minimum(h >> s, k - 1).astype(np.int64)
    near = (h & (2**s - 1) >= least).astype(bool)
    return step, near & (step < k - 1)


def settled(c: Fraction, k: int, prefix: int, nbits: int, more: More) -> int:
    """Return E, `nbits` bits of U being known."""

    def decide(a: int, n: int) -> int | None:
        lowest = min(int(a * c / 2**n), k - 1)
        highest = min(-int(-(a + 1) * c // 2**n) - 1, k - 1)
        return lowest if lowest == highest else None

    return read(prefix, nbits, more, decide)


def reports(
    truth: Fraction,
    k: int,
    x: np.ndarray,
    words: np.ndarray,
    bits: Callable[[int], int],
    more: Callable[[int], More],
    other: int = -1,
) -> np.ndarray:
    """Return the reports of the values of a chunk. The words fill whole blocks;
    bits(offset) are the 64 bits at a place of the chunk. `truth` is below 1.

    A value outside 0 ... k - 1 counts as `other`, or gets a uniform report if that
    is -1.
    """
    lanes = len(words)
    x = np.pad(x.astype(np.int64), (0, lanes - len(x)))
    inside = (x >= 0) & (x < k)
    value = np.where(inside, x, max(other, 0))
    fair = ~inside & (other == -1)
    step, near = opened(rate(truth, k), k, words)
    if fair.any():
        step_fair, near_fair = opened(Fraction(k), k, words)
        step, near = np.where(fair, step_fair, step), np.where(fair, near_fair, near)
    for rank, i in enumerate(np.flatnonzero(near).tolist()):
        c = Fraction(k) if fair[i] else rate(truth, k)
        prefix = int(words[i]) << 64 | bits(rank_offset(k, lanes, rank))
        step[i] = settled(c, k, prefix, word_bits(k) + 64, more(i))
    return (value + step + 1) % k


def labels(
    k: int,
    x: np.ndarray,
    words: np.ndarray,
    bits: Callable[[int], int],
    other: int = -1,
) -> np.ndarray:
    """Return the values of a chunk, those outside 0 ... k - 1 replaced by `other`, or
    by uniform labels if that is -1.
    """
    b = word_bits(k, Fraction(1))
    drawn, low = (a.tolist() for a in divmod(words.astype(np.int64) * k, 2**b))
    at = chunk(k, Fraction(1)) * b // 8
    for i in range(len(words)):
        n = b
        while low[i] < 2**n % k:
            n = 64
            drawn[i], low[i] = divmod(bits(at) * k, 2**n)
            at += 8
    x = np.pad(x.astype(np.int64), (0, len(words) - len(x)))
    instead = drawn if other == -1 else other
    return np.where((x >= 0) & (x < k), x, instead)
