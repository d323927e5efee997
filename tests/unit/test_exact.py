"""The integer resolver against mpmath, the reference and words made at thresholds."""

import math
import random
from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest

from fastdp._exact import (
    SECOND,
    Uniform,
    exp_neg,
    flip,
    gaussian,
    gaussian_shift,
    gaussian_tail,
    laplace,
    laplace_shift,
    laplace_wide,
)
from fastdp._tables import gaussian_table
from tests.reference import discrete_gaussian, discrete_laplace
from tests.reference.boundary import blocks, near, real, spelled
from tests.reference.interval import exp_minus

LONG = Fraction(random.Random(1).getrandbits(2200) | 1, 3**1380)
DIRECT = [
    Fraction(1e-6),
    Fraction(1e-3),
    Fraction(1, 50),
    Fraction(1, 3),
    Fraction(1),
    Fraction(10),
    Fraction(0.1) * 7777,
    Fraction(4000),
    Fraction(4096),
]
WIDE = [
    Fraction(4096) + Fraction(1, 10**30),
    Fraction(10**6),
    Fraction(2**40 + 1, 3),
    Fraction(2**55),
]
SIGMAS = [
    Fraction(1, 1000),
    Fraction(3, 10),
    Fraction(1),
    Fraction(17, 10),
    Fraction(3999, 1000),
    Fraction(4),
    Fraction(1024) - Fraction(1, 10**20),
    Fraction(1024),
    Fraction(10**6),
    Fraction(2**22),
    Fraction(2**40),
    Fraction(2**55),
]


class UndecidedError(Exception):
    """The known bits do not decide the value."""


def no_more(k: int) -> bytes:
    raise UndecidedError(k)


# --- Enclosures ---------------------------------------------------------------

EXPONENTS = [
    Fraction(0),
    Fraction(1, 10**40),
    Fraction(1e-300),
    Fraction(1, 2**55),
    Fraction(1, 3),
    Fraction(1),
    Fraction(10.5),
    Fraction(88) - Fraction(1, 7),
    Fraction(1000),
    Fraction(10**6),
    Fraction(10**13),
    LONG,
    LONG / 10**6,
    LONG * 10**5,
]


@pytest.mark.parametrize("bits", [1, 2, 8, 64, 128, 192, 500, 3000])
def test_exp_neg_encloses_the_exponential(bits: int) -> None:
    rng = random.Random(bits)
    some = [Fraction(rng.getrandbits(60), rng.getrandbits(54) + 1) for _ in range(60)]
    for r in EXPONENTS + some:
        lo, hi = exp_neg(r.numerator, r.denominator, bits)
        with mpmath.workprec(bits + 2400):
            exact = mpmath.ldexp(mpmath.exp(-real(r)), bits)
            assert 0 <= lo <= exact <= hi <= 1 << bits
        assert hi - lo <= 2


def test_reference_exponential_encloses_too() -> None:
    for r in EXPONENTS:
        for bits in (64, 256, 700):
            lo, hi = exp_minus(r, bits)
            with mpmath.workprec(bits + 2400):
                exact = mpmath.ldexp(mpmath.exp(-real(r)), bits)
                assert 0 <= lo <= exact <= hi
            assert hi - lo <= 2


@pytest.mark.parametrize("t", [*DIRECT, LONG], ids=float)
def test_flip_encloses_the_probability_of_a_negative_value(t: Fraction) -> None:
    for bits in (64, 192, 1000):
        lo, hi = flip(t.numerator, t.denominator, bits)
        with mpmath.workprec(bits + 2400):
            q = mpmath.exp(-real(1 / t))
            assert lo <= mpmath.ldexp(q / (1 + q), bits) <= hi
        assert hi - lo <= 3


