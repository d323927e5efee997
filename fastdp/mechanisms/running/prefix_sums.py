"""Running totals: every prefix sum is released, the noise is shaped over time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _core, _factors, _validate, calibration
from fastdp._factors import Bands, Floats, Integers
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    NeighboringRelation,
    PureDPEvent,
    Relation,
    ZCDPEvent,
    as_relation,
    l2_sensitivity,
)
from fastdp.exceptions import BudgetExceededError, DTypeError, ParameterError
from fastdp.mechanisms._base import int64_scalar
from fastdp.mechanisms._memory import Remembering
from fastdp.mechanisms.noise._grid import power_of_two
from fastdp.mechanisms.noise.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.records.clipped_sum import ClippedSum, SumAccumulator
from fastdp.mechanisms.running._strategies import Doubling, Strategy, strategy_of

_SPECIAL = NeighboringRelation.REPLACE_SPECIAL
_REPLACE = NeighboringRelation.REPLACE_ONE

#: Steps of the grid in a row's largest norm, by default: to 2**19.
_REACH = 2**18


class _Running(Remembering):
    """What takes one step after another and tells the noisy total after each."""

    __slots__ = ("_at", "_closed", "_noise", "_step", "_strategy", "_variances")

    _called = "a running total"
    _because = "the noise of a step is drawn once"

    _at: int
    _closed: bool
    _noise: DiscreteGaussian | DiscreteLaplace  # in units of C x
    _step: Fraction  # of the grid, in the data's unit
    _strategy: Strategy
    _variances: Floats

    def _begin(
        self,
        arguments: list[tuple[str, Any]],
        noise: DiscreteGaussian | DiscreteLaplace,
        step: Fraction,
        strategy: Strategy,
    ) -> None:
        self._freeze(
            _arguments=tuple(arguments),
            _at=0,
            _closed=False,
            _noise=noise,
            _step=step,
            _strategy=strategy,
            _variances=strategy.spread(),
        )
        self._settle()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wipe what is private; no step can follow."""
        self._freeze(_closed=True)
        self._wipe()

    @property
    def steps_left(self) -> int:
        """Number of steps that can still be taken."""
        return 0 if self._closed else self._strategy.steps - self._at

    def standard_error(self, step: int) -> float:
        """Return the standard error of the total after a step, from 1, in its unit."""
        at = _validate.integer("step", step, 1, self._strategy.steps)
        unit = float(self._step) / 2**self._strategy.bits
        return float(self._noise.std * np.sqrt(self._variances[at - 1]) * unit)

    @contextlib.contextmanager
    def _one_step(self) -> Iterator[None]:
        """Hold the lock over one step; a step that fails is the last."""
        self._require_home()
        with self._lock:
            if self._closed or self._at == self._strategy.steps:
                state = "is closed" if self._closed else "has taken all its steps"
                raise BudgetExceededError(f"the running total {state}")
            try:
                yield
                self._require_home()
            except BaseException:
                self.close()
                raise
            self._freeze(_at=self._at + 1)
            if self._at == self._strategy.steps:
                self._wipe()

    def _advance(self, x: Integers, stream: Stream | None, workers: int) -> Floats:
        """Return the noisy total, in the data's unit, after one more step's sum."""
        y = self._strategy.encode(x)
        self._noise.release(y, out=y, stream=stream, workers=workers)
        total = self._strategy.decode(y.astype(np.float64))
        total *= float(self._step)
        return total

    def _wipe(self) -> None:
        self._strategy.wipe()


