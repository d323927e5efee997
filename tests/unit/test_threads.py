"""The chunk plan covers every output once, whatever the number of workers."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastdp
from fastdp import _core, _threads


@settings(deadline=None)
@given(st.integers(0, 10**5), st.integers(16, 5000), st.integers(1, 70))
def test_plan_covers_each_chunk_once(n: int, chunk: int, workers: int) -> None:
    runs = _threads.plan(n, chunk, workers)
    assert len(runs) <= workers
    at = 0
    for start, stop, first in runs:
        assert start == at == first * chunk
        assert stop > start or n == 0
        at = stop
    assert at == n
    sizes = [-(-(stop - start) // chunk) for start, stop, _ in runs]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


def test_run_does_every_task_on_threads_of_its_own() -> None:
    seen: list[int] = []
    barrier = threading.Barrier(3, timeout=300)

    def task() -> None:
        barrier.wait()
        seen.append(threading.get_ident())

    _core.run([task, task, task])
    assert len(set(seen)) == 3


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_no_task_runs_after_run_has_raised(failing: int) -> None:
    done: list[int] = []

    def task(i: int) -> None:
        if i == failing:
            raise KeyError(i)
        time.sleep(0.05)
        done.append(i)

    with pytest.raises(KeyError):
        _core.run([lambda i=i: task(i) for i in range(3)])  # type: ignore[misc]
    # Tasks that had begun have ended; those that had not are dropped.
    ended = list(done)
    assert set(ended) <= {i for i in range(3) if i != failing}
    time.sleep(0.1)
    assert done == ended
    assert threading.active_count() == 1 or all(
        t is threading.main_thread() or t.daemon for t in threading.enumerate()
    )


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="this interpreter has no lock to keep",
)
def test_small_arrays_keep_the_lock() -> None:
    """A thread that waits for the lock does not get it before the interpreter's switch
    interval, here an hour, unless a call gives it up."""
    go, ran = threading.Event(), threading.Event()

    def other() -> None:
        go.wait()
        ran.set()

    m, x = fastdp.DiscreteLaplace(1), np.zeros(16, np.int64)
    before = sys.getswitchinterval()
    thread = threading.Thread(target=other)
    thread.start()
    sys.setswitchinterval(3600)
    try:
        go.set()
        for _ in range(8_000):
            m.release(x)
            if ran.is_set():
                break
        early = ran.is_set()
    finally:
        sys.setswitchinterval(before)
    thread.join()
    assert not early
