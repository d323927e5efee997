"""Sums over the steps of a composition, kept so that one more step adds little.

All that the contour needs of a composition is a sum over its steps: K at the orders of
a common grid, the logarithm of the envelope on a common grid of y, and ln phi at the
nodes of a contour. A composition with one more step takes over what is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fastdp.accounting._losses import (
    Complexes,
    Floats,
    GaussianLoss,
    Loss,
    Tilted,
    U,
    complex_log1p,
    cumulant_block,
)

#: Cells of the envelope that are computed together, and in each octave of y.
CELLS, CELLS_PER_OCTAVE = 12, 3

#: Sums kept for compositions that come after this one.
_KEPT = 64

_LOWEST = -1e5

Sum = TypeVar("Sum", "Tilt", "Nodes", tuple[Floats, Floats], Floats)


@dataclass(frozen=True)
class Tilt:
    """K(theta), the mean of the tilted loss, and bounds of their rounding errors."""

    cumulant: float
    error: float
    mean: float
    drift: float

    def __add__(self, other: Tilt) -> Tilt:
        cumulant, mean = self.cumulant + other.cumulant, self.mean + other.mean
        error = self.error + other.error + U * abs(cumulant)
        drift = self.drift + other.drift + U * abs(mean)
        return Tilt(cumulant, error, mean, drift)


@dataclass(frozen=True)
class Nodes:
    """ln phi at the nodes, without the mean's phase, and bounds of relative errors."""

    log_phi: Complexes
    growth: Floats

    def __add__(self, other: Nodes) -> Nodes:
        log_phi = self.log_phi + other.log_phi
        return Nodes(log_phi, self.growth + other.growth + U * np.abs(log_phi))


class Composition:
    """Steps of one direction with their counts; what it computes stays with it."""

    def __init__(self, steps: tuple[tuple[Loss, int], ...] = ()) -> None:
        self.steps = steps
        self._added = steps
        self._inherited: dict[Hashable, object] = {}
        self._sums: dict[Hashable, object] = {}
        self._theta, self._tilted = 0.0, dict[Loss, Tilted]()

    def plus(self, loss: Loss, count: int) -> Composition:
        """Return the composition with `count` more times `loss`."""
        steps = dict(self.steps)
        if isinstance(loss, GaussianLoss):  # all Gaussian noise is one step
            loss, count = GaussianLoss(count * loss.square), 1
            others = [step for step in steps if isinstance(step, GaussianLoss)]
            before = sum(step.square for step in others)
            steps = {s: n for s, n in steps.items() if s not in others}
            steps[GaussianLoss(before + loss.square)] = 1
        else:
            steps[loss] = steps.get(loss, 0) + count
        result = Composition(tuple(steps.items()))
        kept = list(self._sums.items())[-_KEPT:]
        if kept:
            result._inherited = dict(kept)
            result._added = ((loss, count),)
        return result

    def _sum(
        self,
        key: Hashable,
        one: Callable[[Tilted, Loss, int], Sum],
        theta: float | None = None,
    ) -> Sum:
        """Return the sum of `one` over all steps, from what is known of the others."""
        found = self._sums.get(key)
        if found is None:
            found = self._inherited.get(key)
            steps = self.steps if found is None else self._added
            for tilted, loss, count in self._laws(steps, theta):
                part = one(tilted, loss, count)
                found = part if found is None else found + part  # type: ignore[operator]
            self._sums[key] = found
        return found  # type: ignore[return-value]

    def _laws(
        self, steps: tuple[tuple[Loss, int], ...], theta: float | None
    ) -> list[tuple[Tilted, Loss, int]]:
        if theta is None:
            return [(None, loss, n) for loss, n in steps]  # type: ignore[misc]
        if theta != self._theta:
            self._theta, self._tilted = theta, {}
        for loss, n in steps:
            if loss not in self._tilted:
                self._tilted[loss] = loss.tilted(theta, n)
        return [(self._tilted[loss], loss, n) for loss, n in steps]

    # ---- the sums --------------------------------------------------------------------

    def cumulants(self, block: int) -> tuple[Floats, Floats]:
        """Return K at the orders of one octave, and bounds of its errors."""

        def one(_: Tilted, loss: Loss, count: int) -> Floats:
            return _times(count, *cumulant_block(loss, block))

        return self._with_slack(self._sum(("cumulants", block), one))

    def cumulants_at(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K at any orders; nothing is kept."""
        both = np.zeros((2, t.size))
        for loss, count in self.steps:
            both = both + _times(count, *loss.cumulants(t))
        return self._with_slack(both)

    def _with_slack(self, both: Floats) -> tuple[Floats, Floats]:
        slack = U * (len(self.steps) + 4)
        return both[0], both[1] + slack * np.abs(both[0])

    def tilt(self, theta: float) -> Tilt:
        """Return K(theta) with its error, and the mean of the tilted loss."""

        def one(law: Tilted, _: Loss, count: int) -> Tilt:
            value, mean = count * law.cumulant, count * law.mean
            error = count * law.cumulant_error + U * abs(value)
            return Tilt(value, error, mean, U * abs(mean))

        return self._sum(("tilt", theta), one, theta)

    def log_envelope(self, theta: float, block: int) -> Floats:
        """Return ln of an envelope of |phi| on one block of the grid of y."""
        y = envelope_grid(block)

        def one(law: Tilted, _: Loss, count: int) -> Floats:
            with np.errstate(divide="ignore"):
                bound = np.log(law.envelope(y)) * count * (1 - 1e-9)
            return np.maximum(bound, _LOWEST)

        return self._sum(("envelope", theta, block), one, theta)

    def nodes(self, theta: float, step: float, count: int) -> Nodes:
        """Return ln phi at y = step, .. count step."""

        def one(law: Tilted, _: Loss, times: int) -> Nodes:
            return _powers(*law.centred(step, count), times)

        return self._sum(("nodes", theta, step, count), one, theta)


def envelope_grid(block: int) -> Floats:
    """Return one block of the common grid of y."""
    first = CELLS * block
    return np.asarray(2.0 ** (np.arange(first, first + CELLS) / CELLS_PER_OCTAVE))


def _times(count: int, value: Floats, error: Floats) -> Floats:
    """Return count K and bounds of its errors as two rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = count * value
        error = count * error + 4 * U * np.abs(value)
        bad = ~(np.isfinite(value) & np.isfinite(error))
    return np.where(bad, np.inf, np.array([value, error]))


def _powers(centred: Complexes, error: Floats, count: int) -> Nodes:
    """Return count ln(1 + centred) and the logarithm of what errors multiply by.

    (|phi| + D)^k - |phi|^k bounds the error of phi^k when D bounds that of phi.
    """
    size = np.hypot(1 + centred.real, centred.imag)
    gone = size < 1e-15  # moved a little, so that its logarithm is finite
    centred = np.where(gone, 2e-15 - 1, centred)
    error = np.where(gone, error + 4e-15, error)
    size = np.where(gone, np.abs(1 + centred), size)
    log_one = complex_log1p(centred)
    rounding = np.minimum(np.abs(centred), 1 + np.abs(log_one))
    growth = np.log1p(error / size) + U * (16 * rounding + 4 * np.abs(log_one))
    return Nodes(count * log_one, count * growth)


def log_chernoff(t: Floats) -> Floats:
    """Return ln C(t), C(t) = max over x of (1 - e^-x) e^(-tx), for t > 0."""
    return np.asarray(t * np.log(t) - (1 + t) * np.log1p(t))


def log_or_lowest(x: float) -> float:
    """Return ln(x), -infinity where x is not positive."""
    return math.log(x) if x > 0 else -math.inf
