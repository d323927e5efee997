"""Noise for floats: Laplace and Gaussian on a public power-of-two grid.

The answer is rounded to multiples of the granularity g, discrete noise of scale/g
steps is added, and the sum is rounded once to the float type. Both addends are on the
grid, so the result depends on the answer only through an exact sum: no gaps between
floats can reveal data. Rounding to the grid changes an entry by at most g/2 in either
dataset, which is charged to the sensitivity.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Never

import numpy as np

from fastdp import _arrays, _core, _validate, calibration
from fastdp._doorway import enter, is_data
from fastdp._stream import Stream, check_stream
from fastdp._validate import ONE, Real
from fastdp.calibration._grid import power_of_two as any_power_of_two
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import Noise, refuse
from fastdp.mechanisms.noise._law import OfLaw

_FLOAT_MAX = float(np.finfo(np.float64).max)
#: Largest magnitude up to which every integer is a double.
_EXACT_DOUBLE = 2**53
_FLOAT32_MAX = float(np.finfo(np.float32).max)

#: Range of granularities: their multiples are finite doubles.
_GRANULARITY = (Fraction(1, 2**1000), Fraction(2**900))

#: Maximum noise parameter in steps: more noise could exceed the integers that doubles
#: hold exactly.
_MOST_STEPS = 2**40


_FLOAT64 = np.float64


class OnGrid(OfLaw[Noise]):
    """Release of floats on the grid."""

    __slots__ = ("_grid", "_most")

    _coordinates: int
    _most: int  # maximum number of entries of one release
    _grid: _arrays.Grid

    def _put_on_grid(
        self,
        parameter: Real,
        made_for: list[tuple[str, Any]],
        coordinates: int | None,
        granularity: Real | None,
        answer_bounds: tuple[Real, Real] | None,
    ) -> None:
        """Check and freeze the arguments."""
        name = self._row.parameter
        exact = _validate.positive(name, parameter)
        charged = calibration.grid_coordinates(
            coordinates=coordinates, granularity=granularity
        )
        step = power_of_two(
            calibration.grid_granularity(exact) if granularity is None else granularity
        )
        if exact / step >= _MOST_STEPS:
            raise ParameterError(
                f"granularity must be above {name}/2**40, got {float(step)!r}"
            )
        arguments: list[tuple[str, Any]] = [(name, _validate.plain(exact)), *made_for]
        if coordinates is not None:
            arguments.append(("coordinates", charged))
            arguments.append(("granularity", _validate.plain(step)))
        low, high = _check_bounds(answer_bounds)
        if answer_bounds is not None:
            arguments.append(("answer_bounds", (low, high)))
        self._set_up(arguments, exact, charged, step)
        self._freeze(
            _most=_arrays.MOST if coordinates is not None else charged,
            _grid=(float(step), low, high, 0.0 if answer_bounds is None else low),
        )

    def _charged(self, sensitivity: Fraction) -> Fraction:
        return self._row.charged(
            sensitivity=sensitivity,
            coordinates=self._coordinates,
            granularity=self._step,
        )

    @property
    def granularity(self) -> int | float | Fraction:
        """Step of the grid, in the data's unit: a power of two."""
        return _validate.plain(self._step)

    @property
    def coordinates(self) -> int:
        """Maximum number of entries that one individual can change."""
        return self._coordinates

    @property
    def answer_bounds(self) -> tuple[float, float] | None:
        """Bounds to which true answers are clamped before the noise, or None."""
        return dict(self._arguments).get("answer_bounds")

    @_core.zero_on_failure
    def release(
        self,
        x: Any,
        *,
        out: np.ndarray[Any, Any] | None = None,
        stream: Stream | None = None,
        workers: int = 1,
        **unknown: Never,
    ) -> Any:
        """Return `x` with independent noise added to every entry.

        Parameters
        ----------
        x : float, int, numpy float, ndarray of float64 or float32, or a column
            The answers; columns as for `DiscreteLaplace.release`, including lists of
            floats and ints. NaN and nulls count as 0, or as the lower of
            `answer_bounds`; infinities count as the largest finite double or as these
            bounds; Python ints beyond 2**53 count as 2**53, because their nearest
            doubles can be further apart than the ints. The sensitivity must hold after
            this mapping.
        out : ndarray, optional
            Array of x's dtype and shape, C-contiguous; may be `x` itself.
        stream : Stream, optional
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads.

        Returns
        -------
        numpy float or ndarray
            `out` if it was given. The dtype is that of x (float64 for Python numbers),
            and all values are finite. A column gives a column of the same kind, with
            index and name and without nulls.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype, layout or shape. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness; `out` is filled with zeros.

        Privacy
        -------
        The guarantee is `event()`: the discrete law on the grid, with the charge for
        rounding to the grid; the final rounding to a float is post-processing. Exact.
        Timing class T2: independent of data and noise, except for lists and pandas
        columns with nulls.
        """
        if unknown:
            refuse(unknown)
        if type(x) is _FLOAT64 and out is None and stream is None and workers is ONE:
            return _core.fill_one_real(self._sampler, x, self._grid)
        if stream is not None:
            check_stream(stream)
        scalar = not isinstance(x, np.ndarray)
        if scalar and is_data(x):
            x, leave = enter("x", x, real=True, null=self._grid[3])
            y = self.release(x, out=out, stream=stream, workers=workers)
            return leave(y) if out is None else y
        if out is None and (scalar or x.ndim == 0):
            _validate.integer("workers", workers, 1)
            value, kind = _as_float(x)
            y = _core.fill_one_real(self._sampler, value, self._grid, stream)
            return _to_float32(y) if kind is np.float32 else y
        if scalar:
            value, kind = _as_float(x)
            x = np.asarray(value, kind)
        x = _arrays.data("x", x, real=True)
        if x.size > self._most:
            raise ParameterError(
                f"x must have at most {self._most} entries if coordinates "
                f"is not given, got {x.size}: state how many of them one "
                "individual can change"
            )
        y = x.shape if out is None else _arrays.output(out, x.shape, x.dtype)
        return _arrays.fill(self._sampler, x, y, stream, workers, self._grid)


