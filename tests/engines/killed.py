"""Faults in an engine's workers: killed with -9, once, after a draw or a tally.

A folder holds what they do: `kill` is there while somebody must still die, `others`
lists the processes of workers that hold results, and each draw leaves a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import uuid
from pathlib import Path

import numpy as np
from pyarrow import parquet

from fastdp.mechanisms.local.aggregation import Aggregator

#: Where the folder is named for workers that no plugin reaches.
VARIABLE = "FASTDP_TEST_FAULTS"


def plant(folder=None):
    """Let this worker's draws and tallies be noted, and be the last thing it does."""
    folder = Path(folder or os.environ[VARIABLE])
    write, add = parquet.write_table, Aggregator.add

    def write_and_die(table, place, **options):
        write(table, place, **options)
        note(folder, place.read_bytes())
        die(folder)

    def add_and_die(self, *args, **options):
        found = add(self, *args, **options)
        if found.users:
            note(folder, b"tally")
            die(folder)
        return found

    parquet.write_table, Aggregator.add = write_and_die, add_and_die


def naive(mechanism, folder, frame):
    """Draw in a task, as people do."""
    drawn = mechanism.release(np.asarray(frame["browser"]))
    note(folder, drawn.tobytes())
    die(folder)
    return drawn


def note(folder, drawn):
    name = f"draw-{uuid.uuid4().hex}"
    Path(folder, name).write_text(hashlib.sha256(drawn).hexdigest())


def notes(folder):
    """Return the digests of all draws that were made since the last call."""
    found = []
    for file in Path(folder).glob("draw-*"):
        found.append(file.read_text())
        file.unlink()
    return found


def die(folder):
    """Die without a word, if it is somebody's turn, or kill the others."""
    with contextlib.suppress(FileNotFoundError):
        Path(folder, "kill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    with contextlib.suppress(FileNotFoundError):
        pids = Path(folder, "others").read_text().split()
        Path(folder, "others").unlink()
        for pid in pids:
            if int(pid) != os.getpid():
                os.kill(int(pid), signal.SIGKILL)
