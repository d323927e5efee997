"""Local randomizers: time tells neither values nor flips.

docs/proofs/timing.md says what the classes are. Classes of words share their ties and
the lanes that these leave undecided, which are independent of the answers; what is
drawn from them is as unlike as can be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import CDLL
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp._exact_bits import patterns
from fastdp.testing import TapeStream

sys.path.insert(0, str(Path(__file__).parent))
import two_class as tc

ENTRIES = 64
BOOL, U8, U16, U32 = 10, 5, 6, 7
LANES, TRIALS, USERS = 8192, 1024, 256
PATTERNS = LANES // 8
UNIT_OF_TIES = 12288  # where a chunk's ties have their further bits

#: Probability of a flip, and one so small that patterns of two ones are always ties.
FLIPS = {
    "often": 1 - fastdp.RandomizedResponse.from_epsilon(1).p,
    "rare": Fraction(1, 1000),
}
CATEGORIES = (16, 1024, 2**18)

#: t of so many timings in an order given by a seed.
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
    """Return the words of 1024 patterns, few bits of which flip (class 0) or many.

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


def response_words(
    truth: Fraction, k: int, shifted: bool, rng: np.random.Generator, c: int
) -> np.ndarray:
    """Return the words of 1024 trials: none true or all; or all moved, near or far."""
    top = int(truth * 2**32)
    word = apart(rng, top, 32, 0 if shifted else c, TRIALS)
    width = 4 if k <= 2**16 else 8
    share = rng.random(TRIALS)
    if shifted:
        share = (share + 9 * c) / 10  # the first or the last tenth
    v = (share * 2.0 ** (8 * width - 1)).astype("<u8") * 2 + 1
    return np.concatenate(
        [word.astype("<u4").view("u1"), v.astype(f"<u{width}").view("u1")]
    )


def flip_noise(harness: CDLL, kernel: str, name: str, ties: bool, n: int) -> Run:
    p = FLIPS[name]
    # Steps without a tie take places from the words: a few blocks differ by theirs.
    pool = blocks(partial(flip_words, p, ties), 1024)
    tape, out = tc.aligned(pool.shape[2]), np.zeros(n, np.uint8)
    x = np.random.default_rng(2).integers(0, 2, size=n, dtype=np.uint8)
    law = tc.Bernoulli.of(p)
    work = tc.work_of(kernel, n, law=law, x=x, x_type=U8, other=-1, out=out)
    return run_of(harness, work, tape, pool, on_tape=True)


def response_noise(harness: CDLL, k: int, shifted: bool, n: int) -> Run:
    truth = fastdp.RandomizedResponse.from_epsilon(3, categories=k).p
    pool = blocks(partial(response_words, truth, k, shifted))
    tape, out = tc.aligned(pool.shape[2]), np.zeros(n, np.uint32)
    x = np.random.default_rng(2).integers(0, k, size=n)
    work = tc.work_of(
        "respond", n, law=tc.Response.of(truth, k), x=x, x_type=tc.I64, other=-1,
        out=out, out_type=U32,
    )  # fmt: skip
    return run_of(harness, work, tape, pool, on_tape=True)


NOISE: dict[str, Callable[[CDLL], Run]] = {
    **{
        f"{kernel}, {name}, {'ties / none' if ties else 'few / many'}, n = {n}":
        partial(flip_noise, kernel=kernel, name=name, ties=ties, n=n)
        for kernel in ("flip_bits", "flip_bytes")
        for name in FLIPS
        for ties in (False, True)
        for n in (LANES, 1)
    },
    **{
        f"respond, k = {k}, {'near / far' if shifted else 'moved / true'}, n = {n}":
        partial(response_noise, k=k, shifted=shifted, n=n)
        for k in CATEGORIES
        for shifted in (False, True)
        for n in (TRIALS, 1)
    },
}  # fmt: skip


# --- values ------------------------------------------------------------------------


def of_class(
    one: Callable[[np.random.Generator, int], Any],
    two: Callable[[np.random.Generator, int], Any],
    dtype: str,
    n: int,
) -> np.ndarray:
    def make(rng: np.random.Generator, c: int) -> np.ndarray:
        return np.broadcast_to((one, two)[c](rng, n), n).astype(dtype)

    return blocks(make)


