"""Counters in the ledger whose users are killed: no step lost, none drawn twice."""

import json
import os
import random
import select
import signal
import time
from fractions import Fraction

import numpy as np
import pytest

import fastdp
import fastdp.testing
from fastdp import ledger
from tests.ledger.conftest import finished, in_child
from tests.ledger.test_counter import STEPS, counted, made, new, opened, price, take
from tests.ledger.test_crashes import Steps


def tell_draws(write):
    """Let every draw of Laplace noise tell what it drew, before anything is stored."""
    release = fastdp.DiscreteLaplace.release

    def told(self, x, *, out=None, stream=None, workers=1):
        before = x.copy()
        y = release(self, x, out=out, stream=stream, workers=workers)
        write(json.dumps(["drawn", (y - before).ravel().tolist()]))
        return y

    fastdp.DiscreteLaplace.release = told


def bookkeeping(events, totals, steps=STEPS):
    """Return what was drawn and given up, if all was as without a crash.

    The totals must be those of one counter in memory that takes the same steps with
    the noise that was drawn last under each label; noise must never come again, and
    what was shown must be what is kept.
    """
    drawn, label, shown = {}, None, []
    for kind, *facts in events:
        if kind == "asked":
            label = facts[0]
        elif kind == "drawn":
            drawn.setdefault(label, []).append(facts[0])
        else:
            shown.append(tuple(facts))
    kept = dict(totals)
    assert len(kept) == len(totals), "a step was taken twice"
    for label, total in shown:
        assert kept.get(label) == total, "what was shown is not what is kept"
    model = new(steps)._strategy
    for label, total in totals:
        y = model.encode(np.array([counted(label)]))
        assert len(drawn[label][-1]) == len(y), "another step's noise"
        y += np.array(drawn[label][-1])[:, None]
        assert model.decode(y.astype(float))[0] == total, "a step was lost"
    every = [z for draws in drawn.values() for draw in draws for z in draw]
    assert len(set(every)) == len(every), "noise came again"
    return sum(map(len, drawn.values())) - len(totals)


def checked(location, events):
    with ledger.open(location) as book:
        assert book.audit().problems == []
        c = opened(book)
        totals = c.totals()
        given_up = bookkeeping(events, totals)
        assert c.steps_left == STEPS - len(totals)
        state = book.budget("all")
        assert state.spent == {"epsilon": price(new())}
        # Who was killed before it drew is charged like who was killed after.
        with book._store.reading() as run:
            ((turn,),) = run("SELECT turn FROM memory")
            ((last,),) = run("SELECT what FROM entry ORDER BY seq DESC LIMIT 1")
        going = last not in ("store", "charge")  # the last turn: no other came since
        lost = turn - len(totals) - going
        assert state.retry_distance == lost * Fraction(STEPS.bit_length(), 2**45)
        assert given_up <= turn - len(totals)
        return totals, given_up


def killed_at_statements(folder, run, stride):
    """Kill `run(book, place, write)` at its statements and stops, each time anew."""
    path, other = folder / "budget.db", folder / "count.db"
    for new_one in (path, other):
        made(new_one)
        with ledger.open(new_one) as book:
            opened(book)
    events = []

    def work(write, where=path, place=0, last=0):
        tell_draws(write)
        steps = Steps(last)
        steps.install()
        with ledger.open(where) as book:
            run(book, place, write)
        write(json.dumps(["count", steps.count]))

    lines, _ = finished(*in_child(lambda write: work(write, other)))
    places = range(1, json.loads(lines[-1])[1] + 1, stride)
    assert places[-1] > 40
    for place in places:
        for last in (place, 0):  # killed there; then it is run once more
            lines, status = finished(
                *in_child(
                    lambda write, last=last, place=place: work(write, path, place, last)
                )
            )
            assert status == (signal.SIGKILL if last else 0)
            events += [e for e in map(json.loads, lines) if e[0] != "count"]
    return path, len(places), events


def killed_steps(folder, stride):
    def run(book, place, write):
        take(opened(book), f"step {place}", write)

    path, kills, events = killed_at_statements(folder, run, stride)
    totals, given_up = checked(path, events)
    assert len(totals) == kills
    print(f"{kills} kills, {given_up} draws given up")
    return given_up


@pytest.mark.rest
def test_killed_at_every_eighth_statement_of_a_step(tmp_path, journal):
    assert killed_steps(tmp_path, 8) > 0


@pytest.mark.slow
def test_killed_at_every_statement_of_a_step(tmp_path, journal):
    assert killed_steps(tmp_path, 1) > 5


