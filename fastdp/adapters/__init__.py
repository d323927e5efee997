"""Adapters for other libraries, each in a module that loads its library on use.

Each has an extra with its name: ``pip install "fastdp[dp_accounting]"`` and ``from
fastdp.adapters import dp_accounting``. See docs/howto/be_a_backend.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastdp.adapters import diffprivlib as diffprivlib
    from fastdp.adapters import dp_accounting as dp_accounting
    from fastdp.adapters import jax_privacy as jax_privacy
    from fastdp.adapters import mbi as mbi
    from fastdp.adapters import opacus as opacus
    from fastdp.adapters import opendp as opendp
    from fastdp.adapters import pipeline_dp as pipeline_dp

__all__ = [
    *("diffprivlib", "dp_accounting", "jax_privacy", "mbi", "opacus", "opendp"),
    "pipeline_dp",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
