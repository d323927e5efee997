"""The C core on other machines: refused with the reason, or out of entropy.

zig's clang compiles for each. Programs for WASI run in Node, those for Windows in Wine.
Slow, since each compiles all of the core.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ziglang")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FLAGS = (
    *("-std=c11", "-O1", "-g0", "-D_DEFAULT_SOURCE", "-ffp-contract=fast"),
    *("-fno-math-errno", "-fno-trapping-math", "-fno-sanitize=undefined", "-Icsrc"),
)
WINE = shutil.which("wine64") or "/usr/lib/wine/wine64"

#: Two calls, whose keys must differ; after a failure a key must be zeros.
PROGRAM = """\
#include <stdio.h>
#include <string.h>
#include "fastdp.h"

int main(void)
{
    static const uint8_t zeros[32];
    fdp_call_t one, other;
    memset(&one, 1, sizeof one);
    memset(&other, 2, sizeof other);
    const fdp_status_t status = fdp_call_open(&one);
    printf("%d %d ", (int)status, (int)fdp_call_open(&other));
    printf("%d ", memcmp(one.stream.key, other.stream.key, 32) != 0);
    printf("%d ", memcmp(one.stream.key, zeros, 32) == 0);
    printf("%d", memcmp(other.stream.key, zeros, 32) == 0);
    return 0;
}
"""


def zig(target, *arguments, **options):
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *FLAGS]
    return subprocess.run([*command, *arguments], cwd=ROOT, text=True, **options)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("arm-linux-musleabihf", "fastdp needs a 64-bit machine, or WebAssembly"),
        ("x86-linux-musl", "fastdp needs a 64-bit machine, or WebAssembly"),
        ("x86_64-linux-muslx32", "fastdp needs a 64-bit machine, or WebAssembly"),
        ("s390x-linux-musl", "fastdp needs a little-endian machine"),
        ("powerpc64-linux-musl", "fastdp needs a little-endian machine"),
        ("x86_64-freebsd", "no other entropy source was reviewed"),
    ],
)
def test_other_machines_are_refused_with_the_reason(tmp_path, target, reason):
    out = str(tmp_path / "call.o")
    built = zig(target, "-c", "csrc/mech/call.c", "-o", out, capture_output=True)
    assert built.returncode != 0
    assert reason in built.stderr


@pytest.fixture(scope="module", params=["wasm32-wasi", "x86_64-windows-gnu"])
def entropy(request, tmp_path_factory):
    """Return a command: PROGRAM, for the system, in what runs it here."""
    folder = tmp_path_factory.mktemp("entropy")
    (folder / "main.c").write_text(PROGRAM)
    windows = "windows" in request.param
    runner = WINE if windows else shutil.which("node")
    if runner is None or not Path(runner).exists():
        pytest.skip("needs Wine" if windows else "needs Node")
    program = folder / ("main.exe" if windows else "main.wasm")
    sources = [str(folder / "main.c"), *map(str, sorted(ROOT.glob("csrc/*/*.c")))]
    options = ["-Wl,-z,stack-size=1048576", "-lm"]
    if windows:
        library = str(folder / "bcryptprimitives.dll")
        arguments = ("-shared", "tests/wine_prng.c", "-ladvapi32", "-o", library)
        zig(request.param, *arguments, check=True)
        options = ["-lbcryptprimitives"]
    zig(request.param, *sources, *options, "-o", str(program), check=True)
    if windows:
        return [runner, str(program)]
    return [runner, "--no-warnings", str(ROOT / "tests" / "wasi.mjs"), str(program)]


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, "0 0 1 0 0"),
        ({"FASTDP_TEST_PRNG": "fail"}, "2 2 0 1 1"),  # FDP_ERR_ENTROPY and zeros
    ],
)
def test_keys_are_fresh_or_zeros_and_an_error(entropy, tmp_path, variables, told):
    environment = {**os.environ, "WINEDEBUG": "-all", **variables}
    environment["WINEPREFIX"] = str(tmp_path)
    ran = subprocess.run(entropy, env=environment, check=True, capture_output=True)
    assert ran.stdout.decode() == told
