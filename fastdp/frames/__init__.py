"""Noise on frames of any library, evaluated once.

Noise in a lazy plan is drawn again whenever an engine evaluates the plan again. The
functions here read a frame once, draw immediately, and return constants. They accept
frames with Arrow's stream protocol (pyarrow, pandas, polars, DuckDB) and Spark
DataFrames; Spark computes sums but never draws the noise. docs/frames.md and
docs/spark.md show the danger and the safe call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdp import _public
from fastdp.frames._release import batches, randomize, release, tally

__all__ = [
    "batches",
    "randomize",
    "release",
    "tally",
]

_public.show(globals())

if not TYPE_CHECKING:

    def __getattr__(name):
        if name in ("aggregate", "explain", "Aggregate"):
            raise AttributeError(
                f"fastdp.frames.{name} was replaced by fastdp.Plan(...) "
                'with release(source) and sql(source); user="person" is '
                'now unit=fastdp.Unit("person", groups=..., records=...)'
            )
        raise AttributeError(f"module 'fastdp.frames' has no attribute {name!r}")
