"""fastdp collect: nothing leaks, whole output or none, usage."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastdp
from fastdp.cli import _outputs, _reports, _text_files
from tests.tables import (
    SECRET,
    pa,
    parquet,
    place,
    require_only,
    write_csv,
    write_parquet,
)
from tests.unit.test_cli_collect import ABC, EXACT, MECHANISMS, collect


class TestNothingLeaks:
    @pytest.mark.parametrize("extension", ["csv", "parquet"])
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_cells_show_nowhere(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        mechanism: str,
        extension: str,
    ) -> None:
        rows = f"x,c\n{SECRET},a\n1,{SECRET}\n2,{SECRET * 3}\n3,b,{SECRET}\n4,\xff\n"
        source = write_csv(tmp_path / "in.csv", rows.encode("latin-1"))
        output = tmp_path / f"out.{extension}"
        options = ["--epsilon", "1", "--mechanism", mechanism]
        for domain in (ABC, ["--column", "c", "--categories", "9"]):
            assert collect(source, output, *domain, *options) == 0
            captured = capsys.readouterr()
            assert SECRET not in captured.out + captured.err
            written = [p for p in tmp_path.iterdir() if p != source]
            assert len(written) == (2 if extension == "csv" else 1)
            text = b"".join(path.read_bytes() for path in written)
            assert SECRET.encode() not in text

    def test_a_wrong_file_of_categories_is_not_shown(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for content, rule in (
            (
                f"{SECRET}\n{SECRET}\n",
                "have each name once: those at positions 1 and 2",
            ),
            (f"{SECRET}\n\nb\n", "not contain an empty name, got one at position 2"),
            (b"\xff" + SECRET.encode(), "be UTF-8 text"),
        ):
            file = write_csv(tmp_path / "names.txt", content)
            options = ["--column", "c", "--categories-file", str(file), *EXACT]
            code = collect(tmp_path / "in.csv", tmp_path / "out.csv", *options)
            assert code in (2, 6)
            error = capsys.readouterr().err
            assert f"--categories-file must {rule}" in error
            assert SECRET not in error

    def test_a_header_that_is_data(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = write_csv(tmp_path / "in.csv", f"{SECRET},{SECRET}\n1,2\n")
        assert collect(source, tmp_path / "o.csv", *ABC, *EXACT) == 2
        error = capsys.readouterr().err
        assert "--column must be in INPUT, got 'c'" in error
        assert SECRET not in error

    def test_an_unforeseen_error_is_named_by_its_type_alone(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise KeyError(SECRET)

        monkeypatch.setattr(fastdp.RandomizedResponse, "release", fail)
        source = write_csv(tmp_path / "in.csv", "c\na\n")
        assert collect(source, tmp_path / "out.csv", *ABC, *EXACT) == 70
        assert capsys.readouterr().err == "fastdp: internal error (KeyError)\n"
        require_only(tmp_path, "in.csv")

    def test_the_metadata_of_the_input_stays_behind(self, tmp_path: Path) -> None:
        field = pa.field("c", pa.string(), metadata={"note": SECRET})
        schema = pa.schema([field], metadata={"note": SECRET})
        table = pa.table({"c": ["a"]}, schema=schema)
        source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
        parquet.write_table(table, source)
        assert SECRET.encode() in source.read_bytes()
        assert collect(source, output, *ABC, *EXACT) == 0
        assert SECRET.encode() not in output.read_bytes()


class TestWholeOrNotAtAll:
    @pytest.mark.parametrize("extension", ["csv", "parquet"])
    def test_an_interrupt_midway_leaves_nothing(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        extension: str,
    ) -> None:
        monkeypatch.setattr("fastdp.cli.collect._GROUP_ROWS", 1000)
        real: Callable[..., Any] = fastdp.RandomizedResponse.release
        calls = 0

        def interrupted(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 3:
                assert len(list(tmp_path.glob(".out.*.part"))) in (1, 2)
                raise KeyboardInterrupt
            return real(*args, **kwargs)

        monkeypatch.setattr(fastdp.RandomizedResponse, "release", interrupted)
        source = write_parquet(tmp_path / "in.parquet", {"c": ["a"] * 5000})
        assert collect(source, tmp_path / f"out.{extension}", *ABC, *EXACT) == 130
        assert calls == 3
        assert capsys.readouterr().err == "fastdp: interrupted\n"
        require_only(tmp_path, "in.parquet")

    def test_a_failure_leaves_older_outputs_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(_text_files.TextSink, "_write_lines", full)
        source = write_csv(tmp_path / "in.csv", "c\na\n")
        output = write_csv(tmp_path / "out.csv", "old")
        note = write_csv(tmp_path / "out.csv.json", "old note")
        assert collect(source, output, *ABC, *EXACT) == 7
        assert (output.read_text(), note.read_text()) == ("old", "old note")
        require_only(tmp_path, "in.csv", "out.csv", "out.csv.json")

    def test_new_reports_never_stand_beside_an_old_description(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real: Callable[..., Any] = _outputs.AtomicOutput._publish

        def publish(output: _outputs.AtomicOutput) -> None:
            if output.path.suffix == ".json":
                raise KeyboardInterrupt
            real(output)

        monkeypatch.setattr(_outputs.AtomicOutput, "_publish", publish)
        source = write_csv(tmp_path / "in.csv", "c\na\n")
        write_csv(tmp_path / "out.csv", "old")
        write_csv(tmp_path / "out.csv.json", "old note")
        assert collect(source, tmp_path / "out.csv", *ABC, *EXACT) == 130
        require_only(tmp_path, "in.csv", "out.csv")

    def test_success_replaces_older_outputs(self, tmp_path: Path) -> None:
        source = write_csv(tmp_path / "in.csv", "c\nb\n")
        output = write_csv(tmp_path / "out.csv", "old")
        write_csv(tmp_path / "out.csv.json", "old note")
        assert collect(source, output, *ABC, *EXACT) == 0
        assert output.read_text() == "report\n1\n"
        assert _reports.read_description(place(output)).names == ("a", "b", "c")
        require_only(tmp_path, "in.csv", "out.csv", "out.csv.json")

    def test_never_over_what_is_read(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = write_csv(tmp_path / "in.csv", "c\na\n")
        assert collect(source, source, *ABC, *EXACT) == 2
        assert "--output must be another file than INPUT" in capsys.readouterr().err
        names = write_csv(tmp_path / "out.csv.json", "a\nb\n")
        options = ["--column", "c", "--categories-file", str(names), *EXACT]
        assert collect(source, tmp_path / "out.csv", *options) == 2
        error = capsys.readouterr().err
        assert "--output must be another file than --categories-file" in error
        assert source.read_text() == "c\na\n"
        assert names.read_text() == "a\nb\n"

    def test_files_that_cannot_be_opened(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source, output = tmp_path / "none.csv", tmp_path / "none" / "out.csv"
        assert collect(source, output, *ABC, *EXACT) == 6
        assert "none.csv: No such file" in capsys.readouterr().err
        write_csv(source, "c\na\n")
        assert collect(source, output, *ABC, *EXACT) == 6
        assert "cannot write" in capsys.readouterr().err
        options = ["--column", "c", "--categories-file", str(output), *EXACT]
        assert collect(source, tmp_path / "out.csv", *options) == 6
        assert "cannot read" in capsys.readouterr().err
        require_only(tmp_path, "none.csv")


class TestUsage:
    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (["--categories", "a,b"], "--epsilon"),
            (["--epsilon", "1"], "--categories"),
            (["--categories", "a,b", "--epsilon", "0"], "epsilon"),
            (["--categories", "a,b", "--epsilon", "nan"], "--epsilon"),
            (["--categories", "a,b", "--epsilon", "x"], "--epsilon"),
            (["--categories", "1", "--epsilon", "1"], "categories"),
            (["--categories", "a", "--epsilon", "1"], "categories"),
            (["--categories", "", "--epsilon", "1"], "--categories"),
            (["--categories", "a,,b", "--epsilon", "1"], "--categories"),
            (["--categories", "a,b,a", "--epsilon", "1"], "--categories"),
            (["--categories", "9" * 18, "--epsilon", "1"], "categories"),
            (["--categories", "a,b", "--epsilon", "1", "--other", "c"], "--other"),
            (["--categories", "5", "--epsilon", "1", "--other", "5"], "--other"),
            (["--categories", "5", "--epsilon", "1", "--other", "-1"], "--other"),
            (
                ["--categories", "uniform,b", "--epsilon", "1", "--other", "uniform"],
                "--other",
            ),
            (["--categories", "a,b", "--epsilon", "1", "--workers", "0"], "workers"),
            (["--categories", "a,b", "--epsilon", "1", "--mechanism", "x"], "--mech"),
            (
                ["--categories", "a,b", "--categories-file", "x", "--epsilon", "1"],
                "--categories",
            ),
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
        assert collect(missing, tmp_path / "o.csv", "--column", "c", *options) == 2
        error = capsys.readouterr().err
        assert error.startswith("fastdp: ")
        assert error.count("\n") == 1
        assert named in error
        require_only(tmp_path)

    @pytest.mark.parametrize(
        ("source", "output", "option"),
        [("in.txt", "out.csv", "INPUT"), ("in.csv", "out.xlsx", "--output")],
    )
    def test_formats(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        source: str,
        output: str,
        option: str,
    ) -> None:
        assert collect(tmp_path / source, tmp_path / output, *ABC, *EXACT) == 2
        assert f"{option} must end in .csv, .csv.gz, " in capsys.readouterr().err

    def test_without_pyarrow_the_extra_is_named(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        assert collect(tmp_path / "in.csv", tmp_path / "o.csv", *ABC, *EXACT) == 1
        error = capsys.readouterr().err
        assert 'fastdp collect needs pyarrow: pip install "fastdp[cli]"' in error
