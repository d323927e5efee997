"""Bounds of the keys of a race, and choices that neither pieces nor workers change."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from fastdp import _core, _ranking, _selection
from fastdp._selection import Choice, Weights
from tests.differential.layout import Keyed
from tests.differential.test_selection import KEY, NOISES, Words, many, word_of
from tests.reference import selection as reference
from tests.reference.exact_selection import weight_of

# --- bounds of keys ---------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
def test_bounds_hold_every_key_the_word_allows(noise: str, level: str) -> None:
    """And with room: a tenth of the tolerance would do for nearly all."""
    rng = np.random.default_rng(11)
    words = rng.integers(2**64 - 1, size=400, dtype=np.uint64)
    words[:200] >>= rng.integers(0, 60, 200).astype(np.uint64)
    words[200:300] = ~(words[200:300] >> rng.integers(0, 60, 100).astype(np.uint64))
    scores = rng.uniform(-60, 0, (1, 400))
    scores[0, ::50] = 0.0
    values = rng.uniform(1, 2, 400) * 2.0 ** rng.integers(-900, 900, 400)
    call = _core.Call(Words(words.tolist()))
    for weights in (None, Weights.numbers(values)):
        choice = Choice(Fraction(2, 3), scores, weights)
        tolerance = 1.25 * 2.0**-44
        tolerance += 0.0 if choice.weights is None else 2.0**-49 * choice.weights.spread
        low, high = np.zeros((1, 400)), np.zeros((1, 400))
        _core.race_keys(call, choice.law(noise), scores, low, high)
        shift = 0.0 if weights is None else float(np.frexp(values)[1].max())
        inner = 0
        for i in range(400):
            pair = int(words[i]), word_of(call, i, 2**31)
            score, weight = Fraction(scores[0, i]), weight_of(choice, 0, i)
            with mpmath.workdps(60):
                none = (lambda k: bytes(16),) * 2
                ends = reference.key(score, weight, choice.rate, noise, pair, none, 0)
                least, most = (end - shift * mpmath.log(2) for end in ends)
                assert low[0, i] <= least
                assert most <= high[0, i]
                inner += most + 0.8 * tolerance <= high[0, i]
        assert inner > 350


# --- pieces, rows, threads ---------------------------------------------------------


@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 4096, 3), (4090, 10, 1, 800)])
def test_a_stream_of_pieces_gives_the_choice_of_the_whole(
    sizes: tuple[int, ...],
) -> None:
    scores = np.random.default_rng(sum(sizes)).normal(0, 2, sum(sizes))
    for rate in (Fraction(1), Fraction(1, 50)):
        race = _ranking.LongRace(rate, "gumbel", _core.Call(Keyed(KEY)))
        for piece in np.split(scores, np.cumsum(sizes)[:-1]):
            race.enter(piece.reshape(1, -1))
        whole = _selection.race(
            Choice(rate, scores.reshape(1, -1)), "gumbel", Keyed(KEY), 1
        )
        assert race.winner() == whole[0]


@pytest.mark.parametrize("workers", [2, 3, 40])
def test_workers_change_nothing(workers: int) -> None:
    choice = many(9000)
    for k in (1, 3):
        one = _selection.inverse(choice, k, Keyed(KEY), 1)
        assert (_selection.inverse(choice, k, Keyed(KEY), workers) == one).all()
    for noise in NOISES:
        one = _selection.race(choice, noise, Keyed(KEY), 1)
        assert (_selection.race(choice, noise, Keyed(KEY), workers) == one).all()
