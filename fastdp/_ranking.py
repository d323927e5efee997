"""Races of which more is asked than the winner: a whole order, or pieces in turn.

Both rest on ``_selection``; the laws and the words are in
``docs/proofs/selection.md``.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core, _exact_selection
from fastdp._exact_selection import Noise, Runner
from fastdp._selection import (
    Choice,
    blocks_of,
    nearest,
    race_resolver,
    race_tolerance,
    runners,
    word_of,
)
from fastdp._stream import Stream
from fastdp.exceptions import ParameterError

_Array: TypeAlias = "np.ndarray[Any, Any]"


# --- the noisy order -------------------------------------------------------------


def ranking(choice: Choice, k: int, stream: Stream | None) -> _Array:
    """Return the k largest keys of each row's Gumbel race in order, shape (rows, k).

    Candidates of weight 0 come after all others, in the order of their noise.
    """
    rows, n = choice.scores.shape
    out = np.zeros((rows, k), np.int64)
    mixed = np.zeros(n, np.int64)
    with _core.Call(stream, out) as call, _core.Call() as mixing:
        # The time of a sort tells how its input was arranged: at random, here.
        _core.fill_permutation(mixing, mixed)
        for row in range(rows):
            out[row] = _rank(choice, row, k, mixed, call)
    return out


def _rank(choice: Choice, row: int, k: int, mixed: _Array, call: _core.Call) -> _Array:
    scores = choice.scores[row : row + 1]
    n = scores.shape[1]
    low, high = np.zeros((1, n)), np.zeros((1, n))
    law = choice.law(race_tolerance(choice.spread), "gumbel")
    try:
        _core.race_keys(call, law, scores, low, high, row)
        lost = np.isneginf(high[0])
        first, last = mixed[~lost[mixed]], mixed[lost[mixed]]
        ahead = min(k, first.size)
        order = _ordered(choice, row, low[0], high[0], ahead, first, call)
        if ahead == k:
            return order
        others = np.where(lost, 0.0, np.nan)
        rest = Choice(choice.rate, np.broadcast_to(others, choice.scores.shape))
        plain = rest.law(race_tolerance(), "gumbel")
        _core.race_keys(call, plain, others.reshape(1, n), low, high, row)
        behind = _ordered(rest, row, low[0], high[0], k - ahead, last, call)
        return np.concatenate((order, behind))
    finally:
        _core.zero(low)
        _core.zero(high)


def _ordered(
    choice: Choice,
    row: int,
    low: _Array,
    high: _Array,
    k: int,
    mixed: _Array,
    call: _core.Call,
) -> _Array:
    """Return the k first of some candidates by falling key, from bounds of the keys.

    What the bounds leave open goes to the resolver.
    """
    n = mixed.size
    take = k + 64 if 4 * (k + 64) < n else n
    while True:
        order = mixed
        if take < n:
            order = mixed[np.argpartition(-high[mixed], take)[: take + 1]]
        order = order[np.argsort(-high[order], kind="stable")]
        least = np.minimum.accumulate(low[order])
        # Place p is settled if all before it are above all from p on.
        settled = np.ones(order.size + 1, bool)
        settled[1:-1] = least[:-1] > high[order[1:]]
        settled[-1] = take == n
        after = np.flatnonzero(settled[k:])
        if after.size:
            break
        take = n
    edges = np.flatnonzero(settled[: k + int(after[0]) + 1]).tolist()
    for start, stop in itertools.pairwise(edges):
        if stop - start > 1:
            order[start:stop] = _settle(choice, row, order[start:stop].tolist(), call)
    return order[:k]


def _settle(
    choice: Choice, row: int, indexes: list[int], call: _core.Call
) -> list[int]:
    """Order candidates whose bounds overlap."""
    n = choice.scores.shape[1]
    contenders = [(i, word_of(call, row * n + i), 0) for i in indexes]
    entered = runners(choice, row, contenders, "gumbel", call)
    return [runner.index for runner in _exact_selection.ranked(entered)]


# --- a race in pieces ---------------------------------------------------------------


class LongRace:
    """A race whose candidates come in pieces: the one ahead is kept."""

    def __init__(self, rate: Fraction, noise: Noise, call: _core.Call) -> None:
        self._rate = rate
        self._noise: Noise = noise
        self._law = _core.Selection(nearest(rate), race_tolerance(), noise)
        self._call = call
        self._seen = 0
        self._ahead: Runner | None = None
        self._ahead_has_weight = False

    def enter(self, scores: _Array) -> None:
        """Enter the candidates of a matrix with one row."""
        choice = Choice(self._rate, scores)
        out = np.zeros(1, np.int64)
        resolver = race_resolver(choice, self._noise, self._call, self._seen)
        _core.select_race(self._call, self._law, scores, out, resolver, 0, self._seen)
        i = int(out[0])
        draw = self._seen + i
        self._seen += scores.shape[1]
        score = choice.score(0, i)
        # Gaps may be taken from any score common to all: here 0.
        gap = Fraction(0) if score is None else -self._rate * score
        words = (word_of(self._call, draw), 0)
        blocks = blocks_of(self._call, draw)
        runner = Runner.of(draw, gap, Fraction(1), self._noise, words, blocks)
        has_weight = score is not None
        if self._ahead is None or has_weight > self._ahead_has_weight:
            self._ahead, self._ahead_has_weight = runner, has_weight
        elif has_weight == self._ahead_has_weight:
            self._ahead = _exact_selection.first_of([self._ahead, runner])

    def winner(self) -> int:
        """Return the index of the winner.

        Raises
        ------
        ParameterError
            No candidate was entered.
        """
        if self._ahead is None:
            raise ParameterError("there must be at least one candidate")
        return self._ahead.index
