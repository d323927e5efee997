"""Mechanisms: immutable objects that add noise and know their own privacy cost."""

from fastdp.mechanisms.integer import (
    DiscreteGaussian,
    DiscreteLaplace,
    TruncatedLaplace,
)
from fastdp.mechanisms.real import Gaussian, Laplace

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "TruncatedLaplace",
]
