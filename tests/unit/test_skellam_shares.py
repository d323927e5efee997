"""Skellam noise in shares: Poisson variables, sums, events, the modulus."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import fastdp
from fastdp import _points
from fastdp.accounting import (
    DiscreteGaussianEvent,
    PLDAccountant,
    RDPAccountant,
    SkellamEvent,
    ZCDPAccountant,
    _skellam,
)
from fastdp.accounting.guarantees import event_delta, event_epsilon, event_rho
from fastdp.exceptions import CalibrationError, ParameterError, UnsupportedEventError
from fastdp.testing import FixedStream

mp.mp.dps = 60

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def law(variance: Fraction, last: int) -> list[mp.mpf]:
    """Return P(0), ..., P(last) by Bessel functions, to 60 digits."""
    v = mp.mpf(variance.numerator) / variance.denominator
    return [mp.exp(-v) * mp.besseli(x, v) for x in range(last + 1)]


def losses_of(variance: Fraction, shift: int) -> list[tuple[mp.mpf, mp.mpf]]:
    last = math.ceil(14 * math.sqrt(variance)) + 50
    p = law(Fraction(variance), last + shift)
    return [
        (p[abs(x)], mp.log(p[abs(x)] / p[abs(x + shift)]))
        for x in range(-last - shift, last + 1)
    ]


def delta_of(losses: list[tuple[mp.mpf, mp.mpf]], epsilon: float) -> mp.mpf:
    return mp.fsum(p * -mp.expm1(epsilon - x) for p, x in losses if x > epsilon)


def divergence_of(losses: list[tuple[mp.mpf, mp.mpf]], order: float) -> mp.mpf:
    moment = mp.fsum(p * mp.exp((order - 1) * loss) for p, loss in losses)
    return mp.log(moment) / (order - 1)


def shares_of(variance: int, honest: int, **given: int) -> fastdp.SkellamShares:
    event = SkellamEvent(sensitivity=1, variance=variance, coordinates=1)
    return fastdp.SkellamShares(
        of=event, honest=honest, **({"parties": 64, "modulus": 2**40} | given)
    )


@pytest.mark.parametrize(
    "rate", [Fraction(1, 1000), Fraction(7, 3), Fraction(60), Fraction(5001, 2)]
)
def test_cuts_are_the_floors_of_the_law(rate: Fraction) -> None:
    first, cuts = _points._cuts(_points.Poisson(rate))
    mean = mp.mpf(rate.numerator) / rate.denominator
    term, total = mp.exp(-mean), mp.mpf(0)
    exact = []
    for n in range(first + len(cuts)):
        total += term
        term *= mean / (n + 1)
        exact.append(int(mp.floor(total * 2**64)))
    assert exact[first:] == [int(c) for c in cuts]
    assert int(cuts[-1]) == 2**64 - 1
    assert first == 0 or exact[first] == 0 < exact[first + 1]


@pytest.mark.parametrize("parties", [2, 3, 7])
def test_shares_sum_to_the_law(parties: int) -> None:
    """In rationals, but for the factor of the normalization, which cancels."""
    variance, most = Fraction(5, 2), 60
    mean = variance / parties / 2
    weight = [Fraction(1)]
    for n in range(1, most):
        weight.append(weight[-1] * mean / n)
    one = {
        x: sum(weight[n] * weight[n + abs(x)] for n in range(most - abs(x)))
        for x in range(-most + 1, most)
    }
    scale = 1 << 400
    total = {x: int(p * scale) for x, p in one.items()}
    for _ in range(parties - 1):
        longer: dict[int, int] = {}
        for (x, p), (y, q) in itertools.product(total.items(), one.items()):
            if abs(x + y) < most:
                part = p * q.numerator // q.denominator
                longer[x + y] = longer.get(x + y, 0) + part
        total = longer
    wanted = law(variance, 12)
    mass = sum(total.values())
    for x in range(-12, 13):
        found = mp.mpf(total[x]) / mass
        assert abs(found / wanted[abs(x)] - 1) < mp.mpf(10) ** -40


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(9), Fraction(4001)])
def test_draws_follow_the_exact_law(variance: Fraction) -> None:
    noise = _points.skellam(200_000, variance, FixedStream(bytes([7]) * 32))
    exact = [float(p) for p in law(variance, 300)]
    width = 1 + math.isqrt(math.floor(variance) // 4)
    for start in range(-8 * width, 8 * width, width):
        p = sum(exact[abs(x)] for x in range(start, start + width))
        found = np.count_nonzero((noise >= start) & (noise < start + width))
        assert abs(found - p * noise.size) < 5 * math.sqrt(p * noise.size) + 1


@pytest.mark.parametrize("variance", [8, Fraction(21, 2), 40, 300])
@pytest.mark.rest
def test_the_curvature_bounds_all_second_differences(variance: Fraction) -> None:
    p = law(Fraction(variance), math.ceil(4 * variance))
    p = [p[1], *p]
    bends = [mp.log(p[x] ** 2 / (p[x - 1] * p[x + 1])) for x in range(1, len(p) - 1)]
    bound = _skellam.curvature(Fraction(variance))
    assert bound is not None
    assert min(bends) > 0
    assert max(bends) <= mp.mpf(float(bound)) <= max(bends) * (1 + 12 / variance)


@pytest.mark.parametrize("variance", [8, 30, 200])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_rho_is_above_every_divergence(variance: int, shift: int) -> None:
    losses = losses_of(variance, shift)
    rho = event_rho(SkellamEvent(sensitivity=shift, variance=variance, coordinates=1))
    divergences = [
        divergence_of(losses, order) / order for order in (1.0001, 1.3, 2, 4, 9, 33)
    ]
    assert (
        max(divergences) <= rho <= max(divergences) * (1 + 6 / variance + 0.5 / shift)
    )
    # Gaussian noise of this variance would be too low a claim.
    assert shift > 1 or max(divergences) > 1 / (2 * mp.mpf(variance))


def test_rho_of_vectors_is_above_every_split() -> None:
    variance = 20
    each = {s: losses_of(variance, s) for s in (1, 2, 3)}
    rho = event_rho(SkellamEvent(sensitivity=3, variance=variance))
    for order in (1.01, 2, 6, 20):
        d = {s: divergence_of(losses, order) for s, losses in each.items()}
        for split in ((3,), (2, 2, 1), (2, 1, 1, 1, 1, 1), (1,) * 9):
            assert sum(d[s] for s in split) <= order * rho


@pytest.mark.parametrize("honest", range(1, 7))
def test_the_accountants_are_above_sums_of_60_digits(honest: int) -> None:
    event = shares_of(9, 6).event(honest=honest)
    assert event.variance == Fraction(9 * honest, 6)
    losses = losses_of(event.variance, 1)
    for epsilon in (0.0, 0.2, 0.7, 1.5, 3.0):
        exact, claimed = delta_of(losses, epsilon), event_delta(event, epsilon)
        assert exact <= claimed <= exact * (1 + 1e-9) + 1e-30
    assert RDPAccountant().compose(event).delta(1.5) >= delta_of(losses, 1.5)
    twice = [
        (p * q, i + j) for (p, i), (q, j) in itertools.product(losses[20:-20], repeat=2)
    ][:: 1 if honest == 2 else 10**9]
    if honest == 2:
        exact = delta_of(twice, 1.5)
        claimed = PLDAccountant().compose(event, 2).delta(1.5)
        assert exact * (1 - mp.mpf("1e-9")) <= claimed <= exact * (1 + 1e-6)


def test_the_law_that_is_listed_is_the_law() -> None:
    found = _skellam.losses(Fraction(31, 2), 3)
    assert found is not None
    losses, masses, _ = found
    p = law(Fraction(31, 2), 120)
    middle = (len(losses) - 4) // 2 + 3
    for x in range(-60, 61):
        assert abs(masses[middle + x] / p[abs(x)] - 1) < 1e-14
        exact = mp.log(p[abs(x)] / p[abs(x + 3)])
        assert abs(losses[middle + x] - exact) <= 4e-16 * (1 + abs(exact))
    assert _skellam.losses(Fraction(2**23), 1) is None


def test_every_accountant_reads_the_event() -> None:
    event = SkellamEvent(sensitivity=30, variance=10**6)
    known = DiscreteGaussianEvent(sensitivity=30, sigma=1000)
    for accountant in (PLDAccountant, RDPAccountant, ZCDPAccountant):
        theirs = ZCDPAccountant().compose(known, 10).epsilon(1e-6)
        ours = accountant().compose(event, 10).epsilon(1e-6)
        assert ours == pytest.approx(theirs, rel=0.01)


def test_shares_are_made_for_rho() -> None:
    for rho, sensitivity in ((0.125, 4), (Fraction(1, 10**4), 2), (3, 1)):
        shares = fastdp.SkellamShares.from_rho(
            rho,
            sensitivity=sensitivity,
            coordinates=4,
            parties=9,
            honest=5,
            modulus=2**30,
            neighboring_relation="replace_one",
        )
        v = shares.of.variance
        assert event_rho(shares.event()) <= rho
        assert v == 8 or event_rho(
            SkellamEvent(
                sensitivity=sensitivity, variance=v * (1 - Fraction(1, 10**6)),
                coordinates=4,
            )
        ) > rho  # fmt: skip
        assert shares.event().neighboring_relation.name == "REPLACE_ONE"
        assert shares.event(honest=9).variance == v * 9 / 5


def test_extreme_targets_are_met_or_refused() -> None:
    shape = {"parties": 2, "honest": 2, "modulus": 99}
    huge = fastdp.SkellamShares.from_rho(10**400, sensitivity=1, **shape)
    assert huge.of.variance == 8
    assert huge.wrap_probability(3) < 1
    for rho, sensitivity in ((1, 10**400), (Fraction(1, 10**400), 1)):
        with pytest.raises(CalibrationError, match="variance"):
            fastdp.SkellamShares.from_rho(rho, sensitivity=sensitivity, **shape)
    narrow = SkellamEvent(sensitivity=1, variance=Fraction(1, 10**400))
    assert fastdp.SkellamShares(of=narrow, **shape).wrap_probability(3) == 0


def test_the_wrap_is_bounded() -> None:
    shares = shares_of(4, 4, parties=6, modulus=64)
    p = law(Fraction(6), 200)
    for largest in (5, 12, 20):
        tail = 2 * mp.fsum(p[32 - largest :])
        assert tail <= shares.wrap_probability(largest) <= min(1, 1e3 * tail)
    assert shares.wrap_probability(32) == 1


def test_sent_integers_carry_the_noise() -> None:
    shares = shares_of(6, 3, modulus=1_000_003)
    x, s = np.arange(-3000, 3000), FixedStream(bytes([9]) * 32)
    sent = [shares.add_share(x, stream=s) for _ in range(3)]
    noise = shares.decode(sum(sent) % 1_000_003) - 3 * x
    assert abs(noise.mean()) < 5 * math.sqrt(6 / x.size)
    assert abs(noise.var() - 6) < 5 * 9 / math.sqrt(x.size)


def test_what_has_no_guarantee_is_refused() -> None:
    with pytest.raises(ParameterError, match="variance"):
        shares_of(2**28, 2)
    with pytest.raises(ParameterError, match="honest"):
        shares_of(9, 2).event(honest=65)
    with pytest.raises(ParameterError, match="rho"):
        fastdp.SkellamShares.from_rho(0, sensitivity=1, parties=2, honest=2, modulus=99)
    narrow = SkellamEvent(sensitivity=2, variance=7)
    for reading in (
        event_rho,
        PLDAccountant().compose,
        RDPAccountant().compose,
        lambda e: event_epsilon(e, 1e-6),
    ):
        with pytest.raises(UnsupportedEventError):
            reading(narrow)
