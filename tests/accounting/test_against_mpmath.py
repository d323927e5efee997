"""Every conversion against sums and formulas at 60 digits: never below, and tight."""

import math
from fractions import Fraction

import mpmath as mp
import pytest

from fastdp import calibration
from fastdp.accounting import _discrete_gaussian as dg
from fastdp.accounting import conversions, l2_sensitivity

mp.mp.dps = 60

BERNOULLI = [mp.bernoulli(2 * k) / mp.factorial(2 * k) for k in range(1, 13)]


def number(value):
    if isinstance(value, mp.mpf):
        return value
    value = Fraction(value)
    return mp.mpf(value.numerator) / value.denominator


def gaussian_sum(sigma, start):
    """Return the sum of exp(-x^2/(2 sigma^2)) over integers x >= start."""
    sigma = number(sigma)
    if sigma < 60:
        begin = max(start, -int(30 * sigma) - 30)
        reach = int(sigma * 20) + int(400 * sigma**2 / max(begin, 1)) + 30
        stop = begin + min(reach, int(60 * sigma) + 30)
        return mp.fsum(
            mp.exp(-(mp.mpf(x) ** 2) / (2 * sigma**2)) for x in range(begin, stop)
        )
    y = mp.mpf(start) / sigma  # Euler-Maclaurin; 12 terms are far beyond 60 digits
    total = (
        sigma * mp.sqrt(mp.pi / 2) * mp.erfc(y / mp.sqrt(2)) + mp.exp(-(y**2) / 2) / 2
    )
    hermite = [mp.mpf(1), y]
    for n in range(1, 24):
        hermite.append(y * hermite[n] - n * hermite[n - 1])
    for k, factor in enumerate(BERNOULLI, start=1):
        n = 2 * k - 1
        total += factor * hermite[n] / sigma**n * mp.exp(-(y**2) / 2)
    return total


def normalizer(sigma):
    sigma = number(sigma)
    if sigma < 1:
        return 2 * gaussian_sum(sigma, 1) + 1
    return (
        sigma * mp.sqrt(2 * mp.pi) * mp.jtheta(3, 0, mp.exp(-2 * mp.pi**2 * sigma**2))
    )


def true_discrete_gaussian(epsilon, shift, sigma):
    """Return P[X > c] - e^epsilon P[X > c + shift] at 60 digits and more."""
    epsilon, sigma = Fraction(epsilon), Fraction(sigma)
    first = math.floor(epsilon * sigma**2 / shift - Fraction(shift, 2)) + 1
    with mp.workdps(150):
        upper = gaussian_sum(sigma, first)
        lower = gaussian_sum(sigma, first + shift)
        return (upper - mp.exp(number(epsilon)) * lower) / normalizer(sigma)


def true_analytic(epsilon, mu):
    with mp.workdps(120):
        e, m = number(epsilon), number(mu)
        left = mp.erfc((e / m - m / 2) / mp.sqrt(2)) / 2
        return left - mp.exp(e) * mp.erfc((e / m + m / 2) / mp.sqrt(2)) / 2


# sigma, then epsilons that put delta between .5 and 1e-300
ONE_COORDINATE = [
    (Fraction(1, 10), [0, 1, 40, 49.9, 50, 50.1, 151, 700]),
    (Fraction(3, 10), [1e-8, 0.1, 5, 6, 17, 60, 200]),
    (0.5, [1e-8, 1, 2, 3, 10, 60]),
    (1, [1e-8, 0.5, 1, 1.5, 5, 30]),
    (2.7, [0, 1e-3, 1, 5, 12]),
    (10, [1e-8, 0.01, 0.3, 1, 3.5]),
    (57, [1e-8, 1e-3, 0.05, 0.5]),
    (1000, [1e-8, 1e-3, 5e-3, 0.03]),
    (2000.5, [1e-4, 3e-3, 0.018]),
]


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize(("sigma", "epsilons"), ONE_COORDINATE)
def test_discrete_gaussian_sum_is_exact_and_never_below(sigma, epsilons, shift):
    for epsilon in epsilons:
        true = true_discrete_gaussian(epsilon, shift, sigma)
        if not mp.mpf("1e-320") < true:
            continue
        bound = conversions.discrete_gaussian_log_delta(
            epsilon=epsilon, sensitivity=shift, sigma=sigma, coordinates=1
        )
        excess = float(mp.mpf(bound) - mp.log(true))
        assert 0 <= excess < 1e-9 or (bound == 0 and excess < 1e-9), (epsilon, excess)


