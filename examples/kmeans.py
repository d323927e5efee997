"""Private k-means: Lloyd's rounds on noisy sums and counts of each cluster.

    python examples/kmeans.py [--small] [--plot FILE]

Blum, Dwork, McSherry, Nissim, "Practical privacy: the SuLQ framework" (PODS 2005); Su,
Cao, Li, Bertino, Jin, "Differentially private k-means clustering" (CODASPY 2016). A
record's row is (1, x), in the block of its nearest center. Number of rounds and first
centers are fixed before the data are seen.

Why it is private. Given the centers of the round before, a record's label depends on
that record alone, and it has one label: the first nearest center. So one record moves
one block by (1, h(x)) with |h(x)| <= R checked in integers. In L2 that is sqrt(1 + R^2)
for a record added or removed; for one replaced, two orthogonal rows are sqrt(2)
sqrt(1 + R^2) apart, and two of one block 2 R, as their ones cancel. In L1 with the box
|x_i| <= r it is c + d r for a record added, twice that for one replaced. Labels taken
by "<=" instead would give a record at equal distance from j centers j labels.
"""

from __future__ import annotations

import sys

import numpy as np
from _common import Row, bands, options, picture, tell

import fastdp
from fastdp import accounting
from fastdp.accounting import Relation

K, DIMENSION, ROUNDS, DELTA = 4, 2, 5, 1e-6
WEIGHT = 0.75  # c: how much a count weighs beside a coordinate in the pure form
MEANS = np.array([[-0.5, -0.45], [0.5, -0.55], [-0.45, 0.5], [0.55, 0.45]])
Array = np.ndarray


def blobs(n: int) -> Array:
    """Return n records around four means, from a stated law and seed."""
    rng = np.random.default_rng(23)
    return MEANS[rng.integers(0, K, n)] + 0.14 * rng.normal(size=(n, DIMENSION))


def distances(x: Array, centers: Array) -> Array:
    """Return squared distances, shape (n, k), each record's by its own coordinates.

    No matrix product: its rounding may depend on where in the array a record stands,
    and so on whether another record is there.
    """
    out = np.zeros((len(x), len(centers)))
    for j in range(x.shape[1]):
        out += (x[:, j, None] - centers[:, j]) ** 2
    return out


def loss(x: Array, centers: Array) -> float:
    """Return the mean squared distance to the nearest center."""
    return float(distances(x, centers).min(axis=1).mean())


def spread_out(k: int, dimension: int, seed: int) -> Array:
    """Return k public points of [-1, 1]^d, far from each other and from the walls."""
    sets = np.random.default_rng(seed).uniform(-1, 1, (4000, k, dimension))
    apart = np.square(sets[:, :, None] - sets[:, None]).sum(axis=3) ** 0.5
    apart[:, np.arange(k), np.arange(k)] = 2 * (1 - np.abs(sets).max(axis=2))
    return sets[apart.min(axis=(1, 2)).argmax()]


def lloyd(x: Array, start: Array, rounds: int) -> Array:
    """Return the centers of Lloyd's algorithm without noise."""
    centers = start.copy()
    for _ in range(rounds):
        label = distances(x, centers).argmin(axis=1)
        for j in np.unique(label):
            centers[j] = x[label == j].mean(axis=0)
    return centers


def private_lloyd(
    x: Array, start: Array, rounds: int, sums: fastdp.ClippedSum, weight: float
) -> Array:
    """Return centers after `rounds` releases of `sums`; all else is after them."""
    spare = np.random.default_rng(99).uniform(-0.8, 0.8, (rounds, *start.shape))
    centers = start.copy()
    for t in range(rounds):
        label = distances(x, centers).argmin(axis=1)  # argmin: ties to the first
        noisy = sums.release(x, labels=label)
        count = noisy[:, 0] / weight
        moved = noisy[:, 1:] / np.maximum(count, 1)[:, None]
        lost = count < max(1, sums.std / weight)
        moved[lost] = spare[t, lost]
        centers = np.clip(moved, -1, 1)
    return centers


def pure_sums(
    epsilon: float, k: int, dimension: int, rounds: int, **relation: Relation
) -> fastdp.ClippedSum:
    """Return the sums of one round, pure epsilon/rounds, for records in [-1, 1]^d."""
    shape = {"radius": 1, "dimension": dimension, "norm": "inf", "blocks": k}
    each = epsilon / rounds
    return fastdp.ClippedSum.from_epsilon(each, constant=WEIGHT, **shape, **relation)