def _as_float(x: Any) -> tuple[float, type[np.floating[Any]]]:
    """Return a real scalar as a double, and the float type of its release."""
    if isinstance(x, np.ndarray):
        x = _arrays.data("x", x, real=True)[()]
    if isinstance(x, np.float32):
        return float(x), np.float32
    if isinstance(x, bool) or not isinstance(x, (float, int)):
        raise DTypeError(
            f"x must be a float or a float64 or float32 array, got {type(x).__name__}"
        )
    return (saturated(x) if isinstance(x, int) else float(x)), np.float64


def saturated(x: int) -> float:
    """Return an int as a double, clamped to +-2**53.

    For larger ints, rounding could increase the distance of two ints.
    """
    return float(min(max(x, -_EXACT_DOUBLE), _EXACT_DOUBLE))


def _to_float32(y: float) -> np.float32:
    # The caller may have set numpy to raise on underflow.
    with np.errstate(all="ignore"):
        return np.float32(min(max(y, -_FLOAT32_MAX), _FLOAT32_MAX))


def power_of_two(granularity: Real) -> Fraction:
    """Return the step of a grid as an exact rational: a power of two in its range."""
    _validate.between("granularity", granularity, *_GRANULARITY)
    return any_power_of_two(granularity)


def _check_bounds(bounds: tuple[Real, Real] | None) -> tuple[float, float]:
    if bounds is None:
        return -_FLOAT_MAX, _FLOAT_MAX
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise DTypeError("answer_bounds must be a pair (low, high)")
    # Round inward, so that clamping never allows more than the given bounds.
    low = _validate.float_up(_validate.exact("answer_bounds", bounds[0]))
    high = _validate.float_down(_validate.exact("answer_bounds", bounds[1]))
    if not -_FLOAT_MAX <= low <= high <= _FLOAT_MAX:
        raise ParameterError(
            f"answer_bounds must be finite with low <= high, got {bounds!r}"
        )
    return low, high
