"""Poisson samples cut to a largest size: all subsets in rationals, and figures."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from fastdp.accounting import (
    ApproximateDPEvent,
    DiscreteLaplaceEvent,
    Event,
    FDPAccountant,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PureAccountant,
    PureDPEvent,
    RDPAccountant,
)
from fastdp.accounting._facts import facts_of
from fastdp.accounting._pld.mixed_loss import MixedLoss
from fastdp.accounting._sampling import at_least
from fastdp.exceptions import ParameterError, UnsupportedEventError

#: Ratio of neighboring masses of geometric noise, and an epsilon above its logarithm.
RATIO, PER_UNIT = Fraction(3, 5), Fraction(math.nextafter(math.log(5 / 3), 1))
EPSILONS = (0.01, 0.1, 0.2, 0.4, 0.7)

#: Records of the larger dataset, and the rate.
RECORDS, RATE = 5, Fraction(2, 5)


def gaussian(sigma):
    return GaussianEvent(sensitivity=1, sigma=sigma)


def sample(rate, event, cap, records):
    return PoissonSampledEvent(rate, event, largest_batch=cap, records=records)


def chance(count, trials):
    return RATE**count * (1 - RATE) ** (trials - count)


@functools.cache
def uniform(values, cap):
    """Return the law of the sum of a sample, cut to a uniform subset."""
    law = {}
    for size in range(len(values) + 1):
        for drawn in itertools.combinations(values, size):
            kept = list(itertools.combinations(drawn, min(cap, size)))
            for some in kept:
                mass = chance(size, len(values)) / len(kept)
                law[sum(some)] = law.get(sum(some), 0) + mass
    return law


@functools.cache
def first(values, cap):
    """Return the law of the sum of a sample, cut to the first ones."""
    law = {}
    for size in range(len(values) + 1):
        for drawn in itertools.combinations(values, size):
            total = sum(drawn[:cap])
            law[total] = law.get(total, 0) + chance(size, len(values))
    return law


def noisy(law):
    """Return the law with geometric noise, clamped to the sums there can be."""
    out = [Fraction(0)] * (2 * RECORDS + 1)
    for total, mass in law.items():
        for place in range(-RECORDS, RECORDS + 1):
            part = RATIO ** abs(place - total) / (1 + RATIO)
            ends = abs(place) == RECORDS
            out[place + RECORDS] += mass * part * (1 if ends else 1 - RATIO)
    return out


def datasets(rule, records):
    """Yield the laws with a record and without it."""
    values, places = ((-1, 1), range(records)) if rule is first else ((-1, 0, 1), [0])
    for others in itertools.product(values, repeat=records - 1):
        if rule is uniform and list(others) != sorted(others):
            continue  # the sum of a uniform subset knows no order
        for place, value in itertools.product(places, (-1, 1)):
            yield (*others[:place], value, *others[place:]), others


@functools.cache
def truth(rule, cap, records=RECORDS):
    """Return the largest delta of all datasets, in both directions, at EPSILONS."""
    worst = [Fraction(0)] * len(EPSILONS)
    # Levels are rounded up, and so delta down.
    levels = [Fraction(math.exp(x) * (1 + 1e-15)) for x in EPSILONS]
    for larger, smaller in datasets(rule, records):
        p, q = noisy(rule(larger, cap)), noisy(rule(smaller, cap))
        for i, a in enumerate(levels):
            for one, other in ((p, q), (q, p)):
                found = sum(
                    max(x - a * y, Fraction(0)) for x, y in zip(one, other, strict=True)
                )
                worst[i] = max(worst[i], found)
    return worst


@pytest.mark.rest
@pytest.mark.parametrize("cap", [1, 2, 3, 4])
@pytest.mark.parametrize("rule", [uniform, first])
def test_no_dataset_is_above(rule, cap):
    noise = DiscreteLaplaceEvent(sensitivity=1, scale=1 / PER_UNIT)
    for inner, records in itertools.product(
        (noise, PureDPEvent(PER_UNIT)), (RECORDS, RECORDS + 3)
    ):
        event = sample(RATE, inner, cap, records)
        for kind in (PLDAccountant, RDPAccountant, FDPAccountant, PureAccountant):
            accountant = kind().compose(event)
            for epsilon, delta in zip(EPSILONS, truth(rule, cap), strict=True):
                assert delta <= Fraction(accountant.delta(epsilon))
                if kind is PLDAccountant:
                    low = accountant.delta_bounds(epsilon).lower
                    assert low <= accountant.delta(epsilon)


def test_a_cut_sample_costs_more_than_one_that_is_not():
    """Cutting is no post-processing: an accountant that takes it for that is wrong."""
    noise = DiscreteLaplaceEvent(sensitivity=1, scale=1 / PER_UNIT)
    plain = PLDAccountant().compose(PoissonSampledEvent(RATE, noise))
    for rule, factor in ((uniform, 1.2), (first, 2)):
        worst = truth(rule, 2)[2] / Fraction(plain.delta(EPSILONS[2]))
        assert worst > factor
    for epsilon, delta in zip(EPSILONS, truth(uniform, RECORDS), strict=True):
        assert delta <= Fraction(plain.delta(epsilon))


def test_a_single_change_where_samples_are_full_is_found(monkeypatch):
    from fastdp.accounting._facts import samples

    monkeypatch.setattr(samples, "_twice", lambda event: event)
    facts_of.cache_clear()
    noise = DiscreteLaplaceEvent(sensitivity=1, scale=Fraction(1.95763))
    found = PLDAccountant().compose(sample(RATE, noise, 2, RECORDS))
    facts_of.cache_clear()
    assert truth(first, 2)[2] > Fraction(found.delta(EPSILONS[2])) * Fraction("1.5")


def test_samples_that_are_never_cut_are_poissons():
    inner = gaussian(2)
    plain = PLDAccountant().compose(PoissonSampledEvent(RATE, inner), 3)
    for cap in (5, 6, 1000):
        event = sample(RATE, inner, cap, 5)
        assert PLDAccountant().compose(event, 3).epsilon(1e-5) == plain.epsilon(1e-5)
    # All samples are full: two changes in every step.
    full = PLDAccountant().compose(sample(1, inner, 3, 5), 3)
    twice = PLDAccountant().compose(GroupEvent(inner, 2), 3)
    assert full.epsilon(1e-5) == pytest.approx(twice.epsilon(1e-5), rel=1e-12)
    assert PLDAccountant().compose(sample(0, inner, 3, 5)).epsilon(1e-9) == 0


@pytest.mark.parametrize(
    ("cap", "low", "high"),
    [(650, 5.13636, 5.14061), (700, 1.87833, 1.88130), (750, 1.828086, 1.828557)],
)
def test_known_figures(cap, low, high):
    """Brackets of another program, by cells of ratios."""
    event = sample(Fraction(1, 100), gaussian(1), cap, 60_000)
    found = PLDAccountant().compose(event, 1000).epsilon_bounds(1e-5)
    assert low <= found.upper <= high
    assert found.lower == pytest.approx(1.8282366665, rel=1e-9)


@pytest.mark.parametrize("order", [0.3, 1.0, 4.0])
def test_both_methods_have_one_law(order):
    """The moments of the cells' law, and its transform, are those of the mixture."""
    event = sample(RATE, gaussian(1), 3, 9)
    for side in (facts_of(event).step().removal, facts_of(event).step().addition):
        loss = side.loss
        assert isinstance(loss, MixedLoss)
        theta = np.array([order])
        value, error = loss.cumulants(theta)
        parts = [part.cumulants(theta)[0][0] for part in loss.parts]
        exact = sum(w * math.exp(k) for w, k in zip(loss.weights, parts, strict=True))
        assert abs(value[0] - math.log(exact)) <= error[0] + 1e-13
        laws = [loss.law(None, 4000, upper, -80.0) for upper in (False, True)]
        moments = [float(law.mass @ np.exp(order * law.loss)) for law in laws]
        assert moments[0] <= exact * (1 + 1e-9)
        assert exact <= moments[1] * (1 + 1e-9)
        assert moments[1] <= moments[0] * (1 + 1e-2)
        tilted = loss.tilted(order, 1)
        centered, slip = tilted.centered(0.25, 40)
        y = 0.25 * np.arange(1, 41)
        law = laws[1]
        weight = law.mass * np.exp(order * law.loss)
        phi = np.exp(1j * np.outer(y, law.loss - tilted.mean)) @ weight / weight.sum()
        assert np.abs(phi - 1 - centered).max() <= slip.max() + 2e-3
        assert (np.abs(1 + centered) <= tilted.envelope(y) + slip).all()


