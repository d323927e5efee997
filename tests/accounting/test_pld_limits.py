"""Nested events and extreme parameters of the loss accountant."""

import math
import tracemalloc
from fractions import Fraction

import pytest

from fastdp.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PrivacyLossEvent,
    PureDPEvent,
    RDPEvent,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    SelfComposedEvent,
    ZCDPEvent,
)
from fastdp.accounting._pld.losses import CAP
from fastdp.exceptions import UnsupportedEventError
from tests.accounting.test_pld_given import REPLACE, accountant

# ---- what is inside of what ----------------------------------------------------------


def test_a_sample_of_one_step_is_a_sample_of_that_step():
    inner = LaplaceEvent(sensitivity=1, scale=2)
    plain = accountant((PoissonSampledEvent(0.25, inner), 2)).delta_bounds(0.1)
    for same in (
        ComposedEvent((inner,)),
        SelfComposedEvent(inner, 1),
        PoissonSampledEvent(1, inner),
        GroupEvent(LaplaceEvent(sensitivity=Fraction(1, 2), scale=2), 1),
    ):
        event = PoissonSampledEvent(0.25, same)
        if not isinstance(same, GroupEvent):
            assert accountant((event, 2)).delta_bounds(0.1) == plain
    nested = PoissonSampledEvent(0.5, PoissonSampledEvent(0.5, inner))
    assert accountant((nested, 2)).delta_bounds(0.1) == plain
    gaussian = ComposedEvent(
        (GaussianEvent(sensitivity=3, sigma=10), GDPEvent(Fraction(2, 5)))
    )
    one = PoissonSampledEvent(0.01, GDPEvent(Fraction(1, 2)))
    several = PoissonSampledEvent(0.01, gaussian)
    assert accountant((several, 50)).epsilon_bounds(1e-5) == accountant(
        (one, 50)
    ).epsilon_bounds(1e-5)


REFUSED = [
    (ZCDPEvent(1), "no pair of laws"),
    (RDPEvent(orders=(2,), epsilons=(1,)), "no pair of laws"),
    (
        SampledWithoutReplacementEvent(
            source_dataset_size=9,
            sample_size=3,
            event=PrivacyLossEvent(
                losses=(-1, 1),
                probabilities=(0.25, 0.75),
                addition_losses=(0,),
                addition_probabilities=(1,),
                neighboring_relation=REPLACE,
            ),
        ),
        "one law",
    ),
    (
        PoissonSampledEvent(0.5, GroupEvent(GaussianEvent(sensitivity=1, sigma=1), 2)),
        "group_size",
    ),
    (
        PoissonSampledEvent(
            0.5, SelfComposedEvent(LaplaceEvent(sensitivity=1, scale=1), 2)
        ),
        "single step",
    ),
    (PoissonSampledEvent(0.5, ZCDPEvent(1)), "no pair"),
]


@pytest.mark.parametrize(("event", "match"), REFUSED, ids=lambda x: repr(x)[:60])
def test_what_is_not_proved_is_refused(event, match):
    known = PLDAccountant()
    with pytest.raises(UnsupportedEventError, match=match):
        known.compose(event)
    assert known.statement().events == ()


def test_groups_and_stated_pairs_stand_for_themselves():
    group = GroupEvent(PoissonSampledEvent(0.5, PureDPEvent(1)), 3)
    found = accountant((group, 2)).epsilon_bounds(1e-6)
    one = math.log1p(0.5 * math.expm1(1))
    pure = accountant((PureDPEvent(Fraction(3 * one)), 2)).epsilon_bounds(1e-6)
    assert found.upper < pure.lower
    assert found.lower >= accountant((group.event, 2)).epsilon_bounds(1e-6).lower > 0
    drawn = SampledWithReplacementEvent(
        source_dataset_size=9,
        sample_size=3,
        event=PureDPEvent(1, neighboring_relation=REPLACE),
    )
    assert accountant((drawn, 2)).epsilon_bounds(1e-6).upper < 6


# ---- extremes ------------------------------------------------------------------------


def test_a_step_of_which_rho_is_known_leaves_the_bounds_of_the_others():
    # several coordinates and little noise: only rho is used
    wide = DiscreteGaussianEvent(sensitivity=Fraction(3, 2), sigma=Fraction(9, 5))
    other = (PoissonSampledEvent(0.02, GaussianEvent(sensitivity=1, sigma=1)), 100)
    alone = accountant(other).epsilon_bounds(1e-6)
    bounds = accountant(other, (wide, 1)).epsilon_bounds(1e-6)
    assert bounds.certificate == "chernoff"
    assert bounds.lower == pytest.approx(alone.lower, rel=1e-9)
    assert alone.upper < bounds.upper < alone.upper + 4


def test_rates_below_doubles_still_cost_something():
    known = accountant((PoissonSampledEvent(Fraction(1, 10**400), PureDPEvent(1)), 1))
    assert known.ln_delta_bounds(0).upper >= -400 * math.log(10) + math.log(0.46)
    assert known.ln_delta_bounds(0).lower == -math.inf
    assert known.epsilon_bounds(Fraction(1, 10**420)).upper > 0


