"""Rows of a library in memory as an Arrow table: their names, types and keys.

Names, types and the number of rows are public. The content of a cell never reaches a
message, not even through a library's own message.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fastdp._doorway import records
from fastdp.exceptions import DTypeError, FastDPError, ParameterError
from fastdp.mechanisms._keys import items_of, texts_of

if TYPE_CHECKING:
    import pyarrow as pa

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Added to the end of a text in an array of bytes: numpy drops trailing zeros, and an
#: empty entry is a null.
_END = b"\x01"

#: Key of a ledger's receipts in the metadata of the result.
RECEIPTS = "fastdp receipts"

_INT64 = np.iinfo(np.int64)

#: Ticks per second of the units coarser than DuckDB's, which is the microsecond.
_A_SECOND = {"s": 1, "ms": 1000}

#: If a column is missing, the error lists at most this many columns of the source.
_NAMED = 30

#: Frames of engines with tasks, by library and class.
_WITH_TASKS = (
    *(("pyspark.sql", "DataFrame"), ("dask.dataframe", "DataFrame")),
    ("ray.data", "Dataset"),
)

#: Maximum number of digits of a decimal of 128 bits.
_DIGITS = 38


def arrow() -> Any:
    """Return pyarrow.

    Raises
    ------
    FastDPError
        pyarrow is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        raise FastDPError(
            'fastdp.frames needs pyarrow: pip install "fastdp[cli]"'
        ) from None
    return pyarrow


def is_of(x: object, library: str, name: str) -> bool:
    """Return whether `x` is of a class of a library, without importing it."""
    found = getattr(sys.modules.get(library), name, None)
    return found is not None and isinstance(x, found)


def is_spark(x: object) -> bool:
    """Return whether `x` is a DataFrame of Spark or of Spark Connect."""
    return is_of(x, "pyspark.sql", "DataFrame")


@contextlib.contextmanager
def constant_messages(name: str) -> Iterator[None]:
    """Replace Arrow's errors by an error with a message independent of cells."""
    try:
        yield
    except FastDPError:
        raise
    except (arrow().ArrowException, OverflowError, TypeError, UnicodeError):
        raise DTypeError(
            f"{name} must hold columns of one Arrow type each; it cannot be read"
        ) from None


@contextlib.contextmanager
def engine_messages(name: str, engine: str) -> Iterator[None]:
    """Replace an engine's errors by an error with a message independent of cells."""
    try:
        yield
    except Exception as error:  # each engine and version has its own type
        raise FastDPError(
            f"{name} cannot be evaluated by {engine} ({type(error).__name__}): a step "
            f"of its plan fails, or the engine was stopped; {engine}'s log says more"
        ) from None


def check_frame(name: str, frame: Any) -> None:
    """Refuse objects without Arrow's stream of rows; the error names the remedy."""
    if is_of(frame, "polars", "LazyFrame"):
        raise DTypeError(f"{name} must be evaluated, got a LazyFrame: collect it first")
    if any(is_of(frame, library, kind) for library, kind in _WITH_TASKS):
        raise DTypeError(
            f"{name} must be evaluated, got a {type(frame).__name__} of "
            "an engine: compute the aggregate, then pass its pandas frame"
        )
    if is_of(frame, "pandas", "Series"):
        raise DTypeError(f"{name} must be a frame, got a Series: use its reset_index()")
    if not hasattr(frame, "__arrow_c_stream__"):
        raise DTypeError(
            f"{name} must be a frame with Arrow's stream protocol (pyarrow, pandas, "
            f"polars, a DuckDB relation), got {type(frame).__name__}"
        )


