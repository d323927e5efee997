"""A plugin of pytest: dp_accounting's own tests run over the adapter's accountants."""

import dp_accounting
from dp_accounting import pld, rdp
from dp_accounting.pld import pld_privacy_accountant
from dp_accounting.rdp import rdp_privacy_accountant

from fastdp.adapters.dp_accounting import PLDAccountant, RdpAccountant


class Rdp(RdpAccountant):
    """The tests read the divergence by its private name."""

    _rdp = property(lambda self: self.rdp)


pld_privacy_accountant.PLDAccountant = pld.PLDAccountant = PLDAccountant
rdp_privacy_accountant.RdpAccountant = rdp.RdpAccountant = Rdp
assert dp_accounting.pld.PLDAccountant is PLDAccountant
