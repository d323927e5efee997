"""What the suites share: how a call is timed, and what is noted beside it.

Run ``pytest bench/ --benchmark-only``; docs/benchmarks.md says how to read it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import fastdp

#: Times a call that makes `size` samples, in a named group.
Measure = Callable[..., None]


@pytest.fixture
def measure(benchmark: BenchmarkFixture) -> Measure:
    """Time a call after a warm-up and note what the figures depend on."""

    def run(group: str, size: int, call: Callable[[], object], **notes: object) -> None:
        benchmark.group = group
        benchmark.extra_info.update(samples=size, **fastdp.show_config(), **notes)
        if size >= 10**6:
            # Few long rounds: calibration would take minutes.
            rounds = 3 if size >= 10**8 else 15
            benchmark.pedantic(call, rounds=rounds, iterations=1, warmup_rounds=1)
        else:
            benchmark(call)
        # Absent when the suite runs with --benchmark-disable.
        if benchmark.stats is not None:
            median = benchmark.stats.stats.median
            benchmark.extra_info["ns_per_sample"] = median / size * 1e9

    return run
