"""Columns of keys and users: integers or text, whatever holds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp.exceptions import DTypeError, ParameterError

_Array = np.ndarray[Any, Any]

#: What stands for no key in a column of Python objects: None, NaN, pandas' NA and NaT.
NULLS = frozenset(("NoneType", "float", "NAType", "NaTType"))


def key_column(name: str, keys: Any) -> tuple[_Array, _Array]:
    """Return keys as an array that sorts by bytes (text) or by value, and which are.

    None and NaN are no keys: such rows contribute nothing. Nor do floats that are no
    integers, or so large that different integers would have become equal.

    Raises
    ------
    DTypeError, ParameterError
        Not one-dimensional, or not of str, bytes or int alone.
    """
    listed = _listed(keys)
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
    rest = {kind for kind in kinds if kind.__name__ not in NULLS}
    if float in kinds and not rest:
        kept = [key if type(key) is float else np.nan for key in listed]
        return _whole(np.array(kept, np.float64))
    if len(rest) > 1 or not rest <= {str, bytes, int}:
        raise _wrong(name)
    known = np.array([type(key) in rest for key in listed], bool)
    filled = listed.copy()
    filled[~known] = rest.pop()() if rest else 0
    return filled, known


def _listed(keys: Any) -> Any:
    """Return a list or column as an array; with nulls as one of Python objects.

    Columns of integers with nulls would else become floats, and large keys equal.
    """
    if isinstance(keys, (list, tuple)):
        column = np.empty(len(keys), object)
        column[:] = keys
        return column
    if not hasattr(keys, "to_numpy") or getattr(keys, "ndim", 1) != 1:
        return keys
    if isinstance(getattr(keys, "dtype", None), np.dtype):  # of pandas: numpy's own
        return keys.to_numpy()
    if hasattr(keys, "isna"):
        nulls = keys.isna().any()
    else:  # polars has a method, pyarrow a property
        nulls = keys.null_count() if callable(keys.null_count) else keys.null_count
    if nulls:
        return _listed(keys.to_list() if hasattr(keys, "to_list") else keys.to_pylist())
    return np.asarray(keys)


def _whole(numbers: _Array) -> tuple[_Array, _Array]:
    """Return floats as integers, and which are such that no other integer is equal."""
    most = 2.0 ** min(np.finfo(numbers.dtype).nmant + 1, 53)
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
    distinct, place = np.unique(keys, return_inverse=True)
    return place.astype(np.uint64), max(len(distinct), 1)


def _wrong(name: str) -> DTypeError:
    return DTypeError(
        f"{name} must be a list of str, bytes or int, or a one-dimensional column of "
        "strings or integers"
    )
