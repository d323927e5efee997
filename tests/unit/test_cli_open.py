"""``fastdp collect`` and ``estimate`` of numbers and of strings that nobody listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.cli import _cells, _reports, main
from fastdp.testing import FixedStream
from tests.tables import (
    SECRET,
    pa,
    parquet,
    place,
    read_parquet,
    require_only,
    write_csv,
    write_parquet,
)

MEAN = ["--mechanism", "local-mean", "--bounds", "0,24"]
SKETCH = ["--mechanism", "count-mean-sketch", "--rows", "64", "--buckets", "64"]
HUNT = ["--mechanism", "prefix-hunt", "--bits", "24", "--most", "8"]
RAPPOR = ["--mechanism", "rappor", "--bits", "64", "--cohorts", "8"]
KINDS = {
    "mean": MEAN,
    "hadamard": SKETCH,
    "unary": [*SKETCH, "--inner", "unary"],
    "hunt": HUNT,
    "rappor": RAPPOR,
}

NAMES = ("one", "two", "six")
TRUTH = (9000, 6000, 3000)


def collect(source: Path, output: Path, *options: str) -> int:
    words = ["collect", str(source), "-o", str(output), "--column", "c"]
    return main([*words, *options])


def reports(folder: Path, name: str, values: Any, *options: str) -> Path:
    source = write_parquet(folder / "source.parquet", {"c": values})
    assert collect(source, folder / name, "--epsilon", "4", *options) == 0
    source.unlink()
    return folder / name


def estimate(capsys: pytest.CaptureFixture[str], *words: Path | str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["estimate", *map(str, words), "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    facts: dict[str, Any] = json.loads(captured.out)
    return facts


@pytest.fixture
def fixed_hunt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the reports of hunts from a fixed stream: chance finds a string by beta."""
    real, stream = fastdp.PrefixHunt.release, FixedStream("hunt")

    def release(own: Any, values: Any, **options: Any) -> Any:
        return real(own, values, stream=stream, **options)

    monkeypatch.setattr(fastdp.PrefixHunt, "release", release)


