"""Privacy of small parameters from the exact laws, by enumeration.

Output probabilities are enclosed in rational intervals; the claimed epsilon, delta
and rho must hold for every output and every shift that the sensitivity allows, with
no slack for floating point.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import fastdp
from fastdp.testing import TapeStream
from tests.privacy.streams import KeyStream

DIGITS = 60


def exp_enclosure(x: Fraction) -> tuple[Fraction, Fraction]:
    """Return rationals below and above e**x, 1e-55 apart relative to e**x."""
    with mpmath.workdps(DIGITS):
        value = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator)
        middle = Fraction(int(mpmath.floor(value * mpmath.mpf(2) ** 220)), 2**220)
    slack = middle / 10**55 + Fraction(1, 2**219)
    return middle - slack, middle + slack


# --- pure privacy of the Laplace laws ---------------------------------------------

SCALES = [Fraction(1, 10), Fraction(1, 3), Fraction(7, 10), 1, 2, Fraction(10, 3), 10]


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("sensitivity", [1, 2, 3, 7])
def test_laplace_ratio_is_at_most_e_to_epsilon(scale: Any, sensitivity: int) -> None:
    # p(y - a) / p(y - b) = e^((|y - b| - |y - a|) / scale): exact in the exponent.
    epsilon = fastdp.DiscreteLaplace(scale, sensitivity=sensitivity).epsilon()
    losses = [
        Fraction(abs(y - shift) - abs(y)) / Fraction(scale)
        for shift in range(-sensitivity, sensitivity + 1)
        for y in range(-30, 31)
    ]
    assert max(losses) <= Fraction(epsilon)
    assert max(losses) == Fraction(sensitivity) / Fraction(scale)
    assert Fraction(math.nextafter(epsilon, 0)) < max(losses)  # and tight


@pytest.mark.parametrize("epsilon", [0.1, Fraction(1, 3), 1, 1.7, 5])
@pytest.mark.parametrize("sensitivity", [1, 3, 10])
def test_from_epsilon_never_exceeds_it(epsilon: Any, sensitivity: int) -> None:
    m = fastdp.DiscreteLaplace.from_epsilon(epsilon, sensitivity=sensitivity)
    assert Fraction(sensitivity) / Fraction(m.scale) <= Fraction(epsilon)


def test_ratio_from_the_sampler_itself() -> None:
    """All 2**15 columns and bytes of one scale: the law behind the kernel.

    Words of ranks of both extremes tell the few lanes that are special; what the
    others give bounds the law's probabilities by rationals.
    """
    scale = Fraction(1)
    column, u = np.divmod(np.arange(2**15), 256)
    parts = (part.reshape(4, -1, 64) for part in (column, u))
    blocks = np.stack(list(parts), axis=2).astype(np.uint8).reshape(4, -1)
    values = []
    for rank in (0x00, 0xFF):
        ranks = np.full((4, 2048), rank, np.uint8)
        stream = TapeStream(np.concatenate([ranks, blocks], axis=1))
        values.append(fastdp.random.discrete_laplace(scale, size=2**15, stream=stream))
    certain = values[0] == values[1]
    assert 0.999 < certain.mean() < 1
    for x in range(-4, 5):
        low = Fraction(int(((values[0] == x) & certain).sum()), 2**15)
        high = low + Fraction(int((~certain).sum()), 2**15)
        q = exp_enclosure(-1 / scale)
        mass = [(1 - e) / (1 + e) * e ** abs(x) for e in q]
        assert low <= max(mass)
        assert min(mass) <= high


# --- approximate privacy by exact sums ----------------------------------------------


def gaussian_hockey_stick(sigma: Fraction, shift: int, epsilon: Fraction) -> mpmath.mpf:
    """Return sum of max(0, p(y) - e^epsilon p(y - shift)), to 60 digits."""
    with mpmath.workdps(DIGITS):
        s2 = 2 * mpmath.mpf(sigma.numerator) ** 2 / mpmath.mpf(sigma.denominator) ** 2
        reach = int(sigma * 30) + 40 + abs(shift)
        weights = {
            y: mpmath.exp(-mpmath.mpf(y * y) / s2)
            for y in range(-reach - abs(shift), reach + abs(shift) + 1)
        }
        total = mpmath.fsum(weights.values())
        factor = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        terms = (
            weights[y] - factor * weights[y - shift] for y in range(-reach, reach + 1)
        )
        return mpmath.fsum(t for t in terms if t > 0) / total


@pytest.mark.parametrize(
    "sigma", [Fraction(x) for x in ("0.3", "0.7", "1", "5/3", "9")], ids=str
)
def test_gaussian_delta_covers_the_exact_profile(sigma: Fraction) -> None:
    m = fastdp.DiscreteGaussian(sigma)
    for sensitivity, epsilon in itertools.product((1, 2, 3), (0, 0.25, 1, 3, 10)):
        claimed = m.delta(epsilon, sensitivity=sensitivity)
        exact = max(
            gaussian_hockey_stick(sigma, shift, Fraction(epsilon))
            for shift in range(-sensitivity, sensitivity + 1)
            if shift
        )
        assert claimed >= exact, (sensitivity, epsilon)


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_gaussian_epsilon_covers_the_exact_profile(delta: float) -> None:
    for sigma in (Fraction(1, 2), Fraction(2), Fraction(8)):
        epsilon = Fraction(
            fastdp.DiscreteGaussian(sigma, sensitivity=2).epsilon(delta=delta)
        )
        for shift in (1, 2):
            assert gaussian_hockey_stick(sigma, shift, epsilon) <= delta


@pytest.mark.parametrize("epsilon", [0.1, 1, 4])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_calibrated_gaussian_meets_its_target(epsilon: float, delta: float) -> None:
    m = fastdp.DiscreteGaussian.from_epsilon_delta(
        epsilon=epsilon, delta=delta, sensitivity=1
    )
    sigma = Fraction(m.sigma)
    assert gaussian_hockey_stick(sigma, 1, Fraction(epsilon)) <= delta
    # an individual may also move several counts, by 1 in all
    assert gaussian_hockey_stick(sigma, -1, Fraction(epsilon)) <= delta


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(4)], ids=str)
@pytest.mark.parametrize("bound", [1, 2, 5, 20])
def test_truncated_laplace_covers_its_exact_profile(
    scale: Fraction, bound: int
) -> None:
    m = fastdp.TruncatedLaplace(scale, bound=bound)
    for sensitivity in (1, 2):
        if sensitivity > bound:
            continue
        for multiple in (Fraction(1), Fraction(3, 2), Fraction(3)):
            epsilon = multiple * sensitivity / scale
            claimed = Fraction(m.delta(epsilon, sensitivity=sensitivity))
            factor = exp_enclosure(epsilon)[0]
            weights = {
                x: exp_enclosure(-abs(x) / scale) for x in range(-bound, bound + 1)
            }
            least_total = sum((low for low, _ in weights.values()), Fraction(0))
            for shift in range(-sensitivity, sensitivity + 1):
                excess = Fraction(0)
                for y, (_, high) in weights.items():
                    other = weights.get(y - shift, (Fraction(0),))[0]
                    excess += max(Fraction(0), high - factor * other)
                # upper enclosure of the exact delta, 1e-50 wide
                assert excess / least_total <= claimed + Fraction(1, 10**50)


@pytest.mark.parametrize("epsilon", [0.5, 1, 3])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_truncated_bound_is_the_least(epsilon: Any, delta: float) -> None:
    m = fastdp.TruncatedLaplace.from_epsilon_delta(
        epsilon=epsilon, delta=delta, sensitivity=1
    )
    scale, bound = Fraction(m.scale), m.bound

    def outermost(b: int) -> tuple[Fraction, Fraction]:
        weights = [exp_enclosure(-abs(x) / scale) for x in range(-b, b + 1)]
        low = sum((w[0] for w in weights), Fraction(0))
        high = sum((w[1] for w in weights), Fraction(0))
        edge = exp_enclosure(-b / scale)
        return edge[0] / high, edge[1] / low

    assert outermost(bound)[1] <= Fraction(delta)
    assert bound == 1 or outermost(bound - 1)[0] > Fraction(delta)


# --- concentrated privacy -------------------------------------------------------------


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(3)], ids=str)
def test_gaussian_rho_covers_the_renyi_divergence(sigma: Fraction) -> None:
    rho = Fraction(fastdp.DiscreteGaussian(sigma, sensitivity=1).rho())
    with mpmath.workdps(DIGITS):
        s2 = 2 * mpmath.mpf(sigma.numerator) ** 2 / mpmath.mpf(sigma.denominator) ** 2
        span = range(-60, 61)
        total = mpmath.fsum(mpmath.exp(-mpmath.mpf(y * y) / s2) for y in span)
        for order in (mpmath.mpf("1.01"), 2, 5, 20):
            moment = mpmath.fsum(
                mpmath.exp((-order * y * y - (1 - order) * (y - 1) ** 2) / s2)
                for y in range(-200, 201)
            )
            divergence = mpmath.log(moment / total) / (order - 1)
            bound = mpmath.mpf(rho.numerator) / rho.denominator * order
            assert divergence <= bound * (1 + mpmath.mpf(10) ** -40)


# --- what the draws say of the data ---------------------------------------------

DATA_INDEPENDENT = [
    fastdp.DiscreteLaplace(10),
    fastdp.DiscreteLaplace(2**40),
    fastdp.DiscreteGaussian(10),
    fastdp.DiscreteGaussian(2**40),
    fastdp.TruncatedLaplace(10, bound=25),
]


@pytest.mark.parametrize("m", DATA_INDEPENDENT, ids=repr)
@pytest.mark.parametrize("n", [1, 5, 5000])
def test_noise_does_not_depend_on_data(m: Any, n: int) -> None:
    key = KeyStream(bytes(32))
    noise = m.release(np.zeros(n, np.int64), stream=key)
    for x in (
        np.arange(n) * 1000,
        np.full(n, -(2**61)),
        np.full(n, 2**61),
        np.arange(n) % 7 * -(2**58),
    ):
        assert (m.release(x, stream=key) - x == noise).all()
    if n == 1:
        for value in (0, 12345, -(2**61)):
            assert m.release(np.int64(value), stream=key) - value == noise[0]


@pytest.mark.parametrize("make", [fastdp.Laplace, fastdp.Gaussian])
def test_real_noise_does_not_depend_on_data(make: Any) -> None:
    m, key = make(10, granularity=2.0**-10, coordinates=1), KeyStream(bytes(32))
    noise = m.release(np.zeros(3000), stream=key)
    for x in (np.arange(3000.0), np.arange(3000) * -1024.5, np.full(3000, 2.0**30)):
        assert (m.release(x, stream=key) - x == noise).all()
