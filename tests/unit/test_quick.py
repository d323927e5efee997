"""The first lines: counts, sums, means, variances and histograms of records.

Intervals at the level 1 - 1e-12 hold but with that probability, for each check.
"""

import math
from fractions import Fraction

import numpy as np
import pandas
import pytest

import fastdp
import fastdp.testing
from fastdp.accounting.events import NeighboringRelation
from fastdp.exceptions import UnsupportedEventError

A = NeighboringRelation.ADD_OR_REMOVE_ONE
R = NeighboringRelation.REPLACE_ONE
SURE = 1 - 1e-12
RARELY = 1e-13  # a delta: what one record shows by
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


def test_gaussian_noise_has_an_epsilon_at_a_delta():
    found = fastdp.mean([1.0], bounds=(0, 2), rho=0.5)
    assert found.epsilon(delta=1e-6) > 0
    with pytest.raises(UnsupportedEventError, match="give a delta, such as 1e-6"):
        found.epsilon()


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
    one = fastdp.count(x, **{**options, "records_per_user": 1})
    assert contains(one, 100)
    nobody = fastdp.count(x, **{**options, "user": [None] * 3000})
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


TOWNS = ["oslo", "rome", None, "bonn", "ulm"] * 400 + ["gera"]
WORTH = [1.0, 2.0, 3.0, math.nan, 40.0] * 400 + [5.0]
ONE_OF = {"epsilon": {"epsilon": 1}, "rho": {"rho": 0.1}}


def truths(statistic, towns=TOWNS, worth=WORTH):
    """What a statistic of each town is, its records being those with a number."""
    held = {}
    for town, x in zip(towns, worth, strict=True):
        if town is not None and not math.isnan(x):
            held.setdefault(town, []).append(min(max(x, 0), 10))
    return {town: statistic(np.array(x)) for town, x in held.items()}


@pytest.mark.parametrize("budget", list(ONE_OF))
@pytest.mark.parametrize("kind", [list, pandas.Series])
@pytest.mark.parametrize("keys", [None, ["ulm", "oslo", "void"]])
def test_every_statistic_by_group(keys, kind, budget):
    options = {"by": kind(TOWNS), "level": SURE, **ONE_OF[budget]}
    options |= {"delta": RARELY} if keys is None else {"keys": keys}
    bounded = {**options, "bounds": (0, 10)}
    x = kind(WORTH)
    for found, statistic in (
        (fastdp.count(x, **options), len),
        (fastdp.sum(x, **bounded), np.sum),
        (fastdp.mean(x, **bounded), np.mean),
        (fastdp.variance(x, **bounded), np.var),
    ):
        true = truths(statistic)
        # 400 records always show, one does so with a chance of 1e-13 at most.
        assert found.keys == (["oslo", "rome", "ulm"] if keys is None else sorted(keys))
        low, high = found.interval
        for i, key in enumerate(found.keys):
            if key in true:
                assert low[i] - 1e-6 <= true[key] <= high[i] + 1e-6
        assert found.unit == "row"
        table = found.table()
        assert list(table) == ["key", "value", "low", "high"]
        assert len(pandas.DataFrame(table)) == len(found.keys)
        if budget == "epsilon":
            assert 0.999 < found.epsilon(delta=0 if keys else RARELY) <= 1 + 1e-12
    h = fastdp.histogram(x, [0, 1.5, 100], **options)
    low, high = h.interval
    assert h.value.shape == (3, 2)
    place = h.keys.index("oslo")
    assert ((low <= [400, 0]) & (high >= [400, 0]))[place].all()


def test_a_group_of_one_user_is_not_shown():
    """Each of 30 users has 5 records in a group of their own: 150 chances of 1e-12."""
    users = np.repeat(np.arange(30), 5)
    options = {"by": users, "user": users, "epsilon": 1, "delta": 1e-12}
    options |= {"groups_per_user": 1, "records_per_group": 5}
    bounded = {**options, "bounds": (0, 1)}
    x = np.ones(150)
    for found in (
        fastdp.count(x, **options),
        fastdp.sum(x, **bounded),
        fastdp.mean(x, **bounded),
        fastdp.variance(x, **bounded),
        fastdp.histogram(x, [0, 1], **options),
    ):
        assert found.keys == []
        assert len(found.value) == 0
        assert found.unit == "user"


def test_a_split_budget_is_shown():
    options = {"by": TOWNS, "epsilon": 1, "delta": 1e-6}
    found = fastdp.sum(WORTH, bounds=(0, 10), **options)
    assert found.shares == {"keys": 0.5, "sum": 0.5}
    assert "shares={'keys': 0.5, 'sum': 0.5}" in repr(found)
    keys, noise = found.event.events
    assert keys.epsilon == Fraction(1, 2)
    assert noise.sensitivity / noise.scale == Fraction(1, 2)
    h = fastdp.histogram(WORTH, [0, 10], **options)
    assert h.shares == {"keys": 0.5, "histogram": 0.5}
    # One noise does for both.
    assert fastdp.count(WORTH, **options).shares is None
    mean = fastdp.mean(WORTH, bounds=(0, 10), **options)
    assert mean.shares is None
    noise, keys = mean.event.events
    assert noise.sensitivity / noise.scale == 1
    assert (keys.epsilon, keys.delta <= Fraction(1e-6)) == (0, True)
    # What is public needs no selection.
    public = fastdp.sum(WORTH, bounds=(0, 10), by=TOWNS, keys=["oslo"], epsilon=1)
    assert public.shares is None


