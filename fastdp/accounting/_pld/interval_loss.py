"""Losses with an exponential density on an interval, seen through a sample.

Laplace noise has atoms at both ends and the density e^(l/2) between them; a loss of
bounded range has that density alone. On a sample losses become ln(1 - rate + rate e^l),
a function that keeps the order: so any cell of the sample's losses is a cell of the
inner ones, and its masses under both laws are known (section 1 of
docs/proofs/numerical_accounting.md).
"""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fastdp.accounting._atoms.interval import (
    interval_cells,
    interval_density,
    interval_edges,
)
from fastdp.accounting._atoms.law import Law
from fastdp.accounting._atoms.listed import listed_law
from fastdp.accounting._atoms.plan import Cost
from fastdp.accounting._pld.atoms import Atoms, sampled_loss
from fastdp.accounting._pld.losses import Complexes, Floats, Loss, Tilted, U
from fastdp.accounting._pld.simple_losses import ScatteredLoss, TiltedAtoms

#: Largest order plus 2, times epsilon, at which the cumulants are known.
_MOST_ORDER = 3200.0

#: Nodes on each piece of a quadrature, and in all.
_NODES, _MOST_NODES = 20, 1 << 16

#: Bound of a quadrature's error, relative to the integral of the modulus.
_QUADRATURE = 1e-18


class View(enum.Enum):
    """How a sample is compared."""

    REMOVAL = 1
    ADDITION = 2
    #: Subsets of fixed size, one record replaced.
    SUBSET = 3


def seen(atoms: Atoms, rate: Fraction, view: View) -> Atoms:
    """Return what the sample makes of a law that holds in both directions."""
    if view is View.SUBSET:
        return atoms.subset(rate)
    return atoms.sampled(rate, view is View.REMOVAL)


def scattered(atoms: Atoms, unit: Fraction | None = None) -> ScatteredLoss:
    """Return the loss of atoms, given that it is finite."""
    masses = atoms.masses / float(1 - atoms.lost)
    return ScatteredLoss(atoms.losses, masses, atoms.blur, unit)


