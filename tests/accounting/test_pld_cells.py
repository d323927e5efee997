"""Atoms against sums over all losses, at random; and what merging asks for."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting._atoms.bounds import log_delta_reading
from fastdp.accounting._atoms.law import Law
from fastdp.accounting._atoms.plan import gathered
from fastdp.accounting._pld.finite import finite_profile
from fastdp.accounting._pld.listed_loss import Atoms


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
    loss = law.finite()
    count = source.randint(1, 24 if loss.losses.size < 5 else 12)
    mean = float(loss.masses @ loss.losses)
    spread = math.sqrt(float(loss.masses @ (loss.losses - mean) ** 2)) + 1e-9
    epsilon = count * mean + source.uniform(0, 4) * math.sqrt(count) * spread
    return loss, count, max(0.0, epsilon)


def holds(seed, number):
    """Hold brackets from atoms to exact sums; return how many were narrow."""
    source, narrow = random.Random(seed), 0
    for _ in range(number):
        loss, count, epsilon = configuration(source)
        truth = finite_profile(((loss, count),)).log_delta(epsilon)
        if truth.upper == -math.inf:
            continue
        found = log_delta_reading(((loss, count),), epsilon)(np.array([epsilon]))[0]
        assert found.upper >= truth.lower, (loss, count, epsilon)
        assert found.lower <= truth.upper, (loss, count, epsilon)
        narrow += found.upper - found.lower < 1e-3
    return narrow


def test_atoms_contain_the_sums():
    assert holds(1, 30) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 42))
def test_atoms_contain_the_sums_anywhere(seed):
    assert holds(seed, 100) >= 60


def delta(law, count, epsilon):
    """delta of a few steps, by all sums."""
    sums, weights = law.loss, law.mass
    for _ in range(count - 1):
        sums = np.add.outer(sums, law.loss).ravel()
        weights = np.multiply.outer(weights, law.mass).ravel()
    return float(weights @ -np.expm1(np.minimum(epsilon - sums, 0.0)))


@pytest.mark.parametrize("seed", range(20))
def test_merged_cells_are_smaller_in_convex_order(seed):
    source = np.random.default_rng(seed)
    size = int(source.integers(3, 40))
    losses = np.sort(source.normal(0, source.choice([0.003, 0.05, 1]), size))
    masses = source.exponential(1, size) ** 3
    masses /= masses.sum()
    law = Law(losses, masses)
    for cells in (3, 20):
        edges = np.sort(source.uniform(losses[0], losses[-1], cells - 1))
        edges = np.concatenate([losses[:1], edges, losses[-1:]])
        better, worse = gathered(law, edges, False), gathered(law, edges, True)
        assert abs(better.mass.sum() - 1) < 1e-14
        assert abs(worse.mass.sum() - 1) < 1e-14
        for epsilon in np.linspace(-0.5, 1.5, 201):
            truth = delta(law, 1, epsilon)
            assert delta(better, 1, epsilon) <= truth + 1e-15
            assert delta(worse, 1, epsilon) >= truth - 1e-15
        if size < 15:
            truth = delta(law, 3, 0.05)
            assert delta(better, 3, 0.05) <= truth + 1e-15
            assert delta(worse, 3, 0.05) >= truth - 1e-15
