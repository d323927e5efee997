"""Detection of a Mersenne Twister by the recurrence of output words."""

from __future__ import annotations

import numpy as np

#: Order of the recurrence in words, and the offset of its middle word.
_WORDS, _MIDDLE = 624, 397

#: Number of outputs to examine.
DRAWS = 1024


def untempered(words: np.ndarray) -> np.ndarray:
    """Return the words of the generator's state that gave 32-bit outputs."""
    y = words.astype(np.uint32)
    y = y ^ (y >> np.uint32(18))
    y = y ^ ((y << np.uint32(15)) & np.uint32(0xEFC60000))
    mixed = y
    for _ in range(4):  # recovers seven more bits each time
        mixed = y ^ ((mixed << np.uint32(7)) & np.uint32(0x9D2C5680))
    y = mixed ^ (mixed >> np.uint32(11)) ^ (mixed >> np.uint32(22))
    return np.asarray(y)


def predicted(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the words that the recurrence predicts, and the actual words.

    Both are words of the state, from the first predictable place on.
    """
    y = untempered(words)
    high, low = np.uint32(0x80000000), np.uint32(0x7FFFFFFF)
    n = len(y) - _WORDS
    joined = (y[:n] & high) | (y[1 : n + 1] & low)
    odd = (joined & np.uint32(1)) * np.uint32(0x9908B0DF)
    return y[_MIDDLE : n + _MIDDLE] ^ (joined >> np.uint32(1)) ^ odd, y[_WORDS:]


def compared(noise: np.ndarray) -> list[np.ndarray]:
    """Return rows of predicted and of actual words, one row for each output.

    Parameters
    ----------
    noise : ndarray of int64, shape (n,)
        Outputs minus the input, as their 64 bits.
    """
    bits = noise.view(np.uint64)
    low = (bits & np.uint64(2**32 - 1)).astype(np.uint32)
    high = (bits >> np.uint64(32)).astype(np.uint32)
    if not high.any():
        return [x.astype(np.int64)[:, None] for x in predicted(low)]
    orders = [
        [
            x.astype(np.int64).reshape(-1, 2)
            for x in predicted(np.stack(pair, axis=1).reshape(-1))
        ]
        for pair in ((low, high), (high, low))
    ]
    return max(orders, key=lambda rows: int((rows[0] == rows[1]).all(axis=1).sum()))
