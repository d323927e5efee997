"""The loss of a step that reveals which of several cases it is in.

The case has the same law on both datasets, so the loss is the case's loss with the
case's probability: M is a mean of moments, and the law lists the losses of all cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from fastdp.accounting._atoms.law import NOTHING, Law
from fastdp.accounting._pld.families import Sided, Step
from fastdp.accounting._pld.losses import (
    Complexes,
    Floats,
    Loss,
    Tilted,
    U,
    turned,
)

if TYPE_CHECKING:
    from fastdp.accounting._atoms.plan import Cost

#: Fewest cells of a case; from K = _LARGE on, e^K replaces e^K - 1.
_FEWEST, _LARGE = 64, 30.0


@dataclass(frozen=True)
class MixedLoss(Loss):
    """One of several losses, with these weights; None stands for a loss of 0.

    Weights are accurate to a unit in the last place; the exact weights add up to 1.
    """

    weights: tuple[float, ...]
    parts: tuple[Loss | None, ...]

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return ln of the weighted mean of e^K; each e^K is at least 1."""
        known = [
            part.cumulants(t) if part else (np.zeros_like(t), np.zeros_like(t))
            for part in self.parts
        ]
        value, error = (np.array(rows) for rows in zip(*known, strict=True))
        weights = np.array(self.weights)[:, None]
        with np.errstate(invalid="ignore", over="ignore"):
            top = value.max(axis=0)
            near = np.log1p((weights * np.expm1(np.minimum(value, _LARGE))).sum(axis=0))
            share = weights * np.exp(value - top)
            found = np.where(top < _LARGE, near, top + np.log(share.sum(axis=0)))
            # Each K counts by its share of the moment; shares add up to 1.
            slip = (share * (error + 8 * U * np.abs(value))).sum(axis=0)
            slip = slip / share.sum(axis=0) + 16 * U * np.abs(found)
        known = np.isfinite(found + slip)
        return np.where(known, found, np.inf), np.where(known, slip, np.inf)

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the laws of all cases, with more cells for likely cases."""
        weights = np.array(self.weights)
        sizes = cells * np.cbrt(weights) / np.cbrt(weights).sum()
        laws = [
            part.law(cost, max(_FEWEST, int(size)), upper, log_tail)
            if part
            else NOTHING
            for part, size in zip(self.parts, sizes.tolist(), strict=True)
        ]
        loss = np.concatenate([law.loss for law in laws])
        mass = np.concatenate(
            [weight * law.mass for weight, law in zip(self.weights, laws, strict=True)]
        )
        order = np.argsort(loss, kind="stable")
        lost = float(weights @ [law.lost for law in laws]) * (1 + 8 * U)
        error = max(law.error for law in laws) + 4 * U
        return Law(loss[order], mass[order], min(lost, 1.0), error)

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the mixture of the tilted laws."""
        return _TiltedMixture(self, theta, count)


class _TiltedMixture(Tilted):
    def __init__(self, loss: MixedLoss, theta: float, count: int) -> None:
        value, error = loss.cumulants(np.array([theta]))
        self.cumulant, self.cumulant_error = float(value[0]), float(error[0])
        if not np.isfinite(self.cumulant):
            raise OverflowError("the cumulant K is too large for doubles")
        self._parts: list[tuple[float, float, Tilted | None]] = []
        self.mean = 0.0
        for weight, part in zip(loss.weights, loss.parts, strict=True):
            law = part.tilted(theta, count) if part else None
            own = law.cumulant if law else 0.0
            slip = (law.cumulant_error if law else 0.0) + self.cumulant_error
            share = weight * float(np.exp(own - self.cumulant))
            slip += U * (16 + 4 * abs(own) + 4 * abs(self.cumulant))
            self._parts.append((share, slip, law))
            self.mean += share * (law.mean if law else 0.0)

    def envelope(self, y: Floats) -> Floats:
        total = np.zeros_like(y)
        for share, slip, law in self._parts:
            one = law.envelope(y) if law else np.ones_like(y)
            total += share * (1 + slip) * (1 + 8 * U) * one
        return np.asarray(np.minimum(total, 1.0))

    def centered(self, step: float, count: int) -> tuple[Complexes, Floats]:
        # phi_i e^(-iy mean) - 1 = c e^(iyd) + (e^(iyd) - 1), d = mean_i - mean
        y: Floats = np.asarray(step * np.arange(1.0, count + 1))
        value, error = np.zeros(count, np.complex128), np.zeros(count)
        for share, slip, law in self._parts:
            own = law.mean if law else 0.0
            turn = turned(y * (own - self.mean))
            phase = U * y * (20 * abs(own - self.mean) + abs(own) + abs(self.mean))
            c, off = law.centered(step, count) if law else (0 * turn, np.zeros(count))
            one = c + c * turn + turn
            value += share * one
            error += share * (off + slip * np.abs(one))
            error += share * (
                phase * (1 + np.abs(c)) + 16 * U * (np.abs(c) + np.abs(one))
            )
        return value, error


def mixed(first: Step, second: Step, weight: Fraction) -> Step:
    """Return the step that is `second` with probability `weight`, and reveals which.

    It is only for upper bounds.
    """

    def side(a: Sided, b: Sided) -> Sided:
        finite = [(1 - weight) * (1 - a.lost), weight * (1 - b.lost)]
        whole = finite[0] + finite[1]
        cases = [
            (float(share / whole), part.loss)
            for share, part in zip(finite, (a, b), strict=True)
            if share
        ]
        losses = tuple(loss for _, loss in cases)
        loss = losses[0] if len(losses) == 1 else None
        if len(losses) > 1 and any(losses):
            loss = MixedLoss(tuple(share for share, _ in cases), losses)
        return Sided(loss, 1 - whole, exact=False)

    rho = None
    if first.rho is not None and second.rho is not None:
        rho = max(first.rho, second.rho)
    removal = side(first.removal, second.removal)
    return Step(removal, side(first.addition, second.addition), rho)
