"""Ledgers that change under an open handle, and files that only SQLite may open."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time

import pytest

from fastdp import accounting, ledger
from fastdp.exceptions import (
    LedgerError,
    LedgerRolledBackError,
    LedgerUnavailableError,
)
from fastdp.ledger import _sqlite
from tests.ledger.conftest import NOISE, use_journal
from tests.ledger.test_care import CELLS, audited, tampered


def new_ledger(path, **options):
    book = ledger.create(path, **options)
    book.add_budget("all", accounting.PureFilter(10**6), unit="person")
    return book


def links(path):
    raw = sqlite3.connect(path)
    found = [row[0] for row in raw.execute("SELECT link FROM entry WHERE seq > 0")]
    raw.close()
    return found


# ---- nothing but SQLite opens the file ----------------------------------------------

OPENS = r"""
import os, sys
folder, opened = sys.argv[1], []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        name = os.path.basename(os.fsdecode(arguments[0]))
        new = arguments[2] & os.O_EXCL and arguments[2] & os.O_CREAT
        if name.split("-")[0] in ("a.db", "b.db", "c.db", "d.db") and not new:
            if "-locks" not in os.fsdecode(arguments[0]):
                opened.append(name)
sys.addaudithook(hook)
import numpy as np, fastdp
from fastdp import accounting, ledger
from fastdp.cli import main
from fastdp.ledger import _sqlite
_sqlite.is_write_ahead_safe = lambda: sys.argv[2] == "wal"
m = fastdp.DiscreteLaplace(10, sensitivity=1)
book = ledger.create(folder + "/a.db", witness=folder + "/witness")
book.add_budget("all", accounting.PureFilter(1000), unit="person")
answer = book.release(m, np.arange(3), label="a", budgets="all")
with ledger.open(folder + "/a.db") as other:
    other.release(m, np.arange(3), label="b", budgets="all")
    assert other.audit(receipts=answer.receipts).ok
    other.backup(folder + "/b.db")
    other.export(folder + "/export")
    other.to_html()
