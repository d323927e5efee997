"""The text of a CSV or TSV file without the cells that are too long.

The parser reads a file block by block and fails at a row longer than a block. But the
content of a cell must not stop a release, and the reading of a cell must not depend on
where blocks end. So rows longer than a piece are rewritten before the parser sees them:
only the wanted cells are kept, and cells beyond a limit are empty. All other rows pass
unchanged, and their reader applies the same limit.

Rows and cells are as in the parser: a quote counts only at the start of a cell, two
quotes mean one quote, and text after a closing quote belongs to the cell.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

_QUOTE = re.compile(rb'"')


@functools.cache
def _quoted_cells(delimiter: str) -> re.Pattern[bytes]:
    """Return the pattern of a cell in quotes, from its opening quote.

    The last cell may have no closing quote. No group of the pattern repeats another:
    Python 3.11.2 and other early versions match nested possessive groups wrongly.
    """
    before = rb"(?<![^" + re.escape(delimiter.encode()) + rb'\r\n]")'
    return re.compile(rb'("' + before + rb'[^"]*+(?:""[^"]*+)*+(?:"|\Z))')


class Readable(Protocol):
    """A stream of bytes that is read from its start to its end."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; no bytes only at the end."""

    def close(self) -> None:
        """Close the stream."""


class ShortRows:
    """A CSV file as a stream in which no row is much longer than two pieces.

    Parameters
    ----------
    file : binary file
        File at its first row, the header.
    columns : int
        Number of cells of a row.
    wanted : collection of int
        Places of the cells that will be read.
    longest : int
        Bytes of the longest cell that is read; longer cells of long rows become empty.
    piece : int
        Number of bytes read in one step; a row of twice this size is rewritten.
    delimiter : str
        Separator of cells: one ASCII character.
    """

    def __init__(
        self,
        file: Readable,
        columns: int,
        wanted: Collection[int],
        longest: int,
        piece: int,
        delimiter: str = ",",
    ) -> None:
        self._file = file
        self._columns = columns
        self._wanted = frozenset(wanted)
        self._longest = longest
        self._size = piece
        self._delimiter = delimiter
        self._pieces = self._shortened()
        self._ready = memoryview(b"")
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer only at the end."""
        parts, missing = [], size
        while missing:
            if not self._ready:
                self._ready = memoryview(next(self._pieces, b""))
                if not self._ready:
                    break
            part = self._ready if missing < 0 else self._ready[:missing]
            self._ready = self._ready[len(part) :]
            parts.append(part)
            missing -= len(part) if missing > 0 else 0
        return b"".join(parts)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self.closed = True

    def _shortened(self) -> Iterator[bytes]:
        data = b""  # always starts with the start of a row
        while more := self._file.read(self._size):
            data += more
            end = whole_rows(data, self._delimiter)
            while not end and len(data) > self._size:
                row = _LongRow(self._wanted, self._longest, self._delimiter)
                data = row.take(data, self._file, self._size)
                yield row.short(self._columns)
                end = whole_rows(data, self._delimiter)
            if end:
                yield data[:end]
                data = data[end:]
        if data:
            yield data


def whole_rows(data: bytes, delimiter: str = ",") -> int:
    """Return the end of the last whole row in bytes that start with a row; or 0."""
    parts = _quoted_cells(delimiter).split(data)
    end = len(data)
    for place in reversed(range(len(parts))):
        end -= len(parts[place])
        if place % 2 == 0:  # text between two cells in quotes
            row = max(parts[place].rfind(b"\n"), parts[place].rfind(b"\r")) + 1
            if row:
                return end + row
    return 0


class _LongRow:
    """One row that is read piece by piece; only its wanted cells are kept."""

    def __init__(self, wanted: frozenset[int], longest: int, delimiter: str) -> None:
        self._wanted = wanted
        self._longest = longest
        self._delimiter = delimiter.encode()
        self._end = re.compile(b"[" + re.escape(self._delimiter) + rb"\r\n]")
        self._cells: dict[int, bytes] = {}
        self._place = 0
        self._parts: list[bytes] = []
        self._length = 0

    def take(self, data: bytes, file: Readable, size: int) -> bytes:
        """Read this row from `data` and `file`; return what was read beyond it."""
        source = _Text(data, file, size)
        end = self._delimiter
        while end == self._delimiter:
            if source.takes(b'"'):
                self._quoted(source)
            end = source.until(self._end, self._add)
            self._end_cell()
        if end == b"\r":
            source.takes(b"\n")
        return source.rest()

    def short(self, columns: int) -> bytes:
        """Return the row with its wanted cells; a row of wrong length stays wrong."""
        if self._place != columns:
            return self._delimiter * columns + b"\n"
        cells = (self._cells.get(place, b"") for place in range(columns))
        quoted = (b'"' + cell.replace(b'"', b'""') + b'"' for cell in cells)
        return self._delimiter.join(quoted) + b"\n"

    def _quoted(self, source: _Text) -> None:
        while source.until(_QUOTE, self._add) and source.takes(b'"'):
            self._add(b'"')

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        if self._place in self._wanted and self._length <= self._longest:
            self._parts.append(part)
        else:
            self._parts.clear()

    def _end_cell(self) -> None:
        if self._parts:
            self._cells[self._place] = b"".join(self._parts)
        self._parts.clear()
        self._place, self._length = self._place + 1, 0


class _Text:
    """Bytes that were read already, followed by the rest of a file."""

    def __init__(self, data: bytes, file: Readable, size: int) -> None:
        self._data, self._at = data, 0
        self._file, self._size = file, size

    def takes(self, byte: bytes) -> bool:
        """Skip the next byte if it is `byte`."""
        if self._at == len(self._data):
            self._data, self._at = self._file.read(self._size), 0
        found = self._data[self._at : self._at + 1] == byte
        self._at += found
        return found

    def until(self, pattern: re.Pattern[bytes], add: Callable[[bytes], None]) -> bytes:
        """Pass the bytes before the next match to `add`; return the match, or b""."""
        while True:
            match = pattern.search(self._data, self._at)
            if match is not None:
                add(self._data[self._at : match.start()])
                self._at = match.end()
                return match[0]
            add(self._data[self._at :])
            self._data, self._at = self._file.read(self._size), 0
            if not self._data:
                return b""

    def rest(self) -> bytes:
        """Return the remaining bytes that were read already."""
        return self._data[self._at :]
