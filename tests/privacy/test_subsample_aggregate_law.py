"""`SubsampleAggregate`: the law of every aggregate over all small datasets."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.accounting import NeighboringRelation
from fastdp.mechanisms.choices.stability import distance_of, winner
from fastdp.testing import FixedStream

R = NeighboringRelation.REPLACE_ONE
BLOCKS = 2
EPSILON = 1.0
DELTA = 0.05


def parity(sums: int) -> int:
    return sums % 2


def released(
    aggregate: str, results: tuple[int, ...], changed: int
) -> dict[Any, float]:
    """Return the law of an aggregate with noise for this number of changed blocks."""
    if aggregate == "mean":
        a = math.exp(-EPSILON / changed)
        total = sum(results)
        window = range(-25, 28)
        return {y: (1 - a) / (1 + a) * a ** abs(y - total) for y in window}
    if aggregate == "median":
        # exp(-c times the distance of ranks), c = (epsilon/changed)/(2 S), S = b = 2
        weights = {}
        for point in (0, 1):
            below = sum(r < point for r in results)
            upto = sum(r <= point for r in results)
            cost = max(2 * below - len(results), len(results) - 2 * upto, 0)
            weights[point] = math.exp(-EPSILON / changed / 4 * cost)
        whole = sum(weights.values())
        return {point: w / whole for point, w in weights.items()}
    best, lead = winner(np.array([results.count(0), results.count(1)]))
    test = fastdp.ProposeTestRelease(epsilon=EPSILON, delta=DELTA, mechanism=None)
    shown = test.probability(distance_of(lead, 2 * changed))
    return {best: shown, None: 1 - shown}


def law(
    aggregate: str, data: tuple[int, ...], keyed: bool, changed: int
) -> dict[Any, float]:
    """Return the law over all deals, by key (the value's parity class) or place."""
    found: dict[Any, float] = defaultdict(float)
    if keyed:  # the block of a value is public randomness; a value is a key
        deals = list(itertools.product(range(BLOCKS), repeat=3))
    else:
        deals = [
            tuple(place % BLOCKS for place in order)
            for order in itertools.permutations(range(len(data)))
        ]
    for deal in deals:
        sums = [0] * BLOCKS
        for place, value in enumerate(data):
            # each key counts once: parity of the number of records of a block
            sums[deal[value] if keyed else deal[place]] += 1 if keyed else value
        results = tuple(parity(s) for s in sums)
        for y, mass in released(aggregate, results, changed).items():
            found[y] += mass / len(deals)
    return found


def delta_of(p: dict[Any, float], q: dict[Any, float]) -> float:
    e = math.exp(EPSILON)
    return math.fsum(max(0.0, mass - e * q.get(y, 0.0)) for y, mass in p.items())


@pytest.mark.parametrize("aggregate", ["mean", "median", "mode"])
@pytest.mark.parametrize("keyed", [False, True])
def test_all_datasets_of_four_records(aggregate: str, keyed: bool) -> None:
    allowed = DELTA if aggregate == "mode" else 0.0
    changed = 2 if keyed else 1
    m = fastdp.SubsampleAggregate(
        blocks=BLOCKS,
        bounds=(0, 1),
        epsilon=EPSILON,
        delta=DELTA if aggregate == "mode" else None,
        aggregate=aggregate,
        granularity=1,
        neighboring_relation="replace_one",
        assignment="key" if keyed else "place",
    )
    assert m.delta(EPSILON) == pytest.approx(allowed, abs=1e-12)
    worst = 0.0
    values = range(3) if keyed else range(2)
    laws = {
        d: law(aggregate, d, keyed, changed)
        for d in itertools.product(values, repeat=4)
    }
    for d, p in laws.items():
        for i, value in itertools.product(range(4), values):
            other = (*d[:i], value, *d[i + 1 :])
            worst = max(worst, delta_of(p, laws[other]))
    assert worst <= allowed * (1 + 1e-9) + 1e-12


def test_a_key_that_moves_changes_two_blocks() -> None:
    # Given the deal, which is no secret: noise for one block is found out.
    def worst(aggregate: str, changed: int) -> float:
        found = 0.0
        for results in itertools.product((0, 1), repeat=4):
            p = released(aggregate, results, changed)
            for i, j in itertools.combinations(range(4), 2):
                other = tuple(r ^ (k in (i, j)) for k, r in enumerate(results))
                found = max(found, delta_of(p, released(aggregate, other, changed)))
        return found

    for aggregate, allowed in (("mean", 0.0), ("median", 0.0), ("mode", DELTA)):
        assert worst(aggregate, 2) <= allowed + 1e-12
        if aggregate != "median":  # a choice of two points does not show it
            assert worst(aggregate, 1) > allowed + 0.01


@pytest.mark.rest
@pytest.mark.parametrize("aggregate", ["mean", "median", "mode"])
def test_releases_have_that_law(aggregate: str) -> None:
    m = fastdp.SubsampleAggregate(
        blocks=4,
        bounds=(0, 1),
        epsilon=EPSILON,
        delta=DELTA if aggregate == "mode" else None,
        aggregate=aggregate,
        granularity=1,
        neighboring_relation="replace_one",
        assignment="place",
    )
    with pytest.warns(fastdp.exceptions.InsecureStreamWarning):
        stream = FixedStream(aggregate)
    runs, data = 3000, np.ones(4, np.int64)
    drawn = [m.release(data, np.sum, stream=stream) for _ in range(runs)]
    wanted = released(aggregate, (1, 1, 1, 1), 1)
    if aggregate == "mean":  # clamped to the bounds, a quarter of a sum
        clamped: dict[Any, float] = defaultdict(float)
        for y, mass in wanted.items():
            clamped[min(max(y / 4, 0.0), 1.0)] += mass
        wanted = clamped
    for y, mass in wanted.items():
        share = sum(d == y for d in drawn) / runs
        assert abs(share - mass) < 4.5 * math.sqrt(mass * (1 - mass) / runs) + 1e-9
