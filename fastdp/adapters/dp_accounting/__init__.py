"""dp_accounting: conversion of events both ways, and accountants with its interface.

Its events state no neighboring relation; its accountants do. The events are for values
of norm at most C, with noise in units of C: adding or removing a record changes a sum
by C, and replacing one changes it by 2 C. Numbers that its doubles cannot hold are
rounded toward more privacy loss. docs/howto/dp_accounting.md.
"""

from fastdp import _public
from fastdp.adapters.dp_accounting._accountants import PLDAccountant, RdpAccountant
from fastdp.adapters.dp_accounting._ours import from_dp_event
from fastdp.adapters.dp_accounting._theirs import to_dp_event

__all__ = ["PLDAccountant", "RdpAccountant", "from_dp_event", "to_dp_event"]

_public.show(globals())
