"""Datasets of Ray, which may repeat tasks and recompute lost blocks.

So tasks compute only results that may be repeated, or they write reports and one
attempt is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from fastdp.exceptions import FastDPError
from fastdp.frames import _parts, _reports, _tables, _written
from fastdp.mechanisms.local._base import FrequencyOracle


def randomize(
    frame: Any, columns: Mapping[str, FrequencyOracle], path: object, **charge: Any
) -> Any:
    """Write reports to a folder, once, and return a Dataset that reads it."""
    import ray.data

    place = _written.checked_path(path)
    _reports.randomized(_empty("frame", frame, list(columns)), columns)

    def run(folder: str) -> Iterable[str]:
        return _each("frame", frame, _parts.drawn, folder, dict(columns))

    _parts.write_once(place, run, columns, charge)
    return ray.data.read_parquet(str(place))


def tallies(frame: Any, mechanism: FrequencyOracle, column: str) -> list[bytes]:
    """Return the tallies of a column's blocks."""
    empty = _empty("source", frame, [column])
    _reports.tally(empty, mechanism, column)
    reports = frame.select_columns([column])
    return _each("source", reports, _reports.tallied, mechanism, column)


def _each(name: str, frame: Any, task: Any, *given: Any) -> list[Any]:
    """Run a task on each block; return the results."""
    made = functools.partial(_made, task, given)
    options = {"batch_format": "pyarrow", "batch_size": None, "zero_copy_batch": True}
    with _tables.engine_messages(name, "Ray"):
        return [row["made"] for row in frame.map_batches(made, **options).iter_rows()]


def _made(task: Any, given: tuple[Any, ...], block: Any) -> dict[str, list[Any]]:
    return {"made": [task(*given, block)]}


def _empty(name: str, frame: Any, wanted: list[str]) -> Any:
    """Return an empty table with the named columns of a Dataset."""
    import ray

    if not ray.is_initialized():
        raise FastDPError(
            f"{name} belongs to a Ray that was stopped: create it again "
            "after ray.init()"
        )
    with _tables.engine_messages(name, "Ray"):
        schema = frame.schema()
        there = (
            {} if schema is None else dict(zip(schema.names, schema.types, strict=True))
        )
    _tables.require_columns(name, list(there), wanted)
    pa = _tables.arrow()
    fields = [
        (one, kind if isinstance(kind := there[one], pa.DataType) else pa.null())
        for one in wanted
    ]
    return pa.schema(fields).empty_table()
