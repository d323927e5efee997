"""The noise of a table: which sums are released, by which laws, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from fastdp import _validate, calibration
from fastdp._validate import Real
from fastdp.accounting.events import Event, l2_sensitivity
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._moments_shape import grid_bits
from fastdp.mechanisms.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.key_selection import KeySelection
from fastdp.mechanisms.unknown_histogram import UnknownHistogram

Law = DiscreteLaplace | DiscreteGaussian

#: What one kept record moves, of a column by what is released of it: the sum of
#: magnitudes, and of squares, in units of the common noise.
_MOVED = {
    "sum": (Fraction(1), Fraction(1)),
    "mean": (Fraction(2), Fraction(2)),
    "variance": (Fraction(5, 2), Fraction(9, 4)),
}

#: Part of delta that keys get: what accountants round up in a composition has room.
_ROOM = 1 - Fraction(1, 2**30)


def _rho(law: Any) -> Fraction:
    """Return what the event of Gaussian noise states, exactly."""
    moved = _validate.exact("sensitivity", law.sensitivity)
    return moved**2 / (2 * _validate.exact("sigma", law.sigma) ** 2)


class Budget(NamedTuple):
    """What a table may cost; delta for groups that nobody listed."""

    epsilon: Real | None
    rho: Real | None
    delta: Real | None

    @classmethod
    def of(
        cls,
        epsilon: Real | None,
        rho: Real | None,
        delta: Real | None,
        *,
        unlisted: bool,
    ) -> Budget:
        """Return a budget that goes with the groups, checked."""
        name, amount = _validate.one_of(epsilon=epsilon, rho=rho)
        _validate.positive(name, amount)
        if unlisted and delta is None:
            raise ParameterError(
                "delta must be given for by without keys: which groups occur is data, "
                "and to show one takes a delta; or list the public groups in keys"
            )
        if delta is not None:
            if not unlisted:
                raise ParameterError(
                    "delta must be left out where all groups are public: it pays for "
                    "the choice of groups that no keys list"
                )
            _validate.open_unit("delta", delta)
        return cls(epsilon, rho, delta)

    @property
    def amount(self) -> Fraction:
        """Epsilon or rho, whichever was given, exactly."""
        name, amount = _validate.one_of(epsilon=self.epsilon, rho=self.rho)
        return _validate.positive(name, _validate.least_reading(amount))


class Total(NamedTuple):
    """One sum that is released for each group.

    Attributes
    ----------
    name : str
        What the engine calls it.
    law : mechanism
        Its noise, in steps of 2**-bits.
    bits : int
        0 for a number of records or units with integer noise.
    """

    name: str
    law: Law
    bits: int

    @property
    def source(self) -> str:
        """The engine's column: numbers of records come in whole records."""
        return {"count": "n", "units": "users"}.get(self.name, self.name)


class Noise:
    """The totals of a table with their laws, and what selects its groups.

    Count, numbers of records and sums have equal noise, in records: weights by what a
    record moves. The number of units has less, by the number of records that each unit
    keeps.

    Parameters
    ----------
    budget : Budget
    kept : pair of int
        k groups of a unit, and r records in each.
    count, units : bool
        Whether these numbers are released.
    kinds : sequence of str
        What is released of each column of numbers: a key of `_MOVED`.
    """

    def __init__(
        self,
        budget: Budget,
        kept: tuple[int, int],
        *,
        count: bool,
        units: bool,
        kinds: Sequence[str],
    ) -> None:
        self.budget, self._kept = budget, kept
        self.unlisted = budget.delta is not None
        self.share = budget.amount / (2 if self.unlisted else 1)
        groups, records = kept
        parts = [_MOVED["sum"]] * (count + units) + [_MOVED[kind] for kind in kinds]
        first = sum((part[0] for part in parts), Fraction(0))
        second = sum((part[1] for part in parts), Fraction(0))
        self.by_epsilon = budget.epsilon is not None
        if self.by_epsilon:
            self._set(groups * records * first / self.share, count, units, kinds)
            return
        moved = l2_sensitivity(groups * records**2 * second)
        sigma = calibration.gaussian_sigma_from_rho(rho=self.share, sensitivity=moved)
        self._set(Fraction(sigma), count, units, kinds)
        # The roots of sensitivities are rounded up: so is what the events state.
        while sum(_rho(total.law) for total in self.totals) > self.share:
            sigma = math.nextafter(sigma, math.inf)
            self._set(Fraction(sigma), count, units, kinds)

    def _set(
        self, parameter: Fraction, count: bool, units: bool, kinds: Sequence[str]
    ) -> None:
        """Make the totals with noise of this parameter, in records."""
        self.parameter, self.bits = parameter, grid_bits(parameter)
        own = [("count", self._whole(self._kept[1]))] if count else []
        own += [("units", self._whole(1))] if units else []
        self.totals = tuple(Total(name, law, 0) for name, law in own)
        self.totals += tuple(
            Total(f"{sum_}{i}", self._fine(sum_), self.bits)
            for i, kind in enumerate(kinds)
            for sum_ in {"sum": "s", "mean": "ns", "variance": "nsq"}[kind]
        )

    def _whole(self, records: int) -> Law:
        """Return the noise of a number that a unit moves by so much in each group."""
        scaled = self.parameter * records / self._kept[1]
        return self._law(scaled, records)

    def _fine(self, sum_: str) -> Law:
        """Return the noise of a sum in steps of 2**-bits; of squares half is moved."""
        records, steps = self._kept[1], 2**self.bits
        most = steps // 2 if sum_ == "q" else steps
        return self._law(self.parameter * steps, records * most)

    def _law(self, parameter: Fraction, moved: int) -> Law:
        groups = self._kept[0]
        if self.by_epsilon:
            return DiscreteLaplace(parameter, sensitivity=groups * moved)
        square = l2_sensitivity(Fraction(groups * moved**2))
        return DiscreteGaussian(parameter, sensitivity=square)

    def selection(self) -> KeySelection | UnknownHistogram:
        """Return what shows groups that nobody listed, by their number of units."""
        delta = _validate.open_unit("delta", self.budget.delta) * _ROOM
        if self.by_epsilon:
            return KeySelection.from_epsilon_delta(
                epsilon=self.share, delta=delta, keys_per_user=self._kept[0]
            )
        return UnknownHistogram.from_rho_delta(
            rho=self.share, delta=delta, keys_per_user=self._kept[0]
        )

    def events(self) -> list[Event]:
        """Return what the parts cost, the selection of groups last."""
        found: list[Event] = [total.law.event() for total in self.totals]
        return [*found, self.selection().event()] if self.unlisted else found
