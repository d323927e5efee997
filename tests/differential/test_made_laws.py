"""Laws as C makes them, field for field as the Python laws; and their arithmetic."""

import math
import random
import struct
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from fastdp import _core
from fastdp._exact import exp_neg
from fastdp.exceptions import FastDPError
from tests.differential.exact_programs import SANITIZERS, exact_program
from tests.law_fields import equal
from tests.reference import exact_bits

ROOT = Path(__file__).parents[2]
RANGES = {
    "laplace": (Fraction(1e-6), Fraction(2**55)),
    "gaussian": (Fraction(1, 1000), Fraction(2**55)),
}
#: The largest parameter of one digit.
DIGIT = {"laplace": Fraction(10), "gaussian": Fraction(87, 10)}
TINY = Fraction(1, 10**300)


def extremes(family: str) -> list[Fraction]:
    """Return ends of the range, of shifts, and of what fits in doubles."""
    low, high = RANGES[family]
    edges = [DIGIT[family] * 2**k for k in (0, 1, 3, 5, 6, 8, 9, 40, 51)]
    found = [low, low + TINY, high - TINY, high, Fraction(0.1), Fraction(1, 3)]
    found += [edge + turn for edge in edges for turn in (-TINY, 0, TINY)]
    if family == "laplace":  # where 1 / theta leaves what doubles hold
        found += [Fraction(1, 690), Fraction(1, 691), Fraction(1, 692)]
    return found


def drawn(family: str, rng: random.Random) -> Fraction:
    """Return a parameter of any size: a double, a short fraction, one of 2,200 bits."""
    low, high = RANGES[family]
    while True:
        x = Fraction(2.0 ** rng.uniform(-20, 55))
        kind = rng.randrange(4)
        if kind == 0:
            x = x.limit_denominator(1000)
        elif kind == 1:
            x *= 1 + Fraction(rng.getrandbits(300), 1 << 320)
        elif kind == 2:
            x *= Fraction(rng.getrandbits(2050) | 1, 1 << 2050)
        if low <= x <= high:
            return x


@pytest.mark.parametrize("family", RANGES)
def test_extremes_are_those_of_python(family: str) -> None:
    assert [x for x in extremes(family)[:6] if not equal(family, x)] == []


@pytest.mark.rest
@pytest.mark.parametrize("family", RANGES)
def test_borders_of_shifts_are_those_of_python(family: str) -> None:
    assert [x for x in extremes(family)[6:] if not equal(family, x)] == []


@pytest.mark.parametrize("family", RANGES)
def test_random_laws_are_those_of_python(family: str) -> None:
    rng = random.Random(5)
    parameters = [drawn(family, rng) for _ in range(12 if family == "laplace" else 3)]
    assert [x for x in parameters if not equal(family, x)] == []


@pytest.mark.slow
@pytest.mark.parametrize("family", RANGES)
def test_many_laws_are_those_of_python(family: str) -> None:
    rng = random.Random(6)
    parameters = [drawn(family, rng) for _ in range(10_000)]
    assert [x for x in parameters if not equal(family, x)] == []


