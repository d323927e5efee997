"""Lower bounds of the loss-distribution accountant against laws known in full."""

import math
from fractions import Fraction

from fastdp.accounting import (
    DiscreteLaplaceEvent,
    GaussianEvent,
    PLDAccountant,
    PoissonSampledEvent,
)


def test_epsilon_is_0_where_delta_exceeds_the_total_variation() -> None:
    accountant = PLDAccountant().compose(
        DiscreteLaplaceEvent(sensitivity=1, scale=Fraction(51, 10))
    )
    assert math.tanh(5 / 51) < 0.1  # delta at epsilon 0
    assert accountant.epsilon_bounds(0.1).lower == 0


def test_epsilon_is_never_negative() -> None:
    accountant = PLDAccountant().compose(DiscreteLaplaceEvent(sensitivity=1, scale=10))
    assert accountant.epsilon(0.05) >= 0


def test_rare_losses_far_below_chernoffs_bound_are_bracketed() -> None:
    # The order of Chernoff's bound is far too large there, and so is its epsilon.
    step = PoissonSampledEvent(
        Fraction("2.589e-4"), GaussianEvent(sensitivity=1, sigma=Fraction("1.05"))
    )
    bounds = PLDAccountant().compose(step, 5).epsilon_bounds(Fraction("2.2e-12"))
    assert 0.078 < bounds.lower < bounds.upper < 0.08
    assert bounds.upper - bounds.lower < 1e-3 * bounds.upper


def test_a_direction_that_cannot_lose_as_much_does_not_widen_the_other() -> None:
    # Losses of an addition end below that epsilon: delta is 0 where cells are planned.
    step = PoissonSampledEvent(
        3.035985290334658e-12, GaussianEvent(sensitivity=1, sigma=0.2543688713178426)
    )
    bounds = PLDAccountant().compose(step, 4).epsilon_bounds(6.133473084691373e-14)
    assert 7.9123e-5 < bounds.lower < bounds.upper < 7.9124e-5
    assert bounds.upper - bounds.lower < 1e-5 * bounds.upper
