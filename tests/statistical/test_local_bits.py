"""Bernoulli bits and local reports from the secure default stream.

alpha = 5e-10 a test (1e-7 for the family). n = 3.2e7 bits or 4e6 reports in CI, thirty
times as many in the slow run; power above 0.99 against a probability that is wrong
by 1 % of itself (10 % for rare bits, 2 % with 1,000 cells), or by a fifth of that in
the slow run, which every test checks for its own cells.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from tests.reference import hadamard, hashing
from tests.statistical.bins import ALPHA, SLAB, p_value, power

N, MANY = 4_000_000, 120_000_000
BITS = [Fraction(1, 1000), Fraction(0.1), Fraction(1, 3), Fraction(1, 2)]
BITS += [Fraction(3, 4), 1 - Fraction(1, 700)]


def lumped(
    counts: np.ndarray, *laws: np.ndarray, least: float = 25
) -> tuple[np.ndarray, ...]:
    """Put the cells that expect fewer than `least` counts by the first law together."""
    rare = laws[0] * counts.sum() < least
    if not rare.any():
        return counts, *laws
    return tuple(np.append(a[~rare], a[rare].sum()) for a in (counts, *laws))


def patterns(p: float) -> np.ndarray:
    """Return the probabilities of the 256 bytes of 8 independent bits."""
    ones = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)
    return p**ones * (1 - p) ** (8 - ones)


def summed(draw: Callable[[int], np.ndarray], n: int, cells: int) -> np.ndarray:
    """Return how often n draws are each of 0 ... cells - 1, a slab at a time."""
    total = np.zeros(cells, np.int64)
    for start in range(0, n, SLAB):
        total += np.bincount(draw(min(SLAB, n - start)), minlength=cells)
    return total


def check(counts: np.ndarray, law: np.ndarray, wrong: np.ndarray) -> float:
    """Test counts against a law by cells that would show the wrong one."""
    seen, expected, other = lumped(counts, law, wrong)
    assert power(expected, other, int(counts.sum())) > 0.99
    p = p_value(seen, expected)
    assert p > ALPHA
    return p


def check_bits(p: Fraction, n: int, error: float) -> None:
    """Bytes of packed bits: each probability, and neighbors' independence."""
    less = float(min(p, 1 - p))
    error *= 10 if less < 0.01 else 1
    wrong = less * (1 + error) if p == less else 1 - less * (1 + error)

    def draw(size: int) -> np.ndarray:
        return fastdp.random.bernoulli(p, size=8 * size, packed=True)

    p_value = check(summed(draw, n, 256), patterns(float(p)), patterns(wrong))
    print(f"bernoulli {float(p):g}: n = {8 * n:.1e}, p = {p_value:.4f}")


@pytest.mark.parametrize("p", BITS, ids=float)
def test_bits(p: Fraction) -> None:
    check_bits(p, N, 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("p", BITS, ids=float)
def test_many_bits(p: Fraction) -> None:
    check_bits(p, MANY, 0.002)


@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(1, 20)], ids=str)
@pytest.mark.parametrize("distance", [8, 64, 8192, 32768])
def test_bits_far_apart_are_independent(p: Fraction, distance: int) -> None:
    """Pairs of bits a byte, a block, a group and a chunk apart: four cells, against
    the first being 1 % too frequent or, if rare, 6 %."""
    n = 8 * N // (2 * distance) * (2 * distance)
    pairs = fastdp.random.bernoulli(p, size=n).view(np.uint8).reshape(-1, 2, distance)
    counts = np.bincount((2 * pairs[:, 0] + pairs[:, 1]).reshape(-1), minlength=4)
    margin = np.array([1 - float(p), float(p)])
    law = np.outer(margin, margin).reshape(-1)
    wrong = law * np.array([1, 1, 1, 1.01 if p > Fraction(1, 10) else 1.06])
    check(counts, law, wrong / wrong.sum())


