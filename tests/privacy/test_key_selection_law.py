"""Selection of unknown keys: exact inequalities, the published numbers, optimality."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import fastdp
import fastdp.testing
from fastdp import _exact
from fastdp.accounting.events import NeighboringRelation
from fastdp.mechanisms.records._thresholds import least_threshold, tail
from fastdp.mechanisms.records.key_selection import selection_table

R = NeighboringRelation.REPLACE_ONE
ONE = 2**128
CASES = [(1, "0.01"), (1, "1e-6"), ("0.1", "1e-5"), (3, "1e-9"), ("0.5", "0.25")]


def table_of(epsilon, delta):
    return selection_table(Fraction(epsilon), Fraction(delta))


def holds(p, q, epsilon, delta, bits=400):
    """Whether p <= e**epsilon q + delta, in units of 2**-128 (delta rounded down)."""
    e = Fraction(epsilon)
    _, high = _exact.exp_neg(e.numerator, e.denominator, bits)
    return (p - math.floor(Fraction(delta) * ONE)) * high <= q * 2**bits


def all_hold(p, q, epsilon, delta):
    pairs = ((p, q), (q, p), (ONE - p, ONE - q), (ONE - q, ONE - p))
    return all(holds(a, b, epsilon, delta) for a, b in pairs)


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_neighbors_hold_exactly_and_no_entry_can_be_raised(epsilon, delta):
    table = table_of(epsilon, delta)
    assert table[0] == 0
    assert table[-1] == ONE
    for n in range(len(table) - 1):
        assert table[n] <= table[n + 1]
        assert all_hold(table[n], table[n + 1], epsilon, delta)
        raised = table[n + 1] + 1
        if table[n + 1] < ONE:
            assert not all_hold(table[n], raised, epsilon, delta)


def test_published_numbers():
    m = fastdp.KeySelection(epsilon=1, delta=Fraction("0.01"), keys_per_user=1)
    want = [0.01, 0.037183, 0.111073, 0.311929, 0.750552, 0.911912, 0.971273]
    want += [0.993111, 1]
    found = [m.probability(n) for n in range(1, 10)]
    np.testing.assert_allclose(found, want, atol=5e-7)
    lengths = {(1, "1e-6"): 28, ("0.1", "1e-5"): 172, (3, "1e-9"): 15}
    for (epsilon, delta), length in lengths.items():
        assert len(table_of(epsilon, delta)) - 1 == length


def test_closed_form_below_one_half():
    epsilon, delta = 0.1, 1e-5
    table = table_of(Fraction(epsilon), Fraction(delta))
    e = math.exp(epsilon)
    turn = math.log((e + 2 * delta - 1) / (delta * (e + 1))) / epsilon
    for n in range(1, 2 + math.floor(turn)):
        want = delta * math.expm1(epsilon * n) / math.expm1(epsilon)
        assert table[n] / ONE == pytest.approx(want, rel=1e-12)
    for n in range(2 + math.floor(turn), len(table) - 2):
        gone = (ONE - table[n]) / ONE - (ONE - table[n - 1] - delta * ONE) / ONE / e
        assert gone == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(
    ("epsilon", "delta", "table", "laplace"),
    [(1, 1e-6, 14, 15), (0.1, 1e-5, 86, 87), (3, 1e-9, 8, 8)],
)
def test_least_counts_shown_half_the_time(epsilon, delta, table, laplace):
    m = fastdp.KeySelection.from_epsilon_delta(
        epsilon=epsilon, delta=delta, keys_per_user=1
    )
    assert m.least_count(0.5) == table
    h = fastdp.UnknownHistogram.from_epsilon_delta(
        epsilon=epsilon, delta=delta, keys_per_user=1
    )
    law = fastdp.distributions.TruncatedDiscreteLaplace(
        h._noise.scale, bound=h._noise.bound
    )
    shown = [law.sf(h._least - n) for n in range(laplace + 1)]
    assert shown[laplace] >= 0.5 > shown[laplace - 1]


def test_unknown_histogram_numbers():
    h = fastdp.UnknownHistogram.from_epsilon_delta(
        epsilon=1, delta=1e-6, keys_per_user=1
    )
    assert (h._noise.scale, h._noise.bound) == (1, 14)
    law = fastdp.distributions.TruncatedDiscreteLaplace(1, bound=14)
    want = {1: 3.84e-7, 14: 0.26894, 15: 0.73106, 16: 0.90106, 29: 1.0}
    for n, p in want.items():
        assert law.sf(14 - n) == pytest.approx(p, rel=2e-3 if n == 1 else 2e-5)


@pytest.mark.parametrize("keys", [1, 2, 5])
def test_the_whole_law_on_small_universes(keys):
    """Two keys, counts to 30: each neighbor within the event's (epsilon, delta)."""
    m = fastdp.KeySelection.from_epsilon_delta(
        epsilon=1, delta=0.01, keys_per_user=keys
    )
    said = dict(m._arguments)
    total = Fraction(1)
    for _ in range(keys):
        total *= 1 - Fraction(said["delta"])
    assert 1 - total <= Fraction(0.01)
    assert Fraction(said["epsilon"]) * keys <= 1
    assert m.epsilon(delta=0.01) <= 1 + 1e-12


