"""``fastdp aggregate --plan``: tables of one charge, all of them or none."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

import fastdp
from fastdp import accounting
from fastdp.cli import _outputs, _places, main
from tests.tables import SECRET, parquet, require_only, write_csv, write_parquet

pytest.importorskip("duckdb")

N = 1200
COLUMNS: dict[str, Any] = {
    "who": [i // 4 for i in range(N)],
    "region": [("north", "south", "east")[i % 3] for i in range(N)],
    "cost": [float(i % 100) for i in range(N)],
}
# Noise of these budgets is not zero with probability below 1e-300.
PLAN = """\
source = "in.parquet"
ledger = "year.db"
budgets = ["2026"]
label = "visits/{week}"
unit = { column = "who", name = "person", groups = 2, records = 4 }

[tables.by_region]
by = "region"
keys = ["north", "south", "west"]
count = true
mean = ["cost"]
bounds = { cost = [0, 100] }
epsilon = 1e5
output = "by_region_{week}.csv"

[tables.total]
units = true
epsilon = 1e4
output = "total.parquet"
level = 0.5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_parquet(tmp_path / "in.parquet", COLUMNS)
    with fastdp.ledger.create("year.db") as book:
        book.add_budget("2026", accounting.PureFilter(200_000), unit="person")
    return tmp_path


def plan(text: str = PLAN, *options: str) -> int:
    Path("plan.toml").write_text(text)
    return main(["aggregate", "--plan", "plan.toml", *options])


def spent() -> float:
    with fastdp.ledger.open("year.db") as book:
        return float(book.budget("2026").used)


WEEK = ("--set", "week=w47")
MADE = ("by_region_w47.csv", "by_region_w47.csv.receipts.json", "total.parquet")


def left(folder: Path) -> list[str]:
    own = ("year.db", "in.parquet", "plan.toml")
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith(own))


def test_two_tables_are_one_label_and_one_charge(folder: Path, capsys: Any) -> None:
    assert plan(PLAN, *WEEK) == 0
    said = capsys.readouterr().err
    assert said.endswith("all together: epsilon 110,000 for one person\n")
    assert left(folder) == sorted(MADE)
    rows = Path(MADE[0]).read_text().replace('"', "").splitlines()
    assert [line.split(",")[:2] for line in rows[1:]] == [
        # Of each person's three groups two are kept.
        [region, rows[1 + at].split(",")[1]]
        for at, region in enumerate(["north", "south", "west"])
    ]
    assert rows[3].startswith("west,0,")
    assert parquet.read_table("total.parquet").column("units").to_pylist() == [300]
    assert spent() == pytest.approx(110_000 / 200_000)
    first = {name: Path(name).read_bytes() for name in MADE}
    for name in MADE:
        Path(name).unlink()
    assert plan(PLAN, *WEEK) == 0  # a lost file comes back, for nothing
    assert "nothing: the file was released before" in capsys.readouterr().err
    assert {name: Path(name).read_bytes() for name in MADE} == first
    assert spent() == pytest.approx(110_000 / 200_000)
    with fastdp.ledger.open("year.db") as book:
        (one,) = book.labels()
        assert (one.label, one.kind, one.answered) == ("visits/w47", "table", True)
        stored = book.answer("visits/w47").value
        assert stored["total/units"].tolist() == [300]
        assert book.audit().ok
    other = PLAN.replace("epsilon = 1e4", "epsilon = 2e4")
    assert plan(other, *WEEK) == 4  # the label stands for another cost


def test_quantiles_by_group_in_a_plan_file(folder: Path, capsys: Any) -> None:
    words = """
median = "x"
quantiles = { cost = [0.25, 0.9] }
cells = 100
bounds = { cost = [0, 100], x = [0, 10] }
epsilon = 1e4
"""
    _, total = PLAN.split("[tables.total]")
    first = PLAN[: PLAN.index("count = true")]
    text = f'{first}{words}output = "q.csv"\n\n[tables.total]{total}'
    x = [float(i % 10) for i in range(N)]
    write_parquet(folder / "in.parquet", {**COLUMNS, "x": x})
    assert plan(text, *WEEK) == 0
    head, *rows = csv.reader(Path("q.csv").read_text().splitlines())
    names = ["cost_q25", "cost_q90", "x_median"]
    ends = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    assert head == ["region", *ends, "note"]
    found = {row[0]: row[1:] for row in rows}
    for at, region in enumerate(("north", "south")):
        costs = sorted(i % 100 for i in range(at, N, 3))
        for cell, q in ((0, 0.25), (3, 0.9)):
            truth = costs[int(q * len(costs)) - 1]
            # Two of each person's three groups are kept, at random.
            assert float(found[region][cell]) == pytest.approx(truth, abs=6)
            low, high = map(float, found[region][cell + 1 : cell + 3])
            assert low <= float(found[region][cell]) <= high <= low + 4
    assert found["west"][0] == ""  # nobody is in it
    assert "wide: cost_q25" in found["west"][-1]
    assert plan(text.replace("0.9]", "1.5]"), *WEEK, "--dry-run") == 2
    said = capsys.readouterr().err
    assert "plan.toml: tables.by_region: quantiles must be" in said


