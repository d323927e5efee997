"""A power cut at every write and sync: what was shown was charged, and stays shown."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("gcc") is None,
    reason="the simulator needs Linux and gcc",
)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    made = tmp_path_factory.mktemp("powercut") / "powercut.so"
    command = [
        "gcc",
        "-O1",
        "-shared",
        "-fPIC",
        "-o",
        made,
        HERE / "powercut.c",
        "-ldl",
    ]
    subprocess.run(list(map(str, command)), check=True)
    return made


def cut(library, folder, mode, stride):
    run = subprocess.run(
        [sys.executable, "-m", "tests.ledger.powercut", folder, mode, str(stride)],
        env={**os.environ, "LD_PRELOAD": str(library)},
        cwd=HERE.parents[1],
        check=True,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    found = json.loads(run.stdout.splitlines()[-1])
    print(mode, found)
    return found


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_power_cuts_at_some_operations(library, tmp_path, mode):
    found = cut(library, tmp_path, mode, 19)
    assert found["wrong"] == []
    assert found["cuts"] >= 4
    assert found["answers"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_power_cuts_at_every_operation(library, tmp_path, mode):
    found = cut(library, tmp_path, mode, 1)
    assert found["wrong"] == []
    assert found["answers"] > 20


@pytest.mark.rest
@pytest.mark.parametrize(
    "mode", [pytest.param("wal-normal", marks=pytest.mark.slow), "delete-off"]
)
def test_with_too_few_syncs_the_simulator_sees_it(library, tmp_path, mode):
    assert cut(library, tmp_path, mode, 5)["wrong"]
