"""(epsilon, delta) guarantees: basic, advanced and optimal composition.

Optimal composition is exact for (epsilon, delta) pairs: no better bound follows from
the pairs alone. The other functions are older bounds in closed form, which are never
smaller. Proofs are in docs/proofs/accounting.md, section 5.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from fastdp import _validate
from fastdp._validate import Real, float_down, float_up
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._atoms.bounds import UPPER
from fastdp.accounting._facts import facts_of
from fastdp.accounting._numeric import (
    inflate,
    log_down,
    log_fraction,
    precise,
    to_decimal,
)
from fastdp.accounting._pld.finite import SignsProfile
from fastdp.accounting._pld.listed_loss import pure_loss
from fastdp.accounting._pld.state import steps_profile
from fastdp.accounting._response import any_of, rough_log_delta
from fastdp.accounting.conversions import below_one
from fastdp.accounting.events import Event
from fastdp.exceptions import UnsupportedEventError

__all__ = [
    "ApproximateAccountant",
    "advanced_composition",
    "basic_composition",
    "kairouz_composition",
]

_ERROR = Fraction(1, 10**30)

#: Effort (relative to the default) for at most _MODERATE different responses.
_EFFORT, _MODERATE = 4.0, 300

#: Add larger epsilons in full, as if their losses were certain: _CERTAIN is the limit
#: for several different epsilons, _LARGEST_EPSILON for a single one.
_CERTAIN, _LARGEST_EPSILON = Fraction(500), Fraction(10**6)

#: Raise smaller epsilons to this.
_LEAST_EPSILON = Fraction(1, 10**100)


def basic_composition(pairs: Iterable[tuple[Real, Real]]) -> tuple[Fraction, Fraction]:
    """Return the sum of epsilons and 1 minus the product of 1 - delta, exactly.

    Parameters
    ----------
    pairs : iterable of (epsilon, delta)
        The guarantee of each mechanism; epsilon >= 0, 0 <= delta < 1.
    """
    total, kept = Fraction(0), Fraction(1)
    for epsilon, delta in pairs:
        total += _validate.nonnegative("epsilon", epsilon)
        kept *= 1 - below_one(delta)
    return total, 1 - kept


def advanced_composition(*, epsilon: Real, count: int, slack: Real) -> float:
    """Return epsilon of `count` mechanisms by advanced composition, rounded up.

    epsilon sqrt(2 count ln(1/slack)) + count epsilon (e^epsilon - 1), capped at count *
    epsilon; the total delta is `count` times the delta of one mechanism, plus `slack`.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        Epsilon of one mechanism, >= 0.
    count : int
        Number of mechanisms, >= 1.
    slack : int, float, Fraction or Decimal
        The part of delta used by this theorem, > 0 and < 1.

    References
    ----------
    Dwork, Rothblum, Vadhan, "Boosting and Differential Privacy" (2010), Theorem III.3.
    """
    e = _validate.nonnegative("epsilon", epsilon)
    k = _validate.integer("count", count, 1)
    d = _validate.open_unit("slack", slack)
    if e > 100:
        return float_up(k * e)
    context = precise(60)
    with decimal.localcontext(context):
        one = to_decimal(e, context)
        spread = one * (2 * k * -to_decimal(d, context).ln()).sqrt()
        total = spread + k * one * (one.exp() - 1)
    return min(float_up(k * e), _up(total))


def kairouz_composition(epsilons: Mapping[Fraction, int], *, slack: Real) -> float:
    """Return epsilon of many mechanisms by the tighter closed form, rounded up.

    The smallest of the sum S of epsilons, A + sqrt(2 B ln(1/slack)) and
    A + sqrt(2 B ln(e + sqrt(B)/slack)), where A is the sum of
    epsilon (e^epsilon - 1)/(e^epsilon + 1) and B is the sum of epsilon^2. The total
    delta is 1 - (1 - slack) times the product of all 1 - delta.

    Parameters
    ----------
    epsilons : mapping of Fraction to int
        Each epsilon >= 0 with its number of occurrences.
    slack : int, float, Fraction or Decimal
        > 0 and < 1.

    References
    ----------
    Kairouz, Oh, Viswanath, "The Composition Theorem for Differential Privacy" (2017),
    Theorems 3.4 and 3.5.
    """
    d = _validate.open_unit("slack", slack)
    pairs = [
        (
            _validate.nonnegative("epsilon", epsilon),
            _validate.integer("count", count, 1),
        )
        for epsilon, count in epsilons.items()
    ]
    whole = float_up(sum((e * k for e, k in pairs), Fraction(0)))
    context = precise(60)
    with decimal.localcontext(context):
        drift, square = (
            Decimal(0),
            to_decimal(sum((e * e * k for e, k in pairs), Fraction(0)), context),
        )
        for e, k in pairs:
            one = to_decimal(e, context)
            falling = (-one).exp()
            # tanh(x) <= x, which costs nothing where 1 - exp(-x) has lost its digits
            share = min((1 - falling) / (1 + falling), one / 2)
            drift += k * one * share
        share = to_decimal(d, context)
        first = -share.ln()
        second = (Decimal(1).exp() + square.sqrt() / share).ln()
        total = drift + (2 * square * min(first, second)).sqrt()
    return min(whole, _up(total))


def _up(value: Decimal) -> float:
    return float_up(Fraction(value) * (1 + _ERROR))


@dataclass(frozen=True)
class _Pairs:
    """Number of occurrences of each epsilon and of each delta > 0."""

    epsilons: Mapping[Fraction, int] = field(default_factory=dict)
    deltas: Mapping[Fraction, int] = field(default_factory=dict)


class ApproximateAccountant(Accountant[_Pairs]):
    """Composes (epsilon, delta) guarantees optimally.

    Equal epsilons are composed exactly for any count, and so are different epsilons
    that are multiples of one number, or few. For up to a hundred other epsilons the
    result exceeds the optimum by less than one part in 10^4, for up to a thousand by
    less than one part in 40. Only the epsilon and delta of a mechanism are used: an
    accountant that knows more about it gives a smaller epsilon.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    References
    ----------
    Kairouz, Oh, Viswanath, "The Composition Theorem for Differential Privacy" (2017);
    Murtagh, Vadhan, "The Complexity of Computing the Optimal Composition of
    Differential Privacy" (2016).

    Examples
    --------
    >>> from fastdp.accounting import ApproximateAccountant, PureDPEvent
    >>> accountant = ApproximateAccountant().compose(PureDPEvent(0.1), count=100)
    >>> round(accountant.epsilon(1e-6), 6)
    4.774568
    """

    def _start(self) -> _Pairs:
        return _Pairs()

    def _charge(self, state: _Pairs, event: Event, count: int) -> _Pairs:
        pair = facts_of(event).stated()
        if pair is None:
            raise UnsupportedEventError(
                f"no (epsilon, delta) guarantee is known for {event!r}; "
                "state one as an ApproximateDPEvent"
            )
        return _Pairs(
            _with(state.epsilons, pair[0], count), _with(state.deltas, pair[1], count)
        )

    def _epsilon_at(self, state: _Pairs, delta: Fraction) -> float:
        broken = any_of(state.deltas)
        whole = sum((e * k for e, k in state.epsilons.items()), Fraction(0))
        if delta < broken:
            raise UnsupportedEventError(
                f"delta must be at least {float_up(broken)!r}, which the "
                "events already use"
            )
        slack = (delta - broken) / (1 - broken)
        if slack == 0 or whole == 0:
            return float_up(whole)
        return min(
            kairouz_composition(state.epsilons, slack=slack),
            _Responses(state.epsilons).epsilon(slack),
        )

    def _log_delta_at(self, state: _Pairs, epsilon: Fraction) -> float:
        log_h = _Responses(state.epsilons).log_delta(epsilon)
        broken = any_of(state.deltas)
        if broken == 0:
            return log_h
        if broken >= 1:
            return 0.0
        log_broken = log_fraction(broken)
        low, high = sorted((log_broken, log_h + math.log1p(-float(broken))))
        return inflate(high + math.log1p(math.exp(low - high)))


class _Responses:
    """Upper bound on the profile of counted randomized responses.

    If an epsilon is too large for the engine, its loss counts as certain; if it is too
    small, it is raised. Both give a larger bound.
    """

    def __init__(self, epsilons: Mapping[Fraction, int]) -> None:
        most = _LARGEST_EPSILON if len(epsilons) == 1 else _CERTAIN
        self._certain = sum(e * n for e, n in epsilons.items() if e > most)
        self._groups = [
            (max(e, _LEAST_EPSILON), n) for e, n in epsilons.items() if e <= most
        ]
        self._profile = steps_profile(tuple((pure_loss(e), n) for e, n in self._groups))

    def log_delta(self, epsilon: Fraction) -> float:
        """Return ln(delta) at `epsilon`; -inf from the sum of all epsilons on."""
        rest = epsilon - self._certain
        if rest < 0:
            return 0.0
        if rest >= sum(e * n for e, n in self._groups):
            return -math.inf
        if isinstance(self._profile, SignsProfile):
            return self._profile.log_delta(rest).upper
        with np.errstate(all="ignore"):
            found = self._profile.log_deltas(np.array([float_down(rest)]))[0]
        return min(found.upper, rough_log_delta(self._groups, rest))

    def epsilon(self, slack: Fraction) -> float:
        """Return an epsilon at which delta is at most `slack`."""
        level = log_down(slack)
        effort = _EFFORT if len(self._groups) <= _MODERATE else 1.0
        with np.errstate(all="ignore"):
            found = self._profile.epsilon((level, level), UPPER._replace(effort=effort))
        return float_up(Fraction(found.upper) + self._certain)


def _with(
    counts: Mapping[Fraction, int], value: Fraction, count: int
) -> Mapping[Fraction, int]:
    if value == 0:
        return counts
    return MappingProxyType({**counts, value: counts.get(value, 0) + count})
