"""Facts of events on samples of the records."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from fastdp.accounting import _sampling, conversions
from fastdp.accounting._facts.base import ZERO, Facts, Kind, Reader, entry, facts_of
from fastdp.accounting._facts.composed import exactly
from fastdp.accounting._numeric import log_down
from fastdp.accounting.events import (
    Event,
    GroupEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    relation_of,
)
from fastdp.exceptions import UnsupportedEventError

if TYPE_CHECKING:
    from fastdp.accounting._pld.families import Step
    from fastdp.accounting._renyi.curves import Curve
    from fastdp.accounting._trade_off_functions import TradeOffFunction

#: Largest epsilon to try.
_LARGEST_EPSILON = 1e6

_ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
_REPLACE = NeighboringRelation.REPLACE_ONE
_SPECIAL = NeighboringRelation.REPLACE_SPECIAL

#: More draws of one record count as lost once their probability is at most
#: _LEAST_DRAWS; refuse the event if more than _MOST_DRAWS draws remain.
_MOST_DRAWS, _LEAST_DRAWS = 200, 1e-30


class _Sample(Facts[Kind]):
    """A sample that amplifies: delta'(ln(1 + rate (e^x - 1))) = rate delta(x)."""

    left_to_accountants = True

    _what: str

    def _inner(self) -> Event | None:
        """Return the event for which the formula holds, or None."""
        raise NotImplementedError

    def _rate(self) -> Fraction:
        raise NotImplementedError

    def sampling_rate(self) -> Fraction | None:
        """Return the rate, if the formula above holds for the event inside."""
        return None if self._inner() is None else self._rate()

    def _leaves_none(self) -> bool:
        """Whether data with one record less have no sample of this size."""
        return False

    def _needed(self) -> tuple[Event, Fraction]:
        """Return the amplified event and the rate."""
        inner = self._inner()
        if inner is None and self._leaves_none():
            raise UnsupportedEventError(
                f"{self._what} has no bound for ADD_OR_REMOVE_ONE if data "
                "with one record fewer have no such sample: state a "
                "larger source_dataset_size, or use REPLACE_ONE for the "
                f"sample; got {self.event!r}"
            )
        if inner is None:
            own = relation_of(self.event.event)  # type: ignore[attr-defined]
            raise UnsupportedEventError(
                f"{self._what} for {relation_of(self.event).name} has no "
                f"bound around an event for {own.name} with group_size "
                f"{self.event.group_size}: use ADD_OR_REMOVE_ONE for the "
                "event inside, or the same relation for both; got "
                f"{self.event!r}"
            )
        return inner, self._rate()

    def pure(self) -> Fraction | None:
        """Return the amplified epsilon."""
        inner = self._inner()
        pure = None if inner is None else facts_of(inner).pure()
        if pure is None:
            return None
        return _sampling.amplified(self._rate(), pure)

    def stated(self) -> tuple[Fraction, Fraction] | None:
        """Return the amplified epsilon and delta."""
        inner = self._inner()
        pair = None if inner is None else facts_of(inner).stated()
        if pair is None:
            return None
        rate = self._rate()
        return _sampling.amplified(rate, pair[0]), rate * pair[1]

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Amplify the inner profile."""
        inner = self._inner()
        if inner is None:
            return None
        rate = self._rate()
        if delta >= rate:
            return 0.0
        inside = Fraction(reader.epsilon(inner, delta / rate))
        return _sampling.amplified_epsilon(rate, inside)

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float | None:
        """Amplify the inner profile."""
        inner = self._inner()
        if inner is None:
            return None
        rate = self._rate()
        inside = _sampling.inner_epsilon(rate, epsilon)
        return _sampling.times_rate(reader.log_delta(inner, inside), rate)

    def _function_of_step(self) -> TradeOffFunction:
        """Return the trade-off function of a symmetric pair of laws."""
        from fastdp.accounting import _trade_off_functions as functions
        from fastdp.accounting._pld import listed_samples

        law = listed_samples.listed(self.step(), True)
        return functions.from_law(law.losses, law.masses, float(law.lost))


def _twice(event: Event) -> Event:
    """Return the event for a replaced record, as a removal and an addition."""
    return exactly(event, 2) or GroupEvent(event, 2)


@entry(PoissonSampledEvent)
class PoissonFacts(_Sample[PoissonSampledEvent]):
    """Every record is in the sample with one probability, independently.

    If a record is replaced and the inner event is for adding or removing a record, the
    sample may contain either record or none. If the inner event is for a replacement,
    it may reveal whether the record is in the sample.
    """

    _what = "a Poisson sample"

    @classmethod
    def of(cls, event: PoissonSampledEvent) -> Facts[PoissonSampledEvent]:
        """Return the facts of a sample, which may have a largest size."""
        cap, records = event.largest_batch, event.records
        if cap is None or records is None or cap >= records:
            return cls(event)
        return CutFacts(event, cap, records)

    def _relations(self) -> tuple[NeighboringRelation, NeighboringRelation]:
        return relation_of(self.event.event), relation_of(self.event)

    def _inner(self) -> Event | None:
        """Return the inner event, if it is for adding or removing a record."""
        if self.event.group_size > 1:
            return None
        inside, whole = self._relations()
        amplifies = inside is _ADD and whole is not _REPLACE
        return self.event.event if amplifies else None

    def _rate(self) -> Fraction:
        return self.event.sampling_probability

    def _replaced(self) -> bool:
        """Whether one of two records may be in the sample."""
        return self._relations() == (_ADD, _REPLACE) and self.event.group_size == 1

    def _known(self) -> bool:
        """Whether it may be known that the record is in the sample."""
        inside, whole = self._relations()
        covers = inside is whole or (inside, whole) == (_REPLACE, _SPECIAL)
        return inside is not _ADD and covers and self.event.group_size == 1

    def pure(self) -> Fraction | None:
        """Return the amplified epsilon; the inner one if the record may be known."""
        pure = facts_of(self.event.event).pure()
        if self._rate() == 0:  # all samples are empty
            return ZERO
        if self._known():
            return pure
        if self._replaced():
            if pure is None:
                return None
            return _sampling.replaced_epsilon(self._rate(), pure)
        return super().pure()

    def stated(self) -> tuple[Fraction, Fraction] | None:
        """Return the amplified epsilon and delta, or only an amplified delta."""
        if self._known():
            pair = facts_of(self.event.event).stated()
            return None if pair is None else (pair[0], self._rate() * pair[1])
        return super(_Sample, self).stated() if self._replaced() else super().stated()

    def rho(self) -> Fraction | None:
        """Return the rho that holds for every sample, or epsilon's rho."""
        inner = self.event.event
        if self._replaced():
            inner = _twice(inner)
        whole = None
        if self._replaced() or self._known():
            whole = facts_of(inner).rho()
        pure = super().rho()
        found = [rho for rho in (whole, pure) if rho is not None]
        return min(found, default=None)

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Amplify the inner profile, or only its delta if the record may be known."""
        if not self._known():
            return super().epsilon(delta, reader)
        if delta >= self._rate():
            return 0.0
        return reader.epsilon(self.event.event, delta / self._rate())

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float | None:
        """Amplify the inner profile, or only its delta if the record may be known."""
        if not self._known():
            return super().log_delta(epsilon, reader)
        inside = reader.log_delta(self.event.event, epsilon)
        return _sampling.times_rate(inside, self._rate())

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the curve of the sample."""
        from fastdp.accounting._renyi.mechanisms import mixed_curve, poisson_curve

        rate = self._rate()
        if self._replaced() or facts_of(self.event.event).listed:
            return self.curve_of_step()
        if self._known():
            curve, lost = facts_of(self.event.event).curve()
            if lost:
                raise self.refusal("no Renyi curve is known for")
            return mixed_curve(rate, curve), lost
        event, rate = self._needed()
        inner = facts_of(event)
        curve, lost = inner.curve()
        return poisson_curve(rate, curve, inner.mu()), lost

    def step(self) -> Step:
        """Return the step of a sample, which may be a sample of a sample."""
        from fastdp.accounting._pld import listed_samples, pairs

        rate, inner = self._rate(), self.event.event
        if self._known():
            step = facts_of(inner).step()
            return step if rate == 1 else listed_samples.known(step, rate)
        if self._replaced():
            if rate == 1:
                return facts_of(_twice(inner)).step()
            return facts_of(inner).replaced(rate)
        inner, rate = self._needed()
        facts = facts_of(inner)
        while isinstance(facts, PoissonFacts):
            inner, own = facts._needed()
            rate, facts = rate * own, facts_of(inner)
        return pairs.poisson(facts.family(), rate)

    def replaced(self, rate: Fraction) -> Step:
        """Return the step of a sample of a sample."""
        inner, own = self._needed()
        return facts_of(inner).replaced(rate * own)

    def trade_off(self) -> TradeOffFunction:
        """Return the function of one order: the sample without the record is first."""
        inner = self._inner()
        if self._replaced() or self._known():
            return self._function_of_step()
        if inner is None:
            return super().trade_off()
        return facts_of(inner).trade_off().sampled(self._rate())


