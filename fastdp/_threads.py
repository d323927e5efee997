"""The chunk plan: the assignment of a call's chunks to workers.

A call's outputs are cut into chunks of a fixed size, each with its own keys, so
the result does not depend on the number of workers.
"""

from __future__ import annotations

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
