"""Noise for floats: Laplace and Gaussian."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Never, TypedDict, TypeVar, Unpack

from fastdp import _validate, calibration
from fastdp._validate import Real
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Relation,
)
from fastdp.mechanisms._base import ADD, refuse
from fastdp.mechanisms.noise._grid import OnGrid
from fastdp.mechanisms.noise._law import GAUSSIAN, LAPLACE


class Grid(TypedDict, total=False):
    """Arguments that a `from_*` constructor passes on to the main constructor."""

    neighboring_relation: Relation
    coordinates: int | None
    granularity: Real | None
    answer_bounds: tuple[Real, Real] | None


_Constructor = TypeVar("_Constructor", bound=Callable[..., Any])


class _Charge(TypedDict):
    coordinates: int | None
    granularity: Real | None


def _charge(grid: Grid) -> _Charge:
    """Return the arguments that set the charge for rounding to the grid."""
    return {
        "coordinates": grid.get("coordinates"),
        "granularity": grid.get("granularity"),
    }


def _shows_grid(made: _Constructor) -> _Constructor:
    """Let `help` and signatures name the arguments of `Grid`, with their defaults."""
    signature = inspect.signature(made)
    own = [p for p in signature.parameters.values() if p.name != "grid"]
    grid = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=ADD if name == "neighboring_relation" else None,
            annotation=kind,
        )
        for name, kind in Grid.__annotations__.items()
    ]
    vars(made)["__signature__"] = signature.replace(parameters=[*own, *grid])
    return made


class Laplace(OnGrid[DiscreteLaplaceEvent]):
    """Laplace noise for floats: pure differential privacy.

    Parameters
    ----------
    scale : int, float, Fraction or Decimal
        Scale of the noise, in the data's unit, > 0.
    sensitivity : int, float, Fraction or Decimal, optional
        L1 sensitivity over all entries together that the noise is for, > 0; without it
        the mechanism has no cost until `event` gets one.
    neighboring_relation : NeighboringRelation
        The relation for which the sensitivity holds.
    coordinates : int, optional
        Maximum number of entries that one individual can change: each is charged one
        step of the grid. Required with `granularity`; None charges for 2**20 entries,
        and `release` refuses larger arrays.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid, a power of two above scale/2**40; None takes the least such
        step.
    answer_bounds : tuple of two real numbers, optional
        The true answers are clamped to [low, high] before the noise; the released
        value may lie outside. These do not bound records: clamp records yourself.

    Privacy
    -------
    For an answer of L1 sensitivity s over all entries together: pure epsilon =
    (s + coordinates * granularity)/scale, under the sensitivity's neighboring relation.
    Exact: the noise is discrete Laplace on the grid.

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

    _row = LAPLACE

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
        made_for = self._calibrated_for(sensitivity, neighboring_relation)
        self._put_on_grid(scale, made_for, coordinates, granularity, answer_bounds)

    @classmethod
    @_shows_grid
    def from_epsilon(
        cls, epsilon: Real, *, sensitivity: Real, **grid: Unpack[Grid]
    ) -> Laplace:
        """Return the mechanism with the least noise for pure `epsilon`.

        `sensitivity` is in the L1 norm over all entries, in the data's unit; the scale
        also covers the rounding to the grid. `grid` accepts neighboring_relation,
        coordinates, granularity and answer_bounds of the constructor.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the scale that it needs, is out of range.
        """
        scale = calibration.grid_laplace_scale(
            epsilon=_validate.least_reading(epsilon),
            sensitivity=sensitivity,
            **_charge(grid),
        )
        return cls(scale, sensitivity=sensitivity, **grid)

    @classmethod
    @_shows_grid
    def from_rho(cls, rho: Real, *, sensitivity: Real, **grid: Unpack[Grid]) -> Laplace:
        """Return the mechanism with the least noise for rho-zCDP; see `from_epsilon`.

        From the discrete law's own rho; the scale is rounded up.
        """
        scale = calibration.grid_laplace_scale_from_rho(
            rho=rho, sensitivity=sensitivity, **_charge(grid)
        )
        return cls(scale, sensitivity=sensitivity, **grid)

    @classmethod
    @_shows_grid
    def from_rdp(
        cls,
        *,
        order: Real,
        divergence: Real,
        sensitivity: Real,
        **grid: Unpack[Grid],
    ) -> Laplace:
        """Return the mechanism with the least noise for a divergence of one order.

        It uses the discrete law's own Renyi divergence; the scale is rounded up.
        `order` is in (1, 1e9], `divergence` > 0. One order bounds other orders poorly:
        for composition, use `from_rho`, which bounds all orders. Everything else is as
        in `from_epsilon`.
        """
        scale = calibration.grid_laplace_scale_from_rdp(
            order=order, divergence=divergence, sensitivity=sensitivity, **_charge(grid)
        )
        return cls(scale, sensitivity=sensitivity, **grid)

    @property
    def scale(self) -> int | float | Fraction:
        """Scale of the noise, in the data's unit, exact."""
        return _validate.plain(self._parameter)


