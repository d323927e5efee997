"""A column's integers: every level equals the reference, whatever the column holds."""

import math

import numpy as np
import pytest

from fastdp import _core
from tests.reference.column import row

HOSTILE = [0.0, -0.0, 5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan, 0.3]


def sums(x, bounds, bits, groups=1, by=None):
    half = bounds[1] / 2 - bounds[0] / 2
    out = np.zeros((3, groups), np.int64)
    _core.column_moments((*bounds, bounds[0] + half, 1 / half, bits), x, by, *out)
    return out


def columns():
    rng = np.random.default_rng(1)
    x = rng.normal(size=3000) * 10.0 ** rng.uniform(-8, 3, 3000)
    x[::50] = rng.choice(HOSTILE, 60)
    return x


BOUNDS = [
    (-1.0, 1.0),
    (0.0, 0.3),
    (-1e308, 1e308),
    (-0.0, 2.0**-999),
    (2.0**53, 2.0**53 + 2),  # whose middle is no double
]


@pytest.mark.parametrize("bits", [1, 7, 30])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_every_level_gives_the_stated_integers(level, bounds, bits):
    x = columns()
    want = np.array([row(v, bounds, bits) for v in x.tolist()])
    np.testing.assert_array_equal(sums(x, bounds, bits)[:, 0], want.sum(axis=0))
    by = np.random.default_rng(2).integers(-1, 4, len(x))
    got = sums(x, bounds, bits, 3, by)
    for group in range(3):
        np.testing.assert_array_equal(got[:, group], want[by == group].sum(axis=0))
    with np.errstate(invalid="ignore"):
        whole = np.nan_to_num(np.clip(x, -1e4, 1e4) * 4).astype(np.int64)
    want = [row(float(v), bounds, bits) for v in whole.tolist()]
    np.testing.assert_array_equal(sums(whole, bounds, bits)[:, 0], np.sum(want, axis=0))


def test_halves_are_rounded_exactly(level):
    """Just below a half is 0, though added to a half it would be a double 1."""
    for bits in (1, 30):
        edge = 2.0 ** -(bits + 1)
        x = np.array([np.nextafter(edge, 0), edge, -edge, np.nextafter(-edge, -1)] * 2)
        want = np.sum([row(v, (-1.0, 1.0), bits) for v in x.tolist()], axis=0)
        assert want[1] == 0
        np.testing.assert_array_equal(sums(x, (-1.0, 1.0), bits)[:, 0], want)
        by = np.arange(8) % 4
        assert sums(x, (-1.0, 1.0), bits, 4, by)[1].tolist() == [0, 2, 0, -2]
