"""Shuffled reports: exact sums at 50 digits, attacks on small instances, conditions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from fastdp.accounting._amplification import (
    binomial,
    shuffled_response,
    shuffled_table,
    shuffling,
)
from fastdp.accounting.amplification import (
    shuffled_clients,
    shuffled_closed_form_epsilon,
    shuffled_delta,
    shuffled_epsilon,
    shuffled_epsilon_bounds,
    shuffled_event,
    shuffled_local_epsilon,
    shuffled_log_delta,
)
from fastdp.exceptions import CalibrationError, DTypeError, ParameterError


def number(value):
    """Return the exact value of a double in mpmath."""
    exact = Fraction(value)
    return mp.mpf(exact.numerator) / exact.denominator


def pair_delta(e0, n, epsilon, k):
    """Return the pair's delta by summing over all counts, at 50 digits."""
    grown, x = mp.exp(number(e0)), mp.exp(number(epsilon))
    parts = k or 2
    q = 1 / (grown + parts - 1)
    rate = parts * q if k else 1 / grown
    total = mp.mpf(0)
    for hidden in range(n):
        weight = mp.binomial(n - 1, hidden) * rate**hidden
        weight *= (1 - rate) ** (n - 1 - hidden)
        size = hidden + 1
        pairs = range(size + 1) if parts > 2 else [size]
        for s in pairs:
            share = mp.mpf(2) / parts
            chance = mp.binomial(size, s) * share**s
            chance *= (1 - share) ** (size - s) if parts > 2 else 1
            for a in range(s + 1):
                gain = (grown - 1) * (a - x * (s - a)) - (x - 1) * size
                if gain > 0:
                    law = mp.binomial(s, a) / mp.mpf(2) ** s
                    total += weight * chance * law * q * parts / size * gain
    return total


CASES = [
    *itertools.product([0.1, 1, 3], [1, 2, 7, 30], [0.02, 0.3, 0.9], [None, 2]),
    *itertools.product([0.5, 2, 5], [1, 2, 10], [0.1, 0.6], [3, 8]),
    *[(30, 5, 0.95, None), (1e-4, 20, 0.3, 2), (2, 40, 0, None), (9, 12, 0.999, 4)],
    *[(300, 3, 0.5, None), (200, 4, 0.99, 5), (4, 25, 0.7, 50)],
]


@pytest.mark.parametrize(("e0", "n", "share", "k"), CASES)
def test_delta_is_the_sum_over_all_counts(e0, n, share, k):
    epsilon = share * e0
    with mp.workdps(50 + int(2 * e0)):
        true = mp.log(pair_delta(e0, n, epsilon, k))
        found = shuffled_log_delta(
            local_epsilon=e0, clients=n, epsilon=epsilon, categories=k
        )
        # (at most 1e-11, or 1e-14 of large logarithms and exponents)
        assert true <= found <= true + 1e-11 + 4e-14 * (abs(true) + e0)
        pair = shuffling.ShuffledPair(float(e0), n, k)
        assert shuffling.log_delta(pair, float(epsilon), upper=False) <= true


@pytest.mark.parametrize(("n", "k"), [(100, None), (130, 2)])
def test_delta_of_a_hundred_clients(n, k):
    for epsilon in [0.05, 0.25]:
        with mp.workdps(50):
            true = mp.log(pair_delta(1.5, n, epsilon, k))
        found = shuffled_log_delta(
            local_epsilon=1.5, clients=n, epsilon=epsilon, categories=k
        )
        assert true <= found <= true + 1e-10


def hinge(trials, v):
    """Return E[(a - trials/2 - v)_+] for a fair binomial, by a sum from its top."""
    m = int(mp.floor(mp.mpf(trials) / 2 + v)) + 1
    law = mp.binomial(trials, m) / mp.mpf(2) ** trials
    total = mp.mpf(0)
    for a in range(m, trials + 1):
        part = law * (a - mp.mpf(trials) / 2 - v)
        total += part
        if a > m + 2 and part < mp.mpf(10) ** -30 * total:
            break
        law *= mp.mpf(trials - a) / (a + 1)
    return total


