"""Privacy accounting: events, and the guarantees that follow from them.

Pure Python over numpy and scipy; usable without the compiled core. The largest
accountants are loaded on first use.

Every function raises DTypeError for a parameter of the wrong type and ParameterError
for a parameter out of its domain. Docstrings name the other errors.
"""

from typing import TYPE_CHECKING

from fastdp import _public
from fastdp.accounting import conversions
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._calibrate import calibrate, calibrate_count
from fastdp.accounting._record import Statement
from fastdp.accounting.events import (
    ApproximateDPEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteGaussianSumEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    PoissonSampledEvent,
    PrivacyLossEvent,
    PureDPEvent,
    RandomAllocationEvent,
    RandomizedResponseEvent,
    RDPEvent,
    Relation,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    SelfComposedEvent,
    SkellamEvent,
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
from fastdp.accounting.parallel import parallel_event
from fastdp.accounting.pure import PureAccountant
from fastdp.accounting.tcdp import TCDPAccountant
from fastdp.accounting.zcdp import ZCDPAccountant

__all__: list[str] = [
    "Accountant",
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
    "PureAccountant",
    "PureDPEvent",
    "PureOdometer",
    "RDPEvent",
    "RandomAllocationEvent",
    "RandomizedResponseEvent",
    "Relation",
    "SampledWithReplacementEvent",
    "SampledWithoutReplacementEvent",
    "SelfComposedEvent",
    "SkellamEvent",
    "Statement",
    "TCDPAccountant",
    "TCDPEvent",
    "TradeOffEvent",
    "TruncatedDiscreteLaplaceEvent",
    "ZCDPAccountant",
    "ZCDPEvent",
    "ZCDPOdometer",
    "calibrate",
    "calibrate_count",
    "conversions",
    "event_delta",
    "event_epsilon",
    "event_rho",
    "group_delta",
    "group_epsilon",
    "group_rho",
    "l2_sensitivity",
    "parallel_event",
    "privacy_loss_from_pmf",
]

_public.show(globals())

# The modules with most computation are loaded on first use. Type checkers see these
# imports instead of `__getattr__`, so they report a name that does not exist.
if TYPE_CHECKING:
    from fastdp.accounting import approx, fdp, filters, rdp
    from fastdp.accounting.approx import *  # noqa: F403 - its __all__ lists the names
    from fastdp.accounting.fdp import *  # noqa: F403
    from fastdp.accounting.filters import *  # noqa: F403
    from fastdp.accounting.pld import PLDAccountant, PrivacyLossDistribution
    from fastdp.accounting.rdp import *  # noqa: F403

    __all__ += approx.__all__
    __all__ += fdp.__all__
    __all__ += filters.__all__
    __all__ += rdp.__all__
    __all__ += ["PLDAccountant", "PrivacyLossDistribution"]
else:
    _LATER = {
        "approx": (
            "ApproximateAccountant",
            "advanced_composition",
            "basic_composition",
            "kairouz_composition",
        ),
        "fdp": (
            "ApproximateTradeOff",
            "FDPAccountant",
            "GDPAccountant",
            "GaussianTradeOff",
            "LaplaceTradeOff",
            "PiecewiseTradeOff",
            "TradeOffFunction",
            "compose_trade_offs",
            "gdp_delta",
            "gdp_epsilon",
            "gdp_log_delta",
            "trade_off_of",
        ),
        "filters": (
            "ApproximateFilter",
            "DeclaredFilter",
            "GDPFilter",
            "PrivacyFilter",
            "PureFilter",
            "RDPFilter",
            "ZCDPFilter",
        ),
        "pld": (
            "PLDAccountant",
            "PrivacyLossDistribution",
        ),
        "rdp": (
            "RDPAccountant",
            "rdp_to_delta",
            "rdp_to_epsilon",
            "renyi_divergence",
        ),
    }
    __all__ += [name for names in _LATER.values() for name in names]

    def __getattr__(name):
        from importlib import import_module

        for module, names in _LATER.items():
            if name in names:
                value = getattr(import_module(f"{__name__}.{module}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted(__all__)
