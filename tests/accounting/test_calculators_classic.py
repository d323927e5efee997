"""Classic algorithms and shuffled histograms."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

import fastdp
from fastdp.accounting import (
    ApproximateAccountant,
    LaplaceEvent,
    NeighboringRelation,
)
from fastdp.accounting.amplification import shuffled_delta
from fastdp.accounting.calculators import (
    exponential_mechanism_erm,
    exponential_mechanism_error,
    propose_test_release,
    shuffle_histogram,
    subsample_and_aggregate,
)
from fastdp.distributions import DiscreteLaplace
from fastdp.exceptions import DTypeError, ParameterError

# ---- classic algorithms ------------------------------------------------------------


def test_propose_test_release():
    plan = propose_test_release(
        test_epsilon=0.5, test_delta=1e-6, release_epsilon=1, release_delta=1e-9
    )
    assert plan.event.epsilon == Fraction(3, 2)
    assert plan.event.delta == Fraction(1e-6)
    # the bound for a distance of 0 is test_delta: integer noise may meet it
    passes = math.exp(-0.5 * plan.threshold) / (1 + math.exp(-0.5))
    assert 1e-6 * (1 - 1e-12) <= passes <= 1e-6
    far = plan.distance_for(0.99)
    missed = math.exp(-0.5 * (far - plan.threshold)) / (1 + math.exp(-0.5))
    assert missed == pytest.approx(0.01)
    assert ApproximateAccountant().compose(plan.event).delta(1.5) == pytest.approx(1e-6)
    with pytest.raises(ParameterError, match="test_delta must be < 1/2"):
        propose_test_release(test_epsilon=1, test_delta=0.5, release_epsilon=1)
    with pytest.raises(ParameterError, match="probability must be >= 1/2"):
        plan.distance_for(0.4)


@pytest.mark.parametrize("test_epsilon", [0.01, 0.5, 1, 5, 40])
@pytest.mark.parametrize("test_delta", [0.4999999, 0.01, 1.531e-7, 1e-300])
def test_no_noise_passes_at_distance_0_more_often_than_stated(test_epsilon, test_delta):
    plan = propose_test_release(
        test_epsilon=test_epsilon, test_delta=test_delta, release_epsilon=1
    )
    with mp.workdps(60):
        e, t = mp.mpf(test_epsilon), mp.mpf(plan.threshold)
        assert mp.exp(-e * t) / 2 <= mp.mpf(test_delta)  # continuous noise
        for bits in (0, 1, 2, 5, 20, 40):  # discrete noise on a grid of step 2^-bits
            step = mp.mpf(2) ** -bits
            least = mp.floor(t / step) + 1  # the first multiple that exceeds
            passes = mp.exp(-e * step * least) / (1 + mp.exp(-e * step))
            assert passes <= mp.mpf(test_delta)
            # from distance_for on it passes as often as stated
            lost = mp.ceil((mp.ceil(plan.distance_for(0.9)) - t) / step)
            missed = mp.exp(-e * step * lost) / (1 + mp.exp(-e * step))
            assert missed <= 1 - mp.mpf(0.9)


@pytest.mark.parametrize("test_epsilon", [1, 5])
def test_the_test_at_distance_0_with_integer_noise(test_epsilon):
    # The continuous law's threshold passed up to 1.98 times as often.
    plan = propose_test_release(
        test_epsilon=test_epsilon, test_delta=1.531e-7, release_epsilon=1
    )
    law = DiscreteLaplace(Fraction(1, test_epsilon))
    assert law.sf(math.floor(plan.threshold)) <= 1.531e-7
    assert law.sf(math.floor(plan.threshold) - 1) > 1.531e-7  # the least that will do


def test_extremes_of_propose_test_release():
    tiny = propose_test_release(
        test_epsilon=1, test_delta=Fraction(1, 10**600), release_epsilon=1
    )
    assert tiny.threshold == pytest.approx(600 * math.log(10), rel=1e-3)
    wide = propose_test_release(
        test_epsilon=Fraction(10**400), test_delta=1e-6, release_epsilon=1
    )
    assert wide.threshold >= 0


def test_attack_on_propose_test_release():
    # Two neighbors at distances 0 and 1, a statistic that moves by the whole bound.
    plan = propose_test_release(test_epsilon=1, test_delta=1e-3, release_epsilon=0.5)
    x = math.exp(float(plan.event.epsilon))

    def passes(distance):
        gap = plan.threshold - distance
        return math.exp(-gap) / 2 if gap > 0 else 1 - math.exp(gap) / 2

    for near, far in itertools.product([0, 1, 4, 7, 12], repeat=2):
        if abs(near - far) > 1:
            continue
        moved = 1.0 if max(near, far) > 0 else 1e9  # both at 0: any statistic
        # hockey stick of Laplace(2) releases, and of refusing
        inner = math.log(x * passes(far) / passes(near))
        stick = passes(near) * max(0.0, 1 - math.exp((inner - 0.5 * moved) / 2))
        if moved > 1:
            stick = passes(near)
        refuse = max(0.0, (1 - passes(near)) - x * (1 - passes(far)))
        assert stick + refuse <= float(plan.event.delta) * (1 + 1e-9)


def test_subsample_and_aggregate():
    plan = subsample_and_aggregate(blocks=20, low=-1, high=3, epsilon=0.5, copies=2)
    assert plan.sensitivity == Fraction(2, 5)
    assert plan.scale == Fraction(4, 5)
    assert plan.event == LaplaceEvent(sensitivity=Fraction(2, 5), scale=Fraction(4, 5))
    with pytest.raises(ParameterError, match="low must be < high"):
        subsample_and_aggregate(blocks=20, low=1, high=1, epsilon=0.5, copies=1)
    with pytest.raises(ParameterError, match="copies must be in"):
        subsample_and_aggregate(blocks=20, low=0, high=1, epsilon=0.5, copies=21)


@pytest.mark.parametrize("losses", [(0, 3, 9, 10), (0, 0, 1), (5, 5, 5, 0, 10, 2)])
def test_exponential_mechanism_excess(losses):
    # the law enumerated: mean losses out of 10 records, each loss in [0, 1]
    n, epsilon = 10, 2.0
    for failure in [0.5, 0.05, 1e-3]:
        plan = exponential_mechanism_erm(
            models=len(losses),
            records=n,
            loss_range=1,
            epsilon=epsilon,
            failure=failure,
        )
        weights = [math.exp(-epsilon * loss / 2) for loss in losses]
        bad = sum(
            w
            for w, loss in zip(weights, losses, strict=True)
            if (loss - min(losses)) / n > plan.excess_loss
        )
        assert bad / sum(weights) <= failure
    assert plan.event.neighboring_relation is NeighboringRelation.REPLACE_ONE
    assert plan.event.epsilon == 2


# ---- shuffled histograms ------------------------------------------------------------


@pytest.mark.parametrize(("k", "n"), [(2, 3000), (8, 60)])
def test_shuffle_histogram(k, n):
    plan = shuffle_histogram(categories=k, clients=n, epsilon=0.75, delta=1e-6)
    assert plan.epsilon <= 0.75
    assert (
        shuffled_delta(
            local_epsilon=plan.local_epsilon, clients=n, epsilon=0.75, categories=k
        )
        <= 1e-6
    )
    p = math.exp(plan.local_epsilon) / (math.exp(plan.local_epsilon) + k - 1)
    q = (1 - p) / (k - 1)
    error = math.sqrt(n * q * (1 - q)) / (p - q)
    assert plan.standard_error == pytest.approx(error)
    assert plan.standard_error < plan.local_only_error
    assert plan.event(points=4).neighboring_relation is NeighboringRelation.REPLACE_ONE


def test_how_far_the_exponential_mechanism_is_off():
    setting = {"candidates": 100, "sensitivity": 1, "epsilon": 0.5, "failure": 0.01}
    error = exponential_mechanism_error(**setting)
    assert round(error.bound, 2) == 36.84
    assert error.mean == pytest.approx(4 * (math.log(100) + 1))
    half = exponential_mechanism_error(**setting, monotonic=True)
    assert (half.bound, half.mean) == (error.bound / 2, error.mean / 2)
    # the worst scores: one best, all others as far below it as the bound
    m = fastdp.ExponentialMechanism(0.5, sensitivity=1)
    scores = np.zeros(100)
    scores[0] = error.bound
    assert m.pmf(scores)[1:].sum() < 0.01
    for below in np.linspace(0, 40, 81):
        scores[0] = below
        assert below * m.pmf(scores)[1:].sum() <= error.mean
    for wrong, kind in (
        ({"failure": 0}, ParameterError),
        ({"monotonic": 1}, DTypeError),
    ):
        with pytest.raises(kind, match=next(iter(wrong))):
            exponential_mechanism_error(**{**setting, **wrong})
