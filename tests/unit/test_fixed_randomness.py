"""What `tests/randomness.py` promises, of a run of a few tests in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TESTS = """
import os, random, subprocess, sys, threading

import numpy as np
import pytest
from hypothesis import given, strategies

import fastdp

def say(name, *values):
    with open("said", "a") as file:
        print(name, *values, file=file)

def test_fixed(request):
    pipe = os.pipe()
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os.write(pipe[1], os.urandom(8))
            os._exit(0)
        os.waitpid(child, 0)
        children.append(os.read(pipe[0], 8).hex())
    program = [sys.executable, "-c", "import os; print(os.urandom(8).hex())"]
    programs = [subprocess.check_output(program, text=True).strip() for _ in range(2)]
    own = [os.urandom(8).hex() for _ in range(2)]
    assert len({*children, *programs, *own}) == 6
    noise = fastdp.random.discrete_laplace(10**6, size=4).tolist()
    say("fixed", own, children, programs, noise, random.random(), np.random.rand())

@given(strategies.integers(0, 2**60))
def test_examples(x):
    say("fixed", x)

@pytest.mark.stat(0.25)
def test_fresh():
    say("fresh", os.urandom(8).hex())

def test_device():
    with pytest.raises(RuntimeError, match="stat"):
        open("/dev/urandom")
"""


def run(folder: Path) -> tuple[int, str, dict[str, list[str]]]:
    """Return status, report and what each kind of test said."""
    folder.mkdir()
    (folder / "test_some.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.randomness", "-n", "0"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    said: dict[str, list[str]] = {"fixed": [], "fresh": []}
    for line in (folder / "said").read_text().splitlines():
        said[line.split()[0]].append(line)
    return done.returncode, done.stdout + done.stderr, said


@pytest.mark.skipif(
    "FASTDP_TEST_RANDOMNESS" not in os.environ, reason="nothing is fixed in this run"
)
def test_bytes_are_those_of_the_names_unless_marked(tmp_path: Path) -> None:
    first, second = (run(tmp_path / name) for name in ("one", "two"))
    assert len(first[2]["fixed"]) > 50
    assert first[2]["fixed"] == second[2]["fixed"]
    assert first[2]["fresh"] != second[2]["fresh"]
    # Four tests passed; the marks are too many for the run to pass.
    assert "4 passed" in first[1], first[1]
    assert "fixed in 3 tests, fresh in 1 that fail by chance with 2.5e-01" in first[1]
    assert first[0] == 1