@pytest.mark.parametrize("sigma", SIGMAS, ids=float)
def test_gaussian_tail_encloses_the_tail_weight(sigma: Fraction) -> None:
    j = gaussian_shift(sigma)
    first = 31 << j
    for g in (0, 1, 5 << j):
        for bits in (128, 400):
            lo, hi = gaussian_tail(sigma, j, g, bits)
            with mpmath.workprec(1200):
                s2 = real(sigma) ** 2
                weight = mpmath.exp(-(mpmath.mpf(first) ** 2 + g * g) / (2 * s2))
                exact = weight / (-mpmath.expm1(-first / s2) * 2**j)
                assert lo <= mpmath.ldexp(exact, bits) <= hi
            assert hi - lo <= 8


def test_shifts_are_those_of_the_layouts() -> None:
    for j in range(1, 44):
        assert laplace_shift(Fraction(2 ** (11 + j))) == j
        assert laplace_shift(2 ** (12 + j) - Fraction(1, 9)) == j
    assert laplace_shift(Fraction(2**55)) == 44
    assert gaussian_shift(Fraction(4) - Fraction(1, 10**30)) == 0
    for j in range(1, 54):
        assert gaussian_shift(Fraction(2 ** (1 + j))) == j
        assert gaussian_shift(2 ** (2 + j) - Fraction(1, 9)) == j
    assert gaussian_shift(Fraction(2**55)) == 54


# --- Uniform ------------------------------------------------------------------


def test_extension_reads_words_little_endian_and_bits_from_the_top() -> None:
    u = Uniform(0b101, 3, lambda k: bytes([k] + [0] * 7 + [0] * 7 + [0x80]), first=7)
    u.extend()
    assert (u.prefix, u.nbits) == (0b101 << 128 | 7 << 64 | 1 << 63, 131)


def test_extension_reads_each_block_once_and_in_order() -> None:
    seen: list[int] = []

    def block(k: int) -> bytes:
        seen.append(k)
        return k.to_bytes(16, "little")

    u = Uniform(1, 1, block, SECOND)
    for _ in range(5):
        u.extend()
    assert seen == [SECOND + i for i in range(16)]
    assert u.nbits == 1 + 16 * 128
    expected = 1
    for k in seen:
        expected = expected << 128 | k << 64
    assert u.prefix == expected


def test_below_at_a_dyadic_bound_is_strict() -> None:
    def half(bits: int) -> tuple[int, int]:
        return 1 << (bits - 1), 1 << (bits - 1)

    assert not Uniform(1, 1, no_more).below(half)
    assert Uniform(0, 1, no_more).below(half)


# --- Discrete Laplace ---------------------------------------------------------


def laplace_edge(t: Fraction, k: int, negative: bool) -> Callable[[], mpmath.mpf]:
    """The k-th threshold, from the formulas of the law and not from the code."""

    def edge() -> mpmath.mpf:
        step = real(1 / t)
        q = mpmath.exp(-step)
        if negative:
            return mpmath.exp(-(k + 1) * step) / (1 + q)
        return (q + mpmath.exp(-k * step)) / (1 + q)

    return edge


@pytest.mark.parametrize("t", DIRECT, ids=float)
def test_laplace_equals_the_reference_on_random_words(t: Fraction) -> None:
    rng = random.Random(float(t))
    for nbits, count in ((64, 250), (32, 150), (8, 60)):
        for _ in range(count):
            word = rng.getrandbits(nbits)
            assert laplace(t, word, nbits, blocks(word)) == discrete_laplace.sample(
                t, word, nbits, blocks(word)
            )


@pytest.mark.parametrize("t", DIRECT, ids=float)
def test_laplace_does_not_depend_on_how_many_bits_were_known(t: Fraction) -> None:
    rng = random.Random(float(t))
    for _ in range(40):
        full = rng.getrandbits(8 + 256) >> rng.choice((0, 0, 60, 150))
        values = []
        for prefix in (8, 8 + 128, 8 + 256):
            word, block = spelled(full, 8 + 256, prefix)
            values.append(laplace(t, word, prefix, block))
        # Beyond the 264 bits the blocks differ, which these words do not reach
        # but for those with a threshold in the last cell: none here.
        assert len(set(values)) == 1


