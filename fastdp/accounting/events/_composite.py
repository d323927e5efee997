"""Events made of events: sequences, repetitions, samples and groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from fastdp import _validate
from fastdp.accounting.events._base import (
    OF_THE_EVENT,
    Count,
    Event,
    NeighboringRelation,
    RelationField,
    Unit,
    check_event,
    relation_of,
)
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError


class _AroundOne(Event):
    """An event around one inner event, with the inner event's group size."""

    event: Event

    @property
    def group_size(self) -> int:
        """Number of individuals that the event's guarantee is about."""
        return self.event.group_size


class _Wrapper(_AroundOne):
    """An event around one inner event, with the inner group size and relation."""

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation for which the parameters of the inner event hold."""
        return relation_of(self.event)


class _SampledEvent(_AroundOne):
    """An event on a sample; its relation may differ from the inner event's."""

    _MAY_FOLLOW: ClassVar[frozenset[str]] = frozenset({"neighboring_relation"})
    neighboring_relation: RelationField

    def __post_init__(self) -> None:
        if self.neighboring_relation is None:
            own = relation_of(check_event("event", self.event))
            self._set("neighboring_relation", own)
        super().__post_init__()

    def _follows(self, name: str) -> bool:
        same = relation_of(self) is relation_of(self.event)
        return same and name == "neighboring_relation"


@dataclass(frozen=True, repr=False)
class ComposedEvent(Event):
    """Several events on one dataset; each may be chosen after seeing earlier answers.

    Parameters
    ----------
    events : tuple of Event
        At least one event; all have the same neighboring relation.

    Raises
    ------
    UnsupportedEventError
        Neighboring relations or group sizes differ.
    """

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, (tuple, list)):
            raise DTypeError(
                f"events must be a tuple of events, got {type(self.events).__name__}"
            )
        if not self.events:
            raise ParameterError("events must not be empty")
        self._set("events", tuple(check_event("events", e) for e in self.events))
        if len({(relation_of(e), e.group_size) for e in self.events}) > 1:
            raise UnsupportedEventError(
                "events must all have the same neighboring_relation and group_size"
            )

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation for which the parameters of all events hold."""
        return relation_of(self.events[0])

    @property
    def group_size(self) -> int:
        """Number of individuals that the event's guarantee is about."""
        return self.events[0].group_size


def composed(events: Iterable[Event]) -> Event:
    """Return events on one dataset as one event; return a single event unchanged."""
    found = tuple(events)
    return found[0] if len(found) == 1 else ComposedEvent(found)


@dataclass(frozen=True, repr=False)
class SelfComposedEvent(_Wrapper):
    """One event, `count` times on one dataset.

    Parameters
    ----------
    event : Event
        The repeated event.
    count : int
        Number of repetitions, >= 1.
    """

    event: Event
    count: Count


@dataclass(frozen=True, repr=False)
class PoissonSampledEvent(_SampledEvent):
    """An event on a sample that holds each record independently with one probability.

    Batches of fixed size, and batches of shuffled data, are not such samples: their
    privacy differs, sometimes by an order of magnitude.

    Parameters
    ----------
    sampling_probability : Fraction
        >= 0 and <= 1, the same for every record.
    event : Event
        The event on the sample.
    neighboring_relation : NeighboringRelation, optional
        Relation of the result; by default the relation of `event`. For `REPLACE_ONE`
        and `REPLACE_SPECIAL`, give `event` for `ADD_OR_REMOVE_ONE`: its cost if the
        sample has one record more. An event for any other relation may reveal whether a
        record was in the sample, so only its delta is amplified. Use `REPLACE_SPECIAL`
        over such an event only if the mechanism treats a sample with the special record
        as it treats the sample without it.
    largest_batch : int, optional
        A larger sample is cut to this number of records, >= 1: a uniform subset, or the
        first records in a public order. The cut is not post-processing: a record may
        push out another record, so for samples of this size the cost of two changes
        counts. Only for `ADD_OR_REMOVE_ONE`, and not if a sample that is too large is
        thrown away.
    records : int, optional
        With `largest_batch`: public maximum number of records in the data.
    """

    _MAY_FOLLOW: ClassVar[frozenset[str]] = _SampledEvent._MAY_FOLLOW | {
        "largest_batch",
        "records",
    }

    sampling_probability: Unit
    event: Event
    neighboring_relation: RelationField = field(default=OF_THE_EVENT, kw_only=True)
    largest_batch: int | None = field(default=None, kw_only=True)
    records: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [x is not None for x in (self.largest_batch, self.records)]
        if not any(given):
            return
        if not all(given):
            raise ParameterError(
                "largest_batch and records must be given together: how often a sample "
                "is cut depends on both"
            )
        for name in ("largest_batch", "records"):
            self._set(name, _validate.integer(name, getattr(self, name), 1))
        add = NeighboringRelation.ADD_OR_REMOVE_ONE
        whole, inside = relation_of(self), relation_of(self.event)
        if not whole is inside is add:
            raise UnsupportedEventError(
                "largest_batch must come with ADD_OR_REMOVE_ONE for the "
                f"sample and for the event inside, got {whole.name} "
                f"around {inside.name}"
            )
        if self.group_size > 1:
            raise UnsupportedEventError(
                "largest_batch must come with an event about single "
                "records: put the sample inside a GroupEvent instead"
            )

    def _follows(self, name: str) -> bool:
        absent = name in ("largest_batch", "records") and self.records is None
        return absent or super()._follows(name)


