"""Private selection for the mechanisms: checks of candidates, and calls of the core.

The laws and the random words that they use are in ``docs/proofs/selection.md``.
Nothing here reads a score.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _validate
from fastdp._stream import Stream
from fastdp.exceptions import DTypeError, ParameterError

_Array: TypeAlias = "np.ndarray[Any, Any]"

Noise: TypeAlias = Literal["gumbel", "laplace", "gaussian"]
Method: TypeAlias = Literal["auto", "inverse", "gumbel"]

#: Supported rates c: products with differences of doubles neither over- nor underflow.
RATES = (Fraction(1, 2**900), Fraction(2**900))

#: A worker checks for pending signals after at most this many candidates.
_SLAB = 1 << 24


# --- candidates -----------------------------------------------------------------


def scores_of(
    name: str, scores: object, axis: int = -1
) -> tuple[_Array, tuple[int, ...]]:
    """Return scores as a C-contiguous matrix of float64 or int64, and its outer shape.

    Raises
    ------
    DTypeError, ParameterError
        `scores` are not an array of real numbers, or have no candidates along `axis`.
    """
    real = isinstance(scores, np.ndarray) and scores.dtype.kind == "f"
    array = _arrays.data(name, scores, real=real)
    if array.ndim == 0:
        raise ParameterError(f"{name} must have at least one dimension")
    axis = _validate.integer("axis", axis, -array.ndim, array.ndim - 1)
    if axis not in (-1, array.ndim - 1):
        array = np.moveaxis(array, axis, -1)
    shape, n = array.shape[:-1], array.shape[-1]
    if n == 0:
        raise ParameterError(f"{name} must have at least one candidate along the axis")
    dtype = np.float64 if real else np.int64
    rows = math.prod(shape)
    return np.ascontiguousarray(array, dtype).reshape(rows, n), shape


@dataclass(frozen=True, eq=False)
class Weights:
    """Exact linear weights of candidates, with roundings for the kernels.

    Attributes
    ----------
    mantissa, exponent : ndarray of float64, shape (n,) or (rows, n)
        mantissa * 2**exponent is proportional to the weight, rounded to nearest; the
        mantissa is 0 or in [1/2, 1), the exponent an integer in (-2**14, 0], or -2**17
        for weight 0. Without exponents (None) the mantissas are doubles >= 0, which the
        kernels split.
    exact : list of int or Fraction, optional
        All weights, if some weight is not mantissa * 2**exponent up to the common
        factor.
    spread : float
        At least log2 of the ratio of the largest and least positive weights.
    top : int
        The largest weight is in [1/2, 1) 2**top; mantissa * 2**exponent is the weight
        times 2**-top.
    """

    mantissa: _Array
    exponent: _Array | None
    exact: list[Fraction] | list[int] | None
    spread: float
    top: int = 0

    @functools.cached_property
    def table(self) -> _core.Ratios | None:
        """`exact` in the core's form."""
        return None if self.exact is None else _core.Ratios(self.exact)

    @classmethod
    def of(
        cls, name: str, weights: object, shape: tuple[int, ...], axis: int
    ) -> Weights:
        """Return checked weights that broadcast to the shape of the scores.

        Raises
        ------
        DTypeError, ParameterError
            A weight is not a real number, not finite or negative, or the shape is
            wrong.
        """
        array = (
            weights if isinstance(weights, np.ndarray) else np.array(weights, object)
        )
        if hasattr(array, "mask"):  # the conversion would lose the mask
            raise DTypeError(
                f"{name} must not be a masked array: {name}.filled(0) "
                "leaves out the masked elements"
            )
        try:
            whole = np.broadcast_to(array, shape)
        except ValueError:
            raise ParameterError(
                f"{name} must broadcast to the shape of the scores, {shape}, "
                f"got {array.shape}"
            ) from None
        back = axis - len(shape)
        if array.size == (array.shape[back] if array.ndim >= -back else 1):
            # All rows have the same weights.
            array = np.broadcast_to(array.reshape(-1), (shape[axis],))
        else:
            array = np.moveaxis(whole, axis, -1).reshape(-1)
        if array.dtype.kind == "O":
            return cls._rationals([_validate.nonnegative(name, w) for w in array])
        return cls.numbers(
            _arrays.data(name, array, real=array.dtype.kind == "f"), name
        )

    @classmethod
    def numbers(cls, array: _Array, name: str = "weights") -> Weights:
        """Return the weights of a contiguous array of finite numbers >= 0."""
        doubles = array.astype(np.float64, copy=False)
        found = _core.weights_range(doubles)
        if found is None:
            raise ParameterError(f"{name} must be finite and >= 0")
        top, spread = found
        # A double of 2**53 may be a rounded integer.
        large = array.dtype.kind != "f" and top > 53
        return cls(doubles, None, array.tolist() if large else None, spread, top)

    @classmethod
    def _rationals(cls, weights: list[Fraction]) -> Weights:
        mantissa = np.zeros(len(weights))
        exponent = np.zeros(len(weights))
        for i, w in enumerate(weights):
            power = w.numerator.bit_length() - w.denominator.bit_length()
            scaled = w / Fraction(2) ** power
            mantissa[i], extra = math.frexp(scaled.numerator / scaled.denominator)
            exponent[i] = power + extra if w else 0
        rounded = any(
            Fraction(m) * Fraction(2) ** int(e) != w
            for m, e, w in zip(mantissa, exponent, weights, strict=True)
        )
        # Scale the largest exponent to 0: a common factor does not change the law.
        top = int(exponent[mantissa > 0].max(initial=-(2**14)))
        exponent -= top
        exponent[mantissa == 0] = -(2**17)
        spread = 1.0 - float(exponent[mantissa > 0].min(initial=0.0))
        return cls(mantissa, exponent, weights if rounded else None, spread, top)


