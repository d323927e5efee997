"""Randomizers whose privacy loss is ln(p/q), 0 or -ln(p/q): exact guarantees.

The proofs are in docs/proofs/accounting.md, sections 2 and 5 (moments).
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from fastdp.accounting._numeric import (
    decimal_up,
    exp_up,
    float_down,
    float_up,
    inflate,
    log_fraction,
    log_up,
    precise,
    shortened_up,
    to_decimal,
)

#: Distinct epsilons of randomized responses, each with how often it occurs.
Groups: TypeAlias = Sequence[tuple[Fraction, int]]

#: Half the largest log-odds that a tilt adds to a response.
LARGEST_ODDS = 400.0

#: Relative error that is charged to the 60-digit evaluations below.
_ERROR = Fraction(1, 10**40)


def log_ratio(p: Fraction, q: Fraction) -> float:
    """Return ln(p/q) rounded up, for p >= q > 0."""
    if p == q:
        return 0.0
    # ln(1 + x) of a small x loses the digits that 1 + x spends on the 1.
    lost = max(0, _digits(q / (p - q)))
    context = precise(60 + lost)
    return decimal_up(to_decimal(p / q, context).ln(context), _ERROR)


def epsilon(p: Fraction, q: Fraction, delta: Fraction) -> float:
    """Return the least epsilon at `delta`, ln((p - delta)/q), rounded up."""
    return 0.0 if p - delta <= q else log_ratio(p - delta, q)


def delta(p: Fraction, q: Fraction, epsilon: Fraction) -> float:
    """Return max(0, p - exp(epsilon) q), rounded up."""
    if p == q:
        return 0.0
    lost = max(0, _digits(p / (p - q)))
    context = precise(80 + lost)
    with decimal.localcontext(context):
        gap = 1 - to_decimal(q / p, context) * to_decimal(epsilon, context).exp()
    # If the difference matters, its parts are at most 1.
    upper = gap + decimal.Decimal(1).scaleb(-60 - lost)
    return 0.0 if upper <= 0 else float_up(p * Fraction(upper))


def rho(p: Fraction, q: Fraction) -> float:
    """Return rho under zero-concentrated privacy, rounded up.

    With v = ln(p/q) the divergence v (p - q) where 1 - p - q <= 4 sqrt(p q); otherwise
    a bound that is at most that of pure v (docs/proofs/accounting.md, section 2).
    """
    if p == q:
        return 0.0
    loss, rest = log_ratio(p, q), 1 - p - q
    divergence = float_up(Fraction(loss) * (p - q))
    if rest * rest <= 16 * p * q:
        return divergence
    pure = float_up(Fraction(loss) * (p - q) / (p + q))
    log_share = log_fraction(rest) - (log_fraction(p) + log_fraction(q)) / 2
    if log_share > 600:  # beyond doubles; such a report reveals next to nothing
        return pure
    ratio = math.exp(log_share) / 2
    if _turning(loss / 2) >= ratio * (1 + 1e-9):
        return divergence
    low, high = loss / 2, max(loss, 4 + 2 * math.log(ratio))
    for _ in range(60):
        middle = (low + high) / 2
        if _turning(middle) < ratio:
            low = middle
        else:
            high = middle
    low, high = max(loss / 2, low * (1 - 1e-8)), high * (1 + 1e-8)
    steepest = loss * loss / (2 * low) * math.tanh(high)
    steepest /= 1 + ratio / math.cosh(min(high, 700.0))
    return min(pure, max(divergence, steepest) * (1 + 1e-12))


def _turning(w: float) -> float:
    """Return (sinh(w) cosh(w) - w)/(w cosh(w) - sinh(w)), which rises from 2."""
    if w > 300:
        return math.inf
    if w > 2:
        sinh, cosh = math.sinh(w), math.cosh(w)
        return (sinh * cosh - w) / (w * cosh - sinh)
    above = below = 0.0
    term = w
    for k in range(1, 20):
        term *= w * w / (2 * k * (2 * k + 1))
        above += 4**k * term
        below += 2 * k * term
    return above / below if below > 0 else 2.0


def pure_log_delta(pure: Fraction, epsilon: Fraction) -> float:
    """Return ln(delta) at `epsilon` that pure privacy implies, rounded up.

    delta = (1 - exp(epsilon - pure))/(1 + exp(-pure)); -inf from `pure` on.
    """
    gap = pure - epsilon
    if gap <= 0:
        return -math.inf
    # A gap below the least double is no smaller than it for this purpose.
    share = -math.expm1(-max(float(min(gap, Fraction(800))), 1e-300))
    return inflate(
        math.log(share) - math.log1p(math.exp(-float(min(pure, Fraction(800)))))
    )


def pure_epsilon_at(pure: Fraction, delta: Fraction) -> float:
    """Return the epsilon at `delta` that pure privacy implies, rounded up.

    pure + ln(1 - delta (1 + exp(-pure))), not below 0.
    """
    whole = float_up(pure)
    if delta == 0 or pure > 10**6:
        return whole
    gain = float_down(delta) * (1 + math.exp(-whole)) * (1 - 1e-15)
    if gain >= 1:
        return 0.0
    lost = math.log1p(-gain) * (1 - 1e-14)
    return max(0.0, float_up(pure + Fraction(lost)))


class Stated(NamedTuple):
    """(epsilon, delta): with probability 1 - delta a pure mechanism."""

    epsilon: Fraction
    delta: Fraction

    def plus(self, epsilon: Fraction, delta: Fraction, count: int) -> Stated:
        """Return the composition of this pair and `count` times another pair."""
        lost = any_of({delta: count})
        lost = min(Fraction(1), shortened_up(lost + (1 - lost) * self.delta))
        return Stated(shortened_up(self.epsilon + count * epsilon), lost)

    def epsilon_at(self, delta: Fraction) -> float:
        """Return the epsilon at `delta`, rounded up; infinity if there is none."""
        if delta < self.delta or self.delta == 1:
            return 0.0 if delta == 1 else math.inf
        return pure_epsilon_at(self.epsilon, (delta - self.delta) / (1 - self.delta))

    def log_delta_at(self, epsilon: Fraction) -> float:
        """Return ln(delta) at `epsilon`, rounded up."""
        rest = pure_log_delta(self.epsilon, epsilon)
        return rest if self.delta == 0 else log_up(self._with(rest))

    def delta_at(self, epsilon: Fraction) -> float:
        """Return delta at `epsilon`, rounded up."""
        return self._with(pure_log_delta(self.epsilon, epsilon))

    def _with(self, log_rest: float) -> float:
        lost = self.delta + (1 - self.delta) * Fraction(exp_up(log_rest))
        return min(1.0, float_up(lost))


def any_of(deltas: Mapping[Fraction, int]) -> Fraction:
    """Return 1 minus the product of all 1 - delta, rounded up; `deltas` has counts."""
    total = sum((d * k for d, k in deltas.items()), Fraction(0))
    if sum(k * d.denominator.bit_length() for d, k in deltas.items()) <= 1 << 10:
        kept = ((1 - d) ** k for d, k in deltas.items())
        return 1 - math.prod(kept, start=Fraction(1))
    if total < Fraction(1, 10**20):
        return shortened_up(total, 1 << 12)
    context = precise(80)
    with decimal.localcontext(context):
        exponent = Decimal(0)
        for d, k in deltas.items():
            tiny = d < Fraction(1, 10**20)
            # ln(1 - d) >= -d - d^2 for d < 1/2
            one = (
                -to_decimal(d + d * d, context)
                if tiny
                else (1 - to_decimal(d, context)).ln()
            )
            exponent += k * one
        value = 1 - exponent.exp() if exponent > -1000 else Decimal(1)
    return min(total, Fraction(value) * (1 + Fraction(1, 10**30)), Fraction(1))


# ---- moments of many responses -------------------------------------------------------


def rough_log_delta(groups: Groups, epsilon: Fraction) -> float:
    """Bound ln(delta) at `epsilon`, below the sum of all, by one Renyi divergence."""
    theta = _saddle(groups, float(epsilon))
    exponent = log_moment(groups, theta, epsilon)
    return inflate(exponent + log_worst(theta) + 1e-15 * abs(exponent))


def log_moment(groups: Groups, theta: Fraction, epsilon: Fraction) -> float:
    """Return K(theta) - theta epsilon, rounded once from many digits.

    K(theta) is ln E exp(theta L), of the sum L of the responses' losses.
    """
    context = precise(50)
    with decimal.localcontext(context):
        total = -to_decimal(theta * epsilon, context)
        for e, count in groups:
            wide = _log_cosh(to_decimal((1 + 2 * theta) * e / 2, context))
            total += count * (wide - _log_cosh(to_decimal(e / 2, context)))
    return float(total)


def log_worst(theta: Fraction) -> float:
    """Return ln of the largest exp(-theta g)(1 - exp(-g)) over g > 0."""
    t = float(theta)
    return t * -math.log1p(1 / t) - math.log1p(t) if t > 0 else 0.0


def _saddle(groups: Groups, epsilon: float) -> Fraction:
    """Return approximately the theta >= 0 under which L has the mean `epsilon`."""
    parts = [(float(e), count) for e, count in groups]
    high = LARGEST_ODDS / max(e for e, _ in parts)
    low = min(1e-12, high)

    def mean(theta: float) -> float:
        return sum(n * e * math.tanh((1 + 2 * theta) * e / 2) for e, n in parts)

    if mean(0.0) >= epsilon:
        return Fraction(0)
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if mean(middle) < epsilon else (low, middle)
    return Fraction(high)


def _log_cosh(x: Decimal) -> Decimal:
    """Return ln(cosh(x)) + ln(2) for x >= 0 in the current context."""
    return x if x > 60 else (x.exp() + (-x).exp()).ln()


def bounded_range_log_delta(length: Fraction, epsilon: Fraction) -> float:
    """Return ln(delta) of a loss within an interval of `length`, rounded up.

    delta = (exp(length/2) - exp(epsilon/2))^2 / (exp(length) - 1).
    """
    gap = (length - epsilon) / 2
    if gap <= 0:
        return -math.inf
    share = -math.expm1(-max(float(min(gap, Fraction(800))), 1e-290))
    rest = -math.expm1(-max(float(min(length, Fraction(800))), 1e-290))
    return inflate(2 * math.log(share) - math.log(rest))


def bounded_range_epsilon(length: Fraction, delta: Fraction) -> float:
    """Return the epsilon at `delta` of a loss within `length`, rounded up.

    2 ln(exp(length/2) - sqrt(delta (exp(length) - 1))), not below 0.
    """
    whole = float_up(length)
    if delta == 0 or length > 10**6:
        return whole
    gain = math.sqrt(float_down(delta) * -math.expm1(-float(length))) * (1 - 1e-15)
    if gain >= 1:
        return 0.0
    return max(0.0, float_up(length + Fraction(2 * math.log1p(-gain) * (1 - 1e-14))))


def _digits(value: Fraction) -> int:
    """Return about log10(value), rounded up."""
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    return math.ceil((bits + 1) * 0.30103)
