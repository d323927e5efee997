"""Certificates say what was bounded, and why a bracket is wide."""

import math
import pickle
from fractions import Fraction

from fastdp.accounting import GaussianEvent, PLDAccountant, PoissonSampledEvent


def bounds_of(rate, sigma, count, delta):
    event = PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=sigma))
    return PLDAccountant().compose(event, count).epsilon_bounds(delta)


def test_a_certificate_says_what_was_bounded():
    bounds = bounds_of(0.01, 1, 1000, 1e-6)
    assert bounds.certificate == "contour"
    assert bounds.certificate.aim == 1e-6
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
