"""What relaxations of pure privacy let out, and what they buy: tails and histograms.

    python examples/relaxations.py [--small] [--plot FILE]

Tails of the privacy loss that pure, concentrated (Bun and Steinke, TCC 2016), truncated
concentrated (Bun, Dwork, Rothblum, Steinke, STOC 2018) and Renyi privacy at one order
(Mironov, CSF 2017) allow. Largest error of a histogram of k cells with the noise that
goes with each, all at the same (epsilon, delta): Laplace, Gaussian, sinh-normal
(A arsinh(Z/A), the second of these papers) and truncated Laplace. The sinh-normal law
is no mechanism of fastdp: here it is a table on the integers, with its exact delta.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from _common import Row, around, options, picture, tell
from scipy.special import ndtr, ndtri

import fastdp
from fastdp import accounting, distributions

EPSILON, DELTA = 1.0, 1e-6
RHO, OMEGA = 0.1, 5.0  # of the tails
CELLS = tuple(10**i for i in range(1, 7))
SHAPE = 40  # A of the sinh-normal law at (EPSILON, DELTA)


def tail(loss: float, orders: np.ndarray) -> float:
    """Return the best of exp((a - 1)(a RHO - loss)), Markov's bound, over orders a."""
    return float(np.exp((orders - 1) * (RHO * orders - loss)).min(initial=1.0))


def tails(loss: float) -> dict[str, float]:
    """Return the tail at a loss under each notion, and of one Gaussian answer."""
    return {
        "Renyi, order 5": tail(loss, np.array([OMEGA])),
        "tCDP, omega 5": tail(loss, np.linspace(1, OMEGA, 2001)),
        "zCDP": tail(loss, np.linspace(1, 60, 20_001)),
        "a Gaussian answer": float(ndtr((RHO - loss) / math.sqrt(2 * RHO))),
        "pure": float(loss <= math.sqrt(2 * RHO)),
    }


def sinh_table(sigma: float, shape: float, reach: int = 400) -> np.ndarray:
    """Return P(round(A arsinh(N/A)) = x) for |x| <= reach, N normal."""
    edges = (np.arange(-reach, reach + 1) + 0.5).clip(-600 * shape, 600 * shape)
    upper = shape * np.sinh(np.minimum(edges / shape, 600)) / sigma
    upper[-1] = np.inf
    lower = np.r_[-np.inf, upper[:-1]]
    mirrored = lower > 0  # differences of small tails, not of numbers near 1
    a, b = np.where(mirrored, -upper, lower), np.where(mirrored, -lower, upper)
    return ndtr(b) - ndtr(a)


def delta_of(table: np.ndarray, epsilon: float) -> float:
    """Return the exact delta of a law on the integers for a shift by one."""
    p, q = np.r_[table, 0.0], np.r_[0.0, table]
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def sinh_sigma() -> float:
    """Return the least sigma with (EPSILON, DELTA) at A = SHAPE."""
    low, high = 1.0, 10.0
    for _ in range(45):
        middle = (low + high) / 2
        wide = delta_of(sinh_table(middle, SHAPE), EPSILON) > DELTA
        low, high = (middle, high) if wide else (low, middle)
    return high


def event_of(table: np.ndarray, interval: float) -> accounting.PrivacyLossEvent:
    """Return the law of the loss for a shift by one, rounded up to a grid."""
    kept = table > 1e-290
    p, q = np.r_[table[kept], 0.0], np.r_[0.0, table[kept]]
    both = (p > 0) & (q > 0)
    place = np.ceil(np.log(p[both] / q[both]) / interval).astype(int)
    masses: dict[int, float] = {}
    for i, mass in zip(place.tolist(), p[both].tolist(), strict=True):
        masses[i] = masses.get(i, 0.0) + mass
    left = float(p[q == 0].sum()) + 1e-15
    form = {"interval": interval, "infinity_mass": left}
    one = accounting.privacy_loss_from_pmf(masses, **form)
    return accounting.privacy_loss_from_pmf(masses, **form, addition=one)  # symmetric


def divergence_ratio(shape: float, rho: float) -> float:
    """Return the largest D_a/(a rho) of the continuous law, a up to A/8."""
    sigma = 1 / math.sqrt(2 * rho)
    x = np.linspace(-9 * shape, 9 * shape, 60_001)

    def log_density(y: np.ndarray) -> np.ndarray:
        z = shape * np.sinh(y / shape) / sigma
        rest = np.log(np.cosh(y / shape) / sigma) - 0.5 * math.log(2 * math.pi)
        return -z * z / 2 + rest

    f, g, step = log_density(x), log_density(x - 1), x[1] - x[0]
    found = []
    for a in 1 + (shape / 8 - 1) * np.linspace(0.02, 1, 25):
        moment = float(np.exp(a * f + (1 - a) * g).sum() * step)
        found.append(math.log(moment) / (a - 1) / (a * rho))
    return max(found)


def largest(law: distributions.DiscreteLaplace, k: int, level: float = 0.5) -> float:
    """Return a quantile of the largest error of k cells."""
    return float(law.isf(-math.expm1(math.log(level) / k) / 2))


