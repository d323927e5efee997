"""Lower bounds of the loss-distribution accountant against laws known in full."""

import math
from fractions import Fraction

from fastdp.accounting import (
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    PLDAccountant,
)


def test_epsilon_is_0_where_delta_exceeds_the_total_variation() -> None:
    accountant = PLDAccountant().compose(DiscreteLaplaceEvent(1, Fraction(51, 10)))
    assert math.tanh(5 / 51) < 0.1  # delta at epsilon 0
    assert accountant.epsilon_bounds(0.1).lower == 0


def test_the_lower_bound_of_a_selection_is_not_above_its_range() -> None:
    accountant = PLDAccountant().compose(ExponentialMechanismEvent(Fraction(3, 20)))
    # The largest distance in total variation within a range of epsilon.
    assert accountant.delta_bounds(0).lower <= math.tanh(0.15 / 4) * (1 + 1e-12)


def test_epsilon_is_never_negative() -> None:
    accountant = PLDAccountant().compose(DiscreteLaplaceEvent(1, 10))
    assert accountant.epsilon(0.05) >= 0
