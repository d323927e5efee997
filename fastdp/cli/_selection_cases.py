"""Private selection beside numpy's way: scores with Gumbel noise, and the largest.

numpy's noise is rounded and its generator not secure, so that its choice follows
another law than the stated one and can be foreseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import fastdp
from fastdp.cli._timings import Array, Call, Case

#: Of all lines: at sensitivity 1, a score counts by half of it.
EPSILON = 1

#: Choices of the top-k line.
_TOP = 10

#: Candidates of one timing: a single short selection after numpy's would be timed
#: with numpy's code and numbers in the caches.
_LONG = 10**6


def cases(size: int) -> Iterator[Case]:
    """Yield the lines of the table, with at most `size` candidates in all."""
    generator = np.random.Generator(np.random.PCG64())
    mechanism = fastdp.ExponentialMechanism(EPSILON, sensitivity=1)
    flip = fastdp.PermuteAndFlip(EPSILON, sensitivity=1)
    for n in (min(size, 10**4), min(size, 10**6)):
        scores = _scores((n,), generator)
        noisy = _noisy(scores, generator)
        name = f"n={n:.0e}".replace("e+0", "e")
        ways: dict[str, Call] = {
            f"ExponentialMechanism, {name}": partial(mechanism.select, scores),
            f"ExponentialMechanism, gumbel, {name}": partial(
                mechanism.select, scores, method="gumbel"
            ),
            f"PermuteAndFlip, {name}": partial(flip.select, scores),
        }
        loops = max(1, min(size, _LONG) // n)
        for title, ours in ways.items():
            yield Case(title, n, _again(ours, loops), _again(noisy, loops), loops=loops)
    rows = _scores((max(1, size // 100), 100), generator)
    yield Case(
        f"ExponentialMechanism, {len(rows)} rows of 100",
        rows.size,
        lambda: mechanism.select(rows),
        _noisy(rows, generator),
    )
    yield top_case(_scores((min(size, 10**6),), generator), generator)


def top_case(scores: Array, generator: np.random.Generator) -> Case:
    """Return the choice of several candidates, none of them twice."""
    mechanism = fastdp.ExponentialMechanism(EPSILON, sensitivity=1)
    k = min(_TOP, scores.size)

    def rounded() -> Array:
        keys = scores * (EPSILON / 2) + generator.gumbel(size=scores.size)
        best = np.argpartition(keys, scores.size - k)[scores.size - k :]
        return best[np.argsort(-keys[best])]

    return Case(
        f"ExponentialMechanism, top {k}",
        scores.size,
        lambda: mechanism.select(scores, k=k),
        rounded,
    )


def _again(call: Call, loops: int) -> Call:
    def repeated() -> object:
        for _ in range(loops - 1):
            call()
        return call()

    return repeated


def _scores(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    return generator.random(shape) * 20


def _noisy(scores: Array, generator: np.random.Generator) -> Call:
    """Return numpy's selection from each row."""

    def rounded() -> object:
        noise = generator.gumbel(size=scores.shape)
        return np.argmax(scores * (EPSILON / 2) + noise, axis=-1)

    return rounded
