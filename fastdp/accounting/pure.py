"""Pure differential privacy: epsilons add up, exactly."""

from __future__ import annotations

from fractions import Fraction

from fastdp.accounting._accountant import Accountant
from fastdp.accounting._facts import require_pure
from fastdp.accounting._numeric import shortened_up
from fastdp.accounting._response import pure_epsilon_at, pure_log_delta
from fastdp.accounting.events import Event

__all__ = ["PureAccountant"]


class PureAccountant(Accountant[Fraction]):
    """Adds up pure epsilons as exact rationals.

    `epsilon(0)` is the sum. At delta > 0 it is the epsilon of one randomized response
    with that sum.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    Examples
    --------
    >>> from fastdp.accounting import LaplaceEvent, PureAccountant
    >>> PureAccountant().compose(
    ...     LaplaceEvent(sensitivity=1, scale=10), count=5
    ... ).epsilon(0)
    0.5
    """

    @property
    def total(self) -> Fraction:
        """The exact sum of epsilons."""
        return self._snapshot()[0]

    def _start(self) -> Fraction:
        return Fraction(0)

    def _charge(self, state: Fraction, event: Event, count: int) -> Fraction:
        return shortened_up(state + count * require_pure(event))

    def _epsilon_at(self, state: Fraction, delta: Fraction) -> float:
        return pure_epsilon_at(state, delta)

    def _log_delta_at(self, state: Fraction, epsilon: Fraction) -> float:
        return pure_log_delta(state, epsilon)
