"""Columns of keys and users: integers or text, whatever holds them."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from fastdp import _arrays
from fastdp._doorway import enter, is_data, one_index, records
from fastdp.exceptions import DTypeError, ParameterError

_Array = np.ndarray[Any, Any]

#: What stands for no key in a column of Python objects: None, NaN, pandas' NA and NaT.
NULLS = frozenset(("NoneType", "float", "NAType", "NaTType"))
_ABSENT = NULLS - {"float"}

_MAY_BE_NAN = (float, np.floating, np.datetime64, np.timedelta64, Decimal)

#: What a key can be, in the order of keys that are shown.
_KINDS = (int, bytes, str)

_INTEGERS = re.compile(r"u?int(8|16|32|64)(\[pyarrow\])?")

#: Significant bits of the narrow floats, by the names that libraries have for them.
_BITS = {"float16": 11, "halffloat": 11, "float32": 24, "float": 24}


def key_column(name: str, keys: Any) -> tuple[_Array, _Array]:
    """Return keys as an array that `distinct` can read, and which entries are keys.

    None and NaN are no keys: such rows contribute nothing. Nor do floats that are no
    integers, or so large that different integers would have become equal. Each entry
    follows from itself and the column's type alone: no record changes another's key. A
    column of Python objects may hold keys of several kinds; equal ones are of one kind.

    Raises
    ------
    DTypeError, ParameterError
        Not one-dimensional, or with elements that are no str, bytes, int or float.
    """
    listed, bits = _listed(name, keys)
    if not isinstance(listed, np.ndarray) or listed.dtype.kind not in "USOTiuf":
        raise _wrong(name)
    if listed.ndim != 1:
        raise ParameterError(f"{name} must have shape (n,), got {listed.shape}")
    if listed.dtype.kind == "f":  # integers with nulls, as pandas has them
        return _whole(listed)
    if listed.dtype.kind == "T":
        listed = listed.astype(object)
    if listed.dtype.kind != "O":
        return listed, np.ones(len(listed), bool)
    kinds = set(map(type, listed))
    if kinds <= set(_KINDS):
        return listed, np.ones(len(listed), bool)
    read = {kind: _reader(name, kind, bits) for kind in kinds}
    found = [read[type(key)](key) for key in listed]
    known = np.array([key is not None for key in found], bool)
    filled = _objects(found)
    filled[~known] = 0
    return filled, known


def presence(name: str, x: Any) -> _Array:
    """Return which entries of a column of anything are there.

    All but None, NaN, NA and NaT, whatever else the column holds.

    Raises
    ------
    DTypeError, ParameterError
        No column, one with a mask, or more than one dimension.
    """
    own = isinstance(x, (list, tuple, np.ndarray)) or isinstance(_type(x), np.dtype)
    if not own:
        try:
            return ~np.isnan(records(name, x))
        except DTypeError:  # the column's type alone decides
            if not hasattr(x, "to_numpy") or _type(x) is None:
                raise _no_column(name) from None
    listed, _ = _listed(name, x)
    if not isinstance(listed, np.ndarray) or listed.dtype.kind not in "USOTbiufMm":
        raise _no_column(name)
    if listed.ndim != 1:
        raise ParameterError(f"{name} must have shape (n,), got {listed.shape}")
    if listed.dtype.kind in "OT":
        return ~_nulls(listed.astype(object, copy=False))
    if listed.dtype.kind in "fMm":
        there: _Array = listed == listed  # NaN and NaT alone differ from themselves
        return there
    return np.ones(len(listed), bool)


def distinct(keys: _Array) -> tuple[_Array, _Array]:
    """Return the distinct keys, sorted within each kind, and the place of each key."""
    if keys.dtype.kind != "O":
        return np.unique(keys, return_inverse=True)
    kinds = np.fromiter((_KINDS.index(type(key)) for key in keys), np.int8, len(keys))
    parts, place, count = [keys[:0]], np.zeros(len(keys), np.int64), 0
    for kind in range(len(_KINDS)):
        chosen = np.flatnonzero(kinds == kind)
        found, at = np.unique(keys[chosen], return_inverse=True)
        place[chosen] = at + count
        parts.append(found)
        count += len(found)
    return np.concatenate(parts), place


def counted(keys: Any, counts: Any) -> tuple[_Array, _Array]:
    """Return distinct keys with a count, sorted, and the sums of their counts.

    Sums are made of halves of 31 bits, carried, and clamped to 2**62 once.

    Raises
    ------
    DTypeError, ParameterError
        No column of keys, or no integers of its length.
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
    return np.fromiter(items, object, len(items))  # lists among them stay lists


def _listed(name: str, keys: Any) -> tuple[Any, int]:
    """Return a list or column as an array, and the bits of its floats.

    What becomes Python objects follows from the column's type. Integers that have nulls
    become objects too: they would else be floats, and large keys equal.
    """
    if isinstance(keys, (list, tuple)):
        return _objects(keys), 53
    if isinstance(keys, np.ndarray) and hasattr(keys, "mask"):
        raise DTypeError(f"{name} must have no mask: leave its records out")
    type_ = _type(keys)
    if not hasattr(keys, "to_numpy") or type_ is None or getattr(keys, "ndim", 1) != 1:
        return keys, 53
    if isinstance(type_, np.dtype):  # of pandas: numpy's own
        return keys.to_numpy(), 53
    said = str(type_).lower()
    whole = _INTEGERS.fullmatch(said) and not _has_nulls(keys)
    # Text of pandas and Arrow goes to objects; polars' would lose zeros at its end.
    if whole or str(type_) in ("string", "large_string"):
        return np.asarray(keys), 53
    # Of a column of pandas and polars, of Arrow, of an array of pandas.
    names = ("to_list", "to_pylist", "tolist")
    items = next(getattr(keys, name)() for name in names if hasattr(keys, name))
    return _objects(items), _BITS.get(said.removesuffix("[pyarrow]"), 53)


def _has_nulls(keys: Any) -> bool:
    if hasattr(keys, "isna"):
        return bool(keys.isna().any())
    # polars has a method, pyarrow a property
    return bool(keys.null_count() if callable(keys.null_count) else keys.null_count)


def _reader(name: str, kind: type, bits: int) -> Callable[[Any], Any]:
    """Return what makes a key of an object of a kind; None where it is no key."""
    if kind in _KINDS:
        return lambda key: key
    if kind.__name__ in _ABSENT:
        return lambda _: None
    if issubclass(kind, (float, np.floating)):
        narrow = issubclass(kind, (np.float16, np.float32))
        most = 2.0 ** (np.finfo(kind).nmant + 1 if narrow else bits)
        return lambda key: int(key) if -most < key < most and key % 1 == 0 else None
    if issubclass(kind, np.integer) and not issubclass(kind, np.timedelta64):
        return int
    for text in (str, bytes):
        if issubclass(kind, (np.str_, np.bytes_)) and issubclass(kind, text):
            return text
    raise _wrong(name)


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
    """Return floats as integers, and which are such that no other integer is equal."""
    most = 2.0 ** min(np.finfo(numbers.dtype).nmant + 1, 53)
    with np.errstate(invalid="ignore"):  # a signaling NaN would warn
        known = (numbers == np.floor(numbers)) & (np.abs(numbers) < most)
    return np.where(known, numbers, 0).astype(np.int64), known


def codes(keys: _Array) -> tuple[_Array, int]:
    """Return keys as uint64 codes below a bound; equal codes for equal keys."""
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


def _wrong(name: str) -> DTypeError:
    return DTypeError(
        f"{name} must be a list of str, bytes or int, or a one-dimensional column of "
        "strings or integers"
    )
