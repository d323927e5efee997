"""One reading of a Renyi bound in plain floats; small arrays take ten times as long.

The formulas are those of `_renyi_conversion`, which says where they come from.
"""

from __future__ import annotations

import math

import numpy as np

from fastdp.accounting._renyi_conversion import EPSILON_EXCESS
from fastdp.accounting._series import scalar_exp_remainder, sinh_ratio_step

#: A search has come close enough when its next step is this share of the gap: the
#: loss of epsilon is the square of it.
_CLOSE = 1e-5
_STEPS = 20
#: A gain of epsilon by a better w0 that is not worth a search, and one that would
#: move the best gap.
_SMALL_GAIN, _LARGE_GAIN = 3e-10, 1e-7
#: From here on t r is so large that the differences of psi need no care.
_WIDE_REACH = 4.0


def _log_expm1(x: float) -> float:
    """Return ln(exp(x) - 1) for x >= 0."""
    if x >= 1:
        return x + math.log1p(-math.exp(-x))
    return math.log(math.expm1(x)) if x > 0 else -math.inf


def _log_excess(gap: float, moment: float, log_w0: float) -> float:
    """Return ln(exp K - a w0^t + t w0^a) rounded up."""
    result = _log_expm1(moment)
    if log_w0 != 0:
        more = gap * scalar_exp_remainder((1 + gap) * log_w0)
        less = (1 + gap) * scalar_exp_remainder(gap * log_w0)
        rest = max(more - less, 0.0) + 1e-15 * (more + less)
        if rest > 0:
            other = math.log(rest)
            high, low = max(result, other), min(result, other)
            result = high + math.log1p(math.exp(low - high))
    return result + 4e-16 * abs(result)


def _psi_step(low: float, gap: float) -> float:
    """Return psi(low + gap) - psi(low), psi(x) = ln(sinh(x/2)/(x/2))."""
    if low < _WIDE_REACH or (low < 40 and gap < 1e-3):
        return float(sinh_ratio_step(np.array([low]), np.array([gap]))[0])
    far = gap / 2 - math.log1p(gap / low)
    if low >= 40:
        return far
    return far + math.log1p(-math.exp(-low - gap)) - math.log1p(-math.exp(-low))


def epsilon_at(
    gap: float, moment: float, log_delta: float, log_w0: float = 0.0
) -> tuple[float, float]:
    """Return epsilon >= 0 rounded up, and r, for the bound `moment` of K(gap)."""
    gain = _log_excess(gap, moment, log_w0) - math.log1p(gap)
    odds = gain - log_delta - gap * log_w0
    if not math.isfinite(odds):
        return (0.0, 0.0) if odds == -math.inf else (math.inf, math.inf)
    odds += 5e-16 * (abs(gain) + abs(log_delta) + abs(gap * log_w0))
    reach = max(odds, 0.0) + math.log1p(math.exp(-abs(odds)))
    step = reach / gap
    value = (step / 2 + _psi_step(reach, step)) * (1 + EPSILON_EXCESS)
    return max(value + log_w0 * (1 - 1e-15), 0.0), step


def epsilon_at_order(gap: float, moment: float, log_delta: float) -> tuple[float, bool]:
    """Return the least epsilon that K(gap) <= moment implies.

    Also whether the gap that is best for w0 = 1 is the best one still.
    """
    plain, step = epsilon_at(gap, moment, log_delta)
    best = plain
    if not math.isfinite(plain):
        return plain, True
    log_w0, found = 0.0, plain
    for _ in range(8):
        top = math.expm1(min(found - log_w0 - step, 0.0))
        if top == 0:
            break
        drop = min(math.exp(log_delta) * math.expm1(-step) / top, 0.999)
        gain = drop * (1 + gap) * math.exp(-gap * step)
        if gain < _SMALL_GAIN * found:
            break
        log_w0 = math.log1p(-drop)
        found, step = epsilon_at(gap, moment, log_delta, log_w0)
        if found >= best * (1 - 1e-13):
            break
        best = found
        if gain < _LARGE_GAIN * found:  # a second step would gain its square
            break
    return best, best >= plain * (1 - _LARGE_GAIN)


class Line:
    """K(t) = t (xi + rho (1 + t)): the bound at the best gap, from that of the last.

    Not for the smallest reaches t r, where the search over arrays is used.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None  # a gap, and rho there

    def epsilon(self, rho: float, xi: float, log_delta: float) -> float | None:
        """Return the least epsilon at ln(delta), rounded up; None if not found.

        Parameters
        ----------
        rho, xi : float
            Rounded up, rounding of K included; rho > 0.
        log_delta : float
            < 0, rounded down.
        """
        last = self._last
        if last is None:
            gap = _first_gap(rho, log_delta)
        else:  # it falls as 1/sqrt(rho), nearly
            gap = last[0] * math.sqrt(last[1] / rho)
        old_gap, old_slope = math.nan, math.nan
        for _ in range(_STEPS):
            slope = _slope(gap, rho, xi, log_delta)
            # of rho (1 + t) - ln(delta)/t near its least value, until two are known
            curvature = 2 * rho / gap
            if (slope - old_slope) * (gap - old_gap) > 0:
                curvature = (slope - old_slope) / (gap - old_gap)
            move = -slope / curvature
            if math.isnan(move):
                return None
            old_gap, old_slope = gap, slope
            gap += max(-gap / 2, min(gap, move))
            if abs(move) <= _CLOSE * gap:
                break
        else:
            return None
        self._last = gap, rho
        moment = gap * (rho * (1 + gap) + xi)
        value, settled = epsilon_at_order(gap, moment, log_delta)
        return value if settled and math.isfinite(value) else None


def _first_gap(rho: float, log_delta: float) -> float:
    """Return the gap with rho t^2 + ln(1 + t) = -ln(delta), roughly."""
    gap = math.sqrt(-log_delta / rho)
    for _ in range(3):
        excess = rho * gap * gap + math.log1p(gap) + log_delta
        gap = max(gap / 4, gap - excess / (2 * rho * gap + 1 / (1 + gap)))
    return gap


def _slope(gap: float, rho: float, xi: float, log_delta: float) -> float:
    """Return d epsilon/d gap for w0 = 1; NaN where t r is small."""
    moment = gap * (rho * (1 + gap) + xi)
    odds = _log_expm1(moment) - math.log1p(gap) - log_delta
    if not _WIDE_REACH <= odds < math.inf:
        return math.nan
    reach = odds + math.log1p(math.exp(-odds))  # s = t r
    rise = (rho * (1 + 2 * gap) + xi) / -math.expm1(-moment) - 1 / (1 + gap)
    rise *= -math.expm1(-reach)  # s'
    step = reach / gap
    high = reach + step
    steeper = (rise - step) / gap  # r'
    # psi'(u) = 1/2 + 1/(e^u - 1) - 1/u
    low_tail, high_tail = 1 / math.expm1(min(reach, 700)), math.exp(-min(high, 700))
    bend = step / (reach * high) - low_tail + high_tail / (1 - high_tail)
    return rise * bend + steeper * (1 - 1 / high + high_tail / (1 - high_tail))
