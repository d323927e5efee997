"""Which grid of losses fits a composition, and the laws of its steps there."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from fastdp.accounting._grid import (
    Cells,
    GridLaw,
    GridProfile,
    better_law,
    cells_of,
    worse_law,
)
from fastdp.accounting._losses import Loss
from fastdp.accounting._sampled_cells import sampled_cells, sampled_range
from fastdp.accounting._sampled_loss import SampledGaussianLoss
from fastdp.accounting._simple_losses import AtomLoss, LaplaceLoss

#: Cells that the widest law of a single step should have.
_CELLS = 1 << 17

#: Most steps of laws that are not on the grid: every one adds to the width.
_MOST_STEPS = 20_000

#: ln of the mass beyond all cells.
_LOG_TAIL = -90.0

#: Widths of a step's loss beyond which a grid is not tried.
_WIDEST = 2000.0

#: How much coarser a grid may get by fours, so that the whole composition fits.
_COARSER = 1 << 12


def grid_profile(
    steps: tuple[tuple[Loss, int], ...], theta: float, epsilon: float
) -> GridProfile:
    """Return bounds from laws on a grid, tilted by theta, good near epsilon.

    Raises
    ------
    OverflowError
        A grid would have to be too long, or there are laws that are not by cells.
    """
    aligned = all(isinstance(loss, AtomLoss) for loss, _ in steps)
    if not aligned and sum(n for _, n in steps) > _MOST_STEPS:
        raise OverflowError("too many steps")
    cells = _CELLS
    while True:
        step = _step(steps, aligned, theta, cells)
        try:
            return _profile(steps, step, theta, epsilon)
        except OverflowError:
            cells //= 4
            if cells < _CELLS // _COARSER:
                raise


def _profile(
    steps: tuple[tuple[Loss, int], ...], step: float, theta: float, epsilon: float
) -> GridProfile:
    """Return bounds from laws on one grid."""
    worse: list[tuple[GridLaw, int]] = []
    better: list[tuple[GridLaw, int]] = []
    for loss, count in steps:
        high, low = _laws(loss, step, theta)
        worse.append((high, count))
        better.append((low, count))
    return GridProfile(worse, better, theta, epsilon)


def _step(
    steps: tuple[tuple[Loss, int], ...], aligned: bool, theta: float, cells: int
) -> float:
    """Return a step of which the losses' units are multiples, if that is feasible."""
    widths, units = [], []
    for loss, _ in steps:
        match loss:
            case AtomLoss(unit=unit, indices=indices):
                widths.append(float(unit * (indices[-1] - indices[0])))
                units.append(unit)
            case LaplaceLoss(epsilon=e):
                widths.append(2 * float(e))
                units.append(e)
            case SampledGaussianLoss():
                ends = sampled_range(loss, _LOG_TAIL, theta)[1]
                widths.append(float(ends[1] - ends[0]))
            case _:
                raise OverflowError("a law that is not by cells")
    widest = max(widths)
    if widest > _WIDEST:
        raise OverflowError("too wide a law")
    target = widest / cells
    if not units:
        return target
    common = functools.reduce(_common, units)
    if aligned and float(common) > target / 16:
        return float(common)
    if float(common) > target:
        return float(common) / math.ceil(float(common) / target)
    return target


def _common(a: Fraction, b: Fraction) -> Fraction:
    """Return the largest number of which both are multiples."""
    scale = math.lcm(a.denominator, b.denominator)
    return Fraction(math.gcd(int(a * scale), int(b * scale)), scale)


@functools.lru_cache(maxsize=32)
def _laws(loss: Loss, step: float, theta: float) -> tuple[GridLaw, GridLaw]:
    """Return the worse and the better law of a step."""
    cells = _cells(loss, step, theta)
    return worse_law(cells), better_law(cells)


def _cells(loss: Loss, step: float, theta: float) -> Cells:
    match loss:
        case AtomLoss(masses=masses):
            return cells_of(step, loss.losses, np.array(masses))
        case LaplaceLoss(epsilon=exact):
            return _laplace_cells(float(exact), step)
        case SampledGaussianLoss():
            return sampled_cells(loss, step, _LOG_TAIL, theta)
    raise OverflowError("a law that is not by cells")


def _laplace_cells(e: float, step: float) -> Cells:
    """Return the cells of Laplace noise: the middle has a cell's masses under P and Q.

    Of the density e^(l/2) the ratio of both masses between a and b is e^((a + b)/2).
    """
    inner = step * np.arange(math.floor(-e / step) + 1, math.ceil(e / step))
    edges = np.concatenate([[-e], inner[(inner > -e) & (inner < e)], [e]])
    middle = (edges[1:] + edges[:-1]) / 2
    width = np.diff(edges)
    mass = 0.5 * np.exp((edges[:-1] - e) / 2) * np.expm1(width / 2)
    losses = np.concatenate([middle, [e, -e]])
    return cells_of(step, losses, np.append(mass, [0.5, 0.5 * math.exp(-e)]))