class CutFacts(Facts[PoissonSampledEvent]):
    """A Poisson sample that is cut to a largest size (theorem 27).

    The analysis reveals whether the other records fill the batch. If they do, the
    record takes another record's place.
    """

    left_to_accountants = True
    listed = True

    def __init__(self, event: PoissonSampledEvent, cap: int, records: int) -> None:
        super().__init__(event)
        self._rate = event.sampling_probability
        self._two = facts_of(_twice(event.event))
        self._cut = _sampling.at_least(records - 1, self._rate, cap)

    def pure(self) -> Fraction | None:
        """Return the amplified epsilon of two changes."""
        pure = ZERO if self._rate == 0 else self._two.pure()
        return None if pure is None else _sampling.amplified(self._rate, pure)

    def stated(self) -> tuple[Fraction, Fraction] | None:
        """Return the amplified epsilon and delta of two changes."""
        pair = self._two.stated()
        if pair is None:
            return None
        return _sampling.amplified(self._rate, pair[0]), self._rate * pair[1]

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the curve of the step."""
        return self.curve_of_step()

    def step(self) -> Step:
        """Return the step of both cases, and a smaller dataset's for lower bounds."""
        from fastdp.accounting._pld import pairs
        from fastdp.accounting._pld.families import between
        from fastdp.accounting._pld.mixed_loss import mixed

        one, two = (
            pairs.poisson(facts.family(), self._rate)
            for facts in (facts_of(self.event.event), self._two)
        )
        return between(mixed(one, two, self._cut), one)

    def trade_off(self) -> TradeOffFunction:
        """Return the function of one order: the sample without the record is first."""
        whole = self.trade_off_of_removal()
        return whole or self._two.trade_off().sampled(self._rate)


