"""The 128-bit step of inversion against the integer reference on the same bits.

Its reals are put next to the boundaries between candidates, to 2**-128 and farther.
"""

import struct
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from fastdp import _core, _selection
from fastdp._selection import Choice, Weights
from fastdp._stream import CallKey, Stream
from fastdp.exceptions import FastDPError
from fastdp.testing import TapeStream
from tests.differential.test_selection import exact_row, send_onward
from tests.reference import selection as reference

LARGEST = float(np.finfo(float).max)


def choices() -> Iterator[Choice]:
    rng = np.random.default_rng(9)
    for rate in (Fraction(1), Fraction(1, 3), Fraction(22, 7) / 10**9, Fraction(10**6)):
        yield Choice(rate, rng.normal(0, 1, (1, 9)) / float(rate))
        yield Choice(rate, rng.integers(-3, 3, (1, 9)))
        wide = rng.uniform(0, 1, (1, 12)) * 10.0 ** rng.integers(-12, 3, (1, 12))
        yield Choice(rate, wide / float(rate))
        powers = 2.0 ** rng.integers(-60, 60, 8) * rng.integers(0, 4, 8)
        yield Choice(rate, np.log(1 + powers[None]), Weights.numbers(1 / (1 + powers)))
    far = [LARGEST, -LARGEST, np.inf, np.nan, -np.inf, 0.0, 5e-324, LARGEST]
    yield Choice(Fraction(1), np.array([far]))
    yield Choice(Fraction(1, 2**900), np.array([[2.0**901, -(2.0**900), 3e-300]]))
    yield Choice(Fraction(2**900), np.array([[2.0**-901, -(2.0**-900), 5e-324, 0.0]]))
    edge = np.array([[2**63 - 1, 2**63 - 2, -(2**63), 2**62, 2**63 - 900]])
    yield Choice(Fraction(1, 100), edge)
    yield Choice(Fraction(1, 2**62), edge)
    exponents = np.array([0.0, -3000, -12000, -100])
    steep = Weights(
        np.full(4, 0.5),
        exponents,
        None,
        12001.0,
    )
    yield Choice(Fraction(1), np.array([[0.0, 2000.5, 8200.25, 70.0]]), steep)
    small = Weights.numbers(np.array([5e-324, -0.0, 3e-310, 1.0]))
    yield Choice(Fraction(1), np.array([[744.0, 800, 712, 0]]), small)
    yield Choice(Fraction(1), np.linspace(-2, 2, 520).reshape(1, 520))
    yield Choice(Fraction(1, 5), rng.integers(0, 30, (1, 1100)))
    yield Choice(Fraction(1), np.full((1, 7), np.nan))


CHOICES = list(choices())


def boundaries(choice: Choice) -> list[int]:
    """Floors of 2**128 times the cumulative probabilities."""
    scores, weights = exact_row(choice, 0)
    there = [
        i
        for i in reference.tree_order(len(scores))
        if scores[i] is not None and weights[i] > 0
    ]
    if not there:
        return [2**128 * k // len(scores) for k in range(1, len(scores))]
    with mpmath.workdps(100):
        most = max(scores[i] for i in there)
        sums = [mpmath.mpf(0)]
        for i in there:
            x = choice.rate * (scores[i] - most)
            w = mpmath.mpf(weights[i].numerator) / weights[i].denominator
            sums.append(
                sums[-1] + w * mpmath.exp(mpmath.mpf(x.numerator) / x.denominator)
            )
        edges = [int(2**128 * s / sums[-1]) for s in sums[1:-1]]
    return sorted({e for e in edges if 0 < e < 2**128 - 1})


class Reals(Stream):
    """A tape whose draws begin with these 128 bits."""

    def __init__(self, reals: list[int]) -> None:
        blocks = np.random.default_rng(len(reals)).integers(
            0, 2**64, size=(_core.SELECT_CHUNK, 2), dtype=np.uint64
        )
        main = np.zeros((1, 8 * _core.SELECT_CHUNK), np.uint8)
        words = main.reshape(-1).view("<u8")
        words[: len(reals)] = np.array([r >> 64 for r in reals], np.uint64)
        blocks[: len(reals), 0] = np.array([r % 2**64 for r in reals], np.uint64)
        extension = np.ascontiguousarray(blocks).view(np.uint8).reshape(1, -1)
        self._tape = TapeStream(main, extension)

    def _next_call(self) -> CallKey:
        return self._tape._next_call()


def around(choice: Choice, sizes: list[int]) -> list[int]:
    edges = boundaries(choice)
    if choice.scores.size > 100:  # the reference takes its time
        middle = len(edges) // 2
        edges, sizes = edges[middle : middle + 1], sizes[:: len(sizes) - 1]
    reals = [e + d for e in edges for size in sizes for d in (-size, size)]
    return [r for r in reals if 0 <= r < 2**128]


def check(choice: Choice, reals: list[int]) -> None:
    call = _core.Call(Reals(reals))
    scores, weights = exact_row(choice, 0)
    expected = []
    for row, real in enumerate(reals):

        def more(k: int, row: int = row) -> bytes:
            return call.extension(0, row, k)

        expected.append(
            reference.inverse(scores, weights, choice.rate, real >> 64, more)
        )
    rows = Choice(choice.rate, np.repeat(choice.scores, len(reals), 0), choice.weights)
    got = _selection.inverse(rows, 1, Reals(reals), 1)[:, 0]
    assert got.tolist() == expected


def slow(choice: Choice) -> bool:
    """Whether the reference takes seconds: a long row, or weights of long numbers."""
    wide = choice.weights is not None and choice.weights.exponent is not None
    return choice.scores.size > 1000 or wide


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(i, marks=pytest.mark.rest if slow(choice) else ())
        for i, choice in enumerate(CHOICES)
    ],
)
def test_reals_at_boundaries(index: int) -> None:
    choice = CHOICES[index]
    check(choice, around(choice, [0, 1, 2, 5, 2**9, 2**17, 2**24]))


