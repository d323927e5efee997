"""Reports with three privacy losses against 60 digits: never below, and tight."""

from fractions import Fraction

import mpmath as mp
import pytest

from fastdp.accounting import (
    RandomizedResponseEvent,
    event_delta,
    event_epsilon,
    event_rho,
)

mp.mp.dps = 60


def number(value):
    value = Fraction(value)
    return mp.mpf(value.numerator) / value.denominator


def response(epsilon, share=1):
    """Return p and q with p + q about `share` and a loss of about epsilon."""
    with mp.workdps(40):
        q = Fraction(str(share / (mp.exp(mp.mpf(epsilon)) + 1)))
    return Fraction(share) - q, q


CASES = [
    (epsilon, share)
    for epsilon in ("1e-30", "1e-8", "0.1", "1", "5", "60")
    for share in (Fraction(1), Fraction(1, 2), Fraction(1, 10**6))
]


@pytest.mark.parametrize(("epsilon", "share"), CASES)
def test_profile(epsilon, share):
    p, q = response(epsilon, share)
    event = RandomizedResponseEvent(p=p, q=q)
    with mp.workdps(120):
        loss = mp.log(number(p) / number(q))
        pure = event_epsilon(event)
        assert 0 <= pure / loss - 1 < 3e-16
        assert event_delta(event, pure) == 0
        for part in ("0", "1e-8", "0.5", "0.999999"):
            e = Fraction(part) * Fraction(pure)
            true = number(p) - mp.exp(number(e)) * number(q)
            got = event_delta(event, e)
            assert 0 <= got - true <= 3e-16 * true
            if 0 < got < number(p):
                back = event_epsilon(event, got)
                least = mp.log((number(p) - number(got)) / number(q))
                assert 0 <= back - max(mp.mpf(0), least) <= 3e-16 * abs(least)


@pytest.mark.parametrize(("epsilon", "share"), CASES)
def test_rho_bounds_every_order(epsilon, share):
    p, q = response(epsilon, share)
    rho = event_rho(RandomizedResponseEvent(p=p, q=q))
    with mp.workdps(120):
        a, b = number(p), number(q)
        v = mp.log(a / b)
        for z in ("1e-6", "0.01", "0.1", "0.3", "1", "2", "5", "30"):
            z = mp.mpf(z)
            moment = a * mp.expm1(z * v) + b * mp.expm1(-z * v)
            assert mp.log1p(moment) / z <= (1 + z) * rho


def test_equal_probabilities_say_nothing():
    event = RandomizedResponseEvent(p=0.25, q=0.25)
    assert event_epsilon(event) == event_delta(event, 0) == event_rho(event) == 0
