"""Marginals chosen and measured here, and a model of all columns fitted from them.

    python examples/marginals.py [--small] [--plot FILE]

McKenna, Miklau, Sheldon, "Winning the NIST contest: a scalable and general approach to
differentially private synthetic data" (2021), the mechanism MST in outline. A third of
rho measures every column, a third chooses pairs of columns that make a tree, a third
measures these. What fits a model to noisy tables is post-processing, and another
package's work: `mbi` (private-pgm) where it is installed, else proportional fitting of
one table of all columns, which only few columns allow.

Why it is private. A record added or removed moves one cell of a table by 1: each table
has sensitivity 1 in L2. The score of a pair, the L1 distance between its table and the
product of its columns' noisy tables, moves by at most 1; it is an integer of units of
2^-20, with one more unit for rounding. An exponential mechanism of epsilon costs
epsilon^2/8 in rho, as its losses have a range of epsilon.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings

import numpy as np
from _common import Row, options, picture, tell

import fastdp
from fastdp import accounting

SIZES = (2, 3, 4, 3, 2, 5)
PAIRS = tuple(itertools.combinations(range(len(SIZES)), 2))
TREE = "the law is a tree, and its pairs are found"
Array = np.ndarray


def records(n: int) -> Array:
    """Return codes of a Markov law on a tree of the columns, shape (n, columns)."""
    rng = np.random.default_rng(7)
    x = np.zeros((n, len(SIZES)), np.int64)
    x[:, 0] = rng.random(n) < 0.4
    for child, parent in ((1, 0), (2, 1), (3, 1), (4, 0), (5, 4)):
        shares = rng.dirichlet(np.full(SIZES[child], 0.6), SIZES[parent])
        below = rng.random(n)[:, None] > shares.cumsum(axis=1)[x[:, parent]]
        x[:, child] = np.minimum(below.sum(axis=1), SIZES[child] - 1)
    return x


def table(x: Array, columns: tuple[int, ...]) -> Array:
    """Return counts of the columns' codes, flat."""
    sizes = [SIZES[c] for c in columns]
    cell = np.ravel_multi_index(tuple(x[:, c] for c in columns), sizes)
    return np.bincount(cell, minlength=math.prod(sizes))


def measure(x: Array, rho: float) -> tuple[dict, accounting.ZCDPAccountant]:
    """Return noisy tables by columns, with their deviation, and what they cost."""
    spent, noisy = accounting.ZCDPAccountant(), {}

    def add(columns: tuple[int, ...], share: float) -> None:
        mechanism = fastdp.DiscreteGaussian.from_rho(share, sensitivity=1)
        spent.compose(mechanism)
        noisy[columns] = mechanism.release(table(x, columns)), mechanism.std

    for column in range(len(SIZES)):
        add((column,), rho / 3 / len(SIZES))
    edges = len(SIZES) - 1
    choice = fastdp.ExponentialMechanism(
        math.sqrt(8 * rho / 3 / edges) * (1 - 1e-12), sensitivity=2**20 + 1
    )
    shares = {c: part(noisy[c,][0]) for c in range(len(SIZES))}
    n = max(float(np.mean([noisy[c,][0].sum() for c in range(len(SIZES))])), 1)
    gaps = {
        pair: np.abs(table(x, pair) - n * np.outer(*(shares[c] for c in pair)).ravel())
        for pair in PAIRS
    }
    group = list(range(len(SIZES)))
    for _ in range(edges):
        joining = [pair for pair in PAIRS if group[pair[0]] != group[pair[1]]]
        scores = [round(float(gaps[pair].sum()) * 2**20) for pair in joining]
        a, b = joining[choice.select(np.array(scores))]
        spent.compose(choice)
        group = [group[a] if g == group[b] else g for g in group]
        add((a, b), rho / 3 / edges)
    return noisy, spent


def part(counts: Array) -> Array:
    """Return counts as shares: none below a little, together 1."""
    positive = np.maximum(counts, 0.1)
    return positive / positive.sum()


