"""The least times of calls that take turns, for the scripts of this folder."""

from __future__ import annotations

import time
from collections.abc import Callable


def least(
    *calls: Callable[[], object],
    rounds: int = 3,
    seconds: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return the least time of each call in seconds, on the wall if `clock` is not set.

    So many rounds at least, and more until that many seconds have gone by. Turns, so
    that what else the machine does falls on all of them.
    """
    best = [float("inf")] * len(calls)
    begin, done = time.perf_counter(), 0
    while done < rounds or time.perf_counter() - begin < seconds:
        for i, call in enumerate(calls):
            start = clock()
            call()
            best[i] = min(best[i], clock() - start)
        done += 1
    return best
