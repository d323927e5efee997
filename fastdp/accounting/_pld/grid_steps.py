"""Which grid of losses fits a composition, and the laws of its steps there."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from fastdp.accounting._pld.discrete_gaussian import DiscreteGaussianLoss
from fastdp.accounting._pld.grid import (
    Cells,
    GridComposition,
    GridLaw,
    better_law,
    cells_of,
    worse_law,
)
from fastdp.accounting._pld.grid_profile import MOST_TERMS, GridProfile, GridReading
from fastdp.accounting._pld.interval_loss import IntervalLoss, fitting_step
from fastdp.accounting._pld.losses import Floats, Loss
from fastdp.accounting._pld.memory import numbers
from fastdp.accounting._pld.merged_cells import merged_ends, merged_law
from fastdp.accounting._pld.repeated_atoms import Sums, largest_power, sums_of
from fastdp.accounting._pld.sampled_cells import sampled_cells, sampled_range
from fastdp.accounting._pld.sampled_loss import SampledGaussianLoss
from fastdp.accounting._pld.simple_losses import AtomLoss, LaplaceLoss, ScatteredLoss
from fastdp.accounting._pld.subset_loss import SubsetGaussianLoss

#: Cells that the widest law of a single step should have, and the most there may be.
_CELLS, _MOST_CELLS = 1 << 17, numbers(128)

#: Cells that the whole composition may have, which reaches over so many deviations.
_MOST_WHOLE, _REACH = 1 << 18, 30.0

#: The same with a density that no contour has served.
_DENSE_CELLS, _MOST_DENSE = 1 << 18, 1 << 21

#: Losses with a density that takes long to cut into cells.
_DENSE = SampledGaussianLoss | SubsetGaussianLoss

Steps = tuple[tuple[Loss, int], ...]

#: Most points of a lattice's unit, once it takes in another unit.
_FINER = 64

#: Falls of the tilted mass from one loss to the next, in logarithms.
_STEEPEST = 100.0

#: Most steps with a density, of which every one adds to the width.
_MOST_STEPS = 20_000

#: ln of the mass beyond all cells, for deltas that are larger, and the least.
_LOG_TAIL, _LEAST_TAIL = -90.0, -700.0

#: Widths of a step's loss beyond which a grid is not tried.
_WIDEST = 2000.0


Law = Loss | Sums


def grid_profile(
    steps: Steps, theta: float, epsilon: float, tail: float | None = None
) -> GridProfile:
    """Return bounds from laws on grids, tilted by theta, good near epsilon.

    `tail` is ln of the mass that may be left out beyond the cells, if that is known.

    Raises
    ------
    OverflowError
        A grid would have to be too long, or there are laws that are not by cells.
    """
    lattices, rest = _split(steps)
    if not rest:  # a larger tilt would leave nothing but the largest loss
        theta = min(theta, _STEEPEST / float(min(unit for unit, _ in lattices)))
    parts = [(_on_lattice(unit, own, theta), own) for unit, own in lattices]
    parts.sort(key=lambda part: part[0].size)
    largest = None if rest else parts.pop()
    while math.prod(part.size for part, _ in parts) > MOST_TERMS:
        rest += parts.pop()[1]
    terms = [part for part, _ in parts]
    if largest is not None and not rest:
        reading = GridReading(largest[0], terms)
        return GridProfile(reading, reading, theta)
    if largest is not None:  # others are on a grid now, and so it joins them
        rest += largest[1]
    if tail is None:
        tail = _tail(steps, theta, epsilon)
    tail = max(_LEAST_TAIL, tail - math.log(sum(n for _, n in rest)))
    worse, better = _on_grid(rest, theta, tail)
    return GridProfile(GridReading(worse, terms), GridReading(better, terms), theta)


def _split(steps: Steps) -> tuple[list[tuple[Fraction, Steps]], Steps]:
    """Return the units of lattices with their steps, and the steps that are on none."""
    lattices: list[tuple[Fraction, Steps]] = []
    rest: Steps = ()
    for loss, count in steps:
        fresh = loss.unit if isinstance(loss, AtomLoss | ScatteredLoss) else None
        if fresh is None:
            rest += ((loss, count),)
            continue
        for i, (unit, own) in enumerate(lattices):
            both = _common(unit, fresh)
            if both * _FINER >= max(unit, fresh):
                lattices[i] = both, (*own, (loss, count))
                break
        else:
            lattices.append((fresh, ((loss, count),)))
    return lattices, rest


@functools.lru_cache(maxsize=16)
def _on_lattice(unit: Fraction, steps: Steps, theta: float) -> GridComposition:
    """Return the composition of atoms that are all multiples of the unit."""
    laws = []
    for loss, count in steps:
        cells = _cells(loss, float(unit), theta, _LOG_TAIL)
        if cells.rise.any():
            raise OverflowError("losses are not as close to multiples as they should")
        laws.append((worse_law(cells), count))
    return GridComposition(laws, theta)


def _on_grid(
    steps: Steps, theta: float, tail: float
) -> tuple[GridComposition, GridComposition]:
    """Return a worse and a better composition on one grid."""
    dense = any(isinstance(loss, _DENSE) for loss, _ in steps)
    if dense and sum(n for _, n in steps) > _MOST_STEPS:
        raise OverflowError("too many steps")
    step, fitted = _fitted(steps, theta, tail)
    laws = [(_laws(law, step, theta, tail), count) for law, count in fitted]
    worse, better = (
        GridComposition([(law[i], count) for law, count in laws], theta) for i in (0, 1)
    )
    return worse, better


def _tail(steps: Steps, theta: float, epsilon: float) -> float:
    """Return ln of the mass that may lie beyond all cells."""
    level = sum(n * _cumulant(loss, theta) for loss, n in steps) - theta * epsilon
    return _LOG_TAIL + min(0.0, level)


def _cumulant(loss: Loss, t: float) -> float:
    return float(loss.cumulants(np.array([t]))[0][0])


def _fitted(
    steps: Steps, theta: float, tail: float
) -> tuple[float, list[tuple[Law, int]]]:
    """Return a step that suits the laws, and the laws, with few losses summed up.

    On a lattice of all losses, where that is feasible, there is nothing to sum up.
    """
    spread = _REACH * _deviation(steps, theta)
    units = [_unit(loss) for loss, _ in steps]
    known = [unit for unit in units if unit is not None]
    common = float(functools.reduce(_common, known)) if known else 0.0
    laws: list[tuple[Law, int]] = list(steps)
    if len(known) == len(units):
        widest = max(_width(loss, theta, tail) for loss, _ in steps)
        finest = max((widest + spread) / _MOST_WHOLE / 8, widest / _MOST_CELLS)
        aligned = not any(isinstance(loss, LaplaceLoss) for loss, _ in steps)
        if aligned and widest <= _WIDEST and finest < common:
            return common, laws
    laws = [part for loss, n in steps for part in _gathered(loss, n, tail)]
    widest = max(_width(law, theta, tail) for law, _ in laws)
    if not (widest <= _WIDEST and math.isfinite(spread)):
        raise OverflowError("too wide a law")
    cells, whole = _CELLS, _MOST_WHOLE
    if any(isinstance(loss, _DENSE) for loss, _ in steps):
        cells, whole = _DENSE_CELLS, _MOST_DENSE
    target = max(widest / cells, (widest + spread) / whole)
    if common > target:
        return common / math.ceil(common / target), laws
    if len(steps) == 1 and isinstance(steps[0][0], SampledGaussianLoss):
        # Most of the mass may be next to the end of the losses: it is a grid point.
        end = -math.log1p(-steps[0][0].probability)
        return (end / math.ceil(end / target) if 4 * end > target else target), laws
    if len(steps) == 1 and isinstance(steps[0][0], IntervalLoss):
        return fitting_step(steps[0][0].ends_at, target), laws
    return target, laws


def _gathered(loss: Loss, count: int, tail: float) -> list[tuple[Law, int]]:
    """Return the steps with few losses summed up, so that sums lie close together."""
    if not isinstance(loss, AtomLoss | ScatteredLoss):
        return [(loss, count)]
    one = sums_of(loss).trimmed(tail)
    size = largest_power(one.losses.size, count)
    whole, rest = divmod(count, size)
    parts: list[tuple[Law, int]] = [(one.power(size).trimmed(tail), whole)]
    return [*parts, (one.power(rest).trimmed(tail), 1)] if rest else parts


def _width(law: Law, theta: float, tail: float) -> float:
    """Return the distance of a loss's ends.

    Raises
    ------
    OverflowError
        The law is not known by cells.
    """
    match law:
        case AtomLoss() | ScatteredLoss() | Sums():
            return float(law.losses[-1] - law.losses[0])
        case LaplaceLoss(epsilon=e):
            return 2 * float(e)
        case IntervalLoss():
            return law.span[1] - law.span[0]
        case DiscreteGaussianLoss():
            return float(2 * law.unit) * 2 * law.reach(tail)
        case SubsetGaussianLoss():
            low, high = law.span(tail, theta)
            return high - low
        case SampledGaussianLoss():
            ends = sampled_range(law, tail, theta)[1]
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


def _deviation(steps: Steps, theta: float) -> float:
    """Return about the standard deviation of the tilted sum, from differences of K."""
    near = theta * np.array([0.8, 1.0, 1.2])
    total = np.zeros(3)
    for loss, n in steps:
        total += n * loss.cumulants(near)[0]
    with np.errstate(invalid="ignore"):
        bend = float(total[0] - 2 * total[1] + total[2]) / (0.2 * theta) ** 2
    return math.sqrt(max(bend, 0.0)) if math.isfinite(bend) else math.inf


def _common(a: Fraction, b: Fraction) -> Fraction:
    """Return the largest number of which both are multiples."""
    scale = math.lcm(a.denominator, b.denominator)
    return Fraction(math.gcd(int(a * scale), int(b * scale)), scale)


@functools.lru_cache(maxsize=8)
def _laws(law: Law, step: float, theta: float, tail: float) -> tuple[GridLaw, GridLaw]:
    """Return the worse and the better law of a step."""
    cells = _cells(law, step, theta, tail)
    if isinstance(law, Sums | ScatteredLoss | SubsetGaussianLoss):
        return worse_law(cells), merged_law(cells, theta)
    if isinstance(law, SampledGaussianLoss):
        return worse_law(cells), merged_ends(cells, theta)
    return worse_law(cells), better_law(cells)


def _cells(law: Law, step: float, theta: float, tail: float) -> Cells:
    match law:
        case AtomLoss(masses=masses):
            return cells_of(step, law.losses, np.array(masses))
        case ScatteredLoss(masses=masses):
            return _blurred(cells_of(step, law.losses, masses), law.blur)
        case Sums():
            found = cells_of(step, law.losses, law.masses)
            return _blurred(found, law.blur, law.high, law.low)
        case LaplaceLoss():
            return _laplace_cells(law, step)
        case IntervalLoss():
            return law.cells(step)
        case DiscreteGaussianLoss():
            atoms = law.atoms(tail)
            found = cells_of(step, atoms.losses, atoms.masses)
            return _blurred(found, atoms.blur, float(atoms.lost))
        case SubsetGaussianLoss():
            return law.cells(step, tail, theta)
        case SampledGaussianLoss():
            return sampled_cells(law, step, tail, theta)
    raise OverflowError("a law that is not by cells")


def _blurred(cells: Cells, blur: float, high: float = 0.0, low: float = 0.0) -> Cells:
    """Return the cells of losses that err by `blur` more, with masses outside."""
    return Cells(
        cells.step,
        cells.first,
        cells.mass,
        cells.rise,
        cells.high + high,
        cells.low + low,
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
