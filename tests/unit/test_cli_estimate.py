"""``fastdp estimate``: from files of reports to counts, intervals and a picture."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.cli import _reports, main
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
NAMES = ("a", "b", "c", "d", "e")
TRUTH = np.array([9000, 6000, 4000, 1000, 0])


def estimate(*words: Path | str) -> int:
    return main(["estimate", *map(str, words)])


def estimated(
    capsys: pytest.CaptureFixture[str], *words: Path | str
) -> dict[str, dict[str, Any]]:
    """Return what ``--json`` prints for each category."""
    capsys.readouterr()
    assert estimate(*words, "--json") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    facts = json.loads(captured.out)
    return {entry["category"]: entry for entry in facts["categories"]}


def collected(
    folder: Path, name: str, *options: str, values: list[Any] | None = None
) -> Path:
    """Write reports of `values`, by default as `TRUTH` has them, and their path."""
    if values is None:
        values = np.repeat(NAMES, TRUTH).tolist()
    source = write_parquet(folder / "source.parquet", {"c": values})
    output = folder / name
    words = ["collect", str(source), "-o", str(output), "--column", "c"]
    if "--categories" not in options:
        words += ["--categories", ",".join(NAMES)]
    if "--epsilon" not in options:
        words += ["--epsilon", "2"]
    assert main([*words, *options]) == 0
    source.unlink()
    return output


def small(folder: Path, name: str = "in.csv", *options: str) -> Path:
    """Write reports of a few users; without options those of randomized response."""
    chosen = options or ("--mechanism", "randomized-response")
    # Text is no integer: numbered categories take numbers.
    numbered = chosen[-2:] == ("--categories", "5")
    values = [0, 1, 0, 2] if numbered else ["a", "b", "a", "c"]
    return collected(folder, name, *chosen, values=values)


def change(path: Path, old: str, new: str) -> Path:
    """Change the description of the reports in a CSV file."""
    beside = path.with_name(f"{path.name}.json")
    text = beside.read_text()
    assert old in text
    beside.write_text(text.replace(old, new))
    return path


class TestEstimates:
    @pytest.mark.parametrize("extension", ["csv", "parquet"])
    @pytest.mark.parametrize("mechanism", [*MECHANISMS, "best"])
    def test_counts_are_near_the_truth(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        mechanism: str,
        extension: str,
    ) -> None:
        name = f"reports.{extension}"
        reports = collected(tmp_path, name, "--mechanism", mechanism)
        found = estimated(capsys, reports)
        assert tuple(found) == NAMES
        own = _reports.read_description(place(reports)).mechanism
        for category, truth in zip(NAMES, TRUTH.tolist(), strict=True):
            entry = found[category]
            # 8 standard errors: 5 categories in 10 runs miss with odds of 1e-13.
            assert abs(entry["count"] - truth) < 8 * entry["standard_error"]
            frequency = max(0, min(1, entry["count"] / 20_000))
            predicted = own.standard_error(20_000, frequency=frequency)
            assert entry["standard_error"] == pytest.approx(predicted, rel=1e-9)
            assert entry["frequency"] == entry["count"] / 20_000
            arm = 1.959963984540054 * entry["standard_error"]
            assert entry["low"] == pytest.approx(entry["count"] - arm)
            assert entry["high"] == pytest.approx(entry["count"] + arm)

    def test_cells_outside_count_as_the_options_said(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        # At epsilon 40 a report is not the truth with probability below 1e-12.
        values = ["a"] * 6 + ["x", None, ""]
        options = ["--epsilon", "40", "--mechanism", "randomized-response"]
        reports = collected(tmp_path, "r.csv", *options, "--other", "e", values=values)
        found = estimated(capsys, reports)
        assert [round(found[name]["count"]) for name in NAMES] == [6, 0, 0, 0, 3]

    def test_integer_categories_are_numbers(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = ["--categories", "4", "--epsilon", "40"]
        options += ["--mechanism", "randomized-response"]
        reports = collected(tmp_path, "r.csv", *options, values=[0, 3, 3])
        found: dict[Any, Any] = estimated(capsys, reports)
        assert {name: round(found[name]["count"]) for name in found} == {
            0: 1,
            1: 0,
            2: 0,
            3: 2,
        }

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_files_are_taken_together(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], mechanism: str
    ) -> None:
        options = ["--mechanism", mechanism]
        east = collected(tmp_path, "east.csv", *options, values=["a"] * 300)
        west = collected(tmp_path, "west.parquet", *options, values=["b"] * 500)
        alone = [estimated(capsys, path) for path in (east, west)]
        both = estimated(capsys, west, east)
        for name in NAMES:
            # Counts are linear in the tallies.
            total = sum(part[name]["count"] for part in alone)
            assert both[name]["count"] == pytest.approx(total, abs=1e-8)

    @pytest.mark.parametrize("extension", ["csv", "parquet"])
    def test_batches_change_nothing(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        extension: str,
    ) -> None:
        reports = collected(tmp_path, f"r.{extension}", "--mechanism", "local-hashing")
        whole = estimated(capsys, reports, "--workers", "2")
        monkeypatch.setattr("fastdp.cli.estimate._BATCH_BYTES", 1000)
        monkeypatch.setattr("fastdp.cli._text_files._BLOCK_BYTES", 500)
        assert estimated(capsys, reports) == whole

    def test_a_report_out_of_range_counts_as_a_user_only(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        reports = small(tmp_path)
        before = estimated(capsys, reports)
        assert estimate(reports) == 0
        assert "4 reports" in capsys.readouterr().out
        reports.write_text(reports.read_text() + "5\n255\n")
        after = estimated(capsys, reports)
        assert estimate(reports) == 0
        assert "6 reports" in capsys.readouterr().out
        mechanism = _reports.read_description(place(reports)).mechanism
        wrong = float((1 - mechanism.p) / 4)
        for name in NAMES:
            change = after[name]["count"] - before[name]["count"]
            assert change == pytest.approx(-2 * wrong / (float(mechanism.p) - wrong))


class TestOutputs:
    def test_the_table(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        reports = collected(tmp_path, "r.parquet", "--mechanism", "hadamard")
        found = estimated(capsys, reports)
        assert estimate(reports) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        title, empty, header, *lines = captured.out.splitlines()
        expected = "20,000 reports, hadamard, epsilon = 2 for each, 5 categories"
        assert (title, empty) == (expected, "")
        assert header.split("  ")[0] == "category"
        for word in ("count", "standard error", "95 % interval", "frequency"):
            assert word in header
        assert len({len(line) for line in [header, *lines]}) == 1
        for name, line in zip(NAMES, lines, strict=True):
            words = line.replace("[", "").replace("]", "").replace(", ", " ").split()
            assert words[0] == name
            keys = ("count", "standard_error", "low", "high")
            shown = [float(word.replace(",", "")) for word in words[1:5]]
            assert shown == pytest.approx([found[name][k] for k in keys], abs=0.051)
            assert float(words[5]) == pytest.approx(found[name]["frequency"], abs=1e-6)

    def test_the_level_and_consistent_counts(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        reports = collected(tmp_path, "r.parquet", "--mechanism", "unary-encoding")
        wide = estimated(capsys, reports, "--level", "0.99", "--consistent")
        narrow = estimated(capsys, reports, "--level", "0.5")
        for name in NAMES:
            assert wide[name]["low"] < narrow[name]["low"] < narrow[name]["count"]
            assert wide[name]["count"] == narrow[name]["count"]
            assert "consistent_count" not in narrow[name]
        projected = [wide[name]["consistent_count"] for name in NAMES]
        assert min(projected) >= 0
        assert sum(projected) == pytest.approx(20_000)
        assert estimate(reports, "--level", "0.5", "--consistent") == 0
        out = capsys.readouterr().out
        assert "50 % interval" in out
        assert "consistent" in out

    @pytest.mark.parametrize("extension", ["csv", "parquet"])
    def test_the_most_frequent_into_a_file(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], extension: str
    ) -> None:
        values = np.repeat(NAMES, TRUTH[::-1]).tolist()
        reports = collected(tmp_path, "r.parquet", values=values)
        output = tmp_path / f"table.{extension}"
        found = estimated(capsys, reports, "--top", "3", "-o", output)
        assert list(found) == ["e", "d", "c"]
        rows: list[dict[str, Any]]
        if extension == "csv":
            with output.open(newline="") as file:
                rows = list(csv.DictReader(file))
        else:
            rows = parquet.read_table(output).to_pylist()
        for row, entry in zip(rows, found.values(), strict=True):
            assert list(row) == list(entry)
            assert row.pop("category") == entry.pop("category")
            numbers = {name: float(value) for name, value in row.items()}
            assert numbers == pytest.approx(entry)
        require_only(tmp_path, "r.parquet", output.name)

    @pytest.mark.parametrize("extension", ["png", "svg", "pdf"])
    def test_the_picture(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], extension: str
    ) -> None:
        pytest.importorskip("matplotlib")
        reports = small(tmp_path)
        path = tmp_path / f"picture.{extension}"
        assert estimate(reports, "--plot", path) == 0
        assert path.stat().st_size > 5000
        magic = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[extension]
        assert path.read_bytes().startswith(magic)
        require_only(tmp_path, "in.csv", "in.csv.json", path.name)

    def test_names_cannot_move_the_cursor(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = ["--categories", "a\x1b[2J,b\u202e,c"]
        reports = collected(tmp_path, "r.csv", *options, values=["c"])
        assert estimate(reports) == 0
        out = capsys.readouterr().out
        assert "a?[2J" in out
        assert "b?" in out
        assert not {"\x1b", "\u202e"} & set(out)


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
