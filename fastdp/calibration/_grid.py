"""Noise parameters for real answers on a power-of-two grid."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fastdp import _validate
from fastdp._validate import SCALE_RANGE, SIGMA_RANGE, Real
from fastdp.accounting import _laplace
from fastdp.accounting._numeric import log_down, search, sqrt_up
from fastdp.accounting.conversions import discrete_gaussian_log_delta
from fastdp.calibration._search import (
    GRID_RANGE,
    analytic_sigma,
    least_laplace_scale,
    pure_guess,
    within,
)
from fastdp.exceptions import CalibrationError, ParameterError

#: Entries whose rounding the default grid is charged for, where nothing is said.
UNKNOWN_COORDINATES = 2**20
#: The grid is at least this much finer than the noise parameter, at most twice.
_GRID_BITS = 39


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

    Rounding changes every entry, also entries that one individual hardly changes. On
    the default grid, 2**-39 of the noise or finer, 2**20 entries are charged by
    default; on a given grid the charge can be large, and `coordinates` is required.

    Raises
    ------
    DTypeError, ParameterError
        `coordinates` is not an int >= 1, or missing with a granularity.
    """
    if coordinates is not None:
        return _validate.integer("coordinates", coordinates, 1, 2**63 - 1)
    if granularity is not None:
        raise ParameterError(
            "coordinates must be given with granularity: the maximum "
            "number of entries that one individual can change (1 for a "
            "single number); rounding moves each of them by up to one "
            "step"
        )
    return UNKNOWN_COORDINATES


def charged_l1(*, sensitivity: Real, coordinates: int, granularity: Real) -> Fraction:
    """Return sensitivity + coordinates * granularity, exactly.

    Rounding to the grid moves each entry by at most half a step on either side, so
    the L1 distance of two answers grows by at most one step per entry.
    """
    s = _validate.positive("sensitivity", sensitivity)
    n = _validate.integer("coordinates", coordinates, 1)
    return s + n * power_of_two(granularity)


def charged_l2(*, sensitivity: Real, coordinates: int, granularity: Real) -> Fraction:
    """Return sensitivity + sqrt(coordinates) * granularity, rounded up.

    The root is replaced by a rational that is not smaller (by less than 2^-80).
    """
    s = _validate.positive("sensitivity", sensitivity)
    n = _validate.integer("coordinates", coordinates, 1)
    return s + sqrt_up(Fraction(n)) * power_of_two(granularity)


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

    It uses the exact rho of the discrete law on the grid. Parameters and errors are as
    in `grid_laplace_scale`, with `rho` > 0 in place of epsilon.
    """
    r = _validate.positive("rho", rho)
    n = grid_coordinates(coordinates=coordinates, granularity=granularity)
    s = _validate.positive("sensitivity", sensitivity)

    def least(g: Fraction) -> Fraction:
        return least_laplace_scale(
            r, charged_l1(sensitivity=s, coordinates=n, granularity=g), g
        )

    rough = s / Fraction(pure_guess(r))
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

    It uses the exact Renyi divergence of the discrete law on the grid. Parameters and
    errors are as in `grid_laplace_scale`, with `order` in (1, 1e9] and `divergence` > 0
    in place of epsilon.
    """
    # Here, so that what needs no curve loads none.
    from fastdp.accounting._renyi.curves import DiscreteLaplaceCurve

    a, d = _order(order), _validate.positive("divergence", divergence)
    n = grid_coordinates(coordinates=coordinates, granularity=granularity)
    s = _validate.positive("sensitivity", sensitivity)
    # Divergence grows with the order: a bound at a larger one holds.
    gap = _validate.float_up(a - 1)
    limit = _validate.float_down(Fraction(gap) * d * (1 - Fraction(1, 2**50)))
    rough = Fraction(pure_guess(d))

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
    """Return divergence/order, the rho of Gaussian noise with this divergence.

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

    (sensitivity + sqrt(coordinates) g)/sqrt(2 rho). Parameters and errors are as in
    `grid_gaussian_sigma`, with `rho` > 0 in place of epsilon and delta.
    """
    r = _validate.positive("rho", rho)
    n = grid_coordinates(coordinates=coordinates, granularity=granularity)

    def least(g: Fraction) -> Fraction:
        charged = charged_l2(sensitivity=sensitivity, coordinates=n, granularity=g)
        sigma = within("sigma", sqrt_up(charged * charged / (2 * r)), GRID_RANGE)
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
    """Return the least sigma found of Gaussian noise on the grid for (epsilon, delta).

    The evaluated bound is for the discrete law on the grid, at the charged sensitivity
    `charged_l2`; the continuous law is not used.

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
        guess = analytic_sigma(e, target, charged, limits)
        return Fraction(search("sigma", excess, guess, limits))

    rough = Fraction(analytic_sigma(e, target, s, GRID_RANGE))
    return float(_on_grid("sigma", least, rough, granularity, SIGMA_RANGE[0]))


def power_of_two(granularity: Real) -> Fraction:
    """Return a step > 0 as an exact rational; refuse it if it is no power of two."""
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
    within(name, rough, GRID_RANGE)
    if granularity is not None:
        g = power_of_two(granularity)
        result = within(name, least(g), GRID_RANGE)
        within(f"{name}/granularity", result / g, (finest, Fraction(2) ** 40))
        return result
    g = grid_granularity(rough)
    for _ in range(8):
        # More noise is always allowed: at least the grid's own least parameter.
        result = max(least(g), g * Fraction(2**_GRID_BITS))
        within(name, result, GRID_RANGE)
        if grid_granularity(result) == g:
            return result
        g = grid_granularity(result)
    raise CalibrationError(
        f"no grid of 2^-{_GRID_BITS} {name} keeps the rounding of this many "
        "coordinates within the budget; give coordinates=, the maximum number of "
        "entries that one individual can change, or a finer granularity"
    )
