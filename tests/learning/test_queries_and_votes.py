"""MWEM and PATE: whole laws on small domains, all neighbors, hostile records."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp import accounting
from fastdp.accounting.events import ComposedEvent, NeighboringRelation
from fastdp.exceptions import DTypeError, LabelConflictError, ParameterError
from fastdp.learning import MWEM, PATE, _base, _mwem, _pate
from fastdp.testing import FixedStream

ADDED, REPLACED, SPECIAL = NeighboringRelation
BUDGETS = [{"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}, {"rho": 0.5}]
NAN, INF = float("nan"), float("inf")

#: Hostile records; three of them are in the domain (2, 2) or of a class.
HOSTILE = [
    (0.0, 1.0),
    (1.0, 1.0),
    (1.0, -0.0),
    (0.5, 1.0),
    (2.0, 0.0),
    (-1.0, 0.0),
    (1e308, -1e308),
    (INF, 0.0),
    (NAN, 1.0),
]


class Majority:
    """A teacher that votes by its records, and fails on some of them."""

    def fit(self, x, y):
        self.mean = x.sum() / 5
        if len(x) and x.max() > 1e300:
            raise ValueError(f"a secret {x.max()}")
        self.shift = np.random.random() + np.random.random(len(x)).sum()
        self.labels = y

    def predict(self, x):
        count = (self.labels == "a").sum() - (self.labels == "b").sum()
        odds = count + self.mean + 0.1 * self.shift + x[:, 0]
        return np.where(odds > 0.5, "a", np.where(odds > -0.5, "c", "b"))


def counting(relation=ADDED, **more):
    known = {"domain": (2, 2), "queries": 1, "max_iter": 2, "unit": "row"}
    known.update(more or {"epsilon": 1})
    return MWEM(neighboring_relation=relation, **known)


def voting(relation=ADDED, **more):
    known = {
        "teachers": 3,
        "pool": [[-1, 0], [0, 0], [1, 0]],
        "classes": ["a", "b", "c"],
    }
    known.update(more or {"epsilon": 1})
    return PATE(Majority(), unit="row", neighboring_relation=relation, **known)


def neighbors(relation, most=3):
    """Yield pairs of lists of hostile records that are neighbors."""
    for n in range(most):
        for rest in itertools.combinations_with_replacement(HOSTILE, n):
            for record in HOSTILE:
                if relation is ADDED:
                    for place in range(n + 1):
                        yield [*rest[:place], record, *rest[place:]], list(rest)
                else:
                    others = [(NAN, NAN)] if relation is SPECIAL else HOSTILE
                    for other in others:
                        yield [record, *rest], [other, *rest]


def fitted(model, records, **options):
    x = np.array(records, np.float64).reshape(-1, 2)
    y = ["ab"[int(v > 0.5)] if v == v else "none" for v in x[:, 1]]
    return model.fit(x, y, **options)


def events_of(model):
    event = model.event()
    return event.events if isinstance(event, ComposedEvent) else (event,)


# ---- MWEM: the law of each round ---------------------------------------------------


def inputs_of(model, records, monkeypatch, answers):
    """Return what each mechanism of a fit is given, if it gives these answers."""
    kept, left = [], iter(answers)

    def draw(fitting, i, m, data, verb="release"):
        kept.append(data.copy())
        answer = next(left)
        return answer if verb == "select" else data * 0 + answer

    monkeypatch.setattr(_base.Fitting, "draw", draw)
    fitted(model, records)
    return kept


def log_law(m, data):
    """Return log probabilities of all choices, or of noisy counts -40 to 40."""
    if isinstance(m, fastdp.ExponentialMechanism):
        (epsilon,) = [value for name, value in m._arguments if name == "epsilon"]
        odds = float(epsilon) / 2 * data  # for sensitivity 1
        return odds - np.log(np.exp(odds).sum())
    scale = float(m.scale)
    base = math.log(math.tanh(1 / scale / 2))
    return base - np.abs(np.arange(-40, 41) - int(data[0])) / scale


#: A noisy number of records, then a query and its count in each round.
PATHS = [(2, 0, 1, 3, 0), (1, 2, -50, 0, 3), (3, 1, 2, 1, 2)]


@pytest.mark.parametrize("relation", list(NeighboringRelation), ids=lambda r: r.name)
def test_whole_laws_of_neighbors_are_within_epsilon(relation, monkeypatch):
    """Given all answers before, each release has nearly one law for neighbors.

    Along each path of answers the losses of all releases add up to at most epsilon.
    """
    model = counting(relation)
    parts = model._mechanisms(2)
    kinds = [1] * (relation is not REPLACED) + [0, 1] * 2
    worst = 0.0
    for path in PATHS:
        answers = path if relation is not REPLACED else path[1:]
        found = {}
        for pair in neighbors(relation, most=2):
            for records in map(tuple, pair):
                if repr(records) not in found:
                    inputs = inputs_of(model, records, monkeypatch, answers)
                    laws = [log_law(m, x) for m, x in zip(parts, inputs, strict=True)]
                    found[repr(records)] = laws
            one, two = (found[repr(tuple(records))] for records in pair)
            losses = [np.abs(p - q).max() for p, q in zip(one, two, strict=True)]
            for loss, m in zip(losses, parts, strict=True):
                assert loss <= float(m.epsilon()) + 1e-12
            worst = max(worst, sum(losses))
    assert len(kinds) == len(parts)
    assert 0.75 < worst <= 1 + 1e-12  # not far from what is charged


def test_a_score_that_moves_by_two_is_found(monkeypatch):
    """The check above is no check of nothing."""
    double = _mwem.kinds_of
    monkeypatch.setattr(_mwem, "kinds_of", lambda x, domain: 2 * double(x, domain))
    with pytest.raises(AssertionError):
        test_whole_laws_of_neighbors_are_within_epsilon(ADDED, monkeypatch)


@pytest.mark.parametrize("domain", [(2, 2), (3, 1, 2), (4,)])
def test_queries_count_what_they_say(domain):
    records = np.array(list(np.ndindex(*domain)))
    for order in range(1, len(domain) + 1):
        rows = _mwem.checked_queries(order, domain)
        wanted = [
            [
                all(record[j] == v for j, v in zip(own, values, strict=True))
                for record in records
            ]
            for own in itertools.combinations(range(len(domain)), order)
            for values in itertools.product(*(range(domain[j]) for j in own))
        ]
        assert (rows == wanted).all()
    counts = _mwem.kinds_of(records.repeat(2, axis=0).astype(float), domain)
    assert (counts == 2).all()


def test_weights_answer_all_queries_at_little_noise():
    rng = np.random.default_rng(3)
    x = (rng.random((3_000, 4)) < [0.1, 0.3, 0.5, 0.9]).astype(int)
    x[:, 2] = x[:, 0] | x[:, 1]
    known = {"domain": (2,) * 4, "queries": 2, "max_iter": 30, "epsilon": 10**5}
    for relation in NeighboringRelation:
        model = counting(relation, **known).fit(x, stream=FixedStream("m"))
        counts = np.bincount(np.ravel_multi_index(x.T, (2,) * 4), minlength=16)
        assert np.abs(model.predict() - model.queries_ @ counts).max() < 60
        assert model.weights_.shape == (2,) * 4
        assert model.predict(1).sum() == pytest.approx(4 * 3_000)
        assert model.measured_.shape == (30, 2)


# ---- PATE: votes of all neighbors --------------------------------------------------


@pytest.mark.parametrize("relation", list(NeighboringRelation), ids=lambda r: r.name)
def test_a_record_changes_the_votes_of_one_teacher(relation):
    model = voting(relation)
    found = {}

    def votes(records):
        if repr(records) not in found:
            x = np.array(records, np.float64).reshape(-1, 2)
            y = np.where(x[:, 1] > 0.5, "a", np.where(x[:, 1] < 0.2, "b", "none"))
            found[repr(records)] = model.votes(x, y)
        return found[repr(records)]

    most = 0
    for one, two in neighbors(relation):
        moved = votes(one) - votes(two)
        assert np.abs(moved).max() <= 1
        assert np.abs(moved).sum(axis=1).max() <= 2
        most = max(most, int(np.abs(moved).sum()))
        largest = votes(one).max(axis=1) - votes(two).max(axis=1)
        assert np.abs(largest).max() <= 1
    assert most == (4 if relation is SPECIAL else 6)  # on three queries
    assert model.event().sensitivity == 6


def test_records_dealt_by_place_are_found(monkeypatch):
    """One more record would move all others to other teachers."""
    monkeypatch.setattr(_pate, "ADD", None)
    with pytest.raises(AssertionError):
        test_a_record_changes_the_votes_of_one_teacher(ADDED)


def test_teachers_that_share_a_generator_are_found(monkeypatch):
    monkeypatch.setattr(np.random, "seed", lambda _: None)
    monkeypatch.setattr(np.random, "set_state", lambda _: None)
    with pytest.raises(AssertionError):
        test_a_record_changes_the_votes_of_one_teacher(REPLACED)


class Writer(Majority):
    """Writes to the pool: a record would move all later votes."""

    def predict(self, x):
        found = super().predict(x)
        x += self.mean
        return found


class Drawer(Majority):
    """Draws from Python's generator as often as its records say."""

    def predict(self, x):
        drawn = [random.random() for _ in range(1 + (self.mean < 0))]
        return np.where(drawn[-1] + 0 * x[:, 0] < 0.5, "a", "b")


