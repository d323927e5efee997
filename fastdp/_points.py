"""Laws drawn by quantiles, and shares of Laplace noise as sums of signed points.

A share of shape r and scale t is the sum of a Poisson process of signed integers: size
l occurs with either sign at rate r exp(-l/t) / l. The process is drawn by thinning a
process with rational rates, so each step is a uniform integer or one comparison of a
uniform real with an enclosed number. Law and proof: ``docs/proofs/shares.md``.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core, random
from fastdp._exact import Block, Uniform, exp_neg
from fastdp._stream import Stream

_Array: TypeAlias = "np.ndarray[Any, Any]"
_Pair: TypeAlias = tuple[int, int]

#: Decide a comparison exactly if doubles are closer than this to the threshold.
MARGIN = 2.0**-30

#: The sum of this many points of an entry fits 64 bits: a size is below 2**47.
_MOST_POINTS = 1 << 15

#: `excess` computes its sum up to this scale; the value here bounds larger scales.
_SUMMED = Fraction(4096)

_WORD = 64

#: Number of leading bits of a word that choose where its search in a table starts.
_GUIDE = 15


def octaves(scale: Fraction) -> int:
    """Return the least K >= 0 with 2**K >= scale."""
    return max(-(-scale.numerator // scale.denominator) - 1, 0).bit_length()


def size_of(octave: int, block: int, offset: int, last: int) -> tuple[int, int]:
    """Return a proposed size and e; accept it with probability 2**e q**size / size.

    Octave k < `last` has the sizes 2**k ... 2**(k+1) - 1. Octave `last` has all sizes
    from 2**last on, in blocks of 2**last.
    """
    if octave < last:
        return (1 << octave) + offset, octave
    return ((block + 1) << last) + offset, last + block + 1


@lru_cache(maxsize=4)
def _window(rate: Fraction, bits: int) -> tuple[int, list[int], int, int]:
    """Return cumulative sums of Poisson weights: first, sums, total, error.

    P(N <= first + i) is in [sums[i]/(total + error), (sums[i] + error)/total]; the
    omitted weights sum to less than `error` (docs/proofs/shares.md, section 6).
    """
    mode = rate.numerator // rate.denominator
    top = 1 << (bits + 3 * mode.bit_length() + 32)
    below: list[int] = []
    above = [top]
    while mode > len(below) and (below[-1] if below else top):
        w, n = below[-1] if below else top, mode - len(below)
        below.append(w * n * rate.denominator // rate.numerator)
    while above[-1]:
        n = mode + len(above)
        above.append(above[-1] * rate.numerator // (rate.denominator * n))
    sums = list(itertools.accumulate(below[::-1] + above))
    count = len(sums)
    error = count * (count + 2 * (mode + count + 2))
    return mode - len(below), sums, sums[-1], error


def _enclosed(window: tuple[int, list[int], int, int], n: int, bits: int) -> _Pair:
    """Enclose P(N <= n)."""
    first, sums, total, error = window
    value = 0 if n < first else sums[min(n - first, len(sums) - 1)]
    high = min(-(-((value + error) << bits) // total), 1 << bits)
    return (value << bits) // (total + error), high


class Quantiles(ABC):
    """A law on the integers, drawn by its quantiles; hashable."""

    #: The least value, if the law has one.
    least: float = -math.inf

    @abstractmethod
    def table(self, bits: int) -> tuple[int, list[_Pair]]:
        """Return n and enclosures of P(N <= n), P(N <= n + 1) and so on."""

    @abstractmethod
    def enclosed(self, n: int, bits: int) -> _Pair:
        """Enclose P(N <= n)."""


@dataclass(frozen=True)
class Poisson(Quantiles):
    """The Poisson law."""

    rate: Fraction

    least = 0.0

    def table(self, bits: int) -> tuple[int, list[_Pair]]:
        """Return n and enclosures of P(N <= n), P(N <= n + 1) and so on."""
        window = _window(self.rate, bits)
        first, count = window[0], len(window[1])
        return first, [_enclosed(window, first + i, bits) for i in range(count)]

    def enclosed(self, n: int, bits: int) -> _Pair:
        """Enclose P(N <= n)."""
        return _enclosed(_window(self.rate, bits), n, bits)


@lru_cache(maxsize=64)
def _cuts(law: Quantiles) -> tuple[int, _Array]:
    """Return n and the floors of 2**64 P(N <= n), P(N <= n + 1), ... up to 2**64 - 1.

    Leading floors that are 0 are dropped, except the last of them.
    """
    guard = 32
    while True:
        first, ends = law.table(_WORD + guard)
        cuts = [lo >> guard for lo, _ in ends]
        if all(
            hi <= (cut + 1) << guard for (_, hi), cut in zip(ends, cuts, strict=True)
        ):
            break
        guard *= 2
    more = first > law.least
    floors = np.array([0] * more + cuts, np.uint64)
    start = max(int(np.searchsorted(floors, np.uint64(1))) - 1, 0)
    stop = int(np.searchsorted(floors, np.uint64(2**_WORD - 1))) + 1
    return first - more + start, floors[start:stop].copy()


@lru_cache(maxsize=64)
def _guide(law: Quantiles) -> _Array:
    """Return the start in `_cuts` of the search for a word, by its leading bits."""
    starts = np.arange(1 << _GUIDE, dtype=np.uint64) << np.uint64(_WORD - _GUIDE)
    places: _Array = np.searchsorted(_cuts(law)[1], starts)
    return places


def quantile_of(word: int, law: Quantiles, block: Block) -> int:
    """Return the quantile of the uniform that starts with a 64-bit word."""
    u = Uniform(word, _WORD, block)

    def reaches(n: int) -> bool:
        return u.below(lambda bits: law.enclosed(n, bits))

    first, cuts = _cuts(law)
    n = first + int(np.searchsorted(cuts, np.uint64(word)))
    while n > law.least and reaches(n - 1):
        n -= 1
    while not reaches(n):
        n += 1
    return n


def quantiles(size: int, law: Quantiles, stream: Stream | None) -> _Array:
    """Return `size` independent variables of a law."""
    first, cuts = _cuts(law)
    words = _words(size, stream)
    drawn: _Array = _guide(law)[words >> np.uint64(_WORD - _GUIDE)]
    late = np.flatnonzero(cuts[drawn] < words)
    drawn[late] = np.searchsorted(cuts, words[late])
    open_ = np.flatnonzero(cuts[drawn] == words)
    drawn += first
    for i in open_:
        drawn[i] = quantile_of(int(words[i]), law, _further(stream))
    _core.zero(words)
    return drawn


def skellam(size: int, variance: Fraction, stream: Stream | None) -> _Array:
    """Return `size` independent differences of two Poisson variables."""
    law = Poisson(variance / 2)
    noise = quantiles(size, law, stream)
    other = quantiles(size, law, stream)
    noise -= other
    _core.zero(other)
    return noise


def _further(stream: Stream | None) -> Block:
    return lambda _: random.bytes(16, stream=stream)


def kept(word: int, size: int, power: int, scale: Fraction, block: Block) -> bool:
    """Return whether the uniform of a word is below 2**power q**size / size."""

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
    """Return the number of trailing zeros of each word; 64 if the word is 0."""
    lowest = words & (~words + np.uint64(1))
    zeros = np.frexp(lowest.astype(np.float64))[1].astype(np.int64) - 1
    zeros[words == 0] = _WORD
    return zeros


def draw(size: int, scale: Fraction, shape: Fraction, stream: Stream | None) -> _Array:
    """Return `size` independent shares: int64, or Python ints if int64 may overflow."""
    last = octaves(scale)
    points = quantiles(size, Poisson(2 * shape * (last + 1)), stream)
    owner = np.repeat(np.arange(size), points)
    sizes = _sizes(len(owner), scale, last, stream, _further(stream))
    wide = points.max(initial=0) > _MOST_POINTS or sizes.dtype == object
    noise = np.zeros(size, object if wide else np.int64)
    np.add.at(noise, owner, sizes)
    for secret in (points, owner, sizes):
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
    """Return signed sizes of proposed points, 0 for rejected ones."""
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
        while tail[i] and run % _WORD == 0 and run:  # all bits were 0: read more
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


def excess(shape: Fraction, scale: Fraction) -> float:
    """Return an upper bound on ln(P(0)/P(1)) - 1/scale of a sum of this shape < 1.

    docs/proofs/shares.md, section 3. All terms are positive, and the margins exceed the
    rounding of their sums.
    """
    top = float(min(scale, _SUMMED))
    decay = math.exp(-2 / top)
    count = math.ceil(20 * top) + 50
    j = np.arange(count)
    b = np.concatenate([[1.0], np.cumprod((j + float(shape)) / (j + 1))])
    weights = decay**j
    square = float(np.sum(b[:-1] ** 2 * weights))
    square += float(b[-1]) ** 2 * decay**count / -math.expm1(-2 / top)
    cross = float(np.sum(b[:-1] * b[1:] * weights))
    ratio = min(square / cross, 1 / float(shape))
    return math.log(max(ratio, 1.0) * (1 + 1e-9)) + 1e-12
