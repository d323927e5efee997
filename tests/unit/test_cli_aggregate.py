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
ROWS = ["--rows-are", "row"]
PEOPLE = ["--unit", "person_id", "--groups", "1", "--records", "1"]


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
        "--unit person_id --unit-name person --groups 3 --records 1 "
        "--epsilon 1 --delta 1e-6 --plot out.png"
    )
    assert aggregate(records, "out.parquet", *line.split()) == 0
    said = capsys.readouterr().err
    table = parquet.read_table("out.parquet")
    assert table.column_names == [
        *("region", "sex", "count", "count_low", "count_high", "income_n"),
        *("income_mean", "income_mean_low", "income_mean_high", "note"),
    ]
    assert "(1, 1e-06)-differential privacy" in said
    assert "all records of one 'person'" in said
    assert "at most 3 groups" in said
    statement = json.loads(table.schema.metadata[b"fastdp.release"])
    assert (statement["unit"], statement["unit_column"]) == ("person", "person_id")
    assert statement["neighboring_relation"] == "ADD_OR_REMOVE_ONE"
    assert set(statement["mechanism"]) == {"count", "income_n", "income_sum", "keys"}
    event = accounting.events.Event.from_json(json.dumps(statement["event"]))
    assert accounting.guarantees.event_epsilon(event, 1e-6) <= 1
    require_only(Path(), "people.parquet", "out.parquet", "out.png")


@pytest.mark.parametrize(
    ("options", "guarantee"),
    [
        ("--rho 0.5", "0.5-zero-concentrated differential privacy (rho), for this one"),
        ("--by sex --delta 1e-6 --rho 0.5", "(rho), except with probability 1e-06"),
        ("--epsilon 0.5", "0.5-differential privacy (epsilon), for this one"),
    ],
)
def test_each_budget_has_its_guarantee(
    records: Path, capsys: Any, options: str, guarantee: str
) -> None:
    line = f"--rows-are row --count {options}"
    assert aggregate(records, "out.csv", *line.split()) == 0
    assert guarantee in capsys.readouterr().err


def test_all_forms_are_read_alike(records: Path, tmp_path: Path) -> None:
    from pyarrow import csv, feather

    table = parquet.read_table(records)
    csv.write_csv(table, "people.csv")
    feather.write_feather(table, "people.feather")
    Path("folder").mkdir()
    parquet.write_table(table.slice(0, 500), "folder/a.parquet")
    parquet.write_table(table.slice(500), "folder/b.parquet")
    options = ["--by", "region,sex", "--count", "--mean", "income", *EXACT, *ROWS]
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


def test_a_cell_of_text_that_is_none_leaves_out_its_own_statistic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = b"".join(b"u%d, north ,5\n" % i for i in range(50))
    bad = (
        b",north,5\n\xff,north,5\nv,,5\nw,\xfe,5\nx,north,\ny,north,5 000\n"
        b"z,north,nan\nt,north,1_0\nonly one cell\n"
    )
    write_csv(tmp_path / "in.csv", b"who,where,x\n" + good + bad)
    options = ["--by", "where", "--count", "--mean", "x", "--bounds", "x=0,10"]
    options += ["--unit", "who", "--groups", "1", "--records", "1"]
    assert aggregate("in.csv", "out.csv", *options, *EXACT) == 0
    lines = Path("out.csv").read_text().replace('"', "").splitlines()
    assert lines[0].startswith("where,count,count_low,count_high,x_n,x_mean,")
    # Four have no number in x: they are counted.
    assert [line.split(",")[:5] for line in lines[1:]] == [
        ["north", "54", "54", "54", "50"]
    ]


def test_public_keys_are_shown_in_their_order_and_need_no_delta(
    records: Path, capsys: Any
) -> None:
    write_csv(Path("keys.csv"), "region\nwest\nnorth\n")
    options = ["--by", "region", "--count", "--keys", "keys.csv", "--epsilon", "1e4"]
    assert aggregate(records, "out.csv", *options, *ROWS) == 0
    assert Path("out.csv").read_text().replace('"', "") == (
        "region,count,count_low,count_high\nwest,0,0,0\nnorth,400,400,400\n"
    )
    said = capsys.readouterr().err
    assert "a person with several rows is not hidden" in said
    assert "the groups of --keys are public" in said


