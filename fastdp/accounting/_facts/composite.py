"""Facts of events made of events: sequences, repetitions, samples and groups."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from fastdp import _validate
from fastdp.accounting import _response, _sampling, _zcdp, conversions
from fastdp.accounting._facts.base import (
    ZERO,
    Facts,
    Kind,
    Reader,
    entry,
    facts_of,
)
from fastdp.accounting._numeric import log_down
from fastdp.accounting.events import (
    ComposedEvent,
    Event,
    GroupEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    SelfComposedEvent,
    relation_of,
)
from fastdp.accounting.groups import group_delta
from fastdp.exceptions import UnsupportedEventError

if TYPE_CHECKING:
    from fastdp.accounting._pld.families import Family
    from fastdp.accounting._pld.steps import Step
    from fastdp.accounting._renyi.curves import Curve
    from fastdp.accounting._trade_off_functions import TradeOffFunction

#: How far an epsilon is looked for.
_LARGEST_EPSILON = 1e6


def grouped(event: Event, size: int) -> Event | None:
    """Return an event for single individuals that says what holds for a group.

    None where no rule is proved but that of the event's pure epsilon or rho. The
    rules and their proofs are in docs/proofs/accounting.md, section 4.

    Parameters
    ----------
    event : Event
        An event about one individual.
    size : int
        Number of individuals, >= 1.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type or out of its domain.
    """
    k = _validate.integer("size", size, 1)
    return event if k == 1 else facts_of(event).grouped(k)


def leaves(event: Event, count: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield the events that `count` times `event` composes, with their counts.

    Groups go inward: the group guarantee of a composition is the composition of the
    parts' group guarantees. Nested groups become one.
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
        case _:
            yield event, count


def _group_of(event: Event, size: int) -> Event:
    """Return the group's event, as one about single individuals where a rule says."""
    inner = event
    if isinstance(event, GroupEvent):
        inner, size = event.event, size * event.size
    return grouped(inner, size) or GroupEvent(inner, size)


# ---- compositions --------------------------------------------------------------------


