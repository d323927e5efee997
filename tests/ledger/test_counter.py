"""Counters in the ledger: what they give, refuse, keep and reveal."""

import contextlib
import json
import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fastdp
import fastdp.testing
from fastdp import accounting, ledger
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    LabelConflictError,
    LedgerError,
    LedgerRolledBackError,
    ParameterError,
)
from fastdp.ledger import _protocol, _terms
from tests.ledger.conftest import finished, in_child, memory_ledger
from tests.ledger.test_care import tampered

ROOT = Path(__file__).parents[2]

#: Noise so wide that two draws are equal with probability below 1e-17, and a horizon
#: that no machine reaches in the seconds between the kills.
SCALE, STEPS = 2**55, 10**6


def new(steps=STEPS, **options):
    return fastdp.Counter(**({"scale": SCALE} | options), steps=steps)


def price(m):
    return m.event().epsilon


def counted(label):
    """The events of a step: known to the tests, so that noise can be told apart."""
    return 1 + int(label.split()[-1]) * 7919 % 1000


def made(path, **options):
    with ledger.create(path, **options) as book:
        book.add_budget("all", accounting.PureFilter(100), unit="person")


def opened(book, **options):
    return book.counter(new(**options), label="total", budgets="all")


def take(counter, label, write):
    write(json.dumps(["asked", label]))
    write(json.dumps(["shown", label, counter.add(counted(label), label=label).value]))


# ---- what it gives --------------------------------------------------------------


def test_a_step_is_drawn_once_and_the_horizon_charged_once(book, location):
    m = fastdp.Counter.from_epsilon(1, steps=8)
    c = book.counter(m, label="month", budgets="all")
    first = c.add(5, label="hour 0")
    assert type(first.value) is float
    assert (first.replayed, first.attempt) == (False, 1)
    with ledger.open(location) as other:
        same = other.counter(
            fastdp.Counter.from_epsilon(1, steps=8), label="month", budgets="all"
        )
        again = same.add(10**9, label="hour 0")  # other data change nothing
        assert (again.value, again.replayed) == (first.value, True)
        assert again.receipts == first.receipts
        second = same.add(7, label="hour 1")
        assert c.totals() == [("hour 0", first.value), ("hour 1", second.value)]
        assert c.steps_left == same.steps_left == 6
    for number in range(2, 8):
        c.add(1, label=f"hour {number}")
    with pytest.raises(BudgetExceededError, match="taken all its steps"):
        c.add(1, label="hour 8")
    assert c.add(1, label="hour 7").replayed
    assert book.budget("all").spent == {"epsilon": Fraction(1)}
    assert book.budget("all").retry_distance == 0
    audit = book.audit(receipts=second.receipts)
    assert audit.problems == []
    assert (audit.labels, audit.answers, audit.pending) == (9, 8, 0)
    with book._store.reading() as run:  # nothing private is left at the end
        assert [bytes(body) for (body,) in run("SELECT body FROM memory")] == [b""]


KINDS = {
    "independent": {},
    "tree": {},
    "doubling": {},
    "square_root": {},
    "banded": {"bands": 3},
    "blt": {"buffers": 2},
}


@pytest.mark.parametrize("kind", KINDS)
def test_totals_are_those_of_a_counter_in_memory(kind, monkeypatch):
    """The same noise, step by step from a memory that was put away: the same bits."""
    release, streams = fastdp.DiscreteGaussian.release, [None]

    def fixed(self, x, *, out=None, stream=None, workers=1):
        return release(self, x, out=out, stream=streams[0], workers=workers)

    monkeypatch.setattr(fastdp.DiscreteGaussian, "release", fixed)
    book = memory_ledger(("all", accounting.ZCDPFilter(1000)))
    options = {"steps": 37, "sigma": 30, "strategy": kind, **KINDS[kind]}
    plain = fastdp.Counter(**options)
    for step in range(37):
        key = bytes([step] * 32)
        streams[0] = fastdp.testing.FixedStream(key)
        wanted = plain.add(step * step)
        streams[0] = fastdp.testing.FixedStream(key)
        c = book.counter(fastdp.Counter(**options), label="c", budgets="all")
        assert c.add(step * step, label=f"s{step}").value == wanted
    assert book.budget("all").spent["rho"] == plain.event().rho
    assert book.audit().problems == []


