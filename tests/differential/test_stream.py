"""The streams, bit for bit, against ChaCha20 and AES-256 from their standards."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdp import _core
from fastdp.testing import FixedStream, TapeStream
from tests.differential.layout import Keyed
from tests.reference import aes256, chacha20

KEY = bytes(range(100, 132))
CIPHERS = ["chacha20", "aes"]
MEGABYTE = 1 << 20
VECTORS = Path(__file__).parents[1] / "vectors"


def vectors(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((VECTORS / name).read_text())["blocks"]
    return cases


@pytest.fixture
def call(level: str, request: pytest.FixtureRequest) -> _core.Call:
    """A call under KEY by the cipher that the test asks for."""
    return call_of(request.param, KEY)


def call_of(cipher: str, key: bytes) -> _core.Call:
    if not _core.cipher_available(cipher):
        pytest.skip(f"no {cipher} instructions at this level")
    return _core.Call(Keyed(key, cipher))


with_cipher = pytest.mark.parametrize("call", CIPHERS, indirect=True)
with_name = pytest.mark.parametrize(
    ("call", "cipher"), [(c, c) for c in CIPHERS], indirect=["call"]
)


# --- the definition of csrc/rng/stream.h in the reference's terms -----------------


def chunk_keys(cipher: str, key: bytes, chunk: int) -> tuple[bytes, bytes]:
    """Return the main and the extension key of a chunk."""
    if cipher == "chacha20":
        both = chacha20.block(key, chunk, 0)
    else:
        both = aes256.blocks(key, np.arange(4 * chunk, 4 * chunk + 4), 0).tobytes()
    return both[:32], both[32:]


def interleaved(blocks: np.ndarray) -> np.ndarray:
    """Lay units of 16 blocks out by word: word w of all 16, then word w + 1."""
    words = np.ascontiguousarray(blocks).view("<u4").reshape(-1, 16, 16)
    return np.ascontiguousarray(words.transpose(0, 2, 1)).view(np.uint8).reshape(-1)


def main(cipher: str, key: bytes, start: int, n: int, nonce: int = 0) -> bytes:
    """Return n bytes of the stream under a chunk's main key from a unit's start."""
    if cipher == "chacha20":
        counters = np.arange(start // 64, (start + n + 1023) // 1024 * 16)
        stream = interleaved(chacha20.blocks(key, counters, nonce))
    else:
        counters = np.arange(start // 16, (start + n + 15) // 16)
        stream = aes256.blocks(key, counters, nonce).reshape(-1)
    return stream[:n].tobytes()


def extension(cipher: str, key: bytes, trial: int, block: int) -> bytes:
    if cipher == "chacha20":
        part = 16 * (block % 4)
        return chacha20.block(key, trial, block // 4)[part : part + 16]
    return aes256.blocks(key, np.array([trial]), block).tobytes()


# --- the references have the published answers ------------------------------------


@pytest.mark.parametrize("case", vectors("chacha20.json"), ids=lambda c: c["name"])
def test_reference_chacha20_has_the_published_blocks(case: dict[str, Any]) -> None:
    nonce = np.frombuffer(bytes.fromhex(case["nonce"]), "<u4").tolist()
    counter = case["counter"] | nonce[0] << 32
    block = chacha20.block(
        bytes.fromhex(case["key"]), counter, nonce[1] | nonce[2] << 32
    )
    assert block.hex() == case["keystream"]


@pytest.mark.parametrize("case", vectors("aes256.json"), ids=lambda c: c["name"])
def test_reference_aes256_has_the_published_blocks(case: dict[str, Any]) -> None:
    plain = np.frombuffer(bytes.fromhex(case["plain"]), np.uint8)[None]
    assert (
        aes256.encrypt(bytes.fromhex(case["key"]), plain).tobytes().hex()
        == (case["cipher"])
    )


def test_published_chacha20_block_keys_the_first_chunk(level: str) -> None:
    """RFC 8439 A.1 #1 is the block that holds chunk 0's keys under the zero key."""
    published = bytes.fromhex(vectors("chacha20.json")[1]["keystream"])
    call = call_of("chacha20", bytes(32))
    assert call.extension(0, 7, 1) == chacha20.block(published[32:], 7, 0)[16:32]
    assert call.keystream(0, 0, 64) == main("chacha20", published[:32], 0, 64)


# --- main streams -------------------------------------------------------------------


@with_name
@pytest.mark.parametrize("chunk", [0, 1, 2, 1000, 2**32 - 1])
def test_main_stream_is_that_of_the_chunk_key(
    call: _core.Call, cipher: str, chunk: int
) -> None:
    key, _ = chunk_keys(cipher, KEY, chunk)
    assert call.keystream(chunk, 0, 5000) == main(cipher, key, 0, 5000)


@with_name
def test_main_stream_over_a_megabyte(call: _core.Call, cipher: str) -> None:
    key, _ = chunk_keys(cipher, KEY, 3)
    assert call.keystream(3, 0, MEGABYTE) == main(cipher, key, 0, MEGABYTE)


