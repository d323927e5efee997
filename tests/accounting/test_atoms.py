"""Atoms in cells: mass, order and rounding as invariants, planted errors, and truths.

A wrong split often only widens a bracket, which no truth shows. So what theorem 17 asks
for is tested for itself: P- and Q-mass are kept, split laws lie above and merged ones
below the exact sums at every epsilon, and brackets narrow with the square of the cells.
"""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
    SampledWithoutReplacementEvent,
)
from fastdp.accounting._atoms import law as laws
from fastdp.accounting._atoms import plan
from fastdp.accounting._atoms.bounds import Aim, epsilon_bounds, log_delta_reading
from fastdp.accounting._atoms.law import Law, Reading, convolve, law_of_cells, sums

REPLACE = NeighboringRelation.REPLACE_ONE


def random_law(rng, scale=None):
    size = int(rng.integers(3, 60))
    scale = 10 ** rng.uniform(-9, 1) if scale is None else scale
    loss = np.unique(rng.normal(0, scale, size))
    mass = rng.random(loss.size) * 10.0 ** rng.uniform(-30, 0, loss.size)
    return Law(loss, mass / mass.sum())


def exact_sums(a, b):
    loss = (a.loss[:, None] + b.loss).ravel()
    return loss, (a.mass[:, None] * b.mass).ravel()


def exact_delta(loss, mass, epsilon):
    over = loss > epsilon
    terms = mass[over] * -np.expm1(epsilon - loss[over])
    return math.fsum(terms.tolist())


def masses(loss, mass):
    """Return P-mass and the P-integral of expm1(-loss), which is Q-mass less P-mass."""
    return math.fsum(mass.tolist()), math.fsum((mass * np.expm1(-loss)).tolist())


def random_sum(seed):
    rng = np.random.default_rng(seed)
    a, b = random_law(rng), random_law(rng)
    loss, mass = exact_sums(a, b)
    edges = np.sort(rng.uniform(loss.min(), loss.max(), int(rng.integers(2, 40))))
    return rng, a, b, loss, mass, edges


def broken_invariants(seed):
    """Return which of the invariants a random sum in cells does not meet."""
    rng, a, b, loss, mass, edges = random_sum(seed)
    p, q = masses(loss, mass)
    size = math.fsum((mass * np.abs(np.expm1(-loss))).tolist())
    bad = set()
    for upper in (True, False):
        found = convolve(a, b, edges, upper)
        one, other = masses(found.loss, found.mass)
        if abs(one / p - 1) > 1e-14:
            bad.add("P-mass")
        # Rounding outward moves Q-mass a little, and in wide cells more of it.
        if loss.max() - loss.min() < 3 and abs(other - q) > 1e-10 * size:
            bad.add("Q-mass")
        if np.any(np.diff(found.loss) <= 0):
            bad.add("order of losses")
        for epsilon in rng.uniform(loss.min(), loss.max(), 20):
            truth = exact_delta(loss, mass, epsilon)
            value = float(Reading([found], upper).at(np.array([epsilon]))[0])
            if upper and value < truth * (1 - 1e-13):
                bad.add("below the truth")
            if not upper and value > truth * (1 + 1e-13):
                bad.add("above the truth")
    return bad


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_cells_keep_both_masses_and_the_order(start):
    for seed in range(start, start + 50):
        assert broken_invariants(seed) == set()


def test_a_sum_of_two_laws_is_read_without_forming_it():
    for seed in range(50):
        rng, a, b, loss, mass, _ = random_sum(seed)
        listed = [sums(a, b, upper) for upper in (True, False)]
        for epsilon in rng.uniform(loss.min(), loss.max(), 10):
            place = np.array([epsilon])
            truth = exact_delta(loss, mass, epsilon)
            high, low = (
                float(Reading([a, b], up).at(place)[0]) for up in (True, False)
            )
            assert low <= truth * (1 + 1e-13)
            assert high >= truth * (1 - 1e-13)
            assert high - low <= 1e-9 * high + 1e-300
            above, below = (
                float(Reading([one], up).at(place)[0])
                for one, up in zip(listed, (True, False), strict=True)
            )
            assert below <= truth * (1 + 1e-13) <= above * (1 + 2e-13)


def test_small_losses_keep_their_digits_beside_large_ones():
    a = Law(np.array([-1e-14, 1e-14, 3.0]), np.array([0.4, 0.5, 0.1]))
    edges = np.array([-3e-14, 0.0, 3e-14, 1.0, 6.5])
    for upper in (True, False):
        found = convolve(a, a, edges, upper)
        near = found.loss[np.abs(found.loss) < 1e-12]
        assert near.size >= 2
        loss, mass = exact_sums(a, a)
        value = float(Reading([found], upper).at(np.array([1e-14]))[0])
        truth = exact_delta(loss, mass, 1e-14)
        assert value == pytest.approx(truth, rel=0.2)


