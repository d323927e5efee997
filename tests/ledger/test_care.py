"""Ledgers that went back, were edited, copied, moved; files that went missing."""

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastdp
from fastdp import accounting, ledger
from fastdp.accounting.events import PureDPEvent
from fastdp.exceptions import (
    BudgetExceededError,
    LedgerError,
    LedgerRolledBackError,
    ParameterError,
)
from tests.ledger.conftest import NOISE, PRICE, use_journal

CELLS = np.arange(3)
ROOT = Path(__file__).parents[2]


def released(path, *labels, budgets="all"):
    with ledger.open(path) as book:
        return [
            book.release(NOISE, CELLS, label=label, budgets=budgets) for label in labels
        ]


def tampered(path, statement):
    """Edit the file as somebody would who has it."""
    with sqlite3.connect(path) as raw:
        for (trigger,) in raw.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            raw.execute(f"DROP TRIGGER {trigger}")
        raw.execute(statement)
    raw.close()


def audited(path, receipts=()):
    with ledger.open(path) as book:
        return book.audit(receipts=receipts).problems


# ---- going back -----------------------------------------------------------------


def test_a_restored_copy_is_refused_as_a_copy(path, tmp_path):
    released(path, "a")
    copy = tmp_path / "copy.db"
    with ledger.open(path) as book:
        book.backup(copy)
    with pytest.raises(LedgerError, match="copy, or was moved"):
        ledger.open(copy)
    with pytest.raises(LedgerError):
        ledger.open(path).backup(copy)  # never over a file


def test_a_backup_in_the_place_of_its_original_is_a_copy(tmp_path, monkeypatch):
    for journal in ("wal", "delete"):
        use_journal(monkeypatch, journal)
        place, saved = tmp_path / f"{journal}.db", tmp_path / f"{journal}.saved"
        with ledger.create(place) as book:
            book.add_budget("all", accounting.PureFilter(9), unit="person")
            book.backup(saved)
            book.release(NOISE, CELLS, label="a", budgets="all")
        assert not Path(f"{saved}-wal").exists()
        place.write_bytes(saved.read_bytes())  # the same inode, and no witness
        with pytest.raises(LedgerError, match="copy, or was moved"):
            ledger.open(place)
        assert ledger.adopt(place, note="restored", forfeit=["all"]) == ["all"]
        assert audited(place) == []


def test_a_ledger_that_went_back_is_behind_its_witness(path, tmp_path):
    old = released(path, "a")
    saved = path.read_bytes()  # as cp would
    (answer,) = released(path, "b")
    path.write_bytes(saved)  # in place: the same inode
    with pytest.raises(LedgerRolledBackError, match="behind the witness"):
        ledger.open(path)
    # Without the witness, what was published tells.
    tampered(path, "UPDATE ledger SET witness = NULL")
    assert audited(path, old[0].receipts) == []
    (problem,) = audited(path, answer.receipts)
    assert "'all'" in problem
    assert "receipt" in problem


def test_a_truncated_write_ahead_log_is_behind_its_witness(tmp_path, monkeypatch):
    use_journal(monkeypatch, "wal")
    place = tmp_path / "budget.db"
    with ledger.create(place, witness=tmp_path / "w") as book:
        book.add_budget("all", accounting.PureFilter(9), unit="person")
    book = ledger.open(place)  # kept open, so that the log stays
    book.release(NOISE, CELLS, label="a", budgets="all")
    log = Path(f"{place}-wal")
    size = log.stat().st_size
    answer = book.release(NOISE, CELLS, label="b", budgets="all")
    copies = tmp_path / "after"
    copies.mkdir()
    for file in (place, log):
        shutil.copy(file, copies)
    book.close()
    # The machine comes back with a log that lost its end.
    kept = (copies / log.name).read_bytes()[:size]
    place.write_bytes((copies / place.name).read_bytes())
    log.write_bytes(kept)
    with pytest.raises(LedgerRolledBackError):
        ledger.open(place)
    tampered(place, "UPDATE ledger SET witness = NULL")
    assert audited(place, answer.receipts) != []


