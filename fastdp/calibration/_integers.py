"""Noise parameters for integer answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from fastdp import _validate
from fastdp._validate import SCALE_RANGE, SIGMA_RANGE, Real
from fastdp.accounting import _discrete_gaussian, _laplace
from fastdp.accounting._numeric import (
    integer_l2,
    log_down,
    root_above,
    search,
    sqrt_float_up,
)
from fastdp.accounting.conversions import capped_epsilon
from fastdp.calibration._search import analytic_sigma, least_laplace_scale, within
from fastdp.distributions import MAX_BOUND
from fastdp.exceptions import CalibrationError

#: By what ln(delta) is surely above a target, relatively to its size; so far below a
#: crossing it is looked at; the last steps, of one coordinate and of several.
_SURELY, _BEFORE, _LAST, _LAST_OF_MANY = 1e-11, 1e-9, 1e-13, 1e-7


def laplace_scale(*, epsilon: Real, sensitivity: Real) -> Fraction:
    """Return the exact scale sensitivity/epsilon of discrete Laplace noise.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        Pure epsilon, > 0.
    sensitivity : int, float, Fraction or Decimal
        L1 sensitivity over all coordinates, > 0.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is not a finite positive real.
    CalibrationError
        The scale is outside [1e-6, 2^55].
    """
    e = _validate.positive("epsilon", epsilon)
    s = _validate.positive("sensitivity", sensitivity)
    return within("scale", s / e, SCALE_RANGE)


def laplace_scale_from_rho(*, rho: Real, sensitivity: Real) -> Fraction:
    """Return the least scale (to 1e-13) of discrete Laplace noise that is rho-zCDP.

    It uses the discrete law's exact rho; the result is a double as a Fraction.

    Parameters
    ----------
    rho : int, float, Fraction or Decimal
        Zero-concentrated budget, > 0.
    sensitivity : int, float, Fraction or Decimal
        L1 sensitivity over all coordinates, > 0.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is not a finite positive real.
    CalibrationError
        The scale is outside [1e-6, 2^55].
    """
    r = _validate.positive("rho", rho)
    s = _validate.positive("sensitivity", sensitivity)
    scale = least_laplace_scale(r, s, Fraction(1))
    return within("scale", scale, SCALE_RANGE)


def truncated_laplace_bound(*, epsilon: Real, delta: Real, sensitivity: Real) -> int:
    """Return the least bound A of truncated Laplace noise for (epsilon, delta).

    The noise has scale sensitivity/epsilon and is redrawn until it is in {-A..A}. With
    s the sensitivity, A is the least integer >= s for which the exact probability of
    the s largest outcomes is at most delta.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        > 0.
    delta : int, float, Fraction or Decimal
        > 0 and < 1.
    sensitivity : int, float, Fraction or Decimal
        L1 sensitivity over all coordinates, > 0.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    CalibrationError
        The scale is outside [1e-6, 2^55] or the bound is above 2^62.

    References
    ----------
    Geng, Ding, Guo, Kumar, "Tight Analysis of Privacy and Utility Tradeoff in
    Approximate Differential Privacy" (2020), for the continuous law.
    """
    d = _validate.open_unit("delta", delta)
    scale = laplace_scale(epsilon=epsilon, sensitivity=sensitivity)
    shift = _laplace.whole(_validate.exact("sensitivity", sensitivity))
    # The bound is at least the sensitivity, and epsilon is their ratio to the scale.
    if shift <= MAX_BOUND and shift / scale <= 10**15:
        bound = _laplace.truncation_bound(shift, scale, d)
        if bound <= MAX_BOUND:
            return bound
    raise CalibrationError(
        "bound must be <= 2^62 and epsilon <= 1e15, but more is needed"
    )


def gaussian_sigma_from_rho(*, rho: Real, sensitivity: Real) -> float:
    """Return sensitivity/sqrt(2 rho) rounded up: sigma of rho-zCDP Gaussian noise.

    The root is taken in integers. Holds for the discrete and the continuous law: a
    squared sensitivity less than 2**-20 below an integer counts as that integer.

    Parameters
    ----------
    rho : int, float, Fraction or Decimal
        Zero-concentrated budget, > 0.
    sensitivity : int, float, Fraction or Decimal
        L2 sensitivity over all coordinates, > 0.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is not a finite positive real.
    CalibrationError
        sigma is outside [1e-3, 2^55].
    """
    r = _validate.positive("rho", rho)
    s = integer_l2(_validate.positive("sensitivity", sensitivity))
    sigma = sqrt_float_up(s * s / (2 * r))
    within("sigma", Fraction(sigma), SIGMA_RANGE)
    return sigma


def discrete_gaussian_sigma(
    *,
    epsilon: Real,
    delta: Real,
    sensitivity: Real,
    coordinates: int | None = None,
) -> float:
    """Return a sigma at and above which discrete Gaussian noise meets (epsilon, delta).

    The delta of discrete noise does not always fall as sigma grows: above the least
    sigma that meets `delta`, the noise can exceed `delta` again (by up to 41 % in
    trials with sigma about 1). At the result, and at every larger sigma, the proved
    bound is at most `delta`. If one coordinate changes, the bound fails just below the
    result (relatively 1e-12); if several may change, the result may be larger by one
    part in 10^6.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        >= 0.
    delta : int, float, Fraction or Decimal
        > 0 and < 1.
    sensitivity : int, float, Fraction or Decimal
        L2 sensitivity over all coordinates, > 0; its square counts as in
        `fastdp.accounting.conversions.discrete_gaussian_log_delta`.
    coordinates : int, optional
        Maximum number of coordinates that one individual can change; None if unknown.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    CalibrationError
        sigma is outside [1e-3, 2^55].
    """
    target = log_down(_validate.open_unit("delta", delta))
    e = capped_epsilon(epsilon)
    s = _validate.positive("sensitivity", sensitivity)
    if coordinates is not None:
        coordinates = _validate.integer("coordinates", coordinates, 1)
    length = integer_l2(s)

    def excess(sigma: float) -> float:
        exact = Fraction(sigma)
        return _discrete_gaussian.log_delta(e, length, exact, coordinates) - target

    guess = analytic_sigma(e, target, max(s, Fraction(1)), SIGMA_RANGE)
    least = search("sigma", excess, guess, SIGMA_RANGE)
    return _lasting(least, excess, e, target, length, coordinates)


def _lasting(
    least: float,
    excess: Callable[[float], float],
    epsilon: Fraction,
    target: float,
    sensitivity: Fraction,
    coordinates: int | None,
) -> float:
    """Return the least sigma found above which ln(delta) stays within the target.

    `least` is within the target. From a sigma at which a falling bound meets the
    target, intervals are proved downward; for one coordinate, the last crossing is
    searched in its piece.
    """
    norm = max(1, int(sensitivity * sensitivity))
    single, shift = coordinates == 1 or norm == 1, math.isqrt(norm)
    moved = Fraction(shift) if single else sensitivity

    def steady(sigma: float) -> float:
        exact = Fraction(sigma)
        return _discrete_gaussian.steady_log_delta(epsilon, moved, exact) - target

    def crosses(low: float, high: float) -> bool:
        """Return whether delta crosses the target once between both and stays below."""
        ends = Fraction(low), Fraction(high)
        pieces = {_discrete_gaussian.piece(epsilon, shift, sigma) for sigma in ends}
        return single and len(pieces) == 1 and excess(low) > _SURELY * (1 - target)

    high = least  # or, to four digits, where the steady bound meets the target
    if steady(least) > 0:
        high = search("sigma", steady, least, SIGMA_RANGE, 1e-2, 1e-4)
    before, step = least * (1 - _BEFORE), high - least
    while high > least:
        if crosses(before, high):
            return least
        low = max(least, high - step)
        if low < high and target >= _discrete_gaussian.log_delta_between(
            epsilon, moved, Fraction(low), Fraction(high), coordinates
        ):
            high, step = low, 2 * step
        elif crosses(low, high):
            return root_above(excess, low, high)
        elif step < high * (_LAST if single else _LAST_OF_MANY):
            break
        else:
            step /= 2
    return high
