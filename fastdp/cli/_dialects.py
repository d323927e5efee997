"""Dialects of text tables: encoding, delimiter, numbers and texts of missing values.

A dialect never fails at a cell. A cell that it cannot read is missing, as in a file
without a dialect.
"""

from __future__ import annotations

import argparse
import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastdp.exceptions import DTypeError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

#: Names of the options, which are also the keys of ``[csv]`` in a plan file.
WORDS = ("encoding", "delimiter", "decimal", "thousands", "null")

_DELIMITERS = {"tab": "\t", "\\t": "\t", **{sign: sign for sign in "\t,;|:~^"}}
_THOUSANDS = (".", ",", "'", " ", "_", "\u00a0", "\u202f", "\u2019")

#: Families of encodings with one byte for each character.
_FAMILIES = r"ascii|iso8859-\d+|cp\d+|koi8-[a-z]|mac-[a-z]+|tis-620|kz1048|hp-roman8"

#: A decoder writes the first for a character that it cannot decode. Replace it by the
#: second, which is not UTF-8, so that the cell counts as unreadable.
_UNKNOWN, _UNREADABLE = "\ufffd".encode(), b"\xff"

_SWAPPED = bytes.maketrans(b".,", b",.")


@dataclass(frozen=True)
class Dialect:
    """The dialect in which a text file writes its cells.

    Attributes
    ----------
    encoding : str
    delimiter : str or None
        Separator of cells: one ASCII character; None for the file form's separator.
    decimal : "." or ","
    thousands : str or None
        Separator of groups of three digits, if any.
    null : tuple of str
        Texts that mean a missing value.
    option : str
        Name of an option in messages, with "{}" for the word.
    """

    encoding: str = "utf-8"
    delimiter: str | None = None
    decimal: str = "."
    thousands: str | None = None
    null: tuple[str, ...] = ()
    option: str = "--{}"

    def said(self, word: str) -> str:
        """Return the name of the option `word` in messages."""
        return self.option.format(word)

    def plain(self, cells: pa.Array, *, number: bool) -> pa.Array:
        """Return cells as bytes: null texts become null, numbers have a point.

        A cell that is not a number of the dialect is not a number afterwards.
        """
        import pyarrow as pa
        from pyarrow import compute

        if self.null:
            named = compute.CastOptions(pa.string(), allow_invalid_utf8=True)
            text = compute.ascii_trim(compute.cast(cells, options=named), " \t")
            nulls = pa.array([word.strip(" \t").encode() for word in self.null])
            missing = compute.is_in(text.cast(pa.binary()), value_set=nulls)
            cells = compute.if_else(missing, pa.scalar(None, pa.binary()), cells)
        if number and self.thousands is not None:
            sign, point = re.escape(self.thousands), re.escape(self.decimal)
            grouped = rf"[1-9][0-9]{{0,2}}({sign}[0-9]{{3}})+({point}[0-9]*)?"
            cell = rf"^[ \t]*[+-]?{grouped}[ \t]*$"
            good = compute.match_substring_regex(cells, cell)
            bare = compute.replace_substring(cells, self.thousands, "")
            cells = compute.if_else(good, bare, cells)
        if number and self.decimal == ",":
            there, ends, text = cells.buffers()
            swapped = (text.to_pybytes() if text else b"").translate(_SWAPPED)
            buffers = [there, ends, pa.py_buffer(swapped)]
            cells = pa.Array.from_buffers(
                cells.type, len(cells), buffers, offset=cells.offset
            )
        return cells

    def written(self, cell: Any) -> Any:
        """Return a cell of numbers from `plain` as the file writes it."""
        if self.decimal == "," and isinstance(cell, bytes):
            return cell.translate(_SWAPPED)
        return cell


