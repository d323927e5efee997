"""The Renyi accountant: conversions at the best order, composition, refusals."""

import math
import threading
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import conversions
from fastdp.accounting._numeric import root_above
from fastdp.accounting._renyi.conversion import (
    epsilon_at_order,
    log_delta_at_order,
    log_expm1,
)
from fastdp.accounting.events import (
    ApproximateDPEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
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
    RDPEvent,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    SelfComposedEvent,
    TCDPEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPEvent,
)
from fastdp.accounting.fdp import GDPAccountant
from fastdp.accounting.rdp import (
    RDPAccountant,
    rdp_to_delta,
    rdp_to_epsilon,
    renyi_divergence,
)
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError

REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL
STEP = PoissonSampledEvent(Fraction(1, 100), GaussianEvent(sensitivity=1, sigma=1))


# ---- one order: against the definition -------------------------------------------


def largest_delta(order, divergence, epsilon):
    """Return sup p - e^epsilon b over binary laws within the Renyi ball."""
    a = mp.mpf(order)
    moment = mp.exp((a - 1) * mp.mpf(divergence))

    def largest_p(b):
        def excess(p):
            return p**a * b ** (1 - a) + (1 - p) ** a * (1 - b) ** (1 - a) - moment

        low, high = b, mp.mpf(1)
        if excess(high) <= 0:
            return high
        for _ in range(62):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) < 0 else (low, middle)
        return low

    def value(log_b):
        b = mp.exp(log_b)
        return largest_p(b) - mp.exp(mp.mpf(epsilon)) * b

    low, high = mp.mpf(-60), mp.mpf(-1e-9)
    golden = (mp.sqrt(5) - 1) / 2
    for _ in range(50):  # a concave function of b has one top
        left, right = high - golden * (high - low), low + golden * (high - low)
        if value(left) < value(right):
            low = left
        else:
            high = right
    return value((low + high) / 2)


@pytest.mark.parametrize(
    ("order", "divergence", "epsilon"),
    [(2, 0.5, 1), (8, 0.5, 1.5), (1.5, 3, 5), (30, 0.01, 0.3), (3, 0.02, 0.0)],
)
def test_one_order_gives_the_best_delta_it_can(order, divergence, epsilon):
    with mp.workdps(30):
        true = largest_delta(order, divergence, epsilon)
    got = rdp_to_delta(order=order, divergence=divergence, epsilon=epsilon)
    assert 0 <= mp.mpf(got) / true - 1 < 1e-9
    if epsilon > 0:
        back = rdp_to_epsilon(order=order, divergence=divergence, delta=Fraction(got))
        assert back == pytest.approx(epsilon, rel=1e-9)


def test_the_simpler_conversion_is_the_limit_of_small_delta():
    for order, divergence in [(1.2, 40.0), (5, 2.5), (64, 0.8)]:
        for delta in (1e-6, 1e-30, 1e-300):
            rest = math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
            simple = divergence + rest
            got = rdp_to_epsilon(
                order=order, divergence=divergence, delta=Fraction(delta)
            )
            assert got <= simple * (1 + 1e-12)
            assert got == pytest.approx(simple, rel=1e-3)


def test_no_divergence_is_no_epsilon():
    assert rdp_to_epsilon(order=2, divergence=0, delta=Fraction(1, 10**300)) == 0
    assert rdp_to_delta(order=2, divergence=0, epsilon=1) == 0
    # A divergence that is small beside delta: pure luck tells as much.
    assert rdp_to_epsilon(order=2, divergence=1e-9, delta=0.01) < 1e-6


# ---- the best order ---------------------------------------------------------------


def best_concentrated(rho, log_delta):
    """Return the least epsilon over all orders, with w0 = 1 (proofs, section 5)."""

    def epsilon(log_gap):
        t = mp.exp(log_gap)
        r = mp.log1p(mp.expm1(t * (1 + t) * rho) / ((1 + t) * mp.exp(log_delta))) / t
        return mp.log(t / (1 + t)) + mp.log(mp.expm1((1 + t) * r) / mp.expm1(t * r))

    start = mp.log(mp.sqrt(-log_delta / rho))
    top = mp.findroot(lambda v: mp.diff(epsilon, v), start, verify=False)
    return epsilon(top)


