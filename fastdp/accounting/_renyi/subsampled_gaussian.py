"""Renyi curve of the Poisson-subsampled Gaussian mechanism at every real order.

With order 1 + t, c = sensitivity/sigma, u(y) = q (exp(c y - c^2/2) - 1), v = ln(1 + u)
and phi the normal density, the removal of a record gives

    exp K(t) - 1 = int phi(y) (1 + u) [g(t v) + t g(-v)] dy,   g(x) = e^x - 1 - x,

and its addition int phi(y) [g(-t v) + t g(v)] dy. Both integrands are positive, so
their sums lose no digits, and both are analytic for |Im y| < pi/c, so the trapezoidal
rule converges geometrically with a known bound. This bound, bounds on both tails and
the rounding of every term are added, so the result is an upper bound on K. The proofs,
and that removal is never better than addition, are in docs/proofs/rdp.md, section 3.
"""

from __future__ import annotations

import abc
import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from fastdp._validate import float_down, float_up
from fastdp.accounting._numeric import product
from fastdp.accounting._renyi.curves import EXCESS, Curve
from fastdp.accounting._series import (
    LARGE,
    NEAR,
    Floats,
    exp_remainder,
    near_exp_remainder,
    scalar_exp_remainder,
    softplus,
)

#: Discretization and tails may each add about exp(-_AIM) of the integral.
_AIM = 38.0
#: Beyond this ratio, use the bound without sampling: exponentials would overflow.
_LARGEST_NOISE_RATIO = 35.0
_MOST_NODES = 400_000
#: Gaps within this factor share their nodes.
_TOGETHER = 8
#: Elements of the table of terms that are worked on at a time.
_BLOCK = 1 << 18
_LOG_SQRT_2PI = 0.9189385332046727
#: Added to cover terms that underflow.
_LEAST = 1e-300


@dataclass(frozen=True)
class SampledGaussianCurve(Curve):
    """Gaussian noise on a sample; gaps of similar size share the nodes of a sum.

    Parameters
    ----------
    ratio : Fraction
        sensitivity/sigma, > 0.
    rate : Fraction
        Sampling probability, > 0 and < 1.
    """

    ratio: Fraction
    rate: Fraction

    def log_moment(self, gap: Floats) -> Floats:
        """Return K(gap) rounded up."""
        c = float_up(self.ratio)
        result = self._simple(gap, gap * (1 + gap) * (c * c / 2) * (1 + EXCESS))
        if c > _LARGEST_NOISE_RATIO or float_down(1 - self.rate) == 0:
            return result
        order, start = np.argsort(gap), 0
        while start < gap.size:
            limit = _TOGETHER * gap[order[start]]
            stop = int(np.searchsorted(gap[order], limit, side="right"))
            chosen = order[start:stop]
            result[chosen] = np.minimum(result[chosen], self._together(gap[chosen]))
            start = stop
        return result

    def _simple(self, gap: Floats, plain: Floats) -> Floats:
        """Return a bound without a sum, from K without sampling."""
        return plain

    @abc.abstractmethod
    def _together(self, gap: Floats) -> Floats:
        """Return K rounded up at gaps within a factor of `_TOGETHER`."""

    @property
    def search_gap(self) -> float:
        """Roughly the gap from which sampling no longer helps: q exp(t c^2/2) = 1."""
        c, q = float(self.ratio), float(self.rate)
        return (1 - 2 * math.log(q)) / (c * c) + 1

    @property
    def trusted_gap(self) -> float:
        """Beyond this gap, the squares of the places make rounding matter."""
        c = float(self.ratio)
        return max(0.0, 36 / c - 1) if c <= _LARGEST_NOISE_RATIO else 0.0


