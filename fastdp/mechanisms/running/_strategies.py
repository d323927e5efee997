"""Prefix sums step by step: from exact integers C x to noisy sums B y.

Between steps a strategy holds private arrays (`_private`: past sums) and public arrays
(all others). Coefficients of C are integers over 2**bits, so that C x is an integer in
units of the grid's step over 2**bits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _core, _factors, _validate
from fastdp._factors import Floats, Integers
from fastdp.exceptions import ParameterError

#: Magnitudes of C x stay below this.
_MOST = 2**62

#: Refuse a strategy that keeps more numbers than this between two steps.
_MOST_KEPT = 2**31

#: A step must be able to sum at least this many rows of the largest norm.
_LEAST_ROWS = 256

#: Increase values that are summed in doubles by this relative margin.
_SLOP = Fraction(1, 10**11)


class Strategy(ABC):
    """A factorization for `steps` prefix sums of `dimension` entries, and its state."""

    bits: int
    #: Clamp each entry of a step's sum to [-largest, largest].
    largest: int
    #: Maximum number of values that one step releases for each entry.
    drawn = 1
    #: `bands` of "banded", for its arguments; None for other strategies.
    bands: int | tuple[float, ...] | None = None

    def __init__(self, steps: int, dimension: int) -> None:
        self.steps = steps
        self.dimension = dimension
        self._at = 0

    @abstractmethod
    def square(self, count: int, gap: int) -> Fraction:
        """Return the squared sensitivity of C for `count` steps of norm 1, `gap` apart.

        It is exact or rounded up, and computed from the integers in use, not from the
        reals that they approximate.
        """

    @property
    def slack(self) -> Fraction:
        """Return the largest addition of rounding to this distance, in units of C x."""
        return Fraction(0)

    @abstractmethod
    def spread(self) -> Floats:
        """Return the variance of each prefix sum, in units of the noise's variance."""

    @abstractmethod
    def encode(self, x: Integers) -> Integers:
        """Return the values to release in this step, a new array (m, dimension)."""

    @abstractmethod
    def decode(self, y: Floats) -> Floats:
        """Return the prefix sum, in the grid's steps; `y` is overwritten."""

    @property
    @abstractmethod
    def _private(self) -> tuple[Integers, ...]: ...

    @property
    @abstractmethod
    def _public(self) -> tuple[Floats, ...]: ...

    def wipe(self) -> None:
        """Overwrite private numbers."""
        for held in self._private:
            _core.zero(held)

    def memory(self) -> bytes:
        """Return the state between two steps as bytes of fixed size, for `load`."""
        held = [part.astype("<i8").tobytes() for part in self._private]
        return b"".join(held + [part.astype("<f8").tobytes() for part in self._public])

    def load(self, memory: bytes, taken: int) -> None:
        """Restore the state that `memory` returned after `taken` steps."""
        held: tuple[Any, ...] = (*self._private, *self._public)
        if len(memory) != sum(part.nbytes for part in held):
            raise ValueError("the memory belongs to another strategy")
        self._at, start = taken, 0
        for part in held:
            kind = part.dtype.newbyteorder("<")
            read = np.frombuffer(memory, kind, part.size, offset=start)
            part[...] = read.reshape(part.shape)
            start += part.nbytes

    def _kept(self, rows: int, kind: type = np.int64) -> Any:
        if rows * self.dimension > _MOST_KEPT:
            raise ParameterError(
                f"strategy must keep at most {_MOST_KEPT} numbers between steps, got "
                f'{rows} for each of {self.dimension} entries: use "banded" or "blt"'
            )
        return np.zeros((rows, self.dimension), kind)


