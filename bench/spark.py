"""Spark beside itself: what reports, tallies and the bounded group-by cost there.

    python bench/spark.py [ROWS] [MASTER]

Each line is one run and alternates its calls; times are minima of the wall clock. A
map of a report may cost 1.25 of the engine's identity map, a tally 1.05. The group-by
stands beside Spark's own of the same rows, which bounds nobody. MASTER is `local[2]`
where none is given; workers must import fastdp.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from turns import least

import fastdp
from fastdp import frames

Call = Callable[[], object]

RESPONSE = fastdp.RandomizedResponse.from_epsilon(2, categories=16)


def identity(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass rows through Python as they are."""
    yield from batches


def reported(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Draw reports, in the type that the rows have."""
    for batch in frames.batches(RESPONSE, "x")(batches):
        yield batch.set_column(0, "x", batch.column(0).cast(pa.int64()))


def session(master: str) -> Any:
    """Start Spark in little memory."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.driver.memory", "1g")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    return builder.config("spark.ui.enabled", "false").getOrCreate()


def mapped(spark: Any, rows: int) -> None:
    """Print what reports and tallies cost beside the identity."""
    frame = spark.range(rows).selectExpr("id % 16 as x")

    def sunk(function: Any) -> None:
        frame.mapInArrow(function, "x long").write.format("noop").mode(
            "overwrite"
        ).save()

    with tempfile.TemporaryDirectory() as folder:
        names = (Path(folder, f"{i}") for i in itertools.count())
        times = least(
            lambda: sunk(identity),
            lambda: sunk(reported),
            lambda: frames.tally(frame, RESPONSE, column="x"),
            lambda: frame.mapInArrow(identity, "x long").write.parquet(
                str(next(names)), compression="none"
            ),
            lambda: frames.randomize(frame, {"x": RESPONSE}, path=next(names)),
            rounds=5,
        )
    a, b, t, w, r = times
    print(f"rows, {rows:,}: identity {a:.2f} s, of which")
    print(f"  batches {b / a:.2f} (1.25), tally {t / a:.2f} (1.05)")
    print(f"  randomize {r:.2f} s, {r / w:.2f} of the identity written to files")


def grouped(spark: Any, rows: int, runs: int = 3) -> None:
    """Print what the bounded group-by costs beside the plain one."""
    frame = spark.range(rows).selectExpr(
        f"xxhash64(id) % {max(rows // 100, 1)} as u",
        "abs(xxhash64(id, 1)) % 10000 as g",
        "cast(abs(xxhash64(id, 2)) % 100 as double) as x",
    )
    ask: dict[str, Any] = {"by": "g", "mean": "x", "bounds": {"x": (0, 100)}}
    ask |= {"keys": [*range(10_000)], "epsilon": 1, "count": True}
    of_rows, of_users = (
        fastdp.Plan(unit=unit, **ask)
        for unit in ("row", fastdp.Unit("u", groups=3, records=1))
    )
    p, one, user = least(
        lambda: frame.groupBy("g").agg({"x": "sum", "*": "count"}).toArrow(),
        lambda: of_rows.release(frame),
        lambda: of_users.release(frame),
        rounds=runs,
    )
    print(f"plan, {rows:,} rows, {rows // 100:,} users, 10,000 groups")
    print(
        f"  Spark's own group-by {p:.2f} s; a row a user {one / p:.2f} of it; ", end=""
    )
    print(f"3 groups of each user {user / p:.2f}")


if __name__ == "__main__":
    size = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    engine = session(sys.argv[2] if len(sys.argv) > 2 else "local[2]")
    engine.sparkContext.setLogLevel("OFF")
    mapped(engine, size)
    grouped(engine, size, runs=3 if size < 10**8 else 1)
    engine.stop()
