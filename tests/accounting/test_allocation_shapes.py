"""Random allocation: other ways to state an epoch, lost masses, other notions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from fastdp.accounting import (
    ApproximateDPEvent,
    Event,
    FDPAccountant,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PrivacyLossEvent,
    PureAccountant,
    PureDPEvent,
    RDPAccountant,
    SelfComposedEvent,
    TradeOffEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPAccountant,
    event_epsilon,
)
from fastdp.accounting._facts import facts_of
from fastdp.exceptions import ParameterError, UnsupportedEventError
from tests.accounting.test_allocation import epoch, gaussian

# ---- other ways to say the same ------------------------------------------------------


@pytest.mark.rest
def test_one_step_is_the_step_itself():
    one = PLDAccountant().compose(epoch(1, gaussian(1)), 3)
    assert one.epsilon(1e-6) == PLDAccountant().compose(gaussian(1), 3).epsilon(1e-6)
    for kind in (RDPAccountant, FDPAccountant):
        whole = kind().compose(gaussian(1)).epsilon(1e-6)
        assert kind().compose(epoch(1, gaussian(1))).epsilon(1e-6) == whole


@pytest.mark.rest
def test_one_allocation_kept_over_epochs_is_one_of_less_noise():
    kept = epoch(30, SelfComposedEvent(gaussian(2), 4))
    found = PLDAccountant().compose(kept).epsilon_bounds(1e-5)
    like = PLDAccountant().compose(epoch(30, gaussian(1))).epsilon_bounds(1e-5)
    fresh = PLDAccountant().compose(epoch(30, gaussian(2)), 4).epsilon(1e-5)
    assert found.lower == pytest.approx(like.lower, rel=1e-4)
    assert fresh < found.lower


def test_an_epoch_cut_short_is_a_sample_of_a_shorter_one():
    e, steps, cut, at = 1.0, 8, 5, 0.2
    p, j = 1 / (1 + math.exp(e)), np.arange(cut + 1)
    mass = binom.pmf(j, cut, p)
    mean = (j * math.exp(e) + (cut - j) * math.exp(-e) + steps - cut) / steps
    a = math.exp(at)
    truth = mass @ np.maximum(mean - a, 0), mass @ np.maximum(1 - a * mean, 0)
    event = PoissonSampledEvent(Fraction(cut, steps), epoch(cut, PureDPEvent(1)))
    found = PLDAccountant().compose(event).delta_bounds(at)
    assert found.lower * (1 - 1e-9) <= max(truth) <= found.upper * (1 + 1e-9)
    assert found.upper <= found.lower * (1 + 1e-7)


@pytest.mark.rest
def test_epochs_compose_with_other_events_and_are_written():
    event = epoch(5, LaplaceEvent(sensitivity=1, scale=1))
    accountant = PLDAccountant().compose(event, 2).compose(PureDPEvent(Fraction(1, 10)))
    alone = PLDAccountant().compose(event, 2).epsilon(1e-5)
    assert alone < accountant.epsilon(1e-5) < alone + 0.1
    assert Event.from_json(event.to_json()) == event
    assert event_epsilon(event, 1e-5) <= 1


# ---- masses where one of two laws has nothing ----------------------------------------

#: Laws with the record and without it, as masses of answers.
BOTH = [(0.6, 0.2), (0.1, 0.2), (0.2, 0.1), (0, 0.5), (0.1, 0)]


WITHOUT = [(0.6, 0.2), (0.4, 0.5), (0, 0.3)]


CONSTANT = [(0.9, 1), (0.1, 0)]


def listed(pairs):
    known = sorted((math.log(p / q), p) for p, q in pairs if p and q)
    losses, masses = zip(*known, strict=True)
    probabilities = tuple(Fraction(str(mass)) for mass in masses)
    return PrivacyLossEvent(losses=losses, probabilities=probabilities)


def approximate(epsilon, delta):
    e, rest = math.exp(epsilon), 1 - delta
    one, other = rest * e / (1 + e), rest / (1 + e)
    return [(delta, 0), (one, other), (other, one), (0, delta)]


def truncated(shift, scale, bound):
    weight = {k: math.exp(-abs(k) / scale) for k in range(-bound, bound + 1)}
    return [(weight.get(k - shift, 0), weight.get(k, 0)) for k in range(-9, 10)]


#: Knots of a trade-off function that is its own inverse.
KNOTS = ((0, "0.1", "0.3", "0.8", 1), ("0.8", "0.3", "0.1", 0, 0))


HOLES = {
    "masses on both sides": (listed(BOTH), BOTH),
    "mass without the record": (listed(WITHOUT), WITHOUT),
    "a ratio below 1": (listed(CONSTANT), CONSTANT),
    "often nothing": (
        ApproximateDPEvent(epsilon=Fraction(1, 4), delta=Fraction(1, 2)),
        approximate(0.25, 0.5),
    ),
    "seldom nothing": (
        ApproximateDPEvent(epsilon=2, delta=Fraction(1, 1000)),
        approximate(2, 0.001),
    ),
    "a trade-off function": (
        TradeOffEvent(
            false_positive_rates=tuple(map(Fraction, KNOTS[0])),
            false_negative_rates=tuple(map(Fraction, KNOTS[1])),
        ),
        [(0.2, 0), (0.5, 0.1), (0.2, 0.2), (0.1, 0.5), (0, 0.2)],
    ),
    "truncated noise": (
        TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=1, bound=2),
        truncated(1, 1, 2),
    ),
}


def exact_epoch(pairs, steps, rate):
    """Return the masses of an epoch's answers, with the record and without it."""
    masses = [(Fraction(p), Fraction(q)) for p, q in pairs]
    sums = [sum(column) for column in zip(*masses, strict=True)]
    masses = [(p / sums[0], q / sums[1]) for p, q in masses if p or q]
    found = []
    for answers in itertools.product(masses, repeat=steps):
        q = math.prod(other for _, other in answers)
        p = sum(
            math.prod(pair[i != j] for i, pair in enumerate(answers))
            for j in range(steps)
        )
        found.append(((1 - rate) * q + rate * p / steps, q))
    return found


