"""From what a mechanism did to what it guarantees.

Each function takes the parameters of an event and returns a guarantee that holds
with certainty: floats are rounded up (toward less privacy claimed), rationals are
exact. Where no bound is proved, `UnsupportedEventError` is raised. The proofs are
in docs/proofs/calibration.md.

`*_log_delta` returns the natural logarithm of delta, which is meaningful far below
the smallest double; `*_delta` is its exponential; `*_epsilon` inverts the profile.
Parameters are int, float, Fraction or Decimal and are taken at their exact value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting import _discrete_gaussian, _gaussian, _laplace, _zcdp
from fastdp.accounting import events as ev
from fastdp.accounting._numeric import (
    decimal_up,
    exp_up,
    float_down,
    float_up,
    log_down,
    precise,
    root_above,
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
    "event_delta",
    "event_epsilon",
    "event_rho",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_log_delta",
    "gaussian_rho",
    "group_delta",
    "group_epsilon",
    "group_rho",
    "laplace_delta",
    "laplace_rho",
    "pure_epsilon",
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


def _epsilon(epsilon: Real) -> Fraction:
    return min(_validate.nonnegative("epsilon", epsilon), _EPSILON_CAP)


# Laplace laws


def pure_epsilon(sensitivity: Real, scale: Real) -> Fraction:
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

    Raises
    ------
    DTypeError, ParameterError
        A parameter is not a finite positive real.
    """
    return _validate.positive("sensitivity", sensitivity) / _validate.positive(
        "scale", scale
    )


def discrete_laplace_log_delta(epsilon: Real, sensitivity: Real, scale: Real) -> float:
    """Return ln of the exact delta(epsilon) of discrete Laplace noise, rounded up.

    Holds for any number of coordinates under an L1 `sensitivity`: one coordinate
    moved by all of it is the worst case. -inf from the pure epsilon on. Integer
    answers move by integers, so the sensitivity is rounded down, but not below 1.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        >= 0.
    sensitivity, scale : int, float, Fraction or Decimal
        L1 sensitivity and scale, > 0, in units of the lattice.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    return _laplace.log_delta(
        _epsilon(epsilon),
        _validate.positive("sensitivity", sensitivity),
        _validate.positive("scale", scale),
    )


def discrete_laplace_delta(epsilon: Real, sensitivity: Real, scale: Real) -> float:
    """Return delta(epsilon) of discrete Laplace noise (see the log form)."""
    return exp_up(discrete_laplace_log_delta(epsilon, sensitivity, scale))


def discrete_laplace_epsilon(delta: Real, sensitivity: Real, scale: Real) -> float:
    """Return the least epsilon of discrete Laplace noise at `delta`, rounded up.

    Parameters
    ----------
    delta : int, float, Fraction or Decimal
        >= 0 and < 1; 0 asks for the pure epsilon.
    sensitivity, scale : int, float, Fraction or Decimal
        L1 sensitivity and scale, > 0, in units of the lattice.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    d = _below_one(delta)
    s = _validate.positive("sensitivity", sensitivity)
    b = _validate.positive("scale", scale)
    pure = float_up(_laplace.whole(s) / b)
    if d == 0:
        return float_up(s / b)
    return _invert(lambda e: _laplace.log_delta(e, s, b), d, pure)


def discrete_laplace_rho(sensitivity: Real, scale: Real) -> float:
    """Return the exact rho of discrete Laplace noise under zCDP, rounded up.

    rho = a (s - 2 q (1 - q^s)/(1 - q^2)) with a = 1/scale, q = exp(-a), s the L1
    sensitivity rounded down to an integer (not below 1). This exceeds the
    continuous law's epsilon + exp(-epsilon) - 1, which is no bound here.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is not a finite positive real.
    """
    return _laplace.rho(
        _validate.positive("sensitivity", sensitivity),
        _validate.positive("scale", scale),
    )


def laplace_delta(epsilon: Real, sensitivity: Real, scale: Real) -> float:
    """Return delta(epsilon) of continuous Laplace noise, rounded up.

    1 - exp((epsilon - sensitivity/scale)/2), for any number of coordinates.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    pure = pure_epsilon(sensitivity, scale)
    return exp_up(_laplace.continuous_log_delta(_epsilon(epsilon), pure))


def laplace_rho(sensitivity: Real, scale: Real) -> float:
    """Return e + exp(-e) - 1, e = sensitivity/scale, of continuous Laplace noise.

    Rounded up. It is not a bound for the discrete law.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is not a finite positive real.
    """
    return _laplace.continuous_rho(pure_epsilon(sensitivity, scale))


def truncated_laplace_delta(
    epsilon: Real, sensitivity: Real, scale: Real, bound: int
) -> float:
    """Return delta of discrete Laplace noise redrawn while outside {-bound..bound}.

    The exact probability of the sensitivity's largest outcomes, rounded up; it
    holds at epsilon >= sensitivity/scale, for any number of coordinates.

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
    DTypeError, ParameterError
        A parameter is out of its domain.
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
            f"= {float_up(shift / b)!r}, got {epsilon!r}"
        )
    return _laplace.truncated_tail(shift, b, limit)


