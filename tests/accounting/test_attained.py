"""Lower bounds are attained: by the best mechanism, found by linear programs.

For one release, delta at epsilon of the worst mechanism with a pure or approximate
guarantee inside a sample or a group is the largest of P(E) - e^epsilon Q(E) over one
event E: the probabilities of E on all samples of a few records are the variables, and
the guarantee of each pair of neighboring samples is linear in them. So the program's
value is the truth for these records. An upper bound may lie above it, as there may be
worse data; a lower one that does is false.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from fastdp.accounting import (
    ApproximateDPEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GroupEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    TruncatedDiscreteLaplaceEvent,
)

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE

EPSILONS = (0.0, 0.02, 0.1, 0.4, 0.9, 1.7)


# ---- samples of a few records --------------------------------------------------------


def whole(data):
    """Return the law of the sample that is all of the data."""
    return {tuple(sorted(data)): 1.0}


def poisson(q):
    def law(data):
        found = Counter()
        for kept in itertools.product((0, 1), repeat=len(data)):
            sample = tuple(sorted(x for x, k in zip(data, kept, strict=True) if k))
            found[sample] += math.prod(q if k else 1 - q for k in kept)
        return found

    return law


def subset(size):
    def law(data):
        found = Counter()
        samples = list(itertools.combinations(sorted(data), size))
        for sample in samples:
            found[sample] += 1 / len(samples)
        return found

    return law


def draws(size):
    def law(data):
        found = Counter()
        for sample in itertools.product(data, repeat=size):
            found[tuple(sorted(sample))] += len(data) ** -size
        return found

    return law


def twice(first, second):
    """Return a sample of a sample."""

    def law(data):
        found = Counter()
        for one, p in first(data).items():
            for other, q in second(one).items():
                found[other] += p * q
        return found

    return law


def neighbors(one, other, relation):
    gone, new = Counter(one) - Counter(other), Counter(other) - Counter(one)
    sizes = {gone.total(), new.total()}
    return sizes == {0, 1} if relation is ADD else sizes == {1}


def truth(law, pairs, relation, epsilon, delta, at):
    """Return the largest delta at epsilon `at` over mechanisms and datasets."""
    best = 0.0
    for one, other in pairs:
        p, q = law(one), law(other)
        samples = sorted({*p, *q, ()} if relation is ADD else {*p, *q})
        # All samples that lie between count, and they are all there is to program.
        universe = sorted(set("".join(one) + "".join(other)))
        longest = max(map(len, samples))
        for size in range(longest + 1):
            samples += itertools.combinations_with_replacement(universe, size)
        samples = sorted(set(samples))
        rows, limits = [], []
        for i, j in itertools.permutations(range(len(samples)), 2):
            if neighbors(samples[i], samples[j], relation):
                row = np.zeros(len(samples))
                row[i], row[j] = 1, -math.exp(epsilon)
                rows += [row, -row]
                limits += [delta, math.exp(epsilon) - 1 + delta]
                # t_i <= e^epsilon t_j + delta, 1 - t_i <= e^epsilon (1 - t_j) + delta
                rows[-1] = -row
        gain = [p.get(s, 0.0) - math.exp(at) * q.get(s, 0.0) for s in samples]
        found = linprog(-np.array(gain), np.array(rows), limits, bounds=(0, 1))
        assert found.status == 0
        best = max(best, -found.fun)
    return best


def pure(epsilon, relation=ADD):
    return PureDPEvent(epsilon, neighboring_relation=relation)


def approximate(epsilon, delta):
    return ApproximateDPEvent(epsilon=epsilon, delta=delta)


def fixed(n, m, event, relation, *, again=False):
    kind = SampledWithReplacementEvent if again else SampledWithoutReplacementEvent
    return kind(
        source_dataset_size=n,
        sample_size=m,
        event=event,
        neighboring_relation=relation,
    )


Q = Fraction(1, 4)
BOTH = [("xy", ""), ("", "xy"), ("x", "y")]
THREE = [("xyz", ""), ("", "xyz"), ("xy", "z"), ("x", "yz")]
MORE = [("xab", "ab"), ("ab", "xab"), ("xaa", "aa"), ("aa", "xaa")]
SWAP = [("xab", "yab"), ("xaa", "yaa"), ("xaa", "aaa"), ("aaa", "xaa")]

#: Event, law of the sample, datasets, relation inside, (epsilon, delta) inside.
CASES = [
    (pure(1), whole, [("x", "")], ADD, (1, 0)),
    (GroupEvent(pure(1), 2), whole, BOTH, ADD, (1, 0)),
    (GroupEvent(pure(Fraction(1, 2)), 3), whole, THREE, ADD, (0.5, 0)),
    (GroupEvent(approximate(1, Fraction(1, 100)), 2), whole, BOTH, ADD, (1, 0.01)),
    (
        PoissonSampledEvent(Q, pure(1)),
        poisson(0.25),
        [("x", ""), ("", "x")],
        ADD,
        (1, 0),
    ),
    (GroupEvent(PoissonSampledEvent(Q, pure(1)), 2), poisson(0.25), BOTH, ADD, (1, 0)),
    (
        GroupEvent(PoissonSampledEvent(Q, approximate(1, Fraction(1, 100))), 2),
        poisson(0.25),
        BOTH,
        ADD,
        (1, 0.01),
    ),
    (
        PoissonSampledEvent(Q, pure(1), neighboring_relation=REPLACE),
        poisson(0.25),
        [("x", "y"), ("x", "a")],
        ADD,
        (1, 0),
    ),
    (
        PoissonSampledEvent(
            Q, approximate(1, Fraction(1, 100)), neighboring_relation=REPLACE
        ),
        poisson(0.25),
        [("x", "y"), ("x", "a")],
        ADD,
        (1, 0.01),
    ),
    (
        PoissonSampledEvent(Q, pure(1, REPLACE)),
        poisson(0.25),
        [("x", "y")],
        REPLACE,
        (1, 0),
    ),
    (fixed(3, 1, pure(1, REPLACE), REPLACE), subset(1), SWAP, REPLACE, (1, 0)),
    (fixed(3, 1, pure(1), REPLACE), subset(1), SWAP, ADD, (1, 0)),
    (fixed(3, 2, pure(1, REPLACE), ADD), subset(2), MORE, REPLACE, (1, 0)),
    (fixed(3, 2, pure(1), ADD), subset(2), MORE, ADD, (1, 0)),
    (
        GroupEvent(fixed(3, 1, pure(1, REPLACE), REPLACE), 2),
        subset(1),
        [("xya", "zwa"), ("xya", "aaa")],
        REPLACE,
        (1, 0),
    ),
    (
        fixed(3, 2, pure(1, REPLACE), REPLACE, again=True),
        draws(2),
        SWAP,
        REPLACE,
        (1, 0),
    ),
    (fixed(3, 3, pure(1, REPLACE), ADD, again=True), draws(3), MORE, REPLACE, (1, 0)),
    (fixed(3, 2, pure(1), REPLACE, again=True), draws(2), SWAP, ADD, (1, 0)),
    (
        PoissonSampledEvent(Q, PoissonSampledEvent(Fraction(1, 2), pure(1))),
        twice(poisson(0.25), poisson(0.5)),
        [("x", ""), ("", "x")],
        ADD,
        (1, 0),
    ),
    (
        PoissonSampledEvent(
            Q,
            PoissonSampledEvent(Fraction(1, 2), pure(1)),
            neighboring_relation=REPLACE,
        ),
        twice(poisson(0.25), poisson(0.5)),
        [("x", "y"), ("x", "a")],
        ADD,
        (1, 0),
    ),
]


@pytest.mark.parametrize(
    ("event", "law", "pairs", "relation", "inside"),
    CASES,
    ids=[f"{i}-{type(case[0]).__name__}" for i, case in enumerate(CASES)],
)
def test_the_best_mechanism_lies_between_the_bounds(
    event, law, pairs, relation, inside
):
    known = PLDAccountant().compose(event)
    for at in EPSILONS:
        best = truth(law, pairs, relation, *inside, at)
        found = known.delta_bounds(at)
        assert found.lower <= best * (1 + 1e-9) + 1e-11
        assert best <= found.upper * (1 + 1e-9) + 1e-11


def test_the_program_finds_false_lower_bounds():
    """Randomized response with the sum of both epsilons: more than any group has."""
    group = truth(whole, BOTH, ADD, 1, 0, 0.4)
    assert PLDAccountant().compose(pure(2)).delta_bounds(0.4).lower > 1.05 * group
    sample = truth(poisson(0.25), BOTH, ADD, 1, 0, 0.02)
    stated = pure(2 * Fraction(math.log1p(0.25 * math.expm1(1))))
    assert PLDAccountant().compose(stated).delta_bounds(0.02).lower > 1.05 * sample


# ---- mechanisms that are known -------------------------------------------------------


def hockey_stick(p, q, epsilon):
    return float(np.maximum(np.array(p) - math.exp(epsilon) * np.array(q), 0).sum())


def convolved(p, q, count):
    """Return the joint laws of independent runs."""
    one, other = np.ones(1), np.ones(1)
    for _ in range(count):
        one, other = np.outer(one, p).ravel(), np.outer(other, q).ravel()
    return one, other


@pytest.mark.parametrize("epsilon", [0.25, 1, 3])
def test_permute_and_flip_attains_its_lower_bounds(epsilon):
    # Two candidates: the better one is at most an epsilon ahead, and may fall behind.
    def chosen(ahead):
        worse = math.exp(-abs(ahead)) / 2
        return (1 - worse, worse) if ahead >= 0 else (worse, 1 - worse)

    laws = [
        (chosen(t), chosen(t - epsilon))
        for t in (
            *np.linspace(-2 * epsilon, 2 * epsilon, 41),
            *((epsilon - at) / 2 for at in (-epsilon, *EPSILONS)),
            *((epsilon + at) / 2 for at in EPSILONS),
            epsilon / 2,
        )
    ]
    laws += [(q, p) for p, q in laws]
    for count in (1, 4):
        known = PLDAccountant().compose(PermuteAndFlipEvent(Fraction(epsilon)), count)
        for at in EPSILONS:
            best = max(hockey_stick(*convolved(p, q, count), at) for p, q in laws)
            found = known.delta_bounds(at)
            assert found.lower <= best * (1 + 1e-9) + 1e-15
            assert best <= found.upper * (1 + 1e-9)
            if at == 0:
                assert found.lower > 0


def test_two_answers_to_a_randomized_response_are_one():
    # One report is about one value, however many individuals it is about.
    event = RandomizedResponseEvent(p=Fraction(1, 2), q=Fraction(1, 8))
    p, q = [0.5, 0.125, 0.375], [0.125, 0.5, 0.375]
    known = PLDAccountant().compose(GroupEvent(event, 2), 3)
    for at in EPSILONS:
        one, other = convolved(p, q, 3)
        best = hockey_stick(one, other, at)
        found = known.delta_bounds(at)
        assert best * (1 - 1e-9) <= found.lower <= best * (1 + 1e-9) <= found.upper


@pytest.mark.parametrize("sensitivity", [Fraction(3, 2), Fraction(5, 2), 2])
def test_integers_move_by_integers_in_groups_too(sensitivity):
    # Two individuals, each of whom moves an integer by `sensitivity` at most.
    x, shift = np.arange(-400, 401), 2 * int(sensitivity)
    laplace, normal = np.exp(-abs(x) / 3.0), np.exp(-(x**2) / 18.0)
    for event, law in (
        (DiscreteLaplaceEvent(sensitivity=sensitivity, scale=3), laplace),
        (
            DiscreteGaussianEvent(sensitivity=sensitivity, sigma=3, coordinates=1),
            normal,
        ),
    ):
        p = law / law.sum()
        known = PLDAccountant().compose(GroupEvent(event, 2))
        for at in EPSILONS:
            best = hockey_stick(np.roll(p, shift), p, at)
            found = known.delta_bounds(at)
            assert found.lower <= best * (1 + 1e-9)
            assert best * (1 - 1e-9) <= found.upper
            if law is laplace:  # in the other case two coordinates may move
                assert found.upper <= best * (1 + 1e-6)


def test_noise_that_is_too_long_to_list_claims_nothing_from_below():
    event = TruncatedDiscreteLaplaceEvent(sensitivity=10**6, scale=10**6, bound=10**8)
    found = PLDAccountant().compose(event).epsilon_bounds(1e-9)
    x = np.arange(-(10**7), 10**7 + 1, 1000) / 1e6
    law = np.exp(-abs(x))
    p = law / law.sum()
    assert found.lower <= 1
    assert found.upper >= 0.999
    delta = PLDAccountant().compose(event).delta_bounds(0.5)
    assert delta.lower <= hockey_stick(np.roll(p, 1000), p, 0.5) * 1.01
