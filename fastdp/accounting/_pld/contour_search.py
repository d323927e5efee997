"""epsilon at a delta, read off contours.

delta(epsilon) does not grow, so epsilon is between a point where delta was proved to
be at least the target and one where it was proved to be at most that (theorem 9);
slopes and guesses only serve to find the two points.
"""

from __future__ import annotations

import math

import numpy as np

from fastdp.accounting._bounds import Bracket
from fastdp.accounting._pld.chernoff import Chernoff
from fastdp.accounting._pld.composition import Composition
from fastdp.accounting._pld.contour import Contour, LogDelta, TooCostlyError
from fastdp.accounting._pld.losses import U

#: How far from its plan a contour is read, in units of 1/theta.
_REACH = 1.5

#: Widenings of a first guess at the width that are tried.
_WIDER = (0.6, 1.0, 2.0, 8.0, 64.0, 1e4, 1e6, 1e8)


def epsilon_by_contour(
    composition: Composition,
    chernoff: Chernoff,
    upper: float,
    log_delta: tuple[float, float],
    enough: float = 0.0,
) -> Bracket:
    """Bound the least epsilon >= 0 with delta(epsilon) <= delta, at most `upper`.

    `log_delta` are bounds of ln delta: the lower one is what has to be met. Where
    epsilon is found not to be above `enough`, nothing more is.

    Raises
    ------
    TooCostlyError
        The contour would need too many nodes.
    """
    search = Search(log_delta, upper)
    contour = _kept(composition, chernoff)
    if 0 < enough < upper:
        one = contour or Contour(composition, chernoff, enough, log_delta[0])
        (found,) = one.log_deltas(np.array([enough]))
        if found.upper <= log_delta[0]:
            return Bracket(0.0, enough, enough, "contour")
    epsilon = chernoff.guess(log_delta[0])
    if contour is not None:
        epsilon = search.root(contour, epsilon)
        if contour.fits(epsilon):
            search.widen(contour, epsilon)
            return Bracket(search.lower, epsilon, search.upper, "contour")
    for _ in range(8):
        contour = Contour(composition, chernoff, epsilon, log_delta[0])
        start = epsilon
        epsilon = search.root(contour, epsilon)
        if abs(epsilon - start) * contour.theta < _REACH or epsilon == 0:
            break
    assert contour is not None
    search.widen(contour, epsilon)
    return Bracket(search.lower, epsilon, search.upper, "contour")


def _kept(composition: Composition, chernoff: Chernoff) -> Contour | None:
    """Return the contour of the plan that an earlier reading left, if any."""
    plan = composition.plan
    if plan is None:
        return None
    try:
        return Contour(composition, chernoff, 0.0, 0.0, plan)
    except TooCostlyError:
        return None


class Search:
    """What is proved of epsilon so far, and the looking for more."""

    def __init__(self, log_delta: tuple[float, float], upper: float) -> None:
        self._low, self._high = log_delta
        self.lower, self.upper = 0.0, upper

    def note(self, epsilon: float, found: LogDelta) -> None:
        """Take over what the bounds of ln delta at epsilon say."""
        if found.upper <= self._low:
            self.upper = min(self.upper, epsilon)
        if found.lower >= self._high:
            self.lower = max(self.lower, epsilon)

    def root(self, contour: Contour, epsilon: float) -> float:
        """Return the estimate's root near epsilon, >= 0, by Newton's steps."""
        most = 3 / contour.theta
        for _ in range(12):
            value, slope = contour.estimate(epsilon)
            if not math.isfinite(value):
                break
            slope = min(slope, -1e-3 * contour.theta)
            step = max(-most, min(most, (self._low - value) / slope))
            moved = min(max(epsilon + step, self.lower), self.upper)
            last, epsilon = epsilon, moved
            # Steps shrink by squares: what is left is far below the bounds' width.
            if abs(moved - last) <= 1e-8 * max(moved, 1e-3 / contour.theta):
                break
        return epsilon

    def root_anywhere(self, contour: Contour, epsilon: float) -> float:
        """Return the estimate's root, however far from epsilon, >= 0."""
        low, high = self.lower, self.upper
        for _ in range(60):
            found = contour.log_deltas(np.array([epsilon]))[0]
            self.note(epsilon, found)
            if found.estimate > self._low:
                low = epsilon
            else:
                high = epsilon
            moved = epsilon
            if math.isfinite(found.estimate):
                slope = min(contour.slope(epsilon, found.estimate), -1e-300)
                moved += (self._low - found.estimate) / slope
            if abs(moved - epsilon) <= 1e-15 * epsilon or high - low <= 1e-15 * high:
                break
            if not low < moved < high:
                moved = math.sqrt(low * high) if low > 0 else high / 8
            epsilon = moved
        return min(max(epsilon, self.lower), self.upper)

    def widen(self, contour: Contour, epsilon: float) -> None:
        """Widen about the root until both sides are proved."""
        (found,) = contour.log_deltas(np.array([epsilon]))
        self.note(epsilon, found)
        slope = contour.slope(epsilon, found.estimate)
        slope = min(slope, -1e-3 * contour.theta)
        width = (found.upper - found.lower) / -slope
        if not math.isfinite(width):
            width = 1 / contour.theta
        width = max(width, 4 * U * epsilon, 1e-300)
        open_below, open_above = True, True
        for factor in _WIDER:
            below, above = epsilon - factor * width, epsilon + factor * width
            ends = np.array([max(0.0, below), above])
            low, high = contour.log_deltas(ends)
            if open_below:
                self.note(float(ends[0]), low)
            if open_above:
                self.note(above, high)
            open_below = open_below and self.lower < max(below, 1e-300) and below > 0
            open_above = open_above and self.upper > above
            if not (open_below or open_above):
                break
