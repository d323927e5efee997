"""Machine floats, by the solver of `integers`: conversions, choices, snapping."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import z3

from .integers import F64, RNE, as_double, lemma, words


def bits_of(name: str, sort: Any = F64) -> tuple[Any, Any]:
    """Return the bits of any float, and the float."""
    (bits,) = words(name, sort.ebits() + sort.sbits())
    return bits, z3.fpBVToFP(bits, sort)


@lemma(
    "kernels.md",
    "`fdp_to_small` are exact",
    "csrc/sampler/bits.h: ((uint64_t)n + 0x4338000000000000u) - 0x1.8p52",
    "csrc/sampler/bits.h: fdp_double_bits(x + 0x1.8p52) - 0x4338000000000000u",
    wrong=[{"size": 52}, {"anchor": 0x4330 << 48}],
)
def small_conversions(size: int = 51, anchor: int = 0x4338 << 48) -> Iterator[Any]:
    # For integers |n| < 2^51, fdp_from_small(n) = n, and adding 1.5 2^52 to it gives a
    # double whose bits are n beyond the anchor's.
    (n,) = words("n")
    given = z3.And(n < 1 << size, n > -(1 << size))
    placed, offset = as_double(n + anchor), z3.FPVal(1.5 * 2.0**52, F64)
    x = z3.fpSub(RNE, placed, offset)
    yield z3.Implies(given, x == z3.fpSignedToFP(RNE, n, F64))
    yield z3.Implies(given, z3.fpAdd(RNE, x, offset) == placed)


@lemma(
    "grid.md",
    "**Lemma 2 (snap).**",
    "csrc/sampler/array_body.inc.h: anchor = step * 0x1p52",
    "csrc/sampler/array_body.inc.h: snapped = (size + anchor) - anchor;",
    "csrc/sampler/array_body.inc.h: FDP_K(pick)(size < anchor, snapped, size)",
    wrong=[{"places": 53}, {"places": 51}],
)
def snap(places: int = 52) -> Iterator[Any]:
    # With g = 1, in double and (a format of its own) in float, where 52 is 23: |v| + A
    # - A for |v| < A = 2^52, else |v|, is the integer nearest to |v|, ties to even.
    for sort in (F64, z3.Float32()):
        _, v = bits_of("v", sort)
        anchor = z3.FPVal(2.0 ** (places - 53 + sort.sbits()), sort)
        snapped = z3.fpSub(RNE, z3.fpAdd(RNE, v, anchor), anchor)
        result = z3.If(z3.fpLT(v, anchor), snapped, v)
        given = z3.And(z3.Not(z3.fpIsNegative(v)), z3.Not(z3.fpIsInf(v)))
        given = z3.And(given, z3.Not(z3.fpIsNaN(v)))
        yield z3.Implies(given, z3.fpEQ(result, z3.fpRoundToIntegral(RNE, v)))


@lemma(
    "grid.md",
    "then to the largest finite double if that is infinite",
    "csrc/mech/target.c: above = 0 - (uint64_t)((limit - size) >> 63);",
    "csrc/mech/target.c: fdp_bits_double(sign | (limit & above) | (size & ~above))",
    wrong=[{"shift": 62}, {"limit": 0x7FF0 << 48}],
)
def clamp(shift: int = 63, limit: int = 0x7FEFFFFFFFFFFFFF) -> Iterator[Any]:
    # For every y but NaN, and the largest double and float: y cut to [-most, most].
    bits, y = bits_of("y")
    for most in (limit, 0x47EFFFFFE0000000):
        sign = bits & (1 << 63)
        size = bits ^ sign
        above = -z3.LShR(most - size, shift)
        result = as_double(sign | (above & most) | (size & ~above))
        largest = as_double(z3.BitVecVal(most, 64))
        cut = z3.If(z3.fpGT(y, largest), largest, y)
        cut = z3.If(z3.fpLT(y, -largest), -largest, cut)
        finite = z3.Not(z3.fpIsInf(result))
        yield z3.Implies(z3.Not(z3.fpIsNaN(y)), z3.And(z3.fpEQ(result, cut), finite))


@lemma(
    "kernels.md",
    "**Lemma 5 (logarithm).**",
    "csrc/sampler/digits_body.inc.h: split = fdp_double_bits(v) - 0x3fe6a09e667f3bcdu;",
    "csrc/sampler/digits_body.inc.h: "
    "fdp_bits_double((split & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;",
    "csrc/sampler/race_body.inc.h: split = fdp_double_bits(v) - 0x3fe6a09e667f3bcdu;",
    wrong=[{"root": 0x3FD6A09E667F3BCD}, {"root": 0x3FE6A09E667F3BCE}],
)
def split_logarithm(root: int = 0x3FE6A09E667F3BCD) -> Iterator[Any]:
    # For every positive normal v: v = 2^k m, the doubles nearest to sqrt(1/2) and
    # sqrt(2) are the ends of m's range, the double k is exact, and so is m - 1 (it is
    # the same rounded down and rounded up).
    bits, _ = bits_of("v")
    normal = z3.And(bits >= 1 << 52, bits < 0x7FF << 52)
    split = bits - root
    field = split & ((1 << 52) - 1)
    m_bits = field + root
    m = as_double(m_bits)
    k = as_double(z3.LShR(split + (1024 << 52), 52) | (0x4330 << 48))
    k = z3.fpSub(RNE, k, z3.FPVal(2.0**52 + 1024, F64))
    places = split >> 52
    yield z3.Implies(normal, bits == m_bits + (places << 52))
    yield z3.Implies(normal, z3.fpEQ(k, z3.fpSignedToFP(RNE, places, F64)))
    half, two = (z3.FPVal(x, F64) for x in (0.5**0.5, 2.0**0.5))
    yield z3.Implies(normal, z3.And(z3.fpLEQ(half, m), z3.fpLT(m, two)))
    one = z3.FPVal(1.0, F64)
    down, up = z3.fpSub(z3.RTN(), m, one), z3.fpSub(z3.RTP(), m, one)
    yield z3.Implies(normal, z3.fpEQ(down, up))


@lemma(
    "selection.md",
    "Scores are split into their bits",
    "csrc/exact/choice.c: a ^= (a & DOUBLE_SIGN) != 0 ? ~DOUBLE_SIGN : 0;",
    "csrc/exact/choice.c: return (int64_t)a < (int64_t)b;",
    wrong=[{"mask": (1 << 62) - 1}],
)
def order_of_bits(mask: int = (1 << 63) - 1) -> Iterator[Any]:
    # For all doubles but NaN: the order of the integers is that of the doubles, -0
    # before +0.
    a, x = bits_of("a")
    b, y = bits_of("b")
    first, second = (z3.If(c < 0, c ^ mask, c) for c in (a, b))
    given = z3.Not(z3.Or(z3.fpIsNaN(x), z3.fpIsNaN(y)))
    yield z3.Implies(z3.And(given, z3.fpLT(x, y)), first < second)
    yield z3.Implies(z3.And(given, first < second), z3.fpLEQ(x, y))