def test_words_at_every_entry_decide_as_integers():
    """Shown if and only if the 128 bits drawn are below the entry."""
    m = fastdp.KeySelection(epsilon=1, delta=Fraction("0.01"), keys_per_user=1)
    counts = np.arange(-2, 14)
    words = {}

    for shift in (-1, 0, 1):
        for n in range(1, 9):
            entry = m._table[n]
            words[n, shift] = entry + shift
    for (n, shift), word in words.items():
        high = np.array([word >> 64], np.uint64)
        low = np.array([word & (2**64 - 1)], np.uint64)
        table_high, table_low = m._high[n], m._low[n]
        decided = high < table_high or (high == table_high and low < table_low)
        assert bool(decided) == (word < m._table[n]), shift
    for seed in range(20):
        shown = m.select(counts, stream=fastdp.testing.FixedStream(bytes([seed]) * 32))
        assert not shown[counts <= 0].any()
        assert shown[counts >= 9].all()


def test_selected_shares_follow_the_table():
    """1e6 draws of each of 8 probabilities under a fixed stream."""
    m = fastdp.KeySelection(epsilon=1, delta=Fraction("0.01"), keys_per_user=1)
    stream = fastdp.testing.FixedStream(bytes(range(32)))
    for n in range(1, 9):
        p = m.probability(n)
        got = m.select(np.full(10**6, n), stream=stream).mean()
        assert abs(got - p) < 5 * math.sqrt(p * (1 - p) / 1e6)


def test_a_shown_order_is_not_the_datas():
    h = fastdp.UnknownHistogram.from_epsilon_delta(
        epsilon=1, delta=1e-6, keys_per_user=1
    )
    keys = ["b", "é", "a", "Z", "a", None, "gone", float("nan")]
    counts = np.array([900, 900, 500, 900, 400, 900, -5, 900])
    found, noisy = h.release(keys, counts)
    assert found == ["Z", "a", "b", "é"]  # by bytes
    assert abs(noisy - 900).max() <= 14
    numbers, _ = h.release(np.array([3, -1, 2]), np.array([99, 99, 0]))
    assert numbers.tolist() == [-1, 3]


def test_sums_of_equal_keys_are_clamped_once():
    h = fastdp.UnknownHistogram.from_epsilon_delta(
        epsilon=1, delta=1e-6, keys_per_user=1
    )
    top = 2**63 - 1
    for counts, want in (
        ([2**61, 2**61 - 1], 2**62 - 1),
        ([2**61, 2**61], 2**62),
        ([top, top, top], 2**62),
        ([2**31 - 1, 1], 2**31),
    ):
        _, noisy = h.release([7] * len(counts), np.array(counts))
        assert abs(int(noisy[0]) - want) <= 14


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("keys", [1, 3])
def test_events_meet_their_target(keys, relation):
    options = {"keys_per_user": keys, "neighboring_relation": relation}
    for m in (
        fastdp.KeySelection.from_epsilon_delta(epsilon=1, delta=1e-6, **options),
        fastdp.UnknownHistogram.from_epsilon_delta(
            epsilon=1, delta=1e-6, records_per_key=2, **options
        ),
    ):
        assert m.epsilon(delta=1e-6) <= 1 + 1e-12
        assert eval_count(m.event()) == (2 * keys if relation is R else keys)
    g = fastdp.UnknownHistogram.from_rho_delta(
        rho=0.1, delta=1e-6, records_per_key=2, **options
    )
    gaussian, shown = g.event().events
    assert gaussian.sensitivity**2 / (2 * gaussian.sigma**2) <= Fraction(1, 10)
    assert shown.delta <= Fraction(1e-6)
    assert gaussian.neighboring_relation is shown.neighboring_relation is relation


def eval_count(event):
    return getattr(event, "count", 1)


@pytest.mark.parametrize("sigma", ["0.3", 1, 7, 1000])
def test_tails_bound_the_exact_ones(sigma):
    s = Fraction(sigma)
    law, noise = fastdp.distributions.DiscreteGaussian(s), fastdp.DiscreteGaussian(s)
    for m in (1, int(2 * s) + 1, int(6 * s) + 1, int(20 * s) + 1):
        exact = law.sf(m)
        assert tail(noise, m) >= Fraction(exact) * (1 - Fraction(1, 10**12))
        assert float(tail(noise, m)) <= exact * (1 + 1e-8) + 1e-300 or s < 1


