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

One reading evaluates a few of these in plain floats; small arrays would take ten times
as long.
"""

from __future__ import annotations

import functools
import math

from fastdp.accounting._series import (
    bernoulli_coefficients,
    gauss_legendre,
    scalar_exp_remainder,
)

#: Relative allowance for rounding that the slop of the logarithms does not cover.
_EXCESS = 6e-14
#: Stop a search when its next step is this share of the gap: the loss of epsilon is the
#: square of it.
_CLOSE = 1e-5
_CLOSE_W0 = 3e-7
_STEPS = 20
#: A gain of epsilon by a better w0 that is not worth a search, and one that would
#: move the best gap.
_SMALL_GAIN, _LARGE_GAIN = 3e-10, 1e-7
#: From here on t r is so large that the differences of psi need no care.
_WIDE_REACH = 4.0
#: Do not search for a relative gain of delta below this.
_NO_GAIN = 1e-13
#: Coefficients of psi' in powers of u^2, the highest first.
_BERNOULLI = bernoulli_coefficients()[::-1]


def log_expm1(x: float) -> float:
    """Return ln(exp(x) - 1) for x >= 0."""
    if x >= 1:
        return x + math.log1p(-math.exp(-x))
    return math.log(math.expm1(x)) if x > 0 else -math.inf


def _log_excess(gap: float, moment: float, log_w0: float) -> float:
    """Return ln(exp K - a w0^t + t w0^a) rounded up."""
    result = log_expm1(moment)
    if log_w0 != 0:
        more = gap * scalar_exp_remainder((1 + gap) * log_w0)
        less = (1 + gap) * scalar_exp_remainder(gap * log_w0)
        rest = max(more - less, 0.0) + 1e-15 * (more + less)
        if rest > 0:
            other = math.log(rest)
            high, low = max(result, other), min(result, other)
            result = high + math.log1p(math.exp(low - high))
    return result if result == -math.inf else result + 4e-16 * abs(result)


def _psi_step(low: float, gap: float) -> float:
    """Return psi(low + gap) - psi(low), psi(x) = ln(sinh(x/2)/(x/2)), low >= 0."""
    if low >= 40:
        return gap / 2 - math.log1p(gap / low)
    if low >= _WIDE_REACH and gap >= 1e-3:
        far = gap / 2 - math.log1p(gap / low)
        return far + math.log1p(-math.exp(-low - gap)) - math.log1p(-math.exp(-low))
    if gap <= 1:
        places = zip(*_gauss(), strict=True)
        return gap * sum(w * psi_slope(low + gap * x) for x, w in places)
    high, low = low + gap, max(low, 1e-300)
    shrink = math.expm1(-high) / math.expm1(-low)
    return gap / 2 + math.log(shrink * (low / high))


def psi_slope(u: float) -> float:
    """Return psi'(u) = coth(u/2)/2 - 1/u for u >= 0."""
    if u >= 2:
        return 0.5 / math.tanh(u / 2) - 1 / u
    square, series = u * u, 0.0
    for coefficient in _BERNOULLI:
        series = series * square + coefficient
    return series * u


@functools.cache
def _gauss() -> tuple[list[float], list[float]]:
    nodes, weights = gauss_legendre(8)
    return nodes.tolist(), weights.tolist()


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
    if step == math.inf:
        return math.inf, math.inf
    value = (step / 2 + _psi_step(reach, step)) * (1 + _EXCESS)
    return max(value + log_w0 * (1 - 1e-15), 0.0), step


def epsilon_at_order(gap: float, moment: float, log_delta: float) -> tuple[float, bool]:
    """Return the least epsilon that K(gap) <= moment implies.

    Also return whether the best gap for w0 = 1 is still the best gap.
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


def log_delta_at_order(gap: float, moment: float, epsilon: float) -> float:
    """Return the least ln(delta) that K(gap) <= moment implies; it may exceed 0.

    For each r, epsilon determines w0, and w0 determines delta. At the best r, this w0
    is the best w0 for this delta.
    """
    if moment <= 0 or moment == math.inf:
        return moment if moment == math.inf else -math.inf
    r = _step_at(gap, epsilon)
    best, lack = _log_delta_by(gap, moment, epsilon, r)
    if best < math.inf and lack * (1 + gap) * math.exp(-gap * r) < _NO_GAIN:
        return best
    ends = [(r, lack), (math.inf, 0.0)]
    side = 0
    for _ in range(2 * _STEPS):
        (low, low_lack), (high, high_lack) = ends
        if high == math.inf:
            r += 1.5 * max(lack, 1e-3 * r)
        else:
            r = low + (high - low) * low_lack / (low_lack - high_lack)
        found, lack = _log_delta_by(gap, moment, epsilon, r)
        if not math.isfinite(found):
            break
        best = min(best, found)
        # delta loses about the square of this
        if abs(lack) * (1 + gap) <= _CLOSE_W0 or high - low <= 1e-15 * low:
            break
        # An end that stays counts half, so that the chord comes close from both sides.
        last, side = side, 0 if lack > 0 else 1
        if last == side:
            ends[1 - side] = ends[1 - side][0], ends[1 - side][1] / 2
        ends[side] = r, lack
    return best


def _log_delta_by(
    gap: float, moment: float, epsilon: float, r: float
) -> tuple[float, float]:
    """Return ln(delta) rounded up for r, and the excess of ln(w0) over the best."""
    if r <= 0:  # w0 = 1 gives no bound at epsilon 0
        return math.inf, 2.0
    value = (r / 2 + _psi_step(gap * r, r)) * (1 + _EXCESS)
    log_w0 = min(epsilon - value, 0.0)
    gain = _log_excess(gap, moment, log_w0)
    less = math.log1p(gap) + log_expm1(gap * r * (1 - 1e-15)) + gap * log_w0
    if gain == -math.inf or not math.isfinite(less):
        return (-math.inf if less > -math.inf else math.inf), 0.0
    parts = abs(gain) + abs(less) + 2 * abs(gap * log_w0)
    found = gain - less + 1e-15 * parts
    top = math.expm1(min(epsilon - log_w0 - r, 0.0))
    drop = math.exp(min(found, 0.0)) * math.expm1(-r) / top if top < 0 else 0.0
    return found, min(log_w0 - math.log1p(-min(drop, 1 - 1e-15)), 2.0)


def _step_at(gap: float, target: float) -> float:
    """Return r with r/2 + psi((1+t) r) - psi(t r) <= target, close to equality."""
    r = min(2 * target, target + math.log1p(1 / gap))
    for _ in range(_STEPS):
        value = r / 2 + _psi_step(gap * r, r)
        slope = 0.5 + (1 + gap) * psi_slope((1 + gap) * r) - gap * psi_slope(gap * r)
        move = (value - target) / max(slope, 0.25)
        r = min(2 * target, max(target, r - move))
        if abs(move) <= 1e-14 * r:
            break
    return r * (1 - 3 * _EXCESS)
