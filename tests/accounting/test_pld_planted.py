"""Planted errors in atoms: the truth shows each."""

import json
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import GaussianEvent, PLDAccountant, PoissonSampledEvent
from fastdp.accounting._atoms import plan, sampled
from fastdp.accounting._atoms.bounds import log_delta_reading

TABLE = json.loads((Path(__file__).parents[1] / "vectors" / "pld.json").read_text())

FEW = [[0.1, 0.5, 2]]


def case_of(steps):
    return next(case for case in TABLE if case["steps"] == steps)


def removal(case):
    accountant = PLDAccountant()
    for rate, sigma, count in case["steps"]:
        accountant.compose(
            PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=sigma)), count
        )
    return accountant._snapshot()[0].removal.upper


def holds(case, found):
    """Return whether bounds of ln delta hold the truth and are narrow."""
    truth = mp.mpf(case["ln_delta"])
    if found.upper - found.lower > 1e-6 * abs(found.upper):
        return False
    return mp.mpf(found.lower) <= truth <= mp.mpf(found.upper)


# ---- atoms -------------------------------------------------------------------------


def in_atoms(case):
    steps = removal(case).composition.steps
    return log_delta_reading(steps, case["epsilon"])(np.array([case["epsilon"]]))[0]


def test_without_an_error_atoms_hold_the_truth():
    assert holds(case_of(FEW), in_atoms(case_of(FEW)))


@pytest.mark.parametrize("upper", [True, False])
def test_masses_that_are_off_are_seen(monkeypatch, upper):
    law_of_cells = sampled.law_of_cells

    def off(edges, p, d, side, slack):
        loss, mass = law_of_cells(edges, p, d, side, slack)
        factor = 1 - 1e-4 if upper else 1 + 1e-4
        return loss, mass * (factor if side is upper else 1.0)

    monkeypatch.setattr(sampled, "law_of_cells", off)
    assert not holds(case_of(FEW), in_atoms(case_of(FEW)))


def test_mass_beyond_the_cells_counts(monkeypatch):
    """What is lost by leaving out far tails is added to the upper bound."""
    monkeypatch.setattr(plan, "_BEYOND", -5.0)
    case, level = case_of(FEW), float(case_of(FEW)["ln_delta"])
    near = in_atoms(case)
    assert near.lower <= level <= near.upper
    assert near.upper - near.lower > 1e-3
    monkeypatch.setattr(sampled, "_beyond", lambda deviations: 0.0)
    assert in_atoms(case).upper < level
