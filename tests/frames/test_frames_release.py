"""Aggregates of any frame: one answer and one charge, where the naive line draws twice.

Two independent draws of 1000 groups are equal with a probability below 1e-500.
"""

from __future__ import annotations

import decimal
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import accounting, frames
from fastdp.exceptions import DTypeError, FastDPError, ParameterError
from fastdp.testing import FixedStream

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

GROUPS = 1000
M = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
RR = fastdp.RandomizedResponse.from_epsilon(1, categories=4)
TABLE = pa.table(
    {
        "key": [f"k{(7 * i) % GROUPS:03d}" for i in range(GROUPS)],
        "n": list(range(GROUPS)),
    }
)


#: DuckDB up to 1.4 closes a connection if only its relations are still referenced.
CONNECTION = duckdb.connect()


def relation(table: Any = TABLE) -> Any:
    return CONNECTION.from_arrow(table)


KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "pyarrow": (lambda t: t, lambda f: f),
    "pandas": (lambda t: t.to_pandas(), lambda f: pa.Table.from_pandas(f)),
    "polars": (pl.from_arrow, lambda f: f.to_arrow()),
    "duckdb": (relation, lambda f: pa.table(f)),
}


@pytest.fixture(params=KINDS)
def kind(request: Any) -> Any:
    return KINDS[request.param]


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with fastdp.ledger.create(tmp_path / "budget.db") as book:
        book.add_budget("clinic", accounting.PureFilter(2), unit="person")
        yield book


def listed(table: Any) -> list[Any]:
    found: list[Any] = pa.table(table).to_pydict()["n"]
    return found


# ---- the naive line, and ours ----------------------------------------------------


def naive_polars() -> tuple[list[Any], list[Any]]:
    noisy = pl.from_arrow(TABLE).lazy().with_columns(pl.col("n").map_batches(M.release))
    return listed(noisy.collect()), listed(noisy.collect())


def naive_duckdb() -> tuple[list[Any], list[Any]]:
    connection = duckdb.connect()
    connection.register("counts", TABLE)
    connection.create_function(
        *("noisy", lambda x: M.release(x), ["BIGINT"], "BIGINT"),
        type="arrow",
        side_effects=True,
    )
    connection.execute("create view release as select key, noisy(n) as n from counts")
    read = "select * from release"
    return listed(connection.sql(read)), listed(connection.sql(read))


def naive_pandas() -> tuple[list[Any], list[Any]]:
    def task() -> Any:  # what a scheduler calls again after a failure
        frame = TABLE.to_pandas()
        return frame.assign(n=M.release(frame.n))

    return listed(task()), listed(task())


def naive_pyarrow() -> tuple[list[Any], list[Any]]:
    def task() -> Any:
        return TABLE.set_column(1, "n", M.release(TABLE["n"]))

    return listed(task()), listed(task())


NAIVE = {
    "polars": naive_polars,
    "duckdb": naive_duckdb,
    "pandas": naive_pandas,
    "pyarrow": naive_pyarrow,
}


@pytest.mark.parametrize("library", NAIVE)
def test_the_naive_line_draws_twice_and_ours_once(library: str, ledger: Any) -> None:
    first, second = NAIVE[library]()
    assert first != second
    make, _ = KINDS[library]
    options = {"keys": "key", "ledger": ledger, "budgets": "clinic", "label": "w47"}
    out = frames.release(make(TABLE), {"n": M}, **options)
    assert listed(out) == listed(out)
    # A retry: groups in another order, another process's ledger.
    turned = TABLE.take(np.arange(GROUPS)[::-1])
    again = frames.release(make(turned), {"n": M}, **options)
    assert listed(again) == listed(out)
    assert str(ledger.budget("clinic")) == "epsilon 1 of 2"


# ---- what comes back -------------------------------------------------------------


def test_release_is_that_of_the_values_sorted_by_key(kind: Any) -> None:
    make, back = kind
    frame = make(TABLE)
    out = frames.release(
        frame, {"n": M}, keys="key", ledger=None, stream=FixedStream("s")
    )
    assert type(out) is type(frame)
    order = np.argsort(TABLE["key"].to_pylist())
    values = np.array(TABLE["n"].to_pylist())[order]
    assert listed(out) == M.release(values, stream=FixedStream("s")).tolist()
    assert back(out)["key"].to_pylist() == sorted(TABLE["key"].to_pylist())


def test_relations_of_one_connection_join() -> None:
    connection = duckdb.connect()
    connection.execute("create table names as select 'k001' as key, 'Oslo' as name")
    counts = connection.from_arrow(TABLE)
    out = frames.release(counts, {"n": M}, keys="key", ledger=None)
    joined = out.join(connection.table("names"), "key")
    assert joined.fetchall() == joined.fetchall()


