"""Prepared laws: the kernels' tables with the exact resolvers behind them.

Each is made once for its public parameters and kept; mechanisms and the functions that
draw share them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from fastdp import _core, _digits, _exact_bits, _tilt


@lru_cache(maxsize=512)
def laplace_sampler(scale: Fraction, bound: int = 0) -> _core.Sampler:
    """Return the prepared discrete Laplace law, kept to |x| <= bound if bound > 0."""
    law = _digits.laplace(scale)
    within = 1.0
    if bound:  # 1 - P(|X| > bound), for the number of trials only
        rate = scale.denominator / scale.numerator
        within = 1 - 2 * math.exp(-(bound + 1) * rate) / (1 + math.exp(-rate))
    return _core.Sampler.digits(law, law.settle, bound, within)


@lru_cache(maxsize=512)
def gaussian_sampler(sigma: Fraction) -> _core.Sampler:
    """Return the prepared discrete Gaussian law."""
    law = _tilt.gaussian(sigma)
    if isinstance(law, _digits.Digits):
        return _core.Sampler.digits(law, law.settle)
    return _core.Sampler.tilted(law, law.settle)


@lru_cache(maxsize=512)
def bernoulli_law(p: Fraction) -> _core.Bernoulli:
    """Return the prepared law of bits that are 1 with probability `p`."""
    table = _exact_bits.patterns(p)
    return _core.Bernoulli(table, _exact_bits.bernoulli(table))


@lru_cache(maxsize=512)
def response_law(truth: Fraction, categories: int) -> _core.Response:
    """Return the prepared k-ary response; `truth` is a multiple of 2**-64."""
    return _core.Response(truth, categories, _exact_bits.response(truth, categories))
