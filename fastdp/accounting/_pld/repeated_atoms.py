"""Sums of few losses, value by value: exact where they are not too many.

The masses are multinomial. Of many steps, sums of some are listed, which lie so close
together that cells of a grid can be merged by threes.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from fastdp.accounting._pld.losses import Floats, U
from fastdp.accounting._pld.memory import numbers
from fastdp.accounting._pld.simple_losses import AtomLoss, ScatteredLoss

#: Most sums that are listed.
MOST_SUMS = numbers(256)


@dataclass(frozen=True, eq=False)
class Sums:
    """Losses, ascending, with their masses, and what was cut off on both sides.

    Parameters
    ----------
    losses, log_masses : ndarray of float64
        The losses and the logarithms of their masses under P.
    blur : float
        Bound of the absolute errors of the losses.
    high, low : float
        Masses above and below all losses, or more.
    """

    losses: Floats
    log_masses: Floats
    blur: float
    high: float = 0.0
    low: float = 0.0

    @functools.cached_property
    def masses(self) -> Floats:
        """The masses under P."""
        return np.maximum(np.exp(self.log_masses), 5e-324)

    def trimmed(self, log_tail: float) -> Sums:
        """Return the sums without tails of masses below exp(log_tail) each."""
        least = math.exp(log_tail)
        below = np.cumsum(self.masses)
        above = np.cumsum(self.masses[::-1])
        first = int(np.searchsorted(below, least))
        cut = int(np.searchsorted(above, least))
        last = self.losses.size - cut
        if (first == 0 and cut == 0) or first >= last:
            return self
        kept = slice(first, last)
        high = self.high + (float(above[cut - 1]) * (1 + 1e-9) if cut else 0.0)
        low = self.low + (float(below[first - 1]) * (1 + 1e-9) if first else 0.0)
        return Sums(self.losses[kept], self.log_masses[kept], self.blur, high, low)

    def power(self, count: int) -> Sums:
        """Return the law of the sum of `count` such losses."""
        if count == 1:
            return self
        found = self._pairs() if count == 2 else self._multinomial(count)
        order = np.argsort(found[0], kind="stable")
        largest = float(np.abs(self.losses).max())
        blur = count * (self.blur + U * (self.losses.size + 2) * largest)
        ends = count * self.high * (1 + 1e-9), count * self.low * (1 + 1e-9)
        return Sums(found[0][order], found[1][order], blur, *ends)

    def _pairs(self) -> tuple[Floats, Floats]:
        i, j = np.triu_indices(self.losses.size)
        level = self.log_masses[i] + self.log_masses[j]
        return self.losses[i] + self.losses[j], level + np.where(i < j, math.log(2), 0)

    def _multinomial(self, count: int) -> tuple[Floats, Floats]:
        """Return the sums and their masses, taking in one value after the other."""
        log_factorial = np.concatenate(
            [[0.0], np.cumsum(np.log(np.arange(1, count + 1, dtype=np.longdouble)))]
        )
        left = np.array([count])
        losses, level = np.zeros(1), log_factorial[[count]]
        masses = self.log_masses.astype(np.longdouble)
        for loss, log_mass in zip(self.losses[1:], masses[1:], strict=True):
            times = left + 1
            start = np.repeat(np.cumsum(times) - times, times)
            here = np.arange(times.sum()) - start
            left = np.repeat(left, times) - here
            losses = np.repeat(losses, times) + here * loss
            level = np.repeat(level, times) + here * log_mass - log_factorial[here]
        losses = losses + left * self.losses[0]
        level = level + left * masses[0] - log_factorial[left]
        return losses, level.astype(np.float64)


def sums_of(loss: AtomLoss | ScatteredLoss) -> Sums:
    """Return the law of one loss."""
    error = 4 * U * float(np.abs(loss.losses).max())  # a unit may be rounded
    return Sums(loss.losses, loss.log_masses, loss.blur + error)


def largest_power(values: int, count: int) -> int:
    """Return how many of `count` losses of so many values can be added up at once."""
    low, high = 1, count
    while low < high:
        middle = (low + high + 1) // 2
        fits = math.comb(middle + values - 1, values - 1) <= MOST_SUMS
        low, high = (middle, high) if fits else (low, middle - 1)
    return low
