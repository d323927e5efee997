"""Audits: tests that try to refute what is claimed of a mechanism, whoever wrote it.

`run` calls the mechanism with neighboring inputs and looks for what the claim does not
allow: events that one input makes too likely, outputs that only one of them gives, a
law that is another, the same noise twice, errors, hanging. What it reports is wrong
but for a stated probability. What it does not find may be there all the same: an audit
refutes claims, and proves none.
"""

from fastdp import _public
from fastdp.audit._findings import Finding
from fastdp.audit._report import Report
from fastdp.audit._run import batched, run
from fastdp.audit._worker import Batched

__all__ = ["Batched", "Finding", "Report", "batched", "run"]

_public.show(globals())
