"""Base of mechanisms with a memory: bound to one process, and wiped at the end."""

from __future__ import annotations

import os
import threading
import weakref
from typing import ClassVar, NoReturn

from fastdp.exceptions import BudgetExceededError, DTypeError
from fastdp.mechanisms._base import Mechanism

#: All such objects of this process, and a token that a fork replaces. The process id
#: does not suffice: in a new namespace a child can have the id of its parent.
_living: weakref.WeakSet[Remembering] = weakref.WeakSet()
_process = object()


def _in_forked_child() -> None:
    global _process
    _process = object()
    for memory in list(_living):
        memory._wipe()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


class Remembering(Mechanism):
    """Base of the mechanisms that hold private numbers between calls.

    They refuse copies, pickling, and use in a forked child, in which the memory is
    wiped. `_called` and `_because` are the name and the reason in these errors.
    """

    __slots__ = ("__weakref__", "_home", "_lock")

    _called: ClassVar[str]
    _because: ClassVar[str]
    _stated = False

    _home: tuple[object, int]
    _lock: threading.Lock

    def _settle(self) -> None:
        """Bind the object to this process; call it at the end of the constructor."""
        self._freeze(_home=(_process, os.getpid()), _lock=threading.Lock())
        _living.add(self)

    def _require_home(self) -> None:
        if self._home[0] is not _process or self._home[1] != os.getpid():
            raise BudgetExceededError(
                f"{self._called} must be used in the process that made it"
            )

    def _wipe(self) -> None:
        """Overwrite private numbers."""
        raise NotImplementedError

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __reduce__(self) -> NoReturn:
        raise DTypeError(f"{self._called} cannot be copied or pickled: {self._because}")

    __getstate__ = __reduce__
