"""Words of VectorResponse and their order, as docs/report_bits.md has them."""

import functools
import itertools
import math

import numpy as np
from scipy import special

from tests.reference.chacha20 import block, blocks

STEP = 2**12


@functools.cache
def sizes():
    """The mean of a normal number in each cell, in steps."""
    found = []
    for count, reach in ((2**15, 1 / 2), (2**15, 1 / 512)):
        ends = [float(special.ndtri(i * reach / count)) for i in range(count + 1)]
        density = [math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in ends]
        for low, high in itertools.pairwise(density):
            found.append(round((high - low) * count / reach * STEP))
    return found


def numbers(seed, first, count):
    """The 32-bit words first, first + 1, ... of the seed's stream."""
    key = block(seed.to_bytes(32, "little"), 0, 0)[:32]
    unit, place = np.divmod(np.arange(first, first + count), 256)
    counters, row = np.unique(16 * unit + place % 16, return_inverse=True)
    return blocks(key, counters, 0).view("<u4")[row, place // 16].tolist()


def entry(table, word):
    """The entry that a 32-bit word makes."""
    place = word % 2**31
    cell = place >> 16
    size = table[2**15 + (place >> 8)] if cell < 128 else table[cell]
    return -size if word >> 31 else size


def code(table, seed, words, dimension):
    """All words of a seed, rows of integers."""
    made = [entry(table, w) for w in numbers(seed, 0, words * dimension)]
    return np.array(made, object).reshape(words, dimension)


def value(table, seed, words, direction, rank):
    """The number of the word that this many others exceed in their products."""
    products = code(table, seed, words, len(direction)) @ np.array(direction, object)
    return sorted(range(words), key=lambda j: (-products[j], j))[rank]
