"""The Gaussian profile for whole arrays: delta(epsilon), its logarithm, its inverse.

With a = epsilon/mu - mu/2, b = a + mu and x the scaled complementary error function,
delta = exp(-a^2/2) (x(a/sqrt 2) - x(b/sqrt 2))/2. If mu is small compared with a, the
difference is computed from derivatives of the Mills ratio m at the middle, which have
one sign after folding: m(a) - m(b) = 2 sum over odd k of (mu/2)^k m_k/k!, m_k = (-1)^k
m^(k)(epsilon/mu) > 0. The scalar functions of `_gaussian` accept exact rationals and
are slower.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fastdp._special import SQRT_HALF_PI
from fastdp.accounting._series import Floats, gauss_legendre
from fastdp.exceptions import DTypeError

#: Process arrays in pieces that fit the cache.
_BLOCK = 1 << 14
#: Below this share of max(1, a) the derivatives are used.
_NARROW = 0.02
_ASYMPTOTIC_FROM = 15.0
_TERMS = 14
_ROOT_HALF, _LOG_2 = math.sqrt(0.5), math.log(2)
#: Up to here 1 - x m(x) keeps thirteen digits.
_SINGLE_UP_TO = 8.0
#: Rounding of ln(delta): flat, relative, and by the size of epsilon/mu + mu/2.
_FLAT, _RELATIVE, _PLACE = 4e-13, 1e-15, 1e-15


def log_delta(epsilon: Floats, mu: Floats) -> Floats:
    """Return ln(delta(epsilon)) rounded up, mu > 0; shapes (n,) and (n,) or (1,)."""
    result = np.empty(epsilon.size)
    for part in _parts(epsilon.size):
        result[part] = _block(epsilon[part], mu if mu.size == 1 else mu[part])[0]
    return result


def delta(epsilon: Floats, mu: Floats) -> Floats:
    """Return delta(epsilon) rounded up; shapes as for `log_delta`."""
    result = np.empty(epsilon.size)
    for part in _parts(epsilon.size):
        result[part] = _delta(epsilon[part], mu if mu.size == 1 else mu[part])
    return result


def _parts(size: int) -> Iterator[slice]:
    return (slice(i, i + _BLOCK) for i in range(0, size, _BLOCK))


def _difference(epsilon: Floats, mu: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return a/sqrt 2, x(b/sqrt 2), the difference, and bounds of the places' rounding.

    The difference is for max(a, -1).
    """
    from scipy.special import erfcx

    center, half = epsilon * (_ROOT_HALF / mu), mu * (_ROOT_HALF / 2)
    low, high = center - half, center + half
    least, most = float(low.min()), float(low.max())
    slop = np.asarray(2 * _PLACE * (1 + max(-least, most)) * float(high.max()))
    if slop > _FLAT / 4:
        slop = 2 * _PLACE * (1 + np.abs(low)) * high
    upper = erfcx(high, out=high)
    gap = erfcx(low if least > -_ROOT_HALF else np.maximum(low, -_ROOT_HALF))
    gap -= upper
    if float(mu.min()) < _NARROW * max(1.0, 2 * most):
        wide = np.broadcast_to(mu, low.shape)
        narrow = wide < _NARROW * np.maximum(low / _ROOT_HALF, 1.0)
        if narrow.any():
            place = center[narrow] / _ROOT_HALF
            gap[narrow] = _narrow(place, wide[narrow]) / SQRT_HALF_PI
    return low, upper, gap, slop


def _block(epsilon: Floats, mu: Floats) -> tuple[Floats, Floats, Floats]:
    """Return ln(delta) rounded up, and two parts whose ratio gives its derivative.

    The parts are x(b/sqrt 2) and the difference, or equivalent terms for a large delta.
    """
    low, upper, gap, slop = _difference(epsilon, mu)
    value = np.log(gap)
    value -= low * low
    value -= _LOG_2
    left = low < -_ROOT_HALF
    if left.any():
        density, gap[left] = _likely(low[left], upper[left])
        upper[left] *= density
        value[left] = np.log(gap[left])
    value *= 1 - _RELATIVE  # the logarithm is <= 0: this raises it
    value += _FLAT + slop
    return np.minimum(value, 0.0), upper, gap


def _delta(epsilon: Floats, mu: Floats) -> Floats:
    """Return delta rounded up."""
    low, upper, gap, slop = _difference(epsilon, mu)
    square = low * low
    value = np.negative(square, out=square if slop.ndim == 0 else None)
    value = np.exp(value, out=value)
    value *= gap
    left = low < -_ROOT_HALF
    if left.any():
        value[left] = 2 * _likely(low[left], upper[left])[1]
    value *= 0.5 * (1 + _FLAT + slop)
    return _raised(value)


def _raised(values: Floats) -> Floats:
    """Raise values by a few units in the last place, to at most 1, in place."""
    values *= 1 + 1e-15
    if float(values.min(initial=1.0)) < 1e-300:  # where a product need not round up
        tiny = values < 1e-300
        values[tiny] = np.nextafter(values[tiny], 1)
    return np.asarray(np.minimum(values, 1.0, out=values))


def reals(name: str, values: npt.ArrayLike) -> Floats:
    """Return `values` as an array of doubles; refuse everything except numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise DTypeError(f"{name} must be real numbers, got {array.dtype}")
    return np.asarray(array, dtype=np.float64)


def _likely(low: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return exp(-a^2/2)/2, and delta as 1 - (1 - delta), for a < -1."""
    from scipy.special import erfcx

    density = np.exp(-low * low) / 2
    outside = density * (erfcx(-low) + upper)
    return density, np.maximum(1 - outside, 1e-300)


