"""The columns of a table, the rows that a selection shows, and how wide they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fastdp.exceptions import DTypeError, ParameterError
from fastdp.ledger import _terms

#: Bytes of rows to show: what every store takes.
_LIMIT = 512 << 20


def checked_columns(
    columns: object, keys: object, selected: bool
) -> tuple[dict[str, Any], dict[str, tuple[Any, Any]], int]:
    """Return keys and columns with their mechanisms, and the number of rows."""
    if not isinstance(columns, Mapping) or not isinstance(keys, Mapping):
        raise DTypeError("columns and keys must be dicts by name")
    names: dict[str, Any] = {}
    for name, column in keys.items():
        _terms.check_name("a name of keys", name)
        if not (selected and of_bytes(column)) and (
            not isinstance(column, np.ndarray) or column.dtype.kind not in "iuSUb"
        ):
            raise DTypeError(
                f"keys {name!r} must be an array of integers, strings or bytes, "
                f"got {getattr(column, 'dtype', type(column).__name__)}"
            )
        names[name] = column
    cells: dict[str, tuple[Any, Any]] = {}
    for name, cell in columns.items():
        _terms.check_name("a name of columns", name)
        if name in names:
            raise ParameterError(
                f"columns and keys must have different names: {name!r}"
            )
        if not isinstance(cell, tuple) or len(cell) != 2:
            raise DTypeError(f"column {name!r} must be a tuple (mechanism, array)")
        values = _terms.check_data(f"column {name!r}", cell[1])
        if not isinstance(values, np.ndarray):
            raise DTypeError(f"column {name!r} must be an array")
        cells[name] = (_terms.check_mechanism(cell[0], "release"), values)
    if not names or not cells:
        raise ParameterError("columns and keys must each have one entry or more")
    shapes = {column.shape for column in names.values()}
    shapes |= {values.shape for _, values in cells.values()}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 1:
        raise ParameterError("columns and keys must be arrays of one length")
    return names, cells, shape[0]


def checked_selection(select: object, rows: int) -> tuple[Any, Any]:
    if not isinstance(select, tuple) or len(select) != 2:
        raise DTypeError("select must be a tuple (mechanism, array)")
    mechanism = _terms.check_mechanism(select[0], "select")
    values = _terms.check_data("the array of select", select[1])
    if not isinstance(values, np.ndarray) or values.shape != (rows,):
        raise ParameterError("the array of select must have a value for each key")
    trial = _terms.rehearsed(mechanism.select, values)
    if trial.dtype != np.bool_ or trial.shape != (rows,):
        raise DTypeError(
            f"select must be of a mechanism that returns a mask of bools, a "
            f"{type(mechanism).__name__} does not"
        )
    return mechanism, values


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
