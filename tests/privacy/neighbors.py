"""Columns of every kind with one hostile record, and what a call shows but its noise.

A kind is a declared type. Its columns hold plain records; one record is then changed
to a hostile one of the same type, or taken out. Whatever a call shows, but for noisy
numbers and the keys that noise selects, must be the same for both.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
import warnings
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

import fastdp
from fastdp import frames
from fastdp.exceptions import InsecureStreamWarning
from fastdp.testing import FixedStream

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

#: Kinds whose records have a declared type: results of a program, as counts are, are
#: of one, and the types of a list's elements are public there.
TYPED = [kind for kind in KINDS if kind.name.split()[0] not in ("list", "tuple")]


def _accepted(call: Callable[[Any], Any]) -> set[str]:
    """Return the names of the kinds of which a call takes plain columns."""
    found = set()
    for kind in KINDS:
        with contextlib.suppress(fastdp.FastDPError):
            call(kind.make(kind.plain))
            found.add(kind.name)
    return found


with warnings.catch_warnings():
    warnings.simplefilter("ignore", InsecureStreamWarning)
    ROLES = {
        "any": {kind.name for kind in KINDS},
        "number": _accepted(
            lambda x: fastdp.sum(
                x, bounds=(0, 1), unit="row", epsilon=1, stream=FixedStream("n")
            )
        ),
        "key": _accepted(
            lambda x: fastdp.bound_contributions(
                x, records_per_user=1, stream=FixedStream("n")
            )
        ),
    }

BUDGETS: list[dict[str, Any]] = [{"epsilon": 1}, {"rho": 0.1}]
KEYS: list[dict[str, Any]] = [
    *({"keys": ["a", "b"]}, {"keys": [1, 2]}, {"keys": [1.5, 2]}, {"keys": [b"a"]}),
    *({"keys": ["a", 1, b"b"]}, {"delta": 0.01}, {"delta": 0.01}, {"delta": 0.01}),
]

#: Functions that make a frame of columns, each with the kinds of columns it takes.
FRAMES: list[tuple[Callable[[dict[str, Any]], Any], list[Kind]]] = [
    (pd.DataFrame, [k for k in PANDAS if k.name != "pandas index"]),
    (pl.DataFrame, POLARS),
    (pa.table, ARROW),
    (lambda columns: pa.table(columns).to_reader(), ARROW),
]


class Pair:
    """A call and the same call with one record changed."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        self._n = self._choose.choice([1, 3, 12, 200])
        self._out = self._choose.random() < 0.2
        self._at = self._choose.randrange(self._n)
        maker = self._choose.choice([self._quick, self._mechanism, self._frame])
        self.name, self._call = maker()

    def shown(self) -> tuple[Any, Any]:
        """Return what both calls show."""
        return told(self._call(0)), told(self._call(1))

    # ---- columns -----------------------------------------------------------------

    def _column(self, kinds: list[Kind], role: str = "any") -> tuple[str, list[Any]]:
        """Return a column, mostly of its role, and it with one record changed."""
        fit = [kind for kind in kinds if kind.name in ROLES[role]]
        kind = self._choose.choice(fit if self._choose.random() < 0.85 else kinds)
        self._plain = kind.plain[:2]
        items = [self._choose.choice(kind.plain) for _ in range(self._n)]
        return self._pair(kind, items)

    def _pair(self, kind: Kind, items: list[Any]) -> tuple[str, list[Any]]:
        hostile = self._choose.choice(kind.hostile)
        before, after = items[: self._at], items[self._at + 1 :]
        changed = before + ([] if self._out else [hostile]) + after
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                pair = [kind.make(items), kind.make(changed)]
            except (ValueError, TypeError, OverflowError, pa.ArrowException):
                # What the library itself cannot hold is no record of this type.
                pair, hostile = [kind.make(items), kind.make(items)], "nothing"
        long = isinstance(hostile, int) and abs(hostile) > 10**100
        said = "10**5000" if long else f"{hostile!r:.40}"
        return f"{kind.name} {'without one' if self._out else said}", pair

    # ---- calls -------------------------------------------------------------------

    def _quick(self) -> tuple[str, Callable[[int], Any]]:
        listed = ["count", "sum", "mean", "variance", "median", "histogram"]
        what = self._choose.choice(listed)
        options = dict(self._choose.choice(BUDGETS))
        if what not in ("count", "histogram"):
            options["bounds"] = (0, 5)
        columns = {"x": self._column(KINDS, "any" if what == "count" else "number")}
        if self._choose.random() < 0.6:
            columns["by"] = self._column(KINDS, "key")
            own = isinstance(self._plain[0], (int, str, bytes, float))
            listed = [*KEYS, *([{"keys": self._plain}] * 6 if own else [])]
            options |= self._choose.choice(listed)
        if self._choose.random() < 0.4:
            columns["user"] = self._column(KINDS, "key")
        edges = ([0, 2, 5],) if what == "histogram" else ()

        def call(which: int) -> Callable[[], Any]:
            held = {name: pair[which] for name, (_, pair) in columns.items()}
            x, user = held.pop("x"), held.pop("user", None)
            groups = 1 if "by" in held else None

            def release() -> Any:
                mine: Any = "row"
                if "user" in columns:
                    mine = fastdp.Unit(user, groups=groups, records=1)
                return getattr(fastdp, what)(
                    x, *edges, unit=mine, **held, **options, stream=FixedStream("n")
                )

            return release

        said = " ".join(f"{name}={said}" for name, (said, _) in columns.items())
        return f"{what} {said} {options}", call

    def _mechanism(self) -> tuple[str, Callable[[int], Any]]:
        what = self._choose.choice([*MECHANISMS])
        role, other = MECHANISMS[what][1:]
        first = self._column(TYPED if what == "key selection" else KINDS, role)
        second = self._column(TYPED if what == "unknown histogram" else KINDS, other)

        def call(which: int) -> Callable[[], Any]:
            x, y = first[1][which], second[1][which]
            return lambda: MECHANISMS[what][0](x, y)

        return f"{what} {first[0]} and {second[0]}", call

    def _frame(self) -> tuple[str, Callable[[int], Any]]:
        make, kinds = self._choose.choice(FRAMES)
        if self._choose.random() < 0.3:
            return self._release(make, kinds)
        roles = {"v": "number", "u": "key", "g": "key"}
        columns = {name: self._column(kinds, role) for name, role in roles.items()}
        options: dict[str, Any] = {"by": "g", "count": True, "unit": "row"}
        options |= self._choose.choice(BUDGETS)
        if self._choose.random() < 0.5:
            options["unit"] = fastdp.Unit("u", groups=1, records=1)
        if self._choose.random() < 0.5:
            what = self._choose.choice(["mean", "sum", "std"])
            options |= {what: "v", "bounds": {"v": (0, 5)}}
        own = isinstance(self._plain[0], (int, str))
        listed = self._choose.choice([["a", "b"], [1, 2], None, None, None])
        if own and self._choose.random() < 0.5:
            listed = self._plain
        if listed is None:
            options["delta"] = 0.01
        else:
            options["keys"] = pa.table({"g": listed})

        def call(which: int) -> Callable[[], Any]:
            rows = make({name: pair[which] for name, (_, pair) in columns.items()})
            plan = fastdp.Plan(**options)
            return lambda: plan.release(rows, stream=FixedStream("n"))

        said = " ".join(f"{name}={said}" for name, (said, _) in columns.items())
        return f"plan {said} {options}", call

    def _release(
        self, make: Callable[[dict[str, Any]], Any], kinds: list[Kind]
    ) -> tuple[str, Callable[[int], Any]]:
        """Return a release of one value by public key."""
        kind = self._choose.choice(
            [kind for kind in kinds if kind.name in ROLES["key"]]
        )
        keys = list(dict.fromkeys(map(repr, kind.plain)))
        self._n, self._out = len(keys), False
        self._at = self._choose.randrange(self._n)
        items = [next(x for x in kind.plain if repr(x) == key) for key in keys]
        said, pair = self._column(kinds, "number")
        law = self._choose.choice(
            [
                fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1),
                fastdp.Gaussian.from_rho(1, sensitivity=1),
            ]
        )

        def call(which: int) -> Callable[[], Any]:
            rows = make({"g": kind.make(items), "v": pair[which]})
            return lambda: frames.release(
                rows, {"v": law}, keys="g", ledger=None, stream=FixedStream("n")
            )

        return f"release g={kind.name} v={said} {law!r:.12}", call


