"""Selections against the integer reference on the same bits, at every level."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from fastdp import _core, _ranking, _selection
from fastdp._core import LEVELS
from fastdp._selection import Choice, Noise, Weights
from fastdp._stream import CallKey, Stream
from fastdp.exceptions import FastDPError
from fastdp.testing import TapeStream
from tests.differential.layout import Keyed
from tests.reference import selection as reference
from tests.reference.exact_selection import weight_of

KEY = bytes(range(7, 39))
NOISES = ("gumbel", "laplace", "gaussian")
CHUNK = _core.SELECT_CHUNK


def levels() -> list[str]:
    return [level for level in LEVELS if _core.limit_cpu(level) == level]


def send_onward(
    patch: pytest.MonkeyPatch,
    tolerance: float = 0.0,
    *,
    fine: bool = True,
    exact: bool = True,
) -> None:
    """Leave more to the exact steps, as `Selection.widen` does."""
    law = Choice.law

    def widened(choice: Choice, noise: Noise | None = None) -> _core.Selection:
        return law(choice, noise).widen(tolerance, fine=fine, exact=exact)

    patch.setattr(Choice, "law", widened)


@pytest.fixture(autouse=True)
def restored() -> Any:
    yield
    _core.limit_cpu(None)


# --- the bits of a call ------------------------------------------------------------


def word_of(call: _core.Call, draw: int, shift: int = 0) -> int:
    chunk, trial = divmod(draw, CHUNK)
    unit = call.keystream(chunk + shift, trial // 128 * 1024, 1024)
    return int.from_bytes(unit[trial % 128 * 8 :][:8], "little")


def more_of(call: _core.Call, draw: int, shift: int = 0) -> Callable[[int], bytes]:
    chunk, trial = divmod(draw, CHUNK)
    return lambda k: call.extension(chunk + shift, trial, k)


def exact(value: Any) -> Fraction | None:
    """What a score counts as."""
    if isinstance(value, int):
        return Fraction(value)
    if math.isnan(value) or value == -math.inf:
        return None
    return Fraction(min(value, np.finfo(float).max))


def exact_row(choice: Choice, row: int) -> tuple[list[Any], list[Fraction]]:
    n = choice.scores.shape[1]
    scores = [exact(v) for v in choice.scores[row].tolist()]
    return scores, [weight_of(choice, row, i) for i in range(n)]


def inverse_row(choice: Choice, call: _core.Call, row: int, k: int) -> list[int]:
    scores, weights = exact_row(choice, row)
    taken: list[int] = []
    for j in range(k):
        draw = row * k + j
        word, more = word_of(call, draw), more_of(call, draw)
        taken.append(reference.inverse(scores, weights, choice.rate, word, more, taken))
    return taken


def race_row(
    choice: Choice, noise: str, call: _core.Call, row: int, first: int = 0
) -> list[int]:
    scores, weights = exact_row(choice, row)
    n = len(scores)
    draws = [first + row * n + i for i in range(n)]
    words = [(word_of(call, d), word_of(call, d, 2**31)) for d in draws]
    return reference.race(
        scores,
        weights,
        choice.rate,
        noise,
        words,
        lambda i: (more_of(call, draws[i]), more_of(call, draws[i], 2**31)),
    )


# --- candidates -----------------------------------------------------------------


def small_sets(rows: int, seed: int) -> list[Choice]:
    """Small sets of every kind: gaps to 1e4, ties, huge and tiny rates, weights."""
    rng = np.random.default_rng(seed)
    sets = []
    for rate in (Fraction(1), Fraction(1, 3), Fraction(7, 10**9), Fraction(10**6)):
        for n in (1, 2, 3, 7, 17):
            ties = rng.integers(0, 3, (rows, n))
            sets.append(Choice(rate, ties))
            wide = rng.uniform(0, 1, (rows, n)) * 10.0 ** rng.integers(-9, 5, (rows, n))
            sets.append(Choice(rate, wide))
            hard = wide.copy()
            for value in (np.nan, np.inf, -np.inf, 5e-324, 1.7e308, -1.7e308):
                hard[rng.uniform(size=hard.shape) < 0.1] = value
            sets.append(Choice(rate, hard))
            weights = rng.integers(0, 4, (rows, n)) * 2.0 ** rng.integers(
                -900, 900, (rows, n)
            )
            sets.append(Choice(rate, ties, Weights.numbers(weights.reshape(-1))))
    return sets


SETS = small_sets(5, 1)
LARGE = [
    Choice(Fraction(1), np.random.default_rng(2).normal(0, 3, (2, 700))),
    Choice(Fraction(1, 2), np.random.default_rng(3).integers(-9, 9, size=(2, 1100))),
    Choice(Fraction(3), np.random.default_rng(4).normal(0, 9, (2, 513))),
]


def inverse_at_all_levels(choice: Choice, stream: Callable[[], Stream], k: int) -> None:
    call = _core.Call(stream())
    rows = choice.scores.shape[0]
    answers = [inverse_row(choice, call, r, k) for r in range(rows)]
    for level in levels():
        _core.limit_cpu(level)
        got = _selection.inverse(choice, k, stream(), 1)
        assert got.tolist() == answers, level


def races_at_all_levels(
    choice: Choice, noise: str, stream: Callable[[], Stream]
) -> None:
    call = _core.Call(stream())
    rows = choice.scores.shape[0]
    orders = [race_row(choice, noise, call, r) for r in range(rows)]
    for level in levels():
        _core.limit_cpu(level)
        got = _selection.race(choice, noise, stream(), 1)
        assert got.tolist() == [order[0] for order in orders], level
        if noise == "gumbel":
            ranks = _ranking.ranking(choice, choice.scores.shape[1], stream()).tolist()
            for order, rank in zip(orders, ranks, strict=True):
                assert rank[: len(order)] == order, level
                assert sorted(rank) == list(range(len(rank)))


@pytest.mark.parametrize("index", range(len(SETS)))
def test_small_sets_give_the_choices_of_the_reference(index: int) -> None:
    choice = SETS[index]
    n = choice.scores.shape[1]
    for k in {1, n // 2 + 1, n}:
        inverse_at_all_levels(choice, lambda: Keyed(KEY), k)
    for noise in NOISES:
        races_at_all_levels(choice, noise, lambda: Keyed(KEY))


@pytest.mark.parametrize("n", [5, 33])
def test_any_doubles_are_weights_at_their_exact_values(n: int) -> None:
    """Those below the normal numbers, and both zeros, where scores make up for them."""
    values = np.resize([5e-324, 0.0, 3e-310, -0.0, 2.0**-1022], n)
    choice = Choice(Fraction(1), np.resize([744.0, 9, 712, 9, 708], (3, n)))
    choice = Choice(choice.rate, choice.scores, Weights.numbers(values))
    inverse_at_all_levels(choice, lambda: Keyed(KEY), 3)
    races_at_all_levels(choice, "gumbel", lambda: Keyed(KEY))


@pytest.mark.parametrize("index", range(len(LARGE)))
def test_sets_of_several_blocks_give_the_choices_of_the_reference(index: int) -> None:
    inverse_at_all_levels(LARGE[index], lambda: Keyed(KEY), 5)
    for noise in ("laplace", "gumbel"):
        races_at_all_levels(LARGE[index], noise, lambda: Keyed(KEY))


# --- many selections, by a screen in doubles -----------------------------------------


def test_many_choices_by_inversion_are_those_of_the_reference() -> None:
    check_inverse(20_000)


@pytest.mark.parametrize("noise", NOISES)
def test_many_races_are_those_of_the_reference(noise: str) -> None:
    check_race(noise, 20_000)


@pytest.mark.slow
def test_a_million_choices_are_those_of_the_reference() -> None:
    check_inverse(1_000_000)
    for noise in NOISES:
        check_race(noise, 1_000_000)


def many(rows: int) -> Choice:
    rng = np.random.default_rng(rows)
    return Choice(Fraction(3, 2), rng.integers(-4, 4, (rows, 6)) + 0.25)


def words_of(call: _core.Call, count: int, shift: int = 0) -> np.ndarray:
    chunks = -(-count // CHUNK)
    raw = b"".join(call.keystream(c + shift, 0, 8 * CHUNK) for c in range(chunks))
    return np.frombuffer(raw, "<u8")[:count]


def check_inverse(rows: int) -> None:
    choice = many(rows)
    call = _core.Call(Keyed(KEY))
    weight = np.exp(1.5 * (choice.scores - choice.scores.max(1, keepdims=True)))
    parts = np.cumsum(weight, 1) / weight.sum(1, keepdims=True)
    u = words_of(call, rows)[:, None] * 2.0**-64
    expected = (parts <= u).sum(1)
    for row in np.flatnonzero(np.abs(parts[:, :-1] - u).min(1) < 1e-9).tolist():
        expected[row] = inverse_row(choice, call, row, 1)[0]
    for level in levels():
        _core.limit_cpu(level)
        got = _selection.inverse(choice, 1, Keyed(KEY), 2)[:, 0]
        assert (got == expected).all(), level


def noise_values(noise: str, words: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Return about the noise of words: within 1e-10, except near words 0 and 2**64."""
    u = (words.astype(float) + 0.5) * 2.0**-64
    if noise == "gumbel":
        return -np.log(-np.log1p(-u))
    if noise == "laplace":
        return np.where(words & np.uint64(1), 1, -1) * np.log(u)
    turn = np.cos(np.pi / 2 * (angles >> np.uint64(1)).astype(float) * 2.0**-63)
    signs = np.where(angles & np.uint64(1), -1, 1)
    return signs * np.sqrt(-2 * np.log1p(-u)) * turn


