"""Sparse vector: the time of a comparison does not tell the value (class T1).

Whole calls from Python, one class of values against another in random order. Both
classes lie far below the threshold, so that the answers are the same. The short tests
are alarms for a machine that others use too; the gate is in the slow ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.audit._time import welch

THRESHOLD = 1e6
VALUES = [5.0, -1e5, 123.456, math.nan, -math.inf, -1e300, -0.0]
ALARM, GATE = 20.0, 4.5


def largest_t(
    call: Callable[[Any], Any], values: tuple[Any, Any], size: int, n: int
) -> float:
    """Return Welch's t of largest size, with and without the slowest timings.

    Calls get one value, or one array full of it: two arrays tell themselves apart by
    where they lie (|t| to 20 between equal ones).
    """
    order = np.random.default_rng(n).integers(0, 2, size=n)
    taken = np.empty(n)
    array = np.empty(size)
    for i, c in enumerate(order.tolist()):
        value: Any = values[c]
        if size:
            array.fill(value)
            value = array
        start = time.perf_counter_ns()
        call(value)
        taken[i] = time.perf_counter_ns() - start
    return welch(*(taken[order == c] for c in (0, 1)))


def least_of(tries: int, limit: float, value: float, size: int, n: int) -> float:
    """Return the least |t| of 0 against `value` in `tries` tries."""
    vector = fastdp.SparseVector(THRESHOLD, epsilon=1, sensitivity=1)
    pair = np.float64(0), np.float64(value)
    found = math.inf
    for _ in range(tries):
        found = min(found, abs(largest_t(vector.test, pair, size, n)))
        if found < limit:
            break
    return found


@pytest.mark.parametrize("value", VALUES)
def test_classes_of_values_short(value: float) -> None:
    assert least_of(3, ALARM, value, 0, 3000) < ALARM


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1000])
@pytest.mark.parametrize("value", VALUES)
def test_classes_of_values(value: float, size: int) -> None:
    assert least_of(3, GATE, value, size, 40_000) < GATE


def test_the_statistic_sees_a_list_of_the_nans() -> None:
    """What class T0 looks like: an assignment through a mask."""

    def masked(value: np.float64) -> None:
        x = np.asarray([value])
        x[np.isnan(x)] = 0

    t = largest_t(masked, (np.float64(0), np.float64(math.nan)), 0, 10_000)
    assert abs(t) > ALARM
