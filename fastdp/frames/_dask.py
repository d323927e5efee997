"""Frames of Dask, which may repeat tasks and recompute lost results.

So tasks compute only results that may be repeated, or they write reports and one
attempt is kept. The scheduler is the caller's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fastdp.frames import _parts, _reports, _tables, _written
from fastdp.mechanisms.local._base import FrequencyOracle


def randomize(
    frame: Any, columns: Mapping[str, FrequencyOracle], path: object, **charge: Any
) -> Any:
    """Write reports to a folder, once, and return a DataFrame that reads it."""
    from dask import dataframe

    place = _written.checked_path(path)
    _tables.require_columns("frame", list(frame.columns), columns)
    _reports.randomized(frame._meta, columns)  # refuse wrong types before a task runs

    def run(folder: str) -> Iterable[str]:
        return _each("frame", frame, _parts.drawn, folder, dict(columns))

    _parts.write_once(place, run, columns, charge)
    return dataframe.read_parquet(str(place))


def tallies(frame: Any, mechanism: FrequencyOracle, column: str) -> list[bytes]:
    """Return the tallies of a column's partitions."""
    _tables.require_columns("source", list(frame.columns), [column])
    _reports.tally(frame._meta, mechanism, column)
    return _each("source", frame[[column]], _reports.tallied, mechanism, column)


def _each(name: str, frame: Any, task: Any, *given: Any) -> list[Any]:
    """Run a task on each partition; return the results in order."""
    import dask

    with _tables.engine_messages(name, "Dask"):
        once = dask.delayed(task, pure=False)
        return list(dask.compute(*(once(*given, p) for p in frame.to_delayed())))
