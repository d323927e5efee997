"""Conversion of a table's column to the numbers or labels for a mechanism.

The reading of a cell depends only on this cell, never fails and never reveals the cell.
So one individual's cells change only this individual's numbers, for any content.

==========================================  ===============  ===================
cell                                        integers         reals
==========================================  ===============  ===================
null, empty or unreadable text              0                0
a number beyond the type's range            saturates        infinite (the
                                                             mechanism saturates)
NaN                                         (not accepted)   NaN (the mechanism
                                                             takes 0)
==========================================  ===============  ===================

Text is read as a decimal number with an optional sign and surrounding blanks;
for integers a fraction of zeros ("3.0") is accepted. 64-bit integers that are read as
reals saturate at 2**53 first, so that the reading is exact and cannot increase the
distance between two neighboring tables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

Integers: TypeAlias = "npt.NDArray[np.int64]"
Labels: TypeAlias = "npt.NDArray[np.int32] | npt.NDArray[np.int64]"
Reals: TypeAlias = "npt.NDArray[np.float64]"

_INT64 = np.iinfo(np.int64)

#: Integers up to here are exact doubles.
_EXACT_DOUBLE = 2**53

# Cells that Arrow's own conversion reads without errors and as defined here. Its parser
# is not enough by itself: it also accepts "0x10", and at the first cell that it cannot
# read it raises an error that shows the cell.
_PLAIN_INTEGER = r"^-?[0-9]{1,18}$"
_PLAIN_REAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?$"

_INTEGER = re.compile(rb"[ \t]*([+-]?[0-9]+)(\.0*)?[ \t]*")
_REAL = re.compile(
    rb"[ \t]*[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?"
    rb"|[iI][nN][fF]([iI][nN][iI][tT][yY])?)[ \t]*"
)


def require_numeric(
    name: str, kind: pa.DataType, *, integers: bool, declared: bool
) -> None:
    """Refuse a column of a type that the mechanism does not accept.

    Parameters
    ----------
    declared : bool
        Whether the file states types. If so, a column of text is refused: all its cells
        might be read as 0, and a release could not say so.

    Raises
    ------
    ParameterError
        The type is neither a number of the right kind nor undeclared text.
    """
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind) or (_is_text(kind) and not declared):
        return
    if not integers and (types.is_float32(kind) or types.is_float64(kind)):
        return
    rule = "integers" if integers else "integers or floats"
    raise ParameterError(
        f"--column {name!r} must hold {rule}, got {kind}{_way_out(kind)}"
    )


def _way_out(kind: pa.DataType) -> str:
    return " (cast it to numbers first)" if _is_text(kind) else ""


def read_integers(column: pa.Array, missing: int = 0) -> Integers:
    """Return the column as int64, shape ``(len(column),)``, without nulls.

    A cell without a number counts as `missing`. The result may be a read-only view
    of the column's own memory.
    """
    import pyarrow as pa
    from pyarrow import compute, types

    column = decoded(column)
    if _is_text(column.type):
        return _integers_of_text(column, missing)
    if types.is_uint64(column.type):
        top = pa.scalar(_INT64.max, pa.uint64())
        column = compute.min_element_wise(column, top, skip_nulls=False)
    values: Integers = compute.fill_null(column.cast("int64"), missing).to_numpy()
    return values


def read_reals(column: pa.Array, missing: float = 0.0) -> Reals:
    """Return the column as float64, shape ``(len(column),)``, without nulls.

    A cell without a number counts as `missing`. The result may be a read-only view
    of the column's own memory.
    """
    from pyarrow import compute, types

    column = decoded(column)
    if _is_text(column.type):
        return _reals_of_text(column, missing)
    if types.is_integer(column.type):
        whole = np.clip(read_integers(column), -_EXACT_DOUBLE, _EXACT_DOUBLE)
        there = column.is_valid().to_numpy(zero_copy_only=False)
        return np.where(there, whole, missing).astype(np.float64)
    values: Reals = compute.fill_null(column, missing).cast("float64").to_numpy()
    return values


def read_names(column: pa.Array) -> pa.Array:
    """Return cells of a text file as text; blank or non-UTF-8 cells are null.

    Blanks around a text are removed.
    """
    import pyarrow as pa
    from pyarrow import compute

    cells = read_strings(column)
    cells = compute.if_else(
        compute.equal(cells, b""), pa.scalar(None, pa.large_binary()), cells
    )
    try:
        return cells.cast(pa.large_string())
    except pa.ArrowException:
        return pa.array(map(_text_of, cells.to_pylist()), pa.large_string())


def read_strings(column: pa.Array) -> pa.Array:
    """Return text, integers or bools as the bytes of their text; nulls stay null.

    Blanks around a text are removed.
    """
    import pyarrow as pa
    from pyarrow import compute

    column = decoded(column)
    if not _is_text(column.type):
        column = column.cast(pa.large_string())
    # Declare any bytes as text: trimming looks at single bytes only.
    named = compute.CastOptions(pa.large_string(), allow_invalid_utf8=True)
    text = compute.cast(column.cast(pa.large_binary()), options=named)
    return compute.ascii_trim(text, " \t").cast(pa.large_binary())


def _text_of(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def require_labels(
    name: str, kind: pa.DataType, names: Sequence[str] | None, *, declared: bool
) -> None:
    """Refuse a column of a type that cannot hold any of the categories.

    Parameters
    ----------
    names : sequence of str or None
        Names of the categories; None for the integers from 0.
    declared : bool
        Whether the file states types. If so, text is not read as integers.

    Raises
    ------
    ParameterError
        The type is none of text, integers and (with names) bools, or no category is
        one of its values.
    """
    from pyarrow import types

    value = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_integer(value):
        if names is None or any(re.fullmatch("-?[0-9]+", given) for given in names):
            return
        rule = "text where --categories are names that are no integers"
        raise ParameterError(f"--column {name!r} must hold {rule}, got {kind}")
    if types.is_boolean(value) and names is not None:
        if {"true", "false"} & set(names):
            return
        raise ParameterError(
            f"--column {name!r} holds bools: --categories must have true or false"
        )
    if not _is_text(value) or (names is None and declared):
        rule = "integers" if names is None else "text, integers or bools"
        raise ParameterError(
            f"--column {name!r} must hold {rule}, got {kind}{_way_out(value)}"
        )


def require_strings(name: str, kind: pa.DataType) -> None:
    """Refuse a column of a type without a definite text form.

    Raises
    ------
    ParameterError
        The type is not text, integers or bools.
    """
    from pyarrow import types

    value = kind.value_type if types.is_dictionary(kind) else kind
    if not (_is_text(value) or types.is_integer(value) or types.is_boolean(value)):
        raise ParameterError(
            f"--column {name!r} must hold text, integers or bools, got {kind}"
        )


def read_labels(column: pa.Array, categories: pa.Array | None) -> Labels:
    """Return each cell's place in a public list, -1 if it is not in the list.

    Parameters
    ----------
    column : Array
        Text, integers or bools; blanks around a text are ignored.
    categories : Array of large_binary or None
        The distinct categories as text; None for the integers from 0.

    Returns
    -------
    ndarray, shape (len(column),)
        int32 places; int64 cells where `categories` is None.
    """
    from pyarrow import compute

    if categories is None:
        return read_integers(column, missing=-1)
    cells = read_strings(column)
    places = compute.index_in(cells, value_set=categories, skip_nulls=True)
    values: Labels = compute.fill_null(places, -1).to_numpy()
    return values


def read_as_they_stand(
    column: pa.Array, values: Integers | Reals
) -> npt.NDArray[np.bool_]:
    """Return a mask of the cells that equal the numbers read from them.

    Parameters
    ----------
    column : Array
        Without a dictionary.
    values : ndarray of int64 or float64
        Result of `read_integers` or `read_reals` for the column.
    """
    import pyarrow as pa
    from pyarrow import compute, types

    if _is_text(column.type):
        return _text_as_it_stands(column, values)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    if types.is_floating(column.type):
        return np.asarray(there & np.isfinite(values))
    # Unsigned integers beyond int64 saturate, so the comparison cannot tell: ask Arrow.
    same = read_integers(column) == values.astype(np.int64)
    if types.is_uint64(column.type):
        beyond = compute.greater(column, pa.scalar(_INT64.max, pa.uint64()))
        same &= ~compute.fill_null(beyond, False).to_numpy(zero_copy_only=False)
    return np.asarray(there & same)


def _text_as_it_stands(
    column: pa.Array, values: Integers | Reals
) -> npt.NDArray[np.bool_]:
    import pyarrow as pa
    from pyarrow import compute

    integers = values.dtype == np.int64
    cells = compute.fill_null(column.cast(pa.large_binary()), b"")
    plain = _PLAIN_INTEGER if integers else _PLAIN_REAL
    good = compute.match_substring_regex(cells, plain).to_numpy(zero_copy_only=False)
    good = good & np.isfinite(values)
    for place in np.flatnonzero(~good):
        cell, value = cells[int(place)].as_py(), values[place]
        if integers:
            match = _INTEGER.fullmatch(cell)
            # A number of twenty digits is beyond int64.
            digits = match[1].lstrip(b"+-").lstrip(b"0") if match else b"0" * 20
            good[place] = len(digits) < 20 and abs(int(digits or b"0")) == abs(
                int(value)
            )
        else:
            good[place] = _REAL.fullmatch(cell) is not None and np.isfinite(value)
    return np.asarray(good)


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


def decoded(column: pa.Array) -> pa.Array:
    """Decode a column that may have a dictionary."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        return column.dictionary_decode()
    return column


