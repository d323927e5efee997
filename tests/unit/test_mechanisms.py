"""Mechanisms: immutable values that refuse bad input before they draw."""

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

import fastdp
from fastdp.accounting import NeighboringRelation
from fastdp.exceptions import (
    CalibrationError,
    DTypeError,
    FastDPError,
    ParameterError,
)

INT = [
    fastdp.DiscreteLaplace(10, sensitivity=1),
    fastdp.DiscreteLaplace(2**40, sensitivity=1),
    fastdp.DiscreteGaussian(10, sensitivity=1),
    fastdp.DiscreteGaussian(2**40, sensitivity=1),
    fastdp.TruncatedLaplace(10, bound=60, sensitivity=1),
]
REAL = [
    fastdp.Laplace(10, sensitivity=1),
    fastdp.Gaussian(10, sensitivity=1),
    fastdp.Laplace(
        10, sensitivity=1, granularity=0.5, coordinates=1, answer_bounds=(-100, 100)
    ),
    fastdp.Gaussian(10, sensitivity=1, granularity=0.5, coordinates=3),
]
ALL = [*INT, *REAL]


# --- identity ------------------------------------------------------------------

SHOWN = [
    *ALL,
    fastdp.DiscreteLaplace(Fraction(1, 3), sensitivity=Fraction(1, 3)),
    fastdp.DiscreteLaplace(
        0.1, sensitivity=0.5, neighboring_relation=NeighboringRelation.REPLACE_ONE
    ),
    fastdp.DiscreteGaussian(Decimal("1.1"), sensitivity=7),
    fastdp.Laplace(Fraction(10, 3), sensitivity=2, coordinates=7),
    fastdp.Gaussian(1e-30, sensitivity=1e-29, answer_bounds=(0.1, Fraction(1, 2))),
    fastdp.DiscreteLaplace.from_epsilon(0.3, sensitivity=2),
    fastdp.DiscreteLaplace.from_rho(0.3, sensitivity=2),
    fastdp.DiscreteGaussian.from_rho(Fraction(1, 3), sensitivity=1),
    fastdp.DiscreteGaussian.from_epsilon_delta(epsilon=1, delta=1e-6, sensitivity=3),
    fastdp.TruncatedLaplace.from_epsilon_delta(epsilon=1, delta=1e-6, sensitivity=3),
    fastdp.Laplace.from_epsilon(0.3, sensitivity=2, coordinates=4),
    fastdp.Gaussian.from_epsilon_delta(epsilon=0.3, delta=1e-5, sensitivity=1),
]


def evaluated(text: str) -> Any:
    names = {
        **vars(fastdp.mechanisms),
        "Fraction": Fraction,
        "NeighboringRelation": NeighboringRelation,
    }
    return eval(text, names)  # noqa: S307 - the text is one of this package's reprs


@pytest.mark.parametrize("m", SHOWN, ids=repr)
def test_repr_is_the_constructor_call(m: Any) -> None:
    again = evaluated(repr(m))
    assert again == m
    assert hash(again) == hash(m)
    assert repr(again) == repr(m)
    assert again.event() == m.event()


@pytest.mark.parametrize("m", SHOWN, ids=repr)
def test_copies_are_equal_values(m: Any) -> None:
    copies = [copy.copy(m), copy.deepcopy(m)]
    copies += [pickle.loads(pickle.dumps(m, p)) for p in range(2, 6)]
    for again in copies:
        assert again == m
        assert hash(again) == hash(m)
        assert (again.std, again.variance) == (m.std, m.variance)
    assert len({m, *copies}) == 1


@pytest.mark.parametrize("m", ALL, ids=repr)
def test_pickle_holds_the_arguments_alone(m: Any) -> None:
    m.release(np.zeros(5, np.int64 if m in INT else float))
    build, state = m.__reduce__()
    assert state == (type(m), dict(m._arguments))
    assert build(*state) == m
    assert pickle.dumps(m) == pickle.dumps(evaluated(repr(m)))


def test_equality_is_of_type_and_parameters() -> None:
    assert fastdp.DiscreteLaplace(2) == fastdp.DiscreteLaplace(2.0)
    assert hash(fastdp.DiscreteLaplace(2)) == hash(fastdp.DiscreteLaplace(Fraction(2)))
    assert fastdp.DiscreteLaplace(2) != fastdp.DiscreteLaplace(3)
    assert fastdp.DiscreteLaplace(2) != fastdp.DiscreteGaussian(2)
    assert fastdp.Laplace(2) != fastdp.Laplace(2, coordinates=2)
    assert fastdp.Laplace(2) != fastdp.Laplace(2, answer_bounds=(0, 1))
    assert fastdp.DiscreteLaplace(2) != 2


@pytest.mark.parametrize("m", ALL, ids=repr)
def test_immutable(m: Any) -> None:
    for name in ("scale", "sigma", "_scale", "_sampler", "_law", "_arguments", "new"):
        with pytest.raises(AttributeError):
            setattr(m, name, 1)
        with pytest.raises(AttributeError):
            delattr(m, name)
    assert not hasattr(m, "__dict__")