@pytest.mark.parametrize(
    ("statement", "refused"),
    [
        ("UPDATE budget SET state = replace(state, '1/5', '0') WHERE name = 'all'", 1),
        ("UPDATE budget SET rule = replace(rule, '100', '900') WHERE name = 'all'", 0),
        ("UPDATE budget SET unit = 'visit' WHERE name = 'all'", 0),
        ("UPDATE budget SET is_open = 0 WHERE name = 'all'", 1),
        ("UPDATE entry SET state = replace(state, '1/10', '0') WHERE seq = 1", 0),
        ("UPDATE entry SET label = 'b' WHERE seq = 1 AND budget = 'all'", 0),
        ("UPDATE entry SET what = 'charge' WHERE what = 'store'", 0),
        ("DELETE FROM entry WHERE seq = 3 AND budget = 'all'", 0),
        ("DELETE FROM entry WHERE seq = 4 AND budget = 'all'", 1),
        ("UPDATE result SET body = x'00' WHERE label = 'a'", 0),
        ("DELETE FROM attempt WHERE label = 'a'", 0),
        ("UPDATE charge SET terms = replace(terms, '10', '99') WHERE label = 'a'", 0),
        ("UPDATE charge SET kind = 'spend', digest = zeroblob(32)", 0),
    ],
)
def test_an_edited_row_is_found(path, statement, refused):
    answers = released(path, "a", "b")
    receipts = [proof for answer in answers for proof in answer.receipts]
    assert audited(path, receipts) == []
    tampered(path, statement)
    if refused:
        with pytest.raises(LedgerError, match=r"edited|behind"):
            ledger.open(path)
    else:
        assert audited(path, receipts) != []


def test_rows_are_write_once_for_the_ledger_itself(path):
    released(path, "a")
    with ledger.open(path) as book:
        for table in ("charge", "attempt", "entry", "result"):
            for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET label='x'"):
                with (
                    pytest.raises(LedgerError, match="SQLITE_CONSTRAINT"),
                    book._store.transaction() as run,
                ):
                    run(statement)
        assert book.audit().ok


def test_a_damaged_answer_is_never_drawn_again(path):
    released(path, "a")
    tampered(path, "UPDATE result SET body = x'00' WHERE label = 'a'")
    with ledger.open(path) as book:
        with pytest.raises(LedgerError, match="second release"):
            book.release(NOISE, CELLS, label="a", budgets="all")
        assert book.budget("all").spent == {"epsilon": PRICE}


def test_the_audit_finds_a_rewritten_ledger_by_receipts_alone(path, tmp_path):
    (answer,) = released(path, "a")
    other = tmp_path / "other.db"
    with ledger.create(other) as book:
        book.add_budget("all", accounting.PureFilter(100), unit="person")
        assert "another ledger" in book.audit(receipts=answer.receipts).problems[0]


# ---- adopting -------------------------------------------------------------------


def test_a_moved_ledger_is_adopted_and_its_chain_says_so(path, tmp_path):
    (answer,) = released(path, "a")
    moved = tmp_path / "moved.db"
    with ledger.open(path) as book:
        book.backup(moved)
    path.unlink()
    assert ledger.adopt(moved, note="new disk") == []
    with ledger.open(moved) as book:
        assert book.audit(receipts=answer.receipts).ok
        again = book.release(NOISE, CELLS, label="a", budgets="all")
        assert again.replayed
        assert book.budget("all").is_open


