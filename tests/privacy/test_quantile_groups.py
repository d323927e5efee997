"""Quantiles by group: the whole law on all small datasets, and all neighbors."""

import itertools
import math
import pickle

import mpmath
import numpy as np
import pytest

import fastdp
import fastdp.testing
from fastdp.accounting import NeighboringRelation
from fastdp.mechanisms.choices import _quantile_tree

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
#: A null record lies at the lower bound: replaced by it is replaced.
SPECIAL = NeighboringRelation.REPLACE_SPECIAL
POINTS, GROUPS = 3, 2
#: What others have in a group: next to nothing, or so much that a share is used up.
OTHERS = [(), (1,), (0, *[1] * 20), (0, 0, 2)]


def laws_of(root, cache):
    """Return a function: the law of a group's quantiles, as logarithms."""

    def law(records):
        if records not in cache:
            cache[records] = joint(root, records, 0, POINTS - 1)
        return cache[records]

    return law


def joint(node, records, low, high):
    """Return ln P of all quantiles of a node's tree, by their points."""
    if node is None:
        return {(): mpmath.mpf(0)}
    scores, weights = _quantile_tree.candidates(
        np.array(records, np.int64), node.target, (low, high)
    )
    rate = node.mechanism.event().epsilon / (2 * node.mechanism.sensitivity)
    logs = [
        mpmath.mpf(rate.numerator) / rate.denominator * score
        for score, weight in zip(scores.tolist(), weights.tolist(), strict=True)
        for _ in range(weight)
    ]
    total = mpmath.log(mpmath.fsum(map(mpmath.exp, logs)))
    found = {}
    for point, log in zip(range(low, high + 1), logs, strict=True):
        cut = int(np.searchsorted(np.array(records), point))
        below = joint(node.below, records[:cut], low, point)
        above = joint(node.above, records[cut:], point, high)
        for (a, pa), (b, pb) in itertools.product(below.items(), above.items()):
            found[(*a, point, *b)] = log - total + pa + pb
    return found


def individuals(groups, records):
    """Return all that one individual can have in GROUPS groups."""
    own = [
        part
        for r in range(records + 1)
        for part in itertools.combinations_with_replacement(range(POINTS), r)
    ]
    all_of = itertools.product(own, repeat=GROUPS)
    return [has for has in all_of if sum(map(bool, has)) <= groups]


def largest_loss(root, relation, groups, records):
    """Return the largest |ln P(o)/P'(o)| of neighbors, over all outcomes together.

    Groups are independent, so that the extremes of their losses add up.
    """
    law, largest = laws_of(root, {}), mpmath.mpf(0)
    people = individuals(groups, records)
    befores = people if relation is not ADD else [((),) * GROUPS]
    losses = {}
    for others in OTHERS:
        for a, b in {(x[i], y[i]) for x in befores for y in people for i in (0, 1)}:
            p, q = (law(tuple(sorted(others + part))) for part in (a, b))
            steps = [p[o] - q[o] for o in p]
            old = losses.get((a, b), (mpmath.mpf(0), mpmath.mpf(0)))
            losses[a, b] = max(old[0], *steps), min(old[1], *steps)
    for x, y in itertools.product(befores, people):
        for i in (0, 1):
            total = mpmath.fsum(losses[pair][i] for pair in zip(x, y, strict=True))
            largest = max(largest, abs(total))
    return largest


def quantiles(q=0.5, epsilon=3, **options):
    return fastdp.Quantiles(
        q, bounds=(0, POINTS - 1), epsilon=epsilon, groups=GROUPS, **options
    )


@pytest.mark.parametrize("relation", [ADD, REPLACE, SPECIAL])
@pytest.mark.parametrize("q", [0.5, 0.25, (0.3, 0.6)])
@pytest.mark.parametrize(("groups", "records"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_no_individual_is_told_by_more_than_epsilon(groups, records, q, relation):
    m = quantiles(
        q,
        groups_per_unit=groups,
        records_per_group=records,
        neighboring_relation=relation,
    )
    with mpmath.workdps(30):
        assert largest_loss(m._root, relation, groups, records) <= 3
    assert m.epsilon() == 3
    event = m.event()
    assert getattr(event, "count", 1) == m.levels * groups * (1 + (relation is not ADD))
    assert m.rho() == pytest.approx(9 / (8 * getattr(event, "count", 1)))


@pytest.mark.parametrize(
    ("forgotten", "relation"),
    [
        ({"records_per_group": 1}, ADD),
        ({"groups_per_unit": 1}, ADD),
        ({"neighboring_relation": ADD}, REPLACE),
    ],
    ids=["records", "groups", "the relation"],
)
def test_what_is_forgotten_is_found(forgotten, relation):
    """Noise for less than an individual has: the same check sees a greater loss."""
    right = {
        "groups_per_unit": 2,
        "records_per_group": 2,
        "neighboring_relation": relation,
    }
    wrong = quantiles(**{**right, **forgotten})
    with mpmath.workdps(30):
        assert largest_loss(wrong._root, relation, 2, 2) > 3
        tight = quantiles(**right)
        assert largest_loss(tight._root, relation, 2, 2) <= 3


def test_each_group_has_its_own():
    x = np.array([1.0, 9.0, 5.0, math.nan, 7.0, 5.0] * 300)
    by = np.array([0, 2, 1, 0, 7, -1] * 300)
    m = fastdp.Quantiles((0.9, 0.5), bounds=(0, 10), epsilon=1e4, groups=4)
    found = m.release(x, by=by)
    assert found.shape == (4, 2)
    np.testing.assert_allclose(found[:3], [[1, 1], [5, 5], [9, 9]], atol=1e-9)
    assert ((found[3] >= 0) & (found[3] <= 10)).all()  # of nothing: anything
    one = fastdp.Quantiles(0.5, bounds=(0, 10), epsilon=1e4, groups=4)
    whole = one.release(np.array([3, 4, 4]), by=np.array([0, 1, 1]))
    assert whole.dtype == np.int64
    assert whole[:2].tolist() == [3, 4]


def test_order_does_not_show():
    rng = np.random.default_rng(0)
    x, by = rng.uniform(0, 10, 500), rng.integers(-1, 4, 500)
    m = fastdp.Quantiles(0.5, bounds=(0, 10), epsilon=1, groups=3)
    mixed = rng.permutation(500)
    found = [
        m.release(x[i], by=by[i], stream=fastdp.testing.FixedStream(bytes(32)))
        for i in (np.arange(500), mixed)
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quantiles().release(np.zeros(3)), "by must be given"),
        (
            lambda: quantiles().release(np.zeros(3), by=np.zeros(2, int)),
            r"by must have shape \(3,\)",
        ),
        (lambda: quantiles(groups_per_unit=3), "groups_per_unit must"),
        (lambda: quantiles(records_per_group=0), "records_per_group must"),
        (
            lambda: fastdp.Quantiles(0.5, bounds=(0, 1), epsilon=1).release(
                np.zeros(3), by=np.zeros(3, int)
            ),
            "by must be left out",
        ),
    ],
)
def test_bad_groups_are_named(call, message):
    with pytest.raises(fastdp.FastDPError, match=message):
        call()


def test_what_is_said_makes_the_same():
    m = quantiles(groups_per_unit=2, records_per_group=3)
    copy = pickle.loads(pickle.dumps(m))
    assert copy == m
    assert copy.event() == m.event()
