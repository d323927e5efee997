"""Every family that the accountant of privacy losses knows, against laws known in full.

The truths are sums over all outcomes at 30 digits, made from the mechanisms' own
probabilities and not from anything the accountant computes.
"""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import pytest

from fastdp.accounting import (
    ApproximateDPEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacementEvent,
    TradeOffEvent,
    TruncatedDiscreteLaplaceEvent,
)

ADD, REPLACE = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
)

mp.mp.dps = 30


def number(value):
    return mp.mpf(Fraction(value).numerator) / Fraction(value).denominator


# ---- mechanisms by the probabilities of their outcomes -------------------------------


def response(p, q):
    p, q = number(p), number(q)
    return [p, 1 - p - q, q], [q, 1 - p - q, p]


def pure(epsilon, lost=0):
    share, e = 1 - number(lost), number(epsilon)
    high = share / (1 + mp.exp(-e))
    low = share - high
    return [high, low, number(lost), 0], [low, high, 0, number(lost)]


def noise(weight, low, high, shift):
    """Integer noise around 0 against the same around `shift`."""
    masses = {x: weight(x) for x in range(low, high + 1)}
    total = mp.fsum(masses.values())
    places = range(low, high + shift + 1)
    far = [masses.get(x - shift, mp.mpf(0)) / total for x in places]
    return far, [masses.get(x, mp.mpf(0)) / total for x in places]


def discrete_laplace(shift, scale):
    reach = int(80 * scale) + 2 * shift
    return noise(lambda x: mp.exp(-abs(x) / number(scale)), -reach, reach, shift)


def truncated(shift, scale, bound):
    return noise(lambda x: mp.exp(-abs(x) / number(scale)), -bound, bound, shift)


def discrete_gaussian(shift, sigma):
    reach = math.ceil(14 * sigma) + 2 * shift
    square = 2 * number(sigma) ** 2
    return noise(lambda x: mp.exp(-x * x / square), -reach, reach, shift)


def trade_off(rates, values):
    """Laws with a trade-off function that is its own inverse: an outcome each piece."""
    p = [number(b) - number(a) for a, b in itertools.pairwise(rates)]
    q = [number(a) - number(b) for a, b in itertools.pairwise(values)]
    return [*q, 1 - number(values[0])], [*p, mp.mpf(0)]


def both(pair):
    """The laws of the removal and of the addition of a record."""
    return [pair, pair[::-1]]


def poisson(pair, rate):
    q = number(rate)
    with_it, without = pair
    mixed = [q * a + (1 - q) * b for a, b in zip(with_it, without, strict=True)]
    return both((mixed, without))


def subset(pair, rate):
    """The law that dominates subsets: either direction where it is the larger."""
    removal, addition = poisson(pair, rate)
    return [(removal, addition)]


# ---- the truth -----------------------------------------------------------------------


def losses(pair):
    """Losses with their masses under P, equal ones together; and what is infinite."""
    found, lost = {}, mp.mpf(0)
    for a, b in zip(*pair, strict=True):
        if a > 0 and b > 0:
            key = mp.nstr(mp.log(a / b), 20)
            old = found.get(key, (mp.log(a / b), mp.mpf(0)))
            found[key] = old[0], old[1] + a
        elif a > 0:
            lost += a
    return list(found.values()), lost


def symmetric_losses(removal, addition):
    """Losses above 0 of the removal, below 0 of the addition, and the rest at 0."""
    (above, lost), (below, _) = losses(removal), losses(addition)
    kept = [(x, m) for x, m in above if x > 0] + [(x, m) for x, m in below if x < 0]
    rest = 1 - lost - mp.fsum(m for _, m in kept)
    return [*kept, (mp.mpf(0), rest)], lost


def delta(law, count, epsilon):
    """delta(epsilon) of `count` steps, by all sums of losses."""
    values, lost = law
    kept = 1 - (1 - lost) ** count
    sums = {(): (mp.mpf(0), mp.mpf(1))}
    for _ in range(count):
        longer = {}
        for i, (x, m) in enumerate(values):
            for key, (total, mass) in sums.items():
                name = tuple(sorted((*key, i)))
                old = longer.get(name, (total + x, mp.mpf(0)))
                longer[name] = old[0], old[1] + mass * m
        sums = longer
    e = number(epsilon)
    return kept + mp.fsum(
        mass * -mp.expm1(e - total) for total, mass in sums.values() if total > e
    )


def truth(directions, count, epsilon):
    laws = [
        symmetric_losses(*one) if isinstance(one[0], tuple) else losses(one)
        for one in directions
    ]
    return max(delta(law, count, epsilon) for law in laws)


RESPONSE = RandomizedResponseEvent(
    p=Fraction(1, 2), q=Fraction(1, 5), neighboring_relation=ADD
)
KNOTS = (0, Fraction(1, 8), Fraction(1, 2), 1), (1, Fraction(1, 2), Fraction(1, 8), 0)
LOSSY = (
    (0, Fraction(1, 4), Fraction(9, 10), 1),
    (Fraction(9, 10), Fraction(1, 4), 0, 0),
)


def stated(rates, misses):
    return TradeOffEvent(false_positive_rates=rates, false_negative_rates=misses)