class PrefixSums(_Running):
    """Noisy sums of all rows so far, after every step; the noise of DP-FTRL.

    Each step takes rows, clipped like `ClippedSum`'s, and returns the noisy sum of all
    rows since the first. The sums A x are released as B (C x + noise), A = B C.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        Standard deviation of discrete Gaussian noise on C x, in the rows' unit, > 0.
    radius : int, float, Fraction or Decimal
        Bound of a row's L2 norm, in its unit.
    dimension : int
        Entries of a row.
    steps : int
        Number of steps, 1 ... 2**22.
    strategy : str
        "independent": noise on every step, which adds up. "tree": a binary tree of
        partial sums. "square_root": the root of A, which keeps all steps' sums.
        "banded": its first `bands` coefficients, or other ones. "blt": a few decaying
        `buffers`.
    bands : int or sequence of float, optional
        For "banded", and only there: their number, 1 ... steps; or coefficients, as of
        `accounting.calculators.optimized_bands`, with the least error: up to 2048, the
        first is 1, and they neither grow nor fall below 0.
    buffers : int, optional
        For "blt", and only there: 1 ... 8.
    participations, separation : int
        In how many steps one individual has a row at most, and how many steps apart at
        least; `separation` must be given with several.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid, a power of two; None takes radius over 2**18 to 2**19.
    neighboring_relation : NeighboringRelation
        `REPLACE_SPECIAL` (an individual's rows are replaced by zeros) or
        `REPLACE_ONE`. To remove a record would shift all later steps.

    Privacy
    -------
    That of `event()`, under its neighboring relation, for all steps together and rows
    that may be chosen with earlier totals in view: rho = sensitivity**2/(2 sigma**2).
    The sensitivity is of the integers that are used, not of the coefficients they
    approximate. Exact. That no individual takes part more often, or twice in a step,
    is the caller's promise. It is charged when the object is made. It holds the sums of
    past steps, which are private: no copy, pickle or fork, and `close` wipes them.
    Timing class T0.

    References
    ----------
    Kairouz, McMahan, Song, Thakkar, Thakurta, Xu, "Practical and private (deep)
    learning without sampling or shuffling", ICML 2021. Kalinin, Lampert, "Banded square
    root matrix factorization", NeurIPS 2024. Dvijotham, McMahan, Pillutla, Steinke,
    Thakurta, "Efficient and near-optimal noise generation for streaming differential
    privacy", FOCS 2024 (buffers). docs/proofs/prefix_sums.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> sums = fastdp.PrefixSums.from_rho(
    ...     0.5, radius=1.0, dimension=3, steps=100, strategy="banded", bands=8
    ... )
    >>> sums.step(np.ones((20, 3))).shape
    (3,)
    >>> sums.steps_left
    99
    """

    __slots__ = ("_clip", "_event")

    _clip: ClippedSum
    _event: ZCDPEvent

    def __init__(
        self,
        *,
        sigma: Real,
        radius: Real,
        dimension: int,
        steps: int,
        strategy: str,
        bands: Bands = None,
        buffers: int | None = None,
        participations: int = 1,
        separation: int | None = None,
        granularity: Real | None = None,
        neighboring_relation: Relation = _SPECIAL,
    ) -> None:
        parameter = _validate.positive("sigma", sigma)
        plan = _Plan(
            radius, dimension, steps, strategy, bands, buffers, participations,
            separation, granularity, neighboring_relation,
        )  # fmt: skip
        moved = plan.sensitivity
        arguments = [("sigma", _validate.plain(parameter)), *plan.arguments]
        self._freeze(
            _clip=ClippedSum(
                sigma=parameter,
                radius=radius,
                dimension=dimension,
                norm=2,
                granularity=plan.step,
                neighboring_relation=plan.relation,
            ),
            _event=ZCDPEvent(
                moved**2 / (2 * parameter**2), neighboring_relation=plan.relation
            ),
        )
        unit = plan.step / 2**plan.strategy.bits
        noise = DiscreteGaussian(parameter / unit)
        self._begin(arguments, noise, plan.step, plan.strategy)

    @classmethod
    def from_rho(cls, rho: Real, **options: Any) -> PrefixSums:
        """Return the mechanism with the least noise for rho-zCDP, rounded up.

        `options` are the constructor's parameters but sigma.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the sigma that it needs, is out of range.
        """
        moved = _Plan(**_complete(options)).sensitivity
        sigma = calibration.gaussian_sigma_from_rho(rho=rho, sensitivity=moved)
        return cls(sigma=sigma, **options)

    @classmethod
    def from_epsilon_delta(
        cls, *, epsilon: Real, delta: Real, **options: Any
    ) -> PrefixSums:
        """Return the mechanism with the least noise for (epsilon, delta).

        By way of zero-concentrated privacy, which holds for rows chosen in view of
        earlier totals. Options and errors are those of `from_rho`.
        """
        from fastdp.accounting.conversions import zcdp_to_rho

        rho = zcdp_to_rho(epsilon=epsilon, delta=delta)
        return cls.from_rho(rho, **options)

    @property
    def granularity(self) -> int | float | Fraction:
        """Step of the grid that rows are rounded to, in their unit: a power of two."""
        return _validate.plain(self._step)

    @property
    def largest(self) -> float:
        """Where each entry of one step's sum is clamped, in the rows' unit."""
        return float(self._strategy.largest * self._step)

    def event(self) -> ZCDPEvent:
        """Return the event of all steps together."""
        return self._event

    def accumulator(self) -> SumAccumulator:
        """Return an empty accumulator for the rows of one step that come in parts."""
        return self._clip.accumulator()

    def step(
        self, rows: Any, *, stream: Stream | None = None, workers: int = 1
    ) -> Floats:
        """Add one step's rows; return the noisy sum of all rows so far.

        Parameters
        ----------
        rows : ndarray of float64 or float32, shape (n, dimension), or SumAccumulator
            The rows of this step, or an accumulator of them (`accumulator`), which is
            cleared. NaN counts as 0. The step's sum is clamped to `largest`, by entry.
        stream : Stream, optional
            None draws a fresh key from the operating system; for repeatable tests
            `fastdp.testing.FixedStream`.
        workers : int
            Threads.

        Returns
        -------
        ndarray of float64, shape (dimension,)
            In the rows' unit.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or shape. Never for a value of the data.
        BudgetExceededError
            All steps were taken, the object is closed, or it was made by another
            process.
        EntropyError
            The operating system gave no randomness; the object is closed.

        Privacy
        -------
        Part of what `event()` states. Timing class T0.
        """
        check_stream(stream)
        workers = _validate.integer("workers", workers, 1)
        held = rows
        if not isinstance(rows, SumAccumulator):
            held = self.accumulator().add(rows, workers=workers)
        elif rows.mechanism != self._clip:
            raise ParameterError("rows must come from an accumulator of this object")
        with self._one_step():
            x = held._taken(self._strategy.largest)
            try:
                return self._advance(x, stream, workers)
            finally:
                _core.zero(x)


