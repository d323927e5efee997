"""A private table, described once: from records to counts, sums, means and histograms.

A `Plan` holds every public choice: the hidden unit, the limits for one unit, the
statistics, the groups and the budget. It knows its cost and its noise before it sees a
record. An engine (numpy, DuckDB, Spark) computes the sums; noise, selection, intervals
and the ledger are here. `count`, `mean` and the others are plans of one statistic.
"""

from __future__ import annotations

from fastdp import _public
from fastdp.tables._accuracy import Accuracy
from fastdp.tables._check import Check
from fastdp.tables._plan import Plan
from fastdp.tables._quick import (
    count,
    histogram,
    mean,
    median,
    quantiles,
    std,
    sum,
    variance,
)
from fastdp.tables._release import Release
from fastdp.tables._report import Report
from fastdp.tables._unit import Rows, Unit

__all__ = [
    "Accuracy",
    "Check",
    "Plan",
    "Release",
    "Report",
    "Rows",
    "Unit",
    "count",
    "histogram",
    "mean",
    "median",
    "quantiles",
    "std",
    "sum",
    "variance",
]

_public.show(globals())
