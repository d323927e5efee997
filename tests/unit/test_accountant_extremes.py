"""Extreme parameters: a finite bound or a refusal that says why, never NaN."""

import math
import warnings
from fractions import Fraction

import pytest

from fastdp.accounting import (
    ApproximateAccountant,
    ApproximateDPEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    PureAccountant,
    PureDPEvent,
    RandomizedResponseEvent,
    TCDPAccountant,
    TCDPEvent,
    ZCDPAccountant,
    ZCDPEvent,
    event_delta,
    event_epsilon,
    event_rho,
)
from fastdp.exceptions import FastDPError

TINY = Fraction(1, 10**300)
RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE
EVENTS = [
    *(
        LaplaceEvent(sensitivity=1, scale=Fraction(10) ** k)
        for k in (-300, -6, 0, 12, 300)
    ),
    *(
        DiscreteLaplaceEvent(sensitivity=1, scale=Fraction(10) ** k)
        for k in (-6, 0, 12)
    ),
    *(GaussianEvent(sensitivity=1, sigma=Fraction(10) ** k) for k in (-9, 0, 150)),
    *(PureDPEvent(e) for e in (0, TINY, 1e-8, 100, 10**6)),
    *(ExponentialMechanismEvent(e) for e in (TINY, 1e-8, 10**6)),
    *(
        ApproximateDPEvent(epsilon=e, delta=d)
        for e in (0, 100)
        for d in (TINY, Fraction(1, 2))
    ),
    *(ZCDPEvent(rho, xi=xi) for rho in (0, TINY, 10**90) for xi in (0, 1e-8, 50)),
    *(TCDPEvent(rho=rho, omega=1 + gap) for rho in (0, 100) for gap in (1e-6, 10**12)),
    RandomizedResponseEvent(
        p=Fraction(1, 2), q=Fraction(1, 2), neighboring_relation=RELATION
    ),
    RandomizedResponseEvent(p=1 - TINY, q=TINY, neighboring_relation=RELATION),
    RandomizedResponseEvent(p=TINY, q=TINY * TINY, neighboring_relation=RELATION),
    *(PoissonSampledEvent(q, PureDPEvent(e)) for q in (TINY, 1) for e in (1, 1000)),
]
MAKE = [PureAccountant, ApproximateAccountant, ZCDPAccountant, TCDPAccountant]


def outcome(call):
    """Return a number, or None where the call was refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return call()
        except FastDPError:
            return None


@pytest.mark.rest
@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("count", [1, 10**6, 10**18])
def test_accountants(make, count):
    taken = 0
    for event in EVENTS:
        accountant = outcome(lambda e=event: make().compose(e, count))
        if accountant is None:
            continue
        taken += 1
        for delta in (0, TINY, 1e-15, 0.5):
            epsilon = outcome(lambda a=accountant, d=delta: a.epsilon(d))
            assert epsilon is None or (epsilon >= 0 and math.isfinite(epsilon))
        for epsilon in (0, 1e-300, 1e-8, 100, 1e15):
            log_delta = outcome(lambda a=accountant, e=epsilon: a.log_delta(e))
            assert log_delta is None or log_delta <= 0
    assert taken >= 10


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_single_events(event):
    for call in (
        lambda: event_epsilon(event, 1e-9),
        lambda: event_epsilon(event, TINY),
        lambda: event_delta(event, 1),
        lambda: event_delta(event, 0),
        lambda: event_rho(event),
        lambda: event_epsilon(GroupEvent(event, 3), 1e-9),
        lambda: event_delta(GroupEvent(event, 1000), 1e-3),
    ):
        found = outcome(call)
        assert found is None or found >= 0
