"""What stated, selected and sampled events guarantee, at 60 digits."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import pytest

from fastdp.accounting import (
    ApproximateAccountant,
    ApproximateDPEvent,
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPAccountant,
    RDPEvent,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    SelfComposedEvent,
    TCDPEvent,
    TradeOffEvent,
    ZCDPAccountant,
    ZCDPEvent,
    conversions,
    event_delta,
    event_epsilon,
    event_rho,
    readings,
)
from fastdp.accounting._sampling import amplified_epsilon, inner_epsilon
from fastdp.accounting.guarantees import event_log_delta
from fastdp.exceptions import UnsupportedEventError

mp.mp.dps = 60

SHARES = ["0", "1e-9", "0.3", "0.999999", "1"]
PURE = ["1e-9", "0.1", "1", "5", "60", "500"]


def number(value):
    return mp.mpf(Fraction(value).numerator) / Fraction(value).denominator


def pure_delta(pure, at):
    return -mp.expm1(at - pure) / (1 + mp.exp(-pure))


def laplace_delta(pure, at):
    return -mp.expm1((at - pure) / 2)


def bounded_range_delta(length, at):
    return (mp.exp(length / 2) - mp.exp(at / 2)) ** 2 / mp.expm1(length)


@pytest.mark.parametrize("pure", PURE)
@pytest.mark.parametrize(
    ("kind", "true_delta"),
    [
        (PureDPEvent, pure_delta),
        (PermuteAndFlipEvent, laplace_delta),
        (ExponentialMechanismEvent, bounded_range_delta),
    ],
)
def test_pure_and_bounded_range_profiles(kind, true_delta, pure):
    event, p = kind(Fraction(pure)), number(pure)
    for share in SHARES[:-1]:
        at = Fraction(pure) * Fraction(share)
        true = mp.log(true_delta(p, number(at)))
        got = event_log_delta(event, at)
        assert 0 <= got - true < 1e-11 or (got == 0 and true > -1e-11)
    assert event_delta(event, Fraction(pure)) == 0
    for delta in ["1e-300", "1e-9", "1e-3", "0.4"]:
        got = event_epsilon(event, Fraction(delta))
        d = number(delta)
        if kind is ExponentialMechanismEvent:
            gain = mp.sqrt(-d * mp.expm1(-p))
            true = p + 2 * mp.log1p(-gain) if gain < 1 else mp.mpf(0)
        elif kind is PermuteAndFlipEvent:
            true = p + 2 * mp.log1p(-d)
        else:
            gain = d * (1 + mp.exp(-p))
            true = p + mp.log1p(-gain) if gain < 1 else mp.mpf(0)
        assert 0 <= got - max(mp.mpf(0), true) < 3e-13 * (1 + p)


@pytest.mark.parametrize("length", [0.1, 1.0, 4.0])
def test_the_bounded_range_profile_is_the_worst_over_all_intervals(length):
    for at in [0.0, 0.3 * length, 0.9 * length]:
        worst = 0.0
        for i in range(1, 2000):
            top = length * i / 2000
            mass = (math.exp(length) - math.exp(top)) / math.expm1(length)
            worst = max(worst, mass * -math.expm1(at - top))
        got = event_delta(ExponentialMechanismEvent(length), at)
        assert worst <= got < worst * (1 + 1e-3) + 1e-12


@pytest.mark.parametrize("length", [0.01, 1.0, 6.0])
def test_rho_of_bounded_range_bounds_every_order(length):
    rho = event_rho(ExponentialMechanismEvent(length))
    assert rho == pytest.approx(length**2 / 8, rel=1e-15)
    big = mp.mpf(length)
    for share, order in itertools.product(
        [0.1, 0.4, 0.5, 0.6, 0.9], [1.001, 2, 10, 99]
    ):
        top = big * share
        mass = (mp.exp(big) - mp.exp(top)) / mp.expm1(big)
        z = mp.mpf(order) - 1
        moment = mass * mp.exp(z * top) + (1 - mass) * mp.exp(z * (top - big))
        assert mp.log(moment) / z <= order * rho


def test_permute_and_flip_is_not_of_bounded_range():
    # Two candidates whose scores swap: the divergence is four times epsilon^2/8.
    epsilon = 0.01
    low = math.exp(-epsilon / 2) / 2
    loss = math.log((1 - low) / low)
    divergence = (1 - 2 * low) * loss
    assert loss <= epsilon
    assert divergence > 3.9 * epsilon**2 / 8
    assert divergence <= event_rho(PermuteAndFlipEvent(epsilon))


RATES = [Fraction(1, 10**9), Fraction(1, 1000), Fraction(1, 3), Fraction(999, 1000)]


@pytest.mark.parametrize("rate", RATES, ids=float)
def test_amplification_forwards_and_backwards(rate):
    for epsilon in ["1e-12", "1e-3", "1", "20", "39.9", "40.1", "80", "700", "2000"]:
        e, r = number(epsilon), number(rate)
        true = mp.log1p(r * mp.expm1(e))
        assert 0 <= amplified_epsilon(rate, Fraction(epsilon)) - true < 3e-14 * true
        true = mp.log1p(mp.expm1(e) / r)
        got = number(inner_epsilon(rate, Fraction(epsilon)))
        assert 0 <= true - got < 3e-13 * true
    assert amplified_epsilon(Fraction(1), Fraction(3)) == 3.0


@pytest.mark.parametrize("rate", RATES, ids=float)
def test_sampled_noise(rate):
    replace = NeighboringRelation.REPLACE_ONE
    for at in ["0", "0.001", "0.5", "3"]:
        inside = mp.log1p(mp.expm1(number(at)) / number(rate))
        pure = number(rate) * -mp.expm1((inside - 1) / 2) if inside < 1 else 0
        got = event_delta(
            PoissonSampledEvent(rate, LaplaceEvent(sensitivity=1, scale=1)),
            Fraction(at),
        )
        assert 0 <= got - pure < 1e-11 * number(rate)
        left = mp.erfc((inside - mp.mpf(1) / 2) / mp.sqrt(2)) / 2
        right = mp.erfc((inside + mp.mpf(1) / 2) / mp.sqrt(2)) / 2
        true = number(rate) * (left - mp.exp(inside) * right)
        for event in (
            PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=1)),
            SampledWithoutReplacementEvent(
                source_dataset_size=rate.denominator,
                sample_size=rate.numerator,
                event=GaussianEvent(
                    sensitivity=1, sigma=1, neighboring_relation=replace
                ),
            ),
        ):
            got = event_delta(event, Fraction(at))
            assert true <= got
            if true > mp.mpf("1e-290"):
                assert got - true < 1e-9 * true
            if 1e-290 < got < rate:
                back = event_epsilon(event, got)
                assert back <= float(Fraction(at)) * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize(("source", "draws"), [(10, 3), (1000, 50), (5, 40), (1, 3)])
def test_sampling_with_replacement(source, draws):
    replace = NeighboringRelation.REPLACE_ONE
    event = SampledWithReplacementEvent(
        source_dataset_size=source,
        sample_size=draws,
        event=GaussianEvent(sensitivity=1, sigma=4, neighboring_relation=replace),
    )
    n, m = mp.mpf(source), draws
    hit = 1 - (1 - 1 / n) ** m
    for at in ["0.001", "0.3", "2"]:
        inside = mp.log1p(mp.expm1(number(at)) / hit)
        true = mp.mpf(0)
        for j in range(1, m + 1):
            mu = mp.mpf(j) / 4
            left = mp.erfc((inside / mu - mu / 2) / mp.sqrt(2)) / 2
            right = mp.erfc((inside / mu + mu / 2) / mp.sqrt(2)) / 2
            weight = mp.binomial(m, j) * n**-j * (1 - 1 / n) ** (m - j)
            true += weight * (left - mp.exp(inside) * right)
        got = event_delta(event, Fraction(at))
        assert 0 <= got - true < 1e-9 * true + 1e-280
        back = event_epsilon(event, got)
        assert float(at) * (1 - 1e-9) < back < float(at) * (1 + 1e-9)
    pure = SampledWithReplacementEvent(
        source_dataset_size=source,
        sample_size=draws,
        event=PureDPEvent(0.1, neighboring_relation=replace),
    )
    most = mp.log1p(hit * mp.expm1(mp.mpf(0.1) * m))
    assert 0 <= event_epsilon(pure) - most < 1e-12 * most


def test_sampling_is_refused_where_it_is_not_proved():
    def gaussian(relation):
        return GaussianEvent(sensitivity=1, sigma=1, neighboring_relation=relation)

    add, replace, special = NeighboringRelation
    for event in (
        PoissonSampledEvent(0.5, gaussian(replace), neighboring_relation=add),
        PoissonSampledEvent(0.5, gaussian(special), neighboring_relation=replace),
        SampledWithoutReplacementEvent(
            source_dataset_size=10, sample_size=1, event=gaussian(special)
        ),
        SampledWithReplacementEvent(
            source_dataset_size=10, sample_size=1, event=gaussian(special)
        ),
    ):
        with pytest.raises(UnsupportedEventError):
            event_delta(event, 1)
        with pytest.raises(UnsupportedEventError):
            event_epsilon(event, 0.1)
        with pytest.raises(UnsupportedEventError):
            event_rho(event)


def concentrated(log_delta, rho, xi, omega):
    """Return the least epsilon over all orders up to omega, by a fine search."""

    def at(gap):
        a = 1 + gap
        return xi + a * rho + mp.log(gap / a) - (log_delta + mp.log(a)) / gap

    low, high = mp.mpf("1e-12"), mp.mpf(omega) - 1
    for _ in range(300):
        left, right = (
            low ** (mp.mpf(2) / 3) * high ** (mp.mpf(1) / 3),
            low ** (mp.mpf(1) / 3) * high ** (mp.mpf(2) / 3),
        )
        if at(left) < at(right):
            high = right
        else:
            low = left
    return min(at(low), at(high))


@pytest.mark.parametrize("rho", ["1e-8", "0.01", "0.5", "30"])
@pytest.mark.parametrize(
    ("xi", "omega"), [("0", "1.5"), ("0", "10"), ("0", "1e12"), ("0.2", "1e12")]
)
@pytest.mark.parametrize("delta", ["1e-3", "1e-15", "1e-300"])
def test_lines_of_divergences(rho, xi, omega, delta):
    if xi == "0":
        event = TCDPEvent(rho=Fraction(rho), omega=Fraction(omega))
    else:
        event = ZCDPEvent(Fraction(rho), xi=Fraction(xi))
    log_delta = mp.log(number(delta))
    true = concentrated(log_delta, number(rho), number(xi), number(omega))
    got = event_epsilon(event, Fraction(delta))
    assert 0 <= got - max(mp.mpf(0), true) < 1e-9 * (1 + abs(true))
    back = event_log_delta(event, got)
    assert back <= log_delta * (1 - mp.mpf("1e-10")) + 1e-9


def test_several_events_get_the_better_of_two_sums():
    one = ExponentialMechanismEvent(Fraction(1, 10))
    event = SelfComposedEvent(
        ComposedEvent((one, LaplaceEvent(sensitivity=1, scale=20))), 50
    )
    parts = ZCDPAccountant().compose(event)
    assert event_epsilon(event, 0) == 7.5
    assert event_rho(event) == float(parts.rho)
    for delta in (1e-9, 1e-3, 0.7):
        assert event_epsilon(event, delta) == parts.epsilon(delta)
    for epsilon in (0.1, 2, 7.4, 7.5):
        assert event_log_delta(event, epsilon) == parts.log_delta(epsilon)
    sampled = PoissonSampledEvent(0.1, event)
    assert event_epsilon(sampled, 0) < 5.3


def test_what_has_no_profile_of_its_own_is_left_to_accountants():
    twice = SelfComposedEvent(ApproximateDPEvent(epsilon=1, delta=Fraction(1, 10)), 2)
    optimum = ApproximateAccountant().compose(twice)
    assert event_epsilon(twice, 0.5) == pytest.approx(optimum.epsilon(0.5), rel=1e-9)
    assert event_delta(twice, 1) == pytest.approx(optimum.delta(1), rel=1e-9)
    curve = RDPEvent(orders=(2, 8), epsilons=(Fraction(1, 10), Fraction(1, 2)))
    assert event_epsilon(curve, 1e-4) == RDPAccountant().compose(curve).epsilon(1e-4)
    function = TradeOffEvent(
        false_positive_rates=(0, Fraction(1, 2), 1),
        false_negative_rates=(1, Fraction(1, 4), 0),
    )
    # in either order of the datasets: where the function meets its inverse
    assert event_delta(function, 0) == pytest.approx(0.2, rel=1e-12)
    with pytest.raises(UnsupportedEventError):  # no pure epsilon
        event_epsilon(curve, 0)
    with pytest.raises(UnsupportedEventError):  # less than the deltas lose
        event_epsilon(twice, 0.05)


def test_rho_of_a_wide_range_is_that_of_pure_epsilon():
    pure = event_rho(PureDPEvent(20))
    assert event_rho(ExponentialMechanismEvent(20)) == pure < 20**2 / 8
    response = RandomizedResponseEvent(p=Fraction(9999, 10000), q=Fraction(1, 10**7))
    group = GroupEvent(response, 9)
    assert event_rho(group) <= event_epsilon(group) < 81 * event_rho(response)


def test_perfect_and_nearly_perfect_events():
    for event in (PureDPEvent(0), GDPEvent(0), ZCDPEvent(0), TCDPEvent(rho=0, omega=2)):
        assert event_epsilon(event, 0) == event_epsilon(event, 1e-9) == 0
        assert event_delta(event, 0) == 0
        assert event_rho(event) == 0
    assert event_epsilon(ZCDPEvent(0, xi=0.5), 0) == 0.5


@pytest.mark.parametrize(
    "epsilon",
    ["1e-300", "1e-9", "1e-3", "0.0199", "0.0201", "0.3", "2", "9", "80", "599", "1e4"],
)
def test_pure_epsilon_as_gaussian_privacy(epsilon):
    mu = mp.mpf(conversions.pure_to_mu(Fraction(epsilon)))
    with mp.workdps(400):
        e = number(epsilon)
        tail = 1 / (1 + mp.exp(e))
        assert mp.erfc(mu / mp.sqrt(8)) / 2 <= tail
        less = mu * (1 - mp.mpf("3e-12"))
        assert e > 600 or mp.erfc(less / mp.sqrt(8)) / 2 > tail
    # the trade-off of pure epsilon is nowhere below that of the Gaussian pair
    if 0.1 < e < 10:
        for x in (0.001, 0.2, 0.5, 0.9):
            pure = 1 - readings.largest_power(
                epsilon=Fraction(epsilon), delta=0, false_positive_rate=x
            )
            quantile = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(x))
            assert pure >= mp.erfc((mu - quantile) / mp.sqrt(2)) / 2 - 1e-15


def test_an_approximate_event_has_the_profile_of_its_worst_case():
    event = ApproximateDPEvent(epsilon=1, delta=Fraction(1, 1000))
    assert event_epsilon(event, Fraction(1, 1000)) == 1.0
    assert event_delta(event, 1) == pytest.approx(0.001, rel=1e-15)
    own = mp.mpf("0.001")
    true = own + (1 - own) * pure_delta(mp.mpf(1), mp.mpf("0.5"))
    assert 0 <= event_delta(event, 0.5) - true < 1e-11
    assert 0.4999999 < event_epsilon(event, event_delta(event, 0.5)) <= 0.5 + 1e-9
    with pytest.raises(UnsupportedEventError):
        event_epsilon(event, Fraction(1, 10**4))