@pytest.mark.parametrize("delta", [None, "1e-9"])
def test_a_budget_of_rho_says_its_delta_if_there_is_one(
    delta: str | None, records: Path, capsys: Any
) -> None:
    budget = ["--rho", "8000"] if delta is None else ["--rho", "8000", "--delta", delta]
    line = ["--by", "region", "--count", *PEOPLE, *budget]
    if delta is None:
        write_csv(Path("keys.csv"), "region\nnorth\nsouth\n")
        line += ["--keys", "keys.csv"]
    assert aggregate(records, "out.csv", *line) == 0
    said = capsys.readouterr().err
    assert "8000-zero-concentrated differential privacy (rho)" in said
    assert ("except with probability 1e-09" in said) == (delta is not None)


def test_all_records_are_one_group(records: Path, capsys: Any) -> None:
    options = ["--unit", "person_id", "--records", "3", "--units", "--epsilon", "1e4"]
    assert aggregate(records, "out.csv", *options, "--sum", "income") == 2
    assert "--bounds income=LOW,HIGH must be given" in capsys.readouterr().err
    assert aggregate(records, "out.csv", *options, "--count", "--level", "0.5") == 0
    assert Path("out.csv").read_text().replace('"', "").splitlines()[1] == (
        "900,900,900,300,300,300"
    )
    said = capsys.readouterr().err
    assert "at most 3 records of each 'person_id': no others count" in said


def test_a_dry_run_says_cost_and_noise_and_reads_nothing(
    tmp_path: Path, capsys: Any
) -> None:
    options = [
        "--by",
        "region",
        "--count",
        *PEOPLE,
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
    ]
    missing = tmp_path / "missing.parquet"
    assert aggregate(missing, tmp_path / "out.csv", *options, "--dry-run") == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "epsilon 1 and delta 1e-06 for one person_id; kept: at most 1 group"
    )
    assert "groups of 15 records with probability 1/2" in said
    require_only(tmp_path)


def test_sql_prints_the_group_by_and_writes_nothing(records: Path, capsys: Any) -> None:
    options = ["--by", "region", "--count", *PEOPLE, *EXACT]
    assert aggregate(records, "out.parquet", *options, "--sql") == 0
    assert capsys.readouterr().out.startswith("with records as (")
    require_only(Path(), "people.parquet")


@pytest.mark.parametrize("output", ["out.parquet", "out.csv"])
def test_a_label_is_one_answer_and_one_charge(
    records: Path, output: str, capsys: Any
) -> None:
    with fastdp.ledger.create("budget.db") as book:
        rule = accounting.ApproximateFilter(epsilon=3, delta=1e-5)
        book.add_budget("people", rule, unit="row")
    ask = ["--by", "region", "--count", "--epsilon", "1", "--delta", "1e-6"]
    ask += ["--ledger", "budget.db", "--budget", "people", "--label", "w47"]
    options = [*ask, *ROWS]
    assert aggregate(records, output, *ask, "--rows-are", "person") == 3
    assert "is per 'row', this release is per 'person'" in capsys.readouterr().err
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
    assert aggregate(records, output, *ask, *PEOPLE) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "1"], "--delta must be given for --by without --keys"),
        (["--epsilon", "1", "--delta", "1e-6", "--keys", "k.csv"], "left out with"),
        (["--delta", "1e-6"], "exactly one of --epsilon and --rho"),
        ([*EXACT, "--mean", "income"], "--bounds income=LOW,HIGH must be given"),
        ([*EXACT, "--bounds", "3"], "NAME=NUMBER,NUMBER"),
        ([*EXACT, "--mean", "income", "--bounds", "income=3"], "(low, high)"),
        ([*EXACT, "--histogram", "income=3"], "at least two increasing"),
        ([*EXACT, "--groups", "3"], "require --unit"),
        ([*EXACT, *PEOPLE], "exactly one of --unit and --rows-are"),
        ([*EXACT, "--ledger", "b.db"], "must be given together"),
        ([*EXACT, "--plot", "out.gif"], "--plot must end in"),
    ],
)
def test_what_is_public_is_refused_before_the_file_is_opened(
    options: list[str], message: str, tmp_path: Path, capsys: Any
) -> None:
    missing = tmp_path / "missing.parquet"
    output = tmp_path / "out.parquet"
    options = [*ROWS, "--by", "region", "--count", *options]
    assert aggregate(missing, output, *options) == 2
    assert message in capsys.readouterr().err
    require_only(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "exactly one of --unit and --rows-are must be given: --unit person"),
        (PEOPLE[:4], "--records must be given with --unit: at most how many records"),
        (
            [*PEOPLE[:2], "--records", "2"],
            "--groups must be given if --unit and --by",
        ),
    ],
)
def test_whom_to_hide_and_how_much_of_them_must_be_said(
    options: list[str], message: str, records: Path, capsys: Any
) -> None:
    options = ["--by", "region", "--count", *EXACT, *options]
    assert aggregate(records, "out.parquet", *options) == 2
    assert message in capsys.readouterr().err
    require_only(Path(), "people.parquet")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "nowhere", "--count"], "'nowhere'"),
        (["--by", "income", "--count"], "must not have the type"),
        (
            ["--by", "region", "--sum", "sex", "--bounds", "sex=0,1"],
            "'sex' must not",
        ),
        (["--by", "region", "--count", "--memory", "much"], "memory must be a size"),
        (["--by", "region", "--count", "-o", "none/out.parquet"], "an existing folder"),
    ],
)
def test_refusals_leave_nothing_behind(
    records: Path, options: list[str], message: str, capsys: Any
) -> None:
    assert aggregate(records, "out.parquet", *options, *EXACT, *ROWS) == 2
    assert message in capsys.readouterr().err
    require_only(Path(), "people.parquet")


