"""From records to private sums: our time beside a rival's, in one run.

    python bench/records.py [RUNS]

Each line is one core and alternates ours and the rival's call; times are minima. A
rival that is not installed is left out. What the rivals do: numpy norms, scales and
sums rows (no noise, no bound on a row after rounding); pandas samples a user's rows
with a seeded generator; python-dp is asked key by key; diffprivlib's mean spends its
epsilon on the mean alone, under replacement, and its time goes with the column.
Errors stand under the peer's own neighboring relation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from turns import least

import fastdp
from fastdp.accounting import NeighboringRelation

Call = Callable[[], object]
Line = tuple[str, Call, str, Call]

_GENERATOR = np.random.default_rng(17)


def sums() -> Iterator[Line]:
    """Yield sums of rows beside numpy's, by dimension and dtype."""
    for dimension, rows in (
        (1, 4_000_000),
        (2, 2_000_000),
        (10, 1_000_000),
        (50, 400_000),
        (1000, 20_000),
    ):
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


Errors = tuple[str, float, str, float]

_BOUNDS = (0.0, 10.0)
_EDGES = np.linspace(*_BOUNDS, 11)


def error(call: Callable[[], Any], true: Any, runs: int) -> float:
    """Return the root mean squared error of what a call releases."""
    return float(np.sqrt(np.mean([np.square(call() - true) for _ in range(runs)])))


def ours(x: np.ndarray, relation: NeighboringRelation) -> dict[str, Callable[[], Any]]:
    """Return our releases at epsilon 1 under a relation, by name."""
    options: dict[str, Any] = {"bounds": _BOUNDS, "neighboring_relation": relation}
    one = fastdp.Moments.from_epsilon(1, moments=1, **options)
    two = fastdp.Moments.from_epsilon(1, **options)
    return {
        "mean": lambda: one.release(x).mean,
        "variance": lambda: two.release(x).variance,
        "histogram": lambda: (
            fastdp.histogram(x, _EDGES.tolist(), unit="row", epsilon=1).value
        ),
    }


def of_diffprivlib(x: np.ndarray) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield diffprivlib's releases: one record replaced, but added to a histogram."""
    try:
        from diffprivlib import tools
    except ImportError:
        return
    peer: dict[str, Any] = {"epsilon": 1.0, "bounds": _BOUNDS}
    yield "mean", "REPLACE_ONE", lambda: tools.mean(x, **peer)
    yield "variance", "REPLACE_ONE", lambda: tools.var(x, **peer)
    yield (
        "histogram",
        "ADD_OR_REMOVE_ONE",
        lambda: tools.histogram(x, epsilon=1.0, bins=10, range=_BOUNDS)[0],
    )


def of_pydp(x: np.ndarray) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield python-dp's releases: one record added."""
    try:
        from pydp.algorithms import laplacian
    except ImportError:
        return
    listed, (low, high) = x.tolist(), _BOUNDS
    peer = {"epsilon": 1.0, "lower_bound": low, "upper_bound": high, "dtype": "float"}
    relation = "ADD_OR_REMOVE_ONE"
    yield (
        "mean",
        relation,
        lambda: laplacian.BoundedMean(**peer).quick_result(listed),
    )
    yield (
        "variance",
        relation,
        lambda: laplacian.BoundedVariance(**peer).quick_result(listed),
    )


def of_opendp(x: np.ndarray) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield opendp's mean of a known number of records: one replaced."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return
    dp.enable_features("contrib", "floating-point")
    atoms = dp.atom_domain(bounds=_BOUNDS, nan=False)
    space = dp.vector_domain(atoms, size=len(x)), dp.symmetric_distance()
    mean = space >> dp.t.then_mean()

    def with_noise(scale: float) -> Any:
        return mean >> dp.m.then_laplace(scale)

    # One replaced is one removed and one added.
    scale = dp.binary_search_param(with_noise, d_in=2, d_out=1.0)
    noisy, listed = with_noise(scale), x.tolist()
    yield "mean", "REPLACE_ONE", lambda: noisy(listed)


def accuracy(runs: int) -> Iterator[Errors]:
    """Yield root mean squared errors of 1,000 records at epsilon 1, ours and a peer's.

    Each under the peer's own relation. Our variance comes with the mean.
    """
    x = _GENERATOR.uniform(*_BOUNDS, 1000)
    true = {
        "mean": x.mean(),
        "variance": x.var(),
        "histogram": np.histogram(x, _EDGES)[0],
    }
    for peer in (of_diffprivlib, of_pydp, of_opendp):
        for name, relation, theirs in peer(x):
            mine = ours(x, NeighboringRelation[relation])[name]
            errors = [error(call, true[name], runs) for call in (mine, theirs)]
            said = f"{name}, {relation.lower().replace('_', ' ')}"
            yield said, errors[0], peer.__name__.removeprefix("of_"), errors[1]


def main() -> int:
    """Print a line for each comparison."""
    print(f"{'least time':36} {'ours':>9} {'rival':>9} {'ratio':>8}")
    for lines in (sums, columns, keys, contributions):
        for name, ours, rival, theirs in lines():
            own, other = least(ours, theirs, seconds=1.5)
            figures = f"{own * 1e3:7.2f}ms {other * 1e3:7.2f}ms"
            print(f"{name:36} {figures} {other / own:8.2f}  {rival}", flush=True)
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{'error, ' + format(runs, ',') + ' runs':36} {'ours':>9} {'rival':>9}")
    for name, mine, peer, theirs in accuracy(runs):
        figures = f"{mine:9.4g} {theirs:9.4g} {mine / theirs:8.3f}"
        print(f"{name:36} {figures}  {peer}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