@pytest.mark.parametrize(
    ("trials", "rate", "least"),
    [
        (4, "0.4", 2),
        (59_999, "0.01", 650),
        (59_999, "0.01", 560),
        (10**8, "0.001", 101_000),
    ],
)
def test_tails_of_binomial_laws_are_rounded_up(trials, rate, least):
    found = at_least(trials, Fraction(rate), least)
    about = binom.sf(least - 1, trials, float(rate))
    assert about * (1 - 1e-12) <= float(found) <= about * (1 + 1e-4)
    if trials < 10:
        p = Fraction(rate)
        exact = sum(
            math.comb(trials, j) * p**j * (1 - p) ** (trials - j)
            for j in range(least, trials + 1)
        )
        assert exact <= found <= exact * (1 + Fraction(1, 10**9))


def test_tails_that_are_certain_or_empty_are_exact():
    half = Fraction(1, 2)
    assert at_least(3, half, 4) == 0 == at_least(3, Fraction(0), 1)
    assert at_least(3, half, 0) == 1 == at_least(3, Fraction(1), 3)
    assert at_least(10**6, half, 10**5) == 1
    assert 0 < at_least(10**5, Fraction(1, 1000), 50_000) < Fraction(1, 10**300)


@pytest.mark.rest
def test_other_notions_and_what_is_around():
    approximate = ApproximateDPEvent(epsilon=Fraction(1, 2), delta=Fraction(1, 100))
    for inner, two in (
        (LaplaceEvent(sensitivity=1, scale=1), LaplaceEvent(sensitivity=2, scale=1)),
        (gaussian(2), gaussian(1)),
        (approximate, ApproximateDPEvent(epsilon=1, delta=Fraction(3, 100))),
    ):
        event = sample(RATE, inner, 2, 5)
        assert Event.from_json(event.to_json()) == event
        plain = PLDAccountant().compose(PoissonSampledEvent(RATE, inner), 2)
        exact = PLDAccountant().compose(event, 2)
        twice = PLDAccountant().compose(PoissonSampledEvent(RATE, two), 2)
        assert plain.delta(0.7) < exact.delta(0.7) <= twice.delta(0.7) * (1 + 1e-6)
        for kind in (RDPAccountant, FDPAccountant):
            assert exact.delta(0.7) <= kind().compose(event, 2).delta(0.7)
    cut = PureAccountant().compose(sample(RATE, PureDPEvent(1), 2, 5)).epsilon(0)
    assert cut == pytest.approx(math.log1p(0.4 * math.expm1(2)))
    assert "largest_batch" not in PoissonSampledEvent(RATE, gaussian(2)).to_json()


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"largest_batch": 3}, ParameterError, "given together"),
        ({"records": 3}, ParameterError, "given together"),
        ({"largest_batch": 0, "records": 3}, ParameterError, "largest_batch"),
        ({"largest_batch": 3, "records": 0}, ParameterError, "records"),
        (
            {"largest_batch": 3, "records": 9, "neighboring_relation": "replace_one"},
            UnsupportedEventError,
            "REPLACE_ONE around ADD_OR_REMOVE_ONE",
        ),
    ],
)
def test_what_has_no_proof_is_refused(options, error, match):
    with pytest.raises(error, match=match):
        PoissonSampledEvent(RATE, gaussian(2), **options)
    with pytest.raises(UnsupportedEventError, match="inside a GroupEvent"):
        sample(RATE, GroupEvent(gaussian(2), 2), 3, 9)
