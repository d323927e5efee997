"""Given privacy losses, bounded range, many steps, refusals, extremes and memory."""

import dataclasses
import itertools
import json
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import (
    DiscreteGaussianEvent,
    Event,
    ExponentialMechanismEvent,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PrivacyLossEvent,
    PureDPEvent,
    conversions,
    event_delta,
    privacy_loss_from_pmf,
)
from fastdp.accounting._atoms.bounds import log_delta_reading
from fastdp.accounting._pld.discrete_gaussian import (
    DiscreteGaussianLoss,
    DiscreteGaussianProfile,
)
from fastdp.accounting._pld.interval_loss import IntervalLoss, View
from fastdp.exceptions import DTypeError, ParameterError

ADD, REPLACE = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
)

mp.mp.dps = 30


def accountant(*steps):
    result = PLDAccountant()
    for event, count in steps:
        result.compose(event, count)
    return result


# ---- given laws ----------------------------------------------------------------------


def geometric(rate, top):
    """Probabilities on a grid, P above Q: losses `rate` times -top..top."""
    index = np.arange(-top, top + 1)
    weight = np.exp(rate * index / 2 - (index / top) ** 2)
    return weight / weight.sum()


def two_answers(p, q, relation):
    """Return the event of two answers with these probabilities, and the pair."""
    first, second = math.log(q / p), math.log((1 - q) / (1 - p))
    losses, masses = (-first, -second), (Fraction(p), 1 - Fraction(p))
    if losses[0] > losses[1]:
        losses, masses = losses[::-1], masses[::-1]
    event = PrivacyLossEvent(
        losses=losses, probabilities=masses, neighboring_relation=relation
    )
    return event, ((p, 1 - p), (q, 1 - q))


def product_delta(pairs, epsilon):
    """Return delta of a product of pairs of two masses, by all answers."""
    total = 0.0
    for answer in itertools.product((0, 1), repeat=len(pairs)):
        p = math.prod(one[i] for (one, _), i in zip(pairs, answer, strict=True))
        q = math.prod(other[i] for (_, other), i in zip(pairs, answer, strict=True))
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.98), (0.2, 0.3), (0.01, 0.4), (0.9, 0.1)])
def test_replaced_records_have_no_orientation(p, q):
    event, (one, other) = two_answers(p, q, REPLACE)
    for count in (1, 2, 4, 5):
        found = accountant((event, count))
        for epsilon in (0, 0.5, 1, 1.5, 3):
            least = [product_delta([(one, other)] * count, epsilon)]
            least.append(product_delta([(other, one)] * count, epsilon))
            # One mechanism has the first law on one record, the next one the second.
            mixed = [(one, other), (other, one)] * 3
            worst = max(*least, product_delta(mixed[:count], epsilon))
            bounds = found.delta_bounds(epsilon)
            assert worst <= bounds.upper * (1 + 1e-12)
            assert max(least) >= bounds.lower * (1 - 1e-12)
            if count == 1:
                assert bounds.upper <= max(least) * (1 + 1e-12) + 1e-14


def test_an_oriented_relation_keeps_its_directions():
    for relation in (ADD, NeighboringRelation.REPLACE_SPECIAL):
        event, (one, other) = two_answers(0.5, 0.98, relation)
        truth = max(
            product_delta([(one, other)] * 4, 1), product_delta([(other, one)] * 4, 1)
        )
        assert accountant((event, 4)).delta(1) == pytest.approx(truth, rel=1e-9)


def test_a_mirrored_law_is_composed_as_it_is_for_a_replaced_record():
    e = Fraction(1, 2)
    least = Fraction(1 / (1 + math.exp(e)))
    event = PrivacyLossEvent(
        losses=(-e, e),
        probabilities=(least, 1 - least),
        neighboring_relation=REPLACE,
    )
    found = accountant((event, 1000)).epsilon_bounds(1e-6)
    pure = PureDPEvent(e, neighboring_relation=REPLACE)
    truth = accountant((pure, 1000)).epsilon(1e-6)
    assert found.upper == pytest.approx(truth, rel=1e-6)
    assert found.upper - found.lower <= 1e-6 * truth


