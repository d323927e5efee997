"""The profile of a law of so few losses that it is a sum over them."""

from __future__ import annotations

import math

import numpy as np

from fastdp.accounting._bounds import Bracket
from fastdp.accounting._numeric import root_above
from fastdp.accounting._pld.losses import Floats, Loss, U
from fastdp.accounting._pld.repeated_atoms import (
    MOST_SUMS,
    Sums,
    largest_power,
    sums_of,
)
from fastdp.accounting._pld.simple_losses import AtomLoss, ScatteredLoss

#: Sums of losses over all steps up to which they are listed.
_MOST = MOST_SUMS


class FiniteProfile:
    """delta(epsilon) as the sum of mass (1 - e^(epsilon - loss)) over larger losses.

    Parameters
    ----------
    sums : Sums
        The law of the whole composition.
    error : float
        Bound of the masses' relative errors.
    """

    def __init__(self, sums: Sums, error: float) -> None:
        self._losses, self._level = sums.losses, sums.log_masses
        self._blur = sums.blur
        self._error = error

    def log_delta(self, epsilon: float) -> Bracket:
        """Bound ln delta(epsilon)."""
        low = self._at(epsilon + self._blur, -1.0)
        high = self._at(epsilon - self._blur, 1.0)
        return Bracket(low, min(max((low + high) / 2, low), high), high, "sum")

    def log_deltas(self, epsilons: Floats) -> list[Bracket]:
        """Bound ln delta at each epsilon."""
        return [self.log_delta(float(e)) for e in epsilons]

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

    def epsilon(self, log_delta: tuple[float, float]) -> Bracket:
        """Bound the least epsilon >= 0 with delta(epsilon) <= delta."""
        target, over = log_delta

        def excess(epsilon: float) -> float:
            return max(self.log_delta(epsilon).upper, -1e300) - target

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


def finite_profile(steps: tuple[tuple[Loss, int], ...]) -> FiniteProfile | None:
    """Return the profile where all sums of losses can be listed."""
    found: Sums | None = None
    error, size = 0.0, 1
    for loss, count in steps:
        if not isinstance(loss, AtomLoss | ScatteredLoss):
            return None
        if largest_power(loss.losses.size, count) < count:
            return None
        size *= math.comb(count + loss.losses.size - 1, count)
        if size > _MOST:
            return None
        error += count * loss.mass_error
    for loss, count in steps:
        assert isinstance(loss, AtomLoss | ScatteredLoss)
        own = sums_of(loss).power(count)
        found = own if found is None else _together(found, own)
    return None if found is None else FiniteProfile(found, error)


def _together(one: Sums, other: Sums) -> Sums:
    """Return the law of the sum of two losses."""
    losses = np.add.outer(one.losses, other.losses).ravel()
    level = np.add.outer(one.log_masses, other.log_masses).ravel()
    order = np.argsort(losses, kind="stable")
    largest = float(np.abs(losses[order[[0, -1]]]).max())
    blur = one.blur + other.blur + U * largest
    return Sums(losses[order], level[order], blur)