@dataclass(frozen=True)
class IntervalLoss(Loss):
    """An exponential density between -epsilon and epsilon, on a sample.

    Parameters
    ----------
    epsilon : Fraction
        > 0; the largest inner loss.
    ends : bool
        Whether the density is between atoms, as that of Laplace noise.
    rate : Fraction
        Sampling rate, > 0 and <= 1.
    view : View
        How the sample is compared.
    """

    epsilon: Fraction
    ends: bool
    rate: Fraction
    view: View

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t), from a quadrature; infinite for the largest orders."""
        value, error = np.full_like(t, np.inf), np.full_like(t, np.inf)
        few = float(self.epsilon) * (t + 2) <= _MOST_ORDER
        if few.any():
            nodes = self.quadrature(float(t[few].max()))
            value[few], error[few] = nodes.cumulants(t[few])
        return value, error + 4 * _QUADRATURE

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law, by a quadrature that suits the y asked for."""
        return _TiltedInterval(self, theta)

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the law by cells of the inner loss, merged or split there."""
        e = float(self.epsilon)
        edges = interval_edges(e, self.ends, self._seen_loss, cost, cells)
        found_law = seen(self._inner(edges, upper), self.rate, self.view)
        losses, masses = found_law.losses, found_law.masses
        law = listed_law(losses, masses, upper, blur=found_law.blur, error=1e-13)
        return replace(law, listed=False)

    def _seen_loss(self, inner: Floats) -> Floats:
        """Return the sample's loss of inner losses, ascending with them."""
        high = sampled_loss(self.rate, inner)[0]
        low = -sampled_loss(self.rate, -inner)[0]
        match self.view:
            case View.REMOVAL:
                return high
            case View.ADDITION:
                return low
        return np.asarray(np.where(inner > 0, high, low))

    def quadrature(self, order: float) -> ScatteredLoss:
        """Return nodes that serve moments of complex orders up to this modulus.

        Gauss-Legendre nodes on pieces so short that the integrand's logarithm changes
        by at most 7.5 on the ellipse of parameter 4 (section 4 of the proofs).

        Raises
        ------
        OverflowError
            There would be too many nodes.
        """
        e = float(self.epsilon)
        half = min(1.0, 2 / (order + 2))
        pieces = math.ceil(e / half)
        if 2 * pieces * _NODES > _MOST_NODES:
            raise OverflowError("too many nodes")
        x, weights = np.polynomial.legendre.leggauss(_NODES)
        edges = np.linspace(-e, e, 2 * pieces + 1)  # one at 0, where subsets change
        width = np.diff(edges) / 2
        losses = ((edges[1:] + edges[:-1]) / 2)[:, None] + np.outer(width, x)
        masses = np.outer(width, weights) * self._density(losses)
        law = seen(self._between(losses.ravel(), masses.ravel()), self.rate, self.view)
        return ScatteredLoss(law.losses, law.masses, law.blur, mass_error=1e-14)

    def _density(self, losses: Floats) -> Floats:
        """Return the density of the inner loss under P."""
        return interval_density(float(self.epsilon), self.ends, losses)

    def _between(self, losses: Floats, masses: Floats) -> Atoms:
        """Return inner losses with the atoms at the ends, if there are any."""
        e = float(self.epsilon)
        if self.ends:
            losses = np.concatenate([[-e], losses, [e]])
            masses = np.concatenate([[0.5 * math.exp(-e)], masses, [0.5]])
        kept = masses > 0
        return Atoms(losses[kept], masses[kept], blur=4 * U * e)

    def edge_densities(self, theta: float) -> float:
        """Return the sum of the densities of loss, times e^(theta loss), at edges.

        Edges are where the density of the sample's loss begins and ends, and between
        two of them it has no maximum (section 3 of the proofs).
        """
        e, q = float(self.epsilon), float(self.rate)
        total = 0.0
        for view, low, high in self._parts(e):
            for end in (low, high):
                inner = end if view is View.REMOVAL else -end
                ratio = float(sampled_loss(self.rate, np.array([inner]))[0][0])
                # dP/dl of the sample, over d loss/dl = q e^inner/r
                density = float(self._density(np.array([end]))[0])
                if view is View.REMOVAL:
                    density *= math.exp(ratio - end)
                loss = ratio if view is View.REMOVAL else -ratio
                total += density * math.exp(theta * loss + ratio - inner) / q
        return total

    def _parts(self, e: float) -> list[tuple[View, float, float]]:
        if self.view is View.SUBSET:
            return [(View.ADDITION, -e, 0.0), (View.REMOVAL, 0.0, e)]
        return [(self.view, -e, e)]

    @property
    def span(self) -> tuple[float, float]:
        """Return the least and the largest loss."""
        e = float(self.epsilon)
        law = seen(Atoms(np.array([-e, e]), np.ones(2)), self.rate, self.view)
        return float(law.losses[0]), float(law.losses[-1])

    @functools.cached_property
    def atoms_at(self) -> Floats:
        """The losses with a mass of their own."""
        e = float(self.epsilon)
        alone = Atoms(np.array([-e, e]), np.ones(2))
        found = seen(alone, self.rate, self.view).losses
        if self.ends:
            return found
        return found[found == 0] if self.view is View.SUBSET else np.empty(0)

    def _inner(self, edges: Floats, split: bool = False) -> Atoms:
        """Return the inner law, each cell merged to one loss or split to its ends."""
        e = float(self.epsilon)
        return self._between(*interval_cells(e, self.ends, edges, split))


class _TiltedInterval(Tilted):
    """The tilted law of `IntervalLoss`."""

    def __init__(self, loss: IntervalLoss, theta: float) -> None:
        self._loss, self._theta = loss, theta
        nodes = loss.quadrature(theta)
        self._nodes = nodes.tilted(theta, 1)
        self.cumulant = self._nodes.cumulant
        self.cumulant_error = self._nodes.cumulant_error + 4 * _QUADRATURE
        self.mean = self._nodes.mean
        # What does not decay: atoms, also that of subsets at 0.
        away = np.abs(np.subtract.outer(nodes.losses, loss.atoms_at))
        near = 1e-7 * (loss.span[1] - loss.span[0])
        ends = (away < near).any(axis=1)
        level = nodes.log_masses[ends] + theta * nodes.losses[ends] - self.cumulant
        self._atoms = float(np.exp(level).sum())
        self._edges = loss.edge_densities(theta) * math.exp(-self.cumulant)

    def envelope(self, y: Floats) -> Floats:
        # One integration by parts: both ends, and the variation, of each density.
        bound = self._atoms + 2 * self._edges / y
        return np.asarray(np.minimum(1.0, bound * (1 + 1e-9) + 1e-12))

    def centered(self, step: float, count: int) -> tuple[Complexes, Floats]:
        nodes = self._loss.quadrature(self._theta + step * count)
        known = self.cumulant, self.cumulant_error
        weights = np.exp(nodes.log_masses + self._theta * nodes.losses - self.cumulant)
        largest = float(np.abs(nodes.losses).max())
        rounding = self.cumulant_error + 4e-14
        rounding += self._theta * (8 * U * largest + nodes.blur)
        law = TiltedAtoms(
            nodes.losses, weights, known, rounding, nodes.blur, _QUADRATURE, self.mean
        )
        return law.centered(step, count)