@pytest.mark.parametrize(
    ("trials", "deviations"),
    [
        *itertools.product([1, 2, 3, 15, 16, 17, 33, 1000, 10**6], [0.1, 3.0, 6.0]),
        *[(1000, 20.0), (10**6, 20.0), (10**6, 900.0), (10**6, 1000.0), (10**9, 38.0)],
    ],
)
def test_the_inner_mean(trials, deviations):
    v = min(deviations * math.sqrt(trials) / 2, trials / 2 * (1 - 2**-20))
    with mp.workdps(40):
        true = mp.log(hinge(trials, number(v)))
    n, at = np.array([float(trials)]), np.array([v])
    above = binomial.log_hinge(n, at, n / 2 - at, True)[0]
    below = binomial.log_hinge(n, at, n / 2 - at, False)[0]
    assert below <= true <= above
    assert above - below < 1e-9 + 4e-13 * abs(true)


# ---- attacks on small instances ------------------------------------------------------


def reports_law(rows):
    """Return the law of the counts of reports, each with a law of its own."""
    law = {(0,) * len(rows[0]): 1.0}
    for row in rows:
        grown = {}
        for counts, chance in law.items():
            for y, p in enumerate(row):
                key = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                grown[key] = grown.get(key, 0.0) + chance * p
        law = grown
    return law


def attack(first, second, others, epsilon):
    """Return delta of the shuffled reports of two datasets, exactly."""
    p, q = reports_law([first, *others]), reports_law([second, *others])
    x = math.exp(epsilon)
    return sum(max(0.0, p[key] - x * q[key]) for key in p)


def response(k, e0):
    grown = math.exp(e0)
    return (np.ones((k, k)) + (grown - 1) * np.eye(k)) / (grown + k - 1)


@pytest.mark.parametrize(("k", "e0", "n"), [(2, 1, 7), (2, 3, 6), (3, 1, 6), (4, 2, 5)])
def test_attacks_on_shuffled_response_stay_below(k, e0, n):
    rows = response(k, e0)
    closest = 0.0
    for held in itertools.combinations_with_replacement(range(k), n - 1):
        for share in [0.0, 0.2, 0.6]:
            claimed = shuffled_delta(
                local_epsilon=e0, clients=n, epsilon=share * e0, categories=k
            )
            true = attack(rows[0], rows[1], rows[list(held)], share * e0)
            assert true <= claimed * (1 + 1e-12)
            closest = max(closest, true / claimed)
            assert claimed <= shuffled_delta(
                local_epsilon=e0, clients=n, epsilon=share * e0
            ) * (1 + 1e-12)
    assert closest > 0.6  # the claim is not far above what an attack gets


@pytest.mark.parametrize("seed", range(12))
def test_attacks_on_any_randomizer_stay_below(seed):
    rng = np.random.default_rng(seed)
    e0, values, outputs = float(rng.uniform(0.3, 3)), 3, 4
    rows = np.exp(rng.uniform(0, e0 / 2, (values, outputs)) * rng.integers(0, 2))
    rows = np.exp(e0 / 2 * rng.integers(0, 2, (values, outputs))) * rows**0.1
    rows /= rows.sum(axis=1, keepdims=True)
    local = float(np.log(rows.max(axis=0) / rows.min(axis=0)).max())
    if local < 1e-6:
        local = 1e-6
    for held in itertools.combinations_with_replacement(range(values), 4):
        for share in [0.0, 0.3, 0.7]:
            true = attack(rows[0], rows[1], rows[list(held)], share * local)
            assert (
                true
                <= shuffled_delta(local_epsilon=local, clients=5, epsilon=share * local)
                * (1 + 1e-9)
                + 1e-15
            )


