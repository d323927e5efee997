"""Subset selection from given words: a set of k of d categories.

One word of 64 bits tells whether the own category is in the set, with a probability in
units of 2**-64. The others, numbers 0 ... d - 2 of which the own one's stands for the
last category, are chosen by Floyd's algorithm: for each `last` a uniform number up to
it, or `last` itself where that one is taken. Uniform numbers by Lemire's rejection,
from words of 32 bits.
"""

from collections.abc import Iterator, Sequence


def subset(own: int, d: int, k: int, has: bool, drawn: Sequence[int]) -> set[int]:
    """Return the set from the uniform numbers; each step takes one of them."""
    size = k - has
    chosen: set[int] = set()
    for last, t in zip(range(d - 1 - size, d - 1), drawn, strict=True):
        chosen.add(t if t not in chosen else last)
    return {d - 1 if t == own else t for t in chosen} | ({own} if has else set())


def ranges(d: int, k: int, has: bool) -> list[int]:
    """Return how many values the uniform number of each step has."""
    return list(range(d - (k - has), d))


def below(words: Iterator[int], n: int) -> int:
    """Return a uniform number below n: the surplus of 2**32 words is drawn again."""
    while True:
        high, low = divmod(next(words) * n, 2**32)
        if low >= 2**32 % n:
            return high


def row(own: int, d: int, k: int, truth: int, words: Iterator[int]) -> bytes:
    """Return a report, packed as np.packbits does; truth in units of 2**-64."""
    low, high = next(words), next(words)
    has = high << 32 | low < truth
    drawn = [below(words, n) for n in ranges(d, k, has)]
    found = sum(1 << (8 * -(-d // 8) - 1 - v) for v in subset(own, d, k, has, drawn))
    return found.to_bytes(-(-d // 8), "big")
