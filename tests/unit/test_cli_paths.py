"""All paths of one command are different files, by whatever names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fastdp.cli import main

pytest.importorskip("pyarrow")

COUNT = "--column visits --mechanism discrete-laplace --epsilon 1 --sensitivity 1"
LEDGER = "--ledger L.db --budget b --label l"
RELEASE = f"release t.csv {COUNT}"
AGGREGATE = "aggregate t.csv --rows-are row --by k --count --epsilon 1"
COLLECT = "collect t.csv --column k --epsilon 1 --categories"
ESTIMATE = "estimate r.parquet r.csv"

#: Commands, each with two paths that are one.
TWICE = [
    f"{RELEASE} -o L.csv --ledger L.csv --budget b --label l",
    f"{RELEASE} -o new.csv --metadata L.db {LEDGER}",
    f"{RELEASE} -o new.csv --metadata L.db-wal {LEDGER}",
    f"{RELEASE} -o new.csv --metadata L.db-journal {LEDGER}",
    f"{RELEASE} -o L.db-locks/new.csv {LEDGER}",
    f"{RELEASE} -o new.csv --metadata witness.json {LEDGER}",
    f"{RELEASE} -o new.csv --metadata new.csv",
    f"{RELEASE} -o new.csv --metadata New.csv",
    f"{RELEASE} -o new.csv --metadata none/../new.csv",
    f"{RELEASE} -o new.csv --metadata new.csv.receipts.json {LEDGER}",
    f"{RELEASE} -o new.csv --metadata t.csv",
    f"{RELEASE} -o t.csv",
    f"release L.db --input-format csv {COUNT} -o new.csv {LEDGER}",
    f"{AGGREGATE} --keys keys.csv -o new.csv --metadata keys.csv",
    f"{AGGREGATE} --keys keys.csv -o keys.csv",
    f"{AGGREGATE} --keys t.csv -o new.csv",
    f"{AGGREGATE} --delta 1e-6 -o new.csv --plot L.png --metadata L.png",
    f"{AGGREGATE} --delta 1e-6 -o new.csv --metadata L.db {LEDGER}",
    f"{AGGREGATE} --delta 1e-6 -o new.csv --metadata witness.json {LEDGER}",
    f"{AGGREGATE} --keys L.csv -o new.csv --ledger L.csv --budget b --label l",
    f"{COLLECT}-file names.txt -o new.parquet --metadata names.txt",
    f"{COLLECT}-file t.csv -o new.parquet",
    f"{COLLECT} a,b -o new.csv --metadata new.csv.json",
    f"{COLLECT} a,b -o new.parquet --metadata L.db {LEDGER}",
    f"{ESTIMATE} -o r.parquet",
    f"{ESTIMATE} -o r.csv",
    f"{ESTIMATE} --plot r.png -o new.csv --ask r.png",
    f"{ESTIMATE} --ask r.csv",
    "account a.toml --plot a.toml.png",
    "ledger init new.db --witness new.db",
    "ledger init new.db --witness new.db-wal",
    "ledger show L.db --html L.db",
    "ledger show L.db --html witness.json",
    "ledger spend L.db --label l --budget b --event L.db",
    "ledger audit L.db --receipt L.db",
    "ledger adopt L.db --note n --receipt L.db-wal",
    "ledger export L.db -o L.db",
    "ledger backup L.db L.db",
    "ledger migrate L.db L.db-wal --note n",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a ledger, tables and reports, and other names for some of them."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("k,visits\n" + "a,1\nb,2\n" * 5)
    Path("keys.csv").write_text("k\na\nb\n")
    Path("names.txt").write_text("a\nb\n")
    Path("a.toml").write_text('delta = 1e-6\n[[events]]\ntype = "ZCDP"\nrho = 0.1\n')
    os.link("a.toml", "a.toml.png")
    Path("r.png").write_text("a\nb\n")
    for name in ("r.parquet", "r.csv"):
        assert main([*f"{COLLECT} a,b -o {name}".split()]) == 0
    assert main(["ledger", "init", "L.db", "--witness", "witness.json"]) == 0
    relation = "--unit person --neighbors add-or-remove-one"
    assert main(f"ledger budget L.db b --epsilon 9 {relation}".split()) == 0
    Path("L.csv").symlink_to("L.db")
    Path("L.png").symlink_to("L.db")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


@pytest.fixture
def refused(here: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Return what a command that must change nothing says."""

    def run(line: str) -> str:
        before = contents(here)
        capsys.readouterr()
        assert main(line.split()) == 2
        said = capsys.readouterr()
        assert said.out == ""
        # Locks of a ledger that was opened, and left without a charge, may be new.
        after = contents(here)
        new = {name for name in after if name not in before}
        assert all(name.startswith("L.db-") or name.endswith(".lock") for name in new)
        assert {name: after.get(name) for name in before} == before
        return said.err

    return run


