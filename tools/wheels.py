"""Build wheels for other systems and processors on one Linux machine, by zig's clang.

    python -m tools.wheels SHELL OUT [TAG ...]

SHELL is a wheel that ``python -m build`` made here: its modules and metadata go into
every wheel, and only the extension is compiled anew, with the flags of setup.py. Needs
the extra ``wheels``. Each wheel is inspected before it is written: what it loads, what
it exports, how it is hardened, which system it asks for.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import abi3info
import lief
import numpy
from setuptools import Extension

from tools.check_package import EXTENSION, wheel_problems

ZIG = (sys.executable, "-m", "ziglang")


@dataclass(frozen=True)
class Target:
    """A platform: its wheel's tag, zig's triple, numpy's tags, the libraries it has."""

    tag: str
    triple: str
    numpy: tuple[str, ...]
    libraries: frozenset[str]

    @property
    def apple(self) -> bool:
        return self.tag.startswith("macosx")

    @property
    def windows(self) -> bool:
        return self.tag.startswith("win")

    @property
    def name(self) -> str:
        return "_core.pyd" if self.windows else "_core.abi3.so"


_GLIBC = frozenset({"libc.so.6", "libm.so.6"})
_MUSL = frozenset({"libc.so"})
#: The stable ABI, the entropy, and what Windows itself is made of.
_WINDOWS = frozenset({"python3.dll", "bcryptprimitives.dll", "kernel32.dll"})
_APPLE = frozenset({"/usr/lib/libSystem.B.dylib"})

TARGETS = (
    *(
        Target(
            f"manylinux_2_28_{machine}",
            f"{machine}-linux-gnu.2.28",
            (f"manylinux_2_28_{machine}", f"manylinux_2_27_{machine}"),
            _GLIBC,
        )
        for machine in ("x86_64", "aarch64")
    ),
    *(
        Target(
            f"musllinux_1_2_{machine}",
            f"{machine}-linux-musl",
            (f"musllinux_1_2_{machine}",),
            _MUSL,
        )
        for machine in ("x86_64", "aarch64")
    ),
    # aligned_alloc is there from macOS 10.15 on.
    Target(
        "macosx_10_15_x86_64", "x86_64-macos.10.15", ("macosx_10_13_x86_64",), _APPLE
    ),
    Target("macosx_11_0_arm64", "aarch64-macos.11.0", ("macosx_11_0_arm64",), _APPLE),
    Target("win_amd64", "x86_64-windows-gnu", ("win_amd64",), _WINDOWS),
)

#: All that the headers of the limited API ask of a 64-bit system.
PYCONFIG = """\
#ifdef _WIN32
#define MS_WINDOWS 1
#define MS_WIN32 1
#define MS_WIN64 1
#define HAVE_DECLSPEC_DLL 1
#define Py_ENABLE_SHARED 1
#define NT_THREADS 1
#endif
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_LONG_LONG 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__
#define SIZEOF_TIME_T 8
#define SIZEOF_OFF_T 8
#define SIZEOF_FPOS_T 16
#define ALIGNOF_SIZE_T 8
#define HAVE_SSIZE_T 1
#define HAVE_STDINT_H 1
#define WITH_THREAD 1
#include <sys/types.h>
"""


def core() -> Extension:
    """Return the extension as setup.py describes it, its Cython source made."""
    from distutils.core import run_setup

    (extension,) = run_setup("setup.py", stop_after="init").ext_modules
    return extension


def python_headers(work: Path) -> Path:
    """Copy this Python's headers to `work`, with a pyconfig.h that fits the targets."""
    folder = work / "python"
    source = Path(sysconfig.get_path("include"))
    for header in source.rglob("*.h"):
        copy = folder / header.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(header.read_bytes())
    (folder / "pyconfig.h").write_text(PYCONFIG)
    return folder


