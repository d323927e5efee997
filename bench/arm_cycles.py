"""Cycles a sample of the AArch64 kernels, by llvm-mca: nothing is run.

    python bench/arm_cycles.py [CORE ...]

Compiles the sources by zig's clang, as the wheels are, finds the loops of the kernels
in the machine code, and lets llvm-mca estimate their cycles on each core. Needs the
extra ``wheels`` and LLVM's ``llvm-objdump`` and ``llvm-mca``; from version 16 on it
knows Neoverse V1 and V2; for "apple-m1" it takes the tables of Apple's Cyclone of 2013.
Not in it: caches, lanes that need more bits, and what joins the samples to data.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CORES = ("neoverse-n1", "neoverse-v1", "neoverse-v2", "apple-m1")

#: What, its source and function, which of its innermost loops in the order of the code,
#: how often that runs within the loop around it (0: there is none), units a turn.
PARTS = (
    ("AES-256, a byte", "rng/aes.c", "fdp_aes_fill_v128", 0, 13, 128),
    ("ChaCha20, a byte", "rng/chacha.c", "fdp_chacha_fill_portable", 0, 10, 256),
    ("first digit, a lane", "sampler/digits_v128.c", "fdp_first_v128", 0, 0, 64),
    ("second digit, a lane", "sampler/digits_v128.c", "fdp_second_v128", 0, 0, 64),
    ("tilted digit, a lane", "sampler/digits_v128.c", "fdp_tilt_v128", 0, 0, 16),
)

#: Parts of a sample, as docs/platforms.md names them: bytes, then lanes of each digit.
SAMPLES = (
    ("Laplace 10, AES", {"AES-256, a byte": 2.2, "first digit, a lane": 1}),
    ("Laplace 10, ChaCha20", {"ChaCha20, a byte": 2.2, "first digit, a lane": 1}),
    (
        "Gaussian 10, AES",
        {"AES-256, a byte": 4.8, "first digit, a lane": 1, "tilted digit, a lane": 1},
    ),
)

Code = list[tuple[int, str]]


def tool(name: str) -> str:
    """Return the newest version of an LLVM tool that is here."""
    for version in ("-21", "-20", "-19", "", "-18", "-17", "-16", "-15", "-14"):
        if found := shutil.which(name + version):
            return found
    raise SystemExit(f"{name} is not here")


def code_of(source: str, function: str, work: Path) -> Code:
    """Return addresses and instructions of a function, compiled for AArch64."""
    binary = work / "kernels.o"
    compiler = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        "aarch64-linux-gnu.2.28",
    ]
    flags = "-std=c11 -O3 -D_DEFAULT_SOURCE -ffp-contract=fast -fno-math-errno -fPIC"
    flags += (
        " -fno-trapping-math -fno-sanitize=undefined -g0 -fvisibility=hidden -Icsrc"
    )
    sources = ["-c", f"csrc/{source}", "-o", str(binary)]
    subprocess.run([*compiler, *flags.split(), *sources], check=True)
    listed = subprocess.run(
        [tool("llvm-objdump"), "-d", "--no-show-raw-insn", str(binary)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    begun = listed.partition(f"<{function}>:\n")[2].partition("\n\n")[0]
    lines = re.findall(r"^\s+([0-9a-f]+):\s+(.*?)\s*$", begun, re.M)
    return [(int(address, 16), text) for address, text in lines]


JUMP = re.compile(r"(?:b(?:\.\w+)?|cbn?z\s.*,|tbn?z\s.*,)\s+0x([0-9a-f]+)")


def loops(code: Code) -> list[tuple[int, int]]:
    """Return the first and the last address of each loop, by its jump back."""
    found = []
    for address, text in code:
        jump = JUMP.match(text)
        if jump and code[0][0] <= (start := int(jump[1], 16)) <= address:
            found.append((start, address))
    return found


def turn(code: Code, number: int, repeats: int) -> list[str]:
    """Return the instructions of a turn of a loop, the inner one written out."""
    every = loops(code)
    inner = [
        one
        for one in every
        if not any(one[0] <= a and b <= one[1] and (a, b) != one for a, b in every)
    ]
    start, end = inner[number]
    body = [text for at, text in code if start <= at <= end]
    if repeats:
        low, high = min(
            (
                one
                for one in every
                if one[0] <= start and end <= one[1] and one != (start, end)
            ),
            key=lambda one: one[1] - one[0],
        )
        before = [text for at, text in code if low <= at < start]
        after = [text for at, text in code if end < at <= high]
        body = [*before, *body * repeats, *after]
    return [re.sub(r"\s*<.*", "", text) for text in body if not JUMP.match(text)]


def cycles(body: list[str], core: str) -> float:
    """Return the cycles of a turn by llvm-mca."""
    command = [tool("llvm-mca"), "-march=aarch64", f"-mcpu={core}", "-mattr=+aes"]
    shown = subprocess.run(
        [*command, "-iterations=100"],
        input="\n".join(body),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    total = re.search(r"Total Cycles:\s+(\d+)", shown)
    assert total is not None
    return int(total[1]) / 100


def main(cores: tuple[str, ...]) -> None:
    """Print a table of parts and of samples."""
    print("| | instructions |", " | ".join(cores), "|")
    print("| --- " * (2 + len(cores)) + "|")
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as work:
        for what, source, function, number, repeats, units in PARTS:
            body = turn(code_of(source, function, Path(work)), number, repeats)
            found[what] = [cycles(body, core) / units for core in cores]
            shown = " | ".join(f"{each:.2f}" for each in found[what])
            print(f"| {what} | {len(body) / units:.1f} | {shown} |", flush=True)
    for what, parts in SAMPLES:
        sums = [
            sum(part * found[name][core] for name, part in parts.items())
            for core in range(len(cores))
        ]
        print(f"| {what} | | {' | '.join(f'{each:.1f}' for each in sums)} |")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or CORES)