class Column(Strategy):
    """A Toeplitz matrix with few coefficients, which stores past sums and answers."""

    bits = _factors.BITS

    def __init__(self, column: Floats, steps: int, dimension: int) -> None:
        super().__init__(steps, dimension)
        width = int(np.count_nonzero(column))
        # Rounding is monotone, so the coefficients still do not grow.
        self._column = np.rint(column[:width] * 2**self.bits).astype(np.int64)
        self.largest = _MOST // int(self._column.sum())
        self._past = self._kept(width - 1)
        self._shown = self._kept(width - 1, np.float64)
        self._total = np.zeros(dimension)

    def square(self, count: int, gap: int) -> Fraction:
        column = np.zeros(self.steps, np.int64)
        column[: len(self._column)] = self._column
        moved = _factors.repeated(column, count, gap)
        high, low = moved >> self.bits, moved & (2**self.bits - 1)
        parts = (int(high @ high), 2 * int(high @ low), int(low @ low))
        total = sum(p << (self.bits * (2 - i)) for i, p in enumerate(parts))
        return Fraction(total, 4**self.bits)

    def spread(self) -> Floats:
        column = np.zeros(self.steps)
        column[: len(self._column)] = self._column / 2.0**self.bits
        return np.cumsum(_factors.quotient(column) ** 2)

    def _lagged(self) -> Any:
        """Return the coefficient of each place of the ring buffers at this step."""
        width = len(self._past)
        return self._column[1 + (self._at - 1 - np.arange(width)) % max(width, 1)]

    def encode(self, x: Integers) -> Integers:
        y: Integers = self._column[0] * x
        if len(self._past):
            y += np.einsum("j,jd->d", self._lagged(), self._past)
            self._past[self._at % len(self._past)] = x
        return y[None, :]

    def decode(self, y: Floats) -> Floats:
        x = y[0]
        if len(self._shown):
            x -= self._lagged().astype(np.float64) @ self._shown
        x /= float(self._column[0])
        if len(self._shown):
            self._shown[self._at % len(self._shown)] = x
        self._at += 1
        self._total += x
        return self._total.copy()

    @property
    def _private(self) -> tuple[Integers, ...]:
        return (self._past,)

    @property
    def _public(self) -> tuple[Floats, ...]:
        return (self._shown, self._total)


class Buffered(Strategy):
    """A few decaying buffers; products are rounded down, and the errors are charged."""

    def __init__(
        self, plan: _factors.Buffers, steps: int, dimension: int, reach: int
    ) -> None:
        super().__init__(steps, dimension)
        one = 2**_factors.BITS
        self._weights = np.array(plan.weights, np.int64)[:, None]
        self._rates = np.array(plan.rates, np.int64)[:, None]
        self._columns = _factors.buffer_columns(plan, steps)
        # The floors of a buffer sum to an error in (-1/(1 - a), 0], for any data.
        memory = [Fraction(one, one - a) for a in plan.rates]
        drift = [
            Fraction(w, one) * e + 1 for w, e in zip(plan.weights, memory, strict=True)
        ]
        self._slack = _root_up(steps * dimension) * sum(drift)
        # Choose the bits so that the drift is a thousandth of the largest row.
        needed = math.ceil(math.log2(1000 * float(self._slack) / reach))
        self.bits = min(max(needed, 0), 40)
        most = max([*memory, Fraction(_ceil(self._columns[0].sum()))])
        self.largest = int(_MOST / 2 / 2**self.bits / most)
        if self.largest < _LEAST_ROWS * reach:
            raise ParameterError(
                f'strategy must not be "blt" for {steps} steps of {dimension} entries: '
                f"a step could sum {self.largest // reach} of the largest rows. Use "
                '"banded", or fewer steps or entries'
            )
        self._held = self._kept(len(plan.rates))
        self._answer = self._kept(len(plan.rates), np.float64)
        self._total = np.zeros(dimension)

    def square(self, count: int, gap: int) -> Fraction:
        moved = _factors.repeated(self._columns[0], count, gap)
        return Fraction(float(moved @ moved)) * (1 + _SLOP)

    @property
    def slack(self) -> Fraction:
        return self._slack

    def spread(self) -> Floats:
        return np.cumsum(self._columns[1] ** 2)

    def encode(self, x: Integers) -> Integers:
        now = x << self.bits
        y: Integers = now + _scaled(self._held, self._weights).sum(axis=0)
        self._held[:] = _scaled(self._held, self._rates) + now
        return y[None, :]

    def decode(self, y: Floats) -> Floats:
        one = float(2**_factors.BITS)
        x = y[0] / 2.0**self.bits
        x = x - (self._weights / one * self._answer).sum(axis=0)
        self._answer = self._answer * (self._rates / one) + x
        self._total += x
        return self._total.copy()

    @property
    def _private(self) -> tuple[Integers, ...]:
        return (self._held,)

    @property
    def _public(self) -> tuple[Floats, ...]:
        return (self._answer, self._total)


