"""Audits: tests that try to refute the claims about a mechanism of any origin.

`run` calls the mechanism with neighboring inputs and looks for violations of the claim:
events that are too likely for one input, outputs that only one input gives, a different
law, repeated noise, errors, and hanging calls. A reported violation is real, except
with a stated probability. A violation may exist even if none is found: an audit refutes
claims and proves none.
"""

from fastdp import _public
from fastdp.audit._findings import Finding
from fastdp.audit._report import Report
from fastdp.audit._run import batched, run
from fastdp.audit._worker import Batched

__all__ = ["Batched", "Finding", "Report", "batched", "run"]

_public.show(globals())
