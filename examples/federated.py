"""Federated averaging: clipped updates summed centrally, or made private by clients.

    python examples/federated.py [--small] [--plot FILE]

McMahan, Ramage, Talwar, Zhang, "Learning differentially private recurrent language
models" (ICLR 2018) for the central form; Duchi, Jordan, Wainwright, "Minimax optimal
procedures for locally private estimation" (JASA 2018) for updates from users;
Bernstein, Wang, Azizzadenesheli, Anandkumar, "signSGD" (ICML 2018) for signs.

The unit is a client with all its records. Each starts from the server's weights, takes
steps on its own records and sends how far it came: a vector without a bound of its own,
for which no noise is enough.

Central. `ClippedSum` bounds each client's update in integers; clients are drawn by
secret coins in each round, and the noise is that of `dp_sgd`. An update is computed by
a client's own numbers, so that nothing else in the sum moves with it.

Local, each client in one round only. `VectorResponse`: the whole update, as the number
of one of 256 public directions that are drawn anew for each client. `LocalMean`: one
coordinate of the update, drawn without a look at it. Both pure epsilon. Signs: one bit
for each of d coordinates, each with epsilon/d. The k largest coordinates would be sent
for less, but which they are is data too: their places alone tell clients apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from _common import Row, options, picture, tell
from _logistic import Array, best, logistic, loss, records

import fastdp
from fastdp import accounting
from fastdp.accounting import calculators

DIMENSION, EACH, ROUNDS, CLIP, DELTA = 8, 5, 20, 1.0, 1e-6
WHY = (
    "0.5 is one bit's: a client's bits add up",
    "clip first, or the noise has no sensitivity to go by",
    "noise on the values hides none of these choices",
)
Update = Callable[[Array, int], Array]


def updates(u: Array, w: Array) -> Array:
    """Return how far clients come in five steps, shape (clients, d); u: their records.

    Client by client in the order of their own numbers: no matrix products, no sums
    whose order depends on how many clients there are.
    """
    moved = np.zeros((len(u), DIMENSION)) + w
    for _ in range(5):
        step = np.zeros_like(moved)
        for k in range(u.shape[1]):
            margin = np.zeros(len(u))
            for j in range(DIMENSION):
                margin += u[:, k, j] * moved[:, j]
            step += logistic(-margin)[:, None] * u[:, k]
        moved = moved + 4 * step / u.shape[1]
    return moved - w


def rounds(update: Update) -> list[Array]:
    """Return the server's weights after each round."""
    path = [np.zeros(DIMENSION)]
    for t in range(ROUNDS):
        path.append(path[-1] + update(path[-1], t))
    return path[1:]


def central(u: Array, epsilon: float) -> tuple[Update, float]:
    """Return the update of clients drawn at random, and the epsilon of all rounds."""
    batch = len(u) // 10
    schedule = {"batch": batch, "steps": ROUNDS, "sampling": "poisson"}
    plan = calculators.dp_sgd(len(u), epsilon=epsilon, delta=DELTA, **schedule)
    shape = {"radius": CLIP, "dimension": DIMENSION, "norm": 2}
    total = fastdp.ClippedSum(sigma=plan.sigma * CLIP, **shape)
    rate = Fraction(batch, len(u))
    one = accounting.PoissonSampledEvent(rate, total.event())
    spent = accounting.PLDAccountant().compose(one, ROUNDS).epsilon(DELTA)

    def update(w: Array, _: int) -> Array:
        drawn = u[fastdp.random.bernoulli(rate, size=len(u))]
        return total.release(updates(drawn, w)) / batch

    return update, spent


def direction(u: Array, epsilon: float) -> Update:
    """Return the update of a group of clients that report a direction near theirs."""
    local = fastdp.VectorResponse.from_epsilon(epsilon, dimension=DIMENSION)

    def update(w: Array, t: int) -> Array:
        reports = local.release(updates(u[t::ROUNDS], w) / CLIP)
        return CLIP * local.estimate(reports).mean

    return update