def test_nothing_of_the_data_is_said(tmp_path: Path, capsys: Any) -> None:
    source = write_parquet(
        tmp_path / "in.parquet",
        {"who": [SECRET], "town": [SECRET], "x": [float(SECRET)]},
    )
    output = tmp_path / "out.parquet"
    options = ["--by", "town", "--mean", "x", "--bounds", "x=0,1", "--unit", "who"]
    options += ["--groups", "1", "--records", "1"]
    options += ["--epsilon", "1", "--delta", "1e-12"]
    assert aggregate(source, output, *options) == 0
    said = capsys.readouterr()
    assert SECRET not in said.err + said.out
    assert SECRET.encode() not in output.read_bytes()  # but with 1e-12
    assert parquet.read_table(output).num_rows == 0
    source.write_bytes(source.read_bytes()[:-30] + b"x" * 30)
    assert aggregate(source, output, *options) == 6
    assert SECRET not in capsys.readouterr().err


def test_a_table_without_groups_says_why(records: Path, capsys: Any) -> None:
    few = ["--epsilon", "0.01", "--delta", "1e-9", *PEOPLE, "--by", "sex"]
    assert aggregate(records, "out.csv", "--count", *few) == 0
    said = capsys.readouterr().err
    assert "no group had enough units: --check shows the owner" in said
    assert "at most 1 records of each 'person_id' in each group, and at most 1" in said
    # What it says goes, and needs no output.
    line = ["aggregate", str(records), "--count", *few, "--check"]
    assert main(line) == 0
    assert "kept, by records of one person_id" in capsys.readouterr().out
    assert main(line[:-1]) == 2
    assert "--output must be given" in capsys.readouterr().err
    rows = ["--count", "--epsilon", "1", *ROWS, "--check"]
    assert main(["aggregate", str(records), *rows]) == 0
    assert "rows of one person" in capsys.readouterr().out
    Path("out.csv").unlink()
    require_only(records.parent, records.name)


@pytest.mark.parametrize("form", ["people.parquet", "people.csv"])
def test_a_histogram_by_group(records: Path, form: str, capsys: Any) -> None:
    lines = zip(*COLUMNS.values(), strict=True)
    head = ",".join(COLUMNS) + "\n"
    write_csv(
        records.with_suffix(".csv"),
        head + "".join(",".join(map(str, line)) + "\n" for line in lines),
    )
    line = "--by region --count --histogram income=0,10,50,1e2 --median income"
    options = [*ROWS, *line.split(), "--bounds", "income=0,100", *EXACT]
    assert aggregate(records.parent / form, "out.parquet", *options) == 0
    found = parquet.read_table("out.parquet").to_pydict()
    assert found["region"] == ["east", "north", "south"]
    for low, high in ((0, 10), (10, 50), (50, 100)):
        truth = [
            sum(
                low <= income < high
                for income, own in zip(
                    COLUMNS["income"], COLUMNS["region"], strict=True
                )
                if own == region
            )
            for region in found["region"]
        ]
        assert found[f"income_{low}_{high}"] == truth