def _integers_of_text(column: pa.Array, missing: int) -> Integers:
    values, rest, where = _plain(column, _PLAIN_INTEGER, "int64", missing)
    if len(where):
        values[where] = [_integer(cell, missing) for cell in rest]
    return values


def _reals_of_text(column: pa.Array, missing: float) -> Reals:
    values, rest, where = _plain(column, _PLAIN_REAL, "float64", missing)
    if len(where):
        values[where] = [_real(cell, missing) for cell in rest]
    return values


def _plain(
    column: pa.Array, pattern: str, kind: str, constant: int | float
) -> tuple[npt.NDArray[Any], list[bytes], npt.NDArray[np.intp]]:
    """Convert cells that match `pattern` by Arrow (fast); return the other cells.

    Nulls and empty cells become the constant. All other cells are returned as bytes,
    with their positions.
    """
    import pyarrow as pa
    from pyarrow import compute

    cells = compute.fill_null(column.cast(pa.large_binary()), b"")
    plain = compute.match_substring_regex(cells, pattern)
    text = compute.if_else(plain, cells, pa.scalar(None, pa.large_binary()))
    numbers = text.cast(pa.large_string()).cast(kind)
    values = compute.fill_null(numbers, constant).to_numpy().copy()
    left = compute.and_(
        compute.invert(plain), compute.not_equal(compute.binary_length(cells), 0)
    )
    where = np.flatnonzero(left.to_numpy(zero_copy_only=False))
    rest: list[bytes] = cells.filter(left).to_pylist() if len(where) else []
    return values, rest, where


def _integer(cell: bytes, missing: int = 0) -> int:
    match = _INTEGER.fullmatch(cell)
    if match is None:
        return missing
    digits = match[1]
    sign = -1 if digits.startswith(b"-") else 1
    digits = digits.lstrip(b"+-").lstrip(b"0")
    # A number of over twenty digits is beyond int64: do not convert all of them.
    magnitude = int(digits[:20] or b"0") if len(digits) <= 20 else 10**20
    return max(_INT64.min, min(_INT64.max, sign * magnitude))


def _real(cell: bytes, missing: float = 0.0) -> float:
    return float(cell) if _REAL.fullmatch(cell) else missing
