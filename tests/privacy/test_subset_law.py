"""The whole law of subset selection, as fractions, by all its draws."""

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

import fastdp
from tests.reference import subsets
from tests.reference.interval import exp_minus

Law = dict[frozenset[int], Fraction]
SIZES = [(d, k) for d in range(2, 7) for k in range(1, d)]
EPSILONS = [Fraction(1, 100), 0.5, 1, 1.7, 4, 9.5]


def law_of(p: Fraction, d: int, k: int, own: int) -> Law:
    """Return the law of the reference's set: every draw of every step."""
    law: Law = {}
    for has, probability in ((True, p), (False, 1 - p)):
        steps = [range(n) for n in subsets.ranges(d, k, has)]
        counts = Counter(
            frozenset(subsets.subset(own, d, k, has, drawn))
            for drawn in itertools.product(*steps)
        )
        for found, count in counts.items():
            law[found] = law.get(found, Fraction(0)) + probability * Fraction(
                count, counts.total()
            )
    return law


def losses(a: Law, b: Law) -> Law:
    law: Any = {}
    for found, probability in a.items():
        ratio = probability / b[found]
        law[ratio] = law.get(ratio, Fraction(0)) + probability
    return law


@pytest.mark.parametrize(("d", "k"), SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_laws(d: int, k: int, epsilon: Any) -> None:
    m = fastdp.SubsetSelection.from_epsilon(epsilon, categories=d, size=k)
    event = m.event()
    bound = Fraction(1 << 500, exp_minus(Fraction(epsilon), 500)[1])
    laws = [law_of(m.p, d, k, own) for own in range(d)]
    expected: dict[Fraction, Fraction] = {}
    for ratio, probability in (
        (event.p / event.q, event.p),
        (event.q / event.p, event.q),
        (Fraction(1), 1 - event.p - event.q),
    ):
        if probability:
            expected[ratio] = expected.get(ratio, Fraction(0)) + probability
    assert event.p / event.q <= bound
    for one, two in itertools.permutations(laws, 2):
        assert sum(one.values()) == 1
        assert {len(found) for found in one} == {k}
        assert losses(one, two) == expected
    # One unit of 2**-64 more would exceed epsilon; support is as the estimate has it.
    above = Fraction(1 << 500, exp_minus(Fraction(epsilon), 500)[0])
    more = m.p + Fraction(1, 2**64)
    assert more * (d - k) / ((1 - more) * k) > above * (1 - Fraction(1, 2**200))
    own = sum(p for found, p in laws[0].items() if 0 in found)
    cross = sum(p for found, p in laws[0].items() if d - 1 in found)
    assert (own, cross) == (m._support.own, m._support.cross)


def test_a_set_that_may_have_the_own_category_twice_is_found() -> None:
    """Plant: the others are drawn among all categories, the own one among them."""
    d, k, p = 4, 2, fastdp.SubsetSelection.from_epsilon(1, categories=4, size=2).p
    law: Law = {}
    for has, probability in ((True, p), (False, 1 - p)):
        listed = list(itertools.combinations(range(d), k - has))
        for others in listed:
            found = frozenset(others) | ({0} if has else frozenset())
            law[found] = law.get(found, Fraction(0)) + probability / len(listed)
    assert {len(found) for found in law} != {k}
    own = sum(p for found, p in law.items() if 0 in found)
    assert own != p


def test_draws_with_replacement_are_found_not_uniform() -> None:
    """Plant: a number that is taken is replaced by the next one, not by the last."""
    d, k = 5, 3
    counts: Counter[frozenset[int]] = Counter()
    for drawn in itertools.product(*(range(n) for n in subsets.ranges(d, k, False))):
        chosen: set[int] = set()
        for t in drawn:
            place = t
            while place in chosen:
                place = (place + 1) % (d - 1)
            chosen.add(place)
        counts[frozenset(chosen)] += 1
    assert len(set(counts.values())) > 1
    right = Counter(
        frozenset(subsets.subset(d - 1, d, k, False, drawn))
        for drawn in itertools.product(*(range(n) for n in subsets.ranges(d, k, False)))
    )
    assert len(set(right.values())) == 1
