"""docs/selection.md: its examples run, and what it says of costs is so."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.accounting import PureDPEvent, event_rho

PAGE = (Path(__file__).parents[2] / "docs" / "selection.md").read_text("utf-8")


def test_the_tour(ran: Callable[[str], Any]) -> None:
    names = ran("docs/selection.md").names
    assert len(set(names["three"].tolist())) == 3
    assert names["median"] in names["hours"]
    assert names["labels"][0] == 1
    assert names["alarm"].event() == PureDPEvent(1)


def test_every_name_of_the_page_is_public() -> None:
    named = set(re.findall(r"^\| .* \| `(\w+)`", PAGE, re.M))
    named |= set(re.findall(r"fastdp\.(\w+)\(", PAGE))
    assert len(named) >= 7
    assert named - set(fastdp.__all__) == set()


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), 1, 3])
def test_concentrated_costs(epsilon: Any) -> None:
    exact = Fraction(epsilon)
    bounded = exact**2 / 8
    m = fastdp.ExponentialMechanism(epsilon, sensitivity=1)
    assert m.rho() == pytest.approx(float(bounded))
    q = fastdp.Quantiles((0.2, 0.5, 0.8), bounds=(0, 1), epsilon=epsilon)
    assert q.rho() == pytest.approx(float(bounded) / 2)
    for other in (
        fastdp.PermuteAndFlip(epsilon, sensitivity=1),
        fastdp.ReportNoisyMax(epsilon, sensitivity=1, noise="laplace"),
    ):
        laplace = float(exact) - 1 + math.exp(-exact)
        assert event_rho(other.event()) == pytest.approx(laplace, rel=1e-12)
        assert float(bounded) < laplace <= exact**2 / 2


def test_quantiles_stay_within_the_stated_error() -> None:
    assert "2 * max(q, 1 - q) / epsilon * ln(20 * points)" in PAGE
    x, epsilon, outside = np.arange(1000), 0.1, 0
    m = fastdp.Quantiles(0.8, bounds=(0, 9999), epsilon=epsilon)
    for _ in range(200):
        found = m.release(x)
        rank = np.searchsorted(x, found)
        outside += abs(rank - 800) > 1.6 / epsilon * math.log(20 * 10_000)
    assert outside <= 34  # 10 expected at most; false alarm below 2e-10


def test_the_distance_of_the_tour_moves_by_one_record() -> None:
    lines = PAGE[PAGE.index("k = np.arange(200)") : PAGE.index("noise = fastdp.Lap")]

    def distance(ages: Any) -> int:
        names = {"np": np, "ages": np.sort(ages)}
        exec(lines, names)  # noqa: S102
        return int(names["far"])  # type: ignore[call-overload]

    assert distance(np.full(1001, 40.0)) == 200  # nothing is far, nor is it at 0
    rng = np.random.default_rng(3)
    for width in (0.5, 4.9, 5, 5.1, 9, 20):
        ages = np.concatenate([np.linspace(0, width, 1000), rng.uniform(0, width, 1)])
        for moved in (-100.0, 100.0):
            other = np.append(np.delete(ages, 500), moved)
            assert abs(distance(ages) - distance(other)) <= 1
