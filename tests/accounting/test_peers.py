"""Other libraries as oracles, where they are installed, and where they are wrong.

Versions at which this was last run: dp-accounting 0.6.0, opendp 0.16.0, riskcal 1.5.1,
autodp 0.2.3.1. docs/accounting.md has the table of disagreements.
"""

import math
import warnings
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import (
    ApproximateAccountant,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    PureDPEvent,
    RDPAccountant,
    ZCDPAccountant,
    conversions,
    event_delta,
    event_epsilon,
    readings,
    renyi_divergence,
)

pytestmark = pytest.mark.filterwarnings("ignore")

mp.mp.dps = 60


def imported(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


# ---- dp-accounting -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "sigma", "steps"),
    [(0.01, 1.0, 10_000), (0.01, 4.0, 10_000), (0.1, 2.0, 100), (1e-3, 0.7, 1000)],
)
def test_renyi_accountant_of_sampled_noise(rate, sigma, steps):
    peer = imported("dp_accounting")
    rdp = imported("dp_accounting.rdp")
    theirs = rdp.RdpAccountant()
    event = peer.PoissonSampledDpEvent(rate, peer.GaussianDpEvent(sigma))
    theirs.compose(peer.SelfComposedDpEvent(event, steps))
    ours = RDPAccountant().compose(
        PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=sigma)), steps
    )
    for delta in (1e-5, 1e-9):
        peer_epsilon = theirs.get_epsilon(delta)
        assert ours.epsilon(delta) <= peer_epsilon * (1 + 1e-12)
        assert ours.epsilon(delta) > 0.7 * peer_epsilon


def test_renyi_curve_of_laplace_noise_at_small_epsilon():
    rdp = imported("dp_accounting.rdp")
    peer = imported("dp_accounting")
    accountant = rdp.RdpAccountant(orders=[2.0])
    accountant.compose(peer.LaplaceDpEvent(1e6))
    with mp.workdps(60):
        e = mp.mpf("1e-6")
        true = mp.log(mp.exp(e) * 2 / 3 + mp.exp(-2 * e) / 3)
    ours = float(renyi_divergence(LaplaceEvent(sensitivity=1, scale=10**6), [2.0])[0])
    assert 0 <= ours / true - 1 < 1e-12
    assert abs(accountant._rdp[0] / float(true) - 1) > 1e-12  # digits lost


@pytest.mark.parametrize("scale", [0.7, 2.0, 9.0])
def test_profiles_of_single_mechanisms(scale):
    losses = imported("dp_accounting.pld.privacy_loss_distribution")
    laplace = losses.from_laplace_mechanism(scale, value_discretization_interval=1e-4)
    gaussian = losses.from_gaussian_mechanism(scale, value_discretization_interval=1e-4)
    for epsilon in (0.01, 0.1, 0.5):
        ours = event_delta(LaplaceEvent(sensitivity=1, scale=scale), epsilon)
        theirs = laplace.get_delta_for_epsilon(epsilon)
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-8)
        assert ours <= theirs * (1 + 1e-9) + 1e-12
        ours = event_delta(GaussianEvent(sensitivity=1, sigma=scale), epsilon)
        assert ours == pytest.approx(
            gaussian.get_delta_for_epsilon(epsilon), rel=1e-3, abs=1e-8
        )


def test_discrete_laws():
    losses = imported("dp_accounting.pld.privacy_loss_distribution")
    for a in (0.3, 1.0, 2.5):
        theirs = losses.from_discrete_laplace_mechanism(
            a, sensitivity=2, value_discretization_interval=1e-4
        )
        event = DiscreteLaplaceEvent(sensitivity=2, scale=Fraction(1) / Fraction(a))
        for epsilon in (0.1, a):
            ours = event_delta(event, epsilon)
            assert ours == pytest.approx(
                theirs.get_delta_for_epsilon(epsilon), rel=1e-3, abs=1e-9
            )
    for sigma in (0.5, 2.0):
        theirs = losses.from_discrete_gaussian_mechanism(
            sigma, value_discretization_interval=1e-4
        )
        for epsilon in (0.1, 1.0):
            ours = event_delta(
                DiscreteGaussianEvent(sensitivity=1, sigma=sigma, coordinates=1),
                epsilon,
            )
            assert ours == pytest.approx(
                theirs.get_delta_for_epsilon(epsilon), rel=1e-3, abs=1e-9
            )


def test_optimal_composition_between_lattice_points():
    module = imported("dp_accounting.pld.accountant")
    common = imported("dp_accounting.pld.common")
    parameters = common.DifferentialPrivacyParameters(0.1, 0)
    accountant = ApproximateAccountant().compose(PureDPEvent(Fraction(1, 10)), 100)
    for delta in (1e-3, 1e-6):
        theirs = module.advanced_composition(parameters, 100, delta)
        ours = accountant.epsilon(delta)
        assert ours <= theirs < ours + 0.2 + 1e-9  # only multiples of the lattice


def test_calibrated_noise_at_tiny_epsilon():
    # The peer's sigma does not meet its own target; ours does.
    module = imported("dp_accounting.pld.accountant")
    common = imported("dp_accounting.pld.common")
    parameters = common.DifferentialPrivacyParameters(1e-8, 1e-15)
    theirs = module.get_smallest_gaussian_noise(parameters, 1, 1)
    delta = conversions.gaussian_delta(epsilon=1e-8, sensitivity=1, sigma=theirs)
    assert delta > 1e-15 * (1 + 1e-6)
    sigma = theirs * (1 + 3e-6)  # what is needed, up to the width of the claim
    assert conversions.gaussian_delta(epsilon=1e-8, sensitivity=1, sigma=sigma) < 1e-15


# ---- opendp ------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [1e-4, 0.05, 0.5, 4.0])
def test_conversion_from_zero_concentrated(rho):
    dp = imported("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    scale = 1 / math.sqrt(2 * rho)
    measurement = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale))
    profile = measurement.map(1.0)
    for delta in (1e-3, 1e-9):
        theirs = profile.epsilon(delta)
        ours = (
            ZCDPAccountant()
            .compose(GaussianEvent(sensitivity=1, sigma=scale))
            .epsilon(delta)
        )
        assert ours == pytest.approx(theirs, rel=1e-9)


# ---- riskcal -----------------------------------------------------------------------


def test_readings_of_a_pair():
    imported("riskcal")
    analysis = imported("riskcal.analysis")
    for epsilon, delta in ((0.1, 1e-6), (1.0, 0.01), (4.0, 0)):
        theirs = analysis.get_advantage_for_epsilon_delta(epsilon, delta)
        assert readings.largest_advantage(
            epsilon=epsilon, delta=delta
        ) == pytest.approx(theirs)
        for rate in (0.01, 0.3):
            beta = analysis.get_beta_for_epsilon_delta(epsilon, delta, rate)
            power = readings.largest_power(
                epsilon=epsilon, delta=delta, false_positive_rate=rate
            )
            assert power == pytest.approx(1 - float(beta), abs=1e-12)


# ---- autodp ------------------------------------------------------------------------


def test_analytic_gaussian():
    utils = imported("autodp.dp_bank")
    for sigma in (1.0, 5.0):
        theirs = float(np.squeeze(utils.get_eps_ana_gaussian(sigma, 1e-6)))
        assert event_epsilon(
            GaussianEvent(sensitivity=1, sigma=sigma), 1e-6
        ) == pytest.approx(theirs, rel=1e-6)
