"""Floating-point error of the kernels against the bounds they use.

The arithmetic of every kernel is repeated here operation by operation, with each
product that feeds a sum rounded and, again, contracted, and compared with the true
value at both ends of the cell of unread bits. The constants are read from the
sources, so that a bound made too small there fails here. docs/proofs/kernels.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fastdp import testing
from fastdp.exceptions import InsecureStreamWarning
from fastdp.mechanisms.noise import real
from tests.reference import exact_digits, exact_tilt

mpmath = pytest.importorskip("mpmath")

CSRC = Path(__file__).resolve().parents[2] / "csrc"
SAMPLER = {p.name: p.read_text() for p in (CSRC / "sampler").glob("*.[ch]")}
DIGITS = (CSRC / "mech" / "digits.c").read_text()
CONSTANTS = {
    name: float.fromhex(value)
    for name, value in re.findall(
        r"^#define FDP_(\w+) \(?(-?0x[0-9a-f.]+p[+-]\d+)f?\)?(?: |$)",
        SAMPLER["constants.h"],
        re.M,
    )
}
Array = np.ndarray[Any, Any]
Fused = Callable[[Any, Any, Any], Any]


def used(text: str, pattern: str) -> list[float]:
    """Return the hexadecimal or decimal constants that a pattern finds."""
    found = re.search(pattern, text)
    assert found is not None, pattern
    return [
        float.fromhex(g) if "x" in g else float(g)
        for g in (group.removesuffix("f") for group in found.groups())
    ]


NUMBER = r"([0-9a-fx.p+-]+f?)"
(ERROR,) = used(DIGITS, rf"tail\.error = law->tail\.scale \* {NUMBER};")
(RELATIVE,) = used(DIGITS, rf"error_relative = {NUMBER};")
(TRY_ERROR,) = used(
    SAMPLER["digits_body.inc.h"], rf"const double error = weight \* {NUMBER};"
)


# --- Arithmetic ---------------------------------------------------------------


def rounded(a: Any, b: Any, c: Any) -> Any:
    """a b + c with two roundings."""
    return a * b + c


def fused32(a: Any, b: Any, c: Any) -> Any:
    """a b + c with one rounding to float32 (and one to double, 2^-29 of it)."""
    return (np.float64(a) * np.float64(b) + np.float64(c)).astype(np.float32)


def fused64(a: Any, b: Any, c: Any) -> Any:
    """a b + c with one rounding to double."""
    exact = [
        float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))
        for x, y, z in np.broadcast(a, b, c)
    ]
    return np.array(exact).reshape(np.broadcast(a, b, c).shape)


SINGLE: list[Fused] = [rounded, fused32]
DOUBLE: list[Fused] = [rounded, fused64]


def horner(name: str, x: Any, mad: Fused) -> Any:
    """The polynomial of a header macro."""
    kind = x.dtype.type
    powers = sorted(
        int(key.rsplit("_C", 1)[1])
        for key in CONSTANTS
        if re.fullmatch(rf"{name}_C\d+", key)
    )
    p = np.full(x.shape, CONSTANTS[f"{name}_C{powers[-1]}"], kind)
    for k in reversed(powers[:-1]):
        p = mad(x, p, kind(CONSTANTS[f"{name}_C{k}"]))
    return p


def minus_log_times(v: Any, scale: Any, mad: Fused) -> Any:
    """y = scale * -(k ln 2 + log1p(f)) as the geometric kernel computes it."""
    split64 = v.view(np.int64) - np.int64(0x3FE6A09E667F3BCD)
    k = (split64 >> 52).astype(np.float64)
    f = ((split64 & (1 << 52) - 1) + np.int64(0x3FE6A09E667F3BCD)).view(np.float64) - 1
    log = mad(f * f, horner("LOG", f, mad), f)
    log = mad(k, CONSTANTS["LN2_LO"], log)
    return -scale * mad(k, CONSTANTS["LN2_HI"], log)


# --- Tails of the first digit of a Laplace law --------------------------------


class Tail(NamedTuple):
    """What the kernel is given, and theta to 128 bits."""

    t: Fraction
    j: int
    theta64: int
    scale: float
    inv_w0: float
    inv_w1: float
    theta128: int


def law(t: float) -> Tail:
    table = exact_digits.laplace(Fraction(t))
    lo, hi = exact_digits.flip(table.t.numerator, table.t.denominator, 400)
    assert lo >> 272 == hi >> 272
    return Tail(table.t, table.shift, *table.geometric(), lo >> 272)


@pytest.mark.rest
@pytest.mark.parametrize("mad", DOUBLE)
def test_signed_geometric_is_within_its_bound(mad: Fused) -> None:
    rng, ratios, plain = np.random.default_rng(4), [], []
    for t in [1e-6, 0.04, 1.0, 10.0, 77.7, 4096.0, 2.0**55]:
        table = law(t)
        count = 120 if mad is fused64 else 700
        lefts = [int(2.0**e) for e in rng.uniform(5, 63.9, count)]
        lefts += [32 + i for i in range(40)]
        lefts += [int(math.sqrt(0.5) * 2**e / table.inv_w0) for e in range(6, 64)]
        top = (1 << 64) - 1
        words = [table.theta64 + v for v in lefts if table.theta64 + v <= top]
        words += [v for v in lefts if v < table.theta64]
        theta = Fraction(table.theta128, 1 << 128)
        negative = np.array([w < table.theta64 for w in words])
        d = [w if w < table.theta64 else w - table.theta64 for w in words]
        a = np.array([float(v >> 1) for v in d]) + 0.25
        inverse = np.where(negative, table.inv_w1, table.inv_w0) * 2.0**-63
        y = minus_log_times(a * inverse, np.float64(table.scale), mad)
        cell = 2.0 ** -np.floor(np.log2(a))
        bound = ERROR * table.scale + RELATIVE * y + table.scale * cell
        with mpmath.workprec(180):
            exact_t = table.t / (1 << table.j)
            t_mp = mpmath.mpf(exact_t.numerator) / exact_t.denominator
            for i, u in enumerate(words):
                whole = theta if negative[i] else 1 - theta
                ends = []
                for more in (0, 1):
                    v = Fraction(u + more, 1 << 64) - (0 if negative[i] else theta)
                    q = v / whole
                    true = -t_mp * mpmath.log(mpmath.mpf(q.numerator) / q.denominator)
                    ends.append(float(abs(true - float(y[i]))))
                ratios.append(max(ends) / bound[i])
                q = Fraction(int(a[i] * 4), 1 << 65) / whole  # the computed center
                true = -t_mp * mpmath.log(mpmath.mpf(q.numerator) / q.denominator)
                gap = float(abs(true - float(y[i])))
                plain.append(gap / (ERROR * table.scale + RELATIVE * y[i]))
    print(max(ratios), max(plain))
    assert 1 / 2 < max(ratios) < 1
    assert 1 / 64 < max(plain) < 1


def test_the_least_word_needs_its_guard() -> None:
    """1 / a bounds the cell's cost from 3 on; the kernels begin at 16."""
    assert "(a < 16.0" in SAMPLER["digits_body.inc.h"]
    for a in (3.25, 16.25, 1000.25):
        assert -math.log1p(-0.75 / a) < 1 / a
    assert -math.log1p(-0.75 / 1.25) > 0.8


