"""The Gaussian profile for whole arrays: ln delta(epsilon) and its inverse.

With a = epsilon/mu - mu/2, b = a + mu and m the Mills ratio,
delta = phi(a) (m(a) - m(b)). Where mu is small beside a the difference is taken from
the derivatives of m at the middle, which are of one sign after folding:
m(a) - m(b) = 2 sum over odd k of (mu/2)^k m_k/k!, m_k = (-1)^k m^(k)(epsilon/mu) > 0.
The single values of `_gaussian` take exact rationals and are somewhat slower.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fastdp._special import LOG_SQRT_2PI, SQRT_HALF_PI
from fastdp.accounting._series import Floats
from fastdp.exceptions import DTypeError

#: Arrays are worked on in pieces that stay in the cache.
_BLOCK = 1 << 14
#: Below this share of max(1, a) the derivatives are used.
_NARROW = 0.02
_ASYMPTOTIC_FROM = 15.0
_TERMS = 14
#: The polynomial behind the Mills ratio, and the point that maps to its middle.
_DEGREE, _POLE = 28, 3.5
_ROOT_HALF = math.sqrt(0.5)
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
        logs = _block(epsilon[part], mu if mu.size == 1 else mu[part])[0]
        result[part] = exp_up(logs)
    return result


def _parts(size: int) -> Iterator[slice]:
    return (slice(i, i + _BLOCK) for i in range(0, size, _BLOCK))


def _block(epsilon: Floats, mu: Floats) -> tuple[Floats, Floats, Floats]:
    """Return ln(delta) rounded up, m(b), and m(a) - m(b) or what stands for it."""
    centre, half = epsilon / mu, mu / 2
    a, b = centre - half, centre + half
    upper = mills(b)
    gap = mills(np.maximum(a, -1.0))
    gap -= upper
    narrow = mu < _NARROW * np.maximum(a, 1.0)
    if narrow.any():
        gap[narrow] = _narrow(centre[narrow], np.broadcast_to(mu, a.shape)[narrow])
    value = np.log(gap)
    value -= a * a / 2
    value -= LOG_SQRT_2PI
    left = a < -1
    if left.any():
        value[left], upper[left], gap[left] = _likely(a[left], upper[left])
    slop = _PLACE * (1 + max(-a.min(), a.max())) * b.max()
    if slop > _FLAT / 4:
        slop = _PLACE * (1 + np.abs(a)) * b
    value *= 1 - _RELATIVE  # the logarithm is <= 0: this raises it
    value += _FLAT + slop
    return np.minimum(value, 0.0), upper, gap


def exp_up(logs: Floats) -> Floats:
    """Return the exponentials of logarithms <= 0, rounded up, at most 1."""
    values: Floats = np.asarray(np.exp(logs))
    values *= 1 + 1e-15
    tiny = values < 1e-300  # where a product no longer rounds up
    if tiny.any():
        values[tiny] = np.nextafter(values[tiny], 1)
    return np.asarray(np.minimum(values, 1.0, out=values))


def reals(name: str, values: npt.ArrayLike) -> Floats:
    """Return `values` as an array of doubles; anything but numbers is refused."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise DTypeError(f"{name} must be real numbers, got {array.dtype}")
    return np.asarray(array, dtype=np.float64)


def mills(x: Floats) -> Floats:
    """Return the Mills ratio Phi(-x)/phi(x) for x >= -1; relative error 4e-15."""
    inverse = 1 / (x + (1 + _POLE))
    t = inverse * (-2 * _POLE)
    t += 1
    coefficients = _mills_polynomial()
    total = np.full_like(t, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total *= t
        total += coefficient
    total *= inverse
    return total


@functools.cache
def _mills_polynomial() -> tuple[float, ...]:
    """Return P with m(x) = P((y - k)/(y + k))/(y + k), y = x + 1, on y >= 0.

    Interpolation at Chebyshev points; the coefficients fall fast enough for powers.
    """
    from scipy.special import erfcx

    size = _DEGREE + 1
    odd = 2 * np.arange(size) + 1
    y = _POLE / np.tan(odd * (np.pi / (4 * size))) ** 2
    values = SQRT_HALF_PI * erfcx((y - 1) * _ROOT_HALF) * (y + _POLE)
    # Angles are reduced as integers, so that the cosines keep all digits.
    turns = np.arange(size)[:, None] * odd % (4 * size)
    series = np.cos(turns * (np.pi / (2 * size))) @ values * (2 / size)
    series[0] /= 2
    return tuple(np.polynomial.chebyshev.cheb2poly(series).tolist())


def _likely(a: Floats, upper: Floats) -> tuple[Floats, Floats, Floats]:
    """Return ln(1 - (1 - delta)) for a < -1, where delta is large, phi m(b) and it."""
    from scipy.special import erfcx

    density = np.exp(-a * a / 2 - LOG_SQRT_2PI)
    outside = density * (SQRT_HALF_PI * erfcx(-a * _ROOT_HALF) + upper)
    inside = np.maximum(1 - outside, 1e-300)
    logs = np.log1p(-np.minimum(outside, 1 - 1e-16))
    return logs, density * upper, inside


def _narrow(centre: Floats, mu: Floats) -> Floats:
    """Return m(centre - mu/2) - m(centre + mu/2) for small mu."""
    first, third, fifth, seventh = _odd_moments(centre)
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
    """Return epsilon >= 0 with ln(delta) <= log_target < 0, next to equality.

    Newton's method from above: ln(delta) is concave in epsilon, so it stays above.
    What is returned has been checked against the rounded profile.
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
        moved = value * (1 + nudge)
        met = _block(moved, mu)[0] <= target
        value = np.where(met, value, moved)
        if met.all():
            return value
    return np.where(_block(value, mu)[0] <= target, value, safe)
