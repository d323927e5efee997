"""Shuffled randomized response: its law, its guarantee, its estimates."""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp.accounting.amplification import shuffled_epsilon
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.testing import FixedStream

KEY = bytes(range(32))


@pytest.fixture
def stream():
    with pytest.warns(fastdp.exceptions.InsecureStreamWarning):
        return FixedStream(KEY)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (3, 1e-4)])
def test_a_central_target_is_met(k, epsilon, delta):
    m = fastdp.ShuffledResponse.from_epsilon_delta(
        epsilon=epsilon, delta=delta, clients=50, categories=k
    )
    assert m.epsilon(delta=delta) <= epsilon
    assert m.delta(epsilon) <= delta
    assert m.epsilon() == m.local.epsilon() >= epsilon
    # next to the most truthful one: a little more truth would exceed the target
    bolder = fastdp.ShuffledResponse(
        1 - (1 - m.p) * Fraction(99, 100), clients=50, categories=k
    )
    assert bolder.epsilon(delta=delta) > epsilon
    with_more = fastdp.ShuffledResponse(m.p, clients=500, categories=k)
    assert with_more.epsilon(delta=delta) < m.epsilon(delta=delta)


def test_the_guarantee_is_that_of_shuffled_reports():
    m = fastdp.ShuffledResponse(0.75, clients=50, categories=3)
    local = math.log(0.75 / 0.125)
    assert m.local == fastdp.RandomizedResponse(0.75, categories=3)
    expected = shuffled_epsilon(
        local_epsilon=local, clients=50, delta=1e-6, categories=3
    )
    assert m.epsilon(delta=1e-6) == pytest.approx(expected, rel=1e-7)


def test_cheu_et_al():
    # One bit each; with probability l/n it is a fair coin: p = 1 - l/(2 n), and the
    # error of a count is about sqrt(l/4), whatever n is.
    for n in [10**4, 10**6]:
        m = fastdp.ShuffledResponse.from_epsilon_delta(epsilon=1, delta=1e-6, clients=n)
        coins = 2 * (1 - m.p) * n
        assert 20 < coins < 14 * math.log(4 / 1e-6) * 2  # their lambda is larger
        error = m.local.standard_error(n)
        assert error == pytest.approx(math.sqrt(float(coins) / 2), rel=0.05)


def test_reports_are_those_of_the_local_mechanism_in_another_order(stream):
    m = fastdp.ShuffledResponse(0.9, clients=500, categories=4)
    values = np.arange(500) % 4
    shuffled = m.release(values, stream=stream)
    with pytest.warns(fastdp.exceptions.InsecureStreamWarning):
        same = FixedStream(KEY)
    plain = m.local.release(values, stream=same)
    order = fastdp.random.permutation(500, stream=same)
    assert np.array_equal(shuffled, plain[order])
    assert not np.array_equal(shuffled, plain)
    assert shuffled.dtype == m.local.report_dtype


def test_every_order_is_alike(stream):
    # p next to 1: reports are the values; all 24 orders of four, 4,800 releases
    m = fastdp.ShuffledResponse(1 - Fraction(1, 2**60), clients=4, categories=4)
    seen = dict.fromkeys(itertools.permutations(range(4)), 0)
    for _ in range(4800):
        seen[tuple(m.release(np.arange(4), stream=stream).tolist())] += 1
    chi_square = sum((count - 200) ** 2 / 200 for count in seen.values())
    assert chi_square < 75  # 23 degrees of freedom: 1e-7


def test_estimates_are_unbiased_and_intervals_hold(stream):
    m = fastdp.ShuffledResponse.from_epsilon_delta(
        epsilon=1, delta=1e-6, clients=200, categories=3
    )
    values = np.repeat([0, 1, 2], [1200, 600, 200])
    rng = np.random.default_rng(1)
    rng.shuffle(values)
    counts, inside = np.zeros(3), 0
    for _ in range(100):
        found = m.estimate(m.release(values, stream=stream))
        counts += found.counts / 100
        low, high = found.confidence_interval(0.95)
        inside += np.sum((low <= [1200, 600, 200]) & (high >= [1200, 600, 200]))
    error = m.local.standard_error(2000, frequency=0.5)
    assert np.all(np.abs(counts - [1200, 600, 200]) < 5.5 * error / 10)
    assert inside >= 300 * 0.95 - 6 * math.sqrt(300 * 0.05 * 0.95)


def test_identity():
    m = fastdp.ShuffledResponse(0.75, clients=10, categories=3, other=2)
    assert pickle.loads(pickle.dumps(m)) == m
    assert repr(m) == "ShuffledResponse(p=0.75, clients=10, categories=3, other=2)"
    assert (m.clients, m.categories, m.p) == (10, 3, Fraction(3, 4))
    assert m != fastdp.ShuffledResponse(0.75, clients=11, categories=3, other=2)
    event = fastdp.ShuffledResponse(0.75, clients=10).event(points=8)
    assert event.false_positive_rates[0] == 0


def test_refusals():
    m = fastdp.ShuffledResponse(0.75, clients=10)
    with pytest.raises(ParameterError, match="n >= clients = 10"):
        m.release(np.zeros(9, np.int64))
    with pytest.raises(ParameterError, match="n >= clients = 10"):
        m.release(np.zeros((2, 10), np.int64))
    with pytest.raises(DTypeError, match="values"):
        m.release(["a"] * 10)
    with pytest.raises(DTypeError):
        m.release(np.zeros(10))
    with pytest.raises(ParameterError, match="clients must be >= 1"):
        fastdp.ShuffledResponse(0.75, clients=0)
    with pytest.raises(ParameterError, match="p must be"):
        fastdp.ShuffledResponse(0.4, clients=10)
    assert m.release(np.ones(10, bool)).dtype == bool
