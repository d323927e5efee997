"""Enclosures of the selection resolver against mpmath, and its choices."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import mpmath
import pytest

from fastdp._exact import Uniform
from tests.reference import exact_races, exact_selection


def within(low: int, value: Any, high: int, width: int) -> bool:
    # mpmath is right to 400 digits: an exact end may be off by that.
    little = mpmath.mpf(10) ** -90
    return bool(low <= value + little and value - little <= high) and (
        high - low <= width
    )


@pytest.mark.parametrize("bits", [1, 20, 64, 300, 900])
def test_logarithms_are_enclosed(bits: int) -> None:
    rng = random.Random(bits)
    with mpmath.workdps(400):
        for _ in range(60):
            num, den = (rng.getrandbits(rng.choice([3, 64, 900])) + 1 for _ in range(2))
            low, high = exact_races.log_ratio(num, den, bits)
            value = mpmath.log(mpmath.mpf(num) / den) * mpmath.mpf(2) ** bits
            assert within(low, value, high, 2), (num, den)


def test_logarithms_of_powers_of_two_and_of_one() -> None:
    assert exact_races.log_ratio(1, 1, 64)[0] <= 0 <= exact_races.log_ratio(1, 1, 64)[1]
    for power in (1, 63, 2200):
        low, high = exact_races.log_ratio(2**power, 1, 200)
        assert exact_races.log_ratio(1, 2**power, 200) == (-high, -low)


@pytest.mark.parametrize("bits", [5, 64, 400])
def test_cosines_are_enclosed(bits: int) -> None:
    rng = random.Random(bits)
    with mpmath.workdps(400):
        for _ in range(60):
            nbits = rng.choice([1, 5, 63, 191])
            a = rng.choice([0, 1, 2**nbits - 1, 2**nbits, rng.randint(0, 2**nbits)])
            low, high = exact_races.cos_quarter(a, nbits, bits)
            angle = mpmath.pi / 2 * a / mpmath.mpf(2) ** nbits
            value = mpmath.cos(angle) * mpmath.mpf(2) ** bits
            assert within(low, value, high, 3), (a, nbits)


def noise_at(noise: str, u: Any, a: Any, sign: int) -> Any:
    values = {
        "laplace": lambda: -mpmath.log(u),
        "gumbel": lambda: -mpmath.log(-mpmath.log1p(-u)),
        "gaussian": lambda: (
            mpmath.sqrt(-2 * mpmath.log1p(-u)) * mpmath.cos(mpmath.pi / 2 * a)
        ),
    }
    return values[noise]() * (-1 if sign else 1)


@pytest.mark.parametrize("noise", ["laplace", "gumbel", "gaussian"])
def test_keys_are_enclosed_at_every_length(noise: Any) -> None:
    rng = random.Random(noise)
    with mpmath.workdps(300):
        for _ in range(25):
            word, second = (rng.getrandbits(64) >> rng.choice([0, 40]) for _ in (0, 1))
            tail = rng.randbytes(16)
            gap, weight = Fraction(rng.randint(-9, 99), 7), Fraction(rng.randint(1, 9))
            runner = exact_races.Runner.of(
                0, gap, weight, noise, (word, second), (lambda _, t=tail: t,) * 2
            )
            whole = int.from_bytes(tail[:8], "little") << 64
            whole |= int.from_bytes(tail[8:], "little")
            bits, first = (63, word >> 1) if noise == "laplace" else (64, word)
            u = mpmath.mpf(first << 128 | whole) / 2 ** (bits + 128)
            a = mpmath.mpf((second >> 1) << 128 | whole) / 2**191
            sign = (word if noise == "laplace" else second) & 1
            sign = sign if noise in ("laplace", "gaussian") else 0
            key = noise_at(noise, u, a, sign)
            key += (
                mpmath.log(weight.numerator)
                - mpmath.mpf(gap.numerator) / gap.denominator
            )
            for _ in range(2):
                (low, high), point = runner.bounds()
                scaled = key * mpmath.mpf(2) ** point
                assert low is None or low <= scaled
                assert high is None or scaled <= high
                runner.extend()


@pytest.mark.parametrize("noise", ["laplace", "gumbel", "gaussian"])
def test_ends_of_the_range_are_unbounded(noise: Any) -> None:
    def bounds(word: int, second: int = 0) -> tuple[int | None, int | None]:
        blocks = (lambda _: bytes(16),) * 2
        one = Fraction(1)
        return exact_races.Runner.of(
            0, Fraction(0), one, noise, (word, second), blocks
        ).bounds()[0]

    if noise in ("laplace", "gumbel"):
        assert bounds(0)[1] is None
    if noise == "laplace":
        assert bounds(1)[0] is None
    if noise == "gumbel":
        assert bounds(2**64 - 1)[0] is None
    if noise == "gaussian":
        assert bounds(2**64 - 1)[1] is None
        assert bounds(2**64 - 1, 1)[0] is None


def test_order_of_the_tree() -> None:
    assert exact_selection.order(3) == [0, 1, 2]
    assert exact_selection.order(18)[:4] == [0, 16, 1, 17]
    for n in (512, 513, 700, 1025):
        assert sorted(exact_selection.order(n)) == list(range(n))
    # Nodes 0 ... 16 of 512 are passed in the order 0, 16, 1, ...
    assert exact_selection.order(16 * 512 + 5)[512] == 16 * 512


def test_even_choices_read_on_at_a_boundary() -> None:
    assert exact_selection.even(3, 2**64 // 3, lambda _: bytes(16)) == 0
    assert exact_selection.even(3, 2**64 // 3, lambda _: b"\xff" * 16) == 1
    assert exact_selection.even(1, 5, lambda _: bytes(16)) == 0


def test_inversion_with_rational_boundaries() -> None:
    gaps, weights = [Fraction(0)] * 2, [Fraction(1, 3), Fraction(2, 3)]
    for tail, answer in ((bytes(16), 0), (b"\xff" * 16, 1)):
        assert (
            exact_selection.invert(gaps, weights, 2**64 // 3, lambda _, t=tail: t)
            == answer
        )
    # U is exactly 1/2, the boundary of equal weights: it belongs to the second.
    u = Uniform(1 << 63, 64, lambda _: bytes(16))
    assert exact_selection._place([(1 << 128, 1 << 128)] * 2, u) == 1
