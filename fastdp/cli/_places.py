"""Places and forms of tables: paths, ``-``, URIs, and how to open them.

Messages of file systems never reach the user: they may contain cells, and URIs may
contain passwords.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from fastdp.cli._dialects import PLAIN, Dialect
from fastdp.exceptions import FastDPError, FileError, ParameterError

STANDARD = "-"

#: Error numbers for a full disk and for an exhausted quota.
EXHAUSTED = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]*)://")


@dataclass(frozen=True)
class Form:
    """File format of a table."""

    name: str
    #: "text" (cells without types), "parquet" or "feather".
    kind: str
    delimiter: str = ","
    gzip: bool = False
    dialect: Dialect = PLAIN

    @property
    def text(self) -> bool:
        """Whether the table has no types and no metadata."""
        return self.kind == "text"


#: Forms by the ending of a file's name, which is also the form's name in options.
FORMS = {
    "csv": Form("csv", "text"),
    "csv.gz": Form("csv.gz", "text", gzip=True),
    "tsv": Form("tsv", "text", "\t"),
    "tsv.gz": Form("tsv.gz", "text", "\t", gzip=True),
    "parquet": Form("parquet", "parquet"),
    "feather": Form("feather", "feather"),
    "arrow": Form("arrow", "feather"),
}


@dataclass(frozen=True)
class Place:
    """One table that a command reads or writes."""

    #: The option or argument that gave it, for messages.
    option: str
    given: str
    form: Form

    @property
    def standard(self) -> bool:
        """Whether it is standard input or output."""
        return self.given == STANDARD

    @property
    def path(self) -> Path | None:
        """Path on this machine's file system; None for other places."""
        if self.standard:
            return None
        uri = _URI.match(self.given)
        if uri is None:
            return Path(self.given)
        if uri[1].lower() != "file":
            return None
        return Path(unquote(urlsplit(self.given).path))

    def local(self, why: str) -> Path:
        """Return the path.

        Raises
        ------
        ParameterError
            The place is not a local file; `why` states the reason for a local file.
        """
        path = self.path
        if path is None:
            raise ParameterError(
                f"{self.option} must be a file on this machine {why}, got {self}"
            )
        return path

    def spoken(self, dialect: Dialect | None) -> Place:
        """Return the place with the dialect of its text, if it has text."""
        if dialect is None or not self.form.text:
            return self
        delimiter = dialect.delimiter or self.form.delimiter
        return replace(
            self, form=replace(self.form, delimiter=delimiter, dialect=dialect)
        )

    def __str__(self) -> str:
        """Return the place as given, without parts that may be secret."""
        if self.standard:
            return "standard output" if self.option == "--output" else "standard input"
        if self.path is not None or not _URI.match(self.given):
            return self.given
        bare = re.sub(r"[?#].*", "", self.given)
        return re.sub(r"://[^/]*@", "://", bare)

    def beside(self, ending: str) -> Place:
        """Return the place with `ending` appended to its name."""
        # A URI may continue after the name.
        behind = r"(?=[?#])|\Z" if _URI.match(self.given) else r"\Z"
        given = re.sub(behind, lambda _: ending, self.given, count=1)
        return replace(self, given=given)

    def remove(self) -> None:
        """Remove the file, if it is there."""
        path = self.path
        if path is not None:
            path.unlink(missing_ok=True)
        elif not self.standard:
            system, name = self.remote
            with contextlib.suppress(Exception):
                system.delete_file(name)

    @functools.cached_property
    def remote(self) -> tuple[Any, str]:
        """The pyarrow file system of a URI and the path in it.

        Raises
        ------
        FastDPError
            No installed package knows its scheme.
        """
        import pyarrow as pa
        from pyarrow import fs

        try:
            system, path = fs.FileSystem.from_uri(self.given)
            return system, path
        except OSError:
            raise FileError(
                f"cannot open {self}: its file system does not answer"
            ) from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass  # pyarrow does not know the scheme itself
        scheme = self.given.partition("://")[0]
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise FastDPError(
                f"{self.option} {self} needs fsspec: pip install fsspec "
                f"and the package that it needs for {scheme}"
            ) from None
        try:
            system, path = url_to_fs(self.given)
        except (ImportError, ValueError):
            raise FastDPError(
                f"{self.option} must be a path, - or a URI that pyarrow or fsspec can "
                f"open here, got the scheme {scheme!r}"
            ) from None
        return fs.PyFileSystem(fs.FSSpecHandler(system)), path

    def open(self) -> BinaryIO:
        """Open the file for reading from start to end."""
        if self.standard:
            return cast(BinaryIO, _Kept(sys.stdin.buffer))
        path = self.path
        if path is not None:
            return path.open("rb")
        system, name = self.remote
        stream: BinaryIO = system.open_input_stream(name, compression=None)
        return stream

    def open_indexed(self) -> Any:
        """Open the file for reading at any position; a pipe only from its start."""
        if self.standard or self.path is not None:
            return self.open()
        system, name = self.remote
        return system.open_input_file(name)

    def open_anywhere(self) -> Any:
        """Return a file that pyarrow can read at any position.

        Raises
        ------
        ParameterError
            The place is a pipe.
        """
        import pyarrow as pa

        if self.standard:
            if not sys.stdin.seekable():
                raise ParameterError(
                    f"{self.option} must be a file to be read as {self.form.name}, "
                    "whose index is at its end, got a pipe: send csv or arrow"
                )
            return pa.PythonFile(_Kept(sys.stdin.buffer), mode="r")
        if self.path is not None:
            return pa.OSFile(str(self.path), "r")
        system, name = self.remote
        return system.open_input_file(name)


