"""Data-dependent votes: smooth sensitivity by enumeration, and the release's cost."""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp.accounting import NeighboringRelation, RDPAccountant
from fastdp.accounting.calculators import (
    data_dependent_pate_divergence,
    data_dependent_pate_smooth_sensitivity,
    smooth_sensitivity_divergence,
)
from fastdp.distributions import DiscreteGaussian
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms.pate import PATEDivergence
from fastdp.testing import FixedStream


def histograms(teachers, labels):
    """Return all votes of this number of teachers."""
    if labels == 1:
        return [(teachers,)]
    return [
        (first, *rest)
        for first in range(teachers + 1)
        for rest in histograms(teachers - first, labels - 1)
    ]


def neighbors(votes):
    """Return the votes after one teacher voted otherwise."""
    for i, j in itertools.permutations(range(len(votes)), 2):
        if votes[i]:
            moved = list(votes)
            moved[i] -= 1
            moved[j] += 1
            yield tuple(moved)


@pytest.mark.parametrize(
    ("teachers", "labels", "sigma", "order", "beta"),
    [
        *[(40, 2, 2.0, 3, 0.1), (14, 3, 1.0, 2, 0.2), (9, 4, 0.6, 1.5, 0.05)],
        *[(14, 3, 1.0, 2.5, 0.01), (12, 3, 50.0, 4, 0.1)],
    ],
)
def test_smooth_sensitivity_on_all_votes(teachers, labels, sigma, order, beta):
    found = {
        votes: data_dependent_pate_smooth_sensitivity(
            votes, sigma=sigma, order=order, smoothness=beta
        )
        for votes in histograms(teachers, labels)
    }
    changed = 0.0
    for votes, here in found.items():
        assert here.divergence <= order / sigma**2 * (1 + 1e-11)
        for moved in neighbors(votes):
            there = found[moved]
            change = abs(here.divergence - there.divergence)
            assert change <= here.smooth_sensitivity
            assert here.smooth_sensitivity <= there.smooth_sensitivity * math.exp(
                beta * (1 + 1e-9)
            )
            changed = max(changed, change)
    # it is not far above the largest change there is
    largest = max(here.smooth_sensitivity for here in found.values())
    assert largest <= 2 * changed or changed == 0


