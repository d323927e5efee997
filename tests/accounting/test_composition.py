"""Composition of (epsilon, delta) against exact sums at 60 digits."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import pytest

from fastdp.accounting import (
    ApproximateAccountant,
    ApproximateDPEvent,
    PLDAccountant,
    PureDPEvent,
    advanced_composition,
    basic_composition,
    kairouz_composition,
)
from fastdp.accounting._pld.finite import SignsProfile
from fastdp.accounting._response import rough_log_delta
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError

mp.mp.dps = 60


def number(value):
    value = Fraction(value)
    return mp.mpf(value.numerator) / value.denominator


def binomial_law(epsilon, count):
    """Return loss -> probability of `count` randomized responses."""
    p = 1 / (1 + mp.exp(-number(epsilon)))
    return {
        (count - 2 * j) * epsilon: mp.binomial(count, j)
        * p ** (count - j)
        * (1 - p) ** j
        for j in range(count + 1)
    }


def law_of(groups):
    law = {Fraction(0): mp.mpf(1)}
    for epsilon, count in groups:
        following = {}
        for loss, mass in law.items():
            for step, weight in binomial_law(epsilon, count).items():
                following[loss + step] = following.get(loss + step, 0) + mass * weight
        law = following
    return law


def stick(law, epsilon):
    return mp.fsum(
        mass * -mp.expm1(number(epsilon - loss))
        for loss, mass in law.items()
        if loss > epsilon
    )


def tail_stick(epsilon, count, at):
    """Return the hockey stick of many equal responses, from its largest terms."""
    p = 1 / (1 + mp.exp(-number(epsilon)))
    last = math.ceil((count - at / epsilon) / 2) - 1
    mode = min(last, int(count * (1 - p)))
    log_term = (
        mp.loggamma(count + 1) + mode * mp.log(1 - p) + (count - mode) * mp.log(p)
    )
    log_term -= mp.loggamma(mode + 1) + mp.loggamma(count - mode + 1)
    total = mp.mpf(0)
    odds = mp.exp(-number(epsilon))
    for step in (1, -1):
        term, j = mp.exp(log_term), mode
        if step < 0:
            term, j = term * j / ((count - j + 1) * odds), j - 1
        while 0 <= j <= last and term > mp.mpf("1e-40") * total:
            total += term * -mp.expm1(number(at - (count - 2 * j) * epsilon))
            term *= (
                (count - j) * odds / (j + 1)
                if step > 0
                else j / ((count - j + 1) * odds)
            )
            j += step
    return total


def log_stick(groups, at):
    """Return ln(delta) of pure events, each as often as said."""
    accountant = ApproximateAccountant()
    for epsilon, count in groups:
        accountant.compose(PureDPEvent(epsilon), count)
    return accountant.log_delta(at)


HOMOGENEOUS = list(
    itertools.product(["1e-8", "0.01", "0.1", "1", "7", "100"], [1, 2, 7, 100, 1000])
)


@pytest.mark.parametrize(("epsilon", "count"), HOMOGENEOUS)
def test_equal_epsilons_are_composed_exactly(epsilon, count):
    epsilon = Fraction(epsilon)
    law = binomial_law(epsilon, count)
    for share in ["0", "1e-5", "0.01", "0.3", "0.77", "0.99"]:
        at = Fraction(share) * epsilon * count
        true = mp.log(stick(law, at))
        got = log_stick([(epsilon, count)], at)
        assert got == 0 or 0 <= got - true < 2e-12 + 5e-15 * abs(true), share


@pytest.mark.parametrize("epsilon", ["1e-4", "0.003"])
@pytest.mark.parametrize("count", [10**5, 10**6])
def test_equal_epsilons_at_large_counts(epsilon, count):
    epsilon = Fraction(epsilon)
    spread = epsilon * math.isqrt(count)
    for deviations in [4, 36]:
        at = deviations * spread + epsilon * epsilon * count / 2
        true = mp.log(tail_stick(epsilon, count, at))
        got = log_stick([(epsilon, count)], at)
        assert 0 <= got - true < 3e-12 + 4e-15 * abs(true)
        bracket = SignsProfile(epsilon, count).log_delta(at)
        assert bracket.lower <= true <= bracket.upper
        assert bracket.upper - bracket.lower < 6e-12 + 2e-14 * abs(true)


def test_many_equal_steps_are_told_from_both_sides_at_any_depth():
    # Cells of a lattice told deltas this small from above only, by moments.
    accountant = PLDAccountant().compose(PureDPEvent(Fraction(1, 10)), 10**6)
    for at in [5000, 30000, 99000]:
        bracket = accountant.ln_delta_bounds(at)
        assert bracket[1] - bracket[0] < 1e-11 + 2e-14 * abs(bracket[0])
    low, high = accountant.epsilon_bounds(1e-300)[:2]
    assert 0 < high - low < 1e-11 * high


HETEROGENEOUS = [
    [("0.1", 1), ("0.2", 1), ("1", 1)],
    [(f"{i}/10", 1) for i in range(1, 11)],
    [("0.01", 30), ("0.5", 3), ("1e-6", 10)],
    [("1e-8", 1), ("2e-8", 2), ("1.5e-8", 1)],
    [("0.1", 200), ("0.3", 50)],
    [(f"{i}/100", 1) for i in range(10, 22)],
    [("20", 2), ("0.001", 5)],
]


@pytest.mark.parametrize("groups", HETEROGENEOUS, ids=lambda g: f"{len(g)}-{g[0][0]}")
def test_different_epsilons_are_composed_exactly(groups):
    groups = [(Fraction(epsilon), count) for epsilon, count in groups]
    law = law_of(groups)
    whole = sum(epsilon * count for epsilon, count in groups)
    for share in ["0", "0.05", "0.3", "0.9"]:
        true = mp.log(stick(law, Fraction(share) * whole))
        got = log_stick(groups, Fraction(share) * whole)
        # Suffix sums cancel where all gaps are tiny; the error is charged.
        slack = 1e-7 if groups[0][0] < 1e-7 else 1e-11
        assert got == 0 or 0 <= got - true < slack * (1 + abs(true))


def test_many_different_epsilons_go_through_atoms():
    groups = [(Fraction(i, 100), 1) for i in range(1, 61)]
    law = {0: mp.mpf(1)}
    for epsilon, _ in groups:
        p = 1 / (1 + mp.exp(-number(epsilon)))
        step = int(100 * epsilon)
        following = {}
        for loss, mass in law.items():
            following[loss + step] = following.get(loss + step, 0) + mass * p
            following[loss - step] = following.get(loss - step, 0) + mass * (1 - p)
        law = following
    for at in [1, 4, 8]:
        true = stick({Fraction(k, 100): m for k, m in law.items()}, Fraction(at))
        got = log_stick(groups, Fraction(at))
        assert mp.log(true) <= got < mp.log(true) + 1e-4
        assert got < rough_log_delta(groups, Fraction(at)) < mp.log(true) + 2
    accountant = ApproximateAccountant()
    for epsilon, _ in groups:
        accountant.compose(PureDPEvent(epsilon))
    found = accountant.epsilon(1e-6)
    assert accountant.log_delta(found) < math.log(1e-6) + 1e-4
    assert accountant.log_delta(found * (1 - 1e-4)) > math.log(1e-6)


def test_published_values():
    accountant = ApproximateAccountant().compose(PureDPEvent(Fraction(1, 10)), 100)
    assert accountant.epsilon(1e-6) == pytest.approx(4.774567588, abs=1e-9)
    assert kairouz_composition({Fraction(1, 10): 100}, slack=1e-6) == pytest.approx(
        5.756105519, abs=1e-9
    )
    mixed = ApproximateAccountant()
    for i in range(1, 11):
        mixed.compose(PureDPEvent(Fraction(i, 10)))
    assert mixed.delta(3) == pytest.approx(0.14798443, abs=1e-8)


def test_between_lattice_points_nothing_is_lost():
    # On the lattice alone 2.8 is the least that can be said; off it, 2.7807.
    events = ApproximateAccountant().compose(PureDPEvent(Fraction(1, 10)), 40)
    delta = events.delta(Fraction("2.7807"))
    assert delta < ApproximateAccountant().compose(
        PureDPEvent(Fraction(1, 10)), 40
    ).delta(Fraction("2.75"))
    found = events.epsilon(delta)
    assert abs(found - 2.7807) < 1e-9
    assert round(found / 0.1) * 0.1 != pytest.approx(found, abs=1e-3)


@pytest.mark.parametrize("count", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("epsilon", ["1e-8", "0.001", "0.5", "3"])
@pytest.mark.parametrize("slack", ["1e-3", "1e-15", "1e-300"])
def test_closed_forms_are_in_order_and_rounded_up(epsilon, count, slack):
    e, d = Fraction(epsilon), Fraction(slack)
    x, log_d = number(e), mp.log(number(d))
    drv = x * mp.sqrt(-2 * count * log_d) + count * x * mp.expm1(x)
    drift = count * x * mp.tanh(x / 2)
    kov = min(
        drift + x * mp.sqrt(-2 * count * log_d),
        drift
        + x * mp.sqrt(2 * count * mp.log(mp.e + mp.sqrt(count * x * x) / number(d))),
    )
    older = advanced_composition(epsilon=e, count=count, slack=d)
    closed = kairouz_composition({e: count}, slack=d)
    for got, true in ((older, drv), (closed, kov)):
        true = min(true, count * x)
        assert 0 <= got - true <= 3e-16 * true
    best = ApproximateAccountant().compose(PureDPEvent(e), count).epsilon(d)
    assert best <= closed <= older


def test_heterogeneous_closed_form():
    epsilons = {Fraction(i, 10): i for i in range(1, 6)}
    square = sum(float(e) ** 2 * k for e, k in epsilons.items())
    drift = sum(k * float(e) * math.tanh(float(e) / 2) for e, k in epsilons.items())
    expected = drift + math.sqrt(2 * square * math.log(1e9))
    got = kairouz_composition(epsilons, slack=1e-9)
    second = math.sqrt(2 * square * math.log(math.e + math.sqrt(square) * 1e9))
    whole = float(sum(e * k for e, k in epsilons.items()))
    assert got == pytest.approx(min(expected, drift + second, whole), rel=1e-12)


def test_deltas_of_the_events():
    event = ApproximateDPEvent(epsilon=Fraction(1, 10), delta=Fraction(1, 10**6))
    accountant = ApproximateAccountant().compose(event, 100)
    broken = 1 - (1 - mp.mpf(10) ** -6) ** 100
    assert 0 <= accountant.delta(10) / broken - 1 < 1e-11
    with pytest.raises(UnsupportedEventError, match="at least"):
        accountant.epsilon(1e-5)
    with pytest.raises(UnsupportedEventError, match="at least"):
        accountant.epsilon(0)
    pure = ApproximateAccountant().compose(PureDPEvent(Fraction(1, 10)), 100)
    for at in [1, 3]:
        expected = broken + (1 - broken) * mp.mpf(pure.delta(at))
        assert abs(accountant.delta(at) / expected - 1) < 1e-11
    found = accountant.epsilon(1e-3)
    assert accountant.delta(found) <= 1e-3 * (1 + 1e-11)
    assert accountant.delta(found * (1 - 1e-9)) > 1e-3 * (1 - 1e-7)


def test_basic_composition_is_exact():
    pairs = [(Fraction(1, 3), Fraction(1, 10)), (2, 0), (0, Fraction(1, 2))]
    assert basic_composition(pairs) == (Fraction(7, 3), Fraction(11, 20))
    assert basic_composition([]) == (0, 0)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: advanced_composition(epsilon=-1, count=1, slack=0.1), ParameterError),
        (
            lambda: advanced_composition(epsilon=float("inf"), count=1, slack=0.1),
            ParameterError,
        ),
        (lambda: advanced_composition(epsilon=1, count=0, slack=0.1), ParameterError),
        (lambda: advanced_composition(epsilon=1, count=1.5, slack=0.1), DTypeError),
        (lambda: advanced_composition(epsilon=1, count=1, slack=0), ParameterError),
        (lambda: kairouz_composition({Fraction(1): -1}, slack=0.1), ParameterError),
        (lambda: kairouz_composition({float("nan"): 1}, slack=0.1), ParameterError),
        (lambda: basic_composition([(1, 1)]), ParameterError),
    ],
)
def test_bad_parameters(call, error):
    with pytest.raises(error):
        call()
