"""Which grid of losses fits a composition, and the laws of its steps there."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from fastdp.accounting._discrete_gaussian_loss import DiscreteGaussianLoss
from fastdp.accounting._grid import (
    Cells,
    GridLaw,
    GridProfile,
    better_law,
    cells_of,
    worse_law,
)
from fastdp.accounting._interval_loss import IntervalLoss
from fastdp.accounting._losses import Floats, Loss
from fastdp.accounting._sampled_cells import sampled_cells, sampled_range
from fastdp.accounting._sampled_loss import SampledGaussianLoss
from fastdp.accounting._scattered_cells import FEW, fitting_step, mixed_law
from fastdp.accounting._simple_losses import AtomLoss, LaplaceLoss, ScatteredLoss

#: Cells that the widest law of a single step should have, and the most there may be.
_CELLS, _MOST_CELLS = 1 << 17, 1 << 20

#: Cells that the whole composition may have, which reaches over so many deviations.
_MOST_WHOLE, _REACH = 1 << 20, 30.0

#: Most steps with a density, of which every one adds to the width.
_MOST_STEPS = 20_000

#: ln of the mass beyond all cells, for deltas that are larger, and the least.
_LOG_TAIL, _LEAST_TAIL = -90.0, -700.0

#: Widths of a step's loss beyond which a grid is not tried.
_WIDEST = 2000.0


def grid_profile(
    steps: tuple[tuple[Loss, int], ...], theta: float, epsilon: float
) -> GridProfile:
    """Return bounds from laws on a grid, tilted by theta, good near epsilon.

    Raises
    ------
    OverflowError
        A grid would have to be too long, or there are laws that are not by cells.
    """
    dense = any(isinstance(loss, SampledGaussianLoss) for loss, _ in steps)
    if dense and sum(n for _, n in steps) > _MOST_STEPS:
        raise OverflowError("too many steps")
    level = sum(n * _cumulant(loss, theta) for loss, n in steps) - theta * epsilon
    tail = max(_LEAST_TAIL, _LOG_TAIL + min(0.0, level))
    step = _step(steps, theta, tail)
    worse: list[tuple[GridLaw, int]] = []
    better: list[tuple[GridLaw, int]] = []
    for loss, count in steps:
        high, low = _laws(loss, step, theta, tail)
        worse.append((high, count))
        better.append((low, count))
    return GridProfile(worse, better, theta, epsilon)


def _cumulant(loss: Loss, t: float) -> float:
    return float(loss.cumulants(np.array([t]))[0][0])


def _step(steps: tuple[tuple[Loss, int], ...], theta: float, tail: float) -> float:
    """Return a step of which the losses' units are multiples, if that is feasible."""
    widest = max(_width(loss, theta, tail) for loss, _ in steps)
    if not widest <= _WIDEST:
        raise OverflowError("too wide a law")
    whole = widest + _REACH * _deviation(steps, theta)
    target = max(widest / _CELLS, whole / _MOST_WHOLE)
    units = [unit for loss, _ in steps if (unit := _unit(loss)) is not None]
    if not units:
        free = [loss for loss, _ in steps if isinstance(loss, ScatteredLoss)]
        return fitting_step(free[0].losses, target) if len(free) == 1 else target
    common = float(functools.reduce(_common, units))
    finest = max(whole / _MOST_WHOLE, widest / _MOST_CELLS)
    aligned = len(units) == len(steps) and not any(
        isinstance(loss, LaplaceLoss) for loss, _ in steps
    )
    if aligned and finest < 2 * common:
        return common
    return common / math.ceil(common / target) if common > target else target


def _width(loss: Loss, theta: float, tail: float) -> float:
    """Return the distance of a loss's ends.

    Raises
    ------
    OverflowError
        The law is not known by cells.
    """
    match loss:
        case AtomLoss() | ScatteredLoss():
            return float(loss.losses[-1] - loss.losses[0])
        case LaplaceLoss(epsilon=e):
            return 2 * float(e)
        case IntervalLoss():
            return loss.span[1] - loss.span[0]
        case DiscreteGaussianLoss():
            return float(2 * loss.unit) * 2 * loss.reach(tail)
        case SampledGaussianLoss():
            ends = sampled_range(loss, tail, theta)[1]
            return float(ends[1] - ends[0])
    raise OverflowError("a law that is not by cells")


