"""Time and width of epsilon for DP-SGD: this package beside others that are installed.

    python bench/accountants.py [repetitions]

Prints a Markdown table: the best of some runs on one core, and the width of what is
proved (for the others: the distance between their own two bounds, where they give any).
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

from fastdp.accounting import GaussianEvent, PLDAccountant, PoissonSampledEvent

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
    step = PoissonSampledEvent(rate, GaussianEvent(1, sigma))
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
            value_discretization_interval=1e-4,
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
        start = time.perf_counter()
        lower, upper = contender(case)
        best = min(best, 1e3 * (time.perf_counter() - start))
    return best, lower, upper


def main() -> None:
    """Print the table."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 3
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


if __name__ == "__main__":
    main()
