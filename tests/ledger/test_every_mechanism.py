"""Each mechanism's answer is stored and read back, or refused before the charge."""

import inspect

import numpy as np
import pytest

import fastdp
from fastdp import accounting, ledger
from fastdp.exceptions import DTypeError, ParameterError

BOTH = {"epsilon": 1, "delta": 1e-6}
INTEGERS = np.array([3, 3, 3, 5])
REALS = np.array([0.25, 0.5, np.nan])
LABELS = np.array([0, 3, 1], np.uint16)


def oracle(name):
    return (getattr(fastdp, name).from_epsilon(1, categories=4), LABELS)


RELEASED = {
    "ClippedSum": (
        fastdp.ClippedSum.from_rho(1, radius=1, dimension=2),
        np.ones((3, 2)),
    ),
    "CountMeanSketch": (fastdp.CountMeanSketch.from_epsilon(1), LABELS),
    "DiscreteGaussian": (fastdp.DiscreteGaussian(3, sensitivity=1), INTEGERS),
    "DiscreteLaplace": (fastdp.DiscreteLaplace(3, sensitivity=1), INTEGERS),
    "Gaussian": (fastdp.Gaussian.from_rho(1, sensitivity=1, coordinates=1), REALS),
    "HadamardResponse": oracle("HadamardResponse"),
    "Laplace": (fastdp.Laplace.from_epsilon(1, sensitivity=1, coordinates=1), REALS),
    "LocalHashing": oracle("LocalHashing"),
    "LocalMean": (fastdp.LocalMean.from_epsilon(1, bounds=(0, 1)), REALS),
    "PrefixHunt": (fastdp.PrefixHunt.from_epsilon(2, bits=8), LABELS),
    "Quantiles": (fastdp.Quantiles([0.5], bounds=(0, 1), epsilon=1), REALS),
    "RandomizedResponse": oracle("RandomizedResponse"),
    "ShuffledResponse": (
        fastdp.ShuffledResponse(0.9, clients=3, categories=4),
        LABELS,
    ),
    "SinhNormal": (
        fastdp.SinhNormal(5, shape=50, sensitivity=1, entries=1),
        INTEGERS,
    ),
    "SubsetSelection": oracle("SubsetSelection"),
    "TruncatedLaplace": (
        fastdp.TruncatedLaplace.from_epsilon_delta(**BOTH, sensitivity=1),
        INTEGERS,
    ),
    "UnaryEncoding": oracle("UnaryEncoding"),
    "VectorResponse": (
        fastdp.VectorResponse.from_epsilon(1, dimension=2),
        np.ones((3, 2)),
    ),
}
#: What returns no array; what decides that is the mechanism, never its outcome.
REFUSED = {
    "HierarchicalHistogram": (
        fastdp.HierarchicalHistogram.from_epsilon(1, leaves=4),
        INTEGERS,
    ),
    "Moments": (fastdp.Moments.from_epsilon(1, bounds=(0, 1)), REALS),
    "ProposeTestRelease": (fastdp.ProposeTestRelease(**BOTH, mechanism=None), INTEGERS),
    "SmoothSensitivity": (
        fastdp.SmoothSensitivity.from_epsilon(1, largest=1),
        REALS,
    ),
    "StableMode": (fastdp.StableMode(**BOTH), INTEGERS),
    "SubsampleAggregate": (
        fastdp.SubsampleAggregate(blocks=2, bounds=(0, 1), epsilon=1, aggregate="mean"),
        REALS,
    ),
    "UnknownHistogram": (
        fastdp.UnknownHistogram.from_epsilon_delta(**BOTH, keys_per_user=1),
        INTEGERS,
    ),
}
SELECTED = {
    "ExponentialMechanism": fastdp.ExponentialMechanism(1, sensitivity=1),
    "KeySelection": fastdp.KeySelection.from_epsilon_delta(**BOTH, keys_per_user=1),
    "PermuteAndFlip": fastdp.PermuteAndFlip(1, sensitivity=1),
    "ReportNoisyMax": fastdp.ReportNoisyMax(1, sensitivity=1),
    "UnknownHistogram": REFUSED["UnknownHistogram"][0],
}


