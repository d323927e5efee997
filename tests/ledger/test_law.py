"""What is shown has the mechanism's law, whatever is retried; nothing else is shown."""

import json
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp import accounting, ledger
from fastdp.accounting.events import ApproximateDPEvent, PureDPEvent
from fastdp.exceptions import BudgetExceededError, FastDPError, LabelConflictError
from fastdp.ledger import _protocol, _terms
from fastdp.mechanisms._base import Mechanism
from tests.ledger.conftest import memory_ledger
from tests.statistical.bins import p_value

LAW = fastdp.DiscreteLaplace(2, sensitivity=1)


def drawn_with_a_crash(book, label):
    """Attempt a label three times: the first dies with its draw, the third replays."""
    data = np.int64(0)
    wanted = _terms.terms_of_call(label, "release", "all", LAW.event(), LAW, data, None)
    wanted = replace(wanted, distance=Fraction(0))
    _protocol.charge(book._store, book._uuid, wanted)
    lost = int(LAW.release(data))
    answers = [book.release(LAW, data, label=label, budgets="all") for _ in "23"]
    assert [answer.attempt for answer in answers] == [2, 0]
    assert answers[0].value == answers[1].value
    return lost, int(answers[0].value)


def check_law(labels):
    book = memory_ledger(("all", accounting.PureFilter(10**9)))
    book._store._one.execute("PRAGMA cache_size = -200000")
    pairs = [drawn_with_a_crash(book, f"label {i}") for i in range(labels)]
    lost, shown = (np.array(part) for part in zip(*pairs, strict=True))
    edge = 4
    values = np.arange(-edge, edge + 1)
    law = fastdp.distributions.DiscreteLaplace(2)
    tail = float(law.sf(edge))
    expected = np.array([tail, *(float(law.pmf(v)) for v in values), tail])
    binned = np.clip(shown, -edge - 1, edge + 1) + edge + 1
    found = np.bincount(binned, minlength=2 * edge + 3)
    # What died with its process is independent of what is shown: correlation 0, known
    # variances, so that the mean product is normal to within what 1e-10 allows.
    product = float((lost * shown).mean()) / law.var() * math.sqrt(labels)
    print(f"z {product:.2f}")
    assert p_value(found, expected) > 1e-10
    assert abs(product) < 9
    # Second attempts are free until their distances add up to 2^-30; then they pay.
    free = min(labels, 2**45 // 2**30)
    state = book.budget("all")
    assert state.retry_distance == free * Fraction(1, 2**45)
    assert state.spent["epsilon"] == (2 * labels - free) * Fraction(1, 2)
    assert book.audit().problems == []


@pytest.mark.rest
def test_answers_keep_the_law_through_crashes():
    check_law(2_000)


@pytest.mark.slow
def test_100000_answers_keep_the_law_through_crashes():
    check_law(100_000)


# ---- key selection --------------------------------------------------------------


class Keys(Mechanism):
    """Shows a key with probability p = 1/2."""

    def __init__(self):
        self._freeze(_arguments=())

    def event(self):
        return ApproximateDPEvent(epsilon=1, delta=Fraction(1, 10**6))

    def select(self, users):
        return fastdp.random.bernoulli(Fraction(1, 2), size=users.shape)


def raced_in_pairs(labels, *, with_invariants):
    """Race two attempts of a selection; of two bodies the shorter is first to store.

    Returns how often the key was shown, and what was charged.
    """
    book = memory_ledger(
        ("all", accounting.ApproximateFilter(epsilon=10**6, delta=Fraction(1, 2)))
    )
    store, uuid = book._store, book._uuid
    shown = 0
    for number in range(labels):
        wanted = _terms.terms(f"l{number}", "table", "all", Keys().event(), {})
        drawn = []
        for _ in "12":  # the lock is lost: both have begun to draw
            _, attempt, _ = _protocol.charge(store, uuid, wanted)
            kept = bool(Keys().select(np.zeros(1))[0])
            drawn.append((attempt, b"key" if kept else b""))
        for attempt, body in sorted(drawn, key=lambda pair: len(pair[1])):
            last = attempt if with_invariants else 2
            found = _protocol.keep(store, uuid, wanted, last, "table", body)
            if found is not None:
                break
        shown += found.body == b"key"
    return shown, book.budget("all").spent["epsilon"]


@pytest.mark.rest
def test_selections_raced_in_pairs_keep_their_law():
    labels = 1500
    shown, spent = raced_in_pairs(labels, with_invariants=True)
    deviations = (shown - labels / 2) / math.sqrt(labels / 4)
    assert abs(deviations) < 7  # false alarm below 1e-11
    assert spent == 2 * labels  # every attempt that drew was paid for


@pytest.mark.rest
def test_without_the_attempt_number_the_shorter_body_wins():
    # The control: a key is shown with probability p^2, 8 standard deviations away.
    labels = 1500
    shown, _ = raced_in_pairs(labels, with_invariants=False)
    assert shown < 0.37 * labels  # 0.25 expected; false alarm below 1e-20


# ---- any order of steps ---------------------------------------------------------


class Attempt:
    """One attempt of a label, step by step, with or without the lock."""

    def __init__(self, book, number, generator):
        self.book, self.number, self.generator = book, number, generator
        level = number % 2 == 0
        event = PureDPEvent(Fraction(1, 4))
        self.wanted = _terms.terms(
            f"label {number}", "release" if level else "select", "all", event, {}
        )
        if level:
            self.wanted = replace(self.wanted, distance=Fraction(1, 2**60))
        self.state, self.shown = "new", None

    def step(self):
        store, uuid = self.book._store, self.book._uuid
        if self.state == "new":
            found, self.attempt, _ = _protocol.charge(store, uuid, self.wanted)
            self.state = "charged"
            if found is not None:
                self.shown, self.state = found.body, "done"
        elif self.state == "charged":
            self.body = self.generator.randbytes(8)
            self.state = "drawn"
        elif self.state == "drawn":
            found = _protocol.keep(
                store, uuid, self.wanted, self.attempt, "array", self.body
            )
            self.state = "new"  # it lost its lock: begins again
            if found is not None:
                self.shown, self.state = found.body, "done"


@pytest.mark.parametrize("seed", range(12))
def test_the_invariants_hold_in_any_order_of_steps(seed):
    generator = random.Random(seed)
    book = memory_ledger(("all", accounting.PureFilter(Fraction(9))))
    running, seen, refused = [], {}, 0
    for _ in range(250):
        if not running or generator.random() < 0.3:
            running.append(Attempt(book, generator.randrange(14), generator))
        one = generator.choice(running)
        if generator.random() < 0.08:
            running.remove(one)  # crashed
            continue
        try:
            one.step()
        except BudgetExceededError:
            running.remove(one)
            refused += 1
            continue
        if one.shown is not None:
            running.remove(one)
            # One answer for each label, and it is the stored one.
            assert seen.setdefault(one.number, one.shown) == one.shown
    run = book._store._one.execute
    results = dict(run("SELECT label, body FROM result"))
    charges = {row[0] for row in run("SELECT label FROM charge")}
    assert {f"label {n}": body for n, body in seen.items()}.items() <= results.items()
    assert set(results) <= charges
    whats = run("SELECT what, COUNT(*) FROM entry GROUP BY what").fetchall()
    paid = sum(number for what, number in whats if what in ("charge", "again"))
    state = book.budget("all")
    assert state.spent == {"epsilon": paid * Fraction(1, 4)}
    assert state.spent["epsilon"] <= 9
    begun = dict(run("SELECT label, MAX(number) FROM attempt GROUP BY label"))
    odd = sum(n for label, n in begun.items() if int(label.split()[1]) % 2)
    even = sum(1 for label in begun if int(label.split()[1]) % 2 == 0)
    assert paid == odd + even  # I8: what is not level pays for each attempt
    assert book.audit().problems == []
    assert seen


# ---- what may not be seen -------------------------------------------------------

SECRET = 7_306_215_948_371
NAME = "secret-key-93847"


def secret_bytes():
    number = np.array([SECRET], np.int64)
    texts = [str(SECRET), NAME, number.tobytes().hex()]
    real = np.array([float(SECRET)]).tobytes()
    return [*(text.encode() for text in texts), number.tobytes(), real]


def test_nothing_of_the_data_is_in_any_file_row_message_or_receipt(
    tmp_path, monkeypatch, journal
):
    path = tmp_path / "budget.db"
    messages = []
    book = ledger.create(path, witness=tmp_path / "witness")
    book.add_budget(
        "all", accounting.ApproximateFilter(epsilon=5, delta=0.1), unit="person"
    )
    noise = fastdp.DiscreteLaplace(
        2**40, sensitivity=1
    )  # equal to the secret: below 1e-11
    data = np.array([SECRET, SECRET])
    answer = book.release(noise, data, label="a", budgets="all")

    def none(values):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_terms, "packed", none)
        with pytest.raises(KeyboardInterrupt):
            book.release(noise, data, label="b", budgets="all")

    class Nothing(Keys):
        def select(self, users):
            return np.zeros(users.shape, bool)

    book.table(
        {"n": (noise, np.array([SECRET]))},
        keys={"k": np.array([NAME])},
        label="t",
        budgets="all",
        select=(Nothing(), np.array([SECRET])),
        most_rows=3,
    )
    for call in (
        lambda: book.release(noise, data[:1], label="a", budgets="all"),
        lambda: book.release(noise, data.astype("f8"), label="c", budgets="all"),
        lambda: book.release(noise, [SECRET], label="c", budgets="all"),
        lambda: book.table(
            {"n": (noise, data)}, keys={"k": np.array([NAME])}, label="c", budgets="all"
        ),
        lambda: book.spend(PureDPEvent(100), label="c", budgets="all"),
    ):
        with pytest.raises(FastDPError) as error:
            call()
        messages.append(str(error.value))
    book.close()
    told = [*messages, answer.receipts_json, repr(book), json.dumps(book.describe())]
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) >= 2
    for secret in secret_bytes():
        assert not any(secret in text.encode() for text in told)
        assert not any(secret in file.read_bytes() for file in files)
    planted = np.array([SECRET], np.int64).tobytes()
    files[0].write_bytes(files[0].read_bytes() + planted)  # it would be seen
    assert any(secret in files[0].read_bytes() for secret in secret_bytes())


def test_refusals_are_equal_on_neighboring_data():
    def refusals(data):
        book = memory_ledger(("all", accounting.PureFilter(1)))
        said = []
        book.release(LAW, data, label="a", budgets="all")
        for label, x, budgets in [
            ("a", data[:1], "all"),
            ("b", data.astype("f8"), "all"),
            ("b", data, "none"),
            ("c", data, "all"),
            ("d", data, "all"),
        ]:
            try:
                book.release(LAW, x, label=label, budgets=budgets)
                said.append("")
            except FastDPError as error:
                said.append(f"{type(error).__name__}: {error}")
        return said

    assert refusals(np.array([3, 4])) == refusals(np.array([3, 2**62]))


def test_a_conflict_is_seen_before_the_data():
    book = memory_ledger(("all", accounting.PureFilter(1)))
    book.release(LAW, np.arange(2), label="a", budgets="all")
    with pytest.raises(LabelConflictError):
        book.release(LAW, np.arange(3), label="a", budgets="all")