def _open(x: Any, y: Any) -> Any:
    m = fastdp.Moments.from_epsilon(1, delta=0.01, bounds=(0, 5), moments=1)
    return m.release(x, by=y, stream=FixedStream("n"))


def _listed(x: Any, y: Any) -> Any:
    m = fastdp.Moments.from_epsilon(1, bounds=(0, 5), moments=1, groups=3)
    return m.release(x, by=y, stream=FixedStream("n"))


def _unknown(x: Any, y: Any) -> Any:
    m = fastdp.UnknownHistogram.from_epsilon_delta(
        epsilon=1, delta=0.01, keys_per_user=1
    )
    found, counts = m.release(x, y, stream=FixedStream("n"))
    # Text is as wide as the longest key that noise selects.
    kind = getattr(getattr(found, "dtype", None), "kind", None)
    return type(found), kind, Keys(list(found)), counts.dtype


def _stable(x: Any, _: Any) -> Any:
    found = fastdp.StableMode(epsilon=1, delta=0.01).release(x, stream=FixedStream("n"))
    return Keys([] if found is None else [found])


def _bounded(x: Any, y: Any) -> Any:
    mask = fastdp.bound_contributions(
        x, y, keys_per_user=1, records_per_key=1, stream=FixedStream("n")
    )
    return type(mask), mask.dtype


