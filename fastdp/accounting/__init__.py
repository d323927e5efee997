"""Privacy accounting: events, and the guarantees that follow from them.

Pure Python over numpy and scipy; usable without the compiled core. The accountants
that compute most are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastdp.accounting import conversions
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._calibrate import calibrate, calibrate_count
from fastdp.accounting._record import Statement
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
    PrivacyLossEvent,
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
    privacy_loss_from_pmf,
)
from fastdp.accounting.groups import group_delta, group_epsilon, group_rho
from fastdp.accounting.guarantees import event_delta, event_epsilon, event_rho
from fastdp.accounting.odometers import PureOdometer, ZCDPOdometer
from fastdp.accounting.pure import PureAccountant
from fastdp.accounting.tcdp import TCDPAccountant
from fastdp.accounting.zcdp import ZCDPAccountant

if TYPE_CHECKING:
    from fastdp.accounting.fdp import (
        ApproximateTradeOff,
        FDPAccountant,
        GaussianTradeOff,
        GDPAccountant,
        LaplaceTradeOff,
        PiecewiseTradeOff,
        TradeOffFunction,
        compose_trade_offs,
        gdp_delta,
        gdp_epsilon,
        gdp_log_delta,
        trade_off_of,
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
    from fastdp.accounting.pld import PLDAccountant, PrivacyLossDistribution
    from fastdp.accounting.rdp import (
        RDPAccountant,
        rdp_to_delta,
        rdp_to_epsilon,
        renyi_divergence,
    )

__all__ = [
    "Accountant",
    "ApproximateAccountant",
    "ApproximateDPEvent",
    "ApproximateFilter",
    "ApproximateTradeOff",
    "ComposedEvent",
    "DeclaredFilter",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "ExponentialMechanismEvent",
    "FDPAccountant",
    "GDPAccountant",
    "GDPEvent",
    "GDPFilter",
    "GaussianEvent",
    "GaussianTradeOff",
    "GroupEvent",
    "LaplaceEvent",
    "LaplaceTradeOff",
    "NeighboringRelation",
    "PLDAccountant",
    "PermuteAndFlipEvent",
    "PiecewiseTradeOff",
    "PoissonSampledEvent",
    "PrivacyFilter",
    "PrivacyLossDistribution",
    "PrivacyLossEvent",
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
    "TradeOffFunction",
    "TruncatedDiscreteLaplaceEvent",
    "ZCDPAccountant",
    "ZCDPEvent",
    "ZCDPFilter",
    "ZCDPOdometer",
    "advanced_composition",
    "basic_composition",
    "calibrate",
    "calibrate_count",
    "compose_trade_offs",
    "conversions",
    "event_delta",
    "event_epsilon",
    "event_rho",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_log_delta",
    "group_delta",
    "group_epsilon",
    "group_rho",
    "kairouz_composition",
    "l2_sensitivity",
    "privacy_loss_from_pmf",
    "rdp_to_delta",
    "rdp_to_epsilon",
    "renyi_divergence",
    "trade_off_of",
]

#: Where the names are that are loaded on first use.
_LATER = {
    "ApproximateFilter": "filters",
    "ApproximateTradeOff": "fdp",
    "DeclaredFilter": "filters",
    "FDPAccountant": "fdp",
    "GDPAccountant": "fdp",
    "GDPFilter": "filters",
    "GaussianTradeOff": "fdp",
    "LaplaceTradeOff": "fdp",
    "PLDAccountant": "pld",
    "PiecewiseTradeOff": "fdp",
    "PrivacyFilter": "filters",
    "PrivacyLossDistribution": "pld",
    "PureFilter": "filters",
    "RDPAccountant": "rdp",
    "RDPFilter": "filters",
    "TradeOffFunction": "fdp",
    "ZCDPFilter": "filters",
    "compose_trade_offs": "fdp",
    "gdp_delta": "fdp",
    "gdp_epsilon": "fdp",
    "gdp_log_delta": "fdp",
    "rdp_to_delta": "rdp",
    "rdp_to_epsilon": "rdp",
    "renyi_divergence": "rdp",
    "trade_off_of": "fdp",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