def check_race(noise: str, rows: int) -> None:
    choice = many(rows)
    call = _core.Call(Keyed(KEY))
    count = choice.scores.size
    words, angles = words_of(call, count), words_of(call, count, 2**31)
    keys = 1.5 * choice.scores + noise_values(noise, words, angles).reshape(-1, 6)
    expected = keys.argmax(1)
    best = np.sort(keys, 1)
    odd = (words.reshape(-1, 6) >> np.uint64(44) == 0).any(1)
    odd |= (~words.reshape(-1, 6) >> np.uint64(44) == 0).any(1)
    for row in np.flatnonzero((best[:, -1] - best[:, -2] < 1e-6) | odd).tolist():
        expected[row] = race_row(choice, noise, call, row)[0]
    for level in levels():
        _core.limit_cpu(level)
        got = _selection.race(choice, noise, Keyed(KEY), 2)
        assert (got == expected).all(), level


@pytest.mark.parametrize("noise", NOISES)
def test_rows_that_need_no_filling_up_race(noise: str) -> None:
    """Of whole vectors, none of whose candidates is marked as lost."""
    scores = np.random.default_rng(6).integers(-9, 9, (3, 16))
    for some in (scores, scores * 0.5):
        races_at_all_levels(Choice(Fraction(1), some), noise, lambda: Keyed(KEY))


