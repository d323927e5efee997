"""``--check``: show the owner how a table would be read; the only output with data.

A release must not state which cells it could not read, because that would reveal data.
So the owner checks in advance with the same options; nothing is released.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fastdp.cli import _cells, _dialects, _files, _places

if TYPE_CHECKING:
    import pyarrow as pa

WARNING = (
    "fastdp: NOT PRIVATE: what --check prints is data of INPUT, for its owner alone. "
    "Do not publish it."
)

HELP = (
    "release nothing and write nothing; print which cells would be read as something "
    "else, and how often. NOT PRIVATE: the output shows cells, for the table's owner"
)

#: Count this many different cells; show this many of them, cut to this many characters.
_DISTINCT, _SHOWN, _WIDTH = 10_000, 20, 60

#: Read this many rows at a time.
_ROWS = 1 << 16

_OTHERS = "other cells"


class Remapped:
    """Counts of the cells of one column that would be read as something else."""

    def __init__(self, column: str, dialect: _dialects.Dialect) -> None:
        self._column, self._dialect = column, dialect
        self._cells = 0
        self._found: Counter[tuple[str, str]] = Counter()

    def numbers(self, column: pa.Array, *, integers: bool) -> None:
        """Add the cells of a column of numbers."""
        self._cells += len(column)
        column = _cells.decoded(column)
        values = _cells.read_integers(column) if integers else _cells.read_reals(column)
        for place in np.flatnonzero(~_cells.read_as_they_stand(column, values)):
            value = values[place].item()
            cell = self._dialect.written(column[int(place)].as_py())
            self._add(cell, f"read as {_number(value)}")

    def labels(
        self, column: pa.Array, names: pa.Array | None, categories: int, other: str
    ) -> None:
        """Add the cells of a column of categories; `other` is for unknown cells."""
        self._cells += len(column)
        column = _cells.decoded(column)
        labels = _cells.read_labels(column, names)
        for place in np.flatnonzero((labels < 0) | (labels >= categories)):
            self._add(column[int(place)].as_py(), f"in no category: {other}")

    def bounded(self, column: pa.Array, low: float, high: float) -> None:
        """Add the cells of a column of numbers that are clamped to a bound."""
        self._cells += len(column)
        column = _cells.decoded(column)
        values = _cells.read_reals(column, missing=math.nan)
        good = _cells.read_as_they_stand(column, values)
        good &= (values >= low) & (values <= high)
        for place in np.flatnonzero(~good):
            read = min(max(values[place].item(), low), high)
            read = low if math.isnan(values[place]) else read
            cell = self._dialect.written(column[int(place)].as_py())
            self._add(cell, f"read as {_number(read)}")

    def strings(self, column: pa.Array, most: int | None) -> None:
        """Add the cells of a column of strings, which are cut to `most` bytes."""
        self._cells += len(column)
        column = _cells.decoded(column)
        for place, text in enumerate(_cells.read_strings(column).to_pylist()):
            if not text:
                self._add(column[place].as_py(), "read as the empty string")
            elif most is not None and len(text) > most:
                self._add(column[place].as_py(), f"cut to {most} bytes")

    def lines(self) -> list[str]:
        """Return the report on this column."""
        total = sum(self._found.values())
        heading = (
            f"  --column {self._column!r}: {total} of {self._cells} cells would be "
            "read as something else"
        )
        common = self._found.most_common(_SHOWN)
        lines = [heading]
        lines += [f"  {count:>12}  {cell}  {how}" for (cell, how), count in common]
        left = total - sum(count for _, count in common)
        return [*lines, f"  {left:>12}  more, of other kinds"] if left else lines

    def _add(self, cell: object, how: str) -> None:
        key = (_shown(cell), how)
        if key not in self._found and len(self._found) >= _DISTINCT:
            key = (_OTHERS, how)
        self._found[key] += 1


def report(
    names: Sequence[str],
    source: _files.Source,
    place: _places.Place,
    add: Callable[[Remapped, pa.Array], None],
) -> str:
    """Return the output of ``--check``: lines between two warnings.

    `add` counts the cells of a batch of one of the columns.
    """
    columns = {name: Remapped(name, place.form.dialect) for name in names}
    for batch in source.batches(_ROWS):
        for name, column in columns.items():
            add(column, batch.column(name))
    lines = [line for column in columns.values() for line in column.lines()]
    return "\n".join([WARNING, *lines, "  Nothing was released or written.", WARNING])


def _number(value: int | float) -> str:
    if math.isnan(value):
        return "0"  # the mechanism reads NaN as 0
    if math.isinf(value):
        return "the largest double" if value > 0 else "the lowest double"
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _shown(cell: object) -> str:
    if cell is None:
        return "null (none, too long, of --null, or in a row of another length)"
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "replace")
    text = repr(cell)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
