"""Labels from the votes of private teachers: answered, right, and what they cost.

    python examples/pate.py [--small] [--plot FILE]

Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson, "Scalable private learning
with PATE" (ICLR 2018). `fastdp.learning.PATE` deals private records to teachers, labels
a public pool by their noisy votes, and trains a student on it. "Confident" tests the
largest counts first, and answers as often as was planned.

Votes that agree cost less, but how much less depends on the votes: that number is
private ("given votes"). `PATEDivergence` releases an estimate of it with noise of its
own, whose cost is added ("released"). Both are about real-valued noise of the same
width, as `fastdp.noisy_argmax` adds it; the labels here have integer noise.
"""

from __future__ import annotations

import sys

import numpy as np
from _common import Row, options, picture, tell

from fastdp import DiscreteGaussian, accounting
from fastdp.accounting import Event, calculators
from fastdp.learning import PATE
from fastdp.mechanisms.pate import PATEDivergence

TEACHERS, RECORDS, LABELS, DIMENSION, APART = 250, 40, 10, 16, 3.4
SIGMA, THRESHOLD, TEST_SIGMA, DELTA = 40, 200, 150, 1e-5
ORDERS = (5, 8, 12, 16, 20, 30)
ORDER = 12  # of the release with noise of its own: chosen beforehand
R = "replace_one"
PLANNED = 0.45  # of the queries are answered if confident
Array = np.ndarray

PLACE = {"neighboring_relation": R, "assignment": "place"}
LABEL = calculators.pate("gaussian", SIGMA, **PLACE)
TEST = DiscreteGaussian(TEST_SIGMA, sensitivity=1, neighboring_relation=R).event()