EXTREMES = [
    (LaplaceEvent(sensitivity=1, scale=10**12), 10**6),
    (LaplaceEvent(sensitivity=10**6, scale=1), 3),
    (
        PoissonSampledEvent(Fraction(1, 10**15), LaplaceEvent(sensitivity=1, scale=1)),
        1000,
    ),
    (PoissonSampledEvent(Fraction(1, 10**9), PureDPEvent(1)), 1000),
    (DiscreteGaussianEvent(sensitivity=1, sigma=Fraction(1, 100), coordinates=1), 7),
    (DiscreteGaussianEvent(sensitivity=1, sigma=10**15, coordinates=1), 10**18),
    (
        PoissonSampledEvent(
            0.01, DiscreteGaussianEvent(sensitivity=1, sigma=10**7, coordinates=1)
        ),
        10,
    ),
    (DiscreteLaplaceEvent(sensitivity=10**6, scale=10**6), 100),
    (ApproximateDPEvent(epsilon=1, delta=1 - Fraction(1, 10**30)), 2),
    (
        PoissonSampledEvent(
            1 - Fraction(1, 10**30),
            ApproximateDPEvent(epsilon=1, delta=Fraction(1, 10**6)),
        ),
        5,
    ),
    (PoissonSampledEvent(Fraction(1, 10**400), PureDPEvent(1)), 5),
    (
        PoissonSampledEvent(Fraction(1, 10**20), GaussianEvent(sensitivity=1, sigma=1)),
        5,
    ),
    (
        PoissonSampledEvent(
            1 - Fraction(1, 10**400), DiscreteLaplaceEvent(sensitivity=2, scale=1)
        ),
        5,
    ),
    (ApproximateDPEvent(epsilon=1, delta=Fraction(1, 10**300)), 10**6),
    (ExponentialMechanismEvent(Fraction(1, 10**12)), 100),
    *(
        (
            PoissonSampledEvent(
                q, LaplaceEvent(sensitivity=1, scale=Fraction(1, 10**400))
            ),
            3,
        )
        for q in (Fraction(1, 2), 1 - Fraction(1, 10**400))
    ),
    *(
        (
            PoissonSampledEvent(
                q,
                ApproximateDPEvent(epsilon=e, delta=Fraction(1, 10**6)),
                neighboring_relation=REPLACE,
            ),
            3,
        )
        for q, e in ((1 - Fraction(1, 10**400), 1), (Fraction(1, 2), 700))
    ),
    (
        PrivacyLossEvent(
            losses=(-700, 700), probabilities=(Fraction(1, 10**305), Fraction(1, 2))
        ),
        3,
    ),
]


LONG = [
    (PoissonSampledEvent(Fraction(1, 10**9), PureDPEvent(1)), 10**6),
    (PoissonSampledEvent(1 - Fraction(1, 10**15), PureDPEvent(30)), 10),
    (DiscreteLaplaceEvent(sensitivity=10**5, scale=10**5), 10),
]


@pytest.mark.rest
@pytest.mark.parametrize(
    ("event", "count"),
    [*EXTREMES, *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG)],
    ids=lambda x: repr(x)[:50],
)
def test_extremes_get_a_valid_bracket(event, count):
    known = accountant((event, count))
    for delta in (1e-3, 1e-12):
        bounds = known.epsilon_bounds(delta)
        assert 0 <= bounds.lower <= bounds.estimate <= bounds.upper
        assert not math.isnan(bounds.upper)
    for epsilon in (0, 1e-6, 1, 50):
        logs = known.ln_delta_bounds(epsilon)
        assert logs.lower <= logs.estimate <= logs.upper <= 0


HEAVY = [
    ((DiscreteGaussianEvent(sensitivity=1, sigma=1, coordinates=1), 10**6),),
    (
        (
            PoissonSampledEvent(
                0.01, DiscreteGaussianEvent(sensitivity=1, sigma=300, coordinates=1)
            ),
            1000,
        ),
    ),
    ((PoissonSampledEvent(0.1, DiscreteLaplaceEvent(sensitivity=3, scale=2)), 10**5),),
    (
        (
            PoissonSampledEvent(
                0.3, GaussianEvent(sensitivity=1, sigma=Fraction(1, 2))
            ),
            3,
        ),
        (PoissonSampledEvent(0.1, LaplaceEvent(sensitivity=1, scale=3)), 3),
        (PureDPEvent(Fraction(1, 7)), 3),
    ),
]


@pytest.mark.rest
@pytest.mark.parametrize(
    "steps",
    [HEAVY[0], *(pytest.param(case, marks=pytest.mark.slow) for case in HEAVY[1:])],
    ids=lambda x: repr(x)[:50],
)
def test_memory_stays_below_its_cap(steps):
    tracemalloc.start()
    try:
        bounds = accountant(*steps).epsilon_bounds(1e-9)
        assert bounds.lower <= bounds.upper
        assert tracemalloc.get_traced_memory()[1] < CAP
    finally:
        tracemalloc.stop()


@pytest.mark.rest
def test_large_losses_of_rare_subsets_get_a_bracket():
    # Far tails of the noise do not reach the losses of the record that is drawn.
    noise = GaussianEvent(
        sensitivity=2, sigma=Fraction(96, 1000), neighboring_relation=REPLACE
    )
    subset = SampledWithoutReplacementEvent(
        source_dataset_size=1000, sample_size=1, event=noise
    )
    for count in (1, 100):
        known = accountant((subset, count))
        for epsilon in (100, 600, 5000):
            found = known.delta_bounds(epsilon)
            assert 0 <= found.lower <= found.upper <= 1
        assert known.epsilon_bounds(1e-5).lower > 0
