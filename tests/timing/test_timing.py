"""Time tells neither data nor noise: the two-class test over both.

docs/proofs/timing.md has the argument and what the classes are. A million timings a
class belong to a quiet machine: they are marked slow, and |t| < 4.5 is their gate.
The short runs have an alarm only for what no noise of a shared machine looks like.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from ctypes import CDLL
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.testing import TapeStream
from tests.privacy.streams import KeyStream

sys.path.insert(0, str(Path(__file__).parent))
import two_class as tc

SHORT, FULL = 10_000, 2_100_000
ALARM, GATE = 15.0, 4.5
LARGEST = float(np.finfo(float).max)
GRID = (2.0**-30, -LARGEST, LARGEST, 0.0)

# Family, parameter, and the share of a batch that is of the class. Where many lanes
# need the second stage (Laplace scales of thousands), a batch of large values alone,
# which the law never gives, would take a second pass: see docs/proofs/timing.md.
LAWS = [
    ("laplace", 1, 1.0),
    ("laplace", 10, 1.0),
    ("laplace", 4000, 0.125),
    ("laplace", 2**40, 1.0),
    ("gaussian", 1, 1.0),
    ("gaussian", 10, 1.0),
    ("gaussian", 2**40, 1.0),
]
ENTRIES = 64


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CDLL]:
    """The timing loop in C, on one CPU."""
    if tc.compiler() is None:
        pytest.skip("needs a C compiler")
    before = None
    if hasattr(os, "sched_setaffinity"):
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(before)})
    yield tc.build(tmp_path_factory.mktemp("timing"))
    if before is not None:
        os.sched_setaffinity(0, before)


def short(run: Callable[[int, int], float]) -> None:
    """Fail if |t| is beyond the alarm three times in a row."""
    seen = []
    for attempt in range(3):
        seen.append(run(SHORT, attempt))
        if abs(seen[-1]) < ALARM:
            return
    pytest.fail(f"t = {seen}")


# --- |noise| classes of the array kernels ---------------------------------------


def noise_classes(
    harness: CDLL, family: str, parameter: int, share: float
) -> Callable[[int, int], float]:
    law = tc.law_of(harness, family, parameter)
    words = tc.class_words(law, 4096, 1, share)
    n = min(4096, harness.sampler_outputs(law.sampler))

    def run(rounds: int, seed: int) -> float:
        return tc.measure(harness, law, words, n, rounds, seed).t

    return run


@pytest.mark.parametrize(("family", "parameter", "share"), LAWS)
def test_noise_classes_short(
    harness: CDLL, family: str, parameter: int, share: float
) -> None:
    short(noise_classes(harness, family, parameter, share))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "parameter", "share"), LAWS)
def test_noise_classes(
    harness: CDLL, family: str, parameter: int, share: float
) -> None:
    t = noise_classes(harness, family, parameter, share)(FULL, 7)
    print(f"{family} {parameter}: t = {t:.2f}")
    assert abs(t) < GATE


# --- value classes of the array kernels ------------------------------------------


def values(kind: str, n: int) -> list[np.ndarray]:
    """Return arrays of one class of data."""
    rng = np.random.default_rng(1)
    make: dict[str, Callable[[], np.ndarray]] = {
        "tiny": lambda: rng.integers(-5, 5, n),
        "near the limit": lambda: rng.integers(2**63 - 9, 2**63 - 1, n),
        "any": lambda: rng.integers(-(2**63), 2**63 - 1, n),
        "zero": lambda: np.zeros(n),
        "normal": lambda: rng.normal(0, 1e3, n),
        "subnormal": lambda: rng.integers(1, 2**50, n).view(float),
        "nan": lambda: np.full(n, np.nan),
        "inf": lambda: np.full(n, np.inf),
        "normal32": lambda: rng.normal(0, 1e3, n).astype(np.float32),
        "subnormal32": lambda: rng.integers(1, 2**22, n, "u4").view(np.float32),
        "nan32": lambda: np.full(n, np.nan, np.float32),
        "inf32": lambda: np.full(n, np.inf, np.float32),
    }
    return [make[kind]() for _ in range(ENTRIES)]


PAIRS = [
    ("tiny", "near the limit", tc.I64),
    ("tiny", "any", tc.I64),
    ("zero", "normal", tc.F64),
    ("normal", "subnormal", tc.F64),
    ("normal", "nan", tc.F64),
    ("normal", "inf", tc.F64),
    ("normal32", "subnormal32", tc.F32),
    ("normal32", "nan32", tc.F32),
    ("normal32", "inf32", tc.F32),
]


def value_classes(
    harness: CDLL, one: str, two: str, dtype: int, n: int
) -> Callable[[int, int], float]:
    law = tc.law_of(harness, "laplace", 10)
    pool = tc.data_pool(values(one, n), values(two, n))

    def run(rounds: int, seed: int) -> float:
        return tc.measure(
            harness, law, pool, n, rounds, seed, x_type=dtype,
            out_type=dtype, grid=None if dtype == tc.I64 else GRID,
        ).t  # fmt: skip

    return run


@pytest.mark.parametrize(("one", "two", "dtype"), PAIRS)
def test_value_classes_short(harness: CDLL, one: str, two: str, dtype: int) -> None:
    short(value_classes(harness, one, two, dtype, 1024))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1024, 2])
@pytest.mark.parametrize(("one", "two", "dtype"), PAIRS)
def test_value_classes(harness: CDLL, one: str, two: str, dtype: int, n: int) -> None:
    t = value_classes(harness, one, two, dtype, n)(FULL, 7)
    print(f"{one} / {two}, n = {n}: t = {t:.2f}")
    assert abs(t) < GATE


# --- scalars, through Python ---------------------------------------------------------


def scalar_classes(
    release: Callable[[Any], Any], ones: list[Any], twos: list[Any]
) -> Callable[[int, int], float]:
    """Time release(argument) over arguments of two classes, in random order."""
    both = [item for pair in zip(ones, twos, strict=True) for item in pair]

    def run(rounds: int, seed: int) -> float:
        rng = np.random.default_rng(seed)
        order = rng.integers(0, len(both), rounds)
        taken = np.zeros(rounds)
        clock = time.perf_counter_ns
        gc.collect()
        gc.disable()
        try:
            for i, k in enumerate(order.tolist()):
                x = both[k]
                start = clock()
                release(x)
                taken[i] = clock() - start
        finally:
            gc.enable()
        return tc.largest_t((order % 2)[rounds // 20 :], taken[rounds // 20 :])

    return run


def scalar_values() -> Callable[[int, int], float]:
    tiny, large = [], []
    for k in range(64):  # in turn, so that neither class has memory of its own
        tiny.append(np.int64(k - 32))
        large.append(np.int64(2**63 - 1 - k))
    return scalar_classes(fastdp.DiscreteLaplace(10).release, tiny, large)


def scalar_noise(m: Any) -> Callable[[int, int], float]:
    # Many keys: what else a key decides (rejections, the other lanes of the batch)
    # must be alike in both classes. The objects that are timed are made afterwards,
    # in turn, so that the classes are alike in memory, too.
    rng, many = np.random.default_rng(3), 8192
    found: tuple[list[bytes], list[bytes]] = ([], [])
    while min(map(len, found)) < many:
        key = rng.bytes(32)
        size = abs(int(m.release(np.int64(0), stream=KeyStream(key)))) / m.std
        if size < 0.3 or size > 1.5:
            found[size > 1].append(key)
    small, large = [], []
    for one, two in zip(*found, strict=False):
        small.append(KeyStream(bytes(bytearray(one))))
        large.append(KeyStream(bytes(bytearray(two))))
    zero = np.int64(0)
    return scalar_classes(lambda s: m.release(zero, stream=s), small, large)


SCALARS = {
    "values": scalar_values,
    "noise, laplace 10": lambda: scalar_noise(fastdp.DiscreteLaplace(10)),
    "noise, gaussian 10": lambda: scalar_noise(fastdp.DiscreteGaussian(10)),
    "noise, laplace 2**40": lambda: scalar_noise(fastdp.DiscreteLaplace(2**40)),
}


@pytest.mark.parametrize("case", SCALARS)
def test_scalars_short(harness: CDLL, case: str) -> None:
    short(SCALARS[case]())


@pytest.mark.slow
@pytest.mark.parametrize("case", SCALARS)
def test_scalars(harness: CDLL, case: str) -> None:
    t = SCALARS[case]()(FULL, 7)
    print(f"scalar, {case}: t = {t:.2f}")
    assert abs(t) < GATE


# --- the test itself ---------------------------------------------------------------


def test_the_statistic_sees_a_planted_leak() -> None:
    rng = np.random.default_rng(2)
    class_of = rng.integers(0, 2, 20_000).astype(np.uint8)
    quiet = rng.gamma(20, 5, 20_000)
    assert abs(tc.largest_t(class_of, quiet)) < 5
    assert tc.largest_t(class_of, quiet + class_of * quiet) < -ALARM


def test_words_are_of_their_class(harness: CDLL) -> None:
    """The noise from the supplies is small in one class, large in the other."""
    for family, parameter, draw in (
        ("laplace", 10, fastdp.random.discrete_laplace),
        ("laplace", 2**40, fastdp.random.discrete_laplace),
        ("gaussian", 10, fastdp.random.discrete_gaussian),
        ("gaussian", 2**40, fastdp.random.discrete_gaussian),
    ):
        law = tc.law_of(harness, family, parameter)
        words = tc.class_words(law, 4096, 5)
        for c, (low, high) in enumerate(((0, 0.41), (1.59, np.inf))):
            parts = [p[:4096, c].copy().reshape(4, 1024) for p in words.supply]
            flat = np.concatenate([p.view(np.uint8) for p in parts], axis=1)
            n = min(3000, harness.sampler_outputs(law.sampler))
            stream = TapeStream(np.ascontiguousarray(flat.reshape(1, -1)))
            noise = draw(parameter, n, stream=stream)
            size = np.abs(noise.astype(float)) / parameter
            slack = 2 / parameter
            inside = (size >= low - slack) & (size <= high + slack)
            assert inside.mean() > 0.99, (family, parameter, c)
