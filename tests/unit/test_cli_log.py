"""``--quiet`` and ``--log json``: what the commands print on stderr."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from fastdp.cli import _common, main
from tests.tables import SECRET, write_parquet

pytest.importorskip("duckdb")

LEDGER = ["--ledger", "year.db", "--budget", "b", "--label", "day/1"]
COUNT = ["aggregate", "in.parquet", "--rows-are", "row", "-o", "out.csv"]
COUNT += ["--mean", "cost", "--bounds", "cost=0,9"]
RELEASE = ["release", "in.parquet", "--column", "cost", "--keep", "who"]
RELEASE += ["--mechanism", "laplace", "--sensitivity", "1", "--epsilon", "1"]
RELEASE += ["-o", "released.csv"]
PLAN = """\
source = "in.parquet"
unit = "row"
count = true
[tables.one]
epsilon = 1
output = "one.csv"
[tables.two]
epsilon = 1
output = "two.csv"
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows: dict[str, Any] = {"who": [SECRET, "b", "c"], "cost": [1, 2, 3]}
    write_parquet(tmp_path / "in.parquet", rows)
    main(["ledger", "init", "year.db"])
    main(["ledger", "budget", "year.db", "b", "--epsilon", "9", "--unit", "row"])
    (tmp_path / "plan.toml").write_text(PLAN)


def said(capsys: Any, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """Run a command with a log; return its events."""
    capsys.readouterr()
    assert main([*arguments, "--log", "json"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert SECRET not in printed.err
    events = [json.loads(line) for line in printed.err.splitlines()]
    for event in events:
        assert datetime.datetime.fromisoformat(event.pop("time")).tzinfo is not None
    return events


def test_events_are_objects_of_one_line(capsys: Any) -> None:
    (event,) = said(capsys, *COUNT, "--epsilon", "1", *LEDGER)
    assert (event["event"], event["label"], event["rows"]) == ("written", "day/1", 1)
    assert event["output"].endswith("out.csv")
    (event,) = said(capsys, *COUNT, "--epsilon", "1", *LEDGER)
    assert (event["event"], event["label"]) == ("replayed", "day/1")
    (event,) = said(capsys, *RELEASE)
    assert (event["event"], event["rows"]) == ("written", 3)


def test_events_of_a_plan(capsys: Any) -> None:
    events = said(capsys, "aggregate", "--plan", "plan.toml")
    assert [e["event"] for e in events] == ["written", "written", "total"]
    assert "epsilon 2" in events[-1]["cost"]


def test_failures_are_events_with_their_code(capsys: Any) -> None:
    (event,) = said(capsys, *COUNT, "--epsilon", "-1", code=2)
    assert (event["event"], event["code"]) == ("failed", 2)
    assert "epsilon" in event["message"]
    (event,) = said(capsys, *COUNT, "--epsilon", "99", *LEDGER, code=3)
    assert event["code"] == 3
    assert main([*COUNT, "--log", "json", "--epsilon", "x"]) == 2
    assert json.loads(capsys.readouterr().err)["code"] == 2


@pytest.mark.parametrize(
    "command",
    [[*COUNT, "--epsilon", "1"], RELEASE, ["aggregate", "--plan", "plan.toml"]],
)
def test_quiet_prints_failures_alone(command: list[str], capsys: Any) -> None:
    capsys.readouterr()
    assert main([*command, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main([*COUNT, "--quiet", "--epsilon", "-1"]) == 2
    assert capsys.readouterr().err.startswith("fastdp: ")
    assert main([*COUNT, "--epsilon", "-1", "--quiet", "--log", "json"]) == 2
    assert json.loads(capsys.readouterr().err)["event"] == "failed"


@pytest.mark.parametrize("option", [["--quiet"], ["--log", "json"]])
def test_no_bar_and_the_next_run_is_as_usual(
    option: list[str], capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    main([*RELEASE, *option])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with _common.progress_of_one() as advance:
        assert advance is None
    capsys.readouterr()
    main(RELEASE)
    assert "fastdp: " in capsys.readouterr().err
    with _common.progress_of_one() as advance:
        assert advance is not None
