"""Guarantees that follow from the parameters of an event.

Each function takes the parameters of an event and returns a guarantee that holds
with certainty: floats are rounded up (toward less privacy claimed), rationals are
exact. Where no bound is proved, `UnsupportedEventError` is raised. The proofs are
in docs/proofs/calibration.md.

`*_log_delta` returns the natural logarithm of delta, which is meaningful far below
the smallest double; `*_delta` is its exponential; `*_epsilon` inverts the profile.
Parameters are int, float, Fraction or Decimal and are taken at their exact value.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

from fastdp import _validate
from fastdp._special import SQRT_HALF_PI
from fastdp._validate import Real
from fastdp.accounting import _discrete_gaussian, _gaussian, _laplace, _zcdp
from fastdp.accounting._numeric import (
    decimal_up,
    exp_up,
    float_down,
    float_up,
    integer_l2,
    log_down,
    precise,
    root_above,
    sqrt_float_up,
    to_decimal,
)
from fastdp.exceptions import ParameterError, UnsupportedEventError

__all__ = [
    "discrete_gaussian_delta",
    "discrete_gaussian_epsilon",
    "discrete_gaussian_log_delta",
    "discrete_laplace_delta",
    "discrete_laplace_epsilon",
    "discrete_laplace_log_delta",
    "discrete_laplace_rho",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_log_delta",
    "gaussian_rho",
    "laplace_delta",
    "laplace_rho",
    "pure_epsilon",
    "pure_to_mu",
    "pure_to_rho",
    "truncated_laplace_delta",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_log_delta",
    "zcdp_to_rho",
]

#: Profiles are constant from here on for every purpose: delta(epsilon) falls with
#: epsilon, so evaluating at a smaller epsilon is safe.
_EPSILON_CAP = Fraction(10**15)
#: 1/rho up to which `zcdp_to_rho` searches.
_LARGEST_INVERSE = 1e100


def capped_epsilon(epsilon: Real) -> Fraction:
    """Return epsilon >= 0 as an exact rational, at most 10^15."""
    return min(_validate.nonnegative("epsilon", epsilon), _EPSILON_CAP)


# Laplace laws


def pure_epsilon(*, sensitivity: Real, scale: Real) -> Fraction:
    """Return the exact pure epsilon sensitivity/scale of (discrete) Laplace noise.

    Parameters
    ----------
    sensitivity : int, float, Fraction or Decimal
        L1 sensitivity, > 0, over all coordinates together.
    scale : int, float, Fraction or Decimal
        Scale of the noise, > 0, in the same unit.

    Returns
    -------
    Fraction
        epsilon; `fastdp._validate.float_up` makes a double of it.
    """
    return _validate.positive("sensitivity", sensitivity) / _validate.positive(
        "scale", scale
    )


def discrete_laplace_log_delta(
    *, epsilon: Real, sensitivity: Real, scale: Real
) -> float:
    """Return ln delta(epsilon) of discrete Laplace noise, exact and rounded up.

    It holds for any number of coordinates under an L1 `sensitivity`; the worst case
    changes one coordinate by the whole sensitivity. The result is -inf from the pure
    epsilon on. Integer answers change by integers, so the sensitivity is rounded down,
    but not below 1.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        >= 0.
    sensitivity, scale : int, float, Fraction or Decimal
        L1 sensitivity and scale, > 0, in units of the lattice.
    """
    return _laplace.log_delta(
        capped_epsilon(epsilon),
        _validate.positive("sensitivity", sensitivity),
        _validate.positive("scale", scale),
    )


def discrete_laplace_delta(*, epsilon: Real, sensitivity: Real, scale: Real) -> float:
    """Return delta(epsilon) of discrete Laplace noise (see the log form)."""
    return exp_up(
        discrete_laplace_log_delta(
            epsilon=epsilon, sensitivity=sensitivity, scale=scale
        )
    )


def discrete_laplace_epsilon(*, delta: Real, sensitivity: Real, scale: Real) -> float:
    """Return the least epsilon of discrete Laplace noise at `delta`, rounded up.

    Parameters
    ----------
    delta : int, float, Fraction or Decimal
        >= 0 and < 1; 0 means the pure epsilon.
    sensitivity, scale : int, float, Fraction or Decimal
        L1 sensitivity and scale, > 0, in units of the lattice.
    """
    d = below_one(delta)
    s = _validate.positive("sensitivity", sensitivity)
    b = _validate.positive("scale", scale)
    pure = float_up(_laplace.whole(s) / b)
    if d == 0:
        return float_up(s / b)
    return invert(lambda e: _laplace.log_delta(e, s, b), d, pure)


def discrete_laplace_rho(*, sensitivity: Real, scale: Real) -> float:
    """Return the exact rho of discrete Laplace noise under zCDP, rounded up.

    rho = a (s - 2 q (1 - q^s)/(1 - q^2)) with a = 1/scale, q = exp(-a), and s the L1
    sensitivity rounded down to an integer (at least 1). It exceeds the continuous law's
    epsilon + exp(-epsilon) - 1, which is not a bound here.
    """
    return _laplace.rho(
        _validate.positive("sensitivity", sensitivity),
        _validate.positive("scale", scale),
    )


def laplace_delta(*, epsilon: Real, sensitivity: Real, scale: Real) -> float:
    """Return delta(epsilon) of continuous Laplace noise, rounded up.

    1 - exp((epsilon - sensitivity/scale)/2), for any number of coordinates.
    """
    pure = pure_epsilon(sensitivity=sensitivity, scale=scale)
    return exp_up(_laplace.continuous_log_delta(capped_epsilon(epsilon), pure))


def laplace_rho(*, sensitivity: Real, scale: Real) -> float:
    """Return e + exp(-e) - 1, e = sensitivity/scale, of continuous Laplace noise.

    Rounded up. It is not a bound for the discrete law.
    """
    return _laplace.continuous_rho(pure_epsilon(sensitivity=sensitivity, scale=scale))


def truncated_laplace_delta(
    *, epsilon: Real, sensitivity: Real, scale: Real, bound: int
) -> float:
    """Return delta of discrete Laplace noise redrawn until it is in {-bound..bound}.

    With s the sensitivity, it is the exact probability of the s largest outcomes,
    rounded up. It holds at epsilon >= sensitivity/scale, for any number of coordinates.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        At least sensitivity/scale.
    sensitivity, scale : int, float, Fraction or Decimal
        L1 sensitivity and scale before truncation, > 0, in units of the lattice.
    bound : int
        At least the sensitivity.

    Raises
    ------
    UnsupportedEventError
        epsilon is below sensitivity/scale: no bound is proved there.
    """
    s = _validate.positive("sensitivity", sensitivity)
    b = _validate.positive("scale", scale)
    shift = _laplace.whole(s)
    limit = _validate.integer("bound", bound, shift)
    if _validate.nonnegative("epsilon", epsilon) < shift / b:
        raise UnsupportedEventError(
            "epsilon of truncated Laplace noise must be >= sensitivity/scale "
            f"= {float_up(shift / b)!r}, got {_validate.shown(epsilon)}"
        )
    return _laplace.truncated_tail(shift, b, limit)


# Gaussian laws


def gaussian_rho(*, sensitivity: Real, sigma: Real) -> Fraction:
    """Return the exact rho = sensitivity^2/(2 sigma^2) of (discrete) Gaussian noise.

    Parameters
    ----------
    sensitivity, sigma : int, float, Fraction or Decimal
        L2 sensitivity and parameter of the noise, > 0, in one unit.
    """
    s = _validate.positive("sensitivity", sensitivity)
    width = _validate.positive("sigma", sigma)
    return s * s / (2 * width * width)


def gaussian_log_delta(*, epsilon: Real, sensitivity: Real, sigma: Real) -> float:
    """Return ln delta(epsilon) of continuous Gaussian noise, rounded up.

    It is the analytic profile (Balle and Wang 2018, Theorem 8), exact up to 1e-12. It
    is not a bound for the discrete law.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        >= 0.
    sensitivity, sigma : int, float, Fraction or Decimal
        L2 sensitivity and standard deviation, > 0, in one unit.
    """
    s = _validate.positive("sensitivity", sensitivity)
    return _gaussian.log_delta(
        capped_epsilon(epsilon), s / _validate.positive("sigma", sigma)
    )


def gaussian_delta(*, epsilon: Real, sensitivity: Real, sigma: Real) -> float:
    """Return delta(epsilon) of continuous Gaussian noise (see the log form)."""
    return exp_up(
        gaussian_log_delta(epsilon=epsilon, sensitivity=sensitivity, sigma=sigma)
    )


def gaussian_epsilon(*, delta: Real, sensitivity: Real, sigma: Real) -> float:
    """Return the least epsilon of continuous Gaussian noise at `delta`, rounded up.

    Parameters
    ----------
    delta : int, float, Fraction or Decimal
        > 0 and < 1.
    sensitivity, sigma : int, float, Fraction or Decimal
        L2 sensitivity and standard deviation, > 0, in one unit.
    """
    d = _validate.open_unit("delta", delta)
    rho = gaussian_rho(sensitivity=sensitivity, sigma=sigma)
    mu = _validate.exact("sensitivity", sensitivity) / _validate.exact("sigma", sigma)
    high = _zcdp.epsilon(log_down(d), rho)
    return invert(lambda e: _gaussian.log_delta(e, mu), d, high)


def discrete_gaussian_log_delta(
    *, epsilon: Real, sensitivity: Real, sigma: Real, coordinates: int | None = None
) -> float:
    """Return an upper bound on ln delta(epsilon) of discrete Gaussian noise.

    It is exact (up to 1e-11) if one coordinate changes and sigma is below a few
    thousand, and for squared sensitivities up to 16 with sigma < 8. Otherwise it is the
    analytic profile plus a proved allowance, or the best conversion from zCDP. Integer
    answers change by integer vectors: the squared sensitivity is rounded down (to at
    least 1), or up if it is less than 2**-20 below an integer (`math.sqrt(3)`).

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        >= 0.
    sensitivity, sigma : int, float, Fraction or Decimal
        L2 sensitivity over all coordinates and parameter of the law, > 0, in units
        of the lattice.
    coordinates : int, optional
        Maximum number of coordinates that one individual can change; None if unknown.
    """
    return _discrete_gaussian.log_delta(
        capped_epsilon(epsilon),
        integer_l2(_validate.positive("sensitivity", sensitivity)),
        _validate.positive("sigma", sigma),
        _coordinates(coordinates),
    )


def discrete_gaussian_delta(
    *, epsilon: Real, sensitivity: Real, sigma: Real, coordinates: int | None = None
) -> float:
    """Return a bound on delta(epsilon) of discrete Gaussian noise (see log form)."""
    return exp_up(
        discrete_gaussian_log_delta(
            epsilon=epsilon,
            sensitivity=sensitivity,
            sigma=sigma,
            coordinates=coordinates,
        )
    )


def discrete_gaussian_epsilon(
    *, delta: Real, sensitivity: Real, sigma: Real, coordinates: int | None = None
) -> float:
    """Return an epsilon that discrete Gaussian noise meets at `delta`, rounded up.

    Parameters
    ----------
    delta : int, float, Fraction or Decimal
        > 0 and < 1.
    sensitivity, sigma, coordinates
        As for `discrete_gaussian_log_delta`.
    """
    d = _validate.open_unit("delta", delta)
    s = integer_l2(_validate.positive("sensitivity", sensitivity))
    width = _validate.positive("sigma", sigma)
    n = _coordinates(coordinates)
    norm = max(Fraction(1), s * s)
    high = _zcdp.epsilon(log_down(d), norm / (2 * width * width))
    return invert(lambda e: _discrete_gaussian.log_delta(e, s, width, n), d, high)


# Zero-concentrated privacy


def pure_to_rho(epsilon: Real) -> float:
    """Return epsilon tanh(epsilon/2), the exact rho of pure epsilon, rounded up."""
    e = _validate.nonnegative("epsilon", epsilon)
    context = precise(60)
    d = to_decimal(-e, context).exp(context)
    share = context.divide(context.subtract(1, d), context.add(1, d))
    if 4 * e < Fraction(1, 10**20):  # 1 - d would cancel: tanh(x) <= x
        return float_up(e * e / 2)
    return decimal_up(
        context.multiply(to_decimal(e, context), share), Fraction(1, 10**25)
    )


def rho_of_pure(epsilon: Fraction) -> Fraction:
    """Return the rational rho of pure privacy, rounded up; 0 for 0."""
    return least_rho(pure_to_rho(epsilon), epsilon)


def least_rho(rho: float, epsilon: Fraction) -> Fraction:
    """Return the smaller of a rho (which may be inf) and a pure epsilon's rho."""
    return min(Fraction(rho), epsilon) if rho < math.inf else epsilon