def always(value: int) -> Callable[[np.random.Generator, int], Any]:
    return lambda rng, n: value


def among(low: int, high: int) -> Callable[[np.random.Generator, int], Any]:
    return lambda rng, n: rng.integers(low, high, n)


def flipped_values(
    harness: CDLL, kernel: str, one: Any, two: Any, dtype: int, other: int
) -> Run:
    n = LANES
    pool = of_class(one, two, "i8" if dtype == tc.I64 else "u1", n)
    data, out = tc.aligned(pool.shape[2]), np.zeros(n, np.uint8)
    law = tc.Bernoulli.of(FLIPS["often"])
    work = tc.work_of(kernel, n, law=law, x=data, x_type=dtype, other=other, out=out)
    return run_of(harness, work, data, pool, on_tape=False)


def response_values(
    harness: CDLL, k: int, one: Any, two: Any, other: int, relabel: bool = False
) -> Run:
    n = TRIALS
    truth = (
        Fraction(1)
        if relabel
        else fastdp.RandomizedResponse.from_epsilon(3, categories=k).p
    )
    pool = of_class(one, two, "<i8", n)
    data, out = tc.aligned(pool.shape[2]), np.zeros(n, np.uint32)
    work = tc.work_of(
        "respond", n, law=tc.Response.of(truth, k), x=data, x_type=tc.I64, other=other,
        out=out, out_type=U32,
    )  # fmt: skip
    return run_of(harness, work, data, pool, on_tape=False)


