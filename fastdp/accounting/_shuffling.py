"""The pair of laws behind shuffled reports, summed with directed bounds.

A report of one client hides among those of the others that did not depend on their
values. With N such reports in sight, the client's own included, s of them at the two
values that are compared and a of these at the first,

    delta(epsilon) = E c/N E[(a - s/2 - v)_+],   a ~ Bin(s, 1/2),

where N - 1 is binomial and v, c are elementary (docs/proofs/amplification.md, section
1, which proves every step of this file). The inner mean is a closed form in one tail
ratio; the outer sum runs over blocks, at whose ends the terms are monotone.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp.accounting._numeric import root_above

Floats: TypeAlias = npt.NDArray[np.float64]

#: More clients are as private as this many, at least: a bound for these serves.
MOST_CLIENTS = 10**10
#: Most blocks of N = s in one sum; else of N, of s, and their width relative to both.
_CELLS = 16384
_OUTER, _INNER, _GRAIN = 96, 160, 2e-4
#: How far below its target ln(delta) may end.
_NEAR = 1e-8
#: Exponent at which the integral of the tail ratio is cut: relatively e^-36.
_CUT = 36.0
_NODES = 40
#: Relative error charged to the tail ratio, and to a logarithm of a binomial law.
_RATIO_ERROR = 1e-13
_LOG_ERROR = 1e-13
_HALF_LOG_2PI = 0.9189385332046727


@functools.cache
def _rule() -> tuple[Floats, Floats]:
    """Return nodes and weights of Gauss and Legendre on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(_NODES)
    return (x + 1) / 2, w / 2


@functools.cache
def _stirling_table() -> Floats:
    """Return ln(n!) - ln(sqrt(2 pi n) (n/e)^n) for n = 1..15; 0 at n = 0."""
    table = [0.0]
    for n in range(1, 16):
        value = math.log(math.factorial(n)) + n - (n + 0.5) * math.log(n)
        table.append(value - _HALF_LOG_2PI)
    return np.array(table)


