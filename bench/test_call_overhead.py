"""The cost of a call: one value in, one value out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdp

GROUP = "call overhead, n = 1"

MECHANISMS = {
    "DiscreteLaplace": fastdp.DiscreteLaplace(scale=10),
    "DiscreteGaussian": fastdp.DiscreteGaussian(sigma=10),
    "Laplace": fastdp.Laplace(scale=10),
    "Gaussian": fastdp.Gaussian(sigma=10),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_scalar(measure: Callable[..., None], name: str) -> None:
    mechanism: Any = MECHANISMS[name]
    value = np.int64(42) if name.startswith("Discrete") else np.float64(42)
    measure(GROUP, 1, lambda: mechanism.release(value))


@pytest.mark.parametrize("name", MECHANISMS)
def test_array_of_one(measure: Callable[..., None], name: str) -> None:
    mechanism: Any = MECHANISMS[name]
    dtype = np.int64 if name.startswith("Discrete") else np.float64
    values = np.zeros(1, dtype=dtype)
    measure(GROUP, 1, lambda: mechanism.release(values, out=values))


def test_sample(measure: Callable[..., None]) -> None:
    measure(GROUP, 1, lambda: fastdp.random.discrete_laplace(10))
