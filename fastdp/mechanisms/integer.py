"""Noise for integers: discrete Laplace, discrete Gaussian, truncated Laplace."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _arrays, _core, _validate, calibration, distributions
from fastdp import random as fdp_random
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    TruncatedDiscreteLaplaceEvent,
)
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._base import Additive, int64_scalar


class _Integer(Additive):
    """Release of integers: int64 out, saturating."""

    __slots__ = ()

    @_core.zero_on_failure
    def release(
        self,
        x: Any,
        *,
        out: np.ndarray[Any, Any] | None = None,
        stream: Stream | None = None,
        workers: int = 1,
    ) -> Any:
        """Return `x` with independent noise added to every entry.

        Parameters
        ----------
        x : int, numpy integer, or ndarray of an integer dtype (not uint64)
            The answers. Python ints beyond int64 saturate first.
        out : ndarray, optional
            Integer array to write into: C-contiguous, of x's shape; may be `x`
            itself. Types narrower than int64 saturate.
        stream : Stream, optional
            None draws a fresh key from the operating system; for repeatable tests
            `fastdp.testing.FixedStream`.
        workers : int
            Threads.

        Returns
        -------
        numpy.int64 or ndarray of int64
            `out` if it was given. Sums beyond int64 saturate; the sensitivity must
            hold for the integers as they are given.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype, layout or shape. Never for a value of the data.
        EntropyError
            The operating system gave no randomness; `out` is filled with zeros.

        Privacy
        -------
        That of `event(sensitivity)`, with saturation as post-processing. Exact.
        Timing class T2: independent of data and noise (Python ints apart, whose
        conversion is the interpreter's).
        """
        if stream is not None:
            check_stream(stream)
        scalar = not isinstance(x, np.ndarray)
        if out is None and (scalar or x.ndim == 0):
            _validate.integer("workers", workers, 1)
            x = x if type(x) is np.int64 else int64_scalar("x", x)
            return _core.fill_one(self._sampler, x, stream)
        if scalar:
            x = int64_scalar("x", x).__array__()
        x = _arrays.data("x", x, real=False)
        if out is None:
            out = np.zeros(x.shape, np.int64)
        else:
            out = _arrays.output(out, x.shape, None)
        _arrays.fill(self._sampler, x, out, stream, workers)
        return out


class DiscreteLaplace(_Integer):
    """Discrete Laplace noise: pure differential privacy for integers.

    Parameters
    ----------
    scale : int, float, Fraction or Decimal
        Scale of the law in [1e-6, 2**55], taken at its exact value: the noise x has
        probability proportional to exp(-|x|/scale).

    Raises
    ------
    DTypeError, ParameterError
        `scale` is not a real number in its range.

    Privacy
    -------
    For an answer of L1 sensitivity s over all entries together: pure epsilon =
    s/scale, under whatever neighbouring relation the sensitivity holds for. Exact.

    References
    ----------
    Ghosh, Roughgarden, Sundararajan, STOC 2009. docs/proofs/discrete_laplace.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.DiscreteLaplace.from_epsilon(0.5, sensitivity=1)
    >>> m
    DiscreteLaplace(scale=2)
    >>> m.epsilon()
    0.5
    >>> m.release(np.array([10, 20, 30])).shape
    (3,)
    """

    __slots__ = ("_scale",)

    _scale: Fraction

    def __init__(self, scale: Real) -> None:
        exact = _validate.positive("scale", scale)
        self._freeze(
            _arguments=(("scale", _validate.plain(exact)),),
            _scale=exact,
            _step=Fraction(1),
            _sampler=fdp_random.laplace_sampler(exact),
            _law=distributions.DiscreteLaplace(exact),
        )

    @classmethod
    def from_epsilon(cls, epsilon: Real, sensitivity: Real = 1) -> DiscreteLaplace:
        """Return the mechanism with the least noise for pure `epsilon`.

        `sensitivity` is of the L1 norm over all entries. The scale is exactly
        sensitivity/epsilon.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the scale that it needs, is out of range.
        """
        return cls(calibration.laplace_scale(epsilon, sensitivity))

    @classmethod
    def from_rho(cls, rho: Real, sensitivity: Real = 1) -> DiscreteLaplace:
        """Return the mechanism with the least noise for rho-zCDP; see `from_epsilon`.

        From the discrete law's own rho; the scale is rounded up.
        """
        return cls(calibration.laplace_scale_from_rho(rho, sensitivity))

    @property
    def scale(self) -> int | float | Fraction:
        """Scale of the law, exact."""
        return _validate.plain(self._scale)

    def event(self, sensitivity: Real = 1) -> DiscreteLaplaceEvent:
        """Return the event of one release with this L1 sensitivity."""
        return DiscreteLaplaceEvent(
            _validate.positive("sensitivity", sensitivity), self._scale
        )


class DiscreteGaussian(_Integer):
    """Discrete Gaussian noise: concentrated and approximate privacy for integers.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        Parameter of the law in [1e-3, 2**55], taken at its exact value: the noise x
        has probability proportional to exp(-x**2/(2 sigma**2)).

    Raises
    ------
    DTypeError, ParameterError
        `sigma` is not a real number in its range.

    Privacy
    -------
    For an answer of L2 sensitivity s over all entries together: rho = s**2/(2
    sigma**2) zero-concentrated privacy, and (epsilon, delta) from the discrete law's
    own profile, under whatever neighbouring relation the sensitivity holds for.
    Exact.

    References
    ----------
    Canonne, Kamath, Steinke, NeurIPS 2020. docs/proofs/discrete_gaussian.md.

    Examples
    --------
    >>> import fastdp
    >>> m = fastdp.DiscreteGaussian.from_rho(0.5, sensitivity=2)
    >>> m
    DiscreteGaussian(sigma=2)
    >>> m.rho(sensitivity=2)
    0.5
    """

    __slots__ = ("_sigma",)

    _sigma: Fraction

    def __init__(self, sigma: Real) -> None:
        exact = _validate.positive("sigma", sigma)
        self._freeze(
            _arguments=(("sigma", _validate.plain(exact)),),
            _sigma=exact,
            _step=Fraction(1),
            _sampler=fdp_random.gaussian_sampler(exact),
            _law=distributions.DiscreteGaussian(exact),
        )

    @classmethod
    def from_rho(cls, rho: Real, sensitivity: Real = 1) -> DiscreteGaussian:
        """Return the mechanism with the least noise for rho-zCDP, rounded up.

        `sensitivity` is of the L2 norm over all entries.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the sigma that it needs, is out of range.
        """
        return cls(calibration.gaussian_sigma_from_rho(rho, sensitivity))

    @classmethod
    def from_epsilon_delta(
        cls, epsilon: Real, delta: Real, sensitivity: Real = 1
    ) -> DiscreteGaussian:
        """Return the mechanism with the least noise for (epsilon, delta).

        From a proved bound on the discrete law's own profile, over every integer
        shift of L2 norm `sensitivity`; sigma is rounded up. `epsilon` may be 0.
        Errors are those of `from_rho`.
        """
        return cls(calibration.discrete_gaussian_sigma(epsilon, delta, sensitivity))

    @property
    def sigma(self) -> int | float | Fraction:
        """Parameter of the law, exact."""
        return _validate.plain(self._sigma)

    def event(self, sensitivity: Real = 1) -> DiscreteGaussianEvent:
        """Return the event of one release with this L2 sensitivity."""
        return DiscreteGaussianEvent(
            _validate.positive("sensitivity", sensitivity), self._sigma
        )


class TruncatedLaplace(_Integer):
    """Discrete Laplace noise on {-bound, ..., bound}, redrawn while outside.

    Parameters
    ----------
    scale : int, float, Fraction or Decimal
        Scale of the law before truncation, in [1e-6, 2**55].
    bound : int
        Largest absolute value of the noise, in [1, 2**62] and at least scale/100:
        with less, nearly every draw would have to be redrawn.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of a wrong type or out of its range.

    Privacy
    -------
    Approximate: epsilon = s/scale with delta the exact mass of the s outermost
    outcomes, s the integer L1 sensitivity, under whatever neighbouring relation it
    holds for. Exact.

    References
    ----------
    Geng, Ding, Guo, Kumar, "Tight analysis of privacy and utility tradeoff in
    approximate differential privacy", AISTATS 2020 (the continuous law).

    Examples
    --------
    >>> import fastdp
    >>> m = fastdp.TruncatedLaplace.from_epsilon_delta(1, 1e-6)
    >>> abs(m.release(100) - 100) <= m.bound
    np.True_
    """

    __slots__ = ("_bound", "_scale")

    _bound: int
    _scale: Fraction

    def __init__(self, scale: Real, bound: int) -> None:
        exact = _validate.positive("scale", scale)
        bound = _validate.integer("bound", bound, 1, 2**62)
        if 100 * bound < exact:
            raise ParameterError(f"bound must be at least scale/100, got {bound}")
        self._freeze(
            _arguments=(("scale", _validate.plain(exact)), ("bound", bound)),
            _scale=exact,
            _bound=bound,
            _step=Fraction(1),
            _sampler=fdp_random.laplace_sampler(exact, bound),
            _law=distributions.TruncatedDiscreteLaplace(exact, bound),
        )

    @classmethod
    def from_epsilon_delta(
        cls, epsilon: Real, delta: Real, sensitivity: Real = 1
    ) -> TruncatedLaplace:
        """Return the mechanism for (epsilon, delta): the least bound whose tail fits.

        `sensitivity` is of the L1 norm over all entries, at least 1.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or what it needs, is out of range.
        """
        scale = calibration.laplace_scale(epsilon, sensitivity)
        bound = calibration.truncated_laplace_bound(epsilon, delta, sensitivity)
        return cls(scale, bound)

    @property
    def scale(self) -> int | float | Fraction:
        """Scale of the law before truncation, exact."""
        return _validate.plain(self._scale)

    @property
    def bound(self) -> int:
        """Largest absolute value of the noise."""
        return self._bound

    def event(self, sensitivity: Real = 1) -> TruncatedDiscreteLaplaceEvent:
        """Return the event of one release with this L1 sensitivity."""
        return TruncatedDiscreteLaplaceEvent(
            _validate.positive("sensitivity", sensitivity), self._scale, self._bound
        )
