"""Sources as they come: long keys, dates of every year, names, files and nulls."""

from __future__ import annotations

import contextlib
import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

import fastdp
from fastdp import Plan, Unit, accounting, frames
from fastdp.exceptions import DTypeError, FastDPError, ParameterError
from fastdp.ledger import _shown
from fastdp.mechanisms import _keys
from fastdp.testing import FixedStream

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
parquet = pytest.importorskip("pyarrow.parquet")

#: With this budget a group of 100 rows is hidden with probability below 1e-12. One of
#: 100,000 groups of one row is shown with probability below 1e-13.
ASK: dict[str, Any] = {"count": True, "epsilon": 2, "delta": 1e-18}
#: Noise of epsilon 30 is not 0 with probability below 1e-12.
EXACT: dict[str, Any] = {"count": True, "epsilon": 30}


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with fastdp.ledger.create(tmp_path / "budget.db") as book:
        for name, unit in (("b", "row"), ("of users", "user")):
            rule = accounting.ApproximateFilter(epsilon=90, delta=1e-4)
            book.add_budget(name, rule, unit=unit)
        yield book


def released(source: Any, **options: Any) -> Any:
    where = ("ledger", "label", "budgets", "stream")
    own = {name: options.pop(name) for name in where if name in options}
    return Plan(**{"unit": "row", **options}).release(source, **own)


def one_of(column: str) -> Any:
    return Unit(column, groups=1, records=1, name="user")


def kept(ledger: Any, label: str = "l") -> dict[str, Any]:
    return {"ledger": ledger, "label": label, "budgets": "b"}


# ---- long keys -------------------------------------------------------------------


def test_one_long_key_among_many_is_no_error(ledger: Any) -> None:
    """100,000 keys as wide as this one would be a terabyte."""
    rare = [f"{i}" for i in range(100_000)]
    rows = pa.table({"k": ["seen"] * 200 + rare + ["x" * 10**7]})
    for how in (kept(ledger), {}):
        found = released(rows, by="k", **ASK, **how)
        assert found.table()["k"].to_pylist() == ["seen"]
        assert found.table()["k"].type == pa.string()


@pytest.mark.parametrize("encoded", [False, True])
def test_a_key_is_as_long_as_stated(ledger: Any, encoded: bool) -> None:
    most = "é" * 512  # 1024 bytes
    keys = pa.array([most, most + "x", "a\0", ""] * 200)
    rows = pa.table({"k": keys.dictionary_encode() if encoded else keys})
    for how in (kept(ledger), kept(ledger), {}):
        found = released(rows, by="k", **ASK, **how)
        assert found.table()["k"].to_pylist() == ["", "a\0", most]
    listed = pa.table({"k": [most + "x"]})
    public = released(rows, by="k", keys=listed, **EXACT)
    assert public.table()["count"].to_pylist() == [200]


def test_what_is_shown_fits_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {
        "t": np.array([b"bb", b"a", b"cccc", b"dd"], object),
        "u": np.array(["x", "y", "z", "zz"]),
        "i": np.arange(4, dtype=np.int32),
    }
    mask = np.array([True, True, False, True])
    assert _shown.kept(keys, mask, 9, 8).tolist() == [1, 0, 3]
    assert _shown.kept(keys, mask, 2, 8).tolist() == [1, 0]
    monkeypatch.setattr(_shown, "_LIMIT", 2 * (8 + 2 + 8 + 4))
    assert _shown.kept(keys, mask, 9, 8).tolist() == [1, 0]


def test_objects_in_a_ledger_are_bytes_and_selected(ledger: Any) -> None:
    m = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    cells = {"n": (m, np.array([1, 2]))}
    options = {"label": "o", "budgets": "b"}
    for column, select in (([b"a", "b"], True), ([b"a", b"b"], False)):
        chosen: dict[str, Any] = {}
        if select:
            law = fastdp.KeySelection(epsilon=1, delta=1e-6, keys_per_user=1)
            chosen = {"select": (law, np.array([1, 2])), "most_rows": 2}
        keys = {"k": np.array(column, object)}
        with pytest.raises(DTypeError, match="keys 'k' must be"):
            ledger.table(cells, keys=keys, **options, **chosen)


