"""fastdp estimate: refused input."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import fastdp
from fastdp.cli import _reports
from tests.tables import (
    pa,
    parquet,
    read_parquet,
    write_csv,
    write_parquet,
)
from tests.unit.test_cli_estimate import (
    MECHANISMS,
    NAMES,
    TRUTH,
    change,
    collected,
    estimate,
    estimated,
    small,
)


class TestRefusals:
    def refused(
        self, capsys: pytest.CaptureFixture[str], *words: Path | str, code: int = 6
    ) -> str:
        capsys.readouterr()
        assert estimate(*words) == code
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("fastdp: ")
        assert captured.err.count("\n") == 1
        return captured.err

    @pytest.mark.parametrize("name", ["in.csv", "in.parquet"])
    def test_reports_without_a_description(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
    ) -> None:
        path = tmp_path / name
        if name.endswith("csv"):
            write_csv(path, "report\n1\n")
            assert "in.csv.json: No such file" in self.refused(capsys, path)
        else:
            write_parquet(path, {"report": pa.array([1], "uint8")})
            error = self.refused(capsys, path)
            assert "REPORTS must have a description of 'fastdp reports'" in error

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('"version": 1', '"version": 2', "of format version 1, got 2"),
            ('"version": 1', '"version": "x"', "of format version 1, got another"),
            ('"version": 1', '"release": 1', "of format version 1, got another"),
            ("fastdp reports", "other reports", "must have a description of"),
            ('"version": 1,', '"version": 1', "must have a description of"),
            ("randomized-response", "guess", "damaged description"),
            ('"p"', '"q"', "damaged description"),
            ('"p": "', '"p": "-', "damaged description"),
            ('"p": "', '"p": "1e999999999', "damaged description"),
            ('"p": "', '"p": "9', "damaged description: p must be"),
            ('"other": null', '"other": 5', "damaged description: other must be"),
            ('"other": null', '"other": "a"', "damaged description: other must be"),
            ('"b",', "7,", "damaged description"),
        ],
    )
    def test_descriptions(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        old: str,
        new: str,
        message: str,
    ) -> None:
        path = change(small(tmp_path), old, new)
        error = self.refused(capsys, path)
        assert message in error
        assert "in.csv" in error

    def test_another_width(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = small(tmp_path, "in.parquet", "--mechanism", "unary-encoding")
        table = parquet.read_table(path)
        more = _reports.Description(
            fastdp.UnaryEncoding.from_epsilon(2, categories=17), None
        )
        metadata = {_reports.METADATA: more.to_json().encode()}
        parquet.write_table(table.replace_schema_metadata(metadata), path)
        error = self.refused(capsys, path)
        assert "must have fixed_size_binary[3] in column 'report'" in error
        assert "got fixed_size_binary[1] in" in error

    @pytest.mark.parametrize("kind", ["int64", "uint16", "double", "string"])
    def test_another_type(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
    ) -> None:
        path = small(tmp_path, "in.parquet", "--mechanism", "hadamard")
        table = parquet.read_table(path)
        column = table.column("report").cast(kind)
        other = pa.table({"report": column}, metadata=table.schema.metadata)
        parquet.write_table(other, path)
        error = self.refused(capsys, path)
        assert f"must have uint8 in column 'report', got {kind} in" in error

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_nulls(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], mechanism: str
    ) -> None:
        path = small(tmp_path, "in.parquet", "--mechanism", mechanism)
        table = parquet.read_table(path)
        columns = {
            field.name: pa.array(
                [*table.column(field.name).to_pylist()[:3], None], field.type
            )
            for field in table.schema
        }
        parquet.write_table(pa.table(columns, metadata=table.schema.metadata), path)
        assert "must hold no nulls in column" in (error := self.refused(capsys, path))
        assert "row 4 of" in error

    @pytest.mark.parametrize("cell", ["", "x", "-1", "256", "1.5", "1,1", '"'])
    def test_cells_that_are_no_numbers(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], cell: str
    ) -> None:
        path = small(tmp_path)
        path.write_text(path.read_text() + f"{cell}\n1\n")
        error = self.refused(capsys, path)
        if cell == '"':
            assert "row 5 of" in error or "not a valid csv table" in error
        else:
            assert (
                "must hold integers in [0, 255] in column 'report', but row 5" in error
            )

    @pytest.mark.parametrize("cell", ["", "0", "0g", "000", " 0", "1 ", "\u0661"])
    @pytest.mark.parametrize("mechanism", ["unary-encoding", "local-hashing"])
    def test_cells_that_are_no_bytes(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        mechanism: str,
        cell: str,
    ) -> None:
        path = small(tmp_path, "in.csv", "--mechanism", mechanism)
        more = "" if mechanism == "unary-encoding" else ",1"
        path.write_text(path.read_text() + f"{cell}{more}\n", encoding="utf-8")
        digits = 2 if mechanism == "unary-encoding" else 16
        error = self.refused(capsys, path)
        assert f"must hold {digits} hex digits in column" in error
        assert "row 5 of" in error

    def test_columns_that_are_missing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = small(tmp_path)
        path.write_text(path.read_text().replace("report", "value"))
        error = self.refused(capsys, path, code=2)
        assert "the column must be in REPORTS, got 'report'" in error

    @pytest.mark.parametrize(
        "options",
        [
            ["--mechanism", "hadamard"],
            ["--mechanism", "randomized-response", "--epsilon", "1"],
            ["--mechanism", "randomized-response", "--other", "a"],
            ["--mechanism", "randomized-response", "--categories", "a,b,c,e,d"],
            ["--mechanism", "randomized-response", "--categories", "5"],
        ],
    )
    def test_files_that_do_not_belong_together(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
    ) -> None:
        first, second = small(tmp_path), small(tmp_path, "other.csv", *options)
        error = self.refused(capsys, first, second)
        assert "must be of one mechanism and the same categories" in error
        assert "other.csv" in error

    def test_the_same_file_twice(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = small(tmp_path)
        (link := tmp_path / "link.csv").symlink_to(path)
        for words in ((path, path), (path, link)):
            error = self.refused(capsys, *words, code=2)
            assert "REPORTS must be another file than REPORTS before it" in error

    @pytest.mark.parametrize("name", ["in.csv", "in.parquet"])
    def test_no_reports(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
    ) -> None:
        column = pa.array([], "string")
        path = collected(tmp_path, name, values=column)
        assert "must hold at least one report" in self.refused(capsys, path)

    def test_never_over_the_reports(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = small(tmp_path)
        before = path.read_bytes()
        error = self.refused(capsys, path, "-o", path, code=2)
        assert "--output must be another file than REPORTS" in error
        assert path.read_bytes() == before

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (["--level", "0"], "level"),
            (["--level", "1"], "level"),
            (["--level", "nan"], "level"),
            (["--level", "x"], "--level"),
            (["--top", "0"], "top"),
            (["--workers", "0"], "workers"),
            (["--output", "x.txt"], "--output"),
            (["--plot", "x.txt"], "--plot"),
        ],
    )
    def test_options_are_refused_before_the_reports_are_opened(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        options: list[str],
        named: str,
    ) -> None:
        missing = tmp_path / "never-opened.csv"
        assert named in self.refused(capsys, missing, *options, code=2)

    @pytest.mark.parametrize(
        ("module", "extra", "options"),
        [("pyarrow", "cli", []), ("matplotlib", "plot", ["--plot", "x.png"])],
    )
    def test_missing_extras_are_named(
        self,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        module: str,
        extra: str,
        options: list[str],
    ) -> None:
        monkeypatch.setitem(sys.modules, module, None)
        error = self.refused(capsys, "x.csv", *options, code=1)
        assert f'pip install "fastdp[{extra}]"' in error

    def test_a_picture_that_cannot_be_written(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pytest.importorskip("matplotlib")
        path = tmp_path / "none" / "x.png"
        error = self.refused(capsys, small(tmp_path), "--plot", path)
        assert "No such file or directory" in error


def test_reports_from_elsewhere_are_estimated_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is the mechanism's own reports, so other writers can make it."""
    mechanism = fastdp.RandomizedResponse.from_epsilon(1, categories=5)
    values = np.repeat(np.arange(5), TRUTH)
    reports = mechanism.release(values)
    description = _reports.Description(mechanism, NAMES)
    path = tmp_path / "in.parquet"
    table = pa.table({"report": reports})
    metadata = {b"fastdp.reports": description.to_json().encode()}
    parquet.write_table(table.replace_schema_metadata(metadata), path)
    assert read_parquet(path)["report"] == reports.tolist()
    found = estimated(capsys, path)
    counts = [found[name]["count"] for name in NAMES]
    assert counts == mechanism.estimate(reports).counts.tolist()
