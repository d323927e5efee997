"""Noise on a grid beside exact sums over the lattice (docs/proofs/grid_accounting.md).

The reference lists every integer. Two steps are read as the sum over the first's losses
of the second's profile, so nothing is rounded but the last digits of doubles.
"""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    FDPAccountant,
    GaussianEvent,
    GDPAccountant,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    RDPAccountant,
    SampledWithoutReplacementEvent,
)
from fastdp.accounting._grid_noise import FINE, gaussian_mus, laplace_epsilon
from fastdp.accounting.fdp import gdp_log_delta

#: Relative rounding of the sums here, with room.
ROUNDING = 1e-10


class Lattice:
    """Losses and masses of one step in one direction, each integer listed."""

    def __init__(self, log_p, log_q, q, removal):
        mixed = np.logaddexp(
            math.log(q) + log_p, math.log1p(-q) + log_q if q < 1 else -np.inf
        )
        one, other = (mixed, log_q) if removal else (log_q, mixed)
        order = np.argsort(one - other)
        self.loss, self.mass = (one - other)[order], np.exp(one)[order]
        self.above = np.append(np.cumsum(self.mass[::-1])[::-1], 0.0)
        tilted = self.mass * np.exp(-self.loss)
        self.other = np.append(np.cumsum(tilted[::-1])[::-1], 0.0)

    def delta(self, epsilon):
        """Return delta of one step at epsilons."""
        i = np.searchsorted(self.loss, epsilon)
        return np.maximum(self.above[i] - np.exp(epsilon) * self.other[i], 0.0)

    def delta_of_two(self, epsilon):
        """Return delta of two steps."""
        return float(self.mass @ self.delta(epsilon - self.loss))


def gaussian_lattice(sigma, shift, q, removal):
    z = np.arange(-math.ceil(11 * sigma), math.ceil(11 * sigma) + shift + 1.0)
    levels = [-((z - center) ** 2) / (2 * sigma**2) for center in (shift, 0)]
    scale = math.log(math.fsum(np.exp(levels[1]).tolist()))
    return Lattice(levels[0] - scale, levels[1] - scale, q, removal)


def laplace_lattice(scale, shift, q, removal):
    reach = 45 * scale
    z = np.arange(-math.ceil(reach), math.ceil(reach) + shift + 1.0)
    scale_of = math.log(math.tanh(0.5 / scale))
    return Lattice(*(scale_of - np.abs(z - c) / scale for c in (shift, 0)), q, removal)


def least_epsilon(delta_at, delta):
    low, high = 0.0, 1.0
    if delta_at(0.0) <= delta:
        return 0.0
    while delta_at(high) > delta:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high


def truth(lattice, q, steps, delta):
    """Return the least epsilon of both directions."""
    found = []
    for removal in (True, False):
        law = lattice(q, removal)
        read = (
            law.delta_of_two if steps == 2 else lambda e, law=law: float(law.delta(e))
        )
        found.append(least_epsilon(read, delta))
    return max(found)


def some_of(count):
    """Return seeds: ten are tried every time, and all in the slow run."""
    return [
        pytest.param(i, marks=[pytest.mark.slow] if i >= 10 else [])
        for i in range(count)
    ]


# ---- the lemma, where it is loose enough to be seen ------------------------------