# ---- dates and times -------------------------------------------------------------

TIMES = {
    "date32": (pa.date32(), [-(2**31) + 3, 0, 2**31 - 2]),
    "time32": (pa.time32("ms"), [0, 86_399_999]),
    "time64": (pa.time64("us"), [0, 86_399_999_999]),
    "timestamp": (pa.timestamp("us"), [-(2**62), 0, 2**63 - 3]),
    "zoned": (pa.timestamp("us", "UTC"), [0, 2**63 - 3]),
}


def numbers_of(column: Any) -> list[Any]:
    width = pa.int32() if column.type.bit_width == 32 else pa.int64()
    return list(column.cast(width).to_pylist())


@pytest.mark.parametrize("name", TIMES)
def test_dates_and_times_of_a_ledger_can_be_read(ledger: Any, name: str) -> None:
    type_, numbers = TIMES[name]
    width = pa.int32() if type_.bit_width == 32 else pa.int64()
    rows = pa.table({"k": pa.array(numbers * 200, width).cast(type_)})
    plain = released(rows, by="k", **ASK).table()["k"]
    assert len(plain) == len(numbers)
    for _ in range(2):
        found = released(rows, by="k", **ASK, **kept(ledger)).table()["k"]
        assert found.type == plain.type
        assert numbers_of(found) == numbers_of(plain)


@pytest.mark.parametrize("name", TIMES)
def test_released_rows_of_dates_and_nulls_can_be_read(ledger: Any, name: str) -> None:
    type_, numbers = TIMES[name]
    width = pa.int32() if type_.bit_width == 32 else pa.int64()
    column = pa.array([*numbers, None], width).cast(type_)
    rows = pa.table({"k": column, "n": np.arange(len(column))})
    m = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    for _ in range(2):
        found = frames.release(rows, {"n": m}, keys="k", **kept(ledger))
        assert found["k"].type == type_
        assert numbers_of(found["k"]) == [*numbers, None]


def test_dates_that_python_has_not_come_to_pandas(ledger: Any) -> None:
    days = pa.array([10, 2**31 - 2] * 200, pa.int32()).cast(pa.date32())
    frame = pa.table({"k": days}).to_pandas(types_mapper=pd.ArrowDtype)
    found = released(frame, by="k", **ASK, **kept(ledger)).table()
    assert len(found) == 2
    near = frame[frame.k == datetime.date(1970, 1, 11)]
    found = released(near, by="k", **ASK, **kept(ledger, "near")).table()
    assert found.k.tolist() == [datetime.date(1970, 1, 11)]


def test_intervals_are_no_keys() -> None:
    spans = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    m = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    rows = pa.table({"k": spans, "n": [1]})
    with pytest.raises(DTypeError, match="key 'k' must be of"):
        frames.release(rows, {"n": m}, keys="k", ledger=None)


# ---- pandas, and columns of nulls ------------------------------------------------


def test_columns_that_nobody_named_are_not_read() -> None:
    notes: list[Any] = ["a", 3.5] * 100
    frame = pd.DataFrame({"k": ["x", "y"] * 100, "note": notes})
    found = released(
        frame, by="k", keys=pd.DataFrame({"k": ["x"]}), **EXACT, ledger=None
    )
    assert found.table()["count"].tolist() == [100]
    listed = pd.DataFrame({"note": ["a", "3.5"]})
    found = released(frame, by="note", keys=listed, **EXACT)
    assert found.table()["count"].tolist() == [100, 100]


