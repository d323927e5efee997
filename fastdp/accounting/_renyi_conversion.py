"""From Renyi curves to (epsilon, delta), at the best order.

For one order a = 1 + t with E_Q w^a = exp K, w = P/Q, and any 0 < w0 <= 1 < w1 the
convex function c w^a + b w + d that touches 0 at w0 and w - e^epsilon at w1 lies above
(w - e^epsilon)_+, so that its mean bounds delta. With l0 = ln w0, r = ln(w1/w0) this
reads (docs/proofs/rdp.md, section 5)

    epsilon = l0 + r/2 + psi((1+t) r) - psi(t r),
    delta = (exp K - a w0^t + t w0^a)/(a w0^t (exp(t r) - 1)).

Every w0 and every order is valid; at the best w0 the bound is the best that one order
allows (Asoodeh et al. 2020), and w0 -> 0 gives the form of Canonne, Kamath and Steinke
2020 (Proposition 12). w0 = 1 is within a factor 1 + O(a delta) of the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fastdp.accounting._series import (
    Floats,
    exp_remainder,
    log_expm1,
    sinh_ratio_slope,
    sinh_ratio_step,
    softplus,
)

Objective: TypeAlias = Callable[[Floats], Floats]

#: Raises what is left of rounding after the slop of the logarithms.
EPSILON_EXCESS = 6e-14
_LARGEST_GAP = 1e18
_LEAST_GAP = 1e-18
#: A round of the search looks at this many points within the bracket.
_SECTION = 7
_ROUNDS = 12
#: Relative accuracy of the least value, and of the gap where there are kinks.
_VALUE, _FINEST = 2e-10, 1 + 1e-10


def _log_excess(gap: Floats, moment: Floats, log_w0: Floats) -> Floats:
    """Return ln(exp K - a w0^t + t w0^a) rounded up."""
    base = log_expm1(moment)
    if not np.any(log_w0):
        return base + 4e-16 * np.where(np.isfinite(base), np.abs(base), 0.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        more = gap * exp_remainder((1 + gap) * log_w0)
        less = (1 + gap) * exp_remainder(gap * log_w0)
        rest = np.maximum(more - less, 0.0) + 1e-15 * (more + less)
        result = np.logaddexp(base, np.log(rest))
    return result + 4e-16 * np.where(np.isfinite(result), np.abs(result), 0.0)


def epsilon_at(
    gap: Floats, moment: Floats, log_delta: Floats, log_w0: Floats
) -> tuple[Floats, Floats]:
    """Return epsilon >= 0 rounded up, and r, for the bound `moment` of K(gap)."""
    gain = _log_excess(gap, moment, log_w0) - np.log1p(gap)
    odds = gain - log_delta - gap * log_w0
    with np.errstate(invalid="ignore"):
        parts = np.abs(gain) + np.abs(log_delta) + np.abs(gap * log_w0)
        odds = np.where(np.isfinite(odds), odds + 5e-16 * parts, odds)
        reach = softplus(odds)  # t r
        step = reach / gap
        value = step / 2 + sinh_ratio_step(reach, step)
        value = np.maximum(value * (1 + EPSILON_EXCESS) + log_w0 * (1 - 1e-15), 0.0)
    return np.where(odds == np.inf, np.inf, value), step


def log_delta_at(
    gap: Floats, moment: Floats, epsilon: Floats, log_w0: Floats
) -> tuple[Floats, Floats]:
    """Return ln(delta) <= 0 rounded up, and r, for the bound `moment` of K(gap)."""
    target = epsilon - log_w0 * (1 - 1e-15)
    step = _step_at(gap, target)
    with np.errstate(invalid="ignore", divide="ignore"):
        gain = _log_excess(gap, moment, log_w0)
        less = np.log1p(gap) + log_expm1(gap * step * (1 - 1e-15)) + gap * log_w0
        value = gain - less
        parts = np.abs(gain) + np.abs(less) + 2 * np.abs(gap * log_w0)
        value = np.where(np.isfinite(value), value + 1e-15 * parts, value)
    value = np.where(np.isnan(value) | (moment == np.inf), 0.0, value)
    return np.minimum(value, 0.0), step


def _step_at(gap: Floats, target: Floats) -> Floats:
    """Return r with r/2 + psi((1+t) r) - psi(t r) <= target, next to equality."""
    r = np.minimum(2 * target, target + np.log1p(1 / gap))
    for _ in range(12):
        value = r / 2 + sinh_ratio_step(gap * r, r)
        slope = 0.5 + (1 + gap) * sinh_ratio_slope((1 + gap) * r)
        slope -= gap * sinh_ratio_slope(gap * r)
        move = (value - target) / np.maximum(slope, 0.25)
        r = np.clip(r - move, target, 2 * target)
        if np.all(np.abs(move) <= 1e-14 * r):
            break
    shorter = np.maximum(r * (1 - 3 * EPSILON_EXCESS), target)
    value = shorter / 2 + sinh_ratio_step(gap * shorter, shorter)
    return np.where(value * (1 + EPSILON_EXCESS) <= target, shorter, target)


def next_log_w0(
    gap: Floats, step: Floats, epsilon: Floats, log_delta: Floats, log_w0: Floats
) -> Floats:
    """Return ln w0 from 1 - w0 = delta (1 - exp(-r))/(1 - exp(epsilon - l0 - r))."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.expm1(-step) / np.expm1(np.minimum(epsilon - log_w0 - step, 0.0))
        drop = np.exp(log_delta) * share
    drop = np.where(np.isfinite(drop), np.clip(drop, 0.0, 0.999), 0.0)
    # The gain in epsilon is about drop (1 + t) exp(-t r): mostly not worth a search.
    gain = drop * (1 + gap) * np.exp(-gap * step)
    return np.where(gain < 1e-12 * epsilon, 0.0, np.log1p(-drop))


