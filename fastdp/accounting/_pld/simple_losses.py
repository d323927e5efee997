"""Losses of finitely many values and of Laplace noise, for the contour accountant."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from fastdp.accounting._atoms.interval import interval_cells, interval_edges
from fastdp.accounting._atoms.lattice import Lattice
from fastdp.accounting._atoms.law import Law
from fastdp.accounting._atoms.listed import in_cells, listed_law
from fastdp.accounting._atoms.plan import Cost
from fastdp.accounting._pld.batches import one_less_sinc
from fastdp.accounting._pld.losses import (
    Complexes,
    Floats,
    Loss,
    Tilted,
    U,
    turned,
)
from fastdp.accounting._pld.simple_batches import (
    AtomBatch,
    LaplaceBatch,
    LaplaceLaws,
    laplace_cumulants,
    laplace_rows,
)

#: Numbers in a table of atoms by nodes that are computed at once, and in all.
_TABLE, _MOST_TABLE = 1 << 20, 1 << 26

#: Points of a lattice beyond which one is not used.
_LONGEST = 1 << 15


class _Atoms(Loss):
    """A loss of finitely many values."""

    losses: Floats
    log_masses: Floats
    blur: float
    mass_error: float
    unit: Fraction | None

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t), a sum of as many terms."""
        losses, value = self.losses, np.empty_like(t)
        rows = max(1, _TABLE // losses.size)
        for i in range(0, t.size, rows):
            power = np.multiply.outer(t[i : i + rows], losses) + self.log_masses
            peak = power.max(axis=1)
            total = np.exp(power - peak[:, None]).sum(axis=1)
            value[i : i + rows] = peak + np.log(total)
        largest = float(np.abs(losses).max())
        error = U * (losses.size + 40 + 8 * t * largest) + self.blur * t
        error = error + self.mass_error
        return value, error + 4 * U * np.abs(value)

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the list, in cells where it is long."""
        masses = np.exp(self.log_masses)
        error = self.mass_error + 4 * U * float(np.abs(self.log_masses).max())
        law = listed_law(self.losses, masses, upper, blur=self.blur, error=error)
        return in_cells(law, cost, cells, upper)

    @functools.cached_property
    def terms(self) -> int:  # type: ignore[override]
        """How many exponentials a node of a contour takes, or so."""
        return self.losses.size + 3

    def spacing(self) -> Fraction | None:
        """Return what all losses are multiples of, if there is such a number."""
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
        error = self.mass_error + 4 * U * float(np.abs(self.log_masses).max()) + 4 * U
        first = int(index[0])
        return Lattice(self.unit, first, masses, error=error, blur=self.blur)

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
class AtomLoss(_Atoms):
    """A loss of finitely many values, all multiples of one number.

    Parameters
    ----------
    unit : Fraction
        > 0; within a relative 4e-16 of what the losses are multiples of.
    indices : tuple of int
        The losses in units of `unit`, ascending.
    masses : tuple of float
        Their probabilities under P, positive, each within a relative 1e-14.
    """

    unit: Fraction
    indices: tuple[int, ...]
    masses: tuple[float, ...]
    blur = 0.0
    batch: ClassVar[type[AtomBatch]] = AtomBatch
    mass_error = 1e-14

    @functools.cached_property
    def losses(self) -> Floats:  # type: ignore[override]
        """Return the losses."""
        return np.array([float(self.unit * i) for i in self.indices])

    @functools.cached_property
    def log_masses(self) -> Floats:  # type: ignore[override]
        """Return the logarithms of the probabilities."""
        return np.log(self.masses)


@dataclass(frozen=True, eq=False)
class ScatteredLoss(_Atoms):
    """A loss of finitely many values that need have no common unit.

    Parameters
    ----------
    losses, masses : ndarray of float64
        The losses, ascending, and their probabilities under P.
    blur : float
        Bound of the absolute errors of the losses.
    unit : Fraction, optional
        What all losses are multiples of, if that is known.
    mass_error : float, optional
        Bound of the relative errors of the masses.
    """

    losses: Floats
    masses: Floats
    blur: float = 0.0
    unit: Fraction | None = None
    mass_error: float = 1e-13

    @functools.cached_property
    def log_masses(self) -> Floats:  # type: ignore[override]
        """Return the logarithms of the probabilities."""
        return np.log(np.maximum(self.masses, 5e-324))

    @functools.cached_property
    def _key(self) -> tuple[object, ...]:
        return self.losses.tobytes(), self.masses.tobytes(), self.blur, self.unit

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScatteredLoss) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class TiltedAtoms(Tilted):
    """A tilted law of finitely many values.

    Parameters
    ----------
    losses, weights : ndarray of float64
        The values and their probabilities under the tilt.
    cumulant : (float, float)
        K(theta) and a bound of its error.
    rounding, blur : float
        Bounds of the weights' relative and the losses' absolute errors.
    missing : float, optional
        Bound of the probability of other values.
    mean : float, optional
        About the mean, where another one than that of the weights is to be used.
    """

    def __init__(
        self,
        losses: Floats,
        weights: Floats,
        cumulant: tuple[float, float],
        rounding: float,
        blur: float,
        missing: float = 0.0,
        mean: float | None = None,
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
        y = step * np.arange(1, count + 1)
        value, size = np.empty(count, np.complex128), np.empty(count)
        rows = max(1, _TABLE // self._weight.size)
        for i in range(0, count, rows):
            part = slice(i, i + rows)
            swing = turned(np.multiply.outer(y[part], self._offset))
            value[part], size[part] = swing @ self._weight, np.abs(swing) @ self._weight
        error = size * (self._error + U * (self._weight.size + 40))
        return value, error + y * float(self._weight @ self._slip) + self._missing


@dataclass(frozen=True)
class LaplaceLoss(Loss):
    """A density e^(loss/2) from -epsilon to epsilon, perhaps between atoms; symmetric.

    That of Laplace noise, epsilon = sensitivity/scale, has atoms at epsilon (1/2) and
    -epsilon (e^-epsilon/2), and the density e^((loss - epsilon)/2)/4. The density
    without atoms dominates all of bounded range epsilon.
    """

    epsilon: Fraction
    ends: bool = True

    batch: ClassVar[type[LaplaceBatch]] = LaplaceBatch

    @property
    def top(self) -> float:
        """Return the density at epsilon."""
        return 0.25 if self.ends else -0.5 / math.expm1(-float(self.epsilon))

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t) = ln of the sum of both atoms' and the density's parts."""
        value, error = laplace_cumulants(*laplace_rows((self,)), t)
        return value[0], error[0]

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law: two atoms and an exponential density."""
        return _TiltedLaplace(self, theta)

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the law by cells, merged or split."""
        e = float(self.epsilon)
        edges = interval_edges(e, self.ends, lambda x: x, cost, cells)
        losses, masses = interval_cells(e, self.ends, edges, upper)
        if self.ends:
            losses = np.concatenate([[-e], losses, [e]])
            masses = np.concatenate([[0.5 * math.exp(-e)], masses, [0.5]])
        law = listed_law(losses, masses, upper, error=1e-13)
        return replace(law, listed=False)


class _TiltedLaplace(Tilted):
    def __init__(self, loss: LaplaceLoss, theta: float) -> None:
        laws = self._laws = LaplaceLaws(*laplace_rows((loss,)), theta)
        self.cumulant = float(laws.cumulant[0])
        self.cumulant_error = float(laws.cumulant_error[0])
        self.mean = float(laws.mean[0])

    def envelope(self, y: Floats) -> Floats:
        weight, half = self._laws.boxes()
        loss = one_less_sinc(np.multiply.outer(y, half[0])) @ weight[0]
        return np.asarray(np.minimum(1 - loss + 1e-12, self._laws.far(y)[0]))

    def centered(self, step: float, count: int) -> tuple[Complexes, Floats]:
        y: Floats = np.asarray(step * np.arange(1.0, count + 1))
        value, error = self._laws.centered(y)
        return value[0], error[0]
