"""Published and taught formulas that are wrong or incomplete: each shown false.

The page docs/accounting.md lists them; every test names the line it belongs to.
"""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import fastdp.accounting
from fastdp import calibration
from fastdp.accounting import (
    ApproximateAccountant,
    ApproximateDPEvent,
    DeclaredFilter,
    ExponentialMechanismEvent,
    GaussianEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    PoissonSampledEvent,
    PureAccountant,
    PureDPEvent,
    RDPAccountant,
    RDPEvent,
    SampledWithoutReplacementEvent,
    advanced_composition,
    amplification,
    conversions,
    event_delta,
    event_epsilon,
    event_rho,
    group_delta,
    kairouz_composition,
    readings,
    renyi_divergence,
)
from fastdp.accounting.calculators import data_dependent_pate_divergence, pate
from fastdp.distributions import DiscreteGaussian, DiscreteLaplace
from fastdp.exceptions import DTypeError, UnsupportedEventError


def hockey_stick(p, q, epsilon):
    return float(np.maximum(np.asarray(p) - math.exp(epsilon) * np.asarray(q), 0).sum())


# ---- noise -------------------------------------------------------------------------


@pytest.mark.parametrize(("constant", "epsilon"), [(1.25, 10), (2.0, 20)])
def test_classic_gaussian_sigma_beyond_epsilon_one(constant, epsilon):
    delta = 1e-5
    classic = math.sqrt(2 * math.log(constant / delta)) / epsilon
    assert (
        conversions.gaussian_delta(epsilon=epsilon, sensitivity=1, sigma=classic)
        > delta
    )
    assert "gaussian_sigma" not in dir(calibration)  # no such formula is offered


def test_normal_tails_for_discrete_noisy_votes():
    # P(a label two votes behind wins), noise of sigma 1/2 on each count.
    sigma, gap = 0.5, 2
    x = np.arange(-12, 13)
    law = DiscreteGaussian(sigma).pmf(x)
    ahead = x[:, None] - x[None, :] >= gap
    wins = float(np.sum(np.outer(law, law)[ahead]))
    normal = 0.5 * math.erfc(gap / (2 * sigma))
    assert wins > 2.4 * normal


def test_laplace_tails_for_discrete_noisy_votes():
    # The same with noise on integers: ties, which the other label may win, count.
    scale, gap = 0.5, 2
    x = np.arange(-60, 61)
    law = DiscreteLaplace(scale).pmf(x)
    ahead = x[:, None] - x[None, :] >= gap
    wins = float(np.sum(np.outer(law, law)[ahead]))
    gamma = 1 / scale
    continuous = (2 + gamma * gap) / (4 * math.exp(gamma * gap))
    assert wins > 1.4 * continuous


def test_truncated_noise_must_be_normalized_and_cut_at_its_own_scale():
    epsilon, delta = 1.0, 1e-3
    scale = 1 / epsilon
    cut = scale * math.log(1 + math.expm1(epsilon) / (2 * delta))
    mass = 2 * scale * -math.expm1(-cut / scale)
    # the last unit of the normalized density is exactly delta
    tail = scale * (math.exp(-(cut - 1) / scale) - math.exp(-cut / scale)) / mass
    assert tail == pytest.approx(delta, rel=1e-12)
    unnormalized = tail * mass / (2 * scale)
    assert unnormalized < delta
    doubled = 2 * scale  # another scale than that of the cut: delta breaks
    mass = 2 * doubled * -math.expm1(-cut / doubled)
    wide = doubled * (math.exp(-(cut - 1) / doubled) - math.exp(-cut / doubled)) / mass
    assert wide > 10 * delta


def test_bias_gamma_is_not_four_gamma():
    for bias in [0.01, 0.1, 0.25, 0.4]:
        p = 0.5 + bias
        exact = math.log(p / (1 - p))
        assert exact > 4 * bias
        assert readings.randomized_response_epsilon(bias) == pytest.approx(exact)


def test_bounded_range_rho_for_permute_and_flip():
    epsilon = 0.1
    low = math.exp(-epsilon / 2) / 2
    divergence = (1 - 2 * low) * math.log((1 - low) / low)
    assert divergence > 3.5 * epsilon**2 / 8
    assert event_rho(ExponentialMechanismEvent(epsilon)) == pytest.approx(
        epsilon**2 / 8
    )
    assert event_rho(PermuteAndFlipEvent(epsilon)) >= divergence


# ---- composition -------------------------------------------------------------------