def largest_sinh(sigma: float, shape: float, k: int) -> float:
    """Return the median of the largest error of k cells; infinite A is Gaussian."""
    z = -ndtri(-math.expm1(math.log(0.5) / k) / 2) * sigma
    return float(shape * math.asinh(z / shape)) if shape < math.inf else float(z)


def draw(file: str, errors: dict[str, list[float]]) -> None:
    """Write the three pictures."""
    figure, axes = picture(3, width=4.6)
    losses = np.linspace(0, 4, 161)
    drawn = [tails(float(t)) for t in losses]
    for name in drawn[0]:
        style = "k--" if name == "a Gaussian answer" else "-"
        axes[0].semilogy(losses, [each[name] for each in drawn], style, label=name)
    axes[0].set(xlabel="privacy loss", ylabel="largest probability of more")
    axes[0].set(title=f"tails at rho {RHO:g}", ylim=(1e-12, 2))
    for name, values in errors.items():
        axes[1].semilogx(CELLS, values, "o-", label=name)
    axes[1].set(title=f"epsilon {EPSILON:g}, delta {DELTA:g}")
    for shape in (math.inf, 100, 20, 10):
        values = [largest_sinh(math.sqrt(50), shape, k) for k in CELLS]
        name = f"A = {shape}" if shape < math.inf else "Gaussian"
        axes[2].semilogx(CELLS, values, "o-", label=name)
    axes[2].set(title="sinh-normal, sigma of rho 0.01, orders to A/8")
    for axis in axes:
        axis.legend(fontsize="small")
    for axis in axes[1:]:
        axis.set(xlabel="cells", ylabel="median of the largest error", ylim=(0, None))
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Print tails and errors beside the formulas."""
    chosen = options(__doc__, "histograms of 10,000 cells").parse_args(arguments)
    laplace = fastdp.DiscreteLaplace.from_epsilon(EPSILON, sensitivity=1)
    both = {"epsilon": EPSILON, "delta": DELTA, "sensitivity": 1}
    cut = fastdp.TruncatedLaplace.from_epsilon_delta(**both)
    gaussian = fastdp.DiscreteGaussian.from_epsilon_delta(**both)
    truncated = distributions.TruncatedDiscreteLaplace(cut.scale, bound=cut.bound)
    laws = {
        "Laplace": (laplace, distributions.DiscreteLaplace(laplace.scale)),
        "truncated Laplace": (cut, truncated),
        "Gaussian": (gaussian, distributions.DiscreteGaussian(gaussian.sigma)),
    }
    errors = {name: [largest(law, k) for k in CELLS] for name, (_, law) in laws.items()}
    sigma = sinh_sigma()
    medians = [round(largest_sinh(sigma, SHAPE, k)) for k in CELLS]
    errors[f"sinh-normal, A = {SHAPE}"] = medians
    rows = []
    why = "Markov over the orders, in closed form"
    zcdp = math.exp(-((1 - RHO) ** 2) / (4 * RHO))
    for name, exact in (("zCDP", zcdp), ("tCDP, omega 5", math.exp(-2))):
        rows.append(Row(f"P(loss > 1), {name}", f"{exact:.4f}", tails(1)[name], why))
    n = 10_000 if chosen.small else 1_000_000
    for name, (mechanism, law) in laws.items():
        seen = int(np.abs(mechanism.release(np.zeros(n, dtype=np.int64))).max())
        ends = largest(law, n, 1e-10), largest(law, n, 1 - 1e-10)
        what, why = f"{name}: largest of {n} errors", "one run beside the median"
        rows.append(Row(what, f"{largest(law, n):g}", seen, why, ends))
    root = math.sqrt(2 * math.log(CELLS[-1]))
    formulas = (
        (math.log(CELLS[-1]), "ln k/epsilon"),
        (math.log(1 / DELTA), "ln(1/delta)/epsilon"),
        (float(gaussian.sigma) * root, "sigma sqrt(2 ln k)"),
        (SHAPE * math.asinh(sigma * root / SHAPE), "no gain at equal delta"),
    )
    for (name, values), (formula, why) in zip(errors.items(), formulas, strict=True):
        what = f"{name}: median of the largest of 10^6"
        rows.append(Row(what, f"{formula:.2f}", values[-1], why, around(formula, 2)))
    for shape, ratio in ((10, "1.64"), (20, "1.15"), (100, "1.02")):
        why = "the quoted constants are loose; quadrature, rho = 0.01"
        what, found = f"sinh-normal, A = {shape}: rho spent over rho", float(ratio)
        ours = divergence_ratio(shape, 0.01)
        rows.append(Row(what, "16", ours, why, around(found, 0.005)))
    event = event_of(sinh_table(sigma, SHAPE), 1e-5)
    delta = accounting.PLDAccountant().compose(event).delta(EPSILON)
    why, between = "losses are rounded up to a grid", (DELTA, 1.01 * DELTA)
    rows.append(Row("sinh-normal: delta as an event", "1e-6", delta, why, between))
    if chosen.plot:
        draw(chosen.plot, errors)
    return tell(rows)


if __name__ == "__main__":
    sys.exit(main())
