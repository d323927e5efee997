"""Losses of finitely many values: their lists, their samples, and their transforms.

Many losses form a table with one row each. The formulas are those of
docs/proofs/numerical_accounting.md, section 1.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fastdp.accounting._atoms.lattice import Lattice
from fastdp.accounting._atoms.law import Law, listed_law
from fastdp.accounting._atoms.plan import Cost, in_cells
from fastdp.accounting._pld.batches import TiltedRows
from fastdp.accounting._pld.losses import (
    Batch,
    Complexes,
    Floats,
    Loss,
    Tilted,
    U,
    transform,
    turned,
)

#: Masses below this are not accurate: they may have been raised to the least double.
_LEAST = 1e-290

#: Most numbers of a table of atoms by nodes: computed at once, and in all.
_TABLE, _MOST_TABLE = 1 << 20, 1 << 26

#: Use no lattice with more points than this.
_LONGEST = 1 << 15

#: Most values of a loss that shares a table with other losses.
_MOST_ATOMS = 64


@dataclass(frozen=True, eq=False)
class Atoms:
    """Losses ln(P/Q), their masses under P, and the masses of only one law."""

    losses: Floats  # finite
    masses: Floats  # positive, within a relative 1e-14
    lost: Fraction = Fraction(0)  # mass of P where Q has none: an infinite loss
    other: float = 0.0  # mass of Q where P has none, perhaps rounded up by 1e-13
    blur: float = 0.0  # bound of the errors of the losses
    sure: Fraction | None = None  # a lower bound of `lost`, if that is not exact
    slack: float = 0.0  # `other` exceeds its true value by at most this
    #: Whether masses may be far above their true values, so that they give no lower
    #: bound.
    doubtful: bool = False

    def finite(self, unit: Fraction | None = None) -> ScatteredLoss:
        """Return the loss, given that it is finite."""
        masses = self.masses / float(1 - self.lost)
        return ScatteredLoss(self.losses, masses, self.blur, unit)

    def lowered(self) -> Atoms:
        """Return the law with only its certain masses, for lower bounds."""
        sure = self.lost if self.sure is None else self.sure
        other = max(0.0, self.other - self.slack)
        kept = self.masses >= _LEAST
        if kept.all() and sure == self.lost and other == self.other:
            return self
        losses, masses = self.losses[kept], self.masses[kept]
        if not kept.all():  # keep Q's mass there, drop P's
            other = max(other, self._beside(kept) - self._slip)
        return Atoms(losses, masses, sure, other, self.blur, doubtful=self.doubtful)

    @property
    def _slip(self) -> float:
        """A bound on the error of a sum of Q's masses."""
        return 1e-13 + self.losses.size * U + 2 * self.blur

    def _beside(self, kept: npt.NDArray[np.bool_]) -> float:
        """Return Q's mass where P has no mass, or a mass that is not kept."""
        others = np.exp(np.log(self.masses[kept]) - self.losses[kept])
        return 1 - math.fsum(others)

    def _split(self) -> Atoms:
        """Return an upper law in which masses that may have been raised are lost.

        A mass of P that was raised to the least double does not determine Q's mass.
        """
        kept = self.masses >= _LEAST
        if kept.all():
            return self
        other = min(1.0, max(0.0, self._beside(kept)) + self._slip)
        return replace(
            self,
            losses=self.losses[kept],
            masses=self.masses[kept],
            lost=self.lost + Fraction(2 * math.fsum(self.masses[~kept])),
            other=other,
            sure=self.lost if self.sure is None else self.sure,
            slack=2 * self._slip,
        )

    def exchanged(self) -> Atoms:
        """Return the law of the other direction: Q against P."""
        masses = np.exp(np.log(self.masses) - self.losses)
        return Atoms(
            -self.losses[::-1],
            np.maximum(masses, 5e-324)[::-1],
            Fraction(min(self.other, 1.0)),
            float(self.lost),
            self.blur,
            Fraction(max(0.0, min(self.other, 1.0) - self.slack)),
            doubtful=self.doubtful or bool((self.masses < _LEAST).any()),
        )

    def sampled(self, rate: Fraction, removal: bool) -> Atoms:
        """Return the law on a Poisson sample.

        The removal of a record compares (1 - rate) Q + rate P with Q, the addition
        compares P with (1 - rate) P + rate Q, each from the inner pair of this
        direction.
        """
        q, rest = float(rate), float(1 - rate)
        if rest == 0:  # or less than any double: sampling never hurts
            return self
        if (law := self._split()) is not self:
            return law.sampled(rate, removal)
        least = math.log(rest) if q > 0.5 else math.log1p(-q)
        signed = self.losses if removal else -self.losses
        losses, error = sampled_loss(rate, signed)
        blur = float(np.max(error, initial=0.0)) + self.blur
        if not removal:  # mass that only P had now has a finite loss
            losses = -losses
            masses, lost, sure = self.masses, Fraction(0), None
            own, value = float(self.lost), -least
        else:
            others = np.exp(np.minimum(np.log(self.masses) - self.losses, 0.0))
            masses = self.masses * q + rest * others
            lost, own, value = rate * self.lost, rest * self.other, least
            sure = None if self.sure is None else rate * self.sure
        if own > 0:
            losses, masses = np.append(losses, value), np.append(masses, own)
            blur = max(blur, 4 * U * abs(value))
        order = np.argsort(losses, kind="stable")
        # Mass of Q where P has none: 0 for a removal, q times `other` for an addition.
        other, slack = (0.0, 0.0) if removal else (q * self.other, q * self.slack)
        return Atoms(
            losses[order],
            masses[order],
            lost,
            other,
            blur,
            sure,
            slack,
            self.doubtful,
        )

    def subset(self, rate: Fraction) -> Atoms:
        """Return a law for subsets of fixed size with one record replaced.

        The law must hold for both directions. It equals the removal's law on a Poisson
        sample above 0 and the addition's below 0; the rest of the mass is at 0.
        """
        high, low = self.sampled(rate, True), self.sampled(rate, False)
        above, below = high.losses > 0, low.losses < 0
        losses = np.concatenate([low.losses[below], [0.0], high.losses[above]])
        masses = np.concatenate([low.masses[below], [0.0], high.masses[above]])
        rest = 1 - math.fsum(masses) - float(high.lost)
        masses[np.count_nonzero(below)] = max(rest, 0.0) + 4 * U
        blur = max(high.blur, low.blur)
        return Atoms(
            losses,
            masses,
            high.lost,
            float(high.lost),
            blur,
            high.sure,
            doubtful=self.doubtful,
        )


