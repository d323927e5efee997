"""A running total of events."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _validate, calibration
from fastdp._factors import Bands, Integers
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    PureDPEvent,
    ZCDPEvent,
    l2_sensitivity,
)
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._base import int64_scalar
from fastdp.mechanisms.noise.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.running._running import Running, number_of_steps
from fastdp.mechanisms.running._strategies import Doubling, Strategy, strategy_of


class Counter(Running):
    """A running total of events that is released after every step.

    Parameters
    ----------
    steps : int
        Number of steps, 1 ... 2**22.
    sigma : int, float, Fraction or Decimal, optional
        Parameter of discrete Gaussian noise on C x.
    scale : int, float, Fraction or Decimal, optional
        Scale of discrete Laplace noise instead, for "tree" or "doubling". Exactly one
        of the two.
    strategy : str
        As in `PrefixSums`; or "doubling": a tree for each block of 1, 2, 4 ... steps,
        so that the noise grows with the steps taken and not with `steps`; for an
        unknown horizon, `steps` may be 2**22. A step is clamped to 2**46/`steps`
        events.
    bands, buffers
        As in `PrefixSums`.
    events_per_unit : int
        Number of events of one individual, in any steps.

    Privacy
    -------
    The guarantee is `event()` for all steps together, even if counts depend on earlier
    totals: the neighboring relation adds or removes an individual's events, each in its
    step, and shifts no steps. With L = floor(log2 steps) + 1 levels of a tree, the
    sensitivity is L per event (L1) or sqrt(L) (L2); doubling blocks weigh their sums so
    that it is at most 1. Exact. The object refuses to be copied, pickled or forked;
    `close` wipes the private sums. Timing class T0.

    References
    ----------
    Chan, Shi, Song, "Private and continual release of statistics", 2011. Dwork, Naor,
    Pitassi, Rothblum, "Differential privacy under continual observation", 2010.
    Honaker, "Efficient use of differentially private binary trees", 2015.
    docs/proofs/prefix_sums.md.

    Examples
    --------
    >>> import fastdp
    >>> counter = fastdp.Counter.from_epsilon(1, steps=1024)
    >>> abs(counter.add(17) - 17) < 1000
    True
    >>> counter.epsilon()
    1.0
    """

    __slots__ = ("_event",)

    _event: ZCDPEvent | PureDPEvent

    def __init__(
        self,
        *,
        steps: int,
        sigma: Real | None = None,
        scale: Real | None = None,
        strategy: str = "tree",
        bands: Bands = None,
        buffers: int | None = None,
        events_per_unit: int = 1,
    ) -> None:
        name, given = _validate.one_of(sigma=sigma, scale=scale)
        parameter = _validate.positive(name, given)
        plan, moved = _events(
            steps, strategy, bands, buffers, events_per_unit, pure=scale is not None
        )
        arguments: list[tuple[str, Any]] = [
            ("steps", plan.steps),
            (name, _validate.plain(parameter)),
            ("strategy", strategy),
            ("bands", plan.bands),
            ("buffers", buffers),
            ("events_per_unit", int(events_per_unit)),
        ]
        units = parameter * 2**plan.bits
        event: ZCDPEvent | PureDPEvent
        noise: DiscreteGaussian | DiscreteLaplace
        if scale is None:
            event = ZCDPEvent(moved**2 / (2 * parameter**2))
            noise = DiscreteGaussian(units)
        else:
            event = PureDPEvent(moved / parameter)
            noise = DiscreteLaplace(units)
        self._freeze(_event=event)
        shown = [(key, value) for key, value in arguments if value is not None]
        self._begin(shown, noise, Fraction(1), plan)

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        steps: int,
        strategy: str = "tree",
        events_per_unit: int = 1,
    ) -> Counter:
        """Return the counter with the least Laplace noise for pure `epsilon`.

        `strategy` is "tree" or "doubling".

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the scale that it needs, is out of range.
        """
        _, moved = _events(steps, strategy, None, None, events_per_unit, pure=True)
        return cls(
            steps=steps,
            scale=calibration.laplace_scale(epsilon=epsilon, sensitivity=moved),
            strategy=strategy,
            events_per_unit=events_per_unit,
        )

    @classmethod
    def from_rho(
        cls,
        rho: Real,
        *,
        steps: int,
        strategy: str = "tree",
        bands: Bands = None,
        buffers: int | None = None,
        events_per_unit: int = 1,
    ) -> Counter:
        """Return the counter with the least Gaussian noise for rho-zCDP, rounded up.

        Errors are as in `from_epsilon`.
        """
        _, moved = _events(steps, strategy, bands, buffers, events_per_unit, pure=False)
        return cls(
            steps=steps,
            sigma=calibration.gaussian_sigma_from_rho(rho=rho, sensitivity=moved),
            strategy=strategy,
            bands=bands,
            buffers=buffers,
            events_per_unit=events_per_unit,
        )

    def event(self) -> ZCDPEvent | PureDPEvent:
        """Return the event of all steps together."""
        return self._event

    def add(self, count: Any, *, stream: Stream | None = None) -> float:
        """Add one step's events; return the noisy number of all events so far.

        Parameters
        ----------
        count : int or numpy integer
            Number of events in this step; clamped to the largest supported number.
        stream : Stream, optional
            None draws a fresh key from the operating system.

        Returns
        -------
        float

        Raises
        ------
        DTypeError
            `count` is not an integer.
        BudgetExceededError, EntropyError
            As in `PrefixSums.step`.
        """
        check_stream(stream)
        x = self._clamped(count)
        with self._one_step():
            return float(self._advance(x, stream, 1)[0])

    def _clamped(self, count: Any) -> Integers:
        most = self._strategy.largest
        x: Integers = np.clip(np.array([int64_scalar("count", count)]), -most, most)
        return x


def _events(
    steps: object,
    strategy: str,
    bands: Bands,
    buffers: int | None,
    events_per_unit: object,
    *,
    pure: bool,
) -> tuple[Strategy, Fraction]:
    """Return a counter's strategy, and its sensitivity to one individual's events."""
    n = number_of_steps(steps)
    many = _validate.integer("events_per_unit", events_per_unit, 1, 2**31)
    if pure and strategy not in ("tree", "doubling"):
        raise ParameterError('strategy must be "tree" or "doubling" with Laplace noise')
    plan: Strategy
    if strategy == "doubling":
        if (bands, buffers) != (None, None):
            raise ParameterError('bands and buffers must be left out with "doubling"')
        plan = Doubling(n, pure=pure)
        if pure:
            return plan, many * plan.length
    else:
        plan = strategy_of(
            strategy, n, 1, bands=bands, buffers=buffers, reach=1, pattern=(1, n)
        )
    if pure:
        return plan, Fraction(many * n.bit_length())
    # The worst case has all events in the step whose column has the largest norm.
    moved = many * l2_sensitivity(plan.square(1, n))
    return plan, moved + plan.slack / 2**plan.bits
