"""Mixes of laws whose losses have no common unit, against sums over all losses."""

import itertools
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import (
    ApproximateAccountant,
    ApproximateDPEvent,
    DiscreteLaplaceEvent,
    LaplaceEvent,
    PLDAccountant,
    PureDPEvent,
)
from fastdp.accounting._pld.grid import GridComposition, GridLaw
from fastdp.accounting._pld.grid_profile import MOST_TERMS

mp.mp.dps = 60


def number(value):
    return mp.mpf(Fraction(value).numerator) / Fraction(value).denominator


def two_points(epsilon, count):
    """Return losses and masses of `count` pure mechanisms, each the worst there is."""
    e = number(epsilon)
    p = 1 / (1 + mp.exp(-e))
    return [
        ((2 * j - count) * e, mp.binomial(count, j) * p**j * (1 - p) ** (count - j))
        for j in range(count + 1)
    ]


def discrete_laplace(scale):
    """Return losses and masses of discrete Laplace noise, sensitivity 1."""
    a = 1 / number(scale)
    total = 1 + mp.exp(-a)
    return [(a, 1 / total), (-a, mp.exp(-a) / total)]


def exact_delta(parts, epsilon):
    total = mp.mpf(0)
    for terms in itertools.product(*parts):
        loss = mp.fsum(term[0] for term in terms)
        if loss > epsilon:
            total += mp.fprod(term[1] for term in terms) * -mp.expm1(epsilon - loss)
    return total


def rational(value):
    sign, mantissa, exponent, _ = value._mpf_
    return Fraction((-1) ** sign * int(mantissa)) * Fraction(2) ** int(exponent)


MIXES = [
    ([("0.3", 40), ("0.0717", 30)], []),
    ([("1.1", 3), ("0.37", 5), ("0.0131", 7)], ["2.7"]),
    ([("0.6021", 1), ("0.0494", 1)], ["17.3"]),
    ([("4.7", 20), ("1.7413", 3)], ["1.2472", "0.9"]),
]


def composed(mix):
    pure, scales = mix
    accountant = PLDAccountant()
    parts = []
    for epsilon, count in pure:
        accountant.compose(PureDPEvent(Fraction(epsilon)), count)
        parts.append(two_points(epsilon, count))
    for scale in scales:
        accountant.compose(DiscreteLaplaceEvent(sensitivity=1, scale=Fraction(scale)))
        parts.append(discrete_laplace(scale))
    return accountant, parts


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("share", ["0", "0.3", "0.8", "0.999"])
def test_brackets_hold_the_sum_over_all_losses(mix, share):
    accountant, parts = composed(mix)
    most = mp.fsum(part[-1][0] if len(part) != 2 else max(part)[0] for part in parts)
    epsilon = float(most * mp.mpf(share))
    truth = exact_delta(parts, mp.mpf(epsilon))
    bounds = accountant.ln_delta_bounds(epsilon)
    assert mp.mpf(bounds.lower) <= mp.log(truth) <= mp.mpf(bounds.upper)
    assert bounds.upper - bounds.lower < 1e-8
    if epsilon > 0 and truth < 0.5:  # nearer to 1 delta hardly moves with epsilon
        at = accountant.epsilon_bounds(rational(truth))
        assert at.lower * (1 - 1e-15) <= epsilon <= at.upper * (1 + 1e-15)
        assert at.upper - at.lower < 1e-9 * at.upper


def test_what_is_lost_is_added():
    accountant, parts = composed(MIXES[0])
    accountant.compose(
        ApproximateDPEvent(epsilon=Fraction("0.5"), delta=Fraction(1, 10**6)), 2
    )
    parts.append(two_points("0.5", 2))
    lost = 1 - (1 - mp.mpf(10) ** -6) ** 2
    truth = lost + (1 - lost) * exact_delta(parts, mp.mpf(8))
    bounds = accountant.delta_bounds(8)
    assert bounds.lower <= truth <= bounds.upper
    assert bounds.upper - bounds.lower < 1e-8 * bounds.upper


def test_too_many_terms_go_to_a_grid_of_their_own():
    accountant = PLDAccountant().compose(LaplaceEvent(sensitivity=1, scale=3), 5)
    for epsilon in ("0.31", "0.0471", "0.00911"):
        accountant.compose(PureDPEvent(Fraction(epsilon)), 1000)
    narrow = PLDAccountant().compose(LaplaceEvent(sensitivity=1, scale=3), 5)
    narrow.compose(PureDPEvent(Fraction("0.31")), 1000)
    bounds, less = accountant.epsilon_bounds(1e-6), narrow.epsilon_bounds(1e-6)
    assert bounds.upper - bounds.lower < 1e-4 * bounds.upper
    assert less.upper - less.lower < 1e-6 * less.upper
    assert less.upper < bounds.lower


@pytest.mark.parametrize("number_of_units", [3, 4])
def test_no_lattice_is_left_out_where_there_are_too_many_terms(number_of_units):
    accountant, optimal, last = PLDAccountant(), ApproximateAccountant(), 0.0
    for epsilon in ("0.31", "0.2771", "0.29311", "0.301")[:number_of_units]:
        event = PureDPEvent(Fraction(epsilon))
        accountant.compose(event, 1000)
        optimal.compose(event, 1000)
        bounds = accountant.epsilon_bounds(1e-6)
        assert last < bounds.lower <= bounds.estimate <= bounds.upper
        last = bounds.upper
        # The same number by another way, which is exact for pure mechanisms.
        other = optimal.epsilon(1e-6)
        assert bounds.lower <= other * (1 + 1e-12)
        assert abs(bounds.upper / other - 1) < 1e-3


def test_what_the_sum_leaves_out_is_charged():
    law = GridLaw(0.3, -1, np.array([0.42, 0.0, 0.58]))
    part = GridComposition([(law, 4000)], 0.5)
    losses, masses, error = part.points()
    assert losses.size < min(part.size, MOST_TERMS)
    assert 1e-14 <= error < 1e-8
    assert abs(masses.sum() - 1) <= error
