"""Terms, labels, units and budgets of a ledger; one suite over both engines."""

import copy
import json
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp import accounting, ledger
from fastdp.accounting import NeighboringRelation
from fastdp.accounting.events import (
    GaussianEvent,
    GroupEvent,
    PureDPEvent,
    ZCDPEvent,
)
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    LabelConflictError,
    LedgerError,
    ParameterError,
    UnitMismatchError,
    UnsupportedEventError,
)
from fastdp.ledger import _protocol, _terms
from tests.ledger.conftest import NOISE
from tests.ledger.test_ledger import COUNTS, facts

# ---- terms ----------------------------------------------------------------------


def test_other_terms_under_the_same_label_are_a_conflict(book):
    book.add_budget("other", accounting.PureFilter(5), unit="person")
    book.release(NOISE, COUNTS, label="a", budgets="all")
    before = facts(book)
    for call in (
        lambda: book.release(
            fastdp.DiscreteLaplace(11, sensitivity=1), COUNTS, label="a", budgets="all"
        ),
        lambda: book.release(NOISE, COUNTS[:3], label="a", budgets="all"),
        lambda: book.release(NOISE, COUNTS.astype("i4"), label="a", budgets="all"),
        lambda: book.release(NOISE, COUNTS, label="a", budgets=["all", "other"]),
        lambda: book.release(NOISE, COUNTS, label="a", budgets="all", source="s"),
        lambda: book.spend(NOISE, label="a", budgets="all"),
    ):
        with pytest.raises(LabelConflictError, match="another transaction"):
            call()
    assert facts(book) == before


def test_terms_are_public_parameters_without_a_version_of_the_package(
    book, monkeypatch
):
    book.release(NOISE, COUNTS, label="a", budgets="all")
    text = next(book._store.rows("SELECT terms FROM charge"))[0]
    terms = json.loads(text)
    assert terms["law"] == {
        "type": "DiscreteLaplace",
        "scale": "10",
        "sensitivity": "1",
    }
    assert terms["event"]["scale"] == "10"
    assert terms["data"] == {"dtype": "<i8", "shape": [7]}
    assert (terms["version"], terms["kind"], terms["budgets"]) == (
        1,
        "release",
        ["all"],
    )
    assert fastdp.__version__ not in text
    # An upgraded package asks for the same transaction.
    monkeypatch.setattr(fastdp, "__version__", "99.0")
    assert book.release(NOISE, COUNTS, label="a", budgets="all").replayed


def test_parameters_at_their_default_are_left_out_of_the_terms():
    from fastdp.ledger import _terms

    plain = fastdp.Laplace(2, sensitivity=1)
    assert "answer_bounds" not in _terms.law_of(plain)
    bounded = fastdp.Laplace(2, sensitivity=1, answer_bounds=(0, Fraction(1, 3)))
    assert _terms.law_of(bounded)["answer_bounds"][0] == "0"


# ---- by label alone -------------------------------------------------------------


def test_answers_are_read_by_their_label_alone(book, tmp_path):
    shown = {
        "release": book.release(NOISE, COUNTS, label="release", budgets="all"),
        "table": book.table(
            {"n": (NOISE, COUNTS)}, keys={"k": COUNTS}, label="table", budgets="all"
        ),
        "write": book.write(
            tmp_path / "file",
            lambda staged, _: staged.write_text("noise"),
            event=NOISE,
            label="write",
            budgets="all",
        ),
    }
    book.spend(NOISE, label="spend", budgets="all", count=3)
    before = facts(book)
    for label, first in shown.items():
        again = book.answer(label)
        assert (again.replayed, again.attempt) == (True, 0)
        assert again.receipts == first.receipts
        assert str(again.value) == str(first.value)
    (tmp_path / "file").write_text("edited")
    with pytest.raises(LedgerError, match="altered"):
        book.answer("write")
    with pytest.raises(LedgerError, match="no stored answer"):
        book.answer("spend")
    with pytest.raises(ParameterError, match="label must be a label"):
        book.answer("other")
    with pytest.raises(DTypeError, match="label"):
        book.answer(7)
    found = {one.label: one for one in book.labels()}
    assert {name: (one.kind, one.answered) for name, one in found.items()} == {
        name: (name, name != "spend") for name in (*shown, "spend")
    }
    assert {one.budgets for one in found.values()} == {("all",)}
    assert (found["spend"].event, found["spend"].count) == (NOISE.event(), 3)
    times = [one.charged_at for one in book.labels()]
    assert times == sorted(times)
    assert book.budgets() == before[0]


def test_labels_of_a_new_ledger_and_of_a_counter(book):
    assert book.labels() == ()
    running = fastdp.Counter.from_epsilon(1, steps=4)
    book.counter(running, label="c", budgets="all")
    (one,) = book.labels()
    assert (one.label, one.kind, one.answered) == ("c", "counter", False)


# ---- units ----------------------------------------------------------------------

SELECTION = fastdp.ExponentialMechanism(1, sensitivity=1)


