"""Time and width of epsilon: this package beside others that are installed.

    python bench/accountants.py [repetitions]

Prints two Markdown tables of processor time, the best of some runs (OMP_NUM_THREADS=1).
The first is DP-SGD, with the width of what is proved (for the others: the distance
between their own two bounds, where they give any). The second are tasks that are more
than one number, beside dp-accounting at the same work in the same run, minutes of it.
Every run of ours has parameters of its own, so that nothing is remembered.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from fastdp.accounting import (
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    calibrate,
)
from fastdp.accounting.calculators import dp_sgd
from fastdp.accounting.events import Event

#: The grid of dp-accounting's privacy loss distributions.
GRID = 1e-4

#: Numbers that make the parameters of each run its own.
TINY: Iterator[float] = (1 + 1e-10 * i for i in itertools.count(1))

#: Sampling rate, noise, steps, delta.
CASES = (
    (0.01, 1.0, 10_000, 1e-5),
    (0.01, 1.0, 10_000, 1e-15),
    (0.1, 4.0, 1_000, 1e-8),
    (0.001, 0.6, 1_000_000, 1e-6),
)

Case = tuple[float, float, int, float]


def ours(case: Case) -> tuple[float, float]:
    """Return both proved bounds of epsilon."""
    rate, sigma, count, delta = case
    step = PoissonSampledEvent(
        rate, GaussianEvent(sensitivity=1, sigma=sigma * next(TINY))
    )
    bounds = PLDAccountant().compose(step, count).epsilon_bounds(delta)
    return bounds.lower, bounds.upper


def google(case: Case) -> tuple[float, float]:
    """Return the optimistic and the pessimistic epsilon of dp-accounting's PLD."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    rate, sigma, count, delta = case
    results = []
    for pessimistic in (False, True):
        law = pld.from_gaussian_mechanism(
            sigma,
            sampling_prob=rate,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=GRID,
        )
        results.append(law.self_compose(count).get_epsilon_for_delta(delta))
    return results[0], results[1]


def microsoft(case: Case) -> tuple[float, float]:
    """Return the lower and the upper epsilon of prv_accountant."""
    import prv_accountant

    rate, sigma, count, delta = case
    law = prv_accountant.PoissonSubsampledGaussianMechanism(
        sampling_probability=rate, noise_multiplier=sigma
    )
    accountant = prv_accountant.PRVAccountant(
        prvs=[law],
        max_self_compositions=[count],
        eps_error=0.01,
        delta_error=delta / 100,
    )
    lower, _, upper = accountant.compute_epsilon(delta, [count])
    return float(lower), float(upper)


def meta(case: Case) -> tuple[float, float]:
    """Return the epsilon of opacus' RDP accountant, which has no lower bound."""
    from opacus.accountants import RDPAccountant

    rate, sigma, count, delta = case
    accountant = RDPAccountant()
    accountant.history = [(sigma, rate, count)]
    return 0.0, float(accountant.get_epsilon(delta))


CONTENDERS: dict[str, Callable[[Case], tuple[float, float]]] = {
    "fastdp": ours,
    "dp-accounting (PLD, grid 1e-4)": google,
    "prv_accountant": microsoft,
    "opacus (RDP)": meta,
}


def measured(
    contender: Callable[[Case], tuple[float, float]], case: Case, repetitions: int
) -> tuple[float, float, float]:
    """Return the best time in milliseconds, and both bounds."""
    best, lower, upper = math.inf, 0.0, math.inf
    for _ in range(repetitions):
        start = time.process_time()
        lower, upper = contender(case)
        best = min(best, 1e3 * (time.process_time() - start))
    return best, lower, upper


# ---- tasks that are more than one number -------------------------------------------

#: A step of one of four kinds: its parameters, and how often it is made.
Step = tuple[str, float, float, int]


def different(number: int, kinds: str) -> list[Step]:
    """Return so many different steps, of the kinds that are named in turn."""
    source, tiny = random.Random(number), next(TINY)
    steps = []
    for i in range(number):
        kind, n = kinds[i % len(kinds)], source.randint(1, 10)
        if kind == "s":
            rate, sigma = source.uniform(0.001, 0.02), source.uniform(0.8, 3)
            steps.append((kind, rate, sigma * tiny, n))
        elif kind == "r":
            steps.append((kind, 0.5 + source.uniform(0.001, 0.01) * tiny, 0.0, n))
        else:
            steps.append((kind, source.uniform(20, 200) * tiny, 0.0, n))
    return steps


