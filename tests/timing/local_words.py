"""Classes of words for the timing of local randomizers.

docs/proofs/timing.md says what the classes are. They share their ties and the lanes
that these leave undecided, which are independent of the answers; all other words differ
as much as they can.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import CDLL
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import fastdp
from fastdp import _core
from tests.reference import response
from tests.reference.exact_bits import patterns

sys.path.insert(0, str(Path(__file__).parent))
import two_class as tc

ENTRIES = 64
BOOL, U8, U16, U32 = 10, 5, 6, 7
TYPES = {"<i8": tc.I64, "u1": U8, "<u2": U16, "<u4": U32}
LANES, TRIALS, USERS = 8192, 1024, 256
PATTERNS = LANES // 8
UNIT_OF_TIES = 12288  # where a chunk's ties have their further bits


def bits_of(p: Fraction) -> Any:
    """Return the prepared flips of a probability."""
    return tc.buffer_of(_core.Bernoulli(p, exact=False))


def labels_of(truth: Fraction, categories: int) -> Any:
    """Return the prepared response."""
    return tc.buffer_of(_core.Response(truth, categories))


#: Probability of a flip, and one so small that patterns of two ones are always ties.
FLIPS = {
    "often": 1 - fastdp.RandomizedResponse.from_epsilon(1).p,
    "rare": Fraction(1, 1000),
}
CATEGORIES = (16, 1024, 2**18)

#: From a number of timings and a seed for their order to t.
Run = Callable[[int, int], float]


def run_of(
    harness: CDLL, work: tc.Work, buffer: np.ndarray, pool: np.ndarray, on_tape: bool
) -> Run:
    def run(rounds: int, seed: int) -> float:
        return tc.measure(harness, work, buffer, pool, rounds, seed, on_tape=on_tape).t

    return run


def blocks(
    make: Callable[[np.random.Generator, int], np.ndarray], entries: int = ENTRIES
) -> np.ndarray:
    """Return pairs of blocks, one of each class, out of make(generator, class)."""
    pairs = np.random.default_rng(1).integers(0, 2**62, size=entries).tolist()
    one, two = ([make(np.random.default_rng(k), c) for k in pairs] for c in (0, 1))
    return tc.data_pool(one, two)


def apart(
    rng: np.random.Generator, threshold: int, bits: int, c: int, n: int
) -> np.ndarray:
    """Return numbers above the threshold (class 0) or below it (class 1)."""
    low, high = ((threshold + 1, 2**bits), (0, threshold))[c]
    return rng.integers(low, high, n)


# --- words of flips and responses ----------------------------------------------------


@lru_cache
def cells(p: Fraction) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first byte of each cut, which pairs of a column and a byte decide, and
    which of them flip few bits."""
    table = patterns(p)
    first = np.array([(cut << 8) // table.whole for cut in table.cut]).clip(0, 255)
    column, u = np.divmod(np.arange(2**16), 256)
    alias = np.frombuffer(table.alias, np.uint8)
    drawn = np.where(u < first[column], alias[column], column)
    ones = np.array([x.bit_count() for x in range(256)])[drawn]
    return first, u != first[column], ones <= (1 if p > Fraction(1, 8) else 0)


def flip_words(p: Fraction, ties: bool, rng: np.random.Generator, c: int) -> np.ndarray:
    """Return the words of 1024 patterns: few bits flip (class 0), or many (class 1).

    With `ties`, class 1 has one where class 0 has none, at their usual rate.
    """
    first, decided, few = cells(p)
    pool = np.flatnonzero(decided & (True if ties else few if c == 0 else ~few))
    column, u = np.divmod(rng.choice(pool, PATTERNS), 256)
    tied = rng.random(PATTERNS) < (c if ties else 1) / 256
    u = np.where(tied, first[column], u)
    blocks = np.stack([column.reshape(-1, 64), u.reshape(-1, 64)], axis=1)
    words = rng.integers(0, 256, size=UNIT_OF_TIES + 1024, dtype=np.uint8)
    words[: 2 * PATTERNS] = blocks.reshape(-1)
    return words


def steps(truth: Fraction, k: int, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps of words of response, and which lanes they leave open."""
    return response.opened(response.rate(truth, k), k, words.astype(np.uint64))


@lru_cache
def response_pool(truth: Fraction, k: int) -> tuple[np.ndarray, ...]:
    """Return words of response, their shares of the steps, and which stay open: random
    ones and those at the borders."""
    bits, c = response.word_bits(k), response.rate(truth, k)
    words = np.random.default_rng(k).integers(0, 2**bits, 2**15, np.uint64)
    cut = [int(j * 2**bits / c) for j in range(1, min(k, 2000))]
    at = [w + d for w in cut for d in (-1, 0, 1) if w + d < 2**bits]
    words = np.concatenate([words, np.array(at, np.uint64)])
    step, near = response.opened(c, k, words)
    return words, step / (k - 1), near


def response_words(
    truth: Fraction, k: int, kind: str, rng: np.random.Generator, c: int
) -> np.ndarray:
    """Return the words of a chunk, and further bits.

    "true": moved (class 0) or all true; "moved": by the first tenth of the labels or
    the last; "open": no lane is, or 12 are, far more than the law has.
    """
    words, share, near = response_pool(truth, k)
    n, bits = response.chunk(k), response.word_bits(k)
    true = share == 1
    wanted = {
        "true": (~true, true),
        "moved": (~true & (share < 0.1), ~true & (share > 0.9)),
        "open": (True, True),
    }[kind][c]
    lanes = rng.choice(words[wanted & ~near], n)
    if kind == "open" and c == 1:
        lanes[rng.choice(TRIALS, 12, replace=False)] = rng.choice(words[near], 12)
    further = rng.integers(0, 256, 2048, np.uint8)
    return np.concatenate([lanes.astype(f"<u{bits // 8}").view(np.uint8), further])
