"""Why noise, and how much: four attacks on exact or nearly exact answers.

    python examples/attacks.py [--small] [--plot FILE]

Difference: two published counts, of which the second has one record more. Exhaustive
reconstruction: all subsets counted with error at most E; every database that agrees
differs in at most 4 E records (Dinur and Nissim, PODS 2003). Linear program: 4 n random
subsets are enough, in polynomial time (the same; Dwork, McSherry, Talwar, STOC 2007).
Tracing: d noisy means of n records, and the question whether a person is among them
(Dwork, Smith, Steinke, Ullman, Vadhan, FOCS 2015). Beside each stands what no attack
on the private answers can exceed, whatever it does.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from _common import Row, around, options, picture, tell
from scipy.optimize import linprog

import fastdp
from fastdp import accounting
from fastdp.accounting import readings

ATTACKS = ("program", "squares")

#: Errors of an answer in roots of n; the attacks' shares, means of 50 runs at n = 100.
ERRORS = (0.1, 0.3, 0.5, 1.0, 2.0)
FOUND = (0.996, 1), (0.804, 0.923), (0.686, 0.801), (0.596, 0.666), (0.546, 0.593)
EPSILONS = (1, 3, 10, 30, 100, 300, 1000)  # of all answers together
MEANS_RELEASED = (25, 100, 250, 1000, 2500, 10_000, 25_000)
FALSE_POSITIVES = 0.05


def difference(epsilon: float, people: int) -> tuple[float, float]:
    """Return the share of bits read off two counts, and the ceiling.

    The first count is known exactly, and the second has one person more.
    """
    bits = np.random.default_rng(1).integers(0, 2, people)
    noisy = fastdp.DiscreteLaplace.from_epsilon(epsilon, sensitivity=1).release(bits)
    ceiling = readings.largest_posterior(epsilon=epsilon, prior=0.5)
    return float(((noisy >= 1) == bits).mean()), ceiling


def exhaustive(n: int, error: int) -> int:
    """Return the most records wrong in any database that agrees with all answers.

    The errors are the worst: answers lie halfway to a database that differs from the
    truth in 4 `error` records, half of which it raises.
    """
    every = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.float32)
    truth = np.arange(n) % 2
    other = np.where(np.arange(n) < 4 * error, 1 - truth, truth)
    answers = every @ (truth + other) / 2
    worst = 0
    for part in np.array_split(every, max(1, 2**n // 256)):
        agrees = np.abs(every @ part.T - answers[:, None]).max(axis=0) <= error
        worst = max(worst, int((part[agrees] != truth).sum(axis=1).max(initial=0)))
    return worst


def by_program(subsets: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return the bits, rounded, whose largest error on the answers is least."""
    m, n = subsets.shape
    slack = np.ones((m, 1))
    left = np.block([[subsets, -slack], [-subsets, -slack]])
    goal = np.r_[np.zeros(n), 1.0]
    right, bounds = np.r_[answers, -answers], [(0, 1)] * n + [(0, None)]
    solved = linprog(goal, A_ub=left, b_ub=right, bounds=bounds, method="highs-ds")
    return solved.x[:n] > 0.5


