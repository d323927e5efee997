"""Epochs of random allocation beside losses that are drawn, with a stated confidence.

Over the keys of the generator each interval misses the truth with a probability of at
most 1e-6 (Maurer, Pontil 2009, Theorem 4). The keys are fixed: a test that passes once
passes always.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import ndtr

from fastdp.accounting import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    PLDAccountant,
    RandomAllocationEvent,
)
from fastdp.accounting._facts import facts_of
from fastdp.accounting._pld.composition import Composition
from fastdp.accounting._pld.direction import Direction

pytestmark = pytest.mark.rest

Floats = npt.NDArray[np.float64]
#: The share of keys with which one interval, from either side, misses the truth.
MISSES = 1e-6


def gaussian(sigma: float) -> tuple[Event, Callable[[Floats, Floats], Floats]]:
    """Return an event, and the log ratio at normal noise `x` moved by 0 or 1."""
    event = GaussianEvent(sensitivity=1, sigma=Fraction(sigma))
    return event, lambda x, moved: x / sigma + (moved - 0.5) / sigma**2


def laplace(scale: float) -> tuple[Event, Callable[[Floats, Floats], Floats]]:
    """Return an event, and the log ratio at Laplace noise made of normal noise."""

    def loss(x: Floats, moved: Floats) -> Floats:
        tail = 2 * ndtr(-np.abs(x))
        y = -np.sign(x) * np.log(tail) * scale + moved
        return np.asarray((np.abs(y) - np.abs(y - 1)) / scale)

    return LaplaceEvent(sensitivity=1, scale=Fraction(scale)), loss


POINTS = [
    (gaussian(1), 2, 1, 1.0, "removal"),
    (gaussian(1), 3, 2, 0.8, "addition"),
    (gaussian(0.5), 4, 1, 1.5, "removal"),
    (gaussian(1), 10, 1, 0.5, "removal"),
    (gaussian(1), 10, 5, 0.9, "addition"),
    (gaussian(2), 20, 4, 0.2, "removal"),
    (gaussian(1), 50, 2, 0.25, "addition"),
    (gaussian(1), 100, 10, 0.5, "removal"),
    (laplace(1), 5, 2, 0.4, "removal"),
    (laplace(0.5), 20, 1, 0.3, "addition"),
]


def drawn(
    noise: tuple[Event, Callable[[Floats, Floats], Floats]],
    steps: int,
    epochs: int,
    at: float,
    direction: str,
) -> tuple[float, float]:
    """Return an interval for delta of a direction, from losses that are drawn."""
    rng = np.random.default_rng([steps, epochs, round(1000 * at)])
    moved = np.zeros(steps)
    moved[0] = direction == "removal"  # which place does not matter
    runs = 200_000 if steps * epochs <= 100 else 40_000
    found = []
    for _ in range(runs // 2000):
        loss = np.zeros(2000)
        for _ in range(epochs):
            ratio = np.exp(noise[1](rng.standard_normal((2000, steps)), moved))
            loss += np.log(ratio.mean(axis=1))
        if direction == "addition":
            loss = -loss
        found.append(np.maximum(-np.expm1(at - loss), 0))
    x = np.concatenate(found)
    tail = math.log(4 / MISSES)
    half = math.sqrt(2 * x.var(ddof=1) * tail / x.size) + 7 * tail / (3 * (x.size - 1))
    return float(x.mean()) - half, float(x.mean()) + half


def bracket(
    event: Event, epochs: int, at: float, direction: str
) -> tuple[float, float]:
    """Return bounds of delta of one direction."""
    loss = getattr(facts_of(event).step(), direction).loss
    found = Direction(Composition(((loss, epochs),))).log_delta(at)
    return math.exp(found.lower), math.exp(found.upper)


@pytest.mark.parametrize(("noise", "steps", "epochs", "at", "direction"), POINTS)
def test_ten_points(noise, steps, epochs, at, direction):
    low, high = drawn(noise, steps, epochs, at, direction)
    event = RandomAllocationEvent(steps=steps, event=noise[0], selected=1)
    lower, upper = bracket(event, epochs, at, direction)
    assert low <= upper
    assert lower <= high < low + 0.3 * upper
    assert upper <= lower * (1 + 1e-3)
    assert upper <= PLDAccountant().compose(event, epochs).delta(at) * (1 + 1e-9)


def test_a_step_more_or_less_is_found():
    """The interval is narrow enough to tell 2 steps from 3."""
    low, high = drawn(*POINTS[0])
    for steps in (1, 3):
        event = RandomAllocationEvent(steps=steps, event=POINTS[0][0][0], selected=1)
        lower, upper = bracket(event, 1, 1.0, "removal")
        assert upper < low or lower > high
