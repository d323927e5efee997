"""The profile of a law of so few losses that it is a sum over them.

The masses of sums are multinomial.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fastdp.accounting._atoms.bounds import BOTH, Wanted
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._numeric import root_above
from fastdp.accounting._pld.closed import Pointwise
from fastdp.accounting._pld.listed_loss import ListedLoss
from fastdp.accounting._pld.losses import Floats, U, numbers

#: Most sums that are listed.
MOST_SUMS = numbers(256)


@dataclass(frozen=True, eq=False)
class Sums:
    """Losses, ascending, with the logarithms of their masses under P."""

    losses: Floats
    log_masses: Floats
    blur: float  # bound of the absolute errors of the losses
    error: float = 0.0  # what composing adds to the relative errors of the masses

    def power(self, count: int) -> Sums:
        """Return the law of the sum of `count` such losses."""
        if count == 1:
            return self
        pairs = count == 2
        losses, level, error = self._pairs() if pairs else self._multinomial(count)
        order = np.argsort(losses, kind="stable")
        largest = float(np.abs(self.losses).max())
        blur = count * (self.blur + U * (self.losses.size + 2) * largest)
        return Sums(losses[order], level[order], blur, error)

    def _pairs(self) -> tuple[Floats, Floats, float]:
        i, j = np.triu_indices(self.losses.size)
        level = self.log_masses[i] + self.log_masses[j]
        twice = np.where(i < j, math.log(2), 0)
        return self.losses[i] + self.losses[j], level + twice, 0.0

    def _multinomial(self, count: int) -> tuple[Floats, Floats, float]:
        """Return sums, masses and their errors, taking in one value after the other."""
        logs = np.log(np.arange(1, count + 1))
        most = count * (2 * math.log(count) + float(np.abs(self.log_masses).max()))
        step = 2.0 ** (math.frexp(most)[1] - 52)  # sums of its multiples are exact
        whole, rest = _split(logs, step)
        log_factorial = np.zeros((2, count + 1))
        log_factorial[0, 1:], log_factorial[1, 1:] = np.cumsum(whole), np.cumsum(rest)
        masses = np.array(_split(self.log_masses, step))
        left = np.array([count])
        losses, level = np.zeros(1), log_factorial[:, [count]]
        for loss, log_mass in zip(self.losses[1:], masses.T[1:], strict=True):
            times = left + 1
            start = np.repeat(np.cumsum(times) - times, times)
            here = np.arange(times.sum()) - start
            left = np.repeat(left, times) - here
            losses = np.repeat(losses, times) + here * loss
            level = np.repeat(level, times, axis=1)
            level += here * log_mass[:, None] - log_factorial[:, here]
        losses = losses + left * self.losses[0]
        level = level + left * masses[:, :1] - log_factorial[:, left]
        error = 8 * math.log(count) + step * (count + 4 * self.losses.size)
        return losses, level[0] + level[1], U * count * error


def _split(values: Floats, step: float) -> tuple[Floats, Floats]:
    """Return multiples of a power of two, and what is left."""
    whole = np.rint(values / step) * step
    return whole, values - whole


def _sums_of(loss: ListedLoss) -> Sums:
    """Return the law of one loss."""
    error = 4 * U * float(np.abs(loss.losses).max())  # a unit may be rounded
    return Sums(loss.losses, loss.log_masses, loss.blur + error)


class FiniteProfile(Pointwise):
    """delta(epsilon) as the sum of mass (1 - e^(epsilon - loss)) over larger losses.

    `sums` is the law of the whole composition, `error` bounds masses' relative errors.
    """

    def __init__(self, sums: Sums, error: float) -> None:
        self._losses, self._level = sums.losses, sums.log_masses
        self._blur = sums.blur
        self._error = error

    def log_delta(self, epsilon: float) -> Bracket:
        low = self._at(epsilon + self._blur, -1.0)
        high = self._at(epsilon - self._blur, 1.0)
        return Bracket(low, min(max((low + high) / 2, low), high), high, "sum")

    def _at(self, epsilon: float, sign: float) -> float:
        first = int(np.searchsorted(self._losses, epsilon, side="right"))
        gap = self._losses[first:] - epsilon
        if gap.size == 0 or gap[-1] <= 0:
            return -math.inf
        level = self._level[first:]
        peak = float(level.max())
        total = float(np.exp(level - peak) @ -np.expm1(-gap))
        if total <= 0:
            return -math.inf
        # Positive terms; differences of losses are covered by `blur`.
        slack = self._error + U * (60 + math.log2(gap.size) + 4 * abs(peak))
        return min(0.0, peak + math.log(total) + sign * slack)

    def epsilon(
        self,
        log_delta: tuple[float, float],
        enough: float = 0.0,
        effort: float = 1.0,
        wanted: Wanted = BOTH,
    ) -> Bracket:
        target, over = log_delta
        excess = self.excess(target)

        def lack(minus: float) -> float:
            return over - max(self.log_delta(-minus).lower, -1e300)

        if excess(0.0) <= 0:
            return Bracket(0.0, 0.0, 0.0, "sum")
        most = max(0.0, float(self._losses[-1])) + 2 * self._blur
        upper = root_above(excess, 0.0, most * (1 + 1e-15)) if most else 0.0
        lower = 0.0
        if lack(0.0) <= 0:
            lower = -root_above(lack, -upper - 1e-300, 0.0)
        return Bracket(lower, (lower + upper) / 2, upper, "sum")


def finite_profile(steps: Sequence[tuple[ListedLoss, int]]) -> FiniteProfile | None:
    """Return the profile where all sums of losses can be listed."""
    sizes = (math.comb(n + loss.losses.size - 1, n) for loss, n in steps)
    if any(size > MOST_SUMS for size in itertools.accumulate(sizes, operator.mul)):
        return None
    sums = functools.reduce(_together, (_sums_of(loss).power(n) for loss, n in steps))
    error = sum(n * loss.mass_error for loss, n in steps)
    return FiniteProfile(sums, error + sums.error)


def _together(one: Sums, other: Sums) -> Sums:
    """Return the law of the sum of two losses."""
    losses = np.add.outer(one.losses, other.losses).ravel()
    level = np.add.outer(one.log_masses, other.log_masses).ravel()
    order = np.argsort(losses, kind="stable")
    largest = float(np.abs(losses[order[[0, -1]]]).max())
    blur = one.blur + other.blur + U * largest
    return Sums(losses[order], level[order], blur, one.error + other.error)