@pytest.mark.parametrize("budget", list(ONE_OF))
@pytest.mark.parametrize("keys", [None, [0, 1, 2]])
def test_users_are_in_so_many_groups_with_so_many_records(keys, budget):
    """600 users in 3 groups of 4 records each; 2 groups and 3 records are kept."""
    users = np.repeat(np.arange(600), 12)
    groups = np.tile(np.repeat(np.arange(3), 4), 600)
    options = {"by": groups, "user": users, "level": SURE, **ONE_OF[budget]}
    options |= {"groups_per_user": 2, "records_per_group": 3}
    options |= {"delta": 1e-6} if keys is None else {"keys": keys}
    x = np.ones(7200)
    found = fastdp.count(x, **options)
    assert found.keys == [0, 1, 2]
    low, high = found.interval
    assert low.sum() <= 3600 <= high.sum()  # 600 * 2 * 3 records in all
    total = fastdp.sum(x, bounds=(0, 1), **options)
    assert total.interval[0].sum() <= 3600 <= total.interval[1].sum()
    noise = total.event.events[1] if keys is None else total.event
    half = 2 if keys is None else 1
    if budget == "epsilon":
        assert noise.sensitivity / noise.scale == Fraction(1, half)
    else:
        rho = noise.sensitivity**2 / (2 * noise.sigma**2)
        assert rho * half == pytest.approx(0.1, rel=1e-9)
        assert noise.coordinates == 2


def test_replaced_rows_by_group():
    options = {"bounds": (0, 10), "by": TOWNS, "level": SURE, "epsilon": 1}
    for keys in ({"delta": 1e-6}, {"keys": ["oslo", "ulm"]}):
        for make, statistic in ((fastdp.sum, np.sum), (fastdp.mean, np.mean)):
            found = make(WORTH, **options, **keys, neighboring_relation=R)
            true = truths(statistic)
            low, high = found.interval
            for i, key in enumerate(found.keys):
                assert low[i] - 1e-6 <= true[key] <= high[i] + 1e-6
            assert found.event.neighboring_relation is R
            delta = 1e-6 if "delta" in keys else 0
            assert found.epsilon(delta=delta) <= 1 + 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        # Without a delta that comes first, whatever else is wrong.
        (lambda: fastdp.count([1], by=[1]), "delta must be given for by="),
        (
            lambda: fastdp.mean([1], bounds=(0, 1), by=3, level=9),
            "delta must be given for by=",
        ),
        (
            lambda: fastdp.sum([1], bounds=(1, 0), by=[1], epsilon=1),
            "delta must be given for by=",
        ),
        (
            lambda: fastdp.histogram([1], [1, 0], by=[1]),
            "delta must be given for by=",
        ),
        (lambda: fastdp.count([1], delta=1e-6, epsilon=1), "delta goes with by"),
        (
            lambda: fastdp.count([1], by=[1], keys=[1], delta=1e-6, epsilon=1),
            "delta goes with by",
        ),
        (lambda: fastdp.count([1], keys=[1], epsilon=1), "keys goes with by"),
        (lambda: fastdp.count([1], by=[1], keys=[], epsilon=1), "keys must be at"),
        (lambda: fastdp.count([1], by=[1], keys=[1, 1], epsilon=1), "keys must be at"),
        (
            lambda: fastdp.count([1], by=np.array([1]), keys=["a"], epsilon=1),
            "keys must be of",
        ),
        (lambda: fastdp.count([1], by=[1, 2], keys=[1], epsilon=1), "by must have"),
        (
            lambda: fastdp.count([1], by=[1], keys=[1], epsilon=1, groups_per_user=2),
            "groups_per_user goes with user",
        ),
        (
            lambda: fastdp.count([1], user=[1], epsilon=1, records_per_group=2),
            "require by",
        ),
        (
            lambda: fastdp.count(
                [1], by=[1], keys=[1], user=[1], epsilon=1, records_per_user=2
            ),
            "records_per_user goes without by",
        ),
        (
            lambda: fastdp.count(
                [1], by=[1], keys=[1], user=[1], epsilon=1, groups_per_user=0
            ),
            "groups_per_user must be",
        ),
        (lambda: fastdp.count([1], epsilon=1).table(), "by must have been given"),
    ],
)
def test_bad_groups_are_named(call, message):
    with pytest.raises(fastdp.FastDPError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fastdp.count([1]), "exactly one of epsilon and rho"),
        (lambda: fastdp.count([1], epsilon=1, rho=1), "exactly one of epsilon and rho"),
        (lambda: fastdp.count([1], epsilon=1, records_per_user=2), "goes with user"),
        (
            lambda: fastdp.count([1], epsilon=1, user=[1, 2], records_per_user=1),
            r"user must have shape",
        ),
        (
            lambda: fastdp.count([1], epsilon=1, user=[1]),
            "records_per_user must be given with user: .* records of one user are",
        ),
        (
            lambda: fastdp.histogram(
                [1], [0, 2], by=[1], keys=[1], epsilon=1, user=[1], records_per_group=2
            ),
            "groups_per_user must be given with user and by: .* groups of one user are",
        ),
        (
            lambda: fastdp.mean(
                [1],
                bounds=(0, 1),
                by=[1],
                keys=[1],
                epsilon=1,
                user=[1],
                groups_per_user=2,
            ),
            "records_per_group must be given .* records of one user in a group are",
        ),
        (lambda: fastdp.count([1], epsilon=1, level=2), "level must be"),
        (
            lambda: fastdp.mean(np.array(["a"]), bounds=(0, 1), epsilon=1),
            "x must be a column of numbers",
        ),
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
