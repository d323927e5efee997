"""Frames beside what they come from: how thin the doorway and the group-by are.

    python bench/frames.py [ROWS]

Each line is one run and alternates its calls; times are minima of the wall clock. A row
of `randomize` may cost the identity of its engine and twice the kernel; `release` the
engine's own aggregate and two commits; `Plan` DuckDB's own time for the recipe.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from turns import least

import fastdp
from fastdp import accounting, frames

Call = Callable[[], object]

_GENERATOR = np.random.default_rng(19)


def randomized(rows: int) -> None:
    """Print what reports of a column cost in each kind of frame."""
    values = _GENERATOR.integers(0, 16, rows)
    m = fastdp.RandomizedResponse.from_epsilon(1, categories=16)
    out = np.empty(rows, m.report_dtype)
    table = pa.table({"x": values, "rest": values})
    polars, pandas = pl.from_arrow(table), table.to_pandas()
    lines: dict[str, tuple[Call, Call]] = {
        "numpy": (values.copy, lambda: m.release(values)),
        "Arrow": (
            lambda: table.set_column(0, "x", pa.array(values.copy())),
            lambda: frames.randomize(table, {"x": m}),
        ),
        "polars": (
            lambda: polars.with_columns(pl.col("x").map_batches(lambda x: x + 0)),
            lambda: frames.randomize(polars, {"x": m}),
        ),
        "pandas": (
            lambda: pandas.assign(x=pandas.x.copy()),
            lambda: frames.randomize(pandas, {"x": m}),
        ),
    }
    print(f"randomize, {rows:,} rows, ns a row: identity, kernel, ours, of the limit")
    for name, (identity, ours) in lines.items():
        a, k, b = least(identity, lambda: m.release(values, out=out), ours, seconds=3)
        a, k, b = (1e9 * t / rows for t in (a, k, b))
        print(f"  {name:8} {a:6.2f} {k:6.2f} {b:6.2f} {b / (a + 2 * k):6.2f}")


def released(rows: int, groups: int = 100_000) -> None:
    """Print what noise on an aggregate costs beside the aggregate, with a ledger."""
    connection = duckdb.connect()
    connection.register("visits", pa.table({"k": np.arange(rows) % groups}))
    m = fastdp.DiscreteLaplace.from_epsilon(1e-3, sensitivity=1)
    one = np.zeros(1, np.int64)
    with tempfile.TemporaryDirectory() as folder:
        ledger = fastdp.ledger.create(Path(folder, "budget.db"))
        ledger.add_budget("all", accounting.PureFilter(1000), unit="row")
        labels = iter(range(10**9))

        def aggregate() -> Any:
            return connection.sql("select k, count(*) as n from visits group by k")

        def options() -> dict[str, Any]:
            return {"label": f"{next(labels)}", "budgets": "all"}

        a, c, b, n = least(
            lambda: pa.table(aggregate()),
            lambda: ledger.release(m, one, **options()),
            lambda: frames.release(
                aggregate(), {"n": m}, keys="k", ledger=ledger, **options()
            ),
            lambda: frames.release(aggregate(), {"n": m}, keys="k", ledger=None),
            seconds=3,
        )
    print(f"release, {rows:,} rows to {groups:,} groups, ms")
    print(f"  aggregate {1e3 * a:.1f}, two commits {1e3 * c:.1f}, ours {1e3 * b:.1f}: ")
    print(f"  {(b - c) / a:.2f} of the aggregate; without a ledger {n / a:.2f}")


def aggregated(rows: int) -> None:
    """Print what the bounded group-by costs beside DuckDB's own run of it."""
    table = pa.table(
        {
            "u": _GENERATOR.integers(0, max(rows // 100, 1), rows),
            "g": _GENERATOR.integers(0, 10_000, rows),
            "x": _GENERATOR.uniform(0, 100, rows),
        }
    )
    x, g, u = (table[name].to_numpy() for name in "xgu")
    plan = fastdp.Plan(
        unit=fastdp.Unit("u", groups=3, records=1),
        by="g",
        count=True,
        mean="x",
        bounds={"x": (0, 100)},
        epsilon=1,
        delta=1e-6,
    )
    sql = plan.sql(table)
    connection = duckdb.connect()
    connection.register("rows", table)
    plain = "select g, count(*), sum(x) from rows group by g"
    a, p, b, q = least(
        lambda: connection.sql(sql, params={"salt": "1"}).to_arrow_table(),
        lambda: connection.sql(plain).to_arrow_table(),
        lambda: plan.release(table),
        lambda: fastdp.mean(
            x,
            by=g,
            unit=fastdp.Unit(u, groups=3, records=1),
            bounds=(0, 100),
            epsilon=1,
            delta=1e-6,
        ),
        seconds=5,
    )
    print(f"plan, {rows:,} rows, {rows // 100:,} users, 10,000 groups, s")
    print(f"  plain {p:.3f}, recipe {a:.3f}, ours {b:.3f}: {b / a:.2f} of the recipe")
    print(f"  fastdp.mean of the same arrays {q:.3f}: {q / a:.2f} of the recipe")


if __name__ == "__main__":
    size = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    randomized(size)
    released(size)
    aggregated(size // 5)
