"""AES-256 encryption of blocks, from FIPS 197. Slow, and its timing leaks."""

import numpy as np


def _times_two(x: np.ndarray) -> np.ndarray:
    return (x << 1 ^ np.where(x & 0x80, 0x1B, 0)).astype(np.uint8)


def _multiply(a: int, b: int) -> int:
    """Multiply in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def _substitution() -> np.ndarray:
    """Return the S-box: the inverse in the field, then an affine map."""
    table = []
    for x in range(256):
        inverse = next((y for y in range(256) if _multiply(x, y) == 1), 0)
        rotations = inverse | inverse << 8
        mixed = inverse
        for k in range(4, 8):
            mixed ^= rotations >> k & 0xFF
        table.append(mixed ^ 0x63)
    return np.array(table, np.uint8)


_SBOX = _substitution()
# Bytes lie column by column; row r turns left by r columns.
_SHIFT_ROWS = np.array([4 * ((c + r) % 4) + r for c in range(4) for r in range(4)])


def round_keys(key: bytes) -> np.ndarray:
    words = [np.frombuffer(key[4 * i : 4 * i + 4], np.uint8) for i in range(8)]
    constant = 1
    for i in range(8, 60):
        word = words[-1]
        if i % 8 == 0:
            word = _SBOX[np.roll(word, -1)]
            word[0] ^= constant
            constant = _multiply(constant, 2)
        elif i % 8 == 4:
            word = _SBOX[word]
        words.append(words[i - 8] ^ word)
    return np.concatenate(words).reshape(15, 16)


def encrypt(key: bytes, plain: np.ndarray) -> np.ndarray:
    """Encrypt the rows of an array of shape (n, 16)."""
    keys = round_keys(key)
    state = np.asarray(plain, np.uint8) ^ keys[0]
    for number in range(1, 15):
        state = _SBOX[state][:, _SHIFT_ROWS]
        if number < 14:
            column = state.reshape(-1, 4, 4)
            every = np.bitwise_xor.reduce(column, axis=2, keepdims=True)
            pair = column ^ np.roll(column, -1, axis=2)
            state = (column ^ every ^ _times_two(pair)).reshape(-1, 16)
        state = state ^ keys[number]
    return state


def blocks(key: bytes, counters: np.ndarray, nonce: int) -> np.ndarray:
    """Encrypt little-endian blocks {counter, nonce} of two 64-bit words."""
    counters = np.asarray(counters, np.uint64)
    pairs = np.empty((counters.size, 2), "<u8")
    pairs[:, 0], pairs[:, 1] = counters, nonce
    return encrypt(key, pairs.view(np.uint8))
