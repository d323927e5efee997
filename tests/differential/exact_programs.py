"""Programs over csrc/exact, built with sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The second one sees reads of memory that nobody wrote; gcc does not have it.
SANITIZERS = ("address,undefined", "memory")


def exact_program(folder: Path, source: str, sanitizer: str) -> Path:
    """Return the program of a file of this folder, or skip the test."""
    compiler = shutil.which("clang" if sanitizer == "memory" else "cc")
    if compiler is None:
        pytest.skip("no compiler here that has this sanitizer")
    program = folder / Path(source).stem
    build = [compiler, "-std=c11", "-O1", "-g", "-D_DEFAULT_SOURCE"]
    build += [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    build += [f"-I{ROOT / 'csrc'}", str(Path(__file__).parent / source)]
    build += sorted(map(str, (ROOT / "csrc" / "exact").glob("*.c")))
    subprocess.run([*build, "-lm", "-o", str(program)], check=True)
    return program
