"""Many different steps, whose transforms do not decay, are blurred (theorem 19)."""

import math
import random
import sys
import time
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import (
    ApproximateDPEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
)
from fastdp.accounting._atoms.bounds import log_delta_reading
from fastdp.accounting._atoms.plan import sums_of
from fastdp.accounting._pld import contour, interval_loss
from fastdp.accounting._pld.chernoff import Chernoff
from fastdp.accounting._pld.composition import Composition
from fastdp.accounting._pld.contour import Contour
from fastdp.accounting._pld.discrete_gaussian import DiscreteGaussianLoss
from fastdp.accounting._pld.listed_loss import AtomLoss

#: Response of epsilon i/1000: all losses on one lattice, whose sums are exact.
EXACT = tuple(
    (
        AtomLoss(
            Fraction(i, 1000),
            (-1, 1),
            (1 / (1 + math.exp(i / 1000)), 1 / (1 + math.exp(-i / 1000))),
        ),
        1 + i % 3,
    )
    for i in range(24, 64)
)


@pytest.fixture
def wide(monkeypatch):
    """Make blurs so wide that every charge shows."""
    monkeypatch.setattr(contour, "_TERMS", 300 * 300)
    monkeypatch.setattr(contour, "_BLURRED_TERMS", 300 * 300)


def blurred(epsilon):
    """Return the bounds of ln delta, and the exact ones."""
    composition = Composition(EXACT)
    chernoff = Chernoff(composition)
    level = chernoff.best_delta(epsilon)[1] - 1.5
    found = Contour(composition, chernoff, epsilon, level, blurred=True)
    assert found._blur > 0
    return (
        found.log_deltas(np.array([epsilon]))[0],
        log_delta_reading(EXACT, epsilon)(np.array([epsilon]))[0],
    )


@pytest.mark.parametrize("epsilon", [0.2, 0.8, 1.5, 2.2])
def test_sums_of_a_lattice_are_between_the_bounds(wide, epsilon):
    found, exact = blurred(epsilon)
    assert exact.upper - exact.lower < 1e-10
    assert found.lower < exact.lower
    assert exact.upper < found.upper
    assert found.upper - found.lower < 0.02
    # The charge is twice what a blur adds, and the estimate takes half of it off.
    third = (found.upper - found.lower) / 3
    assert found.lower + third < found.estimate < found.upper - third
    assert abs(found.estimate - exact.estimate) < third / 4


def test_a_charge_that_is_too_small_is_seen(wide, monkeypatch):
    init = Contour.__init__

    def less(self, *args, **keywords):
        init(self, *args, **keywords)
        self._excess *= 0.4

    monkeypatch.setattr(Contour, "__init__", less)
    found, exact = blurred(2.0)
    assert found.lower > exact.upper


def test_a_blur_without_its_noise_is_seen(wide, monkeypatch):
    """The nodes beyond are let go only because the noise makes them small."""

    class Nothing:
        def __init__(self, square):
            self.square = square

        def cumulants(self, t):
            return 0 * t, 0 * t

        def tilted(self, theta, count):
            return contour.GaussianLoss(0.0).tilted(theta, count)

    monkeypatch.setattr(contour, "GaussianLoss", GaussianOf(Nothing))
    found, exact = blurred(2.0)
    assert not found.lower <= exact.lower <= exact.upper <= found.upper


class GaussianOf:
    """Stands for the loss's class: the noise itself has no square."""

    def __init__(self, other):
        self.plain, self.other = contour.GaussianLoss, other

    def __call__(self, square):
        return self.other(square) if square else self.plain(square)


# ---- against atoms -----------------------------------------------------------------


def family(kind, source):
    match kind:
        case "Laplace":
            return LaplaceEvent(sensitivity=1, scale=source.uniform(5, 50))
        case "discrete Laplace":
            scale = Fraction(source.randint(3000, 30000), 599)
            return DiscreteLaplaceEvent(sensitivity=source.randint(1, 2), scale=scale)
        case "pure":
            return PureDPEvent(source.uniform(0.02, 0.2))
        case "approximate":
            return ApproximateDPEvent(epsilon=source.uniform(0.02, 0.2), delta=1e-9)
        case "discrete Gaussian":
            sigma = Fraction(source.randint(300, 900), 53)
            return DiscreteGaussianEvent(sensitivity=1, sigma=sigma, coordinates=1)
        case "response":
            p = Fraction(source.randint(5100, 6000), 10007)
            both = NeighboringRelation.ADD_OR_REMOVE_ONE
            return RandomizedResponseEvent(
                p=p, q=Fraction(2, 5), neighboring_relation=both
            )
        case _:
            inner = LaplaceEvent(sensitivity=1, scale=source.uniform(1, 4))
            return PoissonSampledEvent(0.1, inner)


FAMILIES = (
    "Laplace",
    "discrete Laplace",
    "pure",
    "approximate",
    "discrete Gaussian",
    "response",
)


