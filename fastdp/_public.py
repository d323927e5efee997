"""Set `__module__` of public classes and functions to the users' import path."""

from types import FunctionType
from typing import Any


def show(namespace: dict[str, Any]) -> None:
    """Set `__module__` of a module's public objects, unless they have a shorter one.

    `namespace` is the module's ``globals()``. If a parent module also exports an
    object, the object gets the parent's name, because the parent finishes later.
    """
    module = namespace["__name__"]
    for name in namespace["__all__"]:
        value = namespace.get(name)
        # a wrapper made by the core is not of FunctionType
        if isinstance(value, (type, FunctionType)) or hasattr(value, "__wrapped__"):
            own = value.__module__
            if own.startswith("fastdp.") and own.count(".") >= module.count("."):
                value.__module__ = module
