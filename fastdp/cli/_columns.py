"""Converts Arrow columns to plain types, and checks that they are sound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def chosen(schema: pa.Schema, wanted: Sequence[str]) -> pa.Schema:
    """Return the wanted fields without metadata, which may describe other fields."""
    import pyarrow as pa

    return pa.schema([field for field in schema if field.name in wanted])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which view and run-end types are read."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(kind):
        value = _plain_type(kind.value_type)
        return pa.dictionary(kind.index_type, value, ordered=kind.ordered)
    if types.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if types.is_binary_view(kind) else kind


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the plain type of each field."""
    import pyarrow as pa

    return pa.schema([field.with_type(_plain_type(field.type)) for field in schema])


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with columns of plain types."""
    import pyarrow as pa

    return pa.record_batch([_plain(c) for c in batch.columns], schema=schema)


def _plain(column: pa.Array) -> pa.Array:
    """Return a column in its plain type; text may be any bytes."""
    import pyarrow as pa
    from pyarrow import compute, types

    kind = _plain_type(column.type)
    if kind == column.type:
        return column
    if types.is_run_end_encoded(column.type):
        values = _plain(column.values)
        runs = pa.run_end_encoded(column.type.run_end_type, values.type)
        return compute.run_end_decode(_runs(column, runs, values))
    if types.is_dictionary(column.type):
        values = _plain(column.dictionary)
        return pa.DictionaryArray.from_arrays(
            column.indices, values, ordered=kind.ordered, safe=False
        )
    options = compute.CastOptions(kind, allow_invalid_utf8=True)
    return compute.cast(column, options=options)


def _runs(column: pa.Array, kind: pa.DataType, values: pa.Array) -> pa.Array:
    """Return a column of runs with other values."""
    import pyarrow as pa

    children = [column.run_ends, values]
    return pa.Array.from_buffers(
        kind, len(column), [None], offset=column.offset, children=children
    )


def require_sound(column: pa.Array) -> None:
    """Raise if offsets or indices lead out of a column; text may be any bytes."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(column.type):
        require_sound(column.dictionary)
        places = pa.nulls(len(column.dictionary))
        column = pa.DictionaryArray.from_arrays(column.indices, places, safe=False)
    elif types.is_run_end_encoded(column.type):
        require_sound(column.values)
        kind = pa.run_end_encoded(column.type.run_end_type, pa.null())
        column = _runs(column, kind, pa.nulls(len(column.values)))
    elif types.is_string_view(column.type):
        column = column.view(pa.binary_view())
    elif types.is_string(column.type):
        column = column.view(pa.binary())
    elif types.is_large_string(column.type):
        column = column.view(pa.large_binary())
    # Numbers, dates and times may have any value, even beyond their day or precision.
    fixed = types.is_primitive(column.type) or types.is_decimal(column.type)
    column.validate(full=not fixed)
