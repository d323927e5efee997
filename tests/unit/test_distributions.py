"""The discrete laws against 60-digit values, and their edges."""

import math
import pickle
from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    TruncatedDiscreteLaplace,
)
from fastdp.exceptions import DTypeError, ParameterError

LAWS = [
    DiscreteLaplace(0.2),
    DiscreteLaplace(10),
    DiscreteGaussian(0.3),
    DiscreteGaussian(1),
    DiscreteGaussian(40.5),
    TruncatedDiscreteLaplace(3, bound=10),
    TruncatedDiscreteLaplace(1e9, bound=4),
    TruncatedDiscreteLaplace(2, bound=0),
]


def close(got, true):
    """Check 1e-13 relatively; below the normal range only the size matters."""
    if true < mp.mpf("1e-300"):
        return 0 <= got < 1e-299
    return abs(mp.mpf(float(got)) / true - 1) < 1e-13


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.1, 1, 10, 1e6, 2.0**40, 2.0**55])
def test_laplace_is_accurate_in_the_far_tail(scale):
    law = DiscreteLaplace(scale)
    with mp.workdps(80):
        t = mp.mpf(scale)
        q = mp.exp(-1 / t)
        steps = [0, 1, 2, 7, 3.3 * scale, 100 * scale + 3, 690 * scale]
        for k in {int(s) for s in steps if s < 2**63 - 2}:
            x = np.int64(k)
            assert close(law.pmf(x), (1 - q) / (1 + q) * q**k)
            assert close(law.sf(x), q ** (k + 1) / (1 + q))
            assert close(law.cdf(-x - 1), q ** (k + 1) / (1 + q))
            assert close(law.cdf(x), 1 - q ** (k + 1) / (1 + q))
            true = -(k + 1) / t - mp.log1p(q)
            assert abs(law.logsf(x) - true) <= 1e-15 * abs(true)
            true = -k / t + mp.log((1 - q) / (1 + q))
            assert abs(law.logpmf(x) - true) <= 2e-15 * abs(true) + 1e-300
        # The variance to 1e-13 as well, where it is not 0.
        assert abs(law.var() - 2 * q / (1 - q) ** 2) <= 1e-13 * law.var() + 1e-300


def theta(sigma, start, stop):
    s = mp.mpf(sigma)
    return mp.fsum(mp.exp(-(mp.mpf(j) ** 2) / (2 * s * s)) for j in range(start, stop))


@pytest.mark.parametrize("sigma", [1e-3, 0.05, 0.3, 0.9, 1, 1.7, 10, 31.9, 32.1, 120])
def test_gaussian_is_accurate_in_the_far_tail(sigma):
    law = DiscreteGaussian(sigma)
    with mp.workdps(50):
        reach = int(16 * sigma) + 2
        z = 1 + 2 * theta(sigma, 1, reach)
        for k in {int(y * sigma) for y in (0, 0.5, 1, 3, 10, 37)}:
            tail = theta(sigma, k + 1, k + 2 + reach) / z
            x = np.int64(k)
            assert close(law.pmf(x), theta(sigma, k, k + 1) / z)
            assert close(law.sf(x), tail)
            assert close(law.cdf(-x - 1), tail)
            assert abs(law.logsf(x) - mp.log(tail)) <= 1e-14 * abs(mp.log(tail))
        squares = 2 * mp.fsum(j * j * theta(sigma, j, j + 1) for j in range(1, reach))
        assert abs(law.var() - squares / z) <= 1e-13 * law.var() + 1e-300


