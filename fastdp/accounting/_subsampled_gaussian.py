"""Renyi curve of the Poisson-subsampled Gaussian mechanism at every real order.

With order 1 + t, c = sensitivity/sigma, u(y) = q (exp(c y - c^2/2) - 1), v = ln(1 + u)
and phi the normal density, the removal of a record gives

    exp K(t) - 1 = int phi(y) (1 + u) [g(t v) + t g(-v)] dy,   g(x) = e^x - 1 - x,

and its addition int phi(y) [g(-t v) + t g(v)] dy. Both integrands are positive, so a
sum of them loses nothing, and they are analytic for |Im y| < pi/c, so the trapezoidal
rule converges geometrically with a known bound. That bound, bounds of both tails and
the rounding of every term are added: the result is an upper bound of K.
The proofs, and that removal is never better than addition, are in docs/proofs/rdp.md,
section 3.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp._validate import float_down, float_up
from fastdp.accounting._renyi import EXCESS, Curve
from fastdp.accounting._series import LARGE, Floats, exp_remainder, softplus

#: Aim of the discretisation and of the tails: exp(-_AIM) of the integral.
_AIM = 38.0
#: Beyond, the bound without sampling is returned: exponentials would overflow.
_LARGEST_NOISE_RATIO = 35.0
_MOST_NODES = 400_000
#: Elements of the table of terms that are worked on at a time.
_BLOCK = 1 << 18
_LOG_SQRT_2PI = 0.9189385332046727


@dataclass(frozen=True)
class SubsampledGaussianCurve(Curve):
    """Gaussian noise on a Poisson sample; a record is added or removed.

    Parameters
    ----------
    ratio : Fraction
        sensitivity/sigma, > 0.
    probability : Fraction
        Sampling probability, > 0 and < 1.
    addition : bool
        Whether the second dataset has the record; the other order is the worse.
    """

    ratio: Fraction
    probability: Fraction
    addition: bool = False

    def log_moment(self, gap: Floats) -> Floats:
        """Return K(gap) rounded up."""
        c = float_up(self.ratio)
        plain = gap * (1 + gap) * (c * c / 2) * (1 + EXCESS)
        if c > _LARGEST_NOISE_RATIO or gap.size == 0:
            return plain
        result = plain.copy()
        order = np.argsort(gap)
        start = 0
        while start < gap.size:  # gaps of similar size share their nodes
            first = gap[order[start]]
            stop = int(np.searchsorted(gap[order], 8 * first, side="right"))
            chosen = order[start:stop]
            value = self._together(c, gap[chosen])
            result[chosen] = np.minimum(plain[chosen], value)
            start = stop
        return result

    @property
    def search_gap(self) -> float:
        """About where sampling ceases to help: q exp(t c^2/2) = 1."""
        c, q = float(self.ratio), float(self.probability)
        return (1 - 2 * math.log(q)) / (c * c) + 1

    @property
    def trusted_gap(self) -> float:
        """Beyond, the squares of the places make rounding tell."""
        c = float(self.ratio)
        return max(0.0, 36 / c - 1) if c <= _LARGEST_NOISE_RATIO else 0.0

    def _together(self, c: float, gap: Floats) -> Floats:
        low, high = float(gap.min()), float(gap.max())
        q = float(self.probability)
        aim = _AIM + 2 * math.log(2 / q) + 2 * math.log(1 + 1 / c)
        aim += math.log(1 + 1 / low) + math.log(2 + 2 * high)
        largest = _up_to_power(high)
        key = self.ratio, self.probability, self.addition, largest, math.ceil(aim)
        nodes = _nodes(*key)
        if nodes is None:
            return np.full_like(gap, np.inf)
        step = max(1, _BLOCK // nodes.y.size)
        parts = [
            _log_moment(nodes, gap[i : i + step], self.addition)
            for i in range(0, gap.size, step)
        ]
        return np.concatenate(parts)


def _up_to_power(value: float) -> float:
    """Return value rounded up to a power of sqrt(2), so that nodes are used again."""
    return math.pow(2.0, math.ceil(2 * math.log2(value)) / 2)


@dataclass(frozen=True)
class _Nodes:
    """Points of the trapezoidal rule, and what depends on them alone."""

    y: Floats
    v: Floats  # ln(1 + u)
    log_density: Floats  # ln(step phi(y)), plus v for removal
    density: tuple[Floats, Floats]  # exp of it: for removal, for addition
    kernel: tuple[Floats, Floats]  # g(-v), g(v)
    ratio: float
    q: float
    log_rest: float  # ln(1 - q)
    log_discretisation: float
    margin: float  # how far the points reach beyond the centres


@functools.lru_cache(maxsize=256)
def _nodes(
    ratio: Fraction,
    probability: Fraction,
    addition: bool,
    largest_gap: float,
    aim: int,
) -> _Nodes | None:
    c, q, rest = float_up(ratio), float_up(probability), float_down(1 - probability)
    # The strip's half-width; powers below 0 need |1 + u| >= 1 - q, so a quarter turn.
    turn = math.pi / 2 if addition else 0.999 * math.pi
    spread = min(math.sqrt(2.0 * aim), turn / c)
    step = 2 * math.pi * spread / (aim + spread * spread / 2)
    margin = math.sqrt(2.0 * aim)
    low = math.floor((-margin - c / 2) / step)
    high = math.ceil(((1 + largest_gap) * c + margin - c / 2) / step)
    if high - low > _MOST_NODES:
        return None
    offset = np.arange(low, high + 1, dtype=np.float64) * step
    y, rise = offset + c / 2, c * offset
    # ln(1 + u) by its relative size near u = 0, by the sum where u is near -1.
    u = q * np.expm1(np.minimum(rise, 30.0))
    middle = np.where(u > -0.5, np.log1p(np.maximum(u, -0.5)), 0.0)
    whole = rest + q * np.exp(np.minimum(rise, 0.0))
    v = np.where(u > -0.5, middle, np.log(whole))
    far = rise + math.log(q) + np.log1p(rest / q * np.exp(-np.maximum(rise, 30.0)))
    v = np.where(rise > 30, far, v)
    log_density = -y * y / 2 - _LOG_SQRT_2PI + math.log(step)
    with np.errstate(under="ignore"):
        densities = np.exp(log_density + v), np.exp(log_density)
    near = np.minimum(v, LARGE)
    exponent = 2 * math.pi * spread / step
    return _Nodes(
        y=y,
        v=v,
        log_density=log_density,
        density=densities,
        kernel=(exp_remainder(-v), exp_remainder(near)),
        ratio=c,
        q=q,
        log_rest=math.log(rest),
        log_discretisation=spread * spread / 2 - exponent + math.log(2.0 + 1e-9),
        margin=margin,
    )


def _log_moment(nodes: _Nodes, gap: Floats, addition: bool) -> Floats:
    """Return K rounded up at gaps that the nodes reach."""
    t = gap[:, None]
    sign = -1.0 if addition else 1.0
    x = sign * t * nodes.v
    log_density = nodes.log_density if addition else nodes.log_density + nodes.v
    density = nodes.density[1 if addition else 0]
    kernel = nodes.kernel[1 if addition else 0]
    largest = float(x.max())
    if largest <= 1:
        top = np.zeros_like(gap)
        terms = density * (exp_remainder(x) + t * kernel)
    else:
        # e^-top times the term; for x > 1 the parts of g(x) may be taken apart.
        exponent = log_density + x
        top = np.maximum(exponent.max(axis=1), 0.0)
        shrink = np.exp(-top)[:, None]
        far = np.maximum(x, 1.0)
        large = np.exp(exponent - top[:, None]) * (1 - (1 + far) * np.exp(-far))
        small = density * exp_remainder(np.minimum(x, 1.0))
        terms = np.where(x > 1, large, small * shrink)
        terms += t * (density * kernel) * shrink
    # Each term errs relatively by a few units times the size of its exponents.
    weight = nodes.y * nodes.y + 2 * np.abs(nodes.v) + 60
    rounding = 2.3e-16 * (terms @ weight + np.einsum("ij,ij->i", terms, np.abs(x)))
    total = terms.sum(axis=1)
    log_total = top + np.log(total + rounding)
    log_extra = _log_omitted(nodes, gap, addition, log_total)
    log_total = np.logaddexp(log_total, log_extra)
    return softplus(log_total + 4e-16 * np.abs(log_total)) * (1 + 1e-14)


def _log_omitted(
    nodes: _Nodes, gap: Floats, addition: bool, log_total: Floats
) -> Floats:
    """Return ln of a bound of the discretisation error and of both tails."""
    c, q = nodes.ratio, nodes.q
    reach = float(nodes.y[-1])
    outside = -nodes.margin * nodes.margin / 2  # ln Phi(-margin) is less
    low = np.full_like(gap, nodes.log_rest)
    if addition:
        # |1 + u| >= 1 - q on the strip
        moduli = np.logaddexp(-gap * low, np.log1p(2 * gap * q))
        left = np.logaddexp(-gap * low, np.log1p(gap * q)) + outside
        # to the right the bracket is at most 1 + t u, and phi(y) u is a normal tail
        right = np.log1p(gap) - (reach - c) ** 2 / 2
    else:
        # the sum itself is close to exp(K) - 1, of which the strip takes exp(K)
        moduli = np.logaddexp(softplus(log_total), np.log(2 + 2 * (1 + gap) * q))
        bracket = exp_remainder(gap * low) + gap * exp_remainder(-low)
        left = np.log(bracket) + outside
        # phi (1+u)^(1+t) falls faster than a normal density centred at (1+t) c
        distance = reach - (1 + gap) * c
        last = nodes.log_density[-1] + (1 + gap) * nodes.v[-1]
        log_step = math.log(float(nodes.y[1] - nodes.y[0]))
        right = last - log_step + np.log(1 / distance)
    strip = nodes.log_discretisation + moduli + 1e-9
    return np.logaddexp(np.logaddexp(strip, left + 1e-9), right + 1e-9)
