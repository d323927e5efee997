"""Checks of public parameters and their conversion to exact rationals.

Every check runs before any data or randomness is touched, and every message
names the argument and the rule. Only public parameters pass through here, so
their values may appear in messages; data never does.
"""

from __future__ import annotations

import decimal
import math
import numbers
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp.exceptions import DTypeError, ParameterError

#: Types of public real parameters; each is taken at its exact value.
Real: TypeAlias = "int | float | Fraction | decimal.Decimal | np.integer | np.floating"

#: Types that Python or numpy treats as numbers, but this package refuses.
_NOT_NUMBERS = (bool, np.bool_, np.timedelta64)

#: Show a number in full up to this many bits.
_SHOWN_BITS = 128

#: Cut off the text of other values after this many characters.
_LONGEST = 200

#: Refuse parameters whose numerator or denominator has more bits; every double fits.
MAX_BITS = 2200

#: Ranges of noise parameters that the core supports (they include 1e-6 as a double).
SCALE_RANGE = (Fraction(1e-6), Fraction(2**55))
SIGMA_RANGE = (Fraction(1, 1000), Fraction(2**55))


def exact(name: str, value: object) -> Fraction:
    """Return the exact rational value of a finite real parameter.

    Raises
    ------
    DTypeError
        `value` is a bool, a string, or any other type that is not a real number.
    ParameterError
        `value` is NaN or infinite, or needs more than `MAX_BITS` bits.
    """
    if type(value) is float:  # the usual case; every double fits in `MAX_BITS`
        _require_finite(name, math.isfinite(value), value)
        return Fraction(value)
    if isinstance(value, Fraction):
        result = value
    elif type(value) is int:
        result = Fraction(value)
    elif isinstance(value, _NOT_NUMBERS) or not isinstance(
        value, (numbers.Real, decimal.Decimal)
    ):
        raise DTypeError(
            f"{name} must be an int, float, Fraction or Decimal, "
            f"got {type(value).__name__}"
        )
    elif isinstance(value, numbers.Integral):
        result = Fraction(int(value))
    elif isinstance(value, decimal.Decimal):
        _require_finite(name, value.is_finite(), value)
        # A huge exponent is refused before it is expanded into digits.
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and abs(exponent) > MAX_BITS:
            raise _too_long(name)
        result = Fraction(value)
    elif isinstance(value, numbers.Rational):
        result = Fraction(int(value.numerator), int(value.denominator))
    else:
        if isinstance(value, np.longdouble):
            _require_finite(name, bool(np.isfinite(value)), value)
            result = Fraction(*value.as_integer_ratio())
        else:
            as_float = float(value)
            _require_finite(name, math.isfinite(as_float), as_float)
            result = Fraction(as_float)
    if max(result.numerator.bit_length(), result.denominator.bit_length()) > MAX_BITS:
        raise _too_long(name)
    return result


def double(name: str, value: object) -> float:
    """Return a finite real parameter as the nearest double.

    Raises
    ------
    DTypeError, ParameterError
        As in `exact`; or the number is beyond the largest double.
    """
    found = exact(name, value)
    try:
        return float(found)
    except OverflowError:
        raise ParameterError(
            f"{name} must be in the range of doubles, got {shown(found)}"
        ) from None


def written(value: Any) -> Any:
    """Return the shortest decimal that rounds to a Python float, as an exact rational.

    People write and see this number: 0.1 is 1/10. Other types are returned unchanged.
    Only the limits of filters are read this way, and epsilons by `least_reading`
    (docs/proofs/accounting.md, section 6).
    """
    if type(value) is float and math.isfinite(value):
        return Fraction(repr(value))
    return value


def least_reading(value: Any) -> Any:
    """Return the smaller of a Python float's binary value and its shortest decimal."""
    if type(value) is float and math.isfinite(value):
        return min(Fraction(value), written(value))
    return value


def one_of(**given: Real | None) -> tuple[str, Real]:
    """Return name and value of the single given argument; require exactly one."""
    found = [(name, value) for name, value in given.items() if value is not None]
    if len(found) != 1:
        raise ParameterError(f"exactly one of {' and '.join(given)} must be given")
    return found[0]


