"""Dialects of text tables: every command reads them alike, and no cell stops one.

The noise of these budgets is zero except with probability below 1e-300.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from fastdp.cli import _dialects, _text_files, main
from fastdp.exceptions import ParameterError
from tests.tables import EXACT, SECRET, pa, parquet, read_parquet, write_csv

pytest.importorskip("duckdb")

ROWS = "--rows-are row --epsilon 1e5"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(line: str, code: int = 0) -> None:
    assert main(line.split(" ")) == code


def rows_of(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text("utf-8").splitlines()))


# ---- encodings ---------------------------------------------------------------------

TOWNS = ["Köln", "Zürich", "Bonn"]
TABLE = "Städt,n\n" + "".join(f"{town},{place}\n" for place, town in enumerate(TOWNS))


@pytest.mark.parametrize(
    ("codec", "named"),
    [
        ("utf-8", "utf-8"),
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-8-sig", "UTF-8"),
        ("latin-1", "latin-1"),
        ("cp1252", "windows-1252"),
        ("cp850", "cp850"),
        ("mac-roman", "macroman"),
        ("iso8859-15", "iso-8859-15"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "UTF-16BE"),
    ],
)
@pytest.mark.parametrize("block", [256, 8 << 20])
def test_every_command_reads_an_encoding(
    here: Path, codec: str, named: str | None, block: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(_text_files, "_BLOCK_BYTES", block)
    write_csv(here / "in.csv", TABLE.encode(codec))
    write_csv(here / "keys.csv", "Städt\nZürich\nKöln\n".encode(codec))
    (here / "names.txt").write_bytes("Bonn\nKöln\nZürich".encode(codec))
    said = "" if named is None else f" --encoding {named}"
    line = f"aggregate in.csv {ROWS} --by Städt --keys keys.csv --sum n --bounds n=0,9"
    shell(f"{line} -o out.csv{said}")
    found = {row["Städt"]: float(row["n_sum"]) for row in rows_of("out.csv")}
    assert list(found) == ["Zürich", "Köln"]
    assert found["Zürich"] == pytest.approx(1, abs=0.1)
    release = " ".join(EXACT)
    shell(f"release in.csv --column n --keep Städt {release} -o out.parquet{said}")
    assert read_parquet(here / "out.parquet") == {"Städt": TOWNS, "n": [0, 1, 2]}
    collect = (
        "collect in.csv --column Städt --mechanism randomized-response --epsilon 700"
    )
    listed = "--categories-file names.txt -o reports.parquet"
    shell(f"{collect} {listed}{said}")
    shell("estimate reports.parquet -o counts.csv --consistent")
    counts = {row["category"]: float(row["count"]) for row in rows_of("counts.csv")}
    assert counts == pytest.approx({"Bonn": 1, "Köln": 1, "Zürich": 1}, abs=1e-6)


def test_a_wrong_encoding_that_the_header_tells_spends_nothing(
    here: Path, capsys: Any
) -> None:
    line = f"aggregate in.csv {ROWS} --by n --delta 1e-9 --count -o out.csv"
    for codec, said, hint in (
        (
            "latin-1",
            "",
            "--encoding must be that of INPUT, whose first line is not utf",
        ),
        ("utf-16", "", "--encoding must be utf-16 for INPUT"),
        ("utf-16", " --encoding latin-1", "--encoding must be utf-16 for INPUT"),
        ("utf-8-sig", " --encoding latin-1", "--encoding must be utf-8 for INPUT"),
        ("utf-8-sig", " --encoding utf-16", "--encoding must be utf-8 for INPUT"),
        ("utf-16-le", " --encoding utf-16", "--encoding must be utf-16-le or"),
    ):
        write_csv(here / "in.csv", TABLE.replace("Bonn", SECRET).encode(codec))
        for command in (
            line,
            f"aggregate in.csv {ROWS} --count -o out.csv",
            f"release in.csv --column n {' '.join(EXACT)} -o out.csv",
            "collect in.csv --column n --categories 9 --epsilon 1 -o out.parquet",
        ):
            shell(f"{command}{said}", 2)
            found = capsys.readouterr().err
            assert hint in found
            assert SECRET not in found
    assert not (here / "out.csv").exists()


def test_a_wrong_encoding_of_public_groups_is_refused(here: Path, capsys: Any) -> None:
    write_csv(here / "in.csv", "town,n\nBonn,1\n")
    write_csv(here / "keys.csv", "town\nK\xf6ln\n".encode("latin-1"))
    line = f"aggregate in.csv {ROWS} --by town --keys keys.csv --count -o out.csv"
    shell(line, 2)
    assert (
        "in the encoding that --encoding states (now utf-8)" in capsys.readouterr().err
    )
    shell(f"{line} --encoding latin-1")
    assert [row["town"] for row in rows_of("out.csv")] == ["Köln"]
    write_csv(here / "keys.csv", "town\nBonn\nNA\n")
    shell(f"{line} --null NA", 2)
    assert "a text in each row of 'town', none of --null" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        *("utf-7", "idna", "rot13", "punycode", "unicode_escape", "raw_unicode_escape"),
        *("cp037", "cp500", "iso2022_jp", "hz", "utf-32", "shift_jis", "no", "a\0b"),
        *("", "mac-arabic", "mac-farsi"),  # these have two bytes for a quote
    ],
)
def test_encodings_that_a_cell_could_change_are_refused(name: str) -> None:
    with pytest.raises(ParameterError, match="encoding"):
        _dialects.dialect({"encoding": name})


def test_bytes_that_are_no_text_are_missing_cells_alone(here: Path) -> None:
    """Half a character, bytes that the encoding leaves out, and U+FFFD itself."""
    cells = {
        "cp1252": b"town,n\n\x81,1\nBonn,1\n\x8d\x8f,1\n",
        "utf-16-le": "town,n\nX,1\nBonn,1\n\ufffd,1\n".encode("utf-16-le").replace(
            b"X\0", b"\x00\xd8"
        )
        + b"Z",
    }
    for codec, content in cells.items():
        write_csv(here / "in.csv", content)
        line = f"aggregate in.csv {ROWS} --delta 1e-9 --by town --count -o out.csv"
        write_csv(here / "in.csv", content)
        keys = here / "keys.parquet"
        parquet.write_table(pa.table({"town": ["Bonn", "\ufffd"]}), keys)
        line = f"aggregate in.csv {ROWS} --by town --keys keys.parquet --count"
        shell(f"{line} -o out.csv --encoding {codec}")
        assert [(row["town"], row["count"]) for row in rows_of("out.csv")] == [
            ("Bonn", "1"),
            ("\ufffd", "0"),
        ]


class Slow(io.BytesIO):
    """A file that hands out a byte at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(1, size) if size else size)


