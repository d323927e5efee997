"""Resolvers of rational thresholds: against fractions, from the definition."""

import random
from collections.abc import Callable
from fractions import Fraction

import pytest

from fastdp._exact import SECOND
from fastdp._exact_bits import UNIFORM, bernoulli, patterns, response
from tests.reference.boundary import blocks, near, real, spelled

PROBABILITIES = [
    Fraction(1e-300),
    Fraction(1, 2**80),
    Fraction(1, 2**64),
    Fraction(1, 1000),
    Fraction(1, 3),
    Fraction(2, 3),
    Fraction(1, 2) - Fraction(1, 2**30),
    Fraction(1, 2) - Fraction(1, 3**200),
    1 - Fraction(1, 2**64),
    1 - Fraction(1, 7**90),
]
CATEGORIES = [2, 3, 16, 17, 1024, 65536, 65537, 2**20 + 7, 2**31 - 1]


class UndecidedError(Exception):
    """The known bits do not decide the value."""


def no_more(k: int) -> bytes:
    raise UndecidedError(k)


# --- Bernoulli ----------------------------------------------------------------------


@pytest.mark.parametrize("p", PROBABILITIES, ids=float)
def test_pattern_on_either_side_of_the_cut(p: Fraction) -> None:
    table = patterns(p)
    resolve = bernoulli(table)
    for column in (0, 1, 7, 128, 254, 255):
        cut = Fraction(table.cut[column], table.whole)
        if cut in (0, 1):
            continue
        for offset, word, _, block, _ in near(lambda c=cut: real(c), (64,), 9):
            answer = resolve((word, column, 0), block)
            assert answer in (column, table.alias[column])
            if offset:
                below = offset < 0
                assert answer == (table.alias[column] if below else column)


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1)])
def test_a_certain_answer_needs_no_bits(p: Fraction) -> None:
    resolve = bernoulli(patterns(p))
    for column in range(256):
        assert resolve((2**64 - 1, column, 0), no_more) == 255 * p


def test_a_dyadic_cut_is_not_below_itself() -> None:
    table = patterns(Fraction(1, 2))
    assert set(table.cut) == {0}
    assert bernoulli(table)((0, 77, 0), no_more) == 77
    table = patterns(Fraction(1, 4))  # of 255 the mass is 2**-8
    word = int(Fraction(table.cut[255], table.whole) * 2**64)
    assert bernoulli(table)((word, 255, 0), no_more) == 255
    assert bernoulli(table)((word - 1, 255, 0), no_more) == table.alias[255]


# --- k-ary response -----------------------------------------------------------------


def shift(w: Fraction, v: Fraction, theta: Fraction, categories: int) -> int:
    """The definition, for reals of which all bits are known."""
    return 0 if w < theta else 1 + int(v * (categories - 1))


def truth(categories: int) -> Fraction:
    """A multiple of 2**-64 above 1/k."""
    return Fraction(-(-(2**64) // categories) * 3 // 2, 2**64)


def streams(
    first: Callable[[int], bytes], second: Callable[[int], bytes]
) -> Callable[[int], bytes]:
    return lambda k: first(k) if k < SECOND else second(k)


@pytest.mark.parametrize("k", CATEGORIES)
def test_shift_of_random_words(k: int) -> None:
    rng = random.Random(k)
    resolve, vbits = response(truth(k), k), 32 if k <= 2**16 else 64
    for i in range(300):
        known = (32 + 256, vbits + 256)
        full = [rng.getrandbits(n) for n in known]
        (w, first) = spelled(full[0], known[0], 32)
        (v, second) = spelled(full[1], known[1], vbits, SECOND)
        flags = i & UNIFORM
        theta = Fraction(1, k) if flags else truth(k)
        answer = resolve((w, v, flags), streams(first, second))
        reals = [Fraction(a, 1 << n) for a, n in zip(full, known, strict=True)]
        assert answer == shift(reals[0], reals[1], theta, k)
        assert 0 <= answer < k


@pytest.mark.parametrize("k", CATEGORIES)
@pytest.mark.parametrize("flags", [0, UNIFORM])
def test_shift_on_either_side_of_theta(k: int, flags: int) -> None:
    theta = Fraction(1, k) if flags else truth(k)
    resolve = response(truth(k), k)
    for offset, word, _, block, known in near(lambda: real(theta), (32,), 4):
        answer = resolve((word, 1, flags), streams(block, blocks(1)))
        if offset < 0:
            assert answer == 0
        elif offset > 0 or (theta * 2**known).denominator == 1:
            assert answer > 0


@pytest.mark.parametrize("k", CATEGORIES)
def test_shift_on_either_side_of_a_border_of_two_categories(k: int) -> None:
    resolve, vbits = response(truth(k), k), 32 if k <= 2**16 else 64
    least = (1 << 32) - 1  # W is above theta
    for category in sorted(c for c in {1, 2, k // 2, k - 2} if 0 < c < k - 1):
        edge = Fraction(category, k - 1)
        for extra in (0, 1, 3):
            known = vbits + 128 * extra
            full = int(edge * 2**known)
            for offset in (-1, 1):
                v, block = spelled(full + offset, known, vbits, SECOND)
                answer = resolve((least, v, 0), streams(no_more, block))
                assert answer == 1 + category - (offset < 0)
            if (edge * 2**known).denominator == 1:
                v, block = spelled(full, known, vbits, SECOND)
                answer = resolve((least, v, 0), streams(no_more, block))
                assert answer == 1 + category


@pytest.mark.parametrize("k", CATEGORIES)
def test_first_and_last_category(k: int) -> None:
    resolve, vbits = response(Fraction(1, 2), k), 32 if k <= 2**16 else 64
    top = (1 << 32) - 1
    assert resolve((top, 0, 0), streams(no_more, no_more)) == 1
    ones = (1 << vbits) - 1
    assert resolve((top, ones, 0), streams(no_more, no_more)) == k - 1
    assert resolve((0, ones, 0), streams(no_more, no_more)) == 0


def test_a_certain_truth_is_never_shifted() -> None:
    resolve = response(Fraction(1), 5)
    assert resolve(((1 << 32) - 1, (1 << 32) - 1, 0), no_more) == 0
    assert resolve(((1 << 32) - 1, 0, UNIFORM), no_more) == 1


def test_shift_reads_the_blocks_of_its_number() -> None:
    seen: list[int] = []

    def block(k: int) -> bytes:
        seen.append(k)
        return b"\xff" * 16

    cell = (1 << 32) // 3
    assert response(Fraction(1, 2), 3)((cell, 0, UNIFORM), block) == 1
    assert seen == [0]
    seen.clear()
    assert response(Fraction(1, 2), 4)(((1 << 32) - 1, cell, 0), block) == 2
    assert seen == [SECOND]