def test_a_law_on_a_grid_is_composed_as_it_is():
    masses = geometric(0.25, 6)
    event = privacy_loss_from_pmf(masses, interval=0.25, lower_index=-6)
    assert sum(event.probabilities) <= 1
    square = np.convolve(masses, masses)
    losses = 0.25 * np.arange(-12, 13)
    for epsilon in (0.0, 0.3, 2.6):
        found = accountant((event, 2)).delta_bounds(epsilon)
        one = square @ -np.expm1(np.minimum(epsilon - losses, 0))
        # The other direction: masses under Q at the opposite losses.
        back = square * np.exp(-losses)
        other = back @ -np.expm1(np.minimum(epsilon + losses, 0))
        assert found.estimate == pytest.approx(max(one, other), rel=1e-11)
        assert found.upper - found.lower <= 1e-10 * found.upper


def cubed(losses, masses, epsilon):
    """delta of three steps, by their outcomes."""
    finite = [
        (sum(x), math.prod(m))
        for x, m in zip(
            itertools.product(losses, repeat=3),
            itertools.product(masses, repeat=3),
            strict=True,
        )
    ]
    lost = 1 - sum(masses) ** 3
    return lost + sum(m * -math.expm1(min(0, epsilon - x)) for x, m in finite)


def test_directions_are_kept_apart():
    removal, addition = ((-0.5, 1), (0.25, 0.75)), ((-1, 0.5), (0.125, 0.625))
    only = PrivacyLossEvent(losses=removal[0], probabilities=removal[1])
    event = dataclasses.replace(
        only, addition_losses=addition[0], addition_probabilities=addition[1]
    )
    only = dataclasses.replace(
        only, addition_losses=removal[0], addition_probabilities=removal[1]
    )
    assert accountant((only, 3)).delta_bounds(9).upper == 0
    for epsilon in (0, 0.4, 1):
        true = max(cubed(*removal, epsilon), cubed(*addition, epsilon))
        found = accountant((event, 3)).delta_bounds(epsilon)
        assert found.estimate == pytest.approx(true, rel=1e-11)
    lost = accountant((event, 3)).delta_bounds(9)
    assert lost.estimate == pytest.approx(1 - 0.75**3, rel=1e-12)  # of the addition


def test_a_law_of_removal_says_what_that_of_addition_is():
    p, q = 0.75, 0.0625
    loss = Fraction(math.log(p / q))
    event = PrivacyLossEvent(losses=(loss,), probabilities=(p,))
    for epsilon in (0, 1, 3):
        # P has 1/4 where Q has nothing, Q has 15/16 where P has nothing.
        true = max(0.25 + max(0, p - math.exp(epsilon) * q), 1 - q)
        found = accountant((event, 1)).delta_bounds(epsilon)
        assert found.lower <= true * (1 + 1e-12)
        assert true * (1 - 1e-12) <= found.upper <= true * (1 + 1e-10)


def test_json_and_sparse_probabilities():
    sparse = privacy_loss_from_pmf(
        {3: 0.5, -3: 0.25}, interval=Fraction(1, 10), lower_index=0, infinity_mass=0.25
    )
    dense = privacy_loss_from_pmf(
        [0.25, 0, 0, 0, 0, 0, 0.5], interval=Fraction(1, 10), lower_index=-3
    )
    assert sparse == dense  # what is missing is infinite loss
    both = privacy_loss_from_pmf([0.5], interval=1, lower_index=1, addition=dense)
    assert both.addition_losses == dense.losses
    for event in (sparse, both):
        assert Event.from_json(event.to_json()) == event
        assert json.loads(event.to_json())["event"]["type"] == "PrivacyLossEvent"


def test_rounded_probabilities_are_repaired_upward():
    masses = geometric(0.5, 9)
    for factor in (1 + 1e-13, 1 - 1e-13):
        rounded = masses * factor
        event = privacy_loss_from_pmf(rounded, interval=0.5, lower_index=-9)
        values = [float(p) for p in event.probabilities]
        assert sum(event.probabilities) <= 1
        # From the second loss on nothing is taken off.
        assert all(a >= b for a, b in zip(values[1:], rounded[1:], strict=True))
    losses = 0.5 * np.arange(-9, 10)
    shifted = masses * (masses @ np.exp(-losses)) ** -1 * (1 + 1e-12)
    shifted[-1] += 1 - shifted.sum() if shifted.sum() < 1 else 0
    event = privacy_loss_from_pmf(shifted, interval=0.5, lower_index=-9)
    other = math.fsum(
        float(p) * math.exp(-float(x))
        for p, x in zip(event.probabilities, event.losses, strict=True)
    )
    assert other <= 1
    # The two largest losses are what they were.
    assert event.probabilities[-2:] == tuple(Fraction(p) for p in shifted[-2:])