def pure_to_mu(epsilon: Real) -> float:
    """Return mu of the Gaussian privacy that pure epsilon implies, rounded up.

    -2 Phi^-1(1/(1 + e^epsilon)) is the least such mu: the two trade-off functions touch
    there, and each half of the Gaussian function lies below its chord, which is the
    pure function.
    """
    e = _validate.nonnegative("epsilon", epsilon)
    # Phi(-x) <= exp(-x^2/2)/2 and 1/(1 + e^epsilon) >= exp(-epsilon)/2.
    limit = 2 * sqrt_float_up(2 * e)
    if e > 600:
        return limit
    if e < Fraction(1, 50):  # the series up to e^5; the sum of all else is negative
        x = float(e) ** 2
        series = 1 + x * (math.pi / 48 - 1 / 12 + x * 9.7e-4)
        return float_up(Fraction(SQRT_HALF_PI * series * (1 + 2e-15)) * e)
    tail = math.exp(-float(e)) / (1 + math.exp(-float(e)))
    half = -NormalDist().inv_cdf(tail * (1 - 1e-14))
    return min(limit, 2 * half * (1 + 4e-15))


def zcdp_log_delta(*, epsilon: Real, rho: Real) -> float:
    """Return ln delta at `epsilon` that rho-zCDP implies, at the best order.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        >= 0.
    rho : int, float, Fraction or Decimal
        >= 0.

    References
    ----------
    Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy"
    (2020), Corollary 13.
    """
    exact = _validate.nonnegative("rho", rho)
    return _zcdp.log_delta_from(capped_epsilon(epsilon), exact, Fraction(0))


