"""Where public classes and functions say that they are: where users import them."""

from types import FunctionType
from typing import Any


def show(namespace: dict[str, Any]) -> None:
    """Give what a module lists the module's name, unless that is shorter already.

    `namespace` is the module's ``globals()``. An object that a module above lists,
    too, ends with that one's name, since it is imported later.
    """
    module = namespace["__name__"]
    for name in namespace["__all__"]:
        value = namespace.get(name)
        # a wrapper of the core is no function of Python's
        if isinstance(value, (type, FunctionType)) or hasattr(value, "__wrapped__"):
            own = value.__module__
            if own.startswith("fastdp.") and own.count(".") >= module.count("."):
                value.__module__ = module