class Setter(Majority):
    """Makes numpy raise errors: later teachers would fail."""

    def fit(self, x, y):
        super().fit(x, y)
        if self.mean < 0:
            np.seterr(all="raise")

    def predict(self, x):
        np.log(np.zeros(1))
        return np.full(len(x), "a")


class Leaver(Majority):
    """Exits, and would show its records."""

    def fit(self, x, y):
        super().fit(x, y)
        if len(x) and x.min() < 0:
            raise SystemExit(f"a secret {x.min()}")


@pytest.mark.parametrize("teacher", [Writer, Drawer, Setter, Leaver])
def test_no_teacher_changes_another(teacher):
    settings, state = np.geterr(), random.getstate()
    for relation in (ADDED, REPLACED):
        model = voting(relation).set_params(teacher=teacher())
        found = []
        for last in ([1.0, 1.0], [-9.0, 0.0]):
            x = np.array([[1.0, 1.0], [0.5, 1.0], [1.0, 0.0], last])
            found.append(model.votes(x, np.array(["a", "b", "a", "b"])))
        assert np.abs(found[0] - found[1]).sum(axis=1).max() <= (
            2 if relation is REPLACED else 4
        )
    assert (np.geterr(), random.getstate()) == (settings, state)


def test_teachers_leave_the_generator_and_say_nothing(recwarn, capfd):
    state = np.random.get_state()[1].copy()
    x = np.array(HOSTILE * 3)
    assert voting().votes(x, np.array(["a", "b", "?"])[np.arange(27) % 3]).sum() > 0
    assert (np.random.get_state()[1] == state).all()
    assert not recwarn.list
    assert capfd.readouterr() == ("", "")


