"""What tables refuse says what to write instead, and that works."""

from __future__ import annotations

from typing import Any

import pytest

import fastdp
from fastdp.exceptions import DTypeError, ParameterError
from tests.tables import REGIONS, stays

pytest.importorskip("pandas")
pytest.importorskip("duckdb")

PERSON = fastdp.Unit("id", groups=4, records=4)
SINGLE = fastdp.Unit("id", records=4)
ROW: dict[str, Any] = {"unit": "row", "epsilon": 1}
COST: dict[str, Any] = {"mean": "cost", "bounds": {"cost": (0, 1000)}}

#: Words of a plan, the message that refuses them, and the words that it points to.
WAYS_OUT: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "no unit": (
        {"count": True, "epsilon": 1},
        'unit must be given: Unit("person", groups=2, records=5) hides a person',
        {"count": True, **ROW},
    ),
    "by and no groups": (
        {"unit": SINGLE, "by": "region", "keys": REGIONS, "count": True, "epsilon": 1},
        "groups must be given in the unit with by: in at most how many groups",
        {"unit": PERSON, "by": "region", "keys": REGIONS, "count": True, "epsilon": 1},
    ),
    "no bounds": (
        {"mean": "cost", **ROW},
        "bounds must be given for 'cost': public numbers, chosen without the data",
        {**COST, **ROW},
    ),
    "equal bounds": (
        {"mean": "cost", "bounds": {"cost": (5, 5)}, **ROW},
        "bounds must be (low, high) with low < high, got (5.0, 5.0)",
        {**COST, **ROW},
    ),
    "unlisted groups and no delta": (
        {"by": "region", "count": True, **ROW},
        "which groups occur is data; or list the public groups in keys",
        {"by": "region", "count": True, "keys": REGIONS, **ROW},
    ),
    "an unknown column": (
        {"by": "regoin", "keys": REGIONS, "count": True, **ROW},
        "no column 'regoin'; its columns are id, region, sex, age, cost, admitted",
        {"by": "region", "keys": REGIONS, "count": True, **ROW},
    ),
    "no statistic": (
        ROW,
        "give at least one of count, units, sum, mean, variance, std, median, quant",
        {"units": True, **ROW},
    ),
}


@pytest.fixture(scope="module")
def df() -> Any:
    return stays()


@pytest.mark.parametrize("case", WAYS_OUT)
def test_a_refusal_says_the_way_out_and_it_works(case: str, df: Any) -> None:
    words, message, right = WAYS_OUT[case]
    with pytest.raises(ParameterError) as caught:
        fastdp.Plan(**words).release(df)
    assert message in str(caught.value)
    assert fastdp.Plan(**right).release(df).groups()


def test_limits_and_indexes_and_frames_of_no_rows_yet(df: Any) -> None:
    with pytest.raises(ParameterError, match=r"Plan\.check\(data\) shows the owner"):
        fastdp.Unit("id")
    plan = fastdp.Plan(unit=fastdp.Unit("id", records=2), count=True, epsilon=1)
    assert plan.check(df).kept[1, 2] == 0.5  # of each person's four records
    moved = df["region"][::-1]
    words: dict[str, Any] = {"keys": REGIONS, **ROW}
    with pytest.raises(
        ParameterError, match=r"x and by must have the same index.*to_numpy"
    ):
        fastdp.count(df["id"], by=moved, **words)
    assert fastdp.count(df["id"], by=moved.to_numpy(), **words).groups()
    lazy = pytest.importorskip("polars").from_pandas(df).lazy()
    with pytest.raises(DTypeError, match="got a LazyFrame: collect it first"):
        plan.release(lazy)
    assert plan.release(lazy.collect()).groups()


def test_a_refused_keyword_is_answered_by_the_keywords_alone() -> None:
    with pytest.raises(DTypeError, match=r"no argument 'qqqq': unit, by, keys"):
        fastdp.Plan(qqqq=1)  # type: ignore[call-arg]
