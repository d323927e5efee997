"""Readings of a guarantee: at many digits, and against mechanisms that attain them."""

import math
from fractions import Fraction

import mpmath as mp
import pytest

from fastdp.accounting import GaussianEvent, ZCDPAccountant, conversions
from fastdp.accounting.readings import (
    largest_advantage,
    largest_kl_divergence,
    largest_posterior,
    largest_power,
    largest_power_of_profile,
    randomized_response_epsilon,
)
from fastdp.exceptions import DTypeError, ParameterError

mp.mp.dps = 60

EPSILONS = ["0", "1e-8", "0.1", "1", "5", "100"]
DELTAS = ["0", "1e-300", "1e-6", "0.3"]
CASES = [(Fraction(e), Fraction(d)) for e in EPSILONS for d in DELTAS]


def number(value):
    return mp.mpf(Fraction(value).numerator) / Fraction(value).denominator


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_power_and_advantage(epsilon, delta):
    with mp.workdps(400):  # 1 - delta keeps a delta of 1e-300
        e, d = number(epsilon), number(delta)
        for rate in ["0", "1e-9", "0.05", "0.5", "0.999", "1"]:
            x = number(Fraction(rate))
            rest = max(mp.mpf(0), 1 - d - x)
            true = min(mp.mpf(1), d + mp.exp(e) * x, 1 - mp.exp(-e) * rest)
            got = largest_power(
                epsilon=epsilon, delta=delta, false_positive_rate=Fraction(rate)
            )
            assert 0 <= got - true <= 3e-16 * true
            assert got >= float(rate)
        true = (mp.expm1(e) + 2 * d) / (mp.exp(e) + 1)
        got = largest_advantage(epsilon=epsilon, delta=delta)
        assert 0 <= got - true <= 3e-16 * true


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_posterior_and_divergence(epsilon):
    e = number(Fraction(epsilon))
    for prior in ["0", "1e-9", "0.5", "0.99", "1"]:
        p = number(Fraction(prior))
        true = p * mp.exp(e) / (1 - p + p * mp.exp(e))
        got = largest_posterior(epsilon=Fraction(epsilon), prior=Fraction(prior))
        assert 0 <= got - true <= 3e-16 * true
    true = e * mp.tanh(e / 2)
    got = largest_kl_divergence(Fraction(epsilon))
    assert 0 <= got - true <= 3e-16 * true


def test_randomized_response_attains_them():
    p = math.e / (1 + math.e)
    # Saying "yes" when the report is yes: false positives 1 - p, power p.
    assert largest_power(
        epsilon=1, delta=0, false_positive_rate=1 - p
    ) == pytest.approx(p, rel=1e-15)
    assert largest_advantage(epsilon=1, delta=0) == pytest.approx(2 * p - 1, rel=1e-15)
    assert largest_posterior(epsilon=1, prior=0.5) == pytest.approx(p, rel=1e-15)
    divergence = (2 * p - 1) * math.log(p / (1 - p))
    assert largest_kl_divergence(1) == pytest.approx(divergence, rel=1e-15)


def test_a_profile_says_more_than_one_pair():
    accountant = ZCDPAccountant().compose(GaussianEvent(sensitivity=1, sigma=1))
    whole = largest_power_of_profile(accountant.log_delta, 0.05)
    pair = largest_power(
        epsilon=accountant.epsilon(1e-5), delta=1e-5, false_positive_rate=0.05
    )
    true = 0.5 * math.erfc((1.6448536269514722 - 1) / math.sqrt(2))
    assert true < whole < pair
    exact = largest_power_of_profile(
        lambda e: conversions.gaussian_log_delta(epsilon=e, sensitivity=1, sigma=1),
        0.05,
        points=2000,
    )
    assert true <= exact < true * (1 + 1e-4)


@pytest.mark.parametrize("bias", ["1e-9", "0.1", "0.25", "0.4999"])
def test_epsilon_of_a_biased_answer(bias):
    g = number(Fraction(bias))
    true = mp.log((1 + 2 * g) / (1 - 2 * g))
    got = randomized_response_epsilon(Fraction(bias))
    assert 0 <= got - true <= 3e-16 * true


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            lambda: largest_power(epsilon=-1, delta=0, false_positive_rate=0.1),
            ParameterError,
        ),
        (
            lambda: largest_power(epsilon=1, delta=1, false_positive_rate=0.1),
            ParameterError,
        ),
        (
            lambda: largest_power(epsilon=1, delta=0, false_positive_rate=1.1),
            ParameterError,
        ),
        (
            lambda: largest_power(epsilon=1, delta=0, false_positive_rate="x"),
            DTypeError,
        ),
        (lambda: largest_advantage(epsilon=float("inf"), delta=0), ParameterError),
        (lambda: largest_posterior(epsilon=1, prior=-0.1), ParameterError),
        (lambda: largest_kl_divergence(float("nan")), ParameterError),
        (lambda: randomized_response_epsilon(0.5), ParameterError),
        (lambda: randomized_response_epsilon(-0.1), ParameterError),
        (lambda: largest_power_of_profile(lambda e: 0, 2), ParameterError),
        (lambda: largest_power_of_profile(lambda e: 0, 0.1, points=1), ParameterError),
    ],
)
def test_bad_input(call, error):
    with pytest.raises(error):
        call()
