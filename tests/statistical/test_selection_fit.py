"""Every method of selection against its exact law.

n = 1e6 selections a test in CI, 1e7 in the slow run; alpha as in `bins.py`. Power
above 0.99 against a rate c wrong by 1 % (0.4 % in the slow run) is checked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import fastdp
from tests.statistical.bins import ALPHA, p_value, power

N, MANY = 1_000_000, 10_000_000
SCORES = np.array([0.0, 1.0, 1.0, 2.5, -3.0, 2.0])
WEIGHTS = [1, 2, 0.5, 1, 30, 0]
SLAB = 250_000

Draw = Callable[[np.ndarray], np.ndarray]


def counts(draw: Draw, n: int, cells: int) -> np.ndarray:
    total = np.zeros(cells, np.int64)
    rows = np.tile(SCORES, (SLAB, 1))
    for _ in range(n // SLAB):
        total += np.bincount(draw(rows), minlength=cells)
    return total


def exponential(c: float) -> np.ndarray:
    w = np.exp(c * SCORES)
    return w / w.sum()


def weighted(c: float) -> np.ndarray:
    w = np.array(WEIGHTS) * np.exp(c * SCORES)
    return w / w.sum()


def permute_and_flip(c: float) -> np.ndarray:
    p = np.exp(c * (SCORES - SCORES.max()))
    result = np.zeros(p.size)
    for i in range(p.size):
        others = [j for j in range(p.size) if j != i]
        for size in range(p.size):
            for chosen in itertools.combinations(others, size):
                result[i] += (-1) ** size / (size + 1) * p[i] * np.prod(p[list(chosen)])
    return result


def by_integral(law: Any) -> Callable[[float], np.ndarray]:
    """P(i) = integral of the density of i times the others' distribution."""

    def probabilities(c: float) -> np.ndarray:
        keys = c * SCORES
        result = []
        for i in range(keys.size):
            others = np.delete(keys, i)

            def density(x: float, i: int = i, others: np.ndarray = others) -> float:
                return float(law.pdf(x - keys[i]) * np.prod(law.cdf(x - others)))

            points = sorted(set(keys.tolist()))
            result.append(integrate.quad(density, -40, 40, points=points, limit=400)[0])
        return np.array(result)

    return probabilities


EPSILON = 1.6  # c = 0.8
RACES = {
    "permute and flip": (
        lambda rows: fastdp.PermuteAndFlip(EPSILON, sensitivity=1).select(rows),
        permute_and_flip,
    ),
    "laplace": (
        lambda rows: fastdp.ReportNoisyMax(
            EPSILON, sensitivity=1, noise="laplace"
        ).select(rows),
        by_integral(stats.laplace),
    ),
    "gaussian": (
        lambda rows: fastdp.noisy_argmax(rows, sigma=1.25),
        by_integral(stats.norm),
    ),
    "gumbel": (
        lambda rows: fastdp.ReportNoisyMax(
            EPSILON, sensitivity=1, noise="gumbel"
        ).select(rows),
        exponential,
    ),
    "proposals": (
        lambda rows: fastdp.ExponentialMechanism(EPSILON, sensitivity=1).select(rows),
        exponential,
    ),
    "weights": (
        lambda rows: fastdp.ExponentialMechanism(EPSILON, sensitivity=1).select(
            rows, weights=WEIGHTS
        ),
        weighted,
    ),
    "weights as doubles": (
        lambda rows: fastdp.ExponentialMechanism(EPSILON, sensitivity=1).select(
            rows, weights=np.array(WEIGHTS)
        ),
        weighted,
    ),
}


def check(name: str, n: int, error: float) -> None:
    draw, law = RACES[name]
    expected = law(0.8)
    assert expected.sum() == pytest.approx(1, abs=1e-7)
    there = expected > 0
    wrong = law(0.8 * (1 + error))
    assert power(expected[there], wrong[there], n) > 0.99
    got = counts(draw, n, expected.size)
    assert not got[~there].any()
    p = p_value(got[there], expected[there])
    print(f"{name}: n = {n:.0e}, p = {p:.4f}")
    assert p > ALPHA


@pytest.mark.rest
@pytest.mark.parametrize("name", RACES)
def test_choices_follow_their_law(name: str) -> None:
    check(name, N, 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", RACES)
def test_ten_million_choices_follow_their_law(name: str) -> None:
    check(name, MANY, 0.006)


def pairs(c: float) -> np.ndarray:
    """P(i, j) = p_i p_j / (1 - p_i)."""
    p = exponential(c)
    expected = np.outer(p, p) / (1 - p)[:, None]
    np.fill_diagonal(expected, 0)
    return expected.reshape(-1)


def check_pairs(method: Any, n: int) -> None:
    rule = fastdp.ExponentialMechanism(EPSILON, sensitivity=1)
    size = SCORES.size

    def draw(rows: np.ndarray) -> np.ndarray:
        chosen = rule.select(rows, k=2, method=method)
        places: np.ndarray = chosen[:, 0] * size + chosen[:, 1]
        return places

    expected = pairs(0.8)
    slab = min(n, SLAB)
    total = np.zeros(size * size, np.int64)
    for _ in range(n // slab):
        places = draw(np.tile(SCORES, (slab, 1)))
        total += np.bincount(places, minlength=size * size)
    there = expected > 0
    assert not total[~there].any()
    p = p_value(total[there], expected[there])
    print(f"pairs, {method}: n = {n:.0e}, p = {p:.4f}")
    assert p > ALPHA


@pytest.mark.parametrize(("method", "n"), [("inverse", 500_000), ("gumbel", 20_000)])
def test_ordered_pairs_follow_the_law_of_two_choices(method: Any, n: int) -> None:
    check_pairs(method, n)


@pytest.mark.slow
def test_ten_million_pairs_follow_the_law_of_two_choices() -> None:
    """Without replacement; an error of 0.6 % in c would be found with 0.99."""
    there = pairs(0.8) > 0
    assert power(pairs(0.8)[there], pairs(0.8048)[there], MANY) > 0.99
    check_pairs("inverse", MANY)
