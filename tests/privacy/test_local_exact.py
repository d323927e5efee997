"""Privacy of the local randomizers from their whole output laws, as fractions.

A law is enumerated from the probabilities that a mechanism really uses, through the
reference that the kernels are compared with. No float enters: e**epsilon is replaced
by a rational below it.
"""

import itertools
import math
from collections.abc import Hashable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pytest

import fastdp
from fastdp import _core, _laws, _validate
from fastdp.testing import TapeStream
from tests.privacy.streams import KeyStream
from tests.reference import bernoulli, hadamard, hashing, response, unary
from tests.reference.interval import exp_minus

#: Probabilities of all reports.
Distribution: TypeAlias = dict[Hashable, Fraction]

UNIT = Fraction(1, 2**64)
EPSILONS = [Fraction(1, 100), 0.1, 0.5, 1, Decimal("1.7"), 4, Fraction(19, 2)]
#: Here a probability of 1 - 2**-64 is all that the units allow.
LARGE = 60


def exp_below(x: Fraction) -> Fraction:
    """Return a rational below e**x, by less than 2**-300 of itself."""
    return Fraction(1 << 500, exp_minus(x, 500)[1])


def exp_above(x: Fraction) -> Fraction:
    """Return a rational above e**x, by less than 2**-300 of itself."""
    return Fraction(1 << 500, exp_minus(x, 500)[0])


def add(law: Distribution, key: Hashable, probability: Fraction) -> None:
    law[key] = law.get(key, Fraction(0)) + probability


def mixture(parts: list[tuple[Fraction, Distribution]]) -> Distribution:
    law: Distribution = {}
    for weight, part in parts:
        for key, probability in part.items():
            add(law, key, weight * probability)
    return law


# --- laws ---------------------------------------------------------------------------


def labeled(m: Any, x: int) -> list[tuple[Fraction, int]]:
    """Return the categories that a value may count as, with their probabilities."""
    if 0 <= x < m.categories:
        return [(Fraction(1), x)]
    if m.other is not None:
        return [(Fraction(1), m.other)]
    return [(Fraction(1, m.categories), c) for c in range(m.categories)]


def shift_law(theta: Fraction, k: int) -> Distribution:
    """Return the law of the shift: V (k - 1) has a uniform whole part."""
    law: Distribution = {0: theta}
    for j in range(1, k):
        add(law, j, (1 - theta) / (k - 1))
    return law


def response_law(p: Fraction, k: int, x: int, other: int | None) -> Distribution:
    """Return the law of the reference's k-ary report of a value."""
    inside = 0 <= x < k
    theta = p if inside or other is not None else Fraction(1, k)
    base = x if inside else (other or 0)
    law: Distribution = {}
    for shift, probability in shift_law(theta, k).items():
        assert isinstance(shift, int)
        add(law, (base + shift) % k, probability)
    return law


def unary_law(m: Any, label: int) -> Distribution:
    """Return the law of a row: all backgrounds, own bits, and what they make."""
    d = m.categories
    law: Distribution = {}
    for bits in itertools.product([False, True], repeat=d + 1):
        weight = m.p if bits[d] else 1 - m.p
        for bit in bits[:d]:
            weight *= m.q if bit else 1 - m.q
        background = np.array([*bits[:d], *[True] * (-d % 8)])
        row = unary.rows(background, np.array([label]), np.array([bits[d]]), d)
        add(law, row.tobytes(), weight)
    return law


def hadamard_law(m: Any, label: int) -> Distribution:
    """Return the law of a report: all words, and both sides."""
    size = 2 ** hadamard.order(m.categories)
    law: Distribution = {}
    for side, probability in ((False, m.p), (True, 1 - m.p)):
        words = np.arange(size)
        labels, f = np.full(size, label), np.full(size, side)
        for y in hadamard.reports(labels, words, f).tolist():
            add(law, y, probability / size)
    return law


@cache
def law_of(m: Any, x: int) -> Distribution:
    if isinstance(m, fastdp.RandomizedResponse):
        return response_law(m.p, m.categories, x, m.other)
    law = unary_law if isinstance(m, fastdp.UnaryEncoding) else hadamard_law
    return mixture([(weight, law(m, label)) for weight, label in labeled(m, x)])


