"""An interrupted call leaves zeros, or all of the noise, and a process that works.

A timer raises KeyboardInterrupt at random times within calls on a fixed stream, so that
a complete result is known; it runs in a process of its own. The handler looks whether
the call has been entered: only before that may the output be what it was.
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
release = fastdp.DiscreteGaussian.release.__wrapped__.__code__

def interrupt(signum, frame):
    global inside
    while frame is not None and frame.f_code is not release:
        frame = frame.f_back
    inside = frame is not None
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
data = np.arange(n, dtype=np.uint32).astype(np.int8)
m = fastdp.DiscreteGaussian(20)
start = time.perf_counter()
expected = m.release(data, out=np.zeros(n, np.int8), stream=key, workers=workers)
full = time.perf_counter() - start
dice, seen = random.Random(workers), {"zero": 0, "complete": 0, "before": 0}
outs = [data.copy(), np.full(n, 77, np.int8)]
for i in range(rounds):
    out = outs[i % 2]
    x, inside = outs[0] if i % 2 == 0 else data, False
    untouched = data if i % 2 == 0 else np.full(n, 77, np.int8)
    out[...] = untouched
    try:
        signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-5, 1e-4 + 1.1 * full))
        while True:
            m.release(x, out=out, stream=key, workers=workers)
            out[...] = untouched
    except KeyboardInterrupt:
        pass
    time.sleep(0.002)  # whatever would still write, writes
    if not out.any() and inside:
        seen["zero"] += 1
    elif (out == expected).all() and not inside:
        seen["complete"] += 1
    elif (out == untouched).all() and not inside:
        seen["before"] += 1
    else:
        raise SystemExit(f"round {i}, {inside=}: {(out != expected).sum()} of {n} off, "
                         f"{(out == 0).sum()} zeros, {(out == untouched).sum()} old")
    assert threading.active_count() == 1
again = m.release(data, out=np.zeros(n, np.int8), stream=key, workers=workers)
assert (again == expected).all()
print("ok", seen)
assert seen["zero"] >= rounds // 10, seen
"""


@pytest.mark.rest
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("rounds", "n"), [(400, 200), (200, 20_000), (15, 20_000_000)])
def test_interrupted_call_is_all_or_nothing(workers: int, rounds: int, n: int) -> None:
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(workers), str(rounds), str(n)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.startswith("ok"), done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
