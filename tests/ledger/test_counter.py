"""Counters in the ledger: what they give, refuse, keep and reveal."""

import contextlib
import json
import pickle
import sqlite3
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