def test_three_forms_of_advanced_composition_are_valid_and_ordered():
    epsilon, count, slack = 0.1, 100, 1e-6
    best = ApproximateAccountant().compose(PureDPEvent(epsilon), count).epsilon(slack)
    spread = epsilon * math.sqrt(2 * count * math.log(1 / slack))
    whole = spread + count * epsilon * math.expm1(epsilon)
    half = spread + count * epsilon * math.expm1(epsilon) / 2
    tight = spread + count * epsilon * math.tanh(epsilon / 2)
    assert best < tight < half < whole
    assert advanced_composition(
        epsilon=epsilon, count=count, slack=slack
    ) == pytest.approx(whole)
    got = kairouz_composition({Fraction(epsilon): count}, slack=slack)
    assert got == pytest.approx(tight, rel=1e-12)


def test_the_lattice_alone_loses_up_to_two_epsilon():
    epsilon, count = Fraction(1, 10), 40
    accountant = ApproximateAccountant().compose(PureDPEvent(epsilon), count)
    delta = accountant.delta(Fraction("2.65"))
    lattice = min(
        Fraction(count - 2 * i, 10)
        for i in range(count // 2 + 1)
        if accountant.delta(Fraction(count - 2 * i, 10)) <= delta
    )
    assert accountant.epsilon(delta) < 2.6501 < lattice


def test_never_more_than_the_sum():
    assert advanced_composition(epsilon=1, count=3, slack=1e-6) == 3.0
    assert kairouz_composition({Fraction(1): 3}, slack=1e-6) == 3.0


def composed(p, q, count):
    """Return loss -> mass of `count` draws from a pair of two-point laws."""
    log_ratio = [math.log(a / b) for a, b in zip(p, q, strict=True)]
    return [
        (
            j * log_ratio[0] + (count - j) * log_ratio[1],
            math.comb(count, j) * p[0] ** j * p[1] ** (count - j),
        )
        for j in range(count + 1)
    ]


def delta_of(law, epsilon):
    return sum(
        mass * -math.expm1(epsilon - loss) for loss, mass in law if loss > epsilon
    )


def test_the_worse_direction_of_one_step_need_not_be_the_worse_of_many():
    remove, add = (0.01, 0.99), (0.1, 0.9)
    epsilon = 0.05
    one = [
        delta_of(composed(a, b, 1), epsilon) for a, b in ((remove, add), (add, remove))
    ]
    assert one[1] > one[0]
    crossings = set()
    for count in [1, 20, 60, 100]:
        for epsilon in np.linspace(0.05, 8, 40).tolist():
            first = delta_of(composed(remove, add, count), epsilon)
            second = delta_of(composed(add, remove, count), epsilon)
            crossings.add(first > second * (1 + 1e-9))
    assert crossings == {True, False}


# ---- samples -----------------------------------------------------------------------


def test_the_central_limit_is_no_bound():
    rate, sigma, epsilon = 0.01, 1, 0.5
    mu = rate * math.sqrt(math.expm1(1 / sigma**2))
    limit = conversions.gaussian_delta(
        epsilon=epsilon, sensitivity=Fraction(mu), sigma=1
    )
    true = event_delta(
        PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=sigma)), epsilon
    )
    # the exact profile, from the inner Gaussian
    inside = math.log1p(math.expm1(epsilon) / rate)
    by_hand = rate * conversions.gaussian_delta(
        epsilon=inside, sensitivity=1, sigma=sigma
    )
    assert true == pytest.approx(by_hand, rel=1e-9)
    assert limit < 1e-100 < 1e-7 < true


def test_poisson_figures_are_not_those_of_fixed_batches():
    replace = NeighboringRelation.REPLACE_ONE
    noise = GaussianEvent(sensitivity=1, sigma=1)
    poisson = PoissonSampledEvent(0.01, noise)
    # The noise is for one record more: a replaced one is charged as two.
    taken_twice = SampledWithoutReplacementEvent(
        source_dataset_size=1000, sample_size=10, event=noise
    )
    assert event_delta(taken_twice, 1) > 10 * event_delta(poisson, 1)
    # Of a replacement it may be known who is in the sample.
    known = PoissonSampledEvent(
        0.01, GaussianEvent(sensitivity=2, sigma=1, neighboring_relation=replace)
    )
    assert event_delta(known, 1) > event_delta(taken_twice, 1)
    # One record replaced moves a clipped sum by twice its bound: not the same delta.
    fixed = SampledWithoutReplacementEvent(
        source_dataset_size=1000,
        sample_size=10,
        event=GaussianEvent(sensitivity=2, sigma=1, neighboring_relation=replace),
    )
    assert event_delta(fixed, 1) > 10 * event_delta(poisson, 1)


