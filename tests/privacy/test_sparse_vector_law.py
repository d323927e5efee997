"""The law of the sparse vector by exact enumeration, and of its broken relatives.

Laws are summed over the whole range of the threshold's noise: term by term where the
queries lie, as geometric series beyond. The ratio r = exp(-1/scale) of a discrete
Laplace law may be any number between 0 and 1: with a rational one all probabilities
are rational, and e^epsilon too, and nothing is rounded.
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
from tests.statistical.bins import p_value

Values: TypeAlias = "tuple[int, ...]"
Answers: TypeAlias = "tuple[bool, ...]"
#: A query's distance below the threshold, and whether it was answered as above.
Query: TypeAlias = "tuple[int, bool]"

DIGITS = 60


def mass(x: int, r: Any) -> Any:
    """Return P(N = x) of the discrete Laplace law of ratio r."""
    return (1 - r) / (1 + r) * r ** abs(x)


def tail(x: int, r: Any) -> Any:
    """Return P(N >= x)."""
    return r**x / (1 + r) if x > 0 else 1 - r ** (1 - x) / (1 + r)


def beyond(first: int, r1: Any, r2: Any, factors: list[tuple[int, Any]]) -> Any:
    """Return sum_{w >= first} r1^w prod (constant + slope r2^w) over the factors."""
    powers = [Fraction(1)]  # coefficients of the powers of r2^w
    for constant, slope in factors:
        shifted = [Fraction(0), *(slope * p for p in powers)]
        powers = [constant * p + s for p, s in zip([*powers, 0], shifted, strict=True)]
    steps = [r1 * r2**j for j in range(len(powers))]
    return sum(
        (p * step**first / (1 - step) for p, step in zip(powers, steps, strict=True)),
        Fraction(0),
    )


def probability(values: Values, said: Answers, r1: Any, r2: Any) -> Any:
    """Return the probability of these answers; r1 of the threshold, r2 of a query.

    The threshold is 0 before its noise. Given that noise the answers are independent,
    so that their order does not matter.
    """
    queries = sorted((-x, above) for x, above in zip(values, said, strict=False))
    return _probability(tuple(queries), r1, r2)


@lru_cache(maxsize=1 << 16)
def _probability(queries: tuple[Query, ...], r1: Any, r2: Any) -> Any:
    near = max((abs(gap) for gap, _ in queries), default=0) + 1
    total = Fraction(0)
    for z in range(-near, near + 1):
        term = mass(z, r1)
        for gap, above in queries:
            p = tail(gap + z, r2)
            term = term * (p if above else 1 - p)
        total = total + term
    high, low = [], []
    for gap, above in queries:
        p, q = r2**gap / (1 + r2), r2 ** (1 - gap) / (1 + r2)
        high.append((0, p) if above else (1, -p))
        low.append((1, -q) if above else (0, q))
    outer = beyond(near + 1, r1, r2, high) + beyond(near + 1, r1, r2, low)
    return total + (1 - r1) / (1 + r1) * outer


def transcripts(queries: int, answers: int) -> Iterator[Answers]:
    """Yield all outputs for this many queries; each ends with the last answer."""
    for said in itertools.product((False, True), repeat=queries):
        if sum(said) <= answers:
            yield said
    for length in range(answers, queries):
        for said in itertools.product((False, True), repeat=length):
            if sum(said) == answers and said[-1]:
                yield said


def ratio(values: Values, others: Values, said: Answers, r1: Any, r2: Any) -> Any:
    """Return how far the probabilities of `said` are apart, either way: >= 1."""
    p, q = (probability(data, said, r1, r2) for data in (values, others))
    return max(p / q, q / p)


def worst_ratio(values: Values, others: Values, r1: Any, r2: Any, answers: int) -> Any:
    """Return the greatest ratio over all that can be heard."""
    heard = transcripts(len(values), answers)
    return max(ratio(values, others, said, r1, r2) for said in heard)


def neighbors(values: Values, moved: int, monotonic: bool) -> Iterator[Values]:
    reach = [range(-moved, moved + 1)]
    if monotonic:
        reach = [range(moved + 1), range(-moved, 1)]
    for steps in reach:
        for move in itertools.product(steps, repeat=len(values)):
            yield tuple(x + m for x, m in zip(values, move, strict=True))


def worst_of_all(
    r1: Any, r2: Any, *, queries: int, moved: int, answers: int, monotonic: bool
) -> Any:
    """Return the greatest ratio over small values and all their neighbors."""
    return max(
        worst_ratio(values, others, r1, r2, answers)
        for values in itertools.product((-1, 0, 2), repeat=queries)
        for others in neighbors(values, moved, monotonic)
    )


# ---- the computation itself ------------------------------------------------------


def final(queries: int, answers: int) -> list[Answers]:
    """Return the transcripts that no other one continues: together they are certain."""
    return [
        said
        for said in transcripts(queries, answers)
        if len(said) == queries or sum(said) == answers
        if sum(said[:-1]) != answers
    ]


@pytest.mark.parametrize("answers", [1, 2, 3])
def test_probabilities_add_up(answers: int) -> None:
    r1, r2 = Fraction(1, 2), Fraction(2, 3)
    for values in ((0, 0, 0), (3, -2, 1), (-5, 4, 4)):
        assert sum(probability(values, a, r1, r2) for a in final(3, answers)) == 1


def test_series_are_the_sums() -> None:
    r1, r2 = Fraction(1, 2), Fraction(2, 3)
    values, said = (-2, 1, 0), (True, False, False)
    direct = Fraction(0)
    for z in range(-150, 151):
        term = mass(z, r1)
        for x, above in zip(values, said, strict=True):
            term *= tail(z - x, r2) if above else 1 - tail(z - x, r2)
        direct += term
    assert 0 <= probability(values, said, r1, r2) - direct < Fraction(1, 2**148)


# ---- the guarantee ---------------------------------------------------------------

CASES = [
    (Fraction(1, 2), Fraction(1, 2)),
    (Fraction(1, 3), Fraction(4, 5)),
    (Fraction(9, 10), Fraction(2, 5)),
]


@pytest.mark.parametrize(("r1", "r2"), CASES)
@pytest.mark.parametrize(
    ("queries", "answers", "moved"), [(3, 1, 1), (3, 2, 1), (2, 1, 2)]
)
@pytest.mark.parametrize("monotonic", [False, True])
def test_no_answers_break_epsilon(
    r1: Fraction,
    r2: Fraction,
    queries: int,
    answers: int,
    moved: int,
    monotonic: bool,
) -> None:
    # e^e1 = r1^-moved, e^e2 = r2^-(factor moved): what the two scales are made for.
    factor = answers if monotonic else 2 * answers
    limit = r1**-moved * r2 ** -(factor * moved)
    worst = worst_of_all(
        r1,
        r2,
        queries=queries,
        moved=moved,
        answers=answers,
        monotonic=monotonic,
    )
    assert 1 < worst <= limit


#: Queries that move both ways: 40 just below, then some far below.
BELOW = 40


def both_ways(answers: int, moved: int = 1) -> tuple[Values, Values, Answers]:
    """Return two datasets and the answers for which the proof loses least."""
    values = (*[-2 * moved] * BELOW, *[-9 * moved] * answers)
    others = (*[-moved] * BELOW, *[-10 * moved] * answers)
    return values, others, (*[False] * BELOW, *[True] * answers)


@pytest.mark.parametrize("answers", [1, 2])
def test_the_bound_is_nearly_reached(answers: int) -> None:
    r = Fraction(1, 2)
    limit = 2 ** (1 + 2 * answers)
    assert limit / 2 < ratio(*both_ways(answers), r, r) <= limit


def scales(vector: Any) -> tuple[Any, Any]:
    """Return the two ratios of an object's own laws, in its steps."""
    step = Fraction(vector.granularity)
    found = []
    for scale in (vector.threshold_scale, vector.query_scale):
        exact = Fraction(scale) / step
        found.append(mpmath.exp(-mpmath.mpf(exact.denominator) / exact.numerator))
    return found[0], found[1]


