"""Proved bounds of one direction's profile, read off contours.

What contours leave wide is read from contours of more digits, and from laws on a grid.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from fastdp.accounting._atoms.bounds import (
    BOTH,
    Wanted,
    epsilon_bounds,
    log_delta_bounds,
)
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._pld.composition import Composition
from fastdp.accounting._pld.contour import Chernoff, Contour, TooCostlyError
from fastdp.accounting._pld.contour_search import Search, epsilon_by_contour
from fastdp.accounting._pld.cut_sample import cut_composition
from fastdp.accounting._pld.grid_profile import GridProfile
from fastdp.accounting._pld.grid_steps import grid_profile
from fastdp.accounting._pld.losses import PER_OCTAVE, Floats, Loss, order
from fastdp.accounting._pld.precise import PreciseContour
from fastdp.accounting._pld.sampled_loss import SampledGaussianLoss

#: ln of about what delta is in units of its least Chernoff bound.
_GAP = -1.5

#: How far a contour serves for later points of a profile, likewise.
_SPAN = 3.0

#: What is wider than this (relatively, for epsilon) is tried on a grid.
_WIDE = 1e-7

#: With at most this many steps a grid is tried first; this relative width will do.
_FEWEST, _FIT = 4, 9e-7

#: What contours in more digits may cost by default, in seconds or so; the effort from
#: which on everything is tried.
_CHEAP, _EVERYTHING = 0.12, 10.0

#: Different steps up to which a grid is tried, if none is a sample with a density.
_FEW_KINDS = 4

#: If every step repeats at least _MANY times, refine anything wider than _NARROW.
_NARROW, _MANY = 1e-10, 100

#: After a contour proves too costly, skip it for points this close, likewise.
_NEARBY = 0.4

#: ln of deltas that are not looked at closely: mostly of the direction that does not
#: matter.
_DEEP = -2000.0

#: ln of deltas that doubles do not bear.
_DEEPEST = -700.0

#: Stretches of a profile that atoms read, and how much ln delta falls in one.
_STRETCHES_READ, _STRETCH = 4, 12.0

#: Points of a profile from which on a grid is summed up for all of them.
_FEW = 8

#: How sharply tails are cut for that; None leaves them.
_SHARPEST = 1.0
_STRETCHES = (None, 2.0, _SHARPEST)

#: Tilts of grids that are tried in turn, in units of the order of Chernoff's bound:
#: where delta is far below that bound, a smaller one cancels less.
_TILTS = (1.0, 0.8, 0.5, 0.25)

#: -ln of what cut tails of one kind of step may weigh, relative to delta.
_BELOW = 29.0


class Direction:
    """The profile of one direction of a composition."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self._cuts: dict[tuple[float, float], tuple[Composition, Chernoff]] = {}

    @functools.cached_property
    def _chernoff(self) -> Chernoff:
        return Chernoff(self.composition)

    def plus(self, loss: Loss, count: int) -> Direction:
        """Return the profile with `count` more times `loss`."""
        return Direction(self.composition.plus(loss, count))

    # ---- epsilon -------------------------------------------------------------------

    def epsilon(
        self,
        log_delta: tuple[float, float],
        enough: float = 0.0,
        effort: float = 1.0,
        wanted: Wanted = BOTH,
    ) -> Bracket:
        """Bound the least epsilon >= 0 with delta(epsilon) <= delta.

        `log_delta` are bounds of ln delta: the lower one is what has to be met. What
        is found not to be above `enough` is not bracketed more closely. By default
        only what takes a fraction of a second is tried; more `effort` tries more.
        Where one side alone is `wanted`, the other may be left wide.
        """
        target = log_delta[0]
        upper = max(0.0, self._chernoff.best_epsilon(target)[1]) * (1 + 1e-12)
        if upper <= enough:
            return Bracket(0.0, upper, upper, "chernoff")
        guess = min(upper, self._chernoff.guess(target))
        best = Bracket(0.0, guess, upper, "chernoff")
        try:
            found = epsilon_by_contour(
                self.composition, self._chernoff, upper, log_delta, enough
            )
            best = best.meet(found)
            feasible = True
        except TooCostlyError:
            feasible = False
            t, bound = self._chernoff.near(self._chernoff.best_epsilon(target)[0])
            upper = max(0.0, float(np.min((bound - target) / t))) * (1 + 1e-12)
            best = best.meet(Bracket(0.0, guess, upper, "chernoff"))
        if _width(best) <= _NARROW or best.upper <= enough:
            return best
        few = sum(n for _, n in self.composition.steps) <= _FEWEST
        every = effort >= _EVERYTHING
        if few or every:
            best = self._by_grid(best, log_delta, every)
        aim = _FIT if few else self._aim()
        if _width(best) > max(aim, _FIT):
            many = len(self.composition.steps) > _FEW_KINDS and not every
            sides = wanted if many else BOTH
            best = self._by_atoms(best, log_delta, enough, effort, sides)
            if sides != BOTH:
                return best
        tried = feasible or every
        if tried and _width(best) > aim and best.upper > enough:
            best = self._by_precise(best, log_delta, effort)
        if _width(best) > _WIDE and best.upper > enough and self._suits_grid():
            best = self._by_grid(best, log_delta, every)
        return best

    def _suits_grid(self) -> bool:
        """Whether few grids are likely to say more than atoms did."""
        kinds = [loss for loss, _ in self.composition.steps]
        sampled = any(isinstance(loss, SampledGaussianLoss) for loss in kinds)
        return len(kinds) <= _FEW_KINDS and not sampled

    def _by_atoms(
        self,
        best: Bracket,
        log_delta: tuple[float, float],
        enough: float,
        effort: float,
        wanted: Wanted,
    ) -> Bracket:
        """Return what laws of atoms prove as well, where that is feasible."""
        steps = self.composition.steps
        try:
            return best.meet(epsilon_bounds(steps, log_delta, enough, effort, wanted))
        except OverflowError:
            return best

    def _by_grid(
        self, best: Bracket, log_delta: tuple[float, float], every: bool
    ) -> Bracket:
        """Return what laws on a grid prove as well, where that is feasible."""
        tilts, again = list(_TILTS) if every else [_TILTS[0]], every
        first = len(tilts)
        while tilts and (len(tilts) == first or _width(best) > _FIT):
            place = best.estimate or best.upper / 2
            try:
                grid = self._grid(place, log_delta[0], tilts.pop(0))
            except OverflowError:
                continue
            best = best.narrowed(grid.epsilon(log_delta, place))
            if again and abs(best.estimate - place) > 0.01 * place:
                tilts, again = list(_TILTS), False  # the order was for another place
        return best

    def _grid(
        self, epsilon: float, log_delta: float | None = None, tilt: float = 1.0
    ) -> GridProfile:
        """Return bounds from laws on a grid, good near epsilon.

        Where about delta is known, tails far below it are left out. `tilt` is in units
        of the order that Chernoff's bound is best at.
        """
        index, _ = self._chernoff.best_delta(epsilon)
        tail = None
        if log_delta is not None:
            try:
                index, _ = self._cut(log_delta, _SHARPEST)[1].best_delta(epsilon)
                tail = log_delta - _BELOW
            except OverflowError:
                pass
        theta = max(tilt * order(index), 1e-2 / (1 + epsilon))  # less is no use
        return grid_profile(self.composition.steps, theta, epsilon, tail)

    def _aim(self) -> float:
        """Return the relative width of epsilon above which more digits are tried."""
        fewest = min((n for _, n in self.composition.steps), default=0)
        return _NARROW if fewest >= _MANY else _WIDE

    def _by_precise(
        self, best: Bracket, log_delta: tuple[float, float], effort: float
    ) -> Bracket:
        """Return what the integral in more digits proves, or `best` where it cannot."""
        epsilon, target = best.estimate or best.upper, log_delta[0]
        search = Search(log_delta, best.upper)
        search.lower = best.lower
        method = best.method
        try:
            if best.upper - best.lower > 0.1 * best.upper:
                epsilon = min(epsilon, self._without_tails(search, target))
            for _ in range(4):
                contour = self._precise(epsilon, target, effort)
                epsilon = search.root_anywhere(contour, epsilon)
                search.widen(contour, epsilon)
                method = "contour"
                if search.upper - search.lower <= _NARROW * search.upper:
                    break
        except (TooCostlyError, OverflowError):
            pass  # what was proved until then stays
        return best.meet(Bracket(search.lower, epsilon, search.upper, method))

    def _without_tails(self, search: Search, target: float) -> float:
        """Take over Chernoff's bound without far tails, and return a guess from it."""
        chernoff = self._cut(target, _SHARPEST)[1]
        lost = len(self.composition.steps) * math.exp(-_BELOW)
        bound = chernoff.best_epsilon(target + math.log1p(-lost))[1]
        search.upper = min(search.upper, max(0.0, bound) * (1 + 1e-12))
        return max(0.0, chernoff.best_epsilon(target - _GAP)[1])

    def _precise(
        self, epsilon: float, log_delta: float, effort: float = 1.0
    ) -> PreciseContour:
        """Return the cheapest contour in more digits, with or without cut tails."""
        if effort < _EVERYTHING:
            most = _CHEAP * effort
            return PreciseContour(
                self.composition, self._chernoff, epsilon, log_delta, most
            )
        found = []
        for stretch in _STRETCHES:
            composition, chernoff = self._cut(log_delta, stretch)
            try:
                found.append(PreciseContour(composition, chernoff, epsilon, log_delta))
            except TooCostlyError:
                continue
        if not found:
            raise TooCostlyError
        return min(found, key=lambda contour: contour.cost)

    def _cut(
        self, log_delta: float, stretch: float | None
    ) -> tuple[Composition, Chernoff]:
        """Return the composition with its tails cut where this delta ignores them."""
        steps = self.composition.steps
        if stretch is None or not any(type(x) is SampledGaussianLoss for x, _ in steps):
            return self.composition, self._chernoff
        key = (log_delta, stretch)
        if key not in self._cuts:
            composition = cut_composition(steps, log_delta - _BELOW, stretch)
            self._cuts = dict(list(self._cuts.items())[-3:])
            self._cuts[key] = composition, Chernoff(composition)
        return self._cuts[key]

    # ---- delta ---------------------------------------------------------------------

    def log_delta(self, epsilon: float) -> Bracket:
        """Bound ln delta(epsilon), epsilon >= 0."""
        return self.log_deltas(np.array([epsilon]))[0]

    def chernoff(self, epsilon: float) -> Bracket:
        """Bound ln delta(epsilon) from above, at the cost of a few orders."""
        return _chernoff(self._chernoff.best_delta(epsilon)[1])

    def log_deltas(self, epsilons: Floats) -> list[Bracket]:
        """Bound ln delta at ascending epsilons, with few contours."""
        results: list[Bracket] = []
        at = 0
        while at < epsilons.size:
            first = float(epsilons[at])
            try:
                contour, planned = self._planned(first)
                stop = int(np.searchsorted(epsilons, planned, side="right"))
                part = epsilons[at : max(at + 1, stop)]
                found = contour.log_deltas(part)
                upper = contour.chernoff(part).tolist()
                results += [
                    _chernoff(u).meet(Bracket(f.lower, f.estimate, f.upper, "contour"))
                    for f, u in zip(found, upper, strict=True)
                ]
                at += part.size
            except TooCostlyError:  # and so it is for what is nearby
                index, _ = self._chernoff.best_delta(first)
                end = first + _NEARBY / order(index)
                part = epsilons[at : np.searchsorted(epsilons, end, side="right")]
                around = index // PER_OCTAVE
                t, bound = self._chernoff.between(around - 2, around + 3)
                upper = (bound - np.multiply.outer(part, t)).min(axis=1)
                results += [_chernoff(u) for u in upper.tolist()]
                at += part.size
        if epsilons.size < _FEW:
            results = [
                self._more_digits(e, self._in_atoms(e, found))
                for e, found in zip(epsilons.tolist(), results, strict=True)
            ]
        results = self._narrowed(epsilons, results)
        if epsilons.size >= _FEW:
            results = self._settled(epsilons, results)
        return results

    def _in_atoms(self, epsilon: float, found: Bracket, effort: float = 1.0) -> Bracket:
        """Return the bracket of ln delta that atoms narrow, where it is wide."""
        if found.upper - found.lower <= _FIT or found.upper < _DEEPEST:
            return found
        steps = self.composition.steps
        try:
            return found.narrowed(
                log_delta_bounds(steps, np.array([epsilon]), effort)[0]
            )
        except OverflowError:
            return found

    def _settled(self, epsilons: Floats, results: list[Bracket]) -> list[Bracket]:
        """Read from atoms what has no lower bound, a few stretches of it."""
        for _ in range(_STRETCHES_READ):
            open_ = [
                i
                for i, found in enumerate(results)
                if found.lower == -math.inf and found.upper > _DEEPEST
            ]
            if not open_:
                break
            level = results[open_[0]].upper
            part = [i for i in open_ if results[i].upper > level - _STRETCH]
            try:
                read = log_delta_bounds(self.composition.steps, epsilons[part])
            except OverflowError:
                break
            for i, bracket in zip(part, read, strict=True):
                results[i] = results[i].narrowed(bracket)
            if results[open_[0]].lower == -math.inf:
                break
        return results

    def _more_digits(
        self, epsilon: float, found: Bracket, effort: float = 1.0
    ) -> Bracket:
        """Return the bracket of ln delta that more digits prove, if it is narrower."""
        level = found.upper
        for _ in range(4):
            if found.upper - found.lower <= _WIDE or level < _DEEP:
                break
            try:
                contour = self._precise(epsilon, level, effort)
            except (TooCostlyError, OverflowError):
                break
            new = contour.log_deltas(np.array([epsilon]))[0]
            found = found.narrowed(
                Bracket(new.lower, new.estimate, min(0.0, new.upper), "contour")
            )
            if not new.estimate < level - 3:
                break
            level = new.estimate
        return found

    def _narrowed(self, epsilons: Floats, results: list[Bracket]) -> list[Bracket]:
        """Read from grids what is still wide, one grid for neighbours."""
        wide = [
            i
            for i, found in enumerate(results)
            if found.upper - found.lower > _WIDE and found.upper > _DEEP
        ]
        best = [order(self._chernoff.best_delta(float(epsilons[i]))[0]) for i in wide]
        at = 0
        while at < len(wide):
            end = at + 1
            while end < len(wide) and 0.6 * best[at] < best[end] < 1.6 * best[at]:
                end += 1
            part = wide[at:end]
            try:
                first = results[part[0]]
                known = first.estimate if first.lower > -math.inf else None
                grid = self._grid(float(epsilons[part[0]]), known)
            except OverflowError:
                break
            if len(part) < _FEW:
                found = [grid.log_delta(float(epsilons[i])) for i in part]
            else:
                found = grid.log_deltas(epsilons[part])
            for i, bracket in zip(part, found, strict=True):
                results[i] = results[i].narrowed(bracket)
            at = end
        return results

    def _planned(self, epsilon: float) -> tuple[Contour, float]:
        """Return a contour for epsilon, and up to where it is good as well."""
        bound = self._chernoff.best_delta(epsilon)[1]
        level = min(0.0, bound) + _GAP
        contour = Contour(self.composition, self._chernoff, epsilon, level)
        return contour, epsilon + _SPAN / contour.theta


def _width(found: Bracket) -> float:
    """Return the relative width."""
    if found.upper == found.lower:
        return 0.0
    return (found.upper - found.lower) / found.upper


def _chernoff(bound: float) -> Bracket:
    """Return the bracket of which only Chernoff's upper bound of ln delta is known."""
    upper = min(0.0, bound + 1e-12 + 1e-15 * abs(bound))
    return Bracket(-math.inf, upper, upper, "chernoff")
