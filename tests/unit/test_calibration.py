"""Calibration: every result meets its target, is least, and refuses what it must."""

import math
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastdp
from fastdp import calibration
from fastdp.accounting import (
    _discrete_gaussian,
    conversions,
    l2_sensitivity,
    renyi_divergence,
)
from fastdp.accounting._numeric import integer_l2
from fastdp.exceptions import CalibrationError, DTypeError, ParameterError

EPSILON_DELTA = [
    calibration.discrete_gaussian_sigma,
    calibration.grid_gaussian_sigma,
    calibration.truncated_laplace_bound,
]
ONE_BUDGET = [
    ("epsilon", calibration.laplace_scale),
    ("rho", calibration.laplace_scale_from_rho),
    ("rho", calibration.gaussian_sigma_from_rho),
    ("epsilon", calibration.grid_laplace_scale),
    ("rho", calibration.grid_laplace_scale_from_rho),
    ("rho", calibration.grid_gaussian_sigma_from_rho),
]


@pytest.mark.parametrize(("name", "function"), ONE_BUDGET)
def test_budgets_and_sensitivities_are_positive_and_finite(name, function):
    for bad in [0, -1, math.nan, math.inf, Decimal("Infinity")]:
        with pytest.raises(ParameterError, match=name):
            function(**{name: bad}, sensitivity=1)
        with pytest.raises(ParameterError, match="sensitivity"):
            function(**{name: 1}, sensitivity=bad)
    for bad in [True, "1", None]:
        with pytest.raises(DTypeError, match=name):
            function(**{name: bad}, sensitivity=1)


@pytest.mark.parametrize("function", EPSILON_DELTA)
def test_delta_is_strictly_between_0_and_1(function):
    for bad in [0, 1, 1.5, -1e-6, math.nan]:
        with pytest.raises(ParameterError, match="delta"):
            function(epsilon=1, delta=bad, sensitivity=1)
    for bad in [-1e-9, math.inf, math.nan]:
        with pytest.raises(ParameterError, match="epsilon"):
            function(epsilon=bad, delta=1e-6, sensitivity=1)
    with pytest.raises(DTypeError, match="delta"):
        function(epsilon=1, delta="1e-6", sensitivity=1)


def test_epsilon_0_is_for_gaussians_only():
    assert calibration.discrete_gaussian_sigma(
        epsilon=0, delta=1e-3, sensitivity=1
    ) == pytest.approx(1 / (2e-3 * math.sqrt(math.pi / 2)), rel=1e-6)
    assert calibration.grid_gaussian_sigma(epsilon=0, delta=1e-3, sensitivity=1) > 390
    with pytest.raises(ParameterError, match="epsilon"):
        calibration.truncated_laplace_bound(epsilon=0, delta=1e-6, sensitivity=1)


def test_laplace_scale_is_exact_and_round_trips():
    scale = calibration.laplace_scale(epsilon=Decimal("0.1"), sensitivity=3)
    assert scale == 30
    assert conversions.pure_epsilon(sensitivity=3, scale=scale) == Fraction(1, 10)
    assert calibration.laplace_scale(epsilon=0.1, sensitivity=1) == 1 / Fraction(0.1)


@pytest.mark.parametrize("epsilon", [1e7, 1e-17])
def test_parameters_out_of_range_are_refused_with_the_range(epsilon):
    with pytest.raises(CalibrationError, match=r"scale must be in \[1e-06"):
        calibration.laplace_scale(epsilon=epsilon, sensitivity=1)
    with pytest.raises(CalibrationError, match=r"sigma must be in \[0.001"):
        calibration.gaussian_sigma_from_rho(rho=epsilon**2, sensitivity=1)
    with pytest.raises(CalibrationError, match="scale must be in"):
        calibration.laplace_scale_from_rho(rho=epsilon**2, sensitivity=1)
    with pytest.raises(CalibrationError, match="sigma must be in"):
        calibration.discrete_gaussian_sigma(epsilon=0, delta=1e-18, sensitivity=1)
    with pytest.raises(CalibrationError, match="bound must be"):
        calibration.truncated_laplace_bound(
            epsilon=1e-16, delta=Fraction(1, 10**300), sensitivity=1
        )


