"""Privacy accounting: events, and the guarantees that follow from them.

Pure Python over numpy and scipy; usable without the compiled core.
"""

from fastdp.accounting import conversions
from fastdp.accounting._accountant import Accountant, Statement
from fastdp.accounting.approx import (
    ApproximateAccountant,
    advanced_composition,
    basic_composition,
    kairouz_composition,
)
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
from fastdp.accounting.pure import PureAccountant
from fastdp.accounting.tcdp import TCDPAccountant
from fastdp.accounting.zcdp import ZCDPAccountant

__all__ = [
    "Accountant",
    "ApproximateAccountant",
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
    "PureAccountant",
    "PureDPEvent",
    "RDPEvent",
    "RandomizedResponseEvent",
    "SampledWithReplacementEvent",
    "SampledWithoutReplacementEvent",
    "SelfComposedEvent",
    "Statement",
    "TCDPAccountant",
    "TCDPEvent",
    "TradeOffEvent",
    "TruncatedDiscreteLaplaceEvent",
    "ZCDPAccountant",
    "ZCDPEvent",
    "advanced_composition",
    "basic_composition",
    "conversions",
    "event_delta",
    "event_epsilon",
    "event_rho",
    "group_delta",
    "group_epsilon",
    "group_rho",
    "kairouz_composition",
    "l2_sensitivity",
]