def made(name: str, epsilon: Any, d: int, other: int | None) -> Any:
    if name == "response":
        return fastdp.RandomizedResponse.from_epsilon(
            epsilon, categories=d, other=other
        )
    if name == "hadamard":
        return fastdp.HadamardResponse.from_epsilon(epsilon, categories=d, other=other)
    symmetric = name == "symmetric"
    make = fastdp.UnaryEncoding.from_epsilon
    return make(epsilon, categories=d, symmetric=symmetric, other=other)


DOMAINS = {
    "response": [2, 3, 4, 10],
    "optimized": [2, 3, 4],
    "symmetric": [2, 3, 4],
    "hadamard": [2, 3, 4, 7],
}
SMALL = [(name, d) for name, sizes in DOMAINS.items() for d in sizes]
each_small = pytest.mark.parametrize(("name", "d"), SMALL)
each_epsilon = pytest.mark.parametrize("epsilon", [*EPSILONS, LARGE], ids=str)


def losses(a: Distribution, b: Distribution) -> Distribution:
    """Return the law under `a` of the ratio of the probabilities, e**loss."""
    law: Distribution = {}
    assert a.keys() == b.keys()
    for y, probability in a.items():
        assert probability > 0
        add(law, probability / b[y], probability)
    return law


def three_values(p: Fraction, q: Fraction) -> Distribution:
    law: Distribution = {}
    for ratio, probability in ((p / q, p), (q / p, q), (Fraction(1), 1 - p - q)):
        if probability:
            add(law, ratio, probability)
    return law


@each_small
@each_epsilon
@pytest.mark.parametrize("other", [None, 0, -1])
def test_ratio_is_at_most_e_to_epsilon(
    name: str, d: int, epsilon: Any, other: int | None
) -> None:
    other = d - 1 if other == -1 else other
    m = made(name, epsilon, d, other)
    bound = exp_below(Fraction(epsilon))
    event = m.event()
    laws = {x: law_of(m, x) for x in (*range(d), -1)}
    assert all(sum(law.values()) == 1 for law in laws.values())
    for x, z in itertools.permutations(laws, 2):
        worst = max(laws[x][y] / laws[z][y] for y in laws[x])
        assert worst <= bound, (x, z)
        assert worst <= event.p / event.q
    # What is stated is the least double that covers what is used.
    stated = m.epsilon()
    assert exp_below(Fraction(stated)) >= event.p / event.q
    assert exp_above(Fraction(math.nextafter(stated, 0))) < event.p / event.q


@each_small
@each_epsilon
def test_event_has_the_law_of_the_loss(name: str, d: int, epsilon: Any) -> None:
    m = made(name, epsilon, d, None)
    event = m.event()
    expected = three_values(event.p, event.q)
    for x, z in itertools.permutations(range(d), 2):
        assert losses(law_of(m, x), law_of(m, z)) == expected, (x, z)


@each_small
@pytest.mark.parametrize("other", [None, 1])
def test_values_outside_lose_no_more_at_any_epsilon(
    name: str, d: int, other: int | None
) -> None:
    """Hockey sticks of pairs with a value outside are at most that of the event."""
    m = made(name, 1.7, d, other)
    event = m.event()
    steps = 12
    for i in range(steps + 1):
        factor = 1 + (event.p / event.q - 1) * i / steps
        covered = max(Fraction(0), event.p - factor * event.q)
        for x in range(d):
            inside, outside = law_of(m, x), law_of(m, d + 7)
            for a, b in ((inside, outside), (outside, inside)):
                excess = sum(max(Fraction(0), a[y] - factor * b[y]) for y in a)
                assert excess <= covered, (factor, x)


