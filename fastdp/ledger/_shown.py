"""The terms of a table, the rows that a selection shows, and their width."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _validate
from fastdp.accounting.events import Event
from fastdp.accounting.events._base import check_event
from fastdp.accounting.events._composite import composed
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.ledger import _terms
from fastdp.ledger._terms import Terms

#: Maximum bytes of the rows to show, for every store.
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
        raise ParameterError("columns and keys must each have at least one entry")
    shapes = {column.shape for column in names.values()}
    shapes |= {values.shape[:1] for _, values in cells.values()}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 1:
        raise ParameterError("columns and keys must be arrays of the same length")
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
            "select must have a mechanism that returns a mask of bools, "
            f"but a {type(mechanism).__name__} does not"
        )
    return mechanism, values


def checked_threshold(
    select: tuple[Any, ...], cells: Mapping[str, tuple[Any, Any]]
) -> tuple[str, int, Event]:
    """Return the column that selects rows, its threshold, and the selection's event."""
    name, above, event = select
    if name not in cells:
        raise ParameterError("select must name a column, or be (mechanism, array)")
    if cells[name][1].ndim != 1:
        raise ParameterError(
            f"select must name a column of shape (n,), got {cells[name][1].shape}: "
            "one number shows a row"
        )
    return (
        name,
        _validate.integer("select", above, 1, 2**62),
        check_event("the event of select", event),
    )


@dataclass(frozen=True)
class Part:
    """One table to draw: its public facts, its cost and its draw.

    Attributes
    ----------
    facts : dict
        The public facts that the terms of its transaction state.
    events : list of Event
        The events of its mechanisms.
    rare : Fraction or None
        Probability that the run time reveals its draw; None if there is no bound.
    size : int
        Bytes of the answer, not counting the keys that a selection shows.
    draw : callable
        Function of the number of tables in the answer that draws the named columns.
    """

    facts: dict[str, Any]
    events: list[Event]
    rare: Fraction | None
    size: int
    draw: Callable[[int], dict[str, Any]]


def part(
    columns: Any,
    keys: Any,
    select: tuple[Any, ...] | None = None,
    most_rows: int | None = None,
) -> Part:
    """Check the arguments and return a table to draw."""
    names, cells, rows = checked_columns(columns, keys, select is not None)
    events = [m.event() for m, _ in cells.values()]
    rare: Fraction | None = Fraction(0)
    for m, values in cells.values():
        step = _terms.rare_step(m)
        rare = None if step is None or rare is None else rare + step * values.size
    facts: dict[str, Any] = {
        "columns": {
            name: {"law": _terms.law_of(m), **kind_of(values)}
            for name, (m, values) in cells.items()
        },
        "keys": {
            name: {"dtype": column.dtype.str if select is None else kind(column)}
            for name, column in names.items()
        },
    }
    trials = {
        name: _terms.rehearsed(m.release, values) for name, (m, values) in cells.items()
    }
    if select is None:
        if most_rows is not None:
            raise ParameterError("most_rows must be left out without select")
        facts["rows"], facts["shown"] = rows, digest_of(names)
        size = sum(part.nbytes for part in (*names.values(), *trials.values()))
        mask = None
    else:
        limit = _validate.integer("most_rows", most_rows or 0, 1, 10**9)
        if isinstance(select, tuple) and len(select) == 3:
            name, above, event = checked_threshold(select, cells)
            facts["select"] = {"column": name, "above": str(above)}

            def mask(noisy: Mapping[str, Any]) -> Any:
                return (noisy[name] > above) & (cells[name][1] > 0)
        else:
            law, values = checked_selection(select, rows)
            facts["select"], event = _terms.law_of(law), law.event()

            def mask(noisy: Mapping[str, Any]) -> Any:
                return law.select(values)

        facts["most_rows"] = limit
        events.append(event)
        rare = None
        width = sum(
            trial.dtype.itemsize * math.prod(trial.shape[1:])
            for trial in trials.values()
        )
        size = limit * width

    def draw(tables: int) -> dict[str, Any]:
        noisy = {name: m.release(values) for name, (m, values) in cells.items()}
        if mask is None:
            return {**names, **noisy}
        rows_shown = kept(names, mask(noisy), limit, width, tables)
        return {
            **{name: narrowed(column[rows_shown]) for name, column in names.items()},
            **{name: column[rows_shown] for name, column in noisy.items()},
        }

    return Part(facts, events, rare, size, draw)


