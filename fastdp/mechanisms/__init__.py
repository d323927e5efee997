"""Mechanisms: immutable objects that draw noise and know their own privacy cost."""

from fastdp import _public
from fastdp.mechanisms import pate as pate  # its kind is known by name to from_json
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.clipped_sum import ClippedSum
from fastdp.mechanisms.contributions import bound_contributions
from fastdp.mechanisms.hierarchy import HierarchicalHistogram
from fastdp.mechanisms.integer import (
    DiscreteGaussian,
    DiscreteLaplace,
    TruncatedLaplace,
)
from fastdp.mechanisms.key_selection import KeySelection
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
from fastdp.mechanisms.median import smooth_median
from fastdp.mechanisms.moments import Moments
from fastdp.mechanisms.noisy_max import PermuteAndFlip, ReportNoisyMax, noisy_argmax
from fastdp.mechanisms.prefix_sums import Counter, PrefixSums
from fastdp.mechanisms.quantile import Quantiles, quantiles
from fastdp.mechanisms.real import Gaussian, Laplace
from fastdp.mechanisms.selection import ExponentialMechanism
from fastdp.mechanisms.shares import LaplaceShares
from fastdp.mechanisms.smooth_sensitivity import SmoothSensitivity
from fastdp.mechanisms.sparse_vector import SparseVector
from fastdp.mechanisms.stability import ProposeTestRelease, StableMode
from fastdp.mechanisms.subsample_aggregate import SubsampleAggregate
from fastdp.mechanisms.unknown_histogram import UnknownHistogram

__all__ = [
    "ClippedSum",
    "CountMeanSketch",
    "Counter",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "Gaussian",
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
    "quantiles",
    "smooth_median",
]

_public.show(globals())
