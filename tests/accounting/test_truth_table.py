"""Every notion against its own formula at 60 digits: one table over all of them.

A case is what the package says, what is true, and how close the two must be; what is
said must never be below. Closed forms are held to 1e-12 (of ln(delta) where the
logarithm is what is computed), optimized bounds to 1e-9 of the best of their family.
"""

import functools
import itertools
import math
from fractions import Fraction

import mpmath as mp
import pytest

from fastdp.accounting import (
    ApproximateAccountant,
    ApproximateDPEvent,
    ApproximateTradeOff,
    ExponentialMechanismEvent,
    GaussianEvent,
    GaussianTradeOff,
    GDPAccountant,
    GDPEvent,
    LaplaceEvent,
    LaplaceTradeOff,
    NeighboringRelation,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPAccountant,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    TCDPAccountant,
    TCDPEvent,
    ZCDPAccountant,
    ZCDPEvent,
    advanced_composition,
    basic_composition,
    conversions,
    event_epsilon,
    group_delta,
    kairouz_composition,
    readings,
    renyi_divergence,
)
from fastdp.accounting.guarantees import event_log_delta

CLOSED, BEST = mp.mpf("1e-12"), mp.mpf("1e-9")
REPLACE = NeighboringRelation.REPLACE_ONE
CASES = {}


def number(value):
    value = Fraction(value)
    return mp.mpf(value.numerator) / value.denominator


def case(name, tolerance):
    """Add a case: a function that returns what is said, and what is true."""

    def added(function):
        assert name not in CASES
        CASES[name] = function, tolerance
        return function

    return added


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(60):
        yield


@pytest.mark.parametrize("name", CASES)  # filled below, before any test runs
def test_never_below_the_truth_and_close(name):
    check(name)


def check(name):
    function, tolerance = CASES[name]
    said, true = function()
    said, true = mp.mpf(said), mp.mpf(true)
    unit = abs(true) if true > 0 else max(1, -true)  # ln(delta) is below 0
    assert said >= true, mp.nstr((said - true) / unit, 5)
    assert said - true <= tolerance * unit, mp.nstr((said - true) / unit, 5)


# ---- composition of (epsilon, delta) ------------------------------------------------


def homogeneous(epsilon, count, x):
    """Return the hockey stick at x of `count` responses, from the largest loss down."""
    e, x = number(epsilon), number(x)
    last = math.ceil((count - Fraction(x_of(x)) / Fraction(epsilon)) / 2) - 1
    last = min(last, count)
    if last < 0:
        return mp.mpf(0)
    log_p, log_q = -mp.log1p(mp.exp(-e)), -mp.log1p(mp.exp(e))
    log_first = mp.loggamma(count + 1) - mp.loggamma(last + 1)
    log_first -= mp.loggamma(count - last + 1)
    log_first += (count - last) * log_p + last * log_q
    mass, total, grown = mp.mpf(1), mp.mpf(0), mp.exp(e)
    for minus in range(last, -1, -1):
        gap = (count - 2 * minus) * e - x
        if gap > 0:
            total += mass * -mp.expm1(-gap)
        mass *= grown * minus / (count - minus + 1)
        if mass < total * mp.mpf("1e-25"):
            break
    return total * mp.exp(log_first)


def x_of(x):
    return Fraction(mp.nstr(x, 50))


for _e, _k, _x in [
    ("1e-8", 100, "1e-8"),
    ("1e-8", 100, "3.5e-8"),
    ("1e-8", 10**6, "2e-5"),
    ("1e-4", 10**6, "0.35"),
    ("0.001", 10**5, "2.71"),
    ("0.1", 40, "1.7629"),
    ("0.1", 100, "2.7807"),
    ("0.1", 1000, "30"),
    ("0.01", 10**6, "100"),
    ("1", 10, "4.6"),
    ("1", 100, "99.5"),
    ("5", 30, "100"),
]:

    @case(f"optimal composition: {_k} of {_e} at {_x}", CLOSED)
    def _(e=_e, k=_k, x=_x):
        accountant = ApproximateAccountant().compose(PureDPEvent(Fraction(e)), k)
        true = homogeneous(Fraction(e), k, Fraction(x))
        return accountant.log_delta(Fraction(x)), mp.log(true)


