"""Tables in and out, in bounded memory: text, Parquet and Feather through pyarrow.

A source yields record batches of the wanted columns only. A sink writes tables to a
temporary file, which is renamed at the end, so that the output is complete or missing.
Messages of readers never reach the user, because they print cells.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from fastdp.cli._columns import chosen, plain_batch, plain_schema, require_sound
from fastdp.cli._places import FORMS, Form, Place, constant_messages
from fastdp.cli._text_files import Joined, TextSink, TextSource
from fastdp.exceptions import FileError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

_MARK = b"\xef\xbb\xbf"

#: Codecs that the Parquet writer accepts, by their names in the metadata.
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4")

#: First bytes of an Arrow file; an Arrow stream does not have them.
_ARROW = b"ARROW1\0\0"

#: A message lists at most this many names of columns, each cut to this length.
_MOST_NAMES, _LONGEST_NAME = 20, 40

#: Logs of table formats whose folders also hold outdated files.
_LOGS = re.compile(r"(^|/)(_delta_log|\.hoodie|metadata/[^/]*\.metadata\.json)(/|$)")

#: Hidden folders and files: they are from failed or unfinished writes.
_HIDDEN = re.compile(r"(^|/)[._]")

#: Null in a column whose values are in the names of folders.
_NULL = "__HIVE_DEFAULT_PARTITION__"


class Source(Protocol):
    """A table that is read once, batch by batch."""

    #: Names of all columns.
    names: list[str]
    #: The wanted columns, in the order of the file.
    schema: pa.Schema
    #: Number of rows if the file states it, else None.
    rows: int | None
    #: Parquet codec of the first wanted column, else None.
    codec: str | None
    #: Whether the file states the types of its columns.
    declared: bool

    def hint(self) -> str:
        """Return a hint why a column may be missing; "" if there is none."""

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most about `size` rows with the columns of `schema`."""


class Sink(Protocol):
    """Writes tables of one schema to one file."""

    def write(self, table: pa.Table) -> None:
        """Append `table`."""

    def close(self) -> None:
        """Finish the file."""


@contextlib.contextmanager
def open_source(place: Place, wanted: Sequence[tuple[str, str]]) -> Iterator[Source]:
    """Open the table at `place` for the columns in `wanted`.

    Parameters
    ----------
    place : Place
        A text file with a header line, a Parquet file or folder, or a Feather file.
    wanted : sequence of (option, name)
        Names of columns and the options that asked for them, for messages.

    Raises
    ------
    ParameterError
        A wanted column is missing or not unique.
    FastDPError
        The file cannot be read.
    """
    names = [name for _, name in wanted]
    with contextlib.ExitStack() as stack:
        with constant_messages(place, f"not a valid {place.form.name} table"):
            source = _source(place, names, stack)
        _require_once(source, wanted, place.option)
        yield source


def _source(place: Place, wanted: Sequence[str], stack: contextlib.ExitStack) -> Source:
    """Return the source; what it opens is closed by `stack`."""
    folder = _folder(place)
    if folder is not None:
        if place.form.kind != "parquet":
            raise ParameterError(
                f"{place.option} must be a file to be read as "
                f"{place.form.name}, but {place} is a folder"
            )
        return _ParquetFolder(place, folder, wanted)
    if place.form.kind == "parquet":
        source = _ParquetSource(place, place.open_anywhere(), wanted)
        return stack.enter_context(contextlib.closing(source))
    opened = place.open() if place.form.text else place.open_indexed()
    file = stack.enter_context(contextlib.closing(opened))
    if place.form.text:
        return TextSource(place, file, wanted)
    return _FeatherSource(place, file, wanted)


def _folder(place: Place) -> tuple[Any, str] | None:
    """Return the file system and path of a folder; None for a file."""
    from pyarrow import fs

    if place.standard:
        return None
    if place.path is not None:
        if place.path.is_dir():
            return fs.LocalFileSystem(), str(place.path.absolute())
        return None
    system, path = place.remote
    is_folder = system.get_file_info(path).type == fs.FileType.Directory
    return (system, path) if is_folder else None


def _listed(place: Place, folder: tuple[Any, str]) -> list[str]:
    """Return the names of the Parquet files below a folder, sorted."""
    from pyarrow import fs

    system, top = folder
    found = system.get_file_info(fs.FileSelector(top, recursive=True))
    start = len(top.rstrip("/")) + 1
    below = [file.path[start:] for file in found if file.is_file]
    if any(_LOGS.search(name) for name in below):
        raise ParameterError(
            f"{place.option} must not be a Delta, Iceberg or Hudi table, whose folder "
            f"holds removed rows too: write one version of it to Parquet, got {place}"
        )
    names = sorted(
        name
        for name in below
        if name.lower().endswith(".parquet") and not _HIDDEN.search(name)
    )
    if not names:
        raise ParameterError(
            f"{place.option} must have files that end in .parquet, but {place} has none"
        )
    return names