def sampled_loss(rate: Fraction, loss: Floats) -> tuple[Floats, Floats]:
    """Return ln(1 - rate + rate e^loss) and bounds on its absolute error."""
    q, rest = float(rate), float(1 - rate)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        small = q * np.expm1(np.minimum(loss, 30.0))
        near = np.log1p(small)
        low = np.log(rest + q * np.exp(np.minimum(loss, 30.0)))
        high = loss + np.log(q + rest * np.exp(-loss))
    value = np.where(np.abs(small) < 0.5, near, np.where(loss > 0, high, low))
    return np.asarray(value), np.asarray(32 * U * np.abs(value))


# ---- many at once --------------------------------------------------------------------


class _AtomRows(Batch):
    """Losses with the same number of values, one row each."""

    def __init__(self, losses: tuple[AtomLoss, ...], counts: tuple[int, ...]) -> None:
        self.losses = np.array([loss.losses for loss in losses])
        self.log_masses = np.array([loss.log_masses for loss in losses])
        self.mass_error = max(loss.mass_error for loss in losses)
        self.counts = np.array([float(n) for n in counts])

    def rows(self, t: float) -> tuple[Floats, Floats]:
        """Return K(t) by rows and bounds of the errors."""
        value = _log_sum(t * self.losses + self.log_masses)
        largest = np.abs(self.losses).max(axis=1)
        error = U * (self.losses.shape[1] + 40 + 8 * t * largest) + self.mass_error
        return value, error + 4 * U * np.abs(value)

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        found = [self.rows(each) for each in t.tolist()]
        value = np.array([self.counts @ row for row, _ in found])
        size = np.array([self.counts @ np.abs(row) for row, _ in found])
        error = np.array([self.counts @ slip for _, slip in found])
        return value, error + U * (self.counts.size + 4) * size

    def tilted(self, theta: float) -> TiltedRows:
        return _TiltedAtomRows(self, theta)


