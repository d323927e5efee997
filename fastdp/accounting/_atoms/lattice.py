"""Steps with losses that are multiples of one number: sums without cells.

Sums of losses stay on the lattice, so that a composition has few different losses; its
masses are sums of positive products. Powers of a law of two losses are binomial.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from fastdp.accounting._atoms.law import Floats, Law, U
from fastdp.accounting._atoms.plan import Cost, Leaf, Spaced, in_cells, joined
from fastdp.accounting._numeric import binomial_ratios

#: Most products of masses for one sum, about a fifth of a second. Most losses to keep
#: without cells, if at most two laws are added up. Most losses of one step.
_PRODUCTS, _KEPT, _LONGEST = 1 << 28, 40_000, 1 << 15
#: Most losses of a binomial law. Relative error of a mass, for each step away from the
#: mode, in units of U.
_MOST_BINOMIAL, _RATIO = 1 << 18, 16


@dataclass(frozen=True, eq=False)
class Lattice:
    """Losses unit (first + i), their masses under P, and the lost mass.

    `error` bounds the relative errors of masses, `blur` the absolute errors of losses.
    """

    unit: Fraction
    first: int
    mass: Floats
    lost: float = 0.0
    error: float = 0.0
    blur: float = 0.0

    def cut(self, upper: bool, log_tail: float) -> Lattice:
        """Return the law without tails of a mass below e^log_tail each.

        An upper law counts the upper tail as lost and moves the lower tail to the least
        remaining loss; a lower law drops both tails.
        """
        least = math.exp(max(log_tail, -700.0))
        first = int(np.searchsorted(np.cumsum(self.mass), least))
        above = int(np.searchsorted(np.cumsum(self.mass[::-1]), least))
        last = self.mass.size - above
        if (first == 0 and above == 0) or last - first < 2:
            return self
        mass, lost = self.mass[first:last].copy(), self.lost
        if upper:
            more = 1 + self.mass.size * U + self.error
            mass[0] += float(self.mass[:first].sum()) * more
            lost += float(self.mass[last:].sum()) * more
        return replace(self, first=self.first + first, mass=mass, lost=lost)

    def plus(self, other: Lattice) -> Lattice:
        """Return the law of the sum; both must have the same unit."""
        if self.mass.size * other.mass.size > _PRODUCTS:
            raise OverflowError("too many products")
        terms = min(self.mass.size, other.mass.size)
        error = (1 + self.error) * (1 + other.error) * (1 + (terms + 4) * U) - 1
        return Lattice(
            self.unit,
            self.first + other.first,
            np.convolve(self.mass, other.mass),
            # Include products that underflow.
            (self.lost + other.lost) * (1 + 4 * U)
            + self.mass.size * other.mass.size * 5e-324,
            error,
            self.blur + other.blur,
        )

    def times(self, count: int, upper: bool, log_tail: float) -> Lattice:
        """Return the law of the sum of `count` such losses, without far tails."""
        places = np.flatnonzero(self.mass)
        stride = max(1, int(np.gcd.reduce(np.diff(places))))
        start, stop = int(places[0]), int(places[-1]) + 1
        own = replace(self, first=0, mass=self.mass[start:stop:stride])
        if own.mass.size == 2 and count > 1:
            found = own._binomial(count, upper, log_tail)
        else:
            found = own._power(count, upper, log_tail)
        mass = np.zeros((found.mass.size - 1) * stride + 1)
        mass[::stride] = found.mass
        first = count * (self.first + start) + found.first * stride
        return replace(found, first=first, mass=mass)

    def _power(self, count: int, upper: bool, log_tail: float) -> Lattice:
        square, result = self, None
        while True:
            if count & 1:
                result = square if result is None else result.plus(square)
                result = result.cut(upper, log_tail)
            count >>= 1
            if not count:
                assert result is not None
                return result
            square = square.plus(square).cut(upper, log_tail)

    def _binomial(self, count: int, upper: bool, log_tail: float) -> Lattice:
        """Return the law of `count` steps of two losses, by ratios from its mode.

        The finite losses of a step must have a total mass of 1.
        """
        low_mass, high_mass = self.mass.tolist()
        if abs(low_mass + high_mass - 1) > 1e-9:
            return self._power(count, upper, log_tail)
        odds, share = high_mass / low_mass, high_mass / (low_mass + high_mass)
        spread = math.sqrt(count * share * (1 - share))
        # Bernstein's inequality bounds the mass beyond this.
        reach = math.sqrt(-2 * log_tail) * spread - 2 * log_tail / 3 + 4
        mode = min(count, int((count + 1) * share))
        low = max(0, math.floor(mode - 1 - reach))
        high = min(count, math.ceil(mode + 1 + reach))
        if high - low > _MOST_BINOMIAL:
            raise OverflowError("too many losses")
        ratio = binomial_ratios(count, odds, low, mode, high)
        away = np.abs(np.arange(low, high + 1) - mode)
        slip = away * (_RATIO * U + 2 * self.error) + 8 * U
        total = float(ratio.sum())
        slip += float(ratio @ slip) / total + (ratio.size + 8) * U
        mass = ratio / total * (1 + slip if upper else 1 - slip)
        tail = 2 * math.exp(log_tail)
        lost = count * self.lost
        if upper:
            mass[0] += tail
            lost += tail if high < count else 0.0
        else:
            mass *= 1 - 2 * tail
        return replace(
            self, first=low, mass=mass, lost=lost, error=0.0, blur=count * self.blur
        )


class Step(Leaf, Spaced, Protocol):
    """A step that may be on a lattice."""

    def lattice(self, log_tail: float) -> Lattice | None:
        """Return the law on its lattice, without tails below e^log_tail, or None."""


Steps = Sequence[tuple[Step, int]]


@dataclass(frozen=True, eq=False)
class LatticeLeaf:
    """All steps on one lattice, combined into one."""

    unit: Fraction
    parts: tuple[tuple[Step, int], ...]
    alone: bool

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the law of the sum, merged into cells if it is long."""
        found = self._sum(upper, log_tail)
        kept = np.flatnonzero(found.mass)
        losses = float(self.unit) * (found.first + kept)
        moved = (found.blur + 4 * U * np.abs(losses)) * (1 if upper else -1)
        lost = found.lost if upper else 0.0
        law = Law(losses + moved, found.mass[kept], lost, found.error, True)
        few = self.alone and kept.size <= _KEPT
        return law if few else in_cells(law, cost, cells, upper)

    @functools.lru_cache(maxsize=8)  # noqa: B019 (leaves live as long as one answer)
    def _sum(self, upper: bool, log_tail: float) -> Lattice:
        result: Lattice | None = None
        for step, count in self.parts:
            one = step.lattice(log_tail)
            assert one is not None
            own = _finer(one, self.unit).times(count, upper, log_tail)
            result = own if result is None else result.plus(own)
            result = result.cut(upper, log_tail)
        assert result is not None
        return result


