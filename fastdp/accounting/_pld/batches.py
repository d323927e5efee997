"""Batches of losses: sums of their cumulants, means and transforms."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterable

import numpy as np

from fastdp.accounting._numeric import product
from fastdp.accounting._pld.losses import (
    TABLE,
    Batch,
    Complexes,
    Floats,
    Loss,
    Nodes,
    Tilt,
    Tilted,
    TiltedBatch,
    U,
    complex_log1p,
)

#: Stands for ln 0.
_LOWEST = -1e5


class LoopBatch(Batch):
    """Losses of any kind, handled one by one."""

    def __init__(self, losses: tuple[Loss, ...], counts: tuple[int, ...]) -> None:
        self._steps = tuple(zip(losses, counts, strict=True))

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the sum of K(t) and its error bounds; infinite where unknown."""
        both = np.zeros((2, t.size))
        for loss, count in self._steps:
            both = both + _times(count, *loss.cumulants(t))
        return both[0], both[1] + U * len(self._steps) * np.abs(both[0])

    def tilted(self, theta: float) -> TiltedBatch:
        """Return the laws tilted at theta."""
        return _TiltedLoop([(loss.tilted(theta, n), n) for loss, n in self._steps])


class _TiltedLoop(TiltedBatch):
    def __init__(self, laws: list[tuple[Tilted, int]]) -> None:
        self._laws = laws

    def log_envelope(self, y: Floats) -> Floats:
        total = np.zeros_like(y)
        for law, count in self._laws:
            with np.errstate(divide="ignore"):
                bound = np.log(law.envelope(y)) * count * (1 - 1e-9)
            total = total + np.maximum(bound, _LOWEST)
        return total

    def nodes(self, step: float, count: int) -> tuple[Tilt, Nodes]:
        return total([self._one(law, n, step, count) for law, n in self._laws])

    def _one(self, law: Tilted, n: int, step: float, count: int) -> tuple[Tilt, Nodes]:
        value, mean = n * law.cumulant, n * law.mean
        error = n * law.cumulant_error + U * abs(value)
        centered, slip = law.centered(step, count)
        times = np.array([float(n)])
        return (
            Tilt(value, error, mean, U * abs(mean)),
            powers(centered[None, :], slip[None, :], times),
        )


class TiltedRows(TiltedBatch):
    """Tilted laws by rows: their counts, K(theta) with its errors, and means."""

    def __init__(
        self, counts: Floats, cumulant: Floats, error: Floats, mean: Floats
    ) -> None:
        self.counts, self.cumulant, self.cumulant_error = counts, cumulant, error
        self.mean = mean

    def log_envelope(self, y: Floats) -> Floats:
        """Return 0, for laws whose transforms do not decay."""
        return np.zeros_like(y)

    @abstractmethod
    def centered(self, y: Floats) -> tuple[Complexes, Floats]:
        """Return phi(y) exp(-iy mean) - 1 by rows, and bounds of its errors."""

    def nodes(self, step: float, count: int) -> tuple[Tilt, Nodes]:
        """Return the sums over rows, weighted by counts, at y = step, .. count step."""
        tilt = summed(self.counts, self.cumulant, self.cumulant_error, self.mean)
        y: Floats = np.asarray(step * np.arange(1.0, count + 1))
        width = max(1, TABLE // self.counts.size)
        parts = [
            powers(*self.centered(y[i : i + width]), self.counts)
            for i in range(0, count, width)
        ]
        log_phi = np.concatenate([part.log_phi for part in parts])
        return tilt, Nodes(log_phi, np.concatenate([part.growth for part in parts]))


def total(parts: Iterable[tuple[Tilt, Nodes]]) -> tuple[Tilt, Nodes]:
    """Return the sums over at least one part."""
    return functools.reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]), parts)


def summed(counts: Floats, value: Floats, error: Floats, mean: Floats) -> Tilt:
    """Return the sums of K(theta) and of means over rows, weighted by counts."""
    slip = U * (counts.size + 4)
    return Tilt(
        float(counts @ value),
        float(counts @ (error + slip * np.abs(value))),
        float(counts @ mean),
        float(counts @ np.abs(mean)) * slip,
    )


def batches_of(steps: tuple[tuple[Loss, int], ...]) -> list[Batch]:
    """Return batches, one for each kind of loss that has a batch form."""
    kinds: dict[tuple[type[Loss], int], list[tuple[Loss, int]]] = {}
    for loss, count in steps:
        kinds.setdefault((type(loss), loss.width), []).append((loss, count))
    batches = []
    for (kind, width), found in kinds.items():
        losses, counts = zip(*found, strict=True)
        # A subclass is a different law: it does not inherit the batch.
        make = kind.batch if width and "batch" in vars(kind) else None
        batches.append((make or LoopBatch)(losses, counts))
    return batches


def _times(count: int, value: Floats, error: Floats) -> Floats:
    """Return count K and bounds of its errors as two rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = count * value
        error = count * error + 4 * U * np.abs(value)
        bad = ~(np.isfinite(value) & np.isfinite(error))
    return np.where(bad, np.inf, np.array([value, error]))


def powers(centered: Complexes, error: Floats, counts: Floats) -> Nodes:
    """Return the sum over rows of counts ln(1 + centered), and its error bounds.

    (|phi| + D)^k - |phi|^k bounds the error of phi^k if D bounds the error of phi.
    """
    real, imag = 1 + centered.real, centered.imag
    size = np.hypot(real, imag)
    gone = size < 1e-15  # moved a little, so that its logarithm is finite
    if gone.any():
        centered = np.where(gone, 2e-15 - 1, centered)
        error = np.where(gone, error + 4e-15, error)
        size = np.where(gone, np.abs(1 + centered), size)
    log_one = complex_log1p(centered)
    length = np.abs(log_one)
    rounding = np.minimum(np.abs(centered), 1 + length)
    growth = np.log1p(error / size) + U * (16 * rounding + 4 * length)
    total = product(counts, growth)
    if counts.size > 1:
        total = total + U * (counts.size + 2) * product(counts, length)
    return Nodes(product(counts, log_one), total)
