"""Sparse vector: its answers from its bits, its memory, its refusals."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastdp
from fastdp.accounting import NeighboringRelation, PureDPEvent
from fastdp.exceptions import (
    BudgetExceededError,
    CalibrationError,
    DTypeError,
    EntropyError,
    FastDPError,
    ParameterError,
)
from fastdp.testing import FixedStream
from tests.privacy.streams import BrokenStream

REPLACE = NeighboringRelation.REPLACE_ONE
SECRET = 7340193.5


def reference(vector: Any, values: Any, makes: Any, tests: Any) -> list[bool]:
    """Return the answers from the same bits, in integers, by the definition."""
    step = Fraction(vector.granularity)
    threshold = round(Fraction(dict(vector._arguments)["threshold"]) / step)
    scale = Fraction(vector.threshold_scale) / step
    threshold += int(fastdp.random.discrete_laplace(scale, size=1, stream=makes)[0])
    scale = Fraction(vector.query_scale) / step
    noise = fastdp.random.discrete_laplace(
        scale, size=len(values), stream=tests
    ).tolist()
    said: list[bool] = []
    for value, n in zip(values, noise, strict=True):
        x = 0.0 if math.isnan(value) else min(max(float(value), -1e300), 1e300)
        near = min(max(round(Fraction(x) / step), -(2**60)), 2**60)
        said.append(near + n >= threshold)
        if sum(said) == dict(vector._arguments)["answers"]:
            break
    return said


PARAMETERS: list[dict[str, Any]] = [
    {"threshold": 10, "sensitivity": 1, "epsilon": 1},
    {
        "threshold": 10,
        "sensitivity": 1,
        "epsilon": 0.5,
        "answers": 3,
        "monotonic": True,
    },
    {"threshold": -2.5, "epsilon": 3, "sensitivity": 0.01, "answers": 2},
    {"threshold": 1e12, "epsilon": 1, "sensitivity": 100.0, "answers": 5},
    {
        "threshold": Fraction(1, 3),
        "sensitivity": 1,
        "epsilon": 10,
        "granularity": 1,
        "answers": 4,
    },
    {
        "threshold": 0,
        "sensitivity": 1,
        "epsilon": Decimal("0.1"),
        "granularity": 0.25,
        "answers": 9,
    },
    {"threshold": 1e-200, "epsilon": 1, "sensitivity": 1e-200},
    {"threshold": 1e200, "epsilon": 1, "sensitivity": 1e199},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_answers_are_those_of_the_bits(parameters: dict[str, Any]) -> None:
    center = float(parameters["threshold"])
    for run in range(20):
        makes, tests = FixedStream(f"m{run}"), FixedStream(f"t{run}")
        vector = fastdp.SparseVector(**parameters, stream=makes)
        spread = float(vector.query_scale)
        values = center + spread * np.linspace(-3, 2, 41)
        values[3:7] = [np.nan, np.inf, -np.inf, center]
        expected = reference(
            vector, values.tolist(), FixedStream(f"m{run}"), FixedStream(f"t{run}")
        )
        assert vector.test(values, stream=tests).tolist() == expected
        assert vector.remaining == vector._arguments[3][1] - sum(expected)


def test_one_by_one_is_the_same_law_as_an_array() -> None:
    vector = fastdp.SparseVector(100, epsilon=50, answers=2, sensitivity=1)
    found = [vector.test(x) for x in (0, 200.0, np.float32(0), np.int16(300))]
    assert [bool(x) for x in found] == [False, True, False, True]
    assert all(type(x) is np.bool_ for x in found)
    assert vector.spent
    vector = fastdp.SparseVector(100, epsilon=50, answers=2, sensitivity=1)
    assert vector.test(np.array([0, 200, 0, 300, 0])).tolist() == found


@pytest.mark.parametrize(
    "dtype", ["b", "B", "h", "H", "i", "I", "q", "f", "d", ">i4", ">f8"]
)
def test_every_dtype_counts_at_its_value(dtype: str) -> None:
    vector = fastdp.SparseVector(60, epsilon=1000, answers=5, sensitivity=1)
    values = np.array([0, 120, 7, 100, 1], dtype)
    assert vector.test(values).tolist() == [False, True, False, True, False]
    assert vector.test(values[::-1][:2]).tolist() == [False, True]
    assert vector.test(values[1]) == vector.test(int(values[1])) == 1
    assert vector.spent


def test_nothing_and_single_entries() -> None:
    vector = fastdp.SparseVector(5, epsilon=100, sensitivity=1)
    assert vector.test(np.zeros(0)).shape == (0,)
    assert vector.test(np.array(0.0)).shape == ()
    assert vector.test(np.array([0])).shape == (1,)
    assert not vector.spent


# ---- numbers with the answers ----------------------------------------------------


def test_values_come_with_the_answers_above() -> None:
    vector = fastdp.SparseVector(
        100, epsilon=50, answers=3, numeric_epsilon=30, sensitivity=1
    )
    found = vector.answer(np.array([0, 200, 0, 300.5]))
    assert np.isnan(found[[0, 2]]).all()
    assert abs(found[1] - 200) < 30
    assert abs(found[3] - 300.5) < 30
    assert np.isnan(vector.answer(3))
    assert not vector.test(3)
    last = vector.answer(1000)
    assert type(last) is np.float64
    assert abs(last - 1000) < 30
    assert vector.spent
    assert vector.event() == PureDPEvent(80)


def test_noise_of_a_value_is_that_of_its_mechanism() -> None:
    vector = fastdp.SparseVector(
        0,
        epsilon=50,
        sensitivity=2,
        answers=4,
        numeric_epsilon=1,
        stream=FixedStream("m"),
    )
    values = np.array([500.0, -500, 600, 700])
    found = vector.answer(values, stream=FixedStream("a"))
    stream = FixedStream("a")
    stream._next_call()
    laplace = fastdp.Laplace.from_epsilon(Fraction(1, 4), sensitivity=2, coordinates=1)
    expected = laplace.release(values[[0, 2, 3]], stream=stream)
    assert found[[0, 2, 3]].tolist() == expected.tolist()
    assert 4 * laplace.epsilon() == 1


def test_values_are_clamped_as_in_the_comparison() -> None:
    """To 2**60 steps of the grid, infinities with the others."""
    vector = fastdp.SparseVector(
        0,
        epsilon=1000,
        answers=3,
        numeric_epsilon=1000,
        granularity=2**-20,
        sensitivity=1,
    )
    reach = 2.0**40
    shown = vector.answer(np.array([np.inf, -np.inf, 1e300, reach / 2]))
    assert np.isnan(shown[1])
    assert np.abs(shown[[0, 2, 3]] - [reach, reach, reach / 2]).max() < 1


def test_values_need_their_epsilon() -> None:
    vector = fastdp.SparseVector(100, epsilon=1, sensitivity=1)
    with pytest.raises(ParameterError, match="numeric_epsilon must be given"):
        vector.answer(5)


# ---- the budget ------------------------------------------------------------------


def test_a_spent_vector_answers_nothing() -> None:
    vector = fastdp.SparseVector(
        100, epsilon=50, answers=2, numeric_epsilon=1, sensitivity=1
    )
    assert vector.test(np.array([500, 500, 0, 500])).tolist() == [True, True]
    assert vector.spent
    assert vector.remaining == 0
    assert vector._noisy_threshold.tolist() == [0]
    for values in (0, 5000.0, np.zeros(3), np.zeros(0)):
        for ask in (vector.test, vector.answer):
            with pytest.raises(BudgetExceededError, match="given all its answers"):
                ask(values)


def test_below_costs_nothing() -> None:
    vector = fastdp.SparseVector(1000, epsilon=50, answers=1, sensitivity=1)
    for _ in range(50):
        assert not vector.test(np.zeros(100)).any()
    assert vector.remaining == 1


def test_cost_is_that_of_all_answers_and_exact() -> None:
    for epsilon in (1, 0.1, Fraction(1, 3), Decimal("0.7")):
        vector = fastdp.SparseVector(5, epsilon=epsilon, answers=7, sensitivity=1)
        assert vector.event() == PureDPEvent(Fraction(epsilon))
        again = fastdp.SparseVector(
            5,
            epsilon=epsilon,
            numeric_epsilon=Fraction(1, 7),
            sensitivity=1,
            neighboring_relation=REPLACE,
        )
        total = Fraction(epsilon) + Fraction(1, 7)
        found = again.event()
        assert found == PureDPEvent(total, neighboring_relation=REPLACE)
    vector = fastdp.SparseVector(5, epsilon=1, sensitivity=1)
    assert vector.epsilon() == 1.0
    assert 0 < vector.rho() <= 0.5
    assert vector.delta(2) == 0
    vector.test(1e9)
    assert vector.epsilon() == 1.0


@settings(deadline=None, max_examples=60)
@given(
    st.fractions(Fraction(1, 1000), 100),
    st.floats(1e-6, 1e6),
    st.integers(1, 2**20),
    st.booleans(),
)
def test_scales_are_what_the_proof_asks_for(
    epsilon: Fraction, sensitivity: float, answers: int, monotonic: bool
) -> None:
    vector = fastdp.SparseVector(
        3.0,
        epsilon=epsilon,
        sensitivity=sensitivity,
        answers=answers,
        monotonic=monotonic,
    )
    step = Fraction(vector.granularity)
    charged = (int(Fraction(sensitivity) / step) + 1) * step
    assert Fraction(sensitivity) < charged <= Fraction(sensitivity) + step
    factor = answers if monotonic else 2 * answers
    first = charged / Fraction(vector.threshold_scale)
    second = factor * charged / Fraction(vector.query_scale)
    assert first + second == epsilon
    assert second / first == pytest.approx(factor ** (2 / 3), rel=1e-4)
    steps = Fraction(vector.threshold_scale) / step
    assert steps <= 2**40 + 2**20 / epsilon
    assert steps >= 2**39 or 3 / step >= 2**58  # so coarse for the threshold's sake


@settings(deadline=None, max_examples=200)
@given(st.floats(-1e9, 1e9), st.floats(0, 10), st.sampled_from([0.25, 1, 4, 2.0**-30]))
def test_values_move_on_the_grid_as_far_as_charged(
    value: float, move: float, step: float
) -> None:
    from fastdp.mechanisms.choices.sparse_vector import _steps

    other = value + move
    apart = abs(Fraction(other) - Fraction(value))
    found = _steps(np.array([value, other]), step).tolist()
    assert 0 <= found[1] - found[0] <= int(apart / Fraction(step)) + 1


# ---- one of its kind -------------------------------------------------------------


def test_no_copies() -> None:
    vector = fastdp.SparseVector(100, epsilon=1, sensitivity=1)
    for duplicate in (
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        lambda v: pickle.dumps([v], protocol=2),
        lambda v: copy.deepcopy({"a": v}),
        lambda v: v.__getstate__(),
        lambda v: v.__reduce_ex__(4),
    ):
        with pytest.raises(DTypeError, match="cannot be copied or pickled"):
            duplicate(vector)
    with pytest.raises(TypeError):
        vars(vector)


def test_equal_parameters_are_not_the_same_vector() -> None:
    one, other = (
        fastdp.SparseVector(100, epsilon=1, sensitivity=1),
        fastdp.SparseVector(100, epsilon=1, sensitivity=1),
    )
    assert one != other
    assert one == one
    assert len({one, other, one}) == 2
    with pytest.raises(AttributeError):
        one.remaining = 5
    with pytest.raises(AttributeError):
        one._remaining = 5


def test_two_vectors_have_their_own_noise() -> None:
    # Two of 50 are equal with probability below 50**2/2 / (4 * 2**40) = 3e-10.
    noisy = {
        int(fastdp.SparseVector(100, epsilon=1, sensitivity=1)._noisy_threshold[0])
        for _ in range(50)
    }
    assert len(noisy) == 50


def test_repr_shows_public_parameters_alone() -> None:
    for _ in range(20):
        vector = fastdp.SparseVector(
            100,
            epsilon=1,
            answers=3,
            numeric_epsilon=0.5,
            granularity=0.5,
            sensitivity=1,
        )
        vector.test(SECRET)
        assert repr(vector) == (
            "SparseVector(threshold=100, epsilon=1, sensitivity=1, answers=3, "
            "monotonic=False, numeric_epsilon=0.5, granularity=0.5)"
        )
        assert str(vector) == repr(vector)


# ---- refusals --------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], type[FastDPError], str]] = [
    ({"epsilon": 0}, ParameterError, "epsilon must be finite and > 0"),
    ({"epsilon": -1}, ParameterError, "epsilon must"),
    ({"epsilon": math.inf}, ParameterError, "epsilon must be finite"),
    ({"epsilon": "1"}, DTypeError, "epsilon must"),
    ({"epsilon": True}, DTypeError, "epsilon must"),
    ({"threshold": math.nan}, ParameterError, "threshold must be finite"),
    ({"threshold": None}, DTypeError, "threshold must"),
    ({"sensitivity": 0}, ParameterError, "sensitivity must be finite and > 0"),
    ({"sensitivity": math.nan}, ParameterError, "sensitivity must"),
    ({"answers": 0}, ParameterError, "answers must be in"),
    ({"answers": 2**20 + 1}, ParameterError, "answers must be in"),
    ({"answers": 1.0}, DTypeError, "answers must be an int"),
    ({"monotonic": 1}, DTypeError, "monotonic must be a bool"),
    ({"numeric_epsilon": 0}, ParameterError, "numeric_epsilon must be finite and > 0"),
    ({"numeric_epsilon": 1e-310}, CalibrationError, "scale must be in"),
    ({"granularity": 0.3}, ParameterError, "granularity must be a power of two"),
    ({"granularity": 2.0**-60}, ParameterError, "granularity must be at least"),
    ({"granularity": 2.0**-51}, ParameterError, "granularity must give noise"),
    ({"epsilon": 1e9, "granularity": 1}, ParameterError, "granularity must give noise"),
    ({"stream": 7}, DTypeError, "stream must be None"),
]


@pytest.mark.parametrize(("change", "error", "rule"), BAD, ids=str)
def test_bad_parameters_are_refused_by_name(
    change: dict[str, Any], error: type[FastDPError], rule: str
) -> None:
    parameters = {"threshold": 10, "epsilon": 1, "sensitivity": 1, **change}
    with pytest.raises(error, match=rule):
        fastdp.SparseVector(**parameters)


def test_monotonic_is_for_adding_or_removing_alone() -> None:
    vector = fastdp.SparseVector(10, epsilon=1, monotonic=True, sensitivity=1)
    assert vector.event() == PureDPEvent(1)
    with pytest.raises(ParameterError, match="must be ADD_OR_REMOVE_ONE with mono"):
        fastdp.SparseVector(
            10,
            epsilon=1,
            monotonic=True,
            sensitivity=1,
            neighboring_relation=REPLACE,
        )


CALLS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda v: v.test([[SECRET]]), "values must be a list of numbers, one-dim"),
    (lambda v: v.test([str(SECRET)]), "values must be a list of numbers"),
    (lambda v: v.test(str(SECRET)), "values must be"),
    (lambda v: v.test(None), "values must be"),
    (lambda v: v.test(True), "values must be"),
    (lambda v: v.test(np.uint64(7340193)), "values must be"),
    (lambda v: v.test(np.array([7340193], np.uint64)), "values must be"),
    (lambda v: v.test(np.array([SECRET], object)), "values must be"),
    (lambda v: v.test(np.array([SECRET + 1j])), "values must be"),
    (lambda v: v.test(np.ma.array([SECRET])), "values must be"),
    (lambda v: v.test(np.full((2, 2), SECRET)), "values must have at most one dim"),
    (lambda v: v.test(SECRET, stream=np.random.default_rng()), "stream must be None"),
]


@pytest.mark.parametrize(("call", "rule"), CALLS)
def test_bad_queries_are_refused_and_not_shown(call: Any, rule: str) -> None:
    vector = fastdp.SparseVector(10, epsilon=1, sensitivity=1)
    with pytest.raises(FastDPError, match=rule) as caught:
        call(vector)
    assert "7340193" not in f"{caught.value!r} {caught.value} {caught.value.args}"
    assert vector.remaining == 1


def test_values_never_raise() -> None:
    vector = fastdp.SparseVector(
        10, epsilon=1, answers=2**20, numeric_epsilon=1, sensitivity=1
    )
    values = np.array([np.nan, np.inf, -np.inf, 1.8e308 - 0, 5e-324, -0.0, SECRET])
    payload = np.array([0x7FF0000000000001, 0xFFF8000000000001], np.uint64)
    narrow = np.array([0x7F800001, 0xFFC00000], np.uint32).view(np.float32)
    with np.errstate(all="raise"):
        for data in (values, payload.view(float), narrow):
            vector.test(data)
            vector.answer(data)
            for value in data:
                vector.test(value)
                vector.test(float(value) if value == value else math.nan)
        for whole in (10**400, -(10**400), 2**63, np.int64(-(2**63))):
            vector.test(whole)
        assert vector.test(10**400)
        assert not vector.test(-(10**400))


# ---- failures --------------------------------------------------------------------


def test_without_entropy_nothing_is_made_or_answered() -> None:
    broken = BrokenStream(EntropyError("the operating system gave no randomness"))
    with pytest.raises(EntropyError):
        fastdp.SparseVector(10, epsilon=1, stream=broken, sensitivity=1)
    vector = fastdp.SparseVector(10, epsilon=50, numeric_epsilon=1, sensitivity=1)
    for ask in (vector.test, vector.answer):
        for values in (SECRET, np.full(3, SECRET)):
            with pytest.raises(EntropyError) as caught:
                ask(values, stream=broken)
            assert "7340193" not in f"{caught.value!r} {caught.value}"
    assert vector.remaining == 1
    assert vector.test(1000)


def test_a_failure_at_the_values_leaves_the_answers_spent() -> None:
    class Once(FixedStream):
        def _next_call(self) -> Any:
            if self.calls:
                raise EntropyError("the operating system gave no randomness")
            return super()._next_call()

    vector = fastdp.SparseVector(10, epsilon=50, numeric_epsilon=1, sensitivity=1)
    with pytest.raises(EntropyError):
        vector.answer(1000, stream=Once("once"))
    assert vector.spent
    with pytest.raises(BudgetExceededError):
        vector.answer(1000)


def test_accuracy_is_what_the_proof_says() -> None:
    """Section 4: with probability 0.999, far values are never mistaken."""
    beta, wrong, queries = 0.001, 0, 200
    for _ in range(300):
        vector = fastdp.SparseVector(0, epsilon=1, answers=3, sensitivity=1)
        b1, b2 = float(vector.threshold_scale), float(vector.query_scale)
        reach = b1 * math.log(2 / beta) + b2 * math.log(2 * queries / beta)
        values = np.full(queries, -reach)
        values[[50, 100, 150]] = reach
        said = vector.test(values)
        wrong += said.size != 151 or np.flatnonzero(said).tolist() != [50, 100, 150]
    assert wrong <= 8  # 0.3 expected at most; false alarm below 4e-11
