"""Privacy and accuracy of open domains from whole laws, as fractions."""

import itertools
import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest

import fastdp
from fastdp import _validate
from tests.privacy.test_local_exact import (
    Distribution,
    exp_above,
    exp_below,
    hadamard_law,
    response_law,
    unary_law,
)

#: The law of a user's report, by the buckets of the user's string in every row.
Law: TypeAlias = Callable[[Any, tuple[int, ...]], Distribution]

EPSILONS = [Fraction(1, 100), 0.5, 1, 4, Fraction(19, 2)]


def inner_law(m: Any, bucket: int) -> Distribution:
    """Return the law of the inner report of a bucket."""
    unary = isinstance(m, fastdp.UnaryEncoding)
    return unary_law(m, bucket) if unary else hadamard_law(m, bucket)


def sketch_law(m: Any, buckets: tuple[int, ...]) -> Distribution:
    """Return the law of (row, inner report)."""
    law: dict[Hashable, Fraction] = {}
    for row, bucket in enumerate(buckets):
        for y, probability in inner_law(m.inner, bucket).items():
            law[row, y] = probability / m.rows
    return law


def worst_ratio(m: Any, law: Law, functions: int = 2) -> Fraction | float:
    """Return the largest ratio of probabilities over all pairs of inputs.

    An input is known by its buckets under two hash functions: all pairs occur.
    """
    inputs = itertools.product(range(m.buckets), repeat=functions)
    laws = [law(m, buckets) for buckets in inputs]
    worst: Fraction | float = Fraction(1)
    for p, q in itertools.permutations(laws, 2):
        for y, probability in p.items():
            other = q.get(y, Fraction(0))
            worst = max(worst, probability / other if other else math.inf)
    return worst


def made(inner: str, epsilon: Any = 1, rows: int = 2, buckets: int = 4) -> Any:
    return fastdp.CountMeanSketch.from_epsilon(
        epsilon, rows=rows, buckets=buckets, inner=inner
    )


@pytest.mark.parametrize("inner", ["hadamard", "unary"])
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_a_sketch_is_as_private_as_stated(inner: str, epsilon: Any) -> None:
    m = made(inner, epsilon, buckets=4 if inner == "hadamard" else 2)
    worst = worst_ratio(m, sketch_law)
    exact = _validate.exact("epsilon", epsilon)
    assert worst <= exp_below(exact)
    event = m.event()
    assert worst == event.p / event.q
    # Nothing to spare but the rounding of one probability.
    assert worst * (1 + Fraction(1, 2**40)) > exp_above(exact)


def test_the_law_is_that_of_every_string() -> None:
    # Whatever a string is, its report has one of these laws: no string is refused.
    m = made("hadamard", rows=2, buckets=2)
    odd = ["", "\0", "a" * 10_000, "\ud800", b"\xff", 7, None, "\u00e9"]
    for value in odd:
        report = m.release([value])
        assert report.shape == (1,)
        assert report["row"][0] < 2
        assert report["value"][0] < 4


def row_by_value(m: Any, buckets: tuple[int, ...]) -> Distribution:
    """Planted: the row is that in which the bucket is smallest."""
    row = buckets.index(min(buckets))
    return {(row, y): p for y, p in inner_law(m.inner, buckets[row]).items()}


def unlisted_in_the_clear(m: Any, buckets: tuple[int, ...]) -> Distribution:
    """Planted: what is in no list (here: all in the last bucket) says so."""
    if buckets == (m.buckets - 1,) * m.rows:
        return {"none": Fraction(1)}
    return sketch_law(m, buckets)


def same_flip_as_hadamard(m: Any, buckets: tuple[int, ...]) -> Distribution:
    """Planted: unary bits flipped as if one of them could change, not two."""
    truth = fastdp.HadamardResponse.from_epsilon(1, categories=2).p
    wrong = fastdp.CountMeanSketch(truth, rows=m.rows, buckets=m.buckets, inner="unary")
    return sketch_law(wrong, buckets)


def all_rows(m: Any, buckets: tuple[int, ...]) -> Distribution:
    """Planted: a report for every row, each at the full price."""
    law: dict[Hashable, Fraction] = {}
    parts = [list(inner_law(m.inner, bucket).items()) for bucket in buckets]
    for combined in itertools.product(*parts):
        ys = tuple(y for y, _ in combined)
        law[ys] = math.prod((p for _, p in combined), start=Fraction(1))
    return law


TRAPS: list[tuple[str, Law]] = [
    ("hadamard", row_by_value),
    ("hadamard", unlisted_in_the_clear),
    ("unary", same_flip_as_hadamard),
    ("hadamard", all_rows),
]


