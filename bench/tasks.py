"""What reports cost on Dask and Ray, as ratios to each engine's own identity map.

    python bench/tasks.py [dask] [ray]

Each line is the least of several runs that take turns, on the wall clock.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from turns import least

import fastdp
from fastdp import frames

RESPONSE = fastdp.RandomizedResponse.from_epsilon(2, categories=16)


def show(engine: str, rows: int, calls: dict[str, Callable[[], Any]]) -> None:
    base, *_ = times = least(*calls.values(), rounds=5)
    for name, seconds in zip(calls, times, strict=True):
        print(
            f"{engine:5} {name:34} {seconds / rows * 1e9:8.1f} ns a row "
            f"{seconds / base:6.2f}x {(seconds - base) / rows * 1e9:+7.1f} ns"
        )


def identity(part: Any) -> Any:
    return part


def drawn(part: Any) -> Any:
    return frames.randomize(part, {"browser": RESPONSE})


def counted(part: Any) -> Any:
    return frames.tally(drawn(part), RESPONSE, column="browser")


def row(found: Any) -> dict[str, list[int]]:
    return {"users": [found.users]}


def dask(folder: Path, rows: int = 10_000_000) -> None:
    """Data in memory of one worker."""
    import dask
    import pandas as pd
    from dask import dataframe
    from distributed import Client, LocalCluster

    options = {"processes": True, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=1, **options) as cluster, Client(cluster):
        given = pd.DataFrame({"browser": (np.arange(rows) % 16).astype(np.uint8)})
        people = dataframe.from_pandas(given, npartitions=10).persist()
        people.sum().compute()

        def merged() -> Any:
            parts = [dask.delayed(counted)(part) for part in people.to_delayed()]
            return dask.delayed(sum)(parts, RESPONSE.aggregator()).compute()

        def reports() -> None:
            frames.randomize(people, {"browser": RESPONSE}, path=folder / "reports")
            shutil.rmtree(folder / "reports")

        def files() -> None:
            plain = {"compression": None, "use_dictionary": False}
            people.to_parquet(folder / "files", write_index=False, **plain)
            shutil.rmtree(folder / "files")

        show(
            "Dask",
            rows,
            {
                "identity, sum": lambda: (
                    people.map_partitions(identity).sum().compute()
                ),
                "randomized, sum": lambda: people.map_partitions(drawn).sum().compute(),
                "randomized and tallied": merged,
                "tally of reports": lambda: frames.tally(
                    people, RESPONSE, column="browser"
                ),
            },
        )
        show("Dask", rows, {"to_parquet": files, "randomize, path=": reports})


def ray(folder: Path, rows: int = 5_000_000) -> None:
    """Blocks in the object store of two workers."""
    import os

    import ray

    os.environ.update(RAY_worker_niceness="0")

    ray.init(
        num_cpus=2,
        object_store_memory=400 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    cells = (np.arange(rows // 10) % 16).astype(np.uint8)
    parts = [pa.table({"browser": cells, "id": np.arange(rows // 10)})] * 10
    people = ray.data.from_arrow(parts).materialize()
    options = {"batch_format": "pyarrow", "batch_size": None, "zero_copy_batch": True}

    def map_of(task: Callable[[Any], Any]) -> Callable[[], Any]:
        """Map, and read what comes out, as whoever holds a tally has."""
        read = {"batch_format": "pyarrow", "batch_size": None}

        def call() -> int:
            found = people.map_batches(task, **options).iter_batches(**read)
            return sum(len(batch) for batch in found)

        return call

    def reports() -> None:
        frames.randomize(people, {"browser": RESPONSE}, path=folder / "reports")
        shutil.rmtree(folder / "reports")

    def files() -> None:
        people.map_batches(identity, **options).write_parquet(
            str(folder / "files"), compression="none", use_dictionary=False
        )
        shutil.rmtree(folder / "files")

    def tally_row(part: Any) -> Any:
        return row(counted(part))

    show(
        "Ray",
        rows,
        {
            "identity": map_of(identity),
            "randomized": map_of(drawn),
            "randomized and tallied": map_of(tally_row),
            "tally of reports": lambda: frames.tally(
                people, RESPONSE, column="browser"
            ),
        },
    )
    show("Ray", rows, {"write_parquet": files, "randomize, path=": reports})
    ray.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="fastdp-") as place:
        for engine in sys.argv[1:] or ("dask", "ray"):
            {"dask": dask, "ray": ray}[engine](Path(place))
