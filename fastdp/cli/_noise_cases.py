"""Noise compared with numpy's rounded analogue, into the same existing array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import fastdp
from fastdp.cli import _numpy_best
from fastdp.cli._timings import Array, Case

#: Parameters of the lines, for narrow and wide kernels of both laws.
_SCALES = (1, 10, 1000, 4000, 10**4, 10**6, 2**40)
_SIGMAS = (1, 10, 1000, 10**6, 2**40)

#: Number of calls in one timing of the scalar release.
_SCALAR_CALLS = 2000


def cases(size: int) -> Iterator[Case]:
    """Yield the lines of the table; they share one output array of each dtype."""
    generator = np.random.Generator(np.random.PCG64())
    whole = np.zeros(size, dtype=np.int64)
    for scale in _SCALES:
        yield laplace_case(scale, whole, generator)
    for sigma in _SIGMAS:
        yield gaussian_case(sigma, whole, generator)
    yield from _release_cases(whole, np.zeros(size), generator)
    yield _scalar_case(generator)


def laplace_case(
    scale: int | float | Fraction, out: Array, generator: np.random.Generator
) -> Case:
    """Return discrete Laplace noise compared with numpy's rounded Laplace."""
    name, need = f"discrete_laplace scale={_short(scale)}", laplace_bytes(scale)
    draw, rival = fastdp.random.discrete_laplace, generator.laplace
    return _drawn_case(name, draw, rival, "laplace", scale, out, need)


def gaussian_case(sigma: int, out: Array, generator: np.random.Generator) -> Case:
    """Return discrete Gaussian noise compared with numpy's rounded normal."""
    name, need = f"discrete_gaussian sigma={_short(sigma)}", gaussian_bytes(sigma)
    draw, rival = fastdp.random.discrete_gaussian, generator.normal
    return _drawn_case(name, draw, rival, "gaussian", sigma, out, need)


def _drawn_case(
    name: str,
    draw: Callable[..., object],
    rival: Callable[..., Any],
    law: str,
    parameter: int | float | Fraction,
    out: Array,
    need: float,
) -> Case:
    def ours() -> object:
        return draw(parameter, out=out)

    def rounded() -> object:
        noise = rival(0.0, float(parameter), out.size)
        np.copyto(out, np.rint(noise, out=noise), casting="unsafe")
        return out

    best = _numpy_best.noise(law, float(parameter), out, rounded=True)
    return Case(name, out.size, ours, rounded, need, best=best)


def _release_cases(
    counts: Array, values: Array, generator: np.random.Generator
) -> Iterator[Case]:
    """Yield mechanisms that add their noise to an array in place."""
    size = counts.size
    counts[:] = 0
    discrete = fastdp.DiscreteLaplace(scale=10)

    def add_rounded() -> object:
        noise = generator.laplace(0.0, 10.0, size)
        return np.add(counts, np.rint(noise, out=noise), out=counts, casting="unsafe")

    yield Case(
        "DiscreteLaplace(10).release in place",
        size,
        lambda: discrete.release(counts, out=counts),
        add_rounded,
        laplace_bytes(10),
        best=_numpy_best.noise("laplace", 10.0, counts, rounded=True, added=True),
    )
    grid = 10 * 2**36  # the noise in steps of its grid: in [2^39, 2^40)
    # State the coordinates: otherwise long arrays are refused.
    step = Fraction(1, 2**36)
    laplace = fastdp.Laplace(10, coordinates=size, granularity=step)
    gaussian = fastdp.Gaussian(10, coordinates=size, granularity=step)
    for name, mechanism, law, need in (
        ("Laplace(10)", laplace, generator.laplace, laplace_bytes(grid)),
        ("Gaussian(10)", gaussian, generator.normal, gaussian_bytes(grid)),
    ):
        yield Case(
            f"{name}.release float64 in place",
            size,
            lambda mechanism=mechanism: mechanism.release(values, out=values),  # type: ignore[misc]
            lambda law=law: np.add(values, law(0.0, 10.0, size), out=values),  # type: ignore[misc]
            need,
            best=_numpy_best.noise(
                name.partition("(")[0].lower(), 10.0, values, rounded=False, added=True
            ),
        )


def _scalar_case(generator: np.random.Generator) -> Case:
    """Return the release of one number, the cost of a call."""
    mechanism = fastdp.DiscreteLaplace(scale=10)
    value = np.int64(42)

    def ours() -> None:
        for _ in range(_SCALAR_CALLS):
            mechanism.release(value)

    def rounded() -> None:
        for _ in range(_SCALAR_CALLS):
            value + np.int64(np.rint(generator.laplace(0.0, 10.0)))

    def by_python() -> None:
        draw, held = _numpy_best.GENERATOR.laplace, int(value)
        for _ in range(_SCALAR_CALLS):
            held + round(draw(0.0, 10.0))

    return Case(
        "DiscreteLaplace(10).release, one value",
        1,
        ours,
        rounded,
        loops=_SCALAR_CALLS,
        best=by_python,
    )


def laplace_bytes(scale: int | float | Fraction) -> float:
    """Return the random bytes that one discrete Laplace sample needs in long arrays."""
    from fastdp import _laws  # loads the kernels

    return _laws.laplace_sampler(Fraction(scale)).bytes_per_sample


def gaussian_bytes(sigma: int | float | Fraction) -> float:
    """Return the random bytes of a discrete Gaussian sample in long arrays."""
    from fastdp import _laws

    return _laws.gaussian_sampler(Fraction(sigma)).bytes_per_sample


def _short(value: int | float | Fraction) -> str:
    if isinstance(value, int) and value > 10**9 and value.bit_count() == 1:
        return f"2^{value.bit_length() - 1}"
    return f"{float(value):g}"
