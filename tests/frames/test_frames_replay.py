"""What a ledger has an answer for is not computed again; other terms are refused."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import Plan, Unit, accounting
from fastdp.exceptions import DTypeError, LabelConflictError, ParameterError
from fastdp.frames._duckdb import DuckDB
from fastdp.ledger import _protocol

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
pytest.importorskip("duckdb")

N = 3000
TOWNS = ["Oslo", "Rome", "Bern"]
VISITS = pa.table(
    {
        "town": TOWNS * (N // 3),
        "user": np.arange(N) // 2,
        "cost": np.arange(N) % 50.0,
    }
)
ASK: dict[str, Any] = {
    "by": "town",
    "count": True,
    "mean": "cost",
    "bounds": {"cost": (0, 50)},
    "unit": Unit("user", groups=1, records=1, name="person"),
    "epsilon": 4,
    "label": "w47",
}
SELECTED = {"delta": 1e-6}


def released(source: Any = None, **options: Any) -> Any:
    where = ("ledger", "label", "budgets")
    own = {name: options.pop(name) for name in where if name in options}
    return Plan(**options).release(VISITS if source is None else source, **own)


PUBLIC = {"keys": pa.table({"town": ["Oslo", "Lima"]})}


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with fastdp.ledger.create(tmp_path / "budget.db") as book:
        rule = accounting.ApproximateFilter(epsilon=99, delta=1e-4)
        book.add_budget("towns", rule, unit="person")
        yield book


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each query that ran was of no records."""
    found, run = [], DuckDB.run

    def told(self: DuckDB, sql: str, *rest: Any) -> Any:
        found.append("from no_rows as source" in sql)
        return run(self, sql, *rest)

    monkeypatch.setattr(DuckDB, "run", told)
    return found


@pytest.mark.parametrize("how", [SELECTED, PUBLIC], ids=["selected", "public"])
def test_no_record_is_read_again(
    ledger: Any, ran: list[bool], tmp_path: Path, how: dict[str, Any]
) -> None:
    from pyarrow import parquet

    path = tmp_path / "visits.parquet"
    parquet.write_table(VISITS, path)
    options = {**ASK, **how, "ledger": ledger, "budgets": "towns"}
    first = released(**options)
    assert ran == [False]  # a new label costs no query more
    for source in (path, pl.from_arrow(VISITS), VISITS.slice(0, 0)):
        ran.clear()
        again = released(source, **options)
        assert ran == [True]
        assert again.replayed
        assert pa.table(again.table())["count"].equals(first.table()["count"])
    stream = VISITS.to_reader()
    assert released(stream, **options).table().equals(first.table())
    assert stream.read_all().num_rows == N  # nothing was taken of it
    assert ledger.budget("towns").spent["epsilon"] == 4


@pytest.mark.parametrize(
    ("how", "change"),
    [
        (SELECTED, {"unit": Unit("user", groups=2, records=1, name="person")}),
        (SELECTED, {"epsilon": 3}),
        (PUBLIC, {"keys": pa.table({"town": TOWNS})}),
        (PUBLIC, {"keys": pa.table({"town": ["Oslo", "Rome"]})}),
    ],
    ids=range(4),
)
def test_other_terms_are_refused(
    ledger: Any, ran: list[bool], how: dict[str, Any], change: dict[str, Any]
) -> None:
    """Whatever is seen without records, the whole group-by's terms decide."""
    options = {**ASK, **how, "ledger": ledger, "budgets": "towns"}
    released(**options)
    ran.clear()
    with pytest.raises(LabelConflictError):
        released(**{**options, **change})
    assert ran == [True, False]
    assert ledger.budget("towns").spent["epsilon"] == 4


def test_a_budget_per_person_pays_for_no_release_of_rows(
    ledger: Any, ran: list[bool]
) -> None:
    rows = {**ASK, **PUBLIC, "ledger": ledger, "budgets": "towns", "unit": "row"}
    with pytest.raises(ParameterError, match="per 'person', this release is per 'row'"):
        released(**rows)
    assert ran == []
    assert ledger.audit().labels == 0
    ledger.add_budget("rows", accounting.PureFilter(99), unit="row")
    found = released(**{**rows, "budgets": iter(["rows"])})
    assert found.unit == "row"


def test_bad_budgets_are_refused_before_a_record_is_read(
    ledger: Any, ran: list[bool]
) -> None:
    for budgets in ([], ["towns", "towns"], "two\nlines"):
        options = {**ASK, **PUBLIC, "ledger": ledger, "budgets": budgets}
        with pytest.raises(ParameterError, match="budgets"):
            released(**options)
    assert ran == []


