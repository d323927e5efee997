"""Renyi curve of Gaussian noise on a subset of fixed size, one record replaced.

The tight profile of subsets is the profile of a pair of laws
(docs/proofs/amplification.md, section 4): its positive losses are those of removing a
record from a Poisson sample, its negative losses those of adding one. With order 1 + t,
c = sensitivity/sigma, phi the normal density and r(y) = 1 - q + q exp(c y - c^2/2),

    exp K(t) - 1 = int over y > c/2 of phi(y) (r^t - 1) (r - r^-t) dy.

The integrand is positive; Gauss-Legendre panels with Bernstein's error bound sum it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from fastdp._validate import float_down, float_up
from fastdp.accounting._renyi.curves import EXCESS
from fastdp.accounting._renyi.subsampled_gaussian import (
    SampledGaussianCurve,
    up_to_power,
)
from fastdp.accounting._series import Floats, softplus

#: -ln of the part left out at the far end, before the gap's and the rate's additions.
_AIM = 38.0
#: Nodes n of a panel; parameter of the ellipses, for errors below 3^-2n; samples around
#: a panel.
_ORDER, _ELLIPSE, _SAMPLES = 40, 3.0, 9
_MOST_PANELS = 4000
_LOG_SQRT_2PI = 0.9189385332046727
_UNIT = 2.3e-16


@dataclass(frozen=True)
class SubsetGaussianCurve(SampledGaussianCurve):
    """Gaussian noise on a subset of fixed size; a record is replaced.

    Parameters
    ----------
    ratio : Fraction
        sensitivity/sigma for the replacement of a record, > 0.
    rate : Fraction
        Share of the records in the subset, > 0 and < 1.
    """

    def _together(self, gap: Floats) -> Floats:
        largest = up_to_power(float(gap.max()))
        aim = _AIM - 2 * math.log(min(1.0, float(self.rate) * float(gap.min())))
        nodes = _nodes(self.ratio, self.rate, largest, math.ceil(aim))
        return np.full_like(gap, np.inf) if nodes is None else _log_moments(nodes, gap)


class _Nodes(NamedTuple):
    """Nodes for gaps up to a largest one, and values that depend only on them."""

    v: Floats  # ln r
    log_weight: Floats  # ln of weight, phi and r
    slip: Floats  # relative rounding error of terms, in units, without the power
    #: Samples around each panel: ln phi, ln r, a bound of ln |r| from below at that
    #: real part; the panel's error, and half the distance of samples.
    near: tuple[Floats, Floats, Floats, Floats, float]
    c: float
    last: tuple[float, float, float]  # y, ln r and ln phi at the far end


def _log_moments(nodes: _Nodes, gap: Floats) -> Floats:
    t = gap[:, None]
    with np.errstate(divide="ignore"):
        logs = nodes.log_weight + t * nodes.v
        logs += np.log(-np.expm1(-t * nodes.v)) + np.log(-np.expm1(-(1 + t) * nodes.v))
    logs += _UNIT * (nodes.slip + 4 * t * nodes.v)
    total = np.logaddexp.reduce(logs, axis=1)
    omitted = np.logaddexp(_panels(nodes, gap), _beyond(nodes, gap))
    total = np.logaddexp(total, omitted)
    total += _UNIT * (4 * nodes.v.size + 4 * np.abs(total))
    return softplus(total) * (1 + EXCESS)


def _beyond(nodes: _Nodes, gap: Floats) -> Floats:
    """Return ln of a bound on the integral beyond the last panel.

    phi r^(1 + t) falls there like a normal density around (1 + t) c.
    """
    y, v, log_phi = nodes.last
    away = y - (1 + gap) * nodes.c
    return log_phi + (1 + gap) * v - np.log(away) + 1e-9


def _panels(nodes: _Nodes, gap: Floats) -> Floats:
    """Return ln of a bound on the error of all panels.

    On an ellipse of height b a term is at most e^(b^2/2) phi (r^t + 1) (r + |r|^-t),
    phi and r at its real part, |r| >= 1 - q + q exp(..) cos(c b): largest at samples,
    apart from what the slope allows between them.
    """
    log_phi, v, least, log_error, reach = nodes.near
    t = gap[:, None, None]
    first = np.logaddexp(t * v, 0.0)
    second = np.logaddexp(v, -t * least)
    largest = (log_phi + first + second).max(axis=2) + log_error
    largest += (1 + gap[:, None]) * (nodes.c * reach)
    return np.asarray(np.logaddexp.reduce(largest, axis=1))


@functools.lru_cache(maxsize=256)
def _nodes(ratio: Fraction, rate: Fraction, largest: float, aim: int) -> _Nodes | None:
    c, q = float_up(ratio), float_up(rate)
    low = math.log(float_down(1 - rate))
    half = min(1.1 / c, 1.0)
    length = (0.5 + largest) * c + math.sqrt(2.0 * aim) + half
    count = math.ceil(length / (2 * half))
    if count > _MOST_PANELS:
        return None
    # Distances from c/2, at which the loss is 0.
    middles = half * (2 * np.arange(count) + 1)
    x, weights = _rule()
    offset = np.add.outer(middles, half * x).ravel()
    y = offset + c / 2
    v = _log_ratio(c * offset, q, low)
    log_phi = -y * y / 2 - _LOG_SQRT_2PI
    log_weight = log_phi + v + np.log(np.tile(half * weights, count))
    semi = (_ELLIPSE + 1 / _ELLIPSE) / 2 * half, (_ELLIPSE - 1 / _ELLIPSE) / 2 * half
    samples = np.add.outer(middles, np.linspace(-semi[0], semi[0], _SAMPLES))
    places = samples + c / 2
    error = math.log(64 / 15 * half / (1 - _ELLIPSE**-2)) + semi[1] ** 2 / 2
    error -= 2 * _ORDER * math.log(_ELLIPSE)
    reach = semi[0] / (_SAMPLES - 1)  # half the distance of samples
    log_error = error + np.abs(places).max(axis=1) * reach
    log_cos = math.log(math.cos(c * semi[1]))
    near = (
        -places * places / 2 - _LOG_SQRT_2PI,
        _log_ratio(c * samples, q, low),
        np.logaddexp(low, c * samples + math.log(q) + log_cos),
    )
    end = 2 * half * count
    last = end + c / 2, float(_log_ratio(np.array(c * end), q, low))
    return _Nodes(
        v=v,
        log_weight=log_weight,
        slip=y * y + 2 * np.abs(log_weight) + 4 * v + 40,
        near=(*near, log_error, reach),
        c=c,
        last=(*last, -(last[0] ** 2) / 2 - _LOG_SQRT_2PI),
    )


@functools.cache
def _rule() -> tuple[Floats, Floats]:
    x, w = np.polynomial.legendre.leggauss(_ORDER)
    return x, w


def _log_ratio(rise: Floats, q: float, low: float) -> Floats:
    """Return ln(1 - q + q e^rise), with all digits near 0."""
    u = q * np.expm1(np.minimum(rise, 30.0))
    far = (
        rise
        + math.log(q)
        + np.log1p(math.exp(low) / q * np.exp(-np.maximum(rise, 30.0)))
    )
    return np.asarray(np.where(rise > 30, far, np.log1p(u)))