def test_keys_of_every_type_come_back(ledger: Any) -> None:
    keys = {
        "text": ["", "a\0", None, "é"],
        "day": pa.array([1, None, 3, 0], pa.date32()),
        "hour": pa.array([5, 2**40, None, 0], pa.timestamp("us", "UTC")),
        "flag": [True, None, False, True],
        "part": pa.array(["x", None, "y", "x"]).dictionary_encode(),
        "size": pa.array([2**63, None, 0, 1], pa.uint64()),
        "price": pa.array([decimal.Decimal("1.20"), None] * 2),
        "id": pa.array([4, 3, 2, 1], pa.int8()),
    }
    table = pa.table({**keys, "n": [1, 2, 3, 4]})
    plain = frames.release(table, {"n": M}, keys=list(keys), ledger=None)
    for label in ("a", "a"):
        out = frames.release(
            *(table, {"n": M}),
            keys=list(keys),
            ledger=ledger,
            label=label,
            budgets="clinic",
        )
        for name in keys:
            assert out[name].to_pylist() == plain[name].to_pylist(), name
            assert out[name].type == plain[name].type
    by_id = dict(zip(*(table[n].to_pylist() for n in ("id", "text")), strict=True))
    shown = dict(zip(*(out[n].to_pylist() for n in ("id", "text")), strict=True))
    assert shown == by_id


def test_receipts_come_with_the_frame(ledger: Any) -> None:
    options = {"keys": "key", "ledger": ledger, "label": "l", "budgets": "clinic"}
    out = frames.release(TABLE, {"n": M}, **options)
    text = out.schema.metadata[b"fastdp receipts"].decode()
    assert ledger.audit(receipts=fastdp.ledger.receipts_from_json(text)).problems == []
    same = frames.release(TABLE.to_pandas(), {"n": M}, **options)
    assert same.attrs["fastdp receipts"] == text


def test_an_index_of_pandas_names_rows() -> None:
    visits = pd.DataFrame({"clinic": ["b", "a", "b"], "x": [1, 2, 3]})
    counts = visits.groupby("clinic").count()
    out = frames.release(counts, {"x": M}, keys="clinic", ledger=None)
    assert out.index.tolist() == ["a", "b"]
    assert list(out.columns) == ["x"]


def test_sums_of_duckdb_saturate() -> None:
    wide = CONNECTION.sql(
        "select 1 as key, 2::hugeint ** 100 as x, sum(5) as n "
        "union all select 2, -(2::hugeint ** 100), 7"
    )
    table = pa.table(wide)
    table = table.set_column(1, "x", pa.array([10**37, -(10**37)], pa.decimal128(38)))
    out = frames.release(table, {"x": M, "n": M}, keys="key", ledger=None)
    assert out["x"].to_pylist()[0] > 2**62
    assert out["x"].to_pylist()[1] < -(2**62)
    # Within 10 of the sum but with a probability below 1e-9: 100 scales.
    assert abs(out["n"].to_pylist()[1] - 7) < 100


# ---- refused ---------------------------------------------------------------------

UNCALIBRATED = fastdp.DiscreteLaplace(scale=2)


@pytest.mark.parametrize(
    ("frame", "columns", "options", "message"),
    [
        (pl.from_arrow(TABLE).lazy(), {"n": M}, {}, "collect"),
        (TABLE.to_pandas().n, {"n": M}, {}, "reset_index"),
        ([1, 2], {"n": M}, {}, "stream protocol"),
        (TABLE, {"m": M}, {}, "frame has no column 'm'"),
        (TABLE, {"key": M}, {}, "must differ, got 'key'"),
        (TABLE, {"n": UNCALIBRATED}, {}, "sensitivity must be given"),
        (TABLE, {"n": RR}, {}, "frames.randomize"),
        (TABLE, {}, {}, "at least one column"),
        (TABLE, [M], {}, "dict of mechanisms"),
        (TABLE, {"n": M}, {"label": "x"}, "require a ledger"),
        (TABLE, {"n": M}, {"ledger": "budget.db"}, "ledger must be a Ledger"),
        (pa.concat_tables([TABLE, TABLE]), {"n": M}, {}, "name each row once"),
        (pa.table({"key": [1.5], "n": [1]}), {"n": M}, {}, "key 'key' must be of"),
        (pa.table({"key": [1], "n": ["a"]}), {"n": M}, {}, "integers, floats or bools"),
        (pd.DataFrame({"key": [1, 2], "n": [1, "a"]}), {"n": M}, {}, "floats or bools"),
    ],
)
def test_refusals(frame: Any, columns: Any, options: Any, message: str) -> None:
    with pytest.raises((DTypeError, ParameterError), match=message):
        frames.release(frame, columns, **{"keys": "key", "ledger": None, **options})


