"""Sampled Gaussian noise of small sigma: its losses pile up below ln(1/(1 - q)).

What accountants claim of both directions is attacked by a test that anybody can make:
the record is thought absent where every output is at most t. Its power has a closed
form. All curves are attacked: trade-off functions, exported laws, profiles.
"""

import math

import numpy as np
import pytest
from scipy import stats

from fastdp.accounting import (
    DiscreteGaussianEvent,
    GaussianEvent,
    PLDAccountant,
    PoissonSampledEvent,
)
from fastdp.accounting._atoms import sampled as cells
from fastdp.accounting._atoms.sampled import sampled_law
from fastdp.accounting._facts import facts_of
from fastdp.accounting._pld import direction
from fastdp.exceptions import CertificateError

#: Roundings of scipy's normal law and of powers, far below what the fault was.
ROUNDING = 1e-9

SIGMAS = (0.05, 0.1, 0.12, 0.13, 0.15, 0.18)
RATES = (0.001, 0.02, 0.05, 0.3)
CASES = [
    (0.05, 0.12, 50),
    pytest.param(0.02, 0.13, 40, marks=pytest.mark.slow),
    pytest.param(0.01, 0.15, 1000, marks=pytest.mark.slow),
    pytest.param(0.3, 0.18, 3, marks=pytest.mark.slow),
]


def sampled(q, sigma):
    return PoissonSampledEvent(q, GaussianEvent(sensitivity=1, sigma=sigma))


def attack(q, sigma, count):
    """Return false-positive and false-negative rates of the test at many t."""
    t = np.linspace(-3 * sigma, 1 + 3 * sigma, 2001)
    absent = stats.norm.logcdf(t / sigma)
    present = np.logaddexp(
        math.log1p(-q) + absent, math.log(q) + stats.norm.logcdf((t - 1) / sigma)
    )
    return -np.expm1(count * absent), np.exp(count * present)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("rate", RATES)
def test_an_upper_law_has_all_of_the_mass(rate, sigma):
    step = facts_of(sampled(rate, sigma)).step()
    for side in (step.removal, step.addition):
        law = sampled_law(side.loss, None, 1000, True, -60.0)
        assert law.mass.sum() + law.lost >= 1 - 1e-12
        law = sampled_law(side.loss, None, 1000, False, -60.0)
        assert 1 - 1e-9 <= law.mass.sum() <= 1 + 1e-12


@pytest.mark.rest
@pytest.mark.parametrize(("q", "sigma", "count"), CASES)
def test_trade_off_functions_are_below_an_attack(q, sigma, count):
    accountant = PLDAccountant().compose(sampled(q, sigma), count=count)
    f = accountant.trade_off(symmetric=False)
    x, y = attack(q, sigma, count)
    assert (f(x) <= y * (1 + ROUNDING) + ROUNDING).all()
    # Where all outputs but those of one group lie far apart the test is the best one.
    if sigma < 0.14:
        place = np.searchsorted(-x, -0.001)
        assert f(x[place]) >= 0.9 * y[place]


@pytest.mark.parametrize(("q", "sigma", "count"), CASES)
def test_profiles_are_above_an_attack(q, sigma, count):
    accountant = PLDAccountant().compose(sampled(q, sigma), count=count)
    x, y = attack(q, sigma, count)
    for e in (0.1, 1.0):
        # The addition: P is without the record, Q with it.
        least = float(np.max(1 - x - math.exp(e) * y))
        assert accountant.delta(e) >= least - ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize(("q", "sigma", "count"), [(0.02, 0.13, 40), (0.3, 0.18, 3)])
def test_exported_laws_are_above_an_attack(q, sigma, count):
    accountant = PLDAccountant().compose(sampled(q, sigma), count=count)
    law = accountant.distribution(interval=1 / 64)
    again = PLDAccountant().compose(law.event())
    x, y = attack(q, sigma, count)
    for e in (0.0, 0.1, 0.5, 1.0, 2.0):
        least = float(np.max(1 - x - math.exp(e) * y))
        assert again.delta(e) >= least - ROUNDING
        assert _delta(law.addition or law.removal, law.interval, e) >= least - ROUNDING


def _delta(one, interval, e):
    loss = float(interval) * (
        one.lower_index + np.arange(len(one.probabilities), dtype=np.float64)
    )
    gain = -np.expm1(np.minimum(e - loss, 0.0))
    return float(np.asarray(one.probabilities) @ gain) + one.infinity_mass


