"""Private k-means: Lloyd's rounds on noisy sums and counts of each cluster.

    python examples/kmeans.py [--small] [--plot FILE]

Blum, Dwork, McSherry, Nissim, "Practical privacy: the SuLQ framework" (PODS 2005); Su,
Cao, Li, Bertino, Jin, "Differentially private k-means clustering" (CODASPY 2016). A
record's row is (1, x), in the block of its nearest center. `KMeans`, whose docstring
says why it is private, releases the blocks' sums. In L2 a record added or removed moves
them by sqrt(1 + R^2); one replaced by two orthogonal rows, sqrt(2) sqrt(1 + R^2) apart,
or by two of one block, 2 R, as their ones cancel. Labels taken by "<=" instead would
give a record at equal distance from j centers j labels.
"""

from __future__ import annotations

import sys

import numpy as np
from _common import Row, bands, options, picture, tell

import fastdp
from fastdp import accounting
from fastdp.learning import KMeans

K, DIMENSION, ROUNDS, DELTA = 4, 2, 5, 1e-6
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


START = spread_out(K, DIMENSION, 1)


def lloyd(x: Array, start: Array, rounds: int) -> Array:
    """Return the centers of Lloyd's algorithm without noise."""
    centers = start.copy()
    for _ in range(rounds):
        label = distances(x, centers).argmin(axis=1)
        for j in np.unique(label):
            centers[j] = x[label == j].mean(axis=0)
    return centers


def model(relation: str = "add_or_remove_one", **budget: float) -> KMeans:
    """Return a model of the blobs, whose records are clamped to [-1, 1]."""
    public = {"bounds": (-1, 1), "unit": "row", "init": START, "max_iter": ROUNDS}
    return KMeans(K, neighboring_relation=relation, **public, **budget)


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
    x = blobs(20_000)
    best = lloyd(x, START, 20)
    kinds = {"pure epsilon": {}, f"(epsilon, {DELTA:g})": {"delta": DELTA}}
    ratios: dict[str, dict[float, list[float]]] = {name: {} for name in kinds}
    for name, more in kinds.items():
        for epsilon in grid:
            found = (model(epsilon=epsilon, **more).fit(x) for _ in range(runs))
            centers = (one.cluster_centers_ for one in found)
            ratios[name][epsilon] = [loss(x, c) / loss(x, best) for c in centers]
    print(f"{'loss over that of Lloyd (truth)':34}", *(f"{e:>9g}" for e in grid))
    for name, by_epsilon in ratios.items():
        middle = map(np.median, by_epsilon.values())
        print(f"{name + ', median':34}", *(f"{value:9.4f}" for value in middle))
    many = blobs(100_000)
    private = model(epsilon=1).fit(many)
    found = private.cluster_centers_
    ratio = loss(many, found) / loss(many, lloyd(many, START, 20))
    spent = accounting.PureAccountant().compose(private.event()).epsilon(0)
    if chosen.plot:
        draw(chosen.plot, x, {"start": START, "Lloyd": best, "private": found}, ratios)
    shape = {"radius": 1, "dimension": DIMENSION, "blocks": K, "constant": 1, "norm": 2}
    gaussian = fastdp.ClippedSum(sigma=1, **shape)
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
