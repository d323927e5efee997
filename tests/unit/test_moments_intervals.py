"""The reach of Laplace noises: docs/proofs/intervals.md, and coverage by it."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import fastdp
from fastdp import testing

FIRST = math.log(20) / math.sqrt(2)


def tail(squared, t):
    """P(|a X + b Y| > t), b**2 = squared a**2 < a**2, of variances 1 in all."""
    x = np.sqrt(2 * (1 + squared))
    small = squared * np.exp(-x * t / np.sqrt(squared))
    return (np.exp(-x * t) - small) / (1 - squared)


@pytest.mark.parametrize("level", [0.95, 0.975, 0.99, 0.999, 1 - 1e-9])
def test_two_noises_are_within_the_quantile_of_one(level):
    share = np.linspace(1e-4, 1 - 1e-4, 5001)
    reach = -math.log(1 - level) / math.sqrt(2)
    assert tail(share, reach).max() <= (1 - level) * (1 + 1e-9)
    equal = (1 + reach) * math.exp(-2 * reach)
    assert equal < 1 - level


def tail_of_three(v, w, t):
    """P(|X + sqrt(v) Y + sqrt(w) Z| > t), Laplace variables of variance 1."""
    squares = (1.0, v, w)
    found = 0.0
    for p in squares:
        others = [q for q in squares if q is not p]
        part = np.exp(-np.sqrt(2 / p) * t)
        for q in others:
            part = part * p / (p - q)
        found = found + part
    return found


def test_the_cells_of_the_proof():
    t, root = FIRST, math.sqrt(2)
    assert root * t * (math.sqrt(1.4) - 1) + math.log(0.6) > 0.038
    parts = 200
    i, j = np.meshgrid(np.arange(parts), np.arange(parts))
    cells = (j <= i) & (i + j + 2 >= 0.4 * parts)
    i, j = i[cells], j[cells]
    assert len(i) == 18_540
    v = (i + 1) / parts + np.where(i == parts - 1, 2e-4, 1e-4)  # no two are equal
    w = (j + 1) / parts + np.where(j == parts - 1, 1e-4, 0)
    bound = 20 * tail_of_three(v, w, t * np.sqrt(1 + i / parts + j / parts))
    assert bound.max() < 0.924
    shares = np.array([[0.5, 0.3], [0.9, 0.1], [0.7, 0.69]])
    exact = tail_of_three(*shares.T, np.float64(1.3))
    draws = np.random.default_rng(1).laplace(scale=root / 2, size=(3, 400_000))
    weights = np.sqrt(np.insert(shares, 0, 1, axis=1))
    found = np.mean(np.abs(weights @ draws) > 1.3, axis=1)
    assert np.abs(found - exact).max() < 0.004  # five standard errors


def test_the_rule_is_false_below():
    level = 0.9073
    t = max(NormalDist().inv_cdf((1 + level) / 2), -math.log(1 - level) / math.sqrt(2))
    assert (1 + t) * math.exp(-2 * t) > 1.001 * (1 - level)


@pytest.mark.parametrize("scale", [0.3, 1, 7, 1000])
def test_a_step_covers_the_lattice(scale):
    k = np.arange(60)
    above = 2 * np.exp(-(k + 1) / scale) / (1 + math.exp(-1 / scale))
    place = -scale * np.log(above)  # where a Laplace variable has this tail
    assert (k <= place + 1e-9).all()
    assert (place <= k + 1 + 1e-9).all()


@pytest.mark.rest
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("shape", ["central", "skewed", "far"])
def test_intervals_cover(level, shape):
    """10,000 groups are 10,000 runs; the stream is fixed."""
    groups, each = 10_000, 30
    value = {"central": 0.52, "skewed": 0.11, "far": 0.9}[shape]
    x = np.full(groups * each, value)
    m = fastdp.Moments.from_epsilon(10, bounds=(0, 1), groups=groups)
    key = bytes(range(32))
    with pytest.warns(fastdp.exceptions.InsecureStreamWarning):
        r = m.release(
            x,
            by=np.repeat(np.arange(groups), each),
            stream=testing.FixedStream(key),
        )
    spread = 4 * math.sqrt(level * (1 - level) / groups)
    most = level + 0.02 if level >= 0.95 else 1
    for found, truth in (
        (r.mean_interval(level), value),
        (r.sum_interval(level), value * each),
    ):
        low, high = found
        covered = np.mean((low <= truth) & (truth <= high))
        assert level - spread <= covered <= most + spread


def test_a_mean_is_narrower_than_by_each_noise():
    m = fastdp.Moments.from_epsilon(1, bounds=(-1, 1))
    release = fastdp.mechanisms.records._moments_release.MomentsRelease(
        m, np.array([[1e6], [1e6 * 0.99], [0.0]])
    )
    low, high = release.mean_interval(0.95)
    scale = float(m._parameter)
    apart = 2 * scale * math.log(40) * 1.99 / 1e6  # as it was
    assert 0.5 < (high - low) / apart < 0.6


@pytest.mark.parametrize("share", [0.01, 0.1, 1.0])
def test_variances_where_the_square_of_the_bounds_overflows(share):
    """The square of half was cut to the largest double: 1.8e306 in place of 1e308."""
    m = fastdp.Moments.from_epsilon(1, bounds=(-1e155, 1e155))
    release = fastdp.mechanisms.records._moments_release.MomentsRelease(
        m, np.array([[1e6], [0.0], [1e6 * (share - 0.5)]])
    )
    low, high = release.variance_interval(0.95)
    most = np.finfo(np.float64).max
    assert low <= 1e155 * (share * 1e155) <= high
    assert release.variance == pytest.approx(min(share * 1e155 * 1e155, most))
    assert low > most * 0.005