def test_a_dry_run_says_the_cost_of_all_and_what_would_be_left(
    folder: Path, capsys: Any
) -> None:
    Path("in.parquet").unlink()  # no record is read
    assert plan(PLAN, *WEEK, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "[by_region]\nepsilon 100,000 for one person; kept: at most 2 groups" in said
    assert "[total]\nepsilon 10,000 for one person" in said
    assert "all together: epsilon 110,000 for one person" in said
    assert "after this release:" in said
    assert "55.0%" in said
    assert left(folder) == []
    assert spent() == 0


def test_a_check_is_for_the_owner_and_changes_nothing(
    folder: Path, capsys: Any
) -> None:
    assert plan(PLAN, *WEEK, "--check") == 0
    said = capsys.readouterr().out
    assert said.count("NOT PRIVATE: what --check prints") == 2
    assert "[by_region]" in said
    assert "[total]" in said
    assert re.search(r"records +1200", said)
    assert (left(folder), spent()) == ([], 0)
    lines = zip(*COLUMNS.values(), strict=True)
    text = "who,region,cost\n" + "".join(f"{w},{r},{c}\n" for w, r, c in lines)
    write_csv(folder / "in.csv", text)
    line = "in.csv --unit who --records 4 --count --epsilon 1 -o out.csv --check"
    assert main(["aggregate", *line.split()]) == 0
    assert re.search(r"records +1200", capsys.readouterr().out)
    assert not Path("out.csv").exists()


def test_a_charge_that_is_not_covered_leaves_nothing(folder: Path, capsys: Any) -> None:
    much = PLAN.replace("epsilon = 1e5", "epsilon = 1.95e5")
    assert plan(much, *WEEK) == 3  # each table alone would fit
    assert "2026" in capsys.readouterr().err
    assert (left(folder), spent()) == ([], 0)
    other = PLAN.replace('name = "person"', 'name = "patient"')
    assert plan(other, *WEEK) == 3
    assert (left(folder), spent()) == ([], 0)


@pytest.mark.parametrize("failing", range(3))
def test_outputs_are_put_in_place_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    Path("total.parquet").write_text("the one before")
    Path(MADE[0]).write_text("the one before")
    replaced = 0
    whole = Path.replace

    def replace(self: Path, target: Path) -> Path:
        nonlocal replaced
        if self.suffix == ".part":
            replaced += 1
            if replaced == failing + 1:
                raise OSError(28, "no space")
        return whole(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    assert plan(PLAN, *WEEK) == 7
    assert left(folder) == sorted([MADE[0], "total.parquet"])
    assert Path("total.parquet").read_text() == "the one before"
    assert Path(MADE[0]).read_text() == "the one before"
    monkeypatch.setattr(Path, "replace", whole)
    assert plan(PLAN, *WEEK) == 0  # what was charged is written now
    assert left(folder) == sorted(MADE)
    assert spent() == pytest.approx(110_000 / 200_000)


def test_a_table_that_cannot_be_read_leaves_no_other(folder: Path, capsys: Any) -> None:
    text = PLAN.replace('by = "region"', 'by = "regoin"')
    assert plan(text, *WEEK) == 2
    said = capsys.readouterr().err
    assert "tables 'by_region'" in said
    assert "'regoin'" in said
    assert (left(folder), spent()) == ([], 0)


def test_text_files_and_files_of_keys(folder: Path) -> None:
    lines = zip(*COLUMNS.values(), strict=True)
    write_csv(
        folder / "in.csv",
        "who,region,cost\n" + "".join(f"{w},{r},{c}\n" for w, r, c in lines),
    )
    write_csv(folder / "keys.csv", "region\nsouth\nnorth\n")
    text = PLAN.replace('"in.parquet"', '"in.csv"')
    text = text.replace('["north", "south", "west"]', '"keys.csv"')
    text = "\n".join(t for t in text.splitlines() if t[:5] not in ("ledge", "budge"))
    text = text.replace('label = "visits/{week}"', "")
    assert plan(text, *WEEK) == 0
    rows = Path(MADE[0]).read_text().replace('"', "").splitlines()
    assert [line.split(",")[0] for line in rows[1:]] == ["south", "north"]
    assert parquet.read_table("total.parquet").column("units").to_pylist() == [300]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "count = true",
            "cout = true",
            "tables.by_region.cout is not an entry of a plan",
        ),
        ("count = true", "cout = true", "did you mean count?"),
        ("count = true", "count = 1", "plan.toml: tables.by_region: count must be a"),
        ("bounds = { cost = [0, 100] }", "", "by_region: bounds must be given for"),
        ("bounds = { cost = [0, 100] }", "bounds = { cost = [9, 1] }", "low < high"),
        ("epsilon = 1e4\n", "", "tables.total: exactly one of epsilon and rho"),
        ("unit =", "unit_ =", "unit_ is not an entry of a plan: did you mean unit?"),
        ("source =", "epsilon = 1\nsource =", "epsilon must be given in each table"),
        ("groups = 2, records = 4", "groups = 2", "unit: records must be given"),
        ("groups = 2, records", "group = 2, records", "unit.group is not an entry"),
        ('unit = { column = "who", ', "unit = { ", "unit.column must be given"),
        ('"2026"]', "2026]", "budgets must be a text, got 2026"),
        ('label = "visits/{week}"', "", "budgets and label must be given together"),
        ('output = "total.parquet"', "", "tables.total.output must be given"),
        ('"total.parquet"', '"total.xls"', "tables.total.output must end in .csv"),
        ('"total.parquet"', '"by_region_{week}.csv"', "must be another file than"),
        ('"total.parquet"', '"s3://b/total.csv"', "must be a file on this machine"),
        ('"total.parquet"', '"in.parquet"', "must be another file than"),
        ("{week}", "{month}", "contains {month}: give --set month=..."),
        ("units = true", "units = ", "plan.toml must be TOML"),
        (
            "units = true",
            "unit = 'row'\nunits = true",
            "tables must have the same unit",
        ),
        ("level = 0.5", "level = 2", "tables.total: level must be"),
    ],
)
def test_what_is_refused_names_its_key_before_anything_is_read(
    old: str, new: str, message: str, folder: Path, capsys: Any
) -> None:
    Path("in.parquet").write_bytes(b"")
    if "in.parquet" not in new:
        Path("in.parquet").unlink()
    assert old in PLAN
    assert plan(PLAN.replace(old, new), *WEEK) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "plan.toml" in said
    assert (left(folder), spent()) == ([], 0)


