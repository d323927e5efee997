"""Noise for integers: discrete Laplace and discrete Gaussian."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, Never

import numpy as np

from fastdp import _arrays, _core, _validate, calibration
from fastdp._doorway import enter, is_data
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Relation,
    l2_sensitivity,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import ADD, Noise, int64_scalar, refuse
from fastdp.mechanisms.noise._law import GAUSSIAN, LAPLACE, OfLaw
from fastdp.mechanisms.noise.shares import GaussianShares, LaplaceShares


class Integer(OfLaw[Noise]):
    """Release of integers: int64 out, saturating."""

    __slots__ = ()

    @partial(_core.zero_on_failure, integers=True)
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
        x : int, numpy integer, ndarray of an integer dtype (not uint64), or a column
            The answers. Python ints beyond int64 saturate first. Columns are lists of
            ints, pandas Series and Index, polars Series, pyarrow Array and
            ChunkedArray, and other objects with Arrow's protocol; a null counts as 0.
            Memoryviews and DLPack arrays are read like numpy arrays.
        out : ndarray, optional
            Integer array to write into: C-contiguous, of x's shape; may be `x`
            itself. Types narrower than int64 saturate.
        stream : Stream, optional
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads.

        Returns
        -------
        numpy.int64 or ndarray of int64
            `out` if it was given. A column gives a column of its kind, with index and
            name, without nulls. Sums beyond int64 saturate; the sensitivity must hold
            for the integers as given.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype, layout or shape. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness; `out` is filled with zeros.

        Privacy
        -------
        The guarantee is `event()`, with saturation as post-processing. Exact. Timing
        class T2: independent of data and noise (except for Python ints and lists, which
        the interpreter converts, and pandas columns with nulls). Kinds, dtypes, element
        types, and whether a column can have nulls are public.
        """
        if unknown:
            refuse(unknown)
        if stream is not None:
            check_stream(stream)
        scalar = not isinstance(x, np.ndarray)
        if scalar and is_data(x):
            x, leave = enter("x", x)
            y = self.release(x, out=out, stream=stream, workers=workers)
            return leave(y) if out is None else y
        if out is None and (scalar or x.ndim == 0):
            _validate.integer("workers", workers, 1)
            x = int64_scalar("x", x)
            return _core.fill_one(self._sampler, x, stream)
        if scalar:
            x = int64_scalar("x", x).__array__()
        x = _arrays.data("x", x, real=False)
        y = x.shape if out is None else _arrays.output(out, x.shape, None)
        return _arrays.fill(self._sampler, x, y, stream, workers)