@pytest.mark.parametrize("seed", range(8))
def test_attacks_on_reports_with_a_delta_stay_below(seed):
    # Three values, four outputs; the last output appears for one value alone.
    rng = np.random.default_rng(seed)
    e0, d0, n = float(rng.uniform(0.3, 2)), 10 ** float(rng.uniform(-4, -2)), 6
    rows = np.exp(e0 / 2 * rng.integers(0, 2, (3, 3)))
    rows /= rows.sum(axis=1, keepdims=True)
    local = max(float(np.log(rows.max(axis=0) / rows.min(axis=0)).max()), 1e-3)
    rows = np.hstack([rows, np.zeros((3, 1))])
    rows[seed % 3] *= 1 - d0
    rows[seed % 3, 3] = d0
    local += -math.log1p(-d0)  # the others' outputs count by that much more
    for held in itertools.combinations_with_replacement(range(3), n - 1):
        for share in [0.0, 0.4, 0.9]:
            true = attack(rows[0], rows[1], rows[list(held)], share * local)
            claimed = shuffled_delta(
                local_epsilon=local, clients=n, epsilon=share * local, local_delta=d0
            )
            assert true <= claimed * (1 + 1e-9)


def test_reports_with_a_delta():
    # delta = pure + (1 + e^epsilon) ((n - 1) d (E + 2)/(E (E + 1)) + d/(E + 1))
    e0, n, d0, epsilon = 2.0, 1000, 1e-9, 0.3
    grown = math.exp(e0)
    far = (n - 1) * d0 * (grown + 2) / (grown * (grown + 1)) + d0 / (grown + 1)
    expected = (
        shuffled_delta(local_epsilon=e0, clients=n, epsilon=epsilon)
        + (1 + math.exp(epsilon)) * far
    )
    found = shuffled_delta(local_epsilon=e0, clients=n, epsilon=epsilon, local_delta=d0)
    assert expected <= found * (1 + 1e-12)
    assert found == pytest.approx(expected, rel=1e-9)
    assert shuffled_delta(
        local_epsilon=e0, clients=n, epsilon=2, local_delta=d0
    ) == pytest.approx(d0)
    more = shuffled_epsilon(local_epsilon=e0, clients=n, delta=1e-6, local_delta=d0)
    assert shuffled_epsilon(local_epsilon=e0, clients=n, delta=1e-6) < more < e0
    assert (
        shuffled_delta(local_epsilon=e0, clients=n, epsilon=more, local_delta=d0)
        <= 1e-6
    )
    # a delta that many clients make too large: each report's own guarantee is left
    assert (
        shuffled_epsilon(local_epsilon=e0, clients=n, delta=2e-9, local_delta=d0) == e0
    )
    event = shuffled_event(local_epsilon=e0, clients=20, local_delta=0.01, points=8)
    assert event.false_negative_rates[0] == pytest.approx(0.99)
    assert event.false_positive_rates[-1] == 1
    with pytest.raises(ParameterError, match="delta must be >= local_delta"):
        shuffled_epsilon(local_epsilon=1, clients=10, delta=1e-10, local_delta=1e-9)
    with pytest.raises(ParameterError, match="local_delta must be 0 if categories"):
        shuffled_delta(
            local_epsilon=1, clients=10, epsilon=0.1, local_delta=1e-9, categories=3
        )
    with pytest.raises(ParameterError, match="local_delta must be >= 0 and < 1"):
        shuffled_delta(local_epsilon=1, clients=10, epsilon=0.1, local_delta=1)


# ---- size, monotonicity, solving -----------------------------------------------------


@pytest.mark.parametrize("n", [10**3, 10**5, 10**6, 10**9])
@pytest.mark.parametrize("e0", [0.5, 2.0, 4.0])
@pytest.mark.parametrize("k", [None, 2])
def test_epsilon_lies_between_close_bounds(n, e0, k):
    for delta in [1e-6, 1e-15]:
        lower, upper = shuffled_epsilon_bounds(
            local_epsilon=e0, clients=n, delta=delta, categories=k
        )
        assert lower <= upper <= lower * (1 + 2e-6)
        assert upper == shuffled_epsilon(
            local_epsilon=e0, clients=n, delta=delta, categories=k
        )
        assert shuffled_delta(
            local_epsilon=e0, clients=n, epsilon=upper, categories=k
        ) <= delta * (1 + 1e-5)


