"""What a ledger gives, refuses and keeps; one suite over both engines."""

from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp import accounting, ledger
from fastdp.accounting.events import (
    ApproximateDPEvent,
    PureDPEvent,
)
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    LabelConflictError,
    LabelUsedError,
    ParameterError,
)
from fastdp.mechanisms._base import Mechanism
from tests.ledger.conftest import NOISE, PRICE

COUNTS = np.arange(7)


def facts(book):
    """Everything that a refusal must leave as it was."""
    return book.budgets(), book.audit()


# ---- one answer, one charge -----------------------------------------------------


def test_a_budget_by_its_epsilon(tmp_path):
    book = fastdp.ledger.create(tmp_path / "short.db")
    both = book.add_budget("both", epsilon=3, delta=1e-5, unit="person")
    rule = accounting.ApproximateFilter(epsilon=3, delta=1e-5)
    long = book.add_budget("long", rule, unit="person")
    assert (both.filter, both.limit) == (long.filter, long.limit)
    assert book.add_budget("pure", epsilon=2, unit="person").filter == "PureFilter"
    one, two = {"filter": rule, "epsilon": 1}, {"filter": rule, "delta": 1e-5}
    for words in ({}, {"delta": 1e-5}, one, two):
        with pytest.raises(ParameterError, match="either filter or epsilon"):
            book.add_budget("wrong", **words, unit="person")
    assert "wrong" not in book.budgets()


def test_the_same_label_gives_the_same_answer_and_is_paid_once(book, location):
    first = book.release(NOISE, COUNTS, label="a", budgets="all")
    assert first.value.dtype == np.int64
    assert first.value.shape == COUNTS.shape
    assert (first.replayed, first.attempt) == (False, 1)
    with ledger.open(location) as again:
        # Other data: the same transaction, and nothing tells that they differ.
        second = again.release(NOISE, COUNTS + 10**6, label="a", budgets="all")
    assert second.replayed
    assert (second.value == first.value).all()
    assert second.receipts == first.receipts
    assert book.budget("all").spent == {"epsilon": PRICE}
    assert book.audit(receipts=first.receipts).problems == []


def test_an_answer_is_what_the_mechanism_returns(book):
    cases = [
        (fastdp.DiscreteGaussian(3, sensitivity=1), np.int64(5), "budget"),
        (fastdp.DiscreteLaplace(3, sensitivity=1), 5, "all"),
        (fastdp.Laplace(3, sensitivity=1), np.zeros((2, 3), np.float32), "all"),
        (fastdp.Laplace(3, sensitivity=1), 2.5, "all"),
        (fastdp.DiscreteLaplace(3, sensitivity=1), np.zeros((0, 4), np.int16), "all"),
        (
            fastdp.DiscreteLaplace(3, sensitivity=1),
            np.zeros((3, 4), np.int64, order="F"),
            "all",
        ),
        (
            fastdp.RandomizedResponse.from_epsilon(1, categories=5),
            np.arange(5),
            "local",
        ),
    ]
    book.add_budget("budget", accounting.ZCDPFilter(10), unit="person")
    book.add_budget("local", accounting.PureFilter(2), unit="person")
    for number, (m, x, name) in enumerate(cases):
        want = np.asarray(m.release(x))
        got = [book.release(m, x, label=f"v{number}", budgets=name).value for _ in "12"]
        assert type(got[0]) is type(m.release(x))
        for value in got:
            assert np.asarray(value).dtype == want.dtype
            assert np.asarray(value).shape == want.shape
        assert np.array_equal(*got)
        if want.ndim:
            got[1][...] = 0  # the caller's own copy


def test_selections_and_quantiles_pay_for_their_own_event(book):
    m = fastdp.ExponentialMechanism(Fraction(1, 4), sensitivity=1)
    scores = np.array([[0.0, 9.0, 1.0], [3.0, 0.0, 0.0]])
    answer = book.select(m, scores, label="s", budgets="all", k=2)
    assert answer.value.shape == (2, 2)
    assert book.budget("all").spent == {"epsilon": Fraction(1)}  # 2 rows, 2 choices
    again = book.select(m, scores, label="s", budgets="all", k=2)
    assert again.replayed
    assert (again.value == answer.value).all()
    with pytest.raises(LabelConflictError):
        book.select(m, scores, label="s", budgets="all")
    q = fastdp.Quantiles(0.5, bounds=(0, 100), epsilon=1)
    book.release(q, np.arange(50.0), label="q", budgets="all")
    assert book.budget("all").spent["epsilon"] > 1