# Gaussian laws


def gaussian_rho(sensitivity: Real, sigma: Real) -> Fraction:
    """Return the exact rho = sensitivity^2/(2 sigma^2) of (discrete) Gaussian noise.

    Parameters
    ----------
    sensitivity, sigma : int, float, Fraction or Decimal
        L2 sensitivity and parameter of the noise, > 0, in one unit.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is not a finite positive real.
    """
    s = _validate.positive("sensitivity", sensitivity)
    width = _validate.positive("sigma", sigma)
    return s * s / (2 * width * width)


def gaussian_log_delta(epsilon: Real, sensitivity: Real, sigma: Real) -> float:
    """Return ln delta(epsilon) of continuous Gaussian noise, rounded up.

    The analytic profile (Balle and Wang 2018, Theorem 8); exact up to 1e-12. It is
    not a bound for the discrete law.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        >= 0.
    sensitivity, sigma : int, float, Fraction or Decimal
        L2 sensitivity and standard deviation, > 0, in one unit.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    s = _validate.positive("sensitivity", sensitivity)
    return _gaussian.log_delta(
        _epsilon(epsilon), s / _validate.positive("sigma", sigma)
    )


def gaussian_delta(epsilon: Real, sensitivity: Real, sigma: Real) -> float:
    """Return delta(epsilon) of continuous Gaussian noise (see the log form)."""
    return exp_up(gaussian_log_delta(epsilon, sensitivity, sigma))


def gaussian_epsilon(delta: Real, sensitivity: Real, sigma: Real) -> float:
    """Return the least epsilon of continuous Gaussian noise at `delta`, rounded up.

    Parameters
    ----------
    delta : int, float, Fraction or Decimal
        > 0 and < 1.
    sensitivity, sigma : int, float, Fraction or Decimal
        L2 sensitivity and standard deviation, > 0, in one unit.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    d = _validate.open_unit("delta", delta)
    rho = gaussian_rho(sensitivity, sigma)
    mu = _validate.exact("sensitivity", sensitivity) / _validate.exact("sigma", sigma)
    high = _zcdp.epsilon(log_down(d), rho)
    return _invert(lambda e: _gaussian.log_delta(e, mu), d, high)


def discrete_gaussian_log_delta(
    epsilon: Real, sensitivity: Real, sigma: Real, coordinates: int | None = None
) -> float:
    """Return an upper bound of ln delta(epsilon) of discrete Gaussian noise.

    Exact (up to 1e-11) when one coordinate moves and sigma is below some thousand,
    and for squared sensitivities up to 16 with sigma < 8; otherwise the analytic
    profile plus a proved allowance, or the best conversion from zCDP. Integer
    answers move by integer vectors: the squared sensitivity is rounded down, but
    not below 1.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        >= 0.
    sensitivity, sigma : int, float, Fraction or Decimal
        L2 sensitivity over all coordinates and parameter of the law, > 0, in units
        of the lattice.
    coordinates : int, optional
        Most coordinates that one individual can move; None when not known.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    return _discrete_gaussian.log_delta(
        _epsilon(epsilon),
        _validate.positive("sensitivity", sensitivity),
        _validate.positive("sigma", sigma),
        _coordinates(coordinates),
    )


def discrete_gaussian_delta(
    epsilon: Real, sensitivity: Real, sigma: Real, coordinates: int | None = None
) -> float:
    """Return a bound of delta(epsilon) of discrete Gaussian noise (see log form)."""
    return exp_up(discrete_gaussian_log_delta(epsilon, sensitivity, sigma, coordinates))


def discrete_gaussian_epsilon(
    delta: Real, sensitivity: Real, sigma: Real, coordinates: int | None = None
) -> float:
    """Return an epsilon that discrete Gaussian noise meets at `delta`, rounded up.

    Parameters
    ----------
    delta : int, float, Fraction or Decimal
        > 0 and < 1.
    sensitivity, sigma, coordinates
        As for `discrete_gaussian_log_delta`.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    d = _validate.open_unit("delta", delta)
    s = _validate.positive("sensitivity", sensitivity)
    width = _validate.positive("sigma", sigma)
    n = _coordinates(coordinates)
    norm = max(Fraction(1), s * s)
    high = _zcdp.epsilon(log_down(d), norm / (2 * width * width))
    return _invert(lambda e: _discrete_gaussian.log_delta(e, s, width, n), d, high)