def _selected(x: Any, _: Any) -> Any:
    m = fastdp.KeySelection(epsilon=1, delta=0.01, keys_per_user=1)
    shown = m.select(x, stream=FixedStream("n"))
    return type(shown), str(getattr(shown, "dtype", ""))


def _quantile(x: Any, _: Any) -> Any:
    m = fastdp.Quantiles(0.5, bounds=(0, 5), epsilon=1)
    found = m.release(x, stream=FixedStream("n"))
    return type(found), found.dtype


def _clipped(x: Any, y: Any) -> Any:
    if isinstance(x, (list, tuple)):  # a list in it were a row: shapes are public
        x = [None if isinstance(item, (list, tuple)) else item for item in x]
    if isinstance(x, np.ndarray) and x.ndim == 1:
        x = x[:, None]
    m = fastdp.ClippedSum.from_epsilon(1, radius=5, dimension=1, norm="inf", blocks=3)
    found = m.release(x, labels=y, stream=FixedStream("n"))
    return type(found), found.dtype, found.shape


#: What takes records by another way than the first lines, and what its columns are.
MECHANISMS: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "open moments": (_open, "number", "key"),
    "listed moments": (_listed, "number", "number"),
    "unknown histogram": (_unknown, "key", "number"),
    "stable mode": (_stable, "key", "any"),
    "contributions": (_bounded, "key", "key"),
    "key selection": (_selected, "number", "any"),
    "quantiles": (_quantile, "number", "any"),
    "clipped sum": (_clipped, "number", "number"),
}


# ---- what shows --------------------------------------------------------------------


class Keys:
    """Keys that noise selected: equal if those that both have are of equal types."""

    def __init__(self, keys: list[Any]) -> None:
        self._kinds = {(type(key) in (str, np.str_), key): type(key) for key in keys}

    def __eq__(self, other: object) -> bool:
        mine, theirs = self._kinds, getattr(other, "_kinds", {})
        return all(mine[key] is theirs[key] for key in mine.keys() & theirs.keys())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Keys({self._kinds})"


def told(call: Callable[[], Any]) -> tuple[Any, ...]:
    """Return all that a call shows but its noise and what that selects."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", InsecureStreamWarning)
        try:
            found = _form(call())
        except Exception as error:
            found = type(error), str(error), repr(error.__cause__), _own(error)
    return found, [(w.category, str(w.message)) for w in seen]


def _own(error: BaseException) -> bool:
    """Return whether an error is ours: others' messages may hold cells."""
    return isinstance(error, fastdp.FastDPError)


def _form(found: Any) -> Any:
    if isinstance(found, fastdp.Release):
        public = not found.plan._noise.unlisted
        said = found.event(), found.unit, found.replayed, found.plan, found.level
        table, groups = found.table(), found.groups()
        draws = type(found.values(found.plan.columns[0]))
        if not isinstance(found._like, type):
            return _frame(table, public), repr(said), draws
        # Columns in memory: the type of shown keys is that of the keys.
        listed = [key for (key,) in groups] if groups[:1] != [()] else []
        types = [
            (n, str(table[n].dtype)) for n in table if n not in (*found._keys, "note")
        ]
        assert public or _sorted(listed)
        return type(table), types, repr(said), draws, _cells(listed, public)
    if hasattr(found, "mechanism"):  # moments
        keys = found.keys
        return type(found.mean), found.mechanism, keys and Keys(keys)
    if hasattr(found, "columns") or hasattr(found, "schema"):
        return _frame(found, True)
    return found


def _sorted(keys: list[Any]) -> bool:
    """Return whether keys come by kind, and sorted within it."""
    kinds = [0 if isinstance(k, (int, float)) else 1 + isinstance(k, str) for k in keys]
    within = (
        keys[i] < keys[i + 1] for i in range(len(keys) - 1) if kinds[i] == kinds[i + 1]
    )
    return kinds == sorted(kinds) and all(within)


def _frame(frame: Any, public: bool) -> Any:
    rows = len(frame) if public else None
    if isinstance(frame, pd.DataFrame):
        types = {name: str(type_) for name, type_ in frame.dtypes.items()}
        return (
            pd.DataFrame,
            types,
            type(frame.index),
            frame.attrs,
            rows,
            _cells(frame.iloc[:, 0].tolist(), public),
        )
    if isinstance(frame, pl.DataFrame):
        column = frame.to_series(0)
        return pl.DataFrame, dict(frame.schema), rows, _cells(column.to_list(), public)
    column = frame.column(0)
    width = {"date32[day]": pa.int32()}.get(str(column.type))
    if pa.types.is_temporal(column.type):
        column = column.cast(width or pa.int64())
    fields = [(f.name, f.type, f.nullable, f.metadata) for f in frame.schema]
    return (
        pa.Table,
        fields,
        frame.schema.metadata,
        rows,
        _cells(column.to_pylist(), public),
    )


def _cells(keys: list[Any], public: bool) -> Any:
    return [repr(key) for key in keys] if public else Keys(keys)
