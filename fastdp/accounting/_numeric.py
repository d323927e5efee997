"""Directed rounding, high-precision decimals and root finding for the accountants.

Errors of double arithmetic are covered by one rule: the natural logarithm of every
delta that leaves this package has been raised by `inflate`. The standard library's
`decimal` rounds exp and ln correctly and is used if many digits are needed.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fastdp._validate import float_down, float_up
from fastdp.exceptions import CalibrationError, FastDPError, UnsupportedEventError

Answer = TypeVar("Answer")

#: Flat and relative allowance for the rounding error of a computed ln(delta).
#: The evaluations lose at most 5e-13 (see docs/proofs/calibration.md, section 7).
FLAT_SLOP = 9e-13
RELATIVE_SLOP = 2e-15

#: Largest table to multiply with a vector by BLAS, which then uses one thread; largest
#: side of blocks of a product of tables, of real and of complex numbers.
_VECTOR, _SIDE, _SIDE_OF_COMPLEX = 4000, 64, 32


def answered(reading: Callable[[], Answer], otherwise: Answer) -> Answer:
    """Return a reading, or `otherwise` if its parameters are beyond doubles.

    `otherwise` must hold for every event, or mean "no bound".
    """
    try:
        with np.errstate(all="ignore"):
            return reading()
    except FastDPError:
        raise
    except (ArithmeticError, ValueError):
        return otherwise


def required(event: object, reading: Callable[[], Answer]) -> Answer:
    """Return a reading of an event; refuse an event with parameters beyond doubles."""
    found = answered(reading, None)
    if found is None:
        raise UnsupportedEventError(
            f"{event!r} has parameters that doubles cannot hold"
        )
    return found


def product(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a @ b, computed only by this thread.

    For products of a few thousand terms BLAS wakes other threads, which then busy-wait
    for each other much longer than the product takes.
    """
    if b.ndim == 1 or a.ndim == 1:
        if max(a.size, b.size) <= _VECTOR:
            return np.asarray(a @ b)
        indices = "...j,j->..." if b.ndim == 1 else "j,j...->..."
        return np.asarray(np.einsum(indices, a, b))
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    whole = np.zeros((*a.shape[:-1], columns), np.result_type(a, b))
    side = _SIDE_OF_COMPLEX if np.iscomplexobj(whole) else _SIDE
    if rows * inner * columns <= side**3:
        return np.asarray(a @ b)
    for i in range(0, rows, side):
        for j in range(0, columns, side):
            part = whole[..., i : i + side, j : j + side]
            for k in range(0, inner, side):
                left = a[..., i : i + side, k : k + side]
                part += left @ b[..., k : k + side, j : j + side]
    return whole


def binomial_ratios(
    count: int, odds: float, first: int, mode: int, last: int
) -> npt.NDArray[np.float64]:
    """Return binomial masses from `first` to `last`, divided by the mode's mass.

    The i-th ratio from the mode has the rounding errors of i products of two ratios
    each.
    """
    up = np.arange(mode, last, dtype=np.float64)
    down = np.arange(mode, first, -1, dtype=np.float64)
    rising = np.cumprod((count - up) / (up + 1) * odds)
    falling = np.cumprod(down / ((count - down + 1) * odds))
    return np.concatenate([falling[::-1], [1.0], rising])


def inflate(log_delta: float) -> float:
    """Return an upper bound on the exact value of a computed `log_delta`."""
    return min(0.0, log_delta + FLAT_SLOP + RELATIVE_SLOP * abs(log_delta))


def exp_up(log_probability: float) -> float:
    """Return a double in [exp(log_probability), 1]; the logarithm must be <= 0."""
    if log_probability == -math.inf:
        return 0.0
    # libm errs by at most 1 unit in the last place; the factor covers two.
    value = math.exp(log_probability) * (1 + 5e-16)
    return min(1.0, math.nextafter(value, math.inf))


def log_fraction(value: Fraction) -> float:
    """Return ln(value) for any positive rational; relative error below 4e-16."""
    if Fraction(1, 2) < value < 2:
        return math.log1p(float(value - 1))
    shift = value.numerator.bit_length() - value.denominator.bit_length()
    mantissa = float(value / Fraction(2) ** shift)
    return math.log(mantissa) + shift * math.log(2.0)


@functools.lru_cache(maxsize=256)
def log_down(value: Fraction) -> float:
    """Return a lower bound of ln(value), relatively 1e-15 below it."""
    result = log_fraction(value)
    return result - 1e-15 * abs(result)


def log_up(probability: float) -> float:
    """Return ln(probability) rounded up; -inf for 0."""
    if probability <= 0:
        return -math.inf
    return min(0.0, math.nextafter(math.log(probability), math.inf))


