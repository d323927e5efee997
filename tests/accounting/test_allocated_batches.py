"""Epochs of allocated batches against adversaries that choose every step adaptively."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.special import comb
from scipy.stats import binom

from fastdp.accounting import (
    GaussianEvent,
    GroupEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PrivacyLossEvent,
    PureDPEvent,
    RandomAllocationEvent,
)
from fastdp.exceptions import ParameterError, UnsupportedEventError

Floats = np.ndarray[Any, Any]

#: Laws of one step on a batch with the record, and without it.
P, Q = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])
LEVELS = np.exp(np.linspace(0, 2.5, 11))


def profile(p: Floats, q: Floats) -> Floats:
    """Return the integral of (p - a q)_+ at all levels a."""
    return np.asarray(np.maximum(p - LEVELS[:, None] * q, 0).sum(axis=1))


def claimed(steps: int, selected: int) -> Floats:
    """Return what the accountant says of the epoch, at all levels."""
    losses = [math.log(p / q) for p, q in zip(P[::-1], Q[::-1], strict=True)]
    masses = [Fraction(p) for p in P[:0:-1]]
    step = PrivacyLossEvent(losses=losses, probabilities=(*masses, 1 - sum(masses)))
    event = RandomAllocationEvent(steps=steps, selected=selected, event=step)
    accountant = PLDAccountant().compose(event)
    return np.array([accountant.delta(level) for level in np.log(LEVELS).tolist()])


def epoch(steps: int, selected: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the laws of transcripts with the record and without it.

    After each transcript the step is a channel of its own behind the pair.
    """
    places = list(itertools.combinations(range(steps), selected))
    withs, without = [np.ones(1) for _ in places], np.ones(1)
    for step in range(steps):
        channels = rng.dirichlet(np.full(3, 0.3), (without.size, 3))
        channels[rng.random(without.size) < 0.5] = np.eye(3)
        record, none = P @ channels, Q @ channels
        for i, place in enumerate(places):
            law = record if step in place else none
            withs[i] = (withs[i][:, None] * law).ravel()
        without = (without[:, None] * none).ravel()
    return np.mean(withs, axis=0), without


@pytest.mark.parametrize(
    ("steps", "selected"), [(1, 1), (2, 1), (3, 1), (4, 1), (3, 2), (4, 2), (4, 4)]
)
def test_no_adaptive_strategy_is_above(steps: int, selected: int) -> None:
    rng = np.random.default_rng(steps + 10 * selected)
    bound = claimed(steps, selected)
    for _ in range(40):
        p, q = epoch(steps, selected, rng)
        assert (profile(p, q) <= bound + 1e-12).all()
        assert (profile(q, p) <= bound + 1e-12).all()


def test_fewer_steps_than_are_joined_are_found() -> None:
    rng = np.random.default_rng(1)
    strategies = [epoch(4, 2, rng) for _ in range(40)]
    largest = np.max([profile(*laws) for laws in strategies], axis=0)
    assert (largest > claimed(4, 1) * 1.05)[:8].all()


def test_several_steps_of_randomized_response_are_below_the_blocks() -> None:
    """The exact ratio is a mean over all sets of steps."""
    a = 7 / 3
    step = PureDPEvent(Fraction(math.nextafter(math.log(a), 1)))
    for steps, selected in ((6, 2), (7, 3), (8, 4)):
        j = np.arange(steps + 1)
        mass = binom.pmf(j, steps, 0.3)
        ratio = np.zeros(steps + 1)
        for i in range(selected + 1):
            ratio += (
                comb(j, i) * comb(steps - j, selected - i) * a ** (2.0 * i - selected)
            )
        ratio /= comb(steps, selected)
        event = RandomAllocationEvent(steps=steps, selected=selected, event=step)
        found = PLDAccountant().compose(event)
        most = PLDAccountant().compose(step, selected)
        for epsilon in (0.1, 0.3, 1.0):
            level = math.exp(epsilon)
            removal = mass @ np.maximum(ratio - level, 0)
            addition = mass @ np.maximum(1 - level * ratio, 0)
            delta = found.delta(epsilon)
            assert max(removal, addition) <= delta < most.delta(epsilon)
            if (steps, selected, epsilon) == (6, 2, 0.3):
                assert removal == pytest.approx(0.18102460, abs=1e-8)
            if (steps, selected, epsilon) == (7, 3, 1.0):
                assert removal == pytest.approx(0.08768263, abs=1e-8)


def test_all_steps_are_all_steps_and_blocks_are_bounds() -> None:
    noise = GaussianEvent(sensitivity=1, sigma=2)

    def some(steps: int, selected: int) -> PLDAccountant:
        event = RandomAllocationEvent(steps=steps, selected=selected, event=noise)
        return PLDAccountant().compose(event)

    whole = PLDAccountant().compose(noise, 3).epsilon(1e-5)
    assert some(3, 3).epsilon(1e-5) == whole
    found = some(30, 3).epsilon_bounds(1e-5)
    summed = GaussianEvent(sensitivity=3, sigma=2 * Fraction(math.sqrt(30)))
    least = PLDAccountant().compose(summed).epsilon(1e-5)
    assert found.lower == pytest.approx(least, rel=1e-9)
    assert found.lower < found.upper < whole / 2


def test_what_has_no_bound_is_refused() -> None:
    noise = GaussianEvent(sensitivity=1, sigma=2)
    with pytest.raises(ParameterError, match="selected"):
        RandomAllocationEvent(steps=3, selected=4, event=noise)
    event = RandomAllocationEvent(steps=30, selected=3, event=noise)
    for around in (GroupEvent(event, 2), PoissonSampledEvent(0.5, event)):
        with pytest.raises(UnsupportedEventError):
            PLDAccountant().compose(around)