@dataclass(frozen=True)
class Search:
    """Where a search for the best gap starts and ends, and how it may go.

    Parameters
    ----------
    start : float
        A gap at which the search may start; it goes on to either side.
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


#: Nothing is known of the bound but that it is smooth.
ANYWHERE = Search(1e6, math.inf, True, math.inf)


def best_epsilon(moment: Objective, log_delta: Floats, search: Search) -> Floats:
    """Return the least epsilon over all orders for each ln(delta) < 0."""
    return best_gap_and_epsilon(moment, log_delta, search)[1]


def best_gap_and_epsilon(
    moment: Objective, log_delta: Floats, search: Search
) -> tuple[Floats, Floats]:
    """Return the best gap and the least epsilon over all orders for each ln(delta).

    Parameters
    ----------
    moment : callable
        Gaps of any shape to bounds of K.
    log_delta : ndarray of float64, shape (n,)
        Rounded down by the caller.
    search : Search
        Where to look.
    """
    near = np.full(1, min(search.start, search.largest, 1.0))
    with np.errstate(divide="ignore", over="ignore"):
        rho = moment(near)[0] / (near[0] * (1 + near[0]))
        guess = np.minimum(np.sqrt(-log_delta / rho), search.start)

    def value_for(log_w0: Floats) -> Objective:
        return lambda gaps: epsilon_at(
            gaps, moment(gaps), log_delta[:, None], log_w0[:, None]
        )[0]

    log_w0 = np.zeros_like(log_delta)
    gap, value = minimize(value_for(log_w0), guess, search)
    for _ in range(3):
        at = moment(gap)
        epsilon, step = epsilon_at(gap, at, log_delta, log_w0)
        log_w0 = next_log_w0(gap, step, epsilon, log_delta, log_w0)
        if not np.any(log_w0):
            break
        gap, value = _again(value_for(log_w0), gap, value, search)
    return gap, value


def best_log_delta(moment: Objective, epsilon: Floats, search: Search) -> Floats:
    """Return the least ln(delta) over all orders for each epsilon >= 0.

    The arguments are those of `best_epsilon`.
    """
    near = np.full(1, min(search.start, search.largest, 1.0))
    with np.errstate(divide="ignore", over="ignore"):
        rho = max(float(moment(near)[0] / (near[0] * (1 + near[0]))), 1e-300)
        guess = np.minimum(np.maximum(epsilon / rho - 1, 0.5) / 2, search.start)
    log_w0 = np.full_like(epsilon, -1e-3)

    def value_for(log_w0: Floats) -> Objective:
        return lambda gaps: log_delta_at(
            gaps, moment(gaps), epsilon[:, None], log_w0[:, None]
        )[0]

    gap, value = minimize(value_for(log_w0), guess, search)
    for _ in range(5):
        log_delta, step = log_delta_at(gap, moment(gap), epsilon, log_w0)
        log_w0 = next_log_w0(gap, step, epsilon, log_delta, log_w0)
        gap, value = _again(value_for(log_w0), gap, value, search)
        if not np.any(log_w0):
            break
    return value


def _again(
    objective: Objective, gap: Floats, value: Floats, search: Search
) -> tuple[Floats, Floats]:
    """Search on around gaps that were best for a slightly different objective."""
    low, high = gap / 1.5, np.minimum(gap * 1.5, search.largest)
    return _narrow(objective, low, high, gap, value, search.smooth)


def minimize(
    objective: Objective, start: Floats, search: Search
) -> tuple[Floats, Floats]:
    """Return for each query the gap with the least value, and this value.

    `objective` maps gaps of shape (queries, m) to values of that shape; along ln(gap)
    it falls and then rises. What is returned has been evaluated, so a bound stays one
    whatever the shape.
    """
    top = min(search.largest, _LARGEST_GAP)
    centre = np.clip(start, _LEAST_GAP, top)
    spread = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
    gaps = np.minimum(centre[:, None] * spread, top)
    values = objective(gaps)
    rows = np.arange(start.size)
    for _ in range(120):
        best = values.argmin(axis=1)
        moving = (best == 0) & (gaps[:, 0] > _LEAST_GAP)
        moving |= (best == 4) & (gaps[:, 4] < top)
        if not np.any(moving):
            break
        centre = np.where(moving, gaps[rows, best], centre)
        gaps = np.minimum(centre[:, None] * spread, top)
        values = objective(gaps)
    best = values.argmin(axis=1)
    low = gaps[rows, np.maximum(best - 1, 0)]
    high = gaps[rows, np.minimum(best + 1, 4)]
    found = gaps[rows, best], values[rows, best]
    return _narrow(objective, low, high, *found, search.smooth)


def _narrow(
    objective: Objective,
    low: Floats,
    high: Floats,
    gap: Floats,
    value: Floats,
    smooth: bool,
) -> tuple[Floats, Floats]:
    """Look at sections of the bracket, then near the vertex of a parabola.

    Where the least value is at an end of the points looked at, the bracket that is
    known to hold it is cut into sections instead; so it is where a bound has kinks.
    """
    rows, shares = np.arange(gap.size), np.linspace(0, 1, _SECTION)
    safe_low, safe_high = low, high
    for _ in range(_ROUNDS if smooth else 3 * _ROUNDS):
        gaps = low[:, None] * ((high / low) ** shares.reshape(-1, 1)).T
        gaps = np.clip(gaps, low[:, None], high[:, None])
        values = objective(gaps)
        best = values.argmin(axis=1)
        gap, value = _better(gap, value, gaps[rows, best], values[rows, best])
        middle = np.clip(best, 1, _SECTION - 2)
        left, right = gaps[rows, middle - 1], gaps[rows, middle + 1]
        inside = best == middle
        vertex = _vertex(gaps, values, middle)
        near = _is_parabola(values, middle) if smooth else right <= left * _FINEST
        if np.all(inside & near):
            break
        inner = gaps[rows, middle]
        safe_low = np.where(inside, left, np.where(best == 0, safe_low, inner))
        safe_high = np.where(inside, right, np.where(best == 0, inner, safe_high))
        width = (right / left) ** (0.05 if smooth else 1.0)
        low = np.where(inside, np.maximum(vertex / width, left), safe_low)
        high = np.where(inside, np.minimum(vertex * width, right), safe_high)
    return _better(gap, value, vertex, objective(vertex[:, None])[:, 0])


def _is_parabola(values: Floats, middle: Floats) -> Floats:
    """Return whether the vertex through three neighbours has nearly the least value.

    The vertex is wrong by up to a sixth of third over second difference, in units of
    the spacing, and the value by the square of that times half the second difference.
    The third may vanish by symmetry: the fourth, which says how it changes, is added.
    """
    rows, place = np.arange(len(values)), middle.astype(int)
    first = np.clip(place - 2, 0, _SECTION - 5)
    differences = np.diff(values, axis=1)
    seconds = np.diff(differences, axis=1)
    thirds = np.diff(seconds, axis=1)
    fourth = np.abs(np.diff(thirds, axis=1)[rows, first])
    third = np.maximum(np.abs(thirds[rows, first]), np.abs(thirds[rows, first + 1]))
    f, second = values[rows, place], seconds[rows, place - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        wrong = np.minimum((third + fourth) / (6 * np.abs(second)), 1.0)
        loss = wrong * wrong * np.abs(second) / 2
    flat = np.abs(second) <= 1e-14 * np.abs(f)
    return np.asarray(flat | (loss <= _VALUE * np.abs(f)))


def _better(
    gap: Floats, value: Floats, other_gap: Floats, other_value: Floats
) -> tuple[Floats, Floats]:
    take = other_value < value
    return np.where(take, other_gap, gap), np.where(take, other_value, value)


def _vertex(gaps: Floats, values: Floats, middle: Floats) -> Floats:
    """Return where the parabola through three neighbours has its least value."""
    rows, place = np.arange(len(gaps)), middle.astype(int)
    x0, x1, x2 = (gaps[rows, place + k] for k in (-1, 0, 1))
    f0, f1, f2 = (values[rows, place + k] for k in (-1, 0, 1))
    left, right = np.log(x1 / x0), np.log(x2 / x1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        fall, rise = (f0 - f1) / left, (f2 - f1) / right
        shift = (right * fall - left * rise) / (2 * (fall + rise))
        moved = x1 * np.exp(np.clip(shift, -left, right))
    return np.asarray(np.where(np.isfinite(moved), moved, x1))


def epsilon_at_order(gap: Floats, moment: Floats, log_delta: Floats) -> Floats:
    """Return the least epsilon that one bound K(gap) <= moment implies."""
    log_w0 = np.zeros_like(gap)
    best, step = epsilon_at(gap, moment, log_delta, log_w0)
    found = best
    for _ in range(8):
        log_w0 = next_log_w0(gap, step, found, log_delta, log_w0)
        if not np.any(log_w0):
            break
        found, step = epsilon_at(gap, moment, log_delta, log_w0)
        settled = found >= best * (1 - 1e-13)
        best = np.minimum(best, found)
        if settled.all():
            break
    return best


def log_delta_at_order(gap: Floats, moment: Floats, epsilon: Floats) -> Floats:
    """Return the least ln(delta) that one bound K(gap) <= moment implies."""
    log_w0 = np.full_like(gap, -1e-3)
    best, step = log_delta_at(gap, moment, epsilon, log_w0)
    found = best
    for _ in range(30):
        log_w0 = next_log_w0(gap, step, epsilon, found, log_w0)
        found, step = log_delta_at(gap, moment, epsilon, log_w0)
        best = np.minimum(best, found)
    return best
