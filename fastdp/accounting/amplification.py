"""Amplification: what shuffling and iteration add to a mechanism's privacy.

Every theorem has conditions. A condition is an argument that is checked, or is stated
in the function's Privacy section if no argument can express it. The proofs are in
docs/proofs/amplification.md. Sampling is an event of its own (`PoissonSampledEvent` and
others), which accountants and `event_epsilon` amplify.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

from fastdp import _public, _validate
from fastdp._validate import Real, float_down, float_up
from fastdp.accounting._amplification import shuffling
from fastdp.accounting._amplification.iteration import (
    contractive_iteration,
    gradient_contraction,
    noisy_gradient_descent,
    noisy_sgd,
)
from fastdp.accounting._amplification.minibatch import noisy_minibatch_sgd
from fastdp.accounting._numeric import exp_up, log_down, root_above, search
from fastdp.accounting.conversions import below_one, capped_epsilon
from fastdp.accounting.events import NeighboringRelation, TradeOffEvent
from fastdp.exceptions import CalibrationError, ParameterError

__all__ = [
    "contractive_iteration",
    "gradient_contraction",
    "noisy_gradient_descent",
    "noisy_minibatch_sgd",
    "noisy_sgd",
    "shuffled_clients",
    "shuffled_closed_form_epsilon",
    "shuffled_delta",
    "shuffled_epsilon",
    "shuffled_epsilon_bounds",
    "shuffled_event",
    "shuffled_local_epsilon",
    "shuffled_log_delta",
]

#: A line height - steepness x, as (steepness, height).
_Line: TypeAlias = tuple[Fraction, Fraction]

_LARGEST_LOCAL = 300
_LEAST_LOCAL = Fraction(1, 10**9)
_MOST_CATEGORIES = 2**31 - 1


# ---- shuffling ---------------------------------------------------------------------


def shuffled_log_delta(
    *,
    local_epsilon: Real,
    clients: int,
    epsilon: Real,
    categories: int | None = None,
    local_delta: Real = 0,
) -> float:
    """Return ln of `shuffled_delta`, also far below the smallest double.

    Parameters
    ----------
    local_epsilon, clients, epsilon, categories, local_delta
        As for `shuffled_delta`.
    """
    pair = _pair(local_epsilon, clients, categories, local_delta)
    return shuffling.log_delta(pair, float_down(capped_epsilon(epsilon)))


def shuffled_delta(
    *,
    local_epsilon: Real,
    clients: int,
    epsilon: Real,
    categories: int | None = None,
    local_delta: Real = 0,
) -> float:
    """Return a delta that shuffled local reports meet at `epsilon`, rounded up.

    Parameters
    ----------
    local_epsilon : int, float, Fraction or Decimal
        Pure local epsilon of one report, >= 1e-9 and <= 300.
    clients : int
        Number of clients, >= 1, each of whom sends one report.
    epsilon : int, float, Fraction or Decimal
        >= 0.
    categories : int, optional
        The k >= 2 of k-ary randomized response (truth with probability
        e^local_epsilon/(e^local_epsilon + k - 1), otherwise a uniform other category),
        which gives a smaller delta. None is valid for any randomizer.
    local_delta : int, float, Fraction or Decimal
        Delta of one report, >= 0 and < 1: its guarantee is (local_epsilon,
        local_delta). Only with `categories` None. The central delta is at least about
        clients e^-local_epsilon times `local_delta`.

    Returns
    -------
    float
        In [0, 1]; within 1e-6 of the theorem's own value at up to a million clients.

    Privacy
    -------
    Central differential privacy of the multiset of reports, for datasets that differ in
    one client's value (`NeighboringRelation.REPLACE_ONE`), in both directions: the pair
    is symmetric. Conditions: all clients run the same randomizer, each report has the
    stated local guarantee, and nobody who sees the reports can link a report to its
    sender (an exactly uniform shuffle, or only counts). `clients` must count only
    honest reports: clients that collude hide nobody.

    Notes
    -----
    For any randomizer the bound is by clones (Feldman, McMillan, Talwar 2021). The
    sharper rate 2/(e^epsilon0 + 1), published later, holds only for some randomizers
    (its authors' erratum) and is used only for binary response. For k-ary response, the
    reports that hide other reports are uniform on all categories.

    References
    ----------
    Feldman, McMillan, Talwar, "Hiding Among the Clones" (2021); Balle, Bell, Gascon,
    Nissim, "The Privacy Blanket of the Shuffle Model" (2019).

    Examples
    --------
    >>> setting = {"local_epsilon": 1, "clients": 10_000, "epsilon": 0.05}
    >>> f"{shuffled_delta(**setting):.4g}"
    '2.141e-06'
    >>> f"{shuffled_delta(**setting, categories=2):.4g}"
    '1.068e-07'
    """
    return exp_up(
        shuffled_log_delta(
            local_epsilon=local_epsilon,
            clients=clients,
            epsilon=epsilon,
            categories=categories,
            local_delta=local_delta,
        )
    )


def shuffled_epsilon(
    *,
    local_epsilon: Real,
    clients: int,
    delta: Real,
    categories: int | None = None,
    local_delta: Real = 0,
) -> float:
    """Return an epsilon that shuffled local reports meet at `delta`, rounded up.

    Parameters
    ----------
    local_epsilon, clients, categories, local_delta
        As for `shuffled_delta`.
    delta : int, float, Fraction or Decimal
        >= `local_delta` and < 1; at `local_delta` the result is the local epsilon.

    Examples
    --------
    >>> round(shuffled_epsilon(local_epsilon=1, clients=1_000_000, delta=1e-6), 6)
    0.004335
    """
    pair = _pair(local_epsilon, clients, categories, local_delta)
    d = below_one(delta)
    if d < _validate.exact("local_delta", local_delta):
        raise ParameterError(
            f"delta must be >= local_delta = {_validate.shown(local_delta)}, got "
            f"{_validate.shown(delta)}"
        )
    if d == 0:
        return pair.local_epsilon
    return shuffling.epsilon_at(pair, log_down(d))


def shuffled_epsilon_bounds(
    *, local_epsilon: Real, clients: int, delta: Real, categories: int | None = None
) -> tuple[float, float]:
    """Return a lower and an upper bound on the theorem's exact epsilon.

    The upper bound is `shuffled_epsilon`. The lower bound shows how much numerical
    error can have added; the mechanism may be more private than the theorem states.

    Parameters
    ----------
    local_epsilon, clients, categories
        As for `shuffled_delta`.
    delta : int, float, Fraction or Decimal
        >= 0 and < 1.

    Returns
    -------
    (lower, upper) : tuple of float

    Examples
    --------
    >>> lower, upper = shuffled_epsilon_bounds(
    ...     local_epsilon=2, clients=1000, delta=1e-6
    ... )
    >>> 0 <= upper / lower - 1 < 1e-6
    True
    """
    pair = _pair(local_epsilon, clients, categories)
    d = below_one(delta)
    if d == 0:
        return float_down(_validate.exact("local_epsilon", local_epsilon)), (
            pair.local_epsilon
        )
    log_target = log_down(d)
    upper = shuffling.epsilon_at(pair, log_target)
    if upper == 0:
        return 0.0, 0.0
    above = log_target * (1 - 4e-15)
    lower = shuffling.epsilon_at(pair, above, upper=False, near=upper)
    return min(lower, upper), upper


def shuffled_closed_form_epsilon(
    *, local_epsilon: Real, clients: int, delta: Real
) -> float:
    """Return the closed form for shuffled reports of any randomizer, rounded up.

    ln(1 + (E - 1)/(E + 1) (8 sqrt(E ln(4/delta)/n) + 8 E/n)) with E = e^epsilon0, for
    comparison: `shuffled_epsilon` is several times smaller.

    Parameters
    ----------
    local_epsilon : int, float, Fraction or Decimal
        At most ln(clients/(16 ln(2/delta))).
    clients : int
        Number of clients, >= 1.
    delta : int, float, Fraction or Decimal
        > 0 and < 1.

    Raises
    ------
    ParameterError
        The theorem's condition on `local_epsilon` is not met.

    References
    ----------
    Feldman, McMillan, Talwar (2021), Theorem 3.1.

    Examples
    --------
    >>> round(
    ...     shuffled_closed_form_epsilon(
    ...         local_epsilon=1, clients=1_000_000, delta=1e-6
    ...     ),
    ...     4,
    ... )
    0.0235
    """
    pair = _pair(local_epsilon, clients, None)
    d = float_down(_validate.open_unit("delta", delta))
    limit = math.log(clients / (16 * math.log(2 / d))) * (1 - 1e-15) - 1e-15
    if pair.local_epsilon > limit:
        raise ParameterError(
            "local_epsilon must be <= ln(clients/(16 ln(2/delta))) = "
            f"{limit:.6g}, got {_validate.shown(local_epsilon)}"
        )
    grown = math.exp(pair.local_epsilon)
    share = math.tanh(pair.local_epsilon / 2)
    root = 8 * math.sqrt(grown * math.log(4 / d) / clients)
    value = math.log1p(share * (root + 8 * grown / clients))
    return min(pair.local_epsilon, value * (1 + 1e-13))


def shuffled_local_epsilon(
    *, epsilon: Real, delta: Real, clients: int, categories: int | None = None
) -> float:
    """Return the largest local epsilon that meets a central target after a shuffle.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        Central epsilon, >= 1e-9 and <= 300.
    delta : int, float, Fraction or Decimal
        Central delta, > 0 and < 1.
    clients, categories
        As for `shuffled_delta`.

    Returns
    -------
    float
        The target is checked at this value, with a relative margin of 1e-8.

    Examples
    --------
    >>> round(shuffled_local_epsilon(epsilon=1, delta=1e-6, clients=10_000), 3)
    4.797
    """
    target = float_down(_validate.between("epsilon", epsilon, *_LOCAL))
    limit = log_down(_validate.open_unit("delta", delta))
    _pair(1, clients, categories)

    # A little below the target, so that `shuffled_epsilon` is not above it.
    inside = target * (1 - 1e-8)

    def excess(inverse: float, coarse: bool = False) -> float:
        pair = shuffling.ShuffledPair(1 / inverse, clients, categories)
        if inside >= pair.local_epsilon:
            return -1.0
        return max(pair.log_delta(inside, limit, coarse=coarse), -1e300) - limit

    low, high = 1.0 / _LARGEST_LOCAL, 1.0 / inside
    if excess(low) <= 0:
        return 1 / low
    guess = root_above(lambda x: excess(x, True), low, high, 1e-4)
    limits = (Fraction(low), Fraction(high))
    return 1 / search("1/local_epsilon", excess, guess, limits, 1e-4, 1e-10)


def shuffled_clients(
    *, epsilon: Real, delta: Real, local_epsilon: Real, categories: int | None = None
) -> int:
    """Return the least number of clients that meets a central target after a shuffle.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        Central epsilon, >= 0.
    delta : int, float, Fraction or Decimal
        Central delta, > 0 and < 1.
    local_epsilon, categories
        As for `shuffled_delta`.

    Returns
    -------
    int
        The target is met with this number of clients, and not with one fewer.

    Raises
    ------
    CalibrationError
        Ten billion clients are not enough.

    Examples
    --------
    >>> shuffled_clients(
    ...     epsilon=1, delta=1e-6, local_epsilon=4
    ... ) < 10_000 < shuffled_clients(epsilon=1, delta=1e-6, local_epsilon=5)
    True
    """
    e = float_down(capped_epsilon(epsilon))
    limit = log_down(_validate.open_unit("delta", delta))
    local = _pair(local_epsilon, 1, categories).local_epsilon

    def met(clients: int) -> bool:
        pair = shuffling.ShuffledPair(local, clients, categories)
        return e >= local or pair.log_delta(e, limit) <= limit

    low, high = 0, 1
    while not met(high):
        low, high = high, 4 * high
        if low >= shuffling.MOST_CLIENTS:
            raise CalibrationError(
                f"clients must be <= {shuffling.MOST_CLIENTS}, but no "
                "number up to that meets the target"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle, high)
    return high


def shuffled_event(
    *,
    local_epsilon: Real,
    clients: int,
    categories: int | None = None,
    local_delta: Real = 0,
    points: int = 48,
) -> TradeOffEvent:
    """Return the event of one shuffled round, for composition with others.

    The event is a piecewise linear lower bound on the trade-off function, from the
    deltas at `points` epsilons. Accountants that accept such events compose rounds with
    the same clients, and guarantees for groups of clients follow from it.

    Parameters
    ----------
    local_epsilon, clients, categories, local_delta
        As for `shuffled_delta`.
    points : int
        Number of epsilons, 2 ... 1000; more points are closer to the exact function.

    Returns
    -------
    TradeOffEvent
        For `NeighboringRelation.REPLACE_ONE`.

    Examples
    --------
    >>> event = shuffled_event(local_epsilon=1, clients=1000, points=16)
    >>> event.neighboring_relation
    NeighboringRelation.REPLACE_ONE
    >>> event.false_positive_rates[0], event.false_negative_rates[0]
    (Fraction(0, 1), Fraction(1, 1))
    """
    count = _validate.integer("points", points, 2, 1000)
    pair = _pair(local_epsilon, clients, categories, local_delta)
    pure = _pair(local_epsilon, clients, categories)
    end = min(shuffling.epsilon_at(pure, -80.0), pair.local_epsilon)
    grid = [end * i / (count - 1) for i in range(count)]
    lines = [(e, exp_up(shuffling.log_delta(pair, e))) for e in grid]
    lines.append((pair.local_epsilon, pair.local_delta))
    false_positives, false_negatives = _trade_off(lines)
    return TradeOffEvent(
        false_positive_rates=false_positives,
        false_negative_rates=false_negatives,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )


def _trade_off(
    lines: list[tuple[float, float]],
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Return the knots of the largest of 1 - delta - e^epsilon x and its mirror.

    The lines are in increasing order of epsilon, starting at 0.
    """
    hull: list[_Line] = []
    for epsilon, delta in lines:
        steep = Fraction(math.exp(epsilon) * (1 + 1e-15)) if epsilon else Fraction(1)
        line = (steep, 1 - Fraction(delta))
        if hull and line[1] <= hull[-1][1]:
            continue  # lower everywhere
        while hull and steep <= hull[-1][0]:
            hull.pop()
        while len(hull) > 1 and _cross(hull[-2], line) >= _cross(hull[-2], hull[-1]):
            hull.pop()
        hull.append(line)
    # From x = 0, where the last line is highest, to the diagonal; then mirrored.
    knots = [(Fraction(0), hull[-1][1])]
    for i in range(len(hull) - 1, 0, -1):
        x = _cross(hull[i - 1], hull[i])
        y = hull[i][1] - hull[i][0] * x
        if y <= x:
            x = hull[i][1] / (1 + hull[i][0])
            knots.append((x, x))
            break
        knots.append((x, y))
    knots += [(y, x) for x, y in reversed(knots) if y > knots[-1][0]]
    if knots[-1][0] < 1:  # the last line's delta is not 0
        knots.append((Fraction(1), Fraction(0)))
    return tuple(x for x, _ in knots), tuple(y for _, y in knots)


def _cross(flat: _Line, steep: _Line) -> Fraction:
    """Return the x at which two lines height - steepness x meet."""
    return (steep[1] - flat[1]) / (steep[0] - flat[0])


_LOCAL = (_LEAST_LOCAL, Fraction(_LARGEST_LOCAL))


def _pair(
    local_epsilon: Real,
    clients: int,
    categories: int | None,
    local_delta: Real = 0,
) -> shuffling.ShuffledPair:
    e0 = _validate.between("local_epsilon", local_epsilon, *_LOCAL)
    n = _validate.integer("clients", clients, 1)
    if categories is not None:
        categories = _validate.integer("categories", categories, 2, _MOST_CATEGORIES)
    d0 = _validate.nonnegative("local_delta", local_delta)
    if d0 >= 1:
        raise ParameterError(
            f"local_delta must be >= 0 and < 1, got {_validate.shown(local_delta)}"
        )
    if d0 > 0 and categories is not None:
        raise ParameterError(
            "local_delta must be 0 if categories is given: k-ary "
            "responses have pure privacy"
        )
    return shuffling.ShuffledPair(float_up(e0), n, categories, float_up(d0))


_public.show(globals())
