"""Group privacy of every event: against direct sums, and never below the truth."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import (
    ApproximateDPEvent,
    DiscreteGaussianEvent,
    DiscreteGaussianSumEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    PermuteAndFlipEvent,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPEvent,
    SkellamEvent,
    TCDPEvent,
    TradeOffEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPEvent,
    event_delta,
    event_epsilon,
    event_rho,
)
from fastdp.accounting._facts import grouped
from fastdp.accounting.groups import group_delta, group_epsilon, group_rho
from fastdp.exceptions import ParameterError, UnsupportedEventError

mp.mp.dps = 60

SCALED = [
    (LaplaceEvent(sensitivity=1, scale=2), LaplaceEvent(sensitivity=3, scale=2)),
    (
        DiscreteLaplaceEvent(sensitivity=2, scale=5),
        DiscreteLaplaceEvent(sensitivity=6, scale=5),
    ),
    (
        TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=2, bound=9),
        TruncatedDiscreteLaplaceEvent(sensitivity=3, scale=2, bound=9),
    ),
    (GaussianEvent(sensitivity=1, sigma=2), GaussianEvent(sensitivity=3, sigma=2)),
    (
        DiscreteGaussianEvent(sensitivity=1, sigma=2, coordinates=4),
        DiscreteGaussianEvent(sensitivity=3, sigma=2, coordinates=12),
    ),
    (
        DiscreteGaussianEvent(sensitivity=1, sigma=2),
        DiscreteGaussianEvent(sensitivity=3, sigma=2),
    ),
    (
        DiscreteGaussianSumEvent(sensitivity=1, sigma=2, shares=5, coordinates=1),
        DiscreteGaussianSumEvent(sensitivity=3, sigma=2, shares=5, coordinates=3),
    ),
    (
        SkellamEvent(sensitivity=1, variance=20),
        SkellamEvent(sensitivity=3, variance=20),
    ),
    (PureDPEvent(0.5), PureDPEvent(1.5)),
    (ExponentialMechanismEvent(0.5), ExponentialMechanismEvent(1.5)),
    (PermuteAndFlipEvent(0.5), PermuteAndFlipEvent(1.5)),
    (GDPEvent(0.5), GDPEvent(1.5)),
    (ZCDPEvent(0.5), ZCDPEvent(4.5)),
    (ZCDPEvent(0.5, xi=1), ZCDPEvent(4.5, xi=Fraction(11, 2))),
    (TCDPEvent(rho=0.5, omega=9), TCDPEvent(rho=4.5, omega=3)),
    (
        RDPEvent(orders=(2, 8, 16), epsilons=(1, 2, 3)),
        RDPEvent(orders=(2, 4), epsilons=(18, 27)),
    ),
]


@pytest.mark.parametrize(("event", "group"), SCALED, ids=lambda e: repr(e)[:30])
def test_groups_of_three(event, group):
    assert grouped(event, 3) == group
    assert grouped(event, 1) is event


def test_no_rule_beyond_a_conditions():
    assert grouped(TCDPEvent(rho=0.5, omega=3), 3) is None
    assert grouped(RDPEvent(orders=(2, 3), epsilons=(1, 1)), 2) is None
    assert (
        grouped(TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=2, bound=2), 3)
        is None
    )
    assert grouped(PoissonSampledEvent(0.1, GDPEvent(1)), 2) is None
    # the rule for Renyi curves holds where there is no other, and orders suffice
    assert event_delta(GroupEvent(PoissonSampledEvent(0.1, GDPEvent(1)), 2), 1) < 0.5
    with pytest.raises(UnsupportedEventError):
        event_delta(GroupEvent(RDPEvent(orders=(2, 3), epsilons=(1, 1)), 2), 1)
    with pytest.raises(ParameterError, match="size"):
        grouped(GDPEvent(1), 0)


def test_pure_epsilon_and_rho_where_there_is_no_other_rule():
    response = RandomizedResponseEvent(p=Fraction(3, 4), q=Fraction(1, 4))
    group = GroupEvent(response, 2)
    assert event_epsilon(group) == pytest.approx(2 * math.log(3), rel=1e-15)
    # pure 2 ln 3 says more here than 4 rho, and less for a small epsilon
    assert event_rho(group) == event_rho(PureDPEvent(2 * Fraction(math.log(3))))
    slight = RandomizedResponseEvent(p=Fraction(26, 100), q=Fraction(25, 100))
    four = 4 * event_rho(slight)
    assert event_rho(GroupEvent(slight, 2)) == pytest.approx(four, rel=1e-15)
    assert event_delta(group, 1) > event_delta(response, 1)


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("epsilon", ["1e-9", "0.1", "2"])
def test_delta_of_a_group(size, epsilon):
    e, d = Fraction(epsilon), Fraction(1, 10**20)
    x = mp.mpf(e.numerator) / e.denominator
    true = mp.mpf(10) ** -20 * mp.expm1(size * x) / mp.expm1(x)
    got = group_delta(epsilon=e, delta=d, size=size)
    assert 0 <= got / true - 1 < 1e-12
    assert group_epsilon(epsilon=e, size=size) == size * e
    assert group_rho(rho=e, size=size) == size * size * e
    event = grouped(ApproximateDPEvent(epsilon=e, delta=d), size)
    assert (event.epsilon, event.delta) == (size * e, Fraction(got))
    assert (
        grouped(ApproximateDPEvent(epsilon=50, delta=d), 2) is None
    )  # delta would be 1


def test_a_mechanism_that_meets_the_group_delta():
    # One bit whose probability falls as fast along a chain as (epsilon, delta) allows.
    epsilon, delta, size = 1.0, 0.01, 3
    chance = [0.0]
    for _ in range(size):
        chance.append(delta + math.exp(epsilon) * chance[-1])
    for low, high in itertools.pairwise(chance):
        assert high - math.exp(epsilon) * low == pytest.approx(delta)
        assert (1 - low) - math.exp(epsilon) * (1 - high) <= delta
    meets = chance[-1] - math.exp(size * epsilon) * chance[0]
    assert group_delta(epsilon=epsilon, delta=delta, size=size) == pytest.approx(
        meets, rel=1e-12
    )
    assert meets > size * delta


@pytest.mark.parametrize("size", [2, 3, 5])
def test_trade_off_of_a_group_is_the_power_after_the_power(size):
    event = TradeOffEvent(
        false_positive_rates=(0, 0.25, 0.5, 1),
        false_negative_rates=(0.75, 0.25, 0.125, 0),
    )
    group = grouped(event, size)

    def power(x):
        return 1 - np.interp(x, [0, 0.25, 0.5, 1], [0.75, 0.25, 0.125, 0])

    for x in np.linspace(0, 1, 41):
        expected = x
        for _ in range(size):
            expected = power(expected)
        got = 1 - np.interp(
            x,
            [float(v) for v in group.false_positive_rates],
            [float(v) for v in group.false_negative_rates],
        )
        assert got == pytest.approx(expected, abs=1e-14)


def renyi(p, q, order):
    """Return the divergence of two lists of probabilities at 50 digits."""
    total = mp.fsum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))
    return mp.log(total) / (order - 1)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_groups_of_concentrated_events_bound_a_real_chain(size):
    # A chain of datasets 0..size answered by unit Gaussian-like steps on a grid.
    grid = [mp.mpf(i) / 4 for i in range(-60, 61)]

    def law(center):
        masses = [mp.exp(-((x - center) ** 2) / 2) for x in grid]
        total = mp.fsum(masses)
        return [mass / total for mass in masses]

    laws = [law(i) for i in range(size + 1)]
    orders = [mp.mpf(order) for order in ("1.01", "1.5", "3", "8")]
    chain = [mp.mpf(k) * order for k in (1, size) for order in orders]
    rho = max(
        renyi(laws[i], laws[i + 1], order) / order
        for i in range(size)
        for order in chain
    )
    group = grouped(ZCDPEvent(Fraction(str(rho))), size)
    for order in orders:
        limit = mp.mpf(group.rho.numerator) / group.rho.denominator
        assert renyi(laws[0], laws[size], order) <= order * limit * (1 + mp.mpf("1e-9"))


def test_event_and_group_agree():
    for event, size in itertools.product([e for e, _ in SCALED[:10]], [2, 3]):
        same = grouped(event, size)
        if isinstance(event, TruncatedDiscreteLaplaceEvent):
            at = same.sensitivity / same.scale
        else:
            at = Fraction(1, 4)
        assert event_delta(GroupEvent(event, size), at) == event_delta(same, at)