def charges(book, **options):
    """Return every way to charge the budget for one use."""
    said = {"budgets": "all", **options}
    cells = {"columns": {"n": (NOISE, COUNTS)}, "keys": {"k": COUNTS}}
    return {
        "release": lambda: book.release(NOISE, COUNTS, label="release", **said),
        "select": lambda: book.select(SELECTION, COUNTS, label="select", **said),
        "table": lambda: book.table(**cells, label="table", **said),
        "spend": lambda: book.spend(NOISE, label="spend", **said),
        "preview": lambda: book.preview(NOISE, **said),
        "covers": lambda: book.covers(NOISE, **said),
    }


@pytest.mark.parametrize("unit", ["row", "Person"])
def test_a_release_of_other_units_is_refused_with_nothing_spent(book, unit):
    before = facts(book)
    for charge in charges(book, unit=unit).values():
        with pytest.raises(UnitMismatchError, match=f"'all' is per 'person'.*'{unit}'"):
            charge()
    assert facts(book) == before


def test_a_file_of_other_units_is_refused(book, tmp_path):
    before = facts(book)
    said = {"event": NOISE, "label": "w", "budgets": "all"}
    with pytest.raises(UnitMismatchError):
        book.write(tmp_path / "a", lambda *_: None, unit="row", **said)
    assert facts(book) == before


def test_one_budget_of_other_units_is_enough(book):
    book.add_budget("rows", accounting.PureFilter(9), unit="row")
    before = facts(book)
    said = {"label": "a", "budgets": ["all", "rows"], "unit": "person"}
    with pytest.raises(UnitMismatchError, match="'rows'"):
        book.release(NOISE, COUNTS, **said)
    assert facts(book) == before


def test_an_equal_unit_is_charged_and_is_no_part_of_the_terms(book):
    for charge in charges(book, unit="person").values():
        charge()
    first = book.release(NOISE, COUNTS, label="release", budgets="all")
    assert first.replayed
    # An answer charged without a unit is replayed with any unit.
    book.release(NOISE, COUNTS, label="old", budgets="all")
    before = facts(book)
    again = book.release(NOISE, COUNTS, label="old", budgets="all", unit="row")
    assert again.replayed
    assert facts(book) == before
    assert before[1].ok


def test_a_later_attempt_is_of_what_was_charged(book):
    """A crash before the draw; the next attempt says a unit that the first did not."""
    wanted = _terms.terms_of_call(
        "crashed", "release", "all", NOISE.event(), NOISE, COUNTS, None
    )
    _protocol.charge(book._store, book.uuid, wanted)
    found = book.release(NOISE, COUNTS, label="crashed", budgets="all", unit="row")
    assert found.attempt == 2


def test_units_are_names(book):
    for unit, error in (("", ParameterError), (1, DTypeError)):
        with pytest.raises(error, match="unit"):
            book.release(NOISE, COUNTS, label="a", budgets="all", unit=unit)


# ---- budgets --------------------------------------------------------------------

FILTERS = [
    (lambda: accounting.PureFilter(Fraction(1, 3)), PureDPEvent(Fraction(1, 9)), 3),
    (lambda: accounting.ZCDPFilter(Fraction(1, 3)), ZCDPEvent(Fraction(1, 9)), 3),
    (lambda: accounting.GDPFilter(3), GaussianEvent(sensitivity=1, sigma=1), 9),
    (
        lambda: accounting.RDPFilter(order=4, epsilon=10),
        GaussianEvent(sensitivity=1, sigma=1),
        4,
    ),
    (lambda: accounting.ApproximateFilter(epsilon=2, delta=1e-6), PureDPEvent(1), 2),
    (
        lambda: accounting.DeclaredFilter(
            PureDPEvent(1),
            epsilon=5,
            delta=0,
            accountant=accounting.ApproximateAccountant,
        ),
        PureDPEvent(1),
        5,
    ),
]


@pytest.mark.parametrize(
    ("new", "event", "times"), FILTERS, ids=lambda v: "" if callable(v) else str(v)
)
def test_every_filter_admits_exactly_what_it_does_in_memory(
    book, location, new, event, times
):
    admission = new()
    state = book.add_budget("f", admission, unit="person")
    assert state.filter == type(admission).__name__
    for number in range(times):
        with ledger.open(location) as other:
            assert other.covers(event, budgets="f")
            other.spend(event, label=f"e{number}", budgets="f")
            admission.spend(event)
            spent = next(iter(other.budget("f").spent.values()))
            kept = getattr(admission, "spent", None)
            assert spent == (admission.spent_epsilon if kept is None else kept)
    assert not admission.covers(event)
    assert not book.covers(event, budgets="f")
    with pytest.raises(BudgetExceededError, match="'f'"):
        book.spend(event, label="more", budgets="f")
    assert book.budget("f").used <= 1
    assert book.audit().ok


