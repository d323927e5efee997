"""Privacy accounting: events, and the guarantees that follow from them.

Pure Python over numpy and scipy; usable without the compiled core.
"""

from fastdp.accounting import conversions
from fastdp.accounting.events import (
    ApproximateDPEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPEvent,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    SelfComposedEvent,
    TCDPEvent,
    TradeOffEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPEvent,
    l2_sensitivity,
)
from fastdp.accounting.groups import group_delta, group_epsilon, group_rho
from fastdp.accounting.guarantees import event_delta, event_epsilon, event_rho

__all__ = [
    "ApproximateDPEvent",
    "ComposedEvent",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "ExponentialMechanismEvent",
    "GDPEvent",
    "GaussianEvent",
    "GroupEvent",
    "LaplaceEvent",
    "NeighboringRelation",
    "PermuteAndFlipEvent",
    "PoissonSampledEvent",
    "PureDPEvent",
    "RDPEvent",
    "RandomizedResponseEvent",
    "SampledWithReplacementEvent",
    "SampledWithoutReplacementEvent",
    "SelfComposedEvent",
    "TCDPEvent",
    "TradeOffEvent",
    "TruncatedDiscreteLaplaceEvent",
    "ZCDPEvent",
    "conversions",
    "event_delta",
    "event_epsilon",
    "event_rho",
    "group_delta",
    "group_epsilon",
    "group_rho",
    "l2_sensitivity",
]
