"""Arithmetic in many digits, and certificates."""

import math
import pickle
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import GaussianEvent, PLDAccountant, PoissonSampledEvent
from fastdp.accounting._pld import fixed_point
from fastdp.accounting._pld.fixed_point import integers

BITS = 200


def numbers(values):
    """Return complex numbers as pairs of integers, and exactly these."""
    unit = 1 << BITS
    parts = [
        (int(mp.floor(v.real * unit)), int(mp.floor(v.imag * unit))) for v in values
    ]
    pair = integers([a for a, _ in parts]), integers([b for _, b in parts])
    return pair, [mp.mpc(a, b) / unit for a, b in parts]


def units(pair, true):
    """Return by how many units of the last place each number errs."""
    return [
        abs(mp.mpc(int(a), int(b)) - t * (1 << BITS))
        for a, b, t in zip(*pair, true, strict=True)
    ]


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(120):
        yield


def test_constants():
    assert abs(fixed_point.pi(BITS) - mp.pi * (1 << BITS)) <= 1
    assert abs(fixed_point.log_of_2(BITS) - mp.log(2) * (1 << BITS)) <= 1
    for value in (Fraction(1, 3), Fraction(10**9, 7), Fraction(1, 10**30)):
        true = mp.log(value.numerator) - mp.log(value.denominator)
        found = fixed_point.log_fraction(value, BITS)
        assert abs(found - true * (1 << BITS)) <= 64 + 128


def test_functions_err_by_no_more_than_they_say():
    source = np.random.default_rng(3)
    values = [
        mp.mpc(source.uniform(-60, 5), source.uniform(-900, 900)) for _ in range(60)
    ]
    pair, exact = numbers(values)
    true = [mp.exp(v) for v in exact]
    errors = units(fixed_point.exp(pair, BITS), true)
    assert all(e <= 2 * (1 + abs(t)) for e, t in zip(errors, true, strict=True))
    values = [
        mp.mpc(source.uniform(-1, 1), source.uniform(-1, 1))
        * 10 ** -source.uniform(0, 9)
        for _ in range(60)
    ]
    pair, exact = numbers(values)
    errors = units(fixed_point.log(pair, BITS), [mp.log(v) for v in exact])
    assert all(e <= 8 * (1 + 1 / abs(v)) for e, v in zip(errors, exact, strict=True))


def test_powers():
    pair, exact = numbers([mp.mpc("0.6", "0.7"), mp.mpc("-0.3", "0.1")])
    found = fixed_point.power(pair, 1000, BITS)
    assert max(units(found, [v**1000 for v in exact])) <= 4000
    rows = fixed_point.powers(pair, 9, BITS)
    assert max(units((rows[0][8], rows[1][8]), [v**8 for v in exact])) <= 16


# ---- certificates ----------------------------------------------------------------


def bounds_of(rate, sigma, count, delta):
    event = PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=sigma))
    return PLDAccountant().compose(event, count).epsilon_bounds(delta)


def test_a_certificate_says_what_was_bounded():
    bounds = bounds_of(0.01, 1, 1000, 1e-6)
    assert bounds.certificate == "contour"
    assert bounds.certificate.aim == 1e-10
    assert bounds.certificate.shortfall == ""
    assert any("aliases" in one for one in bounds.certificate.bounds)
    assert bounds.certificate.explained.startswith("contour: aliases")
    again = pickle.loads(pickle.dumps(bounds))
    assert again == bounds
    assert again.certificate.bounds == bounds.certificate.bounds


def test_a_certificate_says_why_it_fell_short():
    bounds = bounds_of(0.01, Fraction(1, 10**6), 10, 1e-6)
    assert bounds.certificate == "chernoff"
    assert bounds.certificate.aim == 1e-6
    assert "instead of 1e-06" in bounds.certificate.shortfall
    assert bounds.certificate.shortfall in bounds.certificate.explained
    assert math.isclose(bounds.certificate.width, 1.0)
