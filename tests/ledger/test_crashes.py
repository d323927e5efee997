"""Killed at every statement, at random instants, under threads and forks."""

import contextlib
import errno
import json
import os
import random
import select
import signal
import sqlite3
import threading
import time
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp import accounting, ledger
from fastdp.exceptions import BudgetExceededError, FastDPError, LedgerError
from fastdp.ledger import _terms
from tests.ledger.conftest import NOISE, PRICE, finished, in_child

CELLS = np.arange(4)
CHOICE = fastdp.PermuteAndFlip(Fraction(1, 7), sensitivity=1)
SCORES = np.zeros(3)


def new_ledger(path, limit=1000):
    with ledger.create(path) as book:
        book.add_budget("all", accounting.PureFilter(limit), unit="person")
        book.add_budget("week", accounting.PureFilter(limit), unit="person")


def one_of_each(book, tag, write):
    """A level draw that two budgets pay, and one whose every attempt pays."""
    answer = book.release(NOISE, CELLS, label=f"level {tag}", budgets=["all", "week"])
    write(json.dumps([f"level {tag}", answer.value.tolist()]))
    answer = book.select(CHOICE, SCORES, label=f"choice {tag}", budgets="all")
    write(json.dumps([f"choice {tag}", int(answer.value)]))


def checked(path, seen):
    """Compare all that was shown with what is stored, and the sums with the labels."""
    with ledger.open(path) as book:
        audit = book.audit()
        assert audit.problems == []
        with book._store.reading() as run:
            attempts = dict(
                run("SELECT label, MAX(number) FROM attempt GROUP BY label")
            )
            stored = {row[0] for row in run("SELECT label FROM result")}
        for label, shown in seen:
            assert label in stored
            kind = label.split()[0]
            if kind == "level":
                again = book.release(NOISE, CELLS, label=label, budgets=["all", "week"])
                assert again.value.tolist() == shown
            else:
                again = book.select(CHOICE, SCORES, label=label, budgets="all")
                assert int(again.value) == shown
            assert again.replayed
        levels = sum(label.startswith("level") for label in attempts)
        choices = [n for label, n in attempts.items() if label.startswith("choice")]
        # A crash loses no budget, but where a draw cannot be made level.
        assert book.budget("week").spent["epsilon"] == levels * PRICE
        assert book.budget("all").spent["epsilon"] == levels * PRICE + sum(
            choices
        ) * Fraction(1, 7)
        return attempts, audit.pending


class Steps:
    """Kills the process at its n-th SQL statement or step of the protocol."""

    def __init__(self, last):
        self.last, self.count = last, 0

    def __call__(self, *_):
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self):
        connect, packed = sqlite3.connect, _terms.packed

        def traced(*arguments, **options):
            made = connect(*arguments, **options)
            made.set_trace_callback(self)
            return made

        def between(value):
            self()  # drawn
            body = packed(value)
            self()  # and about to be stored
            return body

        sqlite3.connect, _terms.packed = traced, between


def steps_of_one_run(path):
    steps = Steps(0)

    def work(write):
        steps.install()
        with ledger.open(path) as book:
            one_of_each(book, "count", lambda _: None)
        write(str(steps.count))

    lines, _ = finished(*in_child(work))
    return int(lines[0])


def test_killed_at_every_ninth_statement(tmp_path, journal):
    killed_at_statements(tmp_path / "budget.db", 9)


@pytest.mark.slow
def test_killed_at_every_statement(tmp_path, journal):
    killed_at_statements(tmp_path / "budget.db", 1)


def killed_at_statements(path, stride):
    new_ledger(path)
    total = steps_of_one_run(path)
    assert total > 40
    seen = []
    steps = range(1, total + 1, stride)
    for step in steps:
        for last in (step, 0):  # killed there; then it is run once more

            def work(write, last=last, step=step):
                Steps(last).install()
                with ledger.open(path) as book:
                    one_of_each(book, str(step), write)

            lines, status = finished(*in_child(work))
            assert status == (signal.SIGKILL if last else 0)
            seen += [json.loads(line) for line in lines]
    attempts, pending = checked(path, seen)
    again = sum(number > 1 for number in attempts.values())
    assert pending == 0
    assert again > 1  # some draws died with their process
    labels = {label for label, _ in seen}
    assert len(labels) == 2 * len(steps)
    print(f"{len(steps)} kills, {len(seen)} answers, {again} labels drawn again")
    shown = [(label, str(value)) for label, value in seen]
    assert len(set(shown)) == len(labels)


