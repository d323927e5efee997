"""Prefix sums in the ledger: DP-FTRL whose training is killed and goes on."""

import json
import signal
from fractions import Fraction

import numpy as np
import pytest

import fastdp
import fastdp.testing
from fastdp import accounting, ledger
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    LabelConflictError,
    ParameterError,
)
from fastdp.ledger import _terms
from tests.ledger.conftest import finished, in_child, memory_ledger
from tests.ledger.test_crashes import Steps

KINDS = {
    "independent": {},
    "tree": {},
    "square_root": {},
    "banded": {"bands": 3},
    "blt": {"buffers": 2},
}
D = 3


def new(kind="tree", steps=37, **options):
    given = {"strategy": kind, "participations": 1, **KINDS[kind], **options}
    return fastdp.PrefixSums(sigma=30, radius=2, dimension=D, steps=steps, **given)


def opened(book, *arguments, **options):
    m = new(*arguments, **options)
    return book.prefix_sums(m, label="model", budgets="all")


def rows_of(step, n=5):
    """The rows of a step: known to the tests, so that noise can be told apart."""
    return np.random.default_rng(step).normal(size=(n, D))


@pytest.fixture
def memory():
    return memory_ledger(("all", accounting.ZCDPFilter(1000)))


@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_one_process(kind, memory, monkeypatch):
    """Each step from a memory that was put away, by another object: the same bits."""
    release, streams = fastdp.DiscreteGaussian.release, [None]

    def fixed(self, x, *, out=None, stream=None, workers=1):
        return release(self, x, out=out, stream=streams[0], workers=workers)

    monkeypatch.setattr(fastdp.DiscreteGaussian, "release", fixed)
    plain = new(kind)
    for step in range(37):
        key = bytes([step] * 32)
        streams[0] = fastdp.testing.FixedStream(key)
        wanted = plain.step(rows_of(step))
        streams[0] = fastdp.testing.FixedStream(key)
        answer = opened(memory, kind).step(rows_of(step), label=f"step {step}")
        assert answer.value.dtype == np.float64
        np.testing.assert_array_equal(answer.value, wanted)
    assert memory.budget("all").spent["rho"] == plain.event().rho
    assert memory.audit().problems == []


def test_a_step_is_written_once(memory):
    sums = opened(memory)
    first = sums.step(rows_of(1), label="a")
    again = opened(memory).step(rows_of(2), label="a")  # other rows change nothing
    assert again.replayed
    np.testing.assert_array_equal(again.value, first.value)
    parts = sums.accumulator().add(rows_of(3)[:2]).add(rows_of(3)[2:])
    second = sums.step(parts, label="b")
    assert not any(total.exact().any() for total in parts._totals)
    shown = sums.totals()
    assert [label for label, _ in shown] == ["a", "b"]
    for (_, total), answer in zip(shown, (first, second), strict=True):
        np.testing.assert_array_equal(total, answer.value)
    assert sums.steps_left == 35
    assert memory.budget("all").spent["rho"] == new().event().rho
    sums.end(note="enough")
    with pytest.raises(BudgetExceededError, match="was ended"):
        sums.step(rows_of(4), label="c")


def test_rows_of_a_step_that_failed_are_kept(memory, monkeypatch):
    sums = opened(memory)
    parts = sums.accumulator().add(rows_of(1))
    wanted = [total.exact() for total in parts._totals]

    def interrupt(value):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_terms, "packed", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sums.step(parts, label="a")
    for total, kept in zip(parts._totals, wanted, strict=True):
        np.testing.assert_array_equal(total.exact(), kept)
    assert sums.step(parts, label="a").attempt == 2
    # One of 6 nodes, for each of the entries.
    distance = _terms.rare_step(fastdp.DiscreteGaussian(1)) * 6 * D
    assert memory.budget("all").retry_distance == distance


