"""Digests of strings and hash functions of digests, in Python's integers.

SipHash-2-4 as Aumasson and Bernstein (2012) state it; the functions as
docs/proofs/open_domains.md does.
"""

MASK = 2**64 - 1


def siphash(key: bytes, text: bytes) -> int:
    """Return the 64 bits of SipHash-2-4 under a key of 16 bytes."""
    k = [int.from_bytes(key[i : i + 8], "little") for i in (0, 8)]
    v = [
        k[i % 2] ^ int.from_bytes(b"somepseudorandomlygeneratedbytes"[j : j + 8], "big")
        for i, j in enumerate((0, 8, 16, 24))
    ]

    def turned(x: int, by: int) -> int:
        return (x << by | x >> 64 - by) & MASK

    def rounds(number: int) -> None:
        for _ in range(number):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = turned(v[1], 13) ^ v[0]
            v[0] = turned(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = turned(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = turned(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = turned(v[1], 17) ^ v[2]
            v[2] = turned(v[2], 32)

    whole = len(text) // 8 * 8
    words = [int.from_bytes(text[i : i + 8], "little") for i in range(0, whole, 8)]
    rest = text[whole:].ljust(7, b"\0") + bytes([len(text) % 256])
    for word in [*words, int.from_bytes(rest, "little")]:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def function(key: bytes, seed: int) -> tuple[int, int, int]:
    """Return the words a, c, b of a seed."""
    other = bytes(255 - b for b in key)
    parts = [seed.to_bytes(8, "little") + j.to_bytes(8, "little") for j in range(3)]
    a, c, b = (siphash(other, part) for part in parts)
    return a, c, b


def hashed(words: tuple[int, int, int], x: int) -> int:
    """Return z(x), 64 bits."""
    a, c, b = words
    return ((a + x % 2**32) * (c + (x >> 32)) + b) & MASK


def row_bucket(key: bytes, row: int, x: int, bits: int) -> int:
    """Return the bucket of a digest in a row of 2**bits buckets."""
    return hashed(function(key, row), x) >> 64 - bits


def seed_bucket(key: bytes, seed: int, x: int, buckets: int) -> int:
    """Return the bucket of a digest under a seed."""
    return (hashed(function(key, seed), x) >> 32) * buckets >> 32
