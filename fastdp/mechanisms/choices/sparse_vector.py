"""The sparse vector technique: find which of many answers exceed a threshold.

The threshold gets noise once, and every answer gets its own noise. The cost grows with
the number of answers above the threshold; answers below it are free. Values, threshold
and noise are integers on one public grid, where they are compared exactly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _laws, _validate, calibration
from fastdp._doorway import enter, is_data
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    NeighboringRelation,
    PureDPEvent,
    Relation,
)
from fastdp.exceptions import BudgetExceededError, DTypeError, ParameterError
from fastdp.mechanisms._memory import Remembering
from fastdp.mechanisms.choices.selection import ADD, require_monotonic_relation
from fastdp.mechanisms.noise._grid import power_of_two, saturated
from fastdp.mechanisms.noise.integer import DiscreteLaplace
from fastdp.mechanisms.noise.real import Laplace

_Array: TypeAlias = "np.ndarray[Any, Any]"
#: Clamp values to this many steps, so that sums with noise stay within int64.
_MOST_STEPS = 2**60

#: Range of scales, in steps: noise reaches 2**62 with probability below 2**-5900.
_SCALES = (Fraction(1, 2**16), Fraction(2**50))

#: Maximum number of answers above the threshold from one object.
_MOST_ANSWERS = 2**20


class SparseVector(Remembering):
    """Test which answers exceed a threshold; only answers above it cost budget.

    This is the only mechanism with a memory. The constructor draws the threshold's
    noise. The object answers any number of queries below the threshold and is spent
    after `answers` queries above it; the noisy threshold is then wiped.

    Parameters
    ----------
    threshold : int, float, Fraction or Decimal
        Public threshold of the queries, in their unit.
    epsilon : int, float, Fraction or Decimal
        Pure epsilon of all comparisons together, > 0.
    sensitivity : int, float, Fraction or Decimal
        > 0; the most that one individual changes any one query, in the query's unit.
    answers : int
        In [1, 2**20]; after this number of answers above the threshold, the object is
        spent.
    monotonic : bool
        Whether one individual moves all queries in the same direction, as with counts.
        Half the noise is then enough.
    neighboring_relation : NeighboringRelation
        The relation for which the sensitivity holds; `monotonic` requires
        ADD_OR_REMOVE_ONE.
    numeric_epsilon : int, float, Fraction or Decimal, optional
        Pure epsilon, > 0, for the noisy values that `answer` gives; charged on top.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid, a power of two; None takes about 2**-40 of the noise.
    stream : Stream, optional
        Source of the threshold's noise. None draws a fresh key from the operating
        system; use `fastdp.testing.FixedStream` for repeatable tests.

    Raises
    ------
    DTypeError, ParameterError, CalibrationError
        A parameter has a wrong type or is out of its range.
    EntropyError
        The operating system gave no randomness.

    Privacy
    -------
    Pure epsilon + numeric_epsilon for all answers of one object together, even if
    queries are chosen after seeing earlier answers, under the neighboring relation of
    the sensitivity; with `monotonic` only for adding or removing one record. `event`
    states this cost, whether or not all answers are used. Exact: the noise is discrete
    on a public grid, and the sensitivity includes the rounding to the grid. Charge the
    cost when the object is made. An object refuses to be copied, pickled or used in a
    forked child; threads may share it.

    References
    ----------
    Lyu, Su, Li, "Understanding the sparse vector technique for differential
    privacy", VLDB 2017, Algorithm 1 and section 4. docs/proofs/sparse_vector.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> vector = fastdp.SparseVector(
    ...     threshold=1000, epsilon=1, sensitivity=1, answers=2
    ... )
    >>> vector.test(5)
    np.False_
    >>> vector.test(np.array([10, 5000, 20, 7000, 9000])).tolist()
    [False, True, False, True]
    >>> vector.remaining
    0
    """

    __slots__ = (
        "_monotonic",
        "_noisy_threshold",
        "_numeric",
        "_query_noise",
        "_relation",
        "_remaining",
        "_step",
        "_threshold_scale",
        "_total",
    )

    _called = "a sparse vector"
    _because = "its threshold's noise is drawn once"

    _monotonic: bool
    _noisy_threshold: _Array
    _numeric: Laplace | None
    _query_noise: DiscreteLaplace
    _relation: NeighboringRelation
    _remaining: int
    _step: Fraction
    _threshold_scale: Fraction
    _total: Fraction

    def __init__(
        self,
        threshold: Real,
        *,
        epsilon: Real,
        sensitivity: Real,
        answers: int = 1,
        monotonic: bool = False,
        neighboring_relation: Relation = ADD,
        numeric_epsilon: Real | None = None,
        granularity: Real | None = None,
        stream: Stream | None = None,
    ) -> None:
        check_stream(stream)
        exact_threshold = _validate.exact("threshold", threshold)
        total = _validate.positive("epsilon", epsilon)
        exact_sensitivity = _validate.positive("sensitivity", sensitivity)
        answers = _validate.integer("answers", answers, 1, _MOST_ANSWERS)
        if not isinstance(monotonic, bool):
            raise DTypeError(
                f"monotonic must be a bool, got {type(monotonic).__name__}"
            )
        relation = require_monotonic_relation(monotonic, neighboring_relation)
        first, second, factor = _shares(total, answers, monotonic)
        step = _grid_of(exact_threshold, exact_sensitivity / first, granularity)
        # Rounding to the grid adds at most one step to the distance of two values.
        moved = int(exact_sensitivity / step) + 1
        scales = moved / first, factor * moved / second
        if not _SCALES[0] <= min(scales) <= max(scales) <= _SCALES[1]:
            raise ParameterError(
                "granularity must give noise of 2**-16 to 2**50 steps, got "
                f"{float(step)!r}"
            )
        numeric = None
        if numeric_epsilon is not None:
            extra = _validate.positive("numeric_epsilon", numeric_epsilon)
            total += extra
            numeric_epsilon = _validate.plain(extra)
            numeric = Laplace.from_epsilon(
                extra / answers, sensitivity=exact_sensitivity, coordinates=1
            )
        arguments: list[tuple[str, Any]] = [
            ("threshold", _validate.plain(exact_threshold)),
            ("epsilon", _validate.plain(_validate.exact("epsilon", epsilon))),
            ("sensitivity", _validate.plain(exact_sensitivity)),
            ("answers", answers),
            ("monotonic", monotonic),
            ("numeric_epsilon", numeric_epsilon),
            ("granularity", _validate.plain(step)),
        ]
        if relation is not ADD:
            arguments.append(("neighboring_relation", relation))
        noisy = np.zeros(1, np.int64)
        noisy[0] = round(exact_threshold / step)
        sampler = _laws.laplace_sampler(scales[0])
        _arrays.fill(sampler, noisy, noisy, stream, 1)
        self._freeze(
            _arguments=tuple(arguments),
            _monotonic=monotonic,
            _noisy_threshold=noisy,
            _numeric=numeric,
            _query_noise=DiscreteLaplace(scales[1]),
            _relation=relation,
            _remaining=answers,
            _step=step,
            _threshold_scale=scales[0],
            _total=total,
        )
        self._settle()

    # ---- what is public --------------------------------------------------------------

    @property
    def remaining(self) -> int:
        """The number of answers above the threshold that are left."""
        return self._remaining

    @property
    def spent(self) -> bool:
        """Whether no answer is left."""
        return self._remaining == 0

    @property
    def granularity(self) -> int | float | Fraction:
        """Step of the grid, in the queries' unit: a power of two."""
        return _validate.plain(self._step)

    @property
    def threshold_scale(self) -> int | float | Fraction:
        """Laplace scale of the threshold's noise, in the queries' unit, exact."""
        return _validate.plain(self._threshold_scale * self._step)

    @property
    def query_scale(self) -> int | float | Fraction:
        """Laplace scale of each query's noise, in the queries' unit, exact."""
        return _validate.plain(Fraction(self._query_noise.scale) * self._step)

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation for which the sensitivity holds."""
        return self._relation

    def event(self) -> PureDPEvent:
        """Return the event of all answers of this object together."""
        return PureDPEvent(self._total, neighboring_relation=self._relation)

    # ---- what is answered ------------------------------------------------------------

    def test(self, values: Any, *, stream: Stream | None = None) -> Any:
        """Test whether each noisy value exceeds the noisy threshold.

        Parameters
        ----------
        values : float, int, ndarray of float64, float32 or integers (not uint64)
            The exact answers of the queries: a scalar, or a one-dimensional array or
            column (as for `DiscreteLaplace.release`), processed in order. Integers
            beyond 2**53 are clamped to it, NaN and nulls count as 0, and values beyond
            2**60 steps of the grid, including infinities, are clamped to that; the
            sensitivity must hold after this mapping.
        stream : Stream, optional
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.

        Returns
        -------
        numpy.bool or ndarray of bool
            The array is shorter than `values` if one of them uses up the last answer:
            it then ends at that value.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or shape. Never raised for a value of the data.
        BudgetExceededError
            No answer is left, or this is a forked child of the process that made the
            object. Nothing is answered.
        EntropyError
            The operating system gave no randomness. Nothing is answered.

        Privacy
        -------
        The guarantee of `event` covers any number of calls. Exact. Timing class T1: the
        time depends on the values only through the answers (except that the interpreter
        converts Python ints).
        """
        check_stream(stream)
        queries = _queries(values)
        with self._usable():
            above = self._compare(_core.flat(queries), stream)
        return above if queries.ndim else above[0]

    def answer(self, values: Any, *, stream: Stream | None = None) -> Any:
        """Return the noisy values of the queries above the threshold, NaN for others.

        The parameters are as in `test`. The noise of a value is fresh, so the value
        reveals no more about the comparison than the answer of the comparison does.

        Returns
        -------
        numpy.float64 or ndarray of float64
            As in `test`, with a value instead of True and NaN instead of False.

        Raises
        ------
        ParameterError
            The object was made without `numeric_epsilon`; also as in `test`.
        DTypeError, BudgetExceededError, EntropyError
            As in `test`; after an `EntropyError` the answers are spent.

        Privacy
        -------
        As in `test`. The values come from `Laplace`, with `numeric_epsilon`/answers for
        each; `event` includes them. Timing class T1, as in `test`.
        """
        check_stream(stream)
        if self._numeric is None:
            raise ParameterError("numeric_epsilon must be given for noisy values")
        queries = _queries(values)
        with self._usable():
            above = self._compare(_core.flat(queries), stream)
            answered = np.full(above.shape, np.nan)
            shown = _clamped(
                _core.flat(queries)[: above.size][above], float(self._step)
            )
            answered[above] = self._numeric.release(shown, stream=stream)
        return answered if queries.ndim else answered[0]

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        """Hold the lock during one call; refuse other processes."""
        # Check before locking: a lock that another thread held at the time of a fork
        # stays locked in the child.
        self._require_home()
        with self._lock:
            if self._remaining == 0:
                raise BudgetExceededError(
                    "the sparse vector has given all its answers above the threshold"
                )
            yield
            # Check again: a signal handler may have forked during the call.
            self._require_home()

    def _compare(self, queries: _Array, stream: Stream | None) -> _Array:
        """Compare with the noisy threshold until the answers are used up."""
        noisy = _steps(queries, float(self._step))
        try:
            self._query_noise.release(noisy, out=noisy, stream=stream)
            above: _Array = noisy >= self._noisy_threshold[0]
        finally:
            _core.zero(noisy)
        hits = np.flatnonzero(above)
        left = self._remaining
        if len(hits) >= left:
            above = above[: hits[left - 1] + 1]
        self._freeze(_remaining=left - min(len(hits), left))
        if self._remaining == 0:
            self._wipe()
        return above

    def _wipe(self) -> None:
        _core.zero(self._noisy_threshold)


def _shares(
    epsilon: Fraction, answers: int, monotonic: bool
) -> tuple[Fraction, Fraction, int]:
    """Return epsilons of threshold and queries, and the sensitivities per query.

    The ratio 1 : factor^(2/3) minimizes the variance of the difference of the two
    noises. Any ratio is private, so it may be rounded.
    """
    factor = answers if monotonic else 2 * answers
    ratio = Fraction(round(factor ** (2 / 3) * 2**16), 2**16)
    first = epsilon / (1 + ratio)
    return first, epsilon - first, factor


def _grid_of(
    threshold: Fraction, scale: Fraction, granularity: Real | None
) -> Fraction:
    """Return the grid's step: about 2**-40 of the noise, and fit for the threshold."""
    if granularity is None:
        steps = [calibration.grid_granularity(scale)]
        if threshold:
            steps.append(calibration.grid_granularity(abs(threshold)) / 2**19)
        return power_of_two(max(steps))
    step = power_of_two(granularity)
    if abs(threshold) > step * _MOST_STEPS / 2:
        raise ParameterError(
            "granularity must be at least threshold/2**59, got "
            f"{_validate.plain(step)!r}"
        )
    return step