def shares(truth: float, k: int) -> np.ndarray:
    """Return the probabilities of the shifts of a k-ary response."""
    return np.array([truth, *[(1 - truth) / (k - 1)] * (k - 1)])


def check_shifts(k: int, epsilon: float, n: int, error: float) -> None:
    m = fastdp.RandomizedResponse.from_epsilon(epsilon, categories=k)
    error *= 2.5 if k > 100 else 1
    rng = np.random.default_rng(k)  # of the values: the guarantee is for any

    def draw(size: int) -> np.ndarray:
        x = rng.integers(0, k, size)
        return (m.release(x).astype(np.int64) - x) % k

    truth = float(m.p)
    law, wrong = shares(truth, k), shares(truth * (1 + error), k)
    p = check(summed(draw, n, k), law, wrong)
    print(f"response {k}: n = {n:.1e}, p = {p:.4f}")


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1), (3, 1), (16, 2), (1000, 6)])
def test_shifts(k: int, epsilon: float) -> None:
    check_shifts(k, epsilon, N, 0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "epsilon"), [(2, 1), (3, 1), (16, 2), (1000, 6)])
def test_many_shifts(k: int, epsilon: float) -> None:
    check_shifts(k, epsilon, MANY, 0.002)


def test_shifts_over_many_categories() -> None:
    """Words of 64 bits: 100 ranges of 100,000 categories."""
    k, x = 100_000, np.full(N, 77)
    m = fastdp.RandomizedResponse.from_epsilon(9, categories=k)
    shift = (m.release(x).astype(np.int64) - x) % k
    cells = np.where(shift == 0, 0, 1 + (shift - 1) * 100 // (k - 1))
    counts, truth = np.bincount(cells, minlength=101), float(m.p)
    ends = -(-np.arange(101) * (k - 1) // 100)
    rest = np.diff(ends) / (k - 1)
    law, wrong = (np.array([t, *(1 - t) * rest]) for t in (truth, 1.05 * truth))
    check(counts, law, wrong)


@pytest.mark.parametrize("k", [2, 10, 3000])
def test_values_outside_are_answered_uniformly(k: int) -> None:
    x = np.tile([-1, k], N // 2)
    y = fastdp.RandomizedResponse.from_epsilon(3, categories=k).release(x)
    law = np.full(k, 1 / k)
    wrong = law + np.where(np.arange(k) % 2, 1, -1) * 0.05 / k
    check(np.bincount(y, minlength=k), law, wrong)


def test_hadamard_reports_are_uniform_on_the_halves() -> None:
    d, label = 100, 41
    m = fastdp.HadamardResponse.from_epsilon(1, categories=d)
    y = m.release(np.full(N, label))
    size = 2 ** hadamard.order(d)
    own = hadamard.parity(np.arange(size) & (label + 1)) == 0
    law, wrong = (
        np.where(own, p, 1 - p) * 2 / size for p in (float(m.p), float(m.p) * 1.01)
    )
    check(np.bincount(y, minlength=size), law, wrong)


@pytest.mark.parametrize("buckets", [2, 5])
def test_buckets_of_own_and_other_categories(buckets: int) -> None:
    """The report against the hash of the own category and that of another one."""
    d, own, other = 1000, 3, 700
    m: Any = fastdp.LocalHashing.from_epsilon(1, categories=d, buckets=buckets)
    y = m.release(np.full(N, own))
    value = y["value"].astype(np.int64)
    here, there = (
        hashing.buckets(y["seed"], np.full(N, v), d, buckets) for v in (own, other)
    )
    counts = np.bincount(
        (here * buckets + there) * buckets + (value - here) % buckets,
        minlength=buckets**3,
    )
    sizes = np.array(hashing.bucket_sizes(2 ** hashing.hash_bits(d), buckets))
    share = sizes / sizes.sum()
    pairs = np.outer(share, share).reshape(-1)
    law, wrong = (
        np.outer(pairs, shares(p, buckets)).reshape(-1)
        for p in (float(m.p), float(m.p) * 1.01)
    )
    check(counts, law, wrong)
