"""Adversaries who stop when they like, against filters and odometers.

Each picks the next event of a menu, and its pair of laws, after seeing all answers, as
long as the filter covers it, and stops at any time. The value of that game is exact
(losses are multiples of one number). Wrong filters and odometers have to be found.
"""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from fastdp.accounting import (
    ApproximateDPEvent,
    DeclaredFilter,
    FDPAccountant,
    GaussianEvent,
    PLDAccountant,
    PureAccountant,
    PureDPEvent,
    RDPAccountant,
    RDPEvent,
    ZCDPAccountant,
    ZCDPEvent,
    ZCDPFilter,
    ZCDPOdometer,
)
from fastdp.accounting.conversions import zcdp_to_rho
from fastdp.accounting.events import GDPEvent
from fastdp.accounting.filters import (
    ApproximateFilter,
    GDPFilter,
    PureFilter,
    RDPFilter,
)
from fastdp.accounting.odometers import PureOdometer

#: Losses are whole multiples of this, at most SIDE of them.
UNIT, SIDE = 0.1, 220

LEVELS = UNIT * np.arange(-SIDE, SIDE + 1)
EPSILONS = (0.1, 0.3, 0.5, 1.0, 1.5, 2.0)


def response(steps):
    """Return an event of `steps` units of pure epsilon, its losses and masses."""
    p = 1 / (1 + math.exp(-UNIT * steps))
    return PureDPEvent(Fraction(steps, 10)), [(steps, p), (-steps, 1 - p)], 0.0


def broken(steps, delta):
    event = ApproximateDPEvent(epsilon=Fraction(steps, 10), delta=delta)
    p = float(1 - delta) / (1 + math.exp(-UNIT * steps))
    return event, [(steps, p), (-steps, float(1 - delta) - p)], float(delta)


def gaussian(sigma):
    """Return noise with losses that were merged downward, to what is surely less."""
    mu = 1 / sigma
    edges = np.linspace(-7, 7 + mu, 800)
    p, q = np.diff(ndtr(edges - mu)), np.diff(ndtr(edges))
    kept = (p > 1e-15) & (q > 1e-15)
    index = np.floor(np.log(p[kept] / q[kept]) / UNIT).astype(int)
    losses, place = np.unique(index, return_inverse=True)
    masses = np.bincount(place, p[kept]).tolist()
    event = GaussianEvent(sensitivity=1, sigma=Fraction(sigma))
    return event, list(zip(losses.tolist(), masses, strict=True)), 0.0


def after(value, losses, infinite):
    """Return the mean of a value after a step, at all levels."""
    place = np.arange(value.size)
    found = np.full(value.size, infinite)
    for loss, mass in losses:
        at = place - loss
        here = np.where(at < value.size, value[np.clip(at, 0, value.size - 1)], 0.0)
        low = -np.expm1(UNIT * (np.minimum(at, 0) - SIDE))
        found += mass * np.where(at < 0, low, here)
    return found


def reached(menu, covers, most=40):
    """Return the largest delta of an adversary at all levels."""
    start = np.maximum(-np.expm1(LEVELS), 0)

    @functools.cache
    def value(spent):
        found = start
        if sum(spent) == most:
            return found
        for i, (_, losses, infinite) in enumerate(menu):
            then = (*spent[:i], spent[i] + 1, *spent[i + 1 :])
            if covers(then):
                found = np.maximum(found, after(value(then), losses, infinite))
        return found

    return value((0,) * len(menu))


def covered(make, menu):
    """Return whether a new filter covers these numbers of each event of the menu."""

    @functools.cache
    def covers(counts):
        budget = make()
        for (event, _, _), n in zip(menu, counts, strict=True):
            if n:
                if not budget.covers(event, n):
                    return False
                budget.spend(event, n)
        return True

    return covers


def excess(menu, covers, claimed, epsilons=EPSILONS):
    """Return by how much the adversary is above what is claimed, relatively."""
    found = reached(menu, covers)
    worst = -1.0
    for e in epsilons:
        delta = float(found[SIDE + round(e / UNIT)])
        if delta > 1e-13:
            worst = max(worst, delta / max(claimed(e), 1e-300) - 1)
    return worst


PURE = [response(2), response(5)]
MIXED = [response(2), response(5), broken(3, Fraction(1, 100))]
NOISE = [gaussian(1.0), gaussian(2.0)]
ONE = [response(3)]


def declared():
    return DeclaredFilter(
        PureDPEvent(Fraction(3, 10)), epsilon=1, delta=0.05, accountant=PLDAccountant
    )


