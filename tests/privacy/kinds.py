"""Columns of every kind with one hostile record.

A kind is a declared type. Its columns hold plain records; one record is then changed
to a hostile one of the same type, or taken out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pyarrow import compute

NAN = float("nan")

#: Python objects that nobody expects, for columns whose elements have no declared type.
OBJECTS: list[Any] = [
    *(None, NAN, pd.NA, pd.NaT, "", "\ud800", "a\0b", "x" * 3000, b"\xff", b"b"),
    *(True, 0, -1, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 2**70, 10**5000),
    *(1.5, -0.0, 1e300, float("inf"), 5e-324, 1j, [1], (1,), {}, object()),
    *(np.float16(1.5), np.float32(2**24), np.int8(-3), np.uint64(2**64 - 1)),
    *(np.bool_(1), np.longdouble(0.1), np.str_("n"), np.bytes_(b"n")),
    *(np.datetime64("2020-01-01"), np.datetime64("NaT", "us"), np.timedelta64(3, "s")),
    *(Decimal("0.000000001"), Decimal("1e50"), Decimal("9" * 80), Decimal("1e-9999")),
    *(Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("-0")),
    *(Fraction(1, 3), Fraction(10**400), UUID(int=7), dt.date(9999, 12, 31)),
    *(dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.time(1), dt.timedelta(1)),
    *(pd.Timestamp("2020-01-01", tz="Europe/Oslo"), type, range(3)),
]
REALS = [NAN, float("inf"), float("-inf"), -0.0, 5e-324, 0.1, 1.5, 1e300, 2.0**53, None]
TEXTS = ["", "a\0b", "x" * 3000, "\u00e9", "e\u0301", " a", None]
BYTES = [b"", b"\xff\xfe", b"\xed\xa0\x80", b"a\0", b"x" * 3000, None]
WORDS = ["a", "b", "c"]
NUMBERS = [1, 2, 3]
DECIMALS = [Decimal("0.001"), Decimal("9" * 30), Decimal("-1.5"), None]
DAYS = [dt.date(2020, 1, 1), dt.date(2021, 1, 1)]
TIMES = [dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)]


@dataclass(frozen=True)
class Kind:
    """A declared type: what makes a column of it, plain records and hostile ones."""

    name: str
    make: Callable[[list[Any]], Any]
    plain: list[Any]
    hostile: list[Any]


def _ends(dtype: Any) -> list[int]:
    edge = np.iinfo(dtype)
    return [edge.min, edge.max, 0, min(edge.max, 2**53 + 1)]


def _numpy() -> list[Kind]:
    def plain(dtype: Any) -> Callable[[list[Any]], Any]:
        return lambda v: np.array([NAN if x is None else x for x in v]).astype(dtype)

    found = [
        Kind(d, lambda v, d=d: np.array(v, d), NUMBERS, _ends(d))
        for d in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4")
    ]
    found += [
        Kind(d, lambda v, d=d: np.array(v, d), [1.0, 2.0, 1.5], [*REALS[:4], 0.25])
        for d in ("f2", "f4", "f8", "g", ">f8")
    ]
    return [
        *found,
        Kind("bool", lambda v: np.array(v, bool), [True, False], [True, False]),
        Kind("U9", lambda v: np.array(v, "U9"), WORDS, ["", "\ud800", "a\0", "x" * 9]),
        Kind("S9", lambda v: np.array(v, "S9"), [b"a", b"b"], BYTES[:4]),
        Kind(
            "M8", lambda v: np.array(v, "M8[D]"), ["2020-01-01"], ["NaT", "9999-01-01"]
        ),
        Kind("m8", lambda v: np.array(v, "m8[s]"), [1, 2], ["NaT", 2**62]),
        Kind("complex", plain("c16"), [1, 2], [NAN, 1j]),
        Kind(
            "text",
            lambda v: np.array(v, np.dtypes.StringDType(na_object=None)),
            *(WORDS, TEXTS),
        ),
        Kind("objects", _objects, WORDS, OBJECTS),
        Kind("object numbers", _objects, NUMBERS, OBJECTS),
        Kind("list", list, WORDS, OBJECTS),
        Kind("list of numbers", list, [1, 2, 2.5], OBJECTS),
        Kind("tuple", tuple, NUMBERS, OBJECTS),
    ]


def _objects(items: list[Any]) -> Any:
    return np.fromiter(items, object, len(items))


def _pandas() -> list[Kind]:
    def of(dtype: Any) -> Callable[[list[Any]], Any]:
        return lambda v: pd.Series(v, dtype=dtype)

    def category(categories: list[Any]) -> Callable[[list[Any]], Any]:
        index = pd.Index(categories, dtype=object if "mix" in categories else None)
        type_ = pd.CategoricalDtype(index)
        return lambda v: pd.Series(pd.Categorical(v, dtype=type_))

    whole = [2**53 + 1, -(2**63), 2**63 - 1, None]
    arrow = {
        "int64": (pa.int64(), NUMBERS, whole),
        "double": (pa.float64(), [1.0, 2.0], REALS),
        "bool": (pa.bool_(), [True, False], [None]),
        "decimal": (pa.decimal128(38, 3), [Decimal(1), Decimal(2)], DECIMALS),
        "date": (pa.date32(), DAYS, [None, dt.date(1, 1, 1)]),
        "binary": (pa.binary(), [b"a", b"b"], BYTES),
        "list": (pa.list_(pa.int64()), [[1], [2]], [None, []]),
        "string": (pa.string(), WORDS, TEXTS),
    }
    return [
        *(Kind(f"pandas {d}", of(d), NUMBERS, _ends(d)) for d in ("int8", "int64")),
        *(
            Kind(f"pandas {d}", of(d), [1.0, 2.0], REALS)
            for d in ("float32", "float64", "Float32", "Float64")
        ),
        *(
            Kind(f"pandas {d}", of(d), NUMBERS, [0, 100, None])
            for d in ("Int8", "UInt8")
        ),
        Kind("pandas Int64", of("Int64"), NUMBERS, whole),
        Kind("pandas bool", of("bool"), [True, False], [True, False]),
        Kind("pandas boolean", of("boolean"), [True, False], [None]),
        Kind("pandas str", of("str"), WORDS, TEXTS),
        Kind(
            "pandas python text",
            of(pd.StringDtype("python")),
            *(WORDS, [*TEXTS, "\ud800"]),
        ),
        Kind("pandas text", of(pd.StringDtype("pyarrow")), WORDS, TEXTS),
        Kind("pandas objects", of(object), WORDS, OBJECTS),
        Kind("pandas object numbers", of(object), [1, 2.5], OBJECTS),
        Kind(
            "pandas object decimals",
            of(object),
            *([Decimal("1.5"), Decimal("2.5")], OBJECTS),
        ),
        Kind("pandas category", category(["a", "b", "c", "mixed"]), WORDS, [None]),
        Kind("pandas whole category", category([1, 2, 2**60]), [1, 2], [2**60, None]),
        Kind("pandas float category", category([1.0, 2.5]), [1.0], [2.5, None]),
        Kind(
            "pandas mixed category",
            category(["a", 1, 2.5, "mix", Decimal("1.5"), b"b", "\ud800"]),
            *(["a"], [1, 2.5, Decimal("1.5"), b"b", "\ud800", None]),
        ),
        Kind(
            "pandas times",
            of("datetime64[us]"),
            *(TIMES, [None, dt.datetime(9999, 1, 1)]),
        ),
        Kind("pandas zoned", of("datetime64[us, Europe/Oslo]"), TIMES, [None]),
        Kind(
            "pandas index",
            lambda v: pd.Index(v, dtype=object),
            *(WORDS, [x for x in OBJECTS if not isinstance(x, (list, dict))]),
        ),
        *(
            Kind(f"pandas arrow {name}", of(pd.ArrowDtype(type_)), plain, hostile)
            for name, (type_, plain, hostile) in arrow.items()
        ),
    ]


def _polars() -> list[Kind]:
    def of(dtype: Any) -> Callable[[list[Any]], Any]:
        return lambda v: pl.Series("c", v, dtype=dtype, strict=False)

    ints = (pl.Int8, pl.Int64, pl.UInt64, pl.Int128)
    enum = pl.Enum([*WORDS, "other"])
    zoned = pl.Datetime("us", "Europe/Oslo")
    return [
        *(Kind(f"polars {t}", of(t), NUMBERS, [0, 100, None]) for t in ints),
        *(
            Kind(f"polars {t}", of(t), [1.0, 2.0], REALS)
            for t in (pl.Float32, pl.Float64)
        ),
        Kind("polars Boolean", of(pl.Boolean), [True, False], [None]),
        Kind("polars String", of(pl.String), WORDS, TEXTS),
        Kind("polars Binary", of(pl.Binary), [b"a"], BYTES),
        Kind("polars Categorical", of(pl.Categorical), WORDS, ["other", "", None]),
        Kind("polars Enum", of(enum), WORDS, ["other", None]),
        Kind("polars Decimal", of(pl.Decimal(38, 3)), [Decimal(1)], DECIMALS),
        Kind("polars Date", of(pl.Date), DAYS, [None, dt.date(1, 1, 1)]),
        Kind("polars Datetime", of(pl.Datetime("ns")), TIMES, [None]),
        Kind("polars zoned", of(zoned), TIMES, [None]),
        Kind("polars Time", of(pl.Time), [dt.time(1)], [None, dt.time(23, 59)]),
        Kind("polars List", of(pl.List(pl.Int64)), [[1]], [None, []]),
        Kind("polars Struct", of(pl.Struct({"a": pl.Int64})), [{"a": 1}], [None]),
        Kind("polars Null", of(pl.Null), [None], [None]),
        Kind(
            "polars Object",
            lambda v: pl.Series("c", v, dtype=pl.Object),
            *(WORDS, [x for x in OBJECTS if not isinstance(x, (list, tuple))]),
        ),
    ]


def _arrow() -> list[Kind]:
    def of(type_: Any) -> Callable[[list[Any]], Any]:
        return lambda v: pa.array(v, type_)

    def text(type_: Any, then: Callable[[Any], Any] = lambda x: x) -> Any:
        # Bytes that nobody looked at: Arrow's own readers do not.
        wide = pa.large_binary() if type_ == pa.large_string() else pa.binary()
        return lambda v: then(pa.array(v, wide).view(type_))

    def raw(type_: Any, width: Any) -> Callable[[list[Any]], Any]:
        return lambda v: pa.array(v, width).view(type_)

    def viewed(items: list[Any]) -> Any:
        return pa.array(items, pa.binary_view()).view(pa.string_view())

    letters = [b"a", b"b", b"c"]
    float16 = [np.float16(1), np.float16(2)]
    days = [0, 1]
    return [
        *(
            Kind(f"arrow {t}", of(t), NUMBERS, [0, 100, None])
            for t in (pa.int8(), pa.uint8(), pa.int32(), pa.uint64())
        ),
        Kind("arrow int64", of(pa.int64()), NUMBERS, [2**53 + 1, -(2**63), None]),
        Kind("arrow halffloat", of(pa.float16()), float16, [np.float16(NAN), None]),
        Kind("arrow float", of(pa.float32()), [1.0, 2.0], REALS),
        Kind("arrow double", of(pa.float64()), [1.0, 2.0], REALS),
        Kind("arrow bool", of(pa.bool_()), [True, False], [None]),
        Kind("arrow string", text(pa.string()), letters, BYTES),
        Kind("arrow large_string", text(pa.large_string()), letters, BYTES),
        Kind("arrow string_view", viewed, letters, BYTES),
        Kind("arrow binary", of(pa.binary()), letters, BYTES),
        Kind(
            "arrow chunks",
            lambda v: pa.chunked_array(
                [pa.array(v[:2], pa.string()), pa.array(v[2:], pa.string())]
            ),
            *(WORDS, TEXTS),
        ),
        Kind(
            "arrow dictionary",
            text(pa.string(), lambda x: x.dictionary_encode()),
            *(letters, BYTES),
        ),
        Kind(
            "arrow whole dictionary",
            lambda v: pa.array(v, pa.int64()).dictionary_encode(),
            *(NUMBERS, [2**60, None]),
        ),
        Kind(
            "arrow run ends",
            lambda v: compute.run_end_encode(pa.array(v, pa.string())),
            *(WORDS, TEXTS),
        ),
        Kind("arrow decimal128", of(pa.decimal128(38, 3)), [Decimal(1)], DECIMALS),
        Kind("arrow whole decimal", of(pa.decimal128(38, 0)), [1, 2], [10**37, None]),
        Kind("arrow decimal256", of(pa.decimal256(60, 3)), [Decimal(1)], DECIMALS),
        Kind("arrow date32", raw(pa.date32(), pa.int32()), days, [2**31 - 1, None]),
        Kind("arrow date64", raw(pa.date64(), pa.int64()), days, [None]),
        Kind(
            "arrow timestamp",
            raw(pa.timestamp("us"), pa.int64()),
            *(days, [2**62, -(2**62), 2**63 - 1, None]),
        ),
        Kind(
            "arrow zoned",
            raw(pa.timestamp("us", "Europe/Oslo"), pa.int64()),
            *(days, [2**62, None]),
        ),
        Kind("arrow nanoseconds", raw(pa.timestamp("ns"), pa.int64()), days, [2**62]),
        Kind("arrow time64", raw(pa.time64("us"), pa.int64()), days, [2**62, -1, None]),
        Kind("arrow duration", raw(pa.duration("s"), pa.int64()), days, [2**62, None]),
        Kind("arrow list", of(pa.list_(pa.int64())), [[1]], [None, []]),
        Kind("arrow struct", of(pa.struct({"a": pa.int64()})), [{"a": 1}], [None]),
        Kind("arrow null", of(pa.null()), [None], [None]),
    ]


NUMPY, PANDAS, POLARS, ARROW = _numpy(), _pandas(), _polars(), _arrow()
KINDS = NUMPY + PANDAS + POLARS + ARROW
