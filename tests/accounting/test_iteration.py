"""Noisy iterations: closed forms, every feasible payment, attacks, conditions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting import (
    ComposedEvent,
    GaussianEvent,
    NeighboringRelation,
    RDPAccountant,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
    conversions,
)
from fastdp.accounting.amplification import (
    contractive_iteration,
    gradient_contraction,
    noisy_gradient_descent,
    noisy_minibatch_sgd,
    noisy_sgd,
)
from fastdp.exceptions import DTypeError, ParameterError

LAST = {"last_iterate_only": True}


@pytest.mark.parametrize(("n", "t"), [(1, 1), (5, 1), (5, 3), (5, 5), (1000, 17)])
def test_one_pass_of_sgd(n, t):
    # Feldman, Mironov, Talwar and Thakurta 2018: 2 a L^2/(sigma^2 (n - t + 1))
    setting = {"sigma": 3, "step_size": 0.25, "lipschitz": 2, "smoothness": 4}
    event = noisy_sgd(n, record=t, **setting, **LAST, passes=1)
    square = Fraction(2 * 2 * 2 * 2, 9 * (n - t + 1))
    assert square <= event.mu**2 <= square * (1 + Fraction(1, 10**20))
    assert noisy_sgd(n, **setting, **LAST, passes=1).mu == Fraction(4, 3)


@pytest.mark.parametrize("steps", [1, 2, 10, 300])
@pytest.mark.parametrize(("eta", "m"), [(0.5, 0.25), (1, 0.5), (0.125, 0), (1, 1)])
def test_full_batch_descent(steps, eta, m):
    event = noisy_gradient_descent(
        steps=steps,
        records=50,
        sigma=0.5,
        step_size=eta,
        lipschitz=3,
        smoothness=1,
        strong_convexity=m,
        **LAST,
    )
    c = gradient_contraction(step_size=eta, smoothness=1, strong_convexity=m)
    one = Fraction(2 * 3, 50) / Fraction(1, 2)
    factor = Fraction(steps)
    if c < 1:
        factor = (1 - c**steps) / (1 + c**steps) * (1 + c) / (1 - c)
    assert one**2 * factor <= event.mu**2 <= one**2 * factor * (1 + Fraction(1, 10**9))


def test_descent_and_general_steps_agree():
    setting = {"sigma": 1, "step_size": 0.5, "lipschitz": 1, "smoothness": 1}
    for m, wide in itertools.product([0, 0.25], [None, 0.5, 4]):
        whole = noisy_gradient_descent(
            steps=12, records=5, **setting, strong_convexity=m, diameter=wide, **LAST
        )
        c = gradient_contraction(step_size=0.5, smoothness=1, strong_convexity=m)
        parts = contractive_iteration(
            shifts=[Fraction(1, 5)] * 12,
            sigmas=[0.5] * 12,
            contractions=[c] * 12,
            diameter=wide,
            **LAST,
        )
        assert float(parts.mu) == pytest.approx(float(whole.mu), rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_no_feasible_payment_is_cheaper(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9))
    s = [Fraction(int(x), 8) for x in rng.integers(0, 9, count)]
    s[0] += Fraction(1, 8)
    sd = [Fraction(int(x), 4) for x in rng.integers(1, 9, count)]
    c = [Fraction(int(x), 8) for x in rng.integers(1, 9, count)]
    claimed = contractive_iteration(shifts=s, sigmas=sd, contractions=c, **LAST).mu ** 2
    cheapest = math.inf
    for _ in range(200):
        z, cost = Fraction(0), Fraction(0)
        for t in range(count):
            z = c[t] * z + s[t]
            share = Fraction(int(rng.integers(0, 65)), 64) if t < count - 1 else 1
            cost += (share * z) ** 2 / sd[t] ** 2
            z -= share * z
        assert claimed <= cost * (1 + Fraction(1, 10**20))
        cheapest = min(cheapest, cost)
    assert cheapest <= claimed * 2 + Fraction(1, 10**9) or count > 3


@pytest.mark.parametrize("seed", range(20))
def test_linear_maps_attain_or_stay_below(seed):
    # phi(x) = c x + shift: the last iterate is normal, its mu is known exactly.
    rng = np.random.default_rng(100 + seed)
    count = int(rng.integers(1, 30))
    s, sd = rng.uniform(0.01, 1, count), rng.uniform(0.1, 2, count)
    c = rng.uniform(0.3, 1, count)
    claimed = contractive_iteration(
        shifts=s.tolist(), sigmas=sd.tolist(), contractions=c.tolist(), **LAST
    ).mu
    mean, variance = 0.0, 0.0
    for t in range(count):
        mean, variance = c[t] * mean + s[t], c[t] ** 2 * variance + sd[t] ** 2
    assert mean / math.sqrt(variance) <= float(claimed) * (1 + 1e-12)


def test_shifts_at_the_end_are_paid_at_once():
    one = contractive_iteration(shifts=[0, 0, 1], sigmas=[1, 1, 0.5], **LAST)
    assert one.mu == 2
    spread = contractive_iteration(shifts=[1, 0, 0], sigmas=[1, 1, 1], **LAST)
    assert spread.mu**2 >= Fraction(1, 3)
    assert float(spread.mu) == pytest.approx(3**-0.5, rel=1e-15)
    # a map that is constant forgets all before
    gone = contractive_iteration(
        shifts=[5, 1], sigmas=[1, 1], contractions=[1, 0], **LAST
    )
    assert gone.mu == 1
    several = noisy_sgd(
        4, passes=3, sigma=1, step_size=1, lipschitz=1, smoothness=1, **LAST
    )
    naive = Fraction(4) * 3  # three full charges
    assert several.mu**2 < naive
    assert several.mu >= 2


def test_each_later_record_is_worse_off():
    setting = {"sigma": 1, "step_size": 1, "lipschitz": 1, "smoothness": 1}
    for passes, m, wide in [(1, 0, None), (3, 0, None), (3, 0.5, None), (2, 0, 1)]:
        found = [
            noisy_sgd(
                6,
                record=t,
                passes=passes,
                strong_convexity=m,
                diameter=wide,
                **setting,
                **LAST,
            ).mu
            for t in range(1, 7)
        ]
        assert found == sorted(found)


# ---- attacks with projections ------------------------------------------------------


def projected_law(steps, move, sigma, half, grid):
    """Return the law of a projected noisy walk on [-half, half] in cells."""
    x = np.linspace(-half, half, grid)
    edges = np.concatenate(([-math.inf], (x[1:] + x[:-1]) / 2, [math.inf]))
    normal = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2)))
    cdf = normal((edges[None, :] - (x + move)[:, None]) / sigma)
    kernel = np.diff(cdf, axis=1)
    law = np.zeros(grid)
    law[grid // 2] = 1.0
    for _ in range(steps):
        law = law @ kernel
    return law


@pytest.mark.parametrize("steps", [1, 4, 40])
def test_attack_on_a_projected_walk(steps):
    shift, sigma, diameter = 0.2, 0.5, 1.0
    p = projected_law(steps, shift / 2, sigma, diameter / 2, 101)
    q = projected_law(steps, -shift / 2, sigma, diameter / 2, 101)
    event = contractive_iteration(
        shifts=[Fraction(1, 5)] * steps, sigmas=[0.5] * steps, diameter=1, **LAST
    )
    for epsilon in [0.0, 0.2, 1.0]:
        true = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
        assert (
            true
            <= conversions.gaussian_delta(
                epsilon=epsilon, sensitivity=event.mu, sigma=1
            )
            + 1e-9
        )
    unprojected = contractive_iteration(
        shifts=[Fraction(1, 5)] * steps, sigmas=[0.5] * steps, **LAST
    )
    assert event.mu <= unprojected.mu
    if steps == 40:  # the plateau: 2 sqrt(D s)/sigma
        assert float(event.mu) == pytest.approx(2 * math.sqrt(0.2) / 0.5, rel=1e-9)


def test_a_plateau_in_the_number_of_steps():
    setting = {
        "sigma": 1,
        "step_size": 0.5,
        "lipschitz": 1,
        "smoothness": 1,
        "diameter": 3,
    }
    found = [
        noisy_gradient_descent(steps=steps, records=20, **setting, **LAST).mu
        for steps in [1, 10, 60, 300, 10**4, 10**9]
    ]
    assert found == sorted(found)
    assert found[-1] == found[-2] == found[-3]
    strong = noisy_gradient_descent(
        steps=10**9, records=20, **setting, strong_convexity=1e-9, **LAST
    )
    assert strong.mu <= found[-1] * (1 + Fraction(1, 10**6))


# ---- random batches ------------------------------------------------------------------

BATCHES = {"sigma": 2, "step_size": 0.1, "lipschitz": 1, "smoothness": 1, "diameter": 1}


def batches_law(steps, move, share, sigma, half, grid):
    """Return the law of projected walks that move with probability `share` a step."""
    x = np.linspace(-half, half, grid)
    edges = np.concatenate(([-math.inf], (x[1:] + x[:-1]) / 2, [math.inf]))
    normal = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2)))
    kernel = np.zeros((grid, grid))
    for shift, chance in ((0.0, 1 - share), (move, share)):
        cdf = normal((edges[None, :] - (x + shift)[:, None]) / sigma)
        kernel += chance * np.diff(cdf, axis=1)
    law = np.zeros(grid)
    law[grid // 2] = 1.0
    return law @ np.linalg.matrix_power(kernel, steps)


@pytest.mark.parametrize(
    ("steps", "window"), [(3, None), (40, 40), (400, 15), (400, 5)]
)
def test_attack_on_random_batches(steps, window):
    # Linear losses: the record's gradient is 1 or -1, the others' 0; batches of one
    # out of four, so that a step moves by eta with probability 1/4.
    event = noisy_minibatch_sgd(
        steps=steps, records=4, batch=1, window=window, **BATCHES, **LAST
    )
    accountant = RDPAccountant().compose(event)
    p, q = (batches_law(steps, 0.1 * sign, 0.25, 0.2, 0.5, 101) for sign in (-1, 1))
    for epsilon in [0.0, 0.3, 1.0]:
        true = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
        assert true <= accountant.delta(epsilon) + 1e-9


def test_random_batches_are_charged_for_a_window():
    replace = NeighboringRelation.REPLACE_ONE
    # Dn/(2 L eta) = 20 steps are best of many
    event = noisy_minibatch_sgd(steps=10**6, records=4, batch=1, **BATCHES, **LAST)
    assert isinstance(event, ComposedEvent)
    before, after = event.events
    assert after.count == 20
    # mu^2 = D^2/(20 eta^2 sigma^2/2)
    assert before.mu**2 == pytest.approx(1 / (20 * 0.01 * 4 / 2), rel=1e-12)
    noise = after.event.event
    assert noise.sensitivity == 2
    assert 2 - 1e-15 < float(noise.sigma) * math.sqrt(2) <= 2 + 1e-15
    assert noise.sigma**2 <= 2
    # few steps: every one with all of its noise
    few = noisy_minibatch_sgd(steps=80, records=4, batch=1, **BATCHES, **LAST)
    one = SampledWithoutReplacementEvent(
        source_dataset_size=4,
        sample_size=1,
        event=GaussianEvent(sensitivity=2, sigma=2, neighboring_relation=replace),
    )
    assert few == SelfComposedEvent(one, 80)
    full = noisy_minibatch_sgd(steps=2, records=4, batch=4, **BATCHES, **LAST)
    assert full == SelfComposedEvent(
        GaussianEvent(
            sensitivity=Fraction(1, 2), sigma=2, neighboring_relation=replace
        ),
        2,
    )
    # strong convexity forgets what came before
    strong = noisy_minibatch_sgd(
        steps=10**6, records=4, batch=1, strong_convexity=1, **BATCHES, **LAST
    )
    assert strong.events[0].mu < before.mu / 2


def test_more_steps_of_random_batches_cost_no_more():
    found = [
        RDPAccountant()
        .compose(
            noisy_minibatch_sgd(steps=steps, records=50, batch=5, **BATCHES, **LAST)
        )
        .epsilon(1e-6)
        for steps in (10, 100, 2000, 10**5, 10**12)
    ]
    assert found[0] < found[1]
    assert found[-1] == found[-2]
    with pytest.raises(ParameterError, match="last_iterate_only must be True"):
        noisy_minibatch_sgd(
            steps=5, records=4, batch=1, **BATCHES, last_iterate_only=False
        )
    with pytest.raises(ParameterError, match="window must be"):
        noisy_minibatch_sgd(steps=5, records=4, batch=1, window=0, **BATCHES, **LAST)
    with pytest.raises(ParameterError, match="step_size must be <= 2/smoothness"):
        noisy_minibatch_sgd(
            steps=5, records=4, batch=1, **{**BATCHES, "step_size": 3}, **LAST
        )


def test_gradient_steps():
    assert gradient_contraction(step_size=2, smoothness=1) == 1
    assert gradient_contraction(step_size=1, smoothness=1, strong_convexity=1) == 0
    assert gradient_contraction(
        step_size=1.5, smoothness=1, strong_convexity=0.5
    ) == Fraction(1, 2)
    with pytest.raises(ParameterError, match="step_size must be <= 2/smoothness"):
        gradient_contraction(step_size=2.001, smoothness=1)
    with pytest.raises(ParameterError, match="strong_convexity must be in"):
        gradient_contraction(step_size=1, smoothness=1, strong_convexity=2)


def test_a_step_that_expands_breaks_the_theorem():
    # x -> -1.5 x (step 2.5/beta of x^2 beta/2): distances grow, and so does mu.
    mean, variance = 1.0, 1.0
    for _ in range(5):
        mean, variance = 1.5 * mean, 2.25 * variance + 1
    claimed_if_contractive = contractive_iteration(
        shifts=[1] + [0] * 5, sigmas=[1] * 6, **LAST
    ).mu
    assert mean / math.sqrt(variance) > float(claimed_if_contractive)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1], [1]), {"last_iterate_only": False}, "last_iterate_only must be True"),
        (([1, 1], [1]), LAST, "must have the same length"),
        (([0], [1]), LAST, "shifts must be >= 0 and not all 0"),
        (([1], [0]), LAST, "sigmas must be > 0"),
        (([], []), LAST, "shifts must have 1 to"),
        (([1], [1]), {"contractions": [1.01], **LAST}, "contractions must be >= 0"),
        (([1], [1]), {"diameter": 0, **LAST}, "diameter must be finite and > 0"),
    ],
)
def test_conditions_are_named(arguments, options, message):
    with pytest.raises(ParameterError, match=message):
        contractive_iteration(shifts=arguments[0], sigmas=arguments[1], **options)


def test_types():
    with pytest.raises(DTypeError, match="last_iterate_only must be a bool"):
        contractive_iteration(shifts=[1], sigmas=[1], last_iterate_only=1)
    with pytest.raises(DTypeError, match="shifts must be a sequence"):
        contractive_iteration(shifts="1", sigmas=[1], **LAST)
    setting = {"sigma": 1, "step_size": 1, "lipschitz": 1, "smoothness": 1}
    with pytest.raises(ParameterError, match="record must be in"):
        noisy_sgd(5, record=6, **setting, **LAST, passes=1)
    with pytest.raises(ParameterError, match=r"records \* passes must be <= 100000"):
        noisy_sgd(10**6, **setting, **LAST, passes=1)
