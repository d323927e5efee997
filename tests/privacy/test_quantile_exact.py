"""The law of quantiles over all points of small grids, for neighbors of all kinds.

The scores, weights and parameters of the package give the law of the release; here
it is compared with the definition, and the ratios of neighbors with e^epsilon, in
exact exponents and 50 digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import mpmath
import numpy as np
import pytest

import fastdp
from fastdp.accounting import NeighboringRelation
from fastdp.mechanisms import ExponentialMechanism
from fastdp.mechanisms.choices import _quantile_tree, quantile
from tests.statistical import bins

Records: TypeAlias = "tuple[int, ...]"

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL
DIGITS = 50


def datasets(points: int, most: int) -> list[Records]:
    """Return all datasets of up to `most` records, sorted."""
    return [
        records
        for n in range(most + 1)
        for records in itertools.combinations_with_replacement(range(points), n)
    ]


def neighbors(
    records: Records, points: int, relation: NeighboringRelation
) -> Iterator[Records]:
    for i in range(len(records)):
        left = records[:i] + records[i + 1 :]
        if relation is ADD:
            yield left
        else:
            values = range(points) if relation is REPLACE else range(1)
            yield from (tuple(sorted((*left, z))) for z in values)


def law(node: Any, records: Records, low: int, high: int) -> list[mpmath.mpf]:
    """Return the probabilities of the points low..high that a selection gives."""
    return list(_law(node.target, node.mechanism, records, low, high))


@lru_cache(maxsize=1 << 18)
def _law(
    target: Fraction, mechanism: Any, records: Records, low: int, high: int
) -> tuple[mpmath.mpf, ...]:
    scores, weights = _quantile_tree.candidates(
        np.array(records, np.int64), target, (low, high)
    )
    rate = mechanism.event().epsilon / (2 * Fraction(mechanism.sensitivity))
    masses: list[mpmath.mpf] = []
    for score, weight in zip(scores.tolist(), weights.tolist(), strict=True):
        exponent = rate * score
        mass = mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator)
        masses += [mass] * weight  # candidates lie in the order of their points
    total = mpmath.fsum(masses)
    return tuple(mass / total for mass in masses)


def joint(node: Any, records: Records, low: int, high: int) -> dict[Records, Any]:
    """Return the law of all quantiles of a node's tree, as tuples of points."""
    if node is None:
        return {(): mpmath.mpf(1)}
    found: dict[Records, Any] = {}
    for point, p in zip(
        range(low, high + 1), law(node, records, low, high), strict=True
    ):
        cut = int(np.searchsorted(np.array(records), point))
        below = joint(node.below, records[:cut], low, point)
        above = joint(node.above, records[cut:], point, high)
        for (a, pa), (b, pb) in itertools.product(below.items(), above.items()):
            found[(*a, point, *b)] = p * pa * pb
    return found


def exp_of(x: Fraction) -> mpmath.mpf:
    return mpmath.exp(mpmath.mpf(x.numerator) / x.denominator)


def make(q: Any, epsilon: Any, relation: NeighboringRelation, points: int) -> Any:
    return fastdp.Quantiles(
        q, bounds=(0, points - 1), epsilon=epsilon, neighboring_relation=relation
    )


# ---- one quantile ----------------------------------------------------------------


@pytest.mark.parametrize("q", [Fraction(1, 2), 0.25, 0.9, Fraction(1, 3)])
def test_the_law_is_that_of_the_definition(q: Any) -> None:
    points, epsilon = 5, Fraction(3, 2)
    m = make(q, epsilon, ADD, points)
    exact = Fraction(q).limit_denominator(100)
    rate = epsilon / (2 * max(exact, 1 - exact))
    with mpmath.workdps(DIGITS):
        for records in datasets(points, 4):
            n, costs = len(records), []
            for o in range(points):
                below = sum(z < o for z in records)
                upto = sum(z <= o for z in records)
                costs.append(max(below - exact * n, exact * n - upto, Fraction(0)))
            masses = [exp_of(-rate * cost) for cost in costs]
            found = law(m._root, records, 0, points - 1)
            for p, mass in zip(found, masses, strict=True):
                assert abs(p - mass / mpmath.fsum(masses)) < mpmath.mpf(10) ** -40