def columns_of(name: str, value: str | Iterable[str]) -> tuple[str, ...]:
    """Return names of columns; a string is one name, and repeated names are refused."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Iterable):
        raise DTypeError(f"{name} must be a str or strings, got {type(value).__name__}")
    names = tuple(names)
    if not all(isinstance(one, str) for one in names):
        raise DTypeError(f"{name} must be a str or strings")
    if len(set(names)) != len(names):
        raise ParameterError(f"{name} must name each column once")
    return names


def require_columns(name: str, there: Sequence[str], wanted: Iterable[str]) -> None:
    """Refuse a frame in which a column is missing or occurs more than once."""
    for column in wanted:
        if there.count(column) != 1:
            found = "several columns" if column in there else "no column"
            raise ParameterError(
                f"{name} has {found} {column!r}; its columns are "
                f"{', '.join(map(str, there[:_NAMED]))}{' ...' * (len(there) > _NAMED)}"
            )


def read(
    name: str, frame: Any, wanted: Sequence[str], numbers: Iterable[str] = ()
) -> pa.Table:
    """Return named columns of a frame as a table; its stream is read once.

    The type of a column of Python objects would be inferred from its values, and reveal
    information about them. So such a column becomes text, or floats if it is in
    `numbers`. Each object is converted separately.
    """
    pa = arrow()
    check_frame(name, frame)
    if is_of(frame, "pandas", "DataFrame"):
        if set(wanted) & set(frame.index.names):
            frame = frame.reset_index()
        require_columns(name, list(frame.columns), wanted)
        with constant_messages(name):
            return pa.table({n: _array(frame[n], n in numbers) for n in wanted})
    with constant_messages(name):
        table = pa.table(frame)
    require_columns(name, table.column_names, wanted)
    return table.select(list(wanted))


def _array(column: Any, number: bool) -> Any:
    """Return a pandas column as an Arrow column."""
    pa = arrow()
    if not _has_objects(column.dtype):
        frame = column.to_frame("only")
        return pa.Table.from_pandas(frame, preserve_index=False).column(0)
    items = column.astype(object)
    if number:
        return pa.array(records("column", items))
    return pa.array(texts_of(items.tolist()), pa.large_string())


def _has_objects(dtype: Any) -> bool:
    """Return whether a pandas dtype holds objects, for which Arrow infers types."""
    categories = getattr(dtype, "categories", None)
    if categories is not None:
        return _has_objects(getattr(categories, "dtype", None))
    objects = isinstance(dtype, np.dtype) and dtype.kind == "O"
    return objects or getattr(dtype, "storage", "") == "python"


def readable(rows: Any, wanted: Sequence[str] | None) -> Any:
    """Return rows with only cells that DuckDB can read; other cells become null.

    Arrow accepts any bytes as text. Timestamps are converted to DuckDB's unit here,
    because its own conversion may overflow.
    """
    pa = arrow()
    if isinstance(rows, pa.RecordBatchReader):
        clean = (readable(batch, wanted) for batch in rows)
        schema = readable(rows.schema.empty_table(), wanted).schema
        return pa.RecordBatchReader.from_batches(schema, clean)
    for place, field in enumerate(rows.schema):
        if wanted is not None and field.name not in wanted:
            continue
        column = rows.column(place)
        words = str(field.type).removeprefix("dictionary<")
        if own_type(field.type) != field.type:
            rows = rows.set_column(place, field.name, _owned(column))
        elif "string" in words and "<" not in words:
            try:
                column.validate(full=True)
            except pa.ArrowInvalid:
                held = pa.array(items_of(column), field.type)
                rows = rows.set_column(place, field, held)
    return rows


def own_type(type_: Any) -> Any:
    """Return the Arrow type to which a type is converted for DuckDB, also in files."""
    pa = arrow()
    types = pa.types
    if types.is_dictionary(type_) or types.is_run_end_encoded(type_):
        own = own_type(type_.value_type)
        return type_ if own == type_.value_type else own
    if types.is_timestamp(type_) and type_.unit in _A_SECOND:
        return pa.timestamp("us", type_.tz)
    if types.is_decimal256(type_):
        fits = type_.precision <= _DIGITS
        return pa.decimal128(type_.precision, type_.scale) if fits else pa.float64()
    return pa.float32() if types.is_float16(type_) else type_


def _owned(column: Any) -> Any:
    """Convert a column to its `own_type`; times out of range become null."""
    pa = arrow()
    from pyarrow import compute

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    elif pa.types.is_run_end_encoded(column.type):
        column = compute.run_end_decode(column)
    if pa.types.is_timestamp(column.type):
        ticks = column.cast(pa.int64())
        most = _INT64.max // (10**6 // _A_SECOND[column.type.unit])
        near = compute.less_equal(ticks, most)
        near = compute.and_(near, compute.greater_equal(ticks, -most))
        column = compute.if_else(near, column, pa.scalar(None, column.type))
    return column.cast(own_type(column.type), safe=False)


def joined(keys: pa.Table, columns: Mapping[str, _Array]) -> pa.Table:
    """Return a table of keys with further columns."""
    for name, values in columns.items():
        keys = keys.append_column(name, arrow().array(values))
    return keys


def signed(table: Any) -> Any:
    """Convert unsigned integers to the next wider signed type, for Spark."""
    pa = arrow()
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    for place, field in enumerate(table.schema):
        if field.type in wider:
            column = table.column(place).cast(wider[field.type])
            table = table.set_column(place, field.name, column)
    return table


# ---- keys ------------------------------------------------------------------------


def check_key(name: str, type_: Any) -> None:
    """Refuse keys other than integers, text, bools, dates, times and decimals."""
    types = arrow().types
    text = types.is_string(type_) or types.is_large_string(type_)
    if types.is_dictionary(type_):
        check_key(name, type_.value_type)
    elif not (
        text
        or types.is_string_view(type_)
        or types.is_integer(type_)
        or types.is_boolean(type_)
        or (types.is_temporal(type_) and not types.is_interval(type_))
        or types.is_decimal(type_)
    ):
        raise DTypeError(
            f"key {name!r} must be of integers, text, bools, dates or "
            f"decimals, got {type_}: convert it to text"
        )


def plain(column: Any) -> Any:
    """Decode a dictionary column, and convert large strings and views to one type."""
    pa = arrow()
    types = pa.types
    if types.is_dictionary(column.type):
        if types.is_string_view(column.type.value_type):  # Arrow cannot decode it
            column = column.cast(pa.dictionary(pa.int64(), pa.large_string()))
        column = column.cast(column.type.value_type)
    if types.is_large_string(column.type) or types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    return column


def with_text(table: pa.Table, kind: str) -> pa.Table:
    """Convert text to a type: "large_string" can hold more than 2 GiB."""
    pa = arrow()
    for place, name in enumerate(table.column_names):
        column = table.column(name)
        text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if text and (kind == "large_string" or column.nbytes < 2**31):
            table = table.set_column(place, name, column.cast(kind))
    return table


def in_order(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return a table sorted by its keys, nulls last; refuse repeated keys."""
    from pyarrow import compute

    for name in keys:
        check_key(name, table.schema.field(name).type)
        place = table.column_names.index(name)
        table = table.set_column(place, name, plain(table.column(name)))
    order = compute.sort_indices(table, [(name, "ascending") for name in keys])
    table = table.take(order)
    if _any_twice(table.select(list(keys))):
        raise ParameterError(
            f"keys {', '.join(map(repr, keys))} must name each row once: "
            "aggregate first, because noise is drawn for each row"
        )
    return table


