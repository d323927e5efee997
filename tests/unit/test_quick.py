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
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    LabelConflictError,
    ParameterError,
    UnitMismatchError,
    UnsupportedEventError,
)

A = NeighboringRelation.ADD_OR_REMOVE_ONE
SURE = 1 - 1e-12
RARELY = 1e-13  # a delta: what one record shows by
AGES = [31.0, 45.0, math.nan, 27.0, 62.0, 150.0, -3.0, math.inf] * 50
HELD = [31, 45, 27, 62, 120, 0, 120]  # within (0, 120), without NaN


def contains(release, truth):
    return release.low - 1e-6 <= truth <= release.high + 1e-6


def of(users, groups=None, records=1, name=None):
    return fastdp.Unit(users, groups=groups, records=records, name=name)


@pytest.mark.parametrize("budget", [{"epsilon": 0.5}, {"rho": 0.1}])
@pytest.mark.parametrize("kind", [list, np.array, pandas.Series])
def test_every_statistic_of_a_column(kind, budget):
    x = kind(AGES)
    options = {"unit": "row", **budget, "level": SURE}
    bounded = {**options, "bounds": (0, 120)}
    n = fastdp.count(x, **options)
    assert contains(n, 350)
    assert isinstance(n.value, int)
    assert contains(fastdp.sum(x, **bounded), 50 * sum(HELD))
    assert contains(fastdp.mean(x, **bounded), np.mean(HELD))
    assert contains(fastdp.variance(x, **bounded), np.var(HELD))
    h = fastdp.histogram(x, [0, 30, 45, 120], **options)
    truth = [50, 50, 100]  # 27 | 31 | 45, 62; 150, inf, -3 in none
    assert ((h.low <= truth) & (truth <= h.high)).all()
    for estimate in (n, h, fastdp.sum(x, **bounded), fastdp.mean(x, **bounded)):
        assert estimate.unit == "row"
        assert estimate.level == SURE
        assert estimate.event().neighboring_relation is A
        if "epsilon" in budget:
            assert 0.499 < estimate.epsilon() <= 0.5


def test_gaussian_noise_has_an_epsilon_at_a_delta():
    found = fastdp.sum([1.0], bounds=(0, 2), unit="row", rho=0.5)
    assert found.epsilon(delta=1e-6) > 0
    with pytest.raises(UnsupportedEventError, match="give a delta, such as 1e-6"):
        found.epsilon()


def test_users_are_bounded_before_anything_is_added():
    users = np.repeat(np.arange(100), 30)
    x = np.full(3000, 5.0)
    options = {"unit": of(users, records=2), "level": SURE, "epsilon": 1}
    n = fastdp.count(x, **options)
    assert n.unit == "user"
    assert contains(n, 200)
    assert n.event().sensitivity == 2
    assert contains(fastdp.sum(x, bounds=(0, 10), **options), 1000)
    assert contains(fastdp.mean(x, bounds=(0, 10), **options), 5)
    h = fastdp.histogram(x, [0, 5, 10], **options)
    assert h.low[0] <= 0 <= h.high[0]
    assert h.low[1] <= 200 <= h.high[1]
    assert fastdp.sum(x, bounds=(0, 10), **options).epsilon() <= 1
    one = fastdp.count(x, **{**options, "unit": of(users)})
    assert contains(one, 100)
    nobody = fastdp.count(x, **{**options, "unit": of([None] * 3000)})
    assert contains(nobody, 0)


def test_a_record_without_a_value_takes_no_place_of_its_user():
    x = [math.nan, 3.0] * 500
    users = np.repeat(np.arange(500), 2)
    options = {"unit": of(users), "level": SURE, "epsilon": 1}
    assert contains(fastdp.count(x, **options), 500)
    assert contains(fastdp.sum(x, bounds=(0, 5), **options), 1500)
    h = fastdp.histogram(np.tile([9.0, 3.0], 500), [0, 5], **options)
    assert h.low[0] <= 500 <= h.high[0]


