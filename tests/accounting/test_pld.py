"""The accountant of privacy losses: known values, bounds, mixes, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting import (
    ApproximateDPEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    GDPEvent,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPAccountant,
    ZCDPEvent,
    conversions,
    event_delta,
)
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError


def sampled(rate, sigma):
    return PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=sigma))


def accountant(*steps):
    result = PLDAccountant()
    for event, count in steps:
        result.compose(event, count)
    return result


#: epsilon computed to 28 digits by an integral of another kind.
KNOWN = [
    (0.01, 1, 10_000, 1e-5, 6.187712389971544),
    (0.01, 1, 10_000, 1e-15, 11.75997850224186),
]


@pytest.mark.parametrize(("rate", "sigma", "count", "delta", "epsilon"), KNOWN)
def test_known_values(rate, sigma, count, delta, epsilon):
    bounds = accountant((sampled(rate, sigma), count)).epsilon_bounds(delta)
    assert bounds.lower <= epsilon <= bounds.upper
    assert bounds.upper - bounds.lower <= 1e-10 * epsilon
    assert bounds.certificate == "contour"


def test_epsilon_and_delta_are_inverse():
    known = accountant(
        (sampled(Fraction(1, 50), 2), 500), (GaussianEvent(sensitivity=1, sigma=9), 3)
    )
    for epsilon in (0.1, 1, 3):
        delta = known.delta_bounds(epsilon)
        back = known.epsilon_bounds(delta.estimate)
        assert back.estimate == pytest.approx(epsilon, rel=1e-11)
        assert known.epsilon(delta.upper) >= back.lower
        logs = known.ln_delta_bounds(epsilon)
        assert logs.lower <= math.log(delta.estimate) <= logs.upper


def test_gaussian_noise_alone_is_one_mechanism():
    many = accountant((GaussianEvent(sensitivity=1, sigma=10), 100), (GDPEvent(0.5), 4))
    bounds = many.delta_bounds(1)
    true = conversions.gaussian_delta(epsilon=1, sensitivity=1, sigma=1 / math.sqrt(2))
    assert bounds.lower <= true <= bounds.upper * (1 + 1e-12)
    assert bounds.certificate == "closed form"
    assert bounds.upper - bounds.lower < 1e-10 * true


def test_the_contour_agrees_with_the_closed_form():
    """A sampled step that hardly tells anything makes the integral do the rest."""
    mixed = accountant(
        (GaussianEvent(sensitivity=1, sigma=1), 1), (sampled(1e-9, 100), 1)
    )
    alone = accountant((GaussianEvent(sensitivity=1, sigma=1), 1))
    for epsilon in (0, 0.5, 2, 6, 30):
        a, b = mixed.ln_delta_bounds(epsilon), alone.ln_delta_bounds(epsilon)
        assert a.certificate == "contour"
        assert b.lower <= a.upper
        assert a.lower <= b.upper + 1e-8
        assert a.upper - a.lower < 1e-9


def test_a_single_sampled_step_is_exact():
    one = accountant((sampled(0.1, 1), 1))
    bounds = one.delta_bounds(0.5)
    inner = math.log1p(math.expm1(0.5) / 0.1)
    assert bounds.estimate == pytest.approx(
        0.1 * conversions.gaussian_delta(epsilon=inner, sensitivity=1, sigma=1),
        rel=1e-11,
    )


def test_sampling_with_certainty_is_no_sampling():
    event = PoissonSampledEvent(1, GaussianEvent(sensitivity=1, sigma=5))
    a, b = (
        accountant((event, 7)),
        accountant((GaussianEvent(sensitivity=1, sigma=5), 7)),
    )
    assert a.epsilon_bounds(1e-6) == b.epsilon_bounds(1e-6)


def test_nested_samples_multiply():
    nested = PoissonSampledEvent(Fraction(1, 10), sampled(Fraction(1, 5), 2))
    a, b = accountant((nested, 100)), accountant((sampled(Fraction(1, 50), 2), 100))
    assert a.epsilon_bounds(1e-6) == b.epsilon_bounds(1e-6)


def test_order_and_grouping_do_not_matter():
    parts = [
        (sampled(0.02, 1), 60),
        (sampled(0.01, 2), 40),
        (GaussianEvent(sensitivity=1, sigma=8), 2),
    ]
    a = accountant(*parts)
    b = accountant(*parts[::-1])
    c = accountant(*[(event, 1) for event, n in parts for _ in range(n)])
    reading = a.epsilon_bounds(1e-7)
    for other in (b.epsilon_bounds(1e-7), c.epsilon_bounds(1e-7)):
        assert other.lower <= reading.upper
        assert other.upper >= reading.lower
        assert other.upper - other.lower <= 1e-10 * other.upper


def test_composing_after_reading_gives_what_composing_first_does():
    known = accountant(
        (sampled(0.01, 1), 1000), (GaussianEvent(sensitivity=1, sigma=20), 3)
    )
    known.epsilon_bounds(1e-6)
    known.compose(sampled(0.03, 2), 50)
    known.compose(GaussianEvent(sensitivity=1, sigma=30), 2)
    fresh = accountant(
        (sampled(0.01, 1), 1000),
        (GaussianEvent(sensitivity=1, sigma=20), 3),
        (sampled(0.03, 2), 50),
        (GaussianEvent(sensitivity=1, sigma=30), 2),
    )
    a, b = known.epsilon_bounds(1e-6), fresh.epsilon_bounds(1e-6)
    assert a.estimate == pytest.approx(b.estimate, rel=1e-12)
    assert max(a.lower, b.lower) <= min(a.upper, b.upper)


def test_never_above_renyi():
    for rate, sigma, count in ((0.01, 1, 1), (0.2, 1, 10), (0.5, 9, 99)):
        ours = accountant((sampled(rate, sigma), count)).epsilon(1e-6)
        renyi = RDPAccountant().compose(sampled(rate, sigma), count).epsilon(1e-6)
        assert ours <= renyi


def test_a_profile_is_its_points():
    known = accountant((sampled(0.01, 1), 1000))
    epsilons = np.linspace(0, 8, 33)
    lower, upper = known.ln_delta_profile(epsilons[::-1].reshape(3, 11))
    assert lower.shape == (3, 11)
    assert (np.diff(upper.ravel()) > 0).all()
    for i in (0, 5, 32):
        point = known.ln_delta_bounds(float(epsilons[i]))
        low, high = lower.ravel()[32 - i], upper.ravel()[32 - i]
        assert low <= point.upper
        assert point.lower <= high
        assert high - low < 1e-6


def test_counts_may_be_huge():
    bounds = accountant((sampled(0.001, 50), 10**9)).epsilon_bounds(1e-6)
    assert bounds.lower < bounds.upper <= bounds.lower * (1 + 1e-8)


def test_nothing_composed_costs_nothing():
    assert PLDAccountant().epsilon_bounds(1e-5)[:3] == (0, 0, 0)
    assert PLDAccountant().delta_bounds(0)[:3] == (0, 0, 0)
    assert PLDAccountant().epsilon(0) == 0


def test_a_large_delta_needs_no_epsilon():
    bounds = accountant((sampled(0.01, 5), 100)).epsilon_bounds(0.9)
    assert bounds[:3] == (0, 0, 0)


@pytest.mark.parametrize("sigma", [Fraction(1, 10**6), 10**12])
def test_extreme_noise_has_the_bound_of_rho(sigma):
    known = accountant((sampled(0.01, sigma), 10))
    bounds = known.epsilon_bounds(1e-6)
    assert bounds.lower == 0
    assert bounds.certificate == "chernoff"
    assert 0 <= bounds.upper < math.inf
    assert known.ln_delta_bounds(1).lower == -math.inf


@pytest.mark.parametrize(
    "event",
    [
        LaplaceEvent(sensitivity=1, scale=1),
        DiscreteLaplaceEvent(sensitivity=3, scale=4),
        PureDPEvent(Fraction(1, 2)),
        RandomizedResponseEvent(
            p=0.5, q=0.2, neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE
        ),
        ApproximateDPEvent(epsilon=Fraction(1, 2), delta=Fraction(1, 1000)),
    ],
)
def test_a_single_event_has_its_own_profile(event):
    known = accountant((event, 1))
    for epsilon in (0, 0.125, 0.3, 0.45):
        bounds = known.delta_bounds(epsilon)
        true = event_delta(event, epsilon)
        assert bounds.lower <= true
        assert bounds.upper >= true * (1 - 1e-11)
        assert bounds.upper - bounds.lower <= 1e-6 * true


def binomial_delta(count, epsilon, at):
    """Return delta of `count` responses with epsilon each: a sum over agreements."""
    p = 1 / (1 + math.exp(-epsilon))
    return math.fsum(
        math.comb(count, i)
        * p ** (count - i)
        * (1 - p) ** i
        * -math.expm1(at - (count - 2 * i) * epsilon)
        for i in range(count + 1)
        if (count - 2 * i) * epsilon > at
    )


@pytest.mark.parametrize("count", [2, 7, 60])
def test_pure_events_compose_to_a_binomial_law(count):
    known = accountant((PureDPEvent(Fraction(1, 5)), count))
    for at in (0.1, 0.25, 1.3):
        if at < count / 5:
            bounds = known.delta_bounds(at)
            true = binomial_delta(count, 0.2, at)
            assert bounds.lower <= true <= bounds.upper
            assert bounds.upper - bounds.lower < 1e-8 * true


def test_approximate_events_lose_their_deltas():
    event = ApproximateDPEvent(epsilon=Fraction(1, 10), delta=Fraction(1, 10**7))
    known = accountant((event, 50))
    pure = binomial_delta(50, 0.1, 1.0)
    true = 1 - (1 - 1e-7) ** 50 * (1 - pure)
    found = known.delta_bounds(1.0)
    assert found.lower <= true * (1 + 1e-9)
    assert found.upper >= true * (1 - 1e-9)
    assert known.delta_bounds(5).lower == pytest.approx(1 - (1 - 1e-7) ** 50, rel=1e-9)
    with pytest.raises(UnsupportedEventError):
        known.epsilon(1e-6)


def test_mixes_of_all_kinds_are_bracketed_tightly():
    known = accountant(
        (sampled(0.05, 1), 40),
        (LaplaceEvent(sensitivity=1, scale=5), 10),
        (GaussianEvent(sensitivity=1, sigma=6), 2),
        (PureDPEvent(Fraction(1, 8)), 5),
    )
    bounds = known.epsilon_bounds(1e-6)
    assert bounds.upper - bounds.lower <= 1e-8 * bounds.upper


def test_few_sampled_steps_are_bracketed_by_atoms():
    few = accountant((sampled(0.01, 0.4), 3)).epsilon_bounds(1e-6)
    assert few.certificate == "atoms"
    assert few.upper - few.lower <= 1e-4 * few.upper
    bounds = accountant((sampled(0.1, 0.5), 2)).epsilon_bounds(1e-6)
    assert bounds.upper - bounds.lower <= 1e-6 * bounds.upper
    one = accountant((sampled(0.1, 0.5), 1)).epsilon_bounds(1e-6)
    assert one.certificate == "closed form"
    assert one.upper < bounds.lower < 2 * one.upper


def test_what_has_no_pair_is_refused():
    known = PLDAccountant()
    with pytest.raises(UnsupportedEventError):
        known.compose(ZCDPEvent(1))
    assert known.statement().events == ()


def test_bad_questions_are_refused():
    known = accountant((sampled(0.01, 1), 10))
    with pytest.raises(UnsupportedEventError):
        known.epsilon(0)
    for delta in (-1, 2):
        with pytest.raises(ParameterError):
            known.epsilon_bounds(delta)
    for epsilon in (-1, math.nan, math.inf):
        with pytest.raises(ParameterError):
            known.ln_delta_bounds(epsilon)
    with pytest.raises(ParameterError, match="epsilons"):
        known.ln_delta_profile([1, math.nan])
    with pytest.raises(DTypeError, match="epsilons"):
        known.ln_delta_profile(["a"])
