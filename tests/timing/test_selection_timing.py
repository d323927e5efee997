"""Selections: time tells neither the scores nor the winner (class T2).

Whole calls from Python on one buffer, which holds scores of one class or the other in
random order. The short tests are alarms for a machine that others use too; the gate is
in the slow ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fastdp

N = 1000
ALARM, GATE = 20.0, 4.5

Call = Callable[[np.ndarray], Any]

CALLS: dict[str, Call] = {
    "inverse": lambda s: fastdp.ExponentialMechanism(1, 1).select(s),
    "inverse, k = 3": lambda s: fastdp.ExponentialMechanism(1, 1).select(s, k=3),
    "gumbel": lambda s: fastdp.ExponentialMechanism(1, 1).select(s, method="gumbel"),
    "permute and flip": lambda s: fastdp.PermuteAndFlip(1, 1).select(s),
    "laplace": lambda s: fastdp.ReportNoisyMax(1, 1, noise="laplace").select(s),
    "gaussian": lambda s: fastdp.noisy_argmax(s, sigma=1),
}


def peak(place: int) -> np.ndarray:
    scores = np.zeros(N)
    scores[place] = 1e6
    return scores


CLASSES = {
    "winner first or last": (peak(0), peak(N - 1)),
    "a winner or none": (peak(N // 2), np.zeros(N)),
    "spread": (np.linspace(0, 1, N), np.linspace(-1e300, 1e300, N)),
    "rising or falling": (np.arange(N) / 10, -np.arange(N) / 10),
    "subnormal": (np.zeros(N), np.arange(N) * 5e-324),
    "lost": (np.zeros(N), np.where(np.arange(N) % 2, np.nan, 0.0)),
    "all lost": (np.zeros(N), np.full(N, np.nan)),
    "infinite": (np.zeros(N), np.where(np.arange(N) % 3, np.inf, -np.inf)),
}


def largest_t(call: Call, classes: tuple[np.ndarray, np.ndarray], n: int) -> float:
    """Return Welch's t of largest size, with and without the slowest timings."""
    order = np.random.default_rng(n).integers(0, 2, n)
    taken = np.empty(n)
    buffer, kept_bits = np.empty(N), np.empty(N, np.int64)
    bits, other = (scores.view(np.int64) for scores in classes)
    for i, c in enumerate(order.tolist()):
        # Both are read, and one kept by a mask: a copy's source has a place in memory.
        np.bitwise_and(bits, c - 1, out=kept_bits)
        np.bitwise_and(other, -c, out=buffer.view(np.int64))
        np.bitwise_or(buffer.view(np.int64), kept_bits, out=buffer.view(np.int64))
        start = time.perf_counter_ns()
        call(buffer)
        taken[i] = time.perf_counter_ns() - start
    found = []
    for share in (0.5, 0.9, 0.99):
        kept = taken <= np.quantile(taken, share)
        pair = (taken[(order == c) & kept] for c in (0, 1))
        found.append(float(stats.ttest_ind(*pair, equal_var=False).statistic))
    return max(found, key=abs)


def least_of(tries: int, limit: float, call: str, classes: str, n: int) -> float:
    """Return |t|, the least of so many tries."""
    found = math.inf
    for _ in range(tries):
        found = min(found, abs(largest_t(CALLS[call], CLASSES[classes], n)))
        if found < limit:
            break
    print(f"{call}, {classes}: |t| = {found:.1f}")
    return found


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("call", ["inverse", "gumbel"])
def test_classes_of_scores_short(call: str, classes: str) -> None:
    assert least_of(3, ALARM, call, classes, 3000) < ALARM


@pytest.mark.slow
@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("call", CALLS)
def test_classes_of_scores(call: str, classes: str) -> None:
    assert least_of(3, GATE, call, classes, 40_000) < GATE


def test_the_statistic_sees_a_softmax_in_numpy() -> None:
    """A search that stops at the winner."""

    def search(scores: np.ndarray) -> int:
        for i, s in enumerate(scores.tolist()):
            if s > 1.0:
                return i
        return 0

    assert abs(largest_t(search, CLASSES["winner first or last"], 2000)) > ALARM
