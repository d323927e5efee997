"""Prepared laws: the kernels' tables, and exact parameters for undecided cases.

Each law is made once for its public parameters and cached; mechanisms and the functions
of `fastdp.random` share the laws.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from fastdp import _core, _validate
from fastdp.exceptions import ParameterError


@lru_cache(maxsize=512)
def laplace_sampler(scale: Fraction, bound: int = 0) -> _core.Sampler:
    """Return the prepared discrete Laplace law, on |x| <= bound if bound > 0."""
    _validate.between("scale", scale, *_validate.SCALE_RANGE)
    return _core.Sampler.laplace(scale, bound)


@lru_cache(maxsize=512)
def gaussian_sampler(sigma: Fraction) -> _core.Sampler:
    """Return the prepared discrete Gaussian law."""
    _validate.between("sigma", sigma, *_validate.SIGMA_RANGE)
    return _core.Sampler.gaussian(sigma)


@lru_cache(maxsize=512)
def bernoulli_law(p: Fraction) -> _core.Bernoulli:
    """Return the prepared law of bits that are 1 with probability `p`."""
    return _core.Bernoulli(p)


@lru_cache(maxsize=512)
def response_law(truth: Fraction, categories: int) -> _core.Response:
    """Return the prepared k-ary response; `truth` is a multiple of 2**-64."""
    if 2**64 % truth.denominator:
        raise ParameterError("truth must be a multiple of 2**-64")
    return _core.Response(truth, categories)
