"""Estimates when nobody is trusted: a mean, a median and a classifier, locally private.

    python examples/local.py [--small] [--plot FILE]

The estimators of Duchi, Jordan and Wainwright, "Minimax Optimal Procedures for Locally
Private Estimation" (JASA 2018): every user randomizes one report, once. A mean of
bounded numbers; a median by stochastic subgradients, each the sign of theta - x as a
randomized bit; logistic regression by randomized gradients. All errors fall like
1/sqrt(n), and what a bit costs is the constant (e^epsilon + 1)/(e^epsilon - 1).
"""

from __future__ import annotations

import math
import sys

import numpy as np
from _common import Row, around, options, picture, tell

import fastdp

EPSILON = 1.0
SCALE = (math.exp(EPSILON) + 1) / (math.exp(EPSILON) - 1)  # of a bit's estimate
MEDIAN = 0.3  # of the Laplace law that users' numbers follow
SLOPES = np.array([1.5, -1.0, 0.5])  # of the logistic law
BATCH = 100


def one_bit(epsilon: float) -> fastdp.LocalMean:
    """Return the law of one bit for numbers in [-1, 1]."""
    return fastdp.LocalMean(math.exp(epsilon), bounds=(-1, 1), members=((2, 1),))


def best_report(epsilon: float) -> fastdp.LocalMean:
    """Return the best law of a finite report for numbers in [-1, 1]."""
    return fastdp.LocalMean.from_epsilon(epsilon, bounds=(-1, 1))


def mean_error(n: int, runs: int, *, bit: bool) -> tuple[float, float]:
    """Return the root mean square error of a mean, and what it should be."""
    rng = np.random.default_rng(11)
    x = rng.beta(4, 2, (runs, n)) * 2 - 1
    m = one_bit(EPSILON) if bit else best_report(EPSILON)
    found = np.array([m.estimate(m.release(row)).mean for row in x])
    expected = float(np.mean([m.variance(float(t)) for t in x[0, :200]]))
    errors = found - x.mean(axis=1)
    return float(np.sqrt((errors**2).mean())), math.sqrt(expected / n)


def median_error(n: int, runs: int) -> float:
    """Return the root mean square error of the averaged subgradient steps."""
    rng = np.random.default_rng(12)
    response = fastdp.RandomizedResponse.from_epsilon(EPSILON, categories=2)
    theta, average = np.zeros(runs), np.zeros(runs)
    for i in range(1, n + 1):
        x = MEDIAN + 0.5 * rng.laplace(size=runs)
        bits = response.release((theta > x).astype(np.int64))
        step = SCALE * (2.0 * bits - 1)  # unbiased for the sign of theta - x
        theta = np.clip(theta - step / (SCALE * math.sqrt(i)), -2, 2)
        average += (theta - average) / i
    return float(np.sqrt(((average - MEDIAN) ** 2).mean()))


def people(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features in [-1, 1], and the labels that the logistic law gives them."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, len(SLOPES)))
    return x, (rng.random(n) < 1 / (1 + np.exp(-x @ SLOPES))).astype(float)


def log_loss(theta: np.ndarray) -> float:
    """Return the mean loss of fresh people."""
    x, y = people(100_000, 1)
    margin = (2 * y - 1) * (x @ theta)
    return float(np.logaddexp(0, -margin).mean())


def logistic(n: int, seed: int) -> np.ndarray:
    """Return the average of steps along randomized gradients, each user once."""
    x, y = people(n, seed)
    m = fastdp.LocalMean.from_epsilon(
        EPSILON, bounds=(-1, 1), dimension=len(SLOPES), asked=1
    )
    theta, average = np.zeros(len(SLOPES)), np.zeros(len(SLOPES))
    for i in range(n // BATCH):
        part = slice(i * BATCH, (i + 1) * BATCH)
        gap = 1 / (1 + np.exp(-x[part] @ theta)) - y[part]
        gradient = m.estimate(m.release(gap[:, None] * x[part])).mean
        theta = np.clip(theta - np.asarray(gradient) / math.sqrt(i + 1), -3, 3)
        average += (theta - average) / (i + 1)
    return average


def draw(file: str, ns: tuple[int, ...], errors: dict[str, list[float]]) -> None:
    """Write errors against the number of users, and what a bit costs."""
    figure, axes = picture(2)
    for name, values in errors.items():
        axes[0].loglog(ns, values, "o-", label=name)
    axes[0].loglog(ns, SCALE / np.sqrt(ns), "k:", label="constant of a bit/root n")
    axes[0].set(xlabel="users", ylabel="root mean square error")
    axes[0].set(title=f"errors at epsilon {EPSILON:g}")
    epsilons = np.linspace(0.2, 6, 30)
    bit, best = [], []
    for epsilon in epsilons.tolist():
        bit.append(one_bit(epsilon).standard_error(1))
        best.append(best_report(epsilon).standard_error(1))
    axes[1].semilogy(epsilons, bit, label="one bit: (e^epsilon + 1)/(e^epsilon - 1)")
    axes[1].semilogy(epsilons, best, label="the best finite report")
    axes[1].set(xlabel="epsilon", ylabel="worst standard deviation of a report")
    axes[1].set(title="a mean of numbers in [-1, 1]")
    for axis in axes:
        axis.legend(fontsize="small")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Estimate, and print errors beside what the theory says."""
    chosen = options(__doc__, "up to 6,400 users, 100 runs").parse_args(arguments)
    ns = (100, 400, 1600, 6400, 25_600)[: 4 if chosen.small else None]
    runs = 100 if chosen.small else 200
    bit = [mean_error(n, runs, bit=True) for n in ns]
    best = [mean_error(n, runs, bit=False) for n in ns]
    medians = [median_error(n, runs) for n in ns]
    errors = {
        "mean, one bit": [e for e, _ in bit],
        "mean, best report": [e for e, _ in best],
        "median, one bit": medians,
    }
    print(f"{'users':>6} " + " ".join(f"{name:>18}" for name in errors))
    for i, n in enumerate(ns):
        print(f"{n:6} " + " ".join(f"{e[i]:18.4f}" for e in errors.values()))
    worst = one_bit(EPSILON).standard_error(1)
    rows = [Row("largest number a bit stands for", "2.1640", worst)]
    for name, (seen, expected) in (("bit", bit[-1]), ("best report", best[-1])):
        why, spread = f"mean of {runs} runs, fresh noise", 0.5 * expected
        what = f"error of a mean, {ns[-1]} users, {name}"
        rows.append(Row(what, f"{expected:.4f}", seen, why, around(expected, spread)))
    for name, values in errors.items():
        slope = math.log(values[-1] / values[0]) / math.log(ns[-1] / ns[0])
        why = "its first steps weigh longer" if "median" in name else "root n"
        rows.append(Row(f"slope of {name}", "-1/2", slope, why, around(-0.55, 0.4)))
    n = 60_000 if chosen.small else 200_000
    least, found, none = (
        log_loss(theta) for theta in (SLOPES, logistic(n, 13), np.zeros(len(SLOPES)))
    )
    print(f"log loss, {n} users: truth {least:.4f}, private {found:.4f}, 0 {none:.4f}")
    share = (found - least) / (none - least)
    why = "of what no model loses; it falls with n"
    rows.append(Row("logistic: excess loss, share", "-> 0", share, why, (-0.01, 1.3)))
    if chosen.plot:
        draw(chosen.plot, ns, errors)
    return tell(rows)


if __name__ == "__main__":
    sys.exit(main())
