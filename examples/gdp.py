"""Gaussian differential privacy in pictures: trade-off functions and their limits.

    python examples/gdp.py [--small] [--plot FILE]

After the figures of Dong, Roth and Su, "Gaussian Differential Privacy" (2022): what
(epsilon, delta) says of a test, Gaussian privacy and where its error rates are equal,
a trade-off function as the largest of its lines, ten compositions of (1/sqrt(10), 0)
beside Gaussian privacy, groups and the Laplace limit, and noisy SGD on a dataset of
MNIST's size after Bu, Dong, Long and Su (2020): exact, by the central limit theorem
(an approximation) and by moments.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
from _common import Row, around, options, picture, tell
from scipy.optimize import brentq

from fastdp import accounting
from fastdp.accounting import (
    ApproximateTradeOff,
    GaussianTradeOff,
    LaplaceTradeOff,
    PLDAccountant,
    RDPAccountant,
    TradeOffFunction,
    conversions,
)

MUS = (0.5, 1, 3, 6)
SLOPES = (-2.0, -1.0, -0.3, 0.0, 0.3, 1.0, 2.0)  # logarithms, of the supporting lines
RATES = np.linspace(0, 1, 1001)
BATCH, SIZE, NOISE = 256, 60_000, Fraction("1.3")


def fixed_point(f: TradeOffFunction) -> float:
    """Return the error rate that a best test can have twice."""
    return float(brentq(lambda x: float(f(x)) - x, 0, 1, xtol=1e-13))


def distance(f: TradeOffFunction, g: TradeOffFunction) -> float:
    """Return the largest difference of two functions on a grid."""
    x = np.linspace(0, 1, 200_001)
    return float(np.abs(f(x) - g(x)).max())


def ten_compositions() -> TradeOffFunction:
    """Return the exact trade-off function of ten steps of (1/sqrt(10), 0)."""
    step = accounting.PureDPEvent(Fraction(math.sqrt(0.1)))
    return PLDAccountant().compose(step, 10).trade_off()


def best_pair(
    f: TradeOffFunction, values: np.ndarray, points: int
) -> tuple[float, ApproximateTradeOff]:
    """Return which (epsilon, delta) that `f` has is nearest to its values at RATES."""
    found = []
    for epsilon in np.linspace(0.1, 1.8, points):
        g = ApproximateTradeOff(epsilon, own_delta=float(f.delta(epsilon)))
        found.append((float(np.abs(values - g(RATES)).max()), g))
    return min(found, key=lambda pair: pair[0])


def training(epochs: int) -> tuple[float, PLDAccountant, list[float]]:
    """Return the limit's mu, the exact accountant, and three epsilons.

    The epsilons are exact, by the limit q sqrt(T (exp(1/sigma^2) - 1)) of T steps
    (Bu, Dong, Long and Su, Theorem 5), and by moments.
    """
    rate, steps = Fraction(BATCH, SIZE), epochs * SIZE // BATCH
    noise = accounting.GaussianEvent(sensitivity=1, sigma=NOISE)
    step = accounting.PoissonSampledEvent(rate, noise)
    exact = PLDAccountant().compose(step, steps)
    mu = float(rate) * math.sqrt(steps * math.expm1(float(NOISE) ** -2))
    moments = RDPAccountant().compose(step, steps).epsilon(1e-5)
    estimate = conversions.gaussian_epsilon(delta=1e-5, sensitivity=mu, sigma=1)
    return mu, exact, [exact.epsilon(1e-5), estimate, moments]


def curves(axis: Any, title: str, functions: dict[str, TradeOffFunction]) -> None:
    """Draw trade-off functions with their names."""
    for name, f in functions.items():
        axis.plot(RATES, f(RATES), label=name)
    axis.set(title=title, xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.set(xlabel="false positives", ylabel="false negatives")


def draw(file: str, ten: np.ndarray, pair: ApproximateTradeOff, sgd: tuple) -> None:
    """Write the eight pictures."""
    figure, axes = picture(4, 2, width=4.3)
    three = {
        "(0.8, 0.05)": ApproximateTradeOff(0.8, own_delta=0.05),
        "Laplace, 1.2": LaplaceTradeOff(1.2),
        "Gaussian, 1": GaussianTradeOff(1),
    }
    curves(axes[0, 0], "what two lines cannot say", three)
    e, delta = 1.0, 0.1
    f = ApproximateTradeOff(e, own_delta=delta)
    curves(axes[0, 1], f"epsilon {e:g}, delta {delta:g}", {"f": f})
    for slope in (math.exp(e), math.exp(-e)):
        line = (1 - delta - slope * RATES) if slope > 1 else slope * (1 - delta - RATES)
        name = f"slope -{slope:.3f}"
        axes[0, 1].plot(RATES, line, "--", linewidth=1, label=name)
    arrow = {"width": 0.3, "headwidth": 4}
    axes[0, 1].annotate("1 - delta", (0, 1 - delta), (0.2, 0.93), arrowprops=arrow)
    gaussian = {f"mu = {mu:g}": GaussianTradeOff(mu) for mu in MUS}
    curves(axes[0, 2], "Gaussian privacy", gaussian)
    for f in gaussian.values():
        axes[0, 2].plot(*[fixed_point(f)] * 2, "ko", markersize=3)
    axes[0, 2].plot(RATES, RATES, color="0.6", linestyle=":", linewidth=1)
    curves(axes[1, 0], "Gaussian, 1, as its lines", {})
    for slope in SLOPES:
        grown = math.exp(slope)
        height = -float(GaussianTradeOff(1).conjugate(-grown))
        axes[1, 0].plot(RATES, height - grown * RATES, "C0", linewidth=0.8)
    axes[1, 0].plot(RATES, GaussianTradeOff(1)(RATES), "k", label="the largest")
    axes[1, 1].plot(RATES, ten, label="ten steps, exact")
    name = f"({float(pair.epsilon):.2f}, {float(pair.own_delta):.3f})"
    drawn = {"Gaussian, 1": GaussianTradeOff(1), name: pair}
    curves(axes[1, 1], "ten of (1/sqrt(10), 0)", drawn)
    groups = {
        f"group of {k}": ApproximateTradeOff(Fraction(2, k)).group(k) for k in (1, 2, 4)
    }
    curves(axes[1, 2], "k of (2/k, 0)", {**groups, "Laplace, 2": LaplaceTradeOff(2)})
    mu, exact = sgd
    axes[0, 3].plot(RATES[::10], exact, linewidth=4, alpha=0.4, label="exact")
    name = f"limit: mu = {mu:.3f}"
    curves(axes[0, 3], "SGD, 15 epochs", {name: GaussianTradeOff(mu)})
    epochs = (1, 2, 4, 8, 15, 30, 60)
    spent = np.array([training(n)[2] for n in epochs])
    for name, epsilons in zip(("exact", "limit", "moments"), spent.T, strict=True):
        axes[1, 3].plot(epochs, epsilons, "--" if name == "limit" else "-", label=name)
    axes[1, 3].set(title="SGD, sigma 1.3, delta 1e-5", xlabel="epochs")
    axes[1, 3].set_ylabel("epsilon (limit: an estimate)")
    for axis in axes.flat:
        axis.legend(fontsize="small", loc="upper right")
    axes[1, 3].legend(fontsize="small", loc="upper left")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Print the figures' values beside those of the paper."""
    chosen = options(__doc__, "fewer candidates for a pair").parse_args(arguments)
    rows = []
    for mu, text, value in ((3, "0.07", 0.0668), (6, "0.001", 0.00135)):
        ours, near = fixed_point(GaussianTradeOff(mu)), around(value, value / 1000)
        what = f"equal error rates, mu = {mu}"
        rows.append(Row(what, text, ours, "the paper rounds", near))
    one = ApproximateTradeOff(1, own_delta=0.1)
    ends = float(one(0)), float(one(1e-3) - one(0)) / 1e-3
    rows.append(Row("(1, 0.1): false negatives at 0", "0.9", ends[0]))
    rows.append(Row("(1, 0.1): slope there, -e", "-2.718", ends[1]))
    ten = ten_compositions()
    values = ten(RATES)
    gap, pair = best_pair(ten, values, 18 if chosen.small else 171)
    why = "in the figure no difference is seen"
    apart = float(np.abs(values - GaussianTradeOff(1)(RATES)).max())
    what, near = "ten steps: distance to mu = 1", around(0.0123, 5e-5)
    rows.append(Row(what, "-", apart, why, near))
    why = "one pair cannot follow a curve"
    rows.append(Row("ten steps: best pair's distance", "-", gap, why, (0.1, 0.16)))
    four = ApproximateTradeOff(Fraction(1, 4)).group(4)
    apart, why = distance(four, LaplaceTradeOff(1)), "the limit is near at k = 4"
    what, near = "four of (1/4, 0): distance to Laplace", around(0.00688, 5e-6)
    rows.append(Row(what, "-", apart, why, near))
    mu, exact, epsilons = training(15)
    rows.append(Row("MNIST, 15 epochs: mu of the limit", "0.23", mu))
    x = RATES[::10]
    trained = exact.trade_off()(x)
    drift = float(np.abs(trained - GaussianTradeOff(mu)(x)).max())
    why = "the limit is an approximation, here too optimistic"
    rows.append(Row("its distance to the exact function", "-", drift, why, (0, 0.001)))
    for name, published, ours, why, error in zip(
        ("limit", "exact", "moments"),
        ("0.8345", "-", "1.34"),
        (epsilons[1], epsilons[0], epsilons[2]),
        (
            "3,515 whole steps; an approximation",
            "above the limit, below the moments",
            "a better conversion; exact needs none",
        ),
        ((0.8340, 0.8350), (0.8644, 0.8645), (0.9, 1.34)),
        strict=True,
    ):
        what = f"epsilon at delta 1e-5, {name}"
        rows.append(Row(what, published, ours, why, error))
    if chosen.plot:
        draw(chosen.plot, values, pair, (mu, trained))
    return tell(rows)


if __name__ == "__main__":
    sys.exit(main())