@pytest.mark.rest
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 10))]
)
@pytest.mark.parametrize("kind", [*FAMILIES, "mixed"])
def test_atoms_agree(kind, seed):
    source = random.Random(f"{kind} {seed}")
    known = PLDAccountant()
    for _ in range(26):
        one = source.choice(FAMILIES) if kind == "mixed" else kind
        known.compose(family(one, source), source.randint(1, 3))
    side = known._snapshot()[0].removal.upper
    assert side._many
    level = math.log(10 ** -source.uniform(3, 12))
    found = side.epsilon((level, level))
    assert found.method == "contour"
    assert found.upper - found.lower <= 1e-4 * found.upper
    second = log_delta_reading(side.composition.steps, found.estimate)(
        np.array([found.estimate])
    )[0]
    at = side.log_delta(found.estimate)
    assert max(second.lower, at.lower) <= min(second.upper, at.upper)


def test_few_lattices_are_summed_exactly():
    assert sums_of(EXACT, 20) == 1
    known = PLDAccountant()
    for i in range(40):
        known.compose(PureDPEvent(Fraction(24 + i, 1000)))
    bounds = known.epsilon_bounds(1e-6)
    assert bounds.upper - bounds.lower <= 1e-11 * bounds.upper


def test_units_are_joined_as_their_multiples():
    source = random.Random(4)
    for _ in range(200):
        units = [
            Fraction(source.randint(1, 40), source.randint(1, 40)) for _ in range(2)
        ]
        a, b = units
        scale = math.lcm(a.denominator, b.denominator)
        both = Fraction(math.gcd(int(a * scale), int(b * scale)), scale)
        steps = [(AtomLoss(unit, (-1, 1), (0.4, 0.6)), 1) for unit in units]
        assert sums_of(steps, 9) == (1 if max(a, b) <= 64 * both else 2)


# ---- wide discrete Gaussian noise beyond its first repetition -----------------------


@pytest.mark.parametrize("variance", [16, Fraction(413, 13)])
@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("theta", [0.3, 7.25])
def test_wide_noise_beyond_a_period(variance, shift, theta):
    law = DiscreteGaussianLoss(shift, Fraction(variance)).tilted(theta, 1)
    value, error = law.centered(2.5, 400 // shift)
    assert 2.5 * (400 // shift) > 2.5 * law._period
    mp.mp.dps = 60
    v, unit = mp.mpf(float(variance)), shift / mp.mpf(float(2 * variance))
    place = shift * (1 + mp.mpf(theta))
    xs = range(int(place) - 90, int(place) + 91)
    weights = [mp.exp(-((x - place) ** 2) / (2 * v)) for x in xs]
    whole = mp.fsum(weights)
    for j in range(3, 400 // shift, 29):
        y = mp.mpf(2.5) * (j + 1)
        terms = [
            w * mp.expj(y * (unit * (2 * x - shift) - mp.mpf(law.mean)))
            for x, w in zip(xs, weights, strict=True)
        ]
        true = complex(mp.fsum(terms) / whole - 1)
        assert abs(true - value[j]) <= error[j] + 1e-16
        assert error[j] < 1e-10


# ---- reading after each event -----------------------------------------------------


@pytest.mark.rest
def test_one_more_event_is_added_to_what_is_known(monkeypatch):
    known, source = PLDAccountant(), random.Random(2)
    events = [family("Laplace", source) for _ in range(28)]
    for each in events[:22]:
        known.compose(each)
    known.epsilon(1e-6)
    centered, rows = interval_loss.LaplaceLaws.centered, []

    def counted(self, y):
        rows.append(self.mean.size)
        return centered(self, y)

    monkeypatch.setattr(interval_loss.LaplaceLaws, "centered", counted)
    renewed = 0
    for i in range(22, 28):
        rows.clear()
        known.compose(events[i])
        ours = known.epsilon_bounds(1e-6)
        renewed += max(rows) > 2
        assert ours.upper - ours.lower <= 1e-6 * ours.upper
    assert renewed <= 1
    fresh = PLDAccountant()
    for each in events:
        fresh.compose(each)
    other = fresh.epsilon_bounds(1e-6)
    assert max(ours.lower, other.lower) <= min(ours.upper, other.upper)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAMILIES)
def test_a_thousand_different_events_take_less_than_a_second(kind):
    source = random.Random(1)
    events = [family(kind, source) for _ in range(1000)]
    start = time.process_time()
    known = PLDAccountant()
    for each in events:
        known.compose(each)
    bounds = known.epsilon_bounds(1e-6)
    assert bounds.upper - bounds.lower <= 1e-3 * bounds.upper
    assert time.process_time() - start < 4, sys.version


@pytest.mark.rest
def test_many_selections():
    """A law that is not attained above, and one that is below."""
    known = PLDAccountant()
    for i in range(100):
        known.compose(ExponentialMechanismEvent(Fraction(1, 50) + Fraction(i, 10**6)))
    bounds = known.epsilon_bounds(1e-6)
    assert 0.9 * bounds.upper < bounds.lower <= bounds.upper < 0.5
