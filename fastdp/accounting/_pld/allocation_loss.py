"""The privacy loss of an epoch of random allocation.

Each record joins one random, secret step of the epoch. Let R_1 .. R_t
be independent copies of dP/dQ of one step under Q, and S their mean: the loss is ln S.
The theorems are in docs/proofs/allocation.md.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

from fastdp._validate import float_down, float_up
from fastdp.accounting._atoms.allocation import Allocation
from fastdp.accounting._atoms.law import Law
from fastdp.accounting._atoms.plan import Cost
from fastdp.accounting._pld.families import Family, Sided, Step, loosened
from fastdp.accounting._pld.losses import Floats, GaussianLoss, Loss, Tilted, U
from fastdp.accounting._pld.mellin import Mean, TiltedAllocation
from fastdp.accounting._pld.power_series import whole_moments
from fastdp.exceptions import UnsupportedEventError

#: Compute a removal's moments at whole orders up to _ORDERS; logarithms of moments
#: above _LARGEST are not used.
_ORDERS, _LARGEST = 64, 600.0

#: For the moments of an addition: one step's law has _CELLS cells and tails of a mass
#: e^_LOG_TAIL, its transform E e^(-sX) is tabulated at ln s in _PLACES, and it serves
#: orders from _FROM to _TO (at order 45, e^(14 w) still fits a double).
_CELLS, _LOG_TAIL = 500, -160.0
_PLACES = np.linspace(-20.0, 14.0, 8001)
_FROM, _TO = 1.0, 45.0

#: Take the loss as nearly normal if steps/(variance of the ratios) is at least this.
_MANY = 50

#: With more steps, give no bound if some ratios may be 0.
_MOST_STEPS = 1 << 20

#: Use the transform only if all ratios are 0 with at most this probability.
_OFTEN = 0.5

#: Added to a power that may underflow, so that it stays an upper bound.
_TINY = 1e-300


@dataclass(frozen=True)
class AllocationLoss(Loss):
    """The loss of one of `steps` steps, joined with probability `rate`."""

    one: Loss  # the loss of one step in this direction, given that it is finite
    steps: int
    removal: bool
    rate: float = 1.0
    #: Upper and lower bound of the mass of one step that has an infinite loss: mass of
    #: P for a removal, of Q for an addition.
    lost: tuple[float, float] = (0.0, 0.0)

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the law by cells of sums of ratios."""
        tail = math.exp(max(log_tail, -650.0))

        def one(price: Cost | None, number: int) -> Law:
            return self.one.law(price, number, upper, log_tail)

        # `rate` was rounded up: step back for lower bounds.
        rate = self.rate if upper or self.rate == 1 else math.nextafter(self.rate, 0)
        gone = self.lost[0 if upper else 1]
        epoch = Allocation(self.steps, rate, self.removal, upper, gone)
        with np.errstate(over="ignore", invalid="ignore"):  # refused at the end
            return epoch.law(one, cost, cells, tail)

    @property
    def normal_variance(self) -> float:
        """The variance of a nearly normal ln S of many steps of Gaussian noise."""
        if not isinstance(self.one, GaussianLoss) or self.rate < 1:
            return math.inf
        few = self.one.square > math.log(self.steps / _MANY)
        return math.inf if few else math.expm1(self.one.square) / self.steps

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law of a whole epoch of Gaussian noise."""
        if not isinstance(self.one, GaussianLoss) or self.rate < 1 or self.lost[0]:
            return super().tilted(theta, count)
        return TiltedAllocation(Mean(self.one.square, self.steps), theta, self.removal)

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return upper bounds of K(t): S is no wider than R (theorem 22).

        A removal also uses chords of K between integer orders, and an addition the
        bound from the transform of S.
        """
        value, error = self.one.cumulants(t)
        found = value + error + 8 * U * np.abs(value)
        if self.lost[0] and not self.removal:
            found = found + np.array([self._thinned(each) for each in t.tolist()])
        if self.rate < 1:  # without the record, the ratio is 1
            found = np.maximum(found, 0.0)
        if self.rate < 1 and not self.removal:
            found = self._sampled(t, found)
        found = np.fmin(found, self._removal(t) if self.removal else self._addition(t))
        return found, 64 * U * np.abs(found)

    def _sampled(self, t: Floats, found: Floats) -> Floats:
        """Bound ln E (1 - rate + rate S)^-t; `found` bounds ln E (S^-t | S > 0).

        If S > 0 the power is at most the mean of 1 and S^-t; if S = 0 it is
        (1 - rate)^-t.
        """
        none = -t * math.log1p(-self.rate)
        least = np.minimum(found, _LARGEST)
        mixed = self.rate * np.expm1(least)
        mixed += self._none * np.expm1(np.minimum(none, _LARGEST))
        known = (found < _LARGEST) & ((none < _LARGEST) | (self._none == 0))
        return np.where(known, np.log1p(mixed), np.inf)

    @property
    def _none(self) -> float:
        """The probability that all ratios are 0, rounded up."""
        return power_up(self.lost[0], self.steps)

    def _removal(self, t: Floats) -> Floats:
        whole = self._whole
        return np.interp(t, np.arange(whole.size), whole, right=math.inf)

    @functools.cached_property
    def _whole(self) -> Floats:
        """Upper bounds of K(0), K(1), ... while the moments fit in doubles."""
        moment, error = np.zeros((2, _ORDERS + 1))
        moment[2:], error[2:] = self.one.cumulants(np.arange(1.0, _ORDERS))
        power, slip = whole_moments(moment + error, self.steps, 1 - self.lost[1])
        if self.rate < 1:
            power = _mixed(power, self.rate)
        finite = 1 - self.rate * self.lost[0]
        found = np.maximum(np.log(power / finite), 0.0) + 2 * slip
        found[1] = 0.0  # K(0) = 0: the law is that of finite losses
        return np.asarray(found[1:])

    def _addition(self, w: Floats) -> Floats:
        """Bound ln E X^-w = ln of the integral of s^(w-1) E e^(-sX)/Gamma(w).

        X = 1 - rate + rate S, and E e^(-sX) is convex in s: chords are above it.
        """
        # K is convex and K(0) = 0: below the order _FROM, use the chord from 0.
        share = np.minimum(w / _FROM, 1.0)
        orders = np.maximum(w, _FROM)
        found = [self._negative_moment(each) for each in orders.tolist()]
        return np.asarray(share * np.array(found))

    def _negative_moment(self, w: float) -> float:
        """Return a bound on ln E X^-w, or infinity."""
        # If no ratio can be 0, the mean is at least the geometric mean:
        # E S^-2w <= (E R^(-2w/t))^t. Else use the moment of a single nonzero ratio.
        times = 1 if self.lost[0] else self.steps
        both = self.one.cumulants(np.array([2 * w / times]))
        double = times * float(both[0][0] + both[1][0]) + self._thinned(2 * w)
        none = self._none if self.rate == 1 else 0.0  # the probability that X = 0
        if self.rate < 1:  # X >= 1 - rate, and X^-2w is at most a mean of 1 and S^-2w
            least = -2 * w * math.log1p(-self.rate) * (1 + 8 * U)
            double = min(least, max(double, 0.0)) if not self.lost[0] else least
        if w > _TO or not double < _LARGEST or none > _OFTEN:
            return math.inf
        s, f = self._transform
        power = np.exp(w * _PLACES)
        low, high = np.diff(power) / w, np.diff(power * s) / (w + 1)
        fall = (f[:-1] - f[1:]) / np.diff(s)
        parts = (f[:-1] + fall * s[:-1]) * low - fall * high
        parts = np.minimum(parts, f[:-1] * low)
        # Beyond the last place E e^(-sS) is at most (2w/(e s))^2w E S^-2w.
        rest = 2 * w * math.log(2 * w / math.e) + double - w * _PLACES[-1]
        total = (power[0] + math.exp(min(rest, _LARGEST))) / w + float(parts.sum())
        some = math.log1p(-none)
        return max(math.log(total) - some - float(gammaln(w)) + 1e-9, 0.0)

    def _thinned(self, w: float) -> float:
        """Bound ln E ((t/N)^w | N > 0), N the number of nonzero ratios.

        S is N/t times the mean of the nonzero ratios; its moments are at most those of
        one ratio.
        """
        lost, steps = self.lost[0], self.steps
        if not lost:
            return 0.0
        if steps > _MOST_STEPS:
            return math.inf
        n = np.arange(1.0, steps + 1)
        level = binom.logpmf(n, steps, 1 - lost) + w * np.log(steps / n)
        if self._none >= 1:
            return math.inf
        return float(logsumexp(level)) - math.log1p(-self._none) + 1e-9

    @functools.cached_property
    def _transform(self) -> tuple[Floats, Floats]:
        """The places s, and upper bounds of E e^(-sX) there."""
        law = self.one.law(None, _CELLS, True, _LOG_TAIL)
        value = np.exp(-law.loss) * (1 - 8 * U)
        s = np.exp(_PLACES)
        u = s * self.rate / self.steps * (1 - 4 * U)
        mass = law.mass * (1 - self.lost[0])
        less = np.array([mass @ np.expm1(-x * value) for x in u.tolist()])
        whole = float(mass.sum()) + self.lost[0] + law.lost
        more = max(whole - 1, 0.0) + law.error * whole + (law.mass.size + 8) * U
        less = np.minimum(less * (1 - law.error - (law.mass.size + 16) * U) + more, 0.0)
        level = self.steps * np.log1p(np.maximum(less, -1 + 1e-16))
        level = level - s * (1 - self.rate)
        return s, np.exp(level * (1 - 16 * U)) * (1 + 8 * U)