def _stirling(n: Floats) -> Floats:
    """Return the error of Stirling's formula for ln(n!), absolutely within 1e-15."""
    far = np.maximum(n, 16.0)
    square = far * far
    series = (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square
    series = (1 / 12 - (1 / 360 - series) / square) / far
    near = np.minimum(n, 15.0).astype(np.int64)
    return np.where(n < 16, _stirling_table()[near], series)


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
    x, w = _rule()
    total = np.zeros_like(end)
    for node, weight in zip(x.tolist(), w.tolist(), strict=True):
        u = node * end
        total += weight * np.exp(misses * np.log1p(-np.expm1(-u)) - hits * u)
    return np.asarray(hits * end * total)


def log_hinge(trials: Floats, v: Floats, rest: Floats, upper: bool) -> Floats:
    """Return ln E[(a - trials/2 - v)_+], a ~ Bin(trials, 1/2), v >= 0, in a direction.

    `rest` is trials/2 - v, which its maker knows to more digits than v.
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
    #: ln of each block's probability, rounded up, and by how much at most.
    log_weight: Floats
    slop: float
    #: ln of upper bounds of what lies below the first and above the last block.
    log_below: float
    log_above: float
    #: What is left out has a probability of about exp(-reach).
    reach: float

    @property
    def log_kept(self) -> float:
        """Logarithm of a lower bound of the probability of all blocks."""
        lost = float(np.logaddexp(self.log_below, self.log_above))
        return math.log(-math.expm1(lost)) if lost < 0 else -math.inf


def window(
    trials: int, log_odds: float, reach: float, blocks: int, grain: float = 0.0
) -> Window:
    """Return Bin(trials, p) in at most `blocks` blocks, p given by its log-odds.

    Blocks are as wide as `grain` times the mode, or as `blocks` of them must be.
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
    """Return ln of a bound of a binomial tail beyond its end, by a geometric series.

    `more` counts lie beyond; the first of them has more/back odds of the end.
    """
    if more == 0:
        return -math.inf
    log_ratio = math.log(more / back) + log_odds
    if log_ratio > -1e-9:
        return 0.0
    return log_end + log_ratio - math.log(-math.expm1(log_ratio)) + 1e-12


@dataclass(frozen=True)
class ShuffledPair:
    """The laws of shuffled reports of two neighbouring datasets.

    Parameters
    ----------
    local_epsilon : float
        Pure epsilon of one report, > 0.
    clients : int
        Number of reports, >= 1.
    categories : int or None
        Of k-ary randomized response; None for any randomizer.
    """

    local_epsilon: float
    clients: int
    categories: int | None

    @property
    def log_odds(self) -> float:
        """Log-odds that another client's report hides: k to e^epsilon0 - 1."""
        e = self.local_epsilon
        log_expm1 = math.log(math.expm1(e)) if e < 40 else e
        return math.log(self.categories or 1) - log_expm1

    def window(self, log_delta: float, coarse: bool = False) -> Window:
        """Return the law of N - 1 for a delta of about exp(log_delta)."""
        trials = min(self.clients, MOST_CLIENTS) - 1
        reach = 26 - log_delta
        if (self.categories or 2) == 2:
            cells, grain = (256 if coarse else _CELLS), 0.0
        else:
            cells, grain = (8 if coarse else _OUTER), _GRAIN
        return window(trials, self.log_odds, reach, cells, grain)

    def log_delta(self, epsilon: float, law: Window, upper: bool = True) -> float:
        """Return ln of a bound of delta(epsilon) from above, or from below.

        For 0 <= epsilon < local_epsilon.
        """
        n = (law.low if upper else law.high) + 1
        given = self._log_terms(epsilon, n, upper, law.reach)
        terms = given + law.log_weight
        if not upper:
            return _log_sum(terms) + law.log_kept - law.slop - 1e-14
        # Beyond the last block delta is at most what it is there; below the first, 1.
        above = float(given[-1]) + law.log_above
        total = np.array([_log_sum(terms), above, law.log_below])
        return min(0.0, _log_sum(total) + law.slop + 1e-14)

    def _log_terms(
        self, epsilon: float, n: Floats, upper: bool, reach: float
    ) -> Floats:
        """Return ln(delta given N) for each N, in a direction."""
        e, e0 = epsilon, self.local_epsilon
        slant = math.tanh(e / 2)
        log_grown = e + math.log1p(math.exp(-e))  # ln(1 + e^epsilon)
        error = (4e-15 if upper else -4e-15) * (4 + e + e0)
        k = self.categories or 2
        if k == 2:
            share = slant / math.tanh(e0 / 2)
            share *= 1 - 1e-15 if upper else 1 + 1e-15
            log_rest = _log_sinh((e0 - e) / 2) - _log_sinh(e0 / 2)
            log_rest += math.log(2) - log_grown + e / 2  # -ln cosh(epsilon/2)
            rest = n / 2 * math.exp(log_rest)
            factor = math.log(2) + log_grown + math.log(math.tanh(e0 / 2)) + error
            hinge = log_hinge(n, n * share / 2, rest, upper)
            return np.asarray(factor - np.log(n) + hinge)
        grown = math.expm1(e0)
        factor = math.log(k) + log_grown + math.log(grown / (grown + k)) + error
        laws = [_inner_window(int(x), k, reach) for x in n.tolist()]
        inner = _log_inner(laws, epsilon, n, grown, upper)
        return np.asarray(factor - np.log(n) + inner)


def _log_inner(
    laws: list[Window], epsilon: float, n: Floats, grown: float, upper: bool
) -> Floats:
    """Return ln of the mean of the hinge at s, over the law of s given each N."""
    sizes = [len(law.low) for law in laws]
    low, high, log_weight = (
        np.concatenate([getattr(law, name) for law in laws])
        for name in ("low", "high", "log_weight")
    )
    # In a block the spread of a grows with s, and so does v: take the worse ends.
    many, few = (high, low) if upper else (low, high)
    sign, slant = (1.0 if upper else -1.0), math.tanh(epsilon / 2)
    hidden = np.repeat(n, sizes) / grown
    v = slant * (few / 2 + hidden) * (1 - sign * 2e-15)
    # few (1 - slant)/2 to all its digits
    first, second = few / (1 + math.exp(epsilon)), slant * hidden
    rest = (many - few) / 2 + first - second + sign * 4e-15 * (first + second)
    logs = log_hinge(np.maximum(many, 1.0), v, rest, upper)
    logs = np.where(many >= 1, logs, -np.inf) + log_weight
    parts = np.split(logs, np.cumsum(sizes)[:-1])
    sums = np.array([_log_sum(part) for part in parts])
    slop = np.array([law.slop for law in laws])
    if not upper:
        return np.asarray(sums + [law.log_kept for law in laws] - slop)
    # (a - s/2 - v)_+ is at most s/2 <= n/2, whatever s is
    out = [np.logaddexp(law.log_below, law.log_above) for law in laws]
    return np.asarray(np.logaddexp(sums, np.array(out) + np.log(n)) + slop)


@functools.lru_cache(maxsize=256)
def _inner_window(n: int, k: int, reach: float) -> Window:
    """Return the law of s, Bin(n, 2/k), left out where it is far below delta."""
    return window(n, math.log(2 / (k - 2)), reach + math.log(n), _INNER, _GRAIN)


def _log_sinh(x: float) -> float:
    if x <= 0:
        return -math.inf
    return math.log(math.sinh(x)) if x < 20 else x - math.log(2)


def _log_sum(logs: Floats) -> float:
    """Return ln of the sum of exp, rounded to some units in the last place."""
    top = float(np.max(logs))
    if top == -math.inf:
        return top
    return top + math.log(float(np.sum(np.exp(logs - top))))


def log_delta(pair: ShuffledPair, epsilon: float, upper: bool = True) -> float:
    """Return ln of a bound of delta(epsilon), however small it is."""
    if epsilon >= pair.local_epsilon:
        return -math.inf
    guess = -40.0
    while True:
        value = pair.log_delta(epsilon, pair.window(guess), upper)
        if value > guess - 1 or guess < -1e4:
            return value
        guess *= 3


def epsilon_at(pair: ShuffledPair, log_target: float, upper: bool = True) -> float:
    """Return an epsilon where delta was found at most the target, next to the least.

    With `upper` False one where a lower bound of delta is at least the target: no
    smaller epsilon meets it.
    """
    law, rough = pair.window(log_target), pair.window(log_target, coarse=True)

    def excess(epsilon: float, law: Window = law, upper: bool = upper) -> float:
        if epsilon >= pair.local_epsilon:
            return -1.0
        return max(pair.log_delta(epsilon, law, upper), -1e300) - log_target

    if excess(0.0) <= 0:
        return 0.0
    far = root_above(lambda x: excess(x, rough, True), 0.0, pair.local_epsilon, 1e-6)
    near = far * (1 - 1e-4)
    slope = (excess(near, rough, True) - excess(far, rough, True)) / (far - near)
    sign, x = (1.0 if upper else -1.0), far
    for _ in range(12):
        value = excess(x) * sign
        if -_NEAR <= value <= 0:
            return x
        x = min(x + sign * (value + _NEAR / 2) / slope, pair.local_epsilon)
        if not x > 0:
            break
    if upper:
        return root_above(excess, 0.0, pair.local_epsilon, 1e-9)
    return -root_above(lambda x: -excess(-x), -pair.local_epsilon, 0.0, 1e-9)
