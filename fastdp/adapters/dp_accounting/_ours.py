"""Events of dp_accounting as ours."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from fastdp import accounting
from fastdp._validate import between, integer, nonnegative
from fastdp.accounting._facts import leaves
from fastdp.accounting._numeric import log_down
from fastdp.accounting.events import Event, NeighboringRelation, Relation
from fastdp.adapters import _library
from fastdp.adapters.dp_accounting import _base
from fastdp.adapters.dp_accounting._base import ADD, REPLACE, SPECIAL, dp
from fastdp.exceptions import DTypeError, UnsupportedEventError


def from_dp_event(
    dp_event: Any, *, neighboring_relation: Relation = "add_or_remove_one"
) -> Event:
    """Return the event that corresponds to an event of dp_accounting.

    Parameters
    ----------
    dp_event : dp_accounting.DpEvent
        The event to convert.
    neighboring_relation : NeighboringRelation
        The relation of the result: fastdp's relation, its name, or dp_accounting's.

    Raises
    ------
    DTypeError, ParameterError
        `dp_event` is not a DpEvent, or a number in it is out of its domain.
    UnsupportedEventError
        The event has no counterpart for this relation.
    """
    _library.require(dp, "dp_accounting")
    return _ours(dp_event, _base.relation(neighboring_relation))


def _ours(e: Any, relation: NeighboringRelation) -> Event:
    if not isinstance(e, dp.DpEvent):
        raise DTypeError(f"dp_event must be a DpEvent, got {type(e).__name__}")
    kind, moved = type(e).__name__, Fraction(_base.moved(relation))
    known = getattr(dp.dp_event, kind, None) is type(e)  # not a user's subclass
    match kind if known else None:
        case "NoOpDpEvent":
            return _nothing(relation)
        case "NonPrivateDpEvent":
            return _anything(relation)
        case "GaussianDpEvent" if e.noise_multiplier:
            return accounting.GaussianEvent(
                sensitivity=moved,
                sigma=e.noise_multiplier,
                neighboring_relation=relation,
            )
        case "LaplaceDpEvent" if e.noise_multiplier:
            return accounting.LaplaceEvent(
                sensitivity=moved,
                scale=e.noise_multiplier,
                neighboring_relation=relation,
            )
        case "DiscreteLaplaceDpEvent" if e.noise_parameter:
            # dp_accounting reads a parameter of 0 as no noise, but the law is flat.
            return accounting.DiscreteLaplaceEvent(
                sensitivity=moved * integer("sensitivity", e.sensitivity, 0),
                scale=1 / nonnegative("noise_parameter", e.noise_parameter),
                neighboring_relation=relation,
            )
        case "GaussianDpEvent" | "LaplaceDpEvent" | "DiscreteLaplaceDpEvent":
            return _anything(relation)
        case "ZCDpEvent":
            return accounting.ZCDPEvent(e.rho, xi=e.xi, neighboring_relation=relation)
        case "RandomizedResponseDpEvent" if relation is not ADD:
            p = between("noise_parameter", e.noise_parameter, Fraction(0), Fraction(1))
            k = integer("num_buckets", e.num_buckets, 1)
            if k == 1 or p == 1:
                return _nothing(relation)
            return _response(p, k, relation) if p else _anything(relation)
        case "ComposedDpEvent":
            parts = [_ours(part, relation) for part in e.events]
            return (
                accounting.ComposedEvent(tuple(parts)) if parts else _nothing(relation)
            )
        case "SelfComposedDpEvent":
            return accounting.SelfComposedEvent(_ours(e.event, relation), e.count)
        case "PoissonSampledDpEvent":
            rate, inner = e.sampling_probability, _in_sample(e.event, ADD)
            if inner == _anything(ADD):  # revealed if in the sample
                return replace(_anything(relation), delta=rate)
            return accounting.PoissonSampledEvent(
                rate, inner, neighboring_relation=relation
            )
        case "SampledWithoutReplacementDpEvent" | "SampledWithReplacementDpEvent":
            if e.sample_size == 0:
                return _nothing(relation)
            return getattr(accounting, kind.replace("DpEvent", "Event"))(  # type: ignore[no-any-return]
                source_dataset_size=e.source_dataset_size,
                sample_size=e.sample_size,
                event=_in_sample(e.event, REPLACE),
                neighboring_relation=relation,
            )
        case "SingleEpochTreeAggregationDpEvent" if relation is SPECIAL:
            steps = np.atleast_1d(e.step_counts).tolist()
            most = max((integer("step_counts", n, 0) for n in steps), default=0)
            node = _ours(dp.GaussianDpEvent(e.noise_multiplier), relation)
            depth = most.bit_length()  # number of nodes of a tree that hold a record
            return (
                accounting.SelfComposedEvent(node, depth)
                if depth
                else _nothing(relation)
            )
    raise UnsupportedEventError(
        f"dp_event must have a counterpart, and fastdp has none of a {kind} for "
        f"{relation.name}: compose it in dp_accounting's own accountant"
    )


@cache
def _nothing(relation: NeighboringRelation) -> Event:
    return accounting.PureDPEvent(Fraction(0), neighboring_relation=relation)


@cache
def _anything(relation: NeighboringRelation) -> accounting.ApproximateDPEvent:
    return accounting.ApproximateDPEvent(
        epsilon=Fraction(0), delta=Fraction(1), neighboring_relation=relation
    )


def _in_sample(e: Any, relation: NeighboringRelation) -> Event:
    """Return the event inside a sample; several Gaussian events become one."""
    event = _ours(e, relation)
    if isinstance(event, accounting.GaussianEvent):
        return event
    square = Fraction(0)
    for part, count in leaves(event):
        if not isinstance(part, accounting.GaussianEvent):
            return event
        square += count * (part.sensitivity / part.sigma) ** 2
    return accounting.GaussianEvent(
        sensitivity=accounting.l2_sensitivity(square),
        sigma=Fraction(1),
        neighboring_relation=relation,
    )


def _response(p: Fraction, k: int, relation: NeighboringRelation) -> Event:
    """Return randomized response with another or a uniform answer as the lie."""
    own, other = 1 - p + p / k, p / k
    if relation is REPLACE:
        return accounting.RandomizedResponseEvent(
            p=own, q=other, neighboring_relation=relation
        )
    # Logarithms are not rational: round each loss up.
    return accounting.PrivacyLossEvent(
        losses=(_log_up(p), _log_up(k * own)),
        probabilities=(1 - own, own),
        addition_losses=(_log_up(1 / (k * own)), _log_up(1 / p)),
        addition_probabilities=(Fraction(1, k), Fraction(k - 1, k)),
        neighboring_relation=relation,
    )


def _log_up(value: Fraction) -> Fraction:
    return Fraction(-log_down(1 / value))
