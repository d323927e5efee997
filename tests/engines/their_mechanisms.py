"""A plugin of pytest: diffprivlib's own tests run over the adapter's mechanisms.

They give seeds, which ours refuse: here these are dropped.
"""

import inspect

from diffprivlib import mechanisms as theirs

from fastdp.adapters.diffprivlib import mechanisms


def _without_seed(ours, name):
    def init(self, *, random_state=None, **arguments):
        ours.__init__(self, **arguments)

    signature = inspect.signature(getattr(theirs, name))
    return type(name, (ours,), {"__init__": init, "__signature__": signature})


for _name in mechanisms.__all__:
    setattr(theirs, _name, _without_seed(getattr(mechanisms, _name), _name))