def gaussian_sums(epsilon: float, delta: float) -> fastdp.ClippedSum:
    """Return the sums of one round: ROUNDS of them are (epsilon, delta) together."""
    shape = {"radius": 1, "dimension": DIMENSION, "blocks": K, "constant": 1, "norm": 2}
    target = {"epsilon": epsilon, "delta": delta, "low": 0.1, "high": 1e4}
    sigma = accounting.calibrate(
        lambda sigma: fastdp.ClippedSum(sigma=sigma, **shape).event(),
        accountant=accounting.PLDAccountant,
        count=ROUNDS,
        **target,
    )
    return fastdp.ClippedSum(sigma=sigma, **shape)


def tied() -> int:
    """Return how far (L1) one replaced record moves counts if labels go by "<="."""
    square = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    far = np.array([5.0, 0])
    d = distances(np.stack([far, -far]), np.vstack([square + far, square - far]))
    labels = (d <= d.min(axis=1, keepdims=True)).astype(int)
    return int(np.abs(labels[0] - labels[1]).sum())


def draw(file: str, x: Array, found: dict[str, Array], ratios: dict) -> None:
    """Write the centers on a sample, and the loss against epsilon."""
    figure, (left, right) = picture(2)
    left.plot(*x[:2000].T, ".", color="0.8", markersize=3, zorder=0)
    for (name, centers), mark in zip(found.items(), "xoD", strict=True):
        left.plot(*centers.T, mark, markersize=9, fillstyle="none", label=name)
    left.set_title("pure epsilon 1 (records: for illustration)", fontsize="medium")
    left.legend(fontsize="small", loc="upper center", ncols=3)
    bands(right, ratios)
    right.set(xscale="log", xlabel="epsilon", ylabel="loss over Lloyd's")
    right.set_title("median, 10 % to 90 % of runs", fontsize="medium")
    right.legend(fontsize="small")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Cluster with and without noise, and print losses."""
    chosen = options(__doc__, "few runs").parse_args(arguments)
    runs = 5 if chosen.small else 30
    grid = (0.05, 0.2, 1.0) if chosen.small else (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
    x, start = blobs(20_000), spread_out(K, DIMENSION, 1)
    best = lloyd(x, start, 20)
    names = ("pure epsilon", f"(epsilon, {DELTA:g})")
    ratios: dict[str, dict[float, list[float]]] = {name: {} for name in names}
    for epsilon in grid:
        pure = pure_sums(epsilon, K, DIMENSION, ROUNDS)
        gaussian = gaussian_sums(epsilon, DELTA)
        kinds = zip(names, (pure, gaussian), (WEIGHT, 1), strict=True)
        for name, sums, weight in kinds:
            ratios[name][epsilon] = [
                loss(x, private_lloyd(x, start, ROUNDS, sums, weight)) / loss(x, best)
                for _ in range(runs)
            ]
    print(f"{'loss over that of Lloyd (truth)':34}", *(f"{e:>9g}" for e in grid))
    for name, by_epsilon in ratios.items():
        middle = map(np.median, by_epsilon.values())
        print(f"{name + ', median':34}", *(f"{value:9.4f}" for value in middle))
    many = blobs(100_000)
    sums = pure_sums(1.0, K, DIMENSION, ROUNDS)
    found = private_lloyd(many, start, ROUNDS, sums, WEIGHT)
    ratio = loss(many, found) / loss(many, lloyd(many, start, 20))
    spent = accounting.PureAccountant().compose(sums, ROUNDS).epsilon(0)
    if chosen.plot:
        draw(chosen.plot, x, {"start": start, "Lloyd": best, "private": found}, ratios)
    added, replaced = (
        float(gaussian.event(neighboring_relation=relation).sensitivity)
        * float(gaussian.granularity)
        for relation in ("add_or_remove_one", "replace_one")
    )
    whole = "clipped as a whole, (1, x) would move by 2 sqrt(1 + R^2) = 2.83"
    ties = "labels by <= put a record in every nearest cluster: 2 j for j = 4 ties"
    return tell(
        [
            Row(
                "loss over Lloyd's, n = 1e5, epsilon 1",
                "-",
                ratio,
                "pure epsilon",
                (0.999, 1.2),
            ),
            Row("epsilon of five rounds", "1", spent),
            Row("L2 sensitivity for R = 1, record added", "1.41", added),
            Row("the same, record replaced", "-", replaced, whole, (1.99, 2)),
            Row("counts moved by one replaced record", "2", tied(), ties, (8, 8)),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