def test_relations_are_never_mixed():
    accountant = PureAccountant().compose(PureDPEvent(1))
    with pytest.raises(UnsupportedEventError, match="neighboring_relation"):
        accountant.compose(
            PureDPEvent(1, neighboring_relation=NeighboringRelation.REPLACE_ONE)
        )


def test_the_closed_form_of_sampled_gaussian_noise_outside_its_conditions():
    # 2 q^2 a / sigma^2 asks for sigma >= 4; at sigma = 1/2, order 2, the exact
    # divergence is ln(1 + q^2 (e^(1/sigma^2) - 1)).
    rate, sigma = 0.01, 0.5
    exact = math.log1p(rate**2 * math.expm1(1 / sigma**2))
    closed = 2 * rate**2 * 2 / sigma**2
    assert exact > 3 * closed
    ours = renyi_divergence(
        PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=sigma)), 2
    )
    assert float(ours) == pytest.approx(exact, rel=1e-12)


def test_sampling_probability_of_the_printed_formula():
    inner, wanted = 1.0, 0.5
    printed = math.expm1(wanted) / (math.exp(inner) - math.exp(wanted - inner) - 1)
    tight = math.expm1(wanted) / math.expm1(inner)
    assert (round(printed, 3), round(tight, 3)) == (0.584, 0.378)
    got = event_epsilon(PoissonSampledEvent(printed, PureDPEvent(inner)))
    assert got == pytest.approx(0.694, abs=1e-3)
    assert got > wanted
    sampled = PoissonSampledEvent(tight, PureDPEvent(inner))
    assert event_epsilon(sampled) == pytest.approx(wanted, rel=1e-12)


def test_shuffled_batches_are_no_event_and_reports_get_the_proved_rate():
    # No event states batches that pass over shuffled data.
    kinds = [name for name in dir(fastdp.accounting) if name.endswith("Event")]
    assert kinds
    assert not [name for name in kinds if "huffl" in name]
    # "Stronger clones" was withdrawn in general: the rate 2/(e^e0 + 1) is what
    # binary response has, and any randomizer gets e^-e0, which hides less.
    binary = amplification.shuffled_delta(
        local_epsilon=2, clients=1000, epsilon=0.3, categories=2
    )
    general = amplification.shuffled_delta(local_epsilon=2, clients=1000, epsilon=0.3)
    assert general > 10 * binary


# ---- divergences -------------------------------------------------------------------


def test_a_curve_is_not_interpolated_in_epsilon():
    # Randomized response: the curve is concave, so its chord lies below it.
    p = 1 / (1 + math.exp(-2.0))

    def curve(order):
        total = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
        return math.log(total) / (order - 1)

    low, high, order = 2.0, 16.0, 4.0
    share = (order - low) / (high - low)
    wrong = (1 - share) * curve(low) + share * curve(high)
    chord = (1 - share) * (low - 1) * curve(low) + share * (high - 1) * curve(high)
    assert wrong < curve(order) < chord / (order - 1)
    table = RDPEvent(
        orders=(low, high), epsilons=(Fraction(curve(low)), Fraction(curve(high)))
    )
    ours = float(renyi_divergence(table, order))
    assert ours == pytest.approx(chord / (order - 1), rel=1e-12)


def test_pure_epsilon_gives_a_quarter_of_the_often_quoted_divergence():
    for epsilon, order in itertools.product(["0.01", "0.5", "2"], ["1.01", "2", "30"]):
        e, a = mp.mpf(epsilon), mp.mpf(order)
        worst = mp.log(mp.cosh((2 * a - 1) * e / 2) / mp.cosh(e / 2)) / (a - 1)
        assert worst <= a * e * e / 2 < 2 * a * e * e
        assert worst <= a * conversions.pure_to_rho(Fraction(epsilon))


def test_one_fixed_order_says_little():
    # Gaussian noise, 100 answers: epsilon at order 2 against the best order.
    rho = 100 / (2 * 10.0**2)
    at_two = 2 * rho + math.log(0.5) - math.log(2e-5)
    best = conversions.zcdp_epsilon(delta=1e-5, rho=rho)
    assert at_two > 2 * best


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "published"),
    [
        (Fraction(1, 100), 4, 40_000, 2.55),  # Abadi et al. 2016, in the text
        (Fraction(256, 60_000), Fraction(3, 5), 7_031, 9.74),  # TF-privacy, 2018
    ],
)
def test_figures_below_the_least_value_of_their_own_method(
    rate, sigma, steps, published
):
    # The moments accountant's rule, D_a + ln(1/delta)/(a - 1), at the best order.
    accountant = RDPAccountant()
    accountant.compose(
        PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=sigma)), steps
    )
    gaps = np.exp(np.linspace(math.log(0.5), math.log(200), 4000))
    method = accountant.divergence(1 + gaps) + math.log(1e5) / gaps
    assert published < float(method.min()) < published * 1.01
    # the better conversion shows that the claim itself was true
    assert accountant.epsilon(1e-5) < published


