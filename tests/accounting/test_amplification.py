"""Sampling by enumeration of all samples, and wrong formulas shown wrong."""

import itertools
import math
from fractions import Fraction

import pytest

from fastdp.accounting import (
    ApproximateAccountant,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    SelfComposedEvent,
    event_delta,
    event_epsilon,
)
from fastdp.accounting.amplification import (
    shuffled_delta,
    shuffled_epsilon,
    shuffled_event,
)
from fastdp.accounting.fdp import FDPAccountant
from fastdp.exceptions import UnsupportedEventError

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL

# ---- samples, enumerated ------------------------------------------------------------


def noisy_count(sample, scale):
    """Return the law of a sample's count with discrete Laplace noise."""
    q = math.exp(-1 / scale)
    law = {}
    for size, chance in sample.items():
        for z in range(-160, 161):
            mass = (1 - q) / (1 + q) * q ** abs(z)
            law[size + z] = law.get(size + z, 0.0) + chance * mass
    return law


def stick(p, q, epsilon):
    x = math.exp(epsilon)
    return sum(max(0.0, p[key] - x * q.get(key, 0.0)) for key in p)


def poisson(values, rate):
    law = {}
    for chosen in itertools.product([0, 1], repeat=len(values)):
        chance = math.prod(rate if c else 1 - rate for c in chosen)
        size = sum(v for v, c in zip(values, chosen, strict=True) if c)
        law[size] = law.get(size, 0.0) + chance
    return law


def subsets(values, m):
    law = {}
    for chosen in itertools.combinations(values, m):
        law[sum(chosen)] = law.get(sum(chosen), 0.0) + 1 / math.comb(len(values), m)
    return law


def draws(values, m):
    law = {}
    for chosen in itertools.product(values, repeat=m):
        law[sum(chosen)] = law.get(sum(chosen), 0.0) + len(values) ** -m
    return law


@pytest.mark.parametrize("scale", [1.0, 2.5])
@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("others", [(), (1, 0, 1)])
def test_poisson_samples_enumerated(scale, rate, others):
    event = PoissonSampledEvent(rate, PureDPEvent(Fraction(1) / Fraction(scale)))
    p = noisy_count(poisson((*others, 1), rate), scale)
    q = noisy_count(poisson(others, rate), scale)
    for epsilon in [0.0, 0.05, 0.2, 0.5]:
        true = max(stick(p, q, epsilon), stick(q, p, epsilon))
        assert true <= event_delta(event, epsilon) * (1 + 1e-9) + 1e-12
    pure = event_epsilon(event)
    assert pure == pytest.approx(math.log1p(rate * math.expm1(1 / scale)))
    if not others:  # attained by the empty dataset
        assert math.log(p[60] / q[60]) == pytest.approx(pure)


@pytest.mark.parametrize("scale", [1.0, 2.5])
@pytest.mark.parametrize(("others", "m"), [((), 1), ((1, 0, 1), 1), ((0, 0, 1), 2)])
def test_subsets_enumerated(scale, others, m):
    n = len(others) + 1
    inner = PureDPEvent(Fraction(1) / Fraction(scale), neighboring_relation=REPLACE)
    event = SampledWithoutReplacementEvent(
        source_dataset_size=n, sample_size=m, event=inner
    )
    p = noisy_count(subsets((*others, 1), m), scale)
    q = noisy_count(subsets((*others, 0), m), scale)
    for epsilon in [0.0, 0.05, 0.2, 0.5]:
        true = max(stick(p, q, epsilon), stick(q, p, epsilon))
        assert true <= event_delta(event, epsilon) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("scale", [1.0, 4.0])
