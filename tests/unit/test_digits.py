"""Alias digits: masses of both tables, thresholds, and the law that they add up to."""

import random
from collections import Counter
from fractions import Fraction

import mpmath
import pytest

from tests.differential.layout import Law, reference_of
from tests.reference import exact_digits
from tests.reference.exact_digits import (
    Digits,
    Gaussian,
    Laplace,
    real_columns,
    real_cuts,
)

LONG = Fraction(random.Random(1).getrandbits(2200) | 1, 3**1380)
SCALES = [
    *("1/1000000", "1/1000", "1/100", "1/3", "1", "51/10", "10", "11", "20", "21"),
    *("40", "100", "320", "321", "1000", "2560", "2561", "3000", "1000000"),
    *("20971520", "20971521", str(2**40), str(2**55)),
]
SIGMAS = ["1/1000", "1/20", "1/3", "1", "5", "8", "87/10"]
LAWS: list[Law] = [Law("laplace", Fraction(t)) for t in SCALES]
LAWS += [Law("laplace", LONG), *(Law("gaussian", Fraction(s)) for s in SIGMAS)]
BITS = 512
ONE = 1 << BITS


def total_of(table: Digits | None, masses: list[tuple[int, int]], rest: object) -> None:
    """The pieces of the columns add up to the masses, every cut lies in [0, 1]."""
    assert isinstance(rest, exact_digits.Rest)
    cuts = real_cuts(masses, rest, BITS)
    low, high = [0] * len(cuts), [0] * len(cuts)
    for c, (lo, hi) in enumerate(cuts):
        assert 0 <= lo <= hi <= ONE
        low[c] += ONE - hi
        high[c] += ONE - lo
        low[rest.alias[c]] += lo
        high[rest.alias[c]] += hi
        assert rest.floor[c] == min(lo >> (BITS - 56), (1 << 56) - 1)
    for (least, most), lo, hi in zip(masses, low, high, strict=True):
        assert lo <= most
        assert hi >= least
        assert hi - lo < 1 << (BITS - 300)


