"""Random compositions, enumerated at 60 digits: no accountant says less than the truth.

Each event comes with the pairs of laws that two neighboring datasets can give it; all
orders of a pair are composed, outcome by outcome.
"""

import math
import random
from fractions import Fraction

import mpmath as mp
import pytest

from fastdp.accounting import (
    ApproximateAccountant,
    ApproximateDPEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    FDPAccountant,
    GroupEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    PureAccountant,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPAccountant,
    TCDPAccountant,
    ZCDPAccountant,
)
from fastdp.exceptions import UnsupportedEventError

mp.mp.dps = 60

ACCOUNTANTS = [
    PureAccountant,
    ApproximateAccountant,
    ZCDPAccountant,
    TCDPAccountant,
    RDPAccountant,
    FDPAccountant,
    PLDAccountant,
]


def number(value):
    return mp.mpf(Fraction(value).numerator) / Fraction(value).denominator


def two_points(epsilon):
    p = 1 / (1 + mp.exp(-number(epsilon)))
    return [p, 1 - p], [1 - p, p]


def response(rng):
    e = Fraction(rng.choice(["0.01", "0.3", "1", "4"]))
    low = Fraction(1, rng.choice([3, 10, 1000]))
    p, q = low * Fraction(str(mp.exp(number(e)))), low
    if p + q > 1:
        p, q = p / (p + q), q / (p + q)
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    event = RandomizedResponseEvent(p=p, q=q, neighboring_relation=relation)
    a, b = number(p), number(q)
    return event, [([a, b, 1 - a - b], [b, a, 1 - a - b])]


def pure(rng):
    e = Fraction(rng.choice(["1e-6", "0.1", "2", "9"]))
    return PureDPEvent(e), [two_points(e)]


def broken(rng):
    e, d = Fraction(rng.choice(["0.1", "2"])), Fraction(1, rng.choice([10, 10**9]))
    p, q = two_points(e)
    kept = 1 - number(d)
    left = [kept * p[0], kept * p[1], number(d), 0]
    right = [kept * q[0], kept * q[1], 0, number(d)]
    return ApproximateDPEvent(epsilon=e, delta=d), [(left, right)]


def discrete_laplace(rng):
    shift = rng.choice([1, 2, 3])
    scale = Fraction(rng.choice(["0.4", "2", "30"]))
    q = mp.exp(-1 / number(scale))
    masses = [(1 - q) / (1 + q) * q**j for j in range(shift)]
    masses[0] = 1 / (1 + q)
    masses.append(q**shift / (1 + q))
    return DiscreteLaplaceEvent(sensitivity=shift, scale=scale), [
        (masses, masses[::-1])
    ]


def bounded_range(rng):
    e = Fraction(rng.choice(["0.1", "1", "6"]))
    pairs = []
    for share in ("0.2", "0.5", "0.7"):
        top = number(e) * mp.mpf(share)
        p = (mp.exp(number(e)) - mp.exp(top)) / mp.expm1(number(e))
        left = [p, 1 - p]
        right = [p * mp.exp(-top), (1 - p) * mp.exp(number(e) - top)]
        pairs.append((left, right))
    return ExponentialMechanismEvent(e), pairs


def sampled(rng):
    e, rate = Fraction(rng.choice(["0.5", "3"])), Fraction(1, rng.choice([2, 100]))
    p, q = two_points(e)
    mixed = [
        (1 - number(rate)) * b + number(rate) * a for a, b in zip(p, q, strict=True)
    ]
    return PoissonSampledEvent(rate, PureDPEvent(e)), [(mixed, q)]


def group(rng):
    e = Fraction(rng.choice(["0.1", "1"]))
    return GroupEvent(PureDPEvent(e), 1), [two_points(e)]


KINDS = [response, pure, broken, discrete_laplace, bounded_range, sampled, group]


def composed(pairs):
    """Return loss -> mass under the first law; infinity where the other has none."""
    law = {mp.mpf(0): mp.mpf(1)}
    for left, right in pairs:
        following = {}
        for loss, mass in law.items():
            for a, b in zip(left, right, strict=True):
                if a == 0:
                    continue
                step = mp.log(a / b) if b > 0 else mp.inf
                following[loss + step] = following.get(loss + step, 0) + mass * a
        law = following
    return law


def true_delta(law, epsilon):
    total = mp.mpf(0)
    for loss, mass in law.items():
        if loss == mp.inf:
            total += mass
        elif loss > epsilon:
            total += mass * -mp.expm1(epsilon - loss)
    return total


def laws_of(choices, rng):
    """Return the laws of some worst-case pairs, in both orders."""
    found = []
    for _ in range(2):
        pairs = [rng.choice(pairs) for _, pairs in choices]
        found.append(composed(pairs))
        found.append(composed([(b, a) for a, b in pairs]))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_random_compositions(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 200))
def test_more_random_compositions(seed):
    check(seed)


def check(seed):
    rng = random.Random(seed)
    choices = [rng.choice(KINDS)(rng) for _ in range(rng.randint(1, 5))]
    laws = laws_of(choices, rng)
    whole = float(max(loss for law in laws for loss in law if loss < mp.inf))
    epsilons = [0.0, *(whole * share for share in (0.05, 0.4, 0.95))]
    truths = [max(true_delta(law, mp.mpf(e)) for law in laws) for e in epsilons]
    used = 0
    for make in ACCOUNTANTS:
        accountant = make()
        try:
            for event, _ in choices:
                accountant.compose(event)
        except UnsupportedEventError:
            continue
        used += 1
        for epsilon, true in zip(epsilons, truths, strict=True):
            got = accountant.log_delta(epsilon)
            assert not math.isnan(got)
            assert true == 0 or got >= mp.log(true), (make, epsilon)
            assert mp.mpf(accountant.delta(epsilon)) >= true
            if 0 < true < 1:
                try:
                    back = accountant.epsilon(Fraction(str(mp.nstr(true, 40))))
                except UnsupportedEventError:
                    continue
                assert back >= epsilon * (1 - 1e-12)
    assert used >= 1
