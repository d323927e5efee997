"""Hostile rows, and the bounded group-by on them by its statement."""

from __future__ import annotations

import collections
import decimal
import math
from typing import Any

import numpy as np
import pytest

from fastdp.frames import _recipe
from fastdp.frames._plan import Plan
from fastdp.mechanisms._groups import Budget
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
) -> Any:
    delta = None if keys is not None else 1e-6
    bounds = {name: BOUNDS[name] for name in values}
    return Plan(
        {"mean": values, "sum": (), "variance": variance},
        *(("town", "sex"), True, bounds, keys, user, hash),
        budget=Budget(1, None, delta),
        kept=kept if user else (None, None),
    )


def reference(
    rows: list[dict[str, Any]],
    values: Any = ("x", "y"),
    *,
    user: str | None = "user",
    kept: Any = (2, 3),
    variance: Any = (),
) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """The same by the statement, one record at a time."""
    bits = plan_of(values, user=user, kept=kept, variance=variance).bits
    mine: dict[Any, dict[Any, list[Any]]] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for number, row in enumerate(rows):
        owner = number if user is None else row[user]
        cells = [row[name] for name in values]
        key = (row["town"], row["sex"])
        if owner is None or None in key or any(c is None or c != c for c in cells):
            continue
        integers = {
            name: column.row(float(cell), BOUNDS[name], bits)
            for name, cell in zip(values, cells, strict=True)
        }
        steps = tuple(integers[name][1] for name in values)
        squares = tuple(integers[name][2] for name in values if name in variance)
        mine[owner][key].append((steps, squares))
    k, r = kept if user else (1, 1)
    totals: dict[Any, Any] = collections.defaultdict(
        lambda: np.zeros(2 + len(values) + len(variance), object)
    )
    for owner, groups in mine.items():
        order = sorted(groups, key=lambda g: _recipe.tag(SALT, "group", [owner, *g]))
        for key in order[:k]:
            tagged = []
            for (steps, squares), count in collections.Counter(groups[key]).items():
                for copy in range(1, count + 1):
                    parts = [owner, *key, *steps, copy]
                    tag = _recipe.tag(SALT, "record", parts)
                    tagged.append((tag, [1, *steps, *squares]))
            drawn = [row for _, row in sorted(tagged)[:r]]
            totals[key] += [1, *np.sum(np.array(drawn, object), axis=0)]
    return {key: tuple(int(t) for t in total) for key, total in totals.items()}


def totals(plan: Any, engine: Any) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """Return what an engine gives before the noise: users, records, integer sums."""
    found = plan.named(engine.run(plan.recipe(engine).sql(), SALT, None))
    listed = [column.to_pylist() for column in found.columns]
    return {row[:2]: row[2:] for row in zip(*listed, strict=True)}
