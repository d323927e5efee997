"""From the privacy one wants to the noise parameter that gives it.

Every result is rounded toward more privacy: exact rationals where the relation is
rational, otherwise a double at which the proved bound was evaluated and found to be
within the target. Discrete laws are calibrated from their own profiles; the
continuous formulas are not bounds for them. Proofs: docs/proofs/calibration.md.

`epsilon` may be 0 only for Gaussian noise with a delta; an infinite epsilon, a delta
of 0 or at least 1, and non-positive sensitivities are refused by name: with DTypeError
for a wrong type, else with ParameterError. Docstrings name what else can fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fastdp import _validate
from fastdp._validate import SCALE_RANGE, SIGMA_RANGE, Real
from fastdp.accounting import _discrete_gaussian, _laplace
from fastdp.accounting._numeric import (
    integer_l2,
    log_down,
    root_above,
    search,
    sqrt_float_up,
    sqrt_up,
)
from fastdp.accounting.conversions import (
    capped_epsilon,
    discrete_gaussian_log_delta,
    discrete_laplace_rho,
    gaussian_log_delta,
)
from fastdp.distributions import MAX_BOUND
from fastdp.exceptions import CalibrationError, ParameterError

__all__ = [
    "charged_l1",
    "charged_l2",
    "discrete_gaussian_sigma",
    "gaussian_sigma_from_rho",
    "grid_coordinates",
    "grid_gaussian_sigma",
    "grid_gaussian_sigma_from_rho",
    "grid_granularity",
    "grid_laplace_scale",
    "grid_laplace_scale_from_rdp",
    "grid_laplace_scale_from_rho",
    "laplace_scale",
    "laplace_scale_from_rho",
    "rho_from_rdp",
    "truncated_laplace_bound",
]

#: By what ln(delta) is surely above a target, relatively to its size; so far below a
#: crossing it is looked at; the last steps, of one coordinate and of several.
_SURELY, _BEFORE, _LAST, _LAST_OF_MANY = 1e-11, 1e-9, 1e-13, 1e-7
#: Parameters of noise on a power-of-two grid, in the data's unit.
GRID_RANGE = (Fraction(2) ** -900, Fraction(2) ** 900)
#: Entries whose rounding the default grid is charged for, where nothing is said.
UNKNOWN_COORDINATES = 2**20
#: The grid is at least this much finer than the noise parameter, at most twice.
_GRID_BITS = 39
#: Ratios beyond 2^950 are not searched.
_TINY = Fraction(2) ** -950


# Integer answers


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
    return _within("scale", s / e, SCALE_RANGE)


def laplace_scale_from_rho(*, rho: Real, sensitivity: Real) -> Fraction:
    """Return the least scale (to 1e-13) of discrete Laplace noise that is rho-zCDP.

    From the discrete law's exact rho; the result is a double, given as a Fraction.

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
    scale = _least_laplace_scale(r, s, Fraction(1))
    return _within("scale", scale, SCALE_RANGE)


