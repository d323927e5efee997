"""Filters cover what they should and nothing more; odometers hold at all times."""

import copy
import itertools
import math
import os
import pickle
import re
import threading
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp import _validate
from fastdp.accounting import (
    ApproximateAccountant,
    ApproximateDPEvent,
    ApproximateFilter,
    ComposedEvent,
    DeclaredFilter,
    GaussianEvent,
    GDPEvent,
    GDPFilter,
    LaplaceEvent,
    NeighboringRelation,
    PureAccountant,
    PureDPEvent,
    PureFilter,
    PureOdometer,
    RDPFilter,
    TCDPEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPAccountant,
    ZCDPEvent,
    ZCDPFilter,
    ZCDPOdometer,
    conversions,
)
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    ParameterError,
    UnsupportedEventError,
)

FILTERS = [
    (lambda: PureFilter(1), PureDPEvent(Fraction(1, 10)), 10),
    (lambda: ZCDPFilter(1), ZCDPEvent(Fraction(1, 7)), 7),
    (lambda: GDPFilter(3), GDPEvent(1), 9),
    (lambda: RDPFilter(order=4, epsilon=10), GaussianEvent(sensitivity=1, sigma=1), 4),
    (
        lambda: DeclaredFilter(
            PureDPEvent(1), epsilon=5, delta=0, accountant=ApproximateAccountant
        ),
        PureDPEvent(1),
        5,
    ),
    (lambda: ApproximateFilter(epsilon=2, delta=1e-6), PureDPEvent(1), 2),
    (
        lambda: ApproximateFilter(epsilon=100, delta=Fraction(1, 100)),
        ApproximateDPEvent(epsilon=1, delta=Fraction(1, 1000)),
        9,
    ),
]
all_filters = pytest.mark.parametrize(("make", "event", "covered"), FILTERS)


@all_filters
def test_the_budget_is_spent_to_the_end_and_not_beyond(make, event, covered):
    budget = make()
    for _ in range(covered):
        assert budget.covers(event)
        assert budget.spend(event) is budget
    before = budget.statement()
    assert not budget.covers(event)
    for _ in range(2):
        with pytest.raises(BudgetExceededError, match="nothing was spent"):
            budget.spend(event)
    assert budget.statement() == before
    assert before.events == ((event, covered),)
    at_once = make().spend(event, covered)
    assert not at_once.covers(event)
    assert not make().covers(event, covered + 1)


@all_filters
def test_what_is_left_can_still_be_spent_after_a_refusal(make, event, covered):
    budget = make().spend(event, covered - 1)
    with pytest.raises(BudgetExceededError):
        budget.spend(event, 2)
    budget.spend(event)


@all_filters
def test_spending_is_atomic_across_threads(make, event, covered):
    budget = make()
    outcomes = []

    def work():
        for _ in range(5):
            try:
                budget.spend(event)
                outcomes.append(True)
            except BudgetExceededError:
                outcomes.append(False)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(outcomes) == covered


@all_filters
def test_filters_are_not_copied_or_used_in_a_child(make, event, covered, monkeypatch):
    budget = make()
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(DTypeError, match="copied"):
            duplicate(budget)
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    with pytest.raises(BudgetExceededError, match="process"):
        budget.spend(event)


@all_filters
def test_relations_are_not_mixed(make, event, covered):
    budget = make().spend(event)
    other = replace(event, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    with pytest.raises(UnsupportedEventError, match="neighboring_relation"):
        budget.covers(other)


@pytest.mark.parametrize(
    ("budget", "event"),
    [
        (PureFilter(1), GaussianEvent(sensitivity=1, sigma=100)),
        (RDPFilter(order=4, epsilon=1), TCDPEvent(rho=0.1, omega=3)),
        (
            DeclaredFilter(
                PureDPEvent(1), epsilon=5, delta=0, accountant=ApproximateAccountant
            ),
            PureDPEvent(0.5),
        ),
        (
            ZCDPFilter(1),
            TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=100, bound=900),
        ),
        (GDPFilter(1), LaplaceEvent(sensitivity=1, scale=100)),
        (
            ApproximateFilter(epsilon=1, delta=0.1),
            TCDPEvent(rho=0.1, omega=3),
        ),
    ],
)
def test_events_without_a_bound_are_refused(budget, event):
    with pytest.raises(UnsupportedEventError):
        budget.spend(event)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: PureFilter(-1), ParameterError),
        (lambda: PureFilter(float("inf")), ParameterError),
        (lambda: ZCDPFilter(float("nan")), ParameterError),
        (lambda: GDPFilter("1"), DTypeError),
        (lambda: ApproximateFilter(epsilon=1, delta=0), ParameterError),
        (lambda: RDPFilter(order=1, epsilon=1), ParameterError),
        (lambda: RDPFilter(order=2, epsilon=-1), ParameterError),
        (
            lambda: DeclaredFilter("x", epsilon=1, delta=0, accountant=PureAccountant),
            DTypeError,
        ),
        (lambda: ApproximateFilter(epsilon=1, delta=1), ParameterError),
        (lambda: ApproximateFilter(epsilon=1, delta=0.1, slack=0), ParameterError),
        (lambda: ApproximateFilter(epsilon=1, delta=0.1, slack=0.2), ParameterError),
        (lambda: PureFilter(1, "replace"), DTypeError),
        (lambda: ZCDPOdometer(0), ParameterError),
    ],
)
def test_bad_budgets(make, error):
    with pytest.raises(error):
        make()


