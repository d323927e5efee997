"""Losses with densities, and Gaussian noise on a subset."""

from fractions import Fraction

import mpmath as mp
import pytest

from fastdp.accounting import (
    GaussianEvent,
    LaplaceEvent,
    PLDAccountant,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
)
from tests.accounting.test_pld_families import REPLACE, number

# ---- densities -----------------------------------------------------------------------


def laplace_delta(epsilon, e):
    """delta of Laplace noise at any epsilon, also below 0."""
    if epsilon >= e:
        return mp.mpf(0)
    if epsilon <= -e:
        return -mp.expm1(epsilon)
    return -mp.expm1((epsilon - e) / 2)


def range_delta(epsilon, e):
    """delta of the law that dominates bounded range, at any epsilon."""
    if epsilon >= e:
        return mp.mpf(0)
    if epsilon <= -e:
        return -mp.expm1(epsilon)
    return (mp.exp(e / 2) - mp.exp(epsilon / 2)) ** 2 / mp.expm1(e)


def sampled_delta(inner, epsilon, q, removal):
    """delta on a Poisson sample, at any epsilon, from the inner one."""
    if removal:
        if epsilon <= mp.log(1 - q):
            return -mp.expm1(epsilon)
        return q * inner(mp.log1p(mp.expm1(epsilon) / q))
    rest = 1 - mp.exp(epsilon) * (1 - q)
    if rest <= 0:
        return mp.mpf(0)
    return rest * inner(epsilon + mp.log(q) - mp.log(rest))


def two_steps(epsilon, e, q, removal):
    """delta of two sampled Laplace steps: over the first one's loss, of the second."""

    def second(x):
        loss = mp.log1p(q * mp.expm1(x if removal else -x))
        return sampled_delta(
            lambda inner: laplace_delta(inner, e),
            epsilon - (loss if removal else -loss),
            q,
            removal,
        )

    def weight(x):  # of the sampled P to the inner one
        return q + (1 - q) * mp.exp(-x) if removal else 1

    kinks = {mp.mpf(0)}
    for end in (e, -e):
        for x in (
            epsilon - mp.log1p(q * mp.expm1(end)),
            epsilon + mp.log1p(q * mp.expm1(end)),
        ):
            y = mp.expm1(x) / q if removal else mp.expm1(-x) / q
            if y > -1:
                kinks.add(mp.log1p(y) if removal else -mp.log1p(y))
    places = sorted([-e, *(k for k in kinks if -e < k < e), e])
    middle = mp.quad(lambda x: mp.exp((x - e) / 2) / 4 * weight(x) * second(x), places)
    ends = weight(e) * second(e) / 2 + weight(-e) * mp.exp(-e) / 2 * second(-e)
    return middle + ends


@pytest.mark.parametrize(
    ("rate", "scale"),
    [
        (Fraction(1, 100), 1),
        (Fraction(9, 10), Fraction(1, 3)),
        pytest.param(Fraction(1, 4), 20, marks=pytest.mark.slow),
        pytest.param(Fraction(1, 100), 20, marks=pytest.mark.slow),
        pytest.param(Fraction(9, 10), 1, marks=pytest.mark.slow),
    ],
)
def test_one_sample_of_laplace_noise(rate, scale):
    known = PLDAccountant().compose(
        PoissonSampledEvent(rate, LaplaceEvent(sensitivity=1, scale=scale))
    )
    e, q = 1 / number(scale), number(rate)
    for share in (0, 0.3, 0.9):
        epsilon = share * float(mp.log1p(q * mp.expm1(e)))
        true = max(
            sampled_delta(
                lambda x: laplace_delta(x, e),
                mp.mpf(epsilon),
                q,
                removal,
            )
            for removal in (True, False)
        )
        found = known.delta_bounds(epsilon)
        assert found.lower <= true <= found.upper
        assert found.upper - found.lower <= 1e-6 * true


@pytest.mark.rest
def test_two_samples_of_laplace_noise():
    known = PLDAccountant().compose(
        PoissonSampledEvent(0.25, LaplaceEvent(sensitivity=1, scale=1)), 2
    )
    for epsilon in (0.0, 0.6):
        true = max(
            two_steps(mp.mpf(epsilon), mp.mpf(1), mp.mpf("0.25"), removal)
            for removal in (True, False)
        )
        found = known.delta_bounds(epsilon)
        assert found.lower <= true <= found.upper
        assert found.upper - found.lower <= 1e-6 * true


# ---- Gaussian noise on a subset ------------------------------------------------------


def gaussian_delta(epsilon, mu):
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(
        -mu / 2 - epsilon / mu
    )


def subset_delta(epsilon, q, mu):
    """delta of one subset at any epsilon: the law is its own mirror image."""
    if epsilon < 0:
        return -mp.expm1(epsilon) + mp.exp(epsilon) * subset_delta(-epsilon, q, mu)
    return q * gaussian_delta(mp.log1p(mp.expm1(epsilon) / q), mu)


def two_subsets(epsilon, q, sigma):
    """delta of two subsets: over the first one's loss, of the second."""

    def loss(x):
        return mp.log1p(q * mp.expm1((2 * x - 1) / (2 * sigma * sigma)))

    def above(x):
        far = (1 - q) * mp.npdf(x, 0, sigma) + q * mp.npdf(x, 1, sigma)
        return far * subset_delta(epsilon - loss(x), q, 1 / sigma)

    def below(x):
        return mp.npdf(x, 0, sigma) * subset_delta(epsilon + loss(x), q, 1 / sigma)

    half = mp.mpf(1) / 2
    kink = half + sigma * sigma * mp.log1p(mp.expm1(epsilon) / q)
    places = sorted({half, 1 + sigma, kink, 1 + 5 * sigma, 1 + 12 * sigma})
    rest = (1 - q) * mp.erf(1 / (mp.sqrt(8) * sigma))
    total = mp.quad(above, places) + mp.quad(below, places)
    return total + rest * subset_delta(epsilon, q, 1 / sigma)


@pytest.mark.rest
@pytest.mark.parametrize(
    ("size", "sigma", "counts"),
    [
        (1, 1, (1,)),
        pytest.param(1, 1, (2,), marks=pytest.mark.slow),
        pytest.param(5, Fraction(1, 2), (1, 2), marks=pytest.mark.slow),
        pytest.param(9, 3, (1, 2), marks=pytest.mark.slow),
    ],
)
def test_gaussian_noise_on_subsets(size, sigma, counts):
    event = SampledWithoutReplacementEvent(
        source_dataset_size=10,
        sample_size=size,
        event=GaussianEvent(sensitivity=1, sigma=sigma, neighboring_relation=REPLACE),
    )
    q, s = mp.mpf(size) / 10, number(sigma)
    for count in counts:
        known = PLDAccountant().compose(event, count)
        for epsilon in (0.125, 0.75):
            true = subset_delta(mp.mpf(epsilon), q, 1 / s)
            if count == 2:
                true = two_subsets(mp.mpf(epsilon), q, s)
            found = known.delta_bounds(epsilon)
            assert found.lower <= true <= found.upper <= (1 + 1e-5) * true
            # From below: the other record has no effect.
            plain = PoissonSampledEvent(
                Fraction(size, 10), GaussianEvent(sensitivity=1, sigma=sigma)
            )
            least = PLDAccountant().compose(plain, count).delta_bounds(epsilon)
            assert (1 - 1e-5) * least.lower <= found.lower <= least.upper