def one_number(u: Array, epsilon: float) -> Update:
    """Return the update of a group of clients that report one coordinate each."""
    bounds = (-CLIP / 2, CLIP / 2)
    local = fastdp.LocalMean.from_epsilon(epsilon, bounds=bounds, dimension=DIMENSION)

    def update(w: Array, t: int) -> Array:
        reports = local.release(updates(u[t::ROUNDS], w))
        return np.asarray(local.estimate(reports).mean)

    return update


def signs(u: Array, epsilon: float) -> Update:
    """Return the update of a group that reports the signs of all coordinates."""
    local = fastdp.RandomizedResponse.from_epsilon(epsilon / DIMENSION, categories=2)

    def update(w: Array, t: int) -> Array:
        reports = local.release(updates(u[t::ROUNDS], w) > 0)
        p = float(local.p)
        share = (reports.mean(axis=0) - 1 + p) / (2 * p - 1)
        return 0.5 * (2 * np.clip(share, 0, 1) - 1)

    return update


def draw(file: str, excess: dict[str, list[float]]) -> None:
    """Write the excess loss after each round."""
    figure, axes = picture()
    for name, values in excess.items():
        axes.plot(np.arange(1, ROUNDS + 1), values, "o-", markersize=3, label=name)
    axes.set(yscale="log", xlabel="round", ylabel="excess loss")
    axes.set_title(f"{DIMENSION} weights, {EACH} records a client", fontsize="medium")
    axes.legend(fontsize="small")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Train in five ways, and print excess losses beside what was spent."""
    chosen = options(__doc__, "5,000 clients").parse_args(arguments)
    clients = 5_000 if chosen.small else 40_000
    rows = records(clients * EACH, DIMENSION, 6)
    u = rows.reshape(clients, EACH, DIMENSION)
    least = loss(best(rows), rows)
    summed, spent = central(u, 1.0)
    first = updates(u, np.zeros(DIMENSION))
    ways: dict[str, Update] = {
        "no privacy (truth)": lambda w, t: updates(u, w).mean(axis=0),
        f"central, (1, {DELTA:g})": summed,
        "local, a direction, 4": direction(u, 4.0),
        "local, a coordinate, 4": one_number(u, 4.0),
        "local, signs, 4 in all": signs(u, 4.0),
    }
    paths = {name: rounds(update) for name, update in ways.items()}
    excess = {name: [loss(w, rows) - least for w in p] for name, p in paths.items()}
    nothing = float(np.log(2)) - least
    print(f"{clients:,} clients; excess loss of weights 0: {nothing:.4f}")
    print(f"{'excess loss after round':24} {1:>9} {ROUNDS // 2:>9} {ROUNDS:>9}")
    for name, values in excess.items():
        shown = (values[t - 1] for t in (1, ROUNDS // 2, ROUNDS))
        print(f"{name:24}", *(f"{value:9.4f}" for value in shown))
    if chosen.plot:
        draw(chosen.plot, excess)
    longest = float(np.linalg.norm(first, axis=1).max())
    bits = fastdp.RandomizedResponse.from_epsilon(0.5, categories=2)
    all_bits = accounting.PureAccountant().compose(bits, DIMENSION).epsilon(0)
    places = np.argsort(-np.abs(first), axis=1)[:, :2]
    supports = len({tuple(sorted(p)) for p in places.tolist()})
    last = excess[f"central, (1, {DELTA:g})"][-1]
    return tell(
        [
            Row("central: epsilon", "1 asked", spent, "rounded", (0.99, 1)),
            Row(
                "central: excess loss",
                "-",
                last,
                "beside weights 0, at most half",
                (0, nothing / 2),
            ),
            Row("epsilon of 8 sign bits of 0.5", "0.5", all_bits, WHY[0], (3.9, 4)),
            Row("longest update before clipping", "-", longest, WHY[1], (CLIP, 99)),
            Row("supports of the 2 largest of 8", "-", supports, WHY[2], (15, 28)),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