@given(st.floats(1e-25, 1e5), st.integers(1, 1000))
@settings(max_examples=60, deadline=None)
def test_laplace_scale_from_rho_is_met_and_least(rho, sensitivity):
    scale = calibration.laplace_scale_from_rho(rho=rho, sensitivity=sensitivity)
    assert conversions.discrete_laplace_rho(sensitivity=sensitivity, scale=scale) <= rho
    below = scale * (1 - Fraction(1, 10**11))
    assert conversions.discrete_laplace_rho(
        sensitivity=sensitivity, scale=below
    ) > rho * (1 - 1e-14)


@given(st.floats(1e-20, 1e3), st.floats(0.1, 1e4))
@settings(max_examples=100, deadline=None)
def test_gaussian_sigma_from_rho_is_rounded_up_once(rho, sensitivity):
    sigma = calibration.gaussian_sigma_from_rho(rho=rho, sensitivity=sensitivity)
    exact = conversions.gaussian_rho(sensitivity=sensitivity, sigma=sigma)
    assert exact <= Fraction(rho)
    below = math.nextafter(sigma, 0)
    # A square just below an integer counts as that one.
    counted = integer_l2(Fraction(sensitivity))
    assert conversions.gaussian_rho(sensitivity=counted, sigma=below) > Fraction(
        rho
    ) * (1 - Fraction(1, 2**70))


@given(
    st.floats(1e-9, 60),
    st.floats(1e-300, 0.5),
    st.floats(1, 5000),
    st.sampled_from([None, 1, 2, 10]),
)
@settings(max_examples=60, deadline=None)
def test_discrete_gaussian_sigma_is_met_and_tight(epsilon, delta, sensitivity, n):
    sigma = calibration.discrete_gaussian_sigma(
        epsilon=epsilon, delta=delta, sensitivity=sensitivity, coordinates=n
    )

    def log_delta(sigma):
        return conversions.discrete_gaussian_log_delta(
            epsilon=epsilon, sensitivity=sensitivity, sigma=sigma, coordinates=n
        )

    assert log_delta(sigma) <= math.log(delta)
    if sigma > 1e-3:
        close = 1e-9 if n == 1 or sensitivity < 2 else 1e-6
        assert log_delta(sigma * (1 - close)) > math.log(delta)


def above(epsilon, delta, sensitivity, n, sigmas):
    """Return the largest ln of delta over the target at some sigmas."""
    log_delta = conversions.discrete_gaussian_log_delta
    found = [
        log_delta(epsilon=epsilon, sensitivity=sensitivity, sigma=s, coordinates=n)
        for s in sigmas
    ]
    return max(found) - math.log(delta)


def test_a_larger_sigma_is_within_the_target_as_well():
    # The least sigma within the target is 0.88342; from there to 0.94479 it is not.
    options = {"epsilon": 7.0449, "delta": 1.5604e-10, "sensitivity": 1}
    sigma = calibration.discrete_gaussian_sigma(**options)
    assert sigma == pytest.approx(0.944792, abs=1e-6)
    assert above(7.0449, 1.5604e-10, 1, 1, [0.88342]) < 1e-4
    assert above(7.0449, 1.5604e-10, 1, 1, [0.94]) > math.log(1.03)
    rng = np.random.default_rng(5)
    for _ in range(5):
        epsilon, delta = 10 ** rng.uniform(-0.3, 1.3), 10 ** rng.uniform(-14, -4)
        s, n = rng.choice([1, 2, 5]), 1
        sigma = calibration.discrete_gaussian_sigma(
            epsilon=epsilon, delta=delta, sensitivity=s, coordinates=n
        )
        more = sigma * (1 + np.geomspace(1e-9, 1, 120))
        assert above(epsilon, delta, s, n, more) <= 1e-11