def _any_twice(keys: pa.Table) -> bool:
    """Return whether two rows of a sorted table are equal; nulls equal each other."""
    from pyarrow import compute

    twice: Any = True
    for column in keys.columns:
        here, next_one = column.slice(0, max(len(column) - 1, 0)), column.slice(1)
        same = compute.equal(here, next_one)
        nulls = compute.and_(compute.is_null(here), compute.is_null(next_one))
        twice = compute.and_(twice, compute.coalesce(same, nulls))
    return bool(compute.any(twice, min_count=0).as_py())


def packed(column: pa.ChunkedArray, *, public: bool = True) -> _Array:
    """Return keys in the ledger's form: integers, or bytes that encode any text.

    Keys that are not public are bytes objects: an array of fixed width would reveal the
    length of the longest key.
    """
    types = arrow().types
    column = column.cast(_stored_type(column.type))
    if types.is_integer(column.type) and column.null_count == 0:
        return np.asarray(column.to_numpy())
    listed = [
        b"" if text is None else text.encode() + _END
        for text in column.cast(arrow().large_string()).to_pylist()
    ]
    if not public:
        return np.array(listed, object)
    return np.array(listed, "S" if listed else "S1")


def _stored_type(type_: Any) -> Any:
    """Return the integer type that stores a date or time; some days have no text."""
    pa = arrow()
    if not pa.types.is_temporal(type_):
        return type_
    return pa.int32() if type_.bit_width == 32 else pa.int64()


def unpacked(keys: _Array, type_: Any) -> Any:
    """Invert `packed`: return a column of the keys' type."""
    pa = arrow()
    stored = _stored_type(type_)
    if keys.dtype.kind != "S":
        return pa.array(keys).cast(stored).cast(type_)
    listed = [key.removesuffix(_END).decode() if key else None for key in keys.tolist()]
    return pa.array(listed, pa.large_string()).cast(stored).cast(type_)


# ---- values ----------------------------------------------------------------------


def numbers(column: pa.ChunkedArray) -> Any:
    """Return a column for the doorway; sums of 128 bits are clamped to int64."""
    pa = arrow()
    from pyarrow import compute

    types = pa.types
    column = plain(column)
    if types.is_decimal(column.type) and column.type.scale == 0:
        low, high = (pa.scalar(int(end), column.type) for end in _ends(column.type))
        held = compute.max_element_wise(column, low, skip_nulls=False)
        held = compute.min_element_wise(held, high, skip_nulls=False)
        return held.cast(pa.int64())
    return column


def _ends(type_: Any) -> tuple[int, int]:
    """Return the range of int64, cut to the numbers that a decimal type can hold."""
    most = 10**type_.precision - 1
    return max(_INT64.min, -most), min(_INT64.max, most)
