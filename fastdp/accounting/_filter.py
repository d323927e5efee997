"""Base of the filters: spend atomically, or refuse."""

from __future__ import annotations

import abc
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import ClassVar, Generic, Self, TypeVar

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting._facts import facts_of
from fastdp.accounting._record import Record
from fastdp.accounting.events import Event
from fastdp.accounting.events._base import HasEvent, as_event
from fastdp.exceptions import (
    BudgetExceededError,
    UnsupportedEventError,
)

Spent = TypeVar("Spent")


class PrivacyFilter(Record[Spent], Generic[Spent]):
    """Base of all filters: spend atomically, or refuse and change nothing."""

    #: The events that the notion can charge, in words.
    _TAKES: ClassVar[str] = "its events"

    def spend(self, event: Event | HasEvent, count: float = 1) -> Self:
        """Take `count` times `event` from the budget; call this before the release.

        Parameters
        ----------
        event : Event or mechanism
            The event of the next release; for a mechanism, its `event()`.
        count : int
            Number of times, >= 0; 0 adds nothing. 1e4 counts as an int.

        Returns
        -------
        PrivacyFilter
            This filter.

        Raises
        ------
        UnsupportedEventError
            The filter's notion has no bound for the event, or its neighboring relation
            or group size differs from the earlier events'.
        BudgetExceededError
            The budget does not cover the event, or the filter was made by another
            process: nothing has been spent.
        """
        return self._add(event, count)

    def covers(self, event: Event | HasEvent, count: float = 1) -> bool:
        """Return whether `spend` would succeed now.

        Raises
        ------
        UnsupportedEventError
            As for `spend`.
        """
        times = _validate.whole("count", count, 0)
        event = as_event("event", event)
        with self._lock:
            return self._within(self._after(event, max(times, 1))) or not times

    def _admit(self, state: Spent) -> None:
        if not self._within(state):
            raise BudgetExceededError(
                f"the budget of {self._budget()} does not cover the event: "
                f"{self._shortage(state)}; nothing was spent"
            )

    def _refused(self, event: Event) -> UnsupportedEventError:
        """Return the error for an event of another notion, naming the filter to use."""
        facts, other = (
            facts_of(event),
            "for repetitions of one event use DeclaredFilter",
        )
        if (facts.stated(), facts.rho()) != (None, None):
            other = "ApproximateFilter(epsilon=..., delta=...) takes it"
        return UnsupportedEventError(
            f"{type(self).__name__} takes {self._TAKES}, got "
            f"{type(event).__name__}: {other}"
        )

    def __repr__(self) -> str:
        relation = self.neighboring_relation
        shown = "" if relation is None else f", {relation.name}"
        return f"<{type(self).__name__}: {self._budget()}, {self._left()} left{shown}>"

    @abc.abstractmethod
    def _within(self, state: Spent) -> bool:
        """Return whether the budget covers the spending of this state."""

    @abc.abstractmethod
    def _budget(self) -> str:
        """Return the budget in words."""

    @abc.abstractmethod
    def _left(self) -> str:
        """Return the rest of the budget as a decimal."""

    @abc.abstractmethod
    def _shortage(self, state: Spent) -> str:
        """Return the requested and the remaining budget for a state that exceeds it."""


def decimal(value: Fraction, rounding: str = ROUND_FLOOR) -> str:
    """Return at most 12 digits; round a remainder down and a cost up."""
    context = Context(prec=12, rounding=rounding)
    shown = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{shown.normalize():f}" if 1e-6 < abs(shown) < 1e12 else f"{shown:g}"


def written(name: str, value: Real) -> Fraction:
    """Return a budget: a Python float is read as its shortest decimal."""
    return _validate.nonnegative(name, _validate.written(value))
