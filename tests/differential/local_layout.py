"""The words of the local randomizers as their kernels lay them out.

Each function gives the answers of a call from its bits alone, by the references.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from fastdp import _core
from fastdp._core import LEVELS
from tests.differential.layout import Keyed
from tests.reference import bernoulli, response
from tests.reference.interval import More

#: Elements, values and bytes of a chunk, of small responses.
BITS, RESPONSES, BYTES = 32768, 8192, 16384

#: First chunks of the draws of one mechanism under one key.
REGION = 1 << 30


def each_machine(key: bytes) -> Iterator[tuple[str, _core.Call]]:
    """Put each level of this machine in force in turn, and give a call per cipher."""
    try:
        for level in LEVELS:
            if _core.limit_cpu(level) != level:
                continue
            for cipher in ("chacha20", "aes"):
                if _core.cipher_available(cipher):
                    yield f"{level} {cipher}", _core.Call(Keyed(key, cipher))
    finally:
        _core.limit_cpu(None)


def chunks(n: int, size: int, first: int) -> Iterator[tuple[int, int]]:
    """Split n outputs: the number of each chunk and how many it gives."""
    for i in range(-(-n // size)):
        yield first + i, min(size, n - i * size)


def further(call: _core.Call, chunk: int) -> Callable[[int], More]:
    """Return the extension blocks of the trials of a chunk."""
    return lambda trial: lambda block: call.extension(chunk, trial, block)


def bit_words(call: _core.Call, chunk: int, n: int) -> bytes:
    """Return the whole blocks of words behind the first n bits of a chunk."""
    blocks = -(-n // (8 * bernoulli.BLOCK))
    return call.keystream(chunk, 0, 2 * bernoulli.BLOCK * blocks)


def unit_of(call: _core.Call, chunk: int) -> Callable[[int], bytes]:
    """Return the units of further bits of a chunk's ties."""
    size = bernoulli.UNIT
    return lambda k: call.keystream(chunk, bernoulli.TIES + size * k, size)


def flips(call: _core.Call, p: Fraction, n: int, first: int = 0) -> np.ndarray:
    """Return n Bernoulli bits as booleans."""
    parts = [np.zeros(0, bool)]
    for chunk, count in chunks(n, BITS, first):
        raw = bit_words(call, chunk, count)
        units, more = unit_of(call, chunk), further(call, chunk)
        parts.append(bernoulli.flips(p, raw, units, more)[:count])
    return np.concatenate(parts)


def coins(call: _core.Call, n: int, first: int = 0) -> np.ndarray:
    """Return the n fair bits beside them."""
    parts = [np.zeros(0, np.uint8)]
    for chunk, count in chunks(n, BITS, first):
        size = -(-count // 512) * 64
        raw = np.frombuffer(call.keystream(chunk, bernoulli.FAIR, size), np.uint8)
        parts.append(np.unpackbits(raw)[:count])
    return np.concatenate(parts).astype(bool)


def responses(
    call: _core.Call,
    truth: Fraction,
    k: int,
    x: np.ndarray,
    other: int = -1,
    first: int = 0,
) -> np.ndarray:
    """Return the k-ary reports of values."""
    parts = [np.zeros(0, np.int64)]
    dtype = f"<u{response.word_bits(k, truth) // 8}"
    start = 0
    for chunk, count in chunks(len(x), response.chunk(k, truth), first):
        lanes = -(-count // 64) * 64
        raw = call.keystream(chunk, 0, lanes * np.dtype(dtype).itemsize)
        words = np.frombuffer(raw, dtype).astype(np.uint64)
        part, bits = x[start : start + count], bits_at(call, chunk)
        if truth == 1:
            drawn = response.labels(k, part, words, bits, other)
        else:
            more = further(call, chunk)
            drawn = response.reports(truth, k, part, words, bits, more, other)
        parts.append(drawn[:count])
        start += count
    return np.concatenate(parts)


def bits_at(call: _core.Call, chunk: int) -> Callable[[int], int]:
    """Return 64 bits at a place of a chunk."""

    def bits(offset: int) -> int:
        start = offset // 1024 * 1024
        raw = call.keystream(chunk, start, 2048)[offset - start :]
        return int.from_bytes(raw[:8], "little")

    return bits


def stream_bytes(call: _core.Call, n: int, first: int = 0) -> bytes:
    """Return n raw bytes."""
    return b"".join(
        call.keystream(chunk, 0, -(-count // 1024) * 1024)[:count]
        for chunk, count in chunks(n, BYTES, first)
    )


def hadamard_words(call: _core.Call, n: int, bits: int) -> np.ndarray:
    """Return the words of n codes with the given number of bits."""
    dtype = np.dtype("<u2" if bits <= 16 else "<u4")
    raw = b"".join(
        call.keystream(chunk, 0, 8192 * dtype.itemsize)[: count * dtype.itemsize]
        for chunk, count in chunks(n, 8192, REGION)
    )
    return np.frombuffer(raw, dtype).astype(np.int64) % 2**bits
