"""Solved parameters meet their target, and no better one is next to them."""

import math
from fractions import Fraction

import pytest
from scipy.special import ndtr, ndtri

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
from fastdp.accounting.readings import largest_power_of_trade_off
from fastdp.exceptions import (
    CalibrationError,
    DTypeError,
    ParameterError,
    UnsupportedEventError,
)

FAMILIES = {
    "sigma": (
        lambda x: GaussianEvent(sensitivity=1, sigma=x),
        1e-2,
        1e8,
        ZCDPAccountant,
        False,
    ),
    "scale": (
        lambda x: LaplaceEvent(sensitivity=1, scale=x),
        1e-2,
        1e8,
        ApproximateAccountant,
        False,
    ),
    "epsilon": (PureDPEvent, 1e-9, 100, ApproximateAccountant, True),
    "rate": (
        lambda x: PoissonSampledEvent(x, PureDPEvent(2)),
        1e-7,
        1,
        ApproximateAccountant,
        True,
    ),
    "width": (
        lambda x: DiscreteGaussianEvent(sensitivity=1, sigma=x),
        Fraction(1, 100),
        10**8,
        TCDPAccountant,
        False,
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1, 1e-6), (0.01, 1e-9), (5, Fraction(1, 10**300))]
)
@pytest.mark.parametrize("count", [1, 50])
def test_the_target_is_met_and_just_met(name, epsilon, delta, count):
    family, low, high, accountant, rising = FAMILIES[name]
    found = calibrate(
        family,
        epsilon=epsilon,
        delta=delta,
        accountant=accountant,
        low=low,
        high=high,
        count=count,
    )

    def met(parameter):
        composed = accountant().compose(family(parameter), count)
        log_delta = math.log(delta) if isinstance(delta, float) else -300 * math.log(10)
        return composed.log_delta(epsilon) <= log_delta

    assert low <= found <= high
    assert met(found)
    beyond = found * (1 + 1e-9) if rising else found / (1 + 1e-9)
    assert found in (low, high) or not met(beyond)


SAMPLED = {
    "sigma": (
        lambda x: GaussianEvent(sensitivity=1, sigma=x),
        Fraction(1, 10),
        10**4,
        False,
    ),
    "scale": (
        lambda x: LaplaceEvent(sensitivity=1, scale=x),
        Fraction(1, 10),
        10**4,
        False,
    ),
    "rate": (
        lambda x: PoissonSampledEvent(x, GaussianEvent(sensitivity=1, sigma=2)),
        1e-5,
        0.9,
        True,
    ),
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
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.3, 1e-3)])
def test_both_readings_meet_the_target(name, accountant, epsilon, delta):
    # epsilon at delta and delta at epsilon are rounded independently of one another.
    family, low, high, rising = SAMPLED[name]
    found = calibrate(
        family,
        epsilon=epsilon,
        delta=delta,
        accountant=accountant,
        low=low,
        high=high,
        count=7,
    )
    composed = accountant().compose(family(found), 7)
    assert composed.epsilon(delta) <= epsilon
    assert composed.delta(epsilon) <= delta
    beyond = found * (1 + 1e-6) if rising else found / (1 + 1e-6)
    worse = accountant().compose(family(beyond), 7)
    assert worse.delta(epsilon) > delta or worse.epsilon(delta) > epsilon


@pytest.mark.parametrize("accountant", [ZCDPAccountant, RDPAccountant, GDPAccountant])
def test_both_readings_meet_the_target_at_the_largest_count(accountant):
    event = GaussianEvent(sensitivity=1, sigma=50)
    count = calibrate_count(event, epsilon=1, delta=1e-6, accountant=accountant)
    assert accountant().compose(event, count).epsilon(1e-6) <= 1
    assert accountant().compose(event, count + 1).epsilon(1e-6) > 1


def test_the_same_sigma_as_from_rho():
    rho = ZCDPAccountant()
    sigma = calibrate(
        lambda x: GaussianEvent(sensitivity=1, sigma=x),
        epsilon=1,
        delta=1e-6,
        accountant=ZCDPAccountant,
        low=1,
        high=100,
    )
    rho.compose(GaussianEvent(sensitivity=1, sigma=sigma))
    exact = calibration.gaussian_sigma_from_rho(rho=rho.rho, sensitivity=1)
    assert exact == pytest.approx(sigma, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0), (1, 1e-6), (0.1, 1e-300)])
@pytest.mark.parametrize("accountant", [PureAccountant, ApproximateAccountant])
def test_the_largest_count(epsilon, delta, accountant):
    event = LaplaceEvent(sensitivity=1, scale=300)
    count = calibrate_count(event, epsilon=epsilon, delta=delta, accountant=accountant)
    assert accountant().compose(event, count).delta(epsilon) <= delta
    assert accountant().compose(event, count + 1).delta(epsilon) > delta


def test_counts_at_the_ends():
    assert (
        calibrate_count(PureDPEvent(2), epsilon=1, delta=0, accountant=PureAccountant)
        == 0
    )
    assert (
        calibrate_count(PureDPEvent(0), epsilon=1, delta=0, accountant=PureAccountant)
        == 10**15
    )


