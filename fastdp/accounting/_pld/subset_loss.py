"""The loss of Gaussian noise on a subset of fixed size, one record replaced.

Above 0 it is that of the removal of a record from a Poisson sample, below 0 that of the
addition, and the rest of the mass is at 0 (section 1 of
docs/proofs/numerical_accounting.md). It is known by its cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastdp.accounting._atoms.law import Law
from fastdp.accounting._atoms.plan import Cost
from fastdp.accounting._atoms.sampled import sampled_law
from fastdp.accounting._pld.losses import Floats, Loss, U

if TYPE_CHECKING:
    from fastdp.accounting._pld.sampled_loss import SampledGaussianLoss

#: Nodes on each piece of a quadrature, and in all.
_NODES, _MOST_NODES = 20, 1 << 20

#: Bound of the quadrature's relative error, and of what sums of many terms lose.
_ERROR = 1e-11


def _log_expm1(z: Floats) -> Floats:
    """Return ln(e^z - 1) for z > 0."""
    return np.asarray(z + np.log(-np.expm1(-z)))


@dataclass(frozen=True)
class SubsetGaussianLoss(Loss):
    """Gaussian noise on a subset, by the losses of a Poisson sample of its rate."""

    removal: SampledGaussianLoss
    addition: SampledGaussianLoss

    @property
    def _rest(self) -> float:
        """The mass of the loss 0: (1 - q)(Q(x < 1/2) - Q(x > 1/2))."""
        q, s = self.removal.probability, self.removal.noise
        return (1 - q) * math.erf(1 / (math.sqrt(8) * s))

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t), by a quadrature over the x above 1/2."""
        value, error = np.empty_like(t), np.empty_like(t)
        for i, order in enumerate(t.tolist()):
            value[i], error[i] = self._cumulant(order)
        return value, error

    def _cumulant(self, t: float) -> tuple[float, float]:
        q, s = self.removal.probability, self.removal.noise
        reach = s * math.sqrt(2 * (45 - (1 + t) * math.log(q)))
        stop = 1 + t + reach
        # On the ellipse of parameter 4 about a piece of this half length the
        # logarithm of the integrand changes by less than 8.
        longest = min(s, 2 * s * s / (1 + t + stop))
        pieces = math.ceil((stop - 0.5) / (2 * longest))
        if pieces * _NODES > _MOST_NODES:
            return math.inf, math.inf
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        edges = np.linspace(0.5, stop, pieces + 1)
        half = (edges[1] - edges[0]) / 2
        x = ((edges[1:] + edges[:-1]) / 2)[:, None] + half * nodes
        ratio, density = self.removal.log_ratio(x), self.removal.log_density(x)
        # M - 1 = int of (r^t - 1)(r - r^-t) above 1/2, where nothing cancels.
        level = density + _log_expm1(t * ratio) + _log_expm1((1 + t) * ratio)
        level -= t * ratio
        peak = float(level.max())
        total = half * float(np.exp(level - peak).sum(axis=0) @ weights)
        # Beyond, r is below e^u: a normal tail around 1 + t.
        log_tail = t * (1 + t) / (2 * s * s) - reach * reach / (2 * s * s) - peak
        error = _ERROR + 16 * U * (1 + t) * (1 + float(np.abs(ratio).max()))
        error += 2 * math.exp(min(log_tail, 600.0)) / total
        log_gain = peak + math.log(total)
        value = float(np.logaddexp(0.0, log_gain))
        # An error e of the gain is one of e gain/(1 + gain) of K.
        return value, error * math.exp(log_gain - value) + 4 * U * value

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the law by cells of x above 1/2, and the mass at 0 between."""
        low, high = (
            sampled_law(loss, cost, cells // 2 + 1, upper, log_tail, 0.5)
            for loss in (self.addition, self.removal)
        )
        losses = np.concatenate([low.loss, [0.0], high.loss])
        masses = np.concatenate([low.mass, [self._rest], high.mass])
        order = np.argsort(losses, kind="stable")
        error = max(low.error, high.error) + 16 * U
        return Law(losses[order], masses[order], high.lost, error)
