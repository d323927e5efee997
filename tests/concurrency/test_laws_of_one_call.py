"""Threads that draw from different laws under one key: each by its own exact steps."""

import threading
from fractions import Fraction

import numpy as np

from fastdp import _core
from fastdp._laws import bernoulli_law
from fastdp.testing import TapeStream

ROUNDS = 60


def tape_of_late_ties(p: Fraction) -> TapeStream:
    """Return words that agree with p in 136 or more places for every bit of the law."""
    digits = (p.numerator << 192) // p.denominator
    words = np.zeros((1, 10240), np.uint8)
    words[0, :8192] = digits >> 184
    second = np.frombuffer((digits >> 168 & 0xFFFF).to_bytes(2, "little") * 4, "u1")
    words[0, 8192:9216] = np.tile(second, 128)

    def block(known: int) -> bytes:
        further = digits >> (64 - known) & (2**128 - 1)
        return (further >> 64).to_bytes(8, "little") + (further & (2**64 - 1)).to_bytes(
            8, "little"
        )

    # Lane by lane: the first four ties of a block have had 24 bits, the others 8.
    lanes = b"".join(block(24 if lane % 64 < 4 else 8) for lane in range(8192))
    return TapeStream(words, np.frombuffer(lanes, "u1").reshape(1, -1).copy())


def test_a_law_is_settled_by_its_own_parameter() -> None:
    law, other = bernoulli_law(Fraction(1, 3)), bernoulli_law(Fraction(1, 5))
    call = _core.Call(tape_of_late_ties(Fraction(1, 3)))
    expected = np.zeros(128, np.uint8)
    _core.flip_bits(call, law, None, expected, 1024)
    assert 0 < np.unpackbits(expected).sum() < 1024  # exact steps decided
    stop = threading.Event()

    def disturb() -> None:
        out = np.zeros(16, np.uint8)
        while not stop.is_set():
            _core.flip_bits(call, other, None, out, 128, 5)

    threads = [threading.Thread(target=disturb) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(ROUNDS):
            again = np.zeros_like(expected)
            _core.flip_bits(call, law, None, again, 1024)
            np.testing.assert_array_equal(again, expected)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
