"""What tasks do in tests: they draw, say so where nobody can take it back, and die."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa

import fastdp

#: A folder that all workers see.
SINK = "FASTDP_SINK"


def task():
    from pyspark import TaskContext

    return TaskContext.get()


def noted(what, values):
    """Write what an attempt drew, as an external sink would see it."""
    place = Path(os.environ[SINK]) / f"{what}-{task().partitionId()}-{uuid.uuid4().hex}"
    np.save(place.with_suffix(".tmp.npy"), np.asarray(values))
    place.with_suffix(".tmp.npy").rename(place.with_suffix(".npy"))


def seen(folder, what):
    """Return what each attempt of each partition drew."""
    found = {}
    for path in sorted(Path(folder).glob(f"{what}-*[!p].npy")):
        found.setdefault(int(path.name.split("-")[1]), []).append(np.load(path))
    return found


def die_once():
    """Kill this worker, in the first attempt of the first partition."""
    if task().attemptNumber() == 0 and task().partitionId() == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def wait_once(seconds=60):
    """Be slow in the first attempt of the first partition."""
    if task().attemptNumber() == 0 and task().partitionId() == 0:
        time.sleep(seconds)


class Response(fastdp.RandomizedResponse):
    """Draws, says so, and has an accident."""

    accident = staticmethod(die_once)

    def release(self, values, **options):
        found = super().release(values, **options)
        if len(found):  # a rehearsal on no rows is in no task
            noted("adapter", found)
            self.accident()
        return found


class SlowResponse(Response):
    accident = staticmethod(wait_once)


class DyingTally(fastdp.RandomizedResponse):
    """Dies while it counts."""

    def _tally(self, reports, *rest):
        found = super()._tally(reports, *rest)
        if len(reports):
            noted("tally", [len(reports)])
            die_once()
        return found


def naive(m, column, accident, batches):
    """The form that people write: noise in the plan, and a sink beside it."""
    for batch in batches:
        reports = m.release(np.asarray(batch.column(column)))
        noted("naive", reports)
        accident()
        yield pa.record_batch({column: reports.astype(np.int64)})


def noisy(m, batches):
    """Noise on counts, in the plan; says which executor drew it."""
    noted("executor", [_executor()])
    for batch in batches:
        noise = m.release(np.asarray(batch.column("n")))
        yield batch.set_column(batch.schema.get_field_index("n"), "n", pa.array(noise))


def marked(parts, batches):
    """Pass rows on; say which executor passed them when all of them are through.

    While a file `waits` is there, whoever is the last of so many `parts` stays.
    """
    yield from batches
    noted("executor", [_executor()])
    sink = Path(os.environ[SINK])
    if len(seen(sink, "executor")) == parts:
        while (sink / "waits").exists():
            time.sleep(0.02)


def _executor():
    """Return the process of the executor: the daemon's parent."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])
