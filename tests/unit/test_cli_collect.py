"""``fastdp collect``: one report per row; nothing but reports is written.

At epsilon 40 a randomized response is the truth but for a probability below 1e-15,
so that a test can see which category a cell was read as.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastdp
from fastdp.cli import _cells, _files, _reports, _text_files, main
from tests.tables import (
    pa,
    parquet,
    place,
    read_parquet,
    require_only,
    write_csv,
    write_parquet,
)

MECHANISMS = sorted(_reports.ORACLES)
EXACT = ["--mechanism", "randomized-response", "--epsilon", "40"]
STATEMENT = ["fastdp:", "mechanism", "parameter", "guarantee", "neighbors"]
STATEMENT += ["released", "outside", "output"]
ABC = ["--column", "c", "--categories", "a,b,c"]


def collect(source: Path, output: Path, *options: str) -> int:
    return main(["collect", str(source), "-o", str(output), *options])


def labels(
    folder: Path, cells: list[Any], *options: str, kind: str | None = None
) -> list[int]:
    """Return what the cells are read as: their reports at epsilon 40."""
    column = pa.array(cells, kind)
    source = write_parquet(folder / "in.parquet", {"c": column})
    output = folder / "out.parquet"
    assert collect(source, output, "--column", "c", *EXACT, *options) == 0
    return read_parquet(output)["report"]


class TestCells:
    def test_text(self, tmp_path: Path) -> None:
        cells = ["a", "b", " c\t", "A", "", None, "a,b", "ab", "\u00e4", "c"]
        options = ["--categories", "a, b,c,other", "--other", "other"]
        assert labels(tmp_path, cells, *options) == [0, 1, 2, 3, 3, 3, 3, 3, 3, 2]

    def test_types_of_columns_with_named_categories(self, tmp_path: Path) -> None:
        options = ["--categories", "1,true,x", "--other", "x"]
        cells: list[Any] = [1, None, 2, -1]
        assert labels(tmp_path, cells, *options, kind="int16") == [0, 2, 2, 2]
        assert labels(tmp_path, cells[:3], *options, kind="uint64") == [0, 2, 2]
        cells = [True, None, False]
        assert labels(tmp_path, cells, *options, kind="bool") == [1, 2, 2]
        cells = [b"true", b"\xff\xfe", b"1"]
        assert labels(tmp_path, cells, *options, kind="binary") == [1, 2, 0]
        assert labels(tmp_path, cells, *options, kind="large_binary") == [1, 2, 0]
        cells = pa.array(["true", None, "1", "y"]).dictionary_encode()
        assert labels(tmp_path, cells, *options) == [1, 2, 0, 2]

    def test_numbered_categories(self, tmp_path: Path) -> None:
        options = ["--categories", "300", "--other", "7"]
        cells: list[Any] = [0, 299, 300, -1, None, 2**63 - 1, -(2**63)]
        assert labels(tmp_path, cells, *options) == [0, 299, 7, 7, 7, 7, 7]
        cells = [0, 2**64 - 1, None, 299]
        assert labels(tmp_path, cells, *options, kind="uint64") == [0, 7, 7, 299]
        cells = ["0", " 299 ", "3.0", "2.5", "x", "", "9" * 99, "-1"]
        source = write_csv(
            tmp_path / "in.csv", "\n".join(["c,d", *(f"{c},1" for c in cells)])
        )
        output = tmp_path / "out.parquet"
        assert collect(source, output, "--column", "c", *EXACT, *options) == 0
        assert read_parquet(output)["report"] == [0, 299, 3, 7, 7, 7, 7, 7]

    @pytest.mark.parametrize(
        ("cells", "categories", "message"),
        [
            (["0", "1"], "3", "must hold integers, got string (cast it to numbers"),
            ([0, 1], "Firefox,Chrome", "must hold text where --categories are names"),
            ([True], "yes,no", "holds bools: --categories must have true or false"),
        ],
    )
    def test_categories_that_no_cell_of_a_declared_type_can_have(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        cells: list[Any],
        categories: str,
        message: str,
    ) -> None:
        source = write_parquet(tmp_path / "in.parquet", {"c": pa.array(cells)})
        options = ["--column", "c", "--categories", categories, *EXACT]
        assert collect(source, tmp_path / "o.parquet", *options) == 2
        assert message in capsys.readouterr().err
        require_only(tmp_path, "in.parquet")

    def test_uniform_is_any_category(self, tmp_path: Path) -> None:
        # One of four categories stays away from 300 draws with odds below 1e-36.
        found = labels(tmp_path, ["x"] * 300, "--categories", "a,b,c,d")
        assert set(found) == {0, 1, 2, 3}
        found = labels(tmp_path, [-1] * 300, "--categories", "4", "--other", "uniform")
        assert set(found) == {0, 1, 2, 3}

    def test_a_cell_is_read_alike_whatever_the_others_hold(self) -> None:
        cells = ["a", "x", "", " b", None, "\tc ", "7", "a b"] * 3
        names = pa.array([b"a", b"b", b"c"], pa.large_binary())
        for categories in (names, None):
            alone = [
                int(_cells.read_labels(pa.array([cell], "string"), categories)[0])
                for cell in cells
            ]
            together = _cells.read_labels(pa.array(cells), categories)
            assert together.tolist() == alone
            sliced = pa.array(cells).slice(5, 9)
            assert _cells.read_labels(sliced, categories).tolist() == alone[5:14]

    @pytest.mark.parametrize(
        ("kind", "categories", "rule"),
        [
            ("float64", "a,b", "text, integers or bools"),
            ("date32", "a,b", "text, integers or bools"),
            ("float64", "9", "integers"),
            ("bool", "9", "integers"),
        ],
    )
    def test_types_that_hold_no_categories(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        kind: str,
        categories: str,
        rule: str,
    ) -> None:
        source = write_parquet(tmp_path / "in.parquet", {"c": pa.nulls(3, kind)})
        options = ["--column", "c", "--categories", categories, *EXACT]
        assert collect(source, tmp_path / "out.parquet", *options) == 2
        assert f"--column 'c' must hold {rule}, got" in capsys.readouterr().err
        require_only(tmp_path, "in.parquet")


#: Bytes of every kind, categories with blanks around them, and numbers.
CELLS = st.one_of(
    st.binary(max_size=6),
    st.from_regex(rb"\A[ \t]*(a|b c|\xc3\xa9|3)[ \t]*\Z"),
    st.from_regex(rb"\A[ +-]?[0-9]{0,20}(\.[0-9]{0,2})?\Z"),
)


class TestAnyCell:
    @pytest.mark.rest
    @settings(deadline=None)
    @given(st.lists(CELLS, max_size=20))
    def test_the_fast_reading_is_the_slow_one(self, cells: list[bytes]) -> None:
        names = [b"a", b"b c", "\u00e9".encode(), b"3"]
        column = pa.array(cells, pa.binary())
        found = _cells.read_labels(column, pa.array(names, pa.large_binary()))
        trimmed = [cell.strip(b" \t") for cell in cells]
        assert found.tolist() == [
            names.index(cell) if cell in names else -1 for cell in trimmed
        ]
        numbers = [_cells._integer(cell, -1) for cell in cells]
        assert _cells.read_labels(column, None).tolist() == numbers

    @pytest.mark.rest
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(st.lists(CELLS, min_size=1, max_size=9))
    def test_nothing_that_a_cell_holds_stops_the_command(
        self,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
        cells: list[bytes],
    ) -> None:
        # Separators, quotes and line breaks are the public structure of the file.
        cells = [cell.translate(None, b',"\r\n') for cell in cells]
        rows = [b"%d,%b\n" % row for row in enumerate(cells)]
        source = write_csv(tmp_path / "in.csv", b"".join([b"k,c\n", *rows]))
        output = tmp_path / "out.csv"
        options = ["--column", "c", "--categories", "a,b c,other", "--other", "other"]
        assert collect(source, output, *options, *EXACT) == 0
        places = {b"a": "0", b"b c": "1"}
        expected = [places.get(cell.strip(b" \t"), "2") for cell in cells]
        assert output.read_text().splitlines() == ["report", *expected]
        said = capfd.readouterr()
        assert said.out == ""
        assert [line.split()[0] for line in said.err.splitlines()] == STATEMENT


class TestReports:
    def test_rows_stay_in_their_order_whatever_the_batches(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_text_files, "_BLOCK_BYTES", 64)
        monkeypatch.setattr("fastdp.cli.collect._GROUP_ROWS", 100)
        generator = np.random.default_rng(3)
        lines, expected = ["x,c"], []
        for row in range(1234):
            broken = generator.random() < 0.1
            lines.append("broken" if broken else f"{'y' * (row % 20)},{row % 2}")
            expected.append(2 if broken else row % 2)
        source = write_csv(tmp_path / "in.csv", "\n".join(lines) + "\n")
        output = tmp_path / "out.parquet"
        options = ["--column", "c", "--categories", "3", "--other", "2"]
        assert collect(source, output, *options, *EXACT) == 0
        assert read_parquet(output)["report"] == expected
        # The batches of the reader, which cells' lengths decide, have left no trace.
        file = parquet.ParquetFile(output).metadata
        groups = [file.row_group(i).num_rows for i in range(file.num_row_groups)]
        assert groups == [100] * 12 + [34]

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize("categories", [3, 11, 300, 1100])
    def test_both_formats_hold_the_same_reports(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        mechanism: str,
        categories: int,
    ) -> None:
        made = []
        own = getattr(fastdp, _reports.ORACLES[mechanism].type_name)
        real: Callable[..., Any] = own.release

        def noted(*args: Any, **kwargs: Any) -> Any:
            made.append(real(*args, **kwargs))
            return made[-1]

        monkeypatch.setattr(own, "release", noted)
        source = write_parquet(tmp_path / "in.parquet", {"c": list(range(50))})
        options = ["--column", "c", "--categories", str(categories)]
        options += ["--epsilon", "1", "--mechanism", mechanism]
        for extension in ("csv", "parquet"):
            output = tmp_path / f"out.{extension}"
            assert collect(source, output, *options) == 0
            description = _reports.read_description(place(output))
            names = _reports.columns(description.mechanism)
            wanted = [("", name) for name in names]
            with _files.open_source(place(output), wanted) as opened:
                (batch,) = opened.batches(10**6)
                found = _reports.from_batch(
                    batch, description.mechanism, place(output), 1
                )
                assert np.array_equal(found, made[-1])
                # A part of a batch is not read from the start of its buffers.
                part = batch.slice(20, 9)
                found = _reports.from_batch(
                    part, description.mechanism, place(output), 1
                )
                assert np.array_equal(found, made[-1][20:29])

    @pytest.mark.parametrize(
        ("mechanism", "columns", "first"),
        [
            ("randomized-response", {"report": pa.uint16()}, r"\d{1,3}"),
            ("hadamard", {"report": pa.uint16()}, r"\d{1,3}"),
            ("unary-encoding", {"report": pa.binary(38)}, "[0-9a-f]{76}"),
            (
                "local-hashing",
                {"seed": pa.uint64(), "value": pa.uint32()},
                r"[0-9a-f]{16},\d{1,2}",
            ),
        ],
    )
    def test_columns(
        self, tmp_path: Path, mechanism: str, columns: dict[str, Any], first: str
    ) -> None:
        source = write_csv(tmp_path / "in.csv", "c\n5\n6\n")
        options = ["--column", "c", "--categories", "300", "--epsilon", "1"]
        options += ["--mechanism", mechanism]
        output = tmp_path / "out.parquet"
        assert collect(source, output, *options) == 0
        table = parquet.read_table(output)
        assert {field.name: field.type for field in table.schema} == columns
        assert not any(field.nullable for field in table.schema)
        assert table.num_rows == 2
        output = tmp_path / "out.csv"
        assert collect(source, output, *options) == 0
        header, *lines = output.read_text().splitlines()
        assert header == ",".join(columns)
        assert len(lines) == 2
        for line in lines:
            assert re.fullmatch(first, line)

    def test_the_description(self, tmp_path: Path) -> None:
        source = write_csv(tmp_path / "in.csv", "c\nb\n")
        options = ["--column", "c", "--categories", "a,b,\u00e9", "--other", "b"]
        options += ["--epsilon", "1/3", "--mechanism", "unary-encoding"]
        for name in ("out.csv", "out.parquet"):
            assert collect(source, tmp_path / name, *options) == 0
        beside = (tmp_path / "out.csv.json").read_text(encoding="utf-8")
        inside = parquet.read_schema(tmp_path / "out.parquet").metadata
        assert list(inside) == [b"fastdp.reports", b"fastdp.release"]
        assert inside[b"fastdp.reports"].decode() == beside.rstrip("\n")
        mechanism = fastdp.UnaryEncoding.from_epsilon(
            fastdp.cli._numbers.number("1/3"), categories=3, other=1
        )
        assert json.loads(beside) == {
            "format": "fastdp reports",
            "version": 1,
            "mechanism": "unary-encoding",
            "p": "1/2",
            "q": f"{mechanism.q.numerator}/{mechanism.q.denominator}",
            "other": 1,
            "categories": ["a", "b", "\u00e9"],
        }

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize("names", [None, ("a", "b", "c d", '"', "\n")])
    def test_a_description_is_read_as_it_was_written(
        self, tmp_path: Path, mechanism: str, names: tuple[str, ...] | None
    ) -> None:
        own = getattr(fastdp, _reports.ORACLES[mechanism].type_name)
        made = _reports.Description(own.from_epsilon(0.7, categories=5, other=2), names)
        read = _reports.parse(made.to_json(), tmp_path)
        assert read == made
        assert read.mechanism.epsilon() == made.mechanism.epsilon()
        assert read.labels() == [*(names or range(5))]

    def test_best_is_the_default(self, tmp_path: Path) -> None:
        source = write_csv(tmp_path / "in.csv", "c\n1\n")
        for categories, epsilon in (("3", "1"), ("5000", "1"), ("2000", "12")):
            output = tmp_path / "out.parquet"
            options = ["--column", "c", "--categories", categories]
            assert collect(source, output, *options, "--epsilon", epsilon) == 0
            best = fastdp.best_frequency_oracle(
                int(epsilon), categories=int(categories), users=10**6
            )
            assert _reports.read_description(place(output)).mechanism == best

    @pytest.mark.parametrize("rows", [0, 1])
    def test_few_rows(self, tmp_path: Path, rows: int) -> None:
        source = write_csv(tmp_path / "in.csv", "c\n" + "a\n" * rows)
        for mechanism in MECHANISMS:
            for name in ("out.csv", "out.parquet"):
                options = [*ABC, "--epsilon", "1", "--mechanism", mechanism]
                assert collect(source, tmp_path / name, *options) == 0
            assert parquet.read_table(tmp_path / "out.parquet").num_rows == rows
            assert len((tmp_path / "out.csv").read_text().splitlines()) == rows + 1

    def test_categories_of_a_file(self, tmp_path: Path) -> None:
        text = "\ufeffa\r\n b, c \nd\n"
        file = write_csv(tmp_path / "names.txt", text)
        source = write_csv(tmp_path / "in.csv", 'c\n"b, c"\nd\na\nx\n')
        options = ["--column", "c", "--categories-file", str(file), "--other", "d"]
        assert collect(source, tmp_path / "out.csv", *options, *EXACT) == 0
        assert (tmp_path / "out.csv").read_text() == "report\n1\n2\n0\n2\n"

    def test_workers_change_nothing_but_the_time(self, tmp_path: Path) -> None:
        source = write_parquet(tmp_path / "in.parquet", {"c": [1, 0] * 9999})
        options = ["--column", "c", "--categories", "2", "--workers", "2"]
        assert collect(source, tmp_path / "out.parquet", *options, *EXACT) == 0
        assert read_parquet(tmp_path / "out.parquet")["report"] == [1, 0] * 9999


def test_the_statement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_csv(tmp_path / "in.csv", "c\na\nb\n")
    output = tmp_path / "out.csv"
    options = ["--epsilon", "0.5", "--mechanism", "hadamard", "--other", "b"]
    assert collect(source, output, *ABC, *options) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0] == "fastdp: private reports"
    said = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[1:]}
    mechanism = fastdp.HadamardResponse.from_epsilon(0.5, categories=3, other=1)
    assert fastdp.cli._numbers.written(mechanism) in said["mechanism"]
    assert "exact, timing class T0" in said["mechanism"]
    assert said["parameter"] == "epsilon = 0.5, 3 categories"
    assert said["guarantee"].startswith(f"{mechanism.epsilon()!r}-local differential")
    assert mechanism.epsilon() == pytest.approx(0.5, rel=1e-12)
    assert "number and the order of the rows are public" in said["neighbors"]
    assert said["released"] == "2 reports of 'c', 1 byte each"
    assert said["outside"] == "cells in no category were counted as 'b'"
    assert said["output"] == f"{output}, described in {output}.json"
