"""What a plan refuses: parameters, public keys and sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fastdp
from fastdp import Plan, Unit
from fastdp.exceptions import DTypeError, FastDPError, ParameterError
from tests.frames.visits import KEYS, VISITS, released

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pytest.importorskip("duckdb")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": None}, "delta must be given for by without keys"),
        ({"keys": KEYS}, "delta must be left out if all groups are public"),
        (
            {"by": (), "unit": "row"},
            "delta must be left out if all groups are public",
        ),
        ({"by": (), "unit": "row", "delta": None, "keys": KEYS}, "keys requires by"),
        ({"rho": 1}, "exactly one of epsilon and rho"),
        ({"by": "nowhere"}, "no column 'nowhere'; its columns are user, town"),
        ({"by": "cost", "mean": ()}, "bounds must be for a column"),
        (
            {"by": "cost", "mean": (), "bounds": None},
            "key 'cost' must not have",
        ),
        ({"count": False, "mean": (), "bounds": None}, "give at least one of count"),
        ({"bounds": None}, "bounds must be given for 'cost'"),
        ({"bounds": {"cost": (5, 1)}}, "low < high"),
        ({"bounds": {"cost": (0, 1), "town": (0, 1)}}, "not 'town'"),
        ({"mean": "town", "bounds": {"town": (0, 1)}}, "must differ"),
        ({"mean": "user", "bounds": {"user": (0, 1)}}, "must differ"),
        (
            {"unit": None},
            r"unit must be given: Unit\(\"person\", groups=2, records=5\)",
        ),
        ({"unit": "user"}, r"Unit\('user', groups=..., records=...\)"),
        ({"unit": 3}, "unit must be a Unit, Rows"),
        ({"unit": Unit("user", records=2)}, "groups must be given in the unit with by"),
        (
            {"unit": Unit("user", groups=2, records=2), "by": (), "delta": None},
            "groups must be left out of the unit without by",
        ),
        (
            {"unit": Unit("cost", groups=1, records=1), "mean": (), "bounds": None},
            "user 'cost' must not have",
        ),
        ({"hash": "md5"}, "hash must be one of"),
        ({"memory": "much"}, "memory must be a size"),
        ({"label": "x"}, "require a ledger"),
        ({"keys": ["a", "a"], "delta": None}, "without duplicates"),
        ({"keys": ["a", None], "delta": None}, "without duplicates"),
        ({"keys": [], "delta": None}, "without duplicates"),
        ({"keys": ["a", 1], "delta": None}, "keys must hold columns of one Arrow type"),
        ({"keys": {"t": ["a"]}, "delta": None}, "a dict with a list for each of town"),
        ({"keys": pa.table({"t": ["a"]}), "delta": None}, "keys has no column"),
    ],
)
def test_refusals(change: Any, message: str) -> None:
    with pytest.raises((DTypeError, ParameterError), match=message):
        released(**{"epsilon": 1, "delta": 1e-6, **change})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Unit("person"), "records must be given with a unit: at most how many"),
        (lambda: Unit("person", records=0), "records must be"),
        (lambda: Unit("person", records=1, groups=0), "groups must be"),
        (lambda: Unit("person", records=1, name=""), "name must be"),
        (lambda: Unit("row", records=1), 'name must not be "row"'),
        (lambda: Unit(3, records=1), "column must be a str"),  # type: ignore[arg-type]
        (lambda: fastdp.Rows(""), "name must be"),
    ],
)
def test_units_that_are_none(call: Any, message: str) -> None:
    with pytest.raises((DTypeError, ParameterError), match=message):
        call()


def test_public_keys_of_another_type_are_refused() -> None:
    rows = pa.table({"town": [1, 2]})
    plan = Plan(unit="row", by="town", count=True, keys=KEYS, epsilon=1)
    with pytest.raises(ParameterError, match="types of the columns"):
        plan.release(rows)


@pytest.mark.parametrize(
    "source", ["visits.csv", "missing.parquet", "broken.parquet", [1], None]
)
def test_sources_that_are_none(
    source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = "jane doe 1961"
    for name in ("visits.csv", "broken.parquet"):
        Path(name).write_text(f"user,town,cost\n{secret},x,1\n")
    with pytest.raises(FastDPError) as raised:
        released(source, epsilon=1, delta=1e-6)
    assert secret not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_lazy_frames_are_told_to_collect() -> None:
    lazy = pl.from_arrow(VISITS).lazy()
    with pytest.raises(DTypeError, match="collect"):
        released(lazy, epsilon=1, delta=1e-6)
