"""Rounded Student's t with 3 degrees of freedom, drawn exactly in integers.

With (a, b) uniform in the unit disc, sqrt(3) b/(1 + a) has this law (ratio of
uniforms: the density's form makes the region an ellipse). p = (1 + a)/2 and q = |b|
are dyadic intervals; more bits are read until all points of the intervals are in the
disc and round to the same integer. docs/proofs/stability.md, section 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

#: Read this many bytes of p and of q at a time.
_BYTES = 16

_OUTSIDE = -1


def rounded_student(scale: Fraction, draw: Callable[[int], bytes]) -> int:
    """Return scale * T rounded to the nearest integer, with a fresh draw T.

    Parameters
    ----------
    scale : Fraction
        > 0.
    draw : callable
        Function from a number to this number of uniform, independent bytes.
    """
    while True:
        sign = -1 if draw(1)[0] & 1 else 1
        p = q = bits = 0
        found: int | None = None
        while found is None:
            raw = draw(2 * _BYTES)
            bits += 8 * _BYTES
            p = p << 8 * _BYTES | int.from_bytes(raw[:_BYTES], "little")
            q = q << 8 * _BYTES | int.from_bytes(raw[_BYTES:], "little")
            found = decided(scale, p, q, bits)
        if found != _OUTSIDE:
            return sign * found


def decided(scale: Fraction, p: int, q: int, bits: int) -> int | None:
    """Return the integer to which all points of a cell of (p, q) round.

    `_OUTSIDE` if all points lie outside the disc, where q**2 > 4 p (1 - p); None if the
    points differ.
    """
    one = 1 << bits
    near, far = p * (one - p), (p + 1) * (one - p - 1)  # p (1 - p) at the ends
    if q * q >= 4 * max(near, far):
        return _OUTSIDE
    if (q + 1) ** 2 > 4 * min(near, far):
        return None
    # Round x = |scale T| = scale sqrt(3) q/(2 p) as floor((2 x + 1)/2).
    factor, below = 3 * scale.numerator**2, scale.denominator**2
    low = (math.isqrt(factor * q**2 // (below * (p + 1) ** 2)) + 1) // 2
    high = (math.isqrt(factor * (q + 1) ** 2 // (below * p**2)) + 1) // 2
    return low if low == high else None
