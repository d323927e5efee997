"""The best order of one reading, from few evaluations of a sum of Renyi curves.

Curves cost far more than conversions, and evaluating a curve at many gaps costs little
more than at one. So the bound is evaluated at a dozen gaps at a time: the least bound
is bracketed, and a polynomial through a second dozen gives the minimum in between.
Every order is valid, so a poor search affects only tightness.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from fastdp.accounting._renyi.conversion import epsilon_at_order, log_delta_at_order
from fastdp.accounting._series import Floats

#: Bounds of K at gaps.
Objective: TypeAlias = Callable[[Floats], Floats]
#: A function of a gap and a bound of K there: the bound that this order gives.
Value: TypeAlias = Callable[[float, float], float]

_LARGEST_GAP = 1e18
_LEAST_GAP = 1e-18
#: Gaps that are evaluated together.
_POINTS = 13
#: The first bracket reaches this far to either side.
_REACH = 8.0
_MOVES, _ROUNDS = 40, 16
#: Relative accuracy of the least value, and of the gap where there are kinks.
_ACCURACY, _FINEST = 1e-10, 1e-10
#: Within this factor any smooth bound is a polynomial, up to its rounding.
_SMOOTH = 1.001
#: Points at which the polynomial is evaluated.
_DENSE = 1201


@dataclass(frozen=True)
class Search:
    """Start, end and options of a search for the best gap.

    Parameters
    ----------
    start : float
        A gap at which the search may start, in either direction.
    largest : float
        Largest gap for which the bound is finite.
    smooth : bool
        Whether the bound has derivatives, so that parabolas find its optimum.
    trusted : float
        Largest gap up to which windows may interpolate the bound.
    """

    start: float
    largest: float
    smooth: bool
    trusted: float

    def both(self, other: Search) -> Search:
        """Return the search for the sum of two bounds."""
        return Search(
            min(self.start, other.start),
            min(self.largest, other.largest),
            self.smooth and other.smooth,
            min(self.trusted, other.trusted),
        )


#: The search if a bound is only known to be smooth.
ANYWHERE = Search(1e6, math.inf, True, math.inf)


class Best(NamedTuple):
    """A gap and its bound."""

    gap: float
    value: float


def least_epsilon(moment: Objective, log_delta: float, search: Search) -> Best:
    """Return the best gap and the least epsilon over all orders at ln(delta) < 0."""
    guess = math.sqrt(-log_delta / _slope(moment, search))
    found = _least(
        lambda gap, k: epsilon_at_order(gap, k, log_delta)[0], moment, guess, search
    )
    return found._replace(value=max(found.value, 0.0))


def least_log_delta(moment: Objective, epsilon: float, search: Search) -> float:
    """Return the least ln(delta) <= 0 over all orders at epsilon >= 0."""
    guess = max(epsilon / _slope(moment, search) - 1, 0.5) / 2
    found = _least(
        lambda gap, k: log_delta_at_order(gap, k, epsilon), moment, guess, search
    )
    return min(found.value, 0.0)


def _slope(moment: Objective, search: Search) -> float:
    """Return the rho of the concentrated bound that touches K near the start."""
    near = min(search.start, search.largest, 1.0)
    rho = float(moment(np.array([near]))[0]) / (near * (1 + near))
    return min(max(rho, 1e-300), 1e300)


def _least(value: Value, moment: Objective, guess: float, search: Search) -> Best:
    """Return the best gap, for values that fall and then rise along the gaps."""
    top = min(search.largest, _LARGEST_GAP)
    start = min(max(guess, _LEAST_GAP), search.start, top)
    low, high, best = _bracket(value, moment, start, top)
    for _ in range(_ROUNDS):
        if high <= low * (1 + _FINEST):
            break
        if search.smooth:
            around = (high / low) ** 0.125
            best, rough = _between(value, moment, low, high, best)
            if not rough or around < _SMOOTH:
                break
            low, high = max(low, best.gap / around), min(high, best.gap * around)
        else:
            gaps = np.geomspace(low, high, _POINTS)
            gaps[0], gaps[-1] = low, high
            place, best = _best_of(value, moment, gaps, best)
            low = float(gaps[max(place - 1, 0)])
            high = float(gaps[min(place + 1, _POINTS - 1)])
    return best


def _bracket(
    value: Value, moment: Objective, start: float, top: float
) -> tuple[float, float, Best]:
    """Return two gaps that enclose the best gap, and the best gap seen."""
    best = Best(start, math.inf)
    ratios = np.geomspace(1 / _REACH, _REACH, _POINTS)
    low = high = start
    for _ in range(_MOVES):
        gaps = np.clip(start * ratios, _LEAST_GAP, top)
        place, best = _best_of(value, moment, gaps, best)
        low = float(gaps[max(place - 1, 0)])
        high = float(gaps[min(place + 1, _POINTS - 1)])
        if place == 0 and low > _LEAST_GAP and best.value != 0:
            start = float(gaps[2]) / _REACH
        elif place == _POINTS - 1 and high < top:
            start = float(gaps[-3]) * _REACH
        else:
            break
    return low, high, best


def _best_of(
    value: Value, moment: Objective, gaps: Floats, best: Best
) -> tuple[int, Best]:
    """Return the place of the least value among gaps, and the best gap so far."""
    values = _values(value, gaps, moment(gaps))
    place = int(values.argmin())
    found = Best(float(gaps[place]), float(values[place]))
    return place, found if found.value < best.value else best


def _values(value: Value, gaps: Floats, moments: Floats) -> Floats:
    pairs = zip(gaps.tolist(), moments.tolist(), strict=True)
    found = np.array([value(gap, k) for gap, k in pairs])
    return np.where(np.isnan(found), math.inf, found)


def _between(
    value: Value, moment: Objective, low: float, high: float, best: Best
) -> tuple[Best, bool]:
    """Return the best gap by a polynomial, and whether that was too inaccurate."""
    places, table = _polynomial()
    half = math.log(high / low) / 2
    gaps = np.clip(low * np.exp(half * (1 + places)), low, high)
    values = _values(value, gaps, moment(gaps))
    place = int(values.argmin())
    best = min(best, Best(float(gaps[place]), float(values[place])), key=_value_of)
    if not np.isfinite(values).all():
        return best, False
    curve = table @ values
    place = min(max(int(curve.argmin()), 1), _DENSE - 2)
    fall, rise = curve[place - 1] - curve[place], curve[place + 1] - curve[place]
    bend = float(fall + rise)
    shift = min(1.0, max(-1.0, float(fall - rise) / (2 * bend))) if bend > 0 else 0.0
    at = 2 * (place + shift) / (_DENSE - 1) - 1
    gap = np.array([min(high, max(low, low * math.exp(half * (1 + at))))])
    found = Best(float(gap[0]), value(float(gap[0]), float(moment(gap)[0])))
    error = abs(found.value - float(curve[place]) + shift * shift * bend / 2)
    return min(best, found, key=_value_of), error > _ACCURACY * abs(found.value)


def _value_of(best: Best) -> float:
    return best.value


@functools.cache
def _polynomial() -> tuple[Floats, Floats]:
    """Return Chebyshev places, and the matrix of dense interpolation on [-1, 1]."""
    angles = (2 * np.arange(_POINTS) + 1) * np.pi / (2 * _POINTS)
    places = -np.cos(angles)
    x = np.linspace(-1, 1, _DENSE)
    chebyshev = np.polynomial.chebyshev.chebvander
    table = chebyshev(x, _POINTS - 1) @ np.linalg.inv(chebyshev(places, _POINTS - 1))
    return places, np.asarray(table)
