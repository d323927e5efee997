"""Selections as a caller sees them: shapes, what counts as what, refusals, events."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.accounting import NeighboringRelation
from fastdp.accounting.events import (
    ExponentialMechanismEvent,
    PermuteAndFlipEvent,
    SelfComposedEvent,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.testing import FixedStream

SURE = 10**6  # an epsilon that leaves no doubt
RULES = [
    fastdp.ExponentialMechanism(SURE, sensitivity=1),
    fastdp.PermuteAndFlip(SURE, sensitivity=1),
    *(
        fastdp.ReportNoisyMax(SURE, sensitivity=1, noise=noise)  # type: ignore[arg-type]
        for noise in ("exponential", "laplace", "gumbel")
    ),
]
METHODS = ("auto", "inverse", "gumbel")


# --- shapes and types -----------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_one_set_gives_a_scalar_and_a_matrix_an_array(rule: Any) -> None:
    scores = np.array([[1.0, 3.0, 2.0], [9.0, 0.0, -1.0]])
    one = rule.select(scores[0])
    assert type(one) is np.int64
    assert one == 1
    assert rule.select(scores).tolist() == [1, 0]
    assert rule.select(scores, axis=0).tolist() == [1, 0, 0]
    assert rule.select(scores, axis=-2).dtype == np.int64
    cube = np.arange(24).reshape(2, 3, 4)
    assert rule.select(cube, axis=1).shape == (2, 4)
    assert (rule.select(cube, axis=1) == 2).all()
    assert rule.select(np.zeros((0, 3))).shape == (0,)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u2", ">f8", ">i4", "i1"])
def test_every_type_of_scores(rule: Any, dtype: str) -> None:
    scores = np.array([5, 100, 7, 9], dtype)
    assert rule.select(scores) == 1
    assert rule.select(scores[::-1]) == 2
    assert rule.select(np.stack([scores, scores])[:, ::2]).tolist() == [1, 1]


@pytest.mark.parametrize("method", METHODS)
def test_k_choices_come_best_first(method: Any) -> None:
    rule = RULES[0]
    scores = np.random.default_rng(0).permutation(40.0 * np.arange(700))
    order = np.argsort(-scores)
    for k in (2, 10, 699, 700):
        assert (rule.select(scores, k=k, method=method) == order[:k]).all()
    rows = np.stack([scores[:9], -scores[:9]])
    got = rule.select(rows, k=9, method=method)
    assert (got == np.argsort(-rows, 1)).all()
    assert rule.select(rows.T, axis=0, k=3, method=method).shape == (2, 3)


@pytest.mark.parametrize("method", METHODS)
def test_choices_without_replacement_differ(method: Any) -> None:
    rule = fastdp.ExponentialMechanism(1, sensitivity=1)
    for n in (1, 5, 600):
        chosen = rule.select(np.zeros(n), k=n, method=method)
        assert sorted(np.atleast_1d(chosen).tolist()) == list(range(n))


def test_integers_count_at_their_exact_value() -> None:
    """Doubles would see no difference."""
    big = 2**62
    scores = np.array([big, big + 1, big - 1])
    for rule in (
        fastdp.ExponentialMechanism(200, sensitivity=1),
        fastdp.PermuteAndFlip(200, sensitivity=1),
    ):
        assert rule.select(scores) == 1
    least = np.array([-(2**63), 2**63 - 1, 0])
    assert fastdp.PermuteAndFlip(1, sensitivity=1).select(least) == 1


# --- what scores count as ---------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_lost_scores_are_not_chosen_and_infinite_ones_are(rule: Any) -> None:
    nan, inf = np.nan, np.inf
    assert rule.select(np.array([nan, -1e308, -inf])) == 1
    assert rule.select(np.array([1e308, inf, nan])) == 1
    assert rule.select(np.array([[nan, 0.0], [0.0, -inf]])).tolist() == [1, 0]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_the_choice_is_uniform_without_any_weight(rule: Any) -> None:
    rows = np.full((3000, 3), np.nan)
    rows[::2] = -np.inf
    counts = np.bincount(rule.select(rows), minlength=3)
    assert (counts > 800).all()


def test_two_infinite_scores_are_equal() -> None:
    rule = fastdp.ExponentialMechanism(1, sensitivity=1)
    rows = np.tile([np.inf, np.finfo(float).max, 0.0], (2000, 1))
    counts = np.bincount(rule.select(rows), minlength=3)
    assert counts[2] == 0
    assert (counts[:2] > 800).all()


@pytest.mark.parametrize("method", METHODS)
def test_lost_candidates_come_last_among_k(method: Any) -> None:
    rule = fastdp.ExponentialMechanism(1, sensitivity=1)
    scores = np.array([np.nan, 1.0, -np.inf, 2.0, np.nan])
    seen = {tuple(rule.select(scores, k=5, method=method).tolist()) for _ in range(200)}
    assert {frozenset(order[:2]) for order in seen} == {frozenset({1, 3})}
    assert len({order[2:] for order in seen}) == 6


# --- weights ----------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "weights",
    [
        [0, Fraction(1, 3), 0.0],
        np.array([0.0, 5e-324, 0.0]),
        np.array([0, 2**62, 0]),
        [[0, 10**300, 0]],
    ],
    ids=repr,
)
def test_weight_zero_is_never_chosen(weights: Any, method: Any) -> None:
    rule = fastdp.ExponentialMechanism(1, sensitivity=1)
    scores = np.zeros((50, 3))
    got = rule.select(scores, weights=weights, method=method)
    assert (got == 1).all()


@pytest.mark.parametrize("method", METHODS)
def test_weights_and_scores_make_up_for_each_other(method: Any) -> None:
    """Weights e^-700 and less, beyond what doubles hold next to scores."""
    rule = fastdp.ExponentialMechanism(2, sensitivity=1)  # c = 1
    scores = np.tile([0.0, 1400.0], (4000, 1))
    weights = [1, Fraction(1, 2**2019)]  # e^1400 = 2^2019.77
    counts = np.bincount(rule.select(scores, weights=weights, method=method))
    share = 2**0.77 / (1 + 2**0.77)
    assert abs(counts[1] / 4000 - share) < 0.05


@pytest.mark.parametrize("n", [1, 7, 8, 9, 33])
def test_the_range_of_weights_is_found_and_bad_ones_are_seen(n: int) -> None:
    rng = np.random.default_rng(n)
    weights = np.ldexp(rng.uniform(0.5, 1, n), rng.integers(-1080, 1024, n))
    weights[rng.uniform(size=n) < 0.3] = 0.0
    weights[rng.uniform(size=n) < 0.1] = -0.0
    places = [math.frexp(w)[1] for w in weights.tolist() if w]
    top = max(places, default=0)
    spread = 1.0 + top - min(places, default=0)
    assert _core.weights_range(weights) == (top, spread)
    for bad in (-5e-324, -1.0, math.nan, -math.nan, math.inf, -math.inf):
        for place in {0, n // 2, n - 1}:
            wrong = weights.copy()
            wrong[place] = bad
            assert _core.weights_range(wrong) is None


def test_one_choice_goes_the_short_way_with_weights_as_well() -> None:
    rule = fastdp.ExponentialMechanism(2, sensitivity=1)
    rng = np.random.default_rng(4)
    scores, weights = rng.normal(0, 3, 700), rng.uniform(0, 1, 700)
    rows = rule.select(scores.reshape(1, -1), weights=weights, stream=FixedStream("w"))
    one = rule.select(scores, weights=weights, stream=FixedStream("w"))
    assert one == rows[0]


def test_weights_of_a_matrix_and_along_an_axis() -> None:
    rule = fastdp.ExponentialMechanism(1, sensitivity=1)
    weights = np.array([[1, 0, 0], [0, 0, 1]])
    assert rule.select(np.zeros((2, 3)), weights=weights).tolist() == [0, 2]
    assert rule.select(np.zeros((3, 2)), weights=weights.T, axis=0).tolist() == [0, 2]
    assert rule.select(np.zeros((2, 1)), weights=5).tolist() == [0, 0]
    assert rule.select(np.zeros((2, 3)), weights=[[0], [5]]).shape == (2,)
    cube = np.zeros((2, 3, 4))
    assert (rule.select(cube, weights=[[0], [1], [0]], axis=1) == 1).all()
    assert (rule.select(cube, weights=[0, 0, 0, 7]) == 3).all()
    column = [[1], [0], [0]]
    assert rule.select(np.zeros((3, 2)), weights=column, axis=0).tolist() == [0, 0]


# --- pieces -------------------------------------------------------------------------


def test_pieces_of_any_type_and_size() -> None:
    rule = RULES[0]
    pieces = [
        np.array([1.0, 2.0]),
        np.zeros(0),
        np.array([10**6], np.int32),
        np.array([np.nan, np.inf, 3.0]),
        np.full(5000, 7, np.float32),
    ]
    assert rule.select_stream(iter(pieces)) == 4
    assert rule.select_stream([np.array([np.nan]), np.array([-5.0])]) == 1
    assert rule.select_stream([np.array([-5.0]), np.array([np.nan])]) == 0
    for bad in ([[1.0, "2"]], [np.zeros((2, 2))], [np.zeros(3), 5]):
        with pytest.raises(DTypeError, match="chunks"):
            rule.select_stream(bad)
    for none in ([], [np.zeros(0)]):
        with pytest.raises(ParameterError, match="at least one candidate"):
            rule.select_stream(none)


# --- refusals -----------------------------------------------------------------------


@pytest.mark.parametrize("rule", [*RULES, None], ids=repr)
@pytest.mark.parametrize(
    ("scores", "error"),
    [
        ([1.0, "2"], DTypeError),
        (np.array([1, 2], object), DTypeError),
        (np.array([True, False]), DTypeError),
        (np.array([1, 2], np.uint64), DTypeError),
        (np.array([1, 2], complex), DTypeError),
        (np.array(["a"]), DTypeError),
        (np.ma.masked_array([1.0, 2.0]), DTypeError),
        (np.array(3.0), ParameterError),
        (np.zeros((4, 0)), ParameterError),
        (np.zeros(0), ParameterError),
    ],
)
def test_scores_that_are_no_scores(rule: Any, scores: Any, error: type) -> None:
    with pytest.raises(error, match=r"scores|counts"):
        rule.select(scores) if rule else fastdp.noisy_argmax(scores, sigma=1)


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"k": 0}, ParameterError, "k"),
        ({"k": 4}, ParameterError, "k"),
        ({"k": True}, DTypeError, "k"),
        ({"k": 1.0}, DTypeError, "k"),
        ({"axis": 1}, ParameterError, "axis"),
        ({"axis": 0.0}, DTypeError, "axis"),
        ({"method": "fast"}, ParameterError, "method"),
        ({"workers": 0}, ParameterError, "workers"),
        ({"stream": 7}, DTypeError, "stream"),
        ({"weights": [1, -1, 1]}, ParameterError, "weights"),
        ({"weights": np.array([1, -1, 1])}, ParameterError, "weights"),
        ({"weights": np.array([1, np.nan, 1])}, ParameterError, "weights"),
        ({"weights": np.array([1, np.inf, 1])}, ParameterError, "weights"),
        ({"weights": [1, float("nan"), 1]}, ParameterError, "weights"),
        ({"weights": [1, "a", 1]}, DTypeError, "weights"),
        ({"weights": [1, 2]}, ParameterError, "weights"),
        ({"weights": np.array([1, 2, 3], bool)}, DTypeError, "weights"),
        ({"weights": np.ma.array([1, 2, 3], mask=[0, 1, 0])}, DTypeError, "filled"),
        ({"weights": np.ma.array([0.5, 2, 3])}, DTypeError, "weights"),
    ],
    ids=repr,
)
def test_refusals_name_the_argument(
    arguments: dict[str, Any], error: type, name: str
) -> None:
    rule = fastdp.ExponentialMechanism(1, sensitivity=1)
    with pytest.raises(error, match=name):
        rule.select(np.zeros(3), **arguments)


def test_many_choices_by_inversion_are_refused() -> None:
    rule = fastdp.ExponentialMechanism(1, sensitivity=1)
    with pytest.raises(ParameterError, match="k must be <= 4096"):
        rule.select(np.zeros(5000), k=4097, method="inverse")
    assert rule.select(np.zeros(5000), k=4097).size == 4097


@pytest.mark.parametrize(
    "kind", [fastdp.ExponentialMechanism, fastdp.PermuteAndFlip, fastdp.ReportNoisyMax]
)
@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "1", True, None])
def test_parameters_out_of_their_domain(kind: Any, bad: Any) -> None:
    for arguments in ((bad, 1), (1, bad)):
        with pytest.raises((ParameterError, DTypeError), match=r"epsilon|sensitivity"):
            kind(arguments[0], sensitivity=arguments[1])
    with pytest.raises(DTypeError, match="monotonic"):
        kind(1, sensitivity=1, monotonic=1)
    with pytest.raises(ParameterError, match="epsilon / sensitivity"):
        kind(Fraction(1, 2**1000), sensitivity=1)


def test_an_unknown_noise_is_refused() -> None:
    with pytest.raises(ParameterError, match="noise must be"):
        fastdp.ReportNoisyMax(1, sensitivity=1, noise="gaussian")  # type: ignore[arg-type]


def test_no_score_shows_in_a_message() -> None:
    secret = np.array([[1234567.25, 7654321.5]])
    rule = fastdp.ExponentialMechanism(1, sensitivity=1)
    for arguments in (
        {"k": 3},
        {"axis": 9},
        {"weights": [1, 2, 3]},
        {"method": "x"},
        {"stream": 1},
    ):
        with pytest.raises((ParameterError, DTypeError)) as caught:
            rule.select(secret, **arguments)
        assert "1234567" not in str(caught.value)
        assert "7654321" not in str(caught.value)


# --- noisy argmax, and the functions of random ------------------------------------


def test_noisy_argmax() -> None:
    votes = np.array([[3, 240, 90], [900, 1, 0]])
    for noise in ({"sigma": 2}, {"scale": Fraction(1, 2)}):
        assert fastdp.noisy_argmax(votes, **noise).tolist() == [1, 0]
        assert fastdp.noisy_argmax(votes, axis=0, **noise).tolist() == [1, 0, 0]
        assert type(fastdp.noisy_argmax(votes[0], **noise)) is np.int64
    for wrong in ({}, {"sigma": 1, "scale": 1}, {"sigma": 0}, {"scale": -1}):
        with pytest.raises(ParameterError, match=r"sigma|scale"):
            fastdp.noisy_argmax(votes, **wrong)


def test_gumbel_argmax_and_exponential_race() -> None:
    draw = fastdp.random
    assert draw.gumbel_argmax(np.array([0.0, 50.0]), scale=Fraction(1, 100)) == 1
    assert draw.gumbel_argmax(np.zeros((4, 3)), axis=0).shape == (3,)
    assert draw.exponential_race([[0, 1], [Fraction(1, 7), 0]]).tolist() == [1, 0]
    counts = np.bincount(draw.exponential_race(np.tile([1.0, 3.0], (4000, 1))))
    assert abs(counts[1] / 4000 - 0.75) < 0.05
    for bad in ([1, -1], [1, float("inf")], []):
        with pytest.raises(ParameterError, match="weights"):
            draw.exponential_race(bad)
    with pytest.raises(ParameterError, match="scale"):
        draw.gumbel_argmax(np.zeros(2), scale=0)


def test_methods_of_one_race_agree() -> None:
    """The same keys behind gumbel_argmax, the Gumbel method and noisy max."""
    scores = np.random.default_rng(3).normal(0, 2, (50, 7))
    one = fastdp.ExponentialMechanism(2, sensitivity=1).select(
        scores, method="gumbel", stream=FixedStream("r")
    )
    two = fastdp.ReportNoisyMax(2, sensitivity=1, noise="gumbel").select(
        scores, stream=FixedStream("r")
    )
    three = fastdp.random.gumbel_argmax(scores, stream=FixedStream("r"))
    assert one.tolist() == two.tolist() == three.tolist()


# --- identity and events ----------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_rules_are_immutable_values(rule: Any) -> None:
    again = pickle.loads(pickle.dumps(rule))
    assert again == rule
    assert hash(again) == hash(rule)
    assert repr(rule).startswith(f"{type(rule).__name__}(epsilon=1000000, sens")
    with pytest.raises(AttributeError, match="immutable"):
        rule.anything = 1
    assert rule.sensitivity == 1
    assert not rule.monotonic


def test_parameters_make_the_rate() -> None:
    assert fastdp.ExponentialMechanism(1, sensitivity=3)._rate == Fraction(1, 6)
    assert fastdp.ExponentialMechanism(
        1, sensitivity=3, monotonic=True
    )._rate == Fraction(1, 3)
    assert fastdp.ExponentialMechanism(0.1, sensitivity=1)._rate == Fraction(0.1) / 2


def test_events() -> None:
    epsilon = Fraction(1, 2)
    rules = {
        fastdp.ExponentialMechanism(0.5, sensitivity=2): ExponentialMechanismEvent,
        fastdp.PermuteAndFlip(0.5, sensitivity=2): PermuteAndFlipEvent,
        fastdp.ReportNoisyMax(0.5, sensitivity=2): PermuteAndFlipEvent,
        fastdp.ReportNoisyMax(
            0.5, sensitivity=2, noise="gumbel"
        ): ExponentialMechanismEvent,
        fastdp.ReportNoisyMax(0.5, sensitivity=2, noise="laplace"): PermuteAndFlipEvent,
    }
    for rule, event in rules.items():
        assert rule.event() == event(epsilon)
        assert rule.event(rows=7) == SelfComposedEvent(event(epsilon), 7)
        replace = NeighboringRelation.REPLACE_ONE
        made = dict(rule._arguments) | {"neighboring_relation": replace}
        assert type(rule)(**made).event() == event(
            epsilon, neighboring_relation=replace
        )
        assert rule.epsilon() == 0.5
    many = fastdp.ExponentialMechanism(0.5, sensitivity=2).event(k=3, rows=4)
    assert many == SelfComposedEvent(ExponentialMechanismEvent(epsilon), 12)
    for bad in ({"k": 0}, {"rows": 0}, {"k": 1.5}):
        with pytest.raises((ParameterError, DTypeError), match=r"k|rows"):
            fastdp.ExponentialMechanism(1, sensitivity=1).event(**bad)


def test_monotonic_holds_for_adding_or_removing_only() -> None:
    replace = NeighboringRelation.REPLACE_ONE
    for kind in (fastdp.ExponentialMechanism, fastdp.PermuteAndFlip):
        rule = kind(1, sensitivity=1, monotonic=True)
        assert rule.monotonic
        assert (
            rule.event().neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE
        )
        with pytest.raises(ParameterError, match="neighboring_relation"):
            kind(1, sensitivity=1, monotonic=True, neighboring_relation=replace)


def test_concentrated_privacy_is_that_of_each_law() -> None:
    """epsilon^2/8 for bounded range alone."""
    assert fastdp.ExponentialMechanism(1, sensitivity=1).rho() == 0.125
    assert fastdp.ReportNoisyMax(1, sensitivity=1, noise="gumbel").rho() == 0.125
    for rule in (
        fastdp.PermuteAndFlip(1, sensitivity=1),
        fastdp.ReportNoisyMax(1, sensitivity=1),
        fastdp.ReportNoisyMax(1, sensitivity=1, noise="laplace"),
    ):
        assert math.exp(-1) <= rule.rho() <= math.exp(-1) * (1 + 1e-15)


# ---- the law of given scores ---------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ([0.0, 1.0], [1 / (1 + math.e), math.e / (1 + math.e)]),
        ([math.nan, 3.0, -math.inf], [0, 1, 0]),
        ([math.nan, -math.inf], [0.5, 0.5]),
        ([math.inf, 1.7976931348623157e308], [0.5, 0.5]),
        ([-1e308, 1e308], [0, 1]),
    ],
)
def test_the_probabilities_of_given_scores(scores, wanted):
    m = fastdp.ExponentialMechanism(2, sensitivity=1)
    found = m.pmf(np.array(scores))
    assert found == pytest.approx(wanted)
    both = np.array([scores, scores])
    assert m.pmf(both) == pytest.approx(np.array([wanted, wanted]))
    assert m.pmf(both.T, axis=0) == pytest.approx(np.array([wanted, wanted]).T)
    assert fastdp.ExponentialMechanism(1, sensitivity=1, monotonic=True).pmf(
        np.array(scores)
    ) == pytest.approx(wanted)


def test_choices_have_these_probabilities():
    with pytest.warns(fastdp.exceptions.InsecureStreamWarning):
        stream = FixedStream("pmf")
    m = fastdp.ExponentialMechanism(1, sensitivity=1)
    scores = np.tile(np.arange(4), (20_000, 1))
    share = np.bincount(m.select(scores, stream=stream), minlength=4) / 20_000
    law = m.pmf(np.arange(4))
    assert np.abs(share - law).max() < 5 * 0.5 / math.sqrt(20_000)
