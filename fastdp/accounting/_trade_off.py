"""Piecewise linear trade-off functions, and compositions of them.

A trade-off function f = T(P, Q) is convex and decreasing; x is the false-positive rate
and f(x) the least false-negative rate. Every operation rounds downward: the result is
on or below the true function, so it never claims more privacy. The proofs are in
docs/proofs/fdp.md, sections 3 and 4.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from fastdp.accounting._atoms.law import (
    NOTHING,
    Floats,
    Law,
    U,
    convolve,
    listed_law,
    sums,
)
from fastdp.accounting._atoms.plan import chain, even

Knots: TypeAlias = "tuple[Floats, Floats]"

#: Rounding that is charged to every knot that is computed from differences.
SLACK = 4e-16
#: Mass that may be given away beyond either end of a law; least mass of a loss to keep
#: (products of smaller ones with others would underflow).
_TAIL, _LEAST = 1e-14, 1e-300
#: Cells of a sum, for up to _SUMS sums; fewest cells; most products to form without
#: cells.
_CELLS, _SUMS, _FEWEST, _LISTED = 3000, 10, 1000, 400_000
#: Leave out larger losses: their masses count as held by one law alone.
_LARGEST_LOSS = 600.0


def hull(x: Floats, f: Floats) -> Knots:
    """Return the knots of the lower convex hull of points."""
    order = np.lexsort((f, x))
    kept: list[tuple[float, float]] = []
    for a, b in zip(x[order].tolist(), f[order].tolist(), strict=True):
        if kept and kept[-1][0] == a:
            continue
        while len(kept) > 1:
            (x0, f0), (x1, f1) = kept[-2:]
            if (f1 - f0) * (a - x0) < (b - f0) * (x1 - x0):
                break
            kept.pop()
        kept.append((a, b))
    xs, fs = zip(*kept, strict=True)
    return np.array(xs), np.array(fs)


def lowered(x: Floats, f: Floats, slack: float) -> Knots:
    """Return the hull of knots whose values are lowered by `slack`, not below 0."""
    values = np.maximum(f - slack, 0.0)
    values[x >= 1] = 0.0
    return hull(x, values)


def from_lines(log_slopes: Floats, heights: Floats) -> Knots:
    """Return the upper envelope of the lines height - exp(log_slope) x, and 0.

    The slopes fall from line to line, and each line touches one convex function.
    """
    steep = np.exp(log_slopes)
    cross = np.diff(-heights) / np.diff(-steep)
    cross = np.clip(np.maximum.accumulate(cross), 0.0, 1.0)
    first = np.maximum(heights[:-1] - steep[:-1] * cross, 0.0)
    second = np.maximum(heights[1:] - steep[1:] * cross, 0.0)
    # On both lines; if rounding makes them differ, the lower value is the safe one.
    value = np.minimum(first, second)
    last = min(1.0, max(heights[-1] / steep[-1], 0.0))
    x = np.concatenate([[0.0], cross, [last, 1.0]])
    f = np.concatenate([[min(1.0, max(heights[0], 0.0))], value, [0.0, 0.0]])
    return lowered(x, f, SLACK)


def inverse(x: Floats, f: Floats) -> Knots:
    """Return the knots of the inverse function, with the two rates exchanged."""
    place, first = np.unique(f[::-1], return_index=True)
    values: Floats = np.minimum.reduceat(x[::-1], first)
    if place[-1] < 1:
        place, values = np.append(place, 1.0), np.append(values, 0.0)
    return place, values


# ---- composition ---------------------------------------------------------------------


def compose(parts: list[tuple[Knots, int]]) -> Knots:
    """Return knots on or below the tensor product of the parts with their counts.

    Each linear piece is an atom of two laws; products of pairs have sums of losses.
    If there are too many losses, they are split to the ends of cells, which makes the
    pair easier to distinguish.
    """
    formed = chain([count for _, count in parts])
    many = max(1, len(formed.pairs))
    cells = max(_FEWEST, int(_CELLS * min(1.0, math.sqrt(_SUMS / many))))
    laws = [_product(_kept(_law(*knots)), NOTHING, cells) for knots, _ in parts]
    for i, j in formed.pairs:
        laws.append(_product(laws[i], laws[j], cells))
    roots = (laws[i] for i in formed.roots)
    return _knots(functools.reduce(lambda a, b: _product(a, b, cells), roots))


def _law(x: Floats, f: Floats) -> Law:
    """Return the losses ln(Q/P) of knots with their masses under Q."""
    p, q = np.diff(x), -np.diff(f)
    both = (p > 0) & (q > 0)
    with np.errstate(all="ignore"):
        loss = np.log(q[both] / p[both])
    order = np.argsort(loss)
    order = order[np.abs(loss[order]) < _LARGEST_LOSS]
    # The quotient errs by 2 units, which are not relative to its logarithm.
    return listed_law(loss[order], q[both][order], True, blur=4 * U, error=2 * U)


def _kept(law: Law) -> Law:
    """Return the law without masses that may be dropped: tails and tiny masses.

    The dropped masses of each law move to where the other law has no mass, so they are
    no longer counted; `Law.lost` is 1 minus the remaining masses.
    """
    large = law.mass > _LEAST
    law = replace(law, loss=law.loss[large], mass=law.mass[large])
    low = int(np.searchsorted(np.cumsum(_other(law)), _TAIL))
    high = law.mass.size - int(np.searchsorted(np.cumsum(law.mass[::-1]), _TAIL))
    return replace(law, loss=law.loss[low:high], mass=law.mass[low:high])


def _other(law: Law) -> Floats:
    """Return the masses under P."""
    return np.asarray(law.mass * np.exp(-law.loss))


def _product(a: Law, b: Law, cells: int) -> Law:
    """Return the law of the sum of two losses, in at most about `cells` cells."""
    products = a.loss.size * b.loss.size
    if not products:
        return replace(a, loss=np.empty(0), mass=np.empty(0))
    if products <= cells or (a.listed and b.listed and products <= _LISTED):
        found = sums(a, b, True)
        if found.loss.size <= cells:
            return _kept(found)
    edges = even(_root(a), _root(b), cells // 2)
    edges = np.union1d(edges, np.linspace(edges[0], edges[-1], cells // 2))
    return _kept(convolve(a, b, edges, True))


def _root(law: Law) -> Law:
    """Return sqrt(P Q) at each loss, which is large where the function bends."""
    return replace(law, mass=law.mass * np.exp(-law.loss / 2))


def _knots(law: Law) -> Knots:
    """Return the trade-off function of the pair, shrunk by the rounding.

    Masses of relative error e give rates of relative error e.
    """
    size = float(np.abs(law.loss).max(initial=0.0))
    kept = 1 - law.error - U * (law.loss.size + size + 8)
    # From the largest ratio Q/P on; sums of positive numbers from either end.
    x = np.minimum(np.cumsum(_other(law)[::-1]) * kept, 1.0)
    f = np.cumsum(law.mass)[::-1] * kept
    return hull(np.concatenate([[0.0], x, [1.0]]), np.append(f, [0.0, 0.0]))