# --- Gaussian -----------------------------------------------------------------


def double_density(m: Array, i2: float, mad: Fused) -> Array:
    """exp(-m^2 i2) as tries computes it, m > 0."""
    z = np.minimum(m * m * i2, 600.0)
    k = np.rint(z * CONSTANTS["LOG2E"])
    r = mad(k, CONSTANTS["LN2_LO"], mad(k, CONSTANTS["LN2_HI"], -z))
    p = mad(r, horner("EXP", r, mad), np.float64(1))
    result: Array = p * np.ldexp(1.0, -k.astype(np.int64))
    return result


@pytest.mark.parametrize("mad", DOUBLE)
def test_tries_are_within_their_bound(mad: Fused) -> None:
    """What the digits leave of a weight, in units of the weight at zero."""
    worst = 0.0
    rng = np.random.default_rng(8)
    for sigma in [8.8, 10.0, 700.0, 1e6, 2.0**34 - 1, 2.0**55]:
        law = exact_tilt.Tilted(Fraction(sigma))
        _, weight, inverse_2var, _ = law.doubles()
        count = 4 if mad is fused64 else 24
        lows = [int(rng.integers(0, 1 << law.shift)) for _ in range(count)]
        ms = [(h << law.shift) + low for h in range(63) for low in lows if h + low]
        f = double_density(np.array([float(m) for m in ms]), inverse_2var, mad)
        with mpmath.workprec(160):
            unit = mpmath.mpf(law.unit(160)[0]) / 2**160
            variance = 2 * mpmath.mpf(law.sigma.numerator) ** 2
            variance /= mpmath.mpf(law.sigma.denominator) ** 2
            for m, computed in zip(ms, f, strict=True):
                taken = law.counts[64 + (m >> law.shift)] * law.share(
                    m >> law.shift, (m & (1 << law.shift) - 1) >> law.low
                )
                left = mad(np.float64(weight), computed, np.float64(-taken))
                true = unit * mpmath.exp(-(mpmath.mpf(m) ** 2) / variance) - taken
                off = float(abs(mpmath.mpf(float(left)) - true))
                worst = max(worst, off / (weight * TRY_ERROR))
    assert 1 / 256 < worst < 1 / 4