def power_up(lost: float, steps: int) -> float:
    """Return lost^steps, rounded up and at most 1."""
    return min(lost**steps * (1 + (4 * steps + 16) * U) + _TINY, 1.0) if lost else 0.0


def _mixed(moment: Floats, rate: float) -> Floats:
    """Return the moments of 1 - rate + rate S at integer orders from S's moments."""
    found = np.empty_like(moment)
    for n in range(moment.size):
        weight = np.array([math.comb(n, j) for j in range(n + 1)], dtype=np.float64)
        j = np.arange(n + 1.0)
        weight *= np.exp((n - j) * math.log1p(-rate)) * rate**j
        found[n] = weight @ moment[: n + 1]
    return found


@dataclass(frozen=True)
class AllocationFamily(Family):
    """The pair of an epoch, from the step of one event in it."""

    inner: Step
    steps: int

    def step(self) -> Step:
        return self.sampled(Fraction(1))

    def sampled(self, rate: Fraction, fixed: bool = False) -> Step:
        """Return the step of a sample of the whole epoch."""
        if fixed:
            raise UnsupportedEventError(
                "no dominating pair is known for a random allocation on "
                "a subset of fixed size"
            )
        removal, addition = (
            self._sided(side, removal, rate)
            for side, removal in (
                (self.inner.removal, True),
                (self.inner.addition, False),
            )
        )
        # A ratio of 0 can make the mean smaller than every nonzero ratio: then rho of
        # one step does not bound the epoch.
        whole = self.inner.removal.lost == self.inner.addition.lost == 0
        return Step(removal, addition, self.inner.rho if whole else None)

    def _sided(self, side: Sided, removal: bool, rate: Fraction) -> Sided:
        if side.lost and side.loss is None:
            return loosened(side)  # the epoch is no worse than the step
        share = float_up(rate)
        lost = float_up(side.lost), float_down(side.sure)

        def epoch(one: Loss | None) -> Loss | None:
            return one and AllocationLoss(one, self.steps, removal, share, lost)

        if removal:
            gone, sure = rate * side.lost, rate * side.sure
        elif share < 1:
            gone = sure = Fraction(0)
        else:  # the loss is infinite if all ratios are 0
            gone = Fraction(power_up(lost[0], self.steps))
            less = 1 - (4 * self.steps + 16) * U
            sure = Fraction(lost[1] ** self.steps * max(less, 0.0) if rate == 1 else 0)
        return Sided(epoch(side.loss), gone, sure, side.exact, epoch(side.least))