@pytest.mark.parametrize("seed", some_of(40))
def test_coarse_gaussian_noise_lies_between_the_laws_of_the_lemma(seed):
    rng = random.Random(seed)
    sigma, q = (
        math.exp(rng.uniform(math.log(2), math.log(40))),
        rng.choice([1, 0.3, 0.01]),
    )
    shift = rng.randint(1, max(1, int(2 * sigma)))
    mus = gaussian_mus(shift * shift, Fraction(sigma), 1)
    assert mus is not None
    low, high = map(float, mus)
    assert low < shift / sigma < high
    for removal in (True, False):
        law = gaussian_lattice(sigma, shift, q, removal)
        for epsilon in (0.0, 0.1, 0.7, 2.0):
            inside, rate = epsilon, 1.0  # what sampling makes of an epsilon
            if q < 1 and removal:
                inside, rate = math.log1p(math.expm1(epsilon) / q), q
            elif q < 1:
                rest = 1 - math.exp(epsilon) * (1 - q)
                if rest <= 0:
                    continue
                inside, rate = epsilon + math.log(q / rest), rest
            found = float(law.delta(epsilon))
            if inside < 0 or found < 1e-9:
                continue
            below, above = (
                rate * math.exp(gdp_log_delta(epsilon=inside, mu=mu))
                for mu in (low, high)
            )
            assert below * (1 - 1e-9) <= found <= above * (1 + 1e-9)


def test_shifts_of_several_coordinates_meet_the_gaussian_bound():
    sigma, shift = 6.0, (3, 2, 1)
    high = float(gaussian_mus(14, Fraction(6), 3)[1])
    z = np.arange(-60.0, 66.0)
    one, other = np.zeros(1), np.zeros(1)
    for s in shift:
        p, q = (-((z - c) ** 2) / (2 * sigma**2) for c in (s, 0))
        one, other = (np.add.outer(a, b).ravel() for a, b in ((one, p), (other, q)))
    total = 3 * math.log(math.fsum(np.exp(-(z**2) / (2 * sigma**2)).tolist()))
    law = Lattice(one - total, other - total, 1, True)
    for epsilon in (0.0, 0.5, 1.5):
        bound = math.exp(gdp_log_delta(epsilon=epsilon, mu=high))
        assert float(law.delta(epsilon)) <= bound <= 1.1 * float(law.delta(epsilon))


def laplace_profile(epsilon, pure):
    if -pure < epsilon < pure:
        return 1 - math.exp((epsilon - pure) / 2)
    return max(0.0, -math.expm1(epsilon))


@pytest.mark.parametrize("seed", some_of(40))
def test_discrete_laplace_noise_lies_between_two_continuous_ones(seed):
    rng = random.Random(100 + seed)
    scale = math.exp(rng.uniform(math.log(0.7), math.log(300)))
    shift = rng.randint(1, 3 * math.ceil(scale))
    rate = 1 / Fraction(scale)
    low, high = float(rate * shift), float(laplace_epsilon(shift, rate))
    law = laplace_lattice(scale, shift, 1, True)
    for epsilon in np.linspace(-1.2 * low, 1.2 * low, 41):
        found = float(law.delta(epsilon))
        below, above = (
            1 - math.exp((epsilon - e) / 2)
            if -e < epsilon < e
            else max(0.0, -math.expm1(epsilon))
            for e in (low, high)
        )
        assert below - 1e-12 <= found <= above + 1e-12


# ---- what accountants make of it -------------------------------------------------


@pytest.mark.parametrize("seed", some_of(200))
def test_random_grid_mechanisms_beside_the_lattice_sum(seed):
    rng = random.Random(1000 + seed)
    steps, q = rng.choice([1, 2]), rng.choice([1, 1, 0.5, 0.1, 0.01])
    delta = 10 ** -rng.uniform(2, 8) * (q if q < 1 else 1)
    if rng.random() < 0.5:
        sigma = math.exp(rng.uniform(math.log(1), math.log(2.2 * FINE)))
        shift = max(1, round(sigma * rng.uniform(0.3, 2)))
        event = DiscreteGaussianEvent(sensitivity=shift, sigma=sigma, coordinates=1)

        def lattice(rate, removal):
            return gaussian_lattice(sigma, shift, rate, removal)

    else:
        scale = math.exp(rng.uniform(math.log(1), math.log(1500)))
        shift = max(1, round(scale * rng.uniform(0.3, 2)))
        event = DiscreteLaplaceEvent(sensitivity=shift, scale=scale)

        def lattice(rate, removal):
            return laplace_lattice(scale, shift, rate, removal)

    if q < 1:
        event = PoissonSampledEvent(q, event)
    found = PLDAccountant().compose(event, steps).epsilon_bounds(delta)
    true = truth(lattice, q, steps, delta)
    scale_of = max(true, delta)
    assert found.upper >= true - ROUNDING * scale_of - 1e-13
    assert found.lower <= true + ROUNDING * scale_of + 1e-13
    assert found.upper - true <= 1e-6 * max(true, 1e-3), (event, steps, delta)