@pytest.mark.parametrize("sigma", [4, 5.3, 8, 11.7, 16, 40, 1e3, 1e6, 2.0**40])
@pytest.mark.parametrize("shift", [1, 2, 7])
def test_allowance_for_large_sigma_covers_the_sum(sigma, shift):
    mu = Fraction(shift) / Fraction(sigma)
    for a in [-1, 0, 1, 3, 6, 12, 36]:
        epsilon = mu * (a + mu / 2)
        if epsilon < 0:
            continue
        true = true_discrete_gaussian(epsilon, shift, sigma)
        bound = dg.large_sigma_log_delta(
            Fraction(epsilon), Fraction(shift), Fraction(sigma)
        )
        excess = float(mp.mpf(bound) - mp.log(true))
        allowed = 1e-9 + 2 * 0.25 * (a * a + 3) / float(sigma) ** 2
        assert 0 <= excess < allowed, (a, excess)


def true_pattern(epsilon, pattern, sigma):
    """Return delta by summing over all integer vectors in a box."""
    s = number(sigma)
    reach = int(14 * s) + 6
    norm = sum(p * p for p in pattern)
    law = {0: mp.mpf(1)}
    masses = [mp.exp(-(mp.mpf(x) ** 2) / (2 * s * s)) for x in range(reach + 1)]
    z = normalizer(sigma)
    for part in pattern:
        following = {}
        for w, p in law.items():
            for x in range(-reach, reach + 1):
                key = w + part * x
                following[key] = following.get(key, 0) + p * masses[abs(x)] / z
        law = following
    with mp.workdps(60):
        e = number(epsilon)
        total = mp.mpf(0)
        for w, p in law.items():
            loss = (2 * mp.mpf(w) + norm) / (2 * s * s)
            if loss > e:
                total += p * (1 - mp.exp(e - loss))
    return total


@pytest.mark.parametrize(
    ("pattern", "sigma", "epsilons"),
    [
        ((1, 1), 0.4, [0.1, 3, 12]),
        ((1, 1, 1), 0.7, [0.1, 2, 9]),
        ((2, 1), 1.1, [0, 1, 4, 20]),
        ((1, 1), 4.5, [0.05, 0.5, 2]),
        ((3, 2), 2.5, [0.3, 5]),
    ],
)
def test_patterns_are_summed_exactly(pattern, sigma, epsilons):
    for epsilon in epsilons:
        true = true_pattern(epsilon, pattern, sigma)
        bound = dg.pattern_log_delta(Fraction(epsilon), pattern, Fraction(sigma))
        excess = float(mp.mpf(bound) - mp.log(true))
        assert 0 <= excess < 1e-9, (epsilon, excess)


@pytest.mark.rest
@pytest.mark.parametrize("pattern", [(1, 1), (1, 1, 1), (2, 1)])
@pytest.mark.parametrize("sigma", [4, 4.4])
def test_allowance_covers_patterns_of_several_coordinates(pattern, sigma):
    norm = sum(p * p for p in pattern)
    for epsilon in [0.05, 0.5, 1.5]:
        true = true_pattern(epsilon, pattern, sigma)
        length = l2_sensitivity(norm)
        bound = dg.large_sigma_log_delta(Fraction(epsilon), length, Fraction(sigma))
        assert mp.mpf(bound) >= mp.log(true)


@pytest.mark.parametrize(
    "mu", ["1e-10", "1e-3", "0.1", "0.999", "1.01", "3", "12", "60"]
)
def test_analytic_gaussian_profile(mu):
    m = Fraction(mu)
    for a in [-40, -3, -1.1, -0.9, -0.4, 0, 1e-3, 0.5, 2.9, 3.1, 10, 37]:
        epsilon = m * (Fraction(a) + m / 2)
        if epsilon < 0:
            continue
        true = true_analytic(epsilon, m)
        bound = conversions.gaussian_log_delta(epsilon=epsilon, sensitivity=m, sigma=1)
        excess = float(mp.mpf(bound) - mp.log(true))
        assert 0 <= excess < 1e-9, (a, excess)