class Law:
    """Ten classes of normal records around far points, from a stated seed."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(17)
        means = self._rng.normal(size=(LABELS, DIMENSION))
        self.means = APART * means / np.linalg.norm(means, axis=1, keepdims=True)

    def draw(self, n: int) -> tuple[Array, Array]:
        """Return n records and their labels."""
        label = self._rng.integers(0, LABELS, n)
        return self.means[label] + self._rng.normal(size=(n, DIMENSION)), label


class Centers:
    """A classifier by the nearest mean of the records of each class."""

    def fit(self, x: Array, label: Array) -> None:
        """Keep the mean record of each label; that of none is far away."""
        self.means = np.full((LABELS, DIMENSION), 1e3)
        for k in np.unique(label):
            self.means[k] = x[label == k].mean(axis=0)

    def predict(self, x: Array) -> Array:
        """Return the label of the nearest mean."""
        return nearest(x, self.means)


def nearest(x: Array, means: Array) -> Array:
    """Return the label of the nearest mean."""
    return (np.square(means).sum(axis=1) - 2 * x @ means.T).argmin(axis=1)


#: The paper's run on MNIST: 640 tests, and 286 answers.
PAPER: list[tuple[Event, int]] = [(TEST, 640), (LABEL, 286)]


def epsilon(charged: list[tuple[Event, int]]) -> float:
    """Return epsilon of events by how often they come, whatever the votes are."""
    accountant = accounting.PLDAccountant()
    for event, count in charged:
        accountant.compose(event, count=count)
    return accountant.epsilon(DELTA)


def model(pool: Array, *, confident: bool) -> PATE:
    """Return the estimator with noise as in the paper, by the rho that it costs."""
    known = {"classes": range(LABELS), "unit": "row", "neighboring_relation": R}
    n = len(pool)
    rho = n / SIGMA**2
    if confident:
        known |= {"answers": int(PLANNED * n), "threshold": THRESHOLD}
        rho = PLANNED * n / SIGMA**2 + n / (2 * TEST_SIGMA**2)
    return PATE(Centers(), teachers=TEACHERS, pool=pool, rho=rho, **known)


def after_votes(
    votes: Array, tests: list[Event], release: PATEDivergence | None
) -> float:
    """Return epsilon given the votes, or by a release of it with noise."""
    found = []
    for order in ORDERS if release is None else (ORDER,):
        if release is None:
            cost = calculators.data_dependent_pate_smooth_sensitivity(
                votes, sigma=SIGMA, order=order, smoothness=0.1 / order
            )
            divergence = cost.divergence
        else:
            divergence = max(release.release(votes), 0.0) + release.divergence()
        stated = {"orders": (order,), "epsilons": (divergence,)}
        event = accounting.RDPEvent(**stated, neighboring_relation=R)
        accountant = accounting.RDPAccountant().compose(event)
        for test in tests:
            accountant.compose(test)
        found.append(accountant.epsilon(DELTA))
    return min(found)


def main(arguments: list[str] | None = None) -> int:
    """Label a pool in two ways and print what was answered, right, and paid."""
    chosen = options(__doc__, "one number of queries").parse_args(arguments)
    law = Law()
    asked = (640,) if chosen.small else (160, 320, 640, 1280)
    x, y = law.draw(TEACHERS * RECORDS)
    pool, truth = law.draw(max(asked))
    test, wanted = law.draw(5000)
    counts = model(pool, confident=False).votes(x, y)
    agreement = counts.max(axis=1).mean() / TEACHERS
    print(f"{TEACHERS} teachers; {agreement:.0%} of the votes are for the winner")
    heads = ("answered", "right", "student", "epsilon", "given votes", "released")
    print(f"{'way, queries asked':20}", *(f"{head:>11}" for head in heads))
    shown: dict[str, list[tuple[float, float]]] = {}
    last = {}
    release = PATEDivergence(sigma=SIGMA, order=ORDER, smoothness=0.02, scale=6)
    for n in asked:
        for name in ("plain", "confident"):
            pate = model(pool[:n], confident=name == "confident").fit(x, y)
            event = pate.event()
            tests = [] if name == "plain" else [event.events[0]]
            votes = counts[pate.answered_]
            right = float((pate.labels_ == truth[pate.answered_]).mean())
            accuracy = pate.score(test, wanted)
            costs = [epsilon([(event, 1)])]
            costs += [after_votes(votes, tests, how) for how in (None, release)]
            figures = (str(len(pate.labels_)), f"{right:.3f}", f"{accuracy:.3f}")
            figures += tuple(f"{cost:.2f}" for cost in costs)
            print(f"{f'{name}, {n}':20}", *(f"{text:>11}" for text in figures))
            shown.setdefault(name, []).append((costs[0], accuracy))
            last[name] = (right, accuracy, *costs)
    if chosen.plot:
        figure, axes = picture()
        for name, points in shown.items():
            axes.plot(*zip(*points, strict=True), "o-", label=name)
        axes.set(xlabel="epsilon, whatever the votes", ylabel="student's accuracy")
        best = float((nearest(test, law.means) == wanted).mean())
        axes.axhline(best, color="0.6", ls="--", label="true means")
        axes.legend(fontsize="small")
        figure.savefig(chosen.plot)
    laplace = calculators.pate("laplace", 20, **PLACE)
    votes_only = "theirs depends on the votes of MNIST's teachers; ours on none"
    right, accuracy, whatever, given, _ = last["confident"]
    whole = last["plain"][0]
    clear = "clear votes are right more often; these are drawn data"
    save = "private: to be released with noise, or not at all"
    two = "sqrt(2); with Laplace noise of scale s it is 2/s a query"
    rows = (
        ("286 of 640 answered", "1.97", epsilon(PAPER), votes_only, (2.54, 2.55)),
        ("100 of 100", "2.04", epsilon([(laplace, 100)]), votes_only, (4.2, 4.23)),
        ("right, plain", "-", whole, "drawn data", (0.75, 1)),
        ("more right if confident", "-", right - whole, clear, (-0.15, 0.25)),
        ("student", "-", accuracy, "0.985 on MNIST, of another kind", (0.8, 1)),
        ("what given votes save", "-", whatever - given, save, (0, 3)),
        ("a vote in two counts, L2", "1.41", float(LABEL.sensitivity), two),
    )
    return tell([Row(*row) for row in rows])


if __name__ == "__main__":
    sys.exit(main())
