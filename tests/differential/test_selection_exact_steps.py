"""Choices that integers settle, all of them sent there, against the Python they equal.

Kernels decide nothing here: every try, flip, choice by inversion and race goes to
csrc/exact with the words and blocks of its draws.
"""

import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdp import _core, _ranking, _selection
from fastdp._selection import Choice, Noise, Weights
from tests.differential.exact_programs import SANITIZERS, exact_program
from tests.differential.layout import Keyed
from tests.differential.test_selection import (
    BOUNDARY,
    KEY,
    NOISES,
    Words,
    around,
    boundaries,
    more_of,
    send_onward,
    small_sets,
    word_of,
)
from tests.differential.test_selection_flips import edge_words as flip_words
from tests.differential.test_selection_proposals import edge_words as try_words
from tests.reference import exact_races
from tests.reference import exact_selection as spec

pytestmark = pytest.mark.rest

FAR = 1e300  # a tolerance that leaves everything open


@pytest.fixture(autouse=True)
def onward(monkeypatch: pytest.MonkeyPatch) -> None:
    send_onward(monkeypatch, FAR, fine=False)


def hard_sets(rows: int) -> list[Choice]:
    """Rationals as weights and rates, of 2,200 bits some; ties; scores far apart."""
    rng = np.random.default_rng(rows)
    long = Fraction(10**640 + 7, 3 * 10**639 + 1)
    chosen = []
    for rate in (Fraction(1, 3), long, 1 / long**2, Fraction(2) ** 900):
        scores = rng.integers(-3, 3, (rows, 5)) / float(rate)
        rationals = [Fraction(k % 4, 3 + k % 7) * long ** (k % 3 - 1) for k in range(5)]
        for weights in (rationals, np.array([2**60 + 1, 2**53 + 1, 0, 2**62, 1])):
            each = Weights.of("weights", weights, (rows, 5), 1)
            chosen.append(Choice(rate, scores, each))
        own = [[w * (r + 1) for w in rationals] for r in range(rows)]
        chosen.append(Choice(rate, scores, Weights.of("weights", own, (rows, 5), 1)))
        chosen.append(Choice(rate, rng.integers(-(2**63), 2**63 - 1, (rows, 3))))
        chosen.append(Choice(rate, rng.choice([np.inf, -1e308, 1e308, 0], (rows, 4))))
        chosen.append(Choice(rate, np.full((rows, 3), -np.inf)))
    return chosen


def choices(rows: int) -> list[Choice]:
    return [*small_sets(rows, 11), *hard_sets(rows)]


def tries(choice: Choice, stream: Any) -> int:
    call, (rows, _) = _core.Call(stream), choice.scores.shape
    wanted = []
    for row in range(rows):
        words = [word_of(call, 4 * row + k) for k in range(4)]
        wanted.append(spec.propose_row(choice, (row, *words), more_of(call, 4 * row)))
    assert _selection.propose(choice, stream, 1).tolist() == wanted
    return rows


def flips(choice: Choice, stream: Any) -> int:
    call, (rows, n) = _core.Call(stream), choice.scores.shape
    wanted = []
    for row in range(rows):
        first = row * (n + 1)

        def settle(i: int, *words: int, first: int = first) -> int:
            return spec.settle_flip(choice, words, more_of(call, first + i))

        up = [i for i in range(n) if settle(i, word_of(call, first + i), row, i)]
        pick = settle(n, word_of(call, first + n), len(up), 2**64 - 1)
        wanted.append(up[pick])
    assert _selection.flip(choice, stream, 1).tolist() == wanted
    return rows * (n + 1)


def inversions(choice: Choice, stream: Any, k: int) -> int:
    call, (rows, _) = _core.Call(stream), choice.scores.shape
    wanted: list[list[int]] = []
    for row in range(rows):
        wanted.append([])
        for j in range(k):
            draw = row * k + j
            word, more = word_of(call, draw), more_of(call, draw)
            wanted[-1].append(spec.invert_row(choice, row, wanted[-1], word, more))
    assert _selection.inverse(choice, k, stream, 1).tolist() == wanted
    return rows * k


