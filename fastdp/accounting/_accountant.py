"""The base of all accountants: composing events, and reading epsilon and delta.

A notion of privacy is a subclass of `Accountant[State]` with four hooks. The state is
immutable, and the hooks are functions of it without side effects:

* `_start()` gives the state of an empty accountant;
* `_charge(state, event, count)` gives the state after `count` times `event`, or raises
  `UnsupportedEventError`. The base splits a `ComposedEvent` or `SelfComposedEvent`
  first, and passes a `GroupEvent` only if `_facts.grouped` has no rule for it;
* `_epsilon_at(state, delta)` for an exact delta in [0, 1), rounded up, or infinity or
  `UnsupportedEventError` if the notion gives no finite epsilon;
* `_log_delta_at(state, epsilon)` for an exact epsilon >= 0: ln(delta) rounded up.

The last two may return NaN if their arithmetic overflows; NaN counts as no bound.

The base adds a bound that holds for every notion: if all events state an (epsilon,
delta), so does the composition, and its bound is returned if it is smaller.
"""

from __future__ import annotations

import abc
import math
from fractions import Fraction
from typing import Generic, Self, TypeVar

import numpy as np

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting import conversions
from fastdp.accounting._facts import facts_of
from fastdp.accounting._numeric import answered, exp_up, required
from fastdp.accounting._record import Record, Statement
from fastdp.accounting._response import Stated
from fastdp.accounting.events._base import Event, HasEvent, as_event
from fastdp.exceptions import DTypeError, UnsupportedEventError

__all__ = ["Accountant", "Statement"]

State = TypeVar("State")


class Accountant(Record[tuple[State, Stated | None]], Generic[State]):
    """Base of all accountants: composes events and returns their guarantees.

    An accountant may be shared by threads. It is not copied, pickled or written to
    by a forked child, because a copy would count only a part of the spending;
    `statement` exports the composed events.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.
    """

    # ---- for subclasses -----------------------------------------------------------

    @abc.abstractmethod
    def _start(self) -> State:
        """Return the state of an empty accountant."""

    @abc.abstractmethod
    def _charge(self, state: State, event: Event, count: int) -> State:
        """Return the state after `count` times `event`, or refuse the event."""

    @abc.abstractmethod
    def _epsilon_at(self, state: State, delta: Fraction) -> float:
        """Return epsilon at `delta`, rounded up."""

    def _quiet_epsilon_at(self, state: State, delta: Fraction) -> float:
        """Return epsilon at `delta`; NaN if it is beyond doubles."""
        return answered(lambda: self._epsilon_at(state, delta), math.nan)

    @abc.abstractmethod
    def _log_delta_at(self, state: State, epsilon: Fraction) -> float:
        """Return ln(delta) at `epsilon`, rounded up."""

    # ---- composing ----------------------------------------------------------------

    def compose(self, event: Event | HasEvent, count: float = 1) -> Self:
        """Add `count` times `event`; on an error nothing has been added.

        Each event may be chosen after seeing the answers to all earlier events.

        Parameters
        ----------
        event : Event or mechanism
            The event; for a mechanism, its `event()`.
        count : int
            Number of times, >= 0; 0 adds nothing. 1e4 counts as an int.

        Returns
        -------
        Accountant
            This accountant.

        Raises
        ------
        UnsupportedEventError
            This notion has no bound for the event, or its neighboring relation or group
            size differs from the earlier events'.
        BudgetExceededError
            The accountant was made by another process.
        """
        return self._add(event, count)

    def supports(self, event: Event | HasEvent) -> bool:
        """Return whether `compose` would accept the event."""
        event = as_event("event", event)
        with self._lock:
            try:
                self._after(event, 1)
            except UnsupportedEventError:
                return False
        return True

    def _begin(self) -> tuple[State, Stated | None]:
        return self._start(), Stated(Fraction(0), Fraction(0))

    def _step(
        self, state: tuple[State, Stated | None], event: Event, count: int
    ) -> tuple[State, Stated | None]:
        """Charge the event; add up pairs while all events state an (epsilon, delta)."""
        own = required(event, lambda: self._charge(state[0], event, count))
        pair = None if state[1] is None else facts_of(event).stated()
        if pair is None or state[1] is None:
            return own, None
        return own, state[1].plus(*pair, count)

    # ---- reading ------------------------------------------------------------------

    def epsilon(self, delta: Real) -> float:
        """Return an epsilon that the composition meets at `delta`, rounded up.

        Parameters
        ----------
        delta : int, float, Fraction or Decimal
            >= 0 and <= 1; 0 means pure privacy, and at 1 epsilon is 0.

        Raises
        ------
        UnsupportedEventError
            No finite epsilon is proved at this delta.
        """
        self._require_one("delta", delta, "epsilon_profile")
        d = conversions.up_to_one(delta)
        state, stated = self._snapshot()
        if d == 1 or (stated is not None and not any(stated)):
            return 0.0
        best = math.inf if stated is None else stated.epsilon_at(d)
        try:
            found = self._quiet_epsilon_at(state, d)
            # For parameters beyond doubles a notion may give no epsilon.
            best = best if math.isnan(found) else min(best, found)
        except UnsupportedEventError:
            if best == math.inf:
                raise
        if best == math.inf:
            raise UnsupportedEventError(
                f"no finite epsilon is proved at {_validate.shown(delta)}"
            )
        return best

    def log_delta(self, epsilon: Real) -> float:
        """Return ln of `delta(epsilon)`, also far below the smallest double.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            >= 0.

        Raises
        ------
        UnsupportedEventError
            No delta below 1 is proved at any epsilon.
        """
        self._require_one("epsilon", epsilon, "delta_profile")
        e = conversions.capped_epsilon(epsilon)
        state, stated = self._snapshot()
        simple = 0.0 if stated is None else stated.log_delta_at(e)
        if simple == -math.inf:
            return simple
        found = answered(lambda: self._log_delta_at(state, e), math.nan)
        return simple if math.isnan(found) else min(simple, found)

    def _rough_log_delta(self, epsilon: Fraction) -> float:
        """Return a bound on ln delta(epsilon) that is very cheap to compute."""
        return 0.0

    def delta(self, epsilon: Real) -> float:
        """Return a delta that the composition meets at `epsilon`, rounded up.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            >= 0.

        Raises
        ------
        UnsupportedEventError
            No delta below 1 is proved at any epsilon.
        """
        return exp_up(self.log_delta(epsilon))

    def _require_one(self, name: str, value: object, profile: str) -> None:
        """Raise an error for several numbers; name the method that accepts them."""
        if isinstance(value, list | tuple | np.ndarray):
            owner = "" if hasattr(self, profile) else "PLDAccountant."
            raise DTypeError(f"{name} must be one number; {owner}{profile} takes many")

    @classmethod
    def from_statement(cls, statement: Statement) -> Self:
        """Return a new accountant that has composed the statement's events.

        Raises
        ------
        UnsupportedEventError
            This notion has no bound for one of the events.
        """
        if not isinstance(statement, Statement):
            raise DTypeError(
                f"statement must be a Statement, got {type(statement).__name__}"
            )
        accountant = cls()
        for event, count in statement.events:
            accountant.compose(event, count)
        return accountant
