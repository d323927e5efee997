"""Missing values, all records as one group, and what is known before the draw."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fastdp import Plan, Unit
from fastdp.testing import FixedStream
from tests.frames.visits import ASK, KEYS, VISITS

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pytest.importorskip("duckdb")

# ---- missing values, and all records -----------------------------------------------

SPARSE = pa.table(
    {
        "who": ["a", "a", "b", None, "c", "d"] * 100,
        "town": ["t0", "t0", "t0", "t0", None, "t1"] * 100,
        "x": [1.0, None, math.nan, 5.0, 5.0, math.inf] * 100,
        "y": [None, None, None, 1, 1, None] * 100,
    }
)
SURE: Any = {"epsilon": 10**6, "by": "town", "keys": ["t1", "t0"]}


def test_a_missing_value_leaves_out_its_own_statistic_alone() -> None:
    """At this epsilon noise is below 0.01 but with a probability below 1e-100."""
    options: Any = {"bounds": {"x": (0, 4), "y": (0, 1)}, **SURE}
    plan = Plan(unit="row", count=True, mean="x", sum="y", **options)
    found = plan.release(SPARSE).table().to_pydict()
    assert found["town"] == ["t1", "t0"]
    assert found["count"] == [100, 400]
    assert found["x_n"] == [100, 200]
    assert found["x_mean"] == pytest.approx([4, 2.5], abs=0.01)
    assert found["y_sum"] == pytest.approx([0, 100], abs=0.01)
    # Other requests change neither the count nor the choice of records.
    people = Plan(
        unit=Unit("who", groups=2, records=1000), count=True, units=True, **SURE
    )
    found = people.release(SPARSE).table().to_pydict()
    assert found["count"] == [100, 300]
    assert found["units"] == [1, 2]


def test_a_mean_of_nobody_is_null_and_a_wide_one_is_noted() -> None:
    options: Any = {"unit": "row", "mean": "x", "bounds": {"x": (0, 4)}, "by": "town"}
    found = Plan(keys=["none", "t0"], epsilon=10**6, **options).release(SPARSE)
    assert found.table().to_pydict()["x_mean"][0] is None
    assert found.table().to_pydict()["note"] == ["wide: x_mean", ""]
    shown = repr(found).splitlines()
    assert shown[0].split() == ["town", *found.table().column_names[1:]]
    assert shown[1].split()[:2] == ["none", "0"]


def test_without_by_all_records_are_one_group() -> None:
    plan = Plan(
        unit=Unit("who", records=1000),
        count=True,
        units=True,
        sum="x",
        std="y",
        bounds={"x": (-2, 4), "y": (0, 1)},
        epsilon=10**6,
    )
    (row,) = plan.release(SPARSE).table().to_pylist()
    assert (row["count"], row["units"], row["y_n"]) == (500, 4, 100)
    assert row["x_sum"] == pytest.approx(100 + 500 - 100 + 400, abs=0.1)
    assert row["y_std"] == pytest.approx(0, abs=0.1)
    empty = plan.release(SPARSE.slice(0, 0)).table().to_pylist()
    assert [one["count"] for one in empty] == [0]


def test_a_dict_of_lists_is_each_key_with_each() -> None:
    keys = {"town": ["t1", "t0"], "who": ["b", "a"]}
    plan = Plan(unit="row", count=True, **{**SURE, "by": ["who", "town"], "keys": keys})
    found = plan.release(SPARSE).table().to_pydict()
    assert list(zip(found["who"], found["town"], strict=True)) == [
        *(("b", "t1"), ("b", "t0"), ("a", "t1"), ("a", "t0")),
    ]
    assert found["count"] == [0, 100, 0, 200]


# ---- cost and accuracy, before the draw ----------------------------------------------


@pytest.mark.parametrize("budget", [{"epsilon": 0.7}, {"rho": 0.02}])
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_the_accuracy_is_that_of_the_intervals(budget: Any, delta: Any) -> None:
    keys = KEYS if delta is None else None
    options: Any = {
        "units": True,
        "sum": ["cost", "user"],
        "keys": keys,
        "delta": delta,
    }
    bounds = {"cost": (0, 50), "user": (-5, 900)}
    unit = Unit("who", groups=3, records=2)
    plan = Plan(
        **{**ASK, **options, "bounds": bounds, "unit": unit, "std": "cost"}, **budget
    )
    rows = {row["column"]: row for row in plan.accuracy(0.99).rows()}
    assert tuple(rows) == plan.columns
    who = pa.array([i // 3 for i in range(3000)])
    found = plan.release(VISITS.append_column("who", who), stream=FixedStream("s"))
    for name in ("count", "units", "cost_n", "cost_sum", "user_sum"):
        low, high = found.interval(name, 0.99)
        middle = found.values(name)
        reach = max((high - middle).max(), (middle - low).max())
        slack = 1 if name in ("count", "units", "cost_n") else 1e-6 * reach
        assert abs(rows[name]["within"] - reach) <= slack, name
    accuracy = plan.accuracy()
    assert (accuracy.least_units(0.5) is None) == (delta is None)
    if delta is not None:
        least, law = accuracy.least_units(0.5), plan._noise.threshold
        assert law.probability(least) >= 0.5 > law.probability(least - 1)
    text = str(accuracy)
    assert "for one who; kept: at most 3 groups and 2 records in each" in text
    assert len(text.splitlines()) == len(plan.columns) + 3


def test_what_is_published_says_how_it_was_made() -> None:
    said = Plan(**ASK, keys=KEYS, rho=0.1).describe()
    for words in (
        "Number of records and mean of cost by town (groups listed in advance).",
        "zero-concentrated differential privacy (rho 0.1) for one user, added or",
        "Of each user at most 3 groups and 1 record in each were kept",
        "Values of cost were limited to 0 to 50; a record without a value is counted",
        "Noise: discrete Gaussian, standard deviation 6.708 of count",
    ):
        assert words in said
    assert "group" not in Plan(unit="row", count=True, epsilon=1).describe()
