"""Facts of events, by `facts_of(event)`, with one entry for every kind.

This layer is below all accountants and readings (tests/packaging/test_layers.py).
"""

from fastdp.accounting._facts import (
    allocation,
    choices,
    composed,
    mixtures,
    noise,
    samples,
    stated,
)
from fastdp.accounting._facts.base import (
    Facts,
    Reader,
    facts_of,
    require_pure,
    require_rho,
)
from fastdp.accounting._facts.composed import grouped, leaves

__all__ = [
    "Facts",
    "Reader",
    "allocation",
    "choices",
    "composed",
    "facts_of",
    "grouped",
    "leaves",
    "mixtures",
    "noise",
    "require_pure",
    "require_rho",
    "samples",
    "stated",
]