CASES = {
    "pure": (
        PURE,
        lambda: PureFilter(1),
        lambda: PureAccountant().compose(PureDPEvent(1)).delta,
        EPSILONS,
    ),
    "concentrated": (
        PURE,
        lambda: ZCDPFilter(0.4),
        lambda: ZCDPAccountant().compose(ZCDPEvent(rho=0.4)).delta,
        EPSILONS,
    ),
    "concentrated noise": (
        [*NOISE, response(5)],
        lambda: ZCDPFilter(1),
        lambda: ZCDPAccountant().compose(ZCDPEvent(rho=1)).delta,
        EPSILONS,
    ),
    "one order": (
        PURE,
        lambda: RDPFilter(order=4, epsilon=1),
        lambda: RDPAccountant().compose(RDPEvent(orders=(4,), epsilons=(1,))).delta,
        EPSILONS,
    ),
    "Gaussian": (
        NOISE,
        lambda: GDPFilter(1.5),
        lambda: FDPAccountant().compose(GDPEvent(mu=1.5)).delta,
        EPSILONS,
    ),
    "approximate, sums": (
        MIXED,
        lambda: ApproximateFilter(epsilon=1, delta=0.06, slack=0.02),
        lambda: lambda _: 0.06,
        (1.0,),
    ),
    "approximate, rho": (
        [response(2), broken(1, Fraction(1, 25))],
        lambda: ApproximateFilter(epsilon=1, delta=0.2, slack=0.15),
        lambda: lambda _: 0.2,
        (1.0,),
    ),
    "approximate, noise": (
        [response(5), gaussian(2.0), broken(3, Fraction(1, 50))],
        lambda: ApproximateFilter(epsilon=1, delta=0.2, slack=0.15),
        lambda: lambda _: 0.2,
        (1.0,),
    ),
    "declared": (ONE, declared, lambda: lambda _: 0.05, (1.0,)),
}

SLOW = ("concentrated noise", "one order")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name in CASES
    ],
)
def test_no_adversary_exceeds_a_filter(name):
    menu, make, claim, epsilons = CASES[name]
    assert excess(menu, covered(make, menu), claim(), epsilons) <= 1e-9


# ---- odometers -----------------------------------------------------------------------


def exceeded(menu, bound, most):
    """Return the probability that a loss ever exceeds the bound, at its largest."""

    @functools.cache
    def limit(spent):
        return math.floor(bound(spent) / UNIT + 1e-9)

    @functools.cache
    def value(spent):
        place = np.arange(-SIDE, SIDE + 1)
        found = np.zeros(place.size)
        if sum(spent) < most:
            for i, (_, losses, infinite) in enumerate(menu):
                rest = value((*spent[:i], spent[i] + 1, *spent[i + 1 :]))
                mean = np.full(place.size, infinite)
                for loss, mass in losses:
                    at = np.clip(place + loss + SIDE, 0, place.size - 1)
                    mean += mass * rest[at]
                found = np.maximum(found, mean)
        if sum(spent):
            found = np.where(place > limit(spent), 1.0, found)
        return found

    return float(value((0,) * len(menu))[SIDE])


def read(make, menu):
    def bound(spent):
        odometer = make()
        for (event, _, _), n in zip(menu, spent, strict=True):
            if n:
                odometer.record(event, n)
        return odometer.epsilon()

    return bound


@pytest.mark.parametrize("delta", [0.3, 0.05, 1e-3])
def test_no_adversary_exceeds_an_odometer(delta):
    found = exceeded(PURE, read(lambda: ZCDPOdometer(delta), PURE), 12)
    assert found <= delta * (1 + 1e-9)
    assert exceeded(PURE, read(PureOdometer, PURE), 8) == 0


# ---- planted rules -------------------------------------------------------------------


def test_an_accountant_read_to_decide_is_found():
    """What an accountant says of the events so far, in the place of a filter."""
    menu, target = [response(5), broken(0, Fraction(9, 100))], 0.095

    def covers(counts):
        accountant = PLDAccountant()
        for (event, _, _), n in zip(menu, counts, strict=True):
            if n:
                accountant.compose(event, n)
        return accountant.delta(1) <= target

    assert excess(menu, functools.cache(covers), lambda _: target, (1.0,)) > 1e-3


def test_a_delta_that_is_not_shared_is_found():
    """All of delta for the sum of epsilons, and the events' own deltas besides."""
    menu = [response(2), broken(0, Fraction(1, 50))]
    rho = zcdp_to_rho(epsilon=1, delta=0.05)

    def covers(counts):
        return 0.02 * counts[0] <= rho and counts[1] <= 2 and counts[0] <= 30

    assert excess(menu, covers, lambda _: 0.05, (1.0,)) > 1e-2


def test_a_branch_that_forgets_noise_is_found():
    """A filter whose sum of epsilons is within, whatever rho alone was spent."""
    menu = [response(5), gaussian(1.0)]
    rho = zcdp_to_rho(epsilon=1, delta=0.15)

    def covers(counts):
        epsilons, rhos = 0.5 * counts[0], 0.123 * counts[0] + 0.5 * counts[1]
        return rhos <= rho or (epsilons <= 1 and counts[1] <= 1)

    assert excess(menu, covers, lambda _: 0.15, (1.0,)) > 1e-2


def test_an_accountant_in_the_place_of_an_odometer_is_found():
    def bound(spent):
        accountant = PLDAccountant()
        for (event, _, _), n in zip(PURE, spent, strict=True):
            if n:
                accountant.compose(event, n)
        # Of the loss itself, not of delta: no less than what exceeds it with 1/20.
        return accountant.epsilon(0.05)

    assert exceeded(PURE, bound, 6) > 0.06


def test_a_part_of_the_cost_is_found():
    """A filter that charges three quarters of rho."""
    menu = NOISE

    def covers(counts):
        return Fraction(3, 4) * (Fraction(counts[0], 2) + Fraction(counts[1], 8)) <= 1

    claim = FDPAccountant().compose(GDPEvent(mu=Fraction(14142, 10000))).delta
    assert excess(menu, covers, claim) > 1e-2
