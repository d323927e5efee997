"""Quantiles by the exponential mechanism, exactly, on a public grid.

Each record is rounded to a point of a grid. The sorted records cut the grid into
intervals whose points all have the same rank. One interval is chosen, weighted by its
number of points, and then a uniform point in the interval. Together the two steps are
the exponential mechanism over all points of the grid, with integer scores and weights.

Several quantiles are found by halving: first the middle quantile, then the lower
quantiles among the records below it and the upper quantiles among the records above,
and so on. A record takes part in one choice per level.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _doorway, _validate
from fastdp import random as fdp_random
from fastdp._doorway import enter, is_data, one_index
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    Event,
    ExponentialMechanismEvent,
    NeighboringRelation,
    PureDPEvent,
    Relation,
    SelfComposedEvent,
    as_relation,
)
from fastdp.accounting.guarantees import event_delta, event_epsilon
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.choices._column_grid import (
    check_bounds,
    on_grid,
    points_within,
    step_of,
)
from fastdp.mechanisms.choices._quantile_tree import DENOMINATOR, Node, fill, tree
from fastdp.mechanisms.records._totals import group_codes

_Array: TypeAlias = "np.ndarray[Any, Any]"
_ADD = NeighboringRelation.ADD_OR_REMOVE_ONE

#: Random bits that break ties between records if several quantiles split them.
_TIE_BITS = 20


class Quantiles(Mechanism):
    """Quantiles of a column by the exponential mechanism.

    Parameters
    ----------
    q : float, int, Fraction or Decimal, or a sequence or one-dimensional array of them
        The quantiles, each in [2**-20, 1 - 2**-20], in any order; 0.5 is the median.
        Each is rounded to the nearest fraction with a denominator of at most 2**20, so
        that 0.1 is 1/10.
    bounds : tuple of two real numbers
        The range of the column, (low, high), low < high, in the values' unit; public.
        Values are clamped to it. Wide bounds cost little: the error grows with the
        logarithm of the range.
    epsilon : int, float, Fraction or Decimal
        Pure epsilon of a release, > 0, for all its quantiles together.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid of float values, a power of two; None takes about 2**-40 of the
        range. The step of integers is 1.
    groups : int, optional
        Number of public groups, each with its own quantiles; None for the whole column.
    groups_per_unit, records_per_group : int
        Largest number of groups per individual, and of one individual's records in each
        group; `fastdp.bound_contributions` enforces both.
    neighboring_relation : NeighboringRelation
        The relation for which epsilon holds. The number of all records is private only
        under ADD_OR_REMOVE_ONE; the number of records in a group is always private.

    Privacy
    -------
    Pure epsilon under `neighboring_relation`. One quantile is a single selection of
    bounded range with the rank as score; its sensitivity is max(q, 1 - q) if a record
    is added or removed, and 1 if a record is replaced. m quantiles need floor(log2(m))
    + 1 selections, one per level, each with an equal share of epsilon. An individual
    with r records in each of k groups takes part in k times as many selections (2 k
    times if replaced), and the epsilon of each selection for one record is 1/r of the
    selection's share. Exact.

    References
    ----------
    Smith, "Privacy-preserving statistical estimation with optimal convergence
    rates", STOC 2011. Kaplan, Schnapp, Stemmer, "Differentially private approximate
    quantiles", ICML 2022 (several at once). docs/proofs/quantiles.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.Quantiles(q=(0.25, 0.5, 0.75), bounds=(0, 120), epsilon=2)
    >>> m.release(np.arange(100).repeat(50)).shape
    (3,)
    >>> m.levels
    2
    """

    __slots__ = (
        "_bounds",
        "_count",
        "_groups",
        "_levels",
        "_order",
        "_relation",
        "_root",
        "_selections",
        "_step",
        "_total",
    )

    _bounds: tuple[Fraction, Fraction]
    _count: int
    _groups: int | None
    _levels: int
    _order: int | list[int]
    _relation: NeighboringRelation
    _root: Node
    _selections: int  # number of selections that one individual takes part in
    _step: Fraction
    _total: Fraction

    def __init__(
        self,
        q: Real | Sequence[Real] | _Array,
        *,
        bounds: tuple[Real, Real],
        epsilon: Real,
        granularity: Real | None = None,
        groups: int | None = None,
        groups_per_unit: int = 1,
        records_per_group: int = 1,
        neighboring_relation: Relation = _ADD,
    ) -> None:
        single = not isinstance(q, (tuple, list, np.ndarray)) or np.ndim(q) == 0
        given = [_target(one) for one in ([q] if single else _listed(q))]
        low, high = check_bounds(bounds)
        neighboring_relation = as_relation(neighboring_relation)
        total = _validate.positive("epsilon", epsilon)
        step = step_of(low, high, granularity)
        shortened = [one.limit_denominator(DENOMINATOR) for one in given]
        targets = sorted(set(shortened))
        levels = len(targets).bit_length()
        if groups is not None:
            groups = _validate.integer("groups", groups, 1, 2**32)
        moved = _validate.integer("groups_per_unit", groups_per_unit, 1, groups or 1)
        records = _validate.integer("records_per_group", records_per_group, 1, 2**31)
        added = _ADD  # relation of one group's records
        if groups is None and records == 1:
            added = neighboring_relation
        elif neighboring_relation is not _ADD:
            # A replaced individual may leave some groups and enter as many others. A
            # record replaced by a null one leaves its group and enters that of nulls.
            moved *= 2
        share = ExponentialMechanismEvent(
            total / (levels * moved * records), neighboring_relation=added
        )
        root = tree(targets, 0, len(targets), (Fraction(0), Fraction(1)), share)
        assert root is not None
        order = [targets.index(one) for one in shortened]
        shown = [_validate.plain(one) for one in given]
        self._freeze(
            _arguments=(
                ("q", shown[0] if single else tuple(shown)),
                ("bounds", (_validate.plain(low), _validate.plain(high))),
                ("epsilon", _validate.plain(total)),
                ("granularity", _validate.plain(step)),
                *self._not_default(
                    groups=groups,
                    groups_per_unit=int(groups_per_unit),
                    records_per_group=records,
                ),
                ("neighboring_relation", neighboring_relation),
            ),
            _bounds=(low, high),
            _count=len(targets),
            _groups=groups,
            _levels=levels,
            _order=order[0] if single else order,
            _relation=neighboring_relation,
            _root=root,
            _selections=levels * moved,
            _step=step,
            _total=total,
        )

    @property
    def levels(self) -> int:
        """The number of selections that one record takes part in."""
        return self._levels

    @property
    def granularity(self) -> int | float | Fraction:
        """Step of the grid of float values, in their unit: a power of two."""
        return _validate.plain(self._step)

    # ---- cost ------------------------------------------------------------------------

    def event(self) -> Event:
        """Return the event of one release: a selection for each level and group."""
        count = self._selections
        one = ExponentialMechanismEvent(
            self._total / count, neighboring_relation=self._relation
        )
        return one if count == 1 else SelfComposedEvent(one, count)

    def epsilon(self, *, delta: Real = 0) -> float:
        """Return an epsilon that one release meets at `delta`, rounded up.

        With several selections the bound follows from their sum; an accountant may find
        a smaller bound for `event`.

        Parameters
        ----------
        delta : int, float, Fraction or Decimal
            >= 0 and < 1; 0 means pure differential privacy.

        Raises
        ------
        DTypeError, ParameterError
            `delta` is out of its domain.
        """
        return event_epsilon(self._pure(), delta)

    def delta(self, epsilon: Real) -> float:
        """Return a delta that one release meets at `epsilon`, rounded up.

        The errors, and the meaning with several selections, are as for `epsilon`.
        """
        return event_delta(self._pure(), epsilon)

    def rho(self) -> float:
        """Return rho of one release (zero-concentrated privacy), rounded up.

        The sum over n selections (levels times groups) is epsilon**2/(8 n).
        """
        return _validate.float_up(self._total**2 / (8 * self._selections))

    def _pure(self) -> Event:
        if self._selections == 1:
            return self.event()
        return PureDPEvent(self._total, neighboring_relation=self._relation)

    # ---- release ---------------------------------------------------------------------

    def release(
        self,
        values: Any,
        *,
        by: Any = None,
        stream: Stream | None = None,
        workers: int = 1,
    ) -> Any:
        """Return the quantiles of the values, or of the values of each group.

        Parameters
        ----------
        values : ndarray of float64, float32 or integers (not uint64), or column
            One entry for each record. Arrays may have any shape; the same columns are
            accepted as by `DiscreteLaplace.release`; lists are read as floats. NaN and
            nulls count as the lower bound, and an infinity counts as the bound on its
            side; floats count as the nearest point of the grid. This mapping changes no
            sensitivity.
        by : column of integers, of the values' shape
            The group of each record, for a mechanism with groups. Records without a
            group (outside [0, groups), or null) and records with value NaN contribute
            nothing; a null value counts as the lower bound here, too. Two pandas
            columns must have the same index.
        stream : Stream, optional
            None draws fresh keys from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads of a selection.

        Returns
        -------
        numpy.float64, numpy.int64, or ndarray of one of them
            Points of the grid within the bounds, in the order of `q`; a larger q gives
            no smaller point. Integers for integer values. Without records, the points
            are uniform over the range. With groups, there is one row per group: shape
            (groups,) or (groups, len(q)).

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or layout; for integer values, bounds that contain no integer
            or more than 2**60 integers. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event()`. Exact: the scores are exact ranks, the weights are
        numbers of points, and the choice within an interval is uniform. Timing class
        T0: the values are sorted, and the time depends on their order and number.
        """
        check_stream(stream)
        one_index(values=values, by=by)
        if isinstance(values, (list, tuple)):
            values = _doorway.records(
                "values", values
            )  # floats, whatever type one record has
        elif is_data(values):
            values, _ = enter("values", values, real=None, null=float(self._bounds[0]))
        real = getattr(getattr(values, "dtype", None), "kind", "") == "f"
        values = _arrays.data("values", values, real=real)
        values, sizes = _by_group(values, by, self._groups)
        workers = _validate.integer("workers", workers, 1)
        first, last = points_within(self._bounds, self._step if real else None)
        records = on_grid(values, first, last, float(self._step) if real else None)
        bits = self._tie_bits(last - first + 1)
        found = np.zeros((len(sizes), self._count), np.int64)
        try:
            if bits:
                _break_ties(records, bits, stream, workers)
            whole = (0, ((last - first + 1) << bits) - 1)
            stop = 0
            for row, size in zip(found, sizes, strict=True):
                part = records[stop : stop + size]
                stop += size
                part.sort()
                fill(row, self._root, part, whole, stream, workers)
        finally:
            _core.zero(records)
        points = (found >> bits) + first
        result = points.astype(np.float64) * float(self._step) if real else points
        return result[0, self._order] if by is None else result[:, self._order]

    def _tie_bits(self, points: int) -> int:
        # A single selection does not split the records, so ties may stay.
        if self._levels == 1:
            return 0
        return max(0, min(_TIE_BITS, 60 - points.bit_length()))


# ---- parameters ----------------------------------------------------------------------


def _listed(q: Any) -> list[Any]:
    """Return the entries of a sequence or one-dimensional array of targets."""
    if isinstance(q, np.ndarray) and (q.ndim != 1 or q.dtype.kind not in "fO"):
        raise DTypeError(
            "q must be a number, a sequence of numbers or a one-dimensional array of "
            f"floats, got an array of shape {q.shape} and dtype {q.dtype}"
        )
    if len(q) == 0:
        raise ParameterError("q must not be empty")
    return list(q)


def _target(q: Any) -> Fraction:
    if isinstance(q, np.ndarray):
        q = q[()]
    least = Fraction(1, DENOMINATOR)
    return _validate.between("q", q, least, 1 - least)


# ---- records by group ----------------------------------------------------------------


def _by_group(values: _Array, by: Any, groups: int | None) -> tuple[_Array, list[int]]:
    """Return the records sorted by group, and the number of records of each group."""
    values = _core.flat(values)
    code = group_codes("by", by, len(values), groups, "groups")
    if code is None or groups is None:
        return values, [len(values)]
    there = (code >= 0) & (code < groups)
    if values.dtype.kind == "f":
        there &= ~np.isnan(values)
    values, code = values[there], code[there]
    order = np.argsort(code, kind="stable")
    sizes: list[int] = np.bincount(code, minlength=groups).tolist()
    return values[order], sizes


# ---- ties ----------------------------------------------------------------------------


def _break_ties(
    records: _Array, bits: int, stream: Stream | None, workers: int
) -> None:
    """Move each record to one of 2**bits random places within its point."""
    places = fdp_random.integers(
        1 << bits, size=records.size, stream=stream, workers=workers
    )
    np.left_shift(records, bits, out=records)
    np.bitwise_or(records, places, out=records)
    _core.zero(places)
