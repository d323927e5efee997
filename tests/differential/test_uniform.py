"""Uniform integers and permutations against the methods' definitions in integers."""

from collections.abc import Iterator

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.testing import TapeStream
from tests.differential.layout import Keyed

KEY = bytes(range(7, 39))
RANGES = [1, 2, 3, 10, 2**31, 2**32 + 1, 2**62 + 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64]

pytestmark = pytest.mark.usefixtures("level")


def words(call: _core.Call, chunk: int, n: int) -> Iterator[int]:
    """Return the first n 64-bit words of a chunk."""
    size = -(-8 * n // 1024) * 1024
    yield from np.frombuffer(call.keystream(chunk, 0, size), "<u8").tolist()


def lemire(source: Iterator[int], span: int) -> int:
    """Return the high half of word * span, redrawn while the low half is surplus."""
    while True:
        high, low = divmod(next(source) * span, 2**64)
        if low >= 2**64 % span:
            return high


def signed(x: int) -> int:
    return (x + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("cipher", ["chacha20", "aes"])
@pytest.mark.parametrize("span", RANGES)
def test_integers_are_those_of_the_reference(span: int, cipher: str) -> None:
    if not _core.cipher_available(cipher):
        pytest.skip(f"no {cipher} instructions at this level")
    low = min(-(2**63), 2**63 - span) if span > 2**63 else -5
    call = _core.Call(Keyed(KEY, cipher))
    answers = []
    for chunk in range(2):
        source = words(call, chunk, 5 * _core.INTEGERS_CHUNK)
        values = (lemire(source, span) for _ in range(_core.INTEGERS_CHUNK))
        answers += [low + v for v in values]
    n = len(answers) - 100
    got = fastdp.random.integers(low, low + span, size=n, stream=Keyed(KEY, cipher))
    assert got.tolist() == answers[:n]
    assert got.min() >= low
    assert int(got.max()) < low + span


@pytest.mark.parametrize("span", [3, 2**32 + 1, 2**63 + 1, 2**64 - 1])
def test_words_at_the_edge_of_the_surplus(span: int) -> None:
    """Products whose low half is just below and at 2**64 mod span."""
    surplus = 2**64 % span
    inverse = pow(span, -1, 2**64)
    lows = [0, 1, surplus - 1, surplus, surplus + 1, 2**64 - 1, 2**63]
    given = [low * inverse % 2**64 for low in lows] + [0, 1, 2**64 - 1]
    tape = np.zeros(128, "<u8")
    tape[: len(given)] = given
    tape[len(given) :] = np.random.default_rng(1).integers(2**63, size=118) * 2 + 1
    stream = TapeStream(tape.view(np.uint8).reshape(1, -1))
    source = iter(tape.tolist())
    answers = [signed(lemire(source, span)) for _ in range(20)]
    out = np.zeros(20, np.int64)
    _core.fill_integers(_core.Call(stream), 0, span, out)
    assert out.tolist() == answers


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_change_no_integer(workers: int) -> None:
    one, many = (
        fastdp.random.integers(0, 1000, size=10_001, stream=Keyed(KEY), workers=w)
        for w in (1, workers)
    )
    assert (one == many).all()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 2047, 2048, 2049, 5000])
def test_permutation_is_the_inside_out_shuffle(n: int) -> None:
    call = _core.Call(Keyed(KEY))
    source = (w for chunk in range(4) for w in words(call, chunk, 2048))
    answer = [0] * n
    for i in range(n):
        k = lemire(source, i + 1)
        answer[i] = answer[k]
        answer[k] = i
    got = fastdp.random.permutation(n, stream=Keyed(KEY))
    assert got.tolist() == answer
    assert sorted(got.tolist()) == list(range(n))


def test_shuffle_moves_rows_by_the_permutation() -> None:
    x = np.arange(30).reshape(10, 3)
    rows = x[fastdp.random.permutation(10, stream=Keyed(KEY))]
    fastdp.random.shuffle(x, stream=Keyed(KEY))
    assert (x == rows).all()