def fitted(noisy: dict) -> dict[tuple[int, int], Array]:
    """Return shares of all pairs by proportional fitting of one table of all."""
    joint = np.full(SIZES, 1 / math.prod(SIZES))
    for _ in range(30):
        for columns, (counts, _) in noisy.items():
            others = tuple(set(range(len(SIZES))) - set(columns))
            wanted = part(counts).reshape([SIZES[c] for c in columns])
            ratio = wanted / np.maximum(joint.sum(axis=others), 1e-300)
            joint = joint * np.expand_dims(ratio, others)
    every = range(len(SIZES))
    return {p: joint.sum(axis=tuple(set(every) - set(p))).ravel() for p in PAIRS}


def by_mbi(noisy: dict) -> dict[tuple[int, int], Array] | None:
    """Return shares of all pairs from private-pgm's model; None if it is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import mbi
    except ImportError:
        return None
    names = [f"c{c}" for c in range(len(SIZES))]
    measured = [
        mbi.LinearMeasurement(
            counts.astype(float), tuple(names[c] for c in columns), stddev=float(std)
        )
        for columns, (counts, std) in noisy.items()
    ]
    domain = mbi.Domain(names, SIZES)
    model = mbi.estimation.MirrorDescent().estimate(domain, measured, iters=300)
    tables = {p: model.project(tuple(names[c] for c in p)) for p in PAIRS}
    return {p: part(np.asarray(t.datavector(), float)) for p, t in tables.items()}


def error(shares: dict[tuple[int, int], Array], x: Array) -> float:
    """Return the mean total variation distance to the tables of all pairs."""
    far = [np.abs(shares[p] - table(x, p) / len(x)).sum() / 2 for p in PAIRS]
    return float(np.mean(far))


def draw(file: str, errors: dict[str, dict[float, float]]) -> None:
    """Write errors against rho."""
    figure, axes = picture()
    for name, by_rho in errors.items():
        axes.plot(list(by_rho), list(by_rho.values()), "o-", label=name)
    axes.set(xscale="log", yscale="log", xlabel="rho")
    axes.set(ylabel="mean distance of a pair's table")
    axes.set_title("six columns, 10,000 records; all 15 pairs", fontsize="medium")
    axes.legend(fontsize="small")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Measure marginals, fit models, and print their errors."""
    chosen = options(__doc__, "three values of rho").parse_args(arguments)
    grid = (0.01, 0.1, 1.0) if chosen.small else (0.001, 0.01, 0.1, 1.0, 10.0)
    x = records(10_000)
    errors: dict[str, dict[float, float]] = {}
    for rho in grid:
        noisy, spent = measure(x, rho)
        single = {c: part(noisy[c,][0]) for c in range(len(SIZES))}
        models = {
            "columns alone": {
                p: np.outer(*(single[c] for c in p)).ravel() for p in PAIRS
            },
            "proportional fitting": fitted(noisy),
            "mbi": by_mbi(noisy),
        }
        for name, shares in models.items():
            if shares is not None:
                errors.setdefault(name, {})[rho] = error(shares, x)
    print(f"{'distance of pairs, rho':24}", *(f"{rho:>9g}" for rho in grid))
    for name, by_rho in errors.items():
        print(f"{name:24}", *(f"{value:9.4f}" for value in by_rho.values()))
    if "mbi" not in errors:
        print("mbi is not installed (pip install mbi): its model is left out.")
    if chosen.plot:
        draw(chosen.plot, errors)
    tree, alone = (
        errors[name][1.0] for name in ("proportional fitting", "columns alone")
    )
    spend, most = float(spent.rho), grid[-1]
    return tell(
        [
            Row("rho spent", f"{most:g} asked", spend, "rounded", (0.99 * most, most)),
            Row("distance at rho 1, over columns'", "-", tree / alone, TREE, (0, 0.5)),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
