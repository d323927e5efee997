"""The exact hockey stick of many randomized responses: optimal composition.

Pure epsilons e_i compose to the law of L = sum of +-e_i, each sign + with probability
1/(1 + exp(-e_i)) (Kairouz, Oh and Viswanath 2015; Murtagh and Vadhan 2016), and
h(x) = E[(1 - exp(x - L))_+]. Under the tilt exp(t L - K(t)) the signs stay independent,
with log-odds (1 + 2 t) e_i, and with g = L - x, for every t >= 0,

    h(x) = exp(K(t) - t x) E_t[exp(-t g) (1 - exp(-g)); g > 0],

with K the sum of ln(cosh((1 + 2 t) e_i/2)/cosh(e_i/2)). Near the t that makes x the
mean, the second factor is a sum of moderate positive terms at any delta
(docs/proofs/accounting.md, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp._validate import float_down, float_up
from fastdp.accounting._atoms.bounds import UPPER
from fastdp.accounting._numeric import inflate, log_down, precise, to_decimal
from fastdp.accounting._pld.listed_loss import pure_loss
from fastdp.accounting._pld.state import steps_profile

#: Distinct epsilons, each with how often it occurs.
Groups: TypeAlias = Sequence[tuple[Fraction, int]]
Floats: TypeAlias = npt.NDArray[np.float64]

#: Standard deviations and atoms that a window reaches beyond the mode.
_REACH, _REACH_FLAT = 14, 60
#: Above this variance (in atoms) a single group is not summed.
_LARGEST_VARIANCE = 1e9
#: Work for up to so many different responses, in units of the default's.
_EFFORT, _MODERATE = 4.0, 300
#: Above this epsilon a response is taken for certain to be told apart.
_CERTAIN = 500
#: Epsilons beyond are as good as broken, or raised.
_LARGEST_EPSILON, _LEAST_EPSILON = Fraction(10**6), Fraction(1, 10**100)
#: Largest log-odds of a tilted sign.
_LARGEST_ODDS = 400.0


def log_stick(groups: Groups, epsilon: Fraction) -> float:
    """Return ln(h(epsilon)) rounded up; -inf from the sum of all epsilons on."""
    if epsilon >= sum(e * count for e, count in groups):
        return -math.inf
    if len(groups) == 1:
        return one_stick(groups[0], epsilon)
    return Responses(groups).log_stick(epsilon)


def rough_log_stick(groups: Groups, epsilon: Fraction) -> float:
    """Return an upper bound of ln(h(epsilon)) that is quick: by Renyi divergences."""
    whole = sum(e * count for e, count in groups)
    if epsilon >= whole:
        return -math.inf
    groups = _tame(groups)
    if not groups:
        return 0.0
    theta = _saddle(groups, epsilon)
    exponent = _exponent(groups, Fraction(theta), epsilon)
    return inflate(exponent + _chernoff(theta) + 1e-15 * abs(exponent))


def one_stick(group: tuple[Fraction, int], epsilon: Fraction) -> float:
    """Return ln(h(epsilon)) of equal responses, exact but for rounding up."""
    groups = _tame([group])
    if epsilon >= group[0] * group[1]:
        return -math.inf
    rough = rough_log_stick([group], epsilon)
    if not groups:
        return rough
    theta = _saddle(groups, epsilon)
    law = _window(*groups[0], theta)
    share = 0.0 if law is None else _one(law, theta, epsilon)
    if not 0 < share < math.inf:
        return rough
    exponent = _exponent(groups, Fraction(theta), epsilon)
    return min(rough, inflate(exponent + math.log(share) + 1e-15 * abs(exponent)))


class Responses:
    """Different randomized responses: a profile of the engine, and Chernoff's bound."""

    def __init__(self, groups: Groups) -> None:
        # Whatever is as large is never refused: its loss is taken for certain.
        self._certain = sum(e * n for e, n in groups if e > _CERTAIN)
        self._groups = [(e, n) for e, n in groups if e <= _CERTAIN]
        steps = tuple((pure_loss(e), n) for e, n in _tame(self._groups))
        self._profile = steps_profile(steps)

    def log_stick(self, epsilon: Fraction) -> float:
        """Return ln(h(epsilon)) rounded up."""
        rest = epsilon - self._certain
        if rest < 0:
            return 0.0
        found = self._profile.log_deltas(np.array([float_down(rest)]))[0]
        return min(found.upper, rough_log_stick(self._groups, rest))

    def epsilon(self, slack: Fraction) -> float:
        """Return an epsilon at which h is at most `slack`."""
        level = log_down(slack)
        effort = _EFFORT if len(self._groups) <= _MODERATE else 1.0
        found = self._profile.epsilon((level, level), 0.0, effort, UPPER)
        return float_up(Fraction(found.upper) + self._certain)


