"""Published privacy figures beside ours, and why they differ.

    python bench/headlines.py

"published" is what the source prints. "their way" evaluates the source's method here:
for the moments accountant that is the Renyi curve with the simplest conversion,
epsilon = D_a + ln(1/delta)/(a - 1), at the best real order. "ours" is the best bound
of the same notion, "tight" that of the accountant that knows the whole privacy loss.
Where "their way" agrees with "published" up to its last digit and "ours" is smaller,
nothing is wrong with either: the bounds are just different.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp.accounting import (
    ApproximateAccountant,
    GaussianEvent,
    LaplaceEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPAccountant,
    ZCDPAccountant,
    advanced_composition,
    amplification,
    conversions,
    kairouz_composition,
    renyi_divergence,
)
from fastdp.accounting._amplification import binomial as _binomial
from fastdp.accounting._amplification import shuffling as _shuffling

#: Gaps from 1 over which the simplest conversion is minimized: dense enough for 1e-4.
_GAPS = np.exp(np.linspace(math.log(0.1), math.log(500), 500))
#: The share of 60,000 records in a batch of 256.
_BATCH = Fraction(256, 60_000)


@dataclass(frozen=True)
class Row:
    """One figure: where it stands, what it is, and what we get."""

    source: str
    what: str
    published: float
    theirs: float
    ours: float
    tight: float
    why: str


def simplest(accountant: RDPAccountant, delta: float) -> float:
    """Return the best of D_a + ln(1/delta)/(a - 1) over real orders."""
    divergence = accountant.divergence(1 + _GAPS)
    return float(np.min(divergence + math.log(1 / delta) / _GAPS))


_CONVERSION = "the conversion: ours is the best known at every order"
_BELOW = "printed below the least value of its own method, yet above the truth"
_ROUNDED = "the last digit: orders from a list, or steps of a rounded epoch"

#: source, rate, steps, sigma, published epsilon at delta = 1e-5, why it differs
TRAINING = (
    ("Abadi et al. 2016, text", Fraction(1, 100), 10_000, "4", 1.26, _CONVERSION),
    ("Abadi et al. 2016, text", Fraction(1, 100), 40_000, "4", 2.55, _BELOW),
    ("TF-privacy table, 2019", _BATCH, 14_062, "1.1", 3.01, _CONVERSION),
    ("TF-privacy table, 2019", _BATCH, 3_515, "1.3", 1.19, _CONVERSION),
    ("TF-privacy table, 2019", _BATCH, 10_546, "0.7", 7.10, _CONVERSION),
    ("TF-privacy table, 2018", _BATCH, 14_062, "1.12", 2.92, _CONVERSION),
    ("TF-privacy table, 2018", _BATCH, 7_031, "0.6", 9.74, _BELOW),
    ("TF-privacy table, 2018", _BATCH, 2_343, "1.2", 1.20, _ROUNDED),
    ("TF-privacy tutorial", Fraction(1, 240), 3_600, "1.3", 1.18, _CONVERSION),
    ("Bu et al. 2020, figure 4", _BATCH, 4_687, "1.3", 1.34, _ROUNDED),
    ("Bu et al. 2020, figure 4", _BATCH, 16_406, "0.7", 8.68, _ROUNDED),
    ("Bu et al. 2020, table", _BATCH, 14_531, "0.6", 13.27, _CONVERSION),
    ("Bu et al. 2020, table", _BATCH, 15_937, "0.55", 18.72, _CONVERSION),
    ("Bu et al. 2020, table", _BATCH, 23_437, "0.5", 32.40, _CONVERSION),
)

#: sigma, epochs and the printed mu of the central limit, in the same table. The epochs
#: of the last three are those that give the printed mu; the others stand in their code.
LIMITS = (
    ("1.3", 15, 0.23),
    ("1.1", 60, 0.57),
    ("0.7", 45, 1.13),
    ("0.6", 62, 2.00),
    ("0.55", 68, 2.76),
    ("0.5", 100, 4.78),
)

#: What their code prints for sigma = 1.3, 15 epochs: limits of Poisson samples, and of
#: subsets of fixed size.
PRINTED_LIMITS = (0.8345, 1.0685)

#: What the code beside Feldman, McMillan and Talwar 2021 says that it prints for
#: 100,000 reports of local epsilon 4 at delta = 1e-6: bounds of the numerical epsilon
#: from below and above, and the closed form.
CLONES = (0.1675385583317841, 0.172790550755978, 0.5378040242374512)


def training() -> Iterator[Row]:
    """Yield the figures of training with sampled Gaussian noise."""
    for source, rate, count, sigma, published, why in TRAINING:
        event = PoissonSampledEvent(
            rate, GaussianEvent(sensitivity=1, sigma=Fraction(sigma))
        )
        accountant = RDPAccountant().compose(event, count)
        yield Row(
            source,
            f"q = {float(rate):.4g}, sigma = {sigma}, {count} steps",
            published,
            simplest(accountant, 1e-5),
            accountant.epsilon(1e-5),
            PLDAccountant().compose(event, count).epsilon(1e-5),
            why,
        )


def calibration() -> Iterator[Row]:
    """Yield what analytic calibration saves over the classic sigma."""
    for epsilon, delta in ((1, 1e-5), (0.5, 1e-5), (0.1, 1e-8)):
        classic = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        low, high = classic / 100, classic
        for _ in range(60):
            middle = (low + high) / 2
            met = (
                conversions.gaussian_delta(epsilon=epsilon, sensitivity=1, sigma=middle)
                <= delta
            )
            low, high = (low, middle) if met else (middle, high)
        yield Row(
            "Balle and Wang 2018",
            f"share of the variance left, epsilon = {epsilon}, delta = {delta}",
            2 / 3,
            (high / classic) ** 2,
            (high / classic) ** 2,
            (high / classic) ** 2,
            "printed: at least a third of the variance is removed",
        )


def composition() -> Iterator[Row]:
    """Yield the composition of 100 mechanisms with epsilon 1/10."""
    epsilon, count, slack = Fraction(1, 10), 100, 1e-6
    optimum = ApproximateAccountant().compose(PureDPEvent(epsilon), count)
    e = 0.1
    older = e * math.sqrt(2 * count * math.log(1 / slack)) + count * e * math.expm1(e)
    for source, formula, got in (
        (
            "Dwork et al. 2010",
            older,
            advanced_composition(epsilon=epsilon, count=count, slack=slack),
        ),
        (
            "Kairouz et al. 2017, 3.4",
            5.756105519,
            kairouz_composition({epsilon: 100}, slack=slack),
        ),
        ("Kairouz et al. 2017, 3.3", 4.774567588, optimum.epsilon(slack)),
    ):
        yield Row(
            source,
            "epsilon = 0.1, k = 100, delta = 1e-6",
            formula,
            got,
            optimum.epsilon(slack),
            optimum.epsilon(slack),
            "closed forms; ours is the optimum",
        )


def curves() -> Iterator[Row]:
    """Yield the Renyi divergences of Mironov 2017, Table II, at order 3."""
    a = 3.0
    laplace = math.log(
        a / (2 * a - 1) * math.exp(a - 1) + (a - 1) / (2 * a - 1) * math.exp(-a)
    ) / (a - 1)
    p = 0.75
    response = math.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (
        a - 1
    )
    for name, formula, event in (
        ("Gaussian, sigma = 2", a / 8, GaussianEvent(sensitivity=1, sigma=2)),
        ("Laplace, scale = 1", laplace, LaplaceEvent(sensitivity=1, scale=1)),
        (
            "randomized response, p = 3/4",
            response,
            RandomizedResponseEvent(p=0.75, q=0.25),
        ),
    ):
        got = float(renyi_divergence(event, [a])[0])
        yield Row(
            "Mironov 2017, Table II", f"{name}, order 3", formula, formula, got, got, ""
        )


def shuffling() -> Iterator[Row]:
    """Yield the figures of shuffled reports of any randomizer.

    Their numerical bound sums over blocks of 100 counts and searches in steps of 1/1024
    of the closed form. The figures of their plots could not be checked: no table of
    them is printed.
    """
    clients, local, delta = 100_000, 4.0, 1e-6
    _, upper, closed = CLONES
    grown = math.exp(local)
    rest = 8 * math.sqrt(grown * math.log(4 / delta) / clients) + 8 * grown / clients
    first = math.log1p(rest)
    theirs = math.log1p((1 - 1 / grown) / (1 + math.exp(-local - first)) * rest)
    ours = amplification.shuffled_closed_form_epsilon(
        local_epsilon=local, clients=clients, delta=delta
    )
    exact = amplification.shuffled_epsilon(
        local_epsilon=local, clients=clients, delta=delta
    )
    what = "100,000 reports, local epsilon 4, delta = 1e-6"
    yield Row(
        "Feldman et al. 2021, code",
        f"{what}, closed form",
        closed,
        theirs,
        ours,
        exact,
        "theirs evaluates another expression than Theorem 3.1, which is smaller",
    )
    pair = _shuffling.ShuffledPair(local, clients, None)
    spread = math.sqrt(clients / grown)
    blocks = _binomial.window(clients - 1, pair.log_odds, 30.0, int(16 * spread / 100))
    place = next(
        place
        for place in range(1, 1025)
        if pair.blocks_log_delta(closed * place / 1024, blocks, upper=True)
        <= math.log(delta)
    )
    yield Row(
        "Feldman et al. 2021, code",
        f"{what}, numerical",
        upper,
        closed * place / 1024,
        exact,
        exact,
        "blocks of 100 counts and steps of the search; ours is exact to 1e-6",
    )


def limits() -> Iterator[tuple[str, int, float, float, float, float]]:
    """Yield sigma, epochs, printed mu, mu, epsilon by the limit, certified epsilon.

    At delta = 1e-5, batches of 256 out of 60,000.
    """
    for sigma, epochs, printed in LIMITS:
        width, steps = float(sigma), epochs * 60_000 / 256
        mu = float(_BATCH) * math.sqrt(steps * math.expm1(width**-2))
        limit = conversions.gaussian_epsilon(
            delta=1e-5, sensitivity=Fraction(mu), sigma=1
        )
        event = PoissonSampledEvent(
            _BATCH, GaussianEvent(sensitivity=1, sigma=Fraction(sigma))
        )
        accountant = PLDAccountant().compose(event, int(steps))
        yield sigma, epochs, printed, mu, limit, accountant.epsilon(1e-5)


def uniform_limit(sigma: float, epochs: int) -> float:
    """Return epsilon by the limit for subsets of fixed size, at delta = 1e-5."""

    def phi(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    factor = math.exp(sigma**-2) * phi(1.5 / sigma) + 3 * phi(-0.5 / sigma) - 2
    mu = float(_BATCH) * math.sqrt(2 * epochs * 60_000 / 256 * factor)
    return conversions.gaussian_epsilon(delta=1e-5, sensitivity=Fraction(mu), sigma=1)


def sampled_curve() -> Iterator[tuple[int, float, float, float]]:
    """Yield order, closed form, series and our curve of sampled Gaussian noise.

    Mironov, Talwar and Zhang 2019: 2 q^2 a/sigma^2 (Theorem 11; its conditions hold
    for q = 0.01, sigma = 4 up to order 8) and the binomial series of whole orders. The
    figures of their plots could not be checked: no table of them is printed.
    """
    rate, sigma = 0.01, 4.0
    event = PoissonSampledEvent(Fraction(1, 100), GaussianEvent(sensitivity=1, sigma=4))
    for order in range(2, 9):
        total = math.fsum(
            math.comb(order, k)
            * rate**k
            * (1 - rate) ** (order - k)
            * math.expm1(k * (k - 1) / (2 * sigma**2))
            for k in range(2, order + 1)
        )
        series = math.log1p(total) / (order - 1)
        closed = 2 * rate**2 * order / sigma**2
        yield order, closed, series, float(renyi_divergence(event, [order])[0])


def pictures() -> Iterator[tuple[int, float, float, float, float]]:
    """Yield epsilon against k at sigma = 200, delta = 1e-5, under four notions."""
    delta = 1e-5
    sigma = Fraction(200)
    for k in (1, 10, 100, 1000, 10_000, 100_000):
        each = delta / (2 * k)
        one = conversions.gaussian_epsilon(delta=each, sensitivity=1, sigma=sigma)
        advanced = advanced_composition(epsilon=one, count=k, slack=delta / 2)
        rho = ZCDPAccountant().compose(GaussianEvent(sensitivity=1, sigma=sigma), k)
        divergence = (
            float(renyi_divergence(GaussianEvent(sensitivity=1, sigma=sigma), [32])[0])
            * k
        )
        at_order = divergence + math.log(1 / delta) / 31
        exact = conversions.gaussian_epsilon(
            delta=delta, sensitivity=1, sigma=float(sigma) / math.sqrt(k)
        )
        yield k, advanced, rho.epsilon(delta), at_order, exact


def rows() -> list[Row]:
    """Return all figures."""
    return [*training(), *calibration(), *composition(), *curves(), *shuffling()]


def main() -> None:
    """Print the tables."""
    heads = ("published", "their way", "ours", "tight")
    print(f"{'source':26} {'what':52} " + " ".join(f"{head:>10}" for head in heads))
    for row in rows():
        line = f"{row.source:26} {row.what:52} {row.published:10.5g}"
        line += f" {row.theirs:10.5g} {row.ours:10.5g} {row.tight:10.5g}"
        print(f"{line}  {row.why}")
    print(
        "\nEpsilon against k, sensitivity 1, sigma = 200, delta = 1e-5\n"
        f"{'k':>7} {'advanced':>10} {'zCDP':>10} {'order 32':>10} {'exact':>10}"
    )
    for k, *values in pictures():
        print(f"{k:7d} " + " ".join(f"{value:10.5g}" for value in values))
    print(
        "\nThe central limit beside certified epsilons, delta = 1e-5, batches of 256 "
        "out of 60,000\n"
        f"{'sigma':>7} {'epochs':>7} {'printed mu':>10} {'mu':>10} {'limit':>10} "
        f"{'certified':>10}"
    )
    for sigma, epochs, printed, *rest in limits():
        shown = " ".join(f"{value:10.5g}" for value in rest)
        print(f"{sigma:>7} {epochs:7d} {printed:10.5g} {shown}")
    print(
        "\nRenyi divergence of sampled Gaussian noise, q = 0.01, sigma = 4\n"
        f"{'order':>7} {'closed form':>11} {'series':>11} {'ours':>11}"
    )
    for order, *values in sampled_curve():
        print(f"{order:7d} " + " ".join(f"{value:11.5g}" for value in values))


if __name__ == "__main__":
    main()
