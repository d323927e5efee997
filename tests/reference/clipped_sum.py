"""Integers of the rows of a clipped sum, as docs/proofs/sums.md states them.

Sums of sixteen lanes are folded in the kernels' order, in doubles; what decides about
the bound is an integer.
"""

import math
import struct
from fractions import Fraction

LARGEST = 1.7976931348623157e308


def _folded(terms):
    lanes = [0.0] * 16
    for i, term in enumerate(terms):
        lanes[i % 16] += term
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[i] + lanes[i + half] for i in range(half)]
    return lanes[0]


def _head(y):
    """The first 26 bits of a double."""
    (bits,) = struct.unpack("<q", struct.pack("<d", y))
    return struct.unpack("<d", struct.pack("<q", bits & -(1 << 27)))[0]


def _measure(row, norm, single, parts):
    if parts is not None:  # added in their order
        total, at = 0.0, 0
        for size in parts:
            total += _measure(row[at : at + size], norm, single, None)
            at += size
        return total
    if norm == 1:
        return _folded(abs(y) for y in row)
    if single:
        return _folded(y * y for y in row)
    heads = [_head(y) for y in row]
    squares = _folded(h * h for h in heads)
    return squares + 2 * _folded(h * (y - h) for h, y in zip(heads, row, strict=True))


def _tamed(row, radius, step, norm):
    row = [0.0 if math.isnan(y) else min(max(y, -LARGEST), LARGEST) for y in row]
    largest = max(map(abs, row))
    if largest == 0:
        return row, 0.0
    exponent = math.frexp(largest)[1]
    row = [math.ldexp(y, -exponent) for y in row]
    total = 0.0
    for y in row:
        total += y * y if norm == 2 else abs(y)
    reach = radius / (math.sqrt(total) if norm == 2 else total)
    f = math.inf if exponent > 1023 else math.ldexp(1.0, exponent)
    shift = math.frexp(step)[1] - 1
    inside = f <= reach
    return row, math.ldexp(1.0, exponent - shift) if inside else reach / step


def _outside(z, limit, norm):
    return sum(v * v if norm == 2 else abs(v) for v in z) > limit


def clip(row, radius, step, norm, changed=None, single=False, parts=None):
    """Return the integers of one row (a list of floats), which may come in parts."""
    steps = Fraction(radius) / Fraction(step)
    most = math.floor(steps)
    if norm == "inf" or len(row) == 1:  # in one dimension all norms are one
        z, left = [], len(row) if changed is None else changed
        for y in row:
            v = 0.0 if math.isnan(y) else min(max(y / step, -most), most)
            z.append(round(v) if left > 0 else 0)
            left -= z[-1] != 0
        return z
    limit = math.floor(steps**2) if norm == 2 else most
    radius = float(radius)
    measure = _measure(row, norm, single, parts)
    if 2.0**-150 <= measure <= 2.0**250:
        length = math.sqrt(measure) if norm == 2 else measure
        factor = (1.0 if length <= radius else radius / length) / step
    else:
        row, factor = _tamed(row, radius, step, norm)
    if factor == 1 / step:
        z = [round(y * factor) for y in row]
        if not _outside(z, limit, norm):
            return z
    for _ in range(3):
        z = [math.trunc(y * factor) for y in row]
        if not _outside(z, limit, norm):
            return z
        factor *= 1 - len(row) * 2.0**-50
    return [0] * len(row)
