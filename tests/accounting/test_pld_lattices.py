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
from fastdp.accounting._atoms.lattice import Lattice

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


def test_too_many_terms_go_to_cells():
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


# ---- one lattice ---------------------------------------------------------------------

LAWS = [[0.3, 0.7], [0.2, 0.0, 0.0, 0.8], [0.25, 0.35, 0.4], [0.1, 0.0, 0.6, 0.0, 0.3]]


def powers(masses, count):
    """Return the masses of a sum, in rationals."""
    result = [Fraction(1)]
    for _ in range(count):
        parts = [[Fraction(0)] * len(result) for _ in masses]
        result = [
            sum(
                (
                    Fraction(mass) * result[i - j]
                    for j, mass in enumerate(masses)
                    if 0 <= i - j < len(result)
                ),
                Fraction(0),
            )
            for i in range(len(result) + len(parts) - 1)
        ]
    return result


@pytest.mark.parametrize("masses", LAWS)
@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_powers_are_the_exact_ones_within_their_error(masses, count):
    masses = [Fraction(mass) for mass in masses]
    masses = [mass / sum(masses) for mass in masses]
    law = Lattice(Fraction(1, 3), -1, np.array(masses, dtype=float), error=1e-15)
    exact = powers(masses, count)
    for upper in (True, False):
        found = law.times(count, upper, -200.0)
        assert found.first == -count
        assert found.mass.size == len(exact)
        for mass, truth in zip(found.mass.tolist(), exact, strict=True):
            most, least = Fraction(mass), Fraction(mass)
            most *= 1 + Fraction(found.error)
            least *= 1 - Fraction(found.error)
            if upper:
                assert most >= truth * (1 - Fraction(1, 10**15))
            else:
                assert least <= truth * (1 + Fraction(1, 10**15))
            assert abs(mass - truth) <= 1e-12 * truth


@pytest.mark.parametrize("masses", LAWS)
@pytest.mark.parametrize("log_tail", [-5.0, -20.0])
def test_what_is_cut_off_is_lost_or_left_out(masses, log_tail):
    masses = [Fraction(mass) for mass in masses]
    masses = [mass / sum(masses) for mass in masses]
    law = Lattice(Fraction(1, 3), 0, np.array(masses, dtype=float), error=1e-15)
    exact = powers(masses, 60)
    for upper in (True, False):
        found = law.times(60, upper, log_tail)
        assert found.mass.size < len(exact)
        for at in range(0, len(exact), 5):
            # tail masses: of an upper law never below the truth, of a lower never above
            truth = float(sum(exact[at:]))
            tail = float(found.mass[max(0, at - found.first) :].sum())
            if upper:
                assert (tail + found.lost) * (1 + 1e-12) >= truth
            else:
                assert tail * (1 - 1e-12) <= truth
            assert abs(tail - truth) <= 200 * np.exp(log_tail) + 1e-12


def test_a_million_steps_of_two_losses_are_binomial():
    e = Fraction(1, 1000)
    bounds = PLDAccountant().compose(PureDPEvent(e), 10**6).epsilon_bounds(1e-9)
    optimal = ApproximateAccountant().compose(PureDPEvent(e), 10**6).epsilon(1e-9)
    assert bounds.lower <= optimal * (1 + 1e-12)
    assert abs(bounds.upper / optimal - 1) < 1e-8
    assert bounds.upper - bounds.lower < 1e-8 * bounds.upper
