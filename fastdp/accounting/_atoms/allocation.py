"""Random allocation: the law of a mean of independent ratios, in cells of any width.

R is the ratio dP/dQ of one step under Q, and S the mean of t independent copies. A cell
of values is merged to its barycenter (lower) or split to its ends (upper), like cells
of losses, and sums preserve the order of means of convex functions. These functions
rise (removal) or fall (addition) with S: an upper law rounds each value toward less
privacy, a lower law toward more (docs/proofs/allocation.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fastdp.accounting._atoms.law import Floats, Law, U
from fastdp.accounting._atoms.plan import Cost, spread

#: The least double: a product that underflows loses at most this.
_LEAST = 5e-324

#: Refuse larger losses: their ratios cannot be added up in doubles.
_FARTHEST = 600.0

#: Most cells of a sum, if there are at most _FEW_SUMS sums; share of the cells that are
#: even in ln of the sum.
_MOST, _FEW_SUMS, _EVENLY = 3000, 13, 0.25

#: Share of the cells for adding powers of two up, except for the last sum. Such a sum
#: is blurred once and not `steps` times, and widens bounds by less than a tenth of what
#: the powers do.
_PARTIAL = 0.6

#: Plan a sum with this many values of each summand.
_FEW = 140

#: Refuse an upper law with more mass than this: its powers would overflow.
_MOST_MASS = 1.5

#: Cut off tails of sums that are lighter than those of a step by this factor.
_CUT = 1e-3

#: If the cost of a blur is not known, assume 1 + exp(_STEEP loss).
_STEEP = 6.0

#: A function that returns the law of one step's loss, in about this number of cells.
OneStep = Callable[[Cost | None, int], Law]


@dataclass(frozen=True, eq=False)
class Ratios:
    """Values of a sum of ratios, ascending, with their masses under Q.

    `lost` accounts for omitted values: for a removal it is their mean, for an addition
    their probability. `error` bounds the relative errors of masses.
    """

    value: Floats
    mass: Floats
    lost: float
    error: float


@dataclass(frozen=True)
class Allocation:
    """Allocation to one of `steps` steps with probability `rate`, in one direction.

    Parameters
    ----------
    steps : int
        Steps of an epoch.
    rate : float
        Probability that the record is in the epoch.
    removal : bool
        True if P has the record, False if Q has it.
    upper : bool
        True to split cells, False to merge them.
    gone : float
        Mass of one step's infinite losses, under P for a removal and under Q for an
        addition. Laws are conditional on a finite loss.
    """

    steps: int
    rate: float
    removal: bool
    upper: bool
    gone: float = 0.0

    @property
    def _toward(self) -> int:
        """1 if values are rounded up, -1 if down."""
        return 1 if self.removal == self.upper else -1

    def law(self, one: OneStep, cost: Cost | None, cells: int, tail: float) -> Law:
        """Return the law of the epoch's loss in about `cells` cells.

        Raises
        ------
        OverflowError
            A ratio of a step is too large for doubles.
        """
        number = self.steps.bit_length() + self.steps.bit_count() - 2
        room = min(1.0, math.sqrt(_FEW_SUMS / max(number, 1)))
        cells = min(cells, int(_MOST * room))
        cost = cost or (lambda loss: 1 + np.exp(np.clip(_STEEP * loss, -300, 300)))
        step = one(lambda loss: self._price_of_loss(loss, cost), cells)
        square, done = self._of_one(step), 1
        result, whole = None, 0
        left = self.steps
        while True:
            if left & 1:
                if result is None:
                    result, whole = square, done
                else:
                    whole += done
                    some = cells if left == 1 else int(_PARTIAL * cells)
                    result = self._sum(result, square, whole, cost, some, tail)
            left >>= 1
            if not left:
                break
            done *= 2
            square = self._sum(square, square, done, cost, cells, tail)
        assert result is not None
        return self._loss(result)

    # ---- from losses, and back -------------------------------------------------------

    def _of_one(self, law: Law) -> Ratios:
        """Return the ratios of one step's law of losses in this direction."""
        if float(np.abs(law.loss).max(initial=0.0)) > _FARTHEST:
            raise OverflowError("losses are too large")
        up = 1 + self._toward * 8 * U
        error = (1 + law.error) * (1 + 16 * U) - 1
        masses = law.mass * (1 - self.gone)
        if self.removal:
            value, mass = np.exp(law.loss) * up, masses * np.exp(-law.loss)
            whole, slack = float(mass.sum()), error + (mass.size + 4) * U
            if not self.upper:  # rounding may give Q too much mass
                mass = mass * min(1.0, (1 - slack) / whole)
                return Ratios(value, mass, 0.0, error + slack)
            zero, lost = max(1 - whole, 0.0) + 2 * slack, law.lost * (1 - self.gone)
        else:
            value, mass = np.exp(-law.loss[::-1]) * up, masses[::-1]
            zero, lost = self.gone + law.lost * (1 - self.gone), 0.0
        if zero:
            value = np.concatenate([[0.0], value])
            mass = np.concatenate([[zero], mass])
        return Ratios(value, mass, lost, error)

    def _loss(self, found: Ratios) -> Law:
        """Return the law of the loss of an epoch."""
        mean = found.value / self.steps
        if self.rate < 1:
            mean = 1 - self.rate + self.rate * mean
        lost, mass, error = found.lost, found.mass, found.error + 32 * U
        positive = mean > 0
        # Splits keep the mean of an upper law near 1, unless its cells are far too few.
        whole = float((mass * mean).sum() if self.removal else mass.sum())
        if not whole < _MOST_MASS:
            raise OverflowError("too few cells for such ratios")
        if self.removal:
            lost *= self.rate / self.steps * (1 + 4 * U)
            finite = 1 - self.rate * self.gone
        else:  # if all ratios are 0, the loss is infinite
            none = self.gone**self.steps if self.rate == 1 else 0.0
            zero = float(mass[~positive].sum()) * (1 + error)
            lost, finite = lost + max(zero - none * (1 - 1e-12), 0.0), 1 - none
        mean, mass = mean[positive], mass[positive]
        loss = np.log(mean) if self.removal else -np.log(mean[::-1])
        mass = (mass * mean if self.removal else mass[::-1]) / finite
        sign = 1 if self.upper else -1
        loss = loss + sign * (8 * U + 8 * U * np.abs(loss))
        kept = mass > 0
        lost = min(1.0, lost / finite * (1 + error)) if self.upper else 0.0
        return Law(loss[kept], mass[kept], lost, error)

    # ---- sums ------------------------------------------------------------------------

    def _sum(
        self, a: Ratios, b: Ratios, done: int, cost: Cost, cells: int, tail: float
    ) -> Ratios:
        """Return the sum of `a` and `b`, with `done` ratios in total, in cells."""
        # Imported here, so that importing the accountants loads no extension.
        from fastdp import _core

        up = 1 + self._toward * 2 * U
        rows = np.ascontiguousarray(a.value * up)
        columns = np.ascontiguousarray(b.value * up)
        edges = self._edges(a, b, done, cost, cells)
        low, high = float(rows[0] + columns[0]), float(rows[-1] + columns[-1])
        inner = edges[(edges > low) & (edges < high)]
        if high <= low:
            high = float(np.nextafter(low, np.inf))
        edges = np.concatenate([[low], inner, [high]])
        ends = np.append(edges[:-1], np.inf)
        one, other = np.ascontiguousarray(a.mass), np.ascontiguousarray(b.mass)
        p, d, terms = _core.gather_sums(rows, one, columns, other, ends, b is a, True)
        slack = (terms + 16) * U
        full = p > 0
        rise = np.divide(-d, p, out=np.zeros_like(p), where=full)
        rise = rise * (1 + self._toward * (2 * slack + 8 * U))
        products = rows.size * columns.size * _LEAST
        if self.upper:
            share = np.minimum(rise / np.diff(edges), 1.0)
            mass = np.zeros(edges.size)
            mass[:-1] += p * (1 - share)
            mass[1:] += p * share
            value, lost = edges, a.lost + b.lost
            lost += products * (max(high, 1.0) if self.removal else 1.0)
        else:
            value = edges[:-1] + np.minimum(rise, np.diff(edges))
            value, mass, lost = value * up, p, 0.0
        kept = mass > 0
        if not kept.any():
            raise OverflowError("too few cells for such ratios")
        error = (1 + a.error) * (1 + b.error) * (1 + 2 * slack) - 1
        found = Ratios(value[kept], mass[kept], lost * (1 + 4 * U), error)
        return self._cut(found, tail * _CUT)

    def _cut(self, found: Ratios, tail: float) -> Ratios:
        """Return the sum without tails of a mass of about `tail`.

        The mass is under Q, and for the upper tail of a removal under P. A lower law
        drops the tails. An upper law moves the tails to the next value, and the lower
        tail of an addition to 0; the upper tail of a removal also counts as lost.
        """
        value, mass = found.value, found.mass
        first = int(np.searchsorted(np.cumsum(mass), tail))
        top = mass * value if self.removal else mass
        beyond = np.cumsum(top[::-1])
        last = mass.size - int(np.searchsorted(beyond, tail * float(beyond[-1])))
        if (first == 0 and last == mass.size) or last - first < 2:
            return found
        some = slice(first, last)
        if not self.upper:
            return replace(found, value=value[some], mass=mass[some])
        more, lost = 1 + (mass.size + 4) * U, found.lost
        below = float(mass[:first].sum()) * more
        rest = float(mass[last:].sum()) * more
        if self.removal:
            lost += float(top[last:].sum()) * more * (1 + found.error)
        value, mass = value[some], mass[some].copy()
        mass[-1] += rest
        if self.removal or value[0] == 0:
            mass[0] += below
        elif below:
            value = np.concatenate([[0.0], value])
            mass = np.concatenate([[below], mass])
        return Ratios(value, mass, lost, found.error)

    # ---- where cells go --------------------------------------------------------------

    def _price(self, value: Floats, done: int, cost: Cost) -> Floats:
        """Return the cost, by Q-mass, of rounding ln of a sum of `done` ratios.

        The other ratios count as 1; `cost` is the cost of rounding the loss.
        """
        mean = (value + (self.steps - done)) / self.steps
        mean = np.maximum(1 - self.rate + self.rate * mean, 1e-300)
        slope = self.rate * value / self.steps / mean
        loss = np.log(mean)
        found = cost(loss) * mean if self.removal else cost(-loss)
        return np.asarray(found * slope * slope)

    def _price_of_loss(self, loss: Floats, cost: Cost) -> Floats:
        """Return the cost, by P-mass, of rounding one step's loss."""
        value = np.exp(loss if self.removal else -loss)
        found = self._price(value, 1, cost)
        return np.asarray(found / value if self.removal else found)

    def _edges(self, a: Ratios, b: Ratios, done: int, cost: Cost, cells: int) -> Floats:
        """Return edges of cells for the sum of two laws."""
        (x, p), (y, q) = _thinned(a), _thinned(b)
        value, mass = x[:, None] + y, p[:, None] * q
        if a is b:  # each pair once
            once = np.tri(x.size, dtype=bool)
            value, mass = value[once], mass[once]
        order = np.argsort(value, axis=None)
        value, mass = value.ravel()[order], mass.ravel()[order]
        price = self._price(value, done, cost)
        planned = spread(np.log(value), mass, price, int((1 - _EVENLY) * cells))
        lowest = min(v for v in (*_lowest(a, b), value[0]) if v > 0)
        highest = float(a.value[-1] + b.value[-1])
        level = np.linspace(np.log(lowest), np.log(highest), int(_EVENLY * cells))
        return np.unique(np.exp(np.union1d(planned, level)))


def _lowest(a: Ratios, b: Ratios) -> list[float]:
    """Return the sums of both laws' two lowest values."""
    return [float(x + y) for x in a.value[:2] for y in b.value[:2]]


def _thinned(found: Ratios) -> tuple[Floats, Floats]:
    """Return an approximation of the positive values and their masses."""
    positive = found.value > 0
    value, mass = found.value[positive], found.mass[positive]
    if value.size <= _FEW:
        return value, mass
    first = np.unique(np.linspace(0, value.size, _FEW + 1).astype(int)[:-1])
    some = np.add.reduceat(mass, first)
    mean = np.add.reduceat(mass * value, first) / some
    return np.maximum(mean, value[first]), some  # products may underflow to 0