@pytest.mark.parametrize("rho", ["1e-20", "1e-6", "0.5", "3", "200"])
@pytest.mark.parametrize("delta", ["1e-6", "1e-15", "1e-300"])
def test_concentrated_events_reach_the_infimum(rho, delta):
    event = ZCDPEvent(Fraction(rho))
    accountant = RDPAccountant().compose(event)
    epsilon = accountant.epsilon(Fraction(delta))
    if Fraction(delta) ** 2 > 8 * Fraction(rho):
        assert epsilon == 0  # total variation alone is below delta
        return
    with mp.workdps(80):
        true = best_concentrated(mp.mpf(rho), mp.log(mp.mpf(delta)))
        # Where delta is not small beside epsilon, a w0 below 1 gains a little.
        assert 1 - 1e-6 < mp.mpf(epsilon) / true < 1 + 1e-9
    older = conversions.zcdp_epsilon(delta=Fraction(delta), rho=Fraction(rho))
    assert epsilon <= older * (1 + 1e-12)
    assert accountant.log_delta(epsilon) == pytest.approx(
        math.log(float(Fraction(delta))) if delta != "1e-300" else -690.7755278982137,
        rel=1e-8,
    )


def moment_at(event, gap):
    """Return K(gap) of the events below at 40 digits."""
    t = mp.mpf(gap)
    match event:
        case LaplaceEvent(sensitivity=s, scale=b):
            e = mp.mpf((s / b).numerator) / (s / b).denominator
            share = (1 + t) / (1 + 2 * t)
            return mp.log(share * mp.exp(t * e) + (1 - share) * mp.exp(-(1 + t) * e))
        case PureDPEvent(epsilon=x):
            e = mp.mpf(x.numerator) / x.denominator
            return mp.log(mp.cosh((1 + 2 * t) * e / 2) / mp.cosh(e / 2))
        case PoissonSampledEvent(sampling_probability=x, event=PureDPEvent(epsilon=y)):
            q = mp.mpf(x.numerator) / x.denominator
            e = mp.mpf(y.numerator) / y.denominator
            p = 1 / (1 + mp.exp(-e))
            high, low = 1 - q + q * mp.exp(e), 1 - q + q * mp.exp(-e)
            return mp.log((1 - p) * high ** (1 + t) + p * low ** (1 + t))
    raise AssertionError


@pytest.mark.parametrize(
    ("event", "count", "delta"),
    [
        (LaplaceEvent(sensitivity=1, scale=100), 1000, 1e-6),
        (LaplaceEvent(sensitivity=1, scale=10**8), 10**6, 1e-300),
        (LaplaceEvent(sensitivity=100, scale=1), 2, 1e-5),
        (PureDPEvent(Fraction(1, 10)), 100, 1e-15),
        (PureDPEvent(Fraction(1, 10**8)), 10**6, 1e-9),
        (PoissonSampledEvent(Fraction(1, 1000), PureDPEvent(1)), 10**6, 1e-8),
        (PoissonSampledEvent(Fraction(1, 2), PureDPEvent(5)), 10, 1e-100),
    ],
)
def test_compositions_reach_the_infimum(event, count, delta):
    accountant = RDPAccountant().compose(event, count)
    state, _ = accountant._snapshot()
    epsilon = accountant._epsilon_at(state, Fraction(delta))
    with mp.workdps(60):
        d = mp.mpf(delta)

        def value(log_gap):
            t = mp.exp(log_gap)
            m = count * moment_at(event, t)
            r = mp.log1p(mp.expm1(m) / ((1 + t) * d)) / t
            steep = mp.log(mp.expm1((1 + t) * r) / mp.expm1(t * r))
            return steep - mp.log1p(1 / t)

        grid = [mp.mpf(x) / 2 for x in range(-20, 100)]
        least = min(grid, key=value)
        low, high = least - 1, least + 1
        golden = (mp.sqrt(5) - 1) / 2
        for _ in range(60):
            left, right = high - golden * (high - low), low + golden * (high - low)
            if value(left) < value(right):
                high = right
            else:
                low = left
        true = value((low + high) / 2)
        assert abs(mp.mpf(epsilon) / true - 1) < 1e-9


