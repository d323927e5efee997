"""Estimates: unbiased exactly, errors by the exact formula, projection the nearest."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fastdp
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms.local import ConsistentEstimate, FrequencyEstimate
from fastdp.mechanisms.local.estimates import Support, project
from fastdp.testing import FixedStream
from tests.reference import hashing

RR, UE = fastdp.RandomizedResponse, fastdp.UnaryEncoding
LH, HR = fastdp.LocalHashing, fastdp.HadamardResponse


# --- arithmetic ---------------------------------------------------------------------


@pytest.mark.parametrize("users", [0, 1, 7, 10**6, 2**40 + 1])
def test_each_rounding_is_the_one_that_is_stated(users: int) -> None:
    """Exact fractions, then one rounding a step, to the last bit."""
    own, cross = Fraction(731058578630004, 10**15), Fraction(1, 3) + Fraction(1, 10**18)
    rng = np.random.default_rng(users)
    supporters = rng.integers(0, users, size=200, endpoint=True)
    found = Support(own, cross).estimate(supporters, users)
    whole = users * cross // 1
    counts = ((supporters - whole) - float(users * cross - whole)) / float(own - cross)
    holders = np.clip(counts, 0, users)
    spread = holders * float(own * (1 - own))
    spread += (users - holders) * float(cross * (1 - cross))
    assert found.counts.tobytes() == counts.tobytes()
    errors = np.sqrt(spread) / float(own - cross)
    assert found.standard_errors.tobytes() == errors.tobytes()


# --- unbiased -----------------------------------------------------------------


def supported(m: Any, report: Any) -> list[int]:
    """Return by the decoder which categories one report supports, 0 or 1 each."""
    counts = m.estimate(report).counts
    own, cross = m._support.own, m._support.cross
    support = counts * float(own - cross) + float(cross)
    assert support == pytest.approx(np.round(support), abs=1e-12)
    return [round(s) for s in support.tolist()]


def outcomes(m: Any) -> Any:
    """Yield for each category its reports with their exact probabilities."""
    d = m.categories
    if isinstance(m, RR):
        wrong = (1 - m.p) / (d - 1)
        for x in range(d):
            yield [(m.report_dtype.type(y), m.p if y == x else wrong) for y in range(d)]
    elif isinstance(m, UE):
        for x in range(d):
            ones = [m.p if v == x else m.q for v in range(d)]
            yield [
                (
                    np.packbits(row),
                    math.prod(
                        p if b else 1 - p for p, b in zip(ones, row, strict=True)
                    ),
                )
                for row in product((0, 1), repeat=d)
            ]
    else:
        order = 2 ** d.bit_length()
        own, rest = m.p / (order // 2), (1 - m.p) / (order // 2)
        for x in range(d):
            yield [
                (m.report_dtype.type(y), rest if odd(y & (x + 1)) else own)
                for y in range(order)
            ]


def odd(y: int) -> int:
    return y.bit_count() & 1


@pytest.mark.parametrize("m", [
    *(RR.from_epsilon(e, categories=k) for e in (0.01, 3) for k in (2, 3, 6)),
    *(UE.from_epsilon(e, categories=d) for e in (0.01, 3) for d in (2, 6)),
    UE.from_epsilon(1, categories=6, symmetric=True), UE(p=0.9, q=0.8, categories=3),
    *(HR.from_epsilon(e, categories=d) for e in (0.01, 3) for d in (2, 3, 4, 8)),
], ids=lambda m: f"{type(m).__name__}-{m.categories}")  # fmt: skip
def test_expected_support_is_exact(m: Any) -> None:
    own, cross = m._support.own, m._support.cross
    for x, reports in enumerate(outcomes(m)):
        expected = [Fraction(0)] * m.categories
        for report, probability in reports:
            for v, bit in enumerate(supported(m, report)):
                expected[v] += bit * probability
        assert expected == [own if v == x else cross for v in range(m.categories)]
        # So that the estimate of one user's count is in expectation 1 or 0, exactly.
        counts = [(e - cross) / (own - cross) for e in expected]
        assert counts == [int(v == x) for v in range(m.categories)]


@pytest.mark.parametrize(
    "m", [LH.from_epsilon(1, categories=5), LH.from_epsilon(3, categories=5, buckets=2)]
)
def test_expected_support_of_hashing_given_the_seed(m: Any) -> None:
    d, g, apart = m.categories, m.buckets, 1 - m.collision_probability
    wrong = (1 - m.p) / (g - 1)
    for seed in np.random.default_rng(1).integers(0, 2**64, size=40, dtype=np.uint64):
        buckets = hashing.buckets(np.full(d, seed), np.arange(d), d, g)
        reports = np.zeros(g, m.report_dtype)
        reports["seed"], reports["value"] = seed, range(g)
        support = [supported(m, report) for report in reports]
        for y, row in enumerate(support):
            assert row == (buckets == y).astype(int).tolist()
        for x, v in product(range(d), repeat=2):
            law = [m.p if y == buckets[x] else wrong for y in range(g)]
            expected = sum(p * row[v] for p, row in zip(law, support, strict=True))
            assert expected == (m.p if buckets[x] == buckets[v] else wrong)
    # Over pairwise independent seeds, as docs/proofs/local_randomizers.md proves.
    assert m._support == Support(m.p, (1 - apart) * m.p + apart * wrong)


@pytest.mark.parametrize(
    "m",
    [
        RR(0.75, categories=3),
        RR.from_epsilon(1, categories=300),
        UE(p=0.5, q=0.25, categories=3),
        HR(0.75, categories=3),
        LH(0.75, buckets=2, categories=3),
    ],
)
def test_reports_out_of_range_support_nothing_but_count(m: Any) -> None:
    x = np.arange(30000) % m.categories
    good = m.release(x, stream=FixedStream("r"))
    if isinstance(m, UE):
        bad = np.zeros((500, 1), np.uint8) | 0x1F  # the padding only
    elif isinstance(m, LH):
        bad = np.zeros(500, m.report_dtype)
        bad["value"] = [2, 2**32 - 1] * 250
    else:
        bad = np.full(500, np.iinfo(m.report_dtype).max, m.report_dtype)
    both = np.concatenate([bad, good])
    assert m.estimate(both).users == 30500
    support = m._support
    shift = 500 * float(support.cross / (support.own - support.cross))
    expected = m.estimate(good).counts - shift
    assert m.estimate(both).counts == pytest.approx(expected)


# --- errors -------------------------------------------------------------------


def test_standard_errors_are_those_of_sums_of_bits() -> None:
    support = Support(Fraction(7, 10), Fraction(2, 10))
    est = support.estimate(np.array([0, 200, 450, 1000], np.int64), 1000)
    assert est.counts == pytest.approx([-400, 0, 500, 1600])
    variance = np.array([1000 * 0.16, 1000 * 0.16, 500 * 0.37, 1000 * 0.21])
    assert est.standard_errors == pytest.approx(np.sqrt(variance) / 0.5)
    assert est.frequencies == pytest.approx([-0.4, 0, 0.5, 1.6])
    assert support.standard_error(1000, frequency=Fraction(1, 2)) == pytest.approx(
        est.standard_errors[2]
    )


@pytest.mark.parametrize(
    "m",
    [
        RR.from_epsilon(1, categories=4),
        UE.from_epsilon(1, categories=4),
        HR.from_epsilon(1, categories=4),
    ],
)
def test_planned_error_is_the_standard_deviation_by_enumeration(m: Any) -> None:
    own, cross = m._support.own, m._support.cross
    for x, reports in enumerate(outcomes(m)):
        for v in range(m.categories):
            squares = sum(p * supported(m, y)[v] for y, p in reports)
            variance = (squares - squares**2) / (own - cross) ** 2
            planned = m.standard_error(900, frequency=int(v == x))
            assert planned == pytest.approx(30 * math.sqrt(variance), rel=1e-12)


def test_planned_error_of_known_mechanisms() -> None:
    # Var of OUE and OLH for rare categories: 4 e^eps/(e^eps - 1)^2 a user.
    e = math.exp(1.5)
    expected = math.sqrt(1000 * 4 * e) / (e - 1)
    assert UE.from_epsilon(1.5, categories=9).standard_error(1000) == pytest.approx(
        expected
    )
    hashing = LH.from_epsilon(1.5, categories=9).standard_error(1000)
    assert hashing == pytest.approx(expected, rel=0.01)
    k = RR.from_epsilon(1.5, categories=9).standard_error(1000)
    assert k == pytest.approx(math.sqrt(1000 * (e + 7)) / (e - 1))
    assert UE.from_epsilon(1.5, categories=9).standard_error(0) == 0
    for users, error in ((-1, ParameterError), (1.5, DTypeError)):
        with pytest.raises(error, match="users"):
            UE.from_epsilon(1.5, categories=9).standard_error(users)
    for frequency in (-0.1, 1.1, math.nan):
        with pytest.raises(ParameterError, match="frequency"):
            UE.from_epsilon(1.5, categories=9).standard_error(10, frequency=frequency)
    with pytest.raises(DTypeError, match="frequency"):
        UE.from_epsilon(1.5, categories=9).standard_error(10, frequency="1")


def test_counts_are_nearly_correctly_rounded_for_tiny_epsilon() -> None:
    m = UE.from_epsilon(1e-9, categories=2)
    users = 10**15
    supporters = np.array([users // 2, users // 2 + 12345], np.int64)
    own, cross = m._support.own, m._support.cross
    counts = m._support.estimate(supporters, users).counts
    exact = [(s - users * cross) / (own - cross) for s in supporters.tolist()]
    assert counts == pytest.approx([float(e) for e in exact])


@pytest.mark.parametrize("level", [0.5, 0.95, 1 - 1e-12, Fraction(1, 10**9)])
def test_confidence_interval(level: Any) -> None:
    est = FrequencyEstimate(np.array([3.0, -2.0]), np.array([2.0, 0.5]), 10)
    low, high = est.confidence_interval(level)
    z = stats.norm.isf((1 - float(level)) / 2)
    assert high == pytest.approx(est.counts + z * est.standard_errors, rel=1e-9)
    assert low == pytest.approx(est.counts - z * est.standard_errors, rel=1e-9)


def test_levels() -> None:
    est = FrequencyEstimate(np.array([3.0]), np.array([2.0]), 10)
    low, high = est.confidence_interval(1 - Fraction(1, 2**2000))
    assert np.isfinite([low, high]).all()
    for bad in (0, 1, -1, 1.5, math.nan):
        with pytest.raises(ParameterError, match="level"):
            est.confidence_interval(bad)
    for bad in (True, "0.9", None):
        with pytest.raises(DTypeError, match="level"):
            est.confidence_interval(bad)


# --- projection ---------------------------------------------------------------


def nearest(counts: list[float], total: int) -> np.ndarray:
    """Return the nearest point by trying every set of positive entries."""
    best, least = None, math.inf
    d = len(counts)
    for size in range(1, d + 1):
        for chosen in combinations(range(d), size):
            point = np.zeros(d)
            kept = np.array(chosen)
            point[kept] = np.array(counts)[kept]
            point[kept] -= (point[kept].sum() - total) / size
            distance = ((point - counts) ** 2).sum()
            if (point >= 0).all() and distance < least:
                best, least = point, distance
    assert best is not None
    return best


def test_projection_is_the_nearest_point() -> None:
    rng = np.random.default_rng(2)
    for d in (1, 2, 3, 5, 8):
        for _ in range(25):
            counts = rng.normal(10, rng.choice([1, 30, 300]), d)
            total = int(rng.integers(1, 100))
            found = project(counts, total)
            assert found == pytest.approx(nearest(counts.tolist(), total), abs=1e-9)
            assert found.min() >= 0
            assert found.sum() == pytest.approx(total)


@pytest.mark.parametrize("counts", [
    [5.0, 5.0], [0.0, 0.0, 0.0], [-3.0, -3.0, -4.0], [1e18, -1e18, 1e18],
    [1e300, 0.0, 0.0], [7.0],
])  # fmt: skip
@pytest.mark.parametrize("total", [0, 1, 10])
def test_projection_of_extremes(counts: list[float], total: int) -> None:
    found = project(np.array(counts), total)
    assert found.sum() == pytest.approx(total)
    assert found.min() >= 0
    order = np.argsort(counts)
    assert (np.diff(found[order]) >= 0).all()


def test_consistent_is_another_kind_of_estimate() -> None:
    est = FrequencyEstimate(np.array([12.0, -4.0, 3.0]), np.ones(3), 10)
    projected = est.consistent()
    assert projected.counts == pytest.approx([9.5, 0, 0.5])
    assert projected.frequencies == pytest.approx([0.95, 0, 0.05])
    assert projected.users == 10
    assert not isinstance(projected, FrequencyEstimate)
    for name in ("standard_errors", "confidence_interval", "consistent"):
        assert not hasattr(projected, name)
    assert est.counts.tolist() == [12, -4, 3]
    inside = FrequencyEstimate(np.array([1.0, 9.0]), np.ones(2), 10).consistent()
    assert inside.counts == pytest.approx([1, 9])


@pytest.mark.parametrize(
    "m",
    [
        RR(0.75),
        UE(p=0.5, q=0.25, categories=9),
        LH(0.5, buckets=4, categories=9),
        HR(0.75, categories=9),
    ],
)
def test_no_users(m: Any) -> None:
    est = m.estimate(m.release(np.zeros(0, np.int64)))
    assert est.users == 0
    assert (est.counts == 0).all()
    assert (est.standard_errors == 0).all()
    assert np.isnan(est.frequencies).all()
    assert all((edge == 0).all() for edge in est.confidence_interval(0.95))
    assert (est.consistent().counts == 0).all()
    assert np.isnan(est.consistent().frequencies).all()


def test_estimates_are_immutable_and_picklable() -> None:
    est = RR(0.75).estimate(np.array([1, 0, 1], np.uint8))
    for thing in (est, est.consistent()):
        with pytest.raises(AttributeError):
            thing.users = 5
        with pytest.raises(ValueError, match="read-only"):
            thing.counts[0] = 1
        again = pickle.loads(pickle.dumps(thing))
        assert type(again) is type(thing)
        assert (again.counts == thing.counts).all()
    assert isinstance(est.consistent(), ConsistentEstimate)
