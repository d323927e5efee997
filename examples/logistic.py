"""Private logistic regression in few releases: sums of classes first, then gradients.

    python examples/logistic.py [--small] [--plot FILE]

Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk minimization"
(JMLR 2011) perturb the objective, which is private at its exact minimizer only. Here
nothing is exact but integer sums: `LogisticRegression`, whose docstring says why it is
private, releases sums of classes and products, then gradients for two Newton steps.

A gradient is -s(-w u) u, s(t) = 1/(1 + e^-t), u = +-x by the label, within r of
c w/|w|, public functions of |w|. If n is public and a record is replaced, rows are
gradients less that center. `ClippedSum` checks their lengths in integers: r concerns
accuracy only.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from _common import Row, bands, options, picture, tell
from _logistic import Array, best, logistic, loss, records

from fastdp.learning import LogisticRegression
from fastdp.learning._logistic import egg


def fit(u: Array, epsilon: float, relation: str) -> Array:
    """Return the weights of a private fit; each record comes with a sign of its own."""
    model = LogisticRegression(
        classes=[-1, 1],
        bounds=(-1, 1),
        unit="row",
        neighboring_relation=relation,
        epsilon=epsilon,
        data_norm=1,
        fit_intercept=False,
    )
    signs = np.where(np.arange(len(u)) % 2, 1, -1)
    return model.fit(u * signs[:, None], signs).coef_[0]


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
