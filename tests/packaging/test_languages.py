"""Programs in other languages over the core: examples/c.

Each is built by Debian's compiler, releases a histogram, meets an error, and repeats
the draws of tests/vectors/draws.txt.
"""

import re
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

import fastdp
from fastdp.testing import FixedStream
from tests.packaging.test_core_alone import KEY, ROOT, digest

EXAMPLES = ROOT / "examples" / "c"
VECTORS = ROOT / "tests" / "vectors" / "draws.txt"

#: What a language needs here, and the commands that build and run its program.
LANGUAGES = {
    "c": (["cc"], ["cc histogram.c -Wall -Wextra -Werror -O2 {c} -o c"], "./c"),
    "c++": (
        ["c++"],
        ["c++ histogram.cpp -Wall -Wextra -Werror -O2 {c} -o cpp"],
        "./cpp",
    ),
    "rust": (
        ["rustc"],
        ["rustc -D warnings -L . -l m -o rust histogram.rs {rust}"],
        "./rust",
    ),
    "go": (["go"], ["go build -o go histogram.go"], "./go"),
    "java": (
        ["javac", "cc"],
        [
            "cc -O2 -shared -fPIC histogram_jni.c {jni} {c} -o libhistogram_jni.so",
            "javac -d . Histogram.java",
        ],
        "java Histogram",
    ),
}


def test_vectors_are_those_of_python():
    lines = VECTORS.read_text().splitlines()
    assert len(lines) == 12
    for line in lines:
        law, num, den, count, hashed = line.split()
        draw = getattr(fastdp.random, f"discrete_{law}")
        parameter = Fraction(int(num), int(den))
        values = draw(parameter, size=int(count), stream=FixedStream(KEY))
        assert digest(values) == hashed, line


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A folder with the static library and the programs."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("languages")
    sources = map(str, (ROOT / "csrc").glob("*/*.c"))
    subprocess.run(["cc", "-O2", "-w", "-fPIC", "-c", *sources], cwd=folder, check=True)
    objects = [path.name for path in folder.glob("*.o")]
    subprocess.run(["ar", "rcs", "libfastdp.a", *objects], cwd=folder, check=True)
    for path in EXAMPLES.iterdir():
        shutil.copy(path, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_repeats_the_vectors(library, language, monkeypatch):
    needs, builds, run = LANGUAGES[language]
    if not all(map(shutil.which, needs)):
        pytest.skip(f"needs {' and '.join(needs)}")
    words = {"c": f"-I{ROOT / 'csrc'} -L. -lfastdp -lm", "rust": "-l static=fastdp"}
    if language == "java":
        home = Path(shutil.which("javac")).resolve().parents[1] / "include"
        words["jni"] = f"-I{home} -I{home / 'linux'}"
    monkeypatch.setenv("CGO_CFLAGS", f"-I{ROOT / 'csrc'}")
    monkeypatch.setenv("CGO_LDFLAGS", f"-L{library}")
    monkeypatch.setenv("GOCACHE", str(library / "cache"))
    for build in builds:
        command = build.format(**words).split()
        subprocess.run(command, cwd=library, check=True)
    told = subprocess.run(
        [*run.split(), str(VECTORS)], cwd=library, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout + told.stderr
    histogram, *rest = told.stdout.splitlines()
    counts = [int(x) for x in re.findall(r"-?\d+", histogram)]
    # beyond 60 with a probability of 1e-26
    assert all(abs(x - y) < 60 for x, y in zip(counts, (120, 7, 0, 31), strict=True))
    assert "status 1" in rest[0]
    assert rest[-1] == "12 vectors, 0 differ"
    damaged = library / "damaged.txt"
    damaged.write_text(VECTORS.read_text().replace(" 10 1 ", " 11 1 "))
    told = subprocess.run(
        [*run.split(), str(damaged)], cwd=library, capture_output=True, text=True
    )
    assert (told.returncode, "2 differ" in told.stdout) == (1, True)
