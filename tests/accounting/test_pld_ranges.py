"""Steps of bounded range as Gaussian noise: the inequality of theorem 20, its order."""

import math
import random
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from fastdp.accounting import (
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceEvent,
    PLDAccountant,
    RDPAccountant,
)
from fastdp.accounting._pld.interval_loss import LaplaceLoss
from fastdp.accounting._pld.losses import GaussianLoss
from fastdp.accounting._pld.ranges import (
    _absorbed,
    _largest,
    _laws,
    _points,
    _worst_case,
    as_gaussian,
)


def gaussian_delta(square, epsilon):
    mu = mp.sqrt(square)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(
        -mu / 2 - epsilon / mu
    )


def excess(range_, top, square, shares):
    """Return the largest ratio of the profiles of both sides, less 1.

    The step has the losses top and top - range_, and the other side Gaussian noise of
    `shares` of what theorem 20 grants.
    """
    range_, top, square = mp.mpf(range_), mp.mpf(top), mp.mpf(square)
    p = mp.expm1(range_ - top) / (mp.exp(range_ - top) - mp.exp(-top))
    half = range_**2 / 4
    more = shares * half / (1 - half / square)
    worst = -mp.inf
    scale = mp.sqrt(square + more)
    for k in range(-10, 41, 5):
        e = square / 2 + k * scale / 4
        both = p * gaussian_delta(square, e - top)
        both += (1 - p) * gaussian_delta(square, e - top + range_)
        worst = max(worst, both / gaussian_delta(square + more, e) - 1)
    return worst


def test_a_step_and_noise_are_below_more_noise():
    draw = random.Random(20)
    with mp.workdps(60):
        for _ in range(8):
            range_ = 10 ** draw.uniform(-3, 0.6)
            top = range_ * draw.choice((0.5, draw.uniform(0.01, 0.99)))
            square = range_**2 / 4 * 2 * 10 ** draw.choice((0, draw.uniform(0, 4)))
            assert excess(range_, top, square, 1) <= 1e-25
        # A tenth less is seen to be too little.
        assert excess(0.01, 0.005, 100 * 0.01**2 / 4, 0.9) > 1e-3


def test_squares_cover_every_order():
    draw = random.Random(21)
    for _ in range(200):
        steps = [10 ** draw.uniform(-4, 0) for _ in range(draw.randint(1, 80))]
        start = draw.choice((2, 2.5, 4, 30)) * max(steps)
        bound = _absorbed(start, math.fsum(steps), max(steps))
        for order in (sorted(steps), sorted(steps, reverse=True), steps):
            square = start
            for one in order:
                square /= 1 - one / square
            assert square <= bound
        assert bound <= start + 4 * sum(steps)


def test_steps_that_are_left_alone():
    wide, few = LaplaceLoss(Fraction(5), ends=False), LaplaceLoss(Fraction(1), False)
    assert as_gaussian(((wide, 1000),)) is None
    assert as_gaussian(((few, 5),)) is None
    assert as_gaussian(((LaplaceLoss(Fraction(1)), 1000),)) is None
    released = GaussianLoss(1.0)
    assert as_gaussian(((few, 1), (released, 1))) is None
    # Released noise stays what it is, and does not change what is granted.
    kept, (granted, count) = as_gaussian(((few, 50), (released, 1)))
    assert kept == (released, 1)
    assert count == 1
    assert as_gaussian(((few, 50),)) == ((granted, 1),)


def adaptive_delta(square, range_, e):
    """Return delta of released Gaussian noise and then one selection chosen with it.

    At each loss s of the noise the selection has the worst profile of its range.
    """
    r = mp.mpf(range_)

    def worst(y):
        if y >= r:
            return mp.mpf(0)
        if y <= -r:
            return -mp.expm1(y)
        return (mp.exp(r / 2) - mp.exp(y / 2)) ** 2 / mp.expm1(r)

    def density(s):
        return mp.npdf(s, mp.mpf(square) / 2, mp.sqrt(square))

    inside = mp.quad(lambda s: density(s) * worst(e - s), [e - r, e, e + r])
    return inside + gaussian_tail(square, e, e + r)


def gaussian_tail(square, e, start):
    """Return the integral of the loss's density times 1 - e^(e - s) over s > start."""
    mu = mp.sqrt(square)
    above = mp.ncdf((mp.mpf(square) / 2 - start) / mu)
    return above - mp.exp(e) * mp.ncdf((-mp.mpf(square) / 2 - start) / mu)


@pytest.mark.parametrize(("square", "range_"), [(1, 0.5), (4, 1), (16, 2), (0.25, 0.1)])
@pytest.mark.parametrize("e", [0.5, 1, 2, 4])
def test_a_selection_chosen_with_noise_in_view_is_covered(square, range_, e):
    accountant = PLDAccountant().compose(
        GaussianEvent(sensitivity=1, sigma=1 / math.sqrt(square))
    )
    accountant = accountant.compose(ExponentialMechanismEvent(Fraction(str(range_))))
    found = accountant.delta_bounds(e)
    truth = float(adaptive_delta(square, range_, e))
    assert truth <= found.upper * (1 + 1e-12)
    assert found.upper <= truth * (1 + 1e-9)
    assert found.lower <= truth * (1 + 1e-9)


