"""Statistics from a release of moments, and their intervals."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from fastdp import _validate
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.noise.integer import DiscreteGaussian
from fastdp.mechanisms.records._moments_shape import Scaled

_LARGEST = float(np.finfo(np.float64).max)

#: Into how many parts the likely means are cut for a variance's interval.
_PARTS = 8

_Array = np.ndarray[Any, Any]


class MomentsRelease:
    """The result of `Moments.release`: all of it is public, intervals included.

    Attributes are floats, or float64 arrays with one entry per group; `keys` are the
    groups that passed a threshold, sorted by bytes, or None without a threshold.
    Everything is computed from the noisy sums, at no further cost.
    """

    __slots__ = ("_keys", "_mechanism", "_sums")

    def __init__(
        self, mechanism: Scaled, sums: _Array, keys: list[Any] | None = None
    ) -> None:
        self._mechanism = mechanism
        self._sums = sums  # noisy sums of 1, u, and u**2 - 1/2
        self._keys = keys

    def __repr__(self) -> str:
        names = ("count", "sum", "mean", "variance")[
            : 2 + self._mechanism._shape.moments
        ]
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"MomentsRelease({shown})"

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism, with its event."""
        return self._mechanism

    @property
    def keys(self) -> list[Any] | None:
        """The groups that passed the threshold, sorted by bytes (or value)."""
        return None if self._keys is None else list(self._keys)

    @property
    def count(self) -> Any:
        """The number of records with a value; exact if it is public."""
        return self._plain(self._sums[0])

    @property
    def sum(self) -> Any:
        """Sum of the clamped records."""
        return self._plain(self._total())

    @property
    def mean(self) -> Any:
        """Mean of the clamped records, within the bounds."""
        center, half = self._mechanism._column[2], self._mechanism._half
        unit = self._sums[1] / np.maximum(self._sums[0], 1)
        return self._plain(center + half * np.clip(unit, -1, 1))

    @property
    def variance(self) -> Any:
        """Variance of the clamped records (divisor n), at most the square of half.

        Raises
        ------
        ParameterError
            The mechanism has `moments=1`.
        """
        self._need_squares()
        count = np.maximum(self._sums[0], 1)
        unit = self._sums[2] / count + 0.5 - (self._sums[1] / count) ** 2
        return self._plain(np.minimum(self._in_squares(np.clip(unit, 0, 1)), _LARGEST))

    def count_interval(self, level: float) -> Any:
        """Return (low, high), which contains the true count with P >= `level`."""
        reach = 0.0 if self._exact_count else self._reach(level, 1)
        low = np.maximum(self._sums[0] - reach, 0)
        return self._pair(low, self._sums[0] + reach)

    def sum_interval(self, level: float) -> Any:
        """Return (low, high), which contains the sum of the clamped records."""
        center, half = self._mechanism._column[2], self._mechanism._half
        weights = (0.0 if self._exact_count else abs(center), half)
        reach = self._reach(level, *weights)
        total = self._total()
        with np.errstate(over="ignore"):  # an infinite interval is correct
            grain = half * (np.maximum(self._sums[0] + reach, 0) * self._grain)
            return self._pair(total - reach - grain, total + reach + grain)

    def _total(self) -> _Array:
        """Return the sums of the records, clamped to the largest double."""
        low, high, center, _, _ = self._mechanism._column
        half = self._mechanism._half
        small = (
            2.0**-64 if max(-low, high) > 2.0**900 else 1.0
        )  # counts are below 2**63
        total = self._sums[0] * (center * small) + self._sums[1] * (half * small)
        with np.errstate(over="ignore"):
            held: _Array = np.clip(total / small, -_LARGEST, _LARGEST)
        return held

    def _in_squares(self, unit: _Array) -> _Array:
        """Return variances of u in the square of the records' unit, possibly infinite.

        They may be finite even if the square of half is infinite.
        """
        half = self._mechanism._half
        with np.errstate(over="ignore"):
            return np.asarray(half * unit * half)

    def mean_interval(self, level: float) -> Any:
        """Return (low, high), which contains the mean of the clamped records.

        It is the set of means m for which sum - m count is a likely noise (Fieller
        1954). It is valid for any number of records; for few records it equals the
        bounds.
        """
        center, half = self._mechanism._column[2], self._mechanism._half
        low, high = self._ratio(self._sums[1], 1.0, level)
        return self._pair(center + half * low, center + half * high)

    def variance_interval(self, level: float) -> Any:
        """Return (low, high), which contains the variance of the clamped records.

        It combines, for each likely mean m of u, the likely variances at this mean from
        squares - 2 m sums, limited by the bound from the squares alone
        (docs/proofs/intervals.md). It raises like `variance`.
        """
        self._need_squares()
        outside = 1 - _level(level)
        # The error probability: 2/40 for the means, 1/40 for the cap (upper end
        # alone), 37/40 for the rest.
        first, last = self._ratio(self._sums[1], 1.0, 1 - outside / 20)
        _, cap = self._ratio(self._sums[2], 0.5, 1 - outside / 20)
        rest = 1 - outside * 37 / 40
        if not self._adds_in_squares(rest):
            rest = 0.95  # the lowest level at which Laplace noises add in squares
        # Add the steps of three noises: their weights sum to at most sqrt(3) times
        # the root of the sum of their squares.
        reach = self._reach(rest, 1.0) + self._step
        count, sums, squares = self._sums
        own = 0.0 if self._exact_count else 1.0
        with np.errstate(all="ignore"):
            known = count > own * reach
            base = count**2 - own * reach**2
            means = np.linspace(first, last, _PARTS + 1)
            # At a mean m, squares - 2 m sums - c count is noise of weights 1, 2 m and
            # c, where c is the variance less m**2 + 1/2.
            above = squares - 2 * means * sums
            wide = np.square(own * above) + (1 + 4 * means**2) * base
            wide = reach * np.sqrt(np.maximum(wide, 0)) / base
            middle = means**2 + 0.5 + above * count / base
            # middle is a parabola, and wide is convex: bounds for all m of a part
            # follow from its ends and from the bottom of the parabola.
            nearest = np.clip(0, first, last)
            high = np.minimum(np.max(middle + wide, axis=0), cap + 0.5 - nearest**2)
            bottom = np.clip(sums * count / base, means[:-1], means[1:])
            least = bottom**2 + 0.5 + (squares - 2 * bottom * sums) * count / base
            low = np.min(least - np.maximum(wide[:-1], wide[1:]), axis=0)
        low = np.where(known, np.clip(low - 4 * self._grain, 0, 1), 0)
        high = np.where(known, np.clip(high + 4 * self._grain, 0, 1), 1)
        low = np.minimum(self._in_squares(low), _LARGEST)
        return self._pair(low, self._in_squares(high))

    def _ratio(self, sums: _Array, edge: float, level: float) -> tuple[_Array, _Array]:
        """Return the extreme r in [-edge, edge] with sums - r count a likely noise.

        The noise of sums - r count is within reach * sqrt(1 + r**2). For Laplace noise
        at a level below 0.95, each noise is within reach, and sums - r count within
        reach * (1 + |r|).
        """
        count = self._sums[0]
        with np.errstate(all="ignore"):
            if self._exact_count:
                reach = self._reach(level, 1.0)
                known = count > 0
                low, high = (sums - reach) / count, (sums + reach) / count
            elif self._adds_in_squares(level):
                # Add the steps of both noises; 1 + |r| <= sqrt(2) sqrt(1 + r**2).
                reach = self._reach(level, 1.0) + self._step
                known = count > reach
                rest = count**2 - reach**2
                wide = reach * np.sqrt(np.maximum(sums**2 + rest, 0))
                low, high = (sums * count - wide) / rest, (sums * count + wide) / rest
            else:
                reach = self._reach(level, 1.0, 1.0) / 2
                known = count > reach
                low = (sums - reach) / (count + reach * np.sign(sums - reach))
                high = (sums + reach) / (count - reach * np.sign(sums + reach))
        low = np.where(known, np.clip(low - self._grain, -edge, edge), -edge)
        high = np.where(known, np.clip(high + self._grain, -edge, edge), edge)
        return low, high

    def _reach(self, level: float, *weights: float) -> float:
        """Return a bound on a weighted sum of noises that holds at `level`."""
        outside = 1 - _level(level)
        m = self._mechanism
        used = [w for w in weights if w]
        steps = self._step * sum(used)  # covers the difference of lattice and density
        if not self._adds_in_squares(level):
            each = float(m._parameter) * math.log(max(len(used), 1) / outside)
            return each * sum(used) + steps
        gaussian = isinstance(m._noise, DiscreteGaussian)
        tail = -NormalDist().inv_cdf(outside / 2) if gaussian else -math.log(outside)
        return tail * float(m._parameter) * math.hypot(*used) + steps

    def _adds_in_squares(self, level: float) -> bool:
        """Return whether one noise with the total variance bounds up to three noises.

        True for Gaussian noise, and for Laplace noise at levels >= 0.95
        (docs/proofs/intervals.md).
        """
        gaussian = isinstance(self._mechanism._noise, DiscreteGaussian)
        return gaussian or _level(level) >= 0.95

    @property
    def _step(self) -> float:
        return float(2.0**-self._mechanism._bits)

    @property
    def _grain(self) -> float:
        """The upper bound on the change of u or its square by rounding."""
        return 2.0 ** (1 - self._mechanism._bits)

    @property
    def _exact_count(self) -> bool:
        return self._mechanism._shape.fixed_size

    def _need_squares(self) -> None:
        if self._mechanism._shape.moments == 1:
            raise ParameterError("moments must be 2 for a variance, got 1")

    def _plain(self, values: _Array) -> Any:
        return values if self._mechanism._shape.grouped else float(values[0])

    def _pair(self, low: _Array, high: _Array) -> tuple[Any, Any]:
        return self._plain(low), self._plain(high)


def _level(level: object) -> float:
    return float(_validate.open_unit("level", level))
