"""Fixed streams: repeatable, loud, and never picked up by accident."""

from __future__ import annotations

import copy
import hashlib
import pickle
import subprocess
import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.exceptions import DTypeError, InsecureStreamWarning, ParameterError
from fastdp.testing import FixedStream, TapeStream


def draw(stream: Any, n: int = 50) -> list[int]:
    noise = fastdp.random.discrete_laplace(1000, size=n, stream=stream)
    return list(noise.tolist())


def test_equal_streams_replay_the_same_calls() -> None:
    one, two = FixedStream("a"), FixedStream("a")
    assert one == two
    first = [draw(one) for _ in range(3)]
    assert first == [draw(two) for _ in range(3)]
    assert len({tuple(noise) for noise in first}) == 3
    assert one.calls == two.calls == 3


def test_key_and_cipher_change_the_noise() -> None:
    assert draw(FixedStream("a")) != draw(FixedStream("b"))
    if _core.cipher_available("aes"):
        assert draw(FixedStream("a", cipher="aes")) != draw(FixedStream("a"))
    key = hashlib.sha256(b"a").digest()
    assert draw(FixedStream(key)) == draw(FixedStream("a"))


def test_streams_with_unequal_positions_differ() -> None:
    one, two = FixedStream("a"), FixedStream("a")
    draw(one)
    assert one != two
    assert one != "a"
    with pytest.raises(TypeError):
        hash(one)


@pytest.mark.parametrize("key", [5, None, 1.5, True, bytearray(32), [1], ("a",)])
def test_seeds_are_refused(key: Any) -> None:
    with pytest.raises(DTypeError, match=r"^key must be bytes or a str"):
        FixedStream(key)


@pytest.mark.parametrize("key", [b"", b"x" * 31, b"x" * 33])
def test_short_and_long_keys_are_refused(key: bytes) -> None:
    with pytest.raises(ParameterError, match=r"^key must have 32 bytes"):
        FixedStream(key)


@pytest.mark.parametrize("cipher", ["tape", "AES", "", None, 1])
def test_other_ciphers_are_refused(cipher: Any) -> None:
    with pytest.raises(ParameterError, match=r"^cipher must be"):
        FixedStream("a", cipher=cipher)


def test_every_stream_warns_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stream = FixedStream("a")
        draw(stream)
        draw(stream)
    assert [w.category for w in caught] == [InsecureStreamWarning]
    assert caught[0].filename == __file__


def test_streams_are_neither_pickled_nor_shown() -> None:
    stream = FixedStream(bytes(range(32)))
    with pytest.raises(DTypeError, match="pickle"):
        pickle.dumps(stream)
    with pytest.raises(DTypeError, match="pickle"):
        copy.deepcopy(stream)
    assert repr(stream) == "FixedStream(<key>, cipher='chacha20')"


def test_threads_never_share_a_call() -> None:
    stream = FixedStream("a")
    found: list[tuple[int, ...]] = []

    def work() -> None:
        for _ in range(50):
            found.append(tuple(draw(stream, 4)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stream.calls == 400
    again = FixedStream("a")
    assert sorted(found) == sorted(tuple(draw(again, 4)) for _ in range(400))


def test_the_package_does_not_load_it() -> None:
    code = (
        "import sys, fastdp, fastdp.cli, fastdp.mechanisms, fastdp.random, "
        "fastdp.calibration, fastdp.distributions, fastdp.accounting; "
        "assert 'fastdp.testing' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tape_gives_its_words() -> None:
    # After 2048 bytes for ranks come 64 columns and 64 times u; a column beyond all
    # cuts is its own value, v + 64.
    words = np.zeros((1, 4096), np.uint8)
    words[0, 2048 : 2048 + 64] = np.arange(32, 96)
    words[0, 2048 + 64 : 2048 + 128] = 255
    noise = fastdp.random.discrete_laplace(10, size=64, stream=TapeStream(words))
    own = noise == np.arange(32, 96) - 64
    assert own.mean() > 0.4


@pytest.mark.parametrize(
    "words",
    [
        np.zeros((1, 1024), np.int8),
        np.zeros(1024, np.uint8),
        np.zeros((2, 2048), np.uint8)[:, ::2],
    ],
)
def test_tape_layout(words: np.ndarray) -> None:
    with pytest.raises(DTypeError, match=r"^words must be a C-contiguous 2-d array"):
        TapeStream(words)


def test_tape_sizes() -> None:
    with pytest.raises(ParameterError, match=r"^words must have a stride"):
        TapeStream(np.zeros((1, 1000), np.uint8))
    with pytest.raises(ParameterError, match=r"^words must have a stride"):
        TapeStream(np.zeros((2, 1024), np.uint8), np.zeros((1, 16), np.uint8))