def test_lost_mass_adds_up_and_lower_laws_lose_nothing():
    a = Law(np.array([0.0, 1.0]), np.array([0.5, 0.5]), 1e-20)
    found = convolve(a, a, np.array([0.0, 1.0, 2.0]), True)
    assert 2e-20 <= found.lost <= 2.001e-20
    assert float(Reading([found], True).at(np.array([5.0]))[0]) >= 2e-20
    assert convolve(a, a, np.array([0.0, 1.0, 2.0]), False).lost == 0


# ---- planted errors: each breaks an invariant ------------------------------------


def planted(change):
    """Return law_of_cells with a change of what it returns."""

    def wrong(edges, p, d, upper, slack):
        return change(edges, p, d, upper, slack, law_of_cells)

    return wrong


def all_to_the_lower_end(edges, p, d, upper, slack, right):
    return right(edges, p, 0 * d if upper else d, upper, slack)


def all_to_the_upper_end(edges, p, d, upper, slack, right):
    if not upper:
        return right(edges, p, d, upper, slack)
    return right(edges, p, p * np.expm1(edges[:-1] - edges[1:]), upper, slack)


def shares_by_length(edges, p, d, upper, slack, right):
    if not upper:
        return right(edges, p, d, upper, slack)
    center = -np.log1p(np.divide(d, p, out=np.zeros_like(p), where=p > 0))
    share = np.clip(center / np.diff(edges), 0, 1)
    return right(edges, p, p * share * np.expm1(-np.diff(edges)), upper, slack)


def merged_to_the_left(edges, p, d, upper, slack, right):
    return right(edges, p, d if upper else 0 * d, upper, slack)


def merged_to_the_right(edges, p, d, upper, slack, right):
    if upper:
        return right(edges, p, d, upper, slack)
    return right(edges, p, p * np.expm1(edges[:-1] - edges[1:]), upper, slack)


def some_mass_dropped(edges, p, d, upper, slack, right):
    return right(edges, p * (1 - 1e-9), d * (1 - 1e-9), upper, slack)


@pytest.mark.parametrize(
    "change",
    [
        all_to_the_lower_end,
        all_to_the_upper_end,
        shares_by_length,
        merged_to_the_left,
        merged_to_the_right,
        some_mass_dropped,
    ],
)
def test_a_planted_error_breaks_an_invariant(monkeypatch, change):
    monkeypatch.setattr(laws, "law_of_cells", planted(change))
    assert any(broken_invariants(seed) for seed in range(20))


def test_a_payoff_that_is_a_step_is_seen(monkeypatch):
    rng, a, b, loss, mass, _ = random_sum(3)
    monkeypatch.setattr(laws.np, "expm1", lambda x: -1.0 * (np.asarray(x) < 0))
    epsilon = float(np.median(loss))
    found = float(Reading([a, b], False).at(np.array([epsilon]))[0])
    monkeypatch.undo()
    assert found > exact_delta(loss, mass, epsilon) * (1 + 1e-9)
    assert rng


# ---- the plan: any cells are valid, good ones are narrow -------------------------


def steps_of(*events):
    accountant = PLDAccountant()
    for event, count in events:
        accountant.compose(event, count)
    return accountant._snapshot()[0].removal.upper.composition.steps


def bounds_of(delta, *events, effort=1.0):
    level = math.log(delta)
    return epsilon_bounds(steps_of(*events), (level, level), Aim(effort=effort))


def sampled(q, sigma):
    return PoissonSampledEvent(q, GaussianEvent(sensitivity=1, sigma=sigma))


def laplace(scale):
    return LaplaceEvent(sensitivity=1, scale=scale)


def test_brackets_narrow_with_the_square_of_the_cells():
    events = [(sampled(3.2184e-6, 0.46926), 4432)]
    widths = []
    for effort in (1, 4):
        found = bounds_of(2.0314e-4, *events, effort=effort)
        widths.append(found.upper - found.lower)
    assert widths[1] < widths[0] / 2.5


@pytest.mark.parametrize("seed", range(5))
def test_cells_at_random_places_are_as_valid(monkeypatch, seed):
    rng = np.random.default_rng(seed)

    def anywhere(x, mass, cost, cells):
        if x.size < 3:
            return x
        inner = rng.uniform(x[0], x[-1], cells)
        return np.unique(np.concatenate([x[[0, -1]], inner]))

    events = [(sampled(0.02, 1.0), 60), (PureDPEvent(Fraction(1, 7)), 3)]
    truth = PLDAccountant().compose(*events[0]).compose(*events[1]).epsilon_bounds(1e-6)
    monkeypatch.setattr(plan, "spread", anywhere)
    found = bounds_of(1e-6, *events)
    assert found.lower <= truth.upper
    assert found.upper >= truth.lower


# ---- truths ----------------------------------------------------------------------

#: Rare sampling, from contours in 60 digits (`effort=10`), and from direct sums.
DEEP = [
    ((1.4071e-4, 0.77348, 107), 3.27e-14, 1.02198379382),
    ((4.2682e-4, 1.6822, 26), 3.5e-36, 0.468371246413),
    ((3.51e-4, 2.348, 1809), 7.1e-78, 0.684444524355),
]


