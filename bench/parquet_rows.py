"""A plan on a Parquet file larger than its memory, beside DuckDB's run of its SQL.

    python bench/parquet_rows.py [ROWS [MEMORY]]

DuckDB makes the rows (100,000,000 by default, ten of each user, in 12 groups). Each run
is a process of its own, and both have the same `memory` (3GB). The line of a run has
the wall clock and the processor time in seconds, and the largest resident memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_MADE = """
copy (
  select (hash(i) % {users})::bigint as u, (hash(i + 1000000007) % 12)::int as g,
    (hash(i + 2000000011) % 100000) / 1000.0 as x
  from range({rows}) as made(i)
) to '{path}' (format parquet)
"""


def run(what: str, path: str, memory: str) -> None:
    """Release a plan on a file (`what` is "plan"), or run its SQL in DuckDB."""
    import duckdb

    import fastdp

    plan = fastdp.Plan(
        unit=fastdp.Unit("u", groups=3, records=3),
        by="g",
        keys=list(range(12)),
        count=True,
        mean="x",
        bounds={"x": (0, 100)},
        epsilon=1,
    )
    if what == "plan":
        plan.release(path, memory=memory)
        return
    connection = duckdb.connect()
    connection.execute("set preserve_insertion_order = false")
    connection.execute(f"set memory_limit = '{memory}'")
    connection.execute(f"set temp_directory = '{Path(path).parent}/spill'")
    connection.execute(
        "create temp table keys as select i::int as g0, i as place from range(12) t(i)"
    )
    connection.sql(plan.sql(path), params={"salt": "1"}).fetchall()


def measured(what: str, path: str, memory: str) -> tuple[float, float]:
    """Print what a run takes; return its wall clock and processor time in seconds."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, __file__, what, path, memory])
    _, status, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    if status:
        raise SystemExit(f"{what} failed")
    processor, most = used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20
    print(f"  {what:7} {wall:7.1f} {processor:7.1f} {most:5.2f} GiB", flush=True)
    return wall, processor


def main(rows: int, memory: str) -> None:
    """Print two runs of each, and the ratio of the smaller figures."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.parquet"
        duckdb.sql(_MADE.format(users=max(rows // 10, 1), rows=rows, path=path))
        size = Path(path).stat().st_size / 2**30
        print(f"plan, {rows:,} rows ({size:.2f} GiB), memory {memory}", flush=True)
        taken: dict[str, list[tuple[float, float]]] = {"duckdb": [], "plan": []}
        for what in ("duckdb", "plan", "duckdb", "plan"):
            taken[what].append(measured(what, path, memory))
    least = {
        what: [min(each) for each in zip(*rows, strict=True)]
        for what, rows in taken.items()
    }
    wall, processor = (
        p / d for p, d in zip(least["plan"], least["duckdb"], strict=True)
    )
    print(f"  of DuckDB: wall clock {wall:.2f}, processor time {processor:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] in (["plan"], ["duckdb"]):
        run(*sys.argv[1:4])
    else:
        given = dict(enumerate(sys.argv))
        main(int(float(given.get(1, "1e8"))), given.get(2, "3GB"))
