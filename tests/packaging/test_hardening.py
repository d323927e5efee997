"""The extension that is installed has the checks that SECURITY.md names."""

from __future__ import annotations

import platform
import struct
import sys
from pathlib import Path

import pytest

from fastdp import _core
from tests import elf

BINARY = Path(_core.__file__).read_bytes()
SANITIZED = b"__asan_init" in BINARY or b"__ubsan_handle" in BINARY

LOAD, DYNAMIC, STACK, RELRO = 1, 2, 0x6474E551, 0x6474E552
STRINGS, STRINGS_SIZE, BIND_NOW, FLAGS, FLAGS_1 = 5, 10, 24, 30, 0x6FFFFFFB

pytestmark = [
    pytest.mark.skipif(SANITIZED, reason="sanitizers have checks of their own"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads ELF"),
]


def segments(binary: bytes) -> dict[int, list[tuple[int, ...]]]:
    """Return flags, offset, address and file size of the segments, by their type."""
    assert binary[:6] == b"\x7fELF\x02\x01"  # 64 bits, little-endian
    (start,) = struct.unpack_from("<Q", binary, 32)
    size, count = struct.unpack_from("<HH", binary, 54)
    found: dict[int, list[tuple[int, ...]]] = {}
    for place in range(start, start + size * count, size):
        kind, flags, offset, address, _, length = struct.unpack_from(
            "<IIQQQQ", binary, place
        )
        found.setdefault(kind, []).append((flags, offset, address, length))
    return found


def dynamic(binary: bytes) -> dict[int, int]:
    """Return the dynamic section's values by their tags."""
    ((_, offset, _, length),) = segments(binary)[DYNAMIC]
    return dict(struct.iter_unpack("<qQ", binary[offset : offset + length]))


def names(binary: bytes) -> set[bytes]:
    """Return the strings of the dynamic linker: the symbols that are asked for."""
    tags = dynamic(binary)
    (place,) = (
        offset + tags[STRINGS] - address
        for _, offset, address, length in segments(binary)[LOAD]
        if address <= tags[STRINGS] < address + length
    )
    return set(binary[place : place + tags[STRINGS_SIZE]].split(b"\0"))


def test_only_the_start_of_the_module_is_exported() -> None:
    assert elf.symbols(BINARY, elf.DYNAMIC).keys() == {"PyInit__core"}


def test_all_relocations_are_read_only_before_the_first_call() -> None:
    tags = dynamic(BINARY)
    assert RELRO in segments(BINARY)
    assert BIND_NOW in tags or tags.get(FLAGS, 0) & 8 or tags.get(FLAGS_1, 0) & 1


def test_the_stack_is_not_executable() -> None:
    ((flags, _, _, _),) = segments(BINARY)[STACK]
    assert not flags & 1


def test_stacks_are_protected() -> None:
    assert b"__stack_chk_fail" in names(BINARY)


def test_copies_of_known_sizes_are_checked() -> None:
    if b"__memcpy_chk" not in Path(_libc()).read_bytes():
        pytest.skip("a libc without checked copies")
    assert any(name.endswith(b"_chk") for name in names(BINARY))


def _libc() -> str:
    """Return the path of the libc that this process runs on."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split()[-1]
        if "/libc." in path or "/ld-musl" in path:
            return path
    raise AssertionError("no libc in this process")


def test_every_start_of_a_call_is_marked_on_x86() -> None:
    """endbr64: where an indirect call may land."""
    if platform.machine() != "x86_64":
        pytest.skip("x86 only")
    assert BINARY.count(b"\xf3\x0f\x1e\xfa") > 100
