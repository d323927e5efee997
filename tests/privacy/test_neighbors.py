"""No record decides an error, a warning, a type, an order or a name."""

from __future__ import annotations

import pytest

neighbors = pytest.importorskip("tests.privacy.neighbors")

#: Pairs of calls in a block; the slow run makes 50,000 calls.
QUICK, SLOW = 25, 1000


def compare(seed: int) -> None:
    pair = neighbors.Pair(seed)
    one, other = pair.shown()
    assert one == other, pair.name
    error = one[0]
    if isinstance(error, tuple) and len(error) == 4 and error[2:3] == ("None",):
        assert error[3], (pair.name, error[0])  # ours, not another library's


@pytest.mark.parametrize("block", range(8))
def test_neighbors_show_the_same(block: int) -> None:
    for seed in range(block * QUICK, (block + 1) * QUICK):
        compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(25))
def test_many_neighbors_show_the_same(block: int) -> None:
    for seed in range(10**6 + block * SLOW, 10**6 + (block + 1) * SLOW):
        compare(seed)
