"""Exact sums of integers that arrive in parts, without overflow and with one clamp."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

import numpy as np

from fastdp import _arrays, _core, _validate
from fastdp._doorway import enter, is_data
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import Mechanism

#: Clamp each entry of totals to this magnitude before the noise.
MOST = 2**62

#: Add this many rows at most, of magnitudes up to 2**30, before a carry.
_SLAB = 2**31

#: Held while totals change, since threads may add to the same totals. There is one lock
#: for all: it is held for microseconds only, and totals must be picklable.
_LOCK = threading.Lock()


class Totals:
    """An array of integers high 2**32 + low, below 2**94.

    If `high` is not None, 0 <= low < 2**32 after a carry, and a carry is due after
    2**31 rows. Partial sums never saturate: otherwise a missing record could shift the
    borders of the parts and change the total without bound. docs/proofs/sums.md.
    """

    __slots__ = ("_high", "_low", "_rows")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._high: np.ndarray[Any, Any] | None = None
        self._low = np.zeros(shape, np.int64)
        self._rows = 0  # since the last carry

    def add(self, part: np.ndarray[Any, Any], rows: int) -> None:
        """Add int64 sums of at most 2**31 rows, of magnitudes up to 2**30.

        The first part is stored without a copy, so the caller must not change it.
        """
        with _LOCK:
            if self._rows or self._high is not None:
                self._make_room(rows)
                self._low += part
            else:
                self._low = part
            self._rows += rows

    def merge(self, other: Totals) -> None:
        """Add the totals of another object of the same shape."""
        with _LOCK:
            rows = other._rows + 4  # 2**32 for what a carry left
            self._make_room(rows)
            self._low += other._low
            self._rows += rows
            if other._high is not None:
                self._carry()
                self._high += other._high

    def _make_room(self, rows: int) -> None:
        if self._rows + rows > _SLAB:
            self._carry()

    def _carry(self) -> None:
        if self._high is None:
            self._high = np.zeros_like(self._low)
        self._high += self._low >> 32
        self._low &= 0xFFFFFFFF
        self._rows = 0

    def clamped(
        self, most: int = MOST, part: slice = slice(None)
    ) -> np.ndarray[Any, Any]:
        """Return (a part of) the totals as int64, clamped to [-most, most] <= 2**62."""
        edge = MOST >> 32
        with _LOCK:
            if self._high is None:  # magnitudes below 2**62
                total = self._low[part].copy()
            else:
                if self._rows:
                    self._carry()
                total, low = self._high[part].copy(), self._low[part]
                above, below = total >= edge, total < -edge
                _clamp(total, -edge, edge - 1)
                total <<= 32
                total += low
                total[above] = MOST
                total[below] = -MOST
        if most < MOST:
            _clamp(total, -most, most)
        return total

    def exact(self) -> np.ndarray[Any, Any]:
        """Return the totals as Python ints, for tests."""
        high = 0 if self._high is None else self._high.astype(object)
        return high * 2**32 + self._low.astype(object)

    def clear(self) -> None:
        """Overwrite the totals with zeros."""
        with _LOCK:
            if self._high is not None:
                _core.zero(self._high)
            if self._rows or self._high is not None:  # else it is memory not used yet
                _core.zero(self._low)
            self._high, self._rows = None, 0


def _clamp(x: np.ndarray[Any, Any], low: int, high: int) -> None:
    """Clamp in place; faster than `np.clip`, which looks up the type's limits."""
    np.maximum(x, low, out=x)
    np.minimum(x, high, out=x)


M = TypeVar("M", bound=Mechanism)


class Accumulator(Generic[M]):
    """Totals of private data, collected for one release of a mechanism."""

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
        """The mechanism of the later release."""
        return self._mechanism

    def _add(self, part: Callable[..., None], n: int, least: int, workers: int) -> Self:
        """Add the sums of rows [start, stop), which `part` writes into arrays."""

        def add(start: int, stop: int, _: int) -> None:
            for first in range(start, stop, _SLAB):
                last = min(first + _SLAB, stop)
                sums = [np.zeros_like(total._low) for total in self._totals]
                part(first, last, *sums)
                for total, own in zip(self._totals, sums, strict=True):
                    total.add(own, last - first)

        workers = _validate.integer("workers", workers, 1)
        _arrays.in_parallel(add, n, least, workers)
        return self

    def merge(self, other: Self) -> Self:
        """Add the totals of another accumulator of an equal mechanism.

        Raises
        ------
        DTypeError, ParameterError
            `other` is not an accumulator, is this one, or has another mechanism.
        """
        if not isinstance(other, type(self)):
            raise DTypeError(
                f"other must be a {type(self).__name__}, got {type(other).__name__}"
            )
        if other is self:
            raise ParameterError(
                "other must be another object: adding it to itself would "
                "count records twice"
            )
        if other._mechanism != self._mechanism:
            raise ParameterError("other must accumulate for an equal mechanism")
        for total, own in zip(self._totals, other._totals, strict=True):
            total.merge(own)
        return self

    def _clear(self) -> None:
        for total in self._totals:
            total.clear()


def _is_whole(code: object) -> bool:
    """Return whether an object is an integer; numpy's timedelta64 is not."""
    whole = isinstance(code, (int, np.integer, np.bool_))
    return whole and not isinstance(code, np.timedelta64)


def group_codes(
    name: str, codes: Any, n: int, groups: int | None, parameter: str
) -> np.ndarray[Any, Any] | None:
    """Return the group of each of n records; None for a mechanism without groups."""
    if groups is None:
        if codes is not None:
            raise ParameterError(
                f"{name} must be left out unless the mechanism has {parameter}="
            )
        return None
    if codes is None:
        raise ParameterError(
            f"{name} must be given: the mechanism has {groups} {parameter}"
        )
    if isinstance(codes, (list, tuple)):  # read each record by itself
        whole = [int(c) if _is_whole(c) else -1 for c in codes]
        codes = np.array([c if 0 <= c < 2**62 else -1 for c in whole], np.int64)
    elif is_data(codes):
        codes, _ = enter(name, codes, labels=True)
    found = _arrays.data(name, codes, real=False)
    if found.shape != (n,):
        raise ParameterError(f"{name} must have shape ({n},), got {found.shape}")
    return found.astype(np.int64, copy=False)
