"""Thirty-six everyday tasks, each by the first line that comes to mind.

The number in a test's name is the task's. The line gives what is right, or is refused
by a message that says what to write instead. The noise of these budgets is zero but for
a probability below 1e-300, where the truth is compared.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import accounting, plot
from fastdp.cli import main
from fastdp.exceptions import DTypeError, ParameterError
from tests.tables import REGIONS, parquet, stays, write_csv, write_parquet

pd = pytest.importorskip("pandas")
pytest.importorskip("duckdb")
pytest.importorskip("matplotlib")

#: Tasks that are tested where the same is asked of every kind of command.
ELSEWHERE = {
    1: "tests/unit/test_cli_demo.py",
    28: "tests/unit/test_spill.py",
    29: "tests/unit/test_cli_release_failures.py",
    30: "tests/unit/test_cli_plan_file.py",
}


def test_every_task_is_tried() -> None:
    own = {int(found) for found in re.findall(r"^def test_(\d\d)_", SOURCE, re.M)}
    assert own | {*ELSEWHERE} == {*range(1, 37)}
    for name in ELSEWHERE.values():
        assert (Path(__file__).parents[2] / name).is_file()


SOURCE = Path(__file__).read_text("utf-8")


@pytest.fixture(scope="module")
def df() -> Any:
    return stays()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, df: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    df.to_parquet("in.parquet")
    df.to_csv("in.csv", index=False)
    return tmp_path


@pytest.fixture
def person(df: Any) -> Any:
    return fastdp.Unit(df["id"], groups=4, records=4)


PERSON = fastdp.Unit("id", groups=4, records=4)
WORDS = ["--unit", "id", "--groups", "4", "--records", "4"]


def shell(line: str, code: int = 0) -> None:
    assert main(line.split()) == code


# ---- counts and means ------------------------------------------------------------


def test_02_count_by_region(df: Any, person: Any) -> None:
    r = fastdp.count(df["id"], by=df["region"], keys=REGIONS, unit=person, epsilon=1e6)
    assert r.table()["region"].tolist() == REGIONS  # in the order that was given
    assert r.values("count").tolist() == [500] * 4
    with pytest.raises(ParameterError, match="records must be given with a unit"):
        fastdp.Unit(df["id"])


def test_03_mean_by_region_with_an_interval(df: Any, person: Any) -> None:
    words = {"keys": REGIONS, "unit": person, "bounds": (0, 1000), "epsilon": 1e6}
    r = fastdp.mean(df["cost"], by=df["region"], **words)
    truth = df.groupby("region")["cost"].mean()[REGIONS].to_numpy()
    low, high = r.interval(r.plan.columns[-1])
    assert (low <= truth + 0.01).all()
    assert (truth - 0.01 <= high).all()  # missing costs are left out
    table = r.table()
    assert {"cost_n", "cost_mean_low", "cost_mean_high"} <= {*table.columns}


def test_04_median_by_region(df: Any, person: Any, here: Path) -> None:
    words = {"keys": REGIONS, "unit": person, "bounds": (0, 1000), "epsilon": 1e6}
    r = fastdp.median(df["cost"], by=df["region"], **words)
    truth = df.groupby("region")["cost"].median()[REGIONS].to_numpy()
    assert r.value == pytest.approx(truth, abs=5)  # missing costs are left out
    assert "cost_median_low" in r.table().columns
    line = "aggregate in.parquet --unit id --groups 4 --records 4 --by region "
    line += "--median cost --quantiles age=0.25,0.75 --bounds cost=0,1000 "
    shell(f"{line} --bounds age=0,120 --epsilon 4000 --delta 1e-6 -o out.csv")
    found = pd.read_csv("out.csv").set_index("region").loc[REGIONS]
    assert found["cost_median"].to_numpy() == pytest.approx(truth, abs=5)
    quarter = df.groupby("region")["age"].quantile(0.25)[REGIONS].to_numpy()
    assert found["age_q25"].to_numpy() == pytest.approx(quarter, abs=2.5)


def test_05_quartiles_of_all(df: Any) -> None:
    r = fastdp.quantiles(
        df["cost"],
        [0.25, 0.5, 0.75],
        bounds=(0, 1000),
        unit=fastdp.Unit(df["id"], records=4),
        epsilon=1e6,
    )
    q = [0.25, 0.5, 0.75]
    truth = np.quantile(df["cost"].dropna(), q, method="inverted_cdf")
    zeros = np.quantile(df["cost"].fillna(0), q, method="inverted_cdf")
    assert r.value == pytest.approx(truth, abs=1)  # missing costs are left out
    assert (np.abs(r.value - zeros) > 5).all()
    assert (r.low <= truth).all()
    assert (truth <= r.high).all()


def test_06_region_by_sex(df: Any, person: Any) -> None:
    keys = {"region": REGIONS, "sex": ["F", "M"]}
    by = [df["region"], df["sex"]]
    r = fastdp.count(df["id"], by=by, keys=keys, unit=person, epsilon=1e6)
    assert r.values("count").tolist() == [250] * 8
    assert r.groups()[:2] == [("North", "F"), ("North", "M")]


def test_07_several_statistics(df: Any) -> None:
    plan = fastdp.Plan(
        unit=PERSON,
        by="region",
        keys=REGIONS,
        count=True,
        mean=["age", "cost"],
        bounds={"age": (0, 120), "cost": (0, 1000)},
        epsilon=1e6,
    )
    table = plan.release(df).table()
    truth = df.groupby("region")[["age", "cost"]].mean().loc[REGIONS]
    for name in ("age", "cost"):
        assert table[f"{name}_mean"].to_numpy() == pytest.approx(
            truth[name].to_numpy(), abs=0.01
        )


def test_08_a_table_with_intervals_for_a_spreadsheet(df: Any, person: Any) -> None:
    r = fastdp.count(df["id"], by=df["region"], keys=REGIONS, unit=person, epsilon=1)
    table = r.table()
    assert isinstance(table, pd.DataFrame)
    lines = table.to_csv(index=False).splitlines()
    assert lines[0] == "region,count,count_low,count_high"


def test_09_by_month(df: Any, person: Any) -> None:
    month = df["admitted"].dt.strftime("%Y-%m")
    person = fastdp.Unit(df["id"], groups=2, records=4)
    r = fastdp.count(df["id"], by=month, unit=person, epsilon=1e6, delta=1e-6)
    assert [key for (key,) in r.groups()] == sorted(set(month))  # in order of time
    with pytest.raises(DTypeError, match="make text or integers of it"):
        fastdp.count(
            df["id"],
            by=df["admitted"].dt.to_period("M"),
            unit=person,
            epsilon=1,
            delta=1e-6,
        )


def test_10_two_years_and_their_difference(df: Any, person: Any) -> None:
    year = df["admitted"].dt.year.rename("year")
    keys = {"year": [2024, 2025], "region": REGIONS}
    by = [year, df["region"]]
    r = fastdp.count(df["id"], by=by, keys=keys, unit=person, epsilon=1e6)
    truth = df.groupby([year, "region"]).size()
    assert r.values("count").tolist() == [truth[key] for key in r.groups()]
    old, new = r.values("count").reshape(2, 4)  # docs/howto/compare_releases.md
    assert (new - old).tolist() == [truth[2025, k] - truth[2024, k] for k in REGIONS]


def test_11_a_weighted_mean_is_two_sums(df: Any, person: Any) -> None:
    with pytest.raises(TypeError, match="weights"):
        fastdp.mean(df["cost"], weights=df["age"], bounds=(0, 1), unit=person, rho=1)
    both = df[["id"]].assign(w=df["age"] / 100, wx=df["age"] / 100 * df["cost"])
    plan = fastdp.Plan(
        unit=fastdp.Unit("id", records=4),
        sum=["wx", "w"],
        bounds={"wx": (0, 1000), "w": (0, 1)},
        epsilon=1e6,
    )
    r = plan.release(both)
    assert r.values("wx_sum")[0] == pytest.approx(both["wx"].sum(), rel=1e-4)
    assert r.values("w_sum")[0] == pytest.approx(both["w"].sum(), rel=1e-4)
    value, low, high = (found[0] for found in r.ratio("wx_sum", "w_sum"))
    kept = both.dropna()  # a missing cost leaves out its own sum alone
    assert low <= kept["wx"].sum() / both["w"].sum() <= high
    assert low <= value <= high
    with pytest.raises(ParameterError, match=r'sum=\["wx", "w"\]'):
        r.ratio("wx_sum", "wx_mean")


def test_12_small_groups_are_suppressed(df: Any, person: Any) -> None:
    region = df["region"].where(df["id"] > 0, "Islands")  # four records
    keys = ["North", "Islands"]
    r = fastdp.count(df["id"], by=region, keys=keys, unit=person, epsilon=1e6)
    table = r.table(suppress_below=10)
    assert table["note"].tolist() == ["", "below 10"]
    assert table["count"].isna().tolist() == [False, True]
    assert table["count_high"].isna().tolist() == [False, True]
    s = fastdp.sum(df["age"], bounds=(0, 90), unit="row", epsilon=1)
    with pytest.raises(ParameterError, match="units=True or count=True"):
        s.table(suppress_below=10)


def test_13_groups_that_nobody_listed(df: Any, person: Any) -> None:
    small = df["region"].where(df["id"] > 0, "Islands")  # one person alone
    r = fastdp.count(df["id"], by=small, unit=person, epsilon=1, delta=1e-9)
    assert {key for (key,) in r.groups()} == {*REGIONS}  # one person shows none
    with pytest.raises(ParameterError, match="delta must be given for by without keys"):
        fastdp.count(df["id"], by=small, unit=person, epsilon=1)


# ---- budgets ---------------------------------------------------------------------


def test_14_a_budget_for_a_quarter(df: Any, here: Path) -> None:
    book = fastdp.ledger.create("q.db")
    book.add_budget("q4", accounting.PureFilter(2), unit="id")
    plan = fastdp.Plan(unit=PERSON, by="region", keys=REGIONS, count=True, epsilon=1)
    charge = {"ledger": book, "budgets": "q4", "label": "w47"}
    first = plan.release(df, **charge)
    assert plan.release(df, **charge).replayed
    assert plan.release(df, **charge).values("count").tolist() == (
        first.values("count").tolist()
    )
    assert book.budget("q4").spent == {"epsilon": 1}


def test_15_a_budget_for_one_mean(df: Any, here: Path) -> None:
    book = fastdp.ledger.create("q.db")
    book.add_budget("q4", accounting.PureFilter(2), unit="id")
    unit = fastdp.Unit(df["id"], records=4)
    words = {"bounds": (0, 1000), "unit": unit, "epsilon": 1}
    charge = {"ledger": book, "budgets": "q4", "label": "mean"}
    first = fastdp.mean(df["cost"], **words, **charge)
    assert fastdp.mean(df["cost"], **words, **charge).value == first.value
    assert book.budget("q4").spent == {"epsilon": 1}


def test_25_a_nightly_charge_and_its_retry(here: Path) -> None:
    shell("ledger init n.db")
    shell("ledger budget n.db all --epsilon 3 --unit id")
    line = "aggregate in.parquet --unit id --records 4 --count --epsilon 1 -o out.csv "
    line += "--ledger n.db --budget all --label night-1"
    shell(line)
    first = Path("out.csv").read_bytes()
    Path("out.csv").unlink()
    shell(line)
    assert Path("out.csv").read_bytes() == first
    shell(line.replace("--epsilon 1", "--epsilon 9").replace("night-1", "night-2"), 3)


def test_26_the_line_that_makes_a_budget(here: Path) -> None:
    shell("ledger init n.db")
    shell("ledger budget n.db x --epsilon 3 --unit patient")
    with fastdp.ledger.open("n.db") as book:
        assert book.budget("x").unit == "patient"


@pytest.mark.rest
def test_27_two_processes_with_one_label(here: Path) -> None:
    shell("ledger init n.db")
    shell("ledger budget n.db all --epsilon 3 --unit id")
    line = "aggregate in.parquet --unit id --records 4 --count --epsilon 1 "
    line += "--ledger n.db --budget all --label one -o"
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "fastdp.cli", *line.split(), f"{name}.csv"],
            stderr=subprocess.PIPE,
        )
        for name in ("a", "b")
    ]
    for process in both:
        _, said = process.communicate()
        assert process.returncode == 0, said
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    with fastdp.ledger.open("n.db") as book:
        assert book.budget("all").spent == {"epsilon": 1}


def test_31_the_cost_before_the_draw(here: Path, capsys: Any) -> None:
    line = "aggregate in.parquet --unit id --records 4 --count --epsilon 1 -o out.csv"
    shell(f"{line} --dry-run")
    assert "epsilon 1 for one id; kept: at most 4 records" in capsys.readouterr().out
    assert not Path("out.csv").exists()


# ---- pictures and words ----------------------------------------------------------


def test_16_a_figure_in_the_order_of_the_keys(df: Any, person: Any) -> None:
    r = fastdp.count(df["id"], by=df["region"], keys=REGIONS, unit=person, epsilon=1)
    (axes,) = plot.intervals(r).axes
    assert [t.get_text() for t in axes.get_yticklabels()] == REGIONS


def test_17_a_figure_of_a_plan(df: Any) -> None:
    words = {"unit": PERSON, "by": "region", "keys": REGIONS, "epsilon": 1}
    r = fastdp.Plan(count=True, **words).release(df)
    assert plot.intervals(r).axes


def test_18_two_years_in_one_picture(df: Any, person: Any) -> None:
    year = df["admitted"].dt.year.rename("year")
    by = [year, df["region"]]
    keys = {"year": [2024, 2025], "region": REGIONS}
    r = fastdp.count(df["id"], by=by, keys=keys, unit=person, epsilon=1)
    with pytest.raises(ParameterError, match=r"by both, as in by=\[year, region\]"):
        plot.intervals({"2024": r, "2025": r})
    (axes,) = plot.intervals(r).axes
    assert len(axes.get_yticklabels()) == 8


def test_21_dates_are_counted_from_a_public_day(df: Any) -> None:
    first, last = pd.Timestamp("2024-01-01"), pd.Timestamp("2025-12-31")
    words: dict[str, Any] = {"unit": fastdp.Unit(df["id"], records=4), "epsilon": 1e6}
    with pytest.raises(DTypeError, match=r"\(x - day\)\.dt\.days, with bounds="):
        fastdp.mean(df["admitted"], bounds=(first, last), **words)
    days = (df["admitted"] - first).dt.days
    r = fastdp.mean(days, bounds=(0, (last - first).days), **words)
    assert r.value == pytest.approx(days.mean(), abs=0.1)


def test_19_age_bands_keep_their_order(df: Any, person: Any) -> None:
    bands = ["65+", "0-17", "18-64"]
    ages = pd.cut(df["age"], [0, 18, 65, 120], right=False, labels=sorted(bands))
    r = fastdp.count(df["id"], by=ages, keys=bands, unit=person, epsilon=1e6)
    assert [key for (key,) in r.groups()] == bands
    assert r.values("count").tolist() == [(ages == band).sum() for band in bands]


def test_20_a_histogram_by_sex_and_its_picture(df: Any, person: Any) -> None:
    edges = [0, 18, 65, 120]
    by = {"by": df["sex"], "keys": ["F", "M"], "unit": person}
    r = fastdp.histogram(df["age"], edges, epsilon=1e6, **by)
    women = df["age"][df["sex"] == "F"]
    truth = np.histogram(women, edges)[0].tolist()
    assert [r.values(name)[0] for name in r.plan.columns] == truth
    figure = plot.intervals(r)
    assert [axes.get_xlabel() for axes in figure.axes] == [*r.plan.columns]
    for axes, number in zip(figure.axes, truth, strict=True):
        assert axes.lines[0].get_xdata()[0] == number
    assert figure.get_suptitle().startswith("by sex, 95 % intervals")
    q = fastdp.quantiles(df["age"], [0.1, 0.5], bounds=(0, 120), epsilon=1, **by)
    assert [axes.get_xlabel() for axes in plot.intervals(q).axes] == [
        "age_q10",
        "age_median",
    ]


def test_22_the_share_of_women(df: Any) -> None:
    unit = fastdp.Unit(df["id"], records=4)
    r = fastdp.mean(df["sex"] == "F", bounds=(0, 1), unit=unit, epsilon=1e6)
    assert r.value == pytest.approx(0.5, abs=1e-3)


def test_23_the_methods_paragraph(df: Any, person: Any) -> None:
    r = fastdp.count(df["id"], by=df["region"], keys=REGIONS, unit=person, epsilon=1)
    said = r.plan.describe()
    assert "differential privacy (epsilon 1) for one id" in said
    assert "at most 4 groups and 4 records in each were kept" in said


# ---- files -----------------------------------------------------------------------


def test_24_two_means_within_a_memory(here: Path, df: Any) -> None:
    line = "aggregate in.parquet --unit id --groups 4 --records 4 --by region "
    line += "--mean age,cost --bounds age=0,120 --bounds cost=0,1000 --epsilon 4000 "
    shell(f"{line} --delta 1e-6 --memory 1GB -o out.parquet")
    found = parquet.read_table("out.parquet").to_pydict()
    truth = df.groupby("region")["age"].mean()
    wanted = [truth[region] for region in found["region"]]
    assert len(wanted) == 4
    assert found["age_mean"] == pytest.approx(wanted, abs=0.3)


def test_32_a_folder_with_names_that_are_columns(here: Path) -> None:
    for day in ("1", "2"):
        folder = here / "hv" / f"day={day}" / "clinic=a"
        folder.mkdir(parents=True)
        write_parquet(folder / "x.parquet", {"id": list(range(300))})
    line = "aggregate hv --unit id --groups 2 --records 1 --by day,clinic --count "
    shell(f"{line} --epsilon 1e5 --delta 1e-6 -o out.csv")
    rows = Path("out.csv").read_text().replace('"', "").splitlines()[1:]
    assert [row.split(",")[:3] for row in rows] == [
        ["1", "a", "300"],
        ["2", "a", "300"],
    ]
    plan = fastdp.Plan(unit=fastdp.Unit("id", records=1), count=True, epsilon=1)
    with pytest.raises(ParameterError, match="Parquet file or a frame: read other"):
        plan.release("hv")


def test_33_the_rows_of_a_whole_file(here: Path, df: Any, capsys: Any) -> None:
    line = "--rows-are row --count --epsilon 1e5 -o out.csv"
    for source in ("in.csv", "in.parquet"):
        shell(f"aggregate {source} {line}")
        assert Path("out.csv").read_text().splitlines()[1] == "2000,2000,2000"
    plan = fastdp.Plan(unit="row", count=True, epsilon=1e5)
    assert plan.release(df).values("count").tolist() == [2000]
    shell("aggregate in.csv --count --epsilon 1 -o out.csv", 2)
    said = capsys.readouterr().err
    assert "exactly one of --unit and --rows-are must be given: --unit person" in said


def test_34_an_odd_text_file(here: Path) -> None:
    rows = 'u%d, north ,5\n"u,%d",=cmd(),6\nv%d,"a\nb",7\n'
    text = "".join(rows % (i, i, i) for i in range(99))
    write_csv(here / "odd.csv", b"\xef\xbb\xbfwho,where,x\n" + text.encode())
    line = "aggregate odd.csv --unit who --groups 1 --records 1 --by where --count "
    shell(f"{line} --epsilon 1e4 --delta 1e-6 --escape-formulas -o out.csv")
    found = Path("out.csv").read_text()
    assert "north" in found
    assert "'=cmd()" in found


def test_35_files_with_semicolons_or_in_another_encoding(
    here: Path, capsys: Any
) -> None:
    line = "--rows-are row --count --epsilon 99 --delta 1e-6 -o out.csv --by"
    write_csv(here / "semi.csv", "Ort;Kosten\n" + "Bonn;1.001,5\n" * 99)
    shell(f"aggregate semi.csv {line} Ort", 2)
    assert "state --delimiter ';'" in capsys.readouterr().err
    write_csv(
        here / "latin.csv", ("Stra\u00dfe,Kosten\n" + "\u00c4,1\n" * 99).encode("l1")
    )
    shell(f"aggregate latin.csv {line} Stra\u00dfe", 2)
    assert "not utf-8: latin-1 and cp1252 are common" in capsys.readouterr().err
    assert not Path("out.csv").exists()
    # What they say goes.
    mean = "--mean Kosten --bounds Kosten=0,2000 --decimal , --thousands ."
    shell(f"aggregate semi.csv {line} Ort --delimiter ; {mean}")
    (row,) = csv.DictReader(Path("out.csv").read_text().splitlines())
    assert row["Ort"] == "Bonn"
    assert abs(float(row["Kosten_mean"]) - 1001.5) < 20
    shell(f"aggregate latin.csv {line} Stra\u00dfe --encoding latin-1")
    assert "\u00c4" in Path("out.csv").read_text()


def test_36_a_statistic_as_a_command(here: Path, capsys: Any) -> None:
    shell("mean in.csv", 2)
    said = capsys.readouterr().err
    assert "mean is no command: fastdp aggregate INPUT --mean takes it" in said
    # What it says goes.
    shell(
        "aggregate in.csv --unit id --records 4 --mean cost --bounds cost=0,1000 "
        "--epsilon 1 -o out.csv"
    )
