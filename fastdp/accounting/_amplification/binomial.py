"""Binomial laws with directed bounds: windows, fair coins, means of positive parts.

Proofs: docs/proofs/amplification.md, section 1.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp.accounting._series import gauss_legendre

Floats: TypeAlias = npt.NDArray[np.float64]

#: Cut the integral of the tail ratio at this exponent, at a relative error of e^-36.
_CUT = 36.0
_NODES = 40
#: Relative error charged to the tail ratio, and to a logarithm of a binomial law.
_RATIO_ERROR = 1e-13
_LOG_ERROR = 1e-13
_HALF_LOG_2PI = 0.9189385332046727


@functools.cache
def _stirling_table() -> Floats:
    """Return ln(n!) - ln(sqrt(2 pi n) (n/e)^n) for n = 1..15; 0 at n = 0."""
    table = [0.0]
    for n in range(1, 16):
        value = math.log(math.factorial(n)) + n - (n + 0.5) * math.log(n)
        table.append(value - _HALF_LOG_2PI)
    return np.array(table)


def _stirling(n: Floats) -> Floats:
    """Return the error of Stirling's formula for ln(n!), with absolute error 1e-15."""
    far = np.maximum(n, 16.0)
    square = far * far
    series = (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square
    series = (1 / 12 - (1 / 360 - series) / square) / far
    near = np.minimum(n, 15.0).astype(np.int64)
    return np.where(n < 16, _stirling_table()[near], series)


def log_factorial(n: Floats) -> Floats:
    """Return ln(n!) for integers n >= 0, within a few units in the last place."""
    some = np.maximum(n, 1.0)
    value = (some + 0.5) * np.log(some) - some + _HALF_LOG_2PI + _stirling(some)
    return np.where(n < 2, 0.0, value)


def _log_fair(trials: Floats, hits: Floats) -> Floats:
    """Return ln(C(trials, hits) 2^-trials) for trials/2 < hits <= trials."""
    misses = trials - hits
    y = (hits - misses) / trials
    near = np.minimum(y, 0.5)
    deviance = near * np.arctanh(near) + np.log1p(-near * near) / 2
    some = np.maximum(misses, 1.0)
    logs = y * np.log(hits / some) + np.log(4 * (hits / trials) * (some / trials))
    deviance = trials * np.where(y > 0.5, logs / 2, deviance)
    spread = np.log(trials / hits / some) / 2 - _HALF_LOG_2PI
    part = _stirling(trials) - _stirling(hits) - _stirling(misses)
    whole = -trials * math.log(2)
    return np.where(misses == 0, whole, part + spread - deviance)


def _tail_ratio(trials: Floats, hits: Floats) -> Floats:
    """Return P(a >= hits)/P(a = hits), a ~ Bin(trials, 1/2), 2 hits > trials.

    It is hits times the integral over u > 0 of exp(-hits u) (2 - exp(-u))^misses,
    whose logarithm is concave and falls.
    """
    misses = trials - hits
    gap = hits - misses
    end = 2 * _CUT / (gap + np.sqrt(gap * gap + 4 * _CUT * misses))
    for _ in range(2):  # tangents to a concave function: from now on beyond the root
        small = -np.expm1(-end)
        value = misses * np.log1p(small) - hits * end
        slope = misses * (1 - small) / (1 + small) - hits
        end = end - (value + _CUT) / slope
    x, w = gauss_legendre(_NODES)
    total = np.zeros_like(end)
    for node, weight in zip(x.tolist(), w.tolist(), strict=True):
        u = node * end
        total += weight * np.exp(misses * np.log1p(-np.expm1(-u)) - hits * u)
    return np.asarray(hits * end * total)


def log_hinge(trials: Floats, v: Floats, rest: Floats, upper: bool) -> Floats:
    """Return ln E[(a - trials/2 - v)_+], a ~ Bin(trials, 1/2), v >= 0, in a direction.

    `rest` is trials/2 - v, which the caller has with more digits than v.
    """
    sign = 1.0 if upper else -1.0
    inside = rest > 0
    m = np.where(inside, np.floor(trials / 2 + v) + 1, trials)
    m = np.clip(m, np.floor(trials / 2) + 1, trials)
    ratio = _tail_ratio(trials, m) * (1 - sign * _RATIO_ERROR)
    ratio = np.maximum(ratio, 1.0)
    value = m / 2 - v * ratio + sign * 4e-16 * (m + v * ratio)
    value = np.where(m == trials, rest * (1 + sign * 1e-14), value)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = _log_fair(trials, m) + np.log(np.maximum(value, 0.0))
        error = _LOG_ERROR + 4e-15 * np.abs(result)
        result = np.where(np.isfinite(result), result + sign * error, result)
    return np.where(inside, result, -np.inf)


@dataclass(frozen=True)
class Window:
    """The binomial law over blocks of consecutive counts that hold nearly all of it."""

    #: First and last count of each block.
    low: Floats
    high: Floats
    #: ln of each block's probability, rounded up by at most `slop`.
    log_weight: Floats
    slop: float
    #: Log upper bounds on the mass below the first block and above the last.
    log_below: float
    log_above: float
    #: The counts that are left out have a probability of about exp(-reach).
    reach: float

    @property
    def log_kept(self) -> float:
        """Logarithm of a lower bound on the probability of all blocks."""
        lost = float(np.logaddexp(self.log_below, self.log_above))
        return math.log(-math.expm1(lost)) if lost < 0 else -math.inf


def window(
    trials: int, log_odds: float, reach: float, blocks: int, grain: float = 0.0
) -> Window:
    """Return Bin(trials, p) in at most `blocks` blocks, p given by its log-odds.

    The width of a block is `grain` times the mode, or more if `blocks` blocks would not
    suffice.
    """
    p = 1 / (1 + math.exp(-log_odds)) if log_odds > -700 else 0.0
    other = 1 / (1 + math.exp(log_odds)) if log_odds < 700 else 0.0
    mode = min(trials, int(p * (trials + 1)))
    spread = math.sqrt(2 * reach * trials * p * other) + reach + 2
    first, last = max(0, int(mode - spread)), min(trials, int(mode + spread) + 1)
    counts = np.arange(first, last + 1, dtype=np.float64)
    steps = np.log((trials - counts[:-1]) / counts[1:]) + log_odds
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    logs -= logs[mode - first]
    largest = float(np.max(np.abs(logs)))
    slop = 2e-16 * len(counts) * (largest + 4 + abs(log_odds)) + 1e-15
    logs -= np.log(np.sum(np.exp(logs)))
    size = max(1, -(-len(counts) // blocks), int(grain * mode))
    starts = np.arange(0, len(counts), size)
    weights = np.add.reduceat(np.exp(logs), starts)
    with np.errstate(divide="ignore"):
        log_weight = np.log(weights) + slop
    ends = np.append(starts[1:], len(counts)) - 1
    below = _outside(float(logs[0]), first, trials + 1 - first, -log_odds) + slop
    above = _outside(float(logs[-1]), trials - last, last + 1, log_odds) + slop
    ends = ends.astype(np.int64)
    return Window(
        counts[starts], counts[ends], log_weight, 2 * slop, below, above, reach
    )


def _outside(log_end: float, more: int, back: int, log_odds: float) -> float:
    """Return ln of a bound on a binomial tail beyond its end, by a geometric series.

    `more` counts are beyond the end; the ratio of the first of them to the end is
    more/back times the odds.
    """
    if more == 0:
        return -math.inf
    log_ratio = math.log(more / back) + log_odds
    if log_ratio > -1e-9:
        return 0.0
    return log_end + log_ratio - math.log(-math.expm1(log_ratio)) + 1e-12


def log_sum(logs: Floats) -> float:
    """Return ln of the sum of exp, rounded to some units in the last place."""
    top = float(np.max(logs))
    if top == -math.inf:
        return top
    return top + math.log(float(np.sum(np.exp(logs - top))))