@with_name
@pytest.mark.parametrize("offset", [1024, 17 * 1024, 2**22, 2**36])
def test_main_stream_from_an_offset(call: _core.Call, cipher: str, offset: int) -> None:
    """The last offset lies beyond block 2**30: the counter's upper half counts."""
    key, _ = chunk_keys(cipher, KEY, 3)
    assert call.keystream(3, offset, 2048) == main(cipher, key, offset, 2048)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_levels_agree_over_a_megabyte(cipher: str, at_level: Any) -> None:
    digests = {}
    for level in _core.LEVELS:
        in_force = _core.limit_cpu(level)
        if _core.cipher_available(cipher):
            stream = call_of(cipher, KEY).keystream(9, 0, MEGABYTE)
            digests[in_force] = hashlib.sha256(stream).hexdigest()
    if not digests:
        pytest.skip(f"no {cipher} instructions on this machine")
    assert len(set(digests.values())) == 1


@with_name
def test_samplers_read_the_stream_that_tests_read(
    call: _core.Call, cipher: str
) -> None:
    """Uniform integers over all of 64 bits are the words themselves."""
    out = np.zeros(5000, np.int64)
    _core.fill_integers(call, 0, 0, out)
    words = b"".join(call.keystream(c, 0, 8 * _core.INTEGERS_CHUNK) for c in range(3))
    assert out.tobytes() == words[: out.nbytes]


@with_cipher
def test_bytes_are_the_chunks_one_after_the_other(call: _core.Call) -> None:
    n = 16384
    both = call.keystream(0, 0, n) + call.keystream(1, 0, 999)
    assert _core.fill_bytes(call, n + 999) == both


# --- extension blocks ---------------------------------------------------------------


@with_name
@pytest.mark.parametrize("chunk", [0, 5, 2**32 - 1])
def test_extension_blocks_are_those_of_the_chunk_key(
    call: _core.Call, cipher: str, chunk: int
) -> None:
    _, key = chunk_keys(cipher, KEY, chunk)
    for trial in (0, 1, 4095, 2**32 - 1):
        for block in (0, 1, 2, 3, 4, 5, 2**20, 2**20 + 1, 2**32 - 1):
            expected = extension(cipher, key, trial, block)
            assert call.extension(chunk, trial, block) == expected


@with_cipher
def test_no_two_chunks_share_a_key(call: _core.Call) -> None:
    """Nor do the main and the extension stream of one: all the first blocks differ."""
    firsts = {call.keystream(c, 0, 1024)[:16] for c in range(3000)}
    firsts |= {call.extension(c, 0, 0) for c in range(3000)}
    assert len(firsts) == 6000


# --- fixed streams ------------------------------------------------------------------


def test_fixed_stream_takes_its_call_keys_from_a_nonce_of_their_own() -> None:
    stream = FixedStream(KEY)
    for i in range(4):
        _, key, _ = stream._next_call()
        assert key == chacha20.block(KEY, i, 2**64 - 1)[:32]
    far = 2**40 + 3
    assert _core.derive_key(KEY, far) == chacha20.block(KEY, far, 2**64 - 1)[:32]


def test_text_key_is_its_sha256() -> None:
    text, digest = FixedStream("seed"), FixedStream(hashlib.sha256(b"seed").digest())
    assert text._next_call() == digest._next_call()


def test_derived_keys_differ() -> None:
    assert len({_core.derive_key(KEY, i) for i in range(5000)}) == 5000


# --- the tape -----------------------------------------------------------------------


def test_tape_gives_the_words_and_goes_on_where_they_end(level: str) -> None:
    rng = np.random.default_rng(5)
    words = rng.integers(0, 256, (2, 3072), np.uint8)
    more = rng.integers(0, 256, (2, 160), np.uint8)
    call = _core.Call(TapeStream(words, more))
    for chunk in (0, 1, 2):
        inside = words[chunk].tobytes() if chunk < 2 else b""
        first = (chunk << 32) + len(inside) // 64
        blocks = chacha20.blocks(bytes(32), np.arange(first, first + 32), 1)
        beyond = interleaved(blocks).tobytes()
        assert call.keystream(chunk, 0, len(inside) + 2048) == inside + beyond
        _, key = chunk_keys("chacha20", bytes(32), chunk)
        for trial in (0, 9, 10, 5000):
            given = more[chunk].tobytes()[16 * trial :][:16] if chunk < 2 else b""
            first_block = given or extension("chacha20", key, trial, 0)
            assert call.extension(chunk, trial, 0) == first_block
            for block in (1, 4, 2**20):
                expected = extension("chacha20", key, trial, block)
                assert call.extension(chunk, trial, block) == expected


# --- the secure default -------------------------------------------------------------


def test_every_call_has_a_fresh_key(level: str) -> None:
    streams = {_core.Call().keystream(0, 0, 32) for _ in range(2000)}
    assert len(streams) == 2000


def test_secure_default_is_aes_where_the_level_has_it(level: str) -> None:
    aes = _core.cipher_available("aes")
    assert _core.config()["cipher"] == ("aes" if aes else "chacha20")