@dataclass(frozen=True)
class SubsampledGaussianCurve(SampledGaussianCurve):
    """Gaussian noise on a Poisson sample; a record is added or removed.

    Parameters
    ----------
    ratio, rate : Fraction
        The same as for `SampledGaussianCurve`.
    addition : bool
        Whether the second dataset has the record; the other order is worse.
    """

    addition: bool = False

    def _simple(self, gap: Floats, plain: Floats) -> Floats:
        rest = float_down(1 - self.rate)
        if not self.addition or rest == 0:
            return plain
        # No loss exceeds -ln(1 - q).
        return np.minimum(plain, gap * (-math.log(rest) * (1 + EXCESS)))

    def _together(self, gap: Floats) -> Floats:
        low, high = float(gap.min()), float(gap.max())
        c, q = float_up(self.ratio), float(self.rate)
        aim = _AIM + 2 * math.log(2 / q) + 2 * math.log(1 + 1 / c)
        aim += math.log(1 + 1 / low) + math.log(2 + 2 * high)
        largest = up_to_power(high)
        key = self.ratio, self.rate, self.addition, largest, math.ceil(aim)
        nodes = _nodes(*key)
        if nodes is None:
            return np.full_like(gap, np.inf)
        step = max(1, _BLOCK // nodes.w.size)
        if step >= gap.size:
            return _log_moment(nodes, gap, self.addition)
        parts = [
            _log_moment(nodes, gap[i : i + step], self.addition)
            for i in range(0, gap.size, step)
        ]
        return np.concatenate(parts)


def up_to_power(value: float) -> float:
    """Return value rounded up to a power of sqrt(2), so that nodes are used again."""
    return math.pow(2.0, math.ceil(2 * math.log2(value)) / 2)


class _Nodes(NamedTuple):
    """Points of the trapezoidal rule, and values that depend only on them.

    The terms of the sum are density (g(t w) + t g(-w)) with w = v for removal, -v for
    addition: the second part is the same for all gaps, apart from the factor t.
    """

    w: Floats
    density: Floats  # step phi(y), times 1 + u for removal
    log_density: Floats
    #: Weights of a term in sums: 1, and two parts of its relative rounding error.
    #: shape (points, 3): 1, y^2 + 2 |v| + 60, |v|
    weights: Floats
    fixed: Floats  # the sums of density g(-w) with each of the weights
    low: float  # ln(1 - q), which v tends to
    q: float
    c: float
    discretisation: float  # relative bound
    outside: float  # mass of a normal law beyond the points on the left
    last: tuple[float, float, float]  # y, v and ln(phi) at the last point


def _places(
    c: float, largest_gap: float, aim: int, addition: bool
) -> tuple[float, float, int, int]:
    """Return the strip's half-width, the step, and the first and the last place."""
    # Powers below 0 need |1 + u| >= 1 - q, so a quarter turn.
    turn = math.pi / 2 if addition else 0.999 * math.pi
    spread = min(math.sqrt(2.0 * aim), turn / c)
    step = 2 * math.pi * spread / (aim + spread * spread / 2)
    margin = math.sqrt(2.0 * aim)
    low = math.floor((-margin - c / 2) / step)
    high = math.ceil(((1 + largest_gap) * c + margin - c / 2) / step)
    return spread, step, low, high


def _log_ratio(rise: Floats, q: float, rest: float) -> Floats:
    """Return v = ln(rest + q e^rise), with all digits near 0, at increasing places."""
    u = q * np.expm1(np.minimum(rise, 30.0))
    v = np.log1p(np.maximum(u, -0.5))
    if u[0] < -0.5:
        v = np.where(u > -0.5, v, np.log(rest + q * np.exp(np.minimum(rise, 0.0))))
    if rise[-1] > 30:
        far = np.searchsorted(rise, 30.0, side="right")
        beyond = rise[far:]
        v[far:] = beyond + math.log(q) + np.log1p(rest / q * np.exp(-beyond))
    return np.asarray(v)


@functools.lru_cache(maxsize=256)
def _nodes(
    ratio: Fraction,
    probability: Fraction,
    addition: bool,
    largest_gap: float,
    aim: int,
) -> _Nodes | None:
    c, q, rest = float_up(ratio), float_up(probability), float_down(1 - probability)
    spread, step, low, high = _places(c, largest_gap, aim, addition)
    if high - low > _MOST_NODES:
        return None
    offset = np.arange(low, high + 1, dtype=np.float64) * step
    y = offset + c / 2
    v = _log_ratio(c * offset, q, rest)
    square = y * y
    log_density = square * -0.5 + (math.log(step) - _LOG_SQRT_2PI)
    log_last = float(log_density[-1]) - math.log(step)
    if not addition:
        log_density += v
    with np.errstate(under="ignore"):
        density = np.exp(log_density)
    size = np.abs(v)
    weights = np.ones((v.size, 3))
    weights[:, 1] = square + 2 * size + 60
    weights[:, 2] = size
    w = -v if addition else v
    exponent = spread * spread / 2 - 2 * math.pi * spread / step
    return _Nodes(
        w=w,
        density=density,
        log_density=log_density,
        weights=weights,
        fixed=product(density * exp_remainder(np.minimum(-w, LARGE)), weights),
        low=math.log(rest),
        q=q,
        c=c,
        discretisation=(2.0 + 1e-8) * math.exp(exponent),
        outside=math.exp(-aim) * (1 + 1e-8),
        last=(float(y[-1]), float(v[-1]), log_last),
    )


def _log_moment(nodes: _Nodes, gap: Floats, addition: bool) -> Floats:
    """Return K rounded up at gaps that the nodes reach, within `_TOGETHER`."""
    w, t = nodes.w, gap[:, None]
    # Where t w > 1 for all gaps, at one end, the parts of g(t w) may be taken apart
    # and are kept times e^-top, as they may be large.
    edge = 1 / float(gap.min())
    if addition:
        size = int(np.searchsorted(-w, -edge))
        far, near = slice(0, size), slice(size, None)
    else:
        start = int(np.searchsorted(w, edge, side="right"))
        far, near = slice(start, None), slice(0, start)
    terms = _remainders(gap, w[near])
    terms *= nodes.density[near]
    sums = product(terms, nodes.weights[near])
    sums += t * nodes.fixed
    top = np.zeros_like(gap)
    if w[far].size:
        x = t * w[far]
        exponent = x + nodes.log_density[far]
        top = np.maximum(exponent.max(axis=1), 0.0)
        exponent -= top[:, None]
        terms = np.exp(exponent)
        x += 1
        terms *= 1 - x * np.exp(1 - x)
        sums *= np.exp(-top)[:, None]
        sums += product(terms, nodes.weights[far])
    # Each term errs relatively by a few units times the size of its exponents.
    total, rounding = sums[:, 0], 2.3e-16 * (sums[:, 1] + gap * sums[:, 2])
    total = total + rounding + _omitted(nodes, gap, addition, total, top) + _LEAST
    log_total = top + np.log(total)
    return softplus(log_total + 4e-16 * np.abs(log_total)) * (1 + 1e-14)


def _remainders(gap: Floats, w: Floats) -> Floats:
    """Return g(t w), rows for gaps t within a factor of 8, columns for monotone w.

    A whole column is near 0 or not: if not, |t w| > 1/16 holds, and the error of exp(x)
    - 1 - x is at most 32 units.
    """
    x = gap[:, None] * w
    size = NEAR / float(gap.max())
    sign = 1 if w.size == 0 or w[0] <= w[-1] else -1
    first = int(np.searchsorted(sign * w, -size))
    last = int(np.searchsorted(sign * w, size, side="right"))
    result = np.empty_like(x)
    result[:, first:last] = near_exp_remainder(x[:, first:last])
    for part in (slice(None, first), slice(last, None)):
        result[:, part] = np.expm1(x[:, part]) - x[:, part]
    return result


def _omitted(
    nodes: _Nodes, gap: Floats, addition: bool, total: Floats, top: Floats
) -> Floats:
    """Return e^-top times a bound on the discretization error and both tails."""
    c, q, low = nodes.c, nodes.q, nodes.low
    reach, v, log_last = nodes.last
    shrink = np.exp(-top)
    if addition:
        # |1 + u| >= 1 - q on the strip
        with np.errstate(over="ignore"):  # then the bound without sampling holds
            power = np.exp(-gap * low - top)
        moduli = power + (1 + 2 * gap * q) * shrink
        left = power + (1 + gap * q) * shrink
        # to the right the bracket is at most 1 + t u, and phi(y) u is a normal tail
        right = (1 + gap) * (math.exp(-((reach - c) ** 2) / 2) * shrink)
    else:
        # the sum itself is close to exp(K) - 1; the strip takes exp(K)
        moduli = total + (3 + 2 * (1 + gap) * q) * shrink
        # g(x) <= x^2/2 for x < 0
        left = gap * (0.5 * low * low * gap + scalar_exp_remainder(-low))
        left *= shrink
        # phi (1+u)^(1+t) falls faster than a normal density centered at (1+t) c
        right = np.exp(log_last + (1 + gap) * v - top) / (reach - (1 + gap) * c)
    return nodes.discretisation * moduli + nodes.outside * left + right * (1 + 1e-8)
