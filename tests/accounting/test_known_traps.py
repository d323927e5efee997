"""Formulas in circulation that do not hold here: each shown false, and ours right."""

import itertools
import math

import numpy as np
import pytest

from fastdp import calibration
from fastdp.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    conversions,
    event_epsilon,
)
from fastdp.accounting import _discrete_gaussian as dg
from fastdp.distributions import DiscreteGaussian, DiscreteLaplace


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def gaussian_pair(sigma, shift):
    x = np.arange(-60, 61)
    law = DiscreteGaussian(sigma)
    return law.pmf(x), law.pmf(x + shift)


@pytest.mark.parametrize(
    ("sigma", "least"), [(0.3, 4.0), (0.5, 4.0), (1, 1.5), (2, 1.1)]
)
def test_the_analytic_formula_is_no_bound_for_the_discrete_gaussian(sigma, least):
    p, q = gaussian_pair(sigma, 1)
    ratios, ours = [], []
    for epsilon in np.linspace(0, 8 / sigma, 300).tolist():
        true = hockey_stick(p, q, epsilon)
        ratios.append(
            true
            / conversions.gaussian_delta(epsilon=epsilon, sensitivity=1, sigma=sigma)
        )
        ours.append(
            true
            / conversions.discrete_gaussian_delta(
                epsilon=epsilon, sensitivity=1, sigma=sigma
            )
        )
    assert max(ratios) > least
    assert max(ours) <= 1 + 1e-9


def test_continuous_rho_is_no_bound_for_the_discrete_laplace():
    assert conversions.laplace_rho(sensitivity=1, scale=0.5) == pytest.approx(
        1.1353352832366128
    )
    assert conversions.discrete_laplace_rho(sensitivity=1, scale=0.5) == pytest.approx(
        1.5231883119115297
    )
    x = np.arange(-200, 201)
    law = DiscreteLaplace(0.5)
    divergence = float(np.sum(law.pmf(x) * (law.logpmf(x) - law.logpmf(x + 1))))
    assert divergence > 1.5 > conversions.laplace_rho(sensitivity=1, scale=0.5)


def test_flooring_the_continuous_cut_breaks_delta():
    epsilon, delta = 1, 1e-6
    cut = math.floor(math.log(1 + math.expm1(epsilon) / (2 * delta)) / epsilon)
    x = np.arange(-cut, cut + 1)
    weights = np.exp(-np.abs(x).astype(float))
    floored = weights[-1] / weights.sum()
    assert floored > 1.04 * delta
    bound = calibration.truncated_laplace_bound(
        epsilon=epsilon, delta=delta, sensitivity=1
    )
    assert bound == cut + 1
    assert (
        conversions.truncated_laplace_delta(
            epsilon=epsilon, sensitivity=1, scale=1, bound=bound
        )
        <= delta
    )


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
def test_one_coordinate_is_the_worst_of_an_l1_budget(scale):
    budget = 3
    x = np.arange(-70, 71)
    law = DiscreteLaplace(scale)
    shifted = {s: (law.pmf(x), law.pmf(x + s)) for s in range(budget + 1)}
    for epsilon in np.linspace(0, budget / scale, 13).tolist():
        whole = conversions.discrete_laplace_delta(
            epsilon=epsilon, sensitivity=budget, scale=scale
        )
        for first in range(1, budget):
            p = np.outer(shifted[first][0], shifted[budget - first][0])
            q = np.outer(shifted[first][1], shifted[budget - first][1])
            assert hockey_stick(p, q, epsilon) <= whole + 1e-13


def test_one_coordinate_is_not_the_worst_of_an_l2_budget():
    worst = set()
    for sigma, epsilon in itertools.product([0.4, 0.7, 1.0, 2.0], [0.5, 2, 6, 15]):
        deltas = {
            pattern: dg.pattern_log_delta(
                conversions.capped_epsilon(epsilon),
                pattern,
                conversions.Fraction(sigma),
            )
            for pattern in dg.maximal_patterns(4, None)
        }
        worst.add(max(deltas, key=deltas.get))
    assert worst == {(2,), (1, 1, 1, 1)}


@pytest.mark.parametrize("sigma", [0.5, 1.3])
def test_enlarging_a_pattern_never_helps(sigma):
    width = conversions.Fraction(sigma)
    chain = [(1,), (1, 1), (2, 1), (2, 2), (2, 2, 1), (3, 2, 1)]
    for epsilon in [0, 1, 7]:
        deltas = [
            dg.pattern_log_delta(conversions.Fraction(epsilon), pattern, width)
            for pattern in chain
        ]
        assert all(a <= b + 1e-11 for a, b in itertools.pairwise(deltas))


def test_the_classic_gaussian_sigma_fails_beyond_epsilon_one():
    epsilon, delta = 10, 1e-5
    classic = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert (
        conversions.gaussian_delta(epsilon=epsilon, sensitivity=1, sigma=classic)
        > delta
    )
    sigma = calibration.discrete_gaussian_sigma(
        epsilon=epsilon, delta=delta, sensitivity=1
    )
    assert (
        conversions.discrete_gaussian_delta(epsilon=epsilon, sensitivity=1, sigma=sigma)
        <= delta
    )


def test_tiny_epsilon_is_not_optimistic():
    # A difference of two normal tails loses the digits that decide here.
    sigma = calibration.discrete_gaussian_sigma(
        epsilon=1e-8, delta=1e-15, sensitivity=1
    )
    assert sigma == pytest.approx(458412190.43, rel=1e-10)
    assert (
        conversions.gaussian_delta(epsilon=1e-8, sensitivity=1, sigma=458412021)
        > 1.000008e-15
    )


def test_gaussian_is_better_than_its_own_rho():
    gaussian = conversions.gaussian_epsilon(delta=1e-5, sensitivity=1, sigma=1)
    concentrated = conversions.zcdp_epsilon(delta=1e-5, rho=0.5)
    assert gaussian == pytest.approx(4.377178, abs=1e-6)
    assert concentrated == pytest.approx(4.728387, abs=1e-6)
    assert (
        gaussian
        < event_epsilon(DiscreteGaussianEvent(sensitivity=1, sigma=1), 1e-5)
        < concentrated
    )


def test_events_of_one_law_are_accounted_alike():
    event = DiscreteLaplaceEvent(sensitivity=3, scale=4)
    assert event_epsilon(event) == 0.75
    assert event_epsilon(event, 1e-3) < 0.75