def truncated_laplace_bound(*, epsilon: Real, delta: Real, sensitivity: Real) -> int:
    """Return the least bound A of truncated Laplace noise for (epsilon, delta).

    The noise has scale sensitivity/epsilon and is redrawn while outside {-A..A}. A
    is the least integer, not below the sensitivity, for which the exact probability
    of the sensitivity's largest outcomes is at most delta.

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
    _within("sigma", Fraction(sigma), SIGMA_RANGE)
    return sigma


def discrete_gaussian_sigma(
    *,
    epsilon: Real,
    delta: Real,
    sensitivity: Real,
    coordinates: int | None = None,
) -> float:
    """Return the sigma of discrete Gaussian noise from which on (epsilon, delta) holds.

    The delta of discrete noise does not fall everywhere as sigma grows: beyond the
    least sigma within `delta` it can be above it again (by up to 41 % in trials with
    sigma about 1). At the result, and at every larger sigma, the proved bound is at
    most `delta`. Just below (relatively 1e-12) it is not, where one coordinate moves;
    where several may, the result may be larger by a part in 10^6.

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
        Most coordinates that one individual can move; None when not known.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    CalibrationError
        sigma is outside [1e-3, 2^55].
    """
    target = log_down(_validate.open_unit("delta", delta))
    e = _validate.nonnegative("epsilon", epsilon)
    s = _validate.positive("sensitivity", sensitivity)

    def excess(sigma: float) -> float:
        return (
            discrete_gaussian_log_delta(
                epsilon=e, sensitivity=s, sigma=Fraction(sigma), coordinates=coordinates
            )
            - target
        )

    guess = _analytic_sigma(e, target, max(s, Fraction(1)), SIGMA_RANGE)
    least = search("sigma", excess, guess, SIGMA_RANGE)
    return _lasting(least, excess, e, target, integer_l2(s), coordinates)


def _lasting(
    least: float,
    excess: Callable[[float], float],
    epsilon: Fraction,
    target: float,
    sensitivity: Fraction,
    coordinates: int | None,
) -> float:
    """Return the least sigma found from which on ln(delta) stays within the target.

    `least` is within. From where a bound is met that falls, intervals are proved
    downward; the last crossing of one coordinate is looked for in its piece.
    """
    epsilon = capped_epsilon(epsilon)
    norm = max(1, int(sensitivity * sensitivity))
    single, shift = coordinates == 1 or norm == 1, math.isqrt(norm)
    moved = Fraction(shift) if single else sensitivity

    def steady(sigma: float) -> float:
        exact = Fraction(sigma)
        return _discrete_gaussian.steady_log_delta(epsilon, moved, exact) - target

    def crosses(low: float, high: float) -> bool:
        """Return whether delta falls below the target once between both, for good."""
        ends = Fraction(low), Fraction(high)
        pieces = {_discrete_gaussian.piece(epsilon, shift, sigma) for sigma in ends}
        return single and len(pieces) == 1 and excess(low) > _SURELY * (1 - target)

    high = least if steady(least) <= 0 else search("sigma", steady, least, SIGMA_RANGE)
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


# Real answers on a power-of-two grid


def grid_granularity(parameter: Real) -> Fraction:
    """Return the power of two g with parameter/g in [2^39, 2^40).

    Parameters
    ----------
    parameter : int, float, Fraction or Decimal
        Scale or sigma of the noise, > 0, in the data's unit.

    Raises
    ------
    DTypeError, ParameterError
        `parameter` is not a finite positive real.
    """
    value = _validate.positive("parameter", parameter)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:
        exponent -= 1
    return Fraction(2) ** (exponent - _GRID_BITS)


def grid_coordinates(*, coordinates: int | None, granularity: Real | None) -> int:
    """Return the number of entries for which rounding to the grid is charged.

    Rounding moves every entry, also those that one individual hardly changes. On the
    default grid, 2**-39 of the noise or finer, 2**20 entries are charged where
    nothing is said; on a grid of one's own the charge can be large, and is asked for.

    Raises
    ------
    DTypeError, ParameterError
        `coordinates` is not an int >= 1, or missing with a granularity.
    """
    if coordinates is not None:
        return _validate.integer("coordinates", coordinates, 1, 2**63 - 1)
    if granularity is not None:
        raise ParameterError(
            "coordinates must be given with granularity: the maximum number of entries "
            "that one individual can change (1 for a single number), each of which "
            "rounding moves by up to one step"
        )
    return UNKNOWN_COORDINATES


def charged_l1(*, sensitivity: Real, coordinates: int, granularity: Real) -> Fraction:
    """Return sensitivity + coordinates * granularity, exactly.

    Rounding to the grid moves each entry by at most half a step on either side, so
    the L1 distance of two answers grows by at most one step an entry.
    """
    s = _validate.positive("sensitivity", sensitivity)
    n = _validate.integer("coordinates", coordinates, 1)
    return s + n * _power_of_two(granularity)


def charged_l2(*, sensitivity: Real, coordinates: int, granularity: Real) -> Fraction:
    """Return sensitivity + sqrt(coordinates) * granularity, rounded up.

    The root is replaced by a rational that is not smaller (by less than 2^-80).
    """
    s = _validate.positive("sensitivity", sensitivity)
    n = _validate.integer("coordinates", coordinates, 1)
    return s + sqrt_up(Fraction(n)) * _power_of_two(granularity)


def grid_laplace_scale(
    *,
    epsilon: Real,
    sensitivity: Real,
    coordinates: int | None = None,
    granularity: Real | None = None,
) -> Fraction:
    """Return the exact scale of Laplace noise on the grid for pure epsilon.

    (sensitivity + coordinates * g)/epsilon, g = `granularity` or, when None,
    `grid_granularity` of the result.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        > 0.
    sensitivity : int, float, Fraction or Decimal
        L1 sensitivity over all coordinates, > 0, in the data's unit.
    coordinates : int, optional
        Maximum number of entries that one individual can change: required with
        `granularity`, 2**20 without either.
    granularity : int, float, Fraction or Decimal, optional
        A power of two in the data's unit.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    CalibrationError
        No scale in the supported range, or no grid fits.
    """
    e = _validate.positive("epsilon", epsilon)
    n = grid_coordinates(coordinates=coordinates, granularity=granularity)

    def least(g: Fraction) -> Fraction:
        return charged_l1(sensitivity=sensitivity, coordinates=n, granularity=g) / e

    rough = _validate.positive("sensitivity", sensitivity) / e
    return _on_grid("scale", least, rough, granularity, SCALE_RANGE[0])


def grid_laplace_scale_from_rho(
    *,
    rho: Real,
    sensitivity: Real,
    coordinates: int | None = None,
    granularity: Real | None = None,
) -> Fraction:
    """Return the least scale (to 1e-13) of rho-zCDP Laplace noise on the grid.

    From the exact rho of the discrete law on the grid. Parameters and errors are
    those of `grid_laplace_scale`, with `rho` > 0 in place of epsilon.
    """
    r = _validate.positive("rho", rho)
    n = grid_coordinates(coordinates=coordinates, granularity=granularity)
    s = _validate.positive("sensitivity", sensitivity)

    def least(g: Fraction) -> Fraction:
        return _least_laplace_scale(
            r, charged_l1(sensitivity=s, coordinates=n, granularity=g), g
        )

    rough = s / Fraction(_pure_guess(r))
    return _on_grid("scale", least, rough, granularity, SCALE_RANGE[0])


def grid_laplace_scale_from_rdp(
    *,
    order: Real,
    divergence: Real,
    sensitivity: Real,
    coordinates: int | None = None,
    granularity: Real | None = None,
) -> Fraction:
    """Return the least scale (to 1e-13) of Laplace noise on the grid for one order.

    From the exact Renyi divergence of the discrete law on the grid. Parameters and
    errors are those of `grid_laplace_scale`, with `order` in (1, 1e9] and
    `divergence` > 0 in place of epsilon.
    """
    # Here, so that what needs no curve loads none.
    from fastdp.accounting._renyi.curves import DiscreteLaplaceCurve

    a, d = _order(order), _validate.positive("divergence", divergence)
    n = grid_coordinates(coordinates=coordinates, granularity=granularity)
    s = _validate.positive("sensitivity", sensitivity)
    # Divergence grows with the order: a bound at a larger one holds.
    gap = _validate.float_up(a - 1)
    limit = _validate.float_down(Fraction(gap) * d * (1 - Fraction(1, 2**50)))
    rough = Fraction(_pure_guess(d))

    def least(g: Fraction) -> Fraction:
        charged = charged_l1(sensitivity=s, coordinates=n, granularity=g)
        shift = _laplace.whole(charged / g)

        def excess(scale: float) -> float:
            curve = DiscreteLaplaceCurve(shift, g / Fraction(scale))
            return float(curve.log_moment(np.array([gap]))[0]) - limit

        guess = float(min(charged / rough, GRID_RANGE[1]))
        return Fraction(search("scale", excess, guess, GRID_RANGE))

    return _on_grid("scale", least, s / rough, granularity, SCALE_RANGE[0])


def rho_from_rdp(*, order: Real, divergence: Real) -> Fraction:
    """Return divergence/order, the rho of Gaussian noise with this at one order.

    Parameters
    ----------
    order : int, float, Fraction or Decimal
        In (1, 1e9].
    divergence : int, float, Fraction or Decimal
        Renyi divergence of that order, > 0.
    """
    a = _order(order)
    return _validate.positive("divergence", divergence) / a


def _order(order: Real) -> Fraction:
    a = _validate.exact("order", order)
    if not 1 < a <= 10**9:
        raise ParameterError(
            f"order must be > 1 and at most 1e9, got {_validate.shown(order)}"
        )
    return a


def grid_gaussian_sigma_from_rho(
    *,
    rho: Real,
    sensitivity: Real,
    coordinates: int | None = None,
    granularity: Real | None = None,
) -> float:
    """Return sigma of rho-zCDP Gaussian noise on the grid, rounded up.

    (sensitivity + sqrt(coordinates) g)/sqrt(2 rho). Parameters and errors are those
    of `grid_gaussian_sigma`, with `rho` > 0 in place of epsilon and delta.
    """
    r = _validate.positive("rho", rho)
    n = grid_coordinates(coordinates=coordinates, granularity=granularity)

    def least(g: Fraction) -> Fraction:
        charged = charged_l2(sensitivity=sensitivity, coordinates=n, granularity=g)
        sigma = _within("sigma", sqrt_up(charged * charged / (2 * r)), GRID_RANGE)
        return Fraction(_validate.float_up(sigma))

    s = _validate.positive("sensitivity", sensitivity)
    rough = sqrt_up(s * s / (2 * r))
    return float(_on_grid("sigma", least, rough, granularity, SIGMA_RANGE[0]))


def grid_gaussian_sigma(
    *,
    epsilon: Real,
    delta: Real,
    sensitivity: Real,
    coordinates: int | None = None,
    granularity: Real | None = None,
) -> float:
    """Return a least sigma of Gaussian noise on the grid for (epsilon, delta).

    The bound evaluated is that of the discrete law on the grid, for the charged
    sensitivity `charged_l2`: nothing is assumed about the continuous law.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        >= 0.
    delta : int, float, Fraction or Decimal
        > 0 and < 1.
    sensitivity : int, float, Fraction or Decimal
        L2 sensitivity over all coordinates, > 0, in the data's unit.
    coordinates : int, optional
        Maximum number of entries that one individual can change: required with
        `granularity`, 2**20 without either.
    granularity : int, float, Fraction or Decimal, optional
        A power of two in the data's unit; None takes `grid_granularity` of the
        result.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    CalibrationError
        No sigma in the supported range, or no grid fits.
    """
    target = log_down(_validate.open_unit("delta", delta))
    e = _validate.nonnegative("epsilon", epsilon)
    n = grid_coordinates(coordinates=coordinates, granularity=granularity)
    s = _validate.positive("sensitivity", sensitivity)

    def least(g: Fraction) -> Fraction:
        charged = charged_l2(sensitivity=s, coordinates=n, granularity=g)

        def excess(sigma: float) -> float:
            width = Fraction(sigma) / g
            return discrete_gaussian_log_delta(
                epsilon=e, sensitivity=charged / g, sigma=width, coordinates=n
            ) - (target)

        limits = max(GRID_RANGE[0], SIGMA_RANGE[0] * g), GRID_RANGE[1]
        guess = _analytic_sigma(e, target, charged, limits)
        return Fraction(search("sigma", excess, guess, limits))

    rough = Fraction(_analytic_sigma(e, target, s, GRID_RANGE))
    return float(_on_grid("sigma", least, rough, granularity, SIGMA_RANGE[0]))


# Helpers


def _within(name: str, value: Fraction, limits: tuple[Fraction, Fraction]) -> Fraction:
    low, high = limits
    if not low <= value <= high:
        raise CalibrationError(
            f"{name} must be in [{float(low):.6g}, {float(high):.6g}], but "
            f"{_shown(value)} is needed"
        )
    return value


def _shown(value: Fraction) -> str:
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        return "a number beyond the range of doubles"


def _power_of_two(granularity: Real) -> Fraction:
    g = _validate.positive("granularity", granularity)
    if g.numerator & (g.numerator - 1) or g.denominator & (g.denominator - 1):
        raise ParameterError(f"granularity must be a power of two, got {granularity!r}")
    return g


def _on_grid(
    name: str,
    least: Callable[[Fraction], Fraction],
    rough: Fraction,
    granularity: Real | None,
    finest: Fraction,
) -> Fraction:
    """Return the least parameter on its own grid, or on the one given."""
    _within(name, rough, GRID_RANGE)
    if granularity is not None:
        g = _power_of_two(granularity)
        result = _within(name, least(g), GRID_RANGE)
        _within(f"{name}/granularity", result / g, (finest, Fraction(2) ** 40))
        return result
    g = grid_granularity(rough)
    for _ in range(8):
        # More noise is always allowed: at least the grid's own least parameter.
        result = max(least(g), g * Fraction(2**_GRID_BITS))
        _within(name, result, GRID_RANGE)
        if grid_granularity(result) == g:
            return result
        g = grid_granularity(result)
    raise CalibrationError(
        f"no grid of 2^-{_GRID_BITS} {name} keeps the rounding of this many "
        "coordinates within the budget; give coordinates=, the maximum number of "
        "entries that one individual can change, or a finer granularity"
    )


def _pure_guess(rho: Fraction) -> float:
    """Return a pure epsilon whose Laplace noise has at least this KL divergence.

    With v^2 = 2 rho it is v + v^2/2, and v - 1 + e^-(v + v^2/2) >= 0. Less would start
    on too coarse a grid, which asks for more noise.
    """
    r = float(rho)
    if r == 0.0:
        raise CalibrationError("no scale in the supported range has so small a target")
    return r + math.sqrt(2 * r)


def _least_laplace_scale(rho: Fraction, sensitivity: Fraction, g: Fraction) -> Fraction:
    """Return the least double scale whose exact rho on the grid g is <= rho."""
    limit = _validate.float_down(rho)

    def excess(scale: float) -> float:
        return (
            discrete_laplace_rho(sensitivity=sensitivity / g, scale=Fraction(scale) / g)
            - limit
        )

    guess = float(min(sensitivity / Fraction(_pure_guess(rho)), GRID_RANGE[1]))
    return Fraction(search("scale", excess, guess, GRID_RANGE))


def _analytic_sigma(
    epsilon: Fraction,
    target: float,
    sensitivity: Fraction,
    limits: tuple[Fraction, Fraction],
) -> float:
    """Return about the sigma of the continuous Gaussian: a start for searches.

    Where none within `limits` meets the target, or all do, the limit is returned.
    """

    def excess(mu_inverse: float) -> float:
        return (
            gaussian_log_delta(
                epsilon=epsilon, sensitivity=1, sigma=Fraction(mu_inverse)
            )
            - target
        )

    low, high = (min(max(x / sensitivity, _TINY), 1 / _TINY) for x in limits)
    if excess(float(high)) > 0:
        return _validate.float_down(limits[1])
    if excess(float(low)) <= 0:
        return _validate.float_up(limits[0])
    e = float(min(epsilon, Fraction(10**15)))
    root = math.sqrt(e - target) + math.sqrt(-target)
    tilted = root / max(math.sqrt(2) * e, 1e-280)
    guess = min(tilted, math.exp(min(-target, 600.0)) / 2)
    inverse = search("sigma", excess, guess, (low, high), step=0.25, relative=1e-6)
    return float(Fraction(inverse) * sensitivity)
