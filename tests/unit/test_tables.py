"""Kernel tables: floors, roundings, hat domination and alias masses."""

import math
import pickle
import random
from collections import Counter
from fractions import Fraction

import mpmath
import pytest

from fastdp._digits import GAUSSIAN_DIGIT
from fastdp._digits import laplace as laplace_digits
from fastdp._tables import gaussian_law, gaussian_table
from fastdp.exceptions import ParameterError
from tests.reference.interval import exp_minus

LONG = Fraction(random.Random(1).getrandbits(2200) | 1, 3**1380)
RNG = random.Random(7)
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
    LONG,
    *(Fraction(10 ** RNG.uniform(-3, 16)) for _ in range(20)),
]


def nearest(value: mpmath.mpf) -> float:
    """The double nearest to a number known to many more bits."""
    with mpmath.workprec(53):
        return float(+value)


def left_edges(sigma: Fraction, j: int) -> list[Fraction]:
    """Upper bounds of the largest weight of blocks 0..30, from the reference."""
    edges = [Fraction(1, 2) if j == 0 else Fraction(1)]
    for h in range(1, 31):
        _, hi = exp_minus(Fraction(h << j) ** 2 / (2 * sigma**2), 300)
        edges.append(Fraction(hi, 2**300))
    return edges


def tail_weight(sigma: Fraction, j: int) -> Fraction:
    """An upper bound of f(M) / (2**j (1 - exp(-M/sigma**2))), from the reference."""
    first = 31 << j
    _, hi = exp_minus(Fraction(first) ** 2 / (2 * sigma**2), 300)
    _, ratio = exp_minus(first / sigma**2, 300)
    return Fraction(hi, ((1 << 300) - ratio) << j)


@pytest.mark.parametrize("sigma", SIGMAS, ids=float)
def test_gaussian_hat_dominates_and_is_the_lowest_that_does(sigma: Fraction) -> None:
    table = gaussian_table(sigma)
    j = table.j
    assert sigma < 4 * 2**j
    assert j == 0 or sigma >= 2 * 2**j
    kind = "narrow" if sigma < 1024 else "wide"
    assert table.kind == kind
    assert len(table.n) == 32
    assert sum(table.n) == 8192
    assert min(table.n) >= 1
    unit = Fraction(table.c)
    weights = left_edges(sigma, j)
    for n, weight in zip(table.n[:31], weights, strict=True):
        assert n * unit >= weight
    tail = tail_weight(sigma, j)
    assert Fraction(table.tail) >= max(tail, Fraction(1, 2**100))
    assert table.tail <= max(2.0**-100, float(tail) * (1 + 1e-9))
    assert table.n[31] * unit >= tail
    lower = unit * (1 - Fraction(1, 2**50))
    needed = sum(max(1, math.ceil(weight / lower)) for weight in [*weights, tail])
    assert needed > 8192


@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(3), Fraction(37), 300])
def test_gaussian_hat_dominates_every_value(sigma: Fraction) -> None:
    sigma = Fraction(sigma)
    table = gaussian_table(sigma)
    for m in range(31 << table.j):
        weight = 0.5 if m == 0 else math.exp(-float(Fraction(m * m) / (2 * sigma**2)))
        assert table.n[m >> table.j] * table.c >= weight * (1 - 1e-14)


@pytest.mark.parametrize("sigma", SIGMAS, ids=float)
def test_gaussian_selection_has_the_exact_masses(sigma: Fraction) -> None:
    table = gaussian_table(sigma)
    assert len(table.ap) == len(table.alias) == 32
    drawn = Counter(table.split(selector, 0)[0] for selector in range(8192))
    assert [drawn[h] for h in range(32)] == list(table.n)
    # The top three bits of the selector are unused.
    for selector in range(0, 8192, 97):
        assert table.split(selector | 0xE000, 0) == table.split(selector, 0)
    heights = [lo + 256 * hi for lo, hi in zip(table.n_lo, table.n_hi, strict=True)]
    assert heights == list(table.n)


@pytest.mark.parametrize("sigma", SIGMAS, ids=float)
def test_gaussian_doubles_and_acceptance(sigma: Fraction) -> None:
    table = gaussian_table(sigma)
    assert table.i2 == float(1 / (2 * sigma**2))
    s = float(sigma)
    if s < 5000:
        top = int(40 * s) + 2
        mass = 0.5 + math.fsum(math.exp(-((m / s) ** 2) / 2) for m in range(1, top))
    else:
        mass = s * math.sqrt(math.pi / 2)
    expected = mass / (8192 * 2**table.j * table.c)
    assert table.acceptance == pytest.approx(expected, rel=1e-12)
    assert 0.8 < table.acceptance <= 1


def test_gaussian_split_follows_the_layouts() -> None:
    narrow = gaussian_table(Fraction(10))  # j = 2
    word = 0b101 << 29 | 0b10 << 1 | 1
    assert narrow.split(0, word)[1:] == (0b10, 1, 0b101 << 26, 29)
    wide = gaussian_table(Fraction(2**40))  # j = 39
    assert wide.split(0, 1 << 31 | 1, 3 << 62)[1:] == (3 << 37, 1, 1 << 30, 31)


def test_tables_are_cached_by_the_exact_parameter_and_can_be_pickled() -> None:
    table = gaussian_table(Fraction(10))
    assert gaussian_table(Fraction(20, 2)) is table
    assert gaussian_table(Fraction(10.1)) != gaussian_table(Fraction(101, 10))
    assert pickle.loads(pickle.dumps(table)) == table
    assert gaussian_table.cache_info().maxsize is not None
    assert laplace_digits(Fraction(20, 2)) is laplace_digits(Fraction(10))


def test_digits_draw_the_small_sigmas_and_the_hat_the_others() -> None:
    assert gaussian_law(GAUSSIAN_DIGIT).shift == 0
    assert gaussian_law(GAUSSIAN_DIGIT + Fraction(1, 10**9)).j == 2


@pytest.mark.parametrize("value", [0, -1, Fraction(9, 10**7), 2**55 + 1])
def test_scales_outside_the_range_are_refused(value: Fraction) -> None:
    with pytest.raises(ParameterError, match="scale must be in"):
        laplace_digits(Fraction(value))


@pytest.mark.parametrize("value", [0, -1, Fraction(999, 10**6), 2**55 + 1])
def test_sigmas_outside_the_range_are_refused(value: Fraction) -> None:
    with pytest.raises(ParameterError, match="sigma must be in"):
        gaussian_law(Fraction(value))