def test_figures_of_the_literature():
    # DP-SGD: the best real order; lists of orders stop at 6.71276 or above.
    accountant = RDPAccountant().compose(STEP, 10_000)
    assert accountant.epsilon(1e-5) == pytest.approx(6.7122694, abs=1e-6)
    # Abadi et al. 2016, E = 400: the moments accountant's optimum by Mironov's rule
    # is 2.57366; the conversion here is better than that rule, the truth is 2.03307.
    four = PoissonSampledEvent(Fraction(1, 100), GaussianEvent(sensitivity=1, sigma=4))
    epsilon = RDPAccountant().compose(four, 40_000).epsilon(1e-5)
    assert 2.03307 < epsilon < 2.57366
    # A pure Gaussian: 4.728 by concentration, 4.377 in truth.
    single = (
        RDPAccountant().compose(GaussianEvent(sensitivity=1, sigma=1)).epsilon(1e-5)
    )
    exact = GDPAccountant().compose(GaussianEvent(sensitivity=1, sigma=1)).epsilon(1e-5)
    assert exact < single < conversions.zcdp_epsilon(delta=1e-5, rho=Fraction(1, 2))


def test_tiny_sampling_rates_are_not_left_to_a_list_of_orders():
    step = PoissonSampledEvent(
        Fraction(1, 10**6), GaussianEvent(sensitivity=1, sigma=Fraction(1, 2))
    )
    assert RDPAccountant().compose(step).epsilon(1e-6) <= 0.00704


# ---- composition ------------------------------------------------------------------


def test_parts_add_up_however_they_are_wrapped():
    laplace, gaussian = (
        LaplaceEvent(sensitivity=1, scale=2),
        GaussianEvent(sensitivity=1, sigma=3),
    )
    whole = ComposedEvent((laplace, SelfComposedEvent(gaussian, 5)))
    orders = [1.01, 2, 7.5, 100]
    apart = RDPAccountant().compose(laplace).compose(gaussian, 5)
    together = RDPAccountant().compose(whole)
    alone = renyi_divergence(laplace, orders) + 5 * renyi_divergence(gaussian, orders)
    assert apart.divergence(orders) == pytest.approx(together.divergence(orders))
    assert apart.divergence(orders) == pytest.approx(alone, rel=1e-12)
    assert renyi_divergence(whole, orders) == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize(
    "event",
    [
        GaussianEvent(sensitivity=1, sigma=2),
        GDPEvent(Fraction(1, 2)),
        LaplaceEvent(sensitivity=1, scale=2),
        DiscreteLaplaceEvent(sensitivity=3, scale=6),
        DiscreteGaussianEvent(sensitivity=1, sigma=Fraction(1, 2)),
        DiscreteGaussianEvent(sensitivity=3, sigma=5, coordinates=4),
        RandomizedResponseEvent(p=Fraction(3, 5), q=Fraction(1, 10)),
        ExponentialMechanismEvent(1),
        PermuteAndFlipEvent(1),
        ZCDPEvent(Fraction(1, 10), xi=Fraction(1, 100)),
        TCDPEvent(rho=Fraction(1, 10), omega=5),
        RDPEvent(orders=(2, 8, 32), epsilons=(Fraction(1, 10), Fraction(1, 2), 3)),
        GroupEvent(LaplaceEvent(sensitivity=1, scale=6), 3),
        GroupEvent(
            PoissonSampledEvent(Fraction(1, 10), GaussianEvent(sensitivity=1, sigma=4)),
            2,
        ),
        PoissonSampledEvent(Fraction(1, 10), GaussianEvent(sensitivity=1, sigma=1)),
        PoissonSampledEvent(Fraction(1, 10), LaplaceEvent(sensitivity=1, scale=1)),
        PoissonSampledEvent(
            Fraction(1, 10), DiscreteLaplaceEvent(sensitivity=2, scale=1)
        ),
        PoissonSampledEvent(Fraction(1, 10), ExponentialMechanismEvent(1)),
        SampledWithoutReplacementEvent(
            source_dataset_size=100,
            sample_size=10,
            event=GaussianEvent(sensitivity=1, sigma=2, neighboring_relation=REPLACE),
        ),
        SampledWithoutReplacementEvent(
            source_dataset_size=100,
            sample_size=10,
            event=LaplaceEvent(sensitivity=1, scale=2, neighboring_relation=REPLACE),
        ),
    ],
)
def test_epsilon_and_delta_are_inverse_and_monotone(event):
    accountant = RDPAccountant().compose(event, 7)
    epsilons = accountant.epsilons([1e-12, 1e-8, 1e-5, 1e-2])
    assert np.all(np.diff(epsilons) <= 0)
    assert epsilons[2] == pytest.approx(accountant.epsilon(1e-5), rel=1e-8)
    assert accountant.delta(epsilons[2]) <= 1e-5 * (1 + 1e-6)
    deltas = accountant.deltas([0.1, 1, 3])
    assert np.all(np.diff(deltas) <= 0)
    assert deltas[1] == pytest.approx(accountant.delta(1), rel=1e-6)