for _e, _k, _x in [("1e-8", 100, "1e-8"), ("0.1", 1000, "30"), ("1", 100, "99.5")]:

    @case(f"optimal composition with delta: {_k} of {_e} at {_x}", 3 * CLOSED)
    def _(e=_e, k=_k, x=_x):
        d = Fraction(1, 10**15)
        event = ApproximateDPEvent(epsilon=Fraction(e), delta=d)
        accountant = ApproximateAccountant().compose(event, k)
        kept = mp.exp(k * mp.log1p(-number(d)))
        true = 1 - kept + kept * homogeneous(Fraction(e), k, Fraction(x))
        return accountant.log_delta(Fraction(x)), mp.log(true)


def heterogeneous(epsilons, x):
    total = mp.mpf(0)
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        loss = mp.fsum(s * number(e) for s, e in zip(signs, epsilons, strict=True))
        if loss > number(x):
            mass = mp.mpf(1)
            for s, e in zip(signs, epsilons, strict=True):
                mass /= 1 + mp.exp(-s * number(e))
            total += mass * -mp.expm1(number(x) - loss)
    return total


TENTHS = [Fraction(i, 10) for i in range(1, 11)]
for _name, _epsilons, _x in [
    ("tenths", TENTHS, "3"),
    ("tenths", TENTHS, "5.2"),
    ("small", [Fraction(i, 10**8) for i in (1, 2, 3, 5, 7)], "1e-7"),
    ("large", [Fraction(7), Fraction(100), Fraction(1, 3)], "100"),
    ("one of each", [Fraction(1), Fraction(1, 100), Fraction(1, 10**4)], "0.99"),
]:

    @case(f"optimal composition of several: {_name} at {_x}", BEST)
    def _(epsilons=_epsilons, x=_x):
        accountant = ApproximateAccountant()
        for e in epsilons:
            accountant.compose(PureDPEvent(e))
        true = heterogeneous(epsilons, Fraction(x))
        return accountant.log_delta(Fraction(x)), mp.log(true)


for _e, _k, _slack in [
    ("1e-8", 10**6, "1e-15"),
    ("0.001", 10**6, "1e-300"),
    ("0.1", 100, "1e-6"),
    ("0.01", 1000, "1e-9"),
]:

    @case(f"advanced composition: {_k} of {_e}, {_slack}", CLOSED)
    def _(e=_e, k=_k, slack=_slack):
        x = number(e)
        true = x * mp.sqrt(2 * k * -mp.log(number(slack))) + k * x * mp.expm1(x)
        return advanced_composition(
            epsilon=Fraction(e), count=k, slack=Fraction(slack)
        ), min(true, k * x)

    @case(f"its tighter form: {_k} of {_e}, {_slack}", CLOSED)
    def _(e=_e, k=_k, slack=_slack):
        x, d = number(e), number(slack)
        drift, square = k * x * mp.tanh(x / 2), k * x * x
        forms = [
            k * x,
            drift + mp.sqrt(2 * square * -mp.log(d)),
            drift + mp.sqrt(2 * square * mp.log(mp.e + mp.sqrt(square) / d)),
        ]
        return kairouz_composition({Fraction(e): k}, slack=Fraction(slack)), min(forms)


@case("basic composition: epsilon", CLOSED)
def _():
    pairs = [(Fraction(1, 10**8), 0), (100, Fraction(1, 10**15))]
    return number(basic_composition(pairs)[0]), 100 + number("1e-8")


@case("basic composition: delta", CLOSED)
def _():
    pairs = [(1, Fraction(1, 10)), (2, Fraction(1, 10**300))]
    true = number(1 - (1 - Fraction(1, 10)) * (1 - Fraction(1, 10**300)))
    return number(basic_composition(pairs)[1]), true


# ---- zero-concentrated, truncated, Gaussian ------------------------------------------


def best_epsilon(rho, log_delta, xi=0, largest=None):
    """Return the infimum over orders of Canonne, Kamath and Steinke's Corollary 13."""

    def stationary(t):
        return rho * t * t + mp.log1p(t) + log_delta

    low, high = mp.mpf("1e-60"), mp.mpf("1e60")
    for _ in range(400):
        middle = mp.sqrt(low * high)
        low, high = (middle, high) if stationary(middle) < 0 else (low, middle)
    t = low if largest is None else min(low, largest)
    return xi + (1 + t) * rho - mp.log1p(1 / t) - (log_delta + mp.log1p(t)) / t