class DiscreteLaplace(Integer[DiscreteLaplaceEvent]):
    """Discrete Laplace noise: pure differential privacy for integers.

    Parameters
    ----------
    scale : int, float, Fraction or Decimal
        Scale of the law in [1e-6, 2**55], taken at its exact value: the noise x has
        probability proportional to exp(-|x|/scale).
    sensitivity : int, float, Fraction or Decimal, optional
        L1 sensitivity over all entries together that the noise is for, > 0; without it
        the mechanism has no cost until `event` gets one.
    neighboring_relation : NeighboringRelation
        The relation for which the sensitivity holds.

    Privacy
    -------
    For an answer of L1 sensitivity s over all entries together: pure epsilon =
    s/scale, under the sensitivity's neighboring relation. Exact.

    References
    ----------
    Ghosh, Roughgarden, Sundararajan, STOC 2009. docs/proofs/discrete_laplace.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.DiscreteLaplace.from_epsilon(0.5, sensitivity=1)
    >>> m
    DiscreteLaplace(scale=2, sensitivity=1)
    >>> m.epsilon()
    0.5
    >>> m.release(np.array([10, 20, 30])).shape
    (3,)
    """

    __slots__ = ()

    _row = LAPLACE

    def __init__(
        self,
        scale: Real,
        *,
        sensitivity: Real | None = None,
        neighboring_relation: Relation = ADD,
        **unknown: Never,
    ) -> None:
        refuse(unknown)
        exact = _validate.positive("scale", scale)
        made_for = self._calibrated_for(sensitivity, neighboring_relation)
        self._set_up([("scale", _validate.plain(exact)), *made_for], exact, None)

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        sensitivity: Real,
        neighboring_relation: Relation = ADD,
        **unknown: Never,
    ) -> DiscreteLaplace:
        """Return the mechanism with the least noise for pure `epsilon`.

        `sensitivity` is in the L1 norm over all entries. The scale is exactly
        sensitivity/epsilon.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the scale that it needs, is out of range.
        """
        return cls(
            calibration.laplace_scale(
                epsilon=_validate.least_reading(epsilon), sensitivity=sensitivity
            ),
            sensitivity=sensitivity,
            neighboring_relation=neighboring_relation,
            **unknown,
        )

    @classmethod
    def from_rho(
        cls,
        rho: Real,
        *,
        sensitivity: Real,
        neighboring_relation: Relation = ADD,
        **unknown: Never,
    ) -> DiscreteLaplace:
        """Return the mechanism with the least noise for rho-zCDP; see `from_epsilon`.

        It uses the discrete law's own rho; the scale is rounded up.
        """
        return cls(
            calibration.laplace_scale_from_rho(rho=rho, sensitivity=sensitivity),
            sensitivity=sensitivity,
            neighboring_relation=neighboring_relation,
            **unknown,
        )

    @property
    def scale(self) -> int | float | Fraction:
        """Scale of the law, exact."""
        return _validate.plain(self._parameter)

    def shares(self, *, parties: int, honest: int, modulus: int) -> LaplaceShares:
        """Return this noise in shares, for parties under secure aggregation.

        Parameters
        ----------
        parties : int
            Largest number of parties in a sum.
        honest : int
            Parties whose shares sum to this noise. Count only parties that certainly
            add their share, stay to the end, and keep it secret.
        modulus : int
            Modulus of the sum, in [2, 2**62].

        Returns
        -------
        LaplaceShares

        Raises
        ------
        DTypeError, ParameterError
            A parameter is out of its domain, no sensitivity is known, or the scale is
            above 2**40.
        """
        return LaplaceShares(
            of=self.event(), parties=parties, honest=honest, modulus=modulus
        )


