"""What more threads bring: the same call with 1, 2 and all workers."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

import fastdp

SIZE = 10**7
WORKERS = sorted({1, 2, os.cpu_count() or 1})


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("sigma", [10, 10**6])
def test_discrete_gaussian(
    measure: Callable[..., None], sigma: int, workers: int
) -> None:
    out = np.zeros(SIZE, np.int64)
    measure(
        f"threads, n = {SIZE:.0e}, discrete_gaussian sigma={sigma}",
        SIZE,
        lambda: fastdp.random.discrete_gaussian(sigma, out=out, workers=workers),
        workers=workers,
    )


@pytest.mark.parametrize("workers", WORKERS)
def test_discrete_laplace(measure: Callable[..., None], workers: int) -> None:
    out = np.zeros(SIZE, np.int64)
    measure(
        f"threads, n = {SIZE:.0e}, discrete_laplace scale=10",
        SIZE,
        lambda: fastdp.random.discrete_laplace(10, out=out, workers=workers),
        workers=workers,
    )