CONCENTRATED = [
    ("1e-16", "1e-15"),
    ("1e-4", "1e-15"),
    ("0.5", "1e-5"),
    ("0.5", "1e-300"),
    ("3", "1e-30"),
    ("40", "1e-6"),
    ("100", "1e-300"),
]
for _rho, _delta in CONCENTRATED:

    @case(f"zCDP: rho {_rho}, {_delta}", CLOSED)
    def _(rho=_rho, delta=_delta):
        true = best_epsilon(number(rho), mp.log(number(delta)))
        event = ZCDPEvent(Fraction(rho))
        return ZCDPAccountant().compose(event).epsilon(Fraction(delta)), true

    @case(f"zCDP with an offset: rho {_rho}, {_delta}", CLOSED)
    def _(rho=_rho, delta=_delta):
        true = best_epsilon(number(rho), mp.log(number(delta)), number("0.25"))
        event = ZCDPEvent(Fraction(rho), xi=Fraction(1, 4))
        return ZCDPAccountant().compose(event).epsilon(Fraction(delta)), true


for _rho, _omega, _delta in [
    ("1e-4", 20, "1e-15"),
    ("0.5", 3, "1e-5"),
    ("0.5", 50, "1e-5"),
    ("0.01", 5, "1e-300"),
    ("3", 2, "1e-9"),
]:

    @case(f"tCDP: rho {_rho}, omega {_omega}, {_delta}", CLOSED)
    def _(rho=_rho, omega=_omega, delta=_delta):
        event = TCDPEvent(rho=Fraction(rho), omega=omega)
        true = best_epsilon(number(rho), mp.log(number(delta)), 0, omega - 1)
        return TCDPAccountant().compose(event).epsilon(Fraction(delta)), true


for _e in ["1e-8", "0.01", "1", "5", "100"]:

    @case(f"rho of pure {_e}", CLOSED)
    def _(e=_e):
        x = number(e)
        return conversions.pure_to_rho(Fraction(e)), x * mp.tanh(x / 2)

    @case(f"rho of Laplace noise, {_e}", CLOSED)
    def _(e=_e):
        x = number(e)
        with mp.workdps(100):
            return conversions.laplace_rho(sensitivity=Fraction(e), scale=1), mp.exp(
                -x
            ) + x - 1

    @case(f"Kullback-Leibler reading of pure {_e}", CLOSED)
    def _(e=_e):
        x = number(e)
        return readings.largest_kl_divergence(Fraction(e)), x * mp.tanh(x / 2)


def gaussian(epsilon, mu):
    with mp.workdps(130):  # the tails agree in fewer digits than this
        e, m = number(epsilon), mp.mpf(mu)
        near, far = (e / m + s * m / 2 for s in (-1, 1))
        tails = mp.erfc(near / mp.sqrt(2)) - mp.exp(e) * mp.erfc(far / mp.sqrt(2))
        return tails / 2


for _mu, _count, _epsilon in [
    ("1e-9", 1, "1e-8"),
    ("1e-6", 10**6, "1e-8"),
    ("0.001", 10**6, "5"),
    ("0.1", 100, "37"),
    ("0.1", 1, "1"),
    ("1", 1, "0"),
    ("1", 9, "100"),
    ("2.5", 1, "0.5"),
    ("10", 1, "100"),
]:

    @case(f"GDP: {_count} of mu {_mu} at {_epsilon}", 2 * CLOSED)
    def _(mu=_mu, count=_count, epsilon=_epsilon):
        true = gaussian(epsilon, number(mu) * mp.sqrt(count))
        accountant = GDPAccountant().compose(GDPEvent(Fraction(mu)), count)
        return accountant.log_delta(Fraction(epsilon)), mp.log(true)


for _epsilon, _delta in [
    ("1e-8", "1e-15"),
    ("0.01", "1e-300"),
    ("1", "1e-15"),
    ("100", "1e-6"),
    ("100", "1e-300"),
]:

    @case(f"analytic Gaussian sigma for {_epsilon}, {_delta}", BEST)
    def _(epsilon=_epsilon, delta=_delta):
        # the least sigma by bisection, and epsilon of it
        target = mp.log(number(delta))
        guess = mp.sqrt(-2 * target) / number(epsilon) + 1 / mp.sqrt(number(epsilon))
        sigma = mp.findroot(
            lambda s: mp.log(gaussian(epsilon, 1 / s)) - target,
            (guess, guess / 2),
            solver="anderson",
            tol=mp.mpf("1e-40"),
        )
        said = conversions.gaussian_epsilon(
            delta=Fraction(delta), sensitivity=1, sigma=Fraction(mp.nstr(sigma, 50))
        )
        return said, number(epsilon) * (1 - mp.mpf("1e-25"))


