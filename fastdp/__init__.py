"""fastdp: exact, cryptographically secure, timing-safe noise at hardware speed.

Public names are resolved on first use, so that importing the package loads
neither the C core nor scipy.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_MODULES = {
    "accounting",
    "calibration",
    "distributions",
    "exceptions",
    "mechanisms",
    "plot",
    "random",
}
_NAMES = {
    "DiscreteGaussian": "fastdp.mechanisms",
    "DiscreteLaplace": "fastdp.mechanisms",
    "ExponentialMechanism": "fastdp.mechanisms",
    "Gaussian": "fastdp.mechanisms",
    "HadamardResponse": "fastdp.mechanisms",
    "Laplace": "fastdp.mechanisms",
    "LocalHashing": "fastdp.mechanisms",
    "PermuteAndFlip": "fastdp.mechanisms",
    "Quantiles": "fastdp.mechanisms",
    "RandomizedResponse": "fastdp.mechanisms",
    "ReportNoisyMax": "fastdp.mechanisms",
    "ShuffledResponse": "fastdp.mechanisms",
    "SparseVector": "fastdp.mechanisms",
    "TruncatedLaplace": "fastdp.mechanisms",
    "UnaryEncoding": "fastdp.mechanisms",
    "best_frequency_oracle": "fastdp.mechanisms.local",
    "noisy_argmax": "fastdp.mechanisms.noisy_max",
    "FastDPError": "fastdp.exceptions",
    "quantiles": "fastdp.mechanisms.quantile",
    "show_config": "fastdp._config",
}

__all__ = sorted(["__version__", *_MODULES, *_NAMES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"fastdp.{name}")
    if name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'fastdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
