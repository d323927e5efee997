"""Bins with exact probabilities, and the test of `fastdp.audit` over them.

Family-wise alpha is 1e-7 by Bonferroni: every p-value of this directory is
compared with 1e-7 / FAMILY.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fastdp.audit._bounds import log_evidence

#: At least as many p-values as a run of the whole directory computes.
FAMILY = 200
ALPHA = 1e-7 / FAMILY

#: Values at most in one searchsorted pass: keeps memory at tens of megabytes.
SLAB = 4_000_000


class Bins(NamedTuple):
    """Bins by sign and size: x belongs to bin searchsorted(edges, x)."""

    edges: np.ndarray
    probability: np.ndarray

    def counts(self, x: np.ndarray) -> np.ndarray:
        place = np.searchsorted(self.edges, x)
        return np.bincount(place, minlength=self.probability.size)


def bins_of(law: Any, n: int, body: int = 100) -> Bins:
    """Return bins of a symmetric law: about `body` on either side, 0 on its own where
    n draws give it often enough, and deep tails that expect about 1000, 100 and 25
    draws. Every bin expects at least 20.
    """
    alone = n * law.pmf(0) >= 25
    shares = [0.5 * (1 - i / body) for i in range(body)]
    shares += [k / n for k in (1000, 100, 25)]
    sizes = {max(int(-law.ppf(share)), 1) for share in shares} | (
        {1} if alone else set()
    )
    starts: list[int] = []
    tails: list[float] = []  # P(X >= start)
    for size in sorted(sizes):
        tail = float(law.sf(size - 1))
        rare = tails and n * (tails[-1] - tail) < 20
        if n * tail >= 20 and not rare:
            starts.append(size)
            tails.append(tail)
    inner = [a - b for a, b in zip(tails, [*tails[1:], 0.0], strict=True)]
    middle = [1.0 - 2 * sum(inner)]
    # x is in the bin after all edges below it: starts open bins, mirrored ones close.
    edges = [-e for e in reversed(starts)] + [e - 1 for e in starts]
    return Bins(np.array(edges, np.int64), np.array(inner[::-1] + middle + inner))


def drawn_counts(draw: Callable[[int], np.ndarray], bins: Bins, n: int) -> np.ndarray:
    """Return the counts of n draws, made a slab at a time."""
    total = np.zeros(bins.probability.size, np.int64)
    for start in range(0, n, SLAB):
        total += bins.counts(draw(min(SLAB, n - start)))
    return total


def p_value(observed: np.ndarray, probability: np.ndarray) -> float:
    """Return the p-value of counts under exact probabilities (docs/proofs/audit.md).

    It is below ALPHA with at most this probability, however few draws cells expect.
    """
    return math.exp(-max(0.0, log_evidence(observed[None], probability)))


def power(probability: np.ndarray, other: np.ndarray, n: int) -> float:
    """Return of how many in 100 tables of another law the test at ALPHA refuses."""
    tables = np.random.default_rng(0).multinomial(n, other / other.sum(), 100)
    return float(np.mean([p_value(table, probability) <= ALPHA for table in tables]))
