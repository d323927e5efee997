"""Choosing privately: a vote, and a price, by the exponential mechanism.

    python examples/selection.py [--small] [--plot FILE]

The mechanism and the price that earns most are those of McSherry and Talwar,
"Mechanism Design via Differential Privacy" (FOCS 2007); the bound on what is lost is
theorem 3.11 of Dwork and Roth (2014). Choices are drawn many times, beside their exact
law. The sensitivity of an income, price times buyers, is the largest price: lecture
notes that state none let readers spend a hundred times the epsilon that they believe.
"""

from __future__ import annotations

import sys

import numpy as np
from _common import Row, options, picture, tell

import fastdp
from fastdp.accounting import calculators

EPSILON, FAILURE = 0.5, 0.01
PRICES = np.arange(1, 101)
WORTH, BUYERS = 7, 300


def choice(sensitivity: int, *, monotonic: bool) -> fastdp.ExponentialMechanism:
    """Return the mechanism at EPSILON."""
    return fastdp.ExponentialMechanism(
        epsilon=EPSILON, sensitivity=sensitivity, monotonic=monotonic
    )


def chosen_shares(
    m: fastdp.ExponentialMechanism, scores: np.ndarray, times: int
) -> np.ndarray:
    """Return how often each candidate wins of `times` fresh choices."""
    drawn = np.zeros(len(scores), dtype=np.int64)
    rows = np.tile(scores.astype(float), (1_000, 1))
    for _ in range(times // 1_000):
        drawn += np.bincount(m.select(rows), minlength=len(scores))
    return drawn / times


def misfit(shares: np.ndarray, p: np.ndarray, times: int) -> float:
    """Return the largest deviation over its limit, below 1 but for 2e-10.

    Bernstein: a share strays by more than sqrt(2 p L/n) + L/n with probability below
    2 e^-L; L = 28 and a hundred candidates.
    """
    bound = np.sqrt(2 * p * 28 / times) + 28 / times
    return float((np.abs(shares - p) / bound).max())


def within(scores: np.ndarray, p: np.ndarray, bound: float) -> float:
    """Return the probability that the winner's score lacks at most `bound`."""
    return min(1.0, float(p[scores >= scores.max() - bound].sum()))


def spent(before: np.ndarray, after: np.ndarray, sensitivity: float) -> float:
    """Return the epsilon that two datasets show of a monotonic choice."""
    a, b = EPSILON * before / sensitivity, EPSILON * after / sensitivity
    losses = a - np.logaddexp.reduce(a) - b + np.logaddexp.reduce(b)
    return float(np.abs(losses).max())


def draw(file: str, pictures: list[tuple]) -> None:
    """Write the exact laws and the shares drawn."""
    figure, axes = picture(2)
    for axis, (title, label, places, p, shares) in zip(axes, pictures, strict=True):
        axis.bar(places, shares, color="0.75", label="drawn")
        axis.plot(places, p, ".", label="exact law")
        axis.set(title=title, xlabel=label, ylabel="probability")
        axis.set(yscale="log", ylim=(1e-6, 1.5))
        axis.legend(fontsize="small")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Vote and price, and print what holds."""
    chosen = options(__doc__, "10,000 choices instead of 10^5").parse_args(arguments)
    times = 10_000 if chosen.small else 100_000
    share = 1 / np.arange(1, 101) ** 0.2
    voters = np.random.default_rng(9).choice(100, 400, p=share / share.sum())
    votes = np.bincount(voters, minlength=100)
    rows, pictures = [], []
    for monotonic, published in ((False, "36.84"), (True, "18.42")):
        kind = "one way" if monotonic else "any"
        m = choice(1, monotonic=monotonic)
        p, shares = m.pmf(votes.astype(float)), chosen_shares(m, votes, times)
        bound = calculators.exponential_mechanism_error(
            candidates=100,
            sensitivity=1,
            epsilon=EPSILON,
            failure=FAILURE,
            monotonic=monotonic,
        ).bound
        rows.append(Row(f"vote, scores move {kind}: 99% bound", published, bound))
        likely, why = within(votes, p, bound), "the bound holds for the worst scores"
        what = f"vote, {kind}: probability within"
        rows.append(Row(what, ">= 0.99", likely, why, (0.99, 1)))
        strays, why = misfit(shares, p, times), "drawn choices follow the exact law"
        what = f"vote, {kind}: deviation over its limit"
        rows.append(Row(what, "<= 1", strays, why, (0, 1)))
    truth, drawn = int(votes.argmax()), int(shares.argmax())
    print(f"most votes: {truth}; chosen most often: {drawn}, of 100 candidates")
    order = np.argsort(-votes)
    title = f"a vote, 100 candidates, epsilon {EPSILON:g}"
    label = "candidate, by votes"
    pictures.append((title, label, np.arange(100), p[order], shares[order]))
    income = np.where(PRICES <= WORTH, PRICES * BUYERS, 0)
    m = choice(100, monotonic=True)
    p, shares = m.pmf(income.astype(float)), chosen_shares(m, income, times)
    print(f"best price: {WORTH}; chosen most often: {PRICES[shares.argmax()]}")
    strays = misfit(shares, p, times)
    what = "price: deviation over its limit"
    rows.append(Row(what, "<= 1", strays, why, (0, 1)))
    part = choice(1, monotonic=True).pmf(income / 100)
    what, why = "price, incomes over 100: difference", "the same law"
    rows.append(Row(what, "0", float(np.abs(p - part).max()), why, (0, 1e-12)))
    what, why = (
        "price: mean income, share of the best",
        "the second-best price is chosen at times",
    )
    mean = float(p @ income) / (WORTH * BUYERS)
    rows.append(Row(what, "-", mean, why, (0.9, 1)))
    buyer = income + PRICES  # one more, to whom it is worth 100
    what, why = "price: epsilon shown by one more buyer", "at most what was asked"
    rows.append(Row(what, "<= 0.5", spent(income, buyer, 100), why, (0.3, 0.5)))
    what, why = "the same, sensitivity taken for 1", "the notes state none; it is 100"
    rows.append(Row(what, "0.5", spent(income, buyer, 1), why, (40, 50)))
    title = f"a price, {BUYERS} buyers at {WORTH}, epsilon {EPSILON:g}"
    pictures.append((title, "price", PRICES, p, shares))
    if chosen.plot:
        draw(chosen.plot, pictures)
    return tell(rows)


if __name__ == "__main__":
    sys.exit(main())