#: How text is read where nothing is stated.
PLAIN = Dialect()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the dialect."""
    add = parser.add_argument_group(
        "dialect of tables that are read as text"
    ).add_argument
    add(
        "--encoding",
        metavar="NAME",
        help="latin-1, cp1252, utf-16, ... (default: utf-8)",
    )
    add("--delimiter", metavar="SIGN", help="sign between cells: ';', '|', tab, ...")
    add(
        "--decimal",
        metavar="SIGN",
        help="decimal sign of numbers: ',' or '.' (default)",
    )
    add("--thousands", metavar="SIGN", help="sign between groups of three digits")
    add(
        "--null",
        metavar="TEXT",
        action="append",
        help="cell that means a missing value; may be given again",
    )


def of_options(arguments: argparse.Namespace) -> Dialect | None:
    """Return the dialect that the options describe; None if none is given."""
    given = {word: getattr(arguments, word, None) for word in WORDS}
    given = {word: value for word, value in given.items() if value is not None}
    return dialect(given) if given else None


def dialect(given: dict[str, Any], option: str = "--{}") -> Dialect:
    """Return a dialect; `option` is the name of its words in messages.

    Raises
    ------
    ParameterError, DTypeError
        A word is refused; the message names the word.
    """
    words = {**given}
    null = words.pop("null", [])
    null = list(null) if isinstance(null, (list, tuple)) else [null]
    for word, text in (*words.items(), *(("null", text) for text in null)):
        if not isinstance(text, str):
            raise DTypeError(f"{option.format(word)} must be a text, got {text!r}")
    if "encoding" in words:
        words["encoding"] = _encoding(option, words["encoding"])
    if "delimiter" in words:
        sign = _DELIMITERS.get(words["delimiter"])
        if sign is None:
            raise ParameterError(
                f"{option.format('delimiter')} must be one of , ; | : ~ ^ or tab, "
                f"got {words['delimiter']!r}"
            )
        words["delimiter"] = sign
    found = Dialect(**words, null=tuple(null), option=option)
    if found.decimal not in (".", ","):
        raise ParameterError(
            f"{option.format('decimal')} must be '.' or ',', got {found.decimal!r}"
        )
    if found.thousands is not None and (
        found.thousands not in _THOUSANDS or found.thousands == found.decimal
    ):
        signs = " ".join(map(repr, _THOUSANDS))
        raise ParameterError(
            f"{option.format('thousands')} must be one of {signs}, and another sign "
            f"than {option.format('decimal')} {found.decimal!r}, "
            f"got {found.thousands!r}"
        )
    return found


def _encoding(option: str, name: str) -> str:
    """Return the codec's name of an encoding whose ASCII characters are ASCII bytes."""
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        found = ""
    if found in ("utf-8", "utf-8-sig"):
        return "utf-8"
    if found in ("utf-16", "utf-16-le", "utf-16-be"):
        return found
    if re.fullmatch(_FAMILIES, found):
        text = bytes(range(256)).decode(found, "replace")
        plain = bytes(range(128)).decode()
        if len(text) == 256 and text[:128] == plain and not set(plain) & {*text[128:]}:
            return found
    raise ParameterError(
        f"{option.format('encoding')} must be utf-8, utf-16 or an encoding of one byte "
        f"for each character, such as latin-1 or cp1252, got {name!r}: convert other "
        "files to UTF-8 first"
    )


class Decoded:
    """A file in another encoding as a stream of UTF-8.

    Bytes that cannot be decoded become the byte 0xFF, so that their cell is not text.
    """

    def __init__(self, file: Any, encoding: str) -> None:
        self._file, self._ready, self._ended = file, b"", False
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer only at the end."""
        while len(self._ready) < size and not self._ended:
            piece = self._file.read(size)
            self._ended = not piece
            text = self._decoder.decode(piece, self._ended).encode()
            self._ready += text.replace(_UNKNOWN, _UNREADABLE)
        read, self._ready = self._ready[:size], self._ready[size:]
        return read

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def require_text(dialect: Dialect | None, texts: Sequence[bool], where: str) -> None:
    """Refuse a dialect if no table is text.

    Raises
    ------
    ParameterError
        The message names the tables as `where`.
    """
    if dialect is not None and not any(texts):
        words = ", ".join(dialect.said(word) for word in WORDS)
        raise ParameterError(
            f"{words} must be left out unless {where} is CSV or TSV: other forms "
            "state their text and numbers themselves"
        )
