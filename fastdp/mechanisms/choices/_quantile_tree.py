"""Several quantiles by halving: the order of the choices, and each choice.

The tree is public: it depends on the requested quantiles and the privacy parameters.
A node is one exponential mechanism over the points of a range, for the records in that
range. ``docs/proofs/quantiles.md`` has the proofs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core
from fastdp import random as fdp_random
from fastdp._stream import Stream
from fastdp.accounting.events import ExponentialMechanismEvent, NeighboringRelation
from fastdp.mechanisms.choices.selection import ExponentialMechanism

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Round a target to the nearest fraction with a denominator up to this. Scores (ranks
#: times denominators) are then integers below 2**53 for up to 2**33 records.
DENOMINATOR = 2**20


@dataclass(frozen=True, slots=True)
class Node:
    """One selection: the middle of several quantiles, and nodes of the others."""

    index: int  # place of the quantile among all, sorted
    target: Fraction  # its rank as a fraction of the records of this node
    mechanism: ExponentialMechanism
    below: Node | None
    above: Node | None


def tree(
    targets: list[Fraction],
    first: int,
    last: int,
    ends: tuple[Fraction, Fraction],
    share: ExponentialMechanismEvent,
    root: bool = True,
) -> Node | None:
    """Return the tree of targets[first:last]; `ends` are the quantiles around them."""
    if first == last:
        return None
    middle = (first + last) // 2
    left, right = ends
    exact = (targets[middle] - left) / (right - left)
    target = exact.limit_denominator(DENOMINATOR)
    # Change of the distance to the target by one record, in units of 1/denominator.
    sensitivity = max(target.numerator, target.denominator - target.numerator)
    if share.neighboring_relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
        # A replaced record may leave one node and enter another.
        sensitivity = target.denominator if root else 2 * sensitivity
    lower, upper = (left, targets[middle]), (targets[middle], right)
    return Node(
        index=middle,
        target=target,
        mechanism=ExponentialMechanism(share.epsilon, sensitivity=sensitivity),
        below=tree(targets, first, middle, lower, share, root=False),
        above=tree(targets, middle + 1, last, upper, share, root=False),
    )


def fill(
    found: _Array,
    node: Node | None,
    records: _Array,
    within: tuple[int, int],
    stream: Stream | None,
    workers: int,
) -> None:
    """Write the quantiles of a node and of all nodes below it."""
    if node is None:
        return
    low, high = within
    point = choose(node, records, within, stream, workers)
    found[node.index] = point
    cut = int(np.searchsorted(records, point))
    fill(found, node.below, records[:cut], (low, point), stream, workers)
    fill(found, node.above, records[cut:], (point, high), stream, workers)


# ---- one selection -------------------------------------------------------------------


def choose(
    node: Node,
    records: _Array,
    within: tuple[int, int],
    stream: Stream | None,
    workers: int,
) -> int:
    """Return a point by the exponential mechanism over all points of the range."""
    scores, weights = candidates(records, node.target, within)
    try:
        chosen = int(
            node.mechanism.select(
                scores, weights=weights, stream=stream, workers=workers
            )
        )
        points = int(weights[chosen])
    finally:
        _core.zero(scores)
        _core.zero(weights)
    if chosen % 2:
        start = int(records[chosen // 2])
    else:
        start = int(records[chosen // 2 - 1]) + 1 if chosen else within[0]
    return start + int(fdp_random.integers(points, stream=stream))


def candidates(
    records: _Array, target: Fraction, within: tuple[int, int]
) -> tuple[_Array, _Array]:
    """Return scores and numbers of points of gap, record, gap, ..., record, gap.

    The possible ranks of a point are from the number of records below it to the number
    of records not above it. Its score is minus the distance of the target rank from
    these ranks, times the denominator. The last of equal records represents all of
    them.
    """
    n = records.size
    edges = np.concatenate(([within[0] - 1], records, [within[1] + 1]))
    apart = np.diff(edges)
    ranks = np.arange(n + 1)
    new = apart[:-1] > 0
    below = np.maximum.accumulate(np.where(new, ranks[:-1], 0)) if n else ranks[:-1]
    goal, unit = target.numerator * n, target.denominator
    scores, weights = np.empty(2 * n + 1, np.int64), np.empty(2 * n + 1, np.int64)
    weights[0::2] = np.maximum(apart - 1, 0)
    weights[1::2] = apart[1:] > 0
    scores[0::2] = -np.abs(ranks * unit - goal)
    too_high, too_low = below * unit - goal, goal - ranks[1:] * unit
    scores[1::2] = -np.maximum(np.maximum(too_high, too_low), 0)
    return scores, weights
