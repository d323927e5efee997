"""Rows of a CSV file that are rewritten read as those that are not."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.cli import _rows

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")

#: What the parser tells apart, alone and in the order that matters.
TOKENS = ["a", "bb", '"', ",", "\n", "\r", "\r\n", "\xe9", '""', ',"', '",', '"\n']

#: Delimiters of dialects; some mean more in a regular expression.
DELIMITERS = [",", ";", "|", "\t", ":", "~", "^"]


def read(
    content: bytes, columns: int, delimiter: str = ","
) -> tuple[dict[str, list[Any]], list[int]]:
    """Return cells and numbers of malformed rows, with a block beyond the content."""
    malformed: list[int] = []

    def skip(row: Any) -> str:
        malformed.append(row.number)
        return "skip"

    names = [str(place) for place in range(columns)]
    table = csv.read_csv(
        io.BytesIO(content),
        read_options=csv.ReadOptions(
            column_names=names, encoding="latin-1", use_threads=False
        ),
        parse_options=csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            ignore_empty_lines=columns > 1,
            invalid_row_handler=skip,
        ),
        convert_options=csv.ConvertOptions(
            check_utf8=False, column_types=dict.fromkeys(names, pa.binary())
        ),
    )
    return table.to_pydict(), malformed


def shortened(content: bytes, columns: int, piece: int, **options: Any) -> bytes:
    setting = {"wanted": range(columns), "longest": 10**6} | options
    rows = _rows.ShortRows(io.BytesIO(content), columns, piece=piece, **setting)
    parts = iter(lambda: rows.read(7), b"")
    return b"".join(parts)


@pytest.mark.rest
@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from(TOKENS), min_size=1, max_size=60),
    st.integers(1, 3),
    st.sampled_from([1, 2, 3, 5, 8, 16]),
    st.sampled_from(DELIMITERS),
)
def test_rows_and_cells_are_those_of_the_parser(
    tokens: list[str], columns: int, piece: int, delimiter: str
) -> None:
    content = "".join(tokens).replace(",", delimiter).encode("latin-1")
    expected = read(content, columns, delimiter)
    short = shortened(content, columns, piece, delimiter=delimiter)
    assert read(short, columns, delimiter) == expected


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_a_long_row_is_one_row_with_every_delimiter(delimiter: str) -> None:
    content = b"1,2\n" + b"x" * 40 + b",5\n3,4\n"
    content = content.replace(b",", delimiter.encode())
    short = shortened(content, 2, 8, delimiter=delimiter)
    assert read(short, 2, delimiter) == read(content, 2, delimiter)


def test_short_rows_pass_as_they_are() -> None:
    content = b'a,"b"\r\n1,"2\n"\n' * 50
    assert shortened(content, 2, 16) == content


@pytest.mark.parametrize("quote", [b"", b'"'])
def test_of_a_long_row_the_wanted_cells_stay(quote: bytes) -> None:
    long = quote + b"x" * 99 + quote
    content = (
        b"1,2,3\n" + b",".join([long, b"55", quote + b"5" * 9 + quote]) + b"\n4,5,6"
    )
    cells, malformed = read(shortened(content, 3, 8, wanted=[1, 2], longest=8), 3)
    assert cells == {
        "0": [b"1", b"", b"4"],
        "1": [b"2", b"55", b"5"],
        "2": [b"3", b"", b"6"],
    }
    assert malformed == []


def test_a_long_row_of_a_wrong_length_stays_one() -> None:
    content = b"1,2\n" + b"x" * 99 + b"\n" + b"," * 99 + b"\n3,4\n"
    assert read(shortened(content, 2, 8), 2) == read(content, 2)
    assert read(content, 2)[1] == [2, 3]


def test_a_huge_row_is_read_in_bounded_memory() -> None:
    piece, pieces = 1 << 12, 100

    def parts() -> Iterator[bytes]:
        yield b'1,"' + b"x" * piece
        for _ in range(pieces):
            yield b'x,""\n' * (piece // 5)
        yield b'"\n7,8\n'

    class Long(io.RawIOBase):
        source = parts()

        def read(self, size: int = -1) -> bytes:
            return next(self.source, b"")

    rows = _rows.ShortRows(Long(), 2, [0, 1], 100, piece)  # type: ignore[arg-type]
    tracemalloc.start()
    try:
        assert rows.read() == b'"1",""\n7,8\n'
        assert tracemalloc.get_traced_memory()[1] < 10 * piece < pieces * piece // 9
    finally:
        tracemalloc.stop()