def zcdp_delta(*, epsilon: Real, rho: Real) -> float:
    """Return delta at `epsilon` that rho-zCDP implies (see the log form)."""
    return exp_up(zcdp_log_delta(epsilon=epsilon, rho=rho))


def zcdp_epsilon(*, delta: Real, rho: Real) -> float:
    """Return epsilon at `delta` of rho-zCDP, at the best order, rounded up."""
    d = _validate.open_unit("delta", delta)
    exact = _validate.nonnegative("rho", rho)
    return _zcdp.epsilon_from(log_down(d), exact, Fraction(0))


def zcdp_to_rho(*, epsilon: Real, delta: Real) -> float:
    """Return the largest rho that implies (epsilon, delta), rounded down.

    It is 0.0 if that rho is below 1e-100.
    """
    e = capped_epsilon(epsilon)
    target = log_down(_validate.open_unit("delta", delta))

    def excess(inverse: float) -> float:
        return _zcdp.log_delta(e, 1 / Fraction(inverse)) - target

    # From epsilon <= rho + 2 sqrt(rho ln(1/delta)); then outward by doubling.
    root = math.sqrt(-target + float(e)) - math.sqrt(-target)
    start = 1 / max(root * root, math.exp(2 * target) / 8, 1 / _LARGEST_INVERSE)
    low = high = start
    if excess(start) > 0:
        while excess(high) > 0:
            if high >= _LARGEST_INVERSE:
                return 0.0
            low, high = high, min(2 * high, _LARGEST_INVERSE)
    else:
        while excess(low) <= 0:
            low, high = low / 2, low
    return float_down(1 / Fraction(root_above(excess, low, high)))


