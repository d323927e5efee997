"""Private training two ways at one epsilon: DP-SGD and DP-FTRL, beside no privacy.

    python examples/train_two_ways.py [--epsilon 0.5] [--small] [--plot FILE]

A softmax regression on synthetic classes. DP-SGD (Abadi et al., CCS 2016) draws Poisson
batches and adds fresh noise to every sum of clipped gradients; its privacy comes from
the sampling, which must then really be random and secret. DP-FTRL (Kairouz et al., ICML
2021) passes over the records in a fixed order and adds noise to the running sum of all
gradients, correlated over time; nothing is sampled. Both use clipped integer sums.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from _common import Row, options, picture, tell
from _logistic import products

import fastdp
from fastdp import accounting
from fastdp.accounting import NeighboringRelation, calculators

CLASSES, FEATURES, RADIUS, RATE = 5, 20, 1.0, 4.0
DIMENSION = CLASSES * FEATURES


def synthetic(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n unit rows around class centers, and their classes."""
    centers = np.random.default_rng(1).normal(size=(CLASSES, FEATURES))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    x = centers[y] + 2.0 * rng.normal(size=(n, FEATURES))
    return x / np.linalg.norm(x, axis=1, keepdims=True), y


def gradients(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return each record's gradient of the log loss, shape (n, DIMENSION)."""
    scores = np.stack([products(x, v) for v in w.reshape(CLASSES, FEATURES)], axis=1)
    share = np.exp(scores - scores.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    share[np.arange(len(y)), y] -= 1
    return (share[:, :, None] * x[:, None, :]).reshape(len(y), DIMENSION)


def accuracy(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Return the share of records whose class is found."""
    return float((np.argmax(x @ w.reshape(CLASSES, FEATURES).T, axis=1) == y).mean())


def plain(x: np.ndarray, y: np.ndarray, steps: int) -> np.ndarray:
    """Return weights trained without privacy, one per step."""
    w = np.zeros(DIMENSION)
    path = []
    for _ in range(steps):
        w = w - RATE * gradients(w, x, y).mean(axis=0)
        path.append(w)
    return np.array(path)


def dp_sgd(
    x: np.ndarray, y: np.ndarray, steps: int, batch: int, epsilon: float, delta: float
) -> tuple[np.ndarray, float]:
    """Return the weights of DP-SGD after each step, and the epsilon spent."""
    n = len(y)
    plan = calculators.dp_sgd(
        n, batch=batch, steps=steps, epsilon=epsilon, delta=delta, sampling="poisson"
    )
    total = fastdp.ClippedSum(
        sigma=plan.sigma * RADIUS, radius=RADIUS, dimension=DIMENSION, norm=2
    )
    accountant = accounting.PLDAccountant()
    w, path = np.zeros(DIMENSION), []
    for _ in range(steps):
        rows = fastdp.random.bernoulli(batch / n, size=n)  # secret coins, exact
        w = w - RATE * total.release(gradients(w, x[rows], y[rows])) / batch
        path.append(w)
    sampled = accounting.PoissonSampledEvent(batch / n, total.event())
    accountant.compose(sampled, steps)
    return np.array(path), accountant.epsilon(delta)


def dp_ftrl(
    x: np.ndarray, y: np.ndarray, epochs: int, batch: int, epsilon: float, delta: float
) -> tuple[np.ndarray, float]:
    """Return the weights of DP-FTRL after each step, and the epsilon spent."""
    an_epoch = len(y) // batch
    sums = fastdp.PrefixSums.from_epsilon_delta(
        epsilon=epsilon,
        delta=delta,
        radius=RADIUS,
        dimension=DIMENSION,
        steps=epochs * an_epoch,
        strategy="banded",
        bands=an_epoch,
        participations=epochs,
        separation=an_epoch,
        neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
    )
    w, path = np.zeros(DIMENSION), []
    for t in range(epochs * an_epoch):
        rows = slice(t % an_epoch * batch, (t % an_epoch + 1) * batch)
        w = -RATE * sums.step(gradients(w, x[rows], y[rows])) / batch
        path.append(w)
    return np.array(path), sums.epsilon(delta=delta)


def draw(file: str, curves: dict[str, list[float]], title: str) -> None:
    """Write the accuracies after each step to a picture."""
    figure, axes = picture()
    for name, values in curves.items():
        axes.plot(np.arange(1, len(values) + 1), values, label=name)
    axes.set_xlabel("step")
    axes.set_ylabel("accuracy on fresh records")
    axes.set_title(title, fontsize="medium")
    axes.legend()
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Train, and print accuracies beside what was spent."""
    parser = options(__doc__, "2,000 records, two epochs")
    parser.add_argument("--epsilon", type=float, default=0.5)
    chosen = parser.parse_args(arguments)
    n, epochs = (2_000, 2) if chosen.small else (20_000, 4)
    epsilon, delta = chosen.epsilon, 1 / n**1.1
    batch, steps = n // 20, epochs * 20
    (x, y), (fresh, truth) = synthetic(n, 2), synthetic(20_000, 3)
    sgd, spent_sgd = dp_sgd(x, y, steps, batch, epsilon, delta)
    ftrl, spent_ftrl = dp_ftrl(x, y, epochs, batch, epsilon, delta)
    paths = {"no privacy": plain(x, y, steps), "DP-SGD": sgd, "DP-FTRL": ftrl}
    curves = {
        name: [accuracy(w, fresh, truth) for w in path] for name, path in paths.items()
    }
    spent = {"no privacy": math.inf, "DP-SGD": spent_sgd, "DP-FTRL": spent_ftrl}
    print(f"{'':12} {'epsilon':>9} {'accuracy':>9}   at delta {delta:.3g}")
    for name, values in curves.items():
        print(f"{name:12} {spent[name]:9.4f} {values[-1]:9.4f}")
    print("DP-SGD: a record added or removed, batches drawn at random and kept secret.")
    print("DP-FTRL: a record replaced by nothing, in every epoch; no batch is random.")
    if chosen.plot:
        title = f"softmax regression, epsilon {epsilon:g} at delta {delta:.3g}"
        draw(chosen.plot, curves, title)
    asked = f"{epsilon:g} asked"
    almost = (0.99 * epsilon, epsilon)
    return tell(
        [
            Row("DP-SGD: epsilon", asked, spent_sgd, "noise is rounded up", almost),
            Row("DP-FTRL: epsilon", asked, spent_ftrl, "noise is rounded up", almost),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
