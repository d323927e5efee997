"""Laws on a grid against sums over all losses, at random; and what merging asks for."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting._pld import grid_steps, repeated_atoms
from fastdp.accounting._pld.atoms import Atoms
from fastdp.accounting._pld.finite import finite_profile
from fastdp.accounting._pld.grid import GridLaw, cells_of, worse_law
from fastdp.accounting._pld.interval_loss import scattered
from fastdp.accounting._pld.merged_cells import merged_law


def pair(source, size):
    """A random pair of laws of few outcomes, some of them only one law's."""
    p = np.array([source.expovariate(1) for _ in range(size)])
    q = p * np.exp(np.array([source.gauss(0, source.choice([0.1, 1, 3])) for _ in p]))
    p, q = p / p.sum(), q / q.sum()
    lost = source.choice([0, 0, 2.0**-20])
    order = np.argsort(p / q)
    p, q = p[order] * (1 - lost), q[order] * (1 - lost)
    return Atoms(np.log(p / q), p, Fraction(lost), float(lost))


def configuration(source):
    """A sampled direction of such a pair, a count, and a place to look at."""
    atoms = pair(source, source.randint(2, 5))
    rate = Fraction(source.choice([1, 0.5, 0.1, 0.01]))
    law = atoms.sampled(rate, source.random() < 0.5)
    loss = scattered(law)
    count = source.randint(1, 24 if loss.losses.size < 5 else 12)
    mean = float(loss.masses @ loss.losses)
    spread = math.sqrt(float(loss.masses @ (loss.losses - mean) ** 2)) + 1e-9
    epsilon = count * mean + source.uniform(0, 4) * math.sqrt(count) * spread
    return loss, count, max(0.0, epsilon)


def holds(seed, number, monkeypatch):
    """Hold brackets from grids to exact sums; return how many were narrow."""
    monkeypatch.setattr(repeated_atoms, "MOST_SUMS", 300)
    source, narrow = random.Random(seed), 0
    for _ in range(number):
        loss, count, epsilon = configuration(source)
        with monkeypatch.context() as patch:
            patch.setattr(repeated_atoms, "MOST_SUMS", 1 << 19)
            exact = finite_profile(((loss, count),))
        truth = exact.log_delta(epsilon)
        if truth.upper == -math.inf:
            continue
        theta = source.choice([0.3, 1, 4]) / (0.05 + epsilon)
        ours = grid_steps.grid_profile(((loss, count),), theta, epsilon)
        found = ours.log_delta(epsilon)
        assert found.upper >= truth.lower, (loss, count, epsilon)
        assert found.lower <= truth.upper, (loss, count, epsilon)
        narrow += found.upper - found.lower < 0.05
    return narrow


def test_grids_contain_the_sums(monkeypatch):
    assert holds(1, 30, monkeypatch) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 42))
def test_grids_contain_the_sums_anywhere(seed, monkeypatch):
    holds(seed, 100, monkeypatch)


def delta(law, count, epsilon):
    """delta of a few steps on a grid, by convolution."""
    if not isinstance(law, GridLaw):
        values, masses = law
    else:
        values, masses = law.losses, law.mass
    kept = masses > 0
    values, masses = values[kept], masses[kept]
    sums, weights = values, masses
    for _ in range(count - 1):
        sums = np.add.outer(sums, values).ravel()
        weights = np.multiply.outer(weights, masses).ravel()
    return float(weights @ -np.expm1(np.minimum(epsilon - sums, 0.0)))


@pytest.mark.parametrize("seed", range(20))
def test_merged_cells_are_smaller_in_convex_order(seed):
    source = np.random.default_rng(seed)
    size = int(source.integers(3, 40))
    losses = np.sort(source.normal(0, source.choice([0.003, 0.05, 1]), size))
    masses = source.exponential(1, size) ** 3
    masses /= masses.sum()
    step = 0.01
    cells = cells_of(step, losses, masses)
    for theta in (0.1, 3.0):
        better, worse = merged_law(cells, theta), worse_law(cells)
        for epsilon in np.linspace(-0.5, 1.5, 201):
            truth = delta((losses, masses), 1, epsilon)
            assert delta(better, 1, epsilon) <= truth + 1e-15
            assert delta(worse, 1, epsilon) >= truth - 1e-15
        if size < 15:
            truth = delta((losses, masses), 3, 0.05)
            assert delta(better, 3, 0.05) <= truth <= delta(worse, 3, 0.05)


def test_merging_wins_where_cells_are_full():
    """The moment that is left is nearer to the truth than by rounding down."""
    losses = np.linspace(-1, 1, 4001)
    masses = np.exp(losses / 2 - 4 * losses**2)
    masses /= masses.sum()
    cells = cells_of(1e-3, losses, masses)
    rounded = float(
        cells.mass @ np.exp(1e-3 * (cells.first + np.arange(cells.mass.size)))
    )
    merged = merged_law(cells, 1.0)
    truth = float(masses @ np.exp(losses))
    assert truth - float(merged.mass @ np.exp(merged.losses)) < (truth - rounded) / 50