# Zero-concentrated and group privacy


def pure_to_rho(epsilon: Real) -> float:
    """Return epsilon tanh(epsilon/2), the exact rho of pure epsilon, rounded up.

    Raises
    ------
    DTypeError, ParameterError
        `epsilon` is not a finite positive real.
    """
    e = _validate.positive("epsilon", epsilon)
    context = precise(60)
    d = to_decimal(-e, context).exp(context)
    share = context.divide(context.subtract(1, d), context.add(1, d))
    if 4 * e < Fraction(1, 10**20):  # 1 - d would cancel: tanh(x) <= x
        return float_up(e * e / 2)
    return decimal_up(
        context.multiply(to_decimal(e, context), share), Fraction(1, 10**25)
    )


def zcdp_log_delta(epsilon: Real, rho: Real) -> float:
    """Return ln delta at `epsilon` that rho-zCDP implies, at the best order.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        >= 0.
    rho : int, float, Fraction or Decimal
        > 0.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.

    References
    ----------
    Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy"
    (2020), Corollary 13.
    """
    return _zcdp.log_delta(_epsilon(epsilon), _validate.positive("rho", rho))


def zcdp_delta(epsilon: Real, rho: Real) -> float:
    """Return delta at `epsilon` that rho-zCDP implies (see the log form)."""
    return exp_up(zcdp_log_delta(epsilon, rho))


def zcdp_epsilon(delta: Real, rho: Real) -> float:
    """Return epsilon at `delta` that rho-zCDP implies, at the best order, rounded up.

    Raises
    ------
    DTypeError, ParameterError
        delta is not in (0, 1) or rho is not a finite positive real.
    """
    d = _validate.open_unit("delta", delta)
    return _zcdp.epsilon(log_down(d), _validate.positive("rho", rho))


def zcdp_to_rho(epsilon: Real, delta: Real) -> float:
    """Return the largest rho that implies (epsilon, delta), rounded down.

    Raises
    ------
    DTypeError, ParameterError
        epsilon is negative or not finite, or delta is not in (0, 1).
    """
    e = _epsilon(epsilon)
    target = log_down(_validate.open_unit("delta", delta))

    def excess(inverse: float) -> float:
        return _zcdp.log_delta(e, 1 / Fraction(inverse)) - target

    # From epsilon <= rho + 2 sqrt(rho ln(1/delta)); then outward by doubling.
    root = math.sqrt(-target + float(e)) - math.sqrt(-target)
    inverse = 1 / max(root * root, math.exp(2 * target) / 8, 1e-290)
    low, high = inverse, inverse
    while excess(high) > 0:
        low, high = high, 2 * high
    while low == high or excess(low) <= 0:
        low, high = low / 2, (high if low == high else low)
    return float_down(1 / Fraction(root_above(excess, low, high)))


def group_epsilon(epsilon: Real, size: int) -> Fraction:
    """Return the exact pure epsilon of a group of `size` individuals.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    k = _validate.integer("size", size, 1)
    return k * _validate.nonnegative("epsilon", epsilon)


def group_delta(epsilon: Real, delta: Real, size: int) -> float:
    """Return delta of a group at `size` * epsilon, for an (epsilon, delta) guarantee.

    delta (exp(size epsilon) - 1)/(exp(epsilon) - 1), at most 1, rounded up.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    e = float_up(_epsilon(epsilon))
    d = float_up(_below_one(delta))
    k = _validate.integer("size", size, 1)
    if d == 0 or k == 1:
        return d
    # sum over i < k of exp(i e) = exp((k-1) e) (1 - exp(-k e))/(1 - exp(-e))
    share = math.log(math.expm1(-k * e) / math.expm1(-e)) if e > 0 else math.log(k)
    log_result = math.log(d) + (k - 1) * e + share
    slop = 1e-14 * (1 + (k - 1) * e + abs(math.log(d)))
    return 1.0 if log_result + slop >= 0 else exp_up(log_result + slop)


