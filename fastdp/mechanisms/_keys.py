"""Columns of keys and users: numbers, text or bytes of any library."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

from fastdp import _arrays
from fastdp._doorway import enter, is_data, one_index, records
from fastdp.exceptions import DTypeError, ParameterError

_Array = np.ndarray[Any, Any]

#: Types of missing values in a column of objects: None, NaN, pandas' NA and NaT.
NULLS = frozenset(("NoneType", "float", "NAType", "NaTType"))
_ABSENT = NULLS - {"float"}

_MAY_BE_NAN = (float, np.floating, np.datetime64, np.timedelta64, Decimal)

#: Sort shown keys by kind first: numbers, bytes, text.
_ORDER = {int: 0, float: 0, bytes: 1, str: 2}

#: Types of objects whose text serves as the key.
_AS_TEXT = (date, time, timedelta, np.datetime64, np.timedelta64, UUID)

#: Treat decimals with more digits than this as missing.
_MOST_DIGITS = 1000

#: For each kind of key, the names of column types that hold it, in any library.
_TYPES = {
    "number": r"u?int(8|16|32|64|128)|float(16|32|64)?|halffloat|double|bool(ean)?"
    r"|decimal.*",
    "text": r"str|string|large_string|string_view|categorical.*|enum.*",
    "bytes": r"(large_)?binary(_view)?|fixed_size_binary.*",
    "any": r"object|null",
}

#: Finds the values' type in the name of an encoded Arrow type.
_ENCODED = re.compile(
    r"(?:dictionary<values=|run_end_encoded<.*values: )(\w+(?:\(.*?\))?).*"
)

_INTEGERS = re.compile(r"u?int(8|16|32|64)")

#: Significant bits of narrow floats, by their names in the libraries.
_BITS = {"float16": 11, "halffloat": 11, "float32": 24, "float": 24}


def key_column(name: str, keys: Any) -> tuple[_Array, _Array]:
    """Return keys as an array that `distinct` can read, and which entries are keys.

    Each entry depends only on its own record and the column's type: no record changes
    another's key, and no value raises. `_reader` maps an object to its key.

    Raises
    ------
    DTypeError, ParameterError
        The column is not one-dimensional, or its type has no keys.
    """
    listed, bits = _listed(name, keys)
    if not isinstance(listed, np.ndarray) or listed.dtype.kind not in "USOTbiuf":
        raise _wrong(name, getattr(listed, "dtype", None))
    if listed.ndim != 1:
        raise ParameterError(f"{name} must have shape (n,), got {listed.shape}")
    if listed.dtype.kind == "b":
        listed = listed.view(np.uint8)
    if listed.dtype.kind == "f":
        whole, known = _whole(listed)
        with np.errstate(invalid="ignore"):  # a signaling NaN would warn
            fractions = np.isfinite(listed) & (listed != np.floor(listed))
        if not fractions.any():
            return whole, known
        bits = min(np.finfo(listed.dtype).nmant + 1, 53)
    if listed.dtype.kind in "Tf":
        listed = listed.astype(object)
    if listed.dtype.kind != "O":
        return listed, np.ones(len(listed), bool)
    kinds = set(map(type, listed))
    if kinds <= {int, bytes, str}:
        return listed, np.ones(len(listed), bool)
    read = {kind: _reader(kind, bits) for kind in kinds}
    found = [read[type(key)](key) for key in listed]
    known = np.array([key is not None for key in found], bool)
    filled = _objects(found)
    filled[~known] = 0
    return filled, known


def kind_of_keys(keys: Any) -> str:
    """Return the kind of key of a column's type: a name of `_TYPES`."""
    type_ = _type(keys)
    if isinstance(type_, np.dtype) and type_.kind in "UST":
        return "bytes" if type_.kind == "S" else "text"
    return "any" if type_ is None else _kind_of(type_)


