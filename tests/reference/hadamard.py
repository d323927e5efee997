"""Hadamard reports from a label, a random word and a bit, and their transform."""

import numpy as np


def order(d: int) -> int:
    """Return b, where 2**b is the least power of two above d."""
    return d.bit_length()


def parity(x: np.ndarray) -> np.ndarray:
    """Return the sum modulo 2 of the bits of each number below 2**32."""
    for s in (16, 8, 4, 2, 1):
        x = x ^ x >> s
    return x & 1


def reports(labels: np.ndarray, words: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return y with parity(y & m) = f for m = label + 1: the word itself, or the word
    with the lowest bit of m turned.
    """
    m, r = labels.astype(np.int64) + 1, words.astype(np.int64)
    return np.where(parity(r & m) == f, r, r ^ (m & -m))


def transform(a: np.ndarray) -> np.ndarray:
    """Return the sums over y of (-1)**parity(v & y) a[y], in Python's integers."""
    k = np.arange(len(a))
    sums = [sum(((1 - 2 * parity(k & v)) * a).tolist()) for v in range(len(a))]
    return np.array(sums, np.int64)