@pytest.mark.parametrize("line", TWICE)
def test_two_paths_that_are_one_are_refused(
    refused: Callable[[str], str], line: str
) -> None:
    assert "must be another file than" in refused(line)


@pytest.mark.parametrize("way", ["./{}", "none/../{}", "{folder}/{}", "soft", "hard"])
def test_by_whatever_name(refused: Callable[[str], str], here: Path, way: str) -> None:
    Path("soft").symlink_to("L.db")
    os.link("L.db", "hard")
    Path("folder").symlink_to(here)
    name = way.format("L.db", folder="folder")
    line = f"{RELEASE} -o new.csv --metadata {name} {LEDGER}"
    assert "--metadata must be another file than --ledger" in refused(line)


def test_links_that_lead_nowhere_yet(refused: Callable[[str], str]) -> None:
    Path("link.csv").symlink_to("new.csv")
    line = f"{RELEASE} -o link.csv --metadata new.csv"
    assert "--metadata must be another file than --output" in refused(line)


@pytest.mark.parametrize(
    "line",
    [
        f"{RELEASE} --output-format csv -o pipe",
        f"{RELEASE} -o new.csv --metadata pipe",
        "ledger show L.db --html pipe",
        "account a.toml --plot pipe.png",
        f"{ESTIMATE} -o pipe.csv",
        f"{AGGREGATE} --delta 1e-6 -o new.csv --plot pipe.png",
    ],
)
def test_a_device_or_a_pipe_is_never_replaced(
    refused: Callable[[str], str], line: str
) -> None:
    for name in ("pipe", "pipe.png", "pipe.csv"):
        os.mkfifo(name)
    assert re.search("must be a file, .* device or pipe", refused(line))
    assert not Path("pipe").is_file()


@pytest.mark.parametrize("name", ["x\udcff.parquet", "\udcff/x.feather"])
def test_a_name_that_is_not_utf8_is_refused_before_the_charge(
    refused: Callable[[str], str], name: str
) -> None:
    # pyarrow opens no such file: each attempt would be charged, and fail.
    Path(os.fsdecode(b"\xff")).mkdir()
    said = refused(f"{COLLECT} a,b -o {name} {LEDGER}")
    assert "--output must have a name in UTF-8" in said


def test_paths_that_differ_are_taken(here: Path) -> None:
    # What is there already is replaced, and names that differ by case are two where
    # both are there.
    Path("T.csv").write_text("k,visits\na,1\n")
    same = Path("T.csv").samefile("t.csv")
    for line in (
        f"{RELEASE} -o new.csv --metadata new.json",
        f"{RELEASE} -o new.csv --metadata new.json",
        f"{RELEASE} -o T.csv",
        f"{AGGREGATE} --keys keys.csv -o new2.csv",
        "ledger show L.db --html show.html",
        "ledger export L.db -o L.json",
        "ledger backup L.db copy.db",
    ):
        assert main(line.split()) == (2 if same and "T.csv" in line else 0), line


@pytest.mark.rest
def test_a_standard_file_that_is_closed_is_not_taken_for_another(here: Path) -> None:
    line = f"{sys.executable} -m fastdp.cli {RELEASE} -o new.csv"
    found = subprocess.run(
        ["sh", "-c", f"{line} <&- >&- 2>&-"], capture_output=True, check=False
    )
    assert found.returncode == 0
    assert len(Path("new.csv").read_text().splitlines()) == 11
    wrong = subprocess.run(
        ["sh", "-c", f"{line} --workers 0 2>&-"], capture_output=True, check=False
    )
    assert wrong.returncode == 2
    assert wrong.stdout == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="of Linux")
def test_a_full_standard_output_is_told(here: Path) -> None:
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "fastdp.cli", "ledger", "show", "L.db", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert found.returncode == 7
    assert found.stderr == b"fastdp: system error: No space left on device\n"
