"""What others do while a ledger is open; what is refused before the charge."""

import contextlib
import fcntl
import functools
import json
import os
import signal
import sys
import threading
from dataclasses import replace

import pytest

import fastdp
from fastdp import accounting, ledger
from fastdp.exceptions import (
    LedgerError,
    ParameterError,
)
from fastdp.ledger import _care, _sqlite
from fastdp.ledger._receipts import Witness
from tests.ledger.conftest import NOISE, use_journal
from tests.ledger.test_care import CELLS, tampered
from tests.ledger.test_open_handles import new_ledger

# ---- what others do meanwhile -------------------------------------------------------


def receipts_of(place):
    return json.loads(place.read_text())["receipts"]


def test_an_audit_and_an_export_see_one_moment(tmp_path, monkeypatch):
    place = tmp_path / "budget.db"
    use_journal(monkeypatch, "wal")
    with new_ledger(place) as book, ledger.open(place) as other:
        book.release(NOISE, CELLS, label="a", budgets="all")
        real = type(book._store)._connection

        # Another handle charges whenever this one asks for a connection again.
        labels = iter(range(100))

        @contextlib.contextmanager
        def busy(self):
            with real(self) as connection:
                yield connection
            if self is book._store:
                label = f"other {next(labels)}"
                other.release(NOISE, CELLS, label=label, budgets="all")

        monkeypatch.setattr(type(book._store), "_connection", busy)
        assert book.audit().problems == []
        lines = [json.loads(line) for line in _care.exported(book._store, bodies=False)]
        (state,) = [line["budget"] for line in lines if "budget" in line]
        assert state["seq"] + 1 == sum("entry" in line for line in lines)


def test_a_witness_that_gets_ahead_while_a_ledger_is_opened(tmp_path, monkeypatch):
    place = tmp_path / "budget.db"
    use_journal(monkeypatch, "wal")
    book = new_ledger(place, witness=tmp_path / "witness")
    real, waiting = Witness.read, []

    def read(self):
        if not waiting:  # the first reading is that of open
            waiting.append(threading.Thread(target=release))
            waiting[0].start()
            waiting[0].join(0.3)
        return real(self)

    def release():
        book.release(NOISE, CELLS, label="a", budgets="all")

    monkeypatch.setattr(Witness, "read", read)
    with ledger.open(place) as other:
        waiting[0].join()
        assert other.audit().labels == 1
    book.close()


def test_an_answer_is_not_shown_again_before_the_witness_knows_it(
    tmp_path, monkeypatch
):
    place, witness = tmp_path / "budget.db", tmp_path / "witness"
    with new_ledger(place, witness=witness) as book, ledger.open(place) as other:
        real, calls = Witness.saw, []

        def saw(self, receipts):
            calls.append(0)
            if len(calls) > 1:
                raise LedgerError("the volume of the witness is full")
            real(self, receipts)

        with monkeypatch.context() as patch:
            patch.setattr(Witness, "saw", saw)
            for _ in range(2):  # the second time the answer is stored
                with pytest.raises(LedgerError, match="full"):
                    book.release(NOISE, CELLS, label="a", budgets="all")
        for handle in (book, other):
            answer = handle.release(NOISE, CELLS, label="a", budgets="all")
            assert answer.replayed
            assert receipts_of(witness)[0]["seq"] == answer.receipts[0].seq


def test_a_file_is_not_put_in_place_before_the_witness_knows_it(tmp_path, monkeypatch):
    real, calls, out = Witness.saw, [], tmp_path / "out"

    def saw(self, receipts):
        calls.append(0)
        if len(calls) > 1:
            raise LedgerError("the volume of the witness is full")
        real(self, receipts)

    def write(book):
        def draw(staged, receipts):
            staged.write_text("x")

        return book.write(out, draw, event=NOISE, label="a", budgets="all")

    with new_ledger(tmp_path / "budget.db", witness=tmp_path / "witness") as book:
        with monkeypatch.context() as patch:
            patch.setattr(Witness, "saw", saw)
            for _ in range(2):  # the second time the answer is stored
                with pytest.raises(LedgerError, match="full"):
                    write(book)
        assert not out.exists()
        assert write(book).replayed
    assert out.read_text() == "x"