def event(step: Step) -> Event:
    """Return a step as an event."""
    kind, a, b, _ = step
    if kind == "s":
        return PoissonSampledEvent(a, GaussianEvent(sensitivity=1, sigma=b))
    if kind == "r":
        both = NeighboringRelation.ADD_OR_REMOVE_ONE
        return RandomizedResponseEvent(p=a, q=1 - a, neighboring_relation=both)
    return (
        LaplaceEvent(sensitivity=1, scale=a)
        if kind == "l"
        else GaussianEvent(sensitivity=1, sigma=a)
    )


def ours_many(steps: list[Step]) -> Callable[[], PLDAccountant]:
    """Return what composes the steps and reads epsilon once."""
    events = [(event(step), step[3]) for step in steps]

    def run() -> PLDAccountant:
        accountant = PLDAccountant()
        for one, count in events:
            accountant.compose(one, count)
        accountant.epsilon_bounds(1e-5)
        return accountant

    return run


def google_many(steps: list[Step]) -> Callable[[], object]:
    """Return the same of dp-accounting; kinds s, l and g only."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant as Other

    make = {
        "s": lambda a, b: dp_accounting.PoissonSampledDpEvent(
            a, dp_accounting.GaussianDpEvent(b)
        ),
        "l": lambda a, _: dp_accounting.LaplaceDpEvent(a),
        "g": lambda a, _: dp_accounting.GaussianDpEvent(a),
    }
    events = [(make[kind](a, b), n) for kind, a, b, n in steps]

    def run() -> object:
        accountant = Other(value_discretization_interval=GRID)
        for one, count in events:
            accountant.compose(one, count)
        accountant.get_epsilon(1e-5)
        return accountant

    return run


def ours_calibration() -> float:
    """Return the sigma of DP-SGD with epsilon 3."""
    rate = 0.01 * next(TINY)
    return calibrate(
        lambda sigma: PoissonSampledEvent(
            rate, GaussianEvent(sensitivity=1, sigma=sigma)
        ),
        epsilon=3,
        delta=1e-5,
        accountant=PLDAccountant,
        low=0.5,
        high=10,
        count=10_000,
    )


def ours_planned() -> float:
    """Return the sigma of DP-SGD with epsilon 3, certified, by the calculator."""
    plan = dp_sgd(
        60_000,
        batch=600,
        steps=10_000,
        epsilon=3,
        delta=1e-5 * next(TINY),
        sampling="poisson",
    )
    return float(plan.sigma)


def google_calibration() -> float:
    """Return it by dp-accounting, to its own tolerance of 1e-6."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant as Other

    def event_of(sigma: float) -> object:
        inner = dp_accounting.GaussianDpEvent(sigma)
        step = dp_accounting.PoissonSampledDpEvent(0.01, inner)
        return dp_accounting.SelfComposedDpEvent(step, 10_000)

    return float(
        dp_accounting.calibrate_dp_mechanism(
            lambda: Other(value_discretization_interval=GRID),
            event_of,
            3,
            1e-5,
            bracket_interval=dp_accounting.ExplicitBracketInterval(0.5, 10),
        )
    )


EPSILONS = np.linspace(0, 12, 10_000)


def ours_profile() -> None:
    """Compose and read 10,000 points, each bracketed."""
    step = PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=next(TINY)))
    PLDAccountant().compose(step, 10_000).ln_delta_profile(EPSILONS)


