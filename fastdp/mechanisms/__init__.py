"""Mechanisms: immutable objects that draw noise and know their own privacy cost."""

from fastdp.mechanisms.integer import (
    DiscreteGaussian,
    DiscreteLaplace,
    TruncatedLaplace,
)
from fastdp.mechanisms.local import (
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    UnaryEncoding,
)
from fastdp.mechanisms.real import Gaussian, Laplace
from fastdp.mechanisms.sparse_vector import SparseVector

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "HadamardResponse",
    "Laplace",
    "LocalHashing",
    "RandomizedResponse",
    "SparseVector",
    "TruncatedLaplace",
    "UnaryEncoding",
]
