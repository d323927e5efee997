"""The C core compiled by one command, without Python and without flags for any file.

Slow, since a compiler runs over all of it twice: plainly, and with sanitizers for
addresses, leaks and undefined behavior.
"""

import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fastdp
from fastdp import _selection
from fastdp._selection import Choice
from fastdp.testing import FixedStream

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
COUNT = 20000
KEY = bytes([1, 2, 3]) + bytes(29)

LAPLACE = (Fraction(10), Fraction(1, 3), Fraction(5000), Fraction(2**40))
GAUSSIAN = (Fraction(10), Fraction(1, 3), Fraction(10**5), Fraction(2**40))

_WORD = 0xFFFFFFFFFFFFFFFF


def law_line(family, parameter):
    numbers = f"{parameter.numerator}u, {parameter.denominator}u"
    return f'    {{"{family} {parameter}", {numbers}}},'


def write_laws(folder):
    lines = ["static const struct { const char *name; uint64_t num, den; } laws[] = {"]
    lines += [law_line("laplace", scale) for scale in LAPLACE]
    lines += [law_line("gaussian", sigma) for sigma in GAUSSIAN]
    (folder / "laws.h").write_text("\n".join([*lines, "};"]) + "\n")


def digest(values):
    """FNV-1a of the bytes."""
    state = 0xCBF29CE484222325
    for byte in values.tobytes():
        state = ((state ^ byte) * 0x100000001B3) & _WORD
    return f"{state:016x}"


@pytest.fixture(scope="module")
def expected():
    """What the extension draws from the same stream."""
    lines = []
    for draw, parameters in (("laplace", LAPLACE), ("gaussian", GAUSSIAN)):
        function = getattr(fastdp.random, f"discrete_{draw}")
        for parameter in parameters:
            noise = function(parameter, size=COUNT, stream=FixedStream(KEY))
            lines.append(f"{draw} {parameter} {digest(noise)}")
    numbers = fastdp.random.integers(5, 1005, size=COUNT, stream=FixedStream(KEY))
    order = fastdp.random.permutation(COUNT, stream=FixedStream(KEY))
    assert np.array_equal(np.sort(order), np.arange(COUNT))
    lines += [f"integers {digest(numbers)}", f"permutation {digest(order)}"]
    return lines + [f"choice {i} {digest(found)}" for i, found in enumerate(chosen())]


def chosen():
    """What is chosen by every method."""
    scores = [[0.5, -1, 3, 2.75], [1e300, np.inf, np.nan, 0], [7] * 4]
    choice = Choice(Fraction(1, 3), np.array(scores))
    yield _selection.propose(choice, FixedStream(KEY), 1)
    yield _selection.flip(choice, FixedStream(KEY), 1)
    yield _selection.inverse(choice, 1, FixedStream(KEY), 1)
    for noise in ("gumbel", "laplace", "gaussian"):
        yield _selection.race(choice, noise, FixedStream(KEY), 1)


SANITIZERS = [
    "-g",
    "-O1",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
]


@pytest.mark.parametrize(
    "flags",
    [[], ["-O3", "-std=c11", "-D_DEFAULT_SOURCE"], SANITIZERS],
    ids=["plain", "optimized", "sanitized"],
)
@pytest.mark.parametrize("compiler", ["cc", "clang"])
def test_the_core_alone_draws_what_the_extension_draws(
    tmp_path, expected, flags, compiler
):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    if flags == SANITIZERS and compiler == "clang":
        pytest.skip("gcc's sanitizers are enough; clang's may lack their library")
    write_laws(tmp_path)
    sources = sorted(map(str, (ROOT / "csrc").glob("*/*.c")))
    program = tmp_path / "core_alone"
    build = [compiler, *flags, f"-I{ROOT / 'csrc'}", f"-I{tmp_path}", *sources]
    build += [str(ROOT / "tests" / "packaging" / "core_alone.c"), "-lm", "-pthread"]
    build += ["-Wl,--wrap=aligned_alloc,--wrap=free,--wrap=fdp_resolve"]
    subprocess.run([*build, "-o", str(program)], check=True)
    plain = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    run = subprocess.run(
        [program],
        capture_output=True,
        text=True,
        env={**plain, "ASAN_OPTIONS": "detect_leaks=1"},
    )
    assert run.stdout.splitlines() == expected, run.stderr
    assert run.returncode == 0
    assert run.stderr == ""


def test_fuzzing_constructors_and_draws_finds_nothing(tmp_path):
    """A minute or two; hours by hand. -seed: the same inputs in each run of a build."""
    if shutil.which("clang") is None:
        pytest.skip("no clang here")
    program = tmp_path / "fuzz_laws"
    build = ["clang", "-w", "-g", "-O1", "-std=c11", "-D_DEFAULT_SOURCE"]
    build += ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
    build += [f"-I{ROOT / 'csrc'}", *map(str, (ROOT / "csrc").glob("*/*.c")), "-lm"]
    build += [str(ROOT / "tests" / "differential" / "fuzz_laws.c"), "-o", str(program)]
    subprocess.run(build, check=True)
    options = [
        "-runs=20000",
        "-seed=1",
        "-max_len=600",
        f"-artifact_prefix={tmp_path}/",
    ]
    run = subprocess.run(
        [program, *options], cwd=tmp_path, capture_output=True, text=True, env={}
    )
    assert run.returncode == 0, run.stderr[-3000:]


def test_all_masks_of_the_processor_are_equal_bit_for_bit(tmp_path):
    """docs/emulation.md: AES without VAES and batches of chunks, which levels lack."""
    laws = [sys.executable, "-m", "tests.differential.levels_laws"]
    text = subprocess.run(laws, cwd=ROOT, capture_output=True, check=True).stdout
    (tmp_path / "levels_laws.h").write_bytes(text)
    program = tmp_path / "levels"
    build = ["cc", "-O2", "-std=c11", "-D_DEFAULT_SOURCE", f"-I{ROOT / 'csrc'}"]
    build += [f"-I{tmp_path}", str(ROOT / "tests" / "differential" / "levels.c")]
    build += sorted(map(str, (ROOT / "csrc").glob("*/*.c")))
    subprocess.run([*build, "-lm", "-o", str(program)], check=True)
    run = subprocess.run([program], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:]
    assert run.stdout.splitlines()[-1].endswith("EQUAL")
    assert "NOT EQUAL" not in run.stdout