def test_several_budgets_are_charged_together_or_not_at_all(book):
    book.add_budget("week", accounting.PureFilter(Fraction(1, 4)), unit="person")
    for number in range(2):
        book.release(NOISE, 1, label=f"a{number}", budgets=["week", "all"])
    before = facts(book)
    with pytest.raises(BudgetExceededError, match="'week'"):
        book.release(NOISE, 1, label="a2", budgets=["all", "week"])
    assert facts(book) == before
    assert book.budget("week").spent == book.budget("all").spent
    answer = book.release(NOISE, 1, label="a1", budgets=["all", "week"])
    assert answer.replayed
    assert [receipt.budget for receipt in answer.receipts] == ["all", "week"]


def test_spend_is_for_what_the_ledger_does_not_draw(book):
    sparse = fastdp.SparseVector(0, epsilon=1, sensitivity=1)
    receipts = book.spend(sparse, label="sparse", budgets="all")
    assert len(receipts) == 1
    with pytest.raises(LabelUsedError, match="new label"):
        book.spend(sparse, label="sparse", budgets="all")
    book.spend(PureDPEvent(Fraction(1, 8)), label="x", budgets="all", count=4)
    assert book.budget("all").spent == {"epsilon": Fraction(3, 2)}
    with pytest.raises(DTypeError, match="spend"):
        book.release(sparse, COUNTS, label="y", budgets="all")
    assert book.audit().ok


def test_a_preview_writes_nothing(book):
    before = facts(book)
    event = PureDPEvent(400)
    assert book.preview(event, budgets="all", count=2)["all"].spent == {"epsilon": 800}
    assert book.covers(event, budgets="all", count=2)
    assert not book.covers(event, budgets="all", count=3)
    with pytest.raises(BudgetExceededError):
        book.preview(event, budgets="all", count=3)
    with pytest.raises(ParameterError, match="add_budget"):
        book.covers(event, budgets="other")
    assert facts(book) == before


# ---- tables ---------------------------------------------------------------------


class Threshold(Mechanism):
    """Shows each key with probability 1/2, whatever the data: a stand-in."""

    def __init__(self):
        self._freeze(_arguments=())

    def event(self):
        return ApproximateDPEvent(epsilon=0, delta=Fraction(1, 1000))

    def select(self, counts):
        return fastdp.random.bernoulli(Fraction(1, 2), size=counts.shape)


def test_a_table_keeps_keys_and_columns_together(book):
    keys = {"clinic": np.array(["b", "a", "c"]), "year": np.array([1, 2, 3])}
    columns = {
        "visits": (NOISE, np.array([5, 6, 7])),
        "cost": (fastdp.Laplace(4, sensitivity=1), np.array([1.0, 2.0, 3.0])),
    }
    answer = book.table(columns, keys=keys, label="t", budgets="all")
    assert list(answer.value) == ["clinic", "year", "visits", "cost"]
    assert answer.value["clinic"].tolist() == ["b", "a", "c"]
    # The same rows in another order, as of a group-by that runs again.
    shuffled = {name: column[::-1].copy() for name, column in keys.items()}
    again = book.table(columns, keys=shuffled, label="t", budgets="all")
    for name, column in answer.value.items():
        assert (again.value[name] == column).all()
    others = {"clinic": np.array(["b", "a", "d"]), "year": keys["year"]}
    crossed = {"clinic": keys["clinic"], "year": keys["year"][::-1].copy()}
    for wrong in (others, crossed):
        with pytest.raises(LabelConflictError, match="public keys"):
            book.table(columns, keys=wrong, label="t", budgets="all")
    memory = accounting.PureFilter(10)
    memory.spend(NOISE.event()).spend(fastdp.Laplace(4, sensitivity=1).event())
    assert book.budget("all").spent == {"epsilon": memory.spent}


def test_keys_are_selected_by_their_users_and_paid_for(book):
    book.add_budget(
        "d", accounting.ApproximateFilter(epsilon=9, delta=0.01), unit="person"
    )
    chosen = fastdp.KeySelection.from_epsilon_delta(
        epsilon=1, delta=1e-6, keys_per_user=1
    )
    users = np.array([0, 10**6, 0, 10**6])  # what nobody has is never shown
    answer = book.table(
        {"visits": (NOISE, users)},
        keys={"clinic": np.array(["a", "d", "c", "b"])},
        select=(chosen, users),
        most_rows=9,
        label="t",
        budgets="d",
    )
    assert answer.value["clinic"].tolist() == ["b", "d"]
    assert (abs(answer.value["visits"] - 10**6) < 10**5).all()
    # Basic composition, in exact rationals.
    assert chosen.event().delta == Fraction(1e-6)
    spent = book.budget("d").spent
    assert spent["epsilon"] == PRICE + 1
    assert spent["delta"] == chosen.event().delta
    assert book.audit().ok


