"""Private selection compared with numpy: largest noisy score, or inversion.

numpy's noise is rounded and its generator is not secure, so its choice does not follow
the stated law and is predictable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import numpy as np

import fastdp
from fastdp.cli import _numpy_best
from fastdp.cli._timings import Array, Call, Case

#: Epsilon of all lines; at sensitivity 1, scores are multiplied by half of it.
EPSILON = 1

#: Number of choices of the top-k line.
_TOP = 10


def cases(size: int) -> Iterator[Case]:
    """Yield the lines of the table, with at most `size` candidates in all."""
    generator = np.random.Generator(np.random.PCG64())
    for n in sorted({min(size, 10**4), min(size, 10**6)}):
        name = f"n={n:.0e}".replace("e+0", "e")
        ways = _ways(_scores((n,), generator), generator)
        for title, (ours, theirs, best) in ways.items():
            yield Case(f"{title}, {name}", n, ours, theirs, best=best)
    rows = _scores((max(1, size // 100), 100), generator)
    yield Case(
        f"ExponentialMechanism, {len(rows)} rows of 100",
        rows.size,
        partial(_exponential().select, rows),
        _noisy(rows, generator.gumbel),
        best=_numpy_best.raced(rows, EPSILON / 2),
    )
    yield Case(
        f"PermuteAndFlip, {len(rows)} rows of 100",
        rows.size,
        partial(_flip().select, rows),
        _noisy(rows, generator.standard_exponential),
        best=_numpy_best.largest(rows, EPSILON / 2, "exponential"),
    )
    yield top_case(_scores((min(size, 10**6),), generator), generator)


def _ways(
    scores: Array, generator: np.random.Generator
) -> dict[str, tuple[Call, Call, Call]]:
    """Return ways to choose one: ours, numpy's with the same law, numpy's best."""
    weights = generator.random(scores.size)
    weighted = partial(_exponential().select, scores, weights=weights)
    by_gumbel = _noisy(scores, generator.gumbel)
    half = EPSILON / 2
    inverted = _numpy_best.inverted(scores, half)
    summed = _numpy_best.inverted(scores, half, weights)
    return {
        "ExponentialMechanism": (
            partial(_exponential().select, scores),
            by_gumbel,
            inverted,
        ),
        "base weights beside sums": (
            weighted,
            _summed(scores, weights, generator),
            summed,
        ),
        "base weights beside Gumbel noise": (
            weighted,
            _noisy(scores, generator.gumbel, weights),
            summed,
        ),
        "ReportNoisyMax, gumbel": (
            partial(_noisy_max("gumbel").select, scores),
            by_gumbel,
            inverted,
        ),
        "ReportNoisyMax, laplace": (
            partial(_noisy_max("laplace").select, scores),
            _noisy(scores, generator.laplace),
            _numpy_best.largest(scores, half, "laplace"),
        ),
        "PermuteAndFlip": (
            partial(_flip().select, scores),
            _noisy(scores, generator.standard_exponential),
            _numpy_best.largest(scores, half, "exponential"),
        ),
    }


def top_case(scores: Array, generator: np.random.Generator) -> Case:
    """Return the choice of several different candidates."""
    k = min(_TOP, scores.size)

    def rounded() -> Array:
        keys = scores * (EPSILON / 2) + generator.gumbel(size=scores.size)
        best = np.argpartition(keys, scores.size - k)[scores.size - k :]
        return best[np.argsort(-keys[best])]

    return Case(
        f"ExponentialMechanism, top {k}",
        scores.size,
        partial(_exponential().select, scores, k=k),
        rounded,
        best=_numpy_best.raced(scores, EPSILON / 2, k),
    )


def _scores(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    return generator.random(shape) * 20


def _noisy(
    scores: Array, noise: Callable[..., Array], weights: Array | None = None
) -> Call:
    """Return numpy's selection from each row by the largest noisy score."""

    def rounded() -> object:
        keys = scores * (EPSILON / 2) + noise(size=scores.shape)
        if weights is not None:
            keys += np.log(weights)
        return np.argmax(keys, axis=-1)

    return rounded


def _summed(scores: Array, weights: Array, generator: np.random.Generator) -> Call:
    """Return numpy's selection by sums of the weights."""

    def rounded() -> object:
        sums = np.cumsum(weights * np.exp((scores - scores.max()) * (EPSILON / 2)))
        return np.searchsorted(sums, generator.random() * sums[-1], side="right")

    return rounded


# Make these when they are timed: `fastdp --help` must not load the kernels.


def _exponential() -> fastdp.ExponentialMechanism:
    return fastdp.ExponentialMechanism(EPSILON, sensitivity=1)


def _flip() -> fastdp.PermuteAndFlip:
    return fastdp.PermuteAndFlip(EPSILON, sensitivity=1)


def _noisy_max(noise: Literal["gumbel", "laplace"]) -> fastdp.ReportNoisyMax:
    return fastdp.ReportNoisyMax(EPSILON, sensitivity=1, noise=noise)
