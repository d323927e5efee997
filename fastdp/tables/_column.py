"""Released sums of a column of numbers, and the statistics computed from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp.mechanisms import Moments
from fastdp.mechanisms.records._moments_release import MomentsRelease
from fastdp.tables._choices import Choices
from fastdp.tables._noise import Noise

_Array = np.ndarray[Any, Any]


class Column:
    """A column of a release."""

    def __init__(
        self, plan: Choices, place: int, groups: int, noisy: dict[str, _Array]
    ) -> None:
        name = list(plan._asked)[place]
        self._noise = plan._noise
        self._bounds = plan._bounds[name]
        sums = [noisy.get(f"{sum_}{place}") for sum_ in "nsq"]
        steps = 2.0**self._noise.bits
        self._moments: MomentsRelease | None = None
        if sums[0] is None:  # only the sum was released
            self._alone = np.asarray(sums[1], np.float64) / steps
            return
        rows = np.array([x for x in sums if x is not None], np.float64) / steps
        self._count: _Array = rows[0]
        moments = moments_of(self._noise, self._bounds, groups, len(rows) - 1)
        self._moments = MomentsRelease(moments, rows)

    def values(self, what: str) -> _Array:
        """Return a statistic of each group."""
        if self._moments is None:
            return self._scaled(self._alone)
        if what == "n":
            found: _Array = np.rint(self._count).astype(np.int64)
            return found
        if what == "sum":
            return np.asarray(self._moments.sum)
        value = (
            self._moments.variance if what == "std" else getattr(self._moments, what)
        )
        value = np.sqrt(value) if what == "std" else np.asarray(value)
        return np.where(np.rint(self._count) < 1, np.nan, value)

    def interval(self, what: str, level: float) -> tuple[_Array, _Array]:
        """Return the ends of the interval of a statistic of each group."""
        if self._moments is None:
            reach = reach_of(self._noise, self._bounds, level)
            return self._scaled(self._alone - reach), self._scaled(self._alone + reach)
        if what == "n":  # a whole number: round the ends inward
            low, high = self._moments.count_interval(level)
            return np.ceil(low).astype(np.int64), np.maximum(np.floor(high), 0).astype(
                np.int64
            )
        if what == "std":
            low, high = self._moments.variance_interval(level)
            return np.sqrt(low), np.sqrt(high)
        ends: tuple[_Array, _Array]
        ends = getattr(self._moments, f"{what}_interval")(level)
        return ends

    def known(self, what: str) -> float | None:
        """Return the width known before the release; None if no bound was known."""
        low, high = self._bounds
        half = high / 2 - low / 2
        widths = {"mean": 2 * half, "variance": half * half, "std": half}
        return widths.get(what)

    def _scaled(self, sums: _Array) -> _Array:
        """Multiply sums by the larger bound; clamp to finite doubles."""
        low, high = self._bounds
        with np.errstate(over="ignore"):
            scaled = sums * max(-low, high)
        most = np.finfo(np.float64).max
        found: _Array = np.clip(scaled, -most, most)
        return found


def moments_of(
    noise: Noise, bounds: tuple[float, float], groups: int | None, moments: int
) -> Moments:
    """Return the `Moments` with this noise, for the statistics that it computes."""
    return Moments(
        scale=noise.parameter if noise.by_epsilon else None,
        sigma=None if noise.by_epsilon else noise.parameter,
        bounds=bounds,
        moments=moments,
        groups=groups if groups is None else max(groups, 1),
    )


def reach_of(
    noise: Noise, bounds: tuple[float, float], level: float, *weights: float
) -> float:
    """Return a bound on a weighted sum of noises, in records, that holds at `level`."""
    found = MomentsRelease(moments_of(noise, bounds, 1, 1), np.zeros((2, 1)))
    return found._reach(level, *(weights or (1.0,)))