def test_what_a_transform_leaves_is_read():
    """Numbers below 0 by rounding, and a mass of Q that rounding made too large."""
    masses = geometric(0.05, 60)
    masses[3] = -2e-18
    event = privacy_loss_from_pmf(masses, interval=0.05, lower_index=-60)
    assert len(event.losses) == 120
    masses = geometric(0.05, 60)
    masses *= 0.9999
    masses[:10] *= 1.004
    event = privacy_loss_from_pmf(masses, interval=0.05, lower_index=-60)
    losses = np.array(event.losses, float)
    other = float(np.array(event.probabilities, float) @ np.exp(-losses))
    assert masses.sum() < 1
    assert other <= 1 < masses @ np.exp(-0.05 * np.arange(-60, 61))
    # What was lowest is raised and nothing else is changed.
    assert event.probabilities[0] < masses[0]
    assert event.probabilities[-80:] == tuple(Fraction(p) for p in masses[-80:])


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (([0.5, 0.6], 1), ParameterError, "at most 1"),
        (([0.5, -0.1], 1), ParameterError, ">= 0"),
        (([0.0, 0.0], 1), ParameterError, "not all be 0"),
        (([math.nan], 1), ParameterError, "finite"),
        (([0.5], 0), ParameterError, "interval"),
        (([0.5], 1, 0.5), DTypeError, "lower_index"),
        (([0.5], 1, 0, -1), ParameterError, "infinity_mass"),
        (([0.5], 1, 0, 1), ParameterError, "infinity_mass|at most 1"),
        ((["a"], 1), DTypeError, "numbers"),
        (([[0.5]], 1), DTypeError, "shape"),
        (([0.5, 0.5], 1, -1), ParameterError, "optimistic"),
        (({0.5: 1.0}, 1), DTypeError, "probabilities"),
    ],
)
def test_bad_probabilities_are_refused(arguments, error, match):
    with pytest.raises(error, match=match):
        privacy_loss_from_pmf(
            arguments[0],
            **dict(
                zip(
                    ("interval", "lower_index", "infinity_mass"),
                    arguments[1:],
                    strict=False,
                )
            ),
        )


def test_dp_accounting_reads_the_same():
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution as pld

    theirs = pld.from_laplace_mechanism(1.0, value_discretization_interval=1e-3)
    pmf = theirs._pmf_remove.to_dense_pmf()
    event = privacy_loss_from_pmf(
        pmf._probs,
        interval=pmf._discretization,
        lower_index=pmf._lower_loss,
        infinity_mass=pmf._infinity_mass,
    )
    twice = PrivacyLossEvent(
        losses=event.losses,
        probabilities=event.probabilities,
        addition_losses=event.losses,
        addition_probabilities=event.probabilities,
    )
    ours = accountant((twice, 5)).epsilon_bounds(1e-6)
    assert ours.estimate == pytest.approx(
        theirs.self_compose(5).get_epsilon_for_delta(1e-6), rel=1e-9
    )
    exact = accountant((LaplaceEvent(sensitivity=1, scale=1), 5)).epsilon_bounds(1e-6)
    assert exact.lower <= ours.upper <= exact.upper * (1 + 1e-5)


# ---- bounded range -------------------------------------------------------------------


def test_bounded_range_once_is_its_worst_interval():
    event = ExponentialMechanismEvent(2)
    for epsilon in (0, 0.5, 1.75):
        true = event_delta(event, epsilon)
        found = accountant((event, 1)).delta_bounds(epsilon)
        assert found.lower <= true <= found.upper <= true * (1 + 1e-11)
        assert found.certificate == "closed form"
    least = accountant((event, 1)).epsilon_bounds(1e-6)
    assert least.upper - least.lower < 1e-9
    assert event_delta(event, least.lower) >= 1e-6 * (1 - 1e-9)


@pytest.mark.rest
@pytest.mark.parametrize("count", [1, 5, 200])
@pytest.mark.parametrize("length", [Fraction(1, 10), 2])
def test_bounded_range_is_between_response_and_pure(length, count):
    events = [
        PureDPEvent(Fraction(length) / 2),
        ExponentialMechanismEvent(length),
        PureDPEvent(length),
    ]
    least, found, most = (
        accountant((event, count)).epsilon_bounds(1e-6) for event in events
    )
    assert least.lower <= found.lower <= found.upper < most.upper
    assert found.lower >= least.lower


