"""Parquet and Feather tables, which state their types, through pyarrow."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from fastdp.cli._columns import chosen, plain_batch, plain_schema, require_sound
from fastdp.cli._places import Form, Place, constant_messages
from fastdp.cli._text_files import Joined
from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

#: Codecs that the Parquet writer accepts, by their names in the metadata.
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4")

#: First bytes of an Arrow file; an Arrow stream does not have them.
_ARROW = b"ARROW1\0\0"

#: Logs of table formats whose folders also hold outdated files.
_LOGS = re.compile(r"(^|/)(_delta_log|\.hoodie|metadata/[^/]*\.metadata\.json)(/|$)")

#: Hidden folders and files: they are from failed or unfinished writes.
_HIDDEN = re.compile(r"(^|/)[._]")

#: Null in a column whose values are in the names of folders.
_NULL = "__HIVE_DEFAULT_PARTITION__"


def listed(place: Place, folder: tuple[Any, str]) -> list[str]:
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


class _Declared:
    """Base of sources that state names and types."""

    declared = True
    metadata: Mapping[bytes, bytes] | None = None

    def hint(self) -> str:
        return ""


class ParquetSource(_Declared):
    """A Parquet file, read page by page: a row group may be larger than memory."""

    def __init__(
        self,
        place: Place,
        file: Any,
        wanted: Sequence[str],
        numbers: Collection[str] = (),
    ) -> None:
        from pyarrow import parquet

        del numbers  # the file states its types

        self._place = place
        self._file = parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
        schema = self._file.schema_arrow
        self.metadata = schema.metadata
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


class ParquetFolder(_Declared):
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
        self._files = listed(place, folder)
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

    def _open(self, name: str) -> ParquetSource:
        file = self._system.open_input_file(f"{self._top}/{name}")
        return ParquetSource(self._place, file, self._wanted)

    def _folders(self, name: str) -> dict[str, str | None]:
        """Return the columns in the names of folders."""
        pairs = [part.partition("=") for part in name.split("/")[:-1] if "=" in part]
        return {
            unquote(key): None if value == _NULL else unquote(value)
            for key, _, value in pairs
        }

    def _schema(self, part: ParquetSource, name: str) -> pa.Schema:
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


class FeatherSource(_Declared):
    """A Feather or Arrow file, read by its index, or an Arrow stream.

    From a pipe, a file is read as the stream that most writers put inside it.
    """

    rows: int | None = None
    codec: str | None = None

    def __init__(
        self, place: Place, file: Any, wanted: Sequence[str], numbers: Collection[str]
    ) -> None:
        import pyarrow as pa
        from pyarrow import ipc

        del numbers  # the file states its types

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


class ParquetSink:
    """Writes each table as one row group, with the codec of the input."""

    def __init__(
        self, path: Path, schema: pa.Schema, form: Form, codec: str | None, escape: bool
    ) -> None:
        from pyarrow import parquet

        del form, escape
        compression = (codec or "SNAPPY").replace("UNCOMPRESSED", "NONE")
        self._writer = parquet.ParquetWriter(path, schema, compression=compression)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        self._writer.close()


class FeatherSink:
    """Writes each table as one batch, without compression."""

    def __init__(
        self, path: Path, schema: pa.Schema, form: Form, codec: str | None, escape: bool
    ) -> None:
        from pyarrow import ipc

        del form, codec, escape

        self._writer = ipc.new_file(path, schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, max_chunksize=max(1, table.num_rows))

    def close(self) -> None:
        self._writer.close()


#: How a file of each kind is opened, its reader and its writer. A new form is a line
#: here with its two classes, and a line of `_places.FORMS`.
KINDS: dict[str, tuple[Callable[[Place], Any], Any, Any]] = {
    "parquet": (Place.open_anywhere, ParquetSource, ParquetSink),
    "feather": (Place.open_indexed, FeatherSource, FeatherSink),
}
