"""Placement of cells: it affects the tightness of bounds, never their validity.

A cell of width w and mass m costs about m f w^2, where f is the sensitivity of delta to
rounding this partial sum at this loss: the density of the remaining sum at epsilon
minus the loss. A coarse forward run gives the masses and a backward run gives f. Most
cells are placed by the cube root of m f, some by the rise of ln f, and some evenly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from fastdp.accounting._atoms.law import (
    Floats,
    Law,
    Reading,
    convolve,
    law_of_cells,
    sums,
    totals,
)
from fastdp.accounting._numeric import product

#: Cells of each sum in the fine run, if there are _SUMS sums.
_FINE, _SUMS = 500, 30
#: With fewer sums, each gets up to _MOST_ROOM times the cells; _ALONE cells if no sum
#: is formed.
_MOST_ROOM, _ALONE = 3.0, 10_000
#: Fewest cells of a coarse and of a fine run, however many sums there are.
_FEWEST_COARSE, _FEWEST = 40, 90
#: Coarse runs; each one improves the plan of the next: the cells of each sum (for
#: up to _SUMS sums) and the number of runs. A plan may fail for tiny delta; the only
#: symptom is a wide bracket. Then try the other one.
FIRST, SECOND = (200, 2), (130, 3)
#: Form a sum of listed laws without cells if it has at most this many products.
_LISTED = 400_000
#: Cut off tails of a step with a mass of e^-_BEYOND times its share of delta.
_BEYOND = 23.0
#: Cut off tails of sums that are lighter than that by a factor of e^_CUT.
_CUT = 5.0
#: Ignore the rise of ln f where ln(f times tail mass) is this far below its maximum:
#: for the tail below and for the tail above.
_DEEP_BELOW, _DEEP_ABOVE = 45.0, 85.0
#: Shares of the cells that are placed by cost, by the rise of ln f, and evenly.
_BY_COST, _BY_RISE, _EVENLY = 0.7, 0.25, 0.05
#: Plan for readings at these multiples of epsilon, with these weights.
_FARTHER = ((1.0, 1.0), (1.015, 0.5), (1.06, 0.25))
#: Least positive number in a plan, and least delta. Costs are divided by delta, and
#: must not overflow if cells are as narrow as losses of 1e-12.
_TINY, _LEAST_DELTA = 1e-300, 1e-250
#: Join two lattices if each unit is at most this many times their common unit.
_FINER = 64

#: ln of the delta to assume while it is not known.
UNKNOWN = -60.0

Cost = Callable[[Floats], Floats]


class Spaced(Protocol):
    """A step with losses that may be multiples of one number."""

    def spacing(self) -> Fraction | None:
        """Return a number that divides all losses, or None."""


class Leaf(Protocol):
    """One step's law, by cells of any width."""

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the law in about `cells` cells, placed where rounding costs most.

        Tails of mass e^log_tail may count as lost (upper) or be dropped (lower).
        """


@dataclass(frozen=True)
class Chain:
    """Sums to form, as pairs of places (leaves first), and the remaining roots."""

    pairs: tuple[tuple[int, int], ...]
    roots: tuple[int, ...]


def chain(counts: Sequence[int]) -> Chain:
    """Plan powers by squaring and a balanced tree; the last sum is not formed."""
    pairs: list[tuple[int, int]] = []
    size = len(counts)

    def form(i: int, j: int) -> int:
        pairs.append((i, j))
        return size + len(pairs) - 1

    roots: list[int] = []
    for leaf, count in enumerate(counts):
        square, result, left = leaf, None, count
        while True:
            if left & 1:
                result = square if result is None else form(result, square)
            left >>= 1
            if not left:
                break
            square = form(square, square)
        assert result is not None
        roots.append(result)
    while len(roots) > 2:
        two = zip(roots[::2], roots[1::2], strict=False)
        rest = roots[-1:] if len(roots) % 2 else []
        roots = [form(i, j) for i, j in two] + rest
    if len(roots) == 1 and pairs and roots[0] == size + len(pairs) - 1:
        roots = list(pairs.pop())
    return Chain(tuple(pairs), tuple(roots))


class Plan:
    """Cells for every partial sum of a composition, for readings near one epsilon.

    Parameters
    ----------
    leaves : sequence of Leaf
        The different steps.
    counts : sequence of int
        How often each occurs.
    log_delta : float, optional
        ln of the delta at which epsilon is read.
    epsilon : float, optional
        Epsilon at which delta is read, if `log_delta` is None.
    effort : float
        Work, relative to the default; more work gives narrower bounds.
    log_steps : float, optional
        ln of the number of steps, if a leaf stands for several.
    runs : tuple
        Cells of coarse runs, and how many runs.
    """

    def __init__(
        self,
        leaves: Sequence[Leaf],
        counts: Sequence[int],
        log_delta: float | None,
        epsilon: float | None = None,
        effort: float = 1.0,
        log_steps: float | None = None,
        runs: tuple[int, int] = FIRST,
    ) -> None:
        self._leaves = leaves
        self._chain = chain(counts)
        self._steps = math.log(sum(counts)) if log_steps is None else log_steps
        self.many = many = len(self._chain.pairs) + len(leaves)
        room = math.sqrt(_SUMS / many)
        coarse, rounds = runs
        self._coarse = max(_FEWEST_COARSE, int(coarse * min(room, 1.0)))
        fine = _FINE * min(room, _MOST_ROOM) if self._chain.pairs else _ALONE
        self._fine = max(_FEWEST, int(fine * math.sqrt(effort)))
        self._per_leaf = 2 if len(leaves) <= 3 else 1
        self._cost: list[Floats] | None = None
        self._edges: dict[tuple[int, int], Floats] = {}
        self._values: list[Law] = []
        self._asked = log_delta, epsilon
        level = UNKNOWN if log_delta is None else log_delta
        for _ in range(1 if many == 1 and epsilon is None else rounds):
            self.log_tail = tail_of(level, self._steps)
            roots = self._run(False, self._coarse)
            self.epsilon, level = self._place_of(roots)
            self._backward()

    def _place_of(self, roots: list[Law]) -> tuple[float, float]:
        """Return roughly the epsilon and the ln delta of the reading."""
        log_delta, epsilon = self._asked
        if log_delta is not None:
            return crossing(roots, log_delta), log_delta
        assert epsilon is not None
        found = float(Reading(roots, False).at(np.array([epsilon]))[0])
        return epsilon, max(math.log(found) if found > 0 else -700.0, -700.0)

    def refine(self, effort: float) -> None:
        """Spend `effort` times the work on the fine laws."""
        self._fine = int(self._fine * math.sqrt(effort))

    def moved(self, epsilon: float) -> None:
        """Plan for another epsilon from the known coarse laws."""
        self.epsilon = epsilon
        self._backward()

    def laws(self, upper: bool, rough: bool = False) -> list[Law]:
        """Return one or two laws; their sum bounds the composition."""
        return self._run(upper, self._coarse + 1 if rough else self._fine)

    # ---- forward ---------------------------------------------------------------------

    def _run(self, upper: bool, cells: int) -> list[Law]:
        values: list[Law] = []
        size = len(self._leaves)
        for i, leaf in enumerate(self._leaves):
            cost = None if self._cost is None else self._cost_of(i)
            values.append(leaf.law(cost, self._per_leaf * cells, upper, self.log_tail))
        for m, (i, j) in enumerate(self._chain.pairs):
            a, b = values[i], values[j]
            if not (a.loss.size and b.loss.size):
                raise OverflowError("no mass that counts is left of a law")
            found = None
            products = a.loss.size * b.loss.size
            if products <= 2 * cells or (a.listed and b.listed and products <= _LISTED):
                found = sums(a, b, upper)
            if found is None or found.loss.size > 2 * cells:
                found = convolve(a, b, self._edges_of(size + m, a, b, cells), upper)
            values.append(found.cut(upper, self.log_tail - _CUT))
        if cells == self._coarse and not upper:
            self._values = values
        return [values[i] for i in self._chain.roots]

    def _edges_of(self, i: int, a: Law, b: Law, cells: int) -> Floats:
        """Return cells for one of the partial sums, a + b."""
        if self._cost is None:
            return even(a, b, cells)
        if (i, cells) not in self._edges:
            law = self._values[i]
            self._edges[i, cells] = spread(law.loss, law.mass, self._cost[i], cells)
        return self._edges[i, cells]

    def _cost_of(self, i: int) -> Cost:
        assert self._cost is not None
        loss, log_cost = self._values[i].loss, _log(self._cost[i])
        return lambda x: np.exp(np.interp(x, loss, log_cost))

    # ---- backward --------------------------------------------------------------------

    def _backward(self) -> None:
        """Find the sensitivity of delta to rounding each partial sum at each loss.

        For a root it is the density of the other root; for an earlier sum it is the
        mean of the later sum's sensitivity over the added loss.
        """
        values, size = self._values, len(self._leaves)
        cost = [np.zeros(law.loss.size) for law in values]
        if len(self._chain.roots) == 2:
            i, j = self._chain.roots
            both = Reading([values[i], values[j]], False)
            for far, weight in _FARTHER:
                e = self.epsilon * far
                here = both.at(np.array([e]))[0]
                share = weight / max(float(here), _LEAST_DELTA)
                cost[i] += share * density(values[j], e - values[i].loss)
                cost[j] += share * density(values[i], e - values[j].loss)
        else:
            i = self._chain.roots[0]
            near = 0.02 * abs(self.epsilon) + 1e-12
            cost[i] += 1 / (1e-4 + ((values[i].loss - self.epsilon) / near) ** 2)
        for m in range(len(self._chain.pairs) - 1, -1, -1):
            i, j = self._chain.pairs[m]
            log_cost, place = _log(cost[size + m]), values[size + m].loss
            for one, other in dict.fromkeys(((i, j), (j, i))):  # a square once
                rest = thinned(values[other], 200)
                at = values[one].loss[:, None] + rest.loss
                more = product(np.exp(np.interp(at, place, log_cost)), rest.mass)
                cost[one] += more * (1 if i != j else 2)
        self._cost, self._edges = cost, {}


def tail_of(log_delta: float, log_steps: float) -> float:
    """Return ln of the tail mass of a step that is negligible next to delta."""
    return log_delta - log_steps - _BEYOND


def _log(values: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(values, _TINY)))


def spread(x: Floats, mass: Floats, cost: Floats, cells: int) -> Floats:
    """Return edges of cells for atoms, given the cost of rounding each atom."""
    low, high = x[0], x[-1]
    if x.size < 3 or low == high:
        return np.unique(x)
    total = np.cumsum(np.maximum(mass * cost, _TINY))
    marks = np.interp(np.linspace(0, total[-1], 250), total, x)
    few = x[:: max(1, x.size // 700)]
    place = np.unique(
        np.concatenate([[low, high], marks, np.linspace(low, high, 40), few])
    )
    width = np.diff(place)
    gain = np.diff(np.interp(place, x, total, left=0.0, right=total[-1]))
    by_cost = np.cbrt(gain / width) * width
    by_cost = np.convolve(
        np.pad(by_cost, 2, mode="edge"), [0.1, 0.2, 0.4, 0.2, 0.1], "valid"
    )
    level = _log(cost)
    below = level + _log(np.cumsum(mass))
    above = level + _log(np.cumsum(mass[::-1])[::-1])
    most = float(np.minimum(below, above).max())
    counts = (below > most - _DEEP_BELOW) & (above > most - _DEEP_ABOVE)
    rise = np.zeros(width.size)
    if counts.any():
        rise = np.abs(np.diff(np.interp(place, x[counts], level[counts])))
    density_of = (
        _BY_COST * by_cost / max(float(by_cost.sum()), _TINY)
        + _BY_RISE * rise / max(float(rise.sum()), 4.0)
        + _EVENLY / width.size
    )
    inside = np.concatenate([[0.0], np.cumsum(density_of)])
    edges = np.interp(np.linspace(0, inside[-1], cells + 1), inside, place)
    edges[0], edges[-1] = low, high
    return np.unique(edges)


def even(a: Law, b: Law, cells: int) -> Floats:
    """Return edges of cells for a sum before there is a plan.

    The edges are even in asinh of the loss, in units of a third of its standard
    deviation.
    """
    one, other = thinned(a, 60), thinned(b, 60)
    place = (one.loss[:, None] + other.loss).ravel()
    mass = (one.mass[:, None] * other.mass).ravel()
    whole = max(float(mass.sum()), _TINY)
    mean = float(place @ mass) / whole
    spread_of = math.sqrt(float((place - mean) ** 2 @ mass) / whole) + _TINY
    ends = np.array([a.loss[0] + b.loss[0], a.loss[-1] + b.loss[-1]])
    top = np.arcsinh((ends - mean) / spread_of * 3)
    return np.asarray(
        mean + spread_of / 3 * np.sinh(np.linspace(top[0], top[1], cells + 1))
    )


def thinned(law: Law, most: int) -> Law:
    """Return an approximation of the law with about `most` losses or fewer."""
    if law.loss.size <= most:
        return law
    places = np.unique(np.linspace(0, law.loss.size - 1, most).astype(int))
    return gathered(law, law.loss[places], False)


def gathered(law: Law, edges: Floats, upper: bool) -> Law:
    """Return the law in cells that cover its losses."""
    cells = edges.size - 1
    cell = np.clip(np.searchsorted(edges, law.loss, side="right") - 1, 0, cells - 1)
    p = totals(cell, law.mass, cells)
    gap = np.minimum(edges[cell] - law.loss, 0.0)
    d = totals(cell, law.mass * np.expm1(gap), cells)
    slack = (float(np.bincount(cell).max()) + 16) * 2.0**-52
    loss, mass = law_of_cells(edges, p, d, upper, slack)
    return Law(loss, mass, law.lost, (1 + law.error) * (1 + 2 * slack) - 1)


def density(law: Law, x: Floats) -> Floats:
    """Return an estimate of the density of a law at x."""
    if law.loss.size < 4:
        return np.ones_like(x)
    i = np.unique(np.linspace(0, law.loss.size - 1, 200).astype(int))
    place = law.loss[i]
    mass = np.add.reduceat(law.mass, i[:-1] + 1)
    middle = (place[1:] + place[:-1]) / 2
    level = np.log(np.maximum(mass / np.diff(place), 1e-280))
    found = np.interp(x, middle, level)
    away = np.maximum(np.maximum(x - middle[-1], middle[0] - x), 0.0)
    return np.asarray(np.exp(found - away / ((middle[-1] - middle[0]) / 30)))


def crossing(laws: list[Law], log_delta: float) -> float:
    """Return roughly the epsilon >= 0 at which the laws' ln delta is `log_delta`."""
    reading = Reading(laws, False)

    def value(epsilon: float) -> float:
        found = float(reading.at(np.array([epsilon]))[0])
        return math.log(found) if found > 0 else -math.inf

    low, high = 0.0, 1.0
    if value(low) <= log_delta:
        return 0.0
    while value(high) > log_delta:
        low, high = high, 2 * high
        if high > 1e8:
            return high
    while high - low > 1e-6 * high and high > 1e-290:
        middle = (low + high) / 2 if low > 1e-3 * high else max(high * 1e-3, 0.0)
        if low > 0 and low <= 1e-3 * high:
            middle = math.sqrt(low * high)
        low, high = (middle, high) if value(middle) > log_delta else (low, middle)
    return high


