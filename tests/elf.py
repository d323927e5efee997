"""Symbols of the extension's file, where that is ELF of 64 bits."""

from __future__ import annotations

import functools
import struct
from pathlib import Path

#: Tables of symbols: all, and those of the dynamic linker.
ALL, DYNAMIC = 2, 11


def symbols(binary: bytes, table: int) -> dict[str, int]:
    """Return the places of the global and local symbols that the file defines."""
    (start,) = struct.unpack_from("<Q", binary, 40)
    size, count = struct.unpack_from("<HH", binary, 58)
    sections = [
        struct.unpack_from("<IIQQQQI", binary, place)
        for place in range(start, start + size * count, size)
    ]
    found = {}
    for _, kind, _, _, offset, length, names in sections:
        if kind == table:
            text = sections[names][4]
            for name, _, _, section, value, _ in struct.iter_unpack(
                "<IBBHQQ", binary[offset : offset + length]
            ):
                if section:
                    end = binary.index(b"\0", text + name)
                    found[binary[text + name : end].decode()] = value
    return found


@functools.cache
def addresses(path: str) -> dict[str, int]:
    """Return where the symbols of a loaded file are in this process."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    start = min(int(line.split("-")[0], 16) for line in maps if line.endswith(path))
    found = symbols(Path(path).read_bytes(), ALL)
    return {name: start + value for name, value in found.items()}
