"""LocalMean over many runs: mean, variance against the law's, stated error, coverage.

Under fixed keys in CI, so that bounds of 4 to 5 standard deviations raise no false
alarm; under fresh ones in the slow form with 2,000 runs of 20,000 users, whose bounds
are 6.5 deviations of the runs: false alarms below 1e-9 in all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.testing import FixedStream

EPSILONS = (0.5, 1, 2, 3, 4, 6)


def numbers(kind: str, users: int) -> np.ndarray:
    match kind:
        case "spread":
            return np.linspace(-1, 1, users)
        case "ends":
            return np.resize([-1.0, 1, 1, 0.2], users)
    return np.full(users, float(kind))


def check(
    epsilon: float, kind: str, runs: int, users: int, stream: Any, deviations: float
) -> None:
    m = fastdp.LocalMean.from_epsilon(epsilon, bounds=(-1, 1))
    x = numbers(kind, users)
    reports = m.release(np.tile(x, (runs, 1)), stream=stream)
    found = [m.estimate(row) for row in reports]
    means = np.array([est.mean for est in found])
    # Given the numbers: the mean of the variances of their reports.
    variance = float(np.mean(m._windows.variance(x))) / users
    error = (variance / runs) ** 0.5
    assert abs(means.mean() - x.mean()) < deviations * error
    ratio = means.var(ddof=1) / variance
    assert abs(ratio - 1) < deviations * (2 / runs) ** 0.5
    # The reports themselves, of one number each: to 3 %.
    values = np.array(m._windows.values, float)[reports]
    within = values.var(axis=0).mean() * runs / (runs - 1)
    assert abs(within / (variance * users) - 1) < 0.03
    stated = np.array([est.standard_error for est in found])
    assert (stated**2).mean() > variance * 0.98
    assert (stated <= m.standard_error(users) * 1.0001).all()
    if kind not in ("spread", "ends"):
        assert abs((stated**2).mean() / variance - 1) < 0.02
    ends = np.array([est.confidence_interval(0.95) for est in found])
    covered = ((ends[:, 0] <= x.mean()) & (x.mean() <= ends[:, 1])).mean()
    assert covered > 0.95 - deviations * (0.05 * 0.95 / runs) ** 0.5 - 0.003


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", ["spread", "ends", "0.3"])
def test_runs(epsilon: float, kind: str) -> None:
    check(epsilon, kind, 400, 2_000, FixedStream(f"mean {epsilon} {kind}"), 4)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", ["spread", "ends", "0.3", "-1", "1", "0"])
def test_2000_runs(epsilon: float, kind: str) -> None:
    check(epsilon, kind, 2_000, 20_000, None, 6.5)