@pytest.mark.parametrize(
    ("inner", "trap"), TRAPS, ids=lambda x: getattr(x, "__name__", x)
)
def test_planted_faults_are_found(inner: str, trap: Law) -> None:
    m = made(inner, buckets=2)
    assert worst_ratio(m, sketch_law) <= exp_below(Fraction(1))
    assert worst_ratio(m, trap) > exp_above(Fraction(1))


# --- prefixes -------------------------------------------------------------------------


def hunt_law(m: Any, buckets: tuple[int, ...]) -> Distribution:
    """Return the law of (seed, bucket); a seed says the group, and so the prefix."""
    law: dict[Hashable, Fraction] = {}
    for seed, bucket in enumerate(buckets):
        for y, probability in response_law(m.p, m.buckets, bucket, 0).items():
            law[seed, y] = probability / len(buckets)
    return law


def group_by_value(m: Any, buckets: tuple[int, ...]) -> Distribution:
    """Planted: short values report with the group of short prefixes."""
    seed = min(buckets[0], 1)
    mine = response_law(m.p, m.buckets, buckets[seed], 0)
    return {(seed, y): probability for y, probability in mine.items()}


def every_level(m: Any, buckets: tuple[int, ...]) -> Distribution:
    """Planted: a report for every length, each at the full price."""
    parts = [response_law(m.p, m.buckets, b, 0).items() for b in buckets]
    return {
        tuple(y for y, _ in combined): math.prod(
            (p for _, p in combined), start=Fraction(1)
        )
        for combined in itertools.product(*parts)
    }


def only_candidates(m: Any, buckets: tuple[int, ...]) -> Distribution:
    """Planted: whose prefix is no candidate (here: all in bucket 0) reports noise."""
    fair = {
        (s, y): Fraction(1, 2 * m.buckets) for s in (0, 1) for y in range(m.buckets)
    }
    return {"silent": Fraction(1)} if buckets == (0, 0) else fair


@pytest.mark.parametrize("epsilon", EPSILONS[:4], ids=str)
def test_a_hunt_is_as_private_as_stated(epsilon: Any) -> None:
    m = fastdp.PrefixHunt.from_epsilon(epsilon)
    few = fastdp.PrefixHunt(Fraction(7, 8), buckets=3)
    assert worst_ratio(few, hunt_law) == few.event().p / few.event().q
    # Of many buckets two stand for all: the ratio is that of the true and another one.
    exact = _validate.exact("epsilon", epsilon)
    assert exp_above(exact) > m.event().p / m.event().q
    assert m.event().p / m.event().q <= exp_below(exact)


@pytest.mark.parametrize("trap", [group_by_value, every_level, only_candidates])
def test_planted_faults_of_hunts_are_found(trap: Law) -> None:
    m = fastdp.PrefixHunt.from_epsilon(1)
    assert worst_ratio(m, hunt_law) <= exp_below(Fraction(1))
    assert worst_ratio(m, trap) > exp_above(Fraction(1))


# --- RAPPOR ---------------------------------------------------------------------------

#: All filters of two hashes, on the four bits in which two of them can differ.
FILTERS = sorted(
    {tuple(int(b in (i, j)) for b in range(4)) for i in range(4) for j in range(4)}
)


def bits_law(ones: Fraction, zeros: Fraction, bits: tuple[int, ...]) -> Distribution:
    """Return the law of independent bits, 1 with these probabilities."""
    law: dict[Hashable, Fraction] = {}
    for y in itertools.product((0, 1), repeat=len(bits)):
        chances = [ones if b else zeros for b in bits]
        parts = [c if one else 1 - c for c, one in zip(chances, y, strict=True)]
        law[y] = math.prod(parts, start=Fraction(1))
    return law


def memo_law(m: Any, bits: tuple[int, ...]) -> Distribution:
    return bits_law(1 - m.f / 2, m.f / 2, bits)


def reports_law(m: Any, bits: tuple[int, ...], number: int) -> Distribution:
    """Return the law of this many reports of one memo, bit by bit."""
    law: dict[Hashable, Fraction] = {}
    for memo, weight in memo_law(m, bits).items():
        assert isinstance(memo, tuple)
        one = bits_law(m.q, m.p, memo)
        for several in itertools.product(one.items(), repeat=number):
            y = tuple(report for report, _ in several)
            chance = math.prod((c for _, c in several), start=weight)
            law[y] = law.get(y, Fraction(0)) + chance
    return law


def worst_of(laws: list[Distribution]) -> Fraction:
    pairs = itertools.permutations(laws, 2)
    return max(a[y] / b[y] for a, b in pairs for y in a)