def test_what_is_refused(memory):
    used = new()
    used.step(rows_of(0))
    with pytest.raises(ParameterError, match="must be new"):
        memory.prefix_sums(used, label="x", budgets="all")
    with pytest.raises(DTypeError, match="must be a PrefixSums, got Counter"):
        memory.prefix_sums(fastdp.Counter(steps=2, sigma=1), label="x", budgets="all")
    with pytest.raises(DTypeError, match="must be a Counter, got PrefixSums"):
        memory.counter(new(), label="x", budgets="all")
    large = fastdp.PrefixSums(
        sigma=1, radius=1, dimension=2**20, steps=100, strategy="tree", participations=1
    )
    with pytest.raises(ParameterError, match="at most 67108864 bytes"):
        memory.prefix_sums(large, label="x", budgets="all")
    sums = opened(memory)
    with pytest.raises(LabelConflictError):
        opened(memory, steps=38)
    with pytest.raises(ParameterError, match="rows must have shape"):
        sums.step(np.zeros((2, D + 1)), label="a")
    other = fastdp.ClippedSum(sigma=1, radius=1, dimension=D, norm=2)
    with pytest.raises(ParameterError, match="accumulator of this object"):
        sums.step(other.accumulator(), label="a")
    assert sums.totals() == []
    assert sums.steps_left == 37
    assert memory.budget("all").retry_distance == 0


# ---- killed training --------------------------------------------------------------


def train(path, steps, write, last=0):
    """Train to the end, from the step at which an earlier run was killed.

    The labels are fixed. The step to go on with is read from the ledger; the sum after
    it is the whole state of a model that is the sum times a public rate.
    """
    release = fastdp.DiscreteGaussian.release
    at = 0

    def told(self, x, *, out=None, stream=None, workers=1):
        before = x.copy()
        y = release(self, x, out=out, stream=stream, workers=workers)
        write(json.dumps(["drawn", at, (y - before).tolist()]))
        return y

    fastdp.DiscreteGaussian.release = told
    stops = Steps(last)
    stops.install()
    with ledger.open(path) as book:
        sums = opened(book, steps=steps)
        for at in range(len(sums.totals()), steps):
            answer = sums.step(rows_of(at), label=f"step {at}")
            write(json.dumps(["shown", at, answer.value.tolist()]))
    write(json.dumps(["count", stops.count]))


def made(path):
    with ledger.create(path) as book:
        book.add_budget("all", accounting.ZCDPFilter(1000), unit="person")
    return path


def killed(path, place, steps):
    """Kill one life after the other, each two statements later than the last."""
    events, kills = [], 0
    while True:
        life = in_child(lambda write, n=place + 2 * kills: train(path, steps, write, n))
        lines, status = finished(*life)
        events += map(json.loads, lines)
        if status == 0:
            return events, kills
        assert status == signal.SIGKILL
        kills += 1


def held_up(path, events, kills, steps):
    """Compare with a run in memory; return the number of draws that were given up."""
    drawn, shown = {}, {}
    for kind, *facts in events:
        if kind == "drawn":
            drawn.setdefault(facts[0], []).append(facts[1])
        elif kind == "shown":
            assert facts[0] not in shown  # a life begins with the first step not stored
            shown[facts[0]] = facts[1]
    with ledger.open(path) as book:
        assert book.audit().problems == []
        sums = opened(book, steps=steps)
        totals = sums.totals()
        assert [label for label, _ in totals] == [f"step {i}" for i in range(steps)]
        state = book.budget("all")
        assert state.spent["rho"] == new(steps=steps).event().rho
        assert state.retry_distance <= kills * Fraction(3 * D, 2**37)
        with pytest.raises(BudgetExceededError, match="taken all its steps"):
            sums.step(rows_of(0), label="one more")
    # The model in memory, with the noise that was drawn last under each label.
    model = new(steps=steps)
    for at, (_, total) in enumerate(totals):
        held = model.accumulator().add(rows_of(at))
        y = model._strategy.encode(held._exact().reshape(-1)) + np.array(drawn[at][-1])
        wanted = model._strategy.decode(y.astype(float)) * float(model.granularity)
        np.testing.assert_array_equal(total, wanted)
        if at in shown:
            assert shown[at] == total.tolist()
    return sum(map(len, drawn.values())) - steps


@pytest.mark.rest
def test_training_that_is_killed_goes_on_as_if_it_had_not_been(tmp_path):
    steps = 4
    whole = in_child(lambda write: train(made(tmp_path / "count.db"), steps, write))
    most = json.loads(finished(*whole)[0][-1])[1]
    lives = given_up = 0
    for place in range(most // 5, most // 2, most // 20):
        path = made(tmp_path / f"{place}.db")
        events, kills = killed(path, place, steps)
        lives += kills
        given_up += held_up(path, events, kills, steps)
    print(f"{lives} kills, {given_up} draws given up")
    assert lives > 20
    assert given_up > 0
