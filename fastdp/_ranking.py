"""Races with more than one winner: the k best in order, or candidates in pieces.

Both use ``_selection``; the laws and the words are in ``docs/proofs/selection.md``.
"""

from __future__ import annotations

import functools
import itertools
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core
from fastdp._selection import Choice, Noise
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
        # The time of a sort depends on the order of its input: make that order random.
        _core.fill_permutation(mixing, mixed)
        for row in range(rows):
            out[row] = _rank(choice, row, k, mixed, call)
    return out


def _rank(choice: Choice, row: int, k: int, mixed: _Array, call: _core.Call) -> _Array:
    scores = choice.scores[row : row + 1]
    n = scores.shape[1]
    low, high = np.zeros((1, n)), np.zeros((1, n))
    law = choice.law("gumbel")
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
        plain = rest.law("gumbel")
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
    """Return the k candidates with the largest keys, in order, from bounds on the keys.

    The resolver orders candidates whose bounds overlap.
    """
    n = mixed.size
    take = k + 64 if 4 * (k + 64) < n else n
    while True:
        order = mixed
        if take < n:
            order = mixed[np.argpartition(-high[mixed], take)[: take + 1]]
        order = order[np.argsort(-high[order], kind="stable")]
        least = np.minimum.accumulate(low[order])
        # Place p is settled if all candidates before it exceed all from p on.
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
    scores, law = choice.scores[row : row + 1], choice.law("gumbel")
    first = row * scores.shape[1]

    def compare(i: int, j: int) -> int:
        one, other = (scores, row, i, first + i), (scores, row, j, first + j)
        return -1 if _core.race_ahead(call, law, one, other) else 1

    return sorted(indexes, key=functools.cmp_to_key(compare))


# --- a race in pieces ---------------------------------------------------------------


class LongRace:
    """A race with candidates in pieces; only the current leader is stored."""

    def __init__(self, rate: Fraction, noise: Noise, call: _core.Call) -> None:
        self._law = _core.Selection(rate, noise)
        self._call = call
        self._seen = 0
        self._ahead: tuple[_Array, int, int, int] | None = None

    def enter(self, scores: _Array) -> None:
        """Enter the candidates of a matrix with one row."""
        out = np.zeros(1, np.int64)
        _core.select_race(self._call, self._law, scores, out, 0, self._seen)
        i = int(out[0])
        new = (scores[:, i : i + 1].copy(), 0, 0, self._seen + i)
        self._seen += scores.shape[1]
        old = self._ahead
        if old is None or _core.race_ahead(self._call, self._law, new, old):
            self._ahead = new

    def winner(self) -> int:
        """Return the index of the winner.

        Raises
        ------
        ParameterError
            No candidate was entered.
        """
        if self._ahead is None:
            raise ParameterError("there must be at least one candidate")
        return self._ahead[3]
