"""Solve for noise, epsilon, sampling rate or number of events at a target.

This works for any parameter of any event, under any accountant. The result is checked:
at the result the accountant's own bounds, on delta at epsilon and on epsilon at delta,
meet the target.
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
from fastdp.exceptions import (
    CalibrationError,
    ParameterError,
    UnsupportedEventError,
)

__all__ = ["calibrate", "calibrate_count"]

#: Largest number of events that `calibrate_count` tries.
_LARGEST_COUNT = 10**15
#: Skip the reading if a rough bound of ln delta is below this multiple of the target's.
_FAR = 2.0
#: Search an interval up to this power of 16, and down to its inverse.
_MOST_POWERS = 15
#: The excess of a parameter that only one reading refuses.
_LEAST = math.ulp(0.0)


def calibrate(
    family: Callable[[float], Event],
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    advantage: Real | None = None,
    power: Real | None = None,
    false_positive_rate: Real | None = None,
    accountant: Callable[[], Accountant[Any]],
    low: Real | None = None,
    high: Real | None = None,
    count: int = 1,
) -> float:
    """Return the parameter that meets a target with the smallest margin.

    The target is one of three: an epsilon with its delta; the largest advantage of any
    membership test; the largest power of any test with a given false-positive rate.

    Parameters
    ----------
    family : callable
        Function from the parameter, a float > 0, to the event; the privacy loss must be
        monotone in the parameter over the whole interval.
    epsilon : int, float, Fraction or Decimal, optional
        >= 0, with `delta`.
    delta : int, float, Fraction or Decimal, optional
        >= 0 and < 1, with `epsilon`.
    advantage : int, float, Fraction or Decimal, optional
        > 0 and < 1: power minus false-positive rate, which is delta at epsilon 0.
    power : int, float, Fraction or Decimal, optional
        > 0 and < 1, with `false_positive_rate`: 1 minus the false-negative rate.
    false_positive_rate : int, float, Fraction or Decimal, optional
        > 0 and < `power`. The accountant must have a trade-off function, as
        `PLDAccountant` and `FDPAccountant` do.
    accountant : callable
        Callable that makes an empty accountant, such as the class `ZCDPAccountant`.
    low, high : int, float, Fraction or Decimal, optional
        The interval to search, 0 < low < high. If both are None, the search goes from 1
        in both directions, up to 16^15.
    count : int
        Number of events to compose.

    Returns
    -------
    float
        A parameter in the interval at which the accountant meets the target, both by
        its delta at epsilon and by its epsilon at delta. Unless the parameter is an
        end, the target is not met at a relative distance of 1e-9.

    Raises
    ------
    CalibrationError
        Neither end of the interval meets the target, or no interval was found.
    UnsupportedEventError
        The accountant has no bound for such events, or no trade-off function.

    References
    ----------
    Kulynych, Gomez, Kaissis, Calmon, Troncoso, "Attack-Aware Noise Calibration for
    Differential Privacy" (2024), for targets about attacks.

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

    The least sigma at which no test with false positives in 1 % finds more than 5 %:

    >>> from fastdp.accounting import PLDAccountant
    >>> sigma = calibrate(
    ...     lambda sigma: GaussianEvent(sensitivity=1, sigma=sigma),
    ...     power=0.05,
    ...     false_positive_rate=0.01,
    ...     accountant=PLDAccountant,
    ... )
    >>> round(sigma, 6)
    1.467364
    """
    times = _validate.integer("count", count, 1)
    goal = _target(epsilon, delta, advantage, power, false_positive_rate)

    @functools.cache
    def composed(parameter: float) -> Accountant[Any]:
        return accountant().compose(family(parameter), times)

    @functools.cache
    def at(parameter: float) -> float:
        return goal.excess(composed(parameter))

    @functools.cache
    def met(parameter: float) -> bool:
        return at(parameter) <= 0 and goal.is_met(composed(parameter))

    if low is None and high is None:
        smallest, largest = _interval(at)
    elif low is None or high is None:
        raise ParameterError("low and high must be given together, or neither")
    else:
        smallest = float_up(_validate.positive("low", low))
        largest = float_down(_validate.positive("high", high))
        _validate.between("low", smallest, Fraction(0), Fraction(largest))
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
        The event to repeat.
    epsilon : int, float, Fraction or Decimal
        >= 0.
    delta : int, float, Fraction or Decimal
        >= 0 and < 1.
    accountant : callable
        Callable that makes an empty accountant, such as the class `ZCDPAccountant`.

    Returns
    -------
    int
        0 if a single event exceeds the target; at most 10^15.

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
    """A target epsilon and delta, which an accountant may meet."""

    def __init__(self, epsilon: Real, delta: Real) -> None:
        self.epsilon, self.delta = capped_epsilon(epsilon), below_one(delta)

    def excess(self, composed: Accountant[Any]) -> float:
        """Return the excess of the composition over the target; <= 0 if it is met.

        It is a quotient with an exact sign, of roots of -ln(delta), which are nearly
        linear in the noise; if delta is 0, of epsilons.
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
        """Return whether the other reading also meets the target after rounding."""
        if self.delta == 0:
            return True
        try:
            return composed.epsilon(self.delta) <= self.epsilon
        except UnsupportedEventError:
            return False