class _Kept:
    """Standard input as a file that stays open when its reader closes it."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        """Release the file without closing it."""
        self.closed = True


def table(option: str, given: str, form: str | None = None) -> Place:
    """Return the place of a table; its form is `form`, or follows from its name.

    Raises
    ------
    ParameterError
        The form is unknown, or the URI names another machine's files.
    """
    uri = _URI.match(given)
    if uri is not None and uri[1].lower() == "file":
        host = urlsplit(given).netloc
        if host not in ("", "localhost"):
            raise ParameterError(
                f"{option} must not name another machine: write file:///path"
            )
    place = Place(option, given, FORMS["csv"])
    if form is not None:
        return replace(place, form=FORMS[form])
    if place.standard:
        return place
    path = place.path
    if given.endswith("/") or (path is not None and path.is_dir()):
        return replace(place, form=FORMS["parquet"])
    name = re.sub(r".*/", "", str(place))
    known = form_of(name)
    if known is None:
        listed = [f".{end}" for end in FORMS]
        raise ParameterError(
            f"{option} must end in {', '.join(listed[:-1])} or {listed[-1]}, "
            f"or have its form stated, got {name}"
        )
    return replace(place, form=known)


def form_of(name: str) -> Form | None:
    """Return the form that matches the ending of a file's name, or None."""
    ends = [end for end in FORMS if name.lower().endswith(f".{end}")]
    return FORMS[max(ends, key=len)] if ends else None


def file(option: str, given: str | Path | None) -> list[Place]:
    """Return a list with the place of a file that is not a table; empty for None."""
    return [] if given is None else [Place(option, str(given), FORMS["csv"])]


def require_file(place: Place) -> None:
    """Refuse to write a file over something that is not a file.

    Raises
    ------
    ParameterError
        A folder, a device or a pipe exists there, or the name is that of a folder; or
        the name of a Parquet or Feather file is not UTF-8.
    """
    facts = None if place.path is None else _facts(place.path)
    if place.given.endswith("/") or (facts and stat.S_ISDIR(facts.st_mode)):
        raise ParameterError(f"{place.option} must be a file, got the folder {place}")
    if facts and not stat.S_ISREG(facts.st_mode):
        raise ParameterError(
            f"{place.option} must be a file, because it is replaced as a "
            f"whole: got the device or pipe {place}"
        )
    if not place.form.text and not _is_utf8(place.given):
        raise ParameterError(
            f"{place.option} must have a name in UTF-8 to be written as "
            f"{place.form.name}"
        )


def _is_utf8(name: str) -> bool:
    """Return whether a name is valid text; pyarrow cannot open other names."""
    return name == name.encode(errors="ignore").decode()


def require_different(written: Sequence[Place], read: Sequence[Place]) -> None:
    """Refuse two paths of one command for the same file.

    Every command calls this with all its paths before it draws, charges or writes.
    Files of one option that are only read may be the same.

    Raises
    ------
    ParameterError
        Two paths lead to the same file, or a written path is in a folder that is read,
        or would replace a folder, a device or a pipe.
    """
    for at, place in enumerate(written):
        require_file(place)
        for other in (*written[:at], *read):
            require_other(place, other)
    for at, place in enumerate(read):
        for other in read[:at]:
            if place.option != other.option:
                require_other(place, other)


def require_other(place: Place, other: Place) -> None:
    """Refuse a place that is the same as another one, or inside it.

    Raises
    ------
    ParameterError
        Both lead to the same file, or `place` is in the folder `other`.
    """
    path, before = place.path, other.path
    if path is None or before is None:
        same = place.given == other.given and not place.standard
    else:
        same = _same(path, before)
        if _is_folder(before):  # files in it would be read as parts of the table
            folder = Path(os.path.realpath(path.parent))
            same |= any(_same(above, before) for above in (folder, *folder.parents))
    if same:
        raise ParameterError(
            f"{place.option} must be another file than {other.option}, got {place}"
        )


def _same(path: Path, other: Path) -> bool:
    """Return whether two paths lead to the same file, which need not exist yet."""
    one, two = _facts(path), _facts(other)
    if one is not None and two is not None:
        return os.path.samestat(one, two)  # resolves links and ".."
    # Some file systems ignore case and the encoding of accents.
    return _folded(path) == _folded(other)


def _facts(path: Path) -> os.stat_result | None:
    """Return the stat of a path, without opening it, or None."""
    try:
        return path.stat()
    except OSError:
        return None


def _is_folder(path: Path) -> bool:
    facts = _facts(path)
    return facts is not None and stat.S_ISDIR(facts.st_mode)


def _folded(path: Path) -> str:
    return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()


@contextlib.contextmanager
def constant_messages(
    place: Place | Path, problem: str = "not a valid table"
) -> Iterator[None]:
    """Replace every exception of a reader by an error without data.

    Raises
    ------
    FileError
        The message names the place and the file system's reason, or else `problem`.
    """
    try:
        yield
    except (FastDPError, MemoryError):
        raise
    except OSError as error:
        raise FileError(f"cannot read {place}: {reason_of(error, 'reading')}") from None
    except Exception:
        # Replace exceptions of any type: their messages print cells.
        raise FileError(f"cannot read {place}: {problem}") from None


def reason_of(error: OSError, what: str) -> str:
    if error.errno:
        return os.strerror(error.errno)
    if isinstance(error, FileNotFoundError):
        return "No such file or directory"
    return f"{what} failed"
