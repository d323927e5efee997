"""Columns in memory, summed by numpy: the group-by of the SQL engines without Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fastdp._doorway import one_index, records
from fastdp._stream import Stream
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames import _tables
from fastdp.frames._engines import Engine, require_keys
from fastdp.frames._recipe import DUCKDB, Recipe
from fastdp.mechanisms import bound_contributions
from fastdp.mechanisms._keys import distinct, key_column, kind_of_keys
from fastdp.tables._choices import Choices
from fastdp.tables._column import moments_of
from fastdp.tables._quantiles import cells_of, nodes_of

_Array = np.ndarray[Any, Any]

#: A stored key begins with a byte for its type and ends with this byte, because numpy
#: drops trailing zeros of bytes.
_END = b"\x01"
_KINDS: dict[type, bytes] = {int: b"i", float: b"f", bytes: b"b", str: b"s"}

#: Types of integers, as numpy, pandas, polars and Arrow call them.
_INTEGER = re.compile(r"u?int(8|16|32|64)\b", re.IGNORECASE)

#: Ignore integer keys with more bits than this.
_BITS = 3000


class Memory(Engine):
    """Columns by name; some records may be excluded from the start.

    Parameters
    ----------
    plan : Plan
    source : mapping of str to column, shape (n,)
        Lists, arrays, or columns of pandas, polars or Arrow.
    present : ndarray of bool, shape (n,), optional
        Mask of the records to use; None for all.
    said : mapping of str to str
        The caller's name of a column, for messages; default: its name.
    stream : Stream, optional
        Stream that chooses the groups and records that a unit keeps. Unlike a salted
        hash it must be fresh for each release, because the choice depends on the order
        of all records.
    """

    dialect = DUCKDB
    table = "columns in memory"

    def __init__(
        self,
        plan: Choices,
        source: Mapping[str, Any],
        present: _Array | None = None,
        said: Mapping[str, str] | None = None,
        stream: Stream | None = None,
    ) -> None:
        self._plan, self._source = plan, source
        self._said = {name: name for name in source} | dict(said or {})
        self._present, self._stream = present, stream
        self._public: list[_Array] | None = None
        self._keys: dict[str, tuple[_Array, _Array]] = {}
        self._values: dict[str, _Array] = {}

    @property
    def like(self) -> type:
        """Type of the result: DataFrame if a column is from pandas, otherwise dict."""
        for column in self._source.values():
            if _tables.is_of(column, "pandas", "Series"):
                return type(column.iloc[:0].to_frame())
        return dict

    def close(self) -> None:
        """Drop the columns that were read."""
        self._keys, self._values = {}, {}

    def check(
        self, by: Sequence[str], values: Sequence[str], user: str | None
    ) -> frozenset[str]:
        """Read the columns; refuse wrong types, lengths and indexes."""
        keys = [*by, *([] if user is None else [user])]
        _tables.require_columns("source", list(self._source), [*values, *keys])
        said, source = self._said, self._source
        one_index(**{said[name]: source[name] for name in [*values, *keys]})
        self._values = {name: records(said[name], source[name]) for name in values}
        self._keys = {
            name: _without_long(*key_column(said[name], source[name])) for name in keys
        }
        lengths = {name: len(column) for name, column in self._values.items()}
        lengths |= {name: len(column) for name, (column, _) in self._keys.items()}
        if self._present is not None:
            self._n = len(self._present)
        else:  # a count of all records reads no column
            first = [*lengths.values(), *map(len, self._source.values())][:1]
            if not first:
                raise ParameterError("source must have at least one column")
            self._n = first[0]
        for name, found in lengths.items():
            if found != self._n:
                raise ParameterError(f"{said[name]} must have shape ({self._n},)")
        return frozenset()

    def require_texts(self, names: Sequence[str]) -> None:
        """Refuse `hash="sha256"`."""
        raise ParameterError(
            'hash must be "engine" for columns in memory: fresh randomness chooses'
        )

    def texts(self, names: Sequence[str]) -> frozenset[str]:
        """Return the columns whose long texts are left out: none."""
        return frozenset()

    def integers(self, names: Sequence[str]) -> frozenset[str]:
        """Return the columns of integer types that can hold missing values."""
        return frozenset(n for n in names if has_integers(self._source[n]))

    def keys_of(self, keys: Any) -> Any:
        """Return public groups in the form of `list_keys`."""
        return keys if isinstance(keys, dict) else keys.to_pydict()

    def list_keys(self, keys: Any, by: Sequence[str]) -> None:
        """Store the public groups; refuse repeated groups and wrong types."""
        listed = [key_column("keys", keys[name]) for name in by]
        self._public = [column for column, _ in listed]
        rows = list(zip(*(column.tolist() for column in self._public), strict=True))
        nulls = sum(int((~known).sum()) for _, known in listed)
        require_keys(len(set(rows)), nulls, len(rows))
        for name, column in zip(by, self._public, strict=True):
            _check_kind(self._source[name], column)

    def empty(self, names: Sequence[str]) -> str:
        """Return the name of a source without records."""
        return "no records"

    def exact(
        self, recipe: Recipe, salt: str, progress: Callable[[float], object] | None
    ) -> dict[str, _Array]:
        """Return keys g0, g1, ... and exact totals, with one entry for each group."""
        there = np.ones(self._n, bool) if self._present is None else self._present
        if recipe.source != self.table:
            there = np.zeros(self._n, bool)
        for _, known in self._keys.values():
            there = there & known
        group, found = self._grouped(recipe.by, there)
        groups, owner = len(found["g0"]), None
        if recipe.user is not None:
            chosen = np.flatnonzero(group >= 0)
            owner = distinct(self._keys[recipe.user][0][chosen])[1]
            stays = self._bounded(recipe, owner, group[chosen])
            group[chosen[~stays]] = -1
            owner = owner[stays]
        held = group[group >= 0]
        if self._plan._needs_users or "count" in self._plan._counts:
            found["n"] = _counts(held, groups)
        if self._plan._needs_users:
            found["users"] = found["n"]
            if owner is not None:
                pairs = np.unique(np.stack([held, owner]), axis=1)[0]
                found["users"] = _counts(pairs, groups)
        whole = not recipe.by and len(held) == self._n
        for i in range(len(recipe.values)):
            found |= self._sums(recipe, i, None if whole else group, groups)
        for j, (name, edges) in enumerate(recipe.edges):
            found[f"h{j}"] = _binned(self._values[name], edges, group, groups)
        for j, (name, bounds, cells) in enumerate(recipe.cells):
            cell = cells_of(self._values[name], bounds, cells)
            inside = (group >= 0) & (cell >= 0)
            places = group[inside] * cells + cell[inside]
            counts = _counts(places, groups * cells).reshape(groups, cells)
            found[f"t{j}"] = nodes_of(self._plan._tree, counts)
        return found

    def _bounded(self, recipe: Recipe, owner: _Array, group: _Array) -> _Array:
        if not recipe.by:
            return bound_contributions(
                owner, records_per_user=recipe.records, stream=self._stream
            )
        return bound_contributions(
            owner,
            group,
            keys_per_user=recipe.groups,
            records_per_key=recipe.records,
            stream=self._stream,
        )

    def _grouped(
        self, by: Sequence[str], there: _Array
    ) -> tuple[_Array, dict[str, _Array]]:
        """Return the group of each record, -1 for none, and all groups, sorted.

        For public groups, also return the groups' places in the given order.
        """
        chosen = np.flatnonzero(there)
        group = np.full(self._n, -1, np.int64)
        if not by:
            group[chosen] = 0
            return group, {"g0": np.zeros(1, np.int64)}
        columns = [self._keys[name][0] for name in by]
        if len(chosen) < self._n:
            columns = [column[chosen] for column in columns]
        code, keys = _occurring(columns)
        if self._public is not None:
            ranks = [distinct(column)[1] for column in self._public]
            order = np.lexsort(ranks[::-1])
            public = [_objects(column)[order] for column in self._public]
            places = {row: rank for rank, row in enumerate(zip(*public, strict=True))}
            rows = zip(*keys, strict=True)
            known = np.array([places.get(row, -1) for row in rows], np.int64)
            code = known[code] if len(known) else code
            keys = public
        group[chosen] = code
        found = {f"g{i}": column for i, column in enumerate(keys)}
        return group, found if self._public is None else {**found, "place": order}

    def _sums(
        self, recipe: Recipe, i: int, group: _Array | None, groups: int
    ) -> dict[str, _Array]:
        """Return the sums of a column of numbers, by the kernels of `Moments`."""
        values, (low, high) = self._values[recipe.values[i]], recipe.bounds[i]
        if i in recipe.alone:  # only the sum: scale by the larger bound
            values = np.clip(values, low, high)
            high = max(-low, high)
            low = -high
        listed = None if group is None else groups
        m = moments_of(self._plan._noise, (low, high), listed, 1)
        rows = m.accumulator().add(values, by=group)._rows()[:, :groups]
        return {f"n{i}": rows[0] >> recipe.bits, f"s{i}": rows[1], f"q{i}": rows[2]}


def has_integers(column: Any) -> bool:
    """Return whether a column has an integer type that can hold missing values.

    numpy's types cannot: one missing value makes the column floats, in pandas as well,
    so such a type can depend on a single record.
    """
    type_ = getattr(column, "dtype", getattr(column, "type", ""))
    return not isinstance(type_, np.dtype) and _INTEGER.match(str(type_)) is not None


# ---- keys --------------------------------------------------------------------------


def _occurring(columns: list[_Array]) -> tuple[_Array, list[_Array]]:
    """Return the group of each record, and the groups that occur, sorted."""
    keys, code = distinct(columns[0])
    if len(columns) == 1:
        return code, [_objects(keys)]
    for column in columns[1:]:
        keys, digit = distinct(column)
        code = np.unique(code * len(keys) + digit, return_inverse=True)[1]
    first = np.unique(code, return_index=True)[1]
    return code, [_objects(column[first]) for column in columns]


def _objects(keys: _Array) -> _Array:
    """Return keys as Python objects: int, float, bytes and str."""
    found = np.empty(len(keys), object)
    found[:] = keys.tolist()
    return found


def _check_kind(by: Any, public: _Array) -> None:
    """Refuse public keys that a column of this type cannot hold.

    Integers and floats may hold the same keys: in pandas a null turns integers into
    floats.
    """
    kind, listed = kind_of_keys(by), public.tolist()
    wanted = {"number": (int, float), "text": (str,), "bytes": (bytes,)}
    if listed and not any(isinstance(x, wanted.get(kind, object)) for x in listed):
        raise DTypeError(
            f"keys must have the type of by, {kind}, got {type(listed[0]).__name__}"
        )


def _without_long(column: _Array, known: _Array) -> tuple[_Array, _Array]:
    """Return keys and a mask of those present; integers above _BITS bits are absent."""
    if column.dtype == object:
        short = [type(x) is not int or x.bit_length() <= _BITS for x in column.tolist()]
        known = known & np.array(short, bool)
    return column, known


def packed(keys: _Array, *, public: bool) -> _Array:
    """Return keys in the ledger's form, like `_tables.packed` for Arrow columns."""
    listed = [
        _KINDS[type(key)]
        + (key if isinstance(key, bytes) else str(key).encode("utf-8", "surrogatepass"))
        + _END
        for key in keys.tolist()
    ]
    if not public:
        return np.array(listed, object)
    return np.array(listed, "S" if listed else "S1")


def unpacked(stored: _Array) -> _Array:
    """Invert `packed`."""
    found = np.empty(len(stored), object)
    for place, key in enumerate(stored.tolist()):
        body = key.removesuffix(_END)[1:]
        (kind,) = (kind for kind, sign in _KINDS.items() if key[:1] == sign)
        text = body.decode("utf-8", "surrogatepass") if kind is not bytes else body
        found[place] = kind(text)
    return found


# ---- numbers -----------------------------------------------------------------------


def _counts(group: _Array, groups: int) -> _Array:
    return np.bincount(group, minlength=groups).astype(np.int64)


def _binned(
    values: _Array, edges: tuple[float, ...], group: _Array, groups: int
) -> _Array:
    """Return the number of records of each group in each bin."""
    bins = len(edges) - 1
    inside = (values >= edges[0]) & (values <= edges[-1]) & (group >= 0)
    place = np.searchsorted(edges, values[inside], side="right") - 1
    cell = group[inside] * bins + np.minimum(place, bins - 1)
    return _counts(cell, groups * bins).reshape(groups, bins)
