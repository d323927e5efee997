"""Private principal components: the matrix of second moments with noise, decomposed.

    python examples/pca.py [--small] [--plot FILE]

Dwork, Talwar, Thakurta, Zhang, "Analyze Gauss: optimal bounds for privacy-preserving
principal component analysis" (STOC 2014): Gaussian noise on the matrix sum x x^T; all
that follows is post-processing. The pure form has Laplace noise.

`PCA`, whose docstring says why it is private, releases the sum as rows of d (d + 1)/2
numbers: x_i^2 and, for i < j, sqrt(2) x_i x_j, whose L2 norm is |x|^2 <= R^2: every
off-diagonal number occurs twice in the matrix, once in the row, hence the root. Without
the root, the row's L1 norm is (|x|_1^2 + |x|_2^2)/2 <= (d + 1) R^2/2.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from _common import Row, bands, options, picture, tell

from fastdp.learning import PCA

DIMENSION, KEPT, DELTA = 10, 2, 1e-6
PAST = "the noise does not grow with n: the gap between eigenvalues does"
Array = np.ndarray


def records(n: int, dimension: int = DIMENSION) -> Array:
    """Return n records in the unit ball whose variance falls with the coordinate."""
    rng = np.random.default_rng(14)
    turn = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    x = rng.normal(size=(n, dimension)) * 0.7 ** np.arange(dimension) * 0.45 @ turn
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)


def model(relation: str = "add_or_remove_one", **budget: float) -> PCA:
    """Return a model of records in the unit ball."""
    public = {"bounds": (-1, 1), "unit": "row", "data_norm": 1, "centered": True}
    return PCA(KEPT, neighboring_relation=relation, **public, **budget)


def components(matrix: Array, kept: int) -> Array:
    """Return the eigenvectors of the largest eigenvalues, shape (d, kept)."""
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :kept]


def captured(x: Array, basis: Array) -> float:
    """Return the share of the sum of squares that lies in the basis."""
    return float(np.square(x @ basis).sum() / np.square(x).sum())


def draw(file: str, shares: dict[str, dict[float, list[float]]], most: float) -> None:
    """Write the share that the components hold against epsilon."""
    figure, axes = picture()
    bands(axes, shares)
    axes.axhline(most, color="0.3", linewidth=1, label="no privacy")
    axes.axhline(KEPT / DIMENSION, color="0.3", linestyle=":", label="any two axes")
    axes.set(xscale="log", xlabel="epsilon", ylabel="share of the variance held")
    title = f"{KEPT} of {DIMENSION} components, 2,000 records: median, 10 % to 90 %"
    axes.set_title(title, fontsize="medium")
    axes.legend(fontsize="small", loc="lower right")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Find components with and without noise, and print what they hold."""
    chosen = options(__doc__, "few runs").parse_args(arguments)
    runs = 10 if chosen.small else 50
    grid = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
    x = records(2_000)
    most = captured(x, components(x.T @ x, KEPT))
    kinds = {"pure epsilon": {}, f"(epsilon, {DELTA:g})": {"delta": DELTA}}
    shares: dict[str, dict[float, list[float]]] = {name: {} for name in kinds}
    print(f"{'share of the variance held':28}", *(f"{e:>9g}" for e in grid))
    for name, more in kinds.items():
        for epsilon in grid:
            found = model(epsilon=epsilon, **more)
            shares[name][epsilon] = [
                captured(x, found.fit(x).components_.T) for _ in range(runs)
            ]
        middle = map(np.median, shares[name].values())
        print(f"{name + ', median':28}", *(f"{value:9.4f}" for value in middle))
    print(f"{'no privacy (truth)':28}", *(f"{most:9.4f}" for _ in grid))
    if chosen.plot:
        draw(chosen.plot, shares, most)
    many = records(50_000)
    gaussian = model(epsilon=1, delta=DELTA).fit(many)
    held = captured(many, gaussian.components_.T)
    held /= captured(many, components(many.T @ many, KEPT))
    event = gaussian.event()  # in steps: one record moves the sum by 1
    std = float(event.sigma / event.sensitivity)
    printed = math.sqrt(2 * math.log(1.25 / DELTA))
    corner = np.full(DIMENSION, 1 / math.sqrt(DIMENSION))
    i, j = np.triu_indices(DIMENSION)
    longest = float((corner[i] * corner[j]).sum())
    exact = "exact noise, and by sqrt(2) less off the diagonal: a number counts twice"
    return tell(
        [
            Row(
                "noise off the diagonal at epsilon 1",
                f"{printed:.2f}",
                std / math.sqrt(2),
                exact,
                (0.5 * printed, 0.6 * printed),
            ),
            Row("share held over the best, n = 5e4", "-", held, PAST, (0.999, 1)),
            Row(
                "largest L1 norm of a row", "-", longest, "(d + 1)/2", (5.4999, 5.5001)
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
