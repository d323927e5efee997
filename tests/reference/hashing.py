"""The hash family of local hashing, its exact collisions, and the tally of reports.

A seed is a pair (a, b) of 32-bit words; category x of d, where u bits write every
category, has the hash word z = (a x + b mod 2**32) >> (32 - l) of l = 33 - u bits,
and the bucket floor(z g / 2**l) of g.
"""

import itertools
from fractions import Fraction

import numpy as np


def hash_bits(d: int) -> int:
    """Return l = 33 - u."""
    return 33 - max(1, (d - 1).bit_length())


def bucket(seed: int, x: int, d: int, g: int) -> int:
    """Return the bucket of a category under a seed of 64 bits, a in the lower half."""
    a, b = seed % 2**32, seed >> 32
    bits = hash_bits(d)
    z = (a * x + b) % 2**32 >> (32 - bits)
    return z * g >> bits


def buckets(seeds: np.ndarray, x: np.ndarray, d: int, g: int) -> np.ndarray:
    """Return the same for arrays: no product reaches 2**64."""
    bits = np.uint64(hash_bits(d))
    a, b = seeds & np.uint64(2**32 - 1), seeds >> np.uint64(32)
    z = (a * x.astype(np.uint64) + b) % np.uint64(2**32) >> np.uint64(32) - bits
    return (z * np.uint64(g) >> bits).astype(np.int64)


def bucket_sizes(size: int, g: int) -> list[int]:
    """Return how many of `size` hash words fall into each bucket."""
    starts = [-(-j * size // g) for j in range(g + 1)]
    return [b - a for a, b in itertools.pairwise(starts)]


def collision(d: int, g: int) -> Fraction:
    """Return the probability that two given categories share a bucket."""
    size: int = 2 ** hash_bits(d)
    return Fraction(sum(n * n for n in bucket_sizes(size, g)), size * size)


def support(seeds: np.ndarray, values: np.ndarray, d: int, g: int) -> np.ndarray:
    """Return for each category the number of reports that name its bucket."""
    hit = [buckets(seeds, np.full(len(seeds), x), d, g) == values for x in range(d)]
    return np.array(hit).sum(axis=1, dtype=np.int64)