def numpy_headers(target: Target, work: Path) -> Path:
    """Unpack the headers of numpy's own wheel for the platform; a few lines differ."""
    folder = work / "numpy"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation=cp", "-d", str(folder)]
    command += [f"--platform={tag}" for tag in target.numpy]
    subprocess.run([*command, f"numpy=={numpy.__version__}"], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if "/_core/include/" in name]
        archive.extractall(folder, members)
    return folder / "numpy" / "_core" / "include"


def compiled(target: Target, extension: Extension, work: Path) -> Path:
    """Compile and link the extension for a target."""
    flags = [
        flag.removeprefix("-Wp,")  # zig has no -Wp, and no flags of its own to overrule
        for flag in extension.extra_compile_args
        if _fits(flag, target)
    ]
    flags += ["-DNDEBUG", "-fno-sanitize=undefined", "-fwrapv"]
    if not target.windows:
        flags += ["-fPIC"]
    flags += [f"-D{name}={value}" for name, value in extension.define_macros]
    folders = ["csrc", python_headers(work), numpy_headers(target, work)]
    flags += [f"-I{folder}" for folder in folders]
    compiler = [*ZIG, "cc", "-target", target.triple]

    def made(source: str) -> str:
        out = work / f"{Path(source).stem}.o"
        subprocess.run([*compiler, *flags, "-c", source, "-o", str(out)], check=True)
        return str(out)

    with ThreadPoolExecutor() as pool:
        objects = list(pool.map(made, extension.sources))
    out = work / target.name
    link = ["-lm", *extension.extra_link_args]
    if target.apple:
        name = "-Wl,-install_name,@rpath/_core.abi3.so"
        link = ["-Wl,-undefined,dynamic_lookup", name]
    if target.windows:
        link = ["-lbcryptprimitives", str(_stable_abi(work))]
    subprocess.run(
        [*compiler, "-shared", "-s", *objects, "-o", str(out), *link], check=True
    )
    return out


def _stable_abi(work: Path) -> Path:
    """Write python3.lib: for the linker, every name of the stable ABI of 3.11."""
    names = [
        f"{name}{kind}"
        for table, kind in ((abi3info.FUNCTIONS, ""), (abi3info.DATAS, " DATA"))
        for name, entry in ((symbol.name, found) for symbol, found in table.items())
        if (entry.added.major, entry.added.minor) <= (3, 11)
    ]
    exports = work / "python3.def"
    exports.write_text("\n".join(["LIBRARY python3.dll", "EXPORTS", *names, ""]))
    library = work / "python3.lib"
    command = [*ZIG, "dlltool", "-m", "i386:x86-64"]
    subprocess.run([*command, "-d", str(exports), "-l", str(library)], check=True)
    return library


def _fits(flag: str, target: Target) -> bool:
    if flag == "-fcf-protection":
        return "x86_64" in target.tag
    return flag != "-fstack-clash-protection" or "linux" in target.tag


def problems(target: Target, path: Path) -> list[str]:
    """Return what is wrong with an extension, empty when nothing is."""
    binary: Any = lief.parse(str(path))
    kind = _mach_o if target.apple else _pe if target.windows else _elf
    return kind(target, binary)


def _elf(target: Target, binary: Any) -> list[str]:
    tags = {entry.tag for entry in binary.dynamic_entries}
    stack = binary.get(lief.ELF.Segment.TYPE.GNU_STACK)
    flags = binary.get(lief.ELF.DynamicEntry.TAG.FLAGS)
    glibc = [
        version.name
        for needed in binary.symbols_version_requirement
        for version in needed.get_auxiliary_symbols()
    ]
    newest = tuple(map(int, re.findall(r"\d+", target.triple.partition("gnu")[2])))
    return [
        *_common(
            target,
            {str(name) for name in binary.libraries},
            {str(symbol.name) for symbol in binary.exported_symbols},
        ),
        *(["text is relocated"] if lief.ELF.DynamicEntry.TAG.TEXTREL in tags else []),
        *(
            ["the stack is executable"]
            if stack is None or stack.has(lief.ELF.Segment.FLAGS.X)
            else []
        ),
        *(
            ["no RELRO with immediate binding"]
            if not binary.has(lief.ELF.Segment.TYPE.GNU_RELRO)
            or flags is None
            or not flags.has(lief.ELF.DynamicEntryFlags.FLAG.BIND_NOW)
            else []
        ),
        *(
            f"asks for {name}"
            for name in glibc
            if tuple(map(int, re.findall(r"\d+", name))) > newest
        ),
    ]