def test_a_fork_does_not_keep_the_lock_of_the_witness(tmp_path):
    witness = Witness(tmp_path / "witness")
    witness.create()
    rest, end = os.pipe()
    with witness._lock():
        child = os.fork()
        if child == 0:  # as another thread's fork, which has a copy of the descriptor
            os.close(end)
            os.read(rest, 1)
            os._exit(0)
    try:
        with (tmp_path / "witness.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(end)
        os.close(rest)
        os.waitpid(child, 0)


@pytest.mark.parametrize("kind", ["witness", "label"])
def test_a_fork_does_not_keep_a_lock_of_a_killed_parent(tmp_path, kind):
    if kind == "witness":
        lock = Witness(tmp_path / "witness")._lock
        held = tmp_path / "witness.lock"
    else:
        new_ledger(tmp_path / "budget.db").close()
        store = _sqlite.SqliteStore(tmp_path / "budget.db", 1)
        lock = functools.partial(store.lock, "a")
    rest, end = os.pipe()
    ready, tell = os.pipe()
    parent = os.fork()
    if parent == 0:
        with lock():
            if os.fork():
                os.kill(os.getpid(), signal.SIGKILL)
            os.close(end)
            os.write(tell, b".")
            os.read(rest, 1)
            os._exit(0)
    try:
        assert os.waitpid(parent, 0)[1] == signal.SIGKILL
        os.read(ready, 1)
        if kind == "label":
            (held,) = (tmp_path / "budget.db-locks").glob("label-*")
        with held.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        for number in (rest, end, ready, tell):
            os.close(number)


def test_an_interrupt_leaves_no_label_held(tmp_path):
    def interrupt(frame, event, called):
        place = (event, frame.f_code.co_name, getattr(called, "__name__", ""))
        if place == ("c_return", "alone", "add"):
            sys.setprofile(None)
            raise KeyboardInterrupt

    with new_ledger(tmp_path / "budget.db") as book:
        sys.setprofile(interrupt)  # where Python looks for signals
        with pytest.raises(KeyboardInterrupt):
            book.release(NOISE, CELLS, label="a", budgets="all")
        assert book.release(NOISE, CELLS, label="a", budgets="all").attempt == 1


def test_adopting_keeps_closed_budgets_in_the_witness(tmp_path):
    place, witness = tmp_path / "budget.db", tmp_path / "witness"
    with new_ledger(place, witness=witness) as book:
        book.forfeit("all", note="lost")
    before = receipts_of(witness)
    place.rename(tmp_path / "moved.db")
    ledger.adopt(tmp_path / "moved.db", note="moved")
    assert receipts_of(witness) == before != []


# ---- receipts and memories ----------------------------------------------------------


@pytest.mark.parametrize("order", [1, -1])
def test_two_receipts_of_one_entry_cannot_both_hold(tmp_path, order):
    with new_ledger(tmp_path / "budget.db") as book:
        answer = book.release(NOISE, CELLS, label="a", budgets="all")
        other = replace(answer.receipts[0], link="0" * 64)
        given = [answer.receipts[0], other][::order]
        assert len(book.audit(receipts=given).problems) == 1


@pytest.mark.parametrize("wrong", [{"seq": 2**63}, {"seq": -1}, {"budget": "\ud800"}])
def test_receipts_that_no_database_can_look_up_are_refused(tmp_path, wrong):
    with new_ledger(tmp_path / "budget.db") as book:
        found = json.loads(
            book.release(NOISE, CELLS, label="a", budgets="all").receipts_json
        )
    found["receipts"][0].update(wrong)
    with pytest.raises(ParameterError, match="receipts must be JSON"):
        ledger.receipts_from_json(json.dumps(found))


def test_a_deleted_memory_is_named(tmp_path):
    place = tmp_path / "budget.db"
    m = fastdp.Counter.from_epsilon(1, steps=4)
    with new_ledger(place) as book:
        running = book.counter(m, label="c", budgets="all")
        running.add(1, label="1")
        tampered(place, "DELETE FROM memory")
        (problem,) = book.audit().problems
        assert "memory of counter 'c' was deleted" in problem
        before = book.budget("all")
        with pytest.raises(LedgerError, match="memory of counter 'c'"):
            running.add(1, label="2")
        assert book.budget("all") == before


# ---- what is refused before the charge ---------------------------------------------


def test_what_is_written_has_a_folder_before_the_charge(tmp_path):
    with new_ledger(tmp_path / "budget.db") as book:
        with pytest.raises(ParameterError, match="folder"):
            book.write(
                tmp_path / "none" / "out",
                lambda staged, receipts: staged.write_text("x"),
                event=NOISE,
                label="a",
                budgets="all",
            )
        assert book.audit().labels == 0


def test_staged_files_are_those_of_their_own_name(tmp_path):
    foreign = tmp_path / ".axb.staging-1"
    foreign.write_text("drawn just now, under another label")
    stale = tmp_path / ".a*b.staging-1"
    stale.mkdir()
    (stale / "old").write_text("drawn for a ledger that is gone")

    def draw(staged, receipts):
        staged.mkdir(exist_ok=True)
        (staged / "new").write_text("x")

    with new_ledger(tmp_path / "budget.db") as book:
        book.write(tmp_path / "a*b", draw, event=NOISE, label="a", budgets="all")
    assert [file.name for file in (tmp_path / "a*b").iterdir()] == ["new"]
    assert foreign.exists()


def test_a_release_per_user_is_not_charged_to_a_budget_per_row(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    visits = pyarrow.table({"town": ["oslo"] * 3, "who": [1, 2, 3]})
    with ledger.create(tmp_path / "budget.db") as book:
        for unit in ("row", "patient"):
            limit = accounting.ApproximateFilter(epsilon=9, delta=0.1)
            book.add_budget(unit, limit, unit=unit)
        asked = {"by": "town", "count": True, "epsilon": 1, "delta": 1e-6}
        patient = fastdp.Unit("who", groups=1, records=1, name="patient")
        for name, unit in {"row": patient, "patient": "row"}.items():
            plan = fastdp.Plan(**asked, unit=unit)
            with pytest.raises(
                ParameterError, match="unit must be that of the budgets"
            ):
                plan.release(visits, ledger=book, label="a", budgets=name)
        assert book.audit().labels == 0