def _tame(groups: Groups) -> list[tuple[Fraction, int]]:
    """Return epsilons that doubles bear, none smaller; empty if one is too large.

    A larger epsilon only gives a larger bound.
    """
    if any(e > _LARGEST_EPSILON for e, _ in groups):
        return []
    return [(max(e, _LEAST_EPSILON), count) for e, count in groups if e > 0]


def _chernoff(theta: float) -> float:
    """Return ln of the largest value of exp(-theta g)(1 - exp(-g)) over g > 0."""
    if theta == 0:
        return 0.0
    return theta * -math.log1p(1 / theta) - math.log1p(theta)


def _saddle(groups: Groups, near: Fraction) -> float:
    """Return about the theta >= 0 under which `near` is the mean of L."""
    parts = [(float(e), count) for e, count in groups]
    largest, epsilon = max(e for e, _ in parts), float(near)

    def mean(theta: float) -> float:
        return sum(n * e * math.tanh((1 + 2 * theta) * e / 2) for e, n in parts)

    if mean(0.0) >= epsilon:
        return 0.0
    high = _LARGEST_ODDS / largest
    low = min(1e-12, high)
    if mean(high) <= epsilon:
        return high
    for _ in range(60):
        middle = math.sqrt(low * high)
        if mean(middle) < epsilon:
            low = middle
        else:
            high = middle
        if high < low * 1.001:
            break
    return high


def _exponent(groups: Groups, theta: Fraction, epsilon: Fraction) -> float:
    """Return K(theta) - theta epsilon, rounded once from many digits."""
    context = precise(50)
    with localcontext(context):
        total = -to_decimal(theta * epsilon, context)
        for e, count in groups:
            wide = _log_cosh(to_decimal((1 + 2 * theta) * e / 2, context))
            total += count * (wide - _log_cosh(to_decimal(e / 2, context)))
    return float(total)


def _log_cosh(x: Decimal) -> Decimal:
    """Return ln(cosh(x)) + ln(2) for x >= 0 in the current context."""
    if x > 60:
        return x
    return (x.exp() + (-x).exp()).ln()


@dataclass(frozen=True)
class _Window:
    """The tilted law of one group's minus signs, every mass rounded up."""

    epsilon: Fraction
    count: int
    first: int  # the number of minus signs of the first mass
    masses: Floats
    lost: float  # mass beyond the window


def _window(epsilon: Fraction, count: int, theta: float) -> _Window | None:
    """Return the law where all but a negligible mass lies; None when that is wide."""
    exponent = (1 + 2 * theta) * float(epsilon)
    odds = math.exp(-min(exponent, 700.0))
    minus = odds / (1 + odds)
    variance = count * minus / (1 + odds)
    if variance > _LARGEST_VARIANCE:
        return None
    reach = math.ceil(_REACH * math.sqrt(variance)) + _REACH_FLAT
    mode = min(count, math.floor((count + 1) * minus))
    first, last = max(0, mode - reach), min(count, mode + reach)
    up = np.arange(mode, last, dtype=np.float64)
    down = np.arange(mode, first, -1, dtype=np.float64)
    rising = np.cumprod((count - up) / (up + 1) * odds)
    falling = np.cumprod(down / ((count - down + 1) * odds))
    masses = np.concatenate([falling[::-1], [1.0], rising])
    # The i-th ratio from the mode has the error of i products and i times that of
    # the odds, whose exponent carries three roundings.
    steps = np.abs(np.arange(first, last + 1) - mode)
    error = 1.2e-16 * (8 + 3 * exponent) * steps + 1e-15
    total = float(np.sum(masses * (1 - error))) * (1 - 1e-15 - 1e-17 * len(masses))
    lost = 0.0
    if last < count:
        ratio = (count - last) / (last + 1) * odds
        lost += float(masses[-1]) * ratio / (1 - ratio)
    if first > 0:
        ratio = first / ((count - first + 1) * odds)
        lost += float(masses[0]) * ratio / (1 - ratio)
    return _Window(
        epsilon, count, first, masses * (1 + error) / total, 1.01 * lost / total
    )


def _one(law: _Window, theta: float, epsilon: Fraction) -> float:
    """Return the second factor for one group; gaps are exact up to one rounding."""
    e = law.epsilon
    top = (law.count - 2 * law.first) * e - epsilon
    keep = min(len(law.masses), max(0, math.ceil(top / (2 * e))))
    nearest = top - 2 * e * (keep - 1)  # the least positive gap
    gaps = float(nearest) + 2 * float(e) * np.arange(keep - 1, -1, -1)
    terms = law.masses[:keep] * np.exp(-theta * gaps) * -np.expm1(-gaps)
    terms *= 1 + 6e-16 * (2 + theta * gaps)
    return float(terms.sum()) * (1 + 1e-17 * keep) + law.lost