@pytest.mark.parametrize(
    "kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"]
)
def test_a_column_of_nulls_is_one_of_any_type(kind: Any, ledger: Any) -> None:
    nulls: list[Any] = [None] * 9
    rows = kind({"k": nulls, "u": nulls, "x": nulls})
    ask = {**ASK, "by": "k", "mean": "x", "bounds": {"x": (0, 1)}, "unit": one_of("u")}
    for how in ({**kept(ledger), "budgets": "of users"}, {}):
        assert len(released(rows, **ask, **how).table()) == 0
    listed = pa.table({"k": ["a"]})
    found = released(rows, by="k", keys=listed, **EXACT)
    assert list(found.table()["count"]) in ([0], [pa.scalar(0)])


def test_an_index_of_pandas_names_groups() -> None:
    frame = pd.DataFrame({"k": ["x"] * 200, "v": range(200)}).set_index("k")
    found = released(frame, by="k", **ASK)
    assert found.table().index.tolist() == ["x"]


# ---- files and names -------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a[1]", "a*", "a?", "a[!2]", "{a1,a2}", "**", "it's", "~", "file:a1"]
)
def test_a_path_is_one_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for other in ("a1", "a2", "ab"):
        parquet.write_table(pa.table({"k": ["x"] * 50}), f"{other}.parquet")
    asked: dict[str, Any] = {
        "by": "k",
        "keys": pa.table({"k": ["x"]}),
        **EXACT,
    }
    with pytest.raises(FastDPError, match="is not a file"):
        released(f"{name}.parquet", **asked)
    with Path(f"{name}.parquet").open("wb") as file:
        parquet.write_table(pa.table({"k": ["x"] * 7}), file)
    for path in (f"{name}.parquet", tmp_path / f"{name}.parquet"):
        found = released(path, **asked)
        assert found.table()["count"].to_pylist() == [7]


@pytest.mark.parametrize("names", [["T", "t", "t_1"], ["t", "t", "t_1"], ["É", "é"]])
def test_names_that_are_one_to_the_engine_are_refused(
    names: list[str], tmp_path: Path
) -> None:
    rows = pa.table([["x"]] * len(names), names=names)
    sources: list[Any] = [rows, rows.to_reader()]
    if len(set(names)) == len(names):
        parquet.write_table(rows, tmp_path / "rows.parquet")
        sources += [tmp_path / "rows.parquet", pl.from_arrow(rows)]
    for source in sources:
        with pytest.raises(ParameterError, match="differ by more than case"):
            released(source, by=names[-1], **ASK)


def test_a_named_column_of_pandas_is_the_one_that_is_read() -> None:
    frame = pd.DataFrame({"T": ["a"] * 200, "t": ["b"] * 200, "t_1": ["c"] * 200})
    for name, key in (("T", "a"), ("t", "b"), ("t_1", "c")):
        found = released(frame, by=name, **ASK)
        assert found.table()[name].tolist() == [key]


# ---- Python objects --------------------------------------------------------------

