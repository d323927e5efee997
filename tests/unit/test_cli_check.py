"""``--check``: what would be read as something else, for the owner of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fastdp.cli import _cells, _check, main
from tests.tables import (
    EXACT,
    REAL,
    pa,
    release,
    require_only,
    write_csv,
    write_parquet,
)


def found(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines between two warnings, without their blanks."""
    captured = capsys.readouterr()
    assert captured.err == ""
    first, *lines, nothing, last = captured.out.splitlines()
    assert first == last == _check.WARNING
    assert "NOT PRIVATE" in first
    assert nothing.strip() == "Nothing was released or written."
    return [" ".join(line.split()) for line in lines]


def test_integers_of_a_csv_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = ["5", '"1,000"', "1e3", "2.5", "2.5", "", "9" * 20, "3.0", "7,8"]
    source = write_csv(
        tmp_path / "in.csv", "\n".join(["n,m", *(f"{c},1" for c in cells)])
    )
    options = ["--column", "n", "--column", "m", "--check", *EXACT]
    assert release(source, tmp_path / "out.csv", *options) == 0
    assert found(capsys) == [
        "--column 'n': 7 of 9 cells would be read as something else",
        "2 '2.5' read as 0",
        "1 '1,000' read as 0",
        "1 '1e3' read as 0",
        "1 '' read as 0",
        f"1 '{'9' * 20}' read as {2**63 - 1}",
        "1 null (none, too long, of --null, or in a row of another length) read as 0",
        "--column 'm': 1 of 9 cells would be read as something else",
        "1 null (none, too long, of --null, or in a row of another length) read as 0",
    ]
    require_only(tmp_path, "in.csv")


def test_reals_of_both_formats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_csv(tmp_path / "in.csv", "n\n1.5\n1e3\n1e999\nnan\n-inf\n0x10\n")
    assert release(source, tmp_path / "o.csv", "--column", "n", "--check", *REAL) == 0
    assert found(capsys)[1:] == [
        "1 '1e999' read as the largest double",
        "1 'nan' read as 0",
        "1 '-inf' read as the lowest double",
        "1 '0x10' read as 0",
    ]
    columns = {
        "f": pa.array([1.5, None, float("nan"), float("inf")]),
        "i": pa.array([2**53, 2**53 + 1, None, -5]),
        "u": pa.array([2**53, 2**64 - 1, 2**63, 1], pa.uint64()),
    }
    source = write_parquet(tmp_path / "in.parquet", columns)
    names = [option for name in columns for option in ("--column", name)]
    assert release(source, tmp_path / "o.csv", *names, "--check", *REAL) == 0
    lines = found(capsys)
    assert [line.split(":")[1].split(" cells")[0] for line in lines if ":" in line] == [
        " 3 of 4",
        " 2 of 4",
        " 2 of 4",
    ]
    assert f"1 {2**53 + 1} read as {2**53}" in lines


def test_categories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Names in another case give two frequencies of about a half, from noise alone.
    cells = ["firefox", "firefox", "Chrome", " Firefox ", "opera"]
    source = write_csv(tmp_path / "in.csv", "\n".join(["b", *cells]))
    options = [
        "--column",
        "b",
        "--epsilon",
        "1",
        "--check",
        "-o",
        str(tmp_path / "o.csv"),
    ]
    names = ["--categories", "Firefox,Chrome"]
    assert main(["collect", str(source), *options, *names]) == 0
    assert found(capsys) == [
        "--column 'b': 3 of 5 cells would be read as something else",
        "2 'firefox' in no category: drawn uniformly from the categories",
        "1 'opera' in no category: drawn uniformly from the categories",
    ]
    source = write_csv(tmp_path / "in.csv", "b\n0\n3\n4\n-1\n1e0\n")
    options += ["--categories", "4", "--other", "3"]
    assert main(["collect", str(source), *options]) == 0
    assert [line.split(" in ")[0] for line in found(capsys)[1:]] == [
        "1 '4'",
        "1 '-1'",
        "1 '1e0'",
    ]
    require_only(tmp_path, "in.csv")


def test_declared_types_are_checked_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_parquet(tmp_path / "in.parquet", {"n": ["1"]})
    assert release(source, tmp_path / "o.csv", "--column", "n", "--check", *EXACT) == 2
    assert "must hold integers, got string" in capsys.readouterr().err


def test_many_different_cells_are_few_lines(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_check, "_DISTINCT", 50)
    text = "\n".join(["n,m", *(f"x{i}{'y' * 99},1" for i in range(200))])
    source = write_csv(tmp_path / "in.csv", text)
    assert release(source, tmp_path / "o.csv", "--column", "n", "--check", *EXACT) == 0
    lines = found(capsys)
    assert "200 of 200 cells" in lines[0]
    assert lines[1] == "150 other cells read as 0"
    assert lines[-1] == "31 more, of other kinds"
    assert max(map(len, lines)) < 100


@pytest.mark.parametrize("cells", [["1", "x", "9" * 19, "-9223372036854775808", " 4 "]])
def test_what_stands_is_what_python_reads(cells: list[Any]) -> None:
    column = pa.array(cells)
    stands = _cells.read_as_they_stand(column, _cells.read_integers(column))
    expected = [c != "x" and -(2**63) <= int(c) < 2**63 for c in cells]
    assert stands.tolist() == expected
