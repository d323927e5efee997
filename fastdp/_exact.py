"""Enclosures of exp, and uniform real numbers whose bits are read on demand.

If the known bits of a uniform do not decide on which side of a threshold it lies, more
bits are read and compared with integer enclosures of the threshold, until all possible
values of the uniform lie on one side. No probability is ever rounded. csrc/exact
decides the trials that the kernels leave undecided in the same way. Proofs:
``docs/proofs/resolver.md``.

Bits. A uniform real starts with a prefix (`a`, `nbits`): it is in [a, a + 1) *
2**-nbits. Extension blocks of 16 bytes follow: two little-endian 64-bit words, each
read from its most significant bit down. The caller's ``block(k)`` returns block `k` of
the trial, for k = 0, 1, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

#: Function that returns extension block `k` of the current trial: 16 bytes.
Block: TypeAlias = Callable[[int], bytes]

#: Function that encloses one real theta: for `bits` it returns integers (lo, hi)
#: with lo <= 2**bits * theta <= hi.
Enclosure: TypeAlias = Callable[[int], tuple[int, int]]

#: Compute a threshold to this many bits more than are known of the uniform.
_SLACK = 64


def exp_neg(num: int, den: int, bits: int) -> tuple[int, int]:
    """Enclose exp(-num/den) in fixed point.

    The argument is halved until it is small, summed as a Taylor series and
    squared back; `ulps` bounds the error of all these steps in units of the
    last working bit (``docs/proofs/resolver.md``, section 2).

    Parameters
    ----------
    num, den : int
        Numerator >= 0 and denominator > 0 of the exponent.
    bits : int
        Bits after the point, >= 1.

    Returns
    -------
    tuple of int
        lo and hi, at most 2 apart, with lo <= 2**bits * exp(-num/den) <= hi.
    """
    if num == 0:
        return 1 << bits, 1 << bits
    if num >= bits * den:
        return 0, 1  # exp(-r) < 2**-r
    steps = (math.isqrt(bits) >> 1) + 2
    halvings = steps + (num // den).bit_length()
    guard = halvings + bits.bit_length() + 6
    point = bits + guard
    z = (num << (point - halvings)) // den  # argument < 2**-steps
    value = (1 << point) - z
    term, i = z, 1
    while term:
        i += 1
        term = (term * z >> point) // i
        value += -term if i & 1 else term
    for _ in range(halvings):
        value = value * value >> point
    ulps = (2 * i + 4) << halvings
    high = ((value + ulps) >> guard) + 1
    return max(value - ulps, 0) >> guard, min(high, 1 << bits)


class Uniform:
    """A uniform real in [0, 1) whose bits are read on demand.

    Parameters
    ----------
    prefix, nbits : int
        The known bits: the real is in [prefix, prefix + 1) * 2**-nbits.
    block : callable
        Source of further bits.
    first : int
        Number of the first block to read.
    """

    __slots__ = ("_block", "_first", "_read", "nbits", "prefix")

    def __init__(self, prefix: int, nbits: int, block: Block, first: int = 0) -> None:
        self.prefix = prefix
        self.nbits = nbits
        self._block = block
        self._first = first
        self._read = 0

    def extend(self) -> None:
        """Read further blocks: first one block, later the number read so far."""
        count = max(self._read, 1)
        start = self._first + self._read
        for k in range(start, start + count):
            raw = self._block(k)
            first = int.from_bytes(raw[:8], "little")
            second = int.from_bytes(raw[8:16], "little")
            self.prefix = self.prefix << 128 | first << 64 | second
            self.nbits += 128
        self._read += count

    def cell(self) -> tuple[int, int, int]:
        """Return low, high, bits: the real is in [low, high) * 2**-bits."""
        low = self.prefix << _SLACK
        return low, low + (1 << _SLACK), self.nbits + _SLACK

    def below(self, bound: Enclosure) -> bool:
        """Return whether the real is below the enclosed number."""
        while True:
            low, high, bits = self.cell()
            lo, hi = bound(bits)
            if high <= lo:
                return True
            if low >= hi:
                return False
            self.extend()
