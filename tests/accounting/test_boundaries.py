"""Events that tell nothing or promise nothing, and questions at the ends."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting import (
    ApproximateAccountant,
    ApproximateDPEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteGaussianSumEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    FDPAccountant,
    GaussianEvent,
    GDPAccountant,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    PermuteAndFlipEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PrivacyLossEvent,
    PureAccountant,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPAccountant,
    RDPEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
    SkellamEvent,
    TCDPAccountant,
    TCDPEvent,
    TradeOffEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPAccountant,
    ZCDPEvent,
    event_delta,
    event_epsilon,
    event_rho,
    renyi_divergence,
    trade_off_of,
)
from fastdp.accounting.conversions import (
    pure_to_mu,
    pure_to_rho,
    zcdp_delta,
    zcdp_epsilon,
)
from fastdp.accounting.fdp import compose_trade_offs
from fastdp.accounting.rdp import rdp_to_delta, rdp_to_epsilon
from fastdp.exceptions import FastDPError, ParameterError, UnsupportedEventError

ACCOUNTANTS = (
    ApproximateAccountant,
    FDPAccountant,
    GDPAccountant,
    PLDAccountant,
    PureAccountant,
    RDPAccountant,
    TCDPAccountant,
    ZCDPAccountant,
)
NOTHING = (
    lambda: PureDPEvent(0),
    lambda: ApproximateDPEvent(epsilon=0, delta=0),
    lambda: ZCDPEvent(0),
    lambda: TCDPEvent(rho=0, omega=2),
    lambda: GDPEvent(0),
    lambda: RDPEvent(orders=(2,), epsilons=(0,)),
    lambda: TradeOffEvent(false_positive_rates=(0, 1), false_negative_rates=(1, 0)),
    lambda: PrivacyLossEvent(losses=(0,), probabilities=(1,)),
    lambda: RandomizedResponseEvent(p=Fraction(1, 2), q=Fraction(1, 2)),
    lambda: ExponentialMechanismEvent(0),
    lambda: PermuteAndFlipEvent(0),
    lambda: LaplaceEvent(sensitivity=0, scale=1),
    lambda: DiscreteLaplaceEvent(sensitivity=0, scale=1),
    lambda: TruncatedDiscreteLaplaceEvent(sensitivity=0, scale=1, bound=3),
    lambda: GaussianEvent(sensitivity=0, sigma=1),
    lambda: DiscreteGaussianEvent(sensitivity=0, sigma=1, coordinates=3),
    lambda: DiscreteGaussianSumEvent(sensitivity=0, sigma=1, shares=3),
    lambda: SkellamEvent(sensitivity=0, variance=1),
    lambda: PoissonSampledEvent(0, GaussianEvent(sensitivity=1, sigma=1)),
    lambda: PoissonSampledEvent(0, PureDPEvent(1), neighboring_relation="replace_one"),
    lambda: PoissonSampledEvent(0.5, LaplaceEvent(sensitivity=0, scale=1)),
    lambda: SampledWithoutReplacementEvent(
        source_dataset_size=9,
        sample_size=3,
        event=GaussianEvent(sensitivity=0, sigma=1),
    ),
    lambda: GroupEvent(RDPEvent(orders=(2,), epsilons=(0,)), 5),
    lambda: SelfComposedEvent(DiscreteGaussianEvent(sensitivity=0, sigma=1), 10**9),
)


@pytest.mark.parametrize("make", NOTHING)
def test_an_event_that_tells_nothing_costs_nothing(make):
    event = make()
    assert event.from_json(event.to_json()) == event
    for question in (0, 1e-300, 0.5, 1):
        assert event_epsilon(event, question) == event_delta(event, question) == 0
    assert event_rho(event) == 0
    assert renyi_divergence(event, [1.5, 2, math.inf]).tolist() == [0, 0, 0]
    assert trade_off_of(event)([0, 0.25, 1]).tolist() == pytest.approx([1, 0.75, 0])
    for kind in ACCOUNTANTS:
        accountant = kind().compose(event, count=3)
        assert accountant.epsilon(0) == accountant.delta(0) == 0
        assert accountant.log_delta(0) == -math.inf


def test_nothing_beside_something_adds_nothing():
    some = GaussianEvent(sensitivity=1, sigma=2)
    for kind in (RDPAccountant, PLDAccountant, FDPAccountant, ZCDPAccountant):
        of = some.neighboring_relation, 1
        alone = kind().compose(some).epsilon(1e-5)
        for event in [make() for make in NOTHING]:
            if (event.neighboring_relation, event.group_size) == of:
                both = kind().compose(some).compose(event)
                assert both.epsilon(1e-5) == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("kind", ACCOUNTANTS)
def test_an_accountant_that_has_seen_nothing(kind):
    accountant = kind()
    for question in (0, 1e-300, 0.5, 1):
        assert accountant.epsilon(question) == accountant.delta(question) == 0
    if hasattr(accountant, "trade_off"):
        found = accountant.trade_off()([0, 0.25, 1]).tolist()
        assert found == pytest.approx([1, 0.75, 0], rel=1e-14)


@pytest.mark.parametrize("kind", ACCOUNTANTS)
def test_epsilon_is_zero_where_delta_is_one(kind):
    event = GaussianEvent(sensitivity=1, sigma=1)
    if not kind().supports(event):
        event = PureDPEvent(3)
    for one in (1, 1.0, Fraction(1)):
        assert kind().compose(event).epsilon(one) == event_epsilon(event, one) == 0
    for bad in (1 + 2**-52, 2, True):
        with pytest.raises(FastDPError, match="delta"):
            kind().compose(event).epsilon(bad)


@pytest.mark.parametrize(
    "kind", [ApproximateAccountant, FDPAccountant, PLDAccountant, RDPAccountant]
)
def test_an_event_that_promises_nothing(kind):
    event = ApproximateDPEvent(epsilon=0, delta=1)
    assert event_delta(event, 10) == 1
    assert event_epsilon(event, 1) == 0
    accountant = kind().compose(PureDPEvent(1)).compose(event)
    assert accountant.delta(0) == accountant.delta(100) == 1
    for delta in (0, 0.5, 1 - 2**-53):
        with pytest.raises(UnsupportedEventError):
            accountant.epsilon(delta)
        with pytest.raises(UnsupportedEventError):
            event_epsilon(event, delta)
    assert trade_off_of(event)([0, 0.5, 1]).tolist() == [0, 0, 0]


def test_a_trade_off_function_of_zero_promises_nothing():
    event = TradeOffEvent(false_positive_rates=(0, 1), false_negative_rates=(0, 0))
    accountant = PLDAccountant().compose(event)
    assert accountant.delta(5) == 1
    assert accountant.delta_bounds(5).lower == pytest.approx(1)
    with pytest.raises(UnsupportedEventError, match="no finite epsilon"):
        accountant.epsilon(0.5)


@pytest.mark.parametrize(
    "kind", [ApproximateAccountant, FDPAccountant, PLDAccountant, RDPAccountant]
)
def test_all_of_delta_may_be_that_of_the_events(kind):
    # 1 - (1 - 1/10)(1 - 2/10) is 28/100, which leaves nothing for finite losses.
    one, other = ((1, Fraction(1, 10)), (2, Fraction(2, 10)))
    events = [ApproximateDPEvent(epsilon=e, delta=d) for e, d in (one, other)]
    accountant = kind().compose(events[0]).compose(events[1])
    assert accountant.epsilon(Fraction(28, 100)) == 3
    assert event_epsilon(ComposedEvent(tuple(events)), Fraction(28, 100)) == 3
    assert 0 <= accountant.delta(3) - 0.28 < 1e-15
    with pytest.raises(UnsupportedEventError):
        accountant.epsilon(Fraction(28, 100) - Fraction(1, 10**6))
    floats = kind()
    for e, d in ((1, 0.1), (2, 0.2)):
        floats.compose(ApproximateDPEvent(epsilon=e, delta=d))
    assert floats.epsilon(0.28) == 3


def test_many_deltas_are_added_up_upward():
    event = ApproximateDPEvent(epsilon=1e-3, delta=Fraction(1, 10**9))
    accountant = RDPAccountant().compose(event, count=10**6)
    lost = -math.expm1(10**6 * math.log1p(-1e-9))
    assert 0 <= accountant.delta(1000) - lost < 1e-12
    assert accountant.delta(1000) <= accountant.delta(999)


def test_renyi_order_infinity_is_the_pure_epsilon():
    events = ComposedEvent((LaplaceEvent(sensitivity=1, scale=2), PureDPEvent(1)))
    orders = np.array([[2.0, math.inf]])
    found = renyi_divergence(events, orders)
    assert found.shape == (1, 2)
    assert found[0, 0] < found[0, 1] == 1.5
    accountant = RDPAccountant().compose(events, count=2)
    assert accountant.divergence(math.inf) == 3
    noise = GaussianEvent(sensitivity=1, sigma=1)
    assert renyi_divergence(noise, math.inf) == math.inf
    assert RDPAccountant().compose(noise).divergence([2, math.inf])[1] == math.inf
    limit = rdp_to_epsilon(order=math.inf, divergence=1, delta=1e-3)
    assert limit == event_epsilon(PureDPEvent(1), 1e-3)
    assert limit == pytest.approx(
        rdp_to_epsilon(order=1e9, divergence=1, delta=1e-3), rel=1e-2
    )
    found = rdp_to_delta(order=math.inf, divergence=1, epsilon=0.5)
    assert found == event_delta(PureDPEvent(1), 0.5)


def test_conversions_at_zero():
    assert pure_to_rho(0) == pure_to_mu(0) == 0
    assert zcdp_epsilon(delta=1e-300, rho=0) == zcdp_delta(epsilon=0, rho=0) == 0


def test_noise_of_no_sensitivity_is_not_that_of_the_least_shift():
    # Integers move by at least 1 if they move at all.
    still = DiscreteLaplaceEvent(sensitivity=0, scale=1)
    assert event_delta(still, 0) == 0
    least = DiscreteLaplaceEvent(sensitivity=1e-300, scale=1)
    assert event_delta(least, 0) > 0.4
    assert compose_trade_offs([])(0.25) == pytest.approx(0.75, rel=1e-14)


def test_a_count_of_0_adds_nothing():
    noise = GaussianEvent(sensitivity=1, sigma=1)
    accountant = PLDAccountant().compose(noise, 0)
    assert accountant.statement().events == ()
    assert accountant.neighboring_relation is None
    assert accountant.epsilon(1e-6) == 0
    once = PLDAccountant().compose(noise).epsilon(1e-6)
    assert accountant.compose(noise).compose(noise, 0).epsilon(1e-6) == once
    with pytest.raises(UnsupportedEventError):
        FDPAccountant().compose(RDPEvent(orders=(2,), epsilons=(1,)), 0)


ENDS = (  # events, and the pure epsilon of all of them
    ((), 0),
    ((PureDPEvent(0),), 0),
    ((PureDPEvent(1), LaplaceEvent(sensitivity=1, scale=2)), 1.5),
    ((RandomizedResponseEvent(p=Fraction(3, 4), q=Fraction(1, 4)),), math.log(3)),
    ((DiscreteLaplaceEvent(sensitivity=1, scale=2),), 0.5),
    ((ApproximateDPEvent(epsilon=0, delta=Fraction(1, 10**9)),), math.inf),
    ((GaussianEvent(sensitivity=1, sigma=1),), math.inf),
)


@pytest.mark.parametrize(("events", "pure"), ENDS)
def test_at_delta_0_and_1_epsilon_is_the_pure_one_and_0(events, pure):
    accountant = PLDAccountant()
    for event in events:
        accountant.compose(event)
    assert accountant.epsilon_bounds(1)[:3] == (0, 0, 0)
    lower, _, upper = accountant.epsilon_bounds(0)[:3]
    assert upper == pytest.approx(pure, rel=1e-15)
    assert upper >= pure
    assert lower <= upper
    assert lower >= min(pure, 30) * (1 - 1e-12)
    # Epsilon never grows with delta. Few deltas and many deltas get the same ends.
    for deltas in ([0, 1e-9, 0.5, 1], [1, 0, *np.linspace(0.01, 0.99, 12)]):
        lows, highs = accountant.epsilon_profile(deltas)
        order = np.argsort(deltas)
        assert (np.diff(lows[order]) <= 0).all() or pure == math.inf
        assert lows[deltas.index(0)] == pytest.approx(lower, rel=1e-9)
        assert highs[deltas.index(0)] == upper
        assert lows[deltas.index(1)] == highs[deltas.index(1)] == 0
    for out in (-0.1, 1.1, math.nan):
        with pytest.raises(FastDPError):
            accountant.epsilon_profile([0.5, out])


@pytest.mark.parametrize("make", [None, *NOTHING])
def test_the_law_of_nothing_is_the_loss_0(make):
    accountant = PLDAccountant()
    if make is not None:
        accountant.compose(make())
    if accountant.group_size != 1:
        with pytest.raises(UnsupportedEventError, match="single individuals"):
            accountant.distribution()
        return
    for pessimistic in (True, False):
        law = accountant.distribution(pessimistic=pessimistic, interval=0.25)
        assert law.interval == 0.25
        assert law.pessimistic is pessimistic
        assert law.addition is None
        assert law.removal.lower_index == 0
        assert law.removal.probabilities.tolist() == [1]
        assert law.removal.infinity_mass == 0
    event = accountant.distribution().event()
    assert PLDAccountant().compose(event).epsilon(0) == 0
    with pytest.raises(ParameterError):
        accountant.distribution(interval=0)
