"""Privacy accounting: events, and the guarantees that follow from them.

Pure Python over numpy and scipy; usable without the compiled core.
"""

from fastdp.accounting import conversions
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    RandomizedResponseEvent,
    TruncatedDiscreteLaplaceEvent,
    l2_sensitivity,
)
from fastdp.accounting.groups import group_delta, group_epsilon, group_rho
from fastdp.accounting.guarantees import event_delta, event_epsilon, event_rho

__all__ = [
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "GaussianEvent",
    "LaplaceEvent",
    "NeighboringRelation",
    "RandomizedResponseEvent",
    "TruncatedDiscreteLaplaceEvent",
    "conversions",
    "event_delta",
    "event_epsilon",
    "event_rho",
    "group_delta",
    "group_epsilon",
    "group_rho",
    "l2_sensitivity",
]
