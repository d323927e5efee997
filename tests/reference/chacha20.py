"""ChaCha20 blocks from RFC 8439 section 2.3, many counters at once."""

import numpy as np

_CONSTANTS = np.frombuffer(b"expand 32-byte k", "<u4")
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def _rotate(x: np.ndarray, bits: int) -> np.ndarray:
    return x << np.uint32(bits) | x >> np.uint32(32 - bits)


def blocks(key: bytes, counters: np.ndarray, nonce: int) -> np.ndarray:
    """Return one 64-byte block, as a row, for each 64-bit counter.

    Counter and nonce have 64 bits each, as in the original design; the RFC's
    nonce of 96 bits begins in the upper half of the counter.
    """
    counters = np.asarray(counters, np.uint64)
    start = np.empty((16, counters.size), np.uint32)
    start[:4] = _CONSTANTS[:, None]
    start[4:12] = np.frombuffer(key, "<u4")[:, None]
    start[12] = counters & np.uint64(0xFFFFFFFF)
    start[13] = counters >> np.uint64(32)
    start[14], start[15] = nonce & 0xFFFFFFFF, nonce >> 32
    x = start.copy()
    for _ in range(10):
        for a, b, c, d in (*_COLUMNS, *_DIAGONALS):
            for to, plus, turned, bits in (
                (a, b, d, 16),
                (c, d, b, 12),
                (a, b, d, 8),
                (c, d, b, 7),
            ):
                x[to] += x[plus]
                x[turned] = _rotate(x[turned] ^ x[to], bits)
    return np.ascontiguousarray((x + start).T).astype("<u4").view(np.uint8)


def block(key: bytes, counter: int, nonce: int) -> bytes:
    """Return the block at one counter."""
    return blocks(key, np.array([counter], np.uint64), nonce)[0].tobytes()