def texts_of(items: list[Any]) -> list[str | None]:
    """Return each object as a text key on its own; None if it is not a key.

    Parameters
    ----------
    items : list
        Python objects. Text that is not UTF-8, such as lone surrogates, is not a key.
    """
    read = {kind: _reader(kind, 53) for kind in set(map(type, items))}
    return [_text(read[type(item)](item)) for item in items]


def presence(name: str, x: Any) -> _Array:
    """Return a mask of the present entries of a column of any type.

    All entries count except None, NaN, NA and NaT.

    Raises
    ------
    DTypeError, ParameterError
        `x` is not a column, has a mask, or has more than one dimension.
    """
    own = isinstance(x, (list, tuple, np.ndarray)) or isinstance(_type(x), np.dtype)
    if not own:
        try:
            return ~np.isnan(records(name, x))
        except DTypeError:  # depends on the column's type alone
            if not hasattr(x, "to_numpy") or _type(x) is None:
                raise _no_column(name) from None
            if _kind_of(_type(x)) != "any":
                return _there(x)
    listed, _ = _listed(name, x)
    if not isinstance(listed, np.ndarray) or listed.dtype.kind not in "USOTbiufMm":
        raise _no_column(name)
    if listed.ndim != 1:
        raise ParameterError(f"{name} must have shape (n,), got {listed.shape}")
    if listed.dtype.kind in "OT":
        return ~_nulls(listed.astype(object, copy=False))
    if listed.dtype.kind in "fMm":
        there: _Array = listed == listed  # only NaN and NaT differ from themselves
        return there
    return np.ones(len(listed), bool)


def distinct(keys: _Array) -> tuple[_Array, _Array]:
    """Return the distinct keys, sorted by kind and value, and the place of each key."""
    if keys.dtype.kind == "i" and len(keys):
        low, high = int(keys.min()), int(keys.max())
        if high - low < 4 * len(keys):  # count them: no sort
            at = keys.astype(np.int64) - low
            there = np.bincount(at) > 0
            found = (np.flatnonzero(there) + low).astype(keys.dtype)
            return found, (np.cumsum(there) - 1)[at]
    if keys.dtype.kind != "O":
        return np.unique(keys, return_inverse=True)
    kinds = np.fromiter((_ORDER[type(key)] for key in keys), np.int8, len(keys))
    parts, place, count = [keys[:0]], np.zeros(len(keys), np.int64), 0
    for kind in range(3):
        chosen = np.flatnonzero(kinds == kind)
        found, at = np.unique(keys[chosen], return_inverse=True)
        place[chosen] = at + count
        parts.append(found)
        count += len(found)
    return np.concatenate(parts), place


def counted(keys: Any, counts: Any) -> tuple[_Array, _Array]:
    """Return the distinct keys with positive counts, sorted, and the sums of counts.

    High and low 31 bits are summed separately, so nothing overflows before the single
    clamp to 2**62.

    Raises
    ------
    DTypeError, ParameterError
        `keys` is not a column of keys, or `counts` are not integers of its length.
    """
    one_index(keys=keys, counts=counts)
    listed, known = key_column("keys", keys)
    if is_data(counts):
        counts, _ = enter("counts", counts)
    exact = _arrays.data("counts", counts, real=False)
    if exact.shape != (len(listed),):
        raise ParameterError(
            f"counts must have shape ({len(listed)},), got {exact.shape}"
        )
    exact = exact.astype(np.int64)
    present = known & (exact > 0)
    found, place = distinct(listed[present])
    high = np.zeros(len(found), np.int64)
    low = np.zeros(len(found), np.int64)
    np.add.at(high, place, exact[present] >> 31)
    np.add.at(low, place, exact[present] & (2**31 - 1))
    high += low >> 31
    whole = np.minimum(high, 2**31 - 1) * 2**31 + (low & (2**31 - 1))
    return found, np.where(high < 2**31, whole, 2**62)


def _type(column: Any) -> Any:
    return getattr(column, "dtype", getattr(column, "type", None))


def _objects(items: Any) -> _Array:
    return np.fromiter(items, object, len(items))  # np.array would unpack inner lists