@pytest.mark.parametrize("codec", ["latin-1", "utf-16", "utf-16-le", "cp1252"])
def test_a_stream_is_decoded_at_any_size_of_its_pieces(codec: str) -> None:
    text = "a,ü\n\U0001f600,x€\n" * 9 if codec[:3] == "utf" else "a,ü\nx\n" * 9
    for size in (1, 2, 3, 1000):
        decoded = _dialects.Decoded(Slow(text.encode(codec)), codec)
        parts = []
        while part := decoded.read(size):
            parts.append(part)
        assert b"".join(parts).decode() == text
        assert all(len(part) == size for part in parts[:-1])


# ---- delimiters and numbers --------------------------------------------------------


@pytest.mark.parametrize("sign", [";", "|", "\t", ":", "~", "^", ","])
def test_delimiters(here: Path, sign: str) -> None:
    rows = [("k", "n"), ("a,b;c|d", "1"), ('e"f', "2"), ("g\th^]", "3")]
    text = io.StringIO()
    csv.writer(text, delimiter=sign).writerows(rows)
    write_csv(here / "in.csv", text.getvalue())
    named = "tab" if sign == "\t" else sign
    line = f"release in.csv --column n --keep k {' '.join(EXACT)} -o out.parquet"
    shell(f"{line} --delimiter {named}")
    assert read_parquet(here / "out.parquet") == {
        "k": [row[0] for row in rows[1:]],
        "n": [1, 2, 3],
    }