@entry(ComposedEvent, SelfComposedEvent)
class ComposedFacts(Facts[ComposedEvent | SelfComposedEvent]):
    """Several events: here their pure epsilons and their rho are added up."""

    left_to_accountants = True

    def pure(self) -> Fraction | None:
        """Return the sum of epsilons, if all parts have one."""
        total = ZERO
        for part, count in leaves(self.event):
            one = facts_of(part).pure()
            if one is None:
                return None
            total += count * one
        return total

    def rho(self) -> Fraction | None:
        """Return the sum of rho, if all parts have one."""
        total = ZERO
        for part, count in leaves(self.event):
            one = facts_of(part).rho()
            if one is None:
                return None
            total += count * one
        return total

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Return the smaller reading of both sums."""
        rho, pure = self.rho(), self.pure()
        if rho is None or delta == 0:
            return None
        found = _zcdp.epsilon_from(log_down(delta), rho, ZERO)
        return found if pure is None else min(found, _pure_at(pure, delta))

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float | None:
        """Return the smaller reading of both sums."""
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
                "a composition within a sample must be of Gaussian noise alone, or "
                f"a single step, got {self.event!r}"
            )
        return found


def _pure_at(pure: Fraction, delta: Fraction) -> float:
    return _response.pure_epsilon_at(pure, delta)


# ---- samples -------------------------------------------------------------------------


class _Sample(Facts[Kind]):
    """A sample that amplifies: delta'(ln(1 + rate (e^x - 1))) = rate delta(x)."""

    left_to_accountants = True

    _relation: NeighboringRelation
    _what: str

    def _inner(self) -> Event:
        raise NotImplementedError

    def _rate(self) -> Fraction:
        raise NotImplementedError

    def sampling_rate(self) -> Fraction | None:
        """Return the rate where the inner event is for the sample's relation."""
        if self.event.group_size > 1 or relation_of(self.event) is not self._relation:
            return None
        return self._rate()

    def _needed_rate(self) -> Fraction:
        rate = self.sampling_rate()
        if rate is None:
            raise UnsupportedEventError(
                f"{self._what} is accounted for single individuals and the "
                f"neighboring_relation {self._relation.name}, got a group_size of "
                f"{self.event.group_size} and {self.event!r}"
            )
        return rate

    def pure(self) -> Fraction | None:
        """Return the amplified epsilon."""
        pure, rate = facts_of(self._inner()).pure(), self.sampling_rate()
        if pure is None or rate is None:
            return None
        return Fraction(_sampling.amplified_epsilon(rate, pure))

    def stated(self) -> tuple[Fraction, Fraction] | None:
        """Return both numbers amplified."""
        pair, rate = facts_of(self._inner()).stated(), self.sampling_rate()
        if pair is None or rate is None:
            return None
        return Fraction(_sampling.amplified_epsilon(rate, pair[0])), rate * pair[1]

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Amplify the inner profile."""
        rate = self.sampling_rate()
        if rate is None:
            return None
        if delta >= rate:
            return 0.0
        inner = Fraction(reader.epsilon(self._inner(), delta / rate))
        return _sampling.amplified_epsilon(rate, inner)

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float | None:
        """Amplify the inner profile."""
        rate = self.sampling_rate()
        if rate is None:
            return None
        inside = _sampling.inner_epsilon(rate, epsilon)
        return _sampling.times_rate(reader.log_delta(self._inner(), inside), rate)


@entry(PoissonSampledEvent)
class PoissonFacts(_Sample[PoissonSampledEvent]):
    """Every record is in the sample with one probability, independently."""

    _relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    _what = "a Poisson sample"

    def _inner(self) -> Event:
        return self.event.event

    def _rate(self) -> Fraction:
        return self.event.sampling_probability

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the curve of the sample."""
        from fastdp.accounting._renyi.mechanisms import poisson_curve

        rate, inner = self._needed_rate(), facts_of(self._inner())
        curve, lost = inner.curve()
        return poisson_curve(rate, curve, inner.mu()), lost

    def step(self) -> Step:
        """Return the step of a sample, perhaps of a sample."""
        from fastdp.accounting._pld import pairs

        rate, inner = self._needed_rate(), self._inner()
        while isinstance(inner, PoissonSampledEvent):
            rate, inner = rate * inner.sampling_probability, inner.event
        return pairs.poisson(facts_of(inner).family(), rate)

    def trade_off(self) -> TradeOffFunction:
        """Return the function of one order, the sample without the record first."""
        if self.sampling_rate() is None:
            return super().trade_off()
        return facts_of(self._inner()).trade_off().sampled(self._rate())