def test_honest_words_need_no_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact step, which would hide what is wrong in the fast one, is idle."""
    send_onward(monkeypatch, exact=False)
    rng = np.random.default_rng(9)
    for n in (3, 16, 17, 300):
        for weights in (None, Weights.numbers(rng.uniform(0.1, 1, n))):
            for scores in (rng.normal(0, 9, (15, n)), rng.integers(-30, 9, (15, n))):
                choice = Choice(Fraction(1, 2), scores, weights)
                for level in levels():
                    _core.limit_cpu(level)
                    _selection.inverse(choice, 2, Keyed(KEY), 1)
                    for noise in NOISES:
                        _selection.race(choice, noise, Keyed(KEY), 1)


# --- the resolver at work all the time -----------------------------------------------


@pytest.mark.parametrize("fine", [True, False])
@pytest.mark.parametrize("tolerance", [1e-9, 1e-3, 10.0])
def test_sending_more_choices_to_the_resolver_changes_none(
    tolerance: float, fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the 128-bit step, that is, and past it to the resolver where that is off."""
    choices = [*SETS[::7], *LARGE[:1]]
    plain = [answers(choice) for choice in choices]
    send_onward(monkeypatch, tolerance, fine=fine)
    for choice, answer in zip(choices, plain, strict=True):
        assert answers(choice) == answer
    send_onward(monkeypatch, tolerance, fine=fine, exact=False)
    if fine:
        for choice in choices:
            _selection.inverse(choice, 1, Keyed(KEY), 1)
    elif tolerance > 1e-6:
        with pytest.raises(FastDPError, match="do not decide"):
            answers(choices[2])


