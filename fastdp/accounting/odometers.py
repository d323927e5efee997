"""Odometers: bounds on the privacy loss so far that hold at all times together.

An odometer refuses nothing. Its epsilon may be read after every event and used to
decide whether to continue; an accountant's epsilon is valid only for events fixed in
advance. (Proof in docs/proofs/accounting.md, section 6.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from fastdp import _validate
from fastdp._validate import Real, float_up
from fastdp.accounting._facts import facts_of, require_pure, require_rho
from fastdp.accounting._numeric import log_down, root_above, shortened_up
from fastdp.accounting._record import Record, State
from fastdp.accounting.events import Event, Relation

__all__ = ["PureOdometer", "ZCDPOdometer"]


class _Odometer(Record[State]):
    """Base of the odometers: records events and refuses none for its cost."""

    def record(self, event: Event, count: int = 1) -> Self:
        """Add `count` times `event`.

        Raises
        ------
        UnsupportedEventError, BudgetExceededError
            As for an accountant's `compose`.
        """
        return self._add(event, count)


class PureOdometer(_Odometer[Fraction]):
    """The running sum of pure epsilons, a bound at every time with certainty.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.
    """

    def epsilon(self) -> float:
        """Return the privacy loss so far, rounded up."""
        return float_up(self._snapshot())

    def _begin(self) -> Fraction:
        return Fraction(0)

    def _step(self, state: Fraction, event: Event, count: int) -> Fraction:
        return shortened_up(state + count * require_pure(event))


@dataclass(frozen=True)
class _Running:
    """Sums of rho and, as long as all events have one, of pure epsilon."""

    rho: Fraction = Fraction(0)
    pure: Fraction | None = Fraction(0)


#: Rates of the odometer's mixture with the logarithms of their weights, which add up
#: to less than 1: the sum of 1/(1 + |i|)^2 over all integers is below 2.3.
_RATES = tuple(
    (math.pow(2, i / 2), -math.log(2.3) - 2 * math.log(1 + abs(i - 4)))
    for i in range(-40, 61)
)


class ZCDPOdometer(_Odometer[_Running]):
    """A bound on the privacy loss that holds at all times together.

    With probability at least 1 - delta the loss never exceeds `epsilon()`, read after
    every event; so at any stopping time, the answers so far are (epsilon(),
    delta)-private. This epsilon is larger than an accountant's, which is valid only if
    the number of events was fixed in advance.

    Parameters
    ----------
    delta : int, float, Fraction or Decimal
        > 0 and < 1; for all times together.
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent, ZCDPAccountant, ZCDPOdometer
    >>> event = GaussianEvent(sensitivity=1, sigma=10)
    >>> round(ZCDPOdometer(1e-5).record(event, count=100).epsilon(), 2)
    5.51
    >>> round(ZCDPAccountant().compose(event, count=100).epsilon(1e-5), 2)
    4.73
    """

    def __init__(
        self, delta: Real, neighboring_relation: Relation | None = None
    ) -> None:
        self._log_delta = log_down(_validate.open_unit("delta", delta))
        super().__init__(neighboring_relation)

    def epsilon(self) -> float:
        """Return the bound on the privacy loss so far, rounded up."""
        state = self._snapshot()
        if state.rho == 0:
            return 0.0
        pure = math.inf if state.pure is None else float_up(state.pure)
        return min(pure, self._boundary(float_up(state.rho)))

    def _boundary(self, rho: float) -> float:
        """Return the loss at which the mixture reaches 1/delta, rounded up.

        For every rate r, exp(r loss - r (r + 1) rho) has an expectation of at most 1
        at all times; so has the mixture over rates, which then exceeds 1/delta at
        any time with probability at most delta (Ville).
        """
        lines = [(r, weight - r * (r + 1) * rho) for r, weight in _RATES]
        high = min((-self._log_delta - start) / r for r, start in lines)

        def excess(loss: float) -> float:
            heights = [r * loss + start for r, start in lines]
            top = max(heights)
            total = top + math.log(math.fsum(math.exp(h - top) for h in heights))
            slop = 1e-13 * (1 + abs(top) + abs(self._log_delta) + rho)
            return -self._log_delta - total + slop

        high = high * (1 + 1e-9) + 1e-9
        return high if excess(0.0) <= 0 else root_above(excess, 0.0, high)

    def _begin(self) -> _Running:
        return _Running()

    def _step(self, state: _Running, event: Event, count: int) -> _Running:
        rho, pure = require_rho(event), None
        if state.pure is not None and (one := facts_of(event).pure()) is not None:
            pure = shortened_up(state.pure + count * one)
        return _Running(shortened_up(state.rho + count * rho), pure)
