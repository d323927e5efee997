"""The profile of discrete Gaussian noise, also many times.

Sums of discrete Gaussian variables are discrete Gaussian up to a factor that is
exponentially close to 1 (section 7 of docs/proofs/numerical_accounting.md), and the sum
of losses with one quotient of shift and variance depends on that sum alone: so a
composition has the profile of one mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp.accounting import _gaussian, _zcdp
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._discrete_gaussian import large_sigma_allowance
from fastdp.accounting._numeric import (
    FLAT_SLOP,
    RELATIVE_SLOP,
    log_fraction,
    sqrt_up,
)
from fastdp.accounting._pld.closed import ClosedForm, NothingProfile, solved

#: How much of ln delta the sums may be off by, as laws.
_MOST_SLACK = 1e-11

#: Variances up to this are summed integer by integer.
_SUMMED = Fraction(10**9)

#: Exponents are followed so far.
_REACH = 50.0


@dataclass(frozen=True)
class DiscreteGaussianProfile(ClosedForm):
    """The profile of one coordinate moved by `shift`, within e^(+-slack).

    Parameters
    ----------
    shift : int
        >= 1; the sum over the steps.
    variance : Fraction
        > 0; the sum over the steps, which all have one quotient of both.
    slack : float
        Bound of the error of ln of the masses.
    """

    shift: int
    variance: Fraction
    slack: float = 0.0

    def times(self, count: int) -> DiscreteGaussianProfile | None:
        """Return the profile of `count` such steps."""
        if count == 1:
            return self
        slack = count * self.slack + _slack_of_sum(self.variance, count)
        if slack > _MOST_SLACK:
            return None
        return DiscreteGaussianProfile(count * self.shift, count * self.variance, slack)

    def merged(self, other: ClosedForm) -> ClosedForm | None:
        """Return the profile of both, given one quotient of shift and variance."""
        if isinstance(other, NothingProfile):
            return self
        if not isinstance(other, DiscreteGaussianProfile):
            return None
        variance = self.variance + other.variance
        if self.shift * other.variance != other.shift * self.variance:
            return None
        slack = self.slack + other.slack
        slack += _slack_of_two(self.variance * other.variance / variance)
        if slack > _MOST_SLACK:
            return None
        return DiscreteGaussianProfile(self.shift + other.shift, variance, slack)

    def log_delta(self, epsilon: float) -> Bracket:
        """Bound ln delta(epsilon), epsilon >= 0."""
        exact = Fraction(epsilon)
        kink = exact * self.variance / self.shift - Fraction(self.shift, 2)
        if self.variance > _SUMMED:
            low, high = self._continuous(exact)
        elif kink < -(40 * math.sqrt(self.variance) + 2):
            low, high = -1e-300, 0.0  # 1 - delta is below the least double
        else:
            low, high = self._summed(kink)
        error = self.slack + FLAT_SLOP
        low -= error + RELATIVE_SLOP * abs(low)
        high = min(0.0, high + error + RELATIVE_SLOP * abs(high))
        return Bracket(low, min(max((low + high) / 2, low), high), high, "closed form")

    def _summed(self, kink: Fraction) -> tuple[float, float]:
        """Sum P(x) (1 - e^(-(shift/variance)(x - kink))) over the integers x > kink.

        Positive terms; the first integer and its distance from the kink are exact.
        """
        first, rate = math.floor(kink) + 1, float(self.shift / self.variance)
        width = float(self.variance)
        reach = 2 * width * (_REACH + max(0.0, -2 * math.log(rate)))
        start = max(first, -math.ceil(math.sqrt(reach)) - 1)
        anchor = max(start, 0)
        far = reach / (math.hypot(anchor, math.sqrt(reach)) + anchor)
        stop = anchor + math.ceil(far) + 1
        steps = np.arange(start - anchor, stop - anchor + 1, dtype=np.float64)
        gaps = float(start - kink) + (steps - steps[0])
        terms = np.exp(-steps * (2 * float(anchor) + steps) / (2 * width))
        total = float(terms @ -np.expm1(-rate * gaps))
        missing = (2 if start > first else 1) * (1 + width / stop) * float(terms[-1])
        level = -float(anchor * anchor / (2 * self.variance))
        level -= _log_normalizer(self.variance)
        return level + math.log(total), level + math.log(total + missing)

    def _continuous(self, epsilon: Fraction) -> tuple[float, float]:
        """Bound by the continuous law, with what the lattice may add or take off."""
        mu = self.shift / sqrt_up(self.variance)
        middle = _gaussian.log_delta(epsilon, mu)
        away = large_sigma_allowance(epsilon, mu, log_fraction(self.variance))
        share = math.exp(min(away - middle, 50.0)) + 1e-13
        low = middle + math.log1p(-share) if share < 1 else -math.inf
        # The rounding of mu, and `log_delta` is raised by what it may be too small by.
        low -= 3 * (FLAT_SLOP + RELATIVE_SLOP * abs(middle))
        return low, middle + math.log1p(share)

    def epsilon(self, log_delta: tuple[float, float]) -> Bracket:
        """Bound the least epsilon >= 0 with delta(epsilon) <= delta."""
        rho = self.shift * self.shift / (2 * self.variance)
        return solved(self, log_delta, _zcdp.epsilon(log_delta[0], rho))


def _slack_of_two(square: Fraction) -> float:
    """Return a bound of ln of the masses' factor, for this harmonic sum of variances.

    The sum over x of e^(-(x - c)^2/2v) is sqrt(2 pi v) (1 +- 2.001 e^(-2 pi^2 v)).
    """
    if square < Fraction(1, 2):
        return math.inf
    return 4.1 * math.exp(-19.739 * float(square))


def _slack_of_sum(variance: Fraction, count: int) -> float:
    """Return the bound for `count` variables, added one after the other."""
    few = min(count - 1, 64)
    total = math.fsum(
        _slack_of_two(variance * Fraction(j, j + 1)) for j in range(1, few + 1)
    )
    if count - 1 > few:
        total += (count - 1 - few) * _slack_of_two(variance * Fraction(few, few + 1))
    return total


def _log_normalizer(variance: Fraction) -> float:
    """Return ln of the sum of e^(-x^2/2 variance) over the integers."""
    v = float(variance)
    if v >= 1:
        theta = 2 * math.exp(-2 * math.pi**2 * v) * (1 + math.exp(-6 * math.pi**2 * v))
        return 0.5 * (math.log(2 * math.pi) + log_fraction(variance)) + math.log1p(
            theta
        )
    return math.log1p(2 * math.fsum(math.exp(-x * x / (2 * v)) for x in range(1, 20)))