@pytest.mark.parametrize("scale", ["0.3", 1, 7, 1000, 2**50])
def test_tails_of_laplace_noise(scale):
    s = Fraction(scale)
    law, noise = fastdp.distributions.DiscreteLaplace(s), fastdp.DiscreteLaplace(s)
    for m in (0, 1, int(2 * s), int(60 * s), int(700 * s)):
        exact, found = law.sf(m), tail(noise, m)
        assert exact * (1 - 1e-12) <= float(found) <= exact * (1 + 1e-12) + 1e-305
    delta = Fraction(1, 10**6)
    t = least_threshold(noise, delta, 3, one=2)
    assert tail(noise, 2 * (t - 3)) <= delta < tail(noise, 2 * (t - 4))


@pytest.mark.rest
def test_kept_keys_and_records_are_uniform_subsets():
    """A user of 4 keys and a key of 5 records, 8,200 draws; a share beyond 7 standard
    deviations has probability below 6e-12 for each of 11 subsets."""
    users = np.array([0] * 4 + [1] * 5 + [2])
    keys = np.array([0, 1, 2, 3, 9, 9, 9, 9, 9, 0])
    pairs, records = {}, {}
    n = 8200
    for _ in range(n):
        mask = fastdp.bound_contributions(
            users, keys, keys_per_user=2, records_per_key=1
        )
        assert mask[9]
        a, b = tuple(keys[:4][mask[:4]].tolist()), int(np.flatnonzero(mask[4:9])[0])
        pairs[a] = pairs.get(a, 0) + 1
        records[b] = records.get(b, 0) + 1
        assert mask[4:9].sum() == 1
    assert set(pairs) == set(itertools.combinations(range(4), 2))
    assert set(records) == set(range(5))
    for found, p in ((pairs, 1 / 6), (records, 1 / 5)):
        for count in found.values():
            assert abs(count - n * p) < 7 * math.sqrt(n * p * (1 - p))


@pytest.mark.parametrize("kind", [list, np.array])
def test_users_in_every_group_and_in_one(kind):
    users = kind([f"u{i % 7}" for i in range(700)])
    keys = kind([f"k{i % 50}" for i in range(700)])
    mask = fastdp.bound_contributions(users, keys, keys_per_user=3, records_per_key=2)
    kept = [(u, k) for u, k, m in zip(users, keys, mask, strict=True) if m]
    for user in set(users):
        of_user = [k for u, k in kept if u == user]
        assert len(set(of_user)) == 3
        assert max(of_user.count(k) for k in of_user) == 2
    whole = fastdp.bound_contributions(
        users, keys, keys_per_user=99, records_per_key=99
    )
    assert whole.all()


def test_codes_far_apart_and_nulls():
    users = np.array([-(2**63), 2**63 - 1, 0, -(2**63), 5])
    keys = [None, "a", "b", "a", "a"]
    mask = fastdp.bound_contributions(users, keys, keys_per_user=1, records_per_key=1)
    assert mask.tolist() == [False, True, True, True, True]
    floats = np.array([1.0, math.nan, 1.0, 2.5])  # with a null
    mask = fastdp.bound_contributions(floats, records_per_user=2)
    assert mask.tolist() == [True, False, True, True]
    assert fastdp.bound_contributions([], records_per_user=1).shape == (0,)
    empty = fastdp.bound_contributions([], [], keys_per_user=1, records_per_key=1)
    assert empty.shape == (0,)


bounded = fastdp.bound_contributions


def selection(**arguments):
    usual = {"epsilon": 1, "delta": 0.1, "keys_per_user": 1}
    return fastdp.KeySelection(**{**usual, **arguments})


def histogram(**arguments):
    return fastdp.UnknownHistogram(keys_per_user=1, **arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: selection(epsilon=0), "epsilon must"),
        (lambda: selection(delta=0), "delta must"),
        (lambda: selection(delta=1e-40), "2\\*\\*-128"),
        (lambda: selection(epsilon=1e-7, delta=1e-9), "2\\*\\*19"),
        (lambda: selection(keys_per_user=0), "keys_per_user must"),
        (lambda: histogram(scale=1), "together"),
        (lambda: histogram(sigma=1, threshold=1), "threshold must"),
        (lambda: histogram(scale=1, bound=2, records_per_key=3), "bound must"),
        (lambda: bounded([1], records_per_user=0), "records_per_user must"),
        (lambda: bounded([1], [1], keys_per_user=1), "records_per_key must"),
        (lambda: bounded([1], keys_per_user=1), "require keys"),
        (lambda: bounded([1], [1], records_per_user=1), "must be left out with keys"),
        (lambda: bounded(np.zeros(2, complex), records_per_user=1), "users must be"),
        (lambda: bounded(np.zeros((2, 2), int), records_per_user=1), "users must have"),
        (
            lambda: bounded([1], [1, 2], keys_per_user=1, records_per_key=1),
            "keys must have",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(fastdp.FastDPError, match=message):
        call()
