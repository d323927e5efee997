"""Lower bounds of the loss-distribution accountant against laws known in full."""

import math
from fractions import Fraction

from fastdp.accounting import (
    DiscreteLaplaceEvent,
    PLDAccountant,
)


def test_epsilon_is_0_where_delta_exceeds_the_total_variation() -> None:
    accountant = PLDAccountant().compose(DiscreteLaplaceEvent(1, Fraction(51, 10)))
    assert math.tanh(5 / 51) < 0.1  # delta at epsilon 0
    assert accountant.epsilon_bounds(0.1).lower == 0


def test_epsilon_is_never_negative() -> None:
    accountant = PLDAccountant().compose(DiscreteLaplaceEvent(1, 10))
    assert accountant.epsilon(0.05) >= 0
