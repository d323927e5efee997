"""Signed points whose sum is one party's share of discrete Laplace noise.

A share of shape r and scale t is the sum of a Poisson process of signed integers: size
l comes with either sign at rate r exp(-l/t) / l. The process is drawn by thinning one
with rational rates, so that each step is a uniform integer or one comparison of a
uniform real with an enclosed number. Law and proof: ``docs/proofs/shares.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core, random
from fastdp._exact import Block, Uniform, exp_neg
from fastdp._stream import Stream

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Distance from a threshold, in probability, below which doubles do not decide.
MARGIN = 2.0**-30

#: Most points of an entry whose sum surely fits 64 bits: a size is below 2**47.
_MOST_POINTS = 1 << 15

_WORD = 64


def octaves(scale: Fraction) -> int:
    """Return the least K >= 0 with 2**K >= scale."""
    return max(-(-scale.numerator // scale.denominator) - 1, 0).bit_length()


def size_of(octave: int, block: int, offset: int, last: int) -> tuple[int, int]:
    """Return a proposed size and e: it is kept with probability 2**e q**size / size.

    Octave k < `last` has the sizes 2**k ... 2**(k+1) - 1. Octave `last` has all sizes
    from 2**last on, in blocks of 2**last.
    """
    if octave < last:
        return (1 << octave) + offset, octave
    return ((block + 1) << last) + offset, last + block + 1


@lru_cache(maxsize=64)
def _cuts(rate: Fraction) -> tuple[tuple[Fraction, ...], _Array]:
    """Return the sums of rate**i / i! and the floors of 2**64 P(N <= n), N Poisson."""
    sums: list[Fraction] = []
    floors: list[int] = []
    term, total = Fraction(1), Fraction(0)
    while not floors or floors[-1] < (1 << _WORD) - 1:
        total += term
        sums.append(total)
        term = term * rate / len(sums)
        bits = _WORD
        lo, hi = 0, 1
        while lo != hi:
            bits *= 2
            lo, hi = (end >> (bits - _WORD) for end in _below(rate, total, bits))
        floors.append(lo)
    return tuple(sums), np.array(floors, np.uint64)


def _below(rate: Fraction, total: Fraction, bits: int) -> tuple[int, int]:
    """Enclose exp(-rate) * total, a probability."""
    more = total.numerator.bit_length() - total.denominator.bit_length() + 8
    more = max(more, 0)
    lo, hi = exp_neg(rate.numerator, rate.denominator, bits + more)
    low = lo * total.numerator // total.denominator >> more
    high = -(-hi * total.numerator // total.denominator)
    return low, min(-(-high >> more), 1 << bits)


def count_of(word: int, rate: Fraction, block: Block) -> int:
    """Return the number of points of the uniform that starts with a 64-bit word."""
    sums, cuts = _cuts(rate)
    u = Uniform(word, _WORD, block)
    n = int(np.searchsorted(cuts, np.uint64(word)))
    while True:
        if n < len(sums):
            total = sums[n]
        else:
            total, term = sums[-1], Fraction(1)
            for i in range(1, n + 1):
                term = term * rate / i
                total += term if i >= len(sums) else 0
        if u.below(lambda bits, total=total: _below(rate, total, bits)):  # type: ignore[misc]
            return n
        n += 1


def kept(word: int, size: int, power: int, scale: Fraction, block: Block) -> bool:
    """Tell whether the uniform of a word is below 2**power q**size / size."""

    def chance(bits: int) -> tuple[int, int]:
        shift = power + 2
        lo, hi = exp_neg(size * scale.denominator, scale.numerator, bits + shift)
        above = -((-hi << power) // size)
        return (lo << power) // size >> shift, -(-above >> shift)

    return Uniform(word, _WORD, block).below(chance)


def _words(size: int, stream: Stream | None) -> _Array:
    drawn: _Array = random.integers(-(2**63), 2**63, size=size, stream=stream)
    return drawn.view(np.uint64)


def _trailing_zeros(words: _Array) -> _Array:
    """Return the zeros below the lowest set bit of each word, 64 of a word of zeros."""
    lowest = words & (~words + np.uint64(1))
    zeros = np.frexp(lowest.astype(np.float64))[1].astype(np.int64) - 1
    zeros[words == 0] = _WORD
    return zeros


def draw(size: int, scale: Fraction, shape: Fraction, stream: Stream | None) -> _Array:
    """Return `size` independent shares: int64, or Python ints if 64 bits may not do."""

    def more(_: int) -> bytes:
        return random.bytes(16, stream=stream)

    last = octaves(scale)
    rate = 2 * shape * (last + 1)
    words = _words(size, stream)
    cuts = _cuts(rate)[1]
    counts = np.searchsorted(cuts, words, side="right")
    for i in np.flatnonzero(counts != np.searchsorted(cuts, words)):
        counts[i] = count_of(int(words[i]), rate, more)
    owner = np.repeat(np.arange(size), counts)
    sizes = _sizes(len(owner), scale, last, stream, more)
    wide = counts.max(initial=0) > _MOST_POINTS or sizes.dtype == object
    noise = np.zeros(size, object if wide else np.int64)
    np.add.at(noise, owner, sizes)
    for secret in (words, counts, owner, sizes):
        if secret.dtype != object:
            _core.zero(secret)
    return noise


def _sizes(
    count: int,
    scale: Fraction,
    last: int,
    stream: Stream | None,
    more: Callable[[int], bytes],
) -> _Array:
    """Return signed sizes of proposed points, 0 for those that are not kept."""
    octave = random.integers(last + 1, size=count, stream=stream)
    bits = _words(count, stream)
    block = _trailing_zeros(_words(count, stream))
    test = _words(count, stream)
    tail = octave == last
    offset = (
        bits & ((np.uint64(1) << octave.astype(np.uint64)) - np.uint64(1))
    ).astype(np.int64)
    start = np.where(tail, (block + 1) << last, np.int64(1) << octave)
    power = np.where(tail, last + block + 1, octave)
    size = start + offset
    x = size.astype(np.float64)
    chance = np.ldexp(np.exp(-x / float(scale)) / x, power)
    u = (test >> np.uint64(11)).astype(np.float64) * 2.0**-53
    keep = u < chance
    signed: _Array = np.where(bits >> np.uint64(63), -size, size)
    open_ = (np.abs(u - chance) <= MARGIN) | (tail & (block >= _WORD))
    for i in np.flatnonzero(open_):
        run = int(block[i])
        while tail[i] and run % _WORD == 0 and run:  # a word of zeros: read on
            word = int.from_bytes(more(0)[:8], "little")
            zeros = (word & -word).bit_length() - 1 if word else _WORD
            run += zeros
            if zeros < _WORD:
                break
        exact, e = size_of(int(octave[i]), run, int(offset[i]), last)
        keep[i] = kept(int(test[i]), exact, e, scale, more)
        if exact >= 1 << 47 and keep[i]:
            signed = signed.astype(object)
        if keep[i]:
            signed[i] = -exact if bits[i] >> np.uint64(63) else exact
    for secret in (octave, bits, block, test):
        _core.zero(secret)
    signed[~keep] = 0
    return signed
