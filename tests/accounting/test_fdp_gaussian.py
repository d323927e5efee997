"""The Gaussian profile for arrays and its accountant, against 50 digits and more."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    PoissonSampledEvent,
)
from fastdp.accounting.fdp import (
    GaussianTradeOff,
    GDPAccountant,
    gdp_delta,
    gdp_epsilon,
    gdp_log_delta,
)
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError

PLACES = [-30, -3, -1.1, -0.9, 0, 1e-3, 0.5, 2.9, 14.9, 15.1, 37, 100]


def true_log_delta(epsilon, mu):
    with mp.workdps(250):
        e, m = mp.mpf(epsilon), mp.mpf(mu)
        near = mp.erfc((e / m - m / 2) / mp.sqrt(2))
        far = mp.erfc((e / m + m / 2) / mp.sqrt(2))
        return mp.log((near - mp.exp(e) * far) / 2)


@pytest.mark.parametrize("mu", [1e-9, 1e-5, 1e-3, 0.01, 0.05, 0.3, 1, 3, 12, 60])
def test_profile_is_never_below_and_close(mu):
    epsilons = [mu * (a + mu / 2) for a in PLACES if a + mu / 2 >= 0]
    got = gdp_log_delta(epsilon=epsilons, mu=mu)
    for epsilon, value in zip(epsilons, got.tolist(), strict=True):
        true = true_log_delta(epsilon, mu)
        excess = float(mp.mpf(value) - true)
        assert 0 <= excess < 1e-12 * max(1, abs(value)), (epsilon, excess)
        # alone and together with others, and delta itself
        assert abs(float(gdp_log_delta(epsilon=epsilon, mu=mu)) - value) < 1e-11
        delta, exact = float(gdp_delta(epsilon=epsilon, mu=mu)), mp.exp(true)
        slack = 2e-12 + 3e-14 * abs(value)
        assert exact <= delta <= exact * (1 + slack) + mp.mpf("1e-323")


@pytest.mark.parametrize("mu", [1e-8, 0.1, 1, 20])
@pytest.mark.parametrize("delta", [0.2, 1e-5, 1e-15, 1e-300])
def test_epsilon_meets_delta_and_is_least(mu, delta):
    epsilon = float(gdp_epsilon(delta=delta, mu=mu))
    with mp.workdps(60):
        target = mp.log(mp.mpf(delta))
    if epsilon > 0:
        assert true_log_delta(epsilon, mu) <= target
        assert true_log_delta(epsilon * (1 - 1e-9), mu) > target
    else:
        assert true_log_delta(0, mu) <= target


def test_deltas_of_arrays():
    epsilon = np.array([[0.0, 1.0], [5.0, 40.0]])
    delta = gdp_delta(epsilon=epsilon, mu=1)
    assert delta.shape == (2, 2)
    assert delta[0, 0] == pytest.approx(math.erf(math.sqrt(0.5) / 2), rel=2e-12)
    assert 0 < gdp_delta(epsilon=1e4, mu=1) <= 5e-324  # rounded up, never to zero
    assert gdp_delta(epsilon=[1.0], mu=[1.0, 2.0]).shape == (2,)


@pytest.mark.parametrize(
    ("function", "arguments", "error"),
    [
        (gdp_delta, {"epsilon": -1, "mu": 1}, ParameterError),
        (gdp_delta, {"epsilon": math.nan, "mu": 1}, ParameterError),
        (gdp_delta, {"epsilon": 1, "mu": 0}, ParameterError),
        (gdp_delta, {"epsilon": 1, "mu": math.inf}, ParameterError),
        (gdp_delta, {"epsilon": "1", "mu": 1}, DTypeError),
        (gdp_epsilon, {"delta": 0, "mu": 1}, ParameterError),
        (gdp_epsilon, {"delta": 1, "mu": 1}, ParameterError),
        (gdp_epsilon, {"delta": True, "mu": 1}, DTypeError),
    ],
)
def test_bad_arguments(function, arguments, error):
    with pytest.raises(error):
        function(**arguments)


@pytest.mark.parametrize("delta", ["0.2", "1e-5", "1e-15", "1e-300"])
@pytest.mark.parametrize("count", [1, 1000, 10**6])
def test_accountant_adds_squares(count, delta):
    accountant = GDPAccountant().compose(GaussianEvent(sensitivity=1, sigma=300), count)
    d = Fraction(delta)
    epsilon = accountant.epsilon(d)
    with mp.workdps(60):
        mu = mp.sqrt(mp.mpf(count)) / 300
        target = mp.log(mp.mpf(d.numerator) / d.denominator)
    assert true_log_delta(epsilon, mu) <= target
    assert epsilon == 0 or true_log_delta(epsilon * (1 - 1e-9), mu) > target
    logs = accountant.log_delta(epsilon)
    assert logs == pytest.approx(float(target), rel=1e-9, abs=1e-9) or epsilon == 0


def test_accountant_mixes_parts_and_groups():
    accountant = GDPAccountant()
    accountant.compose(GDPEvent(3)).compose(GaussianEvent(sensitivity=2, sigma=1), 4)
    assert accountant.mu == 5
    assert accountant.trade_off() == GaussianTradeOff(5)
    grouped = GDPAccountant().compose(
        GroupEvent(GaussianEvent(sensitivity=1, sigma=2), 3)
    )
    assert grouped.mu == Fraction(3, 2)


@pytest.mark.parametrize(
    "event",
    [
        DiscreteGaussianEvent(sensitivity=1, sigma=1),
        LaplaceEvent(sensitivity=1, scale=1),
        PoissonSampledEvent(Fraction(1, 2), GaussianEvent(sensitivity=1, sigma=1)),
    ],
)
def test_accountant_refuses_what_is_not_gaussian(event):
    accountant = GDPAccountant()
    with pytest.raises(UnsupportedEventError):
        accountant.compose(event)
    assert accountant.mu == 0
    with pytest.raises(UnsupportedEventError, match="delta must be > 0"):
        accountant.compose(GaussianEvent(sensitivity=1, sigma=1)).epsilon(0)


def test_a_small_epsilon_is_found_where_delta_is_large():
    # ln(delta) has an absolute rounding: a nudge relative to epsilon never meets it.
    draw = np.random.default_rng(6)
    for _ in range(300):
        mu = 10 ** draw.uniform(-3, 0.7)
        e = 10 ** draw.uniform(-9, 0) * mu
        with mp.workdps(40):
            delta = float(_delta(e, mu))
            found = float(gdp_epsilon(delta=delta, mu=mu))
            excess = mp.log(delta / _delta(found, mu))
            assert 0 <= excess < 1e-11
    found = float(gdp_epsilon(delta=0.5, mu=1 / 0.7412967860720443))
    assert 0 < found < 1.1e-5


def _delta(e, mu):
    e, mu = mp.mpf(e), mp.mpf(mu)
    return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
