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
    TruncatedDiscreteLaplaceEvent,
    l2_sensitivity,
)

__all__ = [
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "GaussianEvent",
    "LaplaceEvent",
    "NeighboringRelation",
    "TruncatedDiscreteLaplaceEvent",
    "conversions",
    "l2_sensitivity",
]
