"""Trade-off functions: on or below the truth, and close to it."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting.fdp import (
    ApproximateTradeOff,
    GaussianTradeOff,
    LaplaceTradeOff,
    PiecewiseTradeOff,
    compose_trade_offs,
    gdp_delta,
)

RATES = [0.0, 1e-300, 1e-9, 0.01, 0.1, 0.3, 0.5, 0.62, 0.9, 1 - 1e-9, 1.0]


def quantile(x):
    """Return z with Phi(-z) = x."""
    if x > 0.5:
        return -quantile(1 - x)
    start = mp.sqrt(-2 * mp.log(x)) - mp.mpf("0.5")
    return mp.findroot(
        lambda v: mp.log(mp.erfc(v / mp.sqrt(2)) / 2) - mp.log(x), start, verify=False
    )


def true_gaussian(x, mu):
    if x in (0, 1):
        return mp.mpf(1 - x)
    return mp.erfc(-(quantile(x) - mu) / mp.sqrt(2)) / 2


def true_laplace(x, e):
    if x < mp.exp(-e) / 2:
        return 1 - mp.exp(e) * x
    return mp.exp(-e) / (4 * x) if x <= 0.5 else mp.exp(-e) * (1 - x)


def true_approximate(x, e, d):
    return max(mp.mpf(0), 1 - d - mp.exp(e) * x, mp.exp(-e) * (1 - d - x))


@pytest.mark.parametrize("size", ["1e-8", "0.1", "1", "3", "20"])
def test_values_are_never_above_and_close(size):
    exact = mp.mpf(size)
    with mp.workdps(50):
        for function, true in [
            (GaussianTradeOff(Fraction(size)), lambda x: true_gaussian(x, exact)),
            (LaplaceTradeOff(Fraction(size)), lambda x: true_laplace(x, exact)),
            (
                ApproximateTradeOff(Fraction(size), own_delta=Fraction(1, 100)),
                lambda x: true_approximate(x, exact, mp.mpf(1) / 100),
            ),
        ]:
            got = function(RATES)
            for x, value in zip(RATES, got.tolist(), strict=True):
                lack = true(mp.mpf(x)) - mp.mpf(value)
                assert 0 <= lack < 1e-13, (function, x, float(lack))


@pytest.mark.parametrize("size", [0.1, 1, 6])
def test_knots_lie_on_or_below(size):
    x = np.linspace(0, 1, 2001)
    for function in (GaussianTradeOff(size), LaplaceTradeOff(size)):
        knots = function.knots()
        gap = function(x) - knots(x)
        assert np.all(gap > -1e-13)
        assert gap.max() < 3e-5
        assert function.inverse() is function


@pytest.mark.parametrize("epsilon", [0, 1e-8, 0.3, 0.999, 1.5])
def test_duality_with_epsilon_and_delta(epsilon):
    laplace = LaplaceTradeOff(1)
    true = max(0.0, -math.expm1((epsilon - 1) / 2))
    assert 0 <= laplace.delta(epsilon) - true < 2e-15
    assert laplace.conjugate(-math.exp(epsilon)) == pytest.approx(true - 1, abs=1e-14)
    gaussian = GaussianTradeOff(2)
    assert gaussian.delta(epsilon) == gdp_delta(epsilon=epsilon, mu=2)
    assert 0 <= gaussian.knots().delta(epsilon) - gaussian.delta(epsilon) + 1e-13 < 1e-4
    own = ApproximateTradeOff(1, own_delta=Fraction(1, 100)).delta(epsilon)
    share = max(0.0, (math.e - math.exp(epsilon)) / (1 + math.e))
    assert own == pytest.approx(0.01 + 0.99 * share, abs=1e-14)


def test_conjugates_beyond_the_slopes():
    function = GaussianTradeOff(1)
    assert function.conjugate([0.0, 2.0]).tolist() == [0.0, 2.0]
    # The supremum over a fine grid, at slopes on both sides of -1
    x = np.linspace(0, 1, 200_001)
    for slope in (-0.02, -0.5, -1.0, -3.0):
        direct = (slope * x - function(x)).max()
        assert 0 <= function.conjugate(slope) - direct + 1e-12 < 1e-9


def test_biconjugate_gives_the_function_back():
    function = LaplaceTradeOff(2).knots()
    slopes = -np.exp(np.linspace(-8, 8, 4001))
    heights = function.conjugate(slopes)
    for x in (0.02, 0.2, 0.6):
        again = (slopes * x - heights).max()
        assert 0 <= function(x) - again + 1e-12 < 1e-5


# ---- groups, symmetry, sampling --------------------


def test_groups_iterate_the_power():
    function = ApproximateTradeOff(1, own_delta=Fraction(1, 100))
    tripled = function.group(3)
    grown = 0.01 * math.expm1(3) / math.expm1(1)
    assert tripled.delta(3.0) == pytest.approx(grown, rel=1e-12)
    assert GaussianTradeOff(2).group(3) == GaussianTradeOff(6)
    x = np.linspace(0, 1, 101)
    numeric = GaussianTradeOff(1).knots().group(2)(x)
    exact = GaussianTradeOff(2)(x)
    assert np.all(numeric <= exact + 1e-13)
    assert np.all(exact - numeric < 1e-4)


def test_inverse_and_symmetrized():
    function = PiecewiseTradeOff(
        false_positive_rates=[0, 0.2, 0.6, 1], false_negative_rates=[0.9, 0.4, 0.1, 0]
    )
    inverse = function.inverse()
    assert inverse.false_positive_rates.tolist() == [0, 0.1, 0.4, 0.9, 1]
    assert inverse.false_negative_rates.tolist() == [1, 0.6, 0.2, 0, 0]
    x = np.linspace(0, 1, 501)
    better = function.symmetrized()
    lack = np.maximum(function(x), inverse(x)) - better(x)
    assert np.all((lack > -1e-15) & (lack < 1e-14))
    # Delta reads both orders.
    worse = function.delta(1.0)
    assert worse == inverse.delta(1.0) >= better.delta(1.0) - 1e-15


@pytest.mark.parametrize("probability", [0.01, 0.3, 1])
def test_sampling_amplifies_as_the_profile_says(probability):
    # delta'(ln(1 + p (e^epsilon - 1))) = p delta(epsilon)
    for function in (LaplaceTradeOff(1), GaussianTradeOff(1)):
        for epsilon in (0.0, 0.2, 0.7):
            outer = math.log1p(probability * math.expm1(epsilon))
            true = probability * float(function.delta(epsilon))
            for sampled in (
                function.sampled(probability),
                function.amplified(probability),
            ):
                assert sampled.delta(outer) == pytest.approx(true, rel=5e-5)
                assert sampled.delta(outer) >= true * (1 - 1e-12)


def test_composing_the_symmetrized_function_is_looser():
    function = GaussianTradeOff(1)
    apart = compose_trade_offs([(function.sampled(0.05), 100)])
    together = compose_trade_offs([(function.amplified(0.05), 100)])
    epsilons = np.array([0.5, 1.0, 2.0])
    assert np.all(apart.delta(epsilons) < together.delta(epsilons))


# ---- composition --------------------


@pytest.mark.parametrize(("mu", "count"), [(1, 2), ("0.5", 16), ("0.1", 100)])
def test_composition_is_on_or_below_the_gaussian_truth(mu, count):
    part = GaussianTradeOff(Fraction(mu))
    numeric = compose_trade_offs([(part.knots(), count)])
    exact = compose_trade_offs([(part, count)])
    assert isinstance(exact, GaussianTradeOff)
    x = np.linspace(0, 1, 401)
    gap = exact(x) - numeric(x)
    assert np.all(gap > -1e-12)
    assert gap.max() < 1e-4
    for epsilon in (0.0, 1.0, 3.0):
        ratio = numeric.delta(epsilon) / exact.delta(epsilon)
        assert 1 - 1e-12 < ratio < 1 + 2e-3


def test_composition_of_responses_is_the_binomial_sum():
    e, k = 0.4, 30
    numeric = compose_trade_offs([(ApproximateTradeOff(Fraction(e)), k)])
    p = 1 / (1 + math.exp(-e))
    for epsilon in (0.0, 1.0, 3.3):
        true = sum(
            math.comb(k, i)
            * p ** (k - i)
            * (1 - p) ** i
            * max(0.0, -math.expm1(epsilon - (k - 2 * i) * e))
            for i in range(k + 1)
        )
        assert true * (1 - 1e-12) <= numeric.delta(epsilon) < true * (1 + 1e-4)


def test_composition_of_deltas():
    numeric = compose_trade_offs(
        [(ApproximateTradeOff(0, own_delta=Fraction(1, 50)), 20)]
    )
    assert 0 <= numeric.delta(5.0) - (1 - 0.98**20) < 1e-7


def test_mixed_composition_against_brute_force():
    # Two small pairs: all products of pieces, sorted by their ratio.
    one = PiecewiseTradeOff(
        false_positive_rates=[0, 0.1, 0.5, 1], false_negative_rates=[1, 0.6, 0.15, 0]
    )
    two = PiecewiseTradeOff(
        false_positive_rates=[0, 0.3, 1], false_negative_rates=[1, 0.2, 0]
    )
    pieces = [
        (np.diff(f.false_positive_rates), -np.diff(f.false_negative_rates))
        for f in (one, two)
    ]
    products = [
        (p0 * p1, q0 * q1)
        for (p0, q0), (p1, q1) in itertools.product(
            *(zip(*piece, strict=True) for piece in pieces)
        )
    ]
    products.sort(key=lambda pair: pair[1] / pair[0], reverse=True)
    x = np.cumsum([0, *(p for p, _ in products)])
    f = 1 - np.cumsum([0, *(q for _, q in products)])
    numeric = compose_trade_offs([(one, 1), (two, 1)])
    lack = np.interp(x, x, f) - numeric(np.minimum(x, 1.0))
    assert np.all((lack > -1e-13) & (lack < 1e-6))
