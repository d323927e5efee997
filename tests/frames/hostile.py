"""Hostile rows, and the bounded group-by on them by its statement."""

from __future__ import annotations

import collections
import decimal
import math
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.frames import _recipe
from fastdp.tables import _run
from tests.reference import column

pa = pytest.importorskip("pyarrow")

SALT = "0123"
BOUNDS = {"x": (-3.0, 1e3), "y": (0.0, 5.0)}
HOSTILE = [
    *(math.nan, math.inf, -math.inf, 1e300, -1e300, 2.0**63, -(2.0**63)),
    *(-0.0, 5e-324, 1e3, -3.0, 498.5, 498.5 + 2**-40, None, 7.25, 7.25),
]
USERS = ["ann", "Ann", "a\0n", "", "é", "e\u0301", "🙂", None, "jane doe 1961"]
TOWNS = ["oslo", "Oslo", "", "\0", "ø", None, "1e300"]
#: A user who fills all that may be kept: the bound is reached.
FULL = [
    {"user": "full", "town": f"t{i}", "sex": s, "x": 1e9, "y": 9}
    for i in range(4)
    for s in (1, 2)
] * 3


def hostile_rows() -> list[dict[str, Any]]:
    rng = np.random.default_rng(7)
    drawn = [
        {
            "user": USERS[rng.integers(len(USERS))],
            "town": TOWNS[rng.integers(len(TOWNS))],
            "sex": [1, 2, None][rng.integers(3)],
            "x": HOSTILE[rng.integers(len(HOSTILE))],
            "y": [None, 2**63, -(2**63), 3, 3][rng.integers(5)],
        }
        for _ in range(600)
    ]
    return [*drawn, *FULL]


SCHEMA = pa.schema(
    {
        "user": pa.string(),
        "town": pa.string(),
        "sex": pa.int8(),
        "x": pa.float64(),
        "y": pa.decimal128(38, 0),
    }
)


def table_of(rows: list[dict[str, Any]]) -> Any:
    cells = [
        {**row, "y": None if row["y"] is None else decimal.Decimal(row["y"])}
        for row in rows
    ]
    return pa.Table.from_pylist(cells, SCHEMA)


ROWS = hostile_rows()


def plan_of(
    values: Any = ("x", "y"),
    *,
    user: str | None = "user",
    kept: Any = (2, 3),
    hash: str = "sha256",
    keys: Any = None,
    variance: Any = (),
    alone: Any = (),
) -> Any:
    unit: Any = "row"
    if user is not None:
        unit = fastdp.Unit(user, groups=kept[0], records=kept[1])
    return fastdp.Plan(
        unit=unit,
        by=("town", "sex"),
        keys=keys,
        count=True,
        sum=alone,
        mean=[name for name in values if name not in alone],
        variance=variance,
        bounds={name: BOUNDS[name] for name in values},
        epsilon=1,
        delta=None if keys is not None else 1e-6,
        hash=hash,
    )


def integers(name: str, cell: Any, bits: int, *, alone: bool) -> tuple[int, int, int]:
    """Whether a cell is a number, its place between the bounds, and of its square."""
    if cell is None or cell != cell:
        return 0, 0, 0
    if not alone:
        return column.row(float(cell), BOUNDS[name], bits)
    low, high = BOUNDS[name]
    most = max(-low, high)
    held = min(max(float(cell), low), high)
    return column.row(held, (-most, most), bits)


def reference(
    rows: list[dict[str, Any]],
    values: Any = ("x", "y"),
    *,
    user: str | None = "user",
    kept: Any = (2, 3),
    variance: Any = (),
    alone: Any = (),
) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """The same by the statement, one record at a time."""
    # A sum alone is asked first, and so it is summed first.
    values = [*alone, *(name for name in values if name not in alone)]
    plan = plan_of(values, user=user, kept=kept, variance=variance, alone=alone)
    bits = plan._noise.bits
    mine: dict[Any, dict[Any, list[Any]]] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for number, row in enumerate(rows):
        owner = number if user is None else row[user]
        key = (row["town"], row["sex"])
        if owner is None or None in key:
            continue
        found = {n: integers(n, row[n], bits, alone=n in alone) for n in values}
        there = tuple(found[name][0] for name in values)
        steps = tuple(found[name][1] for name in values)
        squares = tuple(found[name][2] for name in values if name in variance)
        mine[owner][key].append((there, steps, squares))
    k, r = kept if user else (1, 1)
    totals: dict[Any, Any] = collections.defaultdict(
        lambda: np.zeros(2 + 2 * len(values) + len(variance), object)
    )
    for owner, groups in mine.items():
        order = sorted(groups, key=lambda g: _recipe.tag(SALT, "group", [owner, *g]))
        for key in order[:k]:
            tagged = []
            for whole, count in collections.Counter(groups[key]).items():
                there, steps, squares = whole
                # What is missing is one integer beyond all numbers.
                tags = [
                    s if t else -(2**bits) - 1
                    for t, s in zip(there, steps, strict=True)
                ]
                for copy in range(1, count + 1):
                    parts = [owner, *key, *tags, copy]
                    tag = _recipe.tag(SALT, "record", parts)
                    tagged.append((tag, [1, *there, *steps, *squares]))
            drawn = [row for _, row in sorted(tagged)[:r]]
            totals[key] += [1, *np.sum(np.array(drawn, object), axis=0)]
    return {key: tuple(int(t) for t in total) for key, total in totals.items()}


def totals(plan: Any, engine: Any) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """Return what an engine gives before the noise: users, records, integer sums."""
    found = _run.Totals(plan, engine.run(plan._recipe(engine).sql(), SALT, None))
    keys = [column.to_pylist() for column in found._keys.values()]
    sums = [x.tolist() for name, x in found._sums.items() if name != "place"]
    return {row[:2]: row[2:] for row in zip(*keys, *sums, strict=True)}