@pytest.mark.parametrize("epsilon", [0.1, 1, Fraction(7, 3)])
@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("granularity", [1, Fraction(1, 2)])
def test_scales_of_the_object_meet_its_epsilon(
    epsilon: Any, answers: int, monotonic: bool, granularity: Any
) -> None:
    vector = fastdp.SparseVector(
        0,
        epsilon=epsilon,
        answers=answers,
        monotonic=monotonic,
        granularity=granularity,
        sensitivity=1,
    )
    moved = int(1 / Fraction(granularity)) + 1
    with mpmath.workdps(DIGITS):
        r1, r2 = scales(vector)
        exact = Fraction(vector.event().epsilon)
        limit = mpmath.exp(mpmath.mpf(exact.numerator) / exact.denominator)
        for values in ((0, 0), (-2, 3)):
            for others in neighbors(values, moved, monotonic):
                worst = worst_ratio(values, others, r1, r2, answers)
                assert worst <= limit * (1 + mpmath.mpf(10) ** -50)


# ---- variants that are not private -----------------------------------------------


def test_half_the_noise_is_not_enough_where_queries_move_both_ways() -> None:
    """`monotonic` scales with queries that are not."""
    r = Fraction(1, 2)
    assert ratio(*both_ways(1), r, r) > r**-1 * r**-1


