"""Selections: time tells neither the scores nor the winner (class T2).

docs/proofs/timing.md says what the classes are. The core's own calls are timed: through
the interpreter classes of equal scores already differ.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import CDLL
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdp import _core

sys.path.insert(0, str(Path(__file__).parent))
import two_class as tc

#: Candidates: two blocks, the second of them shorter.
N = 1000
ENTRIES = 8
NOISES = ("gumbel", "laplace", "gaussian")

Run = Callable[[int, int], float]


@dataclass(frozen=True)
class Method:
    """A call of the core: a race, or k choices by inversion or (k = 0) proposals."""

    noise: str = ""
    k: int = 1
    n: int = N
    weighted: bool = False
    integers: bool = False
    flips: bool = False


METHODS = {
    "proposals": Method(k=0),
    "proposals, 100": Method(k=0, n=100),
    "proposals, 5000": Method(k=0, n=5000),
    "proposals, integers": Method(k=0, integers=True),
    "proposals, weights": Method(k=0, weighted=True),
    "proposals, 5000, weights": Method(k=0, n=5000, weighted=True),
    "proposals, integers, weights": Method(k=0, integers=True, weighted=True),
    "flips": Method(flips=True),
    "flips, 100": Method(n=100, flips=True),
    "flips, 5000": Method(n=5000, flips=True),
    "flips, integers": Method(integers=True, flips=True),
    "inverse": Method(),
    "inverse, k = 3": Method(k=3),
    "inverse, weights": Method(weighted=True),
    "inverse, k = 3, weights": Method(k=3, weighted=True),
    "inverse, 100": Method(n=100),
    "inverse, 100, k = 3": Method(n=100, k=3),
    "inverse, integers": Method(integers=True),
    "inverse, integers, k = 3": Method(integers=True, k=3),
    **{noise: Method(noise) for noise in NOISES},
    "gumbel, weights": Method("gumbel", weighted=True),
    "gumbel, integers": Method("gumbel", integers=True),
}


def peak(place: int, n: int) -> np.ndarray:
    scores = np.zeros(n)
    scores[place] = 1e6
    return scores


def classes_of(n: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return pairs of scores, one of each class."""
    zeros, place = np.zeros(n), np.arange(n)
    return {
        "equal": (zeros, zeros),
        "winner first or last": (peak(0, n), peak(n - 1, n)),
        "a winner or none": (peak(n // 2, n), zeros),
        "spread": (np.linspace(0, 1, n), np.linspace(-1e300, 1e300, n)),
        "rising or falling": (place / 10, -place / 10),
        "subnormal": (zeros, place * 5e-324),
        "lost": (zeros, np.where(place % 2, np.nan, 0.0)),
        "ties or random": (place % 7 / 7.0, np.sin(1e4 * place)),
        "all lost": (zeros, np.full(n, np.nan)),
        "infinite": (zeros, np.where(place % 3, np.inf, -np.inf)),
    }


def whole_classes_of(n: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the same for integers."""
    zeros, place = np.zeros(n, np.int64), np.arange(n)
    far = (place - n // 2) * (2**62 // n)
    return {
        "equal": (zeros, zeros),
        "winner first or last": (peak(0, n).astype(int), peak(n - 1, n).astype(int)),
        "a winner or none": (peak(n // 2, n).astype(int), zeros),
        "spread": (zeros, far),
        "rising or falling": (place, -place),
    }


def choices(harness: CDLL, method: Method, classes: str) -> Run:
    n = method.n
    pair = (whole_classes_of if method.integers else classes_of)(n)[classes]
    pool = tc.data_pool([pair[0]] * ENTRIES, [pair[1]] * ENTRIES)
    data = tc.aligned(pool.shape[2])
    law = tc.buffer_of(_core.Selection(Fraction(1, 2), method.noise or None))
    weights: dict[str, Any] = {}
    if method.weighted:
        weights = {"mantissa": (1.0 + np.arange(n)) * 2.0 ** -n.bit_length()}
    kind = "select_inverse" if method.k else "select_proposed"
    work = tc.work_of(
        "select_flipped" if method.flips else "select_race" if method.noise else kind,
        n, law=law,
        size=method.k, x=data, x_type=tc.I64 if method.integers else tc.F64, other=n,
        out=np.zeros(max(method.k, 1), np.int64), **weights,
    )  # fmt: skip

    def run(rounds: int, seed: int) -> float:
        return tc.measure(harness, work, data, pool, rounds, seed).t

    return run


CASES: dict[str, Callable[[CDLL], Run]] = {
    f"{name}: {classes}": partial(choices, method=method, classes=classes)
    for name, method in METHODS.items()
    for classes in (whole_classes_of if method.integers else classes_of)(2)
}


SHORT = (
    "proposals: ",
    "flips: ",
    "inverse: ",
    "inverse, k = 3: ",
    "gumbel: ",
    "gaussian: ",
)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith(SHORT)])
def test_short(harness: CDLL, case: str) -> None:
    tc.short(CASES[case](harness))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_full(harness: CDLL, case: str) -> None:
    tc.full(case, CASES[case](harness))


# --- the test itself ------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # crops with one class alone
def test_the_statistic_sees_a_search_that_stops_at_the_winner(harness: CDLL) -> None:
    def search(scores: np.ndarray) -> int:
        for i, s in enumerate(scores.tolist()):
            if s > 1.0:
                return i
        return 0

    pair = classes_of(N)["winner first or last"]
    pool = tc.data_pool([pair[0]] * ENTRIES, [pair[1]] * ENTRIES)
    scores = np.zeros(N)
    work = tc.call_of(search, scores)
    assert abs(tc.measure(harness, work, scores, pool, 1000, 1).t) > tc.ALARM
