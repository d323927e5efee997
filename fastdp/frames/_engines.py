"""Base of the engines that run the recipe: a table, its columns and their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames import _tables
from fastdp.frames._recipe import Dialect, Recipe

if TYPE_CHECKING:
    import pyarrow as pa

_INTEGERS = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
}
_TEXT = ("VARCHAR", "ENUM", "UUID")
#: Type of a column of nulls only; it is accepted as any type.
NULLS = '"NULL"'
_TIMES = ("BOOLEAN", "DATE", "TIME", "TIMESTAMP", "DECIMAL")


class Engine:
    """A source that the recipe runs on.

    Attributes
    ----------
    table : str
        Name of the source in SQL.
    types : dict of str to str
        DuckDB's name of each column's type.
    dialect : Dialect
        SQL of the engine.
    """

    dialect: ClassVar[Dialect]
    table: str
    types: dict[str, str]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release what the engine holds for this source."""
        raise NotImplementedError

    def keys_of(self, keys: dict[str, list[Any]] | pa.Table) -> Any:
        """Return public groups in the form of `list_keys`."""
        if not isinstance(keys, dict):
            return keys
        with _tables.constant_messages("keys"):
            return _tables.arrow().table(keys)

    def list_keys(self, keys: pa.Table, by: Sequence[str]) -> None:
        """Make the table of public keys, in the types of the source."""
        raise NotImplementedError

    def empty(self, names: Sequence[str]) -> str:
        """Make an empty table with these columns of the source; return its name."""
        raise NotImplementedError

    def run(
        self, sql: str, salt: str, progress: Callable[[float], object] | None
    ) -> pa.Table:
        """Run the recipe's SQL; call `progress` with the fraction done."""
        raise NotImplementedError

    def exact(
        self, recipe: Recipe, salt: str, progress: Callable[[float], object] | None
    ) -> Any:
        """Return the exact totals of a recipe, one row per group."""
        return self.run(recipe.sql(), salt, progress)

    def check(
        self, by: Sequence[str], values: Sequence[str], user: str | None
    ) -> frozenset[str]:
        """Refuse columns of wrong types; return the columns to compare as text."""
        users = () if user is None else (user,)
        _tables.require_columns("source", list(self.types), [*by, *values, *users])
        for name in by:
            self._require(name, "key", (*_INTEGERS, *_TEXT, *_TIMES), "text")
        for name in users:
            self._require(name, "user", (*_INTEGERS, *_TEXT), "text or integers")
        numbers = (*_INTEGERS, "HUGEINT", "DECIMAL", "FLOAT", "DOUBLE", "BOOLEAN")
        for name in values:
            self._require(name, "column", numbers, "numbers")
        return frozenset(name for name in (*by, *users) if self.is_encoded(name))

    def require_texts(self, names: Sequence[str]) -> None:
        """Refuse columns whose cells may have no text form."""
        for name in names:
            if self.types[name].split(" ")[0] == "TIME":
                raise DTypeError(
                    f'hash must be "engine" if a key is a time of day, got {name!r}: '
                    "make it text"
                )

    def texts(self, names: Sequence[str]) -> frozenset[str]:
        """Return the columns whose cells may have any length."""
        return frozenset(n for n in names if self.types[n].startswith(_TEXT[:2]))

    def integers(self, names: Sequence[str]) -> frozenset[str]:
        """Return the columns of integer types."""
        return frozenset(n for n in names if self.types[n] in (*_INTEGERS, "HUGEINT"))

    def is_encoded(self, name: str) -> bool:
        """Return whether a column must be compared as text because of its encoding."""
        return self.types[name].startswith(("ENUM", "UUID", NULLS))

    def _require(
        self, name: str, what: str, wanted: Sequence[str], way_out: str
    ) -> None:
        found = self.types[name]
        if found == NULLS:
            return
        if found not in wanted and found.partition("(")[0].split(" ")[0] not in wanted:
            raise DTypeError(
                f"{what} {name!r} must not have the type {found.split('(')[0]}:"
                f" convert it to {way_out}"
            )


def require_distinct(names: Sequence[str]) -> None:
    """Refuse names that SQL does not distinguish."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise ParameterError(
                "source must have columns whose names differ by more than case, it has "
                f"{seen[name.lower()]!r} and {name!r}: rename one"
            )
        seen[name.lower()] = name


def keys_error() -> ParameterError:
    """Return the error for public keys of a wrong type."""
    return ParameterError("keys must be of the types of the columns that they name")


def require_keys(distinct: int, nulls: int, rows: int) -> None:
    """Refuse public keys with repeated groups or nulls, or without any group."""
    if distinct != rows or nulls or not rows:
        raise ParameterError(
            "keys must list at least one group, without duplicates or nulls"
        )


def cast_keys(keys: pa.Table, by: Sequence[str], types: Sequence[Any]) -> pa.Table:
    """Return checked public keys in a source's types, with their places."""
    pa = _tables.arrow()
    try:
        cells = [keys.column(n).cast(t) for n, t in zip(by, types, strict=True)]
    except (pa.ArrowException, OverflowError, UnicodeError):
        raise keys_error() from None
    places = [f"g{i}" for i in range(len(by))]
    found = pa.table(cells, names=places)
    distinct = found.group_by(places).aggregate([]).num_rows
    require_keys(distinct, sum(cell.null_count for cell in cells), found.num_rows)
    return with_places(found, places)


def with_places(keys: pa.Table, names: Sequence[str]) -> pa.Table:
    """Rename the columns of public keys and add "place", their order as given."""
    places = np.arange(keys.num_rows, dtype=np.int64)
    return keys.rename_columns(list(names)).append_column(
        "place", _tables.arrow().array(places)
    )
