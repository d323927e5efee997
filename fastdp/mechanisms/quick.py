"""The first lines: a count, sum, mean, variance or histogram, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastdp import _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    Event,
    NeighboringRelation,
    Relation,
    as_relation,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._keys import key_column
from fastdp.mechanisms.clipped_sum import ClippedSum
from fastdp.mechanisms.contributions import bound_contributions
from fastdp.mechanisms.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.moments import Moments, MomentsRelease, check_bounds

_A = NeighboringRelation.ADD_OR_REMOVE_ONE
_R = NeighboringRelation.REPLACE_ONE

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Estimate:
    """A released statistic: nothing in it is private any more.

    Attributes
    ----------
    value : int, float or ndarray
        The noisy statistic of the records between the bounds.
    interval : tuple
        (low, high), of the type of `value`: holds the statistic with probability
        `level` (each entry of an array by itself).
    level : float
        Probability of `interval`.
    event : Event
        What the release costs; accountants and filters take it.
    unit : str
        Whose presence is hidden: "user", or "row" where no users were given.
    """

    value: Any
    interval: tuple[Any, Any]
    level: float
    event: Event
    unit: str

    def __repr__(self) -> str:
        low, high = self.interval
        if isinstance(self.value, np.ndarray):
            shown = f"{self.value!r}, interval=({low!r}, {high!r})"
        else:
            shown = f"{self.value:.6g}, interval=({low:.6g}, {high:.6g})"
        return f"Estimate({shown}, level={self.level:g}, unit={self.unit!r})"

    def epsilon(self, *, delta: Real = 0) -> float:
        """Return an epsilon that the release meets at `delta`, rounded up."""
        from fastdp.accounting.guarantees import event_epsilon

        return event_epsilon(self.event, delta)


def count(
    x: Any,
    *,
    epsilon: Real | None = None,
    rho: Real | None = None,
    user: Any = None,
    records_per_user: int | None = None,
    level: float = 0.95,
    stream: Stream | None = None,
) -> Estimate:
    """Return the noisy number of records.

    Parameters
    ----------
    x : column of numbers, strings or keys, shape (n,)
        Records; None and NaN are none.
    epsilon, rho : int, float, Fraction or Decimal
        Pure epsilon, or rho-zCDP; exactly one.
    user : column of integers or strings, shape (n,), optional
        Whose record it is. Without it the guarantee is for a row, not for a person.
    records_per_user : int, optional
        With `user`: how many records of each are kept, at random; 1 if not given.
    level : float
        Probability of the interval, > 0 and < 1.
    stream : Stream, optional
        None draws fresh randomness; for tests `fastdp.testing.FixedStream`.

    Returns
    -------
    Estimate

    Raises
    ------
    DTypeError, ParameterError, CalibrationError
        A wrong dtype or shape, or a parameter out of its range. Never for a value.
    EntropyError
        The operating system gave no randomness.

    Privacy
    -------
    The event's, for users (or rows) added or removed: the neighboring relation. The
    sensitivity is `records_per_user`. Exact. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> n = fastdp.count(["yes", "no", None, "yes"], epsilon=1)
    >>> n.unit, n.epsilon()
    ('row', 1.0)
    """
    unit, most = _unit(user, records_per_user)
    law = _law(epsilon, rho, most)
    low, high = law.confidence_interval(level)
    _, present = _records(x)
    kept = _bounded(present, user, most, stream)
    noisy = law.release(np.int64(np.count_nonzero(kept)), stream=stream)
    return Estimate(
        noisy, (max(noisy - high, 0.0), noisy - low), level, _event(law, most), unit
    )


def sum(
    x: Any,
    *,
    bounds: tuple[Real, Real],
    epsilon: Real | None = None,
    rho: Real | None = None,
    user: Any = None,
    records_per_user: int | None = None,
    neighboring_relation: Relation = _A,
    level: float = 0.95,
    stream: Stream | None = None,
) -> Estimate:
    """Return the noisy sum of records between bounds.

    Parameters
    ----------
    x : column of numbers, shape (n,)
        Clamped to the bounds. NaN and None contribute nothing.
    bounds : tuple of two real numbers
        Public bounds of the records, (low, high).
    neighboring_relation : NeighboringRelation
        Under `REPLACE_ONE` the number of rows is public, and NaN counts as the middle.
    epsilon, rho, user, records_per_user, level, stream
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
    times `records_per_user` (high - low for a row replaced). Exact. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> s = fastdp.sum([12.0, 30.5, 7.25], bounds=(0, 50), epsilon=1)
    >>> s.epsilon()
    1.0
    """
    low, high = check_bounds(bounds)
    if as_relation(neighboring_relation) is _R:
        found, unit = _moments(
            x, (low, high), 1, epsilon, rho, user, records_per_user, _R, level, stream
        )
        interval = found.sum_interval(level)
        return Estimate(found.sum, interval, level, found.mechanism.event(), unit)
    unit, most = _unit(user, records_per_user)
    name, budget = _budget(epsilon, rho)
    make = ClippedSum.from_epsilon if name == "epsilon" else ClippedSum.from_rho
    m = make(
        budget,
        radius=max(abs(low), abs(high)),
        dimension=1,
        norm="inf",
        rows_per_unit=most,
        neighboring_relation=neighboring_relation,
    )
    below, above = m.confidence_interval(level)
    values, present = _numbers(x)
    kept = _bounded(present, user, most, stream)
    held = np.clip(values[kept], low, high)[:, None]
    value = float(m.release(held, stream=stream)[0])
    return Estimate(value, (value - above, value - below), level, m.event(), unit)


def mean(
    x: Any,
    *,
    bounds: tuple[Real, Real],
    epsilon: Real | None = None,
    rho: Real | None = None,
    user: Any = None,
    records_per_user: int | None = None,
    neighboring_relation: Relation = _A,
    level: float = 0.95,
    stream: Stream | None = None,
) -> Estimate:
    """Return the noisy mean of records between bounds; parameters as in `sum`.

    From the noisy sums of (1, u), u = (x - center)/half, in one release.

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
    found, unit = _moments(
        x,
        bounds,
        1,
        epsilon,
        rho,
        user,
        records_per_user,
        neighboring_relation,
        level,
        stream,
    )
    interval = found.mean_interval(level)
    return Estimate(found.mean, interval, level, found.mechanism.event(), unit)