class _Advantage(_Target):
    """A delta at epsilon 0."""

    def __init__(self, advantage: Real) -> None:
        super().__init__(0, _validate.open_unit("advantage", advantage))

    def is_met(self, composed: Accountant[Any]) -> bool:
        """Return True: there is no second reading."""
        return True


class _Power(_Advantage):
    """A target power of tests with a given false-positive rate."""

    def __init__(self, power: Real, rate: Real) -> None:
        most = _validate.open_unit("power", power)
        least = _validate.open_unit("false_positive_rate", rate)
        if least >= most:
            raise ParameterError(
                "false_positive_rate must be below power: no noise makes "
                "the power smaller than the false-positive rate, got "
                f"{_validate.shown(rate)} and {_validate.shown(power)}"
            )
        self.power, self.rate = float_down(most), float_up(least)

    def excess(self, composed: Accountant[Any]) -> float:
        """Return the excess of the power over the target, in normal deviations."""
        from scipy.special import ndtri

        from fastdp.accounting.readings import largest_power_of_trade_off

        if not hasattr(composed, "trade_off"):
            raise UnsupportedEventError(
                "accountant must have a trade-off function if power is "
                "given, for example PLDAccountant; got "
                f"{type(composed).__name__}"
            )
        found = float(largest_power_of_trade_off(composed.trade_off(), self.rate))
        away = float(ndtri(min(max(found, 1e-300), 1 - 1e-16)) - ndtri(self.power))
        return min(away, 0.0) if found <= self.power else max(away, _LEAST)


def _target(
    epsilon: Real | None,
    delta: Real | None,
    advantage: Real | None,
    power: Real | None,
    rate: Real | None,
) -> _Target:
    """Return the single given target."""
    given = tuple(x is not None for x in (epsilon, delta, advantage, power, rate))
    if given == (True, True, False, False, False):
        assert epsilon is not None
        assert delta is not None
        return _Target(epsilon, delta)
    if given == (False, False, True, False, False):
        assert advantage is not None
        return _Advantage(advantage)
    if given == (False, False, False, True, True):
        assert power is not None
        assert rate is not None
        return _Power(power, rate)
    raise ParameterError(
        "the target must be epsilon and delta, or advantage, or power and "
        "false_positive_rate"
    )


def _interval(at: Callable[[float], float]) -> tuple[float, float]:
    """Return two powers of 16; the target is met at one of them only."""
    last, met = [1.0, 1.0], at(1.0) <= 0
    for k in range(1, _MOST_POWERS + 1):
        for side, place in enumerate((16.0**-k, 16.0**k)):
            if not last[side]:
                continue
            try:
                found = at(place) <= 0
            except (ParameterError, UnsupportedEventError):
                last[side] = 0.0  # beyond what the event takes
                continue
            if found != met:
                return min(last[side], place), max(last[side], place)
            last[side] = place
    raise CalibrationError(
        "low and high must be given: the search over powers of 16 found "
        "no interval in which the target is met at one end only"
    )


def _root(
    at: Callable[[float], float],
    met: Callable[[float], bool],
    bad: float,
    good: float,
) -> float | None:
    """Return a parameter that meets the target, close to one that does not.

    Return None if that parameter does not meet the target by the other reading.
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
