"""Compute any statistic on blocks of records and aggregate the blocks' results."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _validate
from fastdp import random as fdp_random
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    ApproximateDPEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    NeighboringRelation,
    Relation,
    as_relation,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import ADD, Mechanism
from fastdp.mechanisms._keys import distinct, key_column
from fastdp.mechanisms.choices._column_grid import (
    check_bounds,
    on_grid,
    points_within,
    step_of,
)
from fastdp.mechanisms.choices.quantile import Quantiles
from fastdp.mechanisms.choices.stability import ProposeTestRelease, distance_of, winner
from fastdp.mechanisms.noise.integer import DiscreteLaplace

_Array = np.ndarray[Any, Any]
_R = NeighboringRelation.REPLACE_ONE

_AGGREGATES = ("mean", "median", "mode")
_MOST_BLOCKS = 2**20

#: Largest sum of the blocks' results, in steps: an int64 before its noise.
_MOST_SUM = 2**62


class SubsampleAggregate(Mechanism):
    """Private aggregate of a caller's statistic over blocks of records.

    Records are assigned to blocks without reading their values, the statistic is
    computed on each block, the results are clamped to the bounds and rounded to a grid,
    and their mean, median or most frequent value is released. Nothing about the
    statistic needs to be known.

    Parameters
    ----------
    blocks : int
        Number of blocks, 1 ... 2**20. More blocks have less noise but fewer records
        each.
    bounds : tuple of two real numbers
        The range of the statistic, (low, high), low < high; public.
    epsilon : int, float, Fraction or Decimal
        > 0, of one release.
    aggregate : {"mean", "median", "mode"}
        Aggregate of the blocks' results: the mean with discrete Laplace noise; the
        median by `Quantiles`; or the mode by the test of `StableMode`, which releases
        the mode without noise or nothing, and needs a `delta` and a coarse grid.
    delta : int, float, Fraction or Decimal, optional
        > 0 and < 1, only for the mode.
    default : int, float, Fraction or Decimal, optional
        Public result, within the bounds, of an empty block and of a block with a failed
        or NaN statistic. None takes the lower bound.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid of results, a power of two; None takes about 2**-40 of the
        range, and 1 for the mode. Medians of few blocks are more accurate on a coarse
        grid.
    neighboring_relation : NeighboringRelation
        How datasets differ: ADD_OR_REMOVE_ONE or REPLACE_ONE.
    assignment : str, optional
        What determines a record's block: "place" (its position; positions and the
        number of records are public) or "key" (its user). Required under `REPLACE_ONE`,
        where replacing a record changes one block by place and two by key. Under
        `ADD_OR_REMOVE_ONE` it is "key".

    Privacy
    -------
    Pure epsilon for mean and median, (epsilon, delta) for the mode, under
    `neighboring_relation`. With `keys=` in the release, the guarantee holds for a key
    with all its records. Exact. The caller is responsible for anything a statistic
    reveals besides its result (time, files). Timing class T0.

    References
    ----------
    Nissim, Raskhodnikova, Smith, "Smooth sensitivity and sampling in private data
    analysis", STOC 2007. docs/proofs/stability.md, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.SubsampleAggregate(
    ...     blocks=50, bounds=(0, 10), epsilon=5, aggregate="median", granularity=0.25
    ... )
    >>> x = np.random.default_rng(1).gamma(4, size=5000)
    >>> bool(abs(m.release(x, np.median) - np.median(x)) < 3)
    True
    """

    __slots__ = (
        "_aggregate",
        "_bounds",
        "_changed",
        "_default",
        "_inner",
        "_keyed",
        "_relation",
        "_step",
    )

    _returns_array = False

    _aggregate: str
    _bounds: tuple[int, int]  # first and last point, in steps
    _changed: int  # number of blocks that one record can change
    _default: float
    _inner: DiscreteLaplace | Quantiles | ProposeTestRelease
    _keyed: bool
    _relation: NeighboringRelation
    _step: Fraction

    def __init__(
        self,
        *,
        blocks: int,
        bounds: tuple[Real, Real],
        epsilon: Real,
        aggregate: str,
        delta: Real | None = None,
        default: Real | None = None,
        granularity: Real | None = None,
        neighboring_relation: Relation = ADD,
        assignment: str | None = None,
    ) -> None:
        count = _validate.integer("blocks", blocks, 1, _MOST_BLOCKS)
        low, high = check_bounds(bounds)
        total = _validate.positive("epsilon", epsilon)
        if aggregate not in _AGGREGATES:
            raise ParameterError(
                f"aggregate must be one of {', '.join(_AGGREGATES)}, got {aggregate!r}"
            )
        if (delta is None) == (aggregate == "mode"):
            raise ParameterError(
                'delta must be given with aggregate="mode", and left out with others'
            )
        if granularity is None and aggregate == "mode":
            granularity = 1
        step = step_of(low, high, granularity)
        first, last = points_within((low, high), step)
        if first == last:
            raise ParameterError("granularity must have two multiples within bounds")
        empty = first * step
        if default is not None:
            empty = _validate.between("default", default, low, high)
        relation = as_relation(neighboring_relation)
        if relation not in (ADD, _R):
            raise ParameterError(
                "neighboring_relation must be ADD_OR_REMOVE_ONE or REPLACE_ONE, got "
                f"{relation!r}"
            )
        # Import here, so that other mechanisms do not load the calculators.
        from fastdp.accounting.calculators._classics import parts_changed

        changed = min(count, parts_changed(assignment, relation))
        inner: DiscreteLaplace | Quantiles | ProposeTestRelease
        if aggregate == "mean":
            if count * (last - first) > _MOST_SUM:
                raise ParameterError(
                    "granularity must be at least blocks/2**62 of the range for a mean"
                    f", got {_validate.plain(step)!r}"
                )
            reach = changed * (last - first)
            inner = DiscreteLaplace(reach / total, sensitivity=reach)
        elif aggregate == "median":
            inner = Quantiles(
                Fraction(1, 2),
                bounds=(first * step, last * step),
                epsilon=total / changed,
                granularity=step,
                neighboring_relation=_R,
            )
        else:
            assert delta is not None
            inner = ProposeTestRelease(epsilon=total, delta=delta, mechanism=None)
        optional = (
            ("delta", None if delta is None else _validate.exact("delta", delta)),
            ("default", None if default is None else empty),
        )
        self._freeze(
            _arguments=(
                ("blocks", count),
                ("bounds", (_validate.plain(low), _validate.plain(high))),
                ("epsilon", _validate.plain(total)),
                ("aggregate", aggregate),
                *((n, _validate.plain(v)) for n, v in optional if v is not None),
                ("granularity", _validate.plain(step)),
                *((("neighboring_relation", relation),) if relation != ADD else ()),
                *((("assignment", assignment),) if assignment is not None else ()),
            ),
            _aggregate=aggregate,
            _bounds=(first, last),
            _changed=changed,
            _default=float(empty),
            _inner=inner,
            _keyed=relation is ADD or assignment == "key",
            _relation=relation,
            _step=step,
        )

    def event(self) -> Event:
        """Return the event of one release."""
        stated = dict(self._arguments)
        epsilon = _validate.exact("epsilon", stated["epsilon"])
        relation = self._relation
        if isinstance(self._inner, DiscreteLaplace):
            noise = self._inner.event()
            return DiscreteLaplaceEvent(
                sensitivity=noise.sensitivity,
                scale=noise.scale,
                neighboring_relation=relation,
            )
        if self._aggregate == "median":
            # One block's selection has bounded range; the ranges of two add up.
            return ExponentialMechanismEvent(epsilon, neighboring_relation=relation)
        return ApproximateDPEvent(
            epsilon=epsilon, delta=stated["delta"], neighboring_relation=relation
        )

    def release(
        self,
        records: Any,
        statistic: Callable[..., Any],
        *,
        keys: Any = None,
        stream: Stream | None = None,
    ) -> Any:
        """Return the aggregate of the statistic's results.

        Parameters
        ----------
        records : ndarray, or sequence of ndarrays of one length
            One record for each entry of the first axis. A sequence holds columns: the
            statistic gets one argument per column.
        statistic : callable
            Maps the records of a block to a number. It must use only these records: no
            cache, counter or seeded generator that other blocks share. If it raises an
            exception or returns NaN, the result is the default; only exceptions that
            end the interpreter propagate. Its warnings are not shown.
        keys : column of integers or strings, optional
            The user of each record: all records of a key are in one block. Only for
            mechanisms with assignment "key". A record without a key (None, NaN) is in
            no block.
        stream : Stream, optional
            None draws fresh keys from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.

        Returns
        -------
        numpy.float64, or None
            Within the bounds and on the grid (for the mean, a grid `blocks` times
            finer); None if no mode is stable.

        Raises
        ------
        DTypeError, ParameterError
            A wrong type, dtype or shape. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event()`. Timing class T0: the time includes the statistic's.
        """
        check_stream(stream)
        if not callable(statistic):
            raise DTypeError(
                f"statistic must be callable, got {type(statistic).__name__}"
            )
        columns = _columns(records)
        block = self._dealt(len(columns[0]), keys, stream)
        points = self._results(columns, block, statistic)
        first, last = self._bounds
        inner = self._inner
        if isinstance(inner, ProposeTestRelease):
            found, place = distinct(points)
            best, lead = winner(np.bincount(place))
            far = distance_of(lead, 2 * self._changed)  # results are replaced
            shown = inner.release(best, distance=far, stream=stream)
            return None if shown is None else self._value(int(found[shown]) + first)
        if isinstance(inner, Quantiles):
            values = (points + first) * float(self._step)
            return inner.release(values, stream=stream)
        # Saturating the noisy sum is post-processing; the noise must not saturate.
        total = int(inner.release(sum(points.tolist()), stream=stream))
        mean = Fraction(total, len(points))
        return self._value(first + min(max(mean, Fraction(0)), Fraction(last - first)))

    def _dealt(self, n: int, keys: Any, stream: Stream | None) -> _Array:
        """Return the block of each record, -1 for none."""
        count = dict(self._arguments)["blocks"]
        if not self._keyed:
            if keys is not None:
                raise ParameterError('keys must not be given with assignment="place"')
            dealt: _Array = fdp_random.permutation(n, stream=stream) % count
            return dealt
        if keys is None:
            return _drawn(count, n, stream)
        listed, known = key_column("keys", keys)
        if listed.shape != (n,):
            raise ParameterError(f"keys must have shape ({n},), got {listed.shape}")
        found, place = distinct(listed[known])
        block = np.full(n, -1, np.int64)
        block[known] = _drawn(count, len(found), stream)[place]
        return block

    def _results(
        self, columns: list[_Array], block: _Array, statistic: Callable[..., Any]
    ) -> _Array:
        """Return each block's result as the index of its point on the grid, from 0."""
        count = dict(self._arguments)["blocks"]
        order = np.argsort(block, kind="stable")
        ends = np.searchsorted(block[order], np.arange(count + 1))
        found = np.full(count, self._default)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for i in range(count):
                part = order[ends[i] : ends[i + 1]]
                if len(part):
                    try:
                        result = float(statistic(*(column[part] for column in columns)))
                    except Exception:  # its type and message may reveal data
                        continue
                    if not math.isnan(result):
                        found[i] = result
        return on_grid(found, *self._bounds, float(self._step))

    def _value(self, point: int | Fraction) -> np.float64:
        return np.float64(float(point * self._step))


def _columns(records: Any) -> list[_Array]:
    """Return the records' columns; checks read only their types and shapes."""
    columns = [records] if isinstance(records, np.ndarray) else records
    if not isinstance(columns, Sequence) or not all(
        isinstance(column, np.ndarray) for column in columns
    ):
        raise DTypeError(
            "records must be an ndarray or a sequence of ndarrays, got "
            f"{type(records).__name__}"
        )
    lengths = {column.shape[:1] for column in columns}
    if len(lengths) != 1 or lengths == {()}:
        raise ParameterError("records must be arrays of the same length, at least 1")
    return list(columns)


def _drawn(blocks: int, n: int, stream: Stream | None) -> _Array:
    """Return n independent, uniform blocks: one key does not change another's block."""
    found: _Array = fdp_random.integers(blocks, size=n, stream=stream)
    return found