def test_sampling_never_costs():
    for inner in (
        GaussianEvent(sensitivity=1, sigma=1),
        LaplaceEvent(sensitivity=1, scale=2),
        ExponentialMechanismEvent(1),
    ):
        orders = [1.3, 2, 5.5, 30]
        whole = renyi_divergence(inner, orders)
        sampled = renyi_divergence(PoissonSampledEvent(Fraction(1, 5), inner), orders)
        assert np.all(sampled <= whole)
        assert np.all(sampled[:2] < 0.5 * whole[:2])


def test_deltas_are_set_aside():
    event = ApproximateDPEvent(epsilon=Fraction(1, 10), delta=Fraction(1, 10**7))
    accountant = RDPAccountant().compose(event, 10)
    pure = RDPAccountant().compose(PureDPEvent(Fraction(1, 10)), 10)
    lost = 1 - (1 - 1e-7) ** 10
    rest = (1e-5 - lost) / (1 - lost)
    assert accountant.epsilon(1e-5) == pytest.approx(pure.epsilon(rest), rel=1e-9)
    total = accountant.delta(0.5)
    assert total == pytest.approx(lost + (1 - lost) * pure.delta(0.5), rel=1e-8)
    with pytest.raises(UnsupportedEventError, match="delta must be >"):
        accountant.epsilon(lost / 2)
    truncated = TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=2, bound=40)
    assert RDPAccountant().compose(truncated).delta(0.5) > 0
    with pytest.raises(UnsupportedEventError, match="infinite"):
        renyi_divergence(event, 2)


@pytest.mark.parametrize(
    "event",
    [
        SampledWithReplacementEvent(
            source_dataset_size=10,
            sample_size=5,
            event=GaussianEvent(sensitivity=1, sigma=1, neighboring_relation=SPECIAL),
        ),
        PoissonSampledEvent(
            Fraction(1, 2),
            GaussianEvent(sensitivity=1, sigma=1, neighboring_relation=REPLACE),
            neighboring_relation="add_or_remove_one",
        ),
        SampledWithoutReplacementEvent(
            source_dataset_size=10,
            sample_size=5,
            event=GaussianEvent(sensitivity=1, sigma=1, neighboring_relation=SPECIAL),
        ),
        PoissonSampledEvent(
            Fraction(1, 2), GroupEvent(GaussianEvent(sensitivity=1, sigma=1), 2)
        ),
        GroupEvent(RDPEvent(orders=(2,), epsilons=(1,)), 4),
    ],
)
def test_events_without_a_proved_curve_are_refused(event):
    accountant = RDPAccountant()
    with pytest.raises(UnsupportedEventError):
        accountant.compose(event)
    assert accountant.statement().events == ()


def test_permute_and_flip_is_not_of_bounded_range():
    orders = [1.001, 2, 10]
    flip = renyi_divergence(PermuteAndFlipEvent(1), orders)
    noise = LaplaceEvent(sensitivity=1, scale=1)
    assert np.array_equal(flip, renyi_divergence(noise, orders))
    assert np.all(flip < renyi_divergence(PureDPEvent(1), orders))
    assert np.all(flip > renyi_divergence(ExponentialMechanismEvent(1), orders))


