"""Renyi curve of Gaussian noise on subsets: exact integrals, attacks, and others."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from fastdp.accounting import (
    GaussianEvent,
    GDPEvent,
    NeighboringRelation,
    RDPAccountant,
    SampledWithoutReplacementEvent,
    renyi_divergence,
)
from fastdp.accounting._pld.sampled_loss import SampledGaussianLoss
from fastdp.accounting._pld.subset_loss import SubsetGaussianLoss
from fastdp.accounting._renyi.curves import ConcentratedCurve
from fastdp.accounting._renyi.sampled import SubsetCurve
from fastdp.accounting._renyi.subset_gaussian import SubsetGaussianCurve

REPLACE = NeighboringRelation.REPLACE_ONE


def exact_moment(c, q, t):
    """Return K(t) of the pair whose profile subsets have, at 20 digits."""
    c, q, t = mp.mpf(c), mp.mpf(q), mp.mpf(t)

    def term(y):
        r = 1 - q + q * mp.exp(c * y - c * c / 2)
        return mp.npdf(y) * (r**t - 1) * (r - r**-t)

    top = (1 + t) * c + 14
    places = [c / 2 + (top - c / 2) * i / 12 for i in range(13)]
    return mp.log1p(mp.quad(term, places))


@pytest.mark.parametrize(
    ("c", "q", "t"),
    [
        *itertools.product([0.25, 1, 3], [0.01, 0.4], [0.5, 4]),
        *[(1, 1e-6, 3), (0.05, 1e-3, 300), (1e-3, 0.01, 1e4)],
    ],
)
def test_never_below_the_integral_and_next_to_it(c, q, t):
    curve = SubsetGaussianCurve(Fraction(c), Fraction(q))
    found = float(curve.log_moment(np.array([t]))[0])
    with mp.workdps(20):
        true = exact_moment(c, q, t)
        assert true <= found <= true * (1 + mp.mpf(10) ** -11)


@pytest.mark.rest
@pytest.mark.parametrize(("c", "q"), [(1, 0.01), (3, 1e-6)])
def test_orders_of_the_loss_share_their_nodes(monkeypatch, c, q):
    asked = []
    whole = SampledGaussianLoss.log_ratio

    def counted(self, x):
        asked.append(x.size)
        return whole(self, x)

    monkeypatch.setattr(SampledGaussianLoss, "log_ratio", counted)
    both = [SampledGaussianLoss(q, 1 / c, removal) for removal in (True, False)]
    orders = np.exp2(np.arange(-18, 31) / 6)
    value, error = SubsetGaussianLoss(*both).cumulants(orders)
    assert len(asked) <= 5
    for i in (7, 40):
        with mp.workdps(20):
            true = exact_moment(c, q, float(orders[i]))
            assert abs(true - float(value[i])) <= float(error[i])
        assert error[i] <= 1e-9 * value[i]


@pytest.mark.parametrize("c", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("q", [0.05, 0.5])
def test_both_mixtures_stay_below(c, q):
    # Values of the others between 0 and 1, the record's from 0 to 1: two normal
    # mixtures, whose divergence at order 1 + t the curve bounds, in both orders.
    y = np.linspace(-14, 14 + 4 * c, 60_001)
    step = y[1] - y[0]
    for others, t in itertools.product([0.0, 0.5, 1.0], [0.5, 2.0]):
        base, low, high = (
            np.exp(-((y - c * m) ** 2) / 2) / math.sqrt(2 * math.pi)
            for m in (others, 0.0, 1.0)
        )
        p, r = (1 - q) * base + q * high, (1 - q) * base + q * low
        curve = SubsetGaussianCurve(Fraction(c), Fraction(q))
        claimed = float(curve.log_moment(np.array([t]))[0])
        for first, second in ((p, r), (r, p)):
            ratio = np.log(first + 1e-300) - np.log(second + 1e-300)
            true = math.log(float(np.sum(first * np.exp(t * ratio))) * step)
            assert true <= claimed * (1 + 1e-9) + 1e-12


def test_far_below_the_bound_for_any_mechanism():
    gaps = np.array([1.0, 3.0, 10.0])
    for c, q in [(0.4, 0.01), (1.0, 0.1)]:
        inner = ConcentratedCurve(Fraction(c) ** 2 / 2, symmetric=True)
        general = SubsetCurve(inner, Fraction(q)).log_moment(gaps)
        own = SubsetGaussianCurve(Fraction(c), Fraction(q)).log_moment(gaps)
        assert np.all(own < general)
        assert np.all(own <= inner.log_moment(gaps))


def test_events_take_it():
    noise = GaussianEvent(sensitivity=2, sigma=3, neighboring_relation=REPLACE)
    event = SampledWithoutReplacementEvent(
        source_dataset_size=1000, sample_size=10, event=noise
    )
    curve = SubsetGaussianCurve(Fraction(2, 3), Fraction(1, 100))
    expected = curve.log_moment(np.array([3.0]))[0] / 3
    assert float(renyi_divergence(event, [4])[0]) == pytest.approx(expected, rel=1e-12)
    same = SampledWithoutReplacementEvent(
        source_dataset_size=1000,
        sample_size=10,
        event=GDPEvent(Fraction(2, 3), neighboring_relation=REPLACE),
    )
    assert RDPAccountant().compose(same, 100).epsilon(1e-6) == pytest.approx(
        RDPAccountant().compose(event, 100).epsilon(1e-6), rel=1e-12
    )


def test_too_little_noise_is_bounded_without_sampling():
    curve = SubsetGaussianCurve(Fraction(40), Fraction(1, 2))
    assert float(curve.log_moment(np.array([1.0]))[0]) == pytest.approx(1600.0)
