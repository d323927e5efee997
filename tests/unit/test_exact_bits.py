"""Resolvers of rational thresholds: against fractions, from the definition."""

import random
from fractions import Fraction

import pytest

from fastdp._exact import Block
from tests.reference.boundary import near, real, spelled
from tests.reference.exact_bits import UNIFORM, bernoulli, patterns, response, word_bits

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


def truth(categories: int) -> Fraction:
    """A multiple of 2**-64 above 1/k."""
    return Fraction(-(-(2**64) // categories) * 3 // 2, 2**64)


def rate(categories: int, flags: int) -> Fraction:
    """Steps in the unit interval."""
    own = (categories - 1) / (1 - truth(categories))
    return Fraction(categories) if flags else own


def split(number: int, known: int, categories: int) -> tuple[int, int, Block]:
    """The first words and the blocks of a uniform of `known` bits, then zeros."""
    bits = word_bits(categories)
    prefix, block = spelled(number, known, bits + 64)
    return prefix >> 64, prefix % 2**64, block


@pytest.mark.parametrize("k", CATEGORIES)
def test_step_of_random_words(k: int) -> None:
    rng = random.Random(k)
    resolve, known = response(truth(k), k), word_bits(k) + 64 + 256
    for i in range(300):
        u, flags = rng.getrandbits(known), i & UNIFORM
        first, second, block = split(u, known, k)
        expected = min(int(Fraction(u, 2**known) * rate(k, flags)), k - 1)
        assert resolve((first, second, flags), block) == expected


@pytest.mark.parametrize("k", CATEGORIES)
@pytest.mark.parametrize("flags", [0, UNIFORM])
def test_step_on_either_side_of_a_border(k: int, flags: int) -> None:
    resolve, c = response(truth(k), k), rate(k, flags)
    for j in sorted(j for j in {1, 2, k // 2, k - 2, k - 1} if 1 <= j < k):
        for extra in (0, 1, 3):
            known = word_bits(k) + 64 + 128 * extra
            edge = j / c * 2**known
            for offset in (-2, 0, 1):  # at -1 the next bits decide
                word = -(-edge.numerator // edge.denominator) + offset
                first, second, block = split(word, known, k)
                assert resolve((first, second, flags), block) == j - (offset < 0)


@pytest.mark.parametrize("k", CATEGORIES)
def test_first_and_last_step(k: int) -> None:
    top = 2 ** word_bits(k) - 1
    for flags in (0, UNIFORM):
        resolve = response(truth(k), k)
        assert resolve((0, 0, flags), no_more) == 0
        assert resolve((top, 2**64 - 1, flags), no_more) == k - 1


def test_a_certain_truth_stays() -> None:
    resolve = response(Fraction(1), 5)
    assert resolve((0, 0, 0), no_more) == 4
    assert resolve((0, 0, UNIFORM), no_more) == 0


def test_step_reads_the_blocks_in_turn() -> None:
    seen: list[int] = []

    def block(k: int) -> bytes:
        seen.append(k)
        return bytes([k and 255] * 16)

    third = (2**80 - 1) // 3  # of three uniform steps the first ends with its digits
    zero_one = (third >> 64, third % 2**64)
    assert response(Fraction(1, 2), 3)((*zero_one, UNIFORM), block) == 0
    assert seen == [0]
