"""Local mechanisms: users privatize their own data; a server estimates from reports.

Every constructor and function refuses a parameter of the wrong type with DTypeError,
and one out of its domain with ParameterError. Docstrings name what else can fail.
"""

from fastdp import _public
from fastdp.mechanisms.local._base import FrequencyOracle
from fastdp.mechanisms.local._mechanism import Aggregator, LocalMechanism
from fastdp.mechanisms.local.count_mean_sketch import CountMeanSketch, Sketch
from fastdp.mechanisms.local.estimates import (
    ConsistentEstimate,
    FrequencyEstimate,
    MeanEstimate,
    ValueEstimate,
    VectorEstimate,
)
from fastdp.mechanisms.local.hadamard_response import HadamardResponse
from fastdp.mechanisms.local.hunt import Hunt
from fastdp.mechanisms.local.local_hashing import LocalHashing
from fastdp.mechanisms.local.local_mean import LocalMean
from fastdp.mechanisms.local.planning import best_frequency_oracle
from fastdp.mechanisms.local.prefix_hunt import PrefixHunt
from fastdp.mechanisms.local.randomized_response import RandomizedResponse
from fastdp.mechanisms.local.rappor import BloomCounts, Rappor
from fastdp.mechanisms.local.shuffled_response import ShuffledResponse
from fastdp.mechanisms.local.subset_selection import SubsetSelection
from fastdp.mechanisms.local.unary_encoding import UnaryEncoding
from fastdp.mechanisms.local.vector_response import VectorResponse

__all__ = [
    "Aggregator",
    "BloomCounts",
    "ConsistentEstimate",
    "CountMeanSketch",
    "FrequencyEstimate",
    "FrequencyOracle",
    "HadamardResponse",
    "Hunt",
    "LocalHashing",
    "LocalMean",
    "LocalMechanism",
    "MeanEstimate",
    "PrefixHunt",
    "RandomizedResponse",
    "Rappor",
    "ShuffledResponse",
    "Sketch",
    "SubsetSelection",
    "UnaryEncoding",
    "ValueEstimate",
    "VectorEstimate",
    "VectorResponse",
    "best_frequency_oracle",
]

_public.show(globals())