@each_small
@pytest.mark.parametrize("epsilon", [0, 0.25, 1, 1.69, 2])
def test_delta_covers_the_exact_profile(name: str, d: int, epsilon: float) -> None:
    m = made(name, 1.7, d, None)
    claimed = Fraction(m.delta(epsilon))
    factors = exp_below(Fraction(epsilon)), exp_above(Fraction(epsilon))
    a, b = law_of(m, 0), law_of(m, d - 1)
    least, most = (
        sum(max(Fraction(0), a[y] - factor * b[y]) for y in a)
        for factor in reversed(factors)
    )
    assert most <= claimed + Fraction(1, 2**290)
    assert claimed <= least * (1 + Fraction(1, 10**14))


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("d", [2, 5, 1000, 2**24])
def test_one_unit_more_would_exceed_epsilon(epsilon: Any, d: int) -> None:
    """Probabilities are rounded toward privacy, and by no more than a unit."""
    bound = exp_above(Fraction(_validate.least_reading(epsilon)))
    p = fastdp.RandomizedResponse.from_epsilon(epsilon, categories=d).p + UNIT
    assert p * (d - 1) / (1 - p) > bound
    p = fastdp.HadamardResponse.from_epsilon(epsilon, categories=d).p + UNIT
    assert p / (1 - p) > bound
    p = (
        fastdp.UnaryEncoding.from_epsilon(epsilon, categories=d, symmetric=True).p
        + UNIT
    )
    assert (p / (1 - p)) ** 2 > bound
    optimized = fastdp.UnaryEncoding.from_epsilon(epsilon, categories=d)
    assert optimized.p == Fraction(1, 2)
    assert (1 - optimized.q + UNIT) / (optimized.q - UNIT) > bound
    hashed = fastdp.LocalHashing.from_epsilon(epsilon, categories=d)
    p = hashed.p + UNIT
    assert p * (hashed.buckets - 1) / (1 - p) > bound
    assert all((value / UNIT).denominator == 1 for value in (p, optimized.q))


# --- local hashing: a family of small words, all seeds ------------------------------


def small_buckets(
    seeds: tuple[np.ndarray, np.ndarray], x: int, w: int, bits: int, g: int
) -> np.ndarray:
    """Return the buckets of the family with words of w bits instead of 32."""
    z = (seeds[0] * x + seeds[1]) % 2**w >> (w - bits)
    return z * g >> bits


def all_seeds(w: int) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.divmod(np.arange(4**w), 2**w)
    return a, b


def test_small_family_is_the_family_at_32_bits() -> None:
    rng = np.random.default_rng(2)
    for d in (2, 3, 1000, 2**24):
        seeds = rng.integers(0, 2**64, 50, np.uint64)
        x, g = int(rng.integers(0, d)), int(rng.integers(2, 64))
        halves = (seeds % 2**32).astype(np.int64), (seeds >> 32).astype(np.int64)
        small = small_buckets(halves, x, 32, hashing.hash_bits(d), g)
        assert small.tolist() == [hashing.bucket(s, x, d, g) for s in seeds.tolist()]


@pytest.mark.parametrize(
    ("w", "u"), [(4, 2), (5, 2), (6, 3), (7, 3), (8, 1), (8, 4), (5, 5)]
)
def test_hash_words_of_two_categories_are_uniform_pairs(w: int, u: int) -> None:
    """Lemma 1, by all seeds; with one bit more, it would not hold."""
    seeds = all_seeds(w)
    for bits, pairwise in ((w + 1 - u, True), (w + 2 - u, False)):
        if bits > w:
            continue
        words = [small_buckets(seeds, x, w, bits, 2**bits) for x in range(2**u)]
        uniform = [
            set(np.bincount(a << bits | b, minlength=4**bits)) == {4 ** (w - bits)}
            for a, b in itertools.combinations(words, 2)
        ]
        assert all(uniform) == pairwise


@pytest.mark.parametrize(("w", "u", "g"), [(4, 2, 2), (4, 2, 3), (4, 3, 3), (5, 2, 5)])
@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(9, 10)], ids=str)
def test_hashed_reports_by_all_seeds(w: int, u: int, g: int, p: Fraction) -> None:
    bits = w + 1 - u
    sizes = hashing.bucket_sizes(2**bits, g)
    c = sum((Fraction(n, 2**bits) ** 2 for n in sizes), Fraction(0))
    wrong = (1 - p) / (g - 1)
    seeds = all_seeds(w)
    bucket = [small_buckets(seeds, x, w, bits, g).tolist() for x in range(2**u)]
    report = [response_law(p, g, j, None) for j in range(g)]
    laws: list[Distribution] = [
        {
            (i, y): probability / 4**w
            for i, j in enumerate(own)
            for y, probability in report[j].items()
        }
        for own in bucket
    ]
    expected = three_values((1 - c) * p, (1 - c) * wrong)
    for x, z in itertools.permutations(range(2**u), 2):
        assert losses(laws[x], laws[z]) == expected, (x, z)
        # Support of the other category, for the estimate.
        cross = sum(laws[x][i, y] for i, y in enumerate(bucket[z]))
        assert cross == c * p + (1 - c) * wrong


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("d", [2, 3, 100, 1024, 1025, 2**24])
@pytest.mark.parametrize("buckets", [None, 2, 3])
def test_event_of_hashing_is_that_of_the_lemma(
    epsilon: Any, d: int, buckets: int | None
) -> None:
    m = fastdp.LocalHashing.from_epsilon(epsilon, categories=d, buckets=buckets)
    g, c = m.buckets, hashing.collision(d, m.buckets)
    wrong = (1 - m.p) / (g - 1)
    event = m.event()
    assert (event.p, event.q) == ((1 - c) * m.p, (1 - c) * wrong)
    assert m.p / wrong <= exp_below(Fraction(epsilon))
    assert exp_below(Fraction(m.epsilon())) >= m.p / wrong
    size = 2 ** hashing.hash_bits(d)
    assert sum(hashing.bucket_sizes(size, g)) == size >= 8 * g
    assert Fraction(1, g) <= c <= Fraction(1, g) * (1 + Fraction(1, 256))


