"""The rows of a table that a selection shows, and how wide they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

#: Bytes of rows to show: what every store takes.
_LIMIT = 512 << 20


def of_bytes(column: object) -> bool:
    """Tell whether a column is of objects, all of them bytes."""
    if not isinstance(column, np.ndarray) or column.dtype.kind != "O":
        return False
    return all(type(key) is bytes for key in column.flat)


def kind(column: np.ndarray[Any, Any]) -> str:
    """Return what keys are stored as: bytes are bytes, whatever holds them here."""
    return str(column.dtype.kind).replace("O", "S")


def kept(
    keys: Mapping[str, Any], mask: Any, limit: int, width: int
) -> np.ndarray[Any, Any]:
    """Return the rows to show, in the order of the keys, the first `limit` of them.

    No more are shown than a store takes: only keys that would be shown decide that.
    `width` is that of a row beside its keys.
    """
    rows = np.flatnonzero(mask)
    order = np.lexsort(
        [_sortable(column[rows]) for column in reversed(list(keys.values()))]
    )
    first: np.ndarray[Any, Any] = rows[order][:limit]
    for column in keys.values():
        width += _width(column[first])
    return first[: _LIMIT // width]


def narrowed(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return strings as wide as the longest of them, and not of those left out."""
    code = kind(column)
    if code not in "SU":
        return column
    return np.array(column.tolist(), code if column.size else f"{code}1")


def _sortable(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a column, of objects their ranks."""
    if column.dtype.kind != "O":
        return column
    ranks: np.ndarray[Any, Any] = np.unique(column, return_inverse=True)[1]
    return ranks


def _width(column: np.ndarray[Any, Any]) -> int:
    """Return the bytes of each entry of what `narrowed` gives."""
    code = kind(column)
    if code not in "SU":
        return int(column.dtype.itemsize)
    longest = max(map(len, column.tolist()), default=0)
    return longest * (4 if code == "U" else 1)
