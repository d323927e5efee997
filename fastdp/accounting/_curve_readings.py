"""Whole curves of a composed privacy loss: profiles, and its trade-off function."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp._validate import Real, float_up
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._atoms.bounds import LOWER, Aim
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._gdp import reals
from fastdp.accounting._pld.distribution import (
    MOST_LOSSES,
    GridLosses,
    PrivacyLossDistribution,
    grid_step,
    law_of,
)
from fastdp.accounting._pld.losses import Floats, U
from fastdp.accounting._pld.state import State
from fastdp.accounting._pld.trade_off import (
    Profile,
    ProfileTradeOff,
    TradeOffBounds,
    inverse_above,
    inverse_below,
    trade_off_above,
)
from fastdp.accounting._response import Stated
from fastdp.accounting._trade_off_functions import nonnegative
from fastdp.accounting.events._base import NeighboringRelation
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError


class LogProfile(Protocol):
    """Function that bounds ln delta at ascending epsilons >= 0, as two rows."""

    def __call__(self, epsilons: Floats, /, deepest: float = ...) -> Floats:
        """Return the rows; bounds may be wide where ln delta is below `deepest`."""


#: Lines of a trade-off function are of no use where ln delta is below this.
_LOWEST = -36.0

#: Leave larger epsilons to the ends of a trade-off function.
_FARTHEST = 700.0

#: For delta 0, use the lower bound of epsilon at this delta: epsilon never grows with
#: delta.
_DEEPEST = Fraction(1, 10**300)

#: Solve for each epsilon separately if there are at most this many deltas.
_FEW = 12

#: Epsilons at which a profile is read before it is inverted.
_COARSE = 512

#: With more deltas than this, one correction of the guesses is enough.
_MANY = 3000


def tells_nothing(stated: Stated | None) -> bool:
    """Return whether epsilon 0 and delta 0 are stated."""
    return stated is not None and not any(stated)


def pure_sum(stated: Stated | None) -> float:
    """Return the sum of pure epsilons; infinity if a step has none."""
    if stated is None or stated.delta > 0:
        return math.inf
    return float_up(stated.epsilon)


class CurveReadings(Accountant[State]):
    """Whole curves read from the accountant of privacy losses."""

    def _epsilon_bracket(
        self,
        snapshot: tuple[State, Stated | None],
        delta: Fraction,
        check: bool = False,
        effort: float = 1.0,
    ) -> Bracket:
        """Return bounds of the least epsilon at delta, from 0 to 1."""
        state, stated = snapshot
        if delta == 1 or tells_nothing(stated):
            return Bracket(0.0, 0.0, 0.0, "closed form")
        if delta == 0:
            upper = pure_sum(stated)
            lower = state.epsilon(_DEEPEST, check, LOWER._replace(effort=effort)).lower
            lower = min(lower, upper)
            return Bracket(lower, upper, upper, "closed form")
        found = state.epsilon(delta, check, Aim(effort=effort))
        return found if stated is None else found.below(stated.epsilon_at(delta))

    def _bounds_of(
        self, snapshot: tuple[State, Stated | None], removal: bool | None
    ) -> LogProfile:
        """Return a function that bounds ln delta of a removal, an addition or both.

        delta is 0 at and above the sum of pure epsilons.
        """
        state, pure = snapshot[0], pure_sum(snapshot[1])
        profile = functools.partial(state.bounds, removal=removal)

        def cut(epsilons: Floats, deepest: float = -math.inf) -> Floats:
            bounds = profile(epsilons, deepest=deepest)
            bounds[:, epsilons >= pure] = -math.inf
            return bounds

        return profile if pure == math.inf else cut

    def _reach(self, snapshot: tuple[State, Stated | None], log_delta: float) -> float:
        """Return an epsilon beyond which finite losses add almost no delta."""
        return min(snapshot[0].end(log_delta), pure_sum(snapshot[1]))

    # ---- profiles ------------------------------------------------------------------

    def ln_delta_profile(self, epsilons: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of ln delta at many epsilons.

        Parameters
        ----------
        epsilons : array_like of float
            Finite, >= 0, of any shape.

        Returns
        -------
        lower, upper : ndarray of float64
            Proved bounds, in the shape of `epsilons`.
        """
        array = nonnegative("epsilons", epsilons)
        profile = self._bounds_of(self._snapshot(), None)
        lower, upper = in_any_order(profile, array.ravel())
        return lower.reshape(array.shape), upper.reshape(array.shape)

    def delta_profile(self, epsilons: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of delta at many epsilons.

        Parameters
        ----------
        epsilons : array_like of float
            Finite, >= 0, of any shape.

        Returns
        -------
        lower, upper : ndarray of float64
            Proved bounds, in the shape of `epsilons`.

        Examples
        --------
        >>> from fastdp.accounting import GaussianEvent, PLDAccountant
        >>> accountant = PLDAccountant().compose(GaussianEvent(sensitivity=1, sigma=1))
        >>> lower, upper = accountant.delta_profile([0, 1, 2])
        >>> upper.round(6).tolist(), bool((lower <= upper).all())
        ([0.382925, 0.126937, 0.020924], True)
        """
        return exponentials(*self.ln_delta_profile(epsilons))

    def epsilon_profile(self, deltas: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of the least epsilon at many deltas.

        Parameters
        ----------
        deltas : array_like of float
            >= 0 and <= 1, of any shape; 0 and 1 are as in `epsilon_bounds`.

        Returns
        -------
        lower, upper : ndarray of float64
            Proved bounds, in the shape of `deltas`; infinite where delta is less than
            the probability of an infinite loss. The bounds of `epsilon_bounds` may be
            narrower.

        Examples
        --------
        >>> from fastdp.accounting import GaussianEvent, PLDAccountant
        >>> accountant = PLDAccountant().compose(GaussianEvent(sensitivity=1, sigma=1))
        >>> lower, upper = accountant.epsilon_profile([1e-9, 1e-6, 1e-3])
        >>> upper.round(6).tolist(), bool((lower <= upper).all())
        ([6.173935, 4.886554, 3.138671], True)
        """
        array = reals("deltas", deltas)
        if not np.all((array >= 0) & (array <= 1)):
            raise ParameterError("deltas must be >= 0 and <= 1")
        snapshot = self._snapshot()
        flat, back = np.unique(array.ravel(), return_inverse=True)
        inner = (flat > 0) & (flat < 1)
        many = np.count_nonzero(inner) > _FEW
        bounds = np.empty((2, flat.size))
        if many:
            bounds[:, inner] = self._inverted(snapshot, flat[inner])
        for i in np.flatnonzero(~inner | (not many)).tolist():
            found = self._epsilon_bracket(snapshot, Fraction(flat[i]))
            bounds[:, i] = found.lower, found.upper
        lower, upper = bounds[:, back.ravel()]
        return lower.reshape(array.shape), upper.reshape(array.shape)

    def _inverted(
        self, snapshot: tuple[State, Stated | None], deltas: Floats
    ) -> Floats:
        """Return bounds of epsilon at ascending deltas, from the profile's points."""
        one = functools.partial(self._epsilon_bracket, snapshot)
        ends = [one(Fraction(d)) for d in deltas[[0, -1]].tolist()]
        result = np.empty((2, deltas.size))
        result[0], result[1] = ends[1].lower, ends[0].upper  # that much is sure
        finite = [e.upper for e in ends if math.isfinite(e.upper)]
        last = max(finite, default=0.0)
        if not math.isfinite(ends[0].upper):
            last = self._reach(snapshot, _LOWEST)
        first = min([*finite, last])
        if last <= first:
            return result
        log_delta = np.log(deltas)
        profile = self._bounds_of(snapshot, None)
        points = np.linspace(first, last, _COARSE)
        bounds = profile(points)
        guess, slope = _guesses(points, bounds, log_delta)
        for _ in range(1 if deltas.size > _MANY else 2):
            order = np.argsort(guess)
            found = np.empty((2, guess.size))
            found[:, order] = profile(guess[order])
            points = np.append(points, guess)
            bounds = np.hstack([bounds, found])
            missed = np.nan_to_num(log_delta - _middle(found), neginf=0, posinf=0)
            guess = np.clip(guess + slope * missed, first, last)
        points, at = np.unique(points, return_index=True)
        bounds = bounds[:, at]
        slack = 4 * U * np.abs(log_delta)
        above = inverse_above(points, bounds[1], log_delta - slack)
        below = inverse_below(points, bounds[0], bounds[1], log_delta + slack)
        result[0] = np.maximum(result[0], below)
        result[1] = np.minimum(result[1], above)
        for i in (0, -1):  # these have no points beyond them
            result[0, i] = max(result[0, i], ends[i].lower)
            result[1, i] = min(result[1, i], ends[i].upper)
        return result

    # ---- a law on a grid -------------------------------------------------------------

    def distribution(
        self,
        *,
        interval: Real | None = None,
        pessimistic: bool = True,
        tail_mass: Real = Fraction(1, 10**20),
    ) -> PrivacyLossDistribution:
        """Return the law of the composed loss on a grid, for both directions.

        Parameters
        ----------
        interval : int, float, Fraction or Decimal, optional
            Distance of the grid's losses, > 0: pure losses that are multiples of it
            stay exact. None takes a power of two that gives about 4000 losses, or 1 if
            nothing was composed (0 is then the only loss).
        pessimistic : bool
            True for a law that is nowhere more private than the composition; its
            epsilon exceeds the true epsilon by less than `interval`. False for a law
            that is nowhere less private; its epsilon is below by less than twice
            `interval`.
        tail_mass : int, float, Fraction or Decimal
            > 0 and < 1: approximate mass of finite losses that count as infinite or (if
            not `pessimistic`) are left out; delta changes by this mass.

        Returns
        -------
        PrivacyLossDistribution
            It has at most 1,000,000 losses per direction, a JSON form, and an event
            that other accountants can compose.

        Raises
        ------
        ParameterError
            The grid would have too many losses.
        UnsupportedEventError
            The composition is about groups, or has losses of at least 700.

        Privacy
        -------
        A pessimistic law dominates the composition, in both directions and for the
        accountant's neighboring relation, also when composed with other events.

        References
        ----------
        Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect the Dots: Tighter
        Discrete Approximations of Privacy Loss Distributions" (2022).

        Examples
        --------
        >>> from fastdp.accounting import LaplaceEvent, PLDAccountant
        >>> accountant = PLDAccountant().compose(LaplaceEvent(sensitivity=1, scale=1))
        >>> accountant.distribution(interval=0.25)
        <PrivacyLossDistribution: pessimistic, 9 losses, interval 0.25>
        """
        require_bool("pessimistic", pessimistic)
        tail = float(_validate.open_unit("tail_mass", tail_mass))
        relation = self.neighboring_relation or NeighboringRelation.ADD_OR_REMOVE_ONE
        if self.group_size != 1:
            raise UnsupportedEventError(
                "the events must be about single individuals, not groups"
            )
        snapshot = self._snapshot()
        if tells_nothing(snapshot[1]):
            nothing = GridLosses(
                lower_index=0, probabilities=np.ones(1), infinity_mass=0.0
            )
            step = float(
                _validate.positive("interval", 1 if interval is None else interval)
            )
            return PrivacyLossDistribution(step, nothing, None, pessimistic, relation)
        end = self._reach(snapshot, math.log(max(tail, 1e-300)))
        if not 0 < end < _FARTHEST:
            raise UnsupportedEventError("losses must be > 0 and below 700")
        step = grid_step(interval, end)
        count = math.ceil(end / step * (1 - 1e-12))
        if 2 * count + 2 > MOST_LOSSES:
            raise ParameterError(
                f"interval must be at least {2 * end / MOST_LOSSES:.3g}, so that there "
                f"are at most {MOST_LOSSES} losses, got {_validate.shown(interval)}"
            )
        epsilons = np.asarray(step * np.arange(count + 1), dtype=np.float64)
        row = int(pessimistic)
        one, other = (
            exponentials(*self._bounds_of(snapshot, removal)(epsilons))[row]
            for removal in (True, False)
        )
        if not pessimistic:  # beyond the grid there may be only lost mass
            one[-1] = other[-1] = snapshot[0].lost
        laws = [
            law_of(first, second, step, pessimistic)
            for first, second in ((one, other), (other, one))
        ]
        same = bool(np.array_equal(one, other))
        addition = None if same else laws[1]
        return PrivacyLossDistribution(step, laws[0], addition, pessimistic, relation)

    # ---- the trade-off function ----------------------------------------------------

    def trade_off(self, *, symmetric: bool = True) -> ProfileTradeOff:
        """Return the exact trade-off function, rounded down.

        Each value is refined on the profile when it is requested.

        Parameters
        ----------
        symmetric : bool
            True for the function that holds with either dataset as the null hypothesis;
            its `delta` is the accountant's. False for tests with the dataset without
            the record as the null hypothesis (or with the record, by `inverse()`), for
            which the bounds are better.

        Returns
        -------
        ProfileTradeOff
            A `TradeOffFunction`: f(x) is the least false-negative rate at the
            false-positive rate x, rounded down.

        Privacy
        -------
        A lower bound on the trade-off function (for the accountant's neighboring
        relation) never claims more privacy than holds.

        References
        ----------
        Dong, Roth, Su, "Gaussian Differential Privacy" (2022), Proposition 2.12.

        Examples
        --------
        >>> from fastdp.accounting import GaussianEvent, PLDAccountant
        >>> accountant = PLDAccountant().compose(
        ...     GaussianEvent(sensitivity=1, sigma=2), count=4
        ... )
        >>> f = accountant.trade_off()
        >>> f([0.01, 0.05, 0.5]).round(9).tolist()
        [0.907637752, 0.740488977, 0.158655254]
        >>> bool(f.delta(1) <= accountant.delta(1) * (1 + 1e-9))
        True
        """
        return self._trade_off(symmetric)[0]

    def trade_off_bounds(
        self, *, symmetric: bool = True, points: int = 1000
    ) -> TradeOffBounds:
        """Return a lower and an upper bound on the exact trade-off function.

        Parameters
        ----------
        symmetric : bool
            As in `trade_off`.
        points : int
            Number of epsilons at which each direction is read for `upper`, 8 to
            100,000; the distance of `upper` falls with its square.

        Returns
        -------
        TradeOffBounds
            `lower` is what `trade_off` returns.

        Examples
        --------
        >>> from fastdp.accounting import GaussianEvent, PLDAccountant
        >>> accountant = PLDAccountant().compose(
        ...     GaussianEvent(sensitivity=1, sigma=2), count=4
        ... )
        >>> lower, upper = accountant.trade_off_bounds()
        >>> bool(0 <= upper(0.05) - lower(0.05) < 1e-4)
        True
        """
        count = _validate.integer("points", points, 8, 100_000)
        exact, steep, flat, end, lost = self._trade_off(symmetric)
        above = trade_off_above(steep, flat, end, lost=lost, points=count)
        return TradeOffBounds(exact, above)

    def _trade_off(
        self, symmetric: bool
    ) -> tuple[ProfileTradeOff, Profile, Profile, float, float]:
        require_bool("symmetric", symmetric)
        snapshot = self._snapshot()
        rough = snapshot[0].end(_LOWEST, math.inf)
        end = max(min(rough, pure_sum(snapshot[1]), _FARTHEST), 1e-9)
        steep, flat = (
            functools.partial(_deltas, self._bounds_of(snapshot, removal))
            for removal in (None if symmetric else True, False)
        )
        if symmetric:
            flat = steep
        exact = ProfileTradeOff(steep, flat, end, corners=snapshot[0].has_corners)
        return exact, steep, flat, end, snapshot[0].lost


def require_bool(name: str, value: object) -> None:
    """Raise an error unless the value is True or False."""
    if not isinstance(value, bool):
        raise DTypeError(f"{name} must be a bool, got {type(value).__name__}")


def _deltas(
    profile: LogProfile, epsilons: Floats, deepest: float = -math.inf
) -> tuple[Floats, Floats]:
    """Return bounds of delta at epsilons in any order."""
    places, back = np.unique(epsilons, return_inverse=True)
    low, high = exponentials(*profile(places, deepest=deepest))
    return low[back], high[back]


def in_any_order(profile: LogProfile, epsilons: Floats) -> Floats:
    """Return the bounds at epsilons that need not be ascending."""
    order = np.argsort(epsilons, kind="stable")
    result = np.empty((2, epsilons.size))
    result[:, order] = profile(epsilons[order])
    return result


def exponentials(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return bounds on exponentials of numbers <= 0 from bounds on the numbers."""
    # The library's exp errs by at most 4 units in the last place.
    low = np.exp(np.minimum(lower, 0.0)) * (1 - 8 * U)
    high = np.exp(np.minimum(upper, 0.0)) * (1 + 8 * U)
    high = np.minimum(np.where(upper > -np.inf, np.maximum(high, 5e-324), 0.0), 1.0)
    # Products of the least doubles have no relative accuracy.
    return np.where(low > 1e-300, low, 0.0), np.where(
        (high > 0) & (high < 1e-300), high + 1e-315, high
    )


def _middle(bounds: Floats) -> Floats:
    """Return estimates of ln delta: the middle, or the upper bound if it is alone."""
    lower, upper = bounds
    return np.asarray(np.where(np.isfinite(lower), (lower + upper) / 2, upper))


def _guesses(
    points: Floats, bounds: Floats, log_delta: Floats
) -> tuple[Floats, Floats]:
    """Return approximate epsilons of values of ln delta, and d epsilon/d ln delta."""
    from scipy.interpolate import CubicSpline

    middle = np.minimum.accumulate(_middle(bounds))
    falls = np.append(True, np.diff(middle) < 0) & np.isfinite(middle)
    t, e = -middle[falls], points[falls]
    if t.size < 4:
        return np.full(log_delta.size, points[-1]), np.zeros(log_delta.size)
    curve = CubicSpline(t, e)
    inside = np.clip(-log_delta, t[0], t[-1])
    return np.clip(curve(inside), e[0], e[-1]), -curve(inside, 1)