def test_pure_targets():
    scale = calibrate(
        lambda x: LaplaceEvent(sensitivity=1, scale=x),
        epsilon=1,
        delta=0,
        accountant=PureAccountant,
        low=1e-3,
        high=1e3,
        count=7,
    )
    assert scale == pytest.approx(7, rel=1e-12)
    assert (
        PureAccountant().compose(LaplaceEvent(sensitivity=1, scale=scale), 7).epsilon(0)
        <= 1
    )


def test_where_all_of_the_interval_meets_the_target_the_nearer_end_is_returned():
    assert (
        calibrate(
            PureDPEvent, epsilon=5, delta=0, accountant=PureAccountant, low=1, high=2
        )
        == 2
    )
    assert (
        calibrate(
            lambda x: LaplaceEvent(sensitivity=1, scale=x),
            epsilon=5,
            delta=0,
            accountant=PureAccountant,
            low=1,
            high=2,
        )
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
        ({"epsilon": -1, "delta": 0.1}, ParameterError, "epsilon"),
        ({"delta": 1}, ParameterError, "delta"),
        ({"low": 3, "high": 4}, CalibrationError, "target"),
        ({"accountant": ZCDPAccountant, "delta": 0}, None, ""),
        (
            {"family": lambda x: GaussianEvent(sensitivity=1, sigma=x)},
            UnsupportedEventError,
            "epsilon",
        ),
        (
            {
                "family": lambda x: GaussianEvent(sensitivity=1, sigma=x),
                "accountant": ZCDPAccountant,
                "delta": 0,
            },
            UnsupportedEventError,
            "delta must be > 0",
        ),
    ],
)
def test_bad_input(change, error, match):
    arguments = {
        "family": PureDPEvent,
        "epsilon": 1,
        "delta": 1e-6,
        "accountant": PureAccountant,
        "low": 0.1,
        "high": 2,
        **change,
    }
    family = arguments.pop("family")
    if error is None:  # a sum of pure epsilons has a pure one under any notion
        assert calibrate(family, **arguments) == pytest.approx(1)
        return
    with pytest.raises(error, match=match):
        calibrate(family, **arguments)


# ---- what attacks can do -------------------------------------------------------------


def gaussian(sigma):
    return GaussianEvent(sensitivity=1, sigma=sigma)


@pytest.mark.parametrize("mu", [0.1, 0.7, 3.0])
def test_sigma_of_an_advantage_and_of_a_power_is_that_of_the_normal_law(mu):
    """Of Gaussian noise advantage is 2 Phi(mu/2) - 1, power Phi(Phi^-1(x) + mu)."""
    advantage = 2 * ndtr(mu / 2) - 1
    found = calibrate(gaussian, advantage=advantage, accountant=PLDAccountant)
    assert found == pytest.approx(1 / mu, rel=1e-8)
    assert PLDAccountant().compose(gaussian(found)).delta(0) <= advantage
    rate = 0.02
    power = float(ndtr(ndtri(rate) + mu))
    for kind in (PLDAccountant, FDPAccountant):
        found = calibrate(
            gaussian, power=power, false_positive_rate=rate, accountant=kind
        )
        assert found == pytest.approx(1 / mu, rel=1e-7)
        f = kind().compose(gaussian(found)).trade_off()
        assert largest_power_of_trade_off(f, rate) <= power


@pytest.mark.parametrize(
    ("target", "match"),
    [
        ({}, "the target must be"),
        ({"epsilon": 1}, "the target must be"),
        ({"epsilon": 1, "delta": 0.1, "advantage": 0.1}, "the target must be"),
        ({"power": 0.1}, "the target must be"),
        ({"advantage": 1}, "advantage"),
        ({"power": 0.1, "false_positive_rate": 0.1}, "below power"),
        ({"advantage": 0.1, "low": 1}, "low and high"),
    ],
)
def test_targets_that_are_none_are_refused(target, match):
    with pytest.raises(ParameterError, match=match):
        calibrate(gaussian, accountant=PLDAccountant, **target)


def test_intervals_are_found_where_events_take_parameters():
    sample = calibrate(
        lambda rate: PoissonSampledEvent(rate, gaussian(1)),
        epsilon=1,
        delta=1e-5,
        accountant=PLDAccountant,
        count=100,
    )
    assert 0.01 < sample < 0.1
    wide = calibrate(gaussian, epsilon=1e-4, delta=1e-9, accountant=PLDAccountant)
    assert PLDAccountant().compose(gaussian(wide)).delta(1e-4) <= 1e-9
    with pytest.raises(CalibrationError, match="low and high must be given"):
        calibrate(
            lambda _: PureDPEvent(2), epsilon=1, delta=0, accountant=PureAccountant
        )
    with pytest.raises(UnsupportedEventError, match="trade-off function"):
        calibrate(
            gaussian, power=0.1, false_positive_rate=0.01, accountant=ZCDPAccountant
        )
