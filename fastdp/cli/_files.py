"""Tables in and out, in bounded memory: CSV and Parquet through pyarrow.

A source gives record batches of the wanted columns and nothing else; a sink
writes whole tables to a temporary file beside the output and puts it in place at
the end, so that the output is there whole or not at all. Nothing that a reader
says reaches the user: its messages print cells.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np

from fastdp.cli import _rows
from fastdp.exceptions import FastDPError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

#: Text is parsed in blocks of this size.
_BLOCK_BYTES = 8 << 20

_MARK = b"\xef\xbb\xbf"

#: What the Parquet writer takes, under the names that the metadata uses.
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4")


class Source(Protocol):
    """A table that is read once, batch by batch."""

    #: The wanted columns, in the order of the file.
    schema: pa.Schema
    #: Number of rows where the file tells it, else None.
    rows: int | None
    #: Parquet codec of the first wanted column, else None.
    codec: str | None
    #: Whether the file states the types of its columns.
    declared: bool

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most about `size` rows with columns as `schema`."""

    def close(self) -> None:
        """Let go of the file."""


class Sink(Protocol):
    """What writes tables of one schema to one file."""

    def write(self, table: pa.Table) -> None:
        """Append `table`."""

    def close(self) -> None:
        """Finish the file."""


def table_format(option: str, path: Path) -> str:
    """Return "csv" or "parquet" by the extension of `path`.

    Raises
    ------
    ParameterError
        The extension is neither.
    """
    extension = path.suffix.lower().removeprefix(".")
    if extension not in ("csv", "parquet"):
        raise ParameterError(f"{option} must end in .csv or .parquet, got {path.name}")
    return extension


def require_other(option: str, path: Path, other_option: str, other: Path) -> None:
    """Refuse to write over a file that is read.

    Raises
    ------
    ParameterError
        Both paths lead to one file.
    """
    # By identity, not by name: links and ".." are seen through.
    if path.exists() and other.exists() and path.samefile(other):
        raise ParameterError(
            f"{option} must be another file than {other_option}, got {path}"
        )


@contextlib.contextmanager
def open_source(
    path: Path, wanted: Sequence[tuple[str, str]], argument: str = "INPUT"
) -> Iterator[Source]:
    """Open the table at `path` for the columns in `wanted`.

    Parameters
    ----------
    path : Path
        A CSV file with a header line, or a Parquet file.
    wanted : sequence of (option, name)
        Names of columns and the options that asked for them, for messages.
    argument : str
        What the command calls the file, for messages.

    Raises
    ------
    ParameterError
        A wanted column is missing or not unique.
    FastDPError
        The file cannot be read.
    """
    kind = table_format(argument, path)
    source: Source
    with _constant_messages(path):
        if kind == "csv":
            source = _CsvSource(path, wanted, argument)
        else:
            source = _ParquetSource(path, wanted, argument)
    try:
        yield source
    finally:
        source.close()


def read_text(argument: str, path: Path, limit: int) -> str:
    """Return a small UTF-8 file as text, without a byte order mark.

    Raises
    ------
    FastDPError
        The file cannot be read, is longer than `limit` bytes or is not UTF-8; its
        content is not shown.
    """
    with _constant_messages(path), path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise FastDPError(f"{argument} must have at most {limit} bytes, got {path}")
    try:
        return content.removeprefix(_MARK).decode()
    except UnicodeDecodeError:
        raise FastDPError(f"{argument} must be UTF-8 text, got {path}") from None


def read_metadata(path: Path) -> dict[bytes, bytes]:
    """Return what a Parquet file says of itself beside its columns.

    Raises
    ------
    FastDPError
        The file cannot be read.
    """
    from pyarrow import parquet

    with _constant_messages(path):
        return dict(parquet.read_schema(path).metadata or {})


