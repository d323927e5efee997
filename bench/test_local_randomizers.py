"""Local randomizers with more threads, and on one value."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

import fastdp

WORKERS = sorted({1, 2, os.cpu_count() or 1})


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