#: An event, its laws in both directions, and counts.
CASES = [
    (
        DiscreteGaussianEvent(sensitivity=1, sigma=1, coordinates=1),
        both(discrete_gaussian(1, 1)),
        (1, 2),
    ),
    (
        DiscreteGaussianEvent(sensitivity=2, sigma=Fraction(1, 2), coordinates=1),
        both(discrete_gaussian(2, 0.5)),
        (1, 2),
    ),
    (
        DiscreteGaussianEvent(sensitivity=1, sigma=3),
        both(discrete_gaussian(1, 3)),
        (1,),
    ),
    (
        TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=2, bound=9),
        both(truncated(1, 2, 9)),
        (1, 3),
    ),
    (
        TruncatedDiscreteLaplaceEvent(sensitivity=3, scale=2, bound=9),
        both(truncated(3, 2, 9)),
        (1, 3),
    ),
    (
        TruncatedDiscreteLaplaceEvent(sensitivity=3, scale=2, bound=3),
        both(truncated(3, 2, 3)),
        (2,),
    ),
    (
        PoissonSampledEvent(0.25, RESPONSE),
        poisson(response("1/2", "1/5"), 0.25),
        (1, 4),
    ),
    (PoissonSampledEvent(0.75, PureDPEvent(2)), poisson(pure(2), 0.75), (1, 9)),
    (
        PoissonSampledEvent(
            0.125, ApproximateDPEvent(epsilon=1, delta=Fraction(1, 1000))
        ),
        poisson(pure(1, Fraction(1, 1000)), 0.125),
        (1, 5),
    ),
    (
        PoissonSampledEvent(0.25, DiscreteLaplaceEvent(sensitivity=3, scale=2)),
        poisson(discrete_laplace(3, 2), 0.25),
        (1, 3),
    ),
    (
        PoissonSampledEvent(
            0.25, TruncatedDiscreteLaplaceEvent(sensitivity=2, scale=2, bound=6)
        ),
        poisson(truncated(2, 2, 6), 0.25),
        (1, 3),
    ),
    (
        PoissonSampledEvent(
            0.25, DiscreteGaussianEvent(sensitivity=1, sigma=1, coordinates=1)
        ),
        poisson(discrete_gaussian(1, 1), 0.25),
        (1, 2),
    ),
    (stated(*KNOTS), both(trade_off(*KNOTS)), (1, 4)),
    (stated(*LOSSY), both(trade_off(*LOSSY)), (1, 3)),
    (
        PoissonSampledEvent(0.5, stated(*LOSSY)),
        poisson(trade_off(*LOSSY), 0.5),
        (1, 3),
    ),
]


@pytest.mark.parametrize(
    ("event", "directions", "count"),
    [(event, laws, n) for event, laws, counts in CASES for n in counts],
    ids=lambda value: repr(value) if not isinstance(value, list) else "",
)
def test_bounds_contain_the_sum_over_all_outcomes(event, directions, count):
    known = PLDAccountant().compose(event, count)
    for epsilon in (0, 0.125, 0.75, 2.5):
        true = truth(directions, count, epsilon)
        found = known.delta_bounds(epsilon)
        assert found.lower <= true * (1 + mp.mpf(10) ** -25) + mp.mpf(10) ** -26
        assert found.upper >= true * (1 - mp.mpf(10) ** -25) - mp.mpf(10) ** -26
        if true > 1e-20:
            assert found.upper - found.lower <= 1e-9 * true


SUBSETS = [
    (
        SampledWithoutReplacementEvent(
            source_dataset_size=8,
            sample_size=2,
            event=PureDPEvent(1, neighboring_relation=REPLACE),
        ),
        pure(1),
        (1, 5),
    ),
    (
        SampledWithoutReplacementEvent(
            source_dataset_size=8,
            sample_size=2,
            event=DiscreteLaplaceEvent(
                sensitivity=2, scale=1, neighboring_relation=REPLACE
            ),
        ),
        discrete_laplace(2, 1),
        (1, 3),
    ),
    (
        SampledWithoutReplacementEvent(
            source_dataset_size=8,
            sample_size=2,
            event=TruncatedDiscreteLaplaceEvent(
                sensitivity=2, scale=1, bound=5, neighboring_relation=REPLACE
            ),
        ),
        truncated(2, 1, 5),
        (1, 3),
    ),
]


@pytest.mark.parametrize(
    ("event", "pair", "count"),
    [(event, pair, n) for event, pair, counts in SUBSETS for n in counts],
    ids=lambda value: repr(value) if not isinstance(value, tuple) else "",
)
def test_subsets_lie_between_their_law_and_that_of_a_poisson_sample(event, pair, count):
    known = PLDAccountant().compose(event, count)
    for epsilon in (0, 0.125, 0.75, 2.5):
        above = truth(subset(pair, 0.25), count, epsilon)
        below = truth(poisson(pair, 0.25), count, epsilon)
        found = known.delta_bounds(epsilon)
        assert found.upper >= above * (1 - mp.mpf(10) ** -25) - mp.mpf(10) ** -26
        assert found.lower <= below * (1 + mp.mpf(10) ** -25) + mp.mpf(10) ** -26
        if below > 1e-20:
            assert found.upper <= (1 + 1e-9) * above
            assert found.lower >= (1 - 1e-9) * below


def test_a_trade_off_function_and_its_inverse_say_one_thing():
    """Tests in either order: the larger of both functions holds."""
    flat = TradeOffEvent(
        false_positive_rates=(0, 0.25, 1), false_negative_rates=(0.75, 0.125, 0)
    )
    steep = TradeOffEvent(
        false_positive_rates=(0, 0.125, 0.75, 1), false_negative_rates=(1, 0.25, 0, 0)
    )
    seventh = Fraction(4, 7)
    rates = (0, seventh / 8, Fraction(3, 14), seventh, 1)  # the lines' crossings
    knots = rates, (1, seventh, Fraction(3, 14), seventh / 8, 0)
    for epsilon in (0, 0.5, 1.5):
        true = delta(losses(trade_off(*knots)), 3, epsilon)
        for event in (flat, steep):
            found = PLDAccountant().compose(event, 3).delta_bounds(epsilon)
            assert found.lower <= true <= found.upper
            assert found.upper - found.lower <= 1e-9 * true
