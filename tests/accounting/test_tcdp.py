"""Truncated concentrated privacy of samples, from their Renyi curves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting import (
    GaussianEvent,
    PLDAccountant,
    PoissonSampledEvent,
    RDPEvent,
    TCDPAccountant,
    TCDPEvent,
    renyi_divergence,
)
from fastdp.exceptions import ParameterError, UnsupportedEventError

SAMPLE = PoissonSampledEvent(Fraction(1, 100), GaussianEvent(sensitivity=1, sigma=3))


@pytest.mark.parametrize(
    ("omega", "least", "rho"),
    [
        (2, 5.8759e-6, 5.876e-6),
        (5, 5.8973e-6, 5.897e-6),
        (20.72, 6.0130e-6, 6.013e-6),
        (50, 6.2464e-6, 6.246e-6),
    ],
)
def test_samples_are_charged_divergence_over_order_up_to_omega(omega, least, rho):
    accountant = TCDPAccountant(omega=omega).compose(SAMPLE, 10)
    assert accountant.omega == Fraction(omega)
    found = float(accountant.rho) / 10
    assert least <= found <= rho * (1 + 2e-3)
    orders = np.concatenate(
        [1 + np.geomspace(1e-4, 0.01, 20), np.linspace(1.01, omega, 997)]
    )
    assert (renyi_divergence(SAMPLE, orders) <= found * orders).all()


def test_an_omega_serves_what_has_no_rho_and_nothing_else():
    with pytest.raises(UnsupportedEventError, match="rho"):
        TCDPAccountant().compose(SAMPLE)
    noise = GaussianEvent(sensitivity=1, sigma=3)
    plain = TCDPAccountant(omega=4).compose(noise)
    assert (plain.rho, plain.omega) == (Fraction(1, 18), None)
    both = TCDPAccountant(omega=40).compose(SAMPLE, 1000)
    both.compose(TCDPEvent(rho=0.01, omega=30))
    assert both.omega == 30
    exact = PLDAccountant().compose(SAMPLE, 1000)
    alone = TCDPAccountant(omega=40).compose(SAMPLE, 1000)
    for delta in (1e-3, 1e-5, 1e-8):
        assert exact.epsilon(delta) <= alone.epsilon(delta) < 3 * exact.epsilon(delta)
    for omega in (1, 0.5, -3, 1e7):
        with pytest.raises(ParameterError, match="omega must be > 1 and <= 1e"):
            TCDPAccountant(omega=omega)
    steep = PoissonSampledEvent(Fraction(1, 2), RDPEvent(orders=(2,), epsilons=(1,)))
    with pytest.raises(UnsupportedEventError):
        TCDPAccountant(omega=9).compose(steep)