@pytest.mark.parametrize(("step", "delta", "truth"), DEEP)
def test_rare_sampling_far_below_chernoffs_bound(step, delta, truth):
    q, sigma, count = step
    found = PLDAccountant().compose(sampled(q, sigma), count).epsilon_bounds(delta)
    assert found.lower <= truth * (1 + 1e-11)
    assert found.upper >= truth * (1 - 1e-11)
    assert found.upper - found.lower < 2e-4 * truth


@pytest.mark.slow
@pytest.mark.parametrize(("step", "delta", "truth"), DEEP[:1])
def test_effort_asks_for_every_method(step, delta, truth):
    q, sigma, count = step
    accountant = PLDAccountant().compose(sampled(q, sigma), count)
    found = accountant.epsilon_bounds(delta, effort=10)
    assert found.lower == pytest.approx(truth, rel=1e-11)
    assert found.upper - found.lower < 1e-10 * truth
    assert found.certificate == "contour"


def power(losses, masses_, count):
    """Return the law of a sum by exact rational arithmetic."""
    law = {0: Fraction(1)}
    for _ in range(count):
        new = {}
        for l0, p0 in law.items():
            for l1, p1 in zip(losses, masses_, strict=True):
                new[l0 + l1] = new.get(l0 + l1, Fraction(0)) + p0 * p1
        law = new
    return law


def test_lattices_at_deltas_below_chernoffs_reach():
    # The lower bounds were 0: no contour and no grid reaches such a delta.
    laplace = PLDAccountant().compose(
        DiscreteLaplaceEvent(sensitivity=5, scale=3.323), 160
    )
    found = laplace.epsilon_bounds(1.48e-114)
    assert 240.74631 < found.lower <= found.upper < 240.74632
    assert found.upper - found.lower < 1e-9
    gauss = PLDAccountant().compose(
        DiscreteGaussianEvent(sensitivity=1, sigma=0.1289, coordinates=1), 3
    )
    found = gauss.epsilon_bounds(1e-300)
    assert 571.765 < found.lower <= found.upper < 571.766
    assert found.upper - found.lower < 1e-6


def test_a_lattice_beside_exact_rationals():
    rate, count = Fraction(1, 3), 12
    event = DiscreteLaplaceEvent(sensitivity=2, scale=1 / rate)
    low = math.exp(-1 / 3)
    whole = 1 / (1 + low)
    noise = [whole * low**2, (1 - low) * whole * low, whole]  # losses -2, 0, 2 thirds
    law = power(range(-1, 2), [Fraction(x) for x in noise], count)
    found = log_delta_reading(steps_of((event, count)), 3.0)(np.array([3.0]))[0]
    scale = float(2 * rate)
    terms = [
        float(mass) * -math.expm1(3.0 - scale * place)
        for place, mass in law.items()
        if scale * place > 3
    ]
    truth = math.log(math.fsum(terms))
    assert found.lower <= truth + 1e-12
    assert found.upper >= truth - 1e-12
    assert found.upper - found.lower < 1e-10


SUBSET = SampledWithoutReplacementEvent(
    source_dataset_size=50,
    sample_size=5,
    event=GaussianEvent(sensitivity=1, sigma=1, neighboring_relation=REPLACE),
)
LATTICE = DiscreteGaussianEvent(sensitivity=1, sigma=2, coordinates=1)
MIXES = [
    [(sampled(0.01, 1.0), 200)],
    [(sampled(0.3, 2.0), 12), (GaussianEvent(sensitivity=1, sigma=3), 2)],
    [(laplace(3), 7), (GaussianEvent(sensitivity=1, sigma=2), 1)],
    [(PureDPEvent(Fraction(1, 3)), 9), (GaussianEvent(sensitivity=1, sigma=4), 3)],
    [(PoissonSampledEvent(0.1, laplace(1)), 20)],
    [(PoissonSampledEvent(0.2, LATTICE), 9)],
    [(SUBSET, 6)],
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("events", MIXES, ids=lambda e: str(len(e)))
def test_atoms_and_the_other_methods_meet(events, seed):
    rng = random.Random(seed)
    delta = 10 ** -rng.uniform(2, 14)
    accountant = PLDAccountant()
    for event, count in events:
        accountant.compose(event, count)
    known = accountant.epsilon_bounds(delta)
    state, level = accountant._snapshot()[0], math.log(delta)
    found = [
        epsilon_bounds(side.upper.composition.steps, (level, level))
        for side in (state.removal, state.addition)
    ]
    assert max(one.upper for one in found) >= known.lower * (1 - 1e-9)
    assert max(one.lower for one in found) <= known.upper * (1 + 1e-9)
    widest = max(one.upper - one.lower for one in found)
    assert widest < 2e-2 * max(one.upper for one in found)


def test_readings_at_an_epsilon_and_at_a_delta_agree():
    steps = steps_of((sampled(1e-5, 0.5), 1000))
    level = math.log(1e-6)
    place = epsilon_bounds(steps, (level, level))
    low, high = (
        log_delta_reading(steps, e)(np.array([e]))[0]
        for e in (place.lower, place.upper)
    )
    assert low.upper >= level
    assert high.lower <= level
    assert low.upper - low.lower < 1e-3
