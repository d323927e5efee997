"""Private linear regression: noisy second moments, and medians of slopes.

    python examples/regression.py [--small] [--plot FILE]

Sheffet, "Differentially private ordinary least squares" (ICML 2017), for second moments
with noise; Alabi, McMillan, Sarathy, Smith, Vadhan, "Differentially private simple
linear regression" (PoPETS 2022), for medians of slopes (Theil, Sen).

Why it is private. With z = (x, 1, y) a record is one row of its own products z_i z_j,
i <= j, without y^2; `ClippedSum` checks in integers that no row is longer than the
radius, whatever came before. The radius is met by weighing: a record whose x lies far
out has a weight below 1, which depends on x and not on y, so that the fit stays
unbiased. What follows the sum is post-processing. For medians of slopes records are
matched by place, k times over. A record is in one slope of each matching: the slopes
of neighbors differ in k places, and a median private with epsilon/k costs epsilon.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from _common import Row, bands, options, picture, tell

import fastdp
from fastdp import accounting
from fastdp.accounting import Relation

DELTA, MATCHINGS = 1e-6, 10
Array = np.ndarray


def records(n: int, dimension: int, seed: int) -> tuple[Array, Array]:
    """Return x and y in [-1, 1] of a linear law with noise."""
    rng = np.random.default_rng(seed)
    slopes = rng.uniform(-1, 1, dimension) / math.sqrt(dimension)
    x = np.clip(0.5 * rng.normal(size=(n, dimension)), -1, 1)
    y = x @ slopes + 0.1 + 0.1 * rng.normal(size=n)
    return x, np.clip(y, -1, 1)


def length(square: Array, absolute: Array, norm: int) -> Array:
    """Return the norm of a row for |y| = 1, from |(x, 1)|_2^2 and |(x, 1)|_1."""
    if norm == 1:
        return (absolute**2 + square) / 2 + absolute
    return np.sqrt(square**2 + 2 * square)


def radius(dimension: int, norm: int) -> float:
    """Return the length of the row of a record with all |x_i| = 1/2: public."""
    return float(length(1 + np.array(dimension / 4), 1 + dimension / 2, norm))


def the_sum(
    dimension: int, *, epsilon: float, delta: float = 0, **relation: Relation
) -> fastdp.ClippedSum:
    """Return the sum of rows: pure with Laplace noise, or Gaussian where delta > 0."""
    shape = {"dimension": (dimension + 2) * (dimension + 3) // 2 - 1, **relation}
    shape["radius"] = radius(dimension, 2 if delta else 1)
    if delta == 0:
        return fastdp.ClippedSum.from_epsilon(epsilon, **shape)
    return fastdp.ClippedSum.from_epsilon_delta(epsilon=epsilon, delta=delta, **shape)


def scales(dimension: int, norm: int) -> tuple[Array, Array, Array]:
    """Return i, j and factor of each number: sqrt(2) off the diagonal for L2."""
    i, j = np.triu_indices(dimension + 2)
    i, j = i[:-1], j[:-1]
    return i, j, np.where((i < j) & (norm == 2), math.sqrt(2), 1.0)


def rows(x: Array, y: Array, norm: int) -> Array:
    """Return each record's weighed products; y counts as in [-1, 1]."""
    inner = np.column_stack([x, np.ones(len(x))])
    norms = length(np.square(inner).sum(1), np.abs(inner).sum(1), norm)
    weight = np.minimum(1, radius(x.shape[1], norm) / norms)
    z = np.column_stack([inner, np.clip(y, -1, 1)])
    i, j, factor = scales(x.shape[1], norm)
    return z[:, i] * z[:, j] * factor * weight[:, None]


def solve(noisy: Array, dimension: int, norm: int, std: float) -> Array:
    """Return slopes and intercept; eigenvalues below the noise count as the noise."""
    i, j, factor = scales(dimension, norm)
    full = np.zeros((dimension + 2, dimension + 2))
    full[i, j] = full[j, i] = noisy / factor
    values, vectors = np.linalg.eigh(full[:-1, :-1])
    floor = 2 * std * math.sqrt(dimension + 1)
    return vectors @ (vectors.T @ full[:-1, -1] / np.maximum(values, floor))


def fit(x: Array, y: Array, sums: fastdp.ClippedSum, norm: int) -> tuple[Array, Array]:
    """Return the fit, and refits with more noise of the same public law."""
    noisy, d = sums.release(rows(x, y, norm)), x.shape[1]
    noise = (sums.release(np.zeros((0, len(noisy)))) for _ in range(100))
    again = [solve(noisy + more, d, norm, sums.std) for more in noise]
    return solve(noisy, d, norm, sums.std), np.array(again)