def _queries(values: Any) -> _Array:
    """Return the values as float64; a scalar gives an array without dimensions."""
    if is_data(values):
        values, _ = enter("values", values, real=None)
    if isinstance(values, np.ndarray):
        if values.ndim > 1:
            raise ParameterError(
                f"values must have at most one dimension, got {values.ndim}"
            )
        found = _arrays.data("values", values, real=values.dtype.kind == "f")
        return _as_float64(found)
    if isinstance(values, (float, np.float32)):
        return _as_float64(np.asarray(values))
    if isinstance(values, (bool, np.uint64, np.timedelta64)) or not isinstance(
        values, (int, np.integer)
    ):
        raise DTypeError(
            "values must be a number or an array of floats or of integers (not "
            f"uint64), got {type(values).__name__}"
        )
    return np.array(saturated(int(values)), np.float64)


def _as_float64(values: _Array) -> _Array:
    if values.dtype == np.int64:
        values = np.clip(values, -(2**53), 2**53)
    # The caller may have set numpy to raise errors: a signaling NaN would.
    with np.errstate(all="ignore"):
        return values.astype(np.float64)


def _clamped(queries: _Array, step: float) -> _Array:
    """Clamp the queries to the range of the grid, with NaN as 0."""
    reach = _MOST_STEPS * step
    with np.errstate(all="ignore"):
        return np.clip(np.where(np.isnan(queries), 0.0, queries), -reach, reach)


def _steps(queries: _Array, step: float) -> _Array:
    """Return the nearest points of the grid, clamped to its range."""
    # Exact: the division is by a power of two, or the quotient is so small that rint
    # gives 0. Clamp first: no value then sets a processor flag, which would take time.
    with np.errstate(all="ignore"):
        return np.rint(_clamped(queries, step) / step).astype(np.int64)
