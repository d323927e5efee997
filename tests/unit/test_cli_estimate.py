"""``fastdp estimate``: from files of reports to counts, intervals and a picture."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdp.cli import _reports, main
from tests.tables import (
    parquet,
    place,
    require_only,
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