@pytest.mark.parametrize(
    ("dialect", "cells"),
    [
        (
            "--decimal ,",
            {"1,5": 1.5, "-2": -2, "1.5": 0, "1.284,10": 0, ",5": 0.5, "1,2,3": 0},
        ),
        (
            "--decimal , --thousands .",
            {
                "1.284,5": 1284.5,
                "1.284": 1284,
                "1284,5": 1284.5,
                "-12.345.678": -12345678,
            }
            | {
                "1.28": 0,
                "0.284": 0,
                "-0.284,5": 0,
                "1.2845": 0,
                "12.34.567": 0,
                ".284": 0,
                "1..284": 0,
                "1,284,5": 0,
            }
            | {" 1.284,5 ": 1284.5, "inf": None, "1.284.": 0, "0x1.284": 0},
        ),
        ("--thousands ,", {"1,284.10": 1284.1, "1,28": 0, "1,284,": 0, "1.5": 1.5}),
        ("--thousands '", {"1'284.10": 1284.1, "1284": 1284, "1'2": 0}),
        ("--decimal , --thousands \u202f", {"1\u202f284,5": 1284.5, "1\u202f2": 0}),
        (
            "--null NA --null -999",
            {"NA": 0, " NA ": 0, "-999": 0, "-999.0": -999, "7": 7},
        ),
        ("--null 1,5 --decimal ,", {"1,5": 0, "1,50": 1.5, "": 0}),
    ],
)
def test_numbers(here: Path, dialect: str, cells: dict[str, float | None]) -> None:
    cells = {cell: value for cell, value in cells.items() if value is not None}
    write_csv(here / "in.csv", "n;m\n" + "".join(f'"{c}";1\n' for c in cells))
    options = "--mechanism laplace --epsilon 1e6 --sensitivity 1 --column n"
    shell(f"release in.csv {options} -o out.parquet --delimiter ; {dialect}")
    found = parquet.read_table("out.parquet").column("n").to_pylist()
    assert found == pytest.approx(list(cells.values()), abs=1e-3)


def test_words_keep_their_signs(here: Path) -> None:
    """Groups and kept cells are no numbers: only null texts are taken from them."""
    write_csv(here / "in.csv", "k;n\n1.234,5;1\nNULL;2\n01.02.2024;3\n")
    dialect = "--delimiter ; --decimal , --thousands . --null NULL"
    line = f"release in.csv --column n --keep k {' '.join(EXACT)} -o out.parquet"
    shell(f"{line} {dialect}")
    assert read_parquet(here / "out.parquet")["k"] == ["1.234,5", "", "01.02.2024"]
    line = f"aggregate in.csv {ROWS} --delta 0.4 --by k --units -o out.csv"
    write_csv(here / "in.csv", "k;n\n" + "1.234,5;1\nNULL;2\n01.02.2024;3\n" * 9)
    shell(f"{line} {dialect}")
    assert {row["k"]: row["units"] for row in rows_of("out.csv")} == {
        "1.234,5": "9",
        "01.02.2024": "9",
    }


def test_check_shows_cells_as_the_file_writes_them(here: Path, capsys: Any) -> None:
    write_csv(here / "in.csv", "n;m\n1.284;1\n2,5;1\nNA;1\n")
    line = f"release in.csv --column n {' '.join(EXACT)} --check --delimiter ;"
    shell(f"{line} --decimal , --null NA")
    found = capsys.readouterr().out
    assert "3 of 3 cells" in found
    assert "'1.284'  read as 0" in found
    assert "'2,5'  read as 0" in found
    assert "null (none, too long, of --null, or" in found
    means = "collect in.csv --column n --mechanism local-mean --bounds 0,9 --epsilon 1"
    shell(f"{means} --check --delimiter ; --decimal , --null NA")
    assert "2 of 3 cells" in capsys.readouterr().out


def test_check_finds_what_makes_all_cells_unreadable(here: Path, capsys: Any) -> None:
    write_csv(here / "in.csv", "town;n\n" + "B;1,5\n" * 9)
    line = f"aggregate in.csv {ROWS} --by town --delta 1e-9 --mean n --bounds n=0,9"
    shell(f"{line} --check --delimiter ;")
    found = capsys.readouterr().out
    assert "9 missing" in found
    assert "no cell of 'n' could be read: see --decimal" in found
    shell(f"{line} --check --delimiter ; --decimal ,")
    found = capsys.readouterr().out
    assert "0 missing" in found
    assert "could be read" not in found