@pytest.mark.parametrize(("others", "m"), [((), 2), ((0, 1), 3), ((0, 0, 0), 4)])
def test_draws_enumerated(scale, others, m):
    n = len(others) + 1
    inner = PureDPEvent(Fraction(1) / Fraction(scale), neighboring_relation=REPLACE)
    event = SampledWithReplacementEvent(
        source_dataset_size=n, sample_size=m, event=inner
    )
    p = noisy_count(draws((*others, 1), m), scale)
    q = noisy_count(draws((*others, 0), m), scale)
    for epsilon in [0.0, 0.05, 0.2, 0.5]:
        true = max(stick(p, q, epsilon), stick(q, p, epsilon))
        assert true <= event_delta(event, epsilon) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(
    "event",
    [
        PoissonSampledEvent(
            0.1,
            PureDPEvent(1, neighboring_relation=REPLACE),
            neighboring_relation=ADD,
        ),
        PoissonSampledEvent(
            0.1,
            GaussianEvent(sensitivity=1, sigma=1, neighboring_relation=SPECIAL),
            neighboring_relation=REPLACE,
        ),
        SampledWithoutReplacementEvent(
            source_dataset_size=10,
            sample_size=2,
            event=PureDPEvent(1, neighboring_relation=SPECIAL),
        ),
        SampledWithReplacementEvent(
            source_dataset_size=10,
            sample_size=2,
            event=LaplaceEvent(sensitivity=1, scale=1, neighboring_relation=SPECIAL),
            neighboring_relation=ADD,
        ),
        PoissonSampledEvent(0.1, GroupEvent(PureDPEvent(1), 2)),
    ],
)
def test_sampling_belongs_to_a_relation(event):
    with pytest.raises(UnsupportedEventError):
        event_epsilon(event, 1e-6)


# ---- rounds and groups ------------------------------------------------------------


def rounds_law(n, e0, bit, rounds):
    """Return the joint law of the sums of shuffled bits of n clients, the others 0."""
    p = 1 / (1 + math.exp(-e0))
    one = poisson_binomial([p if bit else 1 - p] + [1 - p] * (n - 1))
    return {
        key: math.prod(one[total] for total in key)
        for key in itertools.product(one, repeat=rounds)
    }


def test_rounds_compose_above_the_exact_attack():
    e0, n, rounds = 1.0, 8, 3
    p, q = rounds_law(n, e0, 1, rounds), rounds_law(n, e0, 0, rounds)
    event = SelfComposedEvent(
        shuffled_event(local_epsilon=e0, clients=n, categories=2, points=64), rounds
    )
    accountant = FDPAccountant().compose(event)
    for epsilon in [0.0, 0.5, 1.5]:
        true = max(stick(p, q, epsilon), stick(q, p, epsilon))
        claimed = accountant.delta(epsilon)
        assert true <= claimed <= 1
    # far below three pure rounds, which forget the shuffle
    pure = ApproximateAccountant().compose(
        PureDPEvent(e0, neighboring_relation=REPLACE), rounds
    )
    assert accountant.delta(0.5) < pure.delta(0.5)


def test_groups_of_clients():
    e0, n, size = 1.0, 6, 2
    event = GroupEvent(shuffled_event(local_epsilon=e0, clients=n, categories=2), size)
    accountant = FDPAccountant().compose(event)
    p = 1 / (1 + math.exp(-e0))

    def law(values):
        return poisson_binomial([p if b else 1 - p for b in values])

    first, second = law([1, 1, 0, 0, 0, 0]), law([0, 0, 0, 0, 0, 0])
    for epsilon in [0.0, 0.5, 1.0]:
        true = max(stick(first, second, epsilon), stick(second, first, epsilon))
        assert true <= accountant.delta(epsilon)


def poisson_binomial(chances):
    law = {0: 1.0}
    for chance in chances:
        grown = {}
        for total, mass in law.items():
            grown[total] = grown.get(total, 0.0) + mass * (1 - chance)
            grown[total + 1] = grown.get(total + 1, 0.0) + mass * chance
        law = grown
    return law


# ---- wrong formulas ------------------------------------------------------------


def test_a_printed_sampling_rate():
    # (e^x - 1)/(e^y - e^(x - y) - 1) for x = 1/2 out of y = 1
    target, inner = 0.5, 1.0
    printed = math.expm1(target) / (math.exp(inner) - math.exp(target - inner) - 1)
    right = math.expm1(target) / math.expm1(inner)
    assert event_epsilon(PoissonSampledEvent(printed, PureDPEvent(1))) > 0.69
    assert event_epsilon(PoissonSampledEvent(right, PureDPEvent(1))) <= 0.5 + 1e-12


