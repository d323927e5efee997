"""Sums of only zero-concentrated bounds: epsilon without arrays."""

from __future__ import annotations

import math

from fastdp.accounting._renyi.conversion import epsilon_at_order, log_expm1

#: Stop a search when its next step is this share of the gap: the loss of epsilon is the
#: square of it.
_CLOSE = 1e-5
_STEPS = 20
#: Within this range of rho, no intermediate result leaves the range of doubles.
_LEAST_RHO, _LARGEST_RHO = 1e-60, 1e60
#: Leave smaller reaches t r to the search over orders.
_LEAST_REACH = 4.0


class Line:
    """K(t) = t (xi + rho (1 + t)): the bound at the best gap.

    The search starts at the gap of the last reading. For small t r, the search over
    arrays is used instead.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None  # a gap, and rho there

    def epsilon(self, rho: float, xi: float, log_delta: float) -> float | None:
        """Return the least epsilon at ln(delta), rounded up; None if not found.

        Parameters
        ----------
        rho, xi : float
            Rounded up, including the rounding of K.
        log_delta : float
            < 0, rounded down.
        """
        if not _LEAST_RHO < rho < _LARGEST_RHO:
            return None
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
    odds = log_expm1(moment) - math.log1p(gap) - log_delta
    if not _LEAST_REACH <= odds < math.inf:
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
