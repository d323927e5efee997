"""From records to private sums: our time beside a rival's, in one run.

    python bench/records.py [RUNS]

Each line is one core and alternates ours and the rival's call; times are minima. A
rival that is not installed is left out. What the rivals do: numpy norms, scales and
sums rows (no noise, no bound on a row after rounding); pandas samples a user's rows
with a seeded generator; python-dp is asked key by key; diffprivlib's mean spends its
epsilon on the mean alone, under replacement, and its time goes with the column.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fastdp
from fastdp.accounting import NeighboringRelation

Call = Callable[[], object]
Line = tuple[str, Call, str, Call]

_GENERATOR = np.random.default_rng(17)


def least(ours: Call, theirs: Call, seconds: float = 1.5) -> tuple[float, float]:
    """Return the least times of two calls that alternate, after one of each."""
    best = [float("inf"), float("inf")]
    ours(), theirs()
    start, runs = time.perf_counter(), 0
    while runs < 3 or time.perf_counter() - start < seconds:
        for i, call in enumerate((ours, theirs)):
            begin = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - begin)
        runs += 1
    return best[0], best[1]


def sums() -> Iterator[Line]:
    """Yield sums of rows beside numpy's, by dimension and dtype."""
    for dimension, rows in ((10, 1_000_000), (50, 400_000), (1000, 20_000)):
        for dtype in (np.float32, np.float64):
            x = _GENERATOR.normal(size=(rows, dimension)).astype(dtype)
            radius = float(dimension) ** 0.5
            m = fastdp.ClippedSum.from_rho(0.1, radius=radius, dimension=dimension)

            def numpy(x: np.ndarray = x, radius: float = radius) -> object:
                norms = np.linalg.norm(x, axis=1, keepdims=True)
                return (x * np.minimum(1, radius / norms)).sum(axis=0)

            name = f"ClippedSum, {rows:,} x {dimension}, {np.dtype(dtype).name}"
            yield name, lambda m=m, x=x: m.release(x), "numpy", numpy


def columns() -> Iterator[Line]:
    """Yield moments of a column beside diffprivlib's mean."""
    try:
        from diffprivlib import tools
    except ImportError:
        return
    x = _GENERATOR.uniform(0, 100, 1_000_000)
    m = fastdp.Moments.from_epsilon(1, bounds=(0, 100))
    yield (
        "Moments, 1,000,000 float64",
        lambda: m.release(x),
        "diffprivlib mean",
        lambda: tools.mean(x, epsilon=1.0, bounds=(0.0, 100.0)),
    )


def keys() -> Iterator[Line]:
    """Yield selections of keys beside python-dp's; both for 1,000,000 keys."""
    try:
        from pydp.algorithms import partition_selection
    except ImportError:
        return
    users = _GENERATOR.integers(0, 40, 1_000_000)
    few = users[:10_000].tolist()
    m = fastdp.KeySelection.from_epsilon_delta(epsilon=1, delta=1e-6, keys_per_user=1)
    make = partition_selection.create_truncated_geometric_partition_strategy
    rival = make(1.0, 1e-6, 1)

    def one_by_one() -> object:
        return [rival.should_keep(n) for n in few]

    part = users[: len(few)]
    yield "KeySelection, 10,000 keys", lambda: m.select(part), "python-dp", one_by_one


def contributions() -> Iterator[Line]:
    """Yield bounded contributions beside pandas' sampling."""
    try:
        import pandas as pd
    except ImportError:
        return
    users = _GENERATOR.integers(0, 200_000, 2_000_000)
    table = pd.DataFrame({"user": users})
    shuffled = np.arange(len(users))

    def sample() -> object:
        _GENERATOR.shuffle(shuffled)
        return table.take(shuffled).groupby("user").head(3)

    def by_group() -> object:
        return table[:200_000].groupby("user").sample(3, replace=True)

    def ours(n: int) -> Call:
        return lambda: fastdp.bound_contributions(users[:n], records_per_user=3)

    yield "bound_contributions, 200,000", ours(200_000), "groupby.sample", by_group
    yield "bound_contributions, 2,000,000", ours(2_000_000), "shuffle, head", sample


def accuracy(runs: int) -> Iterator[tuple[str, float, float]]:
    """Yield root mean squared errors, ours and diffprivlib's, at epsilon 1.

    Both know the number of records: one is replaced.
    """
    try:
        from diffprivlib import tools
    except ImportError:
        return
    x = _GENERATOR.uniform(0, 10, 1000)
    relation = NeighboringRelation.REPLACE_ONE
    options: dict[str, Any] = {"bounds": (0, 10), "neighboring_relation": relation}
    mean = fastdp.Moments.from_epsilon(1, moments=1, **options)
    both = fastdp.Moments.from_epsilon(1, **options)
    edges = np.linspace(0, 10, 11)
    counts = np.histogram(x, edges)[0]

    def error(call: Callable[[], Any], true: Any) -> float:
        errors = [call() - true for _ in range(runs)]
        return float(np.sqrt(np.mean(np.square(errors))))

    peer: dict[str, Any] = {"epsilon": 1.0, "bounds": (0.0, 10.0)}
    yield (
        "mean",
        error(lambda: mean.release(x).mean, x.mean()),
        error(lambda: tools.mean(x, **peer), x.mean()),
    )
    yield (
        "variance, ours with the mean",
        error(lambda: both.release(x).variance, x.var()),
        error(lambda: tools.var(x, **peer), x.var()),
    )
    noise = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    yield (
        "histogram, one record added",
        error(lambda: noise.release(counts), counts),
        error(
            lambda: tools.histogram(x, epsilon=1.0, bins=10, range=(0, 10))[0], counts
        ),
    )


def main() -> int:
    """Print a line for each comparison."""
    print(f"{'least time':36} {'ours':>9} {'rival':>9} {'ratio':>8}")
    for lines in (sums, columns, keys, contributions):
        for name, ours, rival, theirs in lines():
            own, other = least(ours, theirs)
            figures = f"{own * 1e3:7.2f}ms {other * 1e3:7.2f}ms"
            print(f"{name:36} {figures} {other / own:8.2f}  {rival}", flush=True)
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{'error, ' + format(runs, ',') + ' runs':36} {'ours':>9} {'rival':>9}")
    for name, mine, theirs in accuracy(runs):
        figures = f"{mine:9.4g} {theirs:9.4g} {mine / theirs:8.3f}"
        print(f"{name:36} {figures}  diffprivlib", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