# ---- adaptivity --------------------------------------------------------------------


def test_whole_losses_composed_along_the_way_are_no_filter():
    # First binary response with epsilon 1. After its likelier outcome again one with
    # epsilon 1, after the other a mechanism that fails outright with probability d.
    epsilon = 1.0
    plus, minus = math.e / (1 + math.e), 1 / (1 + math.e)

    def response(threshold):
        rest = plus * -math.expm1(threshold - 1) if threshold < 1 else 0.0
        return rest if threshold > -1 else -math.expm1(threshold)

    d = plus * response(epsilon - 1) + minus * response(epsilon + 1)

    def failure(threshold):  # nothing is lost but with probability d everything
        return d + (1 - d) * max(0.0, -math.expm1(threshold))

    # Either of the two compositions that a history shows has this delta ...
    accountant = ApproximateAccountant().compose(PureDPEvent(1), 2)
    assert accountant.delta(epsilon) == pytest.approx(d, rel=1e-9)
    fixed = plus * failure(epsilon - 1) + minus * failure(epsilon + 1)
    assert fixed == pytest.approx(d, rel=1e-12)
    # ... and the process that chooses by the first outcome has a larger one.
    chosen = plus * response(epsilon - 1) + minus * failure(epsilon + 1)
    assert chosen > 1.2 * d
    # So a budget of a whole accountant is for one event that was declared.
    declared = DeclaredFilter(
        PureDPEvent(1),
        epsilon=epsilon,
        delta=d * 1.01,
        accountant=ApproximateAccountant,
    )
    declared.spend(PureDPEvent(1))
    with pytest.raises(UnsupportedEventError, match="declared"):
        declared.spend(ApproximateDPEvent(epsilon=0, delta=Fraction(d)))
    filters = [name for name in dir(fastdp.accounting) if name.endswith("Filter")]
    assert not [name for name in filters if name.startswith(("PLD", "FDP"))]


def test_an_epsilon_that_depends_on_the_data_reveals_it():
    # The votes of 250 teachers, and the same with one vote moved.
    votes, moved = [200, 20, 30], [199, 21, 30]
    here = data_dependent_pate_divergence(votes, noise="gaussian", width=40, order=8)
    there = data_dependent_pate_divergence(moved, noise="gaussian", width=40, order=8)
    # A figure that differs between neighbors tells them apart for certain.
    assert here != there
    # What may be stated does not know the votes, and a bare figure is no event.
    event = pate("gaussian", 40)
    assert renyi_divergence(event, 8) > max(here, there)
    with pytest.raises(DTypeError):
        RDPAccountant().compose(here)


# ---- what (epsilon, delta) means ---------------------------------------------------


def test_a_group_of_t_is_not_t_epsilon_t_delta():
    # One bit whose probability falls as fast along a chain as (1, 0.01) allows.
    chance = [0.0]
    for _ in range(3):
        chance.append(0.01 + math.e * chance[-1])
    meets = chance[3] - math.exp(3) * chance[0]
    assert meets > 3 * 0.01
    assert meets == pytest.approx(group_delta(epsilon=1, delta=0.01, size=3), rel=1e-12)
    # the bound t e^((t-1) epsilon) delta holds; without the epsilon it does not
    assert meets < 3 * math.exp(2 * 1) * 0.01
    four = group_delta(epsilon=4, delta=1e-9, size=3)
    assert 3 * math.exp(2) * 1e-9 < four < 3 * math.exp(2 * 4) * 1e-9


def test_a_tail_of_the_loss_is_only_sufficient():
    # Gaussian noise at its exact delta: the loss exceeds epsilon far more often.
    epsilon, delta = 1.0, 1e-5
    sigma = 3.731
    assert (
        conversions.gaussian_delta(epsilon=epsilon, sensitivity=1, sigma=sigma) <= delta
    )
    mean = 1 / (2 * sigma**2)
    tail = 0.5 * math.erfc((epsilon - mean) * sigma / math.sqrt(2))
    assert tail > 5 * delta
