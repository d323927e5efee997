"""Planted errors in the integral in more digits and in grids: the truth shows each."""

import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import GaussianEvent, PLDAccountant, PoissonSampledEvent
from fastdp.accounting._pld import grid_steps, precise
from fastdp.accounting._pld.contour import Chernoff
from fastdp.accounting._pld.cut_sample import CutSampledLoss, cut_composition
from fastdp.accounting._pld.direction import Direction
from fastdp.accounting._pld.grid import GridLaw
from fastdp.accounting._pld.precise import PreciseContour

TABLE = json.loads((Path(__file__).parents[1] / "vectors" / "pld.json").read_text())

#: Rare sampling: the terms of the sum are far above delta.
RARE = [[0.0001, 0.8, 10000]]

#: Many steps, and few.
MANY, FEW = [[0.005, 1.0, 1000]], [[0.1, 0.5, 2]]


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


def contour_of(case, log_lost=None):
    """Return the integral in more digits, perhaps without far tails."""
    direction, level = removal(case), float(case["ln_delta"])
    composition, chernoff = direction.composition, direction._chernoff
    if log_lost is not None:
        composition = cut_composition(composition.steps, level + log_lost, 1.0)
        chernoff = Chernoff(composition)
    return PreciseContour(composition, chernoff, case["epsilon"], level)


def in_digits(case, log_lost=None):
    return contour_of(case, log_lost).log_deltas(np.array([case["epsilon"]]))[0]


def test_without_an_error_the_truth_is_held():
    assert holds(case_of(RARE), in_digits(case_of(RARE)))
    assert holds(case_of(MANY), in_digits(case_of(MANY)))


def test_nodes_at_another_theta_are_seen(monkeypatch):
    line = precise._Line

    def moved(loss, theta, aim):
        return line(loss, theta * 1.0001, aim)

    monkeypatch.setattr(precise, "_Line", moved)
    assert not holds(case_of(MANY), in_digits(case_of(MANY)))


def test_nodes_cut_off_too_early_are_seen(monkeypatch):
    cut = PreciseContour._cut

    def early(self, composition, room):
        count = cut(self, composition, room)
        self._beyond *= 1e-30
        return max(2, count // 4)

    monkeypatch.setattr(PreciseContour, "_cut", early)
    assert not holds(case_of(MANY), in_digits(case_of(MANY)))


def test_aliases_left_out_are_seen(monkeypatch):
    plan = PreciseContour._plan

    def short(self, *args):
        plan(self, *args)
        self._step *= 8
        self._count = max(2, self._count // 8)

    monkeypatch.setattr(PreciseContour, "_plan", short)
    monkeypatch.setattr(PreciseContour, "_aliases", lambda self, epsilon: 0 * epsilon)
    assert not holds(case_of(MANY), in_digits(case_of(MANY)))


def test_too_few_digits_are_seen(monkeypatch):
    measure = PreciseContour._measure

    def few(self):
        measure(self)
        self._bits, self._error_units = 60, 1.0

    monkeypatch.setattr(PreciseContour, "_measure", few)
    assert not holds(case_of(RARE), in_digits(case_of(RARE)))


def test_tails_that_matter_are_seen(monkeypatch):
    """Cut off so near that a part of delta is missing, which is added, or is not."""
    case = case_of(MANY)
    contour, at = contour_of(case, log_lost=-2.0), np.array([case["epsilon"]])
    held = contour.log_deltas(at)[0]
    assert held.lower <= float(case["ln_delta"]) <= held.upper
    monkeypatch.setattr(contour, "_with_lost", lambda log_delta: log_delta)
    assert contour.log_deltas(at)[0].upper < float(case["ln_delta"])


# ---- grids -------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Grids of fewer points, which take less time."""
    monkeypatch.setattr(grid_steps, "_MOST_DENSE", 1 << 17)
    grid_steps._laws.cache_clear()
    yield
    grid_steps._laws.cache_clear()


def on_a_grid(case):
    direction = removal(case)
    return direction._grid(case["epsilon"]).log_delta(case["epsilon"])


def test_without_an_error_a_grid_holds_the_truth():
    assert holds(case_of(FEW), on_a_grid(case_of(FEW)))


@pytest.mark.parametrize("which", ["worse_law", "merged_ends"])
def test_masses_that_are_off_are_seen(monkeypatch, which):
    law = getattr(grid_steps, which)
    factor = 1 - 1e-4 if which == "worse_law" else 1 + 1e-4

    def off(*of):
        found = law(*of)
        mass = found.mass * factor
        return GridLaw(found.step, found.first, mass, found.lost, found.blur)

    monkeypatch.setattr(grid_steps, which, off)
    assert not holds(case_of(FEW), on_a_grid(case_of(FEW)))


def test_mass_beyond_the_cells_counts():
    """What is lost by leaving out far tails is added to the upper bound."""
    case = case_of(FEW)
    direction, level = removal(case), float(case["ln_delta"])
    near = grid_steps.grid_profile(
        direction.composition.steps, 4.0, case["epsilon"], level - 3
    ).log_delta(case["epsilon"])
    assert near.lower <= level <= near.upper
    assert near.upper - near.lower > 1e-3


def test_a_cut_law_loses_less_than_it_says():
    steps = removal(case_of(MANY)).composition.steps
    cut, _ = cut_composition(steps, -20.0, 1.0).steps[0]
    assert isinstance(cut, CutSampledLoss)
    q, s = mp.mpf(cut.probability), mp.mpf(cut.noise)

    def missing(x):
        ratio = 1 - q + q * mp.exp((2 * x - 1) / (2 * s * s))
        kept = mp.exp(-mp.exp((x - cut.place) / cut.breadth))
        return mp.npdf(x, 0, s) * ratio * (1 - kept)

    lost = mp.quad(missing, mp.linspace(-8, 20, 29))
    assert mp.log(lost) <= cut.log_lost <= -20 - math.log(1000)
    assert Direction(cut_composition(steps, -20.0, 1.0)).composition.steps[0][1] == 1000
