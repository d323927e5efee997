"""Local randomizers and their decoding a second, beside numpy's way.

The lines are those of ``fastdp bench``, at two lengths, and with more threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest

import fastdp
from fastdp.cli import _local_cases

SIZES = (10**5, 10**7)
#: Places of the lines in the table; the lines themselves hold large arrays.
LINES = range(len(list(_local_cases.cases(1000))))
WORKERS = sorted({1, 2, os.cpu_count() or 1})


@pytest.mark.parametrize("side", ["fastdp", "numpy"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("line", LINES)
def test_line(measure: Callable[..., None], line: int, size: int, side: str) -> None:
    case = next(islice(_local_cases.cases(size), line, None))
    measure(
        f"local randomizers, {case.name}, n = {case.size:.0e}",
        case.size,
        case.ours if side == "fastdp" else case.numpy,
        random_bytes_per_sample=case.random_bytes if side == "fastdp" else None,
    )


MECHANISMS = {
    "RandomizedResponse, k=16": fastdp.RandomizedResponse.from_epsilon(
        1, categories=16
    ),
    "HadamardResponse, d=1024": fastdp.HadamardResponse.from_epsilon(
        1, categories=1024
    ),
    "LocalHashing, d=1024": fastdp.LocalHashing.from_epsilon(1, categories=1024),
}


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_workers(measure: Callable[..., None], name: str, workers: int) -> None:
    mechanism = MECHANISMS[name]
    values = np.arange(10**7) % 16
    out = np.zeros(values.shape, mechanism.report_dtype)
    measure(
        f"threads, {name}, n = 1e+07",
        values.size,
        lambda: mechanism.release(values, out=out, workers=workers),
        workers=workers,
    )


@pytest.mark.parametrize("name", MECHANISMS)
def test_one_value(measure: Callable[..., None], name: str) -> None:
    mechanism, value = MECHANISMS[name], np.int64(3)
    measure("call overhead, n = 1, local", 1, lambda: mechanism.release(value))