def exact_moment(law, t):
    """Return ln E (p/q)^t of the ratios that are finite, and the mass of others."""
    lost = sum(p for p, q in law if not q)
    parts = [float(p) * float(p / q) ** t for p, q in law if p and q]
    return math.log(math.fsum(parts) / float(1 - lost)), float(lost)


@pytest.mark.rest
@pytest.mark.parametrize("rate", [Fraction(1), Fraction(2, 5)], ids=["all", "some"])
@pytest.mark.parametrize("name", HOLES)
def test_moments_count_steps_whose_ratio_is_0(name, rate):
    event, pairs = HOLES[name]
    steps = 2 if len(pairs) > 5 else 3
    removal = exact_epoch(pairs, steps, rate)
    laws = removal, [(q, p) for p, q in removal]
    whole = epoch(steps, event)
    whole = whole if rate == 1 else PoissonSampledEvent(rate, whole)
    step, (curve, lost) = facts_of(whole).step(), facts_of(whole).curve()
    slip = 1e-9
    for side, law in zip((step.removal, step.addition), laws, strict=True):
        for t in (0.01, 0.5, 1.0, 2.3, 7.0, 20.0):
            truth, gone = exact_moment(law, t)
            assert gone * (1 - slip) <= side.lost
            assert side.sure <= gone * (1 + slip)
            if side.lost > gone + slip:
                continue  # the moments are those of another pair
            value, error = (
                side.loss.cumulants(np.array([t])) if side.loss else np.zeros((2, 1))
            )
            assert truth <= value[0] + error[0] + slip * (1 + abs(truth))
            if step.rho is not None:
                assert truth <= step.rho * t * (1 + t) + slip
            if lost <= gone + slip:
                found = curve.log_moment(np.array([t]))[0]
                assert truth - t * math.log1p(-gone) <= found + slip * (1 + truth)
    for kind in (PLDAccountant, RDPAccountant, FDPAccountant):
        accountant = kind().compose(whole)
        for at in (0.05, 1.0):
            a = Fraction(math.exp(at))
            truth = max(float(sum(max(p - a * q, 0) for p, q in law)) for law in laws)
            assert truth <= accountant.delta(at) + 1e-12
            if kind is PLDAccountant:
                assert accountant.delta_bounds(at).lower <= truth + 1e-12