@pytest.mark.parametrize(("sigma", "order"), [(2.0, 3), (1.0, 2), (5.0, 8)])
def test_the_divergence_bounds_that_of_two_labels(sigma, order):
    def wins(gap):
        return 0.5 * math.erfc(-gap / (2 * sigma))

    for gap in range(2, 41, 2):
        votes = (20 + gap // 2, 20 - gap // 2)
        claimed = data_dependent_pate_smooth_sensitivity(
            votes, sigma=sigma, order=order, smoothness=0.1
        ).divergence
        for other in (gap - 2, gap + 2):
            p, q = (wins(gap), wins(-gap)), (wins(other), wins(-other))
            total = sum(
                a**order * b ** (1 - order) for a, b in zip(p, q, strict=True) if b
            )
            assert math.log(total) / (order - 1) <= claimed * (1 + 1e-9) + 1e-15


def test_queries_add_up():
    rng = np.random.default_rng(3)
    one, two = rng.multinomial(30, [0.8, 0.1, 0.1], size=2)
    setting = {"smoothness": 0.1}
    both = data_dependent_pate_smooth_sensitivity(
        [one, two], sigma=2, order=3, **setting
    )
    parts = [
        data_dependent_pate_smooth_sensitivity(v, sigma=2, order=3, **setting)
        for v in (one, two)
    ]
    assert both.divergence == pytest.approx(sum(part.divergence for part in parts))
    sizes = [part.smooth_sensitivity for part in parts]
    assert max(sizes) <= both.smooth_sensitivity <= sum(sizes) * (1 + 1e-12)
    # clear majorities are cheap, and are so on the lattice nearly as by the theorem
    clear = data_dependent_pate_smooth_sensitivity(
        [(200, 20, 30)], sigma=20, order=8, **setting
    )
    exact = data_dependent_pate_divergence(
        (200, 20, 30), noise="gaussian", width=20, order=8
    )
    assert exact <= clear.divergence * (1 + 1e-9) < exact * 1.5


@pytest.mark.parametrize(
    ("order", "sigma", "beta"), [(2, 5, 0.05), (8, 20, 0.01), (1.5, 2, 0.2)]
)
def test_the_cost_of_noise_with_a_smooth_scale(order, sigma, beta):
    # Renyi divergence of normal laws with scales 1 and e^b, means as far apart as the
    # smaller scale allows, by a sum.
    claimed = smooth_sensitivity_divergence(order=order, sigma=sigma, smoothness=beta)
    x = np.linspace(-40 * sigma, 40 * sigma, 200_001)
    worst = 0.0
    for b in np.linspace(-beta, beta, 9).tolist():
        first, second = sigma, sigma * math.exp(b)
        shift = min(1.0, math.exp(b))
        p = -((x - shift) ** 2) / (2 * first**2) - math.log(first)
        q = -(x**2) / (2 * second**2) - math.log(second)
        mass = np.exp(order * p + (1 - order) * q) / math.sqrt(2 * math.pi)
        worst = max(worst, math.log(mass.sum() * (x[1] - x[0])) / (order - 1))
    assert worst <= claimed * (1 + 1e-9)
    assert claimed < worst * 1.2


def test_the_release_on_a_grid_costs_no_more():
    order, scale, beta = 3.0, 2, 0.05
    m = PATEDivergence(
        sigma=1, order=order, smoothness=beta, scale=scale, granularity=1
    )
    x = np.arange(-150, 151)
    for small in (0.3, 2.0):  # the smaller scale's sensitivity, in units of the grid
        wide = small * math.exp(beta)
        shift = math.floor(small) + 1
        narrow_law = DiscreteGaussian(Fraction(scale * (small + 2)))
        wide_law = DiscreteGaussian(Fraction(scale * (wide + 2)))
        for p, q in ((narrow_law, wide_law), (wide_law, narrow_law)):
            total = np.exp(order * p.logpmf(x - shift) + (1 - order) * q.logpmf(x))
            assert math.log(total.sum()) / (order - 1) <= m.divergence()


def test_releases_are_near_the_divergence():
    with pytest.warns(fastdp.exceptions.InsecureStreamWarning):
        stream = FixedStream(bytes(32))
    m = PATEDivergence(sigma=20, order=8, smoothness=0.05, scale=4)
    votes = np.array([[200, 20, 30], [90, 80, 80]] * 20)
    found = data_dependent_pate_smooth_sensitivity(
        votes, sigma=20, order=8, smoothness=0.05
    )
    drawn = [m.release(votes, stream=stream) for _ in range(400)]
    noise = 4 * found.smooth_sensitivity
    assert abs(np.mean(drawn) - found.divergence) < 5.5 * noise / 20
    assert np.std(drawn) == pytest.approx(noise, rel=0.25)
    assert all((value * 2**20).is_integer() for value in drawn)


def test_identity_and_event():
    m = PATEDivergence(sigma=20, order=8, smoothness=Fraction(1, 20), scale=4)
    assert pickle.loads(pickle.dumps(m)) == m
    event = m.event()
    assert event.neighboring_relation is NeighboringRelation.REPLACE_ONE
    assert float(event.epsilons[0]) == m.divergence()
    assert RDPAccountant().compose(event).epsilon(1e-5) > m.divergence()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": 1}, "order must be > 1"),
        ({"sigma": 0}, "sigma must be"),
        ({"smoothness": 0.1}, "smoothness must be < -ln"),
        ({"scale": 1}, "scale must be >= 2"),
        ({"scale": 2**54}, "scale must be <= 2"),
        ({"sigma": 1e-200}, "sigma must be larger"),
        ({"sigma": Fraction(1, 10**400)}, "sigma must be larger"),
        (
            {"sigma": 1, "order": 4, "smoothness": 0.02, "scale": 13.5}
            | {"granularity": 2.0**-55},
            "granularity must be >= 1.4988e-15 for this",
        ),
        (
            {"sigma": 1, "order": 4, "smoothness": 0.02, "scale": 13.5}
            | {"granularity": 2.0**1001},
            "granularity must be in",
        ),
    ],
)
def test_refusals(change, message):
    arguments = {"sigma": 20, "order": 8, "smoothness": 0.01, "scale": 4, **change}
    with pytest.raises(ParameterError, match=message):
        PATEDivergence(**arguments)


