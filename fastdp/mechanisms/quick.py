"""The first lines: a count, sum, mean, variance or histogram, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastdp import _validate
from fastdp._doorway import records
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    ComposedEvent,
    Event,
    NeighboringRelation,
    Relation,
)
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._estimate import Estimate
from fastdp.mechanisms._groups import Budget, Groups, Question, Records, Users
from fastdp.mechanisms._keys import presence
from fastdp.mechanisms._moments_release import MomentsRelease
from fastdp.mechanisms.clipped_sum import ClippedSum
from fastdp.mechanisms.moments import Moments, check_bounds

_A = NeighboringRelation.ADD_OR_REMOVE_ONE
_R = NeighboringRelation.REPLACE_ONE

_Array = np.ndarray[Any, Any]


def count(
    x: Any,
    *,
    epsilon: Real | None = None,
    rho: Real | None = None,
    by: Any = None,
    keys: Any = None,
    delta: Real | None = None,
    user: Any = None,
    records_per_user: int | None = None,
    groups_per_user: int | None = None,
    records_per_group: int | None = None,
    level: float = 0.95,
    stream: Stream | None = None,
) -> Estimate:
    """Return the noisy number of records, of all or of each group.

    Parameters
    ----------
    x : column of anything, shape (n,)
        Records; None, NaN, NA and NaT are none. Two pandas columns of one call (`x`,
        `by`, `user`) must have the same index; one with a list or array is paired by
        place.
    epsilon, rho : int, float, Fraction or Decimal
        Pure epsilon, or rho-zCDP; exactly one.
    by : column of numbers or strings, shape (n,), optional
        The group of each record; None and NaN are none. Python objects are read one by
        one, as docs/records.md says.
    keys : column of numbers or strings, optional
        With `by`: the groups to show, which are public: chosen without the data.
        Equal keys are of one kind: no record of group 1 is in group "1".
    delta : int, float, Fraction or Decimal, optional
        With `by` without `keys`, and then required: the guarantee is for (epsilon,
        delta), or rho but for delta. Groups of few users stay unseen.
    user : column of numbers or strings, shape (n,), optional
        Whose record it is; large ids must be integers, not floats. Without it the
        guarantee is for a row, not for a person.
    records_per_user : int, optional
        With `user`, and then required: how many records of each are kept, at random.
    groups_per_user, records_per_group : int, optional
        With `user` and `by` instead, and then required: how many groups of each are
        kept, at random, and how many records in each.
    level : float
        Probability of the interval, > 0 and < 1.
    stream : Stream, optional
        None draws fresh randomness; for tests `fastdp.testing.FixedStream`.

    Returns
    -------
    Estimate
        With `by` an entry for each group, sorted by key.

    Raises
    ------
    DTypeError, ParameterError, CalibrationError
        A wrong dtype or shape, pandas columns with different indexes, or a parameter
        out of its range. Never for a value.
    EntropyError
        The operating system gave no randomness.

    Privacy
    -------
    The event's, for users (or rows) added or removed: the neighboring relation. For k
    groups of r records the sensitivity is k r (Laplace) or sqrt(k) r (Gaussian). A
    noisy count that is shown selects its key as well: `UnknownHistogram`. Exact. Timing
    class T0.

    Examples
    --------
    >>> import fastdp
    >>> n = fastdp.count(["yes", "no", None, "yes"], epsilon=1)
    >>> n.unit, n.epsilon()
    ('row', 1.0)
    >>> towns = ["oslo", "rome"] * 400 + ["bonn"]
    >>> fastdp.count(towns, by=towns, epsilon=1, delta=1e-12).keys
    ['oslo', 'rome']
    """
    ask = Question(
        Budget(epsilon, rho, delta),
        Groups(by, keys, groups_per_user, records_per_group),
        Users(user, records_per_user),
        level,
        stream,
        x=x,
    )
    if not ask.unknown:
        law = ask.law(ask.budget)
        rows = ask.rows(presence("x", x))
        noisy = law.release(rows.counts(), stream=stream)
        return _counted(ask, law, law.event(), noisy, ask.keys)
    m = ask.histogram()
    rows = ask.rows(presence("x", x))
    shown, noisy = m.release(rows.keys, rows.counts(), stream=stream)
    return _counted(ask, m, m.event(), noisy, shown.tolist())


def sum(
    x: Any,
    *,
    bounds: tuple[Real, Real],
    epsilon: Real | None = None,
    rho: Real | None = None,
    by: Any = None,
    keys: Any = None,
    delta: Real | None = None,
    user: Any = None,
    records_per_user: int | None = None,
    groups_per_user: int | None = None,
    records_per_group: int | None = None,
    neighboring_relation: Relation = _A,
    level: float = 0.95,
    stream: Stream | None = None,
) -> Estimate:
    """Return the noisy sum of records between bounds, of all or of each group.

    Parameters
    ----------
    x : column of numbers, shape (n,)
        Clamped to the bounds. NaN and None contribute nothing, nor does what is no
        number in a list or a column of dtype object.
    bounds : tuple of two real numbers
        Public bounds of the records, (low, high).
    neighboring_relation : NeighboringRelation
        Under `REPLACE_ONE` the number of rows is public, and NaN counts as the middle;
        by groups neither, for a row may become another group's. Under
        `REPLACE_SPECIAL` a row becomes null, as if removed.
    epsilon, rho, by, keys, delta, user, records_per_user, groups_per_user
        As in `count`.
    records_per_group, level, stream
        As in `count`.

    Returns
    -------
    Estimate

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError
        As in `count`.

    Privacy
    -------
    The event's, under the neighboring relation. The sensitivity is max(|low|, |high|)
    times the records (high - low for a row replaced). Groups that nobody listed take
    half of the budget: their keys are selected by their number of users, and `shares`
    says so. Exact. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> s = fastdp.sum([12.0, 30.5, 7.25], bounds=(0, 50), epsilon=1)
    >>> s.epsilon()
    1.0
    """
    ask = Question(
        Budget(epsilon, rho, delta),
        Groups(by, keys, groups_per_user, records_per_group),
        Users(user, records_per_user),
        level,
        stream,
        neighboring_relation,
        x=x,
    )
    low, high = check_bounds(bounds)
    if ask.relation is _R and not ask.grouped:
        return _summary(ask, _moments(ask, x, (low, high), 1), "sum")
    budget = ask.budget.halved() if ask.unknown else ask.budget
    make = ClippedSum.from_epsilon if budget.by_epsilon else ClippedSum.from_rho

    def mechanism(blocks: int) -> ClippedSum:
        return make(
            budget.amount,
            radius=max(abs(low), abs(high)),
            dimension=1,
            norm="inf",
            blocks=blocks,
            blocks_per_unit=ask.groups,
            rows_per_unit=ask.records,
            neighboring_relation=ask.relation,
        )

    m = mechanism(2**32 if ask.unknown else len(ask.keys or [0]))
    below, above = m.confidence_interval(ask.level)
    values, present = _numbers(x)
    rows, event, shares = _shown(ask, ask.rows(present), m.event(), "sum")
    held = np.clip(values[rows.index], low, high)[:, None]
    # So many blocks at least, or one unit would count as being in fewer of them.
    total = mechanism(max(len(rows.keys), ask.groups)).release(
        held, labels=rows.group, stream=stream
    )[: len(rows.keys), 0]
    keys = rows.keys.tolist()
    return _estimate(ask, total, (total - above, total - below), event, keys, shares)


def mean(
    x: Any,
    *,
    bounds: tuple[Real, Real],
    epsilon: Real | None = None,
    rho: Real | None = None,
    by: Any = None,
    keys: Any = None,
    delta: Real | None = None,
    user: Any = None,
    records_per_user: int | None = None,
    groups_per_user: int | None = None,
    records_per_group: int | None = None,
    neighboring_relation: Relation = _A,
    level: float = 0.95,
    stream: Stream | None = None,
) -> Estimate:
    """Return the noisy mean of records between bounds; parameters as in `sum`.

    From the noisy sums of (1, u), u = (x - center)/half, in one release; with groups
    that nobody listed the noisy count selects the key as well.

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError
        As in `count`.

    Privacy
    -------
    The event's, under the neighboring relation; the sensitivity is that of `Moments`.
    The interval is right for any number of records. Exact. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> ages = [31, 45, 27, 62] * 500
    >>> low, high = fastdp.mean(ages, bounds=(0, 120), epsilon=1).interval
    >>> 0 <= low <= high <= 120
    True
    """
    ask = Question(
        Budget(epsilon, rho, delta),
        Groups(by, keys, groups_per_user, records_per_group),
        Users(user, records_per_user),
        level,
        stream,
        neighboring_relation,
        x=x,
    )
    return _summary(ask, _moments(ask, x, bounds, 1), "mean")


def variance(
    x: Any,
    *,
    bounds: tuple[Real, Real],
    epsilon: Real | None = None,
    rho: Real | None = None,
    by: Any = None,
    keys: Any = None,
    delta: Real | None = None,
    user: Any = None,
    records_per_user: int | None = None,
    groups_per_user: int | None = None,
    records_per_group: int | None = None,
    neighboring_relation: Relation = _A,
    level: float = 0.95,
    stream: Stream | None = None,
) -> Estimate:
    """Return the noisy variance (divisor n) of records between bounds; as `mean`.

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError
        As in `count`.

    Privacy
    -------
    The event's, under the neighboring relation; the sensitivity is that of `Moments`.
    Exact. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> v = fastdp.variance([1.0, 2.0, 4.0] * 100, bounds=(0, 5), rho=0.5)
    >>> 0 <= v.value <= 6.25
    True
    """
    ask = Question(
        Budget(epsilon, rho, delta),
        Groups(by, keys, groups_per_user, records_per_group),
        Users(user, records_per_user),
        level,
        stream,
        neighboring_relation,
        x=x,
    )
    return _summary(ask, _moments(ask, x, bounds, 2), "variance")


def histogram(
    x: Any,
    edges: Sequence[Real],
    *,
    epsilon: Real | None = None,
    rho: Real | None = None,
    by: Any = None,
    keys: Any = None,
    delta: Real | None = None,
    user: Any = None,
    records_per_user: int | None = None,
    groups_per_user: int | None = None,
    records_per_group: int | None = None,
    level: float = 0.95,
    stream: Stream | None = None,
) -> Estimate:
    """Return noisy counts of records between public edges.

    Parameters
    ----------
    x : column of numbers, shape (n,)
        NaN, None and values outside the edges are in no bin.
    edges : sequence of real numbers
        Public and increasing; bins hold their lower edge, the last one both.
    epsilon, rho, by, keys, delta, user, records_per_user, groups_per_user
        As in `count`.
    records_per_group, level, stream
        As in `count`.

    Returns
    -------
    Estimate
        Of an int64 array, one entry a bin; with `by` one row a group.

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError
        As in `count`.

    Privacy
    -------
    As `count`: a record is in one bin, whatever the number of bins; the neighboring
    relation is "add or remove". Groups that nobody listed take half of the budget, as
    in `sum`. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> h = fastdp.histogram([3, 8, 8, 40], [0, 10, 20], epsilon=1)
    >>> h.value.shape
    (2,)
    """
    ask = Question(
        Budget(epsilon, rho, delta),
        Groups(by, keys, groups_per_user, records_per_group),
        Users(user, records_per_user),
        level,
        stream,
        x=x,
    )
    public = np.array([float(_validate.exact("edges", edge)) for edge in edges])
    if public.ndim != 1 or len(public) < 2 or not (np.diff(public) > 0).all():
        raise ParameterError("edges must be at least two increasing numbers")
    law = ask.law(ask.budget.halved() if ask.unknown else ask.budget)
    values, present = _numbers(x)
    inside = present & (values >= public[0]) & (values <= public[-1])
    rows, event, shares = _shown(ask, ask.rows(inside), law.event(), "histogram")
    bins = len(public) - 1
    place = np.searchsorted(public, values[rows.index], side="right") - 1
    cell = rows.group * bins + np.minimum(place, bins - 1)
    counts = np.bincount(cell, minlength=bins * len(rows.keys)).astype(np.int64)
    noisy = law.release(counts.reshape(-1, bins), stream=stream)
    return _counted(ask, law, event, noisy, rows.keys.tolist(), shares)


# ---- estimates ---------------------------------------------------------------------


def _estimate(
    ask: Question,
    value: _Array,
    interval: tuple[_Array, _Array],
    event: Event,
    keys: list[Any] | None,
    shares: dict[str, float] | None = None,
) -> Estimate:
    """Return what is shown: an entry for each group, or the only one."""
    low, high = interval
    if ask.grouped:
        return Estimate(value, (low, high), ask.level, event, ask.unit, keys, shares)
    return Estimate(value[0], (low[0], high[0]), ask.level, event, ask.unit)


def _counted(
    ask: Question,
    law: Any,
    event: Event,
    noisy: _Array,
    keys: list[Any] | None,
    shares: dict[str, float] | None = None,
) -> Estimate:
    low, high = law.confidence_interval(ask.level)
    interval = np.maximum(noisy - high, 0.0), noisy - low
    return _estimate(ask, noisy, interval, event, keys, shares)


def _summary(ask: Question, found: MomentsRelease, name: str) -> Estimate:
    value = getattr(found, name)
    interval = getattr(found, f"{name}_interval")(ask.level)
    keys = found.keys if ask.unknown else ask.keys
    event = found.mechanism.event()
    return Estimate(value, interval, ask.level, event, ask.unit, keys)


def _shown(
    ask: Question, rows: Records, event: Event, name: str
) -> tuple[Records, Event, dict[str, float] | None]:
    """Return the records of the keys to show, and what both releases cost."""
    if not ask.unknown:
        return rows, event, None
    both = ComposedEvent((ask.selection().event(), event))
    return ask.select(rows), both, {"keys": 0.5, name: 0.5}


# ---- data --------------------------------------------------------------------------


def _numbers(x: Any) -> tuple[_Array, _Array]:
    """Return a column as float64, and which entries are numbers."""
    values = records("x", x)
    return values, ~np.isnan(values)


def _moments(
    ask: Question, x: Any, bounds: tuple[Real, Real], moments: int
) -> MomentsRelease:
    """Return the moments of the records, or of each group."""
    options: dict[str, Any] = {"delta": ask.budget.delta, "moments": moments}
    if ask.keys is not None:
        options["groups"] = len(ask.keys)
    make = Moments.from_epsilon if ask.budget.by_epsilon else Moments.from_rho
    m = make(
        ask.budget.amount,
        bounds=bounds,
        groups_per_unit=ask.groups,
        records_per_group=ask.records,
        neighboring_relation=ask.relation,
        **options,
    )
    values, present = _numbers(x)
    if ask.relation is _R and not ask.grouped:  # there NaN counts as the center
        return m.release(values, stream=ask.stream)
    rows = ask.rows(present)
    held = values[rows.index]
    if ask.unknown:
        return m._release_keys(held, rows.group, rows.keys, ask.stream, 1)
    group = rows.group if ask.grouped else None
    return m.release(held, by=group, stream=ask.stream)