@pytest.mark.parametrize(
    ("e0", "n", "k"),
    [
        *itertools.product([0.5, 2, 4], [60, 10**4, 10**6, 10**9], [3, 10]),
        *[(6, 10**6, 3), (2, 10**6, 1000), (8, 10**9, 1000), (6, 10**4, 100)],
    ],
)
def test_epsilon_of_k_ary_response_lies_between_bounds(e0, n, k):
    lower, upper = shuffled_epsilon_bounds(
        local_epsilon=e0, clients=n, delta=1e-6, categories=k
    )
    assert lower <= upper <= lower * (1 + 1e-6)
    assert (
        shuffled_delta(local_epsilon=e0, clients=n, epsilon=upper, categories=k) <= 1e-6
    )


def test_far_tails_of_k_ary_response_are_bounded():
    for share in [0.9, 0.999]:
        low = shuffled_log_delta(
            local_epsilon=3, clients=10**6, epsilon=share * 3, categories=5
        )
        assert (
            low
            < shuffled_log_delta(
                local_epsilon=3, clients=10**6, epsilon=share * 2.99, categories=5
            )
            < 0
        )


@pytest.mark.parametrize(
    ("e0", "n", "k", "epsilon"),
    [
        *[(2, 2000, 3, 0.25), (1, 3000, 10, 0.05), (3, 9000, 4, 0.2)],
        *[(0.5, 1000, 5, 0.05), (4, 30_000, 10, 0.2), (2, 4000, 30, 0.06)],
    ],
)
def test_an_integral_and_a_table_agree(e0, n, k, epsilon):
    # two computations of the same sum with nothing in common
    law = shuffled_response.ResponseSum.of(float(e0), n, k, epsilon)
    integral = law.log_delta_bounds()
    table = shuffled_table.log_delta_bounds(float(e0), n, k, epsilon, -15.0)
    assert table[0] < table[1] < table[0] + 1e-8
    assert integral[0] < integral[1] < integral[0] + 1e-3
    assert max(integral[0], table[0]) <= min(integral[1], table[1])
    assert law.estimate() == pytest.approx(table[1], abs=1e-2)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_integrals_hold_exact_sums_between_them(share):
    for e0, n, k in [(1, 30, 3), (0.5, 40, 8)]:
        with mp.workdps(25):
            true = mp.log(pair_delta(e0, n, share * e0, k))
        law = shuffled_response.ResponseSum.of(float(e0), n, k, share * e0)
        lower, upper = law.log_delta_bounds()
        assert lower <= true <= upper


def test_more_clients_never_cost_privacy():
    values = [
        shuffled_log_delta(local_epsilon=2, clients=n, epsilon=0.1)
        for n in [10, 100, 10**3, 10**4, 10**5]
    ]
    assert values == sorted(values, reverse=True)
    most = shuffling.MOST_CLIENTS
    assert shuffled_delta(local_epsilon=20, clients=most, epsilon=1) == shuffled_delta(
        local_epsilon=20, clients=10 * most, epsilon=1
    )


def test_ends():
    assert shuffled_delta(local_epsilon=1, clients=100, epsilon=1) == 0.0
    assert shuffled_epsilon(local_epsilon=1, clients=100, delta=0) == 1.0
    assert shuffled_epsilon(local_epsilon=1, clients=10**6, delta=0.5) == 0.0
    # one client hides behind nobody: randomized response
    alone = shuffled_delta(local_epsilon=1, clients=1, epsilon=0.5, categories=2)
    p = 1 / (1 + math.exp(-1))
    assert alone == pytest.approx(p - math.exp(0.5) * (1 - p), rel=1e-11)