def test_an_answer_is_shown_again_whatever_it_was_charged_to(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units are compared at the charge: what was charged by older versions stands."""
    rows = {**ASK, **PUBLIC, "ledger": ledger, "budgets": "towns", "unit": "row"}
    with monkeypatch.context() as earlier:
        earlier.setattr(_protocol, "require_unit", lambda *_: None)
        first = released(**rows)
    again = released(**rows)
    assert again.replayed
    assert again.table().equals(first.table())


def test_an_answer_of_an_older_version_is_read_by_its_label(ledger: Any) -> None:
    """Its terms are others: the same label does not stand for a plan."""
    m = fastdp.DiscreteLaplace(10, sensitivity=1)
    old = ledger.table(
        {"n": (m, np.array([5, 6]))},
        keys={"town": np.array(["Lima", "Oslo"])},
        label="w47",
        budgets="towns",
        source=f"fastdp aggregate {'0' * 64}",
    )
    with pytest.raises(LabelConflictError):
        released(**{**ASK, **PUBLIC, "ledger": ledger, "budgets": "towns"})
    assert ledger.answer("w47").value["n"].tolist() == old.value["n"].tolist()


def test_public_keys_in_another_order_are_the_same(ledger: Any) -> None:
    """Also without the group-by, and however the text is encoded."""
    options = {**ASK, **PUBLIC, "ledger": ledger, "budgets": "towns"}
    first = released(**options)
    encoded = pa.array(["Lima", "Oslo"], pa.large_string()).dictionary_encode()
    assert first.table()["town"].to_pylist() == ["Oslo", "Lima"]
    for keys in (pa.table({"town": encoded}), ["Lima", "Oslo"]):
        again = released(**{**options, "keys": keys})
        assert again.replayed
        assert again.table().equals(first.table().take([1, 0]))


def test_a_label_of_something_else_or_without_an_answer(
    ledger: Any, ran: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    m = fastdp.DiscreteLaplace(10, sensitivity=1)
    ledger.release(m, 5, label="w47", budgets="towns")
    options = {**ASK, **SELECTED, "ledger": ledger, "budgets": "towns"}
    with pytest.raises(LabelConflictError):
        released(**options)
    options["label"] = "w48"
    with monkeypatch.context() as broken:
        broken.setattr(
            fastdp.KeySelection, "select", lambda *_, **__: 1 / 0, raising=True
        )
        with pytest.raises(ZeroDivisionError):
            released(**options)
    ran.clear()
    assert not released(**options).replayed
    assert ran == [False]


@pytest.mark.parametrize("label", [object(), ["w"], 2**70, "", "\ud800"], ids=range(5))
def test_bad_labels_are_told_before_anything_runs(
    ledger: Any, ran: list[bool], label: Any
) -> None:
    options = {**ASK, **SELECTED, "ledger": ledger, "budgets": "towns", "label": label}
    with pytest.raises((DTypeError, ParameterError), match="label must be"):
        released(**options)
    assert ran == []


KEYS: dict[str, Any] = {
    "int8": pa.array([1, 2, 3] * 1000, pa.int8()),
    "uint64": pa.array([1, 2, 2**63] * 1000, pa.uint64()),
    "bool": pa.array([True, False, True] * 1000),
    "date": pa.array([datetime.date(2026, 11, d) for d in (1, 2, 3)] * 1000),
    "time": pa.array([datetime.datetime(2026, 11, d) for d in (1, 2, 3)] * 1000),
    "decimal": pa.array([decimal.Decimal(d) for d in ("0.5", "1.5", "2.5")] * 1000),
    "dictionary": pa.array(TOWNS * 1000).dictionary_encode(),
    "null among": pa.array(["Oslo", None, "Bern"] * 1000),
    "null alone": pa.nulls(N),
    "wide text": pa.array(TOWNS * 1000, pa.large_string()),
}


@pytest.mark.parametrize("case", ["selected", "public", "null alone"])
def test_keys_of_every_type(ledger: Any, ran: list[bool], case: str) -> None:
    """The types of no records are those of all: the terms are the same."""
    columns = {f'a "{name}"': column for name, column in KEYS.items()}
    how = SELECTED
    if case != "null alone":
        del columns['a "null alone"']
    if case == "public":
        rows = pa.table(columns).slice(0, 1)
        how = {"keys": rows.set_column(7, 'a "null among"', pa.array(["Oslo"]))}
    table = VISITS
    for name, column in columns.items():
        table = table.append_column(name, column)
    options = {**ASK, **how, "by": list(columns), "ledger": ledger}
    first = released(table, budgets="towns", **options)
    again = released(table, budgets="towns", **options)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.table().equals(first.table())
    assert ran == [False, True]


def test_a_count_of_all_records_is_replayed(tmp_path: Path) -> None:
    """It reads no column, and no engine has tables without one."""
    table = pa.table({"a": pa.array(range(5))})
    with fastdp.ledger.create(str(tmp_path / "year.db")) as book:
        book.add_budget("b", accounting.PureFilter(2), unit="row")
        plan = Plan(unit="row", count=True, epsilon=1)
        charge: dict[str, Any] = {"ledger": book, "budgets": ["b"], "label": "a"}
        first, again = (plan.release(table, **charge) for _ in range(2))
    assert (first.replayed, again.replayed) == (False, True)
    assert first.value == again.value
