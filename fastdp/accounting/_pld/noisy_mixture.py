"""Gaussian noise around a random shift: laws by cells, and cumulants by quadrature.

With Q = N(0, s^2), P a mixture of N(c, s^2) with 0 <= c <= 1, and r = dP/dQ, removal of
a record has M(z) = E_Q r^(1 + z), addition (the pair exchanged) M(z) = E_Q r^(-z). A
Poisson sample has the shifts 0 and 1. The theorems are those of
docs/proofs/numerical_accounting.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from fastdp.accounting._numeric import product
from fastdp.accounting._pld.losses import Floats, Loss, U, short

if TYPE_CHECKING:
    from fastdp.accounting._atoms.law import Law
    from fastdp.accounting._atoms.plan import Cost

#: The quadrature of one step may err by e^-AIM/steps.
AIM = 42.0

#: Added to AIM for real orders, where accuracy costs little.
_EXTRA = 20.0

#: Most elements of a table, and most nodes of one quadrature.
_TABLE, _MOST_NODES = 1 << 18, 1 << 16


class NoisyMixture(Loss):
    """The loss of Gaussian noise around a random shift, in units of the largest shift.

    `noise` is s, within half a unit in the last place; `removal` is True if P is the
    mixture, False if Q is.
    """

    noise: float
    removal: bool

    def exponent(self, t: Floats) -> Floats:
        """Return the real power of r with mean M(t)."""
        return 1 + t if self.removal else -t

    @abstractmethod
    def log_ratio(self, x: Floats) -> Floats:
        """Return l(x) = ln r(x)."""

    @abstractmethod
    def share(self, x: Floats) -> Floats:
        """Return s^2 times the slope of l: the mean shift, given x."""

    @abstractmethod
    def ratio_error(self, x: Floats, ratio: Floats) -> Floats:
        """Return a bound on the absolute error of l."""

    def log_density(self, x: Floats) -> Floats:
        """Return the log density of Q."""
        s = self.noise
        return np.asarray(
            -x * x / (2 * s * s) - math.log(s) - 0.5 * math.log(2 * math.pi)
        )

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the law by cells of x."""
        from fastdp.accounting._atoms.sampled import sampled_law

        return sampled_law(self, cost, cells, upper, log_tail)

    def nodes(
        self, least: float, most: float, aim: float, shift: float, damping: float
    ) -> tuple[Floats, float] | None:
        """Return nodes for exponents in [least, most] and their distance.

        `shift` is the half width of the strip that the error bound uses, `damping` ln
        of the integrand's growth at its edges. Return None if there are too many.
        """
        s = self.noise
        h = short(2 * math.pi * shift / (aim + damping + 0.7))
        reach = s * math.sqrt(2 * (aim + damping))
        low = min(0.0, least) * float(self.share(np.array(0.0))) - reach
        high = max(1.0, most) + reach
        if not (high - low) / h < _MOST_NODES:
            return None
        j = np.arange(math.floor(low / h), math.ceil(high / h) + 1)
        return np.asarray(j * h), h

    def strip(self, a: float, doubled: bool) -> tuple[float, float]:
        """Return half width b of a strip and damping that allow the widest step.

        With `doubled`, the bound's outer edge is at 2b (theorem 7c).
        """
        s = self.noise
        edge = 2 if doubled else 1
        most = min(1.2 * s if doubled else 6 * s, 0.98 * math.pi * s * s / edge)
        b = np.linspace(0.02, 1, 50) * most
        damping = (edge * b) ** 2 / (2 * s * s)
        if a < 0:
            damping = damping + a * np.log(np.cos(edge * b / (2 * s * s)))
        best = int(np.argmax(b / (AIM + damping)))
        return float(b[best]), float(damping[best])

    # ---- real orders ---------------------------------------------------------------

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t), by a trapezoidal sum over x (theorem 7a)."""
        a = self.exponent(t)
        least, most = float(a.min()), float(a.max())
        shift, damping = self.strip(least, doubled=False)
        grid = self.nodes(least, most, AIM + _EXTRA, shift, damping)
        if grid is None:
            return np.full_like(t, np.inf), np.full_like(t, np.inf)
        x, h = grid
        value, error = np.empty_like(t), np.empty_like(t)
        rows = max(1, _TABLE // x.size)
        for i in range(0, t.size, rows):
            part = slice(i, i + rows)
            value[part], error[part] = self._cumulants(a[part], x, h)
        quadrature = 4 * math.exp(-AIM - _EXTRA) * (1 + np.abs(a))
        return value, error + quadrature

    def _cumulants(self, a: Floats, x: Floats, h: float) -> tuple[Floats, Floats]:
        ratio = self.log_ratio(x)
        log_weight = self.log_density(x) + math.log(h)
        parts = x * x / self.noise**2 + abs(math.log(self.noise)) + abs(math.log(h))
        slip = self.ratio_error(x, ratio)
        power = np.multiply.outer(a, ratio)
        peak = (power + log_weight).max(axis=1)
        value, error = np.empty_like(a), np.empty_like(a)
        small = peak < 30
        if small.any():
            value[small], error[small] = _near_zero(
                a[small], ratio, power[small], log_weight, parts, slip
            )
        for i in np.flatnonzero(~small):
            scaled = np.exp(power[i] + log_weight - peak[i])
            total = scaled.sum()
            value[i] = peak[i] + math.log(total)
            rounding = 2 * np.abs(power[i]) + 2 * parts + x.size + 40
            each = U * rounding + abs(a[i]) * slip
            error[i] = float(scaled @ each) / total
            error[i] += 4 * U * (abs(value[i]) + abs(peak[i]))
        # tails (theorem 7b) of r^a, relative to M, and of 1 + |a| (1 + r)
        reach = self.noise * math.sqrt(2 * (AIM + _EXTRA))
        ends = power[:, [0, -1]] + log_weight[[0, -1]] - value[:, None]
        lines = log_weight[[0, -1]] + np.log1p(np.exp(np.minimum(ratio[[0, -1]], 600)))
        tails = np.exp(ends) + np.outer(1 + np.abs(a), np.exp(lines))
        error += 2 * tails.sum(axis=1) / h * self.noise**2 / reach
        return value, error


def _near_zero(
    a: Floats,
    ratio: Floats,
    power: Floats,
    log_weight: Floats,
    parts: Floats,
    slip: Floats,
) -> tuple[Floats, Floats]:
    """Return K from M - 1 = E_Q [r^a - 1 - a (r - 1)]; the mean of r is 1."""
    weight = np.exp(log_weight)
    first = _weighted_expm1(power, log_weight, weight)
    line = np.multiply.outer(a, _weighted_expm1(ratio, log_weight, weight))
    excess = (first - line).sum(axis=1)
    rounding = (ratio.size + 20 + 2 * parts) * np.abs(first - line)
    rounding += 6 * (np.abs(first) + np.abs(line))
    slope = np.abs(a)[:, None] * (
        np.exp(power + log_weight) + np.exp(np.minimum(ratio + log_weight, 700))
    )
    error = (U * rounding.sum(axis=1) + product(slope, slip)) / (1 + excess)
    value = np.log1p(excess)
    return value, error + 4 * U * np.abs(value)


def _weighted_expm1(z: Floats, log_weight: Floats, weight: Floats) -> Floats:
    """Return weight (e^z - 1), even if e^z alone would overflow."""
    near = np.expm1(np.minimum(z, 30.0)) * weight
    return np.asarray(np.where(z < 30, near, np.exp(z + log_weight)))