def in_cells(law: Law, cost: Cost | None, cells: int, upper: bool) -> Law:
    """Return the law in `cells` cells placed by cost, if it has many more losses."""
    if law.loss.size <= 2 * cells:
        return law
    price = np.ones(law.loss.size) if cost is None else cost(law.loss)
    return gathered(law, spread(law.loss, law.mass, price, cells), upper)


def sums_of(steps: Sequence[tuple[Spaced, int]], most: int) -> int:
    """Return the number of sums to form, one for each lattice; at most `most`."""
    units: list[Fraction] = []
    number = 0
    for leaf, count in steps:
        own = leaf.spacing()
        found = None if own is None else joined(units, own)
        if found is not None:
            units[found[0]] = found[1]
            continue
        if own is not None:
            units.append(own)
        number += 1 if own is not None else 2 * count.bit_length() - 1
        if number >= most:
            return most
    return number


def joined(units: list[Fraction], own: Fraction) -> tuple[int, Fraction] | None:
    """Return the index of a unit that `own` may join, and the unit of both."""
    n, d = own.numerator, own.denominator
    for i, unit in enumerate(units):
        a, b = unit.numerator * d, n * unit.denominator
        common = math.gcd(a, b)  # in units of 1/(d unit.denominator)
        if max(a, b) <= _FINER * common:
            return i, Fraction(common, d * unit.denominator)
    return None
