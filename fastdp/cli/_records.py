"""Records and public groups of ``fastdp aggregate``, from tables of any form."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastdp
from fastdp.cli import _cells, _files, _places
from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from fastdp.cli._plan_file import Table
    from fastdp.tables import Plan

#: Read this many rows of a text file at a time.
_ROWS = 1 << 17


def planned(table: Table) -> Plan:
    """Return the plan of a table; its public groups may come from a file."""
    if table.keys is None:
        return table.plan()
    by = table.words.get("by", ())
    wanted = [("--by", name) for name in ([by] if isinstance(by, str) else by)]
    with _opened(table.keys, wanted, {}) as rows:
        return table.plan(_keys(table.keys, rows))


@contextlib.contextmanager
def source(table: Table, plan: Plan) -> Iterator[Any]:
    """Open the records of a table: the path of a Parquet file, else a stream."""
    wanted = [("--by", name) for name in plan.by]
    if isinstance(plan.unit, fastdp.Unit):
        wanted.append(("--unit", plan.unit.column))
    numbers = {
        name: f"--{word}"
        for word in ("histogram", "bounds")
        for name in table.words.get(word) or {}
    }
    wanted += [(option, name) for name, option in numbers.items()]
    with _opened(table.input, wanted, numbers) as rows:
        yield rows


@contextlib.contextmanager
def _opened(
    place: _places.Place, wanted: Sequence[tuple[str, str]], numbers: Mapping[str, str]
) -> Iterator[Any]:
    if place.form.kind == "parquet" and place.path is not None and place.path.is_file():
        yield place.path
        return
    if not wanted:  # only rows are counted: any column will do
        place.local("where no column is read")
        with _files.open_source(place, ()) as first:
            wanted = [("INPUT", name) for name in first.names[:1]]
    with _files.open_source(place, wanted, numbers) as opened:
        yield _stream(opened, [name for _, name in wanted], numbers)


def _keys(place: _places.Place, rows: Any) -> pa.Table:
    """Return the public groups as a table; refuse unreadable groups."""
    from pyarrow import parquet

    if isinstance(rows, Path):
        with _places.constant_messages(rows, "not a valid parquet table"):
            return parquet.read_table(rows)
    found = rows.read_all()
    for name in found.column_names if place.form.text else ():
        if found[name].null_count:
            dialect = place.form.dialect
            raise ParameterError(
                f"{place.option} must have a text in each row of {name!r}, none of "
                f"{dialect.said('null')}, in the encoding that "
                f"{dialect.said('encoding')} states (now {dialect.encoding})"
            )
    return found


def _stream(
    source: _files.Source, names: Sequence[str], numbers: Mapping[str, str]
) -> pa.RecordBatchReader:
    """Return batches; for a text file, with names as text and numbers or NaN."""
    import pyarrow as pa

    if source.declared:
        return pa.RecordBatchReader.from_batches(source.schema, source.batches(_ROWS))
    schema = pa.schema(
        {name: pa.float64() if name in numbers else pa.large_string() for name in names}
    )

    def column(cells: pa.Array, name: str) -> pa.Array:
        if name not in numbers:
            return _cells.read_names(cells)
        return pa.array(_cells.read_reals(cells, float("nan")))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source.batches(_ROWS):
            columns = [column(batch.column(name), name) for name in names]
            yield pa.record_batch(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