@pytest.mark.usefixtures("fixed_hunt")
class TestRoundTrips:
    def test_numbers(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        hours = np.random.default_rng(5).gamma(2, 1.5, 20_000)
        parts = [
            reports(tmp_path, "east.csv", hours[:5000], *MEAN),
            reports(tmp_path, "west.parquet", hours[5000:], *MEAN),
        ]
        found = estimate(capsys, *parts)
        assert (found["mechanism"], found["users"]) == ("local-mean", 20_000)
        # 8 standard errors: missed with odds of 1e-15.
        assert abs(found["mean"] - hours.clip(0, 24).mean()) < (
            8 * found["standard_error"]
        )
        own = fastdp.LocalMean.from_epsilon(4, bounds=(0, 24))
        assert _reports.read_description(place(parts[0])).mechanism == own
        # The two add in different orders.
        assert 0 < found["standard_error"] <= own.standard_error(20_000) * (1 + 1e-9)
        arm = 1.959963984540054 * found["standard_error"]
        assert found["low"] == pytest.approx(found["mean"] - arm)
        assert found["high"] == pytest.approx(found["mean"] + arm)

    @pytest.mark.parametrize("kind", ["hadamard", "unary", "hunt", "rappor"])
    def test_strings(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
    ) -> None:
        values = np.repeat(NAMES, TRUTH)
        # A half of the users in each form of a file; more epsilon for filters.
        options = [*KINDS[kind], "--epsilon", "8"]
        parts = [
            reports(tmp_path, "east.csv", values[::2], *options),
            reports(tmp_path, "west.parquet", values[1::2], *options),
        ]
        names = write_csv(tmp_path / "names.txt", "six\none\r\n two\n")
        asked: list[Path | str] = ["--ask", names]
        if kind in ("hunt", "rappor"):
            asked = [] if kind == "hunt" else ["--candidates", names]
        found = estimate(capsys, *parts, *asked)
        assert found["users"] == sum(TRUTH)
        rows = {row["value"]: row for row in found["values"]}
        # The least frequent string lies 10 standard errors above nothing and more.
        assert set(rows) == set(NAMES)
        for name, truth in zip(NAMES, TRUTH, strict=True):
            row = rows[name]
            assert abs(row["count"] - truth) < 8 * row["standard_error"]
            assert row["standard_error"] < truth / 10
            assert row["low"] < row["count"] < row["high"]

    def test_names_on_the_command_line(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = reports(tmp_path, "r.csv", ["a"] * 300 + ["b"] * 200, *SKETCH)
        found = estimate(capsys, path, "--names", "b, a", "--top", "1")
        names = write_csv(tmp_path / "names.txt", "b\na\n")
        assert found == estimate(capsys, path, "--ask", names, "--top", "1")
        assert len(found["values"]) == 1

    @pytest.mark.parametrize("kind", KINDS)
    def test_reports_in_batches(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        kind: str,
    ) -> None:
        values = [1.5, 3.0] * 500 if kind == "mean" else ["one", "two"] * 500
        monkeypatch.setattr("fastdp.cli.collect._GROUP_ROWS", 300)
        path = reports(tmp_path, "r.parquet", values, *KINDS[kind])
        file = parquet.ParquetFile(path).metadata
        groups = [file.row_group(i).num_rows for i in range(file.num_row_groups)]
        assert groups == [300, 300, 300, 100]
        names = write_csv(tmp_path / "names.txt", "one\ntwo\n")
        asked: list[Path | str] = []
        if kind in ("hadamard", "unary", "rappor"):
            asked = ["--candidates" if kind == "rappor" else "--ask", names]
        whole = estimate(capsys, path, *asked)
        monkeypatch.setattr("fastdp.cli.estimate._BATCH_BYTES", 1000)
        assert estimate(capsys, path, *asked) == whole

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_description_is_read_as_it_was_written(
        self, tmp_path: Path, kind: str
    ) -> None:
        column = pa.array([], "double" if kind == "mean" else "string")
        for name in ("r.csv", "r.parquet"):
            path = reports(tmp_path, name, column, *KINDS[kind])
            read = _reports.read_description(place(path))
            assert _reports.parse(read.to_json(), path) == read
            assert read.mechanism.epsilon() == pytest.approx(4, rel=1e-9)
            assert read.mechanism.epsilon() <= 4

    @pytest.mark.parametrize("kind", ["mean", "hunt"])
    def test_the_table_and_the_picture(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
    ) -> None:
        pytest.importorskip("matplotlib")
        values: list[Any] = [3, 4] * 2000 if kind == "mean" else ["abc"] * 4000
        path = reports(tmp_path, "r.parquet", values, *KINDS[kind])
        words = [str(path), "-o", str(tmp_path / "t.parquet")]
        capsys.readouterr()
        assert main(["estimate", *words, "--plot", str(tmp_path / "p.png")]) == 0
        title, _, header, *lines = capsys.readouterr().out.splitlines()
        assert title.startswith("4,000 reports, ")
        assert title.endswith(" for each")
        assert "95 % interval" in header
        assert len(lines) == 1
        assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
        row = read_parquet(tmp_path / "t.parquet")
        found = estimate(capsys, path)
        expected = found if kind == "mean" else found["values"][0]
        assert {name: cell for name, (cell,) in row.items()} == {
            name: expected[name] for name in row
        }

    def test_nothing_was_frequent(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pytest.importorskip("matplotlib")
        path = reports(tmp_path, "r.csv", ["a"], *HUNT)
        picture = tmp_path / "p.png"
        found = estimate(capsys, path, "--plot", picture)
        assert len(found["values"]) <= 1
        assert picture.exists()


class TestCells:
    def test_numbers(self) -> None:
        cells = pa.array([3, None, 2**62])
        found = _cells.read_reals(cells, missing=np.nan)
        assert found.tolist()[::2] == [3.0, 2.0**53]
        assert np.isnan(found[1])
        found = _cells.read_reals(pa.array(["3", "x", None, "inf"]), missing=np.nan)
        assert np.isnan(found[1:3]).all()
        assert found.tolist()[::3] == [3.0, np.inf]

    def test_strings(self) -> None:
        for cells, expected in (
            (pa.array([" a\t", None, "b c", ""]), [b"a", None, b"b c", b""]),
            (pa.array([b"\xff ", b"x"]), [b"\xff", b"x"]),
            (pa.array([7, None, -1], "int8"), [b"7", None, b"-1"]),
            (pa.array([True, None]), [b"true", None]),
            (pa.array(["a", "b"]).dictionary_encode(), [b"a", b"b"]),
        ):
            assert _cells.read_strings(cells).to_pylist() == expected

    def test_cells_beyond_the_bounds_count_as_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = []
        real = fastdp.LocalMean.release

        def noted(own: Any, values: Any, **options: Any) -> Any:
            seen.append(np.array(values))
            return real(own, values, **options)

        monkeypatch.setattr(fastdp.LocalMean, "release", noted)
        source = write_csv(tmp_path / "in.csv", "c,d\n1.5,1\nx,1\n,1\n-7,1\n1e999,1\n")
        assert collect(source, tmp_path / "o.csv", *MEAN, "--epsilon", "4") == 0
        # The mechanism clamps, and counts what is no number as the lower bound.
        assert np.array_equal(
            seen[0], [1.5, np.nan, np.nan, -7, np.inf], equal_nan=True
        )

    def test_check(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = write_csv(tmp_path / "in.csv", "c,d\n1.5,1\nx,1\n30,1\n-2,1\n24,1\n")
        output = tmp_path / "o.csv"
        assert collect(source, output, *MEAN, "--epsilon", "4", "--check") == 0
        out = capsys.readouterr().out
        assert "3 of 5 cells would be read as something else" in out
        for line in ("'x'  read as 0", "'30'  read as 24", "'-2'  read as 0"):
            assert line in out
        source = write_csv(tmp_path / "in.csv", "c,d\nabc,1\n ,1\nabcd,1\n")
        assert collect(source, output, *HUNT, "--epsilon", "1", "--check") == 0
        out = capsys.readouterr().out
        assert "2 of 3 cells" in out
        assert "'abcd'  cut to 3 bytes" in out
        assert "read as the empty string" in out
        require_only(tmp_path, "in.csv")


class TestNothingLeaks:
    @pytest.mark.parametrize("extension", ["csv", "parquet"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_cells_show_nowhere(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        kind: str,
        extension: str,
    ) -> None:
        rows = f"x,c\n{SECRET},1\n1,{SECRET}\n2,{SECRET * 3}\n3,b,{SECRET}\n4,\xff\n"
        source = write_csv(tmp_path / "in.csv", rows.encode("latin-1"))
        output = tmp_path / f"out.{extension}"
        assert collect(source, output, *KINDS[kind], "--epsilon", "4") == 0
        captured = capsys.readouterr()
        assert SECRET not in captured.out + captured.err
        assert "5 reports of 'c'" in captured.err
        assert "timing class T0" in captured.err
        written = [path for path in tmp_path.iterdir() if path != source]
        text = b"".join(path.read_bytes() for path in written)
        assert SECRET.encode() not in text

    def test_a_wrong_file_of_names_is_not_shown(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        names = write_csv(tmp_path / "names.txt", f"{SECRET}\n{SECRET}\n")
        for option in ("--ask", "--candidates"):
            assert main(["estimate", "never.csv", option, str(names)]) == 2
            error = capsys.readouterr().err
            assert (
                f"{option} must have each name once: those at positions 1 and 2"
                in error
            )
            assert SECRET not in error


class TestUsage:
    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (["--mechanism", "local-mean"], "--bounds LOW,HIGH must be given"),
            (["--mechanism", "local-mean", "--bounds", "1"], "--bounds: must be LOW"),
            (["--mechanism", "local-mean", "--bounds", "1,x"], "--bounds"),
            (["--mechanism", "local-mean", "--bounds", "3,1"], "bounds must have low"),
            (["--mechanism", "local-mean", "--bounds", "1,1"], "bounds must have low"),
            ([*MEAN, "--categories", "a,b"], "--categories must be left out"),
            ([*MEAN, "--other", "a"], "--other must be left out"),
            ([*MEAN, "--rows", "4"], "--rows must be left out"),
            ([*SKETCH, "--bounds", "0,1"], "--bounds must be left out"),
            ([*SKETCH, "--bits", "8"], "--bits must be left out"),
            ([*SKETCH, "--rows", "5"], "rows must be a power of two"),
            ([*SKETCH, "--key", "x"], "key must be 32 hex digits"),
            ([*SKETCH, "--inner", "x"], "--inner"),
            ([*HUNT, "--bits", "9"], "bits must be a multiple of 8"),
            ([*HUNT, "--most", "0"], "most must be"),
            ([*RAPPOR, "--hashes", "0"], "hashes must be"),
            ([*RAPPOR, "--categories-file", "x"], "--categories-file must be left"),
            (["--categories", "a,b", "--bounds", "0,1"], "--bounds must be left out"),
            ([*MEAN, "--workers", "0"], "workers"),
            ([*MEAN, "--epsilon", "0"], "epsilon"),
            ([*RAPPOR, "--epsilon", "1e-30"], "epsilon"),
        ],
    )
    def test_parameters_are_refused_by_name_before_the_input_is_opened(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        options: list[str],
        named: str,
    ) -> None:
        missing = tmp_path / "never-opened.csv"
        assert collect(missing, tmp_path / "o.csv", "--epsilon", "1", *options) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert named in error
        require_only(tmp_path)

    @pytest.mark.parametrize(
        ("options", "kind", "message"),
        [
            (MEAN, "string", "must hold integers or floats, got string"),
            (MEAN, "date32", "must hold integers or floats, got date32"),
            (SKETCH, "double", "must hold text, integers or bools, got double"),
            (HUNT, "date32", "must hold text, integers or bools, got date32"),
        ],
    )
    def test_columns_of_another_type(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        options: list[str],
        kind: str,
        message: str,
    ) -> None:
        source = write_parquet(tmp_path / "in.parquet", {"c": pa.nulls(2, kind)})
        assert collect(source, tmp_path / "o.csv", *options, "--epsilon", "1") == 2
        assert f"--column 'c' {message}" in capsys.readouterr().err
        require_only(tmp_path, "in.parquet")

    @pytest.mark.parametrize(
        ("kind", "options", "message"),
        [
            ("mean", ["--top", "2"], "--top must be left out"),
            ("mean", ["--consistent"], "--consistent must be left out"),
            ("mean", ["--names", "a"], "--ask or --names must be left out"),
            ("hadamard", [], "--ask or --names must be given"),
            ("hadamard", ["--names", "a,,b"], "--names must not contain an empty name"),
            ("hunt", ["--names", "a"], "--ask or --names must be left out"),
            ("rappor", [], "--candidates must be given"),
            ("rappor", ["--names", "a"], "--ask or --names must be left out"),
        ],
    )
    def test_options_of_other_reports(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        kind: str,
        options: list[str],
        message: str,
    ) -> None:
        values: list[Any] = [1] if kind == "mean" else ["a"]
        path = reports(tmp_path, "r.csv", values, *KINDS[kind])
        capsys.readouterr()
        assert main(["estimate", str(path), *options]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert message in captured.err

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"type": "LocalMean"', '"type": "PrefixHunt"'),
            ('"parameters"', '"parameter"'),
            ('"ratio"', '"ration"'),
            ("local-mean", "prefix-hunt"),
            ('"fastdp mechanism"', '"a mechanism"'),
        ],
    )
    def test_damaged_descriptions(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str
    ) -> None:
        path = reports(tmp_path, "r.csv", [1, 2], *MEAN)
        beside = tmp_path / "r.csv.json"
        assert old in beside.read_text()
        beside.write_text(beside.read_text().replace(old, new))
        capsys.readouterr()
        assert main(["estimate", str(path)]) == 6
        assert "r.csv has a damaged description" in capsys.readouterr().err

    def test_reports_of_other_bounds_do_not_belong_together(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        parts = [
            reports(tmp_path, f"{high}.csv", [1], *MEAN, "--bounds", f"0,{high}")
            for high in (24, 25)
        ]
        assert main(["estimate", *map(str, parts)]) == 6
        assert "REPORTS must be of one mechanism" in capsys.readouterr().err


@pytest.mark.parametrize("epsilon", [0.01, 1, 4, 40])
def test_rappor_from_epsilon_is_within_it(epsilon: float) -> None:
    m = fastdp.Rappor.from_epsilon(epsilon, p=0.5, q=0.75, hashes=3)
    assert m.epsilon() <= epsilon
    assert m.epsilon() == pytest.approx(epsilon, rel=1e-9)
    assert m.hashes == 3