#: What a record among text may hold, and the key that it is.
OTHERS: list[tuple[Any, str | None]] = [
    *((None, None), (np.nan, None), (pd.NA, None), (pd.NaT, None), ("\ud800", None)),
    *((1j, None), ([1], None), (object(), None), (b"\xff", None), (10**5000, None)),
    *((2**70, str(2**70)), (True, "1"), (2.0, "2"), (0.5, "0.5"), (1e300, None)),
    *((np.float16(1.5), "1.5"), (np.float32(2**24), None), (np.int8(3), "3")),
    *((b"b", "b"), (np.str_("x"), "x"), (Decimal("Infinity"), None)),
    *((Decimal("1.500"), "1.5"), (Decimal("-0.0120"), "-0.012"), (Decimal("7"), "7")),
    *((Decimal("sNaN"), None), (Decimal("0e99"), "0"), (Decimal("1e-9999"), None)),
    *((Decimal("9" * 80), "9" * 80), (Decimal("1E+3"), "1000"), (Decimal("-5"), "-5")),
    *((datetime.date(9999, 12, 31), "9999-12-31"), (datetime.time(1), "01:00:00")),
    *(
        (pd.Timestamp("2020-01-01"), "2020-01-01 00:00:00"),
        (np.datetime64("NaT", "us"), None),
    ),
    (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
]


def drawn() -> dict[str, Any]:
    return {"stream": FixedStream("objects")}


@pytest.mark.parametrize(("other", "key"), OTHERS, ids=range(len(OTHERS)))
def test_an_object_is_a_key_by_itself(other: Any, key: str | None) -> None:
    """A record changes no type, no error and no other's key."""
    assert _keys.texts_of(["a", other]) == ["a", key]
    column = pd.Series(["a"] * 3 + [other], dtype=object)
    columns = [column]
    with contextlib.suppress(TypeError, UnicodeEncodeError):  # no category to pandas
        columns.append(column.astype("category"))
    for held in columns:
        rows = pd.DataFrame({"g": held, "one": "a"})
        listed = pd.DataFrame({"g": ["a", *([] if key is None else [key])]})
        found = released(rows, by="g", keys=listed, **EXACT, **drawn()).table()
        assert dict(zip(found["g"], found["count"], strict=True)) == (
            {"a": 3} if key is None else {"a": 3, key: 1}
        )
        one = pd.DataFrame({"one": ["a"]})
        options = {"by": "one", "keys": one, "unit": one_of("g"), **EXACT}
        found = released(rows, **options, **drawn()).table()
        assert found["count"].tolist() == [1 if key is None else 2]


@pytest.mark.parametrize(
    "other", [other for other, _ in OTHERS], ids=range(len(OTHERS))
)
def test_an_object_is_a_number_by_itself(other: Any) -> None:
    """Between bounds it is one number; what is none leaves out the sum alone."""
    value = pd.Series([1, 2.5, other], dtype=object)
    rows = pd.DataFrame({"g": ["a", "a", "b"], "v": value})
    options: dict[str, Any] = {"by": "g", "sum": "v", "bounds": {"v": (0, 5)}}
    listed = pd.DataFrame({"g": ["a", "b"]})
    found = released(rows, keys=listed, **options, **EXACT, **drawn()).table()
    assert [str(found[c].dtype) for c in ("count", "v_sum")] == ["int64", "float64"]
    sure: Any = {"unit": "row", "epsilon": 1e9, "stream": FixedStream("n")}
    number = fastdp.sum([other], bounds=(0, 5), **sure)
    assert abs(found["v_sum"][1] - number.value) < 3
    assert found["count"].tolist() == [2, 1]


def test_decimals_of_one_record_change_no_key() -> None:
    def shown(more: list[Decimal]) -> Any:
        cells = [Decimal("1.5")] * 300 + [Decimal("2.50")] * 300
        frame = pd.DataFrame({"k": pd.Series(cells + more, dtype=object)})
        return released(frame, by="k", **ASK, **drawn()).table()["k"]

    one = shown([])
    assert one.tolist() == ["1.5", "2.5"]
    for more in ("0.000000001", "1e20", "9" * 80, "NaN"):
        assert shown([Decimal(more)]).equals(one)


def test_text_that_is_not_utf8_is_null(tmp_path: Path) -> None:
    """In a table, a stream and a file one such text is no error."""

    def text(type_: Any, rows: list[bytes]) -> Any:
        view = pa.binary_view() if type_ == pa.string_view() else pa.binary()
        return pa.array(rows, view).view(type_)

    def shown(rows: Any, of: str) -> list[int]:
        options: dict[str, Any] = (
            {"by": "one", "unit": one_of("k")} if of == "u" else {"by": "k"}
        )
        listed = pa.table({options["by"]: ["a"]})
        found = released(rows, keys=listed, **options, **EXACT, **drawn())
        counts: list[int] = found.table()["count"].to_pylist()
        return counts

    cells = [b"a"] * 5 + [b"\xff", b"\xed\xa0\x80"]
    encoded = text(pa.string(), cells).dictionary_encode()
    for column in (text(pa.string(), cells), text(pa.string_view(), cells), encoded):
        rows = pa.table({"k": column, "one": ["a"] * 7})
        path = tmp_path / "rows.parquet"
        for of, count in (("k", 5), ("u", 1)):
            assert shown(rows, of) == [count]
            assert shown(rows.to_reader(2), of) == [count]
        if column is not encoded:  # pyarrow writes none such
            parquet.write_table(rows, path)
            assert [shown(path, "k"), shown(path, "u")] == [[5], [1]]


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("unit", ["s", "ms"])
def test_a_time_beyond_the_microseconds_is_null(
    tmp_path: Path, unit: str, zone: str | None
) -> None:
    """One such time, as of programs that write "never" so, is no error."""
    path = tmp_path / "rows.parquet"
    listed = pa.table({"k": pa.array([7], pa.timestamp(unit, zone))})
    for far in (2**63 - 1, -(2**63)):
        times = pa.array([7] * 5 + [far], pa.int64()).view(pa.timestamp(unit, zone))
        for column in (times, times.dictionary_encode()):
            rows = pa.table({"k": column})
            sources = [rows, rows.to_reader(2)]
            if unit == "ms":  # files have no seconds
                parquet.write_table(rows, path)
                sources.append(path)
            for source in sources:
                found = released(
                    source, by="k", keys=listed, **EXACT, **drawn()
                ).table()
                assert found["count"].to_pylist() == [5]
                assert found["k"].type.unit == "us"


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1] * 6, pa.timestamp("ms")),
        pa.array([1] * 6, pa.duration("us")),
        pa.array([1] * 6, pa.decimal256(30, 0)),
        pa.array(np.ones(6, np.float16)),
    ],
    ids=lambda column: str(column.type),
)
def test_a_text_changes_no_type_of_another_column(tmp_path: Path, column: Any) -> None:
    def told(text: bytes) -> str:
        users = pa.array([b"a", b"b", b"c", b"d", b"e", text]).view(pa.string())
        parquet.write_table(pa.table({"k": column, "u": users}), path)
        number = column.type == pa.float16()
        asked = {"by": "u", "mean": "k", "bounds": {"k": (0, 2)}}
        keyed = {"by": "k", "unit": one_of("u")}
        try:
            found = released(path, **(asked if number else keyed), **ASK, **drawn())
        except FastDPError as error:
            return str(error)
        return str(found.table().schema)

    path = tmp_path / "rows.parquet"
    assert told(b"f") == told(b"\xff")


def test_times_of_day_have_no_text_to_hash() -> None:
    for far in (1, -1, 2**40):
        times = pa.array([1] * 5 + [far], pa.int64()).view(pa.time64("us"))
        rows = pa.table({"k": times, "u": range(6)})
        found = released(rows, by="k", unit=one_of("u"), **ASK, **drawn())
        assert found.table()["k"].type == times.type
        with pytest.raises(DTypeError, match='"engine" if a key is a time of day'):
            released(rows, by="k", unit=one_of("u"), hash="sha256", **ASK, **drawn())


def test_types_that_the_engine_has_not_are_refused_in_our_words() -> None:
    sparse = pd.DataFrame({"k": pd.arrays.SparseArray([0, 1])})
    with pytest.raises(DTypeError, match="source must hold columns of one Arrow type"):
        released(sparse, by="k", **ASK, **drawn())
    wide = pa.table({"k": pa.array([[1], [2]], pa.list_(pa.decimal256(60, 0)))})
    for rows in (wide, wide.slice(0, 0)):
        with pytest.raises(FastDPError, match="source cannot be read") as caught:
            released(rows, by="k", **ASK, **drawn())
        assert "60" not in str(caught.value)
