"""What Windows lacks is not needed until a ledger in a file is asked for.

No Windows is at hand: an interpreter without fcntl, fork and two signals stands for it.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import os, signal, sqlite3, subprocess, sys, tempfile
import numpy, scipy.special
del signal.SIGHUP, signal.SIGALRM, signal.setitimer, os.register_at_fork
sys.modules["fcntl"] = None
sys.platform = "win32"
import fastdp, fastdp.accounting, fastdp.cli, fastdp.frames, fastdp.ledger
print(len(fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1).release([3, 5])))
for act in (
    lambda: fastdp.ledger.create("a.ledger"),
    lambda: fastdp.ledger.open("a.ledger"),
    lambda: fastdp.ledger._receipts.Witness("a.witness"),
):
    try:
        act()
    except fastdp.exceptions.LedgerError as error:
        print(error)
print(os.listdir())
with open("events.toml", "w") as file:
    file.write('[[events]]\\ntype = "Laplace"\\nsensitivity = 1\\nscale = 1\\n')
sys.exit(fastdp.cli.main(["account", "events.toml", "--delta", "1e-6"]))
"""


@pytest.mark.rest
def test_only_ledgers_in_files_are_refused(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, cwd=tmp_path
    )
    lines = ran.stdout.splitlines()
    way_out = "needs flock, which Windows lacks: keep the ledger in PostgreSQL, or use"
    assert lines[0] == "2", ran.stderr
    assert [line.partition(" needs")[0] for line in lines[1:4]] == [
        "a ledger in a file",
        "a ledger in a file",
        "a witness",
    ]
    assert all(way_out in line for line in lines[1:4])
    assert lines[4] == "[]"
    assert ran.returncode == 0, ran.stderr
