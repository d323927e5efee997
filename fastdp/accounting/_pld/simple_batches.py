"""Many losses of Laplace noise, or of few values, at once, for the contour accountant.

One row for each loss; the formulas are those of docs/proofs/numerical_accounting.md.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fastdp.accounting._pld.batches import (
    Batch,
    LoopBatch,
    Nodes,
    Tilt,
    TiltedBatch,
    log_envelope_of,
    powers,
    summed,
    total,
)
from fastdp.accounting._pld.losses import Complexes, Floats, U, complex_expm1, turned

if TYPE_CHECKING:
    from fastdp.accounting._pld.simple_losses import AtomLoss, LaplaceLoss

#: Boxes under the density of Laplace noise, and nodes on which it is cut for them.
_BOX_NODES = 64

#: Most values of a loss in a table, and numbers in a table that is computed at once.
_MOST_ATOMS, _TABLE = 64, 1 << 15

#: Losses up to which each is taken for itself.
_FEW = 2


class _Rows(Protocol):
    """Tilted laws by rows."""

    cumulant: Floats
    cumulant_error: Floats
    mean: Floats

    def centered(self, y: Floats) -> tuple[Complexes, Floats]:
        """Return phi(y) exp(-iy mean) - 1 and a bound of its absolute error."""


def _nodes(rows: _Rows, counts: Floats, step: float, count: int) -> tuple[Tilt, Nodes]:
    """Return the sums over rows, counts times each, at y = step, .. count step."""
    tilt = summed(counts, rows.cumulant, rows.cumulant_error, rows.mean)
    y: Floats = np.asarray(step * np.arange(1.0, count + 1))
    parts = max(1, _TABLE // counts.size)
    found = [
        powers(*rows.centered(y[i : i + parts]), counts) for i in range(0, count, parts)
    ]
    log_phi = np.concatenate([part.log_phi for part in found])
    return tilt, Nodes(log_phi, np.concatenate([part.growth for part in found]))


# ---- Laplace noise -----------------------------------------------------------------


class LaplaceLaws:
    """Tilted: atoms w_+ and w_- and the density c e^((theta + 1/2) loss) between them.

    Parameters
    ----------
    epsilon, top, atom : ndarray of float64
        By rows: the largest loss, the density and the mass there.
    theta : float
        The tilt.
    """

    def __init__(
        self, epsilon: Floats, top: Floats, atom: Floats, theta: float
    ) -> None:
        e = self._e = epsilon
        value, error = laplace_cumulants(e, top, atom, np.array([theta]))
        self.cumulant, self.cumulant_error = value[:, 0], error[:, 0]
        self._rate = theta + 0.5
        shift = np.exp(theta * e - self.cumulant)
        self._above = atom * shift
        self._below = self._above * np.exp(-2 * self._rate * e)
        self._top = top * shift  # of the density, at the upper end
        self._still = -np.expm1(-2 * self._rate * e) / self._rate
        middle = e / np.tanh(self._rate * e) - 1 / self._rate
        inside = self._top * self._still
        self.mean = (self._above - self._below) * e + inside * middle
        self._error = self.cumulant_error + 8 * U * theta * e + 60 * U

    def boxes(self) -> tuple[Floats, Floats]:
        """Return weights and half lengths (theorem 3): the density rises to its end."""
        length = np.multiply.outer(self._e, np.linspace(0, 2, _BOX_NODES)[1:])
        value = self._top[:, None] * np.exp(-self._rate * length)
        weight = value * length
        weight[:, :-1] -= value[:, 1:] * length[:, :-1]
        return np.maximum(weight, 0.0) * (1 - 1e-9), length / 2

    def far(self, y: Floats) -> Floats:
        """Bound |phi| by the atoms and, by parts, the density."""
        rest = 2 * np.multiply.outer(self._top, 1 / y)
        return np.asarray((self._above + self._below)[:, None] + rest + 1e-12)

    def centered(self, y: Floats) -> tuple[Complexes, Floats]:
        """Return phi(y) exp(-iy mean) - 1 and a bound of its absolute error."""
        e, mean = self._e[:, None], self.mean[:, None]
        up = turned(y * (e - mean))
        down = turned(-y * (e + mean))
        z: Complexes = np.asarray(self._rate + 1j * y)
        # top e^(-iy mean) e^(iye) (1 - e^(-2 z e))/z, less its value at y = 0
        wave = (up + 1) * -complex_expm1(np.asarray(-2 * e * z)) / z
        top, still = self._top[:, None], self._still[:, None]
        value = self._above[:, None] * up + self._below[:, None] * down
        value = value + top * (wave - still)
        size = np.minimum(2.0, y * 2 * e)
        slip = 12 * U * y * (e + np.abs(mean))
        return value, self._error[:, None] * size + slip + 60 * U * top * still


def laplace_cumulants(
    e: Floats, top: Floats, atom: Floats, t: Floats
) -> tuple[Floats, Floats]:
    """Return K(t) by rows, and bounds of the errors.

    The density's part is top (1 - e^-w)/(t + 1/2) e^(t e), w = 2 (t + 1/2) e.
    """
    width = 2 * np.multiply.outer(e, t + 0.5)
    rest = (2 * top * e)[:, None] * -np.expm1(-width) / width
    rest = rest + atom[:, None] * (1 + np.exp(-width))
    power = np.multiply.outer(e, t)
    return power + np.log(rest), U * (40 + 8 * power)


class LaplaceBatch(Batch):
    """Losses of Laplace noise with their counts."""

    def __init__(
        self, losses: tuple[LaplaceLoss, ...], counts: tuple[int, ...]
    ) -> None:
        self._losses, self._count_of = losses, counts
        self._laws = laplace_rows(losses)
        self._counts = np.array([float(n) for n in counts])

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the sum of K(t) and bounds of its errors."""
        value, error = laplace_cumulants(*self._laws, t)
        error = error + U * (self._counts.size + 4) * np.abs(value)
        return self._counts @ value, self._counts @ error

    def tilted(self, theta: float) -> TiltedBatch:
        """Return the laws tilted at theta."""
        if len(self._losses) <= _FEW:
            return LoopBatch(self._losses, self._count_of).tilted(theta)
        return _TiltedLaplaces(LaplaceLaws(*self._laws, theta), self._counts)


