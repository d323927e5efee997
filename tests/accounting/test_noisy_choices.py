"""Choices by noise against the pair of Laplace noise (docs/proofs/selection.md, 8).

Scores are multiples of ln(1/RATE), so that all probabilities are rational.
"""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting import (
    ExponentialMechanismEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    PLDAccountant,
    PoissonSampledEvent,
    RDPAccountant,
    SampledWithoutReplacementEvent,
    ZCDPAccountant,
    event_delta,
)

RATE = Fraction(4, 5)


@functools.cache
def flipped(scores):
    """Return the exact law of permute-and-flip, by its definition."""
    heads = [RATE ** (max(scores) - s) for s in scores]
    found = [Fraction(0)] * len(scores)
    for order in itertools.permutations(range(len(scores))):
        left = Fraction(1)
        for i in order:
            found[i] += left * heads[i]
            left *= 1 - heads[i]
    return [p / math.factorial(len(scores)) for p in found]


def hockey_stick(p, q, a):
    return sum(max(x - a * y, 0) for x, y in zip(p, q, strict=True))


def moved(size):
    """Yield scores of up to four candidates before and after moves of 0 to `size`.

    Adding one number to all scores changes no law: these are all moves by half of it
    in either direction, and those of monotonic scores.
    """
    for count, levels, moves in (
        (2, range(9), range(size + 1)),
        (3, range(0, 7, 2), range(0, size + 1, 2)),
        (4, (0, 1, 3, 6), (0, size)),
    ):
        for scores in itertools.product(levels, repeat=count - 1):
            base = (3, *scores)
            for change in itertools.product(moves, repeat=count):
                yield base, tuple(a + b for a, b in zip(base, change, strict=True))


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.rest)])
def test_laplace_noise_dominates_and_is_attained(size):
    # a = RATE^-j, delta = 1 - sqrt(a e^-epsilon) with e^-epsilon = RATE^size.
    steps = range(-size, size + 1, 2)
    most = dict.fromkeys(steps, Fraction(0))
    for base, after in moved(size):
        one, other = flipped(base), flipped(after)
        for p, q in ((one, other), (other, one)):
            for j in steps:
                most[j] = max(most[j], hockey_stick(p, q, RATE**-j))
    for j in steps:
        assert most[j] == 1 - RATE ** ((size - j) // 2)
        if j >= 0:
            epsilon, at = (-k * math.log(RATE) for k in (size, j))
            claimed = event_delta(PermuteAndFlipEvent(epsilon), at)
            assert claimed == pytest.approx(float(most[j]), rel=1e-12, abs=1e-15)


def test_bounded_range_and_less_noise_are_exceeded():
    size = 4
    epsilon = -size * math.log(RATE)
    wrong = {
        "range": event_delta(ExponentialMechanismEvent(epsilon), 0),
        "noise": event_delta(PermuteAndFlipEvent(epsilon * 7 / 8), 0),
    }
    reached = max(hockey_stick(flipped(a), flipped(b), 1) for a, b in moved(size))
    for claimed in wrong.values():
        assert claimed < float(reached) - 0.01


def near(change, other, size):
    """Return whether moves by half of `size` lead from one to the other."""
    moves = np.subtract(change, other)
    return moves.max() - moves.min() <= size


@pytest.mark.rest
@pytest.mark.parametrize("probability", [Fraction(1, 10), Fraction(3, 5)])
def test_samples_in_which_a_record_is_replaced(probability):
    """The record, another, or none moves the scores; a subset has one of the two."""
    size, add = 2, PermuteAndFlipEvent(-2 * math.log(RATE))
    replaced = NeighboringRelation.REPLACE_ONE
    sample = PoissonSampledEvent(probability, add, neighboring_relation=replaced)
    subset = SampledWithoutReplacementEvent(
        source_dataset_size=probability.denominator,
        sample_size=probability.numerator,
        event=PermuteAndFlipEvent(add.epsilon, neighboring_relation=replaced),
    )
    places = [*np.linspace(0, float(add.epsilon), 5), 1.5 * float(add.epsilon)]
    claims = {
        event: [PLDAccountant().compose(event).delta(at) for at in places]
        for event in (sample, subset)
    }
    best = dict.fromkeys(claims, 0.0)
    for scores in itertools.product(range(5), repeat=2):
        none = (3, *scores)
        laws = {
            change: np.array(flipped(tuple(np.add(none, change).tolist())), float)
            for change in itertools.product((0, size), repeat=3)
        }
        for middle, one, other in itertools.product(laws, repeat=3):
            if not (near(one, middle, size) and near(other, middle, size)):
                continue
            base = laws[middle] * float(1 - probability)
            p, q = (base + laws[x] * float(probability) for x in (one, other))
            for event, claimed in claims.items():
                if event == subset and not near(one, other, size):
                    continue
                for at, most in zip(places, claimed, strict=True):
                    reached = np.maximum(p - math.exp(at) * q, 0).sum()
                    assert reached <= most * (1 + 1e-9) + 1e-15
                    best[event] = max(best[event], reached / max(most, 1e-3))
    assert min(best.values()) > 0.5


@pytest.mark.parametrize("shift", [0.5, 2.0])
def test_laplace_scores(shift):
    """Three candidates with Laplace noise, whose laws are integrals."""
    x = np.linspace(-25, 25, 20001)

    def law(scores):
        away = [x - s for s in scores]
        density = [np.exp(-np.abs(t)) / 2 for t in away]
        below = [np.where(t < 0, d, 1 - d) for t, d in zip(away, density, strict=True)]
        won = [
            density[i] * np.prod([b for j, b in enumerate(below) if j != i], axis=0)
            for i in range(len(scores))
        ]
        return np.trapezoid(won, x, axis=1)

    best = 0.0
    for scores in itertools.product((0.0, 0.75, 2.0), repeat=2):
        for change in itertools.product((0.0, shift), repeat=3):
            one = law((0.0, *scores))
            other = law(np.add((0.0, *scores), change))
            for p, q in ((one, other), (other, one)):
                for at in np.linspace(0, shift, 9).tolist():
                    reached = float(np.maximum(p - math.exp(at) * q, 0).sum())
                    claimed = event_delta(PermuteAndFlipEvent(shift), at)
                    assert reached <= claimed + 1e-5
                    if claimed > 1e-3:
                        best = max(best, reached / claimed)
    assert best > 0.5


def test_a_hundred_choices():
    event = PermuteAndFlipEvent(1)
    known = PLDAccountant().compose(event, 100).epsilon_bounds(1e-6)
    assert 64.8 < known.lower <= known.upper < 71.55
    for kind in (RDPAccountant, ZCDPAccountant):
        assert kind().compose(event, 100).epsilon(1e-6) < 80.2
