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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp.accounting._numeric import inflate, precise, to_decimal
from fastdp.accounting._two_point_grid import GriddedLaw

#: Distinct epsilons, each with how often it occurs.
Groups: TypeAlias = Sequence[tuple[Fraction, int]]
Floats: TypeAlias = npt.NDArray[Any]

_WIDE = np.longdouble

#: Standard deviations and atoms that a window reaches beyond the mode.
_REACH, _REACH_FLAT = 14, 60
#: Above this variance (in atoms) a single group is not summed.
_LARGEST_VARIANCE = 1e9
#: Most atoms on either side of a sum over several groups.
_LARGEST_HALF = 1 << 16
#: With more groups than this, each of at least two atoms, there are more.
_MOST_GROUPS = 33
#: Epsilons beyond are as good as broken, or raised.
_LARGEST_EPSILON, _LEAST_EPSILON = Fraction(10**6), Fraction(1, 10**100)
#: Largest log-odds of a tilted sign.
_LARGEST_ODDS = 400.0


def log_stick(groups: Groups, epsilon: Fraction) -> float:
    """Return ln(h(epsilon)) rounded up; -inf from the sum of all epsilons on."""
    return stick_near(groups, epsilon)(epsilon)


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


def stick_near(groups: Groups, near: Fraction) -> Callable[[Fraction], float]:
    """Return `log_stick` as a function that is at its best near one epsilon.

    It is valid everywhere. For few groups it is exact everywhere; for many, the law
    of the sum is made once, for the tilt of `near`.
    """
    whole = sum(e * count for e, count in groups)
    groups = _tame(groups)
    gridded: GriddedLaw | None = None

    def at(epsilon: Fraction) -> float:
        nonlocal gridded
        if epsilon >= whole:
            return -math.inf
        if not groups:
            return 0.0
        theta = _saddle(groups, epsilon)
        laws: list[_Window] = []
        if len(groups) <= _MOST_GROUPS:
            laws = [law for e, count in groups if (law := _window(e, count, theta))]
        share = math.inf
        if len(laws) == len(groups) == 1:
            share = _one(laws[0], theta, epsilon)
        elif len(laws) == len(groups):
            share = _several(laws, theta, epsilon)
        rough = rough_log_stick(groups, epsilon)
        if share == math.inf and len(groups) > 1:
            gridded = gridded or _gridded(groups, near)
            return min(rough, gridded.log_stick(epsilon))
        if not 0 < share < math.inf:
            return rough
        exponent = _exponent(groups, Fraction(theta), epsilon)
        return min(rough, inflate(exponent + math.log(share) + 1e-15 * abs(exponent)))

    return at


def _tame(groups: Groups) -> list[tuple[Fraction, int]]:
    """Return epsilons that doubles bear, none smaller; empty if one is too large.

    A larger epsilon only gives a larger bound.
    """
    if any(e > _LARGEST_EPSILON for e, _ in groups):
        return []
    return [(max(e, _LEAST_EPSILON), count) for e, count in groups if e > 0]


def _gridded(groups: Groups, near: Fraction) -> GriddedLaw:
    theta = _saddle(groups, near)
    exponent = _exponent(groups, Fraction(theta), Fraction(0))
    return GriddedLaw([(float(e), count) for e, count in groups], theta, exponent)


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


def _several(laws: Sequence[_Window], theta: float, epsilon: Fraction) -> float:
    """Return the second factor; infinity when there are too many atoms to sum.

    With the atoms a of one half and b of the other, those with a + b > epsilon are,
    for every a, an end of the sorted b: its sums of exp(-theta b) and of
    exp(-(theta + 1) b) are sums from the end. Their difference may cancel, so their
    error is charged as a share of their sum, in the widest floats there are.
    """
    halves = _split([len(law.masses) for law in laws])
    if halves is None:
        return math.inf
    left, left_mass = _atoms([laws[i] for i in halves[0]])
    right, right_mass = _atoms([laws[i] for i in halves[1]])
    order = np.argsort(right, kind="stable")
    right, right_mass = right[order], right_mass[order]
    centre = right[np.argmax(right_mass)]
    shift = left + centre - _wide(epsilon)
    start = np.searchsorted(right, _wide(epsilon) - left, side="right")
    total, size = _WIDE(0), _WIDE(0)
    with np.errstate(over="ignore", invalid="ignore"):
        for rate, sign in ((_WIDE(theta), 1), (_WIDE(theta) + 1, -1)):
            ends = _suffix_sums(right_mass * np.exp(-rate * (right - centre)))
            part = np.sum(left_mass * np.exp(-rate * shift) * ends[start])
            total += sign * part
            size += part
    spread = float(np.max(np.abs(shift)) + np.max(np.abs(right - centre)))
    unit = float(np.finfo(_WIDE).eps)
    error = unit * (len(right) + len(left) + 20) * (2 + (theta + 1) * spread)
    result = float(total) + float(size) * error + 10 * unit * spread
    if not math.isfinite(result):  # where the widest floats are doubles
        return math.inf
    return max(result, 0.0) * (1 + 1e-15) + sum(law.lost for law in laws)


def _split(sizes: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """Return two sets of groups with about equal products of sizes."""
    halves: tuple[list[int], list[int]] = ([], [])
    products = [1, 1]
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        smaller = int(products[1] < products[0])
        halves[smaller].append(i)
        products[smaller] *= sizes[i]
        if products[smaller] > _LARGEST_HALF:
            return None
    return halves


def _atoms(laws: Sequence[_Window]) -> tuple[Floats, Floats]:
    """Return all values of a sum of groups, and their masses."""
    values, masses = np.zeros(1, _WIDE), np.ones(1, _WIDE)
    for law in laws:
        minus = law.first + np.arange(len(law.masses), dtype=np.int64)
        step = (law.count - 2 * minus) * _wide(law.epsilon)
        values = np.add.outer(values, step).ravel()
        masses = np.multiply.outer(masses, law.masses.astype(_WIDE)).ravel()
    return values, masses


def _wide(value: Fraction) -> Any:
    """Return a rational in the widest floats."""
    high = float(value)
    return _WIDE(high) + _WIDE(float(value - Fraction(high)))


def _suffix_sums(values: Floats) -> Floats:
    """Return sums from each index to the end, and 0 beyond it."""
    sums = np.cumsum(values[::-1])[::-1]
    return np.concatenate([sums, np.zeros(1, values.dtype)])
