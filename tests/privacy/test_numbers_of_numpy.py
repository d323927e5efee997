"""Counts given as numpy's integers: their products wrap around, Python's do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.accounting import NeighboringRelation
from fastdp.mechanisms._base import Mechanism

REPLACE = NeighboringRelation.REPLACE_ONE

#: Made from one count n, which every sensitivity here rises with.
MADE: dict[str, Callable[[Any], Mechanism]] = {
    "ClippedSum rows, sigma": lambda n: fastdp.ClippedSum(
        sigma=1e3, radius=1, dimension=3, norm=2, rows_per_unit=n
    ),
    "ClippedSum rows, replaced": lambda n: fastdp.ClippedSum(
        scale=1e3,
        radius=1,
        dimension=3,
        norm=1,
        blocks=200,
        rows_per_unit=n,
        neighboring_relation=REPLACE,
    ),
    "ClippedSum rows, from_rho": lambda n: fastdp.ClippedSum.from_rho(
        1, radius=1, dimension=3, rows_per_unit=n
    ),
    "ClippedSum shape, from_epsilon_delta": lambda n: (
        fastdp.ClippedSum.from_epsilon_delta(
            epsilon=1,
            delta=1e-6,
            radius=1,
            dimension=n,
            blocks=n,
            constant=1,
            rows_per_unit=n,
        )
    ),
    "ClippedSum dimension": lambda n: fastdp.ClippedSum(
        sigma=1e3, radius=1, dimension=n, norm="inf"
    ),
    "ClippedSum changed": lambda n: fastdp.ClippedSum(
        scale=1e3, radius=1, dimension=200, norm="inf", changed=n, blocks=n
    ),
    "Moments groups": lambda n: fastdp.Moments(
        sigma=1e3, bounds=(0, 1), groups=n, groups_per_unit=n
    ),
    "Moments records": lambda n: fastdp.Moments(
        sigma=1e3, bounds=(0, 1), records_per_group=n, neighboring_relation=REPLACE
    ),
    "Moments from_rho": lambda n: fastdp.Moments.from_rho(
        1, bounds=(0, 1), records_per_group=n
    ),
    "UnknownHistogram": lambda n: fastdp.UnknownHistogram(
        sigma=30, threshold=1000, keys_per_user=n, records_per_key=n
    ),
    "UnknownHistogram, truncated": lambda n: fastdp.UnknownHistogram(
        scale=100, bound=n, keys_per_user=n, records_per_key=n
    ),
    "UnknownHistogram.from_rho_delta": lambda n: fastdp.UnknownHistogram.from_rho_delta(
        rho=1, delta=1e-6, keys_per_user=n, records_per_key=n
    ),
    "KeySelection": lambda n: fastdp.KeySelection(
        epsilon=1, delta=1e-6, keys_per_user=n, neighboring_relation=REPLACE
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_small_integer_type_costs_what_the_integer_does(name: str) -> None:
    # 100**2 is 16 for an int8, and 2 * 100 is -56.
    plain, small = MADE[name](100), MADE[name](np.int8(100))
    assert small == plain
    assert repr(small) == repr(plain)
    assert small.event() == plain.event()
