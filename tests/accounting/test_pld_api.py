"""Whole curves of the exact loss, its export, the second method, calibration."""

import math

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import (
    ApproximateDPEvent,
    GaussianEvent,
    GaussianTradeOff,
    PiecewiseTradeOff,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
    readings,
)
from fastdp.accounting._pld.trade_off import inverse_above, inverse_below
from fastdp.exceptions import (
    DTypeError,
    ParameterError,
)

RATES = np.concatenate(
    [[0.0, 1e-300, 1e-12, 1e-6], np.linspace(0.001, 0.999, 23), [1 - 1e-9, 1.0]]
)


def composed(event, count=1):
    return PLDAccountant().compose(event, count)


def sampled(rate, sigma):
    return PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=sigma))


SGD = composed(sampled(0.01, 1), 2000)


# ---- the trade-off function ----------------------------------------------------------


def true_gaussian(x, mu):
    """Return Phi(Phi^-1(1 - x) - mu) to many digits."""
    if x in (0, 1):
        return mp.mpf(1 - x)
    with mp.workdps(40):
        z = -mp.sqrt(2) * mp.erfinv(2 * mp.mpf(x) - 1) if x > 1e-9 else None
        if z is None:
            start = mp.sqrt(-2 * mp.log(mp.mpf(x)))
            z = mp.findroot(
                lambda v: mp.log(mp.erfc(v / mp.sqrt(2)) / 2) - mp.log(mp.mpf(x)),
                start,
            )
        return mp.erfc((mu - z) / mp.sqrt(2)) / 2


def true_counts(x, epsilon, count):
    """Return the least false-negative rate for `count` responses, by enumeration."""
    with mp.workdps(40):
        e = mp.exp(mp.mpf(epsilon))
        atoms = [  # false-positive and true-positive mass, the largest ratio first
            (mp.binomial(count, j) * e ** (count - j), mp.binomial(count, j) * e**j)
            for j in range(count, -1, -1)
        ]
        whole = (1 + e) ** count
        left, power = mp.mpf(x) * whole, mp.mpf(0)
        for p, q in atoms:
            part = min(mp.mpf(1), left / p)
            power += part * q
            left -= part * p
        return 1 - power / whole


def test_the_trade_off_function_of_gaussian_noise_is_between_both():
    lower, upper = composed(GaussianEvent(sensitivity=1, sigma=2), 4).trade_off_bounds()
    for x in RATES:
        true = true_gaussian(x, 1)
        assert true - mp.mpf("1e-11") <= lower(x) <= true + mp.mpf("1e-15")
        assert true <= float(upper(x)) + 1e-16
        assert upper(x) <= true + 3e-5


@pytest.mark.parametrize(("epsilon", "count"), [(1.0, 1), (0.25, 12)])
def test_the_trade_off_function_of_counts_has_their_corners(epsilon, count):
    lower, upper = composed(PureDPEvent(epsilon), count).trade_off_bounds()
    for x in RATES:
        true = true_counts(x, epsilon, count)
        assert true - mp.mpf("1e-12") <= lower(x) <= true + mp.mpf("1e-15")
        assert true <= float(upper(x)) + 1e-16
        assert upper(x) <= true + 2e-12


def test_the_null_hypothesis_of_one_order_is_the_dataset_without_the_record():
    one = SGD.trade_off(symmetric=False)
    for epsilon in (0.3, 2.0):
        slope = -math.exp(epsilon)
        removal, addition = (1 + f.conjugate(slope) for f in (one, one.inverse()))
        # Removal is the larger for Gaussian noise on Poisson samples.
        assert removal == pytest.approx(SGD.delta(epsilon), rel=1e-9)
        assert addition < removal * 0.999
    assert (one(RATES) >= SGD.trade_off()(RATES) - 1e-14).all()


