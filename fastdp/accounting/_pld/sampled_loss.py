"""The loss of Gaussian noise on a Poisson sample, for the contour accountant.

Let Q = N(0, s^2), P = (1 - q) Q + q N(1, s^2), r = dP/dQ = 1 - q + q e^u and
u = (2x - 1)/(2 s^2). The loss has the moments M(z) = E_Q r^(1 + z) if a record is
removed, and M(z) = E_Q r^(-z) if one is added, which exchanges P and Q. The theorems
are in docs/proofs/numerical_accounting.md.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fastdp.accounting._numeric import product
from fastdp.accounting._pld.losses import (
    Complexes,
    Floats,
    Tilted,
    U,
    box_losses,
    complex_expm1,
    complex_log1p,
    transform,
)
from fastdp.accounting._pld.noisy_mixture import AIM as _AIM
from fastdp.accounting._pld.noisy_mixture import NoisyMixture
from fastdp.accounting._pld.sampled_batch import SampledGaussianBatch, SampledStep

#: Leave out nodes lighter than exp(-_LIGHT) of the mass.
_LIGHT = 60.0

#: Nodes of the grid for the envelope's boxes.
_BOX_NODES = 320

#: Up to this many steps, also use the shifted envelope, which is better for large y.
_SHIFTED_MOST = 256

#: Number of shifted lines to try.
_LINES = 6

#: Maximum number of terms of a contour's inner sums; they take a fraction of a second.
_MOST_TERMS = 1 << 26


@dataclass(frozen=True)
class SampledGaussianLoss(NoisyMixture, SampledStep):
    """The loss of one step, by quadrature."""

    batch: ClassVar[type[SampledGaussianBatch]] = SampledGaussianBatch

    def log_ratio(self, x: Floats) -> Floats:
        """Return l(x) = ln r(x)."""
        q, s = self.probability, self.noise
        u = (2 * x - 1) / (2 * s * s)
        high = u > self.switch
        up = u + np.log(q + (1 - q) * np.exp(-np.abs(u)))
        down = np.log1p(q * np.expm1(np.where(high, 0.0, u)))
        return np.asarray(np.where(high, up, down))

    @functools.cached_property
    def switch(self) -> float:
        """The u with q (e^u - 1) = 1; up to this u, ln r is computed by log1p."""
        return math.log1p(1 / self.probability)

    def share(self, x: Floats) -> Floats:
        """Return p(x) = q e^u/(1 - q + q e^u): s^2 times the slope of l."""
        q, s = self.probability, self.noise
        u = np.clip((2 * x - 1) / (2 * s * s), -700, 700)
        return np.asarray(q / (q + (1 - q) * np.exp(-u)))

    def ratio_error(self, x: Floats, ratio: Floats) -> Floats:
        """Return a bound on the absolute error of l, from u, q, s and the functions.

        An error of q has the weight |r - 1|/r, an error of u the weight p.
        """
        u = np.abs((2 * x - 1) / (2 * self.noise * self.noise))
        own = 10 * np.abs(ratio) + 16 * np.abs(np.expm1(-ratio))
        return np.asarray(U * (own + 12 * self.share(x) * u))

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the law tilted at `theta`, its inner error below e^-42/count."""
        return _TiltedSample(self, theta, count)


