"""Shares of discrete Laplace noise: their law, their sum, their event, the modulus."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core, _points
from fastdp._exact import exp_neg
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteGaussianSumEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureDPEvent,
    SkellamEvent,
    TruncatedDiscreteLaplaceEvent,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.testing import FixedStream

BITS = 400

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def stream(key: int) -> FixedStream:
    return FixedStream(bytes([key]) * 32)


def side(scale: Fraction, shape: Fraction, most: int) -> list[Fraction]:
    """Return r-shaped Polya weights C(j + r - 1, j) q^j to about 110 digits."""
    q = Fraction(exp_neg(scale.denominator, scale.numerator, BITS)[0], 1 << BITS)
    law = [Fraction(1)]
    for j in range(most):
        exact = law[-1] * q * (j + shape) / (j + 1)
        law.append(Fraction(int(exact * (1 << BITS)), 1 << BITS))
    return law


def law(scale: Fraction, shape: Fraction, most: int, shown: int) -> list[float]:
    """Return P(0), ..., P(shown) of a sum of shares."""
    a = side(scale, shape, most)
    norm = sum(a) ** 2
    return [
        float(sum(a[j] * a[j + x] for j in range(most - x)) / norm)
        for x in range(shown + 1)
    ]


def shares_of(scale: int, honest: int, parties: int = 64) -> fastdp.LaplaceShares:
    m = fastdp.DiscreteLaplace(scale, sensitivity=1)
    return m.shares(parties=parties, honest=honest, modulus=2**40)


@pytest.mark.parametrize("scale", [Fraction(1, 7), 1, Fraction(7, 2), 8, 9])
def test_the_proposals_have_each_size_once_at_its_rate(scale: Fraction) -> None:
    scale = Fraction(scale)
    last = _points.octaves(scale)
    assert 2**last >= scale
    assert last == 0 or 2 ** (last - 1) < scale
    seen = {}
    for octave in range(last + 1):
        for block in range(4 if octave == last else 1):
            for offset in range(1 << octave):
                size, power = _points.size_of(octave, block, offset, last)
                assert size not in seen
                rate = Fraction(1, 1 << octave)
                if octave == last:
                    rate /= 1 << (block + 1)
                assert rate * 2**power == 1  # the rest of the rate is q**size / size
                assert 2**power * math.exp(-size / scale) <= size
                seen[size] = power
    assert sorted(seen) == list(range(1, len(seen) + 1))


@pytest.mark.parametrize("parties", [2, 3, 7])
def test_the_sum_of_honest_shares_is_discrete_laplace(parties: int) -> None:
    """To 60 digits, by convolution of the law of the process of points."""
    scale, most = Fraction(3, 4), 50
    q = Fraction(exp_neg(4, 3, BITS)[0], 1 << BITS)
    one = [Fraction(1)]  # Panjer: n p_n = sum of l (r q^l / l) p_(n-l)
    for n in range(1, most + 1):
        exact = sum(q**k * one[n - k] for k in range(1, n + 1)) / n / parties
        one.append(Fraction(int(exact * (1 << BITS)), 1 << BITS))
    assert all(
        abs(x - y) < Fraction(1, 10**60)
        for x, y in zip(one, side(scale, Fraction(1, parties), most), strict=True)
    )
    total = [Fraction(1), *[Fraction(0)] * most]
    for _ in range(parties):
        total = [
            Fraction(int(sum(total[i] * one[n - i] for i in range(n + 1)) * 2**BITS))
            / 2**BITS
            for n in range(most + 1)
        ]
    assert all(abs(p - q**n) < Fraction(1, 10**60) for n, p in enumerate(total))


@pytest.mark.parametrize(("scale", "honest"), [(3, 1), (3, 4), (50, 20), (1, 250)])
def test_draws_follow_the_exact_law(scale: int, honest: int) -> None:
    noise = _points.draw(200_000, Fraction(scale), Fraction(1, honest), stream(honest))
    exact = law(Fraction(scale), Fraction(1, honest), 60 * scale + 20, 6)
    for sign in (1, -1):
        for x in range(7):
            p = exact[x]
            found = np.count_nonzero(noise == sign * x)
            assert abs(found - p * noise.size) < 5 * math.sqrt(p * noise.size) + 1


def test_sums_of_draws_follow_discrete_laplace() -> None:
    x = np.zeros(100_000, np.int64)
    shares, s = shares_of(5, 3), stream(9)
    total = shares.decode(sum(shares.add_share(x, stream=s) for _ in range(3)) % 2**40)
    q = math.exp(-1 / 5)
    for value in range(-8, 9):
        p = (1 - q) / (1 + q) * q ** abs(value)
        found = np.count_nonzero(total == value)
        assert abs(found - p * x.size) < 5 * math.sqrt(p * x.size)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(50), Fraction(2**40)])
def test_doubles_and_integers_decide_alike(
    scale: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = _points.draw(2000, scale, Fraction(1, 4), stream(1))
    monkeypatch.setattr(_points, "MARGIN", 2.0)
    assert quick.any()
    assert np.array_equal(quick, _points.draw(2000, scale, Fraction(1, 4), stream(1)))


@pytest.mark.parametrize("rate", [Fraction(7, 3), Fraction(1000)])
def test_ties_are_decided_by_further_bits(rate: Fraction) -> None:
    law = _points.Poisson(rate)
    first, cuts = _points._cuts(law)
    assert (first == 0) == (rate < 100)
    for i in (len(cuts) // 3, len(cuts) // 2, len(cuts) * 2 // 3):
        at = [
            _points.quantile_of(int(cuts[i]), law, lambda _, b=bits: b * 16)
            for bits in (b"\0", b"\xff")
        ]
        assert at == [first + i, first + i + 1]
        assert _points.quantile_of(int(cuts[i]) + 1, law, bytes) == first + i + 1
    beyond = iter([b"\xff" * 16] * 2)  # nearer to 1 than the table goes
    far = _points.quantile_of(2**64 - 1, law, lambda _: next(beyond, b"\0" * 16))
    assert far > first + len(cuts)
    below = iter([b"\0" * 16] * 2)  # nearer to 0
    few = _points.quantile_of(0, law, lambda _: next(below, b"\xff" * 16))
    assert few == 0 if rate < 100 else 300 < few < first


def test_residues_of_extreme_integers_sum() -> None:
    ends = np.array([-(2**63), 2**63 - 1, 0, -5], np.int64)
    m = fastdp.DiscreteLaplace(Fraction(1, 1000), sensitivity=1)  # no noise to see
    shares = m.shares(parties=2, honest=1, modulus=1_000_003)
    sent = shares.add_share(ends)
    assert sent.tolist() == [int(x) % 1_000_003 for x in ends]
    back = shares.decode(shares.add_share(np.array([-5, 4, -500_001, 500_001])))
    assert back.tolist() == [-5, 4, -500_001, 500_001]


def test_wide_shares_are_reduced_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = np.array([2**90 + 3, -(2**70)], object)
    monkeypatch.setattr(_points, "draw", lambda *_: wide.copy())
    sent = shares_of(3, 2).add_share(np.array([1, 2]))
    assert sent.tolist() == [4, 2]


@pytest.mark.parametrize("scale", [1, 4, 30])
@pytest.mark.parametrize("honest", [1, 2, 5, 8])
def test_fewer_honest_parties_cost_what_their_law_says(scale: int, honest: int) -> None:
    event = shares_of(scale, 9).event(honest=honest)
    assert isinstance(event, PureDPEvent)
    p = law(Fraction(scale), Fraction(honest, 9), 70 * scale, 12)
    losses = [math.log(p[x] / p[x + 1]) for x in range(12)]
    assert max(losses) == losses[0]  # the first step costs most
    assert losses[0] <= event.epsilon <= losses[0] + 1e-8
    assert event.epsilon <= 1 / scale + math.log(9 / honest) + 1e-8


def test_events_of_enough_honest_parties_are_of_the_whole_noise() -> None:
    shares = shares_of(3, 9)
    expected = DiscreteLaplaceEvent(sensitivity=Fraction(1), scale=Fraction(3))
    assert shares.event() == shares.event(honest=9) == expected
    assert shares.event(honest=64) == expected


def test_cost_grows_as_parties_and_scale_shrink() -> None:
    costs = [shares_of(10, 9).event(honest=k).epsilon for k in range(1, 9)]
    assert costs == sorted(costs, reverse=True)
    wide = [shares_of(t, 9).event(honest=5).epsilon for t in (4096, 5000, 2**40)]
    assert wide == sorted(wide, reverse=True)


def test_a_square_sensitivity_scales_the_epsilon_and_keeps_the_relation() -> None:
    m = fastdp.DiscreteLaplace(
        3, sensitivity=4, neighboring_relation="replace_one"
    ).shares(parties=9, honest=9, modulus=100)
    event = m.event(honest=5)
    assert event.epsilon == 4 * shares_of(3, 9).event(honest=5).epsilon
    assert event.neighboring_relation.name == "REPLACE_ONE"


@pytest.mark.parametrize("honest", [1, 4])
def test_the_wrap_is_bounded(honest: int) -> None:
    m = fastdp.DiscreteLaplace(2, sensitivity=1)
    shares = m.shares(parties=4, honest=honest, modulus=120)
    p = law(Fraction(2), Fraction(4, honest), 300, 120)
    for largest in (20, 40, 50):
        tail = 2 * sum(p[60 - largest :])
        assert tail <= shares.wrap_probability(largest) <= min(1, 1e4 * tail)
    assert shares.wrap_probability(60) == shares.wrap_probability(10**30) == 1


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"parties": 0}, "parties"),
        ({"honest": 0}, "honest"),
        ({"honest": 6}, "honest"),
        ({"modulus": 1}, "modulus"),
        ({"modulus": 2**62 + 1}, "modulus"),
    ],
)
def test_wrong_parameters_are_named(change: dict[str, int], name: str) -> None:
    given = {"parties": 5, "honest": 3, "modulus": 100} | change
    with pytest.raises(ParameterError, match=name):
        fastdp.DiscreteLaplace(1, sensitivity=1).shares(**given)


LAPLACE, GAUSSIAN = {"sensitivity": 1, "scale": 3}, {"sensitivity": 1, "sigma": 9}


@pytest.mark.parametrize(
    ("kind", "of"),
    [
        (fastdp.LaplaceShares, LaplaceEvent(**LAPLACE)),
        (fastdp.LaplaceShares, TruncatedDiscreteLaplaceEvent(bound=9, **LAPLACE)),
        (fastdp.LaplaceShares, SkellamEvent(sensitivity=1, variance=9)),
        (fastdp.GaussianShares, GaussianEvent(**GAUSSIAN)),
        (fastdp.GaussianShares, DiscreteGaussianSumEvent(shares=5, **GAUSSIAN)),
        (fastdp.SkellamShares, DiscreteGaussianEvent(**GAUSSIAN)),
        (fastdp.SkellamShares, None),
    ],
)
def test_only_the_noise_of_the_shares_is_claimed(
    kind: type[Any], of: Event | None
) -> None:
    with pytest.raises(DTypeError, match=r"^of must be a "):
        kind(of=of, parties=2, honest=1, modulus=99)


def test_noise_beyond_the_kernels_is_refused_at_once() -> None:
    tiny = Fraction(1, 10**400)
    for kind, of in (
        (fastdp.LaplaceShares, DiscreteLaplaceEvent(sensitivity=1, scale=tiny)),
        (fastdp.GaussianShares, DiscreteGaussianEvent(sensitivity=1, sigma=tiny)),
    ):
        with pytest.raises(ParameterError, match=r"^(scale|sigma) must be in"):
            kind(of=of, parties=2, honest=1, modulus=99)


def test_no_other_copy_of_a_share_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.array([5, -3])
    wiped: list[object] = []
    monkeypatch.setattr(_points, "draw", lambda *_: drawn)
    monkeypatch.setattr(_core, "zero", wiped.append)
    sent = shares_of(3, 2).add_share(np.array([1, 1]))
    assert sent.tolist() == [6, 2**40 - 2]
    assert len(wiped) == 1
    assert wiped[0] is drawn


def test_what_has_no_guarantee_is_refused() -> None:
    with pytest.raises(ParameterError, match="honest"):
        shares_of(1, 2).event(honest=0)
    with pytest.raises(ParameterError, match="sensitivity"):
        fastdp.DiscreteLaplace(1).shares(parties=2, honest=2, modulus=9)
    with pytest.raises(ParameterError, match="scale"):
        shares_of(2**41, 2)
    with pytest.raises(DTypeError, match="x"):
        shares_of(1, 2).add_share(np.array([0.5]))
    with pytest.raises(DTypeError, match="stream"):
        shares_of(1, 2).add_share(np.array([1]), stream=3)  # type: ignore[arg-type]
