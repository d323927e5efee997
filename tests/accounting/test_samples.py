"""Samples read for other relations than the event inside: against slow, exact sums.

Three kinds of truth: quadratures of the pairs of laws that are stated in
docs/proofs/amplification.md, compositions of them on a plain grid, and mechanisms on
all datasets of a few records, enumerated.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

import fastdp
from fastdp.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    FDPAccountant,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
    RDPAccountant,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    event_delta,
    event_epsilon,
)
from fastdp.exceptions import UnsupportedEventError

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL


def gaussian(sigma, relation=ADD):
    return GaussianEvent(sensitivity=1, sigma=sigma, neighboring_relation=relation)


def pure(epsilon, relation=ADD):
    return PureDPEvent(epsilon, neighboring_relation=relation)


def fixed(n, m, event, relation=None, *, again=False):
    kind = SampledWithReplacementEvent if again else SampledWithoutReplacementEvent
    more = {} if relation is None else {"neighboring_relation": relation}
    return kind(source_dataset_size=n, sample_size=m, event=event, **more)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


# ---- stated pairs, by quadrature ---------------------------------------------------


def replaced_delta(log_density, q, epsilon):
    """Return delta of noise that moves by 1 or by -1 with probability q."""

    def excess(x):
        zero, up, down = (math.exp(log_density(x - c)) for c in (0, 1, -1))
        p, other = (1 - q) * zero + q * up, (1 - q) * zero + q * down
        return max(0.0, p - math.exp(epsilon) * other)

    parts = [-40, -8, -1, 0, 0.25, 0.5, 1, 2, 4, 8, 40]
    return sum(
        integrate.quad(excess, a, b, epsabs=1e-15, epsrel=1e-11, limit=400)[0]
        for a, b in itertools.pairwise(parts)
    )


@pytest.mark.parametrize("q", [1e-3, 0.1, 0.9])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0])
def test_a_record_replaced_in_a_poisson_sample(q, epsilon):
    s = 0.8
    laws = [
        (gaussian(s), stats.norm(scale=s).logpdf),
        (LaplaceEvent(sensitivity=1, scale=s), stats.laplace(scale=s).logpdf),
    ]
    for event, log_density in laws:
        true = replaced_delta(log_density, q, epsilon)
        sample = PoissonSampledEvent(q, event, neighboring_relation=REPLACE)
        found = PLDAccountant().compose(sample).delta_bounds(epsilon)
        assert true * (1 - 1e-6) - 1e-13 <= found.upper <= true * (1 + 1e-3) + 1e-12
        assert found.lower <= true * (1 + 1e-6) + 1e-13
        assert found.lower >= true * (1 - 1e-3) - 1e-12
        assert event_delta(sample, epsilon) >= true * (1 - 1e-6) - 1e-13


@pytest.mark.parametrize("q", [0.01, 0.5])
def test_noise_on_integers_is_summed(q):
    x = np.arange(-200, 201)
    for event, weight in (
        (DiscreteLaplaceEvent(sensitivity=2, scale=3), np.exp(-np.abs(x) / 3)),
        (
            DiscreteGaussianEvent(sensitivity=2, sigma=3, coordinates=1),
            np.exp(-x * x / 18),
        ),
    ):
        mass = weight / weight.sum()
        p = (1 - q) * mass + q * np.roll(mass, 2)
        other = (1 - q) * mass + q * np.roll(mass, -2)
        sample = PoissonSampledEvent(q, event, neighboring_relation=REPLACE)
        accountant = PLDAccountant().compose(sample)
        for epsilon in (0.0, 0.01, 0.3):
            true = hockey_stick(p, other, epsilon)
            found = accountant.delta_bounds(epsilon)
            assert found.lower <= true * (1 + 1e-12) + 1e-15
            assert (
                true * (1 - 1e-12) - 1e-15 <= found.upper <= true * (1 + 1e-9) + 1e-15
            )


def test_pure_privacy_by_its_closed_form():
    # algorithms on samples: half of the data, epsilon 1 out of what epsilon inside
    p, e0 = 0.3, 1.2
    grown, fallen = 1 - p + p * math.exp(e0), 1 - p + p * math.exp(-e0)
    sample = PoissonSampledEvent(p, pure(e0), neighboring_relation=REPLACE)
    true = math.log(grown / fallen)
    assert true <= event_epsilon(sample) <= true * (1 + 1e-13)
    # The published rate for epsilon 1/2 out of 1, with the term that is often lost.
    e, inside = 0.5, 1.0
    rate = math.expm1(e) / (math.exp(inside) + math.exp(e) - math.exp(e - inside) - 1)
    assert round(rate, 4) == 0.235
    sample = PoissonSampledEvent(rate, pure(inside), neighboring_relation=REPLACE)
    assert event_epsilon(sample) == pytest.approx(e, rel=1e-13)


def test_the_special_record_without_effect_counts_as_absent():
    for inner in (gaussian(1), pure(1)):
        one = PoissonSampledEvent(0.1, inner)
        same = PoissonSampledEvent(0.1, inner, neighboring_relation=SPECIAL)
        for kind in (PLDAccountant, RDPAccountant):
            assert kind().compose(one, 20).epsilon(1e-6) == kind().compose(
                same, 20
            ).epsilon(1e-6)
        with pytest.raises(UnsupportedEventError):
            PLDAccountant().compose(one).compose(same)


# ---- compositions, on a plain grid --------------------------------------------------


def bracket(p, q, count, delta, step=2e-3):
    """Return epsilons below and above the truth: losses rounded down and up."""
    loss = np.log(p / q)
    found = []
    for rounding in (np.floor, np.ceil):
        index = rounding(loss / step).astype(int)
        low = index.min()
        law = np.bincount(index - low, p)
        size = 1 << int(np.ceil(np.log2(count * law.size)))
        whole = np.fft.irfft(np.fft.rfft(law, size) ** count, size)[
            : count * (law.size - 1) + 1
        ]
        whole = np.maximum(whole, 0)
        sums = step * (count * low + np.arange(whole.size))
        positive = sums > 0
        whole, sums = whole[positive][::-1], sums[positive][::-1]
        deltas = np.cumsum(whole) - np.exp(sums) * np.cumsum(whole * np.exp(-sums))
        first = int(np.argmax(deltas > delta))  # from large epsilons down
        found.append(float(sums[first - (rounding is np.ceil)]))
    return found


def cells(weights, places, sigma):
    """Return the masses of a mixture of normal laws on fine cells."""
    edges = np.linspace(-9 * sigma, 9 * sigma, 40_001)
    middle = (edges[1:] + edges[:-1]) / 2
    width = edges[1] - edges[0]
    return sum(
        w * stats.norm(c, sigma).pdf(middle) * width
        for w, c in zip(weights, places, strict=True)
    )


@pytest.mark.rest
def test_compositions_of_a_record_replaced():
    q, count = 0.05, 30
    p = cells([1 - q, q], [0, 1], 1.0)
    other = cells([1 - q, q], [0, -1], 1.0)
    low, high = bracket(p, other, count, 1e-4)
    sample = PoissonSampledEvent(q, gaussian(1), neighboring_relation=REPLACE)
    found = PLDAccountant().compose(sample, count).epsilon_bounds(1e-4)
    assert low <= found.upper <= high
    assert found.lower <= high
    assert found.upper - found.lower <= 1e-3 * found.upper
    # One more or less is not enough, and a group of two in every batch far too much.
    one = PLDAccountant().compose(PoissonSampledEvent(q, gaussian(1)), count)
    assert one.epsilon(1e-4) < found.lower
    for kind in (RDPAccountant, FDPAccountant):
        assert low <= kind().compose(sample, count).epsilon(1e-4) < 2 * high
    # Noise on a fine grid is between two Gaussian laws.
    grid = PoissonSampledEvent(
        q, fastdp.Gaussian(1.0).event(sensitivity=1), neighboring_relation=REPLACE
    )
    again = PLDAccountant().compose(grid, count).epsilon_bounds(1e-4)
    assert again.lower <= found.upper
    assert found.lower <= again.upper <= found.upper * (1 + 1e-5)


def test_compositions_where_the_record_may_be_known():
    q, count = 0.3, 4
    p = np.append(q * cells([1], [0.5], 2.0), 1 - q)
    other = np.append(q * cells([1], [-0.5], 2.0), 1 - q)
    low, high = bracket(p, other, count, 1e-4)
    for relation in (REPLACE, SPECIAL):
        sample = PoissonSampledEvent(q, gaussian(2, relation))
        found = PLDAccountant().compose(sample, count).epsilon_bounds(1e-4)
        assert low <= found.upper <= high + 1e-3
        assert found.lower <= high
        for kind in (RDPAccountant, FDPAccountant):
            assert low <= kind().compose(sample, count).epsilon(1e-4) < 2 * high
    # Of one sample the closed formula: delta times the rate at the same epsilon.
    assert event_delta(sample, 0.1) == pytest.approx(
        q * event_delta(gaussian(2), 0.1), rel=1e-12
    )


@pytest.mark.rest
def test_subsets_of_data_with_one_record_more():
    # For a pair of laws under replacement, it is a Poisson sample at rate m/n.
    inner = gaussian(1, REPLACE)
    sample = fixed(50, 5, inner, ADD)
    same = PoissonSampledEvent(Fraction(1, 10), gaussian(1))
    for kind in (PLDAccountant, RDPAccountant):
        assert kind().compose(sample, 5).epsilon(1e-5) == kind().compose(
            same, 5
        ).epsilon(1e-5)
    # An event for one more or less is taken twice.
    twice = fixed(50, 5, gaussian(Fraction(1, 2), REPLACE))
    for relation in (ADD, REPLACE):
        assert PLDAccountant().compose(fixed(50, 5, gaussian(1), relation), 3).epsilon(
            1e-5
        ) == PLDAccountant().compose(fixed(50, 5, twice.event, relation), 3).epsilon(
            1e-5
        )


@pytest.mark.rest
def test_draws_with_replacement_compose():
    n, m, count = 20, 3, 8
    hits = stats.binom.pmf(range(m + 1), m, 1 / n)
    rate = 1 - hits[0]
    # The pair for one record more: it is known how often the record was drawn.
    p, other = [], []
    for j in range(1, m + 1):
        p.append(hits[j] / rate * cells([1], [j / 2], 1.5))
        other.append(hits[j] / rate * cells([1], [-j / 2], 1.5))
    p, other = np.concatenate(p), np.concatenate(other)
    low, high = bracket((1 - rate) * other + rate * p, other, count, 1e-4)
    inner = gaussian(Fraction(3, 2), REPLACE)
    sample = fixed(n, m, inner, ADD, again=True)
    found = PLDAccountant().compose(sample, count).epsilon_bounds(1e-4)
    assert low <= found.upper <= high + 2e-3
    assert found.upper <= (1 + 2e-3) * high
    # The mechanism sees the sum of its draws, not how often one record was drawn.
    seen = cells(hits[1:] / rate, np.arange(1, m + 1), 1.5)
    zero = cells([1], [0], 1.5)
    _, high = bracket((1 - rate) * zero + rate * seen, zero, count, 1e-4)
    assert 0 < found.lower <= high
    # One record replaced is worse, and better than both at once.
    other_way = PLDAccountant().compose(fixed(n, m, inner, again=True), count)
    assert found.lower <= other_way.epsilon(1e-4) <= 2.5 * found.upper
    for kind in (RDPAccountant, FDPAccountant):
        if kind().supports(fixed(n, m, inner, again=True)):
            assert other_way.epsilon_bounds(1e-4).lower <= kind().compose(
                fixed(n, m, inner, again=True), count
            ).epsilon(1e-4)


def test_one_reading_of_draws_is_the_theorem():
    inner = gaussian(1, REPLACE)
    sample = fixed(100, 10, inner, again=True)
    for epsilon in (0.05, 0.5, 1.5):
        found = PLDAccountant().compose(sample).delta_bounds(epsilon)
        theorem = event_delta(sample, epsilon)
        assert found.lower <= theorem * (1 + 1e-9)
        assert theorem * (1 - 1e-9) <= found.upper <= theorem * (1 + 2e-3)