# Helpers


def below_one(delta: Real) -> Fraction:
    """Return delta as an exact rational; it must be >= 0 and < 1."""
    if type(delta) is float:  # asked again and again by those who compose adaptively
        return _float_below_one(delta)
    return _below_one(delta)


def _below_one(delta: Real) -> Fraction:
    d = _validate.nonnegative("delta", delta)
    if d >= 1:
        raise ParameterError(
            f"delta must be >= 0 and < 1, got {_validate.shown(delta)}"
        )
    return d


_float_below_one = functools.lru_cache(maxsize=64)(_below_one)


def up_to_one(delta: Real) -> Fraction:
    """Return delta as an exact rational; it must be >= 0 and <= 1."""
    return _validate.between("delta", delta, Fraction(0), Fraction(1))


def _coordinates(coordinates: int | None) -> int | None:
    if coordinates is None:
        return None
    return _validate.integer("coordinates", coordinates, 1)


def invert(
    log_delta: Callable[[Fraction], float], delta: Fraction, high: float
) -> float:
    """Return an epsilon in [0, high] at which log_delta was checked, or `high`.

    Another argument must show that `high` meets delta.
    """
    target = log_down(delta)

    def excess(epsilon: float) -> float:
        return max(log_delta(Fraction(epsilon)), -1e300) - target

    if excess(0.0) <= 0:
        return 0.0
    if high == math.inf or excess(high) > 0:
        return high
    return min(high, root_above(excess, 0.0, high))
