"""Few scattered losses on a grid: a law that is provably less than they are.

Where a law has only few values, far apart in units of the grid, cells cannot be merged
by threes. Instead every value takes in a little of the largest or of the least one,
just as much as moves it to the nearest point of the grid (theorem 14 of
docs/proofs/numerical_accounting.md).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fastdp.accounting._grid import GridLaw
from fastdp.accounting._losses import Floats, U

#: Values up to which a law counts as few.
FEW = 256

#: Distances from the grid, in units of the losses, that count as none.
_ON_GRID = 1e-12


def mixed_law(
    step: float, losses: Floats, masses: Floats, blur: float
) -> GridLaw | None:
    """Return a better law on the grid, None where values are too close for that.

    Parameters
    ----------
    step : float
        Distance of the grid's points.
    losses, masses : ndarray of float64, shape (n,)
        Losses, ascending, and their masses under P; n >= 2.
    blur : float
        Bound of the errors of the losses.
    """
    index = np.rint(losses / step)
    index[0] = math.ceil(losses[0] / step - _ON_GRID * (1 + abs(losses[0]) / step))
    index[-1] = math.floor(losses[-1] / step + _ON_GRID * (1 + abs(losses[-1]) / step))
    if not (index[0] < index[1:-1]).all() or not (index[1:-1] < index[-1]).all():
        return None
    if index[0] >= index[-1]:
        return None
    points = step * index
    inner = _moved(losses, masses, points)
    if inner is None:
        return None
    total, taken_low, taken_high = inner
    low, high = masses[0] * (1 - taken_low), masses[-1] * (1 - taken_high)
    # Both ends together, on the two points inside of them: as much of P and Q.
    gain = high * -math.expm1(points[0] - losses[-1])
    gain -= low * math.expm1(points[0] - losses[0])
    upper = gain / -math.expm1(points[0] - points[-1])
    if not 0 <= upper <= low + high:
        return None
    total[0], total[-1] = low + high - upper, upper
    first = int(index[0])
    law = np.bincount(index.astype(np.int64) - first, total)
    away = blur + 8 * U * float(np.abs(losses).max())
    return GridLaw(step, first, np.asarray(law, dtype=np.float64), 0.0, away)


def _moved(
    losses: Floats, masses: Floats, points: Floats
) -> tuple[Floats, float, float] | None:
    """Return the masses at the inner points, and what they took of both ends."""
    total = masses.copy()
    shift = points - losses
    down, up = shift < 0, shift > 0
    down[[0, -1]] = up[[0, -1]] = False
    # (p + k p_end)/(q + k q_end) = e^point
    from_low = masses[down] * -np.expm1(shift[down])
    from_low /= masses[0] * np.expm1(points[down] - losses[0])
    from_high = masses[up] * np.expm1(shift[up])
    from_high /= masses[-1] * -np.expm1(points[up] - losses[-1])
    taken_low, taken_high = float(from_low.sum()), float(from_high.sum())
    if taken_low > 0.5 or taken_high > 0.5:
        return None
    total[down] += from_low * masses[0]
    total[up] += from_high * masses[-1]
    return total, taken_low, taken_high


def fitting_step(values: Floats, target: float) -> float:
    """Return a step <= about `target` of which the values are nearly multiples.

    Up to two values that differ from 0 and from one another can be fitted: by a
    continued fraction, to within the step times it over the larger.
    """
    sizes = np.unique(np.abs(values[np.abs(values) > 1e-13 * np.abs(values).max()]))
    if sizes.size == 0 or sizes.size > 2:
        return target
    most = max(1, int(sizes[-1] / target))
    ratio = Fraction(float(sizes[0] / sizes[-1])).limit_denominator(most)
    parts = ratio.denominator * max(1, most // ratio.denominator)
    return float(sizes[-1]) / parts
