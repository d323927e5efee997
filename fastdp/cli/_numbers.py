"""Numbers as people write them: exact reading, and display."""

from __future__ import annotations

import argparse
import decimal
from fractions import Fraction
from typing import Any

from fastdp import _validate


def number(text: str) -> int | Fraction:
    """Read a parameter at its exact decimal value, or as a quotient "1/3"."""
    value = _fraction(text)
    return value.numerator if value.denominator == 1 else value


def _fraction(text: str) -> Fraction:
    try:
        if "/" in text and len(text) < 1000:
            return Fraction(text)
        return _validate.exact("the number", decimal.Decimal(text))
    except (ArithmeticError, ValueError):
        raise argparse.ArgumentTypeError(
            f"must be a finite number, got {text!r}"
        ) from None


def as_text(value: int | Fraction) -> str:
    """Write a parameter in its given form if that is short."""
    if value.denominator == 1:
        return str(value.numerator)
    short = f"{float(value):.12g}"
    return short if Fraction(short) == value else f"{value}"


def written(mechanism: Any) -> str:
    """Write a mechanism as its `repr`, with fractions as decimals of twelve digits.

    This is for users; `to_json` is exact, for programs.
    """
    shown = (f"{name}={_decimal(value)}" for name, value in mechanism._arguments)
    return f"{type(mechanism).__name__}({', '.join(shown)})"


def _decimal(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_decimal, value))}{',' * (len(value) == 1)})"
    if not isinstance(value, Fraction):
        return repr(value)
    try:
        return f"{float(value):.12g}"
    except OverflowError:
        return str(value)