def test_tests_choose_what_is_answered():
    x = np.array([[float(i % 2), i % 2] for i in range(300)])
    y = np.array(["b", "a"])[x[:, 0].astype(int)]
    known = {"teachers": 30, "pool": [[-5, 0], [0, 0], [5, 0], [9, 0]]}
    known |= {"classes": ["a", "b"], "epsilon": 10**4}
    for answers, threshold in ((2, 10), (4, 31)):
        model = voting(REPLACED, answers=answers, threshold=threshold, **known)
        tests, votes = events_of(model)
        assert (tests.sensitivity, votes.sensitivity) == (4, 2 * answers)
        model.fit(x, y, stream=FixedStream("t"))
        assert len(model.answered_) == (2 if threshold == 10 else 0)
        assert len(model.predict(x)) == 300
    model = voting(REPLACED, **known).fit(x, y, stream=FixedStream("t"))
    votes = model.votes(x, y)
    assert votes.sum(axis=1).max() <= 30
    assert (model.labels_ == np.array(["a", "b"])[votes.argmax(axis=1)]).all()


# ---- both --------------------------------------------------------------------------


@pytest.mark.parametrize("made", [counting, voting])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("relation", [ADDED, REPLACED], ids=lambda r: r.name)
def test_the_event_is_within_the_budget_and_known_before(made, budget, relation):
    if made is counting and "delta" in budget and relation is ADDED:
        budget = {**budget, "max_iter": 1}
    model = made(relation, **budget)
    event = model.event()
    if "rho" in budget:
        spent = float(accounting.ZCDPAccountant().compose(event).rho)
        assert 0.999 * budget["rho"] <= spent <= budget["rho"]
    else:
        accountant = accounting.PLDAccountant(neighboring_relation=relation)
        delta = budget.get("delta", 0)
        spent = accountant.compose(event).epsilon(delta)
        spent = min(spent, accounting.event_epsilon(event, delta))  # both are bounds
        assert 0.98 <= spent <= 1
    assert event.neighboring_relation is relation
    assert fitted(model, HOSTILE).event() == event


