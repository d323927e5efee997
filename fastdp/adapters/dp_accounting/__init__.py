"""dp_accounting: its events as ours and ours as its own, accountants in its interface.

Its events state no neighboring relation; the accountant that reads them does. They are
about values whose norm is at most C, with noise in units of C: a sum moves by C when a
record is added or removed, and by 2 C when one is replaced. Numbers that its doubles
cannot hold are rounded toward more privacy loss. docs/howto/dp_accounting.md.
"""

from fastdp import _public
from fastdp.adapters.dp_accounting._accountants import PLDAccountant, RdpAccountant
from fastdp.adapters.dp_accounting._ours import from_dp_event
from fastdp.adapters.dp_accounting._theirs import to_dp_event

__all__ = ["PLDAccountant", "RdpAccountant", "from_dp_event", "to_dp_event"]

_public.show(globals())
