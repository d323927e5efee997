"""Machine integers and floats: z3 looks for a counterexample and finds none.

A lemma yields claims; every variable of a claim stands for all of its values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import z3

from ._header import TEXT as HEADER
from ._lemma import prover

SECONDS = 90  # of one query
QUARTER, SQUARES, SIZES = z3.Q(1, 4), z3.Q(9, 4), z3.Q(5, 2)
RNE = z3.RNE()
F64, F32 = z3.Float64(), z3.Float32()


def prove(claims: Iterable[Any]) -> str:
    """Ask for a counterexample of each claim."""
    for claim in claims:
        solver = z3.Solver()
        solver.set("timeout", 1000 * SECONDS)
        solver.add(z3.Not(claim))
        answer = str(solver.check())
        if answer != "unsat":
            return "refuted" if answer == "sat" else f"z3 says {answer}"
    return "proved"


lemma = prover(prove)


def words(names: str, bits: int = 64) -> Any:
    return z3.BitVecs(names, bits)


def wide(x: Any, bits: int = 128) -> Any:
    """Return x zero-extended."""
    return z3.ZeroExt(bits - x.size(), x)


def low64(x: Any) -> Any:
    """(uint64_t)x."""
    return z3.Extract(63, 0, x)


def as_double(bits: Any) -> Any:
    return z3.fpBVToFP(bits, F64)


# ---- 128-bit products -----------------------------------------------------------


@lemma(
    "kernels.md",
    "Lemma 12",
    "csrc/base/mul128.h: mid1 = (fdp_u128_t)a1 * b0 + (uint64_t)(low >> 64);",
    "csrc/base/mul128.h: mid2 = (fdp_u128_t)a0 * b1 + (uint64_t)mid1;",
    "csrc/base/mul128.h: return (fdp_u128_t)a1 * b1 + (uint64_t)(mid1 >> 64) + "
    "(uint64_t)(mid2 >> 64);",
    wrong=[{"high": 65}, {"carry": 63}],
)
def product_by_parts(high: int = 64, carry: int = 64) -> Iterator[Any]:
    # For all a, b < 2^128, in arithmetic mod 2^128, fdp_mul_high_u128(a, b) =
    # floor(a b / 2^128). The four products of halves are any numbers <= (2^64 - 1)^2.
    low, p10, p01, p11 = words("low p10 p01 p11", 128)
    most = z3.BitVecVal((2**64 - 1) ** 2, 128)
    mid1 = p10 + wide(low64(z3.LShR(low, 64)))
    mid2 = p01 + wide(low64(mid1))
    result = p11 + wide(low64(z3.LShR(mid1, carry))) + wide(low64(z3.LShR(mid2, high)))
    whole = wide(low, 256) + (wide(p10, 256) << 64) + (wide(p01, 256) << 64)
    whole += wide(p11, 256) << 128
    within = z3.And(*(z3.ULE(p, most) for p in (low, p10, p01, p11)))
    yield z3.Implies(within, result == z3.Extract(255, 128, whole))


# ---- conversions ---------------------------------------------------------------


@lemma(
    "kernels.md",
    "**Lemma 2 (conversions",
    "csrc/sampler/bits.h: fdp_bits_double((n & 0xffffffffu) | 0x4330000000000000u)",
    "csrc/sampler/bits.h: fdp_bits_double((n >> 32) | 0x4530000000000000u) - 0x1p84",
    "csrc/sampler/bits.h: return high + low;",
    wrong=[{"anchor": 0x4531 << 48}, {"bits": 31}],
)
def from_unsigned(anchor: int = 0x4530 << 48, bits: int = 32) -> Iterator[Any]:
    # The halves of fdp_from_unsigned are exact, so that only their sum rounds.
    (n,) = words("n", 32)
    low = as_double(wide(n, 64) | (0x4330 << 48)) - z3.FPVal(2.0**52, F64)
    high = as_double(wide(n, 64) | anchor) - z3.FPVal(2.0**84, F64)
    yield low == z3.fpUnsignedToFP(RNE, n, F64)
    yield high == z3.fpUnsignedToFP(RNE, wide(n, 64) << bits, F64)


@lemma(
    "kernels.md",
    "Large values",
    "csrc/sampler/bits.h: (int64_t)(((uint64_t)a ^ sum) & ((uint64_t)b ^ sum));",
    "csrc/sampler/bits.h: limit = (uint64_t)INT64_MAX + ((uint64_t)a >> 63);",
    "csrc/sampler/bits.h: gone = 0 - ((uint64_t)overflow >> 63);",
    "csrc/sampler/bits.h: (sum ^ ((sum ^ limit) & gone))",
    wrong=[{"most": 2**63 - 2}],
)
def add_saturate(most: int = 2**63 - 1) -> Iterator[Any]:
    # For all a, b: the sum in 65 bits, cut to [-2^63, 2^63 - 1].
    a, b = words("a b")
    total = a + b
    limit = z3.BitVecVal(most, 64) + z3.LShR(a, 63)
    gone = -z3.LShR((a ^ total) & (b ^ total), 63)
    result = total ^ ((total ^ limit) & gone)
    exact = z3.SignExt(1, a) + z3.SignExt(1, b)
    least, largest = z3.BitVecVal(-(2**63), 65), z3.BitVecVal(2**63 - 1, 65)
    cut = z3.If(exact < least, least, z3.If(exact > largest, largest, exact))
    yield z3.SignExt(1, result) == cut


@lemma(
    "kernels.md",
    "Large values",
    "csrc/mech/target.c: const fdp_i128_t whole = x.integer + noise;",
    "csrc/mech/target.c: const int64_t sum = whole < INT64_MIN ? INT64_MIN "
    ": whole > INT64_MAX ? INT64_MAX : (int64_t)whole;",
    wrong=[{"size": 127}],
)
def far_sum(size: int = 100) -> Iterator[Any]:
    # For all x and |noise| < 2^100, cut to 64 bits and then to the type of the output:
    # the sum cut to that type.
    (x,) = words("x")
    (noise,) = words("noise", 128)
    small = z3.And(noise <= (1 << size) - 1, noise > -(1 << size))
    whole = z3.SignExt(64, x) + noise
    exact = z3.SignExt(128, x) + z3.SignExt(64, noise)
    twice = cut(z3.Extract(63, 0, cut(whole, 64)), 16)
    yield z3.Implies(small, z3.SignExt(128, twice) == cut(exact, 16))


def cut(x: Any, bits: int) -> Any:
    """Return x clamped to the signed integers of `bits` bits, in its own width."""
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    least, most = z3.BitVecVal(least, x.size()), z3.BitVecVal(most, x.size())
    return z3.If(x < least, least, z3.If(x > most, most, x))


@lemma(
    "kernels.md",
    "**Lemma 6 (tilt).**",
    "csrc/sampler/digits_tilt.inc.h: odd = (uint16_t)((2 * size + 1) * far);",
    "csrc/sampler/digits_tilt.inc.h: t = (uint16_t)(((uint32_t)odd * slope) >> 16);",
    "csrc/sampler/digits_tilt.inc.h: m = (uint16_t)(size << 8 | (d ^ flip));",
    wrong=[{"blocks": 256}, {"slope": 9000}],
)
def tilted_words(blocks: int = 64, slope: int = 865) -> Iterator[Any]:
    # For all blocks, bytes and slopes in 16 bits, t equals its value in the integers
    # and fits signed comparisons, and both digits join without a carry.
    odd = (2 * blocks - 1) * 255
    yield z3.BoolVal(odd < 2**15 and odd * slope >> 16 < 428)
    size, digit = z3.BitVec("size", 32), z3.BitVec("digit", 32)
    within = z3.And(z3.ULT(size, blocks), z3.ULE(digit, 255))
    joined = z3.Extract(15, 0, (size << 8) | digit)
    exact = z3.ZeroExt(16, joined) == 256 * size + digit
    yield z3.Implies(within, z3.And(exact, joined >= 0))


# ---- a digit's tail and the resolver's comparisons ---------------------------------


@lemma(
    "kernels.md",
    "**Lemma 3 (cell).**",
    "csrc/sampler/digits_body.inc.h: "
    "fdp_from_unsigned((u - (theta & ~negative)) >> 1) + 0.25;",
    wrong=[{"quarter": z3.Q(1, 8)}],
)
def tail_cell(quarter: Any = QUARTER) -> Iterator[Any]:
    # V = U or U - theta, 2^64 U in [u, u + 1), 2^64 theta in [floor, floor + 1): 2^63 V
    # is within 3/4 of floor(d / 2) + 1/4, d = u or u - floor.
    u, floor, left = z3.Ints("u floor left")
    real, theta = z3.Reals("real theta")
    cell = z3.And(
        u <= real, real < u + 1, floor <= theta, theta < floor + 1, floor >= 0
    )
    for d, v in ((u, real), (u - floor, real - theta)):
        halved = z3.And(2 * left <= d, d < 2 * left + 2, d >= 0)
        off = v / 2 - (left + quarter)
        yield z3.Implies(z3.And(cell, halved), z3.And(off >= -0.75, off <= 0.75))


@lemma(
    "bernoulli.md",
    "A pattern whose byte of U equals floor(256 cut), at most 255, is a *tie*.",
    "csrc/sampler/pattern_body.inc.h: u[i] == cut[i]",
    wrong=[{"most": 2}],
)
def tie(most: int = 1) -> Iterator[Any]:
    # For every cut in [0, 1] and every U with n known bits u, n = 8 and 64: u below
    # min(floor(2^n cut), 2^n - 1) implies U < cut, and u above it implies U >= cut.
    u, floor = z3.Ints("u floor")
    real, cut = z3.Reals("real cut")
    for n in (8, 64):
        known = z3.And(u >= 0, u < 2**n, u <= 2**n * real, 2**n * real < u + 1)
        floored = z3.And(floor <= 2**n * cut, 2**n * cut < floor + 1)
        kept = z3.If(floor > 2**n - most, 2**n - most, floor)
        given = z3.And(known, floored, cut >= 0, cut <= 1)
        yield z3.Implies(z3.And(given, u < kept), real < cut)
        yield z3.Implies(z3.And(given, u > kept), real >= cut)


@lemma(
    "local_randomizers.md",
    "**Second stage.**",
    "csrc/sampler/response_body.inc.h: FDP_K(lesser)((h + 2) >> shift, last)",
    "csrc/mech/response.c: unknown = ((fdp_u128_t)1 << (64 - bits)) + 1;",
    wrong=[{"two": 1}, {"one": 0}],
)
def carried_step(two: int = 2, one: int = 1) -> Iterator[Any]:
    # The product of U in [u, u + w) and a rate in [r, r + 1), both below 2^n, over 2^n,
    # has its integer part between h = floor(u r / 2^n) and h + w + 1; for 64 bits, of
    # which all are known but what follows, h + 2. P stands for u r.
    u, r, h, p = z3.Ints("u r h p")
    product = z3.Real("product")
    for n, wide_cell, most in ((64, 1, two), (128, 2**32, 2**32 + one)):
        above = p + u + wide_cell * r + wide_cell  # (u + w)(r + 1)
        ranges = [u >= 0, u + wide_cell <= 2**n, r >= 0, r < 2**n, p >= 0]
        ranges += [2**n * h <= p, p < 2**n * (h + 1)]
        inside = z3.And(*ranges, p <= 2**n * product, 2**n * product < above)
        yield z3.Implies(inside, z3.And(h <= product, product < h + most + 1))


# ---- selections in 128 bits ---------------------------------------------------------


@lemma(
    "selection.md",
    "A row without weight left takes floor(u m 2^-128), unless the cell is split.",
    "csrc/mech/inverse_settle.c: return rest <= 0 - (fdp_u128_t)left;",
    wrong=[{"spare": 1}],
)
def even_choice(spare: int = 0) -> Iterator[Any]:
    # With p = u m, m < 2^64 candidates, and rest its low 128 bits: rest <= -m mod 2^128
    # tells that all of [p, p + m] but its upper end has the same high part.
    (p,) = words("p", 256)
    (left,) = words("left")
    rest = z3.Extract(127, 0, p)
    decided = z3.ULE(rest, spare - wide(left))
    last = p + wide(left, 256) - 1
    given = z3.And(left != 0, z3.ULT(p, 1 << 192), decided)
    yield z3.Implies(given, z3.LShR(last, 128) == z3.LShR(p, 128))


@lemma(
    "selection.md",
    "**Lemma 6 (fine gaps).**",
    "csrc/mech/inverse_settle.c: "
    "size_b = down_b > 127 ? 0 : ((fdp_u128_t)part_b << 64) >> down_b;",
    "csrc/mech/inverse_settle.c: *place = most - 64;",
    wrong=[{"up": 63}, {"exact": 65}],
)
def fine_distance(up: int = 64, exact: int = 64) -> Iterator[Any]:
    # Two doubles, the larger exponent first, the other's `down` places lower: the
    # distance of their sizes is exact for down <= 64, else right to 2^-115 of it.
    a, b, down = words("a b down", 320)
    parts = [z3.ULT(a, 1 << 53), z3.ULT(b, 1 << 53), z3.ULE(down, 127)]
    scaled = b << up
    size = z3.LShR(scaled, down)
    yield z3.Implies(z3.And(*parts, z3.ULE(down, exact)), size << down == scaled)
    lost = scaled - (size << down)  # in units of 2^-down
    distance = ((a << up) - size) << down
    normal = z3.And(*parts, z3.UGE(a, 1 << 52), z3.UGT(down, 64))
    yield z3.Implies(normal, z3.And(z3.ULE(lost << 115, distance)))


@lemma(
    "selection.md",
    "**Lemma 7 (fine weights).**",
    "csrc/mech/inverse_settle.c: return ((fdp_u128_t)FDP_LN2_128_HI * k << 48) + "
    "((fdp_u128_t)FDP_LN2_128_LO * k >> 16);",
    wrong=[{"most": 94550}, {"drop": 17}],
)
def times_log_two(most: int = 94549, drop: int = 16) -> Iterator[Any]:
    # For k < 2^16 / ln 2 nothing leaves 128 bits, and the result is the floor of
    # k floor(2^128 ln 2) / 2^16.
    high, low = (
        int(re.search(rf"FDP_LN2_128_{half} UINT64_C\((\w+)\)", HEADER)[1], 16)  # type: ignore[index]
        for half in ("HI", "LO")
    )
    k, first, second, exact = z3.Ints("k first second exact")
    given = z3.And(k >= 0, k < most, first == k * high * 2**48)
    given = z3.And(given, floor_of(second, k * low, drop))
    given = z3.And(given, floor_of(exact, k * (high << 64 | low), 16))
    yield z3.Implies(given, z3.And(first + second == exact, exact < 2**128))


def floor_of(x: Any, numerator: Any, places: int) -> Any:
    """State that x = floor(numerator / 2^places)."""
    return z3.And(x * 2**places <= numerator, numerator < (x + 1) * 2**places)


# ---- sums of rows -------------------------------------------------------------------


@lemma(
    "sums.md",
    "Totals are pairs (high, low)",
    "fastdp/mechanisms/records/_totals.py: self._high += self._low >> 32",
    "fastdp/mechanisms/records/_totals.py: self._low &= 0xFFFFFFFF",
    wrong=[{"size": 63}, {"shift": 31}],
)
def carry(size: int = 62, shift: int = 32) -> Iterator[Any]:
    # The low half and what is added are below 2^62: the addition does not overflow, and
    # a carry keeps high 2^32 + low and takes low back to [0, 2^32).
    high, low, part = words("high low part")
    bound = 2**size - 1
    given = z3.And(low < bound, low > -bound, part < bound, part > -bound)
    given = z3.And(given, high < 2**61, high > -(2**61))
    summed = low + part
    high2, low2 = high + (summed >> shift), summed & 0xFFFFFFFF
    before = (z3.SignExt(64, high) << 32) + z3.SignExt(64, low) + z3.SignExt(64, part)
    after = (z3.SignExt(64, high2) << 32) + z3.SignExt(64, low2)
    yield z3.Implies(given, z3.And(before == after, low2 >= 0, low2 < 2**32))


@lemma(
    "sums.md",
    "clamped once to [-2^62, 2^62]",
    "fastdp/mechanisms/records/_totals.py: above, below = total >= edge, total < -edge",
    "fastdp/mechanisms/records/_totals.py: _clamp(total, -edge, edge - 1)",
    "fastdp/mechanisms/records/_totals.py: total[below] = -MOST",
    wrong=[{"edge": 2**30 + 1}, {"last": 2}],
)
def clamped_total(edge: int = 2**30, last: int = 1) -> Iterator[Any]:
    # For every total: the exact one, cut to [-2^62, 2^62].
    high, low = words("high low")
    held = z3.If(high < -edge, -edge, z3.If(high > edge - last, edge - last, high))
    total = (held << 32) + low
    total = z3.If(high >= edge, z3.BitVecVal(2**62, 64), total)
    total = z3.If(high < -edge, z3.BitVecVal(-(2**62), 64), total)
    exact = (z3.SignExt(64, high) << 32) + z3.SignExt(64, low)
    most = z3.BitVecVal(2**62, 128)
    cut = z3.If(exact < -most, -most, z3.If(exact > most, most, exact))
    given = z3.And(low >= 0, low < 2**32)
    yield z3.Implies(given, z3.SignExt(64, total) == cut)


@lemma(
    "sums.md",
    "1-Lipschitz",
    wrong=[{"pull": 2}],
)
def clamp_is_lipschitz(pull: int = 1) -> Iterator[Any]:
    # Two totals cut to the same interval are no further apart than before.
    a, b, most = z3.Reals("a b most")
    held = [z3.If(x < -most, -most * pull, z3.If(x > most, most, x)) for x in (a, b)]
    apart = z3.If(a > b, a - b, b - a)
    off = held[0] - held[1]
    yield z3.Implies(most > 0, z3.And(off <= apart, -off <= apart))


@lemma(
    "sums.md",
    "1 + |u| + |q| <= 5/2",
    "csrc/sampler/column_body.inc.h: *square = (FDP_SQUARED(u) + one / 2) >> c->bits;",
    "csrc/sampler/column_body.inc.h: squares -= there & half;",
    wrong=[{"squares": z3.Q(9, 4) - z3.Q(1, 2**30)}, {"sizes": z3.Q(9, 4)}],
)
def column_bounds(squares: Any = SQUARES, sizes: Any = SIZES) -> Iterator[Any]:
    # W = 2^k >= 2, u an integer, at W or at most W - 1; V >= 0 within 1/2 of u^2 / W;
    # q = V - W / 2.
    w, u, v = z3.Reals("w u v")
    q = v - w / 2
    near = z3.And(2 * w * v - 2 * u * u <= w, 2 * u * u - 2 * w * v <= w)
    given = z3.And(w >= 2, u >= 0, v >= 0, near)
    for own in (z3.And(u <= w - 1), z3.And(u == w, v == w)):
        size = z3.If(q < 0, -q, q)
        row = z3.And(
            w * w + u * u + q * q <= squares * w * w,
            w + u + size <= sizes * w,
            2 * size <= w,
        )
        yield z3.Implies(z3.And(given, own), row)


# ---- lobes of shuffled responses ------------------------------------------------


@lemma(
    "amplification.md",
    "(L7) *phase*",
    "fastdp/accounting/_amplification/shuffled_response.py: "
    "shared = self.near * self.far / (self.near + self.x**2 * self.far)",
    wrong=[{"second": z3.Q(1, 2)}, {"share": 3}],
)
def lobe_phase(second: Any = 2, share: Any = 1) -> Iterator[Any]:
    # In units of A and of f^2: s^2 + 2 B (1 - x' s)^2 is at least B/(1 + x'^2 B).
    s, b, x = z3.Reals("s b x")
    least = share * b
    both = (s * s + second * b * (1 - x * s) * (1 - x * s)) * (1 + x * x * b)
    yield z3.Implies(z3.And(b > 0, x > 0), both >= least)