def test_rho_of_steps_without_the_record_is_not_that_of_an_epoch():
    event, pairs = HOLES["often nothing"]
    law = [(q, p) for p, q in exact_epoch(pairs, 2, 1)]
    step = facts_of(event).step()
    assert exact_moment(law, 0.5)[0] > step.rho * 0.5 * 1.5
    assert facts_of(epoch(2, event)).step().rho is None
    for kind in (ZCDPAccountant, PureAccountant):
        with pytest.raises(UnsupportedEventError):
            kind().compose(epoch(2, event))


# ---- other notions -------------------------------------------------------------------


def test_renyi_divergences_at_whole_orders_are_exact():
    for sigma, steps, order, truth in (
        (1, 100, 2, 1.7036863236e-2),
        (1, 100, 8, 7.6510022805e-2),
        (2, 50, 16, 4.5677244763e-2),
    ):
        curve, lost = facts_of(epoch(steps, gaussian(sigma))).curve()
        found = float(curve.log_moment(np.array([order - 1.0]))[0]) / (order - 1)
        assert lost == 0
        assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-9)


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 4)], ids=["all", "some"])
@pytest.mark.parametrize("order", [1.01, 1.5, 2.0, 3.7, 12.0])
def test_renyi_divergences_are_not_below_those_of_responses(order, rate):
    e, steps = 1.0, 20
    p, j = 1 / (1 + math.exp(e)), np.arange(steps + 1)
    mass = binom.pmf(j, steps, p)
    mean = (j * math.exp(e) + (steps - j) * math.exp(-e)) / steps
    mean = float(1 - rate) + float(rate) * mean
    event = epoch(steps, PureDPEvent(1))
    event = event if rate == 1 else PoissonSampledEvent(rate, event)
    step = facts_of(event).step()
    t = order - 1
    for side, truth in ((step.removal, mean**order), (step.addition, mean**-t)):
        value, error = side.loss.cumulants(np.array([t]))
        exact = math.log(mass @ truth)
        # Below order 2 a chord stands in for a bend.
        most = 2 if order < 2 else 1.06
        assert exact <= value[0] + error[0] <= exact * most + 1e-4


def test_an_epoch_cut_short_has_no_larger_renyi_divergences():
    """It is a whole epoch with fewer steps shown."""
    inner = gaussian(2)
    whole = RDPAccountant().compose(epoch(50, inner)).epsilon(1e-5)
    for cut in (2, 20):
        event = PoissonSampledEvent(Fraction(cut, 50), epoch(cut, inner))
        exact = PLDAccountant().compose(event).epsilon(1e-5)
        assert exact <= RDPAccountant().compose(event).epsilon(1e-5) < whole


def test_simple_notions_get_what_holds_of_one_step():
    event = epoch(50, PureDPEvent(Fraction(1, 2)))
    assert PureAccountant().compose(event, 3).epsilon(0) == 1.5
    whole = ZCDPAccountant().compose(gaussian(1), 3).epsilon(1e-5)
    assert ZCDPAccountant().compose(epoch(50, gaussian(1)), 3).epsilon(1e-5) == whole


@pytest.mark.rest
def test_renyi_privacy_and_trade_offs_are_amplified():
    event = epoch(100, gaussian(1))
    exact = PLDAccountant().compose(event, 10).epsilon(1e-5)
    assert exact <= RDPAccountant().compose(event, 10).epsilon(1e-5) < 2
    function = facts_of(event).trade_off()
    one = facts_of(gaussian(1)).trade_off()
    for x in (0.01, 0.2, 0.6):
        assert 1 - x >= function(x) > one(x)


# ---- refusals ------------------------------------------------------------------------


def test_what_has_no_bound_is_refused_by_name():
    replaced = GaussianEvent(sensitivity=2, sigma=1, neighboring_relation="replace_one")
    with pytest.raises(UnsupportedEventError, match=r"ADD_OR_REMOVE_ONE.* of two"):
        PLDAccountant().compose(epoch(10, replaced))
    with pytest.raises(UnsupportedEventError, match="inside a GroupEvent"):
        PLDAccountant().compose(epoch(10, GroupEvent(gaussian(1), 2)))
    with pytest.raises(ParameterError, match="steps"):
        epoch(0, gaussian(1))
