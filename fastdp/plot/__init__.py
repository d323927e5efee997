"""Pictures (they need matplotlib: ``pip install "fastdp[plot]"``).

Figures are made without pyplot, so no window opens and no state is kept. They show only
released values or accountants' results, so drawing costs no privacy. In pictures of
accounting every number comes from an accountant and is a bound. Other numbers are
passed separately, drawn dashed, and named approximations in the legend.
"""

from fastdp import _public
from fastdp.plot._accounting import epsilon_against_count, overview, profile, trade_off
from fastdp.plot._amplification import (
    epsilon_against_clients,
    epsilon_against_iterations,
    epsilon_against_rate,
)
from fastdp.plot._frequencies import frequencies, most_frequent
from fastdp.plot._groups import intervals, keep_probability
from fastdp.plot._local import local_means, local_variance
from fastdp.plot._running import cumulative, prefix_errors, running

__all__ = [
    "cumulative",
    "epsilon_against_clients",
    "epsilon_against_count",
    "epsilon_against_iterations",
    "epsilon_against_rate",
    "frequencies",
    "intervals",
    "keep_probability",
    "local_means",
    "local_variance",
    "most_frequent",
    "overview",
    "prefix_errors",
    "profile",
    "running",
    "trade_off",
]

_public.show(globals())
