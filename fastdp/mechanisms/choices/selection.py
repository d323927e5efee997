"""The exponential mechanism, and the base class of private selections."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core, _ranking, _selection, _validate
from fastdp._doorway import enter, is_data, one_index
from fastdp._selection import Choice, Method
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    Event,
    ExponentialMechanismEvent,
    NeighboringRelation,
    Relation,
    SelfComposedEvent,
    as_relation,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import Mechanism

_Array: TypeAlias = "np.ndarray[Any, Any]"
ADD = NeighboringRelation.ADD_OR_REMOVE_ONE


class Selection(Mechanism):
    """Base of the selections: parameters, the rate c, composition."""

    __slots__ = ("_epsilon", "_monotonic", "_rate", "_relation", "_sensitivity")

    _epsilon: Fraction
    _sensitivity: Fraction
    _monotonic: bool
    _rate: Fraction
    _relation: NeighboringRelation

    def _freeze_selection(
        self,
        epsilon: Real,
        sensitivity: Real,
        monotonic: bool,
        neighboring_relation: Relation,
        **more: Any,
    ) -> None:
        exact = _validate.positive("epsilon", epsilon)
        reach = _validate.positive("sensitivity", sensitivity)
        relation = as_relation(neighboring_relation)
        if not isinstance(monotonic, (bool, np.bool_)):
            raise DTypeError(
                f"monotonic must be a bool, got {type(monotonic).__name__}"
            )
        self._freeze(
            _arguments=(
                ("epsilon", _validate.plain(exact)),
                ("sensitivity", _validate.plain(reach)),
                *more.items(),
                *self._not_default(
                    monotonic=bool(monotonic), neighboring_relation=relation
                ),
            ),
            _epsilon=exact,
            _sensitivity=reach,
            _monotonic=bool(monotonic),
            _rate=_selection.rate_of(exact, reach, monotonic=bool(monotonic)),
            _relation=require_monotonic_relation(bool(monotonic), relation),
        )

    @property
    def sensitivity(self) -> int | float | Fraction:
        """The largest change of any one score by one individual, exact."""
        return _validate.plain(self._sensitivity)

    @property
    def monotonic(self) -> bool:
        """Whether adding a record moves all scores the same way, as the caller says."""
        return self._monotonic

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation for which the sensitivity holds."""
        return self._relation

    @abstractmethod
    def _single(self, relation: NeighboringRelation) -> Event:
        """Return the event of one choice from one set of candidates."""

    def event(self, *, rows: int = 1) -> Event:
        """Return the event of a call with `rows` sets of candidates.

        Parameters
        ----------
        rows : int
            Number of sets of candidates in the call, >= 1; one choice is made from
            each.
        """
        return self._composed(_validate.integer("rows", rows, 1))

    def _composed(self, count: int) -> Event:
        event = self._single(self._relation)
        return event if count == 1 else SelfComposedEvent(event, count)


def require_monotonic_relation(
    monotonic: bool, neighboring_relation: Relation
) -> NeighboringRelation:
    """Return the relation; refuse monotonic scores unless it is add-or-remove."""
    relation = as_relation(neighboring_relation)
    if relation is not ADD and monotonic:
        raise ParameterError(
            "neighboring_relation must be ADD_OR_REMOVE_ONE with monotonic=True, "
            f"got {relation!r}"
        )
    return relation