def killed_openings(folder, stride):
    """Every counter is charged once; what it is asked for later goes on with it."""

    def run(book, place, write):
        made_now = book.counter(new(), label=f"counter {place}", budgets="all")
        take(made_now, f"step {place}", write)

    path, kills, _ = killed_at_statements(folder, run, stride)
    with ledger.open(path) as book:
        assert book.audit().problems == []
        assert book.budget("all").spent["epsilon"] == (kills + 1) * price(new())
        for place in range(1, kills * stride, stride):
            c = book.counter(new(), label=f"counter {place}", budgets="all")
            assert [label for label, _ in c.totals()] == [f"step {place}"]


@pytest.mark.rest
def test_killed_at_every_11th_statement_of_an_opening(tmp_path, journal):
    killed_openings(tmp_path, 11)


@pytest.mark.slow
def test_killed_at_every_statement_of_an_opening(tmp_path, journal):
    killed_openings(tmp_path, 1)


def killed_at_random(location, turns, seed):
    """Let two children count and kill both, many times.

    A life takes 40 steps at most: of 400 lives' noise, two values are equal with
    probability below 1e-9.
    """
    generator = random.Random(seed)
    events = []
    for _ in range(turns):
        children = []
        for child in range(2):

            def work(write, child=child):
                tell_draws(write)
                with ledger.open(location) as book:
                    c = opened(book)
                    start = sum(k.startswith(f"{child} ") for k, _ in c.totals())
                    for number in range(start, start + 40):  # the first again, perhaps
                        take(c, f"{child} {number}", write)
                signal.pause()

            children.append(in_child(work))
        for _, end in children:  # however busy the machine is, both have begun
            select.select([end], [], [], 60)
        time.sleep(generator.uniform(0, 0.15))
        for pid, _ in children:
            os.kill(pid, signal.SIGKILL)
        for child in children:
            lines, status = finished(*child)
            assert status == signal.SIGKILL
            events += map(json.loads, lines)

    def last(write):
        tell_draws(write)
        with ledger.open(location) as book:
            take(opened(book), "last 0", write)

    events += map(json.loads, finished(*in_child(last))[0])
    totals, given_up = checked(location, events)
    print(f"{2 * turns} kills, {len(totals)} steps, {given_up} draws given up")
    assert totals[-1][0] == "last 0"


@pytest.mark.rest
def test_6_kills_at_random_instants(tmp_path, journal):
    made(tmp_path / "budget.db")
    killed_at_random(tmp_path / "budget.db", 3, journal)


@pytest.mark.slow
def test_400_kills_at_random_instants(tmp_path, journal):
    made(tmp_path / "budget.db")
    killed_at_random(tmp_path / "budget.db", 200, journal)


@pytest.mark.slow
def test_40_killed_clients_of_a_server(database):
    made(database)
    killed_at_random(database, 20, 3)


# ---- the forms that fail ----------------------------------------------------------


class Naive:
    """Counters that live in a file as one would write them first; three ways to fail.

    "forgets": only what was shown is kept. "late": the memory is kept after the total
    was shown. "stream": the noise's stream begins anew with each process.
    """

    def __init__(self, way):
        self.way, self.kept, self.totals, self.events = way, None, [], []

    def life(self, labels, killed_in):
        """Take steps; be killed before the memory of `killed_in` is kept."""
        m = new()
        if self.kept is not None and self.way != "forgets":
            m._strategy.load(self.kept, len(self.totals))
        stream = None
        if self.way == "stream":
            stream = fastdp.testing.FixedStream(bytes(32))
        for label in labels:
            self.events.append(("asked", label))
            y = m._strategy.encode(np.array([counted(label)]))
            noisy = m._noise.release(y, stream=stream)
            self.events.append(("drawn", (noisy - y).ravel().tolist()))
            total = float(m._strategy.decode(noisy.astype(float))[0])
            if self.way == "late":
                self.events.append(("shown", label, total))
            if label == killed_in:
                return
            self.kept = m._strategy.memory()
            self.totals.append((label, total))
            if self.way != "late":
                self.events.append(("shown", label, total))


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("forgets", "another step's noise|a step was lost"),
        ("late", "what was shown is not what is kept"),
        ("stream", "noise came again"),
    ],
)
def test_naive_counters_are_caught(way, told):
    naive = Naive(way)
    naive.life([f"s {n}" for n in range(6)], "s 3")
    naive.life(["s 3", "s 4", "s 5"], None)
    with pytest.raises(AssertionError, match=told):
        bookkeeping(naive.events, naive.totals)


def test_undisturbed_naive_counters_are_not_caught():
    for way in ("forgets", "late", "stream"):
        naive = Naive(way)
        naive.life([f"s {n}" for n in range(6)], None)
        assert bookkeeping(naive.events, naive.totals) == 0
