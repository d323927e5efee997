"""Solved parameters meet their target, and no better one is next to them."""

import math
from fractions import Fraction

import pytest

from fastdp import calibration
from fastdp.accounting import (
    ApproximateAccountant,
    DiscreteGaussianEvent,
    FDPAccountant,
    GaussianEvent,
    GDPAccountant,
    LaplaceEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PureAccountant,
    PureDPEvent,
    RDPAccountant,
    TCDPAccountant,
    ZCDPAccountant,
    calibrate,
    calibrate_count,
)
from fastdp.exceptions import (
    CalibrationError,
    DTypeError,
    ParameterError,
    UnsupportedEventError,
)

FAMILIES = {
    "sigma": (lambda x: GaussianEvent(1, x), 1e-2, 1e8, ZCDPAccountant, False),
    "scale": (lambda x: LaplaceEvent(1, x), 1e-2, 1e8, ApproximateAccountant, False),
    "epsilon": (PureDPEvent, 1e-9, 100, ApproximateAccountant, True),
    "rate": (
        lambda x: PoissonSampledEvent(x, PureDPEvent(2)),
        1e-7,
        1,
        ApproximateAccountant,
        True,
    ),
    "width": (
        lambda x: DiscreteGaussianEvent(1, x),
        Fraction(1, 100),
        10**8,
        TCDPAccountant,
        False,
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("target", [(1, 1e-6), (0.01, 1e-9), (5, Fraction(1, 10**300))])
@pytest.mark.parametrize("count", [1, 50])
def test_the_target_is_met_and_just_met(name, target, count):
    family, low, high, accountant, rising = FAMILIES[name]
    found = calibrate(family, target, accountant, low=low, high=high, count=count)
    epsilon, delta = target

    def met(parameter):
        composed = accountant().compose(family(parameter), count)
        log_delta = math.log(delta) if isinstance(delta, float) else -300 * math.log(10)
        return composed.log_delta(epsilon) <= log_delta

    assert low <= found <= high
    assert met(found)
    beyond = found * (1 + 1e-9) if rising else found / (1 + 1e-9)
    assert found in (low, high) or not met(beyond)


SAMPLED = {
    "sigma": (lambda x: GaussianEvent(1, x), Fraction(1, 10), 10**4, False),
    "scale": (lambda x: LaplaceEvent(1, x), Fraction(1, 10), 10**4, False),
    "rate": (lambda x: PoissonSampledEvent(x, GaussianEvent(1, 2)), 1e-5, 0.9, True),
    "epsilon": (PureDPEvent, 1e-4, 5, True),
}
READERS = [
    ("sigma", ZCDPAccountant),
    ("sigma", TCDPAccountant),
    ("sigma", RDPAccountant),
    ("sigma", GDPAccountant),
    ("sigma", PLDAccountant),
    ("scale", PureAccountant),
    ("scale", ApproximateAccountant),
    ("scale", RDPAccountant),
    ("rate", RDPAccountant),
    ("epsilon", ApproximateAccountant),
    ("epsilon", FDPAccountant),
]


@pytest.mark.parametrize(("name", "accountant"), READERS)
@pytest.mark.parametrize("target", [(1, 1e-6), (0.3, 1e-3)])
def test_both_readings_meet_the_target(name, accountant, target):
    # epsilon at delta and delta at epsilon are rounded independently of one another.
    family, low, high, rising = SAMPLED[name]
    found = calibrate(family, target, accountant, low=low, high=high, count=7)
    composed = accountant().compose(family(found), 7)
    assert composed.epsilon(target[1]) <= target[0]
    assert composed.delta(target[0]) <= target[1]
    beyond = found * (1 + 1e-6) if rising else found / (1 + 1e-6)
    worse = accountant().compose(family(beyond), 7)
    assert worse.delta(target[0]) > target[1] or worse.epsilon(target[1]) > target[0]


@pytest.mark.parametrize("accountant", [ZCDPAccountant, RDPAccountant, GDPAccountant])
def test_both_readings_meet_the_target_at_the_largest_count(accountant):
    event = GaussianEvent(1, 50)
    count = calibrate_count(event, (1, 1e-6), accountant)
    assert accountant().compose(event, count).epsilon(1e-6) <= 1
    assert accountant().compose(event, count + 1).epsilon(1e-6) > 1


def test_the_same_sigma_as_from_rho():
    rho = ZCDPAccountant()
    sigma = calibrate(
        lambda x: GaussianEvent(1, x), (1, 1e-6), ZCDPAccountant, low=1, high=100
    )
    rho.compose(GaussianEvent(1, sigma))
    exact = calibration.gaussian_sigma_from_rho(rho.rho)
    assert exact == pytest.approx(sigma, rel=1e-12)


@pytest.mark.parametrize("target", [(1, 0), (1, 1e-6), (0.1, 1e-300)])
@pytest.mark.parametrize("accountant", [PureAccountant, ApproximateAccountant])
def test_the_largest_count(target, accountant):
    event = LaplaceEvent(1, 300)
    count = calibrate_count(event, target, accountant)
    assert accountant().compose(event, count).delta(target[0]) <= target[1]
    assert accountant().compose(event, count + 1).delta(target[0]) > target[1]


def test_counts_at_the_ends():
    assert calibrate_count(PureDPEvent(2), (1, 0), PureAccountant) == 0
    assert calibrate_count(PureDPEvent(0), (1, 0), PureAccountant) == 10**15


def test_pure_targets():
    scale = calibrate(
        lambda x: LaplaceEvent(1, x),
        (1, 0),
        PureAccountant,
        low=1e-3,
        high=1e3,
        count=7,
    )
    assert scale == pytest.approx(7, rel=1e-12)
    assert PureAccountant().compose(LaplaceEvent(1, scale), 7).epsilon(0) <= 1


def test_where_all_of_the_interval_meets_the_target_the_nearer_end_is_returned():
    assert calibrate(PureDPEvent, (5, 0), PureAccountant, low=1, high=2) == 2
    assert (
        calibrate(lambda x: LaplaceEvent(1, x), (5, 0), PureAccountant, low=1, high=2)
        == 1
    )


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"low": 0}, ParameterError, "low"),
        ({"low": 3, "high": 2}, ParameterError, "low"),
        ({"high": float("inf")}, ParameterError, "high"),
        ({"count": 0}, ParameterError, "count"),
        ({"count": 1.5}, DTypeError, "count"),
        ({"target": (-1, 0.1)}, ParameterError, "epsilon"),
        ({"target": (1, 1)}, ParameterError, "delta"),
        ({"low": 3, "high": 4}, CalibrationError, "target"),
        ({"accountant": ZCDPAccountant, "target": (1, 0)}, None, ""),
        ({"family": lambda x: GaussianEvent(1, x)}, UnsupportedEventError, "epsilon"),
        (
            {
                "family": lambda x: GaussianEvent(1, x),
                "accountant": ZCDPAccountant,
                "target": (1, 0),
            },
            UnsupportedEventError,
            "delta must be > 0",
        ),
    ],
)
def test_bad_input(change, error, match):
    arguments = {
        "family": PureDPEvent,
        "target": (1, 1e-6),
        "accountant": PureAccountant,
        "low": 0.1,
        "high": 2,
        **change,
    }
    positional = [arguments.pop(name) for name in ("family", "target", "accountant")]
    if error is None:  # a sum of pure epsilons has a pure one under any notion
        assert calibrate(*positional, **arguments) == pytest.approx(1)
        return
    with pytest.raises(error, match=match):
        calibrate(*positional, **arguments)
