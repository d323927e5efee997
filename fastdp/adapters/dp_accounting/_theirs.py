"""Our events as dp_accounting's."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fastdp import accounting
from fastdp._validate import float_down, float_up
from fastdp.accounting._laplace import whole
from fastdp.accounting.events import (
    Event,
    NeighboringRelation,
    as_event,
    relation_of,
)
from fastdp.accounting.events._base import HasEvent
from fastdp.adapters import _library
from fastdp.adapters.dp_accounting import _base
from fastdp.adapters.dp_accounting._base import ADD, REPLACE, dp
from fastdp.exceptions import UnsupportedEventError


def to_dp_event(event: Event | HasEvent) -> tuple[Any, Any]:
    """Return dp_accounting's event for an event, and the relation to read it with.

    Parameters
    ----------
    event : Event or mechanism
        The event; for a mechanism, its `event()`.

    Returns
    -------
    dp_accounting.DpEvent
        The event, which does not state its relation.
    dp_accounting.NeighboringRelation
        The relation with which to make the accountant.

    Raises
    ------
    DTypeError
        `event` is neither an event nor a mechanism.
    UnsupportedEventError
        dp_accounting has no event of this kind.
    """
    _library.require(dp, "dp_accounting")
    event = as_event("event", event)
    relation = relation_of(event)
    return _theirs(event, relation), dp.NeighboringRelation[relation.name]


def _theirs(event: Event, relation: NeighboringRelation) -> Any:
    """Return the event of dp_accounting that is read under `relation`."""
    moved, reason = _base.moved(relation_of(event)), "it has no event of this kind"
    match event:
        case accounting.ComposedEvent(events=parts):
            return dp.ComposedDpEvent([_theirs(part, relation) for part in parts])
        case accounting.SelfComposedEvent(event=inner, count=count):
            return dp.SelfComposedDpEvent(_theirs(inner, relation), count)
        case accounting.GaussianEvent(sensitivity=s, sigma=sigma):
            return dp.GaussianDpEvent(float_down(moved * sigma / s)) if s else _none()
        case accounting.LaplaceEvent(sensitivity=s, scale=b):
            return dp.LaplaceDpEvent(float_down(moved * b / s)) if s else _none()
        case accounting.DiscreteLaplaceEvent(sensitivity=s, scale=b):
            shift = whole(s)
            if shift % moved == 0:
                kind = dp.dp_event.DiscreteLaplaceDpEvent
                return kind(float_up(1 / b), shift // moved) if shift else _none()
            reason = "values of integers move by an even number when one is replaced"
        case _ if relation_of(event) is not relation:
            reason = f"a sample reads the event inside for {relation.name}"
        case accounting.PureDPEvent(epsilon=Fraction(numerator=0)):
            return _none()
        case accounting.ApproximateDPEvent(delta=Fraction(numerator=1, denominator=1)):
            return dp.NonPrivateDpEvent()
        case accounting.GDPEvent(mu=mu):
            return dp.GaussianDpEvent(float_down(moved / mu)) if mu else _none()
        case accounting.ZCDPEvent(rho=rho, xi=xi):
            return dp.ZCDpEvent(float_up(rho), float_up(xi))
        case accounting.RandomizedResponseEvent(p=p, q=q) if relation is REPLACE:
            k = (1 - p) / q + 1
            if k.denominator == 1:
                return dp.RandomizedResponseDpEvent(float_down(k * q), int(k))
            reason = "its other answers must all have the probability q"
        case accounting.PoissonSampledEvent(sampling_probability=rate, event=inner):
            if event.largest_batch is not None:
                reason = "its samples are not cut to a largest_batch"
            elif relation_of(inner) is ADD:
                return dp.PoissonSampledDpEvent(float_up(rate), _theirs(inner, ADD))
            else:
                reason = "a sample reads the event inside for ADD_OR_REMOVE_ONE"
        case (
            accounting.SampledWithoutReplacementEvent(event=inner)
            | accounting.SampledWithReplacementEvent(event=inner)
        ):
            kind = getattr(dp, type(event).__name__.replace("Event", "DpEvent"))
            sizes = event.source_dataset_size, event.sample_size
            return kind(*sizes, _theirs(inner, REPLACE))
    raise UnsupportedEventError(
        f"event must have a counterpart in dp_accounting, got {event!r}: {reason}"
    )


def _none() -> Any:
    return dp.NoOpDpEvent()
