"""The secure default stream against the exact laws.

n = 4e6 draws a parameter in CI, 1e8 in the slow run and 1e9 for one of each kind;
alpha = 5e-10 a test (1e-7 for the family); power above 0.99 against a parameter wrong
by 1 % (0.2 % and 0.1 % in the slow run), which every test checks for its own bins.
Zero, both signs and the deep tails have bins of their own. The default stream has no
seed: a failure repeats only if there is something wrong.
"""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    TruncatedDiscreteLaplace,
)
from tests.statistical.bins import ALPHA, Bins, bins_of, drawn_counts, p_value, power

N, MANY = 4_000_000, 100_000_000
LAPLACE = [Fraction(3, 10), 1, 10, Fraction(7777, 10), 4096, 4097, 10**6, 2**55]
GAUSSIAN = [Fraction(3, 10), 1, Fraction(3999, 1000), 10, 1000, 1030, 10**6, 2**55]
LAWS = [("laplace", t) for t in LAPLACE] + [("gaussian", s) for s in GAUSSIAN]


#: One of each way to draw: one digit and two, with low bits and without, and tilted.
KINDS = [("laplace", t) for t in (10, 4096, 10**6)]
KINDS += [("gaussian", s) for s in (1, 10, 10**6)]


def law_of(family: str, parameter: Any) -> Any:
    return {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian}[family](parameter)


def probabilities(law: Any, bins: Bins) -> np.ndarray:
    """Return those of another law in the same bins."""
    half = bins.edges.size // 2
    tails = [float(law.sf(int(e))) for e in bins.edges[half:]]
    inner = [a - b for a, b in zip(tails, [*tails[1:], 0.0], strict=True)]
    return np.array([*inner[::-1], 1 - 2 * sum(inner), *inner])


def check(family: str, parameter: Any, n: int, error: Fraction) -> float:
    law = law_of(family, parameter)
    bins = bins_of(law, n)
    wrong = law_of(family, Fraction(parameter) * (1 - error))
    assert power(bins.probability, probabilities(wrong, bins), n) > 0.99
    draw = getattr(fastdp.random, f"discrete_{family}")
    p = p_value(
        drawn_counts(lambda m: draw(parameter, size=m), bins, n), bins.probability
    )
    print(f"{family} {float(parameter):g}: n = {n:.0e}, p = {p:.4f}")
    assert p > ALPHA
    return p


def test_bins_have_the_probabilities_of_their_values() -> None:
    law = DiscreteLaplace(10)
    bins = bins_of(law, N)
    x = np.arange(-400, 401)
    mass = np.bincount(np.searchsorted(bins.edges, x), weights=law.pmf(x))
    assert np.allclose(mass, bins.probability, rtol=1e-9)
    assert bins.probability[bins.edges.size // 2] == pytest.approx(law.pmf(0))
    assert N * bins.probability.min() >= 20
    assert N * bins.probability[0] < 60
    assert (bins.probability == bins.probability[::-1]).all()


def test_one_value_that_is_too_frequent_is_seen() -> None:
    """Power of the same test where one value alone is wrong."""
    bins = bins_of(DiscreteGaussian(3), N)
    for n, share in ((N, 1.02), (MANY, 1.01)):
        other = bins.probability.copy()
        other[other.size // 2] *= share
        assert power(bins.probability, other / other.sum(), n) > 0.99


@pytest.mark.parametrize(
    ("family", "parameter"),
    [
        pytest.param(*law, marks=pytest.mark.rest if law == ("gaussian", 2**55) else ())
        for law in LAWS
    ],
)
def test_law(family: str, parameter: Any) -> None:
    check(family, parameter, N, Fraction(1, 100))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "parameter"), LAWS)
def test_law_with_many_draws(family: str, parameter: Any) -> None:
    check(family, parameter, MANY, Fraction(2, 1000))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "parameter"), KINDS)
def test_law_with_a_billion_draws(family: str, parameter: Any) -> None:
    check(family, parameter, 10 * MANY, Fraction(1, 1000))


def test_law_at_scalars() -> None:
    """n = 2e5 calls that draw one value each; power 0.99 against 7 % more zeros."""
    bins = bins_of(DiscreteLaplace(2), 200_000, body=20)
    x = np.array([fastdp.random.discrete_laplace(2) for _ in range(200_000)])
    other = bins.probability.copy()
    other[other.size // 2] *= 1.07
    assert power(bins.probability, other / other.sum(), x.size) > 0.99
    assert p_value(bins.counts(x), bins.probability) > ALPHA


@pytest.mark.parametrize("scale", [10, 10**5])
def test_law_of_a_truncated_mechanism(scale: int) -> None:
    mechanism = fastdp.TruncatedLaplace(scale=scale, bound=2 * scale)
    law = TruncatedDiscreteLaplace(scale, bound=2 * scale)
    bins = bins_of(law, N, body=15)
    zeros = np.zeros(N, np.int64)
    noise = mechanism.release(zeros)
    assert np.abs(noise).max() == 2 * scale or scale > 10
    assert np.abs(noise).max() <= 2 * scale
    assert p_value(bins.counts(noise), bins.probability) > ALPHA


# --- uniform ------------------------------------------------------------------------


def test_permutations_of_four_are_equally_frequent() -> None:
    """n = 1.2e5, 24 cells; power 0.99 against one cell 30 % too frequent."""
    n = 120_000
    index = {p: i for i, p in enumerate(itertools.permutations(range(4)))}
    counts = np.zeros(24, np.int64)
    for _ in range(n):
        counts[index[tuple(fastdp.random.permutation(4).tolist())]] += 1
    even = np.full(24, 1 / 24)
    other = even + np.eye(24)[0] * 0.3 / 24
    assert power(even, other / other.sum(), n) > 0.99
    assert p_value(counts, even) > ALPHA


@pytest.mark.parametrize("span", [2, 3, 10, 1000])
def test_integers_are_equally_frequent(span: int) -> None:
    """n = 4e6; power 0.99 against one value in ten (or one) 5 % too frequent."""
    even = np.full(span, 1 / span)
    other = even.copy()
    other[: max(span // 10, 1)] *= 1.05
    assert power(even, other / other.sum(), N) > 0.99
    x = fastdp.random.integers(-1, span - 1, size=N)
    assert p_value(np.bincount(x + 1, minlength=span), even) > ALPHA


@pytest.mark.parametrize("shift", [0, 8, 31, 47, 56])
def test_bytes_of_wide_integers_are_equally_frequent(shift: int) -> None:
    """Range 2**63 + 2**55: the upper byte has 129 equally likely values."""
    high = 2**55 if shift < 56 else 0
    x = fastdp.random.integers(-(2**62), 2**62 + high, size=N)
    places = ((x + 2**62).view(np.uint64) >> np.uint64(shift)) & np.uint64(255)
    cells = 256 if shift < 55 else 128
    counts = np.bincount(places.astype(np.int64), minlength=cells)
    assert counts.size == cells
    assert p_value(counts, np.full(cells, 1 / cells)) > ALPHA
