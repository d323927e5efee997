"""Permute-and-flip by its flips against the integer reference, bit for bit."""

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import fastdp
from fastdp import _core, _selection
from fastdp._core import LEVELS
from fastdp._selection import Choice
from fastdp._stream import Stream
from tests.differential.layout import Keyed
from tests.differential.test_selection import (
    BOUNDARY,
    KEY,
    SETS,
    Words,
    exact_row,
    many,
    more_of,
    word_of,
)
from tests.reference import selection as reference


@pytest.fixture(autouse=True)
def restored() -> Any:
    yield
    _core.limit_cpu(None)


def plain(choices: list[Choice]) -> list[Choice]:
    return [choice for choice in choices if choice.weights is None]


def shapes() -> list[Choice]:
    """Rows about the ends of vectors, masks and blocks, in one chunk and over two."""
    rng = np.random.default_rng(9)
    chosen = [
        Choice(Fraction(1, 2), scores)
        for n in (1, 15, 16, 17, 63, 64, 65, 511, 512, 513, 1030)
        for scores in (rng.normal(0, 9, (5, n)), rng.integers(-30, 9, (5, n)))
    ]
    chosen += [Choice(Fraction(1), np.zeros((5, n))) for n in (64, 512)]  # all up
    chosen.append(Choice(Fraction(1), np.full((5, 7), np.nan)))
    chosen.append(Choice(Fraction(1), np.full((2, 300), -np.inf)))
    return chosen


def at_all_levels(choice: Choice, stream: Callable[[], Stream]) -> list[int]:
    call = _core.Call(stream())
    rows, n = choice.scores.shape
    answers = []
    for row in range(rows):
        first = row * (n + 1)
        words = [word_of(call, first + i) for i in range(n + 1)]
        scores, _ = exact_row(choice, row)

        def more(i: int, first: int = first) -> Callable[[int], bytes]:
            return more_of(call, first + i)

        answers.append(reference.flips(scores, choice.rate, words, more))
    for level in LEVELS:
        if _core.limit_cpu(level) == level:
            assert _selection.flip(choice, stream(), 1).tolist() == answers, level
    return answers


@pytest.mark.parametrize("index", range(len(plain(SETS[::2]))))
def test_small_sets_give_the_choices_of_the_reference(index: int) -> None:
    at_all_levels(plain(SETS[::2])[index], lambda: Keyed(KEY))


@pytest.mark.parametrize("index", range(len(shapes())))
def test_rows_of_every_shape_give_the_choices_of_the_reference(index: int) -> None:
    at_all_levels(shapes()[index], lambda: Keyed(KEY))


@pytest.mark.parametrize("workers", [2, 40])
def test_workers_change_nothing(workers: int) -> None:
    choice = many(9000)
    one = _selection.flip(choice, Keyed(KEY), 1)
    assert (_selection.flip(choice, Keyed(KEY), workers) == one).all()


def edge_words(choice: Choice) -> list[int]:
    """Flips about each probability, choices about each boundary among those up."""
    scores, _ = exact_row(choice, 0)
    best = max((s for s in scores if s is not None), default=None)
    rows = []
    for i in {*range(0, len(scores), max(len(scores) // 5, 1)), len(scores) - 2}:
        gap = Fraction(0)
        if best is not None and scores[i] is not None:
            gap = choice.rate * (best - scores[i])
        with mpmath.workdps(60):
            p = mpmath.exp(-mpmath.mpf(gap.numerator) / gap.denominator)
            edge = int(min(p, 1) * 2**64)
        for d in (0, 1, 2, 3, 2**10, 2**13, 2**14, 2**15, 2**16, 2**30):
            for flip in (edge - d, edge + d):
                # With all others up, or the best, this one is taken if it is up; with
                # all, no other flip is open.
                row = [0 if d % 4 else 2**64 - 1] * len(scores)
                row[i] = min(max(flip, 0), 2**64 - 1)
                ups = [j != i and (d % 4 or s == best) for j, s in enumerate(scores)]
                rows.append([*row, (2 * sum(ups[:i]) + 1 << 63) // (sum(ups) + 1)])
    # All that can: floor(U m) at every boundary.
    m = len(scores)
    for j in {1, m // 2, m - 1, m}:
        for d in (-2, -1, 0, 1):
            u = min(max((j << 64) // m + d, 0), 2**64 - 1)
            rows += [[0] * m + [u]] * (1 + 60 // m)  # of other further bits each
    return [word for row in rows for word in row]


@pytest.mark.parametrize("index", range(len(plain(BOUNDARY))))
def test_words_at_every_boundary(index: int) -> None:
    one = plain(BOUNDARY)[index]
    words = edge_words(one)
    scores = np.repeat(one.scores, len(words) // (one.scores.size + 1), 0)
    at_all_levels(Choice(one.rate, scores), lambda: Words(words))


@pytest.mark.parametrize("scores", [[0.0, 1.0, 2.5], [3, 4, -2, 2]], ids=str)
def test_the_words_of_each_flip_are_shared_out_by_its_probability(
    scores: list[float],
) -> None:
    """Binary searches find the last word of each flip that kernels take for up; the
    law of the choice follows by enumeration of the flips, sets chosen from alike."""
    array, n = np.array([scores]), len(scores)
    choice = Choice(Fraction(1), array)
    best = int(np.argmax(array[0]))

    def up(i: int, word: int) -> bool:
        words = [2**64 - 1] * n + [0 if i < best else 2**64 - 1]
        words[i] = word
        return int(_selection.flip(choice, Words(words), 1)[0]) == i

    shares = []
    for i in range(n):
        below, above = -1, 2**64
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (middle, above) if up(i, middle) else (below, middle)
        shares.append(above)
    with mpmath.workdps(60):
        flips = [mpmath.exp(mpmath.mpf(s) - max(scores)) for s in scores]
        for p, share in zip(flips, shares, strict=True):
            assert abs(p * 2**64 - share) <= 1
        law = [mpmath.mpf(0)] * n
        for ups in itertools.product((False, True), repeat=n):
            mass = mpmath.mpf(1)
            for p, u in zip(flips, ups, strict=True):
                mass *= p if u else 1 - p
            for i in range(n):
                law[i] += mass / sum(ups) if ups[i] else 0
        # The first in a random order whose flip comes up: McKenna and Sheldon's law.
        for i in range(n):
            orders = list(itertools.permutations(range(n)))
            first = mpmath.mpf(0)
            for order in orders:
                mass = mpmath.mpf(1)
                for j in order[: order.index(i)]:
                    mass *= 1 - flips[j]
                first += mass * flips[i] / len(orders)
            assert abs(first - law[i]) < mpmath.mpf(10) ** -50


@pytest.mark.parametrize("noise", ["exponential", "gumbel"])
def test_one_choice_goes_through_the_short_way_as_through_rows(noise: Any) -> None:
    m = fastdp.ReportNoisyMax(2, sensitivity=1, noise=noise)
    scores = np.random.default_rng(4).normal(0, 3, 700)
    rows = m.select(scores.reshape(1, -1), stream=Keyed(KEY))
    assert m.select(scores, stream=Keyed(KEY)) == rows[0]