def encoded_labels(harness: CDLL, kernel: str, size: int, one: Any, two: Any) -> Run:
    """Labels of an encoder; `size` is what work_t says."""
    pool = of_class(one, two, "<u4", USERS)
    data, rng = tc.aligned(pool.shape[2]), np.random.default_rng(2)
    work = tc.work_of(
        kernel, USERS, size=size, x=data,
        words=rng.integers(0, 2**64, USERS, np.uint64),
        bits=rng.integers(0, 256, USERS // 8, np.uint8),
        out=np.zeros(USERS * max(4, size), np.uint8),
    )  # fmt: skip
    return run_of(harness, work, data, pool, on_tape=False)


def encoded_bits(harness: CDLL, kernel: str, size: int, one: int, two: int) -> Run:
    """Bits of an encoder: those of the own categories, or the flips."""
    pool = of_class(always(one), always(two), "u1", USERS // 8)
    data, rng = tc.aligned(pool.shape[2]), np.random.default_rng(2)
    work = tc.work_of(
        kernel, USERS, size=size, bits=data,
        x=rng.integers(0, 99, USERS, np.uint32),
        words=rng.integers(0, 2**64, USERS, np.uint64),
        out=np.zeros(USERS * max(4, size), np.uint8),
    )  # fmt: skip
    return run_of(harness, work, data, pool, on_tape=False)


LIMIT = 2**62
OUTSIDE = among(-LIMIT, 0)
VALUES: dict[str, Callable[[CDLL], Run]] = {
    **{
        f"{kernel}, {name}": partial(
            flipped_values, kernel=kernel, one=one, two=two, dtype=dtype, other=other
        )
        for kernel, name, one, two, dtype, other in (
            ("flip_bits", "0 / 1", always(0), always(255), U8, -1),
            ("flip_bits", "0 / any", always(0), among(0, 256), U8, -1),
            ("flip_bytes", "false / true", always(0), always(1), BOOL, -1),
            ("flip_bytes", "0 / 1", always(0), always(1), U8, -1),
            ("flip_bytes", "inside / outside", among(0, 2), among(2, 256), U8, -1),
            ("flip_bytes", "inside / outside, 1", among(0, 2), among(2, 256), U8, 1),
            ("flip_bytes", "int64, inside / outside", among(0, 2), OUTSIDE, tc.I64, -1),
        )
    },
    **{
        f"respond, k = {k}, {name}": partial(
            response_values, k=k, one=one, two=two, other=other, relabel=relabel
        )
        for k in CATEGORIES
        for name, one, two, other, relabel in (
            ("first / last", always(0), always(k - 1), -1, False),
            ("inside / outside", among(0, k), among(k, LIMIT), -1, False),
            ("inside / outside, other", among(0, k), OUTSIDE, 3, False),
            ("inside / outside, relabel", among(0, k), among(k, LIMIT), -1, True),
        )
    },
    **{
        f"{kernel}({size}), {name}": partial(
            encoded_labels, kernel=kernel, size=size, one=one, two=two
        )
        for kernel, size, name, one, two in (
            ("insert_bits", 128, "first / last", always(0), always(1023)),
            ("insert_bits", 128, "first byte / any", always(5), among(0, 1024)),
            ("insert_bits", 13, "first / last", always(0), always(103)),
            ("insert_bits", 3, "first / last", always(0), always(23)),
            ("hash_labels", 4, "first / last", always(0), always(1023)),
            ("hash_labels", 4, "first / any", always(0), among(0, 1024)),
            ("hadamard_encode", 11, "first / last", always(0), always(1023)),
            ("hadamard_encode", 11, "first / any", always(0), among(0, 1024)),
        )
    },
    **{
        f"{kernel}({size}), bits": partial(
            encoded_bits, kernel=kernel, size=size, one=0, two=255
        )
        for kernel, size in (("insert_bits", 128), ("hadamard_encode", 11))
    },
}


# --- through Python -----------------------------------------------------------------


def scalar(harness: CDLL, mechanism: Any, one: int, two: int) -> Run:
    """A release of one label: first against last, or inside against outside."""
    x = np.int64(-(10**15))
    pool = tc.data_pool([np.int64(one)] * 2, [np.int64(two)] * 2)
    work, memory = tc.call_of(mechanism.release, x), tc.inside(x)
    return lambda rounds, seed: tc.measure(harness, work, memory, pool, rounds, seed).t


SCALARS: dict[str, Callable[[CDLL], Run]] = {
    f"{type(mechanism).__name__}, {one} / {two}": partial(
        scalar, mechanism=mechanism, one=one, two=two
    )
    for mechanism in (
        fastdp.RandomizedResponse.from_epsilon(1),
        fastdp.RandomizedResponse.from_epsilon(1, categories=1000),
        fastdp.UnaryEncoding.from_epsilon(1, categories=1000),
        fastdp.LocalHashing.from_epsilon(1, categories=1000),
        fastdp.HadamardResponse.from_epsilon(1, categories=1000),
    )
    for one, two in ((0, mechanism.categories - 1), (1, 2**62))
}

CASES = {**NOISE, **VALUES, **SCALARS}


@pytest.mark.parametrize("case", CASES)
def test_short(harness: CDLL, case: str) -> None:
    tc.short(CASES[case](harness))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_full(harness: CDLL, case: str) -> None:
    tc.full(case, CASES[case](harness))


# --- the test itself ------------------------------------------------------------------


@pytest.mark.parametrize("name", FLIPS)
def test_flip_words_are_of_their_class(name: str) -> None:
    p = FLIPS[name]
    first = cells(p)[0]
    flips, ties = [], []
    for by_ties in (False, True):
        for c in (0, 1):
            words = flip_words(p, by_ties, np.random.default_rng(3), c)
            stream = TapeStream(np.ascontiguousarray(words.reshape(1, -1)))
            flips.append(fastdp.random.bernoulli(p, size=LANES, stream=stream).mean())
            columns, u = words[: 2 * PATTERNS].reshape(-1, 2, 64).swapaxes(0, 1)
            ties.append(int((u == first[columns]).sum()))
    assert flips[1] > flips[0]
    assert ties[2] == 0
    assert min(ties[0], ties[1], ties[3]) > 0


@pytest.mark.parametrize("k", CATEGORIES)
def test_response_words_are_of_their_class(k: int) -> None:
    m = fastdp.RandomizedResponse.from_epsilon(3, categories=k)
    values = np.zeros(TRIALS, np.int64)
    for shifted in (False, True):
        seen = []
        for c in (0, 1):
            words = response_words(m.p, k, shifted, np.random.default_rng(3), c)
            stream = TapeStream(np.ascontiguousarray(words.reshape(1, -1)))
            seen.append(m.release(values, stream=stream) / (k - 1))
        if shifted:
            assert 0 < seen[0].min() <= seen[0].max() < 0.1 + 2 / k
            assert 0.9 - 2 / k < seen[1].min()
        else:
            assert seen[0].min() > 0
            assert not seen[1].any()
