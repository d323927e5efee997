"""Sinh-normal noise: its law to all digits, its draws, and its divergences."""

import itertools
import traceback
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import fastdp
from fastdp import _points
from fastdp.exceptions import DTypeError, EntropyError, ParameterError
from fastdp.mechanisms.noise import sinh
from fastdp.testing import FixedStream
from tests.privacy.streams import BrokenStream

LAWS = [("1/16", 1), (1, 9), ("7/3", "100/3"), (50, 100), (256, 2**40)]


def law_of(sigma, shape):
    return sinh.Law(Fraction(sigma), Fraction(shape))


def below(law, n):
    """Return P(X <= n) to 120 digits."""
    with mpmath.workdps(120):
        a, s = (mpmath.mpf(x.numerator) / x.denominator for x in (law.shape, law.sigma))
        t = a * mpmath.sinh((mpmath.mpf(n) + 0.5) / a) / s
        if abs(t) > 60:
            return mpmath.mpf(t > 0)  # to 700 digits
        return mpmath.ncdf(t)


# ---- the law -----------------------------------------------------------------------


@pytest.mark.parametrize("bits", [64, 160])
@pytest.mark.parametrize(("sigma", "shape"), LAWS)
def test_the_distribution_function_is_enclosed(sigma, shape, bits):
    law = law_of(sigma, shape)
    width = int(10 * law.sigma) + 2
    for n in {*range(-3, 3), *range(-width, width, max(width // 9, 1))}:
        low, high = law.enclosed(n, bits)
        assert 0 <= low <= high <= low + 2
        with mpmath.workdps(120):
            assert low <= mpmath.ldexp(below(law, n), bits) <= high


def test_pi_is_enclosed():
    for bits in (8, 100, 300):
        low, high = sinh._pi(bits)
        with mpmath.workdps(150):
            assert low < mpmath.ldexp(mpmath.pi, bits) < high
        assert high - low <= 2


@pytest.mark.parametrize("up", [0, 1])
def test_a_wrong_side_is_found(up, monkeypatch):
    """Bounds of the series that are exchanged leave the enclosure."""
    right = sinh._series
    monkeypatch.setattr(
        sinh,
        "_series",
        lambda t, places, p, _: right(t, places, p, up) + (-1) ** up * (1 << p - 70),
    )
    with pytest.raises(AssertionError):
        test_the_distribution_function_is_enclosed(50, 100, 160)


def test_ties_are_decided_by_further_bits():
    law = law_of(3, 30)
    first, cuts = _points._cuts(law)
    for i in (1, len(cuts) // 3, len(cuts) // 2):
        tied = [
            _points.quantile_of(int(cuts[i]), law, lambda _, b=bits: b * 16)
            for bits in (b"\0", b"\xff")
        ]
        assert tied == [first + i, first + i + 1]
    least = _points.quantile_of(0, law, lambda _: b"\0" * 15 + b"\1")
    most = _points.quantile_of(2**64 - 1, law, lambda _: b"\xff" * 15 + b"\xfe")
    assert least < first
    assert most >= first + len(cuts)


def test_draws_follow_the_law():
    law, n = law_of("7/3", "100/3"), 100_000
    drawn = _points.quantiles(n, law, FixedStream("law"))
    for k in range(-8, 9):
        p = float(below(law, k))
        assert (drawn <= k).mean() == pytest.approx(p, abs=5 * (p * (1 - p) / n) ** 0.5)


# ---- privacy -----------------------------------------------------------------------


def divergence(law, moved, order):
    """Return the Renyi divergence of the law from its shift, to 30 digits or more."""
    reach = 0
    while below(law, -reach) > mpmath.mpf(10) ** -80:
        reach += 1
    ends = [below(law, k) for k in range(-reach - moved, reach + 1)]
    with mpmath.workdps(120):
        half = [b - a for a, b in itertools.pairwise(ends)]
        p = dict(zip(range(-reach - moved + 1, reach + 1), half, strict=True))
        total = mpmath.mpf(0)
        for k in range(-reach, reach + 1):  # symmetric: tails from the left alone
            a, b = p.get(-abs(k)), p.get(-abs(k - moved))
            if a and b:
                total += a**order * b ** (1 - order)
        return float(mpmath.log(total) / (order - 1))


@pytest.mark.parametrize(
    ("sigma", "shape", "moved"),
    [(1, 9, 1), ("3/4", 9, 1), (3, 12, 1), (5, 40, 1), ("5/2", 33, 3), (8, "35/2", 2)],
)
def test_no_order_exceeds_the_event(sigma, shape, moved):
    m = fastdp.SinhNormal(
        Fraction(sigma), shape=Fraction(shape), sensitivity=moved, entries=1
    )
    event = m.event()
    for part in (0.01, 0.5, 0.99):
        order = 1 + (float(event.omega) - 1) * part
        found = divergence(m._law, moved, order)
        assert 0 < found <= float(event.rho) * order


def test_noise_that_is_too_narrow_is_found():
    m = fastdp.SinhNormal(5, shape=40, sensitivity=1, entries=1)
    assert divergence(law_of(1, 40), 1, 3.0) > float(m.event().rho) * 3


def test_an_event_counts_all_entries():
    known = {"shape": 100, "sensitivity": 2, "neighboring_relation": "replace_one"}
    one, four = (fastdp.SinhNormal(20, **known, entries=k).event() for k in (1, 4))
    assert one.rho == 8 * Fraction(1, 100)
    assert one.omega == four.omega == Fraction(100, 16)
    assert four.rho == 4 * one.rho
    assert one.neighboring_relation is fastdp.accounting.NeighboringRelation.REPLACE_ONE


def test_calibration_meets_what_is_asked():
    for rho, omega, moved, entries in ((0.1, 20, 1, 1), (Fraction(1, 3), 9, 3, 5)):
        known = {"sensitivity": moved, "entries": entries}
        event = fastdp.SinhNormal.from_tcdp(rho=rho, omega=omega, **known).event()
        assert Fraction(rho) * (1 - Fraction(1, 2**50)) <= event.rho <= Fraction(rho)
        assert event.omega == omega


# ---- releases ----------------------------------------------------------------------


def test_noise_is_added_to_integers():
    m = fastdp.SinhNormal(5, shape=50, sensitivity=1, entries=1)
    x = np.array([[0, 1000], [-(2**63), 2**63 - 1]])
    noisy = m.release(x, stream=FixedStream("x"))
    noise = m.release(np.zeros((2, 2), np.int8), stream=FixedStream("x"))
    assert noisy.dtype == np.int64
    assert (noisy == np.clip(x, -(2**62), 2**62) + noise).all()
    single = m.release(7, stream=FixedStream("x"))
    assert isinstance(single, np.int64)
    assert single == 7 + noise[0, 0]
    with pytest.raises(DTypeError, match="x must be an int"):
        m.release(0.5)
    with pytest.raises(DTypeError, match="integer array"):
        m.release(np.array([0.5]))


def test_no_error_shows_an_answer():
    m = fastdp.SinhNormal(5, shape=50, sensitivity=1, entries=1)
    secret = 7340 * 1000 + 193
    with pytest.raises(EntropyError) as caught:
        m.release(np.array([secret]), stream=BrokenStream(EntropyError("gone")))
    shown = "".join(traceback.format_exception(caught.value))
    assert str(secret) not in shown


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"sigma": 300}, "sigma"),
        ({"shape": 8}, "sensitivity must be below"),
        ({"sigma": Fraction(7, 10)}, "sensitivity must be below"),
        ({"sigma": 40}, "sensitivity must be below"),
        ({"entries": 0}, "entries"),
        ({"sensitivity": 0}, "sensitivity must be"),
    ],
    ids=str,
)
def test_what_the_theorem_does_not_cover_is_refused(wrong, match):
    usual = {"sigma": 5, "shape": 50, "sensitivity": 1, "entries": 1}
    fastdp.SinhNormal(**usual)
    with pytest.raises(ParameterError, match=match):
        fastdp.SinhNormal(**{**usual, **wrong})


@pytest.mark.parametrize(("rho", "omega"), [(32, 9), (Fraction(1, 10), 1), (0.004, 10)])
def test_calibration_refuses_by_the_names_that_were_given(rho, omega):
    with pytest.raises(ParameterError, match="rho must be below 16 entries"):
        fastdp.SinhNormal.from_tcdp(rho=rho, omega=omega, sensitivity=1, entries=2)


def test_a_fraction_that_no_accountant_takes_is_refused():
    long = 1 + Fraction(1, 10**400)
    with pytest.raises(ParameterError, match="at most 2200 bits"):
        fastdp.SinhNormal(5, shape=50, sensitivity=long, entries=1)
