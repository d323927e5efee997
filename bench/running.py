"""Running totals and ranges: our time beside a rival's, in one run.

    python bench/running.py

Each line alternates the two calls; figures are least processor times. numpy
makes two passes over as many kept rows, and draws normal noise, without a grid or an
exact sum; opendp builds a tree over the cells and makes it consistent, with the same
branching and its discrete Laplace noise. jax-privacy searches the same bands, for the
same error. A rival that is not installed is left out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
from turns import least

import fastdp
from fastdp import _factors

Call = Callable[[], object]
Line = tuple[str, Call, str, Call]

_GENERATOR = np.random.default_rng(23)


def steps() -> Iterator[Line]:
    """Yield a step of DP-FTRL's noise beside numpy's passes."""
    d, bands = 1_000_000, 32
    p = fastdp.PrefixSums.from_rho(
        0.5,
        radius=1.0,
        dimension=d,
        steps=2**20,
        strategy="banded",
        bands=bands,
        participations=1,
    )
    row = _GENERATOR.normal(size=(1, d))
    kept = _GENERATOR.normal(size=(bands - 1, d))
    c = _GENERATOR.uniform(size=bands - 1)

    for _ in range(bands):  # as it goes on: every kept row has been written
        p.step(row)

    def ours() -> object:
        return p.step(row)

    def numpy() -> object:
        y = row[0] + c @ kept + _GENERATOR.normal(size=d)
        return y - c @ kept

    yield f"PrefixSums, {bands} bands, {d:,}", ours, "numpy", numpy


def ranges() -> Iterator[Line]:
    """Yield a hierarchy's release beside opendp's consistent tree."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return
    dp.enable_features("contrib")
    leaves, branching = 2**16, 16
    counts = _GENERATOR.integers(0, 100, leaves)
    m = fastdp.HierarchicalHistogram.from_epsilon(1, leaves=leaves, branching=branching)
    space = (
        dp.vector_domain(dp.atom_domain(T=int), size=leaves),
        dp.l1_distance(T=int),
    )
    tree = space >> dp.t.then_b_ary_tree(leaf_count=leaves, branching_factor=branching)
    release = tree >> dp.m.then_laplace(scale=float(m.levels))
    consistent = dp.t.make_consistent_b_ary_tree(branching)
    given = counts.tolist()
    yield (
        f"HierarchicalHistogram, {leaves:,}",
        lambda: m.release(counts),
        "opendp",
        lambda: consistent(release(given)),
    )


def bands() -> Iterator[Line]:
    """Yield the search for 32 bands beside jax-privacy's."""
    try:
        import jax
        from jax_privacy.matrix_factorization import toeplitz
    except ImportError:
        return
    jax.config.update("jax_enable_x64", True)
    n = 1024
    yield (
        f"optimized_bands, 32 of {n:,}",
        lambda: _factors.best_bands.__wrapped__(n, 32, 1, n, 1),
        "jax-privacy",
        lambda: toeplitz.optimize_banded_toeplitz(n, 32, reduction_fn=jax.numpy.max),
    )


def main() -> int:
    """Print a line for each comparison."""
    print(f"{'least time':36} {'ours':>10} {'rival':>10} {'ratio':>8}")
    for lines in (steps, ranges, bands):
        for name, ours, rival, theirs in lines():
            own, other = least(ours, theirs, rounds=12, clock=time.process_time)
            figures = f"{own * 1e3:8.2f}ms {other * 1e3:8.2f}ms"
            print(f"{name:36} {figures} {other / own:8.2f}  {rival}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