@pytest.mark.slow
def test_one_order_of_a_sampled_step():
    rate, mu = 0.2, 0.5
    one = composed(sampled(rate, 2)).trade_off(symmetric=False)
    for x in RATES[3:-1]:
        true = rate * true_gaussian(x, mu) + (1 - rate) * (1 - mp.mpf(x))
        assert true - 1e-6 <= one(x) <= true + mp.mpf("1e-15")
    # The guarantee in both orders is the hull of both.
    both = composed(sampled(rate, 2)).trade_off()
    known = GaussianTradeOff(mu).amplified(rate)
    assert np.abs(both(RATES) - known(RATES)).max() < 2e-6


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_trade_off_function_says_what_the_accountant_says(symmetric):
    lower, upper = SGD.trade_off_bounds(symmetric=symmetric)
    for epsilon in (0.0, 0.5, 3.0):
        bounds = SGD.delta_bounds(epsilon)
        assert lower.delta(epsilon) == pytest.approx(bounds.upper, rel=1e-9)
        assert upper.delta(epsilon) <= bounds.upper * (1 + 1e-9) + 1e-15
        assert upper.delta(epsilon) == pytest.approx(bounds.estimate, abs=3e-5)
        line = 1 + float(lower.conjugate(-math.exp(epsilon)))
        assert bounds.lower - 1e-12 <= line if symmetric else line > 0
    values = lower(np.linspace(0, 1, 201))
    assert (np.diff(values) < 0).all()
    assert (np.diff(values, 2) > -1e-12).all()
    assert (lower(RATES) <= upper(RATES)).all()
    if symmetric:
        assert np.abs(lower.inverse()(values) - np.linspace(0, 1, 201)).max() < 1e-8
    assert isinstance(lower.knots(), PiecewiseTradeOff)
    assert (lower.knots()(RATES) <= lower(RATES) + 1e-15).all()


def test_a_lost_mass_is_seen_at_once():
    lower, upper = composed(
        ApproximateDPEvent(epsilon=0.3, delta=1e-3), 2
    ).trade_off_bounds()
    lost = 1 - 0.999**2
    assert lower(0.0) <= 1 - lost <= upper(0.0) + 1e-16
    assert upper(0.0) - lower(0.0) < 1e-9


def test_more_points_come_closer_and_nothing_composed_tells_nothing():
    few, many = (SGD.trade_off_bounds(points=n).upper(RATES) for n in (50, 500))
    exact = SGD.trade_off()(RATES)
    assert (exact <= many).all()
    assert (many - exact).max() < (few - exact).max() / 20
    nothing = PLDAccountant().trade_off()
    assert np.abs(nothing(RATES) - (1 - RATES)).max() < 1e-9


def test_readings_of_the_exact_function():
    f = composed(GaussianEvent(sensitivity=1, sigma=1)).trade_off()
    power = readings.largest_power_of_trade_off(f, [0.01, 0.05])
    true = [1 - float(true_gaussian(x, 1)) for x in (0.01, 0.05)]
    assert (power >= true).all()
    assert power == pytest.approx(true, rel=1e-10)
    assert power[1] <= readings.largest_power_of_profile(
        composed(GaussianEvent(sensitivity=1, sigma=1)).log_delta, 0.05
    )
    advantage = readings.largest_advantage_of_trade_off(f)
    assert advantage == pytest.approx(math.erf(0.5 / math.sqrt(2)), rel=1e-10)
    posterior = readings.largest_posterior_of_trade_off(
        f, prior=0.1, false_positive_rate=0.05
    )
    likely = 0.1 * true[1]
    assert posterior == pytest.approx(likely / (likely + 0.9 * 0.05), rel=1e-10)
    # Pure privacy bounds the posterior at every rate, and response attains it.
    g = composed(PureDPEvent(1)).trade_off()
    most = readings.largest_posterior(epsilon=1, prior=0.3)
    found = readings.largest_posterior_of_trade_off(
        g, prior=0.3, false_positive_rate=1e-6
    )
    assert found == pytest.approx(most, rel=1e-9)
    with pytest.raises(DTypeError, match="trade_off must be"):
        readings.largest_advantage_of_trade_off(1.0)
    with pytest.raises(ParameterError, match="false_positive_rate"):
        readings.largest_posterior_of_trade_off(g, prior=0.3, false_positive_rate=0)


# ---- profiles ------------------------------------------------------------------------


def test_profiles_are_their_points():
    epsilons = np.array([[2.0, 0.0], [0.7, 5.0]])
    lower, upper = SGD.delta_profile(epsilons)
    assert lower.shape == upper.shape == (2, 2)
    for e, low, high in zip(epsilons.flat, lower.flat, upper.flat, strict=True):
        bounds = SGD.delta_bounds(e)
        assert low <= bounds.upper
        assert bounds.lower <= high
        assert high == pytest.approx(bounds.upper, rel=1e-8)