@pytest.mark.parametrize("f", [Fraction(1, 2), 0.1, Fraction(2, 3)], ids=str)
def test_memos_and_reports_are_as_private_as_stated(f: Any) -> None:
    m = fastdp.Rappor(f, p=0.5, q=0.75, bits=8, cohorts=1)
    memo, one = m.event(), m.report_event()
    assert worst_of([memo_law(m, bits) for bits in FILTERS]) == memo.p / memo.q
    reports = [reports_law(m, bits, 1) for bits in FILTERS]
    assert worst_of(reports) == one.p / one.q
    law = bits_law(*m._chances(), FILTERS[-1])
    assert reports[-1] == {(y,): chance for y, chance in law.items()}
    two = [reports_law(m, bits, 2) for bits in ((1, 1, 0, 0), (0, 0, 1, 1))]
    assert one.p / one.q < worst_of(two) <= memo.p / memo.q
    assert 2 * m.hashes * math.log((2 - float(m.f)) / float(m.f)) == pytest.approx(
        m.epsilon()
    )


def test_planted_faults_of_memos_are_found() -> None:
    m = fastdp.Rappor(0.5, p=0.5, q=0.75, bits=8, cohorts=1)
    limit = m.event().p / m.event().q
    # A memo drawn anew for each report: five of them tell more than one memo.
    single = worst_of([reports_law(m, bits, 1) for bits in FILTERS])
    assert single**5 > limit
    # The filter itself as the memo; and f as the probability of a turn, not its half.
    half = fastdp.Rappor(0.25, p=0.5, q=0.75, bits=8, cohorts=1)
    assert worst_of([memo_law(half, bits) for bits in FILTERS]) > limit
    # A budget for the bits that a value sets, not for those in which two differ.
    assert worst_of([memo_law(m, bits) for bits in FILTERS]) > ((2 - m.f) / m.f) ** 2
    # f rounded down.
    low = Fraction(int(2**64 * Fraction(1, 3) / 2), 2**64) * 2
    third = fastdp.Rappor(Fraction(1, 3), p=0.5, q=0.75)
    assert low < Fraction(1, 3) <= third.f


# --- accuracy -------------------------------------------------------------------------


@pytest.mark.parametrize("inner", ["hadamard", "unary"])
def test_mean_and_variance_over_hash_functions_rows_and_noise(inner: str) -> None:
    """H = 2, m = 4: all functions of three strings, all rows of five users."""
    m = made(inner)
    held = ["s", "s", "x", "x", "y"]  # s is asked for; its buckets may be taken for 0
    own, cross = m.inner._support.own, m.inner._support.cross
    gap = m._support.own - m._support.cross
    first = second = Fraction(0)
    weight = Fraction(1, 4 ** (2 * 2) * 2 ** len(held))
    for buckets in itertools.product(range(4), repeat=4):
        hits = {"s": (True, True)}
        hits["x"] = (buckets[0] == 0, buckets[1] == 0)
        hits["y"] = (buckets[2] == 0, buckets[3] == 0)
        for rows in itertools.product(range(2), repeat=len(held)):
            together = sum(hits[v][row] for v, row in zip(held, rows, strict=True))
            apart = len(held) - together
            mean = together * own + apart * cross
            mean = (mean - len(held) * m._support.cross) / gap
            variance = together * own * (1 - own) + apart * cross * (1 - cross)
            first += weight * mean
            second += weight * (variance / gap**2 + mean**2)
    assert first == 2
    plain = 2 * m._support.own * (1 - m._support.own)
    plain += 3 * m._support.cross * (1 - m._support.cross)
    wanted = plain / gap**2 + 2 * m._collisions()  # N_x (N_x - 1) = 2, N_y (...) = 0
    assert second - first**2 == wanted
    stated = m.standard_error(5, frequency=Fraction(2, 5), squares=Fraction(5, 25))
    assert stated == pytest.approx(float(wanted) ** 0.5, rel=1e-12)


@pytest.mark.parametrize(("bits", "holds"), [(2, True), (3, True), (4, False)])
def test_the_hash_functions_are_pairwise_uniform(bits: int, holds: bool) -> None:
    """The family with halves of 2 bits and words of 4: all functions, all pairs."""
    a, c, b = (part.reshape(-1) for part in np.indices((16, 16, 16)))

    def first_bits(x: int) -> np.ndarray:
        return ((a + x % 4) * (c + x // 4) + b) % 16 >> 4 - bits

    size = 1 << bits
    worst = 0
    for x, other in itertools.combinations(range(16), 2):
        together = first_bits(x) * size + first_bits(other)
        counts = np.bincount(together, minlength=size * size)
        worst = max(worst, int(np.ptp(counts)))
    assert (worst == 0) == holds
