"""Plans of columns in memory: the totals of the reference, and bins on every engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import ParameterError
from fastdp.tables import _run
from fastdp.tables._memory import Memory
from fastdp.testing import FixedStream
from tests.frames import hostile

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

COLUMNS = {name: [row[name] for row in hostile.ROWS] for name in hostile.ROWS[0]}
EDGES = (-3.0, 0.0, 7.25, 1e3)


def totals(plan: Any, columns: Any) -> dict[Any, Any]:
    """Return the exact totals of each group, by the names of engines."""
    engine = Memory(plan, columns)
    found = _run.Totals(plan, engine.exact(plan._recipe(engine), "", None))
    keys = zip(*(column.tolist() for column in found._keys.values()), strict=True)
    sums = {n: x.tolist() for n, x in found._sums.items() if n != "place"}
    rows = [
        dict(zip(sums, row, strict=True)) for row in zip(*sums.values(), strict=True)
    ]
    return dict(zip(keys, rows, strict=True))


@pytest.mark.parametrize("user", [None, "user"])
@pytest.mark.parametrize("alone", [(), ("x",)])
def test_the_totals_are_those_of_the_reference(user: Any, alone: Any) -> None:
    options: Any = {"user": user, "kept": (99, 99), "variance": ("y",), "alone": alone}
    plan = hostile.plan_of(hash="engine", **options)
    wanted = hostile.reference(hostile.ROWS, **options)
    found = totals(plan, COLUMNS)
    assert {*found} == {*wanted}
    names = ("users", "n", "n0", "n1", "s0", "s1", "q1")
    # The reference has the sums of columns in the order of the plan.
    order = list(plan._asked)
    for key, row in found.items():
        given = dict(zip(names, wanted[key], strict=True))
        for name in names:
            mine = (
                f"{name[0]}{order.index('xy'[int(name[1:])])}"
                if len(name) == 2
                else name
            )
            assert row[mine] == given[name], (key, name)


def test_a_unit_is_kept_in_so_many_groups_with_so_many_records() -> None:
    for keys in (None, {"town": ["t0", "t1", "t2", "t3"], "sex": [1, 2]}):
        plan = hostile.plan_of(hash="engine", kept=(2, 2), keys=keys)
        for _ in range(20):
            found = totals(plan, COLUMNS)
            full = [row for key, row in found.items() if key[0].startswith("t")]
            # These are records of the user "full", who has 3 in each of 8 groups.
            assert sorted(row["n"] for row in full if row["n"]) == [2, 2]


BINNED = {
    "who": [f"user {i}" for i in range(len(hostile.HOSTILE))],
    "town": ["oslo"] * len(hostile.HOSTILE),
    "x": hostile.HOSTILE,
}


@pytest.mark.parametrize("unit", ["row", fastdp.Unit("who", groups=1, records=2)])
def test_bins_are_counted_alike(unit: Any) -> None:
    """At this epsilon noise is 0 but with a probability below 1e-100."""
    plan = fastdp.Plan(
        unit=unit,
        by="town",
        keys=["oslo", "rome"],
        count=True,
        histogram={"x": EDGES},
        epsilon=1e4,
    )
    x = np.array([math.nan if v is None else v for v in hostile.HOSTILE])
    wanted = np.histogram(x[np.isfinite(x)], EDGES)[0].tolist()
    for source in (BINNED, pa.table(BINNED)):
        found = plan.release(source)
        assert found.groups() == [("oslo",), ("rome",)]
        assert found.values("count").tolist() == [len(x), 0]
        names = ["x_-3_0", "x_0_7.25", "x_7.25_1000"]
        assert list(plan.columns[1:]) == names
        assert [found.values(name)[0] for name in names] == wanted
        assert [found.values(name)[1] for name in names] == [0] * 3
        low, high = found.interval(names[0])
        assert low.tolist() == high.tolist() == [wanted[0], 0]
    assert plan.mechanisms()["x_histogram"].sensitivity == (1 if unit == "row" else 2)


def test_a_dict_of_columns_needs_no_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastdp.frames import _tables

    monkeypatch.delattr(_tables, "arrow")
    towns = np.array(["b", "a"] * 50)
    options: Any = {"unit": "row", "by": "town", "epsilon": 1e4}
    plan = fastdp.Plan(keys=np.array(["b", "a"]), count=True, **options)
    found = plan.release({"town": towns}, stream=FixedStream("memory"))
    table = found.table()
    assert (table["town"], table["count"].tolist()) == (["b", "a"], [50, 50])
    assert repr(found).split()[:4] == ["town", "count", "count_low", "count_high"]
    for name, wrong, message in (
        ("memory", {"memory": "1GB"}, "memory and progress must be left out"),
        ("hash", {}, 'hash must be "engine" for columns in memory'),
    ):
        hash = "sha256" if name == "hash" else "engine"
        other = fastdp.Plan(keys=["b"], count=True, hash=hash, **options)
        with pytest.raises(ParameterError, match=message):
            other.release({"town": towns}, **wrong)
    with pytest.raises(ParameterError, match="source has no column 'town'"):
        plan.release({"twon": towns})


def test_tables_of_a_report_may_be_of_columns(tmp_path: Any) -> None:
    who = fastdp.Unit("who", records=1)
    report = fastdp.Report(
        {
            "people": fastdp.Plan(unit=who, units=True, epsilon=1),
            "x": fastdp.Plan(unit=who, histogram={"x": EDGES}, epsilon=1),
        }
    )
    sources = {"people": BINNED, "x": pa.table(BINNED)}
    with fastdp.ledger.create(tmp_path / "year.db") as book:
        book.add_budget("all", fastdp.accounting.PureFilter(2), unit="who")
        words: Any = {"ledger": book, "label": "w47", "budgets": "all"}
        first, again = (report.release(sources, **words) for _ in range(2))
        for name in sources:
            assert again[name].replayed
            assert str(first[name].value) == str(again[name].value)
        assert book.budget("all").spent == {"epsilon": 2}


# ---- what the owner may see --------------------------------------------------------

WHO = ["a", "a", "b", None, "c", "d", "a", "a"]
SPARSE = {
    "who": WHO,
    "town": ["t0", "t0", "t0", "t0", None, "t1", "t2", "t1"],
    "x": [1.0, None, math.nan, 5.0, -5.0, math.inf, 2.0, 3.0],
}
FACTS = {"missing": 2, "below": 1, "above": 2}


@pytest.mark.parametrize("source", [SPARSE, pa.table(SPARSE)], ids=["dict", "DuckDB"])
def test_the_owner_sees_what_is_left_out(source: Any) -> None:
    words: Any = {"mean": "x", "bounds": {"x": (0, 4)}, "epsilon": 1}
    who = fastdp.Unit("who", groups=2, records=1)
    listed = fastdp.Plan(unit=who, by="town", keys=["t0", "t1"], **words)
    found = listed.check(source)
    assert (found.records, found.no_unit, found.no_group) == (8, 1, 1)
    assert (found.other_group, found.columns) == (1, {"x": FACTS})
    # Of "a" two records in t0 and one in t1, one each of "b" and "d".
    assert found.kept[1, 1] == pytest.approx(3 / 5)
    assert found.kept[1, 2] == pytest.approx(3.5 / 5)
    assert found.kept[2, 1] == pytest.approx(4 / 5)
    assert found.kept[2, 2] == 1
    text = str(found)
    assert text.startswith("NOT PRIVATE")
    assert "in a group not listed" in text
    rows = fastdp.Plan(unit="row", **words).check(source)
    assert (rows.records, rows.no_unit, rows.other_group, rows.kept) == (8, 0, 0, {})
    own = fastdp.Unit("who", records=4)
    bins = fastdp.Plan(unit=own, histogram={"x": [0, 4]}, epsilon=1).check(source)
    assert bins.columns == {"x": FACTS}
    assert bins.kept[1, 4] == 1
    assert bins.kept[1, 2] == pytest.approx(5 / 7)
    nobody = {name: column[3:4] for name, column in SPARSE.items()}
    empty = listed.check(nobody if isinstance(source, dict) else pa.table(SPARSE)[3:4])
    assert (empty.records, empty.no_unit, empty.other_group) == (1, 1, 0)


def test_an_integer_too_long_to_write_is_no_key() -> None:
    plan = fastdp.Plan(unit="row", by="g", count=True, epsilon=30, delta=1e-9)
    for other in (10**4300, -(2**3000)):
        assert [*totals(plan, {"g": ["a"] * 3 + [other]})] == [("a",)]


def test_what_is_refused() -> None:
    with pytest.raises(ParameterError, match="source must have at least one column"):
        fastdp.Plan(unit="row", count=True, epsilon=1).release({})
    edges = [0, 1 - 1e-13, 1, 1 + 1e-13]
    with pytest.raises(ParameterError, match="edges of histogram"):
        fastdp.Plan(unit="row", histogram={"x": edges}, epsilon=1)