def _mach_o(target: Target, binary: Any) -> list[str]:
    minimum = ".".join(map(str, binary.build_version.minos[:2]))
    wanted = target.triple.partition("macos.")[2]
    return [
        *_common(
            target,
            {library.name for library in binary.libraries} - {"@rpath/_core.abi3.so"},
            {str(symbol.name).removeprefix("_") for symbol in binary.exported_symbols}
            - {"__dso_handle", "_mh_dylib_header"},  # the linker's own
        ),
        *([] if minimum == wanted else [f"asks for macOS {minimum}, not {wanted}"]),
    ]


def _pe(target: Target, binary: Any) -> list[str]:
    flags = lief.PE.OptionalHeader.DLL_CHARACTERISTICS
    libraries = {library.name.lower() for library in binary.imports}
    return [
        *_common(
            target,
            {name for name in libraries if not name.startswith("api-ms-win-crt-")},
            {str(entry.name) for entry in binary.get_export().entries},
        ),
        *(
            f"lacks {flag.name}"
            for flag in (flags.DYNAMIC_BASE, flags.HIGH_ENTROPY_VA, flags.NX_COMPAT)
            if not binary.optional_header.has(flag)
        ),
    ]


def _common(target: Target, libraries: set[str], exports: set[str]) -> list[str]:
    others = sorted(libraries - target.libraries)
    found = [f"loads {name}" for name in others]
    if exports != {"PyInit__core"}:
        found.append(f"exports {sorted(exports)[:5]}")
    return found


def wheel(shell: Path, target: Target, binary: Path, out: Path) -> Path:
    """Write the wheel of a target: `shell` with another extension and another tag."""
    name, version = shell.name.split("-")[:2]
    tag = f"cp311-abi3-{target.tag}"
    path = out / f"{name}-{version}-{tag}.whl"
    record = []
    with (
        zipfile.ZipFile(shell) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new,
    ):
        for member in old.namelist():
            data = old.read(member)
            if EXTENSION.match(member):
                member, data = f"fastdp/{binary.name}", binary.read_bytes()
            elif member.endswith(".dist-info/WHEEL"):
                data = re.sub(rb"(?m)^Tag: .*$", f"Tag: {tag}".encode(), data)
            elif member.endswith(".dist-info/RECORD"):
                record.append(f"{member},,")
                data = "".join(f"{line}\n" for line in record).encode()
            if not member.endswith("RECORD"):
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
                record.append(
                    f"{member},sha256={digest.decode().rstrip('=')},{len(data)}"
                )
            # One time for all: the same sources give the same bytes.
            info = zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (
                0o755 if member.endswith((".so", ".pyd")) else 0o644
            ) << 16
            new.writestr(info, data)
    return path


def main(shell: Path, out: Path, *tags: str) -> int:
    """Build and inspect the wheels of `tags`, of all targets without any."""
    unknown = set(tags) - {target.tag for target in TARGETS}
    if unknown:
        print(f"no such tag: {', '.join(sorted(unknown))}")
        return 2
    extension = core()
    out.mkdir(parents=True, exist_ok=True)
    failed = False
    for target in TARGETS:
        if tags and target.tag not in tags:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as work:
            binary = compiled(target, extension, Path(work))
            size = binary.stat().st_size
            found = problems(target, binary)
            path = wheel(shell, target, binary, out)
        found += wheel_problems(path)
        for problem in found:
            print(f"{path.name}: {problem}")
        failed |= bool(found)
        print(
            f"{path.name}: {path.stat().st_size:,} bytes, extension {size:,}, "
            f"{time.monotonic() - began:.0f} s",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
