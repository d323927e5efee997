"""Exact sums of integers that come in parts: no order, no overflow, one clamp."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from fastdp import _core

#: Totals are clamped here, entry by entry, before the noise.
MOST = 2**62

#: Held while totals change: threads may add to the same ones. One for all, since it is
#: held for microseconds and totals are pickled.
_LOCK = threading.Lock()


class Totals:
    """An array of integers high 2**32 + low, 0 <= low < 2**32, below 2**94.

    Partial sums never saturate: a partial sum that does moves without bound when a
    missing record shifts the borders of the parts. docs/proofs/sums.md.
    """

    __slots__ = ("_high", "_low")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._high = np.zeros(shape, np.int64)
        self._low = np.zeros(shape, np.int64)

    def add(self, part: np.ndarray[Any, Any]) -> None:
        """Add int64 sums of magnitude below 2**62."""
        with _LOCK:
            self._low += part
            self._carry()

    def merge(self, other: Totals) -> None:
        """Add what another object of the same shape holds."""
        with _LOCK:
            self._low += other._low
            self._high += other._high
            self._carry()

    def _carry(self) -> None:
        self._high += self._low >> 32
        self._low &= 0xFFFFFFFF

    def clamped(self, most: int = MOST) -> np.ndarray[Any, Any]:
        """Return the totals as int64, clamped to [-most, most], most <= 2**62."""
        edge = MOST >> 32
        with _LOCK:
            high, low = self._high.copy(), self._low.copy()
        total: np.ndarray[Any, Any] = np.clip(high, -edge, edge - 1) << 32
        total += low
        total[high >= edge] = MOST
        total[high < -edge] = -MOST
        _core.zero(high)
        _core.zero(low)
        held: np.ndarray[Any, Any] = np.clip(total, -most, most)
        return held

    def exact(self) -> np.ndarray[Any, Any]:
        """Return the totals as Python ints, for tests."""
        return self._high.astype(object) * 2**32 + self._low

    def clear(self) -> None:
        """Overwrite the totals with zeros."""
        with _LOCK:
            _core.zero(self._high)
            _core.zero(self._low)