def _listed(name: str, keys: Any) -> tuple[Any, int]:
    """Return a list or column as an array, and the significant bits of its floats.

    Integers with nulls become Python objects, because different large keys would be
    equal as floats.
    """
    if isinstance(keys, (list, tuple)):
        return _objects(keys), 53
    if isinstance(keys, np.ndarray) and hasattr(keys, "mask"):
        raise DTypeError(f"{name} must have no mask: remove the masked records first")
    type_ = _type(keys)
    if not hasattr(keys, "to_numpy") or type_ is None or getattr(keys, "ndim", 1) != 1:
        return keys, 53
    if isinstance(type_, np.dtype):  # a pandas column with a numpy dtype
        return keys.to_numpy(), 53
    if not _kind_of(type_):
        raise _wrong(name, type_)
    said = _said(type_)
    if _INTEGERS.fullmatch(said) and _there(keys := _plain(keys)).all():
        return np.asarray(keys), 53
    return _objects(items_of(keys)), _BITS.get(said, 53)


def _said(type_: Any) -> str:
    """Return the name of a type, or of the value type of an encoded type."""
    categories: Any = getattr(type_, "categories", None)
    if hasattr(categories, "dtype") and str(type_) == "category":
        return _said(categories.dtype)
    said = str(type_).lower().removesuffix("[pyarrow]")
    encoded = _ENCODED.fullmatch(said)
    return encoded[1] if encoded else said


def _kind_of(type_: Any) -> str:
    """Return the kind of key of a type, or "" for none."""
    said = _said(type_)
    return next((k for k, names in _TYPES.items() if re.fullmatch(names, said)), "")


def items_of(column: Any) -> list[Any]:
    """Return the objects of a column; text that is not UTF-8 is None."""
    # Methods of pandas and polars columns, of Arrow columns, and of pandas arrays.
    names = ("to_list", "to_pylist", "tolist")
    try:
        items = next(getattr(column, n)() for n in names if hasattr(column, n))
    except UnicodeDecodeError:  # Arrow does not check that text is UTF-8
        pa: Any = sys.modules["pyarrow"]
        held = getattr(column, "array", column)
        held = held.__arrow_array__() if hasattr(held, "__arrow_array__") else held
        held = _plain(held)
        return [_decoded(item) for item in held.cast(pa.large_binary()).to_pylist()]
    return list(items)


def _plain(column: Any) -> Any:
    """Decode an Arrow dictionary or run-end column; its values may have nulls."""
    held = getattr(column, "array", column)  # pandas: the array inside the column
    if hasattr(_type(held), "pyarrow_dtype"):
        column = held.__arrow_array__()
    if not hasattr(column, "is_valid"):
        return column
    types: Any = sys.modules["pyarrow"].types
    if types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if types.is_run_end_encoded(column.type):
        from pyarrow import compute

        return compute.run_end_decode(column)
    return column


def _there(column: Any) -> _Array:
    """Return a mask of the entries of a typed column that are not null or NaN."""
    column = _plain(column)
    if hasattr(column, "isna"):
        return ~np.asarray(column.isna(), bool)
    if hasattr(column, "is_valid"):  # pyarrow
        return ~np.asarray(column.is_null(nan_is_null=True), bool)
    there = np.asarray(column.is_not_null(), bool)
    if column.dtype.is_float():
        there &= ~np.asarray(column.is_nan().fill_null(value=True), bool)
    return there


def _reader(kind: type, bits: int) -> Callable[[Any], Any]:
    """Return the function from objects of a type to keys; None means no key.

    Bools, whole floats and whole decimals become integers; other decimals, dates and
    UUIDs become text. Infinities, floats so large that several integers round to them,
    and all other objects are not keys.
    """
    if kind in (int, bytes, str):
        return lambda key: key
    if kind.__name__ in _ABSENT:
        return lambda _: None
    if issubclass(kind, (float, np.floating)):
        narrow = issubclass(kind, (np.float16, np.float32))
        most = 2.0 ** (np.finfo(kind).nmant + 1 if narrow else bits)
        return lambda key: _of_float(float(key), most)
    if issubclass(kind, Decimal):
        return _of_decimal
    if issubclass(kind, _AS_TEXT):
        return _of_date
    for plain, classes in (
        (int, (int, np.integer, np.bool_)),
        (str, (str,)),
        (bytes, (bytes,)),
    ):
        if issubclass(kind, classes):
            return plain
    return lambda _: None


