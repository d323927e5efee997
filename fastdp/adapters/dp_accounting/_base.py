"""Shared by both directions: the module dp_accounting, relations, distances."""

from __future__ import annotations

from typing import Any

from fastdp.accounting.events import NeighboringRelation, as_relation
from fastdp.adapters import _library

dp = _library.load("dp_accounting", package="dp-accounting", tested=("0.6", "0.7"))

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL


def relation(value: Any) -> NeighboringRelation:
    """Convert a neighboring relation of fastdp or dp_accounting to fastdp's."""
    return as_relation(getattr(value, "name", value))


def moved(relation: NeighboringRelation) -> int:
    """Return the change of a sum of values by one record, in units of their norm."""
    return 2 if relation is REPLACE else 1