def laplace_rows(losses: tuple[LaplaceLoss, ...]) -> tuple[Floats, Floats, Floats]:
    """Return the largest losses, the densities and the masses there."""
    return (
        np.array([float(loss.epsilon) for loss in losses]),
        np.array([loss.top for loss in losses]),
        np.array([0.5 if loss.ends else 0.0 for loss in losses]),
    )


class _TiltedLaplaces(TiltedBatch):
    def __init__(self, laws: LaplaceLaws, counts: Floats) -> None:
        self._laws, self._counts = laws, counts

    @functools.cached_property
    def _boxes(self) -> tuple[Floats, Floats]:
        return self._laws.boxes()

    def log_envelope(self, y: Floats) -> Floats:
        return log_envelope_of([(*self._boxes, self._counts)], y)

    def nodes(self, step: float, count: int) -> tuple[Tilt, Nodes]:
        return _nodes(self._laws, self._counts, step, count)


# ---- few values --------------------------------------------------------------------


class AtomBatch(Batch):
    """Losses of finitely many values, by how many, with their counts."""

    def __init__(self, losses: tuple[AtomLoss, ...], counts: tuple[int, ...]) -> None:
        sizes: dict[int, list[int]] = {}
        for i, loss in enumerate(losses):
            m = len(loss.masses)
            sizes.setdefault(m if m <= _MOST_ATOMS else 0, []).append(i)
        self._parts: list[Batch] = []
        for m, rows in sizes.items():
            some = tuple(losses[i] for i in rows), tuple(counts[i] for i in rows)
            self._parts.append(_AtomRows(*some) if m else LoopBatch(*some))

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the sum of K(t) and bounds of its errors."""
        value, error = np.zeros_like(t), np.zeros_like(t)
        for part in self._parts:
            more, slip = part.cumulants(t)
            value = value + more
            error = error + slip + U * np.abs(value)
        return value, error

    def tilted(self, theta: float) -> TiltedBatch:
        """Return the laws tilted at theta."""
        return _TiltedParts([part.tilted(theta) for part in self._parts])


class _TiltedParts(TiltedBatch):
    def __init__(self, parts: list[TiltedBatch]) -> None:
        self._parts = parts

    def log_envelope(self, y: Floats) -> Floats:
        return np.asarray(sum(part.log_envelope(y) for part in self._parts))

    def nodes(self, step: float, count: int) -> tuple[Tilt, Nodes]:
        return total(part.nodes(step, count) for part in self._parts)


class _AtomRows(Batch):
    """Losses of as many values each."""

    def __init__(self, losses: tuple[AtomLoss, ...], counts: tuple[int, ...]) -> None:
        self.losses = np.array([loss.losses for loss in losses])
        self.log_masses = np.array([loss.log_masses for loss in losses])
        self.mass_error = max(loss.mass_error for loss in losses)
        self.counts = np.array([float(n) for n in counts])

    def rows(self, t: float) -> tuple[Floats, Floats]:
        """Return K(t) by rows and bounds of the errors."""
        power = t * self.losses + self.log_masses
        peak = power.max(axis=1)
        value = peak + np.log(np.exp(power - peak[:, None]).sum(axis=1))
        largest = np.abs(self.losses).max(axis=1)
        error = U * (self.losses.shape[1] + 40 + 8 * t * largest) + self.mass_error
        return value, error + 4 * U * np.abs(value)

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the sum of K(t) and bounds of its errors."""
        found = [self.rows(each) for each in t.tolist()]
        value = np.array([self.counts @ row for row, _ in found])
        size = np.array([self.counts @ np.abs(row) for row, _ in found])
        error = np.array([self.counts @ slip for _, slip in found])
        return value, error + U * (self.counts.size + 4) * size

    def tilted(self, theta: float) -> TiltedBatch:
        """Return the laws tilted at theta."""
        return _TiltedAtomRows(self, theta)