def test_what_is_shown():
    stream = fastdp.testing.FixedStream(bytes(32))
    options = {"bounds": (0, 20), "unit": "row", "epsilon": 1, "stream": stream}
    found = fastdp.mean([10.0] * 1000, **options)
    assert repr(found).split()[:4] == ["x_n", "x_mean", "x_mean_low", "x_mean_high"]
    accountant = fastdp.accounting.PureAccountant()
    accountant.compose(found.event())
    assert accountant.epsilon(0) <= 1
    text = fastdp.count(["a", "b", None], unit="row", epsilon=1, level=SURE)
    assert contains(text, 2)
    assert contains(fastdp.count([], unit="row", epsilon=1, level=SURE), 0)
    plan = fastdp.Plan(unit="row", count=True, mean="x", bounds={"x": (0, 1)}, rho=1)
    with pytest.raises(fastdp.FastDPError, match="only for a plan with one statistic"):
        _ = plan.release({"x": [1.0]}).value


def test_the_sum_pays_for_the_larger_bound_only():
    found = fastdp.sum([1.0], bounds=(-1, 5), unit="row", epsilon=1)
    assert (found.high - found.low) / 2 == pytest.approx(5 * math.log(20), rel=1e-3)


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
    options = {"by": kind(TOWNS), "unit": "row", "level": SURE, **ONE_OF[budget]}
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
        shown = ["oslo", "rome", "ulm"] if keys is None else keys
        assert found.groups() == [(key,) for key in shown]
        for key, low, high in zip(shown, found.low, found.high, strict=True):
            if key in true:
                assert low - 1e-6 <= true[key] <= high + 1e-6
        assert found.unit == "row"
        table = found.table()
        assert isinstance(table, pandas.DataFrame if kind is pandas.Series else dict)
        assert list(table["key"]) == shown
        assert len(pandas.DataFrame(table)) == len(shown)
        if budget == "epsilon":
            assert 0.999 < found.epsilon(delta=0 if keys else RARELY) <= 1 + 1e-12
    h = fastdp.histogram(x, [0, 1.5, 100], **options)
    assert h.value.shape == (3, 2)
    place = h.groups().index(("oslo",))
    assert ((h.low <= [400, 0]) & (h.high >= [400, 0]))[place].all()


def test_a_group_of_one_user_is_not_shown():
    """Each of 30 users has 5 records in a group of their own: 150 chances of 1e-12."""
    users = np.repeat(np.arange(30), 5)
    options = {"by": users, "unit": of(users, 1, 5), "epsilon": 1, "delta": 1e-12}
    bounded = {**options, "bounds": (0, 1)}
    x = np.ones(150)
    for found in (
        fastdp.count(x, **options),
        fastdp.sum(x, **bounded),
        fastdp.mean(x, **bounded),
        fastdp.variance(x, **bounded),
        fastdp.median(x, **bounded),
        fastdp.histogram(x, [0, 1], **options),
    ):
        assert found.groups() == []
        assert len(found.value) == 0
        assert found.unit == "user"


def test_the_choice_of_groups_costs_what_it_must():
    options = {"by": TOWNS, "unit": "row", "epsilon": 1, "delta": 1e-6}
    noise, keys = fastdp.sum(WORTH, bounds=(0, 10), **options).event().events
    assert keys.epsilon == Fraction(1, 2)
    assert noise.sensitivity / noise.scale == Fraction(1, 2)
    noise, keys = fastdp.histogram(WORTH, [0, 10], **options).event().events
    assert keys.epsilon == noise.sensitivity / noise.scale == Fraction(1, 2)
    # One noise does for both.
    for found in (
        fastdp.count(WORTH, **options),
        fastdp.mean(WORTH, bounds=(0, 10), **options),
    ):
        *noises, keys = found.event().events
        assert sum(noise.sensitivity / noise.scale for noise in noises) == 1
        assert (keys.epsilon, keys.delta <= Fraction(1e-6)) == (0, True)
    # What is public needs no selection.
    del options["delta"]
    public = fastdp.sum(WORTH, bounds=(0, 10), keys=["oslo"], **options)
    assert public.event().sensitivity / public.event().scale == 1


