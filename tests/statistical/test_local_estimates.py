"""Estimates of the local mechanisms: mean, stated error and coverage over many runs.

2,000 runs of 1,000 users in CI, under a fixed key so that the bounds below, which
are 4 to 5 standard deviations of the runs themselves, raise no false alarm; 10,000
runs under fresh keys in the slow form, with 6 deviations for a mean and more than 5
for the rest: a false alarm in 10**5 for the whole file.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import fastdp
from fastdp.testing import FixedStream

USERS, CATEGORIES = 1000, 16
#: An absent category, a rare one, one of ten in a hundred, a frequent one.
LOOKED_AT = [15, 14, 1, 0]
HELD = np.repeat(np.arange(CATEGORIES), [400, 100, *[41] * 12, 8, 0])

D = CATEGORIES
MAKERS: dict[str, Callable[..., Any]] = {
    "RR": partial(fastdp.RandomizedResponse.from_epsilon, 1),
    "packed RR": partial(fastdp.RandomizedResponse.from_epsilon, 0.5),
    "k-RR": partial(fastdp.RandomizedResponse.from_epsilon, 2, categories=D),
    "SUE": partial(fastdp.UnaryEncoding.from_epsilon, 1, categories=D, symmetric=True),
    "OUE": partial(fastdp.UnaryEncoding.from_epsilon, 1, categories=D),
    "BLH": partial(fastdp.LocalHashing.from_epsilon, 1, categories=D, buckets=2),
    "OLH": partial(fastdp.LocalHashing.from_epsilon, 2, categories=D),
    "Hadamard": partial(fastdp.HadamardResponse.from_epsilon, 1, categories=D),
}
#: Packed bits are in the domain, all of them.
OPEN = [name for name in MAKERS if name != "packed RR"]


class Runs(NamedTuple):
    """Results of all runs, a row each, for the categories looked at."""

    truth: np.ndarray
    counts: np.ndarray
    errors: np.ndarray
    covered: np.ndarray


def repeated(name: str, runs: int, stream: FixedStream | None) -> Runs:
    """Release the same values in every run, and estimate."""
    m = MAKERS[name]()
    held, look = HELD, LOOKED_AT
    if m.categories == 2:
        held, look = (HELD == 1).astype(int), [0, 1]
    values, options = np.tile(held, (runs, 1)), {}
    if name == "packed RR":
        values = np.packbits(values, axis=1)
        options = {"packed": True}
    reports = m.release(values, stream=stream, **options)
    if options:
        options["count"] = USERS
    truth = np.bincount(held, minlength=m.categories)[look]
    counts, errors, covered = [], [], []
    for of_run in reports:
        estimate = m.estimate(of_run, **options)
        assert estimate.users == USERS
        low, high = (side[look] for side in estimate.confidence_interval(0.95))
        counts.append(estimate.counts[look])
        errors.append(estimate.standard_errors[look])
        covered.append((low <= truth) & (truth <= high))
    return Runs(truth, np.array(counts), np.array(errors), np.array(covered))


def check(
    name: str, runs: int, stream: FixedStream | None, deviations: float, error: float
) -> None:
    result = repeated(name, runs, stream)
    observed = result.counts.std(axis=0, ddof=1)
    away = np.abs(result.counts.mean(axis=0) - result.truth) / observed * runs**0.5
    assert (away < deviations).all(), away
    stated = result.errors.mean(axis=0) / observed
    assert (np.abs(stated - 1) < error).all(), stated
    m = MAKERS[name]()
    planned = [m.standard_error(USERS, frequency=int(n) / USERS) for n in result.truth]
    assert (np.abs(planned / observed - 1) < error).all(), planned
    coverage = result.covered.mean(axis=0)
    assert ((coverage > 0.93) & (coverage < 0.97)).all(), coverage
    print(f"{name}: {runs} runs, mean {away.max():.2f}, error {stated}, {coverage}")


@pytest.mark.parametrize("name", MAKERS)
def test_estimates_over_2000_runs(name: str) -> None:
    check(name, 2_000, FixedStream(f"estimates {name}"), 4, 0.08)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_estimates_over_10000_runs(name: str) -> None:
    check(name, 10_000, None, 6, 0.05)


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("other", [None, 1])
def test_values_outside_are_counted_as_stated(name: str, other: int | None) -> None:
    """100 of the users hold nothing of the domain: as `other`, or as all alike."""
    m = MAKERS[name](other=other)
    held = np.minimum(HELD, m.categories - 1)
    truth = np.bincount(held[:-100], minlength=m.categories).astype(float)
    if other is None:
        truth += 100 / m.categories
    else:
        truth[other] += 100
    held[-100:] = np.where(np.arange(100) % 2, -1, m.categories)
    runs = 1_000
    reports = m.release(np.tile(held, (runs, 1)), stream=FixedStream(f"{name} {other}"))
    counts = np.array([m.estimate(of_run).counts for of_run in reports])
    deviation = counts.std(axis=0, ddof=1) / runs**0.5
    assert (np.abs(counts.mean(axis=0) - truth) < 4 * deviation).all()