TRUTH = 6.187712389971539


def test_training_with_the_librarys_own_noise():
    event = fastdp.Gaussian(1.0, coordinates=1).event(sensitivity=1)
    step = PoissonSampledEvent(0.01, event)
    found = PLDAccountant().compose(step, 10_000).epsilon_bounds(1e-5)
    assert found.lower == pytest.approx(TRUTH, rel=1e-9)
    assert TRUTH <= found.upper <= TRUTH * (1 + 1e-9)
    continuous = PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=1))
    for kind in (RDPAccountant, FDPAccountant):
        one, other = (kind().compose(e, 1000).epsilon(1e-5) for e in (step, continuous))
        assert one == pytest.approx(other, rel=1e-6)


@pytest.mark.rest
def test_sampled_laplace_noise_of_the_library():
    event = fastdp.Laplace(1.0, coordinates=1).event(sensitivity=1)
    step = PoissonSampledEvent(0.01, event)
    continuous = PoissonSampledEvent(0.01, LaplaceEvent(sensitivity=1, scale=1))
    for kind in (PLDAccountant, FDPAccountant, RDPAccountant):
        one, other = (kind().compose(e, 1000).epsilon(1e-5) for e in (step, continuous))
        assert one == pytest.approx(other, rel=2e-2 if kind is RDPAccountant else 1e-6)


def test_subsets_mixes_and_gaussian_accounting():
    replace = NeighboringRelation.REPLACE_ONE
    grid = DiscreteGaussianEvent(
        sensitivity=2**30, sigma=2**30, coordinates=1, neighboring_relation=replace
    )
    plain = GaussianEvent(sensitivity=1, sigma=1, neighboring_relation=replace)
    subsets = [
        SampledWithoutReplacementEvent(source_dataset_size=100, sample_size=3, event=e)
        for e in (grid, plain)
    ]
    one, other = (PLDAccountant().compose(e, 50).epsilon(1e-5) for e in subsets)
    assert other <= one <= other * (1 + 1e-6)
    mix = PLDAccountant(replace).compose(grid, 3).compose(plain, 2)
    same = PLDAccountant(replace).compose(plain, 5).epsilon(1e-6)
    assert same <= mix.epsilon(1e-6) <= same * (1 + 1e-9)
    mu = GDPAccountant().compose(grid, 4).mu
    assert 2 <= mu < 2 * (1 + Fraction(1, 10**9))


def test_several_coordinates_on_a_fine_grid_go_by_their_norm():
    many = DiscreteGaussianEvent(
        sensitivity=Fraction(2**30), sigma=2**30, coordinates=1000
    )
    plain = (
        PLDAccountant().compose(GaussianEvent(sensitivity=1, sigma=1), 7).epsilon(1e-6)
    )
    for event in (many, DiscreteGaussianEvent(sensitivity=2**30, sigma=2**30)):
        found = PLDAccountant().compose(event, 7).epsilon(1e-6)
        assert plain <= found <= plain * (1 + 1e-9)
    coarse = PLDAccountant().compose(DiscreteGaussianEvent(sensitivity=5, sigma=9), 3)
    bounds = coarse.epsilon_bounds(1e-6)
    near = (
        PLDAccountant().compose(GaussianEvent(sensitivity=5, sigma=9), 3).epsilon(1e-6)
    )
    assert bounds.lower < near < bounds.upper < 1.05 * near