def settings():
    for sigma in (0.05, 0.06, 0.08, 0.1, 0.12, 0.13, 0.15, 0.17):
        for q in (0.001, 0.01, 0.05, 0.3):
            for count in (1, 20, 50, 1000):
                yield sampled(q, sigma), count
    for sigma in (0.02, 0.05):
        for q in (0.001, 0.05, 0.3):
            for count in (1, 20, 1000):
                inner = DiscreteGaussianEvent(sensitivity=1, sigma=sigma)
                yield PoissonSampledEvent(q, inner), count


SETTINGS = list(settings())


def held(event, count, delta):
    accountant = PLDAccountant().compose(event, count=count)
    plain = accountant.epsilon_bounds(delta)
    checked = accountant.epsilon_bounds(delta, check=True)
    assert plain.lower <= checked.upper
    assert checked.lower <= plain.upper
    half = accountant.delta_bounds(plain.upper / 2, check=True)
    assert 0 <= half.lower <= half.upper <= 1
    assert accountant.delta(0) >= half.lower


@pytest.mark.rest
@pytest.mark.parametrize("number", range(5, len(SETTINGS), 60))
def test_two_proofs_never_contradict_each_other(number):
    held(*SETTINGS[number], 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_two_proofs_never_contradict_each_other_anywhere(number, delta):
    held(*SETTINGS[number], delta)


@pytest.mark.parametrize(
    ("sigma", "q", "delta"), [(0.05, 0.3, 1e-2), (0.02, 0.01, 1e-5)]
)
def test_masses_below_all_doubles_widen_no_bracket(sigma, q, delta):
    # What P has at the outputs of the other dataset is e^-200 and e^-1250.
    inner = DiscreteGaussianEvent(sensitivity=1, sigma=sigma)
    accountant = PLDAccountant().compose(PoissonSampledEvent(q, inner), count=20)
    bounds = accountant.epsilon_bounds(delta, check=True)
    # A sample with the record loses ln q + 1/(2 sigma^2), one without it ln(1 - q).
    some = next(n for n in range(20) if stats.binom.sf(n, 20, q) <= delta)
    loss = math.log(q) + 0.5 / sigma**2
    truth = some * loss + (20 - some) * math.log1p(-q)
    assert bounds.lower - 1 <= truth <= bounds.upper + 1
    assert bounds.upper - bounds.lower <= 1e-9 * bounds.upper


@pytest.mark.slow
def test_a_trade_off_function_plans_its_atoms_once(monkeypatch):
    plans = []

    def counted(steps, epsilon, right=direction.log_delta_reading):
        plans.append(epsilon)
        return right(steps, epsilon)

    monkeypatch.setattr(direction, "log_delta_reading", counted)
    accountant = PLDAccountant().compose(sampled(0.05, 0.15), 50)
    f = accountant.trade_off(symmetric=False)
    known = len(plans)
    first = f([1e-6, 0.001, 0.1])
    assert 0 < known <= 6
    assert len(plans) == known
    assert (f([1e-6, 0.001, 0.1]) == first).all()  # whatever was read before


# ---- planted rules -------------------------------------------------------------------


def test_a_pile_that_is_left_out_is_found(monkeypatch):
    integrals = cells._integrals

    def wrong(loss, x, edge, upper):
        p, d = integrals(loss, x, edge, upper)
        p[-1] = d[-1] = 0
        return p, d

    monkeypatch.setattr(cells, "_integrals", wrong)
    accountant = PLDAccountant().compose(sampled(0.0501, 0.1201), count=50)
    x, y = attack(0.0501, 0.1201, 50)
    least = float(np.max(1 - x - math.exp(0.1) * y))
    _, upper = accountant._snapshot()[0].bounds(np.array([0.1]), removal=False)
    assert math.exp(upper[0]) < 0.9 * least


def test_losses_that_are_a_cell_too_low_are_found(monkeypatch):
    def wrong(edges, p, d, upper, slack):
        return edges[:-1], p

    monkeypatch.setattr(cells, "law_of_cells", wrong)
    accountant = PLDAccountant().compose(sampled(0.0502, 0.1202))
    with pytest.raises(CertificateError):
        accountant.delta_bounds(0.02, check=True)
