"""Private linear regression: noisy second moments, and medians of slopes.

    python examples/regression.py [--small] [--plot FILE]

Sheffet, "Differentially private ordinary least squares" (ICML 2017), for second moments
with noise; Alabi, McMillan, Sarathy, Smith, Vadhan, "Differentially private simple
linear regression" (PoPETS 2022), for medians of slopes (Theil, Sen).

The first is `LinearRegression`, whose docstring says why it is private. For medians of
slopes records are matched by place, k times over. A record is in one slope of each
matching: the slopes of neighbors differ in k places, and a median private with
epsilon/k costs epsilon.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from _common import Row, bands, options, picture, tell

import fastdp
from fastdp import accounting
from fastdp.learning import LinearRegression

DELTA, MATCHINGS = 1e-6, 10
Array = np.ndarray


def records(n: int, dimension: int, seed: int) -> tuple[Array, Array]:
    """Return x and y in [-1, 1] of a linear law with noise."""
    rng = np.random.default_rng(seed)
    slopes = rng.uniform(-1, 1, dimension) / math.sqrt(dimension)
    x = np.clip(0.5 * rng.normal(size=(n, dimension)), -1, 1)
    y = x @ slopes + 0.1 + 0.1 * rng.normal(size=n)
    return x, np.clip(y, -1, 1)


def line(relation: str = "add_or_remove_one", **budget: float) -> LinearRegression:
    """Return a model of records in [-1, 1]."""
    public = {"bounds": (-1, 1), "y_bounds": (-1, 1), "unit": "row"}
    return LinearRegression(neighboring_relation=relation, **public, **budget)


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


def error(model: LinearRegression, x: Array, y: Array) -> float:
    """Return the mean squared error."""
    return float(np.square(model.predict(x) - y).mean())


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
    least = np.linalg.lstsq(ones, y, rcond=None)[1][0] / len(y)
    kinds = {"pure epsilon": {}, f"(epsilon, {DELTA:g})": {"delta": DELTA}}
    excesses: dict[str, dict[float, list[float]]] = {name: {} for name in kinds}
    inside = []
    print(f"{'squared error above least squares':34}", *(f"{e:>9g}" for e in grid))
    for name, more in kinds.items():
        plain = line(epsilon=1e9, **more).fit(x, y).coef_
        for epsilon in grid:
            excesses[name][epsilon] = []
            for _ in range(runs):
                model = line(epsilon=epsilon, **more).fit(x, y)
                tails = np.quantile(model.refits(100)[0], [0.95, 0.05], axis=0)
                low, high = 2 * model.coef_ - tails
                inside.append(np.mean((low <= plain) & (plain <= high)))
                excesses[name][epsilon].append(error(model, x, y) - least)
        middle = map(np.median, excesses[name].values())
        print(f"{name + ', median':34}", *(f"{value:9.2g}" for value in middle))
    print(f"variance of y (truth, no fit): {np.var(y):.4f}")
    one, bent = x[:, 0], 0.5 * x[:, 0] + 0.05 * x[:, 1]
    bent[::10] = -np.sign(one[::10])
    pairs = [median_slope(one, bent, 1) for _ in range(runs)]
    fits = [line("replace_one", epsilon=1).fit(x[:, :1], bent) for _ in range(runs)]
    slopes = {
        "least squares": [model.coef_[0] for model in fits],
        "median of slopes": [slope for slope, _ in pairs],
    }
    if chosen.plot:
        draw(chosen.plot, excesses, slopes, one, bent)
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