@pytest.mark.parametrize("index", range(len(CHOICES)))
def test_what_128_bits_decide_does_not_reach_the_resolver(
    index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_onward(monkeypatch, 1.0, exact=False)
    choice = CHOICES[index]
    reals = around(choice, [2**36, 2**41, 2**50, 2**63])
    random = np.random.default_rng(3)
    count = 2 if choice.scores.size > 100 else 20
    reals += [int.from_bytes(random.bytes(16), "big") for _ in range(count)]
    check(choice, reals)


def test_weights_that_doubles_do_not_hold_go_to_the_resolver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thirds = Weights.of("weights", [Fraction(1, 3), Fraction(2, 3)], (1, 2), 1)
    assert thirds.exact is not None
    choice = Choice(Fraction(1), np.array([[0.0, 1.0]]), thirds)
    check(choice, around(choice, [2**40]))
    halves = Weights.of("weights", [Fraction(1, 2), 3], (1, 2), 1)
    assert halves.exact is None
    large = Weights.of("weights", np.array([2**53 + 1, 1]), (1, 2), 1)
    assert large.exact == [2**53 + 1, 1]
    send_onward(monkeypatch, exact=False)
    with pytest.raises(FastDPError, match="8,192 bits of precision do not decide"):
        check(choice, around(choice, [2**40]))


@pytest.mark.parametrize("k", [2, 5])
def test_choices_without_replacement(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every choice by the 128-bit step is that of the kernels."""
    sets = [c for c in CHOICES if c.scores.shape[1] >= 9] + [CHOICES[-1]]
    many = [Choice(c.rate, np.repeat(c.scores, 30, 0), c.weights) for c in sets]
    reals = [
        int.from_bytes(np.random.default_rng(i).bytes(16), "big") for i in range(30 * k)
    ]
    plain = [_selection.inverse(c, k, Reals(reals), 1).tolist() for c in many]
    send_onward(monkeypatch, 1.0, exact=False)
    for choice, answer in zip(many, plain, strict=True):
        assert _selection.inverse(choice, k, Reals(reals), 1).tolist() == answer


@pytest.mark.parametrize("n", [4097, 5000, 300_001])
@pytest.mark.parametrize("kind", ["doubles", "integers", "weights"])
def test_long_rows(n: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of long rows are read in another way; the last block is shorter."""
    rng = np.random.default_rng(n)
    rows = 1 if n > 5000 else 8
    weights = Weights.numbers(rng.random(n)) if kind == "weights" else None
    scores = rng.integers(-4, 4, (rows, n))
    scores[:, -1] = 12  # often the choice
    choice = Choice(Fraction(1), scores * (1 if kind == "integers" else 1.0), weights)
    reals = [int.from_bytes(rng.bytes(16), "big") for _ in range(4 * rows)]
    plain = _selection.inverse(choice, 4, Reals(reals), 1)
    send_onward(monkeypatch, 1.0, exact=False)
    assert (_selection.inverse(choice, 4, Reals(reals), 1) == plain).all()


RATES = [
    Fraction(1, 3),
    Fraction(1),
    Fraction(1, 2**900),
    Fraction(2**900 - 1),
    Fraction(10**30, 7),
]


@pytest.mark.parametrize("rate", RATES)
def test_the_first_bits_of_a_rate(rate: Fraction) -> None:
    law = _core.Selection(rate).structure()
    nearest, high, low, place = struct.unpack_from("=d8xQQi", law)
    assert nearest == rate.numerator / rate.denominator
    bits = high << 64 | low
    assert 2**127 <= bits < 2**128
    unit = Fraction(2) ** (place - 128)
    assert bits * unit <= rate < (bits + 1) * unit