@pytest.mark.rest
def test_a_larger_sigma_is_within_the_target_where_several_integers_move():
    rng = np.random.default_rng(6)
    for square, n in [(2, None), (3, 2), (5, None), (8, 3)]:
        epsilon, delta = 10 ** rng.uniform(0.5, 1.3), 10 ** rng.uniform(-14, -4)
        options = {"sensitivity": math.sqrt(square), "coordinates": n}
        sigma = calibration.discrete_gaussian_sigma(
            epsilon=epsilon, delta=delta, **options
        )
        more = sigma * (1 + np.geomspace(1e-9, 0.6, 60))
        assert above(epsilon, delta, math.sqrt(square), n, more) <= 1e-11


@pytest.mark.parametrize(("square", "n"), [(1, 1), (9, 1), (3, None), (5, 2)])
def test_bounds_for_all_sigmas_of_an_interval(square, n):
    root = Fraction(square) if square == 1 else integer_l2(Fraction(math.sqrt(square)))
    for epsilon in (0, Fraction(1, 2), 3, 9):
        for low, high in [(0.4, 0.41), (0.9, 0.9001), (1.5, 3), (5, 5.5)]:
            bound = _discrete_gaussian.log_delta_between(
                Fraction(epsilon), root, Fraction(low), Fraction(high), n
            )
            inside = [
                _discrete_gaussian.log_delta(
                    Fraction(epsilon), root, Fraction(sigma), n
                )
                for sigma in np.linspace(low, high, 9)
            ]
            assert max(inside) <= bound + 1e-11
            # Close where the interval is short.
            slack = 4 + 12 * (epsilon * high) ** 2
            assert bound - max(inside) < slack * (high / low - 1) * square + 1e-10


def test_an_interval_that_trusts_its_end_would_be_seen():
    # The bound at the upper end alone is not one for the interval.
    low, high = Fraction("0.884"), Fraction("0.98")
    end = _discrete_gaussian.log_delta(Fraction("7.0449"), Fraction(1), high, 1)
    middle = _discrete_gaussian.log_delta(
        Fraction("7.0449"), Fraction(1), Fraction("0.93"), 1
    )
    assert end < middle
    assert middle <= _discrete_gaussian.log_delta_between(
        Fraction("7.0449"), Fraction(1), low, high, 1
    )


