"""Select the keys that may be shown if the list of keys is private."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _arrays, _core, _exact, _validate
from fastdp import random as fdp_random
from fastdp._doorway import enter, is_data
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    ApproximateDPEvent,
    Event,
    NeighboringRelation,
    Relation,
    SelfComposedEvent,
    as_relation,
)
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._base import Mechanism

_A = NeighboringRelation.ADD_OR_REMOVE_ONE
_R = NeighboringRelation.REPLACE_ONE

#: Probabilities of a selection are multiples of 1/_ONE.
_ONE = 2**128

#: Maximum number of entries of a table; a larger one takes over a second to compute.
_MOST_ENTRIES = 2**19

#: Look up this many keys at a time: the temporaries fit in the cache.
_BLOCK = 2**13

_Array = np.ndarray[Any, Any]


class KeySelection(Mechanism):
    """Selection of the keys that may be shown, by their numbers of users.

    A key with n users is shown with the largest probability that (epsilon, delta)
    allows. A key without users is never shown.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        Epsilon of one key, > 0.
    delta : int, float, Fraction or Decimal
        Delta of one key, > 0 and < 1: probability that a key of one user is shown.
    keys_per_user : int
        Maximum number of keys per user; `fastdp.bound_contributions` enforces it.
    neighboring_relation : NeighboringRelation
        Under `REPLACE_ONE` a user leaves `keys_per_user` keys and enters
        `keys_per_user` others.

    Raises
    ------
    DTypeError, ParameterError
        A parameter has a wrong type or is out of its range, or the table of
        probabilities would have more than 2**19 entries.

    Privacy
    -------
    For users added or removed (the neighboring relation): (epsilon, delta) for each of
    `keys_per_user` keys. The sensitivity is one user per key. The guarantee is
    approximate and exact: probabilities are integers over 2**128, each computed from
    the previous rounded one. Timing class T0: a look-up by the count.

    References
    ----------
    Desfontaines, Voss, Gipson, Mandayam, "Differentially private partition selection",
    PoPETs 2022. docs/proofs/keys.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.KeySelection.from_epsilon_delta(
    ...     epsilon=1, delta=1e-6, keys_per_user=1
    ... )
    >>> m.least_count(0.5)
    14
    >>> m.select(np.array([0, 100])).tolist()
    [False, True]
    """

    __slots__ = ("_delta", "_epsilon", "_high", "_low", "_table")

    _delta: Fraction
    _epsilon: Fraction
    _table: list[int]
    _high: _Array  # high 64 bits of the table's entries
    _low: _Array  # low 64 bits

    def __init__(
        self,
        *,
        epsilon: Real,
        delta: Real,
        keys_per_user: int,
        neighboring_relation: Relation = _A,
    ) -> None:
        e = _validate.positive("epsilon", epsilon)
        d = _validate.open_unit("delta", delta)
        keys, relation = keys_of_user(keys_per_user, neighboring_relation)
        table = selection_table(e, d)
        self._freeze(
            _arguments=(
                ("epsilon", _validate.plain(e)),
                ("delta", _validate.plain(d)),
                ("keys_per_user", keys),
                *self._not_default(neighboring_relation=relation),
            ),
            _epsilon=e,
            _delta=d,
            _table=table,
            # Omit the last entry, probability 1, which needs no draw.
            _high=np.array([p >> 64 for p in table[:-1]], np.uint64),
            _low=np.array([p & (2**64 - 1) for p in table[:-1]], np.uint64),
        )

    @classmethod
    def from_epsilon_delta(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        keys_per_user: int,
        neighboring_relation: Relation = _A,
    ) -> KeySelection:
        """Return the mechanism with a total cost of (epsilon, delta) for all keys.

        Each of k keys gets epsilon/k and delta/k.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the table that it needs, is out of range.
        """
        keys, relation = keys_of_user(keys_per_user, neighboring_relation)
        moved = moved_keys(keys, relation)
        e = _validate.positive("epsilon", epsilon) / moved
        return cls(
            epsilon=e,
            delta=_validate.open_unit("delta", delta) / moved,
            keys_per_user=keys,
            neighboring_relation=relation,
        )

    def event(self) -> Event:
        """Return the event of one selection, over all keys."""
        said = dict(self._arguments)
        relation = said.get("neighboring_relation", _A)
        one = ApproximateDPEvent(
            epsilon=self._epsilon, delta=self._delta, neighboring_relation=relation
        )
        return times(one, moved_keys(said["keys_per_user"], relation))

    def probability(self, users: int) -> float:
        """Return the probability that a key with this number of users is shown."""
        n = _validate.integer("users", users, 0)
        return self._table[min(n, len(self._table) - 1)] / _ONE

    def least_count(self, probability: Real) -> int:
        """Return the least number of users at which a key has this probability."""
        p = _validate.between("probability", probability, Fraction(0), Fraction(1))
        return next(n for n, found in enumerate(self._table) if found >= p * _ONE)

    def select(self, users_per_key: Any, *, stream: Stream | None = None) -> Any:
        """Return a mask of the keys that may be shown.

        Parameters
        ----------
        users_per_key : ndarray of integers, or column
            Number of users (not rows) of each key; negative numbers and nulls count as
            0.
        stream : Stream, optional
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.

        Returns
        -------
        ndarray of bool
            The same shape and kind as `users_per_key`. Show the selected keys
            sorted or shuffled, never in the data's order, as `UnknownHistogram` does.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event()`. Timing class T0: a look-up by the count.
        """
        check_stream(stream)
        if is_data(users_per_key):
            column, leave = enter("users_per_key", users_per_key)
            return leave(self.select(column, stream=stream))
        users = _arrays.data("users_per_key", users_per_key, real=False)
        flat = _core.flat(users)
        shown = np.zeros(flat.size, bool)
        for start in range(0, flat.size, _BLOCK):
            part = flat[start : start + _BLOCK]
            shown[start : start + _BLOCK] = self._shown(part, stream)
        return shown.reshape(users.shape)

    def _shown(self, users: _Array, stream: Stream | None) -> _Array:
        last = len(self._table) - 1
        entry = np.clip(users, 0, last).astype(np.int64)
        certain = entry == last
        entry[certain] = 0
        words = np.frombuffer(
            fdp_random.bytes(8 * entry.size, stream=stream), np.uint64
        )
        high = self._high[entry]
        shown: _Array = (words < high) | certain
        ties = np.flatnonzero((words == high) & ~certain)
        if ties.size:
            more = np.frombuffer(
                fdp_random.bytes(8 * ties.size, stream=stream), np.uint64
            )
            shown[ties] = more < self._low[entry[ties]]
        return shown


# ---- tables ------------------------------------------------------------------------


def selection_table(epsilon: Fraction, delta: Fraction) -> list[int]:
    """Return the largest P_0 = 0, P_1, ..., 2**128 that hide one user of a key.

    Each entry is computed from the previous rounded one, with a rational number below
    e**epsilon. docs/proofs/keys.md.
    """
    d = delta.numerator * _ONE // delta.denominator
    if d == 0 or epsilon > 1 << 12:
        raise ParameterError("delta must be at least 2**-128, and epsilon at most 4096")
    length = 2 / epsilon * Fraction(math.log1p(float(epsilon / delta) / 2))
    if length > _MOST_ENTRIES:
        raise ParameterError(
            "epsilon and delta must be large enough for a table of at most 2**19 "
            f"probabilities, got {float(epsilon)!r} and {float(delta)!r} a key"
        )
    bits = 192 + 2 * int(epsilon)
    _, above = _exact.exp_neg(epsilon.numerator, epsilon.denominator, bits)
    table, p = [0], 0
    while p < _ONE:
        grown = (p << bits) // above + d
        left = _ONE - p - d
        p = min(grown, _ONE + (-left * above >> bits) if left > 0 else _ONE, _ONE)
        table.append(p)
    return table


# ---- parameters --------------------------------------------------------------------


def keys_of_user(keys: object, relation: object) -> tuple[int, NeighboringRelation]:
    """Return the number of keys and the relation, checked."""
    relation = as_relation(relation)
    return _validate.integer("keys_per_user", keys, 1, 2**40), relation


def moved_keys(keys: int, relation: NeighboringRelation) -> int:
    """Return the number of keys in which neighbors differ."""
    return 2 * keys if relation is _R else keys


def times(event: Event, count: int) -> Event:
    """Return the event of `count` events together."""
    return event if count == 1 else SelfComposedEvent(event, count)
