"""The noise of a table: the released sums, their laws and their cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

from fastdp import _validate, calibration
from fastdp._validate import Real
from fastdp.accounting.events import ApproximateDPEvent, Event, l2_sensitivity
from fastdp.exceptions import ParameterError
from fastdp.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    KeySelection,
    UnknownHistogram,
)
from fastdp.mechanisms.records._moments_shape import grid_bits
from fastdp.mechanisms.records._thresholds import least_threshold

Law = DiscreteLaplace | DiscreteGaussian

#: Change of a column's sums by one kept record, by what is released of the column: the
#: L1 norm and the squared L2 norm, in units of the common noise.
_MOVED = {
    "sum": (Fraction(1), Fraction(1)),
    "mean": (Fraction(2), Fraction(2)),
    "variance": (Fraction(5, 2), Fraction(9, 4)),
}

#: Weight of a tree of counts in the budget, on the scale of `_MOVED`; its levels share
#: it.
_TREE = Fraction(2)

#: If exactly this is released, the total that also selects the groups.
_OWN: dict[tuple[str, ...], str] = {
    ("count",): "count",
    ("mean",): "n0",
    ("variance",): "n0",
}

#: Give keys this fraction of delta: the rest covers upward rounding by accountants.
_ROOM = 1 - Fraction(1, 2**30)


def _rho(law: Any) -> Fraction:
    """Return the rho of the event of Gaussian noise, exactly."""
    moved = _validate.exact("sensitivity", law.sensitivity)
    return moved**2 / (2 * _validate.exact("sigma", law.sigma) ** 2)


class Budget(NamedTuple):
    """The budget of a table; delta is for groups that are not listed."""

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
        """Return a checked budget; delta is needed exactly if groups are not listed."""
        name, amount = _validate.one_of(epsilon=epsilon, rho=rho)
        _validate.positive(name, amount)
        if unlisted and delta is None:
            raise ParameterError(
                "delta must be given for by without keys, because which "
                "groups occur is data; or list the public groups in keys"
            )
        if delta is not None:
            if not unlisted:
                raise ParameterError(
                    "delta must be left out if all groups are public: it "
                    "is only for groups that are not listed"
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
        The total's name in the engine's result.
    law : mechanism
        The noise, in steps of 2**-bits.
    bits : int
        0 for a number of records or units with integer noise.
    """

    name: str
    law: Law
    bits: int

    @property
    def source(self) -> str:
        """The engine's column for this total; it counts whole records."""
        return {"count": "n", "units": "users"}.get(self.name, self.name)


class Threshold(NamedTuple):
    """A threshold on a released noisy number that selects groups that are not listed.

    Attributes
    ----------
    total : str
        The number's name: of units, of records, or "n0".
    above : int
        A group is shown if its noisy number is above this, in steps of 2**-bits, and
        its exact number is above 0.
    step : int
        2**bits of the number.
    law : mechanism
        The noise of the number.
    event : Event
        The cost of showing groups, in addition to the noise.
    """

    total: str
    above: int
    step: int
    law: Law
    event: Event

    def shown(self, exact: Any, noisy: Any) -> Any:
        """Return a mask of the shown groups."""
        return (noisy > self.above) & (exact > 0)

    def probability(self, number: int) -> float:
        """Return the probability that a group with this exact number is shown."""
        law = self.law._law
        return float(law.sf(float(self.above - number * self.step))) if number else 0.0