@pytest.mark.rest
def test_a_state_does_not_grow_with_the_history(book):
    book.add_budget("z", accounting.ZCDPFilter(10**9), unit="person")
    sizes = []
    for number in range(60):
        event = ZCDPEvent(Fraction(1, 10**20 + number))
        book.spend(event, label=f"e{number}", budgets="z")
        sizes.append(len(next(book._store.rows("SELECT state FROM budget"))[0]))
    assert max(sizes) < 1500


def test_budgets_refuse_what_they_cannot_mean(book):
    new = accounting.PureFilter
    used = new(1)
    used.spend(PureDPEvent(Fraction(1, 2)))
    replaced = new(1, NeighboringRelation.REPLACE_ONE)
    before = facts(book)
    for name, admission, options, error in [
        ("all", new(1), {}, ParameterError),
        ("", new(1), {}, ParameterError),
        ("a\nb", new(1), {}, ParameterError),
        ("ü", new(1), {}, ParameterError),
        (" a", new(1), {}, ParameterError),
        ("a" * 201, new(1), {}, ParameterError),
        (3, new(1), {}, DTypeError),
        ("n", used, {}, ParameterError),
        ("n", accounting.PureAccountant(), {}, DTypeError),
        ("n", 1.0, {}, DTypeError),
        ("n", replaced, {"block_of": "clinic"}, ParameterError),
        ("n", new(1), {"block_of": "clinic"}, ParameterError),
        ("n", new(1), {"unit": ""}, ParameterError),
    ]:
        with pytest.raises(error):
            book.add_budget(name, admission, **{"unit": "person", **options})
    with pytest.raises(TypeError):
        book.add_budget("n", new(1))  # whom the guarantee is about has no default
    assert facts(book) == before
    block = new(1, NeighboringRelation.ADD_OR_REMOVE_ONE)
    made = book.add_budget("n", block, unit="person", block_of="clinic")
    assert made.block_of == "clinic"


def test_events_that_a_budget_cannot_price_are_refused(book):
    book.spend(NOISE, label="first", budgets="all")
    other = PureDPEvent(1, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    before = facts(book)
    for event, error in [
        (GaussianEvent(sensitivity=1, sigma=1), UnsupportedEventError),
        (other, ParameterError),
        (GroupEvent(PureDPEvent(1), 2), ParameterError),
        ("event", DTypeError),
        (None, DTypeError),
    ]:
        with pytest.raises(error):
            book.spend(event, label="x", budgets="all")
    assert facts(book) == before


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"label": ""}, ParameterError),
        ({"label": "a" * 201}, ParameterError),
        ({"label": "tab\t"}, ParameterError),
        ({"label": None}, DTypeError),
        ({"budgets": "none"}, ParameterError),
        ({"budgets": []}, ParameterError),
        ({"budgets": ["all", "all"]}, ParameterError),
        ({"budgets": 3}, DTypeError),
        ({"source": ""}, ParameterError),
        ({"x": [1, 2]}, DTypeError),
        ({"x": np.array([1.5])}, DTypeError),
        ({"x": np.array([1], object)}, DTypeError),
        ({"x": np.array([1], np.uint64)}, DTypeError),
        ({"mechanism": 1}, DTypeError),
        ({"mechanism": fastdp.PermuteAndFlip(1, sensitivity=1)}, DTypeError),
        ({"x": np.zeros((1 << 23) + 1, np.int8)}, ParameterError),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_anything_is_charged(book, options, error):
    call = {"mechanism": NOISE, "x": COUNTS, "label": "a", "budgets": "all"}
    call.update(options)
    before = facts(book)
    with pytest.raises(error):
        book.release(call.pop("mechanism"), call.pop("x"), **call)
    assert facts(book) == before


def test_a_ledger_is_not_copied(book):
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(DTypeError, match="copied"):
            copied(book)


def test_a_fork_opens_its_own(book, location):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                book.release(NOISE, COUNTS, label="a", budgets="all")
            except LedgerError as error:
                os.write(write, str(error).encode())
            with ledger.open(location) as own:
                own.release(NOISE, COUNTS, label="child", budgets="all")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert b"opened again in a forked process" in os.read(read, 1000)
    os.close(read), os.close(write)
    assert book.release(NOISE, COUNTS, label="child", budgets="all").replayed
    assert book.audit().ok


def test_locations_that_are_none(tmp_path):
    with pytest.raises(LedgerError, match=r"no ledger at .*ledger init"):
        ledger.open(tmp_path / "none.db")
    with pytest.raises(DTypeError, match="location"):
        ledger.open(3)
    with pytest.raises(ParameterError, match="timeout"):
        ledger.open(tmp_path / "none.db", timeout=0)
    with pytest.raises(LedgerError):
        ledger.create(tmp_path / "folder" / "none.db")
    text = tmp_path / "text.db"
    text.write_text("hello")
    with pytest.raises(LedgerError, match="not a ledger"):
        ledger.open(text)
    with pytest.raises(LedgerError):
        ledger.create(text)
    assert text.read_text() == "hello"


def test_a_ledger_is_made_once(book, location):
    with pytest.raises(LedgerError):
        ledger.create(location)
    assert book.audit().ok
