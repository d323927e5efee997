"""Conversions: directions of rounding, edges, refusals, inverses."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp import accounting
from fastdp.accounting import conversions
from fastdp.accounting._numeric import exp_up, log_down, root_above, sqrt_up
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError

BAD_VALUES = [0, -1, float("nan"), float("inf"), Decimal("NaN")]
TWO_POSITIVE = [
    (conversions.pure_epsilon, "scale"),
    (conversions.discrete_laplace_rho, "scale"),
    (conversions.laplace_rho, "scale"),
    (conversions.gaussian_rho, "sigma"),
]


@pytest.mark.parametrize(("function", "noise"), TWO_POSITIVE)
@pytest.mark.parametrize("bad", BAD_VALUES)
def test_parameters_must_be_finite_and_positive(function, noise, bad):
    with pytest.raises(ParameterError, match="sensitivity"):
        function(sensitivity=bad, **{noise: 1})
    with pytest.raises(ParameterError, match=noise):
        function(sensitivity=1, **{noise: bad})


@pytest.mark.parametrize("bad", [True, "1", None, 1j])
def test_types_are_refused(bad):
    with pytest.raises(DTypeError, match="epsilon"):
        conversions.discrete_gaussian_delta(epsilon=bad, sensitivity=1, sigma=1)
    with pytest.raises(DTypeError, match="rho"):
        conversions.zcdp_epsilon(delta=1e-5, rho=bad)
    with pytest.raises(DTypeError, match="coordinates"):
        conversions.discrete_gaussian_delta(
            epsilon=1, sensitivity=1, sigma=1, coordinates=1.5
        )


@pytest.mark.parametrize("delta", [0, 1, 2, -0.1, float("nan")])
def test_delta_of_gaussians_is_strictly_inside(delta):
    for function in (
        conversions.gaussian_epsilon,
        conversions.discrete_gaussian_epsilon,
    ):
        with pytest.raises(ParameterError, match="delta"):
            function(delta=delta, sensitivity=1, sigma=1)
    with pytest.raises(ParameterError, match="delta"):
        conversions.zcdp_epsilon(delta=delta, rho=1)


def test_pure_epsilon_is_exact():
    assert conversions.pure_epsilon(sensitivity=Decimal("0.1"), scale=3) == Fraction(
        1, 30
    )
    assert conversions.discrete_laplace_epsilon(
        delta=0, sensitivity=1, scale=10
    ) == math.nextafter(0.1, 1) or (
        conversions.discrete_laplace_epsilon(delta=0, sensitivity=1, scale=10) == 0.1
    )
    assert Fraction(
        conversions.discrete_laplace_epsilon(delta=0, sensitivity=1, scale=3)
    ) >= Fraction(1, 3)
    assert (
        conversions.discrete_laplace_delta(
            epsilon=Fraction(1, 10), sensitivity=1, scale=10
        )
        == 0
    )


def test_sensitivity_of_integer_answers_is_whole_and_at_least_one():
    whole = conversions.discrete_laplace_delta(epsilon=0.1, sensitivity=2, scale=3)
    assert (
        conversions.discrete_laplace_delta(epsilon=0.1, sensitivity=2.9, scale=3)
        == whole
    )
    one = conversions.discrete_gaussian_delta(epsilon=1, sensitivity=1, sigma=2)
    assert (
        conversions.discrete_gaussian_delta(epsilon=1, sensitivity=0.3, sigma=2) == one
    )
    assert (
        conversions.discrete_gaussian_delta(epsilon=1, sensitivity=1.4, sigma=2) == one
    )


@given(
    st.floats(1e-3, 1e6),
    st.floats(1e-4, 20),
    st.integers(1, 20),
)
@settings(max_examples=60, deadline=None)
def test_profiles_fall_with_epsilon_and_grow_with_sensitivity(sigma, epsilon, shift):
    here = conversions.discrete_gaussian_log_delta(
        epsilon=epsilon, sensitivity=shift, sigma=sigma, coordinates=1
    )
    further = conversions.discrete_gaussian_log_delta(
        epsilon=2 * epsilon, sensitivity=shift, sigma=sigma, coordinates=1
    )
    larger = conversions.discrete_gaussian_log_delta(
        epsilon=epsilon, sensitivity=shift + 1, sigma=sigma, coordinates=1
    )
    assert further <= here <= 0
    # Different valid bounds may serve the two: they differ by the allowance only.
    assert larger >= here - 0.3 * abs(here) - 1e-9


@given(st.floats(1e-2, 1e4), st.floats(1e-200, 0.4), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_epsilon_inverts_delta_from_the_safe_side(parameter, delta, sensitivity):
    for epsilon_of, delta_of, noise in [
        (
            conversions.discrete_laplace_epsilon,
            conversions.discrete_laplace_log_delta,
            "scale",
        ),
        (conversions.gaussian_epsilon, conversions.gaussian_log_delta, "sigma"),
    ]:
        law = {"sensitivity": sensitivity, noise: parameter}
        epsilon = epsilon_of(delta=delta, **law)
        reached = delta_of(epsilon=epsilon, **law)
        assert reached <= math.log(delta) + 1e-12
        if epsilon > 0:
            below = delta_of(epsilon=epsilon * (1 - 1e-9), **law)
            assert below > math.log(delta) - 1e-9


@pytest.mark.parametrize("coordinates", [None, 1, 2])
@pytest.mark.parametrize("sensitivity", [1, 1.5, 3, 10])
@pytest.mark.parametrize("sigma", [0.5, 3, 30, 1e5])
def test_discrete_gaussian_epsilon_is_met(sigma, sensitivity, coordinates):
    for delta in [1e-3, 1e-12, 1e-100]:
        epsilon = conversions.discrete_gaussian_epsilon(
            delta=delta, sensitivity=sensitivity, sigma=sigma, coordinates=coordinates
        )
        reached = conversions.discrete_gaussian_log_delta(
            epsilon=epsilon,
            sensitivity=sensitivity,
            sigma=sigma,
            coordinates=coordinates,
        )
        rho = conversions.gaussian_rho(sensitivity=max(1, sensitivity), sigma=sigma)
        by_rho = conversions.zcdp_epsilon(delta=delta, rho=rho)
        assert reached <= math.log(delta) or epsilon == by_rho
        assert epsilon <= by_rho


def test_fewer_coordinates_never_cost_more():
    for sigma in [0.6, 2, 7.9]:
        deltas = [
            conversions.discrete_gaussian_log_delta(
                epsilon=1, sensitivity=3, sigma=sigma, coordinates=n
            )
            for n in (1, 2, 4, 9, None)
        ]
        assert deltas == sorted(deltas)


@given(st.floats(1e-6, 30), st.floats(1e-300, 0.9))
@settings(max_examples=60, deadline=None)
def test_rho_of_a_target_is_met_and_largest(epsilon, delta):
    rho = conversions.zcdp_to_rho(epsilon=epsilon, delta=delta)
    assert rho > 0
    assert (
        conversions.zcdp_log_delta(epsilon=epsilon, rho=rho) <= math.log(delta) + 1e-15
    )
    above = conversions.zcdp_log_delta(epsilon=epsilon, rho=rho * (1 + 1e-6))
    assert above > math.log(delta) - 1e-4 * abs(math.log(delta))


def test_rho_too_small_for_anything_is_0():
    assert conversions.zcdp_to_rho(epsilon=0, delta=1e-300) == 0.0
    assert 0 < conversions.zcdp_to_rho(epsilon=0, delta=1e-40) < 1e-79


def test_pure_to_rho_is_the_exact_characterization():
    assert conversions.pure_to_rho(1) == pytest.approx(math.tanh(0.5), rel=3e-16)
    assert conversions.pure_to_rho(1e-30) == pytest.approx(5e-61)
    assert conversions.pure_to_rho(1e5) <= 1e5 * (1 + 1e-15)


def test_group_privacy():
    assert accounting.group_epsilon(epsilon=Fraction(1, 3), size=5) == Fraction(5, 3)
    assert accounting.group_rho(rho=Fraction(1, 8), size=5) == Fraction(25, 8)
    naive = 3 * 1e-6
    right = 1e-6 * (math.e**3 - 1) / (math.e - 1)
    got = accounting.group_delta(epsilon=1, delta=1e-6, size=3)
    assert right <= got <= right * (1 + 1e-12)
    assert got > naive
    assert accounting.group_delta(epsilon=0, delta=1e-6, size=4) == pytest.approx(4e-6)
    assert accounting.group_delta(epsilon=50, delta=1e-3, size=40) == 1.0
    assert accounting.group_delta(epsilon=3, delta=0, size=40) == 0.0
    with pytest.raises(ParameterError, match="size"):
        accounting.group_rho(rho=1, size=0)


def test_truncated_noise_is_refused_below_its_epsilon():
    with pytest.raises(UnsupportedEventError, match="epsilon"):
        conversions.truncated_laplace_delta(
            epsilon=0.09, sensitivity=1, scale=10, bound=100
        )
    with pytest.raises(ParameterError, match="bound"):
        conversions.truncated_laplace_delta(
            epsilon=10, sensitivity=4, scale=10, bound=3
        )
    # Large deltas too: A = 3, shift 3 out of 7 outcomes.
    q = math.exp(-0.1)
    true = (q + q**2 + q**3) / (1 + 2 * (q + q**2 + q**3))
    got = conversions.truncated_laplace_delta(
        epsilon=1, sensitivity=3, scale=10, bound=3
    )
    assert true * (1 - 1e-14) <= got <= true * (1 + 1e-14)


class StrangeEvent(accounting.Event):
    pass


def test_unknown_events_are_refused_not_free():
    for function in (
        lambda e: accounting.event_epsilon(e, 1e-6),
        lambda e: accounting.event_delta(e, 1),
        accounting.event_rho,
    ):
        with pytest.raises(UnsupportedEventError):
            function(StrangeEvent())
    with pytest.raises(UnsupportedEventError):
        accounting.event_epsilon(
            accounting.DiscreteGaussianEvent(sensitivity=1, sigma=1)
        )
    truncated = accounting.TruncatedDiscreteLaplaceEvent(
        sensitivity=1, scale=1, bound=14
    )
    with pytest.raises(UnsupportedEventError):
        accounting.event_rho(truncated)
    with pytest.raises(UnsupportedEventError):
        accounting.event_epsilon(truncated, 1e-9)
    assert accounting.event_epsilon(truncated, 1e-6) == 1.0


def test_events_read_the_conversion_of_their_law():
    events = accounting
    assert events.event_rho(
        events.LaplaceEvent(sensitivity=1, scale=2)
    ) == conversions.laplace_rho(sensitivity=1, scale=2)
    assert (
        events.event_rho(events.DiscreteGaussianEvent(sensitivity=1, sigma=2)) == 0.125
    )
    assert events.event_rho(events.GaussianEvent(sensitivity=1, sigma=2)) == 0.125
    assert events.event_rho(
        events.DiscreteLaplaceEvent(sensitivity=1, scale=2)
    ) == conversions.discrete_laplace_rho(sensitivity=1, scale=2)
    for event in (
        events.GaussianEvent(sensitivity=1, sigma=2),
        events.DiscreteGaussianEvent(sensitivity=1, sigma=2),
    ):
        epsilon = events.event_epsilon(event, 1e-6)
        assert events.event_delta(event, epsilon) <= 1e-6 * (1 + 1e-12)
    laplace = events.LaplaceEvent(sensitivity=1, scale=2)
    assert events.event_epsilon(laplace) == 0.5
    delta = events.event_delta(laplace, 0.25)
    assert delta == pytest.approx(-math.expm1(-0.125))
    assert events.event_epsilon(laplace, delta) == pytest.approx(0.25)


@pytest.mark.parametrize("epsilon", [0, 1e-300, 1e16, 10**400])
@pytest.mark.parametrize("sigma", [1e-3, 1, 2.0**55])
def test_extreme_parameters_give_numbers(epsilon, sigma):
    for n, s in [(1, 1), (None, 2), (None, 10**9)]:
        value = conversions.discrete_gaussian_log_delta(
            epsilon=epsilon, sensitivity=s, sigma=sigma, coordinates=n
        )
        assert -math.inf <= value <= 0
    assert (
        conversions.gaussian_log_delta(epsilon=epsilon, sensitivity=1, sigma=sigma) <= 0
    )
    assert conversions.zcdp_log_delta(epsilon=epsilon, rho=Fraction(1) / 10**300) <= 0
    assert conversions.zcdp_log_delta(epsilon=epsilon, rho=10**300) <= 0


def test_hopelessly_little_noise_gives_delta_1():
    for shift in [1e6, 1e200, 10**600]:
        assert (
            conversions.discrete_gaussian_delta(
                epsilon=1, sensitivity=shift, sigma=0.01, coordinates=1
            )
            == 1.0
        )
        assert (
            conversions.discrete_gaussian_delta(
                epsilon=1, sensitivity=shift, sigma=0.01
            )
            == 1.0
        )


def test_directed_rounding_helpers():
    assert exp_up(-math.inf) == 0.0
    assert exp_up(0.0) == 1.0
    assert 0 < exp_up(-800.0) < 1e-300
    assert exp_up(-1e-17) == 1.0
    for text in ["1e-400", "1e-5", "0.3", "0.999999999999"]:
        true = float(Decimal(text).ln())
        assert true - 1e-14 * abs(true) <= log_down(Fraction(text)) <= true
    assert sqrt_up(Fraction(4, 9)) == Fraction(2, 3)


@given(st.floats(-3, 3), st.floats(1e-12, 1e12))
@settings(max_examples=200)
def test_root_above_returns_a_point_that_was_checked(power, place):
    seen = {}

    def excess(x):
        seen[x] = -math.copysign(abs(math.log(x / place)) ** (2.0**power), x - place)
        return seen[x]

    root = root_above(excess, place / 1e6, place * 1e3)
    assert seen[root] <= 0
    assert place <= root <= place * (1 + 1e-12)