def group_rho(rho: Real, size: int) -> Fraction:
    """Return the exact rho of a group, size^2 rho (Bun and Steinke 2016, Prop 1.9).

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    k = _validate.integer("size", size, 1)
    return k * k * _validate.nonnegative("rho", rho)


# Any event


def event_epsilon(event: ev.Event, delta: Real = 0) -> float:
    """Return an epsilon that `event` meets at `delta`, rounded up.

    Parameters
    ----------
    event : Event
        One of the events of `fastdp.accounting.events`.
    delta : int, float, Fraction or Decimal
        >= 0 and < 1; 0 asks for pure privacy.

    Raises
    ------
    DTypeError, ParameterError
        delta is out of its domain.
    UnsupportedEventError
        The event is not known, or no finite epsilon is proved at this delta.
    """
    d = _below_one(delta)
    match event:
        case ev.DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return discrete_laplace_epsilon(d, s, b)
        case ev.LaplaceEvent(sensitivity=s, scale=b):
            pure = s / b
            if d == 0:
                return float_up(pure)
            return _invert(
                lambda e: _laplace.continuous_log_delta(e, pure), d, float_up(pure)
            )
        case ev.TruncatedDiscreteLaplaceEvent(sensitivity=s, scale=b, bound=bound):
            pure = _laplace.whole(s) / b
            if truncated_laplace_delta(pure, s, b, bound) <= d:
                return float_up(pure)
            raise UnsupportedEventError(
                f"{event!r} has a larger delta than {delta!r} at every epsilon"
            )
        case ev.GaussianEvent(sensitivity=s, sigma=width) if d > 0:
            return gaussian_epsilon(d, s, width)
        case ev.DiscreteGaussianEvent(sensitivity=s, sigma=width) if d > 0:
            return discrete_gaussian_epsilon(d, s, width, event.coordinates)
    raise UnsupportedEventError(
        f"no finite epsilon is known for {event!r} at {delta!r}"
    )


def event_delta(event: ev.Event, epsilon: Real) -> float:
    """Return a delta that `event` meets at `epsilon`, rounded up.

    Raises
    ------
    DTypeError, ParameterError
        epsilon is negative or not finite.
    UnsupportedEventError
        The event is not known, or no bound is proved at this epsilon.
    """
    match event:
        case ev.DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return discrete_laplace_delta(epsilon, s, b)
        case ev.LaplaceEvent(sensitivity=s, scale=b):
            return laplace_delta(epsilon, s, b)
        case ev.TruncatedDiscreteLaplaceEvent(sensitivity=s, scale=b, bound=bound):
            return truncated_laplace_delta(epsilon, s, b, bound)
        case ev.GaussianEvent(sensitivity=s, sigma=width):
            return gaussian_delta(epsilon, s, width)
        case ev.DiscreteGaussianEvent(sensitivity=s, sigma=width, coordinates=n):
            return discrete_gaussian_delta(epsilon, s, width, n)
    raise UnsupportedEventError(f"no delta is known for {event!r}")


def event_rho(event: ev.Event) -> float:
    """Return rho of `event` under zero-concentrated privacy, rounded up.

    Raises
    ------
    UnsupportedEventError
        The event has no finite rho (truncated noise) or is not known.
    """
    match event:
        case ev.DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return discrete_laplace_rho(s, b)
        case ev.LaplaceEvent(sensitivity=s, scale=b):
            return laplace_rho(s, b)
        case ev.GaussianEvent(sensitivity=s, sigma=width):
            return float_up(gaussian_rho(s, width))
        case ev.DiscreteGaussianEvent(sensitivity=s, sigma=width):
            return float_up(gaussian_rho(s, width))
    raise UnsupportedEventError(f"no finite rho is known for {event!r}")


# Helpers


def _below_one(delta: Real) -> Fraction:
    d = _validate.nonnegative("delta", delta)
    if d >= 1:
        raise ParameterError(f"delta must be >= 0 and < 1, got {delta!r}")
    return d


def _coordinates(coordinates: int | None) -> int | None:
    if coordinates is None:
        return None
    return _validate.integer("coordinates", coordinates, 1)


def _invert(
    log_delta: Callable[[Fraction], float], delta: Fraction, high: float
) -> float:
    """Return an epsilon in [0, high] where log_delta was checked, or high itself.

    `high` must be known to meet delta by another argument.
    """
    target = log_down(delta)

    def excess(epsilon: float) -> float:
        return max(log_delta(Fraction(epsilon)), -1e300) - target

    if excess(0.0) <= 0:
        return 0.0
    if excess(high) > 0:
        return high
    return min(high, root_above(excess, 0.0, high))
