"""The chunk plan: which worker draws which chunks of a call.

A call's outputs are cut into chunks of a fixed size, each with its own keys, so
the result does not depend on the number of workers.
"""

from __future__ import annotations

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
        (first * chunk, min(last * chunk, n), first)
        for first, last in pairwise(edges)
    ]


def run(tasks: list[Callable[[], None]]) -> None:
    """Run the tasks, each but the first on a thread of its own.

    Every thread is joined before an exception of any task is raised, so that
    the caller can clean up memory that no task touches any more.
    """
    errors: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks[1:]]
    for thread in threads:
        thread.start()
    guarded(tasks[0])
    for thread in threads:
        _join(thread, errors)
    if errors:
        raise errors[0]


def _join(thread: threading.Thread, errors: list[BaseException]) -> None:
    """Join `thread` even when signals arrive meanwhile; keep what they raise."""
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as error:
            errors.append(error)