def units_of(counts: tuple[int, ...], columns: tuple[bytes, bytes]) -> None:
    found: Counter[int] = Counter()
    for c, (cut, alias) in enumerate(zip(*columns, strict=True)):
        found[alias] += cut + 1
        found[c] += 255 - cut
    assert found[exact_digits.SPECIAL] == 256 * len(counts) - sum(counts) > 0
    assert [found[i] for i in range(len(counts))] == list(counts)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_columns_have_the_exact_masses(law: Law) -> None:
    table = law.table
    assert isinstance(table, Digits)
    units_of(table.first_counts, exact_digits.integer_columns(table.first_counts))
    total_of(table, table.first_masses(BITS), table.first_rest)
    if isinstance(table, Laplace) and table.shift:
        units_of(table.second_counts, table.second)
        total_of(table, table.second_masses(BITS), table.second_rest)
        if table.low:
            total_of(table, table.whole_masses(BITS), table.second_whole)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_laws_are_those_of_the_reference(law: Law) -> None:
    """Enclosures of both meet, masses and thresholds included."""
    table, reference = law.table, reference_of(law)

    def meet(ours: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> None:
        for (lo, hi), (low, high) in zip(ours, theirs, strict=True):
            assert lo <= high
            assert low <= hi
            assert hi - lo < 1 << (BITS - 300)

    meet(table.first_law(BITS), list(reference.first_law(BITS)))
    meet(table.first_masses(BITS), reference.masses("first", BITS))
    if table.shift:
        assert reference.shift == table.shift
        meet(table.second_law(BITS), list(reference.second_law(BITS)))
        meet(table.second_masses(BITS), reference.masses("second", BITS))


def chances(table: Laplace, bits: int) -> dict[tuple[int, int], mpmath.mpf]:
    """Return P(second digit, cleared bits) of a lane, from both tables and thresholds,
    for laws of few low bits."""
    law: Counter[tuple[int, int]] = Counter()
    special = mpmath.mpf(table.second_units) / 2**13
    for d, count in enumerate(table.second_counts[: table.outcomes]):
        law[d, 0] += mpmath.mpf(count) / 2**13
    tops = [mpmath.mpf(lo) / 2**bits for lo, _ in table.top(bits)] if table.low else []
    chance = [b - a for a, b in zip([mpmath.mpf(0), *tops], tops, strict=False)]
    none = 1 - sum(chance)
    for d in range(table.outcomes):
        rest = mpmath.mpf(table.second_masses(bits)[d][0]) / 2**bits / table.outcomes
        law[d, 0] += special * none * rest
        whole = mpmath.mpf(table.whole_masses(bits)[d][0]) / 2**bits / table.outcomes
        for mask, p in zip(table.masks, chance, strict=True):
            law[d, mask] += special * p * whole
    return law


@pytest.mark.parametrize("t", ["11", "100", "320", "321", "1000", "2560"])
def test_the_parts_add_up_to_the_discrete_laplace(t: str) -> None:
    """All of the second stage by enumeration: the probability of every value of a
    block, from counts, cuts and thresholds, with fair low bits."""
    table = exact_digits.laplace(Fraction(t))
    with mpmath.workprec(300):
        q = mpmath.exp(-1 / (mpmath.mpf(table.t.numerator) / table.t.denominator))
        lower: Counter[int] = Counter()
        for (d, mask), p in chances(table, BITS).items():
            for m in range(1 << table.low):
                lower[d << table.low | m & ~mask] += p / 2**table.low
        block = q ** (1 << table.shift)
        first = table.first_law(BITS)
        for v in (-20, -2, -1, 0, 1, 7, 62):
            high = mpmath.mpf(first[v + 64][0]) / 2**BITS
            for low in range(0, 1 << table.shift, max(1, (1 << table.shift) // 37)):
                size = (~v if v < 0 else v) * (1 << table.shift) + low
                size += v < 0
                true = (1 - q) / (1 + q) * q**size
                assert abs(high * lower[low] / true - 1) < mpmath.mpf(2) ** -200
        assert 0 < block < 1


@pytest.mark.parametrize("t", ["2561", "1000000", str(2**40)])
def test_corrections_make_the_bits_independent(t: str) -> None:
    """Some c_k is 1 with probability c; the first thresholds and the copies give every
    set of bits the product of its bits' chances."""
    table = exact_digits.laplace(Fraction(t))
    r = table.low
    with mpmath.workprec(400):
        scale = mpmath.mpf(table.t.numerator) / table.t.denominator
        one = [mpmath.tanh(mpmath.mpf(2) ** k / (2 * scale)) for k in range(r)]
        some = [mpmath.mpf(lo) / 2**BITS for lo, _ in table.corrections(BITS)]
        some.append(mpmath.mpf(0))
        special = mpmath.mpf(table.second_units) / 2**13
        top = [mpmath.mpf(lo) / 2**BITS * special for lo, _ in table.top(BITS)]
        for a, b in zip(top, some[-2::-1], strict=True):
            assert abs(a - b) < mpmath.mpf(2) ** -300
        rng = random.Random(3)
        for _ in range(50):
            bits = sorted(rng.sample(range(r), 3), reverse=True)
            # the highest, then each the highest of a copy below the one before it,
            # and a copy with none: any k >= limit says nothing
            chance = some[bits[0]] - some[bits[0] + 1]
            for above, k in zip(bits, [*bits[1:], None], strict=False):
                copies = (some[k] - some[k + 1]) if k is not None else 1 - some[0]
                below = 1 - some[0]
                for i in range(above):
                    below /= 1 - one[i]  # of bits from `above` on, all clear
                chance *= copies / below
            true = mpmath.mpf(1)
            for k in range(r):
                true *= one[k] if k in bits else 1 - one[k]
            assert abs(chance / true - 1) < mpmath.mpf(2) ** -200


def test_a_mass_that_cannot_be_told_from_one_is_refused() -> None:
    one = 1 << 256
    with pytest.raises(AssertionError, match="too near 1"):
        real_columns(lambda bits: [(one - 1, one + 1)] * 4)


def test_the_tail_of_a_small_gaussian() -> None:
    """64 + k by inversion of exact sums, on either half of a uniform."""
    law = Gaussian(Fraction(87, 10))
    weight = [mpmath.exp(-(mpmath.mpf(m) ** 2) / (2 * 8.7**2)) for m in range(64, 500)]
    for share in (0.0001, 0.3, 0.499, 0.5001, 0.9, 0.99999):
        prefix = int(mpmath.mpf(share) * 2**128)
        raw = (prefix >> 64).to_bytes(8, "little") + (prefix & (2**64 - 1)).to_bytes(
            8, "little"
        )
        value = law.tail(0, 0, 0, lambda k, raw=raw: raw)
        part = 2 * (share - 0.5) if share >= 0.5 else 2 * share
        k = 0
        while mpmath.fsum(weight[k + 1 :]) / mpmath.fsum(weight) > part:
            k += 1
        assert value == (64 + k if share >= 0.5 else -64 - k)
