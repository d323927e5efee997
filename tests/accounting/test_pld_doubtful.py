"""Laws at the edge of doubles: what is not certain serves no lower bound."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting import (
    ApproximateDPEvent,
    DiscreteGaussianEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PrivacyLossEvent,
    PureDPEvent,
    RandomizedResponseEvent,
)
from fastdp.accounting.events import NeighboringRelation
from fastdp.exceptions import UnsupportedEventError

HALF = Fraction(1, 2)


def composed(event, count=1):
    return PLDAccountant().compose(event, count)


def test_a_mass_below_doubles_is_not_taken_for_the_least_double():
    tiny = Fraction(math.exp(-500)) ** 2 / 2
    event = PrivacyLossEvent(
        losses=(-1000, Fraction(math.log(2) + 1e-12)),
        probabilities=(tiny, Fraction(999, 1000)),
    )
    # Under Q about 1/2 lies at the first loss: delta(0) is about 0.5005.
    bounds = composed(event).delta_bounds(0)
    assert bounds.lower <= 0.50051 <= bounds.upper
    assert composed(event).epsilon_bounds(0.4).lower <= 998.4
    sampled = composed(PoissonSampledEvent(Fraction(1, 10**6), event))
    assert sampled.delta_bounds(0).lower <= 5.01e-7


@pytest.mark.parametrize("rate", [HALF, 1 - Fraction(1, 10**15)])
def test_rounding_is_no_loss_of_a_sample(rate):
    accountant = composed(
        PoissonSampledEvent(rate, PrivacyLossEvent(losses=(0,), probabilities=(1,)))
    )
    assert accountant.delta_bounds(0).lower == 0
    assert accountant.epsilon_bounds(Fraction(1, 10**200)).lower == 0


def test_a_given_up_tail_of_a_sample_is_no_lower_bound():
    event = PoissonSampledEvent(
        1 - Fraction(1, 2**52), DiscreteGaussianEvent(sensitivity=1, sigma=5)
    )
    assert composed(event).ln_delta_bounds(8.74).lower <= -965


def test_large_losses_do_not_count_for_more_than_they_are():
    event = PrivacyLossEvent(
        losses=(-1, 800), probabilities=(Fraction(1, 10), Fraction(1, 10))
    )
    bounds = composed(event).delta_bounds(0)
    assert bounds.lower <= 0.9 <= bounds.upper


def test_nearly_all_losses_infinite():
    accountant = composed(PrivacyLossEvent(losses=(33,), probabilities=(1,)))
    lost = -math.expm1(-33)
    for epsilon in (0, 32, 40):
        bounds = accountant.delta_bounds(epsilon)
        assert lost - 1e-12 <= bounds.lower <= lost <= bounds.upper
    assert accountant.epsilon_bounds(0.5).lower == math.inf


def test_what_is_not_lost_may_be_negative():
    # For the addition: -33 with probability e^-33, and then +30, else infinite.
    accountant = composed(PrivacyLossEvent(losses=(33,), probabilities=(1,)))
    accountant.compose(PureDPEvent(30))
    lower, _ = accountant._snapshot()[0].bounds(np.zeros(1), False)
    assert np.exp(lower[0]) <= -math.expm1(-33)


def test_what_loses_nearly_everything_has_no_epsilon():
    accountant = composed(
        ApproximateDPEvent(epsilon=Fraction(1, 10**5), delta=0.1), 10**6
    )
    assert accountant.epsilon_bounds(1e-5).lower == math.inf


def test_an_optimistic_law_is_below_also_when_composed():
    event = PoissonSampledEvent(
        Fraction(3, 5),
        ApproximateDPEvent(epsilon=Fraction(1, 4), delta=Fraction(999, 1000)),
    )
    with pytest.raises(UnsupportedEventError, match="interval"):
        composed(event).distribution(pessimistic=False, interval=0.01)
    response = RandomizedResponseEvent(
        p=Fraction(3, 4),
        q=Fraction(1, 4),
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    law = composed(response, 2).distribution(pessimistic=False, interval=0.01)
    assert law.interval == 0.01


def test_a_sample_whose_finite_losses_are_below_doubles_keeps_its_lost_mass():
    event = PoissonSampledEvent(
        HALF, PrivacyLossEvent(losses=(1,), probabilities=(Fraction(1, 10**295),))
    )
    bounds = composed(event).delta_bounds(0)
    assert bounds.lower <= HALF <= bounds.upper
    assert bounds.upper - bounds.lower < 1e-12
