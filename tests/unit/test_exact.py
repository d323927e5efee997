"""The integer resolver against mpmath, the reference and words made at thresholds."""

import math
import random
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
)
from fastdp._tables import gaussian_table
from tests.reference import discrete_gaussian
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
