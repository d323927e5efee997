"""``fastdp release``: what is never seen, and outputs that are whole or not there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import fastdp
from fastdp.cli import _outputs, _text_files, main
from fastdp.cli._numbers import as_text, number, written
from fastdp.exceptions import FastDPError
from tests.tables import (
    EXACT,
    SECRET,
    release,
    require_only,
    write_csv,
    write_parquet,
)


class TestNothingLeaks:
    def leaks(self, capsys: pytest.CaptureFixture[str]) -> bool:
        captured = capsys.readouterr()
        return SECRET in captured.out + captured.err

    def require_one_line(self, capsys: pytest.CaptureFixture[str]) -> str:
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("fastdp: ")
        assert captured.err.count("\n") == 1
        assert SECRET not in captured.err
        return captured.err

    @pytest.mark.parametrize(
        "cell",
        [SECRET * 9, f"x{SECRET}", f"1,{SECRET}", f'"{SECRET}', f"\\xff{SECRET}"],
    )
    def test_private_cells_never_show(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], cell: str
    ) -> None:
        source = write_csv(tmp_path / "in.csv", f"a,n\n1,2\n3,{cell}\n4,5\n")
        release(source, tmp_path / "out.csv", "--column", "n", *EXACT)
        assert not self.leaks(capsys)

    def test_bytes_that_are_no_text_in_a_row_of_wrong_length(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        broken = f"a,n\n1,2\n3,4,{SECRET}".encode() + b"\xff\n4,5\n"
        source = write_csv(tmp_path / "in.csv", broken)
        output = tmp_path / "out.csv"
        assert release(source, output, "--column", "n", *EXACT) == 0
        assert output.read_text() == "n\n2\n0\n5\n"
        captured = capfd.readouterr()
        assert SECRET not in captured.out + captured.err
        assert "Exception" not in captured.err

    @pytest.mark.parametrize("quote", ["", '"'])
    def test_a_cell_longer_than_a_block_is_unreadable(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], quote: str
    ) -> None:
        # It ended the release at 17 MB, with "not a valid csv table".
        cell = quote + SECRET * (17_000_000 // len(SECRET)) + quote
        text = f"k,n,m\na,2,3\nb,{cell},4\nc,5,6\n"
        source, output = write_csv(tmp_path / "in.csv", text), tmp_path / "out.csv"
        options = ["--column", "n", "--column", "m", "--keep", "k", *EXACT]
        assert release(source, output, *options) == 0
        assert output.read_text() == "k,n,m\na,2,3\nb,0,4\nc,5,6\n"
        assert not self.leaks(capsys)

    def test_the_reading_of_a_long_cell_does_not_depend_on_its_place(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Blocks of 256 bytes: cells of up to 32 are read, 16 where there are two.
        monkeypatch.setattr(_text_files, "_BLOCK_BYTES", 256)
        for length, value in ((32, 7), (33, 0), (200, 0), (700, 0)):
            for before in range(0, 300, 37):
                lines = [f"{'x' * before},1", f"{'y' * 300},{'7'.rjust(length, '0')}"]
                source = write_csv(
                    tmp_path / "in.csv", "\n".join(["a,n", *lines, "z,3"])
                )
                output = tmp_path / "out.csv"
                assert release(source, output, "--column", "n", *EXACT) == 0
                assert output.read_text() == f"n\n1\n{value}\n3\n"

    def test_a_long_header_is_refused_and_not_shown(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(_text_files, "_BLOCK_BYTES", 64)
        source = write_csv(tmp_path / "in.csv", SECRET * 99 + ",n\n1,2\n")
        assert release(source, tmp_path / "o.csv", "--column", "n", *EXACT) == 6
        assert self.require_one_line(capsys).endswith("not a valid csv table\n")
        require_only(tmp_path, "in.csv")

    def test_a_header_that_is_data_never_shows(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = write_csv(tmp_path / "in.csv", f"{SECRET},{SECRET}\n1,2\n")
        assert release(source, tmp_path / "o.csv", "--column", "n", *EXACT) == 2
        line = self.require_one_line(capsys)
        assert "--column must be in INPUT, got 'n': of a text file the first" in line

    @pytest.mark.parametrize("content", [b"", b"\n", SECRET.encode() * 99])
    @pytest.mark.parametrize("name", ["in.csv", "in.parquet"])
    def test_files_that_are_no_tables(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        name: str,
        content: bytes,
    ) -> None:
        source = write_csv(tmp_path / name, content)
        code = release(source, tmp_path / "out.csv", "--column", "n", *EXACT)
        assert code in (2, 6)
        self.require_one_line(capsys)
        require_only(tmp_path, name)

    def test_a_parquet_file_that_breaks_off(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        values = [int(f"{SECRET}{i}") for i in range(5000)]
        source = write_parquet(tmp_path / "in.parquet", {"n": values})
        content = bytearray(source.read_bytes())
        content[200:4000] = bytes(3800)
        source.write_bytes(bytes(content))
        assert release(source, tmp_path / "o.parquet", "--column", "n", *EXACT) == 6
        assert "cannot read" in self.require_one_line(capsys)
        require_only(tmp_path, "in.parquet")

    def test_an_unforeseen_error_is_named_by_its_type_alone(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise KeyError(SECRET)

        monkeypatch.setattr(fastdp.DiscreteLaplace, "release", fail)
        source = write_csv(tmp_path / "in.csv", "n\n1\n")
        assert release(source, tmp_path / "out.csv", "--column", "n", *EXACT) == 70
        assert self.require_one_line(capsys) == "fastdp: internal error (KeyError)\n"
        require_only(tmp_path, "in.csv")


class TestWholeOrNotAtAll:
    @pytest.mark.parametrize("extension", ["csv", "parquet"])
    def test_an_interrupt_midway_leaves_nothing(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        extension: str,
    ) -> None:
        monkeypatch.setattr("fastdp.cli.release._CELLS_PER_WRITE", 8192)
        real: Callable[..., Any] = fastdp.DiscreteLaplace.release
        calls = 0

        def interrupted(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 3:
                # The first groups are on the disk by now, under another name.
                assert len(list(tmp_path.glob(".out.*.part"))) == 1
                raise KeyboardInterrupt
            return real(*args, **kwargs)

        monkeypatch.setattr(fastdp.DiscreteLaplace, "release", interrupted)
        source = write_parquet(tmp_path / "in.parquet", {"n": list(range(5000))})
        output = tmp_path / f"out.{extension}"
        assert release(source, output, "--column", "n", *EXACT) == 130
        assert calls == 3
        assert capsys.readouterr().err == "fastdp: interrupted\n"
        require_only(tmp_path, "in.parquet")

    def test_a_failure_leaves_an_older_output_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(_text_files.TextSink, "_write_lines", full)
        source = write_csv(tmp_path / "in.csv", "n\n1\n")
        output = write_csv(tmp_path / "out.csv", "old")
        assert release(source, output, "--column", "n", *EXACT) == 7
        assert output.read_text() == "old"
        require_only(tmp_path, "in.csv", "out.csv")

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
    @pytest.mark.parametrize("other", [None, RuntimeError, FastDPError])
    def test_a_signal_to_end_leaves_nothing(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        number: signal.Signals,
        other: type[Exception] | None,
    ) -> None:
        source = write_csv(tmp_path / "in.csv", "n\n1\n")
        temporary = []

        def publish(output: _outputs.AtomicOutput) -> None:
            temporary.extend(tmp_path.glob("*.part") or tmp_path.glob(".*.part"))
            try:
                os.kill(os.getpid(), number)
            except BaseException:
                if other is None:
                    raise
                # A library makes an error of its own of what a callback raises, and
                # a second signal comes meanwhile.
                os.kill(os.getpid(), signal.SIGTERM)
                raise other(SECRET) from None

        monkeypatch.setattr(_outputs.AtomicOutput, "_publish", publish)
        usual = signal.default_int_handler if number == signal.SIGINT else None
        before = signal.signal(number, usual or signal.SIG_DFL)  # nohup ignores SIGHUP
        try:
            code = release(source, tmp_path / "out.csv", "--column", "n", *EXACT)
            assert signal.getsignal(number) is (usual or signal.SIG_DFL)
        finally:
            signal.signal(number, before)
        assert code == 128 + number
        word = "interrupted" if number == signal.SIGINT else "terminated"
        assert capsys.readouterr().err == f"fastdp: {word}\n"
        assert len(temporary) == 1
        require_only(tmp_path, "in.csv")

    def test_a_signal_that_a_library_loses_is_told_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = write_csv(tmp_path / "in.csv", "n\n1\n")
        lost = []

        def publish(output: _outputs.AtomicOutput) -> None:
            for _ in range(3):
                try:
                    os.kill(os.getpid(), signal.SIGTERM) if not lost else time.sleep(5)
                except BaseException as error:
                    lost.append(error)
            time.sleep(5)
            raise AssertionError

        monkeypatch.setattr(_outputs.AtomicOutput, "_publish", publish)
        output = tmp_path / "out.csv"
        assert release(source, output, "--column", "n", *EXACT) == 128 + signal.SIGTERM
        assert len(lost) == 3
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        require_only(tmp_path, "in.csv")

    @pytest.mark.rest
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
    def test_a_signal_during_a_group_by(
        self, tmp_path: Path, number: signal.Signals
    ) -> None:
        # What is longer than the reader's head and a pipe has been asked for by DuckDB.
        asked = "aggregate - --rows-are row --by k --count --epsilon 1"
        asked += " --delta 1e-6 -o out.csv"
        usual = "default_int_handler" if number == signal.SIGINT else "SIG_DFL"
        code = (
            "import signal; from fastdp.cli.__main__ import program; "
            f"signal.signal({int(number)}, signal.{usual}); program()"
        )
        command = [sys.executable, "-c", code, *asked.split()]
        spill = tmp_path / "spill"
        spill.mkdir()
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(spill)},
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        with process:
            process.stdin.write(b"k\n" + b"abcdefg\n" * (3 << 20))
            process.stdin.flush()
            process.send_signal(number)
            try:
                process.wait(timeout=120)  # the pipe stays open
            finally:
                process.kill()
            assert process.stderr is not None
            said = process.stderr.read()
        word = b"interrupted" if number == signal.SIGINT else b"terminated"
        assert said == b"fastdp: " + word + b"\n"
        assert process.returncode == 128 + number
        require_only(spill)
        require_only(tmp_path, "spill")

    @pytest.mark.rest
    def test_an_input_that_is_not_read_to_its_end(self, tmp_path: Path) -> None:
        # Arrow reads ahead, and waits for a pipe that stays open.
        asked = "aggregate - --rows-are row --by k --count --epsilon 1"
        asked += " --delta 1e-6 -o out.csv"
        with subprocess.Popen(
            [sys.executable, "-m", "fastdp.cli", *asked.split(), "--sql"],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(b"k\n" + b"abcdefg\n" * (3 << 20))
                process.stdin.flush()
            try:
                assert process.wait(timeout=120) == 0
            finally:
                process.kill()
            assert b" group by " in process.stdout.read()

    def test_success_replaces_an_older_output(self, tmp_path: Path) -> None:
        source = write_csv(tmp_path / "in.csv", "n\n1\n")
        output = write_csv(tmp_path / "out.csv", "old")
        assert release(source, output, "--column", "n", *EXACT) == 0
        assert output.read_text() == "n\n1\n"
        require_only(tmp_path, "in.csv", "out.csv")

    def test_the_output_has_the_permissions_of_the_umask(self, tmp_path: Path) -> None:
        source = write_csv(tmp_path / "in.csv", "n\n1\n")
        output = tmp_path / "out.csv"
        before = os.umask(0o027)
        try:
            assert release(source, output, "--column", "n", *EXACT) == 0
        finally:
            os.umask(before)
        assert output.stat().st_mode & 0o777 == 0o640

    @pytest.mark.parametrize("link", [None, "symbolic", "hard"])
    def test_never_over_the_input(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str | None
    ) -> None:
        source = write_csv(tmp_path / "in.csv", "n\n1\n")
        output = tmp_path / "folder" / ".." / "in.csv"
        (tmp_path / "folder").mkdir()
        if link == "symbolic":
            (output := tmp_path / "link.csv").symlink_to(source)
        elif link == "hard":
            (output := tmp_path / "link.csv").hardlink_to(source)
        assert release(source, output, "--column", "n", *EXACT) == 2
        assert "--output must be another file than INPUT" in capsys.readouterr().err
        assert source.read_text() == "n\n1\n"

    def test_a_folder_that_is_missing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = write_csv(tmp_path / "in.csv", "n\n1\n")
        output = tmp_path / "none" / "out.csv"
        assert release(source, output, "--column", "n", *EXACT) == 6
        assert "No such file or directory" in capsys.readouterr().err

    def test_an_input_that_is_missing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in ("none.csv", "none.parquet"):
            code = release(tmp_path / name, tmp_path / "o.csv", "--column", "n", *EXACT)
            assert code == 6
            error = capsys.readouterr().err
            assert name in error
            assert "No such file or directory" in error
        require_only(tmp_path)


class TestUsage:
    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (["discrete-laplace", "--epsilon", "0"], "epsilon"),
            (["discrete-laplace", "--epsilon", "-1"], "epsilon"),
            (["discrete-laplace", "--epsilon", "nan"], "--epsilon"),
            (["discrete-laplace", "--epsilon", "inf"], "--epsilon"),
            (["discrete-laplace", "--epsilon", "1/0"], "--epsilon"),
            (["discrete-laplace", "--epsilon", "one"], "--epsilon"),
            (["discrete-laplace", "--epsilon", "1e99999"], "--epsilon"),
            (["discrete-laplace"], "--epsilon"),
            (["discrete-laplace", "--rho", "1"], "--epsilon"),
            (["laplace", "--epsilon", "1", "--delta", "0.1"], "--epsilon"),
            (["gaussian", "--epsilon", "1"], "--delta"),
            (["gaussian", "--rho", "1", "--epsilon", "1"], "--rho"),
            (["discrete-gaussian", "--epsilon", "1", "--delta", "1"], "delta"),
            (["discrete-gaussian", "--rho", "0"], "rho"),
            (["discrete-laplace", "--epsilon", "1", "--workers", "0"], "workers"),
            (["discrete-laplace", "--epsilon", "1", "--coordinates", "2"], "--coord"),
            (["discrete-laplace", "--epsilon", "1", "--granularity", "1"], "--gran"),
            (["uniform", "--epsilon", "1"], "--mechanism"),
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
        more = ["--column", "n", "--sensitivity", "1", "--mechanism", *options]
        assert release(missing, tmp_path / "out.csv", *more) == 2
        error = capsys.readouterr().err
        assert error.startswith("fastdp: ")
        assert error.count("\n") == 1
        assert named in error

    @pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
    def test_sensitivity(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
    ) -> None:
        options = ["--mechanism", "discrete-laplace", "--epsilon", "1"]
        more = ["--column", "n", "--sensitivity", value, *options]
        assert release(tmp_path / "in.csv", tmp_path / "out.csv", *more) == 2
        assert "sensitivity" in capsys.readouterr().err

    @pytest.mark.parametrize("column", ["a", "b"])
    def test_a_name_twice(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str
    ) -> None:
        source = write_csv(tmp_path / "in.csv", "a,b,b\n1,2,3\n")
        names = ["--column", column, *(["--keep", "a"] if column == "a" else [])]
        assert release(source, tmp_path / "out.csv", *names, *EXACT) == 2
        error = capsys.readouterr().err
        assert f"named {column!r}" in error or f"got {column!r}" in error

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
        files = tmp_path / source, tmp_path / output
        assert release(*files, "--column", "n", *EXACT) == 2
        assert f"{option} must end in .csv, .csv.gz, " in capsys.readouterr().err

    def test_without_pyarrow_the_extra_is_named(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        files = tmp_path / "in.csv", tmp_path / "out.csv"
        assert release(*files, "--column", "n", *EXACT) == 1
        assert 'pip install "fastdp[cli]"' in capsys.readouterr().err

    def test_no_command_and_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([]) == 2
        assert "COMMAND" in capsys.readouterr().err
        with pytest.raises(SystemExit) as stop:
            main(["--version"])
        assert stop.value.code == 0
        assert capsys.readouterr().out == f"fastdp {fastdp.__version__}\n"

    def test_as_a_module(self) -> None:
        command = [sys.executable, "-m", "fastdp.cli", "release", "--help"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "--sensitivity" in done.stdout

    def test_help_loads_neither_pyarrow_nor_the_kernels(self) -> None:
        code = (
            "import sys, fastdp.cli\n"
            "try: fastdp.cli.main(['release', '--help'])\n"
            "except SystemExit: pass\n"
            "loaded = {'pyarrow', 'scipy', 'statsmodels', 'fastdp._core'}\n"
            "sys.exit(len(loaded & set(sys.modules)))"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 0
        assert b"--sensitivity" in done.stdout

    @pytest.mark.parametrize("text", ["0.1", "1e-06", "3", "1/3", "123456789.5"])
    def test_parameters_are_exact_and_print_as_given(self, text: str) -> None:
        assert as_text(number(text)) == text

    def test_mechanisms_are_shown_with_decimals(self) -> None:
        third = Fraction(1, 3)
        shown = written(fastdp.DiscreteLaplace(scale=third, sensitivity=2))
        assert shown == "DiscreteLaplace(scale=0.333333333333, sensitivity=2)"
        mean = fastdp.LocalMean.from_epsilon(1, bounds=(0, third))
        assert "bounds=(0, 0.333333333333)" in written(mean)
        far = Fraction(10**600 + 1, 10**5)
        large = fastdp.DiscreteLaplace(scale=2, sensitivity=far)
        assert written(large) == f"DiscreteLaplace(scale=2, sensitivity={far})"
