"""Public parameters: what is taken at its exact value, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastdp
from fastdp import _validate
from fastdp.exceptions import DTypeError, ParameterError

WRONG_TYPES: list[Any] = [
    True,
    False,
    np.True_,
    "1",
    b"1",
    "nan",
    None,
    1j,
    np.complex128(1),
    [1.0],
    (1,),
    {1},
    np.array([1.0, 2.0]),
    np.array(["1"]),
    np.datetime64(1, "s"),
    object(),
    float,
]
NOT_FINITE: list[Any] = [
    math.nan,
    -math.nan,
    math.inf,
    -math.inf,
    np.float64("nan"),
    np.float32("inf"),
    np.float16("nan"),
    np.longdouble("nan"),
    np.longdouble("-inf"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal("-Infinity"),
]
TOO_LONG: list[Any] = [
    2**2200,
    -(2**2200),
    10**5000,
    Fraction(1, 2**2200),
    Fraction(2**2200, 3),
    Fraction(1, 2**2201 - 1),
    Decimal("1e5000"),
    Decimal("1e-5000"),
    Decimal("1e999999999"),
    Decimal(1) / Decimal(3) * Decimal("1e-2300"),
]
EXACT: list[tuple[Any, Fraction]] = [
    (3, Fraction(3)),
    (0.1, Fraction(3602879701896397, 2**55)),
    (5e-324, Fraction(1, 2**1074)),
    (2.2250738585072014e-308, Fraction(1, 2**1022)),
    (1.7976931348623157e308, Fraction(2**1024 - 2**971)),
    (-0.0, Fraction(0)),
    (np.int8(-5), Fraction(-5)),
    (np.uint64(2**64 - 1), Fraction(2**64 - 1)),
    (np.float32(0.1), Fraction(13421773, 2**27)),
    (np.float16(0.1), Fraction(1638, 2**14)),
    (np.longdouble(1) / 3, Fraction(*(np.longdouble(1) / 3).as_integer_ratio())),
    (Decimal("0.1"), Fraction(1, 10)),
    (Decimal("-1e-600"), Fraction(-1, 10**600)),
    (Fraction(22, 7), Fraction(22, 7)),
    (2**2199, Fraction(2**2199)),
    (2**2200 - 1, Fraction(2**2200 - 1)),
    (Fraction(1, 2**2200 - 1), Fraction(1, 2**2200 - 1)),
]
READERS = [
    _validate.exact,
    _validate.positive,
    _validate.nonnegative,
    _validate.open_unit,
    lambda name, value: _validate.between(name, value, Fraction(0), Fraction(9)),
]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("value", WRONG_TYPES)
def test_wrong_type(read: Any, value: Any) -> None:
    with pytest.raises(DTypeError, match=r"^epsilon must be an int, float, Fraction"):
        read("epsilon", value)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("value", NOT_FINITE, ids=repr)
def test_not_finite(read: Any, value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^epsilon must be finite"):
        read("epsilon", value)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("value", TOO_LONG, ids=lambda v: type(v).__name__)
def test_more_than_2200_bits(read: Any, value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^epsilon must have at most 2200 bits"):
        read("epsilon", value)


@pytest.mark.parametrize(("value", "result"), EXACT, ids=lambda v: type(v).__name__)
def test_exact_value(value: Any, result: Fraction) -> None:
    read = _validate.exact("x", value)
    assert read == result
    assert type(read) is Fraction


def test_sign_rules() -> None:
    for value in (0, -0.0, -1, Fraction(-1, 2**2000), Decimal("-0.5"), -5e-324):
        with pytest.raises(ParameterError, match=r"^scale must be finite and > 0, got"):
            _validate.positive("scale", value)
    assert _validate.positive("scale", 5e-324) == Fraction(1, 2**1074)
    assert _validate.nonnegative("delta", 0) == 0
    with pytest.raises(ParameterError, match=r"^delta must be finite and >= 0, got"):
        _validate.nonnegative("delta", -5e-324)


def test_open_unit_excludes_its_ends() -> None:
    for value in (0, 1, 1.0, -0.1, 1.5, Fraction(0)):
        with pytest.raises(ParameterError, match=r"^level must be > 0 and < 1"):
            _validate.open_unit("level", value)
    assert _validate.open_unit("level", math.nextafter(1, 0)) < 1


def test_between_includes_its_ends() -> None:
    low, high = Fraction(1, 2), Fraction(3)
    assert _validate.between("s", 0.5, low, high) == low
    assert _validate.between("s", 3, low, high) == high
    for value in (math.nextafter(0.5, 0), math.nextafter(3, 4)):
        with pytest.raises(ParameterError, match=r"^s must be in \[0.5, 3\], got"):
            _validate.between("s", value, low, high)


@pytest.mark.parametrize(
    "value", [True, np.False_, 1.0, np.float64(2), "1", None, Fraction(1), Decimal(1)]
)
def test_integer_refuses_other_types(value: Any) -> None:
    with pytest.raises(DTypeError, match=r"^workers must be an int, got"):
        _validate.integer("workers", value, 1)


def test_integer_range() -> None:
    assert _validate.integer("n", np.uint8(7), 0) == 7
    assert type(_validate.integer("n", np.int64(7), 0)) is int
    assert _validate.integer("n", 2**80, 0) == 2**80
    with pytest.raises(ParameterError, match=r"^n must be >= 1, got 0$"):
        _validate.integer("n", 0, 1)
    with pytest.raises(ParameterError, match=r"^n must be in \[1, 9\], got 10$"):
        _validate.integer("n", 10, 1, 9)


rationals = st.fractions(min_value=-(10**12), max_value=10**12)


@given(rationals)
def test_directed_rounding(value: Fraction) -> None:
    up, down = _validate.float_up(value), _validate.float_down(value)
    assert Fraction(down) <= value <= Fraction(up)
    assert Fraction(math.nextafter(up, -math.inf)) < value
    assert Fraction(math.nextafter(down, math.inf)) > value


def test_directed_rounding_beyond_the_doubles() -> None:
    huge, tiny = Fraction(2**1100), Fraction(1, 2**1200)
    largest = 1.7976931348623157e308
    assert (_validate.float_up(huge), _validate.float_down(huge)) == (
        math.inf,
        largest,
    )
    assert (_validate.float_up(-huge), _validate.float_down(-huge)) == (
        -largest,
        -math.inf,
    )
    assert (_validate.float_up(tiny), _validate.float_down(tiny)) == (5e-324, 0.0)
    assert (_validate.float_up(-tiny), _validate.float_down(-tiny)) == (0.0, -5e-324)


@given(rationals)
def test_plain_keeps_the_value(value: Fraction) -> None:
    plain = _validate.plain(value)
    assert Fraction(plain) == value
    assert isinstance(plain, int) == (value.denominator == 1)


def test_a_fraction_beyond_the_doubles_is_refused_as_any_other() -> None:
    huge = Fraction(10**600 + 1, 10**5)
    assert _validate.plain(huge) == huge
    with pytest.raises(ParameterError, match="scale must be in"):
        fastdp.DiscreteLaplace(scale=huge)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_taken_at_their_exact_value(value: float) -> None:
    assert _validate.exact("x", value) == Fraction(value)


@pytest.mark.parametrize("beyond", [10**400, -(10**400), Decimal("1e400")])
def test_numbers_beyond_the_doubles_are_refused_by_name(beyond: Any) -> None:
    low, high = min(0, beyond), max(0, beyond)
    plan: dict[str, Any] = {"unit": fastdp.Rows(), "epsilon": 1}
    for name, make in (
        ("edges", lambda: fastdp.Plan(histogram={"x": [low, high]}, **plan)),
        ("bounds", lambda: fastdp.Plan(mean="x", bounds={"x": (low, high)}, **plan)),
        ("bounds", lambda: _validate.double("bounds", beyond)),
    ):
        with pytest.raises(ParameterError, match=f"{name} must be in the range of"):
            make()
    assert _validate.double("bounds", 10**308) == 1e308