def pairs(points: int, relation: NeighboringRelation) -> Iterator[tuple[Any, Any]]:
    """Yield neighbors: all with up to 5 records, and some with more."""
    for records in [*datasets(points, 5), (*[1] * 20, 3), (0, *[1] * 20)]:
        for others in neighbors(records, points, relation):
            yield records, others


def longest_range(node: Any, points: int, relation: NeighboringRelation) -> mpmath.mpf:
    """Return the longest interval that the losses of a pair of neighbors take up."""
    longest = mpmath.mpf(0)
    for pair in pairs(points, relation):
        laws = [law(node, data, 0, points - 1) for data in pair]
        losses = [mpmath.log(p / r) for p, r in zip(*laws, strict=True)]
        assert min(losses) <= 0 <= max(losses)
        longest = max(longest, max(losses) - min(losses))
    return longest


@pytest.mark.parametrize("q", [0.5, 0.25, 0.9, Fraction(1, 3), Fraction(1, 2**20)])
@pytest.mark.parametrize("relation", [ADD, REPLACE, SPECIAL])
def test_losses_have_the_range_epsilon(q: Any, relation: NeighboringRelation) -> None:
    points, epsilon = 4, Fraction(7, 5)
    m = make(q, epsilon, relation, points)
    with mpmath.workdps(DIGITS):
        longest = longest_range(m._root, points, relation)
        assert longest <= mpmath.mpf(7) / 5 + mpmath.mpf(10) ** -40
    # Some pair uses the range up, so that nothing is given away.
    assert longest > 1.39 or relation is SPECIAL or q == Fraction(1, 2**20)


@pytest.mark.parametrize(("q", "relation"), [(0.9, ADD), (0.5, REPLACE)])
def test_less_noise_would_not_do(q: Any, relation: NeighboringRelation) -> None:
    """Sensitivity 1/2 is for the median alone, and not for replaced records."""
    target = Fraction(q).limit_denominator(100)
    half = Fraction(target.denominator, 2)
    node = _quantile_tree.Node(
        0, target, ExponentialMechanism(1, sensitivity=half), None, None
    )
    with mpmath.workdps(DIGITS):
        assert longest_range(node, 4, relation) > 1.5
    assert make(0.5, 1, ADD, 4)._root.mechanism.sensitivity == 1  # of 2 units


def test_no_gap_is_beyond_reach() -> None:
    """A score of -1e5 or so: every point still has positive probability."""
    records = tuple([0] * 2000)
    m = make(0.5, 100, ADD, 8)
    with mpmath.workdps(DIGITS):
        found = law(m._root, records, 0, 7)
    assert all(p > 0 for p in found)
    assert found[0] > 0.99


# ---- several ---------------------------------------------------------------------

SEVERAL = [
    (Fraction(1, 2), Fraction(3, 4)),
    (0.25, 0.5, 0.75),
    (0.1, 0.2, 0.9),
    (0.5, 0.6, 0.95),
]


@pytest.mark.parametrize("q", SEVERAL, ids=str)
@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_several_together_meet_epsilon(q: Any, relation: NeighboringRelation) -> None:
    points, epsilon = 3, Fraction(2)
    m = make(q, epsilon, relation, points)
    assert m.levels == 2
    with mpmath.workdps(DIGITS):
        limit = exp_of(epsilon) * (1 + mpmath.mpf(10) ** -40)
        laws = {d: joint(m._root, d, 0, points - 1) for d in datasets(points, 4)}
        for records in laws:
            assert abs(mpmath.fsum(laws[records].values()) - 1) < 1e-40
            for others in neighbors(records, points, relation):
                for outcome, p in laws[records].items():
                    other = laws[others][outcome]
                    assert p <= limit * other
                    assert other <= limit * p


#: The first quantile at 3; on either side 20 records, and one where it tells most.
FULL: Records = (0, *[1] * 20, *[4] * 20)
TOLD = {ADD: FULL[1:], REPLACE: (*[1] * 20, 3, *[4] * 20)}


def level_range(root: Any, relation: NeighboringRelation) -> mpmath.mpf:
    """Return the longest range of the second level, given any first quantile."""
    cases = [
        (records, others, first, 3)
        for records in datasets(3, 4)
        for others in neighbors(records, 3, relation)
        for first in range(3)
    ]
    longest = mpmath.mpf(0)
    for case in [*cases, (FULL, TOLD[relation], 3, 6)]:
        losses = second_losses(root, *case)
        longest = max(longest, max(losses) - min(losses))
    return longest


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("q", [(0.1, 0.5, 0.55), (0.3, 0.5, 0.95), (0.2, 0.4, 0.5)])
def test_levels_have_their_share_of_the_range(
    relation: NeighboringRelation, q: Any
) -> None:
    """All choices of the second level, given the first: Theorem 2."""
    root = make(q, 2, relation, 6)._root
    with mpmath.workdps(DIGITS):
        longest = level_range(root, relation)
        assert longest <= 1 + mpmath.mpf(10) ** -40
    assert longest > 0.999 or q != (0.1, 0.5, 0.55)