class _TiltedSample(Tilted):
    """The tilted law of `SampledGaussianLoss`, on nodes shifted off the real line."""

    def __init__(self, loss: SampledGaussianLoss, theta: float, count: int) -> None:
        self._loss = loss
        self._count = count
        value, error = loss.cumulants(np.array([theta]))
        self.cumulant, self.cumulant_error = float(value[0]), float(error[0])
        self._a = float(loss.exponent(np.array(theta)))
        aim = _AIM + math.log(count)
        shift, damping = loss.strip(self._a, doubled=True)
        grid = loss.nodes(self._a, self._a, aim, shift, damping)
        if grid is None or not math.isfinite(self.cumulant):
            raise OverflowError("too many nodes")
        x, h = grid
        ratio = loss.log_ratio(x)
        level = self._a * ratio + loss.log_density(x) + math.log(h) - self.cumulant
        self._inner = 2 * math.exp(-aim)
        self._inner += self._outside(x, level, h) * math.exp(damping)
        keep = level > -_LIGHT - damping - math.log(x.size)
        self._inner += math.exp(-_LIGHT)
        self._x, self._level = x[keep], level[keep] - math.log(h)
        self._log_h, self._size = math.log(h), x.size
        mass = np.exp(level[keep])
        real = ratio[keep] if loss.removal else -ratio[keep]
        self.mean = float(mass @ real / mass.sum())
        self._set_nodes(x[keep], level[keep], ratio[keep], shift, h)

    def _outside(self, x: Floats, level: Floats, h: float) -> float:
        """Bound sum and integral beyond the nodes (theorem 7b)."""
        s, a = self._loss.noise, self._a
        top = max(a, 0.0)
        low = min(a, 0.0) * float(self._loss.share(np.array(0.0)))
        right = math.exp(level[-1]) / h * s * s / (x[-1] - top)
        left = math.exp(level[0]) / h * s * s / (low - x[0])
        return float(2 * (right + left))

    def _set_nodes(
        self, x: Floats, level: Floats, ratio: Floats, shift: float, h: float
    ) -> None:
        """Set weights and losses on the line Im x = shift, where e^(iyL) decays."""
        q, s, a = self._loss.probability, self._loss.noise, self._a
        u = (2 * x - 1) / (2 * s * s) + 1j * (shift / (s * s))
        high = u.real > self._loss.switch
        v = q + (1 - q) * np.exp(-np.where(high, u, 0))
        up = u + np.log(np.hypot(v.real, v.imag)) + 1j * np.arctan2(v.imag, v.real)
        down = complex_log1p(q * complex_expm1(np.where(high, 0, u)))
        line = np.where(high, up, down)
        log_weight = level + a * (line - ratio) + shift * shift / (2 * s * s)
        weight = np.exp(log_weight - 1j * (x * shift / (s * s)))
        if not self._loss.removal:
            weight, line = weight.conj(), -line.conj()
        slip = self._loss.ratio_error(x, ratio) + 16 * U * np.abs(line)
        # exponents' roundings: of x^2/(2 s^2), with s itself, a l, logarithms, sums
        parts = 1.5 * x * x / (s * s) + abs(math.log(s)) + abs(math.log(h))
        relative = U * (x.size + 60 + 2 * np.abs(level) + parts)
        relative += U * 2 * np.abs(a * line) + abs(a) * slip + self.cumulant_error
        self._weight, self._offset = weight, line - self.mean
        self._slips = slip + 16 * U * np.abs(self._offset)
        self._sizes, self._errors = np.abs(weight), np.abs(weight) * relative

    def centered(self, step: float, count: int) -> tuple[Complexes, Floats]:
        if count * self._offset.size > _MOST_TERMS:
            raise OverflowError("too many terms for a contour")
        value, error = transform(self._offset, self._weight, self._errors, step, count)
        y = step * np.arange(1, count + 1)
        return value, error + y * float(self._sizes @ self._slips) + self._inner

    # ---- envelope ----------------------------------------------------------------

    def envelope(self, y: Floats) -> Floats:
        weight, half = self._boxes
        whole = max(1.0, float(weight.sum())) + 1e-12
        bound = whole - box_losses(weight, half, y)
        if self._count <= _SHIFTED_MOST:
            bound = np.minimum(bound, self._shifted_envelope(y))
        return np.asarray(np.minimum(1.0, bound))

    @functools.cached_property
    def _fine(self) -> tuple[Floats, Floats, Floats, Floats]:
        """A grid over the mass, with nodes, tilted log density in x, loss and share."""
        heavy = self._x[self._level + self._log_h > -_AIM]
        x = np.linspace(heavy[0], heavy[-1], _BOX_NODES)
        ratio = self._loss.log_ratio(x)
        level = self._a * ratio + self._loss.log_density(x) - self.cumulant
        return x, level, ratio, self._loss.share(x)

    @functools.cached_property
    def _boxes(self) -> tuple[Floats, Floats]:
        """Weights and half lengths of uniform laws below the loss's (theorem 3)."""
        x, level, ratio, share = self._fine
        s = self._loss.noise
        density = np.exp(level - np.log(share / (s * s)))
        weights, halves = [np.empty(0)], [np.empty(0)]
        for start, stop in self._runs(x):
            order = start + np.argsort(-density[start:stop])
            value = density[order]
            left = np.minimum.accumulate(ratio[order])
            length = np.maximum.accumulate(ratio[order]) - left
            weights.append((value - np.append(value[1:], 0.0)) * length)
            halves.append(length / 2)
        slack = math.exp(-1e-9 - self.cumulant_error)
        return np.concatenate(weights) * slack, np.concatenate(halves)

    def _runs(self, x: Floats) -> list[tuple[int, int]]:
        """Return runs of nodes on which the density is unimodal (theorem 4)."""
        s, q, a = self._loss.noise, self._loss.probability, self._a
        cuts = [-math.inf, math.inf]
        if a + 1 > 4 * s * s:
            product = s * s / (a + 1)
            upper = 0.5 + math.sqrt(0.25 - product)
            middle = 0.5 + s * s * math.log(1 / q - 1)
            away = s * s * (2 * math.log(upper) - math.log(product))
            low, high = middle - away, middle + away
            cuts += [low, high]

            def slope(z: float) -> float:
                return float((a + 1) * self._loss.share(np.array(z)) - 1 - z)

            if slope(low) < 0 < slope(high):
                for _ in range(60):
                    half = (low + high) / 2
                    low, high = (half, high) if slope(half) < 0 else (low, half)
                cuts += [low, high]
        near = 1e-9 * (1 + abs(a))
        runs = []
        for left, right in itertools.pairwise(sorted(cuts)):
            start = int(np.searchsorted(x, left + near))
            stop = int(np.searchsorted(x, right - near))
            if stop - start >= 2:
                runs.append((start, stop))
        return runs

    def _shifted_envelope(self, y: Floats) -> Floats:
        """Bound |phi| by its integral on shifted lines (theorem 6)."""
        x, level, _, share = self._fine
        s, a = self._loss.noise, self._a
        width = x[1] - x[0]
        curvature = (1 + max(0.0, -a) / (4 * s * s)) / (s * s)
        top = np.maximum(level[1:], level[:-1]) + curvature * width * width / 8
        best = np.ones_like(y)
        # Near c = y share/s^2 the bound is about the Gaussian one.
        for c in np.geomspace(min(0.47, 2 / s), 2.67, _LINES).tolist():
            turn = np.arctan2(share * math.sin(c), 1 - share + share * math.cos(c))
            square = 1 - 4 * share * (1 - share) * math.sin(c / 2) ** 2
            if a >= 0:
                log_rho = 0.5 * a * np.log(np.maximum(square[1:], square[:-1]))
            else:
                least = np.minimum(square[1:], square[:-1])
                least[(share[:-1] < 0.5) & (share[1:] > 0.5)] = math.cos(c / 2) ** 2
                log_rho = 0.5 * a * np.log(least)
            lift = (c * s) ** 2 / 2
            outer = lift + min(a, 0.0) * math.log(math.cos(c / 2))
            with np.errstate(over="ignore", invalid="ignore"):
                cell = np.exp(top + log_rho + lift) * width
                beyond = float(np.exp(outer - _AIM + math.log(4 * self._size) + 1))
                beyond += float(np.exp(outer)) * self._inner
                total = product(np.exp(-np.multiply.outer(y, turn[:-1])), cell)
                total += beyond
            best = np.fmin(best, total * (1 + 1e-9))
        return best