def test_what_was_forgotten_is_forfeited(path, tmp_path):
    released(path, "a", budgets=["all", "other"])
    saved = path.read_bytes()
    released(path, "b")
    path.write_bytes(saved)
    with pytest.raises(LedgerRolledBackError, match="'all'"):
        ledger.adopt(path, note="restored")
    with pytest.raises(ParameterError, match="forfeit"):
        ledger.adopt(path, note="restored", forfeit=["none"])
    assert ledger.adopt(path, note="restored", forfeit=["all"]) == ["all"]
    with ledger.open(path) as book:
        assert book.audit().problems == []
        assert not book.budget("all").is_open
        with pytest.raises(BudgetExceededError, match="closed"):
            book.release(NOISE, CELLS, label="b", budgets="all")
        book.release(NOISE, CELLS, label="b", budgets="other")
        # What is stored can still be read.
        assert book.release(NOISE, CELLS, label="a", budgets=["all", "other"]).replayed
    released(path, "c", budgets="other")


def test_a_copy_from_before_a_budget_was_made_is_adopted(path):
    saved = path.read_bytes()
    with ledger.open(path) as book:
        book.add_budget("new", accounting.PureFilter(1), unit="person")
    released(path, "a", budgets="new")
    path.write_bytes(saved)
    with pytest.raises(LedgerRolledBackError, match="'new'"):
        ledger.adopt(path, note="restored")
    assert ledger.adopt(path, note="restored", forfeit=["new"]) == ["new"]
    with ledger.open(path) as book:
        book.release(NOISE, CELLS, label="b", budgets="all")
        # Nobody knows what "new" has spent: making it again is refused.
        with pytest.raises(LedgerRolledBackError, match="'new'"):
            book.add_budget("new", accounting.PureFilter(1), unit="person")
        assert list(book.budgets()) == ["all", "other"]


def test_a_receipt_alone_makes_a_budget_forfeit(path, tmp_path):
    saved = path.read_bytes()
    answers = released(path, "a")
    path.write_bytes(saved)
    tampered(path, "UPDATE ledger SET witness = NULL")
    with pytest.raises(LedgerRolledBackError, match="'all'"):
        ledger.adopt(path, note="restored", receipts=answers[0].receipts)


def test_a_budget_is_closed_by_hand(book):
    state = book.forfeit("all", note="a laptop was stolen")
    assert not state.is_open
    with pytest.raises(ParameterError, match="closed already"):
        book.forfeit("all", note="again")
    with pytest.raises(BudgetExceededError, match="closed"):
        book.spend(NOISE, label="a", budgets="all")
    assert book.audit().ok


def test_what_is_drawn_while_a_budget_closes_is_stored(path, monkeypatch):
    draw = fastdp.DiscreteLaplace.release

    def closes(self, x, **options):
        if np.any(x):  # not the rehearsal
            with ledger.open(path) as other:
                other.forfeit("other", note="in between")
        return draw(self, x, **options)

    with ledger.open(path) as book:
        with monkeypatch.context() as patched:
            patched.setattr(fastdp.DiscreteLaplace, "release", closes)
            book.release(NOISE, np.ones(3, int), label="a", budgets=["all", "other"])
        assert book.audit().problems == []
    with ledger.open(path) as book:
        assert not book.budget("other").is_open
        with pytest.raises(BudgetExceededError, match="closed"):
            book.release(NOISE, CELLS, label="b", budgets="other")
    tampered(path, "UPDATE budget SET is_open = 1 WHERE name = 'other'")
    with pytest.raises(LedgerError, match="was edited"):
        ledger.open(path)


# ---- the witness ----------------------------------------------------------------


def test_a_missing_or_damaged_witness_is_an_error(path, tmp_path):
    witness = tmp_path / "witness.json"
    text = witness.read_text()
    witness.write_text("{")
    with pytest.raises(LedgerError, match="damaged"):
        ledger.open(path)
    witness.unlink()
    with pytest.raises(LedgerError, match="No such file"):
        ledger.open(path)
    witness.write_text(text)
    released(path, "a")
    with pytest.raises(LedgerError, match="must not exist"):
        ledger.create(tmp_path / "second.db", witness=witness)