@entry(SampledWithoutReplacementEvent)
class SubsetFacts(_Sample[SampledWithoutReplacementEvent]):
    """The sample is a uniform subset of fixed size."""

    _relation = NeighboringRelation.REPLACE_ONE
    _what = "a subset of fixed size"

    def _inner(self) -> Event:
        return self.event.event

    def _rate(self) -> Fraction:
        return Fraction(self.event.sample_size, self.event.source_dataset_size)

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the curve of the subset."""
        from fastdp.accounting._renyi.mechanisms import subset_curve

        rate, inner = self._needed_rate(), facts_of(self._inner())
        curve, lost = inner.curve()
        if lost and rate < 1:
            raise self.refusal("the event inside must have a Renyi curve of its own:")
        return subset_curve(rate, curve, inner.mu(), inner.pure()), lost

    def step(self) -> Step:
        """Return the step of a subset."""
        from fastdp.accounting._pld import pairs

        return pairs.subset(facts_of(self._inner()).family(), self._needed_rate())

    def trade_off(self) -> TradeOffFunction:
        """Return the amplified function, for both orders."""
        if self.sampling_rate() is None:
            return super().trade_off()
        return facts_of(self._inner()).trade_off().amplified(self._rate())


@entry(SampledWithReplacementEvent)
class ReplacementFacts(_Sample[SampledWithReplacementEvent]):
    """Records are drawn one at a time, with repetitions (Balle et al. 2018, Thm 10)."""

    left_to_accountants = False
    _relation = NeighboringRelation.REPLACE_ONE
    _what = "a sample with replacement"

    def _inner(self) -> Event:
        return GroupEvent(self.event.event, self.event.sample_size)

    def _rate(self) -> Fraction:
        return _sampling.hit_rate(
            self.event.source_dataset_size, self.event.sample_size
        )

    def stated(self) -> tuple[Fraction, Fraction] | None:
        """Return the pure epsilon, if there is one."""
        pure = self.pure()
        return None if pure is None else (pure, ZERO)

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Invert the profile."""
        if delta == 0:
            return None
        high = 1.0
        while reader.log_delta(self.event, Fraction(high)) > log_down(delta):
            high *= 2
            if high > _LARGEST_EPSILON:
                return None
        return conversions.invert(
            lambda e: reader.log_delta(self.event, e), delta, high
        )

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float | None:
        """Return the mean of the groups' deltas, by how often a record is drawn."""
        rate = self.sampling_rate()
        if rate is None:
            return None
        inside = _sampling.inner_epsilon(rate, epsilon)
        return _sampling.with_replacement_log_delta(
            self.event.source_dataset_size,
            self.event.sample_size,
            lambda j: reader.log_delta(GroupEvent(self.event.event, j), inside),
        )


# ---- groups --------------------------------------------------------------------------


@entry(GroupEvent)
class GroupFacts(Facts[GroupEvent]):
    """An event as a guarantee for several individuals together."""

    left_to_accountants = True

    def _same(self) -> Facts[Event] | None:
        """Return the facts of an event about individuals that says the same."""
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
        """Return what follows from the pair that is stated."""
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
        """Return size^2 rho (Bun and Steinke 2016, Prop. 1.9), or that of epsilon."""
        same = self._same()
        if same is not None:
            return same.rho()
        rho, pure = facts_of(self.event.event).rho(), self.pure()
        if rho is None:
            return None if pure is None else conversions.rho_of_pure(pure)
        whole = self.event.size**2 * rho
        return whole if pure is None else min(whole, conversions.rho_of_pure(pure))

    def mu(self) -> Fraction | None:
        """Return what the rule of the inner event says."""
        same = self._same()
        return None if same is None else same.mu()

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Read the event that says the same, or the pure epsilon."""
        same, pure = self._same(), self.pure()
        if same is not None:
            return reader.epsilon(same.event, delta)
        return None if pure is None else _pure_at(pure, delta)

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float | None:
        """Read the event that says the same, or the pure epsilon."""
        same, pure = self._same(), self.pure()
        if same is not None:
            return reader.log_delta(same.event, epsilon)
        return None if pure is None else _response.pure_log_delta(pure, epsilon)

    def delta(self, epsilon: Fraction) -> float | None:
        """Return it where the event that says the same has it."""
        same = self._same()
        return None if same is None else same.delta(epsilon)

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the curve of the event that says the same, or a group's."""
        from fastdp.accounting._renyi.mechanisms import group_curve

        same = self._same()
        if same is not None:
            return same.curve()
        inner = facts_of(self.event.event)
        curve, lost = inner.curve()
        if lost:
            raise self.refusal("no Renyi curve is known for")
        return group_curve(curve, self.event.size, self.pure()), lost

    def family(self) -> Family:
        """Return the pair of the event that says the same."""
        same = self._same()
        return super().family() if same is None else same.family()

    def trade_off(self) -> TradeOffFunction:
        """Return the function of the event that says the same."""
        same = self._same()
        return super().trade_off() if same is None else same.trade_off()