# ---- Renyi divergences --------------------------------------------------------------


def renyi(mass, ratio_power):
    """Return ln of the mean of a power of the likelihood ratio."""
    return mp.log(mp.fsum(p * r for p, r in zip(mass, ratio_power, strict=True)))


ORDERS = ["1.01", "2", "7.5", "64"]
for _order, _e in itertools.product(ORDERS, ["1e-8", "0.3", "100"]):

    @case(f"Renyi, Laplace noise: {_e}, order {_order}", CLOSED)
    def _(e=_e, order=_order):
        x, a = number(e), mp.mpf(float(order))
        top = a / (2 * a - 1) * mp.exp((a - 1) * x)
        true = mp.log(top + (a - 1) / (2 * a - 1) * mp.exp(-a * x)) / (a - 1)
        event = LaplaceEvent(sensitivity=Fraction(e), scale=1)
        return float(renyi_divergence(event, float(order))), true

    @case(f"Renyi, pure: {_e}, order {_order}", CLOSED)
    def _(e=_e, order=_order):
        x, a = number(e), mp.mpf(float(order))
        ratio = mp.cosh((2 * a - 1) * x / 2) / mp.cosh(x / 2)
        event = PureDPEvent(Fraction(e))
        return float(renyi_divergence(event, float(order))), mp.log(ratio) / (a - 1)


def bounded_range(length, order):
    """Return the largest divergence over the place of the range, by golden section."""
    e, t = number(length), order - 1

    def value(u):
        p = (mp.exp(e) - mp.exp(u)) / mp.expm1(e)
        return mp.log(p * mp.exp(t * u) + (1 - p) * mp.exp(t * (u - e))) / t

    low, high, golden = mp.mpf(0), e, (mp.sqrt(5) - 1) / 2
    for _ in range(90):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (left, high) if value(left) < value(right) else (low, right)
    return value((low + high) / 2)


for _order in ORDERS:

    @case(f"Renyi, Gaussian noise: order {_order}", CLOSED)
    def _(order=_order):
        a = mp.mpf(float(order))
        event = GaussianEvent(sensitivity=3, sigma=7)
        return float(renyi_divergence(event, float(order))), a * 9 / 98

    @case(f"Renyi, randomized response: order {_order}", CLOSED)
    def _(order=_order):
        a, p, q = mp.mpf(float(order)), number("0.6"), number("0.1")
        true = renyi([p, q, 1 - p - q], [(p / q) ** (a - 1), (q / p) ** (a - 1), 1])
        event = RandomizedResponseEvent(p=Fraction(3, 5), q=Fraction(1, 10))
        return float(renyi_divergence(event, float(order))), true / (a - 1)

    @case(f"Renyi, exponential mechanism: order {_order}", CLOSED)
    def _(order=_order):
        event = ExponentialMechanismEvent(2)
        true = bounded_range(2, mp.mpf(float(order)))
        return float(renyi_divergence(event, float(order))), true


for _q, _sigma, _order in [
    ("0.01", 1, 2),
    ("0.01", 1, 20),
    ("1e-6", "0.5", 3),
    ("0.5", 4, 64),
    ("0.001", 10, 8),
]:

    @case(f"Renyi, sampled Gaussian: {_q}, {_sigma}, order {_order}", CLOSED)
    def _(q=_q, sigma=_sigma, order=_order):
        rate, s = number(q), number(sigma)
        true = mp.fsum(
            mp.binomial(order, k)
            * (1 - rate) ** (order - k)
            * rate**k
            * mp.exp(k * (k - 1) / (2 * s * s))
            for k in range(order + 1)
        )
        noise = GaussianEvent(sensitivity=1, sigma=Fraction(sigma))
        event = PoissonSampledEvent(Fraction(q), noise)
        true = mp.log(true) / (order - 1)
        return float(renyi_divergence(event, order)), true


@functools.cache
def laplace_power(x, order):
    top = order / (2 * order - 1) * mp.exp((order - 1) * x)
    return top + (order - 1) / (2 * order - 1) * mp.exp(-order * x)