@pytest.mark.parametrize("sigma", [1e5, 2.0**40, 2.0**55])
def test_large_gaussian_tails_are_normal_tails_with_the_half_step(sigma):
    law = DiscreteGaussian(sigma)
    for y in [0, 0.1, 1, 8, 30]:
        k = int(y * sigma)
        # The midpoint rule errs by f'/24: 1e-11 relatively for 1e5 at 30 sigma.
        with mp.workdps(40):
            true = mp.erfc((mp.mpf(k) + mp.mpf("0.5")) / sigma / mp.sqrt(2)) / 2
            assert abs(mp.mpf(float(law.sf(np.int64(k)))) / true - 1) < 1e-13 + (
                (y + 1) ** 2 / sigma**2
            )


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_masses_add_up_and_tails_agree(law):
    x = np.arange(-4000, 4001)
    pmf = law.pmf(x)
    assert math.fsum(pmf) == pytest.approx(1, abs=1e-14)
    assert np.allclose(np.cumsum(pmf), law.cdf(x), rtol=0, atol=1e-13)
    assert np.allclose(law.cdf(x) + law.sf(x), 1, rtol=0, atol=2e-16)
    assert np.array_equal(law.sf(x), law.cdf(-x - 1))
    assert law.var() == pytest.approx(math.fsum(pmf * x * x), rel=1e-12)
    assert law.mean() == 0.0
    assert law.std() == math.sqrt(law.var())
    with np.errstate(divide="ignore"):
        for got, of in [
            (law.logpmf(x), pmf),
            (law.logcdf(x), law.cdf(x)),
            (law.logsf(x), law.sf(x)),
        ]:
            seen = of > 1e-290
            assert np.allclose(got[seen], np.log(of[seen]), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_points_off_the_lattice(law):
    odd = np.array([0.5, -1.5, np.nan, np.inf, -np.inf])
    assert np.array_equal(law.pmf(odd), np.zeros(5))
    assert np.array_equal(law.logpmf(odd), np.full(5, -np.inf))
    expected = [law.cdf(0), law.cdf(-2), np.nan, 1.0, 0.0]
    assert np.array_equal(law.cdf(odd), expected, equal_nan=True)
    expected = [law.sf(0), law.sf(-2), np.nan, 0.0, 1.0]
    assert np.array_equal(law.sf(odd), expected, equal_nan=True)
    assert law.logcdf(-np.inf) == -np.inf
    assert law.logsf(np.inf) == -np.inf


@pytest.mark.parametrize("law", LAWS, ids=repr)
@given(q=st.floats(1e-300, 1, exclude_max=True))
@settings(max_examples=20, deadline=None)
def test_quantiles_are_the_least_integers(law, q):
    # In the half above the middle the other tail is the exact statement.
    k = law.ppf(q)
    if q > 0.5:
        assert law.sf(k) <= 1 - q < law.sf(k - 1)
    else:
        assert law.cdf(k - 1) < q <= law.cdf(k)
    k = law.isf(q)
    if q > 0.5:
        assert law.cdf(k - 1) < 1 - q <= law.cdf(k)
    else:
        assert law.sf(k) <= q < law.sf(k - 1)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("level", [0.001, 0.5, 0.9, Decimal("0.95"), 1 - 1e-12])
def test_interval_is_the_least_that_covers(law, level):
    low, high = law.interval(level)
    assert low == -high
    assert 2 * law.sf(high) <= 1 - float(level) + 1e-16
    if high > 0:
        assert 2 * law.sf(high - 1) > 1 - float(level) - 1e-16


def test_quantile_edges():
    law = DiscreteLaplace(10)
    assert np.array_equal(law.ppf([0, 1]), [-np.inf, np.inf])
    assert np.array_equal(law.isf([0, 1]), [np.inf, -np.inf])
    assert np.all(np.isnan(law.ppf([-0.1, 1.1, np.nan])))
    cut = TruncatedDiscreteLaplace(3, bound=10)
    assert np.array_equal(cut.ppf([0, 1]), [-11, 10])
    assert np.array_equal(cut.isf([0, 1]), [10, -11])
    for bad in [0, 1, -1, math.nan]:
        with pytest.raises(ParameterError, match="level"):
            law.interval(bad)


def test_shapes_and_scalars():
    law = DiscreteGaussian(2)
    assert isinstance(law.pmf(3), np.float64)
    assert law.sf(np.zeros((2, 0, 3), dtype=np.int8)).shape == (2, 0, 3)
    assert law.ppf([[0.1, 0.9]]).shape == (1, 2)
    same = law.pmf(np.array([1, -2], dtype=np.int64))
    for dtype in (np.int8, np.float32, np.float64):
        assert np.array_equal(law.pmf(np.array([1, -2], dtype=dtype)), same)
    assert law.pmf(np.uint64(2)) == law.pmf(2)
    for bad in [True, "1", None, 1j]:
        with pytest.raises(DTypeError):
            law.pmf(bad)


def test_every_int64_is_told_apart():
    law = DiscreteLaplace(2**50)
    top = 2**62
    step = law.logpmf(np.int64(top)) - law.logpmf(np.int64(top + 2**14))
    assert step == pytest.approx(2.0**-36, rel=1e-3)
    ends = np.array([-(2**63), 2**63 - 1])
    assert np.all(law.pmf(ends) == 0.0)
    assert np.array_equal(law.cdf(ends), [0.0, 1.0])
    assert law.sf(np.uint64(2**64 - 1)) == 0.0


def test_parameters_are_exact_and_checked():
    assert DiscreteLaplace(Decimal("0.1")).scale == Fraction(1, 10)
    assert DiscreteLaplace(1e-6).scale == Fraction(1e-6)
    assert DiscreteGaussian(Fraction(1, 1000)).sigma == Fraction(1, 1000)
    for law in (DiscreteLaplace, DiscreteGaussian):
        for bad in [0, -1, math.nan, math.inf, 1e-7, 2.0**56]:
            with pytest.raises(ParameterError):
                law(bad)
        for bad in [True, "1", None]:
            with pytest.raises(DTypeError):
                law(bad)
    with pytest.raises(ParameterError, match="bound"):
        TruncatedDiscreteLaplace(1, bound=-1)
    with pytest.raises(DTypeError, match="bound"):
        TruncatedDiscreteLaplace(1, bound=3.0)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_objects_are_values(law):
    again = eval(repr(law))  # noqa: S307 - our own repr
    assert again == law
    assert hash(again) == hash(law)
    assert pickle.loads(pickle.dumps(law)) == law
    assert law != DiscreteLaplace(Fraction(1, 3))
    with pytest.raises(AttributeError):
        law.scale = 3
