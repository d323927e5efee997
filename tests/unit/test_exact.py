"""The integer resolver against mpmath, the reference and words made at thresholds."""

import random
from fractions import Fraction

import mpmath
import pytest

from fastdp._exact import Uniform, exp_neg
from tests.reference.boundary import real
from tests.reference.exact_digits import SECOND, flip
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
