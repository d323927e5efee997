"""Samples a second into an existing array, beside numpy's rounded analogue.

The lines are those of ``fastdp bench``, at three lengths: within the first cache,
within the last, and far beyond it, where memory is the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import fastdp
from fastdp.cli import bench

SIZES = (10**3, 10**6, 10**8)
SCALES = (1, 10, 1000, 4000, 10**4, 10**6, 2**40)
SIGMAS = (1, 10, 1000, 10**6, 2**40)
#: At the longest length a few parameters do, one for each kernel.
_LONG = {("laplace", 10), ("laplace", 10**6), ("gaussian", 10), ("gaussian", 10**6)}

CASES = [
    pytest.param(size, law, parameter, id=f"{law}-{parameter}-n{size}")
    for size in SIZES
    for law, parameters in (("laplace", SCALES), ("gaussian", SIGMAS))
    for parameter in parameters
    if size < SIZES[-1] or (law, parameter) in _LONG
]


@pytest.mark.parametrize("side", ["fastdp", "numpy"])
@pytest.mark.parametrize(("size", "law", "parameter"), CASES)
def test_noise(
    measure: Callable[..., None],
    array: Callable[..., npt.NDArray[Any]],
    generator: np.random.Generator,
    size: int,
    law: str,
    parameter: int,
    side: str,
) -> None:
    make = bench.laplace_case if law == "laplace" else bench.gaussian_case
    case = make(parameter, array(size), generator)
    measure(
        f"throughput, n = {size:.0e}, {case.name}",
        size,
        case.ours if side == "fastdp" else case.numpy,
        random_bytes_per_sample=case.random_bytes if side == "fastdp" else None,
    )


@pytest.mark.parametrize("side", ["fastdp", "numpy"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["DiscreteLaplace", "Laplace", "Gaussian"])
def test_release_in_place(
    measure: Callable[..., None],
    array: Callable[..., npt.NDArray[Any]],
    generator: np.random.Generator,
    name: str,
    size: int,
    side: str,
) -> None:
    values = array(size, "int64" if name == "DiscreteLaplace" else "float64")
    if name == "Gaussian":
        mechanism, law = fastdp.Gaussian(sigma=10), generator.normal
    else:
        mechanism, law = getattr(fastdp, name)(scale=10), generator.laplace

    def add_real() -> object:
        return np.add(values, law(0.0, 10.0, size), out=values)

    def add_rounded() -> object:
        noise = law(0.0, 10.0, size)
        return np.add(values, np.rint(noise, out=noise), out=values, casting="unsafe")

    theirs = add_rounded if name == "DiscreteLaplace" else add_real
    measure(
        f"throughput, n = {size:.0e}, {name}(10).release in place",
        size,
        (lambda: mechanism.release(values, out=values)) if side == "fastdp" else theirs,
    )