@dataclass(frozen=True, repr=False, kw_only=True)
class RandomAllocationEvent(_Wrapper):
    """One epoch of `steps` steps; each record joins some of them, drawn uniformly.

    `fastdp.random.allocate` draws such epochs: every record's steps are secret and
    independent of other records' steps, and batch sizes are secret. Batches of a
    permutation are not such epochs.

    Parameters
    ----------
    steps : int
        Number of steps of the epoch, >= 1.
    selected : int
        Number of distinct steps of each record, >= 1 and at most `steps`; all sets of
        this size have the same probability. For several steps the bound uses one
        allocation to one step for each of `selected` shares of the steps.
    event : Event
        The event of one step on its batch, for `ADD_OR_REMOVE_ONE`: it may depend on
        all earlier answers, and must hide one record more or less in the batch. So
        divide a sum by a public number, not by the batch size. A repeated step
        (`SelfComposedEvent`) means epochs with the same allocation; for a fresh
        allocation in each epoch, repeat the whole event. Replacing a record removes one
        and adds one: use a `GroupEvent` of two around the epoch, if each record joins
        one step.
    """

    steps: Count
    event: Event
    selected: Count

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.integer("selected", self.selected, 1, self.steps)


@dataclass(frozen=True, repr=False, kw_only=True)
class _AllocatedBlock(RandomAllocationEvent):
    """An allocation to one of some steps, which bounds a part of a larger one.

    `share` is the number of all steps that a record joins.
    """

    share: Unit


@dataclass(frozen=True, repr=False, kw_only=True)
class SampledWithoutReplacementEvent(_SampledEvent):
    """An event on a uniform subset of fixed size.

    Parameters
    ----------
    source_dataset_size : int
        Number of records to draw from, >= 1; public.
    sample_size : int
        Number of records drawn, >= 1 and at most `source_dataset_size`.
    event : Event
        The event on the sample. Its cost for replacing a record of the sample counts:
        an event for `ADD_OR_REMOVE_ONE` is charged twice, as a removal and an addition.
    neighboring_relation : NeighboringRelation, optional
        Relation of the result; by default the relation of `event`. For
        `ADD_OR_REMOVE_ONE` the larger of two datasets has at least
        `source_dataset_size` records.
    """

    source_dataset_size: Count
    sample_size: int
    event: Event
    neighboring_relation: RelationField = OF_THE_EVENT

    def __post_init__(self) -> None:
        super().__post_init__()
        n = self.source_dataset_size
        self._set(
            "sample_size", _validate.integer("sample_size", self.sample_size, 1, n)
        )


@dataclass(frozen=True, repr=False, kw_only=True)
class SampledWithReplacementEvent(_SampledEvent):
    """An event on a sample drawn uniformly, one record at a time, with repetitions.

    Parameters
    ----------
    source_dataset_size : int
        Number of records to draw from, >= 1; public.
    sample_size : int
        Number of draws, >= 1.
    event : Event
        The event on the sample. Its cost for replacing a record of the sample counts:
        an event for `ADD_OR_REMOVE_ONE` is charged twice, as a removal and an addition.
    neighboring_relation : NeighboringRelation, optional
        Relation of the result; by default the relation of `event`. For
        `ADD_OR_REMOVE_ONE` the larger of two datasets has at least
        `source_dataset_size` records.
    """

    source_dataset_size: Count
    sample_size: Count
    event: Event
    neighboring_relation: RelationField = OF_THE_EVENT


@dataclass(frozen=True, repr=False)
class GroupEvent(_Wrapper):
    """An event, as a guarantee for `size` individuals together.

    Parameters
    ----------
    event : Event
        The inner event.
    size : int
        Number of individuals, >= 1; the sizes of nested groups multiply.
    """

    event: Event
    size: Count

    @property
    def group_size(self) -> int:
        """Number of individuals that the event's guarantee is about."""
        return self.size * self.event.group_size
