"""Shuffled k-ary response, k >= 3, with few hiding reports: a sum over three counts.

delta(epsilon) = (E - 1)/n E[(a - x c - y (a + c + d))_+] with (a, c, d) multinomial
(docs/proofs/amplification.md, section 1). Given s = a + c, c ~ Bin(s, 1/2), and the
positive part is (1 + x)(r - c)_+, (1 + x) r = s (1 - y) - d y: two running sums over c
are enough for all d. All terms are positive.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp.accounting._amplification.binomial import log_factorial, log_sum

__all__ = ["log_delta_bounds"]

_Floats: TypeAlias = npt.NDArray[np.float64]

_U = 2.0**-52
#: Most entries of a table.
_TABLE = 1 << 20
#: -ln of the relative part that may be left out.
_DEEP = 28.0


def log_delta_bounds(
    local_epsilon: float, clients: int, categories: int, epsilon: float, log_size: float
) -> tuple[float, float]:
    """Return a lower and an upper bound on ln(delta); infinite for large tables.

    It holds for 0 <= epsilon < local_epsilon. The omitted part is about exp(log_size -
    28).
    """
    e, e0 = epsilon, local_epsilon
    log_grown = e0 + math.log(-math.expm1(-e0))  # ln(E - 1)
    log_x1 = e + math.log1p(math.exp(-e))  # ln(1 + x)
    log_others = math.log(categories - 2)
    log_rest = float(np.logaddexp(log_others, log_grown))
    # Outside the windows the positive part is at most n (1 + x), and n cancels.
    reach = _DEEP - log_size + log_grown + log_x1
    s = _window(
        clients, 2 * math.exp(-float(np.logaddexp(log_rest, math.log(2)))), reach
    )
    odds = log_others - log_grown
    chance = 1 / (1 + math.exp(-odds))
    d = np.union1d(
        _window(clients - int(s[0]), chance, reach)[[0, -1]],
        _window(clients - int(s[-1]), chance, reach)[[0, -1]],
    )
    d = np.arange(d[0], d[-1] + 1)
    if s.size * max(d.size, int(s[-1]) // 2) > _TABLE:
        return -math.inf, math.inf
    log_s, slip_s = _log_weights(
        s, np.array([[float(clients)]]), math.log(2) - log_rest
    )
    log_d, slip_d = _log_weights(d, clients - s[:, None], odds)
    log_mass = log_s.T + log_d
    rest = math.exp(-log_x1) * -math.expm1(e - e0) / -math.expm1(-e0)
    slant = math.exp(math.log(-math.expm1(-e)) + e - log_x1 - log_grown) if e else 0.0
    level = log_grown - math.log(clients) + log_x1
    outside = 2 * math.exp(-reach)
    result = []
    for sign in (-1.0, 1.0):
        gain, less = s[:, None] * rest, d * slant
        r = gain - less + sign * 8 * _U * (gain + less)
        hinge, slip = _log_hinges(s, r)
        value = max(log_sum(log_mass + hinge), -1e300)
        error = slip_s + slip_d + slip + _U * (4 * abs(value) + 4 * abs(level) + 2 * e0)
        error += _U * log_mass.size + 1e-14
        value += level + sign * error
        if sign > 0:
            value = float(np.logaddexp(value, log_grown + log_x1 - reach + math.log(4)))
        else:
            value += 2 * math.log1p(-outside)
        result.append(value)
    return result[0], result[1]


def _window(trials: int, chance: float, reach: float) -> _Floats:
    """Return counts with a mass of at most 2 exp(-reach) outside them (Bernstein)."""
    variance = trials * chance * (1 - chance)
    away = reach / 3 + math.sqrt(reach * reach / 9 + 2 * reach * variance) + 1
    first = max(0, math.floor(trials * chance - away))
    last = min(trials, math.ceil(trials * chance + away))
    return np.arange(first, last + 1, dtype=np.float64)


def _log_weights(
    counts: _Floats, trials: _Floats, log_odds: float
) -> tuple[_Floats, float]:
    """Return ln of binomial laws cut to these counts, one row each, with the error.

    It uses ratios of neighboring masses; a cut law is above the whole law.
    """
    left = trials - counts[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(left > 0, np.log(left / counts[1:]) + log_odds, -np.inf)
    logs = np.cumsum(steps, axis=1)
    logs = np.concatenate([np.zeros((len(logs), 1)), logs], axis=1)
    top = logs.max(axis=1, keepdims=True)
    logs = logs - top
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    # Partial sums of the ratios' logarithms stay between those at the ends and the top.
    finite = np.where(np.isfinite(logs), logs, 0.0)
    largest = float(np.max(-finite)) + float(np.max(top))
    slip = _U * counts.size * (2 * largest + 8 + 2 * abs(log_odds))
    return logs, slip


def _log_hinges(s: _Floats, r: _Floats) -> tuple[_Floats, float]:
    """Return ln E[(r - c)_+], c ~ Bin(s, 1/2), for a row of r each, and its error.

    It is the sum over j < I of P(c <= j), plus (r - I) P(c <= I), where I is the
    largest integer below r.
    """
    whole = np.ceil(r) - 1
    top = np.minimum(whole.max(axis=1), s)
    width = int(max(top.max(), 0)) + 1
    table = log_factorial(np.arange(int(s[-1]) + 1, dtype=np.float64))
    size = s.astype(np.int64)[:, None]
    column = np.arange(width)
    inside = column <= np.maximum(top, 0)[:, None]
    logs = table[size] - table[column] - table[np.maximum(size - column, 0)]
    peak = np.take_along_axis(
        logs, np.maximum(top, 0).astype(np.int64)[:, None], axis=1
    )
    law = np.where(inside, np.exp(np.minimum(logs - peak, 700.0)), 0.0)
    below = np.cumsum(law, axis=1)
    sums = np.cumsum(below, axis=1) - below
    at = np.clip(whole, 0, width - 1).astype(np.int64)
    value = np.take_along_axis(sums, at, axis=1)
    value += (r - whole) * np.take_along_axis(below, at, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.log(np.where(whole >= 0, value, 0.0)) + peak - size * math.log(2)
    error = _U * (16 * float(table[-1]) + 4 * width + 8 * float(s[-1]) + 8)
    return result, error
