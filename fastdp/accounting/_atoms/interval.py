"""The density e^(l/2) on an interval of losses, perhaps between atoms, by its cells.

Laplace noise has atoms at both ends and bounded range none. Of the density e^(l/2) both
masses between a and b have the ratio e^((a + b)/2), and of the mass under Q the part
1/(1 + e^((b - a)/2)) belongs to b.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fastdp.accounting._atoms.law import Floats
from fastdp.accounting._atoms.plan import Cost, spread

#: Points on which costs are looked at.
_POINTS = 2001


def interval_density(epsilon: float, ends: bool, losses: Floats) -> Floats:
    """Return the density under P."""
    top = 0.25 if ends else 0.5 / -math.expm1(-epsilon)
    return np.asarray(top * np.exp((losses - epsilon) / 2))


def interval_cells(
    epsilon: float, ends: bool, edges: Floats, split: bool
) -> tuple[Floats, Floats]:
    """Return losses and masses, each cell merged to one loss or split to its ends."""
    width = np.diff(edges)
    mass = 2 * interval_density(epsilon, ends, edges[:-1]) * np.expm1(width / 2)
    losses = (edges[1:] + edges[:-1]) / 2
    if split:
        up = 1 / (1 + np.exp(-width / 2))  # under P: e^(b - middle) times as much
        losses = edges
        mass = np.append(mass * (1 - up), 0.0) + np.append(0.0, mass * up)
    return losses, mass


def interval_edges(
    epsilon: float,
    ends: bool,
    seen: Callable[[Floats], Floats],
    cost: Cost | None,
    cells: int,
) -> Floats:
    """Return edges from -epsilon over 0 to epsilon, by what a blur of `seen` costs."""
    edges = np.linspace(-epsilon, epsilon, cells + 1)
    if cost is not None:
        fine = np.linspace(-epsilon, epsilon, _POINTS)
        value = seen(fine)
        mass = interval_density(epsilon, ends, fine) * (fine[1] - fine[0])
        edges = np.interp(spread(value, mass, cost(value), cells), value, fine)
    middle = np.clip(edges, -epsilon, epsilon)
    return np.unique(np.concatenate([[-epsilon, 0.0, epsilon], middle]))