def positive(name: str, value: object) -> Fraction:
    """Return `value` as an exact rational; it must be finite and > 0."""
    result = exact(name, value)
    if result.numerator <= 0:
        raise ParameterError(f"{name} must be finite and > 0, got {shown(value)}")
    return result


def nonnegative(name: str, value: object) -> Fraction:
    """Return `value` as an exact rational; it must be finite and >= 0."""
    result = exact(name, value)
    if result.numerator < 0:
        raise ParameterError(f"{name} must be finite and >= 0, got {shown(value)}")
    return result


def between(name: str, value: object, low: Fraction, high: Fraction) -> Fraction:
    """Return `value` as an exact rational; it must be in [low, high]."""
    result = exact(name, value)
    if not low <= result <= high:
        raise ParameterError(
            f"{name} must be in [{float(low):.17g}, {float(high):.17g}], "
            f"got {shown(value)}"
        )
    return result


def open_unit(name: str, value: object) -> Fraction:
    """Return `value` as an exact rational; it must be strictly between 0 and 1."""
    result = exact(name, value)
    if not 0 < result < 1:
        raise ParameterError(f"{name} must be > 0 and < 1, got {shown(value)}")
    return result


#: Default of `workers`; CPython has one object for 1, so `is` can compare with it.
ONE = 1


def integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return `value` as an int in [low, high]; refuse bools and floats."""
    if type(value) is int:
        result = value
    elif isinstance(value, _NOT_NUMBERS) or not isinstance(value, numbers.Integral):
        raise DTypeError(f"{name} must be an int, got {type(value).__name__}")
    else:
        result = int(value)
    if result < low or (high is not None and result > high):
        rule = f">= {low}" if high is None else f"in [{low}, {high}]"
        raise ParameterError(f"{name} must be {rule}, got {shown(result)}")
    return result


def whole(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return `value` as an int in [low, high]; accept whole floats such as 1e4."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return integer(name, value, low, high)


def shown(value: object) -> str:
    """Return a public parameter as text of moderate length.

    Numbers with too many digits are shown as the double that they equal, if there is
    one.
    """
    if isinstance(value, Fraction) and value.denominator == 1:
        value = value.numerator
    if type(value) is not int and not isinstance(value, Fraction):
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    if bits <= _SHOWN_BITS:
        return repr(value)
    nearest = _directed(Fraction(value), up=True)
    if math.isfinite(nearest) and nearest == value:
        return repr(nearest)
    kind = "an int" if isinstance(value, int) else "a fraction"
    return f"{kind} of {bits} bits"


def float_up(value: Fraction) -> float:
    """Return the least double >= `value` (inf above the largest double)."""
    return _directed(value, up=True)


def float_down(value: Fraction) -> float:
    """Return the greatest double <= `value` (-inf below the least double)."""
    return _directed(value, up=False)


def _directed(value: Fraction, *, up: bool) -> float:
    try:
        nearest = value.numerator / value.denominator
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if (
        up
        and nearest != math.inf
        and (nearest == -math.inf or Fraction(nearest) < value)
    ):
        return math.nextafter(nearest, math.inf)
    if (
        not up
        and nearest != -math.inf
        and (nearest == math.inf or Fraction(nearest) > value)
    ):
        return math.nextafter(nearest, -math.inf)
    return nearest


def _require_finite(name: str, finite: bool, value: object) -> None:
    if not finite:
        raise ParameterError(f"{name} must be finite, got {shown(value)}")


def _too_long(name: str) -> ParameterError:
    return ParameterError(
        f"{name} must have at most {MAX_BITS} bits in numerator and denominator"
    )


def plain(value: Fraction) -> int | float | Fraction:
    """Return an exact rational as an int or a float if that is exact."""
    if value.denominator == 1:
        return value.numerator
    nearest = float_up(value)
    # inf, for a value beyond the doubles, cannot become a Fraction.
    return nearest if math.isfinite(nearest) and Fraction(nearest) == value else value