@pytest.mark.parametrize("scale", ["1e-3", "0.5", "1", "7.3", "1e5", "1e16"])
@pytest.mark.parametrize("shift", [1, 2, 9])
def test_discrete_laplace_profile_and_rho(scale, shift):
    t = Fraction(scale)
    with mp.workdps(200):
        q = mp.exp(-1 / number(t))
        masses = [(1 - q) / (1 + q) * q**j for j in range(shift)]
        masses[0] = 1 / (1 + q)
        masses.append(q**shift / (1 + q))
        losses = [(shift - 2 * j) / number(t) for j in range(shift + 1)]
        divergence = mp.fsum(p * v for p, v in zip(masses, losses, strict=True))
        rho = conversions.discrete_laplace_rho(sensitivity=shift, scale=t)
        # The reference itself is right to 1e-150.
        assert -mp.mpf("1e-150") <= mp.mpf(rho) / divergence - 1 < 3e-16
        for share in ["0", "1e-8", "0.3", "0.77", "0.999", "0.999999999999"]:
            epsilon = Fraction(share) * shift / t
            true = mp.fsum(
                p * (1 - mp.exp(number(epsilon) - v))
                for p, v in zip(masses, losses, strict=True)
                if v > number(epsilon)
            )
            bound = conversions.discrete_laplace_log_delta(
                epsilon=epsilon, sensitivity=shift, scale=t
            )
            excess = float(mp.mpf(bound) - mp.log(true))
            assert 0 <= excess < 1e-9 or bound == 0, (share, excess)


@pytest.mark.parametrize("scale", [0.3, 1, 4])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_discrete_laplace_rho_bounds_every_order(scale, shift):
    with mp.workdps(40):
        q = mp.exp(-1 / mp.mpf(scale))
        masses = [(1 - q) / (1 + q) * q**j for j in range(shift)]
        masses[0] = 1 / (1 + q)
        masses.append(q**shift / (1 + q))
        losses = [(shift - 2 * j) / mp.mpf(scale) for j in range(shift + 1)]
        rho = conversions.discrete_laplace_rho(sensitivity=shift, scale=scale)
        for z in ["1e-9", "0.01", "0.5", "1", "3", "10", "100"]:
            z = mp.mpf(z)
            moment = mp.fsum(
                p * mp.exp(z * v) for p, v in zip(masses, losses, strict=True)
            )
            assert mp.log(moment) / z <= (1 + z) * rho


@pytest.mark.parametrize("rho", ["1e-20", "1e-4", "0.5", "3", "200"])
def test_zcdp_conversion_is_the_infimum_over_orders(rho):
    r = number(Fraction(rho))
    for target in ["1e-3", "1e-12", "1e-300"]:
        log_target = mp.log(mp.mpf(target))

        def epsilon_at(log_gap, log_target=log_target):
            gap = mp.exp(log_gap)
            rest = (log_target + mp.log(1 + gap)) / gap
            return (1 + gap) * r - mp.log1p(1 / gap) - rest

        start = mp.log(mp.sqrt(-log_target / r))
        best = mp.findroot(lambda v, f=epsilon_at: mp.diff(f, v), start, verify=False)
        true = max(mp.mpf(0), epsilon_at(best))
        got = conversions.zcdp_epsilon(delta=Fraction(target), rho=Fraction(rho))
        assert 0 <= got - true <= 1e-11 * abs(true)
        back = conversions.zcdp_log_delta(epsilon=got, rho=Fraction(rho))
        close = 1e-9 * abs(float(log_target))
        assert back < float(log_target) + close
        assert got == 0 or back > float(log_target) - close


@pytest.mark.parametrize("epsilon", [1e-8, 0.01, 1, 8, 50])
@pytest.mark.parametrize("delta", ["1e-3", "1e-12", "1e-300"])
def test_calibrated_sigma_meets_the_true_profile_and_is_least(epsilon, delta):
    d = Fraction(delta)
    sigma = calibration.discrete_gaussian_sigma(epsilon=epsilon, delta=d, sensitivity=1)
    assert true_discrete_gaussian(epsilon, 1, sigma) <= number(d)
    below = Fraction(sigma) * (1 - Fraction(1, 10**7))
    assert true_discrete_gaussian(epsilon, 1, below) > number(d)


@pytest.mark.parametrize(
    ("epsilon", "scale", "delta"),
    [(1, 1, "1e-6"), (0.01, 7, "1e-9"), (3, 2.5, "0.2"), (2, 1, "1e-300")],
)
def test_truncation_bound_is_least(epsilon, scale, delta):
    shift = int(scale)
    d = Fraction(delta)
    bound = calibration.truncated_laplace_bound(
        epsilon=epsilon, delta=d, sensitivity=scale
    )
    t = Fraction(scale) / Fraction(epsilon)

    def tail(a):
        with mp.workdps(400):
            q = mp.exp(-1 / number(t))
            mass = 1 + 2 * q * (1 - q**a) / (1 - q)
            return mp.fsum(q**x for x in range(a - shift + 1, a + 1)) / mass

    assert tail(bound) <= number(d)
    assert bound == shift or tail(bound - 1) > number(d)
    got = conversions.truncated_laplace_delta(
        epsilon=epsilon, sensitivity=scale, scale=t, bound=bound
    )
    assert 0 <= mp.mpf(got) / tail(bound) - 1 < 1e-15
