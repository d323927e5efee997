"""Calculators: the cost of whole mechanisms as they are used in practice.

Each calculator accepts the plain parameters of a known algorithm, checks the conditions
of its analysis and returns a plan with the event (for the accountants) and the
guarantee.
"""

from fastdp import _public
from fastdp.accounting.calculators._classics import (
    ERMPlan,
    ExponentialMechanismError,
    ProposeTestReleasePlan,
    SubsampleAggregatePlan,
    exponential_mechanism_erm,
    exponential_mechanism_error,
    propose_test_release,
    subsample_and_aggregate,
)
from fastdp.accounting.calculators._dp_sgd import DPSGDPlan, dp_sgd
from fastdp.accounting.calculators._matrix import (
    MatrixPlan,
    matrix_mechanism,
    optimized_bands,
    participation_sensitivity,
)
from fastdp.accounting.calculators._pate import data_dependent_pate_divergence, pate
from fastdp.accounting.calculators._pate_smooth import (
    DataDependentPATE,
    data_dependent_pate_smooth_sensitivity,
    smooth_sensitivity_divergence,
)
from fastdp.accounting.calculators._shuffle_histogram import (
    ShuffleHistogramPlan,
    shuffle_histogram,
)
from fastdp.accounting.calculators._tuning import TuningPlan, private_tuning

__all__ = [
    "DPSGDPlan",
    "DataDependentPATE",
    "ERMPlan",
    "ExponentialMechanismError",
    "MatrixPlan",
    "ProposeTestReleasePlan",
    "ShuffleHistogramPlan",
    "SubsampleAggregatePlan",
    "TuningPlan",
    "data_dependent_pate_divergence",
    "data_dependent_pate_smooth_sensitivity",
    "dp_sgd",
    "exponential_mechanism_erm",
    "exponential_mechanism_error",
    "matrix_mechanism",
    "optimized_bands",
    "participation_sensitivity",
    "pate",
    "private_tuning",
    "propose_test_release",
    "shuffle_histogram",
    "smooth_sensitivity_divergence",
    "subsample_and_aggregate",
]

_public.show(globals())
