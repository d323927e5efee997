"""Privacy accounting: events, and the guarantees that follow from them.

Pure Python over numpy and scipy; usable without the compiled core.
"""

from fastdp.accounting import conversions
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._calibrate import calibrate, calibrate_count
from fastdp.accounting._ledger import Statement
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
from fastdp.accounting.filters import (
    ApproximateFilter,
    DeclaredFilter,
    GDPFilter,
    PrivacyFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
)
from fastdp.accounting.groups import group_delta, group_epsilon, group_rho
from fastdp.accounting.guarantees import event_delta, event_epsilon, event_rho
from fastdp.accounting.odometers import PureOdometer, ZCDPOdometer
from fastdp.accounting.pld import PLDAccountant
from fastdp.accounting.pure import PureAccountant
from fastdp.accounting.rdp import (
    RDPAccountant,
    rdp_to_delta,
    rdp_to_epsilon,
    renyi_divergence,
)
from fastdp.accounting.tcdp import TCDPAccountant
from fastdp.accounting.zcdp import ZCDPAccountant

__all__ = [
    "Accountant",
    "ApproximateAccountant",
    "ApproximateDPEvent",
    "ApproximateFilter",
    "ComposedEvent",
    "DeclaredFilter",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "ExponentialMechanismEvent",
    "GDPEvent",
    "GDPFilter",
    "GaussianEvent",
    "GroupEvent",
    "LaplaceEvent",
    "NeighboringRelation",
    "PLDAccountant",
    "PermuteAndFlipEvent",
    "PoissonSampledEvent",
    "PrivacyFilter",
    "PureAccountant",
    "PureDPEvent",
    "PureFilter",
    "PureOdometer",
    "RDPAccountant",
    "RDPEvent",
    "RDPFilter",
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
    "ZCDPFilter",
    "ZCDPOdometer",
    "advanced_composition",
    "basic_composition",
    "calibrate",
    "calibrate_count",
    "conversions",
    "event_delta",
    "event_epsilon",
    "event_rho",
    "group_delta",
    "group_epsilon",
    "group_rho",
    "kairouz_composition",
    "l2_sensitivity",
    "rdp_to_delta",
    "rdp_to_epsilon",
    "renyi_divergence",
]