def test_sampling_does_not_multiply_epsilon_by_the_rate():
    for rate, epsilon in [(0.1, 1), (0.5, 3)]:
        exact = event_epsilon(PoissonSampledEvent(rate, PureDPEvent(epsilon)))
        assert exact > rate * epsilon


def test_the_sharper_rate_is_for_binary_response_alone():
    # Its general theorem was withdrawn: without a named randomizer the clones of 2021
    # are used, and k-ary response has a rate of its own.
    for e0, n in [(1, 100), (4, 1000)]:
        general = shuffled_epsilon(local_epsilon=e0, clients=n, delta=1e-6)
        assert (
            shuffled_epsilon(local_epsilon=e0, clients=n, delta=1e-6, categories=2)
            < general
        )
    # alone, a report of any kind hides behind nobody
    one = shuffled_delta(local_epsilon=2, clients=1, epsilon=1)
    p = 1 / (1 + math.exp(-2))
    assert one >= p - math.e * (1 - p)
    assert event_delta(RandomizedResponseEvent(p=p, q=1 - p), 1) <= one


def test_reports_need_not_hide_as_often_as_the_withdrawn_lemma_says():
    # Its lemma: with R(0), R(1) made of Q0 and Q1, every R(x) is at least
    # (Q0 + Q1)/(E + 1). Here R(2) is not, at an output that R(0) and R(1) share;
    # (Q0 + Q1)/(2 E), the rate that is used for all randomizers, it is.
    grown, a = math.e, 0.2
    b = 1 - (grown + 1) * a
    rows = [(grown * a, a, b), (a, grown * a, b)]
    rows.append(((1 - b / grown) / 2, (1 - b / grown) / 2, b / grown))
    for column in zip(*rows, strict=True):
        assert max(column) <= grown * min(column) * (1 + 1e-12)
    first = [(grown * p - q) / (grown - 1) for p, q in zip(*rows[:2], strict=True)]
    second = [(grown * q - p) / (grown - 1) for p, q in zip(*rows[:2], strict=True)]
    assert min(first + second) >= -1e-15
    both = [p + q for p, q in zip(first, second, strict=True)]
    assert rows[2][2] < 0.7 * both[2] / (grown + 1)
    assert all(
        mass >= part / (2 * grown) * (1 - 1e-12)
        for mass, part in zip(rows[2], both, strict=True)
    )


def test_a_block_of_clients_may_not_be_skipped_downwards():
    # Taking the best (not the worst) end of every block of N would claim too little.
    from fastdp.accounting._amplification import binomial, shuffling

    pair = shuffling.ShuffledPair(1.0, 2000, None)
    law = binomial.window(1999, pair.log_odds, 60.0, 8)
    exact = pair.log_delta(0.1, -20.0)
    low, high = (pair.blocks_log_delta(0.1, law, upper) for upper in (False, True))
    assert low < exact < high


def test_fixed_and_poisson_samples_differ():
    # one record replaced moves a clipped sum twice as far as one added
    poisson_one = PoissonSampledEvent(
        Fraction(1, 10), GaussianEvent(sensitivity=1, sigma=2)
    )
    fixed = SampledWithoutReplacementEvent(
        source_dataset_size=10,
        sample_size=1,
        event=GaussianEvent(sensitivity=2, sigma=2, neighboring_relation=REPLACE),
    )
    mixed = SampledWithoutReplacementEvent(
        source_dataset_size=10,
        sample_size=1,
        event=GaussianEvent(sensitivity=1, sigma=2, neighboring_relation=REPLACE),
    )
    assert event_delta(fixed, 0.2) > 2 * event_delta(poisson_one, 0.2)
    # the truth of a subset of one record out of ten, values 1 or -1, others -1:
    sigma, epsilon, true = 2.0, 0.2, 0.0
    x = math.exp(epsilon)
    for i in range(-2000, 2001):
        at = i * 0.01
        low = math.exp(-((at + 1) ** 2) / (2 * sigma**2))
        high = math.exp(-((at - 1) ** 2) / (2 * sigma**2))
        density = 0.01 / math.sqrt(2 * math.pi) / sigma
        true += density * max(0.0, 0.1 * high + 0.9 * low - x * low)
    assert event_delta(mixed, epsilon) < true < event_delta(fixed, epsilon) * (1 + 1e-5)
