"""Which instructions run does not depend on data or random words: emulators tell.

QEMU writes down every block of instructions that it runs. With other data and another
key the list must be the same, for noise on integers and doubles, flips and responses.
This finds every branch on a secret that two of the seeds take differently, in the
machine code of the compiler at hand, on processors that are not. It sees no addresses
and no times of instructions.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Args = tuple[object, ...]

ROOT = Path(__file__).parents[2]
FLAGS = (
    *("-std=c11", "-O3", "-g0", "-D_DEFAULT_SOURCE", "-ffp-contract=fast"),
    *("-fno-math-errno", "-fno-trapping-math", "-Icsrc", "-I.", "-static"),
)
ZIG = (sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=undefined", "-target")
COMPILERS = {
    "x86_64-gcc": ("gcc",),
    "x86_64-zig": (*ZIG, "x86_64-linux-musl"),
    "aarch64-zig": (*ZIG, "aarch64-linux-musl"),
}
#: Mask of the processor's features (csrc/base/cpu.h), cipher (fdp_cipher_t).
LEVELS = {
    "portable, ChaCha20": (0, 1),
    "v128, ChaCha20": (32, 1),
    "v128, AES": (36, 2),
    "avx2, AES": (37, 2),
}


def emulator(machine: str) -> str:
    """Return QEMU for programs of a machine, or skip."""
    for name in (f"qemu-{machine}-static", f"qemu-{machine}"):
        if found := shutil.which(name):
            return found
    pytest.skip(f"needs qemu-{machine}")


@pytest.fixture(scope="module", params=COMPILERS)
def program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """The emulator, and paths.c built by a compiler."""
    machine = request.param.partition("-")[0]
    found, compiler = emulator(machine), COMPILERS[request.param]
    if compiler[0] == sys.executable and importlib.util.find_spec("ziglang") is None:
        pytest.skip("needs ziglang")
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"needs {compiler[0]}")
    out = tmp_path_factory.mktemp("paths") / "paths"
    sources = ["tests/timing/paths.c", *map(str, sorted(ROOT.glob("csrc/*/*.c")))]
    command = [*compiler, *FLAGS, *sources, "-lm", "-o", str(out)]
    subprocess.run(command, cwd=ROOT, check=True)
    return found, out


def path(program: tuple[str, Path], *arguments: object) -> str:
    """Return the digest of the blocks that run, in order."""
    found, binary = program
    # QEMU writes "Trace 0: 0x7f... [.../ADDRESS/...] name" for each block.
    hashed = ("sh", "-c", "grep ^Trace | cut -d/ -f2 | sha256sum")
    log = binary.with_name("log")
    command = [found, "-d", "exec,nochain", "-D", str(log), str(binary)]
    ran = subprocess.run(
        [*command, *map(str, arguments)], check=True, capture_output=True, text=True
    )
    if ran.stdout == "absent\n":
        pytest.skip("this level is not on this processor")
    assert ran.stdout.endswith("done\n")
    assert log.stat().st_size > 10**6
    with log.open() as lines:
        digest = subprocess.run(hashed, stdin=lines, check=True, capture_output=True)
    log.unlink()
    return digest.stdout.decode()


def common(
    program: tuple[str, Path], one: Args, other: Args, runs: int = 6
) -> set[str]:
    """Return the paths that both calls take, as soon as there is one.

    The emulator itself sometimes runs a block of its own start again. A branch on a
    secret leaves nothing in common, however often both calls run.
    """
    paths: tuple[set[str], set[str]] = (set(), set())
    for _ in range(runs):
        paths[0].add(path(program, *one))
        paths[1].add(path(program, *other))
        if both := paths[0] & paths[1]:
            return both
    return set()


@pytest.mark.parametrize("level", LEVELS)
def test_secrets_do_not_choose_what_runs(program: tuple[str, Path], level: str) -> None:
    assert common(program, (*LEVELS[level], 1), (*LEVELS[level], 2))


def test_a_branch_is_found(program: tuple[str, Path]) -> None:
    """The program's own branch on one bit of the data."""
    assert not common(program, (0, 1, 1, "fault"), (0, 1, 7, "fault"), runs=2)
