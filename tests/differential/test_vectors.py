"""Codes of vectors and places in their order: every level against the reference."""

import hashlib

import numpy as np
import pytest

from fastdp import _core
from fastdp.mechanisms.local.local_hashing import REPORT
from fastdp.mechanisms.local.vector_response import _sizes
from tests.reference import vectors

SEEDS = [0, 1, 2**32, 2**64 - 1, 0x0123456789ABCDEF]


def word(code, seed, value, dimension):
    tally = np.zeros(dimension + 1, np.int64)
    code.sums(np.array([(seed, value)], REPORT), tally)
    return tally.tolist()


def test_sizes():
    """No rounding is near a half, so that every machine has this table."""
    table = _sizes()
    assert table.tolist() == vectors.sizes()
    digest = hashlib.sha256(table.astype("<i2").tobytes()).hexdigest()
    assert digest == "d277cb7eaa2663c245f248070eee645b5ed66b4471efe0b81156bf6896809025"


@pytest.mark.parametrize(("words", "dimension"), [(2, 1), (7, 3), (3, 900), (2, 2100)])
def test_words_and_values(level, words, dimension):
    table, code = _sizes(), _core.VectorCode(_sizes(), words, dimension)
    rng = np.random.default_rng(dimension)
    x = rng.normal(size=(len(SEEDS), dimension))
    x = np.rint(x / np.linalg.norm(x, axis=1)[:, None] * 2**24).astype(np.int32)
    ranks = rng.integers(0, words, len(SEEDS))
    reports = np.array([(seed, 0) for seed in SEEDS], REPORT)
    code.clients(x, ranks, reports)
    for row, rank, report in zip(x, ranks.tolist(), reports.tolist(), strict=True):
        expected = vectors.value(table.tolist(), report[0], words, row.tolist(), rank)
        assert report[1] == expected
    for seed in SEEDS[3:]:
        for j, expected in enumerate(
            vectors.code(table.tolist(), seed, words, dimension)
        ):
            assert word(code, seed, j, dimension) == [*expected, 1]


def test_fine_cells(level):
    """Words of all 32 bits that occur in a long code; those of the tail among them."""
    dimension = 20_000
    code = _core.VectorCode(_sizes(), 2, dimension)
    drawn = vectors.numbers(5, dimension, 2000)
    assert sum((w >> 16) % 2**15 < 128 for w in drawn) > 1
    table = _sizes().tolist()
    expected = [vectors.entry(table, w) for w in drawn]
    assert word(code, 5, 1, dimension)[:2000] == expected


@pytest.mark.parametrize("words", [2, 5, 300])
def test_equal_products_go_by_number(level, words):
    code = _core.VectorCode(_sizes(), words, 4)
    reports = np.zeros(words, REPORT)
    code.clients(np.zeros((words, 4), np.int32), np.arange(words), reports)
    assert reports["value"].tolist() == list(range(words))


def test_largest_products():
    """Of the longest vector along the largest entries: no product overflows."""
    d, words = 100_000, 65536
    largest = int(_sizes().max()) * d**0.5 * (2**24 + d**0.5)
    assert (largest + 1) * 65536 < 2**63
    code = _core.VectorCode(_sizes(), 2, d)
    x = np.full((1, d), round(2**24 / d**0.5), np.int32)
    reports = np.zeros(1, REPORT)
    code.clients(x, np.zeros(1, np.int64), reports)
    sums = [sum(word(code, 0, j, d)[:-1]) for j in range(2)]
    assert reports["value"][0] == int(sums[1] > sums[0])
    assert words == 65536


def test_reports_of_no_word_count_nothing():
    code = _core.VectorCode(_sizes(), 5, 3)
    assert word(code, 1, 5, 3) == word(code, 1, 2**32 - 1, 3) == [0, 0, 0, 0]
