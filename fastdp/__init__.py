"""fastdp: exact, cryptographically secure, timing-safe noise at hardware speed.

A table of counts, released with differential privacy::

    import fastdp

    m = fastdp.DiscreteLaplace.from_epsilon(1.0, sensitivity=1)
    m.release([1304, 2480, 961, 0])

Integers: DiscreteLaplace, DiscreteGaussian, TruncatedLaplace. Real numbers: Laplace,
Gaussian. Choices and quantiles: ExponentialMechanism, PermuteAndFlip,
ReportNoisyMax, SparseVector, Quantiles. Reports that users randomize themselves:
RandomizedResponse, UnaryEncoding, LocalHashing, HadamardResponse, SubsetSelection,
ShuffledResponse, best_frequency_oracle; for numbers LocalMean, for vectors
VectorResponse. The joint cost of releases: `fastdp.accounting`. Pictures:
`fastdp.plot`. Laws: `fastdp.distributions`; draws from the laws: `fastdp.random`. A
durable budget: `fastdp.ledger`. A private table of records: `Plan`, `Unit`. Frames of
any library: `fastdp.frames`. Models: `fastdp.learning`. Gradients: `fastdp.training`.
Adapters for other libraries: `fastdp.adapters`. Tests of any mechanism: `fastdp.audit`.
"""

# Public names are resolved on first use, so that importing the package loads
# neither the C core nor scipy. Checkers read the static imports instead, and no
# `__getattr__`: a name that does not exist is an error to them.

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    # isort: off
    from fastdp import (
        accounting as accounting,
        adapters as adapters,
        audit as audit,
        calibration as calibration,
        distributions as distributions,
        exceptions as exceptions,
        frames as frames,
        learning as learning,
        ledger as ledger,
        mechanisms as mechanisms,
        plot as plot,
        random as random,
        tables as tables,
        training as training,
    )

    # isort: on
    from fastdp._config import get_include as get_include
    from fastdp._config import show_config as show_config
    from fastdp.exceptions import FastDPError as FastDPError
    from fastdp.mechanisms import *  # noqa: F403 - its __all__ is the list of names
    from fastdp.tables import *  # noqa: F403
else:
    _MODULES = (
        *("accounting", "adapters", "audit", "calibration", "distributions"),
        *("exceptions", "frames", "learning", "ledger", "mechanisms", "plot"),
        *("random", "tables", "training"),
    )
    _ELSEWHERE = {
        "FastDPError": "exceptions",
        **dict.fromkeys(("get_include", "show_config"), "_config"),
    }
    _LISTED = ("mechanisms", "tables")

    def __getattr__(name):
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"fastdp.{name}")
        if name in _ELSEWHERE:
            value = getattr(import_module(f"fastdp.{_ELSEWHERE[name]}"), name)
        elif name == "__all__":
            modules = [import_module(f"fastdp.{module}") for module in _LISTED]
            listed = [entry for module in modules for entry in module.__all__]
            value = sorted(["__version__", *_MODULES, *_ELSEWHERE, *listed])
        else:
            for module in _LISTED if name[:1] != "_" else ():
                if name in (found := import_module(f"fastdp.{module}")).__all__:
                    value = getattr(found, name)
                    break
            else:
                raise AttributeError(f"module 'fastdp' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        return __getattr__("__all__")
