"""Exact sums of integers that come in parts: no order, no overflow, one clamp."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

import numpy as np

from fastdp import _arrays, _core, _validate
from fastdp._doorway import enter, is_data
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import Mechanism

#: Totals are clamped here, entry by entry, before the noise.
MOST = 2**62

#: Rows that the kernels add in int64 at once: fewer than 2**32.
_SLAB = 2**31

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
            above, below = self._high >= edge, self._high < -edge
            total = self._high.copy()
            _clamp(total, -edge, edge - 1)
            total <<= 32
            total += self._low
        total[above] = MOST
        total[below] = -MOST
        _clamp(total, -most, most)
        return total

    def exact(self) -> np.ndarray[Any, Any]:
        """Return the totals as Python ints, for tests."""
        return self._high.astype(object) * 2**32 + self._low

    def clear(self) -> None:
        """Overwrite the totals with zeros."""
        with _LOCK:
            _core.zero(self._high)
            _core.zero(self._low)


def _clamp(x: np.ndarray[Any, Any], low: int, high: int) -> None:
    """Clamp in place; `np.clip` asks for the limits of the type each time."""
    np.maximum(x, low, out=x)
    np.minimum(x, high, out=x)


M = TypeVar("M", bound=Mechanism)


class Accumulator(Generic[M]):
    """Totals of private data on their way to one release of a mechanism."""

    __slots__ = ("_mechanism", "_totals")

    _mechanism: M
    _totals: tuple[Totals, ...]

    def __init__(self, kind: type[M], mechanism: M, *shapes: tuple[int, ...]) -> None:
        if not isinstance(mechanism, kind):
            raise DTypeError(
                f"mechanism must be {kind.__name__}, got {type(mechanism).__name__}"
            )
        self._mechanism = mechanism
        self._totals = tuple(map(Totals, shapes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mechanism!r})"

    @property
    def mechanism(self) -> M:
        """The mechanism that it accumulates for."""
        return self._mechanism

    def _add(self, part: Callable[..., None], n: int, least: int, workers: int) -> Self:
        """Add the sums of rows [start, stop), which `part` writes into arrays."""

        def add(start: int, stop: int, _: int) -> None:
            for first in range(start, stop, _SLAB):
                sums = [np.zeros_like(total._low) for total in self._totals]
                part(first, min(first + _SLAB, stop), *sums)
                for total, own in zip(self._totals, sums, strict=True):
                    total.add(own)

        workers = _validate.integer("workers", workers, 1)
        _arrays.in_parallel(add, n, least, workers)
        return self

    def merge(self, other: Self) -> Self:
        """Add what another accumulator of an equal mechanism holds.

        Raises
        ------
        DTypeError, ParameterError
            `other` is no accumulator, this one, or one of another mechanism.
        """
        if not isinstance(other, type(self)):
            raise DTypeError(
                f"other must be a {type(self).__name__}, got {type(other).__name__}"
            )
        if other is self:
            raise ParameterError("other must be another one: records would count twice")
        if other._mechanism != self._mechanism:
            raise ParameterError("other must accumulate for an equal mechanism")
        for total, own in zip(self._totals, other._totals, strict=True):
            total.merge(own)
        return self

    def _clear(self) -> None:
        for total in self._totals:
            total.clear()


def _is_whole(code: object) -> bool:
    """Tell whether an object is an integer; to numpy a time difference is one, too."""
    whole = isinstance(code, (int, np.integer, np.bool_))
    return whole and not isinstance(code, np.timedelta64)


def group_codes(
    name: str, codes: Any, n: int, groups: int | None, parameter: str
) -> np.ndarray[Any, Any] | None:
    """Return the group of each of n records; None for a mechanism without groups."""
    if groups is None:
        if codes is not None:
            raise ParameterError(f"{name} goes with a mechanism that has {parameter}=")
        return None
    if codes is None:
        raise ParameterError(
            f"{name} must be given: the mechanism has {groups} {parameter}"
        )
    if isinstance(codes, (list, tuple)):  # by itself, whatever another record is
        whole = [int(c) if _is_whole(c) else -1 for c in codes]
        codes = np.array([c if 0 <= c < 2**62 else -1 for c in whole], np.int64)
    elif is_data(codes):
        codes, _ = enter(name, codes, labels=True)
    found = _arrays.data(name, codes, real=False)
    if found.shape != (n,):
        raise ParameterError(f"{name} must have shape ({n},), got {found.shape}")
    return found.astype(np.int64, copy=False)
