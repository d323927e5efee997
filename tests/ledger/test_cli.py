"""`fastdp ledger`, releases through it, and its page in a browser."""

import argparse
import functools
import json
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

import fastdp
from fastdp import accounting
from fastdp.cli import _ledgered, main
from fastdp.exceptions import UnsupportedEventError

pytest.importorskip("pyarrow")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("clinic,visits\na,10\nb,20\nc,30\n")
    run("ledger init budget.db --witness witness.json")
    relation = "--unit person --neighbors"
    run(f"ledger budget budget.db clinic --zcdp-rho 0.5 {relation} add-or-remove-one")
    run(
        "ledger budget budget.db analyst --epsilon 3 --delta 1e-6 "
        f"{relation} add-or-remove-one"
    )
    run(f"ledger budget budget.db local --epsilon 3 {relation} replace-one")
    return tmp_path


def run(line, code=0):
    assert main(line.split()) == code


def test_a_ledger_that_is_locked_has_an_exit_code_of_its_own(here, monkeypatch, capsys):
    opened = fastdp.ledger.open
    soon = functools.partial(opened, timeout=0.2)
    monkeypatch.setattr(fastdp.ledger, "open", soon)
    spend = "ledger spend budget.db --label a --budget clinic --rho 0.1 --neighbors"
    writer = sqlite3.connect("budget.db", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    run(f"{spend} add-or-remove-one", 75)
    assert "has been locked for more than 0.2 s" in capsys.readouterr().err
    writer.close()
    run(f"{spend} add-or-remove-one")


RELEASE = (
    "release visits.csv --column visits --keep clinic --mechanism discrete-gaussian "
    "--rho 0.01 --sensitivity 1 --ledger budget.db --budget clinic --label W47"
)
COLLECT = (
    "collect visits.csv --column clinic --categories a,b,c --epsilon 1 "
    "--ledger budget.db --budget local --label reports -o reports.parquet"
)


@pytest.mark.parametrize("output", ["private.parquet", "private.csv"])
def test_the_same_command_twice_gives_the_same_file_and_one_charge(
    here, capsys, output
):
    run(f"{RELEASE} -o {output}")
    body = Path(output).read_bytes()
    capsys.readouterr()
    run(f"{RELEASE} -o {output}")
    assert "nothing: the file was released before" in capsys.readouterr().err
    assert Path(output).read_bytes() == body
    with fastdp.ledger.open("budget.db") as book:
        spent = book.budget("clinic").spent["rho"]
    assert 0 < spent <= 0.01
    run(f"ledger audit budget.db --receipt {output}")
    whole = Path(output).read_bytes()
    Path(output).write_bytes(whole + b"\n")
    capsys.readouterr()
    run("ledger audit budget.db", 1)
    assert f"{output} is altered" in capsys.readouterr().out
    Path(output).write_bytes(whole)
    run("ledger audit budget.db")
    assert "NOT" not in capsys.readouterr().out
    Path(output).unlink()
    run("ledger audit budget.db", 1)
    assert f"{output} is missing" in capsys.readouterr().out
    run("ledger audit budget.db --no-files")
    assert "verified" in capsys.readouterr().out
    run(f"{RELEASE} -o {output}", 5)
    assert "missing; it is not drawn again" in capsys.readouterr().err
    run(f"{RELEASE} -o {output}".replace("0.01", "0.02"), 4)
    assert "another transaction" in capsys.readouterr().err


def test_reports_are_collected_once(here, capsys):
    run(COLLECT)
    body = Path("reports.parquet").read_bytes()
    run(COLLECT)
    assert Path("reports.parquet").read_bytes() == body
    run("estimate reports.parquet -o frequencies.csv")
    run("ledger audit budget.db --receipt reports.parquet")
    run(COLLECT.replace(".parquet", ".csv"), 2)
    assert "must end in .parquet or .feather with --ledger" in capsys.readouterr().err


def test_a_budget_that_does_not_cover_writes_nothing(here, capsys):
    run(f"{RELEASE} -o big.parquet".replace("0.01", "0.7").replace("W47", "big"), 3)
    assert "does not cover" in capsys.readouterr().err
    run("ledger budget budget.db pure --epsilon 3 --unit person")
    gaussian = RELEASE.replace("--budget clinic", "--budget pure")
    run(f"{gaussian} -o big.parquet", 3)  # this budget has no price for it
    assert not Path("big.parquet").exists()
    assert list(here.glob(".big*")) == []
    run(f"{RELEASE} -o x.parquet".replace("--label W47", ""), 2)
    assert "must be given together" in capsys.readouterr().err


def test_spending_showing_and_exporting(here, capsys):
    event = accounting.PureDPEvent(0.5)
    Path("event.json").write_text(event.to_json())
    spend = "ledger spend budget.db --label x --budget analyst"
    run(f"{spend} --event event.json --dry-run")
    run(f"{spend} --event event.json")
    run(f"{spend} --event event.json", 4)
    assert "spent already" in capsys.readouterr().err
    run(f"{spend} --epsilon 1", 2)
    run(f"{spend} --rho 1 --epsilon 1 --neighbors replace-one", 2)
    capsys.readouterr()
    run("ledger show budget.db --json")
    shown = json.loads(capsys.readouterr().out)
    assert shown["analyst"]["spent"]["epsilon"] == "1/2"
    run("ledger export budget.db -o audit.jsonl --bodies")
    run("ledger export budget.db -o audit.jsonl", 5)
    run("ledger budget budget.db no --unit person --neighbors replace-one", 2)
    assert "one limit must be given" in capsys.readouterr().err


def test_a_release_that_is_there_tells_no_password(capsys):
    ledger = "postgresql://owner:secret@host:5432/budgets?password=secret"
    asked = argparse.Namespace(ledger=ledger, label="a", output="out.csv")
    _ledgered.tell_replayed(asked)
    said = capsys.readouterr().err
    assert "postgresql://host:5432/budgets" in said
    assert "secret" not in said


def test_backup_adopt_forfeit_and_migrate(here, capsys):
    run(f"{RELEASE} -o private.parquet")
    run("ledger backup budget.db copy.db")
    run("ledger show copy.db", 5)
    assert "fastdp ledger adopt" in capsys.readouterr().err
    run("ledger adopt copy.db --note moved --receipt private.parquet")
    run("ledger forfeit copy.db local --note lost")
    run("ledger migrate copy.db new.db --note larger")
    capsys.readouterr()
    run("ledger show new.db")
    words = ["local", "person", "epsilon 3", "epsilon 0", "0.0%", "nothing: closed"]
    (line,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("local"))
    assert re.split("  +", line) == words
    run("ledger show none.db", 5)
    assert "no ledger at none.db" in capsys.readouterr().err


# ---- the page ------------------------------------------------------------------------


@pytest.fixture
def page(here):
    run(f"{RELEASE} -o private.parquet")
    for number in range(8):
        run(
            f"ledger spend budget.db --label <b>{number}</b>&{number} --budget clinic "
            "--rho 1/20 --neighbors add-or-remove-one"
        )
    run("ledger show budget.db --html page.html")
    return here / "page.html"


def test_the_page_is_whole_and_escapes_what_it_shows(page):
    text = page.read_text()
    assert not re.search(r"<script|https?://|src=|@import|url\(", text)
    assert "&lt;b&gt;3&lt;/b&gt;&amp;3" in text
    assert "<b>3</b>" not in text
    assert text.count("class='bar") == 3
    assert "Chain verified" in text


@pytest.mark.rest
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not here")
def test_a_browser_shows_the_page(page, tmp_path):
    picture = tmp_path / "page.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command = [CHROMIUM, *options, f"--user-data-dir={tmp_path / 'profile'}"]
    shot = subprocess.run(
        [*command, f"--screenshot={picture}", "--window-size=1000,1400", page.as_uri()],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert shot.returncode == 0
    matplotlib = pytest.importorskip("matplotlib.image")
    pixels = matplotlib.imread(picture)[..., :3]
    assert pixels.shape[1] == 1000

    def share(red, green, blue):
        wanted = [red / 255, green / 255, blue / 255]
        return (abs(pixels - wanted) < 0.02).all(axis=2).mean()

    # The bar of the clinic at 82 % is in the color of a warning, and wide.
    assert share(0xB4, 0x5F, 0x06) > 0.004
    assert share(0x22, 0x71, 0x3D) > 0.0001  # verified
    assert share(0xA6, 0x1B, 0x1B) < 0.01


def test_a_page_of_a_broken_ledger_says_so(here, monkeypatch):
    from fastdp.ledger import _page
    from fastdp.ledger._chain import Audit

    assert "The audit failed" in _page._verdict(Audit(problems=["<entry> 3"]))
    assert "&lt;entry&gt; 3" in _page._verdict(Audit(problems=["<entry> 3"]))


def test_labels_are_listed_without_answers(here, capsys):
    run(f"{RELEASE} -o private.csv")
    run("ledger spend budget.db --label other --budget analyst --epsilon 1 "
        "--neighbors add-or-remove-one")  # fmt: skip
    capsys.readouterr()
    run("ledger labels budget.db")
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split("  ")[1:] for line in lines) == [
        ["W47", "write", "clinic", "answered"],
        ["other", "spend", "analyst", "no stored answer"],
    ]
    run("ledger labels budget.db --json")
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["label"]: one["count"] for one in found} == {"W47": 1, "other": 1}