class Tree(Strategy):
    """A binary tree of partial sums: a step releases the nodes that it completes."""

    bits = 0

    def __init__(self, steps: int, dimension: int) -> None:
        super().__init__(steps, dimension)
        self.largest = _MOST // steps
        self.drawn = steps.bit_length()
        self._open = self._kept(self.drawn)
        self._nodes = self._kept(self.drawn, np.float64)
        self._variances = _node_variances(self.drawn)

    def square(self, count: int, gap: int) -> Fraction:
        return Fraction(_factors.tree_square(len(self._open), count, gap))

    def spread(self) -> Floats:
        return _cover(self.steps, self._variances)

    def encode(self, x: Integers) -> Integers:
        self._open += x
        at = self._at + 1
        done = (at & -at).bit_length()
        y: Integers = self._open[:done].copy()
        self._open[:done] = 0
        return y

    def decode(self, y: Floats) -> Floats:
        self._nodes[len(y) - 1] = _joined(y, self._nodes, self._variances)
        self._at += 1
        levels = [v for v in range(len(self._nodes)) if self._at >> v & 1]
        found: Floats = self._nodes[levels].sum(axis=0)
        return found

    @property
    def _private(self) -> tuple[Integers, ...]:
        return (self._open,)

    @property
    def _public(self) -> tuple[Floats, ...]:
        return (self._nodes,)


class Doubling(Strategy):
    """A tree for each block of 1, 2, 4, ... steps: no horizon is needed.

    An event is in one block, and in one node of each level of the block. A block's sums
    are divided by the number of levels, or by its square root, so that the same noise
    fits all blocks.
    """

    bits = 16

    def __init__(self, steps: int, *, pure: bool) -> None:
        super().__init__(steps, 1)
        self.drawn = steps.bit_length()
        one = 2**self.bits
        levels = range(1, self.drawn + 1)
        self._weights = [
            one // v if pure else math.isqrt(one * one // v) for v in levels
        ]
        self.largest = _MOST // one // steps
        self._open = self._kept(self.drawn)
        self._nodes = self._kept(self.drawn, np.float64)
        self._whole = np.zeros(1)  # the blocks that are complete
        self._variances = _node_variances(self.drawn)

    @property
    def length(self) -> Fraction:
        """Return the largest L1 change of the weighted sums by one event."""
        return Fraction(max(v * w for v, w in self._blocks()), 2**self.bits)

    def square(self, count: int, gap: int) -> Fraction:
        # Upper bound: as if all events were in the same nodes of the longest block.
        longest = max(v * w * w for v, w in self._blocks())
        return Fraction(count * count * longest, 4**self.bits)

    def _blocks(self) -> Iterator[tuple[int, int]]:
        return enumerate(self._weights, 1)

    def spread(self) -> Floats:
        found, whole = [], 0.0
        for levels, weight in self._blocks():
            unit = (2.0**self.bits / weight) ** 2
            found.append(whole + unit * _cover(2 ** (levels - 1), self._variances))
            whole += unit * self._variances[levels - 1]
        return np.concatenate(found)[: self.steps]

    def _place(self) -> tuple[int, int]:
        """Return the block of the next step, and the step's number in it, from 1."""
        at = self._at + 1
        block = at.bit_length() - 1
        return block, at - 2**block + 1

    def encode(self, x: Integers) -> Integers:
        block, place = self._place()
        self._open[: block + 1] += x
        done = (place & -place).bit_length()
        y: Integers = self._open[:done] * self._weights[block]
        self._open[:done] = 0
        return y

    def decode(self, y: Floats) -> Floats:
        block, place = self._place()
        y /= self._weights[block]
        self._nodes[len(y) - 1] = _joined(y, self._nodes, self._variances)
        self._at += 1
        if place == 2**block:
            self._whole += self._nodes[block]
            return self._whole.copy()
        levels = [v for v in range(block) if place >> v & 1]
        total: Floats = self._whole + self._nodes[levels].sum(axis=0)
        return total

    @property
    def _private(self) -> tuple[Integers, ...]:
        return (self._open,)

    @property
    def _public(self) -> tuple[Floats, ...]:
        return (self._nodes, self._whole)


