"""Readings at the edges of double arithmetic: no warning of numpy reaches a caller."""

import warnings
from fractions import Fraction

import pytest

from fastdp.accounting import (
    ApproximateAccountant,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    FDPAccountant,
    GaussianEvent,
    GDPAccountant,
    GroupEvent,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
    RDPAccountant,
    SampledWithoutReplacementEvent,
    TCDPAccountant,
    ZCDPAccountant,
    event_delta,
    event_epsilon,
)
from fastdp.accounting.calculators import dp_sgd
from fastdp.exceptions import FastDPError

REPLACE = NeighboringRelation.REPLACE_ONE

ACCOUNTANTS = [
    ApproximateAccountant,
    FDPAccountant,
    GDPAccountant,
    PLDAccountant,
    RDPAccountant,
    TCDPAccountant,
    ZCDPAccountant,
]


def gaussian(sigma, **options):
    return GaussianEvent(sensitivity=1, sigma=Fraction(sigma), **options)


def slow(event, count):
    return pytest.param(event, count, marks=pytest.mark.slow)


#: Steps and counts where something overflows, underflows, or is 0/0 on the way.
STEPS = [
    (PoissonSampledEvent(0.01, gaussian("1e-3")), 10),
    (PoissonSampledEvent(0.01, gaussian("1e-6")), 1),
    slow(PoissonSampledEvent(Fraction(1, 10**15), gaussian(1)), 10**8),
    slow(PoissonSampledEvent(0.5, gaussian("1e7")), 3),
    (gaussian("1e-4"), 10),
    (gaussian("1e9"), 10**6),
    (LaplaceEvent(sensitivity=1, scale=Fraction(1, 1000)), 3),
    (LaplaceEvent(sensitivity=1, scale=10**12), 1000),
    (PoissonSampledEvent(0.01, LaplaceEvent(sensitivity=1, scale=0.001)), 5),
    (DiscreteLaplaceEvent(sensitivity=3, scale=0.01), 7),
    (DiscreteGaussianEvent(sensitivity=1, sigma=Fraction(1, 10), coordinates=1), 3),
    (DiscreteGaussianEvent(sensitivity=1, sigma=10**9, coordinates=1), 50),
    (PureDPEvent(600), 2),
    (PureDPEvent(Fraction(1, 10**12)), 100),
    (ExponentialMechanismEvent(3), 1),
    slow(ExponentialMechanismEvent(300), 2),
    (GroupEvent(gaussian("1e-2"), 5), 3),
    slow(
        SampledWithoutReplacementEvent(
            source_dataset_size=1000,
            sample_size=1,
            event=gaussian("1e-2", neighboring_relation=REPLACE),
        ),
        4,
    ),
]

READINGS = {
    "epsilon": lambda accountant: [accountant.epsilon(d) for d in (1e-2, 1e-9, 1e-200)],
    "delta": lambda accountant: [accountant.delta(e) for e in (0, 1e-3, 5, 1e5)],
    "epsilon_bounds": lambda accountant: accountant.epsilon_bounds(1e-6),
    "delta_bounds": lambda accountant: accountant.delta_bounds(2),
    "epsilon_profile": lambda accountant: accountant.epsilon_profile([1e-9, 1e-3]),
    "delta_profile": lambda accountant: accountant.delta_profile([0.1, 1, 100]),
    "trade_off": lambda accountant: accountant.trade_off()([0, 1e-300, 0.1, 1]),
}


@pytest.mark.parametrize(("event", "count"), STEPS)
def test_readings_are_quiet(event, count):
    answered = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in ACCOUNTANTS:
            accountant = make()
            if not accountant.supports(event):
                continue
            accountant.compose(event, count)
            for name, read in READINGS.items():
                if not hasattr(accountant, name):
                    continue
                try:
                    read(accountant)
                    answered += 1
                except FastDPError:
                    pass
        for single in (
            lambda: event_epsilon(event, 1e-6),
            lambda: event_delta(event, 1),
        ):
            try:
                single()
                answered += 1
            except FastDPError:
                pass
    assert answered >= 3


@pytest.mark.slow
def test_a_plan_is_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dp_sgd(10_000, batch=1, steps=10, epsilon=50, delta=1e-9, sampling="poisson")


@pytest.mark.parametrize("make", [*ACCOUNTANTS])
def test_many_deltas_name_the_reading_that_takes_them(make):
    accountant = make().compose(
        gaussian(1) if make is GDPAccountant else PureDPEvent(1)
    )
    for many in ([1e-5, 1e-6], (1e-5,)):
        with pytest.raises(TypeError, match="epsilon_profile takes many"):
            accountant.epsilon(many)
        with pytest.raises(TypeError, match="delta_profile takes many"):
            accountant.delta(many)
