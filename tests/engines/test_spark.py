"""Spark on one machine: the reference's integers, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fastdp
from fastdp import Plan, Unit, frames
from fastdp.exceptions import (
    DTypeError,
    FastDPError,
    LabelConflictError,
    ParameterError,
)
from fastdp.frames._duckdb import DuckDB
from fastdp.frames._spark import _drawn
from fastdp.tables import _run
from fastdp.testing import FixedStream
from tests.engines.conftest import needs, spent, staged
from tests.engines.spark import session
from tests.frames import hostile

pa = pytest.importorskip("pyarrow")
needs("pyspark", program="java")

NOISE = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
RESPONSE = fastdp.RandomizedResponse.from_epsilon(2, categories=16)
VISITS = pa.table(
    {
        "user": [i // 3 for i in range(600)],
        "town": [f"t{i % 3}" for i in range(600)],
        "cost": [float(i % 40) for i in range(600)],
    }
)
KEYS = ["t9", "t0", "t1", "t2"]
ASK = {
    "unit": Unit("user", groups=3, records=1),
    "by": "town",
    "count": True,
    "mean": "cost",
    "bounds": {"cost": (0, 50)},
}


@pytest.fixture(scope="module")
def spark():
    found = session("local[2,4]")
    yield found
    found.stop()


@pytest.fixture(scope="module")
def visits(spark):
    return spark.createDataFrame(VISITS)


@pytest.fixture(scope="module")
def people(spark):
    return spark.range(4000).selectExpr("id % 16 as browser", "id as `id.é`")


# ---- before the noise ------------------------------------------------------------


def exact(spark, rows, **options):
    frame = spark.createDataFrame(hostile.table_of(rows)).repartition(3)
    plan = hostile.plan_of(**options)
    with _run.engine_of(plan, frame, None, None) as engine:
        return hostile.totals(plan, engine)


@pytest.mark.parametrize(
    ("values", "variance", "alone", "user", "kept"),
    [
        ((), (), (), "user", (9, 1)),
        (("x", "y"), ("x", "y"), (), "user", (2, 3)),
        (("x", "y"), ("y",), (), None, 0),
        (("x", "y"), (), ("y",), "user", (2, 3)),
    ],
)
def test_the_integers_are_those_of_duckdb_and_of_the_reference(
    spark, values, variance, alone, user, kept
):
    options = {"user": user, "kept": kept, "variance": variance, "alone": alone}
    wanted = hostile.reference(hostile.ROWS, values, **options)
    found = exact(spark, hostile.ROWS, values=values, **options)
    assert found == wanted
    with DuckDB(hostile.table_of(hostile.ROWS), None) as engine:
        plan = hostile.plan_of(values, **options)
        assert hostile.totals(plan, engine) == found
    assert len(found) > 5


@pytest.mark.parametrize("hash", ["engine", "sha256"])
def test_a_user_moves_what_is_stated_and_no_more(spark, hash):
    k, r = 2, 3
    options = {"kept": (k, r), "hash": hash, "variance": ("y",)}
    unit = 2 ** hostile.plan_of(**options)._noise.bits
    whole = exact(spark, hostile.ROWS, **options)
    most, zero = np.zeros(7), (0,) * 7
    for user in ("ann", "a\0n", "jane doe 1961", "full"):
        left = [row for row in hostile.ROWS if row["user"] != user]
        rest = exact(spark, left, **options)
        keys = whole.keys() | rest.keys()
        moved = [np.subtract(whole.get(g, zero), rest.get(g, zero)) for g in keys]
        scaled = np.abs(np.array(moved, float)) / [1, 1, 1, 1, unit, unit, unit]
        most = np.maximum(most, scaled.sum(axis=0))
    assert most.tolist() == [k, *[k * r] * 5, k * r / 2]  # reached


# ---- what is released ------------------------------------------------------------


def released(source, **options):
    where = ("ledger", "label", "budgets", "memory", "stream")
    own = {name: options.pop(name) for name in where if name in options}
    return Plan(**{**ASK, **options}).release(source, **own)


def test_a_plan_gives_constants_and_charges_once(spark, visits, ledger):
    unit = Unit("user", groups=3, records=1, name="person")
    shown = {"keys": KEYS, "epsilon": 2, "unit": unit}
    shown |= {"ledger": ledger, "budgets": "users", "label": "w47"}
    first = released(visits, **shown)
    again = released(visits.repartition(2), **shown)
    table = first.table()
    assert type(table) is type(visits)
    assert table.columns == [
        *("town", "count", "count_low", "count_high"),
        *("cost_n", "cost_mean", "cost_mean_low", "cost_mean_high", "note"),
    ]
    assert table.collect() == table.collect() == again.table().collect()
    assert [row.town for row in table.collect()] == KEYS
    assert (first.replayed, again.replayed) == (False, True)
    assert spent(ledger, "users") == 2
    assert table.schema["town"].metadata["fastdp receipts"] == first.receipts_json
    with pytest.raises(LabelConflictError):
        released(visits, **{**shown, "bounds": {"cost": (0, 49)}})
    # The label is the transaction: on DuckDB the same question is replayed.
    here = released(VISITS, **shown)
    assert here.replayed
    assert here.table().to_pylist() == [row.asDict() for row in table.collect()]
    assert "`cost`" in first.plan.sql(visits)
    assert not [view for view in spark.catalog.listTables() if "fastdp" in view.name]


def test_a_plan_draws_what_it_draws_on_duckdb(visits):
    options = {"variance": "cost", "keys": KEYS, "rho": 1, "hash": "sha256"}
    there = released(visits, stream=FixedStream("s"), **options).table()
    here = released(VISITS, stream=FixedStream("s"), **options).table()
    assert here.equals(there.toArrow().cast(here.schema))


def test_private_keys_are_selected_and_may_be_none(spark, visits):
    found = released(visits, epsilon=30, delta=1e-6).table()
    assert [row.town for row in found.collect()] == ["t0", "t1", "t2"]
    none = released(visits.limit(0), epsilon=1, delta=1e-6).table()
    assert none.collect() == []
    # What is no UTF-8 is no key.
    broken = spark.sql("select decode(x'ff', 'iso-8859-1') as k from range(500)")
    broken = broken.selectExpr("cast(unhex('ff') as string) as k").union(broken)
    plan = Plan(unit="row", by="k", count=True, epsilon=30, delta=1e-6)
    assert [row.k for row in plan.release(broken).table().collect()] == ["ÿ"]


def test_without_by_and_with_missing_values_it_is_as_on_duckdb(spark):
    rows = pa.table({"who": [1, 1, 2, None], "x": [1.0, None, float("nan"), 5.0]})
    plan = Plan(
        unit=Unit("who", records=2),
        count=True,
        units=True,
        mean="x",
        quantiles={"x": [0.1, 0.5]},
        bounds={"x": (0, 4)},
        epsilon=1,
        hash="sha256",
    )
    here = plan.release(rows, stream=FixedStream("s")).table()
    there = plan.release(spark.createDataFrame(rows), stream=FixedStream("s")).table()
    assert here.equals(there.toArrow().cast(here.schema))


def test_release_draws_once(visits, ledger):
    counts = visits.groupBy("town").count()
    options = {"keys": "town", "ledger": ledger, "budgets": "users", "label": "c"}
    first = frames.release(counts, {"count": NOISE}, **options)
    assert first.collect() == first.collect()
    again = frames.release(counts, {"count": NOISE}, **options)
    assert again.collect() == first.collect()
    assert spent(ledger, "users") == 1
    other = fastdp.DiscreteLaplace.from_epsilon(2, sensitivity=1)
    with pytest.raises(LabelConflictError):
        frames.release(counts, {"count": other}, **options)


def test_reports_are_files_before_they_are_read(people, ledger, tmp_path):
    options = {"path": tmp_path / "it's out", "ledger": ledger, "budgets": "rows"}
    laws = {"browser": RESPONSE}
    reports = frames.randomize(people, laws, label="r", **options)
    rows = reports.collect()
    assert reports.columns == people.columns
    assert sorted(row["id.é"] for row in rows) == list(range(4000))
    assert reports.collect() == rows
    assert frames.randomize(people, laws, label="r", **options).collect() == rows
    assert spent(ledger, "rows") == 2
    assert staged(tmp_path) == []
    assert ledger.audit().ok
    tally = frames.tally(reports, RESPONSE, column="browser")
    drawn = np.array([row.browser for row in rows])
    assert tally == RESPONSE.aggregator().add(drawn)
    assert 0 < (drawn == np.arange(4000) % 16).mean() < 1
    other = fastdp.RandomizedResponse.from_epsilon(1, categories=16)
    with pytest.raises(LabelConflictError):
        frames.randomize(people, {"browser": other}, label="r", **options)
    with pytest.raises(ParameterError, match="must not exist"):
        frames.randomize(people, laws, path=options["path"])


def test_a_folder_that_workers_do_not_see(people, ledger, tmp_path, monkeypatch):
    """Reports would stay on the workers, and the folder be charged for and empty."""
    before = spent(ledger, "rows")
    monkeypatch.chdir(tmp_path)
    own = Path("/proc/self/cwd/reports")  # of each process another
    ask = {"path": own, "ledger": ledger, "budgets": "rows", "label": "unseen"}
    with pytest.raises(ParameterError, match="a worker does not see it"):
        frames.randomize(people, {"browser": RESPONSE}, **ask)
    assert spent(ledger, "rows") == before
    assert not any("reports" in place.name for place in tmp_path.iterdir())
    # A worker that came after all were asked draws nothing either.
    drawn = _drawn({"x": RESPONSE}, own, iter([None]))
    with pytest.raises(FastDPError, match="a worker does not see it"):
        next(drawn)


# ---- refused, before anything runs -----------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"by": "nowhere"}, "has no column 'nowhere'"),
        ({"by": "cost", "mean": (), "bounds": None}, "key 'cost' must not have"),
        ({"mean": "town", "by": "user", "bounds": {"town": (0, 1)}}, "must differ"),
        (
            {
                "unit": Unit("cost", groups=1, records=1),
                "mean": (),
                "bounds": None,
            },
            "user 'cost' must not have",
        ),
        ({"memory": "1GB"}, "left out on Spark"),
        ({"keys": ["a", "a"], "delta": None}, "without duplicates"),
        ({"keys": ["a", None], "delta": None}, "without duplicates"),
        ({"keys": pa.table({"town": [b"\xff"]}), "delta": None}, "of the types"),
    ],
)
def test_a_plan_refuses(visits, change, message):
    with pytest.raises((DTypeError, ParameterError), match=message):
        released(visits, **{"epsilon": 1, "delta": 1e-6, **change})


def boom(batches):
    raise AssertionError("jane doe 1961 was read")


def test_what_is_wrong_is_told_before_a_row_is_read(spark, visits, tmp_path):
    never = visits.mapInArrow(boom, visits.schema)
    laws = {"town": NOISE}
    for call, message in (
        (lambda: frames.release(never, {"x": NOISE}, keys="town", ledger=None), "'x'"),
        (lambda: frames.release(never, laws, keys="user", ledger=None), "town"),
        (
            lambda: frames.release(never, {"user": NOISE}, keys="cost", ledger=None),
            "key 'cost'",
        ),
        (lambda: frames.tally(never, RESPONSE, column="x"), "'x'"),
        (lambda: frames.tally(never, RESPONSE, column="town"), "town"),
        (lambda: frames.randomize(never, {"user": RESPONSE}), "path must be"),
        (lambda: frames.randomize(never, {"x": RESPONSE}, path=tmp_path / "o"), "'x'"),
        (
            lambda: frames.randomize(never, {"user": RESPONSE}, path="s3://bucket/o"),
            "no address",
        ),
        (
            lambda: frames.randomize(never, {"town": RESPONSE}, path=tmp_path / "o"),
            "town|values",
        ),
    ):
        with pytest.raises((DTypeError, ParameterError), match=message):
            call()
    assert list(tmp_path.iterdir()) == []
    twice = visits.selectExpr("town", "1 as n")
    with pytest.raises(ParameterError, match="each row once"):
        frames.release(twice, {"n": NOISE}, keys="town", ledger=None)
    twins = visits.selectExpr("town", "cost as a", "cost as A", "user")
    with pytest.raises(ParameterError, match="more than case"):
        Plan(unit="row", by="town", count=True, epsilon=1, keys=KEYS).release(twins)
    with pytest.raises(ParameterError, match="frame in memory"):
        frames.randomize(VISITS, {"user": RESPONSE}, path=tmp_path / "o")


def test_what_spark_says_of_a_cell_is_not_told(visits, ledger):
    broken = visits.selectExpr("town", "cast('jane doe 1961 ' || town as int) as n")
    options = {"keys": "town", "ledger": ledger, "budgets": "users", "label": "x"}
    with pytest.raises(FastDPError) as raised:
        frames.release(broken, {"n": NOISE}, **options)
    assert "jane" not in str(raised.value)
    assert raised.value.__suppress_context__
    assert spent(ledger, "users") == 0


def test_a_session_that_was_stopped_is_told(spark, visits, people, tmp_path):
    """Last of the file: it stops the engine."""
    spark.stop()
    for call in (
        lambda: released(visits, keys=KEYS, epsilon=1),
        lambda: frames.release(visits, {"user": NOISE}, keys="town", ledger=None),
        lambda: frames.randomize(people, {"browser": RESPONSE}, path=tmp_path / "o"),
        lambda: frames.tally(people, RESPONSE, column="browser"),
    ):
        with pytest.raises(FastDPError, match="was stopped"):
            call()
    assert list(tmp_path.iterdir()) == []
