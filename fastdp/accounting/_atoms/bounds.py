"""Bounds on a profile from atoms: epsilon at a delta, and delta at an epsilon."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fastdp.accounting._atoms.lattice import Steps, gathered_lattices
from fastdp.accounting._atoms.law import Floats, Law, Reading
from fastdp.accounting._atoms.plan import FIRST, SECOND, UNKNOWN, Leaf, Plan, tail_of
from fastdp.accounting._bounds import Bracket

#: Search a bound of epsilon to this relative width.
_NARROW = 1e-14
#: Plan again if the lower bound is farther than this from the plan's epsilon,
#: relatively.
_AWAY = 1e-3
#: If epsilon is below this share of `enough`, coarse cells suffice to show that it is
#: smaller.
_LESS = 0.95
#: If the relative width of a bracket exceeds _WIDE, add cells to the same plan if it is
#: at most _MENDED _WIDE, else try another plan. Widths fall with the work; spend _ROOM
#: times the estimate.
_WIDE, _MENDED, _ROOM = 1e-3, 3.0, 1.25
#: Plan twice only if there are at most this many sums.
_FEW = 80
#: Largest epsilon to try.
_FARTHEST = 1e8


class Aim(NamedTuple):
    """The required precision of the bounds on an epsilon.

    Parameters
    ----------
    enough : float
        An epsilon of at most this is not bracketed more closely.
    effort : float
        1 tries only methods that take a fraction of a second; larger values try more.
    lower, upper : bool
        Which bounds are wanted; the other one may be trivial.
    """

    enough: float = 0.0
    effort: float = 1.0
    lower: bool = True
    upper: bool = True


BOTH, LOWER, UPPER = Aim(), Aim(upper=False), Aim(lower=False)


def _log_deltas(laws: list[Law], upper: bool) -> Callable[[Floats], Floats]:
    """Return a function that bounds ln delta at epsilons."""
    reading, sign = Reading(laws, upper), 1.0 if upper else -1.0

    def at(epsilons: Floats) -> Floats:
        found = reading.at(epsilons)
        with np.errstate(divide="ignore"):
            level = np.log(found)
        moved = level + sign * 1e-15 * (1 + np.abs(level))
        return np.minimum(np.where(found > 0, moved, -np.inf), 0.0)

    return at


def _one(laws: list[Law], upper: bool) -> Callable[[float], float]:
    reading = _log_deltas(laws, upper)
    return lambda epsilon: float(reading(np.array([epsilon]))[0])


def _planned(
    steps: Steps,
    log_delta: float | None,
    epsilon: float | None = None,
    effort: float = 1.0,
    runs: tuple[int, int] = FIRST,
) -> Plan:
    log_steps = math.log(sum(n for _, n in steps))
    level = UNKNOWN if log_delta is None else log_delta
    parts: Sequence[tuple[Leaf, int]] = steps
    if any(step.spacing() is not None for step, _ in steps):
        parts = gathered_lattices(steps, tail_of(level, log_steps))
    leaves, counts = [leaf for leaf, _ in parts], [n for _, n in parts]
    return Plan(leaves, counts, log_delta, epsilon, effort, log_steps, runs)


def _method(laws: list[Law]) -> str:
    return "sum" if all(law.listed for law in laws) else "atoms"


def epsilon_bounds(
    steps: Steps, log_delta: tuple[float, float], aim: Aim = BOTH
) -> Bracket:
    """Bound the least epsilon >= 0 with delta(epsilon) <= delta.

    `log_delta` holds bounds on ln delta; epsilon must meet the lower bound.

    Raises
    ------
    OverflowError
        A step has no law in cells, or needs too many.
    """
    found = None
    for runs in (FIRST, SECOND):
        try:
            plan = _planned(steps, log_delta[0], effort=aim.effort, runs=runs)
            one = _by_plan(plan, log_delta, aim)
        except OverflowError:
            if runs == SECOND and found is None:
                raise
            continue
        found = one if found is None else found.meet(one)
        width = _width(found, plan.epsilon, aim)
        if not (width > _WIDE and aim.enough < found.upper and plan.many <= _FEW):
            break
        if width <= _MENDED * _WIDE:  # the plan is good, and cells are too few
            plan.refine(_ROOM * width / _WIDE)
            with contextlib.suppress(OverflowError):
                found = found.meet(_by_plan(plan, log_delta, aim))
            break
    assert found is not None
    return found


def _width(found: Bracket, about: float, aim: Aim) -> float:
    """Return the relative width; `about` replaces a bound that is not wanted."""
    lower = found.lower if aim.lower else min(about, found.upper)
    upper = found.upper if aim.upper else max(about, found.lower)
    return (upper - lower) / upper if 0 < upper < math.inf else 0.0


def _by_plan(plan: Plan, log_delta: tuple[float, float], aim: Aim) -> Bracket:
    """Return a bracket of epsilon from laws with the cells of one plan."""
    target, over = log_delta
    above = None
    if plan.epsilon <= aim.enough:
        less = plan.epsilon < _LESS * aim.enough
        laws = plan.laws(True, less)
        if _one(laws, True)(aim.enough) <= target:
            return Bracket(0.0, plan.epsilon, aim.enough, "atoms")
        above = None if less else laws
    lower, method = 0.0, "atoms"
    if aim.lower:
        laws = plan.laws(False)
        lower, method = _last_above(laws, over, plan.epsilon), _method(laws)
    if not aim.upper:
        return Bracket(lower, max(lower, plan.epsilon), math.inf, method)
    if aim.lower and abs(lower - plan.epsilon) > _AWAY * lower:
        plan.moved(max(lower, plan.epsilon))
        above = None
    laws = above or plan.laws(True)
    upper, method = _first_below(laws, target, max(lower, plan.epsilon)), _method(laws)
    if not math.isfinite(upper):
        return Bracket(lower, max(lower, plan.epsilon), math.inf, method)
    upper = max(lower, upper)
    return Bracket(lower, (lower + upper) / 2, upper, method)


def log_delta_reading(
    steps: Steps, epsilon: float, effort: float = 1.0
) -> Callable[[Floats], list[Bracket]]:
    """Return a function that bounds ln delta, with cells planned for one epsilon.

    Raises
    ------
    OverflowError
        A step has no law in cells, or needs too many.
    """
    plan = _planned(steps, None, epsilon, effort)
    laws = plan.laws(False)
    method = _method(laws)
    low, high = _log_deltas(laws, False), _log_deltas(plan.laws(True), True)

    def at(epsilons: Floats) -> list[Bracket]:
        pairs = zip(low(epsilons).tolist(), high(epsilons).tolist(), strict=True)
        return [
            Bracket(a, (a + b) / 2 if a > -math.inf else b, max(a, b), method)
            for a, b in pairs
        ]

    return at


def _last_above(laws: list[Law], level: float, guess: float) -> float:
    """Return the largest epsilon found with ln delta at least `level`, or 0."""
    value = _one(laws, False)
    if value(0.0) < level:
        return 0.0
    low, high = _around(value, guess, lambda found: found >= level)
    return _halved(value, low, high, level, lambda found: found >= level)[0]


def _first_below(laws: list[Law], level: float, guess: float) -> float:
    """Return the least epsilon found with ln delta at most `level`, or infinity."""
    value = _one(laws, True)
    if value(0.0) <= level:
        return 0.0
    low, high = _around(value, guess, lambda found: found > level)
    if high > _FARTHEST:
        return math.inf
    return _halved(value, low, high, level, lambda found: found > level)[1]


Holds = Callable[[float], bool]


def _around(
    value: Callable[[float], float], guess: float, before: Holds
) -> tuple[float, float]:
    """Return an interval near `guess` where `before`, true at 0, turns false."""
    width = 1e-3 * guess + 1e-12 * (guess == 0)
    if before(value(guess)):
        low = guess
        while before(value(high := low + width)) and high <= _FARTHEST:
            low, width = high, 3 * width
        return low, high
    high = guess
    while (low := high - width) > 0 and not before(value(low)):
        high, width = low, 3 * width
    return max(low, 0.0), high


def _halved(
    value: Callable[[float], float],
    low: float,
    high: float,
    level: float,
    before: Holds,
) -> tuple[float, float]:
    """Return a narrower interval, by secants of ln delta where they are safe."""
    at_low, at_high = value(low), value(high)
    for turn in range(80):
        if high - low <= _NARROW * high:
            break
        share = 0.5
        if turn % 3 < 2 and math.isfinite(at_low) and math.isfinite(at_high):
            fall = at_low - at_high
            share = (at_low - level) / fall if fall > 0 else 0.5
            share = min(max(share, 0.02), 0.98)
            share += 1e-3 * (0.5 - share) if turn % 3 else 0.0
        middle = low + share * (high - low)
        if not low < middle < high:
            break
        found = value(middle)
        if before(found):
            low, at_low = middle, found
        else:
            high, at_high = middle, found
    return low, high