def sqrt_up(square: Fraction, bits: int = 80) -> Fraction:
    """Return a rational >= sqrt(square): the root if rational, else within 2^-bits."""
    numerator, denominator = square.numerator, square.denominator
    root, under = math.isqrt(numerator), math.isqrt(denominator)
    if root * root == numerator and under * under == denominator:
        return Fraction(root, under)
    shift = max(0, bits - (numerator.bit_length() - denominator.bit_length()) // 2)
    scaled = (numerator << (2 * shift)) // denominator + 1
    root = math.isqrt(scaled)
    return Fraction(root + (root * root < scaled), 1 << shift)


def near_floor(value: Fraction) -> int:
    """Return the floor, or the next integer if `value` is just below it.

    Integer answers change by integers, so only the floor of a sensitivity counts. But
    sensitivities are rounded numbers: math.sqrt(3)**2 is below 3, and noise for 2 does
    not cover 3. "Just below" means by at most 2^-20, or by 2^-50 of a larger value;
    from 2^50 on the floor itself is this close.
    """
    if value < 1 << 50:
        value += max(Fraction(1, 1 << 20), value / (1 << 50))
    return math.floor(value)


def integer_l2(sensitivity: Fraction) -> Fraction:
    """Return an L2 sensitivity with a square that is not just below an integer.

    It is the sensitivity itself, or the root of the next integer, rounded up.
    """
    square = sensitivity * sensitivity
    norm = Fraction(near_floor(square))
    return sqrt_up(norm) if norm > square else sensitivity


def sqrt_float_up(square: Fraction) -> float:
    """Return the least double >= sqrt(square), or one unit above it."""
    return float_up(sqrt_up(square))


def shortened_up(value: Fraction, bits: int = 1024) -> Fraction:
    """Return a rational >= value with a denominator of at most `bits` bits.

    Sums of many rationals would otherwise grow without end; the excess is below
    2^(1 - bits) absolutely.
    """
    if value.denominator.bit_length() <= bits:
        return value
    scaled = -((-value.numerator << (bits - 1)) // value.denominator)
    return Fraction(scaled, 1 << (bits - 1))


def to_decimal(value: Fraction, context: decimal.Context) -> Decimal:
    """Return `value` rounded once in `context`."""
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def precise(digits: int) -> decimal.Context:
    """Return a decimal context with `digits` digits and the largest range."""
    return decimal.Context(
        prec=digits,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )


def decimal_up(value: Decimal, relative: Fraction) -> float:
    """Return a double above `value` > 0 raised by the relative error `relative`."""
    if value.adjusted() < -400:
        return math.nextafter(0.0, 1.0)
    return float_up(Fraction(value) * (1 + relative))


def root_above(
    excess: Callable[[float], float],
    low: float,
    high: float,
    relative: float = 1e-13,
) -> float:
    """Return x in (low, high] with excess(x) <= 0, close to a sign change.

    `excess` must be > 0 at `low` and <= 0 at `high`; `excess` was evaluated at x, so
    the result is checked for any shape of the function. Bracketing with inverse
    quadratic steps (Chandrupatla 1997).
    """
    x_old, x_new = low, high
    f_old, f_new = excess(low), excess(high)
    x_far, f_far = x_old, f_old
    fraction = 0.5
    for _ in range(200):
        x = x_old + fraction * (x_new - x_old)
        if x in (x_old, x_new):
            break
        f = excess(x)
        if (f > 0) == (f_old > 0):
            x_far, f_far = x_old, f_old
        else:
            x_far, f_far = x_new, f_new
            x_new, f_new = x_old, f_old
        x_old, f_old = x, f
        width = abs(x_new - x_old)
        if width <= relative * abs(x_new if f_new <= 0 else x_old):
            break
        fraction = _interpolate(x_old, f_old, x_new, f_new, x_far, f_far)
        margin = min(0.5, 0.4 * relative * abs(x_old) / width)
        fraction = min(1 - margin, max(margin, fraction))
    return x_new if f_new <= 0 else x_old


def _interpolate(
    x_old: float, f_old: float, x_new: float, f_new: float, x_far: float, f_far: float
) -> float:
    """Return the next step as a fraction of the way from x_old to x_new."""
    if x_far == x_new or f_far in (f_new, f_old):
        return 0.5
    if not all(map(math.isfinite, (f_old, f_new, f_far))):
        return 0.5
    xi = (x_old - x_new) / (x_far - x_new)
    phi = (f_old - f_new) / (f_far - f_new)
    if not (phi * phi < xi and (1 - phi) * (1 - phi) < 1 - xi):
        return 0.5
    first = f_old / (f_new - f_old) * f_far / (f_new - f_far)
    second = (x_far - x_old) / (x_new - x_old)
    second *= f_old / (f_far - f_old) * f_new / (f_far - f_new)
    return first + second


def search(
    name: str,
    excess: Callable[[float], float],
    guess: float,
    limits: tuple[Fraction, Fraction],
    step: float = 1e-4,
    relative: float = 1e-13,
) -> float:
    """Return a parameter within `limits` at which the evaluated excess is <= 0.

    `excess` roughly falls as the parameter grows; the result is close to a change of
    sign. The bracket grows from `guess` by doubling steps.
    """
    low_end = float_up(limits[0])
    high_end = float_down(limits[1])
    start = min(max(guess, low_end), high_end)
    if excess(start) > 0:
        low, high, factor = start, start, step
        while True:
            if high >= high_end:
                raise CalibrationError(
                    f"{name} must be in [{low_end:.6g}, {high_end:.6g}], "
                    "but no value there meets the target"
                )
            low, high = high, min(high * (1 + factor), high_end)
            if excess(high) <= 0:
                break
            factor *= 4
    else:
        low, high, factor = start, start, step
        while True:
            if low <= low_end:
                return low_end
            high, low = low, max(low / (1 + factor), low_end)
            if excess(low) > 0:
                break
            factor *= 4
    return root_above(excess, low, high, relative)


__all__ = [
    "decimal_up",
    "exp_up",
    "float_down",
    "float_up",
    "inflate",
    "log_down",
    "log_fraction",
    "precise",
    "product",
    "root_above",
    "search",
    "shortened_up",
    "sqrt_float_up",
    "sqrt_up",
    "to_decimal",
]