book.counter(fastdp.Counter.from_epsilon(1, steps=4), label="c", budgets="all")
book.close()
ledger.migrate(folder + "/a.db", folder + "/c.db", note="x")
main(["ledger", "audit", folder + "/c.db"])
main(["ledger", "show", folder + "/c.db"])
main(["ledger", "backup", folder + "/c.db", folder + "/d.db"])
ledger.adopt(folder + "/b.db", note="x", forfeit=["all"])
print(sorted(set(opened)))
"""


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_only_sqlite_opens_the_file(tmp_path, journal):
    # POSIX drops a process's locks on a file when any descriptor of it is closed.
    command = [sys.executable, "-c", OPENS, tmp_path, journal]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_file_decides_its_journal(tmp_path, monkeypatch):
    use_journal(monkeypatch, "delete")
    plain, logged = tmp_path / "plain.db", tmp_path / "logged.db"
    new_ledger(plain).close()
    use_journal(monkeypatch, "wal")
    new_ledger(logged).close()
    with ledger.open(plain) as book:
        book.release(NOISE, CELLS, label="a", budgets="all")
        assert "rollback journal" in book.describe()["durability"]
    use_journal(monkeypatch, "delete")
    with pytest.raises(LedgerError, match="write-ahead log"):
        ledger.open(logged)


def test_a_reader_that_stays_is_a_timeout_by_name(tmp_path, monkeypatch):
    use_journal(monkeypatch, "delete")
    place = tmp_path / "budget.db"
    new_ledger(place).close()
    with ledger.open(place, timeout=0.2) as book:
        reader = sqlite3.connect(place, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM budget").fetchall()
        with pytest.raises(LedgerUnavailableError, match="locked for more than"):
            book.release(NOISE, CELLS, label="a", budgets="all")
        reader.close()
        assert book.audit().labels == 0
        book.release(NOISE, CELLS, label="a", budgets="all")


def test_a_file_that_is_no_database_is_named(tmp_path):
    place = tmp_path / "notes.db"
    place.write_bytes(b"no database at all" * 100)
    with pytest.raises(LedgerError, match="is not a ledger"):
        ledger.open(place)
    sqlite3.connect(tmp_path / "other.db").executescript("CREATE TABLE a (b)")
    with pytest.raises(LedgerError, match="is not a ledger"):
        ledger.open(tmp_path / "other.db")


# ---- going back under an open handle ------------------------------------------------


@pytest.mark.parametrize("witnessed", [False, True])
def test_an_open_handle_is_told_that_its_ledger_went_back(tmp_path, journal, witnessed):
    place = tmp_path / "budget.db"
    options = {"witness": tmp_path / "witness"} if witnessed else {}
    with new_ledger(place, **options) as book:
        book.release(NOISE, CELLS, label="before", budgets="all")
        saved = tmp_path / "saved"
        with sqlite3.connect(place) as raw, sqlite3.connect(saved) as copy:
            raw.backup(copy)
        raw.close()
        copy.close()
        book.release(NOISE, CELLS, label="a", budgets="all")
        with sqlite3.connect(place) as raw, sqlite3.connect(saved) as copy:
            copy.backup(raw)  # through SQLite, as a restored dump
        raw.close()
        copy.close()
        with pytest.raises(LedgerRolledBackError, match="is behind"):
            book.release(NOISE, CELLS, label="a", budgets="all")
        with pytest.raises(LedgerRolledBackError, match="is behind"):
            book.spend(NOISE, label="b", budgets="all")


def test_an_answer_that_another_handle_drew_is_missed_with_a_witness(tmp_path):
    place = tmp_path / "budget.db"
    with new_ledger(place, witness=tmp_path / "witness") as book:
        saved = sqlite3.connect(tmp_path / "saved")
        raw = sqlite3.connect(place)
        raw.backup(saved)
        with ledger.open(place) as other:
            other.release(NOISE, CELLS, label="a", budgets="all")
        saved.backup(raw)
        raw.close()
        saved.close()
        with pytest.raises(LedgerRolledBackError, match="behind the witness"):
            book.release(NOISE, CELLS, label="a", budgets="all")


def test_the_witness_knows_an_answer_before_it_is_shown(tmp_path):
    # Else a ledger restored to the instant between charge and answer would pass.
    place = tmp_path / "budget.db"
    with new_ledger(place, witness=tmp_path / "witness") as book:
        answer = book.release(NOISE, CELLS, label="a", budgets="all")
    seen = json.loads((tmp_path / "witness").read_text())["receipts"]
    assert [entry["seq"] for entry in seen] == [answer.receipts[0].seq]


def test_another_file_in_its_place_is_refused(tmp_path, journal):
    place = tmp_path / "budget.db"
    with new_ledger(place) as book:
        book.release(NOISE, CELLS, label="a", budgets="all")
        place.rename(tmp_path / "old.db")
        shutil.copy(tmp_path / "old.db", place)
        with pytest.raises(LedgerError, match="was moved, restored"):
            book.release(NOISE, CELLS, label="b", budgets="all")


def test_a_moved_or_linked_file_is_refused(tmp_path):
    place, moved = tmp_path / "budget.db", tmp_path / "moved.db"
    new_ledger(place).close()
    os.link(place, moved)
    for name in (place, moved):
        with pytest.raises(LedgerError, match="one name"):
            ledger.open(name)
    place.unlink()
    with pytest.raises(LedgerError, match="copy, or was moved"):
        ledger.open(moved)
    ledger.adopt(moved, note="renamed")
    ledger.open(moved).close()


def test_entries_made_in_one_second_have_different_links(tmp_path, monkeypatch):
    for name in ("a", "b"):
        with new_ledger(tmp_path / f"{name}.db") as book:
            # The same ledger twice, as a restored copy is.
            monkeypatch.setattr(book, "_uuid", "one")
            tampered(tmp_path / f"{name}.db", "UPDATE ledger SET uuid = 'one'")
            book._store.seen = type(book._store.seen)()
            book.release(NOISE, CELLS, label="a", budgets="all")
    assert not set(links(tmp_path / "a.db")) & set(links(tmp_path / "b.db"))


# ---- answers that are gone ----------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM result",
        "DELETE FROM result; DELETE FROM attempt",
        "DELETE FROM result; DELETE FROM attempt; DELETE FROM charge",
    ],
)
def test_a_deleted_answer_is_named_and_never_drawn_again(tmp_path, statement):
    place = tmp_path / "budget.db"
    with new_ledger(place) as book:
        book.release(NOISE, CELLS, label="a", budgets="all")
    for one in statement.split(";"):
        tampered(place, one)
    assert audited(place) != []
    with ledger.open(place) as book:
        before = book.budget("all")
        with pytest.raises(LedgerError, match="deleted"):
            book.release(NOISE, CELLS, label="a", budgets="all")
        assert book.budget("all") == before


# ---- draws within draws -------------------------------------------------------------


def test_a_draw_that_releases_another_label_is_refused_at_once(tmp_path):
    place = tmp_path / "budget.db"
    link = tmp_path / "link.db"
    link.symlink_to(place)  # the same ledger by another name
    with new_ledger(place, timeout=30) as book, ledger.open(link) as other:

        def draw(staged, receipts):
            start = time.monotonic()
            for handle in (book, other):
                with pytest.raises(LedgerError, match="during the draw"):
                    handle.release(NOISE, CELLS, label="inner", budgets="all")
                with pytest.raises(LedgerError, match="during the draw"):
                    handle.spend(NOISE, label="outer", budgets="all")
            assert time.monotonic() - start < 10
            staged.write_text("x")

        event = NOISE.event()
        book.write(tmp_path / "out", draw, event=event, label="outer", budgets="all")
        assert book.audit().labels == 1
        book.release(NOISE, CELLS, label="inner", budgets="all")


# ---- names, modes, file systems -----------------------------------------------------


def test_all_files_of_a_ledger_are_its_owners(tmp_path):
    old = os.umask(0)
    try:
        with new_ledger(tmp_path / "a.db", witness=tmp_path / "witness") as book:
            book.release(NOISE, CELLS, label="a", budgets="all")
            book.export(tmp_path / "export")
            book.backup(tmp_path / "b.db")
        from fastdp.cli import main

        page = tmp_path / "page.html"
        assert (
            main(["ledger", "show", str(tmp_path / "a.db"), "--html", str(page)]) == 0
        )
    finally:
        os.umask(old)
    for file in tmp_path.rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file


def test_the_witness_follows_no_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".witness.part").symlink_to(victim)
    with new_ledger(tmp_path / "a.db", witness=tmp_path / "witness") as book:
        book.release(NOISE, CELLS, label="a", budgets="all")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "witness").is_symlink()


def test_a_file_in_the_place_of_the_locks_is_named(tmp_path):
    (tmp_path / "a.db-locks").write_text("")
    with pytest.raises(LedgerError, match="locks must be the folder"):
        ledger.create(tmp_path / "a.db")
    assert not (tmp_path / "a.db").exists()


def test_mount_points_are_read_as_bytes():
    table = (
        b"1 0 8:1 / / rw - ext4 /dev/a rw\n"
        b"2 1 0:9 / /data/caf\xc3\xa9\\040x rw shared:1 - nfs4 host:/ rw\n"
    )
    assert list(_sqlite._mounts_of_linux(table)) == [
        ("/", "ext4"),
        ("/data/caf\u00e9 x", "nfs4"),
    ]
    printed = (
        "/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)\n"
        "//me@host/share on /Volumes/our share (smbfs, nodev, nosuid, mounted by me)\n"
    )
    assert list(_sqlite._mounts_of_macos(printed)) == [
        ("/", "apfs"),
        ("/Volumes/our share", "smbfs"),
    ]


def test_a_witness_that_is_there_leaves_no_half_ledger(tmp_path):
    (tmp_path / "witness").write_text("of another ledger")
    with pytest.raises(LedgerError, match="must not exist yet"):
        ledger.create(tmp_path / "a.db", witness=tmp_path / "witness")
    assert (tmp_path / "witness").read_text() == "of another ledger"
    new_ledger(tmp_path / "a.db").close()
    with pytest.raises(LedgerError):
        ledger.create(tmp_path / "a.db", witness=tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("name", "other"), [("a*", "ab"), ("a", "a.staging-1"), ("[ab]", "a")]
)
def test_what_is_staged_for_another_file_stays(tmp_path, name, other):
    staged = tmp_path / f".{other}.staging-1"
    staged.write_text("charged, and not yet in its place")
    left = tmp_path / f".{name}.staging-7"
    left.write_text("given up")
    with new_ledger(tmp_path / "budget.db") as book:
        book.write(
            tmp_path / name,
            lambda path, _: path.write_text("x"),
            event=NOISE.event(),
            label="a",
            budgets="all",
        )
    assert staged.exists()
    assert not left.exists()


@pytest.mark.parametrize(
    "edit",
    [
        "entry SET detail = '[]' WHERE what = 'store'",
        "charge SET terms = ''",
        "budget SET rule = ''",
    ],
)
def test_an_audit_names_text_that_no_ledger_holds(tmp_path, edit):
    place = tmp_path / "budget.db"
    with new_ledger(place) as book:
        book.release(NOISE, CELLS, label="a", budgets="all")
    tampered(place, f"UPDATE {edit}")
    assert audited(place) != []
