"""Losses with an exponential density on an interval, possibly on a sample.

Laplace noise has atoms at both ends and the density e^(l/2) between them; a loss of
bounded range has only this density. On a sample a loss l becomes ln(1 - rate + rate
e^l), which is monotone, so each cell of the sample's losses is a cell of the inner
losses, with known masses under both laws (section 1 of
docs/proofs/numerical_accounting.md).
"""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from fastdp.accounting._atoms.law import Law, listed_law
from fastdp.accounting._atoms.plan import Cost, spread
from fastdp.accounting._numeric import product
from fastdp.accounting._pld.batches import LoopBatch, TiltedRows
from fastdp.accounting._pld.listed_loss import (
    Atoms,
    ScatteredLoss,
    TiltedAtoms,
    sampled_loss,
)
from fastdp.accounting._pld.losses import (
    Batch,
    Complexes,
    Floats,
    Loss,
    Tilted,
    TiltedBatch,
    U,
    box_losses,
    complex_expm1,
    log_envelope_of,
    turned,
)
from fastdp.accounting._series import gauss_legendre

#: Points at which the cost of cells is evaluated.
_POINTS = 2001

#: Nodes at which the density of Laplace noise is cut into boxes.
_BOX_NODES = 64

#: Handle at most this many Laplace losses individually.
_FEW = 2

#: Compute K(t) only if epsilon (t + 2) is at most this.
_MOST_ORDER = 3200.0

#: Nodes on each piece of a quadrature; most nodes in all.
_NODES, _MOST_NODES = 20, 1 << 16

#: Bound of a quadrature's error, relative to the integral of the modulus.
_QUADRATURE = 1e-18