def parts(place: Place) -> list[Place]:
    """Return the Parquet files of a folder, or the one file that `place` is.

    Raises
    ------
    FastDPError
        The folder holds none, or cannot be read.
    """
    with constant_messages(place, "not a valid folder"):
        folder = _folder(place)
        if folder is None:
            return [place]
        top = replace(place, given=place.given.rstrip("/"), form=FORMS["parquet"])
        return [top.beside(f"/{name}") for name in _listed(place, folder)]


def read_text(argument: str, path: Path | Place, limit: int) -> str:
    """Return a small UTF-8 file as text, without a byte order mark.

    Raises
    ------
    FastDPError
        The file cannot be read, is longer than `limit` bytes or is not UTF-8; its
        content is not shown.
    """
    with constant_messages(path), _opened(path) as file:
        content: bytes = file.read(limit + 1)
    if len(content) > limit:
        raise FileError(f"{argument} must have at most {limit} bytes, got {path}")
    try:
        return content.removeprefix(_MARK).decode()
    except UnicodeDecodeError:
        raise FileError(f"{argument} must be UTF-8 text, got {path}") from None


def _opened(path: Path | Place) -> Any:
    return path.open() if isinstance(path, Place) else path.open("rb")


def read_metadata(place: Place) -> dict[bytes, bytes]:
    """Return the metadata of a Parquet or Feather file.

    Raises
    ------
    FastDPError
        The file cannot be read.
    """
    from pyarrow import parquet

    with constant_messages(place, f"not a valid {place.form.name} table"):
        if place.form.kind == "parquet":
            metadata = parquet.read_schema(place.open_anywhere()).metadata
        else:
            with contextlib.closing(place.open_indexed()) as file:
                metadata = _FeatherSource(place, file, ()).metadata
        return dict(metadata or {})


