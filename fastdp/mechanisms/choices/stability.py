"""Answers that are released only if the data are far from data that change them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp import _validate
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    ApproximateDPEvent,
    ComposedEvent,
    Event,
    NeighboringRelation,
    Relation,
    as_relation,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import ADD, Additive, Mechanism
from fastdp.mechanisms._keys import counted, distinct, key_column
from fastdp.mechanisms.records.key_selection import KeySelection

_Array = np.ndarray[Any, Any]


class ProposeTestRelease(Mechanism):
    """Release of an answer if the data are far from data with an unstable answer.

    A bound on the local sensitivity is proposed without looking at the data. The
    distance is the number of records that would have to change before the local
    sensitivity exceeds the bound (0 if it exceeds the bound already). The distance is
    tested; if the test passes, the answer is released with noise for the proposed
    bound.

    Parameters
    ----------
    epsilon, delta : int, float, Fraction or Decimal
        Parameters of the test: epsilon > 0; delta > 0 and < 1, the probability that a
        distance of 1 passes.
    mechanism : mechanism of added noise, or None
        A mechanism calibrated with the proposed bound as its sensitivity. None releases
        the answer without noise, for answers with finitely many values (a model, a
        flag); the distance is then the number of records that must change for another
        answer.
    neighboring_relation : NeighboringRelation, optional
        The relation for which distance and bound hold. With a mechanism, the
        mechanism's relation.

    Raises
    ------
    DTypeError, ParameterError
        A parameter has a wrong type or is out of its range, the mechanism's sensitivity
        is unknown or its relation is different, or the test's table would have more
        than 2**19 entries.

    Privacy
    -------
    The test's (epsilon, delta) composed with the mechanism's event, under
    `neighboring_relation`. The distance must be an integer that moves by at most 1
    between neighbors, and the bound must not depend on the data: the caller must prove
    both. Exact: probabilities are integers over 2**128, and a distance of 0 never
    passes. Timing class T0.

    References
    ----------
    Dwork, Lei, "Differential privacy and robust statistics", STOC 2009; Desfontaines,
    Voss, Gipson, Mandayam, PoPETs 2022 (the best probabilities).
    docs/proofs/stability.md, section 3.

    Examples
    --------
    >>> import fastdp
    >>> noise = fastdp.Laplace.from_epsilon(0.5, sensitivity=0.1)
    >>> t = fastdp.ProposeTestRelease(epsilon=0.5, delta=1e-6, mechanism=noise)
    >>> t.least_distance(0.99)
    34
    >>> t.release(3.2, distance=0) is None
    True
    >>> isinstance(t.release(3.2, distance=80), float)
    True
    """

    __slots__ = ("_mechanism", "_relation", "_test")

    _returns_array = False

    _mechanism: Additive[Any] | None
    _relation: NeighboringRelation
    _test: KeySelection

    def __init__(
        self,
        *,
        epsilon: Real,
        delta: Real,
        mechanism: Additive[Any] | None,
        neighboring_relation: Relation | None = None,
    ) -> None:
        relation = ADD
        if mechanism is not None:
            if not isinstance(mechanism, Additive):
                raise DTypeError(
                    "mechanism must be one of added noise (Laplace, DiscreteGaussian, "
                    f"...) or None, got {type(mechanism).__name__}"
                )
            mechanism.event()  # refuse a mechanism of unknown sensitivity
            relation = mechanism.neighboring_relation
        if neighboring_relation is not None:
            given = as_relation(neighboring_relation)
            if mechanism is not None and given is not relation:
                raise ParameterError(
                    f"neighboring_relation must be the mechanism's, {relation!r}, got "
                    f"{given!r}"
                )
            relation = given
        test = KeySelection(epsilon=epsilon, delta=delta, keys_per_user=1)
        stated = dict(test._arguments)
        self._freeze(
            _arguments=(
                ("epsilon", stated["epsilon"]),
                ("delta", stated["delta"]),
                ("mechanism", mechanism),
                *((("neighboring_relation", relation),) if relation != ADD else ()),
            ),
            _mechanism=mechanism,
            _relation=relation,
            _test=test,
        )

    def event(self) -> Event:
        """Return the event of one release, for the test and the noise."""
        stated = dict(self._test._arguments)
        test = ApproximateDPEvent(
            epsilon=stated["epsilon"],
            delta=stated["delta"],
            neighboring_relation=self._relation,
        )
        if self._mechanism is None:
            return test
        return ComposedEvent((test, self._mechanism.event()))

    def probability(self, distance: int) -> float:
        """Return the probability that the test passes at this distance."""
        return self._test.probability(_validate.integer("distance", distance, 0))

    def least_distance(self, probability: Real) -> int:
        """Return the least distance at which the test passes with this probability."""
        return self._test.least_count(probability)

    def release(
        self, value: Any, *, distance: Any, stream: Stream | None = None
    ) -> Any:
        """Return the answer with noise if the test passes, else None.

        Parameters
        ----------
        value : type of the mechanism's `release`; any object without a mechanism
            The answer at the data.
        distance : int, of Python or numpy
            Distance of the data from instability; below 0 counts as 0. The caller is
            responsible for what its computation reveals (time, errors).
        stream : Stream, optional
            None draws fresh keys from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.

        Returns
        -------
        The type of the mechanism's `release`, or None
            Without a mechanism `value` itself, or None.

        Raises
        ------
        DTypeError, ParameterError
            A wrong type or shape. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event()`. Timing class T0.
        """
        check_stream(stream)
        if isinstance(distance, (bool, np.timedelta64)) or not isinstance(
            distance, (int, np.integer)
        ):
            raise DTypeError(f"distance must be an int, got {type(distance).__name__}")
        # Draw whether or not the test passes, so that no error depends on the test.
        noisy = value
        if self._mechanism is not None:
            noisy = self._mechanism.release(value, stream=stream)
        far = min(max(int(distance), 0), 2**62)
        return noisy if self._test.select(np.array([far]), stream=stream)[0] else None


class StableMode(Mechanism):
    """Release the exact most frequent key if it leads by enough, else nothing.

    Parameters
    ----------
    epsilon, delta : int, float, Fraction or Decimal
        epsilon > 0; delta > 0 and < 1.
    neighboring_relation : NeighboringRelation
        Under `REPLACE_ONE` the test halves the lead.

    Privacy
    -------
    (epsilon, delta) under `neighboring_relation`. The sensitivity is one record of one
    key (`fastdp.bound_contributions` extends this to users). Exact. Timing class T0.

    References
    ----------
    Smith, Thakurta, "Differentially private feature selection via stability arguments",
    COLT 2013 (stability of the mode). docs/proofs/stability.md, section 4.

    Examples
    --------
    >>> import fastdp
    >>> m = fastdp.StableMode(epsilon=1, delta=1e-12)
    >>> m.release(["b"] * 90 + ["a"] * 9)
    'b'
    >>> m.release(["a"] * 50 + ["b"] * 49) is None
    True
    """

    __slots__ = ("_relation", "_test")

    _returns_array = False

    _relation: NeighboringRelation
    _test: ProposeTestRelease

    def __init__(
        self, *, epsilon: Real, delta: Real, neighboring_relation: Relation = ADD
    ) -> None:
        test = ProposeTestRelease(
            epsilon=epsilon,
            delta=delta,
            mechanism=None,
            neighboring_relation=neighboring_relation,
        )
        stated = tuple(a for a in test._arguments if a[0] != "mechanism")
        self._freeze(_arguments=stated, _relation=test._relation, _test=test)

    def event(self) -> Event:
        """Return the event of one release: the test's event, which covers the key."""
        return self._test.event()

    def probability(self, lead: int) -> float:
        """Return the probability that a key with this lead is released."""
        lead = _validate.integer("lead", lead, 0)
        return self._test.probability(distance_of(lead, self._records))

    @property
    def _records(self) -> int:
        return 2 if self._relation is NeighboringRelation.REPLACE_ONE else 1

    def release(
        self, keys: Any, counts: Any = None, *, stream: Stream | None = None
    ) -> Any:
        """Return the most frequent key, or None.

        Parameters
        ----------
        keys : list of str, bytes or int, or column of strings or integers
            The key of each record; None and NaN are ignored. Ties go to the smallest
            key.
        counts : column of integers, shape (len(keys),), optional
            Number of records with each key; numbers below 1 and nulls count as 0. The
            counts of a repeated key are added. Two pandas columns must have the same
            index.
        stream : Stream, optional
            None draws fresh keys from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.

        Returns
        -------
        str, bytes, int or None
            As in `keys`; numpy's own type if `keys` is an array.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or shape. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event()`. Timing class T0.
        """
        check_stream(stream)
        if counts is None:
            listed, known = key_column("keys", keys)
            found, place = distinct(listed[known])
            frequent = np.bincount(place, minlength=len(found))
        else:
            found, frequent = counted(keys, counts)
        best, lead = winner(frequent)
        shown = self._test.release(
            best, distance=distance_of(lead, self._records), stream=stream
        )
        if shown is None:
            return None
        key = found[shown : shown + 1].tolist()[0]
        own = isinstance(keys, np.ndarray) and keys.dtype.kind in "USbiuf"
        return keys.dtype.type(key) if own else key


def winner(counts: _Array) -> tuple[int, int]:
    """Return the place of the largest count (the first of equal ones) and its lead."""
    if len(counts) < 2:
        return 0, int(counts.sum())
    best = int(np.argmax(counts))
    return best, int(counts[best] - np.delete(counts, best).max())


def distance_of(lead: int, records: int) -> int:
    """Return the distance to another winner if a neighbor changes a lead by `records`.

    Neighbors' distances differ by at most 1. The distance is at most 1 if a neighbor
    has another winner, since the leads of the two then sum to at most `records`.
    """
    return -(-lead // records)