def _narrow(center: Floats, mu: Floats) -> Floats:
    """Return m(center - mu/2) - m(center + mu/2) for small mu."""
    first, third, fifth, seventh = _odd_moments(center)
    square = mu * mu
    total = third / 24 + square * (fifth / 1920 + square * seventh / 322560)
    return np.asarray(mu * (first + square * total))


def _odd_moments(c: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the integrals of u^k exp(-c u - u^2/2) over u > 0, k = 1, 3, 5, 7."""
    from scipy.special import erfcx

    near = np.minimum(c, _ASYMPTOTIC_FROM)
    moments = [SQRT_HALF_PI * erfcx(near * _ROOT_HALF)]
    moments.append(1 - near * moments[0])
    for k in range(1, 7):
        moments.append(k * moments[k - 1] - near * moments[k])
    far = np.maximum(c, _ASYMPTOTIC_FROM)
    is_far = c >= _ASYMPTOTIC_FROM
    first, third, fifth, seventh = (
        np.where(is_far, _asymptotic(far, k), np.maximum(moments[k], 0.0))
        for k in (1, 3, 5, 7)
    )
    return first, third, fifth, seventh


def _asymptotic(c: Floats, k: int) -> Floats:
    """Return sum over j of (-1)^j (k + 2j)!/(2^j j!) c^-(k + 1 + 2j)."""
    inverse = 1 / (c * c)
    total = np.ones_like(c)
    for j in range(_TERMS, 0, -1):
        ratio = (k + 2 * j) * (k + 2 * j - 1) / (2 * j)
        total = 1 - ratio * inverse * total
    return np.asarray(math.factorial(k) * total * inverse ** ((k + 1) // 2))


def epsilon(log_target: Floats, mu: Floats) -> Floats:
    """Return epsilon >= 0 with ln(delta) <= log_target < 0, close to equality.

    Newton's method from above: ln(delta) is concave in epsilon, so it stays above.
    The result is checked against the rounded profile.
    """
    result = np.empty(log_target.size)
    for part in _parts(log_target.size):
        result[part] = _invert(log_target[part], mu[part])
    return result


def _invert(target: Floats, mu: Floats) -> Floats:
    # delta <= exp(-a^2/2)
    safe = mu * (np.sqrt(-2 * target) * (1 + 1e-12) + mu / 2) * (1 + 1e-12)
    value = safe
    for _ in range(40):
        logs, upper, gap = _block(value, mu)
        step = (logs - target) * gap / upper  # d ln(delta)/d epsilon = -m(b)/gap
        value = np.maximum(value + step, 0.0)
        # The next step would be the square of this one.
        if np.all(np.abs(step) <= 1e-9 * value):
            break
    for nudge in (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11):
        # Relatively for the rounding of epsilon, by the slope for that of ln(delta).
        moved = value + nudge * (value + gap / upper)
        met = _block(moved, mu)[0] <= target
        value = np.where(met, value, moved)
        if met.all():
            return value
    return np.where(_block(value, mu)[0] <= target, value, safe)


def epsilon_from(log_target: float, mu: float, start: float) -> float:
    """Return one epsilon like `epsilon`, by Newton's method from a guess.

    ln(delta) is concave, so every step after the first starts from above.
    """
    # delta <= exp(-a^2/2)
    safe = mu * (math.sqrt(-2 * log_target) + mu / 2) * (1 + 1e-12)
    value = start
    for _ in range(60):
        log, rate = _single(value, mu)
        # If delta is nearly 1, its slope is of no use.
        step = (log - log_target) / rate if rate > 0 else safe - value
        step = max(-value, min(safe - value, step))
        value += step
        if abs(step) <= 1e-8 * value:  # the next step would be the square of this
            break
    for nudge in (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11):
        moved = value + nudge * (value + 1 / rate if rate > 0 else value)
        if _single(moved, mu)[0] <= log_target:
            return moved
    return float(epsilon(np.array([log_target]), np.array([mu]))[0])


def _single(epsilon: float, mu: float) -> tuple[float, float]:
    """Return ln(delta) rounded up, and -d ln(delta)/d epsilon."""
    erfcx = _erfcx()
    low = epsilon / mu - mu / 2
    high, narrow = low + mu, mu < _NARROW * max(low, 1.0)
    if low >= _SINGLE_UP_TO and narrow:
        logs, parts, gaps = _block(np.array([epsilon]), np.array([mu]))
        return float(logs[0]), float(parts[0] / gaps[0])
    upper = float(erfcx(high * _ROOT_HALF))
    if low < -1:
        density = math.exp(-low * low / 2) / 2
        upper *= density
        gap = 1 - density * float(erfcx(-low * _ROOT_HALF)) - upper
        gap = max(gap, 1e-300)
        value = math.log(gap)
    else:
        if narrow:  # the integral of -m', which is positive
            nodes, weights = gauss_legendre(8)
            x = low + mu * nodes
            slope = 1 / SQRT_HALF_PI - x * erfcx(x * _ROOT_HALF)
            gap = mu * float(weights @ slope)
        else:
            gap = float(erfcx(low * _ROOT_HALF)) - upper
        value = math.log(gap) - low * low / 2 - _LOG_2
    slop = _FLAT + 2 * _PLACE * (1 + abs(low)) * high
    return min(value * (1 - _RELATIVE) + slop, 0.0), upper / gap


@functools.cache
def _erfcx() -> Callable[..., Any]:
    """Return scipy's function, imported once: importing costs as much as calling it."""
    from scipy.special import erfcx

    function: Callable[..., Any] = erfcx
    return function