@entry(SampledWithoutReplacementEvent)
class SubsetFacts(_Sample[SampledWithoutReplacementEvent]):
    """The sample is a uniform subset of fixed size, in which a record is replaced.

    If the data have one record more, a sample with that record is a sample without it
    in which one record was replaced: a Poisson sample of the pair.
    """

    _what = "a subset of fixed size"

    def _inner(self) -> Event | None:
        if self._leaves_none():
            return None
        return _as_replacement(self.event.event, relation_of(self.event))

    def _leaves_none(self) -> bool:
        whole = self.event.sample_size == self.event.source_dataset_size
        return whole and relation_of(self.event) is _ADD

    def _rate(self) -> Fraction:
        return Fraction(self.event.sample_size, self.event.source_dataset_size)

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the curve of the subset."""
        from fastdp.accounting._renyi.mechanisms import poisson_curve, subset_curve

        event, rate = self._needed()
        inner = facts_of(event)
        if inner.listed:
            return self.curve_of_step()
        curve, lost = inner.curve()
        if relation_of(self.event) is _ADD:
            return poisson_curve(rate, curve, inner.mu()), lost
        if lost and rate < 1:
            raise self.refusal("the event inside must have a Renyi curve of its own:")
        return subset_curve(rate, curve, inner.mu(), inner.pure()), lost

    def step(self) -> Step:
        """Return the step of a subset."""
        from fastdp.accounting._pld import pairs

        inner, rate = self._needed()
        one_more = relation_of(self.event) is _ADD
        make = pairs.poisson if one_more else pairs.subset
        return make(facts_of(inner).family(), rate)

    def trade_off(self) -> TradeOffFunction:
        """Return the amplified function for both orders, or for one order."""
        inner = self._inner()
        if inner is None:
            return super().trade_off()
        function = facts_of(inner).trade_off()
        if relation_of(self.event) is _ADD:
            return function.sampled(self._rate())
        return function.amplified(self._rate())


def _as_replacement(event: Event, relation: NeighboringRelation) -> Event | None:
    """Return an event for a replaced record, or None if none is known."""
    if event.group_size > 1 or relation_of(event) is _SPECIAL:
        return None
    return event if relation_of(event) is _REPLACE else _twice(event)


@entry(SampledWithReplacementEvent)
class ReplacementFacts(_Sample[SampledWithReplacementEvent]):
    """Records are drawn one at a time, with repetitions (Balle et al. 2018, Thm 10)."""

    left_to_accountants = False
    _what = "a sample with replacement"

    def _single(self) -> Event | None:
        """Return the event in which one record of the sample is replaced."""
        if self._leaves_none():
            return None
        return _as_replacement(self.event.event, relation_of(self.event))

    def _leaves_none(self) -> bool:
        alone = self.event.source_dataset_size == 1
        return alone and relation_of(self.event) is _ADD

    def _inner(self) -> Event | None:
        single = self._single()
        return None if single is None else GroupEvent(single, self.event.sample_size)

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
        """Return the mean of the groups' deltas over a record's number of draws."""
        single = self._single()
        if single is None:
            return None
        inside = _sampling.inner_epsilon(self._rate(), epsilon)
        return _sampling.with_replacement_log_delta(
            self.event.source_dataset_size,
            self.event.sample_size,
            lambda j: reader.log_delta(GroupEvent(single, j), inside),
        )

    def step(self) -> Step:
        """Return the step, as a mixture over the number of draws of a record."""
        from fastdp.accounting._pld import listed_samples

        rate = self._needed()[1]
        single = self._single()
        assert single is not None
        weights, rest = _sampling.draws(
            self.event.source_dataset_size, self.event.sample_size, _LEAST_DRAWS
        )
        if len(weights) > _MOST_DRAWS:
            raise self.refusal("no bound is known for so many draws of one record in")
        return listed_samples.drawn(
            weights,
            rest,
            lambda j: facts_of(GroupEvent(single, j)).step(),
            rate,
            one_more=relation_of(self.event) is _ADD,
        )

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the curve of that step."""
        return self.curve_of_step()

    def trade_off(self) -> TradeOffFunction:
        """Return the function of that step, which is symmetric for a replacement."""
        if self._single() is None or relation_of(self.event) is _ADD:
            return super().trade_off()
        return self._function_of_step()
