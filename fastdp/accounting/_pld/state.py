"""The state of `PLDAccountant`: two directions, their lost mass, closed forms.

Upper and lower bounds use the same laws unless only bounds on a step are known.
Infinite losses are counted separately: all losses are finite with probability 1 - lost,
and delta = lost + (1 - lost) delta'.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

from fastdp.accounting import _zcdp
from fastdp.accounting._atoms.bounds import BOTH, LOWER, Aim
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._numeric import answered, log_down, log_fraction, shortened_up
from fastdp.accounting._pld.check import Checked
from fastdp.accounting._pld.closed import ClosedForm, NothingProfile, Profile, rows_of
from fastdp.accounting._pld.composition import Composition, Steps
from fastdp.accounting._pld.direction import ANY_LOG_DELTA, Direction

if TYPE_CHECKING:
    from fastdp.accounting._pld.families import Sided, Step
    from fastdp.accounting._pld.listed_loss import ListedLoss
from fastdp.accounting._pld.finite import finite_profile
from fastdp.accounting._pld.losses import Floats
from fastdp.accounting._pld.ranges import attained, dominating

_NOTHING = Fraction(0)

#: Bounds of epsilon that always hold.
_ANY_EPSILON = Bracket(0.0, math.inf, math.inf, "chernoff")

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _reading(
    method: Callable[Concatenate[State, _P], _R],
) -> Callable[Concatenate[State, _P], _R]:
    """Hold the accountant's lock during a reading, and silence numpy's warnings.

    All states of an accountant share their caches. A reading tries orders and nodes
    at which doubles overflow, and discards them.
    """

    @functools.wraps(method)
    def alone(self: State, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self.lock, np.errstate(all="ignore"):
            return method(self, *args, **kwargs)

    return alone


#: If the mass of finite losses underflows, more than this is lost.
_ALL = 1 - Fraction(1, 10**300)

#: Round rho to this many bits: long fractions make composing slow.
_BITS = 256

#: Do not use rho if the relative width of epsilon is at most this.
_NARROW = 1e-6

#: If one direction's epsilon has at most this relative width, the other direction stops
#: as soon as it is below the upper bound.
_CLOSE = 0.3

#: Relative allowance for a handful of roundings.
_WIDE = Fraction(1, 10**14)


@dataclass(frozen=True)
class Between(Profile):
    """A profile between the profiles of two compositions."""

    lower: Profile
    upper: Profile

    def log_deltas(self, epsilons: Floats) -> list[Bracket]:
        low, high = self.lower.log_deltas(epsilons), self.upper.log_deltas(epsilons)
        return [_between(a, b) for a, b in zip(low, high, strict=True)]

    def epsilon(self, log_delta: tuple[float, float], aim: Aim = BOTH) -> Bracket:
        if not aim.upper:
            return self.lower.epsilon(log_delta, aim)
        high = self.upper.epsilon(log_delta, aim._replace(lower=False))
        if high.upper <= aim.enough:
            return high
        if high.lower <= 0:  # only the upper bound was computed
            high = replace(high, estimate=high.upper)
        return _between(self.lower.epsilon(log_delta, _below(aim)), high)


@dataclass(frozen=True)
class Smaller(Profile):
    """A profile below the profiles of two compositions, for upper bounds."""

    first: Profile
    second: Profile

    def log_deltas(self, epsilons: Floats) -> list[Bracket]:
        one, other = self.first.log_deltas(epsilons), self.second.log_deltas(epsilons)
        return [min(pair, key=_upper) for pair in zip(one, other, strict=True)]

    def epsilon(self, log_delta: tuple[float, float], aim: Aim = BOTH) -> Bracket:
        above = aim._replace(lower=False, upper=True)
        both = (self.first, self.second)
        return min((one.epsilon(log_delta, above) for one in both), key=_upper)


def _below(aim: Aim) -> Aim:
    """Return the aim of a lower bound, with the same effort."""
    return LOWER._replace(effort=aim.effort)


def _upper(bracket: Bracket) -> float:
    return bracket.upper


def _between(low: Bracket, high: Bracket) -> Bracket:
    estimate = min(max(high.estimate, low.lower), high.upper)
    method = high.method if high.method == "chernoff" else "two laws"
    return Bracket(min(low.lower, high.upper), estimate, high.upper, method)


@dataclass(frozen=True)
class Side:
    """One direction: its laws, and bounds on ln of the mass of finite losses."""

    upper: Direction = field(default_factory=lambda: Direction(Composition()))
    lower: Direction | None = None
    kept: tuple[float, float] = (0.0, 0.0)

    def plus(self, sided: Sided, count: int) -> Side:
        """Return the direction with a step added `count` times."""
        kept = _kept(self.kept, sided, count)
        least = sided.loss if sided.exact else sided.least
        if sided.loss is None and least is None:
            return Side(self.upper, self.lower, kept)
        upper, lower = self.upper, self.lower
        if sided.loss is not None:
            upper = upper.plus(sided.loss, count)
        if lower is None and sided.exact:
            return Side(upper, None, kept)
        lower = self.upper if lower is None else lower
        return Side(upper, lower if least is None else lower.plus(least, count), kept)

    @functools.cached_property
    def profile(self) -> Profile:
        """The profile of finite losses."""
        return self._read(_profile)

    @functools.cached_property
    def checked(self) -> Profile:
        """The profile of finite losses with every reading checked (_pld/check.py)."""
        return self._read(_checked)

    def _read(self, profile: Callable[[Direction], Profile]) -> Profile:
        if self.lower is None:
            return profile(self.upper)
        steps, least = self.upper.composition.steps, self.lower.composition.steps
        others = [Direction(Composition(found)) for found in dominating(steps)]
        upper = functools.reduce(Smaller, map(profile, others or [self.upper]))
        last = attained(steps, least)
        lower = self.lower if last is least else Direction(Composition(last))
        return Between(profile(lower), upper)


def _profile(direction: Direction) -> Profile:
    steps = direction.composition.steps
    if steps and all(loss.listed for loss, _ in steps):
        return (
            finite_profile(cast("tuple[tuple[ListedLoss, int], ...]", steps))
            or direction
        )
    return direction if steps else NothingProfile()


def steps_profile(steps: Steps) -> Profile:
    """Return the profile of one direction from steps as losses."""
    return _profile(Direction(Composition(steps)))


def _kept(before: tuple[float, float], sided: Sided, count: int) -> tuple[float, float]:
    """Return bounds on ln of the probability that all losses so far are finite."""
    if not sided.lost:
        return before
    finite = 1 - sided.lost, 1 - sided.sure
    most, least = (log_fraction(p) if p else -math.inf for p in finite)
    most, least = count * most * (1 + 2e-15), count * least * (1 - 2e-15)
    low, high = before[0] + most, before[1] + least
    return low * (1 + 1e-15) - 1e-300, min(0.0, high * (1 - 1e-15))


@dataclass(frozen=True)
class State:
    """What was composed.

    Parameters
    ----------
    rho : Fraction, optional
        Bound on the zero-concentrated privacy of the finite losses, if known.
    closed : ClosedForm, optional
        The closed form of the composition, if there is one.
    removal, addition : Side
        The two directions.
    symmetric : bool
        Whether the two directions are the same.
    lock : RLock
        The lock of readings: all states of one accountant share one.
    """

    rho: Fraction | None = _NOTHING
    closed: ClosedForm | None = field(default_factory=NothingProfile)
    removal: Side = field(default_factory=Side)
    addition: Side = field(default_factory=Side)
    symmetric: bool = True
    lock: threading.RLock = field(
        default_factory=threading.RLock, compare=False, repr=False
    )

    def plus(self, step: Step, count: int) -> State:
        """Return the state with `step` added `count` times."""
        rho, closed = None, None
        if self.rho is not None and step.rho is not None:
            rho = shortened_up(self.rho + count * step.rho, _BITS)
        own = step.closed
        sides = step.removal, step.addition
        if all(side.loss is None and side.least is None for side in sides):
            own = NothingProfile()
        if self.closed is not None and own is not None:
            many = own.times(count)
            closed = None if many is None else self.closed.merged(many)
        return State(
            rho,
            closed,
            self.removal.plus(step.removal, count),
            self.addition.plus(step.addition, count),
            self.symmetric and step.removal == step.addition,
            self.lock,
        )

    def _sides(self, removal: bool | None) -> list[tuple[Side, Profile]]:
        """Return the directions to read for a removal, an addition, or both."""
        closed = self.closed
        both = closed is not None and closed.bounds_both
        sides = []
        if removal is not False:
            one = self.removal.profile if closed is None else closed
            sides.append((self.removal, one))
        alike = self.symmetric or (
            closed is not None and self.removal.kept == self.addition.kept
        )
        if removal is False or (removal is None and not alike):
            other = closed if both and closed is not None else self.addition.profile
            sides.append((self.addition, other))
        return sides

    # ---- readings ------------------------------------------------------------------

    @_reading
    def epsilon(self, delta: Fraction, check: bool = False, aim: Aim = BOTH) -> Bracket:
        """Bound the least epsilon at `delta`, of both directions."""
        found: list[Bracket] = []
        sides = self._sides(None)
        for side, profile in sides:
            read = checked(side, profile) if check else profile
            enough = max((_enough(one) for one in found), default=0.0)
            if found and not check and _one_above(sides):
                one = self._epsilon(side, profile, delta, _below(aim))
                least = min(one.lower, found[0].upper)
                found.append(replace(found[0], lower=least))
            else:
                here = aim._replace(enough=enough)
                found.append(self._epsilon(side, read, delta, here))
        return _largest(found)

    def _epsilon(
        self, side: Side, profile: Profile, delta: Fraction, aim: Aim
    ) -> Bracket:
        """Bound the epsilon of one direction."""
        low, high = _targets(side.kept, delta)
        if low is None or high is None:
            least = math.inf if high is None else 0.0
            return Bracket(least, math.inf, math.inf, "closed form")
        targets = low, high
        found = answered(lambda: profile.epsilon(targets, aim), _ANY_EPSILON)
        narrow = found.upper - found.lower <= _NARROW * found.upper
        if self.rho is None or narrow or found.upper <= aim.enough:
            return found
        known = _zcdp.epsilon_from(low, self.rho, _NOTHING)
        if known >= found.upper:
            return found
        return Bracket(min(found.lower, known), known, known, "chernoff")

    @_reading
    def log_deltas(
        self, epsilons: Floats, removal: bool | None = None, check: bool = False
    ) -> list[Bracket]:
        """Bound ln delta at ascending epsilons, in one direction or in both."""
        columns: list[list[Bracket]] = []
        for side, profile in self._sides(removal):
            once = columns and epsilons.size == 1 and side.kept == (0.0, 0.0)
            rough = functools.partial(profile.rough, float(epsilons[0]))
            if once and answered(rough, 0.0) <= columns[0][0].lower:
                continue  # this direction cannot be the larger one
            read = checked(side, profile) if check else profile
            found = self._columns(read, epsilons)
            if side.kept != (0.0, 0.0):
                found = [_with_lost(side.kept, bracket) for bracket in found]
            columns.append(found)
        return [_largest(list(row)) for row in zip(*columns, strict=True)]

    def _columns(self, profile: Profile, epsilons: Floats) -> list[Bracket]:
        """Bound ln delta of finite losses; by rho if the parameters are extreme."""
        found = answered(lambda: profile.log_deltas(epsilons), None)
        if found is None:
            found = [ANY_LOG_DELTA] * epsilons.size
            if self.rho is not None:
                rho, places = self.rho, epsilons.tolist()
                known = [
                    _zcdp.log_delta_from(Fraction(e), rho, _NOTHING) for e in places
                ]
                found = [b.below(k) for b, k in zip(found, known, strict=True)]
        return found

    @_reading
    def rough_log_delta(self, epsilon: float) -> float:
        """Return a bound on ln delta(epsilon), at the cost of a few orders."""
        return max(
            answered(functools.partial(profile.rough, epsilon), 0.0)
            if side.kept == (0.0, 0.0)
            else 0.0
            for side, profile in self._sides(None)
        )

    @_reading
    def bounds(
        self,
        epsilons: Floats,
        removal: bool | None = None,
        deepest: float = -math.inf,
    ) -> Floats:
        """Return lower and upper bounds of ln delta at ascending epsilons, as rows.

        The bounds for finite losses may be wide where ln delta is below `deepest`.
        """
        result = np.full((2, epsilons.size), -np.inf)
        for side, profile in self._sides(removal):
            rows = answered(functools.partial(profile.bounds, epsilons, deepest), None)
            if rows is None:
                rows = rows_of(self._columns(profile, epsilons))
            if side.kept != (0.0, 0.0):
                pairs = rows.T.tolist()
                found = [Bracket(low, high, high, "") for low, high in pairs]
                rows = rows_of([_with_lost(side.kept, bracket) for bracket in found])
            result = np.maximum(result, rows)
        return result

    def has_corners(self) -> bool:
        """Return whether a profile that was read may have corners."""
        return any(profile.has_corners() for _, profile in self._sides(None))

    @_reading
    def end(self, log_delta: float, enough: float = 0.0) -> float:
        """Return an epsilon at which ln delta of finite losses is below `log_delta`.

        An epsilon of at most `enough` may be rough, which is fast.
        """
        both, aim = (log_delta, log_delta), Aim(enough)
        found = [
            answered(functools.partial(profile.epsilon, both, aim), _ANY_EPSILON).upper
            for _, profile in self._sides(None)
        ]
        if self.rho is None:
            return max(found)
        return min(_zcdp.epsilon_from(log_delta, self.rho, _NOTHING), max(found))

    @functools.cached_property
    def lost(self) -> float:
        """A lower bound of the probability of an infinite loss, in either direction."""
        kept = max(self.removal.kept[1], self.addition.kept[1])
        return max(0.0, -math.expm1(kept) * (1 - 1e-14))


def _one_above(sides: list[tuple[Side, Profile]]) -> bool:
    """Return whether both directions share one law for upper bounds."""
    (one, first), (other, second) = sides
    if not (isinstance(first, Between) and isinstance(second, Between)):
        return False
    above = one.upper.composition.steps, other.upper.composition.steps
    return one.kept[0] == other.kept[0] and above[0] == above[1]


def _checked(direction: Direction) -> Profile:
    profile = _profile(direction)
    if isinstance(profile, NothingProfile):
        return profile
    return Checked(profile, direction.composition)


def checked(side: Side, profile: Profile) -> Profile:
    """Return the profile of a direction, or its closed form, with checked readings."""
    if isinstance(profile, ClosedForm) and not isinstance(profile, NothingProfile):
        return Checked(profile, side.upper.composition)
    return side.checked


def _enough(first: Bracket) -> float:
    """Return the epsilon below which the other direction does not matter."""
    narrow = first.upper - first.lower <= _CLOSE * first.upper
    return first.upper if narrow else first.lower


def _largest(brackets: list[Bracket]) -> Bracket:
    """Return a bracket of the largest of the bracketed numbers."""
    worst = max(brackets, key=lambda b: b.estimate)
    lower, upper = max(b.lower for b in brackets), max(b.upper for b in brackets)
    return Bracket(lower, max(lower, worst.estimate), upper, worst.method)


@functools.lru_cache(maxsize=4)
def _targets(
    kept: tuple[float, float], delta: Fraction
) -> tuple[float | None, float | None]:
    """Return bounds on ln delta' of finite losses; None if nothing of delta remains.

    delta = lost + (1 - lost) delta', so delta' = 1 - (1 - delta)/(1 - lost).
    """
    if kept == (0.0, 0.0):
        over = log_fraction(delta)
        return log_down(delta), over + 1e-15 * abs(over)
    if math.exp(kept[1]) == 0:  # the mass of finite losses underflows
        return None, None if delta < _ALL else 0.0
    low, high = (
        (delta - Fraction(-math.expm1(one)) * wide) / Fraction(math.exp(one) or 5e-324)
        for one, wide in zip(kept, (1 + _WIDE, 1 - _WIDE), strict=True)
    )
    low, high = low * (1 - _WIDE), high * (1 + _WIDE)
    under = log_down(min(low, Fraction(1))) if low > 0 else None
    if high <= 0:
        return under, None
    over = log_fraction(min(high, Fraction(1)))
    return under, over + 1e-15 * abs(over)


def _with_lost(kept: tuple[float, float], finite: Bracket) -> Bracket:
    """Return bounds of ln(lost + (1 - lost) delta')."""

    def whole(log_kept: float, log_delta: float) -> float:
        # 1 - kept (1 - delta')
        rest = log_kept + math.log1p(-math.exp(min(log_delta, 0.0)))
        return math.log(-math.expm1(rest)) if rest < 0 else log_delta

    def sure(log_kept: float, log_delta: float, sign: float) -> float:
        if log_delta >= 0:
            return 0.0
        value = whole(log_kept, log_delta)
        return min(0.0, value + sign * 1e-14 * (1 + abs(value)))

    return Bracket(
        sure(kept[1], finite.lower, -1.0),
        sure(kept[0], finite.estimate, 0.0),
        sure(kept[0], finite.upper, 1.0),
        finite.method,
    )


def log_delta_at(state: State, epsilon: float, check: bool = False) -> Bracket:
    """Bound ln delta at one epsilon."""
    return state.log_deltas(np.array([epsilon]), check=check)[0]
