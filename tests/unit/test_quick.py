"""The first lines: counts, sums, means, variances and histograms of records.

Intervals at the level 1 - 1e-12 hold but with that probability, for each check.
"""

import math

import numpy as np
import pandas
import pytest

import fastdp
import fastdp.testing
from fastdp.accounting.events import NeighboringRelation

A = NeighboringRelation.ADD_OR_REMOVE_ONE
R = NeighboringRelation.REPLACE_ONE
SURE = 1 - 1e-12
AGES = [31.0, 45.0, math.nan, 27.0, 62.0, 150.0, -3.0, math.inf] * 50
HELD = [31, 45, 27, 62, 120, 0, 120]  # within (0, 120), without NaN


def contains(estimate, truth):
    low, high = estimate.interval
    return low - 1e-6 <= truth <= high + 1e-6


@pytest.mark.parametrize("budget", [{"epsilon": 0.5}, {"rho": 0.1}])
@pytest.mark.parametrize("kind", [list, np.array, pandas.Series])
def test_every_statistic_of_a_column(kind, budget):
    x = kind(AGES)
    options = {**budget, "level": SURE}
    bounded = {**options, "bounds": (0, 120)}
    n = fastdp.count(x, **options)
    assert contains(n, 350)
    assert isinstance(n.value, np.int64)
    assert contains(fastdp.sum(x, **bounded), 50 * sum(HELD))
    assert contains(fastdp.mean(x, **bounded), np.mean(HELD))
    assert contains(fastdp.variance(x, **bounded), np.var(HELD))
    h = fastdp.histogram(x, [0, 30, 45, 120], **options)
    truth = [50, 50, 100]  # 27 | 31 | 45, 62; 150, inf, -3 in none
    low, high = h.interval
    assert ((low <= truth) & (truth <= high)).all()
    for estimate in (n, h, fastdp.sum(x, **bounded), fastdp.mean(x, **bounded)):
        assert estimate.unit == "row"
        assert estimate.event.neighboring_relation is A
        if "epsilon" in budget:
            assert 0.499 < estimate.epsilon() <= 0.5


def test_a_replaced_row_makes_the_number_public():
    options = {"bounds": (0, 120), "level": SURE, "neighboring_relation": R}
    filled = [60 if math.isnan(v) else min(max(v, 0), 120) for v in AGES]
    for statistic, truth in (
        (fastdp.sum, sum(filled)),
        (fastdp.mean, np.mean(filled)),
        (fastdp.variance, np.var(filled)),
    ):
        found = statistic(AGES, epsilon=1, **options)
        assert contains(found, truth)
        assert found.event.neighboring_relation is R
        assert found.epsilon() == 1.0
    assert fastdp.sum([1.0], epsilon=1, **options).event.sensitivity == 2 * 2**30


def test_users_are_bounded_before_anything_is_added():
    users = np.repeat(np.arange(100), 30)
    x = np.full(3000, 5.0)
    options = {"user": users, "records_per_user": 2, "level": SURE, "epsilon": 1}
    n = fastdp.count(x, **options)
    assert n.unit == "user"
    assert contains(n, 200)
    assert n.event.sensitivity == 2
    assert contains(fastdp.sum(x, bounds=(0, 10), **options), 1000)
    assert contains(fastdp.mean(x, bounds=(0, 10), **options), 5)
    low, high = fastdp.histogram(x, [0, 5, 10], **options).interval
    assert low[0] <= 0 <= high[0]
    assert low[1] <= 200 <= high[1]
    assert fastdp.sum(x, bounds=(0, 10), **options).epsilon() <= 1
    one = fastdp.count(x, user=users, epsilon=1, level=SURE)
    assert contains(one, 100)
    nobody = fastdp.count(x, user=[None] * 3000, epsilon=1, level=SURE)
    assert contains(nobody, 0)


def test_what_is_shown():
    stream = fastdp.testing.FixedStream(bytes(32))
    found = fastdp.mean([10.0] * 1000, bounds=(0, 20), epsilon=1, stream=stream)
    assert repr(found).startswith("Estimate(")
    assert repr(found).endswith("level=0.95, unit='row')")
    accountant = fastdp.accounting.PureAccountant()
    accountant.compose(found.event)
    assert accountant.epsilon(0) <= 1
    text = fastdp.count(["a", "b", None], epsilon=1, level=SURE)
    assert contains(text, 2)
    assert contains(fastdp.count([], epsilon=1, level=SURE), 0)


def test_the_sum_pays_for_the_larger_bound_only():
    found = fastdp.sum([1.0], bounds=(-1, 5), epsilon=1)
    low, high = found.interval
    assert (high - low) / 2 == pytest.approx(5 * math.log(20), rel=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fastdp.count([1]), "exactly one of epsilon and rho"),
        (lambda: fastdp.count([1], epsilon=1, rho=1), "exactly one of epsilon and rho"),
        (lambda: fastdp.count([1], epsilon=1, records_per_user=2), "goes with user"),
        (lambda: fastdp.count([1], epsilon=1, user=[1, 2]), r"user must have shape"),
        (lambda: fastdp.count([1], epsilon=1, level=2), "level must be"),
        (lambda: fastdp.mean(["a"], bounds=(0, 1), epsilon=1), "x must be a column"),
        (lambda: fastdp.mean([1], bounds=(1, 0), epsilon=1), "low < high"),
        (lambda: fastdp.mean([1], bounds=(0, math.nan), epsilon=1), "bounds must be"),
        (lambda: fastdp.mean([1], bounds=(0, 1)), "exactly one of epsilon and rho"),
        (lambda: fastdp.mean([1], bounds=(0, 1), epsilon=1, level=0), "level must be"),
        (lambda: fastdp.histogram([1], [0], epsilon=1), "edges must be"),
        (lambda: fastdp.histogram([1], [1, 0], epsilon=1), "edges must be"),
        (
            lambda: fastdp.mean(
                [1], bounds=(0, 1), epsilon=1, user=[1], neighboring_relation=R
            ),
            "not public",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(fastdp.FastDPError, match=message):
        call()


def test_bounds_have_no_default():
    with pytest.raises(TypeError, match="bounds"):
        fastdp.mean([1.0], epsilon=1)
