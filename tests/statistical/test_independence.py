"""Outputs of one call, of neighboring chunks and of different calls: independent.

n = 4e6 a test, alpha = 5e-10 (family 1e-7). Correlations have standard deviation
n**-0.5 = 5e-4, so the power is 0.99 against a correlation of 0.0041; tables of
neighbors (25 cells) against one cell in 25 that is 8 % too frequent.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fastdp
from fastdp import _laws
from fastdp.distributions import DiscreteGaussian, DiscreteLaplace
from tests.statistical.bins import ALPHA, p_value, power

N = 4_000_000
LAWS: list[tuple[str, Callable[..., Any], Callable[..., Any], Any]] = [
    ("laplace", fastdp.random.discrete_laplace, DiscreteLaplace, 10),
    ("laplace", fastdp.random.discrete_laplace, DiscreteLaplace, 10**6),
    ("gaussian", fastdp.random.discrete_gaussian, DiscreteGaussian, 10),
    ("gaussian", fastdp.random.discrete_gaussian, DiscreteGaussian, 10**6),
]
each_law = pytest.mark.parametrize(
    ("family", "draw", "law", "parameter"), LAWS, ids=lambda v: str(v)[:8]
)


def chunk_of(family: str, parameter: Any) -> int:
    sampler = getattr(_laws, f"{family}_sampler")
    return int(sampler(Fraction(parameter)).chunk_outputs)


def two_sided(z: float) -> float:
    return 2 * float(stats.norm.sf(abs(z)))


def cells(law: Any) -> tuple[np.ndarray, np.ndarray]:
    """Cut the law at about its fifths: edges and exact probabilities."""
    edges = np.array([int(law.ppf(k / 5)) for k in (1, 2, 3, 4)])
    below = [0.0, *(float(law.cdf(int(e))) for e in edges), 1.0]
    return edges, np.diff(below)


def paired(
    law: Any, first: np.ndarray, second: np.ndarray, least: float = 0.99
) -> float:
    """Return the p-value of a table of pairs under independence, exact margins."""
    edges, margin = cells(law)
    table = np.outer(margin, margin).reshape(-1)
    other = table.copy()
    other[0] *= 1.08
    assert power(table, other / other.sum(), first.size) >= least
    place = 5 * np.searchsorted(edges, first) + np.searchsorted(edges, second)
    return p_value(np.bincount(place, minlength=25), table)


@each_law
def test_neighbors(family: str, draw: Any, law: Any, parameter: Any) -> None:
    x = draw(parameter, size=N)
    assert paired(law(parameter), x[0::2], x[1::2]) > ALPHA


@each_law
def test_same_place_in_neighboring_chunks(
    family: str, draw: Any, law: Any, parameter: Any
) -> None:
    x = draw(parameter, size=N)
    size = chunk_of(family, parameter)
    rows = x[: x.size // (2 * size) * 2 * size].reshape(-1, 2, size)
    first, second = rows[:, 0].reshape(-1), rows[:, 1].reshape(-1)
    assert paired(law(parameter), first, second) > ALPHA


@each_law
def test_the_two_sides_of_a_chunk_boundary(
    family: str, draw: Any, law: Any, parameter: Any
) -> None:
    """1000 boundaries, 32 outputs on either side: the k-th before, the k-th after."""
    size = chunk_of(family, parameter)
    x = draw(parameter, size=1001 * size)
    ends = np.arange(1, 1001)[:, None] * size
    k = np.arange(32)
    before, after = x[ends - 1 - k].reshape(-1), x[ends + k].reshape(-1)
    assert paired(law(parameter), before, after, least=0) > ALPHA


@each_law
def test_two_calls(family: str, draw: Any, law: Any, parameter: Any) -> None:
    first, second = draw(parameter, size=N // 2), draw(parameter, size=N // 2)
    assert paired(law(parameter), first, second) > ALPHA


@each_law
def test_correlation_at_many_distances(
    family: str, draw: Any, law: Any, parameter: Any
) -> None:
    x = draw(parameter, size=N) / law(parameter).var() ** 0.5
    size = chunk_of(family, parameter)
    for distance in (1, 2, 4, 8, 16, 64, 1024, size):
        pairs = N - distance
        z = float(x[:pairs] @ x[distance:]) / pairs**0.5
        assert two_sided(z) > ALPHA, distance


@each_law
def test_sizes_are_not_correlated(
    family: str, draw: Any, law: Any, parameter: Any
) -> None:
    """Whether one value is large says nothing of the sign or size of the next."""
    exact = law(parameter)
    cut = int(exact.ppf(0.75))
    share = 2 * float(exact.sf(cut))
    x = draw(parameter, size=N)
    large = (np.abs(x) > cut) - share
    sign = np.sign(x) / (1 - float(exact.pmf(0))) ** 0.5
    scaled = large / (share * (1 - share)) ** 0.5
    for other in (scaled, sign):
        z = float(scaled[:-1] @ other[1:]) / (N - 1) ** 0.5
        assert two_sided(z) > ALPHA