def strategy_of(
    name: str,
    steps: int,
    dimension: int,
    *,
    bands: _factors.Bands = None,
    buffers: int | None = None,
    reach: int,
    pattern: tuple[int, int],
) -> Strategy:
    """Return the strategy `name`, for rows of norm up to `reach` steps of the grid.

    `pattern` has the number of steps that a record takes part in and their distance;
    buffers are chosen for it.

    Raises
    ------
    DTypeError, ParameterError
        There is no such strategy, or it does not accept one of the parameters.
    """
    if name not in _factors.STRATEGIES:
        known = ", ".join(_factors.STRATEGIES)
        raise ParameterError(f"strategy must be one of {known}, got {name!r}")
    own = _factors.checked_bands(name, bands, steps)
    if (buffers is None) == (name == "blt"):
        raise ParameterError(
            "buffers must be given with strategy 'blt', and left out with others"
        )
    if buffers is not None:
        count = _validate.integer("buffers", buffers, 1, 8)
        plan = _factors.buffers_for(steps, count, *pattern)
        return Buffered(plan, steps, dimension, reach)
    if name == "tree":
        return Tree(steps, dimension)
    strategy = Column(_factors.column_of(own, steps), steps, dimension)
    strategy.bands = None if bands is None else own
    return strategy


def _scaled(held: Integers, factors: Integers) -> Integers:
    """Return floor(held factors / 2**BITS), exact for |held| < 2**62."""
    bits = _factors.BITS
    high, low = held >> bits, held & (2**bits - 1)
    found: Integers = high * factors + (low * factors >> bits)
    return found


def _node_variances(levels: int) -> list[float]:
    """Return the variances, by level, of nodes averaged with their children's sum.

    See Honaker (2015).
    """
    found = [1.0]
    while len(found) < levels:
        found.append(1 / (1 + 1 / (2 * found[-1])))
    return found


def _joined(y: Floats, nodes: Floats, variances: list[float]) -> Floats:
    """Return the largest node that a step completes, averaged with its halves."""
    node = y[0]
    for level in range(1, len(y)):
        own = variances[level]  # also the weight of its own noisy sum
        node = own * y[level] + (1 - own) * (nodes[level - 1] + node)
    found: Floats = node
    return found


def _cover(steps: int, variances: list[float]) -> Floats:
    """Return the variance of each prefix sum: one node for each bit of its number."""
    found = np.zeros(1)
    for variance in variances[: steps.bit_length()]:
        found = np.concatenate((found, found + variance))
    return found[1 : steps + 1]


def _root_up(square: int) -> Fraction:
    return Fraction(math.isqrt(square - 1) + 1)


def _ceil(x: float) -> int:
    return math.ceil(x * (1 + 1e-9)) + 1