def races(choice: Choice, noise: Noise, stream: Any) -> int:
    call, (rows, n) = _core.Call(stream), choice.scores.shape
    ranked = []
    for row in range(rows):
        draws = range(row * n, row * n + n)
        named = [
            (i, word_of(call, d), word_of(call, d, 2**31)) for i, d in enumerate(draws)
        ]
        entered = spec.runners(choice, row, named, noise, call)
        ranked.append([runner.index for runner in exact_races.ranked(entered)])
    wanted = [order[0] for order in ranked]
    assert _selection.race(choice, noise, stream, 1).tolist() == wanted
    if noise == "gumbel":
        orders = _ranking.ranking(choice, n, stream).tolist()
        for order, known in zip(orders, ranked, strict=True):
            assert order[: len(known)] == known
    return rows * (n - 1)


def check(choice: Choice, stream: Any) -> int:
    count = tries(choice, stream)
    count += inversions(choice, stream, (choice.scores.shape[1] + 1) // 2)
    if choice.weights is None:
        count += flips(choice, stream)
    return count + sum(races(choice, noise, stream) for noise in NOISES)


@pytest.mark.parametrize(
    "rows", [2, pytest.param(110, marks=pytest.mark.slow)], ids=str
)
def test_choices_are_those_of_python(rows: int) -> None:
    """110 rows: more than 10**5 that are settled."""
    count = sum(
        check(choice, Keyed(KEY[:31] + bytes([i])))  # words of its own for each
        for i, choice in enumerate(choices(rows))
    )
    assert count > 10**5 if rows > 100 else count > 10**3


@pytest.mark.parametrize("index", range(len(BOUNDARY)))
def test_words_at_every_boundary(index: int) -> None:
    one = BOUNDARY[index]
    if one.scores.size > 100:  # Python takes its time
        one = Choice(one.rate, one.scores[:, ::40], one.weights)
    n = one.scores.size

    def rows(words: list[int], each: int) -> Choice:
        many = np.repeat(one.scores, len(words) // each, 0)
        return Choice(one.rate, many, one.weights)

    words = [w for edge in boundaries(one) for w in around(edge)]
    inversions(rows(words, 1), Words(words), 1)
    words = try_words(one)
    tries(rows(words, 4), Words(words))
    if one.weights is None:
        words = flip_words(one)
        flips(rows(words, n + 1), Words(words))


@pytest.mark.parametrize("n", [513, 1100])
def test_rows_of_several_nodes(n: int) -> None:
    rng = np.random.default_rng(n)
    for scores in (rng.normal(0, 2, (1, n)), rng.integers(0, 5, (1, n))):
        choice = Choice(Fraction(1, 2), scores)
        tries(choice, Keyed(KEY))
        inversions(choice, Keyed(KEY), 2)


def test_a_race_of_doubles_and_integers_in_pieces() -> None:
    """Pieces of either type, all their scores at their exact values."""
    whole = np.array([2**53 + 1, 2**53, 3, -(2**62) - 1])
    real = whole.astype(float)
    for order in ((whole, real), (real, whole)):
        call = _core.Call(Keyed(KEY))
        race = _ranking.LongRace(Fraction(1, 2), "gumbel", call)
        named, scores = [], []
        for piece in order:
            race.enter(piece.reshape(1, -1))
            scores += [Fraction(int(x)) for x in piece]
        runners = []
        for i, score in enumerate(scores):
            named = (word_of(call, i), 0)
            blocks = spec.blocks_of(call, i)
            gap = (max(scores) - score) / 2
            runners.append(
                exact_races.Runner.of(i, gap, Fraction(1), "gumbel", named, blocks)
            )
        assert race.winner() == exact_races.first_of(runners).index


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_memory_of_every_size(tmp_path: Path, sanitizer: str) -> None:
    """Too little memory is a failure, never another choice; under sanitizers."""
    program = exact_program(tmp_path, "settle_choice.c", sanitizer)
    run = subprocess.run([program], capture_output=True, text=True, env={})
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