for _q, _order in [("0.1", 2), ("0.01", 5), ("1e-4", 12)]:

    @case(f"Renyi, sampled Laplace: {_q}, order {_order}", CLOSED)
    def _(q=_q, order=_order):
        rate, x = number(q), mp.mpf(1)
        true = (1 - rate) ** order + order * rate * (1 - rate) ** (order - 1)
        true += mp.fsum(
            mp.binomial(order, k)
            * (1 - rate) ** (order - k)
            * rate**k
            * laplace_power(x, k)
            for k in range(2, order + 1)
        )
        event = PoissonSampledEvent(Fraction(q), LaplaceEvent(sensitivity=1, scale=1))
        true = mp.log(true) / (order - 1)
        return float(renyi_divergence(event, order)), true


for _n, _m, _order in [(100, 10, 2), (1000, 10, 4), (10**6, 100, 8)]:

    @case(f"Renyi, subset {_m} of {_n}: Gaussian, order {_order}", CLOSED)
    def _(n=_n, m=_m, order=_order):
        # Wang, Balle, Kasiviswanathan 2019, Theorem 9, for an unbounded loss.
        rate, sigma = mp.mpf(m) / n, mp.mpf(8)

        def grown(j):  # e^((j - 1) epsilon(j)) of noise with sensitivity 1
            return mp.exp(j * (j - 1) / (2 * sigma**2))

        second = min(4 * (grown(2) - 1), 2 * grown(2))
        total = 1 + rate**2 * mp.binomial(order, 2) * second
        total += mp.fsum(
            2 * rate**j * mp.binomial(order, j) * grown(j) for j in range(3, order + 1)
        )
        event = SampledWithoutReplacementEvent(
            source_dataset_size=n,
            sample_size=m,
            event=GaussianEvent(sensitivity=1, sigma=8, neighboring_relation=REPLACE),
        )
        bound = mp.log(total) / (order - 1)
        said = float(renyi_divergence(event, order))
        # a later, tighter bound may be in use: never above this one, and at least the
        # divergence of the pair that moves one record's answer by the sensitivity
        assert said <= bound * (1 + CLOSED)
        least = mp.quad(
            lambda y: mp.npdf(y) * (1 - rate + rate * _ratio(y, sigma)) ** order,
            [-12, 0, 12],
        )
        assert said >= mp.log(least) / (order - 1)
        return max(mp.mpf(said), bound), bound


def _ratio(y, sigma):
    c = 1 / sigma
    return mp.exp(c * y - c * c / 2)


def composed_renyi(moment, log_delta):
    """Return the least epsilon over orders for a bound K(t), by golden section."""

    def value(log_t):
        t = mp.exp(log_t)
        odds = mp.log(mp.expm1(moment(t))) - mp.log1p(t) - log_delta
        r = mp.log1p(mp.exp(odds)) / t
        steep = mp.log(mp.expm1((1 + t) * r) / mp.expm1(t * r))
        return steep - mp.log1p(1 / t)

    low, high, golden = mp.mpf(-12), mp.mpf(30), (mp.sqrt(5) - 1) / 2
    for _ in range(70):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (left, high) if value(left) > value(right) else (low, right)
    return value((low + high) / 2)


for _scale, _count, _delta in [
    (100, 1000, "1e-6"),
    (10**8, 10**6, "1e-15"),
    (10**3, 10**6, "1e-300"),
    (20, 50, "1e-15"),
]:

    @case(f"best order: {_count} Laplace, scale {_scale}, {_delta}", BEST)
    def _(scale=_scale, count=_count, delta=_delta):
        x = mp.mpf(1) / scale
        with mp.workdps(40):
            true = composed_renyi(
                lambda t: count * mp.log(laplace_power(x, 1 + t)),
                mp.log(number(delta)),
            )
        accountant = RDPAccountant().compose(
            LaplaceEvent(sensitivity=1, scale=scale), count
        )
        state, _pure = accountant._snapshot()
        said = accountant._epsilon_at(state, Fraction(delta))
        # a w0 below 1 gains a little on what is true for w0 = 1
        assert said >= true * (1 - BEST)
        return max(mp.mpf(said), true), true


# ---- trade-off functions, samples, groups -------------------------------------------


def upper(value):
    """Return 2 - type II error: above is safe, and doubles near 1 are no finer."""
    return 2 - mp.mpf(float(value))


