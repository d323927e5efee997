"""The float32 Laplace stage over every word there is: none is decided wrongly."""

import math
import shutil
import struct
import subprocess
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fastdp import _core, _tables
from tests.differential.layout import laplace_steps

ROOT = Path(__file__).parents[2]
FLAGS = ["-std=c11", "-O3", "-D_DEFAULT_SOURCE", "-ffp-contract=fast"]
FLAGS += ["-fno-math-errno", "-fno-trapping-math"]
MASKS = {"portable": 0, "avx2": 0xD, "avx512": 0xF, "avx512vbmi": 0x1F}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep, built from the repository's own sources with its own flags."""
    compiler = shutil.which("cc")
    if compiler is None or not (ROOT / "csrc").is_dir():
        pytest.skip("needs a C compiler and the C sources")
    target = tmp_path_factory.mktemp("sweep") / "sweep"
    sources = [Path(__file__).with_name("sweep.c"), *sorted(ROOT.glob("csrc/*/*.c"))]
    command = [compiler, *FLAGS, f"-I{ROOT / 'csrc'}", *sources, "-lm", "-o", target]
    subprocess.run([str(part) for part in command], check=True)
    return target


def written(t: Fraction, path: Path) -> Path:
    """Write the law's exact fields and thresholds for the program."""
    table = _tables.laplace_table(t)
    edges, steps = laplace_steps(t)
    words = [table.theta128 % 2**64, table.theta64]
    words += [table.inv_scale_192 >> 64 * i & (2**64 - 1) for i in range(3)]
    reals = [table.scale, table.inv_w0, table.inv_w1, table.inv_t]
    head = struct.pack("<5Q4dQ", *words, *reals, edges.size)
    data = head + edges.astype("<u8").tobytes() + steps.astype("<i4").tobytes()
    path.write_bytes(data)
    return path


def predicted(t: Fraction, error: float, relative: float, least: int) -> float:
    """Return how many words lie within their error of an integer, or near 0.

    y is exponential with mean t; at 0 only one side exists.
    """
    k = np.arange(int(40 * t) + 2)
    sides = np.where(k == 0, 1, 2)
    near = sides * (error + relative * k) * np.exp(-k / float(t)) / float(t)
    return 2**32 * (float(near.sum()) + least * 2.0**-30)


#: What docs/proofs/kernels.md, lemma 6, says of all words.
QUOTED = {
    1e-6: "3.94e-5",
    1: "8.80e-5",
    10: "2.53e-4",
    1000: "3.71e-3",
    4096: "1.01e-2",
}


@pytest.mark.parametrize("level", MASKS)
@pytest.mark.parametrize("scale", [0.3, 777.7, *QUOTED])
def test_every_word(program: Path, tmp_path: Path, scale: float, level: str) -> None:
    if _core.limit_cpu(level) != level:
        pytest.skip(f"this processor (or FASTDP_CPU) has no {level}")
    _core.limit_cpu(None)
    t = Fraction(scale)
    path = written(t, tmp_path / "thresholds")
    start = time.perf_counter()
    run = subprocess.run(
        [str(program), str(path), str(MASKS[level])],
        check=True,
        capture_output=True,
        text=True,
    )
    name, undecided, wrong, error, relative, least = run.stdout.split()
    expected = predicted(t, float.fromhex(error), float.fromhex(relative), int(least))
    print(
        f"scale {scale} {name}: {undecided} undecided ({int(undecided) / 2**32:.2e}), "
        f"predicted {expected:.0f}, wrong {wrong}, "
        f"{time.perf_counter() - start:.1f} s"
    )
    assert name == level
    assert int(wrong) == 0
    if scale in QUOTED:
        page = (ROOT / "docs/proofs/kernels.md").read_text()
        assert QUOTED[scale] in page[page.index("**Lemma 6") :].split("**Theorem 2")[0]
        assert math.isclose(int(undecided) / 2**32, float(QUOTED[scale]), rel_tol=2e-3)
    if scale >= 0.05:  # y of a word near the end of its range rounds to 0 below
        assert math.isclose(int(undecided), expected, rel_tol=0.05)
    else:
        assert int(undecided) < expected
