"""Sums over many losses at once: what a composition adds up.

A kind of loss may have a batch of its own, with one table for all losses where a loop
would take them one by one (`Loss.batch`); the others go through `LoopBatch`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fastdp.accounting._pld.losses import (
    Complexes,
    Floats,
    Loss,
    Tilted,
    U,
    complex_log1p,
    sup_sinc,
)

_LOWEST = -1e5

#: Boxes of a law that are not put together by size.
_FEW_BOXES = 512

#: Boxes of more rows than this are taken together, by size: 2^(1/_SIZES) apart.
_FEW_ROWS, _SIZES = 2, 16

#: Weights and half lengths of uniform laws below others', by rows, and counts.
Boxes = tuple[Floats, Floats, Floats]


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


class TiltedBatch(ABC):
    """The losses of a batch, tilted by exp(theta L)."""

    @abstractmethod
    def log_envelope(self, y: Floats) -> Floats:
        """Bound the sum of ln |phi| from y > 0 on by what does not grow with y."""

    @abstractmethod
    def nodes(self, step: float, count: int) -> tuple[Tilt, Nodes]:
        """Return the sums of K(theta), of means, and of ln phi at multiples of step."""


class Batch(ABC):
    """Losses with their counts, of which only sums are asked for."""

    @abstractmethod
    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the sum of K(t) and bounds of its errors; infinite where given up."""

    @abstractmethod
    def tilted(self, theta: float) -> TiltedBatch:
        """Return the laws tilted at theta."""


class LoopBatch(Batch):
    """Losses of any kind, taken one by one."""

    def __init__(self, losses: tuple[Loss, ...], counts: tuple[int, ...]) -> None:
        self._steps = tuple(zip(losses, counts, strict=True))

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the sum of K(t) and bounds of its errors; infinite where given up."""
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


def total(parts: Iterable[tuple[Tilt, Nodes]]) -> tuple[Tilt, Nodes]:
    """Return the sums of some parts, of one at least."""
    return functools.reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]), parts)


def summed(counts: Floats, value: Floats, error: Floats, mean: Floats) -> Tilt:
    """Return the sums of K(theta) and of means over rows, counts times each."""
    slip = U * (counts.size + 4)
    return Tilt(
        float(counts @ value),
        float(counts @ (error + slip * np.abs(value))),
        float(counts @ mean),
        float(counts @ np.abs(mean)) * slip,
    )


def batches_of(steps: tuple[tuple[Loss, int], ...]) -> list[Batch]:
    """Return batches, one for each kind of loss that has a form for many at once."""
    kinds: dict[type[Loss], list[tuple[Loss, int]]] = {}
    for loss, count in steps:
        kinds.setdefault(type(loss), []).append((loss, count))
    batches = []
    for kind, found in kinds.items():
        losses, counts = zip(*found, strict=True)
        make = vars(kind).get("batch") or LoopBatch  # a subclass is another law
        batches.append(make(losses, counts))
    return batches


def _times(count: int, value: Floats, error: Floats) -> Floats:
    """Return count K and bounds of its errors as two rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = count * value
        error = count * error + 4 * U * np.abs(value)
        bad = ~(np.isfinite(value) & np.isfinite(error))
    return np.where(bad, np.inf, np.array([value, error]))


def powers(centered: Complexes, error: Floats, counts: Floats) -> Nodes:
    """Return the sum over rows of counts ln(1 + centered), and of what errors do to it.

    (|phi| + D)^k - |phi|^k bounds the error of phi^k when D bounds that of phi.
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
    total = counts @ growth
    if counts.size > 1:
        total = total + U * (counts.size + 2) * (counts @ length)
    return Nodes(counts @ log_one, total)


def log_envelope_of(boxes: list[Boxes], y: Floats) -> Floats:
    """Bound the sum of ln |phi| by boxes under the laws (theorem 3).

    1 - |phi| is at least the sum of weights times 1 - S(half length y). The boxes of
    many rows are one row, by size, because ln(1 - x) is at most -x.
    """
    if sum(count.size for _, _, count in boxes) > _FEW_ROWS:
        weight = np.concatenate([(count[:, None] * w).ravel() for w, _, count in boxes])
        half = np.concatenate([h.ravel() for _, h, _ in boxes])
        weight, half = _by_size(weight, half)
        return -(one_less_sinc(np.multiply.outer(y, half)) @ weight) * (1 - 1e-9)
    result = np.zeros_like(y)
    for weights, halves, counts in boxes:
        for row, lengths, count in zip(weights, halves, counts, strict=True):
            weight, half = _by_size(row, lengths)
            loss = one_less_sinc(np.multiply.outer(y, half)) @ weight * (1 - 1e-9)
            result += count * np.log1p(-np.minimum(loss, 1 - 1e-15))
    return result


def _by_size(weight: Floats, half: Floats) -> tuple[Floats, Floats]:
    """Return boxes with lengths rounded down to one of few; short lists as they are."""
    if weight.size <= _FEW_BOXES:
        return weight, half
    used = weight > 0
    size = np.floor(_SIZES * np.log2(half[used]) - 1e-6).astype(np.int64)
    least = int(size.min(initial=0))
    merged = np.bincount(size - least, weight[used]).astype(np.float64, copy=False)
    lengths = np.exp2((least + np.arange(merged.size)) / _SIZES)
    return merged[merged > 0], lengths[merged > 0]


def unit_steps(turn: Floats, width: int, starts: int) -> tuple[Complexes, Complexes]:
    """Return e^(ik turn) - 1 for 0 < k < width, and for k = 1, 1 + width, ..

    `width` is a power of two; of shapes (rows, width - 1, nodes), (rows, starts,
    nodes). Each is made of two others, f and g, as f g + f + g: its error is below
    (4 + 8 log2 k) U k |turn|.
    """
    half = np.sin(0.5 * turn)
    near = np.empty((turn.shape[0], width, turn.shape[1]), np.complex128)
    near[:, 0].real, near[:, 0].imag = -2 * half * half, np.sin(turn)
    _doubled(near, near[:, 0])
    far = np.empty((turn.shape[0], starts, turn.shape[1]), np.complex128)
    far[:, 0] = near[:, 0]
    _doubled(far, near[:, -1])
    return near[:, :-1], far


def _doubled(table: Complexes, jump: Complexes) -> None:
    """Fill a table from its first column, each later one a jump from that before."""
    known = 1
    while known < table.shape[1]:
        old = table[:, : min(known, table.shape[1] - known)]
        new = table[:, known : known + old.shape[1]]
        np.multiply(old, jump[:, None], out=new)
        new += old
        new += jump[:, None]
        jump = jump * jump + 2 * jump
        known *= 2


def one_less_sinc(v: Floats) -> Floats:
    """Return at most 1 - sup |sin w/w| over w >= v, accurate also for small v."""
    square = v * v
    return np.where(v < 0.5, square / 6 * (1 - square / 20), 1 - sup_sinc(v))
