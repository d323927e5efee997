"""Listed losses as laws for bounds."""

from __future__ import annotations

import numpy as np

from fastdp.accounting._atoms.law import Floats, Law, U
from fastdp.accounting._atoms.plan import Cost, gathered, spread


def listed_law(
    losses: Floats,
    masses: Floats,
    upper: bool,
    *,
    blur: float = 0.0,
    error: float = 0.0,
    lost: float = 0.0,
) -> Law:
    """Return listed losses, moved by what they may be wrong by.

    Parameters
    ----------
    losses, masses : ndarray of float64
        The losses, ascending, and their probabilities.
    upper : bool
        Whether the law serves upper bounds.
    blur, error : float
        Bounds of the absolute errors of losses and of the relative ones of masses.
    lost : float
        Probability of other losses: infinite in an upper law.
    """
    sign = 1 if upper else -1
    moved = losses + sign * (blur + 4 * U * np.abs(losses))
    kept = masses > 0
    return Law(moved[kept], masses[kept], lost if upper else 0.0, error, True)


def in_cells(law: Law, cost: Cost | None, cells: int, upper: bool) -> Law:
    """Return the law in at most so many cells, placed by cost."""
    if law.loss.size <= 2 * cells:
        return law
    price = np.ones(law.loss.size) if cost is None else cost(law.loss)
    return gathered(law, spread(law.loss, law.mass, price, cells), upper)
