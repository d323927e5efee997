"""Private logistic regression in few releases: moments first, then gradients.

    python examples/logistic.py [--small] [--plot FILE]

Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk minimization"
(JMLR 2011) perturb the objective, which is private at its exact minimizer only. Here
nothing is exact but integer sums. First the sum of (u/2, x x^T), u = +-x by the label:
by Stein's lemma it gives the weights if x is Gaussian. Then sums of gradients at public
weights, for Newton steps with the Hessian of the first.

Why it is private. |x| <= 1. A first row is at most sqrt(d)/2 + (d + 1)/2 long in L1,
with a 1 before it where n is private. A gradient is -s(-w u) u, s(t) = 1/(1 + e^-t),
within r of c w/|w|, public functions of |w|. If n is public and a record is replaced,
rows are gradients less that center, in L1 at most sqrt(d) r long. `ClippedSum` checks
the lengths in integers: the formula for r concerns accuracy only.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from _common import Row, bands, options, picture, tell
from _logistic import Array, best, gradients, logistic, loss, records

import fastdp
from fastdp.accounting import Relation

LONGEST, SHARES = 8, (0.35, 0.15, 0.5)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def egg(length: float, centered: bool) -> tuple[float, float]:
    """Return c and r: the points s(-w u) u, |u| <= 1, lie within r of c w/|w|."""
    cosine = np.linspace(-1, 1, 401)
    reach = logistic(-length * cosine)
    along, across = reach * cosine, reach * np.sqrt(1 - cosine**2)
    centers = np.linspace(-0.6, 0.2, 161) if centered else np.zeros(1)
    far = np.hypot(along - centers[:, None], across).max(axis=1)
    return float(centers[far.argmin()]), float(far.min())


def first(u: Array, epsilon: float, relation: Relation) -> tuple[float, Array, Array]:
    """Return n and noisy sums of u/2 and x x^T, with eigenvalues above the noise."""
    n, d = u.shape
    i, j = np.triu_indices(d)
    shape = {"dimension": d + len(i), "radius": (math.sqrt(d) + d + 1) / 2}
    shape |= {"constant": None if relation == "replace_one" else 1}
    related = {"neighboring_relation": relation}
    sums = fastdp.ClippedSum.from_epsilon(epsilon, **shape, **related)
    noisy = sums.release(np.column_stack([u / 2, u[:, i] * u[:, j]]))
    if shape["constant"]:
        n, noisy = max(noisy[0], 1), noisy[1:]
    moments = np.zeros((d, d))
    moments[i, j] = moments[j, i] = noisy[d:]
    values, vectors = np.linalg.eigh(moments)
    above = np.maximum(values, 4 * sums.std * math.sqrt(d))
    return n, noisy[:d], (vectors * above) @ vectors.T


def slope(width: float | Array) -> Array:
    """Return the mean of s'(t) for t normal with this standard deviation."""
    s = logistic(np.multiply.outer(width, NODES))
    return (s * (1 - s)) @ WEIGHTS


def start(half: Array, moments: Array, n: float) -> Array:
    """Return weights for which Gaussian x of these moments have these sums."""
    w = np.linalg.solve(moments, half)
    width = math.sqrt(w @ moments @ w / n)
    longer = np.geomspace(4, 16, 100)
    w = w * longer[np.searchsorted(longer * slope(longer * width), 1) - 1]
    return w * min(1, LONGEST / np.linalg.norm(w))


def hessian(w: Array, moments: Array, n: float) -> Array:
    """Return the sum of s'(w x) x x^T for Gaussian x of these moments."""
    width = math.sqrt(w @ moments @ w / n)
    s = logistic(width * NODES)
    bend = ((s * (1 - s)) * (NODES**2 - 1)) @ WEIGHTS / width**2 / n
    return slope(width) * moments + bend * np.outer(moments @ w, moments @ w)


def fit(u: Array, epsilon: float, relation: Relation) -> Array:
    """Return the weights after all releases, each with its share of epsilon."""
    d, replaced = u.shape[1], relation == "replace_one"
    related = {"neighboring_relation": relation}
    n, half, moments = first(u, SHARES[0] * epsilon, relation)
    w = start(half, moments, n)
    for share in SHARES[1:]:
        c, r = egg(float(np.linalg.norm(w)), replaced)
        center = c * w / np.linalg.norm(w)
        shape = {"dimension": d, "radius": math.sqrt(d) * r}
        sums = fastdp.ClippedSum.from_epsilon(share * epsilon, **shape, **related)
        rows = -gradients(w, u) - center
        gradient = sums.release(rows) + (n * center if replaced else 0)
        damping = sums.std * math.sqrt(d) / 2 * np.eye(d)
        step = np.linalg.solve(hessian(w, moments, n) + damping, gradient)
        w = (w + step) * min(1, LONGEST / np.linalg.norm(w + step))
    return w


def draw(file: str, excess: dict[str, dict[float, list[float]]]) -> None:
    """Write the excess loss against epsilon, and the egg of gradients."""
    figure, (left, right) = picture(2)
    bands(left, excess)
    left.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="excess loss")
    left.set(title="five weights, 20,000 records: 10 % to 90 % of runs")
    left.legend(fontsize="small")
    angle = np.linspace(0, 2 * np.pi, 400)
    circle = np.array([np.cos(angle), np.sin(angle)])
    right.plot(*circle, ":", color="0.3", label="bound of any gradient")
    for color, length in (("C0", 0), ("C1", 2), ("C2", 6)):
        c, r = egg(length, True)
        right.plot(*(circle * logistic(-length * circle[0])), color)
        ball = c + r * circle[0], r * circle[1]
        right.plot(*ball, f"{color}--", label=f"|w| = {length}")
    right.set(aspect="equal", title="gradients of all records, w to the right")
    right.legend(fontsize="small", loc="upper right")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Fit with and without noise, and print excess losses."""
    chosen = options(__doc__, "few runs").parse_args(arguments)
    runs = 5 if chosen.small else 20
    grid = (0.1, 0.5, 3.0) if chosen.small else (0.1, 0.3, 1.0, 3.0, 10.0)
    u = records(20_000, 5, 1)
    least = loss(best(u), u)
    nothing = math.log(2) - least
    print(f"excess loss of weights 0 (truth): {nothing:.4f}")
    print(f"{'excess loss, mean':24}", *(f"{e:>9g}" for e in grid))
    excess: dict[str, dict[float, list[float]]] = {}
    for relation in ("add_or_remove_one", "replace_one"):
        excess[relation] = {}
        for e in grid:
            fits = (fit(u, e, relation) for _ in range(runs))
            excess[relation][e] = [loss(w, u) - least for w in fits]
        means = map(np.mean, excess[relation].values())
        print(f"{relation:24}", *(f"{value:9.2g}" for value in means))
    if chosen.plot:
        draw(chosen.plot, excess)
    last = max(excess["replace_one"][grid[-1]])
    zero, center = "weights 0 have ten times the limit", "around the best center"
    return tell(
        [
            Row(
                "radius of gradients, |w| = 2", "1", egg(2, True)[1], center, (0.5, 0.7)
            ),
            Row(
                "largest excess at the last epsilon", "-", last, zero, (0, nothing / 10)
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