def test_what_is_spent_and_remains():
    budget = PureFilter(Fraction(1, 2)).spend(LaplaceEvent(sensitivity=1, scale=10), 3)
    assert (budget.spent, budget.remaining) == (Fraction(3, 10), Fraction(1, 5))
    split = ApproximateFilter(
        epsilon=3, delta=Fraction(1, 100), slack=Fraction(1, 1000)
    )
    split.spend(ApproximateDPEvent(epsilon=1, delta=Fraction(9, 1000)))
    assert (split.spent_epsilon, split.spent_delta) == (1, Fraction(9, 1000))
    assert not split.covers(ApproximateDPEvent(epsilon=0, delta=Fraction(1, 10**9)))


def test_many_small_events_fit_into_an_approximate_budget():
    epsilon, slack = 1, 1e-7
    budget = ApproximateFilter(epsilon=epsilon, delta=1e-6)
    small = PureDPEvent(Fraction(1, 1000))
    published = 0  # sqrt(2 ln(1/slack) sum e^2) + sum e^2 / 2 <= epsilon
    while True:
        square = (published + 1) * 1e-6
        if math.sqrt(-2 * math.log(slack) * square) + square / 2 > epsilon:
            break
        published += 1
    budget.spend(small, published)
    assert published > 30_000
    # the better conversion covers more still
    assert budget.covers(small, published // 10)
    rho = conversions.zcdp_to_rho(epsilon=epsilon, delta=slack)
    most = int(rho / conversions.pure_to_rho(Fraction(1, 1000)))
    assert not budget.covers(small, most - published + 1)


def test_the_declared_budget_is_that_of_the_accountant():
    event = LaplaceEvent(sensitivity=1, scale=50)
    budget = DeclaredFilter(
        event, epsilon=1, delta=1e-9, accountant=ApproximateAccountant
    )
    count = int(budget.remaining)
    assert ApproximateAccountant().compose(event, count).delta(1) <= 1e-9
    assert budget.spend(event, count - 1).covers(event)
    assert not budget.covers(event, 2)


# ---- odometers ---------------------------------------------------------------------


def test_the_pure_odometer_is_a_sum():
    odometer = PureOdometer()
    assert odometer.epsilon() == 0
    assert odometer.record(PureDPEvent(Fraction(1, 4)), 3).epsilon() == 0.75
    with pytest.raises(UnsupportedEventError):
        odometer.record(GaussianEvent(sensitivity=1, sigma=1))


def test_the_odometer_is_above_what_fixed_events_need_and_rises():
    odometer, accountant = ZCDPOdometer(1e-6), ZCDPAccountant()
    values = []
    assert odometer.epsilon() == 0
    for rho in [1e-9, 1e-6, 1e-3, 0.1, 1, 20]:
        odometer.record(ZCDPEvent(rho))
        accountant.compose(ZCDPEvent(rho))
        values.append(odometer.epsilon())
        assert accountant.epsilon(1e-6) < values[-1]
    assert all(a < b for a, b in itertools.pairwise(values))
    # no more than a half above, once the loss matters
    assert values[-1] < 1.5 * accountant.epsilon(1e-6)
    assert ZCDPOdometer(1e-6).record(PureDPEvent(0.001)).epsilon() == 0.001


def test_the_odometer_holds_at_all_times_together():
    # Paths of Gaussian losses, each looked at after every step: the share of paths
    # that ever exceed the bound is below delta; the share that exceed an
    # accountant's epsilon at some time is above.
    delta, rho, steps, paths = 0.05, 0.02, 400, 2000
    rng = np.random.default_rng(5)
    losses = np.cumsum(rho + math.sqrt(2 * rho) * rng.normal(size=(paths, steps)), 1)
    odometer, accountant = ZCDPOdometer(delta), ZCDPAccountant()
    bounds, fixed = [], []
    for _ in range(steps):
        bounds.append(odometer.record(ZCDPEvent(rho)).epsilon())
        t = len(bounds)
        # the exact quantile of the loss at a time fixed in advance
        fixed.append(rho * t + 1.6449 * math.sqrt(2 * rho * t))
        accountant.compose(ZCDPEvent(rho))
    ever = np.mean(np.any(losses > np.array(bounds), axis=1))
    ever_fixed = np.mean(np.any(losses > np.array(fixed), axis=1))
    assert ever <= delta
    assert ever_fixed > 3 * delta


# ---- what a newcomer reads ---------------------------------------------------------


def as_written(text):
    """Return the cost that `from_epsilon` charges for a float written so."""
    return _validate.least_reading(float(text))


@pytest.mark.parametrize("count", [1, 3, 7, 10, 100, 1000])
@pytest.mark.parametrize("part", ["0.1", "0.2", "0.3", "0.7", "1.1", "1e-7", "0.05"])
def test_parts_that_add_up_as_written_fit(part, count):
    whole = Fraction(part) * count
    limit = float(whole)
    assert Fraction(repr(limit)) == whole, "more digits than a float shows"
    budget = PureFilter(limit).spend(PureDPEvent(as_written(part)), count)
    with pytest.raises(BudgetExceededError):
        budget.spend(PureDPEvent(as_written(part)))


def test_ten_times_a_tenth_did_not_fit_as_binary_numbers():
    assert 10 * Fraction(0.1) > 1
    assert not PureFilter(1.0).covers(PureDPEvent(0.1), 10)
    assert PureFilter(1.0).covers(PureDPEvent(as_written("0.1")), 10)


@settings(max_examples=300, deadline=None)
@given(st.floats(min_value=5e-324, max_value=1.7e308))
def test_a_reading_is_below_the_float_and_rounds_up_to_it(f):
    least, shown = _validate.least_reading(f), _validate.written(f)
    assert least <= Fraction(f)
    assert least <= shown
    assert least in (Fraction(f), shown)
    assert float(shown) == f
    assert _validate.float_up(least) == f


@pytest.mark.parametrize(
    "value", [np.float64(0.1), np.float32(0.1), Fraction(1, 3), Decimal("0.1"), 1, True]
)
def test_only_floats_of_python_are_read_as_decimals(value):
    assert _validate.least_reading(value) is value
    assert _validate.written(value) is value


def test_limits_are_decimals_and_costs_are_not():
    assert PureFilter(0.1).remaining == Fraction(1, 10)
    assert ZCDPFilter(0.1).remaining == Fraction(1, 10)
    assert PureFilter(np.float64(0.1)).remaining == Fraction(0.1)
    assert PureFilter(1).spend(PureDPEvent(0.1)).spent == Fraction(0.1)


def test_a_budget_shows_decimals():
    budget = PureFilter(1.0).spend(PureDPEvent(as_written("0.1")), 3)
    assert repr(budget) == "<PureFilter: epsilon 1, 0.7 left, ADD_OR_REMOVE_ONE>"
    assert repr(ZCDPFilter(0.25)) == "<ZCDPFilter: rho 0.25, 0.25 left>"
    assert repr(PureFilter(1e-9)) == "<PureFilter: epsilon 1e-9, 1e-9 left>"
    # What is left is rounded down.
    third = PureFilter(1).spend(PureDPEvent(Fraction(1, 3)))
    assert "0.666666666666 left" in repr(third)


def test_a_refusal_says_what_was_asked_and_what_is_left():
    budget = PureFilter(1.0).spend(PureDPEvent(Fraction(7, 10)))
    with pytest.raises(
        BudgetExceededError, match=r"epsilon 1 .*: 0\.4 was requested, 0\.3 is left"
    ):
        budget.spend(PureDPEvent(Fraction(2, 10)), 2)
    both = ApproximateFilter(epsilon=1, delta=1e-6)
    with pytest.raises(BudgetExceededError, match="3 was requested, epsilon 1 is left"):
        both.spend(PureDPEvent(3))
    assert re.search(r"epsilon 1 as a sum, or rho 0\.0\d+, own delta 9e-7", repr(both))
    noise = GaussianEvent(sensitivity=1, sigma=10)
    with pytest.raises(
        BudgetExceededError, match=r"^[^,]* rho 0\.05 was requested, rho 0"
    ):
        both.spend(noise, 10)
    assert re.search(r" rho 0\.0\d+, own delta 9e-7 left", repr(both.spend(noise)))
    table = ComposedEvent((ZCDPEvent(0.01), ApproximateDPEvent(epsilon=0, delta=1e-6)))
    tables = ApproximateFilter(epsilon=3, delta=1e-5)
    assert tables.covers(table, 9)
    assert not tables.covers(table, 10)
    # From then on the sum of epsilons is no way: 1 would fit it.
    assert not both.covers(PureDPEvent(1))
    assert both.covers(PureDPEvent(Fraction(1, 20)))


def test_a_wrong_notion_says_what_to_use():
    noise = GaussianEvent(sensitivity=1, sigma=2)
    with pytest.raises(UnsupportedEventError, match=r"ApproximateFilter\(.* takes it"):
        PureFilter(1).spend(noise)
    ApproximateFilter(epsilon=1, delta=1e-6).spend(
        GaussianEvent(sensitivity=1, sigma=9)
    )
    with pytest.raises(UnsupportedEventError, match="GDPFilter takes events with a mu"):
        GDPFilter(1).spend(PureDPEvent(1))


def test_mixed_relations_say_which_event_has_which():
    other = GaussianEvent(
        sensitivity=1, sigma=1, neighboring_relation=NeighboringRelation.REPLACE_ONE
    )
    budget = ZCDPFilter(5).spend(ZCDPEvent(1))
    with pytest.raises(
        UnsupportedEventError,
        match=r"ZCDPEvent before has .*ADD_OR.*, the GaussianEvent has .*REPLACE_ONE",
    ):
        budget.spend(other)
