"""Masses of sums of few losses: doubles suffice, against exact multinomial masses."""

import math
from decimal import Context, Decimal

import numpy as np
import pytest

from fastdp.accounting._pld.finite import Sums

U = 2.0**-52
DIGITS = Context(prec=50)


@pytest.mark.parametrize(
    ("masses", "count"), [((0.5, 0.5), 255), ((0.73, 0.27), 20000), ((1e-9, 1.0), 3000)]
)
def test_masses_of_many_steps_err_by_less_than_is_charged(masses, count):
    logs = np.log(np.array(masses))
    found = Sums(np.array([-1.0, 1.0]), logs, 0.0).power(count)
    few = [0, 1, 2, count // 4, count // 2, count - 1, count]
    for i in few:  # of the larger loss
        exact = DIGITS.ln(Decimal(math.comb(count, i))) if i % count else Decimal(0)
        exact += i * Decimal(logs[1]) + (count - i) * Decimal(logs[0])
        level = found.log_masses[i]
        wrong = abs(float(Decimal(level) - exact))
        assert wrong <= found.error + U * abs(level)
    assert found.error < 10 * U * count * math.log(count)


def test_nothing_wider_than_doubles_is_asked_for(monkeypatch):
    losses, logs = np.array([-1.0, 0.5, 2.0]), np.log([0.2, 0.3, 0.5])
    one = Sums(losses, logs, 0.0).power(40)
    monkeypatch.setattr(np, "longdouble", np.float64)
    other = Sums(losses, logs, 0.0).power(40)
    assert np.array_equal(one.log_masses, other.log_masses)