def grouped(
    batches: Iterable[pa.RecordBatch], size: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Cut batches into parts of groups of `size` rows, each with its place there.

    Readers cut their batches at a number of bytes, so the lengths of batches reveal how
    long the cells of private columns are. Whole groups reveal nothing.

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


def _require_once(
    source: Source, wanted: Sequence[tuple[str, str]], argument: str
) -> None:
    names = source.names
    # The names of a text file without a header are a row of data. List them only if a
    # requested name is among them, which shows that they are names.
    public = source.declared or any(name in names for _, name in wanted)
    for option, name in wanted:
        found = names.count(name)
        if found > 1:
            raise ParameterError(
                f"{argument} must have only one column for {option}, got "
                f"several named {name!r}"
            )
        if found:
            continue
        if public:
            reason = f"it has {_listed_names(names)}"
        else:
            reason = f"of a text file the first line names the columns{source.hint()}"
        near = [other for other in names if _bare(other) == _bare(name)]
        if near:
            reason = f"it has {near[0]!r}, names are the same to the letter and blank"
        raise ParameterError(f"{option} must be in {argument}, got {name!r}: {reason}")


def _bare(name: str) -> str:
    return name.strip().casefold()


def _listed_names(names: Sequence[str]) -> str:
    """Return names for a message, only the first ones of many."""
    shown = ", ".join(repr(name[:_LONGEST_NAME]) for name in names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown or "no column"


class _Declared:
    """Base of sources that state names and types."""

    declared = True

    def hint(self) -> str:
        return ""


class _ParquetSource(_Declared):
    """A Parquet file, read page by page: a row group may be larger than memory."""

    def __init__(self, place: Place, file: Any, wanted: Sequence[str]) -> None:
        from pyarrow import parquet

        self._place = place
        self._file = parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
        schema = self._file.schema_arrow
        self.names: list[str] = schema.names
        self.schema = plain_schema(chosen(schema, wanted))
        self.rows: int | None = self._file.metadata.num_rows
        self.codec = self._first_codec()

    def _first_codec(self) -> str | None:
        metadata = self._file.metadata
        if metadata.num_row_groups == 0 or not self.schema.names:
            return None
        group = metadata.row_group(0)
        paths = [group.column(i).path_in_schema for i in range(group.num_columns)]
        name = self.schema.names[0]
        codec: str = group.column(paths.index(name) if name in paths else 0).compression
        # Use the default in place of a codec that can be read but not written.
        return codec if codec in _CODECS else None

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        names = self.schema.names
        with constant_messages(self._place, "not a valid parquet table"):
            yield from (
                plain_batch(batch.select(names), self.schema)
                for batch in self._file.iter_batches(batch_size=size, columns=names)
            )

    def close(self) -> None:
        self._file.close(force=True)


class _ParquetFolder(_Declared):
    """The Parquet files below a folder, in the order of their names.

    A column in the names of folders ("clinic=North/part-0.parquet") is text. All files
    must have the wanted columns with the same types, because a conversion could fail
    depending on values.
    """

    def __init__(
        self, place: Place, folder: tuple[Any, str], wanted: Sequence[str]
    ) -> None:
        self._place, self._wanted = place, wanted
        self._system, top = folder
        self._top = top.rstrip("/")
        self._files = _listed(place, folder)
        self.rows: int | None = 0
        for place_of, name in enumerate(self._files):
            with contextlib.closing(self._open(name)) as part:
                names = [*part.names, *self._folders(name)]
                schema = self._schema(part, name)
                self.rows += part.rows or 0
                if place_of == 0:
                    self.names, self.schema, self.codec = names, schema, part.codec
                elif not schema.equals(self.schema):
                    raise ParameterError(
                        f"{place.option} must have the same columns and "
                        f"types in all files, but {name} differs from "
                        f"{self._files[0]}"
                    )

    def _open(self, name: str) -> _ParquetSource:
        file = self._system.open_input_file(f"{self._top}/{name}")
        return _ParquetSource(self._place, file, self._wanted)

    def _folders(self, name: str) -> dict[str, str | None]:
        """Return the columns in the names of folders."""
        pairs = [part.partition("=") for part in name.split("/")[:-1] if "=" in part]
        return {
            unquote(key): None if value == _NULL else unquote(value)
            for key, _, value in pairs
        }

    def _schema(self, part: _ParquetSource, name: str) -> pa.Schema:
        import pyarrow as pa

        fields = list(part.schema)
        for key in self._folders(name):
            if key in self._wanted:
                fields.append(pa.field(key, pa.string()))
        return pa.schema(fields)

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one file after the other."""
        import pyarrow as pa

        for name in self._files:
            with constant_messages(self._place, "not a valid parquet table"):
                part = self._open(name)
            constants = self._folders(name)
            with contextlib.closing(part):
                for batch in part.batches(size):
                    columns = [
                        batch.column(field.name)
                        if field.name in batch.schema.names
                        else pa.repeat(
                            pa.scalar(constants[field.name], pa.string()),
                            batch.num_rows,
                        )
                        for field in self.schema
                    ]
                    yield pa.record_batch(columns, schema=self.schema)


class _FeatherSource(_Declared):
    """A Feather or Arrow file, read by its index, or an Arrow stream.

    From a pipe, a file is read as the stream that most writers put inside it.
    """

    rows: int | None = None
    codec: str | None = None

    def __init__(self, place: Place, file: Any, wanted: Sequence[str]) -> None:
        import pyarrow as pa
        from pyarrow import ipc

        self._place = place
        head = file.read(len(_ARROW))
        indexed = head == _ARROW and file.seekable()
        if indexed:
            file.seek(0)
            whole = ipc.open_file(pa.PythonFile(file, mode="r")).schema
        else:
            rest = Joined(b"" if head == _ARROW else head, file)
            message = ipc.read_message(pa.PythonFile(rest, mode="r"))
            whole = ipc.read_schema(message)
        self.metadata = whole.metadata
        self.names: list[str] = whole.names
        self.schema = plain_schema(chosen(whole, wanted))
        places = [i for i, name in enumerate(whole.names) if name in wanted]
        options = ipc.IpcReadOptions(included_fields=places, use_threads=False)
        if indexed:
            file.seek(0)
            reader = ipc.open_file(pa.PythonFile(file, mode="r"), options=options)
            self._batches = map(reader.get_batch, range(reader.num_record_batches))
        else:
            again = Joined(message.serialize().to_pybytes(), rest)
            stream = pa.PythonFile(again, mode="r")
            self._batches = iter(ipc.open_stream(stream, options=options))

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """Yield the file's own batches; `size` is ignored."""
        del size
        problem = f"not a valid {self._place.form.name} table"
        with constant_messages(self._place, problem):
            for batch in self._batches:
                for column in batch.columns:
                    require_sound(column)
                yield plain_batch(batch, self.schema)


def with_metadata(schema: pa.Schema, metadata: Mapping[str, str]) -> pa.Schema:
    """Return the schema with more of its own metadata."""
    if not metadata:
        return schema
    own = dict(schema.metadata or {})
    return schema.with_metadata({**own, **metadata})


def open_sink(
    form: Form,
    path: Path,
    schema: pa.Schema,
    codec: str | None,
    *,
    escape: bool = False,
) -> Sink:
    """Return the writer of a form to `path`; `escape` makes formulas plain text."""
    if form.text:
        return TextSink(path, schema, form, escape=escape)
    if form.kind == "parquet":
        return _ParquetSink(path, schema, codec or "SNAPPY")
    return _FeatherSink(path, schema)


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


class _FeatherSink:
    """Writes each table as one batch, without compression."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        from pyarrow import ipc

        self._writer = ipc.new_file(path, schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, max_chunksize=max(1, table.num_rows))

    def close(self) -> None:
        self._writer.close()