def test_noise_that_does_not_grow_with_the_answers_is_not_enough() -> None:
    r = Fraction(1, 2)
    as_if_for_one = r**-1 * r**-2
    assert ratio(*both_ways(1), r, r) <= as_if_for_one
    assert ratio(*both_ways(3), r, r) > as_if_for_one


def test_no_noise_on_the_queries_tells_all() -> None:
    """Below, then above: for one dataset impossible."""
    r1 = Fraction(1, 2)

    def law(first: int, second: int) -> Fraction:
        return sum(
            (mass(z, r1) for z in range(-50, 51) if first < z <= second), Fraction(0)
        )

    assert law(0, 1) > 0
    assert law(1, 0) == 0


def test_the_noise_of_the_comparison_must_not_be_shown() -> None:
    """The noisy value that was compared, given as the answer: any epsilon breaks."""
    r1, r2 = Fraction(1, 2), Fraction(1, 2)

    def law(below: int, value: int, shown: int) -> Fraction:
        """`below` queries of one value, then one above whose noisy value is shown."""
        reach = range(-80, shown + 1)
        return mass(shown - value, r2) * sum(
            (mass(z, r1) * (1 - tail(z - below, r2)) ** 20 for z in reach), Fraction(0)
        )

    # One answer: pure e^epsilon would be 2 * 2^2, and 2 more for the value.
    assert law(0, 1, 0) / law(1, 0, 0) > 2 * 2**2 * 2 * 10


def test_rounding_to_the_grid_must_be_charged() -> None:
    """Values a sensitivity apart lie a step more apart on the grid."""
    vector = fastdp.SparseVector(0, epsilon=1, sensitivity=1, granularity=1)
    assert np.rint([0.5, 1.5]).tolist() == [0, 2]
    with mpmath.workdps(DIGITS):
        r1, r2 = scales(vector)
        case = both_ways(1, moved=2)
        assert ratio(*case, r1, r2) <= mpmath.e
        # The scales for floor(s / g) = 1 step are half of the object's.
        assert ratio(*case, r1**2, r2**2) > mpmath.e


# ---- the object itself -----------------------------------------------------------


@pytest.mark.rest
@pytest.mark.parametrize("monotonic", [False, True])
def test_answers_have_the_computed_law(monotonic: bool) -> None:
    """All transcripts of 6,000 objects; false alarm 1e-10."""
    runs, values = 6000, np.array([-1, 2, 0, 1])
    counts: dict[Answers, int] = {}
    for _ in range(runs):
        vector = fastdp.SparseVector(
            1, epsilon=2, answers=2, monotonic=monotonic, granularity=1, sensitivity=1
        )
        said = tuple(vector.test(values).tolist())
        counts[said] = counts.get(said, 0) + 1
    with mpmath.workdps(30):
        law = scales(vector)
        below = tuple(int(x) - 1 for x in values)
        expected = {said: float(probability(below, said, *law)) for said in final(4, 2)}
    assert sum(expected.values()) == pytest.approx(1)
    assert set(counts) <= set(expected)
    seen = np.array([counts.get(said, 0) for said in expected])
    assert p_value(seen, np.array(list(expected.values()))) > 1e-10


def test_the_check_sees_another_law() -> None:
    """The same test rejects noise of 1.5 times the scale."""
    law, wide = (
        np.array([float(probability((-3, 0, -2), a, r, r)) for a in final(3, 2)])
        for r in (Fraction(2, 3), Fraction(77, 100))
    )
    assert p_value(np.rint(6000 * wide).astype(int), law) < 1e-10
