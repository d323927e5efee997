"""The host program's floating-point mode changes nothing, and is put back.

And exact steps that fail leave zeros: the other fault from outside the kernels.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core, _laws
from fastdp import random as fdp_random
from fastdp._selection import Weights
from fastdp.exceptions import FastDPError
from tests.privacy.streams import KeyStream

KEY = KeyStream(bytes(range(32)))
N = 9000
ROUNDING = {"upward": 0x800, "downward": 0x400, "toward zero": 0xC00}

MXCSR = r"""
#include <xmmintrin.h>
unsigned get(void) { return _mm_getcsr(); }
void set(unsigned mode) { _mm_setcsr(mode); }
"""

x86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="modes of x86"
)


def draws() -> Callable[[], list[np.ndarray]]:
    """Return a function that draws by every kernel; its preparation is done."""
    ints = np.arange(-N // 2, N // 2)
    reals = np.linspace(-1e3, 1e3, N)
    narrow = reals.astype(np.float32)
    mechanisms: list[tuple[Any, np.ndarray]] = [
        (m, x)
        for kind, parameters in (
            (fastdp.DiscreteLaplace, (0.1, 10, 3000, 10_000, 2**40)),
            (fastdp.DiscreteGaussian, (0.1, 10, 900, 10_000, 2**40)),
        )
        for m in map(kind, parameters)
        for x in (ints,)
    ]
    for kind in (fastdp.Laplace, fastdp.Gaussian):
        for m in (kind(10), kind(10, granularity=2**-3, coordinates=1), kind(1e-250)):
            mechanisms += [(m, reals), (m, narrow)]
    mechanisms.append((fastdp.TruncatedLaplace(10, bound=20), ints))

    def draw() -> list[np.ndarray]:
        return [m.release(x, stream=KEY) for m, x in mechanisms] + [
            np.array([m.release(x[k], stream=KEY)])
            for m, x in mechanisms
            if x.dtype != np.float32
            for k in range(3)
        ]

    draw()
    return draw


def assert_same(one: list[np.ndarray], two: list[np.ndarray]) -> None:
    for a, b in zip(one, two, strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()


@x86
@pytest.mark.parametrize("mode", ROUNDING)
def test_rounding_mode(mode: str) -> None:
    libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
    draw = draws()
    expected = draw()
    try:
        assert libm.fesetround(ROUNDING[mode]) == 0
        found = draw()
        left = libm.fegetround()
    finally:
        libm.fesetround(0)
    assert left == ROUNDING[mode]
    assert_same(expected, found)


@pytest.fixture(scope="module")
def mxcsr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder: Path = tmp_path_factory.mktemp("mxcsr")
    source, library = folder / "mxcsr.c", folder / "mxcsr.so"
    source.write_text(MXCSR)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True
    )
    shim = ctypes.CDLL(str(library))
    before = shim.get()
    yield shim
    shim.set(before)


@x86
def test_flush_to_zero_and_subnormals_are_zero(mxcsr: ctypes.CDLL) -> None:
    draw = draws()
    expected = draw()
    before = mxcsr.get()
    mode = 0x9FC0  # flush to zero, subnormals are zero
    try:
        mxcsr.set(mode)
        found = draw()
        left = mxcsr.get()
    finally:
        mxcsr.set(before)
    assert left & 0xFFC0 == mode & 0xFFC0
    assert_same(expected, found)


@x86
def test_weights_are_the_same_where_subnormals_are_zero(mxcsr: ctypes.CDLL) -> None:
    wide = np.array([0.0, -0.0, 5e-324, 1e-310, 2.0**-1022, 0.75, 1.0, 3e300])
    cases = [wide, wide[:4], wide[2:3], wide[4:6], wide[:2]]

    def facts() -> list[tuple[float, int]]:
        return [(w.spread, w.top) for w in map(Weights.numbers, cases)]

    expected = [
        (1.0 + math.frexp(max(c))[1] - math.frexp(min(c[c > 0], default=0.0))[1],
         math.frexp(max(c))[1])
        for c in cases
    ]  # fmt: skip
    assert facts() == expected
    before = mxcsr.get()
    try:
        mxcsr.set(0x9FC0)
        found = facts()
    finally:
        mxcsr.set(before)
    assert found == expected


# --- exact steps that fail -------------------------------------------------------


def faulty(family: str) -> _core.Sampler:
    """Return a law on which every special lane, or every try, fails."""
    if family == "laplace":
        sampler = _core.Sampler.laplace(Fraction(10))
    else:
        sampler = _core.Sampler.gaussian(Fraction(10))
    return sampler.widen(wide=1, exact=False)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("workers", [1, 2])
def test_failing_exact_steps_leave_zeros(family: str, workers: int) -> None:
    m = fastdp.DiscreteLaplace(10)
    object.__setattr__(m, "_sampler", faulty(family))
    x, out = np.full(N, 7340193), np.full(N, 77)
    with pytest.raises(FastDPError, match="do not decide"):
        m.release(x, out=out, workers=workers)
    assert not out.any()
    with pytest.raises(FastDPError, match="do not decide"):
        m.release(x, out=x, workers=workers)
    assert not x.any()
    small = np.full(N, 77, np.int8)
    with pytest.raises(FastDPError, match="do not decide"):
        m.release(out, out=small, workers=workers)
    assert not small.any()


def test_failing_exact_steps_of_a_scalar() -> None:
    m = fastdp.DiscreteGaussian(10)
    object.__setattr__(m, "_sampler", faulty("gaussian"))
    for _ in range(20):
        with pytest.raises(FastDPError, match="do not decide"):
            m.release(0)


def test_failing_exact_steps_of_reals() -> None:
    m = fastdp.Gaussian(10, granularity=1, coordinates=1)
    object.__setattr__(m, "_sampler", faulty("gaussian"))
    for dtype in (np.float64, np.float32):
        x = np.full(N, 7340193.5, dtype)
        with pytest.raises(FastDPError, match="do not decide"):
            m.release(x, out=x)
        assert not x.any()


def test_parameter_array_with_a_failing_law(monkeypatch: pytest.MonkeyPatch) -> None:
    good = _laws.laplace_sampler

    def sampler(scale: Fraction) -> _core.Sampler:
        return faulty("laplace") if scale == 3 else good(scale)

    monkeypatch.setattr(_laws, "laplace_sampler", sampler)
    monkeypatch.setattr(fdp_random._LAPLACE, "_kept", {})  # no law of another test
    # 3.8 of 1,000 lanes need exact steps; none of 10,000 does with probability 3e-17.
    out = np.full(30_000, 77)
    with pytest.raises(FastDPError, match="do not decide"):
        fdp_random.discrete_laplace(np.repeat([1.0, 2.0, 3.0], 10_000), out=out)
    assert not out.any()