@pytest.mark.parametrize(("k", "n"), [(None, 2000), (2, 2000), (16, 40)])
def test_solving_for_the_local_epsilon_and_for_clients(k, n):
    local = shuffled_local_epsilon(epsilon=0.5, delta=1e-6, clients=n, categories=k)
    assert (
        shuffled_delta(local_epsilon=local, clients=n, epsilon=0.5, categories=k)
        <= 1e-6
    )
    assert (
        shuffled_delta(
            local_epsilon=local * (1 + 1e-6), clients=n, epsilon=0.5, categories=k
        )
        > 1e-6
    )
    least = shuffled_clients(epsilon=0.5, delta=1e-6, local_epsilon=local, categories=k)
    assert least <= n
    assert (
        shuffled_delta(local_epsilon=local, clients=least, epsilon=0.5, categories=k)
        <= 1e-6
    )
    assert (
        shuffled_delta(
            local_epsilon=local, clients=least - 1, epsilon=0.5, categories=k
        )
        > 1e-6
    )


def test_a_published_curve():
    # Feldman, McMillan and Talwar 2021, figures: n = 1e4 and more, delta = 1e-6: the
    # numerical bound is a fraction of the closed form, which holds under its condition.
    for n, e0 in [(10**4, 1.0), (10**5, 2.0), (10**6, 4.0), (10**7, 6.0)]:
        exact = shuffled_epsilon(local_epsilon=e0, clients=n, delta=1e-6)
        assert (
            exact
            < shuffled_closed_form_epsilon(local_epsilon=e0, clients=n, delta=1e-6) / 2
        )


def test_the_closed_form_holds_where_its_condition_does():
    for n, e0, delta in itertools.product(
        [200, 10**4, 10**6], [0.01, 0.3, 1, 3, 6], [0.5, 1e-3, 1e-9]
    ):
        if e0 <= math.log(n / (16 * math.log(2 / delta))) - 1e-9:
            closed = shuffled_closed_form_epsilon(
                local_epsilon=e0, clients=n, delta=delta
            )
            assert shuffled_delta(local_epsilon=e0, clients=n, epsilon=closed) <= delta
        else:
            with pytest.raises(ParameterError, match="local_epsilon must be <= ln"):
                shuffled_closed_form_epsilon(local_epsilon=e0, clients=n, delta=delta)


# ---- events --------------------------------------------------------------------------


@pytest.mark.parametrize("k", [None, 2, 5])
def test_the_event_is_below_the_trade_off_of_the_pair(k):
    event = shuffled_event(local_epsilon=1.5, clients=20, categories=k, points=24)
    knots = list(
        zip(event.false_positive_rates, event.false_negative_rates, strict=True)
    )
    for epsilon in [0.0, 0.1, 0.4, 1.0, 1.4]:
        x = math.exp(epsilon)
        read = max(1 - float(f) - x * float(rate) for rate, f in knots)
        true = shuffled_delta(
            local_epsilon=1.5, clients=20, epsilon=epsilon, categories=k
        )
        assert true * (1 - 1e-9) - 1e-16 <= read <= 1.5 * true + 1e-9
    mirrored = {(f, rate) for rate, f in knots}
    assert mirrored == set(knots)


# ---- conditions ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10, 0.1), "local_epsilon must be in"),
        ((301, 10, 0.1), "local_epsilon must be in"),
        ((1, 0, 0.1), "clients must be >= 1"),
        ((1, 10, -0.1), "epsilon must be finite and >= 0"),
    ],
)
def test_parameters_out_of_their_domain(arguments, message):
    with pytest.raises(ParameterError, match=message):
        shuffled_delta(
            local_epsilon=arguments[0], clients=arguments[1], epsilon=arguments[2]
        )


def test_other_refusals():
    with pytest.raises(ParameterError, match="categories must be in"):
        shuffled_delta(local_epsilon=1, clients=10, epsilon=0.1, categories=1)
    with pytest.raises(DTypeError, match="clients must be an int"):
        shuffled_delta(local_epsilon=1, clients=10.0, epsilon=0.1)
    with pytest.raises(ParameterError, match="delta must be"):
        shuffled_epsilon(local_epsilon=1, clients=10, delta=1)
    with pytest.raises(CalibrationError, match="no number up to that"):
        shuffled_clients(epsilon=1e-9, delta=1e-12, local_epsilon=20)
    with pytest.raises(ParameterError, match="points must be in"):
        shuffled_event(local_epsilon=1, clients=10, points=1)
