"""Facts of an epoch with randomly allocated records (docs/proofs/allocation.md).

A mean of ratios is no wider than one ratio, so bounds for one step hold for the epoch.
The pair of laws gives better bounds.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, cast

from fastdp.accounting._facts.base import Facts, entry, facts_of
from fastdp.accounting._facts.composed import ComposedFacts
from fastdp.accounting.events import (
    Event,
    NeighboringRelation,
    RandomAllocationEvent,
    relation_of,
)
from fastdp.accounting.events._composite import _AllocatedBlock
from fastdp.exceptions import UnsupportedEventError

if TYPE_CHECKING:
    from fastdp.accounting._pld.families import Family
    from fastdp.accounting._renyi.curves import Curve
    from fastdp.accounting._trade_off_functions import TradeOffFunction


@entry(RandomAllocationEvent, _AllocatedBlock)
class AllocationFacts(Facts[RandomAllocationEvent]):
    """Every record joins one of t steps, uniformly, independently and in secret."""

    left_to_accountants = True

    @classmethod
    def of(cls, event: RandomAllocationEvent) -> Facts[RandomAllocationEvent]:
        """Return the facts of an allocation; for several steps, of a composition."""
        whole = ComposedFacts(event) if event.selected > 1 else cls(event)
        return cast("Facts[RandomAllocationEvent]", whole)

    def __init__(self, event: RandomAllocationEvent) -> None:
        super().__init__(event)
        self.listed = event.steps > 1 or facts_of(event.event).listed

    def _inner(self) -> Facts[Event]:
        """Return the facts of one step, which must be for add-or-remove."""
        inner = self.event.event
        if relation_of(inner) is not NeighboringRelation.ADD_OR_REMOVE_ONE:
            raise UnsupportedEventError(
                "a random allocation needs an event for "
                "ADD_OR_REMOVE_ONE: state the effect of one record that "
                "is added or removed in a step (to replace a record, take a GroupEvent "
                f"of two around the allocation); got {self.event!r}"
            )
        if inner.group_size > 1:
            raise UnsupportedEventError(
                "the event in a random allocation must be about single "
                "records: put the allocation inside a GroupEvent "
                f"instead; got {self.event!r}"
            )
        return facts_of(inner)

    def pure(self) -> Fraction | None:
        """Return the epsilon of one step: all t ratios may be largest together."""
        return self._inner().pure()

    def stated(self) -> tuple[Fraction, Fraction] | None:
        """Return the stated guarantee of one step."""
        return self._inner().stated()

    def rho(self) -> Fraction | None:
        """Return the rho of one step, which the epoch approaches at large orders."""
        return self._inner().rho()

    def family(self) -> Family:
        """Return the pair of the epoch; lower bounds sum a larger epoch's steps."""
        from fastdp.accounting._pld.allocation_loss import AllocationFamily
        from fastdp.accounting._pld.families import GaussianFamily, LooseFamily

        inner, steps = self._inner(), self.event.steps
        pair = AllocationFamily(inner.step(), steps) if steps > 1 else inner.family()
        if not isinstance(self.event, _AllocatedBlock):
            return pair
        one, share = inner.family(), self.event.share
        if not isinstance(one, GaussianFamily):
            return LooseFamily(pair)
        square = one.square if one.least is None else one.least
        return LooseFamily(pair, GaussianFamily(share * square))

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the curve of the pair."""
        return self._inner().curve() if self.event.steps == 1 else self.curve_of_step()

    def trade_off(self) -> TradeOffFunction:
        """Return the function of one order, with the data without the record first."""
        whole = None if self.event.steps == 1 else self.trade_off_of_removal()
        return whole or self._inner().trade_off()
