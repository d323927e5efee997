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

import fastdp
from fastdp import frames
from fastdp.mechanisms.local._mechanism import Aggregator
from tests.engines.conftest import spent, staged

RESPONSE = fastdp.RandomizedResponse.from_epsilon(2, categories=16)
PARTS, ROWS = 8, 4000

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


# ---- what every engine must show -------------------------------------------------


def drawn_once(found):
    """Return the reports of all rows, which noise did reach."""
    ids, reports = found
    assert ids == list(range(ROWS))
    assert 0 < (reports == np.arange(ROWS) % 16).mean() < 1
    return reports


def paid_once(folder, ledger, path):
    """A replay drew nothing; one charge, nothing staged, whole files in order."""
    assert notes(folder) == []
    assert spent(ledger, "rows") == 2
    assert staged(path.parent) == []
    names = sorted(file.name for file in path.iterdir())
    wanted = [f"part-{place:06d}.parquet" for place in range(PARTS)]
    assert names == ["_receipts.json", *wanted]
    assert ledger.audit().ok


def tallied_alike(people, columns, folder, path):
    """A tally is the same where a worker dies, and somebody counts again."""
    reports = frames.randomize(people, {"browser": RESPONSE}, path=path)
    wanted = RESPONSE.aggregator().add(columns(reports)[1])
    notes(folder)
    assert frames.tally(reports, RESPONSE, column="browser") == wanted
    calm = notes(folder)
    (folder / "kill").touch()
    assert frames.tally(reports, RESPONSE, column="browser") == wanted
    assert not (folder / "kill").exists()
    assert len(notes(folder)) > len(calm)