def median_slope(x: Array, y: Array, epsilon: float) -> tuple[float, float]:
    """Return the noisy median of slopes, x and y one-dimensional, and its epsilon."""
    half, order = len(x) // 2, np.random.default_rng(5)
    slopes = []
    for _ in range(MATCHINGS):
        first, second = order.permutation(len(x))[: 2 * half].reshape(2, half)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes.append((y[second] - y[first]) / (x[second] - x[first]))
    relation = {"neighboring_relation": "replace_one"}
    each = epsilon / MATCHINGS
    median = fastdp.Quantiles(0.5, bounds=(-4, 4), epsilon=each, **relation)
    event = accounting.GroupEvent(median.event(), MATCHINGS)
    spent = accounting.PureAccountant().compose(event).epsilon(0)
    return float(median.release(np.concatenate(slopes))), spent


def error(w: Array, x: Array, y: Array) -> float:
    """Return the mean squared error."""
    return float(np.square(x @ w[:-1] + w[-1] - y).mean())


def draw(file: str, excesses: dict, slopes: dict, x: Array, y: Array) -> None:
    """Write errors against epsilon, and the slopes found among outliers."""
    figure, (left, right) = picture(2)
    bands(left, excesses)
    label = "mean squared error above least squares"
    left.set(xscale="log", yscale="log", xlabel="epsilon", ylabel=label)
    left.set_title("five slopes, 10,000 records: 10 % to 90 %", fontsize="medium")
    left.legend(fontsize="small")
    right.plot(x[:1500], y[:1500], ".", color="0.8", markersize=3)
    at = np.array([-1.0, 1.0])
    for number, (name, found) in enumerate(slopes.items()):
        for slope in found:
            right.plot(at, slope * at, f"C{number}", alpha=0.4)
        right.plot([], [], f"C{number}", label=f"{name}, each run")
    right.set_title(
        "epsilon 1, one outlier in ten (records: illustration)", fontsize="medium"
    )
    right.legend(fontsize="small")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Fit with and without noise, and print errors and intervals."""
    chosen = options(__doc__, "few runs").parse_args(arguments)
    runs = 5 if chosen.small else 40
    grid = (0.1, 0.5, 2.0) if chosen.small else (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
    x, y = records(10_000, 5, 1)
    ones = np.column_stack([x, np.ones(len(x))])
    least = error(np.linalg.lstsq(ones, y, rcond=None)[0], x, y)
    kinds = {"pure epsilon": (0, 1), f"(epsilon, {DELTA:g})": (DELTA, 2)}
    excesses: dict[str, dict[float, list[float]]] = {name: {} for name in kinds}
    inside = []
    print(f"{'squared error above least squares':34}", *(f"{e:>9g}" for e in grid))
    for name, (delta, norm) in kinds.items():
        for epsilon in grid:
            sums = the_sum(5, epsilon=epsilon, delta=delta)
            plain = solve(rows(x, y, norm).sum(0), 5, norm, 0)
            excesses[name][epsilon] = []
            for _ in range(runs):
                found, again = fit(x, y, sums, norm)
                low, high = 2 * found - np.quantile(again, [0.95, 0.05], axis=0)
                inside.append(np.mean((low <= plain) & (plain <= high)))
                excesses[name][epsilon].append(error(found, x, y) - least)
        middle = map(np.median, excesses[name].values())
        print(f"{name + ', median':34}", *(f"{value:9.2g}" for value in middle))
    print(f"variance of y (truth, no fit): {np.var(y):.4f}")
    line, bent = x[:, 0], 0.5 * x[:, 0] + 0.05 * x[:, 1]
    bent[::10] = -np.sign(line[::10])
    sums = the_sum(1, epsilon=1, neighboring_relation="replace_one")
    pairs = [median_slope(line, bent, 1) for _ in range(runs)]
    slopes = {
        "least squares": [fit(line[:, None], bent, sums, 1)[0][0] for _ in range(runs)],
        "median of slopes": [slope for slope, _ in pairs],
    }
    if chosen.plot:
        draw(chosen.plot, excesses, slopes, line, bent)
    squares, medians = (abs(np.median(found) - 0.5) for found in slopes.values())
    noise, robust = "intervals of the noise alone", "one record in ten is an outlier"
    share = float(np.mean(inside))
    return tell(
        [
            Row("fits inside their 90 % intervals", "0.9", share, noise, (0.5, 1)),
            Row("epsilon of 10 medians of epsilon/10", "1", pairs[0][1]),
            Row("error of the median slope", "-", medians, robust, (0, 0.1)),
            Row("error of least squares' slope", "-", squares, robust, (0.1, 1)),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
