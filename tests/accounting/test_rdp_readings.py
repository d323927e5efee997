"""Epsilon asked again and again while a composition grows."""

from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting._facts import facts_of
from fastdp.accounting._renyi.window import Window
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
)
from fastdp.accounting.rdp import RDPAccountant

STEP = PoissonSampledEvent(Fraction(1, 100), GaussianEvent(sensitivity=1, sigma=1))


@pytest.mark.parametrize(
    "part",
    [
        lambda i: STEP,
        lambda i: LaplaceEvent(sensitivity=1, scale=50 + i),
        lambda i: GaussianEvent(sensitivity=1, sigma=10 + i),
        lambda i: PoissonSampledEvent(
            Fraction(100 + i, 10_000),
            GaussianEvent(sensitivity=1, sigma=1 + Fraction(i, 100)),
        ),
        lambda i: (
            LaplaceEvent(sensitivity=1, scale=20)
            if i % 3
            else ExponentialMechanismEvent(1)
        ),
    ],
)
@pytest.mark.parametrize("delta", [1e-5, 1e-12])
def test_epsilon_asked_after_every_event(part, delta):
    accountant = RDPAccountant()
    for i in range(28):
        accountant.compose(part(i))
        asked = accountant.epsilon(delta)
        if i % 13 == 0:
            # A new accountant searches anew.
            fresh = RDPAccountant.from_statement(accountant.statement())
            assert asked == pytest.approx(fresh.epsilon(delta), rel=2e-9)


def test_a_window_bounds_its_sum_from_both_sides():
    curve = facts_of(STEP).curve()[0]
    window = Window.around(2.0, 3.0)
    for count in (1000, 500):
        window = window.plus(curve, count)
    gaps = np.linspace(2.001, 2.999, 333)
    low, high = window.bounds(gaps, np.zeros_like(window.gaps))
    true = 1500 * curve.log_moment(gaps)
    assert np.all(low <= true)
    assert np.all(high >= true * (1 - 5e-13))
    assert np.all(high - low < 1e-9)


def test_a_window_is_not_believed_where_it_is_coarse():
    curve = facts_of(LaplaceEvent(sensitivity=1, scale=1)).curve()[0]
    window = Window.around(1.0, 400.0).plus(curve, 1000)
    gaps = np.linspace(2.0, 390.0, 50)
    low, high = window.bounds(gaps, np.zeros_like(window.gaps))
    true = 1000 * curve.log_moment(gaps)
    assert np.all((low <= true) & (true * (1 - 1e-12) <= high))
    assert np.any(high - low > 1)


def test_curves_that_err_more_are_not_interpolated():
    coarse = DiscreteGaussianEvent(sensitivity=1, sigma=Fraction(1, 2))
    accountant = RDPAccountant()
    for _ in range(6):
        accountant.compose(coarse).epsilon(1e-5)
    assert accountant._reader._kept is None
    far = PoissonSampledEvent(Fraction(1, 10**6), GaussianEvent(sensitivity=1, sigma=3))
    assert facts_of(far).curve()[0].trusted_gap < 150
    assert facts_of(coarse).curve()[0].trusted_gap == 0