class _Interval(Loss):
    """An exponential density between -epsilon and epsilon, possibly with end atoms."""

    epsilon: Fraction
    ends: bool

    #: Bound of the error of inner losses, in units of U epsilon.
    _slip: ClassVar[float]

    def _seen(self, inner: Atoms) -> Atoms:
        """Return the law on the sample from the inner law; here they are equal."""
        return inner

    def _seen_losses(self, inner: Floats) -> Floats:
        """Return the losses on the sample, in the order of the inner losses."""
        return inner

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the law by cells of the inner loss, each merged or split."""
        inner = self._with_ends(*self._cells(self._edges(cost, cells), upper))
        found = self._seen(inner)
        law = listed_law(
            found.losses, found.masses, upper, blur=found.blur, error=1e-13
        )
        return replace(law, listed=False)

    def _density(self, losses: Floats) -> Floats:
        """Return the density of the inner loss under P."""
        e = float(self.epsilon)
        top = 0.25 if self.ends else 0.5 / -math.expm1(-e)
        return np.asarray(top * np.exp((losses - e) / 2))

    def _with_ends(self, losses: Floats, masses: Floats) -> Atoms:
        """Return inner losses with the atoms at the ends, if there are any."""
        e = float(self.epsilon)
        if self.ends:
            losses = np.concatenate([[-e], losses, [e]])
            masses = np.concatenate([[0.5 * math.exp(-e)], masses, [0.5]])
        kept = masses > 0
        return Atoms(losses[kept], masses[kept], blur=self._slip * U * e)

    def _cells(self, edges: Floats, split: bool) -> tuple[Floats, Floats]:
        """Return inner losses and masses, each cell merged or split to its ends.

        For the density e^(l/2), the masses under P and Q between a and b have the ratio
        e^((a + b)/2). A split moves a fraction 1/(1 + e^((b - a)/2)) of Q's mass to b.
        """
        width = np.diff(edges)
        mass = 2 * self._density(edges[:-1]) * np.expm1(width / 2)
        losses = (edges[1:] + edges[:-1]) / 2
        if split:
            up = 1 / (1 + np.exp(-width / 2))  # under P: e^(b - middle) times as much
            losses = edges
            mass = np.append(mass * (1 - up), 0.0) + np.append(0.0, mass * up)
        return losses, mass

    def _edges(self, cost: Cost | None, cells: int) -> Floats:
        """Return edges of inner cells, placed by the cost of rounding the losses."""
        e = float(self.epsilon)
        edges = np.linspace(-e, e, cells + 1)
        if cost is not None:
            fine = np.linspace(-e, e, _POINTS)
            value = self._seen_losses(fine)
            mass = self._density(fine) * (fine[1] - fine[0])
            edges = np.interp(spread(value, mass, cost(value), cells), value, fine)
        middle = np.clip(edges, -e, e)
        return np.unique(np.concatenate([[-e, 0.0, e], middle]))


# ---- without sampling --------------------------------------------------------------


class LaplaceLaws(TiltedRows):
    """Tilted laws: atoms w_+ and w_-, and the density c e^((theta + 1/2) loss) between.

    The rows of `laws` are the largest loss, and the density and the mass at this loss.
    """

    def __init__(
        self,
        laws: tuple[Floats, Floats, Floats],
        theta: float,
        counts: Floats,
    ) -> None:
        self._e, top, atom = laws
        e = self._e
        value, error = _laplace_cumulants(e, top, atom, np.array([theta]))
        self._rate = theta + 0.5
        shift = np.exp(theta * e - value[:, 0])
        self._above = atom * shift
        self._below = self._above * np.exp(-2 * self._rate * e)
        self._top = top * shift  # of the density, at the upper end
        self._still = -np.expm1(-2 * self._rate * e) / self._rate
        middle = e / np.tanh(self._rate * e) - 1 / self._rate
        mean = (self._above - self._below) * e + self._top * self._still * middle
        super().__init__(counts, value[:, 0], error[:, 0], mean)
        self._error = error[:, 0] + 8 * U * theta * e + 60 * U

    @functools.cached_property
    def boxes(self) -> tuple[Floats, Floats]:
        """Weights and half lengths of boxes (theorem 3) below the rising density."""
        length = np.multiply.outer(self._e, np.linspace(0, 2, _BOX_NODES)[1:])
        value = self._top[:, None] * np.exp(-self._rate * length)
        weight = value * length
        weight[:, :-1] -= value[:, 1:] * length[:, :-1]
        return np.maximum(weight, 0.0) * (1 - 1e-9), length / 2

    def log_envelope(self, y: Floats) -> Floats:
        return log_envelope_of([(*self.boxes, self.counts)], y)

    def far(self, y: Floats) -> Floats:
        """Bound |phi| by the atoms plus the density, integrated by parts."""
        rest = 2 * np.multiply.outer(self._top, 1 / y)
        return np.asarray((self._above + self._below)[:, None] + rest + 1e-12)

    def centered(self, y: Floats) -> tuple[Complexes, Floats]:
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


def _laplace_cumulants(
    e: Floats, top: Floats, atom: Floats, t: Floats
) -> tuple[Floats, Floats]:
    """Return K(t) by rows, and error bounds.

    The density's part is top (1 - e^-w)/(t + 1/2) e^(t e), w = 2 (t + 1/2) e.
    """
    width = 2 * np.multiply.outer(e, t + 0.5)
    rest = (2 * top * e)[:, None] * -np.expm1(-width) / width
    rest = rest + atom[:, None] * (1 + np.exp(-width))
    power = np.multiply.outer(e, t)
    return power + np.log(rest), U * (40 + 8 * power)


def _laplace_rows(losses: tuple[LaplaceLoss, ...]) -> tuple[Floats, Floats, Floats]:
    """Return the largest losses, the densities and the masses there."""
    return (
        np.array([float(loss.epsilon) for loss in losses]),
        np.array([loss.top for loss in losses]),
        np.array([0.5 if loss.ends else 0.0 for loss in losses]),
    )


class _LaplaceBatch(Batch):
    def __init__(
        self, losses: tuple[LaplaceLoss, ...], counts: tuple[int, ...]
    ) -> None:
        self._losses, self._count_of = losses, counts
        self._laws = _laplace_rows(losses)
        self._counts = np.array([float(n) for n in counts])

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        value, error = _laplace_cumulants(*self._laws, t)
        error = error + U * (self._counts.size + 4) * np.abs(value)
        return product(self._counts, value), product(self._counts, error)

    def tilted(self, theta: float) -> TiltedBatch:
        if len(self._losses) <= _FEW:
            return LoopBatch(self._losses, self._count_of).tilted(theta)
        return LaplaceLaws(self._laws, theta, self._counts)


@dataclass(frozen=True)
class LaplaceLoss(_Interval):
    """A density e^(loss/2) on (-epsilon, epsilon), possibly with atoms; symmetric.

    The loss of Laplace noise, epsilon = sensitivity/scale, has atoms at epsilon (of
    mass 1/2) and at -epsilon (of mass e^-epsilon/2), and the density
    e^((loss - epsilon)/2)/4. The density without atoms dominates every mechanism of
    bounded range epsilon.
    """

    epsilon: Fraction
    ends: bool = True
    batch: ClassVar[type[_LaplaceBatch]] = _LaplaceBatch
    _slip = 0.0

    @property
    def top(self) -> float:
        """Return the density at epsilon."""
        return 0.25 if self.ends else -0.5 / math.expm1(-float(self.epsilon))

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t) = ln of the sum of both atoms' and the density's parts."""
        value, error = _laplace_cumulants(*_laplace_rows((self,)), t)
        return value[0], error[0]

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law: two atoms and an exponential density."""
        return _TiltedLaplace(self, theta)


class _TiltedLaplace(Tilted):
    def __init__(self, loss: LaplaceLoss, theta: float) -> None:
        laws = self._laws = LaplaceLaws(_laplace_rows((loss,)), theta, np.ones(1))
        self.cumulant = float(laws.cumulant[0])
        self.cumulant_error = float(laws.cumulant_error[0])
        self.mean = float(laws.mean[0])

    def envelope(self, y: Floats) -> Floats:
        weight, half = self._laws.boxes
        loss = box_losses(weight[0], half[0], y)
        return np.asarray(np.minimum(1 - loss + 1e-12, self._laws.far(y)[0]))

    def centered(self, step: float, count: int) -> tuple[Complexes, Floats]:
        y: Floats = np.asarray(step * np.arange(1.0, count + 1))
        value, error = self._laws.centered(y)
        return value[0], error[0]


# ---- on a sample -------------------------------------------------------------------


class View(enum.Enum):
    """The kind of neighboring datasets that a sample compares."""

    REMOVAL = 1
    ADDITION = 2
    #: Subsets of fixed size, one record replaced.
    SUBSET = 3


@dataclass(frozen=True)
class IntervalLoss(_Interval):
    """An exponential density between -epsilon and epsilon, on a sample."""

    epsilon: Fraction  # > 0; the largest inner loss
    ends: bool  # whether there are atoms at both ends, as for Laplace noise
    rate: Fraction  # of sampling, > 0 and <= 1
    view: View
    _slip = 4.0

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t), from a quadrature; infinite for the largest orders."""
        value, error = np.full_like(t, np.inf), np.full_like(t, np.inf)
        few = float(self.epsilon) * (t + 2) <= _MOST_ORDER
        if few.any():
            nodes = self.quadrature(float(t[few].max()))
            value[few], error[few] = nodes.cumulants(t[few])
        return value, error + 4 * _QUADRATURE

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law, with a quadrature that suits the wanted y."""
        return _TiltedInterval(self, theta)

    def _seen(self, inner: Atoms) -> Atoms:
        if self.view is View.SUBSET:
            return inner.subset(self.rate)
        return inner.sampled(self.rate, self.view is View.REMOVAL)

    def _seen_losses(self, inner: Floats) -> Floats:
        high = sampled_loss(self.rate, inner)[0]
        low = -sampled_loss(self.rate, -inner)[0]
        match self.view:
            case View.REMOVAL:
                return high
            case View.ADDITION:
                return low
        return np.asarray(np.where(inner > 0, high, low))

    def quadrature(self, order: float) -> ScatteredLoss:
        """Return nodes for moments of complex orders with modulus of at most `order`.

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
        x, weights = gauss_legendre(_NODES)
        # One edge is 0, where the loss of a subset changes its formula.
        edges = np.linspace(-e, e, 2 * pieces + 1)
        width = np.diff(edges)
        losses = edges[:-1, None] + np.outer(width, x)
        masses = np.outer(width, weights) * self._density(losses)
        law = self._seen(self._with_ends(losses.ravel(), masses.ravel()))
        return ScatteredLoss(law.losses, law.masses, law.blur, mass_error=1e-14)

    def edge_densities(self, theta: float) -> float:
        """Return the sum over edges of the loss's density times e^(theta loss).

        An edge is the beginning or end of a density of the sample's loss; between its
        edges a density has no maximum (section 3 of the proofs).
        """
        e, q = float(self.epsilon), float(self.rate)
        parts = [(self.view, -e, e)]
        if self.view is View.SUBSET:
            parts = [(View.ADDITION, -e, 0.0), (View.REMOVAL, 0.0, e)]
        total = 0.0
        for view, low, high in parts:
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

    @property
    def span(self) -> tuple[float, float]:
        """Return the least and the largest loss."""
        losses = self._outer.losses
        return float(losses[0]), float(losses[-1])

    @functools.cached_property
    def _outer(self) -> Atoms:
        e = float(self.epsilon)
        return self._seen(Atoms(np.array([-e, e]), np.ones(2)))

    @property
    def atoms_at(self) -> Floats:
        """The losses that are atoms."""
        found = self._outer.losses
        if self.ends:
            return found
        return found[found == 0] if self.view is View.SUBSET else np.empty(0)


class _TiltedInterval(Tilted):
    """The tilted law of `IntervalLoss`."""

    def __init__(self, loss: IntervalLoss, theta: float) -> None:
        self._loss, self._theta = loss, theta
        nodes = loss.quadrature(theta)
        self._nodes = nodes.tilted(theta, 1)
        self.cumulant = self._nodes.cumulant
        self.cumulant_error = self._nodes.cumulant_error + 4 * _QUADRATURE
        self.mean = self._nodes.mean
        # Atoms do not decay, including the atom of subsets at 0.
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
