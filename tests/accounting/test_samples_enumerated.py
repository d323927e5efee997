"""Samples of whole mechanisms, enumerated; refusals; groups."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from fastdp import accounting
from fastdp.accounting import (
    ApproximateDPEvent,
    Event,
    FDPAccountant,
    GroupEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    RDPAccountant,
    event_delta,
    event_epsilon,
)
from fastdp.exceptions import UnsupportedEventError
from tests.accounting.test_samples import (
    ADD,
    REPLACE,
    SPECIAL,
    bracket,
    cells,
    fixed,
    gaussian,
    hockey_stick,
    pure,
)

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
    names = {name: getattr(accounting, name) for name in accounting.__all__}
    names["Fraction"] = Fraction
    for event in (
        plain,
        PoissonSampledEvent(0.1, gaussian(1), neighboring_relation="replace_one"),
        fixed(9, 3, gaussian(1), REPLACE),
        fixed(9, 3, gaussian(1), ADD, again=True),
    ):
        assert Event.from_json(event.to_json()) == event
        assert eval(repr(event), names) == event  # noqa: S307
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
