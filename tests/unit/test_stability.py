"""`ProposeTestRelease` and `StableMode`: arguments, data of any kind, errors."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.accounting import NeighboringRelation
from fastdp.exceptions import DTypeError, InsecureStreamWarning, ParameterError
from fastdp.testing import FixedStream

R = NeighboringRelation.REPLACE_ONE
NOISE = fastdp.DiscreteLaplace.from_epsilon(0.5, sensitivity=2)


def made(**change: Any) -> fastdp.ProposeTestRelease:
    arguments = {"epsilon": 0.5, "delta": 1e-6, "mechanism": NOISE, **change}
    return fastdp.ProposeTestRelease(**arguments)


def fixed(key: str) -> FixedStream:
    with pytest.warns(InsecureStreamWarning):
        return FixedStream(key)


@pytest.mark.parametrize(
    ("error", "change", "message"),
    [
        (ParameterError, {"epsilon": 0}, "epsilon must be"),
        (ParameterError, {"delta": 1}, "delta must be"),
        (ParameterError, {"epsilon": 1e-7}, "epsilon and delta must be large enough"),
        (DTypeError, {"mechanism": 3}, "mechanism must be one of added noise"),
        (
            DTypeError,
            {"mechanism": fastdp.Quantiles(0.5, bounds=(0, 1), epsilon=1)},
            "mechanism must be one of added noise",
        ),
        (
            ParameterError,
            {"mechanism": fastdp.Laplace(3, coordinates=1)},
            "sensitivity must be given",
        ),
        (
            ParameterError,
            {"neighboring_relation": "replace_one"},
            "neighboring_relation must be the mechanism's",
        ),
    ],
)
def test_refusals(error: type[Exception], change: dict[str, Any], message: str) -> None:
    with pytest.raises(error, match=message):
        made(**change)


def test_identity_and_cost() -> None:
    t = made()
    assert pickle.loads(pickle.dumps(t)) == t
    assert t != made(mechanism=None)
    # one costs what the parts do, and not less at their delta
    assert t.epsilon(delta=1e-6) == 1
    assert t.delta(1) == pytest.approx(1e-6)
    assert t.epsilon(delta=1e-5) < 1
    replaced = fastdp.DiscreteLaplace(4, sensitivity=2, neighboring_relation=R)
    assert made(mechanism=replaced).event().neighboring_relation is R
    alone = made(mechanism=None, neighboring_relation="replace_one")
    assert alone.event().neighboring_relation is R
    assert alone.epsilon(delta=1e-6) == 0.5


def test_far_answers_pass_and_near_ones_never_do() -> None:
    t = made()
    stream = fixed("t")
    assert t.probability(0) == 0
    assert t.probability(t.least_distance(1)) == 1
    for _ in range(30):
        for unstable in (0, -5, np.int8(-3), -(10**1000)):
            assert t.release(10, distance=unstable, stream=stream) is None
        for far in (10**6, np.uint64(2**64 - 1), 10**1000):
            assert abs(t.release(10, distance=far, stream=stream) - 10) < 100


def test_answers_of_any_shape_and_kind() -> None:
    wide = fastdp.Laplace.from_epsilon(1, sensitivity=1)
    t = made(mechanism=wide)
    found = t.release(np.array([math.nan, 1e300]), distance=10**6, stream=fixed("a"))
    assert found.shape == (2,)
    assert np.isfinite(found).all()
    model = object()  # without noise anything may be released
    assert made(mechanism=None).release(model, distance=10**6) is model


@pytest.mark.parametrize("distance", [0, 10**6])
def test_no_error_depends_on_the_test(distance: int) -> None:
    with pytest.raises(DTypeError, match=r"^x must be"):
        made().release("3", distance=distance)
    for wrong in (3.0, True, None, "4", math.nan):
        with pytest.raises(DTypeError, match=r"^distance must be an int, got"):
            made().release(3, distance=wrong)
    with pytest.raises(DTypeError, match="stream must be"):
        made().release(3, distance=distance, stream=1)  # type: ignore[arg-type]


# ---- the mode ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "counts", "wanted"),
    [
        (["b"] * 90 + ["a"] * 9, None, "b"),
        ([7] * 90, None, 7),
        ([None, "x"] * 90, None, "x"),
        (["x", "y", "x"], [50, 9, 40], "x"),
        (["x", "y"], [90, -(2**62)], "x"),
        (["x", "y"], [2**63 - 1, 2**62 - 99], "x"),
        ([b"q"] * 90, None, b"q"),
        (["a", "b"] * 90, None, None),  # a tie
        ([], None, None),
        (["x"], [0], None),
        ([None] * 90, None, None),
        ([math.nan] * 90, None, None),
    ],
    ids=range(12),
)
def test_modes(keys: Any, counts: Any, wanted: Any) -> None:
    m = fastdp.StableMode(epsilon=1, delta=1e-6)
    if counts is not None:
        counts = np.array(counts)
    found = m.release(keys, counts)
    assert found == wanted
    assert type(found) is type(wanted)


def test_mode_arguments() -> None:
    m = fastdp.StableMode(epsilon=1, delta=1e-6, neighboring_relation="replace_one")
    assert pickle.loads(pickle.dumps(m)) == m
    assert m.event().neighboring_relation is R
    assert m.probability(0) == 0 < m.probability(1) == m.probability(2) == 1e-6
    one = fastdp.StableMode(epsilon=1, delta=1e-6)
    assert one.probability(0) == 0 < one.probability(1) == 1e-6
    assert one.release(np.array(["x", "y"]), np.array([900, 1])) == "x"
    with pytest.raises(ParameterError, match="epsilon must be"):
        fastdp.StableMode(epsilon=0, delta=1e-6)
    with pytest.raises(ParameterError, match=r"counts must have shape \(2,\)"):
        one.release(["x", "y"], np.array([3]))
    with pytest.raises(DTypeError, match="keys must be"):
        one.release(np.zeros(2, complex))


def test_the_type_of_a_mode_is_that_of_the_array() -> None:
    """One record of another kind changes no type of the key that is shown."""
    m = fastdp.StableMode(epsilon=1, delta=1e-6)
    for other in (1.0, 1.5, np.nan):
        values = np.array([2.0] * 900 + [other])
        found = m.release(values, stream=FixedStream("mode"))
        assert (type(found), found) == (np.float64, 2.0)
    for keys, type_ in (
        (np.array(["a"] * 900 + ["long"]), np.str_),
        (np.array([True] * 900), np.bool_),
        (np.array([3] * 900, np.int8), np.int8),
        (np.array([3] * 900, object), int),
        ([3.0] * 900, int),
    ):
        assert type(m.release(keys, stream=FixedStream("mode"))) is type_
