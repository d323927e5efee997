"""Rows as integers: every level equals the reference, whatever the rows hold."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp.training import GradientSum
from tests.reference import clipped_sum as reference

HOSTILE = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    5e-324,
    -2.2e-308,
    1e-200,
    1e200,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    2.0**-75,
    2.0**125,
]


def mechanism(norm, dimension, radius=1.0, bits=29, changed=None):
    noise = {"scale": 1} if norm == 1 else {"sigma": 1}
    return fastdp.ClippedSum(
        **noise,
        radius=radius,
        dimension=dimension,
        norm=norm,
        granularity=Fraction(1, 2**bits),
        changed=changed,
    )


def rows_of(dimension, dtype, n=400):
    rng = np.random.default_rng(dimension)
    x = rng.normal(size=(n, dimension)) * 10.0 ** rng.uniform(-5, 5, (n, 1))
    x[: n // 4] /= np.maximum(np.linalg.norm(x[: n // 4], axis=1), 1e-9)[:, None]
    spoiled = rng.random((n // 8, dimension)) < 0.3
    x[-(n // 8) :][spoiled] = rng.choice(HOSTILE, int(spoiled.sum()))
    x[0], x[1] = 0.0, HOSTILE[9]
    with np.errstate(over="ignore"):
        return x.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dimension", [1, 2, 7, 8, 9, 16, 31, 32, 50])
@pytest.mark.parametrize("norm", [1, 2, "inf"])
def test_levels_equal_the_reference(level, norm, dimension, dtype):
    for bits in (3, 29):
        m = mechanism(norm, dimension, bits=bits)
        x = rows_of(dimension, dtype)
        want = [
            reference.clip(row, 1.0, 2.0**-bits, norm, single=dtype is np.float32)
            for row in x.astype(np.float64).tolist()
        ]
        np.testing.assert_array_equal(m.clip(x), want)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dimension", [1, 7, 31, 32, 45, 130])
@pytest.mark.parametrize("norm", [1, 2, "inf"])
def test_sums_equal_those_of_the_rows(level, norm, dimension, dtype):
    """Sums add rows before they are settled; `clip` settles each by itself."""
    for bits in (3, 29):
        x = rows_of(dimension, dtype, n=403)
        m = mechanism(norm, dimension, bits=bits)
        z = m.clip(x)
        np.testing.assert_array_equal(m.accumulator().add(x)._exact(), [z.sum(axis=0)])
        labels = np.arange(len(x)) // 3 % 5 - 1
        blocks = fastdp.ClippedSum(**dict(m._arguments), blocks=3)
        want = [z[labels == i].sum(axis=0) for i in range(3)]
        total = blocks.accumulator().add(x, labels=labels)
        np.testing.assert_array_equal(total._exact(), want)
        count = [(labels == i).sum() for i in range(3)]
        np.testing.assert_array_equal(total._totals[0].exact().ravel(), count)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("radius", [1.0, [1.0, 0.5, 0.25]])
def test_gradients_equal_the_reference(level, radius, dtype):
    sizes, step = [3, 33, 1], 2.0**-29
    m = GradientSum(
        sigma=1, radius=radius, shapes=[(n,) for n in sizes], granularity=step
    )
    x = rows_of(37, dtype, n=203)
    parts = np.split(x, np.cumsum(sizes)[:-1], axis=1)
    want, single = np.zeros(37, np.int64), dtype is np.float32
    for row in x[np.isfinite(x).all(axis=1)].astype(np.float64).tolist():
        if radius == 1.0:
            z = reference.clip(row, 1.0, step, 2, single=single, parts=sizes)
        else:
            alone = np.split(np.array(row), np.cumsum(sizes)[:-1])
            z = [
                entry
                for part, r in zip(alone, radius, strict=True)
                for entry in reference.clip(part.tolist(), r, step, 2, single=single)
            ]
        want += z
    totals = m.accumulator().add(parts)._totals
    got = np.concatenate([total.exact().ravel() for total in totals])
    np.testing.assert_array_equal(got, want)


def test_entries_beyond_the_changed_ones_vanish(level):
    m = mechanism("inf", 9, bits=3, changed=2)
    x = rows_of(9, np.float64)
    z = m.clip(x)
    assert (np.count_nonzero(z, axis=1) <= 2).all()
    want = [reference.clip(row, 1.0, 0.125, "inf", changed=2) for row in x.tolist()]
    np.testing.assert_array_equal(z, want)


@pytest.mark.parametrize("norm", [1, 2, "inf"])
@pytest.mark.parametrize("radius", [1.0, 0.7, Fraction(1, 3), 1e-260, 1e260])
def test_no_row_is_outside_its_bound(norm, radius):
    """All pairs and triples of hostile entries, and every scale of random rows."""
    noise = {"scale": 1} if norm == 1 else {"sigma": 1}
    step = 2.0 ** (int(np.log2(float(radius))) - 28)
    m = fastdp.ClippedSum(
        **{name: value * float(radius) for name, value in noise.items()},
        radius=radius,
        dimension=3,
        norm=norm,
        granularity=step,
    )
    x = np.array(list(itertools.product(HOSTILE, repeat=3)))
    random = np.random.default_rng(0).normal(size=(2000, 3))
    x = np.concatenate([x, random * 10.0 ** np.linspace(-320, 300, 2000)[:, None]])
    exact = Fraction(radius) / Fraction(step)
    for z in m.clip(x).tolist():
        if norm == 2:
            assert sum(v * v for v in z) <= exact**2
        elif norm == 1:
            assert sum(map(abs, z)) <= exact
        else:
            assert max(map(abs, z)) <= exact


def test_rounding_outside_is_truncated():
    m = mechanism(2, 2, bits=4)
    np.testing.assert_array_equal(m.clip(np.array([[3.0, 4.0]])), [[9, 12]])
    inside = np.array([[0.6, 0.8]])  # rounds to (10, 13), of square 269 > 256
    np.testing.assert_array_equal(m.clip(inside), [[9, 12]])
