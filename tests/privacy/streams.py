"""Streams that watch what the package asks of them."""

from __future__ import annotations

import hashlib

from fastdp import _core
from fastdp._stream import CallKey, Stream


class CountingStream(Stream):
    """Counts the calls that draw a key: the only way to randomness there is."""

    def __init__(self) -> None:
        self.calls = 0

    def _next_call(self) -> CallKey:
        self.calls += 1
        key = hashlib.sha256(b"counting %d" % self.calls).digest()
        return _core.CIPHERS["chacha20"], key, None


class KeyStream(Stream):
    """Gives the same key to every call."""

    def __init__(self, key: bytes, cipher: str = "chacha20") -> None:
        self._call = (_core.CIPHERS[cipher], key, None)

    def _next_call(self) -> CallKey:
        return self._call


class BrokenStream(Stream):
    """Fails like a source of entropy that is gone."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def _next_call(self) -> CallKey:
        raise self._error