def test_a_budget_is_of_units_added_or_removed(here, capsys):
    run("ledger budget budget.db new --epsilon 1 --unit person")
    with fastdp.ledger.open("budget.db") as book:
        relation = book.budget("new").neighboring_relation
    assert relation is accounting.NeighboringRelation.ADD_OR_REMOVE_ONE


# ---- kinds of budgets ----------------------------------------------------------------

DOCUMENT = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text("utf-8")
RULES = {
    "pure": accounting.PureFilter(9),
    "**approximate**": accounting.ApproximateFilter(epsilon=9, delta=1e-3),
    "zero-concentrated": accounting.ZCDPFilter(9),
    "Renyi, one order": accounting.RDPFilter(order=8, epsilon=9),
    "Gaussian": accounting.GDPFilter(9),
}


@pytest.mark.parametrize("kind", RULES)
def test_each_kind_of_budget_accepts_what_the_page_says(kind, tmp_path):
    listed = {"by": "g", "keys": ["a", "b"], "mean": "x", "bounds": {"x": (0, 1)}}
    chosen = {"by": "g", "count": True, "delta": 1e-6}
    asked = [
        {"epsilon": 1, **listed},
        {"epsilon": 1, **chosen},
        {"rho": 0.1, **listed},
        {"rho": 0.1, **chosen},
    ]
    (row,) = re.findall(rf"^\| {re.escape(kind)} \|[^|]*\|(.*)\|$", DOCUMENT, re.M)
    unit = fastdp.Unit("p", groups=1, records=2)
    with fastdp.ledger.create(tmp_path / "l.db") as book:
        book.add_budget("b", RULES[kind], unit="p")
        for words, said in zip(asked, row.split("|"), strict=True):
            event = fastdp.Plan(unit=unit, **words).event()
            if said.strip() == "yes":
                assert book.covers(event, budgets="b")
            else:
                with pytest.raises(UnsupportedEventError):
                    book.covers(event, budgets="b")
        laplace = fastdp.DiscreteLaplace(1, sensitivity=1)
        gaussian = fastdp.DiscreteGaussian(1, sensitivity=1)
        for law, like in ((laplace, 0), (gaussian, 2)):
            if row.split("|")[like].strip() == "yes":
                assert book.covers(law, budgets="b")


def test_show_states_each_budget_in_one_currency(tmp_path, capsys):
    relation = accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    place = str(tmp_path / "l.db")
    with fastdp.ledger.create(place) as book:
        rule = accounting.ApproximateFilter(epsilon=3, delta=1e-5)
        book.add_budget("a", rule, unit="p")
        cost = accounting.ApproximateDPEvent(
            epsilon=0.05, delta=1e-9, neighboring_relation=relation
        )
        book.spend(cost, label="first", budgets="a", count=20)
    run(f"ledger show {place}")
    said = capsys.readouterr().out
    assert "epsilon 1, delta 2e-08" in said
    assert "epsilon 2, delta 8.98e-06" in said
    assert "rho 0" not in said
    assert "last 1 of 1 releases" in said
    with fastdp.ledger.open(place) as book:
        assert str(book.budget("a")).startswith("epsilon 1 of 3, ")
        book.spend(cost, label="second", budgets="a", count=60)  # 4, more than 3
        assert str(book.budget("a")).startswith("rho 0.")
    run(f"ledger show {place}")
    said = capsys.readouterr().out
    assert "epsilon 4" not in said
    assert "rho 0." in said
    assert "last 2 of 2 releases" in said
