"""Models: what reaches the noise, for all neighbors of small data, and conventions."""

import inspect
import itertools
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp import accounting
from fastdp.accounting.events import ComposedEvent, NeighboringRelation
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    LabelConflictError,
    ParameterError,
)
from fastdp.learning import (
    PCA,
    KMeans,
    LinearRegression,
    LogisticRegression,
    _base,
)
from fastdp.testing import FixedStream

PUBLIC = {"bounds": (-1, 1), "unit": "row"}
BUDGETS = [{"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}, {"rho": 0.5}]
ADDED, REPLACED, SPECIAL = NeighboringRelation
MODELS = {
    "line": lambda **more: LinearRegression(y_bounds=(-2, 2), **PUBLIC, **more),
    "through 0": lambda **more: LinearRegression(
        y_bounds=(-1, 2), fit_intercept=False, **PUBLIC, **more
    ),
    "axes": lambda **more: PCA(1, **PUBLIC, **more),
    "axes of a ball": lambda **more: PCA(
        data_norm=0.5, centered=True, **PUBLIC, **more
    ),
}
MODELS["clusters"] = lambda **more: KMeans(
    2, max_iter=2, init=[[1, 1], [0, 0.5]], **PUBLIC, **more
)
MODELS["two classes"] = lambda **more: LogisticRegression(
    classes=[0, 2], **PUBLIC, **more
)
MODELS["three classes"] = lambda **more: LogisticRegression(
    classes=[-1.7, 0, 2], data_norm=0.5, fit_intercept=False, **PUBLIC, **more
)


class Refined(LogisticRegression):
    """Releases products and gradients even of few records."""

    _least_trust = 0.0


MODELS["two classes, refined"] = lambda **more: Refined(
    classes=[0, 2], **PUBLIC, **more
)
MODELS["three classes, refined"] = lambda **more: Refined(
    classes=[-1.7, 0, 2], data_norm=0.5, fit_intercept=False, **PUBLIC, **more
)
NAN, INF = float("nan"), float("inf")

#: Records (x, x, y) as they may come; the target counts where a model has one.
HOSTILE = [
    (0.0, 0.0, 0.0),
    (1.0, -1.0, 2.0),
    (0.3, 0.9, -1.7),
    (1e308, -1e308, 1e308),
    (INF, -INF, -INF),
    (NAN, 0.5, 1.0),
    (0.5, 0.5, NAN),
    (5e-324, -0.0, -5e-324),
]


def made(name, relation="add_or_remove_one", **budget):
    return MODELS[name](neighboring_relation=relation, **(budget or {"epsilon": 1}))


def fitted(model, records, **options):
    """Return the model after a fit of records (x, x, y)."""
    table = np.array(records, np.float64).reshape(-1, 3)
    return model.fit(table[:, :2], table[:, 2], **options)


class Spy:
    """Noise that keeps what it is given, and answers with public numbers."""

    def __init__(self, kept):
        self.kept = kept

    def release(self, exact, *, stream=None):
        self.kept.append([int(x) for x in exact])
        rng = np.random.default_rng(len(self.kept))
        return rng.integers(-(2**20), 2**20, len(exact))


def sums_of(model, records, monkeypatch):
    """Return the integers that the noise of each release of a fit is added to."""
    kept = []
    monkeypatch.setattr(_base, "_law", lambda _: Spy(kept))
    fitted(model, records)
    return kept


def events_of(model):
    event = model.event(2)
    return event.events if isinstance(event, ComposedEvent) else (event,)


def within(event, difference):
    """Return whether integers differ by at most the sensitivity of an event."""
    if isinstance(event, accounting.DiscreteLaplaceEvent):
        return sum(map(abs, difference)) <= event.sensitivity
    return sum(d * d for d in difference) <= Fraction(event.sensitivity) ** 2


def neighbors(relation, most=2):
    """Yield pairs of lists of hostile records that are neighbors."""
    for n in range(most):
        for rest in itertools.combinations_with_replacement(HOSTILE, n):
            for record in HOSTILE:
                if relation is ADDED:
                    yield [record, *rest], list(rest)
                    yield [*rest, record], list(rest)
                elif relation is SPECIAL:
                    yield [record, *rest], [(NAN, NAN, NAN), *rest]
                else:
                    for other in HOSTILE:
                        yield [record, *rest], [other, *rest]


# ---- privacy -----------------------------------------------------------------------


def moves_too_far(model, relation, monkeypatch):
    """Return the first neighbors whose sums differ by more than an event states."""
    events, found = events_of(model), {}
    for pair in neighbors(relation):
        for records in map(tuple, pair):
            if repr(records) not in found:
                found[repr(records)] = sums_of(model, records, monkeypatch)
        one, two = (found[repr(tuple(records))] for records in pair)
        assert len(one) == len(two) == len(events)
        for event, a, b in zip(events, one, two, strict=True):
            if not within(event, [p - q for p, q in zip(a, b, strict=True)]):
                return pair
    return None


@pytest.mark.parametrize("relation", list(NeighboringRelation), ids=lambda r: r.name)
@pytest.mark.parametrize("budget", BUDGETS[:2], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_no_neighbor_moves_a_sum_further_than_the_event_says(
    name, budget, relation, monkeypatch
):
    model = made(name, relation, **budget)
    assert moves_too_far(model, relation, monkeypatch) is None


def test_rows_that_know_other_records_are_found(monkeypatch):
    class Shared(LinearRegression):
        def _entered(self, X, *, fitted=False):  # noqa: N803
            x = super()._entered(X, fitted=fitted)
            return x / max(len(x), 1)

    model = Shared(
        y_bounds=(-2, 2), neighboring_relation="add_or_remove_one", epsilon=1, **PUBLIC
    )
    assert moves_too_far(model, ADDED, monkeypatch) is not None


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_summed_is_the_sum_of_each_record_alone(name, budget, monkeypatch):
    model = made(name, **budget)
    alone = [sums_of(model, [record], monkeypatch) for record in HOSTILE]
    for order in (HOSTILE * 3, HOSTILE[::-1] * 3):
        together = sums_of(model, order, monkeypatch)
        for i, total in enumerate(together):
            parts = np.array([one[i] for one in alone], object)
            assert total == (3 * parts.sum(axis=0)).tolist()


@pytest.mark.parametrize("name", MODELS)
def test_a_row_is_the_same_bits_at_each_place(name, monkeypatch):
    """Vector instructions must round a record in one way, in the tail as well."""
    seen = []

    def release(fitting, i, rows, labels=None):
        seen.append(rows if labels is None else np.column_stack([rows, labels]))
        return np.random.default_rng(i).normal(size=fitting.mechanisms[i].shape) * 9

    monkeypatch.setattr(_base.Fitting, "release", release)
    rng = np.random.default_rng(9)
    records = rng.uniform(-1.2, 1.2, (67, 3))
    records[:, 2] = rng.choice([-1.7, 0, 2], 67)
    model = made(name)
    for record in records:
        fitted(model, [record])
    releases = len(seen) // len(records)
    alone = [np.concatenate(seen[i::releases]) for i in range(releases)]
    for n in range(1, 68, 5):
        seen.clear()
        fitted(model, records[:n])
        for rows, own in zip(seen, alone, strict=True):
            assert rows.tobytes() == own[:n].tobytes()


@pytest.mark.parametrize("relation", list(NeighboringRelation), ids=lambda r: r.name)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_the_noise_is_that_of_the_event_and_the_budget_covers_it(
    name, budget, relation
):
    model = made(name, relation, **budget)
    for m, event in zip(model._mechanisms(2), events_of(model), strict=True):
        assert m.event() == event == _base._law(m).event()
    accountant = accounting.PLDAccountant().compose(model.event(2))
    if "rho" in budget:
        spent = accounting.ZCDPAccountant().compose(model.event(2)).rho
        assert 0.999 * budget["rho"] <= spent <= budget["rho"]
    else:
        epsilon = accountant.epsilon(budget.get("delta", 0))
        assert 0.98 * budget["epsilon"] <= epsilon <= budget["epsilon"]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("name", ["line", "axes"])
def test_a_release_is_that_of_the_clipped_sum(name, budget):
    model = made(name, **budget)
    (m,) = model._mechanisms(2)
    rows = np.random.default_rng(1).uniform(-1, 1, (9, m.shape[0]))
    fitting = model._fitting(2, None, None, None, FixedStream("7"))
    assert (fitting.release(0, rows) == m.release(rows, stream=FixedStream("7"))).all()


# ---- hostile records ---------------------------------------------------------------


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_no_record_raises_and_models_are_finite(name, budget, recwarn):
    many = [HOSTILE, [], *([record] for record in HOSTILE), [HOSTILE[2]] * 50]
    needed = 2 if name == "clusters" else 3
    for records in many:
        model = fitted(made(name, **budget), records)
        learned = [x for key, x in vars(model).items() if key.endswith("_")]
        assert len(learned) >= needed
        assert all(np.isfinite(x).all() for x in learned)
    assert not recwarn.list


@pytest.mark.parametrize("name", MODELS)
def test_kinds_of_tables_are_one(name):
    pandas = pytest.importorskip("pandas")
    x = np.array([[1.0, -1], [0, 1], [1, 1]])
    y = [1.0, 0.0, -1.0]
    tables = [x, x.tolist(), x.astype(int), x.astype("f4"), x.astype(object)]
    tables += [pandas.DataFrame(x, columns=["a", "b"])]
    found = []
    for table in tables:
        model = made(name).fit(table, y, stream=FixedStream("5"))
        found.append({k: v for k, v in vars(model).items() if k.endswith("_")})
    assert list(found[-1].pop("feature_names_in_")) == ["a", "b"]
    for other in found[1:]:
        assert other.keys() == found[0].keys()
        assert all(np.array_equal(other[k], found[0][k]) for k in other)


# ---- refusals ----------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_nothing_that_privacy_depends_on_has_a_default(name):
    parameters = inspect.signature(type(made(name))).parameters
    for needed in ("bounds", "unit", "neighboring_relation"):
        assert parameters[needed].default is inspect.Parameter.empty
    for budget in ({}, {"epsilon": 1, "rho": 1}):
        model = made(name).set_params(**{"epsilon": None, **budget})
        with pytest.raises(ParameterError, match="exactly one of epsilon and rho"):
            model.event(2)


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"epsilon": 0}, ParameterError, "epsilon must be finite and > 0"),
        (
            {"epsilon": None, "rho": 1, "delta": 0.1},
            ParameterError,
            "delta must be left out with",
        ),
        ({"delta": 1}, ParameterError, "delta must be > 0 and < 1"),
        ({"bounds": (1, 1)}, ParameterError, "bounds must have low < high"),
        ({"bounds": (0, 5e-324)}, ParameterError, "at least 2..-999 apart"),
        ({"bounds": (0, [1, 1, 1])}, ParameterError, "bounds must have numbers or"),
        ({"bounds": (0, NAN)}, ParameterError, "bounds must be finite"),
        ({"bounds": 1}, DTypeError, "bounds must be a tuple"),
        ({"unit": None}, ParameterError, "unit must be given"),
        ({"unit": fastdp.Unit("a", records=2)}, ParameterError, "bound_contributions"),
        ({"neighboring_relation": "none"}, DTypeError, "neighboring_relation"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", MODELS)
def test_bad_parameters_are_refused_before_anything_is_drawn(name, wrong, error, match):
    model = made(name).set_params(**wrong)
    stream = FixedStream("1")
    with pytest.raises(error, match=match):
        fitted(model, HOSTILE, stream=stream)
    m = fastdp.DiscreteLaplace(scale=1000)
    assert m.release(0, stream=stream) == m.release(0, stream=FixedStream("1"))


@pytest.mark.parametrize("name", MODELS)
def test_bad_shapes_are_refused(name):
    model = made(name)
    for wrong in (np.zeros(3), np.zeros((3, 0)), np.zeros((2, 2, 2))):
        with pytest.raises(ParameterError, match="X must have"):
            model.fit(wrong, np.zeros(len(wrong)))
    with pytest.raises(ParameterError, match="features must be given"):
        made(name).event()
    with pytest.raises(ParameterError, match="must be one of the parameters"):
        model.set_params(alpha=1)
    verb = "transform" if "axes" in name else "predict"
    with pytest.raises(ParameterError, match="fit must be called first"):
        getattr(made(name), verb)(np.eye(2))


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_that_fails_changes_nothing(name, monkeypatch):
    model = fitted(made(name), HOSTILE)
    if name == "clusters":
        model.set_params(init=None)
    before = {**vars(model)}

    def fail(*_, **__):
        raise fastdp.exceptions.EntropyError("no randomness")

    monkeypatch.setattr(_base.Fitting, "draw", fail)
    with pytest.raises(fastdp.exceptions.EntropyError):
        model.fit(np.zeros((9, 5)), np.zeros(9))
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items())


def test_targets_and_components_are_refused():
    for wrong in (np.zeros(3), np.zeros((8, 2)), None):
        with pytest.raises(ParameterError, match=r"\by\b"):
            made("line").fit(np.zeros((8, 2)), wrong)
    for wrong in (0, 3):
        with pytest.raises(ParameterError, match="n_components"):
            fitted(made("axes").set_params(n_components=wrong), HOSTILE)


# ---- ledgers -----------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    with fastdp.ledger.create(tmp_path / "ledger.db") as found:
        pure = accounting.PureFilter(epsilon=2)
        found.add_budget("b", pure, unit="person")
        yield found


@pytest.mark.parametrize("name", MODELS)
def test_a_label_is_one_model_and_one_charge(name, ledger):
    about = {"ledger": ledger, "label": "model", "budgets": "b"}
    person = {"unit": fastdp.Rows("person")}
    first = fitted(made(name).set_params(**person), HOSTILE, **about)
    again = fitted(made(name).set_params(**person), HOSTILE, **about)
    for key, value in vars(first).items():
        assert np.array_equal(value, getattr(again, key)), key
    charged = [label.event for label in ledger.labels()]
    assert sorted(map(repr, charged)) == sorted(map(repr, events_of(first)))
    with pytest.raises(LabelConflictError):
        fitted(made(name).set_params(**person, bounds=(-1, 2)), HOSTILE, **about)
    about["label"] = "second"
    fitted(made(name).set_params(**person), HOSTILE, **about)
    about["label"] = "third"
    with pytest.raises(BudgetExceededError):
        fitted(made(name).set_params(**person), HOSTILE, **about)
    assert not any("third" in label.label for label in ledger.labels())


def test_a_budget_of_another_unit_refuses(ledger):
    about = {"ledger": ledger, "label": "model", "budgets": "b"}
    with pytest.raises(fastdp.exceptions.UnitMismatchError):
        fitted(made("line"), HOSTILE, **about)
    with pytest.raises(ParameterError, match="label and budgets must be given"):
        fitted(made("line"), HOSTILE, ledger=ledger)