def test_nothing_is_drawn_if_the_witness_fails(path):
    def broken(receipts):
        raise OSError("unreachable")

    with ledger.open(path, witness=broken) as book, pytest.raises(OSError):
        book.release(NOISE, CELLS, label="a", budgets="all")
    with ledger.open(path) as book:
        assert book.audit().pending == 1
        seen = []
    with ledger.open(path, witness=seen.extend) as book:
        assert book.release(NOISE, CELLS, label="a", budgets="all").attempt == 2
    assert [proof.budget for proof in seen] == ["all"]


# ---- moving to another engine ---------------------------------------------------


def test_a_ledger_moves_to_a_new_file_and_the_old_one_is_frozen(path, tmp_path):
    (answer,) = released(path, "a")
    target = tmp_path / "new.db"
    check_migration(path, target, answer)


@pytest.mark.slow
def test_a_ledger_moves_to_a_server(path, database):
    (answer,) = released(path, "a")
    check_migration(path, database, answer)


def check_migration(path, target, answer):
    ledger.migrate(path, target, note="a larger disk")
    with pytest.raises(LedgerError, match="frozen"):
        ledger.open(path)
    with pytest.raises(LedgerError, match="unfinished"):
        ledger.migrate(path, target, note="again")
    with ledger.open(target) as book:
        assert book.audit(receipts=answer.receipts).problems == []
        again = book.release(NOISE, CELLS, label="a", budgets="all")
        assert again.replayed
        assert (again.value == answer.value).all()
        book.release(NOISE, CELLS, label="b", budgets="all")


def test_a_handle_from_before_the_move_cannot_charge(path, tmp_path):
    with ledger.open(path) as book:
        ledger.migrate(path, tmp_path / "new.db", note="moved")
        with pytest.raises(LedgerError, match="frozen"):
            book.release(NOISE, CELLS, label="a", budgets="all")
        with pytest.raises(LedgerError, match="frozen"):
            book.add_budget("n", accounting.PureFilter(1), unit="person")


# ---- export and the second reader -----------------------------------------------


def second_reader(*arguments):
    run = subprocess.run(
        [sys.executable, "-S", ROOT / "tools" / "check_ledger.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    return run.returncode, run.stdout


def test_a_second_reader_agrees(book, tmp_path):
    book.add_budget("z", accounting.ZCDPFilter(5), unit="person")
    book.add_budget(
        "d", accounting.ApproximateFilter(epsilon=5, delta=0.1), unit="person"
    )
    answer = book.release(NOISE, CELLS, label="a", budgets=["all", "z", "d"])
    book.spend(PureDPEvent(1), label="b", budgets=["all", "d"], count=2)
    export, proof = tmp_path / "audit.jsonl", tmp_path / "proof.json"
    book.export(export, bodies=True)
    with pytest.raises(LedgerError, match="File exists"):
        book.export(export)
    proof.write_text(answer.receipts_json)
    assert second_reader(export, proof) == (0, "17 rows, nothing wrong\n")
    lines = export.read_text().splitlines()
    assert "import fastdp" not in (ROOT / "tools" / "check_ledger.py").read_text()
    for number, line in enumerate(lines[1:], start=1):
        ((kind, row),) = json.loads(line).items()
        for field in row:
            changed = {**row, field: _other(row[field])}
            if changed == row or (kind, field) in {("result", "receipts")}:
                continue
            if (kind, field) in {("charge", "attempts"), ("result", "size")}:
                continue
            if (kind, field) == ("budget", "open"):
                continue
            export.write_text(
                "\n".join(
                    json.dumps({kind: changed}) if i == number else other
                    for i, other in enumerate(lines)
                )
            )
            code, said = _tolerant(export, proof)
            assert code != 0, (kind, field, said)


def _other(value):
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str() if value:
            return value[:-1] + ("0" if value[-1] != "0" else "1")
    return value


def _tolerant(export, proof):
    from tools import check_ledger

    try:
        found = check_ledger.problems(
            export.read_text().splitlines(), json.loads(proof.read_text())["receipts"]
        )
    except (KeyError, ValueError, IndexError) as error:
        return 2, repr(error)
    return int(bool(found)), found