class _TiltedAtomRows(TiltedRows):
    def __init__(self, batch: _AtomRows, theta: float) -> None:
        losses, (value, error) = batch.losses, batch.rows(theta)
        self._weight = np.exp(batch.log_masses + theta * losses - value[:, None])
        mean = (self._weight * losses).sum(axis=1)
        super().__init__(batch.counts, value, error, mean)
        self._offset = losses - mean[:, None]
        rounding = error + 2 * batch.mass_error
        rounding = rounding + 8 * U * theta * np.abs(losses).max(axis=1)
        self._error = rounding + U * (losses.shape[1] + 40)
        each = np.abs(losses) + np.abs(mean)[:, None]
        self._slip = 6 * U * (self._weight * each).sum(axis=1)

    def centered(self, y: Floats) -> tuple[Complexes, Floats]:
        value = np.zeros((self.mean.size, y.size), np.complex128)
        size = np.zeros((self.mean.size, y.size))
        for weight, offset in zip(self._weight.T, self._offset.T, strict=True):
            swing = turned(np.multiply.outer(offset, y))
            value += weight[:, None] * swing
            size += weight[:, None] * np.abs(swing)
        slip = np.multiply.outer(self._slip, y)
        return value, size * self._error[:, None] + slip


def _log_sum(power: Floats) -> Floats:
    """Return ln of the sums of e^power over the last axis."""
    peak = power.max(axis=-1)
    total = np.exp(power - peak[..., None]).sum(axis=-1)
    return np.asarray(peak + np.log(total))


# ---- as losses -----------------------------------------------------------------------


