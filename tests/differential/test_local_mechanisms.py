"""Whole releases of the local mechanisms, put together from the words of a call."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from tests.differential import local_layout as layout
from tests.differential.layout import Keyed
from tests.reference import bernoulli, hadamard, hashing, unary

KEY = bytes(range(9, 41))
SIZES = [1, 9, 1000, 4097, 9001]
each_other = pytest.mark.parametrize("other", [None, 0, 1])

pytestmark = pytest.mark.usefixtures("level")


def values_of(d: int, n: int) -> np.ndarray:
    """Categories and one value in eight outside."""
    rng = np.random.default_rng(n)
    x = rng.integers(0, d, n)
    outside = rng.random(n) < 0.125
    x[outside] = rng.choice([-1, d, d + 5, -(2**63), 2**63 - 1, 2**32], outside.sum())
    return x


def labels_of(call: _core.Call, m: Any, x: np.ndarray) -> np.ndarray:
    """Relabeled values: a response that always tells the truth."""
    other = -1 if m.other is None else m.other
    first = 2 * layout.REGION
    return layout.responses(call, Fraction(1), m.categories, x, other, first)


def check(m: Any, x: np.ndarray, expected: np.ndarray) -> None:
    for workers in (1, 2, 3):
        got = m.release(x, stream=Keyed(KEY), workers=workers)
        assert got.dtype == m.report_dtype
        assert (got == expected).all(), workers
    shaped = x.reshape(1, -1)
    got = m.release(shaped, stream=Keyed(KEY))
    assert got.shape == (1, *expected.shape)
    assert (got[0] == expected).all()
    if len(x) == 1:
        assert (m.release(x[0], stream=Keyed(KEY)) == expected[0]).all()
        assert (m.release(int(x[0]), stream=Keyed(KEY)) == expected[0]).all()


@pytest.mark.parametrize("n", [*SIZES, 40_001])
@each_other
def test_two_categories(n: int, other: int | None) -> None:
    m = fastdp.RandomizedResponse.from_epsilon(1.5, other=other)
    call, x = _core.Call(Keyed(KEY)), values_of(2, n)
    flip, coin = layout.flips(call, 1 - m.p, n), layout.coins(call, n)
    answers = bernoulli.answers(x, flip, coin, -1 if other is None else other)
    check(m, x, answers)
    bools = x == 1
    got = m.release(bools, stream=Keyed(KEY))
    assert got.dtype == bool
    assert (got == bools ^ flip).all()
    bits = np.packbits(bools)
    flip = layout.flips(call, 1 - m.p, 8 * len(bits))
    for workers in (1, 3):
        got = m.release(bits, packed=True, stream=Keyed(KEY), workers=workers)
        assert (got == bits ^ np.packbits(flip)).all()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("k", [3, 300, 70_000])
@each_other
def test_k_ary_response(n: int, k: int, other: int | None) -> None:
    m = fastdp.RandomizedResponse.from_epsilon(2, categories=k, other=other)
    x = values_of(k, n)
    stand_in = -1 if other is None else other
    check(m, x, layout.responses(_core.Call(Keyed(KEY)), m.p, k, x, stand_in))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("d", [3, 8, 13, 300])
@pytest.mark.parametrize("symmetric", [False, True])
@each_other
def test_unary_rows(n: int, d: int, symmetric: bool, other: int | None) -> None:
    m = fastdp.UnaryEncoding.from_epsilon(
        1, categories=d, symmetric=symmetric, other=other
    )
    call, x = _core.Call(Keyed(KEY)), values_of(d, n)
    background = layout.flips(call, m.q, n * 8 * -(-d // 8))
    own = layout.flips(call, m.p, n, 3 * layout.REGION)
    rows = unary.rows(background, labels_of(call, m, x), own, d)
    check(m, x, rows)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("d", "buckets"), [(3, None), (500, 2), (500, None)])
@each_other
def test_hashed_reports(n: int, d: int, buckets: int | None, other: int | None) -> None:
    m = fastdp.LocalHashing.from_epsilon(3, categories=d, buckets=buckets, other=other)
    call, x = _core.Call(Keyed(KEY)), values_of(d, n)
    # The stream has one key for all calls, so that seeds and words share it here.
    seeds = np.frombuffer(layout.stream_bytes(call, 8 * n), "<u8")
    bucket = hashing.buckets(seeds, labels_of(call, m, x), d, m.buckets)
    reports = np.zeros(n, m.report_dtype)
    reports["seed"] = seeds
    reports["value"] = layout.responses(call, m.p, m.buckets, bucket)
    check(m, x, reports)


@pytest.mark.parametrize("n", [*SIZES, 33_001])
@pytest.mark.parametrize("d", [2, 3, 256, 2**16 - 1, 2**24])
@each_other
def test_hadamard_reports(n: int, d: int, other: int | None) -> None:
    m = fastdp.HadamardResponse.from_epsilon(1, categories=d, other=other)
    call, x = _core.Call(Keyed(KEY)), values_of(d, n)
    words = layout.hadamard_words(call, n, hadamard.order(d)).astype(np.uint32)
    f = layout.flips(call, 1 - m.p, n)
    check(m, x, hadamard.reports(labels_of(call, m, x), words, f))


# --- estimates ----------------------------------------------------------------------


def supporters(m: Any, reports: np.ndarray) -> np.ndarray:
    """Count the supporters of each category by the definition of support."""
    categories = np.arange(m.categories)
    if isinstance(m, fastdp.UnaryEncoding):
        return unary.column_sums(reports, m.categories)
    if isinstance(m, fastdp.LocalHashing):
        values = reports["value"].astype(np.int64)
        return hashing.support(reports["seed"], values, m.categories, m.buckets)
    held = reports.astype(np.int64)[:, None]
    if isinstance(m, fastdp.HadamardResponse):
        return (hadamard.parity(held & (categories + 1)) == 0).sum(axis=0)
    return (held == categories).sum(axis=0)


def probabilities(m: Any) -> tuple[Fraction, Fraction]:
    """Return the exact probabilities that a report supports its own category and
    another one."""
    if isinstance(m, fastdp.UnaryEncoding):
        return m.p, m.q
    if isinstance(m, fastdp.HadamardResponse):
        return m.p, Fraction(1, 2)
    if isinstance(m, fastdp.LocalHashing):
        c = hashing.collision(m.categories, m.buckets)
        assert m.collision_probability == c
        return m.p, c * m.p + (1 - c) * (1 - m.p) / (m.buckets - 1)
    return m.p, (1 - m.p) / (m.categories - 1)


MECHANISMS = [
    fastdp.RandomizedResponse.from_epsilon(1),
    fastdp.RandomizedResponse.from_epsilon(1, categories=7),
    fastdp.UnaryEncoding.from_epsilon(2, categories=13),
    fastdp.UnaryEncoding.from_epsilon(2, categories=13, symmetric=True),
    fastdp.LocalHashing.from_epsilon(2, categories=40),
    fastdp.LocalHashing.from_epsilon(2, categories=40, buckets=2),
    fastdp.HadamardResponse.from_epsilon(1, categories=20),
]


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_estimate_is_that_of_the_formula(m: Any) -> None:
    n = 3_001
    x = values_of(m.categories, n)
    reports = m.release(x, stream=Keyed(KEY))
    own, cross = probabilities(m)
    support = supporters(m, reports).tolist()
    counts = [(s - n * cross) / (own - cross) for s in support]
    estimate = m.estimate(reports)
    assert estimate.users == n
    assert estimate.counts == pytest.approx([float(c) for c in counts], rel=1e-12)
    squares = []
    for count in counts:
        held = min(max(count, 0), n)
        spread = held * own * (1 - own) + (n - held) * cross * (1 - cross)
        squares.append(float(spread / (own - cross) ** 2))
    assert estimate.standard_errors**2 == pytest.approx(squares, rel=1e-12)
    for frequency in (Fraction(0), Fraction(1, 3), Fraction(1)):
        spread = frequency * own * (1 - own) + (1 - frequency) * cross * (1 - cross)
        planned = m.standard_error(n, frequency=frequency)
        exact = float(n * spread / (own - cross) ** 2)
        assert planned**2 == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_batches_give_the_estimate_of_the_whole(m: Any) -> None:
    reports = m.release(values_of(m.categories, 2_000), stream=Keyed(KEY))
    whole = m.estimate(reports, workers=2)
    parts = [m.aggregator().add(reports[a : a + 300]) for a in range(0, 2_000, 300)]
    order = [parts[i] for i in (3, 0, 6, 2, 5, 1, 4)]
    merged = m.aggregator()
    for part in order:
        merged = part + merged
    assert (merged.estimate().counts == whole.counts).all()
    assert (merged.estimate().standard_errors == whole.standard_errors).all()