# --- constructors ----------------------------------------------------------------

BAD_VALUES: list[Any] = [
    0, 0.0, -0.0, -1, -5e-324, math.nan, math.inf, -math.inf, 10**5000, -(10**5000),
    Fraction(1, 2**2201), Decimal("NaN"), Decimal("Infinity"), Decimal("-0"),
    np.float32("nan"), np.float64("inf"), np.longdouble("nan"),
]  # fmt: skip
BAD_TYPES: list[Any] = [
    True, np.True_, "1", b"1", None, 1j, [1], (1,), np.array([1.0]), object(), int,
]  # fmt: skip
BAD = [
    *((v, ParameterError) for v in BAD_VALUES),
    *((v, DTypeError) for v in BAD_TYPES),
]

M = fastdp.mechanisms
CONSTRUCTORS: list[tuple[str, Callable[[Any], Any]]] = [
    ("scale", lambda v: M.DiscreteLaplace(v)),
    ("sigma", lambda v: M.DiscreteGaussian(v)),
    ("scale", lambda v: M.TruncatedLaplace(v, bound=5)),
    ("scale", lambda v: M.Laplace(v)),
    ("sigma", lambda v: M.Gaussian(v)),
    ("granularity", lambda v: M.Laplace(1, granularity=v, coordinates=1)),
    ("granularity", lambda v: M.Gaussian(1, granularity=v, coordinates=1)),
    ("epsilon", lambda v: M.DiscreteLaplace.from_epsilon(v, sensitivity=1)),
    ("epsilon", lambda v: M.Laplace.from_epsilon(v, sensitivity=1)),
    (
        "epsilon",
        lambda v: M.TruncatedLaplace.from_epsilon_delta(
            epsilon=v, delta=1e-6, sensitivity=1
        ),
    ),
    ("rho", lambda v: M.DiscreteLaplace.from_rho(v, sensitivity=1)),
    ("rho", lambda v: M.DiscreteGaussian.from_rho(v, sensitivity=1)),
    ("rho", lambda v: M.Laplace.from_rho(v, sensitivity=1)),
    ("rho", lambda v: M.Gaussian.from_rho(v, sensitivity=1)),
    (
        "delta",
        lambda v: M.DiscreteGaussian.from_epsilon_delta(
            epsilon=1, delta=v, sensitivity=1
        ),
    ),
    (
        "delta",
        lambda v: M.Gaussian.from_epsilon_delta(epsilon=1, delta=v, sensitivity=1),
    ),
    (
        "delta",
        lambda v: M.TruncatedLaplace.from_epsilon_delta(
            epsilon=1, delta=v, sensitivity=1
        ),
    ),
    ("sensitivity", lambda v: M.DiscreteLaplace.from_epsilon(1, sensitivity=v)),
    ("sensitivity", lambda v: M.DiscreteLaplace.from_rho(1, sensitivity=v)),
    ("sensitivity", lambda v: M.DiscreteGaussian.from_rho(1, sensitivity=v)),
    (
        "sensitivity",
        lambda v: M.DiscreteGaussian.from_epsilon_delta(
            epsilon=1, delta=1e-6, sensitivity=v
        ),
    ),
    (
        "sensitivity",
        lambda v: M.TruncatedLaplace.from_epsilon_delta(
            epsilon=1, delta=1e-6, sensitivity=v
        ),
    ),
    ("sensitivity", lambda v: M.Laplace.from_epsilon(1, sensitivity=v)),
    ("sensitivity", lambda v: M.Laplace.from_rho(1, sensitivity=v)),
    ("sensitivity", lambda v: M.Gaussian.from_rho(1, sensitivity=v)),
    (
        "sensitivity",
        lambda v: M.Gaussian.from_epsilon_delta(epsilon=1, delta=1e-6, sensitivity=v),
    ),
    *(("sensitivity", lambda v, m=m: m.event(sensitivity=v)) for m in ALL),
    *(
        ("sensitivity", lambda v, m=m: m.epsilon(sensitivity=v))
        for m in (INT[0], REAL[0])
    ),
    *(
        ("sensitivity", lambda v, m=m: m.rho(sensitivity=v))
        for m in (INT[0], INT[2], REAL[0], REAL[1])
    ),
    *(("level", m.confidence_interval) for m in ALL),
]
# None asks for the default granularity, and for the mechanism's own sensitivity
OPTIONAL = [case for case in BAD if case[0] is not None]


@pytest.mark.parametrize("place", range(len(CONSTRUCTORS)))
def test_positive_parameters(place: int) -> None:
    name, make = CONSTRUCTORS[place]
    for value, error in OPTIONAL if name in ("granularity", "sensitivity") else BAD:
        with pytest.raises(error, match=rf"^{name} must ") as caught:
            make(value)
        assert type(caught.value) is error, value