def _finer(law: Lattice, unit: Fraction) -> Lattice:
    """Return the law in a finer unit that divides its own unit."""
    times = int(law.unit / unit)
    mass = np.zeros((law.mass.size - 1) * times + 1)
    mass[::times] = law.mass
    return replace(law, unit=unit, first=law.first * times, mass=mass)


def gathered_lattices(steps: Steps, log_tail: float) -> list[tuple[Leaf, int]]:
    """Combine the steps on each lattice into one step, if that is feasible."""
    units: list[tuple[Fraction, list[tuple[Step, int]]]] = []
    rest: list[tuple[Leaf, int]] = []
    for leaf, count in steps:
        own = leaf.lattice(log_tail)
        if own is None or own.mass.size > _LONGEST:
            rest.append((leaf, count))
            continue
        found = joined([unit for unit, _ in units], own.unit)
        if found is None:
            units.append((own.unit, [(leaf, count)]))
        else:
            i, both = found
            units[i] = both, [*units[i][1], (leaf, count)]
    alone = len(rest) + len(units) <= 2 and all(n == 1 for _, n in rest)
    result = list(rest)
    for unit, parts in units:
        one = LatticeLeaf(unit, tuple(parts), alone)
        try:
            one._sum(False, log_tail)
            result.append((one, 1))
        except OverflowError:
            result += parts
    return result
