"""SubsetSelection: the reference on the same words, reports, figures, choice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.exceptions import CalibrationError, DTypeError, ParameterError
from fastdp.testing import FixedStream
from tests.differential import local_layout as layout
from tests.privacy.streams import KeyStream
from tests.reference import subsets

SS = fastdp.SubsetSelection
KEY = bytes(range(3, 35))
UNIT = 2**64


def words(call: _core.Call, chunk: int) -> Iterator[int]:
    """Return the words of 32 bits of a chunk, without an end."""
    for unit in itertools.count():
        raw = call.keystream(chunk, 4096 * unit, 4096)
        yield from np.frombuffer(raw, "<u4").tolist()


@pytest.mark.rest
@pytest.mark.parametrize(
    ("d", "k"),
    [
        (2, 1),
        (3, 2),
        (8, 3),
        (9, 8),
        (100, 27),
        (128, 127),
        (70, 1),
        (257, 1),
        (1000, 500),
        (16385, 300),
    ],
)
@pytest.mark.parametrize("p", [None, 1 - 2.0**-50], ids=["least", "sure"])
def test_rows_are_those_of_the_reference(d: int, k: int, p: float | None) -> None:
    truth = Fraction(p) if p else Fraction(-(-UNIT * k // d) + 10**15, UNIT)
    n = 1100 if d < 100 else 1030
    labels = (np.arange(n) * 7 % d).astype(np.uint32)
    labels[:3] = 0, d - 1, d // 2
    expected: dict[str, np.ndarray] = {}
    for machine, call in layout.each_machine(KEY):
        cipher = machine.split()[1]
        if cipher not in expected:
            rows = []
            for chunk in (5, 6):
                source = words(call, chunk)
                for own in labels[1024 * (chunk - 5) : 1024 * (chunk - 4)].tolist():
                    rows.append(subsets.row(own, d, k, int(truth * UNIT), source))
            expected[cipher] = np.frombuffer(b"".join(rows), np.uint8).reshape(n, -1)
        out = np.full((n, -(-d // 8)), 7, np.uint8)
        _core.fill_subsets(call, truth, d, k, labels, out, 5)
        assert (out == expected[cipher]).all(), machine


def test_surplus_words_are_drawn_again() -> None:
    """Range 2**24 - 1: the first word's product has its low half in the surplus."""
    d, k = 2**24, 1
    surplus = 2**32 % (d - 1)
    inverse = pow(d - 1, -1, 2**32)
    low = surplus - 1
    redrawn, kept = low * inverse % 2**32, surplus * inverse % 2**32
    tape = np.zeros((1, 4096), np.uint8)
    for word, taken in ((redrawn, 12345), (kept, kept)):
        given = np.array([2**32 - 1, 2**32 - 1, word, 12345], "<u4")
        tape[0, :16] = given.view(np.uint8)
        call = _core.Call(fastdp.testing.TapeStream(tape))
        out = np.zeros((1, d // 8), np.uint8)
        _core.fill_subsets(call, Fraction(1, 2), d, k, np.zeros(1, np.uint32), out)
        expected = (taken * (d - 1)) >> 32
        assert np.flatnonzero(np.unpackbits(out)).tolist() == [expected or d - 1]


def test_surplus_words_are_drawn_again_for_marks() -> None:
    """The first number's product has its low half in the surplus, in a row of marks."""
    d, k = 16383, 256
    word = (2**32 % (d - k) - 1) * pow(d - k, -1, 2**32) % 2**32
    drawn = np.random.default_rng(5).integers(0, 2**32, 1024, np.uint32)
    drawn[:3] = 2**32 - 1, 2**32 - 1, word
    source = iter(drawn.tolist())
    expected = subsets.row(9, d, k, UNIT // 2, source)
    assert next(source) == drawn[k + 3]
    call = _core.Call(fastdp.testing.TapeStream(drawn.view(np.uint8).reshape(1, -1)))
    out = np.zeros((1, 2048), np.uint8)
    _core.fill_subsets(call, Fraction(1, 2), d, k, np.array([9], np.uint32), out)
    assert out.tobytes() == expected


@pytest.mark.parametrize("row", [0, 9, 15])
@pytest.mark.parametrize("kept", [False, True])
def test_surplus_words_are_drawn_again_among_eight(row: int, kept: bool) -> None:
    """A word of one of 24 rows is surplus, or just not."""
    d, k, n = 100, 27, 24
    word = (2**32 % (d - k) - 1 + kept) * pow(d - k, -1, 2**32) % 2**32
    drawn = np.random.default_rng(row).integers(0, 2**32, 1024, np.uint32)
    drawn[: n * (k + 2)].reshape(n, k + 2)[:, 1] = 2**32 - 1  # no row has its own
    drawn[row * (k + 2) + 2] = word
    source = iter(drawn.tolist())
    labels = (np.arange(n) * 13 % d).astype(np.uint32)
    rows = [subsets.row(own, d, k, UNIT // 2, source) for own in labels.tolist()]
    tape = drawn.view(np.uint8).reshape(1, -1)
    for machine, _ in layout.each_machine(KEY):
        call = _core.Call(fastdp.testing.TapeStream(tape))
        out = np.zeros((n, 13), np.uint8)
        _core.fill_subsets(call, Fraction(1, 2), d, k, labels, out)
        assert out.tobytes() == b"".join(rows), machine


@pytest.mark.parametrize(
    ("epsilon", "d", "k", "variance"), [(1, 10, 2, 2.82), (1, 100, 27, 3.59),
                                        (3, 100, 4, 0.196)]
)  # fmt: skip
def test_figures_of_the_table(epsilon: int, d: int, k: int, variance: float) -> None:
    m = SS.from_epsilon(epsilon, categories=d)
    assert m.size == k
    assert m.standard_error(1) ** 2 == pytest.approx(variance, rel=3e-3)
    others = [
        SS.from_epsilon(epsilon, categories=d, size=i) for i in range(1, min(d, 60))
    ]
    assert min(o.standard_error(1) for o in others) == m.standard_error(1)
    for kind in (fastdp.RandomizedResponse, fastdp.UnaryEncoding):
        other: Any = kind.from_epsilon(epsilon, categories=d)
        assert other.standard_error(1) > m.standard_error(1)


def test_probabilities_of_an_example() -> None:
    m = SS.from_epsilon(1, categories=6, size=2)
    assert float(m.p) == pytest.approx(0.576117, abs=1e-6)
    assert float(m._support.cross) == pytest.approx(0.284777, abs=1e-6)


def test_a_set_of_one_is_randomized_response() -> None:
    for epsilon in (0.5, 3):
        one = SS.from_epsilon(epsilon, categories=7, size=1)
        other = fastdp.RandomizedResponse.from_epsilon(epsilon, categories=7)
        assert one.p == other.p
        assert one.event() == other.event()


def test_the_best_oracle_knows_it() -> None:
    for epsilon, d in ((1, 10), (1, 30), (3, 60)):
        m = fastdp.best_frequency_oracle(epsilon, categories=d, users=1000)
        assert isinstance(m, SS)
        mean = Fraction(1, d)
        for other in (
            fastdp.RandomizedResponse.from_epsilon(epsilon, categories=d),
            fastdp.UnaryEncoding.from_epsilon(epsilon, categories=d),
            fastdp.LocalHashing.from_epsilon(epsilon, categories=d),
        ):
            least = m.standard_error(1, frequency=mean)
            assert least < other.standard_error(1, frequency=mean)


@pytest.mark.parametrize("epsilon", [1e-9, 0.01, 1, 40, 1000, 10**300])
@pytest.mark.parametrize("d", [2, 3, 100, 2**24])
def test_best_sizes(epsilon: float, d: int) -> None:
    m = SS.from_epsilon(epsilon, categories=d)
    assert 1 <= m.size < d
    assert m.epsilon() <= epsilon * (1 + 1e-15)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3)])
def test_shapes_names_and_others(shape: tuple[int, ...]) -> None:
    m = SS.from_epsilon(1, categories=["a", "b", "c", "d", "e"], other="c")
    x = np.full(shape, "b") if shape else "b"
    rows = m.release(x)
    assert rows.shape == (*shape, 1)
    assert (np.bitwise_count(rows) == m.size).all()
    assert m.estimate(rows).users == math.prod(shape)


@pytest.mark.parametrize("d", [10, 16])
def test_rows_that_are_no_sets_of_the_size_are_users_alone(d: int) -> None:
    m = SS(Fraction(3, 4), size=3, categories=d)
    rows = m.release(np.arange(200_000) % d)  # more than a block
    bad = np.array([[255, 255], [0, 0], [224, 1], [128, 0], [240, 0]], np.uint8)
    if d == 16:
        bad[2] = 255, 1
    mixed = m.estimate(np.concatenate([rows[:7], bad, rows[7:], bad]))
    known = m.aggregator().add(rows)
    assert (m.aggregator().add(rows)._tally == known._tally).all()
    assert (m.aggregator().add(np.r_[bad, rows])._tally == known._tally).all()
    assert known._tally.sum() == 3 * len(rows)
    assert mixed.users == len(rows) + 10


def test_workers_and_values_outside() -> None:
    m = SS.from_epsilon(2, categories=40, other=3)
    x = np.random.default_rng(2).integers(-3, 45, 20_000)
    one = m.release(x, stream=KeyStream(KEY))
    assert (m.release(x, stream=KeyStream(KEY), workers=3) == one).all()
    held = np.where((x < 0) | (x >= 40), 3, x)
    assert (m.release(held, stream=KeyStream(KEY)) == one).all()


def test_estimates_over_400_runs() -> None:
    """Fixed words: within 4 standard errors, variances as stated."""
    m, runs, users = SS.from_epsilon(1, categories=10), 400, 1000
    held = np.repeat([0, 1, 2, 8], [500, 300, 190, 10])
    rows = m.release(np.tile(held, (runs, 1)), stream=FixedStream("subsets"))
    counts = np.array([m.estimate(row).counts for row in rows])
    truth = np.bincount(held, minlength=10)
    planned = [m.standard_error(users, frequency=int(n) / users) for n in truth]
    assert (np.abs(counts.mean(axis=0) - truth) < 4 * np.array(planned) / 20).all()
    assert counts.std(axis=0, ddof=1) == pytest.approx(planned, rel=0.15)


@pytest.mark.slow
def test_estimates_over_2000_runs() -> None:
    """Fresh words, 20 numbers looked at, bounds of 7 deviations: below 1e-9."""
    m, runs, users = SS.from_epsilon(1, categories=10), 2000, 1000
    held = np.repeat([0, 1, 2, 8], [500, 300, 190, 10])
    rows = m.release(np.tile(held, (runs, 1)))
    counts = np.array([m.estimate(row).counts for row in rows])
    truth = np.bincount(held, minlength=10)
    planned = np.array(
        [m.standard_error(users, frequency=int(n) / 1000) for n in truth]
    )
    away = np.abs(counts.mean(axis=0) - truth) / planned * runs**0.5
    ratio = counts.var(axis=0, ddof=1) / planned**2
    print(away.max(), ratio, ratio.mean())
    assert (away < 7).all()
    assert (np.abs(ratio - 1) < 7 * (2 / runs) ** 0.5).all()


def test_wrong_parameters() -> None:
    with pytest.raises(ParameterError, match="p must be above 2/5"):
        SS(Fraction(2, 5), size=2, categories=5)
    with pytest.raises(ParameterError, match="size must be in"):
        SS(0.9, size=5, categories=5)
    with pytest.raises(DTypeError, match="size must be an int"):
        SS(0.9, size=2.0, categories=5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="categories must be in"):
        SS.from_epsilon(1, categories=2**24 + 1)
    with pytest.raises(CalibrationError, match="above 1/2"):
        SS.from_epsilon(1e-20, categories=4, size=2)