@pytest.mark.parametrize("budget", list(ONE_OF))
@pytest.mark.parametrize("keys", [None, [0, 1, 2]])
def test_users_are_in_so_many_groups_with_so_many_records(keys, budget):
    """600 users in 3 groups of 4 records each; 2 groups and 3 records are kept."""
    users = np.repeat(np.arange(600), 12)
    groups = np.tile(np.repeat(np.arange(3), 4), 600)
    options = {"by": groups, "unit": of(users, 2, 3), "level": SURE, **ONE_OF[budget]}
    options |= {"delta": 1e-6} if keys is None else {"keys": keys}
    x = np.ones(7200)
    found = fastdp.count(x, **options)
    assert found.groups() == [(0,), (1,), (2,)]
    assert found.low.sum() <= 3600 <= found.high.sum()  # 600 * 2 * 3 records in all
    total = fastdp.sum(x, bounds=(0, 1), **options)
    assert total.low.sum() <= 3600 <= total.high.sum()
    noise = total.event().events[0] if keys is None else total.event()
    half = 2 if keys is None else 1
    if budget == "epsilon":
        assert noise.sensitivity / noise.scale == Fraction(1, half)
    else:
        rho = noise.sensitivity**2 / (2 * noise.sigma**2)
        assert rho * half == pytest.approx(0.1, rel=1e-9)
        assert noise.coordinates == 2
        # The records of a user are in at most 6 bins of a histogram.
        bins = fastdp.histogram(x, [0, 1, 2], **options).plan.mechanisms()
        assert bins["x_histogram"].event().coordinates == 6


def test_several_columns_of_groups():
    sexes = ["f", "m", "f"] * 667
    options = {"unit": "row", "epsilon": 1, "level": SURE}
    towns = pandas.Series(TOWNS, name="town")
    by = [towns, pandas.Series(sexes, name="sex")]
    listed = {"town": ["ulm", "gera"], "sex": ["m", "f"]}
    found = fastdp.count(WORTH, by=by, keys=listed, **options)
    assert found.groups() == [("ulm", "m"), ("ulm", "f"), ("gera", "m"), ("gera", "f")]
    frame = pandas.DataFrame({"town": towns, "sex": sexes, "x": WORTH}).dropna()
    true = frame.groupby(["town", "sex"]).size()
    for key, low, high in zip(found.groups(), found.low, found.high, strict=True):
        assert low <= true.get(key, 0) <= high
    assert list(found.table().columns[:2]) == ["town", "sex"]
    unlisted = fastdp.count(WORTH, by=by, delta=RARELY, **options)
    large = [key for key, n in true.items() if n > 99]
    assert unlisted.groups() == sorted(large)
    both = fastdp.count(WORTH, by=[TOWNS, sexes], delta=RARELY, **options)
    assert list(both.table())[:2] == ["key", "key_"]


# ---- a ledger ----------------------------------------------------------------------


@pytest.mark.parametrize("how", [{"delta": 1e-6}, {"keys": ["ulm", "oslo", "void"]}])
@pytest.mark.parametrize(
    "call",
    [
        lambda **words: fastdp.count(WORTH, **words),
        lambda **words: fastdp.sum(WORTH, bounds=(0, 10), **words),
        lambda **words: fastdp.mean(WORTH, bounds=(0, 10), **words),
        lambda **words: fastdp.variance(WORTH, bounds=(0, 10), **words),
        lambda **words: fastdp.median(WORTH, bounds=(0, 10), **words),
        lambda **words: fastdp.histogram(WORTH, [0, 1.5, 100], **words),
    ],
)
def test_an_answer_is_charged_once_and_comes_again(call, how, tmp_path):
    with fastdp.ledger.create(tmp_path / "year.db") as book:
        rule = fastdp.accounting.ApproximateFilter(epsilon=3, delta=1e-5)
        book.add_budget("towns", rule, unit="person")
        people = of(list(range(2001)), groups=1, name="person")
        words = {"unit": people, "by": TOWNS, "epsilon": 1, "ledger": book, **how}
        words |= {"budgets": "towns", "label": "w47"}
        first = call(**words)
        spent = book.budget("towns").spent
        assert 0 < spent["epsilon"] <= 1
        if "keys" in how:
            words["keys"] = how["keys"][::-1]
        again = call(**words)
        assert (first.replayed, again.replayed) == (False, True)
        assert book.budget("towns").spent == spent
        shown = dict(zip(first.groups(), map(str, first.value), strict=True))
        # Another order of keys is the order of the answer.
        assert dict(zip(again.groups(), map(str, again.value), strict=True)) == shown
        if "keys" in how:
            assert again.groups() == [("void",), ("oslo",), ("ulm",)]
        with pytest.raises(LabelConflictError):
            call(**{**words, "epsilon": 0.5})
        words["label"] = "w48"
        with pytest.raises(UnitMismatchError, match="this release is per 'row'"):
            call(**{**words, "unit": "row"})
        nameless = of([*range(2001)], groups=1)
        with pytest.raises(fastdp.FastDPError, match='name="person"'):
            call(**{**words, "unit": nameless})
        with pytest.raises(BudgetExceededError):
            call(**{**words, "epsilon": 9})
        assert book.budget("towns").spent == spent


