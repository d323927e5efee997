"""The chunk plan: which worker draws which chunks of a call.

A call's outputs are cut into chunks of a fixed size, each with its own keys, so
the result does not depend on the number of workers.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from itertools import pairwise


def plan(n: int, chunk: int, workers: int) -> list[tuple[int, int, int]]:
    """Cut n outputs into at most `workers` runs of whole chunks.

    Returns
    -------
    list of (start, stop, first_chunk)
        Element range and first chunk number of each run, in order.
    """
    chunks = -(-n // chunk)
    workers = max(1, min(workers, chunks))
    edges = [chunks * k // workers for k in range(workers + 1)]
    return [
        (first * chunk, min(last * chunk, n), first) for first, last in pairwise(edges)
    ]


def run(tasks: list[Callable[[], None]]) -> None:
    """Run the tasks, the first here and the others on threads of their own.

    No task runs any more when this returns or raises, even if a signal cuts in
    while threads are started or waited for, so that the caller can clean up memory
    that no task touches. `threading.Thread` cannot give that: a signal within its
    `start` or `join` leaves its locks, and the thread, in an unknown state.
    """
    errors: list[BaseException] = []
    seats = [_Seat(task, errors) for task in tasks[1:]]
    try:
        for seat in seats:
            _thread.start_new_thread(seat.work, ())
        tasks[0]()
    except BaseException as error:
        errors.append(error)
    while True:  # every point at which a signal can cut in lies within a try
        try:
            for seat in seats:
                seat.settle()
            break
        except BaseException as error:
            errors.append(error)
    if errors:
        raise errors[0]


class _Seat:
    """A task that a thread, or whoever waits for it, takes: the first to ask."""

    def __init__(self, task: Callable[[], None], errors: list[BaseException]) -> None:
        self._task = task
        self._errors = errors
        self._taker: dict[str, str] = {}
        self._done = threading.Lock()
        self._done.acquire()
        self._settled = False

    def work(self) -> None:
        """Run the task unless the waiter took it; for a thread of its own."""
        if self._taker.setdefault("taker", "thread") != "thread":
            return
        try:
            self._task()
        except BaseException as error:
            self._errors.append(error)
        self._settled = True
        self._done.release()

    def settle(self) -> None:
        """Wait for the task; run it, or drop it after an error, if none has begun.

        May be interrupted and called again at any point.
        """
        if self._taker.setdefault("taker", "waiter") == "waiter":
            if not self._settled and not self._errors:
                self._task()
            self._settled = True
        while not self._settled:
            self._done.acquire(timeout=1)
