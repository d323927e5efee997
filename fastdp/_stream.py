"""The argument `stream`: None, or an object of `Stream`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np

from fastdp.exceptions import DTypeError

#: Cipher number, 32-byte key, and for tests the words themselves.
CallKey: TypeAlias = "tuple[int, bytes, tuple[np.ndarray, np.ndarray] | None]"


class Stream(ABC):
    """A source of call keys other than the operating system.

    The package ships fixed streams for tests only: `fastdp.testing.FixedStream`.
    """

    @abstractmethod
    def _next_call(self) -> CallKey:
        """Return the key of the next call."""


def check_stream(stream: object) -> Stream | None:
    """Return `stream` if it is None or a `Stream`; refuse seeds and generators."""
    if stream is None or isinstance(stream, Stream):
        return stream
    raise DTypeError(
        "stream must be None (fresh randomness from the operating system) or a "
        f"stream object, got {type(stream).__name__}; seeds and numpy generators are "
        "not private: for repeatable tests use fastdp.testing.FixedStream"
    )
