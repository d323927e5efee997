"""Count, sum, mean and variance of a column between public bounds, in one release."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _arrays, _core, _validate, calibration
from fastdp._doorway import is_data, one_index, records
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    ApproximateDPEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    NeighboringRelation,
    Relation,
    l2_sensitivity,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._keys import distinct, key_column
from fastdp.mechanisms.noise.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.records._moments_release import MomentsRelease
from fastdp.mechanisms.records._moments_shape import Scaled, Shape, grid_bits
from fastdp.mechanisms.records._thresholds import tail
from fastdp.mechanisms.records._totals import Accumulator, group_codes

_A = NeighboringRelation.ADD_OR_REMOVE_ONE

#: Minimum number of values for one worker.
_VALUES = 65536

_Array = np.ndarray[Any, Any]


class Moments(Scaled):
    """Noisy count, sum, mean and variance of numbers between public bounds.

    Each record contributes the row (1, u, u**2 - 1/2), u = (x - center)/half in [-1,
    1], in exact integers: privacy depends on no order, overflow or float rounding.
    With `moments=1` the row is (1, u): there is no variance, and the noise is smaller.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal, optional
        Standard deviation of discrete Gaussian noise on each entry of the row's sum.
    scale : int, float, Fraction or Decimal, optional
        Scale of discrete Laplace noise. Give exactly one of `sigma` and `scale`, > 0.
    bounds : tuple of two real numbers
        Public bounds of the records, (low, high) with low < high. Records are clamped.
    moments : {1, 2}
        2 for the variance as well.
    groups : int, optional
        Number of public groups; None for the whole column.
    threshold : int, optional
        Instead of `groups`, if the groups are not listed: a group is shown if its noisy
        count is above the threshold. At least `records_per_group`.
    groups_per_unit, records_per_group : int
        Maximum number of groups per individual, and of one individual's records per
        group; `fastdp.bound_contributions` enforces both.
    neighboring_relation : NeighboringRelation
        Under `REPLACE_ONE` without groups the number of records is public. Under
        `REPLACE_SPECIAL` a record becomes null and contributes nothing, like a removed
        record.

    Privacy
    -------
    The guarantee is `event()`. In the row's unit, for k groups with r records each and
    the neighboring relation "add or remove": L2 sensitivity sqrt(k) r 3/2, L1
    sensitivity k r 5/2 (with `moments=1` sqrt(k) r sqrt(2) and 2 k r). Replacing one of
    n records moves (u, u**2) by 2 in both (L1: 9/4); with groups, replacing an
    individual has twice the sensitivity of removing one. A threshold t adds a delta:
    the probability, at most k P(r + noise > t), that a group of one individual is
    shown. Exact. Timing class T0.

    References
    ----------
    docs/proofs/sums.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> ages = np.array([31.0, 45.0, 27.0, float("nan"), 62.0] * 1000)
    >>> m = fastdp.Moments.from_rho(0.05, bounds=(0, 120))
    >>> found = m.release(ages)
    >>> low, high = found.mean_interval(1 - 1e-12)
    >>> low < 41.25 < high
    True
    """

    __slots__ = ()

    _returns_array = False

    def __init__(
        self,
        *,
        sigma: Real | None = None,
        scale: Real | None = None,
        bounds: tuple[Real, Real],
        moments: int = 2,
        groups: int | None = None,
        threshold: int | None = None,
        groups_per_unit: int = 1,
        records_per_group: int = 1,
        neighboring_relation: Relation = _A,
    ) -> None:
        name, given = _validate.one_of(sigma=sigma, scale=scale)
        parameter = _validate.positive(name, given)
        low, high = check_bounds(bounds)
        shape = Shape.of(
            moments,
            groups,
            threshold,
            groups_per_unit,
            records_per_group,
            neighboring_relation,
        )
        bits = grid_bits(parameter)
        half = high / 2 - low / 2
        law = DiscreteLaplace if sigma is None else DiscreteGaussian
        self._freeze(
            _arguments=self._not_default(
                **{name: _validate.plain(parameter)}, bounds=(low, high), **vars(shape)
            ),
            _bits=bits,
            _column=(low, high, low + half, 1 / half, bits),
            _half=half,
            _noise=law(parameter * 2**bits),
            _parameter=parameter,
            _shape=shape,
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        bounds: tuple[Real, Real],
        delta: Real | None = None,
        **options: Any,
    ) -> Moments:
        """Return the mechanism with the least Laplace noise for pure `epsilon`.

        `options` are moments, groups, groups_per_unit, records_per_group and
        neighboring_relation of the constructor. With `delta`, groups need not be
        listed; the guarantee is then (epsilon, delta), with the least possible
        threshold.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the scale that it needs, is out of range.
        """
        shape = Shape.calibrated(delta, **options)
        scale = shape.l1() / _validate.positive("epsilon", epsilon)
        if delta is not None:
            options["threshold"] = shape.least_threshold(DiscreteLaplace, scale, delta)
        return cls(scale=scale, bounds=bounds, **options)

    @classmethod
    def from_rho(
        cls,
        rho: Real,
        *,
        bounds: tuple[Real, Real],
        delta: Real | None = None,
        **options: Any,
    ) -> Moments:
        """Return the mechanism with the least Gaussian noise for rho-zCDP, rounded up.

        `delta`, the other options and the errors are as in `from_epsilon`.
        """
        shape = Shape.calibrated(delta, **options)
        sigma = calibration.gaussian_sigma_from_rho(
            rho=rho, sensitivity=l2_sensitivity(shape.l2_square())
        )
        if delta is not None:
            options["threshold"] = shape.least_threshold(DiscreteGaussian, sigma, delta)
        return cls(sigma=sigma, bounds=bounds, **options)

    @classmethod
    def from_epsilon_delta(
        cls, *, epsilon: Real, delta: Real, bounds: tuple[Real, Real], **options: Any
    ) -> Moments:
        """Return the mechanism with the least Gaussian noise for (epsilon, delta).

        It uses a proved bound on the discrete law on the grid; without a threshold.
        Options and errors are as in `from_epsilon`.
        """
        shape = Shape.of(**options)
        sigma = calibration.grid_gaussian_sigma(
            epsilon=epsilon,
            delta=delta,
            sensitivity=l2_sensitivity(shape.l2_square()),
            coordinates=shape.coordinates(),
        )
        return cls(sigma=sigma, bounds=bounds, **options)

    # ---- what is public ------------------------------------------------------

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds to which records are clamped."""
        return self._column[0], self._column[1]

    @property
    def std(self) -> float:
        """Standard deviation of the noise on the count, and on the sum of u."""
        return self._noise.std * 2.0**-self._bits

    @property
    def threshold(self) -> int | None:
        """The count that a shown group must exceed; None with public groups."""
        return self._shape.threshold

    def event(self) -> Event:
        """Return the event of one release, in steps of 2**-bits of the row's unit."""
        noise, shape = self._noise_event(), self._shape
        if shape.threshold is None:
            return noise
        room = (shape.threshold - shape.records_per_group) << self._bits
        shown = shape.moved_groups * tail(self._noise, room)
        return ComposedEvent(
            (
                noise,
                ApproximateDPEvent(
                    epsilon=Fraction(0),
                    delta=min(shown, Fraction(1)),
                    neighboring_relation=shape.neighboring_relation,
                ),
            )
        )

    def _noise_event(self) -> DiscreteGaussianEvent | DiscreteLaplaceEvent:
        shape = self._shape
        steps = self._parameter * 2**self._bits
        if isinstance(self._noise, DiscreteLaplace):
            return DiscreteLaplaceEvent(
                sensitivity=shape.l1() * 2**self._bits,
                scale=steps,
                neighboring_relation=shape.neighboring_relation,
            )
        return DiscreteGaussianEvent(
            sensitivity=l2_sensitivity(shape.l2_square() * 4**self._bits),
            sigma=steps,
            coordinates=shape.coordinates(),
            neighboring_relation=shape.neighboring_relation,
        )

    # ---- data ----------------------------------------------------------------

    def release(
        self,
        x: Any,
        *,
        by: Any = None,
        stream: Stream | None = None,
        workers: int = 1,
    ) -> MomentsRelease:
        """Return the noisy moments of a column.

        Parameters
        ----------
        x : column, shape (n,)
            ndarray of float64, float32 or integers, list, pandas, polars or Arrow
            column of numbers. Clamped to the bounds, infinities included. NaN and nulls
            contribute nothing, not even to the count (under `REPLACE_ONE` without
            groups, they count as the center).
        by : column, shape (n,)
            The group of each record: for a mechanism with groups an ndarray of
            integers, for one with a threshold integers or strings. Records without a
            group (outside [0, groups), or null) contribute nothing. Two pandas columns
            must have the same index.
        stream : Stream, optional
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads.

        Returns
        -------
        MomentsRelease
            Floats, or float64 arrays of shape (groups,).

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
        if self.threshold is None:
            part = self.accumulator().add(x, by=by, workers=workers)
            return part.release(stream=stream)
        one_index(x=x, by=by)
        listed, known = key_column("by", by)
        keys, place = distinct(listed[known])
        group = np.full(len(listed), -1, np.int64)
        group[known] = place
        return self._release_keys(x, group, keys, stream, workers)

    def _release_keys(
        self, x: Any, group: _Array, keys: _Array, stream: Stream | None, workers: int
    ) -> MomentsRelease:
        """Return the groups whose noisy count is above the threshold.

        `keys` are the groups that occur, sorted; they and their number are private.
        """
        threshold = self._shape.threshold or 0
        part = self._listing(max(len(keys), 1)).accumulator()
        rows = part.add(x, by=group, workers=workers)._rows()
        # A group without any number is absent: noise must not show it.
        there = np.flatnonzero(rows[0] > 0)
        noisy = self._noisy(rows[:, there], stream)
        _core.zero(rows)
        shown = noisy[0] > threshold << self._bits
        sums = noisy[:, shown] / np.float64(2**self._bits)
        return MomentsRelease(self, sums, keys[there[shown]].tolist())

    def _listing(self, groups: int) -> Moments:
        """Return the mechanism with the same noise for this number of listed groups."""
        said = dict(self._arguments)
        for name in ("threshold", "groups_per_unit"):
            said.pop(name, None)
        return Moments(**{**said, "groups": groups})

    def _noisy(self, rows: _Array, stream: Stream | None) -> _Array:
        """Return noisy sums, in steps."""
        found: _Array = self._noise.release(
            rows[: 1 + self._shape.moments], stream=stream
        )
        return found

    def accumulator(self) -> MomentsAccumulator:
        """Return an empty accumulator for a column that arrives in parts.

        Raises
        ------
        ParameterError
            The mechanism has a threshold, which needs the whole column in one call.
        """
        return MomentsAccumulator(self)


class MomentsAccumulator(Accumulator[Moments]):
    """Exact private sums, collected for one release of `Moments`.

    As for `SumAccumulator`, `add` and `merge` return it, `release` clears it, and a
    pickle contains the private sums.
    """

    __slots__ = ()

    def __init__(self, mechanism: Moments) -> None:
        said = dict(getattr(mechanism, "_arguments", ()))
        # Sums over the records of 1, u, and u**2 - 1/2.
        super().__init__(Moments, mechanism, (3, said.get("groups", 1)))
        if mechanism.threshold is not None:
            raise ParameterError("mechanism must have no threshold: use groups=")

    def add(self, x: Any, *, by: Any = None, workers: int = 1) -> MomentsAccumulator:
        """Add values; parameters and errors are those of `Moments.release`."""
        m = self._mechanism
        one_index(x=x, by=by)
        values = _column("x", x)
        code = group_codes("by", by, len(values), m._shape.groups, "groups")

        def part(start: int, stop: int, sums: _Array) -> None:
            own = None if code is None else code[start:stop]
            _core.column_moments(m._column, values[start:stop], own, *sums)
            if m._shape.fixed_size:  # NaN counts as the center: u = 0
                sums[2] -= (stop - start - sums[0]) * 2 ** (m._bits - 1)
                sums[0] = stop - start

        return self._add(part, len(values), _VALUES, workers)

    def release(self, *, stream: Stream | None = None) -> MomentsRelease:
        """Return the noisy moments and clear the accumulator."""
        m = self._mechanism
        check_stream(stream)
        rows = self._rows()
        sums = m._noisy(rows, stream) / np.float64(2**m._bits)
        if m._shape.fixed_size:
            sums[0] = rows[0] / np.float64(2**m._bits)
        _core.zero(rows)
        self._clear()
        return MomentsRelease(m, sums)

    def _rows(self) -> _Array:
        """Return the totals in steps of 2**-bits, also the number of records."""
        (totals,), one = self._totals, 2**self._mechanism._bits
        rows = totals.clamped()
        rows[0] = totals.clamped(2**62 // one)[0] * one
        return rows


# ---- parameters --------------------------------------------------------------------


def check_bounds(bounds: object) -> tuple[float, float]:
    """Return public bounds of records as doubles."""
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise DTypeError("bounds must be a pair (low, high)")
    if any(isinstance(end, (date, np.datetime64)) for end in bounds):
        raise DTypeError(
            "bounds must be numbers, got dates: count days from a public day, as in "
            "(x - day).dt.days, with bounds=(0, 366)"
        )
    low = _validate.double("bounds", bounds[0])
    high = _validate.double("bounds", bounds[1])
    if not (low < high and high / 2 - low / 2 >= 2.0**-1000):
        apart = " by 2**-999 or more" if low < high else ""
        raise ParameterError(
            f"bounds must be (low, high) with low < high{apart}, got {(low, high)!r}"
        )
    return low, high


# ---- data --------------------------------------------------------------------------


def _column(name: str, x: Any) -> _Array:
    """Return a column as float64, float32 or int64; nulls are NaN."""
    if is_data(x):
        return records(name, x)
    real = isinstance(x, np.ndarray) and x.dtype.kind == "f"
    values = _arrays.data(name, x, real=real)
    if values.ndim != 1:
        raise ParameterError(f"{name} must have shape (n,), got {values.shape}")
    return values if real else values.astype(np.int64, copy=False)
