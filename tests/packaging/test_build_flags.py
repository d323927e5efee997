"""Builds with flags that the proofs forbid: refused, or exact all the same.

Slow, since a compiler runs over the C core for every flag that is not refused.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.test_core_alone import write_laws

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FLAGS = [
    "-ffast-math",
    "-Ofast",
    "-funsafe-math-optimizations",
    "-fassociative-math",
    "-fassociative-math -fno-signed-zeros -fno-trapping-math",
    "-freciprocal-math",
    "-fsingle-precision-constant",
]
#: Flags that config.h sees; gcc ignores -fassociative-math alone.
REFUSED = {
    "gcc": {*FLAGS} - {"-fassociative-math"},
    "clang": {"-ffast-math", "-Ofast"},
}


def compiled(compiler, flags, csrc, folder):
    """Return the finished compiler, and the program."""
    write_laws(folder)
    program = folder / "build_flags"
    sources = sorted(map(str, csrc.glob("*/*.c")))
    sources.append(str(ROOT / "tests" / "packaging" / "build_flags.c"))
    if compiler == "gcc":
        flags = ["-w", *flags]
    command = [compiler, "-O2", *flags, f"-I{csrc}", f"-I{folder}", *sources, "-lm"]
    done = subprocess.run(
        [*command, "-o", str(program)], capture_output=True, text=True
    )
    return done, program


def said(program):
    plain = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    run = subprocess.run([program], capture_output=True, text=True, env=plain)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_refused_or_exact(compiler, flags, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    # The header alone first: cheap where it refuses.
    header = tmp_path / "header.c"
    header.write_text('#include "base/config.h"\n')
    alone = subprocess.run(
        [
            *(compiler, "-O2", *flags.split(), f"-I{ROOT / 'csrc'}"),
            *("-fsyntax-only", str(header)),
        ],
        capture_output=True,
        text=True,
    )
    refused = alone.returncode != 0
    assert refused == (flags in REFUSED[compiler]), alone.stderr
    if refused:
        assert "the proofs do not hold" in alone.stderr or "constants" in alone.stderr
        return
    done, program = compiled(compiler, flags.split(), ROOT / "csrc", tmp_path)
    assert done.returncode == 0, done.stderr
    assert said(program) == "0 off the grid, self-check 0"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_self_check_sees_what_the_header_would_refuse(compiler, tmp_path):
    """The same flags with the refusals taken out of a copy: the self-check fails."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    csrc = tmp_path / "csrc"
    shutil.copytree(ROOT / "csrc", csrc)
    config = csrc / "base" / "config.h"
    text = config.read_text()
    start = text.index("#if defined(__FAST_MATH__)")
    stop = text.index("_Static_assert(sizeof(1.0)")
    config.write_text(text[:start] + text[stop:])
    flags = ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"]
    done, program = compiled(compiler, flags, csrc, tmp_path)
    assert done.returncode == 0, done.stderr
    off, _, verdict = said(program).partition(" off the grid, self-check ")
    assert int(off) > 0
    assert verdict == "5"
