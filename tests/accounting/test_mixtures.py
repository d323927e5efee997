"""Gaussian noise around a random shift: never below the truth, and how near."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr

from fastdp.accounting import (
    Event,
    FDPAccountant,
    GaussianEvent,
    GDPAccountant,
    GroupEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    RandomAllocationEvent,
    RDPAccountant,
    ZCDPAccountant,
    renyi_divergence,
)
from fastdp.accounting._facts import facts_of
from fastdp.accounting._pld.composition import Composition
from fastdp.accounting._pld.direction import Direction
from fastdp.accounting._pld.gaussian_mixture import GaussianMixtureLoss
from fastdp.exceptions import ParameterError, UnsupportedEventError

CASES = [
    ((0, 1, 2), (0.5, 0.3, 0.2), 1.0, 0.5),
    ((1, 2, 3), (0.5, 0.25, 0.25), 2.0, 1.0),
    ((0.5, 1), (0.5, 0.5), 0.3, 2.0),
    ((0, 1, 2, 3), (0.9, 0.05, 0.03, 0.02), 0.7, 0.1),
    ((0, 2, 2.5), (0.999, 0.0005, 0.0005), 0.25, 3.0),
    ((1e-3, 5), (0.99, 0.01), 4.0, 0.2),
    ((1,), (1,), 1.0, 0.5),
]


def event_of(moves: Any, chances: Any, sigma: Any, **options: Any) -> Event:
    return MixtureOfGaussiansEvent(
        sensitivities=moves, probabilities=chances, sigma=sigma, **options
    )


def log_ratio(x: float, moves: Any, chances: Any, sigma: float) -> float:
    c, w = np.array(moves, float), np.array(chances, float)
    return float(logsumexp((2 * c * x - c * c) / (2 * sigma * sigma), b=w))


def truth(moves: Any, chances: Any, sigma: float, at: float) -> tuple[float, float]:
    """Return delta of a removal and of an addition, by the place where L = epsilon."""
    found = []
    for level in (at, -at):
        reach = 60 * sigma + 10 * max(moves)
        ends = log_ratio(-reach, moves, chances, sigma) - level, 1.0
        if ends[0] > 0:
            found.append(-math.inf)
            continue
        found.append(
            brentq(
                lambda x, level=level: log_ratio(x, moves, chances, sigma) - level,
                -reach,
                reach,
                xtol=1e-13,
            )
        )
    a = math.exp(at)
    above = sum(
        w * ndtr((c - found[0]) / sigma) for c, w in zip(moves, chances, strict=True)
    )
    removal = above - a * ndtr(-found[0] / sigma)
    below = sum(
        w * ndtr((found[1] - c) / sigma) for c, w in zip(moves, chances, strict=True)
    )
    return float(removal), float(max(ndtr(found[1] / sigma) - a * below, 0.0))


def bracket(event: Event, direction: str, at: float, count: int = 1) -> Any:
    loss = getattr(facts_of(event).step(), direction).loss
    found = Direction(Composition(((loss, count),))).log_delta(at)
    return math.exp(found.lower), math.exp(found.upper)


@pytest.mark.parametrize(("moves", "chances", "sigma", "at"), CASES)
def test_one_step_is_that_of_the_closed_form(moves, chances, sigma, at):
    event = event_of(moves, chances, Fraction(sigma))
    for direction, exact in zip(
        ("removal", "addition"), truth(moves, chances, sigma, at), strict=True
    ):
        lower, upper = bracket(event, direction, at)
        assert lower <= exact * (1 + 1e-9) + 1e-15
        assert exact <= upper * (1 + 1e-9) + 1e-15
        assert upper <= lower * (1 + 1e-3) + 1e-12


@pytest.mark.parametrize(("rate", "sigma", "steps"), [(0.01, 1, 1000), (0.3, 2, 20)])
def test_shifts_of_0_and_1_are_a_poisson_sample(rate, sigma, steps):
    q = Fraction(rate)
    event = event_of((0, 1), (1 - q, q), sigma)
    sample = PoissonSampledEvent(q, GaussianEvent(sensitivity=1, sigma=sigma))
    found = PLDAccountant().compose(event, steps).epsilon_bounds(1e-5)
    exact = PLDAccountant().compose(sample, steps).epsilon_bounds(1e-5)
    assert found.lower <= exact.lower <= exact.upper <= found.upper
    assert found.upper <= found.lower * (1 + 1e-3)
    for order in (2, 8):
        assert renyi_divergence(event, order) == pytest.approx(
            renyi_divergence(sample, order), rel=1e-9
        )


@pytest.mark.parametrize("order", [1.5, 2, 5, 20])
def test_renyi_divergences_are_those_of_quadrature(order):
    moves, chances, sigma = CASES[0][:3]
    x = np.linspace(-40, 60, 40_001)
    log_q = -x * x / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi))
    c, w = np.array(moves, float), np.array(chances)
    u = (2 * c * x[:, None] - c * c) / (2 * sigma**2)
    ratio = logsumexp(u, b=w, axis=1)
    step = math.log(x[1] - x[0])
    both = [
        logsumexp(log_q + power * ratio + step) / (order - 1)
        for power in (order, 1 - order)
    ]
    found = renyi_divergence(event_of(moves, chances, Fraction(sigma)), order)
    assert found == pytest.approx(max(both), rel=1e-9)
    assert found >= max(both) * (1 - 1e-10)


def test_samples_of_mixtures_are_mixtures():
    moves, chances = (1, 2, 3), (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))
    sample = PoissonSampledEvent(Fraction(1, 10), event_of(moves, chances, 2))
    some = tuple(w / 10 for w in chances)
    whole = event_of((0, *moves), (Fraction(9, 10), *some), 2)
    for count in (1, 10):
        found, same = (
            PLDAccountant().compose(event, count).epsilon_bounds(1e-6)
            for event in (sample, whole)
        )
        assert found.lower <= same.upper
        assert same.lower <= found.upper <= same.upper * (1 + 1e-9)


def test_moves_in_several_directions_are_below_the_line():
    """Two-dimensional moves with these norms, on a grid: theorem 29."""
    rng = np.random.default_rng(2)
    chances, norms = np.array([0.5, 0.3, 0.2]), np.array([0.5, 1, 2])
    step = 0.05
    x, y = np.meshgrid(*[np.arange(-9, 9, step)] * 2)
    q = np.exp(-(x * x + y * y) / 2) / (2 * math.pi) * step**2
    event = event_of((0.5, 1, 2), chances.tolist(), 1)
    for at in (0.2, 1.0):
        most = [bracket(event, way, at)[1] for way in ("removal", "addition")]
        for _ in range(20):
            angles = rng.uniform(0, 2 * math.pi, 3)
            size = norms * rng.uniform(0, 1, 3) ** 0.2
            p = (
                sum(
                    w
                    * np.exp(
                        -((x - r * math.cos(b)) ** 2 + (y - r * math.sin(b)) ** 2) / 2
                    )
                    for w, r, b in zip(chances, size, angles, strict=True)
                )
                / (2 * math.pi)
                * step**2
            )
            a = math.exp(at)
            assert np.maximum(p - a * q, 0).sum() <= most[0] + 1e-4
            assert np.maximum(q - a * p, 0).sum() <= most[1] + 1e-4


def test_steps_that_share_batches_need_probabilities_given_earlier_answers():
    """Two steps of two bands on Poisson batches: binomial laws are too small."""
    sigma, at = 1.0, 3.0
    x = np.arange(-6 * sigma, 2 + 6 * sigma, 0.02)

    def law(shift):
        return np.exp(-((x - shift) ** 2) / (2 * sigma**2)) / (
            sigma * math.sqrt(2 * math.pi)
        )

    q = np.outer(law(0), law(0))
    p = sum(np.outer(law(a), law(a + b)) for a in (0, 1) for b in (0, 1)) / 4
    truth = np.maximum(p - math.exp(at) * q, 0).sum() * 0.02**2
    first = event_of((0, 1), (0.5, 0.5), sigma)
    alone = event_of((0, 1, 2), (0.25, 0.5, 0.25), sigma)
    both = PLDAccountant().compose(first).compose(alone)
    assert truth > both.delta(at) * 1.3
    # Given the first answer, the earlier batch may surely have had the record.
    given = PLDAccountant().compose(first).compose(event_of((1, 2), (0.5, 0.5), sigma))
    assert truth < given.delta(at)


@pytest.mark.parametrize(("moves", "chances", "sigma", "at"), CASES)
def test_the_log_ratio_is_within_its_error(moves, chances, sigma, at):
    import mpmath

    family = facts_of(event_of(moves, chances, Fraction(sigma))).family()
    loss = family.step().removal.loss
    assert isinstance(loss, GaussianMixtureLoss)
    x = np.concatenate([np.linspace(-12, 14, 60) * loss.noise, [0.0, 0.5, 1e-9]])
    value = loss.log_ratio(x)
    error = loss.ratio_error(x, value)
    with mpmath.workdps(60):
        s = mpmath.mpf(family.noise.numerator) / family.noise.denominator
        parts = list(zip(family.shifts, family.weights, strict=True))
        parts.append((Fraction(0), 1 - sum(family.weights)))
        for place, found, most in zip(x.tolist(), value, error, strict=True):
            total = mpmath.mpf(0)
            for shift, weight in parts:
                c = mpmath.mpf(shift.numerator) / shift.denominator
                w = mpmath.mpf(weight.numerator) / weight.denominator
                total += w * mpmath.exp(c * (2 * mpmath.mpf(place) - c) / (2 * s * s))
            assert abs(float(mpmath.log(total) - mpmath.mpf(float(found)))) <= most


def test_what_other_notions_say():
    event = event_of((0, 1, 2), (0.5, 0.3, 0.2), 4)
    exact = PLDAccountant().compose(event, 10).epsilon_bounds(1e-5)
    worst = GaussianEvent(sensitivity=2, sigma=4)
    assert exact.upper < PLDAccountant().compose(worst, 10).epsilon(1e-5)
    assert exact.lower <= RDPAccountant().compose(event, 10).epsilon(1e-5)
    assert exact.lower <= FDPAccountant().compose(event, 10).epsilon(1e-5)
    assert ZCDPAccountant().compose(event).rho == Fraction(1, 8)
    with pytest.raises(UnsupportedEventError, match="no mu is known"):
        GDPAccountant().compose(event)
    twice = PLDAccountant().compose(GroupEvent(event, 2)).delta(1)
    assert twice >= PLDAccountant().compose(event).delta(1)
    epoch = RandomAllocationEvent(steps=10, event=event, selected=1)
    one = PLDAccountant().compose(event).epsilon(1e-5)
    assert PLDAccountant().compose(epoch).epsilon(1e-5) < one
    nothing = event_of((0,), (1,), 1)
    assert PLDAccountant().compose(nothing, 10).epsilon(0) == 0


def test_rounded_probabilities_belong_to_the_safe_side():
    low = event_of((0, 1), (Fraction(1, 2), Fraction(1, 2) - Fraction(1, 10**10)), 1)
    high = event_of((0, 1), (Fraction(1, 2) + Fraction(1, 10**10), Fraction(1, 2)), 1)
    for event in (low, high):
        (weight,) = facts_of(event).family().weights
        assert weight == Fraction(1, 2)
    assert Event.from_json(low.to_json()) == low


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sensitivities": (1, 0)}, "increasing"),
        ({"sensitivities": (-1, 0)}, ">= 0"),
        ({"sensitivities": (0, 1, 2)}, "the same length"),
        ({"probabilities": (0.5, 0.4)}, "their sum 1"),
        ({"probabilities": (0.0, 1.0)}, "> 0"),
        ({"probabilities": (0.6, 0.6)}, "their sum 1"),
        ({"sigma": 0}, "sigma must be"),
    ],
)
def test_refusals(changed, message):
    given = {"sensitivities": (0, 1), "probabilities": (0.5, 0.5), "sigma": 1}
    with pytest.raises(ParameterError, match=message):
        MixtureOfGaussiansEvent(**{**given, **changed})
    replaced = event_of((0, 1), (0.5, 0.5), 1, neighboring_relation="replace_one")
    with pytest.raises(UnsupportedEventError, match="GroupEvent of two"):
        PLDAccountant().compose(replaced)
    special = event_of((0, 1), (0.5, 0.5), 1, neighboring_relation="replace_special")
    assert special.neighboring_relation is NeighboringRelation.REPLACE_SPECIAL
