"""Formulas of surveys, slides and lecture notes that do not hold: each shown false.

The page docs/accounting.md lists them; every test names the line it belongs to.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp.accounting import (
    ApproximateDPEvent,
    GaussianEvent,
    LaplaceEvent,
    LaplaceTradeOff,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
    SampledWithReplacementEvent,
    ZCDPAccountant,
    event_delta,
    event_epsilon,
    fdp,
    renyi_divergence,
)
from fastdp.accounting.calculators import (
    exponential_mechanism_erm,
    exponential_mechanism_error,
    pate,
)


def test_truncated_noise_of_standard_deviation_sensitivity_over_epsilon() -> None:
    # The event is that of Laplace noise; truncation far out changes it little.
    scale = 1 / math.sqrt(2)
    assert LaplaceEvent(sensitivity=1, scale=1).scale == 1
    got = event_epsilon(LaplaceEvent(sensitivity=1, scale=scale))
    assert got == pytest.approx(math.sqrt(2))


def test_renyi_divergence_need_not_grow_with_the_order() -> None:
    # A ratio that is one constant where the first law lives: Q has mass elsewhere.
    p, q = np.array([0.5, 0.5]), np.array([0.25, 0.25])
    found = {
        order: math.log((p**order * q ** (1 - order)).sum()) / (order - 1)
        for order in (1.5, 2, 7, 40)
    }
    assert all(d == pytest.approx(math.log(2)) for d in found.values())


@pytest.mark.parametrize(("k", "short"), [(1, 1.12), (10, 1.33), (100, 1.54)])
def test_a_variance_by_advanced_composition_without_its_own_deltas(
    k: int, short: float
) -> None:
    delta = 1e-5
    stated = math.log(2 / delta) * math.log(2.5 * k / delta)
    drawn = math.log(1 / delta) * math.log(1.25 / delta)
    assert round(stated / drawn, 2) == short
    # so that it does not grow as k, but as k ln k
    assert stated / math.log(2 / delta) == pytest.approx(
        math.log(2.5 / delta) + math.log(k)
    )


def test_the_delta_of_a_curve_by_advanced_composition() -> None:
    # Each step spends 1e-5 of its own, and the slack is another.
    accountant = fastdp.accounting.ApproximateAccountant()
    accountant.compose(ApproximateDPEvent(epsilon=0.01, delta=1e-5), count=500)
    assert accountant.delta(50) == pytest.approx(5.0e-3, rel=0.01)


@pytest.mark.parametrize(("order", "k"), [(60, 265), (20, 2551)])
def test_where_a_fixed_order_touches_the_simple_conversion(order: int, k: int) -> None:
    # rho + 2 sqrt(rho ln(1/delta)) against order rho + ln(1/delta)/(order - 1).
    sigma, log = 200, math.log(1e5)

    def gap(count: int) -> float:
        rho = count / (2 * sigma**2)
        return order * rho + log / (order - 1) - rho - 2 * math.sqrt(rho * log)

    counts = range(1, 4000)
    assert min(counts, key=gap) == k
    assert 0 <= gap(k) < 1e-6 < gap(300)


def test_a_sigma_of_many_gaussians_that_is_loose() -> None:
    # sigma^2 = k ln(1/delta)/epsilon^2 + k/epsilon for (2 epsilon, delta).
    k, epsilon, delta = 10, 1.0, 1e-6
    sigma = math.sqrt(k * math.log(1 / delta) / epsilon**2 + k / epsilon)
    mu = math.sqrt(k) / sigma
    assert round(mu, 5) == 0.25980
    exact = float(fdp.gdp_epsilon(delta=delta, mu=mu))
    assert round(exact, 4) == 1.1057
    # by the same proof: a rho + ln(1/delta)/(a - 1) is at most 3/2 epsilon
    rho = Fraction(mu**2 / 2)
    assert rho + 2 * math.sqrt(rho * math.log(1 / delta)) < 1.5 * epsilon


def test_a_sampled_mechanism_keeps_a_delta() -> None:
    rate, inner = 0.1, ApproximateDPEvent(epsilon=1, delta=1e-3)
    epsilon = math.log(1 - rate + rate * math.e)
    found = event_delta(PoissonSampledEvent(rate, inner), epsilon + 1e-9)
    assert found == pytest.approx(rate * 1e-3)
    # (1 - q + (1 - a) e^epsilon) for (1 - q) + q (1 - a) e^epsilon
    assert math.log(1 - rate + math.e) > 1 > epsilon


def test_ties_of_clusters_count_a_record_twice() -> None:
    centers = np.array([-1.0, 1.0, 9.0, 11.0])

    def counts(x: list[float], first: bool) -> np.ndarray:
        far = np.abs(np.array(x)[:, None] - centers)
        nearest = far <= far.min(axis=1, keepdims=True)  # "<=": all of those tied
        if first:
            nearest &= nearest.cumsum(axis=1) == 1
        return nearest.sum(axis=0)

    data, other = [0.0, 3.0, 10.0], [10.0, 3.0, 10.0]
    assert np.abs(counts(data, False) - counts(other, False)).sum() == 4  # 2 j, j = 2
    assert np.abs(counts(data, True) - counts(other, True)).sum() == 2


def test_prices_have_a_sensitivity() -> None:
    prices = np.arange(1, 101)

    def scores(values: list[int]) -> np.ndarray:
        return prices * np.array([sum(v >= p for v in values) for p in prices])

    data = [7] * 20
    moved = scores([*data, 100]) - scores(data)
    assert moved.max() == 100 == prices.max()
    assert moved.min() >= 0  # monotonic
    for sensitivity, holds in ((1, False), (100, True)):
        m = fastdp.ExponentialMechanism(1, sensitivity=sensitivity, monotonic=True)
        ratio = m.pmf(scores([*data, 100])) / m.pmf(scores(data))
        assert bool(np.abs(np.log(ratio)).max() <= 1 + 1e-9) is holds


@pytest.mark.parametrize(("epsilon", "factor"), [(0.9, 1.25), (1.0, 1.31)])
def test_the_tail_of_a_shorter_way(epsilon: float, factor: float) -> None:
    # exp(-(a - b)^2/2) <= exp(-a^2/2), for b between 0 and a, is the wrong way round.
    delta = 1e-5
    a = math.sqrt(2 * math.log(1.25 / delta))  # epsilon sigma
    b = epsilon / (2 * a)
    assert math.exp(-((a - b) ** 2) / 2) > math.exp(-(a**2) / 2)
    assert math.exp(-((a - b) ** 2) / 2) / delta == pytest.approx(factor, abs=0.005)


def test_the_best_order_asks_for_more_than_the_classic_sigma() -> None:
    epsilon, delta = 1.0, 1e-5
    log = math.log(1 / delta)
    rho = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    assert rho + 2 * math.sqrt(rho * log) == pytest.approx(epsilon)
    by_orders, classic = 1 / math.sqrt(2 * rho), math.sqrt(2 * math.log(1.25 / delta))
    assert 1 < by_orders / classic < 1.02


@pytest.mark.parametrize(("n", "found"), [(10, 1.777), (100, 1.980)])
def test_losses_on_a_ball_range_over_its_diameter(n: int, found: float) -> None:
    # Density exp(-epsilon G theta sum(x)/(2 Delta)), |theta| <= R = 1, G = 1, x = +-1.
    def largest(delta: float) -> float:
        rates = [s / (2 * delta) for s in (n, n - 2)]
        wholes = [math.log(2 * math.sinh(r) / r) for r in rates]
        logs = [
            [-rate * theta - whole for rate, whole in zip(rates, wholes, strict=True)]
            for theta in (-1, 1)
        ]
        return max(abs(one - two) for one, two in logs)

    assert round(largest(1.0), 3) == found  # Delta = G R
    assert largest(2.0) <= 1  # 2 G R
    plan = exponential_mechanism_erm(
        models=10, records=n, loss_range=2, epsilon=1, failure=0.1
    )
    assert (
        plan.excess_loss
        == exponential_mechanism_error(
            candidates=10, sensitivity=Fraction(2, n), epsilon=1, failure=0.1
        ).bound
    )


@pytest.mark.parametrize(("steps", "true"), [(10**6, 0.835), (10**4, 6.70), (100, 692)])
def test_a_sigma_of_private_training_for_many_steps_only(
    steps: int, true: float
) -> None:
    # sigma = 2 G sqrt(2 T ln(1/delta))/(n epsilon), one random record a step.
    n, epsilon, delta = 1000, 1.0, 1e-5
    sigma = 2 * math.sqrt(2 * steps * math.log(1 / delta)) / (n * epsilon)
    noise = GaussianEvent(
        sensitivity=2, sigma=sigma, neighboring_relation="replace_one"
    )
    step = SampledWithReplacementEvent(
        event=noise, source_dataset_size=n, sample_size=1
    )
    found = PLDAccountant().compose(step, count=steps).epsilon_bounds(delta)
    assert found.lower <= true * 1.001
    assert true * 0.999 <= found.upper <= true * 1.005


def test_a_vote_moves_two_counts() -> None:
    for epsilon in (0.1, 1):
        assert event_epsilon(pate("laplace", 1 / Fraction(epsilon))) == pytest.approx(
            2 * epsilon
        )


def test_orders_far_and_near() -> None:
    # The largest loss is the limit for large orders; near 1 it is the mean loss.
    event = PureDPEvent(1)
    assert float(renyi_divergence(event, 10**6)) == pytest.approx(1, rel=1e-5)
    near = float(renyi_divergence(event, 1 + 1e-6))
    assert near == pytest.approx(math.tanh(0.5), rel=1e-4)


def test_the_divergence_of_gaussian_noise_goes_by_the_square_of_the_sensitivity() -> (
    None
):
    event = GaussianEvent(sensitivity=3, sigma=2)
    assert renyi_divergence(event, 5) == pytest.approx(5 * 3**2 / (2 * 2**2))
    rho = ZCDPAccountant().compose(event).rho
    assert rho == Fraction(9, 8)


def test_the_rate_with_its_missing_term_is_that_for_one_replaced() -> None:
    inner, wanted = 1.0, 0.5
    rest = math.exp(inner) - math.exp(wanted - inner) - 1
    rate = math.expm1(wanted) / (rest + math.exp(wanted))
    assert round(rate, 4) == 0.2350

    def replaced(rate: float) -> float:
        event = PoissonSampledEvent(
            rate, PureDPEvent(inner), neighboring_relation="replace_one"
        )
        return event_epsilon(event)

    assert replaced(rate) == pytest.approx(wanted, rel=1e-9)
    assert replaced(math.expm1(wanted) / math.expm1(inner)) == pytest.approx(
        0.77266, abs=1e-5
    )
    printed = math.expm1(wanted) / rest
    assert replaced(printed) == pytest.approx(1.155, abs=1e-3)
    # It is met: a record that is absent, or says one thing or the other.
    absent, one, two = 0.2, 0.2 * math.e, 0.2 / math.e
    for p in (one, two):
        rest = (1 - p) / (1 - absent)
        assert math.exp(-inner) <= rest <= math.exp(inner)
    mixed = [(1 - rate) * absent + rate * p for p in (one, two)]
    assert math.log(mixed[0] / mixed[1]) == pytest.approx(wanted)


def test_groups_of_many_small_ones_come_near_laplace_noise() -> None:
    # 1 - (1 - f)^(o k) for f of (1/k, 0), k = 4: 0.00688 from the limit at epsilon 1.
    x = np.linspace(0, 1, 200_001)
    group = fdp.ApproximateTradeOff(Fraction(1, 4)).group(4)
    limit = LaplaceTradeOff(1)
    apart = np.abs(np.asarray(group(x)) - np.asarray(limit(x))).max()
    assert round(float(apart), 5) == 0.00688
