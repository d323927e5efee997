"""Values of an open domain: strings of bytes, one per user, and their digests.

Text is encoded as UTF-8, bytes are unchanged, and integers, clamped to +-10**600,
become their decimal digits. Missing values (None, NaN, null) become the empty string.
No value is refused because of its content.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fastdp import _arrow, _core
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._keys import key_column

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Default public key of hash functions.
NO_KEY = "0" * 32

#: Hash function of digests in the kernels' format.
WORDS = np.dtype([("a", "<u8"), ("c", "<u8"), ("b", "<u8")])

#: Clamp integers to this magnitude: Python may refuse to write longer ones.
_MOST = 10**600


class Strings(NamedTuple):
    """Concatenated strings of bytes: string i is text[start[i]:start[i+1]]."""

    text: _Array  # uint8
    start: _Array  # int64
    shape: tuple[int, ...]

    def digests(self, key: _core.HashKey) -> _Array:
        """Return the digests of all strings as uint64, in their shape."""
        found = np.zeros(self.shape, np.uint64)
        key.digests(self.start, self.text, found)
        return found

    def padded(self, size: int) -> _Array:
        """Return the strings as rows of `size` bytes, cut or padded with zeros."""
        lengths = np.diff(self.start)
        rows = np.zeros((len(lengths), size), np.uint8)
        for place in range(size):
            at = np.minimum(self.start[:-1] + place, max(0, len(self.text) - 1))
            there = place < lengths
            if there.any():
                rows[:, place] = np.where(there, self.text[at], 0)
        return rows


def checked_key(key: object) -> str:
    """Return a public key as 32 lower-case hex digits.

    Raises
    ------
    DTypeError, ParameterError
        `key` is not 32 hex digits.
    """
    if not isinstance(key, str):
        raise DTypeError(
            f"key must be a str of 32 hex digits, got {type(key).__name__}"
        )
    if len(key) != 32 or not set(key) <= set("0123456789abcdefABCDEF"):
        raise ParameterError("key must be 32 hex digits, like secrets.token_hex(16)")
    return key.lower()


def hash_key(key: str) -> _core.HashKey:
    """Return a checked key in the kernels' format."""
    return _core.HashKey(bytes.fromhex(key))


def functions(key: _core.HashKey, seeds: _Array) -> _Array:
    """Return the words of the hash functions of uint64 seeds."""
    words = np.zeros(len(seeds), WORDS)
    key.words(seeds, words)
    return words


def read(name: str, values: Any) -> Strings:
    """Return values of any type as strings of bytes.

    Raises
    ------
    DTypeError, ParameterError
        `values` is neither one value nor a list, array or column of text, bytes or
        integers.
    """
    if isinstance(values, (str, bytes, int, np.integer)) and not isinstance(
        values, bool
    ):
        return _joined([_bytes_of(values)], ())
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        found = _arrow.text(values)
        if found is not None:
            return Strings(*found, (len(found[1]) - 1,))
    shape = values.shape if isinstance(values, np.ndarray) else None
    if shape is not None and len(shape) != 1 and not hasattr(values, "mask"):
        values = values.reshape(-1)
    listed, known = key_column(name, values)
    if listed.dtype.kind == "U" and listed.dtype.itemsize:
        listed = _text_only(listed)
    parts = listed.tolist()
    if not known.all():
        parts = [
            part if there else b"" for part, there in zip(parts, known, strict=True)
        ]
    encoded = [_bytes_of(part) for part in parts]
    return _joined(encoded, (len(parts),) if shape is None else shape)


def _text_only(listed: _Array) -> _Array:
    """Clamp words of text to the last Unicode character, the largest in Python."""
    own = listed.dtype.newbyteorder("=")
    points = np.ascontiguousarray(listed, own).view(np.uint32)
    return np.minimum(points, 0x10FFFF).view(own)


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes):
        return bytes(value)
    if not isinstance(value, str):
        value = str(min(max(int(value), -_MOST), _MOST))
    text: str = value
    return text.encode("utf-8", "surrogatepass")


def _joined(parts: list[bytes], shape: tuple[int, ...]) -> Strings:
    start = np.zeros(len(parts) + 1, np.int64)
    ends = itertools.accumulate(map(len, parts))
    start[1:] = np.fromiter(ends, np.int64, len(parts))
    text = np.frombuffer(b"".join(parts), np.uint8)
    return Strings(text, start, shape)


def names_of(values: Any) -> tuple[Any, ...]:
    """Return the values of a list, array or column as Python objects."""
    for kind in ("tolist", "to_list", "to_pylist"):
        if hasattr(values, kind):
            listed = getattr(values, kind)()
            return tuple(listed) if isinstance(listed, list) else (listed,)
    return tuple(values)
