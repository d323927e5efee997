"""Columns of keys and users: integers or text, whatever holds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp.exceptions import DTypeError, ParameterError

_Array = np.ndarray[Any, Any]

#: What stands for no key in a column of Python objects.
_NULLS = (None.__class__, float)


def key_column(name: str, keys: Any) -> tuple[_Array, _Array]:
    """Return keys as an array that sorts by bytes (text) or by value, and which are.

    None and NaN are no keys: such rows contribute nothing.

    Raises
    ------
    DTypeError, ParameterError
        Not one-dimensional, or not of str, bytes or int alone.
    """
    listed = keys.to_numpy() if hasattr(keys, "to_numpy") else keys
    if isinstance(listed, (list, tuple)):
        column = np.empty(len(listed), object)
        column[:] = listed
        listed = column
    if not isinstance(listed, np.ndarray) or listed.dtype.kind not in "USOTiuf":
        raise _wrong(name)
    if listed.ndim != 1:
        raise ParameterError(f"{name} must have shape (n,), got {listed.shape}")
    if listed.dtype.kind == "f":  # integers with nulls, as pandas has them
        known = listed == np.floor(listed)
        return np.where(known, listed, 0).astype(np.int64), known
    if listed.dtype.kind == "T":
        listed = listed.astype(object)
    if listed.dtype.kind != "O":
        return listed, np.ones(len(listed), bool)
    kinds = set(map(type, listed))
    rest = kinds.difference(_NULLS)
    if len(rest) > 1 or not rest <= {str, bytes, int}:
        raise _wrong(name)
    known = np.array([type(key) not in _NULLS for key in listed], bool)
    filled = listed.copy()
    filled[~known] = rest.pop()() if rest else 0
    return filled, known


def codes(keys: _Array) -> tuple[_Array, int]:
    """Return keys as uint64 codes below a bound; equal codes for equal keys."""
    if keys.dtype.kind in "iu" and len(keys):
        low, high = int(keys.min()), int(keys.max())
        if high - low < 4 * len(keys) + 256:
            return (keys.astype(np.int64) - low).astype(np.uint64), high - low + 1
    distinct, place = np.unique(keys, return_inverse=True)
    return place.astype(np.uint64), max(len(distinct), 1)


def _wrong(name: str) -> DTypeError:
    return DTypeError(
        f"{name} must be a list of str, bytes or int, or a one-dimensional column of "
        "strings or integers"
    )