def second_losses(
    root: Any, records: Records, others: Records, first: int, points: int
) -> list[mpmath.mpf]:
    """Return the losses of the second level's outcomes after `first`."""
    losses = [mpmath.mpf(0)]
    for node, low, high in (
        (root.below, 0, first),
        (root.above, first, points - 1),
    ):
        laws = []
        for data in (records, others):
            cut = int(np.searchsorted(np.array(data), first))
            part = data[:cut] if node is root.below else data[cut:]
            laws.append(law(node, part, low, high))
        step = [mpmath.log(p / r) for p, r in zip(*laws, strict=True)]
        losses = [a + b for a in losses for b in step]
    return losses


def test_replaced_records_need_more_than_the_root_does() -> None:
    """With b for the sensitivity of every node, a level loses too much."""
    root = make((0.1, 0.5, 0.55), 2, REPLACE, 6)._root

    def as_root(node: Any) -> Any:
        mechanism = ExponentialMechanism(1, sensitivity=node.target.denominator)
        return _quantile_tree.Node(node.index, node.target, mechanism, None, None)

    below, above = as_root(root.below), as_root(root.above)
    wrong = _quantile_tree.Node(1, root.target, root.mechanism, below, above)
    with mpmath.workdps(DIGITS):
        assert level_range(wrong, REPLACE) > 1.6


# ---- what is released ------------------------------------------------------------


def p_value(counts: dict[Any, int], expected: dict[Any, float]) -> float:
    assert set(counts) <= set(expected)
    assert sum(expected.values()) == pytest.approx(1)
    seen = np.array([counts.get(key, 0) for key in expected])
    return bins.p_value(seen, np.array(list(expected.values())))


@pytest.mark.rest
def test_one_quantile_has_the_computed_law() -> None:
    """8,000 releases; false alarm 1e-10."""
    runs, records = 8_000, (1, 4, 4, 9, 10)
    m = make(0.3, 2, ADD, 12)
    counts: dict[int, int] = {}
    for _ in range(runs):
        found = int(m.release(np.array(records)))
        counts[found] = counts.get(found, 0) + 1
    with mpmath.workdps(30):
        masses = dict(enumerate(map(float, law(m._root, records, 0, 11))))
    assert p_value(counts, masses) > 1e-10


@pytest.mark.rest
def test_several_have_the_computed_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two places a point, all placements averaged; 4,000 releases; alarm 1e-10."""
    monkeypatch.setattr(quantile, "_TIE_BITS", 1)
    runs, records = 4_000, (0, 2, 2, 3)
    m = make((0.25, 0.5, 0.75), 4, REPLACE, 4)
    counts: dict[Records, int] = {}
    for _ in range(runs):
        found = tuple(m.release(np.array(records)).tolist())
        counts[found] = counts.get(found, 0) + 1
    expected: dict[Records, float] = {}
    with mpmath.workdps(20):
        for places in itertools.product((0, 1), repeat=4):
            fine = tuple(
                sorted(2 * z + bit for z, bit in zip(records, places, strict=True))
            )
            for outcome, p in joint(m._root, fine, 0, 7).items():
                key = tuple(o // 2 for o in outcome)
                expected[key] = expected.get(key, 0.0) + float(p) / 16
    assert p_value(counts, expected) > 1e-10


def test_the_check_sees_another_law() -> None:
    """One quantile's law under a quarter more noise, at as many releases as above."""
    runs, records, laws = 8_000, (1, 4, 4, 9, 10), []
    with mpmath.workdps(30):
        for epsilon in (2, 1.6):
            m = make(0.3, epsilon, ADD, 12)
            laws.append(dict(enumerate(map(float, law(m._root, records, 0, 11)))))
    counts = {point: round(runs * p) for point, p in laws[0].items()}
    assert p_value(counts, laws[0]) > 0.99
    assert p_value(counts, laws[1]) < 1e-10
