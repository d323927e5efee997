"""Calculators: whole mechanisms as people run them, and what they cost.

Each takes the plain parameters of a known algorithm, checks the conditions of its
analysis and returns a plan with its event, for the accountants, and its guarantee.
"""

from fastdp.accounting.calculators._dp_sgd import DPSGDPlan, dp_sgd

__all__ = ["DPSGDPlan", "dp_sgd"]
