"""Private training at one epsilon: DP-SGD with two loaders, DP-FTRL, and no privacy.

    python examples/train_two_ways.py [--epsilon 0.5] [--small] [--plot FILE]

A softmax regression on synthetic classes. DP-SGD (Abadi et al., CCS 2016) adds fresh
noise to every sum of clipped gradients; its privacy comes from the batches, which must
really be random and secret: drawn by coins (Poisson), or allocated, each record to one
step of every epoch (Feldman and Shenfeld, 2025), which sees every record and asks for
less noise. A loader that shuffles pays ten times as much. DP-FTRL (Kairouz et al., ICML
2021) passes over the records in a fixed order and adds noise to the running sum of all
gradients, correlated over time; nothing is sampled. Both use clipped integer sums.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator

import numpy as np
from _common import Row, options, picture, tell
from _logistic import products

import fastdp
from fastdp import accounting
from fastdp.accounting import Event, NeighboringRelation, calculators

Loader = Callable[[int, int], Iterator[np.ndarray]]
CLASSES, FEATURES, RADIUS, RATE = 5, 20, 1.0, 4.0
DIMENSION = CLASSES * FEATURES
OTHERS = {
    "poisson": "a record may be in several batches of an epoch, or in none",
    "shuffled": "charged in full once an epoch, and for a record replaced",
}


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


def poisson(n: int, batch: int) -> Iterator[np.ndarray]:
    """Yield an epoch's batches, drawn by coins that are secret and exact."""
    for _ in range(n // batch):
        yield np.flatnonzero(fastdp.random.bernoulli(batch / n, size=n))


def allocated(n: int, batch: int) -> Iterator[np.ndarray]:
    """Yield an epoch's batches: every record is in one of them, chosen by itself."""
    order, starts = fastdp.random.allocate(n, steps=n // batch)
    yield from np.split(order, starts[1:-1])


def dp_sgd(
    x: np.ndarray, y: np.ndarray, loader: Loader, plan: calculators.DPSGDPlan
) -> tuple[np.ndarray, float]:
    """Return the weights of DP-SGD after each step, and the epsilon spent."""
    n, batch = plan.records, int(plan.batch)
    total = fastdp.ClippedSum(
        sigma=plan.sigma * RADIUS, radius=RADIUS, dimension=DIMENSION, norm=2
    )
    w, path = np.zeros(DIMENSION), []
    for _ in range(int(plan.epochs)):
        for rows in loader(n, batch):  # divide by a public number, not by len(rows)
            w = w - RATE * total.release(gradients(w, x[rows], y[rows])) / batch
            path.append(w)
    step: Event = accounting.PoissonSampledEvent(batch / n, total.event())
    count = plan.steps
    if plan.sampling == "allocated":
        step = accounting.RandomAllocationEvent(
            steps=n // batch, event=total.event(), selected=1
        )
        count //= step.steps
    accountant = accounting.PLDAccountant().compose(step, count)
    return np.array(path), accountant.epsilon(plan.delta)


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
    schedule = {"batch": batch, "steps": steps, "delta": delta}
    plans = {
        sampling: calculators.dp_sgd(n, epsilon=epsilon, sampling=sampling, **schedule)
        for sampling in ("poisson", "allocated")
    }
    found = {
        "no privacy": (plain(x, y, steps), math.inf),
        "DP-SGD, Poisson": dp_sgd(x, y, poisson, plans["poisson"]),
        "DP-SGD, allocated": dp_sgd(x, y, allocated, plans["allocated"]),
        "DP-FTRL": dp_ftrl(x, y, epochs, batch, epsilon, delta),
    }
    curves = {
        name: [accuracy(w, fresh, truth) for w in path]
        for name, (path, _) in found.items()
    }
    print(f"{'':18} {'epsilon':>9} {'accuracy':>9}   at delta {delta:.3g}")
    for name, values in curves.items():
        print(f"{name:18} {found[name][1]:9.4f} {values[-1]:9.4f}")
    print("DP-SGD: a record added or removed, batches drawn at random and kept secret.")
    print("DP-FTRL: a record replaced by nothing, in every epoch; no batch is random.")
    noise, more = plans["allocated"].sigma, plans["poisson"].sigma
    print(f"noise: {noise:.4f} radii for allocated batches, {more:.4f} for Poisson's")
    if chosen.plot:
        title = f"softmax regression, epsilon {epsilon:g} at delta {delta:.3g}"
        draw(chosen.plot, curves, title)
    asked, almost = f"{epsilon:g} asked", (0.99 * epsilon, epsilon)
    rows = [
        Row(f"{name}: epsilon", asked, spent, "noise is rounded up", almost)
        for name, (_, spent) in list(found.items())[1:]
    ]
    for sampling, why in OTHERS.items():
        plan = calculators.dp_sgd(n, sigma=noise, sampling=sampling, **schedule)
        name, above = f"allocated noise on {sampling} batches", (epsilon, math.inf)
        rows.append(Row(name, "-", plan.epsilon, why, above))
    return tell(rows)


if __name__ == "__main__":
    sys.exit(main())