_Draw = Callable[[int, object], tuple[str, bytes]]


def asked(
    columns: Any,
    keys: Any,
    label: str,
    budgets: Any,
    select: tuple[Any, ...] | None = None,
    most_rows: int | None = None,
    source: str | None = None,
) -> tuple[Terms, _Draw]:
    """Check the arguments; return the terms of a table and the function to draw it."""
    one = part(columns, keys, select, most_rows)
    _terms.require_size(one.size)

    def draw(_: int, __: object) -> tuple[str, bytes]:
        return "table", _terms.packed_table(one.draw(1))

    wanted = _terms.terms(
        label, "table", budgets, composed(one.events), one.facts, source=source
    )
    return replace(wanted, distance=one.rare), draw


def asked_together(
    tables: Mapping[str, Mapping[str, Any]], label: str, budgets: Any
) -> tuple[Terms, _Draw]:
    """Return the terms of several tables as one transaction, and their draw.

    Each table is a dict of `part`'s arguments, with the public name of its source. They
    are stored as one table with columns named "TABLE/COLUMN".
    """
    sources = {name: asked["source"] for name, asked in tables.items()}
    parts = {
        name: part(**{word: x for word, x in asked.items() if word != "source"})
        for name, asked in tables.items()
    }
    _terms.require_size(sum(one.size for one in parts.values()))

    def draw(_: int, __: object) -> tuple[str, bytes]:
        columns = {
            f"{name}/{column}": values
            for name, one in parts.items()
            for column, values in one.draw(len(parts)).items()
        }
        return "table", _terms.packed_table(columns)

    facts = {n: {**one.facts, "source": sources[n]} for n, one in parts.items()}
    events = [event for one in parts.values() for event in one.events]
    wanted = _terms.terms(label, "table", budgets, composed(events), {"tables": facts})
    steps = [one.rare for one in parts.values() if one.rare is not None]
    rare = sum(steps, Fraction(0)) if len(steps) == len(parts) else None
    return replace(wanted, distance=rare), draw


def digest_of(keys: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """Return a digest of public keys that does not depend on their order.

    An answer stores its keys: a retry with the rows in another order is the same
    transaction; a retry with other keys is not.
    """
    columns = [keys[name] for name in sorted(keys)]
    order = np.lexsort(columns)
    return _terms.digest(*(column[order].tobytes() for column in columns)).hex()


def kind_of(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the dtype of a column, and the shape of its entries if not numbers."""
    each = list(values.shape[1:])
    return {"dtype": values.dtype.str, **({"each": each} if each else {})}


def of_bytes(column: object) -> bool:
    """Return whether a column has dtype object and holds only bytes."""
    if not isinstance(column, np.ndarray) or column.dtype.kind != "O":
        return False
    return all(type(key) is bytes for key in column.flat)


def kind(column: np.ndarray[Any, Any]) -> str:
    """Return the stored kind of keys; objects, which hold bytes, are stored as "S"."""
    return str(column.dtype.kind).replace("O", "S")


def kept(
    keys: Mapping[str, Any], mask: Any, limit: int, width: int, tables: int = 1
) -> np.ndarray[Any, Any]:
    """Return the first `limit` rows to show, in the order of the keys.

    Fewer rows are returned if a store could not hold them for each of `tables` tables;
    this depends only on keys that would be shown. `width` is the number of bytes of a
    row without its keys.
    """
    rows = np.flatnonzero(mask)
    order = np.lexsort(
        [_sortable(column[rows]) for column in reversed(list(keys.values()))]
    )
    first: np.ndarray[Any, Any] = rows[order][:limit]
    for column in keys.values():
        width += _width(column[first])
    return first[: _LIMIT // tables // width]


def narrowed(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return strings in the width of the longest string."""
    code = kind(column)
    if code not in "SU":
        return column
    return np.array(column.tolist(), code if column.size else f"{code}1")


def _sortable(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a column that numpy can sort: ranks in place of objects."""
    if column.dtype.kind != "O":
        return column
    ranks: np.ndarray[Any, Any] = np.unique(column, return_inverse=True)[1]
    return ranks


def _width(column: np.ndarray[Any, Any]) -> int:
    """Return the number of bytes of an entry of `narrowed(column)`."""
    code = kind(column)
    if code not in "SU":
        return int(column.dtype.itemsize)
    longest = max(map(len, column.tolist()), default=0)
    return longest * (4 if code == "U" else 1)
