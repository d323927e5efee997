"""What a call shows for columns with one hostile record.

It must be the same for both neighbors, except noisy numbers and the keys that noise
selects.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import fastdp
from fastdp import frames
from fastdp.exceptions import InsecureStreamWarning
from fastdp.testing import FixedStream
from tests.privacy.kinds import ARROW, KINDS, PANDAS, POLARS, Kind

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