class _TiltedAtomRows(TiltedBatch):
    def __init__(self, batch: _AtomRows, theta: float) -> None:
        self._counts = batch.counts
        self.cumulant, self.cumulant_error = batch.rows(theta)
        losses = batch.losses
        level = batch.log_masses + theta * losses - self.cumulant[:, None]
        self._weight = np.exp(level)
        self.mean = (self._weight * losses).sum(axis=1)
        self._offset = losses - self.mean[:, None]
        rounding = self.cumulant_error + 2 * batch.mass_error
        rounding = rounding + 8 * U * theta * np.abs(losses).max(axis=1)
        self._error = rounding + U * (losses.shape[1] + 40)
        each = np.abs(losses) + np.abs(self.mean)[:, None]
        self._slip = 6 * U * (self._weight * each).sum(axis=1)

    def log_envelope(self, y: Floats) -> Floats:
        return np.zeros_like(y)

    def centered(self, y: Floats) -> tuple[Complexes, Floats]:
        """Return phi(y) exp(-iy mean) - 1 and a bound of its absolute error."""
        value = np.zeros((self.mean.size, y.size), np.complex128)
        size = np.zeros((self.mean.size, y.size))
        for weight, offset in zip(self._weight.T, self._offset.T, strict=True):
            swing = turned(np.multiply.outer(offset, y))
            value += weight[:, None] * swing
            size += weight[:, None] * np.abs(swing)
        slip = np.multiply.outer(self._slip, y)
        return value, size * self._error[:, None] + slip

    def nodes(self, step: float, count: int) -> tuple[Tilt, Nodes]:
        return _nodes(self, self._counts, step, count)