@pytest.mark.parametrize("keys", [["a"], ["b"], ["a", "b"]])
def test_rows_of_one_key_are_refused_and_no_others(keys: list[str]) -> None:
    rows = [("x", None), (None, 1), ("x", 1), (None, None), ("y", 2)]
    for more in (None, *rows):
        listed = rows if more is None else [*rows, more]
        a, b = zip(*listed, strict=True)
        table = pa.table(
            {"a": pa.array(a), "b": pa.array(b, pa.int32()), "n": [1] * len(a)}
        )
        if len(keys) == 2 and more is None:
            out = frames.release(table, {"n": M}, keys=keys, ledger=None)
            assert out.num_rows == len(rows)
        else:
            with pytest.raises(ParameterError, match="name each row once"):
                frames.release(table, {"n": M}, keys=keys, ledger=None)
    empty = frames.release(table.slice(0, 0), {"n": M}, keys=keys, ledger=None)
    assert empty.num_rows == 0


def test_the_ledger_must_be_written_out() -> None:
    with pytest.raises(TypeError, match="ledger"):
        frames.release(TABLE, {"n": M}, keys="key")


@pytest.mark.parametrize("make", [kind[0] for kind in KINDS.values()], ids=KINDS)
def test_a_frame_for_a_mechanism_is_told_the_line(make: Any) -> None:
    with pytest.raises(DTypeError, match=r"write fastdp\.frames\.release\(frame"):
        M.release(make(TABLE))
    with pytest.raises(DTypeError, match=r"write fastdp\.frames\.randomize\(frame"):
        RR.release(make(TABLE))


def test_a_lazy_frame_for_a_mechanism_is_told_to_collect() -> None:
    with pytest.raises(DTypeError, match="collect"):
        M.release(pl.from_arrow(TABLE).lazy())


def test_a_value_never_shows() -> None:
    secret = "jane doe 1961"
    frame = pd.DataFrame({"key": [1, 2], "n": [5, secret]})
    with pytest.raises(FastDPError) as raised:
        frames.release(frame, {"n": M}, keys="key", ledger=None)
    shown = raised.value
    while shown is not None:
        assert secret not in str(shown)
        shown = None if shown.__suppress_context__ else shown.__context__


# ---- rows ------------------------------------------------------------------------


def test_randomize_is_the_kernel_on_the_column(kind: Any) -> None:
    make, back = kind
    table = pa.table({"n": [0, 1, 2, 3, 9] * 50, "rest": list(range(250))})
    frame = make(table)
    out = frames.randomize(frame, {"n": RR}, stream=FixedStream("s"))
    assert type(out) is type(frame)
    values = np.array(table["n"].to_pylist())
    assert listed(back(out)) == RR.release(values, stream=FixedStream("s")).tolist()
    assert back(out)["rest"].to_pylist() == table["rest"].to_pylist()
    assert listed(back(out)) == listed(back(out))


def test_batches_stream_and_tallies_merge() -> None:
    table = pa.table({"n": [0, 1, 2, 3] * 100})
    function = pickle.loads(pickle.dumps(frames.batches(RR, "n")))
    reports = list(function(iter(table.to_batches(max_chunksize=64))))
    assert [b.num_rows for b in reports] == [64] * 6 + [16]
    whole = frames.tally(reports, RR, column="n")
    assert whole.users == 400
    halves = [frames.tally(part, RR, column="n") for part in (reports[:3], reports[3:])]
    assert halves[0].merge(pickle.loads(pickle.dumps(halves[1]))) == whole
    assert frames.tally(pa.Table.from_batches(reports), RR, column="n") == whole


def test_reports_of_bools_are_tallied() -> None:
    binary = fastdp.RandomizedResponse.from_epsilon(1)
    out = frames.randomize(pl.DataFrame({"n": [True, False]}), {"n": binary})
    assert frames.tally(out, binary, column="n").users == 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"n": M}, "frames.release"),
        ({"n": fastdp.UnaryEncoding.from_epsilon(1, categories=9)}, "single numbers"),
        ({"m": RR}, "no column 'm'"),
    ],
)
def test_randomize_refuses(kind: Any, columns: Any, message: str) -> None:
    with pytest.raises((DTypeError, ParameterError), match=message):
        frames.randomize(kind[0](TABLE), columns)
