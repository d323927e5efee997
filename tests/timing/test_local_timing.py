"""Local randomizers: time reveals neither values nor flips (docs/proofs/timing.md)."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.testing import TapeStream
from tests.reference import response
from tests.timing.local_words import (
    BOOL,
    CATEGORIES,
    FLIPS,
    LANES,
    PATTERNS,
    TRIALS,
    TYPES,
    U8,
    U32,
    USERS,
    Run,
    bits_of,
    blocks,
    cells,
    flip_words,
    labels_of,
    response_pool,
    response_words,
    run_of,
    tc,
)


def flip_noise(harness: CDLL, kernel: str, name: str, ties: bool, n: int) -> Run:
    p = FLIPS[name]
    # Steps without a tie take places from the words: a few blocks differ by theirs.
    pool = blocks(partial(flip_words, p, ties), 1024)
    tape, out = tc.aligned(pool.shape[2]), np.zeros(n, np.uint8)
    x = np.random.default_rng(2).integers(0, 2, size=n, dtype=np.uint8)
    law = bits_of(p)
    work = tc.work_of(kernel, n, law=law, x=x, x_type=U8, other=-1, out=out)
    return run_of(harness, work, tape, pool, on_tape=True)


def response_noise(harness: CDLL, k: int, kind: str, n: int) -> Run:
    truth = fastdp.RandomizedResponse.from_epsilon(3, categories=k).p
    pool = blocks(
        partial(response_words, truth, k, kind), 512 if kind == "open" else 64
    )
    tape, out = tc.aligned(pool.shape[2]), np.zeros(n, np.uint32)
    x = np.random.default_rng(2).integers(0, k, size=n)
    work = tc.work_of(
        "respond", n, law=labels_of(truth, k), x=x, x_type=tc.I64, other=-1,
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
        f"respond, k = {k}, {kind}, n = {n}":
        partial(response_noise, k=k, kind=kind, n=n)
        for k in CATEGORIES
        for kind in ("true", "moved", "open")
        for n in ((TRIALS,) if kind == "open" else (TRIALS, 1))
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
    law = bits_of(FLIPS["often"])
    work = tc.work_of(kernel, n, law=law, x=data, x_type=dtype, other=other, out=out)
    return run_of(harness, work, data, pool, on_tape=False)


def response_values(
    harness: CDLL,
    k: int,
    one: Any,
    two: Any,
    other: int,
    relabel: bool = False,
    dtype: str = "<i8",
) -> Run:
    n = TRIALS
    truth = (
        Fraction(1)
        if relabel
        else fastdp.RandomizedResponse.from_epsilon(3, categories=k).p
    )
    pool = of_class(one, two, dtype, n)
    data, out = tc.aligned(pool.shape[2]), np.zeros(n, np.uint32)
    work = tc.work_of(
        "respond", n, law=labels_of(truth, k), x=data,
        x_type=TYPES[dtype], other=other, out=out, out_type=U32,
    )  # fmt: skip
    return run_of(harness, work, data, pool, on_tape=False)


def rows_of_labels(harness: CDLL, size: int, one: Any, two: Any) -> Run:
    """Labels whose bits are put into rows of `size` bytes."""
    pool = of_class(one, two, "<u4", USERS)
    data, rng = tc.aligned(pool.shape[2]), np.random.default_rng(2)
    work = tc.work_of(
        "insert_bits", USERS, size=size, x=data,
        bits=rng.integers(0, 256, USERS // 8, np.uint8),
        out=np.zeros(USERS * size, np.uint8),
    )  # fmt: skip
    return run_of(harness, work, data, pool, on_tape=False)


def rows_of_bits(harness: CDLL, size: int, one: int, two: int) -> Run:
    """The bits that are put there."""
    pool = of_class(always(one), always(two), "u1", USERS // 8)
    data, rng = tc.aligned(pool.shape[2]), np.random.default_rng(2)
    work = tc.work_of(
        "insert_bits", USERS, size=size, bits=data,
        x=rng.integers(0, 99, USERS, np.uint32),
        out=np.zeros(USERS * size, np.uint8),
    )  # fmt: skip
    return run_of(harness, work, data, pool, on_tape=False)


def client_values(harness: CDLL, kind: str, one: Any, two: Any) -> Run:
    """Values of 1000 categories that are hashed, or encoded."""
    d, n = 1000, TRIALS
    pool, hashes = of_class(one, two, "<i8", n), kind == "hash_clients"
    data = tc.aligned(pool.shape[2])
    law = labels_of(Fraction(3, 4), 4) if hashes else bits_of(Fraction(1, 4))
    work = tc.work_of(
        kind, n, size=23 if hashes else 10, law=law,
        labeling=labels_of(Fraction(1), d), x=data, x_type=tc.I64, other=-1,
        out=np.zeros(n, "<u8,<u4"), out_type=U32,
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
        f"respond, k = {k}, {dtype}, inside / outside": partial(
            response_values,
            k=k,
            one=among(0, k),
            two=among(k, top),
            other=-1,
            dtype=dtype,
        )
        for k, dtype, top in (
            (16, "u1", 256),
            (1024, "<u2", 2**16),
            (2**18, "<u4", 2**32),
        )
    },
    **{
        f"insert_bits({size}), {name}": partial(
            rows_of_labels, size=size, one=one, two=two
        )
        for size, name, one, two in (
            (128, "first / last", always(0), always(1023)),
            (128, "first byte / any", always(5), among(0, 1024)),
            (13, "first / last", always(0), always(103)),
            (3, "first / last", always(0), always(23)),
        )
    },
    "insert_bits(128), bits": partial(rows_of_bits, size=128, one=0, two=255),
    **{
        f"{kind}, {name}": partial(client_values, kind=kind, one=one, two=two)
        for kind in ("hash_clients", "hadamard_clients")
        for name, one, two in (
            ("first / last", always(0), always(999)),
            ("first / any", always(0), among(0, 1000)),
            ("inside / outside", among(0, 1000), among(1000, LIMIT)),
        )
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


# --- numbers --------------------------------------------------------------------------

MEANS = {
    "a mixture": fastdp.LocalMean.from_epsilon(1, bounds=(-1, 1)),
    "one member": fastdp.LocalMean.from_epsilon(8, bounds=(-1, 1)),
}


#: Values of two classes each.
HELD = {
    "low / high": (-1.0, 1.0),
    "middle / NaN": (0.0, np.nan),
    "within / beyond": (0.5, np.inf),
    "normal / subnormal": (0.25, 5e-324),
}


def number_values(harness: CDLL, name: str, held: str, n: int) -> Run:
    def make(rng: np.random.Generator, c: int) -> np.ndarray:
        return np.full(n, HELD[held][c])

    pool = blocks(make)
    data, out = tc.aligned(pool.shape[2]), np.zeros(n, np.uint8)
    work = tc.work_of(
        "number_clients", n, law=tc.Numbers.of(MEANS[name]), x=data, x_type=9, out=out
    )
    return run_of(harness, work, data, pool, on_tape=False)


def number_words(harness: CDLL, name: str, n: int) -> Run:
    """Codes within the window (class 0) or beyond it, of one number."""
    windows = MEANS[name]._windows
    inside = windows.members[0][1] * windows.inside[0]
    end = inside + windows.outside[0]

    def make(rng: np.random.Generator, c: int) -> np.ndarray:
        words = rng.integers(0, 256, 12 * 2048, np.uint8)
        low, high = ((0, inside), (inside, end))[c]
        drawn = rng.integers(low, high, 2048, np.uint64)
        words[: 8 * 2048] = drawn.view(np.uint8)
        return words

    pool = blocks(make)
    tape, out = tc.aligned(pool.shape[2]), np.zeros(n, np.uint8)
    x = np.random.default_rng(2).uniform(-1, 1, n)
    work = tc.work_of(
        "number_clients", n, law=tc.Numbers.of(MEANS[name]), x=x, x_type=9, out=out
    )
    return run_of(harness, work, tape, pool, on_tape=True)


NUMBERS: dict[str, Callable[[CDLL], Run]] = {
    **{
        f"numbers, {name}, {held}, n = {n}": partial(
            number_values, name=name, held=held, n=n
        )
        for name in MEANS
        for held in HELD
        for n in (TRIALS, 1)
    },
    **{
        f"numbers, {name}, window / rest, n = {TRIALS}": partial(
            number_words, name=name, n=TRIALS
        )
        for name in MEANS
    },
}


CASES = {**NOISE, **VALUES, **SCALARS, **NUMBERS}


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
    values = np.zeros(response.chunk(k), np.int64)
    for kind in ("true", "moved"):
        seen = []
        for c in (0, 1):
            words = response_words(m.p, k, kind, np.random.default_rng(3), c)
            stream = TapeStream(np.ascontiguousarray(words.reshape(1, -1)))
            seen.append(m.release(values, stream=stream) / (k - 1))
        if kind == "moved":
            assert 0 < seen[0].min() <= seen[0].max() < 0.1 + 2 / k
            assert 0.9 - 2 / k < seen[1].min()
        else:
            assert seen[0].min() > 0
            assert not seen[1].any()
    _, _, near = response_pool(m.p, k)
    assert near.sum() > 12