def test_bounded_range_and_pure_divergence_meet_their_rho():
    # As the order falls to 1, D/order tends to the exact constants.
    order, epsilon = 1 + 1e-7, 0.8
    pure = renyi_divergence(PureDPEvent(Fraction(epsilon)), order) / order
    assert pure == pytest.approx(epsilon * math.tanh(epsilon / 2), rel=1e-6)
    orders = np.geomspace(1.0001, 1e4, 60)
    for event, rho in [
        (PureDPEvent(Fraction(epsilon)), epsilon**2 / 2),
        (ExponentialMechanismEvent(Fraction(epsilon)), epsilon**2 / 8),
    ]:
        assert np.all(renyi_divergence(event, orders) <= rho * orders * (1 + 1e-9))


def test_no_answer_is_infinite_or_unknown():
    accountant = RDPAccountant().compose(
        TCDPEvent(rho=Fraction(1, 10), omega=Fraction(3, 2))
    )
    for delta in (0.9, 1e-5, 1e-300):
        assert math.isfinite(accountant.epsilon(Fraction(delta)))
    huge = RDPAccountant().compose(GaussianEvent(sensitivity=10**6, sigma=1), 10**6)
    assert math.isfinite(huge.epsilon(1e-5))
    assert huge.delta(1) == 1
    tiny = RDPAccountant().compose(GaussianEvent(sensitivity=1, sigma=10**9))
    assert 0 <= tiny.epsilon(1e-300) < 1e-7
    assert tiny.delta(1e-8) < 1e-8


def test_threads_lose_nothing():
    accountant = RDPAccountant()

    def work():
        for _ in range(15):
            accountant.compose(LaplaceEvent(sensitivity=1, scale=100))
            accountant.epsilon(1e-5)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    once = RDPAccountant().compose(LaplaceEvent(sensitivity=1, scale=100), 60)
    assert accountant.epsilon(1e-5) == pytest.approx(once.epsilon(1e-5), rel=1e-9)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            lambda: renyi_divergence(LaplaceEvent(sensitivity=1, scale=1), 1),
            ParameterError,
        ),
        (
            lambda: renyi_divergence(
                LaplaceEvent(sensitivity=1, scale=1), [2, math.nan]
            ),
            ParameterError,
        ),
        (
            lambda: renyi_divergence(LaplaceEvent(sensitivity=1, scale=1), "2"),
            DTypeError,
        ),
        (lambda: rdp_to_epsilon(order=1, divergence=1, delta=1e-5), ParameterError),
        (lambda: rdp_to_epsilon(order=2, divergence=-1, delta=1e-5), ParameterError),
        (lambda: rdp_to_epsilon(order=2, divergence=1, delta=0), ParameterError),
        (lambda: rdp_to_delta(order=2, divergence=math.inf, epsilon=1), ParameterError),
        (lambda: rdp_to_delta(order=2, divergence=1, epsilon=-1), ParameterError),
        (lambda: RDPAccountant().epsilons([0.5, 0.0]), ParameterError),
        (lambda: RDPAccountant().deltas([-1.0]), ParameterError),
        (
            lambda: RDPAccountant().compose(LaplaceEvent(sensitivity=1, scale=1), -1),
            ParameterError,
        ),
        (lambda: RDPAccountant().compose("event"), DTypeError),
    ],
)
def test_bad_input(call, error):
    with pytest.raises(error):
        call()


def test_nothing_composed_and_delta_zero():
    accountant = RDPAccountant()
    assert accountant.epsilon(0) == accountant.delta(0) == 0
    accountant.compose(GaussianEvent(sensitivity=1, sigma=1))
    with pytest.raises(UnsupportedEventError, match="delta must be > 0"):
        accountant.epsilon(0)


# ---- the search -------------------------------------------------------------------

MIXTURES = {
    "samples": [
        (
            PoissonSampledEvent(
                Fraction(1, 100 + i), GaussianEvent(sensitivity=1, sigma=1 + i)
            ),
            100,
        )
        for i in range(3)
    ],
    "noises": [
        (LaplaceEvent(sensitivity=1, scale=20), 50),
        (DiscreteLaplaceEvent(sensitivity=1, scale=20), 30),
        (DiscreteGaussianEvent(sensitivity=1, sigma=Fraction(1, 2)), 1),
    ],
    "kinks": [
        (ExponentialMechanismEvent(Fraction(1, 10)), 50),
        (
            RDPEvent(
                orders=(2, 8, 32), epsilons=(Fraction(1, 100), Fraction(1, 20), 1)
            ),
            3,
        ),
    ],
}


