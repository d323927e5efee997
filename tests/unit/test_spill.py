"""Folders of spilled rows: removed at the end, or by the next run after a kill."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _spill, exceptions
from fastdp.cli import _outputs, main
from tests.tables import SECRET, write_parquet

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")
pytest.importorskip("fcntl")

HOLDER = """
import os
from fastdp._spill import Spill
spill = Spill()
(spill.path / "rows").write_bytes(b"private")
print(spill.path, flush=True)
input()
os._exit(0)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A TMPDIR of its own."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@contextlib.contextmanager
def holder() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a process that holds a folder, until the end or until it is killed."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLDER], **pipes) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.communicate("\n")


def left_behind() -> Path:
    """Return the folder of a process that was killed."""
    with holder() as (process, folder):
        process.kill()
        process.wait()
    assert (folder / "rows").exists()
    return folder


def test_the_next_run_removes_what_a_killed_one_left(temporary: Path) -> None:
    with holder() as (_, its):
        left = left_behind()
        (temporary / "fastdp-spill-none").mkdir()  # of nobody: it has no owner
        (temporary / "fastdp-spill-link").symlink_to(its)
        assert _spill.remove_abandoned() == 1
        assert not left.exists()
        assert (its / "rows").read_bytes() == b"private"  # of one that runs
        assert its.stat().st_mode & 0o777 == 0o700
    assert its.exists()  # it ended without `cleanup`
    with _spill.Spill() as own:  # each start looks
        assert not its.exists()
        assert _spill.remove_abandoned() == 0
    assert not own.exists()
    assert (temporary / "fastdp-spill-none").exists()


def test_the_command_removes_them_and_says_so(
    temporary: Path, tmp_path: Path, capsys: Any
) -> None:
    left_behind()
    source = write_parquet(tmp_path / "in.parquet", {"x": [1.0]})
    line = ["--rows-are", "row", "--count", "--epsilon", "1", "-o"]
    assert main(["aggregate", str(source), *line, str(tmp_path / "out.csv")]) == 0
    said = capsys.readouterr().err
    assert "removed 1 folder that killed runs had left in TMPDIR" in said
    assert list(temporary.iterdir()) == []


def test_the_next_run_removes_a_file_that_was_half_written(tmp_path: Path) -> None:
    path, other = tmp_path / "out.csv", tmp_path / ".out.csv.0.part"
    for name in (".out.csv.0123456789abcdef.part", ".out.csv.0123456789abcdef.old"):
        (tmp_path / name).write_text("left by a kill")
    other.write_text("of something else")
    with _outputs.AtomicOutput(path) as first, _outputs.AtomicOutput(path) as second:
        assert {*tmp_path.iterdir()} == {first, second, other}
        first.write_text("whole")
    assert {*tmp_path.iterdir()} == {path, other}


def test_a_pipe_of_such_a_name_stops_no_run(tmp_path: Path) -> None:
    pipe = tmp_path / ".out.csv.0123456789abcdef.part"
    os.mkfifo(pipe)
    every = re.compile(".*")
    run = threading.Thread(target=_spill.remove_files, args=(tmp_path, every))
    run.daemon = True
    run.start()
    run.join(10)
    assert not run.is_alive()
    assert pipe.exists()


ENDING = (signal.SIGTERM, signal.SIGHUP)

PLAN: dict[str, Any] = {
    "unit": fastdp.Unit("who", records=1),
    "mean": "x",
    "bounds": {"x": (0, 1)},
    "epsilon": 1,
}


@pytest.fixture
def _signals_arrive() -> Iterator[None]:
    """Signals have their handlers, also where tests run in the background."""
    kept = {n: signal.getsignal(n) for n in (signal.SIGINT, *ENDING)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.rest
@pytest.mark.usefixtures("_signals_arrive")
def test_a_signal_ends_a_query_of_a_file(temporary: Path, tmp_path: Path) -> None:
    # Seconds of DuckDB's own, in which it calls no Python.
    n = 6_000_000
    columns = {"who": np.arange(n) // 3, "x": np.full(n, 0.5)}
    source = write_parquet(tmp_path / "in.parquet", columns)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        fastdp.Plan(**PLAN).release(source)
    timer.join()
    assert list(temporary.iterdir()) == []


@pytest.mark.usefixtures("_signals_arrive")
@pytest.mark.parametrize("number", [signal.SIGINT, *ENDING])
def test_a_command_that_is_ended_leaves_nothing(
    temporary: Path, tmp_path: Path, monkeypatch: Any, capsys: Any, number: int
) -> None:
    lines = "".join(f"{i},0.5\n" for i in range(50_000))
    source = tmp_path / "in.csv"
    source.write_text(f"who,x\n{lines}")
    from fastdp.cli import _cells

    read, sent = _cells.read_names, threading.Event()

    def told(column: Any) -> Any:
        if not sent.is_set():  # in a thread of DuckDB's
            sent.set()
            os.kill(os.getpid(), number)
        return read(column)

    monkeypatch.setattr(_cells, "read_names", told)
    words = "--unit who --records 1 --mean x --bounds x=0,1 --epsilon 1 -o"
    output = tmp_path / "out.csv"
    assert main(["aggregate", str(source), *words.split(), str(output)]) == 128 + number
    assert sent.is_set()
    assert not output.exists()
    assert list(temporary.iterdir()) == []
    assert "internal error" not in capsys.readouterr().err


def test_memory_that_runs_out_has_an_exit_code(
    temporary: Path, tmp_path: Path, capsys: Any
) -> None:
    columns = {"who": [SECRET] * 100, "x": [0.5] * 100}
    source = write_parquet(tmp_path / "in.parquet", columns)
    words = "--unit who --records 1 --mean x --bounds x=0,1 --epsilon 1 -o"
    output = tmp_path / "out.csv"
    line = [*words.split(), str(output), "--memory", "1KB"]
    assert main(["aggregate", str(source), *line]) == 7
    said = capsys.readouterr().err
    assert "DuckDB used up the 1KB" in said
    assert SECRET not in said
    assert not output.exists()
    assert list(temporary.iterdir()) == []
    with pytest.raises(exceptions.ExhaustedError):
        fastdp.Plan(**PLAN).release(source, memory="1KB")
