"""Privacy events: public facts about what a mechanism did.

An event states the law of the added noise and how much one individual can change the
exact answer, or a guarantee that was proved for a mechanism, or how other events were
combined. It holds no data and no noise, so it may be stored, compared and published
(`to_json`). Accountants and `fastdp.accounting.conversions` compute guarantees from
events.
"""

from fastdp import _public
from fastdp.accounting.events._base import (
    Event,
    NeighboringRelation,
    Relation,
    as_event,
    as_relation,
    relation_of,
)
from fastdp.accounting.events._choices import (
    ExponentialMechanismEvent,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
)
from fastdp.accounting.events._composite import (
    ComposedEvent,
    GroupEvent,
    PoissonSampledEvent,
    RandomAllocationEvent,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    SelfComposedEvent,
)
from fastdp.accounting.events._noise import (
    DiscreteGaussianEvent,
    DiscreteGaussianSumEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    SkellamEvent,
    TruncatedDiscreteLaplaceEvent,
    l2_sensitivity,
)
from fastdp.accounting.events._privacy_loss import (
    PrivacyLossEvent,
    privacy_loss_from_pmf,
)
from fastdp.accounting.events._stated import (
    ApproximateDPEvent,
    GDPEvent,
    PureDPEvent,
    RDPEvent,
    TCDPEvent,
    TradeOffEvent,
    ZCDPEvent,
)

__all__ = [
    "ApproximateDPEvent",
    "ComposedEvent",
    "DiscreteGaussianEvent",
    "DiscreteGaussianSumEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "ExponentialMechanismEvent",
    "GDPEvent",
    "GaussianEvent",
    "GroupEvent",
    "LaplaceEvent",
    "MixtureOfGaussiansEvent",
    "NeighboringRelation",
    "PermuteAndFlipEvent",
    "PoissonSampledEvent",
    "PrivacyLossEvent",
    "PureDPEvent",
    "RDPEvent",
    "RandomAllocationEvent",
    "RandomizedResponseEvent",
    "Relation",
    "SampledWithReplacementEvent",
    "SampledWithoutReplacementEvent",
    "SelfComposedEvent",
    "SkellamEvent",
    "TCDPEvent",
    "TradeOffEvent",
    "TruncatedDiscreteLaplaceEvent",
    "ZCDPEvent",
    "as_event",
    "as_relation",
    "l2_sensitivity",
    "privacy_loss_from_pmf",
    "relation_of",
]

_public.show(globals())