def test_nothing_that_a_cell_holds_stops_a_release(here: Path, capsys: Any) -> None:
    cells = [
        SECRET * 99,
        "\0",
        "1,,2",
        ".",
        ",",
        '""',
        "1e999",
        "NaN",
        "\x80\xff",
        "1.2",
    ]
    body = "".join(f"{cell};{cell}\n" for cell in [*cells, f"{SECRET};1;2", SECRET])
    content = f"k;n\n{body}".encode("latin-1")
    for dialect in (
        "--decimal ,",
        "--decimal , --thousands . --null NA",
        "--encoding latin-1 --decimal , --thousands \u00a0",
        "--encoding cp1252 --thousands ' --null NULL",
        "--encoding utf-16-le",
    ):
        write_csv(here / "in.csv", content)
        if "utf-16" in dialect:
            write_csv(here / "in.csv", "k;n\n".encode("utf-16-le") + content)
        read = f"--delimiter ; {dialect}"
        shell(
            f"aggregate in.csv {ROWS} --by k --delta 1e-9 --mean n --bounds n=0,9 "
            f"-o out.csv {read}"
        )
        shell(f"release in.csv --column n {' '.join(EXACT)} -o out.csv {read}")
        shell(
            "collect in.csv --column n --mechanism local-mean --bounds 0,9 "
            f"--epsilon 1 -o out.parquet {read}"
        )
        assert SECRET not in capsys.readouterr().err


# ---- what is refused, and plans ----------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--delimiter ab", "--delimiter must be one of"),
        ("--delimiter 1", "--delimiter must be one of"),
        ("--decimal x", "--decimal must be '.' or ','"),
        ("--thousands 0", "--thousands must be one of"),
        ("--thousands .", "another sign than --decimal '.'"),
        ("--encoding klingon", "--encoding must be utf-8, utf-16 or"),
    ],
)
def test_what_is_no_dialect_is_refused_before_the_file(
    here: Path, words: str, message: str, capsys: Any
) -> None:
    shell(f"aggregate none.csv {ROWS} --count -o out.csv {words}", 2)
    assert message in capsys.readouterr().err


def test_other_forms_have_no_dialect(here: Path, capsys: Any) -> None:
    parquet.write_table(pa.table({"n": [1, 2]}), here / "in.parquet")
    line = f"aggregate in.parquet {ROWS} --count -o out.csv --encoding latin-1"
    shell(line, 2)
    assert "must be left out unless INPUT is CSV or TSV" in capsys.readouterr().err
    write_csv(here / "keys.csv", "n\n1\n")
    parquet.write_table(pa.table({"n": ["Köln"]}), here / "in.parquet")
    write_csv(here / "keys.csv", "n\nKöln\n".encode("latin-1"))
    shell(f"{line} --by n --keys keys.csv")
    assert [row["count"] for row in rows_of("out.csv")] == ["1"]


PLAN = """\
source = "in.csv"
unit = "row"
[csv]
encoding = "latin-1"
delimiter = ";"
[tables.a]
by = "town"
keys = "keys.csv"
mean = "n"
bounds = { n = [0, 2000] }
csv = { encoding = "l1", delimiter = ";", decimal = ",", thousands = ".", null = "x" }
epsilon = 1e6
output = "a.csv"
[tables.b]
histogram = { n = [0, 5, 10] }
epsilon = 1e6
output = "b.csv"
"""


def test_a_plan_file_holds_dialects(here: Path, capsys: Any) -> None:
    write_csv(
        here / "in.csv", "town;n\nK\xf6ln;1.001,5\nK\xf6ln;x\nA;7\n".encode("latin-1")
    )
    write_csv(here / "keys.csv", "town\nK\xf6ln\n".encode("latin-1"))
    (here / "plan.toml").write_text(PLAN)
    shell("aggregate --plan plan.toml")
    (row,) = rows_of("a.csv")
    assert (row["town"], row["n_n"]) == ("Köln", "1")
    assert float(row["n_mean"]) == pytest.approx(1001.5, abs=1)
    (row,) = rows_of("b.csv")
    assert (row["n_0_5"], row["n_5_10"]) == ("0", "1")
    capsys.readouterr()
    for old, new, message in (
        (
            'delimiter = ";"\n[',
            'delimiter = "xx"\n[',
            "plan.toml: csv.delimiter must be",
        ),
        ('decimal = ","', 'decimal = "x"', "plan.toml: tables.a.csv.decimal must be"),
        ('decimal = ","', 'decimals = ","', "did you mean decimal?"),
        ("csv = {", "csv = 3 #", "tables.a.csv must be a table"),
        ("[csv]", "csv = 3\n[other]", "is not an entry of a plan"),
        ('null = "x"', "null = 3", "csv.null must be a text, got 3"),
        ('"latin-1"\n', '"utf-8"\n', "that plan.toml: csv.encoding states (now utf-8)"),
    ):
        assert old in PLAN
        broken = PLAN.replace(old, new)
        if "utf-8" in new:
            broken = broken.replace("csv = {", "# ")
        (here / "plan.toml").write_text(broken)
        shell("aggregate --plan plan.toml", 2)
        assert message in capsys.readouterr().err