class Gaussian(OnGrid[DiscreteGaussianEvent]):
    """Gaussian noise for floats: concentrated and approximate privacy.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        Standard deviation of the noise, in the data's unit, > 0.
    sensitivity : int, float, Fraction or Decimal, optional
        L2 sensitivity over all entries together that the noise is for, > 0; without it
        the mechanism has no cost until `event` gets one.
    neighboring_relation : NeighboringRelation
        The relation for which the sensitivity holds.
    coordinates : int, optional
        Maximum number of entries that one individual can change: together they are
        charged sqrt(coordinates) steps of the grid. Required with `granularity`; None
        charges for 2**20 entries, and `release` refuses larger arrays.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid, a power of two above sigma/2**40; None takes the least such
        step.
    answer_bounds : tuple of two real numbers, optional
        As in `Laplace`.

    Privacy
    -------
    For an answer of L2 sensitivity s over all entries together: rho = (s +
    sqrt(coordinates) * granularity)**2/(2 sigma**2) zero-concentrated privacy, and
    (epsilon, delta) from a proved bound on the discrete law on the grid, under the
    sensitivity's neighboring relation. Exact.

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

    _row = GAUSSIAN

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
        made_for = self._calibrated_for(sensitivity, neighboring_relation)
        self._put_on_grid(sigma, made_for, coordinates, granularity, answer_bounds)

    @classmethod
    @_shows_grid
    def from_rho(
        cls, rho: Real, *, sensitivity: Real, **grid: Unpack[Grid]
    ) -> Gaussian:
        """Return the mechanism with the least noise for rho-zCDP, rounded up.

        `sensitivity` is in the L2 norm over all entries, in the data's unit; sigma also
        covers the rounding to the grid. `grid` accepts neighboring_relation,
        coordinates, granularity and answer_bounds of the constructor.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the sigma that it needs, is out of range.
        """
        sigma = calibration.grid_gaussian_sigma_from_rho(
            rho=rho, sensitivity=sensitivity, **_charge(grid)
        )
        return cls(sigma, sensitivity=sensitivity, **grid)

    @classmethod
    @_shows_grid
    def from_rdp(
        cls,
        *,
        order: Real,
        divergence: Real,
        sensitivity: Real,
        **grid: Unpack[Grid],
    ) -> Gaussian:
        """Return the mechanism with the least noise for a divergence of one order.

        `order` is in (1, 1e9], `divergence` > 0, a bound on the Renyi divergence.
        For Gaussian noise the divergence is rho times the order, so one order
        determines all: the result is `from_rho` of divergence/order. Everything else is
        as in `from_rho`.
        """
        return cls.from_rho(
            calibration.rho_from_rdp(order=order, divergence=divergence),
            sensitivity=sensitivity,
            **grid,
        )

    @classmethod
    @_shows_grid
    def from_epsilon_delta(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        sensitivity: Real,
        **grid: Unpack[Grid],
    ) -> Gaussian:
        """Return the mechanism with the least noise for (epsilon, delta).

        It uses a proved bound on the discrete law on the grid; `epsilon` may be 0.
        Everything else is as in `from_rho`.
        """
        sigma = calibration.grid_gaussian_sigma(
            epsilon=epsilon, delta=delta, sensitivity=sensitivity, **_charge(grid)
        )
        return cls(sigma, sensitivity=sensitivity, **grid)

    @property
    def sigma(self) -> int | float | Fraction:
        """Standard deviation of the noise, in the data's unit, exact."""
        return _validate.plain(self._parameter)
