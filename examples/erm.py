"""One convex loss minimized privately in five ways, beside the minimizer.

    python examples/erm.py [--small] [--plot FILE]

Bassily, Smith, Thakurta, "Private empirical risk minimization" (FOCS 2014) for a, d;
Chaudhuri, Monteleoni, Sarwate (JMLR 2011) for b, c; Feldman, Mironov, Talwar, Thakurta,
"Privacy amplification by iteration" (FOCS 2018) and Altschuler, Talwar (2022) for e.
The loss is log(1 + exp(-w u)) with |u| <= 1 and |w| <= R: gradients have |.| <= G = 1.

- a) Exponential mechanism over a public grid. Each record's losses are clamped into an
  interval of length R and summed as integers, so that one replaced moves a score by R.
  (A loss with gradients up to G has a range of 2 G R on that ball, not G R.)
- b) Output perturbation. With the term L |w|^2/2 a gradient step of size h = 2/(b + 2
  L), b = 1/4, contracts distances by 1 - h L; a replaced record adds 2 G h/n. Iterates
  are at most 2 G/(n L) apart after any number of steps fixed beforehand: nothing need
  converge. What floats may add is charged.
- c) Objective perturbation. Private at the exact minimizer only: not for use.
- d) DP-SGD. Clipped sums of Poisson batches, and the mean of the iterates.
- e) Noisy SGD of which the last iterate alone is shown. A theorem on real numbers,
  which floats void; the cost beside that of showing all iterates is the point.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
from _common import Row, options, picture, tell
from _logistic import Array, best, gradients, loss, products, records

import fastdp
from fastdp import accounting
from fastdp.accounting import amplification, calculators

N, R, DELTA, STEPS, RIDGE = 10_000, 4, 1e-6, 100, 0.005
BATCH, SETTING = 500, {"step_size": 8, "lipschitz": 1, "smoothness": 0.25}
SETTING["diameter"] = 2 * R
REPLACED = {"neighboring_relation": "replace_one"}


def inside(w: Array) -> Array:
    """Return the nearest point of the ball of radius R."""
    return w * min(1, R / max(float(np.hypot(*w)), 1e-300))


def scores_of(u: Array, models: Array) -> tuple[Array, int]:
    """Return integer scores of public models, and how far a record moves one."""
    low, high = (math.floor(2**20 * math.log1p(math.exp(s * R))) for s in (-1, 1))
    scores = np.zeros(len(models), np.int64)
    for k, w in enumerate(models):
        losses = np.rint(2**20 * np.logaddexp(0, -products(u, w))).astype(np.int64)
        scores[k] = -np.clip(losses, low, high).sum()
    return scores, high - low


def output(u: Array, epsilon: float) -> Array:
    """Return gradient steps with noise at the end, (epsilon, DELTA)."""
    w = np.zeros(2)
    for _ in range(STEPS):
        w = w - 2 / (0.25 + 2 * RIDGE) * (gradients(w, u).mean(0) + RIDGE * w)
    floats = 2 * (len(u) + 100) * 2.0**-52 / RIDGE  # of both runs, each step's error
    moves = {"sensitivity": 2 / (len(u) * RIDGE) + floats, "coordinates": 2}
    target = {"epsilon": epsilon, "delta": DELTA}
    noise = fastdp.Gaussian.from_epsilon_delta(**target, **moves, **REPLACED)
    return inside(noise.release(w))


def objective(u: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Return the minimizer of a noisy objective: not private in floats."""
    ridge, n = RIDGE, len(u)
    left = epsilon - math.log(1 + 0.5 / (n * ridge) + 0.0625 / (n * ridge) ** 2)
    if left <= 0:
        ridge, left = 0.25 / (n * math.expm1(epsilon / 4)), epsilon / 2
    angle, length = rng.uniform(0, 2 * np.pi), rng.gamma(2, 2 / left)
    return best(u, ridge, length * np.array([np.cos(angle), np.sin(angle)]) / n)


def clipped(sigma: float) -> tuple[fastdp.ClippedSum, float]:
    """Return the sum of a batch, and the epsilon of all steps with its exact noise."""
    total = fastdp.ClippedSum(sigma=sigma, radius=1, dimension=2, norm=2)
    step = accounting.PoissonSampledEvent(Fraction(BATCH, N), total.event())
    return total, accounting.PLDAccountant().compose(step, STEPS).epsilon(DELTA)


