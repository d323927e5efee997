"""Facts of sequences, repetitions and groups of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from fastdp import _validate
from fastdp.accounting import _response, _zcdp, conversions
from fastdp.accounting._facts.base import ZERO, Facts, Reader, entry, facts_of
from fastdp.accounting._numeric import log_down
from fastdp.accounting.events import (
    ComposedEvent,
    Event,
    GroupEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
)
from fastdp.accounting.events._composite import _AllocatedBlock
from fastdp.accounting.groups import group_delta
from fastdp.exceptions import UnsupportedEventError

if TYPE_CHECKING:
    from fastdp.accounting._pld.families import Family, Step
    from fastdp.accounting._renyi.curves import Curve
    from fastdp.accounting._trade_off_functions import TradeOffFunction


def grouped(event: Event, size: int) -> Event | None:
    """Return an event for individuals with the guarantee that holds for a group.

    Return None if only the rules of the event's pure epsilon or rho are proved. The
    rules and their proofs are in docs/proofs/accounting.md, section 4.

    Parameters
    ----------
    event : Event
        An event about one individual.
    size : int
        Number of individuals, >= 1.
    """
    k = _validate.integer("size", size, 1)
    return event if k == 1 else facts_of(event).grouped(k)


def leaves(event: Event, count: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield the events that `count` times `event` composes, with their counts.

    Groups are moved inward: the group guarantee of a composition is the composition of
    the parts' group guarantees. Nested groups become one group.
    """
    match event:
        case ComposedEvent(events=events):
            for part in events:
                yield from leaves(part, count)
        case SelfComposedEvent(event=inner, count=times):
            yield from leaves(inner, count * times)
        case GroupEvent(event=inner, size=size):
            for part, times in leaves(inner, count):
                yield (_group_of(part, size), times)
        case RandomAllocationEvent() if event.selected > 1:
            for part, times in _blocks(event):
                yield from leaves(part, count * times)
        case _:
            yield event, count


def _blocks(event: RandomAllocationEvent) -> Iterator[tuple[Event, int]]:
    """Yield k allocations to one step, which bound one allocation to k of t steps."""
    if event.selected == event.steps:  # every record joins all
        yield event.event, event.steps
        return
    size, more = divmod(event.steps, event.selected)
    share = Fraction(event.selected, event.steps)
    for steps, times in ((size, event.selected - more), (size + 1, more)):
        if times:
            block = _AllocatedBlock(
                steps=steps, event=event.event, selected=1, share=share
            )
            yield block, times


def _group_of(event: Event, size: int) -> Event:
    """Return the group's event; if there is a rule, as an event for individuals."""
    inner = event
    if isinstance(event, _AllocatedBlock) and size > 1:
        raise UnsupportedEventError(
            "selected must be 1 inside a group: otherwise each record "
            "has its own blocks of steps"
        )
    if isinstance(event, GroupEvent):
        inner, size = event.event, size * event.size
    return exactly(inner, size) or GroupEvent(inner, size)


def exactly(event: Event, size: int) -> Event | None:
    """Return the result of `grouped`, or None if no mechanism attains it."""
    return None if facts_of(event).states_guarantee else grouped(event, size)


# ---- compositions --------------------------------------------------------------------