def grouped(
    batches: Iterable[pa.RecordBatch], size: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Cut batches into parts of groups of `size` rows, each with its place there.

    Readers cut their batches at a number of bytes, so that the lengths tell how long
    the cells of private columns are. What is written in whole groups tells nothing.

    Yields
    ------
    (part, start) : tuple of RecordBatch and int
        The rows `start` to `start + len(part)` of the current group.
    """
    start = 0
    for batch in batches:
        done = 0
        while done < batch.num_rows:
            part = batch.slice(done, size - start)
            yield part, start
            done += part.num_rows
            start = (start + part.num_rows) % size


@contextlib.contextmanager
def _constant_messages(path: Path) -> Iterator[None]:
    """Replace whatever a reader raises by an error that holds no data."""
    try:
        yield
    except (FastDPError, MemoryError):
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "reading failed"
        raise FastDPError(f"cannot read {path}: {reason}") from None
    except Exception:
        # Of whatever type: their messages print cells.
        kind = table_format("the file", path)
        raise FastDPError(f"cannot read {path}: not a valid {kind} table") from None


def _require_once(
    names: Sequence[str], wanted: Sequence[tuple[str, str]], argument: str
) -> None:
    # The names in the file are not listed: without a header they are a row of data.
    for option, name in wanted:
        found = names.count(name)
        if found != 1:
            rule = "be in" if found == 0 else "be there only once in"
            raise ParameterError(f"{option} must {rule} {argument}, got {name!r}")


class _ParquetSource:
    """A Parquet file, read page by page: a row group may be larger than memory."""

    declared = True

    def __init__(
        self, path: Path, wanted: Sequence[tuple[str, str]], argument: str
    ) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._path = path
        self._file = parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
        schema = self._file.schema_arrow
        _require_once(schema.names, wanted, argument)
        names = {name for _, name in wanted}
        # File-level metadata is left behind: it may describe other columns.
        self.schema = pa.schema([field for field in schema if field.name in names])
        self.rows: int | None = self._file.metadata.num_rows
        self.codec = self._first_codec(schema.names.index(self.schema.names[0]))

    def _first_codec(self, position: int) -> str | None:
        metadata = self._file.metadata
        if metadata.num_row_groups == 0:
            return None
        group = metadata.row_group(0)
        paths = [group.column(i).path_in_schema for i in range(group.num_columns)]
        name = self._file.schema_arrow.names[position]
        codec: str = group.column(paths.index(name) if name in paths else 0).compression
        # A codec that can be read but not written gives way to the default.
        return codec if codec in _CODECS else None

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        names = self.schema.names
        with _constant_messages(self._path):
            yield from (
                batch.select(names)
                for batch in self._file.iter_batches(batch_size=size, columns=names)
            )

    def close(self) -> None:
        self._file.close()


class _CsvSource:
    """A CSV file with a header; every cell is read as bytes, whatever it holds.

    A row with too few or too many cells still counts as a row, since the number
    of rows is public: all its wanted cells are null. The parser hands over the
    text of such a row, and fails where it is not text; so it is told that the file
    is Latin-1, in which all bytes are text, and the cells are turned back later.
    Cells beyond `longest_cell` bytes are null: the parser needs some limit, and this
    one depends on the file's options and on the cell alone.
    """

    declared = False

    def __init__(
        self, path: Path, wanted: Sequence[tuple[str, str]], argument: str
    ) -> None:
        import pyarrow as pa

        self._path = path
        # Numbers of the malformed rows, counted from the header as row 1. Their
        # text is dropped at once.
        self._malformed: deque[int] = deque()
        with self._file() as file:
            columns = self._names(file)
        # Names of columns as users write them, beside those that the parser sees.
        names = [name.encode("latin-1").decode("utf-8", "replace") for name in columns]
        _require_once(names, wanted, argument)
        asked = {name for _, name in wanted}
        chosen = [pair for pair in zip(names, columns, strict=True) if pair[0] in asked]
        self.schema = pa.schema([(name, pa.binary()) for name, _ in chosen])
        self.rows: int | None = None
        self.codec: str | None = None
        self._malformed.clear()
        # Together they are of one eighth of a block, and of half a block at most when
        # each byte is a quote and no ASCII: no row is longer than a block then.
        self.longest_cell = max(1, _BLOCK_BYTES // 8 // len(chosen))
        places = [place for place, name in enumerate(names) if name in asked]
        rows = _rows.ShortRows(
            self._file(), len(names), places, self.longest_cell, _BLOCK_BYTES // 4
        )
        # In a file of one column an empty line is a row whose cell is empty.
        self._reader = self._open(
            pa.PythonFile(rows, mode="r"),
            [column for _, column in chosen],
            len(names) == 1,
        )

    def _file(self) -> BinaryIO:
        file = self._path.open("rb")
        # A byte order mark is not part of the first name.
        file.seek(len(_MARK) if file.read(len(_MARK)) == _MARK else 0)
        return file

    def _names(self, file: BinaryIO) -> list[str]:
        """Return the names of the columns, as the parser sees them."""
        import pyarrow as pa

        head = file.read(_BLOCK_BYTES // 2)
        if len(head) == _BLOCK_BYTES // 2:
            # A row that goes on is left out: it may be longer than a block.
            head = head[: _rows.whole_rows(head)]
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
        """Yield batches as the parser cuts them; `size` is only a wish."""
        import pyarrow as pa

        del size
        number = 1  # of the last row that was passed on; the header is row 1
        with _constant_messages(self._path):
            for batch in self._reader:
                cells = [self._readable(column) for column in batch.columns]
                whole = pa.record_batch(cells, schema=self.schema)
                whole, number = self._with_malformed(whole, number)
                yield whole
        if self._malformed:
            nulls = pa.nulls(len(self._malformed), pa.binary())
            self._malformed.clear()
            yield pa.record_batch([nulls] * len(self.schema), schema=self.schema)

    def _readable(self, cells: pa.Array) -> pa.Array:
        """Return the bytes of cells, null where there are too many of them."""
        import pyarrow as pa
        from pyarrow import compute

        cells = _original_bytes(cells)
        long = compute.greater(compute.binary_length(cells), self.longest_cell)
        if not compute.any(long).as_py():
            return cells
        return compute.if_else(long, pa.scalar(None, pa.binary()), cells)

    def _with_malformed(
        self, batch: pa.RecordBatch, number: int
    ) -> tuple[pa.RecordBatch, int]:
        """Put rows of nulls where the parser left out malformed rows."""
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

    def close(self) -> None:
        self._reader.close()


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


class AtomicOutput:
    """A file that appears whole at its path when the block ends well.

    The temporary file lies in the same folder; it is removed on every failure,
    an interrupt included.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")

    def __enter__(self) -> Path:
        try:
            # Never an existing file; permissions follow the user's umask.
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            os.close(os.open(self.temporary, flags, 0o666))
        except OSError as error:
            raise _cannot_write(self.path, error) from None
        return self.temporary

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._publish()
        finally:
            self.temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, FastDPError):
            raise _cannot_write(self.path, error) from None

    def _publish(self) -> None:
        try:
            # The data must be on the disk before the name points at it.
            descriptor = os.open(self.temporary, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self.temporary.replace(self.path)
        except OSError as error:
            raise _cannot_write(self.path, error) from None


def _cannot_write(path: Path, error: OSError) -> FastDPError:
    reason = os.strerror(error.errno) if error.errno else "writing failed"
    return FastDPError(f"cannot write {path}: {reason}")


def with_metadata(schema: pa.Schema, metadata: Mapping[str, str]) -> pa.Schema:
    """Return the schema with more of its own metadata."""
    if not metadata:
        return schema
    own = dict(schema.metadata or {})
    return schema.with_metadata({**own, **metadata})


def open_sink(kind: str, path: Path, schema: pa.Schema, codec: str | None) -> Sink:
    """Return the writer of format `kind` ("csv" or "parquet") to `path`."""
    if kind == "csv":
        return _CsvSink(path, schema)
    return _ParquetSink(path, schema, codec or "SNAPPY")


class _ParquetSink:
    """Writes each table as one row group, with the codec of the input."""

    def __init__(self, path: Path, schema: pa.Schema, codec: str) -> None:
        from pyarrow import parquet

        compression = codec.replace("UNCOMPRESSED", "NONE")
        self._writer = parquet.ParquetWriter(path, schema, compression=compression)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        self._writer.close()


class _CsvSink:
    """Writes text by whole columns; only cells that need quotes get them."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow as pa

        for field in schema:
            _require_writable(field)
        self._file = path.open("wb")
        header = [pa.array([name.encode()], pa.large_binary()) for name in schema.names]
        try:
            self._write_lines([_quoted(cell) for cell in header])
        except BaseException:
            self._file.close()
            raise

    def write(self, table: pa.Table) -> None:
        self._write_lines([_text(column) for column in table.columns])

    def _write_lines(self, columns: list[pa.Array]) -> None:
        import pyarrow as pa
        from pyarrow import compute

        def constant(text: bytes) -> pa.Scalar:
            return pa.scalar(text, pa.large_binary())

        join = compute.binary_join_element_wise
        rows = join(*columns, constant(b",")) if len(columns) > 1 else columns[0]
        lines = join(rows, constant(b""), constant(b"\n"))
        if len(lines) == 0:
            return
        # The values of a binary array lie one behind the other: they are the file.
        _, offsets, text = lines.buffers()
        start, stop = np.frombuffer(offsets, np.int64)[[0, len(lines)]]
        self._file.write(memoryview(text)[start:stop])

    def close(self) -> None:
        self._file.close()


def _require_writable(field: pa.Field) -> None:
    import pyarrow as pa

    try:
        _text(pa.chunked_array([], field.type))
    except pa.ArrowException:
        raise ParameterError(
            f"--keep {field.name!r} cannot be written as CSV, its type is {field.type}"
        ) from None


def _text(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa
    from pyarrow import compute, types

    cells = column.combine_chunks()
    number = types.is_integer(cells.type) or types.is_floating(cells.type)
    if types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if not (types.is_binary(cells.type) or types.is_large_binary(cells.type)):
        cells = cells.cast(pa.large_string())
    cells = compute.fill_null(cells.cast(pa.large_binary()), b"")
    return cells if number else _quoted(cells)


def _quoted(cells: pa.Array) -> pa.Array:
    import pyarrow as pa
    from pyarrow import compute

    def constant(text: bytes) -> pa.Scalar:
        return pa.scalar(text, pa.large_binary())

    special = compute.match_substring_regex(cells, '[",\r\n]')
    if not compute.any(special).as_py():
        return cells
    doubled = compute.replace_substring(cells, '"', '""')
    join = compute.binary_join_element_wise
    wrapped = join(constant(b'"'), doubled, constant(b'"'), constant(b""))
    return compute.if_else(special, wrapped, cells)
