"""Columns by the Arrow PyCapsule protocol, read without pyarrow.

A single chunk is a view of the producer's memory; several chunks are concatenated.
The steps depend only on formats and sizes: a validity bitmap is applied to every row in
the same way, with or without nulls.

https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core
from fastdp.exceptions import DTypeError

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: numpy dtype of each format of fixed width; None for packed bits.
_DTYPES: dict[bytes | None, np.dtype[Any] | None] = {
    b"b": None,
    b"c": np.dtype(np.int8),
    b"C": np.dtype(np.uint8),
    b"s": np.dtype(np.int16),
    b"S": np.dtype(np.uint16),
    b"i": np.dtype(np.int32),
    b"I": np.dtype(np.uint32),
    b"l": np.dtype(np.int64),
    b"L": np.dtype(np.uint64),
    b"f": np.dtype(np.float32),
    b"g": np.dtype(np.float64),
}

#: Fill nulls in this many rows at a time: the temporary arrays then fit in the cache.
_BLOCK = 1 << 14


def is_column(type_: type) -> bool:
    """Return whether objects of a class offer a column, or a stream of its chunks.

    It checks the class, not the object, because some objects slowly return an attribute
    for any name.
    """
    return hasattr(type_, "__arrow_c_array__") or hasattr(type_, "__arrow_c_stream__")


@functools.lru_cache(maxsize=1024)
def _is_array(type_: type) -> bool:
    return hasattr(type_, "__arrow_c_array__")


def column(
    name: str,
    x: Any,
    null: float,
    wide: type[np.generic] | None = None,
    *,
    labels: bool = False,
) -> _Array:
    """Return a column as a one-dimensional array, with nulls as the number `null`.

    A column that may have nulls is first converted to `wide`, if `wide` holds all its
    numbers. `labels` means that categories are wanted, and changes only messages. The
    result is a view if there is one chunk of numbers without a validity bitmap.

    Raises
    ------
    DTypeError
        The column does not hold numbers or bits of a fixed width.
    """
    if _is_array(type(x)):  # type: ignore[arg-type]  # classes are hashable
        schema, array = x.__arrow_c_array__()
        kind: bytes | None = _core.arrow_format(schema)
        chunks: list[Any] = [array]
    else:
        kind, chunks = _core.arrow_chunks(x.__arrow_c_stream__())
    if kind not in _DTYPES:
        raise DTypeError(f"{name} must be {RULE}; {_named(kind, labels)}")
    dtype = _DTYPES[kind]
    if len(chunks) == 1:
        return _values(chunks[0], dtype, null, wide)
    parts = [_values(chunk, dtype, null, wide) for chunk in chunks]
    empty = np.zeros(0, np.bool_ if dtype is None else dtype)
    return np.concatenate([empty, *parts])


#: Bytes of an offset in each format of strings.
_OFFSETS = {b"u": 4, b"z": 4, b"U": 8, b"Z": 8}


def text(x: Any) -> tuple[_Array, _Array] | None:
    """Return the bytes of a column of strings, and the strings' offsets.

    Nulls become empty strings. It returns None for any other column, even if its stream
    was read, and for a column that its producer cannot convert; callers can then read
    the object in other ways.
    """
    try:
        if _is_array(type(x)):  # type: ignore[arg-type]  # classes are hashable
            schema, array = x.__arrow_c_array__()
            kind: bytes | None = _core.arrow_format(schema)
            chunks: list[Any] = [array] if kind in _OFFSETS else []
        else:
            kind, chunks = _core.arrow_chunks(x.__arrow_c_stream__())
    except Exception:  # mixed Python objects; the message would show one of them
        return None
    if kind not in _OFFSETS:
        return None
    parts, starts, size = [np.zeros(0, np.uint8)], [np.zeros(1, np.int64)], 0
    for chunk in chunks:
        start, content, validity, skipped = _core.arrow_strings(chunk, _OFFSETS[kind])
        if validity is not None:
            start, content = _without_nulls(start, content, validity, skipped)
        parts.append(content)
        starts.append(start[1:].astype(np.int64) + size)
        size += len(content)
    joined = parts[1] if len(parts) == 2 else np.concatenate(parts)
    return joined, np.concatenate(starts)


def _without_nulls(
    start: _Array, content: _Array, validity: _Array, skipped: int
) -> tuple[_Array, _Array]:
    """Return offsets and bytes without the bytes of null entries."""
    lengths = np.diff(start)
    there = _spread(validity, skipped, len(lengths)).astype(np.bool_)
    kept = content[np.repeat(there, lengths)]
    ends = np.cumsum(np.where(there, lengths, 0))
    return np.concatenate([np.zeros(1, ends.dtype), ends]), kept


#: What a column may hold.
RULE = "one column of integers, floats or bools"


def line_for_table(labels: bool) -> str:
    """Return the code to use instead of a table; with `labels`, for categories."""
    line = (
        'frames.randomize(frame, {"column": m})'
        if labels
        else 'frames.release(frame, {"column": m}, keys="key", ledger=None)'
    )
    return f"this is a table: select a column, or write fastdp.{line}"


def _named(kind: bytes | None, labels: bool) -> str:
    if kind is None:
        return "it cannot be read"  # the producer's own message may hold data
    if kind == b"+s":
        return line_for_table(labels)
    if kind.startswith(b"+"):
        return "this is a column of lists"
    if kind == b"dictionary":
        return "this one is encoded by a dictionary"
    return f"this one has the Arrow format {kind.decode()!r}"


def _values(
    chunk: object,
    dtype: np.dtype[Any] | None,
    null: float,
    wide: type[np.generic] | None,
) -> _Array:
    values, validity, skipped, length = _core.arrow_view(chunk, dtype)
    if dtype is None:
        values = _spread(values, skipped, length).view(np.bool_)
        if wide is not None:  # the dtype must not depend on whether there is a null
            values = values.astype(wide)
    if validity is None:
        return values
    if wide is not None and np.can_cast(values.dtype, wide):
        values = values.astype(wide)
    return _filled(values, _spread(validity, skipped, length), null)


def _spread(packed: _Array, skipped: int, length: int) -> _Array:
    """Return bits, the least significant first, as bytes 0 and 1."""
    return np.unpackbits(packed, bitorder="little")[skipped : skipped + length]


def constant(null: float, dtype: np.dtype[Any]) -> np.generic:
    """Return the number of dtype `dtype` nearest to `null`."""
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        null = int(min(max(null, ends.min), ends.max))
    result: np.generic = dtype.type(null)
    return result


def _filled(values: _Array, valid: _Array, null: float) -> _Array:
    """Return a copy with `null` where `valid` is 0, by the same steps for all rows."""
    held = np.asarray(constant(null, values.dtype))
    words = np.dtype(f"i{values.dtype.itemsize}")
    result = values.copy()
    flat, fill = result.view(words), held.view(words)
    signs = valid.view(np.int8)
    for start in range(0, len(flat), _BLOCK):
        part = flat[start : start + _BLOCK]
        mask = np.negative(signs[start : start + _BLOCK]).astype(words)
        part &= mask
        if fill:
            part |= fill & ~mask
    return result
