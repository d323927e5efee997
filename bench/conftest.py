"""What the suites share: one array for each dtype and length, one numpy generator.

Run ``pytest bench/ --benchmark-only``; docs/benchmarks.md says how to read it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import fastdp

#: Arrays of 1e8 values, numpy's temporaries included, need this much memory.
LARGE = 10**8
_LARGE_BYTES = 4 * 2**30

Array = npt.NDArray[Any]
#: Times a call that makes `size` samples, in a named group.
Measure = Callable[..., None]


def _available_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@functools.lru_cache(maxsize=2)
def _zeros(size: int, dtype: str) -> Array:
    array = np.empty(size, dtype=dtype)
    array[:] = 0  # touch every page: faults would cost more than the noise
    return array


@pytest.fixture
def array() -> Callable[..., Array]:
    """Return a zeroed array of the asked length and dtype, made once and reused."""

    def make(size: int, dtype: str = "int64") -> Array:
        if size >= LARGE and _available_bytes() < _LARGE_BYTES:
            pytest.skip("not enough free memory for arrays of this length")
        values = _zeros(size, dtype)
        values[:] = 0
        return values

    return make


@pytest.fixture(scope="session")
def generator() -> np.random.Generator:
    """Return numpy's generator: the yardstick, neither secure nor private."""
    return np.random.Generator(np.random.PCG64())


@pytest.fixture
def measure(benchmark: BenchmarkFixture) -> Measure:
    """Time a call after a warm-up and note what the figures depend on."""

    def run(group: str, size: int, call: Callable[[], object], **notes: object) -> None:
        benchmark.group = group
        benchmark.extra_info.update(samples=size, **fastdp.show_config(), **notes)
        if size >= 10**6:
            # Few long rounds: calibration would take minutes.
            rounds = 3 if size >= LARGE else 15
            benchmark.pedantic(call, rounds=rounds, iterations=1, warmup_rounds=1)
        else:
            benchmark(call)
        # Absent when the suite runs with --benchmark-disable.
        if benchmark.stats is not None:
            median = benchmark.stats.stats.median
            benchmark.extra_info["ns_per_sample"] = median / size * 1e9

    return run