NONNEGATIVE: list[tuple[str, Callable[[Any], Any]]] = [
    (
        "epsilon",
        lambda v: M.DiscreteGaussian.from_epsilon_delta(
            epsilon=v, delta=1e-6, sensitivity=1
        ),
    ),
    (
        "epsilon",
        lambda v: M.Gaussian.from_epsilon_delta(epsilon=v, delta=1e-6, sensitivity=1),
    ),
    *(("epsilon", m.delta) for m in ALL),
    *(("delta", lambda v, m=m: m.epsilon(delta=v)) for m in ALL),
]


@pytest.mark.parametrize("place", range(len(NONNEGATIVE)))
def test_nonnegative_parameters(place: int) -> None:
    name, make = NONNEGATIVE[place]
    for value, error in BAD:
        if (
            type(value) not in (bool, np.bool_)
            and error is ParameterError
            and value == 0
        ):
            continue
        with pytest.raises(error, match=rf"^{name} must "):
            make(value)


def test_epsilon_zero_only_for_gaussians() -> None:
    for make in (M.DiscreteGaussian, M.Gaussian):
        assert (
            make.from_epsilon_delta(epsilon=0, delta=0.01, sensitivity=1).delta(0)
            <= 0.01
        )


def test_delta_and_level_below_one() -> None:
    for value in (1, 1.0, 1.5, 2**1000):
        for make in (M.DiscreteGaussian, M.Gaussian, M.TruncatedLaplace):
            with pytest.raises(ParameterError, match=r"^delta must "):
                make.from_epsilon_delta(epsilon=1, delta=value, sensitivity=1)
        for m in ALL:
            with pytest.raises(ParameterError, match=r"^level must "):
                m.confidence_interval(value)
            if value == 1:
                assert m.epsilon(delta=value) == 0
                continue
            with pytest.raises(ParameterError, match=r"^delta must "):
                m.epsilon(delta=value)


@pytest.mark.parametrize("value", [0, -1, 2**62 + 1])
def test_bound_range(value: int) -> None:
    with pytest.raises(ParameterError, match=r"^bound must be in \[1, 46116"):
        fastdp.TruncatedLaplace(10, bound=value)


@pytest.mark.parametrize("value", [True, 5.0, "5", [5], Fraction(5), np.float64(5)])
def test_integer_parameters(value: Any) -> None:
    with pytest.raises(DTypeError, match=r"^bound must be an int"):
        fastdp.TruncatedLaplace(10, bound=value)
    for make in (M.Laplace, M.Gaussian):
        with pytest.raises(DTypeError, match=r"^coordinates must be an int"):
            make(10, coordinates=value)
        with pytest.raises(ParameterError, match=r"^coordinates must be in \[1, "):
            make(10, coordinates=0)


def test_granularity() -> None:
    for make, name in ((M.Laplace, "scale"), (M.Gaussian, "sigma")):
        for value in (3, 0.75, Fraction(1, 3), Decimal("0.1")):
            with pytest.raises(
                ParameterError, match=r"^granularity must be a power of"
            ):
                make(10, granularity=value, coordinates=1)
        for value in (10 / 2**40, 2.0**-38):
            with pytest.raises(ParameterError, match=r"^granularity must "):
                make(10, granularity=value, coordinates=1)
        for value in (2.0**-1050, Fraction(2**1000)):
            with pytest.raises(ParameterError, match=r"^granularity must be in \["):
                make(10, granularity=value, coordinates=1)
        for value in (1e308, 5e-324):
            with pytest.raises(ParameterError, match=rf"^({name}|granularity) must "):
                make(value)


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        ((1, 0), ParameterError),
        ((math.nan, 1), ParameterError),
        ((0, math.nan), ParameterError),
        ((-math.inf, 0), ParameterError),
        ((0, math.inf), ParameterError),
        ((0, 10**5000), ParameterError),
        ((True, 2), DTypeError),
        (("0", 2), DTypeError),
        ((None, 2), DTypeError),
        ((0, 1, 2), DTypeError),
        ((0,), DTypeError),
        ([0], DTypeError),
        (np.array([0, 1]), DTypeError),
        (5, DTypeError),
        ("01", DTypeError),
    ],
)
def test_bounds(bounds: Any, error: type[FastDPError]) -> None:
    for make in (M.Laplace, M.Gaussian):
        with pytest.raises(error, match=r"^answer_bounds must "):
            make(1, answer_bounds=bounds)


@pytest.mark.parametrize("value", [1e-300, 1e300])
def test_targets_out_of_reach(value: Any) -> None:
    for make in (
        M.DiscreteLaplace.from_epsilon,
        M.DiscreteLaplace.from_rho,
        M.DiscreteGaussian.from_rho,
    ):
        with pytest.raises(CalibrationError, match=r"^(scale|sigma) must be in \["):
            make(value, sensitivity=1)
