"""Trade-off functions of composed privacy losses, bounded from below and above.

Of two laws P and Q let H(a) = 1 - sup over tests of (Q - a P), concave in a > 0. Then
f(x) = sup over a of H(a) - a x is the trade-off function of (P, Q). For a >= 1 the
profile of (Q, P) gives H(a) = 1 - delta(ln a), for a < 1 the profile of (P, Q) gives
H(a) = a (1 - delta(-ln a)). Any a gives a line below f. For upper bounds, H is extended
between its known points by chords of their neighbors
(docs/proofs/numerical_accounting.md, section 11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fastdp.accounting import _trade_off
from fastdp.accounting._pld.losses import Floats, U
from fastdp.accounting._trade_off_functions import (
    PiecewiseTradeOff,
    TradeOffFunction,
    nonnegative,
)


class Profile(Protocol):
    """Function that bounds delta at epsilons >= 0 from below and above."""

    def __call__(
        self, epsilons: Floats, /, deepest: float = ...
    ) -> tuple[Floats, Floats]:
        """Return both bounds, which may be wide where ln delta is below `deepest`."""


#: ln of a delta so small that it changes a line less than rounding does.
_DEEPEST = -36.0

#: ln of the steepest slope that a double holds.
_STEEPEST = 700.0

#: Lines on either side among which to find the best one, before it is refined.
_COARSE = 256

#: If the relative width of delta exceeds _NARROW, use _DENSE lines on either side and
#: do not refine them.
_DENSE, _NARROW = 1024, 1e-9

#: Refinements of the best line, each by a parabola through three.
_REFINED = 4

#: Most entries of a table of lines against rates.
_TABLE = 1 << 21

#: Bound of a line's rounding error; heights are at most 1.
_SLACK = 1e-15

#: Raise the knots of upper bounds by this: more than reading them subtracts.
_RAISED = 4e-15


class ProfileTradeOff(TradeOffFunction):
    """The trade-off function of two profiles, from proved bounds of delta.

    It uses upper bounds on the profiles of (Q, P), `steep`, and of (P, Q), `flat`;
    beyond `end` the profiles hardly fall. After a reading, `corners` returns whether
    the profiles may have corners, as profiles of atoms do.
    """

    def __init__(
        self, steep: Profile, flat: Profile, end: float, *, corners: Callable[[], bool]
    ) -> None:
        self._steep, self._flat, self._end, self._corners = steep, flat, end, corners
        slopes = np.linspace(-end, end, 2 * _COARSE + 1)
        low, high = _heights(steep, flat, slopes)
        # Atoms are fast only if all points are read at once: use more lines, and do not
        # refine them.
        gap = (high - low) / np.maximum(_scale(slopes) - low, 1e-300)
        self._refined = bool(np.median(gap) <= _NARROW)
        if not self._refined:
            slopes = np.linspace(-end, end, 2 * _DENSE + 1)
            low = self._height(slopes)
        if corners():
            more = np.setdiff1d(_corners(slopes, low, low)[0], slopes)
            order = np.argsort(np.append(slopes, more))
            low = np.append(low, self._height(more))[order]
            slopes = np.append(slopes, more)[order]
        self._slopes, self._heights = slopes, low

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: epsilons up to {self._end:.6g}>"

    def _height(self, slope: Floats) -> Floats:
        """Return lower bounds of H(e^slope)."""
        return _heights(self._steep, self._flat, slope)[0]

    def _values(self, x: Floats) -> Floats:
        flat = x.ravel()
        rows = max(1, _TABLE // self._slopes.size)
        parts = [self._best(flat[i : i + rows]) for i in range(0, flat.size, rows)]
        return np.concatenate([*parts, np.empty(0)]).reshape(x.shape)

    def _best(self, x: Floats) -> Floats:
        """Return the highest line at each rate, and refined lines around it."""
        lines = self._heights - np.multiply.outer(x, np.exp(self._slopes))
        middle = np.clip(np.argmax(lines, axis=1), 1, self._slopes.size - 2)
        near = middle[:, None] + np.array([-1, 0, 1])
        slopes = self._slopes[near]
        values = np.take_along_axis(lines, near, axis=1)
        best = values.max(axis=1)
        for _ in range(_REFINED if self._refined else 0):
            slope = _vertex(slopes, values)
            value = self._height(slope) - np.exp(slope) * x
            best = np.maximum(best, value)
            slopes, values = _with_middle(slopes, values, slope, value)
        return np.asarray(best - _SLACK)

    def _conjugate(self, slope: Floats) -> Floats:
        log_slope = np.log(-slope.ravel())
        # A little flatter than asked: the height only falls.
        log_slope -= 4e-16 * np.abs(log_slope)
        return np.asarray(_SLACK - self._height(log_slope).reshape(slope.shape))

    def _steepest(self) -> float:
        return self._end

    def inverse(self) -> ProfileTradeOff:
        """Return the function with both rates, and both laws, exchanged."""
        return ProfileTradeOff(
            self._flat, self._steep, self._end, corners=self._corners
        )

    def delta(self, epsilon: npt.ArrayLike) -> Floats:
        """Return the profile's delta at each epsilon, rounded up.

        It is the larger delta of both orders of the laws.

        Parameters
        ----------
        epsilon : array_like of float
            Finite and >= 0.
        """
        e = nonnegative("epsilons", epsilon)
        values = [profile(e.ravel())[1] for profile in (self._steep, self._flat)]
        return np.asarray(np.maximum(*values).reshape(e.shape))


class TradeOffBounds(NamedTuple):
    """Proved lower and upper bounds on a trade-off function; a tuple of two.

    Parameters
    ----------
    lower : ProfileTradeOff
        On or below the exact function: a guarantee may claim it.
    upper : PiecewiseTradeOff
        On or above the exact function: shows the possible slack of `lower`.
    """

    lower: ProfileTradeOff
    upper: PiecewiseTradeOff


def _heights(steep: Profile, flat: Profile, slope: Floats) -> tuple[Floats, Floats]:
    """Return a lower and an upper bound on H at e^slope."""
    bounds = np.zeros((2, slope.size))
    up = slope >= 0
    if steep is flat:  # one call for both sides, whose epsilons mostly agree
        epsilons, back = np.unique(np.abs(slope), return_inverse=True)
        bounds[:] = np.asarray(steep(epsilons, deepest=_DEEPEST))[:, back.ravel()]
    else:
        if up.any():
            bounds[:, up] = steep(slope[up], deepest=_DEEPEST)
        if not up.all():
            bounds[:, ~up] = flat(-slope[~up], deepest=_DEEPEST)
    scale = _scale(slope)
    return scale * (1 - bounds[1]), scale * (1 - bounds[0])


def _scale(slope: Floats) -> Floats:
    """Return min(1, e^slope), which H is at most."""
    return np.asarray(np.exp(np.minimum(slope, 0.0)))


def _vertex(slopes: Floats, values: Floats) -> Floats:
    """Return the tops of the parabolas through three points, within the points."""
    left, middle, right = slopes.T
    first, second = middle - left, right - middle
    rise = (values[:, 1] - values[:, 0]) / first
    fall = (values[:, 2] - values[:, 1]) / second
    with np.errstate(divide="ignore", invalid="ignore"):
        top = (left + middle) / 2 + rise / (rise - fall) * (first + second) / 2
    return np.asarray(np.where((top > left) & (top < right), top, middle))


def _with_middle(
    slopes: Floats, values: Floats, slope: Floats, value: Floats
) -> tuple[Floats, Floats]:
    """Return the three of four points around the highest point."""
    s = np.column_stack([slopes, slope])
    v = np.column_stack([values, value])
    order = np.argsort(s, axis=1, kind="stable")
    s, v = np.take_along_axis(s, order, axis=1), np.take_along_axis(v, order, axis=1)
    first = np.clip(np.argmax(v, axis=1) - 1, 0, 1)
    near = first[:, None] + np.arange(3)
    s, v = np.take_along_axis(s, near, axis=1), np.take_along_axis(v, near, axis=1)
    apart = np.min(np.diff(s, axis=1), axis=1)[:, None] > 0
    return np.where(apart, s, slopes), np.where(apart, v, values)


# ---- above ------------------------------------------------------------------------


def trade_off_above(
    steep: Profile, flat: Profile, end: float, *, lost: float, points: int
) -> PiecewiseTradeOff:
    """Return a function that is nowhere below the trade-off function of two profiles.

    Each is read at `points` points up to `end`, and stays above `lost`. The distance
    to the exact function falls with the square of `points`.
    """
    slope = np.linspace(-end, end, 2 * points + 1)
    low, high = _heights(steep, flat, slope)
    log_steepness, height = _lines_above(slope, low, high, 1 - lost)
    # The highest lines are the corners of a concave hull, and cross where f bends.
    # A less steep line is higher, so steepness may be capped at what doubles hold.
    steepest = np.exp(np.minimum(log_steepness, _STEEPEST))
    steepness, lowest = _trade_off.hull(
        np.append(steepest, 0.0), np.append(-height, 0.0)
    )
    x = -np.diff(lowest) / np.diff(steepness)
    f = -lowest[1:] - steepness[1:] * x
    inside = (x > 0) & (x < 1)
    start = -float(lowest[-1])
    xs = np.concatenate([[0.0], x[inside][::-1], [1.0]])
    fs = np.concatenate([[start], f[inside][::-1], [0.0]]) + _RAISED
    return PiecewiseTradeOff.of_knots(_trade_off.hull(xs, np.maximum(fs, 0.0)))


def _lines_above(
    slope: Floats, low: Floats, high: Floats, top: float
) -> tuple[Floats, Floats]:
    """Return lines, as ln of the steepness and height, whose maximum is above f.

    They are the corners of a function of a that is nowhere below H.
    """
    first, last = _ends(slope, low, high, top)
    corner, height = _corners(slope, low, high)
    return (
        np.concatenate([slope, corner, [first[0], last[0]]]),
        np.concatenate([high, height, [first[1], last[1]]]),
    )


def _ends(
    slope: Floats, low: Floats, high: Floats, top: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the corners beyond both ends, where H is at most top, and at most a top.

    Each corner is ln a and a height, where the chord of the last two points meets the
    limit.
    """
    gap = np.diff(slope)
    least = float(np.exp(slope[0]))
    fall = float((low[1] - high[0]) / np.expm1(gap[0]))
    share = 1.0
    if fall < top * least and high[0] >= fall:
        share = min(1.0, max(1e-9, (float(high[0]) - fall) / (top * least - fall)))
    first = float(slope[0]) + float(np.log(share)), top * least * share
    rise = float((high[-1] - low[-2]) / -np.expm1(-gap[-1]))
    more = max(0.0, (top - float(high[-1])) / rise) if rise > 0 else 0.0
    last = float(slope[-1]) + float(np.log1p(more)), max(top, float(high[-1]))
    return first, last