class Noise:
    """The totals of a table with their laws, and the selection of its groups.

    The count, numbers of records and sums have equal noise, in records; a part's share
    of the budget follows from its change by one record. The number of units has less
    noise, because a unit changes it only by 1. If it selects the groups, it gets half
    of the budget, or all if nothing else is released.

    Parameters
    ----------
    budget : Budget
    kept : pair of int
        k groups of a unit, and r records in each.
    count, units : bool
        Whether these numbers are released.
    kinds : sequence of str
        Kind of release for each column of numbers: a key of `_MOVED`.
    histograms : int
        Number of released histograms; a record is in one bin of each.
    trees : sequence of int
        Noisy levels of each tree of counts; a record is in one node of each level.
    """

    def __init__(
        self,
        budget: Budget,
        kept: tuple[int, int],
        *,
        count: bool,
        units: bool,
        kinds: Sequence[str],
        histograms: int = 0,
        trees: Sequence[int] = (),
    ) -> None:
        self.budget, self._kept = budget, kept
        bins = [f"h{j}" for j in range(histograms)]
        self._levels = {f"t{j}": levels for j, levels in enumerate(trees)}
        self.unlisted = budget.delta is not None
        self.by_epsilon = budget.epsilon is not None
        others = (*["count"] * count, *kinds, *bins, *self._levels)
        own = "units" if units else _OWN.get(others)
        own = own if self.unlisted else None
        alone = own is not None and (own != "units" or not others)
        self.share = budget.amount / (2 if self.unlisted and not alone else 1)
        first: tuple[Total, ...] = ()
        numbers = [("count", kept[1])] * count + [(name, kept[1]) for name in bins]
        if own == "units" and not alone:
            *_, first = self._fitted([("units", 1)], ())
        elif units:
            numbers.insert(count, ("units", 1))
        self.parameter, self.bits, rest = self._fitted(numbers, kinds, self._levels)
        self.totals = (*rest[:count], *first, *rest[count:])
        self.threshold = None if own is None else self._threshold(own)

    def _fitted(
        self,
        numbers: Sequence[tuple[str, int]],
        kinds: Sequence[str],
        trees: Mapping[str, int] = MappingProxyType({}),
    ) -> tuple[Fraction, int, tuple[Total, ...]]:
        """Return the noise in records, the binary places, and the totals for `share`.

        `numbers` lists numbers of records or units with their change by one unit in
        each group.
        """
        groups, records = self._kept
        parts = [_MOVED["sum"] for _ in numbers] + [_MOVED[kind] for kind in kinds]
        parts += [(_TREE, _TREE) for _ in trees]
        first = sum((part[0] for part in parts), Fraction(0))
        second = sum((part[1] for part in parts), Fraction(0))
        if self.by_epsilon:
            scale = groups * records * first / self.share
            return self._made(scale, numbers, kinds, trees)
        moved = l2_sensitivity(groups * records**2 * second)
        sigma = calibration.gaussian_sigma_from_rho(rho=self.share, sensitivity=moved)
        made = self._made(Fraction(sigma), numbers, kinds, trees)
        # L2 sensitivities are rounded up, so the events' rho may exceed the share.
        while sum(_rho(total.law) for total in made[2]) > self.share:
            sigma = math.nextafter(sigma, math.inf)
            made = self._made(Fraction(sigma), numbers, kinds, trees)
        return made

    def _made(
        self,
        parameter: Fraction,
        numbers: Sequence[tuple[str, int]],
        kinds: Sequence[str],
        trees: Mapping[str, int],
    ) -> tuple[Fraction, int, tuple[Total, ...]]:
        """Return the totals for a noise parameter, in records."""
        bits, (_, records) = grid_bits(parameter), self._kept
        totals = [
            Total(name, self._law(parameter * moved / records, moved, name[0]), 0)
            for name, moved in numbers
        ]
        for i, kind in enumerate(kinds):
            for sum_ in {"sum": "s", "mean": "ns", "variance": "nsq"}[kind]:
                # A record changes the sum of u^2 - 1/2 by at most half.
                moved = records << bits if sum_ != "q" else records << bits >> 1
                law = self._law(parameter * 2**bits, moved, sum_)
                totals.append(Total(f"{sum_}{i}", law, bits))
        for name, levels in trees.items():
            share = levels / _TREE
            grown = share if self.by_epsilon else l2_sensitivity(share)
            law = self._law(parameter * grown, records, "t", levels)
            totals.append(Total(name, law, 0))
        return parameter, bits, tuple(totals)

    def _law(self, parameter: Fraction, moved: int, what: str, levels: int = 1) -> Law:
        groups, records = self._kept[0] * levels, self._kept[1]
        if self.by_epsilon:
            return DiscreteLaplace(parameter, sensitivity=groups * moved)
        square = l2_sensitivity(Fraction(groups * moved**2))
        entries = groups * (records if what in "ht" else 1)
        return DiscreteGaussian(parameter, sensitivity=square, coordinates=entries)

    @property
    def _delta(self) -> Fraction:
        return _validate.open_unit("delta", self.budget.delta) * _ROOM

    def _threshold(self, name: str) -> Threshold:
        """Return the threshold that a unit's own groups pass with probability <= delta.

        At most k groups contain only that unit (docs/proofs/keys.md).
        """
        (total,) = (t for t in self.totals if t.name == name)
        groups, records = self._kept
        moved, step = 1 if name == "units" else records, 2**total.bits
        least = least_threshold(total.law, self._delta / groups, moved, step)
        event = ApproximateDPEvent(epsilon=Fraction(0), delta=self._delta)
        return Threshold(name, least * step, step, total.law, event)

    def selection(self) -> KeySelection | UnknownHistogram:
        """Return the selection of unlisted groups by their number of units."""
        if self.by_epsilon:
            return KeySelection.from_epsilon_delta(
                epsilon=self.share, delta=self._delta, keys_per_user=self._kept[0]
            )
        return UnknownHistogram.from_rho_delta(
            rho=self.share, delta=self._delta, keys_per_user=self._kept[0]
        )

    def events(self) -> list[Event]:
        """Return the events of the parts, the selection of groups last."""
        found: list[Event] = [total.law.event() for total in self.totals]
        if self.threshold is not None:
            return [*found, self.threshold.event]
        return [*found, self.selection().event()] if self.unlisted else found