def killed_at_random(path, kills, seed):
    """Let a child release without end and kill it, many times."""
    generator = random.Random(seed)
    seen = []
    for turn in range(kills):

        def work(write, turn=turn):
            with ledger.open(path) as book:
                for number in range(10**6):
                    # Half of the labels have been tried by a child before.
                    one_of_each(book, f"{turn // 2} {number}", write)

        pid, end = in_child(work)
        if turn % 2:  # something was shown, however slow the machine is
            select.select([end], [], [], 60)
        time.sleep(generator.uniform(0.01, 0.12))
        os.kill(pid, signal.SIGKILL)
        lines, status = finished(pid, end)
        assert status == signal.SIGKILL
        seen += [json.loads(line) for line in lines]
    return seen


@pytest.mark.rest
def test_killed_at_12_random_instants(tmp_path, journal):
    path = tmp_path / "budget.db"
    new_ledger(path, 10**6)
    seen = killed_at_random(path, 12, journal)
    attempts, pending = checked(path, seen)
    assert len(seen) > 4
    assert sum(attempts.values()) >= len(attempts)
    assert pending <= 12


@pytest.mark.slow
def test_killed_at_300_random_instants(tmp_path, journal):
    path = tmp_path / "budget.db"
    new_ledger(path, 10**6)
    seen = killed_at_random(path, 300, journal)
    attempts, pending = checked(path, seen)
    print(
        f"{journal}: {len(seen)} answers of {len(attempts)} labels, "
        f"{pending} pending, {sum(n > 1 for n in attempts.values())} drawn again"
    )