for _rate in ["1e-8", "0.05", "0.5", "0.9"]:

    @case(f"trade-off, Gaussian at {_rate}", 4 * CLOSED)
    def _(rate=_rate):
        a = mp.mpf(float(rate))
        place = mp.findroot(
            lambda z: mp.erfc(z / mp.sqrt(2)) / 2 - a, mp.sqrt(-2 * mp.log(a)) / 2
        )
        true = mp.erfc((place - mp.mpf("1.5")) / mp.sqrt(2)) / 2
        return upper(GaussianTradeOff(Fraction(3, 2))(float(rate))), 1 + true

    @case(f"trade-off, (epsilon, delta) at {_rate}", 4 * CLOSED)
    def _(rate=_rate):
        a, e, d = mp.mpf(float(rate)), mp.mpf(1), number("0.01")
        lines = [0, 1 - d - mp.exp(e) * a, mp.exp(-e) * (1 - d - a)]
        function = ApproximateTradeOff(1, own_delta=Fraction(1, 100))
        return upper(function(float(rate))), 2 - max(lines)

    @case(f"trade-off, Laplace at {_rate}", 4 * CLOSED)
    def _(rate=_rate):
        a, e = mp.mpf(float(rate)), mp.mpf(2)
        if a < mp.exp(-e) / 2:
            error = 1 - mp.exp(e) * a
        elif a <= mp.mpf(1) / 2:
            error = mp.exp(-e) / (4 * a)
        else:
            error = mp.exp(-e) * (1 - a)
        return upper(LaplaceTradeOff(2)(float(rate))), 2 - error


for _epsilon in ["1e-8", "0.5", "1.9"]:

    @case(f"trade-off, delta of Laplace noise at {_epsilon}", 2 * CLOSED)
    def _(epsilon=_epsilon):
        true = -mp.expm1((mp.mpf(float(epsilon)) - 2) / 2)
        return float(LaplaceTradeOff(2).delta(float(epsilon))), true

    @case(f"sampled pure privacy: epsilon, inner {_epsilon}", CLOSED)
    def _(epsilon=_epsilon):
        event = PoissonSampledEvent(Fraction(1, 100), PureDPEvent(Fraction(epsilon)))
        return event_epsilon(event), mp.log1p(mp.expm1(number(epsilon)) / 100)

    @case(f"sampled Gaussian, one step: delta at {_epsilon}", 4 * CLOSED)
    def _(epsilon=_epsilon):
        event = PoissonSampledEvent(
            Fraction(1, 100), GaussianEvent(sensitivity=1, sigma=1)
        )
        inner = mp.log1p(100 * mp.expm1(number(epsilon)))
        true = gaussian(Fraction(mp.nstr(inner, 70)), 1) / 100
        return event_log_delta(event, Fraction(epsilon)), mp.log(true)

    @case(f"drawn with replacement: delta at {_epsilon}", 4 * CLOSED)
    def _(epsilon=_epsilon):
        n, m = 1000, 5
        noise = GaussianEvent(sensitivity=1, sigma=4, neighboring_relation=REPLACE)
        event = SampledWithReplacementEvent(
            source_dataset_size=n, sample_size=m, event=noise
        )
        miss = 1 - mp.mpf(1) / n
        hit = 1 - miss**m
        inner = Fraction(mp.nstr(mp.log1p(mp.expm1(number(epsilon)) / hit), 70))
        true = mp.fsum(
            mp.binomial(m, j)
            * miss ** (m - j)
            * mp.mpf(n) ** -j
            * gaussian(inner, j / mp.mpf(4))
            for j in range(1, m + 1)
        )
        return event_log_delta(event, Fraction(epsilon)), mp.log(true)


for _e, _d, _size in [("1e-8", "1e-15", 1000), ("1", "1e-300", 50), ("0.5", "1e-6", 3)]:

    @case(f"group of {_size} under {_e}, {_d}", 4 * CLOSED)
    def _(e=_e, d=_d, size=_size):
        x = number(e)
        true = number(d) * mp.expm1(size * x) / mp.expm1(x)
        return mp.log(
            group_delta(epsilon=Fraction(e), delta=Fraction(d), size=size)
        ), mp.log(true)


def test_there_are_enough_cases():
    assert len(CASES) >= 120
    text = " ".join(CASES)
    for mark in ("1e-8", "100", "1e-15", "1e-300", "1000000"):
        assert mark in text