class Counter(_Running):
    """A running total of events that is told after every step.

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
        whose noise grows with the steps taken and not with `steps`, which may be 2**22
        where the horizon is unknown. A step is clamped to 2**46/`steps` events.
    bands, buffers
        As in `PrefixSums`.
    events_per_unit : int
        Number of events of one individual, in whatever steps.

    Privacy
    -------
    That of `event()` for all steps together, with counts that may depend on earlier
    totals: the neighboring relation adds or removes an individual's events, each in its
    step, and leaves the time line as it is. With L = floor(log2 steps) + 1 levels of a
    tree, the sensitivity is L per event (L1) or sqrt(L) (L2); doubling blocks weigh
    their sums so that it is at most 1. Exact. No copy, pickle or fork; `close` wipes
    the private sums. Timing class T0.

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

        Errors are those of `from_epsilon`.
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
            Events of this step; clamped to what the strategy can sum.
        stream : Stream, optional
            None draws a fresh key from the operating system.

        Returns
        -------
        float

        Raises
        ------
        DTypeError
            `count` is no integer.
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

    def _lent(self) -> bytes:
        """Close it but for `_resumed`; return the memory before the first step."""
        self._require_home()
        with self._lock:
            if self._at:
                raise ParameterError("mechanism must be new, got one that took steps")
            self._freeze(_closed=True)
            return self._strategy.memory()

    def _resumed(self, memory: bytes, taken: int, x: Integers) -> tuple[float, bytes]:
        """Take a step after `taken` of them; return its total and the memory after it.

        Between two such steps the object itself holds nothing: a ledger does.
        """
        self._require_home()
        with self._lock:
            try:
                self._strategy.load(memory, taken)
                total = float(self._advance(x, None, 1)[0])
                ended = taken + 1 == self._strategy.steps
                return total, b"" if ended else self._strategy.memory()
            finally:
                self._strategy.wipe()


# ---- plans -------------------------------------------------------------------------


class _Plan:
    """Checked parameters of prefix sums, and how far one individual moves them."""

    def __init__(
        self,
        radius: Real,
        dimension: int,
        steps: int,
        strategy: str,
        bands: Bands,
        buffers: int | None,
        participations: int,
        separation: int | None,
        granularity: Real | None,
        neighboring_relation: Relation,
    ) -> None:
        length = _validate.positive("radius", radius)
        entries = _validate.integer("dimension", dimension, 1, 2**32 - 1)
        n = _steps(steps)
        count = _validate.integer("participations", participations, 1)
        if count > 1 and separation is None:
            raise ParameterError(
                "separation must be given with several participations: the least "
                "number of steps between two of one individual"
            )
        gap = (
            n if separation is None else _validate.integer("separation", separation, 1)
        )
        count = min(count, -(-n // gap))
        self.relation = as_relation(neighboring_relation)
        if self.relation not in (_SPECIAL, _REPLACE):
            raise ParameterError(
                "neighboring_relation must be REPLACE_SPECIAL or REPLACE_ONE: the "
                "steps of the other records stay where they are"
            )
        self.step = (
            _power_below(length / _REACH)
            if granularity is None
            else power_of_two(granularity)
        )
        reach = length / self.step
        if not 1 <= reach < 2**30:
            raise ParameterError(
                "granularity must be at most radius and above radius/2**30, got "
                f"{float(self.step)!r}"
            )
        self.strategy = strategy_of(
            strategy, n, entries, bands=bands, buffers=buffers, reach=int(reach)
        )
        row = l2_sensitivity(Fraction(int(reach**2)))
        moved = l2_sensitivity(self.strategy.square(count, gap)) * row
        if self.relation is _REPLACE:
            moved *= 2
        moved += self.strategy.slack / 2**self.strategy.bits
        self.sensitivity = moved * self.step
        shown: dict[str, Any] = {
            "radius": _validate.plain(length),
            "dimension": entries,
            "steps": n,
            "strategy": strategy,
            "bands": self.strategy.bands,
            "buffers": buffers,
            "participations": count,
            "separation": None if count == 1 else gap,
            "granularity": _validate.plain(self.step),
        }
        if self.relation is _REPLACE:
            shown["neighboring_relation"] = self.relation
        self.arguments = [(k, v) for k, v in shown.items() if v is not None]


def _complete(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a plan with their defaults."""
    unsaid: dict[str, Any] = dict.fromkeys(
        ("bands", "buffers", "separation", "granularity")
    )
    unsaid |= {"participations": 1, "neighboring_relation": _SPECIAL}
    needed = {"radius", "dimension", "steps", "strategy"}
    if not needed <= set(options) <= needed | set(unsaid):
        raise DTypeError(
            f"options must be {', '.join(sorted(needed))} and may be "
            f"{', '.join(sorted(unsaid))}"
        )
    return unsaid | options


def _power_below(value: Fraction) -> Fraction:
    """Return the largest power of two that is at most `value`."""
    places = value.numerator.bit_length() - value.denominator.bit_length()
    power = Fraction(2) ** places
    return power if power <= value else power / 2


def _steps(steps: object) -> int:
    return _validate.integer("steps", steps, 1, _factors.MOST_STEPS)


def _events(
    steps: object,
    strategy: str,
    bands: Bands,
    buffers: int | None,
    events_per_unit: object,
    *,
    pure: bool,
) -> tuple[Strategy, Fraction]:
    """Return a counter's strategy, and how far one individual's events move it."""
    n = _steps(steps)
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
        plan = strategy_of(strategy, n, 1, bands=bands, buffers=buffers, reach=1)
    if pure:
        return plan, Fraction(many * n.bit_length())
    # Events in other steps move the sums less than all in the one of largest norm.
    moved = many * l2_sensitivity(plan.square(1, n))
    return plan, moved + plan.slack / 2**plan.bits
