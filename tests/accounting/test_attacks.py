"""Every curve of sampled noise, attacked by tests whose rates have closed forms.

A test says that the record is present where at least j of the outputs are above t.
Both numbers are binomial, so both of its rates are known to many digits, at any depth.
No upper bound may be below what such a test reaches. Lower bounds are held to what is
known from above: of one step the best test, else that of the noise without sampling,
and the probability that the record is in any sample.
"""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binom

from fastdp.accounting import (
    DiscreteGaussianEvent,
    GaussianEvent,
    PLDAccountant,
    PoissonSampledEvent,
)
from fastdp.exceptions import UnsupportedEventError

#: What logarithms of rates, and exact truths, may err by.
ROUNDING = 1e-9

#: Points of each trade-off function that are looked at.
POINTS = 40

DELTAS = (1e-2, 1e-5, 1e-12, 1e-30)
SIGMAS = (
    *(0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.17),
    *(0.2, 0.6, 4.0),
)
RATES = (1e-8, 1e-4, 0.01, 0.05, 0.3, 0.9, 0.999)
COUNTS = (1, 20, 1000)


def normal(sigma):
    """Return logarithms of the masses above and below t of noise around c."""
    return lambda t, c: (log_ndtr((c - t) / sigma), log_ndtr((t - c) / sigma))


def discrete(sigma):
    place = np.arange(-40, 41)
    level = -(place**2) / (2 * sigma * sigma)
    level = level - logsumexp(level)

    def masses(t, c):
        above = (place + c)[None, :] > np.asarray(t)[:, None]
        with np.errstate(divide="ignore"):
            return (
                logsumexp(np.where(above, level, -np.inf), axis=1),
                logsumexp(np.where(above, -np.inf, level), axis=1),
            )

    return masses


def at_least(j, count, log_p, log_rest):
    """Return ln P(at least j of count), or a bound above it where that is tiny."""
    p, rest = np.exp(log_p), np.exp(log_rest)
    cdf = binom.cdf(count - j, count, rest)
    value = np.where(log_p < log_rest, binom.sf(j - 1, count, p), cdf)
    union = math.log(math.comb(count, j)) + j * log_p
    with np.errstate(divide="ignore"):
        return np.where(value > 1e-250, np.log(value), np.minimum(union, -570.0))