# --- the law of the kernels ---------------------------------------------------------


@pytest.mark.parametrize("quarters", range(5))
def test_patterns_by_all_columns_and_bytes(quarters: int) -> None:
    """Cuts of quarters are bytes: of all pairs of a column and a byte, exactly
    2**16 P(x) give the pattern x."""
    p = Fraction(quarters, 4)
    pairs = np.arange(2**16).reshape(16, -1, 64)
    words = np.stack([pairs // 256, pairs % 256], axis=2).astype(np.uint8)
    stream = TapeStream(words.reshape(16, -1), np.zeros((16, 0), np.uint8))
    out = np.zeros(2**16, np.uint8)
    law = _laws.bernoulli_law(p)
    _core.flip_bits(_core.Call(stream), law, None, out, 8 * 2**16)
    expected = [int(2**16 * bernoulli.probability(p, x)) for x in range(256)]
    assert np.bincount(out, minlength=256).tolist() == expected


@pytest.mark.parametrize("k", [2, 3, 4, 17, 64])
def test_shares_of_the_steps_by_their_words(k: int) -> None:
    """The words that the kernels decide and those that they leave open, all 2**16,
    bound the share of each step from both sides: 1/c, and the truth for the last."""
    words = np.arange(2**16, dtype="<u2")
    main = np.zeros((8, 2**14 + 2**18), np.uint8)
    main[:, : 2**14] = words.view(np.uint8).reshape(8, -1)
    for truth in (
        Fraction(-(-(2**64) // k), 2**64),
        Fraction(9 * 2**64 // 10, 2**64),
        1 - Fraction(1, 2**64),
    ):
        law = _laws.response_law(truth, k)
        for x, c in ((0, response.rate(truth, k)), (-1, Fraction(k))):
            _, near = response.opened(c, k, words.astype(np.uint64))
            seen = np.zeros((2, 2**16), np.uint8)
            for out, further in zip(seen, (0, 255), strict=True):
                main[:, 2**14 :] = further
                call = _core.Call(TapeStream(main))
                _core.respond(call, law, np.full(2**16, x), out)
            assert (seen[0] == seen[1])[~near].all()
            decided = np.bincount(seen[0][~near], minlength=k)
            touched = decided + sum(np.bincount(s[near], minlength=k) for s in seen)
            for report in range(k):
                share = truth if x == 0 and report == 0 else 1 / c
                low, high = int(decided[report]), int(touched[report])
                assert low <= 2**16 * share <= high + 1


# --- what the draws say of the data -------------------------------------------------

N = 5_001
KEY = bytes(range(32))


def with_outsiders(d: int) -> list[np.ndarray]:
    """Data sets of all kinds: constant, varied, outside, and one value changed."""
    rng = np.random.default_rng(4)
    varied = rng.integers(0, d, N)
    changed = varied.copy()
    changed[1234] = (changed[1234] + 1) % d
    outside = varied.copy()
    outside[::3] = rng.choice([-1, d, 2**63 - 1, -(2**63)], -(-N // 3))
    return [np.zeros(N, np.int64), np.full(N, d - 1), varied, changed, outside]


@pytest.mark.parametrize("k", [2, 3, 50, 1000, 70_000])
def test_shifts_do_not_depend_on_data(k: int) -> None:
    """Nor on who is outside, but for lanes that their words leave open: these have
    further bits by rank, and what is open outside takes part in the count."""
    m = fastdp.RandomizedResponse.from_epsilon(1, categories=k)
    key = KeyStream(KEY)
    shift = m.release(np.zeros(N, np.int64), stream=key).astype(np.int64)
    for x in with_outsiders(k):
        inside = (x >= 0) & (x < k)
        got = m.release(x, stream=key).astype(np.int64)
        apart = ((got - x) % k != shift) & inside
        assert apart.sum() <= (0 if inside.all() else 5_001 * 4 * k / 2**16)


def test_flips_of_packed_bits_do_not_depend_on_data() -> None:
    m, key = fastdp.RandomizedResponse.from_epsilon(1), KeyStream(KEY)
    flip = m.release(np.zeros(N, np.uint8), packed=True, stream=key)
    rng = np.random.default_rng(1)
    for x in (np.full(N, 255, np.uint8), rng.integers(0, 256, N, np.uint8)):
        assert (m.release(x, packed=True, stream=key) ^ x == flip).all()


def test_rows_differ_at_the_labels_only() -> None:
    d = 21
    m, key = fastdp.UnaryEncoding.from_epsilon(1, categories=d), KeyStream(KEY)
    rows = [
        np.unpackbits(m.release(x, stream=key), axis=1)[:, :d]
        for x in with_outsiders(d)
    ]
    user = np.arange(N)
    for (a, x), (b, z) in itertools.combinations(
        zip(rows, with_outsiders(d), strict=True), 2
    ):
        inside = (x >= 0) & (x < d) & (z >= 0) & (z < d)
        x, z = x.clip(0, d - 1), z.clip(0, d - 1)
        # The own bit is the same; every place that is nobody's label is, too.
        assert (a[user, x] == b[user, z])[inside].all()
        free = np.ones((N, d), bool)
        free[user, x] = free[user, z] = False
        assert (a == b)[inside][free[inside]].all()


def test_seeds_and_shifts_of_buckets_do_not_depend_on_data() -> None:
    d = 50
    m, key = fastdp.LocalHashing.from_epsilon(2, categories=d), KeyStream(KEY)
    shifts = None
    for x in with_outsiders(d):
        reports = m.release(x, stream=key)
        inside = (x >= 0) & (x < d)
        own = hashing.buckets(reports["seed"], x.clip(0, d - 1), d, m.buckets)
        found = (reports["seed"], (reports["value"] - own) % m.buckets)
        shifts = found if shifts is None else shifts
        assert (found[0] == shifts[0]).all()
        assert (found[1] == shifts[1])[inside].all()


def test_sides_and_words_of_hadamard_do_not_depend_on_data() -> None:
    d = 50
    m, key = fastdp.HadamardResponse.from_epsilon(1, categories=d), KeyStream(KEY)
    sides = first = None
    for x in with_outsiders(d):
        y = m.release(x, stream=key).astype(np.int64)
        code = x.clip(0, d - 1) + 1
        inside = (x >= 0) & (x < d)
        side = hadamard.parity(y & code)
        sides = side if sides is None else sides
        first = (y, code) if first is None else first
        assert (side == sides)[inside].all()
        moved = y ^ first[0]
        allowed = [0 * code, code & -code, first[1] & -first[1]]
        allowed.append(allowed[1] ^ allowed[2])
        assert np.any([moved == a for a in allowed], axis=0)[inside].all()


def mechanisms(d: int) -> list[Any]:
    return [
        fastdp.RandomizedResponse.from_epsilon(1, categories=d),
        fastdp.UnaryEncoding.from_epsilon(1, categories=d),
        fastdp.LocalHashing.from_epsilon(1, categories=d),
        fastdp.HadamardResponse.from_epsilon(1, categories=d),
    ]


@pytest.mark.parametrize("m", [*mechanisms(2), *mechanisms(40)], ids=repr)
def test_a_value_changes_no_report_but_its_own(m: Any) -> None:
    key, d = KeyStream(KEY), m.categories
    x = with_outsiders(d)[-1]
    reports = m.release(x, stream=key)
    for place, value in ((0, d - 1), (1234, d + 3), (N - 1, -(2**63))):
        changed = x.copy()
        changed[place] = value
        other = m.release(changed, stream=key)
        assert other.dtype == reports.dtype
        assert other.shape == reports.shape
        same = (other == reports).reshape(N, -1).all(axis=1)
        same[place] = True
        assert same.all()