@pytest.mark.parametrize("name", MIXTURES)
def test_the_best_order_of_a_mixture_is_found(name):
    accountant = RDPAccountant()
    for event, count in MIXTURES[name]:
        accountant.compose(event, count)
    gaps = np.geomspace(0.01, 500, 800)
    moments = accountant.divergence(1 + gaps) * gaps
    pairs = list(zip(gaps.tolist(), moments.tolist(), strict=True))
    for epsilon in [0.001, 0.5, 8.0]:
        least = min(log_delta_at_order(gap, k, epsilon) for gap, k in pairs)
        got = accountant.log_delta(Fraction(epsilon))
        assert got <= least + 1e-9 * (1 + abs(least))
        assert got > least - 1e-2 * (1 + abs(least))  # the grid is coarse
    for delta in [0.3, 1e-6, 1e-100]:
        log = math.log(delta)
        least = min(epsilon_at_order(gap, k, log)[0] for gap, k in pairs)
        got = RDPAccountant.from_statement(accountant.statement()).epsilon(delta)
        assert least * (1 - 1e-2) <= got <= least * (1 + 1e-9)


@pytest.mark.parametrize("order", [1.02, 2, 40, 3000])
@pytest.mark.parametrize("moment", [1e-9, 0.1, 2, 60])
def test_one_order_at_every_w0(order, moment):
    # The best of many w0, by the formula of docs/proofs/rdp.md, section 5.
    t = order - 1
    for epsilon in [0.0, 0.3, 5.0]:
        best = math.inf
        for log_w0 in (-np.geomspace(1e-7, 8, 60)).tolist():
            r = root_above(
                lambda x, w=log_w0, e=epsilon: (
                    e - w - math.log(t / (1 + t)) - steep(t, x)
                ),
                (epsilon - log_w0) * (1 - 1e-9),
                2 * (epsilon - log_w0),
            )
            rest = t * math.exp((1 + t) * log_w0) - (1 + t) * math.exp(t * log_w0)
            below = log_w0 * t + math.log(1 + t) + log_expm1(t * r)
            share = math.exp(moment) + rest if moment < 30 else math.exp(moment)
            if share > 0:
                best = min(best, math.log(share) - below)
        got = log_delta_at_order(t, moment, epsilon)
        assert got <= best + 1e-6 * (1 + abs(best)), (epsilon, got, best)


def steep(t, r):
    """Return ln((e^((1+t)r) - 1)/(e^(tr) - 1))."""
    return log_expm1((1 + t) * r) - log_expm1(t * r)


@pytest.mark.parametrize("sigma", [Fraction(1, 10**140), 10**40, 10**160])
def test_extreme_noise_has_finite_bounds(sigma):
    accountant = RDPAccountant().compose(
        GaussianEvent(sensitivity=1, sigma=sigma), 10**6
    )
    for delta in (Fraction(1, 10**5), Fraction(1, 10**300)):
        epsilon = accountant.epsilon(delta)
        assert 0 <= epsilon < math.inf
        fresh = RDPAccountant().compose(
            GaussianEvent(sensitivity=1, sigma=sigma), 10**6
        )
        assert fresh.epsilon(delta) == pytest.approx(epsilon, rel=1e-9)
    assert accountant.log_delta(1) <= 0


def test_what_is_kept_between_readings_belongs_to_one_accountant():
    # Another delta, a mixture with lines, and a refused event in between.
    accountant, other = RDPAccountant(), RDPAccountant()
    for i in range(12):
        event = STEP if i % 3 else GaussianEvent(sensitivity=1, sigma=30)
        accountant.compose(event)
        other.compose(STEP).epsilon(1e-3)
        assert accountant.supports(LaplaceEvent(sensitivity=1, scale=3))
        for delta in (1e-5, 1e-9):
            fresh = RDPAccountant.from_statement(accountant.statement())
            expected = pytest.approx(fresh.epsilon(delta), rel=2e-9)
            assert accountant.epsilon(delta) == expected