def _of_date(key: Any) -> str | None:
    """Return a date, a time or a UUID as text."""
    text = str(key)
    return None if text == "NaT" else text


def _of_float(key: float, most: float) -> int | float | None:
    if key % 1 == 0:
        return int(key) if -most < key < most else None
    return key if math.isfinite(key) else None


def _of_decimal(key: Decimal) -> int | str | None:
    """Return a decimal as an integer, or as text without trailing zeros."""
    sign, digits, exponent = key.as_tuple()
    if not isinstance(exponent, int) or len(digits) + abs(exponent) > _MOST_DIGITS:
        return None
    whole = int("".join(map(str, digits))) * (-1 if sign else 1)
    while whole and exponent < 0 and whole % 10 == 0:
        whole, exponent = whole // 10, exponent + 1
    if exponent >= 0 or not whole:
        return int(whole * 10 ** max(exponent, 0))
    text = str(abs(whole)).rjust(1 - exponent, "0")
    return f"{'-' * sign}{text[:exponent]}.{text[exponent:]}"


def _text(key: Any) -> str | None:
    """Return a key as text; None for an integer too long to write, or invalid UTF-8."""
    if isinstance(key, str):
        return key if key.isascii() or _is_utf8(key) else None
    if isinstance(key, bytes):
        return _decoded(key)
    if isinstance(key, int) and key.bit_length() > 3 * _MOST_DIGITS:
        return None
    return None if key is None else str(key)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decoded(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None


def _nulls(listed: _Array) -> _Array:
    kinds = set(map(type, listed))
    absent = {kind for kind in kinds if kind.__name__ in _ABSENT}
    doubtful = {kind for kind in kinds if issubclass(kind, _MAY_BE_NAN)}
    if not absent | doubtful:
        return np.zeros(len(listed), bool)
    return np.array(
        [
            type(item) in absent or (type(item) in doubtful and _is_nan(item))
            for item in listed
        ],
        bool,
    )


def _is_nan(item: Any) -> bool:
    return item.is_nan() if isinstance(item, Decimal) else bool(item != item)


def _whole(numbers: _Array) -> tuple[_Array, _Array]:
    """Return floats as integers, and a mask of floats equal to exactly one integer."""
    most = 2.0 ** min(np.finfo(numbers.dtype).nmant + 1, 53)
    with np.errstate(invalid="ignore"):  # a signaling NaN would warn
        known = (numbers == np.floor(numbers)) & (np.abs(numbers) < most)
    return np.where(known, numbers, 0).astype(np.int64), known


def codes(keys: _Array) -> tuple[_Array, int]:
    """Return keys as uint64 codes, equal for equal keys, and a bound above them."""
    if keys.dtype.kind in "iu" and len(keys):
        low, high = int(keys.min()), int(keys.max())
        if high - low < 4 * len(keys) + 256:
            wide = np.dtype(np.uint64 if keys.dtype.kind == "u" else np.int64)
            return (keys.astype(wide) - wide.type(low)).astype(np.uint64), (
                high - low + 1
            )
    found, place = distinct(keys)
    return place.astype(np.uint64), max(len(found), 1)


def _no_column(name: str) -> DTypeError:
    return DTypeError(f"{name} must be a list or a one-dimensional column")


def _wrong(name: str, type_: Any = None) -> DTypeError:
    way = "make text or integers of it, such as months by .dt.strftime('%Y-%m')"
    got = "" if type_ is None else f", got {type_}: {way}"
    return DTypeError(
        f"{name} must be a list of str, bytes or numbers, or a one-dimensional column "
        f"of strings or numbers{got}"
    )