def rates(noise, places, q, count):
    """Return logarithms of four rates of all tests.

    Of saying present, and of saying absent, where the record is absent; then present.
    """
    zero, one = noise(places, 0), noise(places, 1)
    mixed = [
        np.logaddexp(math.log1p(-q) + a, math.log(q) + b)
        for a, b in zip(zero, one, strict=True)
    ]
    likely = math.ceil(count * q)
    least = {1, 2, 3, likely // 2, likely, 2 * likely, count}
    found = []
    for j in sorted(j for j in least if 1 <= j <= count):
        rows = []
        for above, below in (zero, mixed):
            rows += [at_least(j, count, above, below)]
            rows += [at_least(count - j + 1, count, below, above)]
        found.append(rows)
    return np.concatenate(np.array(found), axis=1)


def reached(true, false, epsilon):
    """Return ln of the largest true - e^epsilon false of all tests, rounded down."""
    with np.errstate(invalid="ignore"):
        odds = epsilon + false - true + ROUNDING
        good = (odds < 0) & (true > -560)
        if not good.any():
            return -math.inf
        gain = true[good] + np.log(-np.expm1(odds[good]))
    return float(gain.max()) - ROUNDING


class Truth:
    """What is known of one setting without an accountant."""

    def __init__(self, noise, q, sigma, count, gaussian):
        places = np.linspace(-6 * sigma, 1 + 14 * sigma, 240)
        if not gaussian:
            places = np.arange(-3.5, 5)
        absent_yes, absent_no, present_yes, present_no = rates(noise, places, q, count)
        self.false, self.miss = absent_yes, present_no
        self.sides = (present_yes, absent_yes), (absent_no, present_no)
        self.q, self.sigma, self.count, self.gaussian = q, sigma, count, gaussian

    def side(self, removal, epsilon):
        return reached(*self.sides[0 if removal else 1], epsilon)

    def log_least(self, epsilon):
        return max(self.side(True, epsilon), self.side(False, epsilon))

    def log_most(self, epsilon, removal=None):
        """Return an upper bound of ln delta."""
        if self.count == 1 and self.gaussian:
            both = (True, False) if removal is None else (removal,)
            return max(self._exact(one, epsilon) for one in both) + ROUNDING
        most = -math.expm1(self.count * math.log1p(-self.q))
        if self.gaussian:
            mu = math.sqrt(self.count) / self.sigma
            one, other = log_ndtr([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
            if one > -600:
                whole = -math.expm1(min(epsilon + other - one - ROUNDING, -1e-12))
                most = min(most, math.exp(one) * whole)
            else:
                most = min(most, 1e-250)
        return math.log(most) + ROUNDING

    def _exact(self, removal, epsilon):
        with mp.workdps(60):
            q, s, e = mp.mpf(self.q), mp.mpf(self.sigma), mp.e ** mp.mpf(epsilon)

            def masses(x):
                below = mp.ncdf(x / s)
                return below, (1 - q) * below + q * mp.ncdf((x - 1) / s)

            def tails(x):
                above = mp.erfc(x / s / mp.sqrt(2)) / 2
                other = mp.erfc((x - 1) / s / mp.sqrt(2)) / 2
                return above, (1 - q) * above + q * other

            if removal:
                x = s * s * mp.log((e - 1 + q) / q) + mp.mpf(1) / 2
                absent, present = tails(x)
                gain = present - e * absent
            else:
                if 1 / e <= 1 - q:
                    return -math.inf
                x = s * s * mp.log((1 / e - 1 + q) / q) + mp.mpf(1) / 2
                absent, present = masses(x)
                gain = absent - e * present
            return float(mp.log(gain)) if gain > mp.mpf(10) ** -45 else -90.0


def settings():
    for number, (sigma, q, count) in enumerate(
        itertools.product(SIGMAS, RATES, COUNTS)
    ):
        delta = DELTAS[(number + number // 12) % 4]
        yield "gaussian", sigma, q, count, delta, (number + number // 21) % 6
    for number, (sigma, q, count) in enumerate(
        itertools.product((0.02, 0.03, 0.05, 0.2), RATES, COUNTS[1:])
    ):
        yield "discrete", sigma, q, count, DELTAS[number % 4], number % 6


SETTINGS = list(settings())


def attacked(kind, sigma, q, count, delta, turn):
    gaussian = kind == "gaussian"
    make = GaussianEvent if gaussian else DiscreteGaussianEvent
    # The accountant's numbers are those that doubles here have.
    inner = make(sensitivity=1, sigma=Fraction(sigma))
    event = PoissonSampledEvent(Fraction(q), inner)
    accountant = PLDAccountant().compose(event, count=count)
    noise = (normal if gaussian else discrete)(sigma)
    truth = Truth(noise, q, sigma, count, gaussian)
    end = epsilons_held(accountant, truth, delta)
    # Curves take long: each setting attacks one kind. Trade-off functions take longest
    # at small rates, which skip them.
    if turn % 2 == 0:
        profiles_held(accountant, truth, end)
    if turn in (1, 5):
        laws_held(accountant, truth)
    if turn == 3 and q > 1e-3:
        trade_offs_held(accountant, truth)


def epsilons_held(accountant, truth, delta):
    plain = accountant.epsilon_bounds(delta)
    checked = accountant.epsilon_bounds(delta, check=True)
    upper, lower = min(plain.upper, checked.upper), max(plain.lower, checked.lower)
    assert lower <= upper
    if upper < math.inf:
        assert truth.log_least(upper) <= math.log(delta)
    if 0 < lower < math.inf:
        assert truth.log_most(lower * (1 - 1e-12)) >= math.log(delta)
    half = accountant.ln_delta_bounds(min(upper, 600.0) / 2, check=True)
    assert truth.log_least(min(upper, 600.0) / 2) <= half.upper
    assert half.lower <= truth.log_most(min(upper, 600.0) / 2)
    return min(upper, 600.0)


def profiles_held(accountant, truth, end):
    epsilons = np.concatenate([[0.0, 1e-6, 0.01], np.linspace(0, 1.1 * end, 9)[1:]])
    lower, upper = accountant.ln_delta_profile(epsilons)
    for e, low, high in zip(epsilons.tolist(), lower, upper, strict=True):
        assert low <= high
        assert truth.log_least(e) <= high
        assert low <= truth.log_most(e)


def trade_offs_held(accountant, truth):
    some = np.unique(np.linspace(0, truth.false.size - 1, POINTS).astype(int))
    false, miss = np.exp(truth.false[some]), np.exp(truth.miss[some])
    f = accountant.trade_off_bounds(symmetric=False)
    room = ROUNDING * (1 + miss)
    assert (f.lower(false) <= miss + room).all()
    assert (f.lower(false) <= f.upper(false)).all()
    if truth.count == 1:  # these are the best tests
        assert (f.upper(false) >= miss - room).all()
    both = accountant.trade_off()
    assert (both(false) <= miss + room).all()
    assert (both(miss) <= false + ROUNDING * (1 + false)).all()


def laws_held(accountant, truth):
    for pessimistic in (True, False):
        try:
            law = accountant.distribution(pessimistic=pessimistic)
        except UnsupportedEventError:
            continue
        for removal in (True, False):
            one = law.removal if removal else law.addition or law.removal
            for e in (0.0, 1.5 * law.interval, 0.2, 2.0):
                delta = delta_of(one, law.interval, e)
                if pessimistic:
                    least = math.exp(truth.side(removal, e))
                    assert delta >= least * (1 - ROUNDING) - ROUNDING
                else:
                    most = math.exp(truth.log_most(e, removal))
                    assert delta <= most * (1 + ROUNDING) + ROUNDING


def delta_of(one, interval, e):
    size = len(one.probabilities)
    loss = float(interval) * (one.lower_index + np.arange(size, dtype=np.float64))
    gain = -np.expm1(np.minimum(e - loss, 0.0))
    return float(np.asarray(one.probabilities) @ gain) + one.infinity_mass


@pytest.mark.parametrize("number", [81, 237, 368])
def test_no_test_is_better_than_claimed(number):
    attacked(*SETTINGS[number])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_no_test_is_better_than_claimed_anywhere(number):
    attacked(*SETTINGS[number])