def worst_responses(range_, count, epsilon):
    """Return the largest delta of equal steps of two losses."""
    found = 0.0
    shares = np.linspace(0.3, 0.8, 51) if count <= 10**4 else [0.49, 0.5, 0.51]
    for top in np.array(shares) * range_:
        p = math.expm1(range_ - top) / (math.exp(range_ - top) - math.exp(-top))
        k = np.arange(count + 1)
        loss = k * top + (count - k) * (top - range_)
        gain = -np.expm1(np.minimum(epsilon - loss, 0))
        found = max(found, float(stats.binom.pmf(k, count, p) @ gain))
    return found


@pytest.mark.parametrize(
    ("range_", "count", "delta", "width"),
    [
        (Fraction(1, 50), 1000, 1e-6, 8e-3),
        (Fraction(1, 50), 1000, 1e-1, 4e-2),
        (Fraction(1, 300), 10**5, 1e-6, 1.5e-4),
        (Fraction(3, 10), 100, 1e-6, 8e-2),
    ],
)
def test_many_choices_are_read_closely(range_, count, delta, width):
    step = ExponentialMechanismEvent(range_)
    found = PLDAccountant().compose(step, count=count).epsilon_bounds(delta)
    assert worst_responses(float(range_), count, found.upper) <= delta
    assert found.upper - found.lower <= width * found.upper


def test_choices_beside_noise():
    accountant = PLDAccountant().compose(GaussianEvent(sensitivity=1, sigma=1))
    accountant = accountant.compose(ExponentialMechanismEvent(Fraction(1, 10)))
    plain = accountant.epsilon_bounds(1e-6)
    checked = accountant.epsilon_bounds(1e-6, check=True)
    assert plain.upper - plain.lower <= 5e-4 * plain.upper
    assert checked.lower <= plain.upper
    assert plain.lower <= checked.upper
    # p delta(e - t) + (1 - p) delta(e - t + r), the largest over t
    range_, e = 0.1, plain.upper
    worst = 0.0
    for top in np.linspace(0, range_, 42)[1:-1]:
        p = math.expm1(range_ - top) / (math.exp(range_ - top) - math.exp(-top))
        both = p * gaussian_delta(1, e - top)
        worst = max(worst, both + (1 - p) * gaussian_delta(1, e - top + range_))
    assert worst <= 1e-6
    log_delta = accountant.ln_delta_bounds(plain.upper)
    assert log_delta.upper - log_delta.lower <= 2e-2
    mixed = accountant.compose(LaplaceEvent(sensitivity=1, scale=2))
    assert mixed.epsilon(1e-6) >= plain.lower


# ---- theorem 21 ----------------------------------------------------------------------


def worst_choices(range_, count, levels, points=400):
    """Return h_count(levels) by every t of a grid: lower bounds, without a lattice."""
    r = float(range_)
    t = np.linspace(0, r, points + 1)
    p = np.expm1(r - t) * np.exp(t) / math.expm1(r)

    def h(level, k):
        if k == 0:
            return np.maximum(-np.expm1(level), 0.0)
        ends = level[:, None] - t
        return (p * h_flat(ends, k - 1) + (1 - p) * h_flat(ends + r, k - 1)).max(axis=1)

    def h_flat(level, k):
        return h(level.ravel(), k).reshape(level.shape)

    return h(np.asarray(levels, float), count)


@pytest.mark.parametrize("range_", ["0.05", "0.5", "3"])
def test_two_choices_are_bracketed(range_):
    r = Fraction(range_)
    accountant = PLDAccountant().compose(ExponentialMechanismEvent(r), count=2)
    epsilons = float(r) * np.array([0, 0.1, 0.5, 1, 1.5])
    truth = worst_choices(r, 2, epsilons)
    for epsilon, worst in zip(epsilons.tolist(), truth.tolist(), strict=True):
        found = accountant.delta_bounds(epsilon)
        assert worst <= found.upper * (1 + 1e-12)
        assert found.lower <= worst * (1 + 1e-4)
        assert found.upper <= worst * (1 + 5e-3)


@pytest.mark.parametrize(
    ("range_", "count", "epsilon", "truth"),
    [
        ("0.5", 8, 2.12, (7.722950383e-4, 7.724812768e-4)),
        ("0.5", 16, 3, (1.610571478e-3, 1.610970411e-3)),
        ("1", 10, 4.74, (4.997475761e-3, 4.998799197e-3)),
    ],
)
def test_choices_alone_are_read_closely(range_, count, epsilon, truth):
    # The brackets are of an independent program.
    step = ExponentialMechanismEvent(Fraction(range_))
    accountant = PLDAccountant().compose(step, count=count)
    found = accountant.delta_bounds(epsilon)
    assert truth[0] <= found.upper
    assert found.lower <= truth[1]
    assert found.upper <= found.lower * (1 + 4e-4)