@given(
    st.floats(1e-6, 60),
    st.floats(1e-300, 0.5),
    st.floats(1e-9, 1e12),
    st.integers(1, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_grid_gaussian_sigma_charges_the_rounding(epsilon, delta, sensitivity, n):
    sigma = calibration.grid_gaussian_sigma(
        epsilon=epsilon, delta=delta, sensitivity=sensitivity, coordinates=n
    )
    g = calibration.grid_granularity(sigma)
    assert 2**39 <= Fraction(sigma) / g < 2**40
    charged = calibration.charged_l2(
        sensitivity=sensitivity, coordinates=n, granularity=g
    )
    assert charged > Fraction(sensitivity)
    reached = conversions.discrete_gaussian_log_delta(
        epsilon=epsilon,
        sensitivity=charged / g,
        sigma=Fraction(sigma) / g,
        coordinates=n,
    )
    assert reached <= math.log(delta)
    # Little is lost to the grid: the continuous law needs nearly as much noise.
    analytic = conversions.gaussian_log_delta(
        epsilon=epsilon, sensitivity=sensitivity, sigma=sigma * 0.99
    )
    if Fraction(sigma) * Fraction(n) < Fraction(sensitivity) * 2**30:
        assert analytic > math.log(delta)


@given(st.floats(1e-4, 60), st.floats(1e-9, 1e12), st.integers(1, 10**4))
@settings(max_examples=60, deadline=None)
def test_grid_laplace_and_rho_charge_the_rounding(budget, sensitivity, n):
    scale = calibration.grid_laplace_scale(
        epsilon=budget, sensitivity=sensitivity, coordinates=n
    )
    g = calibration.grid_granularity(scale)
    assert calibration.charged_l1(
        sensitivity=sensitivity, coordinates=n, granularity=g
    ) <= scale * Fraction(budget)
    sigma = calibration.grid_gaussian_sigma_from_rho(
        rho=budget, sensitivity=sensitivity, coordinates=n
    )
    g = calibration.grid_granularity(sigma)
    charged = calibration.charged_l2(
        sensitivity=sensitivity, coordinates=n, granularity=g
    )
    assert conversions.gaussian_rho(sensitivity=charged, sigma=sigma) <= Fraction(
        budget
    )
    scale = calibration.grid_laplace_scale_from_rho(
        rho=budget, sensitivity=sensitivity, coordinates=n
    )
    g = calibration.grid_granularity(scale)
    charged = calibration.charged_l1(
        sensitivity=sensitivity, coordinates=n, granularity=g
    )
    assert (
        conversions.discrete_laplace_rho(sensitivity=charged / g, scale=scale / g)
        <= budget
    )


def test_granularity_is_a_power_of_two_and_can_be_given():
    assert calibration.grid_granularity(1) == Fraction(1, 2**39)
    assert calibration.grid_granularity(Fraction(2**40 - 1, 2**39)) == Fraction(
        1, 2**39
    )
    assert calibration.grid_granularity(1e-300) < Fraction(1, 2**1000)
    coarse = calibration.grid_laplace_scale(
        epsilon=1, sensitivity=1, coordinates=3, granularity=0.25
    )
    assert coarse == Fraction(7, 4)
    sigma = calibration.grid_gaussian_sigma(
        epsilon=1, delta=1e-6, granularity=0.25, sensitivity=1, coordinates=1
    )
    assert sigma > calibration.grid_gaussian_sigma(epsilon=1, delta=1e-6, sensitivity=1)
    for bad in [0.3, 3, 0, -1, math.nan]:
        with pytest.raises(ParameterError, match="granularity"):
            calibration.grid_laplace_scale(
                epsilon=1, granularity=bad, sensitivity=1, coordinates=1
            )
    with pytest.raises(CalibrationError, match="granularity"):
        calibration.grid_laplace_scale(
            epsilon=1, granularity=2.0**-60, sensitivity=1, coordinates=1
        )
    with pytest.raises(CalibrationError, match="granularity"):
        calibration.grid_laplace_scale(epsilon=1e-9, coordinates=10**6, sensitivity=1)
    with pytest.raises(ParameterError, match="coordinates"):
        calibration.grid_gaussian_sigma(
            epsilon=1, delta=1e-6, coordinates=0, sensitivity=1
        )


def test_charges():
    assert calibration.charged_l1(sensitivity=1, coordinates=4, granularity=0.5) == 3
    assert calibration.charged_l2(sensitivity=1, coordinates=4, granularity=0.5) == 2
    root = calibration.charged_l2(sensitivity=1, coordinates=2, granularity=1) - 1
    assert root == l2_sensitivity(2)
    assert root * root >= 2


def test_truncated_bound_counts_the_sensitivity():
    assert (
        calibration.truncated_laplace_bound(epsilon=1, delta=1e-6, sensitivity=1) == 14
    )
    one = calibration.truncated_laplace_bound(epsilon=1, delta=1e-6, sensitivity=1)
    assert (
        calibration.truncated_laplace_bound(epsilon=1, delta=1e-6, sensitivity=10)
        > 9 * one
    )
    # A delta of more than a half still leaves room for the sensitivity.
    assert calibration.truncated_laplace_bound(epsilon=1, delta=0.9, sensitivity=5) == 5


def test_absurd_targets_are_refused_by_name():
    with pytest.raises(CalibrationError, match="bound must be"):
        calibration.truncated_laplace_bound(epsilon=1e160, delta=0.5, sensitivity=1e163)
    with pytest.raises(CalibrationError, match="bound must be"):
        calibration.truncated_laplace_bound(epsilon=1e20, delta=0.5, sensitivity=1e15)
    with pytest.raises(CalibrationError, match="scale must be in"):
        calibration.laplace_scale_from_rho(rho=1e-45, sensitivity=1e287)
    with pytest.raises(CalibrationError, match="sigma must be in"):
        calibration.grid_gaussian_sigma(
            epsilon=0, delta=Fraction(1, 10**600), sensitivity=1e200
        )


@pytest.mark.alone
def test_calibration_is_quick():
    start = time.process_time()
    for epsilon in [0.1, 0.5, 1, 3, 10]:
        calibration.discrete_gaussian_sigma(epsilon=epsilon, delta=1e-6, sensitivity=1)
    # A few milliseconds each; the limit leaves room for a slow machine.
    assert time.process_time() - start < 1.0


def test_import_needs_neither_scipy_nor_the_core():
    code = (
        "import sys, fastdp.calibration, fastdp.distributions\n"
        "assert 'scipy' not in sys.modules and 'fastdp._core' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("sensitivity", [1, 0.3, 200_000])
@pytest.mark.parametrize("divergence", [1e-9, 0.01, 0.5, 3, 40])
@pytest.mark.parametrize("order", [1 + 2.0**-20, 1.5, 4, 64, 1e6])
def test_noise_for_one_renyi_order_meets_it_and_hardly_more(
    order, divergence, sensitivity
):
    target = {"order": order, "divergence": divergence}
    for kind in (fastdp.Gaussian, fastdp.Laplace):
        m = kind.from_rdp(**target, sensitivity=sensitivity, coordinates=1)
        found = renyi_divergence(m.event(), order)
        # What is found is rounded up by 1e-13; rounding to the grid is charged.
        grid = float(m.granularity) / sensitivity
        assert found <= divergence * (1 + 2e-13)
        assert found > divergence * (1 - 4 * grid - 1e-11)


def test_noise_for_one_renyi_order_is_that_of_the_closed_forms():
    gaussian = fastdp.Gaussian.from_rdp(
        order=2, divergence=0.5, sensitivity=1, coordinates=1
    )
    assert gaussian == fastdp.Gaussian.from_rho(0.25, sensitivity=1, coordinates=1)
    assert 0 < gaussian.sigma - math.sqrt(2) < 1e-11
    laplace = fastdp.Laplace.from_rdp(
        order=4, divergence=0.5, sensitivity=1, coordinates=1
    )
    b = float(laplace.scale)
    continuous = math.log(4 / 7 * math.exp(3 / b) + 3 / 7 * math.exp(-4 / b)) / 3
    assert abs(continuous - 0.5) < 1e-11
    assert abs(b - 1.4609852882) < 1e-9


@pytest.mark.parametrize("kind", [fastdp.Gaussian, fastdp.Laplace])
def test_orders_and_divergences_have_their_range(kind):
    for bad in (1, 0.5, -3, 1e10):
        with pytest.raises(ParameterError, match=r"^order must be > 1"):
            kind.from_rdp(order=bad, divergence=1, sensitivity=1)
    for bad in (0, -1):
        with pytest.raises(ParameterError, match=r"^divergence must "):
            kind.from_rdp(order=2, divergence=bad, sensitivity=1)
    tiny = Fraction(1, 10**400)
    with pytest.raises(CalibrationError):
        kind.from_rdp(order=2, divergence=tiny, sensitivity=1)
    with pytest.raises(DTypeError, match=r"^order must "):
        kind.from_rdp(order="2", divergence=1, sensitivity=1)


@pytest.mark.parametrize("rho", [0.5, 1, 2, 8])
@pytest.mark.parametrize("sensitivity", [Fraction(i, 8) for i in range(8, 17)])
def test_laplace_noise_for_rho_is_least_next_to_a_coarser_grid(rho, sensitivity):
    m = fastdp.Laplace.from_rho(rho, sensitivity=sensitivity, coordinates=1)
    assert rho * (1 - 1e-8) < m.rho() <= rho
