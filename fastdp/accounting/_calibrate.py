"""Solve for what meets a target: noise, epsilon, sampling rate or number of events.

Any parameter of any event, under any accountant. What is returned has been evaluated:
the accountant's own bounds, both of delta at epsilon and of epsilon at delta, meet the
target there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from fastdp import _validate
from fastdp._validate import Real, float_down, float_up
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._numeric import log_down, root_above
from fastdp.accounting.conversions import below_one, capped_epsilon
from fastdp.accounting.events import Event
from fastdp.exceptions import CalibrationError, UnsupportedEventError

__all__ = ["calibrate", "calibrate_count"]

#: Largest number of events that `calibrate_count` tries.
_LARGEST_COUNT = 10**15
#: In units of the target's ln delta: below that a rough bound is as good as a reading.
_FAR = 2.0
#: The excess of a parameter that only one reading refuses.
_LEAST = math.ulp(0.0)


def calibrate(
    family: Callable[[float], Event],
    *,
    epsilon: Real,
    delta: Real,
    accountant: Callable[[], Accountant[Any]],
    low: Real,
    high: Real,
    count: int = 1,
) -> float:
    """Return the parameter with the least privacy to spare that meets a target.

    Parameters
    ----------
    family : callable
        Takes the parameter, a float > 0, and returns the event it makes; the privacy
        loss rises or falls with the parameter over the whole interval.
    epsilon : int, float, Fraction or Decimal
        >= 0.
    delta : int, float, Fraction or Decimal
        >= 0 and < 1.
    accountant : callable
        Makes an empty accountant: a class such as `ZCDPAccountant`.
    low, high : int, float, Fraction or Decimal
        The interval that is searched, 0 < low < high.
    count : int
        How many such events are composed.

    Returns
    -------
    float
        A parameter in the interval at which the accountant meets the target, both
        by its delta at epsilon and by its epsilon at delta, and next to which
        (relatively 1e-9) it does not, unless it is an end.

    Raises
    ------
    CalibrationError
        Neither end of the interval meets the target.
    UnsupportedEventError
        The accountant has no bound for such events.

    Examples
    --------
    The least sigma of 100 Gaussian answers, and the largest rate of a sampled pure one:

    >>> from fastdp.accounting import GaussianEvent, PoissonSampledEvent, PureDPEvent
    >>> from fastdp.accounting import PureAccountant, ZCDPAccountant, calibrate
    >>> sigma = calibrate(
    ...     lambda sigma: GaussianEvent(sensitivity=1, sigma=sigma),
    ...     epsilon=1,
    ...     delta=1e-6,
    ...     accountant=ZCDPAccountant,
    ...     low=1,
    ...     high=1e4,
    ...     count=100,
    ... )
    >>> round(sigma, 4)
    45.3088
    >>> rate = calibrate(
    ...     lambda rate: PoissonSampledEvent(rate, PureDPEvent(1)),
    ...     epsilon=0.5,
    ...     delta=0,
    ...     accountant=PureAccountant,
    ...     low=1e-6,
    ...     high=1,
    ... )
    >>> round(rate, 4)
    0.3775
    """
    smallest = float_up(_validate.positive("low", low))
    largest = float_down(_validate.positive("high", high))
    _validate.between("low", smallest, Fraction(0), Fraction(largest))
    times = _validate.integer("count", count, 1)
    goal = _Target(epsilon, delta)

    @functools.cache
    def composed(parameter: float) -> Accountant[Any]:
        return accountant().compose(family(parameter), times)

    @functools.cache
    def at(parameter: float) -> float:
        return goal.excess(composed(parameter))

    @functools.cache
    def met(parameter: float) -> bool:
        return at(parameter) <= 0 and goal.is_met(composed(parameter))

    nowhere = CalibrationError(
        f"no parameter at the ends of [{smallest:.6g}, {largest:.6g}] meets the target"
    )
    first, last = at(smallest), at(largest)
    if first <= 0 and last <= 0:
        first, last = (
            x if met(end) else _LEAST for x, end in ((first, smallest), (last, largest))
        )
    if first > 0 and last > 0:
        raise nowhere
    if first <= 0 and last <= 0:  # the end that has less to spare
        return smallest if at(smallest) >= at(largest) else largest
    ends = (smallest, largest) if last <= 0 else (largest, smallest)
    found = _root(at, met, *ends)
    if found is None:
        raise nowhere
    return found


def calibrate_count(
    event: Event,
    *,
    epsilon: Real,
    delta: Real,
    accountant: Callable[[], Accountant[Any]],
) -> int:
    """Return the largest number of `event` that meets a target.

    Parameters
    ----------
    event : Event
        What is repeated.
    epsilon : int, float, Fraction or Decimal
        >= 0.
    delta : int, float, Fraction or Decimal
        >= 0 and < 1.
    accountant : callable
        Makes an empty accountant: a class such as `ZCDPAccountant`.

    Returns
    -------
    int
        0 when a single event exceeds the target; at most 10^15.

    Raises
    ------
    UnsupportedEventError
        The accountant has no bound for the event.

    Examples
    --------
    >>> from fastdp.accounting import LaplaceEvent, ApproximateAccountant
    >>> from fastdp.accounting import calibrate_count
    >>> calibrate_count(
    ...     LaplaceEvent(sensitivity=1, scale=100),
    ...     epsilon=1,
    ...     delta=0,
    ...     accountant=ApproximateAccountant,
    ... )
    100
    >>> calibrate_count(
    ...     LaplaceEvent(sensitivity=1, scale=100),
    ...     epsilon=1,
    ...     delta=1e-6,
    ...     accountant=ApproximateAccountant,
    ... )
    562
    """
    goal = _Target(epsilon, delta)

    def met(count: int) -> bool:
        composed = accountant().compose(event, count)
        return goal.excess(composed) <= 0 and goal.is_met(composed)

    low, high = 0, 1
    while met(high):
        low, high = high, 2 * high
        if low >= _LARGEST_COUNT:
            return _LARGEST_COUNT
    while high - low > 1:
        middle = (low + high) // 2
        if met(middle):
            low = middle
        else:
            high = middle
    return low


class _Target:
    """An epsilon and a delta, and whether an accountant finds them met."""

    def __init__(self, epsilon: Real, delta: Real) -> None:
        self.epsilon, self.delta = capped_epsilon(epsilon), below_one(delta)

    def excess(self, composed: Accountant[Any]) -> float:
        """Return how far what was composed exceeds the target, <= 0 if not.

        In the root of -ln(delta), which is nearly straight in the noise, as a quotient
        whose sign is exact; in epsilon where delta is 0.
        """
        if self.delta > 0:
            limit = log_down(self.delta)
            value = composed._rough_log_delta(self.epsilon)
            if value > _FAR * limit:
                value = composed.log_delta(self.epsilon)
            value = max(value, -1e300)
            return (value - limit) / (math.sqrt(-value) + math.sqrt(-limit))
        return composed.epsilon(0) - float_down(self.epsilon)

    def is_met(self, composed: Accountant[Any]) -> bool:
        """Return whether the other reading meets the target: they round apart."""
        if self.delta == 0:
            return True
        try:
            return composed.epsilon(self.delta) <= self.epsilon
        except UnsupportedEventError:
            return False


def _root(
    at: Callable[[float], float],
    met: Callable[[float], bool],
    bad: float,
    good: float,
) -> float | None:
    """Return a parameter where the target is met, next to one where it is not.

    None where the one that looked good does not meet it by the other reading.
    """

    def parameter(place: float) -> float:  # geometric from bad at 0 to good at 1
        if place >= 1:
            return good
        return bad * math.pow(good / bad, place) if place > 0 else bad

    place = root_above(lambda place: at(parameter(place)), 0.0, 1.0, 7e-14)
    step = 1e-13
    while not met(parameter(place)):
        if place >= 1:
            return None
        place, step = min(1.0, place + step), 2 * step
    return parameter(place)
