"""Noise for floats: Laplace and Gaussian on a public power-of-two grid.

The answer is rounded to multiples of the granularity g, discrete noise of scale/g
steps is added, and the sum is rounded once to the float type. Both addends lie on
the grid, so the result depends on the answer through an exact sum only: there are
no holes between floats for data to show through. Rounding to the grid moves an
entry by at most g/2 on either side, which is charged to the sensitivity.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Never

import numpy as np

from fastdp import _arrays, _core, _laws, _validate, calibration, distributions
from fastdp._doorway import enter, is_data
from fastdp._stream import Stream, check_stream
from fastdp._validate import ONE, Real
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    NeighboringRelation,
    Relation,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import ADD, Additive, Noise, refuse

_FLOAT_MAX = float(np.finfo(np.float64).max)
#: Largest magnitude up to which every integer is a double.
_EXACT_DOUBLE = 2**53
_FLOAT32_MAX = float(np.finfo(np.float32).max)

#: Granularities whose multiples and anchors are finite doubles.
_GRANULARITY = (Fraction(1, 2**1000), Fraction(2**900))

#: More steps than this and the noise could leave the exact integers of a double.
_MOST_STEPS = 2**40


_FLOAT64 = np.float64


class _Grid(Additive[Noise]):
    """Release of floats on the grid."""

    __slots__ = ("_coordinates", "_grid", "_most", "_parameter")

    _coordinates: int
    _most: int  # entries of one release
    _grid: _arrays.Grid
    _parameter: Fraction

    def _set_up(
        self,
        name: str,
        parameter: Real,
        sensitivity: Real | None,
        neighboring_relation: Relation,
        coordinates: int | None,
        granularity: Real | None,
        answer_bounds: tuple[Real, Real] | None,
    ) -> Fraction:
        """Check and freeze the arguments; return the parameter in steps."""
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
        arguments: list[tuple[str, Any]] = [
            (name, _validate.plain(exact)),
            *self._calibrated_for(sensitivity, neighboring_relation),
        ]
        if coordinates is not None:
            arguments.append(("coordinates", charged))
            arguments.append(("granularity", _validate.plain(step)))
        low, high = _check_bounds(answer_bounds)
        if answer_bounds is not None:
            arguments.append(("answer_bounds", (low, high)))
        self._freeze(
            _arguments=tuple(arguments),
            _parameter=exact,
            _step=step,
            _coordinates=charged,
            _most=_arrays.MOST if coordinates is not None else charged,
            _grid=(float(step), low, high, 0.0 if answer_bounds is None else low),
        )
        return exact / step

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
        """What the true answers are clamped to before the noise, if anything."""
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
            The answers; columns as for `DiscreteLaplace.release`, lists of floats and
            ints among them. NaN and nulls count as 0, or as the lower of
            `answer_bounds`; infinities count as the largest finite double or as these
            bounds, Python ints beyond 2**53 as that (nearest doubles can lie further
            apart than the ints). The sensitivity must hold after this mapping.
        out : ndarray, optional
            Array of x's dtype and shape, C-contiguous; may be `x` itself.
        stream : Stream, optional
            None draws a fresh key from the operating system; for repeatable tests
            `fastdp.testing.FixedStream`.
        workers : int
            Threads.

        Returns
        -------
        numpy float or ndarray
            Of x's dtype (float64 for Python numbers), finite; of a column one of its
            kind, with index and name, without nulls. `out` if it was given.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype, layout or shape. Never for a value of the data.
        EntropyError
            The operating system gave no randomness; `out` is filled with zeros.

        Privacy
        -------
        That of `event()`: the discrete law on the grid, with the charge
        for rounding to it; the final rounding to a float is post-processing. Exact.
        Timing class T2: independent of data and noise, lists and columns of pandas with
        nulls apart.
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
                f"x must have at most {self._most} entries where coordinates is not "
                f"given, got {x.size}: state how many of them one individual can change"
            )
        y = x.shape if out is None else _arrays.output(out, x.shape, x.dtype)
        return _arrays.fill(self._sampler, x, y, stream, workers, self._grid)


def _as_float(x: Any) -> tuple[float, type[np.floating[Any]]]:
    """Return a real scalar as a double and the type of its release."""
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
    """Return an int as a double, cut to what doubles hold exactly.

    The nearest doubles of two ints can lie further apart than the ints.
    """
    return float(min(max(x, -_EXACT_DOUBLE), _EXACT_DOUBLE))


def _to_float32(y: float) -> np.float32:
    # The host may have asked numpy to raise when a value is rounded or underflows.
    with np.errstate(all="ignore"):
        return np.float32(min(max(y, -_FLOAT32_MAX), _FLOAT32_MAX))


def power_of_two(granularity: Real) -> Fraction:
    """Return the step of a grid as an exact rational: a power of two in its range."""
    step = _validate.between("granularity", granularity, *_GRANULARITY)
    if step.numerator & (step.numerator - 1) or step.denominator & (
        step.denominator - 1
    ):
        raise ParameterError(f"granularity must be a power of two, got {granularity!r}")
    return step


def _check_bounds(bounds: tuple[Real, Real] | None) -> tuple[float, float]:
    if bounds is None:
        return -_FLOAT_MAX, _FLOAT_MAX
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise DTypeError("answer_bounds must be a pair (low, high)")
    # Rounded inward, so that clamping never allows more than was asked for.
    low = _validate.float_up(_validate.exact("answer_bounds", bounds[0]))
    high = _validate.float_down(_validate.exact("answer_bounds", bounds[1]))
    if not -_FLOAT_MAX <= low <= high <= _FLOAT_MAX:
        raise ParameterError(
            f"answer_bounds must be finite with low <= high, got {bounds!r}"
        )
    return low, high


class Laplace(_Grid[DiscreteLaplaceEvent]):
    """Laplace noise for floats: pure differential privacy.

    Parameters
    ----------
    scale : int, float, Fraction or Decimal
        Scale of the noise, in the data's unit, > 0.
    sensitivity : int, float, Fraction or Decimal, optional
        L1 sensitivity over all entries together that the noise is for, > 0; without
        it the mechanism has no cost until `event` is told one.
    neighboring_relation : NeighboringRelation
        The relation for which the sensitivity holds.
    coordinates : int, optional
        Maximum number of entries that one individual can change: each is charged one
        step of the grid. Required with `granularity`; None charges for 2**20 entries,
        and `release` refuses larger arrays.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid, a power of two above scale/2**40; None takes the least.
    answer_bounds : tuple of two real numbers, optional
        The true answers are clamped to [low, high] before the noise; what is
        released may lie outside. No bounds of records: clamp these yourself.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of a wrong type or out of its range.

    Privacy
    -------
    For an answer of L1 sensitivity s over all entries together: pure epsilon =
    (s + coordinates * granularity)/scale, under the neighboring relation the
    sensitivity holds for. Exact: the noise is discrete Laplace on the grid.

    References
    ----------
    Mironov, "On significance of the least significant bits for differential
    privacy", CCS 2012 (why a grid). docs/proofs/grid.md.

    Examples
    --------
    >>> import fastdp
    >>> m = fastdp.Laplace.from_epsilon(0.5, sensitivity=3.0)
    >>> m.epsilon()
    0.5
    >>> y = m.release(17.25)
    >>> y == round(y / m.granularity) * m.granularity
    np.True_
    """

    __slots__ = ()

    def __init__(
        self,
        scale: Real,
        *,
        sensitivity: Real | None = None,
        neighboring_relation: Relation = ADD,
        coordinates: int | None = None,
        granularity: Real | None = None,
        answer_bounds: tuple[Real, Real] | None = None,
        **unknown: Never,
    ) -> None:
        refuse(unknown)
        steps = self._set_up(
            "scale",
            scale,
            sensitivity,
            neighboring_relation,
            coordinates,
            granularity,
            answer_bounds,
        )
        self._freeze(
            _sampler=_laws.laplace_sampler(steps),
            _law=distributions.DiscreteLaplace(steps),
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        sensitivity: Real,
        neighboring_relation: Relation = ADD,
        coordinates: int | None = None,
        granularity: Real | None = None,
        answer_bounds: tuple[Real, Real] | None = None,
        **unknown: Never,
    ) -> Laplace:
        """Return the mechanism with the least noise for pure `epsilon`.

        `sensitivity` is of the L1 norm over all entries, in the data's unit; the
        scale pays for rounding to the grid, too.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the scale that it needs, is out of range.
        """
        refuse(unknown)
        scale = calibration.grid_laplace_scale(
            epsilon=_validate.least_reading(epsilon),
            sensitivity=sensitivity,
            coordinates=coordinates,
            granularity=granularity,
        )
        return cls(
            scale,
            sensitivity=sensitivity,
            neighboring_relation=neighboring_relation,
            coordinates=coordinates,
            granularity=granularity,
            answer_bounds=answer_bounds,
        )

    @classmethod
    def from_rho(
        cls,
        rho: Real,
        *,
        sensitivity: Real,
        neighboring_relation: Relation = ADD,
        coordinates: int | None = None,
        granularity: Real | None = None,
        answer_bounds: tuple[Real, Real] | None = None,
        **unknown: Never,
    ) -> Laplace:
        """Return the mechanism with the least noise for rho-zCDP; see `from_epsilon`.

        From the discrete law's own rho; the scale is rounded up.
        """
        refuse(unknown)
        scale = calibration.grid_laplace_scale_from_rho(
            rho=rho,
            sensitivity=sensitivity,
            coordinates=coordinates,
            granularity=granularity,
        )
        return cls(
            scale,
            sensitivity=sensitivity,
            neighboring_relation=neighboring_relation,
            coordinates=coordinates,
            granularity=granularity,
            answer_bounds=answer_bounds,
        )

    @classmethod
    def from_rdp(
        cls,
        *,
        order: Real,
        divergence: Real,
        sensitivity: Real,
        neighboring_relation: Relation = ADD,
        coordinates: int | None = None,
        granularity: Real | None = None,
        answer_bounds: tuple[Real, Real] | None = None,
        **unknown: Never,
    ) -> Laplace:
        """Return the mechanism with the least noise for a divergence of one order.

        From the discrete law's own Renyi divergence; the scale is rounded up. `order`
        is in (1, 1e9], `divergence` > 0. One order says little of others: where noise
        is composed, `from_rho` bounds all of them. Otherwise as `from_epsilon`.
        """
        refuse(unknown)
        scale = calibration.grid_laplace_scale_from_rdp(
            order=order,
            divergence=divergence,
            sensitivity=sensitivity,
            coordinates=coordinates,
            granularity=granularity,
        )
        return cls(
            scale,
            sensitivity=sensitivity,
            neighboring_relation=neighboring_relation,
            coordinates=coordinates,
            granularity=granularity,
            answer_bounds=answer_bounds,
        )

    @property
    def scale(self) -> int | float | Fraction:
        """Scale of the noise, in the data's unit, exact."""
        return _validate.plain(self._parameter)

    def _event(
        self, sensitivity: Fraction, relation: NeighboringRelation
    ) -> DiscreteLaplaceEvent:
        charged = calibration.charged_l1(
            sensitivity=sensitivity,
            coordinates=self._coordinates,
            granularity=self._step,
        )
        return DiscreteLaplaceEvent(
            sensitivity=charged / self._step,
            scale=self._parameter / self._step,
            neighboring_relation=relation,
        )


