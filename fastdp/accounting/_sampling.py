"""Amplification by sampling: delta'(ln(1 + rate (e^x - 1))) = rate delta(x).

It is tight for Poisson sampling if a record is added or removed, and for subsets of
fixed size if a record is replaced (Balle, Barthe and Gaboardi 2018, Theorems 8 and 9).
For draws with replacement, rate is the probability that a record is drawn at least
once, and delta is the mean of the group's delta over the number of draws (Theorem 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fastdp._validate import float_down, float_up
from fastdp.accounting._numeric import log_fraction
from fastdp.exceptions import UnsupportedEventError

#: From this epsilon on, use e^epsilon as an upper bound of e^epsilon - 1.
_LARGE = 40
#: Relative allowance for a handful of roundings.
_WIDER = 1 + Fraction(1, 10**14)
#: With replacement, count draws of one record one by one up to this number.
_MOST_DRAWS = 2000


def amplified_epsilon(rate: Fraction, epsilon: Fraction) -> float:
    """Return ln(1 + rate (exp(epsilon) - 1)), rounded up."""
    whole = float_up(epsilon)
    if rate == 1 or epsilon == 0:
        return whole
    if epsilon <= _LARGE:
        value = math.log1p(float_up(rate) * math.expm1(whole))
    else:  # softplus of ln(rate) + epsilon
        head = float_up(Fraction(log_fraction(rate)) + epsilon)
        value = max(head, 0.0) + math.log1p(math.exp(-abs(head)))
        value += 1e-15 * -log_fraction(rate)
    return min(whole, math.nextafter(value * (1 + 4e-15), math.inf))


def amplified(rate: Fraction, epsilon: Fraction) -> Fraction:
    """Return the same as a rational, also for epsilons beyond doubles."""
    value = amplified_epsilon(rate, epsilon)
    return Fraction(value) if value < math.inf else epsilon


def replaced_epsilon(rate: Fraction, epsilon: Fraction) -> Fraction:
    """Return ln((1 - rate + rate e^epsilon)/(1 - rate + rate e^-epsilon)), rounded up.

    This is the epsilon of a Poisson sample under replacement of a record; the argument
    `epsilon` is that of adding a record.
    """
    whole = float_up(epsilon)
    if epsilon > 600:
        return 2 * epsilon
    up = amplified_epsilon(rate, epsilon)
    down = math.log1p(float_down(rate) * math.expm1(-whole)) if rate < 1 else -whole
    return min(2 * epsilon, Fraction(up - down * (1 + 4e-15)) * _WIDER)


def inner_epsilon(rate: Fraction, epsilon: Fraction) -> Fraction:
    """Return ln(1 + (exp(epsilon) - 1)/rate), rounded down: inverts `amplified`."""
    if rate == 1 or epsilon == 0:
        return epsilon
    if epsilon > 700:  # what is left out is below e^-700
        gain = -log_fraction(rate) * (1 - 1e-15) - 1e-300
        return epsilon + max(Fraction(0), Fraction(gain))
    grown = math.expm1(float_down(epsilon))
    log_grown = math.log(grown) - log_fraction(rate) if grown > 0 else -math.inf
    if log_grown > _LARGE:  # ln(1 + x) > ln(x)
        return Fraction(log_grown * (1 - 1e-13))
    return Fraction(max(0.0, math.log1p(math.exp(log_grown)) * (1 - 1e-13)))


def times_rate(log_delta: float, rate: Fraction) -> float:
    """Return ln(rate) + log_delta, rounded up."""
    log_rate = log_fraction(rate)
    return min(0.0, log_rate + log_delta + 1e-15 * (abs(log_rate) + 1))


def hit_rate(source: int, draws: int) -> Fraction:
    """Return 1 - (1 - 1/source)^draws, the chance of at least one draw, rounded up."""
    exponent = draws * math.log1p(-1 / source) if source > 1 else -math.inf
    value = -math.expm1(exponent * (1 + 4e-16)) * (1 + 4e-16)
    return Fraction(min(1.0, math.nextafter(value, 1.0)))


def with_replacement_log_delta(
    source: int, draws: int, group_log_delta: Callable[[int], float]
) -> float:
    """Return ln of the sum over j >= 1 of P(a record is drawn j times) delta_j.

    ln(delta_j) is the group's ln(delta) at the inner epsilon, rising with j. The
    omitted part of the sum is at most the probability of more draws, by a geometric
    series.
    """
    if source == 1:
        return group_log_delta(draws)
    log_miss = math.log1p(-1 / source)
    log_mass = draws * log_miss
    total = 0.0
    for j in range(1, draws + 1):
        log_mass += math.log((draws - j + 1) / j) - math.log(source - 1)
        total += math.exp(log_mass + group_log_delta(j)) * (1 + 1e-14 * j)
        ratio = (draws - j) / (j + 1) / (source - 1)
        left = math.exp(log_mass) * ratio / (1 - ratio) if ratio < 1 else math.inf
        if left <= 1e-15 * total or left < 1e-290 or j == _MOST_DRAWS:
            total += left
            break
    error = 1e-15 * (2 + abs(draws * log_miss))
    if total <= 0:
        return -math.inf
    return min(0.0, math.log(total) + error + 1e-14)


def draws(source: int, count: int, least: float) -> tuple[list[float], float]:
    """Return the probabilities of one draw, two draws, ... given at least one draw.

    They are within a relative 1e-13; also return a bound on the remainder, which is
    below `least`.
    """
    if source == 1:
        raise UnsupportedEventError("source_dataset_size must be > 1 here")
    log_miss = math.log1p(-1 / source)
    log_rate = math.log(-math.expm1(count * log_miss))
    log_mass, found = count * log_miss - log_rate, []
    for j in range(1, count + 1):
        log_mass += math.log((count - j + 1) / j) - math.log(source - 1)
        found.append(math.exp(log_mass))
        ratio = (count - j) / (j + 1) / (source - 1)
        rest = 2.1 * ratio * found[-1] if ratio < 0.5 else 1.0
        if rest < least or len(found) > _MOST_DRAWS:
            return found, rest
    return found, 0.0


def at_least(trials: int, rate: Fraction, least: int) -> Fraction:
    """Return P(Bin(trials, rate) >= least), rounded up; 0 and 1 are exact.

    Sums the masses from `least` upward, each from the one before by their ratio, and
    bounds the rest by a geometric series.
    """
    if least > trials or rate == 0:
        return Fraction(least <= 0)
    if least <= 0 or rate == 1:
        return Fraction(1)
    log_odds = log_fraction(rate) - log_fraction(1 - rate)
    mean = float(trials * rate)
    spread = math.sqrt(mean * float(1 - rate))
    if least < mean - 40 * spread:
        return Fraction(1)
    last = min(trials, math.ceil(max(least, mean) + 12 * spread + 40))
    parts = (
        math.lgamma(trials + 1),
        -math.lgamma(least + 1),
        -math.lgamma(trials - least + 1),
        least * log_fraction(rate),
        (trials - least) * log_fraction(1 - rate),
    )
    count = np.arange(least, last, dtype=np.float64)
    steps = np.log((trials - count) / (count + 1)) + log_odds
    logs = sum(parts) + np.concatenate([[0.0], np.cumsum(steps)])
    total = float(np.exp(logs).sum())
    ratio = (trials - last) / (last + 1) * math.exp(log_odds)
    total += float(np.exp(logs[-1])) * ratio / (1 - ratio)
    size = sum(map(abs, parts)) + (count.size + 1) * (8 + abs(log_odds))
    size += float(np.abs(steps).sum()) + float(np.abs(logs).max())
    raised = total * math.exp(size * 1e-15 + 1e-12) + 5e-324
    return Fraction(min(1.0, math.nextafter(raised, 2.0)))