def with_method(name):
    listed = [getattr(fastdp.mechanisms, each) for each in fastdp.mechanisms.__all__]
    return {each.__name__ for each in listed if inspect.isclass(each)} & {
        each.__name__ for each in listed if hasattr(each, name)
    }


@pytest.fixture
def book(tmp_path):
    with ledger.create(tmp_path / "budget.db") as made:
        yield made


def budget_for(book, mechanism):
    """Make a budget that prices a mechanism, and return its name."""
    event = mechanism.event()
    relation = event.neighboring_relation
    if "Gaussian" in type(mechanism).__name__ or "Clipped" in type(mechanism).__name__:
        rule = accounting.ZCDPFilter(99, neighboring_relation=relation)
    elif isinstance(event, (accounting.TCDPEvent, accounting.TradeOffEvent)):
        kind = accounting.RDPAccountant, accounting.PLDAccountant
        chosen = kind[isinstance(event, accounting.TradeOffEvent)]
        rule = accounting.DeclaredFilter(event, epsilon=9, delta=0.1, accountant=chosen)
    else:
        rule = accounting.ApproximateFilter(
            epsilon=99, delta=0.1, neighboring_relation=relation
        )
    return book.add_budget("all", rule, unit="person").name


def is_same(one, other):
    return (
        type(one) is type(other)
        and one.dtype == other.dtype
        and one.shape == other.shape
        and one.tobytes() == other.tobytes()
    )


def test_every_mechanism_is_here():
    assert with_method("release") == RELEASED.keys() | REFUSED.keys()
    assert with_method("select") == SELECTED.keys()


@pytest.mark.parametrize("name", RELEASED)
def test_what_release_returns_is_stored(book, name):
    mechanism, x = RELEASED[name]
    budget = budget_for(book, mechanism)
    first, again = (
        book.release(mechanism, x, label="a", budgets=budget) for _ in range(2)
    )
    direct = mechanism.release(x)
    assert (first.replayed, again.replayed) == (False, True)
    assert is_same(first.value, again.value)
    assert type(first.value) is type(direct)
    assert (first.value.dtype, first.value.shape) == (direct.dtype, direct.shape)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("size", [0, 1, None])
def test_what_cannot_be_stored_is_refused_before_the_charge(book, name, size):
    mechanism, x = REFUSED[name]
    budget_for(book, mechanism)
    with pytest.raises(DTypeError, match="one array or number from release"):
        book.release(mechanism, x[:size], label="a", budgets="all")
    assert book.audit().labels == 0


@pytest.mark.parametrize("name", SELECTED)
def test_what_select_returns_is_stored(book, name):
    mechanism = SELECTED[name]
    budget = budget_for(book, mechanism)
    first, again = (
        book.select(mechanism, INTEGERS, label="a", budgets=budget) for _ in range(2)
    )
    direct = mechanism.select(INTEGERS)
    assert (first.replayed, again.replayed) == (False, True)
    assert is_same(first.value, again.value)
    assert type(first.value) is type(direct)
    assert (first.value.dtype, first.value.shape) == (direct.dtype, direct.shape)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("KeySelection", {"axis": 0}),
        ("UnknownHistogram", {"axis": 0}),
        ("KeySelection", {"k": 2}),
        ("PermuteAndFlip", {"k": 2}),
        ("ReportNoisyMax", {"k": 2}),
    ],
)
def test_an_option_that_select_does_not_take_is_named(book, name, option):
    (called,) = option
    budget_for(book, SELECTED[name])
    with pytest.raises(ParameterError, match=f"{called} must be left out"):
        book.select(SELECTED[name], INTEGERS, label="a", budgets="all", **option)
    assert book.audit().labels == 0
