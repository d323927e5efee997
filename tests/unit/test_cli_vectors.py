"""``fastdp collect`` and ``estimate`` of vectors, a column for each entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.cli import _reports, main
from tests.tables import SECRET, pa, place, require_only, write_csv, write_parquet

NAMES = ["a", "b", "c"]
VECTORS = ["--mechanism", "vector-response", "--epsilon", "4"]


def collect(source: Path, output: Path, *options: str) -> int:
    words = ["collect", str(source), "-o", str(output), "--columns", ",".join(NAMES)]
    return main([*words, *VECTORS, *options])


def rows_of(n: int) -> Any:
    return np.random.default_rng(8).normal(0.2, 0.2, (n, 3)) * (1, 0, -1)


@pytest.fixture
def reports(tmp_path: Path) -> list[Path]:
    """Two files of reports, in the two forms of a file."""
    rows, found = rows_of(3000), []
    for name, part in (("east.csv", rows[:1000]), ("west.parquet", rows[1000:])):
        # Columns of the file in another order than they are asked for.
        table = {c: part[:, NAMES.index(c)] for c in ("c", "a", "b")}
        source = write_parquet(tmp_path / "source.parquet", table)
        assert collect(source, tmp_path / name) == 0
        source.unlink()
        found.append(tmp_path / name)
    return found


def test_means_of_columns(
    reports: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["estimate", *map(str, reports), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["mechanism"], found["users"]) == ("vector-response", 3000)
    rows = rows_of(3000)
    truth = rows / np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]
    own = fastdp.VectorResponse.from_epsilon(4, dimension=3)
    for name, mean, row in zip(NAMES, truth.mean(axis=0), found["means"], strict=True):
        assert row["column"] == name
        assert row["standard_error"] == own.standard_error(3000)
        # 8 standard errors: missed with odds of 1e-15.
        assert abs(row["mean"] - mean) < 8 * row["standard_error"]
        assert row["low"] < row["mean"] < row["high"]
    assert {_reports.read_description(place(p)).mechanism for p in reports} == {own}


def test_tables_and_pictures(
    reports: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    capsys.readouterr()
    table, picture = tmp_path / "means.csv", tmp_path / "means.png"
    words = ["estimate", str(reports[0]), "-o", str(table), "--plot", str(picture)]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1,000 reports, vector-response, epsilon = 4 for each"
    assert [line.split()[0] for line in lines[2:]] == ["column", *NAMES]
    assert table.read_text().startswith("column,mean,standard_error,low,high\n")
    assert picture.stat().st_size > 1000


def test_no_cell_stops_the_command_or_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"a,b,c\n1,2,3\n{SECRET},nan,inf\n,,\n1e999,-1e999,0\n"
    source = write_csv(tmp_path / "in.csv", text)
    assert collect(source, tmp_path / "o.csv", "--words", "16") == 0
    captured = capsys.readouterr()
    assert SECRET not in captured.out + captured.err
    assert "4 reports of 'a', 'b', 'c', 12 bytes each" in captured.err
    assert "any two values of a row's vector" in captured.err
    assert "vectors longer than 1 scaled" in captured.err
    described = (tmp_path / "o.csv.json").read_text()
    assert json.loads(described)["columns"] == NAMES
    assert "words=16" in captured.err
    assert collect(source, tmp_path / "p.csv", "--check") == 0
    shown = capsys.readouterr().out
    assert "NOT PRIVATE" in shown
    assert "--column 'c'" in shown
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--columns", "a,a"], "--columns must have each name once"),
        (["--columns", "a,,b"], "--columns must not contain an empty name"),
        (["--words", "1"], "words must be in"),
        (["--epsilon", "0"], "epsilon must be"),
        (["--bounds", "0,1"], "--bounds must be left out"),
        (["--categories", "a,b"], "--categories must be left out"),
        (["--mechanism", "local-mean", "--bounds", "0,1"], "--columns A,B,... must be"),
        (["--column", "a"], "not allowed with"),
    ],
)
def test_parameters_are_refused_before_the_input_is_opened(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    named: str,
) -> None:
    assert collect(tmp_path / "never.csv", tmp_path / "o.csv", *options) == 2
    assert named in capsys.readouterr().err
    require_only(tmp_path)


def test_one_column_and_wrong_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_parquet(
        tmp_path / "in.parquet", {"a": pa.array([1.0]), "b": pa.array(["x"])}
    )
    words = ["collect", str(source), "-o", str(tmp_path / "o.csv"), *VECTORS]
    for given, message in (
        (["--column", "a"], "--columns A,B,... must be given"),
        (["--columns", "a,c"], "--columns"),
        (["--columns", "a,b"], "--column 'b' must hold integers or floats"),
    ):
        assert main([*words, *given]) == 2
        assert message in capsys.readouterr().err
    require_only(tmp_path, "in.parquet")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"columns"', '"column"'),
        ('"a", "b", "c"', '"a", "b"'),
        ('"a", "b", "c"', '"a", "b", 3'),
    ],
)
def test_damaged_descriptions(
    reports: list[Path], capsys: pytest.CaptureFixture[str], old: str, new: str
) -> None:
    beside = Path(f"{reports[0]}.json")
    text = json.dumps(json.loads(beside.read_text()))
    assert old in text
    beside.write_text(text.replace(old, new))
    assert main(["estimate", str(reports[0])]) == 6
    assert "has a damaged description" in capsys.readouterr().err


def test_reports_of_other_columns_do_not_belong_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_csv(tmp_path / "in.csv", "a,b,c,d\n1,2,3,4\n")
    assert collect(source, tmp_path / "1.csv") == 0
    assert collect(source, tmp_path / "2.csv", "--columns", "a,b,d") == 0
    both = [str(tmp_path / name) for name in ("1.csv", "2.csv")]
    assert main(["estimate", *both]) == 6
    assert "other names of categories or columns" in capsys.readouterr().err
    for option in ("--top=1", "--consistent"):
        assert main(["estimate", both[0], option]) == 2