def near(bits: int) -> Fraction:
    """Return a scale whose theta is within 2**-bits of a multiple of 2**-64."""
    from mpmath import mp

    with mp.workprec(bits + 200):
        theta = mp.mpf(0xB504F333F9DE6484 // 2) / 2**64
        t = -1 / mp.log(theta / (1 - theta))
        man, exp = int(mp.floor(mp.ldexp(t, bits + 64))), bits + 64
    return Fraction(man, 1 << exp)


@pytest.mark.parametrize("bits", [300, 2000])
def test_a_threshold_made_to_need_more_bits(bits: int) -> None:
    assert equal("laplace", near(bits))


def test_parameters_end_at_80_limbs() -> None:
    assert equal("laplace", near(5050))  # and all that they can need is read
    with pytest.raises(FastDPError, match="status 1"):
        _core.Sampler.laplace(near(5060))


@pytest.mark.parametrize(
    "make", [_core.Sampler.laplace, _core.Sampler.gaussian], ids=list(RANGES)
)
@pytest.mark.parametrize(
    "value", [Fraction(0), Fraction(1, 10**9), Fraction(2**55) + TINY]
)
def test_c_refuses_what_is_out_of_range(
    make: Callable[..., _core.Sampler], value: Fraction
) -> None:
    with pytest.raises(FastDPError, match="status 1"):
        make(value)


@pytest.mark.rest
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_arithmetic_and_every_size_of_memory(tmp_path: Path, sanitizer: str) -> None:
    """Division by its definition, laws in memory of 0, 1, 2, ... limbs: sanitized."""
    program = exact_program(tmp_path, "exact.c", sanitizer)
    run = subprocess.run([program], capture_output=True, text=True, env={})
    assert (run.returncode, run.stdout, run.stderr) == (0, "fine\n", "")


def test_values_within_a_bound_are_counted_by_integers() -> None:
    """2^53 P(|X| <= bound), and six deviations below the mean of a pass: no exponential
    of a C library says which words a value has."""
    rng = random.Random(9)
    for _ in range(200):
        t = drawn("laplace", rng)
        bound = min(int(t * Fraction(2.0 ** rng.uniform(-6.6, 5.5))) + 1, 2**62)
        law = _core.Sampler.laplace(t, bound)
        far = exp_neg((bound + 1) * t.denominator, t.numerator, 300)
        q = exp_neg(t.denominator, t.numerator, 300)
        low, high = (
            (2 * x << 354) // ((1 << 300) + y) >> 300
            for x, y in zip(far, q, strict=True)
        )
        assert low == high
        a = max(2**53 - (low + 1) // 2, 1)
        assert law.acceptance == a / 2**53
        root = math.isqrt(36 * 8192 * a * (2**53 - a) - 1) + 1 if a < 2**53 else 0
        sure = ((8192 * a - root - 2**55) >> 53) // 16 * 16
        assert law.chunk_outputs == (8192 if a == 2**53 else max(sure, 16)), (t, bound)


def test_a_bound_that_hardly_any_noise_keeps_to_is_refused() -> None:
    """A draw would go on for minutes, or years."""
    for t in (Fraction(901), Fraction(2**55), Fraction(9001, 10)):
        least = -(-t // 100)
        assert _core.Sampler.laplace(t, int(least)).acceptance > 0.009
        with pytest.raises(FastDPError, match="status 1"):
            _core.Sampler.laplace(t, int(least) - 1)


PROBABILITIES = [
    *(Fraction(p) for p in (0, 1, "1/2", "1/3", 0.1, 1e-300, "1/18446744073709551616")),
    *(1 - Fraction(p) for p in (1e-300, 2**-64, "1/1000")),
]


def spelled(p: Fraction) -> bytes:
    """Return the table that the kernels need, by the specification."""
    table = exact_bits.patterns(p)
    cuts = [min((cut << 64) // table.whole, 2**64 - 1) for cut in table.cut]
    planes = [bytes(cut >> (56 - 8 * b) & 255 for cut in cuts) for b in range(8)]
    return b"".join(planes) + table.alias


def test_patterns_are_those_of_python() -> None:
    rng = random.Random(7)
    drawn = [Fraction(rng.getrandbits(64), 2**64) for _ in range(8)]
    drawn += [Fraction(rng.getrandbits(99), 3**70) for _ in range(8)]
    drawn.append(Fraction(rng.getrandbits(2190), 3**1382))
    for p in (*PROBABILITIES, *drawn):
        assert _core.Bernoulli(p).structure()[: 9 * 256] == spelled(p), p


def test_rates_are_those_of_python() -> None:
    rng = random.Random(8)
    for k in (2, 3, 16, 64, 65, 1000, 65536, 65537, 2**31 - 1):
        for top in (1, 2**64 - 1, *(rng.getrandbits(64) for _ in range(9))):
            truth = Fraction(top, 2**64)
            rate = (k - 1) / (1 - truth)
            shift = 128 - int(rate).bit_length()
            scaled = int(rate * 2**shift)
            made = _core.Response(truth, k).structure()
            assert made[:12] == struct.pack("<III", k, 0, shift)
            wanted = struct.pack("<QQQ", scaled >> 64, scaled % 2**64, top)
            assert made[16:40] == wanted
        assert _core.Response(Fraction(1), k).structure()[:12] == struct.pack(
            "<III", k, 1, 0
        )


@pytest.mark.parametrize("p", [Fraction(4, 3), Fraction(1, 2**5120)], ids=["3", "long"])
def test_c_refuses_what_is_no_probability(p: Fraction) -> None:
    with pytest.raises(FastDPError, match="status 1"):
        _core.Bernoulli(p)