@pytest.mark.parametrize("made", [counting, voting])
@pytest.mark.parametrize("relation", [ADDED, REPLACED], ids=lambda r: r.name)
def test_no_record_raises(made, relation, recwarn):
    for records in (HOSTILE, [], *([record] for record in HOSTILE), HOSTILE[:1] * 50):
        model = fitted(made(relation), records)
        learned = model.weights_ if made is counting else model.predict(np.eye(2))
        assert len(learned) == 2
        assert made is voting or np.isfinite(learned).all()
    assert not recwarn.list


@pytest.mark.parametrize("made", [counting, voting])
def test_a_label_is_one_model_and_one_charge(made, tmp_path):
    with fastdp.ledger.create(tmp_path / "ledger.db") as ledger:
        ledger.add_budget("b", accounting.PureFilter(epsilon=2), unit="person")
        about = {"ledger": ledger, "label": "model", "budgets": "b"}
        person = {"unit": fastdp.Rows("person")}
        first = fitted(made().set_params(**person), HOSTILE, **about)
        again = fitted(made().set_params(**person), HOSTILE, **about)
        for key in ("weights_", "measured_", "answered_", "labels_"):
            assert np.array_equal(getattr(first, key, 0), getattr(again, key, 0))
        charged = [label.event for label in ledger.labels()]
        assert sorted(map(repr, charged)) == sorted(map(repr, events_of(first)))
        with pytest.raises(LabelConflictError):
            fitted(made().set_params(**person, epsilon=0.5), HOSTILE, **about)


def test_a_teacher_may_have_any_parameters_in_a_ledger(tmp_path):
    class Tuned(Majority):
        def get_params(self):
            return {"missing": NAN, "rng": np.random.RandomState(1), "steps": [len]}

    model = voting().set_params(teacher=Tuned(), unit=fastdp.Rows("person"))
    with fastdp.ledger.create(tmp_path / "ledger.db") as ledger:
        ledger.add_budget("b", accounting.PureFilter(epsilon=1), unit="person")
        fitted(model, HOSTILE, ledger=ledger, label="model", budgets="b")
        assert len(ledger.labels()) == 1


@pytest.mark.parametrize(
    ("made", "wrong", "error", "match"),
    [
        (counting, {"domain": 4}, DTypeError, "domain must be a sequence"),
        (counting, {"domain": (2, 0)}, ParameterError, "domain must"),
        (counting, {"domain": (2,) * 30}, ParameterError, "domain must have 1 to 32"),
        (counting, {"domain": (2, 2, 2)}, ParameterError, "X must have 3 features"),
        (counting, {"queries": 3}, ParameterError, "queries must"),
        (counting, {"queries": [[1, 0]]}, ParameterError, "queries must be an int or"),
        (counting, {"queries": [[1, 0, 2, 0]]}, ParameterError, "entries 0 and 1"),
        (counting, {"max_iter": 0}, ParameterError, "max_iter"),
        (voting, {"pool": [[1, NAN]]}, ParameterError, "pool must have a record"),
        (voting, {"pool": [[1, 2, 3]]}, ParameterError, "X must have 3 features"),
        (voting, {"teachers": 0}, ParameterError, "teachers"),
        (voting, {"teacher": 5}, DTypeError, "teacher must have fit"),
        (voting, {"student": 5}, DTypeError, "student must have fit"),
        (voting, {"teacher": Majority}, DTypeError, "teacher must not be its own"),
        (voting, {"answers": 2}, ParameterError, "answers and threshold must be given"),
        (voting, {"answers": 4, "threshold": 1}, ParameterError, "answers"),
        (voting, {"classes": ["a"]}, ParameterError, "classes must be two or more"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_bad_parameters_are_refused_before_anything_is_drawn(made, wrong, error, match):
    model, stream = made().set_params(**wrong), FixedStream("1")
    with pytest.raises(error, match=match):
        fitted(model, HOSTILE, stream=stream)
    m = fastdp.DiscreteLaplace(scale=1000)
    assert m.release(0, stream=stream) == m.release(0, stream=FixedStream("1"))


def test_a_teacher_fails_on_public_records_before_private_ones():
    class Broken(Majority):
        def fit(self, x, y):
            raise ValueError("nothing works")

    with pytest.raises(ValueError, match="nothing works"):
        fitted(voting().set_params(teacher=Broken()), HOSTILE)


def test_a_choice_takes_its_part_of_rho():
    parts = counting(REPLACED, rho=Fraction(1, 2))._mechanisms(2)
    for m in parts:
        assert 0.1249 < float(m.rho()) <= 0.125