def gradient(u: Array, total: fastdp.ClippedSum) -> Array:
    """Return the mean iterate of DP-SGD by exact sums."""
    w, path = np.zeros(2), []
    for _ in range(STEPS):
        rows = fastdp.random.bernoulli(Fraction(BATCH, N), size=N)
        w = inside(w - 8 * total.release(gradients(w, u[rows])) / BATCH)
        path.append(w)
    return np.mean(path[STEPS // 4 :], axis=0)


def last(u: Array, sigma: float, rng: np.random.Generator) -> Array:
    """Return the last iterate of noisy SGD: a theorem on reals, run in floats."""
    w = np.zeros(2)
    for _ in range(STEPS):
        batch = u[fastdp.random.permutation(N)[:BATCH]]
        w = inside(w - 8 * (gradients(w, batch).mean(0) + sigma * rng.normal(size=2)))
    return w


def last_event(sigma: float, steps: int = STEPS) -> accounting.Event:
    """Return what the last iterate costs."""
    schedule = {"steps": steps, "records": N, "batch": BATCH, "last_iterate_only": True}
    return amplification.noisy_minibatch_sgd(sigma=sigma, **schedule, **SETTING)


def last_sigma(epsilon: float) -> float:
    """Return the noise on mean gradients with which the last iterate costs epsilon."""
    target = {"epsilon": epsilon, "delta": DELTA, "low": 1e-3, "high": 10}
    target |= {"accountant": accounting.RDPAccountant}
    return accounting.calibrate(last_event, **target)


def published() -> float:
    """Return the epsilon of a) at epsilon 1 for Delta = G R = 1, ten losses +-w."""
    # The density is exp(-s w/2) on |w| <= 1 for s the sum of the signs: 10, then 8.
    log_mass = [math.log(4 * math.sinh(s / 2) / s) for s in (10, 8)]
    return 1 + log_mass[0] - log_mass[1]


def draw(file: str, excess: dict[str, dict[float, list[float]]], flat: float) -> None:
    """Write excess losses against epsilon, and the cost of the last iterate."""
    figure, (left, right) = picture(2)
    for name, by_epsilon in excess.items():
        middle = np.mean(list(by_epsilon.values()), axis=1)
        left.plot(list(by_epsilon), middle, "o-", label=name)
    left.axhline(flat, color="0.3", linewidth=0.8, label="w = 0")
    left.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="excess loss, mean")
    left.set(title=f"two weights, {N:,} records")
    left.legend(fontsize="small", loc="lower left")
    counts = [10**k for k in range(1, 7)]
    schedule = {"batch": BATCH, "sigma": 0.02 * BATCH, "sampling": "fixed"}
    plans = (calculators.dp_sgd(N, steps=t, delta=DELTA, **schedule) for t in counts)
    right.plot(counts, [plan.epsilon for plan in plans], "o-", label="all iterates")
    ends = (accounting.RDPAccountant().compose(last_event(0.02, t)) for t in counts)
    costs = [end.epsilon(DELTA) for end in ends]
    right.plot(counts, costs, "o-", label="the last iterate")
    right.set(xscale="log", yscale="log", xlabel="steps", ylabel="epsilon")
    right.set(title="e) noisy SGD: what is shown")
    right.legend(fontsize="small")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Minimize in five ways, and print excess losses."""
    chosen = options(__doc__, "two epsilons, few runs").parse_args(arguments)
    runs = 3 if chosen.small else 20
    grid = (0.1, 1.0) if chosen.small else (0.03, 0.1, 0.3, 1.0, 3.0)
    u, rng = records(N, 2, 3, 3.0), np.random.default_rng()
    axis = np.linspace(-R, R, 33)
    models = np.array([(a, b) for a in axis for b in axis if a * a + b * b <= R * R])
    scores, moved = scores_of(u, models)
    least = loss(best(u, 0), u)
    excess: dict[str, dict[float, list[float]]] = {}
    for epsilon in grid:
        choice = fastdp.ExponentialMechanism(epsilon, sensitivity=moved, **REPLACED)
        schedule = {"batch": BATCH, "steps": STEPS, "sampling": "poisson"}
        plan = calculators.dp_sgd(N, epsilon=epsilon, delta=DELTA, **schedule)
        sigma = last_sigma(epsilon)
        total, spent = clipped(plan.sigma)
        ways = {
            "a) exponential": lambda c=choice: models[c.select(scores)],
            "b) output": lambda e=epsilon: output(u, e),
            "c) objective": lambda e=epsilon: objective(u, e, rng),
            "d) DP-SGD": lambda t=total: gradient(u, t),
            "e) last iterate": lambda s=sigma: last(u, s, rng),
        }
        for name, way in ways.items():
            found = [loss(way(), u) - least for _ in range(runs)]
            excess.setdefault(name, {})[epsilon] = found
    print(f"excess loss of w = 0 (truth): {(flat := math.log(2) - least):.4f}")
    print(f"{'excess loss, mean':18}", *(f"{e:>9g}" for e in grid))
    for name, by_epsilon in excess.items():
        print(f"{name:18}", *(f"{np.mean(v):9.2g}" for v in by_epsilon.values()))
    print(
        "a, c: pure epsilon; b, d, e: with delta 1e-6. d: a record added; else replaced"
    )
    if chosen.plot:
        draw(chosen.plot, excess, flat)
    size = {"models": len(models), "records": N, "loss_range": R}
    plan = calculators.exponential_mechanism_erm(epsilon=1, failure=1e-11, **size)
    worst = max(excess["a) exponential"][1.0])
    rule = "losses have a range of 2 G R: Delta = G R is up to 2 epsilon private"
    bound = "a bound that fails with probability 1e-11, and the grid's step"
    row = Row("epsilon of a) if Delta = G R", "1", published(), rule, (1.776, 1.778))
    most = plan.excess_loss + 0.02
    asked = 0.99 * grid[-1], grid[-1]
    sgd = Row("d) epsilon of the exact noise", "-", spent, f"{grid[-1]:g} asked", asked)
    return tell([row, sgd, Row("a) excess", f"{most:.3f}", worst, bound, (0, most))])


if __name__ == "__main__":
    sys.exit(main())