# ---- draws that are given up ------------------------------------------------------


def given_up(monkeypatch, counter, label):
    """Be interrupted when the step's noise is drawn."""
    with monkeypatch.context() as patch:
        patch.setattr(_terms, "packed", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            counter.add(1, label=label)


def _interrupt(value):
    raise KeyboardInterrupt


def test_a_draw_that_was_given_up_is_charged_whoever_comes_next(book, monkeypatch):
    c = opened(book, steps=100)
    bound = Fraction(7, 2**45)
    given_up(monkeypatch, c, "a")
    assert book.audit().pending == 1
    other = c.add(1, label="b")  # of another label: its turn is the next
    assert (other.replayed, other.attempt) == (False, 1)
    assert book.budget("all").retry_distance == bound
    late = c.add(1, label="a")
    assert (late.replayed, late.attempt) == (False, 2)
    assert book.budget("all").retry_distance == bound
    assert [label for label, _ in c.totals()] == ["b", "a"]
    assert book.audit().problems == []


@pytest.mark.parametrize("turn", [0, 1, 9])
def test_nobody_edits_what_was_given_up(tmp_path, monkeypatch, turn):
    """The memory's row decides no price: it has no digest but of its body."""
    path = tmp_path / "budget.db"
    made(path)
    with ledger.open(path) as book:
        c = opened(book, steps=100)
        c.add(1, label="first")
        m = fastdp.DiscreteLaplace(SCALE, sensitivity=1)
        book.release(m, 1, label="of no counter", budgets="all")
        given_up(monkeypatch, c, "a")
    with contextlib.closing(sqlite3.connect(path)) as edited:
        names = {row[1] for row in edited.execute("PRAGMA table_info (memory)")}
    assert names == {"counter", "turn", "body"}
    tampered(path, f"UPDATE memory SET turn = {turn}")
    with ledger.open(path) as book:
        for label in ("b", "c"):  # the next turn pays, and the one after it does not
            opened(book, steps=100).add(1, label=label)
            assert book.budget("all").retry_distance == Fraction(7, 2**45)


def test_after_too_many_a_second_draw_pays(book, monkeypatch):
    c = opened(book, steps=100)
    with monkeypatch.context() as patch:
        patch.setattr(_terms, "_RARE_LAPLACE", Fraction(1, 2**33))
        for _ in range(2):  # 7/2^33 is below 2^-30, twice that is not
            given_up(monkeypatch, c, "a")
        c.add(1, label="a")
    state = book.budget("all")
    assert state.spent["epsilon"] == 2 * price(new(steps=100))
    assert state.retry_distance == Fraction(7, 2**33)
    assert book.audit().problems == []


def test_who_lost_its_turn_stores_nothing(monkeypatch):
    """Another steps between the draw and its store, as where a lock was lost."""
    book = memory_ledger(("all", accounting.PureFilter(100)))
    c, events = opened(book), []
    packed = _terms.packed

    def overtaken(value):
        monkeypatch.setattr(_terms, "packed", packed)
        events.append(float(value))
        _protocol._held.ledgers.clear()  # the lock was lost
        c.add(1, label="b")
        return packed(value)

    monkeypatch.setattr(_terms, "packed", overtaken)
    answer = c.add(1, label="a")
    assert [label for label, _ in c.totals()] == ["b", "a"]
    assert (answer.attempt, answer.value != events[0]) == (2, True)
    assert book.audit().problems == []


# ---- many at once -----------------------------------------------------------------


def test_threads_and_processes_take_their_steps_in_one_order(book, location):
    c = opened(book)
    answers, errors = [], []

    def ask(number):
        try:
            answers.append((number % 8, c.add(1, label=f"t {number % 8}").value))
        except Exception as error:
            errors.append(error)

    def work(write):
        with ledger.open(location) as own:
            other = opened(own)
            for number in range(8):
                take(other, f"t {number}", write)

    children = [in_child(work) for _ in range(3)]  # a fork has no other threads
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = [finished(*child) for child in children]
    assert errors == []
    assert {status for _, status in done} == {0}
    kept = c.totals()
    assert len(kept) == 8
    for number, value in answers:
        assert dict(kept)[f"t {number}"] == value
    for line in (json.loads(line) for lines, _ in done for line in lines):
        assert line[0] == "asked" or dict(kept)[line[1]] == line[2]
    assert book.audit().problems == []
    assert book.budget("all").retry_distance == 0


def test_a_fork_opens_its_own(tmp_path):
    made(tmp_path / "b.db")
    book = ledger.open(tmp_path / "b.db")
    c = opened(book)
    c.add(1, label="a")

    def work(write):
        for call in (
            lambda: c.add(1, label="b"),
            lambda: c._mechanism._resumed(b"", 1, np.zeros(1, np.int64)),
        ):
            try:
                call()
            except (LedgerError, BudgetExceededError) as error:
                write(type(error).__name__)

    lines, status = finished(*in_child(work))
    assert (lines, status) == (["LedgerError", "BudgetExceededError"], 0)
    assert [label for label, _ in c.totals()] == ["a"]
    with pytest.raises(DTypeError):
        pickle.dumps(c)
    assert repr(c) == f"<LedgerCounter 'total' of {str(tmp_path / 'b.db')!r}>"
    book.close()


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


# ---- what is refused --------------------------------------------------------------


def test_refusals_leave_everything_as_it_was(book):
    c = opened(book, steps=10)
    c.add(1, label="a")
    other = fastdp.Counter(steps=10, scale=SCALE, events_per_unit=2)
    used = new()
    used.add(1)
    before = book.budgets(), book.audit()
    cases = [
        (LabelConflictError, lambda: book.counter(other, label="total", budgets="all")),
        (LabelConflictError, lambda: book.counter(new(), label="a", budgets="all")),
        (LabelConflictError, lambda: c.add(1, label="total")),
        (ParameterError, lambda: c.add(1, label="")),
        (DTypeError, lambda: c.add(1.5, label="b")),
        (DTypeError, lambda: c.add(True, label="b")),
        (DTypeError, lambda: book.counter(3, label="x", budgets="all")),
        (ParameterError, lambda: book.counter(used, label="x", budgets="all")),
        (ParameterError, lambda: book.counter(new(), label="x", budgets="none")),
        (DTypeError, lambda: c.end(note=3)),
        (
            BudgetExceededError,
            lambda: book.counter(
                fastdp.Counter(steps=10, scale=Fraction(1, 1000)),
                label="x",
                budgets="all",
            ),
        ),
    ]
    for error, call in cases:
        with pytest.raises(error):
            call()
    assert (book.budgets(), book.audit()) == before
    taken = new()
    book.counter(taken, label="y", budgets="all")
    with pytest.raises(BudgetExceededError, match="is closed"):
        taken.add(1)  # the ledger took it over


def test_a_step_of_two_counters_is_a_conflict(book):
    one = opened(book)
    two = book.counter(new(), label="other", budgets="all")
    one.add(1, label="a")
    with pytest.raises(LabelConflictError):
        two.add(1, label="a")
    with pytest.raises(LabelConflictError):
        book.release(
            fastdp.DiscreteLaplace(10, sensitivity=1), 5, label="a", budgets="all"
        )
    assert two.totals() == []