@pytest.mark.parametrize("sigma", [0.05, 1, 1e4])
def test_profiles_of_gaussian_noise_alone(sigma):
    made = composed(GaussianEvent(sensitivity=1, sigma=sigma))
    epsilons = np.concatenate([[0.0], np.geomspace(1e-3 / sigma, 80 / sigma, 30)])
    lower, upper = made.ln_delta_profile(epsilons)
    assert ((upper - lower) <= 1e-11 * np.maximum(1, -upper)).all()
    for e, low, high in zip(epsilons.tolist(), lower, upper, strict=True):
        with mp.workdps(60):
            mu, x = 1 / mp.mpf(sigma), mp.mpf(e)
            a, b = (x / mu - mu / 2) / mp.sqrt(2), (x / mu + mu / 2) / mp.sqrt(2)
            true = mp.log((mp.erfc(a) - mp.exp(x) * mp.erfc(b)) / 2)
        assert low <= true <= high


@pytest.mark.parametrize("size", [3, 40, 4000])
def test_epsilons_at_many_deltas(size):
    deltas = np.geomspace(1e-12, 0.4, size)[::-1]
    lower, upper = SGD.epsilon_profile(deltas)
    assert (lower <= upper).all()
    assert (np.diff(upper) >= 0).all()
    assert (upper - lower).max() < 1e-8
    for i in range(0, size, max(1, size // 5)):
        bounds = SGD.epsilon_bounds(deltas[i])
        assert lower[i] <= bounds.upper
        assert bounds.lower <= upper[i]


def test_epsilon_profiles_at_their_ends():
    lossy = composed(ApproximateDPEvent(epsilon=1, delta=0.01), 3)
    deltas = np.concatenate([np.geomspace(1e-6, 0.02, 10), np.linspace(0.04, 0.99, 9)])
    lower, upper = lossy.epsilon_profile(deltas)
    assert np.isinf(upper[deltas < 0.0297]).all()
    assert np.isfinite(upper[deltas > 0.03]).all()
    assert upper[-1] == 0
    assert (lower <= upper).all()
    nothing = PLDAccountant().epsilon_profile(np.linspace(0.1, 0.9, 20))
    assert not np.any(nothing)


def test_inverse_bounds_of_a_known_profile():
    """delta = e^-epsilon is convex in a; bounds are put off it by a factor."""
    epsilons = np.linspace(0, 8, 60)
    targets = -np.linspace(0.3, 7.5, 41)
    above = inverse_above(epsilons, -epsilons + 1e-6, targets)
    below = inverse_below(epsilons, -epsilons - 1e-6, -epsilons + 1e-6, targets)
    assert (above >= -targets).all()
    assert (below <= -targets).all()
    assert (above - below).max() < 0.02


def test_bad_points():
    for call, name in (
        (lambda: SGD.delta_profile([-1.0]), "epsilons"),
        (lambda: SGD.delta_profile([math.nan]), "epsilons"),
        (lambda: SGD.epsilon_profile([-0.1]), "deltas"),
        (lambda: SGD.epsilon_profile([1.1]), "deltas"),
        (lambda: SGD.trade_off_bounds(points=2), "points"),
        (lambda: SGD.trade_off()([1.5]), "false_positive_rate"),
        (lambda: SGD.distribution(interval=0), "interval"),
        (lambda: SGD.distribution(interval=1e-6), "interval"),
        (lambda: SGD.distribution(interval=1e6), "interval"),
        (lambda: SGD.distribution(tail_mass=1), "tail_mass"),
    ):
        with pytest.raises(ParameterError, match=name):
            call()
    for call, name in (
        (lambda: SGD.epsilon_profile(["x"]), "deltas"),
        (lambda: SGD.trade_off(symmetric=1), "symmetric"),
        (lambda: SGD.distribution(pessimistic=0), "pessimistic"),
        (lambda: SGD.epsilon_bounds(0.1, check=1), "check"),
    ):
        with pytest.raises(DTypeError, match=name):
            call()