@dataclass(frozen=True, eq=False)
class Choice:
    """A law of choice and its candidates.

    Attributes
    ----------
    rate : Fraction
        c: scores count as c times their value.
    scores : ndarray of float64 or int64, shape (rows, n)
        From `scores_of`.
    weights : Weights, optional
        None: all are 1.
    """

    rate: Fraction
    scores: _Array
    weights: Weights | None = None

    def law(self, noise: Noise | None = None) -> _core.Selection:
        """Return the law for the kernels, with the noise of a race if one is given."""
        w = self.weights
        if w is None:
            return _core.Selection(self.rate, noise)
        weights = w.mantissa, w.exponent, w.top, w.spread, w.table
        return _core.Selection(self.rate, noise, weights)


def rate_of(epsilon: Fraction, sensitivity: Fraction, *, monotonic: bool) -> Fraction:
    """Return c = epsilon/(2 sensitivity), or epsilon/sensitivity if monotonic."""
    rate = epsilon / sensitivity if monotonic else epsilon / (2 * sensitivity)
    if not RATES[0] <= rate <= RATES[1]:
        raise ParameterError(
            "epsilon / sensitivity must be in [2**-899, 2**899], "
            f"got {_validate.plain(epsilon)!r} / {_validate.plain(sensitivity)!r}"
        )
    return rate


# --- choices ----------------------------------------------------------------------


def propose(choice: Choice, stream: Stream | None, workers: int) -> _Array:
    """Return one choice from each row, shape (rows,)."""
    return _drawn(_core.select_proposed, choice, choice.law(), stream, workers)


def flip(choice: Choice, stream: Stream | None, workers: int) -> _Array:
    """Return one choice from each row by permute-and-flip, shape (rows,)."""
    return _drawn(_core.select_flipped, choice, choice.law(), stream, workers)


def inverse(choice: Choice, k: int, stream: Stream | None, workers: int) -> _Array:
    """Return k choices without replacement from each row, shape (rows, k)."""
    return _drawn(_core.select_inverse, choice, choice.law(), stream, workers, (k,))


def race(choice: Choice, noise: Noise, stream: Stream | None, workers: int) -> _Array:
    """Return the winner of each row's race, shape (rows,)."""
    return _drawn(_core.select_race, choice, choice.law(noise), stream, workers)


def _drawn(
    select: Callable[..., None],
    choice: Choice,
    law: _core.Selection,
    stream: Stream | None,
    workers: int,
    each: tuple[int, ...] = (),
) -> _Array:
    rows, n = choice.scores.shape
    out = np.zeros((rows, *each), np.int64)

    def part(first: int, last: int) -> None:
        select(call, law, choice.scores[first:last], out[first:last], first)

    with _core.Call(stream, out) as call:
        _by_rows(part, rows, n, workers)
    return out


def _by_rows(part: Callable[[int, int], None], rows: int, n: int, workers: int) -> None:
    """Run part(first, last) over ranges of rows on threads."""
    slab = max(_SLAB // n, 1)

    def run(start: int, stop: int, _: int) -> None:
        for first in range(start, stop, slab):
            part(first, min(first + slab, stop))

    _arrays.in_parallel(run, rows, max(4096 // n, 1), workers)