def test_keys_of_all_kinds_come_back_from_a_ledger(tmp_path):
    kinds = [2**70, -1, 1.5, b"\x00b", b"", "1", "oslo\udc80", ""]
    with fastdp.ledger.create(tmp_path / "year.db") as book:
        rule = fastdp.accounting.ApproximateFilter(epsilon=10**7, delta=1e-5)
        book.add_budget("all", rule, unit="row")
        words = {"by": kinds * 9, "unit": "row", "ledger": book, "budgets": "all"}
        for label, how in (("a", {"keys": kinds}), ("b", {"delta": 1e-6})):
            words |= {"label": label, "epsilon": 10**6}
            first = fastdp.count([1] * 72, **words, **how)
            again = fastdp.count([1] * 72, **words, **how)
            assert again.replayed
            assert first.groups() == again.groups()
            assert {*first.groups()} == {(key,) for key in kinds}
            assert first.value.tolist() == again.value.tolist() == [9] * 8


# ---- bad input ---------------------------------------------------------------------


ONE = {"unit": "row", "epsilon": 1}
LISTED = {**ONE, "by": [1], "keys": [1]}
NO_DELTA = "delta must be given for by without keys"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fastdp.count([1], by=[1], **ONE), NO_DELTA),
        (lambda: fastdp.mean([1], bounds=(0, 1), by=[1], **ONE), NO_DELTA),
        (lambda: fastdp.count([1], delta=1e-6, **ONE), "delta must be left out"),
        (lambda: fastdp.count([1], delta=1e-6, **LISTED), "delta must be left out"),
        (lambda: fastdp.count([1], keys=[1], **ONE), "keys requires by"),
        (
            lambda: fastdp.count([1], by=[1], keys=[], **ONE),
            "keys must list at least one group",
        ),
        (
            lambda: fastdp.count([1], by=[1], keys=[1, 1], **ONE),
            "without duplicates or nulls",
        ),
        (
            lambda: fastdp.count([1], by=[1], keys=[1, None], **ONE),
            "without duplicates",
        ),
        (
            lambda: fastdp.count([1], by=[np.array([1]), [2]], keys=[1], **ONE),
            "keys must be a dict with a list for each of key, key_",
        ),
        (
            lambda: fastdp.count([1], by=np.array([1]), keys=["a"], **ONE),
            "keys must have the type of",
        ),
        (
            lambda: fastdp.count([1], by=[1, 2], keys=[1], **ONE),
            r"by must have shape \(1,\)",
        ),
        (
            lambda: fastdp.count([1], **{**LISTED, "unit": of([1])}),
            "groups must be given in the unit with by",
        ),
        (
            lambda: fastdp.count([1], unit=of([1], 2), epsilon=1),
            "groups must be left out of the unit without by",
        ),
        (lambda: of([1], 0), "groups must be"),
        (lambda: fastdp.Unit([1]), "records must be given with a unit"),
        (lambda: fastdp.Unit(1, records=1), "column must be a str, or a column"),
        (lambda: fastdp.count([1], **{**ONE, "unit": of("who")}), "not its name"),
        (
            lambda: fastdp.Plan(unit=of([1]), count=True, epsilon=1),
            "the unit of a Plan must have the name of a column",
        ),
        (lambda: fastdp.count([1], **{**ONE, "unit": None}), "unit must be given"),
        (lambda: fastdp.count([1], unit="row"), "exactly one of epsilon and rho"),
        (lambda: fastdp.count([1], rho=1, **ONE), "exactly one of epsilon and rho"),
        (
            lambda: fastdp.count([1], epsilon=1, unit=of([1, 2])),
            r"unit must have shape \(1,\)",
        ),
        (lambda: fastdp.count([1], level=2, **ONE), "level must be"),
        (
            lambda: fastdp.mean(np.array(["a"]), bounds=(0, 1), **ONE),
            "x must be a column of numbers",
        ),
        (lambda: fastdp.mean([1], bounds=(1, 0), **ONE), "low < high"),
        (lambda: fastdp.mean([1], bounds=(0, math.nan), **ONE), "bounds must be"),
        (lambda: fastdp.mean([1], bounds=(0, 1), level=0, **ONE), "level must be"),
        (lambda: fastdp.histogram([1], [0], **ONE), "edges must be"),
        (lambda: fastdp.histogram([1], [1, 0], **ONE), "edges must be"),
        (lambda: fastdp.count([1], label="a", **ONE), "require a ledger"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(fastdp.FastDPError, match=message):
        call()


def test_what_privacy_depends_on_has_no_default():
    with pytest.raises(TypeError, match="bounds"):
        fastdp.mean([1.0], unit="row", epsilon=1)
    with pytest.raises(ParameterError, match="unit must be given"):
        fastdp.mean([1.0], bounds=(0, 1), epsilon=1)


@pytest.mark.parametrize(
    ("word", "way_out"),
    [
        ("bins", r"histogram\(x, \[0, 10, 20\]\)"),
        ("weights", 'ratio\\("wx_sum", "w_sum"\\)'),
        ("title", "plot.intervals"),
        ("user", "unit=Unit"),
        ("groups", "in the unit"),
        ("epsilom", "is it epsilon"),
        ("xyz", "unit, by, keys"),
    ],
)
@pytest.mark.parametrize(
    "name", ["count", "histogram", "mean", "median", "quantiles", "std", "Plan"]
)
def test_an_unknown_keyword_says_the_way_out(name, word, way_out):
    with pytest.raises(DTypeError, match=f"{name} has no argument '{word}'"):
        getattr(fastdp, name)(**{word: 3})
    with pytest.raises(TypeError, match=way_out):
        fastdp.mean([1], bounds=(0, 1), unit="row", epsilon=1, **{word: 3})


def test_a_weighted_mean_and_bins_by_the_way_out_that_is_said():
    found = fastdp.histogram([3, 8, 8, 40], [0, 10, 20], unit="row", epsilon=1e6)
    assert found.value.tolist() == [3, 0]
    rows = {"wx": [2.0, 6.0], "w": [1.0, 2.0]}
    bounds = {"wx": (0, 10), "w": (0, 2)}
    plan = fastdp.Plan(unit="row", sum=["wx", "w"], bounds=bounds, epsilon=1e6)
    assert plan.release(rows).ratio("wx_sum", "w_sum")[0] == pytest.approx(8 / 3, 1e-3)


def test_std_is_the_root_of_variance():
    x = [1.0, 2.0, 4.0] * 100
    words = {"bounds": (0, 5), "unit": "row", "rho": 0.5}
    s = fastdp.std(x, stream=fastdp.testing.FixedStream(bytes(32)), **words)
    v = fastdp.variance(x, stream=fastdp.testing.FixedStream(bytes(32)), **words)
    assert s.plan.columns == ("x_n", "x_std")
    assert [s.value**2, s.low**2, s.high**2] == pytest.approx([v.value, v.low, v.high])
    assert s.event() == v.event()


def test_a_unit_shows_no_data():
    unit = of([SECRET := "mallory"], groups=1)
    assert SECRET not in repr(unit)
    assert unit != of([SECRET], groups=1)  # of other data, as far as one can tell
    assert unit == unit
    assert of("who") == of("who") != of("whom")


def test_a_table_without_groups_says_why():
    few = fastdp.count([1] * 5, by=list("abcde"), unit="row", epsilon=1, delta=1e-12)
    assert few.values("count").tolist() == []
    assert "no group had enough units: Plan.check shows" in repr(few)
