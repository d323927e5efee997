"""Filters: budgets for events that are chosen after seeing earlier answers.

A filter fixes a budget in advance and refuses an event that would exceed it. All events
together then meet the budget's guarantee, even if every event was chosen after seeing
all earlier answers. An accountant's epsilon has no such guarantee if it is read to
decide when to stop. (docs/proofs/accounting.md, section 6.)
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING
from fractions import Fraction
from typing import Any, ClassVar, Self

from fastdp import _public, _validate
from fastdp._validate import Real, float_up
from fastdp.accounting import conversions
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._calibrate import calibrate_count
from fastdp.accounting._facts import facts_of, require_rho
from fastdp.accounting._filter import PrivacyFilter, decimal, written
from fastdp.accounting._numeric import shortened_up
from fastdp.accounting.events import Event, GaussianEvent, GDPEvent, Relation
from fastdp.accounting.events._base import check_event, relation_of
from fastdp.accounting.rdp import renyi_divergence
from fastdp.exceptions import (
    ParameterError,
    UnsupportedEventError,
)

__all__: list[str] = [
    "ApproximateFilter",
    "DeclaredFilter",
    "GDPFilter",
    "PrivacyFilter",
    "PureFilter",
    "RDPFilter",
    "ZCDPFilter",
]


class _SumFilter(PrivacyFilter[Fraction]):
    """A filter that sums rational costs."""

    #: The quantity that is added up, in words.
    _UNIT: ClassVar[str]

    def __init__(self, limit: Fraction, relation: Relation | None) -> None:
        self._limit = limit
        super().__init__(relation)

    @property
    def spent(self) -> Fraction:
        """The spent budget: exact if all parts are rational, otherwise rounded up."""
        return self._snapshot()

    @property
    def remaining(self) -> Fraction:
        """The rest of the budget."""
        return self._limit - self._snapshot()

    def _begin(self) -> Fraction:
        return Fraction(0)

    def _step(self, state: Fraction, event: Event, count: int) -> Fraction:
        return shortened_up(state + count * self._price(event))

    def _within(self, state: Fraction) -> bool:
        return state <= self._limit

    @abc.abstractmethod
    def _price(self, event: Event) -> Fraction:
        """Return the cost of one event, or raise an error."""

    def _budget(self) -> str:
        return f"{self._UNIT} {decimal(self._limit)}"

    def _left(self) -> str:
        return decimal(self.remaining)

    def _shortage(self, state: Fraction) -> str:
        asked = decimal(state - self._state, ROUND_CEILING)
        return f"{asked} was requested, {self._left()} is left"


class PureFilter(_SumFilter):
    """A budget of pure epsilon.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        The budget, >= 0. A Python float counts as its shortest decimal: ten mechanisms
        of ``from_epsilon(0.1, ...)`` fit 1.0.
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    Examples
    --------
    >>> from fastdp.accounting import LaplaceEvent, PureFilter
    >>> budget = PureFilter(1).spend(LaplaceEvent(sensitivity=1, scale=4), count=3)
    >>> budget.remaining
    Fraction(1, 4)
    >>> budget.covers(LaplaceEvent(sensitivity=1, scale=2))
    False
    """

    _TAKES, _UNIT = "pure epsilon events", "epsilon"

    def __init__(
        self, epsilon: Real, neighboring_relation: Relation | None = None
    ) -> None:
        super().__init__(written("epsilon", epsilon), neighboring_relation)

    def _price(self, event: Event) -> Fraction:
        epsilon = facts_of(event).pure()
        if epsilon is None:
            raise self._refused(event)
        return epsilon


class ZCDPFilter(_SumFilter):
    """A budget of rho under zero-concentrated privacy.

    Parameters
    ----------
    rho : int, float, Fraction or Decimal
        The budget, >= 0; `conversions.zcdp_to_rho` converts (epsilon, delta) to a rho.
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    References
    ----------
    Feldman, Zrnic, "Individual Privacy Accounting via a Renyi Filter" (2021).
    """

    _UNIT = "rho"

    def __init__(self, rho: Real, neighboring_relation: Relation | None = None) -> None:
        super().__init__(written("rho", rho), neighboring_relation)

    def _price(self, event: Event) -> Fraction:
        return require_rho(event)


class RDPFilter(_SumFilter):
    """A budget of Renyi divergence at one order, which is fixed in advance.

    Parameters
    ----------
    order : int, float, Fraction or Decimal
        > 1. It must not depend on any answer.
    epsilon : int, float, Fraction or Decimal
        The budget of divergence, >= 0; `rdp_to_epsilon` gives its guarantee.
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    References
    ----------
    Feldman, Zrnic, "Individual Privacy Accounting via a Renyi Filter" (2021).

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent, PoissonSampledEvent, RDPFilter
    >>> budget = RDPFilter(order=8, epsilon=0.5)
    >>> step = PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=1))
    >>> budget.covers(step, 100), budget.covers(step, 1000)
    (True, False)
    """

    def __init__(
        self,
        *,
        order: Real,
        epsilon: Real,
        neighboring_relation: Relation | None = None,
    ) -> None:
        exact = _validate.exact("order", order)
        if exact <= 1:
            raise ParameterError(f"order must be > 1, got {_validate.shown(order)}")
        self._order = float_up(exact)  # divergences rise with the order
        super().__init__(written("epsilon", epsilon), neighboring_relation)

    def _price(self, event: Event) -> Fraction:
        divergence = float(renyi_divergence(event, [self._order])[0])
        if divergence == math.inf:
            raise UnsupportedEventError(
                f"no divergence of order {self._order!r} is known for {event!r}"
            )
        return Fraction(divergence)

    def _budget(self) -> str:
        return f"divergence {decimal(self._limit)} at order {self._order!r}"


class DeclaredFilter(_SumFilter):
    """A budget of (epsilon, delta) for one event, declared in advance.

    Any accountant may decide how often the event fits; the guarantee holds at any time,
    after any answers, and if part of the budget is unused. No such filter exists for
    mechanisms with different loss distributions: an adaptive order of them can exceed
    every fixed composition.

    Parameters
    ----------
    event : Event
        The only event that will be spent.
    epsilon, delta : int, float, Fraction or Decimal
        The budget; epsilon >= 0 and 0 <= delta < 1.
    accountant : callable
        Callable that makes an empty accountant, such as the class
        `ApproximateAccountant`.

    Raises
    ------
    UnsupportedEventError
        The accountant has no bound for the event.

    Examples
    --------
    >>> from fastdp.accounting import ApproximateAccountant, DeclaredFilter
    >>> from fastdp.accounting import LaplaceEvent
    >>> DeclaredFilter(
    ...     LaplaceEvent(sensitivity=1, scale=100),
    ...     epsilon=1,
    ...     delta=1e-6,
    ...     accountant=ApproximateAccountant,
    ... ).remaining
    Fraction(562, 1)
    """

    def __init__(
        self,
        event: Event,
        *,
        epsilon: Real,
        delta: Real,
        accountant: Callable[[], Accountant[Any]],
    ) -> None:
        check_event("event", event)
        self._declared = event
        count = calibrate_count(
            event, epsilon=epsilon, delta=delta, accountant=accountant
        )
        self._target = (
            _validate.exact("epsilon", epsilon),
            _validate.exact("delta", delta),
        )
        self._accountant = getattr(accountant, "__name__", type(accountant).__name__)
        super().__init__(Fraction(count), relation_of(event))

    @classmethod
    def _of(cls, event: Event, events: Fraction) -> Self:
        """Return the filter for a count that was calibrated earlier."""
        made = cls.__new__(cls)
        made._declared = event
        _SumFilter.__init__(made, events, relation_of(event))
        return made

    def _price(self, event: Event) -> Fraction:
        return Fraction(1)

    def _after(self, event: Event, count: int) -> Fraction:
        if event != self._declared:
            raise UnsupportedEventError(
                f"event must be the one that was declared, {self._declared!r}, "
                f"got {event!r}"
            )
        return self._state + count

    def _budget(self) -> str:
        return f"{self._limit} events"


class GDPFilter(_SumFilter):
    """A budget of mu under Gaussian privacy; the squares of mu add up.

    It accepts Gaussian noise and events with stated Gaussian privacy.

    Parameters
    ----------
    mu : int, float, Fraction or Decimal
        The budget, >= 0.
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    References
    ----------
    Smith, Thakurta, "Fully Adaptive Composition for Gaussian Differential Privacy"
    (2022); Koskela, Tobaben, Honkela, "Individual Privacy Accounting with Gaussian
    Differential Privacy" (2022).
    """

    _TAKES, _UNIT = "events with a mu: GaussianEvent and GDPEvent", "mu^2"

    def __init__(self, mu: Real, neighboring_relation: Relation | None = None) -> None:
        super().__init__(written("mu", mu) ** 2, neighboring_relation)

    def _price(self, event: Event) -> Fraction:
        match event:
            case GaussianEvent(sensitivity=s, sigma=width):
                return s * s / (width * width)
            case GDPEvent(mu=mu):
                return mu * mu
        raise self._refused(event)


@dataclass(frozen=True)
class _Broken:
    """Sums of epsilon, of rho and of delta."""

    epsilon: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)


class ApproximateFilter(PrivacyFilter[_Broken]):
    """A budget of (epsilon, delta) for events that have an epsilon or a rho.

    The events' own deltas may sum to at most delta - slack. In addition, either the
    epsilons sum to at most `epsilon`, or the rhos sum to at most a rho that implies
    (epsilon, slack); an event with a pure epsilon has rho epsilon tanh(epsilon/2). The
    rhos allow more small events, and are the only way once an event has only a rho,
    such as Gaussian noise.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        The budget, >= 0.
    delta : int, float, Fraction or Decimal
        The budget, > 0 and < 1.
    slack : int, float, Fraction or Decimal, optional
        The part of delta for the sum of rhos, > 0 and at most delta; None takes a tenth
        of delta.
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    References
    ----------
    Whitehouse, Ramdas, Rogers, Wu, "Fully-Adaptive Composition in Differential
    Privacy" (2023), Theorem 1, with the larger rho of the best conversion.
    """

    _TAKES = "events with (epsilon, delta) or rho"

    def __init__(
        self,
        *,
        epsilon: Real,
        delta: Real,
        slack: Real | None = None,
        neighboring_relation: Relation | None = None,
    ) -> None:
        self._epsilon = written("epsilon", epsilon)
        whole = _validate.open_unit("delta", _validate.written(delta))
        part = whole / 10 if slack is None else _validate.exact("slack", slack)
        part = _validate.between("slack", part, Fraction(0), whole)
        part = _validate.positive("slack", part)
        self._delta, self._slack = whole - part, part
        self._rho = Fraction(conversions.zcdp_to_rho(epsilon=self._epsilon, delta=part))
        super().__init__(neighboring_relation)

    @property
    def spent_delta(self) -> Fraction:
        """The sum of the events' own deltas."""
        return self._snapshot().delta

    @property
    def spent_epsilon(self) -> Fraction:
        """The sum of the events' epsilons: exact if rational, otherwise rounded up.

        If an event has no epsilon, the sum is above the budget, and only rhos count.
        """
        return self._snapshot().epsilon

    def _begin(self) -> _Broken:
        return _Broken()

    def _step(self, state: _Broken, event: Event, count: int) -> _Broken:
        facts = facts_of(event)
        pair = facts.stated()
        if pair is None:
            alone = facts.rho()
            if alone is None:
                raise self._refused(event)
            return _Broken(
                max(state.epsilon, self._epsilon + 1),  # more than can be covered
                shortened_up(state.rho + count * alone),
                state.delta,
            )
        epsilon, delta = pair
        rho = Fraction(conversions.pure_to_rho(epsilon)) if epsilon > 0 else epsilon
        return _Broken(
            shortened_up(state.epsilon + count * epsilon),
            shortened_up(state.rho + count * rho),
            shortened_up(state.delta + count * delta),
        )

    def _within(self, state: _Broken) -> bool:
        covered = state.epsilon <= self._epsilon or state.rho <= self._rho
        return covered and state.delta <= self._delta

    def _budget(self) -> str:
        return f"epsilon {decimal(self._epsilon)} and own delta {decimal(self._delta)}"

    def _left(self) -> str:
        spent = self._snapshot()
        rho = decimal(max(self._rho - spent.rho, Fraction(0)))
        delta = decimal(self._delta - spent.delta)
        if spent.epsilon > self._epsilon:
            return f"rho {rho}, own delta {delta}"
        by_sum = decimal(self._epsilon - spent.epsilon)
        return f"epsilon {by_sum} as a sum, or rho {rho}, own delta {delta}"

    def _shortage(self, state: _Broken) -> str:
        before, spent = self._state, self._snapshot()
        alone = before.epsilon > self._epsilon or state.epsilon == self._epsilon + 1
        asked, left = [], []
        for name in ("rho" if alone else "epsilon", "delta"):
            cost = getattr(state, name) - getattr(before, name)
            if cost:
                rest = max(
                    getattr(self, f"_{name}") - getattr(spent, name), Fraction(0)
                )
                asked.append(f"{name} {decimal(cost, ROUND_CEILING)}")
                left.append(f"{name} {decimal(rest)}")
        return f"{', '.join(asked)} was requested, {', '.join(left)} is left"


_public.show(globals())