@entry(ComposedEvent, SelfComposedEvent)
class ComposedFacts(Facts[Event]):
    """Several events; these facts are sums of pure epsilons and of rho."""

    left_to_accountants = True

    def pure(self) -> Fraction | None:
        """Return the sum of epsilons, if all parts have one."""
        return self._sum(lambda facts: facts.pure())

    def rho(self) -> Fraction | None:
        """Return the sum of rho, if all parts have one."""
        return self._sum(lambda facts: facts.rho())

    def _sum(self, of: Callable[[Facts[Event]], Fraction | None]) -> Fraction | None:
        total = ZERO
        for part, count in leaves(self.event):
            one = of(facts_of(part))
            if one is None:
                return None
            total += count * one
        return total

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Return the smaller epsilon of the two sums."""
        rho, pure = self.rho(), self.pure()
        if rho is None or delta == 0:
            return None
        found = _zcdp.epsilon_from(log_down(delta), rho, ZERO)
        return (
            found
            if pure is None
            else min(found, _response.pure_epsilon_at(pure, delta))
        )

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float | None:
        """Return the smaller epsilon of the two sums."""
        rho, pure = self.rho(), self.pure()
        if rho is None:
            return None
        found = _zcdp.log_delta_from(epsilon, rho, ZERO)
        if pure is None:
            return found
        return min(found, _response.pure_log_delta(pure, epsilon))

    def family(self) -> Family:
        """Return the pair of a composition within a sample: one step, or Gaussian."""
        from fastdp.accounting._pld import pairs

        parts = list(leaves(self.event))
        if len(parts) == 1 and parts[0][1] == 1:
            return facts_of(parts[0][0]).family()
        found = pairs.gaussians(
            [(facts_of(part).family(), count) for part, count in parts]
        )
        if found is None:
            raise UnsupportedEventError(
                "a composition inside a sample must have a single step, "
                f"or only Gaussian noise, got {self.event!r}"
            )
        return found


# ---- groups --------------------------------------------------------------------------


@entry(GroupEvent)
class GroupFacts(Facts[GroupEvent]):
    """An event as a guarantee for several individuals together."""

    left_to_accountants = True

    def _same(self) -> Facts[Event] | None:
        """Return the facts of an equivalent event about individuals."""
        same = grouped(self.event.event, self.event.size)
        return None if same is None else facts_of(same)

    def pure(self) -> Fraction | None:
        """Return `size` times the pure epsilon."""
        same = self._same()
        if same is not None:
            return same.pure()
        pure = facts_of(self.event.event).pure()
        return None if pure is None else self.event.size * pure

    def stated(self) -> tuple[Fraction, Fraction] | None:
        """Return the group's pair from the stated pair."""
        same = self._same()
        if same is not None:
            return same.stated()
        pair = facts_of(self.event.event).stated()
        if pair is None:
            return None
        delta = Fraction(
            group_delta(epsilon=pair[0], delta=pair[1], size=self.event.size)
        )
        return (self.event.size * pair[0], delta) if delta < 1 else None

    def rho(self) -> Fraction | None:
        """Return size^2 rho (Bun and Steinke 2016, Prop. 1.9), or epsilon's rho."""
        same = self._same()
        if same is not None:
            return same.rho()
        rho, pure = facts_of(self.event.event).rho(), self.pure()
        if rho is None:
            return None if pure is None else conversions.rho_of_pure(pure)
        whole = self.event.size**2 * rho
        return whole if pure is None else min(whole, conversions.rho_of_pure(pure))

    def mu(self) -> Fraction | None:
        """Return mu by the rule of the inner event."""
        same = self._same()
        return None if same is None else same.mu()

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Read the equivalent event, or the pure epsilon."""
        same, pure = self._same(), self.pure()
        if same is not None:
            return reader.epsilon(same.event, delta)
        return None if pure is None else _response.pure_epsilon_at(pure, delta)

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float | None:
        """Read the equivalent event, or the pure epsilon."""
        same, pure = self._same(), self.pure()
        if same is not None:
            return reader.log_delta(same.event, epsilon)
        return None if pure is None else _response.pure_log_delta(pure, epsilon)

    def delta(self, epsilon: Fraction) -> float | None:
        """Return the delta of the equivalent event, if it has one."""
        same = self._same()
        return None if same is None else same.delta(epsilon)

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the curve of the equivalent event, or a group's."""
        from fastdp.accounting._renyi.mechanisms import group_curve

        same = self._same()
        if same is not None:
            return same.curve()
        inner = facts_of(self.event.event)
        curve, lost = inner.curve()
        if lost:
            raise self.refusal("no Renyi curve is known for")
        return group_curve(curve, self.event.size, self.pure()), lost

    def _attained(self) -> Facts[Event] | None:
        """Return the facts of an event with the group's pair."""
        same = exactly(self.event.event, self.event.size)
        return None if same is None else facts_of(same)

    def family(self) -> Family:
        """Return the pair of the equivalent event, or an enclosing pair."""
        from fastdp.accounting._pld import pairs
        from fastdp.accounting._pld.families import LooseFamily, two_points

        same = self._attained()
        if same is not None:
            return same.family()
        inner = facts_of(self.event.event)
        pair, pure = self.stated(), inner.pure()
        if pair is None:
            raise self.refusal("no pair of laws is known that dominates")
        if pure is not None and inner.states_guarantee:
            return pairs.pure_group(pure, self.event.size)
        return LooseFamily(two_points(*pair), inner.family())

    def step(self) -> Step:
        """Return the step of that pair, or of the trade-off function.

        Lower bounds are for one member, because the others may have no effect.
        """
        from fastdp.accounting._pld import pairs
        from fastdp.accounting._pld.families import either_order

        inner = facts_of(self.event.event)
        if self._attained() is not None or inner.states_guarantee:
            return self.family().step()
        x, f = self.trade_off().knots().points
        rows = ([Fraction(v) for v in row.tolist()] for row in (x, f))
        step = pairs.of_knots(list(zip(*rows, strict=True))).step()
        return either_order(step, inner.step())

    def trade_off(self) -> TradeOffFunction:
        """Return the function of the equivalent event, or of the inner one.

        The function of one member, in either order, is applied once for each member
        (Dong, Roth and Su 2022, Theorem 2.14); the stated pair may be better at some
        points.
        """
        from fastdp.accounting import _trade_off_functions as functions

        same = self._same()
        if same is not None:
            return same.trade_off()
        inner = facts_of(self.event.event)
        function = inner.trade_off().either_order().group(self.event.size)
        if self.stated() is None:
            return function
        return functions.larger(function, super().trade_off())