# ---- many steps ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shift", "sigma", "count"), [(1, 3, 50), (2, 4, 9), (1, 2, 400)]
)
def test_the_closed_form_of_discrete_gaussian_noise(shift, sigma, count):
    """Against the composition on the lattice of its losses."""
    loss = DiscreteGaussianLoss(shift, Fraction(sigma * sigma))
    closed = DiscreteGaussianProfile(shift, Fraction(sigma * sigma)).times(count)
    for deviations in (0, 1, 4):
        mu = shift * math.sqrt(count) / sigma
        epsilon = mu * mu / 2 + deviations * mu
        sums = log_delta_reading(((loss, count),), epsilon)(np.array([epsilon]))[0]
        form = closed.log_delta(epsilon)
        assert sums.method == "sum"
        assert form.lower <= sums.upper
        assert sums.lower <= form.upper
        assert form.upper - form.lower < 1e-10
        assert sums.upper - sums.lower < 1e-9


def test_wide_discrete_noise_is_summed_or_continuous():
    """At the width where one takes over from the other."""
    summed = DiscreteGaussianProfile(10**4, Fraction(10**9))
    wide = DiscreteGaussianProfile(10**4, Fraction(10**9) + 1)
    for epsilon in (0.01, 0.5, 2, 10):
        a, b = summed.log_delta(epsilon), wide.log_delta(epsilon)
        assert b.lower - 1e-6 <= a.lower <= a.upper <= b.upper + 1e-6
        assert b.upper - b.lower < 1e-5
    huge = accountant(
        (DiscreteGaussianEvent(sensitivity=1, sigma=10**6, coordinates=1), 10**9)
    )
    bounds = huge.epsilon_bounds(1e-9)
    assert bounds.upper - bounds.lower < 1e-9 * bounds.upper
    true = conversions.gaussian_epsilon(
        delta=1e-9, sensitivity=1, sigma=10**6 / math.sqrt(10**9)
    )
    assert bounds.estimate == pytest.approx(true, rel=1e-9)


@pytest.mark.rest
@pytest.mark.parametrize("view", list(View))
def test_cumulants_of_sampled_intervals(view):
    for e, ends, rate in ((2, True, Fraction(1, 10)), (1, False, Fraction(3, 4))):
        loss = IntervalLoss(Fraction(e), ends, rate, view)
        orders = np.array([0.3, 4.0, 50.0])
        value, error = loss.cumulants(orders)
        for t, ours, slack in zip(orders, value, error, strict=True):
            assert abs(mp.mpf(float(ours)) - interval_cumulant(loss, t)) <= slack
            assert slack < 1e-10


def interval_cumulant(loss, t):
    """K(t) by an integral at 30 digits."""
    e, q = mp.mpf(float(loss.epsilon)), mp.mpf(float(loss.rate))
    top = mp.mpf(1) / 4 if loss.ends else 1 / (-2 * mp.expm1(-e))

    def density(x):
        return top * mp.exp((x - e) / 2)

    def removal(x):  # of P on the sample, times e^(t loss)
        r = 1 + q * mp.expm1(x)
        return mp.exp(-x) * r ** (1 + t)

    def addition(x):
        return (1 + q * mp.expm1(-x)) ** -t

    def total(part, low, high):
        found = mp.quad(lambda x: density(x) * part(x), [low, (low + high) / 2, high])
        if loss.ends and high == e:
            found += part(e) / 2
        if loss.ends and low == -e:
            found += mp.exp(-e) / 2 * part(-e)
        return found

    if loss.view is View.REMOVAL:
        return mp.log(total(removal, -e, e))
    if loss.view is View.ADDITION:
        return mp.log(total(addition, -e, e))
    moment = total(removal, 0, e) + total(addition, -e, mp.mpf(0))
    t_own, t = t, 0
    kept = total(removal, 0, e) + total(addition, -e, mp.mpf(0))
    t = t_own
    return mp.log(moment + 1 - kept)


@pytest.mark.parametrize("count", [150])
def test_the_contour_of_sampled_laplace_noise_agrees_with_its_atoms(count):
    for view in (View.REMOVAL, View.ADDITION, View.SUBSET):
        loss = IntervalLoss(Fraction(1), True, Fraction(1, 5), view)
        from fastdp.accounting._pld.composition import Composition
        from fastdp.accounting._pld.direction import Direction

        direction = Direction(Composition().plus(loss, count))
        epsilon = 0.08 * math.sqrt(count) * 3
        contour = direction.log_delta(epsilon)
        atoms = log_delta_reading(((loss, count),), epsilon)(np.array([epsilon]))[0]
        assert contour.method == "contour"
        assert contour.lower <= atoms.upper
        assert atoms.lower <= contour.upper
        assert contour.upper - contour.lower < 1e-8
        assert atoms.upper - atoms.lower < 0.01
