"""Bounds of a profile read from compositions on grids.

Atoms whose losses have no common unit fit no grid together. But with the losses l_i and
masses a_i of one part, delta(epsilon) is the sum of a_i delta_rest(epsilon - l_i): so
every lattice is composed on a grid of its own, without error but for rounding, one of
the parts is read and the others are summed over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fastdp.accounting._bounds import Bracket
from fastdp.accounting._numeric import root_above
from fastdp.accounting._pld.grid import GridComposition
from fastdp.accounting._pld.losses import Floats, U

#: Most terms of the sum over the parts that are not read, and of a table.
MOST_TERMS, _TABLE = 1 << 16, 1 << 18


class Terms:
    """The losses of a sum of lattices, each with its tilted mass.

    Parameters
    ----------
    parts : sequence of GridComposition
        Compositions with the same tilt.

    Raises
    ------
    OverflowError
        There are too many terms.
    """

    def __init__(self, parts: Sequence[GridComposition]) -> None:
        self.losses, self.masses, relative = np.zeros(1), np.ones(1), 0.0
        for part in parts:
            losses, masses, error = part.points()
            if losses.size * self.losses.size > MOST_TERMS:
                raise OverflowError("too many terms")
            self.losses = np.add.outer(self.losses, losses).ravel()
            self.masses = np.multiply.outer(self.masses, masses).ravel()
            relative += error + relative * error
        #: Bound of the sum of the errors of the masses.
        self.error = relative * (1 + 1e-9)


class GridReading:
    """A composition on a grid, read through the terms of others: bounds of ln delta.

    Parameters
    ----------
    main : GridComposition
        What is read at epsilon less each loss of the others.
    parts : sequence of GridComposition, optional
        The others, with the same tilt.
    """

    def __init__(
        self, main: GridComposition, parts: Sequence[GridComposition] = ()
    ) -> None:
        self._main, self._terms = main, Terms(parts)
        every = [main, *parts]
        self._theta = main.theta
        self._cumulant = math.fsum(part.cumulant for part in every)
        self.log_kept = sum(part.log_kept for part in every)
        self._blur = sum(part.blur for part in every)
        self._slack = sum(part.slack for part in every)
        self._reach = sum(part.reach for part in every)

    def lower(self, epsilon: float) -> float:
        """Return a lower bound of ln delta of the composition, but for the lost."""
        return float(self.lowers(np.array([epsilon]))[0])

    def upper(self, epsilon: float) -> float:
        """Return an upper bound of ln delta of the composition, but for the lost."""
        return float(self.uppers(np.array([epsilon]))[0])

    def lowers(self, epsilons: Floats) -> Floats:
        """Return `lower` at each epsilon."""
        return self._bounds(epsilons + self._blur, -1.0)

    def uppers(self, epsilons: Floats) -> Floats:
        """Return `upper` at each epsilon."""
        return self._bounds(epsilons - self._blur, 1.0)

    def _bounds(self, epsilons: Floats, sign: float) -> Floats:
        terms = self._terms
        total, off = np.empty((2, epsilons.size))
        rows = max(1, _TABLE // terms.losses.size)
        for i in range(0, epsilons.size, rows):
            part = slice(i, i + rows)
            each, error = self._main.sums(
                np.subtract.outer(epsilons[part], terms.losses)
            )
            total[part], off[part] = each @ terms.masses, error @ terms.masses
        # No payoff is above 1.
        off += terms.error + U * (terms.masses.size + 8) * total
        base = self._cumulant - self._theta * epsilons
        reach = np.abs(epsilons) + self._reach
        slack = self._slack + 8 * U * (np.abs(base) + 1 + (1 + self._theta) * reach)
        with np.errstate(divide="ignore"):
            value = np.log(np.maximum(total + sign * off * (1 + 1e-9), 0.0))
        return np.asarray(base + sign * slack + value)


class GridProfile:
    """Bounds from a worse and a better composition, good near one epsilon."""

    def __init__(
        self,
        worse: GridReading,
        better: GridReading,
        theta: float,
    ) -> None:
        self._theta, self._worse, self._better = theta, worse, better

    def log_delta(self, epsilon: float) -> Bracket:
        """Bound ln delta(epsilon)."""
        low, high = self._better.lower(epsilon), self._upper(epsilon)
        return Bracket(low, (low + high) / 2 if low > -1e300 else high, high, "grid")

    def _upper(self, epsilon: float) -> float:
        return self._with_lost(self._worse.upper(epsilon))

    def _with_lost(self, high: float) -> float:
        """Return an upper bound of ln delta with what the worse laws lose."""
        lost = -math.expm1(self._worse.log_kept)
        if lost > 0:
            high = math.log(math.exp(high) + lost * (1 + 1e-12)) if high < 1 else high
        return min(0.0, high + 4 * U)

    def log_deltas(self, epsilons: Floats) -> list[Bracket]:
        """Bound ln delta at each epsilon."""
        lows = self._better.lowers(epsilons).tolist()
        highs = [
            self._with_lost(high) for high in self._worse.uppers(epsilons).tolist()
        ]
        return [
            Bracket(low, (low + high) / 2 if low > -1e300 else high, high, "grid")
            for low, high in zip(lows, highs, strict=True)
        ]

    def epsilon(self, log_delta: tuple[float, float], guess: float) -> Bracket:
        """Bound the least epsilon >= 0 with delta(epsilon) <= delta."""
        target, over = log_delta
        if self._upper(0.0) <= target:
            return Bracket(0.0, 0.0, 0.0, "grid")
        upper = self._solve(lambda e: self._upper(e) - target, guess, 1.0)
        near = upper if math.isfinite(upper) else guess
        lower = self._solve(lambda e: over - self._better.lower(e), near, -1.0)
        lower = min(lower, upper)
        return Bracket(lower, (lower + upper) / 2, upper, "grid")

    def _solve(
        self, excess: Callable[[float], float], guess: float, sign: float
    ) -> float:
        """Return an epsilon >= 0 where the excess was found <= 0, near a sign change.

        Up the axis (sign 1) the excess falls from above 0 at 0, else it rises. Where
        nothing is found, infinity or 0 is returned.
        """

        def finite(epsilon: float) -> float:
            return max(-1e300, min(1e300, excess(sign * epsilon)))

        start = sign * guess
        width = min(1e-2 / self._theta, 0.1 * (1 + guess))
        most = 1e6 * (1 + guess)
        if finite(start) > 0:
            low = high = start
            while finite(high) > 0:
                if sign < 0 and high == 0:
                    return 0.0
                if width > most:
                    return math.inf
                low, high, width = high, high + width, 4 * width
                high = high if sign > 0 else min(high, 0.0)
        else:
            low = high = start
            while finite(low) <= 0:
                if width > most:
                    return sign * low
                low, high, width = low - width, low, 4 * width
                low = max(low, 0.0) if sign > 0 else low
        return sign * root_above(finite, low, high, 1e-11)
