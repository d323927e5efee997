"""Text tables, CSV and TSV, through pyarrow: cells are read and written as bytes."""

from __future__ import annotations

import gzip
import io
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from fastdp.cli import _rows
from fastdp.cli._dialects import Decoded
from fastdp.cli._places import Form, Place, constant_messages
from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

#: Parse text in blocks of this many bytes.
_BLOCK_BYTES = 8 << 20

#: Read this many bytes of the first line for a hint.
_HINT_BYTES = 1 << 16

_MARK = b"\xef\xbb\xbf"
_MARKS = {_MARK: "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}

#: Spreadsheets run cells that start with these: ASCII, and full-width forms.
_FORMULA = r"^( *[=+\-@]|[\t\r\n])"
_WIDE_FORMULAS = ("\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = r"^ *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


class TextSource:
    """A file with a header; every cell is read as bytes.

    A row with too few or too many cells still counts as a row, since the number
    of rows is public; all its wanted cells are null. The parser passes the text of such
    a row to a callback, and fails if it is not valid text. So the parser reads the file
    as Latin-1, in which all bytes are valid, and the cells are converted back later.
    Cells longer than `longest_cell` bytes are null: the parser needs a limit, and this
    one depends only on the file's options and the cell.
    """

    declared = False
    rows: int | None = None
    codec: str | None = None
    metadata: Mapping[bytes, bytes] | None = None

    def __init__(
        self,
        place: Place,
        file: BinaryIO,
        wanted: Sequence[str],
        numbers: Collection[str],
    ) -> None:
        import pyarrow as pa

        self._place, self._numbers = place, numbers
        self._delimiter, self._dialect = place.form.delimiter, place.form.dialect
        # Numbers of malformed rows; the header is row 1. Their text is not kept.
        self._malformed: deque[int] = deque()
        if place.form.gzip:
            file = cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))
        if self._dialect.encoding != "utf-8":
            start = file.read(len(_MARK))
            self._require_mark(start)
            joined = Joined(start, file)
            file = cast(BinaryIO, Decoded(joined, self._dialect.encoding))
        # A byte order mark is not part of the first name.
        head = file.read(_BLOCK_BYTES // 2)
        if self._dialect.encoding == "utf-8":
            self._require_mark(head)
        whole = len(head) < _BLOCK_BYTES // 2
        head = head.removeprefix(_MARK)
        if whole and head and not re.search(rb"[\r\n]", head):
            head += b"\n"  # the parser needs it for a table without rows
        self._head = head[:_HINT_BYTES]
        columns = self._names(head)
        #: Names of all columns as users write them; the parser sees them as Latin-1.
        self.names = [self._name(column) for column in columns]
        asked = set(wanted)
        chosen = [
            pair for pair in zip(self.names, columns, strict=True) if pair[0] in asked
        ]
        self.schema = pa.schema([(name, pa.binary()) for name, _ in chosen])
        self._malformed.clear()
        if not chosen:
            return  # the caller refuses missing columns
        # All wanted cells of a row have at most 1/8 of a block, or 1/2 if each byte is
        # doubled as a quote and as non-ASCII; so no row is longer than a block.
        self.longest_cell = max(1, _BLOCK_BYTES // 8 // len(chosen))
        rows = _rows.ShortRows(
            Joined(head, file),
            len(self.names),
            [place for place, name in enumerate(self.names) if name in asked],
            self.longest_cell,
            _BLOCK_BYTES // 4,
            self._delimiter,
        )
        # In a file with one column an empty line is a row with an empty cell.
        self._reader = self._open(
            pa.PythonFile(rows, mode="r"),
            [column for _, column in chosen],
            len(self.names) == 1,
        )

    def hint(self) -> str:
        """Return a hint on the first line without showing the line."""
        line = re.split(rb"[\r\n]", self._head)[0]
        option = self._dialect.said("delimiter")
        for sign, name in ((b"\t", "tab"), (b";", "';'"), (b"|", "'|'"), (b",", "','")):
            if len(self.names) == 1 and sign in line:
                return f", and here it has one name with {name}: state {option} {name}"
        return ""

    def _name(self, column: str) -> str:
        try:
            return column.encode("latin-1").decode()
        except UnicodeDecodeError:
            said = self._dialect.said("encoding")
            raise ParameterError(
                f"{said} must be that of {self._place.option}, whose first line is not "
                f"{self._dialect.encoding}: latin-1 and cp1252 are common"
            ) from None

    def _require_mark(self, start: bytes) -> None:
        """Refuse an encoding other than a byte order mark's; UTF-16 needs a mark."""
        stated, marked = self._dialect.encoding, start.startswith(tuple(_MARKS))
        if stated == "utf-16" and start and not marked:
            raise ParameterError(
                f"{self._dialect.said('encoding')} must be utf-16-le or utf-16-be for "
                f"{self._place.option}, which has no mark of its byte order, got utf-16"
            )
        for mark, name in _MARKS.items():
            if start.startswith(mark) and not stated.startswith(name):
                said = self._dialect.said("encoding")
                raise ParameterError(
                    f"{said} must be {name} for {self._place.option}, whose first "
                    f"bytes are the mark of {name}, got {stated}"
                )

    def _names(self, head: bytes) -> list[str]:
        """Return the names of the columns, as the parser sees them."""
        import pyarrow as pa

        if len(head) >= _BLOCK_BYTES // 2 - len(_MARK):
            # Leave out an incomplete row: it may be longer than a block.
            head = head[: _rows.whole_rows(head, self._delimiter)]
        with self._open(pa.BufferReader(head), None, False) as probe:
            names: list[str] = probe.schema.names
        return names

    def _open(self, file: Any, columns: list[str] | None, single: bool) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        def skip(row: Any) -> str:
            self._malformed.append(row.number)
            return "skip"

        return csv.open_csv(
            file,
            read_options=csv.ReadOptions(
                block_size=_BLOCK_BYTES, use_threads=False, encoding="latin-1"
            ),
            parse_options=csv.ParseOptions(
                delimiter=self._delimiter,
                newlines_in_values=True,
                ignore_empty_lines=not single,
                invalid_row_handler=skip,
            ),
            convert_options=csv.ConvertOptions(
                check_utf8=False,
                strings_can_be_null=False,
                include_columns=columns,
                column_types={name: pa.binary() for name in columns or ()},
            ),
        )

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """Yield batches as the parser cuts them; `size` is ignored."""
        import pyarrow as pa

        del size
        number = 1  # number of the last row that was yielded; the header is row 1
        with constant_messages(self._place):
            for batch in self._reader:
                cells = [
                    self._readable(batch.column(place), field.name)
                    for place, field in enumerate(self.schema)
                ]
                whole = pa.record_batch(cells, schema=self.schema)
                whole, number = self._with_malformed(whole, number)
                yield whole
        if self._malformed:
            nulls = pa.nulls(len(self._malformed), pa.binary())
            self._malformed.clear()
            yield pa.record_batch([nulls] * len(self.schema), schema=self.schema)

    def _readable(self, cells: pa.Array, name: str) -> pa.Array:
        """Return the bytes of cells; cells that are too long become null."""
        import pyarrow as pa
        from pyarrow import compute

        cells = _original_bytes(cells)
        long = compute.greater(compute.binary_length(cells), self.longest_cell)
        if compute.any(long).as_py():
            cells = compute.if_else(long, pa.scalar(None, pa.binary()), cells)
        return self._dialect.plain(cells, number=name in self._numbers)

    def _with_malformed(
        self, batch: pa.RecordBatch, number: int
    ) -> tuple[pa.RecordBatch, int]:
        """Insert rows of nulls where the parser skipped malformed rows."""
        import pyarrow as pa

        last = number + batch.num_rows
        gaps = []
        while self._malformed and self._malformed[0] <= last:
            gaps.append(self._malformed.popleft())
            last += 1
        if not gaps:
            return batch, last
        good = np.ones(last - number, dtype=bool)
        good[np.array(gaps) - number - 1] = False
        order = np.cumsum(good) - 1
        return batch.take(pa.array(order, mask=~good)), last


class Joined:
    """The bytes of a file that were read already, and its rest, as one stream."""

    def __init__(self, head: bytes, file: Any) -> None:
        self._head, self._file = io.BytesIO(head), file
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer only at the end."""
        read: bytes = self._head.read(size)
        while size < 0 or len(read) < size:
            more = self._file.read(size - len(read) if size >= 0 else -1)
            if not more:
                break
            read += more
        return read

    def close(self) -> None:
        """Close the stream; the file stays open."""
        self.closed = True


def _original_bytes(cells: pa.Array) -> pa.Array:
    """Undo the reading of bytes as Latin-1 characters; `cells` has no nulls."""
    import pyarrow as pa
    from pyarrow import compute

    _, offsets, text = cells.buffers()
    count = len(cells)
    ends = np.frombuffer(offsets, np.int32)[cells.offset : cells.offset + count + 1]
    raw = text.to_pybytes()[ends[0] : ends[-1]] if text is not None and count else b""
    if raw.isascii():
        return cells
    starts = np.zeros(count + 1, np.int32)
    np.cumsum(compute.utf8_length(cells.cast(pa.string())).to_numpy(), out=starts[1:])
    data = raw.decode().encode("latin-1")
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


class TextSink:
    """Writes text by whole columns, with quotes only where they are needed.

    With `escape`, text cells that a spreadsheet would run get an apostrophe in front.
    """

    def __init__(
        self, path: Path, schema: pa.Schema, form: Form, codec: str | None, escape: bool
    ) -> None:
        import pyarrow as pa

        del codec
        for field in schema:
            _require_writable(field, form)
        self._delimiter, self._escape = form.delimiter, escape
        self._special = f'["{form.delimiter}\r\n]'
        self._file = path.open("wb")
        self._out: Any = self._file
        if form.gzip:
            # Write neither name nor time: the same rows then give the same bytes.
            self._out = gzip.GzipFile("", "wb", 6, self._file, mtime=0)
        header = [pa.array([name.encode()], pa.large_binary()) for name in schema.names]
        try:
            self._write_lines([self._quoted(cell) for cell in header])
        except BaseException:
            self._file.close()
            raise

    def write(self, table: pa.Table) -> None:
        """Append `table`."""
        self._write_lines([self._text(column) for column in table.columns])

    def _write_lines(self, columns: list[pa.Array]) -> None:
        from pyarrow import compute

        join = compute.binary_join_element_wise
        delimiter = _constant(self._delimiter.encode())
        rows = join(*columns, delimiter) if len(columns) > 1 else columns[0]
        lines = join(rows, _constant(b""), _constant(b"\n"))
        if len(lines) == 0:
            return
        # The values of a binary array are contiguous: write them at once.
        _, offsets, text = lines.buffers()
        start, stop = np.frombuffer(offsets, np.int64)[[0, len(lines)]]
        self._out.write(memoryview(text)[start:stop])

    def _text(self, column: pa.ChunkedArray) -> pa.Array:
        cells, number = _as_bytes(column)
        if number:
            return cells
        return self._quoted(_escaped(cells) if self._escape else cells)

    def _quoted(self, cells: pa.Array) -> pa.Array:
        from pyarrow import compute

        special = compute.match_substring_regex(cells, self._special)
        if not compute.any(special).as_py():
            return cells
        doubled = compute.replace_substring(cells, '"', '""')
        join = compute.binary_join_element_wise
        wrapped = join(_constant(b'"'), doubled, _constant(b'"'), _constant(b""))
        return compute.if_else(special, wrapped, cells)

    def close(self) -> None:
        """Finish the file."""
        try:
            self._out.close()
        finally:
            self._file.close()


def _constant(text: bytes) -> pa.Scalar:
    import pyarrow as pa

    return pa.scalar(text, pa.large_binary())


def _require_writable(field: pa.Field, form: Form) -> None:
    import pyarrow as pa

    try:
        _as_bytes(pa.chunked_array([], field.type))
    except pa.ArrowException:
        raise ParameterError(
            f"--keep {field.name!r} cannot be written as "
            f"{form.name.upper()}: its type is {field.type}"
        ) from None


def _as_bytes(column: pa.ChunkedArray) -> tuple[pa.Array, bool]:
    """Return the cells as text, and whether they are numbers, which need no quotes."""
    import pyarrow as pa
    from pyarrow import compute, types

    cells = column.combine_chunks()
    number = types.is_integer(cells.type) or types.is_floating(cells.type)
    if types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if not (types.is_binary(cells.type) or types.is_large_binary(cells.type)):
        cells = cells.cast(pa.large_string())
    return compute.fill_null(cells.cast(pa.large_binary()), b""), number


def _escaped(cells: pa.Array) -> pa.Array:
    """Put an apostrophe before cells that a spreadsheet would run, except numbers."""
    from pyarrow import compute

    formula = compute.match_substring_regex(cells, _FORMULA)
    for sign in _WIDE_FORMULAS:
        formula = compute.or_(formula, compute.starts_with(cells, sign))
    number = compute.match_substring_regex(cells, _NUMBER)
    join = compute.binary_join_element_wise
    return compute.if_else(
        compute.and_not(formula, number),
        join(_constant(b"'"), cells, _constant(b"")),
        cells,
    )
