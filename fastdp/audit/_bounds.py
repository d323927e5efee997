"""Tests whose false-alarm probability is exact or bounded (docs/proofs/audit.md)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fastdp.accounting._audits import least_rate

#: Allowed relative error of probabilities of laws and of scipy's functions.
ERROR = 1e-9

#: Spreads of the laws mixed in `log_evidence`: with n draws, the Dirichlet priors have
#: total weights n/spread.
_SPREADS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)


def rates(hits: np.ndarray, runs: int, error: float) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper Clopper-Pearson bounds on rates.

    Parameters
    ----------
    hits : ndarray of int
        Hits of each event in `runs` runs.
    runs : int
    error : float
        Probability that a bound is wrong, for each bound.
    """
    low = [least_rate(int(k), runs, error) for k in hits]
    high = [1 - least_rate(runs - int(k), runs, error) for k in hits]
    return np.array(low), np.array(high)


def binomial_p(hits: int, runs: int, rate: float) -> float:
    """Return an upper bound on the two-sided p-value of hits at a known rate."""
    from scipy.special import bdtr, bdtrc

    if runs == 0:
        return 1.0
    most, least = min(1.0, rate * (1 + ERROR)), rate * (1 - ERROR)
    upper = float(bdtrc(hits - 1, runs, most)) if hits > 0 else 1.0
    lower = float(bdtr(hits, runs, least)) if hits < runs else 1.0
    return min(1.0, 2 * min(upper, lower) * (1 + 1e-7))


def log_evidence(counts: np.ndarray, probability: np.ndarray) -> float:
    """Return ln of an e-value against the stated probabilities of counts.

    It is the likelihood ratio of a mixture of other laws to the stated one. Its mean is
    1 under the stated law, so it reaches 1/a with probability at most a.

    Parameters
    ----------
    counts : ndarray of int, shape (groups, cells)
        The number of draws of each group is fixed in advance.
    probability : ndarray, shape (cells,)
        Probabilities of the cells in each group; they sum to 1.
    """
    from scipy.special import gammaln

    k = counts[counts.sum(axis=1) > 0].astype(float)
    if k[:, probability <= 0].any():
        return math.inf
    k, p = k[:, probability > 0], probability[probability > 0]
    n = k.sum(axis=1)
    stated = float((k @ np.log(p)).sum())
    terms = []
    for spread in _SPREADS:
        c = np.maximum(n / spread, 1.0)
        prior = c[:, None] * p
        mixed = (gammaln(k + prior) - gammaln(prior)).sum()
        terms.append(float(mixed + (gammaln(c) - gammaln(n + c)).sum()) - stated)
    top = max(terms)
    mean = top + math.log(sum(math.exp(t - top) for t in terms) / len(terms))
    return mean - float(n.sum()) * ERROR - 1e-5 * len(n)


#: Tells whether rates (first >= low, second <= high) break a claim; takes (low, high).
Breaks = Callable[[float, float], bool]


def needed(breaks: Breaks, error: float) -> int:
    """Return the least number of held-out runs that can break a claim."""

    def shown(runs: int) -> bool:
        low, high = rates(np.array([runs, 0]), runs, error)
        return breaks(float(low[0]), float(high[1]))

    runs = 1
    while not shown(runs):
        runs *= 2
        if runs > 2**60:
            return runs
    low = runs // 2
    while runs - low > max(1, runs // 200):
        middle = (low + runs) // 2
        low, runs = (low, middle) if shown(middle) else (middle, runs)
    return runs


def detected(breaks: Breaks, rate: float, runs: int, error: float) -> float:
    """Return about the least rate of an event under the other input that is detected.

    The event has `rate` under one input; it breaks the claim with probability 0.98. The
    result is 1 if no rate does.
    """
    from scipy.stats import binom

    most = float(rates(np.array([binom.ppf(0.99, runs, rate)]), runs, error)[1][0])

    def found(other: float) -> bool:
        hits = np.array([binom.ppf(0.01, runs, other)])
        return breaks(float(rates(hits, runs, error)[0][0]), most)

    low, high = rate, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high
