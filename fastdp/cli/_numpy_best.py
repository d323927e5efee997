"""The fastest known numpy code for the work of ``fastdp bench``.

The generator is SFC64, numpy's fastest. Arrays are made once and processed in blocks
that fit in the cache. Laws and rounding are as in the plain numpy code.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastdp.cli._timings import Array, Call

#: Elements of a block: 256 kB of doubles.
_BLOCK = 2**15

#: numpy's fastest generator.
GENERATOR = np.random.Generator(np.random.SFC64())


def _parts(size: int) -> Iterator[slice]:
    for start in range(0, size, _BLOCK):
        yield slice(start, min(start + _BLOCK, size))


def noise(
    law: str, scale: float, out: Array, *, rounded: bool, added: bool = False
) -> Call:
    """Return Laplace or Gaussian noise, rounded or not, written or added to `out`."""
    one, other = np.zeros((2, min(_BLOCK, out.size)))

    def call() -> object:
        for part in _parts(out.size):
            to = out[part]
            drawn, minus = one[: to.size], other[: to.size]
            if law == "laplace":  # the difference of two exponentials
                GENERATOR.standard_exponential(out=drawn)
                drawn -= GENERATOR.standard_exponential(out=minus)
            else:
                GENERATOR.standard_normal(out=drawn)
            drawn *= scale
            if rounded:
                np.rint(drawn, out=drawn)
            if added:
                np.add(to, drawn, out=to, casting="unsafe")
            else:
                np.copyto(to, drawn, casting="unsafe")
        return out

    return call


def words(size: int) -> Array:
    """Return random words of 16 bits."""
    drawn: Array = GENERATOR.bit_generator.random_raw(-(-size // 4))
    return drawn.view(np.uint16)[:size]


def threshold(p: float) -> np.uint16:
    """Return the number of 16-bit words that mean yes."""
    return np.uint16(min(round(p * 2**16), 2**16 - 1))


def flipped(x: Array, flip: float, out: Array, *, packed: bool) -> Call:
    """Return binary randomized response, by words of 16 bits."""
    limit, bits = threshold(flip), 8 if packed else 1

    def call() -> object:
        for part in _parts(x.size * bits):
            at = slice(part.start // bits, part.stop // bits)
            turned = words(part.stop - part.start) < limit
            flips = np.packbits(turned) if packed else turned
            np.bitwise_xor(x[at], flips, out=out[at])
        return out

    return call


def response(x: Array, p: float, k: int, out: Array) -> Call:
    """Return a call of k-ary response from 16-bit words; k is a power of two."""
    limit, shift = threshold(p), np.uint16(16 - (k - 1).bit_length())

    def call() -> object:
        for part in _parts(x.size):
            size = part.stop - part.start
            other = words(size) >> shift
            out[part] = np.where(words(size) < limit, x[part], other)
        return out

    return call


def inverted(scores: Array, half: float, weights: Array | None = None) -> Call:
    """Return one choice by looking up a uniform number in sums of weights."""
    sums = np.zeros(scores.size)

    def call() -> object:
        np.subtract(scores, scores.max(), out=sums)
        np.multiply(sums, half, out=sums)
        np.exp(sums, out=sums)
        if weights is not None:
            np.multiply(sums, weights, out=sums)
        np.cumsum(sums, out=sums)
        return np.searchsorted(sums, GENERATOR.random() * sums[-1], side="right")

    return call


def largest(scores: Array, half: float, law: str) -> Call:
    """Return the largest score with exponential or Laplace noise, of each row."""
    keys, other = np.zeros((2, *scores.shape))

    def call() -> object:
        GENERATOR.standard_exponential(out=keys)
        if law == "laplace":
            np.subtract(keys, GENERATOR.standard_exponential(out=other), out=keys)
        np.multiply(scores, half, out=other)
        np.add(keys, other, out=keys)
        return np.argmax(keys, axis=-1)

    return call


def raced(scores: Array, half: float, k: int = 1) -> Call:
    """Return the winner of each row's race; with k > 1, the first k of one race."""
    times, rates = np.zeros((2, *scores.shape))

    def call() -> object:
        np.multiply(scores, -half, out=rates)
        np.exp(rates, out=rates)
        np.multiply(GENERATOR.standard_exponential(out=times), rates, out=times)
        if k == 1:
            return np.argmin(times, axis=-1)
        first = np.argpartition(times, k - 1)[:k]
        return first[np.argsort(times[first])]

    return call
