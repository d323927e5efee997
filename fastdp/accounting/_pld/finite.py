"""The profile of a law with few losses, as a sum over the losses.

Sums of losses have multinomial masses; sums of equal randomized responses have binomial
masses.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp._validate import float_up
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._numeric import (
    FLAT_SLOP,
    RELATIVE_SLOP,
    binomial_ratios,
    inflate,
)
from fastdp.accounting._pld.closed import Pointwise
from fastdp.accounting._pld.listed_loss import ListedLoss, pure_loss
from fastdp.accounting._pld.losses import Floats, U, numbers
from fastdp.accounting._response import LARGEST_ODDS, log_moment, log_worst

#: Most sums of losses to list; most equal randomized responses.
MOST_SUMS, MOST_SIGNS = numbers(256), 4 * 10**9

#: List masses within _REACH standard deviations plus _REACH_FLAT atoms of the mode.
_REACH, _REACH_FLAT = 14, 60


@dataclass(frozen=True, eq=False)
class Sums:
    """Losses, ascending, with the logarithms of their masses under P."""

    losses: Floats
    log_masses: Floats
    blur: float  # bound of the absolute errors of the losses
    error: float = 0.0  # what composing adds to the relative errors of the masses

    def power(self, count: int) -> Sums:
        """Return the law of the sum of `count` such losses."""
        if count == 1:
            return self
        pairs = count == 2
        losses, level, error = self._pairs() if pairs else self._multinomial(count)
        order = np.argsort(losses, kind="stable")
        largest = float(np.abs(self.losses).max())
        blur = count * (self.blur + U * (self.losses.size + 2) * largest)
        return Sums(losses[order], level[order], blur, error)

    def _pairs(self) -> tuple[Floats, Floats, float]:
        i, j = np.triu_indices(self.losses.size)
        level = self.log_masses[i] + self.log_masses[j]
        twice = np.where(i < j, math.log(2), 0)
        return self.losses[i] + self.losses[j], level + twice, 0.0

    def _multinomial(self, count: int) -> tuple[Floats, Floats, float]:
        """Return sums, log masses and their error, adding one value after the other."""
        logs = np.log(np.arange(1, count + 1))
        most = count * (2 * math.log(count) + float(np.abs(self.log_masses).max()))
        step = 2.0 ** (math.frexp(most)[1] - 52)  # sums of its multiples are exact
        whole, rest = _split(logs, step)
        log_factorial = np.zeros((2, count + 1))
        log_factorial[0, 1:], log_factorial[1, 1:] = np.cumsum(whole), np.cumsum(rest)
        masses = np.array(_split(self.log_masses, step))
        left = np.array([count])
        losses, level = np.zeros(1), log_factorial[:, [count]]
        for loss, log_mass in zip(self.losses[1:], masses.T[1:], strict=True):
            times = left + 1
            start = np.repeat(np.cumsum(times) - times, times)
            here = np.arange(times.sum()) - start
            left = np.repeat(left, times) - here
            losses = np.repeat(losses, times) + here * loss
            level = np.repeat(level, times, axis=1)
            level += here * log_mass[:, None] - log_factorial[:, here]
        losses = losses + left * self.losses[0]
        level = level + left * masses[:, :1] - log_factorial[:, left]
        error = 8 * math.log(count) + step * (count + 4 * self.losses.size)
        return losses, level[0] + level[1], U * count * error


def _split(values: Floats, step: float) -> tuple[Floats, Floats]:
    """Split values into multiples of `step`, a power of two, and remainders."""
    whole = np.rint(values / step) * step
    return whole, values - whole


def _sums_of(loss: ListedLoss) -> Sums:
    """Return the law of one loss."""
    error = 4 * U * float(np.abs(loss.losses).max())  # a unit may be rounded
    return Sums(loss.losses, loss.log_masses, loss.blur + error)


class FiniteProfile(Pointwise):
    """delta(epsilon) as the sum of mass (1 - e^(epsilon - loss)) over larger losses.

    `sums` is the law of the whole composition, `error` bounds masses' relative errors.
    """

    method = "sum"

    def __init__(self, sums: Sums, error: float) -> None:
        self._losses, self._level = sums.losses, sums.log_masses
        self._blur = sums.blur
        self._error = error

    def log_delta(self, epsilon: float) -> Bracket:
        low = self._at(epsilon + self._blur, -1.0)
        high = self._at(epsilon - self._blur, 1.0)
        return Bracket(low, min(max((low + high) / 2, low), high), high, "sum")

    def _at(self, epsilon: float, sign: float) -> float:
        first = int(np.searchsorted(self._losses, epsilon, side="right"))
        gap = self._losses[first:] - epsilon
        if gap.size == 0 or gap[-1] <= 0:
            return -math.inf
        level = self._level[first:]
        peak = float(level.max())
        total = float(np.exp(level - peak) @ -np.expm1(-gap))
        if total <= 0:
            return -math.inf
        # All terms are positive; `blur` covers the errors of differences of losses.
        slack = self._error + U * (60 + math.log2(gap.size) + 4 * abs(peak))
        return min(0.0, peak + math.log(total) + sign * slack)

    def most(self, log_delta: float) -> float:
        return (max(0.0, float(self._losses[-1])) + 2 * self._blur) * (1 + 1e-15)


def finite_profile(steps: Sequence[tuple[ListedLoss, int]]) -> Pointwise | None:
    """Return the profile if all sums of losses can be listed, otherwise None."""
    if len(steps) == 1 and steps[0][1] <= MOST_SIGNS:
        loss, count = steps[0]
        if loss.unit is not None and loss == pure_loss(loss.unit):
            return SignsProfile(loss.unit, count)
    sizes = (math.comb(n + loss.losses.size - 1, n) for loss, n in steps)
    if any(size > MOST_SUMS for size in itertools.accumulate(sizes, operator.mul)):
        return None
    sums = functools.reduce(_together, (_sums_of(loss).power(n) for loss, n in steps))
    error = sum(n * loss.mass_error for loss, n in steps)
    return FiniteProfile(sums, error + sums.error)


def _together(one: Sums, other: Sums) -> Sums:
    """Return the law of the sum of two losses."""
    losses = np.add.outer(one.losses, other.losses).ravel()
    level = np.add.outer(one.log_masses, other.log_masses).ravel()
    order = np.argsort(losses, kind="stable")
    largest = float(np.abs(losses[order[[0, -1]]]).max())
    blur = one.blur + other.blur + U * largest
    return Sums(losses[order], level[order], blur, one.error + other.error)


# ---- equal responses -----------------------------------------------------------------


class SignsProfile(Pointwise):
    """The profile of up to `MOST_SIGNS` equal randomized responses.

    Their signs are independent under every tilt. Masses are listed except for a
    negligible part of the tilted law (docs/proofs/accounting.md, section 5).
    """

    method = "sum"

    def __init__(self, epsilon: Fraction, count: int) -> None:
        self._epsilon, self._count = epsilon, count
        self._whole = epsilon * count

    def most(self, log_delta: float) -> float:
        rho = float_up(self._whole * self._epsilon / 2)  # Bun, Steinke 2016, 1.3
        known = (rho + 2 * math.sqrt(rho * -log_delta)) * (1 + 1e-15)
        return min(float_up(self._whole), known)

    def log_delta(self, epsilon: float | Fraction) -> Bracket:
        near = Fraction(epsilon)
        if near >= self._whole:
            return Bracket(-math.inf, -math.inf, -math.inf, "sum")
        theta = self._saddle(near)
        low, high = self._shares(near, theta)
        exponent = log_moment([(self._epsilon, self._count)], theta, near)
        slip = 1e-15 * abs(exponent)
        upper = exponent + log_worst(theta)
        if high > 0:
            upper = min(upper, exponent + math.log(high))
        upper = min(0.0, inflate(upper + slip))
        lower = exponent + math.log(low) if low > 0 else -math.inf
        lower -= 2 * (FLAT_SLOP + (RELATIVE_SLOP + 1e-15) * abs(lower)) + slip
        lower = min(lower, upper)
        return Bracket(lower, max(lower, upper - FLAT_SLOP), upper, "sum")

    def _saddle(self, near: Fraction) -> Fraction:
        """Return approximately the tilt >= 0 under which the mean loss is `near`."""
        share = min(float(near / self._whole), 1 - 1e-16)
        e = float(self._epsilon)
        return Fraction(max(0.0, min(math.atanh(share) - e / 2, LARGEST_ODDS) / e))

    def _shares(self, near: Fraction, theta: Fraction) -> tuple[float, float]:
        """Bound E exp(-theta g) (1 - exp(-g)) over gaps g > 0 of the tilted law."""
        count, exponent = self._count, float((1 + 2 * theta) * self._epsilon)
        odds = math.exp(-min(exponent, 700.0))
        minus = odds / (1 + odds)
        reach = math.ceil(_REACH * math.sqrt(count * minus / (1 + odds))) + _REACH_FLAT
        mode = min(count, math.floor((count + 1) * minus))
        first, last = max(0, mode - reach), min(count, mode + reach)
        masses = binomial_ratios(count, odds, first, mode, last)
        # The i-th ratio from the mode has the error of i products and i times that of
        # the odds, whose exponent carries three roundings.
        steps = np.abs(np.arange(first, last + 1) - mode)
        error = 1.2e-16 * (8 + 3 * exponent) * steps + 1e-15
        lost = 0.0
        if last < count:
            ratio = (count - last) / (last + 1) * odds
            lost += float(masses[-1]) * ratio / (1 - ratio)
        if first > 0:
            ratio = first / ((count - first + 1) * odds)
            lost += float(masses[0]) * ratio / (1 - ratio)
        lost *= 1.01
        slip = 2e-15 + 2e-17 * len(masses)
        least = float((masses * (1 - error)).sum()) * (1 - slip)
        most = float((masses * (1 + error)).sum()) * (1 + slip) + lost
        # Gaps are exact up to one rounding.
        e = self._epsilon
        top = self._whole - 2 * first * e - near
        keep = min(len(masses), max(0, math.ceil(top / (2 * e))))
        nearest = float(top - 2 * e * (keep - 1))
        gaps = nearest + 2 * float(e) * np.arange(keep - 1, -1, -1)
        power = float(theta) * gaps
        terms = masses[:keep] * np.exp(-power) * -np.expm1(-gaps)
        error = error[:keep] + 6e-16 * (2 + power)
        low = float((terms * (1 - error)).sum()) * (1 - slip) / most
        return low, float((terms * (1 + error)).sum()) * (
            1 + slip
        ) / least + lost / least