class DiscreteGaussian(Integer[DiscreteGaussianEvent]):
    """Discrete Gaussian noise: concentrated and approximate privacy for integers.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        Parameter of the law in [1e-3, 2**55], taken at its exact value: the noise x
        has probability proportional to exp(-x**2/(2 sigma**2)).
    sensitivity : int, float, Fraction or Decimal, optional
        L2 sensitivity over all entries together that the noise is for, > 0; without it
        the mechanism has no cost until `event` gets one. Squared distances of integers
        are integers, so the floor of the square counts; a square less than 2**-20 below
        an integer (`math.sqrt(3)`) counts as that integer.
    squared_sensitivity : int, float, Fraction or Decimal, optional
        The exact square of the sensitivity, instead of `sensitivity`: 3 if one
        individual changes three counts by 1 each.
    coordinates : int, optional
        Maximum number of entries that one individual changes, for the discrete law's
        own profile: 1 if each individual is in one entry. None (unknown) may cost more.
    neighboring_relation : NeighboringRelation
        The relation for which the sensitivity holds.

    Privacy
    -------
    For an answer of L2 sensitivity s over all entries together: rho = s**2/(2
    sigma**2) zero-concentrated privacy, and (epsilon, delta) from the discrete law's
    own profile, under the sensitivity's neighboring relation. Exact.

    References
    ----------
    Canonne, Kamath, Steinke, NeurIPS 2020. docs/proofs/discrete_gaussian.md.

    Examples
    --------
    >>> import fastdp
    >>> m = fastdp.DiscreteGaussian.from_rho(0.5, sensitivity=2)
    >>> m
    DiscreteGaussian(sigma=2, sensitivity=2)
    >>> m.rho()
    0.5
    """

    __slots__ = ()

    _row = GAUSSIAN

    def __init__(
        self,
        sigma: Real,
        *,
        sensitivity: Real | None = None,
        squared_sensitivity: Real | None = None,
        coordinates: int | None = None,
        neighboring_relation: Relation = ADD,
        **unknown: Never,
    ) -> None:
        refuse(unknown)
        exact = _validate.positive("sigma", sigma)
        moved = _l2(sensitivity, squared_sensitivity)
        made_for = self._calibrated_for(moved, neighboring_relation)
        if squared_sensitivity is not None:
            square = _validate.exact("squared_sensitivity", squared_sensitivity)
            made_for[0] = ("squared_sensitivity", _validate.plain(square))
        if coordinates is not None:
            coordinates = _validate.integer("coordinates", coordinates, 1)
            made_for.append(("coordinates", coordinates))
        arguments = [("sigma", _validate.plain(exact)), *made_for]
        self._set_up(arguments, exact, coordinates)

    @classmethod
    def from_rho(
        cls,
        rho: Real,
        *,
        sensitivity: Real | None = None,
        squared_sensitivity: Real | None = None,
        coordinates: int | None = None,
        neighboring_relation: Relation = ADD,
        **unknown: Never,
    ) -> DiscreteGaussian:
        """Return the mechanism with the least noise for rho-zCDP, rounded up.

        `sensitivity` is in the L2 norm over all entries; give it or its square,
        `squared_sensitivity`.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the sigma that it needs, is out of range.
        """
        moved = _required_l2(sensitivity, squared_sensitivity)
        return cls(
            calibration.gaussian_sigma_from_rho(rho=rho, sensitivity=moved),
            sensitivity=sensitivity,
            squared_sensitivity=squared_sensitivity,
            coordinates=coordinates,
            neighboring_relation=neighboring_relation,
            **unknown,
        )

    @classmethod
    def from_epsilon_delta(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        sensitivity: Real | None = None,
        squared_sensitivity: Real | None = None,
        coordinates: int | None = None,
        neighboring_relation: Relation = ADD,
        **unknown: Never,
    ) -> DiscreteGaussian:
        """Return the mechanism with the least noise known to meet (epsilon, delta).

        It uses a proved bound on the discrete law's own profile
        (`fastdp.calibration.discrete_gaussian_sigma`) over every integer shift of L2
        norm `sensitivity` (or squared norm `squared_sensitivity`) in at most
        `coordinates` entries. `epsilon` may be 0. Errors are as in `from_rho`.
        """
        moved = _required_l2(sensitivity, squared_sensitivity)
        return cls(
            calibration.discrete_gaussian_sigma(
                epsilon=epsilon,
                delta=delta,
                sensitivity=moved,
                coordinates=coordinates,
            ),
            sensitivity=sensitivity,
            squared_sensitivity=squared_sensitivity,
            coordinates=coordinates,
            neighboring_relation=neighboring_relation,
            **unknown,
        )

    def shares(self, *, parties: int, honest: int, modulus: int) -> GaussianShares:
        """Return shares of noise close to this noise, for secure aggregation.

        Parameters
        ----------
        parties : int
            Largest number of parties in a sum.
        honest : int
            Parties whose shares together have this variance. Count only parties that
            certainly add their share, stay to the end, and keep it secret.
        modulus : int
            Modulus of the sum, in [2, 2**62].

        Returns
        -------
        GaussianShares

        Raises
        ------
        DTypeError, ParameterError
            A parameter is out of its domain, no sensitivity is known, or the sigma of a
            share, sigma/sqrt(honest), is outside [2, 2**40].
        """
        return GaussianShares(
            of=self.event(), parties=parties, honest=honest, modulus=modulus
        )

    @property
    def coordinates(self) -> int | None:
        """Maximum number of entries that one individual can change; None: not given."""
        return self._coordinates

    @property
    def sigma(self) -> int | float | Fraction:
        """Parameter of the law, exact."""
        return _validate.plain(self._parameter)


def _l2(sensitivity: Real | None, squared: Real | None) -> Real | None:
    """Return the given L2 sensitivity, or the root of the given square."""
    if squared is None:
        return sensitivity
    if sensitivity is not None:
        raise ParameterError("sensitivity must be left out with squared_sensitivity")
    return l2_sensitivity(_validate.positive("squared_sensitivity", squared))


def _required_l2(sensitivity: Real | None, squared: Real | None) -> Real:
    moved = _l2(sensitivity, squared)
    if moved is None:
        raise DTypeError("sensitivity must be given, or squared_sensitivity")
    return moved