# --- 128 bits -----------------------------------------------------------------


def exp_minus(r: int) -> int:
    """settle.c: 2^127 exp(-r 2^-127)."""
    one = 1 << 127
    z, total = r >> 4, one
    for n in range(20, 0, -1):
        total = one - (z * total >> 128) // n
    for _ in range(5):
        total = (total * total >> 128) << 1
    return total


def test_fixed_point_exponential() -> None:
    rng = np.random.default_rng(9)
    worst = 0.0
    with mpmath.workprec(300):
        for x in [0.0, 1e-12, 0.7, 1.4999, *rng.uniform(0, 0.7, 400)]:
            r = int(x * 2**80) << 47 | int(rng.integers(0, 1 << 47))
            true = mpmath.exp(-mpmath.mpf(r) / 2**127) * 2**127
            worst = max(worst, float(abs(exp_minus(r) - true)))
    print(worst)
    assert 2 < worst < 150  # lemma 9; settle.c states 512


# --- What the kernels may read, and the sum on the grid -----------------------


def on_grid(x: float, step: Fraction, low: float, high: float, nan: float) -> Fraction:
    """The multiple of the step nearest to x, ties to even."""
    v = min(max(nan if math.isnan(x) else x, low), high)
    return round(Fraction(v) / step) * step


HARD = [
    *(0.0, -0.0, 0.1, -0.1, 1 / 3, 1e-310, -5e-324, 1e300, -1e308, 1.7e308),
    *(math.nan, math.inf, -math.inf, 2.0**52, 2.0**53 + 2, 3 * 2.0**51 + 0.5),
]


@pytest.mark.parametrize("step", [2.0**-30, 1.0, 2.0**-1000, 2.0**900])
@pytest.mark.parametrize("bounds", [None, (-0.3, 7.7)])
def test_grid_sum_is_the_rounded_exact_sum(
    step: float, bounds: tuple[float, float] | None
) -> None:
    exact = Fraction(step)
    # Ties, neighbors of ties and of the anchor 2^52 g, and plain values.
    near = [Fraction(k, 2) + Fraction(e, 2**40) for k in range(9) for e in (-1, 0, 1)]
    near += [2**52 + Fraction(k, 2) for k in range(-6, 7)]
    x = np.array(HARD + [float(v * exact) for v in near if v * exact < 2**1020])
    with np.errstate(over="ignore"):
        x32 = x.astype(np.float32)
    largest = float(np.finfo(np.float64).max)
    low, high = bounds or (-largest, largest)
    nan = low if bounds else 0.0
    for steps in (5, 2**39 + 1):
        mechanism = real.Laplace(
            steps * exact, granularity=exact, answer_bounds=bounds, coordinates=1
        )
        zeros = mechanism.release(np.zeros(x.size), stream=fixed())
        got = mechanism.release(x, stream=fixed())
        single = mechanism.release(x32, stream=fixed())
        assert not np.signbit(got[got == 0]).any()
        # bounds need not contain a grid point: take the noise off what 0 became
        noise = [
            Fraction(float(z)) - on_grid(0.0, exact, low, high, nan) for z in zeros
        ]
        assert len({float(n) for n in noise}) > 5
        for v, n, y, f, narrow in zip(x, noise, got, single, x32, strict=True):
            assert n.denominator == 1 or (n / exact).denominator == 1
            true = on_grid(float(v), exact, low, high, nan) + n
            assert y == float(min(max(true, -Fraction(largest)), Fraction(largest)))
            true32 = on_grid(float(narrow), exact, low, high, nan) + n
            true32 = min(max(true32, -Fraction(largest)), Fraction(largest))
            assert f == np.float32(np.clip(float(true32), -MOST32, MOST32))


MOST32 = float(np.finfo(np.float32).max)


def fixed() -> testing.FixedStream:
    with pytest.warns(InsecureStreamWarning):
        return testing.FixedStream("bounds")
