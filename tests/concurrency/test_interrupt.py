"""An interrupted call leaves zeros, or all of the noise, and a process that works.

A timer raises KeyboardInterrupt at random times within large calls on a fixed
stream, so that a complete result is known; it runs in a process of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = r"""
import random, signal, sys, threading, time
import numpy as np
import fastdp
from tests.privacy.streams import KeyStream

workers, rounds, n = (int(a) for a in sys.argv[1:])
key = KeyStream(bytes(range(32)))

def interrupt(signum, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
data = np.arange(n, dtype=np.uint32).astype(np.int8)
m = fastdp.DiscreteGaussian(20)
start = time.perf_counter()
expected = m.release(data, out=np.zeros(n, np.int8), stream=key, workers=workers)
full = time.perf_counter() - start
dice, seen = random.Random(workers), {"zero": 0, "complete": 0, "before": 0}
interrupted = 0
for i in range(rounds):
    x = data.copy()
    out = x if i % 2 else np.full(n, 77, np.int8)
    untouched = out.copy()
    try:
        signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-5, 1.1 * full))
        m.release(x, out=out, stream=key, workers=workers)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
    time.sleep(0.002)  # whatever would still write, writes
    if not out.any():
        seen["zero"] += 1
    elif (out == expected).all():
        seen["complete"] += 1
    elif (out == untouched).all():
        seen["before"] += 1
    else:
        raise SystemExit(f"round {i}: {(out != expected).sum()} of {n} not noised, "
                         f"{(out == 0).sum()} zeros, {(out == untouched).sum()} old")
    assert threading.active_count() == 1
again = m.release(data, out=np.zeros(n, np.int8), stream=key, workers=workers)
assert (again == expected).all()
print("ok", interrupted, seen)
assert seen["zero"] >= rounds // 10, seen
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")
@pytest.mark.parametrize("workers", [1, 2])
def test_interrupted_call_is_all_or_nothing(workers: int) -> None:
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(workers), "30", "20000000"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.startswith("ok"), done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