def by_squares(subsets: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return the bits, rounded, whose squared error on the answers is least."""
    return np.linalg.solve(subsets.T @ subsets, subsets.T @ answers) > 0.5


def reconstructed(mechanism: fastdp.Mechanism, n: int, runs: int) -> np.ndarray:
    """Return the mean share of records that program and squares find."""
    rng = np.random.default_rng(3)
    right = []
    for _ in range(runs):
        bits = rng.integers(0, 2, n)
        subsets = rng.integers(0, 2, (4 * n, n))
        answers = np.asarray(mechanism.release(subsets @ bits), dtype=float)
        found = by_program(subsets, answers), by_squares(subsets, answers)
        right.append([(each == bits).mean() for each in found])
    return np.array(right).mean(axis=0)


def ceiling(mechanism: fastdp.DiscreteLaplace, count: int) -> float:
    """Return the largest share that any attack on `count` answers can find."""
    spent = accounting.PLDAccountant().compose(mechanism.event(sensitivity=1), count)
    return min(1.0, (1 + spent.delta(0)) / 2)


def tracing(n: int, d: int, error: float, trials: int) -> tuple[float, float]:
    """Return the power of the inner-product test on d means, and its ceiling.

    Means of n bits each get Gaussian noise of standard deviation `error`.
    """
    rng = np.random.default_rng(4)
    sums_of = fastdp.Gaussian(sigma=error * n, coordinates=d)
    scores = np.zeros((2, trials))
    for t in range(trials):
        p = rng.random(d)
        person, other = rng.random((2, d)) < p
        sums = rng.binomial(n - 1, p) + person
        means = sums_of.release(sums.astype(float)) / n
        scores[:, t] = (means - p) @ (person - p), (means - p) @ (other - p)
    inside, outside = scores
    power = (inside > np.quantile(outside, 1 - FALSE_POSITIVES)).mean()
    event = sums_of.event(sensitivity=accounting.l2_sensitivity(d))
    f = accounting.trade_off_of(event)
    most = readings.largest_power_of_trade_off(f, FALSE_POSITIVES)
    return float(power), float(most)


def draw(file: str, n: int, shares: dict, private: dict, traced: dict) -> None:
    """Write the three pictures."""
    figure, axes = picture(3, width=4.6)
    for axis, found, label in (
        (axes[0], shares, f"error of an answer, in roots of n = {n}"),
        (axes[1], private, "epsilon of all answers together"),
    ):
        x, y = list(found), np.array([found[key][:2] for key in found])
        axis.semilogx(x, y[:, 0], "o-", label="linear program")
        axis.semilogx(x, y[:, 1], "s-", label="least squares")
        axis.axhline(0.5, color="0.5", linestyle=":", linewidth=1)
        axis.axhline(1.0, color="0.5", linestyle=":", linewidth=1)
        axis.set(xlabel=label, ylabel="share of records found", ylim=(0.45, 1.03))
    limits = [private[key][2] for key in private]
    axes[1].semilogx(list(private), limits, "k--", label="no attack finds more")
    x, y = list(traced), np.array([traced[key] for key in traced])
    axes[2].semilogx(x, y[:, 0], "o-", label="inner product")
    axes[2].semilogx(x, y[:, 1], "k--", label="no test has more")
    axes[2].axhline(FALSE_POSITIVES, color="0.5", linestyle=":", linewidth=1)
    axes[2].set(xlabel="number of means over n squared", ylim=(0, 1.03))
    axes[2].set_ylabel(f"power at {FALSE_POSITIVES:.0%} false positives")
    titles = ("reconstruction, by error", "reconstruction, by epsilon", "tracing")
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, fontsize="medium")
        axis.legend(fontsize="small")
    figure.savefig(file)


def near(value: float, trials: int) -> tuple[float, float]:
    """Return where a share of `trials` lies but for 1e-11, if `value` is its mean."""
    return around(value, 3.6 / math.sqrt(trials))


def main(arguments: list[str] | None = None) -> int:
    """Attack, and print what was found beside what is possible."""
    chosen = options(__doc__, "4 runs instead of 50").parse_args(arguments)
    n, sizes = 100, (4, 20_000, 400) if chosen.small else (50, 10**6, 2000)
    runs, people, trials = sizes
    share, most = difference(1.0, people)
    meets = "they meet: no attack on one noisy count does better"
    what, wanted = "difference, epsilon 1: share", f"<= {most:.4f}"
    rows = [Row(what, wanted, share, meets, near(most, people))]
    for error in (0, 1, 2):
        worst, most = exhaustive(10 if chosen.small else 12, error), 4 * error
        what, why = f"all subsets, error {error}: wrong", "attained: chosen errors"
        rows.append(Row(what, f"<= {most}", worst, why, (most, most)))
    shares, private, traced = {}, {}, {}
    for c, means in zip(ERRORS, FOUND, strict=True):
        m = fastdp.DiscreteGaussian(sigma=c * math.sqrt(n))
        shares[c] = reconstructed(m, n, runs)
        for name, found, mean in zip(ATTACKS, shares[c], means, strict=True):
            what, why = (
                f"{name}, error {c:g} roots of n: share",
                "ours of 50 runs: none is published",
            )
            rows.append(Row(what, f"{mean:.3f}", found, why, near(mean, n * runs)))
    for epsilon in EPSILONS[:: 2 if chosen.small else 1]:
        m = fastdp.DiscreteLaplace.from_epsilon(epsilon, sensitivity=4 * n)
        private[epsilon] = (*reconstructed(m, n, runs), most := ceiling(m, 4 * n))
        between = near(0.5, n * runs)[0], near(most, n * runs)[1]
        for name, found in zip(ATTACKS, private[epsilon][:2], strict=True):
            what, why = f"{name}, epsilon {epsilon}: share", "the limit of all attacks"
            rows.append(Row(what, f"<= {most:.3f}", found, why, between))
    for d in MEANS_RELEASED[: 4 if chosen.small else None]:
        power, most = traced[d / 50**2] = tracing(50, d, 0.1, trials)
        what, why = f"tracing, {d} means of 50: power", "the limit of all tests"
        # the threshold is a quantile of as many trials
        between = 0.0, near(most, trials)[1] + 3.6 / math.sqrt(trials)
        rows.append(Row(what, f"<= {most:.3f}", power, why, between))
    if chosen.plot:
        draw(chosen.plot, n, shares, private, traced)
    return tell(rows)


if __name__ == "__main__":
    sys.exit(main())
