"""The loss of Gaussian noise on a subset of fixed size, one record replaced.

Above 0 it is the loss of removing a record from a Poisson sample, below 0 the loss of
adding one, and the rest of the mass is at 0 (section 1 of
docs/proofs/numerical_accounting.md).
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
from fastdp.accounting._series import gauss_legendre

if TYPE_CHECKING:
    from fastdp.accounting._pld.sampled_loss import SampledGaussianLoss

#: Nodes on each piece of a quadrature; most nodes in all.
_NODES, _MOST_NODES = 20, 1 << 20

#: Orders above _TOGETHER times the largest share its nodes; most numbers of a table.
_TOGETHER, _TABLE = 0.25, 1 << 18

#: Bound of the relative errors of the quadrature and of long sums.
_ERROR = 1e-11


@dataclass(frozen=True)
class SubsetGaussianLoss(Loss):
    """Gaussian noise on a subset of fixed size, from losses of a Poisson sample.

    The sample has the same rate.
    """

    removal: SampledGaussianLoss
    addition: SampledGaussianLoss

    @property
    def _rest(self) -> float:
        """The mass of the loss 0: (1 - q)(Q(x < 1/2) - Q(x > 1/2))."""
        q, s = self.removal.probability, self.removal.noise
        return (1 - q) * math.erf(1 / (math.sqrt(8) * s))

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t), by a quadrature over the x above 1/2."""
        value, error = np.full_like(t, np.inf), np.full_like(t, np.inf)
        left = np.arange(t.size)
        while left.size:
            most = float(t[left].max())
            near = left[t[left] >= _TOGETHER * most]
            value[near], error[near] = self._cumulants(t[near], most)
            left = np.setdiff1d(left, near)
        return value, error

    def _cumulants(self, t: Floats, most: float) -> tuple[Floats, Floats]:
        """Return K(t) for orders up to `most`, from nodes for `most`."""
        q, s = self.removal.probability, self.removal.noise
        reach = s * math.sqrt(2 * (45 - (1 + most) * math.log(q)))
        stop = 1 + most + reach
        # On the ellipse of parameter 4 about a piece of this half length the
        # logarithm of the integrand changes by less than 8.
        longest = min(s, 2 * s * s / (1 + most + stop))
        pieces = math.ceil((stop - 0.5) / (2 * longest))
        if pieces * _NODES > _MOST_NODES:
            return np.full_like(t, np.inf), np.full_like(t, np.inf)
        nodes, weights = gauss_legendre(_NODES)
        edges = np.linspace(0.5, stop, pieces + 1)
        width = edges[1] - edges[0]
        x = (edges[:-1, None] + width * nodes).ravel()
        ratio = self.removal.log_ratio(x)
        log_weight = np.tile(np.log(width * weights), pieces)
        log_weight += self.removal.log_density(x) + ratio
        rest = -np.expm1(-ratio)
        value, error = np.empty_like(t), np.empty_like(t)
        rows = max(1, _TABLE // x.size)
        for i in range(0, t.size, rows):
            order = t[i : i + rows]
            power = np.multiply.outer(order, ratio)
            # M - 1 = int of (r^t - 1)(r - r^-t) = r^(1 + t) (1 - r^-t)(1 - r^-(1 + t))
            # above 1/2, where nothing cancels.
            level = power + log_weight
            peak = level.max(axis=1)
            total = np.exp(level - peak[:, None])
            fall = -np.expm1(-power)
            total *= fall
            total *= fall + (1 - fall) * rest
            total = total.sum(axis=1)
            # Beyond the last edge r < e^u, so a normal tail around 1 + t is a bound.
            away = (order * (1 + order) - (stop - 1 - order) ** 2) / (2 * s * s)
            slip = _ERROR + 16 * U * (1 + order) * (1 + float(np.abs(ratio).max()))
            slip += 2 * np.exp(np.minimum(away - peak, 600.0)) / total
            log_gain = peak + np.log(total)
            gain = np.logaddexp(0.0, log_gain)
            # A relative error e of the gain is an error e gain/(1 + gain) of K.
            error[i : i + rows] = slip * np.exp(log_gain - gain) + 4 * U * gain
            value[i : i + rows] = gain
        return value, error

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
