"""Repeatable streams for tests. Nothing drawn from them is private.

The package never imports this module. A fixed stream gives an explicit key to the same
kernels as the secure default, so that a test runs the production code.
"""

from __future__ import annotations

import hashlib
import threading
import warnings
from typing import Literal, NoReturn

import numpy as np

from fastdp import _core
from fastdp._stream import CallKey, Stream
from fastdp.exceptions import DTypeError, InsecureStreamWarning, ParameterError

__all__ = ["FixedStream", "TapeStream"]


def _warn() -> None:
    warnings.warn(
        "noise from a fixed stream is repeatable and therefore not private",
        InsecureStreamWarning,
        stacklevel=3,
    )


class FixedStream(Stream):
    """A stream whose calls repeat: call number i uses the key PRF(key, i).

    Equal objects replay the same sequence of calls. A lock protects the count, so that
    two threads never get the same call; the order between threads is not determined.

    Parameters
    ----------
    key : bytes or str
        32 bytes, or a string whose SHA-256 digest is the key.
    cipher : {"chacha20", "aes"}
        ChaCha20 gives the same output on every machine; AES-256 needs a CPU with AES
        instructions. The two give different outputs.

    Raises
    ------
    DTypeError
        `key` is neither bytes nor a string (an int seed, for example).
    ParameterError
        `key` does not have 32 bytes, or this machine cannot run the cipher.

    Warns
    -----
    InsecureStreamWarning
        Once for each object.

    Privacy
    -------
    None: anybody who knows the key can subtract the noise.

    Examples
    --------
    >>> import warnings
    >>> import fastdp
    >>> from fastdp.testing import FixedStream
    >>> warnings.simplefilter("ignore")
    >>> first = fastdp.random.discrete_laplace(10, size=3, stream=FixedStream("a"))
    >>> again = fastdp.random.discrete_laplace(10, size=3, stream=FixedStream("a"))
    >>> bool((first == again).all())
    True
    """

    def __init__(
        self, key: bytes | str, cipher: Literal["chacha20", "aes"] = "chacha20"
    ) -> None:
        if isinstance(key, str):
            key = hashlib.sha256(key.encode()).digest()
        if not isinstance(key, bytes):
            raise DTypeError(f"key must be bytes or a str, got {type(key).__name__}")
        if len(key) != 32:
            raise ParameterError(f"key must have 32 bytes, got {len(key)}")
        if cipher not in ("chacha20", "aes") or not _core.cipher_available(cipher):
            raise ParameterError(
                'cipher must be "chacha20" or "aes" and one that this machine can '
                f"run, got {cipher!r}"
            )
        self._key = key
        self._cipher = cipher
        self._calls = 0
        self._lock = threading.Lock()
        _warn()

    @property
    def calls(self) -> int:
        """The number of calls drawn so far."""
        return self._calls

    def _next_call(self) -> CallKey:
        with self._lock:
            index = self._calls
            self._calls += 1
        return _core.CIPHERS[self._cipher], _core.derive_key(self._key, index), None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FixedStream):
            return NotImplemented
        return (self._key, self._cipher, self._calls) == (
            other._key,
            other._cipher,
            other._calls,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"FixedStream(<key>, cipher={self._cipher!r})"

    def __reduce__(self) -> NoReturn:
        raise DTypeError("a stream cannot be pickled; make one from its key instead")


class TapeStream(Stream):
    """A stream of words given by the caller, for one call of a differential test.

    Parameters
    ----------
    words : ndarray of uint8, shape (chunks, stride)
        Main stream of each chunk; the stride is a multiple of 1024. Words beyond the
        stride come from ChaCha20 under a fixed key.
    extension : ndarray of uint8, shape (chunks, 16 * trials), optional
        First 16-byte extension block of each trial; further blocks come from
        ChaCha20 under the zero key.

    Raises
    ------
    DTypeError
        An array is not a C-contiguous two-dimensional array of uint8.
    ParameterError
        The stride is not a multiple of 1024, or the numbers of chunks differ.

    Privacy
    -------
    None.
    """

    def __init__(self, words: np.ndarray, extension: np.ndarray | None = None) -> None:
        if extension is None:
            extension = np.zeros((words.shape[0], 0), np.uint8)
        for name, array in (("words", words), ("extension", extension)):
            if (
                not isinstance(array, np.ndarray)
                or array.dtype != np.uint8
                or array.ndim != 2
                or not array.flags.c_contiguous
            ):
                raise DTypeError(f"{name} must be a C-contiguous 2-d array of uint8")
        if words.shape[1] % 1024 or words.shape[0] != extension.shape[0]:
            raise ParameterError(
                "words must have a stride that is a multiple of 1024 and as many "
                "chunks as extension"
            )
        self._words = words.copy()
        self._extension = extension.copy()
        _warn()

    def _next_call(self) -> CallKey:
        return _core.CIPHERS["tape"], bytes(32), (self._words, self._extension)
