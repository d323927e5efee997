"""Machine integers and floats: z3 looks for a counterexample and finds none.

A lemma yields claims; every variable of a claim stands for all of its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import z3

from ._lemma import prover

SECONDS = 20  # of one query
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
    "csrc/sampler/array_body.inc.h: (((uint64_t)a ^ sum) & ((uint64_t)b ^ sum));",
    "csrc/sampler/array_body.inc.h: limit = a < 0 ? INT64_MIN : INT64_MAX;",
    "csrc/sampler/digits_body.inc.h: limit = a < 0 ? INT64_MIN : INT64_MAX;",
    wrong=[{"most": 2**63 - 2}],
)
def add_saturate(most: int = 2**63 - 1) -> Iterator[Any]:
    # For all a, b: the sum in 65 bits, cut to [-2^63, 2^63 - 1].
    a, b = words("a b")
    total = a + b
    limit = z3.If(a < 0, z3.BitVecVal(-(2**63), 64), z3.BitVecVal(most, 64))
    result = z3.If(((a ^ total) & (b ^ total)) < 0, limit, total)
    exact = z3.SignExt(1, a) + z3.SignExt(1, b)
    least, largest = z3.BitVecVal(-(2**63), 65), z3.BitVecVal(2**63 - 1, 65)
    cut = z3.If(exact < least, least, z3.If(exact > largest, largest, exact))
    yield z3.SignExt(1, result) == cut
