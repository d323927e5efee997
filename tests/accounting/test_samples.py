"""Samples read for other relations than the event inside: against slow, exact sums.

Three kinds of truth: quadratures of the pairs of laws that are stated in
docs/proofs/amplification.md, compositions of them on a plain grid, and mechanisms on
all datasets of a few records, enumerated.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

import fastdp
from fastdp.accounting import (
    ApproximateDPEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    FDPAccountant,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
    RDPAccountant,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    event_delta,
    event_epsilon,
)
from fastdp.exceptions import UnsupportedEventError

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL


def gaussian(sigma, relation=ADD):
    return GaussianEvent(sensitivity=1, sigma=sigma, neighboring_relation=relation)


def pure(epsilon, relation=ADD):
    return PureDPEvent(epsilon, neighboring_relation=relation)


def fixed(n, m, event, relation=None, *, again=False):
    kind = SampledWithReplacementEvent if again else SampledWithoutReplacementEvent
    more = {} if relation is None else {"neighboring_relation": relation}
    return kind(source_dataset_size=n, sample_size=m, event=event, **more)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


# ---- stated pairs, by quadrature ---------------------------------------------------


def replaced_delta(log_density, q, epsilon):
    """Return delta of noise that moves by 1 or by -1 with probability q."""

    def excess(x):
        zero, up, down = (math.exp(log_density(x - c)) for c in (0, 1, -1))
        p, other = (1 - q) * zero + q * up, (1 - q) * zero + q * down
        return max(0.0, p - math.exp(epsilon) * other)

    parts = [-40, -8, -1, 0, 0.25, 0.5, 1, 2, 4, 8, 40]
    return sum(
        integrate.quad(excess, a, b, epsabs=1e-15, epsrel=1e-11, limit=400)[0]
        for a, b in itertools.pairwise(parts)
    )


@pytest.mark.parametrize("q", [1e-3, 0.1, 0.9])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0])
def test_a_record_replaced_in_a_poisson_sample(q, epsilon):
    s = 0.8
    laws = [
        (gaussian(s), stats.norm(scale=s).logpdf),
        (LaplaceEvent(sensitivity=1, scale=s), stats.laplace(scale=s).logpdf),
    ]
    for event, log_density in laws:
        true = replaced_delta(log_density, q, epsilon)
        sample = PoissonSampledEvent(q, event, neighboring_relation=REPLACE)
        found = PLDAccountant().compose(sample).delta_bounds(epsilon)
        assert true * (1 - 1e-6) - 1e-13 <= found.upper <= true * (1 + 1e-3) + 1e-12
        assert found.lower <= true * (1 + 1e-6) + 1e-13
        assert found.lower >= true * (1 - 1e-3) - 1e-12
        assert event_delta(sample, epsilon) >= true * (1 - 1e-6) - 1e-13


@pytest.mark.parametrize("q", [0.01, 0.5])
def test_noise_on_integers_is_summed(q):
    x = np.arange(-200, 201)
    for event, weight in (
        (DiscreteLaplaceEvent(sensitivity=2, scale=3), np.exp(-np.abs(x) / 3)),
        (
            DiscreteGaussianEvent(sensitivity=2, sigma=3, coordinates=1),
            np.exp(-x * x / 18),
        ),
    ):
        mass = weight / weight.sum()
        p = (1 - q) * mass + q * np.roll(mass, 2)
        other = (1 - q) * mass + q * np.roll(mass, -2)
        sample = PoissonSampledEvent(q, event, neighboring_relation=REPLACE)
        accountant = PLDAccountant().compose(sample)
        for epsilon in (0.0, 0.01, 0.3):
            true = hockey_stick(p, other, epsilon)
            found = accountant.delta_bounds(epsilon)
            assert found.lower <= true * (1 + 1e-12) + 1e-15
            assert (
                true * (1 - 1e-12) - 1e-15 <= found.upper <= true * (1 + 1e-9) + 1e-15
            )


def test_pure_privacy_by_its_closed_form():
    # algorithms on samples: half of the data, epsilon 1 out of what epsilon inside
    p, e0 = 0.3, 1.2
    grown, fallen = 1 - p + p * math.exp(e0), 1 - p + p * math.exp(-e0)
    sample = PoissonSampledEvent(p, pure(e0), neighboring_relation=REPLACE)
    true = math.log(grown / fallen)
    assert true <= event_epsilon(sample) <= true * (1 + 1e-13)
    # The published rate for epsilon 1/2 out of 1, with the term that is often lost.
    e, inside = 0.5, 1.0
    rate = math.expm1(e) / (math.exp(inside) + math.exp(e) - math.exp(e - inside) - 1)
    assert round(rate, 4) == 0.235
    sample = PoissonSampledEvent(rate, pure(inside), neighboring_relation=REPLACE)
    assert event_epsilon(sample) == pytest.approx(e, rel=1e-13)


def test_the_special_record_without_effect_counts_as_absent():
    for inner in (gaussian(1), pure(1)):
        one = PoissonSampledEvent(0.1, inner)
        same = PoissonSampledEvent(0.1, inner, neighboring_relation=SPECIAL)
        for kind in (PLDAccountant, RDPAccountant):
            assert kind().compose(one, 20).epsilon(1e-6) == kind().compose(
                same, 20
            ).epsilon(1e-6)
        with pytest.raises(UnsupportedEventError):
            PLDAccountant().compose(one).compose(same)


# ---- compositions, on a plain grid --------------------------------------------------


def bracket(p, q, count, delta, step=2e-3):
    """Return epsilons below and above the truth: losses rounded down and up."""
    loss = np.log(p / q)
    found = []
    for rounding in (np.floor, np.ceil):
        index = rounding(loss / step).astype(int)
        low = index.min()
        law = np.bincount(index - low, p)
        size = 1 << int(np.ceil(np.log2(count * law.size)))
        whole = np.fft.irfft(np.fft.rfft(law, size) ** count, size)[
            : count * (law.size - 1) + 1
        ]
        whole = np.maximum(whole, 0)
        sums = step * (count * low + np.arange(whole.size))
        positive = sums > 0
        whole, sums = whole[positive][::-1], sums[positive][::-1]
        deltas = np.cumsum(whole) - np.exp(sums) * np.cumsum(whole * np.exp(-sums))
        first = int(np.argmax(deltas > delta))  # from large epsilons down
        found.append(float(sums[first - (rounding is np.ceil)]))
    return found


def cells(weights, places, sigma):
    """Return the masses of a mixture of normal laws on fine cells."""
    edges = np.linspace(-9 * sigma, 9 * sigma, 40_001)
    middle = (edges[1:] + edges[:-1]) / 2
    width = edges[1] - edges[0]
    return sum(
        w * stats.norm(c, sigma).pdf(middle) * width
        for w, c in zip(weights, places, strict=True)
    )


@pytest.mark.rest
def test_compositions_of_a_record_replaced():
    q, count = 0.05, 30
    p = cells([1 - q, q], [0, 1], 1.0)
    other = cells([1 - q, q], [0, -1], 1.0)
    low, high = bracket(p, other, count, 1e-4)
    sample = PoissonSampledEvent(q, gaussian(1), neighboring_relation=REPLACE)
    found = PLDAccountant().compose(sample, count).epsilon_bounds(1e-4)
    assert low <= found.upper <= high
    assert found.lower <= high
    assert found.upper - found.lower <= 1e-3 * found.upper
    # One more or less is not enough, and a group of two in every batch far too much.
    one = PLDAccountant().compose(PoissonSampledEvent(q, gaussian(1)), count)
    assert one.epsilon(1e-4) < found.lower
    for kind in (RDPAccountant, FDPAccountant):
        assert low <= kind().compose(sample, count).epsilon(1e-4) < 2 * high
    # Noise on a fine grid is between two Gaussian laws.
    grid = PoissonSampledEvent(
        q, fastdp.Gaussian(1.0).event(sensitivity=1), neighboring_relation=REPLACE
    )
    again = PLDAccountant().compose(grid, count).epsilon_bounds(1e-4)
    assert again.lower <= found.upper
    assert found.lower <= again.upper <= found.upper * (1 + 1e-5)


def test_compositions_where_the_record_may_be_known():
    q, count = 0.3, 4
    p = np.append(q * cells([1], [0.5], 2.0), 1 - q)
    other = np.append(q * cells([1], [-0.5], 2.0), 1 - q)
    low, high = bracket(p, other, count, 1e-4)
    for relation in (REPLACE, SPECIAL):
        sample = PoissonSampledEvent(q, gaussian(2, relation))
        found = PLDAccountant().compose(sample, count).epsilon_bounds(1e-4)
        assert low <= found.upper <= high + 1e-3
        assert found.lower <= high
        for kind in (RDPAccountant, FDPAccountant):
            assert low <= kind().compose(sample, count).epsilon(1e-4) < 2 * high
    # Of one sample the closed formula: delta times the rate at the same epsilon.
    assert event_delta(sample, 0.1) == pytest.approx(
        q * event_delta(gaussian(2), 0.1), rel=1e-12
    )


@pytest.mark.rest
def test_subsets_of_data_with_one_record_more():
    # For a pair of laws under replacement, it is a Poisson sample at rate m/n.
    inner = gaussian(1, REPLACE)
    sample = fixed(50, 5, inner, ADD)
    same = PoissonSampledEvent(Fraction(1, 10), gaussian(1))
    for kind in (PLDAccountant, RDPAccountant):
        assert kind().compose(sample, 5).epsilon(1e-5) == kind().compose(
            same, 5
        ).epsilon(1e-5)
    # An event for one more or less is taken twice.
    twice = fixed(50, 5, gaussian(Fraction(1, 2), REPLACE))
    for relation in (ADD, REPLACE):
        assert PLDAccountant().compose(fixed(50, 5, gaussian(1), relation), 3).epsilon(
            1e-5
        ) == PLDAccountant().compose(fixed(50, 5, twice.event, relation), 3).epsilon(
            1e-5
        )


@pytest.mark.rest
def test_draws_with_replacement_compose():
    n, m, count = 20, 3, 8
    hits = stats.binom.pmf(range(m + 1), m, 1 / n)
    rate = 1 - hits[0]
    # The pair for one record more: it is known how often the record was drawn.
    p, other = [], []
    for j in range(1, m + 1):
        p.append(hits[j] / rate * cells([1], [j / 2], 1.5))
        other.append(hits[j] / rate * cells([1], [-j / 2], 1.5))
    p, other = np.concatenate(p), np.concatenate(other)
    low, high = bracket((1 - rate) * other + rate * p, other, count, 1e-4)
    inner = gaussian(Fraction(3, 2), REPLACE)
    sample = fixed(n, m, inner, ADD, again=True)
    found = PLDAccountant().compose(sample, count).epsilon_bounds(1e-4)
    assert low <= found.upper <= high + 2e-3
    assert found.upper <= (1 + 2e-3) * high
    # The mechanism sees the sum of its draws, not how often one record was drawn.
    seen = cells(hits[1:] / rate, np.arange(1, m + 1), 1.5)
    zero = cells([1], [0], 1.5)
    _, high = bracket((1 - rate) * zero + rate * seen, zero, count, 1e-4)
    assert 0 < found.lower <= high
    # One record replaced is worse, and better than both at once.
    other_way = PLDAccountant().compose(fixed(n, m, inner, again=True), count)
    assert found.lower <= other_way.epsilon(1e-4) <= 2.5 * found.upper
    for kind in (RDPAccountant, FDPAccountant):
        if kind().supports(fixed(n, m, inner, again=True)):
            assert other_way.epsilon_bounds(1e-4).lower <= kind().compose(
                fixed(n, m, inner, again=True), count
            ).epsilon(1e-4)


def test_one_reading_of_draws_is_the_theorem():
    inner = gaussian(1, REPLACE)
    sample = fixed(100, 10, inner, again=True)
    for epsilon in (0.05, 0.5, 1.5):
        found = PLDAccountant().compose(sample).delta_bounds(epsilon)
        theorem = event_delta(sample, epsilon)
        assert found.lower <= theorem * (1 + 1e-9)
        assert theorem * (1 - 1e-9) <= found.upper <= theorem * (1 + 2e-3)


# ---- whole mechanisms, enumerated ----------------------------------------------------


def random_table(rng, datasets, epsilon, distance):
    """Return output laws of datasets: ratios e^(epsilon distance) from a fixed law."""
    base = rng.dirichlet(np.ones(4))
    table = {}
    for key in datasets:
        level = rng.uniform(-1, 1, 4) * distance(key) * epsilon / 2
        law = base * np.exp(level)
        table[key] = law / law.sum()
    return table


def largest_ratio(one, other):
    return float(np.log(one / other).max())


def test_mechanisms_on_poisson_samples_are_within_their_bound():
    # Three laws on 5 outcomes: without the record, with it, with the other one.
    rng = np.random.default_rng(7)
    reached = 0.0
    for _ in range(300):
        e0, q = rng.uniform(0.1, 2), rng.uniform(0.01, 0.99)
        zero = rng.dirichlet(np.ones(3))
        up = np.exp(e0 * rng.choice([-1, 1], (2, 3)))
        laws = zero * up
        laws /= laws.sum(axis=1, keepdims=True)
        inside = max(
            largest_ratio(a, b) for law in laws for a, b in ((law, zero), (zero, law))
        )
        p, other = (1 - q) * zero + q * laws
        sample = PoissonSampledEvent(q, pure(inside), neighboring_relation=REPLACE)
        accountant = PLDAccountant().compose(sample)
        assert largest_ratio(p, other) <= event_epsilon(sample) * (1 + 1e-12) + 1e-15
        for share in (0.0, 0.3, 0.8):
            epsilon = share * event_epsilon(sample)
            true = hockey_stick(p, other, epsilon)
            bound = accountant.delta(epsilon)
            assert true <= bound * (1 + 1e-9) + 1e-15
            reached = max(reached, true / bound if true else 0.0)
    assert reached > 0.5  # the bound is not far from what happens


def test_gaussian_noise_moved_in_any_two_directions_is_within_its_bound():
    # Vectors of length 1 at an angle: opposite ones are the worst.
    q, s = 0.3, 0.7
    axis = np.linspace(-6, 6, 601)
    x, y = np.meshgrid(axis, axis)
    area = (axis[1] - axis[0]) ** 2

    def density(a, b):
        square = (x - a) ** 2 + (y - b) ** 2
        return np.exp(-square / (2 * s * s)) / (2 * math.pi * s * s) * area

    zero = density(0, 0)
    sample = PoissonSampledEvent(q, gaussian(s), neighboring_relation=REPLACE)
    accountant = PLDAccountant().compose(sample)
    for epsilon in (0.1, 0.5, 1.0):
        bound, seen = accountant.delta(epsilon), []
        for angle in (0, 1, 2, 3, math.pi):
            for length in (0.5, 1.0):
                p = (1 - q) * zero + q * density(1, 0)
                place = length * math.cos(angle), length * math.sin(angle)
                other = (1 - q) * zero + q * density(*place)
                for one, two in ((p, other), (other, p)):
                    seen.append(hockey_stick(one, two, epsilon))
        assert max(seen) <= bound * (1 + 3e-4)  # the error of the plain sum
        assert max(seen) >= bound * (1 - 1e-3)


def samples_of(records, size, *, again):
    if again:
        return list(itertools.product(records, repeat=size))
    return list(itertools.combinations(records, size))


@pytest.mark.parametrize("again", [False, True])
def test_mechanisms_on_samples_of_fixed_size_are_within_their_bound(again):
    # A random law for every sample; what it costs to replace one record is measured.
    rng = np.random.default_rng(11)
    size, universe = 2, "abcde"
    reached = {ADD: 0.0, REPLACE: 0.0}
    for _ in range(60):
        strength = rng.uniform(0.1, 1)
        table = {}
        for key in itertools.combinations_with_replacement(universe, size):
            law = np.exp(strength * rng.uniform(-1, 1, 4))
            if "e" in key:  # the record that matters
                law = np.exp(strength * np.array([2.0 * key.count("e"), 0, 0, 0]))
            table[key] = law / law.sum()

        def law_of(records, table=table):
            keys = samples_of(records, size, again=again)
            return sum(table[tuple(sorted(key))] for key in keys) / len(keys)

        inside = max(
            largest_ratio(table[a], table[b])
            for a, b in itertools.permutations(table, 2)
            if len(set(a) & set(b)) >= 1
            and sum(min(a.count(c), b.count(c)) for c in set(a)) >= size - 1
        )
        inner = pure(inside, REPLACE)
        pairs = {ADD: ("abcde", "abcd"), REPLACE: ("abce", "abcd")}
        for relation, (one, two) in pairs.items():
            event = fixed(len(one), size, inner, relation, again=again)
            accountant = PLDAccountant().compose(event)
            for first, second in ((one, two), (two, one)):
                p, other = law_of(first), law_of(second)
                for epsilon in (0.0, 0.05, 0.2):
                    true = hockey_stick(p, other, epsilon)
                    bound = accountant.delta(epsilon)
                    assert true <= bound * (1 + 1e-9) + 1e-15
                    if epsilon == 0:
                        reached[relation] = max(reached[relation], true / bound)
    assert min(reached.values()) > 0.25


def test_a_mechanism_that_shows_who_is_in_the_sample_is_charged_for_it():
    # It prints the size of the batch: free for a replacement, and it is all that
    # hides the record. So nothing but delta is amplified.
    q, e = 0.2, 1.5
    answer = np.array([1, math.exp(e)]) / (1 + math.exp(e))
    p = np.append(q * answer, 1 - q)  # the record is known to be there, or not
    other = np.append(q * answer[::-1], 1 - q)
    sample = PoissonSampledEvent(q, pure(e, REPLACE))
    assert event_epsilon(sample) == pytest.approx(e)
    for epsilon in (0.0, 0.5, 1.4):
        true = hockey_stick(p, other, epsilon)
        assert true <= event_delta(sample, epsilon) <= true * (1 + 1e-12)
        assert true <= PLDAccountant().compose(sample).delta(epsilon) * (1 + 1e-12)


# ---- what is refused, and how it is written ------------------------------------------


def test_what_is_refused_says_what_to_state():
    with pytest.raises(
        UnsupportedEventError, match="use ADD_OR_REMOVE_ONE for the event"
    ):
        PLDAccountant().compose(
            PoissonSampledEvent(0.1, gaussian(1, REPLACE), neighboring_relation=ADD)
        )
    with pytest.raises(UnsupportedEventError, match="has no bound"):
        PLDAccountant().compose(fixed(10, 2, gaussian(1, SPECIAL)))
    with pytest.raises(UnsupportedEventError, match="has no bound"):
        PLDAccountant().compose(PoissonSampledEvent(0.1, GroupEvent(gaussian(1), 2)))


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("whole", list(NeighboringRelation))
@pytest.mark.parametrize("own", list(NeighboringRelation))
def test_a_sample_of_a_sample_asks_what_the_inner_one_asks(relation, own, whole):
    # Where the inner sample has no bound, neither has a sample of it.
    one = PoissonSampledEvent(
        Fraction(1, 10), gaussian(1, relation), neighboring_relation=own
    )
    sample = PoissonSampledEvent(Fraction(9, 10), one, neighboring_relation=whole)
    third = PoissonSampledEvent(Fraction(9, 10), sample, neighboring_relation=whole)
    for kind in (PLDAccountant, RDPAccountant, FDPAccountant):
        for outer, inner in ((sample, one), (third, sample)):
            if not kind().supports(inner):
                assert not kind().supports(outer)
    if not PLDAccountant().supports(one):
        for event in (one, sample, third):
            with pytest.raises(UnsupportedEventError):
                event_epsilon(event, 1e-6)
    if (relation, own, whole) == (ADD, ADD, ADD):
        flat = PoissonSampledEvent(Fraction(81, 1000), gaussian(1))
        assert PLDAccountant().compose(third).epsilon(1e-6) == (
            PLDAccountant().compose(flat).epsilon(1e-6)
        )


@pytest.mark.parametrize(
    ("n", "m", "again"), [(5, 5, False), (1, 1, True), (1, 3, True)]
)
def test_data_with_one_record_less_must_have_such_a_sample(n, m, again):
    for inner in (gaussian(2, REPLACE), gaussian(2), pure(1), pure(1, REPLACE)):
        event = fixed(n, m, inner, ADD, again=again)
        with pytest.raises(
            UnsupportedEventError, match="one record fewer have no such"
        ):
            PLDAccountant().compose(event)
        for kind in (PLDAccountant, RDPAccountant, FDPAccountant):
            assert not kind().supports(event)
        for reading in (event_epsilon, event_delta):
            with pytest.raises(UnsupportedEventError):
                reading(event, 0.1)
        # One record more is answered.
        assert PLDAccountant().supports(fixed(n + 1, m, inner, ADD, again=again))


def test_relations_are_part_of_the_event():
    plain = PoissonSampledEvent(0.1, gaussian(1))
    stated = PoissonSampledEvent(
        0.1, gaussian(1), neighboring_relation="add_or_remove_one"
    )
    assert plain == stated
    assert hash(plain) == hash(stated)
    assert plain.to_json() == stated.to_json()
    assert "neighboring_relation" not in plain.to_json().split("event", 4)[-1][:60]
    for event in (
        plain,
        PoissonSampledEvent(0.1, gaussian(1), neighboring_relation="replace_one"),
        fixed(9, 3, gaussian(1), REPLACE),
        fixed(9, 3, gaussian(1), ADD, again=True),
    ):
        assert Event.from_json(event.to_json()) == event
        assert eval(repr(event), {**globals(), "Fraction": Fraction}) == event  # noqa: S307
    assert "REPLACE_ONE" in repr(fixed(9, 3, gaussian(1), REPLACE))
    assert stated.neighboring_relation is ADD


def test_a_failure_in_a_sample_costs_its_share():
    q, e, d = 0.1, 0.5, 1e-4
    event = ApproximateDPEvent(epsilon=e, delta=d)
    sample = PoissonSampledEvent(q, event, neighboring_relation=REPLACE)
    # One record has no effect; with the other it fails, or answers against it.
    zero = (1 - d) * np.array([math.exp(e), 1]) / (1 + math.exp(e))
    other = np.concatenate([[0], zero, [d]])
    p = (1 - q) * other + q * np.concatenate([[d], zero[::-1], [0]])
    accountant = PLDAccountant().compose(sample)
    for epsilon in (0.0, 0.02, 0.05):
        assert hockey_stick(p, other, epsilon) <= accountant.delta(epsilon) * (1 + 1e-9)
    assert accountant.delta(5) == pytest.approx(q * d)


# ---- groups of sampled events --------------------------------------------------------


@pytest.mark.rest
def test_groups_of_sampled_events_are_above_mechanisms_of_such_groups():
    # Two records of a Poisson sample, both removed, added, or one of each.
    q, s = 0.1, 1.5
    added = cells([(1 - q) ** 2, 2 * q * (1 - q), q * q], [0, 1, 2], s)
    without = cells([1], [0], s)
    plus, minus = (cells([1 - q, q], [0, c], s) for c in (1, -1))
    event = GroupEvent(PoissonSampledEvent(q, gaussian(Fraction(3, 2))), 2)
    pairs = [(added, without), (without, added), (plus, minus)]
    # Two of a subset of fixed size, replaced by opposite ones.
    hits = [math.comb(2, j) * math.comb(18, 3 - j) / math.comb(20, 3) for j in range(3)]
    one, other = (cells(hits, [0, c / 2, c], s) for c in (1, -1))
    subset = GroupEvent(fixed(20, 3, gaussian(Fraction(3, 2), REPLACE)), 2)
    for whole, laws in ((event, pairs), (subset, [(one, other)])):
        for kind in (FDPAccountant, PLDAccountant):
            single = kind().compose(whole)
            for epsilon in (0.0, 0.05, 0.3, 1.0):
                true = max(hockey_stick(p, r, epsilon) for p, r in laws)
                assert true * (1 - 1e-6) <= single.delta(epsilon)
            three = kind().compose(whole, 3)
            for p, r in laws:
                low, high = bracket(p, r, 3, 1e-4)
                assert low <= three.epsilon(1e-4)
            assert three.epsilon(1e-4) <= 3 * high
            # More than a single record costs.
            assert three.epsilon(1e-4) > kind().compose(whole.event, 3).epsilon(1e-4)
    # From below, one of the two has no effect.
    one, two = (PLDAccountant().compose(e, 3) for e in (event.event, event))
    alone = one.epsilon_bounds(1e-4)
    assert alone.lower * (1 - 1e-6) <= two.epsilon_bounds(1e-4).lower <= alone.upper