class ExponentialMechanism(Selection):
    """Choice of a candidate with probability proportional to exp(c score).

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        Epsilon of one choice, > 0.
    sensitivity : int, float, Fraction or Decimal
        > 0: the most that one individual changes any one score, in the unit of the
        scores.
    monotonic : bool
        Whether adding a record moves all scores the same way (counts, for example).
        Then c = epsilon/sensitivity; otherwise c = epsilon/(2 sensitivity).
    neighboring_relation : NeighboringRelation
        The relation for which the sensitivity holds; `monotonic` requires
        ADD_OR_REMOVE_ONE.

    Raises
    ------
    DTypeError, ParameterError
        A parameter has the wrong type or is not positive, or the ratio of epsilon and
        sensitivity is below 2**-899 or above 2**899.

    Privacy
    -------
    One choice: pure epsilon, and bounded range: the privacy losses of all outcomes lie
    in an interval of length epsilon. Both hold under the neighboring relation of the
    sensitivity; with `monotonic` only for adding or removing one record. k choices, or
    several rows, compose: `event(k=..., rows=...)`. Exact: even across a large gap
    between scores, no probability is 0.

    References
    ----------
    McSherry, Talwar, FOCS 2007. Dong, Durfee, Rogers, "Optimal differential privacy
    composition for exponential mechanisms", ICML 2020. docs/proofs/selection.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.ExponentialMechanism(epsilon=1, sensitivity=1, monotonic=True)
    >>> m
    ExponentialMechanism(epsilon=1, sensitivity=1, monotonic=True)
    >>> int(m.select(np.array([3, 1000, 5])))
    1
    >>> m.event(k=2).count
    2
    """

    __slots__ = ("_law",)

    _law: _core.Selection

    def __init__(
        self,
        epsilon: Real,
        *,
        sensitivity: Real,
        monotonic: bool = False,
        neighboring_relation: Relation = ADD,
    ) -> None:
        self._freeze_selection(epsilon, sensitivity, monotonic, neighboring_relation)
        self._freeze(_law=_core.Selection(self._rate))

    def _single(self, relation: NeighboringRelation) -> Event:
        return ExponentialMechanismEvent(self._epsilon, neighboring_relation=relation)

    def event(self, *, k: int = 1, rows: int = 1) -> Event:
        """Return the event of a call: k choices from each of `rows` sets.

        Parameters
        ----------
        k : int
            Number of choices from each set of candidates, >= 1.
        rows : int
            Number of sets of candidates in the call, >= 1.
        """
        count = _validate.integer("k", k, 1) * _validate.integer("rows", rows, 1)
        return self._composed(count)

    def pmf(self, scores: Any, *, axis: int = -1) -> _Array:
        """Return the probability of each candidate, to double precision.

        The result is as private as the scores: use it for teaching and tests only.

        Parameters
        ----------
        scores, axis
            As in `select`.

        Returns
        -------
        ndarray of float64
            The shape is that of `scores`; the entries sum to 1 along `axis`.

        Raises
        ------
        DTypeError, ParameterError
            As in `select`.

        Examples
        --------
        >>> import numpy as np
        >>> import fastdp
        >>> m = fastdp.ExponentialMechanism(2, sensitivity=1)
        >>> m.pmf(np.array([0, 1, 2])).round(4).tolist()
        [0.09, 0.2447, 0.6652]
        """
        if is_data(scores):
            scores, _ = enter("scores", scores, real=None)
        matrix, shape = _selection.scores_of("scores", scores, axis)
        with np.errstate(all="ignore"):
            known = np.minimum(matrix.astype(np.float64), np.finfo(np.float64).max)
            absent = ~(known > -np.inf)
            known[absent] = -np.inf
            best = known.max(axis=1, keepdims=True)
            best[best == -np.inf] = 0
            mass = np.exp((known - best) * float(self._rate))
        mass[absent.all(axis=1)] = 1  # uniform if no weight is left
        mass /= mass.sum(axis=1, keepdims=True)
        whole: _Array = np.moveaxis(mass.reshape(*shape, -1), -1, axis)
        return whole

    def select(
        self,
        scores: Any,
        *,
        weights: Any = None,
        k: int = 1,
        axis: int = -1,
        method: Method = "auto",
        stream: Stream | None = None,
        workers: int = 1,
    ) -> Any:
        """Return the index of a candidate, or of k different ones.

        Parameters
        ----------
        scores : ndarray of float64, float32 or integers (not uint64), or column
            Utilities; a matrix gives a choice for each slice along `axis`. The same
            kinds of columns as in `DiscreteLaplace.release`: a null counts as 0. NaN
            and -infinity count as weight 0, +infinity as the largest double; if every
            remaining weight is 0 the choice is uniform. The sensitivity must hold for
            the scores as given.
        weights : array or nested sequence of int, float, Fraction or Decimal, optional
            >= 0, at their exact values; the shape must broadcast to that of
            `scores`. Probabilities are proportional to weight * exp(c score). The
            weights must not depend on the data unless the analysis covers it.
        k : int
            Number of choices without replacement, returned in the order of choice; at
            most the number of candidates.
        axis : int
            Axis of the candidates.
        method : {"auto", "inverse", "gumbel"}
            How several candidates are chosen; both methods have the same law. "inverse"
            sums the weights (k <= 4096). "gumbel" adds noise to every score and takes
            the k largest, up to a full ranking. A single candidate is always chosen by
            integer upper bounds of the weights and exact acceptance.
        stream : Stream, optional
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads, over rows; the output of a fixed stream does not depend on it.

        Returns
        -------
        numpy.int64 or ndarray of int64
            The shape is that of `scores` without `axis`, with a last axis of length k
            if k > 1.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or shape, k above the number of candidates, no candidate, or
            negative or infinite weights. Never raised for a score.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event(k=k, rows=...)`. Exact. Timing class T2: independent of
        scores, weights and choices, except for rare cases that need an exact step: a
        random word near a boundary or, for one choice, two rejected tries (probability
        at most 2**-41.4 for 10**6 candidates, for all scores and weights).
        docs/proofs/selection.md bounds their probability. For several choices, memory
        addresses depend on them. The interpreter converts `weights` that are Python
        objects.
        """
        check_stream(stream)
        if (
            type(k) is int
            and k == 1
            and type(axis) is int
            and axis == -1
            and type(workers) is int
            and workers >= 1
            and method in ("auto", "inverse", "gumbel")
        ):
            chosen = _core.select_one(self._law, scores, weights, stream)
            if chosen is not None:
                return chosen
        return self._select(scores, weights, k, axis, method, stream, workers)

    def _select(
        self,
        scores: Any,
        weights: Any,
        k: int,
        axis: int,
        method: Method,
        stream: Stream | None,
        workers: int,
    ) -> Any:
        workers = _validate.integer("workers", workers, 1)
        choice, shape = choice_of(self._rate, scores, weights, axis)
        n = choice.scores.shape[1]
        k = _validate.integer("k", k, 1, n)
        if method not in ("auto", "inverse", "gumbel"):
            raise ParameterError(
                f'method must be "auto", "inverse" or "gumbel", got {method!r}'
            )
        if method == "auto":
            method = "inverse" if k <= _core.SELECT_MOST else "gumbel"
        if method == "inverse" and k > _core.SELECT_MOST:
            raise ParameterError(
                f'k must be <= {_core.SELECT_MOST} with method="inverse", got {k}'
            )
        if k == 1:
            chosen = _selection.propose(choice, stream, workers)
        elif method == "inverse":
            chosen = _selection.inverse(choice, k, stream, workers)
        else:
            chosen = _ranking.ranking(choice, k, stream)
        return chosen.reshape(shape)[()] if k == 1 else chosen.reshape(*shape, k)

    def select_stream(
        self, chunks: Iterable[_Array], *, stream: Stream | None = None
    ) -> np.int64:
        """Return the index of one candidate from scores that arrive in pieces.

        One pass in the memory of one piece: only the candidate with the largest noisy
        score so far is stored (`method="gumbel"`).

        Parameters
        ----------
        chunks : iterable of ndarray
            Scores of consecutive candidates, one-dimensional arrays as in `select`.
        stream : Stream, optional
            As in `select`.

        Returns
        -------
        numpy.int64
            Index in the whole sequence.

        Raises
        ------
        DTypeError, ParameterError, EntropyError
            As in `select`; also raised if there is no candidate.

        Privacy
        -------
        The guarantee is `event()`. Exact. Timing class T2 within a piece; between
        pieces two candidates are compared by exact integers, whose time depends on
        their scores.
        """
        check_stream(stream)
        with _core.Call(stream) as call:
            race = _ranking.LongRace(self._rate, "gumbel", call)
            for chunk in chunks:
                piece = (
                    enter("chunks", chunk, real=None)[0] if is_data(chunk) else chunk
                )
                if not isinstance(piece, np.ndarray) or piece.ndim != 1:
                    raise DTypeError("chunks must be one-dimensional arrays")
                if piece.size:
                    race.enter(_selection.scores_of("chunks", piece)[0])
            return np.int64(race.winner())


def choice_of(
    rate: Fraction, scores: Any, weights: Any, axis: int, name: str = "scores"
) -> tuple[Choice, tuple[int, ...]]:
    """Return checked candidates, and the shape of the choices."""
    one_index(**{name: scores, "weights": weights})
    if is_data(scores):
        scores, _ = enter(name, scores, real=None)
    matrix, shape = _selection.scores_of(name, scores, axis)
    if weights is not None and not isinstance(weights, _selection.Weights):
        axis = axis % np.ndim(scores)
        weights = _selection.Weights.of("weights", weights, np.shape(scores), axis)
    return Choice(rate, matrix, weights), shape