def test_options_that_the_file_says_are_refused(folder: Path, capsys: Any) -> None:
    for option in (["--count"], ["in.parquet"], ["--budget", "2026"], ["-o", "x.csv"]):
        assert plan(PLAN, *WEEK, *option) == 2
        assert "must be left out with --plan" in capsys.readouterr().err
    assert plan(PLAN) == 2
    assert "give --set week=..." in capsys.readouterr().err
    assert plan(PLAN, *WEEK, "--set", "day=1") == 2
    assert "--set day=... must be used" in capsys.readouterr().err
    assert main(["aggregate", "--count", "--rows-are", "row", "--epsilon", "1"]) == 2
    assert "INPUT must be given, or --plan FILE" in capsys.readouterr().err
    assert (left(folder), spent()) == ([], 0)


def test_nothing_of_the_data_is_said(folder: Path, capsys: Any) -> None:
    write_parquet(
        folder / "in.parquet",
        {"who": [SECRET], "region": [SECRET], "cost": [float(SECRET)]},
    )
    assert plan(PLAN, *WEEK) == 0
    said = capsys.readouterr()
    assert SECRET not in said.err + said.out
    assert "west,0," in Path(MADE[0]).read_text().replace('"', "")


def test_together_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("old")

    def refused(*_: object) -> None:
        raise OSError(1, "no links here")

    monkeypatch.setattr("os.link", refused)
    with _outputs.Together() as together:
        for path in (one, two):
            with together.output(_places.table("--output", str(path))) as temporary:
                temporary.write_text("new")
    assert (one.read_text(), two.read_text()) == ("new", "new")
    require_only(tmp_path, "one.csv", "two.csv")