def google_profile() -> None:
    """Compose and read 10,000 upper bounds."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    law = pld.from_gaussian_mechanism(
        1, sampling_prob=0.01, value_discretization_interval=GRID
    )
    law.self_compose(10_000).get_delta_for_epsilon(EPSILONS)


def ours_huge() -> None:
    """Read epsilon of a billion steps."""
    ours((0.001, 50.0, 10**9, 1e-6))


def timed(task: Callable[[], object], repetitions: int) -> float:
    """Return the best time in seconds."""
    times = []
    for _ in range(repetitions):
        start = time.process_time()
        task()
        times.append(time.process_time() - start)
    return min(times)


def one_more(number: int, seen: bool, repetitions: int) -> float:
    """Return the median time of one more event with its epsilon, in seconds."""
    accountant = ours_many(different(number, "s"))()
    more = [event(step) for step in different(4 * repetitions + 4, "s")]
    times = []
    for one in more:
        start = time.process_time()
        accountant.compose(more[0] if seen else one).epsilon(1e-5)
        times.append(time.process_time() - start)
    return statistics.median(times[2:])


def google_one_more(number: int) -> float:
    """Return the same of dp-accounting."""
    import dp_accounting

    accountant = google_many(different(number, "s"))()
    inner = dp_accounting.GaussianDpEvent(1.7)
    start = time.process_time()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(0.01, inner))  # type: ignore[attr-defined]
    accountant.get_epsilon(1e-5)  # type: ignore[attr-defined]
    return time.process_time() - start


Task = tuple[str, Callable[[int], float], Callable[[], float] | None]

TASKS: tuple[Task, ...] = (
    (
        "DP-SGD, epsilon of both directions",
        lambda n: timed(lambda: ours(CASES[0]), 5 * n),
        lambda: timed(lambda: google_upper(CASES[0]), 3),
    ),
    (
        "DP-SGD, sigma for epsilon 3, `dp_sgd`",
        lambda n: timed(ours_planned, n),
        lambda: timed(google_calibration, 1),
    ),
    (
        "the same, `calibrate`",
        lambda n: timed(ours_calibration, n),
        lambda: timed(google_calibration, 1),
    ),
    (
        "100 different sampled steps, epsilon once",
        lambda n: timed(lambda: ours_many(different(100, "s"))(), n),
        lambda: timed(google_many(different(100, "s")), 1),
    ),
    (
        "1,000 different sampled steps, epsilon once",
        lambda n: min(timed(ours_many(different(1000, "s")), 1) for _ in range(n)),
        None,
    ),
    (
        "1,000 different steps of four kinds, epsilon once",
        lambda n: min(timed(ours_many(different(1000, "lgrs")), 1) for _ in range(n)),
        None,
    ),
    (
        "one more event after 100, of a new kind, and epsilon",
        lambda n: one_more(100, False, n),
        lambda: google_one_more(100),
    ),
    ("after 1,000, of a new kind", lambda n: one_more(1000, False, n), None),
    ("after 1,000, seen before", lambda n: one_more(1000, True, n), None),
    (
        "DP-SGD, a profile of 10,000 points",
        lambda n: timed(ours_profile, n),
        lambda: timed(google_profile, 1),
    ),
    ("a billion steps, epsilon", lambda n: timed(ours_huge, n), None),
)


def google_upper(case: Case) -> float:
    """Return the pessimistic epsilon alone."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    rate, sigma, count, delta = case
    law = pld.from_gaussian_mechanism(
        sigma, sampling_prob=rate, value_discretization_interval=GRID
    )
    return float(law.self_compose(count).get_epsilon_for_delta(delta))


def print_tasks(repetitions: int) -> None:
    """Print the second table."""
    print("\n| task | fastdp | dp-accounting (PLD, grid 1e-4) | ratio |")
    print("|---|---|---|---|")
    for name, mine, other in TASKS:
        spent = mine(repetitions)
        line, ratio = "-", "-"
        if other is not None:
            try:
                theirs = other()
                line, ratio = f"{1e3 * theirs:.0f} ms", f"{theirs / spent:.0f}"
            except ImportError:
                pass
        print(f"| {name} | {1e3 * spent:.2f} ms | {line} | {ratio} |", flush=True)


def print_widths(repetitions: int) -> None:
    """Print the first table."""
    print("| q, sigma, steps, delta | accountant | time | lower | upper | width |")
    print("|---|---|---|---|---|---|")
    for case in CASES:
        for name, contender in CONTENDERS.items():
            try:
                spent, lower, upper = measured(contender, case, repetitions)
            except ImportError:
                continue
            except Exception as error:  # another package's failure is a result
                print(f"| {case} | {name} | | | | {type(error).__name__} |")
                continue
            print(
                f"| {case} | {name} | {spent:.1f} ms | {lower:.10g} | {upper:.10g} "
                f"| {upper - lower:.2g} |"
            )


def main() -> None:
    """Print the tables."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print_widths(repetitions)
    print_tasks(repetitions)


if __name__ == "__main__":
    main()