def _unit(loss: Loss) -> Fraction | None:
    """Return what all losses with a mass of their own are multiples of."""
    match loss:
        case AtomLoss(unit=unit) | ScatteredLoss(unit=unit):
            return unit
        case LaplaceLoss(epsilon=e, ends=True):
            return e
        case DiscreteGaussianLoss():
            return loss.unit
    return None


def _deviation(steps: tuple[tuple[Loss, int], ...], theta: float) -> float:
    """Return about the standard deviation of the tilted sum, from differences of K."""
    near = theta * np.array([0.8, 1.0, 1.2])
    total = np.zeros(3)
    for loss, n in steps:
        total += n * loss.cumulants(near)[0]
    bend = float(total[0] - 2 * total[1] + total[2]) / (0.2 * theta) ** 2
    return math.sqrt(max(bend, 0.0)) if math.isfinite(bend) else math.inf


def _common(a: Fraction, b: Fraction) -> Fraction:
    """Return the largest number of which both are multiples."""
    scale = math.lcm(a.denominator, b.denominator)
    return Fraction(math.gcd(int(a * scale), int(b * scale)), scale)


@functools.lru_cache(maxsize=8)
def _laws(
    loss: Loss, step: float, theta: float, tail: float
) -> tuple[GridLaw, GridLaw]:
    """Return the worse and the better law of a step."""
    cells = _cells(loss, step, theta, tail)
    worse = worse_law(cells)
    if isinstance(loss, ScatteredLoss) and 2 <= loss.losses.size <= FEW:
        mixed = mixed_law(step, loss.losses, loss.masses, loss.blur)
        if mixed is not None:
            return worse, mixed
    return worse, better_law(cells)


def _cells(loss: Loss, step: float, theta: float, tail: float) -> Cells:
    match loss:
        case AtomLoss(masses=masses):
            return cells_of(step, loss.losses, np.array(masses))
        case ScatteredLoss(masses=masses):
            return _blurred(cells_of(step, loss.losses, masses), loss.blur)
        case LaplaceLoss():
            return _laplace_cells(loss, step)
        case IntervalLoss():
            return loss.cells(step)
        case DiscreteGaussianLoss():
            law = loss.atoms(tail)
            found = cells_of(step, law.losses, law.masses)
            return _blurred(found, law.blur, float(law.lost))
        case SampledGaussianLoss():
            return sampled_cells(loss, step, tail, theta)
    raise OverflowError("a law that is not by cells")


def _blurred(cells: Cells, blur: float, high: float = 0.0) -> Cells:
    """Return the cells of losses that err by `blur` more, with `high` above them."""
    return Cells(
        cells.step,
        cells.first,
        cells.mass,
        cells.rise,
        cells.high + high,
        cells.low,
        cells.blur + blur,
    )


def _laplace_cells(loss: LaplaceLoss, step: float) -> Cells:
    """Return the cells of Laplace noise: the middle has a cell's masses under P and Q.

    Of the density e^(l/2) the ratio of both masses between a and b is e^((a + b)/2).
    """
    e = float(loss.epsilon)
    inner = step * np.arange(math.floor(-e / step) + 1, math.ceil(e / step))
    edges = np.concatenate([[-e], inner[(inner > -e) & (inner < e)], [e]])
    middle: Floats = (edges[1:] + edges[:-1]) / 2
    width = np.diff(edges)
    mass = 2 * loss.top * np.exp((edges[:-1] - e) / 2) * np.expm1(width / 2)
    if loss.ends:
        middle = np.concatenate([middle, [e, -e]])
        mass = np.append(mass, [0.5, 0.5 * math.exp(-e)])
    return cells_of(step, middle, mass)
