"""Group privacy: guarantees for `size` individuals together."""

from __future__ import annotations

import bisect
import itertools
import math
from fractions import Fraction

from fastdp import _validate
from fastdp._validate import Real, float_up
from fastdp.accounting._numeric import exp_up
from fastdp.accounting.conversions import capped_epsilon, up_to_one

__all__ = ["group_delta", "group_epsilon", "group_rho"]


def group_epsilon(*, epsilon: Real, size: int) -> Fraction:
    """Return the exact pure epsilon of a group of `size` individuals."""
    k = _validate.integer("size", size, 1)
    return k * _validate.nonnegative("epsilon", epsilon)


def group_delta(*, epsilon: Real, delta: Real, size: int) -> float:
    """Return delta of a group at `size` * epsilon, for an (epsilon, delta) guarantee.

    delta (exp(size epsilon) - 1)/(exp(epsilon) - 1), at most 1, rounded up.
    """
    e = float_up(capped_epsilon(epsilon))
    d = float_up(up_to_one(delta))
    k = _validate.integer("size", size, 1)
    if d == 0 or k == 1:
        return d
    # sum over i < k of exp(i e) = exp((k-1) e) (1 - exp(-k e))/(1 - exp(-e))
    share = math.log(math.expm1(-k * e) / math.expm1(-e)) if e > 0 else math.log(k)
    log_result = math.log(d) + (k - 1) * e + share
    slop = 1e-14 * (1 + (k - 1) * e + abs(math.log(d)))
    return 1.0 if log_result + slop >= 0 else exp_up(log_result + slop)


def group_rho(*, rho: Real, size: int) -> Fraction:
    """Return the exact rho of a group, size^2 rho (Bun and Steinke 2016, Prop 1.9)."""
    k = _validate.integer("size", size, 1)
    return k * k * _validate.nonnegative("rho", rho)


def harmonic_up(k: int) -> Fraction:
    """Return 1 + 1/2 + ... + 1/k, or a little more."""
    if k <= 100:
        return sum((Fraction(1, i) for i in range(1, k + 1)), Fraction(0))
    return Fraction(math.nextafter((1 + math.log(k)) * (1 + 1e-15), math.inf))


def group_trade_off(
    x: tuple[Fraction, ...], f: tuple[Fraction, ...], size: int
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Return the knots of 1 - (1 - f)^(size times), the trade-off of a group.

    With g = 1 - f, a test's power after i steps is at most g(power after i - 1 steps)
    (Dong, Roth and Su 2022, Theorem 2.14). Compositions of piecewise linear functions
    are piecewise linear; the knots are exact.
    """
    g = [1 - value for value in f]
    knots = list(zip(x, g, strict=True))
    for _ in range(size - 1):
        knots = _after(knots, x, g)
    rates, powers = zip(*knots, strict=True)
    return rates, tuple(1 - power for power in powers)


def _after(
    knots: list[tuple[Fraction, Fraction]], x: tuple[Fraction, ...], g: list[Fraction]
) -> list[tuple[Fraction, Fraction]]:
    """Return the knots of g(h) for nondecreasing concave h with these knots."""
    found: dict[Fraction, Fraction] = {}
    for (x0, h0), (x1, h1) in itertools.pairwise(knots):
        inside = [h for h in x if h0 < h < h1]
        places = [x0, *(x0 + (h - h0) * (x1 - x0) / (h1 - h0) for h in inside), x1]
        for place, h in zip(places, [h0, *inside, h1], strict=True):
            found[place] = _linear(x, g, h)
    return sorted(found.items())


def _linear(x: tuple[Fraction, ...], g: list[Fraction], at: Fraction) -> Fraction:
    """Return g at `at`, linear between its knots."""
    i = min(max(bisect.bisect_right(x, at), 1), len(x) - 1)
    share = (at - x[i - 1]) / (x[i] - x[i - 1])
    return g[i - 1] + share * (g[i] - g[i - 1])