def _corners(slope: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return a corner within each interval, as ln a and the height there.

    Neighboring chords, prolonged, lie above the concave H; with `high` at the nearer
    point and `low` at the farther point, this holds for any H between both.
    """
    gap = np.diff(slope)
    # In units of a at the left end of each interval. The first chord starts at a = 0,
    # and beyond the last point H is only known not to fall.
    width = np.expm1(gap)
    rise = np.append(high[0], (high[1:-1] - low[:-2]) / -np.expm1(-gap[:-1]))
    fall = (low[2:] - high[1:-1]) / (np.exp(gap[:-1]) * np.expm1(gap[1:]))
    fall = np.append(np.maximum(fall, 0.0), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        place = (high[1:] - fall * width - high[:-1]) / (rise - fall)
    # If they do not cross inside, the lower one is the first, or the second if they
    # cross earlier.
    place = np.where((rise > fall) & (place <= width), np.maximum(place, 0.0), width)
    first, second = high[:-1] + rise * place, high[1:] + fall * (place - width)
    inside = (place > 0) & (place < width)
    height = np.where(place > 0, first, second)
    height = np.where(inside, np.maximum(first, second), height)
    return slope[:-1] + np.log1p(place), height


# ---- the inverse of a profile --------------------------------------------------------

#: Extend chords from up to this many points on either side.
_FARTHEST = 3


def inverse_above(epsilons: Floats, upper: Floats, targets: Floats) -> Floats:
    """Return epsilons at which delta is proved to be at most the targets.

    `upper` bounds ln delta at two or more ascending epsilons, `targets` are lower
    bounds of the ln delta to meet. The result is infinity if no point meets the target.
    """
    t = targets - 8 * U * (1 + np.abs(targets))
    known = np.minimum.accumulate(upper)  # delta does not grow
    j = np.searchsorted(-known, -t)  # the first that meets it
    met = j < epsilons.size
    right = np.clip(j, 1, epsilons.size - 1)
    left = right - 1
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        before, after = np.exp(known[left] - t), np.exp(known[right] - t)
        share = (before - 1) / (before - after)
        width = epsilons[right] - epsilons[left]
        found = epsilons[left] + np.log1p(share * np.expm1(width)) * (1 + 32 * U)
    found = np.where(np.isfinite(share), found, np.inf) * (1 + 4 * U)
    found = np.minimum(found, epsilons[right])
    return np.where(met, np.where(j == 0, epsilons[0], found), np.inf)


def inverse_below(
    epsilons: Floats, lower: Floats, upper: Floats, targets: Floats
) -> Floats:
    """Return epsilons at which delta is proved to be at least the targets.

    `lower` and `upper` bound ln delta at four or more ascending epsilons, `targets` are
    upper bounds of the ln delta to compare with. The result is 0 if no point is above
    the target.
    """
    t = targets + 8 * U * (1 + np.abs(targets))
    known = np.maximum.accumulate(lower[::-1])[::-1]
    j = np.searchsorted(-known, -t, side="right") - 1  # the last at or above it
    best = epsilons[np.clip(j, 0, None)].copy()
    inner = (j >= 0) & (j < epsilons.size - 1)
    left = np.clip(j, 0, epsilons.size - 2)
    # Points that nearly coincide give no slope, so try some farther ones as well.
    for away in range(1, _FARTHEST + 1):
        far = np.clip(left - away, 0, None)
        first = _crossing(epsilons, known, upper, left, far, t)
        far = np.clip(left + 1 + away, None, epsilons.size - 1)
        second = _crossing(epsilons, known, upper, left + 1, far, t)
        for found in (first, second):
            use = inner & (found > best) & (found <= epsilons[left + 1])
            best[use] = found[use]
    return np.where(j >= 0, np.maximum(best * (1 - 4 * U), 0.0), 0.0)


def _crossing(
    epsilons: Floats,
    lower: Floats,
    upper: Floats,
    near: npt.NDArray[np.intp],
    far: npt.NDArray[np.intp],
    t: Floats,
) -> Floats:
    """Return the point at which the extended chord from `far` over `near` meets t.

    With the upper bound at the far point and the lower bound at the near point, the
    chord is below delta there. NaN if it does not fall.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        own, other = np.exp(lower[near] - t), np.exp(upper[far] - t)
        # In units of a at the near point.
        slope = (other - own) / np.expm1(epsilons[far] - epsilons[near])
        moved = np.log1p((1 - own) / np.where(slope < 0, slope, np.nan))
    return np.asarray(epsilons[near] + moved - 32 * U * np.abs(moved))
