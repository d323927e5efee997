"""Group privacy: what holds for `size` individuals together."""

from __future__ import annotations

import math
from fractions import Fraction

from fastdp import _validate
from fastdp._validate import Real, float_up
from fastdp.accounting._numeric import exp_up
from fastdp.accounting.conversions import below_one, capped_epsilon

__all__ = ["group_delta", "group_epsilon", "group_rho"]


def group_epsilon(epsilon: Real, size: int) -> Fraction:
    """Return the exact pure epsilon of a group of `size` individuals.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    k = _validate.integer("size", size, 1)
    return k * _validate.nonnegative("epsilon", epsilon)


def group_delta(epsilon: Real, delta: Real, size: int) -> float:
    """Return delta of a group at `size` * epsilon, for an (epsilon, delta) guarantee.

    delta (exp(size epsilon) - 1)/(exp(epsilon) - 1), at most 1, rounded up.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    e = float_up(capped_epsilon(epsilon))
    d = float_up(below_one(delta))
    k = _validate.integer("size", size, 1)
    if d == 0 or k == 1:
        return d
    # sum over i < k of exp(i e) = exp((k-1) e) (1 - exp(-k e))/(1 - exp(-e))
    share = math.log(math.expm1(-k * e) / math.expm1(-e)) if e > 0 else math.log(k)
    log_result = math.log(d) + (k - 1) * e + share
    slop = 1e-14 * (1 + (k - 1) * e + abs(math.log(d)))
    return 1.0 if log_result + slop >= 0 else exp_up(log_result + slop)


def group_rho(rho: Real, size: int) -> Fraction:
    """Return the exact rho of a group, size^2 rho (Bun and Steinke 2016, Prop 1.9).

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    k = _validate.integer("size", size, 1)
    return k * k * _validate.nonnegative("rho", rho)
