"""Frames by library: the module that draws for a frame, and results of its kind."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastdp.frames import _dask, _ray, _spark, _tables
from fastdp.frames._tables import is_of, is_spark

if TYPE_CHECKING:
    import pyarrow as pa


def tasks_of(x: object) -> Any:
    """Return the module for a frame of an engine with tasks (Spark, ...), or None."""
    if is_spark(x):
        return _spark
    if is_of(x, "dask.dataframe", "DataFrame"):
        return _dask
    return _ray if is_of(x, "ray.data", "Dataset") else None


def read(name: str, frame: Any, wanted: Sequence[str]) -> pa.Table:
    """Return named columns of any frame as a table; evaluate the frame once."""
    where = _spark.table if is_spark(frame) else _tables.read
    found: pa.Table = where(name, frame, wanted)
    return found


def leave(frame: Any, table: pa.Table) -> Any:
    """Return constants as a frame of the kind of `frame`.

    A DuckDB relation is made from a table in memory, in the connection of `frame`. For
    frames of other libraries the result is a pyarrow Table.
    """
    if is_of(frame, "pandas", "DataFrame"):
        found = _as_pandas(table)
        found.attrs.update(_decoded(table.schema.metadata))
        index = [name for name in frame.index.names if name in table.column_names]
        return found.set_index(index) if index else found
    if is_of(frame, "polars", "DataFrame"):
        return sys.modules["polars"].from_arrow(table)
    if is_of(frame, "duckdb", "DuckDBPyRelation"):
        # DuckDB finds the table by the name of this variable.
        fastdp_constants = table
        found = frame.query("fastdp_given", "select * from fastdp_constants")
        del fastdp_constants
        return found
    if is_spark(frame):
        return _spark.constants(frame, table)
    return table


def none_of(frame: Any) -> Any:
    """Return a frame without rows of the kind of `frame`, for `leave`."""
    if is_of(frame, "pandas", "DataFrame"):
        return frame.iloc[:0].copy()
    if is_of(frame, "polars", "DataFrame"):
        return frame.clear()
    if is_of(frame, "duckdb", "DuckDBPyRelation") or is_spark(frame):
        return frame.limit(0)
    return None


def _as_pandas(table: pa.Table) -> Any:
    """Return a pandas frame; dates beyond Python's range become numpy's."""
    with contextlib.suppress(ValueError, OverflowError):
        return table.to_pandas()
    return table.to_pandas(date_as_object=False)


def _decoded(metadata: Any) -> dict[str, str]:
    found = {name.decode(): value.decode() for name, value in (metadata or {}).items()}
    found.pop("pandas", None)
    return found
