"""Running totals of rows, with noise that is correlated over time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from fastdp import _core, _validate, calibration
from fastdp._factors import Bands, Floats, Integers
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    NeighboringRelation,
    Relation,
    ZCDPEvent,
    as_relation,
    l2_sensitivity,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms.noise._grid import power_of_two
from fastdp.mechanisms.noise.integer import DiscreteGaussian
from fastdp.mechanisms.records.clipped_sum import ClippedSum, SumAccumulator
from fastdp.mechanisms.running._running import Running, number_of_steps
from fastdp.mechanisms.running._strategies import strategy_of

_SPECIAL = NeighboringRelation.REPLACE_SPECIAL
_REPLACE = NeighboringRelation.REPLACE_ONE

#: By default, a row's largest norm is _REACH to 2 * _REACH steps of the grid.
_REACH = 2**18


class PrefixSums(Running):
    """Noisy sums of all rows so far, after every step; the noise of DP-FTRL.

    Each step accepts rows, clips them as `ClippedSum` does, and returns the noisy sum
    of all rows since the first step. The sums A x are released as B (C x + noise),
    where A = B C.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        Standard deviation of discrete Gaussian noise on C x, in the rows' unit, > 0.
    radius : int, float, Fraction or Decimal
        Bound on a row's L2 norm, in the row's unit.
    dimension : int
        Number of entries of a row.
    steps : int
        Number of steps, 1 ... 2**22.
    strategy : str
        "independent": noise on every step, which adds up. "tree": a binary tree of
        partial sums. "square_root": the square root of A, which stores the sums of all
        steps. "banded": the first `bands` coefficients of the square root, or given
        coefficients. "blt": a few decaying `buffers`.
    bands : int or sequence of float, optional
        Only for "banded": the number of bands, 1 ... steps; or up to 2048 coefficients,
        for example the least-error ones of `accounting.calculators.optimized_bands`.
        The first coefficient is 1, and the coefficients neither grow nor fall below 0.
    buffers : int, optional
        Only for "blt": number of buffers, 1 ... 8.
    participations, separation : int
        Maximum number of steps with a row of one individual, and the minimum distance
        between these steps; `separation` is required if participations > 1.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid, a power of two; None takes radius over 2**18 to 2**19.
    neighboring_relation : NeighboringRelation
        `REPLACE_SPECIAL` (an individual's rows are replaced by zeros) or `REPLACE_ONE`.
        Removing a record would shift all later steps.

    Privacy
    -------
    The guarantee is `event()`, under its neighboring relation, for all steps together,
    even if rows are chosen after seeing earlier totals: rho = sensitivity**2/(2
    sigma**2). The sensitivity is computed for the integers in use, not for the
    coefficients that they approximate. Exact. The caller must ensure that no individual
    takes part more often, or twice in a step. Charge the cost when the object is made.
    The object holds the private sums of past steps: it refuses to be copied, pickled or
    forked, and `close` wipes the sums; `Ledger.prefix_sums` preserves them across a
    restart. Timing class T0.

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
    ...     0.5,
    ...     radius=1.0,
    ...     dimension=3,
    ...     steps=100,
    ...     strategy="banded",
    ...     bands=8,
    ...     participations=1,
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
        participations: int,
        bands: Bands = None,
        buffers: int | None = None,
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

        `options` are the constructor's parameters except sigma.

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

        It goes through zero-concentrated privacy, which also holds for rows chosen
        after seeing earlier totals. Options and errors are those of `from_rho`.
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
        """Bound to which each entry of one step's sum is clamped, in the rows' unit."""
        return float(self._strategy.largest * self._step)

    def event(self) -> ZCDPEvent:
        """Return the event of all steps together."""
        return self._event

    def accumulator(self) -> SumAccumulator:
        """Return an empty accumulator for the rows of one step that arrive in parts."""
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
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads.

        Returns
        -------
        ndarray of float64, shape (dimension,)
            In the rows' unit.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or shape. Never raised for a value of the data.
        BudgetExceededError
            All steps were taken, the object is closed, or it was made by another
            process.
        EntropyError
            The operating system gave no randomness; the object is closed.

        Privacy
        -------
        The guarantee of `event()` covers all steps. Timing class T0.
        """
        check_stream(stream)
        workers = _validate.integer("workers", workers, 1)
        held = self._accumulated(rows, workers)
        with self._one_step():
            x = held._taken(self._strategy.largest)
            try:
                return self._advance(x, stream, workers)
            finally:
                _core.zero(x)

    def _accumulated(self, rows: Any, workers: int) -> SumAccumulator:
        if not isinstance(rows, SumAccumulator):
            return self.accumulator().add(rows, workers=workers)
        if rows.mechanism != self._clip:
            raise ParameterError("rows must come from an accumulator of this object")
        return rows

    @contextlib.contextmanager
    def _summed(self, rows: Any, workers: int) -> Iterator[Integers]:
        """Yield the exact sum of one step's rows; clear `rows` on success."""
        held = self._accumulated(rows, workers)
        x = held._exact(self._strategy.largest).reshape(-1)
        try:
            yield x
        except BaseException:
            if held is not rows:
                held._clear()
            raise
        finally:
            _core.zero(x)
        held._clear()


class _Plan:
    """Checked parameters of prefix sums, and their sensitivity to one individual."""

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
        n = number_of_steps(steps)
        count = _validate.integer("participations", participations, 1)
        if count > 1 and separation is None:
            raise ParameterError(
                "separation must be given if participations > 1: the "
                "smallest number of steps between two participations of "
                "one individual"
            )
        gap = (
            n if separation is None else _validate.integer("separation", separation, 1)
        )
        count = min(count, -(-n // gap))
        self.relation = as_relation(neighboring_relation)
        if self.relation not in (_SPECIAL, _REPLACE):
            raise ParameterError(
                "neighboring_relation must be REPLACE_SPECIAL or "
                "REPLACE_ONE: only under these do the other records keep "
                "their steps"
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
            strategy,
            n,
            entries,
            bands=bands,
            buffers=buffers,
            reach=int(reach),
            pattern=(count, gap),
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
    unsaid["neighboring_relation"] = _SPECIAL
    needed = {"radius", "dimension", "steps", "strategy", "participations"}
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