def test_a_column_shows_rows_by_its_own_noise(book):
    rule = accounting.ApproximateFilter(epsilon=9, delta=0.01)
    book.add_budget("d", rule, unit="person")
    shows = accounting.ApproximateDPEvent(epsilon=0, delta=1e-6)
    above = np.array([0, 2**40, 2**40, -(2**40), 2**40])
    options = {"label": "t", "budgets": "d", "most_rows": 9}
    keys = {"clinic": np.array(["a", "d", "c", "b", "e"])}
    columns = {"visits": (NOISE, above), "rest": (NOISE, np.arange(5))}
    answer = book.table(columns, keys=keys, select=("visits", 2**39, shows), **options)
    assert answer.value["clinic"].tolist() == ["c", "d", "e"]
    assert (answer.value["visits"] > 2**39).all()
    spent = book.budget("d").spent
    assert spent["delta"] == Fraction(1e-6)
    assert spent["epsilon"] == 2 * PRICE
    # What nobody has is not shown, however low the number.
    options |= {"label": "u"}
    columns = {"visits": (NOISE, np.array([0, 1, 0, 0, 2**40]))}
    answer = book.table(columns, keys=keys, select=("visits", 1, shows), **options)
    assert "e" in answer.value["clinic"]
    assert not {"a", "b", "c"} & {*answer.value["clinic"].tolist()}
    bins = {"visits": (NOISE, np.zeros((5, 2), np.int64))}
    with pytest.raises(ParameterError, match=r"select must name a column of shape"):
        book.table(bins, keys=keys, select=("visits", 1, shows), **options)
    for wrong in (("none", 1, shows), ("visits", 0, shows), ("visits", 1, NOISE)):
        with pytest.raises((ParameterError, DTypeError), match="select"):
            book.table(columns, keys=keys, select=wrong, **options)


def test_private_keys_need_a_public_number_of_rows(book):
    book.add_budget(
        "d", accounting.ApproximateFilter(epsilon=5, delta=0.5), unit="person"
    )
    keys = {"clinic": np.array([f"clinic {i:04d}" for i in range(400)][::-1])}
    columns = {"visits": (NOISE, np.arange(400))}
    select = (Threshold(), np.arange(400))
    with pytest.raises(ParameterError, match="most_rows"):
        book.table(columns, keys=keys, label="t", budgets="d", select=select)
    with pytest.raises(ParameterError, match="most_rows"):
        book.table(columns, keys=keys, label="t", budgets="d", most_rows=5)
    options = {"label": "t", "budgets": "d", "select": select, "most_rows": 20}
    answer = book.table(columns, keys=keys, **options)
    shown = answer.value["clinic"].tolist()
    assert len(shown) == 20
    assert shown == sorted(shown)
    # Another number of keys is other data, and no other transaction.
    fewer = {"clinic": keys["clinic"][:9]}
    again = book.table(
        {"visits": (NOISE, np.arange(9))},
        keys=fewer,
        **{**options, "select": (Threshold(), np.arange(9))},
    )
    assert again.value["clinic"].tolist() == shown
    assert book.budget("d").spent["delta"] == Fraction(1, 1000)


def test_tables_refuse_what_they_cannot_keep(book):
    good = {"k": np.arange(3)}
    column = {"n": (NOISE, np.arange(3))}
    for columns, keys, error in [
        (column, {"k": np.array([1, None, 2])}, DTypeError),
        (column, {"k": [1, 2, 3]}, DTypeError),
        (column, {"k": np.arange(4)}, ParameterError),
        (column, {}, ParameterError),
        ({}, good, ParameterError),
        ({"k": column["n"]}, good, ParameterError),
        ({"n": NOISE}, good, DTypeError),
        ({"n": (NOISE, np.zeros(3))}, good, DTypeError),
        (column, [1], DTypeError),
    ]:
        before = facts(book)
        with pytest.raises(error):
            book.table(columns, keys=keys, label="t", budgets="all")
        assert facts(book) == before
