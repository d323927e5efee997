"""Proved bounds of one direction's profile: contours, then atoms.

A contour gives narrow bounds if the losses' transform decays. Atoms narrow the bounds
that it leaves wide.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from fastdp.accounting._atoms.bounds import (
    BOTH,
    Aim,
    epsilon_bounds,
    log_delta_reading,
)
from fastdp.accounting._atoms.plan import sums_of
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._pld.chernoff import Chernoff
from fastdp.accounting._pld.closed import Profile
from fastdp.accounting._pld.contour import Contour, LogDelta, TooCostlyError
from fastdp.accounting._pld.losses import PER_OCTAVE, Floats, Loss, U, order

if TYPE_CHECKING:
    from fastdp.accounting._pld.composition import Composition

#: A typical value of ln(delta/least Chernoff bound).
_GAP = -1.5

#: Use a contour for later points of a profile up to this distance, in units of 1/theta.
_SPAN = 3.0

#: Also use atoms if the contour's bracket is wider than this: relative for epsilon,
#: absolute for ln delta. For nearly normal losses, atoms are wider.
_WIDE, _NORMAL_WIDE = 1e-7, 1e-4

#: From _SUMS sums of atoms on (with more than two kinds of steps), contours may blur.
#: Then skip the atoms if the bracket is within _BLURRED (relative, of epsilon) or
#: _BLURRED_LOG (of ln delta); for epsilon, only if the effort is below _ALL.
_SUMS, _BLURRED, _BLURRED_LOG, _ALL = 20, 2e-3, 3e-2, 10.0

#: After a contour proves too costly, skip points within _NEARBY, in units of 1/theta;
#: double this distance with each further failure, up to _FARTHEST.
_NEARBY, _FARTHEST = 0.4, 20.0

#: Refine no bound where ln delta is below this: doubles hardly hold such a delta.
_DEEPEST = -700.0

#: Read points of a profile from the same atoms while ln delta falls by less than this.
_STRETCH = 12.0

#: Read fewer points of a profile than this one by one.
_FEW = 8

#: Plan a new contour if the root is farther from the planned epsilon than this, in
#: units of 1/theta.
_REACH = 1.5

#: Factors by which to widen the first guess at the width.
_WIDER = (0.6, 1.0, 2.0, 8.0, 64.0, 1e4, 1e6, 1e8)

#: Bounds of ln delta that always hold.
ANY_LOG_DELTA = Bracket(-math.inf, 0.0, 0.0, "chernoff")


#: A function that bounds ln delta at epsilons.
Atomic: TypeAlias = Callable[[Floats], list[Bracket]]


class Direction(Profile):
    """The profile of one direction of a composition."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        #: From earlier readings: two epsilons, and bounds of ln delta between them.
        self._stretches: list[tuple[float, float, Atomic]] = []

    @functools.cached_property
    def _chernoff(self) -> Chernoff:
        return Chernoff(self.composition)

    def plus(self, loss: Loss, count: int) -> Direction:
        """Return the profile with `loss` added `count` times."""
        return Direction(self.composition.plus(loss, count))

    # ---- epsilon -------------------------------------------------------------------

    def epsilon(self, log_delta: tuple[float, float], aim: Aim = BOTH) -> Bracket:
        target, enough = log_delta[0], aim.enough
        if 0 < enough < math.inf:
            rough = max(0.0, self._chernoff.rough_epsilon(target)) * (1 + 1e-12)
            if rough <= enough:
                return Bracket(0.0, rough, rough, "chernoff")
        upper = max(0.0, self._chernoff.best_epsilon(target)[1]) * (1 + 1e-12)
        if upper <= enough:
            return Bracket(0.0, upper, upper, "chernoff")
        guess = min(upper, self._chernoff.guess(target), self._normal(target))
        best = Bracket(0.0, guess, upper, "chernoff")
        with contextlib.suppress(TooCostlyError):
            best = best.meet(
                _by_contour(
                    self.composition,
                    self._chernoff,
                    best,
                    log_delta,
                    enough,
                    self._many,
                )
            )
        narrow = _BLURRED if self._many and aim.effort < _ALL else self._wide
        if _width(best) <= narrow or best.upper <= enough:
            return best
        steps = self.composition.steps
        try:
            return best.meet(epsilon_bounds(steps, log_delta, aim))
        except OverflowError:
            if best.method != "chernoff":
                return best
            t, bound = self._chernoff.near(self._chernoff.best_epsilon(target)[0])
            upper = max(0.0, float(np.min((bound - target) / t))) * (1 + 1e-12)
            return best.meet(Bracket(0.0, best.estimate, upper, "chernoff"))

    def _normal(self, log_delta: float) -> float:
        """Return an estimate of epsilon for a loss that is nearly normal, or infinity.

        Rare large losses may move the best order far from the other losses' best order.
        """
        variance = self.composition.normal_variance
        if variance == math.inf:
            return math.inf
        root = math.sqrt(variance)
        level = max(4 * math.exp(max(log_delta, _DEEPEST)) / root, 1e-300)
        return max(variance / 2 - root * float(ndtri(min(level, 0.5))), 0.0)

    @property
    def _wide(self) -> float:
        """The width above which atoms may give narrower bounds."""
        return _WIDE if self.composition.normal_variance == math.inf else _NORMAL_WIDE

    @functools.cached_property
    def _many(self) -> bool:
        """Whether atoms would be so slow that adding noise to the losses is better."""
        steps = self.composition.steps
        return len(steps) > 2 and sums_of(steps, _SUMS) >= _SUMS

    # ---- delta ---------------------------------------------------------------------

    def log_delta(self, epsilon: float) -> Bracket:
        """Bound ln delta(epsilon), epsilon >= 0."""
        return self.log_deltas(np.array([epsilon]))[0]

    def rough(self, epsilon: float) -> float:
        """Bound ln delta(epsilon) from above, at the cost of a few orders."""
        return float(_raised(np.array(self._chernoff.best_delta(epsilon)[1])))

    def log_deltas(self, epsilons: Floats) -> list[Bracket]:
        """Bound ln delta at ascending epsilons, with few contours."""
        rows, methods = self._read(epsilons)
        return [
            Bracket(*found)
            for found in zip(*(row.tolist() for row in rows), methods, strict=True)
        ]

    def bounds(self, epsilons: Floats, deepest: float = -math.inf) -> Floats:
        fewest = min(_FEW, epsilons.size)
        some = epsilons[: max(fewest, self._shallow(epsilons, deepest))]
        rows = np.empty((2, epsilons.size))
        rows[:, : some.size] = self._read(some, deepest)[0][[0, 2]]
        if some.size < epsilons.size:  # delta does not grow
            rows[0, some.size :] = -math.inf
            rows[1, some.size :] = self.rough(float(epsilons[some.size]))
        return rows

    def _shallow(self, epsilons: Floats, deepest: float) -> int:
        """Return how many epsilons have a Chernoff bound above `deepest`."""
        if deepest == -math.inf:
            return epsilons.size
        return bisect.bisect_left(
            range(epsilons.size),
            True,
            key=lambda i: self.rough(float(epsilons[i])) <= deepest,
        )

    def has_corners(self) -> bool:
        return bool(self._stretches)

    def _read(
        self, epsilons: Floats, deepest: float = -math.inf
    ) -> tuple[Floats, list[str]]:
        """Return lower bounds, estimates and upper bounds in rows, and methods.

        The bounds may be wide where ln delta is below `deepest`.
        """
        curve, deepest = deepest > -math.inf, max(deepest, _DEEPEST)
        rows = self._by_contours(epsilons)
        methods = ["contour" if x > -math.inf else "chernoff" for x in rows[0].tolist()]

        def note(i: int, found: Bracket) -> None:
            lower, estimate, upper = rows[:, i].tolist()
            known = Bracket(lower, estimate, upper, methods[i]).narrowed(found)
            rows[:, i] = known.lower, known.estimate, known.upper
            methods[i] = known.method

        aim = _BLURRED_LOG if self._many else self._wide
        wide = (rows[2] - rows[0] > aim) & (rows[2] > deepest)
        open_ = np.flatnonzero(wide)
        while open_.size:
            part, reading = self._stretch(epsilons, open_, rows[2, open_], curve)
            for i, found in zip(part.tolist(), reading(epsilons[part]), strict=True):
                note(i, found)
            rest = rows[1:, part[-1] :]  # delta does not grow
            np.minimum(rest, rows[2, part[-1]], out=rest)
            open_ = open_[~np.isin(open_, part) & (rows[2, open_] > deepest)]
        return rows, methods

    def _stretch(
        self,
        epsilons: Floats,
        open_: npt.NDArray[np.intp],
        levels: Floats,
        curve: bool,
    ) -> tuple[npt.NDArray[np.intp], Atomic]:
        """Return the places that one plan of atoms covers, and its bounds."""
        many = epsilons.size >= _FEW
        for low, high, reading in self._stretches if many or curve else ():
            inside = open_[(epsilons[open_] > low) & (epsilons[open_] < high)]
            if inside.size:
                return inside, reading
        part = open_[levels > levels[0] - _STRETCH] if many else open_[:1]
        reading = self._atomic(float(epsilons[part[part.size // 2]]))
        if many:
            low = float(epsilons[part[0] - 1]) if part[0] else -1.0
            high = float(epsilons[part[-1]])
            more = part[-1] + 1 < epsilons.size
            high = float(epsilons[part[-1] + 1]) if more else high + (high - low) / 8
            self._stretches.append((low, high, reading))
        return part, reading

    def _atomic(self, epsilon: float) -> Atomic:
        """Return bounds by atoms planned for `epsilon`; trivial bounds if too many."""
        try:
            return log_delta_reading(self.composition.steps, epsilon)
        except OverflowError:
            return lambda epsilons: [ANY_LOG_DELTA] * epsilons.size

    def _by_contours(self, epsilons: Floats) -> Floats:
        """Return lower bounds, estimates and upper bounds, by contours alone."""
        rows = np.empty((3, epsilons.size))
        at, skip = 0, _NEARBY
        while at < epsilons.size:
            first = float(epsilons[at])
            try:
                contour, planned = self._planned(first)
                part = slice(at, max(at + 1, _place(epsilons, planned)))
                rows[:, part] = contour.bounds(epsilons[part])
                upper, skip = contour.chernoff(epsilons[part]), _NEARBY
            except TooCostlyError:  # nearby points would fail as well
                index, _ = self._chernoff.best_delta(first)
                end = first + skip / order(index)
                part = slice(at, max(at + 1, _place(epsilons, end)))
                around = index // PER_OCTAVE
                t, bound = self._chernoff.between(around - 2, around + 3)
                upper = (bound - np.multiply.outer(epsilons[part], t)).min(axis=1)
                rows[:, part] = np.array([[-math.inf], [math.inf], [math.inf]])
                skip = min(2 * skip, _FARTHEST)
            rows[2, part] = np.minimum(rows[2, part], _raised(upper))
            rows[1, part] = np.clip(rows[1, part], rows[0, part], rows[2, part])
            at = part.stop
        return rows

    def _planned(self, epsilon: float) -> tuple[Contour, float]:
        """Return a contour for `epsilon`, and the largest epsilon that it covers."""
        bound = self._chernoff.best_delta(epsilon)[1]
        level = min(0.0, bound) + _GAP
        contour = Contour(
            self.composition, self._chernoff, epsilon, level, blurred=self._many
        )
        return contour, epsilon + _SPAN / contour.theta


def _place(epsilons: Floats, end: float) -> int:
    return int(np.searchsorted(epsilons, end, side="right"))


def _width(found: Bracket) -> float:
    """Return the relative width."""
    if found.upper == found.lower:
        return 0.0
    return (found.upper - found.lower) / found.upper


def _raised(bound: npt.NDArray[np.float64]) -> Floats:
    """Return Chernoff bounds raised by their rounding error, and at most 0."""
    return np.asarray(np.minimum(0.0, bound + 1e-12 + 1e-15 * np.abs(bound)))


# ---- epsilon at a delta --------------------------------------------------------------


def _by_contour(
    composition: Composition,
    chernoff: Chernoff,
    known: Bracket,
    log_delta: tuple[float, float],
    enough: float = 0.0,
    blurred: bool = False,
) -> Bracket:
    """Bound the least epsilon >= 0 with delta(epsilon) <= delta, starting at `known`.

    `log_delta` holds bounds on ln delta; epsilon must meet the lower bound. Stop as
    soon as epsilon is known to be at most `enough`. If `blurred`, noise may be added to
    the losses to save nodes.

    Raises
    ------
    TooCostlyError
        The contour would need too many nodes.
    """
    epsilon, upper = known.estimate, known.upper
    search = _Search(log_delta, upper)
    make = functools.partial(Contour, composition, chernoff, blurred=blurred)
    contour = _kept(composition, chernoff, blurred)
    if 0 < enough < upper:
        one = contour or make(enough, log_delta[0])
        (found,) = one.log_deltas(np.array([enough]))
        if found.upper <= log_delta[0]:
            return Bracket(0.0, enough, enough, "contour")
    if contour is not None:
        epsilon, width = search.root(contour, epsilon)
        if contour.fits(epsilon):
            search.widen(contour, epsilon, width)
            return Bracket(search.lower, epsilon, search.upper, "contour")
    for _ in range(8):
        contour = make(epsilon, log_delta[0])
        start = epsilon
        epsilon, width = search.root(contour, epsilon)
        if abs(epsilon - start) * contour.theta < _REACH or epsilon == 0:
            break
    assert contour is not None
    search.widen(contour, epsilon, width)
    return Bracket(search.lower, epsilon, search.upper, "contour")


def _kept(
    composition: Composition, chernoff: Chernoff, blurred: bool
) -> Contour | None:
    """Return the contour of an earlier reading's plan, if there is one."""
    plan = composition.plan
    if plan is None or (plan.blur and not blurred):
        return None
    try:
        return Contour(composition, chernoff, 0.0, 0.0, plan)
    except TooCostlyError:
        return None


class _Search:
    """The bounds of epsilon proved so far, and the search for better ones."""

    def __init__(self, log_delta: tuple[float, float], upper: float) -> None:
        self._low, self._high = log_delta
        self.lower, self.upper = 0.0, upper

    def note(self, epsilon: float, found: LogDelta) -> None:
        """Update the bounds from those of ln delta at `epsilon`."""
        if found.upper <= self._low:
            self.upper = min(self.upper, epsilon)
        if found.lower >= self._high:
            self.lower = max(self.lower, epsilon)

    def root(self, contour: Contour, epsilon: float) -> tuple[float, float]:
        """Return the root >= 0 of the estimate near `epsilon`, by Newton's method.

        Also return approximately the least width of its later bounds.
        """
        most, slope = 3 / contour.theta, -contour.theta
        for _ in range(12):
            value, slope = contour.estimate(epsilon)
            slope = min(slope, -1e-3 * contour.theta)
            if not math.isfinite(value):
                break
            step = max(-most, min(most, (self._low - value) / slope))
            moved = min(max(epsilon + step, self.lower), self.upper)
            last, epsilon = epsilon, moved
            # Convergence is quadratic: the rest is far below the bounds' width.
            if abs(moved - last) <= 1e-8 * max(moved, 1e-3 / contour.theta):
                break
        return epsilon, contour.spread(epsilon, self._low) / -slope

    def widen(self, contour: Contour, epsilon: float, width: float = 0.0) -> None:
        """Widen an interval around the root until both ends are proved."""
        least = max(4 * U * epsilon, 1e-300)
        guess = _WIDER[0] * max(width, least)
        if 0 < width < math.inf and self._look(contour, epsilon, guess):
            return
        (found,) = contour.log_deltas(np.array([epsilon]))
        self.note(epsilon, found)
        slope = contour.slope(epsilon, found.estimate)
        slope = min(slope, -1e-3 * contour.theta)
        width = (found.upper - found.lower) / -slope
        if not math.isfinite(width):
            width = 1 / contour.theta
        width = max(width, least)
        for factor in _WIDER:
            if self._look(contour, epsilon, factor * width):
                break

    def _look(self, contour: Contour, epsilon: float, reach: float) -> bool:
        """Read ln delta `reach` to both sides; return whether both are proved."""
        below, above = epsilon - reach, epsilon + reach
        ends = np.array([max(0.0, below), above])
        for end, found in zip(ends.tolist(), contour.log_deltas(ends), strict=True):
            self.note(end, found)
        return self.upper <= above and self.lower >= below