@pytest.mark.parametrize(
    ("range_", "count", "epsilon", "truth"),
    [
        ("0.2", 10, 2, (0.028240989, 0.028246315)),
        ("0.2", 50, 4, (1.1374231e-3, 1.1392113e-3)),
    ],
)
def test_choices_after_noise_are_read_closely(range_, count, epsilon, truth):
    accountant = PLDAccountant().compose(GaussianEvent(sensitivity=1, sigma=1))
    step = ExponentialMechanismEvent(Fraction(range_))
    found = accountant.compose(step, count=count).delta_bounds(epsilon)
    assert truth[0] <= found.upper
    assert found.lower <= truth[1]
    assert found.upper <= found.lower * (1 + 2e-4)


def test_a_cell_holds_every_choice():
    # Between two t of the lattice the curve is not above what is returned.
    draw = np.random.default_rng(21)
    for r, m in ((0.5, 3), (4.0, 5), (0.01, 2), (9.0, 1)):
        g, n = r / m, 2 * m
        t = g * np.arange(m + 1)
        p = np.expm1(t[::-1]) * np.exp(t) / math.expm1(r)
        rest = np.expm1(t) / math.expm1(r)
        loss = g * np.arange(-m, 3 * m + 1)
        a = np.exp(loss)
        # Some convex function of a: a mixture of (1 - a/b)_+.
        corners = np.exp(draw.uniform(-r, 2 * r, 5))
        weights = draw.dirichlet(np.ones(5))
        values = np.maximum(1 - np.divide.outer(a, corners), 0) @ weights
        most, choice = _largest(values, p, rest, n, g)
        for j in range(n):
            fine = np.linspace(0, r, 200 * m + 1)
            q = np.expm1(r - fine) * np.exp(fine) / math.expm1(r)
            mean = q * np.interp(np.exp(j * g - fine), a, values)
            mean += (1 - q) * np.interp(np.exp(j * g - fine + r), a, values)
            assert mean.max() <= most[j] * (1 + 1e-12)
            if g < 1:
                assert most[j] <= mean.max() * (1 + 1e-3)
            i = choice[j]
            lattice = p[i] * values[m + j - i] + rest[i] * values[2 * m + j - i]
            assert lattice <= mean.max() * (1 + 1e-12)


@pytest.mark.rest
@pytest.mark.parametrize(("range_", "count"), [("0.5", 3), ("2", 7), ("0.01", 60)])
def test_laws_are_beyond_both_values(range_, count):
    r = Fraction(range_)
    points = _points(count, 1)
    above, below = _laws(r, count, points)
    upper, power, size = _worst_case(float(r), count, points)
    level = float(r) / points * np.arange(upper.size)

    def profile(law, at):
        gain = -np.expm1(np.minimum(at[:, None] - law.losses, 0.0))
        return gain @ law.masses

    some = np.arange(0, np.flatnonzero(upper > 1e-280)[-1], max(1, upper.size // 50))
    assert (profile(above, level[some]) >= 0.99 * upper[some]).all()
    lower = power - size * np.exp(level)
    found = profile(below, level[some])
    assert (found <= upper[some]).all()
    deep = lower[some] > 1e-12
    assert found[deep] == pytest.approx(lower[some][deep], rel=1e-4)
    for law in (above, below):
        assert law.masses.sum() == pytest.approx(1, abs=1e-11)
        assert law.masses @ np.exp(-law.losses) == pytest.approx(1, abs=1e-11)
        assert (np.diff(law.losses) >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 5, 20, 100, 300])
@pytest.mark.parametrize("scale", [0.5, 2])
def test_choices_alone_have_narrow_epsilons(count, scale):
    step = ExponentialMechanismEvent(scale / math.sqrt(count))
    accountant = PLDAccountant().compose(step, count=count)
    for delta in (1e-2, 1e-6, 1e-12):
        found = accountant.epsilon_bounds(delta)
        assert found.upper - found.lower <= 1e-3 * found.upper


def test_a_second_range_leaves_lattices_for_the_first():
    both = ((Fraction(1, 10), 10), (Fraction(1), 100))
    exact, renyi = PLDAccountant(), RDPAccountant()
    for range_, count in both:
        exact.compose(ExponentialMechanismEvent(range_), count)
        renyi.compose(ExponentialMechanismEvent(range_), count)
    bounds = exact.epsilon_bounds(1e-5)
    assert bounds.upper - bounds.lower <= 1e-3 * bounds.upper
    assert bounds.upper < 0.96 * renyi.epsilon(1e-5)
