"""Tables in and out, in bounded memory: text, Parquet and Feather through pyarrow.

A source yields record batches of the wanted columns only. A sink writes tables to a
temporary file, which is renamed at the end, so that the output is complete or missing.
Messages of readers never reach the user, because they print cells.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fastdp.cli import _arrow_files
from fastdp.cli._places import FORMS, Form, Place, constant_messages
from fastdp.cli._text_files import TextSink, TextSource
from fastdp.exceptions import FileError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

#: A message lists at most this many names of columns, each cut to this length.
_MOST_NAMES, _LONGEST_NAME = 20, 40


class Source(Protocol):
    """A table that is read once, batch by batch."""

    def __init__(
        self, place: Place, file: Any, wanted: Sequence[str], numbers: Collection[str]
    ) -> None: ...

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
    #: What the file says of itself, if it says anything.
    metadata: Mapping[bytes, bytes] | None

    def hint(self) -> str:
        """Return a hint why a column may be missing; "" if there is none."""

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most about `size` rows with the columns of `schema`."""


class Sink(Protocol):
    """Writes tables of one schema to one file."""

    def __init__(
        self, path: Path, schema: pa.Schema, form: Form, codec: str | None, escape: bool
    ) -> None: ...

    def write(self, table: pa.Table) -> None:
        """Append `table`."""

    def close(self) -> None:
        """Finish the file."""


#: How a file of each kind is opened, its reader and its writer.
_KINDS: dict[str, tuple[Callable[[Place], Any], type[Source], type[Sink]]] = {
    "text": (Place.open, TextSource, TextSink),
    **_arrow_files.KINDS,
}


@contextlib.contextmanager
def open_source(
    place: Place, wanted: Sequence[tuple[str, str]], numbers: Collection[str] = ()
) -> Iterator[Source]:
    """Open the table at `place` for the columns in `wanted`.

    Parameters
    ----------
    place : Place
        A text file with a header line, a Parquet file or folder, or a Feather file.
    wanted : sequence of (option, name)
        Names of columns with the options that name them, for messages.
    numbers : collection of str
        Wanted columns that are read as numbers; in text, by the dialect of `place`.

    Raises
    ------
    ParameterError
        A wanted column is missing or not unique, or the first line of a text file is of
        another encoding.
    FastDPError
        The file cannot be read.
    """
    names = [name for _, name in wanted]
    with contextlib.ExitStack() as stack:
        with constant_messages(place, f"not a valid {place.form.name} table"):
            source = _source(place, names, numbers, stack)
        _require_once(source, wanted, place.option)
        yield source


def _source(
    place: Place,
    wanted: Sequence[str],
    numbers: Collection[str],
    stack: contextlib.ExitStack,
) -> Source:
    """Return the source; `stack` closes everything that it opens."""
    folder = _folder(place)
    if folder is not None:
        if place.form.kind != "parquet":
            raise ParameterError(
                f"{place.option} must be a file to be read as "
                f"{place.form.name}, but {place} is a folder"
            )
        return _arrow_files.ParquetFolder(place, folder, wanted)
    opened, reader, _ = _KINDS[place.form.kind]
    file = stack.enter_context(contextlib.closing(opened(place)))
    return reader(place, file, wanted, numbers)


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


def parts(place: Place) -> list[Place]:
    """Return the Parquet files of a folder, or `place` itself if it is a file.

    Raises
    ------
    FastDPError
        The folder has no Parquet files, or cannot be read.
    """
    with constant_messages(place, "not a valid folder"):
        folder = _folder(place)
        if folder is None:
            return [place]
        top = replace(place, given=place.given.rstrip("/"), form=FORMS["parquet"])
        return [top.beside(f"/{name}") for name in _arrow_files.listed(place, folder)]


def read_text(
    argument: str, path: Path | Place, limit: int, encoding: str = "utf-8"
) -> str:
    """Return a small file as text, without a byte order mark.

    Raises
    ------
    FastDPError
        The file cannot be read, is longer than `limit` bytes or is not in this
        encoding; its content is not shown.
    """
    with constant_messages(path), _opened(path) as file:
        content: bytes = file.read(limit + 1)
    if len(content) > limit:
        raise FileError(f"{argument} must have at most {limit} bytes, got {path}")
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise FileError(
            f"{argument} must be {encoding.upper()} text, got {path}"
        ) from None


def _opened(path: Path | Place) -> Any:
    return path.open() if isinstance(path, Place) else path.open("rb")


def read_metadata(place: Place) -> dict[bytes, bytes]:
    """Return the metadata of a Parquet or Feather file.

    Raises
    ------
    FastDPError
        The file cannot be read.
    """
    with (
        constant_messages(place, f"not a valid {place.form.name} table"),
        contextlib.ExitStack() as stack,
    ):
        return dict(_source(place, (), (), stack).metadata or {})


def grouped(
    batches: Iterable[pa.RecordBatch], size: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Cut batches into parts of groups of `size` rows, with each part's place.

    Readers cut their batches at a number of bytes, so the lengths of batches reveal the
    lengths of cells in private columns. Whole groups reveal nothing.

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
    """Return names for a message; of many names, only the first."""
    shown = ", ".join(repr(name[:_LONGEST_NAME]) for name in names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown or "no column"


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
    """Return the writer of a format to `path`; `escape` makes formulas plain text."""
    return _KINDS[form.kind][2](path, schema, form, codec, escape)
