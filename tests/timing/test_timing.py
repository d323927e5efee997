"""Time tells neither data nor noise: the two-class test over both.

docs/proofs/timing.md has the argument and what the classes are. A million timings a
class belong to a quiet machine: they are marked slow, and |t| < 4.5 is their gate.
The short runs have an alarm only for what no noise of a shared machine looks like.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import CDLL
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.testing import TapeStream
from tests.privacy.streams import KeyStream

sys.path.insert(0, str(Path(__file__).parent))
import two_class as tc

LARGEST = float(np.finfo(float).max)
GRID = (2.0**-30, -LARGEST, LARGEST, 0.0)

# Family, parameter, and classes of words of alias digits.
DIGITS = [
    ("laplace", 1, ("none", "ties")),
    ("laplace", 10, ("none", "tails")),
    ("laplace", 10, ("none", "ties")),
    ("laplace", 10, ("tails", "ties")),
    ("laplace", 1000, ("none", "all")),
    ("laplace", 10**6, ("none", "corrections")),
    ("laplace", 2**40, ("none", "all")),
    ("gaussian", 8, ("none", "ties")),
]
# Parameter and classes of words of tilted digits.
TILTED = [
    (10, ("none", "special")),
    (10, ("small", "large")),
    (10**6, ("none", "special")),
    (2**40, ("small", "large")),
]
ENTRIES = 64

#: From a number of timings and a seed for their order to t.
Run = Callable[[int, int], float]


# --- |noise| classes of the array kernels ---------------------------------------


def digit_classes(
    harness: CDLL, family: str, parameter: int, classes: tuple[str, str]
) -> Run:
    law, n = tc.law_of(family, parameter), 8192
    tilted = classes[0] in tc.TILTED_CLASSES and classes[1] in tc.TILTED_CLASSES
    pool = (tc.tilted_pool if tilted else tc.digit_pool)(law, n, classes)
    tape, out = tc.aligned(pool.shape[2]), np.zeros(n, np.int64)
    work = tc.work_of("release", n, law=law.sampler, out=out, out_type=tc.I64)

    def run(rounds: int, seed: int) -> float:
        return tc.measure(harness, work, tape, pool, rounds, seed, on_tape=True).t

    return run


@pytest.mark.parametrize(("parameter", "classes"), TILTED)
def test_tilted_classes_short(
    harness: CDLL, parameter: int, classes: tuple[str, str]
) -> None:
    tc.short(digit_classes(harness, "gaussian", parameter, classes))


@pytest.mark.slow
@pytest.mark.parametrize(("parameter", "classes"), TILTED)
def test_tilted_classes(
    harness: CDLL, parameter: int, classes: tuple[str, str]
) -> None:
    name = f"gaussian {parameter} {classes[0]} {classes[1]}"
    tc.full(name, digit_classes(harness, "gaussian", parameter, classes))


@pytest.mark.parametrize(("family", "parameter", "classes"), DIGITS)
def test_digit_classes_short(
    harness: CDLL, family: str, parameter: int, classes: tuple[str, str]
) -> None:
    tc.short(digit_classes(harness, family, parameter, classes))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "parameter", "classes"), DIGITS)
def test_digit_classes(
    harness: CDLL, family: str, parameter: int, classes: tuple[str, str]
) -> None:
    name = f"{family} {parameter} {classes[0]} {classes[1]}"
    tc.full(name, digit_classes(harness, family, parameter, classes))


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


def value_classes(harness: CDLL, one: str, two: str, dtype: int, n: int) -> Run:
    law = tc.law_of("laplace", 10)
    pool = tc.data_pool(values(one, n), values(two, n))
    data, out = tc.aligned(pool.shape[2]), np.zeros(n, np.int64)
    grid = {} if dtype == tc.I64 else {"grid": (ctypes.c_double * 4)(*GRID)}
    work = tc.work_of(
        "release", n, law=law.sampler, x=data, x_type=dtype, out=out, out_type=dtype,
        **grid,
    )  # fmt: skip
    return lambda rounds, seed: tc.measure(harness, work, data, pool, rounds, seed).t


@pytest.mark.parametrize(("one", "two", "dtype"), PAIRS)
def test_value_classes_short(harness: CDLL, one: str, two: str, dtype: int) -> None:
    tc.short(value_classes(harness, one, two, dtype, 1024))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1024, 2])
@pytest.mark.parametrize(("one", "two", "dtype"), PAIRS)
def test_value_classes(harness: CDLL, one: str, two: str, dtype: int, n: int) -> None:
    run = value_classes(harness, one, two, dtype, n)
    tc.full(f"{one} / {two}, n = {n}", run)


# --- scalars, through Python ---------------------------------------------------------


def scalar_values(
    release: Callable[[Any], Any], one: Any, two: Any, harness: CDLL, rounds: int
) -> Run:
    """Time the release of one number, or of an array without axes."""
    x = np.array(one) if isinstance(one, np.ndarray) else type(one)(77)
    work = tc.call_of(release, x)
    pool = tc.data_pool([np.asarray(one)] * 2, [np.asarray(two)] * 2)
    memory = x if isinstance(x, np.ndarray) else tc.inside(x)
    return lambda rounds, seed: tc.measure(harness, work, memory, pool, rounds, seed).t


def scalar_noise(m: Any, harness: CDLL, rounds: int, keys: int = 3) -> Run:
    # Many keys: what else a key decides (rejections, the other lanes of the batch)
    # must be alike in both classes.
    rng, many = np.random.default_rng(keys), max(1024, rounds // 64)
    found: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    zero, key = np.int64(0), bytes(bytearray(32))
    stream, memory = KeyStream(key), tc.inside(key)
    while min(map(len, found)) < many:
        drawn = rng.bytes(32)
        memory[:] = drawn
        size = abs(int(m.release(zero, stream=stream))) / m.std
        if size < 0.3 or size > 1.5:
            found[size > 1].append(np.frombuffer(drawn, np.uint8))
    pool = tc.data_pool(*(keys[:many] for keys in found))
    work = tc.call_of(lambda source: m.release(zero, stream=source), stream)
    return lambda rounds, seed: tc.measure(harness, work, memory, pool, rounds, seed).t


INTEGERS, REALS = fastdp.DiscreteLaplace(10).release, fastdp.Laplace(scale=10).release
INTO = np.zeros((), np.int64)
ONE, LARGE = np.int64(1), np.int64(2**63 - 1)
SCALARS: dict[str, Callable[[CDLL, int], Run]] = {
    "int64": partial(scalar_values, INTEGERS, ONE, LARGE),
    "int64 into an array": partial(
        scalar_values, partial(INTEGERS, out=INTO), ONE, LARGE
    ),
    "int64 array": partial(scalar_values, INTEGERS, np.array(1), np.array(2**62)),
    "int32": partial(scalar_values, INTEGERS, np.int32(1), np.int32(2**31 - 1)),
    "normal / nan": partial(scalar_values, REALS, np.float64(1), np.float64("nan")),
    # What a conversion by the interpreter returns for errors, too.
    "normal / -1": partial(scalar_values, REALS, np.float64(1), np.float64(-1)),
    "normal / subnormal": partial(
        scalar_values, REALS, np.float64(1), np.float64(5e-324)
    ),
    "normal32 / nan32": partial(scalar_values, REALS, np.float32(1), np.float32("nan")),
    "noise, laplace 10": partial(scalar_noise, fastdp.DiscreteLaplace(10)),
    "noise, gaussian 10": partial(scalar_noise, fastdp.DiscreteGaussian(10)),
    "noise, laplace 2**40": partial(scalar_noise, fastdp.DiscreteLaplace(2**40)),
}


@pytest.mark.parametrize("case", SCALARS)
def test_scalars_short(harness: CDLL, case: str) -> None:
    tc.short(SCALARS[case](harness, tc.SHORT))


@pytest.mark.slow
@pytest.mark.parametrize("case", SCALARS)
def test_scalars(harness: CDLL, case: str) -> None:
    tc.full(f"scalar, {case}", SCALARS[case](harness, tc.FULL))


# --- the test itself ---------------------------------------------------------------


def test_the_statistic_sees_a_planted_leak() -> None:
    rng = np.random.default_rng(2)
    class_of = rng.integers(0, 2, 20_000).astype(np.uint8)
    quiet = rng.gamma(20, 5, 20_000)
    assert abs(tc.largest_t(class_of, quiet)) < 5
    assert tc.largest_t(class_of, quiet + class_of * quiet) < -tc.ALARM


def test_blocks_that_differ_are_no_leak_and_one_beside_them_is_seen() -> None:
    rng = np.random.default_rng(1)
    n, blocks = 400_000, 512
    class_of = rng.integers(0, 2, n).astype(np.uint8)
    entry_of = rng.integers(0, blocks, n)
    own = rng.normal(0, 20, (2, blocks))
    own -= own.mean(axis=1, keepdims=True) - 2 * np.array([[1], [0]])
    taken = rng.gamma(400, 5, n) + own[class_of, entry_of]
    assert tc.largest_t(class_of, taken) > tc.GATE
    assert abs(tc.largest_t(class_of, taken, entry_of)) < tc.GATE / 2
    assert tc.largest_t(class_of, taken + 10 * class_of, entry_of) < -tc.GATE


def test_the_interpreter_is_seen(harness: CDLL) -> None:
    """What makes a Python int of a number tells how large it is."""
    run = scalar_values(int, ONE, LARGE, harness, tc.SHORT)
    assert abs(run(tc.SHORT, 1)) > tc.ALARM


@pytest.mark.parametrize("name", tc.TILTED_CLASSES)
def test_tilted_streams_are_of_their_class(name: str) -> None:
    """Noise is near zero or far from it, that of special lanes too."""
    pool = tc.tilted_pool(tc.law_of("gaussian", 10**6), 8192, (name, name))
    far = tc.TILTED_CLASSES[name][1]
    for stream in pool[:4, 0]:
        tape = TapeStream(stream.reshape(1, -1))
        noise = fastdp.random.discrete_gaussian(10**6, size=8192, stream=tape)
        size = np.abs(noise) / 10**6
        if far is None:
            assert size.min() < 0.3 < 1.7 < size.max()
        else:
            assert size.min() > 1.5 if far else size.max() < 0.5


@pytest.mark.parametrize("name", tc.DIGIT_CLASSES)
def test_digit_streams_are_of_their_class(name: str) -> None:
    """So many tails lie in a batch of the class."""
    pool = tc.digit_pool(tc.law_of("laplace", 10**6), 8192, (name, name))
    for stream in pool[:4, 0]:
        tape = TapeStream(stream.reshape(1, -1))
        noise = fastdp.random.discrete_laplace(10**6, size=8192, stream=tape)
        far = (noise >> 17) ^ (noise >> 63) >= 63
        special, _, tails = tc.DIGIT_CLASSES[name]
        assert far.sum() == min(tails, special, 30)
