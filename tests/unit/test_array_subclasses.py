"""Arrays of numpy's subclasses are read as their elements: each once, by every thread.

A slice of a matrix, which sparse matrices give as sums, stays two-dimensional: parts of
it that threads take would be the same elements, released twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.testing import FixedStream

pytestmark = pytest.mark.filterwarnings("ignore")

N = 70_000
WHOLE = np.arange(N) % 50
REAL = WHOLE / 50
MECHANISMS: list[tuple[Any, np.ndarray]] = [
    (fastdp.DiscreteLaplace(1), WHOLE),
    (fastdp.Gaussian(1, granularity=0.5, coordinates=1), REAL),
    (fastdp.RandomizedResponse.from_epsilon(1, categories=2), WHOLE % 2),
    (fastdp.RandomizedResponse.from_epsilon(1, categories=50), WHOLE),
    (fastdp.UnaryEncoding.from_epsilon(1, categories=50), WHOLE[:9000]),
    (fastdp.LocalHashing.from_epsilon(1, categories=50), WHOLE),
    (fastdp.HadamardResponse.from_epsilon(1, categories=50), WHOLE),
    (fastdp.SubsetSelection.from_epsilon(1, categories=50), WHOLE[:9000]),
    (fastdp.VectorResponse.from_epsilon(1, dimension=2, words=4), REAL.reshape(-1, 2)),
]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("mechanism", "x"), MECHANISMS, ids=[type(m).__name__ for m, _ in MECHANISMS]
)
def test_matrices_are_released_as_arrays(
    mechanism: Any, x: np.ndarray, workers: int
) -> None:
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    matrix, stream = np.asmatrix(rows.copy()), FixedStream("subclasses")
    expected = mechanism.release(rows, stream=FixedStream("subclasses"))
    found = mechanism.release(matrix, stream=stream, workers=workers)
    assert np.array_equal(np.asarray(found), expected)
    assert np.array_equal(matrix, rows)
    if expected.ndim == 2:
        out = np.asmatrix(np.zeros_like(expected))
        stream = FixedStream("subclasses")
        mechanism.release(rows, stream=stream, workers=workers, out=out)
        assert np.array_equal(np.asarray(out), expected)


@pytest.mark.parametrize("workers", [1, 2])
def test_draws_into_a_matrix(workers: int) -> None:
    for draw in (
        lambda **how: fastdp.random.bernoulli(0.25, **how),
        lambda **how: fastdp.random.integers(0, 9, **how),
    ):
        expected = draw(size=(1, N), stream=FixedStream("draws"))
        out = np.asmatrix(np.zeros_like(expected))
        draw(out=out, stream=FixedStream("draws"), workers=workers)
        assert np.array_equal(np.asarray(out), expected)


def test_records_of_a_matrix() -> None:
    one, two = WHOLE[:900], np.asmatrix(WHOLE[:900])
    select = fastdp.Quantiles(0.5, epsilon=1, bounds=(0, 60))
    found = [select.release(x, stream=FixedStream("records")) for x in (one, two)]
    assert found[0] == found[1]