class Gaussian(_Grid[DiscreteGaussianEvent]):
    """Gaussian noise for floats: concentrated and approximate privacy.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        Standard deviation of the noise, in the data's unit, > 0.
    sensitivity : int, float, Fraction or Decimal, optional
        L2 sensitivity over all entries together that the noise is for, > 0; without
        it the mechanism has no cost until `event` is told one.
    neighboring_relation : NeighboringRelation
        The relation for which the sensitivity holds.
    coordinates : int, optional
        Maximum number of entries that one individual can change: together they are
        charged sqrt(coordinates) steps of the grid. Required with `granularity`; None
        charges for 2**20 entries, and `release` refuses larger arrays.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid, a power of two above sigma/2**40; None takes the least.
    answer_bounds : tuple of two real numbers, optional
        As in `Laplace`.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of a wrong type or out of its range.

    Privacy
    -------
    For an answer of L2 sensitivity s over all entries together: rho = (s +
    sqrt(coordinates) * granularity)**2/(2 sigma**2) zero-concentrated privacy, and
    (epsilon, delta) from a proved bound on the discrete law on the grid, under
    the neighboring relation the sensitivity holds for. Exact.

    References
    ----------
    Canonne, Kamath, Steinke, NeurIPS 2020; Balle and Wang, ICML 2018 (the analytic
    formula). docs/proofs/grid.md, docs/proofs/calibration.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.Gaussian.from_epsilon_delta(epsilon=1.0, delta=1e-6, sensitivity=2.5)
    >>> m.epsilon(delta=1e-6) <= 1.0
    True
    >>> m.release(np.zeros(3, np.float32)).dtype
    dtype('float32')
    """

    __slots__ = ()

    def __init__(
        self,
        sigma: Real,
        *,
        sensitivity: Real | None = None,
        neighboring_relation: Relation = ADD,
        coordinates: int | None = None,
        granularity: Real | None = None,
        answer_bounds: tuple[Real, Real] | None = None,
        **unknown: Never,
    ) -> None:
        refuse(unknown)
        steps = self._set_up(
            "sigma",
            sigma,
            sensitivity,
            neighboring_relation,
            coordinates,
            granularity,
            answer_bounds,
        )
        self._freeze(
            _sampler=_laws.gaussian_sampler(steps),
            _law=distributions.DiscreteGaussian(steps),
        )

    @classmethod
    def from_rho(
        cls,
        rho: Real,
        *,
        sensitivity: Real,
        neighboring_relation: Relation = ADD,
        coordinates: int | None = None,
        granularity: Real | None = None,
        answer_bounds: tuple[Real, Real] | None = None,
        **unknown: Never,
    ) -> Gaussian:
        """Return the mechanism with the least noise for rho-zCDP, rounded up.

        `sensitivity` is of the L2 norm over all entries, in the data's unit; sigma
        pays for rounding to the grid, too.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the sigma that it needs, is out of range.
        """
        refuse(unknown)
        sigma = calibration.grid_gaussian_sigma_from_rho(
            rho=rho,
            sensitivity=sensitivity,
            coordinates=coordinates,
            granularity=granularity,
        )
        return cls(
            sigma,
            sensitivity=sensitivity,
            neighboring_relation=neighboring_relation,
            coordinates=coordinates,
            granularity=granularity,
            answer_bounds=answer_bounds,
        )

    @classmethod
    def from_rdp(
        cls,
        *,
        order: Real,
        divergence: Real,
        sensitivity: Real,
        neighboring_relation: Relation = ADD,
        coordinates: int | None = None,
        granularity: Real | None = None,
        answer_bounds: tuple[Real, Real] | None = None,
        **unknown: Never,
    ) -> Gaussian:
        """Return the mechanism with the least noise for a divergence of one order.

        `order` is in (1, 1e9], `divergence` > 0, a bound on the Renyi divergence.
        That of Gaussian noise is rho times the order: one order decides all, and this
        is `from_rho` of divergence/order. Otherwise as there.
        """
        refuse(unknown)
        return cls.from_rho(
            calibration.rho_from_rdp(order=order, divergence=divergence),
            sensitivity=sensitivity,
            neighboring_relation=neighboring_relation,
            coordinates=coordinates,
            granularity=granularity,
            answer_bounds=answer_bounds,
        )

    @classmethod
    def from_epsilon_delta(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        sensitivity: Real,
        neighboring_relation: Relation = ADD,
        coordinates: int | None = None,
        granularity: Real | None = None,
        answer_bounds: tuple[Real, Real] | None = None,
        **unknown: Never,
    ) -> Gaussian:
        """Return the mechanism with the least noise for (epsilon, delta).

        From a proved bound on the discrete law on the grid; `epsilon` may be 0.
        Otherwise as `from_rho`.
        """
        refuse(unknown)
        sigma = calibration.grid_gaussian_sigma(
            epsilon=epsilon,
            delta=delta,
            sensitivity=sensitivity,
            coordinates=coordinates,
            granularity=granularity,
        )
        return cls(
            sigma,
            sensitivity=sensitivity,
            neighboring_relation=neighboring_relation,
            coordinates=coordinates,
            granularity=granularity,
            answer_bounds=answer_bounds,
        )

    @property
    def sigma(self) -> int | float | Fraction:
        """Standard deviation of the noise, in the data's unit, exact."""
        return _validate.plain(self._parameter)

    def _event(
        self, sensitivity: Fraction, relation: NeighboringRelation
    ) -> DiscreteGaussianEvent:
        charged = calibration.charged_l2(
            sensitivity=sensitivity,
            coordinates=self._coordinates,
            granularity=self._step,
        )
        return DiscreteGaussianEvent(
            sensitivity=charged / self._step,
            sigma=self._parameter / self._step,
            coordinates=self._coordinates,
            neighboring_relation=relation,
        )
