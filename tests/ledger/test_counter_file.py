"""Counters whose file went back, was edited or copied, and what a file reveals."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import fastdp
import fastdp.testing
from fastdp import ledger
from fastdp.exceptions import (
    BudgetExceededError,
    LedgerError,
    LedgerRolledBackError,
)
from tests.ledger.test_care import tampered
from tests.ledger.test_counter import ROOT, made, opened

# ---- going back, edits, copies ----------------------------------------------------


def stepped(path, *labels):
    with ledger.open(path) as book:
        return [opened(book).add(1, label=label) for label in labels]


def test_a_counter_that_went_back_is_refused(tmp_path, journal):
    path = tmp_path / "budget.db"
    made(path, witness=tmp_path / "witness")
    stepped(path, "a")
    saved = path.read_bytes()
    (answer,) = stepped(path, "b")
    path.write_bytes(saved)  # in place: the same inode
    with pytest.raises(LedgerRolledBackError, match="behind the witness"):
        ledger.open(path)
    with pytest.raises(LedgerRolledBackError):
        ledger.adopt(path, note="restored")
    assert ledger.adopt(path, note="restored", forfeit=["all"]) == ["all"]
    with ledger.open(path) as book:
        with pytest.raises(BudgetExceededError, match="closed"):
            opened(book).add(1, label="b")
        assert book.audit(receipts=answer.receipts).problems != []
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    with pytest.raises(LedgerError, match="is a copy"):
        ledger.open(copy)


def test_a_witness_sees_a_step_before_it_is_drawn(tmp_path):
    path = tmp_path / "budget.db"
    made(path)

    def refuses(receipts):
        raise OSError("elsewhere is down")

    stepped(path, "a")
    with ledger.open(path, witness=refuses) as book:
        c = opened(book)  # it is there: nothing was charged
        with pytest.raises(OSError, match="elsewhere"):
            c.add(1, label="b")
        assert len(c.totals()) == 1


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE memory SET body = (SELECT zeroblob(length(body)) FROM old)", "memory"),
        ("UPDATE memory SET body = (SELECT body FROM old)", "memory"),
        ("UPDATE memory SET body = x''", "memory"),
        ("DELETE FROM step WHERE number = 1", "steps"),
        ("DELETE FROM step WHERE number = 2", "memory"),
    ],
)
def test_edits_are_refused_and_found(tmp_path, statement, problem):
    path = tmp_path / "budget.db"
    made(path)
    stepped(path, "a")
    tampered(path, "CREATE TABLE old AS SELECT * FROM memory")
    stepped(path, "b")
    tampered(path, statement)
    with ledger.open(path) as book:
        (found,) = book.audit().problems
        assert problem in found
        if "number = 1" not in statement:
            with pytest.raises(LedgerError, match="edited or went back"):
                opened(book).add(1, label="c")
            assert book.audit().pending == 0


# ---- what the file reveals --------------------------------------------------------


def test_earlier_memories_are_overwritten(tmp_path, journal):
    path = tmp_path / "budget.db"
    made(path)
    salts = []
    with ledger.open(path) as book:
        c = opened(book)
        for number in range(20):
            c.add(1, label=f"s {number}")
            with book._store.reading() as run:
                salts.append(bytes(run("SELECT body FROM memory")[0][0])[:32])
        assert salts[-1] in path.read_bytes() + (
            Path(f"{path}-wal").read_bytes() if journal == "wal" else b""
        )
        c.end(note="moved elsewhere")
        assert c.steps_left == 0
        with pytest.raises(BudgetExceededError, match="was ended"):
            c.add(1, label="more")
        with pytest.raises(BudgetExceededError, match="was ended"):
            c.end(note="again")
        assert book.audit().problems == []
    assert len(set(salts)) == 20
    file = path.read_bytes()
    assert [salt for salt in salts if salt in file] == []
    assert not Path(f"{path}-wal").exists()


def test_others_must_not_read_it(tmp_path):
    path = tmp_path / "budget.db"
    made(path)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with (
        ledger.open(path) as book,
        pytest.raises(LedgerError, match=r"its owner alone.*mode 640"),
    ):
        opened(book)


@pytest.mark.slow
def test_others_must_not_read_the_table(database):
    made(database)
    with ledger.open(database) as book:
        opened(book).add(1, label="a")
        with book._store.transaction() as run:
            run("GRANT SELECT ON memory TO PUBLIC")
        with pytest.raises(LedgerError, match="its owner alone"):
            opened(book)
        with book._store.transaction() as run:
            run("REVOKE SELECT ON memory FROM PUBLIC")
            run("GRANT SELECT (body) ON memory TO PUBLIC")  # of a column alone
        with pytest.raises(LedgerError, match="its owner alone"):
            opened(book)


@pytest.mark.slow
def test_no_counter_moves_to_where_others_read(tmp_path, database):
    old = tmp_path / "old.db"
    made(old)
    stepped(old, "a")
    store = ledger._store(database, 20)
    with store.transaction() as run:
        run("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC")
    with pytest.raises(LedgerError, match="its owner alone"):
        ledger.migrate(old, database, note="to the server")
    with store.reading() as run:
        assert run("SELECT COUNT(*) FROM memory") == [(0,)]
    store.close()
    stepped(old, "b")  # it goes on where it was


def test_a_counter_ends_after_its_budget_was_closed(tmp_path):
    path = tmp_path / "budget.db"
    made(path)
    with ledger.open(path) as book:
        counter = opened(book)
        counter.add(1, label="a")
        book.forfeit("all", note="lost")
        counter.end(note="over")
        assert book.audit().problems == []
    with ledger.open(path) as book, book._store.reading() as run:
        assert run("SELECT body FROM memory") == [(b"",)]


def test_no_export_and_no_page_holds_the_memory(tmp_path):
    path, lines = tmp_path / "budget.db", tmp_path / "audit.jsonl"
    made(path)
    stepped(path, "a 0", "b 1", "c 2")
    with ledger.open(path) as book:
        with book._store.reading() as run:
            body = bytes(run("SELECT body FROM memory")[0][0])
        book.export(lines, bodies=True)
        shown = book.to_html()
    assert "a total for each step" in shown
    assert "a 0" not in shown  # a month of hours would fill it
    for part in (body[:32].hex(), body[33:50].hex()):
        assert part not in lines.read_text() + shown
    command = [sys.executable, str(ROOT / "tools/check_ledger.py"), str(lines)]
    assert subprocess.run(command, check=False).returncode == 0
    text = lines.read_text()
    for was, now in (
        ('"number":2', '"number":3'),
        ('"counter":"total"', '"counter":"c 2"'),
    ):
        assert was in text
        lines.write_text(text.replace(was, now))
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        assert said.returncode == 1


# ---- moving -----------------------------------------------------------------------


def test_a_counter_moves_with_its_ledger(tmp_path):
    old, moved = tmp_path / "old.db", tmp_path / "new.db"
    made(old)
    (first,) = stepped(old, "a")
    ledger.migrate(old, moved, note="new disk")
    with sqlite3.connect(old) as raw:
        assert raw.execute("SELECT COUNT(*) FROM memory").fetchone() == (0,)
    raw.close()
    with ledger.open(moved) as book:
        c = opened(book)
        c.add(1, label="b")
        assert c.totals()[0] == ("a", first.value)
        assert book.audit().problems == []


def test_a_ledger_of_the_first_format_is_used_and_moves(tmp_path):
    old, moved = tmp_path / "old.db", tmp_path / "new.db"
    made(old)
    tampered(old, "DROP TABLE step")
    tampered(old, "DROP TABLE memory")
    tampered(old, "UPDATE ledger SET format = 1")
    with ledger.open(old) as book:
        book.release(
            fastdp.DiscreteLaplace(10, sensitivity=1), 5, label="a", budgets="all"
        )
        with pytest.raises(LedgerError, match="migrate"):
            opened(book)
        book.export(tmp_path / "lines")
        assert book.audit().problems == []
    ledger.migrate(old, moved, note="counters")
    with ledger.open(moved) as book:
        opened(book).add(1, label="b")
        assert book.audit().problems == []