def test_an_interrupt_between_charge_and_store_is_a_crash(tmp_path, monkeypatch):
    path = tmp_path / "budget.db"
    new_ledger(path)
    packed = _terms.packed

    def interrupted(value):
        monkeypatch.setattr(_terms, "packed", packed)
        raise KeyboardInterrupt

    with ledger.open(path) as book:
        monkeypatch.setattr(_terms, "packed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            book.release(NOISE, CELLS, label="a", budgets="all")
        assert book.audit().pending == 1
        answer = book.release(NOISE, CELLS, label="a", budgets="all")
        assert (answer.attempt, answer.replayed) == (2, False)
        state = book.budget("all")
        assert state.spent["epsilon"] == PRICE
        # What a free second attempt may cost is stated, exactly.
        assert state.retry_distance == Fraction(4, 2**45)
        assert book.audit().ok


def test_free_attempts_end_where_their_distance_does(tmp_path, monkeypatch):
    path = tmp_path / "budget.db"
    new_ledger(path)
    cells = np.zeros(20_000, np.int64)  # 20,000 / 2^45: one fits into 2^-30, not two
    with ledger.open(path) as book:
        for _ in range(3):
            with monkeypatch.context() as patch:
                patch.setattr(_terms, "packed", _interrupt)
                with pytest.raises(KeyboardInterrupt):
                    book.release(NOISE, cells, label="a", budgets="all")
        book.release(NOISE, cells, label="a", budgets="all")
        state = book.budget("all")
        assert state.retry_distance <= Fraction(1, 2**30)
        assert state.spent["epsilon"] > PRICE  # beyond it, attempts pay
        assert book.audit().ok


def _interrupt(value):
    raise KeyboardInterrupt


# ---- races ----------------------------------------------------------------------


def race(path, processes, attempts, write_each=True):
    """Let processes charge as often as they can; return how often it worked."""
    children = []
    for child in range(processes):

        def work(write, child=child):
            with ledger.open(path, timeout=300) as book:
                for number in range(attempts):
                    label = f"{child} {number}"
                    with contextlib.suppress(BudgetExceededError):
                        book.spend(NOISE, label=label, budgets=["all", "week"])
                        write("charged")

        children.append(in_child(work, timeout=590))
    done = [finished(*child) for child in children]
    assert {status for _, status in done} == {0}
    return sum(len(lines) for lines, _ in done)


def test_12_processes_race_to_a_cap(tmp_path, journal):
    path = tmp_path / "budget.db"
    new_ledger(path, limit=6)  # 60 charges of 1/10
    assert race(path, 12, 10) == 60
    with ledger.open(path) as book:
        assert book.budget("all").spent == {"epsilon": Fraction(6)}
        assert book.audit().ok


@pytest.mark.slow
def test_100_processes_race_to_a_cap(tmp_path, journal):
    path = tmp_path / "budget.db"
    new_ledger(path, limit=100)
    assert race(path, 100, 20) == 1000
    with ledger.open(path) as book:
        assert book.budget("all").spent == {"epsilon": Fraction(100)}
        assert book.audit().ok


def test_64_threads_on_one_label_get_one_answer(book):
    answers, errors = [], []
    start = threading.Barrier(64)

    def ask():
        start.wait()
        try:
            answers.append(
                book.release(NOISE, CELLS, label="a", budgets="all").value.tolist()
            )
        except FastDPError as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(answers) == 64
    assert len({tuple(answer) for answer in answers}) == 1
    assert book.budget("all").spent == {"epsilon": PRICE}
    assert book.audit().ok


def test_forks_on_one_label_get_one_answer(book, location):
    children = []
    for _ in range(8):

        def work(write):
            with ledger.open(location) as own:
                answer = own.release(NOISE, CELLS, label="a", budgets="all")
                write(str(answer.value.tolist()))

        children.append(in_child(work))
    done = [finished(*child) for child in children]
    assert {status for _, status in done} == {0}
    assert len({line for lines, _ in done for line in lines}) == 1
    assert book.budget("all").spent == {"epsilon": PRICE}


# ---- failing disks --------------------------------------------------------------


def test_a_stopped_writer_is_an_error_after_the_timeout(tmp_path, journal):
    path = tmp_path / "budget.db"
    new_ledger(path)

    def work(write):
        with ledger.open(path) as book, book._store.transaction():
            write("locked")
            signal.pause()

    pid, end = in_child(work)
    with os.fdopen(os.dup(end)) as file:
        assert file.readline() == "locked\n"

    def waited():
        before = time.monotonic()
        with pytest.raises(LedgerError, match=r"locked for more than 0\.3 s"):
            ledger.open(path, timeout=0.3)
        return time.monotonic() - before

    assert any(waited() < 5 for _ in range(3))  # a busy machine may hold us up once
    os.kill(pid, signal.SIGKILL)
    finished(pid, end)
    with ledger.open(path, timeout=5) as book:  # the kernel dropped the lock
        assert book.audit().ok


def test_a_full_disk_is_an_error_and_nothing_is_shown(tmp_path, journal):
    path = tmp_path / "budget.db"
    new_ledger(path)
    with ledger.open(path) as book:
        book.release(NOISE, CELLS, label="a", budgets="all")
        with book._store._connection() as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        shown = []

        def fill():
            for number in range(100):
                cells = np.zeros(1000, np.int64)
                answer = book.release(NOISE, cells, label=f"b{number}", budgets="all")
                shown.append(answer)

        with pytest.raises(LedgerError, match="SQLITE_FULL; nothing was rel") as told:
            fill()
        assert told.value.errno == errno.ENOSPC  # the command's exit code is 7
    with ledger.open(path) as book:
        assert book.audit().ok
        for number, answer in enumerate(shown):
            cells = np.zeros(1000, np.int64)
            again = book.release(NOISE, cells, label=f"b{number}", budgets="all")
            assert (again.value == answer.value).all()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write to any file")
def test_a_read_only_ledger_is_refused(tmp_path, journal):
    path = tmp_path / "budget.db"
    new_ledger(path)
    path.chmod(0o400)
    with pytest.raises(LedgerError, match="Permission"):
        ledger.open(path)