def answers(choice: Choice) -> list[Any]:
    k = min(choice.scores.shape[1], 3)
    return [
        _selection.inverse(choice, k, Keyed(KEY), 1).tolist(),
        _ranking.ranking(choice, k, Keyed(KEY)).tolist(),
        *(_selection.race(choice, noise, Keyed(KEY), 1).tolist() for noise in NOISES),
    ]


# --- words at the boundaries -----------------------------------------------------


class Words(Stream):
    """A tape with these words, extension blocks from a fixed key."""

    def __init__(self, words: list[int], blocks: int = 0) -> None:
        chunks = -(-len(words) // CHUNK)
        main = np.zeros((chunks, 8 * CHUNK), np.uint8)
        flat = main.reshape(-1).view("<u8")
        flat[: len(words)] = np.array(words, np.uint64)
        rng = np.random.default_rng(blocks)
        extension = rng.integers(0, 256, (chunks, 16 * CHUNK), np.uint8)
        self._tape = TapeStream(main, extension)

    def _next_call(self) -> CallKey:
        return self._tape._next_call()


OFFSETS = [0, 1, 2, 3, *(1 << b for b in range(3, 40, 3))]


def around(word: int) -> list[int]:
    return [(word + d) % 2**64 for o in OFFSETS for d in (-o, o)]


BOUNDARY = [
    Choice(Fraction(1), np.array([[0.0, 1.0, 2.0, 2.0, -3.5]])),
    Choice(Fraction(1, 2), np.array([[5, 5, 5, 4, 0, -100, 5]])),
    Choice(Fraction(1, 7), np.array([[1e4, 9.9e3, np.nan, 1e4 - 1e-9, 0.0]])),
    Choice(
        Fraction(2),
        np.array([[0.5, 0.25, -30.0]]),
        Weights.of("weights", [Fraction(1, 3), Fraction(2, 7), 10**9], (1, 3), 1),
    ),
    Choice(Fraction(1), np.linspace(-4, 4, 600).reshape(1, 600)),
    Choice(Fraction(1), np.full((1, 5), np.nan)),
]


def boundaries(choice: Choice) -> list[int]:
    """Floors of 2**64 times the cumulative probabilities."""
    scores, weights = exact_row(choice, 0)
    there = [i for i in reference.tree_order(len(scores)) if scores[i] is not None]
    if not there:
        return [2**64 * k // len(scores) for k in range(1, len(scores))]
    with mpmath.workdps(60):
        masses = []
        for i in there:
            x = choice.rate * scores[i]
            w = mpmath.mpf(weights[i].numerator) / weights[i].denominator
            masses.append(w * mpmath.exp(mpmath.mpf(x.numerator) / x.denominator))
        total = mpmath.fsum(masses)
        sums = [mpmath.fsum(masses[: j + 1]) for j in range(len(masses) - 1)]
        return [int(2**64 * s / total) for s in sums]


@pytest.mark.rest
@pytest.mark.parametrize("index", range(len(BOUNDARY)))
def test_words_at_every_boundary_of_inversion(index: int) -> None:
    one = BOUNDARY[index]
    edges = boundaries(one)
    each = max(len(edges) // 3, 1) if len(edges) > 50 else 1
    words = [w for e in edges[::each] for w in around(e)]
    words += [0, 1, 2**64 - 1, 2**64 - 2]
    choice = Choice(one.rate, np.repeat(one.scores, len(words), 0), one.weights)
    inverse_at_all_levels(choice, lambda: Words(words), 1)


@pytest.mark.parametrize("noise", NOISES)
def test_words_that_nearly_tie_a_race(noise: str) -> None:
    rng = np.random.default_rng(5)
    rate = Fraction(1, 3)
    scores, words = [], []
    empty = _core.Call(Words([0]))
    for row in range(24):
        gap = float(rng.choice([0.0, 0.5, 3.0, 17.0]))
        a = int(rng.integers(2**64 - 1, dtype=np.uint64))
        if row % 3 == 0:
            a >>= int(rng.integers(0, 50))
        for d in (-(2**20), -3, -2, -1, 0, 1, 2, 3, 2**20, 2**34):
            at = len(words)
            angles = [word_of(empty, at + i, 2**31) for i in range(2)]
            tie = tying_word(noise, a, angles, float(rate) * gap)
            scores.append([0.0, gap])
            words += [a, min(max(tie + d, 0), 2**64 - 1)]
    choice = Choice(rate, np.array(scores))
    races_at_all_levels(choice, noise, lambda: Words(words))


def tying_word(noise: str, a: int, angles: list[int], gap: float) -> int:
    """About the word b whose noise exceeds that of a by -gap; any, if there is none."""
    with mpmath.workdps(60):
        u = (mpmath.mpf(a) + 0.5) / 2**64
        if noise == "gumbel":
            v = -mpmath.expm1(mpmath.log1p(-u) * mpmath.exp(gap))
        elif noise == "laplace":
            value = mpmath.log(u) * (1 if a & 1 else -1) - gap
            v = mpmath.exp(-abs(value))
            return (int(v * 2**63) << 1 | (value < 0)) % 2**64
        else:
            turns = [
                mpmath.cos(mpmath.pi / 2 * (w >> 1) / mpmath.mpf(2) ** 63)
                * (-1 if w & 1 else 1)
                for w in angles
            ]
            value = mpmath.sqrt(-2 * mpmath.log1p(-u)) * turns[0] - gap
            v = -mpmath.expm1(-((value / turns[1]) ** 2) / 2)
        return int(min(v, 1) * 2**64) % 2**64


def test_equal_words_and_scores_are_settled_by_further_bits() -> None:
    words = [2**63 + 12345] * 4 * 50
    choice = Choice(Fraction(1), np.zeros((50, 4)))
    for noise in NOISES:
        races_at_all_levels(choice, noise, lambda: Words(words))
    got = _selection.race(choice, "gumbel", Words(words), 1)
    assert set(got.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "word", [0, 1, 2, 15, 16, 17, 2**64 - 17, 2**64 - 2, 2**64 - 1]
)
def test_words_at_the_ends_of_their_range(word: int) -> None:
    other = 2**62 + 999
    rows = [[word, other, other], [other, word, word], [word, word, word]]
    scores = np.array([[0.0, 1.0, 30.0], [0.0, -60.0, np.nan], [0.0, 0.0, 800.0]])
    words = [w for row in rows for w in row]
    choice = Choice(Fraction(1), scores)
    inverse_at_all_levels(choice, lambda: Words(words), 3)
    for noise in NOISES:
        races_at_all_levels(choice, noise, lambda: Words(words))
