"""Labels from the votes of private teachers: answered, right, and what they cost.

    python examples/pate.py [--small] [--plot FILE]

Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson, "Scalable private learning
with PATE" (ICLR 2018). Private records are dealt to teachers by their public place, and
each teacher is a classifier of its own. A pool of unlabeled public records gets the
winners of noisy votes for labels, and a student learns from these alone. "Confident"
asks first whether the largest count, with noise, reaches a threshold, and answers only
then, until it has answered as often as was planned.

Why it is private. A record replaced changes one teacher, and so one vote of each query:
two counts by 1, the largest count by at most 1. The winner is a function of counts with
Gaussian noise (`calculators.pate`), and continuous noise is drawn to as many bits as
the comparison needs. What is charged is all tests and the planned number of answers.

Votes that agree cost less, but how much less depends on the votes: that number is
private ("given votes"). `PATEDivergence` releases an estimate of it with noise of its
own, whose cost is added ("released").
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from _common import Row, options, picture, tell

import fastdp
from fastdp import accounting
from fastdp.accounting import Event, calculators
from fastdp.mechanisms.pate import PATEDivergence

TEACHERS, RECORDS, LABELS, DIMENSION, APART = 250, 40, 10, 16, 3.4
SIGMA, THRESHOLD, TEST_SIGMA, DELTA = 40, 200, 150, 1e-5
ORDERS = (5, 8, 12, 16, 20, 30)
ORDER = 12  # of the release with noise of its own: chosen beforehand
R = "replace_one"
Array = np.ndarray

PLACE = {"neighboring_relation": R, "assignment": "place"}
LABEL = calculators.pate("gaussian", SIGMA, **PLACE)
TEST = fastdp.DiscreteGaussian(TEST_SIGMA, sensitivity=1, neighboring_relation=R)


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


def centers(x: Array, label: Array) -> Array:
    """Return the mean record of each label; that of none is far away."""
    found = np.full((LABELS, DIMENSION), 1e3)
    for k in np.unique(label):
        found[k] = x[label == k].mean(axis=0)
    return found


def nearest(x: Array, means: Array) -> Array:
    """Return the label of the nearest mean."""
    return (np.square(means).sum(axis=1) - 2 * x @ means.T).argmin(axis=1)


def vote(law: Law, pool: Array) -> Array:
    """Return the counts of all teachers' votes."""
    counts = np.zeros((len(pool), LABELS), np.int64)
    for _ in range(TEACHERS):
        label = nearest(pool, centers(*law.draw(RECORDS)))
        counts[np.arange(len(pool)), label] += 1
    return counts


#: The paper's run on MNIST: 640 tests, and 286 answers.
PAPER: list[tuple[Event, int]] = [(TEST.event(), 640), (LABEL, 286)]


def epsilon(charged: list[tuple[Event, int]]) -> float:
    """Return epsilon of events by how often they come, whatever the votes are."""
    accountant = accounting.PLDAccountant()
    for event, count in charged:
        accountant.compose(event, count=count)
    return accountant.epsilon(DELTA)


@dataclass
class Answers:
    """Which queries were answered, with which labels, and their events."""

    queries: Array
    labels: Array
    charged: list[tuple[Event, int]]
    tests: int = 0

    def given(self, counts: Array, release: PATEDivergence | None = None) -> float:
        """Return epsilon given the votes, or by a release of it with noise."""
        found = []
        for order in ORDERS if release is None else (ORDER,):
            if release is None:
                cost = calculators.data_dependent_pate_smooth_sensitivity(
                    counts, sigma=SIGMA, order=order, smoothness=0.1 / order
                )
                divergence = cost.divergence
            else:
                divergence = max(release.release(counts), 0.0) + release.divergence()
            stated = {"orders": (order,), "epsilons": (divergence,)}
            event = accounting.RDPEvent(**stated, neighboring_relation=R)
            accountant = accounting.RDPAccountant().compose(event)
            if self.tests:
                accountant.compose(TEST.event(), count=self.tests)
            found.append(accountant.epsilon(DELTA))
        return min(found)


def plain(counts: Array) -> Answers:
    """Answer every query."""
    labels = fastdp.noisy_argmax(counts, sigma=SIGMA)
    return Answers(np.arange(len(counts)), labels, [(LABEL, len(counts))])


def confident(counts: Array, planned: int) -> Answers:
    """Answer queries whose largest count passes the test, `planned` of them at most."""
    passed = TEST.release(counts.max(axis=1)) >= THRESHOLD
    queries = np.flatnonzero(passed)[:planned]
    charged = [(TEST.event(), len(counts)), (LABEL, planned)]
    labels = fastdp.noisy_argmax(counts[queries], sigma=SIGMA)
    return Answers(queries, labels, charged, len(counts))


def main(arguments: list[str] | None = None) -> int:
    """Label a pool in two ways and print what was answered, right, and paid."""
    chosen = options(__doc__, "one number of queries").parse_args(arguments)
    law = Law()
    asked = (640,) if chosen.small else (160, 320, 640, 1280)
    pool, truth = law.draw(max(asked))
    test, wanted = law.draw(5000)
    counts = vote(law, pool)
    agreement = counts.max(axis=1).mean() / TEACHERS
    print(f"{TEACHERS} teachers; {agreement:.0%} of the votes are for the winner")
    heads = ("answered", "right", "student", "epsilon", "given votes", "released")
    print(f"{'way, queries asked':20}", *(f"{head:>11}" for head in heads))
    shown: dict[str, list[tuple[float, float]]] = {}
    last = {}
    release = PATEDivergence(sigma=SIGMA, order=ORDER, smoothness=0.02, scale=6)
    for n in asked:
        ways = plain(counts[:n]), confident(counts[:n], planned=int(0.45 * n))
        for name, way in zip(("plain", "confident"), ways, strict=True):
            votes = counts[way.queries]
            right = float((way.labels == truth[way.queries]).mean())
            student = nearest(test, centers(pool[way.queries], way.labels))
            accuracy = float((student == wanted).mean())
            costs = epsilon(way.charged), way.given(votes), way.given(votes, release)
            figures = (str(len(way.labels)), f"{right:.3f}", f"{accuracy:.3f}")
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