def variance(
    x: Any,
    *,
    bounds: tuple[Real, Real],
    epsilon: Real | None = None,
    rho: Real | None = None,
    user: Any = None,
    records_per_user: int | None = None,
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
    found, unit = _moments(
        x,
        bounds,
        2,
        epsilon,
        rho,
        user,
        records_per_user,
        neighboring_relation,
        level,
        stream,
    )
    interval = found.variance_interval(level)
    return Estimate(found.variance, interval, level, found.mechanism.event(), unit)


def histogram(
    x: Any,
    edges: Sequence[Real],
    *,
    epsilon: Real | None = None,
    rho: Real | None = None,
    user: Any = None,
    records_per_user: int | None = None,
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
    epsilon, rho, user, records_per_user, level, stream
        As in `count`.

    Returns
    -------
    Estimate
        Of an int64 array, one entry a bin.

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError
        As in `count`.

    Privacy
    -------
    As `count`: a record is in one bin, whatever the number of bins; the sensitivity is
    `records_per_user`, the neighboring relation "add or remove". Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> h = fastdp.histogram([3, 8, 8, 40], [0, 10, 20], epsilon=1)
    >>> h.value.shape
    (2,)
    """
    public = np.array([float(_validate.exact("edges", edge)) for edge in edges])
    if public.ndim != 1 or len(public) < 2 or not (np.diff(public) > 0).all():
        raise ParameterError("edges must be at least two increasing numbers")
    unit, most = _unit(user, records_per_user)
    law = _law(epsilon, rho, most)
    low, high = law.confidence_interval(level)
    values, present = _numbers(x)
    inside = present & (values >= public[0]) & (values <= public[-1])
    kept = _bounded(inside, user, most, stream)
    place = np.searchsorted(public, values[kept], side="right") - 1
    counts = np.bincount(np.minimum(place, len(public) - 2), minlength=len(public) - 1)
    noisy = law.release(counts.astype(np.int64), stream=stream)
    return Estimate(
        noisy,
        (np.maximum(noisy - high, 0.0), noisy - low),
        level,
        _event(law, most),
        unit,
    )


# ---- parameters --------------------------------------------------------------------


def _budget(epsilon: Real | None, rho: Real | None) -> tuple[str, Real]:
    if epsilon is not None and rho is None:
        return "epsilon", epsilon
    if rho is not None and epsilon is None:
        return "rho", rho
    raise ParameterError("exactly one of epsilon and rho must be given")


def _law(
    epsilon: Real | None, rho: Real | None, most: int
) -> DiscreteLaplace | DiscreteGaussian:
    """Return the noise of counts that one individual moves by at most `most`."""
    name, budget = _budget(epsilon, rho)
    if name == "epsilon":
        return DiscreteLaplace.from_epsilon(budget, sensitivity=most)
    return DiscreteGaussian.from_rho(budget, sensitivity=most)


def _event(law: DiscreteLaplace | DiscreteGaussian, most: int) -> Event:
    return law.event(sensitivity=most)


# ---- data --------------------------------------------------------------------------


def _records(x: Any) -> tuple[_Array, _Array]:
    """Return a column of anything that can be counted, and which entries are there."""
    column = x.to_numpy() if hasattr(x, "to_numpy") else x
    kind = np.asarray(column).dtype.kind if not isinstance(column, str) else "U"
    if kind in "biuf":
        return _numbers(column)
    return key_column("x", column)


def _numbers(x: Any) -> tuple[_Array, _Array]:
    """Return a column as float64 (int64 where it is), and which entries are numbers."""
    column = x.to_numpy() if hasattr(x, "to_numpy") else x
    if isinstance(column, (list, tuple)):
        column = np.array([np.nan if value is None else value for value in column])
        column = column.astype(np.float64) if not column.size else column
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "biuf":
        raise DTypeError(
            "x must be a column of numbers: a list, an ndarray, or a pandas, polars or "
            "pyarrow column"
        )
    if column.ndim != 1:
        raise ParameterError(f"x must have shape (n,), got {column.shape}")
    values = column.astype(np.float64)
    return values, ~np.isnan(values)


def _unit(user: Any, records_per_user: int | None) -> tuple[str, int]:
    """Return whose presence is hidden, and how many records one has at most."""
    if user is not None:
        return "user", _validate.integer("records_per_user", records_per_user or 1, 1)
    if records_per_user is not None:
        raise ParameterError("records_per_user goes with user")
    return "row", 1


def _bounded(present: _Array, user: Any, most: int, stream: Stream | None) -> _Array:
    """Return which of the records that are there stay."""
    if user is None:
        return present
    owner, known = key_column("user", user)
    if len(owner) != len(present):
        raise ParameterError(f"user must have shape ({len(present)},)")
    chosen = np.flatnonzero(present & known)
    stays = bound_contributions(owner[chosen], records_per_user=most, stream=stream)
    kept = np.zeros(len(present), bool)
    kept[chosen[stays]] = True
    return kept


def _moments(
    x: Any,
    bounds: tuple[Real, Real],
    moments: int,
    epsilon: Real | None,
    rho: Real | None,
    user: Any,
    records_per_user: int | None,
    neighboring_relation: Relation,
    level: float,
    stream: Stream | None,
) -> tuple[MomentsRelease, str]:
    name, budget = _budget(epsilon, rho)
    _validate.open_unit("level", level)
    relation = as_relation(neighboring_relation)
    if relation is _R and user is not None:
        raise ParameterError(
            "neighboring_relation must be ADD_OR_REMOVE_ONE with user: the number of "
            "records of a user is not public"
        )
    unit, most = _unit(user, records_per_user)
    make = Moments.from_epsilon if name == "epsilon" else Moments.from_rho
    m = make(
        budget,
        bounds=bounds,
        moments=moments,
        records_per_group=most,
        neighboring_relation=relation,
    )
    values, present = _numbers(x)
    if relation is not _R:  # there NaN counts as the center
        values = values[_bounded(present, user, most, stream)]
    return m.release(values, stream=stream), unit