class ListedLoss(Loss):
    """A loss of finitely many values."""

    listed = True
    losses: Floats
    log_masses: Floats
    blur: float
    mass_error: float
    unit: Fraction | None

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t), a sum over the values."""
        losses, value = self.losses, np.empty_like(t)
        rows = max(1, _TABLE // losses.size)
        for i in range(0, t.size, rows):
            power = np.multiply.outer(t[i : i + rows], losses) + self.log_masses
            value[i : i + rows] = _log_sum(power)
        largest = float(np.abs(losses).max())
        error = U * (losses.size + 40 + 8 * t * largest) + self.blur * t
        error = error + self.mass_error
        return value, error + 4 * U * np.abs(value)

    @property
    def _rounded(self) -> float:
        """A bound on the relative errors of masses computed from logarithms."""
        return self.mass_error + 4 * U * float(np.abs(self.log_masses).max())

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the list of values, merged into cells if it is long."""
        masses, error = np.exp(self.log_masses), self._rounded
        law = listed_law(self.losses, masses, upper, blur=self.blur, error=error)
        return in_cells(law, cost, cells, upper)

    @functools.cached_property
    def terms(self) -> int:  # type: ignore[override]
        return self.losses.size + 3

    def spacing(self) -> Fraction | None:
        return self.unit

    def lattice(self, log_tail: float) -> Lattice | None:
        """Return the law on the lattice of its unit, if there is one."""
        if self.unit is None:
            return None
        index = np.rint(self.losses / float(self.unit)).astype(np.int64)
        if int(index[-1]) - int(index[0]) > _LONGEST:
            return None
        masses = np.zeros(int(index[-1] - index[0]) + 1)
        np.add.at(masses, index - index[0], np.exp(self.log_masses))
        error = self._rounded + 4 * U
        return Lattice(self.unit, int(index[0]), masses, error=error, blur=self.blur)

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law, of the same values."""
        value, error = self.cumulants(np.array([theta]))
        weights = np.exp(self.log_masses + theta * self.losses - value)
        largest = float(np.abs(self.losses).max())
        rounding = float(error[0]) + 2 * self.mass_error
        rounding += theta * (8 * U * largest + self.blur)
        known = float(value[0]), float(error[0])
        return TiltedAtoms(self.losses, weights, known, rounding, self.blur)


@dataclass(frozen=True)
class AtomLoss(ListedLoss):
    """A loss of finitely many values, all multiples of one number."""

    unit: Fraction  # > 0; within a relative 4e-16 of that number
    indices: tuple[int, ...]  # the losses in units, ascending
    masses: tuple[float, ...]  # under P, positive, each within a relative 1e-14
    batch: ClassVar[type[_AtomRows]] = _AtomRows
    blur = 0.0
    mass_error = 1e-14

    @property
    def width(self) -> int:  # type: ignore[override]
        """The number of values; 0 if there are too many for a table."""
        return len(self.masses) if len(self.masses) <= _MOST_ATOMS else 0

    @functools.cached_property
    def losses(self) -> Floats:  # type: ignore[override]
        return np.array([float(self.unit * i) for i in self.indices])

    @functools.cached_property
    def log_masses(self) -> Floats:  # type: ignore[override]
        return np.log(self.masses)


@dataclass(frozen=True, eq=False)
class ScatteredLoss(ListedLoss):
    """A loss of finitely many values, with or without a common unit."""

    losses: Floats  # ascending
    masses: Floats  # under P
    blur: float = 0.0  # bound of the absolute errors of the losses
    unit: Fraction | None = None  # what all losses are multiples of, if it is known
    mass_error: float = 1e-13  # bound of the relative errors of the masses

    @functools.cached_property
    def log_masses(self) -> Floats:  # type: ignore[override]
        return np.log(np.maximum(self.masses, 5e-324))

    @functools.cached_property
    def _key(self) -> tuple[object, ...]:
        return self.losses.tobytes(), self.masses.tobytes(), self.blur, self.unit

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScatteredLoss) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class TiltedAtoms(Tilted):
    """A tilted law of finitely many values."""

    def __init__(
        self,
        losses: Floats,
        weights: Floats,  # probabilities under the tilt
        cumulant: tuple[float, float],  # K(theta) and a bound of its error
        rounding: float,  # bound of the weights' relative errors
        blur: float,  # bound of the losses' absolute errors
        missing: float = 0.0,  # bound of the probability of other values
        mean: float | None = None,  # an approximate mean; None: that of the weights
    ) -> None:
        self.cumulant, self.cumulant_error = cumulant
        self._weight = weights
        self.mean = float(weights @ losses) if mean is None else mean
        self._offset = losses - self.mean
        self._error, self._missing = rounding, 4 * missing
        self._slip = 6 * U * (np.abs(losses) + abs(self.mean)) + blur

    def envelope(self, y: Floats) -> Floats:
        return np.ones_like(y)

    def centered(self, step: float, count: int) -> tuple[Complexes, Floats]:
        if count * self._weight.size > _MOST_TABLE:
            raise OverflowError("too many atoms for a contour")
        errors = self._weight * (self._error + U * (self._weight.size + 40))
        value, error = transform(self._offset, self._weight, errors, step, count)
        y = step * np.arange(1, count + 1)
        return value, error + y * float(self._weight @ self._slip) + self._missing


def pure_loss(epsilon: Fraction) -> AtomLoss:
    """Return the loss of randomized response."""
    falling = math.exp(-float(epsilon))
    return AtomLoss(epsilon, (-1, 1), (falling / (1 + falling), 1 / (1 + falling)))