@pytest.mark.parametrize("t", DIRECT, ids=float)
def test_laplace_at_the_ends_of_the_words(t: Fraction) -> None:
    ones, zeros = b"\xff" * 16, bytes(16)
    for nbits in (8, 32, 64):
        full = (1 << nbits) - 1
        assert laplace(t, full, nbits, lambda k: ones) == 0
        for count in (0, 1, 4):
            # The first set bit comes after `count` blocks of zeros.
            def late(k: int, count: int = count) -> bytes:
                return zeros if k < count else ones

            value = laplace(t, 0, nbits, late)
            assert value == discrete_laplace.sample(t, 0, nbits, late)


def test_laplace_finds_a_negative_value_of_probability_below_2_to_minus_1442() -> None:
    t = Fraction(1, 1000)
    for zeros, value in ((10, 0), (11, -1), (22, -1), (23, -2)):

        def late(k: int, zeros: int = zeros) -> bytes:
            return bytes(16) if k < zeros else b"\xff" * 16

        assert laplace(t, 0, 64, late) == value


@pytest.mark.parametrize("t", [*DIRECT, LONG], ids=float)
def test_laplace_on_either_side_of_a_threshold(t: Fraction) -> None:
    known = 0
    for k in sorted({1, 2, 7, int(t) + 1, int(5 * t) + 1}):
        for negative in (False, True):
            edges = [laplace_edge(t, k + i, negative) for i in (1, 0, -1)]
            gap = bits_between(edges, t)
            more = min(gap // 128, 24)
            for offset, *arguments, bits in near(edges[1], (8, 32, 64), more):
                value = laplace(t, *arguments)
                assert value == discrete_laplace.sample(t, *arguments)
                if offset and bits > gap + 4:
                    known += 1
                    level = k if offset < 0 else k - 1
                    assert value == (~level if negative else level)
    assert known > 0 or t == DIRECT[0]


def bits_between(edges: list[Callable[[], mpmath.mpf]], t: Fraction) -> int:
    """Bits before the least distance of three neighbouring thresholds."""
    with mpmath.workprec(600 + min(int(16 / t), 20_000)):
        below, edge, above = (f() for f in edges)
        least = min(edge - below, above - edge)
        return 10**6 if least == 0 else -math.floor(mpmath.log(least, 2))


@pytest.mark.parametrize("t", DIRECT[2:], ids=float)
def test_laplace_on_either_side_of_theta(t: Fraction) -> None:
    theta = laplace_edge(t, 0, True)
    gap = bits_between([laplace_edge(t, 1, True), theta, laplace_edge(t, 0, False)], t)
    for offset, *arguments, bits in near(theta, (8, 32, 64), gap // 128):
        value = laplace(t, *arguments)
        assert value == discrete_laplace.sample(t, *arguments)
        if bits > gap + 4:
            assert offset >= 0 or value == -1
            assert offset <= 0 or value >= math.floor(float(t) * gap * math.log(2)) - 1


@pytest.mark.parametrize("t", [Fraction(1, 3), Fraction(1), Fraction(17, 5)], ids=float)
def test_laplace_law_by_enumeration_of_prefixes(t: Fraction) -> None:
    """Every probability lies between the decided mass and that plus the undecided."""
    nbits = 11
    decided: dict[int, int] = {}
    undecided = 0
    for word in range(1 << nbits):
        try:
            value = laplace(t, word, nbits, no_more)
        except UndecidedError:
            undecided += 1
        else:
            decided[value] = decided.get(value, 0) + 1
    assert undecided < 90  # the cells that hold a threshold
    q = math.exp(-1 / t)
    for x in range(-60, 61):
        mass = (1 - q) / (1 + q) * q ** abs(x) * 2**nbits
        count = decided.get(x, 0)
        # A region loses at most a cell at either end.
        assert count <= mass + 1e-9
        assert mass <= count + 2


@pytest.mark.parametrize("t", WIDE, ids=float)
def test_wide_laplace_equals_the_reference_on_random_words(t: Fraction) -> None:
    rng = random.Random(float(t))
    for _ in range(400):
        word1, word2 = rng.getrandbits(32), rng.getrandbits(64)
        if rng.random() < 0.2:  # acceptance near its threshold
            word2 &= (1 << 52) - 1
        arguments = t, word1, word2, blocks(word1)
        assert laplace_wide(*arguments) == discrete_laplace.sample_wide(*arguments)


@pytest.mark.parametrize("t", WIDE, ids=float)
def test_wide_laplace_on_either_side_of_a_step_of_h(t: Fraction) -> None:
    j = laplace_shift(t)
    for k in (1, 2, 9000, 40_000):

        def edge(k: int = k) -> mpmath.mpf:
            return mpmath.exp(-real((k << j) / t))

        for extra in (0, 1, 2):
            nbits = 160 + 128 * extra
            with mpmath.workprec(1200):
                full = int(mpmath.floor(mpmath.ldexp(edge(), nbits)))
            for offset in (-1, 1):
                word, block = spelled(full + offset, nbits, 32, SECOND)
                value = laplace_wide(t, word, 0, block)
                assert value == (k if offset < 0 else k - 1) << j


@pytest.mark.parametrize("t", WIDE, ids=float)
def test_wide_laplace_on_either_side_of_acceptance(t: Fraction) -> None:
    j = laplace_shift(t)
    top = (1 << j) - 1
    for low, sign in ((top, 1), (top, 0), (top // 2, 1), (0, 1)):

        def edge(m: int = low + sign) -> mpmath.mpf:
            return -mpmath.expm1(-real(m / t))

        for case in near(edge, (63 - j,)):
            word2 = (case.word << j | low) << 1 | sign
            value = laplace_wide(t, 1 << 31, word2, case.block)
            if case.offset < 0:
                assert value is None
            elif case.offset > 0:
                magnitude = math.floor(float(t) / 2**j * math.log(2)) << j | low
                assert value == (~magnitude if sign else magnitude)


def test_wide_laplace_with_nothing_to_reject_reads_no_further_bits() -> None:
    assert laplace_wide(Fraction(10**6), 1 << 31, 0, no_more) == 2707 << 8


# --- Discrete Gaussian --------------------------------------------------------


@pytest.mark.parametrize("sigma", SIGMAS, ids=float)
def test_gaussian_equals_the_reference_on_random_words(sigma: Fraction) -> None:
    table = gaussian_table(sigma)
    rng = random.Random(float(sigma))
    for _ in range(300):
        word1, word2 = rng.getrandbits(32), rng.getrandbits(64)
        selector = rng.getrandbits(16)
        block = blocks(word1)
        value = gaussian(table, *table.split(selector, word1, word2), block)
        assert value == discrete_gaussian.sample(
            sigma, table, selector, word1, word2, block
        )


@pytest.mark.parametrize("sigma", SIGMAS, ids=float)
def test_gaussian_tail_block_equals_the_reference(sigma: Fraction) -> None:
    table = gaussian_table(sigma)
    rng = random.Random(float(sigma))
    # Every selector of block 31 that draws its own column.
    selector = 31 << 8 | 255
    vbits = table.split(selector, 0)[4]
    with mpmath.workprec(400):
        edge = mpmath.mpf(table.tail) / (table.n[31] * mpmath.mpf(table.c))
    accepted = 0
    for i in range(120):
        # V log-uniform around the acceptance threshold, all bits known.
        full = int(mpmath.ldexp(edge * 2 ** rng.uniform(-3, 1), vbits + 256))
        v, v_block = spelled(full, vbits + 256, vbits)
        u_block = blocks(i)

        def block(k: int, v_block=v_block, u_block=u_block) -> bytes:
            return (v_block if k < SECOND else u_block)(k)

        sign = rng.getrandbits(1)
        word1 = (v << 1 | sign) if table.kind == "wide" else v << (table.j + 1) | sign
        assert word1 >> 32 == 0
        value = gaussian(table, 31, 0, sign, v, vbits, block)
        assert value == discrete_gaussian.sample(
            sigma, table, selector, word1, 0, block
        )
        if value is not None:
            accepted += 1
            assert abs(value) >= 31 << table.j
            assert value < 0 or sign == 0
    if table.tail > 2.0**-100:
        assert accepted > 20
    else:
        assert accepted == 0 or sigma > 4


@pytest.mark.parametrize("sigma", SIGMAS, ids=float)
def test_gaussian_on_either_side_of_acceptance(sigma: Fraction) -> None:
    table = gaussian_table(sigma)
    j = table.j
    vbits = table.split(0, 0)[4]
    top = (1 << j) - 1
    for h, low in ((0, 0), (0, 1 & top), (0, top), (1, 0), (3, top // 2), (7, top)):
        m = h << j | low

        def edge(h: int = h, m: int = m) -> mpmath.mpf:
            s2 = real(sigma) ** 2
            weight = (
                mpmath.exp(-(mpmath.mpf(m) ** 2) / (2 * s2)) if m else mpmath.mpf(0.5)
            )
            return weight / (table.n[h] * mpmath.mpf(table.c))

        for offset, *arguments, _ in near(edge, (vbits, 8)):
            for sign in (0, 1):
                value = gaussian(table, h, low, sign, *arguments)
                if offset < 0:
                    assert value == (-m if sign else m)
                elif offset > 0:
                    assert value is None


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(17, 10), Fraction(5)])
def test_gaussian_law_by_enumeration_of_prefixes(sigma: Fraction) -> None:
    """Accepted masses are proportional to the pmf, within the undecided cells."""
    table = gaussian_table(sigma)
    vbits, values = 6, 1 << table.j
    lower: dict[int, float] = {}
    upper: dict[int, float] = {}
    for h in range(31):
        for low in range(values):
            for sign in (0, 1):
                weight = table.n[h] / 8192 / values / 2 / 2**vbits
                for v in range(1 << vbits):
                    try:
                        x = gaussian(table, h, low, sign, v, vbits, no_more)
                    except UndecidedError:
                        m = h << table.j | low
                        x = -m if sign else m
                        upper[x] = upper.get(x, 0.0) + weight
                    else:
                        if x is not None:
                            lower[x] = lower.get(x, 0.0) + weight
    # P(trial gives x) = f(x) / (2 * 8192 * 2**j c), the same constant for all x;
    # both signs give 0, each with half of f(0).
    constant = 2 * 8192 * values * table.c
    for x in range(-20, 21):
        mass = math.exp(-(x**2) / (2 * float(sigma) ** 2)) / constant
        low_mass = lower.get(x, 0.0)
        assert low_mass <= mass * (1 + 1e-12)
        assert mass <= (low_mass + upper.get(x, 0.0)) * (1 + 1e-12)


@pytest.mark.parametrize("sigma", [Fraction(3), Fraction(3999, 1000), Fraction(4000)])
def test_gaussian_tail_law(sigma: Fraction) -> None:
    """P(G = g) times the acceptance threshold found by bisection is f(M + g)."""
    table = gaussian_table(sigma)
    first = 31 << table.j
    s2 = float(sigma) ** 2
    ratio = math.exp(-first / s2)
    for share in (0.9, 0.3, 0.02):
        full = int(share * 2**128)
        _, u_block = spelled(full, 128, 0, SECOND)
        g = math.floor(-math.log(share) * s2 / first)
        assert g < 5 << table.j

        low, high = 0, 1 << 128
        while high - low > 1:
            middle = (low + high) // 2
            value = gaussian(table, 31, 0, 0, middle, 128, u_block)
            assert value in (None, first + g)
            low, high = (low, middle) if value is None else (middle, high)
        threshold = low / 2**128
        mass = table.n[31] * threshold * (1 - ratio) * ratio**g
        expected = math.exp(-((first + g) ** 2) / (2 * s2)) / (table.c * 2**table.j)
        assert mass == pytest.approx(expected, rel=1e-9)