def test_votes_of_a_wrong_kind():
    with pytest.raises(DTypeError, match="votes must be integers in one dimension or"):
        data_dependent_pate_smooth_sensitivity(
            [[0.5, 1]], sigma=1, order=2, smoothness=0.1
        )
    with pytest.raises(ParameterError, match="votes must have at least one query"):
        data_dependent_pate_smooth_sensitivity([[1]], sigma=1, order=2, smoothness=0.1)
    with pytest.raises(ParameterError, match="order must be > 1"):
        data_dependent_pate_smooth_sensitivity([2, 1], sigma=1, order=1, smoothness=0.1)


def test_no_votes_raise_where_others_of_their_shape_do_not():
    # Fifty tied rows have the largest smooth sensitivity, fifty clear ones hardly any.
    # The first raised, with its sensitivity in the message.
    m = PATEDivergence(
        sigma=1, order=4, smoothness=0.02, scale=13.5, granularity=2.0**-45
    )
    tied, clear = np.full((50, 3), 5), np.array([[10**9, 0, 0]] * 50)
    messages = set()
    for votes in (tied, clear):
        with pytest.raises(ParameterError, match="granularity must be >=") as raised:
            m.release(votes)
        messages.add(str(raised.value))
    assert len(messages) == 1
    assert isinstance(m.release(tied[:1]), float)  # one query has room


@pytest.mark.parametrize("queries", [1, 50])
def test_the_finest_granularity_that_is_taken_serves_the_worst_votes(queries):
    setting = {"smoothness": 0.02, "scale": Fraction(27, 2) + Fraction(1, 3**700)}
    finest = Fraction(27, 2) * queries * 4 / 2**55 * (1 + Fraction(1, 10**6))
    m = PATEDivergence(sigma=1, order=4, granularity=finest, **setting)
    assert math.isfinite(m.release(np.zeros((queries, 3), np.int64)))
    with pytest.raises(ParameterError, match="granularity"):
        PATEDivergence(
            sigma=1, order=4, granularity=finest * (1 - Fraction(1, 10**5)), **setting
        ).release(np.zeros((queries, 3), np.int64))


@pytest.mark.parametrize(
    "votes",
    [
        np.array([[-5, 3, 2]]),
        np.array([[np.iinfo(np.int64).min, np.iinfo(np.int64).max]]),
        np.array([[2**64 - 1, 0]], np.uint64),
        np.array([[-128, 127]], np.int8),
        np.array([[10**12 + 1, 0]]),
    ],
)
def test_votes_of_any_size_are_clamped(votes):
    m = PATEDivergence(sigma=20, order=8, smoothness=0.05, scale=4)
    inside = [[min(max(int(v), 0), 10**12) for v in row] for row in votes]
    with pytest.warns(fastdp.exceptions.InsecureStreamWarning):
        first, second = FixedStream(bytes(32)), FixedStream(bytes(32))
    assert m.release(votes, stream=first) == m.release(np.array(inside), stream=second)


def test_votes_that_are_no_array_are_refused_whatever_they_hold():
    m = PATEDivergence(sigma=20, order=8, smoothness=0.05, scale=4)
    for votes in ([[1, 2]], [[2**70, 2]]):
        with pytest.raises(DTypeError, match="votes must be an ndarray, got list"):
            m.release(votes)
