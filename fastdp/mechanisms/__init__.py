"""Mechanisms: immutable objects that draw noise and know their own privacy cost.

Every constructor and function raises DTypeError for a parameter of the wrong type and
ParameterError for a parameter out of its domain. Docstrings name the other errors.
"""

from fastdp import _public
from fastdp.mechanisms import pate as pate  # from_json must find its class by name
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.choices.median import smooth_median
from fastdp.mechanisms.choices.noisy_max import (
    PermuteAndFlip,
    ReportNoisyMax,
    noisy_argmax,
)
from fastdp.mechanisms.choices.quantile import Quantiles
from fastdp.mechanisms.choices.selection import ExponentialMechanism
from fastdp.mechanisms.choices.smooth_sensitivity import SmoothSensitivity
from fastdp.mechanisms.choices.sparse_vector import SparseVector
from fastdp.mechanisms.choices.stability import ProposeTestRelease, StableMode
from fastdp.mechanisms.choices.subsample_aggregate import SubsampleAggregate
from fastdp.mechanisms.local import (
    CountMeanSketch,
    HadamardResponse,
    LocalHashing,
    LocalMean,
    PrefixHunt,
    RandomizedResponse,
    Rappor,
    ShuffledResponse,
    SubsetSelection,
    UnaryEncoding,
    VectorResponse,
    best_frequency_oracle,
)
from fastdp.mechanisms.noise.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.noise.real import Gaussian, Laplace
from fastdp.mechanisms.noise.shares import GaussianShares, LaplaceShares, SkellamShares
from fastdp.mechanisms.noise.sinh import SinhNormal
from fastdp.mechanisms.noise.truncated import TruncatedLaplace
from fastdp.mechanisms.records.clipped_sum import ClippedSum
from fastdp.mechanisms.records.contributions import bound_contributions
from fastdp.mechanisms.records.key_selection import KeySelection
from fastdp.mechanisms.records.moments import Moments
from fastdp.mechanisms.records.unknown_histogram import UnknownHistogram
from fastdp.mechanisms.running.counter import Counter
from fastdp.mechanisms.running.hierarchy import HierarchicalHistogram
from fastdp.mechanisms.running.prefix_sums import PrefixSums

__all__ = [
    "ClippedSum",
    "CountMeanSketch",
    "Counter",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "Gaussian",
    "GaussianShares",
    "HadamardResponse",
    "HierarchicalHistogram",
    "KeySelection",
    "Laplace",
    "LaplaceShares",
    "LocalHashing",
    "LocalMean",
    "Mechanism",
    "Moments",
    "PermuteAndFlip",
    "PrefixHunt",
    "PrefixSums",
    "ProposeTestRelease",
    "Quantiles",
    "RandomizedResponse",
    "Rappor",
    "ReportNoisyMax",
    "ShuffledResponse",
    "SinhNormal",
    "SkellamShares",
    "SmoothSensitivity",
    "SparseVector",
    "StableMode",
    "SubsampleAggregate",
    "SubsetSelection",
    "TruncatedLaplace",
    "UnaryEncoding",
    "UnknownHistogram",
    "VectorResponse",
    "best_frequency_oracle",
    "bound_contributions",
    "noisy_argmax",
    "smooth_median",
]

_public.show(globals())
