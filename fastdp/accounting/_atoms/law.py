"""Laws of finitely many losses, and their sums in cells of any width.

All sums of two laws are gathered in cells. A cell is merged to its barycenter (a law
for *lower* bounds) or split to its two ends (for *upper* bounds), and both keep P- and
Q-mass (theorem 17 of docs/proofs/numerical_accounting.md). Nothing is subtracted, so
masses are accurate to a few units in the last place even for a tiny delta, and losses
of 1e-12 keep their digits next to losses of 10. Losses are rounded up in upper laws and
down in lower ones; the rounding errors of masses are counted (theorem 18).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: One unit in the last place of numbers near 1.
U = 2.0**-52

#: Losses with a smaller relative gap differ only by rounding.
_SAME = 1e-13

#: The least double: a product that underflows loses at most this.
_LEAST = 5e-324


@dataclass(frozen=True, eq=False)
class Law:
    """Losses in ascending order with their masses under P.

    Parameters
    ----------
    loss, mass : ndarray of float64
        The losses, and their probabilities. Read as exact (up to `error`), they are
        above the true law in an upper law and below the true law in a lower law.
    lost : float
        Probability of an infinite loss; 0 in lower laws.
    error : float
        Bound on the relative error of masses.
    listed : bool
        Whether every loss occurs in the composition, because no losses were merged into
        cells.
    """

    loss: Floats
    mass: Floats
    lost: float = 0.0
    error: float = 0.0
    listed: bool = False

    def cut(self, upper: bool, log_tail: float) -> Law:
        """Return the law without tails of a mass below e^log_tail each.

        An upper law counts the upper tail as lost and moves the lower tail to the least
        remaining loss; a lower law drops both tails. Cells in the tails would be wide,
        and an upper law would move their mass up to losses that matter.
        """
        least = math.exp(max(log_tail, -700.0))
        first = int(np.searchsorted(np.cumsum(self.mass), least))
        last = self.mass.size
        last -= int(np.searchsorted(np.cumsum(self.mass[::-1]), least))
        if last - first in (self.mass.size, 0, 1) or last < first:
            return self
        mass, lost = self.mass[first:last].copy(), self.lost
        if upper:
            more = (1 + self.error) * (1 + (self.mass.size + 4) * U)
            mass[0] += float(self.mass[:first].sum()) * more
            lost = min(1.0, (lost + float(self.mass[last:].sum()) * more) * (1 + 4 * U))
        return replace(self, loss=self.loss[first:last], mass=mass, lost=lost)

    def nudged(self, sign: int, units: int = 2) -> Floats:
        """Return the losses moved by enough to cover the rounding of a sum."""
        return np.ascontiguousarray(self.loss + sign * units * U * np.abs(self.loss))


def listed_law(
    losses: Floats,
    masses: Floats,
    upper: bool,
    *,
    blur: float = 0.0,
    error: float = 0.0,
    lost: float = 0.0,
) -> Law:
    """Return ascending losses as a law, moved by the bound of their errors.

    `blur` bounds the absolute errors of losses, `error` the relative errors of masses;
    `lost` is the probability of all other losses, which are infinite in an upper law.
    """
    sign = 1 if upper else -1
    moved = losses + sign * (blur + 4 * U * np.abs(losses))
    kept = masses > 0
    return Law(moved[kept], masses[kept], lost if upper else 0.0, error, True)


def law_of_cells(
    edges: Floats, p: Floats, d: Floats, upper: bool, slack: float
) -> tuple[Floats, Floats]:
    """Return losses and masses of cells between the edges.

    Parameters
    ----------
    edges : ndarray, shape (n + 1,)
        Ends of the cells, ascending.
    p, d : ndarray, shape (n,)
        P-mass of each cell, and the P-integral of expm1(left end - loss), which is
        negative or 0.
    upper : bool
        Whether cells are split to their ends, or merged.
    slack : float
        Bound on the relative errors of p and of d.
    """
    full = p > 0
    ratio = np.divide(d, p, out=np.zeros_like(p), where=full)
    if upper:
        most = np.expm1(edges[:-1] - edges[1:]) * (1 - 8 * U)
        share = np.minimum(ratio * (1 + 2 * slack + 8 * U) / most, 1.0)
        share = np.maximum(share, 0.0)
        mass = np.zeros(edges.size)
        mass[:-1] += p * (1 - share)
        mass[1:] += p * share
        kept = mass > 0
        return edges[kept], mass[kept]
    ratio = np.maximum(ratio[full] * (1 - 2 * slack - 8 * U), -1 + 1e-14)
    rise = -np.log1p(ratio) * (1 - 8 * U)
    left, right = edges[:-1][full], edges[1:][full]
    center = left + rise
    center -= 2 * U * np.abs(center)
    return np.clip(center, left, right), p[full]


def totals(cell: npt.NDArray[np.int64], values: Floats, cells: int) -> Floats:
    """Return the sums of the values of each cell."""
    return np.asarray(np.bincount(cell, values, cells), dtype=np.float64)


def convolve(a: Law, b: Law, edges: Floats, upper: bool) -> Law:
    """Return the law of the sum of two losses, in cells that cover all sums."""
    # Imported here, so that importing the accountants loads no extension.
    from fastdp import _core

    sign = 1 if upper else -1
    rows, columns = a.nudged(sign), b.nudged(sign)
    edges = covering(edges, float(rows[0] + columns[0]), float(rows[-1] + columns[-1]))
    ends = np.append(edges[:-1], np.inf)
    one, other = np.ascontiguousarray(a.mass), np.ascontiguousarray(b.mass)
    p, d, terms = _core.gather_sums(rows, one, columns, other, ends, b is a)
    slack = (terms + 16) * U
    loss, mass = law_of_cells(edges, p, d, upper, slack)
    error = (1 + a.error) * (1 + b.error) * (1 + 2 * slack) - 1
    lost = _either(a.lost, b.lost, rows.size * columns.size) if upper else 0.0
    return Law(loss, mass, lost, error)


def _either(one: float, other: float, products: int) -> float:
    """Return the lost mass of a sum, including products that underflow."""
    return min(1.0, (one + other) * (1 + 4 * U) + products * _LEAST)


def sums(a: Law, b: Law, upper: bool) -> Law:
    """Return the law of the sum of two losses, with every sum listed.

    Losses that differ only by rounding are merged, in an upper law at the larger one.
    """
    sign = 1 if upper else -1
    loss = (a.nudged(sign)[:, None] + b.nudged(sign)).ravel()
    mass = (a.mass[:, None] * b.mass).ravel()
    order = np.argsort(loss, kind="stable")
    loss, mass = loss[order], mass[order]
    gap = np.diff(loss) > _SAME * np.abs(loss[1:]) + _rounding(a, b)
    first = np.concatenate([[0], np.flatnonzero(gap) + 1])
    last = np.append(first[1:], loss.size) - 1
    total = np.add.reduceat(mass, first)
    slack = (float((last - first).max()) + 4) * U
    error = (1 + a.error) * (1 + b.error) * (1 + 2 * slack) - 1
    lost = _either(a.lost, b.lost, loss.size) if upper else 0.0
    kept = total > 0
    ends = loss[last] if upper else loss[first]
    return Law(ends[kept], total[kept], lost, error, True)


def _rounding(a: Law, b: Law) -> float:
    """Return about the rounding error of sums near 0, far below the gaps of losses."""
    size = min(float(np.abs(law.loss).max()) for law in (a, b))
    gaps = [float(np.diff(law.loss).min()) for law in (a, b) if law.loss.size > 1]
    return min([32 * U * size, *(1e-3 * gap for gap in gaps)])


def covering(edges: Floats, low: float, high: float) -> Floats:
    """Return edges that reach from low to high, with cells that widen by 1.3 outside.

    Beyond the planned cells, widths must grow gradually: an upper law would move the
    mass of one wide cell to its far end.
    """
    inner = edges[(edges > low) & (edges < high)]
    if inner.size < 2:
        return _apart(np.concatenate([[low], inner, [high]]))
    reach = np.cumsum(1.3 ** np.arange(60))
    below = inner[0] - reach * (inner[1] - inner[0])
    above = inner[-1] + reach * (inner[-1] - inner[-2])
    parts = [[low], below[below > low][::-1], inner, above[above < high], [high]]
    return _apart(np.concatenate(parts))


def _apart(edges: Floats) -> Floats:
    """Return ascending edges without duplicates, at least two."""
    found: Floats = np.unique(edges)
    if found.size < 2:
        return np.append(found, np.nextafter(found[-1], np.inf))
    return found


class Reading:
    """A bound on delta of the sum of one or two laws; the sum is never formed.

    delta(epsilon) is the sum over the losses of one law of mass delta_other(epsilon -
    loss), and delta_other is computed from sums from the upper end: with

        A_j = sum over i >= j of m_i,  D_j = sum over i >= j of m_i (1 - e^(l_j - l_i))

    and the first l_j > x, g = l_j - x, it is (1 - e^-g) A_j + e^-g D_j. All terms are
    positive (theorem 18).

    Parameters
    ----------
    laws : list of Law
        One or two laws.
    upper : bool
        Whether the laws are upper laws.
    """

    def __init__(self, laws: list[Law], upper: bool) -> None:
        self._sign = 1 if upper else -1
        few, many = sorted([NOTHING, *laws][-2:], key=lambda law: law.loss.size)
        self._rows, self._mass = few.nudged(self._sign, 4), few.mass
        self._columns = many.nudged(self._sign, 4)
        self._above, self._gain, depth = _sums_from_above(self._columns, many.mass)
        error = (8 * depth + few.loss.size + 60) * U
        for law in laws:
            error += law.error * (1 + error)
        self._error = error
        self._least = few.loss.size * many.loss.size * _LEAST
        self._lost = sum(law.lost for law in laws) * (1 + 8 * U)

    def at(self, epsilons: Floats) -> Floats:
        """Return the bound at each epsilon."""
        found = np.empty(epsilons.size)
        places = epsilons - self._sign * 4 * U * np.abs(epsilons)
        for i, place in enumerate(places.tolist()):
            x = place - self._rows
            j = np.searchsorted(self._columns[:-1], x, side="right")
            gap = np.maximum(self._columns[j] - x, 0.0)
            each = -np.expm1(-gap) * self._above[j] + np.exp(-gap) * self._gain[j]
            found[i] = self._mass @ each
        if self._sign < 0:
            return np.maximum(found * (1 - self._error) - self._least, 0.0)
        error = self._error * (1 + self._error)
        return np.minimum(found * (1 + error) + self._lost + self._least, 1.0)


#: The law of a loss that is 0.
NOTHING = Law(np.zeros(1), np.ones(1), listed=True)


def _sums_from_above(loss: Floats, mass: Floats) -> tuple[Floats, Floats, int]:
    """Return A and D at every loss, and the number of successive roundings.

    D_j = (1 - e^-d) A_(j + 1) + e^-d D_(j + 1), d = l_(j + 1) - l_j: first within
    blocks, then from block to block.
    """
    length = math.isqrt(loss.size - 1) + 1
    count = -(-loss.size // length)
    place, block = np.full((count, length), loss[-1]), np.zeros((count, length))
    place.ravel()[: loss.size] = loss
    block.ravel()[: loss.size] = mass
    above, gain = np.empty_like(block), np.zeros_like(block)
    above[:, -1] = block[:, -1]
    gap = place[:, 1:] - place[:, :-1]
    part, rest = -np.expm1(-gap), np.exp(-gap)
    for k in range(length - 2, -1, -1):
        gain[:, k] = part[:, k] * above[:, k + 1] + rest[:, k] * gain[:, k + 1]
        above[:, k] = block[:, k] + above[:, k + 1]
    gap = place[1:, :1] - place[:-1]
    part, rest = -np.expm1(-gap), np.exp(-gap)
    for b in range(count - 2, -1, -1):
        gain[b] += part[b] * above[b + 1, 0] + rest[b] * gain[b + 1, 0]
        above[b] += above[b + 1, 0]
    size = loss.size
    return above.ravel()[:size], gain.ravel()[:size], length + count
