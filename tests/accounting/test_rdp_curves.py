"""Renyi curves against sums and integrals at 50 digits and more: never below."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import (
    PLDAccountant,
    PoissonSampledEvent,
    PrivacyLossEvent,
    RDPAccountant,
    SampledWithoutReplacementEvent,
    TradeOffEvent,
    renyi_divergence,
)
from fastdp.accounting._renyi import curves, sampled
from fastdp.accounting._renyi.subsampled_gaussian import SubsampledGaussianCurve
from fastdp.accounting._series import (
    exp_remainder,
    sinh_ratio_slope,
    sinh_ratio_step,
    sinhc_step,
)

GAPS = [1e-9, 1e-3, 0.3, 1.0, 2.5, 17.0, 300.0, 1e5]


def number(value):
    value = Fraction(value)
    return mp.mpf(value.numerator) / value.denominator


def excesses(curve, true, gaps=GAPS, digits=450):
    """Return computed over true K, less 1, at each gap."""
    got = curve.log_moment(np.array(gaps))
    with mp.workdps(digits):
        return [
            float(mp.mpf(float(value)) / true(mp.mpf(gap)) - 1)
            for gap, value in zip(gaps, got, strict=True)
        ]


def assert_closed(curve, true, gaps=GAPS, digits=450):
    found = excesses(curve, true, gaps, digits)
    assert all(0 <= excess < 1e-12 for excess in found), found


# ---- building blocks -------------------------------------------------------------


@pytest.mark.parametrize(
    "x", [-1e3, -5, -0.51, -0.5, -1e-8, 1e-12, 0.1, 0.5, 0.51, 600]
)
def test_exponential_remainder(x):
    with mp.workdps(60):
        true = mp.exp(mp.mpf(x)) - 1 - mp.mpf(x)
    assert abs(float(exp_remainder(np.array([x]))[0] / true - 1)) < 3e-15


@pytest.mark.parametrize("low", [0, 1e-10, 0.5, 1.99, 7, 39.9, 40, 1e6])
def test_steps_of_hyperbolic_ratios(low):
    def psi(x):
        return mp.log(mp.sinh(x / 2) / (x / 2)) if x else mp.mpf(0)

    def ratio(x):
        return mp.sinh(x) / x if x else mp.mpf(1)

    for gap in [1e-12, 1e-5, 0.99, 1, 1.01, 50, 1e4]:
        with mp.workdps(100):
            start, end = mp.mpf(low), mp.mpf(low) + mp.mpf(gap)
            true = psi(end) - psi(start)
            scaled = mp.exp(-end) * (ratio(end) - ratio(start))
            at = np.array([float(low)])
            step = mp.mpf(float(sinh_ratio_step(at, np.array([gap]))[0]))
            other = mp.mpf(float(sinhc_step(at, gap)[0]))
            assert abs(step / true - 1) < 2e-14
            assert abs(other / scaled - 1) < 2e-14
    if low:
        with mp.workdps(50):
            slope = mp.coth(mp.mpf(low) / 2) / 2 - 1 / mp.mpf(low)
        assert abs(float(sinh_ratio_slope(np.array([low]))[0] / slope) - 1) < 3e-15


# ---- closed forms ----------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["1e-8", "1e-3", "0.1", "1", "5", "100"])
def test_pure_laplace_and_bounded_range(epsilon):
    e = number(epsilon)

    def laplace(t):
        share = (1 + t) / (1 + 2 * t)
        return mp.log(share * mp.exp(t * e) + (1 - share) * mp.exp(-(1 + t) * e))

    def pure(t):
        p = 1 / (1 + mp.exp(-e))
        return mp.log(p ** (1 + t) * (1 - p) ** -t + (1 - p) ** (1 + t) * p**-t)

    def bounded_range(t):
        def moment(top):
            p = (mp.exp(e) - mp.exp(top)) / mp.expm1(e)
            return p * mp.exp(t * top) + (1 - p) * mp.exp(t * (top - e))

        growth = t * (1 - mp.exp(-e * (1 + t))) / ((1 + t) * (1 - mp.exp(-e * t)))
        best = e + mp.log(growth)
        nearby = [moment(best + s * e / 100) for s in (-1, 1)]
        assert moment(best) >= max(nearby)
        return mp.log(moment(best))

    assert_closed(curves.LaplaceCurve(Fraction(epsilon)), laplace)
    assert_closed(curves.PureCurve(Fraction(epsilon)), pure)
    assert_closed(curves.BoundedRangeCurve(Fraction(epsilon)), bounded_range)


@pytest.mark.parametrize("loss", ["1e-8", "0.1", "1", "30"])
@pytest.mark.parametrize("share", ["1", "0.25", "1e-6"])
def test_three_valued_losses(loss, share):
    v = Fraction(loss)
    with mp.workdps(400):
        q = Fraction(share) / Fraction(str(mp.nstr(1 + mp.exp(number(v)), 40)))
        q = q * (1 - Fraction(1, 10**30))

        def true(t):
            p = number(q) * mp.exp(number(v))
            rest = 1 - p - number(q)
            high, low = mp.exp(t * number(v)), mp.exp(-t * number(v))
            return mp.log(p * high + number(q) * low + rest)

    assert_closed(curves.ResponseCurve(v, q), true)


@pytest.mark.parametrize("shift", [1, 2, 7])
@pytest.mark.parametrize("rate", ["1e-8", "1e-3", "1", "5", "40"])
def test_discrete_laplace(shift, rate):
    a = number(rate)

    def true(t):
        q = mp.exp(-a)
        total = mp.mpf(0)
        for j in range(shift + 1):
            weight = 1 if j in (0, shift) else 1 - q
            total += weight / (1 + q) * q**j * mp.exp(t * a * (shift - 2 * j))
        return mp.log(total)

    assert_closed(curves.DiscreteLaplaceCurve(shift, Fraction(rate)), true)


def test_a_large_shift_is_nearly_continuous():
    fine = curves.DiscreteLaplaceCurve(10**9, Fraction(1, 10**9))
    smooth = curves.LaplaceCurve(Fraction(1))
    gaps = np.array(GAPS)
    ratio = fine.log_moment(gaps) / smooth.log_moment(gaps)
    assert np.all((ratio >= 1 - 1e-13) & (ratio < 1 + 1e-8))


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("sigma", ["0.2", "0.5", "1", "3.9", "5"])
def test_discrete_gaussian_in_one_coordinate(shift, sigma):
    s = number(sigma)

    def true(t):
        center = (1 + t) * shift
        near = mp.nint(center)
        reach = range(-90, 91)
        moved = mp.fsum(
            mp.exp(-((x + near - center) ** 2) / (2 * s * s)) for x in reach
        )
        still = mp.fsum(mp.exp(-(mp.mpf(x) ** 2) / (2 * s * s)) for x in reach)
        return t * (1 + t) * shift**2 / (2 * s * s) + mp.log(moved / still)

    gaps = [1e-3, 0.3, 0.5, 1.0, 2.5, 17.25]
    curve = curves.DiscreteGaussianCurve(shift, Fraction(sigma))
    found = excesses(curve, true, gaps, 60)
    assert all(0 <= excess < 1e-10 for excess in found), found


def test_concentrated_curves_end_at_their_order():
    curve = curves.ConcentratedCurve(Fraction(1, 3), Fraction(1, 7), Fraction(5))
    got = curve.log_moment(np.array([1.0, 4.0, 4.1]))
    assert got[:2] == pytest.approx([2 / 3 + 1 / 7, 20 / 3 + 4 / 7], rel=1e-12)
    assert got[2] == np.inf
    assert curve.largest_gap == 4


def test_tables_use_chords_of_the_convex_function():
    # order 2: K(1) = 1/4; order 4: K(3) = 3; the chord at order 3 is 13/8, while the
    # mean of the divergences would claim 2 * (1/4 + 1)/2 = 5/4.
    orders, epsilons = (Fraction(2), Fraction(4)), (Fraction(1, 4), Fraction(1))
    curve = curves.TabulatedCurve(orders, epsilons)
    got = curve.log_moment(np.array([0.5, 1.0, 2.0, 3.0, 3.5]))
    assert got[:4] == pytest.approx([1 / 8, 1 / 4, 13 / 8, 3], rel=1e-12)
    assert got[4] == np.inf


def test_groups_follow_mironov():
    inner = curves.ConcentratedCurve(Fraction(1, 10))
    got = curves.GroupCurve(inner, 3).log_moment(np.array([0.5, 1.0, 4.0]))
    true = [0.5 * 9 * 0.8, 9 * 0.8, 4 * 9 * 2.0]
    assert np.all(got >= np.array(true))
    assert got == pytest.approx(true, rel=1e-12)


# ---- Poisson sampling --------------------------------------------------------------


def sampled_gaussian(c, q, addition):
    def true(t):
        # The integrand of the definition less what integrates to zero, at 70 digits.
        def integrand(y):
            with mp.workdps(70):
                u = q * mp.expm1(c * y - c * c / 2)
                power = -t if addition else 1 + t
                return mp.npdf(y) * ((1 + u) ** power - 1 - power * u)

        # -t u and (1 + t) u both have mean zero under the standard normal law
        far = [] if addition else [(1 + t) * c + s for s in (-25, -5, 0, 5, 25)]
        points = [-25, -5, 0, 5, 25, c / 2, c / 2 + mp.log(1 / q) / c, *far]
        return mp.log1p(mp.quad(integrand, sorted(points)))

    return true


@pytest.mark.rest
@pytest.mark.parametrize(
    ("ratio", "probability", "gaps"),
    [
        ("1", "0.01", [1e-4, 3.3, 60.0]),
        ("2", "1e-6", [0.25, 1.0, 7.0]),
        ("0.25", "0.004", [0.3, 300.0]),
        ("10", "0.001", [0.01, 0.7]),
        ("0.01", "0.0001", [1.0, 1e4]),
        ("1", "0.9999", [0.1, 7.0]),
    ],
)
@pytest.mark.parametrize("addition", [False, True])
def test_subsampled_gaussian_at_real_orders(ratio, probability, gaps, addition):
    curve = SubsampledGaussianCurve(Fraction(ratio), Fraction(probability), addition)
    if addition and probability == "0.9999":
        gaps = gaps[:1]
    true = sampled_gaussian(number(ratio), number(probability), addition)
    assert_closed(curve, true, gaps, digits=25)


@pytest.mark.parametrize("order", [2, 3, 8, 64])
def test_subsampled_gaussian_at_whole_orders(order):
    for ratio, probability in [("1", "0.01"), ("0.2", "1e-7"), ("5", "0.3")]:
        c, q = number(ratio), number(probability)

        def true(t, c=c, q=q):
            return mp.log(
                mp.fsum(
                    mp.binomial(order, k)
                    * (1 - q) ** (order - k)
                    * q**k
                    * mp.exp(k * (k - 1) * c * c / 2)
                    for k in range(order + 1)
                )
            )

        curve = SubsampledGaussianCurve(Fraction(ratio), Fraction(probability))
        assert_closed(curve, true, [order - 1.0], digits=80)
        inner = curves.ConcentratedCurve(Fraction(ratio) ** 2 / 2, symmetric=True)
        bound = sampled.PoissonBoundCurve(inner, Fraction(probability))
        assert_closed(bound, true, [order - 1.0], digits=80)


def test_many_gaps_at_once_agree_with_one_at_a_time():
    curve = SubsampledGaussianCurve(Fraction(1), Fraction(1, 50))
    gaps = np.geomspace(1e-3, 200, 40)[::-1]
    single = np.array([curve.log_moment(np.array([gap]))[0] for gap in gaps])
    assert curve.log_moment(gaps) == pytest.approx(single, rel=1e-12)


@pytest.mark.parametrize("ratio", [0.3, 1, 4])
@pytest.mark.parametrize("probability", [0.001, 0.1, 0.7])
def test_removal_is_never_better_than_addition(ratio, probability):
    parts = Fraction(ratio), Fraction(probability)
    gaps = np.geomspace(1e-3, 30, 25)
    remove = SubsampledGaussianCurve(*parts).log_moment(gaps)
    add = SubsampledGaussianCurve(*parts, addition=True).log_moment(gaps)
    assert np.all(remove >= add * (1 - 1e-11))
    whole = curves.ConcentratedCurve(parts[0] ** 2 / 2).log_moment(gaps)
    assert np.all(remove <= whole)


@pytest.mark.parametrize("epsilon", ["0.01", "1", "20"])
@pytest.mark.parametrize("probability", ["1e-4", "0.3", "0.99"])
def test_sampled_response(epsilon, probability):
    e, q = number(epsilon), number(probability)
    loss = float(Fraction(epsilon))
    log_q = -loss - float(np.log1p(np.exp(-loss)))
    atoms = sampled.response_atoms(loss, log_q)
    curve = sampled.PoissonAtomsCurve(*atoms, Fraction(probability))

    def true(t):
        p = 1 / (1 + mp.exp(-e))
        high, low = 1 - q + q * mp.exp(e), 1 - q + q * mp.exp(-e)
        return mp.log((1 - p) * high ** (1 + t) + p * low ** (1 + t))

    assert_closed(curve, true, [1e-6, 0.3, 1.0, 8.5, 200.0], digits=120)


def test_sampled_discrete_laplace():
    shift, rate, q = 3, 0.7, mp.mpf("0.05")
    atoms = sampled.laplace_atoms(shift, rate)
    curve = sampled.PoissonAtomsCurve(*atoms, Fraction("0.05"))

    def true(t):
        a = mp.mpf(rate)
        x = range(-200, 204)
        law = {k: mp.exp(-a * abs(k)) * mp.tanh(a / 2) for k in range(-204, 205)}
        return mp.log(
            mp.fsum(
                law[k] * (1 - q + q * law[k - shift] / law[k]) ** (1 + t) for k in x
            )
        )

    assert_closed(curve, true, [0.01, 0.5, 3.0, 20.0], digits=40)


def test_bounds_for_unknown_mechanisms_cover_both_orders():
    # A pair that nothing makes symmetric, so that addition may be the worse order.
    p = np.array([0.5, 0.3, 0.2])
    r = np.array([0.25, 0.25, 0.5])
    q = 0.2

    def divergence(a, b, order):
        return np.log(np.sum(a**order * b ** (1 - order))) / (order - 1)

    orders = range(2, 40)
    table = [max(divergence(p, r, a), divergence(r, p, a)) for a in orders]
    inner = curves.TabulatedCurve(
        tuple(map(Fraction, orders)), tuple(Fraction(v) for v in table)
    )
    bound = sampled.PoissonBoundCurve(inner, Fraction(q))
    for a in [1.5, 2, 2.5, 3, 7, 21.3]:
        got = bound.log_moment(np.array([a - 1.0]))[0] / (a - 1)
        for one, other in [(p, r), (r, p)]:
            mixed = (1 - q) * one + q * other
            assert got >= divergence(mixed, one, a)
            assert got >= divergence(one, mixed, a)


def test_the_subset_bound_covers_a_swap():
    # One of n records is replaced; a subset of m holds it with probability m/n.
    rate, epsilon = 0.3, 0.8
    p = 1 / (1 + np.exp(-epsilon))
    one, other, base = np.array([p, 1 - p]), np.array([1 - p, p]), np.array([0.5, 0.5])
    bound = sampled.SubsetCurve(
        curves.PureCurve(Fraction(epsilon)), Fraction(rate), Fraction(epsilon)
    )
    for a in [2, 3, 5.5, 20]:
        got = bound.log_moment(np.array([a - 1.0]))[0] / (a - 1)
        for rest in (base, one, other):
            x = (1 - rate) * rest + rate * one
            y = (1 - rate) * rest + rate * other
            assert got >= np.log(np.sum(x**a * y ** (1 - a))) / (a - 1)


# ---- listed laws -----------------------------------------------------------------


def two_laws(rng, pieces):
    """Return masses of two laws, by ascending ratio of the first to the second."""
    p, q = rng.integers(1, 1000, (2, pieces)).tolist()
    pairs = sorted(zip(p, q, strict=True), key=lambda pair: pair[0] / pair[1])
    p, q = zip(*pairs, strict=True)
    return [Fraction(v, sum(p)) for v in p], [Fraction(v, sum(q)) for v in q]


def divergence(p, q, order):
    with mp.workdps(40):
        pairs = [(number(a), number(b)) for a, b in zip(p, q, strict=True)]
        moment = mp.fsum(a**order * b ** (1 - order) for a, b in pairs)
        return mp.log(moment) / (order - 1)


def as_losses(p, q):
    """Return the event of two laws under removal and addition, losses as doubles."""
    with mp.workdps(40):
        pairs = zip(p, q, strict=True)
        losses = [float(mp.log(number(a) / number(b))) for a, b in pairs]
    return PrivacyLossEvent(
        losses=losses,
        probabilities=p,
        addition_losses=[-loss for loss in reversed(losses)],
        addition_probabilities=q[::-1],
    )


def as_trade_off(p, q, **options):
    """Return the event of the trade-off function of two laws."""
    x, f = [Fraction(0)], [Fraction(1)]
    for a, b in zip(reversed(p), reversed(q), strict=True):
        x.append(x[-1] + b)
        f.append(f[-1] - a)
    return TradeOffEvent(false_positive_rates=x, false_negative_rates=f, **options)


@pytest.mark.parametrize("seed", range(4))
def test_listed_losses_have_the_larger_divergence_of_both_directions(seed):
    p, q = two_laws(np.random.default_rng(seed), 2 + seed)
    event = as_losses(p, q)
    larger = set()
    for order in (1.5, 2, 8, 50):
        both = divergence(p, q, order), divergence(q, p, order)
        larger.add(both.index(max(both)))
        got = float(renyi_divergence(event, order))
        assert -1e-15 <= got - max(both) < 1e-12 * (1 + max(both))
    many = RDPAccountant().compose(event, 20)
    bounds = PLDAccountant().compose(event, 20).epsilon_bounds(1e-6)
    assert bounds.lower < many.epsilon(1e-6) < 1.4 * bounds.upper


def test_a_trade_off_function_has_the_divergences_of_its_pair():
    p = 1 - Fraction(1 / (1 + np.exp(1.0)))
    response = as_trade_off([1 - p, p], [p, 1 - p])  # randomized response of 1
    for order, true in [(2, 0.7353256641), (8, 0.9552483741)]:
        assert renyi_divergence(response, order) == pytest.approx(true, abs=1e-9)
    kl = renyi_divergence(response, 1 + 1e-6)
    assert kl == pytest.approx(0.4621171573, abs=1e-6)
    # What one law alone has is set aside, as a delta.
    lost = TradeOffEvent(
        false_positive_rates=(0, Fraction(1, 4), 1),
        false_negative_rates=(Fraction(9, 10), Fraction(3, 10), 0),
    )
    found = RDPAccountant().compose(lost).delta(0.5)
    assert PLDAccountant().compose(lost).delta(0.5) < found < 0.5


@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(4, 5)])
def test_samples_of_listed_laws_are_listed(rate):
    p, q = two_laws(np.random.default_rng(9), 4)
    event = PoissonSampledEvent(rate, as_losses(p, q))
    mixed = [(1 - rate) * b + rate * a for a, b in zip(p, q, strict=True)]
    for order in (2, 7, 30):
        true = max(divergence(mixed, q, order), divergence(q, mixed, order))
        got = float(renyi_divergence(event, order))
        assert -1e-15 <= got - true < 1e-10 * (1 + true)
    law = as_trade_off(
        [Fraction(1, 4), Fraction(3, 4)],
        [Fraction(3, 4), Fraction(1, 4)],
        neighboring_relation="replace_one",
    )
    subset = SampledWithoutReplacementEvent(
        source_dataset_size=10, sample_size=int(10 * rate) or 1, event=law
    )
    found = RDPAccountant().compose(subset, 5).epsilon(1e-3)
    assert PLDAccountant().compose(subset, 5).epsilon(1e-3) <= found
