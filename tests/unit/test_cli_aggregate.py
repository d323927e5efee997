"""``fastdp aggregate``: what is written and said, what is refused, and when.

An epsilon of 8000 makes the noise of a count zero but for a probability below 1e-300,
and shows every key of two users or more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastdp
from fastdp import accounting
from fastdp.cli import main
from tests.tables import SECRET, parquet, require_only, write_csv, write_parquet

pytest.importorskip("duckdb")

N = 1200
COLUMNS: dict[str, Any] = {
    "person_id": [i // 4 for i in range(N)],
    "region": [("north", "south", "east")[i % 3] for i in range(N)],
    "sex": ["f" if i % 2 else "m" for i in range(N)],
    "income": [float(i % 100) for i in range(N)],
}
EXACT = ["--epsilon", "8000", "--delta", "1e-9"]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_parquet(tmp_path / "people.parquet", COLUMNS)


def aggregate(source: Any, output: Any, *options: str) -> int:
    return main(["aggregate", str(source), "-o", str(output), *options])


def test_the_line_of_the_readme(records: Path, capsys: Any) -> None:
    pytest.importorskip("matplotlib")
    line = (
        "--by region,sex --count --mean income --bounds income=0,200000 "
        "--user person_id --groups-per-user 3 --records-per-group 1 "
        "--epsilon 1 --delta 1e-6 --plot out.png"
    )
    assert aggregate(records, "out.parquet", *line.split()) == 0
    said = capsys.readouterr().err
    table = parquet.read_table("out.parquet")
    assert table.column_names == ["region", "sex", "count", "income_mean"]
    assert "(1, 1e-06)-differential privacy" in said
    assert "all records of one 'person_id'" in said
    assert "at most 3 groups" in said
    statement = json.loads(table.schema.metadata[b"fastdp.release"])
    assert statement["unit"] == "user"
    assert statement["neighboring_relation"] == "ADD_OR_REMOVE_ONE"
    assert set(statement["mechanism"]) == {"noise", "keys"}
    event = accounting.events.Event.from_json(json.dumps(statement["event"]))
    assert accounting.guarantees.event_epsilon(event, 1e-6) <= 1
    require_only(Path(), "people.parquet", "out.parquet", "out.png")


def test_all_forms_are_read_alike(records: Path, tmp_path: Path) -> None:
    from pyarrow import csv, feather

    table = parquet.read_table(records)
    csv.write_csv(table, "people.csv")
    feather.write_feather(table, "people.feather")
    Path("folder").mkdir()
    parquet.write_table(table.slice(0, 500), "folder/a.parquet")
    parquet.write_table(table.slice(500), "folder/b.parquet")
    options = ["--by", "region,sex", "--count", "--mean", "income", *EXACT]
    options += ["--bounds", "income=0,100", "--variance", "income"]
    options += ["--hash", "sha256"]
    found = []
    for source in ("people.parquet", "people.csv", "people.feather", "folder"):
        assert aggregate(source, "out.parquet", *options) == 0
        found.append(parquet.read_table("out.parquet").to_pydict())
    wanted = [(r, s) for r in ("east", "north", "south") for s in "fm"]
    for one in found:
        assert list(zip(one["region"], one["sex"], strict=True)) == wanted
        assert one["count"] == [200] * 6
        assert one["income_mean"] == pytest.approx([50, 49] * 3, abs=0.1)  # 600 scales
        assert len(one["income_variance"]) == 6


def test_cells_of_text_that_are_none_contribute_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = b"".join(b"u%d, north ,5\n" % i for i in range(50))
    bad = (
        b",north,5\n\xff,north,5\nv,,5\nw,\xfe,5\nx,north,\ny,north,5 000\n"
        b"z,north,nan\nu,north,1_0\nonly one cell\n"
    )
    write_csv(tmp_path / "in.csv", b"who,where,x\n" + good + bad)
    options = ["--by", "where", "--count", "--mean", "x", "--bounds", "x=0,10"]
    assert aggregate("in.csv", "out.csv", *options, "--user", "who", *EXACT) == 0
    lines = Path("out.csv").read_text().splitlines()
    assert lines[0] == "where,count,x_mean"
    assert [line.replace('"', "").split(",")[:2] for line in lines[1:]] == [
        ["north", "50"]
    ]


def test_public_keys_are_shown_and_need_no_delta(records: Path, capsys: Any) -> None:
    write_csv(Path("keys.csv"), "region\nwest\nnorth\n")
    options = ["--by", "region", "--count", "--keys", "keys.csv", "--epsilon", "1e4"]
    assert aggregate(records, "out.csv", *options) == 0
    assert Path("out.csv").read_text().replace('"', "") == (
        "region,count\nnorth,400\nwest,0\n"
    )
    said = capsys.readouterr().err
    assert "whoever has several is not hidden" in said
    assert "the groups of --keys are public" in said


def test_explain_prints_the_group_by_and_writes_nothing(
    records: Path, capsys: Any
) -> None:
    options = ["--by", "region", "--count", "--user", "person_id", *EXACT]
    assert aggregate(records, "out.parquet", *options, "--explain") == 0
    assert capsys.readouterr().out.startswith("with records as (")
    require_only(Path(), "people.parquet")


@pytest.mark.parametrize("output", ["out.parquet", "out.csv"])
def test_a_label_is_one_answer_and_one_charge(
    records: Path, output: str, capsys: Any
) -> None:
    with fastdp.ledger.create("budget.db") as book:
        rule = accounting.ApproximateFilter(epsilon=3, delta=1e-5)
        book.add_budget("people", rule, unit="row")
    options = ["--by", "region", "--count", "--epsilon", "1", "--delta", "1e-6"]
    options += ["--ledger", "budget.db", "--budget", "people", "--label", "w47"]
    assert aggregate(records, output, *options) == 0
    first = Path(output).read_bytes()
    with fastdp.ledger.open("budget.db") as book:
        spent = str(book.budget("people"))
    assert aggregate(records, output, *options) == 0
    assert "nothing: the file was released before" in capsys.readouterr().err
    assert Path(output).read_bytes() == first
    with fastdp.ledger.open("budget.db") as book:
        assert str(book.budget("people")) == spent
    assert Path(f"{output}.receipts.json").exists() == output.endswith("csv")
    assert aggregate(records, output, *options, "--user", "person_id") == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "1"], "--delta must be given without --keys"),
        (["--epsilon", "1", "--delta", "1e-6", "--keys", "k.csv"], "left out with"),
        (["--delta", "1e-6"], "exactly one of --epsilon and --rho"),
        ([*EXACT, "--mean", "income"], "--bounds income=LOW,HIGH must be given"),
        ([*EXACT, "--bounds", "income=3"], "NAME=LOW,HIGH"),
        ([*EXACT, "--groups-per-user", "3"], "require --user"),
        ([*EXACT, "--ledger", "b.db"], "must be given together"),
        ([*EXACT, "--plot", "out.gif"], "--plot must end in"),
    ],
)
def test_what_is_public_is_refused_before_the_file_is_opened(
    options: list[str], message: str, tmp_path: Path, capsys: Any
) -> None:
    missing = tmp_path / "missing.parquet"
    output = tmp_path / "out.parquet"
    assert aggregate(missing, output, "--by", "region", "--count", *options) == 2
    assert message in capsys.readouterr().err
    require_only(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "nowhere", "--count"], "'nowhere'"),
        (["--by", "income", "--count"], "has a type that cannot be one"),
        (["--by", "region", "--sum", "sex", "--bounds", "sex=0,1"], "'sex' has a type"),
        (["--by", "region", "--count", "--memory", "much"], "memory_limit"),
        (["--by", "region", "--count", "-o", "none/out.parquet"], "an existing folder"),
    ],
)
def test_refusals_leave_nothing_behind(
    records: Path, options: list[str], message: str, capsys: Any
) -> None:
    assert aggregate(records, "out.parquet", *options, *EXACT) == 2
    assert message in capsys.readouterr().err
    require_only(Path(), "people.parquet")


def test_nothing_of_the_data_is_said(tmp_path: Path, capsys: Any) -> None:
    source = write_parquet(
        tmp_path / "in.parquet",
        {"who": [SECRET], "town": [SECRET], "x": [float(SECRET)]},
    )
    output = tmp_path / "out.parquet"
    options = ["--by", "town", "--mean", "x", "--bounds", "x=0,1", "--user", "who"]
    options += ["--epsilon", "1", "--delta", "1e-12"]
    assert aggregate(source, output, *options) == 0
    said = capsys.readouterr()
    assert SECRET not in said.err + said.out
    assert SECRET.encode() not in output.read_bytes()  # but with 1e-12
    assert parquet.read_table(output).num_rows == 0
    source.write_bytes(source.read_bytes()[:-30] + b"x" * 30)
    assert aggregate(source, output, *options) == 1
    assert SECRET not in capsys.readouterr().err
