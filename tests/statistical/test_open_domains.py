"""Estimates of open domains over many runs, each with hash functions of its own.

Fixed keys in CI: no chance decides. Fresh keys in the slow form, 2,000 runs: means
within 4.5 standard errors of every value looked at, and the variance of absent
values, of which there are 40 a run, within 3 %.
"""

import secrets

import numpy as np
import pytest

import fastdp
from fastdp.testing import FixedStream

USERS, ROWS, BUCKETS = 2000, 16, 32
HELD = ["a"] * 1000 + ["b"] * 300 + [f"x{n // 5}" for n in range(700)]
ASKED = ["a", "b", *(f"none{n}" for n in range(40))]
TRUTH = np.array([1000, 300] + [0] * 40)


def run(inner: str, key: str, stream: FixedStream | None) -> np.ndarray:
    m = fastdp.CountMeanSketch.from_epsilon(
        1, rows=ROWS, buckets=BUCKETS, inner=inner, key=key
    )
    return m.estimate(m.release(HELD, stream=stream)).of(ASKED).counts


def check(found: np.ndarray, deviations: float) -> None:
    spread = found.std(axis=0, ddof=1) / len(found) ** 0.5
    away = np.abs(found.mean(axis=0) - TRUTH) / spread
    assert (away < deviations).all(), away.max()


def ratio(found: np.ndarray, inner: str) -> float:
    """Return the variance of absent values, as a share of the stated one."""
    m = fastdp.CountMeanSketch.from_epsilon(1, rows=ROWS, buckets=BUCKETS, inner=inner)
    squares = (0.5**2) + 0.15**2 + 140 * (5 / USERS) ** 2
    stated = m.standard_error(USERS, squares=squares)
    return float(np.mean(found[:, 2:] ** 2)) / stated**2


@pytest.mark.parametrize("inner", ["hadamard", "unary"])
def test_a_few_runs(inner: str) -> None:
    stream = FixedStream(f"open {inner}")
    found = np.array([run(inner, f"{n:032x}", stream) for n in range(100)])
    check(found, 4.5)
    assert ratio(found, inner) == pytest.approx(1, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("inner", ["hadamard", "unary"])
def test_2000_runs_under_fresh_keys(inner: str) -> None:
    found = np.array([run(inner, secrets.token_hex(16), None) for _ in range(2000)])
    check(found, 4.5)
    share = ratio(found, inner)
    print(inner, share)
    assert share == pytest.approx(1, abs=0.03)
